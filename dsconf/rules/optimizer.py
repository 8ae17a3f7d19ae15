"""Rules about the optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Related
from dsconf.rules.offload import OFFLOADABLE
from dsconf.rules.rule import Context, Finding, close_match, move, remove, replace, rule, show

if TYPE_CHECKING:
    from dsconf.bind import Bound
    from dsconf.models.block import Block

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
    summary="An optimizer that neither DeepSpeed nor torch knows.",
    explanation="""The type is one of DeepSpeed's own names, in any case (Adam, AdamW, Adagrad, Lamb, Lion,
    Muon, MuAdam, MuAdamW, MuSGD), or a class of `torch.optim` in its exact spelling. Whether Adam is the fused
    one, the CPU's or torch's, DeepSpeed decides from device and offload.""",
    source="runtime/engine.py:2016",
    bad={"optimizer": {"type": "FusedAdam", "params": {"lr": 0.001}}},
    good={"optimizer": {"type": "AdamW", "params": {"lr": 0.001}}},
)
def unknown_optimizer(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.bind import UnknownTag

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
    summary="An optimizer block without `type`.",
    explanation="""Without a type DeepSpeed builds no optimizer and ignores the rest of the block. Stages 1 and
    2 then refuse to start, the others fail at the first backward pass.""",
    source="runtime/config.py:288",
    bad={"optimizer": {"params": {"lr": 0.001}}, "zero_optimization": {"stage": 1}},
    good={"optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "zero_optimization": {"stage": 1}},
)
def optimizer_without_type(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.bind import Missing

    for fact in bound.of(Missing):
        if fact.path == ("optimizer", "type"):
            yield Finding(
                fact.path,
                "`optimizer` has no `type`, so no optimizer is built",
                'add "type": "AdamW", or remove the block if the script brings its own optimizer',
            )


@rule(
    "DS703",
    "unknown-optimizer-parameter",
    "error",
    "refused",
    phase="initialize",
    summary="A parameter that the optimizer does not take.",
    explanation="""`params` become the keyword arguments of the optimizer's class. It raises a TypeError on a
    name that it does not know, when the engine is built.""",
    source="runtime/engine.py:2493",
    bad={"optimizer": {"type": "AdamW", "params": {"lr": 0.001, "beta": [0.9, 0.999]}}},
    good={"optimizer": {"type": "AdamW", "params": {"lr": 0.001, "betas": [0.9, 0.999]}}},
)
def unknown_optimizer_parameter(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.bind import Unknown

    optimizer = bound.config.optimizer
    for fact in bound.of(Unknown):
        if fact.path[:2] != ("optimizer", "params") or fact.path[-1] == "max_grad_norm" or optimizer is None:
            continue
        name = str(fact.path[-1])
        guess = close_match(name, fact.block.model_fields)
        refused = fact.block.reader == "kwargs"
        free = guess is not None and not bound.given(*fact.path[:-1], guess)
        yield Finding(
            fact.path,
            f"{optimizer.type} has no parameter `{name}`" + ("" if refused else "; DeepSpeed drops it"),
            f"did you mean `{guess}`?" if guess else "remove it",
            fix=move(fact.path, (*fact.path[:-1], guess), f"rename it to `{guess}`") if guess and free else None,
            effect=None if refused else "ignored",
        )


@rule(
    "DS704",
    "learning-rate-absent",
    "warning",
    "advice",
    reads=("optimizer.type", "optimizer.params"),
    summary="An optimizer without `params.lr`.",
    explanation="""The optimizer then uses its own default, 0.001 for Adam, which is rarely the learning rate
    that was meant.""",
    source="ops/adam/fused_adam.py:75",
    bad={"optimizer": {"type": "AdamW", "params": {"weight_decay": 0.1}}},
    good={"optimizer": {"type": "AdamW", "params": {"lr": 0.0003, "weight_decay": 0.1}}},
)
def learning_rate_absent(bound: Bound, context: Context) -> Iterator[Finding]:
    optimizer = bound.config.optimizer
    if optimizer is None or bound.given("optimizer", "params", "lr"):
        return
    if bound.given("optimizer", "params", "muon_lr") and bound.given("optimizer", "params", "adam_lr"):
        return
    default = _params_of(optimizer).model_fields["lr"].default
    if optimizer.type == "Muon":
        default = "0.02 for matrices and 0.001 for the rest"
    yield Finding(
        ("optimizer", "params", "lr"),
        f"no learning rate is set; {optimizer.type} uses {default}",
        'add "lr" to `optimizer.params`',
    )


def _params_of(optimizer: Block) -> type[Block]:
    from dsconf.bind import shape

    return shape(type(optimizer), "params").blocks[0]


@rule(
    "DS705",
    "max-grad-norm",
    "error",
    "refused",
    phase="initialize",
    summary="`max_grad_norm` among the optimizer's parameters.",
    explanation="""Clipping is the engine's work, not the optimizer's: it is set by `gradient_clipping` at the
    top level. DeepSpeed refuses the old place.""",
    source="runtime/engine.py:2481",
    bad={"optimizer": {"type": "AdamW", "params": {"lr": 0.001, "max_grad_norm": 1.0}}},
    good={"gradient_clipping": 1.0, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}},
)
def max_grad_norm(bound: Bound, context: Context) -> Iterator[Finding]:
    path = ("optimizer", "params", "max_grad_norm")
    if bound.given(*path):
        there = bound.given("gradient_clipping")
        fix = remove(path, "remove it") if there else move(path, ("gradient_clipping",), "move it to the top level")
        yield Finding(
            path,
            "`max_grad_norm` is not a parameter of the optimizer; DeepSpeed refuses it",
            "remove it: `gradient_clipping` is set already" if there else "write `gradient_clipping` at the top level",
            related=(Related(("gradient_clipping",), "clipping is set here"),) if there else (),
            fix=fix,
        )


@rule(
    "DS706",
    "untested-optimizer",
    "error",
    "refused",
    phase="initialize",
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
    "DS707",
    "adam-w-mode-ignored",
    "warning",
    "ignored",
    reads=("optimizer.type", "optimizer.params.adam_w_mode"),
    summary="`adam_w_mode: false` with AdamW.",
    explanation="""The type AdamW always decouples weight decay. Plain L2 decay needs the type Adam, which
    itself decouples it unless `adam_w_mode` is false.""",
    source="runtime/engine.py:2487",
    bad={"optimizer": {"type": "AdamW", "params": {"lr": 0.001, "adam_w_mode": False}}},
    good={"optimizer": {"type": "Adam", "params": {"lr": 0.001, "adam_w_mode": False}}},
)
def adam_w_mode_ignored(bound: Bound, context: Context) -> Iterator[Finding]:
    optimizer = bound.config.optimizer
    if optimizer is not None and optimizer.type == "AdamW" and optimizer.params and not optimizer.params.adam_w_mode:
        yield Finding(
            ("optimizer", "params", "adam_w_mode"),
            "AdamW decouples weight decay whatever `adam_w_mode` says",
            "use the type Adam for L2 weight decay, or remove `adam_w_mode`",
        )


@rule(
    "DS708",
    "amsgrad-not-implemented",
    "error",
    "refused",
    phase="initialize",
    reads=("optimizer.type", "optimizer.params.amsgrad", "optimizer.params.torch_adam"),
    summary="AMSGrad with DeepSpeed's Adam.",
    explanation="""DeepSpeed's fused and CPU Adam have no AMSGrad variant and raise. torch's Adam has one.""",
    source="ops/adam/fused_adam.py:87",
    bad={"optimizer": {"type": "AdamW", "params": {"lr": 0.001, "amsgrad": True}}},
    good={"optimizer": {"type": "AdamW", "params": {"lr": 0.001, "amsgrad": True, "torch_adam": True}}},
)
def amsgrad_not_implemented(bound: Bound, context: Context) -> Iterator[Finding]:
    optimizer = bound.config.optimizer
    if optimizer is None or not (optimizer.type == "Adam" or optimizer.type == "AdamW" or optimizer.type == "Lamb"):
        return
    params = optimizer.params
    if params is not None and params.amsgrad and not getattr(params, "torch_adam", False):
        yield Finding(
            ("optimizer", "params", "amsgrad"),
            f"DeepSpeed's {optimizer.type} has no AMSGrad variant",
            "remove `amsgrad`" + ("" if optimizer.type == "Lamb" else ', or add "torch_adam": true'),
        )


@rule(
    "DS709",
    "muon-with-reduce-scatter",
    "error",
    "refused",
    phase="initialize",
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
