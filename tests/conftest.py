"""What all tests share: in CI, generated examples repeat themselves, so that a change fails for its own faults only."""

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("repeatable")
