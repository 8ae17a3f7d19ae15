"""From bound values to the models that people hold."""

from __future__ import annotations

from typing import Any, cast

from dsconf import models
from dsconf.facts import Values
from dsconf.models.block import Block


def typed(values: Values) -> Block:
    """The model of a block that was bound without a fault; nothing is validated again."""
    cls: type[Block] = getattr(models, values.block_type.name)
    given = {name: _typed(value) for name, value in values.given.items()}
    return cls.model_construct(set(given), **given)


def _typed(value: Any) -> Any:
    if isinstance(value, Values):
        return typed(value)
    if isinstance(value, list):
        return [_typed(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _typed(item) for name, item in cast("dict[str, Any]", value).items()}
    return value
