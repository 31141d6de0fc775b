"""kvrelay check: files tell what they are, findings their line, exit codes what happened."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvrelay.rules import RULES
from kvrelay.rules.reading import kind_of
from kvrelay.settings import Deployment

ROOT = Path(__file__).parents[2]
EXAMPLES = Path(__file__).parent / "examples"
HELM = EXAMPLES / "helm-rendered.yaml"
IN_THE_WILD = EXAMPLES / "rayservice-in-the-wild.yaml"


def check(*arguments: str | Path, cwd: Path = ROOT, stdin: bytes = b"") -> tuple[int, str, str]:
    """Runs the command as users do: exit code, stdout, stderr."""
    command = [sys.executable, "-c", "from kvrelay.cli import main; main()", "check", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, cwd=cwd, input=stdin, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def found(*arguments: str | Path, cwd: Path = ROOT, stdin: bytes = b"") -> list[dict[str, Any]]:
    _, text, errors = check(*arguments, "--output", "json", cwd=cwd, stdin=stdin)
    assert errors == ""
    findings: list[dict[str, Any]] = json.loads(text)
    return findings


def test_the_reference_deployment_and_its_serve_config_are_without_findings() -> None:
    code, text, told = check()
    assert (code, text) == (0, "")
    assert told == f"deployment.yaml, serve_configs/qwen3.5-9b.yaml: nothing found by {len(RULES)} rules\n"


@pytest.mark.parametrize(
    "config", sorted((ROOT / "serve_configs").glob("*.yaml")), ids=lambda path: path.stem
)
def test_no_rule_fires_on_a_shipped_serve_config(config: Path) -> None:
    assert check(config)[:2] == (0, "")


@pytest.mark.parametrize(
    ("config", "rules"), [("qwen3.5-9b-plain", set()), ("qwen3.5-9b", {"EF001", "EF005"})]
)
def test_one_gpu_node_is_enough_for_one_ordinary_replica_and_not_for_a_pair(
    config: str, rules: set[str], tmp_path: Path
) -> None:
    serve = tmp_path / "serve.yaml"
    text = (ROOT / "serve_configs" / f"{config}.yaml").read_text()
    serve.write_text(text.replace("num_replicas: 2", "num_replicas: 1"))
    deployment = tmp_path / "deployment.yaml"
    deployment.write_text("serving: {serve_config: serve.yaml}\ngpu_nodes: {groups: [{count: 1}]}\n")
    assert {each["rule"] for each in found(deployment)} == rules


def test_findings_in_an_embedded_serve_config_name_the_line_of_the_manifest() -> None:
    lines = IN_THE_WILD.read_text().splitlines()
    engine_id = next(each for each in found(IN_THE_WILD) if each["rule"] == "KV001")
    line = lines[engine_id["line"] - 1]
    assert "engine_id: prefill" in line
    assert line[engine_id["column"] - 1 :].startswith("engine_id")


def test_a_manifest_in_the_wild_is_told_all_that_is_wrong_with_it() -> None:
    code, text, errors = check(IN_THE_WILD)
    assert code == 1
    assert errors == ""
    expected = {"KV001", "KV002", "KV007", "RS004", "RS030", "RS031", "EF022", "SC002", "SC008", "UP001"}
    assert {each["rule"] for each in found(IN_THE_WILD)} == expected
    assert text.splitlines()[-1] == "5 errors, 6 warnings"


def test_helm_output_of_several_documents_is_read_whole() -> None:
    findings = found(HELM)
    assert {each["rule"] for each in findings} == {"NW002", "SC003", "UP005"}
    last = max(each["line"] for each in findings)
    assert "rayproject/ray:latest" in HELM.read_text().splitlines()[last - 1]


def test_standard_input_is_read() -> None:
    findings = found("-", stdin=HELM.read_bytes())
    assert {each["file"] for each in findings} == {"<stdin>"}
    assert {each["rule"] for each in findings} == {"NW002", "SC003", "UP005"}


def test_a_folder_is_searched_for_files_that_rules_know(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("image: {tag: latest}\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "x.yml").write_text(HELM.read_text())
    assert {each["file"] for each in found(tmp_path)} == {str(tmp_path / "sub" / "x.yml")}


def test_manifests_belong_to_the_deployment(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin.yaml"
    plugin.write_text((EXAMPLES / "efa-plugin-without-g6.yaml").read_text())
    assert [each["rule"] for each in found("deployment.yaml", "--manifest", plugin)] == ["EF023"]
    assert found(plugin) == []


def test_engine_configs_in_files_of_their_own_are_checked(tmp_path: Path) -> None:
    (tmp_path / "serve.yaml").write_text(
        "applications:\n- import_path: ray.serve.llm:build_pd_openai_app\n"
        "  args: {prefill_config: p.yaml, decode_config: d.yaml}\n"
    )
    engine = (
        "model_loading_config: {model_id: m}\nengine_kwargs:\n  kv_transfer_config:\n"
        "    kv_connector: NixlConnector\n    kv_role: ROLE\n"
    )
    (tmp_path / "p.yaml").write_text(engine.replace("ROLE", "kv_producer"))
    (tmp_path / "d.yaml").write_text(engine.replace("ROLE", "kv_both"))
    (finding,) = found(tmp_path / "serve.yaml")
    assert (finding["rule"], finding["file"], finding["line"]) == ("KV007", str(tmp_path / "d.yaml"), 5)


@pytest.mark.parametrize("key", Deployment.model_fields)
def test_a_file_with_any_one_setting_is_a_deployment(key: str) -> None:
    assert kind_of({key: None}) == "deployment"


def test_warnings_fail_only_when_asked(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text("gpu_nodes: {groups: [{capacity: {type: spot}, count: 2}]}\n")
    (tmp_path / "serve_configs").mkdir()
    (tmp_path / "serve_configs" / "qwen3.5-9b.yaml").write_text("applications: []\n")
    assert check(cwd=tmp_path)[0] == 0
    assert check("--strict", cwd=tmp_path)[0] == 1
    file.write_text(file.read_text() + "acknowledge: {EF003: nightly batch jobs only}\n")
    assert check("--strict", cwd=tmp_path) == (0, "1 acknowledged\n", "")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("a: 1\n", "is no deployment.yaml, Ray Serve config or Kubernetes manifest; is it the right file?"),
        ("- 1\n", "is no deployment.yaml, Ray Serve config or Kubernetes manifest; is it the right file?"),
        ("", "is empty"),
        ("kind: [\n", "is not YAML: did not find expected node content"),
        (
            "kind: {{ .Values.kind }}\n",
            "has a list or mapping as a key; use text. It looks like a Helm template:",
        ),
        ("name: 7up\n", "name: '7up' must be 1 to 30 lower-case letters, digits and dashes, a letter first"),
    ],
)
def test_a_file_that_cannot_be_used_gets_one_line(tmp_path: Path, content: str, line: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(content)
    code, text, errors = check(file)
    assert (code, text) == (2, "")
    assert errors.count("\n") == 1
    assert errors.startswith(f"{file}:")
    assert line in errors


def test_a_missing_file_gets_one_line(tmp_path: Path) -> None:
    assert check("nothing.yaml", cwd=tmp_path) == (
        2,
        "",
        "nothing.yaml: can't be read: No such file or directory\n",
    )
    assert (
        check(cwd=tmp_path)[2]
        == "deployment.yaml: is not here; name the files to check, or run this beside it\n"
    )


def test_json_gives_every_field_to_machines() -> None:
    finding = found(IN_THE_WILD)[0]
    assert list(finding) == [
        "rule", "name", "level", "file", "line", "column", "path", "found", "problem", "mend", "acknowledged",
    ]  # fmt: skip


def test_github_annotations_stay_on_one_line_each() -> None:
    code, text, _ = check(IN_THE_WILD, "--output", "github")
    assert code == 1
    lines = text.splitlines()
    assert len(lines) == 11
    assert all(line.startswith(("::error file=", "::warning file=")) for line in lines)
    assert any("title=KV001 fixed-engine-id::" in line for line in lines)


def test_sarif_holds_all_rules_and_results_that_refer_to_them() -> None:
    _, text, _ = check(IN_THE_WILD, "--output", "sarif")
    log = json.loads(text)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert [rule["id"] for rule in driver["rules"]] == [rule.number for rule in RULES]
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"]
        assert rule["fullDescription"]["text"]
        assert rule["defaultConfiguration"]["level"] in {"error", "warning"}
    assert run["results"]
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in {"error", "warning"}
        assert result["message"]["text"]
        place = result["locations"][0]["physicalLocation"]
        assert "\\" not in place["artifactLocation"]["uri"]
        assert place["region"]["startLine"] >= 1
        assert place["region"]["startColumn"] >= 1


def test_sarif_shows_an_acknowledgement_as_a_suppression(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    text = HELM.read_text().replace("metadata:\n  name: ray", "metadata:\n  annotations: {ACK}\n  name: ray")
    file.write_text(text.replace("ACK", "kvrelay.io/acknowledge-UP005: tried each night"))
    results = json.loads(check(file, "--output", "sarif")[1])["runs"][0]["results"]
    accepted = [each for each in results if "suppressions" in each]
    assert [each["ruleId"] for each in accepted] == ["UP005"]
    assert accepted[0]["suppressions"] == [{"kind": "inSource", "justification": "tried each night"}]
