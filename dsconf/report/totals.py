"""How much was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dsconf.diagnostic import Diagnostic


@dataclass(slots=True)
class Totals:
    """How many files and findings there are, by severity, and how many findings have a fix."""

    files: int = 0
    errors: int = 0
    warnings: int = 0
    infos: int = 0
    fixable: int = 0

    def add(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Count one file."""
        self.files += 1
        self.errors += sum(item.severity == "error" for item in diagnostics)
        self.warnings += sum(item.severity == "warning" for item in diagnostics)
        self.infos += sum(item.severity == "info" for item in diagnostics)
        self.fixable += sum(item.fix is not None for item in diagnostics)
