"""Which keys DeepSpeed looks up, and with which defaults, read from the source of the installed release.

A block that DeepSpeed parses with Pydantic is found as its class; one that it takes as a plain dict is followed
through the functions that it is handed to. Nothing is run: names and constants are looked up in DeepSpeed's own
modules, and a value that depends on a configuration stays unknown.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path as File
from types import FunctionType, ModuleType
from typing import Any, TypeAlias

from pydantic import BaseModel
from pydantic.v1 import BaseModel as OlderBaseModel

Path: TypeAlias = "tuple[str, ...]"

#: Stands in a path for any key of a mapping and any place of a list.
EACH = "*"


#: A class that DeepSpeed reads a block with; up to 0.14.5 it is one of Pydantic 1's.
Model: TypeAlias = "type[BaseModel] | type[OlderBaseModel]"


def annotations(cls: Model) -> list[tuple[str, Any]]:
    """The fields of such a class, with their types."""
    if issubclass(cls, OlderBaseModel):
        return [(name, item.outer_type_) for name, item in cls.__fields__.items()]
    return [(name, item.annotation) for name, item in cls.model_fields.items()]


class _Unknown:
    """A value that only a configuration could tell, or the absence of one."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = _Unknown()


@dataclass(frozen=True, slots=True)
class Lookup:
    """A key that DeepSpeed's code looks up. `default` is `UNKNOWN` where the look-up gives none."""

    default: Any
    source: str


@dataclass(frozen=True, slots=True)
class _Block:
    """The part of the configuration at a path."""

    path: Path


@dataclass(frozen=True, slots=True)
class _Items:
    """The items of such a part, gone through in a loop."""

    block: _Block


@dataclass(frozen=True, slots=True)
class _Self:
    """An instance of one of DeepSpeed's classes."""

    cls: type


@dataclass(slots=True)
class Lookups:
    """Everything that was found, by path from the root of the configuration."""

    keys: dict[Path, list[Lookup]] = field(default_factory=dict)
    models: dict[Path, Model] = field(default_factory=dict)
    results: dict[Any, Any] = field(default_factory=dict)
    running: list[FunctionType] = field(default_factory=list)

    def follow(self, where: str, given: dict[str, Path]) -> None:
        """Follow a function, `module:qualified.name`, whose named arguments hold parts of the configuration.

        A name may also be an attribute of `self`.
        """
        module, _, name = where.partition(":")
        owner: Any = import_module(module)
        found: Any = owner
        for part in name.split("."):
            owner, found = found, inspect.getattr_static(found, part)
        names: dict[str, Any] = {name: _Block(path) for name, path in given.items()}
        if isinstance(owner, type):
            names["self"] = names["cls"] = _Self(owner)
        self.function(getattr(found, "__func__", found), names)

    def function(self, function: FunctionType, names: dict[str, Any], caller: str = "") -> Any:
        """Follow a function; what it returns, as far as that can be said."""
        mark = (function, *sorted((name, repr(value)) for name, value in names.items()))
        if mark in self.results or function in self.running:
            return self.results.get(mark, UNKNOWN)
        try:
            lines, first = inspect.getsourcelines(function)
        except OSError:
            # Written by a decorator, such as the constructor of a dataclass.
            return UNKNOWN
        tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
        if not isinstance(tree, ast.FunctionDef):
            return UNKNOWN
        self.running.append(function)
        self.results[mark] = _Reader(self, function, names, first - 1, caller).read(tree)
        self.running.pop()
        return self.results[mark]


@dataclass(slots=True)
class _Reader:
    """One function on its way from the first statement to the last; every branch is taken."""

    found: Lookups
    function: FunctionType
    names: dict[str, Any]
    offset: int
    caller: str
    result: Any = UNKNOWN

    def read(self, tree: ast.FunctionDef) -> Any:
        for name, parameter in inspect.signature(self.function).parameters.items():
            if parameter.default is not parameter.empty:
                self.names.setdefault(name, parameter.default)
        self.statements(tree.body)
        return self.result

    def statements(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[target], value=value):
                self.assign(target, self.value(value))
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.assign(target, self.value(value))
            case ast.Return(value=ast.expr() as value):
                result = self.value(value)
                if result is not UNKNOWN and not isinstance(self.result, _Block):
                    self.result = result
            case ast.For(target=target, iter=iterable, body=body):
                for item in self.items(self.value(iterable)):
                    self.assign(target, item)
                    self.statements(body)
            case ast.ImportFrom(module=module, names=names, level=level):
                self.bring(module or "", names, level)
            case ast.FunctionDef() | ast.ClassDef():
                pass
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.stmt):
                        self.statement(child)
                    elif isinstance(child, ast.expr):
                        self.value(child)
                    elif isinstance(child, ast.ExceptHandler):
                        self.statements(child.body)

    def bring(self, module: str, names: list[ast.alias], level: int) -> None:
        package = self.function.__module__.rsplit(".", level)[0] if level else ""
        try:
            source = import_module(".".join(filter(None, (package, module))))
        except ImportError:
            return
        for item in names:
            self.names[item.asname or item.name] = getattr(source, item.name, UNKNOWN)

    def assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Tuple):
            parts = value if isinstance(value, tuple) and len(value) == len(target.elts) else [UNKNOWN] * 99
            for part, item in zip(target.elts, parts, strict=False):
                self.assign(part, item)
        elif isinstance(target, ast.Subscript):
            container = self.value(target.value)
            if isinstance(container, dict) and isinstance(key := self.value(target.slice), _Items):
                # Whatever the block holds goes over a dict of defaults, whose keys are thereby the block's.
                for name, default in container.items():
                    self.record((*key.block.path, name), default, target)
        elif not isinstance(self.names.get(ast.unparse(target)), _Block) or isinstance(value, _Block):
            self.names[ast.unparse(target)] = value

    def items(self, value: Any) -> list[Any]:
        if isinstance(value, _Items):
            return [(value, _Block((*value.block.path, EACH)))]
        if isinstance(value, _Block):
            return [_Block((*value.path, EACH))]
        return list(value) if isinstance(value, (list, tuple, dict, set)) else [UNKNOWN]

    def value(self, node: ast.expr) -> Any:
        """What an expression is, as far as that can be said; look-ups in it are recorded on the way."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self.names.get(name, self.function.__globals__.get(name, UNKNOWN))
            case ast.Attribute(value=inner, attr=name):
                known = self.names.get(ast.unparse(node), UNKNOWN)
                return known if known is not UNKNOWN else self.attribute(self.value(inner), name)
            case ast.Subscript(value=inner, slice=index):
                return self.element(self.value(inner), self.value(index), node)
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
                self.element(self.value(right), self.value(left), node)
            case ast.BoolOp(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
                values = [self.value(part) for part in parts]
                if isinstance(node, ast.BoolOp):
                    return next((item for item in values if isinstance(item, _Block)), UNKNOWN)
                return tuple(values) if isinstance(node, ast.Tuple) else values
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self.value(test)
                values = [self.value(body), self.value(orelse)]
                return next((item for item in values if isinstance(item, _Block)), UNKNOWN)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                value = self.value(operand)
                return -value if isinstance(value, (int, float)) else UNKNOWN
            case ast.Dict(keys=keys, values=values):
                pairs = [
                    (self.value(key) if key else UNKNOWN, self.value(item))
                    for key, item in zip(keys, values, strict=True)
                ]
                return {key: item for key, item in pairs if isinstance(key, str)}
            case ast.DictComp(key=key, value=item, generators=[loop]):
                result: dict[Any, Any] = {}
                for element in self.items(self.value(loop.iter)):
                    self.assign(loop.target, element)
                    name, what = self.value(key), self.value(item)
                    if isinstance(name, str):
                        result[name] = what
                return result
            case ast.ListComp(elt=element, generators=[loop]) | ast.GeneratorExp(elt=element, generators=[loop]):
                for item in self.items(self.value(loop.iter)):
                    self.assign(loop.target, item)
                    self.value(element)
            case ast.Call():
                return self.call(node)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.value(child)
        return UNKNOWN

    def attribute(self, owner: Any, name: str) -> Any:
        if isinstance(owner, _Self):
            member = inspect.getattr_static(owner.cls, name, UNKNOWN)
            return member if not isinstance(member, property) else UNKNOWN
        return getattr(owner, name, UNKNOWN) if isinstance(owner, (ModuleType, type)) else UNKNOWN

    def element(self, container: Any, key: Any, node: ast.expr) -> Any:
        if isinstance(container, _Block):
            if not isinstance(key, str):
                return _Block((*container.path, EACH))
            self.record((*container.path, key), UNKNOWN, node)
            return _Block((*container.path, key))
        return container.get(key, UNKNOWN) if isinstance(container, dict) and isinstance(key, str) else UNKNOWN

    def call(self, node: ast.Call) -> Any:
        arguments = [self.value(item) for item in node.args]
        keywords = {item.arg: self.value(item.value) for item in node.keywords}
        if isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value)
            if isinstance(owner, _Block):
                return self.method(owner, node.func.attr, arguments, node)
            if isinstance(owner, dict) and node.func.attr in ("items", "keys", "values"):
                return list(getattr(owner, node.func.attr)())
        called = self.value(node.func)
        if isinstance(called, type) and issubclass(called, (BaseModel, OlderBaseModel)):
            return self.model(called, keywords.get(None))
        blocks = [item for item in (*arguments, *keywords.values()) if isinstance(item, _Block)]
        if called in _COPIES and blocks:
            return blocks[0]
        return self.handed_on(called, node, arguments, keywords) if blocks else UNKNOWN

    def method(self, block: _Block, name: str, arguments: list[Any], node: ast.Call) -> Any:
        """A method of dict, on a part of the configuration."""
        if name in ("get", "pop", "setdefault") and arguments and isinstance(arguments[0], str):
            path = (*block.path, arguments[0])
            self.record(path, arguments[1] if len(arguments) > 1 else None if name == "get" else UNKNOWN, node)
            return _Block(path)
        if name == "items":
            return _Items(block)
        return block if name in ("copy", "keys") else _Block((*block.path, EACH)) if name == "values" else UNKNOWN

    def model(self, cls: Model, given: Any) -> Any:
        if isinstance(given, _Block):
            self.found.models.setdefault(given.path, cls)
        elif isinstance(given, dict):
            for name, annotation in annotations(cls):
                block = given.get(name)
                if isinstance(block, _Block) and isinstance(annotation, type):
                    self.found.models.setdefault(block.path, annotation)
        return UNKNOWN

    def handed_on(self, called: Any, node: ast.Call, arguments: list[Any], keywords: dict[str | None, Any]) -> Any:
        """Follow a function or a class of DeepSpeed's that is given a part of the configuration."""
        func = node.func
        names: dict[str, Any] = {}
        bound = False
        if isinstance(called, type):
            names["self"] = _Self(called)
            called, bound = called.__dict__.get("__init__"), True
        elif isinstance(func, ast.Attribute) and isinstance(owner := self.value(func.value), (_Self, type)):
            names["self"] = names["cls"] = owner if isinstance(owner, _Self) else _Self(owner)
            called = inspect.getattr_static(names["self"].cls, func.attr, UNKNOWN)
            bound = not isinstance(called, staticmethod)
        called = getattr(called, "__func__", called)
        if not isinstance(called, FunctionType) or not called.__module__.startswith("deepspeed."):
            return UNKNOWN
        parameters = list(inspect.signature(called).parameters)[1 if bound else 0 :]
        names.update(zip(parameters, arguments, strict=False))
        names.update({name: value for name, value in keywords.items() if name})
        known = {name: item for name, item in names.items() if item is not UNKNOWN}
        # A function that looks up whatever key it is told is no place to point to.
        generic = any(isinstance(item, str) for item in known.values())
        return self.found.function(called, known, self.source(node) if generic else "")

    def record(self, path: Path, default: Any, node: ast.AST) -> None:
        self.found.keys.setdefault(path, []).append(Lookup(default, self.caller or self.source(node)))

    def source(self, node: ast.AST) -> str:
        file = File(inspect.getsourcefile(self.function) or "")
        package = import_module("deepspeed").__path__[0]
        return f"{file.relative_to(package).as_posix()}:{getattr(node, 'lineno', 1) + self.offset}"


def _copies() -> tuple[Callable[..., Any], ...]:
    import copy

    return (copy.copy, copy.deepcopy, dict)


_COPIES = _copies()
