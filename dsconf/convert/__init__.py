"""From the arguments of Accelerate, Transformers and Lightning to a ds_config, and back where that can be.

`draft.py` holds what converting leaves, one module for each program reads and writes its arguments. Which argument
becomes which key stands in `dsconf.readers`, where the rules read it too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from dsconf.check import check
from dsconf.convert.draft import ConvertError, Draft, Remark, Section, place_in, readable
from dsconf.diagnostic import Diagnostic
from dsconf.overrides import apply, parse
from dsconf.readers import PROFILES
from dsconf.rules.rule import Context
from dsconf.source import Document, Object, from_python, plain

Program = Literal["accelerate", "transformers", "lightning"]

__all__ = ["ConvertError", "Converted", "Program", "Remark", "from_config", "to_config"]


@dataclass(frozen=True, slots=True)
class Converted:
    """What came of converting.

    `diagnostics`: what the rules say, each with the document that it is about (None: the result) and, for the result,
    where the value came from.
    """

    values: dict[str, Any]
    remarks: tuple[Remark, ...] = ()
    diagnostics: tuple[tuple[Diagnostic, Document | None, str], ...] = ()

    @property
    def sound(self) -> bool:
        """Whether there is no error, so that the result may be written."""
        items = (*self.remarks, *(item for item, _, _ in self.diagnostics))
        return all(item.severity != "error" for item in items)


def to_config(
    document: Document, program: Program, overrides: Iterable[str] = (), *, world_size: int | None = None
) -> Converted:
    """The ds_config that a program's arguments come to; `overrides` (`key=value`) go over it.

    Arguments that contradict the ds_config that they name are among the diagnostics, at the place of the key and with
    the place of the argument.

    Raises:
        ConvertError: the arguments cannot be converted at all.
        OverrideError: an override cannot be read or applied.
    """
    draft = _draft(document, program, world_size)
    context = Context(reader=program, world_size=world_size)
    told = context.with_training_args(document)
    found: list[tuple[Diagnostic, Document | None, str]] = []
    if draft.base is not None:
        found += [(item, draft.base, "") for item in check(draft.base, told).diagnostics]
    for text in overrides:
        override = parse(text)
        apply(override, draft.values)
        draft.origins[override.path] = f"override {text}"
    contradicted = any(item.severity == "error" for item, _, _ in found)
    if not contradicted and all(item.severity != "error" for item in draft.remarks):
        result = Document("", "", cast(Object, from_python(draft.values)), (), ())
        # The arguments that become this file are not given beside it any more, except to the Trainer, which compares.
        known = told if program == "transformers" else context
        for item in check(result, known).diagnostics:
            if draft.base is None or item.severity == "error":
                place = draft.origin(item.path) or f"{document.filename}: {item.pointer or '/'}"
                found.append((item, None, place))
    return Converted(draft.values, tuple(draft.remarks), tuple(found))


def from_config(document: Document, program: Program, *, world_size: int | None = None) -> Converted:
    """The arguments that come to a ds_config; each key that they cannot say is an error among the remarks.

    Raises:
        ConvertError: the file cannot be read.
    """
    from dsconf.convert import accelerate, lightning, transformers
    from dsconf.convert.effect import effective, settings
    from dsconf.resolve import differences

    values = cast("dict[str, Any]", plain(readable(document)))
    if program == "transformers":
        arguments = transformers.write(values, document.filename)
        told = Context(reader=program, world_size=world_size, training_args=arguments)
        return Converted(arguments, (), tuple((item, document, "") for item in check(document, told).diagnostics))
    module = accelerate if program == "accelerate" else lightning
    ours = effective(values)
    arguments = accelerate.write(ours, world_size) if program == "accelerate" else lightning.write(ours)
    back = _draft(Document(os.devnull, "", cast(Object, from_python(arguments)), (), ()), program, world_size)
    overwritten = {item.path for item in PROFILES[program].overrides}
    remarks = [
        Remark("error", place_in(document, item.path), f"{module.lost(item.path)}; {module.REST}")
        for item in differences(settings(_counted(values)), settings(_counted({**back.values, **back.adds})))
        if item.path not in overwritten
    ]
    return Converted(arguments, tuple(remarks))


def _counted(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the one micro batch in a step that counts where nothing else says how many."""
    return {"gradient_accumulation_steps": 1, **values} if "train_batch_size" not in values else values


def _draft(document: Document, program: Program, world_size: int | None) -> Draft:
    from dsconf.convert import accelerate, lightning, transformers

    top = Section(document, readable(document))
    if program == "accelerate":
        return accelerate.read(top)
    if program == "transformers":
        return transformers.read(top, world_size)
    return lightning.read(top)
