"""The command line: one module per command. Each imports what it needs when it runs, so that `--help` is instant."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from dsconf import __version__
from dsconf.cli import compile, completion, convert, explain, lsp, plan, presets, resolve, schema, upgrade, validate
from dsconf.cli.options import OK, CannotRun, complain

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

_COMMANDS = (validate, explain, presets, compile, plan, schema, resolve, upgrade, convert, completion, lsp)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0, 1 (findings) or 2 (could not run)."""
    parser = command_line()
    options = parser.parse_args(arguments)
    command: Callable[[argparse.Namespace], int] | None = getattr(options, "command", None)
    if command is None:
        parser.print_help()
        return OK
    try:
        status = command(options)
        sys.stdout.flush()
    except CannotRun as error:
        return complain(str(error))
    except BrokenPipeError:
        # The reader has seen enough; what is left must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    return status


def command_line() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="dsconf",
        description="Validate and compile DeepSpeed configurations.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dsconf {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in _COMMANDS:
        command.register(commands)
    return parser
