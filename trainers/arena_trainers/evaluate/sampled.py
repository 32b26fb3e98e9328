"""Exploitability of policies that can only be sampled."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import AnyGame
from arena_envs.solvers import Key, Table, nash_conv
from arena_trainers.evaluate.exploit import exact_options, requests_of, want_enumerable
from arena_trainers.evaluate.intervals import LEVEL
from arena_wrappers import InvalidReply, Policy, PromptOptions, turn_seed
from arena_wrappers.asking import ask, checked_timeout

CHUNK = 1024  # requests per call of the policy
NUM_RESAMPLES = 200


class SampledExploitability(NamedTuple):
    """What the empirical action frequencies of a policy lose to best responses.

    Attributes:
        nash_conv: NashConv of the frequencies, biased upwards, see
            `sampled_exploitability`.
        low: lower end of its 95 % interval.
        high: upper end.
        exploitability: `nash_conv` per seat.
        illegal_mass: share of replies that are no legal action.
        num_samples: replies per information state.
    """

    nash_conv: float
    low: float
    high: float
    exploitability: float
    illegal_mass: float
    num_samples: int


def sampled_exploitability(
    policy: Policy,
    game: AnyGame,
    num_samples: int = 100,
    options: PromptOptions | None = None,
    *,
    seed: int = 0,
    timeout: float | None = None,
) -> SampledExploitability:
    """NashConv of a policy's action frequencies, from replies to every information state.

    The estimate is biased upwards. The frequencies are unbiased and independent between
    information states, and so expected returns are unbiased. The best response is chosen
    from the same frequencies, and E max ≥ max E. With k samples the bias is of order 1/√k
    where best responses tie, as at an equilibrium, which therefore measures above 0. It
    falls much faster where one response is best. `exploitability` is exact for policies
    with `action_probs`.

    Illegal replies do not count in the frequencies. An information state without a legal
    reply gets uniform frequencies; `illegal_mass` tells how often replies are illegal.

    The interval is a basic bootstrap over the replies. It corrects the part of the bias
    that resampling shows. Close to an equilibrium it may lie above the true value.

    Args:
        policy: any policy.
        game: the rules; at most a million states.
        num_samples: k, replies per information state; at least 2.
        options: prompt options; by default those that the policy carries, see `Policy`.
        seed: seed of the replies and of the bootstrap.
        timeout: longest call of the policy, in seconds; a reply that takes longer counts as
            illegal.

    Raises:
        ValueError: the options ask for transcripts; the game is too large, or a language
            game; `num_samples` below 2, or `timeout` not above 0.

    >>> from arena_envs import make_game
    >>> from arena_wrappers import RandomPolicy
    >>> found = sampled_exploitability(RandomPolicy(), make_game("kuhn_poker"), 200)
    >>> found.low < 11 / 12 < found.high
    True
    """
    if type(num_samples) is not int or num_samples < 2:
        raise ValueError(f"want num_samples of at least 2, got {num_samples!r}")
    checked_timeout(timeout)
    want_enumerable(game)
    counts = _counts(
        policy, game, num_samples, exact_options(policy, options), seed, timeout
    )
    found = nash_conv(game, _table(counts))
    rng = np.random.default_rng(seed)
    again = [
        nash_conv(
            game, _table({key: _redrawn(row, rng) for key, row in counts.items()})
        )
        for _ in range(NUM_RESAMPLES)
    ]
    tails = np.quantile(again, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    low, high = (max(0.0, float(2 * found - tail)) for tail in tails[::-1])
    num_legal = sum(int(row.sum()) for row in counts.values())
    return SampledExploitability(
        nash_conv=found,
        low=low,
        high=high,
        exploitability=found / game.num_players,
        illegal_mass=1 - num_legal / (num_samples * len(counts)),
        num_samples=num_samples,
    )


Counts = dict[Key, NDArray[np.int64]]  # of the legal actions of an information state


def _counts(
    policy: Policy,
    game: AnyGame,
    num_samples: int,
    options: PromptOptions,
    seed: int,
    timeout: float | None,
) -> Counts:
    requests = requests_of(game, options)
    counts = {key: np.zeros(len(r.legal), np.int64) for key, r in requests.items()}
    draws = [
        (key, replace(request, seed=turn_seed(seed, sample, number, request.seat)))
        for number, (key, request) in enumerate(requests.items())
        for sample in range(num_samples)
    ]
    for start in range(0, len(draws), CHUNK):
        chunk = draws[start : start + CHUNK]
        replies = ask(policy, [request for _, request in chunk], timeout, "raise")
        for (key, request), reply in zip(chunk, replies, strict=True):
            if reply.invalid is not None:
                continue
            action = options.parse(game, request.state, reply.text, request.legal)
            if not isinstance(action, InvalidReply):
                counts[key][list(game.legal_actions(request.state)).index(action)] += 1
    return counts


def _table(counts: Counts) -> Table:
    return {
        key: (
            row / row.sum() if row.any() else np.full(len(row), 1 / len(row))
        ).tolist()
        for key, row in counts.items()
    }


def _redrawn(row: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    total = int(row.sum())
    return rng.multinomial(total, row / total) if total else row
