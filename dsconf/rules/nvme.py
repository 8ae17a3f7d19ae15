"""Rules about what lives on an NVMe drive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Related, dotted
from dsconf.rules.data_types import precision
from dsconf.rules.rule import Context, Finding, remove, replace, rule

if TYPE_CHECKING:
    from dsconf.facts import Bound


@rule(
    "DS403",
    "nvme-optimizer-below-stage-3",
    "error",
    "coerced",
    block=True,
    summary="NVMe offload of the optimizer below stage 3.",
    explanation="""Stages 1 and 2 know host memory only: with `nvme` they keep the optimizer states in RAM,
    never open `nvme_path`, and the host may run out of memory that nobody planned for.""",
    source="runtime/zero/stage_1_and_2.py:220",
    bad={"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme"}}},
    good={"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}},
)
def nvme_optimizer_below_stage_3(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import UnknownTag

    for fact in bound.of(UnknownTag):
        if fact.value == "nvme" and fact.path[-1] == "device" and fact.block.name != "CpuOptimizerOffload":
            stage = bound.node((*fact.path[:-2], "stage"))
            yield Finding(
                fact.path,
                "below stage 3 the optimizer is offloaded to host memory, never to NVMe",
                "set `stage` to 3, or `device` to `cpu`",
                at="value",
                related=(Related((*fact.path[:-2], "stage"), "the stage is set here"),) if stage else (),
                fix=replace(fact.path, "cpu", "write `cpu`, which is what happens", safe=False),
            )


@rule(
    "DS404",
    "nvme-without-path",
    "error",
    "refused",
    phase="initialize",
    says="TypeError: expected str, bytes or os.PathLike object, not NoneType",
    block=True,
    summary="NVMe offload without `nvme_path`.",
    explanation="""The path has no default. DeepSpeed accepts the file and fails when it creates the swap
    folder, once the model is built and the job holds its accelerators, with a TypeError that names no setting.""",
    source="runtime/zero/stage3.py:840",
    bad={"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"}}},
    good={"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}},
)
def nvme_without_path(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Missing

    for fact in bound.of(Missing):
        if fact.path[-1] == "nvme_path":
            yield Finding(
                fact.path,
                f"`{dotted(fact.path[:-1]) or 'the block'}` goes to NVMe, and no `nvme_path` says where",
                'add "nvme_path": a directory on a local NVMe drive, of this job alone',
            )


@rule(
    "DS409",
    "aio-without-nvme",
    "warning",
    "ignored",
    reads=("zero_optimization.stage", "zero_optimization.offload_optimizer", "zero_optimization.offload_param"),
    mutes=True,
    summary="Settings for NVMe transfers while nothing is on NVMe.",
    explanation="""`aio` is used for offload to NVMe under stage 3, and by the fast checkpoint writer. Otherwise
    nothing reads it.""",
    source="runtime/zero/stage3.py:448",
    bad={"aio": {"block_size": 1048576}, "zero_optimization": {"stage": 2}},
    good={"zero_optimization": {"stage": 2}},
)
def aio_without_nvme(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    if config.aio is None or not bound.given("aio"):
        return
    if context.device == "cpu" and config.aio.use_gds:
        return
    zero = config.zero_optimization
    offloads = [zero.offload_optimizer, zero.offload_param] if zero is not None and zero.stage == 3 else []
    writer = config.checkpoint is not None and config.checkpoint.writer is not None
    if not writer and not any(offload is not None and offload.device == "nvme" for offload in offloads):
        yield Finding(
            ("aio",),
            "nothing is offloaded to NVMe, so nothing reads `aio`",
            "remove it, or offload to NVMe under stage 3",
            fix=remove(("aio",), "remove `aio`"),
        )


@rule(
    "DS410",
    "too-few-nvme-buffers",
    "error",
    "refused",
    phase="step",
    says="ValueError: range() arg 3 must not be zero",
    swaps=True,
    reads=("zero_optimization.offload_optimizer", "optimizer.type"),
    summary="Fewer NVMe buffers than the optimizer has tensors.",
    explanation="""Each parameter's Adam step needs four tensors in memory at once (parameter, gradient, two
    moments). With fewer buffers the first step that swaps fails.""",
    source="runtime/swap_tensor/partitioned_optimizer_swapper.py:79",
    bad={
        "zero_optimization": {
            "stage": 3,
            "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme", "buffer_count": 2},
        }
    },
    good={
        "zero_optimization": {
            "stage": 3,
            "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme", "buffer_count": 4},
        }
    },
)
def too_few_nvme_buffers(bound: Bound, context: Context) -> Iterator[Finding]:
    zero, optimizer = bound.config.zero_optimization, bound.config.optimizer
    if zero is None or zero.stage != 3 or zero.offload_optimizer is None or zero.offload_optimizer.device != "nvme":
        return
    count = zero.offload_optimizer.buffer_count
    adam = optimizer is None or optimizer.type in ("Adam", "AdamW")
    if count < 4 and (adam or count < 1):
        yield Finding(
            ("zero_optimization", "offload_optimizer", "buffer_count"),
            f"`buffer_count` is {count}; Adam needs 4 buffers at once",
            "write 4 or more: 8 with `pipeline_read` or `pipeline_write`, 12 with both",
            at="value",
        )


#: Tensors of fewer bytes than this never go to the drive.
_SMALLEST = 1 << 20
#: Bytes that a drive reads and writes at once, past the page cache.
_SECTOR = 512


@rule(
    "DS414",
    "nvme-buffer-too-small",
    "error",
    "refused",
    phase="initialize",
    says="AssertionError: More elements 1048576 than buffer size 1000",
    swaps=True,
    reads=("zero_optimization.offload_param", "fp16.enabled", "bf16.enabled"),
    summary="Buffers too small for any parameter that goes to NVMe.",
    explanation="""Parameters below 1 MiB stay in memory. A `buffer_size` that is smaller
    cannot hold any of the others, and DeepSpeed stops at the first one. It must hold the largest parameter's share
    of a rank, in elements.""",
    source="runtime/swap_tensor/partitioned_param_swapper.py:357",
    bad={
        "zero_optimization": {
            "stage": 3,
            "offload_param": {"device": "nvme", "nvme_path": "/local_nvme", "buffer_size": 1000},
        }
    },
    good={
        "zero_optimization": {
            "stage": 3,
            "offload_param": {"device": "nvme", "nvme_path": "/local_nvme", "buffer_size": 4000000},
        }
    },
)
def nvme_buffer_too_small(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    zero = config.zero_optimization
    if zero is None or zero.stage != 3 or zero.offload_param is None or zero.offload_param.device != "nvme":
        return
    smallest = _SMALLEST // (4 if precision(config) == "fp32" else 2)
    size = zero.offload_param.buffer_size
    if size < smallest:
        yield Finding(
            ("zero_optimization", "offload_param", "buffer_size"),
            f"`buffer_size` is {size} elements; parameters that go to the drive have at least {smallest}",
            "write at least the number of elements of the largest parameter, divided by the number of ranks",
            at="value",
        )


@rule(
    "DS415",
    "max-in-cpu-zero",
    "error",
    "refused",
    phase="load",
    says="AttributeError: 'NoneType' object has no attribute 'data'",
    reads=("zero_optimization.offload_param",),
    summary="`max_in_cpu` of zero.",
    explanation="""With parameters on NVMe and none admitted to host memory DeepSpeed loses track of their buffers.
    Small models train and cannot load what they saved; others fail after the first step.""",
    source="runtime/zero/stage3.py:900",
    bad={
        "zero_optimization": {
            "stage": 3,
            "stage3_param_persistence_threshold": 0,
            "offload_param": {"device": "nvme", "nvme_path": "/local_nvme", "max_in_cpu": 0},
        }
    },
    good={
        "zero_optimization": {
            "stage": 3,
            "stage3_param_persistence_threshold": 0,
            "offload_param": {"device": "nvme", "nvme_path": "/local_nvme", "max_in_cpu": 1000000000},
        }
    },
)
def max_in_cpu_zero(bound: Bound, context: Context) -> Iterator[Finding]:
    zero = bound.config.zero_optimization
    if zero is None or zero.stage != 3 or zero.offload_param is None or zero.offload_param.device != "nvme":
        return
    path = ("zero_optimization", "offload_param", "max_in_cpu")
    if zero.offload_param.max_in_cpu == 0:
        yield Finding(
            path,
            "with `max_in_cpu` 0 DeepSpeed cannot restore or keep using the parameters",
            "remove it, or write the number of elements that host memory can hold",
            at="value",
            fix=remove(path, "remove `max_in_cpu`", safe=False),
        )


@rule(
    "DS416",
    "aio-block-not-aligned",
    "error",
    "refused",
    phase="step",
    says="Crash: the process died: signal 6",
    swaps=True,
    reads=("aio.block_size",),
    summary="An `aio.block_size` that is no multiple of 512.",
    explanation="""Transfers go past the page cache, in whole sectors of the drive. Any other size ends the process
    when the first tensor moves, without a Python error.""",
    source="runtime/swap_tensor/utils.py:21",
    bad={
        "aio": {"block_size": 1000},
        "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme"}},
    },
    good={
        "aio": {"block_size": 1024},
        "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme"}},
    },
)
def aio_block_not_aligned(bound: Bound, context: Context) -> Iterator[Finding]:
    aio = bound.config.aio
    if aio is not None and aio.block_size % _SECTOR:
        yield Finding(
            ("aio", "block_size"),
            f"`block_size` is {aio.block_size} bytes, which is no multiple of {_SECTOR}",
            "write 1048576",
            at="value",
            fix=replace(("aio", "block_size"), 1 << 20, "write 1048576", safe=False),
        )


@rule(
    "DS417",
    "too-few-pipeline-buffers",
    "warning",
    "advice",
    swaps=True,
    reads=("zero_optimization.offload_optimizer",),
    summary="Too few NVMe buffers for the tiles that are in memory at once.",
    explanation="""With `pipeline_read` the next tile is read and with `pipeline_write` the previous one written while
    one is computed, each with buffers of its own: Adam needs 8 with one of them and 12 with both. With fewer, a model
    of several tiles (`sub_group_size`) fails in the first step, or in the second one.""",
    source="runtime/swap_tensor/pipelined_optimizer_swapper.py:219",
    bad={
        "zero_optimization": {
            "stage": 3,
            "offload_optimizer": {
                "device": "nvme",
                "nvme_path": "/local_nvme",
                "pipeline_read": True,
                "pipeline_write": True,
            },
        }
    },
    good={
        "zero_optimization": {
            "stage": 3,
            "offload_optimizer": {
                "device": "nvme",
                "nvme_path": "/local_nvme",
                "pipeline_read": True,
                "pipeline_write": True,
                "buffer_count": 12,
            },
        }
    },
)
def too_few_pipeline_buffers(bound: Bound, context: Context) -> Iterator[Finding]:
    zero, optimizer = bound.config.zero_optimization, bound.config.optimizer
    if zero is None or zero.stage != 3 or zero.offload_optimizer is None or zero.offload_optimizer.device != "nvme":
        return
    offload = zero.offload_optimizer
    count, adam = offload.buffer_count, optimizer is None or optimizer.type in ("Adam", "AdamW")
    # Weights, gradients, and one or two moments.
    tensors = 3 if optimizer is not None and optimizer.type in ("Adagrad", "Lion") else 4
    needed = tensors * (1 + offload.pipeline_read + offload.pipeline_write)
    if tensors < needed and count < needed and (count >= tensors or not adam):
        meanwhile = " and ".join(
            word for word, asked in (("read", offload.pipeline_read), ("write", offload.pipeline_write)) if asked
        )
        given = "buffer_count" in offload.model_fields_set
        yield Finding(
            (
                "zero_optimization",
                "offload_optimizer",
                "buffer_count" if given else "pipeline_write" if offload.pipeline_write else "pipeline_read",
            ),
            f"{count} buffers are too few to {meanwhile} tiles while one is computed, once a model has several",
            f"write {needed}" if given else f'add "buffer_count": {needed}',
        )
