"""Rules about the loss scale of fp16."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Related
from dsconf.rules.rule import Context, Finding, remove, replace, rule

if TYPE_CHECKING:
    from dsconf.facts import Bound


@rule(
    "DS502",
    "fp16-without-zero",
    "error",
    "coerced",
    reads=("fp16.enabled", "zero_optimization.stage"),
    summary="fp16 at stage 0, where the loss is never scaled.",
    explanation="""At stage 0 `engine.backward` does not multiply the loss by the loss scale, yet the optimizer
    divides the gradients by it. Small gradients underflow, and with an optimizer such as SGD the learning rate
    is divided by the scale, 65536 at first. ZeRO stages scale the loss as they should.""",
    source="runtime/engine.py:3414",
    bad={"fp16": {"enabled": True}},
    good={"bf16": {"enabled": True}},
)
def fp16_without_zero(bound: Bound, context: Context) -> Iterator[Finding]:
    fp16 = bound.config.fp16
    if fp16 is not None and fp16.enabled and bound.config.zero_stage == 0 and fp16.loss_scale != 1:
        zero = bound.given("zero_optimization")
        yield Finding(
            ("fp16", "enabled"),
            "fp16 at ZeRO stage 0: the loss is never scaled, but gradients are divided by the loss scale",
            "set `zero_optimization.stage` to 1, or use bf16",
            at="value",
            related=(Related(("zero_optimization",), "ZeRO is off here"),) if zero else (),
        )


@rule(
    "DS504",
    "loss-scale-never-positive",
    "error",
    "refused",
    phase="parse",
    says="ValidationError: 1 validation error for DeepSpeedFP16Config Value error, fp16.loss_scale_window",
    reads=("fp16.enabled", "fp16.loss_scale"),
    summary="A dynamic loss scale with a window or a floor of zero or less.",
    explanation="""With `loss_scale` 0 the scale is dynamic: DeepSpeed divides by `loss_scale_window` and lets
    the scale fall to `min_loss_scale`, so both must be positive.""",
    source="runtime/precision_config.py:182",
    bad={"fp16": {"enabled": True, "loss_scale_window": 0}, "zero_optimization": {"stage": 1}},
    good={"fp16": {"enabled": True, "loss_scale_window": 1000}, "zero_optimization": {"stage": 1}},
)
def loss_scale_never_positive(bound: Bound, context: Context) -> Iterator[Finding]:
    fp16 = bound.config.fp16
    if fp16 is None or not fp16.enabled or fp16.loss_scale != 0:
        return
    for name in ("loss_scale_window", "min_loss_scale"):
        if getattr(fp16, name) <= 0:
            yield Finding(
                ("fp16", name),
                f"`fp16.{name}` is {getattr(fp16, name)}; a dynamic loss scale needs it above 0",
                "write a positive number, or fix the scale with `loss_scale`",
                at="value",
            )


@rule(
    "DS505",
    "hysteresis-never-refilled",
    "error",
    "coerced",
    reads=("fp16.enabled", "fp16.hysteresis", "fp16.loss_scale"),
    summary="`fp16.hysteresis` of zero or less.",
    explanation="""The counter starts below the value at which the scale is halved. After the first overflow the
    scale never falls, and every further step is skipped.""",
    source="runtime/fp16/loss_scaler.py:253",
    bad={"fp16": {"enabled": True, "hysteresis": 0}, "zero_optimization": {"stage": 1}},
    good={"fp16": {"enabled": True, "hysteresis": 2}, "zero_optimization": {"stage": 1}},
)
def hysteresis_never_refilled(bound: Bound, context: Context) -> Iterator[Finding]:
    fp16 = bound.config.fp16
    if fp16 is not None and fp16.enabled and fp16.loss_scale == 0 and fp16.hysteresis <= 0:
        yield Finding(
            ("fp16", "hysteresis"),
            f"with `hysteresis` {fp16.hysteresis} every step after the first overflow is skipped",
            "write 1 or 2",
            at="value",
        )


#: The first powers of two that torch takes for no whole number, and Python for no other number.
_TOO_BIG, _INFINITE = 64, 1024
#: What only a dynamic scale reads.
_DYNAMIC = ("initial_scale_power", "loss_scale_window", "hysteresis", "consecutive_hysteresis", "min_loss_scale")


@rule(
    "DS509",
    "loss-scale-overflows",
    "error",
    "refused",
    phase="step",
    says="OverflowError: int too big to convert",
    reads=("fp16.enabled", "fp16.loss_scale", "fp16.initial_scale_power"),
    summary="A first loss scale that does not fit a number.",
    explanation="""The dynamic scale starts as the whole number two to the power of `initial_scale_power`, which torch
    takes as a 64-bit number. From 64 on the first step fails. Smaller powers far above 16, the default, waste a
    skipped step for each time that the scale must be halved.""",
    source="runtime/precision_config.py:199",
    bad={"fp16": {"enabled": True, "initial_scale_power": 100}, "zero_optimization": {"stage": 1}},
    good={"fp16": {"enabled": True, "initial_scale_power": 16}, "zero_optimization": {"stage": 1}},
)
def loss_scale_overflows(bound: Bound, context: Context) -> Iterator[Finding]:
    fp16 = bound.config.fp16
    if fp16 is None or not fp16.enabled or fp16.loss_scale != 0:
        return
    if fp16.initial_scale_power >= (_TOO_BIG if bound.config.zero_stage > 0 else _INFINITE):
        yield Finding(
            ("fp16", "initial_scale_power"),
            f"a loss scale of 2 to the power of {fp16.initial_scale_power} does not fit the number that holds it",
            "write 16",
            at="value",
            fix=replace(("fp16", "initial_scale_power"), 16, "write 16", safe=False),
        )


@rule(
    "DS510",
    "dynamic-scale-unread",
    "warning",
    "ignored",
    reads=("fp16.enabled", "fp16.loss_scale"),
    summary="Settings of the dynamic loss scale beside a fixed one.",
    explanation="""A `loss_scale` other than 0 is the scale of every step. How a dynamic scale would start, grow and
    fall is then not read.""",
    source="runtime/fp16/loss_scaler.py:293",
    bad={"fp16": {"enabled": True, "loss_scale": 64, "initial_scale_power": 20}, "zero_optimization": {"stage": 2}},
    good={"fp16": {"enabled": True, "loss_scale": 64}, "zero_optimization": {"stage": 2}},
)
def dynamic_scale_unread(bound: Bound, context: Context) -> Iterator[Finding]:
    fp16 = bound.config.fp16
    if fp16 is None or not fp16.enabled or fp16.loss_scale == 0:
        return
    for name in _DYNAMIC:
        if name in fp16.model_fields_set:
            yield Finding(
                ("fp16", name),
                f"`{name}` has no effect: `loss_scale` {fp16.loss_scale:g} is fixed",
                "remove it, or write 0 as `loss_scale`",
                related=(Related(("fp16", "loss_scale"), "the scale is fixed here"),),
                fix=remove(("fp16", name), f"remove `{name}`"),
            )


@rule(
    "DS516",
    "large-initial-scale",
    "info",
    "advice",
    reads=("fp16.enabled", "fp16.initial_scale_power", "fp16.loss_scale"),
    summary="A first loss scale so large that training starts with skipped steps.",
    explanation="""The first scale is 2 to the power of `initial_scale_power`, 16 unless set. Gradients overflow under a
    larger one, and each overflow skips a step and halves the scale: at 32, an old default, some sixteen steps do
    nothing.""",
    source="runtime/fp16/loss_scaler.py:167",
    bad={"fp16": {"enabled": True, "initial_scale_power": 32}, "zero_optimization": {"stage": 1}},
    good={"fp16": {"enabled": True, "initial_scale_power": 16}, "zero_optimization": {"stage": 1}},
)
def large_initial_scale(bound: Bound, context: Context) -> Iterator[Finding]:
    fp16 = bound.config.fp16
    if fp16 is not None and fp16.enabled and fp16.loss_scale == 0 and 20 < fp16.initial_scale_power < 64:
        yield Finding(
            ("fp16", "initial_scale_power"),
            f"the first loss scale is 2^{fp16.initial_scale_power}; training starts with steps that are skipped",
            "write 16",
            at="value",
        )
