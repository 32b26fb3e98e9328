"""What checks are made of: estimators without warnings, comparisons, and `BrokenClaim`."""

import functools
import inspect
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from arena_trainers.credit.batch import Floats, Ints, TurnBatch
from arena_trainers.credit.pools import Credit
from arena_trainers.credit.registry import (
    Estimator,
    estimate,
    find_estimator,
    name_of,
    per_token,
)
from arena_trainers.credit.results import FlatPoolWarning
from arena_trainers.credit.testing.batches import copied, num_tokens, tokens_of

Named = str | Estimator
P = ParamSpec("P")
R = TypeVar("R")
Promised = Callable[Concatenate[Named, P], R]


class BrokenClaim(AssertionError):
    """A promise that an estimator breaks; the message is one sentence."""


def promise(check: Promised[P, R]) -> Promised[P, R]:
    """Makes every failure of a check a `BrokenClaim` that names estimator and promise.

    The first line of the check's docstring is the promise.
    """

    @functools.wraps(check)
    def named(name: Named, /, *args: P.args, **kwargs: P.kwargs) -> R:
        title = str(check.__doc__).partition("\n")[0].removesuffix(".")
        broken = f"estimator {name_of(name)!r} breaks a promise: {title}"
        try:
            return check(name, *args, **kwargs)
        except BrokenClaim as error:
            raise BrokenClaim(f"{broken}; {error}") from error
        except Exception as error:  # of a stranger's code, which may raise anything
            what = f"{type(error).__name__}: {error}{place_in(name, error)}"
            raise BrokenClaim(f"{broken}; it raised {what}") from error

    return named


def place_in(name: Named, error: Exception) -> str:
    """Where the estimator raised, such as `" (my_credit.py:12)"`; "" if others did."""
    function = inspect.unwrap(find_estimator(name))
    code = getattr(getattr(function, "func", function), "__code__", None)
    frames = list(traceback.walk_tb(error.__traceback__))
    if code is None or all(frame.f_code is not code for frame, _ in frames):
        return ""
    file = code.co_filename
    lines = [line for frame, line in frames if frame.f_code.co_filename == file]
    return f" ({Path(file).name}:{lines[-1]})"


def check_runs(name: Named, turns: TurnBatch, where: str) -> None:
    """The estimator gives `Credit` at all: no promise is to blame for what it raises.

    Raises:
        BrokenClaim: it raises an exception by itself, or returns something else.
    """
    try:
        credit_of(name, copied(turns))  # what writes into a batch is told later
    except Exception as error:  # of a stranger's code, which may raise anything
        place = place_in(name, error)
        if place or isinstance(error, TypeError):
            what = f"{type(error).__name__}: {error}{place}"
            raise BrokenClaim(
                f"estimator {name_of(name)!r} raised {what}, of {where}"
            ) from error


def demand(kept: Any, wanted: object, got: object) -> None:
    """Raises `BrokenClaim` unless something is kept."""
    if not kept:
        raise BrokenClaim(f"want {wanted}, got {got}")


def credit_of(name: Named, turns: TurnBatch, **options: Any) -> Credit:
    """What an estimator returns, without its warnings of flat pools."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatPoolWarning)
        return estimate(name, turns, **options)


def advantage(name: Named, turns: TurnBatch, **options: Any) -> Floats:
    """Advantages per token, whether the estimator gives one per turn or per token."""
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
    """Raises `BrokenClaim` with the largest difference of advantages per token.

    Args:
        turns: the batch that the rows are of.
        got: advantages of the tokens of the rows.
        want: likewise.
        atol: what is forgiven, beside 1e-7 of the size; 0 forgives nothing.
        rows: all, if None.
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
    raise BrokenClaim(
        f"want {want[at]:.10g} in row {row} ({where}), got {got[at]:.10g}"
    )
