"""Training in which a curriculum chooses the games and the lengths of episodes."""

import json

import pytest
import torch

from arena_trainers.curricula import Outcome
from arena_trainers.train.tasks import CURRICULUM_FILE

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")

THREE = {"id": "kuhn_poker", "params": {"num_players": 3}}
NAMES = ["kuhn_poker", "kuhn_poker(num_players=3)"]
AGAINST = {"opponents": ["self", "random"]}
BAND = {
    "games": [
        {"id": "kuhn_poker", **AGAINST},
        {**THREE, "opponents": ["self", "random", "random"]},
    ],
    "curriculum": {"band": {"low": 0.4, "high": 0.5}},
}
OVER_KNOBS = {
    "games": [
        {"id": "guess_number", "params": {"max_guesses": 2}, "knobs": ["num_numbers"]}
    ],
    "curriculum": {"band": {"low": 0.05}},
    "on_invalid": "random",
}


def test_all_episodes_of_a_start_play_the_task_of_the_curriculum(
    make_trainer, generated
):
    spec = {"weights": {"start": {NAMES[1]: 1}, "end": {NAMES[0]: 1}}}
    options = {"games": ["kuhn_poker", THREE], "num_generations": 4, "max_steps": 9}
    trainer = make_trainer(
        **options,
        episodes_per_step=16,
        curriculum={"weights": {**spec["weights"], "steps": 4}},
    )
    generated(trainer)
    assert trainer.last_played.games == [1] * 16
    assert {len(episode.returns) for episode in trainer.last_episodes} == {3}
    trainer.state.global_step = 2
    generated(trainer)
    games = {}
    for episode, game in zip(
        trainer.last_episodes, trainer.last_played.games, strict=True
    ):
        games.setdefault(episode.seed, set()).add(game)
    assert all(len(found) == 1 for found in games.values())
    assert set.union(*games.values()) == {0, 1}


def test_a_horizon_truncates_at_first(make_trainer, generated):
    trainer = make_trainer(curriculum="horizon(horizons=[1, null])")
    generated(trainer)
    assert {len(episode.turns) for episode in trainer.last_episodes} == {1}
    cut = [e for e in trainer.last_episodes if e.truncated]
    assert cut
    assert all(list(e.returns) == [0.0, 0.0] for e in cut)
    assert trainer.last_turns.truncated.sum() == len(cut)
    trainer.state.global_step = 100
    generated(trainer)
    assert max(len(episode.turns) for episode in trainer.last_episodes) > 1
    assert not any(episode.truncated for episode in trainer.last_episodes)


def test_outcomes_are_the_returns_of_the_seats_that_learn(make_trainer, generated):
    """Kuhn's returns lie from -2 to 2."""
    trainer = make_trainer(**BAND)
    seen: list[Outcome] = []
    trainer.tasks.curriculum.update = lambda outcomes, step: seen.extend(outcomes)
    generated(trainer)
    played = zip(trainer.last_episodes, trainer.last_played.games, strict=True)
    rules = trainer.games.rules
    for outcome, (episode, game) in zip(seen, played, strict=True):
        low, high = rules[game].min_return, rules[game].max_return
        share = (episode.returns[0] - low) / (high - low)
        assert outcome == Outcome(NAMES[game], pytest.approx(share))
    assert rules[0].min_return == -2


LISTED = pytest.param(BAND, marks=pytest.mark.slow)


@pytest.mark.slow
@pytest.mark.parametrize("options", [LISTED, OVER_KNOBS], ids=["listed", "knobs"])
def test_a_resumed_run_ends_with_the_same_weights(make_trainer, tmp_path, options):
    options = {**options, "max_steps": 3, "save_strategy": "steps", "save_steps": 2}
    whole = make_trainer(output_dir=str(tmp_path / "whole"), **options)
    whole.train()
    checkpoint = tmp_path / "whole" / "checkpoint-2"
    resumed = make_trainer(output_dir=str(tmp_path / "resumed"), **options)
    resumed.train(resume_from_checkpoint=str(checkpoint))
    other = resumed.model.state_dict()
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, other[name])
    state = whole.tasks.curriculum.state_dict()
    assert state["sums"]
    assert resumed.tasks.curriculum.state_dict() == state
    found = json.loads((checkpoint / CURRICULUM_FILE).read_text())
    assert found["state"] != state
    new = make_trainer(**{**options, "curriculum": "band"})
    with pytest.raises(ValueError, match="want a checkpoint of curriculum"):
        new.tasks.load(checkpoint)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"curriculum": "bnad"}, "did you mean 'band'"),
        ({"curriculum": "band"}, "want at least two games"),
        (
            {"curriculum": "band", "games": ["kuhn_poker", THREE]},
            "in self-play of kuhn_poker is the same in every episode",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(make_trainer, options, message):
    with pytest.raises(ValueError, match=message):
        make_trainer(**options)
