"""The page of the command line: what `--help` says, command by command."""

from __future__ import annotations

import argparse

from dsconf.cli import command_line


def pages() -> dict[str, str]:
    """The name and the text of the page."""
    lines = ["# Command line", ""]
    for command in (whole := command_line(), *_commands(whole)):
        command.formatter_class = _Wide
        lines += [f"## {command.prog}", "", "```text", command.format_help().rstrip("\n"), "```", ""]
    return {"commands.md": "\n".join(lines)}


def _commands(whole: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    return [
        command
        for action in whole._actions  # pyright: ignore[reportPrivateUsage]
        if isinstance(action, argparse._SubParsersAction)  # pyright: ignore[reportPrivateUsage]
        for command in action.choices.values()
    ]


class _Wide(argparse.RawDescriptionHelpFormatter):
    """The same on every machine, however wide its terminal."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=100)
