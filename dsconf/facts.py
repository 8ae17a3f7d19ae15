"""What binding a document to the models leaves: typed blocks, and facts about what did not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from dsconf.diagnostic import Path
from dsconf.source import Document, Node, find

if TYPE_CHECKING:
    from dsconf.blocks import BlockType, Retired
    from dsconf.models.block import Block
    from dsconf.models.config import DeepSpeedConfig


class Values:
    """A block as far as it could be bound: the values that were given, and the defaults of its type for the others."""

    __slots__ = ("block_type", "given", "model_fields_set")

    def __init__(self, block_type: BlockType, given: Mapping[str, Any]) -> None:
        self.block_type = block_type
        self.given = given
        self.model_fields_set = set(given)

    def __getattr__(self, name: str) -> Any:
        if name in self.given:
            return self.given[name]
        key = self.block_type.keys.get(name)
        if key is None:
            raise AttributeError(f"{self.block_type.name} has no key {name!r}")
        return key.default

    @property
    def zero_stage(self) -> int:
        """Of a whole configuration: its ZeRO stage, 0 when ZeRO is off."""
        return self.zero_optimization.stage if self.zero_optimization else 0


def type_of(block: Block) -> BlockType:
    """The type of a bound block, which the type checker takes for the model that it stands for."""
    return cast("Values", cast(object, block)).block_type


# Nothing compares facts or prints them, and each method that is not written for a class shortens every start.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Fact:
    """Something about the key at `path`, in a block of type `block`."""

    path: Path
    block: BlockType


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unknown(Fact):
    """A key that no type of this block has."""

    auto: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Misfit(Fact):
    """A key that this type of the block does not have, and `siblings` do."""

    siblings: tuple[BlockType, ...] = ()
    value: Any = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Old(Fact):
    """A key that a block once had. `clash`: its successor is there as well."""

    retired: Retired = field(kw_only=True)
    clash: bool = False
    value: Any = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OldForm(Fact):
    """`zero_optimization: true` or `false`, from before there were stages."""

    value: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Auto(Fact):
    """The string "auto" where DeepSpeed itself gives it no meaning."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Coercion(Fact):
    """A value that DeepSpeed takes for another one."""

    value: Any = None
    becomes: Any = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Mismatch(Fact):
    """A value that does not fit its key. `kind` tells how; `expected` says what would."""

    kind: Literal["type", "range", "choice"] = "type"
    expected: str = ""
    value: Any = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Missing(Fact):
    """A required key that is absent; `path` includes it."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class UnknownTag(Fact):
    """A `stage`, `device` or `type` that no type of the block has."""

    value: Any = None
    choices: tuple[Any, ...] = ()


AnyFact = TypeVar("AnyFact", bound=Fact)


_TRUE = ("true", "t", "yes", "y", "on", "1")


@dataclass(slots=True)
class Bound:
    """A configuration, as far as it could be typed, and the facts about the rest."""

    document: Document
    block: Values
    facts: list[Fact]
    broken: set[Path]
    #: Everything that something broken lies in, for as many broken places as were counted.
    _around: set[Path] = field(default_factory=set["Path"], repr=False)
    _counted: int = field(default=0, repr=False)

    @property
    def config(self) -> DeepSpeedConfig:
        """The configuration, as far as it could be typed."""
        return cast("DeepSpeedConfig", cast(object, self.block))

    def of(self, kind: type[AnyFact]) -> Iterator[AnyFact]:
        """The facts of one kind, in the order of the text."""
        return (fact for fact in self.facts if type(fact) is kind)

    def without(self, unread: Sequence[Path]) -> Bound:
        """The same, without the blocks that nothing reads and without facts about what is in them."""
        facts = [fact for fact in self.facts if not within(fact.path, unread)]
        gone = {str(place[0]) for place in unread if len(place) == 1}
        kept = {name: value for name, value in self.block.given.items() if name not in gone}
        block = Values(self.block.block_type, kept)
        return Bound(self.document, block, facts, self.broken)

    def is_broken(self, path: Path) -> bool:
        """Whether the value at a path, something in it or something around it could not be taken over."""
        broken = self.broken
        if not broken:
            return False
        if len(broken) != self._counted:
            self._counted = len(broken)
            self._around = {bad[:length] for bad in broken for length in range(len(bad) + 1)}
        return path in self._around or any(path[:length] in broken for length in range(len(path)))

    def given(self, *path: str | int) -> bool:
        """Whether the author wrote the key (even with a value that could not be taken over)."""
        return self.node(path) is not None

    def is_true(self, path: Path) -> bool:
        """Whether a switch is on, in any spelling that Pydantic takes for true, even under a stage without the key."""
        value = getattr(self.node(path), "value", None)
        return value in (True, 1) or (isinstance(value, str) and value.lower() in _TRUE)

    def node(self, path: Path) -> Node | None:
        """What stands at a path, the last one where a key stands twice."""
        place = find(self.document.root, path) if self.document.root else None
        return place.node if place else None


def within(path: Path, places: Sequence[Path]) -> bool:
    """Whether a path is one of some places or lies inside one."""
    return any(path[: len(place)] == place for place in places)
