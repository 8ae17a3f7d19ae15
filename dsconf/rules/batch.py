"""Rules about the batch triad: samples per step = samples per rank and pass x passes per step x ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Related
from dsconf.rules.rule import Context, Finding, replace, rule

if TYPE_CHECKING:
    from dsconf.diagnostic import Fix
    from dsconf.facts import Bound

_TOTAL, _MICRO, _STEPS = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"
_TRIAD = (_TOTAL, _MICRO, _STEPS)
#: How far from what is written a divisor is looked for.
_REACH = 1000


@rule(
    "DS601",
    "batch-size-absent",
    "error",
    "refused",
    phase="parse",
    says="AssertionError: Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided",
    reads=_TRIAD,
    summary="No batch size at all.",
    explanation="""DeepSpeed needs `train_batch_size` or `train_micro_batch_size_per_gpu`; it works out the
    rest.""",
    source="runtime/config.py:648",
    bad={"gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}},
    good={"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}},
    whole=True,
)
def batch_size_absent(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    if config.train_batch_size is None and config.train_micro_batch_size_per_gpu is None:
        if any(bound.given(name) and not _is_null(bound, name) for name in (_TOTAL, _MICRO)):
            return
        alone = bound.given(_STEPS)
        yield Finding(
            (_STEPS,) if alone else (),
            f"no batch size: `{_STEPS}` alone does not say how large one is" if alone else "no batch size is set",
            f'add "{_MICRO}": samples in one forward pass of one rank',
        )


def _is_null(bound: Bound, name: str) -> bool:
    return getattr(bound.node((name,)), "value", 0) is None


@rule(
    "DS602",
    "batch-size-contradiction",
    "error",
    "refused",
    phase="parse",
    says="AssertionError: Check batch related parameters.",
    reads=_TRIAD,
    summary="Three batch numbers that cannot all be true.",
    explanation="""`train_batch_size` must equal `train_micro_batch_size_per_gpu` times
    `gradient_accumulation_steps` times the number of ranks that hold different data. Where a number is absent
    DeepSpeed works it out by integer division and then refuses what does not come out even.""",
    source="runtime/config.py:592",
    bad={"train_batch_size": 10, "train_micro_batch_size_per_gpu": 3},
    good={"train_batch_size": 12, "train_micro_batch_size_per_gpu": 3},
)
def batch_size_contradiction(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    total, micro, steps = (
        config.train_batch_size,
        config.train_micro_batch_size_per_gpu,
        config.gradient_accumulation_steps,
    )
    if total is None or (micro is None and steps is None):
        return
    share = (micro or 1) * (steps or 1)
    if total % share == 0:
        return
    product = " x ".join(str(value) for value in (micro, steps) if value is not None)
    names = [name for name, value in ((_MICRO, micro), (_STEPS, steps)) if value is not None]
    ranks = _data_parallel_ranks(bound, context)
    exact = ranks is not None and micro is not None and steps is not None
    nearest = _nearest(total, micro, steps, ranks or 1, exact=exact)
    yield Finding(
        (_TOTAL,),
        f"`{_TOTAL}` {total} is not a multiple of {product} ({' x '.join(f'`{name}`' for name in names)}), "
        "so it is wrong for any number of ranks",
        f"write {_changes(nearest)}, or remove `{_TOTAL}` and let DeepSpeed work it out",
        at="value",
        related=tuple(Related((name,), "does not divide it") for name in names),
        fix=_set(*nearest[0]),
        alternatives=tuple(_set(*item) for item in nearest[1:]),
    )


def _nearest(total: int, micro: int | None, steps: int | None, ranks: int, *, exact: bool) -> list[tuple[str, int]]:
    """Up to three changes of one number each that make the numbers agree, the smallest first.

    `exact`: total = micro x steps x ranks; else the product has to divide the total.
    """
    share = (micro or 1) * (steps or 1) * ranks
    below = total // share * share
    found = [(_TOTAL, value) for value in ((share,) if exact else (below, below + share)) if value > 0]
    for name, value in ((_MICRO, micro), (_STEPS, steps)):
        others = share // (value or 1)
        if value is None or total % others:
            continue
        whole = total // others
        near = (value + sign * away for away in range(1, _REACH) for sign in (-1, 1))
        fitting = whole if exact else next((item for item in near if item > 0 and whole % item == 0), None)
        if fitting is not None:
            found.append((name, fitting))
    old = {_TOTAL: total, _MICRO: micro or 1, _STEPS: steps or 1}
    from fractions import Fraction

    return sorted(found, key=lambda item: Fraction(abs(item[1] - old[item[0]]), old[item[0]]))[:3]


def _changes(found: list[tuple[str, int]]) -> str:
    words = [f"`{name}` {value}" for name, value in found]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _set(name: str, value: int) -> Fix:
    return replace((name,), value, f"write {value} as `{name}`", safe=False)


@rule(
    "DS603",
    "batch-size-for-another-world",
    "error",
    "refused",
    phase="parse",
    says="AssertionError: Check batch related parameters.",
    reads=(*_TRIAD, "sequence_parallel_size", "tensor_parallel"),
    context=Context(world_size=2),
    summary="Batch numbers that do not fit the number of ranks.",
    explanation="""The three numbers agree for one number of ranks only. A file made for another number is
    refused, unless one of them is left out.""",
    source="runtime/config.py:592",
    bad={"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1},
    good={"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2},
)
def batch_size_for_another_world(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    total, micro, steps = (
        config.train_batch_size,
        config.train_micro_batch_size_per_gpu,
        config.gradient_accumulation_steps,
    )
    if total is None or total % ((micro or 1) * (steps or 1)):
        return
    world = _data_parallel_ranks(bound, context)
    share = (micro or 1) * (steps or 1)
    fitting = total // share
    if world is None:
        return
    exact = micro is not None and steps is not None
    if total == share * world if exact else total % (share * world) == 0:
        return
    nearest = _nearest(total, micro, steps, world, exact=exact)
    if exact:
        why = f"{micro} x {steps} x {world} rank{'s' if world > 1 else ''} = {share * world}, not {total}"
        cure = (
            f"write {_changes(nearest)}, run on {fitting} rank{'s' if fitting > 1 else ''}, or remove one of the three"
        )
    else:
        known = " x ".join(str(value) for value in (micro, steps) if value is not None)
        unit = f"{known} x {world} ranks" if known else f"{world} ranks"
        why = f"{total} is not a multiple of {unit}"
        cure = f"write {_changes(nearest)}, or remove `{_TOTAL}` and set `{_MICRO}`"
    yield Finding(
        (_TOTAL,),
        f"the batch numbers do not fit {world} rank{'s' if world > 1 else ''}: {why}",
        cure,
        at="value",
        related=tuple(Related((name,), "is part of the product") for name in (_MICRO, _STEPS) if bound.given(name)),
        fix=_set(*nearest[0]),
        alternatives=tuple(_set(*item) for item in nearest[1:]),
    )


def _data_parallel_ranks(bound: Bound, context: Context) -> int | None:
    """Ranks that hold different data; None when unknown."""
    if context.world_size is None:
        return None
    tensor = bound.config.tensor_parallel
    shared = max(1, tensor.autotp_size if tensor is not None else 1)
    return max(1, context.world_size // shared)


@rule(
    "DS604",
    "batch-size-needs-world-size",
    "info",
    "advice",
    reads=_TRIAD,
    summary="Batch numbers that fit one number of ranks only.",
    explanation="""With all three numbers in the file the job runs on exactly one number of ranks. Tell dsconf
    the number with `--world-size`, and it checks it.""",
    source="runtime/config.py:592",
    bad={"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4},
    good={"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4},
)
def batch_size_needs_world_size(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    total, micro, steps = (
        config.train_batch_size,
        config.train_micro_batch_size_per_gpu,
        config.gradient_accumulation_steps,
    )
    if context.world_size is None and total and micro and steps and total % (micro * steps) == 0:
        ranks = total // (micro * steps)
        yield Finding(
            (_TOTAL,),
            f"these batch numbers fit {ranks} rank{'s' if ranks > 1 else ''} and no other number",
            f"remove `{_TOTAL}` to run on any number of ranks, or check with `--world-size`",
        )
