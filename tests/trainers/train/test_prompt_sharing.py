"""Replies behind one prompt get the log-probabilities that they have in rows of their own."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from arena_trainers.train.score.packing import (
    joined_replies,
    may_share_prompts,
    model_inputs,
    packed_rows,
)

P, E = 0, 9  # padding, the end of a reply
# Two prompts, one twice; the last three columns are replies.
IDS = torch.tensor(
    [
        [P, 3, 4, 5, 6, 7, 6, E, P],
        [1, 2, 3, 4, 5, 6, 7, 8, E],
        [P, 3, 4, 5, 6, 7, E, P, P],
        [P, 3, 4, 5, 6, 7, 6, 6, E],
    ]
)
MASK = (IDS != P).long()


def model_of(model_type, **options):
    config = AutoConfig.for_model(
        model_type,
        vocab_size=10,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        **options,
    )
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config).eval()


def logprobs(model, inputs):
    """float32[N, T] of `shift_labels`, at the last T positions; 0 where there is no label."""
    inputs = dict(inputs)
    labels = inputs.pop("shift_labels")
    logits = model(**inputs).logits[:, -labels.shape[1] :]
    found = logits.log_softmax(-1).gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    return found.masked_fill(labels < 0, 0.0)


@pytest.mark.parametrize("model_type", ["llama", "mistral", "qwen2", "qwen3"])
def test_replies_behind_a_prompt_have_the_scores_of_their_own_rows(model_type):
    window = {"sliding_window": None} if model_type == "mistral" else {}
    model = model_of(model_type, **window)
    assert may_share_prompts(model)
    packed = packed_rows(IDS, MASK, 3, 100, share=True)
    assert [row.rows for row in packed] == [[0, 2], [1], [3]]  # all: too long
    scores = logprobs(model, model_inputs(packed))
    found = joined_replies([scores], [packed], 3)
    for i in range(len(IDS)):
        reply = int(MASK[i, -3:].sum())
        ids = IDS[i][MASK[i].bool()][None]
        row = {"input_ids": ids[:, :-1], "shift_labels": ids[:, -reply:]}
        alone = logprobs(model, row)[0]
        torch.testing.assert_close(found[i, :reply], alone, atol=1e-6, rtol=0)


# Two conversations of three turns; each prompt extends the prompt and the reply before it.
TURNS = [[3, 4, 5], [3, 4, 5, 6, 7, 4], [3, 4, 5, 6, 7, 4, 6, 2]]
CONVERSATION = [*TURNS, [3, 4, 5], [3, 4, 5, 7, 6, 5]]
REPLIES = [[6, 7], [6, E], [8, 8, E], [7, 6], [E]]


def padded_conversation():
    ids = torch.full((len(REPLIES), 11), P)
    for i, (prompt, reply) in enumerate(zip(CONVERSATION, REPLIES, strict=True)):
        ids[i, 8 - len(prompt) : 8] = torch.tensor(prompt)
        ids[i, 8 : 8 + len(reply)] = torch.tensor(reply)
    return ids, (ids != P).long()


@pytest.mark.parametrize("model_type", ["llama", "qwen3"])
def test_turns_whose_prompts_extend_each_other_share_the_longest(model_type):
    model, (ids, mask) = model_of(model_type), padded_conversation()
    packed = packed_rows(ids, mask, 3, 100, share=True)
    assert [sorted(row.rows) for row in packed] == [[0, 3, 4], [1, 2]]
    assert [len(row.prompt) for row in packed] == [5, 7]
    scores = logprobs(model, model_inputs(packed))
    found = joined_replies([scores], [packed], 3)
    for i, (prompt, reply) in enumerate(zip(CONVERSATION, REPLIES, strict=True)):
        row = torch.tensor([[*prompt, *reply]])
        labels = torch.tensor([reply])
        alone = logprobs(model, {"input_ids": row[:, :-1], "shift_labels": labels})
        size = len(reply)
        torch.testing.assert_close(found[i, :size], alone[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("model_type", "options"),
    [
        ("mistral", {"sliding_window": 4}),
        ("llama", {"attn_implementation": "eager"}),
        ("gemma2", {}),
        ("bloom", {}),
    ],
)
def test_other_attention_runs_a_row_for_each_reply(model_type, options):
    assert not may_share_prompts(model_of(model_type, **options))


def test_positions_begin_behind_the_padding():
    packed = packed_rows(IDS, MASK, 3, 100, share=False)
    assert [row.rows for row in packed] == [[0], [1], [2], [3]]
    inputs = model_inputs(packed)
    counted = (inputs["attention_mask"].cumsum(1) - 1) * inputs["attention_mask"]
    assert (inputs["position_ids"] == counted).all()


def test_a_packed_row_is_within_the_bound():
    packed = packed_rows(IDS, MASK, 3, 4, share=True)
    assert [row.rows for row in packed] == [[0], [1], [2], [3]]
