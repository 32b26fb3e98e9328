"""Replies behind one prompt get the log-probabilities that they have in rows of their own."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from arena_trainers.train.score.heads import plain_scores
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


def logprobs(model, packed):
    """float32[N, T] of the labels of packed rows; 0 where there is no label."""
    inputs, tail, scored = model_inputs(packed)
    return plain_scores(model, inputs, tail, scored, temperature=1.0)[0]


def scores_alone(model, prompt, reply):
    """float32[R] of a reply, in a row of its own."""
    ids = torch.tensor([[*prompt, *reply]])
    logits = model(input_ids=ids).logits[0, len(prompt) - 1 : -1]
    return logits.log_softmax(-1).gather(-1, ids[0, len(prompt) :, None])[:, 0]


PAIRS = 1000.0  # a token costs as much as the attention between so many pairs


def assert_scored_as_alone(model, ids, mask, width=3):
    """The scores of packed rows are those of rows of their own, and the packed rows are returned."""
    packed = packed_rows(ids, mask, width, 100, PAIRS)
    replies = joined_replies([logprobs(model, packed)], [packed], width)
    for row, known, scores in zip(ids, mask.bool(), replies, strict=True):
        reply, prompt = row[-width:][known[-width:]], row[:-width][known[:-width]]
        alone = scores_alone(model, prompt.tolist(), reply.tolist())
        torch.testing.assert_close(scores[: len(reply)], alone, atol=1e-5, rtol=0)
        assert not scores[len(reply) :].any()
    return packed


@pytest.mark.parametrize("model_type", ["llama", "mistral", "qwen2", "qwen3"])
def test_replies_behind_a_prompt_have_the_scores_of_their_own_rows(model_type):
    window = {"sliding_window": None} if model_type == "mistral" else {}
    model = model_of(model_type, **window)
    assert may_share_prompts(model)
    packed = assert_scored_as_alone(model, IDS, MASK)
    assert [row.rows for row in packed] == [[2, 0, 3], [1]]
    assert [len(row.tokens) for row in packed] == [7, 8]
    assert [len(row.labels) for row in packed] == [5, 3]  # 6 follows the prompt twice


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
    (packed,) = assert_scored_as_alone(model, ids, mask)
    tokens = {
        tuple([*prompt, *reply][:size])
        for prompt, reply in zip(CONVERSATION, REPLIES, strict=True)
        for size in range(1, len(prompt) + len(reply))
    }
    assert len(packed.tokens) == len(tokens)  # each distinct beginning once


def test_gradients_of_packed_rows_are_those_of_rows_of_their_own():
    model, (ids, mask) = model_of("qwen3"), padded_conversation()
    weights = torch.rand(len(ids), 3, generator=torch.Generator().manual_seed(0))
    gradients = []
    for pairs in (PAIRS, None):
        packed = packed_rows(ids, mask, 3, 100, pairs)
        chunks = [packed[:1], packed[1:]] if pairs is None else [packed]
        scores = [logprobs(model, chunk) for chunk in chunks]
        loss = (joined_replies(scores, chunks, 3) * weights).sum()
        gradients.append(torch.autograd.grad(loss, model.parameters()))
    for packed_gradient, gradient in zip(*gradients, strict=True):
        torch.testing.assert_close(packed_gradient, gradient, atol=1e-5, rtol=1e-5)


def test_a_row_is_packed_where_masked_attention_costs_less_than_its_beginning():
    """A beginning of 2 tokens, and two rows with 5 more: 2 * 5 * 7 masked pairs."""
    rows = [[1, 2, *[n] * 6] for n in (3, 4)]
    ids = torch.tensor(rows)
    for pairs, num_packed in ((40.0, 1), (20.0, 2)):
        packed = packed_rows(ids, torch.ones_like(ids), 1, 100, pairs)
        assert len(packed) == num_packed


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
    packed = packed_rows(IDS, MASK, 3, 100, None)
    assert [row.rows for row in packed] == [[0], [1], [2], [3]]
    inputs = model_inputs(packed).arguments
    counted = (inputs["attention_mask"].cumsum(1) - 1) * inputs["attention_mask"]
    assert (inputs["position_ids"] == counted).all()


def test_a_packed_row_is_within_the_bound():
    packed = packed_rows(IDS, MASK, 3, 4, PAIRS)
    assert [row.rows for row in packed] == [[0], [1], [2], [3]]
