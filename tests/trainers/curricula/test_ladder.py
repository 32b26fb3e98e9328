"""A ladder: one game and several opponents, which a curriculum climbs."""

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arena_trainers.curricula import Outcome, curricula
from arena_trainers.train import GamePlan
from arena_trainers.train.game_entries import expanded
from arena_trainers.train.games import different_games, numbered_names
from arena_trainers.train.settings import SelfPlay

PAGE = Path(__file__).parents[3] / "docs" / "tasks.md"
LADDER = [{"id": "kuhn_poker", "ladder": ["random", "cfr"], "weight": 3.0}]


def plans_of(games: list[Any]) -> list[GamePlan]:
    args = SelfPlay(games=games)
    return [GamePlan(entry, args) for entry in expanded(games)]


def test_a_ladder_is_a_task_for_each_opponent() -> None:
    plans = plans_of(LADDER)
    assert numbered_names(plans) == [
        "kuhn_poker against random",
        "kuhn_poker against cfr",
    ]
    assert [plan.weight for plan in plans] == [1.5, 1.5]
    assert plans[1].lineups == [["self", "cfr"], ["cfr", "self"]]
    assert plans[1].learners == [True, True]
    (measured,) = different_games(plans)
    assert measured.opponent == "cfr"


def test_a_ladder_is_climbed_by_success() -> None:
    curriculum = curricula.make("stages(success=0.8, window=4)")
    names = numbered_names(plans_of(LADDER))
    curriculum.prepare(dict.fromkeys(names))
    rng = np.random.default_rng(0)
    assert curriculum.propose(0, rng).game == names[0]
    curriculum.update([Outcome(names[0], 0.5)] * 4, 1)
    assert curriculum.propose(2, rng).game == names[0]
    curriculum.update([Outcome(names[0], 0.9)] * 4, 2)
    assert curriculum.propose(3, rng).game == names[1]
    curriculum.update([Outcome(names[1], 1.0)] * 4, 3)
    assert curriculum.propose(4, rng).game == names[1]


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"ladder": "random"}, "want ladder of nim as a list of policy strings"),
        ({"ladder": ["random"], "opponents": ["self", "random"]}, "got both"),
        ({"ladder": ["random", "random"]}, "different opponents"),
    ],
)
def test_mistakes_of_a_ladder_are_one_sentence(entry: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        expanded([{"id": "nim", **entry}])


@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_a_drawn_seat_learns_against_the_opponent_of_the_rung(
    make_trainer: Any, generated: Any
) -> None:
    # everything is a success, so that the second rung comes after the first batch
    trainer = make_trainer(
        games=LADDER,
        curriculum="stages(success=0.0, window=8)",
        num_generations=2,
        episodes_per_step=16,
    )

    def lineups() -> list[tuple[str, ...]]:
        generated(trainer)
        return [tuple(seats) for seats in trainer.last_played.seats]

    first = lineups()
    assert set(first) == {("self", "random"), ("random", "self")}
    assert first[::2] == first[1::2]  # a group has one line-up
    trainer.state.global_step = 1
    assert set(lineups()) == {("self", "cfr"), ("cfr", "self")}


def test_the_documented_ladder_is_a_run(arena_here: Any, tmp_path: Path) -> None:
    text = PAGE.read_text("utf-8").replace("\\\n", " ")
    command = re.search(r"arena (train .*ladder.*)", text)
    assert command
    done = arena_here(*shlex.split(command[1]), "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "tic_tac_toe (mcts:100)" in " ".join(done.stdout.split())
