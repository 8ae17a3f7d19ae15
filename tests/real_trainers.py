"""What the real Accelerate, Transformers and Lightning make of arguments: jobs in on standard input, configurations out.

A process of its own, since these packages leave global state behind.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from types import SimpleNamespace
from typing import Any


def accelerate(job: dict[str, Any]) -> dict[str, Any]:
    """The YAML through the launcher's own parser and environment, into the plugin of the process that it starts."""
    import yaml
    from accelerate import DeepSpeedPlugin
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_deepspeed_cmd_env

    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(job, file)
        file.flush()
        options = launch_command_parser().parse_args(["--config_file", file.name, "train.py"])
        options, defaults, of_file = _validate_launch_command(options)
        told = [*defaults.deepspeed_config, *(["mixed_precision"] if of_file else [])]
        options.deepspeed_fields_from_accelerate_config = ",".join(told)
        _, environment = prepare_deepspeed_cmd_env(options)
    before = dict(os.environ)
    os.environ.update({name: value for name, value in environment.items() if name.startswith("ACCELERATE_")})
    try:
        plugin = DeepSpeedPlugin()
        plugin.set_mixed_precision(os.environ["ACCELERATE_MIXED_PRECISION"])
        return plugin.deepspeed_config
    finally:
        os.environ.clear()
        os.environ.update(before)


def transformers(job: dict[str, Any]) -> dict[str, Any]:
    """The arguments against the file, before the model and the length of the run are known and then with them."""
    from transformers import TrainingArguments
    from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

    given = dict(job)
    file = given.pop("deepspeed")
    arguments = TrainingArguments(output_dir=tempfile.gettempdir(), use_cpu=True, report_to=[], **given)
    config = HfTrainerDeepSpeedConfig(file)
    config.trainer_config_process(arguments)
    model = SimpleNamespace(config=SimpleNamespace(hidden_size=64))
    config.trainer_config_finalize(arguments, model, arguments.max_steps)
    return config.config


def lightning(job: dict[str, Any]) -> dict[str, Any]:
    """The strategy's own configuration, completed by a real Trainer around it."""
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.plugins import DeepSpeedPrecision
    from lightning.pytorch.strategies import DeepSpeedStrategy
    from torch.utils.data import DataLoader

    class Loaded(LightningModule):
        def train_dataloader(self) -> Any:
            return DataLoader([1], batch_size=1)

    told = dict(job["trainer"])
    precision = told.pop("precision", "32-true")
    arguments = told.pop("strategy")["init_args"]
    strategy = DeepSpeedStrategy(precision_plugin=DeepSpeedPrecision(precision), **arguments)
    module = Loaded()
    module.trainer = Trainer(
        accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, **told
    )
    strategy._lightning_module = module
    module.trainer.fit_loop._data_source.instance = module
    strategy._init_config_if_needed()
    return strategy.config


if __name__ == "__main__":
    programs = {"accelerate": accelerate, "transformers": transformers, "lightning": lightning}
    out, sys.stdout = sys.stdout, sys.stderr
    made: list[Any] = []
    for program, job in json.load(sys.stdin):
        try:
            made.append(programs[program](job))
        except (ValueError, TypeError, AttributeError) as error:
            made.append(f"{type(error).__name__}: {error}")
    json.dump(made, out)
