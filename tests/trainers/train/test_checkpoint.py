"""Checkpoints: whole or not valid; a run goes on with the credit's state that it had."""

import os
import shutil

import pytest
import torch

import arena_envs
from arena_trainers.checkpoint import (
    MANIFEST,
    fault,
    files_of,
    newest_checkpoint,
    rotate,
    step_of,
    write_manifest,
)
from arena_trainers.train import CREDIT_STATE, FeatureCritic
from arena_trainers.train.checkpoint import load_credit, save_credit

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


def checkpoint(folder, step, **facts):
    """A whole checkpoint of two files."""
    path = folder / f"checkpoint-{step}"
    (path / "inner").mkdir(parents=True)
    (path / "model.safetensors").write_text("weights")
    (path / "inner" / "optimizer.pt").write_text("moments")
    write_manifest(path, files_of(path), **facts)
    return path


def rewrite(path, text):
    path.write_text(text)
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**9))  # hashes are kept by time


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda c: (c / MANIFEST).unlink(), "it has no manifest.json"),
        (lambda c: (c / MANIFEST).write_text('{"fil'), "manifest.json cannot be read"),
        (lambda c: (c / MANIFEST).write_text("[]"), "manifest.json cannot be read"),
        (
            lambda c: (c / "inner/optimizer.pt").unlink(),
            "inner/optimizer.pt is missing",
        ),
        (
            lambda c: rewrite(c / "model.safetensors", "weig"),
            "model.safetensors has 4 bytes, 7 were written",
        ),
        (
            lambda c: rewrite(c / "model.safetensors", "WEIGHTS"),
            "model.safetensors was changed",
        ),
    ],
)
def test_the_newest_whole_checkpoint_is_found_and_others_are_named(
    tmp_path, damage, message
):
    first, second = (checkpoint(tmp_path, step) for step in (9, 10))
    assert newest_checkpoint(tmp_path) == (second, [])
    damage(second)
    found, (clause,) = newest_checkpoint(tmp_path)
    assert found == first
    assert clause.startswith("checkpoint-10: ")
    assert message in clause


def test_a_checkpoint_needs_the_files_elsewhere_that_it_names(tmp_path):
    path, snapshot = checkpoint(tmp_path, 1), tmp_path / "step-0.safetensors"
    snapshot.write_text("snapshot")
    write_manifest(path, [*files_of(path), snapshot])
    assert fault(path) is None
    snapshot.unlink()
    assert fault(path) == "../step-0.safetensors is missing"


def test_a_checkpoint_of_the_model_alone_does_not_resume(tmp_path):
    found = newest_checkpoint(checkpoint(tmp_path, 1, resumes=False).parent)
    assert found.checkpoint is None
    assert "save_only_model" in found.skipped[0]


@pytest.mark.parametrize(
    ("limit", "kept"),
    [
        (None, [1, 2, 3, 4, 6]),
        (1, [1, 4]),
        (2, [1, 3, 4]),
        (5, [1, 2, 3, 4]),
        (9, [1, 2, 3, 4]),
    ],
)
def test_the_last_checkpoints_stay_and_the_best_one(tmp_path, limit, kept):
    """Step 6 is of a run that was resumed before it."""
    made = {step: checkpoint(tmp_path, step) for step in (1, 2, 3, 4, 6)}
    rotate(made[4], limit, best=str(made[1]))
    assert sorted(map(step_of, tmp_path.iterdir())) == kept


def test_what_was_never_finished_takes_no_place_of_a_whole_checkpoint(tmp_path):
    made = [checkpoint(tmp_path, step) for step in (1, 2, 3)]
    (made[1] / MANIFEST).unlink()
    rotate(made[2], 2)
    assert sorted(tmp_path.iterdir()) == [made[0], made[2]]


PAST = {"past_selves": {"every": 1}}


class Killed(BaseException):
    """Takes the place of SIGKILL: no code of a checkpoint handles it."""


class KilledAt:
    """Raises `Killed` in place of the n-th call that changes files."""

    def __init__(self, patch, number):
        self.left = number
        for place, name in ((torch, "save"), (os, "replace"), (shutil, "rmtree")):
            patch.setattr(place, name, self.counted(getattr(place, name)))

    def counted(self, function):
        def call(*args, **kwargs):
            self.left -= 1
            if self.left < 0:
                raise Killed
            return function(*args, **kwargs)

        return call


def test_a_run_killed_at_any_write_has_a_whole_checkpoint(
    make_trainer, monkeypatch, tmp_path
):
    trainer = make_trainer(
        credit="gae",
        critic="features",
        opponents=PAST,
        beta=0.1,
        sync_ref_model=True,
        save_strategy="steps",
        save_steps=1,
        save_total_limit=1,
    )
    trainer.train()
    out, handler = tmp_path / "out", trainer.callback_handler
    told = trainer.args, trainer.state, trainer.control
    handler.on_train_begin(*told)
    kills, is_killed = 0, True
    while is_killed:
        trainer.state.global_step += 1
        handler.on_step_begin(*told)
        with monkeypatch.context() as patch:
            KilledAt(patch, kills)
            try:
                trainer._save_checkpoint(trainer.model, None)
                handler.on_save(*told)
                is_killed = False
            except Killed:
                kills += 1
        assert newest_checkpoint(out).checkpoint is not None
    assert kills >= 5
    (left,) = out.glob("checkpoint-*")
    assert step_of(left) == trainer.state.global_step


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of transformers
def test_a_trainer_takes_the_newest_whole_checkpoint_and_refuses_others(
    make_trainer, tmp_path
):
    options = {"max_steps": 2, "save_strategy": "steps", "save_steps": 1}
    make_trainer(**options).train()
    last = tmp_path / "out" / "checkpoint-2"
    (last / "rng_state.pth").unlink()
    trainer = make_trainer(**options)
    with pytest.raises(ValueError, match=r"checkpoint-2': rng_state.pth is missing"):
        trainer.train(resume_from_checkpoint=str(last))
    with pytest.warns(UserWarning, match="skipped checkpoint-2: rng_state.pth is miss"):
        trainer.train(resume_from_checkpoint=True)
    assert fault(last) is None
    for path in last.parent.glob("checkpoint-*"):
        shutil.rmtree(path)
    with pytest.raises(ValueError, match="want a valid checkpoint in"):
        trainer.train(resume_from_checkpoint=True)


def test_a_checkpoint_without_what_a_run_keeps_is_refused(make_trainer, tmp_path):
    options = {"max_steps": 1, "save_strategy": "steps", "save_steps": 1}
    make_trainer(**options).train()
    checkpoint = str(tmp_path / "out" / "checkpoint-1")
    moving = make_trainer(beta=0.1, sync_ref_model=True)
    with pytest.raises(ValueError, match=r"want reference_model\.pt in a checkpoint"):
        moving.train(resume_from_checkpoint=checkpoint)
    other = make_trainer(credit="rae")
    with pytest.raises(ValueError, match="credit 'rae', got one of 'control_variates'"):
        other.train(resume_from_checkpoint=checkpoint)
