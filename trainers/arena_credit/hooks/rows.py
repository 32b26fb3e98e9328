"""An estimator applied to trajectories of turn rewards, and to rows of tokens.

Trainers keep a trajectory as one row of tokens, or as one row per turn. A `Trajectory` has what both
forms have: the reward of each turn, the group and the seat.

>>> credit = StatefulEstimator("mars_loo")
>>> credit([Trajectory([0.0, 1.0], group="a"), Trajectory([3.0], group="a")])
[[-2.0, -2.0], [2.0]]
"""

import itertools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from arena_credit.batch import Bools, Floats, Ints, TurnBatch
from arena_credit.by_name import (
    Estimator,
    check_credit_options,
    default_options,
    estimate,
    name_of,
    per_token,
)

PROVIDED = frozenset(
    {"terminated", "truncated"}
)  # columns, besides those that every batch has


class Trajectory(NamedTuple):
    """The turns of one seat in one episode.

    Attributes:
        rewards: of each turn, paid from it until the seat's next turn. At least one.
        group: equal for episodes of one start.
        seat: which seat, role or agent it is.
        episode: equal for the trajectories of one episode; None if the episode has one seat.
        logprobs: of the tokens of each turn, under the distribution that sampled; None if unknown.
        entropies: of these distributions, likewise.
    """

    rewards: Sequence[float]
    group: Hashable
    seat: Hashable = 0
    episode: Hashable | None = None
    logprobs: Sequence[Sequence[float]] | None = None
    entropies: Sequence[Sequence[float]] | None = None


class StatefulEstimator:
    """An estimator with its options, which keeps its state from batch to batch.

    Args:
        estimator: name of the estimator, or the function.
        **options: of the estimator.

    Raises:
        ValueError: unknown estimator or option, or an estimator that credits tokens.
    """

    def __init__(self, estimator: str | Estimator, **options: Any) -> None:
        if isinstance(estimator, str):
            check_credit_options(estimator, options)
        if per_token(estimator):
            raise ValueError(
                f"want an estimator that credits turns, got {name_of(estimator)!r}, which "
                "credits tokens; use it with arena_credit.estimate"
            )
        self.estimator, self.options = estimator, options
        self._state: Mapping[str, Any] | None = None
        self._seats: dict[Hashable, int] = {}  # the state knows seats by these numbers

    @property
    def reads_surprise(self) -> bool:
        """Whether credit changes if trajectories have log-probabilities and entropies."""
        options = {**default_options(self.estimator), **self.options}
        return options.get("surprise") is True

    def __call__(self, trajectories: Sequence[Trajectory]) -> list[list[float]]:
        """The advantage of each turn, one list per trajectory.

        Raises:
            ValueError: a trajectory without a turn; or as `estimate`.
        """
        counts = [len(trajectory.rewards) for trajectory in trajectories]
        if 0 in counts:
            raise ValueError(
                f"want a reward for each turn, got trajectory {counts.index(0)} without "
                "turns; leave it out"
            )
        if not counts:
            return []
        for trajectory in trajectories:
            self._seats.setdefault(trajectory.seat, len(self._seats))
        seats = np.array([self._seats[trajectory.seat] for trajectory in trajectories])
        turns = _turn_batch(trajectories, np.array(counts), seats)
        result = estimate(self.estimator, turns, state=self._state, **self.options)
        self._state = result.state
        advantages = np.asarray(result.advantage, np.float64)
        return [part.tolist() for part in np.split(advantages, np.cumsum(counts)[:-1])]


def _turn_batch(
    trajectories: Sequence[Trajectory], counts: Ints, seats: Ints
) -> TurnBatch:
    row = np.repeat(np.arange(len(counts)), counts)
    turn = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    episodes = [
        ("alone", number) if t.episode is None else ("shared", t.episode)
        for number, t in enumerate(trajectories)
    ]
    return TurnBatch(
        reward=np.concatenate(
            [np.asarray(t.rewards, np.float64) for t in trajectories]
        ),
        game=np.zeros(len(row), np.int64),
        episode=_numbers(episodes)[row],
        seat=seats[row],
        turn=turn,
        group=_numbers([t.group for t in trajectories])[row],
        terminated=turn == counts[row] - 1,
        truncated=np.zeros(len(row), np.bool_),
        **_token_columns(trajectories),
    )


def _token_columns(trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    """The columns that surprise is made of; none if no trajectory has them.

    Raises:
        ValueError: some trajectories have them, or not for each turn and token.
    """
    pairs = [(t.logprobs, t.entropies) for t in trajectories]
    if all(of_turns is None for pair in pairs for of_turns in pair):
        return {}
    columns: dict[str, list[float]] = {"logprob": [], "entropy": []}
    num_tokens: list[int] = []
    for trajectory, (logprobs, entropies) in zip(trajectories, pairs, strict=True):
        sizes = [len(of_turn) for of_turn in logprobs or ()]
        if (
            logprobs is None
            or entropies is None
            or len(sizes) != len(trajectory.rewards)
            or sizes != [len(of_turn) for of_turn in entropies]
        ):
            raise ValueError(
                "want a log-probability and an entropy of each token of each turn, in all "
                f"trajectories or in none, got {logprobs!r:.80} and {entropies!r:.80} for "
                f"{len(trajectory.rewards)} turns"
            )
        columns["logprob"] += itertools.chain.from_iterable(logprobs)
        columns["entropy"] += itertools.chain.from_iterable(entropies)
        num_tokens += sizes
    return {
        "num_tokens": np.array(num_tokens, np.int64),
        "tokens": {name: np.array(x, np.float64) for name, x in columns.items()},
    }


def _numbers(keys: Sequence[Hashable]) -> Ints:
    """int64: equal where keys are equal, counted in order of appearance."""
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], np.int64)


def paid_by_turn(
    total: float, num_turns: int, turn_rewards: Sequence[float] | None = None
) -> list[float]:
    """The reward of each turn; the sum is `total`, which the trainer maximizes.

    The last turn is paid `total` minus the `turn_rewards` of the turns before it, or all of `total`
    without `turn_rewards`. So where the trainer truncated a row, the last turn of
    the row is also paid the rewards of the missing turns.

    Raises:
        ValueError: fewer rewards than turns.

    >>> paid_by_turn(3.0, 2), paid_by_turn(3.0, 2, [1.0, 1.0])
    ([0.0, 3.0], [1.0, 2.0])
    """
    if turn_rewards is None:
        return [0.0] * (num_turns - 1) + [total]
    if len(turn_rewards) < num_turns:
        raise ValueError(
            f"want one of turn_rewards for each of {num_turns} turns that the row trains, got "
            f"{list(turn_rewards)}; leave turn_rewards out, or list every turn"
        )
    early = [float(reward) for reward in turn_rewards[: num_turns - 1]]
    return [*early, total - sum(early)]


def turn_of_tokens(mask: Bools, ends: Bools | None = None) -> Ints:
    """int64[B, L]: the number of the turn of each token, from 0.

    A turn is a run of tokens that the model wrote; a token in `ends` also ends its turn. Tokens that
    the model did not write have the number of the turn before them, or -1.

    >>> turn_of_tokens(np.array([[1, 1, 0, 0, 1]], bool))
    array([[0, 0, 0, 0, 1]])
    """
    before = mask if ends is None else mask & ~ends
    before = np.pad(before, ((0, 0), (1, 0)))[:, :-1]
    return np.asarray(np.cumsum(mask & ~before, axis=1) - 1, np.int64)


def by_turn(
    values: Sequence[float] | Floats, mask: Bools, number: Ints
) -> list[list[float]]:
    """The values of a row's tokens that the model wrote, one list per turn.

    >>> by_turn([5.0, 6.0, 7.0], np.array([1, 0, 1], bool), np.array([0, 0, 1]))
    [[5.0], [7.0]]
    """
    array = np.asarray(values, np.float64)
    num_turns = int(number.max(initial=0)) + 1
    return [array[mask & (number == turn)].tolist() for turn in range(num_turns)]


def token_advantages(
    credit: StatefulEstimator,
    rewards: Floats,
    mask: Bools,
    groups: Sequence[Hashable],
    logprobs: Floats | None = None,
    entropies: Floats | None = None,
) -> Floats:
    """float64[B, L]: for each token that the model wrote, the advantage of its turn; else 0.

    Args:
        credit: the estimator.
        rewards: float[B, L], paid with each token. A token with a reward ends its turn.
            Rewards of tokens that the model did not write belong to the turn before.
        mask: bool[B, L], true for tokens that the model wrote. A row without such tokens counts as
            an episode of one turn.
        groups: of each row.
        logprobs: float[B, L], under the distribution that sampled, if they are known.
        entropies: float[B, L], of these distributions, if they are known.
    """
    number = turn_of_tokens(mask, rewards != 0).clip(0)

    def of_turns(column: Floats | None, row: int) -> list[list[float]] | None:
        if column is None or not credit.reads_surprise:
            return None
        return by_turn(column[row], mask[row], number[row])

    paid = [
        np.bincount(turns, values, turns.max(initial=0) + 1).tolist()
        for turns, values in zip(number, rewards, strict=True)
    ]
    advantages = credit(
        [
            Trajectory(
                turn_rewards,
                group,
                logprobs=of_turns(logprobs, row),
                entropies=of_turns(entropies, row),
            )
            for row, (turn_rewards, group) in enumerate(zip(paid, groups, strict=True))
        ]
    )
    of_tokens = [np.array(a)[n] for a, n in zip(advantages, number, strict=True)]
    return np.asarray(np.stack(of_tokens) * mask, np.float64)
