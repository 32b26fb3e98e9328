"""Writes docs/credit/report.md and docs/credit/estimators.md: all estimators of this project.

    python docs/build_credit.py --write

It takes about a minute. Without `--write` it says whether the pages are up to date.
"""

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from arena_credit import default_options, needed_columns
from arena_credit.by_name import ALIASES, BUILT_IN, claims_of, docstring, name_of
from arena_credit.claims import Kind
from arena_credit.proofs.diagnostics import DIAGNOSTICS
from arena_credit.proofs.findings import (
    LARGE,
    REINFORCE,
    SMALL,
    Finding,
    Verdict,
    examine,
    found_claims,
    has_chance,
    play_of,
    undefined,
)

FOLDER = Path(__file__).parent / "credit"
COSTS = FOLDER / "cost.json"  # written by benchmarks/credit_speed.py
NAMES = sorted(BUILT_IN)
WORDS: Mapping[Kind, str] = {
    "exact": "unbiased",
    "scaled": "positive factor",
    "direction": "direction",
    "zero": "vanishes",
    "reversed": "wrong sign",
}


REPORT = f"""\
# What every estimator does to the gradient

Written by `docs/build_credit.py`; a test keeps it up to date. Options are the defaults, except
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


def report(names: Sequence[str] = NAMES) -> str:
    """The report, in Markdown; about some estimators only, it has only their rows."""
    defined = [name for name in names if not undefined(name)]
    examined = {n: {game: examine(n, game) for game in DIAGNOSTICS} for n in defined}
    reinforce = {game: examine(REINFORCE, game) for game in DIAGNOSTICS}
    lines = [
        REPORT + "| Estimator | Batches of two | One large group | Shared chance | "
        "Limit of turns | Biased by |",
        "|---|---|---|---|---|---|",
        *(_summary(name, examined.get(name)) for name in names),
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
            *(
                _row(f"`{name}`", examined[name][game], has_chance(game))
                for name in defined
            ),
        ]
    return "\n".join(lines) + "\n"


def cause(name: str) -> str:
    """The largest bias of an estimator: the first words of "Biased by" in its docstring."""
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


def _row(title: str, finding: Finding, chance: bool) -> str:
    two, large, shared, variance = finding
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


ESTIMATORS = """\
# The estimators

Written by `docs/build_credit.py` from the docstrings; a test keeps it up to date.

- **Bias**: three lines. The numbers compare the expected gradient with the true gradient of a
  diagnostic game; [report.md](report.md) explains them, and has them for all games.
- **Cost**: CPU time for 100,000 turns on one core, measured once by
  `benchmarks/credit_speed.py` ([cost.json](cost.json)). "At most": not measured, but declared.
- **Notation**: a trajectory i is the turns of one seat in one episode, and k numbers them. rᵢₖ
  is the reward from turn k until the seat's next turn, Gᵢ the return, Rᵢₖ the return-to-go from
  turn k on, A the advantage, γ the discount per turn of the seat. A pool is the set of turns or
  trajectories with equal values in the columns of `pool`. z is the z-score.
- **Draws of chance**: the episodes of a group have one seed, so they share deals and prizes.
"""


def estimators_page(costs: Mapping[str, float]) -> str:
    """The page, in Markdown.

    Args:
        costs: milliseconds for 100,000 turns, by estimator.
    """
    index = [
        f"| [`{name}`](#{name}) | {docstring(name).splitlines()[0]} |" for name in NAMES
    ]
    sections = [_section(name, costs) for name in NAMES]
    return "\n".join([ESTIMATORS, "| Name | Job |", "|---|---|", *index, *sections])


def _section(name: str, costs: Mapping[str, float]) -> str:
    text, options = _parts(docstring(name))
    also = "".join(
        f"Also `{alias}`.\n\n" for alias in ALIASES if name_of(alias) == name
    )
    needed = ", ".join(f"`{column}`" for column in needed_columns(name))
    facts = [f"- **Needs** {needed or 'no further columns'}."]
    most = claims_of(name).max_ms
    cost = f"{costs[name]:.0f} ms" if name in costs else f"at most {most:.0f} ms"
    facts.append(f"- **Cost**: {cost}.")
    defaults = default_options(name)
    facts += [
        f"- `{option}={defaults[option]!r}`: {meaning}"
        for option, meaning in options.items()
        if option in defaults
    ]
    return f"\n## {name}\n\n{also}{text}\n\n" + "\n".join(facts)


def _parts(doc: str) -> tuple[str, dict[str, str]]:
    """The text of a docstring before its arguments, and the meaning of each of these."""
    text, _, arguments = doc.partition("\nArgs:\n")
    body = re.split(r"\n\n(?=\S)", arguments)[0]
    entries = re.split(r"\n(?=    \S)", "\n" + body)
    options = {}
    for entry in entries:
        option, colon, meaning = entry.strip().partition(": ")
        if colon:
            options[option] = " ".join(meaning.split())
    return text.strip(), options


def main() -> None:
    """Runs the script."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--write", action="store_true", help="into docs/credit")
    write = parser.parse_args().write
    costs = json.loads(COSTS.read_text())
    pages = {
        "report.md": report(),
        "estimators.md": estimators_page({n: row["ms"] for n, row in costs.items()}),
    }
    for name, text in pages.items():
        if write:
            (FOLDER / name).write_text(text)
        elif (FOLDER / name).read_text() != text:
            sys.exit(f"{name} is out of date: python docs/build_credit.py --write")


if __name__ == "__main__":
    main()
