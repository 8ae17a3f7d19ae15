"""The examples of the hand-written pages: they are run, and what they print is what the pages show.

`python -m docs.pages.examples` writes into the pages what the commands print now.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from dsconf.cli import main

FOLDER = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$', re.M | re.S)


@dataclass(frozen=True)
class Example:
    """One block of code: its language, the file that it is, if it is one, and its text."""

    language: str
    title: str | None
    text: str


def hand_written() -> list[Path]:
    """The pages that people wrote."""
    return sorted(FOLDER.rglob("*.md"))


def examples(page: Path) -> list[Example]:
    """The blocks of code on a page."""
    return [Example(found["language"], found["title"], found["text"]) for found in _blocks(page)]


def rewritten(page: Path) -> str:
    """The page with what its commands print now. Its files, commands and Python run in order, in a new directory."""
    text = page.read_text(encoding="utf-8")
    parts: list[str] = []
    end = 0
    with tempfile.TemporaryDirectory() as folder, _inside(folder):
        for found in _blocks(page):
            if found["title"]:
                path = Path(found["title"])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(found["text"], encoding="utf-8")
            elif found["language"] == "console":
                parts += [text[end : found.start("text")], "".join(map(_run, _commands(found["text"])))]
                end = found.end("text")
            elif found["language"] == "python":
                with redirect_stdout(io.StringIO()):
                    exec(compile(found["text"], str(page), "exec"), {})
    return "".join([*parts, text[end:]])


@contextmanager
def _inside(folder: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _blocks(page: Path) -> Iterator[re.Match[str]]:
    return _BLOCK.finditer(page.read_text(encoding="utf-8"))


def _commands(text: str) -> list[str]:
    return [line[2:] for line in text.splitlines() if line.startswith("$ ")]


def _run(command: str) -> str:
    """A command and what it prints, as a person would see it."""
    words, _, target = command.partition(" > ")
    program, *arguments = shlex.split(words)
    if program != "dsconf":
        raise ValueError(f"an example of a console runs dsconf, not {program}")
    printed = io.StringIO()
    os.environ.update(COLUMNS="100")
    with redirect_stdout(printed), redirect_stderr(printed):
        status = main(arguments)
    if status == 2:
        raise ValueError(f"{command}: {printed.getvalue()}")
    if target:
        Path(target).write_text(printed.getvalue(), encoding="utf-8")
    return f"$ {command}\n" + ("" if target else printed.getvalue())


if __name__ == "__main__":
    for page in hand_written():
        page.write_text(rewritten(page), encoding="utf-8")
