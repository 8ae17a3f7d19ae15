"""Memory that `dsconf.memory` predicts beside what the real engine holds, over all that a CPU can run.

    python -m benchmarks.memory [--every N]

Prints a line for each configuration (the error of what is held between steps and of the peaks) and the worst of each.
`--every N` takes every Nth configuration only.
"""

from __future__ import annotations

import argparse

from proof.engine import Engine
from proof.memory import TOLERANCES, cases, worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, metavar="N")
    every: int = parser.parse_args().every
    furthest = dict.fromkeys(TOLERANCES, (0.0, ""))
    print(f"{'configuration':58}  between MB  " + "  ".join(f"{what:>10}" for what in TOLERANCES))
    with Engine() as engine:
        for item in list(cases())[::every]:
            try:
                found = worst(item, engine)
            except RuntimeError as error:
                print(f"{item.name:58}  does not train: {str(error).splitlines()[0]}", flush=True)
                continue
            held = next(one.measured_bytes for one in found if one.what == "between") / 1e6
            print(f"{item.name:58}  {held:10.2f}  " + "  ".join(f"{one.error:+10.2%}" for one in found), flush=True)
            for one in found:
                furthest[one.what] = max(furthest[one.what], (abs(one.error), item.name))
    print("\nworst")
    for what, (error, name) in furthest.items():
        print(f"{what:10}  {error:.2%} (at most {TOLERANCES[what]:.0%})  {name}")


if __name__ == "__main__":
    main()
