"""Log-probabilities of replies: the same in chunks, with logits at the replies alone."""

import pytest
import torch

from arena_trainers.lm import reply_logprobs

ROWS = [([5, 6, 7], [8, 9]), ([5], [8]), ([6, 5, 7, 9, 4], [9, 4]), ([7, 7], [])]


def scored(policy, **options):
    ends = policy.pad_id, policy.eos_ids
    with torch.no_grad():
        return reply_logprobs(policy.model, ROWS, 0.7, *ends, **options)


def expected(policy, prompt, reply):
    """One row by itself, at every position."""
    with torch.no_grad():
        logits = policy.model(torch.tensor([prompt + reply])).logits[0]
    logprobs = (logits / 0.7).log_softmax(dim=-1)
    said = logprobs[len(prompt) - 1 : -1].gather(1, torch.tensor(reply)[:, None].long())
    return said.sum() + logprobs[-1, policy.eos_ids].logsumexp(dim=0)


@pytest.mark.parametrize("max_tokens", [None, 8, 1])
def test_chunks_change_nothing(policy, max_tokens):
    got = scored(policy, max_tokens=max_tokens)
    wanted = [expected(policy, *row) for row in ROWS]
    torch.testing.assert_close(torch.tensor(got), torch.stack(wanted))


def test_no_pass_exceeds_the_bound_nor_scores_prompts(policy):
    shapes = []

    def note(module, args, kwargs, output):
        shapes.append((*kwargs["input_ids"].shape, output.logits.shape[1]))

    policy.model.register_forward_hook(note, with_kwargs=True)
    scored(policy, max_tokens=8)
    assert len(shapes) == 3
    assert all(rows * width <= 8 for rows, width, _ in shapes)
    assert max(scores for *_, scores in shapes) == 3


def test_a_frozen_head_gets_contiguous_states(policy):
    """PyTorch copies a frozen matrix once for each row of a slice that is not contiguous."""
    head = policy.model.get_output_embeddings()
    seen = []
    head.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    trained = scored(policy)
    policy.model.requires_grad_(False)
    frozen = scored(policy)
    torch.testing.assert_close(torch.tensor(frozen), torch.tensor(trained))
    sliced, selected = seen
    assert selected.shape == sliced.shape
    assert selected.is_contiguous()
    assert not sliced.is_contiguous()
