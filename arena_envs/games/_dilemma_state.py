"""States of social dilemmas: moves, points and features."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs.games import _talk as talk
from arena_envs.games._talk import Utterance

COOPERATE, DEFECT = 0, 1
NAMES = ("cooperate", "defect")
PROMISE = talk.Move("promise", (talk.OneOf(NAMES),))
SAY = talk.Move("say", message="must")
PASS = talk.Move("pass", message="no")
CHOOSE = talk.Move("choose", (talk.OneOf(NAMES),), message="no")
CHOICES = tuple(Utterance("choose", (name,)) for name in NAMES)
TALK = (*(Utterance("promise", (name,)) for name in NAMES), Utterance("pass"))
MEASURES = ("cooperation", "efficiency", "promises", "kept")


class State(NamedTuple):
    """Choices of past rounds, all utterances, and choices of this round."""

    rounds: tuple[tuple[int, ...], ...] = ()
    said: tuple[Utterance, ...] = ()
    chosen: tuple[int, ...] = ()


def points_of(choices: Sequence[int], numbers: Sequence[int]) -> list[int]:
    """Points of each seat in a round.

    Args:
        choices: of all seats.
        numbers: paid for another player: reward, sucker, temptation, punishment.

    >>> points_of((COOPERATE, COOPERATE, DEFECT), (3, 0, 5, 1))
    [3, 3, 10]
    """
    helpful = choices.count(COOPERATE)
    paid = []
    for choice in choices:
        num = helpful - (choice == COOPERATE)
        good, bad = numbers[2 * choice : 2 * choice + 2]
        paid.append(num * good + (len(choices) - 1 - num) * bad)
    return paid


def measured(
    rounds: Sequence[Sequence[int]],
    promised: Sequence[int | None],
    numbers: Sequence[int],
) -> dict[str, float]:
    """The measures of an episode.

    Args:
        rounds: the choices of all seats, by round.
        promised: the latest promise of each seat, by round; None without one.
        numbers: paid for another player, as in `points_of`.
    """
    if not rounds:
        return dict.fromkeys(MEASURES, 0.0)
    choices = [choice for choices in rounds for choice in choices]
    num = len(rounds[0])
    sums = sorted(
        sum(points_of((COOPERATE,) * k + (DEFECT,) * (num - k), numbers))
        for k in range(num + 1)
    )
    mean = sum(sum(points_of(each, numbers)) for each in rounds) / len(rounds)
    low, high = sums[0], sums[-1]
    pairs = zip(choices, promised, strict=True)
    return {
        "cooperation": choices.count(COOPERATE) / len(choices),
        "efficiency": (mean - low) / (high - low) if low < high else 1.0,
        "promises": 1 - promised.count(None) / len(choices),
        "kept": sum(choice == promise for choice, promise in pairs) / len(choices),
    }


def features(
    state: State, seat: int, speakers: Sequence[int], shape: tuple[int, int, int]
) -> NDArray[np.float32]:
    """The features of a seat, as the game describes them.

    Args:
        state: any state.
        seat: the seat.
        speakers: of all utterances.
        shape: rounds, seats, and numbers for a seat in a round.
    """
    num_rounds, num, size = shape
    values = np.zeros(num + num_rounds * num * size, np.float32)
    values[seat] = 1
    past = values[num:].reshape(shape)
    for number, choices in enumerate(state.rounds):
        for other, choice in enumerate(choices):
            past[number, (other - seat) % num, choice] = 1
    for choice in state.chosen[seat : seat + 1]:
        past[len(state.rounds), 0, choice] = 1
    for turn, said in enumerate(state.said):
        number, place = divmod(turn, num * (size // 4))
        kind = 2 + (said.move == "pass")
        if said.move == "promise":
            kind = NAMES.index(said.values[0])
        past[number, (speakers[turn] - seat) % num, 2 + 4 * (place // num) + kind] = 1
    return values
