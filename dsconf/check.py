"""The validator: a document is bound to the models, the rules look at it, findings become diagnostics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast

from dsconf.bind import bind
from dsconf.blocks import ROOT, BlockType, block_type, home
from dsconf.diagnostic import ConfigError, Diagnostic, Path, Related
from dsconf.facts import Bound, Values, within
from dsconf.readers import PROFILES
from dsconf.rules import RULES
from dsconf.rules.rule import DEEPSPEED, Context, Finding, Rule, findings_of
from dsconf.rules.text import unreadable
from dsconf.source import Document, Object, Position, Span, find, from_python

if TYPE_CHECKING:
    from dsconf.models.block import Block
    from dsconf.models.config import DeepSpeedConfig

SomeBlock = TypeVar("SomeBlock", bound="Block")

#: Which rules to run: all, those about a text that cannot be read, or those that need one block only.
Choice = Literal["all", "text", "block"]

_ORDER = {"error": 0, "warning": 1, "info": 2}


class Report(NamedTuple):
    """What was found in one document, in its order."""

    document: Document
    diagnostics: tuple[Diagnostic, ...]
    bound: Bound

    @property
    def config(self) -> DeepSpeedConfig | None:
        """The typed configuration; None when there are errors."""
        from dsconf.models.typed import typed

        failed = any(item.severity == "error" for item in self.diagnostics)
        return None if failed else cast("DeepSpeedConfig", typed(self.bound.block))


def check(document: Document, context: Context | None = None) -> Report:
    """Validate a document that was read from text."""
    context = context or Context()
    bound = bind(document, _older(context))
    rules: Choice = "all" if document.root is not None else "text"
    if len(context.deepspeed) == 1:
        return Report(document, _run(rules, bound, context), bound)
    each = [context._replace(deepspeed=(item,)) for item in context.deepspeed]
    judged = [(item.release, _run(rules, bind(document, _older(item)), item)) for item in each]
    return Report(document, _over_releases(judged), bound)


def _older(context: Context) -> str | None:
    """The release that is judged for, unless it is the one that the table describes."""
    return None if context.release == DEEPSPEED else context.release


def check_values(values: Mapping[str, Any], context: Context | None = None) -> tuple[Diagnostic, ...]:
    """Validate a configuration that is a dict, as a whole; the diagnostics have no places."""
    bound = bind(_document(_plain_values(values)))
    return _run("all", bound, context or Context())


def build(cls: type[SomeBlock], values: Mapping[str, Any], context: Context | None = None) -> SomeBlock:
    """Build a typed block from plain values and blocks.

    Raises:
        ConfigError: with every diagnostic, when one of them is an error.
        TypeError: a value is of a type that JSON does not have.
    """
    from dsconf.models.typed import typed

    diagnostics, block = _check_block(cls.__name__, _plain_values(values), context or Context())
    if any(item.severity == "error" for item in diagnostics):
        raise ConfigError(diagnostics)
    return cast("SomeBlock", typed(block))


def _document(values: dict[str, Any]) -> Document:
    return Document("", "", cast(Object, from_python(values)), (), ())


def _check_block(name: str, values: dict[str, Any], context: Context) -> tuple[tuple[Diagnostic, ...], Values]:
    if name == ROOT:
        bound = bind(_document(values))
        return _run("all", bound, context), bound.block
    path, around = _at_home(block_type(name), values)
    bound = bind(_document(around))
    diagnostics = _run("block", bound, context)
    block: Any = bound.block
    for part in path:
        block = getattr(block, str(part)) if isinstance(block, Values) else block[part]
    return tuple(item for item in diagnostics if item.path[: len(path)] == path), block


def _at_home(block: BlockType, values: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """A block that is built on its own, put where it belongs, so that it is judged as it would be there."""
    if block.tag:
        own = block.tag_value
        if values.get(block.tag, own) != own:
            raise TypeError(f"{block.name} is for {block.tag} {own!r}, not {values[block.tag]!r}")
        values = {block.tag: own, **values}
    path: Path = ()
    for parent, name in reversed(home(block.name)):
        container = parent.keys[name].container
        inner: Any = [values] if container == "list" else {"name": values} if container == "dict" else values
        path = (name, *((0,) if container == "list" else ("name",) if container == "dict" else ()), *path)
        values = {name: inner}
        if parent.tag:
            values[parent.tag] = parent.tag_value
    return path, values


def _plain_values(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _unbuilt(item) for name, item in values.items()}


def _unbuilt(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {name: _unbuilt(item) for name, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_unbuilt(item) for item in cast("Sequence[Any]", value)]
    return value


@cache
def _rules(choice: Choice, release: str) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """The rules that hold for a release: those that mute others, and the others."""
    chosen = [unreadable] if choice == "text" else [rule for rule in RULES if choice == "all" or rule.block]
    held = [rule for rule in chosen if rule.holds_for(release)]
    return tuple(rule for rule in held if rule.mutes), tuple(rule for rule in held if not rule.mutes)


def _run(choice: Choice, bound: Bound, context: Context) -> tuple[Diagnostic, ...]:
    """Every finding as a diagnostic with its place, in the order of the document.

    A general rule is silent at a path about which a more special one has spoken; every rule is silent about what
    nothing reads.
    """
    muting, others = _rules(choice, context.release)
    profile = PROFILES.get(context.reader)
    if profile:
        # What the reader adds is as unknown as what it fills in.
        bound.broken.update(item.path for item in profile.keys if item.adds and not bound.given(*item.path))
    found = [(rule, finding) for rule in muting for finding in findings_of(rule, bound, context)]
    unread = [finding.path for _, finding in found]
    read = bound.without(unread) if unread else bound
    found += [
        (rule, finding)
        for rule in others
        for finding in findings_of(rule, read, context)
        if not within(finding.path, unread)
    ]
    if not found:
        return ()
    spoken: dict[Path, int] = {}
    for rule, finding in found:
        for path in (finding.path, *finding.covers):
            spoken[path] = min(rule.fallback, spoken.get(path, rule.fallback))
    diagnostics = [
        _diagnostic(rule, finding, bound.document, context)
        for rule, finding in found
        if rule.fallback == spoken[finding.path]
    ]
    return _in_order(diagnostics)


def _over_releases(judged: Sequence[tuple[str, tuple[Diagnostic, ...]]]) -> tuple[Diagnostic, ...]:
    """What was found for several releases; what does not hold for all of them says for which it does."""
    found: dict[tuple[str, Path, str], list[tuple[str, Diagnostic]]] = {}
    for release, diagnostics in judged:
        for item in diagnostics:
            found.setdefault((item.code, item.path, item.effect), []).append((release, item))
    merged: list[Diagnostic] = []
    for held in found.values():
        releases, item = [release for release, _ in held], held[-1][1]
        if len(held) < len(judged):
            item = item._replace(message=f"{item.message} (DeepSpeed {_spans(releases, [each for each, _ in judged])})")
        merged.append(item)
    return _in_order(merged)


def _spans(releases: Sequence[str], every: Sequence[str]) -> str:
    """Releases as stretches: `0.12.6 to 0.14.5, 0.16.9`."""
    stretches: list[list[str]] = []
    for release in releases:
        if stretches and every.index(release) == every.index(stretches[-1][-1]) + 1:
            stretches[-1].append(release)
        else:
            stretches.append([release])
    return ", ".join(item[0] if len(item) == 1 else f"{item[0]} to {item[-1]}" for item in stretches)


def _in_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(
        sorted(
            diagnostics,
            key=lambda item: (item.location.offset if item.location else -1, _ORDER[item.severity], item.code),
        )
    )


def _diagnostic(rule: Rule, finding: Finding, document: Document, context: Context) -> Diagnostic:
    start, end = _place(document, finding.span or _span(document, finding.path, finding.at))
    related = tuple(_related(document, item) for item in finding.related)
    severity = finding.severity or rule.severity
    return Diagnostic(
        code=rule.code,
        name=rule.name,
        severity=severity,
        effect=finding.effect or rule.effect,
        message=finding.message,
        help=finding.help,
        url=rule.url,
        path=finding.path,
        filename=document.filename,
        location=start,
        end_location=end,
        phase=finding.phase or (rule.phase if (finding.effect or rule.effect) in ("refused", "exhausts") else None),
        related=related,
        fix=finding.fix,
        alternatives=finding.alternatives,
        actor=finding.actor or (PROFILES[context.reader].name if rule.judge == "reader" else "DeepSpeed"),
    )


def _related(document: Document, item: Related) -> Related:
    start, end = _place(document, _span(document, item.path, "key"))
    return Related(item.path, item.message, start, end)


def _place(document: Document, span: Span | None) -> tuple[Position | None, Position | None]:
    if span is None:
        return None, None
    return document.position(span.start), document.position(span.end)


def _span(document: Document, path: tuple[str | int, ...], at: str) -> Span | None:
    """The token that a path means; the nearest one around it when nothing stands there."""
    if document.root is None:
        return None
    for length in range(len(path), -1, -1):
        place = find(document.root, path[:length])
        if place is None:
            continue
        if length == 0:
            return Span(place.node.span.start, place.node.span.start + 1) if place.node.span else None
        return place.key_span if place.key_span and (at == "key" or length < len(path)) else place.node.span
    return None
