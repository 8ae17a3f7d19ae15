"""The protocol: documents come in, diagnostics, hovers, completions and quick fixes go out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any, cast

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from dsconf import __version__
from dsconf.check import check
from dsconf.diagnostic import Diagnostic, Fix, Severity
from dsconf.edits import EditError, apply
from dsconf.fix import fix
from dsconf.lsp.cursor import Cursor, cursor
from dsconf.lsp.suggest import hover, suggestions
from dsconf.report.text import effect
from dsconf.rules import find_rule
from dsconf.rules.rule import Context
from dsconf.source import Document, Position, read_text
from dsconf.source.document import line_starts

_SEVERITIES: dict[Severity, types.DiagnosticSeverity] = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "info": types.DiagnosticSeverity.Information,
}
_FIX_ALL = "source.fixAll.dsconf"


class Server(LanguageServer):
    """What is known about the job comes with the client's `initializationOptions`, by the names of `Context`."""

    def __init__(self) -> None:
        super().__init__("dsconf", __version__)  # pyright: ignore[reportUnknownMemberType]
        self.context = Context()

    def document(self, uri: str) -> Document:
        """The text of an open file, read."""
        return read_text(self.workspace.get_text_document(uri).source, to_fs_path(uri) or uri)

    def position(self, document: Document, place: Position) -> types.Position:
        """A place as the client counts it."""
        before = document.line(place.line)[: place.column - 1]
        return types.Position(place.line - 1, self._units(before))

    def offset(self, document: Document, place: types.Position) -> int:
        """An offset in code points of what the client calls a place."""
        line = document.line(place.line + 1)
        column = next((n for n in range(len(line) + 1) if self._units(line[:n]) >= place.character), len(line))
        starts = line_starts(document.text)
        return starts[place.line] + column if place.line < len(starts) else len(document.text)

    def range(self, document: Document, start: Position | None, end: Position | None) -> types.Range:
        """A stretch of text as the client counts it; the start of the file for what stands nowhere."""
        first = start or Position(1, 1, 0)
        return types.Range(self.position(document, first), self.position(document, end or first))

    def _units(self, text: str) -> int:
        encoding = self.workspace.position_encoding
        if encoding == types.PositionEncodingKind.Utf8:
            return len(text.encode())
        if encoding == types.PositionEncodingKind.Utf32:
            return len(text)
        return sum(2 if ord(char) > 0xFFFF else 1 for char in text)

    def cursor(self, uri: str, place: types.Position) -> Cursor:
        """What is around a place in an open file."""
        document = self.document(uri)
        return cursor(document.text, self.offset(document, place))


def serve() -> None:
    """Talk to an editor over standard input and output until it says goodbye."""
    server().start_io()


def server() -> Server:
    """A new server with all its features."""
    server = Server()

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        given = params.initialization_options
        if isinstance(given, dict):
            options = cast("dict[str, Any]", given)
            known = Context._fields
            server.context = Context(**{name: options[name] for name in known if name in options})

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        _publish(server, params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        _publish(server, params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(params.text_document.uri, []))

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hovered(params: types.HoverParams) -> types.Hover | None:
        return _hover(server, params)

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=['"', ":", " "]))
    def complete(params: types.CompletionParams) -> list[types.CompletionItem]:
        return _complete(server, params)

    kinds: list[types.CodeActionKind | str] = [types.CodeActionKind.QuickFix, _FIX_ALL]

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=kinds))
    def act(params: types.CodeActionParams) -> list[types.CodeAction]:
        return list(_actions(server, params))

    # Only the decorators use them.
    del initialize, opened, changed, closed, hovered, complete, act
    return server


def _publish(server: Server, uri: str) -> None:
    document = server.document(uri)
    found = [_diagnostic(server, uri, document, item) for item in check(document, server.context).diagnostics]
    version = server.workspace.get_text_document(uri).version
    server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))


def _diagnostic(server: Server, uri: str, document: Document, item: Diagnostic) -> types.Diagnostic:
    tags: list[types.DiagnosticTag] = []
    if item.effect == "ignored":
        tags.append(types.DiagnosticTag.Unnecessary)
    if item.effect == "deprecated":
        tags.append(types.DiagnosticTag.Deprecated)
    related = [
        types.DiagnosticRelatedInformation(
            types.Location(uri, server.range(document, other.location, other.end_location)), other.message
        )
        for other in item.related
        if other.location
    ]
    help = f"\nhelp: {item.help}" if item.help else ""
    return types.Diagnostic(
        range=server.range(document, item.location, item.end_location),
        severity=_SEVERITIES[item.severity],
        code=item.code,
        code_description=types.CodeDescription(item.url),
        source="dsconf",
        message=f"{item.message}\n{item.actor}: {effect(item)}{help}",
        tags=tags,
        related_information=related,
    )


def _hover(server: Server, params: types.HoverParams) -> types.Hover | None:
    document = server.document(params.text_document.uri)
    place = server.cursor(params.text_document.uri, params.position)
    texts = [text] if (text := hover(place)) else []
    for item in check(document, server.context).diagnostics:
        rule = find_rule(item.code)
        if (
            rule
            and item.location
            and item.end_location
            and item.location.offset <= place.start < item.end_location.offset
        ):
            texts.append(f"**[{rule.code} {rule.name}]({rule.url})**\n\n{rule.explanation}")
    if not texts:
        return None
    content = types.MarkupContent(types.MarkupKind.Markdown, "\n\n---\n\n".join(texts))
    start, end = document.position(place.start), document.position(place.end)
    return types.Hover(content, server.range(document, start, end))


def _complete(server: Server, params: types.CompletionParams) -> list[types.CompletionItem]:
    document = server.document(params.text_document.uri)
    place = server.cursor(params.text_document.uri, params.position)
    span = server.range(document, document.position(place.start), document.position(place.end))
    kind = types.CompletionItemKind.Property if place.at == "key" else types.CompletionItemKind.Value
    return [
        types.CompletionItem(
            label=item.label,
            kind=kind,
            detail=item.detail,
            documentation=types.MarkupContent(types.MarkupKind.Markdown, item.documentation),
            # Editors compare with what is typed, which begins with a quote.
            filter_text=item.text if document.text[place.start : place.start + 1] == '"' else item.label,
            text_edit=types.TextEdit(span, item.text),
            tags=[types.CompletionItemTag.Deprecated] if item.deprecated else None,
            sort_text=f"{number:04}",
        )
        for number, item in enumerate(suggestions(place))
    ]


def _actions(server: Server, params: types.CodeActionParams) -> Iterator[types.CodeAction]:
    uri = params.text_document.uri
    document = server.document(uri)
    for item in check(document, server.context).diagnostics:
        shown = _diagnostic(server, uri, document, item)
        if shown.range.start > params.range.end or shown.range.end < params.range.start:
            continue
        for remedy in filter(None, (item.fix, *item.alternatives)):
            edit = _remedy(server, uri, document, remedy)
            if edit:
                yield types.CodeAction(
                    title=f"{item.code}: {remedy.message}",
                    kind=types.CodeActionKind.QuickFix,
                    diagnostics=[shown],
                    is_preferred=remedy is item.fix and remedy.safe,
                    edit=edit,
                )
    if document.root is not None:
        fixed = fix(document, server.context)
        if fixed.applied:
            edit = _edit(server, uri, document, fixed.document.text)
            yield types.CodeAction(title="dsconf: fix all that is safe to fix", kind=_FIX_ALL, edit=edit)


def _remedy(server: Server, uri: str, document: Document, remedy: Fix) -> types.WorkspaceEdit | None:
    try:
        return _edit(server, uri, document, apply(document, remedy.edits).text)
    except EditError:
        return None


def _edit(server: Server, uri: str, document: Document, text: str) -> types.WorkspaceEdit:
    """The stretch that differs, as one edit, so that cursors elsewhere stay where they are."""
    start = _common(document.text, text)
    new = text[start:]
    same = _common(document.text[start:][::-1], new[::-1])
    end = len(document.text) - same
    span = server.range(document, document.position(start), document.position(end))
    return types.WorkspaceEdit(changes={uri: [types.TextEdit(span, new[: len(new) - same])]})


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
