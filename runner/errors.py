"""The ways in which a run ends before its time. All are printed as they are, without a traceback."""

from __future__ import annotations


class UsageError(Exception):
    """What was asked for cannot be right, on any machine. Exit status 2."""


class CannotStart(Exception):
    """This machine, or the files on it, lack something that the run needs. Exit status 1."""


class BrokenOff(Exception):
    """The run had begun and cannot go on: what happened, what to change, the last good checkpoint. Exit status 1."""


class Interrupted(Exception):
    """Ended by a signal, after a checkpoint: which signal, and how to go on. Exit status 128 plus its number."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status
