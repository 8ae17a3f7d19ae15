"""Rules about a trainer's own arguments beside the file: what is lost, what is refused, what is not saved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Related, dotted
from dsconf.readers import PROFILES
from dsconf.readers.lightning import HALF, strategy_arguments
from dsconf.readers.transformers import OPTIMIZERS, SCHEDULERS
from dsconf.releases import number
from dsconf.rules.readers import arguments_of, literal, place_of
from dsconf.rules.rule import Context, Finding, replace, rule, show

if TYPE_CHECKING:
    from dsconf.facts import Bound

_GATHER = ("zero_optimization", "stage3_gather_16bit_weights_on_model_save")


@rule(
    "DS961",
    "optimizer-argument-lost",
    "error",
    "ignored",
    judge="reader",
    summary="`optim` asks for another optimizer than the one that trains.",
    explanation="""An `optimizer` block wins over `optim` of TrainingArguments, silently. Without one the Trainer
    builds its own, but where the optimizer is offloaded Accelerate swaps it for DeepSpeed's CPU Adam: SGD and RMSprop
    become Adam, Adafactor and Adagrad do not survive the swap.""",
    source="transformers/integrations/deepspeed.py:576",
    bad={"zero_optimization": {"stage": 2}},
    good={
        "zero_optimization": {"stage": 2},
        "optimizer": {"type": "Adafactor", "params": {"lr": "auto"}},
        "zero_allow_untested_optimizer": True,
    },
    context=Context(
        reader="transformers",
        training_args={"optim": "adafactor", "learning_rate": 0.001, "per_device_train_batch_size": 2},
    ),
)
def optimizer_argument_lost(bound: Bound, context: Context) -> Iterator[Finding]:
    arguments = arguments_of(context)
    if context.reader != "transformers" or arguments is None or not arguments.given("optim"):
        return
    asked = str(arguments.get("optim"))
    says = f"`optim` is {asked} in {place_of(context, 'optim')}"
    if bound.given("optimizer"):
        kind = literal(bound, ("optimizer", "type"))
        if isinstance(kind, str) and kind.lower() not in [name.lower() for name in OPTIMIZERS.get(asked, ())]:
            yield Finding(
                ("optimizer",),
                f"{says}, but the file's {kind} trains; {asked} is lost",
                "remove `optimizer` to train with `optim`, or make the two agree",
                related=(Related(("optimizer", "type"), "this optimizer trains"),),
            )
        return
    device = literal(bound, ("zero_optimization", "offload_optimizer", "device"))
    if device not in ("cpu", "nvme") or literal(bound, ("zero_force_ds_cpu_optimizer",)) is False:
        return
    if asked in ("adafactor", "adagrad"):
        outcome = "fails when DeepSpeed's CPU optimizer takes its place"
    elif asked in ("sgd", "rmsprop"):
        outcome = "is swapped for DeepSpeed's CPU Adam, silently"
    else:
        return
    yield Finding(
        ("zero_optimization", "offload_optimizer"),
        f"{says}; with the optimizer offloaded it {outcome}",
        'add "zero_force_ds_cpu_optimizer": false to keep it, or train with adamw_torch',
        effect="refused" if outcome.startswith("fails") else "coerced",
        phase="step" if asked == "adafactor" else "initialize" if asked == "adagrad" else None,
    )


@rule(
    "DS962",
    "scheduler-argument-lost",
    "warning",
    "ignored",
    judge="reader",
    summary="`lr_scheduler_type` asks for another curve than the file's schedule.",
    explanation="""A `scheduler` block wins over `lr_scheduler_type` of TrainingArguments, silently. WarmupLR holds
    the learning rate after the warm-up, WarmupDecayLR falls linearly, WarmupCosineLR follows a cosine.""",
    source="transformers/integrations/deepspeed.py:592",
    bad={
        "zero_optimization": {"stage": 2},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": "auto", "warmup_num_steps": "auto"}},
    },
    good={
        "zero_optimization": {"stage": 2},
        "scheduler": {
            "type": "WarmupCosineLR",
            "params": {"total_num_steps": "auto", "warmup_num_steps": "auto"},
        },
    },
    context=Context(
        reader="transformers",
        training_args={
            "lr_scheduler_type": "cosine",
            "learning_rate": 0.001,
            "per_device_train_batch_size": 2,
        },
    ),
)
def scheduler_argument_lost(bound: Bound, context: Context) -> Iterator[Finding]:
    arguments = arguments_of(context)
    if context.reader != "transformers" or arguments is None or not arguments.given("lr_scheduler_type"):
        return
    kind, asked = literal(bound, ("scheduler", "type")), str(arguments.get("lr_scheduler_type"))
    if not isinstance(kind, str) or kind in SCHEDULERS.get(asked, ()):
        return
    better = SCHEDULERS.get(asked, ("",))[0]
    yield Finding(
        ("scheduler", "type"),
        f"`lr_scheduler_type` is {asked} in {place_of(context, 'lr_scheduler_type')}, but the file's {kind} sets the "
        "learning rate",
        f"remove `scheduler`, or use {better}" if better else "remove `scheduler` to use it",
        at="value",
    )


@rule(
    "DS965",
    "weights-not-gathered",
    "warning",
    "advice",
    fallback=-1,
    judge="reader",
    summary="Stage 3 without gathering the weights for saving.",
    explanation="""At stage 3 every rank holds a part of each weight. Unless
    `stage3_gather_16bit_weights_on_model_save` is true, `save_model` of the Trainer writes a ZeRO checkpoint and no
    weights file, and `get_state_dict` of Accelerate raises, after the training is done. "auto" becomes false.""",
    source="transformers/trainer.py:4109",
    bad={"zero_optimization": {"stage": 3}},
    good={"zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}},
    context=Context(reader="transformers"),
)
def weights_not_gathered(bound: Bound, context: Context) -> Iterator[Finding]:
    if context.reader not in ("transformers", "accelerate") or context.exports is False:
        return
    if literal(bound, ("zero_optimization", "stage")) != 3:
        return
    value = literal(bound, _GATHER)
    if value in (None, False, "auto"):
        outcome = (
            "`save_model` of the Trainer writes no weights file, only a ZeRO checkpoint"
            if context.reader == "transformers"
            else "`get_state_dict` of Accelerate raises"
        )
        yield Finding(
            _GATHER,
            f"the weights are not gathered for saving: {outcome}",
            "set `stage3_gather_16bit_weights_on_model_save` to true, or rebuild them with zero_to_fp32.py",
            at="key" if value is None else "value",
            fix=replace(_GATHER, True, "write true", safe=False) if value is not None else None,
            severity="error" if context.exports else None,
        )


@rule(
    "DS966",
    "evaluation-key-missing",
    "warning",
    "advice",
    judge="reader",
    summary="Stage 3 under Lightning without `zero_allow_untested_optimizer`.",
    explanation="""To validate, test or predict at stage 3 Lightning reads `zero_allow_untested_optimizer` from the
    file without a default and raises a KeyError where it is absent. Either value will do.""",
    source="lightning/pytorch/strategies/deepspeed.py:581",
    bad={"zero_optimization": {"stage": 3}},
    good={"zero_optimization": {"stage": 3}, "zero_allow_untested_optimizer": True},
    context=Context(reader="lightning"),
)
def evaluation_key_missing(bound: Bound, context: Context) -> Iterator[Finding]:
    absent = not bound.given("zero_allow_untested_optimizer")
    if context.reader == "lightning" and absent and literal(bound, ("zero_optimization", "stage")) == 3:
        yield Finding(
            ("zero_allow_untested_optimizer",),
            "Lightning raises a KeyError when it validates, tests or predicts at stage 3 without this key",
            'add "zero_allow_untested_optimizer": true',
        )


@rule(
    "DS995",
    "no-sync-of-old-trainer",
    "warning",
    "refused",
    phase="step",
    judge="reader",
    says="AssertionError: no_sync context manager is incompatible with gradient partitioning logic",
    reads=("zero_optimization.stage", "gradient_accumulation_steps"),
    summary="Gradient accumulation at stage 2 or 3 with a Transformers before 4.47.1.",
    explanation="""Between the steps of an accumulation the Trainer of old releases enters `no_sync` of the engine,
    which DeepSpeed has since 0.16.0 and refuses where gradients are split among the ranks. Transformers leaves it alone
    since 4.47.1.""",
    source="transformers/trainer.py:2477",
    bad={"gradient_accumulation_steps": 8, "zero_optimization": {"stage": 2}},
    good={"gradient_accumulation_steps": 8, "zero_optimization": {"stage": 1}},
    context=Context(reader="transformers", transformers="4.47.0"),
)
def no_sync_of_old_trainer(bound: Bound, context: Context) -> Iterator[Finding]:
    if context.reader != "transformers" or context.transformers is None or number(context.release) < (0, 16):
        return
    steps, stage = bound.config.gradient_accumulation_steps, bound.config.zero_stage
    if number(context.transformers) < (4, 47, 1) and stage >= 2 and steps is not None and steps > 1:
        yield Finding(
            ("gradient_accumulation_steps",),
            f"Transformers {context.transformers} enters `no_sync` of the engine while it accumulates {steps} steps, "
            f"which DeepSpeed refuses at stage {stage}",
            "upgrade Transformers to 4.47.1 or later, or use stage 1",
            at="value",
        )


@rule(
    "DS968",
    "strategy-argument-lost",
    "error",
    "ignored",
    judge="reader",
    summary="An argument of DeepSpeedStrategy beside a file that says something else.",
    explanation="""Lightning makes a configuration of the arguments of DeepSpeedStrategy only where there is no file.
    Given one, as `config` or by PL_DEEPSPEED_CONFIG_PATH, it goes by the file alone, silently; only those about loss
    scaling count where the file has no `fp16`. The stage in a name such as deepspeed_stage_3 is lost like the rest.""",
    source="lightning/pytorch/strategies/deepspeed.py:289",
    bad={"zero_optimization": {"stage": 2}},
    good={"zero_optimization": {"stage": 3}, "zero_allow_untested_optimizer": True},
    context=Context(reader="lightning", training_args={"strategy": {"stage": 3, "config": "ds_config.json"}}),
)
def strategy_argument_lost(bound: Bound, context: Context) -> Iterator[Finding]:
    arguments = arguments_of(context)
    if context.reader != "lightning" or arguments is None:
        return
    for item in PROFILES["lightning"].settings:
        given = strategy_arguments(arguments)
        if item.argument not in given or given[item.argument] == "auto":
            continue
        here = literal(bound, item.path)
        if here == given[item.argument] or (item.switch == HALF and not bound.given("fp16")):
            continue
        yield Finding(
            item.path,
            f"`{item.argument}` is {show(given[item.argument])} in {place_of(context, item.argument)}, and "
            + (f"`{dotted(item.path)}` is {show(here)} here" if here is not None else "the file is silent on it")
            + "; Lightning goes by the file alone",
            f"set `{dotted(item.path)}` in the file, and remove `{item.argument}` there",
            at="key" if here is None else "value",
        )
