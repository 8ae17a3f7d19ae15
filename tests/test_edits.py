"""Edits in the text of a file: the values become what was asked for, and every other byte stays."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsconf.diagnostic import Edit, Path
from dsconf.edits import EditError, apply
from dsconf.source import find, plain, read_text

_KEYS = st.sampled_from(["a", "b", "c", "d", "e"])
_SCALARS = st.one_of(st.integers(-9, 10**12), st.booleans(), st.none(), st.sampled_from(["", "x y", "é", "}", "#"]))
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.dictionaries(_KEYS, inner, max_size=4), st.lists(inner, max_size=3)),
    max_leaves=12,
)


class _Layout:
    """Writes values in one of the many ways in which people write them."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.line_end = draw(st.sampled_from(["\n", "\r\n"]))
        self.unit = draw(st.sampled_from(["  ", "\t", "    "]))
        self.hjson = draw(st.booleans())
        self.notes = 0

    def note(self) -> str:
        if not self.hjson or not self.draw(st.booleans()):
            return ""
        self.notes += 1
        return self.draw(st.sampled_from([" // note{}", " # note{}", " /* note{} */"])).format(self.notes)

    def key(self, key: str) -> str:
        return self.draw(st.sampled_from([f'"{key}"', key, f"'{key}'"])) if self.hjson else f'"{key}"'

    def write(self, value: Any, indent: str) -> str:
        if isinstance(value, dict) and value and self.draw(st.booleans()):
            return self.lines(value, indent)
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.key(key)}: {self.write(item, indent)}" for key, item in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(self.write(item, indent) for item in value) + "]"
        return json.dumps(value, ensure_ascii=False)

    def lines(self, value: dict[str, Any], indent: str) -> str:
        inner = indent + self.unit
        commas = not self.hjson or self.draw(st.booleans())
        text = "{" + self.line_end
        for number, (key, item) in enumerate(value.items()):
            last = number == len(value) - 1
            above = self.note()
            if above:
                text += inner + above.strip() + self.line_end
            comma = "," if commas and (not last or (self.hjson and self.draw(st.booleans()))) else ""
            text += f"{inner}{self.key(key)}: {self.write(item, inner)}{comma}{self.note()}{self.line_end}"
        return text + indent + "}"


@st.composite
def _files(draw: Any) -> tuple[str, dict[str, Any]]:
    values = draw(st.dictionaries(_KEYS, _VALUES, min_size=1, max_size=5))
    layout = _Layout(draw)
    text = layout.lines(values, "") if draw(st.booleans()) else layout.write(values, "")
    return text + draw(st.sampled_from(["", layout.line_end])), values


def _paths(value: Any, path: Path = ()) -> list[Path]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in pairs for place in ((*path, key), *_paths(item, (*path, key)))]


def _edit(text: str, *edits: Edit) -> str:
    return apply(read_text(text, "ds_config.json"), edits).text


def _subsequence(short: str, long: str) -> bool:
    letters = iter(long)
    return all(letter in letters for letter in short)


def _own_line_ends(text: str, result: str) -> bool:
    return "\r\n" not in text or "\n" not in result.replace("\r\n", "")


_NOTE = re.compile(r"note\d+")


def _notes_elsewhere(text: str, path: Path) -> list[str]:
    """The notes that stand neither in the value at a path nor behind it on its line."""
    root = read_text(text, "").root
    place = find(root, path) if root else None
    assert place is not None and place.node.span is not None
    start, end = place.node.span.start, place.node.span.end
    line_end = re.search(r"[\r\n]|\Z", text[end:])
    assert line_end is not None
    return [item.group() for item in _NOTE.finditer(text) if not start <= item.start() < end + line_end.start()]


def _at(values: Any, path: Path) -> Any:
    for step in path:
        values = values[step]
    return values


@given(_files(), st.data())
def test_removing_takes_one_member_and_nothing_else(file: tuple[str, dict[str, Any]], data: Any) -> None:
    text, values = file
    path = data.draw(st.sampled_from(_paths(values)))
    result = _edit(text, Edit("remove", path))
    del _at(values, path[:-1])[path[-1]]
    root = read_text(result, "").root
    assert root is not None and plain(root) == values
    assert _subsequence(result, text)
    assert _own_line_ends(text, result)
    assert set(_notes_elsewhere(text, path)) <= set(_NOTE.findall(result))


@given(_files(), _VALUES, st.data())
def test_replacing_touches_the_value_alone(file: tuple[str, dict[str, Any]], value: Any, data: Any) -> None:
    text, values = file
    path = data.draw(st.sampled_from(_paths(values)))
    root = read_text(text, "").root
    place = find(root, path) if root else None
    assert place is not None and place.node.span is not None
    result = _edit(text, Edit("replace", path, value))
    span = place.node.span
    assert result.startswith(text[: span.start]) and result.endswith(text[span.end :])
    _at(values, path[:-1])[path[-1]] = value
    root = read_text(result, "").root
    assert root is not None and plain(root) == values
    assert _own_line_ends(text, result)


@given(_files(), _VALUES, st.data())
def test_adding_only_adds(file: tuple[str, dict[str, Any]], value: Any, data: Any) -> None:
    text, values = file
    blocks = [(), *(path for path in _paths(values) if isinstance(_at(values, path), dict))]
    path = (*data.draw(st.sampled_from(blocks)), "new")
    result = _edit(text, Edit("add", path, value))
    _at(values, path[:-1])["new"] = value
    root = read_text(result, "").root
    assert root is not None and plain(root) == values
    assert _subsequence("".join(text.split()), "".join(result.split()))
    assert _own_line_ends(text, result)


@given(_files(), st.data())
def test_renaming_touches_the_key_alone(file: tuple[str, dict[str, Any]], data: Any) -> None:
    text, values = file
    path = data.draw(st.sampled_from([path for path in _paths(values) if isinstance(path[-1], str)]))
    result = _edit(text, Edit("move", (*path[:-1], "new"), source=path))
    root = read_text(text, "").root
    place = find(root, path) if root else None
    assert place is not None and place.key_span is not None
    span = place.key_span
    assert result.startswith(text[: span.start]) and result.endswith(text[span.end :])
    block = _at(values, path[:-1])
    renamed = [("new" if key == path[-1] else key, item) for key, item in block.items()]
    after = read_text(result, "").root
    node = find(after, path[:-1]) if after else None
    assert node is not None and list(plain(node.node).items()) == renamed


@given(_files(), st.data())
def test_moving_carries_the_value_as_it_was_written(file: tuple[str, dict[str, Any]], data: Any) -> None:
    text, values = file
    source = data.draw(st.sampled_from([path for path in _paths(values) if isinstance(path[-1], str)]))
    blocks = [path for path in _paths(values) if isinstance(_at(values, path), dict) and path[: len(source)] != source]
    target = (*data.draw(st.sampled_from([*blocks, (), ("fresh", "block")])), "moved")
    if any(isinstance(step, int) for step in source) or target[:-1] == source[:-1]:
        return
    result = _edit(text, Edit("move", target, source=source))
    value = _at(values, source[:-1]).pop(source[-1])
    block = values
    for step in target[:-1]:
        block = block.setdefault(step, {}) if isinstance(block, dict) else block[step]
    block["moved"] = value
    root = read_text(result, "").root
    assert root is not None and plain(root) == values
    assert set(_notes_elsewhere(text, source)) <= set(_NOTE.findall(result))
    assert _own_line_ends(text, result)


@pytest.mark.parametrize(
    ("text", "path", "result"),
    [
        ('{"a": 1, "b": 2}', "a", '{"b": 2}'),
        ('{"a": 1, "b": 2}', "b", '{"a": 1}'),
        ('{"a": 1}', "a", "{}"),
        ('{\n  "a": 1,\n  "b": 2\n}\n', "b", '{\n  "a": 1\n}\n'),
        ('{\r\n  "a": 1, // one\r\n  "b": 2 // two\r\n}\r\n', "b", '{\r\n  "a": 1 // one\r\n}\r\n'),
        ("{\n  # first\n  a: 1\n  # second\n  b: some words\n}", "b", "{\n  # first\n  a: 1\n  # second\n}"),
        ("a: 1\nb: some words", "b", "a: 1"),
        ("a: 1\nb: 2", "a", "b: 2"),
        ("{a: 1\n, b: 2}", "b", "{a: 1\n}"),
        ('{"a": 1, "b": 2,\n "c": 3}', "b", '{"a": 1,\n "c": 3}'),
    ],
)
def test_removing(text: str, path: str, result: str) -> None:
    assert _edit(text, Edit("remove", (path,))) == result


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("{}", '{"new": 1}'),
        ('{"a": 1}', '{"a": 1, "new": 1}'),
        ('{\n\t"a": 1\n}', '{\n\t"a": 1,\n\t"new": 1\n}'),
        ('{\n  "a": 1, // one\n}', '{\n  "a": 1, // one\n  "new": 1,\n}'),
        ('{\n  "a": 1 // one\n}', '{\n  "a": 1, // one\n  "new": 1\n}'),
        ("a: some words", 'a: some words\n"new": 1'),
        ("{\n  a: 1\n  b: 2\n}", '{\n  a: 1\n  b: 2\n  "new": 1\n}'),
    ],
)
def test_adding_like_its_neighbours(text: str, result: str) -> None:
    assert _edit(text, Edit("add", ("new",), 1)) == result


def test_a_moved_block_keeps_its_comments_and_takes_the_indentation_of_its_new_place() -> None:
    text = '{\n  "o": {\n    # why\n    "d": "cpu"\n  },\n  "z": {\n    "stage": 2\n  }\n}'
    result = '{\n  "z": {\n    "stage": 2,\n    "o": {\n      # why\n      "d": "cpu"\n    }\n  }\n}'
    assert _edit(text, Edit("move", ("z", "o"), source=("o",))) == result


def test_what_cannot_be_edited_is_refused() -> None:
    with pytest.raises(EditError):
        _edit('{"a": 1}', Edit("remove", ("b",)))
    with pytest.raises(EditError):
        _edit("a: 1", Edit("remove", ("a",)))
    with pytest.raises(EditError):
        _edit('{"a": 1, "b": 2}', Edit("move", ("b",), source=("a",)))
