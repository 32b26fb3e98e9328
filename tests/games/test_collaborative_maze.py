"""Collaborative maze: shortest paths by brute force, halves, and the collaboration gap."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from arena_envs import CHANCE, TERMINAL, make
from arena_envs.bots import make_bot
from arena_envs.game import IllegalAction, sample_chance
from arena_envs.games.collaborative_maze import CollaborativeMaze, State, distance
from arena_envs.testing import random_episode

default = CollaborativeMaze()
game = CollaborativeMaze(size=4, max_steps=9)
silent = CollaborativeMaze(messages=False)
tiny = CollaborativeMaze(size=3, max_steps=5)
# # # . G      from the top; a1 is below and left
# . . . .
# . # # .
# @ . . .
ROWS = ("....", ".##.", "....", "##..")
START = State(ROWS)


def after(texts: Sequence[str], rules: Any = game, state: State = START) -> State:
    """The state after these texts."""
    for text in texts:
        state = rules.apply(state, rules.parse(state, text))
    return state


def together(*directions: str) -> list[str]:
    """Both name these moves."""
    return [f"move {direction}" for direction in directions for _ in range(2)]


def played(bot: str, rules: Any, seed: int) -> State:
    """The last state of a game of this bot with itself; the seed draws the maze."""
    player, rng = make_bot(bot), random.Random(seed)
    state = rules.initial_state()
    while (seat := rules.current_player(state)) != TERMINAL:
        if seat == CHANCE:
            action = sample_chance(rules, state, rng)
        else:
            action = player(rules, state, random.Random(0))
            action = rules.parse(state, rules.action_text(state, action))
        state = rules.apply(state, action)
    return state


def mean_return(bot: str, rules: Any, num: int = 60) -> float:
    """Mean return of a bot with itself over the mazes of `num` seeds."""
    scores = (rules.returns(played(bot, rules, seed))[0] for seed in range(num))
    return sum(scores) / num


def walked(rows: Sequence[str]) -> int | None:
    """Length of a shortest path from the first to the last cell, cell by cell."""
    size = len(rows)
    free = {
        (r, c)
        for r, row in enumerate(rows)
        for c, cell in enumerate(row)
        if cell == "."
    }
    layer, seen, moves = {(0, 0)} & free, {(0, 0)}, 0
    while layer and (size - 1, size - 1) not in layer:
        beside = {
            (r + a, c + b)
            for r, c in layer
            for a, b in ((0, 1), (1, 0), (0, -1), (-1, 0))
        }
        layer = (beside & free) - seen
        seen |= layer
        moves += 1
    return moves if layer else None


def mazes(rules: CollaborativeMaze) -> Iterator[tuple[float, State]]:
    """All mazes, with their probabilities."""

    def follow(chance: float, state: State) -> Iterator[tuple[float, State]]:
        if rules.current_player(state) != CHANCE:
            yield chance, state
            return
        for outcome, probability in rules.chance_outcomes(state):
            yield from follow(chance * probability, rules.apply(state, outcome))

    return follow(1.0, rules.initial_state())


@pytest.mark.parametrize(
    "rules",
    [
        CollaborativeMaze(size=3, max_steps=5, messages=False),
        CollaborativeMaze(size=3, max_steps=6, solo=True),
    ],
    ids=["tiny", "solo"],
)
def test_other_settings_keep_the_contract(rules: Any, check_contract: Any) -> None:
    check_contract(rules, num_episodes=4)


def test_the_large_instance_ends_and_has_short_texts() -> None:
    large = CollaborativeMaze(size=9, max_steps=60, wall_percent=40)
    episode = random_episode(large, large.initial_state(), random.Random(0))
    assert len(large.observe(episode[-1][0], 0)) < 1500


class TestMazes:
    def test_a_maze_is_drawn_if_a_step_is_left_for_talk(self) -> None:
        found = {state.rows: chance for chance, state in mazes(tiny)}
        assert sum(found.values()) == pytest.approx(1)
        rest = {state.rows for _, state in mazes(replace(tiny, split="test"))}
        assert rest.isdisjoint(found)
        every = [
            tuple(line[i : i + 3] for i in (0, 3, 6))
            for number in range(2**7)
            for line in [
                "." + f"{number:07b}".replace("0", ".").replace("1", "#") + "."
            ]
        ]
        allowed = {rows for rows in every if (walked(rows) or 99) <= 4}
        assert found.keys() | rest == allowed
        # a free row below leaves the row above free to be anything but three walls
        (chances,) = [dict(tiny.chance_outcomes(State(("...",))))]
        assert set(chances) <= {"...", "..#", ".#.", ".##", "#..", "#.#", "##."}
        assert chances["..."] / chances["..#"] == pytest.approx(7 / 3)

    def test_shortest_paths_are_those_of_a_plain_search(self) -> None:
        rng = random.Random(0)
        for _ in range(200):
            size = rng.randrange(3, 7)
            rows = tuple(
                "".join(rng.choices(".#", (7, 3), k=size)) for _ in range(size)
            )
            assert distance(rows, 0, size**2 - 1) == walked(rows)

    def test_a_new_draw_keeps_what_a_seat_knows(self) -> None:
        """player_1 learns of the wall at b2, which only player_0 sees."""
        state = after([*together("up", "right"), "move up"])
        rng, drawn = random.Random(0), set()
        for _ in range(100):
            again = game.resample(state, 1, rng)
            assert game.known(again, 1) == game.known(state, 1)
            assert again.rows[1][1] == "#"
            drawn.add(again.rows)
        assert len(drawn) > 5

    def test_both_modes_draw_the_same_maze_for_a_seed(self) -> None:
        for seed in range(5):
            rows = []
            for solo in (False, True):
                env: Any = make("collaborative_maze", solo=solo)
                env.reset(seed=seed)
                rows.append(env.unwrapped.game_state.rows)
            assert rows[0] == rows[1]


class TestRules:
    def test_players_walk_only_where_both_name_the_same_move(self) -> None:
        state = after(["move up", "move right", "move up", "move up", "wait", "wait"])
        assert state.path == (0, 4, 4)
        assert [game.speaker_of(turn) for turn in range(6)] == [0, 1, 1, 0, 0, 1]
        assert game.current_player(state) == 1

    def test_a_move_into_a_wall_or_out_of_the_maze_is_lost_and_shows_the_wall(
        self,
    ) -> None:
        state = after(together("up", "right", "left"))
        assert state.path == (4, 4, 4)
        assert game.known(state, 1)[1] == ".##?"  # c2 is its own, b2 was walked into
        assert game.known(START, 1)[1] == ".?#?"

    def test_the_score_is_the_progress_on_a_shortest_path(self) -> None:
        solo = CollaborativeMaze(size=4, max_steps=9, solo=True)
        way = ["up", "up", "right", "right", "right", "up"]
        texts = [f"move {direction}" for direction in way]
        assert walked(ROWS) == len(way)
        done = after(texts, solo)
        assert solo.current_player(done) == TERMINAL
        assert solo.returns(done) == [1.0]
        stopped = after([*texts[:4], *["wait"] * 5], solo)
        assert solo.returns(stopped) == pytest.approx([4 / 6])
        assert solo.returns(after(texts[:4], solo)) == [0.0]
        assert game.returns(after(["wait"] * 18)) == [0.0, 0.0]

    def test_measures_are_those_worked_out_by_hand(self) -> None:
        texts = [
            "move up",
            "wait",
            *together("up", "up", "right", "right", "right", "up"),
        ]
        assert game.measures(after(texts)) == pytest.approx(
            {"success": 1, "path_share": 6 / 7, "agreement": 6 / 7}
        )
        found = game.measures(after(["wait"] * 18))
        assert found == {"success": 0, "path_share": 0, "agreement": 0}

    def test_a_seat_sees_its_color_and_all_at_the_end(self) -> None:
        assert game.seen(START, 0) == (".?.?", "?#?.", ".?.?", "?#?.")
        assert game.seen(START, 1) == ("..?.", ".?#?", "?.?.", "#?..")
        assert game.seen(after(["wait"] * 18), 0) == ROWS

    def test_a_seat_reads_the_latest_six_messages_and_three_moves(self) -> None:
        texts = [f"Message {n}.\nwait" for n in range(8)] + ["wait"] * 4
        assert not any(said.message for said in game.core_state(after(texts)).said)
        lines = game.observe(after(texts), 0).split("\n")[8:]
        assert lines[0] == 'Step 2: player_1 waited, and said: "Message 2."'
        assert len(lines) == 6 + 3
        assert lines[-1] == "Step 6: you waited."

    @pytest.mark.parametrize("text", ["up", "move", "move north", "wait and see", ""])
    def test_other_texts_are_no_action(self, text: str) -> None:
        with pytest.raises(IllegalAction, match='want a move such as "move up"'):
            game.parse(START, text)

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"size": 2}, "integer size from 3 to 9, got 2"),
            ({"max_steps": 8}, "integer max_steps from 9 to 60, got 8"),
            ({"wall_percent": 61}, "integer wall_percent from 0 to 60, got 61"),
            ({"solo": 1}, "want solo True or False, got 1"),
            ({"max_message": 201}, "integer max_message from 1 to 200, got 201"),
        ],
    )
    def test_impossible_parameters_are_refused(
        self, params: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            CollaborativeMaze(**params)


class TestKnownValues:
    def test_a_shortest_path_is_walked_solo(self) -> None:
        solo = CollaborativeMaze(solo=True)
        for seed in range(30):
            state = played("maze_walker:honest", solo, seed)
            way = [0, *state.path]
            assert all(one != other for one, other in pairwise(way))
            assert len(state.path) == walked(state.rows)
            assert solo.returns(state) == [1.0]

    def test_words_close_the_collaboration_gap(self) -> None:
        assert default.known_value == "best 1, by a shortest path"
        for seed in range(60):
            state = played("maze_walker:honest", default, seed)
            assert default.returns(state) == [1.0, 1.0]
            assert len(state.path) <= (walked(state.rows) or 0) + 1

    def test_without_words_a_gap_is_left(self) -> None:
        assert silent.known_value is None
        assert mean_return("maze_walker:honest", CollaborativeMaze(solo=True)) == 1
        assert mean_return("maze_walker:honest", silent) < 0.95
        assert mean_return("maze_walker:honest", silent) == mean_return(
            "maze_walker:silent", default
        )
        assert mean_return("maze_walker:greedy", default) < 0.5

    def test_an_honest_walker_says_nothing_where_its_words_do_not_fit(self) -> None:
        state = played("maze_walker:honest", CollaborativeMaze(max_message=10), 0)
        assert not any(said.message for said in state.said)
