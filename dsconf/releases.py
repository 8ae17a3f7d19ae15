"""What changed from one DeepSpeed release to the next, as data: `releases.json`, which `proof.history` writes.

It holds the `releases` that were looked at (one between two of them is judged as the older one) and, for everything
that is not the same in all of them, from which release on it is what. `keys`: whether a key is `read`, `ignored` or
`refused`. `readers`: whether a block is read as a `dict` or with `pydantic`. `defaults`, `bounds`: those of a key.
`optimizers`, `schedulers`: whether DeepSpeed has a class of its own for a name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, cast

from dsconf.diagnostic import Path

#: Beside this module.
FILE = "releases.json"

Reaction = Literal["read", "ignored", "refused"]
#: From which release on something is what, oldest first.
Steps = tuple[tuple[str, Any], ...]


class ReleaseError(ValueError):
    """A text that names no release; the text is for people."""


class Later(NamedTuple):
    """A key that comes with release `since`; `effect`: what an older one does with it."""

    since: str
    effect: Literal["ignored", "refused"]


class Default(NamedTuple):
    """A default that changed: of the key at `path`, for `params` only in those of the type `of`."""

    path: Path
    of: str
    steps: Steps

    def leads_to(self, path: Path, default: Any) -> bool:
        """Whether it is this key's default, which now is the given one."""
        return path == self.path and default == self.steps[-1][1]


def number(release: str) -> tuple[int, ...]:
    """A release to compare by."""
    return tuple(int(part) for part in release.split("."))


@cache
def _data() -> Mapping[str, Any]:
    with open(os.path.join(os.path.dirname(__file__), FILE), "rb") as file:
        return json.load(file)


def releases() -> tuple[str, ...]:
    """The releases that were looked at, oldest first."""
    return tuple(_data()["releases"])


def newest() -> str:
    """The release that the models describe."""
    return releases()[-1]


def reactions(path: Path) -> Steps:
    """From which release on a key is read, ignored or refused; empty when all releases do the same."""
    return _steps("keys", path)


def reaction(path: Path, release: str) -> Reaction | None:
    """What a release does with a key, where not all releases do the same."""
    return _at(reactions(path), release)


def former(path: Path) -> bool:
    """Whether older releases read a key and the newest does not."""
    steps = reactions(path)
    return bool(steps) and steps[-1][1] != "read"


def later(path: Path, release: str) -> Later | None:
    """When the key at a path comes, if a release does not have it yet."""
    effect = reaction(path, release)
    if effect is None or effect == "read":
        return None
    after = [since for since, state in reactions(path) if state == "read" and number(since) > number(release)]
    return Later(after[0], effect) if after else None


def removed_in(path: Path) -> str | None:
    """The first release that refuses a key that was removed."""
    steps = reactions(path)
    return steps[-1][0] if steps and steps[-1][1] == "refused" else None


def default_changes() -> Iterator[Default]:
    """The defaults that changed."""
    for name in _data()["defaults"]:
        path, of = tuple(name.split(".")), ""
        if path[:2] in (("optimizer", "params"), ("scheduler", "params")):
            of, path = path[2], (*path[:2], *path[3:])
        yield Default(path, of, _in_order("defaults", name))


def default_in(steps: Steps, release: str) -> tuple[bool, Any]:
    """Whether a release has the key, and with which default."""
    held = [value for since, value in steps if number(since) <= number(release)]
    return (True, held[-1]) if held else (False, None)


def reader_in(path: Path, release: str) -> str | None:
    """How a release reads a block, where not all do the same: `dict`, `pydantic 1` or `pydantic 2`."""
    return _at(_steps("readers", path), release)


def bounds_in(path: Path, release: str) -> Mapping[str, float] | None:
    """The bounds that a release sets a key, where not all set the same."""
    return _at(_steps("bounds", path), release)


def has_class(kind: Literal["optimizers", "schedulers"], name: str, release: str) -> bool | None:
    """Whether a release has an optimizer or a schedule of its own by this name, where not all do the same."""
    return _at(_in_order(kind, name), release)


def as_in(release: str, path: Path, record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The record of the block at a path, as `blocks.json` has it, with the reader of a release."""
    reader, _, version = (reader_in(path, release) or record["reader"]).partition(" ")
    return {**record, "reader": reader, "pydantic_1": version == "1"}


def told(path: Path, of: str = "") -> list[tuple[str, str]]:
    """What is to be said about a key's releases, each with a name: only what is not the same in all of them."""
    lines: list[tuple[str, str]] = []
    if reactions(path):
        lines.append(("releases", _spans(reactions(path), str)))
    for changed in default_changes():
        if changed.path == path and changed.of == of:
            lines.append(("defaults", _spans(changed.steps, json.dumps)))
    limits = _steps("bounds", path)
    if limits:
        lines.append(("ranges", _spans(limits, _bounds)))
    readers = _steps("readers", path)
    if readers:
        lines.append(("read with", _spans(readers, lambda reader: "Pydantic" if reader != "dict" else "a plain dict")))
    return lines


#: The bounds of a key in words.
BOUND_WORDS = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}


def _bounds(bounds: Mapping[str, float]) -> str:
    return " and ".join(f"{BOUND_WORDS[name]} {value:g}" for name, value in bounds.items()) or "any number"


def _spans(steps: Steps, words: Callable[[Any], str]) -> str:
    """`refused until 0.17.2, read since 0.17.6`, as far as releases were looked at."""
    merged: list[tuple[str, str]] = []
    for since, value in steps:
        if not merged or merged[-1][1] != words(value):
            merged.append((since, words(value)))
    parts: list[str] = []
    for at, (since, value) in enumerate(merged):
        if at == len(merged) - 1:
            parts.append(f"{value} since {since}")
        else:
            known = releases()
            last = known[known.index(merged[at + 1][0]) - 1]
            parts.append(f"{value} until {last}" if at == 0 else f"{value} from {since} to {last}")
    return ", ".join(parts)


def _steps(section: str, path: Path) -> Steps:
    return _in_order(section, ".".join(part for part in path if isinstance(part, str)))


def _in_order(section: str, name: str) -> Steps:
    return tuple((since, value) for since, value in cast("list[list[Any]]", _data()[section].get(name, ())))


def _at(steps: Steps, release: str) -> Any:
    known, value = default_in(steps, release)
    return value if known else None


def parse(text: str) -> tuple[str, ...]:
    """The releases that a text means: `0.14.4`, `0.14` (its newest), `installed`, or from one to another, `0.12..0.19`.

    Each is one that was looked at.

    Raises:
        ReleaseError: there is no such release, or none that old.
    """
    first, dots, last = text.partition("..")
    start = _single(first, oldest_of_line=bool(dots))
    if not dots:
        return (start,)
    end = _single(last)
    if number(start) > number(end):
        raise ReleaseError(f"{text!r} goes from a newer release to an older one")
    return tuple(item for item in releases() if number(start) <= number(item) <= number(end))


def _single(text: str, *, oldest_of_line: bool = False) -> str:
    wanted = _installed() if text == "installed" else text
    try:
        parts = number(wanted.split("+")[0])
    except ValueError:
        raise ReleaseError(f"{text!r} is no release of DeepSpeed; write one such as {newest()}, or installed") from None
    known = releases()
    if len(parts) < 3:
        line = [item for item in known if number(item)[: len(parts)] == parts]
        if line:
            return line[0] if oldest_of_line else line[-1]
    before = [item for item in known if number(item) <= parts]
    if not before:
        raise ReleaseError(f"DeepSpeed {wanted} is older than {known[0]}, the oldest that dsconf knows")
    if parts[:2] > number(known[-1])[:2]:
        raise ReleaseError(f"DeepSpeed {wanted} is newer than {known[-1]}, the newest that dsconf knows")
    return before[-1]


def _installed() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("deepspeed")
    except PackageNotFoundError:
        raise ReleaseError("DeepSpeed is not installed here; name a release") from None
