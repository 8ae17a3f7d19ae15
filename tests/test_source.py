"""Reading ds_config texts: agreement with hjson, places of keys and values, and what is said of unreadable files."""

from __future__ import annotations

import io
import json
import math
import pathlib
import random
import re
from collections import OrderedDict
from typing import Any

import hjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dsconf.source import (
    MAX_DEPTH,
    Array,
    Document,
    Node,
    Object,
    Position,
    Scalar,
    Span,
    find,
    from_python,
    plain,
    read_bytes,
    read_file,
    read_text,
)
from dsconf.source.read import MAX_BYTES

CONFIG = """{
  // batch
  "train_batch_size": 16, # in all
  "fp16": {"enabled": auto
  },
  optimizer: {
    type: 'AdamW',
    "params": {
      "lr": 5e-5, "betas": [0.9, 0.999,],
      /* none */ weight_decay: 0.0
    }
  }
}
"""


def engine(text: str) -> dict[str, Any] | None:
    """Read the text as DeepSpeed would read a file of it; None if it does not get a usable object out of it."""
    file = io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")
    try:
        value = hjson.load(file)
    except (ValueError, IndexError, OverflowError):
        return None
    # hjson reads a few texts more that dsconf refuses on purpose: a root that is a list or a scalar, a file without
    # any setting (for which it makes up a dict, where what it reads are OrderedDicts), and half surrogate pairs.
    readable = isinstance(value, OrderedDict) and not re.search("[\ud800-\udfff]", repr_of(value))
    return value if readable else None


def repr_of(value: object) -> str:
    """Tell 1, 1.0 and True apart, which == does not; keep every character as it is."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{repr_of(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(repr_of, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def assert_agrees(text: str) -> None:
    document = read_text(text, "ds_config.json")
    expected = engine(text)
    if expected is None:
        assert document.root is None and len(document.faults) == 1
        fault = document.faults[0]
        assert fault.message and fault.help
        assert 0 <= fault.span.start <= fault.span.end <= len(text)
    else:
        assert document.faults == () and document.root is not None
        assert repr_of(plain(document.root)) == repr_of(expected)
        assert_spans(document, document.root)


def assert_spans(document: Document, node: Node) -> None:
    """Every scalar lies where its text is, and everything lies in order inside what holds it."""
    assert node.span is not None
    if isinstance(node, Scalar):
        assert document.text[node.span.start : node.span.end] == node.text
        return
    last = node.span.start
    for child in node.members if isinstance(node, Object) else node.items:
        if not isinstance(child, (Scalar, Array, Object)):
            assert child.key_span is not None and last <= child.key_span.start < child.key_span.end
            last, child = child.key_span.end, child.value
        assert child.span is not None and last <= child.span.start <= child.span.end <= node.span.end
        assert_spans(document, child)
        last = child.span.end


TRICKY = [
    # plain JSON and braces
    "{}", " { } ", '{"a": 1}', '{"a": {"b": []}}', '{"a": [{}, [], [[]]]}', "a: 1", "a: 1\nb: 2", "a: 1, b: 2\n",
    "a: {}",
    # commas
    '{"a": 1,}', '{"a": [1,]}', '{"a": 1 "b": 2}', '{"a": 1\n"b": 2}', '{"a": "x" "b": "y"}', '{"a": [1\n2\n3]}',
    '{"a": ["x" "y"]}', "{,}", '{"a": [,]}', '{"a": [1,,2]}', '{"a": 1,,}', '{,"a": 1}', "a: 1,", ",a: 1",
    # comments
    "# c\n{}", "// c\n{}", "/* c */{}", "{}//", "{}#", "{} /* x */ ", "{/*/}", "/* open", "{} /*", "/**/a:/**/1/**/",
    "{a /*c*/: 1}",
    "{a: 8 # per node\n}", "{a: 8 // x\n}", "{a: 8/2}", "{a: true, // x\n}", "{a: auto # x\n}", "{a: null/**/}",
    "{a#b: 1}",
    "{a//b: 1}", "{a/: /}", "{/ : 1}",
    # keys
    "{a: 1}", "{a :1}", "{a\n:1}", "{a b: 1}", "{a\x0b: 1}", "{a\x0b : 1}", "{\xa0 : 1}", "{: 1}", "{'': 1}", "{a}",
    "{a", "{a{: 1}", "{a,: 1}",
    "{'a': 1}", "{'''a''': 1}", '{"a"}', '{"a" 1}', '{"a" = 1}', "{a = 1}", "{a=1}", '{"a"', '{"a":', '{"a": 1',
    "{a:1, a:2}",
    # quoteless strings and constants
    "{a: auto\n}", "{a: auto}", "{a: true}", "{a: true x\n}", "{a: True\n}", "{a: null\x0b\n}", "{a: \xa0true\n}",
    "{a: \xa0\n}", "{a: x, b: 2\n}",
    "{a: falsey\n}", "a: x", "a: x }", "a: 1 }", "{a: x\r\n}", "{a: x\r}", "{a:\n x\n}", "{a: }", "{a: ,}", "{a: ]}",
    "{a: :}", "{a: - 1\n}",
    # numbers
    *(
        f"{{a: {number}}}"
        for number in (
            "0", "-0", "-0.0", "1.0", "1.5", "5e8", "5E+8", "1e9", "9999999999.0", "10000000000.0", "1e10", "-1e10",
            "1e30", "1e-400", "1e400",
            "-1e400", "01", "+1", ".5", "1.", "1e", "1e+", "-", "--1", "0x10", "1_000", "NaN", "Infinity",
            "-Infinity", "1\u0662", "1.\u0663",
            "9223372036854775808", "1" * 4300, "-" + "1" * 4300, "1" * 4301, "-" + "1" * 4301, "1" * 5000 + ".5",
            "0." + "1" * 5000,
        )
    ),
    "{a: 1\t }", "{a: 1\x0b}", "{a: 1\x0b\n}", "{a: 1 2\n}", "a: 5e8", "{a: 1\n}",
    # strings
    r'{"a": "\" \\ \/ \b \f \n \r \t \' x"}', r"{'a': '\" \''}", "{'a': 'say \"x\"'}", '{"a": "it\'s"}',
    r'{"a": "\u0041\u00e9"}', r'{"a": "\ud83d\ude00"}',
    r'{"a": "\ud83d"}', r'{"a": "\ude00\ud83d"}', r'{"a": "\ud83d\u0041"}', r'{"a": "\ud83d\u00"}',
    r'{"a": "\u1_23"}', r'{"a": "\u 123"}', r'{"a": "\u-001"}',
    r'{"a": "\u0x41"}', r'{"a": "\u004"}', r'{"a": "\q"}', '{"a": "\\', '{"a": "x', '{"a": "x\n"}', '{"a": "x\ty"}',
    '{"a": "\x7f\x85\u2028"}', "{'a: 1}", '{"a": "x"y"}',
    "{a: ''}", '{a: "x",\n"b": "y"}', '{"type: "Adam"}',
    # multi-line strings
    "{a: '''x'''}", "{a: '''x'''\n}", "{a: '''x\n y\n'''\n}", "{\n  a: '''\n    x\n   y\n  z\n z\n  '''\n}",
    "{\n  a:\n    '''\n    x\n      y\n\n    '''\n}",
    "{\r\n  a: '''\r\n  x\r\n  '''\r\n}", "{\r  a: '''\r  x\r  '''\r}", "{a: ''''''\n}", "{a: '''''x'''\n}",
    "{a: ''''x''''\n}", "{a: '''\n'''\n}", "{a: '''\n\n'''\n}",
    "{a: '''  \t x'''\n}", "{a: '''x", "{a: '''", "{a: '''\\n'''\n}", "\n{\n\ta: '''\n\t\tx\n   y'''}",
    "{a: '''x\n      y''', b: 1}", "\ufeff{a: '''x\n         y'''}\n\t\t",
    # the whole file
    "", " \n", "# c", "\ufeff", "\ufeff{}", "\ufeff a: 1", "\ufeff\ufeff{}", "\xef\xbb\xbf{}", "[]", "[1]", "[", "1",
    "true", "x", '"x"', "'''x'''\n", "null",
    "{} {}", "{}}", "{}]", "{} x", '{"a": {}}, "b": 1}', '{"a": 1]', '{"a": [1}', "{", "[1", '{"a": [', '{"a": [1',
    "}", "]", ":", "{{ x }}", '{"a": {{ x }} }',
    '{"a": ${X}}', '{"a": ${X}\n}', '{"a": <X>,\n}', "<!DOCTYPE html>\n<p>x</p>",
    "train_batch_size: 8\nfp16:\n  enabled: true\n", "[fp16]\nenabled = 1",
]  # fmt: skip


@pytest.mark.parametrize("text", TRICKY, ids=lambda text: ascii(text)[:40])
def test_reads_what_hjson_reads(text: str) -> None:
    assert_agrees(text)


PIECES = st.sampled_from(
    [
        "{", "}", "[", "]", ":", ",", '"', "'", "'''", "\n", "\r\n", "\r", " ", "\t", "#", "//", "/*", "*/", "/",
        "\\", "\\u", "d83d", "ude00", "a", "stage", '"a"', "'b'", '"fp16":', "a:", "true", "null", "false", "auto",
        "1", "0", "-", ".", "5e8", "e", "1.0", "\xa0", "\x0b", "é", "😀", "\ufeff",
    ]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=30).map("".join), st.booleans())
@example("a:'''\n'", True)
def test_agrees_with_hjson_on_fragments(text: str, braces: bool) -> None:
    assert_agrees("{" + text + "}" if braces else text)


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6), st.sampled_from(["\n", "\r\n", "\r", " "]))
def test_agrees_with_hjson_on_damaged_configs(seed: int, edits: int, line_end: str) -> None:
    draw = random.Random(seed)
    text = CONFIG
    for _ in range(edits):
        start = draw.randrange(len(text))
        insert = draw.choice(["", "", *"{}[]:,\"'\n #", "'''", "\\", "true", "1e5", draw.choice(CONFIG)])
        text = text[:start] + insert + text[start + draw.choice([0, 1, 1, 3]) :]
    assert_agrees(text.replace("\n", line_end))


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab\"'\\\n é😀"), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.text("ab\"'\\\n é😀"), JSON_VALUES, max_size=5),
    st.sampled_from([None, 0, 2, "\t"]),
    st.booleans(),
)
def test_spans_of_json_cover_exactly_keys_and_values(
    value: dict[str, Any], indent: int | str | None, ascii_only: bool
) -> None:
    document = read_text(json.dumps(value, indent=indent, ensure_ascii=ascii_only), "x")
    assert document.root is not None and document.extensions == ()

    def check(node: Node, expected: object) -> None:
        assert node.span is not None
        assert json.loads(document.text[node.span.start : node.span.end]) == expected
        if isinstance(node, Object):
            for member in node.members:
                assert member.key_span is not None
                assert json.loads(document.text[member.key_span.start : member.key_span.end]) == member.key
                check(member.value, expected[member.key])  # type: ignore[index]
        elif isinstance(node, Array):
            for index, item in enumerate(node.items):
                check(item, expected[index])  # type: ignore[index]

    check(document.root, value)
    assert plain(document.root) == value


def place_of(document: Document, *path: str | int) -> tuple[str | None, str]:
    assert document.root is not None
    place = find(document.root, path)
    assert place is not None and place.node.span is not None
    key = place.key_span and document.text[place.key_span.start : place.key_span.end]
    return key, document.text[place.node.span.start : place.node.span.end]


def test_find_gives_the_places_of_key_and_value() -> None:
    document = read_text(CONFIG, "x")
    assert place_of(document, "train_batch_size") == ('"train_batch_size"', "16")
    assert place_of(document, "fp16", "enabled") == ('"enabled"', "auto")
    assert place_of(document, "optimizer", "type") == ("type", "'AdamW'")
    assert place_of(document, "optimizer", "params", "betas") == ('"betas"', "[0.9, 0.999,]")
    assert place_of(document, "optimizer", "params", "betas", 1) == (None, "0.999")
    assert place_of(document) == (None, CONFIG.strip())
    assert document.root is not None
    for path in (("fp32",), ("fp16", "enabled", "x"), ("optimizer", "params", "betas", 2), ("optimizer", 0), (0,)):
        assert find(document.root, path) is None


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_positions_count_lines_and_code_points(line_end: str) -> None:
    text = line_end.join(["{", '  "name": "é😀", "stage": 2,', "", "  x: 1", "}"])
    document = read_text(text, "x")
    assert document.root is not None
    stage, x = document.root.members[1], document.root.members[2]
    assert stage.key_span is not None and stage.value.span is not None and x.key_span is not None
    assert document.position(stage.key_span.start) == Position(2, 17, stage.key_span.start)
    assert document.position(stage.value.span.start) == Position(2, 26, stage.value.span.start)
    assert document.position(x.key_span.start) == Position(4, 3, x.key_span.start)
    assert document.position(len(text)).line == 5 and document.position(10**9) == document.position(len(text))
    assert [document.line(number) for number in range(7)] == ["", *re.split("\r\n|\r|\n", text), ""]


def test_a_byte_order_mark_is_read_noted_and_takes_no_column() -> None:
    document = read_bytes(b'\xef\xbb\xbf{"a": 1}', "x")
    assert document.root is not None and plain(document.root) == {"a": 1}
    assert [extension.kind for extension in document.extensions] == ["byte-order-mark"]
    assert document.root.span == Span(1, 9) and document.position(1) == Position(1, 1, 1)
    assert document.line(1) == '{"a": 1}'


def test_duplicate_keys_stay_in_the_tree_and_the_last_one_counts() -> None:
    document = read_text('{"a": 1, "b": 2, "a": {"c": 3}}', "x")
    root = document.root
    assert root is not None and [member.key for member in root.members] == ["a", "b", "a"]
    assert root.keys() == ("a", "b") and plain(root) == {"a": {"c": 3}, "b": 2}
    assert root.get("a") is root.members[2] and root.get("z") is None
    assert place_of(document, "a", "c") == ('"c"', "3")


def test_numbers_keep_their_literal_text_and_hjson_value() -> None:
    document = read_text('{"a": 5e8, "b": 10.0, "c": 1e10, "d": 0.1}', "x")
    assert document.root is not None
    scalars = [member.value for member in document.root.members]
    assert [(s.text, s.value, type(s.value), s.style) for s in scalars if isinstance(s, Scalar)] == [
        ("5e8", 500000000, int, "json"),
        ("10.0", 10, int, "json"),
        ("1e10", 1e10, float, "json"),
        ("0.1", 0.1, float, "json"),
    ]


@pytest.mark.parametrize(
    ("text", "style", "value", "literal"),
    [
        ("{a: auto, // x\n}", "quoteless", "auto, // x", "auto, // x"),
        ("{a: 8 per node # x\n}", "quoteless", "8 per node # x", "8 per node # x"),
        ("{a: 8 # per node\n}", "json", 8, "8"),
        ("{a: true, // x\n}", "json", True, "true"),
        ("{a: 'x'}", "single-quoted", "x", "'x'"),
        ("{a: '''x'''\n}", "multiline", "x", "'''x'''"),
    ],
)
def test_scalars_tell_how_they_were_written(text: str, style: str, value: object, literal: str) -> None:
    document = read_text(text, "x")
    assert document.root is not None
    scalar = document.root.members[0].value
    assert isinstance(scalar, Scalar) and (scalar.style, scalar.value, scalar.text) == (style, value, literal)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": [1, "x", {}], "b": null}', {}),
        ('{"a": 1 // one\n, "b": 2 # two\n}', {"comment": "// one"}),
        ('{"a": [1,], "b": 2,}', {"trailing-comma": ","}),
        ('{"a": 1\n"b": "x" "c": 3}', {"missing-comma": ""}),
        ('{a: 1, "b": 2}', {"unquoted-key": "a"}),
        ('{"a": auto,\n}', {"quoteless-string": "auto,"}),
        ("{'a': 1}", {"single-quoted": "'a'"}),
        ("{\"a\": 'x'}", {"single-quoted": "'x'"}),
        ("{\"a\": '''x'''\n}", {"multiline-string": "'''x'''"}),
        ('"a": 1, "b": 2', {"no-root-braces": '"a"'}),
    ],
)
def test_extensions_of_json_are_listed_at_their_first_place(text: str, expected: dict[str, str]) -> None:
    document = read_text(text, "x")
    assert document.root is not None
    assert {e.kind: text[e.span.start : e.span.end] for e in document.extensions} == expected


FAULTS = [
    ("", "the file is empty", ""),
    (" \n", "only blanks and comments", " \n"),
    ("# x\n", "only blanks and comments", "# x\n"),
    ("[1, 2]", "holds a list; a ds_config is an object", "["),
    ("17", "holds a single value; a ds_config is an object", "17"),
    ('"x"', "holds a single value", '"x"'),
    ("some words", "holds a single value", "some words"),
    ('{"stage" 2}', "a ':' is missing after the key \"stage\"", '"stage"'),
    ("{stage 2}", "a ':' is missing after the key \"stage\"", "stage"),
    ('{"stage" = 2}', "'=' stands where ':' belongs, after the key \"stage\"", "="),
    ("{stage = 2}", "'=' stands where ':' belongs, after the key \"stage\"", "="),
    ("{stage=2}", "'=' stands where ':' belongs, after the key \"stage\"", "="),
    ('{"type: "Adam"}', 'the closing quote of the key "type" is missing', '"type: "'),
    ("{train batch size: 8}", 'the key "train batch size" has blanks in it', "train batch size"),
    ("{: 8}", "there is no key before this ':'", ":"),
    ("{a: 1,, b: 2}", "there is a ',' too many", ","),
    ('{"a": }', 'the key "a" has no value', "}"),
    ('{"a":', 'the key "a" has no value', ""),
    ('{"a":: 1}', "there is a ':' too many", ":"),
    ('{"a": [1, , 2]}', "a list item is missing", ","),
    ('{"a": ["b": 1]}', "a ':' cannot stand in a list", ":"),
    ('{"a": [1, 2}', "this '}' stands in a list that is still open", "}"),
    ('{"a": 1]', "this ']' stands in an object that is still open", "]"),
    ('{\n"a": {"b": 1}\n', "this '{' is never closed", "{"),
    ('{"a": [1', "this '[' is never closed", "["),
    ('{"a": [', "this '[' is never closed", "["),
    ('{"a": auto}', "takes the '}' with it", "auto}"),
    ('{"a": "x,\n"b": 1}', 'the text "x," is not closed on its line', '"x,'),
    ('{"a": "x\ty"}', "a control character (U+0009)", "\t"),
    (r'{"a": "C:\data"}', r"'\d' is not an escape", r"\d"),
    (r'{"a": "\u12"}', "four hexadecimal digits", r'\u12"}'),
    (r'{"a": "\ud800"}', r"\ud800 is half of a surrogate pair", r"\ud800"),
    ('{"a": 1} // x\n}', "closes nothing: the config has already ended", "}"),
    ('{"a": {}}, "b": 1}', "text after the end", ', "b": 1}'),
    ('"a": 1\n}', "this '}' closes nothing", "}"),
    ('{"a": {{ x }} }', "a key is missing before this '{'", "{"),
    ("{/* x", "the comment that begins with /* is never closed", "/*"),
    ("{a: '''x\n}", "begins with ''' is never closed", "'''"),
    ("{a: '''x'''}", "a ''' text in a file without any line end", "'''"),
    ('{"a": 1e400}', 'the number "1e400" is too large', "1e400"),
    ('{"a": -' + "1" * 5000 + "}", "the number has 5000 digits", "-" + "1" * 5000),
    ("{a: '\ud800'}", "half of a character", "\ufffd"),
]


@pytest.mark.parametrize(("text", "message", "marked"), FAULTS, ids=[message for _, message, _ in FAULTS])
def test_a_fault_says_what_is_wrong_and_where(text: str, message: str, marked: str) -> None:
    document = read_text(text, "ds_config.json")
    assert document.root is None and len(document.faults) == 1
    fault = document.faults[0]
    assert message in fault.message and fault.help and "\n" not in fault.message + fault.help
    assert document.text[fault.span.start : fault.span.end] == marked


def test_the_fault_of_an_unclosed_object_lies_at_the_innermost_open_brace() -> None:
    document = read_text('{\n  "a": {\n    "b": {"c": 1}\n', "x")
    assert document.position(document.faults[0].span.start) == Position(2, 8, 9)


@pytest.mark.parametrize(
    "text",
    ['{"a": {{ x }} }', '{"a": ${X}}', '{"a": <LR>}', '{\n  {% if fp16 %}\n  "fp16": {}\n}'],
)
def test_help_names_a_template_placeholder_on_the_line(text: str) -> None:
    assert "placeholder: fill the template in first" in read_text(text, "x").faults[0].help


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ("[{a:", "}]")])
def test_nesting_is_limited_without_reaching_pythons_recursion_limit(opening: str, closing: str) -> None:
    def nested(depth: int) -> str:
        times = (depth - 1) // len(closing)
        return '{"a":' + opening * times + "[]" + closing * times + "}"

    assert_agrees(nested(MAX_DEPTH - 1))
    for depth in (MAX_DEPTH + 1, 100_000):
        document = read_text(nested(depth), "x")
        assert "nested more than 100 levels" in document.faults[0].message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('{"a": 1}'.encode("utf-16"), "saved as UTF-16"),
        ('{"a": 1}'.encode("utf-16-le"), "saved as UTF-16"),
        ('{"a": 1}'.encode("utf-16-be"), "saved as UTF-16"),
        ('{"a": 1}'.encode("utf-32"), "saved as UTF-32"),
        ('{"a": 1}'.encode("utf-32-le"), "saved as UTF-32"),
        ('{"a": 1}'.encode("utf-32-be"), "saved as UTF-32"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\xff", "binary data"),
        (b"\x1f\x8b\x08\x02\xff\xff", "binary data"),
        (b'{"a": "\x00"}', "binary data"),
        (b" " * (MAX_BYTES + 1), "larger than 16 MiB"),
    ],
)
def test_bytes_that_are_no_utf8_text_are_named(data: bytes, message: str) -> None:
    document = read_bytes(data, "x")
    assert document.root is None and len(document.faults) == 1 and message in document.faults[0].message
    assert document.position(document.faults[0].span.start) == Position(1, 1, 0) and document.faults[0].help


def test_a_byte_that_is_not_utf8_is_placed_by_byte_and_by_column() -> None:
    document = read_bytes('{\n"é": "'.encode() + b'\xe9"}', "x")
    assert "byte 0xe9 at byte offset 9" in document.faults[0].message
    assert document.position(document.faults[0].span.start) == Position(2, 7, 8)
    assert document.line(2) == '"é": "\ufffd"}'


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60) | st.text(st.sampled_from("{}\0\ud800'\"a:"), max_size=20))
def test_nothing_is_raised_whatever_the_content(content: bytes | str) -> None:
    document = read_bytes(content, "x") if isinstance(content, bytes) else read_text(content, "x")
    assert (document.root is None) == (len(document.faults) == 1)
    for fault in document.faults:
        document.position(fault.span.start)
        (fault.message + fault.help).encode()


def test_a_file_is_read_by_its_path(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ds_config.json"
    path.write_bytes(b'{"a": 1}\r\n')
    document = read_file(path)
    assert document.filename == str(path) and document.text == '{"a": 1}\r\n'
    assert document.root is not None and plain(document.root) == {"a": 1}
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "missing.json")
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path)


def test_python_values_become_a_tree_without_places() -> None:
    node = from_python({"a": (1, 2.0, None, True), "b": {"c": pathlib.Path("x/y")}, "d": math.inf})
    assert plain(node) == {"a": [1, 2.0, None, True], "b": {"c": "x/y"}, "d": math.inf}
    assert isinstance(node, Object) and node.span is None and node.members[0].key_span is None
    place = find(node, ("a", 1))
    assert place is not None and place.node == Scalar(2.0, None, "2.0", "json")
    not_a_number = from_python(math.nan)
    assert isinstance(not_a_number, Scalar) and isinstance(not_a_number.value, float) and math.isnan(not_a_number.value)


def test_python_values_a_config_cannot_hold_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"fp16: the key 1 is of type int; keys must be str"):
        from_python({"fp16": {1: 2}})
    with pytest.raises(TypeError, match=r"a\.0: a value of type set cannot stand in a ds_config"):
        from_python({"a": [set()]})
    loop: dict[str, Any] = {}
    loop["a"] = loop
    with pytest.raises(ValueError, match="nested more than 100 levels"):
        from_python(loop)
