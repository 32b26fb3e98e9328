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
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from arena_trainers.credit.batch import Floats, Ints
from arena_trainers.credit.pools import Credit, moments, pools_by, with_report
from arena_trainers.credit.proofs.claims import KINDS, Kind
from arena_trainers.credit.proofs.diagnostics import DIAGNOSTICS
from arena_trainers.credit.proofs.exact import ExactPlay
from arena_trainers.credit.proofs.expectation import Verdict, expected_gradient
from arena_trainers.credit.proofs.findings import examine, has_chance, play_of
from arena_trainers.credit.trajectories import Trajectories

Signature = Literal["turns", "trl", "verl", "episodes"]
# Games whose episodes are cut need a critic, which these signatures do not pass on.
GAMES = tuple(name for name, game in DIAGNOSTICS.items() if game.max_turns is None)


class AuditRow(NamedTuple):
    """The verdicts in one game; None if the function failed there.

    Attributes:
        game: of the diagnostic games.
        two: of the expected gradient of batches of two episodes, exactly.
        large: of one large group, which has every line of play in proportion.
        shared: of large groups that share the draws of chance; None without chance.
        error: what the function raised or returned, where it failed.
    """

    game: str
    two: Verdict | None
    large: Verdict | None
    shared: Verdict | None
    error: str = ""

    @property
    def kinds(self) -> list[Kind]:
        """The kinds of the verdicts that there are."""
        return [v.kind for v in (self.two, self.large, self.shared) if v is not None]


class Counterexample(NamedTuple):
    """The smallest game in which batches of two have a reversed gradient.

    Attributes:
        game: its name.
        about: what is played.
        lines: per logit: seat, information state, number of the action, true and expected gradient.
    """

    game: str
    about: str
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
        return max((k for row in self.rows for k in row.kinds), key=KINDS.index)


def audit(
    function: Callable[..., Any],
    signature: Signature = "turns",
    *,
    games: Sequence[str] = GAMES,
) -> Audit:
    """Compares the expected gradient of an advantage function with the true one.

    Args:
        function: as in the table of this module.
        signature: which row of the table.
        games: diagnostic games.

    Raises:
        ValueError: unknown signature or game.
    """
    if signature not in get_args(Signature):
        known = ", ".join(get_args(Signature))
        raise ValueError(f"want a signature among {known}, got {signature!r}")
    if unknown := [game for game in games if game not in DIAGNOSTICS]:
        raise ValueError(
            f"want games among {', '.join(DIAGNOSTICS)}, got {unknown[0]!r}"
        )
    estimator = _estimator(function, signature)
    rows = [_row(estimator, game) for game in games]
    wrong = [r.game for r in rows if r.two is not None and r.two.kind == "reversed"]
    smallest = min(wrong, key=lambda game: play_of(game).game.num_lines, default=None)
    found = None if smallest is None else _counterexample(estimator, smallest)
    return Audit(rows, found)


def _row(estimator: Callable[[Trajectories], Credit], game: str) -> AuditRow:
    try:
        found = examine(estimator, game)
    except (
        Exception
    ) as error:  # of a function that is not ours: its failure is the finding
        return AuditRow(
            game, None, None, None, f"{type(error).__name__}: {error}"[:200]
        )
    shared = found.bias_shared_chance if has_chance(game) else None
    return AuditRow(game, found.bias_two, found.bias_infinite, shared)


def _counterexample(
    estimator: Callable[[Trajectories], Credit], name: str
) -> Counterexample:
    play: ExactPlay = play_of(name)
    mean, game = expected_gradient(estimator, play, 2).mean, play.game
    lines = []
    for column, infoset in enumerate(game.infoset):
        seat, state = game.keys[infoset]
        number = column - int(np.flatnonzero(game.infoset == infoset)[0])
        true, got = float(play.gradient[column]), float(mean[column])
        lines.append((seat, state, number, true, got))
    return Counterexample(name, DIAGNOSTICS[name].about, lines)


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


def _rewards(turns: Trajectories) -> list[Floats]:
    """The payments of each trajectory, turn by turn."""
    order = np.argsort(turns.index, kind="stable")
    ends = np.cumsum(np.bincount(turns.index))[:-1]
    return np.split(turns.column("reward")[order], ends)


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
    rewards, place = _rewards(turns), _places(turns)
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
