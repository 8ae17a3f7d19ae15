"""A page for each rule, and the table of all."""

from __future__ import annotations

from collections.abc import Iterable

from dsconf.check import check
from dsconf.diagnostic import Diagnostic, Fix
from dsconf.explain import evidence, holds_for
from dsconf.links import source_url
from dsconf.report import Style
from dsconf.report.text import full
from dsconf.rules import RULES
from dsconf.rules.rule import DEEPSPEED, Context, Rule
from dsconf.source import Document, read_text

_EFFECTS = {
    "refused": "refused",
    "exhausts": "runs out of memory",
    "hangs": "hangs",
    "ignored": "ignored",
    "coerced": "taken for something else",
    "deprecated": "works, with a warning",
    "advice": "works as written",
}
#: Rules by the first digit after DS, in the order of their codes.
_FAMILIES = {
    "DS0": "Reading the file",
    "DS1": "Keys",
    "DS2": "Values",
    "DS3": "ZeRO",
    "DS4": "Offload and NVMe",
    "DS5": "Precision",
    "DS6": "Batch sizes",
    "DS7": "Optimizers",
    "DS8": "Schedulers",
    "DS9": "Everything else",
}


def pages() -> dict[str, str]:
    """The name and the text of each page."""
    return {"rules/index.md": _table(), **{f"rules/{rule.name}.md": _page(rule) for rule in RULES}}


def _table() -> str:
    lines = [
        "# Rules",
        "",
        f"Each rule is about what DeepSpeed {DEEPSPEED} really does: its bad example is run through the real engine in",
        f"dsconf's own tests wherever one machine without a GPU can show it. There are {len(RULES)}.",
    ]
    for prefix, family in _FAMILIES.items():
        lines += ["", f"## {family}", "", "| Code | Rule | Severity | Effect |", "|---|---|---|---|"]
        for rule in (item for item in RULES if item.code.startswith(prefix)):
            lines.append(
                f"| {rule.code} | [{rule.name}]({rule.name}.md)<br>{_cell(rule.summary)} "
                f"| {rule.severity} | {_EFFECTS[rule.effect]} |"
            )
    return "\n".join([*lines, ""])


def _page(rule: Rule) -> str:
    document = read_text(rule.example("bad"), "ds_config.json")
    found = [item for item in check(document, rule.context).diagnostics if item.code == rule.code]
    phase = f" ({rule.phase})" if rule.phase else ""
    lines = [
        "---",
        f"title: {rule.code} {rule.name}",
        "---",
        "",
        f"# {rule.code} {rule.name}",
        "",
        f"**{rule.summary}**",
        "",
        rule.explanation,
        "",
        f"- **Severity:** {rule.severity}",
        f"- **Effect:** {_EFFECTS[rule.effect]}{phase}",
        *([f"- **Releases:** {holds_for(rule)}"] if holds_for(rule) else []),
        f"- **Evidence:** {evidence(rule)}",
        f"- **Source:** {_source(rule)}",
        "",
        "## Wrong",
        "",
        *_block("json", rule.example("bad")),
        "",
        *_circumstances(rule.context),
        "`dsconf validate` says:",
        "",
        *_block("text", _said(found, document)),
        "",
        "## Right",
        "",
        *_block("json", rule.example("good")),
        "",
        *_ways_out(found),
    ]
    return "\n".join([*lines, ""])


def _said(found: Iterable[Diagnostic], document: Document) -> str:
    return "\n".join(full(item, document, Style()) for item in found)


def _source(rule: Rule) -> str:
    if rule.judge == "reader":
        return f"`{rule.source}`"
    return f"[deepspeed/{rule.source}]({source_url(rule.source, DEEPSPEED)})"


def _circumstances(context: Context) -> list[str]:
    plain = Context()
    told = [
        f"`{name}`: {getattr(context, name)!r}"
        for name in Context._fields
        if getattr(context, name) != getattr(plain, name)
    ]
    return ["Known about the job: " + ", ".join(told) + ".", ""] if told else []


def _ways_out(found: list[Diagnostic]) -> list[str]:
    fixes = [fix for item in found for fix in (item.fix, *item.alternatives) if fix]
    if not fixes:
        return []
    return ["## Fix", "", *dict.fromkeys(map(_way_out, fixes)), ""]


def _way_out(fix: Fix) -> str:
    return f"- {fix.message}" + ("" if fix.safe else " (changes what DeepSpeed does, so look first)")


def _block(language: str, text: str) -> list[str]:
    return [f"```{language}", text.rstrip("\n"), "```"]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
