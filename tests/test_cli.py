"""The command line: every command that is listed is there, and says what it does."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kvrelay.cli import COMMANDS, cli
from kvrelay.local.command import COMMANDS as LOCAL_COMMANDS


@pytest.mark.parametrize(
    "words", [[name] for name in COMMANDS] + [["local", name] for name in LOCAL_COMMANDS], ids=" ".join
)
def test_every_command_has_a_help_that_teaches(words: list[str]) -> None:
    result = CliRunner().invoke(cli, [*words, "--help"])
    assert result.exit_code == 0, result.output
    assert len(result.output.splitlines()) > 3


def test_an_unknown_command_is_told_in_a_line() -> None:
    result = CliRunner().invoke(cli, ["deplyo"])
    assert result.exit_code == 2
    assert "deplyo" in result.output
