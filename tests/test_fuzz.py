"""Whatever it is given, dsconf answers with diagnostics that point into the text, and with nothing else.

`DSCONF_FUZZ_INPUTS` sets the number of inputs for a longer search, which then also differs from run to run.
"""

from __future__ import annotations

import copy
import json
import os
from random import Random
from typing import Any
from xml.etree.ElementTree import fromstring

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dsconf import ConfigError, load, presets, validate
from dsconf.blocks import homes
from dsconf.check import Report, check
from dsconf.report import FORMATS, Output, Style, report
from dsconf.report.text import full
from dsconf.rules import RULES
from dsconf.rules.rule import Context
from dsconf.source import Document, Position, read_bytes, read_text
from proof.mutate import ODD_VALUES, Tree, mutated

INPUTS = int(os.environ.get("DSCONF_FUZZ_INPUTS", "2400"))
fuzzed = settings(
    max_examples=max(1, INPUTS // 4),
    deadline=None,
    database=None,
    derandomize="DSCONF_FUZZ_INPUTS" not in os.environ,
    suppress_health_check=list(HealthCheck),
)

CONTEXTS = (
    Context(),
    Context(world_size=1),
    Context(world_size=8, optimizer="client", device="cuda", exports=True),
    Context(world_size=3, optimizer="none", device="cpu", exports=False, reader="transformers", training_args={}),
    Context(optimizer="config", reader="accelerate"),
)
#: The presets, and what the rules show as right and wrong.
CONFIGS: tuple[Tree, ...] = (
    *(presets.read(name) for name in presets.names()),
    *(json.loads(rule.example("bad")) for rule in RULES if isinstance(rule.bad, dict)),
    *(json.loads(rule.example("good")) for rule in RULES if isinstance(rule.good, dict)),
)
KEYS = tuple(sorted(homes()))

keys = st.sampled_from(KEYS) | st.text(max_size=8)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(ODD_VALUES)
    | st.sampled_from((10**400, -(10**4000), 1e308, 5e-324, "\ud800", "\x00", "\x1b[31m", "e\u0301", "x" * 300))
)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=6),
    max_leaves=12,
)
contexts = st.sampled_from(CONTEXTS)


def examine(document: Document, context: Context) -> Report:
    """Check a document twice and print what was found in every way."""
    found = check(document, context)
    assert check(document, context).diagnostics == found.diagnostics
    assert (found.config is None) == any(item.severity == "error" for item in found.diagnostics)
    assert document.root is not None or found.config is None
    for item in found.diagnostics:
        assert_places(document, item.location, item.end_location)
        assert item.location is not None
        for related in item.related:
            assert_places(document, related.location, related.end_location)
        assert full(item, document, Style(color=True, links=True))
    written: dict[str, str] = {}
    for name in FORMATS:
        lines: list[str] = []
        shown = report(name, Output(lines.append, show_info=True))
        shown.add(document, found.diagnostics)
        shown.end()
        written[name] = "".join(lines)
    codes = [item.code for item in found.diagnostics]
    assert [item["code"] for item in json.loads(written["json"])["diagnostics"]] == codes
    assert [json.loads(line)["code"] for line in written["jsonl"].splitlines()] == codes
    assert [item["ruleId"] for item in json.loads(written["sarif"])["runs"][0]["results"]] == codes
    assert len(fromstring(written["junit"])[0]) == max(1, len(codes))
    assert written["github"].count("\n") == len(codes) + 1 and written["concise"].count("\n") == len(codes)
    return found


def assert_places(document: Document, start: Position | None, end: Position | None) -> None:
    """Both places lie in the text, in this order, and their lines and columns agree with their offsets."""
    assert (start is None) == (end is None)
    if start is None or end is None:
        return
    assert 0 <= start.offset <= end.offset <= len(document.text)
    assert (document.position(start.offset), document.position(end.offset)) == (start, end)
    assert start.line >= 1 and start.column >= 1


def examine_tree(tree: Any, context: Context) -> None:
    """Check a tree as the text of a file; the library's doors for mappings take it or raise a `ConfigError`."""
    examine(read_text(json.dumps(tree), "ds_config.json"), context)
    if not isinstance(tree, dict):
        return
    before = repr(tree)
    found = validate(tree, world_size=context.world_size)
    assert repr(validate(copy.deepcopy(tree), world_size=context.world_size)) == repr(found)
    try:
        config = load(tree, world_size=context.world_size)
    except ConfigError as error:
        assert repr(error.diagnostics) == repr(found)
    else:
        assert not any(item.severity == "error" for item in found)
        # What was loaded is a configuration in its own right.
        assert load(json.loads(config.to_json())) == config
    assert repr(tree) == before


@fuzzed
@given(st.text(max_size=400) | st.text(alphabet="{}[]:,\"'# \n\r\t/*-+.0123456789eEtrufalsn\\", max_size=200), contexts)
@example("", CONTEXTS[0])
@example("\ufeff{}", CONTEXTS[0])
@example("[" * 50_000, CONTEXTS[0])
@example('{"a":' * 50_000, CONTEXTS[0])
@example("{" + "}" * 10, CONTEXTS[0])
@example('{"zero_optimization": {"stage": ' + "9" * 6000 + "}}", CONTEXTS[0])
def test_any_text_is_answered(text: str, context: Context) -> None:
    examine(read_text(text, "ds_config.json"), context)


@fuzzed
@given(st.binary(max_size=400), contexts)
def test_any_bytes_are_answered(data: bytes, context: Context) -> None:
    examine(read_bytes(data, "ds_config.json"), context)


@fuzzed
@given(trees | st.dictionaries(keys, trees, max_size=8), contexts)
def test_any_tree_is_answered(tree: Any, context: Context) -> None:
    examine_tree(tree, context)


@fuzzed
@given(st.sampled_from(CONFIGS), st.randoms(use_true_random=False), st.integers(1, 6), contexts)
def test_a_spoilt_configuration_is_answered(config: Tree, random: Random, times: int, context: Context) -> None:
    examine_tree(mutated(config, random, times), context)
