"""What the launcher started: telling all of it something, and ending what does not end by itself."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from runner.launch.plan import Plan
from runner.stop import SIGNALS

#: Seconds that ranks may take to end once a part of the run has ended before its time.
_GRACE = 5.0


class Launched:
    """The launcher and its ranks: in a session of their own, or with pdsh also on other hosts."""

    def __init__(self, plan: Plan, file: Path) -> None:
        self._file = file
        self._hosts = list(plan.slots) if plan.remote and plan.settings.launcher.lower() == "pdsh" else []
        self._told: int | None = None
        self._process = subprocess.Popen(plan.command(file), env=plan.environment(), start_new_session=True)

    def wait(self, failed: Path, completed: Callable[[], bool]) -> tuple[int, int | None]:
        """Wait for the end of everything. Returns the launcher's status, and the signal that ended the run, if any.

        `failed`: the file that is there as soon as a rank has failed. `completed`: whether the run has done all it
        was to do.
        """
        before = {number: signal.signal(number, self._forward) for number in SIGNALS}
        try:
            status = self._wait_for_launcher(failed)
            self._end(everywhere=not completed())
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return status, self._told

    def _wait_for_launcher(self, failed: Path) -> int:
        deadline: float | None = None
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._process.wait(timeout=0.5)
            if deadline is None and failed.exists():
                deadline = time.monotonic() + _GRACE
            if deadline is not None and time.monotonic() > deadline:
                # pdsh waits for all hosts, and those where nothing failed may wait for the others.
                self._tell_hosts(signal.SIGKILL, ranks_only=False)
                os.killpg(self._process.pid, signal.SIGKILL)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        """The ranks are told, not the launcher, which would end them; a second signal ends everything at once."""
        first, self._told = self._told is None, number
        if not (first and self._tell_ranks(number)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)

    def _tell_ranks(self, number: int) -> bool:
        """Send all ranks a signal. Whether there were any."""
        if self._hosts:
            return self._tell_hosts(number, ranks_only=True)
        marked = {pid: parent for pid, parent in self._session().items() if _is_marked(pid)}
        # Not to what ranks have started in turn.
        ranks = [pid for pid, parent in marked.items() if parent not in marked]
        for rank in ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rank, number)
        return bool(ranks)

    def _tell_hosts(self, number: int, *, ranks_only: bool) -> bool:
        """The same over pdsh, for this run alone, or also for its launchers there. Whether a host had any."""
        if not self._hosts:
            return False
        # The brackets keep the pattern from finding the command that looks for it.
        pattern = f"{'-m ' if ranks_only else ''}[r]unner {re.escape(str(self._file))}$"
        command = f"pkill -{number} -f -- {shlex.quote(pattern)}"
        environment = {**os.environ, "PDSH_RCMD_TYPE": "ssh"}
        done = subprocess.run(
            ["pdsh", "-S", "-w", ",".join(self._hosts), command],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return done.returncode == 0

    def _end(self, *, everywhere: bool) -> None:
        """Wait for what the launcher left running, `everywhere` also on other hosts; end what does not by itself."""
        if everywhere:
            if self._tell_hosts(signal.SIGTERM, ranks_only=True):
                time.sleep(_GRACE)
            self._tell_hosts(signal.SIGKILL, ranks_only=False)
        deadline = time.monotonic() + _GRACE
        while members := self._session():
            if time.monotonic() > deadline:
                for pid in members:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                return
            time.sleep(0.1)

    def _session(self) -> dict[int, int]:
        """The living processes of the launcher's session, with their parents."""
        found: dict[int, int] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == self._process.pid and fields[0] not in "ZX":
                found[int(stat.parent.name)] = int(fields[1])
        return found


def _is_marked(pid: int) -> bool:
    try:
        return b"\0RANK=" in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
