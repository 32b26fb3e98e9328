"""Checks of an estimator before training: its columns, options, parts of the reward, bounds.

This module imports neither TRL nor torch.
"""

import random
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from arena_envs.checks import did_you_mean
from arena_envs.game import AnyGame, random_states
from arena_trainers import credit
from arena_trainers.credit.batch import INT_COLUMNS
from arena_trainers.credit.by_name import estimators_with, find_estimator
from arena_trainers.credit.needs import Needs, keeps_state, needs_of
from arena_trainers.train.engines import check_engine_columns
from arena_trainers.train.records import (
    PARTS,
    SUPPLIED,
    Supplier,
    TurnRecord,
    check_functions,
    part_of,
    turn_batch,
)

if TYPE_CHECKING:
    from arena_trainers.train.config import TurnGRPOConfig


def part_weights(
    args: "TurnGRPOConfig", functions: Collection[str]
) -> dict[str, float]:
    """Weights of the parts of the reward, by name.

    These are the parts in `part_weights`, and those that column functions supply. A supplied
    part has weight 0 unless `part_weights` sets it.
    """
    given = [part for name in functions if (part := part_of(name))]
    return {**dict.fromkeys(given, 0.0), **args.part_weights}


def check_part_weights(args: "TurnGRPOConfig", functions: Collection[str]) -> None:
    """Checks the names and weights of `part_weights`.

    Raises:
        ValueError: a weight for an unknown part, or weight 0 for the part that the
            estimator needs as a reward (`paid_part` of its `needs`).
    """
    known = [*PARTS, *(part for name in functions if (part := part_of(name)))]
    for name in args.part_weights:
        if name not in known:
            raise ValueError(
                f"part_weights names {name!r}, which is not a reward part; "
                f"{did_you_mean(str(name), known)}"
            )
    option = needs_of(find_estimator(args.credit)).paid_part
    if option is None:
        return
    part = {**credit.default_options(args.credit), **args.credit_args}[option]
    if part_weights(args, functions).get(part, 1.0) == 0:
        raise ValueError(
            f"credit {args.credit!r} needs as {option} a reward part with a weight other "
            f"than 0, got {part!r} with weight 0; set part_weights to {{{part!r}: 1.0}}"
        )


NUM_GAMES = 100  # random games that are played to see whether seats are paid early
SLACK = 1e-9  # rounding of a sum of rewards


def return_bounds(
    game: AnyGame, args: "TurnGRPOConfig", weights: Mapping[str, float]
) -> tuple[float, float]:
    """Bounds of the weighted return of a trajectory, forfeits and penalties included.

    Args:
        game: the rules.
        args: settings; `penalty`, `on_invalid` and `max_retries` set the cost of invalid
            replies.
        weights: weights of the reward parts; 1 where none is given.
    """
    found = part_bounds(game, args)
    ends = [_times(found[part], weights.get(part, 1.0)) for part in PARTS]
    return sum(low for low, _ in ends), sum(high for _, high in ends)


def part_bounds(
    game: AnyGame, args: "TurnGRPOConfig"
) -> dict[str, tuple[float, float]]:
    """Bounds of each part of a trajectory's return, without weights.

    The game's part lies between `min_return` and `max_return` of the game. These bounds are
    widened if a seat is paid before its first turn: a trajectory begins with this turn, so
    it lacks the early payment, and the seat may lose it again later.
    """
    low, high = game.min_return, game.max_return
    limited = [s for s in args.games if isinstance(s, dict) and s.get("max_turns")]
    if limited or args.curriculum is not None:
        low, high = (
            min(low, 0.0),
            max(high, 0.0),
        )  # an episode may be cut before any payment
    if pays_early(game):
        low, high = low - max(high, 0.0), high - min(low, 0.0)
    invalid = {
        "forfeit": 1,
        "retry": args.max_retries * game.max_turns + 1,
        "random": game.max_turns,
    }[args.on_invalid]
    return {"game": (low, high), "format": (-args.penalty * invalid, 0.0)}


def _times(ends: tuple[float, float], weight: float) -> tuple[float, float]:
    low, high = sorted(weight * end + 0.0 for end in ends)  # no -0
    return low, high


def pays_early(game: AnyGame) -> bool:
    """Whether random play finds an episode that pays a seat before its first turn."""
    rng = random.Random(0)
    for _ in range(NUM_GAMES):
        moved = set[int]()
        for state, player in random_states(game, rng):
            if moved.issuperset(range(game.num_players)):
                break
            paid = game.returns(state)
            if any(paid[seat] for seat in range(len(paid)) if seat not in moved):
                return True
            moved.add(player)
    return False


def check_bounds(
    args: "TurnGRPOConfig", games: Sequence[AnyGame], weights: Mapping[str, float]
) -> None:
    """Raises if a return can lie outside of the bounds that the estimator's options set.

    Which options these are is declared by the estimator (`return_bounds` of `needs`). A
    bound may be a number, or a mapping from parts of the reward to numbers.

    Raises:
        ValueError: names the bound and the value that it needs.
    """
    options = {**credit.default_options(args.credit), **args.credit_args}
    names = needs_of(find_estimator(args.credit)).return_bounds or ()
    for side, name in enumerate(names):
        given = options[name]
        by_part = given if isinstance(given, Mapping) else {None: given}
        for part, bound in by_part.items():
            if not isinstance(bound, Real):
                continue  # the estimator checks it
            what = name if part is None else f"{name}[{part!r}]"
            _check_known(args, weights, what, part)
            for game in games:
                end = _ends(game, args, weights, part)[side]
                beyond = float(bound) - end if side == 0 else end - float(bound)
                if beyond > SLACK:
                    raise ValueError(
                        f"want a {what} of {end:g} or {('less', 'more')[side]}, got "
                        f"{bound!r}: {type(game).__name__} can pay {end:g}, with penalties "
                        "and part_weights"
                    )


def _check_known(
    args: "TurnGRPOConfig", weights: Mapping[str, float], what: str, part: str | None
) -> None:
    """Raises if a bound is set for a part of the reward without known bounds."""
    counted = [part] if part is not None else [p for p in weights if weights[p]]
    others = [other for other in counted if other not in PARTS]
    if others:
        raise ValueError(
            f"credit {args.credit!r} cannot check {what}: the bounds of the reward part "
            f"{others[0]!r} are not known; leave {what} out"
        )


def _ends(
    game: AnyGame,
    args: "TurnGRPOConfig",
    weights: Mapping[str, float],
    part: str | None,
) -> tuple[float, float]:
    """Bounds of a part of the reward, or of the whole return if it is None."""
    if part is None:
        return return_bounds(game, args, weights)
    weight = weights.get(part, 1.0) or 1.0  # a part of weight 0 is read without weight
    return _times(part_bounds(game, args)[part], weight)


ALWAYS = (
    *("game", "episode", "seat", "turn", "group", "team"),
    *("terminated", "truncated"),
)
COUNTS = ("num_tokens", "row_length")
ON_DEMAND = ("state_key", "action", "opponent", "tokens.entropy", "tokens.logprob")
PROVIDED = (
    *ALWAYS,
    *COUNTS,
    *(f"rewards.{part}" for part in PARTS),
    *ON_DEMAND,
)
OF_CRITIC = {
    "features": ("value", "next_value"),
    "exact": ("value", "next_value", "action_value"),
}
BRANCH_COLUMNS = ("parent", "branch", "unselected")
PER_BATCH_IDS = (
    *("group", "episode", "rollout", "parent"),
    *("state_key", "action", "opponent"),
)  # the same number means something else in the next batch
FUNCTION = "set columns={'NAME': 'my_module:my_function'}"
CRITICS = "set critic='features', or 'exact' for games that can be enumerated"
ABSENT = {
    "value": f"{CRITICS}, or {FUNCTION}",
    "next_value": CRITICS,
    "action_value": "set critic='exact', for games that can be enumerated, or "
    + FUNCTION,
    "tokens.value": "no critic gives values of tokens; choose another option",
    "parent": "episodes do not branch; set branch",
    "branch": "episodes do not branch; set branch",
    "unselected": "episodes do not branch; set branch",
    "stratum": f"games define no strata; {FUNCTION}",
    "rollout": "trajectories are not cut into segments; choose another column",
}


def check_credit_columns(
    args: "TurnGRPOConfig", functions: Collection[str] = ()
) -> tuple[str, ...]:
    """The columns that the estimator reads.

    These are the columns that it declares with `needs` and the columns that its options
    name, such as `pool` or, for token columns, `metric`.

    Args:
        args: settings.
        functions: names of the columns that the user's functions give.

    Raises:
        ValueError: unknown estimator; a column that rollouts do not give (the message says
            what to set); a critic whose values are not read; turn trees for an estimator
            that compares whole trajectories; a state that is kept by columns whose numbers
            change from batch to batch.
    """
    named = _named_columns(args)
    needed = credit.needed_columns(args.credit, args.within_turn)
    wanted = tuple(dict.fromkeys([*needed, *named]))
    provided = (*PROVIDED, *functions)
    if args.critic is not None:
        if not set(OF_CRITIC[args.critic]) & set(wanted):
            raise ValueError(
                f"credit {args.credit!r} reads no values, got critic={args.critic!r}; "
                "leave critic out"
            )
        provided += OF_CRITIC[args.critic]
    if args.branch is not None:
        _check_branch(args, wanted)
        provided += BRANCH_COLUMNS
        wanted = tuple(dict.fromkeys([*wanted, *BRANCH_COLUMNS]))
    _check_provided(args, wanted, provided)
    check_engine_columns(args, wanted)
    return tuple(dict.fromkeys([*wanted, *functions]))


def _check_branch(args: "TurnGRPOConfig", wanted: Collection[str]) -> None:
    """Raises if the estimator cannot train on turn trees, or on those of `follow`."""
    needs, branching = needs_of(find_estimator(args.credit)), args.branching(())
    if needs.compares_trajectories or "state_key" not in wanted:
        known = estimators_with(_compares_states)
        raise ValueError(
            f"TurnGRPOTrainer does not support branch with credit {args.credit!r}: want an "
            f"estimator that compares only turns of the same state, such as {known}"
        )
    if branching and branching.follow == "best" and not needs.unselected_only:
        known = estimators_with(lambda needs: needs.unselected_only)
        raise ValueError(
            f"credit {args.credit!r} does not support turns that were selected by their "
            f"return, got branch with follow='best'; set follow='random' or 'all', or "
            f"credit to {known}"
        )


def _compares_states(needs: Needs) -> bool:
    return "state_key" in needs.columns and not needs.compares_trajectories


def _named_columns(args: "TurnGRPOConfig") -> list[str]:
    """The columns that options name; raises if a kept state cannot be keyed by them."""
    named = [
        name
        for value in args.credit_args.values()
        if isinstance(value, list | tuple)
        for name in value
        if name in INT_COLUMNS
    ]
    mixed = [name for name in named if name in PER_BATCH_IDS]
    if mixed and keeps_state(find_estimator(args.credit)):
        raise ValueError(
            f"credit {args.credit!r} keeps a state, but the numbers of {mixed[0]!r} change "
            f"from batch to batch; want columns such as 'game' and 'seat', got {named}"
        )
    tokens = [f"tokens.{value}" for value in args.credit_args.values()]
    return named + [name for name in tokens if name in ON_DEMAND]


def _check_provided(
    args: "TurnGRPOConfig", wanted: Sequence[str], provided: Sequence[str]
) -> None:
    """Raises if the rollouts lack a column; the message says what to set."""
    own = credit.needed_columns(args.credit)
    within = credit.needed_columns(args.credit, args.within_turn)
    for name in wanted:
        if name in provided:
            continue
        reason = ABSENT.get(name, f"choose from {', '.join(provided)}")
        if part_of(name):
            reason = f"no function supplies this reward part; {FUNCTION}"
        if name in BRANCH_COLUMNS and "state_key" not in wanted:
            reason = "rollouts have no workers; choose another estimator or column"
        who = f"credit {args.credit!r}"
        if name in within and name not in own:
            who += f" with within_turn={args.within_turn!r}"
        raise ValueError(
            f"{who} needs the column {name!r}, which these rollouts do not have: "
            + reason.replace("NAME", name)
        )


def check_credit(
    args: "TurnGRPOConfig",
    games: Sequence[AnyGame] = (),
    functions: Mapping[str, Supplier] | None = None,
) -> tuple[str, ...]:
    """Tests the estimator on a small batch with the columns of a real one.

    Args:
        args: settings.
        games: the games to train on; the test batch has their lowest and highest returns.
        functions: the user's functions and reward models, by column.

    Returns:
        The columns to collect: those that the estimator reads, and those of the functions.

    Raises:
        ValueError: unknown estimator or option; a column that rollouts do not give; a
            function whose column does not affect the credit; bounds that a return can lie
            outside of; weights of reward parts that do not fit the estimator.
    """
    functions = {} if functions is None else functions
    credit.check_options(args.credit, args.credit_args)
    taken = {*PROVIDED, *(OF_CRITIC[args.critic] if args.critic else ())}
    check_functions(functions, taken)
    wanted = check_credit_columns(args, functions)
    weights = part_weights(args, functions)
    check_part_weights(args, functions)
    check_bounds(args, games, weights)
    turns = _trial(games, functions)
    names = [str(number) for number in range(max(len(games), 1))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", credit.FlatPoolWarning)
        batch = turn_batch([turns], weights, names, wanted, [(0,)] * len(names))
        size = len(turns)
        if args.critic is not None:
            unread = np.full(size, np.nan)
            batch = replace(batch, value=np.zeros(size), next_value=unread)
        if args.critic == "exact":
            batch = replace(batch, action_value=np.zeros(size))
        result = estimate_credit(args, batch, None)
        for name in functions:
            if not weights.get(part_of(name) or "", 0.0):  # a paid part is read
                _check_read(args, batch, name, result)
    return wanted


def _trial(games: Sequence[AnyGame], functions: Collection[str]) -> list[TurnRecord]:
    """Two turns of each game: one is paid the lowest return, one the highest."""
    ranges = [(game.min_return, game.max_return) for game in games] or [(0.0, 1.0)]
    tokens = {"entropy": [0.5, 1.0], "logprob": [-1.0, -2.0]}
    found = []
    for game, ends in enumerate(ranges):
        for i, paid in enumerate(ends):
            parts = {part: float(i) for n in functions if (part := part_of(n))}
            rewards = {**dict.fromkeys(PARTS, 0.0), "game": paid, **parts}
            record = TurnRecord(
                game=game,
                seed=0,
                episode=2 * game + i,
                place=0,
                seat=0,
                turn=0,
                rewards=rewards,
                num_tokens=2,
                row_length=4,
                terminated=True,
                truncated=False,
                state=i,
                action=i,
                tokens=tokens,
                supplied={name: i for name in functions if name in SUPPLIED},
            )
            found.append(record)
    return found


def _check_read(
    args: "TurnGRPOConfig", batch: credit.TurnBatch, name: str, result: credit.Credit
) -> None:
    """Raises if the column does not affect the credit."""
    parts = {k: v for k, v in (batch.rewards or {}).items() if k != part_of(name)}
    columns: dict[str, Any] = {} if part_of(name) else {name: None}
    without = replace(batch, rewards=parts, **columns)
    try:
        same = estimate_credit(args, without, None).advantage == result.advantage
    except ValueError:
        return
    if np.all(same):
        raise ValueError(
            f"credit {args.credit!r} does not read {name!r}; leave it out of columns"
        )


def estimate_credit(
    args: "TurnGRPOConfig", batch: credit.TurnBatch, state: Mapping[str, Any] | None
) -> credit.Credit:
    """The configured estimator's credit.

    Warns only if all advantages are 0. Single flat pools are counted in the metrics.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", credit.FlatPoolWarning)
        result = credit.estimate(
            args.credit,
            batch,
            state=state,
            within_turn=args.within_turn,
            **args.credit_args,
        )
    if not result.advantage.any():
        warnings.warn(
            "all advantages of this batch are 0, since every pool has equal returns or a "
            "single turn; set a wider pool in credit_args, or more episodes_per_step",
            credit.FlatPoolWarning,
            stacklevel=2,
        )
    return result
