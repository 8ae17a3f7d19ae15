"""`key=value` on the command line: grammar, numbers for people, and setting the key in a configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dsconf.diagnostic import Path

_KEY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*|\.\d+|\[\d+\])*\Z")
_POWER = re.compile(r"(\d+)\^(\d+)\Z")
_DECIMAL = re.compile(r"([+-]?\d+(?:\.\d+)?)([kMGT])\Z")
_BINARY = re.compile(r"(\d+(?:\.\d+)?)([KMGT]i)B\Z")
_THOUSANDS = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BYTES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


class OverrideError(ValueError):
    """An override that cannot be read or applied; the text is for people."""


@dataclass(frozen=True, slots=True)
class Override:
    """One `key=value`, or `~key` to remove the key."""

    text: str
    path: Path
    value: Any
    removes: bool = False


def parse(text: str) -> Override:
    """Read one override.

    Raises:
        OverrideError: it is neither `key=value` nor `~key`.
    """
    removes = text.startswith("~")
    name, equals, value = text[removes:].partition("=")
    name = name.removeprefix("+").strip()
    if not _KEY.match(name) or (not removes and not equals):
        raise OverrideError(f"{text!r} is not an override; write key=value, as in zero_optimization.stage=2, or ~key")
    path = tuple(int(part) if part.isdigit() else part for part in re.split(r"\.|\[|\]\.?", name) if part)
    return Override(text, path, None if removes else read_value(value), removes)


def read_value(text: str) -> Any:
    """What a value means: JSON, a number for people (500M, 2^20, 16GiB), or else the text itself."""
    text = text.strip()
    if match := _POWER.match(text):
        return int(match[1]) ** int(match[2]) if int(match[2]) < 64 else text
    if match := _DECIMAL.match(text):
        return _number(float(match[1]) * _THOUSANDS[match[2]])
    if match := _BINARY.match(text):
        return _number(float(match[1]) * _BYTES[match[2]])
    try:
        return json.loads(text, parse_constant=lambda word: word)
    except (ValueError, RecursionError):
        return text


def _number(value: float) -> int | float:
    return int(value) if value.is_integer() else value


def apply(override: Override, values: dict[str, Any]) -> None:
    """Set or remove the key in a configuration, making blocks on the way.

    Raises:
        OverrideError: something on the way is not a block.
    """
    target: Any = values
    for done, part in enumerate(override.path[:-1]):
        if isinstance(target, dict):
            target = target.setdefault(part, {})  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
        elif isinstance(target, list) and isinstance(part, int) and part < len(target):  # pyright: ignore[reportUnknownArgumentType]
            target = target[part]  # pyright: ignore[reportUnknownVariableType]
        else:
            raise OverrideError(f"{override.text!r}: {'.'.join(map(str, override.path[:done]))} is not a block")
    last = override.path[-1]
    if isinstance(target, list) and isinstance(last, int) and last < len(target):  # pyright: ignore[reportUnknownArgumentType]
        target[last] = override.value
    elif not isinstance(target, dict):
        raise OverrideError(f"{override.text!r}: {'.'.join(map(str, override.path[:-1]))} is not a block")
    elif not override.removes:
        target[last] = override.value
    elif last in target:
        del target[last]
    else:
        raise OverrideError(f"{override.text!r}: there is no such key to remove")


def origin(paths: Iterable[Path], overrides: list[Override]) -> Override | None:
    """The override that a problem comes from: the last one that set something in or around one of its places."""
    for path in paths:
        for item in reversed(overrides):
            shorter = min(len(item.path), len(path))
            if shorter and item.path[:shorter] == path[:shorter]:
                return item
    return None
