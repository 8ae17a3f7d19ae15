"""Where a report goes, and how it is to look."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from dsconf.diagnostic import Diagnostic, Severity
from dsconf.rules.rule import DEEPSPEED


class Style(NamedTuple):
    """Whether to colour what is printed, and whether to link rules to their pages (OSC 8)."""

    color: bool = False
    links: bool = False

    def __call__(self, text: str, codes: str) -> str:
        return f"\x1b[{codes}m{text}\x1b[0m" if self.color and text else text

    def link(self, text: str, url: str) -> str:
        """The text, as a link on terminals that know links."""
        return f"\x1b]8;;{url}\x1b\\{text}\x1b]8;;\x1b\\" if self.links else text


class Output(NamedTuple):
    """What every report is given. `fails`: the severities that make the command fail.

    `deepspeed`: the release that is judged for, or the first and the last of several.
    """

    write: Callable[[str], object]
    style: Style = Style()
    show_info: bool = False
    fails: Sequence[Severity] = ("error",)
    deepspeed: str = DEEPSPEED

    def shown(self, diagnostics: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
        """What people see: notes only when they ask for them."""
        return (item for item in diagnostics if item.severity != "info" or self.show_info)
