"""YAML, read into the same tree as a ds_config, with the places of its keys and values."""

from __future__ import annotations

from typing import Any, cast

import yaml

from dsconf.source.document import Document
from dsconf.source.tree import MAX_DEPTH, Array, Member, Node, Object, Scalar, Span


class YamlError(ValueError):
    """A text that is not YAML, or holds what JSON has no place for; `position` as line and column, if it is known."""

    def __init__(self, message: str, position: tuple[int, int] | None = None) -> None:
        super().__init__(message)
        self.position = position


def read_yaml(text: str, filename: str) -> Document:
    """Read a mapping written in YAML, its scalars as PyYAML's safe loader has them (`5e-5` is a text).

    A value that JSON has no type for, such as a date, counts as its text.

    Raises:
        YamlError: the text is not YAML, is not a mapping, or contains itself.
    """
    try:
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            root = _Tree(loader).read(node) if node is not None else None
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = (mark.line + 1, mark.column + 1) if mark else None
        raise YamlError(f"not YAML: {error.problem or 'it cannot be read'}", where) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise error if isinstance(error, YamlError) else YamlError("not YAML that can be read") from None
    if not isinstance(root, Object):
        raise YamlError("needs an object of arguments by name, such as learning_rate")
    return Document(filename, text, root, (), ())


class _Tree:
    """Turns the nodes of one text into ours; a node that is used twice is turned once."""

    def __init__(self, loader: yaml.SafeLoader) -> None:
        self._loader = loader
        self._done: dict[int, Node] = {}
        self._open: set[int] = set()

    def read(self, node: yaml.Node) -> Node:
        mark = id(node)
        if mark in self._open or len(self._open) >= MAX_DEPTH:
            raise YamlError(f"a value contains itself, or is nested more than {MAX_DEPTH} levels deep")
        if mark not in self._done:
            self._open.add(mark)
            self._done[mark] = self._turn(node)
            self._open.discard(mark)
        return self._done[mark]

    def _turn(self, node: yaml.Node) -> Node:
        span = _span(node)
        if isinstance(node, yaml.SequenceNode):
            return Array(tuple(map(self.read, cast("list[yaml.Node]", node.value))), span)
        if isinstance(node, yaml.MappingNode):
            self._loader.flatten_mapping(node)
            pairs = cast("list[tuple[yaml.Node, yaml.Node]]", node.value)
            return Object(tuple(Member(self._key(key), _span(key), self.read(value)) for key, value in pairs), span)
        value: Any = self._loader.construct_object(node)  # pyright: ignore[reportUnknownMemberType]
        known = value is None or isinstance(value, (str, int, float, bool))
        return Scalar(value if known else str(node.value), span, str(node.value))

    def _key(self, node: yaml.Node) -> str:
        value: Any = self._loader.construct_object(node)  # pyright: ignore[reportUnknownMemberType]
        if isinstance(value, str):
            return value
        mark = node.start_mark
        raise YamlError("a key is not a text; quote it", (mark.line + 1, mark.column + 1))


def _span(node: yaml.Node) -> Span:
    return Span(node.start_mark.index, node.end_mark.index)
