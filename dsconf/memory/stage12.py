"""Stages 1 and 2: optimizer states, and at stage 2 gradients, are cut over the ranks as one flat tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dsconf.memory.account import ALWAYS, STEPPED, Component, Item, Moment, Place
from dsconf.memory.machine import World
from dsconf.memory.model import Model
from dsconf.memory.settings import Settings

_ZERO = "runtime/zero/stage_1_and_2.py"
_BF16 = "runtime/bf16_optimizer.py"


def items(settings: Settings, model: Model, world: World, rank: int | None) -> Iterator[Item]:
    """What a rank holds.

    Source: runtime/zero/stage_1_and_2.py:441 (the flat tensor and its padding), runtime/engine.py:2305 (which wrapper).
    """
    width, ranks = settings.model_bytes, world.ranks
    sizes = [item.numel for item in model.parameters if item.trainable]
    padding = _alignment(sizes, width) if settings.zero.parameter_alignment else 0
    flat = _up(sum(sizes) + padding, 2 * ranks)
    part = flat // ranks
    trained = sum(sizes)
    placed: tuple[Moment, ...] = ("layout", "masters", *ALWAYS)
    yield Item("parameters", "accelerator", width * model.count, placed, f"{_ZERO}:505")
    yield Item("padding", "accelerator", width * (flat - trained), placed, f"{_ZERO}:505")
    # The flat copy is made beside the tensors that it takes the place of: on the host, unless the accelerator has room.
    place: Place = "accelerator" if _accumulates_whole(settings) else "pageable"
    yield Item("temporaries", place, width * trained, ("layout",), f"{_ZERO}:439")
    if settings.trial_states_bytes:
        kept = settings.trial_states_bytes * trained
        yield Item("optimizer states", "accelerator", kept, placed, "runtime/engine.py:2353")
    if _accumulates_whole(settings):
        yield from _bf16_optimizer(settings, model, world, flat)
        return
    offloaded = settings.optimizer_device != "none"
    home: Place = "pageable" if offloaded else "accelerator"
    pinned = _pinned(settings)
    yield from _cut(
        "master parameters",
        pinned if offloaded else home,
        settings.master_bytes,
        trained,
        part,
        ranks,
        ("masters", *ALWAYS),
        f"{_ZERO}:562",
    )
    yield from _cut(
        "optimizer states",
        home,
        settings.states_bytes,
        trained,
        part,
        ranks,
        ALWAYS if settings.states_at_once else STEPPED,
        f"{_ZERO}:934",
    )
    if settings.states_at_once:
        # Such an optimizer is built anew once the master parameters are there, and fills its states at once.
        yield Item("optimizer states", home, settings.states_bytes * part, ("masters",), f"{_ZERO}:943")
    if offloaded:
        yield from _offloaded(settings, model, part, sizes, ranks, rank)
    else:
        yield Item("temporaries", "accelerator", settings.master_bytes * part, ("masters",), f"{_ZERO}:934")
        yield from _resident(settings, model, part, sizes, ranks, rank)


def _accumulates_whole(settings: Settings) -> bool:
    """Whether BF16_Optimizer runs, whose fp32 gradients are whole on every rank."""
    bf16 = settings.config.bf16
    return (
        settings.stage == 1
        and bool(bf16 and bf16.enabled)
        and settings.gradient_bytes == 4
        and settings.optimizer_device == "none"
    )


def _bf16_optimizer(settings: Settings, model: Model, world: World, flat: int) -> Iterator[Item]:
    """Source: runtime/bf16_optimizer.py:191 (gradients), 532 (the 16-bit ones stay), 707."""
    trained, part = model.trainable_count, flat // world.ranks
    yield Item("master parameters", "accelerator", 4 * part, ("masters", *ALWAYS), f"{_BF16}:167")
    yield Item("gradients", "accelerator", 4 * flat, ("masters", *ALWAYS), f"{_BF16}:191")
    moments = ALWAYS if settings.states_at_once else STEPPED
    yield Item("optimizer states", "accelerator", settings.states_bytes * part, moments, f"{_BF16}:198")
    bf16 = settings.config.bf16
    if not (bf16 and bf16.immediate_grad_update):
        yield Item("gradients", "accelerator", 2 * trained, ("backward", "norm", "step"), f"{_BF16}:532")
    yield Item("temporaries", "accelerator", 4 * model.largest_trainable, ("norm",), f"{_BF16}:329")


def _resident(
    settings: Settings, model: Model, part: int, sizes: Sequence[int], ranks: int, rank: int | None
) -> Iterator[Item]:
    """Gradients on the accelerator, from the first hook of a backward pass to the step.

    Source: runtime/zero/stage_1_and_2.py:3256 (buckets), 2184 (gradients of the partition), 1259 (fp32 accumulation),
    2684 (the norm in fp64), 3103 (the step).
    """
    width, trained = settings.model_bytes, sum(sizes)
    compact = settings.gradient_bytes == 4 and width == 2
    own = settings.gradient_bytes * part if compact else width * touched(sizes, part, ranks, rank)
    once = settings.stage == 2 and not settings.overlap and settings.accumulation_steps == 1 and not compact
    if once and settings.zero.contiguous_gradients and trained <= settings.reduce_bucket:
        # All gradients go into one bucket, and the rank's own are taken out of it when the copy to send is gone.
        taken = max(own, width * model.largest_trainable) - _sent(settings, trained, width, ranks)
        yield Item("gradients", "accelerator", max(0, taken), ("backward",), f"{_ZERO}:2205")
        yield Item("gradients", "accelerator", own, ("norm",), f"{_ZERO}:2184")
    elif settings.stage == 1 and not (settings.overlap and settings.accumulation_steps == 1):
        whole = (4 if compact else width) * trained
        yield Item("gradients", "accelerator", whole, ("backward",), f"{_ZERO}:1234")
        yield Item("gradients", "accelerator", own, ("backward", "norm"), f"{_ZERO}:2184")
    else:
        yield Item("temporaries", "accelerator", width * model.largest_trainable, ("backward",), f"{_ZERO}:1443")
        if settings.accumulation_steps > 1 and not compact:
            yield Item("gradients", "accelerator", own, ("backward",), f"{_ZERO}:1038")
        yield Item("gradients", "accelerator", own, ("backward", "norm"), f"{_ZERO}:2184")
    yield from _buckets(settings, trained, width, ranks)
    yield Item("temporaries", "accelerator", 8 * model.largest_trainable, ("norm",), f"{_ZERO}:2684")
    yield Item("gradients", "accelerator", own, ("step",), f"{_ZERO}:3103")
    if not compact:
        flat_copy = settings.gradient_bytes * part
        cast = settings.master_bytes * part if settings.master_bytes != settings.gradient_bytes else 0
        yield Item("temporaries", "accelerator", flat_copy + cast, ("step",), f"{_ZERO}:3103")


def _offloaded(
    settings: Settings, model: Model, part: int, sizes: Sequence[int], ranks: int, rank: int | None
) -> Iterator[Item]:
    """Gradients and new weights pass through buffers on the host that are there for good.

    Source: runtime/zero/stage_1_and_2.py:934 (gradients), 563 (weights), 653 (one tensor), 1822 (accumulation).
    """
    width, trained, pinned = settings.model_bytes, sum(sizes), _pinned(settings)
    compact = settings.gradient_bytes == 4 and width == 2
    built: tuple[Moment, ...] = ("masters", *ALWAYS)
    yield Item("gradients", pinned, settings.master_bytes * part, built, f"{_ZERO}:934")
    yield Item("offload buffers", pinned, width * part, built, f"{_ZERO}:563")
    yield Item("offload buffers", pinned, width * model.largest_trainable, built, f"{_ZERO}:653")
    yield Item("offload buffers", "accelerator", width * model.largest_trainable, built, f"{_ZERO}:653")
    own = touched(sizes, part, ranks, rank)
    alive: tuple[Moment, ...] = ("backward", "norm", "step")
    # Stage 1 reduces once in a step, so it has nothing to add up here.
    if settings.stage == 2 and settings.accumulation_steps > 1 and not compact and settings.master_bytes == 4:
        yield Item("gradients", pinned, width * own, (*alive, "between", "save"), f"{_ZERO}:2166")
    if compact:
        yield Item("gradients", "accelerator", 4 * part, alive, f"{_ZERO}:1259")
        if settings.stage == 1:
            foreign = trained - own
            yield Item("gradients", "accelerator", 4 * min(settings.reduce_bucket, foreign), alive, f"{_ZERO}:1234")
    if settings.stage == 1 and not settings.overlap:
        yield Item("gradients", "accelerator", (4 if compact else width) * trained, ("backward",), f"{_ZERO}:1234")
    else:
        yield Item("temporaries", "accelerator", width * model.largest_trainable, ("backward",), f"{_ZERO}:1443")
    # Norms are taken while gradients arrive.
    yield Item("temporaries", "accelerator", 8 * model.largest_trainable, ("backward",), f"{_ZERO}:1866")
    yield from _buckets(settings, trained, width, ranks)


def _buckets(settings: Settings, trained: int, width: int, ranks: int) -> Iterator[Item]:
    """Source: runtime/zero/stage_1_and_2.py:3256; they are not cut to the size of the model. 1690: the copy."""
    count = 2 if settings.overlap else 1
    if settings.zero.contiguous_gradients:
        size = settings.reduce_bucket * width * count
        yield Item("communication buckets", "accelerator", size, ("backward",), f"{_ZERO}:3256")
    yield Item(
        "communication buckets", "accelerator", _sent(settings, trained, width, ranks), ("backward",), f"{_ZERO}:1690"
    )


def _sent(settings: Settings, trained: int, width: int, ranks: int) -> int:
    """Bytes of the copy of a bucket that is sent, in the type that is sent."""
    # At stage 1 all gradients are there before the first is sent, and those that were sent make room.
    if ranks == 1 or (settings.stage == 1 and not settings.overlap):
        return 0
    other = settings.communication_bytes if settings.communication_bytes != width else 0
    return min(settings.reduce_bucket, trained) * (width + other)


def touched(sizes: Sequence[int], part: int, ranks: int, rank: int | None) -> int:
    """Elements of the tensors that lie in a rank's part, whole: one that straddles a border is kept by both ranks.

    Without a rank: of the rank that has most.
    """
    counts = [0] * ranks
    offset = 0
    for size in sizes:
        first = offset // part
        last = min((offset + size - 1) // part, ranks - 1)
        for index in range(first, last + 1):
            counts[index] += size
        offset += size
    return max(counts) if rank is None else counts[rank]


def _cut(
    component: Component,
    place: Place,
    width: int,
    trained: int,
    part: int,
    ranks: int,
    moments: tuple[Moment, ...],
    source: str,
) -> Iterator[Item]:
    """A rank's part of something, and what the part is rounded up by."""
    share = trained // ranks
    yield Item(component, place, width * share, moments, source)
    yield Item("padding", place, width * (part - share), moments, source)


def _pinned(settings: Settings) -> Place:
    block = settings.zero.offload_optimizer
    return "pinned" if block is not None and getattr(block, "pin_memory", False) else "pageable"


def _alignment(sizes: Sequence[int], width: int) -> int:
    """Elements that `parameter_alignment` adds; source: runtime/zero/stage_1_and_2.py:444."""
    step = 16 // width
    offset = 0
    for size in sizes[:-1]:
        offset = _up(offset + size, step)
    return offset + sizes[-1] - sum(sizes) if sizes else 0


def _up(count: int, step: int) -> int:
    return -(-count // step) * step
