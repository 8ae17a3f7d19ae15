"""Accelerate 1.15: `DeepSpeedPlugin` and `Accelerator.prepare`."""

from __future__ import annotations

from typing import Any

from dsconf.readers.profile import HIDDEN_SIZE_KEYS, LAUNCHER_KEYS, Arguments, Profile, always, key, note, same, setting


def _half(name: str) -> Any:
    def asked(arguments: Arguments) -> Any:
        precision = arguments.get("mixed_precision")
        if not isinstance(precision, str):
            return None
        return precision == name or (precision, name) == ("fp8", "bf16")

    return asked


ACCELERATE = Profile(
    name="Accelerate",
    version="1.15.0",
    keys=(
        key("train_micro_batch_size_per_gpu", "the smallest batch size of the loaders given to `prepare`"),
        key(
            "gradient_accumulation_steps",
            "the Accelerator's gradient_accumulation_steps",
            arguments=("gradient_accumulation_steps",),
            value=same("gradient_accumulation_steps"),
            conflict="kept",
            absent=1,
        ),
        key(
            "train_batch_size",
            "ranks x train_micro_batch_size_per_gpu x gradient_accumulation_steps",
            needs=("train_micro_batch_size_per_gpu",),
        ),
        key("gradient_clipping", "1.0, unless `accelerate launch` or the plugin names a norm", absent=1.0),
        key("optimizer.params.lr", "the learning rate of DummyOptim"),
        key("optimizer.params.weight_decay", "the weight decay of DummyOptim"),
        key("scheduler.params.warmup_min_lr", "0", value=always(0)),
        key("scheduler.params.warmup_max_lr", "the learning rate of DummyOptim"),
        key("scheduler.params.warmup_num_steps", "warmup_num_steps of DummyScheduler, at least 1"),
        key("scheduler.params.total_num_steps", "total_num_steps of DummyScheduler, divided by the ranks"),
        key(
            "fp16.enabled",
            "whether mixed_precision is fp16",
            arguments=("mixed_precision",),
            value=_half("fp16"),
            conflict="kept",
        ),
        key(
            "bf16.enabled",
            "whether mixed_precision is bf16 or fp8",
            arguments=("mixed_precision",),
            value=_half("bf16"),
            conflict="kept",
        ),
        *HIDDEN_SIZE_KEYS,
        *LAUNCHER_KEYS,
    ),
    auto="refused",
    needs_zero=True,
    overrides=(note("steps_per_print", "Accelerate sets it to infinity"),),
    script_optimizer="pass DummyOptim to `prepare` in the script, a real optimizer is refused beside this one",
    defaults={"gradient_accumulation_steps": 1, "mixed_precision": None},
    settings=(
        setting("zero_stage", "zero_optimization.stage", 2),
        setting("gradient_accumulation_steps", "gradient_accumulation_steps", "auto"),
        setting("gradient_clipping", "gradient_clipping", "auto"),
        setting("offload_optimizer_device", "zero_optimization.offload_optimizer.device", "none"),
        setting("offload_param_device", "zero_optimization.offload_param.device", "none"),
        setting("offload_optimizer_nvme_path", "zero_optimization.offload_optimizer.nvme_path", "none"),
        setting("offload_param_nvme_path", "zero_optimization.offload_param.nvme_path", "none"),
        setting("zero3_save_16bit_model", "zero_optimization.stage3_gather_16bit_weights_on_model_save", False),
    ),
)
