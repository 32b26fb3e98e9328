"""Rules that stop evaluations, and what is said of their cost before and after."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import typer

from arena_eval.spending import (
    ASSUMED_REPLY,
    CHARACTERS,
    Budget,
    Spending,
    added,
    read_prices,
)
from arena_eval.stopping import MAX_STOPPED, StopRule
from arena_wrappers import Policy

NUM_EPISODES = 100  # of each opponent and seat, without a rule that stops


class Plan(Protocol):
    """An evaluation, or a comparison, that can tell what it will need."""

    def expected(self, budget: Budget) -> tuple[int, Spending]:
        """About how many episodes endpoints will play in, and what they will use."""


@dataclass(frozen=True)
class Limits:
    """Number of episodes, rule and budget of a command.

    Attributes:
        num_episodes: of each opponent and seat, at most.
        stop: the rule; None if all episodes are played.
        budget: which counts, and limits if it is part of the rule.
    """

    num_episodes: int
    stop: StopRule | None
    budget: Budget


def limits_of(
    num_episodes: int | None,
    until: float | None,
    max_tokens: int | None,
    max_cost: float | None,
    prices: Path | None,
    *,
    is_until_decided: bool = False,
) -> Limits:
    """The limits that a command was given.

    Raises:
        ValueError: a number is out of range, or the file of prices has another form.
    """
    table = None if prices is None else read_prices(prices)
    budget = Budget(max_tokens, max_cost, table)
    has_rule = until is not None or is_until_decided or budget.is_limited
    stop = StopRule(until, is_until_decided, budget) if has_rule else None
    default = NUM_EPISODES if stop is None else MAX_STOPPED
    return Limits(default if num_episodes is None else num_episodes, stop, budget)


def say_expected(
    plans: Sequence[Plan], players: Sequence[Policy], limits: Limits
) -> None:
    """Says on stderr what endpoints among the players will need, before they are asked.

    Raises:
        ValueError: the budget does not pay one seed.
    """
    limits.budget.watch(players)
    if not limits.budget.is_used:
        return
    numbers, parts = zip(*(plan.expected(limits.budget) for plan in plans), strict=True)
    typer.echo(
        f"expects about {sum(numbers):,} games: {added(parts)} ({CHARACTERS} characters a "
        f"prompt token, {ASSUMED_REPLY} tokens a reply where the policy has no max_tokens)",
        err=True,
    )


def say_spent(limits: Limits) -> None:
    """Says on stderr what endpoints used."""
    if limits.budget.is_used:
        typer.echo(f"used {limits.budget.spent()}", err=True)
