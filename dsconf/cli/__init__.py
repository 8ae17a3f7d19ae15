"""The command line: one module per command, imported when its command is called, so that `--help` is instant."""

from __future__ import annotations

import atexit
import gc
import sys

from dsconf import __version__

# The module `typing` takes longer to import than the rest of what `--version` needs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

#: Exit statuses: nothing to say, findings, could not run.
OK, FINDINGS, FAILED = 0, 1, 2

_EXAMPLES = """\
examples:
  dsconf validate ds_config.json                  check one file
  dsconf validate --world-size 8 configs/         check a folder for 8 ranks
  dsconf validate --for transformers --training-args args.yaml ds_config.json
  dsconf explain DS301                            what a rule means
  dsconf explain reduce_bucket_size               what a key means
  dsconf compile zero3_offload -o ds_config.json  write a checked file
  dsconf compile zero2,fp16 train_micro_batch_size_per_gpu=4
  dsconf plan --params 7e9 --gpus-per-node 8 --gpu-memory 80GiB --host-memory 1TiB
"""

#: Each command, with what it does; the module of that name registers its options when it is called.
COMMANDS = {
    "validate": "check configuration files",
    "explain": "explain a rule or a key",
    "presets": "list the presets, or print one",
    "compile": "write a checked configuration from presets and overrides",
    "plan": "say what fits before the job starts, and which preset to take",
    "schema": "print the JSON Schema",
    "resolve": "show the effective configuration, with the origin of every value",
    "diff": "show what differs in effect between two files or presets",
    "upgrade": "rewrite a file for another DeepSpeed release",
    "convert": "turn a trainer's arguments into a ds_config.json, or back",
    "completion": "print a script that completes commands, options, rules, keys and presets",
    "lsp": "be a language server on standard input and output",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0, 1 (findings) or 2 (could not run)."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words == ["--version"]:
        print(f"dsconf {__version__}")
        return OK
    # What is imported stays: looking through it for garbage only takes time, at the end above all.
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)
    parser = command_line(words[0] if words else "")
    options = parser.parse_args(words)
    command: Callable[[argparse.Namespace], int] | None = getattr(options, "command", None)
    if command is None:
        parser.print_help()
        return OK
    from dsconf.cli.options import CannotRun, complain

    try:
        status = command(options)
        sys.stdout.flush()
    except CannotRun as error:
        return complain(str(error))
    except BrokenPipeError:
        import os

        # The reader has seen enough; what is left must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    return status


def command_line(first: str | None = None) -> argparse.ArgumentParser:
    """The parser of the whole command line, or of what matters when `first` is the first word on it."""
    import argparse
    from importlib import import_module

    def formatter(prog: str) -> argparse.HelpFormatter:
        return argparse.RawDescriptionHelpFormatter(prog, width=_columns() - 2)

    parser = argparse.ArgumentParser(
        prog="dsconf",
        description="Validate and compile DeepSpeed configurations.",
        epilog=_EXAMPLES,
        formatter_class=formatter,
    )
    parser.add_argument("--version", action="version", version=f"dsconf {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, does in COMMANDS.items():
        if first in COMMANDS and name != first:
            continue
        command = commands.add_parser(name, help=does, formatter_class=formatter)
        if first in (None, name):
            import_module(f"dsconf.cli.{name}").register(command)
    return parser


def _columns() -> int:
    """The width of the terminal, found without what argparse would import for it."""
    import os

    told = os.environ.get("COLUMNS", "")
    if told.isdigit() and int(told) > 0:
        return int(told)
    try:
        return (os.get_terminal_size(sys.__stdout__.fileno()).columns if sys.__stdout__ else 0) or 80
    except (OSError, ValueError):
        return 80
