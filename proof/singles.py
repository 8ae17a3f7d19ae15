"""Every key on its own, where it lives, with values that fit it and values that do not."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from random import Random
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from dsconf.models.block import Block
from dsconf.models.config import DeepSpeedConfig
from dsconf.models.shape import Shape, shape, tag_values
from proof.agree import Case

#: Values of each JSON type, on both sides of what keys usually take.
_VALUES: tuple[Any, ...] = (None, True, False, 0, 1, 2, -1, 1.5, "x", "1", [], {})


def singles(count: int, seed: int) -> Iterator[Case]:
    """So many of the configurations that hold one key each, with what that key needs around it; 0 means all."""
    texts = {json.dumps({"train_micro_batch_size_per_gpu": 1, **config}): None for config in _configs(DeepSpeedConfig)}
    chosen = list(texts)
    if count:
        chosen = Random(seed).sample(chosen, min(count, len(chosen)))
    for text in chosen:
        yield Case(text, text.encode())


def _configs(cls: type[Block]) -> Iterator[dict[str, Any]]:
    for name, info in cls.model_fields.items():
        around = _around(cls, name)
        if name != cls.tag:
            for value in _values(info):
                yield {**around, name: value}
        form = shape(cls, name)
        for block in form.blocks:
            for inner in _configs(block):
                yield {**around, name: _contained(form, inner)}


def _around(cls: type[Block], name: str) -> dict[str, Any]:
    """What a block needs beside one of its keys: its tag, what is required, and to be switched on."""
    around: dict[str, Any] = {}
    for other, info in cls.model_fields.items():
        if other == cls.tag:
            around[other] = tag_values(cls)[0]
        elif other == "enabled" and other != name:
            around[other] = True
        elif info.is_required() and other != name:
            form = shape(cls, other)
            around[other] = _contained(form, _around(form.blocks[0], "")) if form.blocks else _sample(info)
    return around


def _contained(form: Shape, block: dict[str, Any]) -> Any:
    return [block] if form.container == "list" else {"name": block} if form.container == "dict" else block


def _values(info: FieldInfo) -> Iterator[Any]:
    if not info.is_required():
        default = info.get_default(call_default_factory=True)
        if default is None or isinstance(default, (bool, int, float, str, list, dict)):
            yield default
    yield from _words(info.annotation)
    yield from _VALUES


def _words(annotation: Any) -> tuple[Any, ...]:
    origin = get_origin(annotation)
    if origin is Literal:
        return get_args(annotation)
    if origin in (Annotated, Union, types.UnionType):
        return tuple(word for item in get_args(annotation) for word in _words(item))
    return ()


def _sample(info: FieldInfo) -> Any:
    """A value that fits a required key."""
    words = _words(info.annotation)
    if words:
        return words[0]
    kind = get_args(info.annotation)[0] if get_origin(info.annotation) is Annotated else info.annotation
    return {int: 10, float: 0.001, str: "x", bool: True}.get(kind, [])
