"""Stage 3: every parameter is cut over the ranks by itself, gathered for the module that needs it, and let go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dsconf.memory.account import ALWAYS, STEPPED, Item, Moment, Place
from dsconf.memory.machine import World
from dsconf.memory.model import Model
from dsconf.memory.settings import Settings

_ZERO = "runtime/zero/stage3.py"
_INIT = "runtime/zero/partition_parameters.py"
_FETCH = "runtime/zero/partitioned_param_coordinator.py"
_REDUCE = "runtime/comm/coalesced_collectives.py"
_GLOO = "torch/csrc/distributed/c10d/ProcessGroupGloo.cpp"
_SWAP = "runtime/swap_tensor"
#: Elements that are cast to fp64 at a time.
_NORM_AT_ONCE = 250_000_000
#: What is smaller is never written to a drive.
_SWAPPED_FROM_BYTES = 2**20
_BUILT: tuple[Moment, ...] = ("masters", *ALWAYS)


def items(settings: Settings, model: Model, world: World, zero_init: bool) -> Iterator[Item]:
    """What a rank holds.

    Source: runtime/zero/partition_parameters.py:1690 (each tensor is padded to the ranks by itself).
    """
    ranks = world.ranks
    sizes = [item.numel for item in model.parameters if item.trainable]
    parts = [-(-size // ranks) for size in sizes]
    frozen = sum(-(-item.numel // ranks) for item in model.parameters if not item.trainable)
    yield from _parameters(settings, model, world, sizes, parts, frozen, zero_init)
    yield from _optimizer(settings, model, ranks, parts)
    yield from _communication(settings, model, ranks)


def _parameters(
    settings: Settings,
    model: Model,
    world: World,
    sizes: Sequence[int],
    parts: Sequence[int],
    frozen: int,
    zero_init: bool,
) -> Iterator[Item]:
    """Source: runtime/zero/stage3.py:906 (the flat buffer), runtime/engine.py:2093 (a whole model moves whole)."""
    width, ranks, part = settings.model_bytes, world.ranks, sum(parts)
    device = settings.param_device
    home: Place = "accelerator" if device == "none" else "pinned"
    if zero_init:
        held = width * (part + frozen) if device == "none" else 0
        spike = _building(model, width, ranks, parts_stay=device == "none")
        yield Item("parameters", "accelerator", held, ("layout",), f"{_INIT}:1232")
        yield Item("parameters", "accelerator", spike, ("build",), f"{_INIT}:1232")
        yield Item("parameters", "pageable", width * (part + frozen) - held, ("build", "layout"), f"{_INIT}:1232")
    else:
        yield Item("parameters", "accelerator", width * model.count, ("layout",), "runtime/engine.py:2093")
    # The parts are brought together through a buffer on the host.
    yield Item("temporaries", "pageable", width * part, ("layout",), "runtime/zero/utils.py:215")
    if device != "nvme":
        share = model.trainable_count // ranks
        yield Item("parameters", home, width * (share + frozen), _BUILT, f"{_ZERO}:906")
        yield Item("padding", home, width * (part - share), _BUILT, f"{_ZERO}:906")
        return
    block = settings.zero.offload_param
    small = sum(item for item in parts if item * width < _SWAPPED_FROM_BYTES)
    buffers = width * _up(int(block.buffer_size), 1024 // width) * block.buffer_count
    yield Item("offload buffers", "pinned", buffers, ("layout", *_BUILT), f"{_SWAP}/partitioned_param_swapper.py:98")
    stays = max(small + frozen, min(int(block.max_in_cpu), part))
    yield Item("parameters", "pageable", width * stays, _BUILT, f"{_ZERO}:1007")
    yield Item("parameters", "nvme", width * (part + frozen - stays), _BUILT, f"{_ZERO}:1007")
    if block.max_in_cpu < part:
        # Sized by the whole tensors of the largest sub-group, not by their parts.
        largest = max(groups(parts, sizes, settings.zero.sub_group_size), key=lambda group: sum(p for p, _ in group))
        whole = sum(_up(size, 1024 // width) for _, size in largest)
        yield Item("offload buffers", "pageable", width * whole, _BUILT, f"{_ZERO}:1014")


def _building(model: Model, width: int, ranks: int, *, parts_stay: bool) -> int:
    """The most that building under zero.Init holds: a tensor is made in fp32 and cast, and when its module is whole,
    each tensor of that is cut. `parts_stay`: what is left of them is on the accelerator too.

    Source: runtime/zero/partition_parameters.py:267 (the cast), 1232 (the cut).
    """
    highest = cut = 0
    for module in model.modules:
        whole = 0
        for item in module:
            highest = max(highest, cut + whole + (4 + width if width < 4 else width) * item.numel)
            whole += width * item.numel
        parts = [width * -(-item.numel // ranks) for item in module]
        highest = max(highest, cut + whole + max(parts))
        cut += sum(parts) if parts_stay else 0
    return highest


def groups(parts: Sequence[int], sizes: Sequence[int], limit: int) -> list[list[tuple[int, int]]]:
    """Sub-groups as lists of (part, whole) elements: one closes behind the tensor that reaches the limit.

    Source: runtime/zero/stage3.py:1210.
    """
    pairs = list(zip(parts, sizes, strict=True))
    if limit >= sum(parts):
        return [pairs]
    found: list[list[tuple[int, int]]] = []
    current: list[tuple[int, int]] = []
    held = 0
    for index, (part, size) in enumerate(pairs):
        current.append((part, size))
        held += part
        if held >= limit or index == len(pairs) - 1:
            found.append(current)
            current, held = [], 0
    return found


def _optimizer(settings: Settings, model: Model, ranks: int, parts: Sequence[int]) -> Iterator[Item]:
    """Master parameters, states and gradients.

    Source: runtime/zero/stage3.py:1157 (masters), 791 (the gradient buffer, which every mode has), 1337 (fp32 gradients
    under offload), 1100 (`ratio`), 2683 (the step goes sub-group by sub-group).
    """
    master, states, part = settings.master_bytes, settings.states_bytes, sum(parts)
    zero, device = settings.zero, settings.optimizer_device
    found = groups(parts, parts, zero.sub_group_size)
    sums = [sum(size for size, _ in group) for group in found]
    largest = max(sums, default=0)
    offload: Place = "pageable"
    resident = sums
    if device != "none":
        on_accelerator = int((1 - getattr(zero.offload_optimizer, "ratio", 1.0)) * len(sums))
        resident = sums[:on_accelerator]
    moved = sums[len(resident) :] if device != "none" else []
    swapped = [size for size in moved if device == "nvme" and size * master >= _SWAPPED_FROM_BYTES]
    on_host = sum(moved) - sum(swapped)
    share, gathered = model.trainable_count // ranks, max(0, part - model.trainable_count // ranks)
    alive = ALWAYS if settings.states_at_once else STEPPED
    places: tuple[tuple[Place, int], ...] = (("accelerator", sum(resident)), (offload, on_host), ("nvme", sum(swapped)))
    for place, elements in places:
        padding = gathered if elements == part else 0
        yield Item("master parameters", place, master * (elements - padding), _BUILT, f"{_ZERO}:1157")
        yield Item("optimizer states", place, states * (elements - padding), alive, f"{_ZERO}:1310")
        yield Item("padding", place, master * padding, _BUILT, f"{_ZERO}:1157")
        yield Item("padding", place, states * padding, alive, f"{_ZERO}:1310")
    if settings.trial_states_bytes:
        # The optimizer that is built first sees the partitioned tensors.
        kept = settings.trial_states_bytes * _trial_elements(ranks, share)
        yield Item("optimizer states", "accelerator", kept, ("layout", *_BUILT), "runtime/engine.py:2353")
    # Each tensor that trains is made whole once, to put a hook on its gradient.
    hooked = settings.model_bytes * model.largest_trainable
    yield Item("temporaries", "accelerator", hooked, ("hooks",), f"{_ZERO}:1503")
    yield Item("temporaries", "accelerator", hooked, ("hooks",), _GLOO, only="cpu")
    pinned: Place = "pinned" if getattr(zero.offload_optimizer, "pin_memory", False) else "pageable"
    buffer: Place = "accelerator" if device == "none" else pinned
    yield Item("gradients", buffer, settings.gradient_bytes * part, ALWAYS, f"{_ZERO}:791")
    home: Place = "accelerator" if device == "none" else "pageable"
    yield Item("temporaries", home, master * largest, ("masters",), f"{_ZERO}:1306")
    if device == "none":
        cast = (settings.gradient_bytes if settings.gradient_bytes != 4 else 0) + 4
        yield Item("temporaries", "accelerator", cast * largest, ("step",), f"{_ZERO}:2683")
    else:
        for size in moved:
            if size not in swapped:
                yield Item("gradients", pinned, master * size, _BUILT, f"{_ZERO}:1337")
    if swapped:
        yield from _swapped(settings, parts, swapped, largest)


def _trial_elements(ranks: int, share: int) -> int:
    """Stage 3 hands the first optimizer tensors of which nothing is left but their parts."""
    return 0 if ranks > 1 else share


def _swapped(settings: Settings, parts: Sequence[int], swapped: Sequence[int], largest: int) -> Iterator[Item]:
    """Source: runtime/swap_tensor/utils.py:180 (buffers), optimizer_utils.py:455 (pieces of gradients that stay)."""
    master = settings.master_bytes
    count = settings.zero.offload_optimizer.buffer_count
    buffers = master * _up(largest, 1024 // master) * count
    yield Item("offload buffers", "pinned", buffers, _BUILT, f"{_SWAP}/utils.py:180")
    pieces = [size for size in parts if size * master >= _SWAPPED_FROM_BYTES]
    written = master * sum(size // 256 * 256 for size in pieces)
    yield Item("gradients", "nvme", written, STEPPED, f"{_SWAP}/optimizer_utils.py:455")
    left = master * sum(size for size in parts if size * master < _SWAPPED_FROM_BYTES or size % 256)
    yield Item("gradients", "accelerator", left, ("backward", "norm"), f"{_SWAP}/optimizer_utils.py:271")


def _communication(settings: Settings, model: Model, ranks: int) -> Iterator[Item]:
    """Buckets, and parameters that are whole for a while.

    Source: runtime/zero/stage3.py:470 (the bucket is there for good), 1960, 2457 (the norm),
    runtime/zero/parameter_offload.py:317 (persistent), runtime/zero/partitioned_param_coordinator.py:452 (prefetch),
    634 (reuse), runtime/comm/coalesced_collectives.py:107 (the copy that reduce-scatter sends).
    """
    zero, width = settings.zero, settings.model_bytes
    if zero.contiguous_gradients:
        bucket = (6 if settings.autocast else settings.communication_bytes) * settings.reduce_bucket
        yield Item("communication buckets", "accelerator", bucket, ALWAYS, f"{_ZERO}:470")
    sent = settings.communication_bytes * min(settings.reduce_bucket, model.trainable_count)
    yield Item("communication buckets", "accelerator", sent, ("backward",), f"{_REDUCE}:107")
    gradient = width * model.largest_trainable_module
    yield Item("temporaries", "accelerator", gradient, ("backward",), f"{_ZERO}:1469")
    norm = 8 * min(-(-model.largest_trainable // ranks), _NORM_AT_ONCE)
    if settings.optimizer_device == "none":
        yield Item("temporaries", "accelerator", norm, ("norm",), f"{_ZERO}:2457")
    else:
        # Norms are taken while gradients arrive: the largest tensor's, which is as a rule the embedding's, last.
        yield Item("temporaries", "accelerator", norm, ("norm",), f"{_ZERO}:1960")
        yield Item("communication buckets", "accelerator", sent, ("norm",), f"{_REDUCE}:107")
    if ranks == 1 and settings.param_device == "none":
        return
    # On the CPU a single rank takes its parts as they are.
    copied = "accelerator" if ranks == 1 and settings.param_device == "cpu" else None
    persistent = persistent_elements(settings, model)
    source = "runtime/zero/parameter_offload.py:317"
    held = width * persistent
    yield Item("persistent parameters", "accelerator", held, STEPPED, source, only=copied)
    held = width * max(0, live_elements(settings, model) - persistent)
    source = f"{_FETCH}:634"
    yield Item("gathered parameters", "accelerator", held, ("backward",), source, only=copied)
    # A fetch holds what arrives and the tensors that are made of it; gradients come when that is over.
    fetched = width * min(max(zero.stage3_prefetch_bucket_size, model.largest_module), model.count)
    beyond = max(0, fetched - gradient - sent)
    source = f"{_INIT}:1343"
    yield Item("gathered parameters", "accelerator", beyond, ("backward",), source, only=copied)
    if zero.zero_hpz_partition_size > 1:
        second = width * -(-model.count // zero.zero_hpz_partition_size)
        yield Item("parameters", "accelerator", second, STEPPED, f"{_INIT}:1700")
    if zero.stage3_gather_16bit_weights_on_model_save:
        yield Item("temporaries", "accelerator", width * model.largest_module, ("save",), "runtime/engine.py:5631")
        whole = width * model.count
        yield Item("temporaries", "pageable", whole, ("save",), "runtime/engine.py:5631", first_rank_only=True)


def persistent_elements(settings: Settings, model: Model) -> int:
    """Elements of the tensors that stay whole; source: runtime/zero/parameter_offload.py:317."""
    held = 0
    for item in model.parameters:
        fits = item.numel + held <= settings.zero.stage3_model_persistence_threshold
        if fits and item.numel <= settings.zero.stage3_param_persistence_threshold:
            held += item.numel
    return held


def live_elements(settings: Settings, model: Model) -> int:
    """Elements that are gathered at once where forward turns to backward, once the order of use is known.

    What is used again within the reuse distance stays: the last half of it, seen from the turn. Modules that the
    backward pass does not come to are used once. Then the modules at work and the prefetched ones; source:
    runtime/zero/partitioned_param_coordinator.py:452, 634.
    """
    zero = settings.zero
    near = min(zero.stage3_max_reuse_distance // 2, zero.stage3_max_live_parameters)
    return min(model.backward_count, near + zero.stage3_prefetch_bucket_size + 2 * model.largest_module)


def _up(count: int, step: int) -> int:
    return -(-count // step) * step
