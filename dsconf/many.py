"""Validating many files, on all cores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

from dsconf.check import check
from dsconf.files import reason
from dsconf.rules.rule import Context
from dsconf.source import Document, read_file

if TYPE_CHECKING:
    from pathlib import Path

    from dsconf.diagnostic import Diagnostic

    Checked = tuple[Document, Sequence[Diagnostic]] | str

#: Below so many files, starting processes costs more than it brings.
_FEW = 200
#: How many files a process takes at a time.
_CHUNK = 32


def check_files(paths: Iterable[str | Path], context: Context) -> Iterator[Checked]:
    """Each file with what was found in it, or a line that says why it could not be read, in the order of the paths."""
    paths = iter(paths)
    first = list(islice(paths, _FEW + 1))
    every, one = chain(first, paths), partial(_check_file, context=context)
    if len(first) <= _FEW or (cores := _cores()) == 1:
        yield from map(one, every)
        return
    from multiprocessing import get_context

    with get_context("spawn").Pool(cores) as pool:
        yield from pool.imap(one, every, _CHUNK)


def _check_file(path: str | Path, context: Context) -> Checked:
    try:
        document = read_file(path)
    except OSError as error:
        return f"{path}: {reason(error)}"
    except ValueError:
        return f"{str(path)!r}: not a file name"
    return document, check(document, context).diagnostics


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
