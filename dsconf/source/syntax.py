"""The grammar of Hjson, exactly as the `hjson` package that DeepSpeed reads its files with has it.

Where that package is looser or odder than the Hjson specification, so is this reader: it accepts the same texts with
the same values. It refuses a little more: nesting deeper than `MAX_DEPTH`, half surrogate pairs, files without any
setting, and a root that is not an object.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right

from dsconf.source.document import Extension, ExtensionKind, byte_order_mark, line_starts
from dsconf.source.faults import (
    Unreadable,
    after_the_end,
    bad_key,
    no_colon,
    no_key,
    no_value,
    not_an_object,
    quote,
    unclosed,
    unreadable,
)
from dsconf.source.tree import MAX_DEPTH, Array, Member, Node, Object, Scalar, Span

_BLANKS = re.compile(r"[ \t\r\n]*")
_GAP_STARTS = frozenset(" \t\r\n#/")
_INDENT = re.compile(r"[ \t]*")
_TO_LINE_END = re.compile(r"[^\r\n]*")
_BARE_KEY = re.compile(r"[^ \t\r\n:{}\[\],]*")
_UNQUOTED_END = re.compile(r"[\r\n,}\]#]|/[/*]|\Z")
# \d takes any Unicode digit here, as it does in the hjson package.
_NUMBER = re.compile(r"(-?(?:0|[1-9]\d*))(\.\d+)?([eE][-+]?\d+)?[\t ]*")
_RUN = {'"': re.compile(r'[^"\\\x00-\x1f]*'), "'": re.compile(r"[^'\\\x00-\x1f]*")}
_ESCAPES = {'"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_CONSTANTS = {"null": None, "true": True, "false": False}

# Python turns no longer digit string into an int, hence neither does DeepSpeed.
_MAX_INT_DIGITS = 4300
# From here on a number with a fraction or an exponent stays a float even if it is integral.
_FLOAT_KEPT_FROM = 1e10


class Reader:
    """Reads one text; `extensions` holds what plain JSON lacks, the first of each kind, also after a fault."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.extensions: dict[ExtensionKind, Extension] = {}
        self._starts: list[int] | None = None
        self._swallower: Span | None = None

    def read(self) -> Object:
        """Return the root object.

        Raises:
            Unreadable: the text is not an Hjson object; carries the one fault found.
        """
        text = self.text
        start = byte_order_mark(text)
        if start:
            self._note("byte-order-mark", 0, start)
        at = self._gap(start)
        if at == len(text):
            what = "holds only blanks and comments" if text[start:] else "is empty"
            raise self._fault(f"the file {what}", 'write the settings: {"train_batch_size": 8}', start, len(text))
        if text[at] == "[":
            raise not_an_object(text, "a list", at, at + 1)
        if text[at] != "{":
            return self._root_without_braces(at)
        root, end = self._object(at, 1)
        at = self._gap(end)
        if at == len(text):
            return root
        raise after_the_end(text, at, _end(_TO_LINE_END, text, at))

    def _root_without_braces(self, start: int) -> Object:
        try:
            members, at = self._members(start, "", start, 1)
        except Unreadable:
            self._refuse_lone_scalar(start)
            raise
        first = members[0].key_span or Span(start, start)
        self._note("no-root-braces", first.start, first.end)
        return Object(members, Span(start, at))

    def _refuse_lone_scalar(self, start: int) -> None:
        try:
            scalar, end = self._value(start, 1, start, None)
        except Unreadable:
            return
        if not isinstance(scalar, Scalar) or scalar.span is None or self._gap(end) < len(self.text):
            return
        if scalar.style != "quoteless" or not any(mark in scalar.text for mark in ":={}[]"):
            raise not_an_object(self.text, "a single value", scalar.span.start, scalar.span.end)

    def _object(self, start: int, depth: int) -> tuple[Object, int]:
        at = self._gap(start + 1)
        if self.text.startswith("}", at):
            return Object((), Span(start, at + 1)), at + 1
        members, at = self._members(at, "}", start, depth)
        return Object(members, Span(start, at)), at

    def _members(self, at: int, closing: str, opener: int, depth: int) -> tuple[tuple[Member, ...], int]:
        """Read members up to and with the closing brace, or up to the end of the text if `closing` is ""."""
        text = self.text
        members: list[Member] = []
        closed = False
        while not closed:
            key, key_span, at = self._key(at, closing, opener)
            at = self._gap(at)
            if not text.startswith(":", at):
                raise no_colon(text, key, key_span, at)
            value, at = self._value(self._gap(at + 1), depth + 1, opener, key)
            members.append(Member(key, key_span, value))
            closed, at = self._separator(at, closing)
        return tuple(members), at

    def _array(self, start: int, depth: int) -> tuple[Array, int]:
        items: list[Node] = []
        at = self._gap(start + 1)
        closed = self.text.startswith("]", at)
        if closed:
            at += 1
        while not closed:
            item, at = self._value(at, depth + 1, start, None)
            items.append(item)
            closed, at = self._separator(at, "]")
        return Array(tuple(items), Span(start, at)), at

    def _separator(self, value_end: int, closing: str) -> tuple[bool, int]:
        """Step over what follows a value: tells whether the container ends there, and where reading goes on."""
        at = self._gap(value_end)
        comma = at
        has_comma = self.text.startswith(",", at)
        if has_comma:
            at = self._gap(at + 1)
        if self.text[at : at + 1] == closing:
            if has_comma:
                self._note("trailing-comma", comma, comma + 1)
            return True, at + len(closing)
        if not has_comma:
            self._note("missing-comma", value_end, value_end)
        return False, at

    def _key(self, at: int, closing: str, opener: int) -> tuple[str, Span, int]:
        text = self.text
        first = text[at : at + 1]
        if not first:
            raise unclosed(text, opener, closing, self._swallower)
        if first in "{}[],:":
            raise no_key(text, at, in_braces=closing != "")
        if first in ('"', "'"):
            key, end = self._string(at)
            if first == "'":
                self._note("single-quoted", at, end)
            return key, Span(at, end), end
        end = _end(_BARE_KEY, text, at)
        colon = _end(_BLANKS, text, end)
        if not text.startswith(":", colon):
            raise bad_key(text, at, end, colon)
        self._note("unquoted-key", at, end)
        key = text[at:end]
        return key.rstrip() if colon > end else key, Span(at, end), colon

    def _value(self, at: int, depth: int, opener: int, key: str | None) -> tuple[Node, int]:
        """Read the value of `key`, or a list item if that is None, inside what begins at `opener`."""
        first = self.text[at : at + 1]
        if first == '"':
            value, end = self._string(at)
            return Scalar(value, Span(at, end), self.text[at:end]), end
        if first == "'":
            if self.text.startswith("'''", at):
                return self._multiline(at)
            value, end = self._string(at)
            self._note("single-quoted", at, end)
            return Scalar(value, Span(at, end), self.text[at:end], "single-quoted"), end
        if first in ("{", "["):
            if depth > MAX_DEPTH:
                raise self._fault(
                    f"objects and lists are nested more than {MAX_DEPTH} levels deep",
                    "a ds_config is a few levels deep; check how this file was written",
                    at,
                    at + 1,
                )
            return self._object(at, depth) if first == "{" else self._array(at, depth)
        if not first and key is None:
            raise unclosed(self.text, opener, "]", self._swallower)
        if first in ",:]}":
            raise no_value(self.text, at, key)
        return self._unquoted(at)

    def _unquoted(self, at: int) -> tuple[Scalar, int]:
        text = self.text
        stop_match = _UNQUOTED_END.search(text, at)
        stop = stop_match.start() if stop_match else len(text)
        word = text[at:stop].strip()
        if word in _CONSTANTS and text.startswith(word, at):
            return Scalar(_CONSTANTS[word], Span(at, at + len(word)), word), stop
        if text[at] in "-0123456789":
            number = _NUMBER.match(text, at)
            if number and number.end() == stop:
                return Scalar(self._number(number), Span(at, at + len(word)), word), stop
        end = _end(_TO_LINE_END, text, at)
        value = text[at:end].strip()
        start = at + len(text[at:end]) - len(text[at:end].lstrip())
        span = Span(start, start + len(value))
        self._note("quoteless-string", span.start, span.end)
        if "}" in value or "]" in value:
            self._swallower = span
        return Scalar(value, span, value, "quoteless"), end

    def _number(self, match: re.Match[str]) -> int | float:
        integer, fraction, exponent = match.groups(default="")
        if fraction or exponent:
            number = float(integer + fraction + exponent)
            if math.isinf(number):
                message = f"the number {quote(match.group().strip())} is too large for a float"
                raise self._fault(message, "write a smaller number", *match.span())
            return int(number) if abs(number) < _FLOAT_KEPT_FROM and number.is_integer() else number
        try:
            if len(integer) <= _MAX_INT_DIGITS + integer.startswith("-"):
                return int(integer)
        except ValueError:  # a limit set lower for this interpreter
            pass
        message = f"the number has {len(integer.lstrip('-'))} digits, more than Python turns into an int"
        raise self._fault(message, "write a smaller number", *match.span())

    def _string(self, start: int) -> tuple[str, int]:
        text = self.text
        delimiter = text[start]
        run = _RUN[delimiter]
        chunks: list[str] = []
        at = start + 1
        while True:
            stop = _end(run, text, at)
            chunks.append(text[at:stop])
            mark = text[stop : stop + 1]
            if mark == delimiter:
                return "".join(chunks), stop + 1
            if mark in ("", "\n", "\r"):
                message = f"the text {quote(text[start + 1 : stop])} is not closed on its line"
                raise self._fault(message, f"put a {delimiter} at its end", start, stop)
            if mark != "\\":
                message = f"a control character (U+{ord(mark):04X}) stands inside quotes"
                raise self._fault(message, "remove it, or write a tab as \\t", stop, stop + 1)
            char, at = self._escape(stop)
            chunks.append(char)

    def _escape(self, at: int) -> tuple[str, int]:
        letter = self.text[at + 1 : at + 2]
        if letter in _ESCAPES:
            return _ESCAPES[letter], at + 2
        if letter != "u":
            raise self._fault(
                f"'{self.text[at : at + 2].rstrip()}' is not an escape that can stand inside quotes",
                "write \\\\ for a backslash, as in a Windows path",
                at,
                at + 2,
            )
        code = self._hex(at + 2)
        if code is None:
            raise self._fault("\\u is not followed by four hexadecimal digits", "write it as in \\u00e9", at, at + 6)
        end = at + 6
        if 0xD800 <= code < 0xDC00 and self.text.startswith("\\u", end):
            low = self._hex(end + 2)
            if low is not None and 0xDC00 <= low < 0xE000:
                return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)), end + 6
        if 0xD800 <= code < 0xE000:
            raise self._fault(
                f"{self.text[at:end]} is half of a surrogate pair and stands for no character",
                "write both halves, or the character itself",
                at,
                end,
            )
        return chr(code), end

    def _hex(self, at: int) -> int | None:
        digits = self.text[at : at + 4]
        if len(digits) < 4 or digits[1] in "xX":
            return None
        try:
            code = int(digits, 16)
        except ValueError:
            return None
        return code if code >= 0 else None

    def _multiline(self, start: int) -> tuple[Scalar, int]:
        text = self.text
        indent = self._column(start)
        at = _end(_INDENT, text, start + 3)
        close = text.find("'''", at)
        if close < 0:
            raise self._fault("the text that begins with ''' is never closed", "end it with '''", start, start + 3)
        first, *rest = text[at:close].replace("\r\n", "\n").replace("\r", "\n").split("\n")
        lines = [line[min(indent, _end(_INDENT, line, 0)) :] for line in rest]
        if first:
            lines.insert(0, first)
        if len(lines) > 1 and not lines[-1]:
            lines.pop()
        self._note("multiline-string", start, close + 3)
        return Scalar("\n".join(lines), Span(start, close + 3), text[start : close + 3], "multiline"), close + 3

    def _column(self, offset: int) -> int:
        """Return how far hjson thinks `offset` is from the line end before it: on line 1 its search wraps around."""
        if self._starts is None:
            self._starts = line_starts(self.text)
        line = bisect_right(self._starts, offset)
        if line > 1:
            return offset - self._starts[line - 1]
        if len(self._starts) == 1:
            raise self._fault(
                "DeepSpeed cannot read a ''' text in a file without any line end",
                'use "..." or end the file with an empty line',
                offset,
                offset + 3,
            )
        return offset + len(self.text) - self._starts[-1]

    def _gap(self, at: int) -> int:
        """Step over blanks and comments."""
        text = self.text
        while text[at : at + 1] in _GAP_STARTS:
            at = _end(_BLANKS, text, at)
            if text.startswith("/*", at):
                end = text.find("*/", at + 2) + 2
                if end < 2:
                    raise self._fault("the comment that begins with /* is never closed", "end it with */", at, at + 2)
            elif text.startswith(("#", "//"), at):
                end = _end(_TO_LINE_END, text, at)
            else:
                break
            self._note("comment", at, end)
            at = end
        return at

    def _note(self, kind: ExtensionKind, start: int, end: int) -> None:
        if kind not in self.extensions:
            self.extensions[kind] = Extension(kind, Span(start, end))

    def _fault(self, message: str, help: str, start: int, end: int) -> Unreadable:
        return unreadable(self.text, message, help, start, end)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at
