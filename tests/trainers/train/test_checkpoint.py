"""Checkpoints of credit: a run goes on with the state and the critic that it had."""

import pytest

import arena_envs
from arena_trainers.train import CREDIT_STATE
from arena_trainers.train.checkpoint import load_credit, save_credit
from arena_trainers.train.critics import FeatureCritic

KUHN = arena_envs.make_game("kuhn_poker")
STATE = {"pool": ["game", "seat"], "baselines": [[0, 0, 0.5]]}


def owner(credit, critic=None, games=("kuhn_poker",)):
    return {"credit": credit, "critic": critic, "games": list(games)}


def critic_of(name):
    return FeatureCritic([KUHN]) if name == "features" else None


MARS, OTHER_GAME = owner("mars"), owner("mars", games=["nim"])
RAE, GAE = owner("rae"), owner("gae", "features")
EXACT = owner("gae", "exact")


@pytest.mark.parametrize(
    ("saved", "loaded", "message"),
    [
        (MARS, RAE, "want a checkpoint of credit 'rae', got one of 'mars'"),
        (RAE, MARS, "want a checkpoint of credit 'mars', got one of 'rae'"),
        (MARS, GAE, "want a checkpoint of credit 'gae', got one of 'mars'"),
        (GAE, MARS, "want a checkpoint of credit 'mars', got one of 'gae'"),
        (EXACT, GAE, "want a checkpoint of critic 'features', got one of 'exact'"),
        (GAE, EXACT, "want a checkpoint of critic 'exact', got one of 'features'"),
        (RAE, owner("rae", games=["nim"]), r"of games \['nim'\], got one of \['kuhn_"),
    ],
)
def test_states_and_critics_of_others_are_refused(tmp_path, saved, loaded, message):
    state = STATE if saved["credit"] == "rae" else None
    save_credit(tmp_path, saved, state, critic_of(saved["critic"]))
    with pytest.raises(ValueError, match=message):
        load_credit(tmp_path, loaded, critic_of(loaded["critic"]))


@pytest.mark.parametrize(
    ("saved", "loaded"),
    [(MARS, owner("rloo")), (MARS, OTHER_GAME), (MARS, EXACT), (EXACT, MARS)],
)
def test_runs_that_keep_nothing_may_change(tmp_path, saved, loaded):
    save_credit(tmp_path, saved, None)
    assert load_credit(tmp_path, loaded) is None


@pytest.mark.parametrize("loaded", [RAE, GAE])
def test_a_checkpoint_that_says_nothing_is_refused_where_something_is_kept(
    tmp_path, loaded
):
    message = f"checkpoint of credit '{loaded['credit']}' .* without {CREDIT_STATE}"
    with pytest.raises(ValueError, match=message):
        load_credit(tmp_path, loaded, critic_of(loaded["critic"]))
    assert load_credit(tmp_path, MARS) is None


def test_a_run_goes_on_with_what_it_had(tmp_path):
    save_credit(tmp_path, RAE, STATE)
    assert load_credit(tmp_path, RAE) == STATE


def test_a_trainer_of_another_estimator_does_not_resume(make_trainer, tmp_path):
    options = {"max_steps": 1, "save_strategy": "steps", "save_steps": 1}
    make_trainer(output_dir=str(tmp_path / "one"), **options).train()
    other = make_trainer(output_dir=str(tmp_path / "other"), credit="rae", **options)
    with pytest.raises(ValueError, match="credit 'rae', got one of 'mars'"):
        other.train(resume_from_checkpoint=str(tmp_path / "one" / "checkpoint-1"))
