"""Every `arena` command in help texts, messages, docs and recipes parses with the real command line.

Nothing is run. Placeholders of f-strings count as `1`, which is a number, a path and a text.
"""

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from typer.main import get_command

ROOT = Path(__file__).parents[1]
COMMANDS: Any = get_command(import_module("arena_trainers.cli.main").app)
REQUEST: Any = import_module("arena_trainers.cli.train_request")
HELP: Any = import_module("arena_trainers.cli.train_help")
COMMAND_TABLE: Any = import_module("arena_trainers.cli.commands")
USAGE_ERROR: Any = typer.BadParameter.__mro__[1]  # of the click that typer has
NAMES = "|".join(
    sorted({*COMMANDS.commands, *COMMAND_TABLE.WORDS_ELSEWHERE}, key=len, reverse=True)
)
PACKAGES = ("arena_envs", "wrappers", "trainers", "benchmarks", "docs", "environments")
# what `make docs` writes repeats the help and the docstrings, which are read where they stand
BUILT = ROOT / "docs" / "reference"
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
    if BUILT not in path.parents
)


class Printed(NamedTuple):
    """A command as it is printed.

    Attributes:
        place: file and line.
        words: the words after `arena`.
        is_whole: whether it stands alone, to be typed as it is; else in a sentence, which may leave
            out arguments.
    """

    place: str
    words: tuple[str, ...]
    is_whole: bool


def texts_of_python(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a file, with `1` for what an f-string inserts."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parts: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts |= {*node.values}
            pieces = [
                str(one.value) if isinstance(one, ast.Constant) else "1"
                for one in node.values
            ]
            yield node.lineno, "".join(pieces)
        elif isinstance(node, ast.Constant) and node not in parts:
            text = node.value if isinstance(node.value, str) else ""
            yield node.lineno, re.sub(r"\{[a-z_]\w*(![rs])?[^{}]*\}", "1", text)


def texts_of_toml(path: Path) -> Iterator[tuple[int, str]]:
    def strings(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            for one in value.values() if isinstance(value, dict) else value:
                yield from strings(one)

    for text in strings(tomllib.loads(path.read_text(encoding="utf-8"))):
        yield 0, re.sub(r"\{[a-z_]\w*[^{}]*\}", "1", text)


def texts() -> Iterator[tuple[str, str]]:
    """Places, and texts that may name commands."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*")):
            name = str(path.relative_to(ROOT))
            if path.suffix == ".py":
                for line, text in texts_of_python(path):
                    yield f"{name}:{line}", text
            elif path.suffix == ".toml":
                for _, text in texts_of_toml(path):
                    yield name, text
            elif path.suffix in (".yaml", ".yml"):
                yield name, re.sub(r"(?m)^# ?", "", path.read_text(encoding="utf-8"))
            elif path.suffix in (".html", ".js"):
                yield name, re.sub("<[^>]*>", "`", path.read_text(encoding="utf-8"))
    for path in PAGES:
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            yield str(path.relative_to(ROOT)), "".join(cell["source"])


_ALONE = re.compile(rf"(?m)^\s*[!$%]?\s*arena (?=(?:{NAMES})\b)(.*)$")
_IN_TEXT = re.compile(rf"(?<![\w./-])arena (?=(?:{NAMES})\b)([^`\n]*)")
_END = re.compile(
    r"\s(?:\||>|&&|#|&$|and arena|or arena|then)\s?|[;,:.)\"](?:\s|$)|\s\(|,? arena "
)


def printed(place: str, text: str) -> Iterator[Printed]:
    """The commands in a text."""
    text = re.sub(r"\\\n\s*", "", text)
    whole = set()
    for match in _ALONE.finditer(text):
        line = re.split(r"\s(?:#|\||>|&&|;|2>)\s?|\s&$|&$|\s{2,}", match[1].strip())[
            0
        ].strip()
        if not line.endswith((".", ",", ":", ";")) and is_typed(text, match):
            whole.add(match.start(1))
            yield Printed(place, words(line), is_whole=True)
    joined = re.sub(r"(?<!\n)\n(?![\n`])\s*", " ", text)  # of wrapped paragraphs
    for match in _IN_TEXT.finditer(joined if not whole else text):
        if match.start(1) not in whole:
            yield Printed(place, words(_END.split(match[1])[0]), is_whole=False)


# in code, also with a name that no command has
_IN_CODE = re.compile(r"`arena ([a-z][\w-]*)(?: ([a-z][\w-]*))?(?=[ `])[^`\n]*`")
ANSWERED = {"select", "suggest", "dance"}  # old words, and a plug-in of the docs


def unknown_names(text: str) -> list[str]:
    """The names of commands in a text's code that there are not."""
    unknown = []
    for first, second in _IN_CODE.findall(text):
        command = COMMANDS.commands.get(first) if first not in ANSWERED else None
        if command is None and first not in ANSWERED:
            unknown.append(first)
        commands = getattr(command, "commands", {})
        if second and commands and second not in commands:
            unknown.append(f"{first} {second}")
    return unknown


def is_typed(text: str, match: re.Match[str]) -> bool:
    """Whether a line that begins with `arena` is a command, not the middle of a paragraph."""
    before = text[: match.start()].rstrip(" ")
    following = text[match.end() :].lstrip("\n").partition("\n")[0]
    if not match[1].partition(" ")[2]:  # the name alone
        return False
    in_fence = before.count("```") % 2 == 1
    is_indented = match[0][:1].isspace() or before.endswith("\n\n") or not before
    has_words = re.search(
        r"\b(the|this|a|is|are|of|and|with|also|takes|shows)\s", match[1]
    )
    return in_fence or (is_indented and not has_words and not following[:1].islower())


def words(line: str) -> tuple[str, ...]:
    try:
        return tuple("2" if word == "N" else word for word in shlex.split(line))
    except ValueError:  # a quote that the sentence began
        return tuple(line.replace('"', "").replace("'", "").split())


def fault(command: Printed) -> str | None:
    """Why the command does not parse; None if it does."""
    tokens = [word for word in command.words if word not in ("...", "…")]
    has_gap = len(tokens) < len(command.words)
    if command.is_whole:
        return parsed(tokens, may_lack=has_gap)
    options = [n for n, word in enumerate(tokens) if re.match("--?[a-z]", word)]
    if not options:  # a sentence goes on after the name
        return None
    ends = range(options[-1] + 1, min(options[-1] + 3, len(tokens) + 1))
    faults = [parsed(tokens[:end], may_lack=True) for end in ends]
    if "requires an argument" in (faults[-1] or ""):
        return None
    return None if None in faults else faults[-1]


def parsed(tokens: list[str], may_lack: bool) -> str | None:
    command, name, rest = COMMANDS, "arena", tokens
    while hasattr(command, "commands"):
        if not rest or rest[0].startswith("-"):
            return None
        if rest[0] not in command.commands:
            return f"{name} has no command {rest[0]!r}"
        name, command, rest = f"{name} {rest[0]}", command.commands[rest[0]], rest[1:]
    if name == "arena train":
        return fault_of_training(rest)
    try:
        context = command.make_context(name, [*rest])
    except typer.Exit:  # --help
        return None
    except USAGE_ERROR as error:
        is_missing = type(error).__name__ == "MissingParameter"
        return None if is_missing and may_lack else str(error.format_message())
    return (
        fault_of_training(context.params["arguments"])
        if name == "arena bench sweep"
        else None
    )


def fault_of_training(tokens: list[str]) -> str | None:
    """As `parsed`, for `arena train`, which reads its own options."""
    if tokens[:1] == [HELP.RECIPES]:
        return None
    tokens = [word for word in tokens if word not in ("-h", "--help", "--help-all")]
    if tokens[:1] == ["NAME"] or tokens[:1] == ["RECIPE"] or tokens[:1] == ["FILE"]:
        tokens = ["kuhn-tiny", *tokens[1:]]
    if tokens and tokens[-1].startswith("--") and "=" not in tokens[-1]:
        tokens = [*tokens, "1"] if tokens[-1] not in REQUEST.FLAGS else tokens
    # a placeholder after a value stands for options
    tokens = [
        word
        for number, word in enumerate(tokens)
        if not (word == "1" and number and not tokens[number - 1].startswith("-"))
    ]
    try:
        recipe, given = REQUEST.recipe_and_overrides(REQUEST.without_flags(tokens)[0])
        settings = (
            {} if recipe is None or is_file(recipe) else REQUEST.load_recipe(recipe)
        )
    except ValueError as error:
        return str(error)
    unknown = [
        key for key in given if key not in options_of_training() and "." not in key
    ]
    if unknown and REQUEST.is_offline(given | settings):
        trainer = str((given | settings)["trainer"])
        unknown = [key for key in unknown if key not in options_of_trainer(trainer)]
    return f"arena train has no option {unknown[0]!r}" if unknown else None


def is_file(recipe: str) -> bool:
    return recipe.endswith((".yaml", ".yml")) or recipe == "1" or recipe.isupper()


@cache
def options_of_training() -> frozenset[str]:
    declared = {
        **HELP.options_of(HELP.JobConfig),
        **HELP.listed_options(),
        **HELP.row_options(),
    }
    return frozenset(
        {*declared, *(one.name for one in HELP.RUN), "output_dir", "trainer", "rounds"}
    )


@cache
def options_of_trainer(trainer: str) -> frozenset[str]:
    return frozenset(HELP.trainer_options(HELP.row_trainer(trainer).config))


def test_every_printed_command_parses() -> None:
    pytest.importorskip("trl")
    all_texts = list(texts())
    commands = [one for place, text in all_texts for one in printed(place, text)]
    assert {one.words[0] for one in commands} >= {*COMMANDS.commands}  # all were read
    faults = {
        f"{one.place}: arena {' '.join(one.words)}: {reason}"
        for one in commands
        if (reason := fault(one)) is not None
    }
    faults |= {
        f"{place}: arena has no command {name!r}"
        for place, text in all_texts
        for name in unknown_names(text)
    }
    assert not faults, "\n".join(sorted(faults))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("to fill: arena eval lm:PATH --suite mars, then lm:RUN/model", "--suite"),
        ("`arena train --lr 3`", "'lr'"),
        ("```sh\narena eval random kuhn_poker --against\n```", "--against"),
        ("```sh\narena compare random\n```", "Missing"),
        ("run it:\n\narena bench board check FILE", "no command 'check'"),
        ("run it:\n\narena tournament random cfr -g nim", "no command 'tournament'"),
        ("arena train kuhn-tyni --dry-run", "kuhn-tyni"),
        ("arena play kuhn_poker cfr", "extra"),
    ],
)
def test_a_command_that_does_not_parse_is_found(text: str, reason: str) -> None:
    faults = [fault(one) for one in printed("here", text)]
    assert any(reason in (one or "") for one in faults), faults


def test_a_name_that_no_command_has_is_found_in_code() -> None:
    text = "`arena evaluate_all --json`, `arena bench tournamnt`, `arena bench board`"
    assert unknown_names(text) == ["evaluate_all", "bench tournamnt"]
