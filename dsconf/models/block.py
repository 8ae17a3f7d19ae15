"""What a block of `ds_config.json` is: a Pydantic model whose fields are the only place that knows a key.

A field says the key's JSON spelling, type, range, default, one sentence of documentation and the line of
DeepSpeed that reads it. Schemas, pages, suggestions and checks are all read from there.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from dsconf.blocks import Reader, Retired, folded, whole


class Block(BaseModel):
    """One block of the configuration. Immutable, closed, strict.

    Class attributes:
        reader: how DeepSpeed reads the block.
        tag: the key whose value tells this type from its siblings (`stage`, `device`, `type`).
        retired: keys that older DeepSpeed releases had here.
        actor: who uses what the block says, where it is not the engine that `deepspeed.initialize` builds.
        gate: a key without which nothing looks at the others.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, defer_build=True, protected_namespaces=(), validate_default=False
    )

    reader: ClassVar[Reader] = "pydantic"
    tag: ClassVar[str | None] = None
    retired: ClassVar[tuple[Retired, ...]] = ()
    actor: ClassVar[str] = ""
    gate: ClassVar[str] = ""

    def __init__(self, /, **data: Any) -> None:
        # Validation is above the models; only the constructor, the door that people come in by, reaches up to it.
        from dsconf.check import build

        built = build(type(self), data)
        object.__setattr__(self, "__dict__", built.__dict__)
        object.__setattr__(self, "__pydantic_fields_set__", built.__pydantic_fields_set__)
        object.__setattr__(self, "__pydantic_extra__", None)
        object.__setattr__(self, "__pydantic_private__", None)

    def to_dict(self) -> dict[str, Any]:
        """What was set, as plain JSON values: the tag first, the rest in the order of the models."""
        names = [name for name in type(self).model_fields if name in self.model_fields_set]
        return {name: _plain(getattr(self, name)) for name in sorted(names, key=lambda name: name != self.tag)}

    def to_json(self) -> str:
        """The canonical text: two spaces, integers as integers, a newline at the end."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def key(
    default: Any = ...,
    *,
    doc: str,
    source: str,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
    dead: bool = False,
    auto: bool = False,
    nullable: bool = False,
    refuses: Literal["bool", "str"] | None = None,
) -> Any:
    """Declare a key of a block.

    `doc`: one sentence. `source`: file and line of DeepSpeed 0.19.8 that reads or declares the key, relative to
    the package. Bounds are those that the engine itself enforces, at whatever phase. `dead`: parsed, but nothing
    reads it. `auto`: DeepSpeed itself gives the string "auto" a meaning here. `nullable`: a block that may be
    null (a scalar that may be null says so in its type). `refuses`: a type of which the engine takes no value here,
    though Pydantic would convert some.
    """
    return Field(
        default,
        description=doc,
        gt=gt,
        ge=ge,
        lt=lt,
        le=le,
        json_schema_extra={"source": source, "dead": dead, "auto": auto, "nullable": nullable, "refuses": refuses},
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Block):
        return value.to_dict()
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in cast("dict[str, Any]", value).items()}
    return value


#: Put behind a bound on `int`, so that the bound also reaches the JSON Schema.
WHOLE = BeforeValidator(whole)
#: A whole number; `5e8` is one, `5.5`, `true` and `"5e8"` are not.
Int = Annotated[int, WHOLE]
#: A whole number above zero.
Positive = Annotated[int, Field(gt=0), WHOLE]
#: A whole number of zero or more.
NonNegative = Annotated[int, Field(ge=0), WHOLE]
#: A finite number.
Float = Annotated[float, Field(allow_inf_nan=False)]
#: Marks a list in whose place DeepSpeed takes a lone item.
WRAPS = "wraps"
#: Put in front of a Literal of lower-case words that DeepSpeed compares without regard to case.
FOLDED = BeforeValidator(folded)
