"""Rules about the types that parameters, buffers and gradients are kept in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Related
from dsconf.rules.rule import Context, Finding, remove, rule, show

if TYPE_CHECKING:
    from dsconf.facts import Bound
    from dsconf.models.config import DeepSpeedConfig


_NAMES = {"bfloat16": "bf16", "bf16": "bf16", "float16": "fp16", "fp16": "fp16", "half": "fp16"}


def _name(dtype: str | None) -> str | None:
    """The short name of a type of floating-point numbers; None for any other."""
    plain = str(dtype).removeprefix("torch.")
    return "fp32" if plain in ("fp32", "float32", "float") else _NAMES.get(plain)


def precision(config: DeepSpeedConfig) -> str:
    """The type that parameters have on the accelerator: `fp16`, `bf16` or `fp32`."""
    if config.fp16 is not None and config.fp16.enabled:
        return "fp16"
    return "bf16" if config.bf16 is not None and config.bf16.enabled else "fp32"


def accumulates_in_fp32(config: DeepSpeedConfig) -> bool:
    """Whether bf16 parameters have fp32 gradients, for which stage 1 has an optimizer of its own."""
    types = config.data_types
    return precision(config) == "bf16" and types is not None and _name(types.grad_accum_dtype) == "fp32"


@rule(
    "DS507",
    "autocast-dtype-conflict",
    "error",
    "refused",
    phase="step",
    says="RuntimeError: mixed dtype (CPU): expect parameter to have scalar type of Float",
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
    dtype = _name(autocast.dtype)
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
    says="NotImplementedError: unsupported mix of model_dtype=torch.bfloat16 and grad_accum_dtype=torch.float32",
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
    if types is None or types.grad_accum_dtype is None:
        return
    if types.grad_accum_dtype in ("int8", "torch.int8"):
        path = ("data_types", "grad_accum_dtype")
        yield Finding(
            path,
            "gradients are no whole numbers, which is all that int8 holds",
            "write fp32",
            at="value",
            effect="advice" if config.zero_stage > 1 else None,
            phase="step" if config.zero_stage == 1 else None,
        )
        return
    if config.zero_stage != 0:
        return
    model, wanted = precision(config), _name(types.grad_accum_dtype)
    if wanted is not None and wanted != model:
        yield Finding(
            ("data_types", "grad_accum_dtype"),
            f"gradients in {wanted} with {model} parameters need ZeRO, which is off",
            "set `zero_optimization.stage` to 1 or more, or remove it",
            at="value",
        )


@rule(
    "DS513",
    "param-dtype-conflict",
    "error",
    "refused",
    phase="initialize",
    says="AssertionError: data_types.param_dtype='bf16' conflicts with the enabled precision mode (model",
    reads=("fp16.enabled", "bf16.enabled", "data_types.param_dtype"),
    summary="`data_types.param_dtype` that contradicts `fp16` and `bf16`.",
    explanation="""The type of the parameters is chosen by `fp16.enabled` and `bf16.enabled`, fp32 without either.
    `param_dtype` may repeat the choice, not make it.""",
    source="runtime/engine.py:1827",
    bad={"data_types": {"param_dtype": "bf16"}},
    good={"bf16": {"enabled": True}, "data_types": {"param_dtype": "bf16"}},
)
def param_dtype_conflict(bound: Bound, context: Context) -> Iterator[Finding]:
    types = bound.config.data_types
    if types is None or types.param_dtype is None:
        return
    model = precision(bound.config)
    if _name(types.param_dtype) != model:
        yield Finding(
            ("data_types", "param_dtype"),
            f"`param_dtype` is {show(types.param_dtype)}, but the parameters are {model}",
            f"remove it, or switch on `{_name(types.param_dtype)}`"
            if _name(types.param_dtype) != "fp32"
            else "remove it",
            at="value",
            related=(Related((model, "enabled"), f"{model} is switched on here"),) if model != "fp32" else (),
        )


@rule(
    "DS514",
    "buffer-dtype-unread",
    "warning",
    "ignored",
    reads=("fp16.enabled", "bf16.enabled"),
    mutes=True,
    summary="`data_types.buffer_dtype` without fp16 or bf16.",
    explanation="""A model's buffers are converted together with its parameters, by `fp16` or `bf16`. In fp32
    nothing is converted and nothing reads the key.""",
    source="runtime/engine.py:2080",
    bad={"data_types": {"buffer_dtype": "bf16"}},
    good={"bf16": {"enabled": True}, "data_types": {"buffer_dtype": "bf16"}},
)
def buffer_dtype_unread(bound: Bound, context: Context) -> Iterator[Finding]:
    path = ("data_types", "buffer_dtype")
    if precision(bound.config) == "fp32" and getattr(bound.node(path), "value", None) is not None:
        yield Finding(
            path,
            "`buffer_dtype` has no effect: neither fp16 nor bf16 is on",
            "switch on `bf16` or `fp16`, or remove it",
            fix=remove(path, "remove it"),
        )
