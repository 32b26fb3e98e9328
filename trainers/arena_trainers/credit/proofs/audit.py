"""An audit of anyone's advantage function before the exact gradient of the diagnostic games.

    from arena_trainers.credit import audit

    assert audit(my_function, "verl").worst in ("exact", "scaled")

The function is called as its own trainer calls it; a turn of a game is one token there. A trajectory is
one seat of one episode. A group holds the trajectories of one seat: those of the same start.

| Signature | Call | Result |
|---|---|---|
| `turns` | `f(turns)` with a `TurnBatch` | float[N], or `Credit` |
| `trl` | `f(rewards, num_generations=n)` per group, with tensors: float[n] of returns | float[n] |
| `verl` | `f(token_level_rewards=, response_mask=, index=)`: tensors[R, K], and the group of each row | tensor[R, K], alone or first of a tuple |
| `episodes` | `f(rewards)` per group: a list of float[K] | a list of float[K] |
"""

import importlib
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import combinations_with_replacement, product
from typing import Any, Literal, NamedTuple

import numpy as np

from arena_trainers.credit.batch import Floats, Ints, TurnBatch
from arena_trainers.credit.pools import (
    Credit,
    FlatPoolWarning,
    moments,
    pools_by,
    with_report,
)
from arena_trainers.credit.proofs.claims import KINDS, Kind
from arena_trainers.credit.proofs.diagnostics import DIAGNOSTICS
from arena_trainers.credit.proofs.exact import ExactPlay
from arena_trainers.credit.proofs.findings import TOLERANCE as OF_LARGE
from arena_trainers.credit.proofs.findings import (
    Verdict,
    compare,
    gradient_estimate,
    has_chance,
    large_group,
    play_of,
)
from arena_trainers.credit.trajectories import Trajectories

Signature = Literal["turns", "trl", "verl", "episodes"]
# Games whose episodes are cut need a critic, which these signatures do not pass on.
GAMES = tuple(name for name, game in DIAGNOSTICS.items() if game.max_turns is None)
TOLERANCE = 1e-5  # relative: many functions compute with 32 bits


class AuditRow(NamedTuple):
    """The verdicts in a diagnostic game, by batch; none if the function failed.

    A batch is `"2"` and the like, one group of so many episodes; or `"large"`, every line of play in
    proportion. Where the game has chance also `"2, shared chance"`: all episodes draw the same.
    The large batch is one batch: it is left out where it is wrong and all smaller ones are right.
    """

    game: str
    verdicts: dict[str, Verdict]
    error: str = ""  # what the function raised or returned, where it failed


class Counterexample(NamedTuple):
    """The smallest game, and its first batch, in which the expected gradient is reversed."""

    game: str
    batch: str
    # of each logit: seat, information state, number of the action, true and expected gradient
    lines: list[tuple[int, Any, int, float, float]]


class Audit(NamedTuple):
    """The result of `audit`."""

    rows: list[AuditRow]
    counterexample: Counterexample | None

    @property
    def worst(self) -> Kind | Literal["error"]:
        """The worst verdict: exact, scaled, direction, zero, reversed; or error."""
        if any(row.error for row in self.rows):
            return "error"
        kinds = (v.kind for row in self.rows for v in row.verdicts.values())
        return max(kinds, key=KINDS.index)


def audit(
    function: Callable[..., Any],
    signature: Signature = "turns",
    *,
    games: Sequence[str] = GAMES,
    sizes: Sequence[int] = (2, 4),
) -> Audit:
    """Compares the expected gradient of an advantage function with the true one.

    Args:
        function: as in the table of this module.
        signature: which row of the table.
        games: diagnostic games.
        sizes: of the batches, all of which are enumerated. From 3 on in one order each: a
            function that depends on the order has batches of up to two alone.

    Raises:
        ValueError: unknown signature or game.
    """
    if signature not in _CALLS:
        known = ", ".join(_CALLS)
        raise ValueError(f"want a signature among {known}, got {signature!r}")
    if unknown := [game for game in games if game not in DIAGNOSTICS]:
        raise ValueError(
            f"want games among {', '.join(DIAGNOSTICS)}, got {unknown[0]!r}"
        )
    estimator = _estimator(function, signature)
    rows, found = {}, None
    for game in sorted(games, key=lambda game: play_of(game).game.num_lines):
        play = play_of(game)
        try:
            means = _expected(estimator, game, sizes)
        except Exception as error:  # of a function that is not ours: a finding
            rows[game] = AuditRow(game, {}, f"{type(error).__name__}: {error}"[:200])
            continue
        verdicts = {
            batch: compare(mean, play.gradient, play.game.seat, near)
            for batch, (mean, near) in means.items()
        }
        for large in {"large", "large, shared chance"} & verdicts.keys():
            kinds = [verdicts[f"{n}{large[5:]}"].kind for n in sizes]
            if {*kinds} <= {*KINDS[:2]} and verdicts[large].kind not in KINDS[:2]:
                del verdicts[large]  # one batch, where a median of others jumps
        rows[game] = AuditRow(game, verdicts)
        wrong = [batch for batch, v in verdicts.items() if v.kind == "reversed"]
        if wrong and found is None:
            found = _counterexample(game, wrong[0], means[wrong[0]][0])
    return Audit([rows[game] for game in games], found)


def _expected(
    estimator: Callable[[Trajectories], Credit], game: str, sizes: Sequence[int]
) -> dict[str, tuple[Floats, float]]:
    """The expected gradient by batch, and the relative tolerance of its comparison."""
    play = play_of(game)
    means: dict[str, tuple[Floats, float]] = {}
    names = ("", ", shared chance")[: 1 + has_chance(game)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatPoolWarning)
        for size in sorted(sizes):
            batches, weights = _batches(game, size)
            found = np.array([gradient_estimate(estimator, play, *b) for b in batches])
            if size > 2 and _by_order(estimator, play, batches, found):
                return means  # one order of each batch would not do
            for name, weight in zip(names, weights, strict=False):
                means[f"{size}{name}"] = weight @ found, TOLERANCE
        for name in names:
            group = large_group(game, shared=bool(name))
            means[f"large{name}"] = gradient_estimate(estimator, play, *group), OF_LARGE
    return means


def _by_order(estimator: Any, play: ExactPlay, batches: Any, found: Floats) -> bool:
    """True if another order of the episodes gives another gradient, in 50 random batches."""
    rng = np.random.default_rng(0)
    some = rng.integers(len(batches), size=50)
    orders = [rng.permutation(batches[i][0]) for i in some]
    other = [gradient_estimate(estimator, play, d) for d in orders]
    near = TOLERANCE * float(np.abs(found).max())
    return bool((np.abs(found[some] - np.array(other)) > near).any())


@lru_cache(maxsize=4 * len(GAMES))
def _batches(game: str, size: int) -> tuple[list[tuple[Ints, TurnBatch]], Floats]:
    """All batches of one group, and float64[2, N], their probabilities: own chance, shared chance.

    Batches of more than two, which are many, have one random order each.
    """
    play, rng = play_of(game), np.random.default_rng(0)
    start, allowed = play.game.starts
    likely = np.where(allowed, play.probability / play.game.flat.chance, 0.0)
    lines, ordered = range(play.game.num_lines), size <= 2
    every: Iterable[tuple[int, ...]] = product(lines, repeat=size)
    if not ordered:
        every = combinations_with_replacement(lines, size)
    batches, weights = [], []
    for batch in every:
        drawn, orders = np.array(batch), 1
        if not ordered:
            drawn = rng.permutation(drawn)
            alike = map(math.factorial, Counter(batch).values())
            orders = math.factorial(size) // math.prod(alike)
        batches.append((drawn, play.batch(drawn)))
        shared = start @ likely[:, drawn].prod(axis=1)
        weights.append([orders * play.probability[drawn].prod(), orders * shared])
    return batches, np.transpose(weights)


def _counterexample(name: str, batch: str, mean: Floats) -> Counterexample:
    play = play_of(name)
    lines = []
    for column, infoset in enumerate(play.game.infoset):
        number = column - int(np.flatnonzero(play.game.infoset == infoset)[0])
        true, got = float(play.gradient[column]), float(mean[column])
        lines.append((*play.game.keys[infoset], number, true, got))
    return Counterexample(name, batch, lines)


def _estimator(
    function: Callable[..., Any], signature: Signature
) -> Callable[[Trajectories], Credit]:
    def estimator(turns: Trajectories) -> Credit:
        advantage = _CALLS[signature](function, turns)
        if advantage.shape != turns.index.shape:
            want = f"an advantage for each of {len(turns.index)} turns"
            raise ValueError(f"want {want}, got an array of shape {advantage.shape}")
        if not np.isfinite(advantage).all():
            raise ValueError("want finite advantages, got NaN or infinity")
        pools = pools_by(turns, ("group", "seat"), whole=True)
        stats = moments(turns.column("reward"), pools.of, len(pools.key))
        return with_report(advantage, pools, stats)

    return estimator


def _places(turns: Trajectories) -> Ints:
    """int64[M]: the number of each turn in its trajectory, from 0."""
    return turns.num_turns - 1 - turns.left


def _groups(turns: Trajectories) -> list[Ints]:
    """The trajectories of each group and seat, as indices."""
    keys = np.stack([turns.column(name)[turns.first] for name in ("group", "seat")])
    _, of = np.unique(keys, axis=1, return_inverse=True)
    return [np.flatnonzero(of == number) for number in range(of.max() + 1)]


def _by_turns(function: Callable[..., Any], turns: Trajectories) -> Floats:
    result = function(turns.batch)
    result = result.advantage if isinstance(result, Credit) else result
    return np.asarray(result, np.float64)[turns.row]


def _by_trl(function: Callable[..., Any], turns: Trajectories) -> Floats:
    torch: Any = importlib.import_module("torch")
    paid = np.bincount(turns.index, turns.column("reward"))
    credit = np.zeros(len(paid))
    for group in _groups(turns):
        given = function(torch.as_tensor(paid[group]), num_generations=len(group))
        credit[group] = np.asarray(given, np.float64)
    return credit[turns.index]


def _by_verl(function: Callable[..., Any], turns: Trajectories) -> Floats:
    torch: Any = importlib.import_module("torch")
    place, num = _places(turns), len(turns.first)
    rewards = torch.zeros(num, int(turns.num_turns.max()), dtype=torch.float64)
    mask = torch.zeros_like(rewards)
    rewards[turns.index, place] = torch.as_tensor(turns.column("reward"))
    mask[turns.index, place] = 1
    index = np.empty(num, dtype=object)
    for number, group in enumerate(_groups(turns)):
        index[group] = f"group-{number}"
    given = function(token_level_rewards=rewards, response_mask=mask, index=index)
    given = given[0] if isinstance(given, tuple) else given
    return np.asarray(given, np.float64)[turns.index, place]


def _by_episodes(function: Callable[..., Any], turns: Trajectories) -> Floats:
    order, place = np.argsort(turns.index, kind="stable"), _places(turns)
    ends = np.cumsum(np.bincount(turns.index))[:-1]
    rewards = np.split(turns.column("reward")[order], ends)
    credit = [np.zeros(len(paid)) for paid in rewards]
    for group in _groups(turns):
        given = function([rewards[i].copy() for i in group])
        for i, own in zip(group, given, strict=True):
            credit[i] = np.asarray(own, np.float64)
            if credit[i].shape != rewards[i].shape:
                want = f"{len(rewards[i])} advantages of a trajectory"
                raise ValueError(f"want {want}, got shape {credit[i].shape}")
    flat = np.concatenate(credit)
    start = np.cumsum([0, *map(len, credit)])[turns.index]
    return flat[start + place]


_CALLS: dict[str, Callable[[Callable[..., Any], Trajectories], Floats]] = {
    "turns": _by_turns,
    "trl": _by_trl,
    "verl": _by_verl,
    "episodes": _by_episodes,
}
