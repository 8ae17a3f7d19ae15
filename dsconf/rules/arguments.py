"""The rule about a trainer's own arguments that it refuses together with DeepSpeed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from dsconf.diagnostic import Path, dotted
from dsconf.readers import PROFILES
from dsconf.rules.readers import arguments_of, literal, place_of
from dsconf.rules.rule import Context, Finding, rule, show

if TYPE_CHECKING:
    from dsconf.facts import Bound
    from dsconf.readers import Arguments


@rule(
    "DS963",
    "argument-refused",
    "error",
    "refused",
    phase="initialize",
    judge="reader",
    summary="An argument of the trainer that it refuses together with DeepSpeed.",
    explanation="""Some arguments are fine alone and refused with DeepSpeed, or with a stage of ZeRO:
    `auto_find_batch_size` at stage 3, `save_only_model` with `load_best_model_at_end`, `fsdp`, evaluating without
    training below stage 3. Lightning refuses to clip by value and to train in 64 bits or on a CPU. Once Accelerate's
    YAML names a `deepspeed_config_file`, settings beside it that the file decides too are refused.""",
    source="transformers/trainer.py:904",
    bad={"zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}},
    good={"zero_optimization": {"stage": 2}},
    context=Context(
        reader="transformers",
        training_args={"auto_find_batch_size": True, "learning_rate": 0.001},
    ),
)
def argument_refused(bound: Bound, context: Context) -> Iterator[Finding]:
    arguments = arguments_of(context)
    if arguments is None:
        return
    stage = literal(bound, ("zero_optimization", "stage"))
    if context.reader == "transformers":
        yield from _trainer(arguments, stage, context)
    elif context.reader == "accelerate":
        yield from _accelerate(bound, arguments, context)
    else:
        yield from _lightning(arguments, context)


def _trainer(arguments: Arguments, stage: Any, context: Context) -> Iterator[Finding]:
    def on(name: str) -> bool:
        return bool(arguments.get(name))

    def where(name: str) -> str:
        return place_of(context, name)

    at_stage: Path = ("zero_optimization", "stage")
    if on("auto_find_batch_size") and stage == 3:
        yield Finding(
            at_stage,
            f"`auto_find_batch_size` in {where('auto_find_batch_size')} is refused at ZeRO stage 3",
            "set per_device_train_batch_size, or use stage 2",
            at="value",
        )
    if on("save_only_model") and on("load_best_model_at_end"):
        yield Finding(
            (),
            f"`save_only_model` and `load_best_model_at_end` in {where('save_only_model')} are refused together: the "
            "engine loads its own checkpoint, which save_only_model leaves out",
            "drop one of the two",
        )
    if on("save_only_model") and on("resume_from_checkpoint"):
        yield Finding(
            (),
            f"`save_only_model` in {where('save_only_model')} writes checkpoints without the engine's state, so "
            "`resume_from_checkpoint` cannot go on from them",
            "set save_only_model to false where resuming is wanted",
            severity="warning",
            effect="advice",
        )
    if on("fsdp"):
        yield Finding((), f"`fsdp` in {where('fsdp')} is refused together with DeepSpeed", "drop one of the two")
    if on("fp16") and on("bf16"):
        yield Finding(
            (), f"`fp16` and `bf16` in {where('fp16')} are refused together", "keep bf16 where the hardware has it"
        )
    if arguments.given("max_grad_norm") and arguments.get("max_grad_norm") is None:
        yield Finding(
            ("gradient_clipping",),
            f"`max_grad_norm` is null in {where('max_grad_norm')}; the first step compares it with a number and fails",
            "write 0 to switch clipping off",
            phase="step",
        )
    evaluates = [name for name in ("do_eval", "do_predict") if on(name)]
    if evaluates and not on("do_train") and isinstance(stage, int) and stage < 3:
        yield Finding(
            at_stage,
            f"`{evaluates[0]}` without `do_train` in {where(evaluates[0])}: the Trainer refuses to evaluate before "
            "training below stage 3",
            "use stage 3, or evaluate without DeepSpeed",
            at="value",
            severity=None if arguments.given("do_train") else "warning",
        )
    accelerator = arguments.get("accelerator_config")
    if isinstance(accelerator, Mapping):
        yield from _accelerator_config(cast("Mapping[str, Any]", accelerator), where("accelerator_config"))


def _accelerator_config(values: Mapping[str, Any], where: str) -> Iterator[Finding]:
    """What the Trainer hands on to Accelerate."""
    if values.get("use_configured_state"):
        yield Finding(
            (),
            f"`use_configured_state` in {where} is refused unless the script has made an Accelerator state before",
            "drop it, or make an AcceleratorState before the training arguments",
            severity="warning",
        )
    accumulation = values.get("gradient_accumulation_kwargs")
    steps = cast("Mapping[str, Any]", accumulation).get("num_steps") if isinstance(accumulation, Mapping) else None
    if steps is not None:
        yield Finding(
            ("gradient_accumulation_steps",),
            f"`num_steps` is {show(steps)} in {where}, which the Trainer goes by while DeepSpeed is told "
            "`gradient_accumulation_steps` of the arguments",
            "set gradient_accumulation_steps among the arguments instead",
            severity="warning",
            effect="ignored",
        )


def _accelerate(bound: Bound, arguments: Arguments, context: Context) -> Iterator[Finding]:
    """Settings of `deepspeed_config` in Accelerate's YAML, which may not stand beside a file at all."""
    section = arguments.get("deepspeed_config")
    if not isinstance(section, Mapping):
        return
    told = cast("Mapping[str, Any]", section)
    for item in PROFILES["accelerate"].settings:
        if told.get(item.argument) is not None:
            yield _beside_a_file(bound, item.path, item.argument, told[item.argument], context)
    precision = arguments.get("mixed_precision")
    if precision is not None:
        name = "fp16" if precision == "fp16" else "bf16"
        yield _beside_a_file(bound, (name, "enabled"), "mixed_precision", precision, context)


def _beside_a_file(bound: Bound, path: Path, argument: str, value: Any, context: Context) -> Finding:
    here = literal(bound, path)
    file = f"`{dotted(path)}` is {show(here)} here" if here is not None else f"the file is silent on `{dotted(path)}`"
    return Finding(
        path,
        f"`{argument}` is {show(value)} in {place_of(context, argument)}, and {file}; Accelerate refuses settings "
        "beside a configuration file, even equal ones",
        f"remove `{argument}` there; the file decides",
        phase="parse",
    )


def _lightning(arguments: Arguments, context: Context) -> Iterator[Finding]:
    if arguments.get("gradient_clip_algorithm") == "value":
        yield Finding(
            ("gradient_clipping",),
            f"`gradient_clip_algorithm` is value in {place_of(context, 'gradient_clip_algorithm')}; with DeepSpeed "
            "Lightning clips by norm only",
            "write norm",
            phase="step",
        )
    if str(arguments.get("precision")) in ("64", "64-true"):
        yield Finding(
            (),
            f"`precision` {arguments.get('precision')} in {place_of(context, 'precision')} is refused with DeepSpeed",
            "use 32-true",
        )
    if arguments.get("accelerator") == "cpu":
        yield Finding(
            (),
            f"`accelerator` is cpu in {place_of(context, 'accelerator')}; Lightning runs DeepSpeed on CUDA only",
            "use gpu",
        )
