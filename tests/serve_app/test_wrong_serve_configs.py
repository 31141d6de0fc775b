"""A wrong serve config is told in one line: file, line, path, value, what would be right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kvrelay.errors import InvalidFileError
from kvrelay.serve_app import load_serve_app, parse_serve_app, worker_groups
from kvrelay.settings import Deployment
from kvrelay.yaml_source import parse_documents
from tests.serve_app.examples import SERVE_CONFIGS, engine, example, parsed, prefill_decode

PREFILL = "applications[0].args.prefill_config"
DECODE = "applications[0].args.decode_config"


def _engine(path: str, value: Any) -> dict[str, Any]:
    """The smallest engine config with one value changed; None removes it."""
    config = engine()
    *above, last = path.split(".")
    part = config
    for key in above:
        part = part.setdefault(key, {})
    part[last] = value
    if value is None:
        del part[last]
    return config


def _ingress(config: Any) -> dict[str, Any]:
    """The smallest app with that `ingress_cls_config`."""
    app = prefill_decode()
    app["applications"][0]["args"]["ingress_cls_config"] = config
    return app


WRONG: list[tuple[Any, str, str]] = [
    (_ingress("mine:Ingress"), "applications[0].args.ingress_cls_config", "a mapping of settings is needed"),
    (
        _ingress({"ingress_cls": "Ingress"}),
        "applications[0].args.ingress_cls_config.ingress_cls",
        "write module:Class",
    ),
    (_ingress({"ingress_cls": None}), "applications[0].args.ingress_cls_config.ingress_cls", "is empty"),
    ([1], "", "is not a mapping"),
    ({}, "applications", "is missing; add it"),
    ({"applications": []}, "applications", "has 0 entries"),
    ({"applications": [{"name": "x"}]}, "applications[0].import_path", "is missing; add it"),
    (
        {"applications": [{"import_path": "my.app:app"}]},
        "applications[0].import_path",
        "serves no language model; use ray.serve.llm:build_pd_openai_app",
    ),
    (
        {"applications": [prefill_decode()["applications"][0], prefill_decode()["applications"][0]]},
        "applications[1].import_path",
        "serves a second model beside applications[0]",
    ),
    (
        {
            "applications": [
                {"import_path": "ray.serve.llm:build_pd_openai_app", "args": {"prefill_config": engine()}}
            ]
        },
        DECODE,
        "is missing; add it",
    ),
    (
        prefill_decode(decode=_engine("model_loading_config.model_id", "n")),
        f"{DECODE}.model_loading_config.model_id",
        "'n' differs from prefill's 'm'",
    ),
    (
        prefill_decode(prefill=_engine("engine_kwargs.kv_transfer_config", None)),
        f"{PREFILL}.engine_kwargs.kv_transfer_config",
        "is missing, so no KV cache would move",
    ),
    (
        prefill_decode(decode=_engine("engine_kwargs.kv_transfer_config.kv_connector", "NixlConector")),
        f"{DECODE}.engine_kwargs.kv_transfer_config",
        "names the connector NixlConector, which vLLM does not have; use NixlConnector",
    ),
    (
        prefill_decode(decode=_engine("engine_kwargs.kv_transfer_config.kv_role", "consumer")),
        f"{DECODE}.engine_kwargs.kv_transfer_config.kv_role",
        "'consumer' is not one of the choices",
    ),
    (
        prefill_decode(decode=_engine("engine_kwargs.tensor_parallel_size", "8")),
        f"{DECODE}.engine_kwargs.tensor_parallel_size",
        "a whole number is needed",
    ),
    (
        prefill_decode(
            prefill=_engine("engine_kwargs.kv_transfer_config.kv_connector_extra_config", {"backends": "UCX"})
        ),
        f"{PREFILL}.engine_kwargs.kv_transfer_config.kv_connector_extra_config",
        "write backends: [LIBFABRIC]",
    ),
    (
        prefill_decode(prefill=_engine("deployment_config.num_replicas", 0)),
        f"{PREFILL}.deployment_config.num_replicas",
        "0 is no number of replicas",
    ),
    (
        prefill_decode(
            prefill=_engine("deployment_config.autoscaling_config", {"min_replicas": 3, "max_replicas": 2})
        ),
        f"{PREFILL}.deployment_config.autoscaling_config",
        "keep min_replicas <= max_replicas",
    ),
    (
        prefill_decode(prefill=_engine("placement_group_config", {"strategy": "PACK"})),
        f"{PREFILL}.placement_group_config",
        "needs bundle_per_worker or bundles",
    ),
    (
        prefill_decode(prefill=_engine("runtime_env.env_vars", {"PORT": 1})),
        f"{PREFILL}.runtime_env.env_vars.PORT",
        "write it in quotes",
    ),
]


@pytest.mark.parametrize(("config", "path", "problem"), WRONG)
def test_it_is_told_with_its_path_and_its_mend(config: Any, path: str, problem: str) -> None:
    with pytest.raises(InvalidFileError) as caught:
        parsed(config)
    assert len(caught.value.lines) == 1
    (line,) = caught.value.lines
    assert line.startswith("app.yaml:")
    assert f" {path}: " in line or not path
    assert problem in line


def test_the_line_is_that_of_the_wrong_value() -> None:
    file = SERVE_CONFIGS / "qwen3-8b.yaml"
    lines = file.read_text().splitlines()
    where = next(number for number, line in enumerate(lines, 1) if "kv_role: kv_consumer" in line)
    with pytest.raises(InvalidFileError) as caught:
        _parse(file.read_text().replace("kv_role: kv_consumer", "kv_role: decoder"))
    assert caught.value.lines[0].partition(": ")[0].endswith(f":{where}")


def _parse(text: str) -> None:
    (document,) = parse_documents(text, "app.yaml")
    parse_serve_app(document)


TOO_LARGE: list[tuple[str, dict[str, Any], str]] = [
    ("llama-3.3-70b", {}, "is more than the 1 GPU of a g6.8xlarge"),
    ("qwen3-8b-2p1d", {}, "prefill 2, decode 1 of node group gpu, which has count 2; raise its count to 3"),
    (
        "qwen3-8b",
        {"serving": {"upgrade": "surge"}},
        "(twice, since serving.upgrade is surge) of node group gpu, which has max_count 2; raise its max_count to 4",
    ),
]


@pytest.mark.parametrize(("name", "settings", "problem"), TOO_LARGE)
def test_an_app_too_large_for_its_nodes_is_told_at_its_own_line(
    name: str, settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidFileError) as caught:
        worker_groups(example(name), Deployment.model_validate(settings))
    assert problem in caught.value.lines[0]
    assert caught.value.lines[0].startswith(f"{SERVE_CONFIGS / name}.yaml:")


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"accelerator_type": "H100"}, "'H100' is not what a g6.8xlarge of node group gpu has; write L4"),
        ({"placement_group_config": {"bundles": [{"CPU": 1}]}}, "asks Ray for no whole GPU"),
        ({"deployment_config": {"num_replicas": "auto"}}, "has no max_replicas"),
    ],
)
def test_an_engine_that_its_nodes_cannot_run_is_told(more: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidFileError) as caught:
        worker_groups(parsed(prefill_decode(prefill=engine(**more))), Deployment())
    assert problem in str(caught.value)


def test_a_missing_engine_file_is_told_and_a_present_one_is_put_in_its_place(tmp_path: Path) -> None:
    app = SERVE_CONFIGS / "qwen3-8b.yaml"
    config = tmp_path / "app.yaml"
    text = app.read_text()
    start, end = text.index("      decode_config:"), text.index("      ingress_deployment_config:")
    config.write_text(f"{text[:start]}      decode_config: decode.yaml\n{text[end:]}")
    with pytest.raises(InvalidFileError, match=r"decode\.yaml"):
        load_serve_app(config)
    whole = yaml.safe_load(text)
    (tmp_path / "decode.yaml").write_text(
        yaml.safe_dump(whole["applications"][0]["args"]["decode_config"], sort_keys=False)
    )
    assert load_serve_app(config).config == whole
    assert load_serve_app(config).engines[1].replicas == example("qwen3-8b").engines[1].replicas
