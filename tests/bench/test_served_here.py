"""Prefill/decode and ordinary replicas of one config, served and measured on this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvrelay.bench.command import bench

# Ten minutes with two cores to itself.
pytestmark = pytest.mark.skipif(
    "KVRELAY_TEST_SERVING" not in os.environ,
    reason="serving two apps takes minutes: set KVRELAY_TEST_SERVING=1 where .venv-serving is and nothing is served",
)


def test_both_answer_every_request_and_the_verdict_names_both(tmp_path: Path) -> None:
    file = tmp_path / "local.json"
    load = ("--mix", "short=80%:64~0.5/16,long=20%:500..900/8", "--rate", "0.5", "--seconds", "20")
    result = CliRunner().invoke(bench, ["--local", "--against", "replicas:2", *load, "--json", str(file)])
    assert result.exit_code == 0, result.output
    written = json.loads(file.read_text())
    assert [cell["endpoint"] for cell in written["cells"]] == ["pd", "replicas"]
    for cell in written["cells"]:
        for request in cell["requests"]:
            assert request["ending"] == "whole"
            assert request["exact"]
            assert request["prompt_tokens"] == request["asked_prompt_tokens"]
            assert request["completion_tokens"] == request["asked_answer_tokens"]
            assert len(request["gaps_us"]) == request["completion_tokens"] - 1
    (verdict,) = written["verdicts"]
    assert (verdict["subject"], verdict["other"]) == ("pd", "replicas")
