"""A fix as stretches of the text that are replaced, for programs that apply fixes themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from dsconf.diagnostic import Fix
from dsconf.edits import EditError, apply
from dsconf.source import Document, Position


@dataclass(frozen=True, slots=True)
class Replacement:
    """What stands from `start` up to `end` becomes `text`."""

    start: Position
    end: Position
    text: str


def replacements(document: Document, fix: Fix) -> tuple[Replacement, ...]:
    """The stretches that a fix replaces, in order; none where the text does not allow it."""
    try:
        after = apply(document, fix.edits).text
    except EditError:
        return ()
    return tuple(_changes(document, after))


def _changes(document: Document, after: str) -> Iterator[Replacement]:
    before = document.text
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    for kind, first, last, new_first, new_last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        start, end, text = starts[first], starts[last], "".join(new[new_first:new_last])
        lead = _shared(before[start:end], text)
        tail = _shared(before[start + lead : end][::-1], text[lead:][::-1])
        place = document.position(start + lead), document.position(end - tail)
        yield Replacement(*place, text[lead : len(text) - tail])


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    return next(
        (index for index, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(other)),
    )
