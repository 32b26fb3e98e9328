"""The checks find estimators that break a rule or a claim, and name it."""

import itertools
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arena_credit import (
    Claims,
    Pools,
    claims,
    estimate,
    moments,
    needs,
    pools_by,
    returns_to_go,
    trajectories,
    with_report,
)
from arena_credit.estimators.outcome import dr_grpo, episode
from arena_credit.estimators.turn_level import mars
from arena_credit.testing import (
    CHECKS,
    BrokenPromise,
    check_estimator,
    random_batches,
)
from arena_credit.testing.check import TRIED, check_bias, check_of

PLUGINS = Path(__file__).parents[2] / "docs" / "plugins.md"


def to_go(turns):
    return returns_to_go(turns, turns.column("reward"))


def credit(turns, advantage, pool=("game", "seat"), state=None):
    """What is made of any advantages; their own pools are reported."""
    pools = pools_by(turns, pool)
    stats = moments(to_go(turns), pools.of, len(pools.key))
    return with_report(advantage, pools, stats, state)


def plain(turns):
    return credit(turns, to_go(turns))


def infinite(turns):
    return credit(turns, np.where(to_go(turns) < -1, -np.inf, 1.0))


def too_short(turns):
    return credit(turns, to_go(turns))._replace(advantage=to_go(turns)[1:])


def writing(turns):
    turns.batch.reward[:] = 0.0
    return plain(turns)


def writing_parts(turns):
    turns.batch.tokens["entropy"] += 1.0
    return plain(turns)


def random(turns, count=itertools.count()):  # noqa: B008, as its state is the fault
    return credit(turns, to_go(turns) + next(count))


def by_row(turns):
    return credit(turns, to_go(turns) * (turns.row % 2))


def by_parity(turns):
    return credit(turns, to_go(turns) * (turns.column("episode") % 2))


def best_of_some(turns):
    return credit(turns, to_go(turns) - to_go(turns).max())  # max of nothing


def of_all_rows(turns):
    return credit(turns, to_go(turns) - turns.batch.reward.sum())


def with_a_pool(turns):
    one = Pools((), np.zeros((1, 0), int), np.zeros(len(turns.row), int))
    return with_report(to_go(turns), one, moments(to_go(turns), one.of, 1))


def by_num_rows(turns):
    return credit(turns, to_go(turns) / len(turns.batch.reward))


def by_episode(turns):
    return mars(turns, pool=("game", "seat", "episode"))


def with_arrays(turns, *, state=None):
    return credit(turns, to_go(turns), state={"seen": to_go(turns)})


def writing_state(turns, *, state=None):
    state = state or {"seen": []}
    state["seen"].append(len(turns.row))
    return credit(turns, to_go(turns), state=state)


def forgetful(turns, *, state=None):
    """JSON makes texts of its keys."""
    known = 0 in (state or {})
    return credit(turns, to_go(turns) + known, state={0: 1.0})


def lax(turns, *, eps=1e-6):
    return plain(turns)


def curt(turns, *, eps=1e-6):
    if not isinstance(eps, float):
        raise ValueError("bad")
    return plain(turns)


def crude(turns, *, eps=1e-6):
    return credit(turns, to_go(turns) + (eps > 1))


def by_seat(turns):
    return credit(turns, to_go(turns) * (1 + turns.column("seat")))


def whole_tenths(turns):
    return credit(turns, np.floor(10 * to_go(turns)))


def of_the_batch(turns):
    return mars(turns, pool=())


def of_the_group(turns):
    return mars(turns, pool=("group",))


def by_length(turns):
    return credit(turns, to_go(turns) / turns.column("num_tokens"))


def silent_zeros(turns):
    pools = pools_by(turns, ("game", "episode", "seat", "turn"))
    stats = moments(to_go(turns), pools.of, len(pools.key))
    result = with_report(to_go(turns) + 1, pools, stats)
    return result._replace(advantage=0 * to_go(turns))


def crying_wolf(turns):
    return credit(turns, 0 * to_go(turns))._replace(advantage=to_go(turns))


@needs("state_key", unselected_only=True)
def paying_all(turns):
    return mars(turns, pool=("game", "seat", "state_key"))


def without_unfair(result, turns):
    return result._replace(advantage=np.where(turns.unselected, result.advantage, 0.0))


@needs(unselected_only=True)
def comparing_all(turns):
    return without_unfair(mars(turns), turns)


@needs("state_key", unselected_only=True)
def comparing_states(turns):
    return without_unfair(paying_all(turns), turns)


BROKEN_PROPERTIES = [
    ("check_finite", infinite, "want finite advantages, got -inf for row"),
    ("check_finite", too_short, r"want (\d+) advantages, one per turn, got \d+"),
    ("check_unwritten", writing, r"want reward\[\d+\] = .+, got 0\.0, on"),
    ("check_unwritten", writing_parts, r"want tokens.entropy\[0\] = 0.0, got 1.0"),
    ("check_repeatable", random, "want .* in row 0 "),
    ("check_row_order", by_row, "want .* in row"),
    ("check_numbers", by_parity, "want .* in row"),
    ("check_nothing", best_of_some, "it raised ValueError: zero-size array"),
    ("check_nothing", with_a_pool, "want no pools in the report, got 1"),
    ("check_masked_rows", of_all_rows, "want finite advantages, got nan"),
    ("check_masked_trajectories", by_num_rows, "want .* in row"),
    ("check_segments", by_episode, "want .* in row"),
    (
        "check_unselected_only",
        paying_all,
        "want advantages of 0 for turns that were selected by their return",
    ),
    ("check_unselected_only", comparing_all, "want .* in row"),
    ("check_unselected_only", comparing_states, "want .* in row"),
    ("check_state", with_arrays, "it raised TypeError: .* not JSON serializable"),
    (
        "check_state",
        writing_state,
        r"want \{.seen.: \[(\d+)\]\}, got \{.seen.: \[\1, \1\]\}",
    ),
    ("check_state", forgetful, "want .* in row"),
    (
        "check_option_types",
        lax,
        "want a ValueError that shows eps='1e-6', got no error",
    ),
    ("check_option_types", curt, "want a ValueError that shows eps='1e-6', got 'bad'"),
    (
        "check_option_types",
        crude,
        "want a ValueError that shows eps='1e-6', got TypeError",
    ),
]
BROKEN_CLAIMS = [
    ("labels", True, by_seat),
    ("continuous", True, whole_tenths),
    ("games_apart", True, of_the_batch),
    ("groups_apart", True, mars),
    ("seats_apart", True, of_the_group),
    ("tokens", True, by_length),
    ("shift", True, plain),
    ("zero_mean", ("game", "seat"), plain),
    ("zero_mean", ("group", "seat"), mars),
    ("zero_sum", ("group", "seat"), mars),
    ("singleton_pool", "zero", plain),
    ("singleton_pool", "zero", silent_zeros),
    ("singleton_pool", "return", mars),
    ("singleton_pool", "return", crying_wolf),
]
BROKEN_BIAS = [
    (
        "bias_two",
        "exact",
        mars,
        "want bias_two 'exact' or better on the game 'bandit', .*claim less",
    ),
    ("bias_two", "scaled", mars, "got 'reversed' .cosine -1.000, factor -2.000"),
    (
        "bias_infinite",
        "exact",
        partial(mars, scale="std"),
        "want bias_infinite 'exact' .* got 'scaled'",
    ),
    (
        "bias_shared_chance",
        "scaled",
        episode,
        "want bias_shared_chance 'scaled' or better .*'bandit'",
    ),
    (
        "bootstraps",
        True,
        dr_grpo,
        "want bias_infinite 'direction' or better .*'patience'",
    ),
]


def title(check):
    return check.__doc__.partition("\n")[0].removesuffix(".")


@pytest.mark.parametrize(("check", "broken", "message"), BROKEN_PROPERTIES)
def test_an_estimator_that_lacks_a_property_is_found(check, broken, message):
    (wanted,) = (c for c in CHECKS if c.__name__ == check)
    with pytest.raises(BrokenPromise, match=message) as caught:
        check_estimator(broken, Claims(labels=False, continuous=False), num_batches=20)
    start = f"estimator {broken.__name__!r} breaks a rule: {title(wanted)}; "
    assert str(caught.value).startswith(start)
    end = r", on the batch random_batches\(20, 0\)\[\d+\]; fix the estimator$"
    assert re.search(end, str(caught.value))


def test_every_check_has_an_estimator_that_fails_it():
    assert {name for name, *_ in BROKEN_PROPERTIES} == {c.__name__ for c in CHECKS}
    claimed = {(field, value) for field, value, _ in BROKEN_CLAIMS}
    assert {field for field, _ in claimed} == set(TRIED)
    assert {("singleton_pool", "zero"), ("singleton_pool", "return")} <= claimed


@pytest.mark.parametrize(("field", "value", "broken"), BROKEN_CLAIMS)
def test_an_estimator_that_claims_too_much_is_found(field, value, broken):
    kept = {"labels": False, "continuous": False}
    with pytest.raises(BrokenPromise) as caught:
        check_estimator(broken, Claims(**kept | {field: value}), num_batches=20)
    check = check_of(field, value)
    claim = title(getattr(check, "func", check))
    assert f"{broken.__name__!r} breaks a claim: {claim}; want" in str(caught.value)
    assert f"`{field}`" in claim


@pytest.mark.parametrize(("field", "value", "broken", "message"), BROKEN_BIAS)
def test_an_estimator_that_is_biased_otherwise_is_found(field, value, broken, message):
    claimed = Claims(**{field: value})
    with pytest.raises(BrokenPromise, match=message) as caught:
        check_estimator(broken, claimed, num_batches=1)
    assert title(check_bias) in str(caught.value)


@claims(bias_infinite="exact", games_apart=True)
@needs("rewards.style", "tokens.surprise")
def judged(turns):
    """Reads columns that no game has."""
    surprise = turns.column("tokens.surprise")
    num = turns.column("num_tokens")
    own = np.add.reduceat(surprise, np.cumsum(num) - num)
    return credit(turns, to_go(turns) + turns.column("rewards.style") + own)


def test_columns_that_an_author_thought_of_are_made_up():
    evidence = check_estimator(judged, num_batches=5)
    assert evidence.claimed == Claims(bias_infinite="exact", games_apart=True)
    assert evidence.findings == {}
    assert evidence.found.seats_apart
    assert not evidence.found.tokens


@pytest.mark.parametrize("column", ["unselected", "rollout"])
def test_every_column_may_be_needed(column):
    evidence = check_estimator(needs(column)(lambda turns: plain(turns)), num_batches=5)
    assert evidence.findings == {}


@needs("rewards.label")
def by_label(turns):
    label = turns.column("rewards.label")
    if not np.isin(label, (0, 1)).all():
        raise ValueError(f"want labels 0 or 1, got {label}")
    return credit(turns, to_go(turns) * label)


def labelled(turns):
    label = turns.turn % 2
    return replace(turns, rewards={**turns.rewards, "label": label})


def test_an_author_may_bring_batches():
    with pytest.raises(
        BrokenPromise, match=r"want labels 0 or 1, .* batch random_batches"
    ):
        check_estimator(by_label, num_batches=5)
    batches = [labelled(turns) for turns in random_batches(20, 0)]
    evidence = check_estimator(by_label, batches=batches)
    assert evidence.num_batches == 20
    assert evidence.found.groups_apart
    assert evidence.found.continuous
    assert not evidence.found.shift
    with pytest.raises(
        BrokenPromise, match=r"batch batches\[\d+\]; .* or drop the claim"
    ):
        check_estimator(by_label, Claims(shift=True), batches=batches)
    with pytest.raises(
        ValueError, match="want at least one batch, got none; leave out"
    ):
        check_estimator(by_label, batches=[])


def test_what_holds_is_told_although_nobody_claims_it():
    evidence = check_estimator(mars, Claims(), num_batches=20)
    assert evidence.claimed == Claims()
    assert evidence.found == Claims(
        bias_infinite="exact",
        bias_shared_chance="exact",
        zero_mean=("game", "seat"),
        shift=True,
        games_apart=True,
        seats_apart=True,
        tokens=True,
        singleton_pool="zero",
    )
    assert evidence.findings["toll"].bias_two.kind == "reversed"


def bare_array(turns):
    return to_go(turns)


def misspelt(turns):
    return credit(turns, turns.colum("reward"))


def test_what_an_estimator_raises_is_told_with_its_line_and_blames_no_claim():
    line = misspelt.__code__.co_firstlineno + 1
    with pytest.raises(BrokenPromise) as caught:
        check_estimator(misspelt, num_batches=1)
    assert str(caught.value) == (
        "estimator 'misspelt' raised AttributeError: Trajectories has no attribute 'colum' "
        f"(test_check_estimator.py:{line}), on the batch random_batches(1, 0)[0]"
    )


def test_a_rule_that_an_exception_breaks_is_told_with_the_line():
    line = best_of_some.__code__.co_firstlineno + 1
    with pytest.raises(
        BrokenPromise, match=rf"_estimator.py:{line}\), on the batch random"
    ):
        check_estimator(best_of_some, num_batches=2)


def test_an_array_instead_of_credit_is_refused():
    wanted = r"want a Credit of .*, got ndarray; make one with with_report\("
    with pytest.raises(TypeError, match=wanted):
        estimate(bare_array, random_batches(1, 0)[0])
    with pytest.raises(BrokenPromise, match=f"'bare_array' raised TypeError: {wanted}"):
        check_estimator(bare_array, num_batches=1)


def test_a_column_read_as_an_attribute_is_told_how_to_read_it():
    turns = trajectories(random_batches(1, 0)[0])
    with pytest.raises(AttributeError, match=r"use turns.column\('reward'\)"):
        turns.reward  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("claim", ["zero_mean", "zero_sum"])
@pytest.mark.parametrize("wrong", [True, False, "game", 5])
def test_a_claim_of_columns_that_are_none_is_named(claim, wrong):
    with pytest.raises(ValueError, match=f"claim {claim}: want a sequence of columns"):
        claims(**{claim: wrong})


def test_the_estimator_of_the_contributors_page_keeps_its_claims():
    blocks = re.findall(r"```python\n(.*?)```", PLUGINS.read_text(), re.DOTALL)
    (code,) = (block for block in blocks if "def my_estimator" in block)
    page: dict[str, Any] = {}
    exec(compile(code, PLUGINS.name, "exec"), page)
    page["check_estimator"] = partial(check_estimator, num_batches=5)  # of 40
    page["test_my_estimator_keeps_its_claims"]()
    turns = random_batches(20, 0)[-1]
    got = estimate(page["my_estimator"], turns, discount=0.5)
    want = estimate("mars", turns, discount=0.5)
    assert np.allclose(got.advantage, want.advantage)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="want an integer num_batches above 0, got 0"):
        check_estimator("mars", num_batches=0)
    with pytest.raises(ValueError, match="no estimator 'mras'; did you mean 'mars'"):
        check_estimator("mras")
