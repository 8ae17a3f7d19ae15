"""`tensorboard`, `csv_monitor`, `wandb`, `comet`: where training metrics are written."""

from typing import Literal

from dsconf.models.block import Block, Int, key

_SOURCE = "monitor/config.py"


class Tensorboard(Block):
    """Write metrics for TensorBoard."""

    enabled: bool = key(False, doc="Write metrics (rank 0 does; needs `tensorboard`).", source=f"{_SOURCE}:20")
    output_path: str = key("", doc="Directory for the logs; empty: the working directory.", source=f"{_SOURCE}:23")
    job_name: str = key("DeepSpeedJobName", doc="Directory below `output_path` for this job.", source=f"{_SOURCE}:29")


class Wandb(Block):
    """Send metrics to Weights & Biases."""

    enabled: bool = key(False, doc="Send metrics (rank 0 does; needs `wandb`).", source=f"{_SOURCE}:36")
    group: str | None = key(None, doc="Group of runs that this one joins.", source=f"{_SOURCE}:39")
    team: str | None = key(None, doc="Team or user that owns the run.", source=f"{_SOURCE}:42")
    project: str = key("deepspeed", doc="Project that the run belongs to.", source=f"{_SOURCE}:45")


class CsvMonitor(Block):
    """Write metrics to local CSV files, one a metric."""

    enabled: bool = key(False, doc="Write metrics (rank 0 does).", source=f"{_SOURCE}:52")
    output_path: str = key("", doc="Directory for the files; empty: the working directory.", source=f"{_SOURCE}:55")
    job_name: str = key("DeepSpeedJobName", doc="Directory below `output_path` for this job.", source=f"{_SOURCE}:61")


class Comet(Block):
    """Send metrics to Comet."""

    enabled: bool = key(False, doc="Send metrics (rank 0 does; needs `comet_ml`).", source=f"{_SOURCE}:72")
    samples_log_interval: Int = key(
        100, doc="Training samples between two values of the same metric.", source=f"{_SOURCE}:75"
    )
    project: str | None = key(None, doc="Project; null: from Comet's own configuration.", source=f"{_SOURCE}:78")
    workspace: str | None = key(None, doc="Workspace; null: from Comet's own configuration.", source=f"{_SOURCE}:84")
    api_key: str | None = key(
        None, doc="Secret; better left to the environment variable `COMET_API_KEY`.", source=f"{_SOURCE}:90"
    )
    experiment_name: str | None = key(None, doc="Name under which the experiment is shown.", source=f"{_SOURCE}:96")
    experiment_key: str | None = key(
        None, doc="Identifier of the experiment to create or go on with.", source=f"{_SOURCE}:103"
    )
    online: bool | None = key(
        None, doc="Send to Comet's server (null and true) or keep the experiment on disk.", source=f"{_SOURCE}:110"
    )
    mode: Literal["get", "create", "get_or_create"] | None = key(
        None, doc="Go on with an experiment, start a new one, or whichever fits (null).", source=f"{_SOURCE}:116"
    )
