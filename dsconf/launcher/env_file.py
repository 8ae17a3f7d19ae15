"""The environment file (`.deepspeed_env`): variables that the launcher exports on every host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dsconf.diagnostic import Diagnostic
from dsconf.launcher import rules
from dsconf.launcher.rule import text_document
from dsconf.source import Document, Span

_LINE = re.compile(r"(?!\Z)([^\r\n]*)(?:\r\n?|\n|\Z)")
_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
_CHANGED = re.compile(r'["$`\\]')

#: What the launcher sets itself, whatever the file says.
LAUNCHERS_OWN = frozenset(
    (
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "LOCAL_SIZE",
        "CROSS_RANK",
        "CROSS_SIZE",
        "CUDA_VISIBLE_DEVICES",
    )
)


@dataclass(frozen=True, slots=True)
class EnvFile:
    """`variables`: what is exported, as written."""

    document: Document
    variables: dict[str, str]
    diagnostics: tuple[Diagnostic, ...]


def read_env_file(text: str, filename: str) -> EnvFile:
    """Read an environment file as the launcher does, and go on after what it refuses."""
    document = text_document(filename, text)
    variables: dict[str, str] = {}
    found: list[Diagnostic] = []
    for match in _LINE.finditer(text):
        line = match.group(1)
        found += _judge(document, Span(*match.span(1)), line, variables)
        name, equals, value = line.partition("=")
        if equals:
            variables[name.strip()] = value.strip()
    return EnvFile(document, variables, tuple(found))


def _judge(document: Document, span: Span, line: str, before: dict[str, str]) -> Iterator[Diagnostic]:
    name, equals, value = line.partition("=")
    name = name.strip()
    at = Span(span.start + len(line) - len(line.lstrip()), span.start + len(line.partition("=")[0].rstrip()))
    if not equals:
        kind = "a blank line" if not line.strip() else "a comment" if name.startswith("#") else f"{line.strip()!r}"
        yield rules.env_line_without_value.at(
            document, span, f"{kind} is not NAME=VALUE", "remove the line" if kind[0] == "a" else "write NAME=VALUE"
        )
    elif "#" in name:
        yield rules.env_comment.at(
            document, span, "this comments out the command that every host is sent: nothing trains", "remove the line"
        )
    elif not _NAME.match(name):
        yield rules.env_bad_name.at(
            document, at, f"{name!r} is not a name of a variable", "use letters, digits and underscores"
        )
    elif name in before:
        yield rules.env_twice.at(document, at, f"{name} is set above already; this value counts", "remove one of them")
    if not equals or "#" in name:
        return
    if name in LAUNCHERS_OWN:
        yield rules.env_overridden.at(
            document, at, f"the launcher sets {name} itself", "remove the line; choose devices with --include"
        )
    if changed := _CHANGED.search(value):
        place = span.start + line.index("=") + 1 + changed.start()
        yield rules.env_shell_value.at(
            document,
            Span(place, place + 1),
            f"the remote shell takes {changed.group()} in the value of {name} for its own",
            "write the value as it is to be, without quotes, dollar signs, backquotes and backslashes",
        )
