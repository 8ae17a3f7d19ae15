"""Rules about ZenFlow, which applies important gradients at once and the rest later on the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dsconf.diagnostic import Related
from dsconf.rules.offload import offload_device
from dsconf.rules.rule import Context, Finding, remove, rule

if TYPE_CHECKING:
    from dsconf.facts import Bound
    from dsconf.models.zero import ZenFlow

_PATH = ("zero_optimization", "zenflow")
_READS = ("zero_optimization.stage", "zero_optimization.zenflow")

#: A configuration with which ZenFlow trains.
_WORKS: dict[str, Any] = {
    "stage": 2,
    "offload_optimizer": {"device": "cpu"},
    "zenflow": {"select_strategy": "step", "select_interval": 4, "update_interval": 2},
}


def _zenflow(bound: Bound) -> ZenFlow | None:
    return getattr(bound.config.zero_optimization, "zenflow", None)


@rule(
    "DS321",
    "zenflow-without-offload",
    "error",
    "refused",
    phase="initialize",
    says="ValueError: Zenflow must be used with cpu offload",
    reads=("zero_optimization.stage", "zero_optimization.offload_optimizer"),
    summary="ZenFlow without an offloaded optimizer.",
    explanation="""ZenFlow spreads the step of an offloaded optimizer over time. Stages 1 and 2 refuse it without
    `offload_optimizer`; at stage 0 DeepSpeed takes over `update_interval` as the number of accumulation steps and
    nothing else.""",
    source="runtime/zenflow/zenflow_stage_1_and_2.py:116",
    bad={"zero_optimization": {"stage": 2, "zenflow": _WORKS["zenflow"]}},
    good={"zero_optimization": _WORKS},
)
def zenflow_without_offload(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.source import Object

    stage = bound.config.zero_stage
    if stage == 3 or not isinstance(bound.node(_PATH), Object):
        return
    if stage == 0:
        yield Finding(_PATH, "ZenFlow needs ZeRO, which is off", "set `stage` to 1 or 2, or remove it", effect="advice")
    elif offload_device(bound) is None:
        yield Finding(
            _PATH,
            "ZenFlow needs the optimizer offloaded",
            'add "offload_optimizer": {"device": "cpu"}, or remove `zenflow`',
        )


@rule(
    "DS322",
    "zenflow-intervals",
    "error",
    "refused",
    phase="initialize",
    says="ValueError: Select interval must be greater or equal to update interval",
    reads=_READS,
    summary="ZenFlow's intervals contradict each other.",
    explanation="""With `select_strategy` auto, the default, columns are chosen anew once an epoch, and a number as
    `select_interval` is refused. With step or epoch a number is needed. With step it must not be below
    `update_interval`; 0 means never.""",
    source="runtime/zenflow/engine.py:63",
    bad={"zero_optimization": {**_WORKS, "zenflow": {**_WORKS["zenflow"], "select_interval": 1}}},
    good={"zero_optimization": _WORKS},
)
def zenflow_intervals(bound: Bound, context: Context) -> Iterator[Finding]:
    zenflow = _zenflow(bound)
    if zenflow is None:
        return
    select, update = zenflow.select_interval, zenflow.update_interval
    path = (*_PATH, "select_interval")
    if zenflow.select_strategy == "auto":
        if select != "auto":
            yield Finding(
                path,
                f"`select_interval` {select} is refused with `select_strategy` auto",
                'add "select_strategy": "step", or remove `select_interval`',
                at="value",
            )
    elif select == "auto":
        yield Finding(
            path,
            f"`select_strategy` {zenflow.select_strategy} needs a number as `select_interval`",
            'add "select_interval"',
            related=(Related((*_PATH, "select_strategy"), "the strategy is chosen here"),),
        )
    elif update != "auto" and zenflow.select_strategy == "step" and 0 < select < update:
        yield Finding(
            path,
            f"`select_interval` {select} is below `update_interval` {update}",
            f"write {update} or more",
            at="value",
            related=(Related((*_PATH, "update_interval"), "the update interval"),),
        )


@rule(
    "DS323",
    "zenflow-without-update-interval",
    "error",
    "coerced",
    reads=_READS,
    summary="ZenFlow without `update_interval`, which trains to NaN.",
    explanation="""`update_interval` takes the place of `gradient_accumulation_steps`. Its default, auto, puts 0
    there, and `engine.backward` divides the loss by it: from the second step on the loss is NaN.""",
    source="runtime/zenflow/engine.py:69",
    bad={"zero_optimization": {**_WORKS, "zenflow": {"select_strategy": "step", "select_interval": 4}}},
    good={"zero_optimization": _WORKS},
)
def zenflow_without_update_interval(bound: Bound, context: Context) -> Iterator[Finding]:
    zenflow = _zenflow(bound)
    if zenflow is not None and zenflow.update_interval == "auto":
        path = (*_PATH, "update_interval")
        yield Finding(
            path if bound.given(*path) else _PATH,
            "without a number as `update_interval` ZenFlow divides the loss by 0 and trains to NaN",
            'add "update_interval": the steps between two updates on the host',
        )


@rule(
    "DS324",
    "zenflow-replaces-accumulation",
    "warning",
    "coerced",
    reads=(*_READS, "gradient_accumulation_steps"),
    summary="`gradient_accumulation_steps` that ZenFlow overwrites.",
    explanation="""DeepSpeed sets the number of accumulation steps to ZenFlow's `update_interval`, whatever the file
    says, and leaves `train_batch_size` as it was worked out.""",
    source="runtime/zenflow/engine.py:69",
    bad={"gradient_accumulation_steps": 4, "zero_optimization": _WORKS},
    good={"gradient_accumulation_steps": 2, "zero_optimization": _WORKS},
)
def zenflow_replaces_accumulation(bound: Bound, context: Context) -> Iterator[Finding]:
    zenflow, steps = _zenflow(bound), bound.config.gradient_accumulation_steps
    if zenflow is None or steps is None or zenflow.update_interval in ("auto", steps):
        return
    yield Finding(
        ("gradient_accumulation_steps",),
        f"ZenFlow accumulates over its `update_interval` of {zenflow.update_interval} steps, not over {steps}",
        "write the same number in both places",
        at="value",
        related=(Related((*_PATH, "update_interval"), "this number is used"),),
    )


@rule(
    "DS325",
    "zenflow-offload-without-overlap",
    "error",
    "refused",
    phase="initialize",
    says="AssertionError: offload selective optimizer should be used with overlap_comm",
    reads=(*_READS, "zero_optimization.overlap_comm"),
    summary="`zenflow.offload` without `overlap_comm`.",
    explanation="""The selective optimizer can be offloaded only while communication overlaps the backward pass.
    `overlap_comm` is off at stages 1 and 2 unless it is set.""",
    source="runtime/zenflow/zenflow_stage_1_and_2.py:76",
    bad={"zero_optimization": {**_WORKS, "zenflow": {**_WORKS["zenflow"], "offload": True}}},
    good={"zero_optimization": {**_WORKS, "overlap_comm": True, "zenflow": {**_WORKS["zenflow"], "offload": True}}},
)
def zenflow_offload_without_overlap(bound: Bound, context: Context) -> Iterator[Finding]:
    zero, zenflow = bound.config.zero_optimization, _zenflow(bound)
    if zenflow is None or not zenflow.offload or zero is None or zero.stage == 0:
        return
    overlap = zero.stage == 3 if zero.overlap_comm is None else zero.overlap_comm
    if not overlap:
        yield Finding(
            (*_PATH, "offload"),
            "`zenflow.offload` needs `overlap_comm`",
            'set "overlap_comm" to true, or remove `offload`',
            fix=remove((*_PATH, "offload"), "remove `offload`", safe=False),
        )


@rule(
    "DS326",
    "zenflow-with-sum",
    "error",
    "refused",
    phase="parse",
    says="ValueError: gradient_allreduce_op='sum' is not supported with ZenFlow",
    reads=("gradient_allreduce_op", "zero_optimization.stage"),
    summary="ZenFlow with summed gradients.",
    explanation="""ZenFlow can only average gradients.""",
    source="runtime/config.py:698",
    bad={"gradient_allreduce_op": "sum", "zero_optimization": _WORKS},
    good={"gradient_allreduce_op": "mean", "zero_optimization": _WORKS},
)
def zenflow_with_sum(bound: Bound, context: Context) -> Iterator[Finding]:
    if bound.config.gradient_allreduce_op == "sum" and _zenflow(bound) is not None:
        yield Finding(
            ("gradient_allreduce_op",),
            'ZenFlow refuses `gradient_allreduce_op: "sum"`',
            'write "mean", or remove `zenflow`',
            at="value",
            related=(Related(_PATH, "ZenFlow is switched on here"),),
        )


#: Parameters that the type Adam takes and torch's AdamW does not.
_FOREIGN = ("bias_correction", "adam_w_mode", "torch_adam", "fp32_optimizer_states")


@rule(
    "DS327",
    "zenflow-optimizer",
    "error",
    "refused",
    phase="initialize",
    says="TypeError: AdamW.__init__() got an unexpected keyword argument 'adam_w_mode'",
    reads=("zero_optimization.stage", "optimizer.type"),
    summary="ZenFlow with an optimizer that it cannot double.",
    explanation="""ZenFlow works with Adam and AdamW from the file. It hands `optimizer.params` as they stand to a
    second optimizer, built on torch's AdamW: they must be there, and hold only what that class takes. Adagrad and
    Lion fail at the first step.""",
    source="runtime/zenflow/zenflow_stage_1_and_2.py:81",
    bad={
        "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "adam_w_mode": True}},
        "zero_optimization": _WORKS,
    },
    good={"optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "zero_optimization": _WORKS},
)
def zenflow_optimizer(bound: Bound, context: Context) -> Iterator[Finding]:
    optimizer = bound.config.optimizer
    if _zenflow(bound) is None:
        return
    params = ("optimizer", "params")
    if getattr(bound.node(params), "value", bound.node(params)) is None:
        if bound.config.zero_stage < 3 and (optimizer is not None or context.optimizer == "client"):
            yield Finding(
                params if optimizer is not None else _PATH,
                "ZenFlow copies `optimizer.params`, and the file has none",
                "add them" if optimizer is not None else "let the file bring Adam or AdamW, or remove `zenflow`",
            )
        return
    if optimizer is None:
        return
    if not (optimizer.type == "Adam" or optimizer.type == "AdamW"):
        yield Finding(
            ("optimizer", "type"),
            f"ZenFlow works with Adam and AdamW only, not with {optimizer.type}",
            "use AdamW, or remove `zenflow`",
            at="value",
            related=(Related(_PATH, "ZenFlow is switched on here"),),
            phase="step" if optimizer.type == "Adagrad" or optimizer.type == "Lion" else None,
        )
        return
    for name in _FOREIGN:
        path = (*params, name)
        if bound.given(*path):
            yield Finding(
                path,
                f"ZenFlow's second optimizer does not take `{name}`",
                f"remove `{name}`",
                related=(Related(_PATH, "ZenFlow is switched on here"),),
                fix=remove(path, f"remove `{name}`", safe=False),
            )
