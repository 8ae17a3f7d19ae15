"""What a rule about the launcher is, and how a finding of one becomes a diagnostic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dsconf.diagnostic import Diagnostic, Effect, Severity
from dsconf.links import rule_url
from dsconf.source import Document, Span


@dataclass(frozen=True, slots=True)
class Example:
    """What the launcher is given.

    `hostfile`, `env_file`: texts; None: there is no such file. `options`: of the `deepspeed` command, such as
    `include`. `environment`: variables set where it is started.
    """

    hostfile: str | None = None
    env_file: str | None = None
    options: Mapping[str, str | int] = field(default_factory=dict[str, "str | int"])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def text(self) -> str:
        """The example, for people."""
        parts: list[str] = []
        for name, content in (("hostfile", self.hostfile), (".deepspeed_env", self.env_file)):
            if content is not None:
                parts.append("\n".join([f"{name}:", *(f"    {line}" for line in content.splitlines())]))
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        options = [f"--{name} {value}" for name, value in self.options.items()]
        if variables or options:
            parts.append(" ".join([*variables, "deepspeed", *options]))
        return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class LauncherRule:
    """One kind of problem of what the launcher is given.

    `says`: a part of what the launcher raises on the bad example, where it refuses. `source`: the line of DeepSpeed
    0.19.8 that decides.
    """

    code: str
    name: str
    severity: Severity
    effect: Effect
    summary: str
    explanation: str
    source: str
    bad: Example
    good: Example
    says: str = ""

    @property
    def url(self) -> str:
        """The rule's page."""
        return rule_url(self.name)

    def at(self, document: Document, span: Span, message: str, help: str) -> Diagnostic:
        """A finding of this rule at `span` of a document."""
        return Diagnostic(
            code=self.code,
            name=self.name,
            severity=self.severity,
            effect=self.effect,
            message=message,
            help=help,
            url=self.url,
            path=(),
            filename=document.filename,
            location=document.position(span.start),
            end_location=document.position(span.end),
            actor="DeepSpeed's launcher",
        )


def text_document(filename: str, text: str) -> Document:
    """A text that is not a ds_config, so that places in it can be shown."""
    return Document(filename, text, None, (), ())
