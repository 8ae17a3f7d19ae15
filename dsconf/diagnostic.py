"""What dsconf has to say about a configuration: one problem, one diagnostic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from dsconf.source import Position

Path = tuple[str | int, ...]

#: `error`: the job is lost or is not what the author believes. `warning`: harmless today, or probably not meant.
#: `info`: worth knowing.
Severity = Literal["error", "warning", "info"]

#: What DeepSpeed does: `refused` (it raises), `hangs`, `ignored` (no effect), `coerced` (taken for another value),
#: `deprecated` (works, with a warning), `advice` (works as written).
Effect = Literal["refused", "exhausts", "hangs", "ignored", "coerced", "deprecated", "advice"]

#: When it does so.
Phase = Literal["parse", "initialize", "step", "save", "load"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


class Edit(NamedTuple):
    """One JSON Patch operation (RFC 6902) on paths.

    `add` and `replace` carry a value, `move` the path that the value comes from.
    """

    op: Literal["add", "remove", "replace", "move"]
    path: Path
    value: Any = None
    source: Path = ()


class Fix(NamedTuple):
    """Edits that remove the problem. Safe: DeepSpeed then does what it did, or what was plainly meant."""

    message: str
    edits: tuple[Edit, ...]
    safe: bool = True


class Related(NamedTuple):
    """Another place that takes part in the problem."""

    path: Path
    message: str
    location: Position | None = None
    end_location: Position | None = None


class Diagnostic(NamedTuple):
    """One problem of one file.

    `path` leads to the key; `location` and `end_location` enclose the token that is wrong (None when the
    configuration did not come from a text). `phase` says when DeepSpeed refuses, where it does. `actor`: who does
    what `effect` says, if not DeepSpeed a program that reads the file before it. `alternatives`: other fixes, each of
    which removes the problem as well.
    """

    code: str
    name: str
    severity: Severity
    effect: Effect
    message: str
    help: str
    url: str
    path: Path
    filename: str = ""
    location: Position | None = None
    end_location: Position | None = None
    phase: Phase | None = None
    related: tuple[Related, ...] = ()
    fix: Fix | None = None
    alternatives: tuple[Fix, ...] = ()
    actor: str = "DeepSpeed"

    @property
    def pointer(self) -> str:
        """The path as a JSON Pointer (RFC 6901)."""
        return pointer(self.path)


def pointer(path: Path) -> str:
    """A path as a JSON Pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def dotted(path: Path) -> str:
    """A path as people write it: `zero_optimization.stage`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


class ConfigError(ValueError):
    """A configuration that DeepSpeed would refuse or would not do what it says.

    `diagnostics` holds everything that was found, errors and the rest, in file order.
    """

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        errors = [item for item in self.diagnostics if item.severity == "error"]
        lines = [f"{len(errors)} error{'s' if len(errors) != 1 else ''} in the DeepSpeed configuration"]
        for item in errors:
            place = f"{item.filename}:{item.location.line}:{item.location.column}: " if item.location else ""
            lines.append(f"  {place}{item.code} {item.name}: {item.message}")
            if item.help:
                lines.append(f"    help: {item.help}")
        super().__init__("\n".join(lines))
