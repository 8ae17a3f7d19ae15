"""A finding as plain values, for programs. `schemas/report.schema.json` is made from these types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

from typing_extensions import TypedDict

from dsconf.diagnostic import Diagnostic, Edit, Effect, Fix, Phase, Related, Severity, pointer
from dsconf.report.totals import Totals
from dsconf.source import Position

#: The number before the point grows when a reader of an older report would be misled, the other one when something
#: was added.
FORMAT_VERSION = "1.1"


class PositionRecord(TypedDict):
    """A place in a file: line and column count from 1, the offset from 0; both in code points."""

    line: int
    column: int
    offset: int


class RelatedRecord(TypedDict):
    """Another place that takes part in the problem."""

    message: str
    pointer: str
    path: list[str | int]
    location: PositionRecord | None
    end_location: PositionRecord | None


#: One operation of RFC 6902.
Operation = TypedDict(
    "Operation",
    {"op": Literal["add", "remove", "replace", "move"], "path": str, "from": str, "value": Any},
    total=False,
)


class FixRecord(TypedDict):
    """A way out. Applying it is safe if DeepSpeed then does what it did, or what was plainly meant."""

    message: str
    applicability: Literal["safe", "unsafe"]
    json_patch: list[Operation]


class DiagnosticRecord(TypedDict):
    """One problem of one file. The fingerprint stays the same while lines move."""

    code: str
    name: str
    severity: Severity
    effect: Effect
    phase: Phase | None
    actor: str
    message: str
    help: str
    url: str
    filename: str
    pointer: str
    path: list[str | int]
    location: PositionRecord | None
    end_location: PositionRecord | None
    related: list[RelatedRecord]
    fix: FixRecord | None
    alternatives: list[FixRecord]
    fingerprint: str


class SummaryRecord(TypedDict):
    """How many files were read and what was found in them."""

    files: int
    errors: int
    warnings: int
    infos: int
    fixable: int


class ToolRecord(TypedDict):
    """What wrote the report."""

    name: str
    version: str


class ReportRecord(TypedDict):
    """What `dsconf validate --format json` prints; `--format jsonl` prints one of the diagnostics on each line."""

    format_version: str
    tool: ToolRecord
    deepspeed: str
    summary: SummaryRecord
    diagnostics: list[DiagnosticRecord]


def fingerprints(diagnostics: Sequence[Diagnostic]) -> list[str]:
    """What tells each finding of a file from the others, whatever its line: rule, key, and how many came before."""
    from hashlib import sha256

    seen: Counter[tuple[str, str]] = Counter()
    found: list[str] = []
    for item in diagnostics:
        what = (item.code, item.pointer)
        found.append(sha256(f"{item.code}\0{item.pointer}\0{seen[what]}".encode(errors="replace")).hexdigest())
        seen[what] += 1
    return found


def records(diagnostics: Sequence[Diagnostic]) -> list[DiagnosticRecord]:
    """The findings of one file as plain values."""
    return [_record(item, mark) for item, mark in zip(diagnostics, fingerprints(diagnostics), strict=True)]


def summary(totals: Totals) -> SummaryRecord:
    """The totals as plain values."""
    return {
        "files": totals.files,
        "errors": totals.errors,
        "warnings": totals.warnings,
        "infos": totals.infos,
        "fixable": totals.fixable,
    }


def _record(item: Diagnostic, fingerprint: str) -> DiagnosticRecord:
    return {
        "code": item.code,
        "name": item.name,
        "severity": item.severity,
        "effect": item.effect,
        "phase": item.phase,
        "actor": item.actor,
        "message": item.message,
        "help": item.help,
        "url": item.url,
        "filename": item.filename,
        "pointer": item.pointer,
        "path": list(item.path),
        "location": _position(item.location),
        "end_location": _position(item.end_location),
        "related": [_related(other) for other in item.related],
        "fix": _fix(item.fix) if item.fix else None,
        "alternatives": [_fix(fix) for fix in item.alternatives],
        "fingerprint": fingerprint,
    }


def _related(item: Related) -> RelatedRecord:
    return {
        "message": item.message,
        "pointer": pointer(item.path),
        "path": list(item.path),
        "location": _position(item.location),
        "end_location": _position(item.end_location),
    }


def _position(place: Position | None) -> PositionRecord | None:
    return {"line": place.line, "column": place.column, "offset": place.offset} if place else None


def _fix(fix: Fix) -> FixRecord:
    return {
        "message": fix.message,
        "applicability": "safe" if fix.safe else "unsafe",
        "json_patch": [_operation(edit) for edit in fix.edits],
    }


def _operation(edit: Edit) -> Operation:
    operation: Operation = {"op": edit.op, "path": pointer(edit.path)}
    if edit.op == "move":
        operation["from"] = pointer(edit.source)
    elif edit.op != "remove":
        operation["value"] = edit.value
    return operation
