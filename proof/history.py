"""The facts of every release that was looked at, and the table that dsconf makes use of.

`history/` holds what the oldest release says, and for each later one what is different from the one before. From
that alone comes `dsconf/releases.json`; nobody edits it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

from dsconf.blocks import block_type, walk
from dsconf.releases import FILE, number
from dsconf.rules.rule import DEEPSPEED
from proof.facts import Facts

FOLDER = File(__file__).parent / "history"
TABLE = File(__file__).parent.parent / "dsconf" / FILE
_SECTIONS = ("keys", "spellings", "closed", "refused", "optimizers", "schedulers")


def history() -> list[Facts]:
    """The facts of each release, oldest first."""
    found: list[Facts] = []
    for file in sorted(FOLDER.glob("*.json"), key=lambda item: number(item.stem)):
        change = json.loads(file.read_text(encoding="utf-8"))
        found.append(_applied(found[-1] if found else {}, change))
    return found


def write(every: Sequence[Facts]) -> None:
    """Write the history anew, and the table that comes from it."""
    from dsconf.atomic import write_text

    before: Facts = {}
    for facts in every:
        lines = json.dumps(_change(before, facts), indent=1, ensure_ascii=False)
        write_text(FOLDER / f"{facts['release']}.json", lines + "\n")
        before = facts
    write_text(TABLE, text(every))


@dataclass(frozen=True, slots=True)
class Added:
    """A release that was added: what it says otherwise than the one before, and what a person has to decide first."""

    differences: tuple[str, ...]
    decisions: tuple[str, ...]


def add(facts: Facts) -> Added:
    """Take a release into the history and the table, unless there is something for a person to decide."""
    others = [item for item in history() if item["release"] != facts["release"]]
    every = sorted([*others, facts], key=lambda item: number(item["release"]))
    at = every.index(facts)
    before = every[at - 1] if at else {section: {} for section in _SECTIONS}
    found = Added(tuple(differences(before, facts)), tuple(decisions(facts)))
    if not found.decisions:
        write(every)
    return found


def _change(before: Facts, after: Facts) -> dict[str, Any]:
    """What a release says otherwise than the one before; null for what it no longer says."""
    change: dict[str, Any] = {"release": after["release"]}
    for section in _SECTIONS:
        old, new = before.get(section, {}), after[section]
        found = {name: new.get(name) for name in sorted({*old, *new}) if old.get(name) != new.get(name)}
        if found:
            change[section] = found
    return change


def _applied(before: Facts, change: dict[str, Any]) -> Facts:
    facts: Facts = {"release": change["release"]}
    for section in _SECTIONS:
        merged = {**before.get(section, {}), **change.get(section, {})}
        facts[section] = {name: merged[name] for name in sorted(merged) if merged[name] is not None}
    return facts


def differences(before: Facts, after: Facts) -> Iterator[str]:
    """What a release says otherwise than the one before, a line for each point."""
    change = _change(before, after)
    for name, key in change.get("keys", {}).items():
        old = before["keys"].get(name)
        if old is None:
            yield f"new key {name}" + (f": {_said(key)}" if key else "")
        elif key is None:
            yield f"{name} is no longer read: it is {reaction(after, name)}"
        else:
            for what in sorted({*old, *key}):
                if old.get(what) != key.get(what):
                    yield f"{name}: {what} was {json.dumps(old.get(what))}, is {json.dumps(key.get(what))}"
    for name, other in change.get("spellings", {}).items():
        yield f"{name} stands for {other}" if other else f"{name} stands for nothing any more"
    for name, version in change.get("closed", {}).items():
        yield f"{name} is read with Pydantic {version}" if version else f"{name} is no longer read with Pydantic"
    for name in change.get("refused", {}):
        yield f"{name} is refused by name"
    for section in ("optimizers", "schedulers"):
        for name, there in change.get(section, {}).items():
            yield f"{'new' if there else 'no longer an'} {section[:-1]} {name}"


def _said(key: dict[str, Any]) -> str:
    return ", ".join(f"{what} {json.dumps(value)}" for what, value in key.items())


def reaction(facts: Facts, name: str) -> str:
    """What a release does with a key: `read`, `refused` or `ignored`."""
    if name in facts["refused"]:
        return "refused"
    if name in facts["keys"] or name in facts["spellings"]:
        return "read"
    parent = name.rpartition(".")[0]
    if not parent:
        return "ignored"
    around = reaction(facts, parent)
    return around if around != "read" else "refused" if parent in facts["closed"] else "ignored"


def decisions(facts: Facts) -> Iterator[str]:
    """What a person has to decide before the models describe a release that is newer than them."""
    if number(facts["release"]) <= number(DEEPSPEED):
        return
    ours = {name: key for name, key in _ours().items() if not name.startswith(("optimizer.", "scheduler."))}
    old = {f"{prefix}{item.key}" for prefix, type_ in _homes() for item in type_.retired}
    for name, key in facts["keys"].items():
        if name.startswith(("optimizer.", "scheduler.")) or ".*" in name:
            continue
        if name not in ours and name not in old:
            yield f"{name} is new: describe it in dsconf/models"
        elif name in ours and "default" in key and not ours[name].required and key["default"] != ours[name].default:
            yield f"{name} has the default {json.dumps(key['default'])} and the models {json.dumps(ours[name].default)}"
    for name in ours:
        if reaction(facts, name) != "read" and ".*" not in name:
            yield f"{name} is {reaction(facts, name)}: retire it in dsconf/models"
    for name in facts["refused"]:
        if name not in old:
            yield f"{name} is refused by name: retire it in dsconf/models"
    yield f"rules and examples describe {DEEPSPEED}: hold them against the engine, then say so in dsconf/rules/rule.py"


def _ours() -> dict[str, Any]:
    return {".".join(map(str, path)): key for path, _, key in walk(block_type())}


def _homes() -> list[tuple[str, Any]]:
    found = {".".join(map(str, (*path[:-1], ""))): block for path, block, _ in walk(block_type())}
    return list(found.items())


def text(every: Sequence[Facts]) -> str:
    """The table: for every key, block, name and default that is not the same in all releases, from when on it is what.

    `keys`: `read`, `ignored` or `refused`. `readers`: `dict`, or `pydantic` with its version. `defaults` and `bounds`.
    """
    names = sorted({name for facts in every for section in ("keys", "spellings", "refused") for name in facts[section]})
    apart = ("optimizer.params.", "scheduler.params.")
    names = [name for name in names if not name.startswith(apart) and ".*" not in name]
    blocks = sorted({name for facts in every for name in facts["closed"]})

    def default(facts: Facts, name: str) -> Any:
        return facts["keys"].get(name, {}).get("default", _SILENT)

    def bounds(facts: Facts, name: str) -> Any:
        key = facts["keys"].get(name)
        return _SILENT if key is None else {bound: key[bound] for bound in ("ge", "gt", "le", "lt") if bound in key}

    def reader(facts: Facts, name: str) -> Any:
        known = name in facts["keys"] or name in facts["closed"]
        version = facts["closed"].get(name)
        return _SILENT if not known else f"pydantic {version}" if version else "dict"

    scheduled = sorted({name for facts in every for name in facts["keys"] if name.startswith("scheduler.params.")})
    data: dict[str, Any] = {
        "releases": [facts["release"] for facts in every],
        "keys": _steps(every, names, reaction),
        "readers": _steps(every, blocks, reader),
        "defaults": _steps(every, [*names, *scheduled], default),
        "bounds": _steps(every, names, bounds),
    }
    for section in ("optimizers", "schedulers"):
        known = sorted({name for facts in every for name in facts[section]})
        data[section] = _steps(every, known, lambda facts, name, where=section: name in facts[where])
    return "{\n" + ",\n".join(f"  {json.dumps(name)}: {_lines(value)}" for name, value in data.items()) + "\n}\n"


#: Nothing is said about it.
_SILENT: Any = object()


def _steps(every: Sequence[Facts], names: Sequence[str], state: Callable[[Facts, str], Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name in names:
        steps: list[Any] = []
        for facts in every:
            value = state(facts, name)
            if value is not _SILENT and (not steps or steps[-1][1] != value or type(steps[-1][1]) is not type(value)):
                steps.append([facts["release"], value])
        if len(steps) > 1:
            found[name] = steps
    return found


def _lines(value: Any) -> str:
    if not isinstance(value, dict):
        return json.dumps(value)
    return "{\n" + ",\n".join(f"    {json.dumps(name)}: {json.dumps(item)}" for name, item in value.items()) + "\n  }"
