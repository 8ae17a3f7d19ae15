"""What Transformers, Accelerate and Lightning do with a file before DeepSpeed sees it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from dsconf import ConfigError, Diagnostic, load, validate
from dsconf.check import check
from dsconf.diagnostic import dotted
from dsconf.readers import PROFILES
from dsconf.rules.rule import Context, Reader
from dsconf.source import plain, read_text
from dsconf.training_args import TrainingArgsError, read_training_args
from tests.conftest import Cli

Trainer = Literal["transformers", "accelerate", "lightning"]
BATCH = {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "gradient_clipping": "auto"}
TEMPLATE: dict[str, Any] = {
    **BATCH,
    "train_batch_size": "auto",
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
    "scheduler": {
        "type": "WarmupDecayLR",
        "params": {
            "total_num_steps": "auto",
            "warmup_min_lr": "auto",
            "warmup_max_lr": "auto",
            "warmup_num_steps": "auto",
        },
    },
    "bf16": {"enabled": "auto"},
    "zero_optimization": {
        "stage": 3,
        "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto",
        "stage3_param_persistence_threshold": "auto",
        "stage3_gather_16bit_weights_on_model_save": True,
    },
}


def told(
    values: dict[str, Any], reader: Reader, arguments: dict[str, Any] | None = None, world_size: int | None = None
) -> list[Diagnostic]:
    """The warnings and errors about a file."""
    found = validate(values, reader=reader, training_args=arguments, world_size=world_size)
    return [item for item in found if item.severity != "info"]


def places(found: list[Diagnostic]) -> list[tuple[str, str, str]]:
    """Code, severity and path of each."""
    return [(item.code, item.severity, dotted(item.path)) for item in found]


def at(found: list[Diagnostic], path: str) -> Diagnostic:
    """The one thing that is said about a key."""
    (item,) = [item for item in found if dotted(item.path) == path]
    return item


def hf(**values: Any) -> dict[str, Any]:
    """A file for the Trainer, in which all is well, and more."""
    return {**BATCH, "zero_optimization": {"stage": 2}, **values}


def test_the_usual_template_is_clean_for_the_trainer_and_an_error_for_deepspeed() -> None:
    assert told(TEMPLATE, "transformers", {"learning_rate": 1e-4, "bf16": True, "max_steps": 50}) == []
    assert places(told(TEMPLATE, "deepspeed"))[0][:2] == ("DS110", "error")


def test_a_trainers_template_fails_under_accelerate_alone_at_betas_and_eps() -> None:
    (item,) = told(TEMPLATE, "accelerate")
    assert (item.code, item.effect, dotted(item.path)) == ("DS951", "refused", "optimizer.params.betas")
    assert [dotted(other.path) for other in item.related] == ["optimizer.params.eps"]
    assert item.actor == "Accelerate"


def test_lightning_fills_no_auto_and_says_what_becomes_of_it() -> None:
    dropped = {"zero_optimization": {"stage": "auto"}, "bf16": {"enabled": True}}
    assert at(told(dropped, "lightning"), "zero_optimization.stage").effect == "coerced"
    assert at(told({"gradient_clipping": "auto"}, "lightning"), "gradient_clipping").effect == "refused"


@pytest.mark.parametrize("reader", ["transformers", "accelerate"])
@pytest.mark.parametrize(
    "path",
    ["zero_optimization.sub_group_size", "zero_optimization.overlap_comm", "fp16.loss_scale", "wall_clock_breakdown"],
)
def test_an_auto_that_nobody_fills_is_refused(reader: Trainer, path: str) -> None:
    values: dict[str, Any] = hf(fp16={"enabled": False})
    block, _, name = path.rpartition(".")
    (values[block] if block else values)[name] = "auto"
    assert at([item for item in told(values, reader) if item.code == "DS951"], path).effect == "refused"


def test_an_auto_that_deepspeed_itself_knows_is_refused_by_the_trainer() -> None:
    found = told(hf(data_types={"grad_accum_dtype": "auto"}), "transformers")
    assert places(found) == [("DS951", "error", "data_types.grad_accum_dtype")]


def test_accelerate_fills_the_total_only_beside_the_micro_batch() -> None:
    values = {"train_batch_size": "auto", "gradient_clipping": 1.0, "zero_optimization": {"stage": 2}}
    assert places(told(values, "accelerate")) == [("DS951", "error", "train_batch_size")]
    assert told({**values, "train_micro_batch_size_per_gpu": 2}, "accelerate") == []


def test_stage_3_sizes_below_stage_3_are_warned_about_since_multimodal_models_fail_on_them() -> None:
    values = hf(zero_optimization={"stage": 2, "stage3_prefetch_bucket_size": "auto", "reduce_bucket_size": "auto"})
    assert places(told(values, "transformers")) == [
        ("DS952", "warning", "zero_optimization.stage3_prefetch_bucket_size")
    ]


@pytest.mark.parametrize(("norm", "expected"), [(5.0, "error"), (0.0, "error"), (1.0, None), (None, "error")])
def test_an_absent_clipping_loses_max_grad_norm(norm: float | None, expected: str | None) -> None:
    values = hf()
    del values["gradient_clipping"]
    severities = [item.severity for item in told(values, "transformers", {"max_grad_norm": norm})]
    assert severities == ([expected] if expected else [])


def test_without_arguments_absent_clipping_and_learning_rate_are_warnings() -> None:
    values = hf(optimizer={"type": "AdamW", "params": {"weight_decay": "auto"}})
    del values["gradient_clipping"]
    assert places(told(values, "transformers")) == [
        ("DS953", "warning", "gradient_clipping"),
        ("DS953", "warning", "optimizer.params.lr"),
    ]


def test_a_lost_learning_rate_names_both_values_and_both_places(tmp_path: Path) -> None:
    file = tmp_path / "args.yaml"
    file.write_text("learning_rate: 3e-5\n")
    values = hf(optimizer={"type": "AdamW", "params": {"betas": "auto"}})
    (item,) = [item for item in validate(values, reader="transformers", training_args=file) if item.severity == "error"]
    assert (item.code, dotted(item.path)) == ("DS953", "optimizer.params.lr")
    for word in ("0.001", "`learning_rate`", "3e-05", str(file)):
        assert word in item.message


def test_parameters_that_equal_deepspeeds_defaults_are_not_lost() -> None:
    values = hf(optimizer={"type": "AdamW", "params": {"lr": "auto"}})
    assert told(values, "transformers", {"adam_beta2": 0.999, "weight_decay": 0.0}) == []
    found = told(values, "transformers", {"adam_beta2": 0.95, "weight_decay": 0.1})
    assert sorted(path for _, _, path in places(found)) == [
        "optimizer.params.betas",
        "optimizer.params.weight_decay",
    ]


def test_a_warmup_that_is_absent_lasts_a_thousand_steps() -> None:
    values = hf(scheduler={"type": "WarmupLR", "params": {"warmup_max_lr": "auto"}})
    found = told(values, "transformers", {"warmup_steps": 20})
    assert places(found) == [("DS953", "error", "scheduler.params.warmup_num_steps")]
    assert "1000" in found[0].message and "20" in found[0].message


def test_warmup_lr_takes_the_optimizers_rate_where_its_own_is_absent() -> None:
    values = hf(scheduler={"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}})
    assert told(values, "transformers", {"learning_rate": 1e-5}) == []


def test_an_absent_accumulation_is_harmless_until_the_total_is_filled() -> None:
    values = hf()
    del values["gradient_accumulation_steps"]
    assert told(values, "transformers", {"gradient_accumulation_steps": 4}) == []
    found = told({**values, "train_batch_size": "auto"}, "transformers", {"gradient_accumulation_steps": 4})
    assert [(item.effect, dotted(item.path)) for item in found] == [("refused", "gradient_accumulation_steps")]


def test_accelerate_writes_one_where_accumulation_is_absent() -> None:
    values = {"train_micro_batch_size_per_gpu": "auto", "gradient_clipping": 1.0, "zero_optimization": {"stage": 2}}
    assert told(values, "accelerate", {"gradient_accumulation_steps": 1}) == []
    found = told(values, "accelerate", {"gradient_accumulation_steps": 4})
    assert places(found) == [("DS953", "error", "gradient_accumulation_steps")]


@pytest.mark.parametrize(
    ("path", "value", "arguments"),
    [
        ("train_micro_batch_size_per_gpu", 4, {"per_device_train_batch_size": 2}),
        ("gradient_accumulation_steps", 4, {"gradient_accumulation_steps": 2}),
        ("gradient_clipping", 0.5, {"max_grad_norm": 1.0}),
        ("optimizer.params.lr", 1e-4, {"learning_rate": "5e-5"}),
        ("optimizer.params.betas", [0.9, 0.95], {"adam_beta2": 0.99}),
        ("optimizer.params.eps", 1e-6, {"adam_epsilon": 1e-8}),
        ("optimizer.params.weight_decay", 0.1, {"weight_decay": 0.01}),
        ("scheduler.params.warmup_max_lr", 1e-4, {"learning_rate": 5e-5}),
        ("scheduler.params.warmup_num_steps", 100, {"warmup_steps": 0}),
        ("scheduler.params.warmup_num_steps", 6, {"warmup_ratio": 0.1, "max_steps": 50}),
        ("scheduler.params.total_num_steps", 1000, {"max_steps": 500}),
        ("bf16.enabled", True, {"bf16": False}),
        ("bf16.enabled", False, {"bf16_full_eval": True}),
    ],
)
def test_the_trainer_refuses_a_value_that_its_argument_contradicts(
    path: str, value: Any, arguments: dict[str, Any]
) -> None:
    values: dict[str, Any] = json.loads(json.dumps(TEMPLATE))
    *blocks, name = path.split(".")
    block = values
    for part in blocks:
        block = block[part]
    block[name] = value
    item = at(told(values, "transformers", arguments), path)
    assert (item.code, item.severity, item.effect) == ("DS954", "error", "refused")
    assert item.fix is not None and item.fix.edits[0].value == "auto"


@pytest.mark.parametrize(
    ("path", "value", "arguments"),
    [
        ("scheduler.params.warmup_num_steps", 1, {"warmup_steps": 0}),
        ("scheduler.params.warmup_num_steps", 5, {"warmup_steps": 0.1, "max_steps": 50}),
        ("scheduler.params.warmup_num_steps", 40, {"warmup_ratio": 0.1, "num_train_epochs": 3}),
        ("scheduler.params.total_num_steps", 400, {"num_train_epochs": 3}),
        ("optimizer.params.lr", 5e-5, {"learning_rate": "5e-5"}),
        ("gradient_clipping", 1, {"max_grad_norm": 1.0}),
    ],
)
def test_values_that_agree_or_cannot_be_known_are_not_contradictions(
    path: str, value: Any, arguments: dict[str, Any]
) -> None:
    values: dict[str, Any] = json.loads(json.dumps(TEMPLATE))
    *blocks, name = path.split(".")
    block = values
    for part in blocks:
        block = block[part]
    block[name] = value
    assert [item for item in told(values, "transformers", arguments) if item.code == "DS954"] == []


def test_a_default_of_the_trainer_contradicts_with_a_warning() -> None:
    item = at(told(hf(train_micro_batch_size_per_gpu=2), "transformers", {}), "train_micro_batch_size_per_gpu")
    assert (item.code, item.severity) == ("DS954", "warning") and "8 by default" in item.message


def test_the_total_is_compared_once_the_number_of_ranks_is_known() -> None:
    arguments = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 3}
    values = hf(train_batch_size=12)
    assert told(values, "transformers", arguments) == []
    assert told(values, "transformers", arguments, world_size=2) == []
    assert places(told(values, "transformers", arguments, world_size=4)) == [("DS954", "error", "train_batch_size")]


def test_a_text_never_equals_an_argument_of_the_trainer() -> None:
    item = at(told(hf(bf16={"enabled": "false"}), "transformers", {"bf16": False}), "bf16.enabled")
    assert (item.code, item.severity, item.effect) == ("DS954", "error", "refused")


@pytest.mark.parametrize(
    ("reader", "arguments"), [("accelerate", {"mixed_precision": "bf16"}), ("lightning", {"precision": "bf16-mixed"})]
)
def test_readers_that_do_not_compare_keep_the_file_and_lose_the_precision(
    reader: Trainer, arguments: dict[str, Any]
) -> None:
    values = {"bf16": {"enabled": False}, "zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 2}
    item = at(told({**values, "gradient_clipping": 1.0}, reader, arguments), "bf16.enabled")
    assert (item.code, item.severity, item.effect) == ("DS954", "error", "ignored")
    both = {**values, "bf16": {"enabled": False}, "fp16": {"enabled": True}, "gradient_clipping": 1.0}
    assert at(told(both, reader, arguments), "fp16.enabled").effect == "refused"


def test_lightning_keeps_the_files_clipping_and_loses_gradient_clip_val() -> None:
    values = {"gradient_clipping": 3.0, "zero_optimization": {"stage": 2}}
    assert told(values, "lightning") == []
    assert told(values, "lightning", {"accumulate_grad_batches": 2}) == []
    found = told(values, "lightning", {"trainer": {"gradient_clip_val": 0.5}, "model": {}})
    assert places(found) == [("DS954", "error", "gradient_clipping")]


@pytest.mark.parametrize("reader", ["transformers", "accelerate", "lightning"])
def test_a_block_without_enabled_loses_the_precision_that_was_asked_for(reader: Trainer) -> None:
    asked = {
        "transformers": {"bf16": True},
        "accelerate": {"mixed_precision": "bf16"},
        "lightning": {"precision": "bf16-mixed"},
    }[reader]
    values = {"bf16": {}, "zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 8}
    values["gradient_clipping"] = 1.0
    assert places(told(values, reader)) == [("DS955", "warning", "bf16")]
    assert places([item for item in told(values, reader, asked) if item.code == "DS955"]) == [
        ("DS955", "error", "bf16")
    ]


def test_bf16_beside_autocast_turns_the_parameters_into_bf16() -> None:
    values = hf(torch_autocast={"enabled": True, "dtype": "bfloat16"})
    assert told(values, "transformers", {"bf16": False}) == []
    assert places(told(values, "transformers", {"bf16": True})) == [("DS955", "warning", "torch_autocast")]


@pytest.mark.parametrize("reader", ["transformers", "accelerate"])
def test_zero_optimization_must_be_there_as_an_object(reader: Trainer) -> None:
    values: dict[str, Any] = {**BATCH}
    for wrong in ({}, {"zero_optimization": True}, {"zero_optimization": None}):
        assert at(told({**values, **wrong}, reader), "zero_optimization").code == "DS956"
    assert told({**values, "zero_optimization": {}}, reader) == []
    null: dict[str, Any] = {"zero_optimization": {"stage": 2, "offload_optimizer": None}}
    assert at(told({**values, **null}, reader), "zero_optimization.offload_optimizer").code == "DS956"


def test_lightning_needs_neither_zero_nor_a_batch_size_and_refuses_accumulation() -> None:
    assert told({"bf16": {"enabled": True}}, "lightning") == []
    found = told({"bf16": {"enabled": True}, "gradient_accumulation_steps": 1}, "lightning")
    assert places(found) == [("DS957", "error", "gradient_accumulation_steps")]


def test_steps_per_print_is_noted_as_written_over() -> None:
    found = validate(hf(steps_per_print=10), reader="transformers")
    assert [(item.severity, item.effect) for item in found if item.code == "DS958"] == [("info", "ignored")]
    assert told(hf(steps_per_print="auto"), "transformers") == []


@pytest.mark.parametrize(
    ("asked", "kind", "lost"),
    [
        ("adafactor", "AdamW", True),
        ("adamw_bnb_8bit", "AdamW", True),
        ("adamw_torch_fused", "adamw", False),
        ("sgd", "SGD", False),
    ],
)
def test_the_files_optimizer_beats_optim(asked: str, kind: str, lost: bool) -> None:
    values = hf(optimizer={"type": kind, "params": {"lr": "auto"}}, zero_allow_untested_optimizer=True)
    found = told(values, "transformers", {"optim": asked})
    assert places(found) == ([("DS961", "error", "optimizer")] if lost else [])


@pytest.mark.parametrize(("asked", "effect"), [("sgd", "coerced"), ("adafactor", "refused"), ("adamw_torch", None)])
def test_an_offloaded_optimizer_is_swapped_for_cpu_adam(asked: str, effect: str | None) -> None:
    values = hf(zero_optimization={"stage": 2, "offload_optimizer": {"device": "cpu"}})
    found = told(values, "transformers", {"optim": asked})
    assert [item.effect for item in found] == ([effect] if effect else [])
    assert told({**values, "zero_force_ds_cpu_optimizer": False}, "transformers", {"optim": asked}) == []


@pytest.mark.parametrize(("asked", "lost"), [("cosine", True), ("constant_with_warmup", False), ("polynomial", True)])
def test_the_files_schedule_beats_lr_scheduler_type(asked: str, lost: bool) -> None:
    values = hf(scheduler={"type": "WarmupLR", "params": {"warmup_max_lr": "auto", "warmup_num_steps": "auto"}})
    found = told(values, "transformers", {"lr_scheduler_type": asked})
    assert places(found) == ([("DS962", "warning", "scheduler.type")] if lost else [])


@pytest.mark.parametrize(
    ("stage", "arguments", "severity"),
    [
        (3, {"auto_find_batch_size": True}, "error"),
        (2, {"auto_find_batch_size": True}, None),
        (2, {"save_only_model": True, "load_best_model_at_end": True}, "error"),
        (2, {"save_only_model": True, "resume_from_checkpoint": "ckpt"}, "warning"),
        (2, {"save_only_model": True}, None),
        (2, {"fsdp": "full_shard"}, "error"),
        (2, {"do_predict": True, "do_train": False}, "error"),
        (2, {"do_predict": True}, "warning"),
        (2, {"do_predict": True, "do_train": True}, None),
        (3, {"do_predict": True, "do_train": False}, None),
    ],
)
def test_arguments_of_the_trainer_that_deepspeed_excludes(
    stage: int, arguments: dict[str, Any], severity: str | None
) -> None:
    zero = {"stage": stage, **({"stage3_gather_16bit_weights_on_model_save": True} if stage == 3 else {})}
    found = told(hf(zero_optimization=zero), "transformers", arguments)
    assert [(item.code, item.severity) for item in found] == ([("DS963", severity)] if severity else [])


def test_settings_beside_a_config_file_in_accelerates_yaml_are_refused() -> None:
    values = {"train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0, "zero_optimization": {"stage": 2}}
    section = {"deepspeed_config_file": "ds_config.json", "zero3_init_flag": True}
    assert told(values, "accelerate", {"deepspeed_config": section}) == []
    found = told(values, "accelerate", {"deepspeed_config": {**section, "zero_stage": 2, "gradient_clipping": 1.0}})
    assert places(found) == [
        ("DS963", "error", "zero_optimization.stage"),
        ("DS963", "error", "gradient_clipping"),
    ]


@pytest.mark.parametrize(
    "arguments", [{"precision": "64-true"}, {"accelerator": "cpu"}, {"gradient_clip_algorithm": "value"}]
)
def test_lightning_refuses_what_deepspeed_cannot_do(arguments: dict[str, Any]) -> None:
    found = told({"zero_optimization": {"stage": 2}}, "lightning", arguments)
    assert [(item.code, item.effect) for item in found] == [("DS963", "refused")]


@pytest.mark.parametrize(
    ("reader", "effect"), [("transformers", "ignored"), ("accelerate", "refused"), ("lightning", "ignored")]
)
def test_an_optimizer_in_the_script_meets_the_files(cli: Cli, tmp_path: Path, reader: str, effect: str) -> None:
    values = {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
        "zero_optimization": {"stage": 2},
    }
    (tmp_path / "ds_config.json").write_text(json.dumps(values))
    done = cli("validate", "--for", reader, "--optimizer", "client", "--format", "json", "ds_config.json")
    found = [item for item in json.loads(done.stdout)["diagnostics"] if item["severity"] != "info"]
    assert [(item["code"], item["effect"]) for item in found] == [("DS964", effect)]


@pytest.mark.parametrize("value", [None, False, "auto"])
def test_stage_3_without_gathering_saves_no_weights(value: Any) -> None:
    zero: dict[str, Any] = {"stage": 3}
    if value is not None:
        zero["stage3_gather_16bit_weights_on_model_save"] = value
    found = told(hf(zero_optimization=zero), "transformers")
    assert places(found) == [("DS965", "warning", "zero_optimization.stage3_gather_16bit_weights_on_model_save")]


@pytest.mark.parametrize("reader", ["transformers", "accelerate", "lightning"])
def test_comments_are_an_error_where_plain_json_is_read(reader: Trainer, tmp_path: Path) -> None:
    file = tmp_path / "ds_config.json"
    text = '{\n  // two\n  "train_micro_batch_size_per_gpu": 2,\n  "zero_optimization": {"stage": 2}\n}\n'
    file.write_text(text)
    (item,) = [item for item in validate(file, reader=reader) if item.code == "DS002"]
    assert (item.severity, item.effect, item.phase) == ("error", "refused", "parse")
    assert item.location is not None and item.location.line == 2
    assert [item.severity for item in validate(file) if item.code == "DS002"] == ["info"]


def test_a_key_that_stands_twice_is_silently_last_for_readers_of_json() -> None:
    text = '{"zero_optimization": {"stage": 1}, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}}'
    for context, effect in ((Context(), "refused"), (Context(reader="transformers"), "ignored")):
        (item,) = [item for item in check(read_text(text, "x.json"), context).diagnostics if item.code == "DS103"]
        assert (item.severity, item.effect) == ("error", effect)


def test_load_types_what_the_reader_has_not_filled_yet() -> None:
    config = load(TEMPLATE, reader="transformers")
    assert config.zero_stage == 3 and config.train_micro_batch_size_per_gpu is None
    with pytest.raises(ConfigError, match="DS951"):
        load({**TEMPLATE, "wall_clock_breakdown": "auto"}, reader="transformers")


def test_the_command_line_names_both_files_and_who_refuses(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(json.dumps(hf(gradient_clipping=0.5), indent=2))
    (tmp_path / "args.json").write_text('{"max_grad_norm": 2.0}')
    done = cli("validate", "--for", "transformers", "--training-args", "args.json", "ds.json")
    assert done.returncode == 1
    assert "`gradient_clipping` is 0.5 here, but `max_grad_norm` is 2.0 in args.json:1:2" in done.stdout
    assert "ds.json:4:24" in done.stdout and "Transformers: refuses this" in done.stdout


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("args.json", "{", "args.json:1:2: not JSON"),
        ("args.yaml", "a: [", "args.yaml:1:5: not YAML"),
        ("args.yaml", "- 1\n", "needs an object"),
        ("args.json", "[1]", "needs an object"),
        ("absent.json", None, "absent.json: no such file"),
    ],
)
def test_arguments_that_cannot_be_read_are_said_in_one_line(
    cli: Cli, tmp_path: Path, name: str, content: str | None, said: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    for command in (("validate", "-"), ("compile", "zero2")):
        done = cli(*command, "--for", "transformers", "--training-args", name, stdin=b"{}")
        assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1


def test_arguments_need_a_reader(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "args.json").write_text("{}")
    done = cli("validate", "--training-args", "args.json", "-", stdin=b"{}")
    assert done.returncode == 2 and "--for" in done.stderr


def test_arguments_are_read_from_json_and_yaml(tmp_path: Path) -> None:
    for name, text in (
        ("a.json", '{"bf16": true}'),
        ("a.yml", "bf16: true  # half\n"),
        ("b.json", '\ufeff{"bf16": true}'),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
        root = read_training_args(tmp_path / name).root
        assert root and plain(root) == {"bf16": True}
    (tmp_path / "c.json").write_bytes(b"\xff\xfe")
    with pytest.raises(TrainingArgsError, match="UTF-8"):
        read_training_args(tmp_path / "c.json")


def test_the_compiler_keeps_what_the_reader_fills(cli: Cli, tmp_path: Path) -> None:
    filled = ("train_micro_batch_size_per_gpu=auto", "optimizer.params.lr=auto", "zero_optimization.stage=auto")
    assert cli("compile", "zero2", *filled).returncode == 1
    done = cli("compile", "zero2", *filled, "--for", "transformers", "-o", "out.json")
    assert done.returncode == 0, done.stderr
    values = json.loads((tmp_path / "out.json").read_text())
    assert values["train_micro_batch_size_per_gpu"] == values["optimizer"]["params"]["lr"] == "auto"
    assert values["zero_optimization"]["stage"] == "auto" and len(values["zero_optimization"]) > 1
    assert cli("compile", "zero2", "wall_clock_breakdown=auto", "--for", "transformers").returncode == 1


def test_profiles_name_only_keys_that_deepspeed_has() -> None:
    from dsconf.models.config import DeepSpeedConfig
    from dsconf.models.index import walk

    known = {path for path, _, _ in walk(DeepSpeedConfig)}
    for profile in PROFILES.values():
        notes = (*profile.refuses, *profile.overrides, *profile.drops)
        assert {item.path for item in (*profile.keys, *notes)} <= known


def test_readers_are_known_without_their_packages() -> None:
    root = Path(__file__).resolve().parent.parent
    script = f"import sys; sys.path.insert(0, {str(root)!r}); import dsconf.readers; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"transformers", "accelerate", "lightning", "torch", "deepspeed", "pydantic", "yaml"}
