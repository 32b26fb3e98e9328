"""Speaker and listener: its rules, and its best values by search over what is known."""

import random
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from arena_envs import IllegalAction
from arena_envs.games.speaker_listener import (
    LISTENER,
    SPEAKER,
    STEPS,
    SpeakerListener,
    State,
)

game = SpeakerListener()
A1, B1, C1, A2, B2, C2, A3, B3, C3 = range(9)


def moves(rules: SpeakerListener, cell: int) -> Iterator[int]:
    """Cells that the listener may go to."""
    row, column = divmod(cell, rules.size)
    for right, up in STEPS:
        if 0 <= column + right < rules.size and 0 <= row + up < rules.size:
            yield cell + right + up * rules.size


def partitions(
    items: frozenset[int], num_parts: int
) -> Iterator[tuple[frozenset[int], ...]]:
    """All ways to split into at most so many parts."""
    if not items:
        yield ()
        return
    first = min(items)
    for parts in partitions(items - {first}, num_parts):
        for i, part in enumerate(parts):
            yield (*parts[:i], part | {first}, *parts[i + 1 :])
        if len(parts) < num_parts:
            yield (*parts, frozenset({first}))


def best_value(rules: SpeakerListener) -> Fraction:
    """Exact value of the best pair.

    The speaker knows all that the listener knows: where it is and which goals its words
    left open. So the best words split those goals, and the best move follows.
    """

    @cache
    def value(cell: int, goals: frozenset[int], step: int) -> Fraction:
        """Summed over the goals that are left."""
        if step == rules.max_steps or not goals:
            return Fraction(0)
        pay = Fraction(rules.max_steps - step, rules.max_steps)

        def best_move(part: frozenset[int]) -> Fraction:
            return max(
                (to in part) * pay + value(to, part - {to}, step + 1)
                for to in moves(rules, cell)
            )

        return max(
            sum(map(best_move, parts), Fraction())
            for parts in partitions(goals, rules.num_words)
        )

    return value(rules.cells.start, frozenset(rules.goals), 0) / rules.num_goals


def random_value(rules: SpeakerListener) -> Fraction:
    """Exact value of random play, in which words make no difference."""

    @cache
    def value(goal: int, cell: int, step: int) -> Fraction:
        if step == rules.max_steps:
            return Fraction(0)
        pay = Fraction(rules.max_steps - step, rules.max_steps)
        cells = list(moves(rules, cell))
        after = (pay if to == goal else value(goal, to, step + 1) for to in cells)
        return Fraction(sum(after)) / len(cells)

    return sum(
        (value(goal, rules.cells.start, 0) for goal in rules.goals), Fraction()
    ) / len(rules.goals)


@pytest.mark.parametrize(
    "rules",
    [SpeakerListener(2, 3, 1, 2), SpeakerListener(4, 5, 7, 6), SpeakerListener(5, 1)],
    ids=repr,
)
def test_other_parameters_keep_the_contract(
    rules: SpeakerListener, check_contract: Any
) -> None:
    check_contract(rules)


@pytest.mark.parametrize(
    ("rules", "best"),
    [
        (SpeakerListener(), Fraction(3, 4)),
        (SpeakerListener(num_words=1), Fraction(1, 4)),
        (SpeakerListener(num_words=4), Fraction(3, 4)),
        pytest.param(
            SpeakerListener(num_goals=8), Fraction(3, 4), marks=pytest.mark.slow
        ),
        pytest.param(
            SpeakerListener(num_goals=8, num_words=3),
            Fraction(13, 16),
            marks=pytest.mark.slow,
        ),
        (SpeakerListener(size=4, num_goals=5, max_steps=6), Fraction(19, 30)),
    ],
)
def test_the_best_pair_is_worth_its_known_value(
    rules: SpeakerListener, best: Fraction
) -> None:
    assert best_value(rules) == best


def test_random_play_is_worth_its_known_value() -> None:
    assert random_value(game) == Fraction(5303, 48000)


@pytest.mark.parametrize("num_words", [1, 2])
def test_the_best_value_is_that_of_the_best_of_all_pairs(num_words: int) -> None:
    """Every plan of the listener with the words that serve it best, on a small grid."""
    rules = SpeakerListener(size=2, num_goals=3, num_words=num_words, max_steps=2)
    words = range(num_words)
    heard = [(word,) for word in words] + list(product(words, repeat=2))
    start = list(moves(rules, rules.cells.start))

    def pay(
        plan: dict[tuple[int, ...], int], goal: int, said: tuple[int, int]
    ) -> float:
        first = start[plan[said[:1]]]
        if first == goal:
            return 1.0
        return 0.5 * (list(moves(rules, first))[plan[said]] == goal)

    plans = product(range(3), repeat=len(heard))
    best = max(
        sum(
            (
                max(pay(plan, goal, said) for said in product(words, repeat=2))
                for goal in rules.goals
            ),
            0.0,
        )
        for plan in (dict(zip(heard, choice, strict=True)) for choice in plans)
    )
    assert best / 3 == pytest.approx(float(best_value(rules)))


def test_two_words_lead_the_listener_to_every_corner() -> None:
    """One word says left or right, the next says down or up."""
    for goal in game.goals:
        state = game.apply(game.initial_state(), goal)
        for side, names in ((goal % 3, ("left", "right")), (goal // 3, ("down", "up"))):
            word = int(side == 2)
            state = game.apply(state, game.parse(state, f"say {word}"))
            state = game.apply(state, game.parse(state, names[word]))
        assert game.current_player(state) < -1
        assert game.returns(state) == (0.75, 0.75) == (game.max_return,) * 2


def test_the_goals_are_the_cells_farthest_from_the_start() -> None:
    assert (game.cells.start, game.goals) == (B2, (A1, C1, A3, C3))
    assert SpeakerListener(num_goals=5).goals == (A1, B1, C1, A3, C3)
    assert SpeakerListener(size=2, num_goals=2, max_steps=2).cells.start == 3


@pytest.mark.parametrize(("num_moves", "paid"), [(2, 0.75), (3, 0.5), (4, 0.25)])
def test_later_moves_pay_less(num_moves: int, paid: float) -> None:
    path = (B2,) * (num_moves - 2) + (A2, A1)
    state = State(A1, (0,) * num_moves, path)
    assert game.returns(state) == (paid, paid)
    assert game.returns(state._replace(goal=C1)) == (0, 0)


def test_the_listener_may_not_leave_the_grid() -> None:
    texts = {}
    for cell in (B2, A1, C2):
        state = State(C3, (0, 0, 0), (A2, cell))
        legal = game.legal_actions(state)
        texts[cell] = [game.action_text(state, action) for action in legal]
    assert texts[B2] == ["up", "down", "left", "right", "stay"]
    assert texts[A1] == ["up", "right", "stay"]
    assert texts[C2] == ["up", "down", "left", "stay"]


def test_only_the_speaker_reads_the_goal() -> None:
    state = State(C1, (1,), (C2,))
    assert game.observe(state, SPEAKER).split("\n") == [
        "You are player_0, the speaker. The goal is c1.",
        "The listener's way: b2, c2.",
        "Words so far: 1.",
        "Step 2 of 4: You are to speak.",
    ]
    assert game.observe(state, LISTENER).split("\n") == [
        "You are player_1, the listener. The goal is one of a1, c1, a3, c3.",
        "The listener's way: b2, c2.",
        "Words so far: 1.",
        "Step 2 of 4: player_0 is to speak.",
    ]


def test_a_cell_that_was_entered_is_no_goal_unless_the_game_ended_there() -> None:
    rng = random.Random(0)
    state = State(C3, (0, 1), (A2, A1))
    draws = {game.resample(state, LISTENER, rng).goal for _ in range(60)}
    assert draws == {C1, A3, C3}
    reached = State(A1, (0, 1), (A2, A1))
    assert game.resample(reached, LISTENER, rng) == reached
    assert game.resample(state, SPEAKER, rng) == state


def test_features_tell_apart_all_that_a_seat_can() -> None:
    rng, seen = random.Random(0), {}
    for _ in range(300):
        state = game.apply(game.initial_state(), rng.choice(game.goals))
        while game.legal_actions(state):
            for seat in (SPEAKER, LISTENER):
                key = game.information_state(state, seat)
                features = game.features(state, seat).tobytes()
                assert seen.setdefault(features, key) == key
            state = game.apply(state, rng.choice(game.legal_actions(state)))
    assert len(np.frombuffer(features, np.float32)) == 2 + 4 + 9 + 2 + 4 * (2 + 9)


def test_actions_are_read_with_or_without_a_verb() -> None:
    state = game.apply(game.initial_state(), A1)
    for text in ("say 1", "say word 1", "word 1", "1"):
        assert game.parse(state, text) == 1
    for text in ("2", "up", "say up", "-1"):
        with pytest.raises(IllegalAction, match=r"want one of \['say 0', 'say 1'\]"):
            game.parse(state, text)
    state = game.apply(state, 0)
    for text in ("left", "go LEFT", "move left"):
        assert game.parse(state, text) == 2


REFUSED: dict[str, list[Any]] = {
    "size": [1, 10, 3.0],
    "num_goals": [0, 9],
    "num_words": [0, 21, True],
    "max_steps": [1, 51, None],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name in REFUSED for value in REFUSED[name]]
)
def test_a_parameter_out_of_range_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"{name} from \d to \d+, got {value!r}"):
        SpeakerListener(**{name: value})


def test_the_rules_are_true_of_the_smallest_game() -> None:
    small = SpeakerListener(size=2, num_goals=1, num_words=1, max_steps=2)
    for seat in (SPEAKER, LISTENER):
        text = small.rules(seat)
        assert "The goal is a1. In turn, the speaker says the word 0 and" in text
        assert "one of" not in text
    state = small.apply(small.initial_state(), small.goals[0])
    assert "The goal is a1." in small.observe(state, LISTENER)
    one = SpeakerListener(size=2, num_goals=2, max_steps=1)
    assert "or after 1 move." in one.rules(LISTENER)


def test_the_text_tells_the_score() -> None:
    state = State(C1, (1, 1), (C2, C1))
    for seat in (SPEAKER, LISTENER):
        last = game.observe(state, seat).split("\n")[-1]
        assert last == "The goal was reached: both of you score 0.75."
