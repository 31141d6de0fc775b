"""Reads a Serve config into a ServeApp, or says line by line what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kvrelay.errors import InvalidFileError
from kvrelay.serve_app.app import Engine, ServeApp, engines_of
from kvrelay.serve_app.config import (
    PLAIN_BUILDER,
    PREFILL_DECODE_BUILDER,
    PlainApplication,
    PrefillDecodeApplication,
    ServeFile,
    builder_of,
)
from kvrelay.settings.faults import fault_line, fault_lines
from kvrelay.yaml_source import Document, Node, YamlPath, path_text, read_document


def load_serve_app(path: Path) -> ServeApp:
    """Reads a Serve config from a file. Raises InvalidFileError with one line for each fault."""
    return parse_serve_app(read_document(path))


def parse_serve_app(document: Document) -> ServeApp:
    """Reads a Serve config from a document that was read already. Raises InvalidFileError."""
    if not isinstance(document.value, dict):
        raise InvalidFileError(
            [f"{document.place()}: is not a mapping; a Ray Serve config with applications is needed"]
        )
    document = _with_engine_files(document)
    try:
        typed = ServeFile.model_validate_json(json.dumps(document.value), strict=True)
    except ValidationError as error:
        raise InvalidFileError(fault_lines(error, ServeFile, document)) from None
    except (TypeError, ValueError):
        raise InvalidFileError(
            [f"{document.file}: has keys that are neither text nor numbers; correct them"]
        ) from None
    index = _serving_application(document, typed)
    engines = tuple(
        Engine(role, config, path, document)
        for role, config, path in engines_of(typed.applications[index], ("applications", index))
    )
    app = ServeApp(document, document.value, typed, index, engines)
    if faults := list(_faults(app)):
        raise InvalidFileError(faults)
    return app


def _serving_application(document: Document, typed: ServeFile) -> int:
    serving = [
        index
        for index, each in enumerate(typed.applications)
        if isinstance(each, PrefillDecodeApplication | PlainApplication)
    ]
    if len(serving) == 1:
        return serving[0]
    if not serving:
        path: YamlPath = ("applications", 0, "import_path")
        problem = f"serves no language model; use {PREFILL_DECODE_BUILDER} or {PLAIN_BUILDER}"
    else:
        path = ("applications", serving[1], "import_path")
        problem = (
            f"serves a second model beside {path_text(('applications', serving[0]))}; "
            "one file serves one model: give this one a file and a deployment of its own"
        )
    raise InvalidFileError([fault_line(document, path, document.at(path), problem)])


def _faults(app: ServeApp) -> Iterator[str]:
    """What makes the app impossible, beyond the shape of the file. The rest is for kvrelay.rules."""
    if not app.is_prefill_decode:
        if len(app.engines) > 1:
            yield app.engines[1].fault(
                ("model_loading_config", "model_id"),
                app.engines[1].model_id,
                "is a second model; one file serves one model: give it a file and a deployment of its own",
            )
        return
    prefill, decode = app.engines
    if prefill.model_id != decode.model_id:
        yield decode.fault(
            ("model_loading_config", "model_id"),
            decode.model_id,
            f"differs from prefill's {prefill.model_id!r}; both serve one model, write the same",
        )
    for engine in app.engines:
        if engine.kv_transfer is None:
            yield engine.fault(
                ("engine_kwargs", "kv_transfer_config"),
                None,
                "is missing, so no KV cache would move; add it with kv_connector: NixlConnector",
            )


def _with_engine_files(document: Document) -> Document:
    """The document with the engine configs that it names by path put in their place.

    Ray reads such a path where the app is built; on a cluster that file is not there.
    """
    applications = document.root.children.get("applications")
    for application in applications.children.values() if applications else ():
        if builder_of(application.value) != PREFILL_DECODE_BUILDER or "args" not in application.children:
            continue
        args = application.children["args"]
        for name in ("prefill_config", "decode_config"):
            node = args.children.get(name)
            if node and isinstance(node.value, str):
                return _with_engine_files(_replaced(document, node, Path(document.file).parent / node.value))
    return document


def _replaced(document: Document, node: Node, path: Path) -> Document:
    inner = read_document(path)
    if not isinstance(inner.value, dict):
        raise InvalidFileError([f"{inner.place()}: is not a mapping; an engine's config is needed"])
    # Its lines are lines of another file: all its places become the line that names that file.
    return Document(document.file, _copied(document.root, node, _placed(inner.root, node)))


def _placed(node: Node, at: Node) -> Node:
    children = {key: _placed(child, at) for key, child in node.children.items()}
    return Node(node.value, at.line, at.column, children, node.values)


def _copied(node: Node, old: Node, new: Node) -> Node:
    if node is old:
        return new
    children = {key: _copied(child, old, new) for key, child in node.children.items()}
    value: Any = node.value
    if isinstance(value, dict):
        value = {key: child.value for key, child in children.items()}
    elif isinstance(value, list):
        value = [child.value for child in children.values()]
    return Node(value, node.line, node.column, children, node.values, node.text_origin)
