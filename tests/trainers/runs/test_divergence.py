"""Training stops at the first number that is not finite; no file gets such weights, or is read with them."""

import math
import shutil

import pytest
import torch
import yaml
from rich.console import Console
from transformers import AutoModelForCausalLM, TrainerCallback

from arena_trainers.checkpoint import files_of, write_manifest
from arena_trainers.data import legal_play
from arena_trainers.finite import (
    Diverged,
    how_to_begin_anew,
    last_finite,
    weights_fault,
)
from arena_trainers.lm.merge import write_merged
from arena_trainers.matchmaking.snapshots import SnapshotStore
from arena_trainers.offline import kto, pairs, sft, warm_start
from arena_trainers.offline.batches import WholeSteps
from arena_trainers.runs.folder import write_config
from arena_trainers.runs.resuming import checkpoint_to_begin_from
from arena_trainers.train.checkpoint import save_credit
from arena_trainers.train.finite_steps import FiniteSteps
from arena_trainers.train.trainer import TurnGRPOTrainer
from arena_trainers.train.whole_checkpoints import whole_checkpoint
from arena_wrappers import play, write_episodes

SAVES = {"save_strategy": "steps", "save_steps": 1, "max_steps": 3}


class Poison(TrainerCallback):
    """Makes a gradient infinite in a step, after it was clipped."""

    def __init__(self, model, step):
        self.model, self.step = model, step

    def on_step_begin(self, args, state, control, **kwargs):
        weight = next(self.model.parameters())
        if state.global_step == self.step - 1:
            weight.register_hook(lambda grad: grad * math.inf)


def poisoned(folder, to):
    """A copy of a model with a weight that is NaN, whole by its manifest."""
    shutil.copytree(folder, to)
    model = AutoModelForCausalLM.from_pretrained(to)
    with torch.no_grad():
        model.get_input_embeddings().weight[0, 0] = math.nan
    model.save_pretrained(to)
    write_manifest(to, files_of(to), processes=1)
    return to


@pytest.fixture
def run_folder(model_folder, tmp_path):
    """A run with a finite checkpoint, and a later one that is not."""
    run = tmp_path / "run"
    shutil.copytree(model_folder, run / "checkpoint-2")
    write_manifest(run / "checkpoint-2", files_of(run / "checkpoint-2"), processes=1)
    poisoned(model_folder, run / "checkpoint-4")
    write_config(run, yaml.safe_dump({"learning_rate": 0.02}))
    return run


def test_self_play_stops_at_an_infinite_gradient_and_keeps_the_step_before(
    make_trainer, settings
):
    trainer = make_trainer(**SAVES)
    trainer.add_callback(Poison(trainer.model, 2))
    with pytest.raises(Diverged, match="at step 2: got the norm of the gradient"):
        trainer.train()
    assert all(p.isfinite().all() for p in trainer.model.parameters())


def test_weights_that_an_update_makes_infinite_are_not_saved(make_trainer, tmp_path):
    trainer = make_trainer(**SAVES, learning_rate=1e38, max_grad_norm=0.0)
    with pytest.raises(Diverged, match="the model after step 1, got NaN or infinity"):
        trainer.train()
    assert not list((tmp_path / "out").glob("checkpoint-*"))
    with pytest.raises(Diverged):
        trainer.save_model(str(tmp_path / "model"))
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    "kind",
    [
        TurnGRPOTrainer,
        WholeSteps,  # plug-ins must be such
        pairs.TokenDPOTrainer,
        kto.TokenKTOTrainer,
        pairs.TokenRewardTrainer,
        sft.WeightedSFTTrainer,
        warm_start._WarmStart,
    ],
)
def test_every_trainer_stops(kind):
    assert issubclass(kind, FiniteSteps)
    assert kind.training_step.__qualname__ in (
        f"{kind.__name__}.training_step",
        "FiniteSteps.training_step",
        "WholeSteps.training_step",
    )


def test_a_run_on_rows_ends_with_what_to_do(arena_here, tmp_path, kuhn_env):
    write_episodes(tmp_path / "e.jsonl", play(kuhn_env, "random", range(9)))
    words = ["data", "select", "e.jsonl", "--by", "wins", "--model", "tiny", "--out"]
    assert arena_here(*words, "r.parquet", cwd=tmp_path).returncode == 0
    words = ["--trainer", "sft", "--data", "r.parquet", "--learning_rate", "1e38"]
    words += ["--tiny.hidden_size", 16, "--tiny.num_layers", 1, "--evaluate_every", 0]
    words += ["--callbacks.eval_episodes", 4, "--max_steps", 4, "--save_steps", 3]
    done = arena_here("train", *words, "--output-dir", "run", cwd=tmp_path)
    assert done.returncode == 1
    assert "error: training has diverged at step 2: got the loss nan" in done.stderr
    assert "no finite checkpoint was saved; begin anew" in done.stderr
    command = done.stderr.splitlines()[-1]
    assert command == (
        "arena train run/config.yaml --output-dir run-anew --learning_rate 1e+37"
    )
    assert not list(tmp_path.glob("run/checkpoint-*"))
    assert not (tmp_path / "run" / "model").exists()


def test_a_supervised_start_stops(policy, kuhn_env):
    examples = legal_play([kuhn_env], 10, seed=0)
    with pytest.raises(Diverged, match=r"at step 2.* lower warm_start_learning_rate"):
        warm_start.warm_start(
            policy, examples, num_steps=3, learning_rate=1e38, batch_size=8
        )


def test_a_critic_with_weights_that_are_not_finite_is_not_saved(tmp_path):
    class Critic:
        def state_dict(self):
            return {"networks": [{"weight": torch.tensor([1.0, math.nan])}]}

    with pytest.raises(Diverged, match=r"the critic, .* networks\.0\.weight"):
        save_credit(tmp_path, {"credit": "mars"}, None, Critic())
    assert list(tmp_path.iterdir()) == []


def test_a_snapshot_of_weights_that_are_not_finite_is_not_taken(policy, tmp_path):
    with torch.no_grad():
        policy.model.get_input_embeddings().weight[0, 0] = math.inf
    with pytest.raises(Diverged, match="the snapshot of step 1"):
        SnapshotStore(policy, tmp_path, 2, writes=True).take(1)
    assert list(tmp_path.iterdir()) == []


def test_the_last_finite_checkpoint_is_named(run_folder):
    assert weights_fault(run_folder / "checkpoint-4").startswith(
        "model.safetensors holds NaN or infinity in "
    )
    assert last_finite(run_folder) == run_folder / "checkpoint-2"
    assert f"checkpoint is {run_folder / 'checkpoint-2'};" in how_to_begin_anew(
        run_folder
    )
    assert how_to_begin_anew(run_folder).endswith("--learning_rate 0.002")


def test_a_loop_that_diverged_begins_anew_with_a_lower_rate_of_its_rounds(tmp_path):
    settings = {"rounds": {"train": [{"trainer": "sft", "learning_rate": 0.1}]}}
    write_config(tmp_path, yaml.safe_dump(settings))
    assert how_to_begin_anew(tmp_path).endswith("--rounds.train.learning_rate 0.01")


def test_a_run_does_not_resume_from_weights_that_are_not_finite(
    run_folder, model_folder
):
    class Args:
        process_index, world_size = 0, 1

    with pytest.raises(ValueError, match=r"finite checkpoint is .*checkpoint-2; begin"):
        checkpoint_to_begin_from(
            run_folder, model_folder, Args(), Console().print, resume=True
        )


def test_a_trainer_does_not_resume_from_weights_that_are_not_finite(run_folder):
    with pytest.raises(
        ValueError, match=r"checkpoint-4', but model\.safetensors holds"
    ):
        whole_checkpoint(run_folder, True)


def test_weights_that_are_not_finite_are_not_exported(model_folder, tmp_path):
    source = poisoned(model_folder, tmp_path / "nan")
    with pytest.raises(Diverged, match="want finite weights"):
        write_merged(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_evaluation_of_a_model_that_diverged_ends_in_a_sentence(
    arena_here, model_folder, tmp_path
):
    source = poisoned(model_folder, tmp_path / "nan")
    done = arena_here("eval", f"lm:{source}", "kuhn_poker", "-n", 2)
    assert done.returncode == 1
    assert "its weights have diverged" in done.stderr
