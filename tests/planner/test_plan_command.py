"""kvrelay plan on files: the whole answer, each output, and wrong input in one line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from kvrelay.errors import UserError
from kvrelay.planner.command import plan
from kvrelay.planner.page import page, picture
from kvrelay.planner.summary import summary_line
from kvrelay.serve_app import load_serve_app
from kvrelay.settings import Deployment

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "deployment.yaml"
SERVE = ROOT / Deployment().serving.serve_config


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(plan, [str(each) for each in arguments])


def serve_file(folder: Path, *, source: str = "Qwen/Qwen3-8B", **engine: Any) -> Path:
    """A small prefill/decode config; `engine` are extra engine_kwargs of both engines."""
    path = folder / "serve.yaml"

    def role(kv_role: str) -> dict[str, object]:
        transfer = {"kv_connector": "NixlConnector", "kv_role": kv_role}
        return {
            "model_loading_config": {"model_id": "m", "model_source": source},
            "engine_kwargs": {"max_model_len": 4096, **engine, "kv_transfer_config": transfer},
        }

    arguments = {"prefill_config": role("kv_producer"), "decode_config": role("kv_consumer")}
    application = {"name": "llm", "import_path": "ray.serve.llm:build_pd_openai_app", "args": arguments}
    path.write_text(json.dumps({"applications": [application]}))
    return path


def deployment_file(folder: Path, instance_type: str, count: int = 2) -> Path:
    path = folder / "deployment.yaml"
    path.write_text(f"gpu_nodes: {{groups: [{{instance_type: {instance_type}, count: {count}}}]}}\n")
    return path


def test_the_reference_plan_names_every_part() -> None:
    result = run(REFERENCE)
    assert result.exit_code == 0, result.output
    for part in (
        "Qwen/Qwen3.5-9B in us-east-2",
        "1 x prefill",
        "16.68",
        "11 of 4096",
        "EFA, staged through host memory *",
        "plain replicas win",
        "4.43 USD/h",
        "control-plane > add-ons > gpu-nodes",
    ):
        assert part in result.output, part


def test_the_json_holds_the_same_answer_in_si_units() -> None:
    answer = json.loads(run(REFERENCE, "--output", "json").output)
    assert answer["fits"] is True
    assert [role["role"] for role in answer["roles"]] == ["prefill", "decode"]
    assert answer["roles"][0]["sequences"] == 11
    assert answer["cost"]["usd_per_hour"] == pytest.approx(4.43, abs=0.01)
    assert answer["transfers"][-1]["fabrics"]["efa-staged"] == pytest.approx(0.061, rel=0.03)
    assert answer["prefill_decode"]["pays"] is False
    assert answer["seconds"]["deploy"] > 1000


def test_a_70b_on_one_l4_exits_1_and_lists_what_works(tmp_path: Path) -> None:
    config = serve_file(tmp_path, source="meta-llama/Llama-3.3-70B-Instruct")
    result = run(REFERENCE, config)
    assert result.exit_code == 1
    assert "does not fit" in result.output
    assert (
        "instance_type: g6e.12xlarge, tensor_parallel_size: 4: 17 sequences, 10.49 USD/h a node"
        in result.output
    )
    answer = json.loads(run(REFERENCE, config, "--output", "json").output)
    assert answer["fits"] is False
    assert answer["prefill_decode"] is None
    assert answer["roles"][0]["alternatives"][0]["instance_type"] == "g6e.12xlarge"


def test_a_rate_that_nothing_serves_is_null_in_json_and_said_in_the_table() -> None:
    answer = json.loads(run(REFERENCE, "--rate", "50", "--output", "json").output)
    assert answer["prefill_decode"]["options"][0]["ttft_s"]["p50"] is None
    assert "grows" in run(REFERENCE, "--rate", "50").output


def test_a_mix_and_its_rate_are_taken(tmp_path: Path) -> None:
    arguments = ["--mix", "3:512/128,1:3000/64", "--rate", "0.4", "--output", "json"]
    answer = json.loads(run(REFERENCE, *arguments).output)["prefill_decode"]
    assert [kind["prompt_tokens"] for kind in answer["kinds"]] == [512, 3000]
    assert answer["requests_per_s"] == pytest.approx(0.4)


def test_the_picture_shows_each_ratio(tmp_path: Path) -> None:
    path = tmp_path / "plan.svg"
    assert run(REFERENCE, "--picture", path).exit_code == 0
    texts = [element.text for element in ElementTree.fromstring(path.read_text()).iter() if element.text]
    assert {"plain", "1P:5D", "2P:4D", "3P:3D", "4P:2D", "5P:1D"} <= set(texts)


def test_a_models_own_config_is_taken_instead_of_its_id(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    fields = {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16}
    fields |= {
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 8192,
    }
    config.write_text(json.dumps(fields))
    serve = serve_file(tmp_path, source="acme/secret")
    answer = json.loads(run(REFERENCE, serve, "--model-config", config, "--output", "json").output)
    assert answer["fits"]


def test_a_local_model_is_sized_from_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "weights"
    folder.mkdir()
    fields = {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16}
    fields |= {
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 8192,
    }
    (folder / "config.json").write_text(json.dumps(fields))
    assert run(REFERENCE, serve_file(tmp_path, source="./weights")).exit_code == 0


@pytest.mark.parametrize(
    ("engine", "line"),
    [
        ({"quantization": "magic"}, "quantization: 'magic' is not one that the planner can size"),
        ({"dtype": "float32"}, "dtype: 'float32' is not one that the planner can size"),
        ({"kv_cache_dtype": "int2"}, "kv_cache_dtype: 'int2' is not one that the planner can size"),
        ({"gpu_memory_utilization": "most"}, "gpu_memory_utilization: 'most' is not a number above 0"),
        ({"max_num_seqs": -1}, "max_num_seqs: -1 is not a number above 0"),
        ({"tensor_parallel_size": 2}, "tensor_parallel_size 2 is more than the 1 GPUs of g6.8xlarge"),
    ],
)
def test_a_setting_that_cannot_be_sized_is_told_in_one_line(
    tmp_path: Path, engine: dict[str, Any], line: str
) -> None:
    result = run(REFERENCE, serve_file(tmp_path, **engine))
    assert isinstance(result.exception, UserError)
    assert line in str(result.exception)
    assert "\n" not in str(result.exception)


def test_an_unknown_model_is_told_in_one_line(tmp_path: Path) -> None:
    result = run(REFERENCE, serve_file(tmp_path, source="acme/secret"))
    assert "model 'acme/secret' is not known" in str(result.exception)


def test_a_node_without_a_gpu_is_told_in_one_line(tmp_path: Path) -> None:
    result = run(deployment_file(tmp_path, "m7i.xlarge"), SERVE)
    assert result.exception is not None
    assert "m7i.xlarge" in str(result.exception)
    assert "\n" not in str(result.exception)


def test_one_line_for_synth_says_fit_price_and_minutes() -> None:
    line = summary_line(Deployment(), load_serve_app(SERVE))
    assert line == (
        "prefill fits (11 sequences of 4096 tokens), decode fits (11 sequences of 4096 tokens), 4.43 USD/h, "
        "about 24 min to the first token"
    )


def test_one_line_for_synth_says_what_does_not_fit(tmp_path: Path) -> None:
    app = load_serve_app(serve_file(tmp_path, source="meta-llama/Llama-3.3-70B-Instruct"))
    assert "prefill does not fit L4 (1" in summary_line(Deployment(), app)


def test_one_line_for_synth_never_stops_synth(tmp_path: Path) -> None:
    app = load_serve_app(serve_file(tmp_path, source="acme/secret"))
    assert summary_line(Deployment(), app).startswith("not sized: model 'acme/secret' is not known")


def test_the_page_and_its_picture_are_fresh() -> None:
    renew = "run python -m kvrelay.planner.page docs"
    assert (ROOT / "docs/planner.md").read_text() == page(ROOT), renew
    assert (ROOT / "docs/planner.svg").read_text() == picture(ROOT), renew


def test_the_planner_imports_neither_cdk_nor_an_aws_client_nor_ray() -> None:
    code = (
        "import sys, kvrelay.planner.command, kvrelay.planner.picture, kvrelay.planner.as_json, kvrelay.planner.page;"
        "print([name for name in ('aws_cdk', 'jsii', 'boto3', 'botocore', 'ray', 'vllm') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.strip() == "[]"


def test_a_picture_that_cannot_be_drawn_or_written_is_told_in_one_line(tmp_path: Path) -> None:
    unwritable = run(REFERENCE, "--picture", tmp_path / "nowhere" / "plan.svg")
    assert "can't be written: No such file or directory" in str(unwritable.exception)
    too_large = serve_file(tmp_path, source="meta-llama/Llama-3.3-70B-Instruct")
    nothing = run(REFERENCE, too_large, "--picture", tmp_path / "plan.svg")
    assert "--picture: there is nothing to compare" in str(nothing.exception)


@pytest.mark.parametrize(
    "config", sorted((ROOT / "serve_configs").glob("*.yaml")), ids=lambda path: path.stem
)
def test_every_serve_config_of_the_project_is_sized(config: Path, tmp_path: Path) -> None:
    answer = json.loads(run(deployment_file(tmp_path, "p5.48xlarge"), config, "--output", "json").output)
    assert answer["fits"]
    assert all(option["goodput_requests_per_s"] > 0 for option in answer["prefill_decode"]["options"][:1])
