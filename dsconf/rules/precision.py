"""Rules about fp16, bf16 and autocast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dsconf.diagnostic import Related
from dsconf.rules.data_types import accumulates_in_fp32
from dsconf.rules.offload import offload_device
from dsconf.rules.rule import Context, Finding, remove, rule

if TYPE_CHECKING:
    from dsconf.facts import Bound


@rule(
    "DS501",
    "fp16-with-bf16",
    "error",
    "refused",
    phase="parse",
    says="AssertionError: bfloat16 and fp16 modes cannot be simultaneously enabled",
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
    "DS506",
    "master-weights-without-zero",
    "error",
    "refused",
    phase="parse",
    says="AssertionError: Bf16_master_weights_and_grads is only supported with ZeRO Stage 1, 2, or 3.",
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


@rule(
    "DS511",
    "master-weights-need-cpu-adam",
    "error",
    "refused",
    phase="initialize",
    says="AssertionError: Master weights feature requires ZeRO-2 Offload with DeepSpeedCPUAdam.",
    reads=("fp16", "bf16", "zero_optimization.stage", "zero_optimization.offload_optimizer", "optimizer.type"),
    summary="16-bit master weights without an offloaded CPU Adam.",
    explanation="""16-bit master weights work with the optimizer offloaded and DeepSpeed's CPU Adam, which the types
    Adam and AdamW become. In bf16 they also work on the accelerator, with `bf16_optimizer_states`. The two
    switches look at neither `fp16.enabled` nor `bf16.enabled`, and exclude each other.""",
    source="runtime/base_optimizer.py:510",
    bad={"bf16": {"enabled": True, "bf16_master_weights_and_grads": True}, "zero_optimization": {"stage": 2}},
    good={
        "bf16": {"enabled": True, "bf16_master_weights_and_grads": True},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
    },
)
def master_weights_need_cpu_adam(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    fp16 = config.fp16 is not None and config.fp16.fp16_master_weights_and_grads
    bf16 = config.bf16 is not None and config.bf16.bf16_master_weights_and_grads
    if config.zero_stage == 0 or not (fp16 or bf16):
        return
    path = ("fp16", "fp16_master_weights_and_grads") if fp16 else ("bf16", "bf16_master_weights_and_grads")
    if fp16 and bf16:
        other = ("bf16", "bf16_master_weights_and_grads")
        yield Finding(
            path,
            "master weights are in fp16 or in bf16; DeepSpeed refuses both together",
            "remove one of the two",
            related=(Related(other, "bf16 master weights are switched on here"),),
        )
        return
    on_accelerator = bf16 and config.bf16 is not None and config.bf16.bf16_optimizer_states
    optimizer = config.optimizer
    if offload_device(bound) is None:
        if not on_accelerator:
            yield Finding(
                path,
                f"`{path[1]}` needs the optimizer offloaded",
                'add "offload_optimizer": {"device": "cpu"} to `zero_optimization`'
                + (', or "bf16_optimizer_states": true' if bf16 else ""),
            )
    elif config.zero_optimization is not None and getattr(config.zero_optimization, "zenflow", None) is not None:
        yield Finding(
            path,
            f"`{path[1]}` needs DeepSpeed's plain CPU Adam, which ZenFlow replaces",
            "remove `zenflow`, or keep master weights in fp32",
            related=(Related(("zero_optimization", "zenflow"), "ZenFlow is switched on here"),),
        )
    elif optimizer is not None:
        cpu_adam = (optimizer.type == "Adam" or optimizer.type == "AdamW") and not (
            optimizer.params is not None and optimizer.params.torch_adam
        )
        if not cpu_adam:
            yield Finding(
                path,
                f"`{path[1]}` needs DeepSpeed's CPU Adam; the optimizer is another one",
                "use Adam or AdamW, without `torch_adam`",
                related=(Related(("optimizer", "type"), "the optimizer is chosen here"),),
            )


@rule(
    "DS512",
    "bf16-option-unread",
    "warning",
    "ignored",
    reads=("fp16.enabled", "bf16", "zero_optimization.stage", "zero_optimization.offload_optimizer", "data_types"),
    summary="A setting of `bf16` that the stage does not read.",
    explanation="""`immediate_grad_update` is read by the optimizer that stage 1 uses for bf16 parameters with fp32
    gradients (`data_types.grad_accum_dtype`), not offloaded. `check_grad_overflow` is read at stages 1 and 2;
    the others go their own way.""",
    source="runtime/bf16_optimizer.py:81",
    bad={"bf16": {"enabled": True, "immediate_grad_update": True}, "zero_optimization": {"stage": 2}},
    good={
        "bf16": {"enabled": True, "immediate_grad_update": True},
        "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 1},
    },
)
def bf16_option_unread(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    if config.bf16 is None or not config.bf16.enabled:
        return
    own = config.zero_stage == 1 and accumulates_in_fp32(config) and offload_device(bound) is None
    unread = (
        (
            "immediate_grad_update",
            config.bf16.immediate_grad_update and not own,
            "stage 1 with fp32 gradients reads it",
        ),
        (
            "check_grad_overflow",
            not config.bf16.check_grad_overflow and config.zero_stage in (0, 3),
            "stages 1 and 2 read it",
        ),
    )
    for name, wrong, who in unread:
        if wrong:
            path = ("bf16", name)
            yield Finding(
                path, f"`{name}` has no effect here; {who}", "remove it", fix=remove(path, f"remove `{name}`")
            )


_AT_STAGE_3: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_clipping": 1.0,
    "zero_optimization": {"stage": 3},
}


@rule(
    "DS515",
    "stage-3-in-fp32",
    "warning",
    "advice",
    reads=("zero_optimization.stage", "fp16.enabled", "bf16.enabled", "torch_autocast.enabled"),
    summary="Stage 3 without a 16-bit type.",
    explanation="""Neither `bf16` nor `fp16` nor `torch_autocast` is on, so everything is fp32: parameters, gradients
    and what is sent between ranks take twice the memory and traffic, and zero.Init builds the model in fp32 whatever
    type its weights were saved in.""",
    source="runtime/zero/partition_parameters.py:397",
    bad=_AT_STAGE_3,
    good={**_AT_STAGE_3, "bf16": {"enabled": True}},
    whole=True,
)
def stage_3_in_fp32(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    if config.zero_stage != 3 or context.reader != "deepspeed":
        return
    for name in ("bf16", "fp16", "torch_autocast"):
        block = getattr(config, name)
        if (block is not None and block.enabled) or bound.given(name, "enabled"):
            return
    yield Finding(
        ("bf16", "enabled"),
        "no 16-bit type is switched on, so stage 3 trains in fp32",
        'add "bf16": {"enabled": true}; if fp32 is meant, say so with {"enabled": false}',
    )


@rule(
    "DS517",
    "auto-cast-without-fp16",
    "error",
    "refused",
    phase="step",
    says="RuntimeError: mat1 and mat2 must have the same dtype, but got Half and Float",
    reads=("fp16.enabled", "fp16.auto_cast"),
    summary="Inputs cast to fp16 for a model that is not in fp16.",
    explanation="""`auto_cast` turns floating inputs into fp16 whether fp16 is on or not. A model in another type fails
    on them in its first layer.""",
    source="runtime/engine.py:2957",
    bad={"fp16": {"enabled": False, "auto_cast": True}},
    good={"fp16": {"enabled": True, "auto_cast": True}, "zero_optimization": {"stage": 1}},
)
def auto_cast_without_fp16(bound: Bound, context: Context) -> Iterator[Finding]:
    fp16 = bound.config.fp16
    if fp16 is not None and fp16.auto_cast and not fp16.enabled:
        yield Finding(
            ("fp16", "auto_cast"),
            "`auto_cast` makes inputs fp16, and the model is not; its first layer fails",
            'remove it, or add "enabled": true',
            fix=remove(("fp16", "auto_cast"), "remove it", safe=False),
        )
