"""Rules about the optimizer and the schedule that a trainer's script brings beside the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.rules.readers import profile_of
from dsconf.rules.rule import Context, Finding, rule

if TYPE_CHECKING:
    from dsconf.facts import Bound


@rule(
    "DS964",
    "script-optimizer-lost",
    "error",
    "ignored",
    judge="reader",
    summary="An optimizer in the file and another in the script.",
    explanation="""Accelerate refuses a real optimizer beside the file's and wants a DummyOptim in its place. The
    Trainer throws the one given as `optimizers` away, and Lightning never calls `configure_optimizers`.""",
    source="accelerate/accelerator.py:2252",
    bad={
        "train_micro_batch_size_per_gpu": 2,
        "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
        "zero_optimization": {"stage": 2},
    },
    good={"train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0, "zero_optimization": {"stage": 2}},
    whole=True,
    context=Context(reader="transformers", optimizer="client"),
)
def script_optimizer_lost(bound: Bound, context: Context) -> Iterator[Finding]:
    profile = profile_of(context)
    if profile is None:
        return
    if not bound.given("optimizer"):
        if context.reader == "accelerate" and context.optimizer == "config":
            yield Finding(
                ("optimizer",),
                "the script passes DummyOptim, and the file has no optimizer for it; Accelerate refuses",
                'add "optimizer", or pass a real one to `prepare`',
                effect="refused",
                phase="initialize",
            )
        return
    if context.optimizer in ("config", "none") or bound.config.optimizer is None:
        return
    if context.optimizer is None:
        yield Finding(
            ("optimizer",), f"with {profile.name}, {profile.script_optimizer}", severity="info", effect="advice"
        )
        return
    refused = context.reader == "accelerate"
    yield Finding(
        ("optimizer",),
        "the file has an optimizer and so has the script; "
        + (f"{profile.name} refuses the two together" if refused else f"{profile.name} drops the script's"),
        "pass DummyOptim to `prepare`, or remove `optimizer`" if refused else "remove one of the two",
        effect="refused" if refused else None,
        phase="initialize" if refused else None,
    )


@rule(
    "DS967",
    "script-scheduler-and-file",
    "error",
    "refused",
    phase="initialize",
    judge="reader",
    summary="A schedule in the file and another in the script, or none where one is counted on.",
    explanation="""Accelerate refuses a real schedule beside the file's, and a DummyScheduler where the file has none.
    Lightning takes the one of the module and never looks at the file's.""",
    source="accelerate/accelerator.py:2277",
    bad={"zero_optimization": {"stage": 2}, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10}}},
    good={"zero_optimization": {"stage": 2}},
    context=Context(reader="accelerate", scheduler="client"),
)
def script_scheduler_and_file(bound: Bound, context: Context) -> Iterator[Finding]:
    given, path = bound.given("scheduler"), ("scheduler",)
    if context.reader == "accelerate" and context.scheduler == "client" and given:
        yield Finding(
            path,
            "the file has a schedule and so has the script; Accelerate refuses the two together",
            "pass DummyScheduler to `prepare`, or remove `scheduler`",
        )
    elif context.reader == "accelerate" and context.scheduler == "config" and not given:
        yield Finding(
            path,
            "the script passes DummyScheduler, and the file has no schedule for it; Accelerate refuses",
            'add "scheduler", or give DummyScheduler a callable',
        )
    elif context.reader == "lightning" and context.scheduler == "client" and given:
        yield Finding(
            path,
            "the module brings its own schedule, so this one is never used",
            "remove it, or return no schedule from `configure_optimizers`",
            severity="warning",
            effect="ignored",
        )
