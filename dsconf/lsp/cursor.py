"""Where a cursor stands in a text that need not be whole: half-typed files are what editors see most."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Literal

#: A string counts as one only where something follows that may follow a string; a lone quote is the start of one.
_TOKEN = re.compile(
    r""""(?:[^"\\\r\n]|\\.)*"(?=[ \t]*(?:[,:}\]\r\n#/]|\Z))|"[\w./-]*|[{}\[\]:,]"""
    r"""|(?:#|//)[^\r\n]*|/\*.*?(?:\*/|\Z)|[^\s{}\[\]:,"#]+""",
    re.DOTALL,
)


@dataclass
class Scope:
    """An object that is open at the cursor: the key that it is the value of ("" for a list item), and what is in it.

    `values`: its keys, with the scalars that they have, before and after the cursor; None for anything else.
    """

    name: str
    is_list: bool = False
    values: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Cursor:
    """`scopes`: the objects and lists around the cursor, the file itself first.

    At a key, `key` is None and `word` what is typed of it; at a value, `key` is whose. `start` and `end` enclose the
    token under the cursor, and `colon` tells whether a colon follows it.
    """

    scopes: tuple[Scope, ...]
    at: Literal["key", "value"]
    key: str | None
    word: str
    start: int
    end: int
    colon: bool


def cursor(text: str, offset: int) -> Cursor:
    """Look at a text from its start to its end, and remember what is around an offset."""
    stack = [Scope("")]
    key: str | None = None
    found: tuple[tuple[Scope, ...], str | None, str, int, int] | None = None
    tokens = [item for item in _TOKEN.finditer(text) if not item.group().startswith(("#", "//", "/*"))]
    for index, token in enumerate(tokens):
        if found is None and offset < token.start():
            found = (tuple(stack), key, "", offset, offset)
        mark = token.group()
        inside = token.start() < offset <= token.end() or (token.start() == offset and mark not in "{}[]:,")
        if found is None and mark not in "{}[]:," and inside:
            found = (tuple(stack), key, _plain(mark), token.start(), token.end())
        scope = stack[-1]
        if mark == "{" or mark == "[":
            if index == 0 and mark == "{":
                continue
            if key is not None:
                scope.values.setdefault(key, None)
            stack.append(Scope(key or "", mark == "["))
            key = None
        elif mark in "}]":
            if len(stack) > 1:
                stack.pop()
            key = None
        elif mark == ",":
            key = None
        elif mark != ":":
            follows = tokens[index + 1].group() if index + 1 < len(tokens) else ""
            if scope.is_list:
                continue
            if follows == ":" or (key is None and found is None):
                key = _plain(mark) if follows == ":" else None
            elif key is not None:
                scope.values[key] = _value(mark)
                key = None
            if key is not None:
                scope.values.setdefault(key, None)
    scopes, key, word, start, end = found or (tuple(stack), key, "", offset, offset)
    token = next((item for item in tokens if item.start() == start and item.end() == end), None)
    if token and _colon_after(text, end):
        # A key is under the cursor, though the one before it may still wait for its value.
        key = None
    at: Literal["key", "value"] = "value" if key is not None or scopes[-1].is_list else "key"
    return Cursor(scopes, at, key, word, start, end, _colon_after(text, end))


def _colon_after(text: str, end: int) -> bool:
    return text[end:].lstrip().startswith(":")


def _plain(token: str) -> str:
    return token.strip('"')


def _value(token: str) -> Any:
    try:
        return json.loads(token)
    except ValueError:
        return _plain(token)
