"""Reports for programs: one JSON object, or one JSON object on each line."""

from __future__ import annotations

import json
from collections.abc import Sequence

from dsconf import __version__
from dsconf.diagnostic import Diagnostic
from dsconf.report.output import Output
from dsconf.report.records import FORMAT_VERSION, DiagnosticRecord, ReportRecord, records, summary
from dsconf.report.totals import Totals
from dsconf.source import Document


class Json:
    """One object with everything in it."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._totals = Totals()
        self._found: list[DiagnosticRecord] = []

    def add(self, document: Document, diagnostics: Sequence[Diagnostic]) -> None:
        self._totals.add(diagnostics)
        self._found += records(diagnostics)

    def end(self) -> None:
        whole: ReportRecord = {
            "format_version": FORMAT_VERSION,
            "tool": {"name": "dsconf", "version": __version__},
            "deepspeed": self._output.deepspeed,
            "summary": summary(self._totals),
            "diagnostics": self._found,
        }
        self._output.write(json.dumps(whole, indent=2) + "\n")


class JsonLines:
    """One finding on each line, as soon as it is known."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def add(self, document: Document, diagnostics: Sequence[Diagnostic]) -> None:
        for record in records(diagnostics):
            self._output.write(json.dumps(record) + "\n")

    def end(self) -> None:
        pass
