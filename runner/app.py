"""The command line: what is to be done, and how it ended."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from runner import again, ancestry, failure, lifeline, logs, run_dir
from runner.errors import BrokenOff, CannotStart, Interrupted, UsageError
from runner.settings import Settings

_MULTIRUN = ("-m", "--multirun")


def main() -> None:
    """Train as the command line says.

    Exits 0; 1 if this machine or its files lack something, or training went wrong; 2 if the command line cannot be
    right; 128 plus the number of a signal that ended the run, after a checkpoint: 130 for Ctrl-C.
    """
    try:
        sys.exit(_run())
    except UsageError as error:
        _fail(str(error), status=2)
    except (CannotStart, BrokenOff) as error:
        _fail(f"error: {error}", status=1)
    except Interrupted as end:
        _stop(f"\n{end}", status=end.status)
    except KeyboardInterrupt:
        _stop("\nstopped by Ctrl-C before the first step", status=130)


def _run() -> int:
    # The deepspeed launcher puts it in front of the arguments, unless it is called with --no_local_rank.
    sys.argv[1:] = [word for word in sys.argv[1:] if not word.startswith(("--local_rank=", "--local-rank="))]
    words = sys.argv[1:]
    if len(words) == 1 and run_dir.is_launch_file(file := Path(words[0])):
        failure.keep_in(file.parent / run_dir.LOGS, anew=False)
        # One rank of each node is enough: the others end with it.
        if os.environ.get("LOCAL_RANK") == "0":
            ancestry.watch_lock(run_dir.launch_lock(file))
        return _train(again.read_file(file))
    if any(word in _MULTIRUN for word in words):
        from runner.sweep import sweep

        return sweep([word for word in words if word not in _MULTIRUN])
    settings = _settings(words)
    if settings is None:
        return 0
    if settings.launch is not None:
        from runner.launch import launch

        return launch(settings)
    return _train(settings)


def _settings(words: list[str]) -> Settings | None:
    """What is to be trained; none if the command line only asked to be told something. Raises UsageError."""
    if words and again.is_meant(words[0]):
        return again.read_run(Path(words[0]), words[1:])
    from runner.compose import from_command_line

    return from_command_line()


def _train(settings: Settings) -> int:
    """Be a rank of the run. A failure that nothing explains is shown by the rank that it happened to first."""
    from runner.train import train

    logs.start()
    try:
        train(settings)
        from runner.engine import disconnect

        disconnect()
    except (UsageError, CannotStart, BrokenOff, Interrupted):
        raise
    except Exception as error:
        # The launcher ends all ranks once one is gone, and this one may have something to say.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        failure.report(error)
        _end(1)
    return 0


def _fail(text: str, *, status: int) -> NoReturn:
    failure.explain(text)
    _end(status)


def _stop(text: str, *, status: int) -> NoReturn:
    """All ranks end alike."""
    if os.environ.get("RANK", "0") == "0":
        print(text, file=sys.stderr)
    _end(status)


def _end(status: int) -> NoReturn:
    """End before the work is done. Where others wait, nothing is waited for, and libraries are not taken down."""
    if lifeline.fail():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)
