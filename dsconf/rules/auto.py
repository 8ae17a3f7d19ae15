"""Rules about "auto" in a file that a program other than DeepSpeed reads first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Path, Related, dotted
from dsconf.readers.profile import HIDDEN_SIZE_KEYS
from dsconf.rules.readers import fills, literal, profile_of
from dsconf.rules.rule import Context, Finding, rule

if TYPE_CHECKING:
    from dsconf.facts import Bound


@rule(
    "DS951",
    "auto-not-filled",
    "error",
    "refused",
    phase="initialize",
    fallback=-1,
    judge="reader",
    summary='"auto" at a key that the reader does not fill.',
    explanation="""Transformers and Accelerate replace "auto" at some keys and refuse to start while another one is
    left; their message names the first only. Accelerate on its own does not fill `betas` and `eps` of the
    optimizer, so a file made for the Trainer fails there. Lightning replaces none: DeepSpeed gets the word, drops
    it in some blocks (`stage` is then 0, `bf16` off) and fails on it in others.""",
    source="accelerate/utils/dataclasses.py:1368",
    bad={"zero_optimization": {"stage": 2, "overlap_comm": "auto", "reduce_bucket_size": "auto"}},
    good={"zero_optimization": {"stage": 2, "overlap_comm": True, "reduce_bucket_size": "auto"}},
    context=Context(reader="transformers"),
)
def auto_not_filled(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Auto, Unknown

    profile = profile_of(context)
    if profile is None:
        return
    dropped = {fact.path for fact in bound.of(Auto) if fact.block.reader == "pydantic"}
    foreign = {fact.path for fact in bound.of(Unknown)}
    if profile.auto == "refused":
        left = [path for path in _autos(bound) if path not in foreign and not fills(profile, path, bound)]
    else:
        left = [fact.path for fact in bound.of(Auto)]
    if not left:
        return
    if profile.auto == "refused":
        what = f"{profile.name} refuses to start"
    elif left[0] in dropped:
        what = "DeepSpeed drops the key and uses its default"
    else:
        what = "DeepSpeed takes it for a value and fails"
    passed_on = profile.auto == "passed" and left[0] in dropped
    count = f" and {len(left) - 1} more key{'s' if len(left) > 2 else ''}" if len(left) > 1 else ""
    yield Finding(
        left[0],
        f'`{dotted(left[0])}`{count} {"are" if count else "is"} "auto", which {profile.name} does not fill in; {what}',
        "write the value, or remove the key to use DeepSpeed's default",
        at="value",
        related=tuple(Related(path, '"auto" here too') for path in left[1:]),
        covers=tuple(left[1:]),
        effect="coerced" if passed_on else None,
    )


def _autos(bound: Bound) -> list[Path]:
    """Every key with the value "auto"; readers do not look into lists."""
    from dsconf.source import Node, Object, Scalar

    def visit(node: Node, path: Path) -> Iterator[Path]:
        if isinstance(node, Object):
            for member in node.members:
                yield from visit(member.value, (*path, member.key))
        elif isinstance(node, Scalar) and node.value == "auto":
            yield path

    return list(dict.fromkeys(visit(bound.document.root, ()))) if bound.document.root else []


@rule(
    "DS952",
    "auto-needs-hidden-size",
    "info",
    "advice",
    fallback=-1,
    judge="reader",
    summary='"auto" that is filled from the hidden size of the model.',
    explanation="""Three ZeRO sizes are worked out from `hidden_size` or `hidden_sizes` of the model's own
    configuration; a model that has neither is refused. The Trainer also looks into `text_config`, but below stage 3
    it leaves the stage 3 keys to Accelerate, which does not: a multimodal model is then refused for keys that have
    no effect at that stage.""",
    source="transformers/integrations/deepspeed.py:225",
    bad={"zero_optimization": {"stage": 2, "stage3_prefetch_bucket_size": "auto"}},
    good={"zero_optimization": {"stage": 2, "reduce_bucket_size": 100000000}},
    context=Context(reader="transformers"),
)
def auto_needs_hidden_size(bound: Bound, context: Context) -> Iterator[Finding]:
    profile = profile_of(context)
    if profile is None or profile.auto != "refused":
        return
    stage = literal(bound, ("zero_optimization", "stage"))
    below = isinstance(stage, int) and stage < 3
    for item in HIDDEN_SIZE_KEYS:
        if literal(bound, item.path) != "auto" or context.hidden_size:
            continue
        useless = below and item.path[-1].startswith("stage3_")
        multimodal = useless or context.reader == "accelerate"
        yield Finding(
            item.path,
            f"`{item.path[-1]}` becomes {item.becomes}; a model whose configuration has no `hidden_size`"
            + (", or has it in `text_config`, is refused" if multimodal else " is refused")
            + (", and this model has none" if context.hidden_size is False else ""),
            "remove it: it has no effect below stage 3" if useless else "write a number for such a model",
            at="value",
            severity="warning" if useless or context.hidden_size is False else None,
        )
