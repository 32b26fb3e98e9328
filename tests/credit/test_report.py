"""The report on all estimators is up to date, and they do what is claimed for them."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from arena_envs import make_game
from arena_trainers.credit import estimator_names, registry
from arena_trainers.credit.proofs.claims import CLAIMS, claims_of
from arena_trainers.credit.proofs.diagnostics import DIAGNOSTICS
from arena_trainers.credit.proofs.exact import ExactGame
from arena_trainers.credit.proofs.expectation import (
    REINFORCE,
    agrees,
    expected_gradient,
)
from arena_trainers.credit.proofs.pages import estimators_page
from arena_trainers.credit.proofs.report import (
    cause,
    examine,
    found_claims,
    report,
    undiscounted,
)
from arena_trainers.credit.testing import check_estimator

DOCS = Path(__file__).parents[2] / "docs" / "credit"


def test_the_report_is_up_to_date():
    """Write it with: arena credit report."""
    assert (DOCS / "report.md").read_text() == report()


@pytest.mark.parametrize("name", estimator_names())
def test_all_that_holds_is_claimed(name):
    """On 20 random batches; and of the bias, exactly what is measured.

    It stands in this file as `examine` remembers what the report has measured.
    """
    evidence = check_estimator(name, num_batches=20)
    assert evidence.found == claims_of(name)


def test_an_estimator_without_a_cost_and_with_options_has_its_page():
    page = estimators_page({})
    section = page[page.index("## mars\n") : page.index("## mars_loo\n")]
    assert "    Aₖ = Rₖ - mean{R of every turn of the pool}" in section
    assert "- **Cost**: unknown." in section
    assert "- `discount=1.0`: γ, per turn of the same seat." in section
    assert "turns: the turns that count" not in section


@pytest.mark.parametrize("name", estimator_names())
def test_a_docstring_says_none_of_bias_where_there_is_none(name):
    """Its paragraph "Bias:" begins with "none" (or names one that does) if the estimator is
    unbiased in batches of any size, and does not if it never is. `grpo_passk` estimates
    another gradient: that of the best of several tries."""
    text = " ".join(inspect.getdoc(registry.find_estimator(name)).split())
    _, found, bias = text.partition("Bias: ")
    assert found, "want a paragraph that begins with 'Bias: '"
    says_none = bias.startswith(("none", '`"pre"` none', "that of `gae`"))
    kinds = claims_of(name)
    if (kinds.bias_two, kinds.bias_infinite) == ("exact", "exact"):
        assert says_none
    if says_none and name != "grpo_passk":
        assert "exact" in (kinds.bias_two, kinds.bias_infinite)


def test_every_estimator_has_its_claims():
    assert set(CLAIMS) == set(registry._BUILT_IN)


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


@pytest.mark.parametrize("name", UNBIASED)
def test_what_is_unbiased_is_so_in_kuhn_poker(kuhn, name):
    """By a z-test on 300 batches of 8 episodes, at a policy of random logits."""
    found = expected_gradient(name, kuhn, 8, 300, seed=1, **undiscounted(name))
    assert agrees(found, kuhn.gradient)


@pytest.mark.parametrize("name", ["grpo_passk", "normalise_then_sum", "hapo"])
def test_what_is_biased_is_found_out_in_kuhn_poker(kuhn, name):
    """The same test refuses these, or it could not refuse anything."""
    found = expected_gradient(name, kuhn, 8, 1000, seed=1)
    assert not agrees(found, kuhn.gradient)


@pytest.mark.parametrize(
    "name", ["mars", "mars_loo", "rloo", "rae", "dr_grpo", "episode"]
)
def test_what_a_limit_cuts_off_counts_as_nothing_and_may_turn_the_gradient(name):
    """Patience pays after the limit; each docstring says so."""
    assert examine(name, "patience").bias_infinite.kind == "reversed"
    text = " ".join(registry.docstring(name).split())
    assert re.search("what a limit (of turns )?cuts off counts as nothing", text, re.I)


@pytest.mark.parametrize("name", estimator_names())
def test_what_biases_an_estimator_is_said_in_a_few_words(name):
    assert 10 < len(cause(name)) < 80
