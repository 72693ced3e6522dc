r"""Completion of the command line in bash, zsh and fish.

The script of a shell runs `jumok --complete SHELL WORD ...`, which prints one candidate per line;
without candidates the shell completes names of files. click finds the candidates. Its scripts for
shells quote no spaces and split key=value, so jumok has its own. Words may contain any text:
bash passes them as they were typed, with quotes and backslashes. `recipes` to `settings` and
`complete_run` are the `autocompletion` of arguments.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

from jumok.errors import UsageError
from jumok.terminal import to_json_line

BASH = r"""# Completion of jumok for bash
_jumok_completion() {
    local IFS=$'\n'
    COMPREPLY=($(jumok --complete bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -o bashdefault -o default -F _jumok_completion jumok
"""
ZSH = r"""#compdef jumok
# Completion of jumok for zsh
_jumok() {
    local -a found
    found=("${(@f)$(jumok --complete zsh "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -z "${found[*]}" ]]; then
        _files
    else
        compadd -S '' -- ${(M)found:#*=}
        compadd -- ${found:#*=}
    fi
}
compdef _jumok jumok
"""
FISH = r"""# Completion of jumok for fish
function __jumok_complete
    set -l words (commandline -opc)
    set -l found (jumok --complete fish $words[2..-1] (commandline -ct) 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c jumok -f -a '(__jumok_complete)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}

SOURCE = Path(__file__).parent.parent
_PLAIN = re.compile(r"[\w@%+=:,./~-]*")  # words that need no quotes in a shell


def script(shell: str | None) -> str:
    """The script of a shell; of the one in $SHELL for None. Raises InputError for others."""
    return SCRIPTS[_shell(shell, "--show-completion")]


def install(shell: str | None) -> tuple[str, Path]:
    """Write the script where the shell finds it; return the shell and the file.

    For bash and zsh, their startup file loads it.
    """
    name = _shell(shell, "--install-completion")
    home = Path.home()
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    if name == "bash":
        path = data / "bash-completion" / "completions" / "jumok"
        _add_line(home / ".bashrc", f"source {_quoted(str(path))}")
    elif name == "zsh":
        path = home / ".zfunc" / "_jumok"
        _add_line(home / ".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit")
    else:
        path = config / "fish" / "completions" / "jumok.fish"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SCRIPTS[name], encoding="utf-8")
    return name, path


def _shell(given: str | None, option: str) -> str:
    if given is None:
        name = Path(os.environ.get("SHELL", "")).name
        if name not in SCRIPTS:
            raise UsageError(
                "cli.shell_not_detected",
                "the shell is not known; give its name: jumok {option} bash, zsh or fish",
                option=option,
            )
        return name
    if given not in SCRIPTS:
        raise UsageError(
            "cli.unknown_shell", "unknown shell {given!r}; give bash, zsh or fish", given=given
        )
    return given


def _add_line(file: Path, line: str) -> None:
    """Append a line to a startup file, unless it is there already."""
    text = file.read_text(encoding="utf-8", errors="surrogateescape") if file.is_file() else ""
    if line not in text.splitlines():
        before = "\n" if text and not text.endswith("\n") else ""
        with file.open("a", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(f"{before}{line}\n")


def print_candidates(shell: str, words: Sequence[str]) -> None:
    """Print the candidates for the last of the words after `jumok`, one per line."""
    typed = _joined(words) if shell == "bash" else list(words)
    *before, current = [_unquoted(word) if shell == "bash" else word for word in typed] or [""]
    for candidate in sorted(set(candidates(before, current))):
        if shell == "bash":  # breaks words at =
            _, equals, value = candidate.rpartition("=")
            candidate = _quoted(value if equals and value else candidate)
        sys.stdout.write(f"{candidate}\n")


def candidates(before: Sequence[str], current: str) -> list[str]:
    """What may follow the words `before` and begins with `current`.

    >>> candidates([], "pred")
    ['predict']
    >>> candidates(["train"], "numb")
    ['numbers']
    >>> candidates(["train", "numbers"], "training.warmup")
    ['training.warmup_steps=']
    """
    from jumok.cli import COMMANDS, OPTIONS

    if not before:
        options = [name for name in OPTIONS if name.startswith("--")]
        found = [*COMMANDS, *options, "--help", "--version"]
        return [each for each in found if each.startswith(current)]
    return _of_command(before[0], before[1:], current) if before[0] in COMMANDS else []


def _of_command(name: str, rest: Sequence[str], current: str) -> list[str]:
    """The candidates of a command by click: names of files are left to the shell."""
    import typer
    from typer._completion_classes import BashComplete  # of the click that typer uses

    from jumok.cli import command_app

    command = typer.main.get_command(command_app(name))
    found = BashComplete(command, {}, name, "").get_completions(list(rest), current)
    return [item.value for item in found if item.type == "plain"]


def recipes() -> list[str]:
    """The names of the built-in recipes."""
    return [path.stem for path in (SOURCE / "recipes").glob("*.toml")]


def corpora() -> list[str]:
    """The names of the known corpora."""
    from jumok.data.corpora.registry import CORPORA

    return list(CORPORA)


def formats() -> list[str]:
    """The names of the export formats."""
    from jumok.export.targets import TARGETS

    return list(TARGETS.names())


def settings(incomplete: str) -> list[str]:
    """`table.key=` for each key of a recipe; after the = the choices of the key."""
    found: list[str] = []
    for key, choices in _cached_keys().items():
        if incomplete.startswith(key):
            found += [f"{key}{choice}" for choice in choices]
        elif key.startswith(incomplete):
            found.append(key)
    return found


def _cached_keys() -> dict[str, list[str]]:
    """The keys of recipes from the user's cache: to import their classes takes seconds."""
    import json

    from jumok.data.arrow_cache import cache_folder

    sources = [*SOURCE.glob("*/config.py"), *SOURCE.glob("tasks/recipe/*.py")]
    version = str(max(source.stat().st_mtime_ns for source in sources))
    file = cache_folder("completion") / "recipe_keys.json"
    try:
        cached: dict[str, dict[str, list[str]]] = json.loads(file.read_text(encoding="utf-8"))
        return cached[version]
    except (OSError, ValueError, KeyError, TypeError):
        found = recipe_keys()
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(to_json_line({version: found}), encoding="utf-8")
    return found


def recipe_keys() -> dict[str, list[str]]:
    """Every `table.key=` of a recipe with its choices, if it has any."""
    from dataclasses import fields, is_dataclass
    from typing import get_type_hints

    from jumok.tasks.recipe.extensions import REGISTRIES
    from jumok.tasks.recipe.recipe import Recipe

    registries = {key: registry.names() for key, registry in REGISTRIES.items()}

    def keys(cls: Any, prefix: str) -> Iterator[tuple[str, list[str]]]:
        hints = get_type_hints(cls)
        for field in fields(cls):
            kinds = [hints[field.name], *get_args(hints[field.name])]
            table = next((kind for kind in kinds if is_dataclass(kind)), None)
            if table is not None:
                yield from keys(table, f"{prefix}{field.name}.")
                continue
            words = [word for kind in kinds for word in get_args(kind) if isinstance(word, str)]
            words += registries.get(f"{prefix}{field.name}", ())
            yield f"{prefix}{field.name}=", [*words, *(("true", "false") if bool in kinds else ())]

    return dict(keys(Recipe, ""))


def _joined(words: Sequence[str]) -> list[str]:
    """The words without the breaks of bash at =.

    >>> _joined(["train", "numbers", "model.kind", "=", "enc"])
    ['train', 'numbers', 'model.kind=enc']
    """
    result: list[str] = []
    for word in words:
        if result and (word == "=" or result[-1].endswith("=")):
            result[-1] += word
        else:
            result.append(word)
    return result


def _unquoted(word: str) -> str:
    r"""A word as typed in a shell, without its quotes and backslashes.

    >>> _unquoted("runs/내\\ 실"), _unquoted("'runs/내 실")
    ('runs/내 실', 'runs/내 실')
    """
    if word[:1] in ("'", '"'):
        return word.strip(word[0])
    return re.sub(r"\\(.)", r"\1", word)


def _quoted(word: str) -> str:
    r"""A word as it is typed in a shell.

    >>> _quoted("runs/내 실험")
    'runs/내\\ 실험'
    """
    return word if _PLAIN.fullmatch(word) else re.sub(r"([^\w@%+=:,./~-])", r"\\\1", word)
