"""Rules about how checkpoints are saved and loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.rules.rule import Context, Finding, remove, replace, rule

if TYPE_CHECKING:
    from dsconf.facts import Bound

_WRITER = ("checkpoint", "writer")


@rule(
    "DS921",
    "checkpoint-writer-fails",
    "error",
    "refused",
    phase="initialize",
    says="AttributeError: 'UniversalParallelInfo' object has no attribute 'dp_rank'",
    reads=("checkpoint.writer", "zero_optimization.stage"),
    summary="`checkpoint.writer` where the fast writer does not work.",
    explanation="""Below stage 3 the writer needs `data_parallel`, or it fails when it is built, except with a
    parallel layout of the script's own or experts. In a process of its own (`decoupled`) it cannot save under stages
    1 and 2. And since PyTorch 2.6 it cannot read its own checkpoints under ZeRO: it loads them as weights only, and
    they hold more. What works is stage 0 with `data_parallel`, and stage 3 saving with `decoupled`.""",
    source="runtime/model_checkpointing/data_parallel_writer_factory.py:95",
    bad={"checkpoint": {"writer": {"type": "python"}}},
    good={"zero_optimization": {"stage": 3}, "checkpoint": {"writer": {"type": "python", "decoupled": True}}},
)
def checkpoint_writer_fails(bound: Bound, context: Context) -> Iterator[Finding]:
    checkpoint = bound.config.checkpoint
    writer = checkpoint.writer if checkpoint else None
    stage = bound.config.zero_stage
    if writer is None or writer.type == "mock":
        return
    if stage < 3 and writer.data_parallel is None:
        yield Finding(
            _WRITER,
            "the checkpoint writer fails when it is built: below stage 3 it needs `data_parallel`",
            'add "data_parallel": "replica"' if stage == 0 else "remove `writer`",
        )
    elif stage in (1, 2) and writer.decoupled:
        yield Finding(
            (*_WRITER, "decoupled"),
            f"under stage {stage} a decoupled writer cannot save: the weights cannot be handed to its process",
            "remove `writer`",
            phase="save",
        )
    elif stage and not writer.decoupled:
        yield Finding(
            _WRITER,
            f"the checkpoint writer saves under stage {stage}, but PyTorch 2.6 and later refuse to load what it saved",
            "remove `writer`",
            phase="load",
        )


@rule(
    "DS922",
    "checkpoint-option-unread",
    "warning",
    "ignored",
    reads=("checkpoint", "zero_optimization.stage"),
    summary="A checkpoint setting that another one silences.",
    explanation="""Under stage 3 every rank writes its own part, whatever `data_parallel` says. The I/O settings
    belong to the writer of type `fast`. A writer takes precedence over `datastates_ckpt`.""",
    source="runtime/model_checkpointing/data_parallel_writer_factory.py:33",
    bad={
        "zero_optimization": {"stage": 3},
        "checkpoint": {"writer": {"type": "python", "decoupled": True, "data_parallel": "machine"}},
    },
    good={"zero_optimization": {"stage": 3}, "checkpoint": {"writer": {"type": "python", "decoupled": True}}},
)
def checkpoint_option_unread(bound: Bound, context: Context) -> Iterator[Finding]:
    checkpoint = bound.config.checkpoint
    writer = checkpoint.writer if checkpoint else None
    if writer is None:
        return
    if bound.config.zero_stage == 3 and writer.data_parallel is not None:
        path = (*_WRITER, "data_parallel")
        yield Finding(
            path,
            "under stage 3 every rank writes its own part, and nothing reads `data_parallel`",
            "remove it",
            fix=remove(path, "remove it"),
        )
    for name in ("io_buffer_size", "io_buffer_double"):
        path = (*_WRITER, name)
        if writer.type != "fast" and bound.given(*path):
            yield Finding(
                path,
                f'`{name}` belongs to the writer of type "fast", and this one is "{writer.type}"',
                "remove it",
                fix=remove(path, "remove it"),
            )
    if bound.given("datastates_ckpt") and bound.config.datastates_ckpt is not False:
        yield Finding(
            ("datastates_ckpt",), "`checkpoint.writer` takes precedence over `datastates_ckpt`", "keep one of the two"
        )


@rule(
    "DS923",
    "mock-writer",
    "error",
    "refused",
    phase="load",
    says="EOFError",
    reads=("checkpoint.writer",),
    summary="A checkpoint writer that writes nothing.",
    explanation="""The writer of type `mock` measures everything but the writing: the files of a checkpoint are
    empty, and loading them fails.""",
    source="runtime/model_checkpointing/writer_factory.py:40",
    bad={"checkpoint": {"writer": {"type": "mock", "data_parallel": "replica"}}},
    good={"zero_optimization": {"stage": 3}, "checkpoint": {"writer": {"type": "python", "decoupled": True}}},
)
def mock_writer(bound: Bound, context: Context) -> Iterator[Finding]:
    checkpoint = bound.config.checkpoint
    if checkpoint and checkpoint.writer and checkpoint.writer.type == "mock":
        path = (*_WRITER, "type")
        yield Finding(
            path,
            'the writer "mock" writes empty files; no checkpoint can be loaded',
            'write "fast" or "python"',
            at="value",
            fix=replace(path, "python", 'write "python"', safe=False),
        )


@rule(
    "DS924",
    "universal-checkpoint-without-zero",
    "error",
    "refused",
    phase="load",
    shown=False,
    reads=("checkpoint", "zero_optimization.stage", "bf16", "fp16"),
    summary="`load_universal` with a plain optimizer.",
    explanation="""After loading a universal checkpoint the engine asks the optimizer to refresh the working copy of
    the weights. Only the optimizers of ZeRO, bf16 and fp16 have one; any other fails.""",
    source="runtime/engine.py:4488",
    bad={"checkpoint": {"load_universal": True}},
    good={"checkpoint": {"load_universal": True}, "zero_optimization": {"stage": 1}},
)
def universal_checkpoint_without_zero(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    half = (config.bf16 and config.bf16.enabled) or (config.fp16 and config.fp16.enabled)
    if config.checkpoint and config.checkpoint.load_universal and not half and config.zero_stage == 0:
        yield Finding(
            ("checkpoint", "load_universal"),
            "loading a universal checkpoint fails without ZeRO, `bf16` or `fp16`",
            'add "zero_optimization": {"stage": 1}',
        )


@rule(
    "DS925",
    "datastates-switched-on",
    "error",
    "refused",
    phase="initialize",
    says="RuntimeError: Please install DataStates",
    reads=("datastates_ckpt", "checkpoint.writer"),
    summary="`datastates_ckpt: null` switches it on.",
    explanation="""Anything but the value false selects the checkpoint engine of DataStates-LLM, null and an empty
    object too. It needs a package of its own, without which the engine is not built.""",
    source="datastates/config.py:20",
    bad={"datastates_ckpt": None},
    good={"datastates_ckpt": False},
)
def datastates_switched_on(bound: Bound, context: Context) -> Iterator[Finding]:
    path = ("datastates_ckpt",)
    value = bound.config.datastates_ckpt
    if not bound.given(*path) or value is False or bound.given(*_WRITER):
        return
    if value is None:
        yield Finding(
            path,
            "null switches `datastates_ckpt` on; only false switches it off",
            "remove it",
            at="value",
            fix=remove(path, "remove it", safe=False),
        )
    else:
        yield Finding(
            path,
            "`datastates_ckpt` needs the package of DataStates-LLM",
            "install it on every machine",
            severity="info",
        )


@rule(
    "DS926",
    "checkpoint-writer-needs-launcher",
    "info",
    "advice",
    reads=("checkpoint.writer",),
    summary="`checkpoint.writer` needs the `deepspeed` launcher.",
    explanation="""The writer reads the environment variables CROSS_SIZE and CROSS_RANK, the number of machines and
    this one's number. Only the `deepspeed` launcher sets them; under `torchrun` and others the engine is not built.""",
    source="runtime/model_checkpointing/utils.py:76",
    bad={"zero_optimization": {"stage": 3}, "checkpoint": {"writer": {"type": "python", "decoupled": True}}},
    good={},
)
def checkpoint_writer_needs_launcher(bound: Bound, context: Context) -> Iterator[Finding]:
    checkpoint = bound.config.checkpoint
    if checkpoint and checkpoint.writer:
        yield Finding(
            _WRITER,
            "`checkpoint.writer` works under the `deepspeed` launcher only",
            "start with `deepspeed`, or set CROSS_SIZE and CROSS_RANK yourself",
        )


@rule(
    "DS927",
    "weights-not-saved",
    "error",
    "advice",
    reads=("zero_optimization.stage", "zero_optimization.stage3_gather_16bit_weights_on_model_save"),
    context=Context(exports=True),
    summary="16-bit weights to be saved under stage 3 without gathering them.",
    explanation="""Under stage 3 no rank has the whole weights. `save_16bit_model` writes nothing, warns and returns
    false, unless `stage3_gather_16bit_weights_on_model_save` is true. A checkpoint still holds them, in parts.""",
    source="runtime/engine.py:5738",
    bad={"zero_optimization": {"stage": 3}},
    good={"zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}},
)
def weights_not_saved(bound: Bound, context: Context) -> Iterator[Finding]:
    zero = bound.config.zero_optimization
    if context.exports and context.reader == "deepspeed" and zero is not None and zero.stage == 3:
        path = ("zero_optimization", "stage3_gather_16bit_weights_on_model_save")
        if not zero.stage3_gather_16bit_weights_on_model_save:
            yield Finding(
                path,
                "16-bit weights are to be saved, but stage 3 does not gather them; `save_16bit_model` writes nothing",
                "set it to true, or convert a checkpoint afterwards",
                at="value",
            )
