"""Rules about keys of other releases and second names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Edit, Fix, Path, Related
from dsconf.releases import number, removed_in
from dsconf.rules.rule import Context, Finding, move, remove, replace, rule, show

if TYPE_CHECKING:
    from dsconf.facts import Bound, Values


@rule(
    "DS104",
    "removed-key",
    "error",
    "refused",
    phase="parse",
    says="DeepSpeedConfigError: Elastic training has been removed; the 'elasticity' configuration block is no",
    block=True,
    summary="A key of a feature that this DeepSpeed no longer has.",
    explanation="""DeepSpeed 0.19 dropped several features and refuses a file that still names one, whatever its
    value: a block left behind would otherwise be ignored and the model trained without it.""",
    source="runtime/config.py:79",
    bad={"elasticity": {"enabled": False}},
    good={"train_batch_size": 2, "gradient_accumulation_steps": 1},
)
def removed_key(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Old

    for fact in bound.of(Old):
        gone = removed_in(fact.path)
        if fact.retired.status == "removed" and (gone is None or number(gone) <= number(context.release)):
            yield Finding(
                fact.path,
                f"`{fact.path[-1]}` was removed from DeepSpeed; the file is refused while it is there",
                f"remove it: {fact.retired.advice}",
                fix=remove(fact.path, "remove it", safe=False),
            )


@rule(
    "DS105",
    "deprecated-key",
    "warning",
    "deprecated",
    block=True,
    summary="An old key that still works.",
    explanation="""DeepSpeed translates the old key and warns. The compiler writes the new one.""",
    source="runtime/config_utils.py:60",
    bad={"zero_optimization": {"stage": 2, "cpu_offload": True}},
    good={"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}},
)
def deprecated_key(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Old, OldForm

    for form in bound.of(OldForm):
        stage = int(form.value)
        yield Finding(
            form.path,
            f"`zero_optimization: {show(form.value)}` dates from before there were stages; it means stage {stage}",
            f'write {{"stage": {stage}}}',
            at="value",
            fix=None
            if bound.given("allgather_size")
            else replace(form.path, {"stage": stage}, f'write {{"stage": {stage}}}'),
        )
    for fact in bound.of(Old):
        old = fact.retired
        if old.status != "deprecated" or fact.clash:
            continue
        value = fact.value if old.values is None else old.values.get(fact.value) if _hashable(fact.value) else None
        yield Finding(
            fact.path,
            f"`{old.key}` is deprecated; DeepSpeed translates it to `{old.becomes}`",
            f"write `{old.becomes}`: {show(value)}" if value is not None else "remove it: it switches nothing on",
            fix=_modernized(fact.path, old.becomes, value),
        )


def _modernized(path: Path, becomes: str | None, value: object) -> Fix | None:
    """Write the new key in place of the old one, or nothing where the old one switches nothing on."""
    if value is None or becomes is None:
        return remove(path, "remove it")
    target = (*path[:-1], becomes)
    renamed = Edit("move", target, source=path)
    return Fix(f"write `{becomes}`: {show(value)}", (renamed, Edit("replace", target, value)))


def _hashable(value: object) -> bool:
    return not isinstance(value, (list, dict))


@rule(
    "DS106",
    "two-spellings",
    "error",
    "refused",
    phase="parse",
    says="AssertionError: Cannot provide deprecated parameter 'cpu_offload' and replacing parameter",
    block=True,
    summary="An old and a new spelling of one setting together.",
    explanation="""DeepSpeed takes one or the other. With both it refuses the block, and for some pairs names
    the key that is right.""",
    source="runtime/config_utils.py:60",
    bad={"zero_optimization": {"stage": 2, "cpu_offload": True, "offload_optimizer": {"device": "cpu"}}},
    good={"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}},
)
def two_spellings(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Old

    for fact in bound.of(Old):
        old = fact.retired
        if not fact.clash or old.becomes is None or old.status == "removed":
            continue
        ignored = fact.block.reader != "pydantic"
        yield Finding(
            fact.path,
            f"`{old.key}` is an old spelling of `{old.becomes}`, which is here as well; "
            + ("DeepSpeed reads the new one only" if ignored else "DeepSpeed refuses the two together"),
            f"remove `{old.key}`",
            related=(Related((*fact.path[:-1], old.becomes), "the current spelling"),),
            fix=remove(fact.path, f"remove `{old.key}`", safe=not ignored),
            effect="ignored" if ignored else None,
        )


@rule(
    "DS107",
    "renamed-key",
    "info",
    "advice",
    block=True,
    summary="A key under a second name that DeepSpeed also reads.",
    explanation="""Some keys have two names. Both work; guides, tools and the compiler use one.""",
    source="runtime/config_utils.py:109",
    bad={"zero_optimization": {"stage": 3, "prefetch_bucket_size": 1000000}},
    good={"zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 1000000}},
)
def renamed_key(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Old

    for fact in bound.of(Old):
        old = fact.retired
        if old.status == "renamed" and old.becomes and not fact.clash:
            yield Finding(
                fact.path,
                f"`{old.key}` is read, but its usual name is `{old.becomes}`",
                f"rename it to `{old.becomes}`",
                fix=move(fact.path, (*fact.path[:-1], old.becomes), f"rename it to `{old.becomes}`"),
            )


@rule(
    "DS108",
    "dead-key",
    "warning",
    "ignored",
    fallback=1,
    block=True,
    summary="A key that DeepSpeed once read and no longer does.",
    explanation="""The key does no harm and has no effect: nothing in this DeepSpeed reads it.""",
    source="runtime/engine.py:1745",
    bad={"disable_allgather": True},
    good={},
)
def dead_key(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Old

    for fact in bound.of(Old):
        old = fact.retired
        if old.status == "dead" and not (old.becomes and fact.clash):
            where = f"write `{old.becomes}` instead" if old.becomes else old.advice
            yield Finding(
                fact.path,
                f"nothing reads `{old.key}` any more",
                where or "remove it",
                severity="error",
                fix=remove(fact.path, "remove it") if not old.becomes else None,
            )
    for path, name, block in _written(bound):
        if path not in _ELSEWHERE and block.block_type.keys[name].dead:
            yield Finding(path, f"nothing reads `{name}`", "remove it", fix=remove(path, "remove it"))


#: Dead keys that have a rule of their own.
_ELSEWHERE = (
    ("zero_optimization", "allgather_partitions"),
    ("comms_logger", "enabled"),
)


def _written(bound: Bound) -> Iterator[tuple[Path, str, Values]]:
    """Every key that was taken over, with the block that has it."""
    from dsconf.facts import Values

    def visit(block: Values, path: Path) -> Iterator[tuple[Path, str, Values]]:
        for name in block.block_type.keys:
            if name in block.given:
                yield (*path, name), name, block
                value = block.given[name]
                if isinstance(value, Values):
                    yield from visit(value, (*path, name))

    yield from visit(bound.block, ())
