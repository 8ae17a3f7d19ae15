"""Stage 0: every rank holds everything."""

from __future__ import annotations

from collections.abc import Iterator

from dsconf.memory.account import ALWAYS, STEPPED, Item, Moment
from dsconf.memory.model import Model
from dsconf.memory.settings import Settings

_FUSED = "runtime/fp16/fused_optimizer.py"
_UNFUSED = "runtime/fp16/unfused_optimizer.py"
#: Elements that the engine averages at a time.
_REDUCED_AT_ONCE = 500_000_000


def items(settings: Settings, model: Model) -> Iterator[Item]:
    """What a rank holds.

    Source: runtime/engine.py:2294 (which wrapper), 3795 (averaging).
    """
    width, trained = settings.model_bytes, model.trainable_count
    yield Item(
        "parameters", "accelerator", width * model.count, ("layout", "masters", *ALWAYS), "runtime/engine.py:2093"
    )
    # Under the fused wrapper the step lets go of them before it updates.
    alive: tuple[Moment, ...] = ("backward", "norm", *(() if settings.low_precision and settings.fused else ("step",)))
    yield Item("gradients", "accelerator", width * trained, alive, "runtime/engine.py:3795")
    # A single rank averages with itself.
    at_once = min(trained, _REDUCED_AT_ONCE)
    yield Item("communication buckets", "accelerator", width * at_once, ("backward",), "runtime/engine.py:3795")
    states = settings.states_bytes * trained
    if not settings.low_precision:
        moments = ALWAYS if settings.states_at_once else STEPPED
        yield Item("optimizer states", "accelerator", states, moments, "torch/optim")
        return
    source = f"{_FUSED}:89" if settings.fused else f"{_UNFUSED}:78"
    yield Item("master parameters", "accelerator", 4 * trained, ("masters", *ALWAYS), source)
    # A first step on zeros makes the states while the engine is built.
    moments = ("masters", *ALWAYS)
    yield Item("optimizer states", "accelerator", states, moments, f"{_FUSED}:125")
    if settings.trial_states_bytes:
        kept = settings.trial_states_bytes * trained
        yield Item("optimizer states", "accelerator", kept, ("layout", "masters", *ALWAYS), "runtime/engine.py:2353")
    if settings.fused:
        yield Item("temporaries", "accelerator", 2 * width * trained, ("layout",), f"{_FUSED}:94")
        yield Item("temporaries", "accelerator", 4 * trained, ("masters",), f"{_FUSED}:125")
        # Each gradient is cast to fp32, and only then are all of them made one tensor.
        yield Item("temporaries", "accelerator", 8 * trained, ("norm",), f"{_FUSED}:286")
        yield Item("gradients", "accelerator", 4 * trained, ("step",), f"{_FUSED}:286")
    else:
        yield Item("temporaries", "accelerator", (width + 4) * trained, ("masters",), f"{_UNFUSED}:78")
        yield Item("gradients", "accelerator", 4 * trained, ("step",), f"{_UNFUSED}:158")
        yield Item("temporaries", "accelerator", 4 * trained, ("norm",), f"{_UNFUSED}:153")
