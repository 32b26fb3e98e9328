"""What every estimator must keep; each function checks one property on one batch."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from arena_trainers.credit.batch import TurnBatch
from arena_trainers.credit.needs import compares_unselected_only
from arena_trainers.credit.registry import default_options, find_estimator
from arena_trainers.credit.testing.batches import (
    copied,
    num_tokens,
    take,
    with_numbers,
)
from arena_trainers.credit.testing.comparison import (
    BrokenClaim,
    Named,
    advantage,
    credit_of,
    demand,
    part,
    promise,
    same,
)

Check = Callable[[Named, TurnBatch, np.random.Generator], None]


@promise
def check_finite(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """Every turn, or every token, has a finite advantage."""
    advantage(name, copied(turns))  # as nobody knows yet whether it writes


@promise
def check_unwritten(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """Nothing is written into the batch."""
    mine = copied(turns)
    before = _arrays(mine)
    credit_of(name, mine)
    after = _arrays(mine)
    for column, old in before.items():
        for row in np.flatnonzero(after[column] != old)[:1]:
            found = f"want {column}[{row}] = {old[row]}, got {after[column][row]}"
            raise BrokenClaim(found)


def _arrays(turns: TurnBatch) -> dict[str, Any]:
    """Copies of all columns, such as `reward` and `tokens.entropy`."""
    found = {}
    for column, values in vars(turns).items():
        parts = values if isinstance(values, dict) else {"": values}
        for part_of, array in parts.items():
            if isinstance(array, np.ndarray):
                found[f"{column}.{part_of}".rstrip(".")] = array.copy()
    return found


@promise
def check_repeatable(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """Every process computes the same from the same batch."""
    same(turns, advantage(name, copied(turns)), advantage(name, turns))


@promise
def check_row_order(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """Row order carries no meaning."""
    order = rng.permutation(len(turns.reward))
    want = part(turns, advantage(name, turns), order)
    same(turns, advantage(name, take(turns, order)), want, 1e-12, order)


@promise
def check_numbers(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """Of the numbers of episodes and groups, only equality and order have a meaning."""
    episode, group = (
        np.cumsum(rng.integers(1, 9, column.max() + 1))[column]
        for column in (turns.episode, turns.group)
    )
    other = replace(turns, episode=episode, rollout=episode, group=group)
    same(turns, advantage(name, other), advantage(name, turns), 1e-12)


@promise
def check_nothing(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """A batch that is empty or masked has an answer, without pools."""
    nothing = np.zeros(len(turns.reward), bool)
    for empty in (replace(turns, mask=nothing), take(turns, np.flatnonzero(nothing))):
        num_pools = len(credit_of(name, empty).report)
        demand(num_pools == 0, "no pool", num_pools)


@promise
def check_masked_rows(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """Masked rows are never read."""
    mask = rng.integers(2, size=len(turns.reward)).astype(bool)
    live = np.repeat(mask, num_tokens(turns))
    masked = replace(turns, mask=mask)
    hidden = with_numbers(
        masked,
        lambda column: np.where(mask, column, np.nan),
        lambda column: np.where(live, column, np.nan),
    )
    same(turns, advantage(name, hidden), advantage(name, masked))


@promise
def check_masked_trajectories(
    name: Named, turns: TurnBatch, rng: np.random.Generator
) -> None:
    """Masked trajectories are as if they were not there."""
    pairs = np.stack([turns.episode, turns.seat])
    numbers, whose = np.unique(pairs, axis=1, return_inverse=True)
    kept = rng.integers(2, size=numbers.shape[1]).astype(bool)[whose.ravel()]
    rows = np.flatnonzero(kept)
    got = part(turns, advantage(name, replace(turns, mask=kept)), rows)
    same(turns, got, advantage(name, take(turns, rows)), 1e-8, rows)


@promise
def check_segments(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """A trajectory that was cut into segments of one rollout counts once."""
    cut = rng.integers(1, 4)
    tail = turns.turn >= cut
    segments = replace(
        turns,
        rollout=turns.episode,
        episode=turns.episode + (turns.episode.max() + 1) * tail,
        turn=turns.turn - cut * tail,
    )
    same(turns, advantage(name, segments), advantage(name, turns), 1e-8)


@promise
def check_unselected_only(
    name: Named, turns: TurnBatch, rng: np.random.Generator
) -> None:
    """If `unselected_only` is declared, turns that were selected by their return get 0 and change no others.

    Other labels of theirs must change nothing; nor may they be missed where they are the
    first of a trajectory, so that no return-to-go of an unselected turn has what they are paid.
    """
    if not compares_unselected_only(find_estimator(name)):
        return
    size = len(turns.reward)
    unselected = rng.integers(2, size=size).astype(bool)
    rows = np.flatnonzero(unselected)
    some = replace(turns, unselected=unselected)
    want = part(turns, advantage(name, some), rows)
    labels: dict[str, Any] = {
        column: np.where(unselected, getattr(turns, column), rng.integers(2, size=size))
        for column in ("state_key", "action")
        if getattr(turns, column) is not None
    }
    seen = np.cumsum(unselected)
    starts = turns.turn == 0
    before = (seen - unselected)[starts][np.cumsum(starts) - 1]
    for other in (replace(some, **labels), replace(some, mask=seen > before)):
        same(turns, part(turns, advantage(name, other), rows), want, 1e-8, rows)


@promise
def check_state(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """A state goes through a checkpoint as JSON, and is not written into."""
    state = credit_of(name, turns).state
    if state is None:
        return
    text = json.dumps(state)
    want = advantage(name, turns, state=state)
    demand(json.dumps(state) == text, text, json.dumps(state))
    same(turns, advantage(name, turns, state=json.loads(text)), want)


@promise
def check_options(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """Options of another type, such as the text "1e-6", are refused by a ValueError."""
    for option, default in default_options(name).items():
        wrong: list[Any] = ["1e-6", {}, ("nope",)]
        for value in [1, "no"] if isinstance(default, bool) else wrong:
            _refused(name, turns, option, value)


@promise
def check_discount(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """A discount that is not between 0 and 1 is refused by a ValueError."""
    if "discount" in default_options(name):
        for value in (-0.5, 1.5, np.nan):
            _refused(name, turns, "discount", value)


def _refused(name: Named, turns: TurnBatch, option: str, value: Any) -> None:
    told = str(value[0] if isinstance(value, tuple) else value)
    wanted = f"a ValueError that tells {option}={value!r}"
    try:
        credit_of(name, turns, **{option: value})
    except ValueError as error:
        demand(told in str(error), wanted, f"{str(error)!r}")
    except Exception as error:
        raise BrokenClaim(f"want {wanted}, got {type(error).__name__}") from error
    else:
        raise BrokenClaim(f"want {wanted}, got none")


CHECKS: tuple[Check, ...] = (
    check_finite,
    check_unwritten,
    check_repeatable,
    check_row_order,
    check_numbers,
    check_nothing,
    check_masked_rows,
    check_masked_trajectories,
    check_segments,
    check_unselected_only,
    check_state,
    check_options,
    check_discount,
)
