"""From a tree to typed blocks, and what stood in the way.

Binding chooses the type of every block, takes over the values that fit, and records everything else as facts:
where, which block, what was expected. It judges nothing and says nothing to people; rules do.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, cast

from dsconf.blocks import ROOT, BlockType, Key, Retired, block_type, one_of, word
from dsconf.diagnostic import Path
from dsconf.facts import (
    Auto,
    Bound,
    Coercion,
    Fact,
    Misfit,
    Mismatch,
    Missing,
    Old,
    OldForm,
    Unknown,
    UnknownTag,
    Values,
)
from dsconf.releases import former, has_class, reaction
from dsconf.source import Array, Document, Member, Node, Object, Scalar, find, from_python, plain

if TYPE_CHECKING:
    from pydantic_core import ValidationError


def bind(document: Document, release: str | None = None) -> Bound:
    """Bind a whole configuration, to the blocks as a DeepSpeed release reads them; by default the newest."""
    binder = _Binder(release)
    root = document.root or Object((), None)
    cls = block_type(ROOT, release)
    block = binder.block(binder.modern(root, cls), cls, (cls,), ())
    return Bound(document, block, binder.facts, binder.broken)


def is_comment(key: str) -> bool:
    """Keys that people write as comments, since JSON has none."""
    return key.startswith(("_", "$", "//", "#")) or key.lower() in ("comment", "comments")


class _Binder:
    def __init__(self, release: str | None) -> None:
        self.release = release
        self.facts: list[Fact] = []
        self.broken: set[Path] = set()

    def modern(self, root: Object, cls: BlockType) -> Object:
        """Replace the boolean form of `zero_optimization`, which takes its bucket size from the top level."""
        member = root.get("zero_optimization")
        if member is None or not isinstance(member.value, Scalar) or not isinstance(member.value.value, bool):
            return root
        switched_on = member.value.value
        self.facts.append(OldForm(("zero_optimization",), cls, switched_on))
        block: dict[str, Any] = {"stage": int(switched_on)}
        size = root.get("allgather_size")
        if size and switched_on:
            block["allgather_bucket_size"] = plain(size.value)
        others = tuple(item for item in root.members if item.key not in ("zero_optimization", "allgather_size"))
        return Object((*others, Member(member.key, member.key_span, from_python(block))), root.span)

    def block(self, node: Object, cls: BlockType, siblings: tuple[BlockType, ...], path: Path) -> Values:
        """Bind an object to a type that was chosen already."""
        values: dict[str, Any] = {}
        retired = {item.key: item for item in cls.retired}
        seen: set[str] = set()
        for member in node.members:
            here = (*path, member.key)
            seen.add(member.key)
            if member is not node.get(member.key):
                continue
            name, value = member.key, member.value
            if name in retired:
                old = retired[name]
                if old.status == "dead" and self.formerly_read(here):
                    continue
                dropped = cls.reader == "pydantic" and old.status != "removed"
                if dropped and isinstance(value, Scalar) and value.value == "auto":
                    self.facts.append(Auto(here, cls))
                    continue
                successor = node.get(old.becomes) if old.becomes else None
                clash = successor is not None and not (cls.reader == "dict" and plain(successor.value) is None)
                self.facts.append(Old(here, cls, retired=old, clash=clash, value=plain(value)))
                translated = _translated(old, value)
                if clash or old.status in ("removed", "dead") or translated is None:
                    continue
                name, value = translated
            is_auto = isinstance(value, Scalar) and value.value == "auto"
            if name not in cls.keys:
                if is_comment(name) and cls.reader != "pydantic":
                    continue
                others = tuple(item for item in siblings if name in item.keys)
                if others:
                    self.facts.append(Misfit(here, cls, others, plain(value)))
                elif name == member.key and not self.formerly_read(here):
                    self.facts.append(Unknown(here, cls, is_auto))
                continue
            if is_auto and not cls.keys[name].auto:
                self.facts.append(Auto(here, cls))
                self.broken.add(here)
                continue
            taken = self.value(value, cls, name, here)
            if taken is not _NOTHING:
                values[name] = taken
        for name, key in cls.keys.items():
            if key.required and name not in values and name not in seen and name != cls.tag:
                self.facts.append(Missing((*path, name), cls))
                self.broken.add((*path, name))
        if cls.tag:
            values[cls.tag] = cls.tag_value
        return Values(cls, values)

    def formerly_read(self, path: Path) -> bool:
        """Whether the release reads a key that the newest does not have any more."""
        return self.release is not None and former(path) and reaction(path, self.release) == "read"

    def formerly_named(self, name: Any) -> bool:
        """Whether the release has an optimizer of a name that the newest does not have."""
        known = isinstance(name, str) and self.release is not None
        return known and has_class("optimizers", name.lower(), self.release or "") is True

    def value(self, node: Node, cls: BlockType, name: str, path: Path) -> Any:
        """Bind what stands at a key; `_NOTHING` when it could not be taken over."""
        key = cls.keys[name]
        if not key.blocks:
            return self.scalar(node, cls, name, path)
        if isinstance(node, Scalar) and node.value is None and key.nullable:
            return _NOTHING
        blocks = tuple(block_type(inner, self.release) for inner in key.blocks)
        if key.container == "list" and isinstance(node, Array):
            bound = [self.choose(item, cls, blocks, (*path, index)) for index, item in enumerate(node.items)]
            return [item for item in bound if item is not _NOTHING]
        if key.container == "dict" and isinstance(node, Object):
            pairs = {item.key: self.choose(item.value, cls, blocks, (*path, item.key)) for item in node.members}
            return {name: item for name, item in pairs.items() if item is not _NOTHING}
        if key.container:
            return self.mismatch(path, cls, f"{'a list' if key.container == 'list' else 'an object'}", plain(node))
        return self.choose(node, cls, blocks, path)

    def choose(self, node: Node, parent: BlockType, blocks: tuple[BlockType, ...], path: Path) -> Any:
        """Choose among the types of a block by its tag, and bind to it."""
        if blocks[0].pydantic_1 and isinstance(node, Array) and not node.items:
            # An empty list is as good as an empty dict to Pydantic 1.
            node = Object((), node.span)
        if not isinstance(node, Object):
            return self.mismatch(path, parent, "an object", plain(node))
        tag = blocks[0].tag
        if tag is None or (len(blocks) == 1 and node.get(tag) is None):
            return self.block(node, blocks[0], blocks, path)
        member = node.get(tag)
        if member is None:
            default = next((cls for cls in blocks if not cls.keys[tag].required), None)
            if default:
                return self.block(node, default, blocks, path)
            self.facts.append(Missing((*path, tag), blocks[0]))
            self.broken.add(path)
            return _NOTHING
        if isinstance(member.value, Scalar) and member.value.value == "auto":
            self.facts.append(Auto((*path, tag), blocks[0]))
            self.broken.add(path)
            return _NOTHING
        value = plain(member.value)
        for cls in blocks:
            wanted = cls.tag_value
            if type(value) is type(wanted) and value == wanted:
                return self.block(node, cls, blocks, path)
        for cls in blocks:
            wanted = cls.tag_value
            if cls.folded and isinstance(value, str) and value.lower() == wanted.lower():
                return self.block(node, cls, blocks, path)
            if cls.pydantic_1 and isinstance(value, str):
                continue
            if isinstance(wanted, int) and cls.reader == "pydantic" and _as_int(value) == wanted:
                if not isinstance(value, float):
                    self.facts.append(Coercion((*path, tag), cls, value, wanted))
                return self.block(node, cls, blocks, path)
        if path == ("optimizer",) and self.formerly_named(value):
            self.broken.add(path)
            return _NOTHING
        choices = tuple(cls.tag_value for cls in blocks)
        self.facts.append(UnknownTag((*path, tag), blocks[0], value, choices))
        self.broken.add(path)
        return _NOTHING

    def scalar(self, node: Node, cls: BlockType, name: str, path: Path) -> Any:
        """Bind a scalar or free-form value by its field's own validator."""
        value = plain(node)
        if name == cls.tag:
            return value
        key = cls.keys[name]
        if not _is_finite(value):
            return self.mismatch(path, cls, "a finite number", value)
        try:
            return key.strict(value)
        except ValueError as error:
            problem = cast("ValidationError", error).errors(include_url=False, include_input=False)[0]
        becomes = _coerced(cls, name, value)
        if becomes is not _NOTHING:
            self.facts.append(Coercion(path, cls, value, becomes))
            return becomes
        kind, expected, choices = _explain(key, problem)
        return self.mismatch((*path, *_inner(problem)), cls, expected, _at(value, _inner(problem)), kind, choices)

    def mismatch(
        self,
        path: Path,
        cls: BlockType,
        expected: str,
        value: Any,
        kind: Literal["type", "range", "choice"] = "type",
        choices: tuple[str, ...] = (),
    ) -> Any:
        self.facts.append(Mismatch(path, cls, kind, expected, value, choices))
        self.broken.add(path)
        return _NOTHING


_NOTHING: Any = object()


def _translated(old: Retired, value: Node) -> tuple[str, Node] | None:
    if old.becomes is None:
        return None
    if old.values is None:
        return old.becomes, value
    given = plain(value)
    if isinstance(given, (list, dict)) or given not in old.values or old.values[given] is None:
        return None
    return old.becomes, from_python(old.values[given])


def _as_int(value: Any) -> int | None:
    try:
        return (
            int(value) if isinstance(value, (int, str)) or (isinstance(value, float) and value.is_integer()) else None
        )
    except ValueError:
        return None


def _coerced(cls: BlockType, name: str, value: Any) -> Any:
    """What DeepSpeed makes of a value of the wrong type: Pydantic's lax mode, or Python's truth and arithmetic."""
    from pydantic_core import ValidationError

    key = cls.keys[name]
    if cls.reader == "pydantic":
        if type(value).__name__ == key.refuses:
            return _NOTHING
        if key.wraps and isinstance(value, str):
            return [value]
        if cls.pydantic_1 and isinstance(value, (int, float)) and key.words == "a string" and name != "nvme_path":
            return str(value)
        try:
            return key.validator.validate_python(value, strict=False)
        except ValidationError:
            return _NOTHING
    if cls.reader == "opaque":
        return _NOTHING
    if key.boolean and not isinstance(value, str):
        return bool(value)
    if isinstance(value, bool):
        try:
            return key.validator.validate_python(int(value), strict=True)
        except ValidationError:
            return _NOTHING
    return _NOTHING


_RANGES = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}
_TYPES = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a string",
    "list_type": "a list",
    "dict_type": "an object",
}


def _explain(key: Key, problem: Any) -> tuple[Literal["type", "range", "choice"], str, tuple[str, ...]]:
    """Say in words what would have fitted; Pydantic's own text never reaches a person."""
    kind: str = problem["type"]
    if kind in _RANGES:
        bound, words = _RANGES[kind]
        return "range", f"{words} {problem['ctx'][bound]:g}", ()
    if kind in ("too_short", "too_long"):
        return "type", f"a list of {problem['ctx'].get('min_length', problem['ctx'].get('max_length'))} values", ()
    if kind == "string_too_short":
        return "type", "a string that is not empty", ()
    if kind == "string_pattern_mismatch":
        return "type", "a name without dots", ()
    if key.choices and kind in ("literal_error", "string_type", "int_type", "bool_type", "enum"):
        return "choice", one_of(key.choices), tuple(map(word, key.choices))
    return "type", key.words if not _inner(problem) else _TYPES.get(kind, kind), ()


def _is_finite(value: Any) -> bool:
    """Whether JSON can hold a value: it has no infinity and no NaN, and neither has what is inside."""
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, cast("dict[str, Any]", value).values()))
    return not isinstance(value, list) or all(map(_is_finite, cast("list[Any]", value)))


def _inner(problem: Any) -> Path:
    return tuple(part for part in problem["loc"] if isinstance(part, int))


def _at(value: Any, path: Path) -> Any:
    place = find(from_python(value), path)
    return plain(place.node) if place else value
