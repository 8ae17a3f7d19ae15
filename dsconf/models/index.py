"""Where in the configuration a key lives, read from the models."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from pydantic.fields import FieldInfo

from dsconf.diagnostic import Path
from dsconf.models.block import Block
from dsconf.models.shape import shape


def walk(cls: type[Block], path: Path = ()) -> Iterator[tuple[Path, type[Block], FieldInfo]]:
    """Every key of a block and of the blocks in it, with its path, the type that has it and its field.

    A key that several types of a block have is yielded once for each.
    """
    for name, info in cls.model_fields.items():
        here = (*path, name)
        yield here, cls, info
        for block in shape(cls, name).blocks:
            yield from walk(block, here)


@cache
def homes() -> dict[str, tuple[Path, ...]]:
    """The paths at which each key name lives, nearest to the top first."""
    from dsconf.models.config import DeepSpeedConfig

    found: dict[str, dict[Path, None]] = {}
    for path, _, _ in walk(DeepSpeedConfig):
        found.setdefault(str(path[-1]), {})[path] = None
    return {name: tuple(sorted(paths, key=len)) for name, paths in found.items()}


@cache
def home(cls: type[Block]) -> tuple[tuple[type[Block], str], ...]:
    """The way from the root to the first place where a type of block stands: each parent and its key."""
    from dsconf.models.config import DeepSpeedConfig

    def search(parent: type[Block]) -> tuple[tuple[type[Block], str], ...] | None:
        for name in parent.model_fields:
            for block in shape(parent, name).blocks:
                if block is cls:
                    return ((parent, name),)
                further = search(block)
                if further is not None:
                    return ((parent, name), *further)
        return None

    way = search(DeepSpeedConfig)
    if way is None:
        raise TypeError(f"{cls.__name__} is not a block of DeepSpeedConfig")
    return way
