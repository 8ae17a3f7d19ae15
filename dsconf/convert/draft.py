"""What converting leaves: values, where each came from, and what there is to say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from dsconf.diagnostic import Path, Severity
from dsconf.source import Document, Object, Scalar, Span, find, find_key, plain


class ConvertError(ValueError):
    """The arguments cannot be converted at all; the text is for people and begins with the place."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to know about one argument or key; an error stops the conversion. `place`: file:line:column."""

    severity: Severity
    place: str
    message: str


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping in a file of arguments."""

    document: Document
    node: Object

    @property
    def values(self) -> Mapping[str, Any]:
        """The arguments by their names."""
        return plain(self.node)

    def get(self, name: str) -> Any:
        """The value of an argument; None where it is absent."""
        member = self.node.get(name)
        return plain(member.value) if member else None

    def section(self, name: str) -> Section | None:
        """The mapping of that name, here or further inside."""
        member = find_key(self.node, name)
        return Section(self.document, member.value) if member and isinstance(member.value, Object) else None

    def place(self, name: str = "") -> str:
        """Where an argument stands, here or further inside, or else the mapping."""
        member = find_key(self.node, name)
        return spot(self.document, (member.key_span if member else None) or self.node.span)


@dataclass(slots=True)
class Draft:
    """A configuration in the making.

    `base`: the ds_config that it rests on, if there is one. `origins`: where each value came from that is not of the
    base. `adds`: what the program adds to the file when it runs.
    """

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    base: Document | None = None
    origins: dict[Path, str] = field(default_factory=dict["Path", str])
    adds: dict[str, Any] = field(default_factory=dict[str, Any])
    remarks: list[Remark] = field(default_factory=list[Remark])

    def put(self, path: Path, value: Any, origin: str) -> None:
        """Set a key, with the blocks around it."""
        block = self.values
        for part in path[:-1]:
            block = block.setdefault(str(part), {})
        block[str(path[-1])] = value
        self.origins[path] = origin

    def say(self, severity: Severity, place: str, message: str) -> None:
        """Add a remark."""
        self.remarks.append(Remark(severity, place, message))

    def origin(self, path: Path) -> str:
        """Where the value at a path, or the nearest one around or inside it, came from; "" if nobody knows."""
        for length in range(len(path), 0, -1):
            for known, place in self.origins.items():
                if known[:length] == path[:length] and (length == len(path) or len(known) == length):
                    return place
        return ""


def spot(document: Document, span: Span | None) -> str:
    """A place as file:line:column."""
    if span is None:
        return document.filename
    position = document.position(span.start)
    return f"{document.filename}:{position.line}:{position.column}"


def place_in(document: Document, path: Path) -> str:
    """Where a key of a ds_config stands, or else the block that would hold it."""
    for length in range(len(path), 0, -1):
        found = find(document.root, path[:length]) if document.root else None
        if found:
            return spot(document, found.key_span or found.node.span)
    return document.filename


def take_base(draft: Draft, section: Section, name: str) -> bool:
    """Take over the ds_config that an argument names or holds, if it does either.

    A file is looked for where the program would look, from the current directory.

    Raises:
        ConvertError: it cannot be read.
    """
    from dsconf.files import reason
    from dsconf.source import read_file

    member = find_key(section.node, name)
    value = member.value if member else None
    if isinstance(value, Object):
        document = section.document.with_root(value)
    elif isinstance(value, Scalar) and isinstance(value.value, str) and value.value not in ("", "none"):
        try:
            document = read_file(value.value)
        except OSError as error:
            raise ConvertError(f"{section.place(name)}: {value.value}: {reason(error)}") from None
        except ValueError:
            raise ConvertError(f"{section.place(name)}: {value.value!r}: not a file name") from None
    else:
        return False
    draft.base = document
    draft.values = plain(readable(document))
    return True


def readable(document: Document) -> Object:
    """The root of a document.

    Raises:
        ConvertError: it has none.
    """
    if document.root is None:
        fault = document.faults[0]
        raise ConvertError(f"{spot(document, fault.span)}: {fault.message}; {fault.help}")
    return document.root


def literal(values: Mapping[str, Any], path: Path) -> Any:
    """What stands at a path; None where nothing does."""
    found: Any = values
    for part in path:
        if not isinstance(found, Mapping):
            return None
        found = cast("Mapping[str | int, Any]", found).get(part)
    return found
