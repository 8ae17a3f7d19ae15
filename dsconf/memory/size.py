"""Sizes as people write them: counts, bytes and fractions, read strictly."""

from __future__ import annotations

import re

_NUMBER = r"(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
_COUNT = re.compile(_NUMBER + r"\s*([kKMBGT]?)\Z")
_BYTES = re.compile(_NUMBER + r"\s*([A-Za-z]*)\Z")
_FRACTION = re.compile(_NUMBER + r"\s*(%?)\Z")

_THOUSANDS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "B": 10**9, "G": 10**9, "T": 10**12}
_UNITS = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}

#: More than any model or machine has; what is above is a slip.
_MOST_PARAMETERS = 10**15
_MOST_BYTES = 10**18


class SizeError(ValueError):
    """A size that cannot be read, or that nothing has; the text is for people."""


def parse_count(text: str) -> int:
    """A number of parameters: `7e9`, `7B`, `125M`, `6738415616`.

    Raises:
        SizeError: it is something else, or not between 1 and 1e15.
    """
    match = _COUNT.match(text.strip())
    if not match:
        raise SizeError(f"{text!r} is not a number of parameters; write 7e9, 7B, 125M or all its digits")
    value = _scaled(match[1], _THOUSANDS[match[2]])
    if value is None or value != int(value):
        raise SizeError(f"{text!r} is not a whole number of parameters")
    if not 1 <= value <= _MOST_PARAMETERS:
        raise SizeError(f"{text!r}: a model has between 1 and 1e15 parameters")
    return int(value)


def parse_bytes(text: str) -> int:
    """A number of bytes, unit included: `80GiB`, `512GB`, `1.5TiB`.

    Raises:
        SizeError: it is something else, has no unit, or is zero or beyond any machine.
    """
    match = _BYTES.match(text.strip())
    if not match:
        raise SizeError(f"{text!r} is not a size; write a number and a unit, such as 80GiB")
    if not match[2]:
        raise SizeError(f"{text!r} has no unit; write {text.strip()}GiB, or whichever unit is meant")
    unit = _UNITS.get(match[2])
    if unit is None:
        close = next((name for name in _UNITS if name.lower() in (match[2].lower(), match[2].lower() + "b")), None)
        hint = f"did you mean {match[1]}{close}?" if close else f"there are {', '.join(_UNITS)}"
        raise SizeError(f"{text!r}: no unit {match[2]!r}; {hint}")
    value = _scaled(match[1], unit)
    if value is None or not 1 <= value <= _MOST_BYTES:
        raise SizeError(f"{text!r}: no memory has that size")
    return int(value)


def parse_fraction(text: str) -> float:
    """A share of the whole, above 0 and at most 1: `0.5%`, `0.005`, `100%`.

    Raises:
        SizeError: it is something else.
    """
    match = _FRACTION.match(text.strip())
    if not match:
        raise SizeError(f"{text!r} is not a share; write 0.5% or 0.005")
    value = float(match[1]) / (100 if match[2] else 1)
    if not 0 < value <= 1:
        raise SizeError(f"{text!r}: a share is above 0 and at most 1 (100%)")
    return value


def show_bytes(size_bytes: float) -> str:
    """A size for people, in binary units: `12.3 GiB`."""
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(size_bytes) >= (size if unit != "TiB" else 10 * size):
            return f"{size_bytes / size:,.1f} {unit}"
    return f"{size_bytes:.0f} B"


def show_count(count: int) -> str:
    """A number of parameters for people: `6.74B`."""
    for unit, size in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.2f}{unit}"
    return str(count)


def _scaled(number: str, scale: int) -> float | None:
    """The product, exact where a float would round; None beyond all bounds."""
    try:
        value = float(number) * scale
        return (
            int(number) * scale if number.isdecimal() else round(value) if abs(value - round(value)) < 1e-6 else value
        )
    except (OverflowError, ValueError):
        return None
