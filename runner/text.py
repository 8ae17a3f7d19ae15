"""Where the text comes from: documents as bytes, split into what is trained on and what is held out."""

from __future__ import annotations

import glob
from dataclasses import dataclass
from pathlib import Path

from runner.errors import CannotStart
from runner.settings import DataSettings


@dataclass(frozen=True, slots=True)
class Text:
    """`train` and `held_out`: bytes; the one goes on where the other ends. `source`: in words, for people."""

    train: bytes
    held_out: bytes
    source: str


def find_files(path: str) -> list[Path]:
    """The files that `path` (a file, a directory or a glob pattern) names, sorted; hidden ones are left out.

    Raises CannotStart if there are none, or if all of them are empty.
    """
    place = Path(path).expanduser()
    if place.is_file():
        files = [place]
    elif place.is_dir():
        inside = [file for file in place.rglob("*") if file.is_file()]
        files = sorted(file for file in inside if not any(p.startswith(".") for p in file.relative_to(place).parts))
        if not files:
            raise CannotStart(f"data.path: the directory {place} has no files in it")
    else:
        files = sorted(Path(name) for name in glob.glob(str(place), recursive=True) if Path(name).is_file())
        if not files:
            raise CannotStart(f"data.path: no such file or directory, and no file matches the pattern: {place}")
    if not any(file.stat().st_size for file in files):
        raise CannotStart(
            f"data.path: {place} is empty" if len(files) == 1 else f"data.path: all files of {place} are empty"
        )
    return files


def read(settings: DataSettings) -> Text:
    """Read all documents, one after another, and hold out the last part.

    Raises CannotStart if the text cannot be found or read, or if a part is shorter than one sequence.
    """
    if settings.path is None:
        documents = _python_reference()
        source = f"the Python language reference, {len(documents)} topics"
    else:
        files = find_files(settings.path)
        try:
            documents = [file.read_bytes() for file in files]
        except OSError as error:
            raise CannotStart(f"data.path: cannot read {error.filename}: {error.strerror}") from None
        source = str(files[0]) if len(files) == 1 else f"{len(files)} files of {settings.path}"
    whole = b"".join(documents)
    cut = len(whole) - round(len(whole) * settings.held_out)
    train, held_out = whole[:cut], whole[cut:]
    for part, share in (("training", train), ("held-out", held_out)):
        if len(share) <= settings.sequence_length:
            raise CannotStart(
                f"data: the {part} text has {len(share)} bytes, and one sequence with its target takes "
                f"{settings.sequence_length + 1}: give more text or lower data.sequence_length"
            )
    return Text(train, held_out, source)


def _python_reference() -> list[bytes]:
    from pydoc_data.topics import topics

    return [f"{topics[name].strip()}\n\n".encode() for name in sorted(topics)]
