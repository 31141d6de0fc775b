"""What all tests share: in CI, generated examples repeat themselves, so that a change fails for its own faults only."""

import os
import signal

from hypothesis import settings

# A runner that was itself started in the background ignores SIGINT, and so would all that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("repeatable", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("repeatable")
