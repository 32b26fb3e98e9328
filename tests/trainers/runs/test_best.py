"""`RUN/best/`, the printed sample replies, and the profile of a run."""

import io
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rich.console import Console
from transformers import AutoModelForCausalLM

import arena_envs
from arena_envs.solvers import expected_returns
from arena_eval import exploitability, tabular
from arena_eval.exploit import SHORT
from arena_trainers import TurnGRPOConfig
from arena_trainers.lm import LMPolicy
from arena_trainers.runs import (
    NASH_CONV,
    JobConfig,
    SelfPlayRun,
    load_recipe,
    read_best,
    read_metrics,
)
from arena_trainers.runs.callbacks.best import (
    LEARNER_RETURN,
    MEAN_RETURN,
    BestModel,
    BestScore,
    finish_swap,
    score_metric,
    score_of,
)
from arena_trainers.runs.callbacks.luck_out import LuckOut
from arena_trainers.runs.callbacks.replies import sample_reply
from arena_trainers.runs.results.commands import best_line
from arena_trainers.train import GamePlan
from arena_wrappers import make_policy, play

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")

SMALL = {"hidden_size": 16, "num_layers": 1, "warm_start_steps": 10}
SMALL |= {"warm_start_episodes": 100}
SMALL |= {"episodes_per_step": 8, "num_generations": 2, "credit_args": {}}
SMALL |= {"max_steps": 4, "evaluate_every": 1, "eval_episodes": 4, "seed": 1}


def trained(folder, **options):
    """What a run printed."""
    out = io.StringIO()
    settings = {**load_recipe("kuhn-tiny"), **SMALL, **options}
    job = SelfPlayRun(settings, folder, Console(file=out, width=80))
    job.prepare()
    job.run()
    return out.getvalue()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run folder and what the run printed."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    return folder, trained(folder, show_replies_every=2)


def test_the_best_model_is_the_one_of_the_lowest_nash_conv(run):
    folder, printed = run
    records = read_metrics(folder / "metrics.jsonl")
    measured = [(r[NASH_CONV], r["step"]) for r in records if "loss" in r]
    assert len(measured) == 4
    score, step = min(measured)
    assert read_best(folder) == BestScore(step, score, NASH_CONV)
    policy = LMPolicy.from_pretrained(folder / "best")
    found = exploitability(policy, arena_envs.make_game("kuhn_poker"))
    assert found.nash_conv == pytest.approx(score, abs=1e-5)
    results = json.loads((folder / "results.json").read_text())
    assert results["best"] == {"step": step, "score": score, "metric": NASH_CONV}
    assert (
        f"the best model of training is in {folder / 'best'} (step {step}," in printed
    )


@pytest.mark.slow
def test_training_is_the_same_without_best_models_and_sample_replies(run, tmp_path):
    folder = tmp_path / "run"
    printed = trained(folder, save_best=False)
    assert not (folder / "best").exists()
    assert "no best model is kept: save_best is false" in printed
    assert "a reply in" not in printed  # off for the tiny model
    weights = [
        AutoModelForCausalLM.from_pretrained(path / "model").state_dict()
        for path in (run[0], folder)
    ]
    assert all(torch.equal(x, weights[1][name]) for name, x in weights[0].items())


def test_a_run_prints_replies_and_its_speed_in_80_columns(run):
    lines = run[1].splitlines()
    shown = [line for line in lines if "a reply in kuhn_poker" in line]
    assert [line.split(",")[0] for line in shown] == ["step 2", "step 4"]
    speeds = [line for line in lines if line.startswith("  tokens/s: ")]
    assert len(speeds) == 4
    assert max(map(len, speeds)) <= 80


def test_a_run_tells_the_cpu_time_of_a_turn_by_part(run):
    folder, printed = run
    profile = json.loads((folder / "results.json").read_text())["profile"]
    assert profile["turns"] >= 4 * 8  # of each episode one or more
    cost = profile["cpu_microseconds_per_turn"]
    assert min(cost.values()) > 0
    assert (
        f"environment {cost['environment']:.0f}, credit {cost['credit']:.0f}" in printed
    )


def test_what_a_model_wrote_is_printed_escaped_and_cut(make_trainer, generated):
    trainer = make_trainer()
    generated(trainer)
    record = trainer.last_selected.records[0]
    turns = trainer.last_episodes[record.episode].turns
    hostile = "\x1b[2J[bold]\nstep 5/5\u202e" + 300 * "x"
    turns[record.place] = replace(turns[record.place], reply=hostile)
    shown = sample_reply(trainer, 0)
    assert shown.isascii()
    assert "\x1b" not in shown
    reply = shown.splitlines()[2]
    assert reply.startswith(r"  reply: '\x1b[2J[bold]\nstep 5/5\u202exxx")
    assert reply.endswith("xxx'...")
    advantage = float(trainer.last_credit.advantage[trainer.last_selected.rows[0]])
    assert shown.endswith(f"; advantage {advantage:.3f}")


def test_replies_are_shown_by_default_of_given_models_alone():
    assert JobConfig().steps_between_replies == 0
    assert JobConfig(model="some/model").steps_between_replies == 10
    assert JobConfig(show_replies_every=3).steps_between_replies == 3


@pytest.mark.parametrize(
    ("games", "is_exact", "metric"),
    [
        (["kuhn_poker"], True, NASH_CONV),
        (["kuhn_poker"], False, None),
        (["tiny_hanabi"], False, MEAN_RETURN),
        (["blackjack"], False, MEAN_RETURN),
        (["tiny_hanabi", "signaling"], False, None),
    ],
)
def test_the_score_is_one_that_tells_better_from_worse(games, is_exact, metric):
    args = TurnGRPOConfig(use_cpu=True, bf16=False)
    plans = [GamePlan(game, args) for game in games]
    assert score_metric(plans, is_exact) == metric


@pytest.mark.parametrize(
    ("opponents", "metric"),
    [
        ("random", LEARNER_RETURN),
        (["self", "random"], LEARNER_RETURN),
        (["self", "self"], NASH_CONV),
        ("past_selves", NASH_CONV),
    ],
)
def test_the_score_against_opponents_that_stay_is_the_return_of_the_learner(
    opponents, metric
):
    args = TurnGRPOConfig(use_cpu=True, bf16=False, opponents=opponents)
    plans = [GamePlan("kuhn_poker", args)]
    assert score_metric(plans, True) == metric
    several = [*plans, GamePlan("nim", args)] if isinstance(opponents, str) else plans
    assert score_metric(several, True, True, True) == NASH_CONV


@pytest.mark.slow
def test_a_run_against_random_keeps_the_model_of_the_best_return(tmp_path):
    """The returns of both seats add up to 0 at each log; the luck is taken out where that helps."""
    folder = tmp_path / "run"
    printed = trained(folder, opponents=["self", "random"], max_steps=2)
    name = "arena/kuhn_poker/against/random/return"
    logs = [r for r in read_metrics(folder / "metrics.jsonl") if "loss" in r]
    scores = {r["step"]: r.get("arena/kuhn_poker/luck_out", r[name]) for r in logs}
    best = max(scores, key=lambda step: scores[step])
    assert read_best(folder) == BestScore(best, scores[best], LEARNER_RETURN)
    assert f"return {logs[1][name]:.3f} against random  legal" in printed
    learner = json.loads((folder / "results.json").read_text())["learner_return"]
    assert "luck_out" in learner["final"]


def test_the_return_that_chooses_the_best_model_has_its_luck_taken_out():
    """100 games of a bot that reports no probabilities, against random play in Kuhn poker."""
    args = TurnGRPOConfig(use_cpu=True, bf16=False, opponents=["self", "random"])
    plan, opponents = GamePlan("kuhn_poker", args), {"random": make_policy("random")}
    bot = make_policy("noisy:0.5(cfr:50)")
    learner = SimpleNamespace(act=bot.act, name="model")
    episodes = play(plan.env_fn, [learner, opponents["random"]], range(100))
    trainer = SimpleNamespace(
        last_played=SimpleNamespace(
            first_episodes=episodes, seats=[["self", "random"]] * len(episodes)
        ),
        matching=SimpleNamespace(learner=learner),
        games=SimpleNamespace(opponents=opponents),
    )
    callback, logs = LuckOut(trainer, plan), {"loss": 0.0}
    for _ in range(2):  # a batch that trains two steps counts once
        callback.stepped(None, None)
    callback.logged(None, logs)
    table = tabular(bot, plan.game, SHORT)[0]
    table = {key: row if key[0] == 0 else [0.5, 0.5] for key, row in table.items()}
    exact = float(expected_returns(plan.game, table)[0])
    raw = np.mean([episode.returns[0] for episode in episodes])
    score = score_of(logs, LEARNER_RETURN)
    assert abs(score - exact) < 0.5 * abs(raw - exact)
    callback.logged(None, empty := {"loss": 0.0})
    assert score_of(empty, LEARNER_RETURN) is None


def folder_of(path, step):
    path.mkdir(parents=True)
    (path / "best.json").write_text(
        json.dumps({**vars(BestScore(step, 1.0, MEAN_RETURN))})
    )


@pytest.mark.parametrize("killed", ["saving", "saved", "moved", "placed"])
def test_a_swap_that_was_killed_is_finished(tmp_path, killed):
    """A whole new model takes the old one's place; half a model never does."""
    if killed == "saving":
        folder_of(tmp_path / "best", 1)
        (tmp_path / "best.part").mkdir()
    if killed == "saved":
        folder_of(tmp_path / "best", 1)
        folder_of(tmp_path / "best.part", 2)
    if killed == "moved":
        folder_of(tmp_path / "best.old", 1)
        folder_of(tmp_path / "best.part", 2)
    if killed == "placed":
        folder_of(tmp_path / "best.old", 1)
        folder_of(tmp_path / "best", 2)
    finish_swap(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["best"]
    assert read_best(tmp_path).step == (1 if killed == "saving" else 2)


def test_a_foreign_best_json_is_refused(tmp_path):
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "best.json").write_text('{"score": 1}')
    with pytest.raises(ValueError, match=r"want step, score and metric .*; move the"):
        read_best(tmp_path)


def test_the_end_says_why_there_is_no_best_model(tmp_path):
    assert "training measured no score" in best_line(tmp_path, None, True, 10)
    short = SimpleNamespace(
        args=SimpleNamespace(should_save=False),
        state=SimpleNamespace(global_step=3, logging_steps=5),
    )
    said = best_line(tmp_path, BestModel(short, tmp_path, NASH_CONV), True, 10)
    assert "the run had 3 steps, fewer than evaluate_every (10)" in said
    said = best_line(tmp_path, BestModel(short, tmp_path, MEAN_RETURN), True, 10)
    assert "the run had 3 steps, fewer than logging_steps (5)" in said
