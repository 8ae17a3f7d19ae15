"""The two ways in which a run refuses to start. Both are printed as they are, without a traceback."""

from __future__ import annotations


class UsageError(Exception):
    """What was asked for cannot be right, on any machine. Exit status 2."""


class CannotStart(Exception):
    """This machine, or the files on it, lack something that the run needs. Exit status 1."""
