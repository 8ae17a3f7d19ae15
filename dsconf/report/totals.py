"""How much was found."""

from __future__ import annotations

from collections.abc import Sequence

from dsconf.diagnostic import Diagnostic


class Totals:
    """How many files and findings there are, by severity, and how many findings have a fix."""

    def __init__(self) -> None:
        self.files = 0
        self.errors = 0
        self.warnings = 0
        self.infos = 0
        self.fixable = 0

    def add(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Count one file."""
        self.files += 1
        self.errors += sum(item.severity == "error" for item in diagnostics)
        self.warnings += sum(item.severity == "warning" for item in diagnostics)
        self.infos += sum(item.severity == "info" for item in diagnostics)
        self.fixable += sum(item.fix is not None for item in diagnostics)
