"""`dsconf explain`: the page of a rule or of a key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dsconf.launcher import rules as launcher
from dsconf.launcher.rule import LauncherRule
from dsconf.rules import RULES, find_rule
from dsconf.rules.rule import DEEPSPEED, Rule, close_match


def explain(word: str) -> str | None:
    """The page of a rule (by code or name) or of a key (by its dotted path or last part); None if there is none."""
    found = find_rule(word)
    if found:
        return rule_page(found)
    of_launcher = launcher.find_rule(word)
    if of_launcher:
        return launcher_page(of_launcher)
    return job_page() if word == "job" else key_page(word)


def suggestion(word: str) -> str | None:
    """What a word that explains nothing was probably meant to be."""
    from dsconf.blocks import homes

    rules = (*RULES, *launcher.RULES)
    names = [item.name for item in rules] + [item.code for item in rules] + list(homes())
    return close_match(word, names)


def rule_page(rule: Rule) -> str:
    """Everything that a rule's record holds, for people."""
    effect = rule.effect + (f" at {rule.phase}" if rule.phase else "")
    source = rule.source if rule.judge == "reader" else f"deepspeed/{rule.source}"
    return _page(rule, effect, evidence(rule), source, rule.bad, rule.good)


def launcher_page(rule: LauncherRule) -> str:
    """Everything that the record of a rule about the launcher holds, for people."""
    shown = f"the launcher of DeepSpeed {DEEPSPEED} is given both examples in the tests"
    return _page(rule, rule.effect, shown, f"deepspeed/{rule.source}", rule.bad.text, rule.good.text)


def _page(rule: Rule | LauncherRule, effect: str, evidence: str, source: str, bad: Any, good: Any) -> str:
    holds = f"releases   {held}\n" if isinstance(rule, Rule) and (held := holds_for(rule)) else ""
    return f"""\
{rule.code} {rule.name}

{rule.summary}

{rule.explanation}

severity   {rule.severity}
effect     {effect}
{holds}evidence   {evidence}
source     {source}
page       {rule.url}

Bad:
{_indented(bad)}

Good:
{_indented(good)}
"""


def job_page() -> str:
    """What can be told about the job around a file."""
    from dsconf.job import FACTS, SHAPES

    lines = ["What can be told about the job around a file, with --job NAME=VALUE:", ""]
    for name, (values, doc) in FACTS.items():
        choices = " or ".join(map(_spelt, values)) if isinstance(values, tuple) else SHAPES.get(name, "a whole number")
        lines.append(f"    {name:18} {choices}\n{'':23}{doc}")
    return "\n".join([*lines, ""])


def _spelt(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def holds_for(rule: Rule) -> str:
    """The DeepSpeed releases that a rule is about; empty for all."""
    if rule.since and rule.until:
        return f"{rule.since} to {rule.until}"
    return f"since {rule.since}" if rule.since else f"until {rule.until}" if rule.until else ""


def evidence(rule: Rule) -> str:
    """What shows that a rule is right, in one line."""
    if rule.judge == "reader":
        return "the source of the program that reads the file first"
    if rule.judge == "arithmetic":
        return f"bytes counted by the source of DeepSpeed {DEEPSPEED}; no engine is run for it"
    if not rule.shown:
        said = f" (`{rule.says}`)" if rule.says else ""
        reason = "one machine without a GPU" if rule.context.release == DEEPSPEED else f"DeepSpeed {DEEPSPEED}"
        return f"the source of DeepSpeed {rule.context.release}{said}; {reason} cannot show it"
    seen = {
        "refused": f"stops at {rule.phase}: `{rule.says}`",
        "hangs": "hangs",
        "ignored": "trains, bit for bit as without the setting",
    }
    seen_of_bad = seen.get(rule.effect, "trains")
    rest = "; what is advised rests on the source" if rule.effect == "advice" else ""
    return f"DeepSpeed {DEEPSPEED} runs the bad example and {seen_of_bad}; the good one trains{rest}"


def _indented(example: Any) -> str:
    text = example.rstrip("\n") if isinstance(example, str) else json.dumps(example, indent=2)
    return "\n".join(f"    {line}" for line in text.splitlines())


def key_page(word: str) -> str | None:
    """What a key is: type, default, range, documentation and source, at each place where it lives."""
    wanted = word.strip(".")
    return "\n".join(page for path, page in key_pages() if f".{path}".endswith(f".{wanted}")) or None


def key_pages() -> Iterator[tuple[str, str]]:
    """Every key by its dotted path, once for each thing that there is to say about it."""
    from dsconf.blocks import block_type, home, walk
    from dsconf.diagnostic import dotted
    from dsconf.releases import BOUND_WORDS, told

    sections: dict[tuple[str, str, str], list[str]] = {}
    for path, block, key in walk(block_type()):
        lines = [key.doc, "", f"type       {key.words}"]
        if not key.required:
            lines.append(f"default    {json.dumps(key.default)}")
        bounds = ", ".join(f"{BOUND_WORDS[name]} {value}" for name, value in key.bounds.items())
        if bounds:
            lines.append(f"range      {bounds}")
        if key.dead:
            lines.append("effect     none: nothing reads it")
        of = home(block.name)[-1][0].tag_value if path[1:-1] == ("params",) else ""
        lines += [f"{name:10} {words}" for name, words in told(path, of)]
        lines.append(f"source     deepspeed/{key.source}")
        variant = f"{block.tag}: {block.tag_value}" if block.tag else ""
        sections.setdefault((".".join(map(str, path)), dotted(path), "\n".join(lines)), []).append(variant)
    for (path, name, body), variants in sections.items():
        where = f"  ({', '.join(dict.fromkeys(filter(None, variants)))})" if any(variants) else ""
        yield path, f"{name}{where}\n\n{body}\n"
