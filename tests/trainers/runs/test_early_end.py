"""Scores against the start, the end of a run without progress, and warnings of collapse."""

import io
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from transformers import AutoModelForCausalLM, TrainerControl

from arena_studio.report.collapse import CollapseLimits
from arena_trainers import TurnGRPOConfig
from arena_trainers.runs import (
    NASH_CONV,
    JobConfig,
    SelfPlayRun,
    load_recipe,
    read_best,
    read_metrics,
)
from arena_trainers.runs.callbacks.against_start import score_against
from arena_trainers.runs.callbacks.best import START_SCORE
from arena_trainers.runs.callbacks.patience import Patience
from arena_trainers.train import GamePlan
from arena_wrappers import RandomPolicy, make_policy

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")

SMALL = {"hidden_size": 16, "num_layers": 1, "warm_start_steps": 0}
SMALL |= {"episodes_per_step": 8, "num_generations": 2, "credit_args": {}}
SMALL |= {"max_steps": 4, "evaluate_every": 1, "eval_episodes": 4, "seed": 1}


def trained(folder, **options):
    """What a run printed, and the weights that it ended with."""
    out = io.StringIO()
    settings = {**load_recipe("kuhn-tiny"), **SMALL, **options}
    job = SelfPlayRun(settings, folder, Console(file=out, width=80))
    job.prepare()
    job.run()
    model = AutoModelForCausalLM.from_pretrained(folder / "model")
    return out.getvalue(), model.state_dict()


def equal(one, other):
    return all(torch.equal(tensor, other[name]) for name, tensor in one.items())


@pytest.mark.slow
def test_a_run_ends_without_progress(tmp_path):
    """Without learning no score improves on the first."""
    still = {"learning_rate": 0.0, "history": "transcript"}  # which has no NashConv
    watch = {"start_episodes": 4, "patience": 2, "warn_collapse": True}
    printed, _ = trained(tmp_path / "one", **still, **watch)
    assert "training ends at step 3 of 4: score against the start has not" in printed
    records = read_metrics(tmp_path / "one" / "metrics.jsonl")
    scores = [r["arena/kuhn_poker/against_start"] for r in records if "loss" in r]
    assert len(scores) == 3
    assert len(set(scores)) == 1
    best = read_best(tmp_path / "one")
    assert (best.step, best.score, best.metric) == (1, scores[0], START_SCORE)
    assert (tmp_path / "one" / "checkpoint-3").is_dir()


@pytest.mark.slow
def test_measurements_leave_training_as_it_is(tmp_path):
    watch = {"start_episodes": 4, "patience": 9, "warn_collapse": True}
    _, watched = trained(tmp_path / "one", **watch)
    _, plain = trained(tmp_path / "two")
    assert equal(watched, plain)


@pytest.mark.parametrize("game", ["kuhn_poker", "tiny_hanabi", "blackjack"])
def test_a_policy_against_itself_scores_nothing(game):
    plan = GamePlan(game, TurnGRPOConfig(use_cpu=True, bf16=False))
    mean, error = score_against(plan, RandomPolicy(), RandomPolicy(), 400)
    assert abs(mean) <= 3 * error


def test_the_learner_has_every_seat_against_the_start():
    """Minimax never loses to random play, in either seat; random play loses to it."""
    plan = GamePlan("tic_tac_toe", TurnGRPOConfig(use_cpu=True, bf16=False))
    best, random = make_policy("minimax"), RandomPolicy()
    one, _ = score_against(plan, best, random, 20)
    other, _ = score_against(plan, random, best, 20)
    assert one > 1
    assert other < -1


def log_of(score, **other):
    return {"loss": 0.0, NASH_CONV: score, **other}


def ended_after(scores, window=1, before=(), patience=2):
    """The step at which a run of these scores ends, and what is said."""
    said: list[str] = []
    watcher = Patience(NASH_CONV, patience, window, said.append, before)
    control = TrainerControl()
    for step, score in enumerate(scores, 1):
        state = SimpleNamespace(
            global_step=step, max_steps=99, is_world_process_zero=True
        )
        watcher.on_step_end(None, state, control)
        if score is not None and not control.should_training_stop:
            watcher.on_log(None, state, control, logs=log_of(score))
        if control.should_training_stop:
            assert control.should_save
            return step, said
    return None, said


def test_patience_counts_evaluations_since_the_best():
    assert ended_after([3.0, 2.0, 2.5, 2.0])[0] == 4
    assert ended_after([3.0, 3.1, 2.0, 2.5, 1.0])[0] is None
    step, said = ended_after([1.0, None, 2.0, None, 2.0, 3.0])
    assert step == 5
    (line,) = said
    assert line.startswith("training ends at step 5 of 99: arena/nash_conv has not")


def test_patience_waits_for_the_end_of_a_generation_batch():
    assert ended_after([1.0, 2.0, 2.0, 2.0], window=4)[0] == 4


def test_patience_counts_on_in_a_resumed_run_and_anew_after_it_ended():
    before = [log_of(1.0), log_of(2.0), {NASH_CONV: 5.0}]
    assert ended_after([2.0], before=before)[0] == 1
    assert ended_after([2.0, 2.0], before=[*before, log_of(2.0)])[0] == 2


def figures(entropy=1.0, legal=0.9, tokens=10.0, score=0.0):
    return {
        "loss": 0.0,
        "entropy": entropy,
        "arena/legal_rate": legal,
        "arena/reply_tokens": tokens,
        "arena/kuhn_poker/against_start": score,
        "arena/kuhn_poker/against_start_error": 0.1,
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"entropy": 0.09}, "the entropy of tokens fell from 1 to 0.09"),
        ({"legal": 0.69}, "the rate of legal replies fell from 0.90 to 0.69"),
        ({"tokens": 4.9}, "replies went from 10 tokens to 4.9"),
        ({"tokens": 20.1}, "replies went from 10 tokens to 20.1"),
        (
            {"score": -0.21},
            "in kuhn_poker the model is worse than at the start, by 0.21",
        ),
    ],
)
def test_each_figure_is_warned_of_when_it_crosses_its_limit(change, message):
    watcher = CollapseLimits()
    assert watcher.new_warnings(figures()) == []
    assert watcher.new_warnings(figures(0.11, 0.71, 19.9, -0.19)) == []
    (said,) = watcher.new_warnings(figures(**change))
    assert said.startswith(message)
    assert watcher.new_warnings(figures(**change)) == []
    assert (
        watcher.new_warnings({"loss": 0.0})
        == watcher.new_warnings({"train_loss": 0.0})
        == []
    )
    assert watcher.new_warnings(figures()) == []
    assert watcher.new_warnings(figures(**change)) == [said]


def test_settings_without_a_measurement_are_refused(tmp_path):
    with pytest.raises(
        ValueError, match="at least 2 with evaluate_every above 0, got 8"
    ):
        JobConfig(start_episodes=8, evaluate_every=0)
    with pytest.raises(ValueError, match="want patience only where training measures"):
        trained(tmp_path / "run", patience=1, evaluate_every=0)
    assert not (tmp_path / "run").exists()
