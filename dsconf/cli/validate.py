"""`dsconf validate`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dsconf.cli.launch import add_launch, launched
from dsconf.cli.memory import add_memory, add_model
from dsconf.cli.options import FAILED, FINDINGS, OK, CannotRun, add_color, add_context, complain, context, style
from dsconf.cli.progress import Progress

if TYPE_CHECKING:
    from pathlib import Path

    from dsconf.baseline import Baseline
    from dsconf.diagnostic import Diagnostic, Severity
    from dsconf.many import Checked
    from dsconf.rules.rule import Context
    from dsconf.source import Document
    from dsconf.suppress import Suppressions

_EXAMPLES = """\
examples:
  dsconf validate                                   every configuration in this folder
  dsconf validate --world-size 8 configs/           batch sizes checked for 8 ranks
  dsconf validate --for transformers --training-args args.yaml ds_config.json
  dsconf validate --job zero_init=true ds_config.json
  dsconf validate --format github --fail-on warning configs/
  cat ds_config.json | dsconf validate --stdin-filename ds_config.json -
"""


def register(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="FILE|DIR|-",
        help="configurations, hostfiles, environment files (.deepspeed_env), folders, or - for standard input",
    )
    parser.add_argument(
        "--format",
        choices=("full", "concise", "json", "jsonl", "github", "sarif", "junit"),
        default="full",
        help="for people: full, concise; for programs: json, jsonl; for CI: github, sarif, junit (default: full)",
    )
    parser.add_argument("--stdin-filename", metavar="NAME", default="<stdin>", help="what to call standard input")
    parser.add_argument(
        "--fail-on",
        choices=("error", "warning", "info", "never"),
        default="error",
        help="least severity that makes the exit status 1 (default: error)",
    )
    parser.add_argument("--show-info", action="store_true", help="also show notes")
    for flag, words in (("--select", "only these rules"), ("--ignore", "not these rules")):
        parser.add_argument(flag, action="append", default=[], metavar="RULE", help=f"{words}, by code or name")
    parser.add_argument("--baseline", metavar="FILE", help="report only what is not in this record of earlier findings")
    parser.add_argument("--write-baseline", metavar="FILE", help="record the findings, and fail on none of them")
    parser.add_argument(
        "--fix", action="store_true", help="carry out the safe fixes and leave the rest of a file alone"
    )
    parser.add_argument(
        "--unsafe-fixes", action="store_true", help="with --fix or --diff: also those that can change what is trained"
    )
    parser.add_argument("--diff", action="store_true", help="show what --fix would change, and write nothing")
    add_context(parser)
    add_launch(parser)
    memory = parser.add_argument_group("memory", "whether a model fits; give --world-size too")
    add_model(memory)
    add_memory(memory)
    add_color(parser)
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from dsconf.files import reason
    from dsconf.report import Output, report
    from dsconf.suppress import SuppressError, suppressions

    known = context(options)
    try:
        decided = suppressions(_split(options.select), _split(options.ignore))
        baseline = _baseline(options)
    except SuppressError as error:
        return complain(str(error))
    except OSError as error:
        return complain(f"{error.filename}: {reason(error)}")
    fails = _LEVELS[options.fail_on]
    if options.unsafe_fixes and not (options.fix or options.diff):
        return complain("--unsafe-fixes goes with --fix or --diff")
    # Where standard output is the fixed text or a patch, what there is to say goes elsewhere.
    aside = options.diff or (options.fix and "-" in options.paths)
    first, last = known.deepspeed[0], known.deepspeed[-1]
    judged = first if first == last else f"{first}..{last}"
    output = Output((sys.stderr if aside else sys.stdout).write, style(options.color), options.show_info, fails, judged)
    shown = report(options.format, output)
    progress = Progress()
    found = failures = 0
    launch = launched(options)
    if isinstance(launch, str):
        return complain(launch)
    if launch.world_size is not None:
        known = known._replace(world_size=launch.world_size)
    for document, everything in launch.checked:
        diagnostics = _new(baseline, document, decided.keep(document, everything))
        found += sum(item.severity in fails for item in diagnostics)
        shown.add(document, diagnostics)
    for checked in _checked(launch.configs, options.stdin_filename, known):
        progress.advance()
        if isinstance(checked, str):
            progress.clear()
            failures += 1
            complain(checked)
            continue
        document, diagnostics = checked
        if options.fix or options.diff:
            outcome = _fixed(document, known, options, decided)
            if isinstance(outcome, str):
                failures += 1
                complain(outcome)
                continue
            document, diagnostics = outcome
        diagnostics = _new(baseline, document, decided.keep(document, diagnostics))
        found += sum(item.severity in fails for item in diagnostics)
        if diagnostics:
            progress.clear()
        shown.add(document, diagnostics)
    progress.clear()
    shown.end()
    for line in decided.stale():
        print(f"dsconf: {line}", file=sys.stderr)
    if failures:
        return FAILED
    if baseline and options.write_baseline:
        try:
            count = baseline.write()
        except OSError as error:
            return complain(f"{options.write_baseline}: {reason(error)}")
        print(f"dsconf: {options.write_baseline}: {count} finding{'s' * (count != 1)} recorded", file=sys.stderr)
        return OK
    for line in baseline.stale() if baseline else ():
        print(f"dsconf: {line}", file=sys.stderr)
    return FINDINGS if found else OK


def _baseline(options: argparse.Namespace) -> Baseline | None:
    if not (options.baseline or options.write_baseline):
        return None
    from dsconf.baseline import Baseline, BaselineError, read

    if options.baseline and options.write_baseline:
        raise CannotRun("--baseline and --write-baseline do not go together")
    if options.write_baseline:
        from pathlib import Path

        return Baseline(Path(options.write_baseline))
    try:
        return read(options.baseline)
    except BaselineError as error:
        raise CannotRun(str(error)) from None


def _new(baseline: Baseline | None, document: Document, diagnostics: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    return baseline.keep(document, diagnostics) if baseline else diagnostics


def _split(words: Sequence[str]) -> list[str]:
    return [part.strip() for word in words for part in word.split(",") if part.strip()]


def _fixed(
    document: Document, known: Context, options: argparse.Namespace, decided: Suppressions
) -> tuple[Document, tuple[Diagnostic, ...]] | str:
    """Fix a document and write it, or show the patch; what is left to say about it, or a line that says why not."""
    from dsconf.files import reason
    from dsconf.fix import fix, unified_diff, write_back

    outcome = fix(document, known, unsafe=options.unsafe_fixes, chosen=decided.keep)
    piped = document.filename == options.stdin_filename and "-" in options.paths
    if options.diff:
        sys.stdout.write(unified_diff(document, outcome.document))
    elif piped:
        sys.stdout.write(outcome.document.text)
    elif outcome.applied:
        try:
            write_back(document, outcome.document)
        except OSError as error:
            return f"{document.filename}: {reason(error)}"
    if outcome.applied:
        done = "could be fixed" if options.diff else "fixed"
        count = len(outcome.applied)
        print(f"dsconf: {document.filename}: {count} problem{'s' * (count != 1)} {done}", file=sys.stderr)
    return outcome.document, outcome.diagnostics


#: The severities that make the exit status 1.
_LEVELS: dict[str, tuple[Severity, ...]] = {
    "error": ("error",),
    "warning": ("error", "warning"),
    "info": ("error", "warning", "info"),
    "never": (),
}


def _checked(names: Sequence[str], stdin: str, context: Context) -> Iterator[Checked]:
    """What was found in each file, or a line that says why it could not be read."""
    from dsconf.check import check
    from dsconf.files import configs_in
    from dsconf.many import check_files
    from dsconf.source import read_bytes

    paths: list[str | Path] = []
    for name in names:
        if name == "-":
            yield from check_files(paths, context)
            paths = []
            document = read_bytes(sys.stdin.buffer.read(_STDIN_LIMIT), stdin)
            yield document, check(document, context).diagnostics
        elif os.path.isdir(name):
            from pathlib import Path

            configs = list(configs_in(Path(name)))
            if not configs:
                yield f"{name}: no DeepSpeed configuration in this directory; name a file"
            paths.extend(configs)
        else:
            paths.append(name)
    yield from check_files(paths, context)


#: One byte more than a file may have, so that too much of it is noticed and never held in memory.
_STDIN_LIMIT = (16 << 20) + 1
