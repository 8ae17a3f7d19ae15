"""`TrainingArguments` of Transformers, in JSON or YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from dsconf.convert.draft import Draft, Section, literal, take_base
from dsconf.diagnostic import Path, dotted
from dsconf.readers import PROFILES, Arguments, Key
from dsconf.readers.transformers import OPTIMIZERS

_PROFILE = PROFILES["transformers"]
#: The keys of a file that says what arguments say which come without one.
_OWN: tuple[Path, ...] = (
    ("train_batch_size",),
    ("train_micro_batch_size_per_gpu",),
    ("gradient_accumulation_steps",),
    ("gradient_clipping",),
    ("fp16", "enabled"),
    ("bf16", "enabled"),
)
_OPTIMIZER: tuple[Path, ...] = tuple(("optimizer", "params", name) for name in ("lr", "betas", "eps", "weight_decay"))
#: Accelerate's stage where nobody names one.
_STAGE = 2


def read(top: Section, world_size: int | None) -> Draft:
    """The file that `deepspeed` names with every "auto" filled that the arguments decide, or one made of them alone."""
    draft = Draft()
    arguments = _PROFILE.read(top.values, world_size)
    if not take_base(draft, top, "deepspeed"):
        _from_scratch(draft, top, arguments)
    for key in _PROFILE.keys:
        if literal(draft.values, key.path) == "auto":
            _fill(draft, key, top, arguments)
    if arguments.get("save_on_each_node") is True:
        draft.put(("checkpoint", "use_node_local_storage"), True, top.place("save_on_each_node"))
    return draft


def _from_scratch(draft: Draft, top: Section, arguments: Arguments) -> None:
    for path in _OWN:
        draft.put(path, "auto", top.place())
    name = str(arguments.get("optim"))
    if "AdamW" in OPTIMIZERS.get(name, ()):
        draft.put(("optimizer", "type"), "AdamW", top.place("optim"))
        for path in _OPTIMIZER:
            draft.put(path, "auto", top.place())
    else:
        draft.say(
            "warning", top.place("optim"), f"`optim` {name} has no exact counterpart in DeepSpeed; it is left out"
        )
    draft.put(("zero_optimization", "stage"), _STAGE, top.place())
    draft.say("info", top.place(), f"nothing here names a ZeRO stage; it is {_STAGE} (zero_optimization.stage=3)")
    kind = arguments.get("lr_scheduler_type")
    if kind not in ("constant", None):
        draft.say("info", top.place("lr_scheduler_type"), f"the schedule, {kind}, stays with the Trainer")


def _fill(draft: Draft, key: Key, top: Section, arguments: Arguments) -> None:
    value = key.value(arguments) if key.value else None
    if value is None:
        draft.say("info", top.place(), f"`{dotted(key.path)}` stays auto; the Trainer fills it in: {key.becomes}")
        return
    given = next((name for name in key.arguments if arguments.given(name)), "")
    draft.put(key.path, value, top.place(given))


def write(values: Mapping[str, Any], filename: str) -> dict[str, Any]:
    """The arguments that agree with a file; what no argument says stays in the file."""
    given: dict[str, Any] = {"deepspeed": filename}
    for key in _PROFILE.keys:
        value = literal(values, key.path)
        if value in (None, "auto") or not key.arguments or key.path == ("train_batch_size",):
            continue
        if isinstance(value, list):
            given.update(zip(key.arguments, cast("list[Any]", value), strict=False))
        else:
            given[key.arguments[0]] = value
    return given
