"""Our own step from rows to TRL's loss: it gives the columns and the weights of TRL's own method."""

import gc
import re
import weakref
from pathlib import Path

import pytest
import torch
import trl
from peft import LoraConfig
from transformers import AutoTokenizer, TrainerCallback
from trl import GRPOTrainer

import arena_trainers
from arena_envs.extras import import_extra
from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer
from arena_trainers.train.score.tensors import row_tensors

TRANSCRIPT = {
    "history": "transcript",
    "layout": "trajectory",
    "max_completion_length": 3,
}


def handed_over(prompts, trainer):
    """What TRL's rollout function returns: the rows, which have been played."""
    rows = trainer._rows
    return {
        "prompt_ids": [list(row.prompt_ids) for row in rows],
        "completion_ids": [list(row.completion_ids) for row in rows],
        "logprobs": [
            [x * own for x, own in zip(row.logprobs, row.loss_mask, strict=False)]
            or [0.0] * len(row.completion_ids)
            for row in rows
        ],
        "env_mask": [list(row.loss_mask) for row in rows],
        "paid": [row.episode_return for row in rows],
    }


def scored_by_trl(trainer):
    """The batch that TRL makes of the rows that were played last."""
    trainer.rollout_func = handed_over
    trainer.reward_funcs = [lambda paid, **_: paid]
    trainer.beta = trainer.args.beta
    labels = [{"prompt": "again"} for _ in trainer._rows]
    return GRPOTrainer._generate_and_score_completions(trainer, labels)


class ScoredByTRL(TurnGRPOTrainer):
    """Trains the columns that TRL's own method makes, but for the advantages."""

    def _generate_and_score_completions(self, inputs):
        ours = super()._generate_and_score_completions(inputs)
        theirs = scored_by_trl(self)
        return {**ours, **theirs, "advantages": ours["advantages"]}


@pytest.fixture
def make(model_folder, settings):
    def make(kind=TurnGRPOTrainer, **overrides):
        lora = overrides.pop("lora", None)
        args = TurnGRPOConfig(**{**settings, **overrides})
        tokenizer = AutoTokenizer.from_pretrained(model_folder)
        given = {"processing_class": tokenizer, "peft_config": lora}
        return kind(str(model_folder), args, **given)

    return make


def lora():
    return LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")


@pytest.mark.parametrize(
    "options",
    [
        {"beta": 0.1, "num_iterations": 2},
        {"mask_truncated_completions": True, "pad_to_multiple_of": 8},
        {"beta": 0.1, "num_iterations": 2, "lora": True, **TRANSCRIPT},
    ],
)
def test_the_columns_of_the_loss_are_those_that_trl_makes_of_the_rows(
    make, generated, options
):
    own = {"lora": lora()} if options.get("lora") else {}
    trainer = make(**{**options, **own})
    ours = generated(trainer)
    theirs = scored_by_trl(trainer)
    trained = ours["tool_mask"] * ours["completion_mask"]
    assert torch.equal(trained, theirs["tool_mask"] * theirs["completion_mask"])
    assert trained.any()
    assert theirs.keys() <= ours.keys()
    for name in theirs.keys() - {"tool_mask", "advantages"}:
        torch.testing.assert_close(ours[name], theirs[name], atol=1e-6, rtol=0)


def test_episode_credit_of_one_learning_seat_is_exactly_that_of_trl(make, generated):
    """Seat 1 of Kuhn poker has one turn, so TRL's rows are its episodes."""
    trainer = make(credit="episode", opponents=["random", "self"])
    ours = generated(trainer)["advantages"]
    theirs = scored_by_trl(trainer)["advantages"]
    assert theirs.abs().max() > 0.5
    torch.testing.assert_close(ours[:, 0], theirs, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    "mode", ["token_truncate", "token_mask", "sequence_mask", "sequence_truncate"]
)
def test_the_correction_of_sampled_logprobs_is_that_of_trl(make, generated, mode):
    trainer = make(
        vllm_importance_sampling_mode=mode,
        vllm_importance_sampling_clip_max=1.05,
        temperature=0.7,
    )
    trainer.use_vllm, trainer._last_loaded_step = True, 0
    generated(trainer)
    for row in trainer._rows:
        row.logprobs = [x - 0.1 * i for i, x in enumerate(row.logprobs, 1)]
    ours = row_tensors(trainer._rows, trainer)
    trainer._metrics["train"].clear()
    ours |= trainer.forward.loss_columns(ours, trainer._rows)
    logged = dict(trainer._metrics["train"])
    trainer._metrics["train"].clear()
    theirs = scored_by_trl(trainer)
    name = "importance_sampling_ratio"
    assert (theirs[name] == 1).any() != (theirs[name] != 1).all()
    torch.testing.assert_close(ours[name], theirs[name])
    for key, values in trainer._metrics["train"].items():
        if key.startswith("sampling/"):
            assert logged[key] == pytest.approx(values), key


def test_the_table_of_completions_has_texts_returns_and_advantages(make):
    trainer = make(log_completions=True, logging_steps=1)
    trainer.train()
    (path,) = Path(trainer.args.output_dir).glob("completions/*.parquet")
    table = import_extra("pyarrow.parquet", "train").read_table(path).to_pandas()
    rows = [row for row in trainer._rows if row.advantage is not None][-len(table) :]
    said = [trainer.policy.tokenizer.decode(row.completion_ids) for row in rows]
    assert table["completion"].tolist() == said
    assert table["return"].tolist() == [row.episode_return for row in rows]
    means = [row.advantage.mean() for row in rows]
    assert table["advantage"].tolist() == pytest.approx(means)


@pytest.mark.slow
def test_full_garbage_collections_leave_out_what_was_there_before_training(make):
    trainer, seen = make(), []

    class Count(TrainerCallback):
        def on_step_end(self, *_, **__):
            seen.append(gc.get_freeze_count())

    trainer.add_callback(Count())
    gc.unfreeze()  # what others have frozen
    try:
        trainer.train()
        assert seen[0] > 10_000
        assert gc.get_freeze_count() == 0
    finally:
        gc.freeze()


@pytest.mark.slow
def test_what_an_earlier_run_left_is_freed_before_training(make):
    trainer, left, seen = make(), type("Left", (), {})(), []
    left.itself, ref = left, weakref.ref(left)

    class Look(TrainerCallback):
        def on_train_begin(self, *_, **__):
            seen.append(ref())

    trainer.add_callback(Look())
    gc.unfreeze()  # what others have frozen
    gc.disable()
    try:
        del left
        trainer.train()
        assert seen == [None]
    finally:
        gc.enable()
        gc.freeze()


CASES = [
    *({"loss_type": name} for name in ("grpo", "dr_grpo", "dapo", "bnpo", "cispo")),
    {"beta": 0.1, "gradient_accumulation_steps": 2},
    {"num_iterations": 2, "gradient_accumulation_steps": 1, "loss_type": "grpo"},
    {"lora": True, "beta": 0.1, "steps_per_generation": 2},
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:all advantages of this batch")
@pytest.mark.parametrize("options", CASES)
def test_twenty_steps_end_with_the_weights_of_trls_own_scoring(make, options):
    ends = []
    for kind in (TurnGRPOTrainer, ScoredByTRL):
        own = {"lora": lora()} if options.get("lora") else {}
        trainer = make(kind, **{**options, **own, "max_steps": 20})
        before = [p.clone() for p in trainer.model.parameters()]
        trainer.train()
        ends.append([p.detach().clone() for p in trainer.model.parameters()])
    assert any(not torch.equal(a, b) for a, b in zip(before, ends[0], strict=True))
    for one, other in zip(*ends, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


def test_one_module_reads_what_is_private_to_trl_1_16():
    """A newer TRL: read the table of `arena_trainers.train.trainer` against it, then change this."""
    assert trl.__version__.startswith("1.16.")
    root = Path(arena_trainers.__file__).parent
    own = {name for name in vars(TurnGRPOTrainer) if name.startswith("_")} | {"_rows"}
    for path in [*root.glob("train/**/*.py"), *root.glob("engines/*.py")]:
        if path.name != "trainer.py":
            read = set(re.findall(r"trainer\.(_[a-z]\w*)", path.read_text()))
            assert read <= own - {*vars(GRPOTrainer)}, path.name
