"""Findings that were there before, written down once, so that later only new ones are reported."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

from dsconf.diagnostic import Diagnostic
from dsconf.source import Document

FORMAT_VERSION = 1


class BaselineError(ValueError):
    """A file that holds no baseline; the text is for people."""


class Known(NamedTuple):
    """What a finding is known by: its file, as seen from the baseline's folder, its rule and its JSON Pointer."""

    file: str
    rule: str
    pointer: str


@dataclass(slots=True)
class Baseline:
    """The findings that were there before; `keep` leaves the others and remembers which are still there."""

    path: Path
    known: Counter[Known] = field(default_factory=Counter[Known])
    _asked: set[str] = field(default_factory=set[str])
    _found: Counter[Known] = field(default_factory=Counter[Known])

    def keep(self, document: Document, diagnostics: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
        """The findings of a document that are new."""
        file = _seen_from(self.path.parent, document.filename)
        self._asked.add(file)
        new: list[Diagnostic] = []
        for item in diagnostics:
            mark = Known(file, item.code, item.pointer)
            self._found[mark] += 1
            if self._found[mark] > self.known[mark]:
                new.append(item)
        return tuple(new)

    def stale(self) -> list[str]:
        """A line for each finding that is gone from a file that was looked at."""
        gone = {mark: self.known[mark] - self._found[mark] for mark in sorted(self.known) if mark.file in self._asked}
        return [
            f"{self.path}: {mark.rule} at {mark.pointer or 'the root'} of {mark.file} is no longer found; remove it"
            for mark, count in gone.items()
            for _ in range(count)
        ]

    def write(self) -> int:
        """Write down what was found instead of what was known; how many that is.

        Raises:
            OSError: the file cannot be written.
        """
        from dsconf.atomic import write_text

        findings = [mark._asdict() for mark in sorted(self._found.elements())]
        data = {"format_version": FORMAT_VERSION, "findings": findings}
        write_text(self.path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")
        return len(findings)


def read(path: str) -> Baseline:
    """The baseline in a file.

    Raises:
        OSError: the file cannot be read.
        BaselineError: it is no baseline.
    """
    try:
        data: Any = json.loads(Path(path).read_text(encoding="utf-8"))
        if data["format_version"] != FORMAT_VERSION:
            raise BaselineError(f"{path}: a baseline of another format; write it anew with --write-baseline")
        findings = cast("list[dict[str, str]]", data["findings"])
        known = Counter(Known(str(item["file"]), str(item["rule"]), str(item["pointer"])) for item in findings)
    except BaselineError:
        raise
    except (ValueError, TypeError, KeyError):
        raise BaselineError(f"{path}: no baseline; write one with --write-baseline") from None
    return Baseline(Path(path), known)


def _seen_from(folder: Path, filename: str) -> str:
    try:
        return Path(os.path.relpath(filename, folder)).as_posix()
    except ValueError:
        # Another drive, on Windows.
        return Path(filename).as_posix()
