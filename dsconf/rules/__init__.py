"""The rules: one explicit registry, in the order of their codes.

A rule is added by writing it in the module of its family and naming it here.
"""

from __future__ import annotations

from dsconf.rules import batch, engine, keys, offload, optimizer, precision, scheduler, text, values, zero
from dsconf.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    text.unreadable,
    text.hjson_only,
    text.template_placeholder,
    text.swallowed_line,
    keys.unknown_key,
    keys.misplaced_key,
    keys.duplicate_key,
    keys.removed_key,
    keys.deprecated_key,
    keys.two_spellings,
    keys.renamed_key,
    keys.dead_key,
    keys.missing_key,
    keys.unresolved_auto,
    values.wrong_type,
    values.out_of_range,
    values.unknown_choice,
    values.string_for_boolean,
    values.coerced_value,
    zero.allgather_under_stage_3,
    zero.allgather_partitions_unread,
    zero.stage_3_option_below_stage_3,
    zero.option_without_zero,
    zero.option_of_stages_1_and_2,
    zero.reduce_scatter_under_stage_3,
    zero.odd_allgather_bucket,
    zero.prescale_with_reduce_scatter,
    zero.sum_under_stage_3,
    zero.legacy_stage_1,
    zero.grad_norm_off_with_clipping,
    offload.offload_param_below_stage_3,
    offload.offload_optimizer_at_stage_0,
    offload.nvme_optimizer_below_stage_3,
    offload.nvme_without_path,
    offload.option_of_another_device,
    offload.nvme_option_below_stage_3,
    offload.optimizer_not_offloadable,
    offload.partial_offload_needs_adam,
    offload.aio_without_nvme,
    offload.too_few_nvme_buffers,
    precision.fp16_with_bf16,
    precision.fp16_without_zero,
    precision.precision_not_enabled,
    precision.loss_scale_never_positive,
    precision.hysteresis_never_refilled,
    precision.master_weights_without_zero,
    precision.autocast_dtype_conflict,
    precision.grad_accumulation_dtype_without_zero,
    batch.batch_size_absent,
    batch.batch_size_contradiction,
    batch.batch_size_for_another_world,
    batch.batch_size_needs_world_size,
    optimizer.unknown_optimizer,
    optimizer.optimizer_without_type,
    optimizer.unknown_optimizer_parameter,
    optimizer.learning_rate_absent,
    optimizer.max_grad_norm,
    optimizer.untested_optimizer,
    optimizer.adam_w_mode_ignored,
    optimizer.amsgrad_not_implemented,
    optimizer.muon_with_reduce_scatter,
    optimizer.optimizer_cannot_step,
    scheduler.unknown_scheduler,
    scheduler.scheduler_without_type,
    scheduler.scheduler_without_params,
    scheduler.unknown_scheduler_parameter,
    scheduler.warmup_decay_peak,
    scheduler.torch_scheduler_under_zero,
    scheduler.unknown_warmup_type,
    scheduler.warmup_longer_than_run,
    engine.clipping_by_default,
    engine.negative_clipping,
    engine.never_prints,
    engine.comms_logger_always_on,
    engine.predivide_by_zero,
    engine.contiguous_checkpointing_incomplete,
)


def find_rule(word: str) -> Rule | None:
    """The rule with a code or a name, in any case."""
    folded = word.lower()
    return next((item for item in RULES if folded in (item.code.lower(), item.name)), None)
