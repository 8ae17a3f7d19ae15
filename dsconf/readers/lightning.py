"""`DeepSpeedStrategy` of the Lightning Trainer, 2.6, with a configuration of one's own."""

from __future__ import annotations

from typing import Any

from dsconf.readers.profile import Arguments, Profile, Value, key, note, same


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
)
