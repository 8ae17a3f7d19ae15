"""The first failure of a run: it is kept in the run directory, and only it is shown to people.

When one rank fails, the others lose contact to it and fail as well, with errors that explain nothing.
"""

from __future__ import annotations

import os
import socket
import time
import traceback
from pathlib import Path

from runner import logs

FILE = "failure.txt"

#: Seconds to wait for the word of another rank, where it is likely to know better what failed.
_PATIENCE = 2.0

_file: Path | None = None


def keep_in(directory: Path, *, anew: bool) -> None:
    """From now on failures are kept in this directory of logs. `anew`: what is kept there is of an earlier run."""
    global _file
    before, _file = _file, directory / FILE
    # The ranks of `launch=deepspeed` know it from the start, and may have written to it since.
    if anew and before != _file:
        _file.unlink(missing_ok=True)


def explain(text: str) -> None:
    """Show why this rank cannot go on. Most often rank 0 says the same, and once is enough."""
    if not _leads():
        _wait_for_others()
        text = f"{_who()}: {text}"
    first(text)


def report(error: BaseException) -> None:
    """Show a failure that nothing explains, with its traceback, unless another rank failed before."""
    _tell_torchrun(error)
    if _lost_contact(error):
        _wait_for_others()
    lines = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    first(f"{_who()} failed:\n{lines.rstrip()}")


def first(text: str) -> None:
    """Keep and show `text` if nothing has failed before."""
    if _file is not None:
        try:
            _file.parent.mkdir(exist_ok=True)
            descriptor = os.open(_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(f"{text}\n")
        except FileExistsError:
            return
        except OSError:
            # A directory that cannot be written to, or a full disk, is no reason to keep silent.
            pass
    logs.show(text)


def _wait_for_others() -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and not (_file is not None and _file.exists()):
        time.sleep(0.05)


def _leads() -> bool:
    return os.environ.get("RANK", "0") == "0"


def _who() -> str:
    return f"rank {os.environ.get('RANK', '0')} on {socket.gethostname()}"


def _lost_contact(error: BaseException) -> bool:
    """Whether the error can be that another rank is gone."""
    words = ("connection", "peer", "socket", "timed out", "nccl", "gloo")
    return isinstance(error, (RuntimeError, OSError)) and any(word in str(error).lower() for word in words)


def _tell_torchrun(error: BaseException) -> None:
    """torchrun shows, last of all, the error of the rank that failed first, if ranks leave it in a file."""
    if os.environ.get("TORCHELASTIC_ERROR_FILE"):
        from torch.distributed.elastic.multiprocessing.errors import get_error_handler

        handler = get_error_handler()
        handler.initialize()
        handler.record_exception(error)
