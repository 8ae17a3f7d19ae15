"""Peak memory while a model of 1 GB in fp32 is built on two ranks: whole, and under `deepspeed.zero.Init`.

    python -m benchmarks.build

Prints for each what the account of `dsconf.memory` says a rank needs for its tensors beside how much the process grew
at most (VmHWM), gloo's buffers included. The C library is told to hand freed blocks back at once, so that what counts
is what is needed and not what is kept for later.
"""

from __future__ import annotations

import json
import os
import sys

from dsconf.memory import World, account
from dsconf.memory.plan import bound
from proof.build import BuildRequest
from proof.engine import Engine

CONFIG = {
    "train_micro_batch_size_per_gpu": 1,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 3},
}
SHAPE = {"layers": 20, "width": 1024, "heads": 8}
RANKS = 2


def main() -> None:
    from runner.forecast import describe
    from runner.settings import ModelSettings

    model = describe(ModelSettings(**SHAPE))
    print(f"{model.count / 1e6:.0f} million parameters, {4 * model.count / 1e9:.2f} GB in fp32, on {RANKS} ranks")
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "65536"
    with Engine() as engine:
        for zero_init in (False, True):
            verdict = engine.ask(BuildRequest(json.dumps(CONFIG), RANKS, zero_init=zero_init, shape=SHAPE, timeout=600))
            if not verdict.trained:
                sys.exit(f"{verdict.error}: {verdict.message}\n{verdict.log}")
            said = account(bound(CONFIG), model, World(1, RANKS), zero_init=zero_init).bytes_at("build")
            grown = ", ".join(f"{item['bytes'] / 1e6:,.0f}" for item in verdict.measured)
            how = "under zero.Init" if zero_init else "whole"
            print(f"{how:16} {said / 1e6:8,.0f} MB predicted for a rank; the ranks grew by {grown} MB at most")


if __name__ == "__main__":
    main()
