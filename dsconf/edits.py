"""Edits on paths carried out in the text of a file, which stays as it is everywhere else.

Comments, order, indentation and line ends of what is not touched survive. Every result is read again and compared with
what the edit should have made of the values, so that a text that cannot be edited safely is refused, never spoilt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from dsconf.diagnostic import Edit, Path, pointer
from dsconf.source import Array, Document, Member, Node, Object, Place, Scalar, Span, find, from_python, read_text

_GAP = re.compile(r"(?:[ \t\r\n]+|(?:#|//)[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_BLANKS = re.compile(r"[ \t]*")
_REST_OF_LINE = re.compile(r"[ \t]*(?:(?:#|//)[^\r\n]*|/\*[^\r\n]*?\*/[ \t]*)?(?=[\r\n]|\Z)")
_LINE_END = re.compile(r"\r\n?|\n")
_BARE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What may follow a number, true, false or null for Hjson to take it for one.
_CLOSES_A_WORD = re.compile(r"[ \t]*(?:[\r\n,}\]#]|/[/*]|\Z)")

#: Values with their types and the order of keys, duplicates included; edits are checked against it.
_Content: TypeAlias = "tuple[str, Any]"


class EditError(ValueError):
    """The text cannot be edited like this."""


@dataclass(frozen=True, slots=True)
class _Change:
    """Text to stand in place of a stretch of the old one."""

    start: int
    end: int
    text: str = ""


def apply(document: Document, edits: Iterable[Edit]) -> Document:
    """Carry out edits one after the other, each on what the one before it left.

    `add` makes the objects on its way and, where the key is there already, replaces its value. `move` within an object
    renames the key where it stands.

    Raises:
        EditError: a path leads nowhere, or the text would not hold the values that it should.
    """
    for edit in edits:
        document = _apply(document, edit)
    return document


def _apply(document: Document, edit: Edit) -> Document:
    if document.root is None:
        raise EditError("a file that cannot be read cannot be edited")
    if edit.op == "move" and edit.source[:-1] != edit.path[:-1]:
        return _carry(document, edit)
    changes = _changes(document, document.root, edit)
    return _checked(document, changes, _edited(_content(document.root), edit))


def _changes(document: Document, root: Object, edit: Edit) -> list[_Change]:
    if edit.op == "remove":
        return _removal(document.text, root, edit.path)
    if edit.op == "move":
        return [_renaming(document.text, root, edit)]
    place = find(root, edit.path)
    if place is not None:
        return _replacement(document.text, root, place, edit.value)
    if edit.op == "replace":
        raise EditError(f"there is nothing at {pointer(edit.path)}")
    return _addition(document, root, edit.path, edit.value)


def _checked(document: Document, changes: Sequence[_Change], expected: _Content) -> Document:
    text = document.text
    for change in sorted(changes, key=lambda item: item.start, reverse=True):
        text = text[: change.start] + change.text + text[change.end :]
    result = read_text(text, document.filename)
    if result.root is None or _content(result.root) != expected:
        raise EditError("the way this file is written does not allow the edit")
    return result


# Removing


def _removal(text: str, root: Object, path: Path) -> list[_Change]:
    elements, index = _element(root, path)
    span = elements[index]
    comma = _comma(text, span.end)
    first = index == 0
    last = index == len(elements) - 1
    changes: list[_Change] = []
    end = span.end
    if comma is not None:
        if _LINE_END.search(text, span.end, comma):
            changes.append(_Change(comma, comma + 1))
        else:
            end = comma + 1
    start = span.start
    line = _line_start(text, start)
    rest = _REST_OF_LINE.match(text, end)
    before = None if first or not last or comma is not None else _comma(text, elements[index - 1].end)
    if not text[line:start].strip(" \t") and rest:
        # Alone on its lines: they go, with what is noted behind the value.
        start, end = line, _past_line_end(text, rest.end())
        if end == rest.end() and line:
            start = _before_line_end(text, line)
        if before is not None:
            changes.append(_Change(before, before + 1))
    elif before is not None and not text[before + 1 : start].strip():
        start = before
    else:
        if before is not None:
            changes.append(_Change(before, before + 1))
        if rest and rest.group().strip() == "" and not first:
            start = len(text[:start].rstrip(" \t"))
        elif not last:
            blanks = _BLANKS.match(text, end)
            end = blanks.end() if blanks else end
    return [*changes, _Change(start, end)]


def _element(root: Object, path: Path) -> tuple[list[Span], int]:
    """The extents of all members or items beside the one at a path, itself included, and which one it is."""
    parent = find(root, path[:-1]) if path else None
    if parent is None or find(root, path) is None:
        raise EditError(f"there is nothing at {pointer(path)} that could be removed")
    node, step = parent.node, path[-1]
    if isinstance(node, Object):
        indices = [index for index, member in enumerate(node.members) if member.key == step]
        return [_extent(member) for member in node.members], indices[-1]
    if isinstance(node, Array) and isinstance(step, int):
        return [_span(item) for item in node.items], step
    raise EditError(f"there is nothing at {pointer(path)}")


# Renaming and replacing


def _renaming(text: str, root: Object, edit: Edit) -> _Change:
    place = find(root, edit.source)
    if place is None or place.key_span is None or find(root, edit.path) is not None:
        raise EditError(f"{pointer(edit.source)} cannot be renamed to {pointer(edit.path)}")
    key = str(edit.path[-1])
    old = text[place.key_span.start : place.key_span.end]
    bare = not old.startswith(('"', "'"))
    if _BARE_KEY.fullmatch(key) and bare:
        # A key without quotes spans the blanks before its colon in one odd case; they stay.
        written = key + old[len(old.rstrip()) :]
    elif old.startswith("'") and _BARE_KEY.fullmatch(key):
        written = f"'{key}'"
    else:
        written = json.dumps(key, ensure_ascii=False)
    return _Change(place.key_span.start, place.key_span.end, written)


def _replacement(text: str, root: Object, place: Place, value: Any) -> list[_Change]:
    span = _span(place.node)
    written = _written(value, text, _indent_of(text, span.start), _unit(text, root))
    word = not written.startswith(('"', "{", "["))
    if word and not _CLOSES_A_WORD.match(text, span.end):
        written += ","
    return [_Change(span.start, span.end, written)]


# Adding


def _addition(document: Document, root: Object, path: Path, value: Any) -> list[_Change]:
    depth = len(path) - 1
    while depth and find(root, path[:depth]) is None:
        depth -= 1
    place = find(root, path[:depth])
    if place is None or not isinstance(place.node, Object) or not all(isinstance(part, str) for part in path[depth:]):
        raise EditError(f"nothing can be added at {pointer(path)}")
    for part in reversed(path[depth + 1 :]):
        value = {part: value}
    key = str(path[depth])
    text = document.text
    unit = _unit(text, root)
    indent = _indent_within(text, root, place.node, unit)
    written = _written(value, text, indent, unit)
    return _insertion(document, place.node, unit, f"{json.dumps(key, ensure_ascii=False)}: {written}")


def _insertion(document: Document, block: Object, unit: str, member: str) -> list[_Change]:
    text = document.text
    line_end = _line_end(text)
    if not block.members:
        return [_first_member(text, _span(block), unit, member, line_end)]
    last = block.members[-1]
    extent = _extent(last)
    quoteless = isinstance(last.value, Scalar) and last.value.style == "quoteless"
    without_commas = any(item.kind == "missing-comma" for item in document.extensions)
    line = _line_start(text, extent.start)
    indent = text[line : extent.start]
    own_line = not indent.strip(" \t") and (line > 0 or _several_lines(text))
    comma = _comma(text, extent.end)
    at = extent.end if comma is None else comma + 1
    if not own_line and not quoteless:
        return [_Change(at, at, f", {member}" if comma is None else f" {member},")]
    if not own_line:
        indent = _indent_of(text, extent.start)
    rest = _REST_OF_LINE.match(text, at)
    end = rest.end() if rest else at
    changes = [_Change(end, end, f"{line_end}{indent}{member}" + ("," if comma is not None else ""))]
    if comma is None and not quoteless and not without_commas:
        changes.insert(0, _Change(extent.end, extent.end, ","))
        if end == extent.end:
            return [_Change(end, end, f",{line_end}{indent}{member}")]
    return changes


def _first_member(text: str, span: Span, unit: str, member: str, line_end: str) -> _Change:
    base = _indent_of(text, span.start)
    inside = text[span.start + 1 : span.end - 1]
    if not _several_lines(text):
        return _Change(span.start + 1, span.end - 1 if not inside.strip() else span.start + 1, member)
    if inside.strip():
        return _Change(span.start + 1, span.start + 1, f"{line_end}{base}{unit}{member}")
    return _Change(span.start + 1, span.end - 1, f"{line_end}{base}{unit}{member}{line_end}{base}")


# Moving to another object


def _carry(document: Document, edit: Edit) -> Document:
    """Take a member out and put it, as it was written, into another object."""
    root, text = document.root, document.text
    place = find(root, edit.source) if root else None
    if root is None or place is None or place.key_span is None or find(root, edit.path) is not None:
        raise EditError(f"{pointer(edit.source)} cannot be moved to {pointer(edit.path)}")
    span = _span(place.node)
    written, base = text[span.start : span.end], _indent_of(text, place.key_span.start)
    content = _content(place.node)
    document = _apply(document, Edit("remove", edit.source))
    marker = json.dumps("\ufffd" * 3, ensure_ascii=False)
    document = _apply(document, Edit("add", edit.path, json.loads(marker)))
    target = find(document.root, edit.path) if document.root else None
    if document.root is None or target is None or target.key_span is None:
        raise EditError(f"nothing can be added at {pointer(edit.path)}")
    if isinstance(place.node, Scalar) and place.node.style == "quoteless":
        written = json.dumps(place.node.value, ensure_ascii=False)
    elif "'''" not in written:
        new = _indent_of(document.text, target.key_span.start)
        written = re.sub(rf"(\r\n?|\n){re.escape(base)}", rf"\g<1>{new}", written)
    expected = _put(_content(document.root), edit.path, content)
    here = _span(target.node)
    return _checked(document, [_Change(here.start, here.end, written)], expected)


# Layout


def _written(value: Any, text: str, indent: str, unit: str) -> str:
    """A value as JSON, over several lines where it is an object in a text of several lines."""
    if isinstance(value, dict) and value and _several_lines(text):
        return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", _line_end(text) + indent)
    return json.dumps(value, ensure_ascii=False)


def _line_end(text: str) -> str:
    found = _LINE_END.search(text)
    return found.group() if found else "\n"


def _several_lines(text: str) -> bool:
    return _LINE_END.search(text.strip()) is not None


def _unit(text: str, root: Object) -> str:
    """What one level is indented by."""
    if root.members and root.span and text.startswith("{", root.span.start):
        span = _extent(root.members[0])
        indent = text[_line_start(text, span.start) : span.start]
        if indent and not indent.strip(" \t"):
            return indent
    return "  "


def _indent_within(text: str, root: Object, block: Object, unit: str) -> str:
    if block.members:
        return _indent_of(text, _extent(block.members[-1]).start)
    return _indent_of(text, _span(block).start) + unit if root is not block or _several_lines(text) else ""


def _indent_of(text: str, at: int) -> str:
    """The blanks that the line around an offset begins with."""
    blanks = _BLANKS.match(text, _line_start(text, at))
    return blanks.group() if blanks else ""


def _line_start(text: str, at: int) -> int:
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def _past_line_end(text: str, at: int) -> int:
    found = _LINE_END.match(text, at)
    return found.end() if found else at


def _before_line_end(text: str, line: int) -> int:
    return line - 2 if text[line - 2 : line] == "\r\n" else line - 1


def _comma(text: str, at: int) -> int | None:
    """Where the comma stands that follows an element that ends at `at`."""
    gap = _GAP.match(text, at)
    end = gap.end() if gap else at
    return end if text.startswith(",", end) else None


def _span(node: Node) -> Span:
    if node.span is None:
        raise EditError("values that were not read from a text cannot be edited")
    return node.span


def _extent(member: Member) -> Span:
    if member.key_span is None:
        raise EditError("values that were not read from a text cannot be edited")
    return Span(member.key_span.start, _span(member.value).end)


# What the values should be afterwards


def _content(node: Node) -> _Content:
    if isinstance(node, Object):
        return "object", [(member.key, _content(member.value)) for member in node.members]
    if isinstance(node, Array):
        return "array", [(index, _content(item)) for index, item in enumerate(node.items)]
    return type(node.value).__name__, node.value


def _edited(content: _Content, edit: Edit) -> _Content:
    if edit.op == "remove":
        return _put(content, edit.path, None)
    if edit.op == "move":
        return _put(content, edit.source, None, rename=str(edit.path[-1]))
    return _put(content, edit.path, _content(_as_read(edit.value)))


def _as_read(value: Any) -> Node:
    """A value as it is once it has been written and read: `1e3` comes back as an integer."""
    document = read_text(json.dumps({"value": value}), "")
    place = find(document.root, ("value",)) if document.root else None
    return place.node if place else from_python(value)


def _put(content: _Content, path: Path, value: _Content | None, rename: str = "") -> _Content:
    """The content with another value at a path; None takes what is there away, or renames it."""
    kind, given = content
    pairs: list[tuple[str | int, Any]] = list(given)
    step = path[0]
    index = max((index for index, pair in enumerate(pairs) if pair[0] == step), default=-1)
    if len(path) > 1:
        inner: _Content = pairs[index][1] if index >= 0 else ("object", [])
        changed = _put(inner, path[1:], value, rename)
    elif rename:
        pairs[index] = (rename, pairs[index][1])
        return kind, pairs
    elif value is None:
        del pairs[index]
        return kind, pairs if kind == "object" else [(at, pair[1]) for at, pair in enumerate(pairs)]
    else:
        changed = value
    if index >= 0:
        pairs[index] = (step, changed)
    else:
        pairs.append((step, changed))
    return kind, pairs
