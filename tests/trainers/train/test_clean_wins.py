"""Oversampled groups, of which clean wins and any losses are trained."""

from collections import Counter

import numpy as np
import pytest

from arena_credit import TurnBatch
from arena_trainers import TurnGRPOConfig
from arena_trainers.train.rollout.clean_wins import clean_wins, num_trained

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")

OPTIONS = {
    "episodes_per_step": 16,
    "num_generations": 8,
    "oversample": 2,
    "on_invalid": "random",
    "temperature": 3.0,
}


def batch(rewards, **columns):
    """One trajectory of one turn for each reward, of one group and seat."""
    num = len(rewards)
    given = {"seat": [0] * num, "group": [0] * num, "turn": [0] * num, **columns}
    return TurnBatch(rewards, episode=list(range(num)), game=[0] * num, **given)


def test_the_cleanest_wins_and_any_losses_are_trained():
    """Of four wins those without an invalid reply; each loss in half of the draws."""
    played = batch([1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0])
    invalid = [True, False, True, False, True, True, False, False]
    counts = Counter()
    for seed in range(200):
        kept = clean_wins(played, invalid, 2, np.random.default_rng(seed))
        counts.update(np.flatnonzero(kept).tolist())
    assert counts[1] == counts[3] == 200
    assert 0 not in counts
    assert 2 not in counts
    assert all(70 < counts[loss] < 130 for loss in range(4, 8))


def test_whole_trajectories_are_trained_by_their_share_of_invalid_replies():
    """Episode 0 has one of three replies invalid, episode 1 one of two: 0 is cleaner."""
    played = TurnBatch(
        [0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0],
        episode=[0, 0, 0, 1, 1, 2, 3],
        turn=[0, 1, 2, 0, 1, 0, 0],
        seat=[0] * 7,
        group=[0] * 7,
        game=[0] * 7,
    )
    invalid = [True, False, False, False, True, False, False]
    kept = clean_wins(played, invalid, 2, np.random.default_rng(0))
    assert kept[:5].tolist() == [True] * 3 + [False] * 2
    assert kept[5:].sum() == 1


def test_the_proportion_stays_and_neither_kind_is_lost():
    for wins in range(9):
        of = num_trained(wins, 8 - wins, 2)
        assert sum(of) == 4
        assert min(of) >= min(1, wins, 8 - wins)
        assert abs(of[0] - wins / 2) <= 1
    assert num_trained(1, 0, 2) == (1, 0)


def test_a_part_of_each_group_is_trained(make_trainer, generated):
    plain = make_trainer(**{**OPTIONS, "oversample": 1})
    trainer = make_trainer(**OPTIONS)
    generated(plain)
    generated(trainer)
    assert trainer.last_episodes == plain.last_episodes
    kept, all_turns = ([*one.last_selected.records] for one in (trainer, plain))
    assert set(map(place, kept)) < set(map(place, all_turns))
    trained, played = (trajectories(turns) for turns in (kept, all_turns))
    for key, episodes in played.items():
        assert len(trained[key]) == len(episodes) // 2
    whole = [t for t in all_turns if t.episode in trained[t.game, t.seed, t.seat]]
    assert list(map(place, kept)) == list(map(place, whole))
    logged = trainer._metrics["train"]
    assert logged["arena/trained_trajectories"] == [0.5]
    left_out = [t for t in all_turns if place(t) not in set(map(place, kept))]
    rate = np.mean([turn.is_invalid for turn in left_out])
    assert logged["arena/left_out_invalid"] == [pytest.approx(rate)]
    assert rate > np.mean([turn.is_invalid for turn in kept])
    assert "arena/left_out_invalid" not in plain._metrics["train"]
    name = "arena/kuhn_poker/player_0/return"
    assert logged[name] == plain._metrics["train"][name]


def place(turn):
    return turn.episode, turn.place


def trajectories(turns):
    found = {}
    for turn in turns:
        found.setdefault((turn.game, turn.seed, turn.seat), set()).add(turn.episode)
    return found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"oversample": 0}, "want oversample of at least 1, got 0"),
        ({"oversample": 2, "num_generations": 2}, "at least twice as large, got 2"),
        ({"oversample": 2, "on_invalid": "forfeit"}, "set on_invalid='retry' or"),
        (
            {"oversample": 2, "branch": {"num_candidates": 2}},
            "oversample does not support branch",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    given = {"on_invalid": "random", "num_generations": 8, **options}
    with pytest.raises(ValueError, match=message):
        TurnGRPOConfig(use_cpu=True, bf16=False, **given)
