"""Signals that ask the run to end: it finishes its step, saves a checkpoint, and exits with 128 plus the number."""

from __future__ import annotations

import signal
from types import FrameType

#: SIGUSR1 is what Slurm sends, if asked, some time before it ends a job. Windows has only the first two.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name))


class Stop:
    """Notes the first of the signals; the second has its usual effect, so that nobody has to wait for the step."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._before = {number: signal.signal(number, self._note) for number in SIGNALS}

    def release(self) -> None:
        """Give all signals back their usual effect."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self.release()

    def votes(self) -> list[float]:
        """Of this process, for each of SIGNALS: 1 if it was received."""
        return [float(self.received == number) for number in SIGNALS]


def elected(votes: list[float]) -> int | None:
    """The signal that any process received, given the sums of all votes."""
    return next((int(number) for number, count in zip(SIGNALS, votes, strict=True) if count), None)


def said(number: int) -> str:
    """The signal, in words."""
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
