"""The effective configuration: what every key comes to, and where that comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from dsconf.bind import bind
from dsconf.blocks import BlockType, Key, block_type
from dsconf.diagnostic import Path, pointer
from dsconf.facts import Bound, Values
from dsconf.overrides import Override
from dsconf.readers import PROFILES
from dsconf.releases import default_changes, default_in
from dsconf.rules.rule import Context
from dsconf.source import Document, Object, find, from_python, plain

_TOTAL, _MICRO, _STEPS = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"


@dataclass(frozen=True, slots=True)
class Setting:
    """What one key comes to. `origin`: where from, in words. `given`: no default. `absent`: its block is not there."""

    path: Path
    value: Any
    origin: str
    given: bool
    absent: bool = False


def resolve(
    document: Document, context: Context | None = None, overrides: Iterable[Override] = (), *, of: str = ""
) -> tuple[Setting, ...]:
    """Every setting that is in effect, in the order of the models, as the engine uses it.

    Old spellings come out under the new name, coerced values as what DeepSpeed takes them for. `overrides` go over what
    the file says. `of`: what to name as the origin of values that have no place in a text.
    """
    from dsconf.overrides import apply

    context = context or Context()
    overrides = tuple(overrides)
    bound = bind(document)
    if overrides and document.root is not None:
        values = cast("dict[str, Any]", plain(document.root))
        for item in overrides:
            apply(item, values)
        bound = bind(Document(document.filename, "", cast(Object, from_python(values)), (), ()))
    resolver = _Resolver(document, bound, context, overrides, of or document.filename)
    found = {item.path: item for item in resolver.block(bound.block, (), absent=False)}
    for item in _batch_sizes(found, context):
        found[item.path] = item
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class _Resolver:
    document: Document
    bound: Bound
    context: Context
    overrides: tuple[Override, ...]
    name: str

    def block(self, block: Values, path: Path, *, absent: bool) -> Iterator[Setting]:
        for name, key in block.block_type.keys.items():
            here = (*path, name)
            if name in block.given and not absent:
                yield from self.taken(block.given[name], here)
            elif not absent and (filled := self.filled(here)):
                yield filled
            elif self.bound.given(*here) and here in self.bound.broken:
                node = self.bound.node(here)
                yield Setting(
                    here, plain(node) if node else None, f"{self.place(here)}; DeepSpeed does not take it", True
                )
            elif (inner := _idle(key)) and not self.bound.given(*here):
                yield from self.block(Values(inner, {}), here, absent=True)
            else:
                default = self.default(here, key)
                yield Setting(here, default, f"default of DeepSpeed {self.context.release}", False, absent)

    def taken(self, value: Any, path: Path) -> Iterator[Setting]:
        if isinstance(value, Values):
            yield from self.block(value, path, absent=False)
        else:
            yield Setting(path, _plain(value), self.place(path), True)

    def filled(self, path: Path) -> Setting | None:
        """What the reader puts there."""
        profile = PROFILES.get(self.context.reader)
        key = profile.key(path) if profile else None
        node = self.bound.node(path)
        auto = getattr(node, "value", None) == "auto"
        if profile is None or key is None or not (key.fills if auto else key.adds and node is None):
            return None
        arguments = profile.read(self.context.training_args or {}, self.context.world_size)
        value = key.value(arguments) if key.value else None
        source = f" from {' and '.join(key.arguments)}" if key.arguments else f": {key.becomes}"
        return Setting(path, "auto" if value is None else value, f"filled in by {profile.name}{source}", True)

    def place(self, path: Path) -> str:
        for item in reversed(self.overrides):
            if path[: len(item.path)] == item.path:
                return f"override {item.text}"
        root = self.document.root
        for length in range(len(path), 0, -1):
            found = find(root, path[:length]) if root else None
            span = (found.key_span or found.node.span) if found else None
            if span:
                position = self.document.position(span.start)
                return f"{self.document.filename}:{position.line}:{position.column}"
        return f"{self.name}, under an old name" if self.document.text else self.name

    def default(self, path: Path, key: Key) -> Any:
        for changed in default_changes():
            if changed.leads_to(path, key.default):
                known, value = default_in(changed.steps, self.context.release)
                return value if known else None
        return key.default


def _idle(key: Key) -> BlockType | None:
    """The type that a block counts as when it is absent, if it then does what it does with its defaults."""
    if key.container:
        return None
    for name in key.blocks:
        inner = block_type(name)
        if inner.tag and not inner.keys[inner.tag].required:
            return inner
        switch = inner.keys.get("enabled")
        if switch and switch.default is False and not switch.dead:
            return inner
    return None


def _batch_sizes(found: Mapping[Path, Setting], context: Context) -> Iterator[Setting]:
    """The batch numbers that DeepSpeed works out from the others, where the number of ranks is known."""
    given = {name: found[(name,)] for name in (_TOTAL, _MICRO, _STEPS)}
    if any(item.value == "auto" for item in given.values()):
        return
    total, micro, steps = (given[name].value if given[name].given else None for name in (_TOTAL, _MICRO, _STEPS))
    world = context.world_size
    worked_out: dict[str, int] = {}
    if total is None and micro is not None:
        steps = steps or 1
        worked_out[_STEPS] = steps
        if world:
            worked_out[_TOTAL] = micro * steps * world
    elif total is not None and world:
        steps = steps or (total // micro // world if micro else 1)
        worked_out = {_STEPS: steps, _MICRO: micro or total // world // max(1, steps)}
    for name, value in worked_out.items():
        if not given[name].given:
            ranks = f" on {world} rank{'s' if world != 1 else ''}" if world else ""
            yield Setting((name,), value, f"worked out by DeepSpeed{ranks}", True)


def _plain(value: Any) -> Any:
    if isinstance(value, Values):
        return {name: _plain(item) for name, item in value.given.items()}
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in cast("dict[str, Any]", value).items()}
    return value


@dataclass(frozen=True, slots=True)
class Difference:
    """A key that comes to something else in two configurations; None: it does not exist there."""

    path: Path
    before: Setting | None
    after: Setting | None


def differences(before: Iterable[Setting], after: Iterable[Setting]) -> tuple[Difference, ...]:
    """What differs in effect, in the order of the models."""
    old, new = {item.path: item for item in before}, {item.path: item for item in after}
    paths = [*old, *(path for path in new if path not in old)]
    found = [Difference(path, old.get(path), new.get(path)) for path in paths]
    return tuple(item for item in found if not _same(item.before, item.after))


def _same(before: Setting | None, after: Setting | None) -> bool:
    """A key that only one type of a block has counts where somebody set it, or its block is in use."""
    if before is None or after is None:
        there = before or after
        return there is None or not there.given
    return before.value == after.value and isinstance(before.value, bool) == isinstance(after.value, bool)


def as_records(settings: Iterable[Setting]) -> list[dict[str, Any]]:
    """For programs."""
    return [
        {"pointer": pointer(item.path), "value": item.value, "origin": item.origin, "default": not item.given}
        for item in settings
    ]


def from_preset(name: str, overrides: Iterable[Override], context: Context) -> tuple[Setting, ...]:
    """What presets, joined by commas, and overrides come to.

    Raises:
        KeyError: there is no preset of that name.
    """
    from dsconf.compile import merged

    values = merged(name)
    document = Document("", "", cast(Object, from_python(values)), (), ())
    settings = resolve(document, context, overrides, of=f"preset {name}")
    return tuple(replace(item, origin=item.origin or f"preset {name}") for item in settings)
