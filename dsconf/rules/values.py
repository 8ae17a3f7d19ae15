"""Rules about single values: of the wrong type, out of range, not among the choices, taken for something else."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import TYPE_CHECKING, Any

from dsconf.blocks import BOUNDS
from dsconf.diagnostic import Fix, dotted
from dsconf.releases import bounds_in
from dsconf.rules.offload import swaps_to_nvme
from dsconf.rules.rule import Context, Finding, close_match, replace, rule, show

if TYPE_CHECKING:
    from dsconf.facts import Bound, Mismatch, UnknownTag


#: Keys that DeepSpeed reads with Pydantic without declaring what else it asks of them.
_UNDECLARED = (
    ("comet", "mode"),
    ("hybrid_engine", "inference_tp_size"),
    ("hybrid_engine", "tp_gather_partition_size"),
    ("tensor_parallel", "preset_model"),
    ("tensor_parallel", "tp", "tp_grain_size"),
    ("zero_optimization", "offload_param", "buffer_count"),
    ("zero_optimization", "zenflow", "select_strategy"),
)


def _refusal(bound: Bound, fact: Mismatch | UnknownTag) -> dict[str, Any]:
    """What comes of a value that does not fit: who refuses it and when, or that nobody looks at it."""
    from dsconf.blocks import actor_of

    gate = fact.block.gate
    switch = bound.node((*fact.path[:-1], gate)) if gate else None
    if gate and fact.path[-1] != gate and not (switch is not None and getattr(switch, "value", None)):
        return {"effect": "ignored", "severity": "warning"}
    if fact.block.reader == "pydantic":
        declared = fact.path not in _UNDECLARED or (getattr(fact, "kind", "") == "type" and fact.value is not False)
        return {"effect": "refused", "phase": "parse" if declared else "initialize"}
    return {"effect": "refused", "phase": "initialize", "actor": actor_of(fact.path)}


def _fix(fact: Mismatch) -> Fix | None:
    """A number or a boolean in quotes is what it says."""
    if isinstance(fact.value, str):
        text = fact.value.strip().lower()
        if fact.expected.startswith("true or false") and text in ("true", "false"):
            return replace(fact.path, text == "true", f"write {text} without quotes", safe=False)
        if "number" in fact.expected:
            try:
                number = float(text.replace("_", ""))
            except ValueError:
                return None
            if isfinite(number) and (number.is_integer() or "whole" not in fact.expected):
                value = int(number) if number.is_integer() and "whole" in fact.expected else number
                return replace(fact.path, value, f"write {show(value)} without quotes", safe=False)
    if isinstance(fact.value, float) and fact.expected.startswith("a whole number") and isfinite(fact.value):
        return replace(fact.path, int(fact.value), f"write {int(fact.value)}", safe=False)
    return None


@rule(
    "DS201",
    "wrong-type",
    "error",
    "refused",
    fallback=2,
    block=True,
    summary="A value of the wrong type.",
    explanation="""DeepSpeed refuses the value, or fails when it first computes with it, often with an error
    that names no setting at all.""",
    source="runtime/config_utils.py:54",
    bad={"zero_optimization": {"stage": 2, "reduce_bucket_size": "5e8"}},
    good={"zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8}},
    phase="parse",
    says="ValidationError: 1 validation error for DeepSpeedZeroConfig reduce_bucket_size Input should be a",
)
def wrong_type(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Mismatch

    for fact in bound.of(Mismatch):
        if fact.kind != "type" or _is_true_string(fact):
            continue
        fix = _fix(fact)
        name = dotted(fact.path)
        yield Finding(
            fact.path,
            f"`{name}` is {show(fact.value)}, where {fact.expected} is needed",
            f"{fix.message}" if fix else f"give it {fact.expected}",
            at="value",
            fix=fix,
            **_refusal(bound, fact),
        )


def _is_true_string(fact: Mismatch) -> bool:
    return fact.block.reader in ("dict", "kwargs") and fact.expected == "true or false" and isinstance(fact.value, str)


@rule(
    "DS202",
    "out-of-range",
    "error",
    "refused",
    fallback=2,
    block=True,
    summary="A number outside the range that DeepSpeed works with.",
    explanation="""DeepSpeed checks some ranges when it reads the file. Others it does not check, and fails when
    it divides by the number or counts with it.""",
    source="runtime/zero/config.py:113",
    bad={"zero_optimization": {"stage": 2, "reduce_bucket_size": 0}},
    good={"zero_optimization": {"stage": 2, "reduce_bucket_size": 50000000}},
    phase="parse",
    says="ValidationError: 1 validation error for DeepSpeedZeroConfig "
    "reduce_bucket_size Input should be greater than 0",
)
def out_of_range(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Mismatch

    for fact in bound.of(Mismatch):
        if fact.kind == "range":
            refusal = _refusal(bound, fact)
            if refusal.get("phase") == "parse" and _lets_through(fact, context.release):
                refusal["phase"] = "step"
            yield Finding(
                fact.path,
                f"`{dotted(fact.path)}` is {show(fact.value)}; it must be {fact.expected}",
                f"give it a number that is {fact.expected}, or remove it to use the default",
                at="value",
                **refusal,
            )


def _lets_through(fact: Mismatch, release: str) -> bool:
    """Whether a release has other bounds than the newest, and a value is within them."""
    bounds = bounds_in(fact.path, release)
    return bounds is not None and all(BOUNDS[name](fact.value, bound) for name, bound in bounds.items())


@rule(
    "DS203",
    "unknown-choice",
    "error",
    "refused",
    fallback=2,
    block=True,
    summary="A word that is not one of those the key takes.",
    explanation="""The key takes one of a few words or numbers, and this is none of them.""",
    source="runtime/zero/offload_config.py:14",
    bad={"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "CPU"}}},
    good={"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}},
    phase="parse",
    says="ValidationError: 1 validation error for DeepSpeedZeroConfig offload_optimizer.device Input should",
)
def unknown_choice(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.blocks import one_of
    from dsconf.facts import Mismatch, UnknownTag

    for fact in [*bound.of(Mismatch), *bound.of(UnknownTag)]:
        if isinstance(fact, Mismatch) and fact.kind != "choice":
            continue
        words = fact.expected if isinstance(fact, Mismatch) else one_of(fact.choices)
        guess = close_match(fact.value, map(str, fact.choices)) if isinstance(fact.value, str) else None
        yield Finding(
            fact.path,
            f"`{dotted(fact.path)}` is {show(fact.value)}; it must be {words}",
            f"did you mean {show(guess)}?" if guess else f"write {words}",
            at="value",
            fix=replace(fact.path, guess, f"write {show(guess)}", safe=False) if guess else None,
            **_refusal(bound, fact),
        )


@rule(
    "DS204",
    "string-for-boolean",
    "error",
    "coerced",
    fallback=1,
    block=True,
    summary="A string where true or false is needed, which counts as true.",
    explanation="""Outside its Pydantic blocks DeepSpeed tests such a key by Python's truth, and any string but
    the empty one is true: "false" switches the setting on.""",
    source="runtime/config.py:318",
    bad={"zero_allow_untested_optimizer": "false"},
    good={"zero_allow_untested_optimizer": False},
)
def string_for_boolean(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Mismatch

    for fact in bound.of(Mismatch):
        if not _is_true_string(fact):
            continue
        name = str(fact.path[-1])
        fix = _fix(fact)
        swaps = fact.path[0] == "aio" and swaps_to_nvme(bound)
        if name == "wall_clock_breakdown" or fact.path == ("flops_profiler", "enabled") or swaps:
            yield Finding(
                fact.path,
                f"`{dotted(fact.path)}` is the string {show(fact.value)}; DeepSpeed fails on it",
                fix.message if fix else "write true or false without quotes",
                at="value",
                fix=fix,
                effect="refused",
                phase="initialize" if swaps else "parse",
            )
            continue
        yield Finding(
            fact.path,
            f"`{dotted(fact.path)}` is the string {show(fact.value)}, which DeepSpeed takes for true",
            fix.message if fix else "write true or false without quotes",
            at="value",
            fix=fix,
        )


@rule(
    "DS205",
    "coerced-value",
    "warning",
    "coerced",
    fallback=2,
    block=True,
    summary="A value that DeepSpeed takes for another one.",
    explanation="""DeepSpeed makes the value fit: a number in quotes becomes a number, true becomes 1. Other
    readers of the file do not, or do it differently; the compiler writes what DeepSpeed uses.""",
    source="runtime/config_utils.py:54",
    bad={"zero_optimization": {"stage": 2, "reduce_bucket_size": "500000000"}},
    good={"zero_optimization": {"stage": 2, "reduce_bucket_size": 500000000}},
)
def coerced_value(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Coercion

    for fact in bound.of(Coercion):
        yield Finding(
            fact.path,
            f"`{dotted(fact.path)}` is {show(fact.value)}, which DeepSpeed takes for {show(fact.becomes)}",
            f"write {show(fact.becomes)}",
            at="value",
            fix=replace(fact.path, fact.becomes, f"write {show(fact.becomes)}"),
        )
