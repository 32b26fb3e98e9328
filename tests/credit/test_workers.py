"""Episodes that work for others, on batches drawn at random: what `matpo` must keep.

In the other properties, all batches are without workers.
"""

import numpy as np
import pytest

from arena_credit import TurnBatch, estimate

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
for_many_batches = pytest.mark.parametrize("seed", range(4))


def draw(seed):
    """Twelve episodes of two games and of one to four turns; every third one works for the
    planner before, and the one after that for this worker."""
    rng = np.random.default_rng(seed)
    rows = [(e, k) for e in range(12) for k in range(rng.integers(1, 5))]
    episode, turn = np.array(rows).T
    works = episode % 3 > 0
    return {
        "reward": rng.integers(-8, 9, len(rows)) / 4,
        "game": episode // 6,
        "episode": episode,
        "seat": np.zeros(len(rows), int),
        "turn": turn,
        "group": episode // 6,
        "parent": np.where(works, episode - 1, -1),
    }


def credit(columns):
    return estimate("matpo", TurnBatch(**columns)).advantage


@for_many_batches
def test_workers_share_what_their_planner_gets(seed):
    columns = draw(seed)
    got = credit(columns)
    assert got.any()
    for planner in range(0, 12, 3):
        shares = got[columns["episode"] // 3 == planner // 3]
        assert len(set(shares.tolist())) == 1


@for_many_batches
def test_row_order_carries_no_meaning(seed):
    columns = draw(seed)
    order = np.random.default_rng(seed + 9).permutation(len(columns["turn"]))
    shuffled = {name: column[order] for name, column in columns.items()}
    assert credit(shuffled).tolist() == credit(columns)[order].tolist()


@for_many_batches
def test_masked_turns_are_never_read(seed):
    columns = draw(seed)
    mask = np.random.default_rng(seed).random(len(columns["turn"])) < 0.7
    before = credit({**columns, "mask": mask})
    assert not before[~mask].any()
    unread = np.where(mask, columns["reward"], np.nan)
    got = credit({**columns, "mask": mask, "reward": unread})
    assert got.tolist() == before.tolist()


@for_many_batches
def test_games_do_not_touch_each_other(seed):
    columns = draw(seed)
    own = columns["game"] == 1
    expected = credit(columns)[own]
    alone = credit({name: column[own] for name, column in columns.items()})
    np.testing.assert_allclose(alone, expected, atol=1e-9)
    other = np.where(own, columns["reward"], -3 * columns["reward"])
    assert credit({**columns, "reward": other})[own].tolist() == expected.tolist()
