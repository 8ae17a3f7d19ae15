"""dsconf's verdicts for a release of DeepSpeed, against that release itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path as File
from typing import Literal

from dsconf.check import check
from dsconf.diagnostic import Diagnostic, dotted
from dsconf.rules import RULES, find_rule
from dsconf.rules.rule import DEEPSPEED, Context, Rule
from dsconf.source import read_bytes, read_text
from proof.agree import OF_THE_MACHINE, Case
from proof.engine import Engine, Verdict
from proof.parse import Refusal, parse_all
from proof.rules import PROVABLE, run_example

#: The rules about older releases come on top of those that the installed one shows.
SHOWABLE = tuple(rule for rule in RULES if rule in PROVABLE or rule.context.release != DEEPSPEED)


@dataclass(frozen=True, slots=True)
class Parsed:
    """One configuration: what the release's parser raised, and what dsconf says that the release would refuse."""

    case: Case
    engine: Refusal | None
    dsconf: tuple[Diagnostic, ...]

    @property
    def of_the_machine(self) -> bool:
        """Whether this machine is at fault, not the configuration."""
        return self.engine is not None and OF_THE_MACHINE.search(self.engine.message) is not None

    @property
    def agree(self) -> bool:
        """Whether both refuse it or both take it; what dsconf expects to be refused later is no objection."""
        at_parse = any(item.phase == "parse" for item in self.dsconf)
        return self.of_the_machine or (bool(self.dsconf) if self.engine else not at_parse)


def parsed(cases: Iterable[Case], release: str, site: File | None) -> Iterator[Parsed]:
    """Both on each configuration, for one rank."""
    cases = list(cases)
    said = parse_all([case.data.decode("utf-8", "surrogateescape") for case in cases], site)
    context = Context(world_size=1, deepspeed=(release,))
    for case, refusal in zip(cases, said, strict=True):
        report = check(read_bytes(case.data, case.name), context)
        yield Parsed(case, refusal, tuple(filter(_refuses, report.diagnostics)))


def _refuses(item: Diagnostic) -> bool:
    rule = find_rule(item.code)
    return item.effect in ("refused", "hangs") and (rule is None or rule.judge == "deepspeed")


def matrix(found: Sequence[Parsed]) -> str:
    """A line for every disagreement, then how many of each kind."""
    lines: list[str] = []
    for item in found:
        if item.agree:
            continue
        if item.engine:
            said = " ".join(item.engine.message.split())[:200]
            lines.append(f"missed: {item.case.name}: {item.engine.error}: {said}")
        else:
            first = next(each for each in item.dsconf if each.phase == "parse")
            lines.append(f"false alarm: {item.case.name}: {first.code} at {dotted(first.path)}: {first.message}")
    count = Counter("not shown here" if item.of_the_machine else (item.engine is None, item.agree) for item in found)
    lines += [
        f"{count[True, True]:6} parsed, and dsconf says so",
        f"{count[False, True]:6} refused, and dsconf says so",
        f"{count[False, False]:6} refused, and dsconf misses it",
        f"{count[True, False]:6} parsed, and dsconf says refused",
        f"{count['not shown here']:6} refused for want of hardware",
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Ran:
    """An example of a rule in a release: what the engine did, and what dsconf says that it would not survive."""

    rule: Rule
    which: Literal["bad", "good"]
    verdict: Verdict
    dsconf: tuple[Diagnostic, ...]

    @property
    def of_the_machine(self) -> bool:
        """Whether this machine is at fault, not the configuration."""
        return not self.verdict.trained and OF_THE_MACHINE.search(self.verdict.message) is not None

    @property
    def agree(self) -> bool:
        """Whether both refuse it, or the engine trains and dsconf has nothing against that."""
        return self.verdict.trained == (not self.dsconf) or self.of_the_machine


#: Optimizers whose step is an op that would have to be compiled for each release.
_COMPILED = re.compile(r'"type": "(?:Lion|Adagrad|Lamb|MuAdamW?|MuSGD|Muon)"|"offload_optimizer"|"nvme"|"pin_memory"')
_ADAM = re.compile(r'("type": "Adam(?:W)?",\s+"params": \{)')


def examples(release: str, engine: Engine, codes: Sequence[str] | None = None) -> Iterator[Ran]:
    """Both on the examples of each rule that the engine can show, as far as they need no op of their own.

    Adam is torch's, for then nothing has to be compiled for the release. `codes`: only these rules.
    """
    for rule in SHOWABLE:
        if codes and rule.code not in codes:
            continue
        for which in ("bad", "good"):
            text = _ADAM.sub(r'\1"torch_adam": true, ', rule.example(which))
            if _COMPILED.search(text):
                continue
            context = rule.context_of(which)._replace(deepspeed=(release,))
            report = check(read_text(text, "ds_config.json"), context)
            refused = tuple(item for item in report.diagnostics if item.effect in ("refused", "hangs"))
            yield Ran(rule, which, run_example(rule, text, engine, which), refused)


def table(found: Sequence[Ran]) -> str:
    """A line for every example on which the two disagree, then how many of each kind."""
    lines: list[str] = []
    for item in found:
        if item.agree:
            continue
        verdict, name = item.verdict, f"{item.rule.code} {item.rule.name}, {item.which} example"
        if item.dsconf:
            lines.append(f"false alarm: {name}: it trains; dsconf says {item.dsconf[0].code}: {item.dsconf[0].message}")
        else:
            said = " ".join(verdict.message.split())[:200]
            lines.append(f"missed: {name}: fails at {verdict.phase}: {verdict.error}: {said}")
    count = Counter(
        "not shown here" if item.of_the_machine else (item.verdict.trained, not item.dsconf) for item in found
    )
    lines += [
        f"{count[True, True]:6} examples trained, and dsconf says so",
        f"{count[False, False]:6} failed, and dsconf says so",
        f"{count[False, True]:6} failed, and dsconf misses it",
        f"{count[True, False]:6} trained, and dsconf says refused",
        f"{count['not shown here']:6} failed for want of hardware",
    ]
    return "\n".join(lines) + "\n"
