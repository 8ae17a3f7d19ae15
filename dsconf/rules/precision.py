"""Rules about fp16, bf16 and autocast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Related
from dsconf.rules.rule import Context, Finding, rule, show

if TYPE_CHECKING:
    from dsconf.bind import Bound


@rule(
    "DS501",
    "fp16-with-bf16",
    "error",
    "refused",
    phase="parse",
    reads=("fp16.enabled", "bf16.enabled"),
    summary="fp16 and bf16 both switched on.",
    explanation="""A model trains in one of the two.""",
    source="runtime/config.py:511",
    bad={"fp16": {"enabled": True}, "bf16": {"enabled": True}, "zero_optimization": {"stage": 1}},
    good={"bf16": {"enabled": True}, "zero_optimization": {"stage": 1}},
)
def fp16_with_bf16(bound: Bound, context: Context) -> Iterator[Finding]:
    fp16, bf16 = bound.config.fp16, bound.config.bf16
    if fp16 is not None and bf16 is not None and fp16.enabled and bf16.enabled:
        yield Finding(
            ("fp16", "enabled"),
            "fp16 and bf16 are both on; DeepSpeed refuses the two together",
            "keep bf16 where the hardware has it (NVIDIA Ampere and later), else fp16",
            at="value",
            related=(Related(("bf16", "enabled"), "bf16 is switched on here"),),
        )


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
    "DS503",
    "precision-not-enabled",
    "warning",
    "ignored",
    reads=("fp16.enabled", "bf16.enabled"),
    summary="A precision block without `enabled`.",
    explanation="""`enabled` is false unless it is written, so the other settings of the block do nothing and
    the model trains in fp32.""",
    source="runtime/precision_config.py:105",
    bad={"fp16": {"initial_scale_power": 12}},
    good={"bf16": {"enabled": True}},
)
def precision_not_enabled(bound: Bound, context: Context) -> Iterator[Finding]:
    for name in ("fp16", "bf16"):
        block = getattr(bound.config, name)
        auto = bound.given(name, "enabled")
        if block is not None and block.model_fields_set and not auto:
            yield Finding(
                (name,),
                f"`{name}` has settings but no `enabled`, so it is off and the model trains in fp32",
                f'add "enabled": true, or remove `{name}`',
            )


@rule(
    "DS504",
    "loss-scale-never-positive",
    "error",
    "refused",
    phase="parse",
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


@rule(
    "DS506",
    "master-weights-without-zero",
    "error",
    "refused",
    phase="parse",
    reads=("fp16", "bf16", "zero_optimization.stage"),
    summary="16-bit master weights or optimizer states without what they need.",
    explanation="""16-bit master weights exist under ZeRO stages 1 to 3 only, and 16-bit optimizer states only
    with 16-bit master weights.""",
    source="runtime/config.py:702",
    bad={"bf16": {"enabled": True, "bf16_master_weights_and_grads": True}},
    good={
        "bf16": {"enabled": True, "bf16_master_weights_and_grads": True, "bf16_optimizer_states": True},
        "zero_optimization": {"stage": 2},
    },
)
def master_weights_without_zero(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    fp16, bf16 = config.fp16, config.bf16
    switches = (
        ("fp16", "fp16_master_weights_and_grads", fp16 is not None and fp16.fp16_master_weights_and_grads),
        ("bf16", "bf16_master_weights_and_grads", bf16 is not None and bf16.bf16_master_weights_and_grads),
        ("bf16", "bf16_optimizer_states", bf16 is not None and bf16.bf16_optimizer_states),
    )
    for block, name, on in switches:
        if on and config.zero_stage == 0:
            yield Finding(
                (block, name),
                f"`{name}` needs ZeRO, which is off",
                "set `zero_optimization.stage` to 1, 2 or 3, or remove it",
            )
    alone = bf16 is not None and bf16.bf16_optimizer_states and not bf16.bf16_master_weights_and_grads
    if alone and config.zero_stage > 0:
        yield Finding(
            ("bf16", "bf16_optimizer_states"),
            "`bf16_optimizer_states` needs `bf16_master_weights_and_grads`",
            'add "bf16_master_weights_and_grads": true',
        )


_AUTOCAST = {"bfloat16": "bf16", "bf16": "bf16", "float16": "fp16", "fp16": "fp16", "half": "fp16"}


@rule(
    "DS507",
    "autocast-dtype-conflict",
    "error",
    "refused",
    phase="step",
    reads=("fp16.enabled", "bf16.enabled", "torch_autocast"),
    summary="`torch_autocast` in another type than the parameters.",
    explanation="""With bf16 on, parameters are bf16; autocast to float16 then feeds layers tensors of two
    types, and the first forward of a model with normalization layers fails.""",
    source="runtime/engine.py:669",
    bad={
        "bf16": {"enabled": True},
        "torch_autocast": {"enabled": True, "dtype": "float16"},
        "zero_optimization": {"stage": 2},
    },
    good={"torch_autocast": {"enabled": True, "dtype": "bfloat16"}, "zero_optimization": {"stage": 2}},
)
def autocast_dtype_conflict(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    autocast = config.torch_autocast
    if autocast is None or not autocast.enabled:
        return
    dtype = _AUTOCAST.get(str(autocast.dtype))
    for name in ("fp16", "bf16"):
        block = getattr(config, name)
        if block is not None and block.enabled and dtype is not None and dtype != name:
            yield Finding(
                ("torch_autocast", "dtype"),
                f"autocast in {show(autocast.dtype)} contradicts `{name}`, which sets the type of the parameters",
                f"remove `torch_autocast`, or switch `{name}` off to keep fp32 parameters under autocast",
                at="value",
                related=(Related((name, "enabled"), f"{name} is switched on here"),),
            )


@rule(
    "DS508",
    "grad-accumulation-dtype-without-zero",
    "error",
    "refused",
    phase="initialize",
    reads=("fp16.enabled", "bf16.enabled", "zero_optimization.stage", "data_types.grad_accum_dtype"),
    summary="Gradients accumulated in another type than the parameters, at stage 0.",
    explanation="""Without ZeRO the engine keeps gradients in the type of the parameters and refuses any other.""",
    source="runtime/engine.py:2321",
    bad={"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}},
    good={
        "bf16": {"enabled": True},
        "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 1},
    },
)
def grad_accumulation_dtype_without_zero(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    types = config.data_types
    if config.zero_stage != 0 or types is None or types.grad_accum_dtype is None:
        return
    on = [name for name in ("fp16", "bf16") if (block := getattr(config, name)) is not None and block.enabled]
    model = on[0] if on else "fp32"
    wanted = _AUTOCAST.get(str(types.grad_accum_dtype), "fp32" if "32" in str(types.grad_accum_dtype) else None)
    if wanted is not None and wanted != model:
        yield Finding(
            ("data_types", "grad_accum_dtype"),
            f"gradients in {wanted} with {model} parameters need ZeRO, which is off",
            "set `zero_optimization.stage` to 1 or more, or remove it",
            at="value",
        )
