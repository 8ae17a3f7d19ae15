"""What to tell people about a text that breaks the grammar: the usual slips, each with its place and its remedy."""

from __future__ import annotations

import json
import re

from dsconf.source.document import Fault
from dsconf.source.tree import Span

_SPACED_KEY = r"[^:={}\[\],\r\n]*(?=:)"
_PLACEHOLDER = r"\{\{.*?\}\}|\{%.*?%\}|\$\{.*?\}|<[A-Za-z_][^<>]*>"
# Enough of a line to look for placeholders in; a file can be a single line of megabytes.
_LOOKED_AT = 2000


class Unreadable(Exception):
    """The text breaks the grammar."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def unreadable(text: str, message: str, help: str, start: int, end: int) -> Unreadable:
    """Return the fault from `start` to `end`, as something to raise; its help names a placeholder left on the line."""
    line_start = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start), start - _LOOKED_AT) + 1
    line = re.split(r"[\r\n]", text[line_start : start + _LOOKED_AT], maxsplit=1)[0]
    placeholder = re.search(_PLACEHOLDER, line)
    if placeholder:
        help += f"; {quote(placeholder.group())} looks like a template's placeholder: fill the template in first"
    return Unreadable(Fault(message, help, Span(start, min(max(start, end), len(text)))))


def quote(text: str) -> str:
    """Return the text in double quotes, shortened where it is long."""
    return json.dumps(text if len(text) <= 40 else text[:39] + "…", ensure_ascii=False)


def not_an_object(text: str, what: str, start: int, end: int) -> Unreadable:
    """The file holds a list or a scalar."""
    help = 'write the settings in braces: {"train_batch_size": 8}'
    return unreadable(text, f"the file holds {what}; a ds_config is an object", help, start, end)


def after_the_end(text: str, at: int, line_end: int) -> Unreadable:
    """Something other than blanks and comments stands at `at`, after the root object."""
    if text[at] in "}]":
        message = f"this '{text[at]}' closes nothing: the config has already ended"
        return unreadable(text, message, "remove it", at, at + 1)
    help = "check for a '}' too many before it; a ds_config is one object and nothing after it"
    return unreadable(text, "there is text after the end of the config", help, at, line_end)


def no_colon(text: str, key: str, span: Span, at: int) -> Unreadable:
    """Not a ':' but something else stands at `at`, after a key."""
    name = key.rstrip().rstrip(":")
    if name != key.rstrip():
        message = f"the closing quote of the key {quote(name)} is missing"
        return unreadable(text, message, f"write {quote(name)}:", span.start, span.end)
    help = f"write {quote(key)}: followed by its value"
    if text.startswith("=", at):
        return unreadable(text, f"'=' stands where ':' belongs, after the key {quote(key)}", help, at, at + 1)
    return unreadable(text, f"a ':' is missing after the key {quote(key)}", help, span.start, span.end)


def no_key(text: str, at: int, in_braces: bool) -> Unreadable:
    """A punctuator stands at `at`, where a key or the end of the object belongs."""
    mark = text[at]
    if mark == ":":
        message, help = "there is no key before this ':'", 'write a key in quotes before it: "key":'
    elif mark == ",":
        message, help = "there is a ',' too many", "remove it"
    elif mark in "{[":
        message, help = f"a key is missing before this '{mark}'", 'write "key": before it'
    elif in_braces:
        message, help = f"this '{mark}' stands in an object that is still open", "close the object with '}' first"
    else:
        message, help = f"this '{mark}' closes nothing", "remove it, or put a '{' at the start of the file"
    return unreadable(text, message, help, at, at + 1)


def bad_key(text: str, at: int, end: int, next_at: int) -> Unreadable:
    """A key without quotes spans `at` to `end`, but not a ':' stands after it at `next_at`."""
    word = text[at:end]
    name, equals, _ = word.partition("=")
    if equals and name:
        return no_colon(text, name, Span(at, at + len(name)), at + len(name))
    spaced = re.compile(_SPACED_KEY).match(text, at)
    if spaced and spaced.end() > end:
        key = spaced.group().rstrip()
        help = f"put the key in quotes, or give {quote(word)} a value first"
        return unreadable(text, f"the key {quote(key)} has blanks in it and no quotes", help, at, at + len(key))
    return no_colon(text, word, Span(at, end), next_at)


def no_value(text: str, at: int, key: str | None) -> Unreadable:
    """A punctuator or the end stands at `at`, where the value of `key`, or a list item if that is None, belongs."""
    mark = text[at : at + 1]
    if key is not None and mark == ":":
        message, help = f"there is a ':' too many after the key {quote(key)}", "remove it"
    elif key is not None:
        message, help = f"the key {quote(key)} has no value", f"write a value after {quote(key)}: or remove the key"
    elif mark == ",":
        message, help = "a list item is missing before this ','", "remove the ','"
    elif mark == ":":
        message, help = "a ':' cannot stand in a list", "write keys and values in braces: {...}"
    else:
        message, help = f"this '{mark}' stands in a list that is still open", "close the list with ']' first"
    return unreadable(text, message, help, at, at + 1)


def unclosed(text: str, opener: int, closing: str, swallower: Span | None) -> Unreadable:
    """The text ends inside what begins at `opener`; `swallower` is a quoteless string that may have taken its end."""
    if swallower and swallower.start > opener and closing in text[swallower.start : swallower.end]:
        message = f"a text without quotes runs to the end of its line and takes the '{closing}' with it"
        return unreadable(text, message, "put the value in quotes", swallower.start, swallower.end)
    help = f"add a '{closing}' where it should end; the file ends with it still open"
    return unreadable(text, f"this '{text[opener]}' is never closed", help, opener, opener + 1)
