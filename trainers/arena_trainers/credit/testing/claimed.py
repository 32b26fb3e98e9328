"""The claims of an estimator; each function checks one field of `Claims`."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from arena_trainers.credit.batch import Bools, Floats, TurnBatch
from arena_trainers.credit.by_name import (
    default_options,
    estimate,
)
from arena_trainers.credit.proofs.claims import KINDS, Claims
from arena_trainers.credit.proofs.diagnostics import DIAGNOSTICS
from arena_trainers.credit.proofs.findings import Finding, examine
from arena_trainers.credit.results import FlatPoolWarning
from arena_trainers.credit.testing.batches import (
    last_turns,
    paid,
    take,
    with_numbers,
)
from arena_trainers.credit.testing.comparison import (
    Named,
    advantage,
    credit_of,
    demand,
    part,
    raises_broken_claim,
    same,
)
from arena_trainers.credit.testing.properties import Check
from arena_trainers.credit.trajectories import (
    returns_to_go,
    sizes_to_go,
    trajectories,
)


@raises_broken_claim
def check_labels(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """`labels`: a permutation of the seat numbers changes nothing."""
    labels = rng.permutation(int(turns.seat.max()) + 2)
    renamed = replace(turns, seat=labels[turns.seat])
    same(turns, advantage(name, renamed), advantage(name, turns), 1e-8)


@raises_broken_claim
def check_continuous(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """`continuous`: inputs rounded to float32 give nearly the same advantages.

    The tolerance is 1e-6 times the largest sum of absolute rewards, divided by the smallest
    difference of returns-to-go, as an estimator may divide by it; see `Claims`.
    """
    uneven = with_numbers(turns, _thirds, _thirds)  # no float32 holds them exactly
    uneven = paid(uneven, _decimals(turns, rng))
    rounded = with_numbers(uneven, _rounded, _rounded)
    live = trajectories(uneven)
    reward = live.column("reward")
    to_go = [
        np.sort(returns_to_go(live, reward, discount))
        for discount in (1.0, default_options(name).get("discount"))
        if isinstance(discount, float)
    ]
    steps = np.diff(to_go).ravel()
    least = steps.min(initial=np.inf, where=steps > 1e-9)
    atol = 1e-6 * max(1.0, sizes_to_go(live, reward).max()) * (1 + 1 / least)
    same(turns, advantage(name, rounded), advantage(name, uneven), atol)


def _decimals(turns: TurnBatch, rng: np.random.Generator) -> Floats:
    """Rewards in twentieths, small and large; half the time all returns are 0.2."""
    twentieths = rng.choice([1, 2, 4, 21, -19, 2002, -1998], len(turns.reward))
    if rng.integers(2):
        ends = np.flatnonzero(last_turns(turns))
        starts = np.append(0, ends[:-1] + 1)
        twentieths[ends] += 4 - np.add.reduceat(twentieths, starts)
    return np.asarray(twentieths / 20, np.float64)


def _thirds(column: Floats) -> Floats:
    """A third of the column, plus 0.1; columns of whole numbers, as labels, stay."""
    return column if (column == np.round(column)).all() else column / 3 + 0.1


def _rounded(column: Floats) -> Any:
    return column.astype(np.float32)


@raises_broken_claim
def check_games_apart(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """`games_apart`: other games of the batch change nothing."""
    _held_apart(name, turns, rng, "game")


@raises_broken_claim
def check_groups_apart(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """`groups_apart`: other groups of the batch change nothing."""
    _held_apart(name, turns, rng, "group")


@raises_broken_claim
def check_seats_apart(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """`seats_apart`: other seats of the batch change nothing."""
    _held_apart(name, turns, rng, "seat")


def _held_apart(
    name: Named, turns: TurnBatch, rng: np.random.Generator, column: str
) -> None:
    """Changes the rewards of the others, then leaves the others out."""
    values = getattr(turns, column)
    own: Bools = values == rng.choice(values)
    rows = np.flatnonzero(own)
    want = part(turns, advantage(name, turns), rows)
    other = np.where(own, turns.reward, rng.integers(-3, 4) * turns.reward)
    got = part(turns, advantage(name, paid(turns, other)), rows)
    same(turns, got, want, 1e-12, rows)
    same(turns, advantage(name, take(turns, rows)), want, 1e-8, rows)


@raises_broken_claim
def check_tokens(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """`tokens`: the number of tokens of a turn changes nothing."""
    turns = replace(turns, tokens=None)
    alike = replace(turns, num_tokens=np.ones(len(turns.reward), int))
    got, want = credit_of(name, turns).advantage, credit_of(name, alike).advantage
    same(alike, got, want)


@raises_broken_claim
def check_shift(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """`shift`: a constant, added to a seat's last rewards, changes nothing."""
    size, episodes = len(turns.reward), turns.episode.max() + 1
    copies = np.repeat(np.arange(4), size)  # leave-one-out needs other trajectories
    rows = np.tile(np.arange(size), 4)
    episode = turns.episode[rows] + copies * episodes
    turns = take(turns, rows, episode=episode, rollout=episode)
    mine = last_turns(turns) & (turns.seat == rng.choice(turns.seat))
    more = paid(turns, turns.reward + rng.integers(1, 10) * mine)
    same(turns, advantage(name, more), advantage(name, turns), 1e-8)


@raises_broken_claim
def check_zero_mean(
    name: Named, turns: TurnBatch, rng: np.random.Generator, columns: Sequence[str]
) -> None:
    """`zero_mean`: the advantages of all turns of a pool sum to 0."""
    _sums_to_zero(name, turns, columns, np.ones(len(turns.reward), bool))


@raises_broken_claim
def check_zero_sum(
    name: Named, turns: TurnBatch, rng: np.random.Generator, columns: Sequence[str]
) -> None:
    """`zero_sum`: the advantages of all trajectories of a pool sum to 0."""
    _sums_to_zero(name, turns, columns, turns.turn == 0)


def _sums_to_zero(
    name: Named, turns: TurnBatch, columns: Sequence[str], counted: Bools
) -> None:
    got = credit_of(name, turns).advantage
    demand(got.shape == turns.reward.shape, "an advantage per turn", got.shape)
    keys = np.stack([getattr(turns, column)[counted] for column in columns])
    pools, of = np.unique(keys, axis=1, return_inverse=True)
    total = np.bincount(of.ravel(), got[counted])
    worst = int(np.abs(total).argmax())
    pool = dict(zip(columns, pools[:, worst].tolist(), strict=True))
    demand(abs(total[worst]) <= 1e-8, f"a sum of 0 over {pool}", total[worst])


@raises_broken_claim
def check_singleton_zero(
    name: Named, turns: TurnBatch, rng: np.random.Generator
) -> None:
    """`singleton_pool` "zero": a pool of one, or of equal returns, gets 0 and a warning."""
    for num in (1, 3):
        alike = _alike(turns, float(turns.reward[0]), num)
        got = part(alike, advantage(name, alike), np.flatnonzero(alike.game == 0))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            estimate(name, alike)
        flat = [w for w in caught if issubclass(w.category, FlatPoolWarning)]
        demand(np.abs(got).max() <= 1e-8, f"advantages 0 for {num} equal returns", got)
        told = [str(w.message) for w in caught]
        demand(len(flat) == len(caught) == 1, "one FlatPoolWarning", told)


@raises_broken_claim
def check_singleton_return(
    name: Named, turns: TurnBatch, rng: np.random.Generator
) -> None:
    """`singleton_pool` "return": a pool of one gets its return, and no warning."""
    reward = float(turns.reward[0]) or 3.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        alike = _alike(turns, reward, 1)
        estimate(name, alike)
    got = part(alike, advantage(name, alike), np.flatnonzero(alike.game == 0))
    demand((got == reward).all(), f"advantages {reward}", got)
    demand(not caught, "no warning", [str(w.message) for w in caught])


def _alike(turns: TurnBatch, reward: float, num: int) -> TurnBatch:
    """Game 0: `num` one-turn trajectories of equal returns, in one pool.

    Game 1: two one-turn trajectories of different returns.
    """
    game = np.repeat([0, 1], [num, 2])
    rows = np.append(np.zeros(num + 1, int), len(turns.reward) - 1)
    own = {name: np.arange(num + 2) for name in ("episode", "rollout")}
    none = {name: np.zeros(num + 2, int) for name in ("seat", "turn")}
    alone = take(turns, rows, game=game, group=game, **own, **none)
    return paid(alone, np.append(np.full(num, reward), [1.0, 3.0]))


@raises_broken_claim
def check_bias(name: Named, claims: Claims) -> Mapping[str, Finding]:
    """`bias_two`, `bias_infinite`, `bias_shared_chance`, `bootstraps`: the measured bias.

    Returns:
        The findings by diagnostic game.
    """
    found = {game: examine(name, game) for game in DIAGNOSTICS}
    for game, finding in found.items():
        limited = DIAGNOSTICS[game].max_turns is not None
        if limited and not claims.bootstraps:
            continue
        for field in ("bias_two", "bias_infinite", "bias_shared_chance"):
            worst = KINDS.index(getattr(claims, field))
            if limited and field == "bias_infinite":  # what `bootstraps` claims
                worst = min(worst, KINDS.index("direction"))
            kind, cosine, factor = getattr(finding, field)
            wanted = f"{field} {KINDS[worst]!r} or better on the game {game!r}"
            got = f"{kind!r} (cosine {cosine:.3f}, factor {factor:.3f})"
            advice = "fix the estimator or claim less"
            demand(KINDS.index(kind) <= worst, wanted, f"{got}; {advice}")
    return found


FLAGS: Mapping[str, Check] = {
    "labels": check_labels,
    "continuous": check_continuous,
    "games_apart": check_games_apart,
    "groups_apart": check_groups_apart,
    "seats_apart": check_seats_apart,
    "tokens": check_tokens,
    "shift": check_shift,
}
SINGLETON_POOL: Mapping[str, Check] = {
    "zero": check_singleton_zero,
    "return": check_singleton_return,
}
SUMS: Mapping[str, Callable[..., None]] = {
    "zero_mean": check_zero_mean,
    "zero_sum": check_zero_sum,
}
POOLS = (
    ("group", "seat", "state_key"),
    ("game", "seat", "state_key"),
    ("group", "seat"),
    ("group", "team"),
    ("group",),
    ("game", "seat"),
    ("game",),
)  # tried if none are claimed, small pools first
TRIED: Mapping[str, Sequence[Any]] = {
    **dict.fromkeys(FLAGS, (True,)),
    **dict.fromkeys(SUMS, POOLS),
    "singleton_pool": tuple(SINGLETON_POOL),
}  # what can be claimed in each field, the strongest first


def check_of(field: str, value: Any) -> Check:
    """The check of a value of one field of `Claims`."""
    if field in SUMS:
        return partial(SUMS[field], columns=value)
    return SINGLETON_POOL[value] if field == "singleton_pool" else FLAGS[field]


def checks_of(claims: Claims) -> dict[str, Check]:
    """The check of each claim but the bias, by field."""
    values = {field: getattr(claims, field) for field in TRIED}
    return {
        field: check_of(field, value)
        for field, value in values.items()
        if value not in (False, None, "other")
    }
