"""What a release of DeepSpeed says about its configuration, written down: its facts.

`keys`: by dotted path, with type, range and default as far as they are declared or can be read. `spellings`: keys
that stand for another one, which is the value. `closed`: the blocks that it reads with Pydantic, with the version of
that. `refused`: the keys that it names only to refuse them. `optimizers` and `schedulers`: the names that it has a
class of its own for. The last three have true for a value.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path as File
from typing import Any, TypeAlias

from proof.older import environment, installed, prepare

Facts: TypeAlias = "dict[str, Any]"

_ROOT = File(__file__).resolve().parent.parent


def facts_of(site: File | None = None) -> Facts:
    """The facts of the release in a folder, or of the installed one, in a process of its own.

    Raises:
        RuntimeError: the process could not load the release.
    """
    done = subprocess.run(
        (sys.executable, "-m", "proof.facts"),
        capture_output=True,
        text=True,
        cwd=_ROOT,
        env={**os.environ, "DS_ACCELERATOR": "cpu", **(environment(site) if site else {})},
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def _gather() -> Facts:
    from pydantic.v1 import BaseModel as OlderBaseModel

    from dsconf.rules.rule import DEEPSPEED
    from proof.keys import Key, deepspeed
    from proof.lookups import UNKNOWN

    def record(key: Key) -> dict[str, Any]:
        made: dict[str, Any] = {}
        if key.exact and key.kinds:
            made["type"] = sorted(key.kinds)
        if key.choices:
            made["choices"] = sorted(key.choices, key=repr)
        made |= {name: key.bounds[name] for name in sorted(key.bounds)}
        defaults = {json.dumps(item, sort_keys=True) for item in key.defaults if _is_json(item)}
        if len(defaults) == 1 and UNKNOWN not in key.defaults:
            made["default"] = json.loads(defaults.pop())
        return made

    release = installed()
    prepare(release)
    import deepspeed.runtime.config as config
    from deepspeed.runtime.config_utils import DeepSpeedConfigModel
    from deepspeed.runtime.lr_schedules import VALID_LR_SCHEDULES

    pydantic = 1 if issubclass(DeepSpeedConfigModel, OlderBaseModel) else 2
    side = deepspeed(older=release != DEEPSPEED)
    from_torch = {
        path
        for path in side.keys
        if path[1:2] == ("params",) and len(path) > 2 and side.keys[path[:3]].source.startswith("torch.")
    }
    kept = {path: key for path, key in side.keys.items() if path not in from_torch}
    refused = [*getattr(config, "_REMOVED_TOP_LEVEL_CONFIG_KEYS", ())]
    refused += [f"zero_optimization.{name}" for name in getattr(config, "_REMOVED_ZERO_CONFIG_KEYS", ())]
    return {
        "release": release,
        "keys": {".".join(path): record(kept[path]) for path in sorted(kept)},
        "spellings": {".".join(path): str(side.spellings[path]) for path in sorted(side.spellings)},
        "closed": dict.fromkeys(sorted(".".join(path) for path in side.closed), pydantic),
        "refused": dict.fromkeys(sorted(refused), True),
        "optimizers": dict.fromkeys(sorted(config.DEEPSPEED_OPTIMIZERS), True),
        "schedulers": dict.fromkeys(sorted(VALID_LR_SCHEDULES), True),
    }


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    json.dump(_gather(), answers)
