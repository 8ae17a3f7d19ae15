"""Rules about keys: unknown, misplaced, twice, removed, renamed, missing, left to nobody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Effect, Fix, Path, Phase, Related, dotted
from dsconf.readers import PROFILES
from dsconf.rules.rule import Context, Finding, close_match, move, rule

if TYPE_CHECKING:
    from dsconf.blocks import BlockType
    from dsconf.facts import Auto, Bound

#: What DeepSpeed does with a key that a block does not have, by how it reads the block.
_EFFECTS: dict[str, tuple[Effect, Phase | None, str]] = {
    "pydantic": ("refused", "parse", "DeepSpeed refuses the block"),
    "kwargs": ("refused", "initialize", "DeepSpeed passes it on to a class that does not take it"),
    "dict": ("ignored", None, "DeepSpeed never looks at it"),
    "opaque": ("ignored", None, "DeepSpeed never looks at it"),
}


#: So many unknown keys in one block are not slips but another program's settings: one problem.
_CROWD = 5


def _where(path: Path) -> str:
    return f"in `{dotted(path)}`" if path else "at the top level"


def _candidates(block: BlockType) -> list[str]:
    return [*block.keys, *(item.key for item in block.retired)]


@rule(
    "DS101",
    "unknown-key",
    "error",
    "ignored",
    fallback=2,
    block=True,
    summary="A key that DeepSpeed does not know.",
    explanation="""At the top level and in most blocks DeepSpeed asks for the keys it knows and never looks at
    others, so a misspelt setting silently keeps its default. Blocks that DeepSpeed parses with Pydantic, and
    the parameters of optimizers and schedulers, refuse an unknown key instead.""",
    source="runtime/config.py:482",
    bad={"gradient_acumulation_steps": 8},
    good={"gradient_accumulation_steps": 8},
)
def unknown_key(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import Unknown

    strangers: dict[Path, list[Unknown]] = {}
    for fact in bound.of(Unknown):
        if fact.block.reader == "dict" and not close_match(str(fact.path[-1]), _candidates(fact.block)):
            strangers.setdefault(fact.path[:-1], []).append(fact)
    crowds = {fact for crowd in strangers.values() if len(crowd) >= _CROWD for fact in crowd}
    for parent, crowd in strangers.items():
        if len(crowd) >= _CROWD:
            names = ", ".join(f"`{fact.path[-1]}`" for fact in crowd[:3])
            yield Finding(
                crowd[0].path,
                f"{len(crowd)} keys {_where(parent)} that DeepSpeed never looks at: {names} and others",
                "keep the settings of other programs in a file of their own",
                related=tuple(Related(fact.path, "unknown key") for fact in crowd[1:]),
            )
    for fact in bound.of(Unknown):
        if fact in crowds:
            continue
        effect, phase, words = _EFFECTS[fact.block.reader]
        if fact.auto and fact.block.reader == "pydantic":
            effect, phase, words = "ignored", None, 'DeepSpeed drops it, since its value is "auto"'
        name, parent = str(fact.path[-1]), fact.path[:-1]
        guess = close_match(name, _candidates(fact.block))
        fix = None
        if guess and not bound.given(*parent, guess):
            fix = move(fact.path, (*parent, guess), f"rename it to `{guess}`")
        yield Finding(
            fact.path,
            f"unknown key `{name}` {_where(parent)}; {words}",
            f"did you mean `{guess}`?"
            if guess
            else "remove it, or prefix it with `_` if it is a note"
            if not parent
            else "remove it",
            effect=effect,
            phase=phase,
            fix=fix,
        )


@rule(
    "DS102",
    "misplaced-key",
    "error",
    "ignored",
    fallback=1,
    block=True,
    summary="A key that belongs to another block.",
    explanation="""The key exists, but elsewhere. Where DeepSpeed reads a block leniently the setting is lost
    without a word; where it does not, it refuses the key without saying where it belongs.""",
    source="runtime/config.py:482",
    bad={"offload_optimizer": {"device": "cpu"}, "zero_optimization": {"stage": 2}},
    good={"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}},
)
def misplaced_key(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.blocks import homes
    from dsconf.facts import Unknown

    for fact in bound.of(Unknown):
        known = homes()
        name, parent = str(fact.path[-1]), fact.path[:-1]
        if close_match(name, fact.block.keys):
            continue
        elsewhere = _elsewhere(name, known)
        if elsewhere:
            effect, phase, words = _EFFECTS[fact.block.reader]
            homeless = elsewhere in _OUTSIDE.values()
            yield Finding(
                fact.path,
                f"`{name}` does not belong {_where(parent)}; {words}",
                f"{elsewhere}; remove it here" if homeless else f"it belongs in {elsewhere}",
                effect=effect,
                phase=phase,
                fix=None if homeless else _homecoming(bound, fact.path, known[name]),
            )


def _homecoming(bound: Bound, path: Path, places: tuple[Path, ...]) -> Fix | None:
    """Move a key to where it belongs, if there is one such place, it is free, and no list or type must be chosen."""
    target = places[0]
    rivals = [place for place in places if len(place) == len(target)]
    if len(rivals) > 1 or bound.given(*target) or target[0] in ("optimizer", "scheduler"):
        return None
    if target[: len(path)] == path or any(bound.is_broken(target[:length]) for length in range(1, len(target))):
        return None
    where = f"`{dotted(target[:-1])}`" if target[:-1] else "the top level"
    # What was ignored takes effect then.
    return move(path, target, f"move it to {where}", safe=False)


#: Keys of other files and calls that turn up in a ds_config.
_OUTSIDE = {
    "zero3_init_flag": "it is a key of Accelerate's own configuration",
    "zero3_save_16bit_model": "it is a key of Accelerate's own configuration",
    "zero_stage": "it is a key of Accelerate's own configuration; write `zero_optimization.stage`",
    "offload_optimizer_device": "it is a key of Accelerate's own configuration; write `offload_optimizer.device`",
    "offload_param_device": "it is a key of Accelerate's own configuration; write `offload_param.device`",
    "deepspeed_config_file": "it is a key of Accelerate's own configuration",
    "deepspeed_multinode_launcher": "it is a key of Accelerate's own configuration",
    "mixed_precision": "it is a key of Accelerate's own configuration; write `bf16` or `fp16`",
    "dist_init_required": "it is an argument of `deepspeed.initialize`",
    "opt_level": "it was a key of the removed `amp` block",
}


def _elsewhere(name: str, known: dict[str, tuple[Path, ...]]) -> str | None:
    if name in _OUTSIDE:
        return _OUTSIDE[name]
    places = known.get(name, ())
    if not places or name in ("enabled", "params", "type", "device"):
        return None
    shortest = [path for path in places if len(path) == len(places[0])]
    return " or ".join(f"`{dotted(path[:-1])}`" if len(path) > 1 else "the top level" for path in shortest[:3])


@rule(
    "DS103",
    "duplicate-key",
    "error",
    "refused",
    phase="parse",
    says="ValueError: Duplicate keys in DeepSpeed config: ['gradient_clipping']",
    block=True,
    summary="A key that stands twice in one object.",
    explanation="""JSON readers keep the last value without a word; DeepSpeed refuses the file.""",
    source="runtime/config_utils.py:205",
    bad='{"train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0, "gradient_clipping": 0.5}',
    good='{"train_micro_batch_size_per_gpu": 2, "gradient_clipping": 0.5,'
    ' "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}',
    whole=True,
)
def duplicate_key(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.source import Array, Node, Object, Span

    reader = PROFILES.get(context.reader)
    last = f"; {reader.name} keeps the last value, silently" if reader else ""

    def visit(node: Node, path: Path) -> Iterator[Finding]:
        if isinstance(node, Array):
            for index, item in enumerate(node.items):
                yield from visit(item, (*path, index))
        if isinstance(node, Object):
            seen: dict[str, Span | None] = {}
            for member in node.members:
                here = (*path, member.key)
                if member.key in seen:
                    first = seen[member.key]
                    line = f", first in line {bound.document.position(first.start).line}" if first else ""
                    yield Finding(
                        here,
                        f"`{member.key}` stands twice {_where(path)}{line}{last}",
                        "keep one of the two",
                        span=member.key_span,
                        effect="ignored" if last else None,
                        actor=reader.name if reader else "",
                    )
                seen.setdefault(member.key, member.key_span)
                yield from visit(member.value, here)

    if bound.document.root:
        yield from visit(bound.document.root, ())


@rule(
    "DS109",
    "missing-key",
    "error",
    "refused",
    phase="initialize",
    says="TypeError: WarmupCosineLR.__init__() missing 1 required positional argument: 'total_num_steps'",
    fallback=2,
    block=True,
    summary="A key that its block cannot do without.",
    explanation="""The key has no default. DeepSpeed fails when it builds what the block describes, as a rule
    with an error of Python's own that does not name the setting.""",
    source="runtime/engine.py:1935",
    bad={"scheduler": {"type": "WarmupCosineLR", "params": {"warmup_num_steps": 10}}},
    good={"scheduler": {"type": "WarmupCosineLR", "params": {"warmup_num_steps": 10, "total_num_steps": 100}}},
)
def missing_key(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.blocks import actor_of
    from dsconf.facts import Missing, Unknown

    slips = {(*fact.path[:-1], close_match(str(fact.path[-1]), fact.block.keys)) for fact in bound.of(Unknown)}
    for fact in bound.of(Missing):
        if fact.path in slips:
            continue
        name, parent = str(fact.path[-1]), fact.path[:-1]
        doc = fact.block.keys[name].doc
        yield Finding(
            fact.path,
            f"`{name}` is missing {_where(parent)}",
            f"add it: {doc[:1].lower()}{doc[1:].rstrip('.')}",
            actor=actor_of(fact.path),
        )


@rule(
    "DS110",
    "unresolved-auto",
    "error",
    "coerced",
    summary='"auto" that nobody fills in.',
    explanation="""Transformers and Accelerate replace "auto" at some keys before DeepSpeed sees the file.
    DeepSpeed itself does not: in some blocks it drops the key, so that `stage: "auto"` switches ZeRO off and
    `bf16.enabled: "auto"` trains in fp32; elsewhere the string goes on until something computes with it.""",
    source="runtime/config_utils.py:55",
    bad={"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": "auto"}},
    good={"bf16": {"enabled": True}, "zero_optimization": {"stage": 2}},
)
def unresolved_auto(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.blocks import actor_of
    from dsconf.facts import Auto

    found = list(bound.of(Auto))
    if not found or context.reader != "deepspeed":
        return
    fatal = [fact for fact in found if not _dropped(fact) and not _taken_for_true(fact)]
    fatal.sort(key=lambda fact: bool(actor_of(fact.path)))
    first = (fatal or found)[0]
    others = [fact for fact in found if fact is not first]
    count = f" and {len(others)} more key{'s' if len(others) > 1 else ''}" if others else ""
    actor = actor_of(first.path) if fatal else ""
    if fatal:
        what = f"{actor or 'DeepSpeed'} takes it for a string and fails"
    elif _dropped(first):
        what = "DeepSpeed drops the key and uses its default"
    else:
        what = "DeepSpeed takes it for true"
    yield Finding(
        first.path,
        f'`{dotted(first.path)}`{count} {"are" if others else "is"} "auto", which only a trainer fills in; {what}',
        "write the values; if Transformers or Accelerate reads this file, say so with --for",
        at="value",
        related=tuple(Related(fact.path, '"auto" here too') for fact in others),
        effect="refused" if fatal else None,
        phase="parse" if any(fact.path in _USED_AT_ONCE for fact in fatal) else "initialize" if fatal else None,
        actor=actor,
    )


#: Keys whose value DeepSpeed works with while it still reads the file.
_USED_AT_ONCE = (
    ("train_batch_size",),
    ("train_micro_batch_size_per_gpu",),
    ("gradient_accumulation_steps",),
    ("gradient_allreduce_op",),
    ("communication_data_type",),
    ("seq_parallel_communication_data_type",),
    ("wall_clock_breakdown",),
    ("vocabulary_size",),
)


def _dropped(fact: Auto) -> bool:
    return fact.block.reader == "pydantic"


def _taken_for_true(fact: Auto) -> bool:
    key = fact.block.keys.get(str(fact.path[-1]))
    return key is not None and key.boolean
