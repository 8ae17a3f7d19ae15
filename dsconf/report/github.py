"""Annotations of a pull request: workflow commands that GitHub Actions reads from the log."""

from __future__ import annotations

from collections.abc import Sequence

from dsconf.diagnostic import SEVERITIES, Diagnostic, Severity
from dsconf.report.output import Output
from dsconf.report.places import in_repository
from dsconf.report.text import concise, effect, printable, summary
from dsconf.report.totals import Totals
from dsconf.source import Document

_COMMANDS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "notice"}


class GitHub:
    """Errors come first, because only the first ten of a step are shown beside the code. The totals come last."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._totals = Totals()
        self._lines: dict[Severity, list[str]] = {severity: [] for severity in SEVERITIES}

    def add(self, document: Document, diagnostics: Sequence[Diagnostic]) -> None:
        self._totals.add(diagnostics)
        for item in self._output.shown(diagnostics):
            self._lines[item.severity].append(command(item))

    def end(self) -> None:
        for lines in self._lines.values():
            for line in lines:
                self._output.write(line + "\n")
        self._output.write(summary(self._totals, self._output.show_info) + "\n")


def command(item: Diagnostic) -> str:
    """The workflow command for one finding. Columns are given only where start and end are on one line."""
    properties = {"title": f"{item.code} {item.name}", "file": printable(in_repository(item.filename))}
    start, end = item.location, item.end_location
    if start and end:
        properties |= {"line": str(start.line), "endLine": str(end.line)}
        if start.line == end.line:
            properties |= {"col": str(start.column), "endColumn": str(end.column)}
    lines = [concise(item), f"{item.actor}: {effect(item)}"]
    if item.help:
        lines.append(f"help: {printable(item.help)}")
    lines.append(item.url)
    written = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{_COMMANDS[item.severity]} {written}::{_data(chr(10).join(lines))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
