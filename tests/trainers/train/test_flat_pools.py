"""Flat pools are warned of, but not where every reply is invalid: no pool would help."""

import warnings
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from arena_credit import FlatPoolWarning
from arena_envs import make_game
from arena_trainers.train.advantages import BatchCredit
from arena_trainers.train.credit_check import trial_records

GAME = make_game("kuhn_poker")


def credit_of(*, is_invalid: bool) -> Any:
    """The credit of turns that are all paid the same."""
    records = [
        record._replace(rewards={"game": -1.0}, is_invalid=is_invalid)
        for record in trial_records([GAME])
    ]
    args: Any = SimpleNamespace(
        credit="mars",
        within_turn="uniform",
        credit_args={},
        layout="turn",
        rewards={},
        part_weights={},
    )
    games: Any = SimpleNamespace(
        functions={}, names=["kuhn_poker"], columns={}, rules=[GAME]
    )
    clock: Any = SimpleNamespace(part=lambda name: nullcontext())
    crediting = BatchCredit(args, games, None, {}, clock, 16)
    return crediting([records], trains=True).credit


def test_equal_returns_of_valid_replies_are_warned_of() -> None:
    with pytest.warns(FlatPoolWarning, match="set a wider pool"):
        credit_of(is_invalid=False)


def test_invalid_replies_alone_are_no_fault_of_the_pool() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not credit_of(is_invalid=True).advantage.any()
