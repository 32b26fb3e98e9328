"""Frozen lake: beside Gymnasium's, and its known values by value iteration over Gymnasium's table."""

import random
from collections import Counter
from typing import Any

import gymnasium
import pytest

import arena_envs
from arena_envs import CHANCE, TERMINAL, IllegalAction
from arena_envs.bots import make_bot
from arena_envs.games.frozen_lake import MAPS, FrozenLake, State, random_lake
from arena_envs.solvers import expected_returns, minimax, uniform_table

game = FrozenLake("4x4")
CASES = [
    (layout, is_slippery) for layout in ("4x4", "8x8") for is_slippery in (True, False)
]


def gymnasiums(layout: str, is_slippery: bool) -> Any:
    """Gymnasium's transitions: (probability, cell, reward, over) by cell and action."""
    env: Any = gymnasium.make("FrozenLake-v1", map_name=layout, is_slippery=is_slippery)
    assert env.spec.max_episode_steps == game.max_moves
    return env.unwrapped.P


def transitions(rules: FrozenLake, cell: int, action: int) -> Any:
    """Probabilities of (cell, reward, over) by our rules."""
    chosen = rules.apply(State(0, cell), action)
    outcomes: list[tuple[State, float]] = [(chosen, 1.0)]
    if rules.current_player(chosen) == CHANCE:
        outcomes = [
            (rules.apply(chosen, direction), chance)
            for direction, chance in rules.chance_outcomes(chosen)
        ]
    found: Any = Counter()
    for state, chance in outcomes:
        over = rules.current_player(state) == TERMINAL
        found[state.cell, rules.returns(state)[0], over] += chance
    return found


@pytest.mark.parametrize(("layout", "is_slippery"), CASES)
def test_transitions_are_gymnasiums(layout: str, is_slippery: bool) -> None:
    rules, table = FrozenLake(layout, is_slippery), gymnasiums(layout, is_slippery)
    cells = "".join(MAPS[layout])
    assert len(table) == len(cells)
    for cell, kind in enumerate(cells):
        if kind in "GH":
            assert rules.current_player(State(0, cell)) == TERMINAL
            continue
        for action in range(4):
            wanted: Any = Counter()
            for chance, after, reward, over in table[cell][action]:
                wanted[after, float(reward), over] += chance
            assert transitions(rules, cell, action) == pytest.approx(wanted)


def by_value_iteration(table: Any, num_moves: int, worth: Any) -> float:
    """The value of the first cell with so many moves; `worth` joins the values of actions."""
    values = [0.0] * len(table)
    for _ in range(num_moves):
        values = [
            worth(
                [
                    sum(p * (r + (not over) * values[c]) for p, c, r, over in outcomes)
                    for outcomes in actions.values()
                ]
            )
            for actions in table.values()
        ]
    return values[0]


def test_optimal_and_uniform_play_have_gymnasiums_values() -> None:
    table = gymnasiums("4x4", True)
    best = by_value_iteration(table, 100, max)
    uniform = by_value_iteration(table, 100, lambda values: sum(values) / 4)
    assert minimax(game).returns[0] == pytest.approx(best)
    assert expected_returns(game, uniform_table(game))[0] == pytest.approx(uniform)
    assert game.known_value == (
        f"optimal play {best:.6g}; uniform random play {uniform:.6g}"
    )


def test_random_play_is_as_long_as_the_page_says() -> None:
    table, chances, mean = gymnasiums("4x4", False), {0: 1.0}, 0.0
    for _ in range(100):
        after: dict[int, float] = {}
        for cell, chance in chances.items():
            if "".join(MAPS["4x4"])[cell] not in "GH":
                mean += chance
                for action in range(4):
                    step = table[cell][action][0][1]
                    after[step] = after.get(step, 0.0) + chance / 4
        chances = after
    assert mean == pytest.approx(7.672602, abs=1e-6)


@pytest.mark.parametrize("params", [{"layout": "4x4"}, {"layout": "random", "size": 6}])
def test_without_slips_the_bot_takes_a_shortest_path(params: Any) -> None:
    rules, bot = (
        FrozenLake(is_slippery=False, max_moves=16, **params),
        make_bot("minimax"),
    )
    for number in range(3):
        state = rules.initial_state()
        if rules.current_player(state) == CHANCE:
            state = rules.apply(state, number)
        distance = rules.lake(state).distance
        shortest = FrozenLake(rules.lake(state).rows, False, distance)
        state = shortest.initial_state()
        while shortest.current_player(state) != TERMINAL:
            state = shortest.apply(state, bot(shortest, state, random.Random(0)))
        assert shortest.measures(state) == {"success": 1.0}


def test_a_random_map_has_a_path_and_depends_on_its_number_alone() -> None:
    texts = {random_lake(5, number).rows for number in range(100)}
    assert len(texts) > 80
    for number in range(100):
        lake = random_lake(4, number)
        assert lake.distance is not None
        assert lake.cells[0] + lake.cells[-1] == "SG"
    assert random_lake(4, 0).rows == ("SFFF", "FFFF", "FFHF", "FFFG")
    holes = sum(random_lake(8, n).cells.count("H") for n in range(100)) / 6200
    assert holes == pytest.approx(0.2, abs=0.02)


def test_a_random_map_is_drawn_at_the_start() -> None:
    rules = FrozenLake("random", num_maps=3)
    start = rules.initial_state()
    assert rules.chance_outcomes(start) == [(n, 1 / 3) for n in range(3)]
    texts = {rules.observe(rules.apply(start, n), 0) for n in range(3)}
    assert len(texts) == 3
    assert rules.observe(start, 0) == "You are player_0. The map is being drawn."


def test_a_slip_is_a_turn_by_90_degrees() -> None:
    state = game.apply(
        game.initial_state(), game.parse(game.initial_state(), "go Right")
    )
    assert game.chance_outcomes(state) == [(d, 1 / 3) for d in (1, 2, 3)]
    down = game.apply(state, 1)
    assert game.observe(down, 0).splitlines()[1:3] == ["S F F F", "P H F H"]
    up = game.apply(state, 3)
    assert up == State(0, 0, 1)
    with pytest.raises(IllegalAction, match=r"want one of .*, got 'diagonal'"):
        game.parse(up, "diagonal")


def test_the_last_move_ends_the_game() -> None:
    rules = FrozenLake(("SFG",), False, 2)
    state = rules.apply(rules.initial_state(), 2)
    assert rules.returns(rules.apply(state, 2)) == (1.0,)
    missed = rules.apply(state, 0)
    assert rules.current_player(missed) == TERMINAL
    assert rules.returns(missed) == (0.0,)


@pytest.mark.parametrize(
    "rules",
    [
        FrozenLake(("SG",), max_moves=1),
        FrozenLake("random", is_slippery=False, size=8, num_maps=5),
    ],
    ids=["smallest", "random"],
)
def test_other_maps_keep_the_contract(rules: FrozenLake, check_contract: Any) -> None:
    check_contract(rules)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"layout": "5x5"}, "want layout '4x4', '8x8', 'random' or rows, got '5x5'"),
        ({"layout": 4}, "want layout as a name or rows, got 4"),
        ({"layout": ["SF", "G"]}, "rows of one length made of S, F, H and G"),
        ({"layout": ["SX", "FG"]}, "rows of one length made of S, F, H and G"),
        ({"layout": ["S" * 13]}, "at most 12 x 12"),
        ({"layout": []}, "want layout as rows of one length"),
        (
            {"layout": ["SS", "FG"]},
            "want one start S and a goal G in layout, got 2 and 1",
        ),
        ({"layout": ["SF", "FF"]}, "got 1 and 0"),
        ({"layout": ["SH", "HG"]}, "want a path from S to G in layout"),
        ({"is_slippery": 1}, "want is_slippery True or False, got 1"),
        ({"max_moves": 0}, "want an integer max_moves from 1 to 1000, got 0"),
        ({"size": 1}, "want an integer size from 2 to 12, got 1"),
        ({"num_maps": 0}, "want an integer num_maps from 1 to 10000, got 0"),
    ],
)
def test_parameters_out_of_range_are_refused(params: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        arena_envs.make_game("frozen_lake", **params)
