"""JUnit XML: a test suite for each file, a test case for each finding, for CI servers that show test results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from dsconf.diagnostic import Diagnostic
from dsconf.report.output import Output, Style
from dsconf.report.text import full
from dsconf.source import Document

#: What XML 1.0 cannot hold, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class JUnit:
    """A finding fails its test case exactly when it would make the command fail; a clean file has one that passes."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._suites = Element("testsuites", name="dsconf")

    def add(self, document: Document, diagnostics: Sequence[Diagnostic]) -> None:
        shown = [item for item in diagnostics if item.severity in self._output.fails]
        shown += [item for item in self._output.shown(diagnostics) if item not in shown]
        failures = sum(item.severity in self._output.fails for item in shown)
        suite = SubElement(
            self._suites,
            "testsuite",
            name=_clean(document.filename),
            tests=str(max(1, len(shown))),
            failures=str(failures),
            errors="0",
        )
        if not shown:
            SubElement(suite, "testcase", name="valid", classname=_clean(document.filename))
        for item in shown:
            case = SubElement(
                suite,
                "testcase",
                name=_clean(f"{item.code} {item.name} {item.pointer}"),
                classname=_clean(document.filename),
                file=_clean(item.filename),
                line=str(item.location.line if item.location else 1),
            )
            text = _clean(full(item, document, Style()))
            if item.severity in self._output.fails:
                failure = SubElement(case, "failure", message=_clean(item.message), type=item.severity)
                failure.text = text
            else:
                SubElement(case, "system-out").text = text

    def end(self) -> None:
        indent(self._suites)
        self._output.write('<?xml version="1.0" encoding="utf-8"?>\n' + tostring(self._suites, "unicode") + "\n")


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
