"""What holds for every estimator, plug-ins too, on any batch, and what each claims."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_credit import estimate, estimator_names, returns_to_go, trajectories
from arena_credit.by_name import claims_of
from arena_credit.testing import (
    CHECKS,
    checks_of,
    full_batch,
)
from arena_trainers.train import TurnRecord, turn_batch

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
few = settings(max_examples=3)  # of each estimator, and there are many

rewards = st.lists(st.integers(-8, 8).map(lambda x: x / 4), min_size=1, max_size=4)
episodes = st.tuples(
    st.integers(0, 1), st.dictionaries(st.integers(0, 2), rewards, min_size=1)
)
batches = st.lists(episodes, min_size=1, max_size=6)
seeds = st.integers(0, 999)
for_every = pytest.mark.parametrize("name", estimator_names())


@for_every
@few
@given(drawn=batches, seed=seeds)
def test_every_estimator_keeps_all_rules_and_what_it_claims(name, drawn, seed):
    """A failure names the rule or the claim that is broken."""
    turns = full_batch(drawn)
    for check in (*CHECKS, *checks_of(claims_of(name)).values()):
        check(name, turns, np.random.default_rng(seed))


def records(turns):
    """What processes tell each other of the turns, with episodes as this one counts them."""
    columns = (turns.game, turns.group, turns.episode, turns.seat, turns.turn)
    ends = (turns.num_tokens, turns.row_length, turns.terminated, turns.truncated)
    return [
        TurnRecord(
            game=game,
            seed=group,
            episode=episode,
            place=turn,
            seat=seat,
            turn=turn,
            rewards={"game": reward},
            num_tokens=num,
            row_length=length,
            terminated=terminated,
            truncated=truncated,
        )
        for game, group, episode, seat, turn, reward, num, length, terminated, truncated in zip(
            *(c.tolist() for c in (*columns, turns.reward, *ends)), strict=True
        )
    ]


@for_every
@few
@given(drawn=batches, cut=st.integers(0, 5))
def test_the_number_of_processes_changes_nothing(name, drawn, cut):
    """The gather puts the shares one after another; each process counts from 0."""
    turns = full_batch(drawn)
    first = [r for r in records(turns) if r.episode < cut]
    second = [
        r._replace(episode=r.episode - cut) for r in records(turns) if r.episode >= cut
    ]
    found = []
    for shares in ([records(turns)], [first, second]):
        gathered = turn_batch(shares, {}, ("a", "b"))
        more = {
            name: getattr(turns, name)
            for name, column in vars(gathered).items()
            if column is None and name != "game_names"
        }
        whole = replace(gathered, rewards=turns.rewards, **more)
        found.append(estimate(name, whole).advantage.tolist())
    assert found[0] == found[1]


@given(
    paid=st.lists(
        st.lists(st.floats(-9, 9), min_size=1, max_size=9), min_size=1, max_size=4
    ),
    discount=st.floats(0, 1),
)
def test_returns_to_go_are_the_sums_written_out(batch, paid, discount):
    turns = trajectories(batch(*[(i, 0, 0, rs) for i, rs in enumerate(paid)]))
    expected = [
        sum(discount ** (j - k) * rs[j] for j in range(k, len(rs)))
        for rs in paid
        for k in range(len(rs))
    ]
    got = returns_to_go(turns, turns.column("reward"), discount)
    np.testing.assert_allclose(got, expected, atol=1e-9)
