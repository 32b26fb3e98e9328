"""The report on all estimators: bias, direction and variance on every diagnostic game.

What is written is determined by the code alone.
"""

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from arena_trainers.credit.batch import Ints, TurnBatch
from arena_trainers.credit.by_name import (
    Estimator,
    default_options,
    docstring,
    estimate,
    estimator_names,
    needed_columns,
)
from arena_trainers.credit.proofs.claims import KINDS, Claims, Kind
from arena_trainers.credit.proofs.diagnostics import DIAGNOSTICS
from arena_trainers.credit.proofs.exact import COLUMNS, ExactGame, ExactPlay
from arena_trainers.credit.proofs.expectation import (
    REINFORCE,
    Expectation,
    Verdict,
    batch_gradient,
    compare,
    expected_gradient,
)
from arena_trainers.credit.results import FlatPoolWarning

SMALL, LARGE = 2, 4096  # episodes of a batch; LARGE at least, and in proportion
TOLERANCE = 2e-3  # of a population: leave-one-out is n / (n - 1) there
ORDERED = 8 * LARGE  # where the order of episodes matters, and one is looked at
ORDER_TOLERANCE = 0.03  # likewise
WORDS: Mapping[Kind, str] = {
    "exact": "unbiased",
    "scaled": "positive factor",
    "direction": "direction",
    "zero": "vanishes",
    "reversed": "wrong sign",
}


class Finding(NamedTuple):
    """What was found of an estimator on one game.

    two, large: of the expected gradient, by size of the batch. shared: of that of large
    groups that share the draws of chance; `bias_infinite` in games without chance. variance: of the
    gradient of batches of two, relative to REINFORCE's once scaled to the true gradient's
    size; None where that would take a negative factor.
    """

    bias_two: Verdict
    bias_infinite: Verdict
    bias_shared_chance: Verdict
    variance: float | None


@cache
def play_of(game: str) -> ExactPlay:
    """A diagnostic game with its policy."""
    diagnostic = DIAGNOSTICS[game]
    exact = ExactGame(diagnostic, diagnostic.max_turns)
    return exact.at(exact.policy(diagnostic.weights))


def has_chance(game: str) -> bool:
    """Whether a diagnostic game has draws of chance that a group can share."""
    return len(play_of(game).game.starts[0]) > 1


@cache
def _large_group(game: str, size: int) -> tuple[Ints, TurnBatch]:
    """One large group, shared by all estimators."""
    drawn = play_of(game).population(size)
    return drawn, play_of(game).batch(drawn)


@cache
def _large_groups(game: str) -> tuple[Ints, TurnBatch]:
    """Large groups, each of which shares the draws of chance."""
    drawn, groups = play_of(game).grouped_population(LARGE)
    return drawn, play_of(game).batch(drawn, groups)


@cache
def _reinforce(game: str) -> Expectation:
    return expected_gradient(REINFORCE, play_of(game), SMALL)


def undefined(name: str | Estimator) -> list[str]:
    """The columns that an estimator needs and batches of diagnostic games do not have."""
    return [column for column in needed_columns(name) if column not in COLUMNS]


def undiscounted(name: str | Estimator) -> dict[str, Any]:
    """Options with which an estimator uses undiscounted returns."""
    return {"discount": 1.0} if "discount" in default_options(name) else {}


@cache
def examine(name: str | Estimator, game: str) -> Finding:
    """Looks at an estimator, with default options and γ = 1, on a diagnostic game."""
    play = play_of(game)
    truth, seat = play.gradient, play.game.seat
    options = undiscounted(name) if name != REINFORCE else {}
    small = expected_gradient(name, play, SMALL, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatPoolWarning)
        ordered = (
            name != REINFORCE and estimate(name, play.batch([0])).state is not None
        )
        size = ORDERED if ordered else LARGE
        large = batch_gradient(name, play, *_large_group(game, size), **options)
        shared = large
        if has_chance(game):
            shared = batch_gradient(name, play, *_large_groups(game), **options)
    two = compare(small.mean, truth, seat)
    variance = None
    if two.factor > 0:
        variance = float(small.variance.sum() / _reinforce(game).variance.sum())
        variance /= two.factor**2
    tolerance = ORDER_TOLERANCE if ordered else TOLERANCE
    one, many = (compare(found, truth, seat, tolerance) for found in (large, shared))
    return Finding(two, one, many, variance)


def found_claims(findings: Mapping[str, Finding]) -> Claims:
    """The strongest claims about bias that agree with the findings."""
    cut = [game for game in findings if DIAGNOSTICS[game].max_turns is not None]
    bootstraps = all(findings[game].bias_infinite.kind in KINDS[:3] for game in cut)
    counted = [f for game, f in findings.items() if bootstraps or game not in cut]
    return Claims(
        bias_two=_worst(f.bias_two.kind for f in counted),
        bias_infinite=_worst(f.bias_infinite.kind for f in counted),
        bias_shared_chance=_worst(f.bias_shared_chance.kind for f in counted),
        bootstraps=bootstraps,
    )


def _worst(kinds: Iterable[Kind]) -> Kind:
    return max(kinds, key=KINDS.index)


HEAD = f"""\
# What every estimator does to the gradient

Written by `arena credit report`; a test keeps it up to date. Options are the defaults, except
γ = 1: any other γ is a bias that the user chooses.

On small games everything is known exactly: every line of play, the value of every state, the
true policy gradient of every seat. The report compares the expectation of an estimator's
gradient, 1/B Σ A ∇log π, with the true gradient.

| Word | The expected gradient |
|---|---|
| unbiased | is the true gradient |
| positive factor | of every seat is a positive multiple of the true one |
| direction | of some seat has another direction, at less than 90 degrees |
| vanishes | is 0 |
| wrong sign | of some seat is at 90 degrees or more: following it may make that seat worse |

- **Batches of two**: all batches of {SMALL} independent episodes of one group, enumerated. An
  estimator that is unbiased here stays unbiased if the two share the draws of chance.
- **One large group**: a batch of at least {LARGE} episodes. The frequency of every line of play
  equals its probability, so it stands for an infinite batch.
- **Shared chance**: large groups whose episodes share the draws of chance (one deal, one
  prize), as in training, where a group has one seed. The frequencies of the draws over groups,
  and of the lines of play within a group, equal their probabilities.
  Games without chance have no such column.
- **Limit of turns**: "estimated" if the estimator is right in the game `patience`, where a limit
  cuts the episode; else "ignored". Where it is ignored, the kinds leave that game out.
- **Biased by**: the first cause that the estimator's docstring names.
- **Cosine**: with the true gradient, of the seat with the lowest. **Factor**: the size of the
  estimate along the true gradient of all seats together, 1 if it is right.
- **Variance**: of the gradient of batches of two, divided by the squared factor, relative to
  plain REINFORCE (the return-to-go). There is none where the factor is negative.

Every turn has one token, with its exact entropy. The critic is exact. The judge is exact as
well: 1 where an action is worth at least the policy's value, -1 elsewhere.

"""


def report(progress: Callable[[int, int], object] | None = None) -> str:
    """The whole report, in Markdown.

    Args:
        progress: called after each estimator with the number done and the number in all.
    """
    names = estimator_names()
    known = [name for name in names if not undefined(name)]
    found = {}
    for number, name in enumerate(known, 1):
        found[name] = {game: examine(name, game) for game in DIAGNOSTICS}
        if progress is not None:
            progress(number, len(known))
    reinforce = {game: examine(REINFORCE, game) for game in DIAGNOSTICS}
    lines = [
        HEAD + "| Estimator | Batches of two | One large group | Shared chance | "
        "Limit of turns | Biased by |",
        "|---|---|---|---|---|---|",
        *(_summary(name, found.get(name)) for name in names),
    ]
    for game, diagnostic in DIAGNOSTICS.items():
        play, more = play_of(game), " Shared | cosine | factor |"
        columns = (
            "| Estimator | Two | cosine | factor | variance | Large | cosine | factor |"
        )
        lines += [
            "",
            f"## `{game}` ({diagnostic.tests})",
            "",
            f"{diagnostic.about} {play.game.num_lines} lines of play.",
            "",
            columns + more * has_chance(game),
            "|" + "---|" * (8 + 3 * has_chance(game)),
            _row("REINFORCE", reinforce[game], has_chance(game)),
            *(_row(f"`{name}`", found[name][game], has_chance(game)) for name in known),
        ]
    return "\n".join(lines) + "\n"


def cause(name: str) -> str:
    """What biases an estimator most: the first words of "Biased by" in its docstring."""
    _, _, bias = " ".join(docstring(name).split()).partition("- *Biased by*: ")
    return re.split(r"[.;](?: |$)", bias, maxsplit=1)[0]


def _summary(name: str, findings: Mapping[str, Finding] | None) -> str:
    if findings is None:
        missing = ", ".join(f"`{column}`" for column in undefined(name))
        return f"| `{name}` | not defined here: needs {missing} | | | | {cause(name)} |"
    kinds = found_claims(findings)
    limit = "estimated" if kinds.bootstraps else "ignored"
    words = (
        WORDS[kind]
        for kind in (kinds.bias_two, kinds.bias_infinite, kinds.bias_shared_chance)
    )
    return f"| `{name}` | {' | '.join(words)} | {limit} | {cause(name)} |"


def _row(title: str, found: Finding, chance: bool) -> str:
    two, large, shared, variance = found
    cells = [
        title,
        *_cells(two),
        "-" if variance is None else _number(variance),
        *_cells(large),
        *(_cells(shared) if chance else ()),
    ]
    return f"| {' | '.join(cells)} |"


def _cells(verdict: Verdict) -> tuple[str, str, str]:
    return WORDS[verdict.kind], _number(verdict.cosine), _number(verdict.factor)


def _number(value: float) -> str:
    """Three digits; what is halfway up to rounding is always rounded up."""
    return f"{value + 1e-9:.3f}".replace("-0.000", "0.000")
