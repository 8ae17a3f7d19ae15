"""Seeing a launch to its end: what it came to, with the first failure said last, and nothing left behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from runner import failure, run_dir
from runner.launch.launched import Launched
from runner.launch.plan import Plan
from runner.stop import said


def supervise(plan: Plan, file: Path) -> int:
    """Start ranks that read their settings from `file`, and see them to their end.

    Returns the launcher's exit status, and 1 where it says 0 although the run was not completed.
    """
    directory = file.parent
    kept, summary = directory / run_dir.LOGS / failure.FILE, directory / run_dir.SUMMARY
    leads = plan.settings.node_rank in (None, 0)
    if leads:
        kept.unlink(missing_ok=True)
    earlier = _version(summary)

    def completed() -> bool:
        # Other nodes than the first need not have come to their end yet.
        return not leads or _version(summary) != earlier

    status, told = Launched(plan, file).wait(kept, completed)
    _remove_buffers(plan.master_port)
    if kept.exists():
        # On a full disk it is empty, and only the rank itself could say what failed.
        if failed := kept.read_text(encoding="utf-8").rstrip():
            print(f"\n{failed}\n(kept in {kept})", file=sys.stderr)
        return status if status > 0 else 1
    if told:
        print(f"stopped by {said(told)}; to go on: resume=auto run_dir={directory}", file=sys.stderr)
        return 128 + told
    if status or not completed():
        print(f"error: the launcher ended with status {status}, and the run was not completed", file=sys.stderr)
        return status if status > 0 else 1
    return 0


def _version(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _remove_buffers(port: int) -> None:
    """Of ranks that ended between making their shared buffer and taking its name away."""
    for file in Path("/dev/shm").glob(f"deepspeed_allreduce_buffer_{os.getuid()}_*_{port}_*"):
        file.unlink(missing_ok=True)
