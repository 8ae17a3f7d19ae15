"""Addresses: the documentation's pages, and lines of DeepSpeed's source."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsconf.diagnostic import Path

#: Where the documentation stands.
HOME = "https://dsconf.readthedocs.io/en/stable/"
_SOURCE = "https://github.com/deepspeedai/DeepSpeed/blob/v{release}/deepspeed/{file}#L{line}"


def rule_url(name: str) -> str:
    """The page of a rule."""
    return f"{HOME}rules/{name}/"


def key_url(path: Path) -> str:
    """The place of a key on the page of its block."""
    names = [part for part in path if isinstance(part, str)]
    return f"{HOME}config/{block_page(tuple(names[:-1]))}/#{names[-1]}"


def block_page(path: Path) -> str:
    """What the page of the block at a path is called; list positions and names that authors choose left out."""
    return ".".join(map(str, path)) or "top-level"


def source_url(source: str, release: str) -> str:
    """A line of a DeepSpeed release, given as `file:line` inside the package."""
    file, _, line = source.partition(":")
    return _SOURCE.format(release=release, file=file, line=line)
