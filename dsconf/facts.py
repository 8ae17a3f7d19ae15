"""What binding a document to the models leaves: typed blocks, and facts about what did not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

from dsconf.diagnostic import Path
from dsconf.source import Document, Node, find

if TYPE_CHECKING:
    from dsconf.blocks import BlockType, Retired
    from dsconf.models.block import Block
    from dsconf.models.config import DeepSpeedConfig


class Values:
    """A block as far as it could be bound: the values that were given, and the defaults of its type for the others."""

    def __init__(self, block_type: BlockType, given: Mapping[str, Any]) -> None:
        self.__dict__ = {**block_type.defaults, **given}
        self.block_type = block_type
        self.given = given
        self.model_fields_set = set(given)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    @property
    def zero_stage(self) -> int:
        """Of a whole configuration: its ZeRO stage, 0 when ZeRO is off."""
        return self.zero_optimization.stage if self.zero_optimization else 0


def type_of(block: Block) -> BlockType:
    """The type of a bound block, which the type checker takes for the model that it stands for."""
    return cast("Values", cast(object, block)).block_type


# Each is about the key at `path`, in a block of type `block`.


class Unknown(NamedTuple):
    """A key that no type of this block has."""

    path: Path
    block: BlockType
    auto: bool = False


class Misfit(NamedTuple):
    """A key that this type of the block does not have, and `siblings` do."""

    path: Path
    block: BlockType
    siblings: tuple[BlockType, ...] = ()
    value: Any = None


class Old(NamedTuple):
    """A key that a block once had. `clash`: its successor is there as well."""

    path: Path
    block: BlockType
    retired: Retired
    clash: bool = False
    value: Any = None


class OldForm(NamedTuple):
    """`zero_optimization: true` or `false`, from before there were stages."""

    path: Path
    block: BlockType
    value: bool = False


class Auto(NamedTuple):
    """The string "auto" where DeepSpeed itself gives it no meaning."""

    path: Path
    block: BlockType


class Coercion(NamedTuple):
    """A value that DeepSpeed takes for another one."""

    path: Path
    block: BlockType
    value: Any = None
    becomes: Any = None


class Mismatch(NamedTuple):
    """A value that does not fit its key. `kind` tells how; `expected` says what would."""

    path: Path
    block: BlockType
    kind: Literal["type", "range", "choice"] = "type"
    expected: str = ""
    value: Any = None
    choices: tuple[str, ...] = ()


class Missing(NamedTuple):
    """A required key that is absent; `path` includes it."""

    path: Path
    block: BlockType


class UnknownTag(NamedTuple):
    """A `stage`, `device` or `type` that no type of the block has."""

    path: Path
    block: BlockType
    value: Any = None
    choices: tuple[Any, ...] = ()


#: What binding may find.
Fact: TypeAlias = "Unknown | Misfit | Old | OldForm | Auto | Coercion | Mismatch | Missing | UnknownTag"

AnyFact = TypeVar("AnyFact", bound="Fact")


_TRUE = ("true", "t", "yes", "y", "on", "1")


class Bound:
    """A configuration, as far as it could be typed, and the facts about the rest."""

    def __init__(self, document: Document, block: Values, facts: list[Fact], broken: set[Path]) -> None:
        self.document = document
        self.block = block
        #: The configuration, as far as it could be typed.
        self.config = cast("DeepSpeedConfig", cast(object, block))
        self.facts = facts
        self.broken = broken
        # Everything that something broken lies in, for as many broken places as were counted.
        self._around: set[Path] = set()
        self._counted = 0

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
