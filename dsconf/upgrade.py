"""Taking a file from one DeepSpeed release to another, so that training goes on as it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from dsconf.bind import bind
from dsconf.check import check
from dsconf.diagnostic import Diagnostic, Edit, Path, dotted
from dsconf.edits import EditError, apply
from dsconf.facts import Unknown
from dsconf.releases import default_changes, default_in, number, removed_in
from dsconf.rules.rule import Context, show
from dsconf.source import Document, Node, find, plain


@dataclass(frozen=True, slots=True)
class Change:
    """One change: what and why. `same`: training stays what it was."""

    path: Path
    why: str
    edits: tuple[Edit, ...]
    same: bool = True


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something for which the target release has no successor."""

    path: Path
    why: str


@dataclass(frozen=True, slots=True)
class Upgraded:
    """A document for another release: the changes made, what stands in the way, and what is to say about it there."""

    document: Document
    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def sound(self) -> bool:
        """Whether the target release takes the file, as far as can be seen."""
        return not self.refusals and not any(
            item.severity == "error" and item.effect in ("refused", "hangs") for item in self.diagnostics
        )


def upgrade(document: Document, target: str, source: str | None = None, context: Context | None = None) -> Upgraded:
    """Rewrite what the target release no longer knows, and write down the defaults of `source` that changed silently.

    Without `source` no default is written down, since nobody knows what the file relied on.
    """
    context = (context or Context())._replace(deepspeed=(target,))
    changes: list[Change] = []
    for step in _STEPS:
        if document.root is None:
            break
        for change in step(document, source, target):
            try:
                document = apply(document, change.edits)
            except EditError:
                continue
            changes.append(change)
    report = check(document, context)
    refusals = tuple(_refusals(document, target))
    speaking = {item.path for item in refusals}
    left = tuple(item for item in report.diagnostics if item.path not in speaking)
    return Upgraded(document, tuple(changes), refusals, left)


_Step = Callable[[Document, "str | None", str], Iterator[Change]]


def _crosses(source: str | None, boundary: str, target: str) -> bool:
    return number(target) >= number(boundary) and (source is None or number(source) < number(boundary))


def _at(document: Document, *path: str) -> Node | None:
    place = find(document.root, path) if document.root else None
    return place.node if place else None


def _value(document: Document, *path: str) -> Any:
    node = _at(document, *path)
    return plain(node) if node else None


def _removed(document: Document, target: str) -> Iterator[tuple[Path, Any]]:
    """The removed keys that stand in the file, with their values."""
    for path in [(name,) for name in _top(document)] + [("zero_optimization", name) for name in _zero(document)]:
        gone = removed_in(path)
        if gone is not None and number(gone) <= number(target):
            yield path, _value(document, *path)


def _top(document: Document) -> tuple[str, ...]:
    return document.root.keys() if document.root else ()


def _zero(document: Document) -> tuple[str, ...]:
    block = _value(document, "zero_optimization")
    return tuple(cast("dict[str, Any]", block)) if isinstance(block, dict) else ()


def _off(path: Path, value: Any) -> bool:
    if isinstance(value, dict):
        block = cast("dict[str, Any]", value)
        return path[-1] not in ("compression_training", "sparse_attention") and not block.get("enabled", False)
    return value in (None, False) or (path[-1] == "mics_shard_size" and value == -1)


def _switched_off(document: Document, source: str | None, target: str) -> Iterator[Change]:
    for path, value in _removed(document, target):
        if _off(path, value):
            why = f"`{dotted(path)}` was removed in {removed_in(path)}; it was switched off"
            yield Change(path, why, (Edit("remove", path),))
        elif path == ("graph_harvesting",):
            why = "`graph_harvesting` was removed in 0.19.8; results stay the same, the speed of CUDA graphs is lost"
            yield Change(path, why, (Edit("remove", path),))
        elif path == ("quantize_training",) and source is not None and number(source) >= number("0.7.0"):
            why = "`quantize_training` is refused since 0.19.7; nothing has read it since 0.7.0"
            yield Change(path, why, (Edit("remove", path),))


#: What to do instead of a removed feature that was in use.
_INSTEAD = {
    "amp": "choose `bf16`, `fp16` or `torch_autocast`; the numerics differ",
    "elasticity": "write the batch numbers of the world size that you train on",
    "curriculum_learning": "set up `data_efficiency.data_sampling.curriculum_learning`, which drives a sampler",
    "nebula": "write checkpoints with `engine.save_checkpoint`; they land elsewhere",
    "sparse_gradients": 'build the embedding with "sparse=True" in the script',
    "zeropp_loco_param": "remove it; gradients then have no error feedback",
    "mics_shard_size": "`zero_hpz_partition_size` is the nearest thing; memory differs",
    "mics_hierarchical_params_gather": "it went with `mics_shard_size`",
}
_ONE_BIT = ("onebitadam", "onebitlamb", "zerooneadam")


def _refusals(document: Document, target: str) -> Iterator[Refusal]:
    for path, _ in _removed(document, target):
        gone = removed_in(path)
        instead = _INSTEAD.get(str(path[-1]), "there is no successor; stay on an older release")
        yield Refusal(path, f"`{dotted(path)}` is in use and was removed in {gone}: {instead}")
    kind = _value(document, "optimizer", "type")
    if isinstance(kind, str) and kind.lower() in _ONE_BIT and number(target) >= number("0.19.7"):
        why = f"`{kind}` was removed in 0.19.7; Adam and Lamb are other algorithms"
        yield Refusal(("optimizer", "type"), why)


def _renamed(document: Document, source: str | None, target: str) -> Iterator[Change]:
    for item in check(document, Context(deepspeed=(target,))).diagnostics:
        if item.code in ("DS105", "DS107") and item.fix:
            name = dotted(item.path)
            yield Change(item.path, f"`{name}`: {item.fix.message}; it means the same", item.fix.edits)
    old, new = ("aio", "thread_count"), ("aio", "intra_op_parallelism")
    if _crosses(source, "0.16.9", target) and _at(document, *old) and not _at(document, *new):
        why = "`aio.thread_count` became `intra_op_parallelism` in 0.16.9; results stay the same, speed may not"
        yield Change(old, why, (Edit("move", new, source=old),))
    key = ("communication_data_type",)
    if _crosses(source, "0.14.2", target) and _value(document, *key) == "bfp16":
        yield Change(key, '"bfp16" is written "bf16" since 0.14.2', (Edit("replace", key, "bf16"),))


def _pinned(document: Document, source: str | None, target: str) -> Iterator[Change]:
    if source is None:
        return
    for changed in default_changes():
        path, steps = changed.path, changed.steps
        _, old = default_in(steps, source)
        known, new = default_in(steps, target)
        if number(source) < number(steps[0][0]):
            # The key came later, with the behaviour that there had been.
            old = steps[0][1]
        names = tuple(map(str, path))
        if not known or old == new or _at(document, *names) or not _applies(document, names, changed.of):
            continue
        if number(target) > number(source):
            boundary = [since for since, _ in steps if number(since) <= number(target)][-1]
            why = f"`{dotted(path)}` is {show(new)} by default since {boundary}, and was {show(old)}"
        else:
            why = f"`{dotted(path)}` is {show(new)} by default in {target}, and {show(old)} in {source}"
        yield Change(path, why, (Edit("add", path, old),))


def _applies(document: Document, path: tuple[str, ...], of: str) -> bool:
    """Whether a default matters to this file."""
    if path[0] == "bf16":
        return _value(document, "bf16", "enabled") is True
    if of:
        return _value(document, path[0], "type") == of
    if len(path) == 1:
        return True
    return _value(document, *path[:-1], "device") in ("cpu", "nvme")


def _cut(document: Document, source: str | None, target: str) -> Iterator[Change]:
    if not _crosses(source, "0.15.0", target):
        return
    for item in check(document, Context(deepspeed=("0.14.5",))).diagnostics:
        if item.code == "DS112" and item.fix:
            why = f"`{dotted(item.path)}` had its fraction cut off up to 0.14.5, and is refused since 0.15.0"
            yield Change(item.path, why, item.fix.edits)


def _strict_precision(document: Document, source: str | None, target: str) -> Iterator[Change]:
    if not _crosses(source, "0.17.1", target):
        return
    for fact in bind(document).of(Unknown):
        if fact.path[0] in ("fp16", "bf16") and len(fact.path) == 2:
            why = f"`{dotted(fact.path)}` was never read, and is refused since 0.17.1"
            yield Change(fact.path, why, (Edit("remove", fact.path),), same=source is not None)


_STEPS: tuple[_Step, ...] = (_switched_off, _renamed, _cut, _strict_precision, _pinned)
