"""Batches with all columns, changes of batches, and comparisons of an estimator's advantages.

A difference raises `BrokenPromise`.
"""

import functools
import inspect
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from arena_envs.doors import BrokenPromise
from arena_trainers.credit.batch import FLOAT_COLUMNS, Bools, Floats, Ints, TurnBatch
from arena_trainers.credit.by_name import (
    Estimator,
    estimate,
    find_estimator,
    name_of,
    per_token,
)
from arena_trainers.credit.pools import Credit, FlatPoolWarning

Numbers = Sequence[float] | Floats
Trajectory = tuple[int, int, int, Numbers]  # episode, game, seat, rewards
Drawn = tuple[int, Mapping[int, Numbers]]  # game, rewards of each seat


def batch_of(*trajectories: Trajectory, **columns: Any) -> TurnBatch:
    """A batch of (episode, game, seat, rewards); a game is one group, a turn one token.

    Args:
        *trajectories: in the order of the rows.
        **columns: further columns of `TurnBatch`; they replace those made here.

    >>> batch_of((0, 0, 0, [1.0, 2.0]), (0, 0, 1, [3.0])).turn
    array([0, 1, 0])
    """
    rows = [(r, e, g, s, k) for e, g, s, rs in trajectories for k, r in enumerate(rs)]
    reward, episode, game, seat, turn = map(list, zip(*rows, strict=True))
    basic: dict[str, Any] = {
        "reward": reward,
        "episode": episode,
        "game": game,
        "seat": seat,
        "turn": turn,
        "group": game,
        "num_tokens": np.ones(len(reward), int),
    }
    return TurnBatch(**basic | columns)


def full_batch(drawn: Iterable[Drawn], needed: Iterable[str] = ()) -> TurnBatch:
    """A batch with all columns, made of the rewards.

    Tokens, states and values differ from turn to turn. All turns are unselected. Every
    episode is one rollout. A game has two groups.

    Args:
        drawn: (game, rewards by seat) of every episode.
        needed: columns that an estimator needs. Unknown parts of the reward and unknown
            token columns among them are filled with numbers.
    """
    rows = [
        (episode, game, seat, paid)
        for episode, (game, seats) in enumerate(drawn)
        for seat, paid in seats.items()
    ]
    n: Any = np.arange(sum(len(paid) for *_, paid in rows))
    num = 1 + n % 3
    t: Any = np.arange(num.sum())
    turns = batch_of(*rows, num_tokens=num)
    last = last_turns(turns)
    cut = last & (n % 2 == 0)
    asked = [name.partition(".") for name in needed]
    parts = {part: n * 0.625 % 2 - 0.5 for kind, _, part in asked if kind == "rewards"}
    tokens = {part: t * 0.625 % 2 for kind, _, part in asked if kind == "tokens"}
    known = {"entropy": t * 0.375 % 2, "value": (t + 1) * 0.25 % 3, "logprob": -(t % 2)}
    return replace(
        turns,
        group=2 * turns.game + turns.episode % 2,
        rewards={**parts, "game": turns.reward, "judge": n % 2 - 0.5},
        rollout=turns.episode,
        team=turns.seat % 2,
        stratum=turns.episode % 2,
        state_key=n % 2,
        action=n % 3 // 2,
        parent=np.full(len(n), -1),
        branch=np.zeros(len(n), int),
        unselected=np.ones(len(n), bool),
        terminated=last & ~cut,
        truncated=cut,
        value=(n + 1) * 0.25 % 2,
        next_value=n * 0.125,
        action_value=n * 0.5 % 2,
        row_length=num + 4,
        tokens={**tokens, **known},
    )


def random_batches(num: int, seed: int, needed: Iterable[str] = ()) -> list[TurnBatch]:
    """Random batches of 2 games with 3 seats; the size grows from 1 to 16 episodes."""
    rng = np.random.default_rng(seed)
    needed = tuple(needed)
    return [
        full_batch([_episode(rng) for _ in range(1 + 16 * index // num)], needed)
        for index in range(num)
    ]


def _episode(rng: np.random.Generator) -> Drawn:
    seats = rng.permutation(3)[: rng.integers(1, 4)]
    paid = {int(s): rng.integers(-8, 9, rng.integers(1, 5)) / 4 for s in seats}
    return int(rng.integers(2)), paid


def last_turns(turns: TurnBatch) -> Bools:
    """bool[N]: the last turn of each trajectory, for rows in playing order."""
    return np.append(turns.turn[1:] == 0, True)


def num_tokens(turns: TurnBatch) -> Ints:
    """int64[N]: trained tokens of each turn; 1 without the column."""
    num = turns.num_tokens
    return np.ones(len(turns.reward), np.int64) if num is None else num


def tokens_of(turns: TurnBatch, rows: Ints) -> Ints:
    """int64: the indices of the tokens of some rows."""
    num = num_tokens(turns)
    ends = np.cumsum(num)
    parts = [np.arange(ends[r] - num[r], ends[r]) for r in rows]
    return np.concatenate([np.zeros(0, np.int64), *parts])


def take(turns: TurnBatch, rows: Ints, **changed: Any) -> TurnBatch:
    """The batch of some rows, in the given order, with some columns replaced."""
    columns: dict[str, Any] = {}
    for name in (field.name for field in fields(turns)):
        column = getattr(turns, name)
        if name == "tokens" and column is not None:
            places = tokens_of(turns, rows)
            columns[name] = {k: v[places] for k, v in column.items()}
        elif name == "rewards" and column is not None:
            columns[name] = {k: v[rows] for k, v in column.items()}
        elif isinstance(column, np.ndarray):
            columns[name] = column[rows]
    return TurnBatch(**columns | changed)


def copied(turns: TurnBatch) -> TurnBatch:
    """A copy of the batch and its arrays."""
    return take(turns, np.arange(len(turns.reward)))


def paid(turns: TurnBatch, reward: Floats) -> TurnBatch:
    """The batch with other rewards, also in their part `game`."""
    return replace(
        turns, reward=reward, rewards={**(turns.rewards or {}), "game": reward}
    )


def with_numbers(
    turns: TurnBatch,
    of_turns: Callable[[Floats], Any],
    of_tokens: Callable[[Floats], Any],
) -> TurnBatch:
    """The batch with all float columns changed, of turns and of tokens."""
    columns: dict[str, Any] = {k: of_turns(getattr(turns, k)) for k in FLOAT_COLUMNS}
    columns["rewards"] = {k: of_turns(v) for k, v in (turns.rewards or {}).items()}
    columns["tokens"] = {k: of_tokens(v) for k, v in (turns.tokens or {}).items()}
    return replace(turns, **columns)


Named = str | Estimator
P = ParamSpec("P")
R = TypeVar("R")
Checking = Callable[Concatenate[Named, P], R]


def raises_broken_claim(check: Checking[P, R]) -> Checking[P, R]:
    """Makes every failure of a check a `BrokenPromise` that names estimator and claim.

    The first line of the check's docstring states the claim. It starts with the field of
    `Claims` in backquotes; otherwise it is a rule of all estimators.
    """

    @functools.wraps(check)
    def named(name: Named, /, *args: P.args, **kwargs: P.kwargs) -> R:
        title = str(check.__doc__).partition("\n")[0].removesuffix(".")
        kind = "claim" if title.startswith("`") else "rule"
        broken = f"estimator {name_of(name)!r} breaks a {kind}: {title}"
        try:
            return check(name, *args, **kwargs)
        except BrokenPromise as error:
            raise BrokenPromise(f"{broken}; {error}") from error
        except Exception as error:  # an author's code may raise anything
            what = f"{type(error).__name__}: {error}{place_in(name, error)}"
            raise BrokenPromise(f"{broken}; it raised {what}") from error

    return named


def place_in(name: Named, error: Exception) -> str:
    """The place where the estimator raised, such as " (my_credit.py:12)"; "" if other code did."""
    function = inspect.unwrap(find_estimator(name))
    code = getattr(getattr(function, "func", function), "__code__", None)
    frames = list(traceback.walk_tb(error.__traceback__))
    if code is None or all(frame.f_code is not code for frame, _ in frames):
        return ""
    file = code.co_filename
    lines = [line for frame, line in frames if frame.f_code.co_filename == file]
    return f" ({Path(file).name}:{lines[-1]})"


def check_runs(name: Named, turns: TurnBatch, where: str) -> None:
    """Runs the estimator once, so that a plain bug is not reported as a broken rule.

    Raises:
        BrokenPromise: the estimator raises, or returns something else than a `Credit`.
    """
    try:
        credit_of(name, copied(turns))  # copied: it may write into the batch
    except Exception as error:  # an author's code may raise anything
        place = place_in(name, error)
        if place or isinstance(error, TypeError):
            what = f"{type(error).__name__}: {error}{place}"
            raise BrokenPromise(
                f"estimator {name_of(name)!r} raised {what}, on the batch {where}"
            ) from error


def demand(kept: Any, wanted: object, got: object) -> None:
    """Raises `BrokenPromise` unless `kept`."""
    if not kept:
        raise BrokenPromise(f"want {wanted}, got {got}")


def credit_of(name: Named, turns: TurnBatch, **options: Any) -> Credit:
    """The result of an estimator, without warnings about pools of equal returns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatPoolWarning)
        return estimate(name, turns, **options)


def advantage(name: Named, turns: TurnBatch, **options: Any) -> Floats:
    """float64[num tokens]: advantages per token; those per turn are repeated."""
    got = credit_of(name, turns, **options).advantage
    return got if per_token(name) else np.repeat(got, num_tokens(turns))


def part(turns: TurnBatch, advantages: Floats, rows: Ints) -> Floats:
    """Advantages of the tokens of some rows."""
    return advantages[tokens_of(turns, rows)]


def same(
    turns: TurnBatch,
    got: Floats,
    want: Floats,
    atol: float = 0.0,
    rows: Ints | None = None,
) -> None:
    """Raises `BrokenPromise` with the largest difference of advantages per token.

    Args:
        turns: the batch.
        got: advantages of the tokens of `rows`.
        want: likewise.
        atol: absolute tolerance, added to a relative one of 1e-7; 0 for exact equality.
        rows: int64, rows of the batch; None for all.
    """
    rows = np.arange(len(turns.reward)) if rows is None else rows
    demand(got.shape == want.shape, f"{want.shape} advantages", got.shape)
    rtol = 1e-7 if atol else 0.0
    off = np.where(np.isclose(got, want, rtol, atol), 0.0, np.abs(got - want))
    if not off.any():
        return
    at = int(off.argmax())
    row = int(np.repeat(rows, num_tokens(turns)[rows])[at])
    where = ", ".join(
        f"{column} {getattr(turns, column)[row]}"
        for column in ("game", "episode", "seat", "turn")
    )
    raise BrokenPromise(
        f"want advantage {want[at]:.10g} in row {row} ({where}), got {got[at]:.10g}"
    )
