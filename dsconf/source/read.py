"""From a path, bytes or text to a `Document`."""

from __future__ import annotations

import os
import re

from dsconf.source.document import Document, Fault
from dsconf.source.faults import Unreadable
from dsconf.source.syntax import Reader
from dsconf.source.tree import Span

MAX_BYTES = 16 * 1024 * 1024
"""The largest file read; a ds_config is some kilobytes."""

_START = Span(0, 0)
_SURROGATE = "[\ud800-\udfff]"
_CONTROL = rb"[\x00-\x08\x0e-\x1f]"
_BYTE_ORDER_MARKS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
# Where the zero bytes lie among the first four when these begin with ASCII characters.
_ZERO_PATTERNS: dict[tuple[bool, ...], str] = {
    (True, True, True, False): "UTF-32",
    (False, True, True, True): "UTF-32",
    (True, False, True, False): "UTF-16",
    (False, True, False, True): "UTF-16",
}


def read_file(path: str | os.PathLike[str]) -> Document:
    """Read a ds_config file. Never takes more than `MAX_BYTES` + 1 bytes of it.

    Raises:
        OSError: the file is missing, a directory, or may not be read.
    """
    with open(path, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    return read_bytes(data, os.fspath(path))


def read_bytes(data: bytes, filename: str) -> Document:
    """Read a ds_config from the bytes of its file, which must be UTF-8. Whatever they hold, nothing is raised."""
    if len(data) > MAX_BYTES:
        return _too_large(filename)
    encoding = _foreign_encoding(data)
    if encoding is not None:
        return _refused(filename, f"the file is saved as {encoding}; DeepSpeed reads UTF-8", "save it as UTF-8")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if re.search(_CONTROL, data):
            return _binary(filename)
        offset = len(data[: error.start].decode())
        return _refused(
            filename,
            f"the file is not UTF-8: byte 0x{data[error.start]:02x} at byte offset {error.start} does not belong there",
            "save the file as UTF-8",
            data.decode(errors="replace"),
            Span(offset, offset + 1),
        )
    return read_text(text, filename)


def read_text(text: str, filename: str) -> Document:
    """Read a ds_config from its text, line ends as in the file. Whatever it holds, nothing is raised."""
    if len(text) > MAX_BYTES:
        return _too_large(filename)
    if "\0" in text:
        return _binary(filename)
    surrogate = None if text.isascii() else re.search(_SURROGATE, text)
    if surrogate is not None:
        return _refused(
            filename,
            f"the text holds U+{ord(surrogate.group()):04X}, half of a character that UTF-8 cannot write",
            "remove it",
            re.sub(_SURROGATE, "\ufffd", text),
            Span(*surrogate.span()),
        )
    reader = Reader(text)
    try:
        root, faults = reader.read(), ()
    except Unreadable as error:
        root, faults = None, (error.fault,)
    return Document(filename, text, root, faults, tuple(reader.extensions.values()))


def _foreign_encoding(data: bytes) -> str | None:
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return encoding
    return _ZERO_PATTERNS.get(tuple(byte == 0 for byte in data[:4]))


def _refused(filename: str, message: str, help: str, text: str = "", span: Span = _START) -> Document:
    return Document(filename, text, None, (Fault(message, help, span),), ())


def _too_large(filename: str) -> Document:
    return _refused(
        filename,
        f"the file is larger than {MAX_BYTES // 2**20} MiB, far more than any ds_config",
        "check that this is the file you meant",
    )


def _binary(filename: str) -> Document:
    return _refused(filename, "the file holds binary data, not text", "check that this is the file you meant")
