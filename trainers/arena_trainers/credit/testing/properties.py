"""The rules of all estimators; each function checks one rule on one batch."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from arena_envs.doors import BrokenPromise
from arena_trainers.credit.batch import TurnBatch
from arena_trainers.credit.by_name import default_options, find_estimator
from arena_trainers.credit.needs import needs_of
from arena_trainers.credit.testing.batches import (
    copied,
    num_tokens,
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

Check = Callable[[Named, TurnBatch, np.random.Generator], None]


@raises_broken_claim
def check_finite(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """Every turn, or every token, has a finite advantage."""
    advantage(name, copied(turns))  # copied: it may write into the batch


@raises_broken_claim
def check_unwritten(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """The batch is not changed."""
    mine = copied(turns)
    before = _arrays(mine)
    credit_of(name, mine)
    after = _arrays(mine)
    for column, old in before.items():
        for row in np.flatnonzero(after[column] != old)[:1]:
            found = f"want {column}[{row}] = {old[row]}, got {after[column][row]}"
            raise BrokenPromise(found)


def _arrays(turns: TurnBatch) -> dict[str, Any]:
    """Copies of all columns, such as `reward` and `tokens.entropy`."""
    found = {}
    for column, values in vars(turns).items():
        parts = values if isinstance(values, dict) else {"": values}
        for part_of, array in parts.items():
            if isinstance(array, np.ndarray):
                found[f"{column}.{part_of}".rstrip(".")] = array.copy()
    return found


@raises_broken_claim
def check_repeatable(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """Equal batches give equal advantages."""
    same(turns, advantage(name, copied(turns)), advantage(name, turns))


@raises_broken_claim
def check_row_order(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """Another order of the rows gives the same advantages."""
    order = rng.permutation(len(turns.reward))
    want = part(turns, advantage(name, turns), order)
    same(turns, advantage(name, take(turns, order)), want, 1e-12, order)


@raises_broken_claim
def check_numbers(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """Other numbers of episodes and groups, in the same order, change nothing."""
    episode, group = (
        np.cumsum(rng.integers(1, 9, column.max() + 1))[column]
        for column in (turns.episode, turns.group)
    )
    other = replace(turns, episode=episode, rollout=episode, group=group)
    same(turns, advantage(name, other), advantage(name, turns), 1e-12)


@raises_broken_claim
def check_nothing(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """A batch that is empty or all masked gives a Credit without pools."""
    nothing = np.zeros(len(turns.reward), bool)
    for empty in (replace(turns, mask=nothing), take(turns, np.flatnonzero(nothing))):
        num_pools = len(credit_of(name, empty).report)
        demand(num_pools == 0, "no pools in the report", num_pools)


@raises_broken_claim
def check_masked_rows(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """NaN in masked rows changes nothing."""
    mask = rng.integers(2, size=len(turns.reward)).astype(bool)
    live = np.repeat(mask, num_tokens(turns))
    masked = replace(turns, mask=mask)
    hidden = with_numbers(
        masked,
        lambda column: np.where(mask, column, np.nan),
        lambda column: np.where(live, column, np.nan),
    )
    same(turns, advantage(name, hidden), advantage(name, masked))


@raises_broken_claim
def check_masked_trajectories(
    name: Named, turns: TurnBatch, rng: np.random.Generator
) -> None:
    """To mask a trajectory is the same as to leave it out."""
    pairs = np.stack([turns.episode, turns.seat])
    numbers, whose = np.unique(pairs, axis=1, return_inverse=True)
    kept = rng.integers(2, size=numbers.shape[1]).astype(bool)[whose.ravel()]
    rows = np.flatnonzero(kept)
    got = part(turns, advantage(name, replace(turns, mask=kept)), rows)
    same(turns, got, advantage(name, take(turns, rows)), 1e-8, rows)


@raises_broken_claim
def check_segments(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """Cutting a trajectory into segments of one rollout changes nothing."""
    cut = rng.integers(1, 4)
    tail = turns.turn >= cut
    segments = replace(
        turns,
        rollout=turns.episode,
        episode=turns.episode + (turns.episode.max() + 1) * tail,
        turn=turns.turn - cut * tail,
    )
    same(turns, advantage(name, segments), advantage(name, turns), 1e-8)


@raises_broken_claim
def check_unselected_only(
    name: Named, turns: TurnBatch, rng: np.random.Generator
) -> None:
    """With unselected_only, turns selected by their return get 0 and affect no others.

    Two changes of selected turns must leave the advantages of the others as they are: other
    values of `state_key` and `action`; and a mask on those before a trajectory's first
    unselected turn, whose returns-to-go do not depend on them.
    """
    if not needs_of(find_estimator(name)).unselected_only:
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


@raises_broken_claim
def check_state(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """The state can be saved as JSON, and the estimator does not change it."""
    state = credit_of(name, turns).state
    if state is None:
        return
    text = json.dumps(state)
    want = advantage(name, turns, state=state)
    demand(json.dumps(state) == text, text, json.dumps(state))
    same(turns, advantage(name, turns, state=json.loads(text)), want)


@raises_broken_claim
def check_options(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """An option of a wrong type, such as the text "1e-6", raises a ValueError."""
    for option, default in default_options(name).items():
        wrong: list[Any] = ["1e-6", {}, ("nope",)]
        for value in [1, "no"] if isinstance(default, bool) else wrong:
            _refused(name, turns, option, value)


@raises_broken_claim
def check_discount(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """A discount outside 0 to 1 raises a ValueError."""
    if "discount" in default_options(name):
        for value in (-0.5, 1.5, np.nan):
            _refused(name, turns, "discount", value)


def _refused(name: Named, turns: TurnBatch, option: str, value: Any) -> None:
    shown = str(value[0] if isinstance(value, tuple) else value)
    wanted = f"a ValueError that shows {option}={value!r}"
    try:
        credit_of(name, turns, **{option: value})
    except ValueError as error:
        demand(shown in str(error), wanted, f"{str(error)!r}")
    except Exception as error:
        raise BrokenPromise(f"want {wanted}, got {type(error).__name__}") from error
    else:
        raise BrokenPromise(f"want {wanted}, got no error")


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
