"""Rules about moving parameters and optimizer states off the accelerator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from dsconf.diagnostic import Related
from dsconf.rules.rule import Context, Finding, remove, rule, show
from dsconf.rules.zero import stage_of

if TYPE_CHECKING:
    from dsconf.facts import Bound

_OFFLOADS = ("offload_optimizer", "offload_param")


def offload_device(bound: Bound) -> str | None:
    """Where the file wants the optimizer, even at a stage that does not move it there; None: on the accelerator."""
    offload = getattr(bound.config.zero_optimization, "offload_optimizer", None)
    device = offload.device if offload is not None else None
    if device is None:
        device = getattr(bound.node(("zero_optimization", "offload_optimizer", "device")), "value", None)
    return device if device in ("cpu", "nvme") else None


def swaps_to_nvme(bound: Bound) -> bool:
    """Whether something is offloaded to a drive."""
    zero = bound.config.zero_optimization
    offloads = (getattr(zero, name, None) for name in ("offload_param", "offload_optimizer"))
    return any(offload is not None and offload.device == "nvme" for offload in offloads)


def _is_offloading(value: object) -> bool:
    return isinstance(value, dict) and cast("dict[str, Any]", value).get("device", "none") != "none"


@rule(
    "DS401",
    "offload-param-below-stage-3",
    "error",
    "ignored",
    block=True,
    summary="Parameter offload below stage 3.",
    explanation="""Below stage 3 every rank needs its whole copy of the parameters all the time, so DeepSpeed
    never looks at `offload_param` and the parameters stay on the accelerator.""",
    source="runtime/engine.py:2670",
    bad={"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}},
    good={"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}},
)
def offload_param_below_stage_3(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Misfit, Old

    found = [(fact.path, fact.block, fact.value) for fact in bound.of(Misfit) if fact.path[-1] == "offload_param"]
    old = {fact.path for fact in bound.of(Old)}
    found += [
        (fact.path, fact.block, {"device": "cpu"})
        for fact in bound.of(Misfit)
        if fact.path[-1] == "cpu_offload_param" and fact.path in old
    ]
    for path, block, value in found:
        stage = stage_of(block)
        yield Finding(
            path,
            f"parameters are not offloaded at stage {stage}; only stage 3 reads `{path[-1]}`",
            "set `stage` to 3, or remove it and offload the optimizer with `offload_optimizer`",
            related=(Related((*path[:-1], "stage"), "the stage is set here"),),
            fix=remove(path, f"remove `{path[-1]}`"),
            severity=None if _is_offloading(value) else "warning",
        )


@rule(
    "DS402",
    "offload-optimizer-at-stage-0",
    "error",
    "ignored",
    block=True,
    summary="Optimizer offload while ZeRO is off.",
    explanation="""At stage 0 nothing is offloaded. DeepSpeed still picks its CPU optimizer, and refuses a
    client optimizer, so the block only does harm.""",
    source="runtime/engine.py:1562",
    bad={"zero_optimization": {"stage": 0, "offload_optimizer": {"device": "cpu"}}},
    good={"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}}},
)
def offload_optimizer_at_stage_0(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Misfit

    for fact in bound.of(Misfit):
        if fact.path[-1] in ("offload_optimizer", "cpu_offload") and stage_of(fact.block) == 0:
            yield Finding(
                fact.path,
                "the optimizer is not offloaded while ZeRO is off (stage 0)",
                "set `stage` to 1, 2 or 3, or remove it",
                related=(Related((*fact.path[:-1], "stage"), "the stage is set here"),)
                if bound.given(*fact.path[:-1], "stage")
                else (),
                severity=None if _is_offloading(fact.value) or fact.value is True else "warning",
            )


@rule(
    "DS405",
    "option-of-another-device",
    "warning",
    "ignored",
    block=True,
    summary="An offload setting that its device does not read.",
    explanation="""Buffers, pipelining and paths belong to NVMe; most of the rest to an offload that is switched
    on. The engine never looks at them otherwise.""",
    source="runtime/zero/stage3.py:448",
    bad={"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "buffer_count": 8}}},
    good={"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}},
)
def option_of_another_device(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Misfit

    for fact in bound.of(Misfit):
        if fact.block.tag != "device" or fact.path[-1] == "ratio":
            continue
        device = fact.block.tag_value
        parent = fact.path[:-1]
        unset = device == "none" and not bound.given(*parent, "device")
        readers = sorted({item.tag_value for item in fact.siblings})
        name = fact.path[-1]
        yield Finding(
            fact.path,
            f"`{name}` has no effect: no `device` is set, so nothing is offloaded"
            if unset
            else f"`{name}` has no effect with `device: {device}`; {_reads(readers)}",
            f'add "device": "{readers[0]}", or remove it' if unset else "remove it",
            severity="error" if unset else None,
            fix=None if unset else remove(fact.path, f"remove `{name}`"),
        )


def _reads(devices: list[str]) -> str:
    return f"{devices[0]} reads it" if len(devices) == 1 else f"{' and '.join(devices)} read it"


@rule(
    "DS406",
    "nvme-option-below-stage-3",
    "warning",
    "ignored",
    block=True,
    summary="An offload setting that only stage 3 reads, at stage 1 or 2.",
    explanation="""Stages 1 and 2 look at `device` and `pin_memory` only. A `ratio` below 1 they refuse.""",
    source="runtime/zero/stage_1_and_2.py:220",
    bad={"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "cpuadam_cores_perc": 0.5}}},
    good={"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}},
)
def nvme_option_below_stage_3(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.blocks import block_type
    from dsconf.facts import Misfit, Unknown

    later = {**block_type("CpuOptimizerOffload3").keys, **block_type("NvmeOptimizerOffload").keys}
    facts = [*bound.of(Unknown), *(fact for fact in bound.of(Misfit) if fact.path[-1] == "ratio")]
    for fact in facts:
        name = str(fact.path[-1])
        if fact.block.tag != "device" or name not in later or fact.path[-2:-1] == ("offload_param",):
            continue
        node = bound.node(fact.path)
        value = getattr(node, "value", None)
        below = isinstance(fact, Unknown)
        # With Pydantic 1 DeepSpeed's own check never came to bear.
        checked = below and not fact.block.pydantic_1
        if name == "ratio" and checked and isinstance(value, (int, float)) and value < 1:
            yield Finding(
                fact.path,
                f"`ratio: {show(value)}` is refused below stage 3, which cannot offload a part",
                "set `stage` to 3, or remove it",
                severity="error",
                effect="refused",
                phase="parse",
            )
        else:
            yield Finding(
                fact.path,
                f"`{name}` has no effect " + ("below stage 3" if below else "while nothing is offloaded"),
                "set `stage` to 3, or remove it" if below else "remove it",
                fix=remove(fact.path, f"remove `{name}`"),
            )


#: Optimizers whose step DeepSpeed runs on the CPU with code of its own.
OFFLOADABLE = ("Adam", "AdamW", "Adagrad", "Lion")


@rule(
    "DS407",
    "optimizer-not-offloadable",
    "error",
    "refused",
    phase="initialize",
    says="AssertionError: You are using an untested ZeRO Optimizer.",
    reads=("zero_optimization.stage", "zero_optimization.offload_optimizer", "optimizer.type"),
    summary="Optimizer offload with an optimizer that has no CPU version.",
    explanation="""DeepSpeed has CPU versions of Adam, AdamW, Adagrad and Lion. Lamb exists on GPUs only and
    cannot step offloaded states. Others step through torch, slowly, and only with
    `zero_allow_untested_optimizer`.""",
    source="runtime/engine.py:2501",
    bad={
        "optimizer": {"type": "SGD", "params": {"lr": 0.001}},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
    },
    good={
        "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
    },
)
def optimizer_not_offloadable(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    zero, optimizer = config.zero_optimization, config.optimizer
    if zero is None or zero.stage == 0 or zero.offload_optimizer is None or optimizer is None:
        return
    if zero.offload_optimizer.device == "none" or optimizer.type in (*OFFLOADABLE, "Muon"):
        return
    related = (Related(("zero_optimization", "offload_optimizer"), "the optimizer is offloaded here"),)
    if optimizer.type != "Lamb" and config.zero_allow_untested_optimizer:
        yield Finding(
            ("optimizer", "type"),
            f"{optimizer.type} has no CPU version of DeepSpeed's; its step on the host is slow",
            f"use one of {', '.join(OFFLOADABLE)}",
            at="value",
            related=related,
            severity="warning",
            effect="advice",
        )
        return
    yield Finding(
        ("optimizer", "type"),
        f"{optimizer.type} cannot be offloaded: DeepSpeed has no CPU version of it",
        f"use one of {', '.join(OFFLOADABLE)}, or remove `offload_optimizer`",
        at="value",
        related=related,
    )


@rule(
    "DS408",
    "partial-offload-needs-adam",
    "error",
    "refused",
    phase="initialize",
    says="AssertionError: Hybrid Optimizer Only Supports DeepSpeedCPUAdam",
    reads=("zero_optimization.offload_optimizer", "optimizer.type"),
    summary="Partial offload with an optimizer other than Adam.",
    explanation="""A `ratio` below 1 splits the step between CPU and accelerator, which only DeepSpeed's CPU
    Adam does.""",
    source="runtime/zero/stage3.py:316",
    bad={
        "optimizer": {"type": "Adagrad", "params": {"lr": 0.001}},
        "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.5}},
    },
    good={
        "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
        "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.5}},
    },
)
def partial_offload_needs_adam(bound: Bound, context: Context) -> Iterator[Finding]:
    zero, optimizer = bound.config.zero_optimization, bound.config.optimizer
    offload = zero.offload_optimizer if zero is not None and zero.stage == 3 else None
    ratio = getattr(offload, "ratio", 1.0)
    if optimizer is not None and ratio < 1 and optimizer.type not in ("Adam", "AdamW"):
        yield Finding(
            ("zero_optimization", "offload_optimizer", "ratio"),
            f"`ratio: {ratio:g}` needs Adam or AdamW; the optimizer is {optimizer.type}",
            "remove `ratio`, or use Adam or AdamW",
            related=(Related(("optimizer", "type"), "the optimizer is chosen here"),),
        )


@rule(
    "DS411",
    "offload-without-device",
    "warning",
    "ignored",
    reads=("zero_optimization.stage",),
    summary="An empty offload block.",
    explanation="""`device` is `none` unless it is written, so an empty `offload_optimizer` or `offload_param`
    offloads nothing.""",
    source="runtime/zero/offload_config.py:58",
    bad={"zero_optimization": {"stage": 2, "offload_optimizer": {}}},
    good={"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}},
)
def offload_without_device(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.source import Object

    for name in _OFFLOADS:
        path = ("zero_optimization", name)
        node = bound.node(path)
        block = getattr(bound.config.zero_optimization, name, None)
        if block is not None and isinstance(node, Object) and not node.members:
            yield Finding(
                path,
                f"`{name}` has no `device`, so nothing is offloaded",
                'add "device": "cpu", or remove it',
                fix=remove(path, f"remove `{name}`"),
            )


@rule(
    "DS412",
    "client-optimizer-offload",
    "error",
    "refused",
    phase="initialize",
    says="ZeRORuntimeException: You are using ZeRO-Offload with a client provided optimizer (<class",
    reads=("zero_optimization.offload_optimizer", "zero_force_ds_cpu_optimizer"),
    context=Context(optimizer="client"),
    whole=True,
    summary="Optimizer offload with an optimizer of the script's own.",
    explanation="""DeepSpeed offloads the states of DeepSpeedCPUAdam and DeepSpeedCPULion. It refuses any other
    optimizer that a script passes to `deepspeed.initialize`, at every stage, unless
    `zero_force_ds_cpu_optimizer` is false; then it steps on the host, slowly.""",
    source="runtime/engine.py:2346",
    bad={
        "train_micro_batch_size_per_gpu": 2,
        "gradient_clipping": 1.0,
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
    },
    good={
        "train_micro_batch_size_per_gpu": 2,
        "gradient_clipping": 1.0,
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
    },
)
def client_optimizer_offload(bound: Bound, context: Context) -> Iterator[Finding]:
    path = ("zero_optimization", "offload_optimizer")
    if offload_device(bound) is None or not bound.config.zero_force_ds_cpu_optimizer:
        return
    if context.optimizer == "client":
        yield Finding(
            path,
            "the script's own optimizer cannot be offloaded, unless it is DeepSpeedCPUAdam or DeepSpeedCPULion",
            'write `optimizer` in the file, or add "zero_force_ds_cpu_optimizer": false',
        )
    elif context.optimizer is None and context.reader == "deepspeed" and not bound.given("optimizer"):
        yield Finding(
            path,
            "no `optimizer` is in the file; whether one can be offloaded depends on who brings it",
            "write `optimizer`, or tell dsconf that the script brings its own",
            severity="info",
            effect="advice",
        )


@rule(
    "DS413",
    "super-offload-cores-unread",
    "warning",
    "ignored",
    reads=("zero_optimization.offload_optimizer",),
    summary="`cpuadam_cores_perc` without `super_offload`.",
    explanation="""The share of CPU cores for the optimizer step is read by SuperOffload only. The plain CPU Adam uses
    the threads that OMP_NUM_THREADS gives it.""",
    source="runtime/superoffload/superoffload_stage3.py:57",
    bad={"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "cpuadam_cores_perc": 0.5}}},
    good={"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}},
)
def super_offload_cores_unread(bound: Bound, context: Context) -> Iterator[Finding]:
    zero = bound.config.zero_optimization
    offload = zero.offload_optimizer if zero is not None and zero.stage == 3 else None
    path = ("zero_optimization", "offload_optimizer", "cpuadam_cores_perc")
    if offload is None or offload.device != "cpu" or offload.super_offload:
        return
    if "cpuadam_cores_perc" in offload.model_fields_set:
        yield Finding(
            path,
            "`cpuadam_cores_perc` has no effect without `super_offload`",
            "remove it; OMP_NUM_THREADS sets the threads of the CPU Adam",
            fix=remove(path, "remove it"),
        )
