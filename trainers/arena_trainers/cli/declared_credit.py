"""Which estimators declare that they fit a game: by bias, needs and cost, without any measurement."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from arena_credit import estimator_names, needed_columns
from arena_credit.by_name import claims_of, paper_of
from arena_credit.claims import BiasKind
from arena_trainers.cli.game_facts import SMALL_GROUP, Facts
from arena_trainers.train.credit_columns import PROVIDED
from arena_trainers.train.critics.registry import critic_facts, critics

FITTING: Mapping[BiasKind, str] = {"exact": "unbiased", "scaled": "positive factor"}
HEAD = ("estimator", "bias", "noise", "ms", "critic", "paper")
LEGEND = (
    "noise: at most, relative to rloo, - for no claim; ms: at most, for 100,000 turns; "
    "*: not in the comparison"
)


class FittingEstimator(NamedTuple):
    """An estimator whose declaration fits a game.

    Attributes:
        name: of the estimator.
        bias: of its gradient in batches as training plays them; a positive factor changes the size.
        noise: the largest claimed variance, relative to `rloo`; infinite without a claim.
        max_ms: the longest claimed time for 100,000 turns.
        critic: the critic that supplies what it reads; None where rollouts do.
        paper: link to its paper, or "".
    """

    name: str
    bias: BiasKind
    noise: float
    max_ms: float
    critic: str | None
    paper: str


def fitting_estimators(facts: Facts) -> list[FittingEstimator]:
    """The estimators that claim no bias but a positive factor, and read what training supplies.

    Those without a critic come first, then those with less claimed noise, then cheaper ones.
    """
    fitting = []
    for name in estimator_names():
        claims = claims_of(name)
        bias = claims.bias_infinite
        if facts.group is not None and facts.group <= SMALL_GROUP:
            bias = claims.bias_two
        elif facts.chance:
            bias = claims.bias_shared_chance
        columns = {*needed_columns(name)} - {*PROVIDED}
        critic = next(
            (c for c in critics.built_in if columns <= {*critic_facts(c).supplies}),
            None,
        )
        if bias in FITTING and (critic is not None or not columns):
            fitting.append(
                FittingEstimator(
                    name=name,
                    bias=bias,
                    noise=claims.noise,
                    max_ms=claims.max_ms,
                    critic=critic if columns else None,
                    paper=paper_of(name),
                )
            )
    return sorted(
        fitting, key=lambda e: (e.critic is not None, e.noise, e.max_ms, e.name)
    )


def declared_lines(
    facts_by_game: Mapping[str, Facts], measured: Iterable[str]
) -> list[str]:
    """The tables of estimators that fit, one for all games with the same estimators.

    Args:
        facts_by_game: facts of each game by its name.
        measured: names of the estimators that the comparison has.
    """
    games_by_table: dict[tuple[FittingEstimator, ...], list[str]] = {}
    for name, facts in facts_by_game.items():
        games_by_table.setdefault(tuple(fitting_estimators(facts)), []).append(name)
    lines, compared = [], {*measured}
    for estimators, names in games_by_table.items():
        rows = [HEAD, *(_cells(estimator, compared) for estimator in estimators)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines.append(f"Estimators that declare to fit {', '.join(names)} ({LEGEND}):")
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            lines.append(f"  {'  '.join(cells)}".rstrip())
        lines.append("")
    return lines


def _cells(estimator: FittingEstimator, compared: set[str]) -> tuple[str, ...]:
    has_noise = estimator.noise < float("inf")
    return (
        estimator.name + ("" if estimator.name in compared else "*"),
        FITTING[estimator.bias],
        f"{estimator.noise:g}" if has_noise else "-",
        f"{estimator.max_ms:g}",
        estimator.critic or "-",
        estimator.paper or "-",
    )
