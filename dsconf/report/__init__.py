"""What a validation shows, in every format: one module for each kind of reader."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from dsconf.report.output import Output, Style

if TYPE_CHECKING:
    from dsconf.diagnostic import Diagnostic
    from dsconf.source import Document

__all__ = ["FORMATS", "Output", "Report", "Style", "report"]

#: Each format, with the class that writes it.
FORMATS = {
    "full": "dsconf.report.text:Full",
    "concise": "dsconf.report.text:Concise",
    "json": "dsconf.report.json:Json",
    "jsonl": "dsconf.report.json:JsonLines",
    "github": "dsconf.report.github:GitHub",
    "sarif": "dsconf.report.sarif:Sarif",
    "junit": "dsconf.report.junit:JUnit",
}


class Report(Protocol):
    """Takes the findings of one file after the other; what it can write at once, it does not keep."""

    def add(self, document: Document, diagnostics: Sequence[Diagnostic]) -> None:
        """A file was checked."""
        ...

    def end(self) -> None:
        """There are no more files."""
        ...


def report(format: str, output: Output) -> Report:
    """A new report in one of the `FORMATS`."""
    module, _, name = FORMATS[format].partition(":")
    return getattr(import_module(module), name)(output)
