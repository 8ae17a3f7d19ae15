"""What one run is, in plain typed settings. Knows nothing of Hydra, DeepSpeed or torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator

from dsconf.diagnostic import dotted
from dsconf.overrides import Override, OverrideError, origin, parse
from runner.errors import UsageError

Count = Annotated[int, Field(ge=1)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Call(_Section):
    """What `target`, a dotted name, makes of the arguments beside it; Hydra's form, with `_target_`."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True, serialize_by_alias=True)

    target: str = Field(alias="_target_", pattern=r"\.")

    @property
    def arguments(self) -> dict[str, Any]:
        """All that has no meaning of its own here."""
        return dict(self.model_extra or {})


class _Model(_Section):
    """`zero_init`: whether to build it under `deepspeed.zero.Init`, so that no rank ever holds all parameters; `auto`
    decides from the model's size and this machine's memory. `freeze`: patterns, with `*`, of the names of parameters
    that are not trained.
    """

    zero_init: Literal["auto", "always", "never"] = "auto"
    freeze: tuple[str, ...] = ()


class CalledModel(_Model, Call):
    """Any torch.nn.Module by the dotted name of what makes it.

    `loss`: the dotted name of a function of the model's output and of a batch's last item; none: the model is called
    with the whole batch and gives the loss.
    """

    loss: str | None = None


class ModelSettings(_Model):
    """The shape of the GPT.

    `width`: features of a position. `expansion`: how many times as many in the middle of a feed-forward layer.
    `lookback`: how many bytes, its own included, the embedding of a position sees.
    """

    layers: Count
    width: Count
    heads: Count
    expansion: Count = 4
    lookback: Count = 4

    @model_validator(mode="after")
    def _even_heads(self) -> ModelSettings:
        if self.width % (2 * self.heads):
            raise ValueError(f"width {self.width} must be a multiple of twice the number of heads, {2 * self.heads}")
        return self


class _Data(_Section):
    """`loader`: who takes batches from it. `runner`: in an order of its own; `deepspeed`: as `training_data` of
    `deepspeed.initialize`, by two processes beside each rank, and only whole batches of an epoch.
    """

    loader: Literal["runner", "deepspeed"] = "runner"


class DatasetSettings(_Data):
    """Any map-style torch datasets: one to train on, one to evaluate on.

    `collate`: the dotted name of what makes a batch of a list of items; none: torch's own.
    """

    train: Call
    held_out: Call
    collate: str | None = None


class DataSettings(_Data):
    """The text, read as bytes.

    `path`: a file, a directory (every file under it) or a glob pattern; none: the language reference that comes
    with Python (`pydoc_data.topics`). `sequence_length`: bytes per training sequence. `held_out`: the share at
    the end of the text that is never trained on.
    """

    path: str | None = None
    sequence_length: Annotated[int, Field(ge=2)]
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.1


class TrainingSettings(_Section):
    """How long, and how often to say so, all in optimizer steps. `eval_every` 0: only at the end.

    `max_loss_ratio`: the run breaks off where the loss is that many times what it was at first; 0: never.
    `max_skipped`: and where so many fp16 steps in a row were skipped because gradients overflowed.
    """

    steps: Count
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    log_every: Count = 10
    eval_every: Annotated[int, Field(ge=0)] = 0
    max_loss_ratio: Annotated[float, Field(ge=0)] = 10.0
    max_skipped: Count = 20


class CheckpointSettings(_Section):
    """When to save besides the end and a signal, and what to keep.

    `every`: optimizer steps; `every_minutes`: of wall-clock time; 0: not so. `keep_last`: newest checkpoints, 0: all.
    `keep_best`: besides those, the ones of the lowest held-out loss, among those evaluated at their step.
    """

    every: Annotated[int, Field(ge=0)] = 100
    every_minutes: Annotated[float, Field(ge=0)] = 0.0
    keep_last: Annotated[int, Field(ge=0)] = 2
    keep_best: Annotated[int, Field(ge=0)] = 0


class OptimizerSettings(_Section):
    """In DeepSpeed's own form, as in the `optimizer` block of a ds_config.

    `type`: a name that DeepSpeed knows, or the dotted name of a torch optimizer, which the run then brings itself.
    """

    type: str
    params: dict[str, Any] = {}

    @property
    def is_client(self) -> bool:
        """Whether the run brings it, and not DeepSpeed."""
        return "." in self.type


class SchedulerSettings(_Section):
    """In DeepSpeed's own form, as in the `scheduler` block of a ds_config.

    `type`: a name that DeepSpeed knows, or the dotted name of what makes a torch scheduler of an optimizer. `interval`:
    whether the latter moves on with each optimizer step, which is left to DeepSpeed, or with each epoch.
    """

    type: str
    params: dict[str, Any] = {}
    interval: Literal["step", "epoch"] = "step"

    @property
    def is_client(self) -> bool:
        """Whether the run brings it, and not DeepSpeed."""
        return "." in self.type

    @model_validator(mode="after")
    def _who_steps(self) -> SchedulerSettings:
        if self.interval == "epoch" and not self.is_client:
            raise ValueError(
                f"interval=epoch: DeepSpeed moves its own {self.type} on with each step; use scheduler=torch"
            )
        if self.interval == "step" and self.type.endswith(".ReduceLROnPlateau"):
            raise ValueError(
                f"interval=step: DeepSpeed would show {self.type} the batch size in place of a loss; with "
                f"interval=epoch it is shown the held-out loss"
            )
        return self


class DistributedSettings(_Section):
    """How the ranks talk. `backend`: torch's name for it, such as nccl or gloo; none: the accelerator's usual one.

    `timeout_minutes`: how long a rank waits for the others before it gives up.
    """

    backend: str | None = None
    timeout_minutes: Annotated[float, Field(gt=0)] = 10.0


class LaunchSettings(_Section):
    """How DeepSpeed's launcher is to start the ranks; the names are those of its options.

    `env_file`: the variables of every rank, one NAME=VALUE a line. `node_rank`: start only the ranks of that node,
    without ssh. `dry_run`: only say what would be started.
    """

    hostfile: Path | None = None
    include: str = ""
    exclude: str = ""
    num_nodes: Count | None = None
    num_gpus: Count | None = None
    launcher: str = "pdsh"
    launcher_args: str = ""
    env_file: Path | None = None
    master_addr: str | None = None
    master_port: Annotated[int, Field(ge=1, lt=2**16)] | None = None
    node_rank: Annotated[int, Field(ge=0)] | None = None
    force_multi: bool = False
    dry_run: bool = False


_OURS, _CALLED = "(ours)", "(by name)"


def _kind_of_model(values: Any) -> str:
    named = isinstance(values, CalledModel) or (
        isinstance(values, dict) and bool({"_target_", "target"} & {*cast("dict[str, Any]", values)})
    )
    return _CALLED if named else _OURS


def _kind_of_data(values: Any) -> str:
    named = isinstance(values, DatasetSettings) or (isinstance(values, dict) and "train" in values)
    return _CALLED if named else _OURS


class Settings(_Section):
    """Everything that `runner.train.train` needs to know.

    `ds_config`: what the presets say, overrides included, without optimizer and scheduler, which stand in their
    own sections. `precision`: the preset's, or `autocast`: float32 weights, and 16 bits where torch.autocast takes
    them. `run_dir`: where the run writes; none: a new directory under `runs/`. `resume`: what to go on from:
    `auto` (the newest sound checkpoint in `run_dir`, if there is one), `latest`, a tag such as `global_step100`, the
    path of a run or of a checkpoint, or `never`. `launch`: who starts the ranks, if not what started this process.
    `presets` and `overrides`: where the settings came from, for the record.
    """

    model: Annotated[
        Annotated[ModelSettings, Tag(_OURS)] | Annotated[CalledModel, Tag(_CALLED)], Discriminator(_kind_of_model)
    ]
    data: Annotated[
        Annotated[DataSettings, Tag(_OURS)] | Annotated[DatasetSettings, Tag(_CALLED)], Discriminator(_kind_of_data)
    ]
    training: TrainingSettings
    optimizer: OptimizerSettings
    scheduler: SchedulerSettings | None = None
    checkpoint: CheckpointSettings = CheckpointSettings()
    ds_config: dict[str, Any]
    precision: Literal["autocast"] | None = None
    run_dir: Path | None = None
    resume: str = "never"
    launch: LaunchSettings | None = None
    distributed: DistributedSettings = DistributedSettings()
    presets: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()


def read(values: Mapping[str, Any]) -> Settings:
    """Type a mapping of settings.

    Raises UsageError, which says everything that is wrong with them and which override it comes from.
    """
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        overrides = read_overrides(values.get("overrides", ()))
        problems = error.errors(include_url=False)
        raise UsageError("\n".join(_explain(problem, overrides) for problem in problems)) from None


def read_overrides(texts: Iterable[str]) -> list[Override]:
    """The overrides of a Hydra command line that set or remove one key; those in other forms are left out."""
    found: list[Override] = []
    for text in texts:
        try:
            override = parse(text.replace("+", "", 2) if text.startswith("++") else text)
        except OverrideError:
            continue
        found.append(Override(text, override.path, override.value, override.removes))
    return found


def _explain(problem: Mapping[str, Any], overrides: list[Override]) -> str:
    path: tuple[str | int, ...] = tuple(part for part in problem["loc"] if part not in (_OURS, _CALLED))
    name = dotted(path)
    match problem["type"]:
        case "extra_forbidden":
            text = f"there is no setting {name}{_suggestion(path)}"
        case "missing":
            text = f"the setting {name} is missing"
        case "value_error":
            text = f"{name}: {problem['ctx']['error']}"
        case _:
            text = f"{name}: {problem['msg'][:1].lower()}{problem['msg'][1:]}, and it is {problem['input']!r}"
    source = origin([path], overrides)
    return f"error: {text}" + (f"\n  from override: {source.text}" if source else "")


def _suggestion(path: tuple[str | int, ...]) -> str:
    *way, last = path
    sections: list[type[BaseModel]] = [Settings]
    for part in way:
        sections = [
            found
            for section in sections
            if part in section.model_fields
            for found in _sections(section.model_fields[str(part)].annotation)
        ]
    near = get_close_matches(str(last), [name for section in sections for name in section.model_fields], n=1)
    return f"; did you mean {dotted((*way, near[0]))}?" if near else ""


def _sections(annotation: Any) -> list[type[BaseModel]]:
    """The sections among the members of a type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for member in get_args(annotation) for section in _sections(member)]
