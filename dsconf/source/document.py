"""A ds_config file as read: its text, its tree and what there is to say about its syntax."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

from dsconf.source.tree import Object, Span

_LINE_END = re.compile(r"\r\n?|\n")

ExtensionKind: TypeAlias = Literal[
    "byte-order-mark",
    "comment",
    "trailing-comma",
    "missing-comma",
    "unquoted-key",
    "quoteless-string",
    "single-quoted",
    "multiline-string",
    "no-root-braces",
]


class Position(NamedTuple):
    """A place in a text: `line` and `column` count from 1, `offset` from 0; columns and offsets are code points."""

    line: int
    column: int
    offset: int


class Fault(NamedTuple):
    """A reason the text cannot be read: what is wrong, what to do, and where."""

    message: str
    help: str
    span: Span


class Extension(NamedTuple):
    """Something DeepSpeed's Hjson reader accepts and a strict JSON reader refuses, where it first appears.

    The span of a missing comma is empty and lies right after the value that lacks it; that of missing root braces is
    the first key.
    """

    kind: ExtensionKind
    span: Span


def line_starts(text: str) -> list[int]:
    r"""Return the offset at which each line begins; \n, \r and \r\n end a line."""
    return [0, *(match.end() for match in _LINE_END.finditer(text))]


def byte_order_mark(text: str) -> int:
    """Return how many code points of a byte order mark the text begins with: 0, 1, or 3 for one decoded as Latin-1."""
    if text.startswith("\ufeff"):
        return 1
    return 3 if text.startswith("\xef\xbb\xbf") else 0


class Document:
    """The outcome of reading one file.

    `root` is None exactly when there is a fault. `text` is empty where the bytes could not be taken for text at all.
    """

    def __init__(
        self,
        filename: str,
        text: str,
        root: Object | None,
        faults: tuple[Fault, ...] = (),
        extensions: tuple[Extension, ...] = (),
    ) -> None:
        self.filename = filename
        self.text = text
        self.root = root
        self.faults = faults
        self.extensions = extensions

    def with_root(self, root: Object) -> Document:
        """The same text, taken for another tree."""
        return Document(self.filename, self.text, root, (), self.extensions)

    @cached_property
    def _starts(self) -> list[int]:
        starts = line_starts(self.text)
        starts[0] = byte_order_mark(self.text)
        return starts

    def position(self, offset: int) -> Position:
        """Return line and column of an offset; a byte order mark takes no column."""
        offset = max(0, min(offset, len(self.text)))
        line = max(1, bisect_right(self._starts, offset))
        return Position(line, max(0, offset - self._starts[line - 1]) + 1, offset)

    def line(self, number: int) -> str:
        """Return line `number`, counted from 1, without its line end; "" for a line the text does not have."""
        if not 1 <= number <= len(self._starts):
            return ""
        end = self._starts[number] if number < len(self._starts) else len(self.text)
        return self.text[self._starts[number - 1] : end].rstrip("\r\n")
