"""The tiny model, made once on this machine and found again by the hash of what makes it."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from kvrelay.errors import UserError

WRITER = Path(__file__).with_name("write_tiny_model.py")


def tiny_model(interpreter: Path, cache: Path) -> Path:
    """The folder of the tiny model under `cache`, made with the serving environment's `interpreter` if absent.

    A folder that is there is whole: it gets its name only after the last byte was written. Raises UserError.
    """
    folder = cache / f"tiny-qwen3-{hashlib.sha256(WRITER.read_bytes()).hexdigest()[:12]}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".making-") as making:
        made = Path(making, "model")
        result = subprocess.run(
            [interpreter, WRITER, made], capture_output=True, text=True, check=False, timeout=300
        )
        if result.returncode != 0:
            last_line = (result.stderr.strip() or "no message").splitlines()[-1]
            raise UserError(
                f"the tiny model could not be made: {last_line}; "
                "`kvrelay local serving-environment --renew` builds the environment anew"
            )
        if folder.is_dir():  # Another process was faster; both wrote the same bytes.
            shutil.rmtree(made)
        else:
            made.rename(folder)
    return folder
