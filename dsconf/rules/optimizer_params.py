"""Rules about the optimizer's parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Related
from dsconf.rules.offload import offload_device
from dsconf.rules.rule import Context, Finding, close_match, move, remove, rule

if TYPE_CHECKING:
    from dsconf.blocks import BlockType
    from dsconf.facts import Bound
    from dsconf.models.block import Block


@rule(
    "DS703",
    "unknown-optimizer-parameter",
    "error",
    "refused",
    phase="initialize",
    says="TypeError: FusedAdam.__init__() got an unexpected keyword argument 'beta'",
    summary="A parameter that the optimizer does not take.",
    explanation="""`params` become the keyword arguments of the optimizer's class. It raises a TypeError on a
    name that it does not know, when the engine is built.""",
    source="runtime/engine.py:2493",
    bad={"optimizer": {"type": "AdamW", "params": {"lr": 0.001, "beta": [0.9, 0.999]}}},
    good={"optimizer": {"type": "AdamW", "params": {"lr": 0.001, "betas": [0.9, 0.999]}}},
)
def unknown_optimizer_parameter(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Unknown

    optimizer = bound.config.optimizer
    for fact in bound.of(Unknown):
        if fact.path[:2] != ("optimizer", "params") or fact.path[-1] == "max_grad_norm" or optimizer is None:
            continue
        name = str(fact.path[-1])
        guess = close_match(name, fact.block.keys)
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
    default = _params_of(optimizer).keys["lr"].default
    if optimizer.type == "Muon":
        default = "0.02 for matrices and 0.001 for the rest"
    yield Finding(
        ("optimizer", "params", "lr"),
        f"no learning rate is set; {optimizer.type} uses {default}",
        'add "lr" to `optimizer.params`',
    )


def _params_of(optimizer: Block) -> BlockType:
    from dsconf.blocks import block_type
    from dsconf.facts import type_of

    return block_type(type_of(optimizer).keys["params"].blocks[0])


@rule(
    "DS705",
    "max-grad-norm",
    "error",
    "refused",
    phase="initialize",
    says="ValueError: 'max_grad_norm' is not supported as an optimizer parameter, please switch to using the",
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
    says="RuntimeError: FusedAdam does not support the AMSGrad variant.",
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


_TORCH_ONLY = ("foreach", "maximize", "capturable", "differentiable", "fused")


def _class_of(bound: Bound) -> tuple[str, tuple[str, ...]]:
    """The class behind the type, in words, and the parameters of the type's other classes."""
    optimizer = bound.config.optimizer
    offloaded = offload_device(bound) is not None
    if optimizer is None:
        return "", ()
    if optimizer.type == "Adam" or optimizer.type == "AdamW":
        if optimizer.params is not None and optimizer.params.torch_adam:
            return f"torch's {optimizer.type}", ("bias_correction", "set_grad_none")
        if offloaded:
            return "DeepSpeed's CPU Adam", ("set_grad_none", *_TORCH_ONLY)
        return "DeepSpeed's fused Adam", _TORCH_ONLY
    if optimizer.type == "Adagrad":
        if offloaded:
            return "DeepSpeed's CPU Adagrad", ("lr_decay", "initial_accumulator_value", *_TORCH_ONLY)
        return "torch's Adagrad", ("amsgrad", "fp32_optimizer_states")
    if optimizer.type == "Lion":
        if offloaded:
            return "DeepSpeed's CPU Lion", ("set_grad_none",)
        return "DeepSpeed's fused Lion", ("fp32_optimizer_states",)
    return "", ()


@rule(
    "DS713",
    "parameter-of-another-class",
    "error",
    "refused",
    phase="initialize",
    says="TypeError: FusedAdam.__init__() got an unexpected keyword argument 'foreach'",
    reads=("optimizer.type", "optimizer.params.torch_adam", "zero_optimization.offload_optimizer"),
    summary="A parameter of another class behind the same type.",
    explanation="""DeepSpeed has several classes behind Adam, AdamW, Adagrad and Lion: one on the accelerator, one for
    an offloaded optimizer, and torch's, which `torch_adam` asks for. They take different parameters, and raise a
    TypeError on those of the others.""",
    source="runtime/engine.py:2493",
    bad={"optimizer": {"type": "AdamW", "params": {"lr": 0.001, "foreach": True}}},
    good={"optimizer": {"type": "AdamW", "params": {"lr": 0.001, "foreach": True, "torch_adam": True}}},
)
def parameter_of_another_class(bound: Bound, context: Context) -> Iterator[Finding]:
    title, foreign = _class_of(bound)
    for name in foreign:
        path = ("optimizer", "params", name)
        if bound.given(*path):
            adam = name in _TORCH_ONLY and title.endswith("Adam")
            yield Finding(
                path,
                f"{title}, which is used here, has no parameter `{name}`",
                "remove it" + (', or add "torch_adam": true' if adam else ""),
                fix=remove(path, f"remove `{name}`", safe=False),
            )


@rule(
    "DS714",
    "negative-learning-rate",
    "error",
    "advice",
    reads=("optimizer.type", "optimizer.params"),
    summary="A learning rate below zero.",
    explanation="""DeepSpeed's own optimizers do not look at the sign: the weights move so that the loss grows.
    torch's classes refuse it.""",
    source="ops/adam/fused_adam.py:89",
    bad={"optimizer": {"type": "AdamW", "params": {"lr": -0.001}}},
    good={"optimizer": {"type": "AdamW", "params": {"lr": 0.001}}},
)
def negative_learning_rate(bound: Bound, context: Context) -> Iterator[Finding]:
    optimizer = bound.config.optimizer
    if optimizer is None or optimizer.params is None:
        return
    torch = _class_of(bound)[0].startswith("torch's")
    for name in ("lr", "muon_lr", "adam_lr"):
        value = getattr(optimizer.params, name, None)
        if value is not None and value < 0:
            yield Finding(
                ("optimizer", "params", name),
                f"`{name}` is {value:g}; " + ("torch refuses it" if torch else "the loss would grow"),
                f"write {-value:g}",
                at="value",
                effect="refused" if torch else None,
                phase="initialize" if torch else None,
            )


@rule(
    "DS717",
    "fp32-states-unread",
    "warning",
    "ignored",
    reads=("optimizer.type", "optimizer.params.torch_adam", "zero_optimization.offload_optimizer"),
    summary="`fp32_optimizer_states` without DeepSpeed's CPU optimizer.",
    explanation="""The key chooses the type of the states of DeepSpeed's CPU optimizers, which are used when the
    optimizer is offloaded. On the accelerator, and with `torch_adam`, Adam does not look at it.""",
    source="runtime/engine.py:2379",
    bad={"optimizer": {"type": "AdamW", "params": {"lr": 0.001, "fp32_optimizer_states": False}}},
    good={
        "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "fp32_optimizer_states": False}},
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
    },
)
def fp32_states_unread(bound: Bound, context: Context) -> Iterator[Finding]:
    optimizer = bound.config.optimizer
    if optimizer is None or not (optimizer.type == "Adam" or optimizer.type == "AdamW" or optimizer.type == "Muon"):
        return
    torch = optimizer.params is not None and optimizer.params.torch_adam
    path = ("optimizer", "params", "fp32_optimizer_states")
    if bound.given(*path) and (torch or offload_device(bound) is None):
        yield Finding(
            path,
            "`fp32_optimizer_states` has no effect: "
            + ("`torch_adam` is on" if torch else "the optimizer is not offloaded"),
            "remove it",
            fix=remove(path, "remove it"),
        )
