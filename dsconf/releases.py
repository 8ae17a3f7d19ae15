"""What changed from one DeepSpeed release to the next, as data: `releases.json`.

`releases` are those that were looked at; a release between two of them is judged as the older one. `keys`: the first of
them that reads a key, and those before it that refuse it, where others ignore it. `removed`: the first that refuses a
key that was removed. `defaults`: what a key is when absent, from which release on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path as File
from typing import Any, Literal, cast

from dsconf.diagnostic import Path

#: Beside this module.
FILE = "releases.json"


class ReleaseError(ValueError):
    """A text that names no release; the text is for people."""


@dataclass(frozen=True, slots=True)
class Later:
    """A key that came with `since`; what releases before do with it, `refused` or `ignored`."""

    since: str
    refused: tuple[str, str] | None = None

    def effect(self, release: str) -> Literal["refused", "ignored"]:
        """What a release before `since` does with the key."""
        if self.refused and number(self.refused[0]) <= number(release) <= number(self.refused[1]):
            return "refused"
        return "ignored"


def number(release: str) -> tuple[int, ...]:
    """A release to compare by."""
    return tuple(int(part) for part in release.split("."))


@cache
def _data() -> Mapping[str, Any]:
    return json.loads((File(__file__).parent / FILE).read_bytes())


def releases() -> tuple[str, ...]:
    """The releases that were looked at, oldest first."""
    return tuple(_data()["releases"])


def newest() -> str:
    """The release that the models describe."""
    return releases()[-1]


def later(path: Path, release: str) -> Later | None:
    """When the key at a path came, if a release does not have it yet."""
    record = cast("Mapping[str, Any] | None", _data()["keys"].get(_name(path)))
    if record is None or number(record["since"]) <= number(release):
        return None
    refused = record.get("refused")
    return Later(record["since"], (refused[0], refused[1]) if refused else None)


def removed_in(path: Path) -> str | None:
    """The first release that refuses a key that was removed."""
    return _data()["removed"].get(_name(path))


def default_changes() -> Iterator[tuple[Path, tuple[tuple[str, Any], ...]]]:
    """The keys whose default changed: from which release on it is what."""
    for name, steps in _data()["defaults"].items():
        yield tuple(name.split(".")), tuple((since, value) for since, value in steps)


def default_in(steps: tuple[tuple[str, Any], ...], release: str) -> tuple[bool, Any]:
    """Whether a release has the key, and with which default."""
    held = [value for since, value in steps if number(since) <= number(release)]
    return (True, held[-1]) if held else (False, None)


def _name(path: Path) -> str:
    return ".".join(part for part in path if isinstance(part, str))


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
