"""Seeing a launch to its end: signals go to the ranks, nothing is left behind, and the first failure is said last."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from runner import failure, run_dir
from runner.launch.plan import Plan
from runner.stop import SIGNALS, said

#: Seconds after the end of the launcher in which ranks may still be ending.
_GRACE = 7.0


def supervise(plan: Plan, command: list[str], directory: Path) -> int:
    """Run the launcher; its exit status, and 1 where it says 0 although the run was not completed."""
    kept, summary = directory / run_dir.LOGS / failure.FILE, directory / run_dir.SUMMARY
    leads = plan.settings.node_rank in (None, 0)
    if leads:
        kept.unlink(missing_ok=True)
    earlier = _version(summary)
    told: list[int] = []
    process = subprocess.Popen(command, env=plan.environment(), start_new_session=True)
    forward = _forwarder(process, told, remote=plan.remote)
    before = {number: signal.signal(number, forward) for number in SIGNALS}
    try:
        status = process.wait()
        _end_session(process.pid)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    _remove_buffers(plan.master_port)
    if kept.exists():
        print(f"\n{kept.read_text(encoding='utf-8').rstrip()}\n(kept in {kept})", file=sys.stderr)
        return status if status > 0 else 1
    if told:
        print(f"stopped by {said(told[0])}; to go on: resume=auto run_dir={directory}", file=sys.stderr)
        return 128 + told[0]
    # Other nodes than the first need not have come to their end yet.
    if status or (leads and _version(summary) == earlier):
        print(f"error: the launcher ended with status {status}, and the run was not completed", file=sys.stderr)
        return status if status > 0 else 1
    return 0


def _version(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _forwarder(
    process: subprocess.Popen[bytes], told: list[int], *, remote: bool
) -> Callable[[int, FrameType | None], None]:
    """The ranks are told, not the launcher, which would end them; a second signal ends everything at once."""

    def forward(number: int, frame: FrameType | None) -> None:
        ranks = [] if remote else _ranks(process.pid)
        if told or not ranks:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        else:
            for rank in ranks:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rank, number)
        told.append(number)

    return forward


def _ranks(session: int) -> list[int]:
    """The processes of the session that are ranks, and not started by one."""
    marked = {pid: parent for pid, parent in _members(session).items() if _is_marked(pid)}
    return [pid for pid, parent in marked.items() if parent not in marked]


def _is_marked(pid: int) -> bool:
    try:
        return b"\0RANK=" in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def _members(session: int) -> dict[int, int]:
    """The living processes of a session, with their parents."""
    found: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] not in "ZX":
            found[int(stat.parent.name)] = int(fields[1])
    return found


def _end_session(session: int) -> None:
    """Wait for what the launcher left running, and end what does not end by itself."""
    deadline = time.monotonic() + _GRACE
    while members := _members(session):
        if time.monotonic() > deadline:
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.1)


def _remove_buffers(port: int) -> None:
    """Of ranks that ended between making their shared buffer and taking its name away."""
    for file in Path("/dev/shm").glob(f"deepspeed_allreduce_buffer_{os.getuid()}_*_{port}_*"):
        file.unlink(missing_ok=True)
