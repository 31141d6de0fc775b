"""What each target adds to a portable config, and what it leaves alone."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kvrelay.errors import InvalidFileError
from kvrelay.local.serving.target import Here
from kvrelay.serve_app import (
    INGRESS_MODULE,
    INGRESS_MOUNT,
    Cpu,
    Efa,
    Engine,
    Loopback,
    Rendered,
    ServeApp,
    Target,
    parse_serve_app,
    render,
)
from kvrelay.serve_app.command import render as render_command
from kvrelay.serve_app.ingress import INGRESS_ARGUMENTS, INGRESS_CLASS
from kvrelay.settings import Deployment, Role
from kvrelay.yaml_source import parse_documents
from tests.serve_app.examples import DEPLOYMENTS, SERVE_CONFIGS, engine, example, parsed, prefill_decode


def _engines(rendered: Rendered) -> dict[Role | None, Engine]:
    (document,) = parse_documents(rendered.text, "rendered.yaml")
    return {each.role: each for each in parse_serve_app(document).engines}


def _on_efa(app: ServeApp, deployment: Deployment | None = None) -> Rendered:
    return render(app, Efa.of(app, deployment or Deployment()))


def test_efa_moves_the_cache_by_libfabric_whatever_the_file_says() -> None:
    transfer = {
        "kv_connector": "NixlConnector",
        "kv_connector_extra_config": {"backends": ["UCX"], "num_threads": 4},
    }
    app = parsed(prefill_decode(prefill=engine(engine_kwargs={"kv_transfer_config": transfer})))
    for each in _engines(_on_efa(app)).values():
        assert each.kv_transfer is not None
        assert each.kv_transfer.backends == ("LIBFABRIC",)
    assert _engines(_on_efa(app))[Role.PREFILL].arguments["kv_transfer_config"][
        "kv_connector_extra_config"
    ] == {
        "backends": ["LIBFABRIC"],
        "num_threads": 4,
    }


def test_another_connector_keeps_its_own_settings() -> None:
    transfer = {
        "kv_connector": "LMCacheConnectorV1",
        "kv_connector_extra_config": {"lmcache_rpc_port": "producer1"},
    }
    config = engine(engine_kwargs={"kv_transfer_config": transfer})
    rendered = _on_efa(parsed(prefill_decode(config, config)))
    assert _engines(rendered)[Role.DECODE].arguments["kv_transfer_config"] == transfer


@pytest.mark.parametrize(("name", "device"), [("llama-3.3-70b", "cuda"), ("qwen3-8b", None)])
def test_gpu_memory_is_registered_where_efa_reaches_it(name: str, device: str | None) -> None:
    for each in _engines(_on_efa(example(name), DEPLOYMENTS[name])).values():
        assert each.kv_transfer is not None
        assert each.kv_transfer.kv_buffer_device == device


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_every_bundle_asks_for_its_own_groups_resource_and_no_other(name: str) -> None:
    for each in _engines(_on_efa(example(name), DEPLOYMENTS[name])).values():
        assert each.bundles
        for bundle in each.bundles:
            assert {key for key in bundle if key.startswith("kvrelay_")} == {f"kvrelay_{each.name}"}


def test_bundles_of_the_file_are_kept_and_pinned() -> None:
    bundles = {"bundles": [{"CPU": 2, "GPU": 1}, {"GPU": 1}], "strategy": "SPREAD"}
    config = engine(placement_group_config=bundles)
    app = parsed(prefill_decode(config, config))
    group = _engines(_on_efa(app))[Role.PREFILL].config.placement_group_config
    assert group is not None
    assert group.bundles == [
        {"CPU": 2, "GPU": 1, "kvrelay_prefill": 0.001},
        {"GPU": 1, "kvrelay_prefill": 0.001},
    ]
    assert group.strategy == "SPREAD"


def test_tensor_parallel_stays_on_one_node() -> None:
    name = "llama-3.3-70b"
    group = _engines(_on_efa(example(name), DEPLOYMENTS[name]))[Role.DECODE].config.placement_group_config
    assert group is not None
    assert group.strategy == "STRICT_PACK"


@pytest.mark.parametrize(
    ("source", "layout"),
    [
        ("Qwen/Qwen3.5-9B", "DS"),
        ("/models/Qwen3.5-4B", "DS"),
        ("Qwen/Qwen3-8B", None),
        ("/models/mine", None),
    ],
)
def test_a_hybrid_model_gets_its_state_layout(source: str, layout: str | None) -> None:
    config = engine(model_loading_config={"model_id": "m", "model_source": source})
    app = parsed(prefill_decode(config, config))
    for target in (Efa.of(app, Deployment()), Loopback()):
        for each in _engines(render(app, target)).values():
            assert each.config.runtime_env.env_vars.get("VLLM_SSM_CONV_STATE_LAYOUT") == layout


def test_ports_of_the_two_roles_never_meet() -> None:
    engines = _engines(_on_efa(parsed(prefill_decode())))
    ports = [each.config.runtime_env.env_vars["VLLM_DP_MASTER_PORT"] for each in engines.values()]
    bases = [each.side_channel_port_base for each in engines.values()]
    assert ports == ["29400", "29600"]
    assert bases == [20000, 22000]


def test_prompts_are_not_logged_unless_the_file_asks_for_it() -> None:
    variable = "RAYLLM_ENABLE_REQUEST_PROMPT_LOGS"
    asked = prefill_decode(runtime_env={"env_vars": {variable: "1"}})
    for config, value in ((prefill_decode(), "0"), (asked, "1")):
        rendered = _on_efa(parsed(config)).config
        assert rendered["applications"][0]["runtime_env"]["env_vars"][variable] == value


def test_other_pods_reach_the_endpoint_on_efa_and_nobody_else_does_on_one_host() -> None:
    app = parsed({**prefill_decode(), "http_options": {"host": "0.0.0.0", "port": 9000}})
    assert _on_efa(app).config["http_options"] == {"host": "0.0.0.0", "port": 9000}
    assert render(app, Loopback()).config["http_options"] == {"host": "127.0.0.1", "port": 9000}
    assert render(app, Cpu(port=8123)).config["http_options"] == {"host": "127.0.0.1", "port": 8123}


def test_gpus_of_one_host_read_each_others_memory_where_they_have_no_nvlink() -> None:
    for path in sorted(SERVE_CONFIGS.glob("*.yaml")):
        app = parse_serve_app(parse_documents(path.read_text(), path.name)[0])
        for each in parsed(render(app, Loopback()).config).engines:
            said = each.get("runtime_env", "env_vars", "UCX_CUDA_IPC_ENABLE_GET_ZCOPY")
            assert said == ("on" if each.kv_transfer else None)


def test_engines_that_share_a_gpu_tell_ray_and_vllm_the_same_part() -> None:
    app = parsed(prefill_decode())
    rendered = render(app, Loopback(gpu_share=0.4))
    for each in _engines(rendered).values():
        assert each.bundles == ({"GPU": 0.4},)
        assert each.config.runtime_env.env_vars["VLLM_RAY_PER_WORKER_GPUS"] == "0.4"
        assert each.arguments["gpu_memory_utilization"] == pytest.approx(0.36)
    assert "VLLM_RAY_PER_WORKER_GPUS" not in render(app, Loopback()).text


def test_cpu_takes_out_what_needs_a_gpu_and_takes_in_a_small_model() -> None:
    rendered = render(example("qwen3.5-9b"), Cpu("./tiny-qwen3"))
    for each in _engines(rendered).values():
        assert each.model_source == "./tiny-qwen3"
        assert each.model_id == "qwen3.5-9b"
        assert each.gpus_per_replica == 0
        assert each.arguments["dtype"] == "float32"
        assert each.arguments["max_model_len"] == 2048
        assert "gpu_memory_utilization" not in each.arguments
        assert "VLLM_SSM_CONV_STATE_LAYOUT" not in each.config.runtime_env.env_vars
        assert each.replicas.most == 1


def test_weights_from_a_bucket_are_read_from_the_node() -> None:
    app = example("qwen3-8b")
    rendered = render(app, Efa.of(app, Deployment(), "/cache/models/bucket/qwen3-8b"))
    assert {each.model_source for each in _engines(rendered).values()} == {"/cache/models/bucket/qwen3-8b"}


def test_unknown_keys_pass_through_untouched() -> None:
    extra = {"some_new_key": {"deep": [1, 2.5, None, "x"]}}
    config = engine(engine_kwargs={**engine()["engine_kwargs"], **extra}, callback_config={"a": 1})
    app = parsed({**prefill_decode(config, config), "logging_config": {"log_level": "DEBUG"}})
    rendered = _on_efa(app).config
    args = rendered["applications"][0]["args"]
    assert args["prefill_config"]["engine_kwargs"]["some_new_key"] == extra["some_new_key"]
    assert args["decode_config"]["callback_config"] == {"a": 1}
    assert rendered["logging_config"] == {"log_level": "DEBUG"}


def test_what_yaml_shares_between_the_roles_is_changed_in_one_of_them_only() -> None:
    text = yaml.safe_dump(prefill_decode((shared := engine()), shared))
    assert "*id001" in text, "the two engines must share one mapping for this test to say anything"
    (document,) = parse_documents(text, "app.yaml")
    app = parse_serve_app(document)
    engines = _engines(_on_efa(app))
    assert set(engines[Role.PREFILL].bundles[0]) == {"GPU", "kvrelay_prefill"}
    assert set(engines[Role.DECODE].bundles[0]) == {"GPU", "kvrelay_decode"}
    assert app.config["applications"][0]["args"]["prefill_config"] == engine()


def _run(*arguments: str) -> Any:
    return CliRunner().invoke(render_command, arguments, catch_exceptions=False)


def test_the_command_prints_a_valid_config_with_reasons_above_it() -> None:
    result = _run(str(SERVE_CONFIGS / "qwen3-8b.yaml"), "--target", "loopback")
    assert result.exit_code == 0
    comments = [line for line in result.output.splitlines() if line.startswith("#")]
    assert comments[0].endswith("for target loopback. Added:")
    assert any("backends: [UCX] (one host" in line for line in comments)
    assert yaml.safe_load(result.output) == render(example("qwen3-8b"), Loopback()).config


def test_the_command_says_the_same_to_machines() -> None:
    result = _run(str(SERVE_CONFIGS / "qwen3-8b.yaml"), "--target", "cpu", "--output", "json")
    answer = json.loads(result.output)
    rendered = render(example("qwen3-8b"), Cpu())
    assert answer["config"] == rendered.config
    assert len(answer["additions"]) == len(rendered.additions)
    assert all(addition["reason"] for addition in answer["additions"])


def _ingress(rendered: Rendered) -> tuple[str | None, str | None]:
    (application,) = rendered.config["applications"]
    named = application["args"].get("ingress_cls_config", {}).get("ingress_cls")
    return named, application.get("runtime_env", {}).get("env_vars", {}).get("PYTHONPATH")


def test_eks_serves_with_the_ingress_class_whose_errors_are_clean() -> None:
    named, path = _ingress(_on_efa(parsed(prefill_decode())))
    assert named == "openai_error_ingress:OpenAIErrorIngress"
    assert path == f"{INGRESS_MOUNT}:${{PYTHONPATH}}"
    assert INGRESS_MODULE.stem == named.partition(":")[0]


def test_an_ingress_class_of_the_files_own_stands() -> None:
    config = prefill_decode()
    config["applications"][0]["args"]["ingress_cls_config"] = {
        "ingress_cls": "ray.serve.llm.ingress:OpenAiIngress"
    }
    assert _ingress(_on_efa(parsed(config))) == ("ray.serve.llm.ingress:OpenAiIngress", None)


def test_arguments_of_the_ingress_class_and_modules_of_the_files_own_are_kept() -> None:
    config = prefill_decode(runtime_env={"env_vars": {"PYTHONPATH": "/opt/mine"}})
    config["applications"][0]["args"]["ingress_cls_config"] = {
        "ingress_extra_kwargs": {"recovery_seconds": 30}
    }
    rendered = _on_efa(parsed(config))
    assert _ingress(rendered)[1] == f"{INGRESS_MOUNT}:/opt/mine"
    (application,) = rendered.config["applications"]
    assert application["args"]["ingress_cls_config"]["ingress_extra_kwargs"] == {"recovery_seconds": 30}
    again = _on_efa(parsed(rendered.config))
    assert again.additions == ()


def test_a_host_of_the_users_own_gets_no_class_that_it_does_not_have() -> None:
    assert _ingress(render(parsed(prefill_decode()), Loopback())) == (None, None)


@pytest.mark.parametrize("junk", [None, "text", [1], 3], ids=str)
def test_what_is_no_mapping_where_a_target_adds_a_key_is_told_as_a_fault_of_the_file(junk: Any) -> None:
    app = parsed(prefill_decode())
    targets: list[Target] = [
        Efa.of(app, Deployment()),
        Loopback("/m", gpu_share=0.2),
        Cpu("/m"),
        Here(Path("/m")),
    ]
    paths = {
        edit.path[:end]
        for target in targets
        for edit in target.edits(app)
        for end in range(1, len(edit.path))
    }
    for path in sorted(paths, key=str):
        config = prefill_decode()
        parent: Any = config
        for key in path[:-1]:
            parent = parent[key] if isinstance(key, int) else parent.setdefault(key, {})
        parent[path[-1]] = junk
        try:
            wrong = parsed(config)
        except InvalidFileError:
            continue
        for target in targets:
            render(wrong, target)


def test_the_arguments_that_are_allowed_are_those_of_the_ingress_class() -> None:
    (found,) = (
        node
        for node in ast.walk(ast.parse(INGRESS_MODULE.read_text()))
        if isinstance(node, ast.ClassDef) and node.name == INGRESS_CLASS.partition(":")[2]
    )
    (start,) = (node for node in found.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    assert tuple(argument.arg for argument in start.args.kwonlyargs) == INGRESS_ARGUMENTS
