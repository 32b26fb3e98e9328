"""States of deal or no deal: pools, values, divisions, moves, measures and features."""

import operator
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from arena_envs import talk
from arena_envs.game import of_split
from arena_envs.talk import Utterance

Numbers = tuple[int, ...]  # one for each kind of item


@lru_cache(64)
def pools(num_kinds: int, low: int, high: int, points: int) -> tuple[Numbers, ...]:
    """Numbers of items that may be drawn, ascending.

    Each kind has an item, there are `low` to `high` items, and there are two pairs of values
    of both players or more, of which the splits get one each.

    >>> pools(2, 2, 3, 3)
    ((1, 1), (1, 2), (2, 1))
    """
    most = range(1, high - num_kinds + 2)
    found = product(most, repeat=num_kinds)
    return tuple(
        pool
        for pool in found
        if low <= sum(pool) <= high and sum(weights(pool, points).values()) > 1
    )


@lru_cache(4096)
def all_values(pool: Numbers, points: int) -> tuple[Numbers, ...]:
    """Values of an item of each kind with which all items are worth `points`, ascending.

    >>> all_values((1, 2), 2)
    ((0, 1), (2, 0))
    """
    if len(pool) == 1:
        return () if points % pool[0] else ((points // pool[0],),)
    return tuple(
        (value, *rest)
        for value in range(points // pool[0] + 1)
        for rest in all_values(pool[1:], points - value * pool[0])
    )


@lru_cache(65_536)
def partners(pool: Numbers, points: int, values: Numbers) -> tuple[Numbers, ...]:
    """Values that the other player may have: every kind counts for one, and one kind for both."""
    own = _kinds(values)
    return tuple(v for v in all_values(pool, points) if _fit(own, _kinds(v)))


@lru_cache(4096)
def weights(pool: Numbers, points: int) -> dict[Numbers, int]:
    """The number of `partners` of all values that have some."""
    kinds = Counter(map(_kinds, all_values(pool, points)))
    by_kinds = {
        own: sum(number for other, number in kinds.items() if _fit(own, other))
        for own in kinds
    }
    found = {v: by_kinds[_kinds(v)] for v in all_values(pool, points)}
    return {values: number for values, number in found.items() if number}


@lru_cache(256)
def deals_of(
    pool: Numbers, points: int, split: str
) -> tuple[tuple[Numbers, Numbers], ...]:
    """The pairs of values of both players that a split draws from, all equally likely."""
    pairs = (
        (own, other)
        for own in weights(pool, points)
        for other in partners(pool, points, own)
    )
    return of_split(pairs, split)


def _kinds(values: Numbers) -> tuple[bool, ...]:
    return tuple(map(bool, values))


def _fit(own: tuple[bool, ...], other: tuple[bool, ...]) -> bool:
    pairs = list(zip(own, other, strict=True))
    return all(map(any, pairs)) and any(map(all, pairs))


def worth(values: Numbers, share: Numbers) -> int:
    """Points of a share."""
    return sum(map(operator.mul, values, share))


def rest(pool: Numbers, share: Numbers) -> Numbers:
    """The rest of the pool after a share."""
    return tuple(map(operator.sub, pool, share))


@lru_cache(1024)
def shares_of(pool: Numbers) -> tuple[Numbers, ...]:
    """All shares that a player may claim, ascending."""
    return tuple(product(*(range(number + 1) for number in pool)))


def convention(pool: Numbers, seat: int) -> Numbers:
    """A division without talk: items in order, the first half to player_0, an odd one too.

    >>> convention((1, 3, 1), 0), convention((1, 3, 1), 1)
    ((1, 2, 0), (0, 1, 1))
    """
    left, share = (sum(pool) + 1) // 2, []
    for number in pool:
        share.append(min(number, left))
        left -= share[-1]
    return rest(pool, tuple(share)) if seat else tuple(share)


class Best(NamedTuple):
    """The best results among all divisions of a pool.

    Attributes:
        total: largest sum of points.
        product: largest product of points.
        fair: the share of player_0 with this product; among several the one with the
            largest sum, then the smallest difference, then the first.
        efficient: pairs of points which no other division improves for one player without
            loss for the other.
    """

    total: int
    product: int
    fair: Numbers
    efficient: frozenset[tuple[int, int]]


@lru_cache(4096)
def best_of(pool: Numbers, values: tuple[Numbers, Numbers]) -> Best:
    """The best divisions, by going through all of them."""
    points = {
        share: (worth(values[0], share), worth(values[1], rest(pool, share)))
        for share in shares_of(pool)
    }

    def rank(share: Numbers) -> tuple[int, int, int]:
        one, other = points[share]
        return (one * other, one + other, -abs(one - other))

    fair = max(points, key=rank)
    pairs = set(points.values())
    efficient = frozenset(
        pair
        for pair in pairs
        if not any(o != pair and o[0] >= pair[0] and o[1] >= pair[1] for o in pairs)
    )
    one, other = points[fair]
    return Best(max(map(sum, pairs)), one * other, fair, efficient)


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
    shares = shares_of(pool)
    return (
        tuple(Utterance("demand", share) for share in shares),
        tuple(Utterance("claim", share) for share in shares),
    )


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
