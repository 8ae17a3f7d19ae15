"""`dsconf completion`: static scripts, so that no Python starts when somebody presses Tab."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from dsconf.cli.options import OK

_EXAMPLES = """\
examples:
  dsconf completion bash > ~/.local/share/bash-completion/completions/dsconf
  dsconf completion zsh > ~/.zfunc/_dsconf          with ~/.zfunc in fpath, before compinit
  dsconf completion fish > ~/.config/fish/completions/dsconf.fish
"""


def register(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from dsconf.cli import command_line

    write: dict[str, Callable[[Sequence[_Command]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    print(write[options.shell](_commands(command_line())), end="")
    return OK


@dataclass(frozen=True)
class _Option:
    """An option: its spellings, its help, and its words; None if it takes no value, () if any, such as a file."""

    names: tuple[str, ...]
    help: str
    words: tuple[str, ...] | None


@dataclass(frozen=True)
class _Command:
    """A command: its options, the words of its first argument and of the others; () for files."""

    name: str
    help: str
    options: tuple[_Option, ...]
    first: tuple[str, ...]
    rest: tuple[str, ...]


def _commands(parser: argparse.ArgumentParser) -> list[_Command]:
    found: list[_Command] = []
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        if not isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            continue
        helps = {item.dest: item.help or "" for item in action._choices_actions}  # pyright: ignore[reportPrivateUsage]
        for name, command in cast("dict[str, argparse.ArgumentParser]", action.choices).items():
            first, rest = _arguments(name, command)
            found.append(_Command(name, helps[name], _options(command), first, rest))
    return found


def _options(command: argparse.ArgumentParser) -> tuple[_Option, ...]:
    return tuple(
        _Option(
            tuple(action.option_strings),
            " ".join((action.help or "").replace("%%", "%").split()),
            None if action.nargs == 0 else tuple(map(str, action.choices or ())),
        )
        for action in command._actions  # pyright: ignore[reportPrivateUsage]
        if action.option_strings
    )


def _arguments(name: str, command: argparse.ArgumentParser) -> tuple[tuple[str, ...], tuple[str, ...]]:
    from dsconf import presets
    from dsconf.blocks import block_type, walk
    from dsconf.diagnostic import dotted
    from dsconf.rules import RULES

    keys = tuple(dict.fromkeys(dotted(path) for path, _, _ in walk(block_type())))
    if name == "explain":
        return (*(rule.code for rule in RULES), *(rule.name for rule in RULES), *keys), ()
    if name == "compile":
        return tuple(presets.names()), tuple(f"{key}=" for key in keys)
    if name == "presets":
        return tuple(presets.names()), ()
    plain = [item for item in command._actions if not item.option_strings]  # pyright: ignore[reportPrivateUsage]
    return tuple(map(str, plain[0].choices or ())) if plain else (), ()


def _bash(commands: Sequence[_Command]) -> str:
    cases: list[str] = []
    for item in commands:
        flags = " ".join(name for option in item.options for name in option.names)
        valued = [option for option in item.options if option.words is not None]
        spelt = " ".join(name for option in valued for name in option.names)
        values = "".join(
            f"                {'|'.join(option.names)}) words={_quoted(option.words or ())} ;;\n" for option in valued
        )
        cases.append(
            f"        {item.name})\n"
            f"            flags={shlex.quote(flags)}\n"
            f"            valued={shlex.quote(f' {spelt} ')}\n"
            f"            first={_quoted(item.first)}\n"
            f"            rest={_quoted(item.rest)}\n"
            + (f'            case "$previous" in\n{values}            esac\n' if valued else "")
            + "            ;;\n"
        )
    names = " ".join(item.name for item in commands)
    return f"""\
# bash completion for dsconf
_dsconf() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}}
    local flags= valued= first= rest= words= index given=0
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W '{names} --help --version' -- "$current"))
        return
    fi
    case "$command" in
{"".join(cases)}        *) return ;;
    esac
    if [[ "$valued" == *" $previous "* ]]; then
        :
    elif [[ "$current" == -* ]]; then
        words=$flags
    else
        for ((index = 2; index < COMP_CWORD; index++)); do
            if [[ "${{COMP_WORDS[index]}}" != -* && "$valued" != *" ${{COMP_WORDS[index-1]}} "* ]]; then
                given=1
            fi
        done
        if [ "$given" -eq 0 ]; then words=$first; else words=$rest; fi
    fi
    if [ -n "$words" ]; then
        COMPREPLY=($(compgen -W "$words" -- "$current"))
        if [[ ${{#COMPREPLY[@]}} -eq 1 && "${{COMPREPLY[0]}}" == *= ]]; then compopt -o nospace 2>/dev/null; fi
    else
        compopt -o default 2>/dev/null
    fi
}}
complete -F _dsconf dsconf
"""


def _quoted(words: Sequence[str]) -> str:
    return shlex.quote(" ".join(words))


def _zsh(commands: Sequence[_Command]) -> str:
    described = "\n".join(f"        {shlex.quote(f'{item.name}:{item.help}')}" for item in commands)
    cases: list[str] = []
    for item in commands:
        specs: list[str] = []
        for option in item.options:
            exclusive = f"({' '.join(option.names)})"
            value = "" if option.words is None else f":value:{_zsh_words(option.words)}"
            text = _zsh_text(option.help)
            specs += [shlex.quote(f"{exclusive}{name}[{text}]{value}") for name in option.names]
        specs.append(shlex.quote(f"1: :{_zsh_words(item.first)}"))
        rest = "->keys" if item.rest else "_files"
        specs.append(shlex.quote(f"*: :{rest}"))
        lines = " \\\n                ".join(specs)
        keys = ""
        if item.rest:
            keys = f"            [[ $state == keys ]] && compadd -S '' -- {' '.join(map(shlex.quote, item.rest))}\n"
        cases.append(
            f"        {item.name})\n            _arguments \\\n                {lines}\n{keys}            ;;\n"
        )
    return f"""\
#compdef dsconf
_dsconf() {{
    local curcontext=$curcontext state line
    local -a commands
    commands=(
{described}
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
{"".join(cases)}    esac
}}
if [ "$funcstack[1]" = _dsconf ]; then
    _dsconf "$@"
else
    compdef _dsconf dsconf
fi
"""


def _zsh_words(words: Sequence[str]) -> str:
    return f"({' '.join(words)})" if words else "_files"


def _zsh_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def _fish(commands: Sequence[_Command]) -> str:
    lines = ["# fish completion for dsconf", "complete -c dsconf -f -n __fish_use_subcommand"]
    for item in commands:
        lines.append(
            f"complete -c dsconf -f -n __fish_use_subcommand -a {item.name} -d {shlex.quote(_fish_text(item.help))}"
        )
    for item in commands:
        here = f"complete -c dsconf -n '__fish_seen_subcommand_from {item.name}'"
        for option in item.options:
            spelt = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = "" if option.words is None else f" -x -a {_quoted(option.words)}" if option.words else " -r"
            lines.append(f"{here} {spelt}{value} -d {shlex.quote(_fish_text(option.help))}")
        words = (*item.first, *item.rest)
        if words:
            lines.append(f"{here} -f -a {_quoted(words)}")
    return "\n".join([*lines, ""])


def _fish_text(text: str) -> str:
    return text.replace("'", "")
