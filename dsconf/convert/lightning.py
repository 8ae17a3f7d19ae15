"""`DeepSpeedStrategy` of Lightning: its arguments, alone or in the `trainer` section of a LightningCLI file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsconf.convert.draft import Draft, Section, take_base
from dsconf.diagnostic import Path, dotted
from dsconf.readers import PROFILES, Arguments, Setting
from dsconf.readers.lightning import HALF, OTHERS, STRATEGIES, SWITCHES, strategy_arguments

_PROFILE = PROFILES["lightning"]
_CLASS = "lightning.pytorch.strategies.DeepSpeedStrategy"
#: What is written into the file and not left to the Trainer, which refuses `gradient_accumulation_steps` there.
_CLIPPING = ("gradient_clipping",)
_STEPS = ("gradient_accumulation_steps",)


def read(top: Section) -> Draft:
    """What `DeepSpeedStrategy` and the Trainer around it make of their arguments."""
    draft = Draft()
    told = _PROFILE.read(top.values)
    given = strategy_arguments(told)
    _refuse_others(draft, top, told, given)
    if not take_base(draft, top, "config"):
        _from_arguments(draft, top, given)
    _precision(draft, top, given, told)
    if _CLIPPING[0] not in draft.values:
        draft.put(_CLIPPING, told.get("gradient_clip_val") or 0.0, top.place("gradient_clip_val"))
    draft.adds[_STEPS[0]] = told.get("accumulate_grad_batches")
    return draft


def _refuse_others(draft: Draft, top: Section, told: Arguments, given: Mapping[str, Any]) -> None:
    """Say what is not of DeepSpeed, or no argument at all."""
    strategy = told.get("strategy")
    if isinstance(strategy, str) and strategy not in STRATEGIES:
        draft.say("error", top.place("strategy"), f"`strategy` is {strategy}, not one of DeepSpeed's")
    kind = top.section("strategy")
    if kind and not str(kind.get("class_path") or _CLASS).endswith("DeepSpeedStrategy"):
        draft.say("error", kind.place("class_path"), "this strategy is not DeepSpeedStrategy")
    known = {*SWITCHES, *OTHERS, *(item.argument for item in _PROFILE.settings)}
    for name in given:
        if name not in known:
            draft.say("error", top.place(name), f"`DeepSpeedStrategy` has no argument `{name}`")


def _from_arguments(draft: Draft, top: Section, given: Mapping[str, Any]) -> None:
    on = {**SWITCHES, **{name: bool(value) for name, value in given.items() if name in SWITCHES}}
    if not on["zero_optimization"]:
        on = dict.fromkeys(on, False)
    silent: list[tuple[Setting, Any]] = []
    for item in _PROFILE.settings:
        if item.switch == HALF or (item.switch and not on[item.switch]):
            continue
        if item.argument in given:
            if given[item.argument] != "auto":
                draft.put(item.path, given[item.argument], top.place(item.argument))
        elif item.path[-1] in ("stage", "device") or item.path == ("zero_allow_untested_optimizer",):
            draft.put(item.path, item.default, top.place())
        elif item.default != "auto":
            silent.append((item, item.default))
    for item, value in _that_count(draft.values, silent):
        draft.put(item.path, value, top.place())


def _that_count(values: Mapping[str, Any], silent: list[tuple[Setting, Any]]) -> list[tuple[Setting, Any]]:
    """Of Lightning's own defaults those that have an effect: keys of this stage and device, other than DeepSpeed's."""
    from dsconf.convert.effect import effective

    of_deepspeed = effective(values)
    return [(item, value) for item, value in silent if item.path in of_deepspeed and of_deepspeed[item.path] != value]


def _precision(draft: Draft, top: Section, given: Mapping[str, Any], told: Arguments) -> None:
    for name in ("fp16", "bf16"):
        key = _PROFILE.key((name, "enabled"))
        if name in draft.values or key is None or key.value is None or not key.value(told):
            continue
        draft.put((name, "enabled"), True, top.place("precision"))
        for item in _PROFILE.settings:
            if name == HALF == item.switch:
                draft.put(item.path, given.get(item.argument, item.default), top.place(item.argument))


def write(effective: Mapping[Path, Any]) -> dict[str, Any]:
    """The LightningCLI file, as values, that comes nearest to the settings in effect."""
    arguments: dict[str, Any] = {}
    zero = effective.get(("zero_optimization", "stage"), 0) != 0
    on = {"zero_optimization": zero, HALF: effective.get(("fp16", "enabled")) is True, "": True}
    for switch, block in (("offload_optimizer", "offload_optimizer"), ("offload_parameters", "offload_param")):
        on[switch] = zero and effective.get(("zero_optimization", block, "device")) in ("cpu", "nvme")
        if on[switch]:
            arguments[switch] = True
    if not zero:
        arguments["zero_optimization"] = False
    for item in _PROFILE.settings:
        value = effective.get(item.path)
        if on[item.switch] and value is not None and value != item.default:
            arguments[item.argument] = value
    trainer: dict[str, Any] = {"strategy": {"class_path": _CLASS, "init_args": arguments}}
    if on[HALF]:
        trainer["precision"] = "16-mixed"
    elif effective.get(("bf16", "enabled")) is True:
        trainer["precision"] = "bf16-mixed"
    if effective.get(_CLIPPING):
        trainer["gradient_clip_val"] = effective[_CLIPPING]
    steps = effective.get(_STEPS)
    if isinstance(steps, int) and steps != 1:
        trainer["accumulate_grad_batches"] = steps
    return {"trainer": trainer}


#: What to do with a file that says more than the arguments can.
REST = "keep the file and give it to DeepSpeedStrategy(config=...)"


def lost(path: Path) -> str:
    """Why the arguments cannot say a key."""
    return f"`{dotted(path)}` is no argument of DeepSpeedStrategy"
