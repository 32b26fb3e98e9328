"""Runs an estimator and compares its advantages; a failure is a `BrokenPromise`."""

import functools
import inspect
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from arena_envs.doors import BrokenPromise
from arena_trainers.credit.batch import Floats, Ints, TurnBatch
from arena_trainers.credit.by_name import (
    Estimator,
    estimate,
    find_estimator,
    name_of,
    per_token,
)
from arena_trainers.credit.pools import Credit
from arena_trainers.credit.results import FlatPoolWarning
from arena_trainers.credit.testing.batches import copied, num_tokens, tokens_of

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
    """Where the estimator raised, such as " (my_credit.py:12)"; "" if other code did."""
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
