"""Where in the configuration a key lives, read from the models."""

from __future__ import annotations

from collections.abc import Iterator

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
