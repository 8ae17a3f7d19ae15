"""What a model field holds, read from its annotation."""

from __future__ import annotations

import types
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic.fields import FieldInfo

from dsconf.models.block import Block


@dataclass(frozen=True, slots=True)
class Shape:
    """What a field holds: a scalar (or free-form value), a block, or a list or mapping of blocks."""

    blocks: tuple[type[Block], ...]
    container: Literal["", "list", "dict"]


@cache
def shape(cls: type[Block], name: str) -> Shape:
    """The shape of a field, read from its annotation."""
    return _shape_of(cls.model_fields[name].annotation)


def _shape_of(annotation: Any) -> Shape:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _shape_of(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        shapes = [_shape_of(arg) for arg in get_args(annotation) if arg is not type(None)]
        blocks = tuple(block for item in shapes for block in item.blocks)
        return Shape(blocks, shapes[0].container if shapes else "")
    if origin in (list, dict):
        inner = _shape_of(get_args(annotation)[-1])
        return Shape(inner.blocks, "list" if origin is list else "dict") if inner.blocks else Shape((), "")
    if isinstance(annotation, type) and issubclass(annotation, Block):
        return Shape((annotation,), "")
    return Shape((), "")


def extras(info: FieldInfo) -> dict[str, Any]:
    """What `key()` recorded beside Pydantic's own attributes."""
    return cast("dict[str, Any]", info.json_schema_extra or {})


def tag_values(cls: type[Block]) -> tuple[Any, ...]:
    """The values of its tag that mean this type."""
    return get_args(cls.model_fields[cls.tag].annotation) if cls.tag else ()
