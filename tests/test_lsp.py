"""The language server, spoken to by a real client over standard input and output."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from dsconf.lsp.cursor import cursor
from dsconf.lsp.suggest import suggestions

URI = "file:///configs/ds_config.json"
ROOT = Path(__file__).resolve().parent.parent


class Editor:
    """A client with one file open; `|` in a text is the cursor."""

    def __init__(self, client: LanguageClient, published: asyncio.Queue[types.PublishDiagnosticsParams]) -> None:
        self.client = client
        self._published = published
        self._version = 0
        self._text = ""

    async def write(self, text: str) -> list[types.Diagnostic]:
        """Make this the text of the file; what the server says about it."""
        self._text = text.replace("|", "", 1)
        before, _, _ = text.partition("|")
        self.place = types.Position(before.count("\n"), len(before.rpartition("\n")[2].encode("utf-16-le")) // 2)
        self._version += 1
        if self._version == 1:
            item = types.TextDocumentItem(URI, "json", 1, self._text)
            self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        else:
            known = types.VersionedTextDocumentIdentifier(self._version, URI)
            change = types.TextDocumentContentChangeWholeDocument(self._text)
            self.client.text_document_did_change(types.DidChangeTextDocumentParams(known, [change]))
        return list((await asyncio.wait_for(self._published.get(), 60)).diagnostics)

    async def labels(self) -> list[str]:
        found = await self.client.text_document_completion_async(
            types.CompletionParams(types.TextDocumentIdentifier(URI), self.place)
        )
        return [item.label for item in found]  # pyright: ignore

    async def complete(self, label: str) -> str:
        """The text once a completion was accepted."""
        found = await self.client.text_document_completion_async(
            types.CompletionParams(types.TextDocumentIdentifier(URI), self.place)
        )
        return self._applied(next(item.text_edit for item in found if item.label == label))  # pyright: ignore

    async def hover(self) -> str:
        found = await self.client.text_document_hover_async(
            types.HoverParams(types.TextDocumentIdentifier(URI), self.place)
        )
        return found.contents.value if found else ""  # pyright: ignore

    async def actions(self) -> dict[str, str]:
        """The text after each action that is offered at the cursor."""
        at = types.Range(self.place, self.place)
        params = types.CodeActionParams(types.TextDocumentIdentifier(URI), at, types.CodeActionContext([]))
        found: Any = await self.client.text_document_code_action_async(params)
        return {item.title: self._applied(item.edit.changes[URI][0]) for item in found}

    def _applied(self, edit: Any) -> str:
        lines = self._text.splitlines(keepends=True) or [""]
        start, end = (
            sum(map(len, lines[: at.line])) + _points(lines[at.line], at.character)
            for at in (edit.range.start, edit.range.end)
        )
        return self._text[:start] + edit.new_text + self._text[end:]


def _points(line: str, units: int) -> int:
    return len(line.encode("utf-16-le")[: 2 * units].decode("utf-16-le"))


def edit(script: Callable[[Editor], Awaitable[None]], **options: Any) -> None:
    """Start a server, and let a script edit a file with it."""

    async def run() -> None:
        client = LanguageClient("test", "1")
        published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda params: published.put_nowait(params))
        await client.start_io(sys.executable, "-m", "dsconf", "lsp", cwd=ROOT)
        await client.initialize_async(
            types.InitializeParams(types.ClientCapabilities(), initialization_options=options)
        )
        client.initialized(types.InitializedParams())
        await script(Editor(client, published))
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()

    asyncio.run(run())


def test_a_file_is_diagnosed_while_it_is_typed() -> None:
    async def script(editor: Editor) -> None:
        (half,) = await editor.write('{"zero_optimization": {"stage": 3,')
        assert half.code == "DS001" and half.severity == types.DiagnosticSeverity.Error
        text = '{"train_batch_size": 1, "gradient_clipping": 1.0, "bf16": {"enabled": true},\n "x😀": 1, "zero_optimization": {"stage": 3, "allgather_bucket_size": 5}}'
        unknown, ignored = await editor.write(text)
        assert (
            ignored.code == "DS301"
            and ignored.code_description
            and ignored.code_description.href.endswith("/rules/allgather-under-stage-3/")
        )
        # The smiley takes two UTF-16 units.
        at = len(text.splitlines()[1].partition('"allgather')[0]) + 1
        assert (ignored.range.start.line, ignored.range.start.character) == (1, at)
        assert types.DiagnosticTag.Unnecessary in (ignored.tags or []) and ignored.related_information
        assert unknown.code == "DS101" and unknown.range.end.character == 6
        assert await editor.write('{"train_batch_size": 1, "gradient_clipping": 1.0}') == []

    edit(script)


def test_what_the_client_says_about_the_job_counts() -> None:
    async def script(editor: Editor) -> None:
        found = await editor.write('{"train_batch_size": 6, "gradient_clipping": 1.0}')
        assert [item.code for item in found] == ["DS603"]

    edit(script, world_size=4)


def test_half_typed_files_are_completed_hovered_and_fixed() -> None:
    async def script(editor: Editor) -> None:
        await editor.write('{\n  "zero_optimization": {"stage": 2, "allg|}\n}')
        assert (
            "allgather_bucket_size" in (labels := await editor.labels())
            and "stage3_prefetch_bucket_size" not in labels
            and "stage" not in labels
        )
        assert (
            await editor.complete("allgather_bucket_size")
            == '{\n  "zero_optimization": {"stage": 2, "allgather_bucket_size": }\n}'
        )
        await editor.write('{"😀": 1, "zero_optimization": {"stage": 3, "offload_param": {"device": |')
        assert (
            await editor.complete('"nvme"')
            == '{"😀": 1, "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"'
        )
        await editor.write('{"zero_optimization": {"stage": 3, "reduce_buck|et_size": 5')
        assert "config/zero_optimization/#reduce_bucket_size" in await editor.hover()
        await editor.write(
            '{"train_batch_size": 1, "gradient_clipping": 1.0, "bf16": {"enabled": true},\n"zero_optimization": {"stage": 3, "allgather_|bucket_size": 5, "overlap_com": true}}'
        )
        assert "rules/allgather-under-stage-3/" in await editor.hover()
        actions = await editor.actions()
        (removed,) = [text for title, text in actions.items() if title.startswith("DS301")]
        assert "allgather" not in removed and '"stage": 3' in removed and '"overlap_com": true' in removed
        assert '"overlap_comm": true' in actions["dsconf: fix all that is safe to fix"]

    edit(script)


@pytest.mark.parametrize(
    ("text", "offered", "left"),
    [
        ("|", {"zero_optimization"}, {"stage"}),
        ("{|", {"zero_optimization"}, {"stage"}),
        ('{"zero_optimization": {"|, "stage": 3}}', {"offload_param"}, {"allgather_bucket_size"}),
        ('{"zero_optimization": {"stage": 3, |\n "overlap_comm": true}}', {"offload_param"}, {"overlap_comm"}),
        ('{"zero_optimization": {"stage": |', {"0", "1", "2", "3"}, {"true"}),
        ('{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "|"}}}', {'"cpu"'}, {'"nvme"'}),
        ('{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", | }}}', {"nvme_path"}, {"device", "super_offload"}),
        ('{"optimizer": {"type": "adamw", "params": {"|', {"lr", "betas"}, {"momentum"}),
        ('{"optimizer": {"type": |', {'"AdamW"', '"Lion"'}, {"lr"}),
        ('{"bf16": {"enabled": t|', {"true", "false"}, set()),
        ('// note, {"a": \n{"fp16": {\n  # here\n  |', {"loss_scale"}, {"fp16"}),
        ('{"train_batch_size": \n "zero_op|": 1}', {"zero_optimization"}, set()),
        ('{"unheard_of": {"|', set(), {"stage", "zero_optimization"}),
    ],
)  # fmt: skip
def test_what_is_offered_fits_what_is_there(text: str, offered: set[str], left: set[str]) -> None:
    place = cursor(text.replace("|", "", 1), text.index("|"))
    labels = {item.label for item in suggestions(place)}
    assert offered <= labels and not left & labels


def test_any_place_of_any_text_is_answered() -> None:
    text = '\ufeff{"zero_optimization": {"stage": 3, // x\n "offload_param": {device: nvme, }}, "optimizer": ["a", {"b": 1e5}] /* y '
    for end in range(len(text) + 1):
        for offset in range(end + 1):
            suggestions(cursor(text[:end], offset))
