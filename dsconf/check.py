"""The validator: a document is bound to the models, the rules look at it, findings become diagnostics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from dsconf.bind import bind
from dsconf.diagnostic import ConfigError, Diagnostic, Path, Related
from dsconf.facts import Bound, within
from dsconf.models.block import Block
from dsconf.models.config import DeepSpeedConfig
from dsconf.models.index import home
from dsconf.models.shape import shape, tag_values
from dsconf.readers import PROFILES
from dsconf.rules import RULES
from dsconf.rules.rule import Context, Finding, Rule, findings_of
from dsconf.rules.text import unreadable
from dsconf.source import Document, Object, Position, Span, find, from_python

SomeBlock = TypeVar("SomeBlock", bound=Block)

_ORDER = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in one document, in its order; `config` is None when there are errors."""

    document: Document
    diagnostics: tuple[Diagnostic, ...]
    config: DeepSpeedConfig | None


def check(document: Document, context: Context | None = None) -> Report:
    """Validate a document that was read from text."""
    bound = bind(document, DeepSpeedConfig)
    rules = RULES if document.root is not None else (unreadable,)
    diagnostics = _run(rules, bound, context or Context())
    failed = any(item.severity == "error" for item in diagnostics)
    return Report(document, diagnostics, None if failed else cast(DeepSpeedConfig, bound.block))


def check_values(values: Mapping[str, Any], context: Context | None = None) -> tuple[Diagnostic, ...]:
    """Validate a configuration that is a dict, as a whole; the diagnostics have no places."""
    return _check_block(DeepSpeedConfig, values, context or Context())[0]


def build(cls: type[SomeBlock], values: Mapping[str, Any], context: Context | None = None) -> SomeBlock:
    """Build a typed block from plain values and blocks.

    Raises:
        ConfigError: with every diagnostic, when one of them is an error.
        TypeError: a value is of a type that JSON does not have.
    """
    diagnostics, block = _check_block(cls, values, context or Context())
    if any(item.severity == "error" for item in diagnostics):
        raise ConfigError(diagnostics)
    return cast(SomeBlock, block)


def _check_block(cls: type[Block], values: Mapping[str, Any], context: Context) -> tuple[tuple[Diagnostic, ...], Block]:
    plain = {name: _unbuilt(item) for name, item in values.items()}
    if cls is DeepSpeedConfig:
        bound = bind(Document("", "", cast(Object, from_python(plain)), (), ()), cls)
        return _run(RULES, bound, context), bound.block
    path, whole = _at_home(cls, plain)
    bound = bind(Document("", "", cast(Object, from_python(whole)), (), ()), DeepSpeedConfig)
    diagnostics = _run([rule for rule in RULES if rule.block], bound, context)
    block: Any = bound.block
    for part in path:
        block = getattr(block, str(part), None) if isinstance(block, Block) else block[part]
    return tuple(item for item in diagnostics if item.path[: len(path)] == path), block


def _at_home(cls: type[Block], values: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """A block that is built on its own, put where it belongs, so that it is judged as it would be there."""
    if cls.tag:
        own = tag_values(cls)[0]
        if values.get(cls.tag, own) != own:
            raise TypeError(f"{cls.__name__} is for {cls.tag} {own!r}, not {values[cls.tag]!r}")
        values = {cls.tag: own, **values}
    path: Path = ()
    for parent, name in reversed(home(cls)):
        container = shape(parent, name).container
        inner: Any = [values] if container == "list" else {"name": values} if container == "dict" else values
        path = (name, *((0,) if container == "list" else ("name",) if container == "dict" else ()), *path)
        values = {name: inner}
        if parent.tag:
            values[parent.tag] = tag_values(parent)[0]
    return path, values


def _unbuilt(value: Any) -> Any:
    if isinstance(value, Block):
        return value.to_dict()
    if isinstance(value, dict):
        return {name: _unbuilt(item) for name, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_unbuilt(item) for item in cast("list[Any]", value)]
    return value


def _run(rules: Iterable[Rule], bound: Bound, context: Context) -> tuple[Diagnostic, ...]:
    """Every finding as a diagnostic with its place, in the order of the document.

    A general rule is silent at a path about which a more special one has spoken; every rule is silent about what
    nothing reads.
    """
    rules = tuple(rules)
    profile = PROFILES.get(context.reader)
    if profile:
        # What the reader adds is as unknown as what it fills in.
        bound.broken.update(item.path for item in profile.keys if item.adds and not bound.given(*item.path))
    found = [(rule, finding) for rule in rules if rule.mutes for finding in findings_of(rule, bound, context)]
    unread = [finding.path for _, finding in found]
    read = bound.without(unread) if unread else bound
    found += [
        (rule, finding)
        for rule in rules
        if not rule.mutes
        for finding in findings_of(rule, read, context)
        if not within(finding.path, unread)
    ]
    spoken: dict[Path, int] = {}
    for rule, finding in found:
        for path in (finding.path, *finding.covers):
            spoken[path] = min(rule.fallback, spoken.get(path, rule.fallback))
    diagnostics = [
        _diagnostic(rule, finding, bound.document, context)
        for rule, finding in found
        if rule.fallback == spoken[finding.path]
    ]
    diagnostics.sort(key=lambda item: (item.location.offset if item.location else -1, _ORDER[item.severity], item.code))
    return tuple(diagnostics)


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
        phase=finding.phase or (rule.phase if (finding.effect or rule.effect) == "refused" else None),
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
