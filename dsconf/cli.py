"""The command line. Each command imports what it needs, so that `--version` and `--help` are instant."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dsconf import __version__

if TYPE_CHECKING:
    from dsconf.diagnostic import ConfigError, Diagnostic
    from dsconf.rules.rule import Context
    from dsconf.source import Document

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
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0, 1 (findings) or 2 (could not run)."""
    parser = _parser()
    options = parser.parse_args(arguments)
    command: Callable[[argparse.Namespace], int] | None = getattr(options, "command", None)
    if command is None:
        parser.print_help()
        return OK
    try:
        status = command(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough; what is left must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dsconf",
        description="Validate and compile DeepSpeed configurations.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dsconf {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    validate = commands.add_parser("validate", help="check configuration files")
    validate.add_argument("paths", nargs="*", metavar="FILE|DIR|-", help="files, folders, or - for standard input")
    validate.add_argument("--format", choices=("full", "concise", "json"), default="full")
    validate.add_argument(
        "--fail-on",
        choices=("error", "warning", "info", "never"),
        default="error",
        help="least severity that makes the exit status 1 (default: error)",
    )
    validate.add_argument("--show-info", action="store_true", help="also show notes")
    _add_context(validate)
    _add_color(validate)
    validate.set_defaults(command=_validate)

    explain = commands.add_parser("explain", help="explain a rule or a key")
    explain.add_argument("word", metavar="CODE|NAME|KEY")
    explain.set_defaults(command=_explain)

    presets = commands.add_parser("presets", help="list the presets, or print one")
    presets.add_argument("name", nargs="?", metavar="NAME")
    presets.set_defaults(command=_presets)

    compile_ = commands.add_parser("compile", help="write a checked configuration from presets and overrides")
    compile_.add_argument("preset", metavar="PRESET", help="a preset, or several with commas between them")
    compile_.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="a value for a key, or ~KEY to remove it")
    compile_.add_argument("-o", "--output", metavar="FILE", help="write there instead of to standard output")
    _add_world_size(compile_)
    _add_reader(compile_)
    _add_color(compile_)
    compile_.set_defaults(command=_compile)

    schema = commands.add_parser("schema", help="print the JSON Schema")
    schema.add_argument("--open", action="store_true", help="the one for editors, which lets unknown keys pass")
    schema.set_defaults(command=_schema)
    return parser


def _add_world_size(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--world-size", type=_positive, metavar="N", help="number of ranks that the job runs on")


def _add_reader(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for",
        dest="reader",
        choices=("deepspeed", "transformers", "accelerate", "lightning"),
        default="deepspeed",
        help="program that reads the file before DeepSpeed (default: none, DeepSpeed itself)",
    )
    parser.add_argument("--training-args", metavar="FILE", help="that program's own arguments, in JSON or YAML")


def _add_context(parser: argparse.ArgumentParser) -> None:
    _add_world_size(parser)
    _add_reader(parser)
    parser.add_argument(
        "--optimizer",
        choices=("config", "client", "none"),
        help="who brings the optimizer: the file, the script, nobody",
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), help="kind of accelerator")


def _add_color(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto")


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of ranks; write a whole number above 0")
    return value


def _complain(message: str) -> int:
    print(f"dsconf: {message}", file=sys.stderr)
    return FAILED


def _context(options: argparse.Namespace) -> Context | str:
    """What is known beside the file, or a line that says why not."""
    from dsconf.rules.rule import Context

    context = Context(
        world_size=options.world_size,
        optimizer=getattr(options, "optimizer", None),
        device=getattr(options, "device", None),
        reader=options.reader,
    )
    name: str | None = options.training_args
    if name is None:
        return context
    if options.reader == "deepspeed":
        return "--training-args needs to know whose they are; add --for transformers, accelerate or lightning"
    from dsconf.training_args import TrainingArgsError, read_training_args

    try:
        return replace(context, training_args=read_training_args(name), training_args_file=name)
    except TrainingArgsError as error:
        return str(error)
    except OSError as error:
        return f"{name}: {(error.strerror or str(error)).lower()}"
    except ValueError:
        return f"{name!r}: not a file name"


def _validate(options: argparse.Namespace) -> int:
    from dsconf.check import check
    from dsconf.render import Style, as_json, concise, full, summary

    context = _context(options)
    if isinstance(context, str):
        return _complain(context)
    style = Style(_wants_color(options.color))
    found: list[Diagnostic] = []
    files = failures = 0
    for document in _documents(options.paths or ["."]):
        if isinstance(document, str):
            failures += 1
            _complain(document)
            continue
        files += 1
        diagnostics = check(document, context).diagnostics
        found.extend(diagnostics)
        for item in diagnostics:
            if options.format != "json" and (item.severity != "info" or options.show_info):
                print(full(item, document, style) if options.format == "full" else concise(item))
    if options.format == "json":
        sys.stdout.write(as_json(found, files, __version__))
    elif options.format == "full" and files:
        print(summary(found, files, options.show_info))
    if failures:
        return FAILED
    return FINDINGS if _fails(found, options.fail_on) else OK


def _fails(diagnostics: Sequence[Diagnostic], threshold: str) -> bool:
    levels = {"error": ("error",), "warning": ("error", "warning"), "info": ("error", "warning", "info"), "never": ()}
    return any(item.severity in levels[threshold] for item in diagnostics)


def _documents(names: Sequence[str]) -> Iterator[Document | str]:
    """What was read, or a line that says why not."""
    from dsconf.files import configs_in
    from dsconf.source import read_bytes, read_file

    for name in names:
        path = Path(name)
        if name == "-":
            yield read_bytes(sys.stdin.buffer.read(_STDIN_LIMIT), "<stdin>")
        elif path.is_dir():
            configs = list(configs_in(path))
            if not configs:
                yield f"{name}: no DeepSpeed configuration in this directory; name a file"
            for config in configs:
                yield read_file(config)
        else:
            try:
                yield read_file(path)
            except OSError as error:
                yield f"{name}: {(error.strerror or str(error)).lower()}"
            except ValueError:
                yield f"{name!r}: not a file name"


#: One byte more than a file may have, so that too much of it is noticed and never held in memory.
_STDIN_LIMIT = (16 << 20) + 1


def _explain(options: argparse.Namespace) -> int:
    from dsconf.explain import explain, suggestion

    page = explain(options.word)
    if page is None:
        guess = suggestion(options.word)
        hint = f"did you mean {guess}?" if guess else "give the code or name of a rule, or a key"
        return _complain(f"nothing to explain about {options.word!r}; {hint}")
    print(page.rstrip("\n"))
    return OK


def _presets(options: argparse.Namespace) -> int:
    from dsconf import presets

    if options.name is None:
        width = max(map(len, presets.names()))
        for name in presets.names():
            print(f"{name:{width}}  {presets.summary(name)}")
        return OK
    try:
        sys.stdout.write(presets.text(options.name))
    except KeyError:
        return _complain(_no_preset(options.name))
    return OK


def _no_preset(name: str) -> str:
    from dsconf import presets
    from dsconf.rules.rule import close_match

    guess = close_match(name, presets.names())
    hint = f"did you mean {guess}?" if guess else f"there are {', '.join(presets.names())}"
    return f"no preset {name!r}; {hint}"


def _compile(options: argparse.Namespace) -> int:
    from dsconf.atomic import write_text
    from dsconf.compile import compile_text
    from dsconf.diagnostic import ConfigError
    from dsconf.overrides import OverrideError

    context = _context(options)
    if isinstance(context, str):
        return _complain(context)
    try:
        text = compile_text(options.preset, options.overrides, context)
    except KeyError as error:
        return _complain(_no_preset(str(error.args[0])))
    except OverrideError as error:
        return _complain(str(error))
    except ConfigError as error:
        _report_compilation(error, options)
        return FINDINGS
    if options.output is None:
        sys.stdout.write(text)
        return OK
    try:
        write_text(options.output, text)
    except OSError as error:
        return _complain(f"{options.output}: {(error.strerror or str(error)).lower()}")
    return OK


def _report_compilation(error: ConfigError, options: argparse.Namespace) -> None:
    """Name the override that each problem comes from, or the preset."""
    from dsconf.overrides import origin, parse
    from dsconf.render import Style, full
    from dsconf.source import Document

    overrides = [parse(text) for text in options.overrides]
    style = Style(_wants_color(options.color))
    for item in error.diagnostics:
        if item.severity != "info":
            culprit = origin((item.path, *(other.path for other in item.related)), overrides)
            place = f"override {culprit.text}" if culprit else f"preset {options.preset}: {item.pointer or '/'}"
            print(full(item, Document("", "", None, (), ()), style, origin=place), file=sys.stderr)


def _schema(options: argparse.Namespace) -> int:
    from dsconf.schema import committed

    sys.stdout.write(committed("open" if options.open else "closed"))
    return OK


def _wants_color(choice: str) -> bool:
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
