"""How long `dsconf validate` takes on one file, beside the least Pydantic program and check-jsonschema; how long the
commands that only print something take, beside a Python that does nothing.

    python benchmarks/validate.py [RUNS]

Runs every command in turn, RUNS times (default 15), and prints the median of each and of the ratios, run by run.
check-jsonschema must be installed; it gets the published closed schema and the same file.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dsconf import compile_config
from dsconf.resources import folder
from dsconf.schema import FILES

EMPTY = "python -c pass"

#: The least that a Pydantic program does: import, one model with one field, one file.
PROGRAM = """
import sys
from pydantic import BaseModel
class Config(BaseModel, extra="ignore"):
    train_micro_batch_size_per_gpu: int
Config.model_validate_json(open(sys.argv[1]).read())
"""


def commands(file: Path) -> dict[str, list[str]]:
    """The commands that are compared, the one of interest first."""
    python = sys.executable
    return {
        "dsconf validate": [python, "-m", "dsconf", "validate", str(file)],
        EMPTY: [python, "-c", "pass"],
        "one-field Pydantic program": [python, "-c", PROGRAM, str(file)],
        "check-jsonschema": [
            python,
            "-m",
            "check_jsonschema",
            "--schemafile",
            str(folder("schemas") / FILES["closed"]),
            str(file),
        ],
    }


def printing() -> dict[str, list[str]]:
    """The commands that print something and read no configuration."""
    dsconf = [sys.executable, "-m", "dsconf"]
    words = {"--version": ["--version"], "--help": ["--help"], "explain": ["explain", "DS301"]}
    return {f"dsconf {name}": [*dsconf, *arguments] for name, arguments in words.items()}


def seconds(command: list[str], directory: str) -> float:
    """Wall time of a command as a whole process, in a directory that is nobody's project."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=directory)
    return time.perf_counter() - start


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "ds_config.json"
        compile_config("zero3_offload").write(file)
        compared = {**commands(file), **printing()}
        for command in compared.values():
            seconds(command, directory)
        times = {name: list[float]() for name in compared}
        for _ in range(runs):
            for name, command in compared.items():
                times[name].append(seconds(command, directory))
    first, *peers = commands(file)
    for name, values in times.items():
        print(f"{name:32} {statistics.median(values) * 1000:7.0f} ms")
    for peer in peers:
        ratio = statistics.median(a / b for a, b in zip(times[first], times[peer], strict=True))
        print(f"{first} / {peer}: {ratio:.2f}")
    for name in printing():
        ratio = statistics.median(a / b for a, b in zip(times[name], times[EMPTY], strict=True))
        print(f"{name} / {EMPTY}: {ratio:.2f}")


if __name__ == "__main__":
    main()
