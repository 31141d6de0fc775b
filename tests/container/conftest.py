"""The Dockerfile as instructions, read by a library."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from dockerfile_parse import DockerfileParser

REPOSITORY = Path(__file__).parents[2]
CONTAINER = REPOSITORY / "container"


@dataclass(frozen=True)
class Dockerfile:
    """Instructions in order: name and value."""

    instructions: tuple[tuple[str, str], ...]

    def values(self, name: str) -> list[str]:
        """Every value of an instruction."""
        return [value for each, value in self.instructions if each == name]

    def arguments(self) -> dict[str, str | None]:
        """Build arguments with their defaults; None for those without."""
        found: dict[str, str | None] = {}
        for value in self.values("ARG"):
            name, given, default = value.partition("=")
            if given or name not in found:
                found[name] = default.strip('"') if given else None
        return found

    def shell_for(self, word: str) -> str:
        """The one RUN whose script speaks of `word`."""
        (script,) = (value for value in self.values("RUN") if re.search(rf"\b{word}\b", value))
        return script


@pytest.fixture(scope="session")
def dockerfile() -> Dockerfile:
    """container/Dockerfile."""
    with (CONTAINER / "Dockerfile").open("rb") as file:
        structure = DockerfileParser(fileobj=file).structure
    return Dockerfile(
        tuple((each["instruction"], each["value"]) for each in structure if each["instruction"] != "COMMENT")
    )
