"""Archives come out of their parts as they went in, or not at all."""

from __future__ import annotations

import random
import tarfile
from pathlib import Path

import pytest

from benchmarks.gpu.parts import PartsError, check, split, unpack


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    (folder / "package").mkdir(parents=True)
    (folder / "package" / "code.py").write_text("answer = 42\n")
    (folder / "package" / "library.so").write_bytes(random.Random(3).randbytes(300_000))
    (folder / "package" / "library.so.1").symlink_to("library.so")
    return folder


@pytest.fixture
def parts(site: Path, tmp_path: Path) -> Path:
    archive = tmp_path / "site.tar.xz"
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(site, ".")
    made = split(archive, tmp_path / "parts", 100_000)
    assert len(made) > 2
    assert all(path.stat().st_size <= 100_000 for path in made)
    return tmp_path / "parts"


def test_parts_unpack_to_what_was_packed(site: Path, parts: Path, tmp_path: Path) -> None:
    unpack(parts, tmp_path / "there")
    for path in site.rglob("*"):
        copy = tmp_path / "there" / path.relative_to(site)
        assert copy.is_symlink() == path.is_symlink()
        if path.is_file():
            assert copy.read_bytes() == path.read_bytes()


def test_a_missing_part_is_named(parts: Path, tmp_path: Path) -> None:
    (parts / "1" / "part-1.bin").unlink()
    with pytest.raises(PartsError, match="part 1 is missing"):
        unpack(parts, tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_a_damaged_part_is_named(parts: Path) -> None:
    part = parts / "0" / "part-0.bin"
    content = part.read_bytes()
    part.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(PartsError, match=r"part 0 .* is damaged"):
        check(parts)


def test_parts_of_two_archives_are_not_mixed(parts: Path) -> None:
    (parts / "2" / "parts.json").write_text("[]")
    with pytest.raises(PartsError, match="2 archives"):
        check(parts)
