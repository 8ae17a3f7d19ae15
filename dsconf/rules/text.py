"""Rules about the text of the file, before anything in it has a meaning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Related
from dsconf.readers import PROFILES
from dsconf.rules.rule import Context, Finding, rule, show

if TYPE_CHECKING:
    from dsconf.facts import Bound, Mismatch, UnknownTag
    from dsconf.source import Node, Scalar


@rule(
    "DS001",
    "unreadable",
    "error",
    "refused",
    phase="parse",
    says="HjsonDecodeError: Bad key name (eof): line 4 column 1 (char 55)",
    summary="The file cannot be read, even by a lenient reader.",
    explanation="""DeepSpeed reads its configuration with Hjson, which forgives comments and commas. What Hjson
    cannot read either stops the job when the file is opened.""",
    source="runtime/config.py:446",
    bad='{\n  "train_batch_size": 8,\n  "fp16": {"enabled": true}\n',
    good='{\n  "train_batch_size": 8,\n  "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}\n}\n',
    whole=True,
)
def unreadable(bound: Bound, context: Context) -> Iterator[Finding]:
    for fault in bound.document.faults:
        yield Finding((), fault.message, fault.help, span=fault.span)


_EXTENSIONS = {
    "byte-order-mark": "a byte order mark",
    "comment": "a comment",
    "trailing-comma": "a comma after the last element",
    "missing-comma": "no comma between two elements",
    "unquoted-key": "a key without quotes",
    "quoteless-string": "a string without quotes",
    "single-quoted": "a string in single quotes",
    "multiline-string": "a string over several lines",
    "no-root-braces": "no braces around the whole file",
}


@rule(
    "DS002",
    "hjson-only",
    "info",
    "advice",
    summary="The file is Hjson; readers of plain JSON refuse it.",
    explanation="""DeepSpeed reads Hjson, so comments, missing commas and bare words pass. Transformers,
    Accelerate, Lightning and most editors read JSON and refuse the same file.""",
    source="runtime/config.py:446",
    bad='{\n  # samples per rank\n  "train_micro_batch_size_per_gpu": 2,\n  "gradient_clipping": 1.0,\n'
    '  "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},\n}\n',
    good='{\n  "train_micro_batch_size_per_gpu": 2,\n  "gradient_clipping": 1.0,\n'
    '  "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}\n}\n',
    whole=True,
)
def hjson_only(bound: Bound, context: Context) -> Iterator[Finding]:
    found, reader = bound.document.extensions, PROFILES.get(context.reader)
    if found:
        kinds = ", ".join(dict.fromkeys(_EXTENSIONS[item.kind] for item in found))
        yield Finding(
            (),
            f"{reader.name} reads plain JSON and refuses this: {kinds}"
            if reader
            else f"DeepSpeed reads this, a plain JSON reader does not: {kinds}",
            "write plain JSON"
            if reader
            else "write plain JSON if Transformers, Accelerate or Lightning read the file too",
            span=found[0].span,
            severity="error" if reader else None,
            effect="refused" if reader else None,
            phase="parse" if reader else None,
            actor=reader.name if reader else "",
        )


_PLACEHOLDER = r"\$\{[^}]*\}|\{\{[^}]*\}\}|<[A-Za-z_][\w -]*>|^\$\w+$|^%\(?\w+\)?s?%?$|^[A-Z][A-Z0-9]*(_[A-Z0-9]+)+$"


@rule(
    "DS003",
    "template-placeholder",
    "error",
    "refused",
    summary="A template's placeholder was not filled in.",
    explanation="""The file still holds the place where a script or a template engine was to put a value, so
    DeepSpeed reads the placeholder itself, as a string.""",
    source="runtime/config.py:596",
    bad={"train_micro_batch_size_per_gpu": "${MICRO_BATCH}"},
    good={"train_micro_batch_size_per_gpu": 4},
    phase="parse",
    says="TypeError: '>' not supported between instances of 'str' and 'int'",
)
def template_placeholder(bound: Bound, context: Context) -> Iterator[Finding]:
    found = [fact for fact in _wrong(bound) if _is_placeholder(fact)]
    if found:
        first, others = found[0], found[1:]
        count = f", and {len(others)} more values are" if len(others) > 1 else ", and another is" if others else ""
        yield Finding(
            first.path,
            f"{show(first.value)} is a placeholder that nothing has filled in{count}",
            "run the script that completes this template, or write the values here",
            at="value",
            related=tuple(Related(fact.path, f"{show(fact.value)} too") for fact in others),
            covers=tuple(fact.path for fact in others),
        )


def _wrong(bound: Bound) -> list[Mismatch | UnknownTag]:
    from dsconf.facts import Mismatch, UnknownTag

    return [*bound.of(Mismatch), *bound.of(UnknownTag)]


def _is_placeholder(fact: Mismatch | UnknownTag) -> bool:
    return isinstance(fact.value, str) and bool(re.search(_PLACEHOLDER, fact.value.rstrip(", ")))


_SWALLOWED = r"^\s*(?P<value>[^,#]*?)\s*,?\s*(?P<rest>(#|//|/\*).*|,)\s*$"


def _quoteless(bound: Bound, path: tuple[str | int, ...]) -> Scalar | None:
    from dsconf.source import Scalar

    node: Node | None = bound.node(path)
    return node if isinstance(node, Scalar) and node.style == "quoteless" else None


@rule(
    "DS004",
    "swallowed-line",
    "error",
    "refused",
    phase="parse",
    says="ValidationError: 1 validation error for DeepSpeedZeroConfig stage Input should be 0, 1, 2, 3 or 3",
    summary="A value without quotes took the rest of its line with it.",
    explanation="""In Hjson a string without quotes ends at the end of the line. A comment or a comma after a
    bare value is therefore part of the value: `8 # per node` is a string, not the number eight.""",
    source="runtime/config.py:446",
    bad='{\n  "train_micro_batch_size_per_gpu": 2,\n  "gradient_clipping": 1.0,\n  "zero_optimization": {\n'
    '    "stage": 1 per node  # sharded\n  }\n}\n',
    good='{\n  "train_micro_batch_size_per_gpu": 2,\n  "gradient_clipping": 1.0,\n'
    '  "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},\n  "zero_optimization": {\n'
    '    "stage": 1  # sharded\n  }\n}\n',
    whole=True,
)
def swallowed_line(bound: Bound, context: Context) -> Iterator[Finding]:
    for fact in _wrong(bound):
        node = _quoteless(bound, fact.path)
        if node and not _is_placeholder(fact) and re.match(_SWALLOWED, node.text):
            yield Finding(
                fact.path,
                f"the value is the string {show(fact.value)}: without quotes it runs to the end of the line",
                "write the value alone on its line, and the comment on a line of its own",
                at="value",
                phase="parse" if fact.block.reader == "pydantic" else "initialize",
            )
