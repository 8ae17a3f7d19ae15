"""Rules about the optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Related
from dsconf.rules.data_types import precision
from dsconf.rules.offload import OFFLOADABLE, offload_device
from dsconf.rules.rule import Context, Finding, close_match, remove, replace, rule, show

if TYPE_CHECKING:
    from dsconf.facts import Bound

#: Names of classes and packages that people write as the type, and the type that leads to them.
_CLASSES = {
    "fusedadam": "AdamW",
    "deepspeedcpuadam": "AdamW",
    "cpuadam": "AdamW",
    "adamw_torch": "AdamW",
    "adamw8bit": "AdamW",
    "fusedlamb": "Lamb",
    "onebitadam": "AdamW",
    "zerooneadam": "AdamW",
    "onebitlamb": "Lamb",
    "deepspeedcpuadagrad": "Adagrad",
    "fusedlion": "Lion",
    "deepspeedcpulion": "Lion",
}
_ONE_BIT = ("onebitadam", "zerooneadam", "onebitlamb")


@rule(
    "DS701",
    "unknown-optimizer",
    "error",
    "refused",
    phase="initialize",
    says="AssertionError: FusedAdam is not a supported DeepSpeed Optimizer",
    summary="An optimizer that neither DeepSpeed nor torch knows.",
    explanation="""The type is one of DeepSpeed's own names, in any case (Adam, AdamW, Adagrad, Lamb, Lion,
    Muon, MuAdam, MuAdamW, MuSGD), or a class of `torch.optim` in its exact spelling. Whether Adam is the fused
    one, the CPU's or torch's, DeepSpeed decides from device and offload.""",
    source="runtime/engine.py:2016",
    bad={"optimizer": {"type": "FusedAdam", "params": {"lr": 0.001}}},
    good={"optimizer": {"type": "AdamW", "params": {"lr": 0.001}}},
)
def unknown_optimizer(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import UnknownTag

    for fact in bound.of(UnknownTag):
        if fact.path != ("optimizer", "type"):
            continue
        if not isinstance(fact.value, str):
            yield Finding(
                fact.path,
                f"`optimizer.type` is {show(fact.value)}, where the name of an optimizer is needed",
                "write AdamW, or remove `optimizer` if the script brings its own",
                at="value",
            )
            continue
        folded = fact.value.lower()
        guess = _CLASSES.get(folded) or close_match(fact.value, map(str, fact.choices))
        if folded in _ONE_BIT:
            message = f"{fact.value} was removed from DeepSpeed, with the other 1-bit optimizers"
        elif folded in _CLASSES:
            message = f"{fact.value} is the name of a class, not a type; DeepSpeed chooses the class itself"
        else:
            message = f"neither DeepSpeed nor torch.optim knows the optimizer {show(fact.value)}"
        yield Finding(
            fact.path,
            message,
            f"write {guess}"
            if guess
            else f"use one of {', '.join(OFFLOADABLE)}, Lamb, Muon, or a class of torch.optim",
            at="value",
            fix=replace(fact.path, guess, f"write {guess}", safe=False) if guess else None,
        )


@rule(
    "DS702",
    "optimizer-without-type",
    "error",
    "refused",
    phase="initialize",
    says="AssertionError: zero stage 1 requires an optimizer",
    summary="An optimizer block without `type`.",
    explanation="""Without a type DeepSpeed builds no optimizer and ignores the rest of the block. Stages 1 and
    2 then refuse to start, the others fail at the first backward pass.""",
    source="runtime/config.py:288",
    bad={"optimizer": {"params": {"lr": 0.001}}, "zero_optimization": {"stage": 1}},
    good={"optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "zero_optimization": {"stage": 1}},
)
def optimizer_without_type(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Missing

    for fact in bound.of(Missing):
        if fact.path == ("optimizer", "type"):
            yield Finding(
                fact.path,
                "`optimizer` has no `type`, so no optimizer is built",
                'add "type": "AdamW", or remove the block if the script brings its own optimizer',
            )


@rule(
    "DS706",
    "untested-optimizer",
    "error",
    "refused",
    phase="initialize",
    says="AssertionError: You are using an untested ZeRO Optimizer.",
    reads=("optimizer.type", "zero_optimization.stage", "zero_allow_untested_optimizer"),
    summary="ZeRO with an optimizer outside DeepSpeed's list.",
    explanation="""ZeRO knows Adam, AdamW, Adagrad, Lion and Muon. It refuses any other until
    `zero_allow_untested_optimizer` says that it is meant.""",
    source="runtime/engine.py:2298",
    bad={"optimizer": {"type": "SGD", "params": {"lr": 0.001}}, "zero_optimization": {"stage": 1}},
    good={
        "optimizer": {"type": "SGD", "params": {"lr": 0.001}},
        "zero_optimization": {"stage": 1},
        "zero_allow_untested_optimizer": True,
    },
)
def untested_optimizer(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    zero, optimizer = config.zero_optimization, config.optimizer
    if zero is None or zero.stage == 0 or optimizer is None or config.zero_allow_untested_optimizer:
        return
    offload = zero.offload_optimizer
    if optimizer.type in (*OFFLOADABLE, "Muon") or (offload is not None and offload.device != "none"):
        return
    yield Finding(
        ("optimizer", "type"),
        f"ZeRO refuses {optimizer.type} unless `zero_allow_untested_optimizer` is true",
        'add "zero_allow_untested_optimizer": true, or use Adam, AdamW, Adagrad, Lion or Muon',
        at="value",
        related=(Related(("zero_optimization", "stage"), "ZeRO is switched on here"),),
    )


@rule(
    "DS709",
    "muon-with-reduce-scatter",
    "error",
    "refused",
    phase="initialize",
    says="ValueError: Muon and reduce scatter cannot be used together",
    reads=("optimizer.type", "zero_optimization.stage", "zero_optimization.reduce_scatter"),
    summary="Muon under stage 3 with reduce-scatter.",
    explanation="""Muon needs whole gradients of its matrices. Under stage 3 it refuses to work with
    `reduce_scatter`, which is on by default.""",
    source="runtime/zero/stage3.py:360",
    bad={"optimizer": {"type": "Muon", "params": {"lr": 0.001}}, "zero_optimization": {"stage": 3}},
    good={
        "optimizer": {"type": "Muon", "params": {"lr": 0.001}},
        "zero_optimization": {"stage": 3, "reduce_scatter": False},
    },
)
def muon_with_reduce_scatter(bound: Bound, context: Context) -> Iterator[Finding]:
    zero, optimizer = bound.config.zero_optimization, bound.config.optimizer
    if optimizer is None or optimizer.type != "Muon" or zero is None or zero.stage != 3 or not zero.reduce_scatter:
        return
    yield Finding(
        ("optimizer", "type"),
        "under stage 3 Muon needs `reduce_scatter` off",
        'add "reduce_scatter": false to `zero_optimization`',
        at="value",
        related=(Related(("zero_optimization",), "stage 3 is chosen here"),),
    )


@rule(
    "DS710",
    "optimizer-cannot-step",
    "error",
    "refused",
    phase="step",
    says="TypeError: LBFGS.step() missing 1 required positional argument: 'closure'",
    reads=("optimizer.type",),
    summary="A torch optimizer that DeepSpeed cannot step.",
    explanation="""L-BFGS needs a closure, which DeepSpeed does not pass; SparseAdam refuses the dense gradients
    that nearly every layer has.""",
    source="runtime/engine.py:2548",
    bad={"optimizer": {"type": "LBFGS", "params": {"lr": 0.001}}},
    good={"optimizer": {"type": "NAdam", "params": {"lr": 0.001}}},
)
def optimizer_cannot_step(bound: Bound, context: Context) -> Iterator[Finding]:
    optimizer = bound.config.optimizer
    reasons = {"LBFGS": "its step needs a closure", "SparseAdam": "it takes sparse gradients only"}
    if optimizer is not None and optimizer.type in reasons:
        yield Finding(
            ("optimizer", "type"),
            f"{optimizer.type} fails at the first step: {reasons[optimizer.type]}",
            "use another optimizer",
            at="value",
        )


@rule(
    "DS711",
    "optimizer-block-unused",
    "warning",
    "ignored",
    context=Context(optimizer="client"),
    whole=True,
    mutes=True,
    summary="An optimizer block beside the script's own optimizer.",
    explanation="""An optimizer that the script passes to `deepspeed.initialize` takes the place of the one in the
    file. Nothing reads the block, and nothing in it is checked.""",
    source="runtime/engine.py:2329",
    bad={
        "train_micro_batch_size_per_gpu": 2,
        "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
    },
    good={"train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0},
)
def optimizer_block_unused(bound: Bound, context: Context) -> Iterator[Finding]:
    if context.optimizer == "client" and context.reader == "deepspeed" and bound.given("optimizer"):
        yield Finding(
            ("optimizer",),
            "the script brings its own optimizer, so nothing reads `optimizer`",
            "remove it, or do not pass an optimizer to deepspeed.initialize",
            fix=remove(("optimizer",), "remove `optimizer`"),
        )


@rule(
    "DS712",
    "optimizer-absent",
    "error",
    "refused",
    phase="initialize",
    says="AssertionError: zero stage 1 requires an optimizer",
    reads=("zero_optimization.stage",),
    context=Context(optimizer="none"),
    whole=True,
    summary="No optimizer at all.",
    explanation="""Stages 1 and 2 shard the states of an optimizer and refuse to start without one. At the other
    stages the engine can run a model forward, which is all that inference needs, and fails at the first backward
    pass.""",
    source="runtime/engine.py:2659",
    bad={"train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0, "zero_optimization": {"stage": 1}},
    good={
        "train_micro_batch_size_per_gpu": 2,
        "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
        "zero_optimization": {"stage": 1},
    },
)
def optimizer_absent(bound: Bound, context: Context) -> Iterator[Finding]:
    if context.optimizer != "none" or bound.given("optimizer"):
        return
    stage = bound.config.zero_stage
    sharded = stage == 1 or stage == 2
    yield Finding(
        ("zero_optimization", "stage") if sharded else ("optimizer",),
        f"stage {stage} needs an optimizer, and nobody brings one"
        if sharded
        else "nobody brings an optimizer, so this is for inference only; a backward pass fails",
        'add "optimizer", or set `zero_optimization.stage` to 0 or 3 for inference' if sharded else 'add "optimizer"',
        at="value",
        severity=None if sharded else "warning",
        phase=None if sharded else "step",
    )


@rule(
    "DS715",
    "muon-buffer-unread",
    "warning",
    "ignored",
    reads=("optimizer.type", "zero_optimization.stage", "zero_optimization.save_muon_momentum_buffer_in_memory"),
    summary="`save_muon_momentum_buffer_in_memory` with another optimizer than Muon.",
    explanation="""The key says where Muon's momentum is kept. No other optimizer has one there.""",
    source="runtime/zero/stage3.py:417",
    bad={"zero_optimization": {"stage": 3, "save_muon_momentum_buffer_in_memory": True}},
    good={
        "optimizer": {"type": "Muon", "params": {"lr": 0.001}},
        "zero_optimization": {"stage": 3, "reduce_scatter": False, "save_muon_momentum_buffer_in_memory": True},
    },
)
def muon_buffer_unread(bound: Bound, context: Context) -> Iterator[Finding]:
    zero, optimizer = bound.config.zero_optimization, bound.config.optimizer
    path = ("zero_optimization", "save_muon_momentum_buffer_in_memory")
    if zero is None or zero.stage != 3 or optimizer is None or optimizer.type == "Muon":
        return
    if zero.save_muon_momentum_buffer_in_memory:
        yield Finding(
            path,
            f"`{path[1]}` has no effect: the optimizer is {optimizer.type}",
            "remove it",
            related=(Related(("optimizer", "type"), "the optimizer is chosen here"),),
            fix=remove(path, "remove it"),
        )


@rule(
    "DS716",
    "legacy-fusion-unread",
    "warning",
    "ignored",
    reads=("optimizer.type", "optimizer.legacy_fusion", "zero_optimization.stage", "fp16.enabled", "bf16.enabled"),
    summary="`legacy_fusion`, which does nothing or harm.",
    explanation="""Only 16-bit training at stage 0 with DeepSpeed's fused Adam reads it, and there the first step
    fails: the fused Adam no longer takes what the old wrapper passes.""",
    source="runtime/engine.py:2589",
    bad={"optimizer": {"type": "AdamW", "params": {"lr": 0.001}, "legacy_fusion": True}},
    good={"optimizer": {"type": "AdamW", "params": {"lr": 0.001}}},
)
def legacy_fusion_unread(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    optimizer = config.optimizer
    if optimizer is None or not optimizer.legacy_fusion:
        return
    path = ("optimizer", "legacy_fusion")
    fused = (optimizer.type == "Adam" or optimizer.type == "AdamW") and not (
        optimizer.params is not None and optimizer.params.torch_adam
    )
    if fused and config.zero_stage == 0 and precision(config) != "fp32" and offload_device(bound) is None:
        yield Finding(
            path,
            "`legacy_fusion` makes the first step fail: the fused Adam does not work with the old wrapper",
            "remove it",
            severity="error",
            effect="refused",
            phase="step",
        )
    else:
        yield Finding(path, "nothing reads `legacy_fusion` here", "remove it", fix=remove(path, "remove it"))
