"""Every block and key as data: the table that the models are written out to.

Binding and the rules need no more than this, so validating a file imports neither Pydantic nor the models. The models
are the truth; `python -m dsconf.schema` writes the table, and a test fails when it is stale.
"""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

    from dsconf.diagnostic import Path

#: How DeepSpeed reads a block. `pydantic`: closed (an unknown key is refused), values are coerced and every
#: key whose value is the string "auto" is dropped. `dict`: open (an unknown key vanishes), nothing is coerced,
#: "auto" stays a string and any string counts as true. `kwargs`: the block becomes the keyword arguments of a
#: class, so an unknown key raises and nothing is coerced. `opaque`: handed on unread.
Reader = Literal["pydantic", "dict", "kwargs", "opaque"]

#: The block that a whole file is.
ROOT = "DeepSpeedConfig"
#: The table's file, beside this module.
FILE = "blocks.json"


class Retired(NamedTuple):
    """A key that a block once had, and what became of it.

    `status`: `removed` (DeepSpeed refuses it), `deprecated` (it still works, with a warning), `renamed` (it
    still works, silently) or `dead` (it is ignored).
    `becomes`: the key of the same block that took its place, if one did.
    `values`: how its values translate to the new key's; absent: the value is taken over as it is; a value
    translated to None is dropped together with the key.
    """

    key: str
    status: Literal["removed", "deprecated", "renamed", "dead"]
    source: str
    becomes: str | None = None
    values: Mapping[Any, Any] | None = None
    advice: str = ""


class Key:
    """One key of a block, as its model field says it.

    `blocks`: the types that its value may have, if it is a block, or in a `container` of blocks. `choices`: the words
    that it admits, if nothing else is. `words`: what it admits, for people. For the rest see `dsconf.models.block.key`.
    """

    def __init__(self, record: Mapping[str, Any]) -> None:
        self._record = record
        self.required: bool = record["required"]
        self.default: Any = record.get("default")
        self.doc: str = record["doc"]
        self.source: str = record["source"]
        self.words: str = record["words"]
        self.choices: tuple[Any, ...] = tuple(record.get("choices", ()))
        self.bounds: Mapping[str, float] = record.get("bounds", {})
        self.blocks: tuple[str, ...] = tuple(record.get("blocks", ()))
        self.container: Literal["", "list", "dict"] = record.get("container", "")
        self.auto: bool = record.get("auto", False)
        self.dead: bool = record.get("dead", False)
        self.nullable: bool = record.get("nullable", False)
        self.wraps: bool = record.get("wraps", False)
        self.boolean: bool = record.get("boolean", False)
        self.refuses: str | None = record.get("refuses")

    def strict(self, value: Any) -> Any:
        """The value as the validator takes it, nothing coerced.

        Raises:
            pydantic_core.ValidationError: it does not fit.
        """
        plain = _plainly(self._record["schema"], value)
        return self.validator.validate_python(value, strict=True) if plain is UNSURE else plain

    @cached_property
    def validator(self) -> SchemaValidator:
        """The validator of a key that is no block: the one that Pydantic makes of the field's annotation."""
        from pydantic_core import SchemaValidator

        return SchemaValidator(_with_functions(self._record["schema"]))


class BlockType:
    """One type of block: a model's class attributes and fields.

    `pydantic_1`: the release reads it with Pydantic 1.
    """

    def __init__(self, name: str, record: Mapping[str, Any]) -> None:
        self.name = name
        self.doc: str = record["doc"]
        self.reader: Reader = record["reader"]
        self.tag: str | None = record.get("tag")
        self.tag_value: Any = record.get("tag_value")
        self.actor: str = record.get("actor", "")
        self.gate: str = record.get("gate", "")
        self.folded: bool = record.get("folded", False)
        self.pydantic_1: bool = record.get("pydantic_1", False)
        self.keys = {key: Key(item) for key, item in record["keys"].items()}
        self.defaults = {name: key.default for name, key in self.keys.items()}
        self.retired = tuple(_retired(item) for item in record.get("retired", ()))


def _retired(record: Mapping[str, Any]) -> Retired:
    fields: dict[str, Any] = {**record}
    if "values" in fields:
        # JSON has no keys but strings, so the pairs stand in a list.
        fields["values"] = dict(fields["values"])
    return Retired(**fields)


@cache
def _table() -> Mapping[str, Any]:
    with open(os.path.join(os.path.dirname(__file__), FILE), "rb") as file:
        return json.load(file)


@cache
def block_type(name: str = ROOT, release: str | None = None) -> BlockType:
    """The type of block of a name, as a DeepSpeed release reads it; by default the newest."""
    if release is None:
        return BlockType(name, _table()[name])
    from dsconf.releases import as_in

    path = tuple(key for _, key in home(name)) if name != ROOT else ()
    return BlockType(name, as_in(release, path, _table()[name]))


def walk(block: BlockType, path: Path = ()) -> Iterator[tuple[Path, BlockType, Key]]:
    """Every key of a block and of the blocks in it, with its path and the type that has it.

    A key that several types of a block have is yielded once for each.
    """
    for name, key in block.keys.items():
        here = (*path, name)
        yield here, block, key
        for inner in key.blocks:
            yield from walk(block_type(inner), here)


@cache
def homes() -> dict[str, tuple[Path, ...]]:
    """The paths at which each key name lives, nearest to the top first."""
    found: dict[str, dict[Path, None]] = {}
    for path, _, _ in walk(block_type()):
        found.setdefault(str(path[-1]), {})[path] = None
    return {name: tuple(sorted(paths, key=len)) for name, paths in found.items()}


@cache
def home(name: str) -> tuple[tuple[BlockType, str], ...]:
    """The way from the root to the first place where a type of block stands: each parent and its key."""

    def search(parent: BlockType) -> tuple[tuple[BlockType, str], ...] | None:
        for key, item in parent.keys.items():
            for inner in item.blocks:
                if inner == name:
                    return ((parent, key),)
                further = search(block_type(inner))
                if further is not None:
                    return ((parent, key), *further)
        return None

    way = search(block_type())
    if way is None:
        raise TypeError(f"{name} is not a block of {ROOT}")
    return way


def actor_of(path: Path) -> str:
    """Who uses the block at the top that a path leads into, where it is not the engine itself."""
    key = block_type().keys.get(str(path[0]))
    return block_type(key.blocks[0]).actor if key and key.blocks and len(path) > 1 else ""


def word(value: Any) -> str:
    """A value as JSON spells it, strings without their quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def one_of(choices: tuple[Any, ...]) -> str:
    """`"a"`, `"b"` or `"c"`."""
    words = [f'"{item}"' if isinstance(item, str) else word(item) for item in choices]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def whole(value: object) -> object:
    """`5e8` is a float to a JSON parser and an integer to DeepSpeed, as long as it fits 64 bits."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**63 else value


def folded(value: object) -> object:
    """A word in lower case; anything else as it is."""
    return value.lower() if isinstance(value, str) else value


#: What `_plainly` says of a value about which the validator has to be asked.
UNSURE: Any = object()
#: The bounds that a key may have, as comparisons of its value.
BOUNDS = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}


def _plainly(schema: Mapping[str, Any], value: Any) -> Any:
    """What the validator makes of a value that plainly fits, without importing the validator; else UNSURE."""
    match schema["type"]:
        case "function-before":
            return _plainly(schema["schema"], {"whole": whole, "folded": folded}[schema["function"]](value))
        case "nullable":
            return None if value is None else _plainly(schema["schema"], value)
        case "bool":
            return value if type(value) is bool else UNSURE
        case "int" | "float" as kind:
            number = type(value) is int or (kind == "float" and type(value) is float and isfinite(value))
            if not number or not all(BOUNDS[name](value, schema[name]) for name in BOUNDS if name in schema):
                return UNSURE
            if kind == "float" and type(value) is int:
                return float(value) if abs(value) < 2**53 else UNSURE
            return value
        case "str":
            return value if type(value) is str and len(schema) == 1 else UNSURE
        case "list" if "items_schema" in schema and type(value) is list:
            items: list[Any] = [_plainly(schema["items_schema"], item) for item in cast("list[Any]", value)]
            fits = schema.get("min_length", 0) <= len(items) <= schema.get("max_length", len(items))
            return items if fits and UNSURE not in items else UNSURE
        case "literal":
            fits = any(type(value) is type(item) and value == item for item in schema["expected"])
            return value if fits else UNSURE
        case _:
            return UNSURE


def _with_functions(schema: Any) -> Any:
    """A core schema with functions in place of their names."""
    if isinstance(schema, dict):
        inner = {key: _with_functions(value) for key, value in cast("dict[str, Any]", schema).items()}
        if inner.get("type") == "function-before":
            inner["function"] = {"type": "no-info", "function": {"whole": whole, "folded": folded}[inner["function"]]}
        return inner
    return [_with_functions(item) for item in cast("list[Any]", schema)] if isinstance(schema, list) else schema
