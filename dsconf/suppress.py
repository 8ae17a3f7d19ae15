"""Which findings somebody decided to live with: by option, by configuration file, or by a comment in the file itself.

`dsconf.toml`, or `[tool.dsconf]` in `pyproject.toml`, whichever is found first from the working directory upwards:

    ignore = ["DS604", "clipping-by-default"]

    [[suppress]]
    rule = "DS301"
    files = "configs/*.json"
    pointer = "/zero_optimization"
    reason = "shared with the stage-2 runs"
    until = 2027-01-31
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from dsconf.diagnostic import Diagnostic
from dsconf.source import Document

if TYPE_CHECKING:
    from datetime import date

_NAMES = ("dsconf.toml", "pyproject.toml")
_COMMENT = r"(?:#|//|/\*)\s*dsconf:\s*ignore\s+([\w-]+(?:\s*,\s*[\w-]+)*)"
_ALONE = r"\s*(?:#|//|/\*)"


class SuppressError(ValueError):
    """A decision that cannot be understood; the text is for people."""


class Suppression(NamedTuple):
    """One decision: a rule, where it is not to speak (a pattern of files, a JSON Pointer), why, and until when."""

    rule: str
    reason: str
    files: str = "*"
    pointer: str = ""
    until: date | None = None

    def about(self, filename: str) -> bool:
        """Whether it speaks about a file."""
        from fnmatch import fnmatchcase

        name = filename.replace(os.sep, "/")
        return fnmatchcase(name, self.files) or fnmatchcase(name, f"*/{self.files}")

    def covers(self, item: Diagnostic) -> bool:
        """Whether it silences a finding."""
        inside = item.pointer == self.pointer or item.pointer.startswith(f"{self.pointer}/")
        return self.about(item.filename) and _names(self.rule, item) and (not self.pointer or inside)


class Suppressions:
    """All decisions; `keep` applies them and remembers which were of use."""

    def __init__(
        self,
        select: tuple[str, ...] = (),
        ignore: tuple[str, ...] = (),
        entries: tuple[Suppression, ...] = (),
        source: str = "",
        today: date | None = None,
    ) -> None:
        self.select = select
        self.ignore = ignore
        self.entries = entries
        self.source = source
        self._today = today
        self._used: set[Suppression] = set()
        self._asked: set[Suppression] = set()

    def keep(self, document: Document, diagnostics: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
        """The findings about which something is to be said."""
        self._asked.update(entry for entry in self.entries if entry.about(document.filename))
        return tuple(item for item in diagnostics if not self._silenced(document, item))

    def stale(self) -> list[str]:
        """The decisions that are past their date or silenced nothing in the files that they speak about."""
        found: list[str] = []
        for entry in self.entries:
            if self._is_over(entry):
                found.append(f"{self.source}: the suppression of {entry.rule} ended on {entry.until}: {entry.reason}")
            elif entry in self._asked and entry not in self._used:
                found.append(f"{self.source}: the suppression of {entry.rule} silences nothing any more; remove it")
        return found

    def _silenced(self, document: Document, item: Diagnostic) -> bool:
        if self.select and not any(_names(word, item) for word in self.select):
            return True
        if any(_names(word, item) for word in self.ignore) or _by_comment(document, item):
            return True
        held = [entry for entry in self.entries if entry.covers(item) and not self._is_over(entry)]
        self._used.update(held)
        return bool(held)

    def _is_over(self, entry: Suppression) -> bool:
        from datetime import date

        return entry.until is not None and entry.until < (self._today or date.today())


def _names(word: str, item: Diagnostic) -> bool:
    return word.lower() in (item.code.lower(), item.name)


def _by_comment(document: Document, item: Diagnostic) -> bool:
    """A comment on the finding's line, or alone on the line above."""
    if item.location is None or not any(each.kind == "comment" for each in document.extensions):
        return False
    above = document.line(item.location.line - 1)
    lines = [document.line(item.location.line), above if re.match(_ALONE, above) else ""]
    words = [
        word for line in lines if (found := re.search(_COMMENT, line)) for word in re.split(r"\s*,\s*", found.group(1))
    ]
    return any(_names(word, item) for word in words)


def suppressions(select: Sequence[str] = (), ignore: Sequence[str] = (), start: str | None = None) -> Suppressions:
    """What is decided by options, and by the nearest configuration file.

    Raises:
        SuppressError: a rule does not exist, or the file cannot be understood.
        OSError: the file cannot be read.
    """
    path, table = _nearest(os.path.realpath(start or os.getcwd()))
    unknown = sorted(set(table) - {"select", "ignore", "suppress"})
    if unknown:
        raise SuppressError(f"{path}: unknown key {unknown[0]!r}; there are select, ignore and suppress")
    chosen = [*select, *_words(table, "select", path)]
    left = [*ignore, *_words(table, "ignore", path)]
    entries = tuple(_entry(item, path) for item in _list(table, "suppress", path))
    _check_rules([*chosen, *left, *(entry.rule for entry in entries)])
    return Suppressions(tuple(chosen), tuple(left), entries, path)


def _nearest(folder: str) -> tuple[str, Mapping[str, Any]]:
    inside = ""
    while folder != inside:
        for name in _NAMES:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and (table := _read(path)) is not None:
                return path, table
        folder, inside = os.path.dirname(folder), folder
    return "", {}


def _read(path: str) -> Mapping[str, Any] | None:
    """What a file decides; None where it is a project's and says nothing about us."""
    import sys
    from importlib import import_module

    shared = os.path.basename(path) == "pyproject.toml"
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if shared and "dsconf" not in text:
            return None
        # Python has the reader from 3.11 on; before, the package that it was made from does.
        tomllib: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
        table = tomllib.loads(text)
    except ValueError as error:
        raise SuppressError(f"{path}: {error}") from None
    return table.get("tool", {}).get("dsconf") if shared else table


def _list(table: Mapping[str, Any], key: str, path: str) -> list[Any]:
    value = table.get(key, [])
    if not isinstance(value, list):
        raise SuppressError(f"{path}: `{key}` must be a list")
    return cast("list[Any]", value)


def _words(table: Mapping[str, Any], key: str, path: str) -> list[str]:
    return [str(item) for item in _list(table, key, path)]


def _entry(record: Any, path: str) -> Suppression:
    if not isinstance(record, dict):
        raise SuppressError(f"{path}: an entry of `suppress` is a table with rule and reason")
    from datetime import date

    types = {"rule": str, "files": str, "pointer": str, "reason": str, "until": date}
    given = cast("dict[str, Any]", record)
    for key, value in given.items():
        if key not in types or not isinstance(value, types[key]):
            raise SuppressError(f"{path}: `{key}` in `suppress` does not fit; there are {', '.join(types)}")
    if not given.get("rule") or not given.get("reason"):
        raise SuppressError(f"{path}: an entry of `suppress` needs a rule and a reason")
    return Suppression(**given)


def _check_rules(words: Sequence[str]) -> None:
    from dsconf.rules import RULES, find_rule
    from dsconf.rules.rule import close_match

    for word in words:
        if find_rule(word) is None:
            guess = close_match(word, [name for item in RULES for name in (item.code, item.name)])
            raise SuppressError(f"there is no rule {word!r}" + (f"; did you mean {guess}?" if guess else ""))
