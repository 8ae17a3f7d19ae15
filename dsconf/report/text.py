"""Reports for people: a block of lines with the place in the file, or one line for each finding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dsconf.diagnostic import Diagnostic, Severity
from dsconf.report.output import Output, Style
from dsconf.report.totals import Totals
from dsconf.source import Document, Position

_COLORS: dict[Severity, str] = {"error": "1;31", "warning": "1;33", "info": "1;36"}


def concise(diagnostic: Diagnostic) -> str:
    """One line: `file:line:column: severity code name: message`."""
    message = printable(diagnostic.message)
    return f"{_place(diagnostic)}: {diagnostic.severity} {diagnostic.code} {diagnostic.name}: {message}"


def full(diagnostic: Diagnostic, document: Document, style: Style, *, origin: str = "") -> str:
    """The rule, the line with the token underlined, what DeepSpeed does, and the remedy."""
    color = _COLORS[diagnostic.severity]
    rule = style.link(f"{diagnostic.code} {diagnostic.name}", diagnostic.url)
    lines = [f"{style(f'{diagnostic.severity}[{rule}]', color)}: {style(printable(diagnostic.message), '1')}"]
    location = diagnostic.location
    width = len(str(location.line)) if location else 1
    margin = " " * width
    if location:
        lines.append(f"{margin}{style('-->', '1;34')} {_place(diagnostic)}")
        lines.extend(_snippet(location, diagnostic.end_location, document, width, style, color))
    elif origin:
        lines.append(f"{margin}{style('-->', '1;34')} {printable(origin)}")
    places = [item for item in diagnostic.related if item.location]
    for item in places[:_MOST_PLACES]:
        if item.location:
            where = f"{printable(diagnostic.filename)}:{item.location.line}:{item.location.column}"
            lines.append(f"{margin} {style('=', '1;34')} {style('see', '1')}: {where}: {printable(item.message)}")
    if len(places) > _MOST_PLACES:
        lines.append(f"{margin} {style('=', '1;34')} {style('see', '1')}: {len(places) - _MOST_PLACES} more places")
    lines.append(f"{margin} {style('=', '1;34')} {style(diagnostic.actor, '1')}: {effect(diagnostic)}")
    if diagnostic.help:
        lines.append(f"{margin} {style('=', '1;34')} {style('help', '1;32')}: {printable(diagnostic.help)}")
    return "\n".join(lines) + "\n"


#: So many other places are named for people; programs get all.
_MOST_PLACES = 4

_EFFECTS = {
    "refused": "refuses this",
    "exhausts": "runs out of memory with this",
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


def printable(text: str) -> str:
    """A text on one line, with what a terminal would obey (or cannot show) escaped."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _place(diagnostic: Diagnostic) -> str:
    location = diagnostic.location
    name = printable(diagnostic.filename)
    return f"{name}:{location.line}:{location.column}" if location else name


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


class Full:
    """Each finding in full, and a last line with the totals."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._totals = Totals()

    def add(self, document: Document, diagnostics: Sequence[Diagnostic]) -> None:
        self._totals.add(diagnostics)
        for item in self._output.shown(diagnostics):
            self._output.write(full(item, document, self._output.style) + "\n")

    def end(self) -> None:
        if self._totals.files:
            self._output.write(summary(self._totals, self._output.show_info) + "\n")


class Concise:
    """One line for each finding, for editors and `grep`."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def add(self, document: Document, diagnostics: Sequence[Diagnostic]) -> None:
        for item in self._output.shown(diagnostics):
            self._output.write(concise(item) + "\n")

    def end(self) -> None:
        pass


def summary(totals: Totals, shown_infos: bool) -> str:
    """The last line for people."""
    parts = [_plural(totals.errors, "error"), _plural(totals.warnings, "warning")]
    if totals.infos:
        hidden = "" if shown_infos else " (shown with --show-info)"
        parts.append(f"{_plural(totals.infos, 'note')}{hidden}")
    return f"{_plural(totals.files, 'file')}: {', '.join(parts)}"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
