"""The hostfile: which hosts there are, and how many slots each has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dsconf.diagnostic import Diagnostic
from dsconf.launcher import rules
from dsconf.launcher.rule import text_document
from dsconf.source import Document, Span

_ENTRY = re.compile(r"(\S+)\s+slots=(\d+)")
_PLAIN_NAME = re.compile(r"[\w.-]+\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Hostfile:
    """`slots`: of each host, in the order of the file, which is the order of node ranks."""

    document: Document
    slots: dict[str, int]
    diagnostics: tuple[Diagnostic, ...]


def read_hostfile(text: str, filename: str) -> Hostfile:
    """Read a hostfile as the launcher does, and go on after what it refuses."""
    document = text_document(filename, text)
    slots: dict[str, int] = {}
    lines: dict[str, int] = {}
    found: list[Diagnostic] = []
    for number, span in stripped_lines(text):
        line = text[span.start : span.end]
        if not line or line.startswith("#"):
            continue
        match = _ENTRY.match(line)
        if match is None:
            found.append(
                rules.bad_host_line.at(
                    document, span, f"{line!r} is not a host with its slots", f"write {_mended(line)}"
                )
            )
            continue
        name, count = match.group(1), int(match.group(2))
        at = Span(span.start, span.start + len(name))
        if name in slots:
            found.append(
                rules.duplicate_host.at(
                    document,
                    at,
                    f"host {name} stands on line {lines[name]} already",
                    "name it once, with all its slots",
                )
            )
            continue
        slots[name], lines[name] = count, number
        found += _judge(document, span, match)
    if not slots and not found:
        found.append(
            rules.no_hosts.at(
                document, Span(0, min(1, len(text))), "the hostfile names no host", "add a line: HOST slots=NUMBER"
            )
        )
    return Hostfile(document, slots, tuple(found))


def _judge(document: Document, span: Span, match: re.Match[str]) -> Iterator[Diagnostic]:
    """What there is to say about a line that the launcher takes."""
    name, count = match.group(1), int(match.group(2))
    rest = match.string[match.end() :]
    if rest and not rest.lstrip().startswith("#"):
        start = span.start + match.end() + len(rest) - len(rest.lstrip())
        yield rules.host_line_tail.at(
            document, Span(start, span.end), f"{rest.strip()!r} is not read: {name} has {count} slots", "remove it"
        )
    if count == 0:
        at = Span(span.start + match.start(2), span.start + match.end(2))
        yield rules.host_without_slots.at(document, at, f"{name} has no slots", "remove the line, or give it slots")
    if not _PLAIN_NAME.match(name):
        yield rules.odd_host_name.at(
            document,
            Span(span.start, span.start + len(name)),
            f"the name {name!r} has other characters than letters, digits, dots and dashes",
            "use the plain name; put a user name or an address into ~/.ssh/config",
        )


def stripped_lines(text: str) -> Iterator[tuple[int, Span]]:
    """The number of each line, and where it stands without the blanks around it."""
    start = 0
    for number, line in enumerate(re.split(r"\r\n?|\n", text), 1):
        begin = start + len(line) - len(line.lstrip())
        yield number, Span(begin, max(begin, start + len(line.rstrip())))
        start += len(line)
        start += 2 if text[start : start + 2] == "\r\n" else 1


def _mended(line: str) -> str:
    """What a broken line was probably meant to be."""
    words = re.findall(r"[\w.@-]+", line)
    counts = [word for word in words[1:] if word.isdecimal()]
    return f"{words[0] if words else 'HOST'} slots={counts[0] if counts else 'NUMBER'}"
