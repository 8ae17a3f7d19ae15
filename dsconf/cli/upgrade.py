"""`dsconf upgrade`."""

from __future__ import annotations

import argparse
import sys

from dsconf.cli.options import FINDINGS, OK, add_reader, add_world_size, complain, context

_EXAMPLES = """\
examples:
  dsconf upgrade ds_config.json --from 0.14.5 --diff    show the changes, write nothing
  dsconf upgrade ds_config.json --from 0.14.5           to the newest release known
  dsconf upgrade ds_config.json --from 0.12.6 --to 0.16.9
"""


def register(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("file", metavar="FILE")
    parser.add_argument(
        "--to", default=None, metavar="RELEASE", help="the release to go to (default: the newest known)"
    )
    parser.add_argument(
        "--from", dest="source", metavar="RELEASE", help="the release that the file was for; its defaults are kept"
    )
    parser.add_argument("--diff", action="store_true", help="show the changes, and write nothing")
    add_world_size(parser)
    add_reader(parser)
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from dsconf.files import reason
    from dsconf.fix import unified_diff, write_back
    from dsconf.releases import ReleaseError, newest, parse
    from dsconf.source import read_file
    from dsconf.upgrade import upgrade

    known = context(options)
    try:
        target = parse(options.to or newest())[-1]
        source = parse(options.source)[-1] if options.source else None
        document = read_file(options.file)
        outcome = upgrade(document, target, source, known)
        sys.stdout.write(unified_diff(document, outcome.document))
        for change in outcome.changes:
            print(f"- {change.why}" + ("" if change.same else " (look at it: it may have been meant)"))
        for refusal in outcome.refusals:
            print(f"dsconf: {options.file}: {refusal.why}", file=sys.stderr)
        if not outcome.sound:
            return _unsound(options.file, target, outcome)
        if source is None:
            print("dsconf: without --from no default that changed is written down", file=sys.stderr)
        if outcome.changes and not options.diff:
            write_back(document, outcome.document)
    except ReleaseError as error:
        return complain(str(error))
    except OSError as error:
        return complain(f"{options.file}: {reason(error)}")
    except ValueError:
        return complain(f"{options.file!r}: not a file name")
    return OK


def _unsound(name: str, target: str, outcome: object) -> int:
    from dsconf.report.text import concise
    from dsconf.upgrade import Upgraded

    if isinstance(outcome, Upgraded):
        for item in outcome.diagnostics:
            if item.severity == "error":
                print(concise(item), file=sys.stderr)
    print(f"dsconf: {name}: DeepSpeed {target} would not take the result; nothing was written", file=sys.stderr)
    return FINDINGS
