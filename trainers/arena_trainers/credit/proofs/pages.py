"""A page on all estimators, from their docstrings, what they claim and what they cost."""

import re
from collections.abc import Mapping

from arena_trainers.credit.proofs.claims import CLAIMS, claims_of
from arena_trainers.credit.proofs.report import WORDS
from arena_trainers.credit.registry import (
    default_options,
    docstring,
    estimator_names,
    needed_columns,
)

HEAD = """\
# The estimators

Written by `arena credit report` from the docstrings; a test keeps it up to date. Measured: what
the expected gradient is on all [diagnostic games](report.md) together, in batches of two
episodes, in one large group, and in large groups that share the draws of chance, as in
training. Cost: CPU time of 100,000 turns on one core, as
`benchmarks/credit_speed.py` measured it once ([cost.json](cost.json)).
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
    needed = ", ".join(f"`{column}`" for column in needed_columns(name))
    promised = claims_of(name)
    limit = "is estimated" if promised.bootstraps else "is ignored"
    how = "Measured" if name in CLAIMS else "Promised"  # a test measures ours
    facts = [
        f"- **Needs** {needed or 'no further columns'}.",
        f"- **{how}**: batches of two: {WORDS[promised.bias_two]}; one large group: "
        f"{WORDS[promised.bias_infinite]}; groups that share chance: {WORDS[promised.bias_shared_chance]}; "
        f"what a limit of turns cuts off {limit}.",
        f"- **Cost**: {costs[name]:.0f} ms."
        if name in costs
        else "- **Cost**: unknown.",
    ]
    defaults = default_options(name)
    facts += [
        f"- `{option}={defaults[option]!r}`: {meaning}"
        for option, meaning in options.items()
        if option in defaults
    ]
    return f"\n## {name}\n\n{text}\n\n" + "\n".join(facts)


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
