"""Attention by blocks: the scores and gradients of the dense mask, without its memory."""

import numpy as np
import pytest
import torch
from torch.nn.attention.bias import causal_lower_right

from arena_trainers.runs import tiny_model
from arena_trainers.train.score import blocks
from arena_trainers.train.score.blocks import (
    _row_blocks,
    attends_in_blocks,
    block_inputs,
)
from arena_trainers.train.score.heads import plain_scores
from arena_trainers.train.score.packing import model_inputs, packed_rows
from arena_trainers.train.score.tensors import prompts_with_replies

# lengths of prompts (equal prompts, and one that begins another) and of replies
ROWS = [(9, 4), (9, 2), (9, 3), (5, 2), (3, 6), (1, 1)]


@pytest.fixture
def packed(tokenizer):
    generator = torch.Generator().manual_seed(1)
    prompt = torch.randint(4, len(tokenizer), (9,), generator=generator)
    ids = torch.zeros((len(ROWS), 15), dtype=torch.long)
    for row, (length, reply) in zip(ids, ROWS, strict=True):
        row[9 - length : 9] = prompt[:length]
        row[9 : 9 + reply] = torch.randint(
            4, len(tokenizer), (reply,), generator=generator
        )
    mask = torch.tensor(
        [[0] * (9 - n) + [1] * (n + m) + [0] * (6 - m) for n, m in ROWS]
    )
    ids[1, 9] = ids[0, 9]  # two replies with a common first token
    rows = packed_rows(ids, mask, 6, max_tokens=16, pairs=1000.0)
    assert [len(row.rows) for row in rows] == [3, 3]
    assert [len(_row_blocks(row.ends, 0).pieces) for row in rows] == [5, 3]
    return rows


def scored(model, arguments, inputs):
    model.zero_grad()
    logprobs, _ = plain_scores(
        model, arguments, inputs.tail, inputs.scored, temperature=1.0
    )
    (logprobs * torch.linspace(0.1, 1.0, logprobs.shape[1])).sum().backward()
    return logprobs.detach(), [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("checkpointing", [False, True])
def test_scores_and_gradients_are_those_of_the_dense_mask(
    packed, tokenizer, checkpointing
):
    model = tiny_model(tokenizer, hidden_size=32, num_layers=2, seed=1)
    model.config._attn_implementation = "sdpa"
    if checkpointing:
        model.gradient_checkpointing_enable()
        model.train()
    dense = model_inputs(packed)
    expected, gradients = scored(model, dense.arguments, dense)
    inputs = model_inputs(packed, with_mask=False)
    arguments = inputs.arguments | block_inputs(packed)
    logprobs, others = scored(model, arguments, inputs)
    torch.testing.assert_close(logprobs, expected, atol=1e-5, rtol=0)
    for gradient, other in zip(gradients, others, strict=True):
        torch.testing.assert_close(other, gradient, atol=1e-5, rtol=1e-5)
    assert expected.abs().max() > 1


def test_long_rows_attend_by_blocks_where_layers_see_all_tokens(packed, tokenizer):
    model = tiny_model(tokenizer, hidden_size=32, num_layers=1, seed=1)
    assert not attends_in_blocks(model, packed)  # short rows
    long = [packed[0]._replace(tokens=np.ones(1100, np.int64))]
    assert attends_in_blocks(model, long)
    model.config.sliding_window = 64
    assert not attends_in_blocks(model, long)


def test_the_trainer_scores_its_rows_alike(make_trainer, generated, monkeypatch):
    """By its fused head, with replies that share a prompt."""
    trainer = make_trainer()
    rows = prompts_with_replies(generated(trainer))
    plain = trainer.forward.score(trainer.model, *rows, False).logprobs
    calls = []

    def counted(num_queries, num_keys):
        calls.append(num_queries)
        return causal_lower_right(num_queries, num_keys)

    monkeypatch.setattr(blocks, "MIN_LENGTH", 0)
    monkeypatch.setattr(blocks, "causal_lower_right", counted)
    logprobs = trainer.forward.score(trainer.model, *rows, False).logprobs
    torch.testing.assert_close(logprobs, plain, atol=1e-5, rtol=0)
    assert trainer.forward.mode.fused
    assert calls
