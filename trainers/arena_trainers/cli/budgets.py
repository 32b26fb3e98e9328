"""Rules that stop evaluations, and what is said of their cost before and after."""

from collections.abc import Callable, Sequence
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
NUM_MEASURED = 8  # episodes after which the expected cost is said again


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
) -> Spending | None:
    """Says on stderr what endpoints among the players will need, before they are asked.

    Returns:
        What was said; None without an endpoint.

    Raises:
        ValueError: the budget does not pay one seed.
    """
    stop = limits.stop
    is_capped = stop is not None and (stop.is_until_decided or stop.half_width)
    if is_capped:
        typer.echo(
            f"plays at most {limits.num_episodes:,} seeds against each opponent; -n sets "
            "another number",
            err=True,
        )
    limits.budget.watch(players)
    if not limits.budget.is_used:
        return None
    numbers, parts = zip(*(plan.expected(limits.budget) for plan in plans), strict=True)
    spending = added(parts)
    is_most = stop is not None and stop.is_until_decided and stop.half_width is None
    about = "at most about" if is_most else "about"
    typer.echo(
        f"expects {about} {sum(numbers):,} games: {spending} ({CHARACTERS} characters a "
        f"prompt token, {ASSUMED_REPLY} tokens a reply where the policy has no max_tokens)",
        err=True,
    )
    return spending


def say_again(
    bar: Callable[[int, int], object], limits: Limits, expected: Spending | None
) -> Callable[[int, int], None]:
    """A progress bar that says the expected cost again, once, from what calls really used.

    Args:
        bar: takes the numbers of episodes done and in all.
        limits: with the budget that counts.
        expected: what `say_expected` returned.
    """
    is_said = expected is None

    def progress(num_done: int, num_episodes: int) -> None:
        nonlocal is_said
        bar(num_done, num_episodes)
        if is_said or expected is None or num_done < NUM_MEASURED:
            return
        spent = limits.budget.spent()
        if not spent.tokens or not spent.num_calls:
            return
        is_said = True
        factor = expected.num_calls / spent.num_calls
        if factor > 1:
            typer.echo(
                f"the first {spent.num_calls:,.0f} calls used {spent.prompt_tokens:,.0f} prompt and "
                f"{spent.reply_tokens:,.0f} reply tokens; at this rate all take {spent.times(factor)}",
                err=True,
            )

    return progress


def say_spent(limits: Limits) -> None:
    """Says on stderr what endpoints used."""
    if limits.budget.is_used:
        typer.echo(f"used {limits.budget.spent()}", err=True)
