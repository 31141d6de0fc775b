"""A command group that imports a command only when it is asked for, so that starting stays quick."""

from __future__ import annotations

import importlib

import click


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def __init__(self, *, lazy_commands: dict[str, str], **attributes: object) -> None:
        super().__init__(**attributes)  # type: ignore[arg-type]
        self.lazy_commands = lazy_commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.lazy_commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy_commands:
            return None
        module, _, attribute = self.lazy_commands[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command
