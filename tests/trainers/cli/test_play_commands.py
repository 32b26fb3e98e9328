"""`arena solve` and `arena play`, called as a user would."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import arena_envs
from arena_envs.hostile import wrapped
from arena_wrappers import replay
from arena_wrappers.records import read_episodes


@pytest.mark.parametrize(
    ("arguments", "solver", "value"),
    [
        (["kuhn_poker"], "cfr+", -1 / 18),
        (["kuhn_poker", "--solver", "lp"], "lp", -1 / 18),
        (["kuhn_poker", "--solver", "cfr", "--iterations", "5000"], "cfr", -1 / 18),
        (["tic_tac_toe"], "minimax", 0.0),
        (["nim"], "minimax", -1.0),
        (["matching_pennies"], "cfr+", 0.0),
    ],
)
def test_solve_finds_the_known_values(
    arguments: list[str], solver: str, value: float, arena_here: Any
) -> None:
    found = json.loads(arena_here("solve", *arguments, "--json").stdout)
    assert found["solver"] == solver
    assert found["values"] == pytest.approx([value, -value], abs=2e-3)
    if found["nash_conv"] is not None:
        assert -1e-9 < found["nash_conv"] < 5e-3


def test_solve_writes_a_policy_that_can_be_read(
    tmp_path: Path, arena_here: Any
) -> None:
    path = tmp_path / "kuhn.json"
    shown = arena_here("solve", "kuhn_poker", "--out", str(path)).stdout
    assert "KuhnPoker(num_players=2) by cfr+" in shown
    found = json.loads(path.read_text())
    assert len(found["policy"]) == found["num_information_states"] == 12
    for row in found["policy"]:
        assert row["text"].startswith(f"You are player_{row['seat']} and hold ")
        assert sum(row["actions"].values()) == pytest.approx(1)
        assert list(row["actions"]) == ["pass", "bet"]


def test_a_full_disk_is_one_sentence_and_status_1(arena_here: Any) -> None:
    done = arena_here("solve", "kuhn_poker", "--out", "/dev/full")
    assert done.returncode == 1
    assert done.stderr.startswith("error: [Errno 28]")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["solve", "hex", "--max-states", "1000"], "states or more, estimated from"),
        (["solve", "kuhn_poker", "--solver", "magic"], "want a solver among minimax"),
        (
            ["solve", "kuhn_poker", "--solver", "minimax"],
            "want a game of perfect infor",
        ),
        (["solve", "nim", "--out", "/no/such/folder/x"], "want --out in a folder"),
        (["solve", "nim", "--out", "x"], "minimax finds values but no policy"),
        (["play", "kuhn_poker", "--seed", "-1"], "want --seed of at least 0, got -1"),
        (["play", "kuhn_poker", "--out", "/dev/null/x"], "File exists: '/dev/null'"),
        (["play", "kuhn_poker", "--seat", "2"], "want --seat from 0 to 1, got 2"),
        (["play", "kuhn_poker", "-a", "randm"], "no policy 'randm'; did you mean"),
        (["play", "kuhn_poker", "-a", "random", "-a", "random"], "want 1 opponents"),
        (["play", "kuhn_poker", "-a", "minimax"], "want a game of perfect information"),
    ],
)
def test_mistakes_are_one_sentence_and_status_2(
    arguments: list[str], sentence: str, arena_here: Any
) -> None:
    done = arena_here(*arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_person_plays_and_the_episode_is_kept(
    tmp_path: Path, arena_here: Any
) -> None:
    path = tmp_path / "games.jsonl"
    options = ["-a", "constant:0", "--seed", "3", "--out", str(path)]
    words = ("play", "kuhn_poker", *options, "--hint", "cfr")
    done = arena_here(*words, typed="?\nx\nbet\n")
    assert done.returncode == 0, done.stderr
    assert "%  pass" in done.stdout
    assert "Not a legal action: 'x'." in done.stdout
    assert "What was hidden from you:\nplayer_1:\n  [" in done.stdout  # its card
    assert done.stdout.splitlines()[-2:] == [
        "player_0 (you): 1",
        "player_1 (constant:0): -1",
    ]
    (episode,) = read_episodes(path)
    assert replay(episode) == episode
    assert [turn.reply for turn in episode.turns] == ["bet", "<answer>pass</answer>"]


def test_a_closed_input_stops_the_game(arena_here: Any) -> None:
    done = arena_here("play", "tic_tac_toe", "--seat", "1", typed="")
    assert done.returncode == 130
    assert done.stdout.endswith("stopped\n")


def test_every_seat_of_a_game_can_be_played(arena_here: Any) -> None:
    for seat in range(2):
        game = arena_envs.make_game("matching_pennies")
        text = game.action_text(game.initial_state(), 0)
        words = ("play", "matching_pennies", "--seat", str(seat))
        done = arena_here(*words, typed=f"{text}\n")
        assert done.returncode == 0
        assert f"player_{seat} (you): " in done.stdout


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_another_game_is_offered_with_the_next_seed(
    tmp_path: Path, arena_here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "games.jsonl"
    words = (
        "play",
        "kuhn_poker",
        "-a",
        "constant:0",
        "--seed",
        "3",
        "--out",
        str(path),
    )
    monkeypatch.setattr(sys, "stdin", Terminal("bet\n\nbet\nn\nbet\n"))
    done = arena_here(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert [episode.seed for episode in read_episodes(path)] == [3, 4]


def test_a_closed_input_is_a_no_to_another_game(
    arena_here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("bet\n"))
    assert arena_here("play", "kuhn_poker", "-a", "constant:0").returncode == 0


def test_a_model_that_is_loaded_is_named(arena_here: Any) -> None:
    done = arena_here("play", "kuhn_poker", "-a", "noisy:0.5(lm:/no/such/model)")
    assert done.returncode == 2
    first, *_ = done.stderr.splitlines()
    assert first == "loading noisy:0.5(lm:/no/such/model) ..."


def test_long_lines_are_wrapped_at_words_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    text = "You hold the king of spades.\n  a b\n" + "x" * 30
    lines = "You hold the king of\nspades.\n  a b\n" + "x" * 30
    assert wrapped(text, Terminal()) == lines
    assert wrapped(text, io.StringIO()) == text
