"""The Trainer of Transformers 5.24, with Accelerate 1.15 under it."""

from __future__ import annotations

import math
from typing import Any

from dsconf.readers.profile import HIDDEN_SIZE_KEYS, LAUNCHER_KEYS, Arguments, Profile, Value, always, key, note, same


def _micro(arguments: Arguments) -> Any:
    return None if arguments.get("auto_find_batch_size") else arguments.get("per_device_train_batch_size")


def _total(arguments: Arguments) -> Any:
    micro, steps = _micro(arguments), arguments.whole("gradient_accumulation_steps")
    if not isinstance(micro, int) or steps is None or arguments.world_size is None:
        return None
    return arguments.world_size * micro * steps


def _betas(arguments: Arguments) -> Any:
    return [arguments.get("adam_beta1"), arguments.get("adam_beta2")]


def _warmup(arguments: Arguments) -> Any:
    steps, ratio = arguments.number("warmup_steps"), arguments.number("warmup_ratio")
    if steps is None:
        return None
    if steps >= 1:
        return int(steps) if math.isfinite(steps) else None
    share = steps or ratio or 0
    total = arguments.whole("max_steps") or 0
    if share == 0:
        return 1
    return max(1, math.ceil(total * share)) if total > 0 and math.isfinite(share) else None


def _steps(arguments: Arguments) -> Any:
    total = arguments.whole("max_steps") or 0
    return total if total > 0 else None


def _half(name: str) -> Value:
    return lambda arguments: bool(arguments.get(name) or arguments.get(f"{name}_full_eval"))


TRANSFORMERS = Profile(
    name="Transformers",
    version="5.24.0",
    keys=(
        key(
            "train_micro_batch_size_per_gpu",
            "per_device_train_batch_size",
            arguments=("per_device_train_batch_size",),
            value=_micro,
            conflict="refused",
        ),
        key(
            "gradient_accumulation_steps",
            "gradient_accumulation_steps",
            arguments=("gradient_accumulation_steps",),
            value=same("gradient_accumulation_steps"),
            conflict="refused",
        ),
        key(
            "train_batch_size",
            "ranks x per_device_train_batch_size x gradient_accumulation_steps",
            arguments=("per_device_train_batch_size", "gradient_accumulation_steps"),
            value=_total,
            conflict="refused",
        ),
        key(
            "gradient_clipping",
            "max_grad_norm",
            arguments=("max_grad_norm",),
            value=same("max_grad_norm"),
            conflict="refused",
            absent=1.0,
        ),
        key(
            "optimizer.params.lr",
            "learning_rate",
            arguments=("learning_rate",),
            value=same("learning_rate"),
            conflict="refused",
        ),
        key(
            "optimizer.params.betas",
            "adam_beta1 and adam_beta2",
            arguments=("adam_beta1", "adam_beta2"),
            value=_betas,
            conflict="refused",
        ),
        key(
            "optimizer.params.eps",
            "adam_epsilon",
            arguments=("adam_epsilon",),
            value=same("adam_epsilon"),
            conflict="refused",
        ),
        key(
            "optimizer.params.weight_decay",
            "weight_decay",
            arguments=("weight_decay",),
            value=same("weight_decay"),
            conflict="refused",
        ),
        key("scheduler.params.warmup_min_lr", "0", value=always(0)),
        key(
            "scheduler.params.warmup_max_lr",
            "learning_rate",
            arguments=("learning_rate",),
            value=same("learning_rate"),
            conflict="refused",
        ),
        key(
            "scheduler.params.warmup_num_steps",
            "warmup_steps, at least 1",
            arguments=("warmup_steps", "warmup_ratio"),
            value=_warmup,
            conflict="refused",
        ),
        key(
            "scheduler.params.total_num_steps",
            "the optimizer steps of the run",
            arguments=("max_steps",),
            value=_steps,
            conflict="refused",
        ),
        key("fp16.enabled", "fp16", arguments=("fp16", "fp16_full_eval"), value=_half("fp16"), conflict="refused"),
        key("bf16.enabled", "bf16", arguments=("bf16", "bf16_full_eval"), value=_half("bf16"), conflict="refused"),
        *HIDDEN_SIZE_KEYS,
        *LAUNCHER_KEYS,
    ),
    auto="refused",
    needs_zero=True,
    overrides=(note("steps_per_print", "the Trainer sets it to infinity and logs by `logging_steps`"),),
    script_optimizer="`optimizers` and `optim` have no effect while the file has an optimizer",
    defaults={
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 1,
        "max_grad_norm": 1.0,
        "learning_rate": 5e-5,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-8,
        "weight_decay": 0.0,
        "warmup_steps": 0,
        "warmup_ratio": 0.0,
        "max_steps": -1,
        "fp16": False,
        "bf16": False,
        "fp16_full_eval": False,
        "bf16_full_eval": False,
        "optim": "adamw_torch",
        "lr_scheduler_type": "linear",
    },
)

#: The optimizer of the file that does what a value of `optim` asks for. Values not named here have none.
OPTIMIZERS: dict[str, tuple[str, ...]] = {
    "adamw_hf": ("AdamW", "Adam"),
    "adamw_torch": ("AdamW", "Adam"),
    "adamw_torch_fused": ("AdamW", "Adam"),
    "adamw_torch_xla": ("AdamW", "Adam"),
    "adamw_torch_npu_fused": ("AdamW", "Adam"),
    "adamw_apex_fused": ("AdamW", "Adam"),
    "adafactor": ("Adafactor",),
    "sgd": ("SGD",),
    "adagrad": ("Adagrad",),
    "rmsprop": ("RMSprop",),
    "lion_32bit": ("Lion",),
}

#: The scheduler of the file whose curve is that of an `lr_scheduler_type`. Values not named here have none.
SCHEDULERS: dict[str, tuple[str, ...]] = {
    "linear": ("WarmupDecayLR",),
    "constant_with_warmup": ("WarmupLR",),
    "cosine": ("WarmupCosineLR",),
}
