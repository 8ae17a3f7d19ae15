"""`DeepSpeedStrategy` of the Lightning Trainer, 2.6, with a configuration of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from dsconf.readers.profile import Arguments, Profile, Value, key, note, same, setting

_ZERO, _OPTIMIZER, _PARAMETERS = (
    "zero_optimization",
    "zero_optimization.offload_optimizer",
    "zero_optimization.offload_param",
)
#: What has to be on for the arguments about loss scaling to count: a precision of the Trainer, not an argument.
HALF = "fp16"


def _half(name: str) -> Value:
    words = {"fp16": ("16", "16-mixed", "16-true"), "bf16": ("bf16", "bf16-mixed", "bf16-true")}[name]
    return lambda arguments: str(arguments.get("precision")) in words


def _clipping(arguments: Arguments) -> Any:
    return arguments.get("gradient_clip_val") or 0.0


LIGHTNING = Profile(
    name="Lightning",
    version="2.6.6",
    keys=(
        key("train_micro_batch_size_per_gpu", "the batch size of the training loader", fills=False, adds=True),
        key(
            "gradient_accumulation_steps",
            "accumulate_grad_batches",
            fills=False,
            adds=True,
            arguments=("accumulate_grad_batches",),
            value=same("accumulate_grad_batches"),
        ),
        key(
            "gradient_clipping",
            "gradient_clip_val, or 0",
            fills=False,
            adds=True,
            arguments=("gradient_clip_val",),
            value=_clipping,
            conflict="kept",
        ),
        key(
            "fp16.enabled",
            "whether precision is 16-mixed or 16-true",
            fills=False,
            arguments=("precision",),
            value=_half("fp16"),
            conflict="kept",
        ),
        key(
            "bf16.enabled",
            "whether precision is bf16-mixed or bf16-true",
            fills=False,
            arguments=("precision",),
            value=_half("bf16"),
            conflict="kept",
        ),
    ),
    auto="passed",
    needs_zero=False,
    refuses=(note("gradient_accumulation_steps", "set accumulate_grad_batches of the Trainer instead"),),
    drops=(
        note("activation_checkpointing.number_checkpoints", "Lightning configures checkpointing without it"),
        note(
            "activation_checkpointing.synchronize_checkpoint_boundary", "Lightning configures checkpointing without it"
        ),
    ),
    script_optimizer="`configure_optimizers` is never called while the file has an optimizer",
    defaults={"accumulate_grad_batches": 1, "gradient_clip_val": None, "precision": "32-true"},
    section="trainer",
    settings=(
        setting("logging_batch_size_per_gpu", "train_micro_batch_size_per_gpu", "auto"),
        setting("zero_allow_untested_optimizer", "zero_allow_untested_optimizer", True, _ZERO),
        setting("stage", "zero_optimization.stage", 2, _ZERO),
        setting("contiguous_gradients", "zero_optimization.contiguous_gradients", True, _ZERO),
        setting("overlap_comm", "zero_optimization.overlap_comm", True, _ZERO),
        setting("allgather_partitions", "zero_optimization.allgather_partitions", True, _ZERO),
        setting("reduce_scatter", "zero_optimization.reduce_scatter", True, _ZERO),
        setting("allgather_bucket_size", "zero_optimization.allgather_bucket_size", 200_000_000, _ZERO),
        setting("reduce_bucket_size", "zero_optimization.reduce_bucket_size", 200_000_000, _ZERO),
        setting("sub_group_size", "zero_optimization.sub_group_size", 1_000_000_000_000, _ZERO),
        setting("offload_optimizer_device", f"{_OPTIMIZER}.device", "cpu", "offload_optimizer"),
        setting("nvme_path", f"{_OPTIMIZER}.nvme_path", "/local_nvme", "offload_optimizer"),
        setting("optimizer_buffer_count", f"{_OPTIMIZER}.buffer_count", 4, "offload_optimizer"),
        setting("pin_memory", f"{_OPTIMIZER}.pin_memory", False, "offload_optimizer"),
        setting("offload_params_device", f"{_PARAMETERS}.device", "cpu", "offload_parameters"),
        setting("nvme_path", f"{_PARAMETERS}.nvme_path", "/local_nvme", "offload_parameters"),
        setting("params_buffer_count", f"{_PARAMETERS}.buffer_count", 5, "offload_parameters"),
        setting("params_buffer_size", f"{_PARAMETERS}.buffer_size", 100_000_000, "offload_parameters"),
        setting("max_in_cpu", f"{_PARAMETERS}.max_in_cpu", 1_000_000_000, "offload_parameters"),
        setting("pin_memory", f"{_PARAMETERS}.pin_memory", False, "offload_parameters"),
        setting("block_size", "aio.block_size", 1_048_576),
        setting("queue_depth", "aio.queue_depth", 8),
        setting("single_submit", "aio.single_submit", False),
        setting("overlap_events", "aio.overlap_events", True),
        setting("thread_count", "aio.thread_count", 1),
        setting("partition_activations", "activation_checkpointing.partition_activations", False),
        setting("cpu_checkpointing", "activation_checkpointing.cpu_checkpointing", False),
        setting("contiguous_memory_optimization", "activation_checkpointing.contiguous_memory_optimization", False),
        setting("synchronize_checkpoint_boundary", "activation_checkpointing.synchronize_checkpoint_boundary", False),
        setting("loss_scale", "fp16.loss_scale", 0, HALF),
        setting("initial_scale_power", "fp16.initial_scale_power", 16, HALF),
        setting("loss_scale_window", "fp16.loss_scale_window", 1000, HALF),
        setting("hysteresis", "fp16.hysteresis", 2, HALF),
        setting("min_loss_scale", "fp16.min_loss_scale", 1, HALF),
    ),
)

#: Arguments of the strategy that turn others on, with their defaults; and those that no key of the file comes from.
SWITCHES = {"zero_optimization": True, "offload_optimizer": False, "offload_parameters": False}
OTHERS = ("remote_device", "load_full_weights", "exclude_frozen_parameters", "logging_level", "timeout", "config")

#: The names that `Trainer(strategy=...)` knows, with the arguments of `DeepSpeedStrategy` that they stand for.
STRATEGIES: dict[str, dict[str, Any]] = {
    "deepspeed": {},
    "deepspeed_stage_1": {"stage": 1},
    "deepspeed_stage_2": {"stage": 2},
    "deepspeed_stage_2_offload": {"stage": 2, "offload_optimizer": True},
    "deepspeed_stage_3": {"stage": 3},
    "deepspeed_stage_3_offload": {"stage": 3, "offload_optimizer": True, "offload_parameters": True},
    "deepspeed_stage_3_offload_nvme": {
        "stage": 3,
        "offload_optimizer": True,
        "offload_parameters": True,
        "remote_device": "nvme",
        "offload_params_device": "nvme",
        "offload_optimizer_device": "nvme",
    },
}


def strategy_arguments(arguments: Arguments) -> Mapping[str, Any]:
    """What `DeepSpeedStrategy` is given: by a name of `STRATEGIES`, as LightningCLI writes it, or on its own."""
    strategy = arguments.get("strategy")
    if isinstance(strategy, str):
        return STRATEGIES.get(strategy, {})
    if isinstance(strategy, Mapping):
        told = cast("Mapping[str, Any]", strategy)
        inner: Any = told.get("init_args") if "class_path" in told else told
        return cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else {}
    known = {*SWITCHES, *OTHERS, *(item.argument for item in LIGHTNING.settings)}
    return {name: value for name, value in arguments.values.items() if name in known}
