"""Canaries in the files and requests of strangers: none runs code, opens a file or searches without end.

Every function that parses JSON, YAML, TOML or CSV is found in the code. It must read a canary here, or
stand in `OTHERS` with the reason why no stranger writes what it reads. Every command of `arena serve` must
have a driver, too. So a reader or a server that is new fails until it has a canary.
"""

import ast
import asyncio
import contextlib
import csv
import io
import itertools
import json
import os
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

import arena_credit
import arena_envs
import arena_eval
import arena_studio
import arena_trainers
import arena_wrappers
from arena_envs import trust, yaml_text
from arena_envs.bots import mcts
from arena_eval.spending import read_prices
from arena_wrappers import Episode, play
from arena_wrappers.play import game_of, replay

CANARY = "canary_in_tests"  # a module, and the beginning of names of files
CODE = f"{CANARY}:fire"
TEXTS = (
    CODE,
    f"disguise:3({CODE}(kuhn_poker))",
    f"goal(kuhn_poker, at={CODE})",
    f"questions(source='{CODE}')",
    f"jsonl:{CANARY}.txt",
    f"{CANARY}.txt",
    "noisy:0.1(ismcts:999999999)",
)
MAPPINGS: tuple[Any, ...] = ({CODE: {}}, {"jsonl": {"path": f"{CANARY}.txt"}})
ROOTS = [
    Path(package.__path__[0])
    for package in (
        arena_envs,
        arena_credit,
        arena_wrappers,
        arena_eval,
        arena_studio,
        arena_trainers,
    )
]


def mutants(value: Any) -> Iterator[Any]:
    """The document, each time with a canary in place of one text, key, value or mapping."""
    if isinstance(value, str):
        yield from TEXTS
    elif isinstance(value, dict):
        yield from MAPPINGS
        yield {**value, CODE: {}}
        for key, inner in value.items():
            yield {CODE if name == key else name: v for name, v in value.items()}
            yield from ({**value, key: mutant} for mutant in mutants(inner))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from ([*value[:at], m, *value[at + 1 :]] for m in mutants(inner))
    else:
        yield CODE


def json_lines(path: Path, *documents: Any) -> Path:
    """A file with all mutants of the documents, one a line."""
    lines = (json.dumps(m) for document in documents for m in mutants(document))
    path.write_text("\n".join([*map(json.dumps, documents), *lines]) + "\n")
    return path


# The readers of the code.

PARSERS = {
    *(("json", name) for name in ("load", "loads")),
    *(("tomllib", name) for name in ("load", "loads")),
    *(("yaml", name) for name in ("safe_load", "safe_load_all", "load", "SafeLoader")),
    ("yaml_text", "read"),
    *(("pickle", name) for name in ("load", "loads")),
    *(("csv", name) for name in ("reader", "DictReader")),
}


def parsing_functions() -> set[str]:
    """The functions that call a parser, such as `board.py:load_suite`."""

    def found(node: ast.AST, inside: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for child in ast.iter_child_nodes(node):
            name = getattr(child, "name", None)
            is_scope = isinstance(
                child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
            )
            if isinstance(child, ast.Attribute) and (
                (getattr(child.value, "id", ""), child.attr) in PARSERS
            ):
                yield inside
            yield from found(child, (*inside, name) if is_scope and name else inside)

    return {
        f"{path.name}:{'.'.join(inside) or 'the module'}"
        for root in ROOTS
        for path in root.rglob("*.py")
        for inside in found(ast.parse(path.read_text("utf-8")), ())
    }


SHIPPED = "a file of this package"
OWN = "what the same function wrote as JSON"
OPERATOR = "the command line"
CHECKPOINT = "the checkpoint of a run, which names nothing; use your own"
OTHERS = {
    "catalogue.py:the module": SHIPPED,
    "game.py:_templates": SHIPPED,
    "words.py:shipped_rows": SHIPPED,
    "words.py:word_lists": SHIPPED,
    "svg.py:the module": SHIPPED,
    "openspiel.py:from_openspiel": SHIPPED,
    "textarena.py:from_textarena": SHIPPED,
    "yaml_text.py:read": "its callers are in these lists",
    "languages.py:find_language": SHIPPED,
    "diagnostics.py:the module": SHIPPED,
    "result_rows.py:the module": SHIPPED,
    "games.py:list_games": SHIPPED,
    "dry_run.py:known_config": SHIPPED,
    "preflight.py:the module": SHIPPED,
    "listed_options.py:_list": SHIPPED,
    "environment.py:check_copies": OWN,
    "rules.py:check_facts": OWN,
    "records.py:params_of": OWN,
    "episodes.py:unreadable_action": OWN,
    "texts.py:_check_read_back": OWN,
    "train_help.py:loop_help": OWN,
    "check.py:check_state": OWN,
    "rows.py:RunRows.__init__": OWN,
    "testing.py:check_alike": OWN,
    "turns.py:to_dataset": OWN,
    "origin.py:union": OWN,
    "matches.py:EvaluationPlan._found": OWN,
    "processes.py:sendable": OWN,
    "board.py:_begun": OWN,
    "board.py:_verify": OWN,
    "round_robin.py:TournamentPlan._settings": OWN,
    "matching.py:Matching._advance": OWN,
    "sweep.py:_check_sweep": OPERATOR,
    "tree.py:_read_texts": OPERATOR,
    "arguments.py:read_params": OPERATOR,
    "verifiers_turns.py:_world": "the caller of from_verifiers; no record makes this game",
    "endpoints.py:_value": OPERATOR,
    "finite.py:_lower_rate": CHECKPOINT,
    "resuming.py:_config": CHECKPOINT,
    "card.py:model_card": CHECKPOINT,
    "merge.py:_unmergeable_options": CHECKPOINT,
    "rounds.py:round_entry": CHECKPOINT,
    "rounds.py:read_score": CHECKPOINT,
    "best.py:read_best": CHECKPOINT,
    "checkpoint.py:CheckpointFiles.load": CHECKPOINT,
    "checkpoint.py:load_credit": CHECKPOINT,
    "learners.py:Learners.load": CHECKPOINT,
    "served.py:check_shapes": "sizes of a model of the operator's server",
}


# What strangers write, and who reads it.


def arena(*arguments: Any) -> int:
    """The status of a command."""
    from arena_trainers.cli import main as cli

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        before, sys.argv = sys.argv, ["arena", *map(str, arguments)]
        try:
            cli.main()
        except SystemExit as stopped:
            return int(stopped.code or 0)
        finally:
            sys.argv = before
    return 0


def tried(read: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What a function returns; None if it refuses its arguments, in whatever way."""
    with contextlib.suppress(Exception):
        return read(*arguments, **options)


def records() -> list[Any]:
    """Records of a game without and with parameters that name something."""
    games = (("kuhn_poker", 1), ("questions", 0))
    found = [json.loads(play(g, "random", [0])[0].to_json()) for g, _ in games]
    return [
        {**r, "turns": r["turns"][:n]} for r, (_, n) in zip(found, games, strict=True)
    ]


def of_episodes(folder: Path) -> None:
    from arena_eval.rollouts import read_rollouts
    from arena_studio.outputs import output_at
    from arena_trainers.data import select

    file = json_lines(folder / "episodes.jsonl", *records())
    for options in ((), ("--page", folder / "a.html"), ("--figure", folder / "a.svg")):
        assert arena("replay", file, "-n", 10_000, *options) == 0
    assert arena("report", file, "--out", folder / "b.html") == 0
    for line in file.read_text().splitlines():
        (folder / "one.jsonl").write_text(line)
        output_at(folder / "one.jsonl")
        if (episode := tried(Episode.from_json, line)) is not None:
            tried(replay, episode)
            tried(select, "wins", [episode])
    tried(list, read_rollouts(file))
    assert (
        arena("data", "select", file, "--by", "wins", "--out", folder / "c.parquet")
        != 0
    )


def of_datasets(folder: Path) -> None:
    from arena_trainers.data import from_dataset, to_dataset

    class Rows(list[Any]):
        column_names = ("record", "episode", "place")

    dataset = to_dataset(play("kuhn_poker", "random", [0]), record=True)
    first, *others = ({k: row[k] for k in Rows.column_names} for row in dataset)
    for record in mutants(json.loads(first["record"])):
        rows = Rows([{**first, "record": json.dumps(record)}, *others])
        for episode in tried(from_dataset, rows) or ():
            tried(game_of, episode)


def of_runs(folder: Path) -> None:
    from arena_studio.report.run_files import _results
    from arena_studio.report.run_status import run_status
    from arena_trainers.cli.sweep import _records
    from arena_trainers.cli.training_games import training_games

    config = {"games": ["kuhn_poker", {"id": "nim", "params": {"pile_sizes": [1, 2]}}]}
    config |= {"model": "tiny", "credit": "mars", "opponents": "past_selves"}
    results = {
        "command": "a",
        "outcomes": {"kuhn_poker": {"stages": [{"learner": {}}]}},
    }
    json_lines(folder / "metrics.jsonl", {"step": 1, "credit": {"estimator": "mars"}})
    json_lines(folder / "episodes.jsonl", records()[0])
    (folder / "rollouts").mkdir()
    json_lines(folder / "rollouts/step-1.jsonl", records()[0])
    for result in mutants(results):
        (folder / "results.json").write_text(json.dumps(result))
        tried(lambda: list(_records({"a": [folder]})))
        tried(_results, folder / "results.json")
    (folder / "results.json").unlink()
    for settings in mutants(config):
        (folder / "config.yaml").write_text(yaml.safe_dump(settings))
        tried(training_games, f"lm:{folder}", None)
        tried(run_status, folder)
    (folder / "config.yaml").write_text(yaml.safe_dump({"games": [CODE]}))
    assert arena("report", folder, "--out", folder / "a.html") == 0
    unnamed = shutil.ignore_patterns(f"{CANARY}*")
    other = shutil.copytree(folder, folder / "other", ignore=unnamed)
    assert arena("report", folder, other, "--out", folder / "b.html") == 0


def of_evaluations(folder: Path) -> None:
    from arena_eval.matches import _unfinished
    from arena_wrappers.records import EpisodeLog

    file, results = folder / "a.jsonl", folder / "a.results.jsonl"
    assert arena("eval", "random", "kuhn_poker", "-n", 1, "--out", file) == 0
    (result,) = map(json.loads, results.read_text().splitlines())
    result = {name: result[name] for name in ("game", "params", "num_lines", "rows")}
    result["rows"] = result["rows"][:1]
    json_lines(results, result)
    assert arena("report", file, "--out", folder / "a.html") == 0
    for mutant in mutants(result):
        results.write_text(json.dumps(mutant))
        tried(_unfinished, EpisodeLog(file))


def of_improvements(folder: Path) -> None:
    spending = {"calls": 1, "prompt_tokens": 1, "reply_tokens": 1, "cost": None}
    figures = {"difference": 0.5, "low": 0.1, "high": 0.9, "num_seeds": 8}
    of_text = {"round": 1, "number": 1, "text": CODE}
    rows: list[Any] = [
        {"kind": "settings", "settings": {"policy": CODE, "game": TEXTS[1]}},
        {"kind": "proposals", "round": 1, "mean_return": 0.0, "texts": [CODE]},
        {"kind": "race", **of_text, **figures},
        {"kind": "confirmation", **of_text, **figures, "is_accepted": True},
    ]
    rows = [{**row, **spending} for row in rows]
    json_lines(folder / "confirmation-1.jsonl", *records())
    for number, row in enumerate(rows):
        for mutant in mutants(row):
            json_lines(folder / "texts.jsonl", *rows[:number], mutant)
            arena("report", folder, "--out", folder / "a.html")
            (folder / "a.html").unlink(missing_ok=True)


def of_prices(folder: Path) -> None:
    prices = folder / "prices.toml"
    for key in ("prompt", CODE):
        prices.write_text(f'["{CODE}"]\n"{key}" = "{TEXTS[1]}"\n')
        tried(read_prices, prices)


def of_tournaments(folder: Path) -> None:
    from arena_eval.tournament import TournamentLog

    record = records()[0]
    header = {"tournament": {"games": [{"game": "kuhn_poker", "params": {}}]}}
    match = {"game": "kuhn_poker", "seats": ["random", "first"]}
    file, log = folder / "results.jsonl", folder / "log.jsonl"

    def line(match: Any, episode: Any) -> str:
        return f'{{"match": {json.dumps(match)}, "episode": {json.dumps(episode)}}}'

    lines = [line(mutant, record) for mutant in mutants(match)]
    lines += [line(match, mutant) for mutant in mutants(record)]
    file.write_text("\n".join([json.dumps(header), *lines]) + "\n")
    summary = {"games": [{"game": "kuhn_poker", "names": ["random", "first"]}]}
    for mutant in mutants(summary):
        (folder / "summary.json").write_text(json.dumps(mutant))
        arena("report", folder, "--out", folder / "a.html")
        (folder / "a.html").unlink(missing_ok=True)
        file.write_text("\n".join([json.dumps(header), lines[0]]) + "\n")
    for settings in mutants(header["tournament"]):
        log.write_text(json.dumps({"tournament": settings}) + "\n")
        tried(TournamentLog, log, header["tournament"], print)
    for text in lines:
        log.write_text(f"{json.dumps(header)}\n{text}\n")
        tried(TournamentLog, log, header["tournament"], lambda episode: None)


def of_boards(folder: Path) -> None:
    from arena_eval.tournament import load_suite, play_suite, verify_submission
    from arena_wrappers import make_policy

    given = {
        "suite": "a",
        "version": 1,
        "notes": ["b"],
        "games": [{"game": "kuhn_poker", "opponents": ["random"], "disguise": 7}],
        "prompts": {"plain": {"rules": False, "persona": ""}},
        "num_seeds": 1,
        "max_tokens": 16,
    }
    file, own = folder / "suite.yaml", folder / "own.jsonl"
    for mutant in mutants(given):
        file.write_text(yaml.safe_dump(mutant))
        tried(load_suite, str(file))
    file.write_text(yaml.safe_dump(given))
    suite = load_suite(str(file))
    play_suite(suite, make_policy("random"), own)
    head, first, *others, last = map(json.loads, own.read_text().splitlines())
    others = [*others, last]
    variants = [[mutant, first, *others] for mutant in mutants(head)]
    variants += [[head, mutant, *others] for mutant in mutants(first)]
    for documents in [*variants, [bot_named("ismcts:999999999", head), first, *others]]:
        own.write_text("".join(f"{json.dumps(one)}\n" for one in documents))
        tried(verify_submission, own, suite)


def bot_named(name: str, head: Any) -> Any:
    """The first line of a submission under the name of a bot."""
    return {"board": {**head["board"], "policy": name}}


def of_data_sets_of_messages(folder: Path) -> None:
    from arena_trainers.lm.chat import Chat
    from arena_trainers.offline.conversations import write_tokens
    from arena_trainers.runs.tiny import tiny_tokenizer_of
    from arena_wrappers import PromptOptions

    chat = Chat(tiny_tokenizer_of([{"id": "kuhn_poker"}], PromptOptions()))
    question, answer = (
        {"role": role, "content": "bet"} for role in ("user", "assistant")
    )
    row = {"messages": [question, answer], "tools": [], "id": "a"}
    for number, mutant in enumerate(mutants(row)):
        file = folder / f"{number}.jsonl"
        file.write_text(json.dumps(mutant) + "\n")
        tried(write_tokens, file, "completions", chat, folder / f"{number}.parquet")


def of_rows(folder: Path) -> None:
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    from arena_trainers.data import read_origin
    from arena_trainers.data.origin import _KEY
    from arena_trainers.runs.row_player import without_defaults
    from arena_trainers.runs.tiny import tiny_tokenizer_of
    from arena_wrappers import PromptOptions

    origin = {
        "games": [
            {"id": "kuhn_poker-v0", "params": {"num_players": 2}, "max_turns": 9}
        ],
        "prompts": [{"reply_format": "bare", "persona": ""}],
    }
    file = folder / "rows.parquet"
    for mutant in mutants(origin):
        table = arrow.table({"a": [1]})
        table = table.replace_schema_metadata({_KEY: json.dumps(mutant).encode()})
        parquet.write_table(table, file)
        found = tried(read_origin, file)
        for spec in found.games if found else ():
            named = spec.get("id"), spec.get("params")
            if CANARY in json.dumps(named):  # others make a tokenizer, which takes long
                tried(tiny_tokenizer_of, [spec], PromptOptions())
                tried(without_defaults, spec)


def of_models(folder: Path) -> None:
    from arena_trainers.cli.serve_policy import server_command
    from arena_trainers.lm import models
    from arena_trainers.lm.prompt_file import read_prompt_file
    from arena_trainers.runs.checks.preflight import _sizes_of
    from arena_trainers.runs.results.base_model import base_model

    prompt = {"reply_format": "bare", "persona": "", "system": "a", "language": "en"}
    prompt |= {"temperature": 1.0, "chat_template_kwargs": {"a": "b"}}
    for mutant in mutants(prompt):
        (folder / "arena_prompt.json").write_text(json.dumps(mutant))
        tried(read_prompt_file, folder)
    for mutant in mutants({"license": "mit", "base_model": "a", "tags": ["b"]}):
        (folder / "README.md").write_text(f"---\n{yaml.safe_dump(mutant)}---\n")
        tried(base_model, str(folder), folder)
    config = {"architectures": ["a"], "model_type": "b", "hidden_size": 8}
    (folder / "model.safetensors").touch()
    for mutant in mutants(config):
        (folder / "config.json").write_text(json.dumps(mutant))
        tried(models.check_language_model, str(folder))
        tried(models.check_reward_folder, folder)
        tried(_sizes_of, str(folder), SimpleNamespace())
    for mutant in mutants({"weight_map": {"a": "b"}}):
        (folder / "model.safetensors.index.json").write_text(json.dumps(mutant))
        tried(models.find_model, str(folder))
    adapter = folder / "adapter"
    adapter.mkdir()
    (adapter / "adapter_model.safetensors").touch()
    (folder / "model.safetensors.index.json").unlink()
    (folder / "config.json").write_text(json.dumps(config))
    for mutant in mutants({"base_model_name_or_path": str(folder), "r": 8, "a": ["b"]}):
        (adapter / "adapter_config.json").write_text(json.dumps(mutant))
        tried(server_command, str(adapter), 0, False)


def of_games(folder: Path) -> None:
    """The contents of files that an operator names as sources, protocols, words and starts."""
    task = {"question": "a", "answer": "b", "choices": ["a", "b"]}
    for mutant in [task, *mutants(task)]:
        (folder / "tasks.jsonl").write_text(json.dumps(mutant) + "\n")
        tried(arena_envs.make_game, "questions", source=f"jsonl:{folder}/tasks.jsonl")
    protocols = Path(arena_envs.__path__[0], "games", "protocols")
    for mutant in TEXTS:
        text = (protocols / "debate.toml").read_text()
        for word in ("question", "answer", "debater", "judge"):
            (folder / "own.toml").write_text(
                text.replace(f'"{word}"', json.dumps(mutant))
            )
            tried(arena_envs.make_game, "questions", protocol=f"{folder}/own.toml")
        (folder / "rows.csv").write_text(f"sun,{mutant},tea\n{mutant},oak,map\n")
        tried(arena_envs.make_game, "taboo", cards=f"{folder}/rows.csv")
    for record in mutants({"actions": [1, 0, "bet"]}):
        (folder / "start.jsonl").write_text(json.dumps(record) + "\n")
        tried(arena_envs.make_game, f"start:{folder}/start.jsonl@0.5(kuhn_poker)")


def of_advice(folder: Path) -> None:
    from arena_trainers.cli.suggest import SHIPPED as ADVICE
    from arena_trainers.cli.suggest import read_advice

    advice = json.loads(ADVICE.read_text("utf-8"))
    advice = {"games": advice["games"][:1], "limits": {"a": ["b"]}}
    for mutant in mutants(advice):
        (folder / "advice.json").write_text(json.dumps(mutant))
        tried(read_advice, folder / "advice.json")


def of_conversations(folder: Path) -> None:
    from arena_trainers.data.built_in.mixture import _general_rows
    from arena_trainers.offline.conversations import rows_in

    said = {"messages": [{"role": r, "content": "a"} for r in ("user", "assistant")]}
    for mutant in mutants(said):
        (folder / "general.jsonl").write_text(json.dumps(mutant) + "\n")
        tried(_general_rows, folder / "general.jsonl")
        tried(lambda: list(rows_in(folder / "general.jsonl")))


def of_recipes(folder: Path) -> None:
    """A dry run imports nothing of a recipe; only checks before torch are made here."""
    from arena_envs.trust import no_code
    from arena_trainers.cli.train_request import read_request
    from arena_trainers.runs.checks import preflight

    recipe = {
        "games": ["kuhn_poker"],
        "opponents": "random",
        "credit": "mars",
        "critic": None,
        "agent": None,
        "curriculum": None,
        "losses": {"kl": {"weight": 1}},
        "rewards": {"length": {"weight": 1}},
        "columns": {"a": "b"},
        "warm_start": {"games": ["nim"]},
        "prompt": {"reply_format": "bare"},
    }
    for mutant in mutants(recipe):
        (folder / "recipe.yaml").write_text(yaml.safe_dump(mutant))
        if request := tried(read_request, [f"{folder}/recipe.yaml", "--dry-run"]):
            with no_code():
                tried(preflight.check, request.settings, folder, resume=False)


def of_checkpoints(folder: Path) -> None:
    from arena_trainers.checkpoint import MANIFEST, fault
    from arena_trainers.train.rollout.expected import ExpectedReplies
    from arena_trainers.train.state_files import read_owned

    for mutant in mutants({"files": {"a": {"size": 1, "sha256": "b"}}, "processes": 1}):
        (folder / MANIFEST).write_text(json.dumps(mutant))
        tried(fault, folder)
    for mutant in mutants({"curriculum": "a", "state": {"b": ["c"]}}):
        (folder / "state.json").write_text(json.dumps(mutant))
        tried(read_owned, folder / "state.json", {"curriculum": "a"})
    config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(vocab_size=9))
    backend: Any = SimpleNamespace(model=SimpleNamespace(config=config))
    for mutant in mutants({"num_rounds": 1, "batches": [[[[1], [2], 3]]]}):
        (folder / "expected_replies_0.json").write_text(json.dumps(mutant))
        tried(ExpectedReplies(backend).load, folder)


def of_endpoints(folder: Path) -> None:
    """Answers of a model's server, and the calls of tools that a model writes."""
    from arena_trainers.cli.arguments import as_policy_string
    from arena_trainers.lm.backends.server import JSONServer
    from arena_wrappers.policies.agents.tool_use import _tool_answer
    from arena_wrappers.policies.client import Client

    choice = {
        "message": {"role": "assistant", "content": "bet"},
        "finish_reason": "stop",
    }
    client = Client("http://127.0.0.1:1/v1", key="none")
    for mutant in mutants(
        {"model": "a", "choices": [choice], "error": {"message": "b"}}
    ):
        content = json.dumps(mutant).encode()
        for status in (200, 400):
            answer = SimpleNamespace(status=status, content=content, headers={})
            line: Any = SimpleNamespace(ask=lambda *_, answer=answer: answer)
            tried(client._once, "POST", "/chat", {}, 1e12, line)
            tried(
                JSONServer._parse_answer, SimpleNamespace(url=""), "/a", status, content
            )
    with pytest.MonkeyPatch.context() as patch:
        for mutant in mutants({"data": [{"id": "a"}]}):
            listing = io.BytesIO(json.dumps(mutant).encode())
            patch.setattr("urllib.request.urlopen", lambda *_, it=listing, **__: it)
            tried(as_policy_string, "http://127.0.0.1:1/v1")
    seen = SimpleNamespace(legal=["pass", "bet"], seed=0, seat=0)
    for call in mutants({"name": "calculate", "arguments": {"expression": "1 + 1"}}):
        tried(_tool_answer, seen, json.dumps(call))


def of_trees(folder: Path) -> None:
    """The texts of a game tree: TOML, with tables in braces."""
    from arena_envs.games.tree import Tree, _read_texts

    form = Tree().form
    texts = {"rules": "a", "roles": ["b", "c"], "sets": {"1.1": "d"}}
    for mutant in mutants({**texts, "outcomes": {"2": "e"}}):
        if isinstance(mutant, dict):
            lines = [
                f"{json.dumps(str(name))} = {json.dumps(value, separators=(',', '='))}"
                for name, value in mutant.items()
            ]
            tried(_read_texts, "\n".join(lines), "texts.toml", form)


READERS = (
    *(of_episodes, of_datasets, of_runs, of_evaluations, of_improvements, of_prices),
    *(of_tournaments, of_boards),
    *(
        of_rows,
        of_data_sets_of_messages,
        of_models,
        of_games,
        of_advice,
        of_conversations,
        of_recipes,
    ),
    *(of_checkpoints, of_endpoints, of_trees),
)


def serves_web(folder: Path) -> None:
    from arena_studio.web import Tables, make_app

    clock = itertools.count(step=1000)  # no visitor is too fast
    tables = Tables(folder / "web.sqlite")
    app = make_app(tables, clock=lambda: float(next(clock)))
    headers = {"host": "localhost", "origin": "http://localhost"}
    headers |= {"content-type": "application/json"}

    def ask(method: str, path: str, body: Any = None) -> tuple[int, Any, str]:
        async def talk() -> tuple[int, Any, str]:
            sent: list[Any] = []
            content = b"" if body is None else json.dumps(body).encode()
            given = [(k.encode(), v.encode()) for k, v in headers.items()]
            scope = {"type": "http", "method": method, "path": path, "headers": given}
            scope |= {
                "query_string": b"",
                "scheme": "http",
                "server": ("localhost", 80),
            }
            scope |= {
                "http_version": "1.1",
                "client": ("127.0.0.1", 1),
                "root_path": "",
            }
            request = {"type": "http.request", "body": content, "more_body": False}

            async def receive() -> Any:
                return request

            async def send(message: Any) -> None:
                sent.append(message)

            await app(scope, receive, send)
            cookie = dict(sent[0]["headers"]).get(b"set-cookie", b"").decode()
            text = b"".join(part.get("body", b"") for part in sent[1:])
            return sent[0]["status"], text, cookie.partition(";")[0]

        return asyncio.run(talk())

    headers["cookie"] = ask("POST", "/api/visit", {})[2]
    opening = {"game": "kuhn_poker-v0", "seats": ["person", "random"], "seed": 1}
    status, text, _ = ask("POST", "/api/tables", opening)
    assert status == 200, text
    table = json.loads(text)["table"]
    link = {
        "game": "kuhn_poker-v0",
        "seed": 1,
        "sample": 0,
        "seats": [0],
        "replies": [],
    }
    for path, document in (
        ("/api/visit", {"token": "a"}),
        ("/api/tables", opening),
        (f"/api/tables/{table}/reply", {"text": "bet", "turn": 0}),
        (f"/api/tables/{table}/join", {"invite": "a"}),
        ("/api/replay", link),
        ("/api/values", {**link, "turn": 0}),
    ):
        for mutant in mutants(document):
            assert tried(ask, "POST", path, mutant) is not None, (path, mutant)
    for text in TEXTS:
        ask("GET", f"/api/games/{text}")
        ask("GET", f"/api/tables/{text}")
    (row,) = tables._file.execute("SELECT data FROM tables WHERE id = ?", (table,))
    for mutant in mutants(json.loads(row[0])):
        with tables._file:
            given = (json.dumps(mutant), table)
            tables._file.execute("UPDATE tables SET data = ? WHERE id = ?", given)
        tables._loaded.pop(table, None)
        tables._recent.pop(table, None)
        tried(ask, "GET", f"/api/tables/{table}")
    tables.close()


def serves_mcp(folder: Path) -> None:
    pytest.importorskip("mcp")
    from arena_wrappers.adapters.mcp import make_server

    server = make_server("random")

    async def talk() -> None:
        tools = await server.list_tools()
        assert {tool.name for tool in tools} >= {"list_games", "new_game", "act"}
        for tool in tools:
            kinds = tool.input_schema.get("properties", {})
            plain: Any = {
                name: 0 if kind["type"] == "integer" else "kuhn_poker-v0"
                for name, kind in kinds.items()
                if "type" in kind  # else it may be left out
            }
            for given in mutants(plain):
                with contextlib.suppress(Exception):
                    await server.call_tool(tool.name, given)

    asyncio.run(talk())


def serves_openenv(folder: Path) -> None:
    pytest.importorskip("openenv")
    from arena_wrappers.adapters.openenv import GameAction, environment_maker

    env = environment_maker("kuhn_poker", None, ())()
    for text in TEXTS:
        tried(env.reset, seed=0, episode_id=text)
        tried(env.reset, seed=0, **{CODE: text})
        env.reset(seed=0)
        tried(env.step, GameAction(text=text))


SERVERS = {
    "mcp": serves_mcp,
    "openenv": serves_openenv,
    "policy": of_models,  # prints the command of another server, from an adapter's file
    "web": serves_web,
}


# The walk.

_watched: list[str] | None = None  # events since the walk began


def _watch(event: str, given: tuple[Any, ...]) -> None:
    if _watched is None:
        return
    if event in ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn"):
        _watched.append(f"{event} {given!r:.200}")
    elif event == "open" and CANARY in os.path.basename(str(given[0])):
        _watched.append(f"{event} {given[0]!r:.200}")


sys.addaudithook(_watch)


@contextlib.contextmanager
def watching(folder: Path) -> Iterator[list[str]]:
    """The events that a canary caused: code that ran, files that were opened, endless searches."""
    global _watched
    (folder / f"{CANARY}.py").write_text("def fire(*_, **__): pass\n")
    (folder / f"{CANARY}.txt").write_text('{"question": "1?", "answer": "1"}\nsun\n')
    made = mcts.ISMCTS.__init__

    @wraps(made)  # registries read the signature
    def noted(self: Any, *given: Any, **options: Any) -> None:
        made(self, *given, **options)
        if self.num_simulations > 10_000 and _watched is not None:
            _watched.append(f"a search of {self.num_simulations}")

    before = list(sys.path)
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr(mcts.ISMCTS, "__init__", noted)
        patch.setattr(sys, "path", [*before, str(folder)])
        patch.setattr(trust, "_named_by_operators", set())  # of other tests
        _watched = events = []
        try:
            yield events
        finally:
            _watched = None
            sys.modules.pop(CANARY, None)


@pytest.fixture(scope="module")
def walk(tmp_path_factory: Any) -> Any:
    """Events by driver, and the functions that have parsed a canary."""
    functions, parsed = parsing_functions(), set()

    def noting(parse: Callable[..., Any]) -> Callable[..., Any]:
        def noted(text: Any, *given: Any, **options: Any) -> Any:
            if CANARY in str(text):
                frame = sys._getframe(1)
                for _ in range(3):  # the function may stand around a comprehension
                    parsed.add(_place(frame.f_code))
                    frame = frame.f_back or frame
            return parse(text, *given, **options)

        return noted

    events = {}
    with pytest.MonkeyPatch.context() as patch:
        for module, names in ((json, ("loads",)), (tomllib, ("loads",))):
            for name in names:
                patch.setattr(module, name, noting(getattr(module, name)))
        patch.setattr(yaml_text, "read", noting(yaml_text.read))
        patch.setattr(csv, "reader", noting(csv.reader))
        for driver in (*READERS, *SERVERS.values()):
            folder = tmp_path_factory.mktemp(driver.__name__)
            with watching(folder) as found:
                try:
                    driver(folder)
                except pytest.skip.Exception:
                    continue
            events[driver.__name__] = list(found)
    return SimpleNamespace(events=events, parsed=parsed, functions=functions)


def _place(code: Any) -> str:
    path = Path(code.co_filename)
    root = next((root for root in ROOTS if path.is_relative_to(root)), None)
    name = code.co_qualname.partition(".<locals>")[0].replace("<module>", "the module")
    return f"{path.name}:{name}" if root else ""


@pytest.mark.parametrize(
    "driver", [*READERS, *dict.fromkeys(SERVERS.values())], ids=lambda d: d.__name__
)
def test_no_canary_runs_code_opens_a_file_or_searches_without_end(walk, driver):
    if driver.__name__ not in walk.events:
        pytest.skip("an extra is not installed")
    assert not walk.events[driver.__name__]


def test_every_reader_has_read_a_canary(walk):
    assert {*OTHERS} <= walk.functions, "OTHERS names functions that parse nothing"
    missing = walk.functions - walk.parsed - {*OTHERS}
    assert not missing, f"no driver gives these a canary: {sorted(missing)}"


def test_every_server_has_a_canary():
    from arena_trainers.cli.commands import CommandTable

    assert {*CommandTable("serve")} == {*SERVERS}


def test_the_canaries_are_alive(tmp_path):
    """Where an operator allows it, each kind of canary does what it says."""
    with watching(tmp_path) as events:
        for record in records():
            line = json.dumps({**record, "game": TEXTS[0]})
            (tmp_path / "episodes.jsonl").write_text(line)
            tried(arena, "replay", tmp_path / "episodes.jsonl", "--allow-code")
            source = {**record, "params": {"source": TEXTS[4]}}
            tried(game_of, Episode.from_json(json.dumps(source)), allow_code=True)
        tried(arena_wrappers.make_policy, TEXTS[-1])
    for wanted in (f"{CANARY}.py", f"{CANARY}.txt", "a search of 999999999"):
        assert any(wanted in event for event in events), (wanted, events[:5])
