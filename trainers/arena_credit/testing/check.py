"""`check_estimator`: the rules of all estimators, then the claims, then the bias.

A function checks one rule, or one field of `Claims`, on one batch. Batches have all columns;
changed batches must change the advantages as the rule says, else `BrokenPromise` is raised.
"""

import functools
import inspect
import json
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np

from arena_credit.batch import FLOAT_COLUMNS, Bools, Floats, Ints, TurnBatch
from arena_credit.by_name import (
    Estimator,
    claims_of,
    default_options,
    estimate,
    find_estimator,
    name_of,
    needed_columns,
    per_token,
)
from arena_credit.claims import BIAS_KINDS, BIASES, Claims
from arena_credit.needs import needs_of
from arena_credit.pools import Credit, FlatPoolWarning
from arena_credit.proofs.diagnostics import DIAGNOSTICS
from arena_credit.proofs.findings import (
    Finding,
    examine,
    found_claims,
    noises,
    undefined,
)
from arena_credit.trajectories import (
    returns_to_go,
    sizes_to_go,
    trajectories,
)
from arena_envs.registry import BrokenPromise

Numbers = Sequence[float] | Floats
TrajectorySpec = tuple[int, int, int, Numbers]  # episode, game, seat, rewards
Drawn = tuple[int, Mapping[int, Numbers]]  # game, rewards of each seat


def batch_of(*trajectories: TrajectorySpec, **columns: Any) -> TurnBatch:
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


def full_batch(episodes: Iterable[Drawn], needed: Iterable[str] = ()) -> TurnBatch:
    """A batch with all columns, made of the rewards.

    Tokens, states and values differ from turn to turn. All turns are unselected. Every
    episode is one rollout. A game has two groups.

    Args:
        episodes: (game, rewards by seat) of every episode.
        needed: columns that an estimator needs. Unknown parts of the reward and unknown
            token columns among them are filled with numbers.
    """
    rows = [
        (episode, game, seat, rewards)
        for episode, (game, seats) in enumerate(episodes)
        for seat, rewards in seats.items()
    ]
    n: Any = np.arange(sum(len(rewards) for *_, rewards in rows))
    num = 1 + n % 3
    t: Any = np.arange(num.sum())
    turns = batch_of(*rows, num_tokens=num)
    last = last_turns(turns)
    cut = last & (n % 2 == 0)
    columns = [name.partition(".") for name in needed]
    parts = {
        part: n * 0.625 % 2 - 0.5 for kind, _, part in columns if kind == "rewards"
    }
    tokens = {part: t * 0.625 % 2 for kind, _, part in columns if kind == "tokens"}
    token_columns = {
        "entropy": t * 0.375 % 2,
        "value": (t + 1) * 0.25 % 3,
        "logprob": -(t % 2),
    }
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
        tokens={**tokens, **token_columns},
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
    rewards = {int(s): rng.integers(-8, 9, rng.integers(1, 5)) / 4 for s in seats}
    return int(rng.integers(2)), rewards


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
            cause = f"{type(error).__name__}: {error}{place_in(name, error)}"
            raise BrokenPromise(f"{broken}; it raised {cause}") from error

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
            cause = f"{type(error).__name__}: {error}{place}"
            raise BrokenPromise(
                f"estimator {name_of(name)!r} raised {cause}, on the batch {where}"
            ) from error


def demand(holds: Any, expected: object, got: object) -> None:
    """Raises `BrokenPromise` unless `holds`."""
    if not holds:
        raise BrokenPromise(f"want {expected}, got {got}")


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


def demand_same(
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
            message = f"want {column}[{row}] = {old[row]}, got {after[column][row]}"
            raise BrokenPromise(message)


def _arrays(turns: TurnBatch) -> dict[str, Any]:
    """Copies of all columns, such as `reward` and `tokens.entropy`."""
    copies = {}
    for column, values in vars(turns).items():
        parts = values if isinstance(values, dict) else {"": values}
        for part_of, array in parts.items():
            if isinstance(array, np.ndarray):
                copies[f"{column}.{part_of}".rstrip(".")] = array.copy()
    return copies


@raises_broken_claim
def check_repeatable(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """Equal batches give equal advantages."""
    demand_same(turns, advantage(name, copied(turns)), advantage(name, turns))


@raises_broken_claim
def check_row_order(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """Another order of the rows gives the same advantages."""
    order = rng.permutation(len(turns.reward))
    want = part(turns, advantage(name, turns), order)
    demand_same(turns, advantage(name, take(turns, order)), want, 1e-12, order)


@raises_broken_claim
def check_numbers(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """Other numbers of episodes and groups, in the same order, change nothing."""
    episode, group = (
        np.cumsum(rng.integers(1, 9, column.max() + 1))[column]
        for column in (turns.episode, turns.group)
    )
    renumbered = replace(turns, episode=episode, rollout=episode, group=group)
    demand_same(turns, advantage(name, renumbered), advantage(name, turns), 1e-12)


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
    demand_same(turns, advantage(name, hidden), advantage(name, masked))


@raises_broken_claim
def check_masked_trajectories(
    name: Named, turns: TurnBatch, rng: np.random.Generator
) -> None:
    """Masking a trajectory is the same as leaving it out."""
    pairs = np.stack([turns.episode, turns.seat])
    numbers, whose = np.unique(pairs, axis=1, return_inverse=True)
    mask = rng.integers(2, size=numbers.shape[1]).astype(bool)[whose.ravel()]
    rows = np.flatnonzero(mask)
    got = part(turns, advantage(name, replace(turns, mask=mask)), rows)
    demand_same(turns, got, advantage(name, take(turns, rows)), 1e-8, rows)


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
    demand_same(turns, advantage(name, segments), advantage(name, turns), 1e-8)


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
    num_unselected = np.cumsum(unselected)
    starts = turns.turn == 0
    before = (num_unselected - unselected)[starts][np.cumsum(starts) - 1]
    for changed in (
        replace(some, **labels),
        replace(some, mask=num_unselected > before),
    ):
        demand_same(
            turns, part(turns, advantage(name, changed), rows), want, 1e-8, rows
        )


@raises_broken_claim
def check_state(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """The state can be saved as JSON, and the estimator does not change it."""
    state = credit_of(name, turns).state
    if state is None:
        return
    text = json.dumps(state)
    want = advantage(name, turns, state=state)
    demand(json.dumps(state) == text, text, json.dumps(state))
    demand_same(turns, advantage(name, turns, state=json.loads(text)), want)


@raises_broken_claim
def check_option_types(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """An option of a wrong type, such as the text "1e-6", raises a ValueError."""
    for option, default in default_options(name).items():
        wrong: list[Any] = ["1e-6", {}, ("nope",)]
        for value in [1, "no"] if isinstance(default, bool) else wrong:
            _refused(name, turns, option, value)


def _refused(name: Named, turns: TurnBatch, option: str, value: Any) -> None:
    value_text = str(value[0] if isinstance(value, tuple) else value)
    expected = f"a ValueError that shows {option}={value!r}"
    try:
        credit_of(name, turns, **{option: value})
    except ValueError as error:
        demand(value_text in str(error), expected, f"{str(error)!r}")
    except Exception as error:
        raise BrokenPromise(f"want {expected}, got {type(error).__name__}") from error
    else:
        raise BrokenPromise(f"want {expected}, got no error")


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
    check_option_types,
)


@raises_broken_claim
def check_labels(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """`labels`: a permutation of the seat numbers changes nothing."""
    labels = rng.permutation(int(turns.seat.max()) + 2)
    renamed = replace(turns, seat=labels[turns.seat])
    demand_same(turns, advantage(name, renamed), advantage(name, turns), 1e-8)


@raises_broken_claim
def check_continuous(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """`continuous`: inputs rounded to float32 give nearly the same advantages.

    The tolerance is 1e-6 times the largest sum of absolute rewards, divided by the smallest
    difference of returns-to-go, as an estimator may divide by it; see `Claims`.
    """
    uneven = with_numbers(turns, _thirds, _thirds)  # no float32 holds them exactly
    uneven = paid(uneven, _decimals(turns, rng))
    as_float32: Any = partial(np.asarray, dtype=np.float32)
    rounded = with_numbers(uneven, as_float32, as_float32)
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
    demand_same(turns, advantage(name, rounded), advantage(name, uneven), atol)


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


def held_apart(column: str) -> Check:
    """The check that other games, groups or seats of the batch change nothing."""

    def check(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
        values = getattr(turns, column)
        same_column: Bools = values == rng.choice(values)
        rows = np.flatnonzero(same_column)
        want = part(turns, advantage(name, turns), rows)
        scaled = np.where(same_column, turns.reward, rng.integers(-3, 4) * turns.reward)
        got = part(turns, advantage(name, paid(turns, scaled)), rows)
        demand_same(turns, got, want, 1e-12, rows)
        demand_same(turns, advantage(name, take(turns, rows)), want, 1e-8, rows)

    check.__doc__ = f"`{column}s_apart`: other {column}s of the batch change nothing."
    return raises_broken_claim(check)


@raises_broken_claim
def check_tokens(name: Named, turns: TurnBatch, rng: np.random.Generator) -> None:
    """`tokens`: the number of tokens of a turn changes nothing."""
    turns = replace(turns, tokens=None)
    alike = replace(turns, num_tokens=np.ones(len(turns.reward), int))
    got, want = credit_of(name, turns).advantage, credit_of(name, alike).advantage
    demand_same(alike, got, want)


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
    demand_same(turns, advantage(name, more), advantage(name, turns), 1e-8)


def summed_to_zero(field: str, whose: str, is_counted: Callable[[Any], Any]) -> Any:
    """The check that advantages sum to 0 over each pool: of turns, or of trajectories."""

    def check(
        name: Named, turns: TurnBatch, rng: np.random.Generator, columns: Sequence[str]
    ) -> None:
        got, counted = credit_of(name, turns).advantage, is_counted(turns.turn)
        demand(got.shape == turns.reward.shape, "an advantage per turn", got.shape)
        keys = np.stack([getattr(turns, column)[counted] for column in columns])
        pools, of = np.unique(keys, axis=1, return_inverse=True)
        total = np.bincount(of.ravel(), got[counted])
        worst = int(np.abs(total).argmax())
        pool = dict(zip(columns, pools[:, worst].tolist(), strict=True))
        demand(abs(total[worst]) <= 1e-8, f"a sum of 0 over {pool}", total[worst])

    check.__doc__ = f"`{field}`: the advantages of all {whose} of a pool sum to 0."
    return raises_broken_claim(check)


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
        messages = [str(w.message) for w in caught]
        demand(len(flat) == len(caught) == 1, "one FlatPoolWarning", messages)


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
    numbers = {name: np.arange(num + 2) for name in ("episode", "rollout")}
    none = {name: np.zeros(num + 2, int) for name in ("seat", "turn")}
    alone = take(turns, rows, game=game, group=game, **numbers, **none)
    return paid(alone, np.append(np.full(num, reward), [1.0, 3.0]))


@raises_broken_claim
def check_bias(name: Named, claims: Claims) -> Mapping[str, Finding]:
    """`bias_two`, `bias_infinite`, `bias_shared_chance`, `bootstraps`: the measured bias.

    Returns:
        The findings by diagnostic game.
    """
    findings = {game: examine(name, game) for game in DIAGNOSTICS}
    for game, finding in findings.items():
        limited = DIAGNOSTICS[game].max_turns is not None
        if limited and not claims.bootstraps:
            continue
        for field in BIASES:
            worst = BIAS_KINDS.index(getattr(claims, field))
            if limited and field == "bias_infinite":  # what `bootstraps` claims
                worst = min(worst, BIAS_KINDS.index("direction"))
            kind, cosine, factor = getattr(finding, field)
            expected = f"{field} {BIAS_KINDS[worst]!r} or better on the game {game!r}"
            got = f"{kind!r} (cosine {cosine:.3f}, factor {factor:.3f})"
            advice = "fix the estimator or claim less"
            demand(BIAS_KINDS.index(kind) <= worst, expected, f"{got}; {advice}")
    return findings


FLAGS: Mapping[str, Check] = {
    "labels": check_labels,
    "continuous": check_continuous,
    **{f"{column}s_apart": held_apart(column) for column in ("game", "group", "seat")},
    "tokens": check_tokens,
    "shift": check_shift,
}
SINGLETON_POOL: Mapping[str, Check] = {
    "zero": check_singleton_zero,
    "return": check_singleton_return,
}
SUMS: Mapping[str, Callable[..., None]] = {
    "zero_mean": summed_to_zero("zero_mean", "turns", lambda turn: turn >= 0),
    "zero_sum": summed_to_zero("zero_sum", "trajectories", lambda turn: turn == 0),
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


class EstimatorFindings(NamedTuple):
    """Findings about an estimator that keeps all rules and its claims.

    name: of the estimator.
    claimed: its claims.
    found: the strongest claims that held. The bias is `claimed`'s if it was not measured.
    findings: the bias by diagnostic game. Empty if the estimator needs a column that these
        games do not have.
    num_batches: number of batches that were tried.
    noises: variance by game, relative to `rloo`; empty if it was not asked for.
    """

    name: str
    claimed: Claims
    found: Claims
    findings: Mapping[str, Finding]
    num_batches: int
    noises: Mapping[str, float]


def check_estimator(
    name: Named,
    claims: Claims | None = None,
    *,
    batches: Sequence[TurnBatch] | None = None,
    num_batches: int = 40,
    seed: int = 0,
    variance: bool = False,
) -> EstimatorFindings:
    """Checks the rules of all estimators and the claims of this one.

    Args:
        name: of the estimator, or the function itself.
        claims: to check; None for the claims that it declares.
        batches: to try instead of random ones. Supply them if the estimator refuses random
            columns: take `random_batches`, and add columns of your own, such as labels. A
            check may drop, repeat and reorder rows, change `reward` and its part `game`, and
            change any column with a fractional number.
        num_batches: number of random batches.
        seed: of the random batches.
        variance: whether to enumerate the variance, too, and to check the claim `noise`. It
            takes seconds.

    Returns:
        What held on these batches. You may declare it with `claims`.

    Raises:
        BrokenPromise: names the estimator and the first rule or claim that it breaks, with
            numbers; or the exception that it raised, with the line.
        ValueError: the name is unknown, `num_batches` is no integer above 0, or `batches` is
            empty.
        ImportError: the estimator's plug-in cannot be imported.

    >>> evidence = check_estimator("mars", num_batches=5)
    >>> evidence.found.zero_mean, evidence.findings["toll"].bias_two.kind
    (('game', 'seat'), 'reversed')
    """
    if type(num_batches) is not int or num_batches < 1:
        raise ValueError(f"want an integer num_batches above 0, got {num_batches!r}")
    claims = claims_of(name) if claims is None else claims
    where = "batches"
    if batches is None:
        batches = random_batches(num_batches, seed, needed_columns(name))
        where = f"random_batches({num_batches}, {seed})"
    elif len(batches) == 0:
        raise ValueError(
            "want at least one batch, got none; leave out `batches` for random ones"
        )
    claimed = checks_of(claims)
    check_runs(name, batches[0], f"{where}[0]")
    for check in (*CHECKS, *claimed.values()):
        _hold(check, name, batches, where)
    held: dict[str, Any] = {}
    for field in TRIED.keys() - claimed.keys():
        for value in reversed(TRIED[field]):  # so the first that holds is kept
            with suppress(BrokenPromise):
                _hold(check_of(field, value), name, batches, "batches")
                held[field] = value
    measured = replace(claims, **held)
    if undefined(name):
        return EstimatorFindings(name_of(name), claims, measured, {}, len(batches), {})
    findings = check_bias(name, claims)
    bias = found_claims(findings)
    kinds = {field: getattr(bias, field) for field in (*BIASES, "bootstraps")}
    noise = check_noise(name, claims) if variance else {}
    worst = max(noise.values(), default=claims.noise)
    measured = replace(measured, **kinds, noise=worst)
    return EstimatorFindings(
        name_of(name), claims, measured, findings, len(batches), noise
    )


def check_noise(name: Named, claims: Claims) -> dict[str, float]:
    """The variance in each diagnostic game, relative to `rloo`, as claimed or less."""
    noise_by_game = noises(name)
    for game, noise in noise_by_game.items():
        if noise > claims.noise * (1 + 1e-9):
            raise BrokenPromise(
                f"{name_of(name)} claims a noise of at most {claims.noise:g} times that of "
                f"leave-one-out, got {noise:.3f} in {game}; fix the estimator or claim more noise"
            )
    return noise_by_game


def _hold(check: Check, name: Named, batches: Sequence[TurnBatch], where: str) -> None:
    for index, turns in enumerate(batches):
        try:
            check(name, turns, np.random.default_rng(index))
        except BrokenPromise as error:
            advice = "" if check in CHECKS else " or drop the claim"
            raise BrokenPromise(
                f"{error}, on the batch {where}[{index}]; fix the estimator{advice}"
            ) from error
