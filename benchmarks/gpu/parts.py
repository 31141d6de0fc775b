"""Splits an archive into parts of bounded size and puts them together again.

`python parts.py FOLDER SITE` does the second where the software is used: it needs nothing but Python's own library.
"""

# ruff: noqa: T201 - a script of its own

from __future__ import annotations

import hashlib
import json
import lzma
import sys
import tarfile
import time
from collections.abc import Iterator
from io import BufferedReader, RawIOBase
from pathlib import Path

INDEX = "parts.json"
_CHUNK = 1 << 20


class PartsError(Exception):
    """Parts are missing, cut or mixed up; the text says which."""


def split(archive: Path, folder: Path, part_bytes: int) -> list[Path]:
    """Cuts `archive` into `folder`/part-0.bin and on, each in a folder of its own, of at most `part_bytes` bytes.

    Each part lies in `folder`/N beside a copy of the index of all, so that any set of them can be carried alone.
    """
    content = archive.read_bytes()
    pieces = [content[start : start + part_bytes] for start in range(0, len(content), part_bytes)]
    index = json.dumps([{"bytes": len(piece), "sha256": _hash(piece)} for piece in pieces])
    made = []
    for number, piece in enumerate(pieces):
        home = folder / str(number)
        home.mkdir(parents=True, exist_ok=True)
        (home / INDEX).write_text(index)
        (home / f"part-{number}.bin").write_bytes(piece)
        made.append(home / f"part-{number}.bin")
    return made


def check(folder: Path) -> list[Path]:
    """The parts under `folder`, in their order, each compared with the index. Raises PartsError."""
    indexes = {path.read_text() for path in folder.rglob(INDEX)}
    if len(indexes) != 1:
        raise PartsError(f"{folder} holds parts of {len(indexes)} archives; one is needed")
    found = []
    for number, expected in enumerate(json.loads(indexes.pop())):
        paths = sorted(folder.rglob(f"part-{number}.bin"))
        if not paths:
            raise PartsError(f"part {number} is missing in {folder}")
        if _hash(paths[0].read_bytes()) != expected["sha256"]:
            raise PartsError(f"part {number} in {folder} is damaged")
        found.append(paths[0])
    return found


def unpack(folder: Path, site: Path) -> None:
    """Puts the parts under `folder` together and unpacks the xz archive into `site`. Raises PartsError."""
    parts = check(folder)
    site.mkdir(parents=True, exist_ok=True)
    with (
        lzma.open(BufferedReader(_Joined(parts), _CHUNK)) as plain,
        tarfile.open(fileobj=plain, mode="r|") as tar,
    ):
        tar.extractall(site, filter="tar")


class _Joined(RawIOBase):
    """Files read one after the other, as one."""

    def __init__(self, paths: list[Path]) -> None:
        self._chunks = _chunks(paths)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        if not self._rest:
            self._rest = next(self._chunks, b"")
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def _chunks(paths: list[Path]) -> Iterator[bytes]:
    for path in paths:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                yield chunk


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    began = time.monotonic()
    try:
        unpack(Path(sys.argv[1]), Path(sys.argv[2]))
    except PartsError as error:
        sys.exit(f"parts: {error}")
    print(f"unpacked into {sys.argv[2]} in {time.monotonic() - began:.0f} s")
