"""What a rule is: one record that holds everything there is to say about one kind of problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dsconf.diagnostic import Edit, Effect, Fix, Path, Phase, Related, Severity
from dsconf.links import rule_url
from dsconf.releases import number

if TYPE_CHECKING:
    from dsconf.facts import Bound
    from dsconf.memory.model import Model
    from dsconf.source import Document, Span

#: The DeepSpeed release that the rules describe.
DEEPSPEED = "0.19.8"

#: What an example is completed with, so that examples show what matters and still train.
COMPLETION: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
    "gradient_clipping": 1.0,
    "bf16": {"enabled": False},
}


#: Who reads the file.
Reader = Literal["deepspeed", "transformers", "accelerate", "lightning"]

#: Who brings the optimizer: the file, the script, or nobody.
Owner = Literal["config", "client", "none"]


class Context(NamedTuple):
    """What a file does not say and rules may need; None means unknown.

    `world_size`: number of ranks. `optimizer`: who brings it, the file, the script (`client`) or nobody.
    `device`: kind of accelerator. `exports`: whether 16-bit weights will be saved for use elsewhere.
    `reader`: who reads the file; a trainer fills in "auto" before DeepSpeed sees it. `training_args`: the trainer's
    own arguments, and `training_args_document` the file that they came from. `deepspeed`: the releases
    that the file is for, oldest first. `model` (or how many parameters it has), `gpu_memory_bytes` (of one accelerator)
    and `host_memory_bytes` (of one node): what memory is judged by. The rest is what `dsconf.job` describes.
    """

    world_size: int | None = None
    optimizer: Owner | None = None
    device: Literal["cuda", "cpu"] | None = None
    exports: bool | None = None
    reader: Reader = "deepspeed"
    training_args: Mapping[str, Any] | None = None
    training_args_document: Document | None = None
    zero_init: bool | None = None
    scheduler: Literal["config", "client"] | None = None
    autocast: bool | None = None
    model_dtype: Literal["float32", "float16", "bfloat16"] | None = None
    moe: bool | None = None
    hidden_size: bool | None = None
    loader_batch_size: int | None = None
    ranks_per_node: int | None = None
    saved_stage: int | None = None
    saved_precision: Literal["fp32", "fp16", "bf16"] | None = None
    container: str | None = None
    transformers: str | None = None
    model: Model | int | None = None
    gpu_memory_bytes: int | None = None
    host_memory_bytes: int | None = None
    deepspeed: tuple[str, ...] = (DEEPSPEED,)

    @property
    def release(self) -> str:
        """The DeepSpeed release that is judged for; of several, the newest."""
        return self.deepspeed[-1]

    def with_training_args(self, document: Document) -> Context:
        """The same, and the trainer's own arguments, from their file."""
        from dsconf.source import plain

        values: Mapping[str, Any] = plain(document.root) if document.root else {}
        return self._replace(training_args=values, training_args_document=document)


class Finding(NamedTuple):
    """One occurrence of a rule's problem, by path; the framework finds the place.

    `at` says which token is wrong: the key or its value. Severity, effect and phase are the rule's unless
    given; `span` overrides the place, for problems of the text. `alternatives`: other fixes than `fix`, any of
    which will do. `covers`: other paths that this speaks for.
    `actor`: who does what `effect` says, where the rule's `judge` does not tell.
    """

    path: Path
    message: str
    help: str = ""
    at: Literal["key", "value"] = "key"
    related: tuple[Related, ...] = ()
    fix: Fix | None = None
    alternatives: tuple[Fix, ...] = ()
    severity: Severity | None = None
    effect: Effect | None = None
    phase: Phase | None = None
    span: Span | None = None
    covers: tuple[Path, ...] = ()
    actor: str = ""


Check = Callable[["Bound", Context], Iterable[Finding]]


class Rule(NamedTuple):
    """One kind of problem.

    `reads`: the dotted keys whose values the check relies on; it does not run when one of them is broken.
    `fallback`: how general the rule is; it is silent at a path about which a rule with a lower number has spoken.
    `block`: the check needs one block only, so it also runs when a block is built on its own.
    `source`: the line of DeepSpeed 0.19.8 that decides.
    `bad`, `good`: examples, completed with `COMPLETION` where they do not set those keys (unless `whole`).
    `says`: a part of what the engine raises when it refuses the bad example, white space folded.
    `context`: what the examples are judged in, and `good_context` the good one, where that differs. `swaps`: they show
    only on tensors that are large enough to be swapped to a drive. `mutes`: nothing reads what it speaks about, so the
    other rules are silent there and about everything inside. `judge`: who shows that the rule is right, DeepSpeed or
    another reader, whose line `source` then is, or the arithmetic of `dsconf.memory`. `shown`: the examples show on one
    machine without a GPU what the rule says; where they do not, reading `source` has to do. `since`, `until`: the first
    and the last DeepSpeed release that it holds for.
    """

    code: str
    name: str
    severity: Severity
    effect: Effect
    summary: str
    explanation: str
    source: str
    bad: Any
    good: Any
    check: Check
    phase: Phase | None = None
    says: str = ""
    reads: tuple[Path, ...] = ()
    fallback: int = 0
    block: bool = False
    whole: bool = False
    context: Context = Context()
    good_context: Context | None = None
    swaps: bool = False
    mutes: bool = False
    judge: Literal["deepspeed", "reader", "arithmetic"] = "deepspeed"
    shown: bool = True
    since: str = ""
    until: str = ""

    @property
    def url(self) -> str:
        """The rule's page."""
        return rule_url(self.name)

    def holds_for(self, release: str) -> bool:
        """Whether the rule speaks about a DeepSpeed release."""
        late_enough = not self.since or number(release) >= number(self.since)
        return late_enough and (not self.until or number(release) <= number(self.until))

    def context_of(self, which: Literal["bad", "good"]) -> Context:
        """What an example is judged in."""
        return self.context if which == "bad" else self.good_context or self.context

    def example(self, which: Literal["bad", "good"]) -> str:
        """The text of an example, as a whole file."""
        import json

        part = self.bad if which == "bad" else self.good
        if isinstance(part, str):
            return part
        return json.dumps(part if self.whole else {**COMPLETION, **part}, indent=2) + "\n"


def rule(
    code: str,
    name: str,
    severity: Severity,
    effect: Effect,
    *,
    summary: str,
    explanation: str,
    source: str,
    bad: Any,
    good: Any,
    phase: Phase | None = None,
    says: str = "",
    reads: Iterable[str] = (),
    fallback: int = 0,
    block: bool = False,
    whole: bool = False,
    context: Context | None = None,
    good_context: Context | None = None,
    swaps: bool = False,
    mutes: bool = False,
    judge: Literal["deepspeed", "reader", "arithmetic"] = "deepspeed",
    shown: bool = True,
    since: str = "",
    until: str = "",
) -> Callable[[Check], Rule]:
    """Make a rule of the function that checks it."""

    def record(check: Check) -> Rule:
        return Rule(
            code=code,
            name=name,
            severity=severity,
            effect=effect,
            summary=summary,
            explanation=" ".join(explanation.split()),
            source=source,
            bad=bad,
            good=good,
            check=check,
            phase=phase,
            says=says,
            reads=tuple(tuple(item.split(".")) for item in reads),
            fallback=fallback,
            block=block,
            whole=whole,
            context=context or Context(),
            good_context=good_context,
            swaps=swaps,
            mutes=mutes,
            judge=judge,
            shown=shown,
            since=since,
            until=until,
        )

    return record


def remove(path: Path, message: str, *, safe: bool = True) -> Fix:
    """Delete a key."""
    return Fix(message, (Edit("remove", path),), safe)


def replace(path: Path, value: Any, message: str, *, safe: bool = True) -> Fix:
    """Give a key another value."""
    return Fix(message, (Edit("replace", path, value),), safe)


def move(source: Path, path: Path, message: str, *, safe: bool = True) -> Fix:
    """Rename a key or move it to another block."""
    return Fix(message, (Edit("move", path, source=source),), safe)


def show(value: Any) -> str:
    """A value as it would stand in the file, shortened."""
    import json

    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def close_match(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that a word is probably a slip of."""
    return _close_match(word, tuple(candidates))


@lru_cache(maxsize=1024)
def _close_match(word: str, candidates: tuple[str, ...]) -> str | None:
    import difflib

    pool = {item.lower(): item for item in candidates}
    folded = word.lower().replace("-", "_")
    if folded in pool:
        return pool[folded]
    found = difflib.get_close_matches(folded, pool, n=1, cutoff=0.8)
    return pool[found[0]] if found else None


def findings_of(rule: Rule, bound: Bound, context: Context) -> Iterable[Finding]:
    """Run a rule, unless something that it relies on is broken."""
    if bound.broken and any(bound.is_broken(path) for path in rule.reads):
        return ()
    return rule.check(bound, context)
