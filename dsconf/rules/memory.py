"""Rules about memory, for a model and a machine that are known; `dsconf.memory` does the arithmetic.

It is imported once there is something to judge, since most files are validated without.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Path
from dsconf.rules.rule import Context, Finding, rule

if TYPE_CHECKING:
    from dsconf.diagnostic import Phase
    from dsconf.facts import Bound
    from dsconf.memory import Account, Machine, Model, Moment

_READS = ("zero_optimization", "optimizer", "bf16", "fp16", "data_types", "gradient_accumulation_steps")
_GIB = 2**30
_SEVEN = 7_000_000_000
_BF16 = {"enabled": True}


#: When most is held, in words.
_WHEN: dict[Moment, str] = {
    "build": "while the model is built",
    "layout": "in `deepspeed.initialize`",
    "masters": "in `deepspeed.initialize`",
    "hooks": "in `deepspeed.initialize`",
    "ready": "after `deepspeed.initialize`",
    "backward": "in the backward pass",
    "norm": "while the norm of the gradients is taken",
    "step": "in the optimizer's step",
    "between": "between two steps",
    "save": "while weights are saved",
}


def _accounted(bound: Bound, context: Context) -> Account | None:
    model = _model(context)
    if model is None:
        return None
    from dsconf import memory

    ranks = context.world_size or 1
    node = context.ranks_per_node or ranks
    world = memory.World(max(1, ranks // node), min(node, ranks))
    if context.zero_init is None:
        return memory.built_for(_machine(context), bound.config, model, world)
    return memory.account(bound.config, model, world, zero_init=context.zero_init)


def _bytes(size: float) -> str:
    from dsconf import memory

    return memory.show_bytes(size)


def _model(context: Context) -> Model | None:
    if not isinstance(context.model, int):
        return context.model
    from dsconf import memory

    return memory.Model.from_count(context.model)


def _machine(context: Context) -> Machine:
    from dsconf import memory

    return memory.Machine(context.gpu_memory_bytes, context.host_memory_bytes)


def _buckets(found: Account) -> int:
    from dsconf import memory

    return max(found.components(moment, "accelerator").get("communication buckets", 0) for moment in memory.MOMENTS)


def _without(found: Account, component: str) -> int:
    """The most that the accelerator would hold without a component."""
    from dsconf import memory

    return max(
        sum(size for name, size in found.components(moment, "accelerator").items() if name != component)
        for moment in memory.MOMENTS
    )


def _culprit(found: Account, machine: Machine) -> str:
    """The component without which the accelerator's memory would do; empty when there is no single one."""
    limit = machine.usable_accelerator_bytes
    if limit is None or found.accelerator_bytes <= limit:
        return ""
    for component in ("communication buckets", "gathered parameters"):
        if _without(found, component) <= limit:
            return component
    return ""


def _rounded_away(found: Account, machine: Machine) -> bool:
    """Whether the host would do, were pinned blocks not rounded up."""
    from dsconf import memory

    limit = machine.usable_host_bytes(found.world.ranks_per_node)
    return limit is not None and found.node_bytes(memory.HOST, rounded=False) <= limit < found.host_bytes


def _made_of(parts: dict[str, int]) -> str:
    """The three largest components."""
    largest = sorted(parts.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{name} {_bytes(size)}" for name, size in largest)


def _phase(moment: Moment) -> Phase:
    from dsconf import memory

    return "initialize" if moment in memory.BUILDING else "save" if moment == "save" else "step"


@rule(
    "DS970",
    "does-not-fit",
    "error",
    "exhausts",
    phase="step",
    reads=_READS,
    judge="arithmetic",
    summary="The job needs more memory than there is.",
    explanation="""Parameters, gradients, optimizer states and buffers are counted as DeepSpeed allocates them, for
    the rank that needs most and the moment that needs most, building the model included. What the driver, the
    communicator and fragmentation take is set aside first. Activations are not counted, so there must be room for
    them beside.""",
    source="runtime/zero/stage_1_and_2.py:505",
    bad={"bf16": _BF16, "zero_optimization": {"stage": 3}},
    good={"bf16": _BF16, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}},
    context=Context(
        world_size=1, model=_SEVEN, gpu_memory_bytes=24 * _GIB, host_memory_bytes=512 * _GIB, zero_init=True
    ),
)
def does_not_fit(bound: Bound, context: Context) -> Iterator[Finding]:
    found = _accounted(bound, context)
    if found is None:
        return
    machine = _machine(context)
    limit = machine.usable_accelerator_bytes
    if limit is None or found.accelerator_bytes <= limit or _culprit(found, machine):
        return
    moment, need = found.peak("accelerator")
    yield Finding(
        ("zero_optimization",),
        f"{found.model.name}: a rank needs {_bytes(need)} {_WHEN[moment]} "
        f"({_made_of(found.components(moment, 'accelerator'))}); an accelerator has {_bytes(limit)} for tensors, "
        f"{_bytes(need - limit)} too little",
        "`dsconf plan` shows which preset fits",
        phase=_phase(moment),
    )


@rule(
    "DS975",
    "host-too-small",
    "warning",
    "exhausts",
    phase="initialize",
    reads=_READS,
    judge="arithmetic",
    summary="The ranks of a node need more host memory than there is.",
    explanation="""Offloaded states take 16 to 20 bytes for each parameter of a node, and a model that is not built
    under `deepspeed.zero.Init` takes 4 on every rank while it is built. A system that can swap becomes very slow; any
    other kills the job. 5 % of the memory and half a GiB for each process are set aside first.""",
    source="runtime/zero/stage3.py:1157",
    bad={"bf16": _BF16, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}},
    good={
        "bf16": _BF16,
        "zero_optimization": {
            "stage": 3,
            "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme"},
            "sub_group_size": 100_000_000,
        },
    },
    context=Context(
        world_size=1, model=_SEVEN, gpu_memory_bytes=80 * _GIB, host_memory_bytes=96 * _GIB, zero_init=True
    ),
)
def host_too_small(bound: Bound, context: Context) -> Iterator[Finding]:
    found = _accounted(bound, context)
    if found is None:
        return
    from dsconf import memory

    machine = _machine(context)
    if _rounded_away(found, machine):
        return
    ranks = found.world.ranks_per_node
    limit = machine.usable_host_bytes(ranks)
    if limit is None or found.host_bytes <= limit:
        return
    moment = max(memory.MOMENTS, key=lambda moment: found.node_bytes(memory.HOST, (moment,)))
    zero = bound.config.zero_optimization
    blocks = [name for name in ("offload_optimizer", "offload_param") if getattr(zero, name, None) is not None]
    built = moment == "build" and not found.zero_init
    if built:
        what, help_ = "", "build the model on the meta device, or on one rank at a time"
        if found.settings.stage == 3:
            help_ = "build the model under `deepspeed.zero.Init`"
    else:
        what = f" ({_made_of(found.components(moment, *memory.HOST))} on each rank)"
        help_ = "`dsconf plan` shows which preset fits; offload to NVMe takes less of the host"
    yield Finding(
        ("zero_optimization", *(() if built else blocks[:1])),
        f"{found.model.name}: {'the ranks' if ranks > 1 else 'the rank'} of a node need{'' if ranks > 1 else 's'} "
        f"{_bytes(found.host_bytes)} of host memory {_WHEN[moment]}{what}; it has {_bytes(limit)} for tensors, "
        f"{_bytes(found.host_bytes - limit)} too little",
        help_,
        phase=_phase(moment),
    )


#: Buckets that take more than this share of an accelerator's memory are worth a word.
_MUCH = 0.2


@rule(
    "DS976",
    "large-buckets",
    "warning",
    "advice",
    reads=_READS,
    judge="arithmetic",
    summary="The reduction buckets alone take more than a fifth of an accelerator's memory.",
    explanation="""They are there at their full size whatever the size of the model: `reduce_bucket_size` elements in
    the type of the gradients, twice under `overlap_comm`, and as much again while they are sent. Smaller ones cost a
    little speed and leave room for a larger batch.""",
    source="runtime/zero/stage_1_and_2.py:3256",
    bad={"bf16": _BF16, "zero_optimization": {"stage": 2, "overlap_comm": True, "reduce_bucket_size": 500_000_000}},
    good={"bf16": _BF16, "zero_optimization": {"stage": 2, "overlap_comm": True, "reduce_bucket_size": 50_000_000}},
    context=Context(world_size=4, gpu_memory_bytes=15_000_000_000),
)
def large_buckets(bound: Bound, context: Context) -> Iterator[Finding]:
    if context.gpu_memory_bytes is None:
        return
    from dsconf import memory

    machine = _machine(context)
    limit = machine.usable_accelerator_bytes
    model = _model(context) or memory.Model("", (memory.Parameter(10**12),))
    found = memory.account(bound.config, model, memory.World(1, context.world_size or 1))
    if limit is None or (context.model and found.accelerator_bytes > limit and _culprit(found, machine)):
        return
    taken, size = _buckets(found), found.settings.reduce_bucket
    if size and taken > _MUCH * limit:
        copies = found.settings.gradient_bytes * size
        yield Finding(
            ("zero_optimization", "reduce_bucket_size"),
            f"the buckets take {_bytes(taken)} of {_bytes(limit)} for tensors: {taken / copies:.2g} times "
            f"`reduce_bucket_size`",
            f"set `reduce_bucket_size` to {_round(min(50_000_000, int(size * _MUCH * limit / taken)))}",
            at="value",
        )


@rule(
    "DS971",
    "buckets-exceed-free-memory",
    "error",
    "exhausts",
    phase="step",
    reads=_READS,
    judge="arithmetic",
    summary="The reduction buckets are larger than the memory that the rest leaves.",
    explanation="""Buckets are allocated at their full size, whatever the size of the model: `reduce_bucket_size`
    elements in the type of the gradients, twice under `overlap_comm`, and as much again while they are sent.
    Smaller buckets cost a little speed and nothing else.""",
    source="runtime/zero/stage_1_and_2.py:3256",
    bad={"bf16": _BF16, "zero_optimization": {"stage": 2, "reduce_bucket_size": 4_000_000_000}},
    good={"bf16": _BF16, "zero_optimization": {"stage": 2, "reduce_bucket_size": 50_000_000}},
    context=Context(world_size=8, model=_SEVEN, gpu_memory_bytes=40 * _GIB),
)
def buckets_exceed_free_memory(bound: Bound, context: Context) -> Iterator[Finding]:
    found = _accounted(bound, context)
    if found is None:
        return
    limit = _machine(context).usable_accelerator_bytes
    if limit is None or _culprit(found, _machine(context)) != "communication buckets":
        return
    free = limit - _without(found, "communication buckets")
    taken, size = _buckets(found), found.settings.reduce_bucket
    yield Finding(
        ("zero_optimization", "reduce_bucket_size") if size else ("zero_optimization",),
        f"the buckets take {_bytes(taken)}, and the rest leaves {_bytes(free)} of the accelerator",
        f"set `reduce_bucket_size` to {_round(size * free // taken)} or less" if size else "",
        at="value",
    )


@rule(
    "DS972",
    "gathered-parameters-exceed-memory",
    "error",
    "exhausts",
    phase="step",
    reads=_READS,
    judge="arithmetic",
    summary="Stage 3 may keep more parameters gathered than fit.",
    explanation="""Between two uses a parameter stays gathered when the second is within
    `stage3_max_reuse_distance` elements, as long as fewer than `stage3_max_live_parameters` are. Where forward turns
    to backward that is half the distance, 500 million elements by default, beside what is prefetched.""",
    source="runtime/zero/partitioned_param_coordinator.py:634",
    bad={
        "bf16": _BF16,
        "zero_optimization": {
            "stage": 3,
            "reduce_bucket_size": 50_000_000,
            "stage3_max_live_parameters": 7_000_000_000,
            "stage3_max_reuse_distance": 14_000_000_000,
        },
    },
    good={"bf16": _BF16, "zero_optimization": {"stage": 3, "reduce_bucket_size": 50_000_000}},
    context=Context(world_size=16, model=_SEVEN, gpu_memory_bytes=18 * _GIB, zero_init=True),
)
def gathered_parameters_exceed_memory(bound: Bound, context: Context) -> Iterator[Finding]:
    found = _accounted(bound, context)
    if found is None:
        return
    from dsconf import memory

    limit = _machine(context).usable_accelerator_bytes
    if limit is None or _culprit(found, _machine(context)) != "gathered parameters":
        return
    free = limit - _without(found, "gathered parameters")
    taken = max(found.components(moment, "accelerator").get("gathered parameters", 0) for moment in memory.MOMENTS)
    fits = _round(max(0, free - taken // 10) // found.settings.model_bytes)
    yield Finding(
        ("zero_optimization", "stage3_max_live_parameters"),
        f"gathered parameters take {_bytes(taken)}, and the rest leaves {_bytes(free)} of the accelerator",
        f"set `stage3_max_live_parameters` and `stage3_max_reuse_distance` to {fits} or less",
    )


@rule(
    "DS973",
    "nvme-buffer-below-largest-parameter",
    "error",
    "refused",
    phase="initialize",
    reads=("zero_optimization",),
    judge="arithmetic",
    summary="The NVMe buffers are smaller than a rank's part of the largest parameter.",
    explanation="""Parameters pass through buffers of `buffer_size` elements, and a part has to fit into one of
    them. The largest is as a rule the embedding.""",
    source="runtime/swap_tensor/partitioned_param_swapper.py:98",
    bad={
        "bf16": _BF16,
        "zero_optimization": {
            "stage": 3,
            "offload_param": {"device": "nvme", "nvme_path": "/local_nvme", "buffer_size": 10_000_000},
        },
    },
    good={
        "bf16": _BF16,
        "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/local_nvme"}},
    },
    context=Context(world_size=2, model=_SEVEN, zero_init=True),
)
def nvme_buffer_below_largest_parameter(bound: Bound, context: Context) -> Iterator[Finding]:
    zero = bound.config.zero_optimization
    block = getattr(zero, "offload_param", None)
    model = _model(context)
    if model is None or block is None or block.device != "nvme":
        return
    part = -(-model.largest_tensor // (context.world_size or 1))
    if block.buffer_size < part:
        yield Finding(
            ("zero_optimization", "offload_param", "buffer_size"),
            f"a rank's part of the largest parameter has {part} elements, and a buffer holds {block.buffer_size}",
            f"set `buffer_size` to at least {part}",
            at="value",
        )


@rule(
    "DS974",
    "pinned-memory-exceeds-host",
    "error",
    "exhausts",
    phase="initialize",
    reads=_READS,
    judge="arithmetic",
    summary="Pinned memory, rounded up, is more than the host has, and pageable memory would fit.",
    explanation="""PyTorch rounds every block of pinned memory up to a power of two, so that up to half of it is
    lost, and none of it can be swapped out. With `pin_memory` off the same tensors take their exact size; copies to
    the accelerator are slower then.""",
    source="runtime/zero/stage_1_and_2.py:563",
    bad={"bf16": _BF16, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}},
    good={
        "bf16": _BF16,
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": False}},
    },
    context=Context(world_size=1, model=_SEVEN, gpu_memory_bytes=80 * _GIB, host_memory_bytes=132 * _GIB),
)
def pinned_memory_exceeds_host(bound: Bound, context: Context) -> Iterator[Finding]:
    found = _accounted(bound, context)
    if found is None:
        return
    machine = _machine(context)
    if not _rounded_away(found, machine):
        return
    limit = machine.usable_host_bytes(found.world.ranks_per_node) or 0
    zero = bound.config.zero_optimization
    block = "offload_optimizer" if getattr(zero, "offload_optimizer", None) is not None else "offload_param"
    yield Finding(
        ("zero_optimization", block, "pin_memory"),
        f"{_bytes(found.pinned_bytes)} of pinned memory on a node, rounding included, make "
        f"{_bytes(found.host_bytes)} in all; the host has {_bytes(limit)} for tensors",
        'set "pin_memory": false, or use DS_PIN_MEMORY_BACKEND=native, which does not round',
    )


def _round(count: int) -> int:
    """Down to two digits, so that it can be remembered."""
    size = 10 ** max(0, len(str(count)) - 2)
    return count // size * size


@rule(
    "DS978",
    "nvme-buffer-needs-model",
    "info",
    "advice",
    reads=("zero_optimization",),
    judge="arithmetic",
    summary="NVMe buffers whose size only the model can tell.",
    explanation="""Parameters pass through buffers of `buffer_size` elements, 100 million unless set, and the engine
    refuses a model with a larger part of a parameter. The embedding of a large vocabulary is larger. Tell dsconf the
    model with `--model` or `--largest-layer`, and it checks.""",
    source="runtime/swap_tensor/partitioned_param_swapper.py:98",
    bad={
        "bf16": _BF16,
        "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/local_nvme"}},
    },
    good={"bf16": _BF16, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}},
)
def nvme_buffer_needs_model(bound: Bound, context: Context) -> Iterator[Finding]:
    block = getattr(bound.config.zero_optimization, "offload_param", None)
    if context.model is None and block is not None and block.device == "nvme":
        path: Path = ("zero_optimization", "offload_param", "buffer_size")
        yield Finding(
            path,
            f"a buffer holds {block.buffer_size} elements; whether every parameter fits into one depends on the model",
            "say which with --model DIR, or with --params and --largest-layer",
            at="value" if bound.given(*path) else "key",
        )
