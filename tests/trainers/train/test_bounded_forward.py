"""Each distinct row runs once, in chunks: the gradient is TRL's for every loss and bound."""

import ctypes
import gc
import re
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig
from trl import GRPOTrainer

from arena_trainers.lm.backends import memory as backend_memory
from arena_trainers.lm.backends.activations import Passes, activation_bytes
from arena_trainers.runs import tiny_model
from arena_trainers.train.score import forward
from arena_trainers.train.score.packing import distinct_rows

TWO_BATCHES = {"gradient_accumulation_steps": 2, "steps_per_generation": 2}
LORA = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
OFF_POLICY = {"num_iterations": 2, "learning_rate": 1e-2}


def trl_scores(trainer, *args, **kwargs):
    """TRL's own log-probabilities: every row runs, all at once."""
    return GRPOTrainer._get_per_token_logps_and_entropies(trainer, *args, **kwargs)


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    """Sets the free memory; by default there is none, so that chunks run again."""

    def set_to(num_bytes):
        monkeypatch.setattr(forward, "free_memory", lambda device: num_bytes)

    set_to(0)
    return set_to


def gradient(trainer, batches, max_tokens=None):
    """Gradient of a step over micro-batches, and the loss; by TRL alone without a bound."""
    trainer.model.zero_grad()
    original = trainer._get_per_token_logps_and_entropies
    if max_tokens is None:
        trainer._get_per_token_logps_and_entropies = lambda *a, **k: trl_scores(
            trainer, *a, **k
        )
    else:
        trainer.forward.max_tokens = max_tokens
    trainer.current_gradient_accumulation_steps = len(batches)
    total = 0.0
    for batch in batches:
        loss = trainer._compute_loss(trainer.model, batch)
        loss.backward()
        total += loss.item()
    trainer._get_per_token_logps_and_entropies = original
    parts = [p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None]
    return torch.cat(parts).clone(), total


def micro_batches(trainer):
    """The micro-batches of one generation."""
    trainer.model.train()
    starts = [
        trainer.train_dataset[i // trainer.num_generations]
        for i in range(trainer.args.generation_batch_size)
    ]
    trainer._prepare_inputs(starts)
    return trainer._buffered_inputs


def moved(trainer):
    """Moves the weights, so that ratios are not 1 and some of them are clipped."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in trainer.model.parameters():
            weight += 0.05 * torch.randn(weight.shape, generator=generator)


OTHER_LOSSES = (
    {"loss_type": "bnpo"},
    {"loss_type": "grpo"},
    {"loss_type": "dr_grpo"},
    {"loss_type": "cispo", "epsilon_high": 1.1},
    {"loss_type": "sapo"},
    {"loss_type": "vespo"},
    {"loss_type": "grpo", "importance_sampling_level": "sequence"},
)


def nightly(options):
    return pytest.param(options, marks=pytest.mark.slow)


@pytest.mark.parametrize("beta", [nightly(0.0), 0.3])
@pytest.mark.parametrize(
    "options",
    [
        {"loss_type": "dapo"},
        *map(nightly, OTHER_LOSSES),
        {"loss_type": "luspo", "importance_sampling_level": "sequence"},
        nightly({"loss_type": "dapo", "delta": 1.4, "use_bias_correction_kl": True}),
        {"loss_type": "dapo", "entropy_coef": 0.1},
        {"loss_type": "dapo", "top_entropy_quantile": 0.5},
        {"loss_type": "dapo", "off_policy_mask_threshold": 0.01},
        {"layout": "trajectory", "history": "transcript", "on_invalid": "random"},
        {"gradient_checkpointing": True},
        {"peft_config": LORA},
    ],
    ids=lambda options: "-".join(str(value)[:8] for value in options.values()),
)
def test_the_gradient_is_that_of_all_rows_at_once(make_trainer, options, beta):
    """Two micro-batches, off-policy; bounds of one chunk, some chunks, and row by row."""
    trainer = make_trainer(
        **TWO_BATCHES, **OFF_POLICY, **options, beta=beta, episodes_per_step=16
    )
    batches = micro_batches(trainer)
    moved(trainer)
    wanted, loss = gradient(trainer, batches)
    assert wanted.norm() > 1e-3
    for bound in (10_000, 200, 1):
        got, got_loss = gradient(trainer, batches, bound)
        np.testing.assert_allclose(got, wanted, atol=1e-6 * max(1, wanted.abs().max()))
        assert got_loss == pytest.approx(loss, abs=1e-6)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_what_memory_holds_is_not_run_again_and_the_gradient_has_the_same_bits(
    make_trainer, memory, checkpointing
):
    options = {"episodes_per_step": 16, "gradient_checkpointing": checkpointing}
    trainer = make_trainer(**options, beta=0.3)
    (batch,) = micro_batches(trainer)
    moved(trainer)
    shapes, found = shapes_run(trainer.model), []
    for free in (0, 2**40):
        memory(free)
        shapes.clear()
        found.append((gradient(trainer, [batch], 100)[0], len(shapes)))
    (again, num_again), (kept, num_kept) = found
    assert num_again == 2 * num_kept - 1 > num_kept
    assert torch.equal(again, kept)


def shapes_run(*models):
    """Collects the shapes of what runs through the models from here on."""
    shapes = []

    def note(module, args, kwargs):
        shapes.append(tuple(kwargs["input_ids"].shape))

    for model in models:
        model.register_forward_pre_hook(note, with_kwargs=True)
    return shapes


def test_equal_rows_run_once_and_rows_without_gradient_not_at_all(make_trainer):
    pool = {
        "credit": "random_effects",
        "credit_args": {"pool": ["group", "seat"]},
    }  # pairs of equal return: 0
    trainer = make_trainer(episodes_per_step=32, **pool)
    (batch,) = micro_batches(trainer)
    shapes = shapes_run(trainer.model)
    mask = (batch["completion_mask"] * batch["tool_mask"]).bool()
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    trained = (mask & (batch["advantages"] != 0)).any(dim=1)
    different = {tuple(row) for row in ids[trained].tolist()}
    assert 0 < len(different) < trained.sum() < len(ids)
    gradient(trainer, [batch], 10_000)
    width = batch["prompt_ids"].shape[1]
    prompts = {row[:width] for row in different}
    ((num_rows, _),) = shapes  # replies of a prompt share a row
    assert 0 < num_rows <= len(prompts) < len(different)
    logged = trainer._metrics["train"]
    real = int(mask.any(dim=1).sum())
    assert logged["arena/rows_run"] == [len(different) / real]
    unused = [i for i in range(len(ids)) if tuple(ids[i].tolist()) not in different]
    dropped = sum(bool(mask[i].any()) for i in unused)
    assert logged["arena/rows_dropped"] == [dropped / real]


def test_without_advantages_one_row_runs_and_the_gradient_is_zero(make_trainer):
    trainer = make_trainer()
    (batch,) = micro_batches(trainer)
    batch["advantages"] = torch.zeros_like(batch["advantages"])
    got, loss = gradient(trainer, [batch], 10_000)
    assert (got == 0).all()
    assert loss == 0


def test_no_pass_of_model_or_reference_exceeds_the_bound(make_trainer, monkeypatch):
    trainer = make_trainer(beta=0.1, max_tokens_per_forward=100)
    shapes, play = shapes_run(trainer.model, trainer.ref_model), trainer.player.play

    def unseen(*inputs):
        played = play(*inputs)
        shapes.clear()  # play has a bound of its own
        return played

    monkeypatch.setattr(trainer.player, "play", unseen)
    trainer.train()
    assert len(shapes) > 4
    assert all(rows * width <= 100 for rows, width in shapes)


def test_the_vocabulary_is_scored_at_replies_alone(make_trainer, monkeypatch):
    from trl.trainer import utils

    trainer = make_trainer()
    (batch,) = micro_batches(trainer)
    scored = []
    inner = utils._ChunkedLogProbFunction.apply

    def score(hidden, *args):
        scored.append(len(hidden))
        return inner(hidden, *args)

    run = []
    trainer.model.register_forward_pre_hook(
        lambda module, args, kwargs: run.append(kwargs), with_kwargs=True
    )
    monkeypatch.setattr(utils._ChunkedLogProbFunction, "apply", score)
    gradient(trainer, [batch], 10_000)
    assert scored == [inputs["shift_labels"].numel() for inputs in run]
    assert all(
        s < inputs["input_ids"].numel() / 2
        for s, inputs in zip(scored, run, strict=True)
    )


def peak_memory(run):
    """Kilobytes by which a call raises the resident memory of this process at its peak.

    Bytes of live tensors would not show what many of different sizes leave unusable.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    before = status_kilobytes("VmRSS")
    run()
    return status_kilobytes("VmHWM") - before


def status_kilobytes(name):
    return int(
        re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]
    )


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_joining_4000_rows_takes_less_than_half_of_their_logits_and_states(
    make_trainer, memory
):
    trainer = make_trainer(max_tokens_per_forward=8192)
    memory(2**40)  # nothing runs again
    forward = trainer.forward
    ids = torch.randint(4, 14, (4000, 9), generator=torch.Generator().manual_seed(0))
    rows = ids, torch.ones_like(ids)

    def score_and_learn():
        forward.score(trainer.model, *rows, 8, False).logprobs.sum().backward()

    def learn_from_each_chunk():
        chunks = forward._chunks(trainer.model, rows, 8)
        scores = [forward._score_chunk(trainer.model, c, False)[0] for c in chunks]
        sum(of_chunk.sum() for of_chunk in scores).backward()

    learn_from_each_chunk()  # makes what stays, such as gradients
    logits_and_states = peak_memory(learn_from_each_chunk)
    assert peak_memory(score_and_learn) < 1.5 * logits_and_states


def test_padding_does_not_tell_rows_apart():
    ids = torch.tensor([[9, 1, 2, 3], [8, 1, 2, 3], [8, 1, 2, 4], [1, 1, 2, 3]])
    mask = torch.tensor([[0, 1, 1, 1]] * 3 + [[1, 1, 1, 1]])
    live = torch.tensor([True, True, False, True])
    firsts, kind = distinct_rows(ids, mask, live)
    assert firsts == [0, 3]
    assert kind.tolist() == [0, 0, -1, 1]


def test_every_chunk_but_of_a_single_row_is_within_the_bound():
    rng = np.random.default_rng(0)
    prompts, replies = rng.integers(1, 30, 50).tolist(), rng.integers(1, 9, 50).tolist()
    chunks = backend_memory.chunks_by_length(prompts, replies, 35)
    assert sorted(i for chunk in chunks for i in chunk) == list(range(50))
    for chunk in chunks:
        width = max(prompts[i] for i in chunk) + max(replies[i] for i in chunk)
        assert len(chunk) == 1 or len(chunk) * width <= 35


def test_the_default_bound_follows_the_free_memory(tokenizer, monkeypatch):
    monkeypatch.setattr(backend_memory, "free_memory", lambda device: 2**30)
    model = tiny_model(tokenizer, hidden_size=16, num_layers=8)
    tokens = backend_memory.default_max_tokens(model, model.device)
    assert tokens & (tokens - 1) == 0
    bytes_of = partial(activation_bytes, model.config, passes=Passes())
    assert bytes_of(tokens) <= 2**29 < 1.01 * bytes_of(2 * tokens)
    checkpointed = backend_memory.default_max_tokens(
        model, model.device, checkpointing=True
    )
    assert tokens < checkpointed
    monkeypatch.setattr(backend_memory, "free_memory", lambda device: 0)
    assert (
        backend_memory.default_max_tokens(model, model.device) == backend_memory.LEAST
    )


def test_scores_do_not_depend_on_the_free_memory_where_there_is_enough(
    tokenizer, monkeypatch
):
    model = tiny_model(tokenizer, hidden_size=16)
    tokens = []
    for free in (2**20, 2**33, 2**40):
        monkeypatch.setattr(backend_memory, "free_memory", lambda device, f=free: f)
        tokens.append(backend_memory.default_forward_tokens(model, model.device))
    assert tokens[0] < tokens[1] == tokens[2] == backend_memory.MOST_SCORED["cpu"]
