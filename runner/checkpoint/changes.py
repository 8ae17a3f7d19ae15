"""What differs between the settings of a checkpoint and those of the run that goes on from it, and what may."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from dsconf import DeepSpeedConfig
from runner.checkpoint.shelf import Found
from runner.ds_config import OWN_BLOCKS
from runner.errors import UsageError
from runner.settings import Settings

#: Where a run writes, what it prints and where it came from: no number depends on it.
_OUTSIDE = (
    "run_dir",
    "resume",
    "checkpoint",
    "launch",
    "distributed",
    "ds_config.tensorboard",
    "ds_config.csv_monitor",
    "ds_config.wandb",
    "ds_config.comet",
    "presets",
    "overrides",
    "training.log_every",
    "training.eval_every",
    "model.zero_init",
)

_STAGE = "ds_config.zero_optimization.stage"

#: Why a checkpoint cannot be loaded under another value.
_FIXED = {
    "model": "the weights in the checkpoint are those of another model",
    "data.loader": "the position in the checkpoint is that of another order",
    "optimizer.type": "its state in the checkpoint is that of another optimizer",
    "optimizer.params": "the checkpoint brings its own values, so the new one would have no effect",
    "ds_config.bf16.enabled": "the checkpoint is of another precision",
    "ds_config.fp16.enabled": "the checkpoint is of another precision",
}


@dataclass(frozen=True, slots=True)
class Change:
    """`why_not`: why a run with it cannot go on from the checkpoint; none if it can."""

    name: str
    before: object
    now: object
    why_not: str | None

    def __str__(self) -> str:
        return f"{self.name}: {self.before} -> {self.now}"


def record(settings: Settings, config: DeepSpeedConfig) -> dict[str, Any]:
    """What a checkpoint says of the run that it belongs to."""
    document = settings.model_dump(mode="json", exclude={"overrides"})
    return {**document, "ds_config": {k: v for k, v in config.to_dict().items() if k not in OWN_BLOCKS}}


def refuse(found: Found, now: Mapping[str, Any]) -> None:
    """Raise UsageError, naming everything that keeps a run with the settings `now` from going on from there."""
    before = found.manifest
    faults = [f"  {change}: {change.why_not}" for change in compare(before.settings, now) if change.why_not]
    if faults:
        raise UsageError("\n".join([f"error: resume: {found.directory} does not fit these settings:", *faults]))


def compare(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """All differences that may change a number, those that cannot be first."""
    old, new = dict(_leaves(before)), dict(_leaves(now))
    names = [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
    found = [
        Change(name, old.get(name), new.get(name), _why_not(name, old, new))
        for name in names
        if not any(_within(name, outside) for outside in _OUTSIDE)
    ]
    return sorted(found, key=lambda change: change.why_not is None)


def _why_not(name: str, old: Mapping[str, object], new: Mapping[str, object]) -> str | None:
    if name == _STAGE and {old.get(name, 0), new.get(name, 0)} != {1, 2}:
        return "the optimizer's state is laid out for another stage; only stages 1 and 2 read each other's"
    fixed = next((reason for fixed, reason in _FIXED.items() if _within(name, fixed)), None)
    return fixed or _why_not_schedule(name, old, new)


def _why_not_schedule(name: str, old: Mapping[str, object], new: Mapping[str, object]) -> str | None:
    """DeepSpeed's schedules keep their position alone, and so do ours; torch's keep what they were made from, too."""
    if not _within(name, "scheduler"):
        return None
    if not new.get("scheduler.type"):
        return None
    kinds = [_kind(side) for side in (old, new)]
    if kinds[0] != kinds[1]:
        return "the position in the checkpoint is that of another kind of schedule"
    if _within(name, "scheduler.params") and kinds[1][0] not in ("deepspeed", "runner"):
        return "the checkpoint brings its own values, so the new one would have no effect"
    return None


def _kind(settings: Mapping[str, object]) -> tuple[str, object]:
    name = str(settings.get("scheduler.type") or "")
    kind = "deepspeed" if name and "." not in name else "runner" if name.startswith("runner.schedules.") else name
    return kind, settings.get("scheduler.interval", "step")


def _within(name: str, section: str) -> bool:
    return name == section or name.startswith(f"{section}.")


def _leaves(block: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in block.items():
        if isinstance(value, dict) and value:
            yield from _leaves(cast("dict[str, Any]", value), f"{prefix}{name}.")
        elif value is not None and value != {}:
            yield f"{prefix}{name}", value
