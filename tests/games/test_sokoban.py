"""Sokoban: its rules by hand, generated levels, and shortest solutions by brute force."""

import random
from collections import deque
from statistics import fmean
from typing import Any

import numpy as np
import pytest

import arena_envs
from arena_envs import TERMINAL, IllegalAction
from arena_envs.bots import make_bot
from arena_envs.games.sokoban import (
    Sokoban,
    State,
    TooManyNodes,
    random_level,
    shortest,
)
from arena_envs.solvers import minimax

game = Sokoban()
UP, DOWN, LEFT, RIGHT = range(4)
OWN = ("######", "#@$._#", "#_*__#", "#____#", "######")


def after(rules: Sokoban, *texts: str) -> State:
    """The state after moves from the start of a game with a level of its own."""
    state = rules.initial_state()
    for text in texts:
        state = rules.apply(state, rules.parse(state, text))
    return state


def fewest_moves(rules: Sokoban, start: State) -> int | None:
    """Length of a shortest solution, by breadth-first search over our rules alone."""
    waiting, seen = deque([(start, 0)]), {start}
    while waiting:
        state, num_moves = waiting.popleft()
        if rules.measures(state)["success"]:
            return num_moves
        for action in range(4):
            other = rules.apply(state, action)._replace(num_moves=0)
            if other not in seen:
                seen.add(other)
                waiting.append((other, num_moves + 1))
    return None


@pytest.mark.parametrize(
    ("params", "num_levels"),
    [({}, 20), ({"num_boxes": 2, "max_moves": 20}, 5)],
)
def test_solutions_are_shortest(params: dict[str, int], num_levels: int) -> None:
    rules = Sokoban(**params)
    for number in range(num_levels):
        start = rules.apply(rules.initial_state(), number)
        level = rules.level_at(start)
        path = shortest(*level, max_nodes=10**5)
        assert path is not None
        assert len(path) == fewest_moves(rules, start)
        assert 4 * rules.num_boxes <= len(path) <= 10 * rules.num_boxes
        state = start
        for action in path:
            state = rules.apply(state, action)
        assert rules.returns(state) == (1.0,)


def transitions(rules: Sokoban, start: State) -> tuple[Any, Any]:
    """Positions by number: the next one after each move, and whether it is solved."""
    numbers, positions, table = {start: 0}, [start], []
    for state in positions:
        row = []
        for action in range(4):
            other = rules.apply(state, action)._replace(num_moves=0)
            if rules.measures(state)["success"]:
                other = state
            if other not in numbers:
                numbers[other] = len(positions)
                positions.append(other)
            row.append(numbers[other])
        table.append(row)
    solved = [rules.measures(state)["success"] == 1 for state in positions]
    return np.array(table), np.array(solved)


def test_the_default_has_its_known_values() -> None:
    """Random play by value iteration over the positions of each level."""
    values, lengths, solutions = [], [], []
    for number in range(game.num_levels):
        start = game.apply(game.initial_state(), number)
        table, solved = transitions(game, start)
        value, length = solved.astype(float), np.zeros(len(solved))
        for _ in range(game.max_moves):
            value = np.where(solved, 1.0, value[table].mean(1))
            length = np.where(solved, 0.0, 1 + length[table].mean(1))
        values.append(value[0])
        lengths.append(length[0])
        path = shortest(*game.level_at(start), max_nodes=10**5)
        assert path is not None
        solutions.append(len(path))
    assert max(solutions) <= game.max_moves
    assert fmean(solutions) == 5.26
    assert fmean(lengths) == pytest.approx(19.581256, abs=1e-6)
    random = f"uniform random play {fmean(values):.6g}"
    assert game.known_value == f"optimal play 1; {random}"


def test_the_bot_plays_shortest_solutions_and_minimax_agrees() -> None:
    bot, rng = make_bot("sokoban_search"), random.Random(0)
    for number in range(5):
        start = state = game.apply(game.initial_state(), number)
        while game.current_player(state) != TERMINAL:
            state = game.apply(state, bot(game, state, rng))
        assert game.returns(state) == (1.0,)
        assert state.num_moves == fewest_moves(game, start)
    tight = Sokoban(level=OWN, max_moves=3)
    assert minimax(tight).returns == (0.5,)


def test_the_bot_draws_where_there_is_no_solution() -> None:
    stuck = Sokoban(level=("#####", "#$@.#", "#####"))
    moves = {
        make_bot("sokoban_search")(stuck, stuck.initial_state(), random.Random(seed))
        for seed in range(40)
    }
    assert moves == {UP, DOWN, LEFT, RIGHT}
    with pytest.raises(TooManyNodes, match="want a level that a search of 3 states"):
        shortest(*random_level(6, 1, 0), max_nodes=3)


def test_pushes_are_those_of_the_rules() -> None:
    rules = Sokoban(level=OWN)
    assert rules.observe(rules.initial_state(), 0) == (
        "You are player_0 (@).\n# # # # # #\n# @ $ . _ #\n# _ * _ _ #\n# _ _ _ _ #\n"
        "# # # # # #\nYou are in row 2, column 2; boxes on goals: 1 of 2. "
        "You are to make move 1 of 20."
    )
    won = after(rules, "right")
    assert rules.symbols(won)[6:12] == "#_@*_#"
    assert rules.current_player(won) == TERMINAL
    assert rules.returns(won) == (0.5,)
    assert rules.measures(won) == {"success": 1.0, "boxes_on_goals": 1.0}
    assert rules.observe(won, 0).endswith("The game is over: your score is 0.5.")
    off = after(rules, "down", "right")  # a box off its goal, and the player on it
    assert rules.symbols(off)[12:18] == "#_+$_#"
    assert rules.returns(off) == (-0.5,) == (rules.min_return,)
    assert after(rules, "up") == rules.initial_state()._replace(num_moves=1)
    blocked = after(rules, "down", "down", "right", "up")  # one box is behind the other
    assert blocked.boxes == rules.initial_state().boxes
    against_wall = after(rules, "down", "right", "right", "right")
    assert rules.symbols(against_wall)[12:18] == "#_.@$#"


def test_generated_levels_depend_on_their_number_alone() -> None:
    assert len({random_level(6, 1, number) for number in range(100)}) == 100
    rules = Sokoban(num_levels=3)
    assert rules.chance_outcomes(rules.initial_state()) == [
        (n, 1 / 3) for n in range(3)
    ]
    start = rules.apply(rules.initial_state(), 0)
    assert rules.symbols(start) == ("#######_@#_##__._##__$_##____#######")
    assert rules.observe(rules.initial_state(), 0).endswith("level is being drawn.")


def test_other_spellings_are_read() -> None:
    state = game.apply(game.initial_state(), 0)
    for text in ("up", "Go up", "move UP", " push  up "):
        assert game.parse(state, text) == UP
    with pytest.raises(IllegalAction, match=r"want one of .*, got 'pull up'"):
        game.parse(state, "pull up")


@pytest.mark.parametrize(
    "rules",
    [
        Sokoban(level=("#####", "#@$.#", "#####"), max_moves=1),
        Sokoban(size=7, num_boxes=2, num_levels=3),
    ],
    ids=["smallest", "two boxes"],
)
def test_other_levels_keep_the_contract(rules: Sokoban, check_contract: Any) -> None:
    check_contract(rules)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"size": 4}, "want an integer size from 5 to 10, got 4"),
        ({"size": 5, "num_boxes": 3}, "want an integer num_boxes from 1 to 2, got 3"),
        ({"num_levels": 0}, "want an integer num_levels from 1 to 10000, got 0"),
        ({"num_boxes": 3}, "want an integer max_moves from 30 to 1000, got 20"),
        ({"level": "#####"}, "want level as rows or None, got '#####'"),
        ({"level": ["###", "####", "###"]}, "want level as rows of one length"),
        ({"level": ["####", "#@X#", "####"]}, "rows of one length made of #_"),
        ({"level": ["####", "#@._", "####"]}, "want walls # all around level"),
        ({"level": ["#####", "#@..#", "#####"]}, "in level, got 1, 0 and 2"),
        ({"level": ["#####", "#$..#", "#####"]}, "in level, got 0, 1 and 2"),
        ({"level": ["#####", "#@*_#", "#####"]}, "want a box that is not on a goal"),
    ],
)
def test_parameters_out_of_range_are_refused(params: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        arena_envs.make_game("sokoban", **params)
