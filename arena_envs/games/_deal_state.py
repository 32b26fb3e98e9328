"""States of deal or no deal: moves, measures and features."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs.games import _deals as deals
from arena_envs.games import _talk as talk
from arena_envs.games._deals import Numbers
from arena_envs.games._talk import Utterance

MEASURES = ("agreement", "efficiency", "nash_product", "pareto", "envy_free", "lies")
SPOKEN = ("report", "demand", "say")


class State(NamedTuple):
    """The pool, the values drawn so far, the talk, and the claims.

    Attributes:
        pool: number of items of each kind; empty before it is drawn.
        values: points of an item of each kind, by seat.
        said: all utterances of the talk.
        claims: items of each kind that are claimed, by seat.
    """

    pool: Numbers = ()
    values: tuple[Numbers, ...] = ()
    said: tuple[Utterance, ...] = ()
    claims: tuple[Numbers, ...] = ()


@lru_cache(1024)
def moves_of(
    items: Sequence[str], pool: Numbers, points: int, messages: bool
) -> tuple[talk.Move, ...]:
    """The moves of the talk, and the claim, with a pool of items."""
    labels = [f"{item.upper()}S" for item in items]
    pairs = list(zip(pool, labels, strict=True))
    values = tuple(talk.Integer(0, points, label) for label in labels)
    share = tuple(talk.Integer(0, number, label) for number, label in pairs)
    say = (talk.Move("say", message="must"),) if messages else ()
    return (
        talk.Move("report", values),
        talk.Move("demand", share),
        *say,
        talk.Move("end"),
        talk.Move("claim", share, message="no"),
    )


@lru_cache(1024)
def core(pool: Numbers) -> tuple[tuple[Utterance, ...], tuple[Utterance, ...]]:
    """All demands, and all claims."""
    shares = deals.shares(pool)
    return (
        tuple(Utterance("demand", share) for share in shares),
        tuple(Utterance("claim", share) for share in shares),
    )


def numbers_text(numbers: Numbers) -> str:
    """Numbers with blanks between them."""
    return " ".join(map(str, numbers))


def checked_items(items: object) -> tuple[str, ...]:
    """The kinds as a tuple.

    Raises:
        ValueError: they are not 2 to 4 different words.
    """
    if (
        not isinstance(items, list | tuple)
        or not 2 <= len(items) <= 4
        or not all(type(i) is str and re.fullmatch("[a-z]{1,12}", i) for i in items)
        or len(set(items)) != len(items)
    ):
        raise ValueError(
            "want items as 2 to 4 different words of at most 12 letters a to z, "
            f"got {items!r:.200}"
        )
    return tuple(items)


def measured(state: State, points: tuple[int, int] | None) -> dict[str, float]:
    """The measures of an episode.

    Args:
        state: the last one.
        points: of both seats; None without an agreement.
    """
    found = dict.fromkeys(MEASURES, 0.0)
    if state.said:
        false = [
            said.move == "report" and said.values != state.values[turn % 2]
            for turn, said in enumerate(state.said)
        ]
        found["lies"] = sum(false) / len(false)
    if points is not None:
        best = deals.best(state.pool, (state.values[0], state.values[1]))
        total = deals.worth(state.values[0], state.pool)
        found["agreement"] = 1.0
        found["efficiency"] = sum(points) / best.total
        found["nash_product"] = points[0] * points[1] / best.product
        found["pareto"] = float(points in best.efficient)
        found["envy_free"] = float(2 * min(points) >= total)
    return found


def features(
    state: State, seat: int, doing: int, items: Sequence[int], max_talk: int
) -> NDArray[np.float32]:
    """The features of a seat, as the game describes them.

    Args:
        state: any state.
        seat: the seat.
        doing: 0 for the seat's own talk, 1 for the other's talk, 2 and 3 for claims; else -1.
        items: number of kinds, most items, points of all items.
        max_talk: turns of talk.
    """
    kinds, max_items, points = items
    values = np.zeros(6 + 3 * kinds + max_talk * (3 + kinds), np.float32)
    values[seat] = 1
    if doing >= 0:
        values[2 + doing] = 1
    known = [(0, state.pool, max_items)]
    known += [(1, own, points) for own in state.values[seat : seat + 1]]
    known += [(2, claim, max_items) for claim in state.claims[seat : seat + 1]]
    for row, numbers, most in known:
        if numbers:
            values[6 + row * kinds :][:kinds] = np.array(numbers) / most
    past = values[6 + 3 * kinds :].reshape(max_talk, 3 + kinds)
    for turn, said in enumerate(state.said):
        if said.move in SPOKEN:
            past[turn, SPOKEN.index(said.move)] = 1
        if said.values:
            most = points if said.move == "report" else max_items
            past[turn, 3:] = np.array(said.values) / most
    return values
