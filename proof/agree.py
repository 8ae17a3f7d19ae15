"""dsconf and the real engine side by side on the same configurations, and where they do not agree."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any, Literal

from dsconf.bind import is_comment
from dsconf.check import check
from dsconf.diagnostic import Diagnostic, Path, dotted
from dsconf.files import configs_in
from dsconf.rules import find_rule
from dsconf.rules.rule import Context
from dsconf.source import Document, find, plain, read_bytes
from proof.engine import NVME_PLACEHOLDERS, Engine, Model, Verdict

Outcome = Literal["refused by both", "accepted by both", "noticed", "not shown here", "missed", "false alarm"]

#: `noticed`: the engine refuses, and dsconf has something to say, but not that. `not shown here`: the engine cannot
#: do on this machine what the configuration asks for.
OUTCOMES: tuple[Outcome, ...] = (
    "refused by both",
    "accepted by both",
    "noticed",
    "not shown here",
    "missed",
    "false alarm",
)

#: What the engine says when this machine, not the configuration, is at fault: no GPU, no launcher, no package.
OF_THE_MACHINE = re.compile(
    r"not been implemented on CPU backend"
    r"|No module named '(tensorboard|wandb|comet_ml|mup|transformers|apex|liger_kernel|torch_xla|deep_ep)"
    r"|cannot access local variable 'Mu\w+'"
    r"|only supported for CUDA"
    r"|CUDA (is not available|device)|Torch not compiled with CUDA"
    r"|'UniversalParallelInfo' object has no attribute"
    r"|install DataStates"
    r"|no MoE layers detected|Cannot access accelerator device when none is available"
    r"|No such file or directory|Permission denied|Read-only file system"
)
_NVME_PATH = re.compile(r'("nvme_path"\s*:\s*)"[^"]*"')


@dataclass(frozen=True, slots=True)
class Case:
    """A configuration to judge."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came out for one case: the outcome and, where the two disagree, why."""

    case: Case
    outcome: Outcome
    why: str = ""


def cases_in(paths: Iterable[File]) -> Iterator[Case]:
    """The files themselves, and the configurations in directories.

    Raises:
        OSError: a file cannot be read.
    """
    for path in paths:
        for file in configs_in(path) if path.is_dir() else (path,):
            yield Case(str(file), file.read_bytes())


def recorded(file: File) -> dict[tuple[str, int], Verdict]:
    """Verdicts that were written down before, by file name and world size: one JSON object a line.

    Raises:
        OSError: the file cannot be read.
        ValueError: it holds something else.
    """
    verdicts: dict[tuple[str, int], Verdict] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        unread = tuple(tuple(path.split(".")) for path in item["unread"]) if item["ok"] else ()
        phase = "done" if item["ok"] else "initialize" if item["phase"] == "init" else item["phase"]
        verdicts[item["file"], item["world"]] = Verdict(
            phase, item["error"] or "", item["message"], hung=item["error"] == "Hang", unread=unread
        )
    return verdicts


@dataclass(frozen=True, slots=True)
class Judges:
    """dsconf, and the engine or what it is known to have said (only where it says nothing on a case is it run)."""

    engine: Engine | None
    world_size: int = 1
    known: dict[tuple[str, int], Verdict] | None = None

    def compare(self, case: Case) -> Comparison | None:
        """The two on one case; None when there is no engine and nothing is known."""
        document = read_bytes(case.data, case.name)
        text = case.data.decode("utf-8", "surrogateescape")
        optimizer = _who_brings_the_optimizer(document)
        diagnostics = check(document, Context(world_size=self.world_size, optimizer=optimizer)).diagnostics
        known = (self.known or {}).get((File(case.name).name, self.world_size))
        verdict = known or self.run(text, optimizer, _model(text))
        if verdict is None:
            return None
        if not verdict.trained:
            return _when_refused(case, diagnostics, verdict)
        found = list(_when_trained(document, diagnostics, verdict))
        if not found:
            found = [("false alarm", why) for why in self.falsely_ignored(document, diagnostics, verdict)]
        # What speaks against agreement comes first.
        found.sort(key=lambda item: -OUTCOMES.index(item[0]))
        return Comparison(case, *found[0]) if found else Comparison(case, "accepted by both")

    def run(self, text: str, optimizer: Literal["config", "client"], model: Model) -> Verdict | None:
        if self.engine is None:
            return None
        text = _NVME_PATH.sub(rf'\1"{NVME_PLACEHOLDERS[0]}"', text)
        return self.engine.run(text, world_size=self.world_size, optimizer=optimizer, model=model)

    def falsely_ignored(self, document: Document, diagnostics: Sequence[Diagnostic], verdict: Verdict) -> Iterator[str]:
        """What dsconf calls ignored although training is not the same without it."""
        for item in diagnostics:
            if item.effect != "ignored" or not verdict.weights or document.root is None:
                continue
            if not item.path or find(document.root, item.path) is None or _is_unread(item.path, verdict):
                continue
            values = plain(document.root)
            _remove(values, item.path)
            without = self.run(json.dumps(values), _who_brings_the_optimizer(document), _model(document.text))
            if without and (without.losses, without.weights) != (verdict.losses, verdict.weights):
                yield f"{_said(item)}; without it: {_did(without) if not without.trained else 'other weights'}"


def _model(text: str) -> Model:
    """Only weights that are large enough are ever swapped to a drive."""
    return "big" if '"nvme"' in text else "tiny"


def _who_brings_the_optimizer(document: Document) -> Literal["config", "client"]:
    return "config" if document.root and document.root.get("optimizer") else "client"


def _when_refused(case: Case, diagnostics: Sequence[Diagnostic], verdict: Verdict) -> Comparison:
    if OF_THE_MACHINE.search(verdict.message):
        return Comparison(case, "not shown here", _did(verdict))
    flagged = [item for item in diagnostics if item.severity != "info"]
    if not flagged:
        return Comparison(case, "missed", _did(verdict))
    if any(item.effect in ("refused", "hangs") for item in flagged):
        return Comparison(case, "refused by both")
    return Comparison(case, "noticed", f"{_did(verdict)}; dsconf says only: {_said(flagged[0])}")


def _when_trained(
    document: Document, diagnostics: Sequence[Diagnostic], verdict: Verdict
) -> Iterator[tuple[Outcome, str]]:
    for item in diagnostics:
        if item.severity == "error" and item.effect in ("refused", "hangs"):
            rule = find_rule(item.code)
            shown = (rule is None or rule.shown) and item.actor == "DeepSpeed"
            yield "false alarm" if shown else "not shown here", _said(item)
    places = [(item.path, *(other.path for other in item.related)) for item in diagnostics if item.severity != "info"]
    flagged = [_place(document, path) for paths in places for path in paths]
    for path in verdict.unread:
        if not is_comment(str(path[-1])) and not any(_related(path, other) for other in flagged):
            yield "missed", f"nothing looks up {dotted(path)}"


def _place(document: Document, path: Path) -> Path:
    """What a finding is about: for a key that is absent, the block that lacks it."""
    while path and document.root is not None and find(document.root, path) is None:
        path = path[:-1]
    return path


def _related(one: Path, other: Path) -> bool:
    """Whether one place lies in the other."""
    length = min(len(one), len(other))
    return length > 0 and [str(part) for part in one[:length]] == [str(part) for part in other[:length]]


def _is_unread(path: Path, verdict: Verdict) -> bool:
    return any(path[: len(unread)] == unread for unread in verdict.unread)


def _remove(values: Any, path: Path) -> None:
    for part in path[:-1]:
        values = values[part]
    del values[path[-1]]


def _said(item: Diagnostic) -> str:
    return f"{item.code} {item.name} at {dotted(item.path) or 'the root'}: {item.message}"


def _did(verdict: Verdict) -> str:
    message = " ".join(verdict.message.split())
    how = "hangs" if verdict.hung else f"{verdict.error}: {message[:160]}"
    return f"the engine fails at {verdict.phase}: {how}"


def report(comparisons: Sequence[Comparison]) -> str:
    """A line for every case on which there is something to say, then how many cases had which outcome."""
    lines: list[str] = []
    for outcome in OUTCOMES:
        lines += [
            f"{outcome}: {item.case.name}: {item.why}" for item in comparisons if item.outcome == outcome and item.why
        ]
    count = Counter(item.outcome for item in comparisons)
    lines += [f"{count[outcome]:6} {outcome}" for outcome in OUTCOMES]
    return "\n".join([*lines, f"{len(comparisons):6} configurations"]) + "\n"
