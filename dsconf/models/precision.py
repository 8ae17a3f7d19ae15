"""`fp16` and `bf16`: the precision that parameters and gradients have on the accelerator."""

from dsconf.models.block import Block, Float, Int, key

_SOURCE = "runtime/precision_config.py"


class Fp16(Block):
    """Half precision with loss scaling."""

    enabled: bool = key(False, doc="Train in fp16.", source=f"{_SOURCE}:105")
    auto_cast: bool = key(False, doc="Cast floating inputs given by position to fp16.", source=f"{_SOURCE}:110")
    loss_scale: Float = key(
        0.0, ge=0.0, refuses="bool", doc="A fixed loss scale; 0 means a dynamic one.", source=f"{_SOURCE}:115"
    )
    initial_scale_power: Int = key(
        16, doc="The dynamic loss scale starts at two to this power.", source=f"{_SOURCE}:135"
    )
    loss_scale_window: Int = key(
        1000,
        refuses="bool",
        doc="Steps without overflow after which the dynamic scale doubles.",
        source=f"{_SOURCE}:140",
    )
    hysteresis: Int = key(
        2,
        doc="Overflows before the dynamic scale is halved; at 0 every step after the first overflow is skipped.",
        source=f"{_SOURCE}:145",
    )
    consecutive_hysteresis: bool = key(
        False, doc="Refill the hysteresis after every step without overflow.", source=f"{_SOURCE}:150"
    )
    min_loss_scale: Int = key(1, refuses="bool", doc="Lowest dynamic loss scale.", source=f"{_SOURCE}:155")
    fp16_master_weights_and_grads: bool = key(
        False,
        doc="Keep master weights and gradients in fp16; needs ZeRO with the optimizer offloaded to the CPU.",
        source=f"{_SOURCE}:160",
    )


class Bf16(Block):
    """bfloat16, which needs no loss scaling."""

    enabled: bool = key(False, doc="Train in bf16.", source=f"{_SOURCE}:46")
    immediate_grad_update: bool = key(
        False,
        doc="Add each gradient to the fp32 accumulator at once (stage 1 with fp32 accumulation only).",
        source=f"{_SOURCE}:51",
    )
    check_grad_overflow: bool = key(True, doc="Skip a step whose gradients are not finite.", source=f"{_SOURCE}:56")
    bf16_master_weights_and_grads: bool = key(
        False, doc="Keep master weights and gradients in bf16; needs ZeRO.", source=f"{_SOURCE}:63"
    )
    bf16_optimizer_states: bool = key(
        False,
        doc="Keep optimizer states in bf16; needs `bf16_master_weights_and_grads`.",
        source=f"{_SOURCE}:68",
    )
