"""`launch=deepspeed`: check everything, have DeepSpeed's own launcher start the ranks, and see them to their end."""

from __future__ import annotations

import yaml

from dsconf import atomic
from runner import ancestry, run_dir
from runner.errors import CannotStart
from runner.launch.plan import plan
from runner.launch.supervise import supervise
from runner.lock import Lock
from runner.settings import Settings


def launch(settings: Settings) -> int:
    """Start the ranks and wait for them. Returns the exit status: 0 only if the run did all it was to do.

    Raises UsageError and CannotStart before anything is started.
    """
    planned = plan(settings)
    if planned.settings.dry_run:
        print(planned.describe(settings))
        return 0
    ancestry.watch_parents()
    node = planned.settings.node_rank or 0
    if node:
        # Node 0 makes the directory.
        directory = run_dir.make(settings)
    else:
        # From here on it is rank 0 that keeps other runs out.
        directory, running = run_dir.claim(settings)
        del running
    file = directory / run_dir.launch_file(node)
    lock = Lock(directory, "run_dir", run_dir.launch_lock(file).name)
    document = settings.model_copy(update={"run_dir": directory}).model_dump(mode="json")
    try:
        atomic.write_text(file, yaml.safe_dump(document, sort_keys=False))  # pyright: ignore[reportUnknownMemberType]
    except OSError as error:
        raise CannotStart(f"run_dir: cannot write to {error.filename}: {error.strerror}") from None
    status = supervise(planned, file)
    del lock
    return status
