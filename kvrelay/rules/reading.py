"""Tells by its content what a file is, and gathers files into a subject for the rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvrelay.errors import InvalidFileError, UserError
from kvrelay.rules.acknowledgements import Acknowledgement, of_comments
from kvrelay.rules.serve import ServeConfig
from kvrelay.rules.subject import Subject
from kvrelay.rules.value import Value
from kvrelay.yaml_source import Document, parse_documents, read_text

if TYPE_CHECKING:
    from kvrelay.settings.reading import DeploymentFile

_ENGINE_REFERENCES = ("prefill_config", "decode_config")
_SUFFIXES = (".yaml", ".yml")


@dataclass
class Files:
    """What was read so far."""

    deployment: DeploymentFile | None = None
    serve_configs: list[ServeConfig] = field(default_factory=list)
    manifests: list[Document] = field(default_factory=list)
    comments: list[Acknowledgement] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def add(self, path: Path, text: str | None = None) -> None:
        """Reads a file. Raises UserError, one line, when it can't be read or is of no kind that rules know."""
        name = str(path) if text is None else "<stdin>"
        text = read_text(path) if text is None else text
        documents = self._parsed(text, name)
        for document in documents:
            kind = kind_of(document.value)
            if kind == "serve":
                self._add_serve_config(document, text, path.parent)
            elif kind == "manifest":
                self.manifests.append(document)
            elif kind == "deployment":
                self._add_deployment(path)
            else:
                raise InvalidFileError(
                    [
                        f"{document.place()}: is no deployment.yaml, Ray Serve config or Kubernetes manifest; "
                        "is it the right file?"
                    ]
                )
        if not documents:
            raise InvalidFileError([f"{name}: is empty"])
        self.names.append(name)

    def add_folder(self, folder: Path) -> None:
        """Reads every YAML file below a folder that holds something rules know."""
        known = len(self.names)
        for path in yaml_files(folder):
            text = read_text(path)
            documents = self._parsed(text, str(path))
            if documents and all(kind_of(document.value) for document in documents):
                self.add(path)
        if len(self.names) == known:
            raise UserError(f"{folder}: holds no deployment.yaml, Ray Serve config or Kubernetes manifest")

    def add_named_serve_config(self) -> None:
        """Reads the Serve config that the deployment names, unless one was given."""
        if self.deployment and not self.serve_configs:
            self.add(self.deployment.serve_config_path)

    def subject(self) -> Subject:
        return Subject(self.deployment, self.serve_configs, self.manifests, self.comments)

    def _parsed(self, text: str, name: str) -> list[Document]:
        try:
            return parse_documents(text, name)
        except InvalidFileError as error:
            if "{{" in text:
                line = f"{error.lines[0]}. It looks like a Helm template: check what `helm template` prints"
                raise InvalidFileError([line]) from None
            raise

    def _add_deployment(self, path: Path) -> None:
        from kvrelay.settings.reading import read_deployment

        if self.deployment:
            raise InvalidFileError(
                [f"{path}: is a second deployment.yaml beside {self.deployment.document.file}; check one"]
            )
        self.deployment = read_deployment(path)

    def _add_serve_config(self, document: Document, text: str, folder: Path) -> None:
        root = Value.root(document)
        config = ServeConfig(root)
        referenced: dict[str, Value] = {}
        for app in config.applications if config.applications else []:
            for name in _ENGINE_REFERENCES:
                reference = app.arguments[name].text
                if reference and app.is_prefill_decode:
                    referenced |= self._engine_config(reference, folder)
        self.serve_configs.append(ServeConfig(root, referenced=referenced))
        self.comments += of_comments(text, document)

    def _engine_config(self, reference: str, folder: Path) -> dict[str, Value]:
        path = folder / reference
        try:
            if not path.is_file():
                return {}
        except ValueError:
            return {}
        text = read_text(path)
        documents = parse_documents(text, str(path))
        if len(documents) != 1:
            return {}
        self.comments += of_comments(text, documents[0])
        return {reference: Value.root(documents[0])}


def subject_of(deployment: DeploymentFile) -> Subject:
    """A deployment that was read already, with the Serve config that it names."""
    files = Files(deployment=deployment)
    files.add_named_serve_config()
    return files.subject()


def kind_of(value: Any) -> str | None:
    """`manifest`, `serve` or `deployment` by what a document holds; None when it is none of them."""
    if not isinstance(value, dict):
        return None
    if "kind" in value and ("apiVersion" in value or "api_version" in value):
        return "manifest"
    if "applications" in value or "import_path" in value:
        return "serve"
    # Not at import: manifests alone need no settings.
    from kvrelay.settings import Deployment

    keys = {key for key in value if isinstance(key, str)}
    known = keys & Deployment.model_fields.keys()
    return "deployment" if known and 2 * len(known) >= len(keys) else None


def yaml_files(folder: Path) -> Iterator[Path]:
    """YAML files below a folder, sorted; hidden ones left out."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix in _SUFFIXES and not hidden and path.is_file():
            yield path


def gathered(paths: Iterable[Path]) -> Files:
    """Everything in files and folders; a deployment brings the Serve config that it names."""
    files = Files()
    for path in paths:
        if path.is_dir():
            files.add_folder(path)
        else:
            files.add(path)
    files.add_named_serve_config()
    return files
