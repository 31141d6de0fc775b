"""kvrelay bench from the command line: against real endpoints, from its own files, and with wrong input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from kvrelay.bench.command import bench
from kvrelay.bench.report import read_report
from kvrelay.errors import UserError
from tests.bench.streaming_server import Behaviour, serving

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs" / "bench.schema.json").read_text())
QUICK = ("--seconds", "1", "--rate", "12", "--mix", "chat=70%:16~0.5/8,long=30%:100..200/4", "--warmup", "2")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(bench, [str(each) for each in arguments])


def refused(*arguments: str | Path) -> str:
    """The one line of a refusal."""
    result = run(*arguments)
    assert isinstance(result.exception, UserError), result.output
    line = str(result.exception)
    assert "\n" not in line
    return line


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result, list[list[dict[str, Any]]]]:
    """Two rounds on two endpoints, the first with the shorter gaps; the file, the output, what each was asked."""
    file = tmp_path_factory.mktemp("bench") / "result.json"
    steady, slow = Behaviour(first_token=0.2, gap=0.005), Behaviour(first_token=0.02, gap=0.15)
    with serving(steady) as one, serving(slow) as two:
        goals = ("--slo-ttft-ms", "5000", "--slo-itl-ms", "140")
        named = ("--endpoint", f"pd={one}", "--endpoint", f"replicas={two}/v1/")
        result = run(
            *named, "--rounds", "2", *QUICK, *goals, "--json", file, "--chart", file.with_suffix(".svg")
        )
    return file, result, [steady.asked, slow.asked]


def test_it_measures_compares_and_says_whether_it_pays(measured: Any) -> None:
    _, result, _ = measured
    assert result.exit_code == 0, result.output
    assert "pd, 12/s, round 1 of 2" in result.output
    assert "chat" in result.output
    assert "pd pays at 12/s" in result.output


def test_every_endpoint_was_asked_the_same(measured: Any) -> None:
    _, _, (one, two) = measured
    # The warm-up's answers come in any order; salts are of each cell.
    asked = [sorted(tuple(body["prompt"]) for body in bodies) for bodies in (one, two)]
    assert asked[0] == asked[1]
    assert len({body["cache_salt"] for body in one + two}) == 4


def test_its_file_keeps_the_schema_and_every_request(measured: Any) -> None:
    file, _, (one, two) = measured
    written = json.loads(file.read_text())
    jsonschema.validate(written, SCHEMA)
    assert sum(len(cell["requests"]) for cell in written["cells"]) == len(one) + len(two) - 4 * 2
    assert [cell["asked"] for cell in written["cells"][:2]] == [written["cells"][0]["asked"]] * 2
    assert {found["kind"] for found in written["figures"]} == {None, "chat", "long"}


def test_its_file_tells_the_same_again(measured: Any, tmp_path: Path) -> None:
    file, _, _ = measured
    again = tmp_path / "again.json"
    result = run("--from", file, "--json", again, "--output", "json")
    assert json.loads(again.read_text()) == json.loads(file.read_text())
    told = json.loads(result.stdout)
    assert told["verdicts"][0]["pays"] is True
    assert "cells" not in told


def test_other_goals_judge_the_same_measurement_anew(measured: Any) -> None:
    file, _, _ = measured
    told = json.loads(
        run("--from", file, "--slo-ttft-ms", "150", "--slo-itl-ms", "900", "--output", "json").stdout
    )
    assert told["goals"] == {"ttft_s": 0.15, "itl_s": 0.9}
    assert told["verdicts"][0]["pays"] is False


def test_measurements_made_apart_are_compared_together(measured: Any, tmp_path: Path) -> None:
    file, _, _ = measured
    whole = json.loads(file.read_text())
    parts: list[str | Path] = []
    for name in ("replicas", "pd"):
        part = tmp_path / f"{name}.json"
        cells = [cell for cell in whole["cells"] if cell["endpoint"] == name]
        part.write_text(json.dumps(whole | {"cells": cells, "endpoints": {name: whole["endpoints"][name]}}))
        parts += ["--from", part]
    told = json.loads(run(*parts, "--output", "json").stdout)
    assert told["verdicts"] == whole["verdicts"]
    assert set(told["endpoints"]) == {"pd", "replicas"}


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_a_chart_is_the_same_each_time(measured: Any, tmp_path: Path, suffix: str) -> None:
    file, _, _ = measured
    charts = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for chart in charts:
        assert run("--from", file, "--chart", chart).exit_code == 0
    assert charts[0].read_bytes() == charts[1].read_bytes()
    if suffix == ".svg":
        text = charts[0].read_text()
        assert text == file.with_suffix(".svg").read_text()
        assert "12 requests/s: answers begun within" in text
        assert "replicas" in text


def test_a_chart_leaves_later_pictures_as_they_were(measured: Any, tmp_path: Path) -> None:
    import matplotlib as mpl

    file, _, _ = measured
    mpl.use("Agg")
    before = dict(mpl.rcParams)
    assert run("--from", file, "--chart", tmp_path / "chart.svg").exit_code == 0
    assert dict(mpl.rcParams) == before


def test_without_matplotlib_a_chart_is_refused_before_any_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "matplotlib, which is not installed" in refused(
        "--chart", "a.svg", "--endpoint", "a=http://127.0.0.1:1"
    )


def test_failures_are_counted_and_told(tmp_path: Path) -> None:
    with serving(Behaviour(fault="cut", fault_every=4)) as url:
        result = run("--endpoint", f"pd={url}", *QUICK)
    assert result.exit_code == 0, result.output
    assert "cut (" in result.output
    assert "x the stream ended without [DONE]" in result.output


def test_an_endpoint_that_answers_nothing_whole_is_no_measurement(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    with serving(Behaviour(fault="status")) as url:
        line = refused("--endpoint", f"pd={url}", *QUICK, "--json", file)
    assert "pd gave no whole answer" in line
    assert "500: the engine died" in line
    # What was seen is kept all the same.
    assert {outcome.status for outcome in read_report(file).cells[0].outcomes} == {500}


def test_a_trace_is_replayed(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    lines = [{"at": index / 10, "prompt_tokens": 10 + index, "answer_tokens": 3} for index in range(4)]
    trace.write_text("\n".join(map(json.dumps, lines)))
    behaviour = Behaviour()
    with serving(behaviour) as url:
        result = run(
            "--endpoint", f"pd={url}", "--trace", trace, "--warmup", "0", "--api", "chat", "--only-openai"
        )
    assert result.exit_code == 0, result.output
    assert [len(body["messages"][0]["content"].split()) for body in behaviour.asked] == [10, 11, 12, 13]
    assert "cache_salt" not in behaviour.asked[0]
    assert "a chunk with text counts as one token" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--endpoint", "http://127.0.0.1:8000"], "right would be pd=http://127.0.0.1:8000"),
        (["--endpoint", "=http://127.0.0.1"], "--endpoint"),
        (["--endpoint", "pd="], "--endpoint"),
        (["--endpoint", "pd=ftp://x"], "--endpoint"),
        (["--endpoint", "pd=http://x:99999"], "--endpoint"),
        (["--endpoint", "pd=http://[::1"], "--endpoint"),
        (["--endpoint", "a=http://x", "--endpoint", "a=http://y"], "same name"),
        (["--endpoint", "pd=http://127.0.0.1:1"], "can't be reached"),
        (["--local", "--endpoint", "pd=http://x"], "--local"),
        (["--against", "replicas:2"], "add --local"),
        (["--config", "deployment.yaml"], "add --local"),
        (["--local", "--against", "replicas"], "not replicas:N"),
        (["--local", "--against", "replicas:0"], "from 1 to 8"),
        (["--local", "--against", "replicas:9"], "from 1 to 8"),
        (["--local", "--against", "copies:2"], "not replicas:N"),
        (["--mix", "lots"], "--mix"),
        (["--seconds", "0.001"], "raise --seconds"),
        (["--trace", "none.jsonl"], "none.jsonl can't be read"),
        (["--trace", "none.jsonl", "--rate", "2"], "without --rate"),
        (["--json", "/nowhere/at/all.json"], "no folder /nowhere/at"),
        (["--chart", "/nowhere/at/all.svg"], "no folder /nowhere/at"),
        (["--chart", "a.gif"], "neither .png nor .svg"),
        (["--from", "none.json"], "none.json can't be read"),
        (["--from", "pyproject.toml"], "not a whole report"),
        (["--from", "package.json"], "not a whole report"),
        (["--from", "a.json", "--local"], "goes without"),
    ],
)
def test_wrong_input_is_one_line(arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert words in refused(*arguments)


def test_a_report_of_another_schema_or_without_cells_is_one_line(measured: Any, tmp_path: Path) -> None:
    file, _, _ = measured
    whole = json.loads(file.read_text())
    other = tmp_path / "other.json"
    other.write_text(json.dumps(whole | {"schema": "kvrelay-bench/9"}))
    assert "this kvrelay reads kvrelay-bench/1" in refused("--from", other)
    other.write_text(json.dumps(whole | {"cells": []}))
    assert "no measurement" in refused("--from", other)


def test_it_runs_from_a_copied_folder_without_an_installation(tmp_path: Path) -> None:
    (tmp_path / "kvrelay").symlink_to(ROOT / "kvrelay")
    found = subprocess.run(
        [sys.executable, "-m", "kvrelay.bench", "--mix", "lots"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 2
    assert found.stderr.startswith("--mix: 'lots' is not")
