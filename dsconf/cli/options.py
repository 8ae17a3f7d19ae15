"""What several commands share: statuses, options, and the context that options describe."""

from __future__ import annotations

import argparse
import os
import sys

from dsconf.cli import FAILED, FINDINGS, OK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dsconf.report.output import Style
    from dsconf.rules.rule import Context

__all__ = ["FAILED", "FINDINGS", "OK"]


class CannotRun(Exception):
    """A command cannot do what it was asked; the text is for people."""


def add_world_size(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--world-size", type=positive, metavar="N", help="number of ranks that the job runs on")


def add_reader(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for",
        dest="reader",
        choices=("deepspeed", "transformers", "accelerate", "lightning"),
        default="deepspeed",
        help="program that reads the file before DeepSpeed (default: none, DeepSpeed itself)",
    )
    parser.add_argument("--training-args", metavar="FILE", help="that program's own arguments, in JSON or YAML")


def add_context(parser: argparse.ArgumentParser) -> None:
    add_world_size(parser)
    add_reader(parser)
    parser.add_argument(
        "--optimizer",
        choices=("config", "client", "none"),
        help="who brings the optimizer: the file, the script, nobody",
    )
    parser.add_argument(
        "--deepspeed",
        metavar="RELEASE",
        help="DeepSpeed release: 0.14.4, installed, or a range such as 0.12..0.19 (default: the newest known)",
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), help="kind of accelerator")
    parser.add_argument(
        "--job",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="something else about the job, such as zero_init=true; `dsconf explain job` lists what counts",
    )


def add_color(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="auto (the default) asks NO_COLOR, FORCE_COLOR and the terminal",
    )


def positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of ranks; write a whole number above 0")
    return value


def complain(message: str) -> int:
    print(f"dsconf: {message}", file=sys.stderr)
    return FAILED


#: What says that memory is to be judged.
_MEMORY = ("params", "model", "largest_layer", "gpu_memory", "host_memory")


def context(options: argparse.Namespace) -> Context:
    """What is known beside the file.

    Raises:
        CannotRun: the options cannot be true together, or a file that they name cannot be used.
    """
    from dsconf.job import JobError, parse_facts
    from dsconf.rules.rule import Context

    try:
        facts = parse_facts(getattr(options, "job", []))
    except JobError as error:
        raise CannotRun(f"--job: {error}") from None
    named = getattr(options, "deepspeed", None)
    if named is not None:
        from dsconf.releases import ReleaseError, parse

        try:
            facts["deepspeed"] = parse(named)
        except ReleaseError as error:
            raise CannotRun(f"--deepspeed: {error}") from None
    context = Context(
        world_size=options.world_size,
        optimizer=getattr(options, "optimizer", None),
        device=getattr(options, "device", None),
        reader=options.reader,
        **facts,
    )
    if any(getattr(options, name, None) is not None for name in _MEMORY):
        from dsconf.cli.memory import described_model
        from dsconf.memory.model import ModelError

        try:
            model = described_model(options)
        except ModelError as error:
            raise CannotRun(str(error)) from None
        if model is None and (options.gpu_memory or options.host_memory):
            hint = "without a model, of memory only the buckets are judged; add --params 7e9 or --model DIR"
            print(f"dsconf: {hint}", file=sys.stderr)
        context = context._replace(
            model=model, gpu_memory_bytes=options.gpu_memory, host_memory_bytes=options.host_memory
        )
    name: str | None = options.training_args
    if name is None:
        return context
    if options.reader == "deepspeed":
        raise CannotRun("--training-args needs to know whose they are; add --for transformers, accelerate or lightning")

    from dsconf.files import reason
    from dsconf.training_args import TrainingArgsError, read_training_args

    try:
        return context.with_training_args(read_training_args(name))
    except TrainingArgsError as error:
        raise CannotRun(str(error)) from None
    except OSError as error:
        raise CannotRun(f"{name}: {reason(error)}") from None
    except ValueError:
        raise CannotRun(f"{name!r}: not a file name") from None


def style(color: str) -> Style:
    """How to print, by the flag, else by the environment, else by the terminal."""
    from dsconf.report.output import Style

    colored = _wants_color(color)
    return Style(color=colored, links=colored and sys.stdout.isatty() and _knows_links())


def _wants_color(choice: str) -> bool:
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR") or os.environ.get("CLICOLOR_FORCE"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


#: Variables by which terminals that show OSC 8 links are known.
_LINKING = ("WT_SESSION", "KITTY_WINDOW_ID", "VTE_VERSION", "KONSOLE_VERSION", "ALACRITTY_WINDOW_ID", "WEZTERM_PANE")
_LINKING_PROGRAMS = ("iTerm.app", "vscode", "WezTerm", "ghostty", "Hyper")


def _knows_links() -> bool:
    forced = os.environ.get("FORCE_HYPERLINK")
    if forced:
        return forced != "0"
    return os.environ.get("TERM_PROGRAM") in _LINKING_PROGRAMS or any(map(os.environ.get, _LINKING))
