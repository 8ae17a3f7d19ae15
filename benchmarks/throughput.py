"""How many configurations a second dsconf validates in one warm process, beside DeepSpeed's parser and jsonschema.

    python benchmarks/throughput.py [FILE|DIR]...

The files (default: what the rules show as right, written out) are validated from disk again and again, the three taking
turns; the median of the ratios is printed. DeepSpeed only parses: it knows no places and checks few relations.
jsonschema gets the published closed schema and reads plain JSON.
"""

from __future__ import annotations

import json
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dsconf.check import check
from dsconf.files import configs_in
from dsconf.rules import RULES
from dsconf.schema import committed
from dsconf.source import read_file

ROUNDS = 9


def peers() -> dict[str, Callable[[Path], object]]:
    """What is compared, the one of interest first."""
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    import deepspeed
    import jsonschema
    from deepspeed.runtime.config import DeepSpeedConfig

    deepspeed.utils.logger.setLevel(logging.CRITICAL)
    validator: Any = jsonschema.Draft7Validator(json.loads(committed("closed")))
    return {
        "dsconf": lambda file: check(read_file(file)),
        "DeepSpeedConfig": lambda file: DeepSpeedConfig(str(file)),
        "jsonschema": lambda file: list(validator.iter_errors(json.loads(file.read_text(encoding="utf-8")))),
    }


def readable(files: list[Path], compared: dict[str, Callable[[Path], object]]) -> list[Path]:
    """Those files that all of them get to an end with."""
    kept: list[Path] = []
    for file in files:
        try:
            for run in compared.values():
                run(file)
        except Exception:
            continue
        kept.append(file)
    return kept


def seconds(run: Callable[[Path], object], files: list[Path]) -> float:
    start = time.perf_counter()
    for file in files:
        run(file)
    return time.perf_counter() - start


def main() -> None:
    compared = peers()
    with tempfile.TemporaryDirectory() as directory:
        files = [
            file for name in sys.argv[1:] for file in (configs_in(Path(name)) if Path(name).is_dir() else [Path(name)])
        ]
        if not files:
            for rule in RULES:
                (Path(directory) / f"{rule.code}.json").write_text(rule.example("good"), encoding="utf-8")
            files = sorted(Path(directory).iterdir())
        files = readable(files, compared)
        times = {name: list[float]() for name in compared}
        for _ in range(ROUNDS):
            for name, run in compared.items():
                times[name].append(seconds(run, files))
    first, *others = times
    for name, values in times.items():
        print(f"{name:16} {len(files) / statistics.median(values):8.0f} files a second")
    for other in others:
        ratio = statistics.median(b / a for a, b in zip(times[first], times[other], strict=True))
        print(f"{first} / {other}: {ratio:.2f} times as many")


if __name__ == "__main__":
    main()
