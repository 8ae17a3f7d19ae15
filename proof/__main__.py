"""`python -m proof drift`, and the other proofs: `agree`, `rules`, `releases`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proof.agree import Case


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
    releases = commands.add_parser("releases", help="dsconf's verdicts for older releases, against these releases")
    releases.add_argument("paths", nargs="*", type=Path, metavar="FILE|DIR")
    releases.add_argument(
        "--deepspeed", action="append", required=True, metavar="RELEASE", help="which; may be repeated"
    )
    releases.add_argument("--root", type=Path, metavar="DIR", help="where releases are set up (default: a cache)")
    releases.add_argument("--sweep", type=int, metavar="N", help="also so many configurations drawn at random")
    releases.add_argument("--singles", type=int, metavar="N", help="also so many keys alone with odd values; 0: all")
    releases.add_argument("--seed", type=int, default=0, help="which ones (with --sweep and --singles)")
    releases.add_argument("--train", action="store_true", help="also run each rule's examples through training")
    releases.add_argument("--rule", action="append", metavar="CODE", help="only this rule's (with --train)")
    adding = commands.add_parser("add-release", help="read what another release says, and take it into the table")
    adding.add_argument("release", metavar="RELEASE")
    adding.add_argument("--root", type=Path, metavar="DIR", help="where releases are set up (default: a cache)")
    options = parser.parse_args()
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    if options.command == "agree" and not options.paths and options.sweep is None and options.singles is None:
        agree.error("name files or directories, or use --sweep or --singles")
    try:
        return _COMMANDS[options.command](options)
    except (OSError, ValueError, RuntimeError) as error:
        print(f"proof: {error}", file=sys.stderr)
        return 2


def _drift(_: argparse.Namespace) -> int:
    from proof.drift import drift

    found = drift()
    for item in found:
        print(item)
    print(f"{len(found)} unexplained differences")
    return bool(found)


def _rules(_: argparse.Namespace) -> int:
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
    from proof.agree import Comparison, Judges, recorded, report
    from proof.engine import Engine

    def compare(engine: Engine | None) -> list[Comparison]:
        judges = Judges(engine, options.world_size, known)
        return [item for case in _cases(options) if (item := judges.compare(case)) is not None]

    known = recorded(options.recorded) if options.recorded else None
    if known is not None and options.sweep is None and options.singles is None:
        comparisons = compare(None)
    else:
        with Engine() as engine:
            comparisons = compare(engine)
    print(report(comparisons), end="")
    return any(item.outcome in ("missed", "false alarm") for item in comparisons)


def _releases(options: argparse.Namespace) -> int:
    from proof.engine import Engine
    from proof.older import set_up
    from proof.releases import examples, matrix, parsed, table

    cases, failed = list(_cases(options)), False
    for release in options.deepspeed:
        site = set_up(release, options.root)
        found = list(parsed(cases, release, site))
        print(f"DeepSpeed {release}\n{matrix(found)}", end="", flush=True)
        failed |= not all(item.agree for item in found)
        if options.train:
            with Engine(site) as engine:
                ran = list(examples(release, engine, options.rule))
            print(table(ran), end="", flush=True)
            failed |= not all(item.agree for item in ran)
    return failed


def _add(options: argparse.Namespace) -> int:
    from proof.facts import facts_of
    from proof.history import add
    from proof.older import set_up

    found = add(facts_of(set_up(options.release, options.root)))
    for line in found.differences:
        print(line)
    for line in found.decisions:
        print(f"decide: {line}")
    print(f"{len(found.differences)} differences, {len(found.decisions)} decisions to make", end="")
    print("; nothing was written" if found.decisions else "; now run: python -m dsconf.schema")
    return bool(found.decisions)


def _cases(options: argparse.Namespace) -> Iterator[Case]:
    from proof.agree import cases_in
    from proof.singles import singles
    from proof.sweep import sweep

    yield from cases_in(options.paths)
    if options.sweep is not None:
        yield from sweep(options.sweep, options.seed)
    if options.singles is not None:
        yield from singles(options.singles, options.seed)


_COMMANDS = {"drift": _drift, "rules": _rules, "agree": _agree, "releases": _releases, "add-release": _add}

if __name__ == "__main__":
    sys.exit(main())
