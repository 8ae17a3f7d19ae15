"""The directory with the checkpoints of a run: which is current, which stay, and which one to go on from.

Shards are written to `global_stepN.partial`, which takes its final name once everything in it has been checked;
after that the file `latest`, which DeepSpeed's own tools read too, is made to name it.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from dsconf import atomic
from runner.checkpoint import manifest
from runner.checkpoint.manifest import Damaged, Manifest
from runner.errors import CannotStart, UsageError

LATEST = "latest"
#: Where a run directory keeps its checkpoints.
FOLDER = "checkpoints"
_TAG = re.compile(r"global_step(\d+)")


@dataclass(frozen=True, slots=True)
class Found:
    """A sound checkpoint; `passed_over`: why newer ones were not taken."""

    directory: Path
    manifest: Manifest
    passed_over: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shelf:
    """The checkpoints below `directory`."""

    directory: Path

    @property
    def latest(self) -> str | None:
        """The tag of the current checkpoint."""
        try:
            return (self.directory / LATEST).read_text(encoding="utf-8").strip() or None
        except OSError:
            return None

    def tags(self) -> list[str]:
        """All finished checkpoints, the newest first."""
        found = self.directory.iterdir() if self.directory.is_dir() else ()
        names = [path.name for path in found if _TAG.fullmatch(path.name) and (path / manifest.NAME).is_file()]
        return sorted(names, key=_step, reverse=True)

    def partial(self, tag: str) -> Path:
        """Where the shards of a checkpoint are written to before it counts."""
        return self.directory / f"{tag}.partial"

    def finish(self, tag: str, content: Manifest) -> Path:
        """Make the shards in `partial(tag)` the current checkpoint. Raises OSError; the last one then stays current."""
        source, target, replaced = self.partial(tag), self.directory / tag, self.directory / f"{tag}.replaced"
        content.write(source)
        if target.exists():
            # A damaged one, or one from a course that was abandoned.
            shutil.rmtree(replaced, ignore_errors=True)
            target.rename(replaced)
        source.rename(target)
        _sync(self.directory)
        self.make_current(tag)
        shutil.rmtree(replaced, ignore_errors=True)
        return target

    def make_current(self, tag: str) -> None:
        """Let `latest` name it, from one instant to the next. Raises OSError."""
        atomic.write_text(self.directory / LATEST, tag)

    def discard(self, *, keep_last: int, keep_best: int) -> None:
        """Remove all but the `keep_last` newest (0: all stay), the `keep_best` of lowest held-out loss, the current."""
        tags = self.tags()
        if not keep_last:
            return
        losses = {tag: manifest.read(self.directory / tag).held_out_loss for tag in tags} if keep_best else {}
        ranked = sorted((loss, tag) for tag, loss in losses.items() if loss is not None)
        kept = {*tags[:keep_last], *(tag for _, tag in ranked[:keep_best]), self.latest}
        for tag in tags:
            if tag not in kept:
                # Out of the list in one step, so that half of it is never taken for a checkpoint.
                doomed = self.directory / f"{tag}.discarded"
                (self.directory / tag).rename(doomed)
                shutil.rmtree(doomed, ignore_errors=True)

    def newest_sound(self) -> Found | None:
        """The current checkpoint; where it is damaged, the newest sound one. None if there has never been one.

        Raises CannotStart if there are some, and all are damaged.
        """
        current, faults = self.latest, list[str]()
        known = self.tags()
        older = [tag for tag in known if current is None or not _TAG.fullmatch(current) or _step(tag) < _step(current)]
        order = [*([current] if current else []), *older, *known]
        for tag in dict.fromkeys(order):
            try:
                return Found(self.directory / tag, manifest.verify(self.directory / tag), tuple(faults))
            except Damaged as error:
                faults.append(str(error))
        if faults:
            raise CannotStart(f"resume=auto: no checkpoint in {self.directory} is sound: {'; '.join(faults)}")
        return None


def find(resume: str, run_dir: Path | None) -> Found | None:
    """The checkpoint that `resume` (auto, latest, a tag, a path or never) means; None: start afresh.

    Raises UsageError if a run directory must be named and is not, CannotStart if what was asked for is not there or
    is damaged.
    """
    if resume == "never":
        return None
    shelf = None if run_dir is None else Shelf(run_dir.absolute() / FOLDER)
    path = Path(resume).expanduser()
    if resume == "auto" or resume == LATEST or (_TAG.fullmatch(resume) and not path.is_dir()):
        if shelf is None:
            raise UsageError(f"error: resume={resume} goes on in a run's own directory: name it with run_dir=DIRECTORY")
        if resume == "auto":
            return shelf.newest_sound()
        tag = shelf.latest if resume == LATEST else resume
        if tag is None:
            raise CannotStart(f"resume={resume}: there is no checkpoint in {shelf.directory}{_offer(shelf)}")
        return _sound(shelf.directory / tag, resume, shelf)
    if not path.is_dir():
        raise CannotStart(f"resume={resume}: no such directory; it is auto, latest, never, a tag or a path")
    if (path / FOLDER).is_dir():
        path = path / FOLDER
    inner = Shelf(path)
    if inner.latest is not None:
        return _sound(path / inner.latest, resume, inner)
    return _sound(path, resume, Shelf(path.parent))


def _sound(directory: Path, resume: str, shelf: Shelf) -> Found:
    try:
        return Found(directory.absolute(), manifest.verify(directory))
    except Damaged as error:
        raise CannotStart(f"resume={resume}: {error}{_offer(shelf, directory.name)}") from None


def _offer(shelf: Shelf, damaged: str = "") -> str:
    others = [tag for tag in shelf.tags() if tag != damaged]
    return f"; there are {', '.join(others)}: take one with resume=TAG, or resume=auto" if others else ""


def _step(tag: str) -> int:
    match = _TAG.fullmatch(tag)
    return int(match[1]) if match else -1


def _sync(directory: Path) -> None:
    """A name in a directory lasts once the directory itself is on the disk; only POSIX systems can say so."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
