"""Fixing a file: the remedies that findings carry, carried out in its text, until none is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dsconf.check import check
from dsconf.diagnostic import Diagnostic, Path
from dsconf.edits import EditError, apply
from dsconf.rules.rule import Context
from dsconf.source import Document

# Renaming one key can bring another finding to light, so fixing goes on; no file needs nearly so many rounds.
_MOST_ROUNDS = 50


@dataclass(frozen=True, slots=True)
class Fixed:
    """A document after fixing, what was fixed, in order, and what is still to say about it."""

    document: Document
    applied: tuple[Diagnostic, ...]
    diagnostics: tuple[Diagnostic, ...]


#: Chooses those findings of a document that are to be fixed.
Choice = Callable[[Document, Sequence[Diagnostic]], "tuple[Diagnostic, ...]"]


def _all(document: Document, diagnostics: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(diagnostics)


def fix(document: Document, context: Context | None = None, *, unsafe: bool = False, chosen: Choice = _all) -> Fixed:
    """Carry out every fix that is safe, or with `unsafe` every fix, of the `chosen` findings.

    A fix counts only when the text can still be read and the finding is gone; others leave no trace. Of fixes that
    meddle with the same place the first one is carried out, and the rest looked at anew.
    """
    applied: list[Diagnostic] = []
    texts = {document.text}
    refused: set[tuple[str, Path]] = set()
    diagnostics = check(document, context).diagnostics
    for _ in range(_MOST_ROUNDS):
        item = next(
            (item for item in chosen(document, diagnostics) if _fits(item, unsafe) and _identity(item) not in refused),
            None,
        )
        if item is None or item.fix is None:
            break
        try:
            attempt = apply(document, item.fix.edits)
        except EditError:
            refused.add(_identity(item))
            continue
        found = check(attempt, context).diagnostics
        if attempt.text in texts or _identity(item) in map(_identity, found):
            refused.add(_identity(item))
            continue
        texts.add(attempt.text)
        document, diagnostics = attempt, found
        applied.append(item)
    return Fixed(document, tuple(applied), diagnostics)


def _fits(item: Diagnostic, unsafe: bool) -> bool:
    return item.fix is not None and (item.fix.safe or unsafe)


def _identity(item: Diagnostic) -> tuple[str, Path]:
    return item.code, item.path


class ChangedError(OSError):
    """The file is not what it was when it was read."""

    def __init__(self) -> None:
        super().__init__(0, "it was changed by somebody else in the meantime, and is left as it is; run again")


def write_back(before: Document, after: Document) -> None:
    """Write what became of a document into the file that it was read from.

    Raises:
        ChangedError: the file is no longer what was read.
        OSError: it cannot be read or written.
    """
    from dsconf.atomic import write_text
    from dsconf.source import read_file

    if read_file(before.filename).text != before.text:
        raise ChangedError
    write_text(before.filename, after.text)


def unified_diff(before: Document, after: Document) -> str:
    """What changed in the text, as a patch; empty when nothing did."""
    import difflib

    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(
            before.text.splitlines(keepends=True),
            after.text.splitlines(keepends=True),
            before.filename,
            before.filename,
        )
    )
