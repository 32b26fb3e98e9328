"""The model cards of a run: what the hub reads, escaped texts, and the push."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import HfApi, ModelCard, ModelCardData
from markdown_it import MarkdownIt
from rich.console import Console

from arena_trainers.runs import SelfPlayRun, build_configs
from arena_trainers.runs.results import card
from arena_trainers.runs.results.base_model import base_model
from arena_trainers.runs.results.card import (
    eval_results,
    local_folders,
    without_folders,
)
from arena_trainers.runs.results.hub import push_model
from arena_trainers.runs.results.markdown import cell, code, code_block, table
from arena_trainers.runs.results.measure import GameOutcome, Interval, Measurement

HOSTILE = [
    "a`b``c",
    "<script>alert(1)</script>",
    "| x | y |",
    "line\n# break\r\n---",
    "![i](http://h/i.png)",
    "```\n# out",
    "\x1b[2J",
    "",
]
SETTINGS = {
    **{"lora_r": 4, "learning_rate": 1e-2, "rules": False, "reply_format": "bare"},
    **{"max_completion_length": 2, "max_steps": 1, "episodes_per_step": 8},
    **{"num_generations": 4, "eval_episodes": 2, "evaluate_every": 0},
    **{"gradient_checkpointing": False, "save_steps": 1},
}


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_cannot_end_its_frame(text):
    """Parsed as the hub would: a heading, a table of one row, a block; nothing else."""
    body = [code(text), table(("a", "b"), [(cell(text), "x")]), code_block(text)]
    tokens = MarkdownIt("commonmark").enable("table").parse("# " + "\n\n".join(body))
    blocks = [token.type for token in tokens if not token.level]
    assert blocks == [
        *("heading_open", "heading_close", "table_open", "table_close", "fence")
    ]
    assert sum(token.type == "td_open" for token in tokens) == 2
    inside = [child for token in tokens for child in token.children or ()]
    assert {child.type for child in inside} <= {"text", "code_inline"}


@pytest.fixture
def hub(monkeypatch):
    """A hub in this process: what was asked of it, by the name of the method."""
    asked = {}

    def answer(name, result):
        def call(self, *args, **kwargs):
            asked[name] = args, kwargs
            return result

        monkeypatch.setattr(HfApi, name, call)

    class Url(str):
        repo_id = "someone/run"

    answer("whoami", {"name": "someone"})
    answer("create_repo", Url("someone/run"))
    answer("upload_folder", None)
    return asked


@pytest.fixture
def base_folder(copy_of, model_folder):
    """A model whose card states licence and origin."""
    folder = copy_of(model_folder, None, "base")
    data = ModelCardData(license="apache-2.0", base_model="Qwen/Qwen3-0.6B")
    (folder / "README.md").write_text(f"---\n{data.to_yaml()}\n---\n\n# Base\n")
    return folder


def test_results_are_a_model_index_that_the_hub_library_reads():
    final = Measurement("final", 0.25, returns=(Interval(1.0, None, None),))
    row = SimpleNamespace(role="policy", opponent="cfr", seat=0, mean_return=-0.5)
    lost = SimpleNamespace(role="policy", opponent="api", seat=0, mean_return=math.nan)
    bot = SimpleNamespace(role="bot", opponent="cfr", seat=0, mean_return=9.0)
    rows = SimpleNamespace(rows=[row, lost, bot])
    found = eval_results([GameOutcome("kuhn_poker", [final], rows, None)])
    data = ModelCardData(model_name="run", eval_results=found)
    read: Any = ModelCard(f"---\n{data.to_yaml()}\n---\n").data
    assert {r.metric_name: r.metric_value for r in read.eval_results} == {
        "NashConv": 0.25,
        "mean return of player_0 in self-play": 1.0,
        "mean return against cfr, seat 0": -0.5,
    }
    assert {r.dataset_type for r in read.eval_results} == {"arena/kuhn_poker"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_a_run_pushes_its_model_with_a_card_that_names_the_base(
    base_folder, tmp_path, hub, capsys
):
    settings = {**SETTINGS, "model": str(base_folder), "push_to_hub": True}
    job = SelfPlayRun(settings, tmp_path / "run", Console())
    job.prepare()
    job.run()
    folder = tmp_path / "run"
    for path in (folder, folder / "model"):
        found = ModelCard.load(path / "README.md").data
        assert (found.license, found.base_model) == ("apache-2.0", "Qwen/Qwen3-0.6B")
        assert found.library_name == "peft"
        assert found.model_name == "run"
        assert {r.metric_name for r in found.eval_results} >= {
            *("NashConv", "mean return of player_0 in self-play")
        }
        assert {"lora", "kuhn_poker", "arena-envs"} <= set(found.tags)
        card = (path / "README.md").read_text()
        assert "model: base\n" in card
        assert "| base model | `base` |" in card
        assert str(tmp_path) not in card
        assert str(base_folder.parent) not in card
    assert not (folder / "checkpoint-1" / "README.md").exists()  # peft's
    _, uploaded = hub["upload_folder"]
    assert (uploaded["repo_id"], uploaded["folder_path"]) == (
        "someone/run",
        folder / "model",
    )
    assert "on the hub: someone/run" in capsys.readouterr().out


def test_a_push_that_fails_says_how_to_push_by_hand(tmp_path, hub, monkeypatch):
    def fail(self, **kwargs):
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(HfApi, "upload_folder", fail)
    trainer = SimpleNamespace(hub_model_id="a/b", args=build_configs({}, "run")[1])
    line = push_model(tmp_path, trainer)
    assert "not pushed: no route; push it with: hf upload a/b" in line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"push_to_hub": True}, "hf auth login"),
        (
            {"push_to_hub": True, "hub_strategy": "every_save"},
            "want hub_strategy 'end'",
        ),
        ({"hub_token": "secret"}, "config.yaml would hold it"),
    ],
)
def test_a_push_that_cannot_work_is_refused_first(
    options, message, model_folder, tmp_path, monkeypatch
):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    settings = {**SETTINGS, "model": str(model_folder), **options}
    job = SelfPlayRun(settings, tmp_path / "run", Console(quiet=True))
    with pytest.raises(ValueError, match=message) as raised:
        job.prepare()
    assert "secret" not in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_the_base_of_a_model_without_a_card_is_unknown(tmp_path):
    assert base_model("tiny", None) == ("tiny", None, {})
    assert base_model(str(tmp_path), tmp_path) == (str(tmp_path), None, {})
    assert base_model("Qwen/Qwen3-0.6B", tmp_path)[1:] == ("Qwen/Qwen3-0.6B", {})
    (tmp_path / "README.md").write_text("---\nlicense: [a\n---\n")
    assert base_model(str(tmp_path), tmp_path).licence == {}
    (tmp_path / "README.md").write_text(
        "---\nlicense: unknown\nbase_model: /a/b\n---\n"
    )
    assert base_model(str(tmp_path), tmp_path) == (str(tmp_path), None, {})


@pytest.mark.parametrize("agent", [None, "arena_wrappers.policies.agents:debate"])
def test_a_card_says_where_to_put_the_module_of_an_agent(agent, tmp_path):
    job, args = build_configs({"agent": agent} if agent else {}, str(tmp_path))
    base, told = base_model("tiny", None), (job, args, [], [], {}, "by self-play")
    text = card._commands(card.CardSource(tmp_path, base, *told, (), ()), ".")
    assert ("Set `PYTHONPATH`" in text) == (agent is not None)


def test_only_folders_of_this_machine_are_left_out():
    paths = ["lm:/home/a b/run/#rules=false", "noisy:0.1(lm:/x/y,/home/m)", "~/n", "/m"]
    given = {"opponents": [*paths, "vllm:http://h:80/v1/a", "Qwen/Qwen3", "1/2/3"]}
    found = without_folders(str(given), local_folders(given))
    kept = ["lm:run/#rules=false", "noisy:0.1(lm:y,m)", *paths[2:]]
    assert found == str({"opponents": [*kept, *given["opponents"][4:]]})


def test_runs_are_named_after_their_folder_in_other_logs(tmp_path):
    _, args = build_configs({}, str(tmp_path / "first"))
    assert (args.run_name, args.project) == ("first", "arena-envs")
    _, args = build_configs({"run_name": "own", "project": "p"}, str(tmp_path))
    assert (args.run_name, args.project) == ("own", "p")
