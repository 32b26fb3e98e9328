"""A page on all estimators, from their docstrings and what they cost."""

import re
from collections.abc import Mapping

from arena_trainers.credit.by_name import (
    ALIASES,
    default_options,
    docstring,
    estimator_names,
    name_of,
    needed_columns,
)
from arena_trainers.credit.proofs.claims import CLAIMS, Claims, claims_of
from arena_trainers.credit.proofs.report import WORDS

HEAD = """\
# The estimators

Written by `arena credit report` from the docstrings; a test keeps it up to date.

- **Bias**: three lines. The numbers compare the expected gradient with the true gradient of a
  diagnostic game; [report.md](report.md) explains them, and has them for all games.
- **Cost**: CPU time for 100,000 turns on one core, measured once by
  `benchmarks/credit_speed.py` ([cost.json](cost.json)).
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
    names = estimator_names()
    index = " · ".join(f"[`{name}`](#{name})" for name in names)
    return "\n".join([HEAD, index, *(_section(name, costs) for name in names)])


def _section(name: str, costs: Mapping[str, float]) -> str:
    text, options = _parts(docstring(name))
    also = "".join(
        f"Also `{alias}`.\n\n" for alias in ALIASES if name_of(alias) == name
    )
    needed = ", ".join(f"`{column}`" for column in needed_columns(name))
    facts = [f"- **Needs** {needed or 'no further columns'}."]
    if name not in CLAIMS:  # the report has ours
        facts.append(f"- **Claims**: {_claimed(claims_of(name))}.")
    cost = f"{costs[name]:.0f} ms" if name in costs else "unknown"
    facts.append(f"- **Cost**: {cost}.")
    defaults = default_options(name)
    facts += [
        f"- `{option}={defaults[option]!r}`: {meaning}"
        for option, meaning in options.items()
        if option in defaults
    ]
    return f"\n## {name}\n\n{also}{text}\n\n" + "\n".join(facts)


def _claimed(claims: Claims) -> str:
    limit = "estimated" if claims.bootstraps else "ignored"
    return (
        f"batches of two: {WORDS[claims.bias_two]}; one large group: "
        f"{WORDS[claims.bias_infinite]}; shared chance: "
        f"{WORDS[claims.bias_shared_chance]}; limit of turns: {limit}"
    )


def _parts(doc: str) -> tuple[str, dict[str, str]]:
    """What a docstring says before its arguments, and the meaning of each of these."""
    text, _, rest = doc.partition("\nArgs:\n")
    body = re.split(r"\n\n(?=\S)", rest)[0]
    entries = re.split(r"\n(?=    \S)", "\n" + body)
    options = {}
    for entry in entries:
        option, found, meaning = entry.strip().partition(": ")
        if found:
            options[option] = " ".join(meaning.split())
    return text.strip(), options
