"""What is known about the job around a file: one description per fact, for the command line and the library."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

#: Each fact that has no option of its own, with its values (those there are, a number above 0, or a pattern that the
#: text has) and what it says.
FACTS: dict[str, tuple[tuple[Any, ...] | type[int] | str, str]] = {
    "exports": ((True, False), "16-bit weights will be saved for use elsewhere"),
    "zero_init": ((True, False), "the script builds the model under deepspeed.zero.Init, before anything else"),
    "scheduler": (("config", "client"), "who brings the learning-rate schedule: the file or the script"),
    "autocast": ((True, False), "the script calls the engine inside torch.autocast of its own"),
    "model_dtype": (("float32", "float16", "bfloat16"), "type that the weights were trained in before"),
    "moe": ((True, False), "the model has mixture-of-experts layers"),
    "hidden_size": ((True, False), "the model's configuration has a hidden_size"),
    "loader_batch_size": (int, "batch size of the script's own data loader"),
    "ranks_per_node": (int, "ranks on each node"),
    "saved_stage": ((0, 1, 2, 3), "stage of ZeRO that the checkpoint to resume from was saved at"),
    "saved_precision": (("fp32", "fp16", "bf16"), "precision that this checkpoint was saved in"),
    "container": (r"[\w.]+", "class of the object that is handed to deepspeed.initialize, where it is not a dict"),
    "transformers": (r"\d+(\.\d+)+", "release of Transformers"),
}


#: How facts that are free text are written.
SHAPES = {"container": "the name of a class, such as DictConfig", "transformers": "a release, such as 4.44.2"}


class JobError(ValueError):
    """A fact that is not known, or a value that it cannot have; the text is for people."""


def parse_facts(texts: Iterable[str]) -> dict[str, Any]:
    """Facts written as `name=value`, checked.

    Raises:
        JobError: one of them cannot be understood.
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise JobError(f"{text!r} is not a fact about the job; write NAME=VALUE, such as zero_init=true")
        words: dict[str, Any] = {"true": True, "false": False}
        found[name] = words.get(value.lower(), int(value) if value.isdecimal() else value)
    return check_facts(found)


def check_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The same facts, each of them known and with a value that it can have.

    Raises:
        JobError: one of them is not.
    """
    from dsconf.rules.rule import close_match

    for name, value in facts.items():
        if name not in FACTS:
            guess = close_match(name, FACTS)
            raise JobError(
                f"nothing is known as {name!r} about a job; "
                + (f"did you mean {guess}?" if guess else f"there are {', '.join(FACTS)}")
            )
        values = FACTS[name][0]
        if isinstance(values, tuple):
            if not any(type(value) is type(item) and value == item for item in values):
                choices = " or ".join(str(item).lower() if isinstance(item, bool) else item for item in values)
                raise JobError(f"{name} is {value!r}; write {choices}")
        elif isinstance(values, str):
            if not isinstance(value, str) or not re.fullmatch(values, value):
                raise JobError(f"{name} is {value!r}; write {SHAPES[name]}")
        elif type(value) is not int or value < 1:
            raise JobError(f"{name} is {value!r}; write a whole number above 0")
    return dict(facts)
