"""Estimators on turns, worked by hand on trajectories of uneven lengths."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

from arena_credit import FlatPoolWarning, estimate, needs
from arena_credit.estimators.turn_level import mars
from arena_credit.pools import reply_values

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")

# three seats, trajectories of 1 to 3 turns, turns without reward, a game played once
HAND = [
    (0, 0, 0, [0, 0, 3]),
    (0, 0, 1, [1, 0]),
    (0, 0, 2, [2]),
    (1, 0, 0, [1]),
    (1, 0, 1, [0, 0, 0]),
    (1, 0, 2, [0, 4]),
    (2, 1, 0, [5, 0]),
]
INDEX = [k for *_, rewards in HAND for k in range(len(rewards))]
OWNERS = [row for *row, rewards in HAND for _ in rewards]  # episode, game, seat
PLAIN = {"ddof": 0, "eps": 0}


def check(turns, expected, name, **options):
    got = estimate(name, turns, **options).advantage
    flat = np.concatenate([np.atleast_1d(x).astype(float) for x in expected])
    np.testing.assert_allclose(got, flat, atol=1e-9)


def spread(numbers):
    """One number per trajectory of HAND, for all its turns."""
    return [[x] * len(row[-1]) for x, row in zip(numbers, HAND, strict=True)]


def test_dr_grpo_by_hand(batch):
    """Returns 3 1 of seat 0, mean 2; 1 0, mean .5; 2 4, mean 3; game 1 is alone."""
    check(batch(*HAND), spread([1, 0.5, -1, -1, -0.5, 1, 0]), "dr_grpo")


def test_rloo_by_hand(batch):
    """Less the other's: 3 - 1, 1 - 3 | 1 - 0, 0 - 1 | 2 - 4, 4 - 2 | 5 has no other."""
    check(batch(*HAND), spread([2, 1, -2, -2, -1, 2, 5]), "rloo")


def test_rloo_leaves_out_all_seats_of_the_own_episode(batch):
    """One pool per game: episode 0 has 3 1 2, mean 2; episode 1 has 1 0 4, mean 5/3."""
    expected = spread([4 / 3, -2 / 3, 1 / 3, -1, -2, 2, 5])
    check(batch(*HAND), expected, "rloo", pool=("game",))


def test_reinforce_plus_plus_baseline_by_hand(batch):
    """Returns 3 and 0, mean 1.5. Of 1 2 1 tokens 1.5 1.5 -1.5, mean .75, deviations .75 .75
    -2.25, variance (3 · .5625 + 5.0625) / 3 = 1.5²; of three turns mean .5, variance 3."""
    turns = batch((0, 0, 0, [1, 2]), (1, 0, 0, [0]), num_tokens=[1, 2, 1])
    name = "reinforce_plus_plus_baseline"
    check(turns, [[0.5, 0.5, -1.5]], name, eps=0)
    root = 3**0.5
    expected = [[1 / root, 1 / root, -2 / root]]
    check(turns, expected, name, count="turns", eps=0)
    check(turns, [[0.25, 0.25, -0.75]], name, eps=1.5)


def test_reinforce_plus_plus_baseline_tells_zeros_of_what_it_gives(batch):
    """A' 0 | -1 1 over 2 1 3 tokens: mean 1/3, variance (2/9 + 16/9 + 12/9) / 5 = 2/3."""
    name = "reinforce_plus_plus_baseline"
    rows = (0, 0, 0, [5]), (1, 1, 0, [1]), (2, 1, 0, [3])
    turns = batch(*rows, num_tokens=[2, 1, 3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        uneven = estimate(name, turns, eps=0)
    expected = np.array([-1, -4, 2]) / 6**0.5
    np.testing.assert_allclose(uneven.advantage, expected, atol=1e-12)
    assert uneven.report.zeros.tolist() == [0, 0]
    assert uneven.report.mean.tolist() == [5, 2]
    with pytest.warns(FlatPoolWarning):
        even = estimate(name, batch(*rows), eps=0)
    assert even.report.zeros.tolist() == [1, 0]


def test_flow_grpo_by_hand(batch):
    """Differences ±1 ±.5 ±1 from the mean, over deviations √2 √.5 √2 (and 1e-6)."""
    a, b = 1 / (2**0.5 + 1e-6), 0.5 / (0.5**0.5 + 1e-6)
    check(batch(*HAND), spread([a, b, -a, -a, -b, a, 0]), "flow_grpo")


def test_flow_grpo_reads_the_outcome_alone(batch):
    """Outcomes 1 and 3 of seat 0, paid with much else; the others have none."""
    outcome = [0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]
    turns = batch(*HAND, rewards={"game": outcome})
    expected = spread([-1, 0, 0, 1, 0, 0, 0])
    check(turns, expected, "flow_grpo", outcome="game", **PLAIN)


def test_grpo_passk_by_hand(batch):
    """The better of two has what it is ahead: 3 - 1, 1 - 0, 4 - 2; 5 is ahead of none."""
    check(batch(*HAND), spread([2, 1, 0, 0, 0, 2, 0]), "grpo_passk")


def test_grpo_passk_of_the_released_code_by_hand(batch):
    """The leads 2, 1 and 2 over the deviations of 3 1, 1 0 and 2 4: √2, √.5, √2. A lone
    winner of four, deviation 1/2, gets 2 in place of 1."""
    best = [2 / (2**0.5 + 1e-6), 1 / (0.5**0.5 + 1e-6)]
    expected = spread([*best, 0, 0, 0, best[0], 0])
    check(batch(*HAND), expected, "grpo_passk", scale="std")
    wins = batch(*[(e, 0, 0, [int(e == 2)]) for e in range(4)])
    check(wins, [0, 0, 2, 0], "grpo_passk", scale="std", eps=0)


def test_advevo_public_baseline_by_hand(batch):
    """Seats 1 and 2 are a team: returns 1 2 0 4, mean 7/4; seat 0 is one: 3 1, mean 2."""
    team = [min(seat, 1) for _, _, seat in OWNERS]
    expected = spread([1, -0.75, 0.25, -1, -1.75, 2.25, 0])
    check(batch(*HAND, team=team), expected, "advevo_public_baseline")


def test_matpo_by_hand(batch):
    """Planners 0, 1, 4; 2 and 3 work for 1, and 5 for 3. Paid 1 1, 3 and for workers 0 1
    and 2, and 0: in all 2, 6, 1, mean 3, deviation √((1 + 9 + 4) / 3)."""
    rows = [
        (0, 0, 0, [1, 1]),
        (1, 0, 0, [3]),
        (2, 0, 1, [0, 1]),
        (3, 0, 1, [0]),
        (4, 0, 0, [1, 0, 0]),
        (5, 0, 2, [2]),
    ]
    parent = [-1, -1, -1, 1, 1, 1, -1, -1, -1, 3]
    s = (14 / 3) ** 0.5
    expected = [[-1 / s] * 2, 3 / s, [3 / s] * 2, 3 / s, [-2 / s] * 3, 3 / s]
    check(batch(*rows, parent=parent), expected, "matpo", **PLAIN)


def test_matpo_leaves_out_masked_planners_and_their_workers(batch):
    """Planners 0 and 1 are paid 1 and 3; 2 is masked, and so 3 has nobody to share with."""
    rows = [(i, 0, 0, [r]) for i, r in enumerate([1, 3, 9, 0])]
    mask = [True, True, False, True]
    turns = batch(*rows, parent=[-1, -1, -1, 2], mask=mask)
    check(turns, [-1, 1, 0, 0], "matpo", **PLAIN)


@pytest.mark.parametrize(
    ("parent", "message"),
    [
        ([-1, -1, 7, -1], "want parents that are episodes .* got 7 for episode 2"),
        (
            [-1, -1, 0, -1],
            "want one seat in an episode with workers, got 2 in episode 0",
        ),
        ([-1, -1, 3, 2], "got a circle from episode 2"),
        ([-1, -1, 2, -1], "got a circle from episode 2"),
    ],
)
def test_parents_that_make_no_sense_are_named(batch, parent, message):
    rows = [(0, 0, 0, [1]), (0, 0, 1, [1]), (2, 0, 0, [1]), (3, 0, 0, [1])]
    with pytest.raises(ValueError, match=message):
        estimate("matpo", batch(*rows, parent=parent))


def test_stratified_grpo_by_hand(batch):
    """One pool per game, strata by length: 3 0 | 1 4 | 2 1 are ±1 each. Of all six the mean
    is 11/6 and the deviation √(31/6 - 121/36) = √65/6. Game 1 is alone."""
    of_all = (6 * np.array([3, 1, 2, 1, 0, 4]) - 11) / 65**0.5
    mixed = 0.25 * np.array([1, -1, 1, -1, -1, 1]) + 0.75 * of_all
    options = {"pool": ("game",), "blend": 0.25, **PLAIN}
    check(batch(*HAND), spread([*mixed, 0]), "stratified_grpo", **options)


def test_canon_by_hand(batch):
    """Six in one pool, by length: seat 2 of episode 0 and seat 0 of episode 1 (1 turn),
    then seat 1 of episode 0 (2 turns, as has seat 2 of episode 1, which comes later) are
    the lower half, 2 1 1, mean 4/3; 3 0 4 the upper one, mean 7/3. With μ = 3/4 the lower
    half has 3/4 · 7/3 + 1/4 · 4/3 = 25/12 subtracted, the upper one 1 + 7/12."""
    low, high = 25 / 12, 19 / 12
    expected = spread([3 - high, 1 - low, 2 - low, 1 - low, 0 - high, 4 - high, 0])
    for metric in ("num_tokens", "num_turns"):
        options = {"metric": metric, "mu": 0.75, "pool": ("game",)}
        check(batch(*HAND), expected, "canon", **options)


def test_canon_may_rank_by_entropy(batch):
    """Mean entropies 2, (0 + 9 + 0) / 3 and 1: the last one alone is the lower half."""
    rows = [(0, 0, 0, [5]), (1, 0, 0, [1, 0]), (2, 0, 0, [2])]
    tokens = {"entropy": [2, 0, 9, 0, 1]}
    turns = batch(*rows, num_tokens=[1, 2, 1, 1], tokens=tokens)
    check(turns, [5 - 2, [1 - 2] * 2, 2 - 3], "canon", metric="entropy")


def test_bnpo_by_hand(batch):
    """Groups 0 1 and 1 1 0 1, p = 1/2 and 3/4: mean 5/8, variance 1/32. m(1-m)/v - 1 is
    7.5 - 1, so a = 65/16, b = 39/16 and α = 113/48, β = 29/16. Returns are twice that, less
    1. The lost ones of the first group took three turns."""
    rows = [(0, 0, 0, [0, -1, 0]), *[(i, 0, 0, [1]) for i in (1, 2, 3, 4)]]
    rows.append((5, 0, 0, [-2, 1]))
    group = [0, 0, 0, 0, 1, 1, 1, 1, 1]
    a, b = 113 / 48, 29 / 16
    beta = math.gamma(a) * math.gamma(b) / math.gamma(a + b)
    first = beta / (0.5 ** (a - 1) * 0.5 ** (b - 1))
    second = beta / (0.75 ** (a - 1) * 0.25 ** (b - 1))
    expected = [-0.5 * first] * 3 + [0.5 * first]
    expected += [0.25 * second] * 3 + [-0.75 * second] * 2
    turns = batch(*rows, group=group)
    check(turns, expected, "bnpo", min_return=-1, max_return=1)
    check(turns, expected, "bnpo")  # the lowest and the highest are -1 and 1


def test_bnpo_decomposes_the_reward_by_hand(batch):
    """The game as above; formats 0 0 | 0 0 -.5 0, p = 1 and 3/4: mean 7/8, variance 1/32,
    m(1-m)/v - 1 is 3.5 - 1, so a = 35/16, b = 5/16, α = 83/48, β = 53/48."""
    rows = [(i, 0, 0, [paid]) for i, paid in enumerate([-1, 1, 1, 1, 0.5, -1])]
    parts = {"game": [-1, 1, 1, 1, 1, -1], "format": [0, 0, 0, 0, -0.5, 0]}
    turns = batch(*rows, group=[0, 0, 1, 1, 1, 1], rewards=parts)

    def weight(p, a, b):
        beta = math.gamma(a) * math.gamma(b) / math.gamma(a + b)
        return beta / (p ** (a - 1) * (1 - p) ** (b - 1))

    first, second = (weight(p, 113 / 48, 29 / 16) for p in (0.5, 0.75))
    form = weight(0.75, 83 / 48, 53 / 48)
    game = np.array([-first / 2, first / 2, *second * np.array([1, 1, 1, -3]) / 4])
    formal = np.array([0, 0, *form * np.array([1, 1, -3, 1]) / 4])
    check(turns, game, "bnpo", parts=["game"])
    check(turns, game + formal, "bnpo", parts=["game", "format"])
    bounds = {"min_return": {"game": -1, "format": -0.5}, "max_return": {"format": 0}}
    check(turns, game + formal, "bnpo", parts=["game", "format"], **bounds)
    half = weight(0.875, 1, 1)  # of -1: 1 1 | 1 1 .5 1, p = 1 and 7/8, v = 1/128
    a, b = (1 + (15 / 256 * 128 - 1) * m / 3 for m in (15 / 16, 1 / 16))
    half = weight(0.875, a, b) * np.array([0, 0, 1, 1, -3, 1]) / 8
    check(turns, half, "bnpo", parts=["format"], min_return={"format": -1})


def test_mt_grpo_by_hand(batch):
    """Outcomes 4 2 0 and turn rewards 1 2 3, so that z is ±√1.5 or 0; in all 5 4 3. With
    λ = 1/2: √1.5 (1 - 1/2) and √1.5 | 0 and 0 | one turn, of the sum: -√1.5."""
    rows = [(0, 0, 0, [1, 4]), (1, 0, 0, [3, 0, 1]), (2, 0, 0, [3])]
    turns = batch(*rows, rewards={"game": [0, 4, 0, 0, 2, 0]})
    z = 1.5**0.5
    expected = [z / 2, z, 0, 0, 0, -z]
    check(turns, expected, "mt_grpo", coefficient=0.5, **PLAIN)


def test_at_grpo_by_hand(batch):
    """A state is the turn's index. What is paid at first: seat 0: 0, 1; seat 1: 1, 0; seat
    2: 2, 0. To go from there on: 3, 1 | 1, 0 | 2, 4. Seat 1 is paid 0 and 0 at its second
    turns; other turns are alone."""
    turns = batch(*HAND, state_key=INDEX, action=range(len(INDEX)))
    now = [-0.5, 0, 0, 0.5, 0, 1, 0.5, -0.5, 0, 0, -1, 0, 0, 0]
    check(turns, now, "at_grpo", scale="none")
    to_go = [1, 0, 0, 0.5, 0, -1, -1, -0.5, 0, 0, 1, 0, 0, 0]
    check(turns, to_go, "at_grpo", scale="none", discount=1.0)
    check(turns, np.sign(to_go), "at_grpo", discount=1.0, **PLAIN)


def test_at_grpo_gives_equal_replies_equal_credit(batch):
    """Returns 0, 4 and 8 at one state, the first two of one action: Q 2 and 8, mean 4, std 4."""
    turns = batch(
        *[(i, 0, 0, [r]) for i, r in enumerate([0, 4, 8])],
        state_key=[7] * 3,
        action=[1, 1, 0],
    )
    check(turns, [-0.5, -0.5, 1], "at_grpo", eps=0)


def test_the_value_of_a_reply_has_the_interval_of_its_state():
    """State 0: 1 and 5 after one reply, 2 after another; S² = 8 with one degree of freedom,
    so t = 12.706. State 1: every reply once. State 2: 3, 3 and 6, 8, 10: S² = 8/3, t = 3.182."""
    returns = np.array([1.0, 2, 5, 7, 3, 3, 6, 8, 10])
    states, replies = [0, 0, 0, 1, 2, 2, 2, 2, 2], [4, 5, 4, 4, 0, 0, 1, 1, 1]
    found = reply_values(returns, np.array(states), np.array(replies))
    assert found.mean[found.of].tolist() == [3, 2, 3, 7, 3, 3, 8, 8, 8]
    assert found.size[found.of].tolist() == [2, 1, 2, 1, 2, 2, 3, 3, 3]
    wide, narrow = 12.7062 * 8**0.5, 3.1824 * (8 / 3) ** 0.5
    half = [wide / 2**0.5, wide, np.inf, narrow / 2**0.5, narrow / 3**0.5]
    assert found.high - found.mean == pytest.approx(half, rel=2e-3)
    assert found.mean - found.low == pytest.approx(half, rel=2e-3)


@pytest.mark.parametrize("name", ["at_grpo", "agentprm"])
def test_turns_that_are_not_fair_pay_but_are_not_compared(batch, name):
    """γ = 1/2. State 7: 0 + 4/2, 1 + 2/2 and 8, of which the last was selected: 2 and 2 are
    left, 0. State 8: 4 and 6, and 2 that was selected by its return: mean 5."""
    rows = [(0, 0, 0, [0, 4]), (1, 0, 0, [1, 2]), (2, 0, 0, [8]), (3, 0, 0, [6])]
    done = {"state_key": [7, 8, 7, 8, 7, 8], "action": [0, 0, 1, 1, 2, 2]}
    turns = batch(*rows, **done, unselected=[1, 1, 1, 0, 0, 1])
    options = {"discount": 0.5, "pool": ("group", "seat")}
    if name == "at_grpo":
        options |= {"pool": ("group", "seat", "state_key"), "scale": "none"}
    check(turns, [0, -1, 0, 0, 0, 1], name, **options)
    report = estimate(name, turns, **options).report
    assert (report.size.tolist(), report.mean.tolist()) == ([2, 2], [2, 5])
    alone = estimate(
        name, batch(*rows, **done, unselected=[1, 0, 1, 0, 1, 0]), **options
    )
    assert alone.report.size.tolist() == [3]  # state 8 is gone


def test_other_estimators_refuse_turns_that_are_not_fair(batch):
    turns = batch((0, 0, 0, [1, 2]), (1, 0, 0, [3]), unselected=[True, True, False])
    with pytest.raises(
        ValueError,
        match=r"'mars' does not support .* unselected\[2\] = False; use 'agentprm' or",
    ):
        estimate("mars", turns)
    assert estimate("mars", replace(turns, mask=turns.unselected)).advantage.any()


@pytest.mark.parametrize("per_token", [False, True])
def test_credit_of_turns_that_are_not_fair_is_refused(batch, per_token):
    def careless(turns):
        advantage = turns.column("reward") + 6
        credit = mars(turns)._replace(advantage=advantage)
        if not per_token:
            return credit
        return credit._replace(
            advantage=np.repeat(advantage, turns.column("num_tokens"))
        )

    name = needs(unselected_only=True, per_token=per_token)(careless)
    turns = batch((1, 0, 0, [3]), (0, 0, 0, [1, 2]), num_tokens=[2, 1, 1])
    with pytest.raises(ValueError, match=r"of 0 for turns .* got 9\.0 for row 0 from"):
        estimate(name, replace(turns, unselected=[False, True, True]))
    assert estimate(name, turns).advantage.all()


@pytest.mark.parametrize("how", ["entropy", "values"])
def test_tokens_of_turns_that_are_not_fair_have_no_credit(batch, how):
    turns = batch(
        (0, 0, 0, [1]),
        (1, 0, 0, [3]),
        (2, 0, 0, [9]),
        state_key=[0, 0, 0],
        action=[0, 1, 2],
        num_tokens=[2, 2, 2],
        tokens={"entropy": np.ones(6), "value": [0, 2] * 3},
        unselected=[True, True, False],
    )
    got = estimate("at_grpo", turns, within_turn=how, scale="none").advantage
    assert got[:4].all()
    assert got[4:].tolist() == [0, 0]


def test_gigpo_by_hand(batch):
    """Returns less the mean: ±1, ±.5, ±1. To go at the first turns with γ = 1/2: 3/4, 1 |
    1, 0 | 2, 2; at the second ones of seat 1 0, 0. Times ω = 2: ∓.25, ±1, 0."""
    turns = batch(*HAND, state_key=INDEX)
    first = [1 - 0.25, 1, 1], [0.5 + 1, 0.5], [-1]
    second = [-1 + 0.25], [-0.5 - 1, -0.5, -0.5], [1, 1]
    options = {"omega": 2.0, "discount": 0.5, "scale": "none"}
    check(turns, [*first, *second, [0, 0]], "gigpo", **options)


def test_gigpo_of_the_released_code_by_hand(batch):
    """Mean and deviation of returns over turns. Seat 0: 3 3 3 1, mean 2.5, variance 1.
    Seat 1: 1 1 0 0 0, mean .4, variance .3. Seat 2: 2 4 4, mean 10/3, variance 4/3."""
    turns = batch(*HAND, state_key=range(len(INDEX)))  # no state is seen twice
    own = {"mean_over": "turns", "scale": "none"}
    centred = spread([0.5, 0.6, -4 / 3, -1.5, -0.4, 2 / 3, 0])
    check(turns, centred, "gigpo", **own)
    root, third = 0.3**0.5, (4 / 3) ** 0.5
    scaled = spread(
        [0.5, 0.6 / root, -4 / 3 / third, -1.5, -0.4 / root, 2 / 3 / third, 0]
    )
    check(turns, scaled, "gigpo", mean_over="turns", eps=0)
    paper = estimate("gigpo", turns).advantage
    default = estimate("gigpo", turns, mean_over="trajectories").advantage
    assert paper.tolist() == default.tolist()


def test_agentprm_by_hand(batch):
    """State 7: action 0 leads to 3 and 1, Q = 2, action 1 to 6, V = 10/3. State 8 after
    action 0: 3 and 1 of one action, Q = V = 2. The second turn of the last is alone."""
    rows = [(0, 0, 0, [0, 3]), (1, 0, 0, [0, 1]), (2, 0, 0, [5, 1])]
    done = {"state_key": [7, 8, 7, 8, 7, 9], "action": [0, 4, 0, 4, 1, 0]}
    low, high = 2 - 10 / 3, 6 - 10 / 3
    check(batch(*rows, **done), [low, 0, low, 0, high, 0], "agentprm")


# the second one is cut where the critic expects 8 more
VALUED = [(0, 0, 0, [0, 0, 3]), (1, 0, 0, [1, 2])]
VALUES = {
    "value": [1, 2, 4, 2, 5],
    "truncated": [False, False, False, False, True],
    "next_value": [np.nan, np.nan, np.nan, np.nan, 8],
}


def test_gae_by_hand(batch):
    """γ = λ = 1/2. Differences 0 + 1 - 1, 0 + 2 - 2, 3 - 4; sums with 1/4: -1/16, -1/4, -1.
    1 + 2.5 - 2, 2 + 4 - 5: 1.5 + 1/4, 1. With λ = 1 over two: 0, -1/2, -1 | 1.5 + 1/2, 1."""
    turns = batch(*VALUED, **VALUES)
    expected = [-1 / 16, -1 / 4, -1, 1.75, 1]
    check(turns, expected, "gae", discount=0.5, lambda_=0.5)
    options = {"discount": 0.5, "lambda_": 1.0, "num_turns": 2}
    check(turns, [0, -0.5, -1, 2, 1], "gae", **options)


def test_turn_ppo_by_hand(batch):
    """γ = .99, γλ = .891. Differences .98, 1.96, -1: 1.96 - .891 = 1.069, .98 + .891 ·
    1.069 = 1.932479; 1 + 4.95 - 2 = 3.95, 2 + 7.92 - 5 = 4.92: 3.95 + 4.38372."""
    turns = batch(*VALUED, **VALUES)
    check(turns, [1.932479, 1.069, -1, 8.33372, 4.92], "turn_ppo")


def test_bi_level_gae_by_hand(batch):
    """Values of tokens 1 2 | 3 | 2 4, the last ones 2 3 4, γ = 1/2. Turns: -.5, -1, -1; with
    λ = 1: -.5 - .75, -1 - .5, -1. Tokens, γ' = 1: 2 - 1 - 1.25, then the turn's own.
    With γ' = λ = 1/2, sums with 1/4: -.5 - .3125, -1 - .25, -1; the first tokens have 1 - 1
    and 2 - 2, and a quarter of their turns'."""
    turns = batch(
        (0, 0, 0, [0, 0, 3]),
        truncated=[False] * 3,
        num_tokens=[2, 1, 2],
        tokens={"value": [1, 2, 3, 2, 4]},
    )
    expected = [-0.25, -1.25, -1.5, 1, -1]
    check(turns, expected, "bi_level_gae", discount=0.5)
    options = {"discount": 0.5, "discount_tokens": 0.5, "lambda_": 0.5}
    expected = [-0.203125, -0.8125, -1.25, -0.25, -1]
    check(turns, expected, "bi_level_gae", **options)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("rloo", {"pool": ("turn",)}, "want pool columns among .* got 'turn'"),
        ("flow_grpo", {"outcome": "win"}, "want the column 'rewards.win'"),
        ("flow_grpo", {"eps": -1}, "want eps between 0 and inf, got -1"),
        ("mt_grpo", {"outcome": "win"}, "want the column 'rewards.win'"),
        ("mt_grpo", {"coefficient": -1}, "want coefficient between 0 and inf, got -1"),
        ("stratified_grpo", {"blend": 2}, "want blend between 0 and 1, got 2"),
        ("stratified_grpo", {"strata": ("stratum",)}, "want the column 'stratum'"),
        (
            "canon",
            {"metric": "length"},
            "want metric among num_tokens, .* got 'length'",
        ),
        ("canon", {"metric": "entropy"}, "want the column 'tokens.entropy'"),
        ("canon", {"mu": -0.5}, "want mu between 0 and 1, got -0.5"),
        ("bnpo", {"min_return": 1, "max_return": 1}, "below max_return, got 1 and 1"),
        (
            "bnpo",
            {"min_return": 0, "max_return": 2},
            "from min_return 0.0 to max_return 2.0, got 3.0 of seat 0 in episode 0",
        ),
        ("bnpo", {"parts": ()}, "want parts of the reward, got none"),
        ("bnpo", {"parts": "game"}, "want a sequence of columns"),
        ("bnpo", {"parts": ("wit",)}, "want the column 'rewards.wit'"),
        (
            "bnpo",
            {"parts": ("game",), "max_return": 1},
            r"max_return by part \('game',\), got 1",
        ),
        ("bnpo", {"min_return": {"game": 0}}, "want min_return between -inf and inf"),
        (
            "bnpo",
            {"parts": ["game"], "min_return": {"judge": 0}},
            r"want min_return by part \('game',\), got \{'judge': 0\}",
        ),
        ("at_grpo", {"discount": -0.5}, "want discount between 0 and 1, got -0.5"),
        ("at_grpo", {"scale": "rms"}, "want scale among none, std, got 'rms'"),
        ("gigpo", {"mean_over": "x"}, "mean_over"),
        ("grpo_passk", {"scale": "x"}, "scale"),
        ("gigpo", {"omega": -1}, "want omega between 0 and inf, got -1"),
        ("gigpo", {"discount": -1}, "want discount between 0 and 1, got -1"),
        ("agentprm", {"discount": -1}, "want discount between 0 and 1, got -1"),
        ("gae", {"discount": -0.1}, "want discount between 0 and 1, got -0.1"),
        ("gae", {"lambda_": 1.5}, "want lambda_ between 0 and 1, got 1.5"),
        ("gae", {"num_turns": 0}, "want num_turns of at least 1, got 0"),
        ("turn_ppo", {"lambda_": -1}, "want lambda_ between 0 and 1, got -1"),
        (
            "bi_level_gae",
            {"discount_tokens": 2},
            "want discount_tokens between 0 and 1",
        ),
    ],
)
def test_options_out_of_range_are_named(batch, name, options, message):
    size = len(INDEX)
    columns = {
        "rewards": {"game": [0] * size},
        "state_key": INDEX,
        "action": INDEX,
        "value": [0] * size,
        "truncated": [False] * size,
        "tokens": {"value": [0] * size},
    }
    with pytest.raises(ValueError, match=message):
        estimate(name, batch(*HAND, **columns), **options)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("advevo_public_baseline", "team"),
        ("agentprm", "state_key"),
        ("at_grpo", "state_key"),
        ("bi_level_gae", "tokens.value"),
        ("gae", "value"),
        ("gigpo", "state_key"),
        ("mt_grpo", "rewards.game"),
        ("turn_ppo", "value"),
    ],
)
def test_a_missing_column_is_named(batch, name, column):
    with pytest.raises(
        ValueError, match=f"want the column '{column}' in the turn batch"
    ):
        estimate(name, batch(*HAND))
