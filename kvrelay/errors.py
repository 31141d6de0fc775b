"""The errors that users read: what is wrong, with which value, and what would be right."""

from collections.abc import Iterable


class UserError(Exception):
    """Something a user can mend. `str(error)` is what they read; `cli.py` turns it into an exit code."""

    exit_code = 2


class InvalidFileError(UserError):
    """A file that can't be right: one line for each fault, `file:line: key: what is wrong; mend`."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))
