"""The report on all estimators is up to date, and they do what is claimed for them."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from arena_credit import by_name, estimator_names
from arena_credit.by_name import claims_of
from arena_credit.proofs import (
    DIAGNOSTICS,
    REINFORCE,
    ExactGame,
    agrees,
    expected_gradient,
    undiscounted,
)
from arena_credit.proofs.findings import examine, found_claims
from arena_credit.testing import check_estimator
from arena_envs import make_game
from build_credit import cause, estimators_page, report

DOCS = Path(__file__).parents[2] / "docs" / "credit"
FEW = "random_effects", "mars", "rloo", "gae", "at_grpo"


def test_the_report_is_up_to_date():
    """Write it with: python docs/build_credit.py --write"""
    written = (DOCS / "report.md").read_text().splitlines()
    assert set(report(FEW).splitlines()) <= set(written)


@pytest.mark.slow
def test_the_report_on_all_estimators_is_up_to_date():
    assert (DOCS / "report.md").read_text() == report()


EVERY = [  # of the families one each; the others nightly
    pytest.param(name, marks=[] if name in FEW else pytest.mark.slow)
    for name in estimator_names()
]


UNSEEN = {"control_variates": {"seats_apart": True}}
"""What holds on random batches and not always: they are too small for slopes by other seats."""


@pytest.mark.parametrize("name", EVERY)
def test_all_that_holds_is_claimed(name):
    """On 20 random batches; and of the bias, exactly what is measured.

    It stands in this file as `examine` remembers what the report has measured.
    """
    evidence = check_estimator(name, num_batches=20)
    assert evidence.found == replace(claims_of(name), **UNSEEN.get(name, {}))


def test_an_estimator_without_a_cost_and_with_options_has_its_page():
    page = estimators_page({})
    section = page[page.index("## mars\n") : page.index("## mars_loo\n")]
    assert "    Aₖ = Rₖ - mean{R of every turn of the pool}" in section
    assert "- **Cost**: at most 100 ms." in section
    assert "- `discount=1.0`: γ, per turn of the same seat." in section
    assert "turns: the turns that count" not in section


BIAS = "*Unbiased when*: ", "*Biased by*: ", "*Number*: "
NUMBER = re.compile(
    r"cosine (-?\d\.\d{3})(?:, factor (-?\d+\.\d{3}))? in `(\w+)`, "
    r"(batches of two|one large group|shared chance)"
)
COLUMN = {"batches of two": 1, "one large group": 5, "shared chance": 8}


def bias(name):
    """What a docstring says of bias: three items."""
    _, _, rest = by_name.docstring(name).partition("Bias:\n\n- ")
    lines = re.split(r"\n- ", rest.partition("\n\n")[0])
    assert [line.startswith(BIAS[i]) for i, line in enumerate(lines)] == [True] * 3
    return [" ".join(line.split()).partition(": ")[2] for line in lines]


@pytest.mark.parametrize("name", estimator_names())
def test_a_docstring_says_when_an_estimator_is_unbiased(name):
    """As it claims: in batches of any size, or large ones, or never.

    `canon` is unbiased in batches of two and biased in large ones."""
    when, by, _ = bias(name)
    kinds = claims_of(name)
    exact = kinds.bias_two == "exact", kinds.bias_infinite == "exact"
    assert ("batches of any size" in when) == all(exact)
    assert not (any(exact) and when.startswith("never"))
    if not kinds.bootstraps:
        assert "truncation (the missing return counts as 0)" in by


@pytest.mark.parametrize("name", estimator_names())
def test_the_numbers_of_a_docstring_are_those_of_the_report(name):
    """The report is up to date by the test above."""
    sections = (DOCS / "report.md").read_text().split("\n## ")
    games = {text[1 : text.index("`", 1)]: text for text in sections[1:]}
    _, _, text = bias(name)
    numbers = NUMBER.findall(text)
    message = f"the item *Number* copies a row of docs/credit/report.md, got: {text}"
    assert len(numbers) == text.count("cosine") > 0, message
    assert text.endswith(" (`arena credit check`)."), message
    for cosine, factor, game, setting in numbers:
        row = re.search(rf"^\| `{name}` \|(.*)\|$", games[game], re.MULTILINE)
        cells = [cell.strip() for cell in row[1].split("|")]
        at = COLUMN[setting]
        assert [cosine, factor or cells[at + 1]] == cells[at : at + 2]


def test_the_return_itself_is_unbiased_until_it_is_cut():
    found = found_claims({game: examine(REINFORCE, game) for game in DIAGNOSTICS})
    assert (found.bias_two, found.bias_infinite, found.bootstraps) == (
        "exact",
        "exact",
        False,
    )


UNBIASED = [
    name
    for name in estimator_names()
    if (claims_of(name).bias_two, claims_of(name).bias_infinite) == ("exact", "exact")
]


@pytest.fixture(scope="module")
def kuhn():
    exact = ExactGame(make_game("kuhn_poker"))
    return exact.at(exact.softmax(np.random.default_rng(0).normal(size=24)))


@pytest.mark.parametrize(
    "name",
    [  # the others nightly
        pytest.param(name, marks=[] if name in FEW else pytest.mark.slow)
        for name in UNBIASED
    ],
)
def test_what_is_unbiased_is_so_in_kuhn_poker(kuhn, name):
    """By a z-test on 300 batches of 8 episodes, at a policy of random logits."""
    found = expected_gradient(name, kuhn, 8, 300, seed=1, **undiscounted(name))
    assert agrees(found, kuhn.gradient)


@pytest.mark.parametrize("name", ["grpo_passk", "normalise_then_sum", "hapo"])
def test_what_is_biased_is_found_out_in_kuhn_poker(kuhn, name):
    """The same test refuses these, or it could not refuse anything."""
    found = expected_gradient(name, kuhn, 8, 400, seed=1)
    assert not agrees(found, kuhn.gradient)


@pytest.mark.parametrize(
    "name", ["mars", "mars_loo", "rloo", "rae", "dr_grpo", "episode"]
)
def test_truncation_may_turn_the_gradient(name):
    """Patience pays after the limit."""
    assert examine(name, "patience").bias_infinite.kind == "reversed"


@pytest.mark.parametrize("name", estimator_names())
def test_tables_say_what_biases_an_estimator(name):
    assert cause(name)
