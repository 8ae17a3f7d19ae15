"""What `dsconf validate` knows of DeepSpeed's launcher: its files, and the options that give the number of ranks."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from dsconf.diagnostic import Diagnostic
    from dsconf.launcher import EnvFile, Hostfile
    from dsconf.source import Document

    #: A text, and what there is to say about it.
    Checked = tuple[Document, Sequence[Diagnostic]]

Read = TypeVar("Read")

_COUNTS = ("num_nodes", "num_gpus")
_TEXTS = ("include", "exclude", "launcher")


def add_launch(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("launch", "options of the `deepspeed` command, which give the number of ranks")
    group.add_argument("--hostfile", metavar="FILE", help="hosts and their slots")
    group.add_argument("--include", default="", metavar="HOST:SLOTS@...", help="only these")
    group.add_argument("--exclude", default="", metavar="HOST:SLOTS@...", help="not these")
    group.add_argument("--num-nodes", "--num_nodes", type=_count, metavar="N", help="only the first hosts")
    group.add_argument("--num-gpus", "--num_gpus", type=_count, metavar="N", help="slots of every host")
    group.add_argument("--launcher", default="pdsh", metavar="NAME", help="pdsh (default), openmpi, mpich, slurm...")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


class Launch(NamedTuple):
    """What was checked of the launch, and the `configs` named beside it.

    `world_size`: None where nothing was said about the launch, or what was said is wrong.
    """

    configs: Sequence[str]
    checked: Sequence[Checked] = ()
    world_size: int | None = None


def launched(options: argparse.Namespace) -> Launch | str:
    """What the launch options and the launcher's files come to, or a line that says why they cannot be read."""
    checked: list[Checked] = []
    configs: list[str] = []
    for name in options.paths:
        if (read := _reader(name)) is None:
            configs.append(name)
        elif isinstance(found := _read(name, read), str):
            return found
        else:
            checked.append((found.document, found.diagnostics))
    configs = configs if options.paths else ["."]
    if options.hostfile is None:
        given = [name for name in (*_COUNTS, "include", "exclude") if getattr(options, name)]
        if given:
            return f"--{given[0].replace('_', '-')} needs a --hostfile"
        return Launch(configs, checked)
    if options.world_size is not None:
        return "--world-size and --hostfile both say how many ranks there are; use one"
    from dsconf.launcher import Request, read_hostfile, resolve

    hostfile = _read(options.hostfile, read_hostfile)
    if isinstance(hostfile, str):
        return hostfile
    checked.append((hostfile.document, hostfile.diagnostics))
    if not any(item.severity == "error" for item in hostfile.diagnostics):
        asked = {name: getattr(options, name) for name in (*_COUNTS, *_TEXTS)}
        resources = resolve(Request(hostfile=hostfile, environment=os.environ, **asked))
        for document in resources.documents:
            name = document.filename
            checked.append((document, [item for item in resources.diagnostics if item.filename == name]))
        if not any(item.severity == "error" for item in resources.diagnostics):
            return Launch(configs, checked, resources.world_size)
    return Launch(configs, checked)


def _reader(name: str) -> Callable[[str, str], EnvFile | Hostfile] | None:
    """What reads a file of the launcher, known by its name; None for any other file."""
    folded = os.path.basename(name).lower()
    if "hostfile" in folded:
        from dsconf.launcher import read_hostfile

        return read_hostfile
    if folded.endswith((".env", "deepspeed_env")):
        from dsconf.launcher import read_env_file

        return read_env_file
    return None


def _read(name: str, read: Callable[[str, str], Read]) -> Read | str:
    from dsconf.files import reason

    try:
        with open(name, "rb") as file:
            return read(file.read().decode("utf-8", "replace"), name)
    except OSError as error:
        return f"{name}: {reason(error)}"
    except ValueError:
        return f"{name!r}: not a file name"
