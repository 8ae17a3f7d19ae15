"""Rules about the learning-rate schedule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from dsconf.diagnostic import Related
from dsconf.rules.rule import Context, Finding, close_match, move, replace, rule, show

if TYPE_CHECKING:
    from dsconf.facts import Bound

OWN = ("WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "OneCycle", "LRRangeTest")
_COSINE = ("cosinelr", "cosine", "cosineannealing", "warmupcosine", "cosine_with_warmup", "cosinedecay")


@rule(
    "DS801",
    "unknown-scheduler",
    "error",
    "refused",
    phase="initialize",
    says="AssertionError: DeepSpeed does not recognize LR scheduler CosineLR",
    summary="A schedule that neither DeepSpeed nor torch knows.",
    explanation="""The type is one of DeepSpeed's five or a class of `torch.optim.lr_scheduler`, in its exact
    spelling.""",
    source="runtime/engine.py:1926",
    bad={"scheduler": {"type": "CosineLR", "params": {}}},
    good={"scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 100, "warmup_num_steps": 10}}},
)
def unknown_scheduler(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import UnknownTag

    for fact in bound.of(UnknownTag):
        if fact.path != ("scheduler", "type") or fact.value is None:
            continue
        guess = None
        if isinstance(fact.value, str):
            cosine = fact.value.lower() in _COSINE
            guess = "WarmupCosineLR" if cosine else close_match(fact.value, map(str, fact.choices))
        yield Finding(
            fact.path,
            f"neither DeepSpeed nor torch knows the schedule {show(fact.value)}",
            f"write {guess}" if guess else f"use one of {', '.join(OWN)}",
            at="value",
            fix=replace(fact.path, guess, f"write {guess}", safe=False) if guess else None,
        )


@rule(
    "DS802",
    "scheduler-without-type",
    "error",
    "ignored",
    summary="A scheduler block without `type`.",
    explanation="""Without a type DeepSpeed builds no schedule and ignores the whole block.""",
    source="runtime/config.py:325",
    bad={"scheduler": {"params": {"warmup_num_steps": 10}}},
    good={"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10, "warmup_max_lr": 0.001}}},
)
def scheduler_without_type(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Missing, UnknownTag
    from dsconf.source import Object

    node = bound.node(("scheduler",))
    empty = isinstance(node, Object) and not node.members
    for fact in bound.of(Missing):
        if fact.path == ("scheduler", "type"):
            yield Finding(
                fact.path,
                "`scheduler` has no `type`, so there is no schedule",
                f"add one of {', '.join(OWN)}, or remove the block",
                severity="warning" if empty else None,
            )
    for fact in bound.of(UnknownTag):
        if fact.path == ("scheduler", "type") and fact.value is None:
            yield Finding(
                fact.path,
                "`scheduler.type` is null, so there is no schedule",
                f"write one of {', '.join(OWN)}, or remove the block",
                at="value",
                related=(Related(("scheduler",), "nothing reads this block"),),
            )


@rule(
    "DS803",
    "scheduler-without-params",
    "error",
    "refused",
    phase="initialize",
    says="TypeError: deepspeed.runtime.lr_schedules.WarmupLR() argument after ** must be a mapping, not NoneType",
    summary="A scheduler block without `params`.",
    explanation="""DeepSpeed unpacks `params` without looking whether it is there, and fails with a TypeError.""",
    source="runtime/engine.py:1934",
    bad={"scheduler": {"type": "WarmupLR"}},
    good={"scheduler": {"type": "WarmupLR", "params": {}}},
)
def scheduler_without_params(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Missing

    for fact in bound.of(Missing):
        if fact.path == ("scheduler", "params"):
            yield Finding(fact.path, "`scheduler` has no `params`; DeepSpeed fails without them", 'add "params": {}')


@rule(
    "DS804",
    "unknown-scheduler-parameter",
    "error",
    "refused",
    phase="initialize",
    says="TypeError: WarmupCosineLR.__init__() got an unexpected keyword argument 'warmup_max_lr'",
    summary="A parameter that the schedule does not take.",
    explanation="""`params` become the keyword arguments of the schedule's class, which raises a TypeError on a
    name that it does not know.""",
    source="runtime/engine.py:1935",
    bad={
        "scheduler": {
            "type": "WarmupCosineLR",
            "params": {"total_num_steps": 100, "warmup_num_steps": 10, "warmup_max_lr": 0.001},
        }
    },
    good={"scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 100, "warmup_num_steps": 10}}},
)
def unknown_scheduler_parameter(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Unknown

    scheduler = bound.config.scheduler
    for fact in bound.of(Unknown):
        if fact.path[:2] != ("scheduler", "params"):
            continue
        name = str(fact.path[-1])
        kind = bound.node(("scheduler", "type"))
        title = scheduler.type if scheduler is not None else getattr(kind, "value", "the schedule")
        guess = close_match(name, fact.block.keys)
        helped = f"did you mean `{guess}`?" if guess else "remove it"
        if name in ("warmup_max_lr", "warmup_min_lr") and title == "WarmupCosineLR":
            guess, helped = None, "remove it: WarmupCosineLR scales `optimizer.params.lr`"
        free = guess is not None and not bound.given(*fact.path[:-1], guess)
        yield Finding(
            fact.path,
            f"{title} has no parameter `{name}`",
            helped,
            fix=move(fact.path, (*fact.path[:-1], guess), f"rename it to `{guess}`") if guess and free else None,
        )


@rule(
    "DS805",
    "warmup-decay-peak",
    "warning",
    "advice",
    reads=("scheduler.type", "scheduler.params", "optimizer.params"),
    summary="`WarmupDecayLR` without its own peak.",
    explanation="""WarmupDecayLR rises to its own `warmup_max_lr`, which is 0.001 unless it is set, whatever the
    optimizer's learning rate is.""",
    source="runtime/lr_schedules.py:818",
    bad={
        "optimizer": {"type": "AdamW", "params": {"lr": 0.00002}},
        "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 100, "warmup_num_steps": 10}},
    },
    good={
        "optimizer": {"type": "AdamW", "params": {"lr": 0.00002}},
        "scheduler": {
            "type": "WarmupDecayLR",
            "params": {"total_num_steps": 100, "warmup_num_steps": 10, "warmup_max_lr": 0.00002},
        },
    },
)
def warmup_decay_peak(bound: Bound, context: Context) -> Iterator[Finding]:
    scheduler, optimizer = bound.config.scheduler, bound.config.optimizer
    if scheduler is None or scheduler.type != "WarmupDecayLR" or bound.given("scheduler", "params", "warmup_max_lr"):
        return
    rate = getattr(optimizer.params, "lr", None) if optimizer is not None and optimizer.params else None
    if rate == 0.001:
        return
    yield Finding(
        ("scheduler", "params"),
        "WarmupDecayLR rises to its own `warmup_max_lr`, 0.001 unless set"
        + (f", not to the optimizer's {rate:g}" if rate is not None else ""),
        f'add "warmup_max_lr": {rate!r}' if rate is not None else 'add "warmup_max_lr"',
        related=(Related(("optimizer", "params", "lr"), "has no effect under this schedule"),)
        if rate is not None
        else (),
    )


@rule(
    "DS807",
    "unknown-warmup-type",
    "error",
    "coerced",
    summary="A `warmup_type` other than log or linear.",
    explanation="""DeepSpeed warns and warms up logarithmically. The word is about the warm-up only: for a
    cosine decay use WarmupCosineLR.""",
    source="runtime/lr_schedules.py:746",
    bad={"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10, "warmup_type": "cosine"}}},
    good={"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10, "warmup_type": "linear"}}},
)
def unknown_warmup_type(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Mismatch

    for fact in bound.of(Mismatch):
        if fact.path == ("scheduler", "params", "warmup_type"):
            cosine = isinstance(fact.value, str) and "cos" in fact.value.lower()
            yield Finding(
                fact.path,
                f"`warmup_type` {show(fact.value)} is not known; DeepSpeed warms up as with log",
                "use the type WarmupCosineLR for a cosine decay" if cosine else "write log or linear",
                at="value",
            )


@rule(
    "DS808",
    "warmup-longer-than-run",
    "warning",
    "advice",
    reads=("scheduler.type", "scheduler.params"),
    summary="A schedule that ends before its warm-up does.",
    explanation="""When `total_num_steps` is not larger than `warmup_num_steps` (1000 unless set) the learning
    rate is zero as soon as the warm-up is over.""",
    source="runtime/lr_schedules.py:826",
    bad={
        "scheduler": {
            "type": "WarmupDecayLR",
            "params": {"total_num_steps": 100, "warmup_num_steps": 200, "warmup_max_lr": 0.001},
        }
    },
    good={
        "scheduler": {
            "type": "WarmupDecayLR",
            "params": {"total_num_steps": 200, "warmup_num_steps": 20, "warmup_max_lr": 0.001},
        }
    },
)
def warmup_longer_than_run(bound: Bound, context: Context) -> Iterator[Finding]:
    scheduler = bound.config.scheduler
    if scheduler is None or not (scheduler.type == "WarmupDecayLR" or scheduler.type == "WarmupCosineLR"):
        return
    total, warmup = scheduler.params.total_num_steps, scheduler.params.warmup_num_steps
    if total <= warmup:
        given = bound.given("scheduler", "params", "warmup_num_steps")
        yield Finding(
            ("scheduler", "params", "total_num_steps"),
            f"`total_num_steps` {total} does not exceed the warm-up's {warmup}{'' if given else ' (the default)'}",
            "count the optimizer steps of the whole run, or shorten the warm-up",
            at="value",
            severity="error" if total <= 0 else None,
            related=(Related(("scheduler", "params", "warmup_num_steps"), "the warm-up"),) if given else (),
        )


@rule(
    "DS809",
    "rates-per-group",
    "warning",
    "refused",
    phase="initialize",
    says="ValueError: expected 1 value for max_lr, got 2",
    reads=("scheduler.type", "scheduler.params"),
    summary="A list of learning rates, one for each parameter group.",
    explanation="""A list needs as many values as the optimizer has parameter groups. An optimizer that DeepSpeed
    builds from the file has one group, unless the script passes groups to `deepspeed.initialize`.""",
    source="runtime/lr_schedules.py:307",
    bad={"scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": [0.001, 0.0001], "warmup_num_steps": 10}}},
    good={"scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.001, "warmup_num_steps": 10}}},
)
def rates_per_group(bound: Bound, context: Context) -> Iterator[Finding]:
    scheduler = bound.config.scheduler
    if scheduler is None:
        return
    from dsconf.facts import type_of

    for name in type_of(scheduler.params).keys:
        if name == "milestones":
            continue
        value = getattr(scheduler.params, name)
        if isinstance(value, list) and len(cast("list[float]", value)) != 1:
            count = len(cast("list[float]", value))
            yield Finding(
                ("scheduler", "params", name),
                f"`{name}` has {count} values, which needs {count} parameter groups",
                f"write one number, or pass {count} groups to deepspeed.initialize",
                at="value",
            )


@rule(
    "DS810",
    "one-peak-for-muon",
    "warning",
    "coerced",
    reads=("scheduler.type", "scheduler.params", "optimizer.type", "optimizer.params"),
    summary="A schedule with one peak over the two rates of Muon.",
    explanation="""Muon has two groups of parameters with rates of their own, `muon_lr` and `adam_lr`. A schedule that
    names its peak as one number gives it to both groups, and the two rates are never used.""",
    source="runtime/lr_schedules.py:742",
    bad={
        "zero_optimization": {"stage": 1, "reduce_scatter": False},
        "optimizer": {"type": "Muon", "params": {"muon_lr": 0.02, "adam_lr": 0.00001}},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.001, "warmup_num_steps": 2}},
    },
    good={
        "zero_optimization": {"stage": 1, "reduce_scatter": False},
        "optimizer": {"type": "Muon", "params": {"muon_lr": 0.02, "adam_lr": 0.00001}},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 2}},
    },
)
def one_peak_for_muon(bound: Bound, context: Context) -> Iterator[Finding]:
    scheduler, optimizer = bound.config.scheduler, bound.config.optimizer
    if scheduler is None or scheduler.type not in OWN or optimizer is None or optimizer.type != "Muon":
        return
    rates = [name for name in ("muon_lr", "adam_lr") if bound.given("optimizer", "params", name)]
    for name in ("warmup_max_lr", "cycle_max_lr"):
        path = ("scheduler", "params", name)
        if rates and bound.given(*path) and not isinstance(getattr(scheduler.params, name, None), list):
            yield Finding(
                path,
                f"`{name}` is one number for both groups of Muon; {' and '.join(f'`{item}`' for item in rates)} "
                + ("is" if len(rates) == 1 else "are")
                + " never used",
                "remove it: WarmupLR then rises to each group's own rate"
                if scheduler.type == "WarmupLR"
                else "give a list with one value for each group",
                related=tuple(Related(("optimizer", "params", item), "has no effect") for item in rates),
            )
