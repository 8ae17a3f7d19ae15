"""What the models say about the keys of a configuration, against what the installed DeepSpeed says.

Both ways: every key, other spelling, type, bound and default of DeepSpeed's has its counterpart in the models, and
the models have nothing that DeepSpeed does not. Where they differ on purpose, `INTENDED` says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from dsconf.models.block import Retired
from proof.keys import Key, Side, deepspeed, models
from proof.lookups import UNKNOWN, Path

Aspect = Literal["missing", "surplus", "status", "reader", "type", "choices", "bounds", "default"]


@dataclass(frozen=True, slots=True)
class Intended:
    """Differences that are meant: a pattern of dotted paths, what differs, and why."""

    path: str
    aspects: tuple[Aspect, ...]
    reason: str


INTENDED: tuple[Intended, ...] = (
    Intended(
        "comet.mode tensor_parallel.preset_model zero_optimization.zenflow.select_strategy",
        ("choices",),
        "declared as any string, and refused by the code behind unless it is one of these",
    ),
    Intended(
        "zero_optimization.zenflow.select_interval zero_optimization.zenflow.update_interval",
        ("choices",),
        "the only string that the class's own validator lets through is auto",
    ),
    Intended(
        "fp16.loss_scale hybrid_engine.inference_tp_size hybrid_engine.tp_gather_partition_size"
        " tensor_parallel.tp.tp_grain_size zero_optimization.offload_param.buffer_count",
        ("bounds",),
        "not declared, but the code behind fails outside of these bounds",
    ),
    Intended(
        "zero_optimization.offload_*.nvme_path",
        ("type", "default"),
        "may be absent as far as the class goes; the models have it only where the device needs it",
    ),
    Intended("zero_optimization.zenflow.steps_per_epoch", ("missing",), "the engine's own note, not for files to set"),
    Intended("zero_optimization.cpu_offload_use_pin_memory", ("status",), "accepted with a warning, then unused"),
    Intended(
        "data_efficiency.data_routing.random_ltd.global_batch_size"
        " data_efficiency.data_routing.random_ltd.micro_batch_size",
        ("status",),
        "the engine puts its own values there before it looks them up",
    ),
    Intended(
        "data_efficiency.data_routing.random_ltd.layer_token_lr_schedule.*",
        ("surplus",),
        "named among DeepSpeed's constants for a feature that it refuses as unfinished",
    ),
    Intended(
        "data_efficiency.data_routing.random_ltd.random_ltd_schedule.schedule_config.root_degree",
        ("missing",),
        "looked up for a kind of schedule that cannot be chosen",
    ),
    Intended(
        "weight_quantization.post_init_quant.*",
        ("missing",),
        "free-form: only a helper function that the script calls looks into it, and no training does",
    ),
    Intended("optimizer.params.Adam*.adamw_mode", ("missing",), "the engine passes it itself, from adam_w_mode"),
    Intended(
        "optimizer.params.max_grad_norm optimizer.params.Lamb.max_grad_norm",
        ("missing",),
        "the engine refuses it before any class sees it",
    ),
    Intended(
        "scheduler.params.LambdaLR* scheduler.params.MultiplicativeLR* scheduler.params.SequentialLR*"
        " scheduler.params.ChainedScheduler* scheduler.params.CyclicLR.scale_fn",
        ("missing",),
        "takes functions or other schedules, which a file cannot hold",
    ),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One point in which the models and DeepSpeed do not agree."""

    path: Path
    aspect: Aspect
    text: str
    source: str = ""

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        return f"{'.'.join(self.path)}: {self.aspect}: {self.text}{where}"


def drift() -> list[Difference]:
    """Every difference between the models and the installed DeepSpeed that is not intended.

    An entry of `INTENDED` that explains nothing any more is one, too.
    """
    found = sorted(set(differences(models(), deepspeed())), key=lambda item: item.path)
    used = {entry for entry in INTENDED for item in found if _meant(entry, item)}
    stale = [
        Difference((entry.path,), entry.aspects[0], f"no difference any more, though meant: {entry.reason}")
        for entry in INTENDED
        if entry not in used
    ]
    return [item for item in found if not any(_meant(entry, item) for entry in INTENDED)] + stale


def _meant(entry: Intended, item: Difference) -> bool:
    return item.aspect in entry.aspects and any(fnmatchcase(".".join(item.path), each) for each in entry.path.split())


def differences(ours: Side, theirs: Side) -> Iterator[Difference]:
    """Every difference, intended or not."""
    for path, key in theirs.keys.items():
        if path in ours.keys:
            yield from _compare(path, ours.keys[path], key)
        elif path not in ours.spellings:
            yield Difference(path, "missing", "DeepSpeed looks it up, the models do not have it", key.source)
    for path, other in theirs.spellings.items():
        if path not in ours.keys and path not in ours.spellings:
            yield Difference(path, "missing", f"DeepSpeed takes it for `{other}`, the models do not know it")
    for path, key in theirs.shared.items():
        if not any((*mine[:2], *mine[3:]) == path for mine in ours.keys):
            yield Difference(path, "missing", "DeepSpeed looks it up, the models do not have it", key.source)
    for path, key in ours.keys.items():
        known = path in theirs.keys or (*path[:2], *path[3:]) in theirs.shared
        if not known and not any(path[: len(part)] == part for part in theirs.absent):
            yield Difference(path, "surplus", "the models have it, DeepSpeed does not look it up", key.source)
    for path, old in ours.spellings.items():
        alive = path in theirs.keys or path in theirs.spellings
        if isinstance(old, Retired) and old.status != "removed" and alive == (old.status == "dead"):
            looks = "looks it up" if alive else "does not look it up"
            yield Difference(path, "status", f"{old.status} to the models, but DeepSpeed {looks}", old.source)
    for path in ours.closed ^ theirs.closed:
        how = "with Pydantic" if path in theirs.closed else "as a plain dict"
        yield Difference(path, "reader", f"DeepSpeed reads the block {how}, the models say otherwise")


def _compare(path: Path, ours: Key, theirs: Key) -> Iterator[Difference]:
    def differ(aspect: Aspect, here: Any, there: Any) -> Difference:
        return Difference(path, aspect, f"{here} in the models, {there} in DeepSpeed", theirs.source)

    if ours.block:
        return
    if ours.kinds and theirs.kinds and "any" not in theirs.kinds:
        wide = ours.kinds | {"int"} if "float" in ours.kinds else ours.kinds
        fits = ours.kinds == theirs.kinds if theirs.exact else "any" in wide or theirs.kinds - {"null"} <= wide
        if not fits:
            yield differ("type", "/".join(sorted(ours.kinds)), "/".join(sorted(theirs.kinds)))
    if theirs.exact and ours.choices != theirs.choices:
        yield differ("choices", _listed(ours.choices), _listed(theirs.choices))
    if theirs.exact and ours.bounds != theirs.bounds:
        yield differ("bounds", ours.bounds or "none", theirs.bounds or "none")
    known = [item for item in theirs.defaults if item is not UNKNOWN]
    if known and not any(_same(mine, default) for mine in ours.defaults for default in known):
        yield differ("default", _listed(ours.defaults), _listed(known))


def _same(mine: Any, default: Any) -> bool:
    if isinstance(mine, str) and isinstance(default, str):
        return mine.lower() == default.lower()
    return mine == default and isinstance(mine, bool) == isinstance(default, bool)


def _listed(values: Iterable[Any] | None) -> str:
    return "anything" if values is None else ", ".join(sorted({repr(item) for item in values})) or "nothing"
