"""`python -m proof drift`, `python -m proof agree`, `python -m proof rules`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path


def main() -> int:
    """Run one of the proofs; 0 when everything agrees, 1 when something does not, 2 for a question that is wrong."""
    parser = argparse.ArgumentParser(prog="python -m proof", description="Hold dsconf against the installed DeepSpeed.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("drift", help="what the models say about each key, against DeepSpeed's source")
    commands.add_parser("rules", help="each rule's examples, against the engine")
    agree = commands.add_parser("agree", help="dsconf and the engine on any configurations")
    agree.add_argument("paths", nargs="*", type=Path, metavar="FILE|DIR")
    agree.add_argument("--world-size", type=int, default=1, metavar="N")
    agree.add_argument("--recorded", type=Path, metavar="JSONL", help="verdicts of the engine that are known already")
    agree.add_argument("--sweep", type=int, metavar="N", help="judge so many configurations drawn at random")
    agree.add_argument("--singles", type=int, metavar="N", help="judge so many keys alone with odd values; 0: all")
    agree.add_argument("--seed", type=int, default=0, help="which ones (with --sweep and --singles)")
    options = parser.parse_args()
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    if options.command == "agree" and not options.paths and options.sweep is None and options.singles is None:
        agree.error("name files or directories, or use --sweep or --singles")
    try:
        return _drift() if options.command == "drift" else _rules() if options.command == "rules" else _agree(options)
    except (OSError, ValueError, RuntimeError) as error:
        print(f"proof: {error}", file=sys.stderr)
        return 2


def _drift() -> int:
    from proof.drift import drift

    found = drift()
    for item in found:
        print(item)
    print(f"{len(found)} unexplained differences")
    return bool(found)


def _rules() -> int:
    from proof.engine import Engine
    from proof.rules import BY_SOURCE, PROVABLE, objections

    failed = 0
    with Engine() as engine:
        for rule in PROVABLE:
            found = list(objections(rule, engine))
            failed += bool(found)
            for objection in found:
                print(f"{rule.code} {rule.name}: {objection}")
    print(f"{len(PROVABLE) - failed:6} rules proven by the engine")
    print(f"{failed:6} rules that it contradicts")
    print(f"{len(BY_SOURCE):6} rules that only the source shows: other programs, or what this machine lacks")
    return bool(failed)


def _agree(options: argparse.Namespace) -> int:
    from proof.agree import Case, Comparison, Judges, cases_in, recorded, report
    from proof.engine import Engine
    from proof.singles import singles
    from proof.sweep import sweep

    def cases() -> Iterator[Case]:
        yield from cases_in(options.paths)
        if options.sweep is not None:
            yield from sweep(options.sweep, options.seed)
        if options.singles is not None:
            yield from singles(options.singles, options.seed)

    def compare(engine: Engine | None) -> list[Comparison]:
        judges = Judges(engine, options.world_size, known)
        return [item for case in cases() if (item := judges.compare(case)) is not None]

    known = recorded(options.recorded) if options.recorded else None
    if known is not None and options.sweep is None and options.singles is None:
        comparisons = compare(None)
    else:
        with Engine() as engine:
            comparisons = compare(engine)
    print(report(comparisons), end="")
    return any(item.outcome in ("missed", "false alarm") for item in comparisons)


if __name__ == "__main__":
    sys.exit(main())
