"""Groups without spread: counted, dropped, and played again."""

import pytest

from arena_credit import TurnBatch
from arena_trainers import TurnGRPOConfig
from arena_trainers.train.metrics import flat_groups
from arena_trainers.train.rollout.player import REPLAY

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")

OPTIONS = {"episodes_per_step": 24, "num_generations": 2, "flat_groups": "drop"}


def spread_of(episodes):
    """By seed: the different returns of seat 0, which those of seat 1 mirror."""
    found = {}
    for episode in episodes:
        format_part = sum(turn.rewards.get("format", 0.0) for turn in episode.turns)
        values = (*episode.returns, format_part)
        found.setdefault(episode.seed, set()).add(values)
    return found


def test_a_group_is_flat_by_hand():
    """Group 4: seat 0 gets 1 + 1 and 2. Group 7: seat 1 gets 0 and 1, seat 0 always 3."""
    batch = TurnBatch(
        reward=[1.0, 1.0, 2.0, 3.0, 0.0, 3.0, 1.0],
        game=[0] * 7,
        episode=[0, 0, 1, 2, 2, 3, 3],
        seat=[0, 0, 0, 0, 1, 0, 1],
        turn=[0, 1, 0, 0, 0, 0, 0],
        group=[4, 4, 4, 7, 7, 7, 7],
    )
    assert flat_groups(batch).tolist() == [True, False]


def test_flat_groups_are_dropped_and_the_others_trained(make_trainer, generated):
    kept, trainer = make_trainer(**{**OPTIONS, "flat_groups": "keep"}), None
    generated(kept)
    trainer = make_trainer(**OPTIONS)
    generated(trainer)
    assert trainer.last_episodes == kept.last_episodes
    flat = {
        s for s, values in spread_of(kept.last_episodes).items() if len(values) == 1
    }
    assert flat
    wanted = [turn for turn in kept.last_selected.records if turn.seed not in flat]
    assert trainer.last_selected.records == wanted
    assert (
        len(trainer.last_turns.reward) == len(wanted) < len(kept.last_selected.records)
    )
    share = len(flat) / 12
    for one in (kept, trainer):
        assert one._metrics["train"]["arena/flat_groups"] == [share]
    assert trainer._metrics["train"]["arena/dropped_groups"] == [share]
    assert "arena/dropped_groups" not in kept._metrics["train"]
    name = "arena/kuhn_poker/player_0/return"
    assert trainer._metrics["train"][name] == kept._metrics["train"][name]


def test_flat_groups_are_played_again_with_other_samples(make_trainer, generated):
    trainer = make_trainer(**OPTIONS, max_replays=2)
    generated(trainer)
    first = spread_of(trainer.last_played.first_episodes)
    last = spread_of(trainer.last_episodes)
    flat = {seed for seed, values in first.items() if len(values) == 1}
    left = {seed for seed, values in last.items() if len(values) == 1}
    assert left < flat
    pairs = zip(trainer.last_played.first_episodes, trainer.last_episodes, strict=True)
    for one, other in pairs:
        attempts, sample = divmod(other.sample, REPLAY)
        assert (other.seed, sample) == (one.seed, one.sample)
        assert (one == other) == (one.seed not in flat) == (attempts == 0)
        assert attempts == 2 or one.seed not in left
    assert {turn.seed for turn in trainer.last_selected.records} == set(last) - left
    logged = trainer._metrics["train"]
    assert logged["arena/flat_groups"] == [len(flat) / 12]
    assert logged["arena/dropped_groups"] == [len(left) / 12]
    assert trainer.clock.counts["episodes"] >= 24 + 2 * len(flat)


def test_nothing_is_dropped_if_every_group_is_flat(make_trainer, generated):
    parts = {"game": 0.0, "format": 0.0}
    trainer = make_trainer(**OPTIONS, part_weights=parts)
    generated(trainer)
    played = {episode.seed for episode in trainer.last_episodes}
    assert {turn.seed for turn in trainer.last_selected.records} == played
    assert trainer._metrics["train"]["arena/flat_groups"] == [1.0]
    assert trainer._metrics["train"]["arena/dropped_groups"] == [0.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"flat_groups": "dorp"}, "did you mean 'drop'"),
        ({"max_replays": 1}, "set flat_groups='drop'"),
        (
            {"flat_groups": "drop", "max_replays": -1},
            "want max_replays of at least 0, got -1",
        ),
        ({"flat_groups": "drop", "branch": {"num_candidates": 2}}, "support branch"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        TurnGRPOConfig(use_cpu=True, bf16=False, **options)
