"""`check_credit`: the estimator on a small batch with the columns of a real one, before training.

This module imports neither TRL nor torch.
"""

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

import arena_credit as credit
from arena_envs import GameEnv
from arena_envs.game import AnyGame, bounds_of
from arena_trainers.rewards import NUM_TRIED, Part, calls_of, parts_of
from arena_trainers.train.columns import (
    SUPPLIED,
    Supplier,
    check_functions,
    functions_of,
    part_of,
    pays_calls,
    supplied_by,
    supplied_by_calls,
)
from arena_trainers.train.credit_columns import PROVIDED, check_credit_columns
from arena_trainers.train.critics.registry import critic_facts
from arena_trainers.train.estimator import (
    check_discounts,
    check_part_weights,
    estimate_credit,
    part_weights,
)
from arena_trainers.train.records import PARTS, TurnRecord
from arena_trainers.train.return_bounds import check_bounds
from arena_trainers.train.settings import SelfPlay
from arena_trainers.train.together import check_together
from arena_trainers.train.turn_batches import turn_batch
from arena_trainers.trial import trial
from arena_wrappers import PromptWrapper, play
from arena_wrappers.play import turn_states


def check_credit(
    args: SelfPlay,
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
        ValueError: unknown estimator or option; a reward with another discount than the
            estimator; a column that rollouts do not give; a function whose column does not
            affect the credit; bounds that a return can lie outside of; weights of reward parts
            that do not fit the estimator; a part of the reward that a game cannot pay.
    """
    functions = {} if functions is None else functions
    credit.check_credit_options(args.credit, args.credit_args)
    check_discounts(args)
    by_critic = critic_facts(args.critic).supplies
    trainer_columns = {*PROVIDED, *by_critic}
    check_functions(functions, trainer_columns)
    try_functions({**functions, **parts_of(args.rewards)}, games, args)
    read_columns = check_credit_columns(args, functions)
    check_together(args, read_columns, functions)
    weights = part_weights(args, functions)
    check_part_weights(args, functions)
    check_bounds(args, games, weights)
    turns = trial_records(games, functions)
    names = [str(number) for number in range(max(len(games), 1))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", credit.FlatPoolWarning)
        batch = turn_batch([turns], weights, names, read_columns, [(0,)] * len(names))
        size = len(turns)
        for name in by_critic:
            values = np.full(size, np.nan if name == "next_value" else 0.0)
            supplied: dict[str, Any] = {name: values}
            if name == "tokens.value":
                supplied = {
                    "tokens": {**(batch.tokens or {}), "value": np.zeros(2 * size)}
                }
            batch = replace(batch, **supplied)
        with trial(f"credit {args.credit!r}", "one that check_estimator passes"):
            result = estimate_credit(args, batch, None)
        for name in functions:
            if not weights.get(part_of(name) or "", 0.0):  # a paid part is read
                _check_used(args, batch, name, result)
    return read_columns


def try_functions(
    functions: Mapping[str, Supplier], games: Sequence[AnyGame], args: SelfPlay
) -> None:
    """Asks each function about the first turns of random play of each game.

    Raises:
        ValueError: it cannot be called with an episode, a turn and a state, or gives no number.
    """
    called = functions_of(functions)
    for game in games if called else ():
        make_env = partial(PromptWrapper, GameEnv(game), **args.prompt_options)
        (episode,) = play(make_env, "random", [0])
        turns = [
            replace(turn, prompt_ids=[0], token_ids=[0], logprobs=[0.0])
            for turn in episode.turns
        ]
        episode = replace(episode, turns=turns)
        pairs = zip(turns, turn_states(episode, game), strict=True)
        for turn, state in islice(pairs, NUM_TRIED):
            for name, function in called.items():
                with trial(*_column_name(name, function)):
                    if pays_calls(function):
                        calls = calls_of(episode, turn, state, game)
                        supplied_by_calls({name: function}, calls)
                    else:
                        supplied_by({name: function}, episode, turn, state, game)


def _column_name(name: str, function: Supplier) -> tuple[str, str]:
    """A column's function as an error names it, and what it has to be."""
    if isinstance(function, Part):
        option = f"rewards[{function.name!r}]"
        reads = "calls" if pays_calls(function) else "episode, turn, state and game"
        return option, f"a function of {reads}"
    function_name = getattr(function, "__qualname__", type(function).__name__)
    option = f"columns[{name!r}], {function_name!r},"
    return option, "a function of episode, turn and state"


def trial_records(
    games: Sequence[AnyGame], functions: Collection[str] = ()
) -> list[TurnRecord]:
    """Two turns of each game: one is paid the lowest return, one the highest."""
    ranges = [bounds_of(game) for game in games] or [(0.0, 1.0)]
    tokens: dict[str, Sequence[float]] = {
        "entropy": [0.5, 1.0],
        "logprob": [-1.0, -2.0],
        "span": [1, 1],
    }
    records = []
    for game, bounds in enumerate(ranges):
        for i, payoff in enumerate(bounds):
            parts = {part: float(i) for n in functions if (part := part_of(n))}
            rewards = {**dict.fromkeys(PARTS, 0.0), "game": payoff, **parts}
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
            records.append(record)
    return records


def _check_used(
    args: SelfPlay, batch: credit.TurnBatch, name: str, result: credit.Credit
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
