"""Reports for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dsconf.diagnostic import Diagnostic, Edit, Fix, Severity, pointer
from dsconf.source import Document, Position

FORMAT_VERSION = "1.0"
#: The DeepSpeed release that the rules describe.
DEEPSPEED = "0.19.8"

_COLORS: dict[Severity, str] = {"error": "1;31", "warning": "1;33", "info": "1;36"}


@dataclass(frozen=True, slots=True)
class Style:
    """Whether to colour what is printed."""

    color: bool = False

    def __call__(self, text: str, codes: str) -> str:
        return f"\x1b[{codes}m{text}\x1b[0m" if self.color and text else text


def concise(diagnostic: Diagnostic) -> str:
    """One line: `file:line:column: severity code name: message`."""
    return f"{_place(diagnostic)}: {diagnostic.severity} {diagnostic.code} {diagnostic.name}: {diagnostic.message}"


def full(diagnostic: Diagnostic, document: Document, style: Style, *, origin: str = "") -> str:
    """The rule, the line with the token underlined, what DeepSpeed does, and the remedy."""
    color = _COLORS[diagnostic.severity]
    title = f"{diagnostic.severity}[{diagnostic.code} {diagnostic.name}]"
    lines = [f"{style(title, color)}: {style(diagnostic.message, '1')}"]
    location = diagnostic.location
    width = len(str(location.line)) if location else 1
    margin = " " * width
    if location:
        lines.append(f"{margin}{style('-->', '1;34')} {_place(diagnostic)}")
        lines.extend(_snippet(location, diagnostic.end_location, document, width, style, color))
    elif origin:
        lines.append(f"{margin}{style('-->', '1;34')} {origin}")
    places = [item for item in diagnostic.related if item.location]
    for item in places[:_MOST_PLACES]:
        if item.location:
            where = f"{diagnostic.filename}:{item.location.line}:{item.location.column}"
            lines.append(f"{margin} {style('=', '1;34')} {style('see', '1')}: {where}: {item.message}")
    if len(places) > _MOST_PLACES:
        lines.append(f"{margin} {style('=', '1;34')} {style('see', '1')}: {len(places) - _MOST_PLACES} more places")
    lines.append(f"{margin} {style('=', '1;34')} {style(diagnostic.actor, '1')}: {effect(diagnostic)}")
    if diagnostic.help:
        lines.append(f"{margin} {style('=', '1;34')} {style('help', '1;32')}: {diagnostic.help}")
    return "\n".join(lines) + "\n"


#: So many other places are named for people; programs get all.
_MOST_PLACES = 4

_EFFECTS = {
    "refused": "refuses this",
    "hangs": "hangs on this",
    "ignored": "ignores this",
    "coerced": "takes this for something else",
    "deprecated": "accepts this and warns",
    "advice": "runs this as written",
}
_PHASES = {
    "parse": "when it reads the file",
    "initialize": "when the engine is built",
    "step": "at the first training step",
    "save": "when a checkpoint is saved",
    "load": "when a checkpoint is loaded",
}


def effect(diagnostic: Diagnostic) -> str:
    """What DeepSpeed does, in words."""
    when = f" {_PHASES[diagnostic.phase]}" if diagnostic.phase else ""
    return _EFFECTS[diagnostic.effect] + when


def _place(diagnostic: Diagnostic) -> str:
    location = diagnostic.location
    return f"{diagnostic.filename}:{location.line}:{location.column}" if location else diagnostic.filename


_LONGEST = 120


def _snippet(
    start: Position, end: Position | None, document: Document, width: int, style: Style, color: str
) -> Iterable[str]:
    line = document.line(start.line)
    column = start.column - 1
    stop = end.column - 1 if end and end.line == start.line else len(line)
    begin = max(0, column - 60) if len(line) > _LONGEST else 0
    shown = line[begin : begin + _LONGEST]
    lead = "".join("\t" if char == "\t" else " " for char in line[begin:column])
    marks = "^" * max(1, min(stop, begin + _LONGEST) - column)
    bar = style("|", "1;34")
    printable = "".join(char if char == "\t" or char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in shown)
    yield f"{' ' * width} {bar}"
    yield f"{style(str(start.line), '1;34')} {bar} {printable}"
    yield f"{' ' * width} {bar} {lead}{style(marks, color)}"


def totals(diagnostics: Sequence[Diagnostic], files: int) -> dict[str, int]:
    """How many files and findings there are, by severity, and how many findings have a fix."""
    count = {severity: sum(item.severity == severity for item in diagnostics) for severity in _COLORS}
    return {
        "files": files,
        "errors": count["error"],
        "warnings": count["warning"],
        "infos": count["info"],
        "fixable": sum(item.fix is not None for item in diagnostics),
    }


def summary(diagnostics: Sequence[Diagnostic], files: int, shown_infos: bool) -> str:
    """The last line for people."""
    numbers = totals(diagnostics, files)
    parts = [_plural(numbers["errors"], "error"), _plural(numbers["warnings"], "warning")]
    if numbers["infos"]:
        hidden = "" if shown_infos else " (shown with --show-info)"
        parts.append(f"{_plural(numbers['infos'], 'note')}{hidden}")
    return f"{_plural(files, 'file')}: {', '.join(parts)}"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def as_json(diagnostics: Sequence[Diagnostic], files: int, version: str) -> str:
    """The machine-readable report: one object."""
    report = {
        "format_version": FORMAT_VERSION,
        "tool": {"name": "dsconf", "version": version},
        "deepspeed": DEEPSPEED,
        "summary": totals(diagnostics, files),
        "diagnostics": [_record(item) for item in diagnostics],
    }
    return json.dumps(report, indent=2, ensure_ascii=False) + "\n"


def _record(diagnostic: Diagnostic) -> dict[str, Any]:
    return {
        "code": diagnostic.code,
        "name": diagnostic.name,
        "severity": diagnostic.severity,
        "effect": diagnostic.effect,
        "phase": diagnostic.phase,
        "message": diagnostic.message,
        "help": diagnostic.help,
        "url": diagnostic.url,
        "filename": diagnostic.filename,
        "pointer": diagnostic.pointer,
        "path": list(diagnostic.path),
        "location": _position(diagnostic.location),
        "end_location": _position(diagnostic.end_location),
        "related": [
            {
                "message": item.message,
                "pointer": pointer(item.path),
                "path": list(item.path),
                "location": _position(item.location),
                "end_location": _position(item.end_location),
            }
            for item in diagnostic.related
        ],
        "fix": _fix(diagnostic.fix) if diagnostic.fix else None,
        "alternatives": [_fix(item) for item in diagnostic.alternatives],
    }


def _position(place: Position | None) -> dict[str, int] | None:
    return {"line": place.line, "column": place.column, "offset": place.offset} if place else None


def _fix(fix: Fix) -> dict[str, Any]:
    return {
        "message": fix.message,
        "applicability": "safe" if fix.safe else "unsafe",
        "json_patch": [_operation(edit) for edit in fix.edits],
    }


def _operation(edit: Edit) -> dict[str, Any]:
    operation: dict[str, Any] = {"op": edit.op, "path": pointer(edit.path)}
    if edit.op == "move":
        operation["from"] = pointer(edit.source)
    elif edit.op != "remove":
        operation["value"] = edit.value
    return operation
