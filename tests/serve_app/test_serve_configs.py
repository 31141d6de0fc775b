"""The project's own serve configs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from kvrelay.serve_app import INGRESS_MODULE, Cpu, Efa, Loopback, parse_serve_app, render, worker_groups
from kvrelay.yaml_source import parse_documents
from tests.serve_app.examples import DEPLOYMENTS, PROJECT, SERVE_CONFIGS, example

SERVING_PYTHON = PROJECT / ".venv-serving" / "bin" / "python"


def test_every_serve_config_has_nodes_to_try_it_on() -> None:
    assert {path.stem for path in SERVE_CONFIGS.glob("*.yaml")} == set(DEPLOYMENTS)


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_it_fits_its_nodes_and_fills_them(name: str) -> None:
    deployment = DEPLOYMENTS[name]
    groups = worker_groups(example(name), deployment)
    assert sum(group.pods for group in groups) == deployment.gpu_nodes.groups[0].count
    for group in groups:
        assert group.pods * group.replicas_per_pod >= group.engine.replicas.most


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_its_rendered_text_is_the_same_app_for_every_target(name: str) -> None:
    app = example(name)
    for target in (Efa.of(app, DEPLOYMENTS[name]), Loopback(), Cpu("./tiny")):
        rendered = render(app, target)
        (document,) = parse_documents(rendered.text, "rendered.yaml")
        again = parse_serve_app(document)
        assert document.value == rendered.config
        assert again.model_id == app.model_id
        assert [engine.role for engine in again.engines] == [engine.role for engine in app.engines]
        assert render(again, target).additions == ()


@pytest.mark.parametrize("name", [name for name in DEPLOYMENTS if not name.endswith("plain")])
def test_prefill_produces_decode_consumes_and_neither_keeps_an_engine_id(name: str) -> None:
    prefill, decode = example(name).engines
    assert prefill.kv_transfer
    assert decode.kv_transfer
    assert (prefill.kv_transfer.kv_role, decode.kv_transfer.kv_role) == ("kv_producer", "kv_consumer")
    assert prefill.kv_transfer.engine_id is None
    assert decode.kv_transfer.engine_id is None


@pytest.mark.skipif(
    "KVRELAY_TEST_SERVING" not in os.environ or not SERVING_PYTHON.exists(),
    reason="importing Ray and vLLM takes a minute: `make test-serving` sets KVRELAY_TEST_SERVING and has them",
)
def test_ray_itself_accepts_the_portable_and_the_rendered_config(tmp_path: Path) -> None:
    """Held against Ray Serve LLM's own models, in the environment that really serves."""
    for name, deployment in DEPLOYMENTS.items():
        app = example(name)
        (tmp_path / f"{name}.yaml").write_text((SERVE_CONFIGS / f"{name}.yaml").read_text())
        (tmp_path / f"{name}-efa.yaml").write_text(render(app, Efa.of(app, deployment)).text)
        (tmp_path / f"{name}-cpu.yaml").write_text(render(app, Cpu("./tiny")).text)
    script = Path(__file__).with_name("accepted_by_ray.py")
    found = subprocess.run(
        [SERVING_PYTHON, script, *sorted(map(str, tmp_path.iterdir()))],
        env={**os.environ, "PYTHONPATH": str(INGRESS_MODULE.parent)},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr[-2000:]
    bundles = yaml.safe_load(found.stdout.splitlines()[-1])
    assert bundles["qwen3.5-9b-efa"][1] == [{"GPU": 1, "kvrelay_decode": 0.001}]
    assert len(bundles["llama-3.3-70b-efa"][0]) == 8
    assert bundles["qwen3-8b-cpu"][0] == [{"CPU": 0.5}]
