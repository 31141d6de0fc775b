"""The picture in README is the app's."""

from pathlib import Path

from docs.architecture import ROOT, draw, facts


def test_the_architecture_picture_is_drawn_from_this_app(tmp_path: Path) -> None:
    """Renew it: make docs."""
    assert (ROOT / "docs/architecture.svg").read_text() == draw(facts(tmp_path))
