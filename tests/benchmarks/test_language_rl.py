"""Language games by self-play: what a run keeps."""

import sys

import pytest

import language_rl


def test_the_options_of_a_run_are_those_of_the_command() -> None:
    arguments = language_rl.train_arguments("taboo", 2, "runs/x")
    assert arguments[:2] == ["train", "kuhn-tiny"]
    games = arguments[arguments.index("--games") + 1]
    assert games == (
        "[{id: taboo, params: {num_cards: 3, num_rounds: 1, show_words: true}}]"
    )
    assert arguments[arguments.index("--seed") + 1] == "2"


def test_a_command_that_fails_ends_the_run(monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", [])
    with pytest.raises(RuntimeError, match="ended with status 2"):
        language_rl.arena(["eval", "random", "no_such_game"])


@pytest.mark.slow
def test_a_run_keeps_returns_before_and_after_with_each_partner(monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(language_rl, "NUM_EPISODES", 4)
    few = {"max_steps": 1, "save_steps": 1, "eval_episodes": 2, "warm_start_steps": 2}
    monkeypatch.setattr(language_rl, "OPTIONS", {**language_rl.OPTIONS, **few})
    run = language_rl.train("taboo", language_rl.SELF_PLAY, 0)
    for found in run.values():
        partners = [row[:3] for row in found["rows"] if row[1] == "all"]
        assert partners == [["self", "all", 4], ["taboo:honest", "all", 8]]
        assert len(found["said"]) == language_rl.NUM_SHOWN
