"""The tree a ds_config is read into: values together with the places they were written at."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast

MAX_DEPTH = 100
"""How many objects and arrays may be nested in each other, the root included."""

Style: TypeAlias = Literal["json", "quoteless", "multiline", "single-quoted"]


class Span(NamedTuple):
    """A stretch of text as offsets in code points; `end` is exclusive."""

    start: int
    end: int


class Scalar(NamedTuple):
    """One string, number, boolean or null.

    `text` is what the file holds from `span.start` to `span.end`, quotes included: `5e8` where `value` is 500000000.
    `style` is "json" for everything JSON itself can write and tells the ways of writing a string that only Hjson knows.
    """

    value: str | int | float | bool | None
    span: Span | None
    text: str
    style: Style = "json"


class Array(NamedTuple):
    """A list; the span covers both brackets."""

    items: tuple[Node, ...]
    span: Span | None


class Member(NamedTuple):
    """One key with its value; `key_span` covers the quotes of the key if it has any."""

    key: str
    key_span: Span | None
    value: Node


class Object:
    """A mapping in the order of the file; a key written twice has two members. The span covers both braces."""

    __slots__ = ("_last", "members", "span")

    def __init__(self, members: tuple[Member, ...], span: Span | None) -> None:
        self.members = members
        self.span = span
        self._last = {member.key: member for member in members}

    def get(self, key: str) -> Member | None:
        """Return the last member of that key, the one a reader that allows duplicates goes by."""
        return self._last.get(key)

    def keys(self) -> tuple[str, ...]:
        """Return each key once, in the order of first appearance."""
        return tuple(self._last)


Node: TypeAlias = Scalar | Array | Object


class Place(NamedTuple):
    """What `find` found: the node and, where the last step of the path is an object's key, the span of that key."""

    node: Node
    key_span: Span | None


def find(root: Node, path: Sequence[str | int]) -> Place | None:
    """Follow keys (str) and list positions (int) from `root`; None if the path leads nowhere.

    The empty path finds the root itself. Of duplicate keys the last one is followed.
    """
    node, key_span = root, None
    for step in path:
        if isinstance(node, Object) and isinstance(step, str):
            member = node.get(step)
            if member is None:
                return None
            node, key_span = member.value, member.key_span
        elif isinstance(node, Array) and isinstance(step, int) and 0 <= step < len(node.items):
            node, key_span = node.items[step], None
        else:
            return None
    return Place(node, key_span)


def find_key(root: Object, name: str) -> Member | None:
    """Return the member of that key that is nested least, in objects only; None if there is none."""
    level = [root]
    while level:
        for item in level:
            member = item.get(name)
            if member is not None:
                return member
        level = [member.value for item in level for member in item.members if isinstance(member.value, Object)]
    return None


def plain(node: Node) -> Any:
    """Return the dict, list or scalar the node stands for; of duplicate keys the last value wins."""
    if isinstance(node, Object):
        return {member.key: plain(member.value) for member in node.members}
    if isinstance(node, Array):
        return [plain(item) for item in node.items]
    return node.value


def from_python(value: object) -> Node:
    """Build a tree without spans from mappings, lists, tuples, paths and JSON scalars; NaN and infinities are kept.

    Raises:
        TypeError: a mapping key is not a string, or a value is of a type a ds_config cannot hold.
        ValueError: the value is nested deeper than `MAX_DEPTH` (or contains itself).
    """
    return _from_python(value, ())


def _from_python(value: object, path: tuple[str | int, ...]) -> Node:
    if value is None or isinstance(value, (bool, int, float, str)):
        return Scalar(value, None, json.dumps(value, ensure_ascii=False))
    if isinstance(value, os.PathLike):
        name = os.fsdecode(cast("os.PathLike[str]", value))
        return Scalar(name, None, json.dumps(name, ensure_ascii=False))
    if not isinstance(value, (Mapping, list, tuple)):
        raise TypeError(f"{_spell(path)}: a value of type {type(value).__name__} cannot stand in a ds_config")
    if len(path) >= MAX_DEPTH:
        raise ValueError(f"the value is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, Mapping):
        members: list[Member] = []
        for key, item in cast("Mapping[object, object]", value).items():
            if not isinstance(key, str):
                raise TypeError(f"{_spell(path)}: the key {key!r} is of type {type(key).__name__}; keys must be str")
            members.append(Member(key, None, _from_python(item, (*path, key))))
        return Object(tuple(members), None)
    items = cast("Sequence[object]", value)
    return Array(tuple(_from_python(item, (*path, index)) for index, item in enumerate(items)), None)


def _spell(path: tuple[str | int, ...]) -> str:
    return ".".join(map(str, path)) or "the config"
