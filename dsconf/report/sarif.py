"""SARIF 2.1.0, with what GitHub code scanning asks for beyond the standard."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dsconf import __version__
from dsconf.diagnostic import Diagnostic, Fix, Severity
from dsconf.launcher import rules as launcher
from dsconf.launcher.rule import LauncherRule
from dsconf.links import HOME
from dsconf.report.output import Output
from dsconf.report.places import in_repository
from dsconf.report.records import fingerprints
from dsconf.report.replacements import Replacement, replacements
from dsconf.report.text import effect
from dsconf.rules import find_rule
from dsconf.rules.rule import Rule
from dsconf.source import Document, Position

_LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}
_PROBLEM: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "recommendation"}
#: GitHub refuses longer descriptions.
_LONGEST = 1024


class Sarif:
    """One run with the findings of all files; rules are described if something was found."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._rules: dict[str, int] = {}
        self._results: list[dict[str, Any]] = []

    def add(self, document: Document, diagnostics: Sequence[Diagnostic]) -> None:
        for item, mark in zip(diagnostics, fingerprints(diagnostics), strict=True):
            index = self._rules.setdefault(item.code, len(self._rules))
            self._results.append(_result(item, document, index, mark))

    def end(self) -> None:
        run = {
            "tool": {
                "driver": {
                    "name": "dsconf",
                    "version": __version__,
                    "semanticVersion": __version__,
                    "informationUri": HOME,
                    "rules": [_described(code) for code in self._rules],
                }
            },
            "columnKind": "unicodeCodePoints",
            "automationDetails": {"id": "dsconf/"},
            "invocations": [{"executionSuccessful": True}],
            "results": self._results,
        }
        log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
        self._output.write(json.dumps(log, indent=2) + "\n")


def _described(code: str) -> dict[str, Any]:
    rule = find_rule(code)
    if rule:
        return _rule(rule)
    of_launcher = launcher.find_rule(code)
    return _launcher_rule(of_launcher) if of_launcher else {"id": code}


def _launcher_rule(rule: LauncherRule) -> dict[str, Any]:
    examples = f"Bad:\n{rule.bad.text}\n\nGood:\n{rule.good.text}"
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary[:_LONGEST]},
        "fullDescription": {"text": rule.explanation[:_LONGEST]},
        "help": {"text": f"{rule.explanation}\n\n{examples}\n\n{rule.url}"},
        "helpUri": rule.url,
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": [rule.effect], "precision": "very-high", "problem.severity": _PROBLEM[rule.severity]},
    }


def _rule(rule: Rule) -> dict[str, Any]:
    bad, good = rule.example("bad").rstrip("\n"), rule.example("good").rstrip("\n")
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary[:_LONGEST]},
        "fullDescription": {"text": rule.explanation[:_LONGEST]},
        "help": {
            "text": f"{rule.explanation}\n\nBad:\n{bad}\n\nGood:\n{good}\n\n{rule.url}",
            "markdown": f"{rule.explanation}\n\nBad:\n```json\n{bad}\n```\nGood:\n```json\n{good}\n```\n{rule.url}",
        },
        "helpUri": rule.url,
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {
            "tags": [rule.effect, rule.judge],
            "precision": "very-high" if rule.shown else "high",
            "problem.severity": _PROBLEM[rule.severity],
        },
    }


def _result(item: Diagnostic, document: Document, index: int, fingerprint: str) -> dict[str, Any]:
    text = f"{item.message}. {item.actor} {effect(item)}." + (f" Help: {item.help}." if item.help else "")
    result: dict[str, Any] = {
        "ruleId": item.code,
        "ruleIndex": index,
        "level": _LEVELS[item.severity],
        "message": {"text": text},
        "locations": [
            {
                "physicalLocation": _place(item.filename, item.location, item.end_location),
                "logicalLocations": [{"fullyQualifiedName": item.pointer or "/", "kind": "property"}],
            }
        ],
        "partialFingerprints": {"dsconf/v1": fingerprint},
    }
    related = [
        {
            "physicalLocation": _place(item.filename, other.location, other.end_location),
            "message": {"text": other.message},
        }
        for other in item.related
        if other.location
    ]
    if related:
        result["relatedLocations"] = related
    fixes = [_fix(fix, item.filename, changes) for fix, changes in _changes(item, document) if changes]
    if fixes:
        result["fixes"] = fixes
    return result


def _changes(item: Diagnostic, document: Document) -> Iterator[tuple[Fix, tuple[Replacement, ...]]]:
    for fix in (item.fix, *item.alternatives):
        if fix:
            yield fix, replacements(document, fix)


def _fix(fix: Fix, filename: str, changes: Sequence[Replacement]) -> dict[str, Any]:
    """Each fix on its own; viewers offer them, so that one which can change what is trained says so."""
    where = _place(filename, None, None)["artifactLocation"]
    return {
        "description": {"text": fix.message if fix.safe else f"{fix.message} (can change what is trained)"},
        "artifactChanges": [
            {
                "artifactLocation": where,
                "replacements": [
                    {"deletedRegion": _region(item.start, item.end), "insertedContent": {"text": item.text}}
                    for item in changes
                ],
            }
        ],
    }


def _place(filename: str, start: Position | None, end: Position | None) -> dict[str, Any]:
    start = start or Position(1, 1, 0)
    end = end or start
    return {
        "artifactLocation": _artifact(in_repository(filename)),
        "region": _region(start, end),
    }


def _region(start: Position, end: Position) -> dict[str, int]:
    return {"startLine": start.line, "startColumn": start.column, "endLine": end.line, "endColumn": end.column}


def _artifact(name: str) -> dict[str, str]:
    if Path(name).is_absolute():
        return {"uri": Path(name).as_uri()}
    return {"uri": quote(name, errors="surrogateescape"), "uriBaseId": "%SRCROOT%"}
