"""What the run tells people while it goes on: on one line of a terminal, or line after line elsewhere."""

from __future__ import annotations

import sys
import time


class Progress:
    """Talks for the leading process; in all others it is silent."""

    def __init__(self, *, leads: bool) -> None:
        self._leads = leads
        self._live = sys.stdout.isatty()
        self._open = False

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._print(text, stays=True)

    def step(self, text: str) -> None:
        """Print how far the run is; on a terminal in place of what was printed so before."""
        self._print(text, stays=not self._live)

    def _print(self, text: str, *, stays: bool) -> None:
        if not self._leads:
            return
        start = "\r\x1b[K" if self._open else ""
        print(start + text, end="\n" if stays else "", flush=True)
        self._open = not stays


class Clock:
    """How fast the run is. Time is counted only between `start` and `stop`, so that evaluations do not blur it."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._started: float | None = None
        self._marked_seconds = 0.0
        self._marked_tokens = 0
        self._tokens = 0

    def start(self) -> None:
        self._started = time.perf_counter()

    def stop(self, tokens: int) -> None:
        """End of a piece of work on `tokens` tokens."""
        if self._started is not None:
            self._seconds += time.perf_counter() - self._started
        self._started = None
        self._tokens += tokens

    @property
    def seconds(self) -> float:
        """All time counted so far."""
        return self._seconds

    def rate(self) -> float:
        """Tokens per second since the last call."""
        seconds, tokens = self._seconds - self._marked_seconds, self._tokens - self._marked_tokens
        self._marked_seconds, self._marked_tokens = self._seconds, self._tokens
        return tokens / seconds if seconds else 0.0


def duration(seconds: float) -> str:
    """Seconds as people read them: `2:05`, `1:02:05`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
