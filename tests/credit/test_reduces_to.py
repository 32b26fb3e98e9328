"""Every statement of the paragraphs "Reduces to:", on batches drawn at random."""

import re
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from arena_credit import estimate, estimator_names
from arena_credit.by_name import docstring

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
SEEDS = range(6)
SMALL, SMALLER, NONE = {"eps": 1e-6}, {"eps": 1e-8}, {"scale": "none"}
PLAIN = {"ddof": 0, "eps": 0.0}
OWN = ("game", "seat")
BY_TURN = ("game", "seat", "turn")
UNPAID = {"paid": False}
PLUS = "reinforce_plus_plus_baseline"


def draw(batch, seed, turns=(1, 4), seats=2, each=4, tokens=(1, 4)):
    """Two groups of `each` episodes with random columns; of other parts of the reward there
    is some, of workers and cuts there are none."""
    rng: Any = np.random.default_rng(seed)
    rows = [
        (e, 0, seat, (rng.integers(-8, 9, rng.integers(*turns)) / 4).tolist())
        for e in range(2 * each)
        for seat in range(seats)
    ]
    size = sum(len(rewards) for *_, rewards in rows)
    num = rng.integers(*tokens, size)
    made = batch(*rows, num_tokens=num)
    return replace(
        made,
        group=made.episode // each,
        team=made.seat,
        stratum=0 * made.seat,
        parent=0 * made.seat - 1,
        state_key=rng.integers(0, 3, size),
        action=rng.integers(0, 2, size),
        rewards={
            "game": rng.integers(-8, 9, size) / 4,
            "judge": rng.choice([-1, 0, 1], size),
        },
        truncated=np.zeros(size, bool),
        value=rng.integers(-8, 9, size) / 4,
        action_value=rng.integers(-8, 9, size) / 4,
        tokens={
            "entropy": rng.random(num.sum()),
            "value": rng.integers(-8, 9, num.sum()) / 4,
        },
    )


# What a batch is like, beside the size that is drawn.


def labels_alike(turns):
    return replace(turns, rewards={"judge": 0 * turns.reward + 0.5})


def entropies_alike(turns):
    return replace(turns, tokens={"entropy": 0 * turns.tokens["value"] + 0.5})


def nothing_twice(turns):
    size = np.arange(len(turns.reward))
    return replace(turns, state_key=size, action=0 * size)


def all_tried_once(turns):
    return replace(turns, action=np.arange(len(turns.reward)))


def one_state(turns):
    return replace(all_tried_once(turns), state_key=0 * turns.seat)


def the_outcome_alone(turns):
    return replace(turns, rewards={"game": turns.reward})


def token_values(turns):
    return replace(turns, tokens={"value": turns.value})


def exact_actions(turns):
    return replace(turns, action_value=to_go(turns))


def means_as_values(turns):
    mars = estimate("mars", turns).report
    of = {pool.key["seat"]: pool.mean for pool in mars}
    return replace(turns, value=[of[seat] for seat in turns.seat.tolist()])


def wins(turns):
    return replace(turns, reward=turns.reward > 0)


def one_group(turns):
    return replace(turns, group=turns.game)


def groups_of_one(turns):
    return replace(turns, group=turns.episode)


def a_semicircle(turns):
    """Four groups of four, a semicircle of means: `test_turn_reductions` works it by hand."""
    won = np.ravel([[0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 1, 1]])
    return replace(turns, reward=won, group=turns.episode // 4)


# What an estimator reduces to, if not to another one.


def to_go(turns, discount=1.0):
    """Written out, trajectory by trajectory."""
    found = np.zeros(len(turns.reward))
    for k in range(len(found)):
        later = (turns.episode == turns.episode[k]) & (turns.seat == turns.seat[k])
        ahead = turns.turn - turns.turn[k]
        later &= ahead >= 0
        found[k] = (turns.reward[later] * discount ** ahead[later]).sum()
    return found


def whole_return(turns):
    columns = turns.episode, turns.seat
    _, whose = np.unique(np.stack(columns), axis=1, return_inverse=True)
    return np.bincount(whose.ravel(), turns.reward)[whose.ravel()]


def credit(name, turns, **options):
    return estimate(name, turns, **options).advantage


def trl(turns):
    """(r - mean) / (std + 1e-4) of each group, the deviation with n - 1."""
    found = np.zeros(len(turns.reward))
    for group in (0, 1):
        own = turns.group == group
        paid = turns.reward[own]
        found[own] = (paid - paid.mean()) / (paid.std(ddof=1) + 1e-4)
    return found


def as_shares(advantage, turns):
    """Of returns as shares of the way from the lowest to the highest."""
    return advantage / np.ptp(whole_return(turns))


def in_units_of_the_batch(advantage, turns):
    """Tokens count, and there are three of each turn."""
    return advantage / (np.repeat(advantage, 3).std(ddof=1) + 1e-8)


def where_positive(advantage, turns):
    return np.maximum(advantage, 0.0)


def lone_winners(turns):
    own = turns.group[:, None] == turns.group
    return turns.reward * ((own * turns.reward).sum(axis=1) == 1)


def reward_less_the_mean(turns):
    of = [turns.reward[turns.seat == seat].mean() for seat in turns.seat]
    return turns.reward - of


def token_return_less_value(turns):
    return np.repeat(to_go(turns), turns.num_tokens) - turns.tokens["value"]


ONE_TURN = {"turns": (1, 2)}
ONE_SEAT = {"seats": 1}
ALONE = {**ONE_TURN, **ONE_SEAT}
EQUAL = {**ONE_TURN, "tokens": (3, 4)}
ONE_TOKEN = {"tokens": (1, 2)}
TWO = {"each": 2}
GAMMA, BOTH = {"discount": 0.9}, {"discount": 0.9, "lambda_": 0.8}
OFF = {
    "whiten_rewards": False,
    "whiten_advantages": False,
    "advantage_norm": "none",
}


class Case(NamedTuple):
    """An estimator with options equals another (or a function), after `then`."""

    name: str
    options: dict
    other: object
    their_options: dict
    drawn: dict | None = None
    like: object = None
    then: object = None


def times(factor):
    return lambda advantage, turns: factor * advantage


CASES = [
    Case("adca", {"judge_weight": 0.0}, "episode", PLAIN),
    Case("adca", {}, "episode", PLAIN, like=labels_alike),
    Case("advevo_public_baseline", {}, "dr_grpo", {}),
    Case("aepo", {"strength": 0.0}, "episode", SMALL),
    Case("aepo", {}, "episode", SMALL, like=entropies_alike),
    Case(
        "agentprm",
        GAMMA,
        "at_grpo",
        {**GAMMA, **NONE, "pool": (*OWN, "state_key")},
    ),
    Case("archer", GAMMA, "gae", {**GAMMA, "lambda_": 0.0}),
    Case("archer", {"discount": 0.0}, lambda turns: turns.reward - turns.value, {}),
    Case("archer", {"action_value": "column"}, "counterfactual", {}),
    Case("at_grpo", {}, "episode", SMALL, ONE_TURN, one_state),
    Case(
        "at_grpo",
        {"discount": 1.0, **NONE, "pool": OWN},
        "mars",
        {},
        like=all_tried_once,
    ),
    Case("bi_level_gae", BOTH, "gae", BOTH, ONE_TOKEN, token_values),
    Case("bi_level_gae", {"discount": 1.0}, token_return_less_value, {}),
    Case("bnpo", {}, "dr_grpo", {}, like=one_group, then=as_shares),
    Case(
        "bnpo",
        {},
        "episode",
        PLAIN,
        {**ALONE, "each": 6},
        a_semicircle,
        then=times(
            np.pi / 8,
        ),
    ),
    Case("canon", {"mu": 0.5}, "dr_grpo", {}),
    Case("canon", {}, "rloo", {}, TWO),
    Case("control_variates", {"surprise": False}, "mars_loo", {}, ONE_TURN, one_group),
    Case("counterfactual", {}, "archer", {"action_value": "column"}),
    Case("counterfactual", {}, "gae", {"lambda_": 1.0}, like=exact_actions),
    Case("dr_grpo", {}, "episode", NONE),
    Case("dr_grpo", {}, "rloo", {}, then=times(3 / 4)),
    Case("dr_grpo", {}, "mars", {"pool": ("group", "seat")}, ONE_TURN),
    Case("episode", NONE, "dr_grpo", {}),
    Case("episode", {}, trl, {}, ALONE),
    Case("flow_grpo", {}, "episode", SMALL),
    Case("flow_grpo", {"outcome": "game"}, "episode", SMALL, like=the_outcome_alone),
    Case("gae", {"lambda_": 1.0}, lambda turns: to_go(turns) - turns.value, {}),
    Case(
        "gae",
        {**GAMMA, "lambda_": 1.0},
        lambda turns: to_go(turns, 0.9) - turns.value,
        {},
    ),
    Case("gae", {"lambda_": 0.0}, "gae", {"num_turns": 1}),
    Case("gae", {"lambda_": 1.0}, "mars", {}, like=means_as_values),
    Case("gigpo", {"omega": 0.0}, "episode", SMALL),
    Case("gigpo", {}, "episode", SMALL, like=nothing_twice),
    Case("grpo_passk", {}, "rloo", {}, TWO, then=where_positive),
    Case("grpo_passk", {}, lone_winners, {}, ALONE, wins),
    Case("hapo", {"strength": 0.0}, "episode", {"ddof": 0, "eps": 1e-6}, EQUAL),
    Case("mars", {}, "gae", {"lambda_": 1.0}, like=means_as_values),
    Case("mars", {}, "dr_grpo", {"pool": OWN}, ONE_TURN),
    Case("mars", {"scale": "std"}, "episode", {**SMALL, "pool": OWN}, ONE_TURN),
    Case(
        "mars",
        {"discount": 0.0},
        "normalise_then_sum",
        {"discount": 0.0, **NONE, "pool": OWN},
    ),
    Case("mars", {"discount": 0.0}, reward_less_the_mean, {}),
    Case("mars_loo", {}, "rloo", {"pool": OWN}, ONE_TURN),
    Case("mars_loo", {}, "mars", {}, ONE_TURN, then=times(8 / 7)),
    Case("mars_released", OFF, "normalise_then_sum", {**NONE, "pool": OWN}),
    Case("mars_released", {**OFF, "reward_norm": "identity"}, to_go, {}),
    Case("matpo", {}, "episode", SMALL, ONE_SEAT),
    Case("mt_grpo", {}, "episode", {}, ONE_TURN),
    Case("mt_grpo", {}, "episode", {}, like=the_outcome_alone),
    Case(
        "mt_grpo",
        {"coefficient": 0.0},
        "flow_grpo",
        {"outcome": "game", "eps": 1e-4},
        {"turns": (2, 5)},
    ),
    Case("normalise_then_sum", {}, "episode", {**SMALL, "pool": ("game",)}, ONE_TURN),
    Case("poad", BOTH, "gae", BOTH, ONE_TOKEN, token_values),
    Case(
        "poad",
        {"discount": 1.0, "lambda_": 1.0, "lambda_tokens": 1.0},
        token_return_less_value,
        {},
    ),
    Case("rae", {"decay": 1.0}, whole_return, {}),
    Case("rae", {"order": "post"}, "rae", {}, then=times(0.95)),
    Case("random_effects", UNPAID, "mars_loo", {"pool": BY_TURN}, like=one_group),
    Case("random_effects", UNPAID, "mars_loo", {"pool": BY_TURN}, like=groups_of_one),
    Case(PLUS, {}, "dr_grpo", {}, EQUAL, then=in_units_of_the_batch),
    Case(PLUS, {"count": "turns"}, "episode", SMALLER, ALONE, one_group),
    Case("rloo", {}, "mars_loo", {"pool": ("group", "seat")}, ONE_TURN),
    Case("rloo", {}, "dr_grpo", {}, then=times(4 / 3)),
    Case("salt", {}, "episode", {}, like=nothing_twice),
    Case("salt", NONE, "episode", NONE, like=nothing_twice),
    Case("stratified_grpo", {"blend": 0.0}, "episode", SMALL),
    Case("stratified_grpo", {"strata": ("stratum",)}, "episode", SMALL),
    Case(
        "stratified_grpo",
        {"blend": 1.0},
        "episode",
        {**SMALL, "pool": ("group", "seat", "num_turns")},
    ),
    Case("turn_ppo", {}, "gae", {"discount": 0.99, "lambda_": 0.9}),
    Case("turn_ppo", BOTH, "gae", BOTH),
]


def named(case):
    other = case.other if isinstance(case.other, str) else case.other.__name__
    return f"{case.name}-{other}"


@pytest.mark.parametrize("case", CASES, ids=named)
def test_it_reduces_to_what_its_docstring_says(batch, case):
    size = 0.0
    for seed in SEEDS:
        turns = draw(batch, seed, **(case.drawn or {}))
        if case.like is not None:
            turns = case.like(turns)
        got = credit(case.name, turns, **case.options)
        if callable(case.other):
            expected = case.other(turns)
        else:
            expected = credit(case.other, turns, **case.their_options)
        if case.then is not None:
            expected = case.then(expected, turns)
        if len(expected) < len(got):
            expected = np.repeat(expected, turns.num_tokens)
        np.testing.assert_allclose(got, expected, atol=1e-9)
        size = max(size, np.abs(got).max())
    assert size > 0.1


@pytest.mark.parametrize("name", estimator_names())
def test_a_docstring_names_nothing_that_is_not_tested(name):
    """Where it names an estimator, there is a case; and there is one for each of them."""
    text = " ".join(docstring(name).split())
    _, found, rest = text.partition("Reduces to: ")
    assert found, "want a paragraph that begins with 'Reduces to: '"
    said = set(re.findall("`([a-z_]+)`", rest.partition(" Bias: ")[0]))
    tested = {case.other for case in CASES if case.name == name}
    assert tested
    assert said & set(estimator_names()) == {
        x for x in tested - {name} if isinstance(x, str)
    }
