"""Rules about what a reader other than DeepSpeed does with the file: what it fills, refuses, replaces and loses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dsconf.diagnostic import Path, dotted
from dsconf.readers import PROFILES, Arguments, Key, Profile
from dsconf.rules.rule import Context, Finding, replace, rule, show

if TYPE_CHECKING:
    from dsconf.facts import Bound
    from dsconf.models.block import Block

_TRANSFORMERS = Context(reader="transformers")
_HALVES = ("fp16", "bf16")


def profile_of(context: Context) -> Profile | None:
    """What is known about the reader; None for DeepSpeed itself."""
    return PROFILES.get(context.reader)


def arguments_of(context: Context) -> Arguments | None:
    """The reader's own arguments, if somebody gave them."""
    profile = profile_of(context)
    if profile is None or context.training_args is None:
        return None
    return profile.read(context.training_args, context.world_size)


def place_of(context: Context, argument: str = "") -> str:
    """Where the arguments, or one of them, came from, in words: the file, with line and column where it is in one."""
    from dsconf.source import find_key

    document = context.training_args_document
    if document is None:
        return "the training arguments"
    member = find_key(document.root, argument) if argument and document.root else None
    if member is None or member.key_span is None:
        return document.filename
    position = document.position(member.key_span.start)
    return f"{document.filename}:{position.line}:{position.column}"


def literal(bound: Bound, path: Path) -> Any:
    """What the file says at a path, None where it says nothing or null."""
    from dsconf.source import plain

    node = bound.node(path)
    return None if node is None else plain(node)


def fills(profile: Profile, path: Path, bound: Bound) -> bool:
    """Whether the reader replaces "auto" at a path of this file."""
    found = profile.key(path)
    if any(item.path == path for item in profile.overrides):
        return True
    return found is not None and found.fills and all(bound.given(name) for name in found.needs)


@rule(
    "DS953",
    "absent-key-not-filled",
    "warning",
    "advice",
    fallback=-1,
    judge="reader",
    summary='A key that is absent where "auto" would take the reader\'s argument.',
    explanation="""Readers replace "auto", they do not add keys. Without the key DeepSpeed uses its own default,
    whatever the argument says: gradients are clipped at 1.0 even with `max_grad_norm: 0`, an optimizer without `lr`
    trains at 0.001, a schedule warms up over 1000 steps. Nobody says a word about it.""",
    source="transformers/integrations/deepspeed.py:119",
    bad={
        "optimizer": {"type": "AdamW", "params": {"weight_decay": "auto"}},
        "zero_optimization": {"stage": 2},
    },
    good={
        "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}},
        "zero_optimization": {"stage": 2},
    },
    context=_TRANSFORMERS,
)
def absent_key_not_filled(bound: Bound, context: Context) -> Iterator[Finding]:
    profile = profile_of(context)
    if profile is None:
        return
    arguments = arguments_of(context)
    for item in profile.keys:
        if item.adds or not item.fills or bound.given(*item.path):
            continue
        default = item.absent if item.absent is not None else _default(bound, item.path)
        if default is None:
            continue
        wanted = item.value(arguments or profile.read({})) if item.value else None
        clipping = item.path == ("gradient_clipping",)
        if wanted is None and not clipping:
            continue
        certain = arguments is not None and arguments.given(*item.arguments)
        if wanted == default and not (clipping and arguments is None):
            continue
        if not certain and item.path[-1] in ("betas", "eps", "weight_decay"):
            continue
        yield Finding(
            item.path,
            f"`{dotted(item.path)}` is absent, so it is {show(default)}; "
            + (
                f"{_says(item, arguments, wanted, context)}, and is lost"
                if arguments and item.arguments
                else f"{_lost(item, context)} has no effect"
            ),
            'write "auto" for it' if item.value else "write the norm that the script clips to",
            severity="error" if certain else None,
        )
    if context.reader == "transformers" and arguments and literal(bound, ("train_batch_size",)) == "auto":
        steps = arguments.get("gradient_accumulation_steps")
        if not bound.given("gradient_accumulation_steps") and steps != 1:
            yield Finding(
                ("gradient_accumulation_steps",),
                "`gradient_accumulation_steps` is absent, so it is 1, but `train_batch_size` is filled for "
                f"{show(steps)}; DeepSpeed refuses batch numbers that do not multiply out",
                'add "gradient_accumulation_steps": "auto"',
                severity="error",
                effect="refused",
                phase="initialize",
            )


def _lost(item: Key, context: Context) -> str:
    """What has no effect while a key is absent."""
    if item.arguments:
        return " and ".join(f"`{name}`" for name in item.arguments if name != "warmup_ratio")
    return "`clip_grad_norm_` of Accelerate" if context.reader == "accelerate" else item.becomes


def _default(bound: Bound, path: Path) -> Any:
    """DeepSpeed's default of a parameter of the optimizer or scheduler that the file has; None if it has neither."""
    from dsconf.blocks import block_type
    from dsconf.facts import type_of

    if path[0] not in ("optimizer", "scheduler") or len(path) != 3:
        return None
    block: Block | None = getattr(bound.block, str(path[0]), None)
    if block is None:
        return None
    key = block_type(type_of(block).keys["params"].blocks[0]).keys.get(str(path[2]))
    return None if key is None or key.required else key.default


def _says(item: Key, arguments: Arguments, value: Any, context: Context) -> str:
    """What the arguments say about a key, and where."""
    given = [name for name in item.arguments if arguments.given(name)]
    if not given:
        return f"`{item.arguments[0]}` is not in {place_of(context)} and {show(value)} by default"
    if len(given) == 1 and arguments.get(given[0]) == value:
        return f"`{given[0]}` is {show(value)} in {place_of(context, given[0])}"
    return f"{place_of(context, given[0])} comes to {show(value)} ({item.becomes})"


@rule(
    "DS954",
    "contradicts-argument",
    "error",
    "refused",
    phase="initialize",
    judge="reader",
    summary="A value in the file that the reader's own argument contradicts.",
    explanation="""The Trainer compares the file with TrainingArguments before the first step and refuses every
    difference, by plain equality: the text "5e-5" is not the number. Accelerate and Lightning do not compare, keep
    what the file says and drop the argument. Warmup of 0 steps counts as 1, since DeepSpeed refuses 0. Where an
    argument is not given, its default counts.""",
    source="transformers/integrations/deepspeed.py:260",
    bad={
        "optimizer": {"type": "AdamW", "params": {"lr": 0.0001}},
        "zero_optimization": {"stage": 2},
        "train_micro_batch_size_per_gpu": 8,
    },
    good={
        "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
        "zero_optimization": {"stage": 2},
        "train_micro_batch_size_per_gpu": 8,
    },
    context=Context(reader="transformers", training_args={"learning_rate": 5e-5}),
)
def contradicts_argument(bound: Bound, context: Context) -> Iterator[Finding]:
    profile = profile_of(context)
    if profile is None:
        return
    arguments = arguments_of(context) or profile.read({})
    if context.reader == "accelerate" and arguments.given("deepspeed_config"):
        # Accelerate's own YAML, whose settings are refused beside a file before anything is compared.
        return
    for item in profile.keys:
        here = literal(bound, item.path)
        if item.conflict is None or item.value is None or here is None or here == "auto" or bound.is_broken(item.path):
            continue
        wanted = item.value(arguments)
        if wanted is None or here == wanted:
            continue
        both = item.path[0] in _HALVES and here is True and _asked(_other(item.path[0]), profile, arguments)
        text = isinstance(here, str) and item.conflict == "refused"
        certain = text or both or arguments.given(*item.arguments)
        if not certain and (item.conflict == "kept" or context.training_args is None):
            continue
        refused = item.conflict == "refused" or both
        if refused:
            what = f"{profile.name} refuses the two together"
        else:
            what = f"{profile.name} keeps what the file says, and the argument is lost"
        yield Finding(
            item.path,
            f"`{dotted(item.path)}` is the text {show(here)}, which equals no value of `{item.arguments[0]}`; {what}"
            if text
            else f"`{dotted(item.path)}` is {show(here)} here, but {_says(item, arguments, wanted, context)}; {what}",
            'write "auto", and the argument decides'
            if item.fills
            else f"remove it, and {item.arguments[0]} decides"
            if item.adds
            else f"write {show(wanted)}, or change {item.arguments[0]}",
            at="value",
            effect=None if refused else "ignored",
            severity=None if certain else "warning",
            fix=replace(item.path, "auto", 'write "auto"') if item.fills else None,
        )


def _other(name: str) -> str:
    return "bf16" if name == "fp16" else "fp16"


def _asked(name: str, profile: Profile, arguments: Arguments | None) -> bool | None:
    """Whether the arguments ask for a 16-bit type; None when they do not tell."""
    item = profile.key((name, "enabled"))
    return item.value(arguments) if item and item.value and arguments else None


@rule(
    "DS955",
    "half-precision-lost",
    "warning",
    "advice",
    fallback=-1,
    judge="reader",
    summary="A precision block that undoes the precision asked of the reader.",
    explanation="""Readers switch a 16-bit type on by adding the block, or by filling `enabled` where it is "auto". A
    block without `enabled` is left as it is, and DeepSpeed takes that for false: the model trains in fp32 and nobody
    says so. Beside `torch_autocast` an added block turns the parameters themselves into the 16-bit type.""",
    source="accelerate/utils/dataclasses.py:1425",
    bad={"bf16": {}, "zero_optimization": {"stage": 2}},
    good={"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}},
    context=_TRANSFORMERS,
)
def half_precision_lost(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.source import Object

    profile, arguments = profile_of(context), arguments_of(context)
    if profile is None:
        return
    for name in _HALVES:
        asked, node = _asked(name, profile, arguments), bound.node((name,))
        autocast = literal(bound, ("torch_autocast", "enabled"))
        if node is None and asked and autocast is True:
            yield Finding(
                ("torch_autocast",),
                f"{place_of(context)} asks for {name}, so {profile.name} adds a `{name}` block and the parameters "
                f"are {name} themselves, not fp32 under autocast",
                f'add "{name}": {{"enabled": false}} and leave the argument out to keep fp32 parameters',
            )
        if not isinstance(node, Object) or node.get("enabled") is not None or asked is False:
            continue
        if asked is None and literal(bound, (_other(name), "enabled")) not in (None, False):
            continue
        switch = '"auto"' if fills(profile, (name, "enabled"), bound) else "true"
        yield Finding(
            (name,),
            f"`{name}` has no `enabled`, which means false, "
            + (f"though {place_of(context)} asks for {name}" if asked else f"whatever is asked of {profile.name}")
            + "; the model trains in fp32",
            f'add "enabled": {switch}, or remove the block',
            severity="error" if asked else None,
        )


@rule(
    "DS956",
    "block-required",
    "error",
    "refused",
    phase="parse",
    fallback=-1,
    judge="reader",
    summary="A block that the reader cannot do without.",
    explanation="""Accelerate, and Transformers with it, needs `zero_optimization` to be there and to be an object;
    an empty one is stage 0. It looks into `offload_optimizer` without asking whether it is null.""",
    source="accelerate/utils/dataclasses.py:1277",
    bad={"bf16": {"enabled": True}},
    good={"bf16": {"enabled": True}, "zero_optimization": {"stage": 0}},
    context=_TRANSFORMERS,
)
def block_required(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.source import Object, Scalar

    profile = profile_of(context)
    if profile is None or not profile.needs_zero:
        return
    node = bound.node(("zero_optimization",))
    if node is None:
        yield Finding(
            ("zero_optimization",),
            f"`zero_optimization` is absent; {profile.name} refuses the file",
            'add "zero_optimization": {"stage": 2}, or {"stage": 0} to train without ZeRO',
        )
    elif isinstance(node, Scalar) and (node.value is None or isinstance(node.value, bool)):
        yield Finding(
            ("zero_optimization",),
            f"`zero_optimization` is {show(node.value)}; {profile.name} needs an object and fails on anything else",
            f'write {{"stage": {int(bool(node.value))}}}',
            at="value",
        )
    elif isinstance(node, Object) and not bound.given("optimizer"):
        offload = node.get("offload_optimizer")
        if offload and isinstance(offload.value, Scalar) and offload.value.value is None:
            yield Finding(
                ("zero_optimization", "offload_optimizer"),
                f"`offload_optimizer` is null; {profile.name} looks into it and fails with an AttributeError",
                'remove it, or write {"device": "none"}',
                at="value",
                phase="initialize",
            )


@rule(
    "DS957",
    "key-refused-by-reader",
    "error",
    "refused",
    phase="initialize",
    judge="reader",
    summary="A key that the reader refuses, whatever its value.",
    explanation="""Lightning counts accumulation itself and refuses `gradient_accumulation_steps` in the file, even
    where it equals `accumulate_grad_batches`.""",
    source="lightning/pytorch/strategies/deepspeed.py:924",
    bad={"gradient_accumulation_steps": 4},
    good={"zero_optimization": {"stage": 2}},
    context=Context(reader="lightning"),
)
def key_refused_by_reader(bound: Bound, context: Context) -> Iterator[Finding]:
    profile = profile_of(context)
    for item in profile.refuses if profile else ():
        if bound.given(*item.path):
            yield Finding(item.path, f"{profile.name if profile else ''} refuses `{dotted(item.path)}`", item.words)


@rule(
    "DS958",
    "key-not-passed-on",
    "warning",
    "ignored",
    judge="reader",
    summary="A key that the reader writes over or leaves out.",
    explanation="""Transformers and Accelerate always set `steps_per_print` to infinity. Lightning configures
    activation checkpointing itself and hands on four of the keys only.""",
    source="lightning/pytorch/strategies/deepspeed.py:560",
    bad={
        "activation_checkpointing": {"partition_activations": True, "number_checkpoints": 12},
        "zero_optimization": {"stage": 2},
    },
    good={"activation_checkpointing": {"partition_activations": True}, "zero_optimization": {"stage": 2}},
    context=Context(reader="lightning"),
)
def key_not_passed_on(bound: Bound, context: Context) -> Iterator[Finding]:
    profile = profile_of(context)
    if profile is None:
        return
    for item in profile.overrides:
        if bound.given(*item.path):
            words = f"`{dotted(item.path)}` has no effect: {item.words}"
            yield Finding(item.path, words, "remove it", severity="info")
    for item in profile.drops:
        if bound.given(*item.path):
            yield Finding(item.path, f"`{dotted(item.path)}` has no effect: {item.words}", "remove it")
