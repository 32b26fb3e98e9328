"""Replies that come in every batch are computed at once, and change nothing that is trained."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from peft import LoraConfig

from arena_envs import make
from arena_trainers.train.rollout import expected
from arena_trainers.train.rollout.expected import ExpectedReplies
from arena_trainers.train.rows import TrainingRow
from arena_wrappers import PromptWrapper, RandomPolicy, play


def add(expected_replies, prompts, turns=3):
    """A batch with a reply to each of the prompts, which have one token, and a placeholder row."""
    rows = [
        TrainingRow([prompt], [prompt, 2], np.zeros(2), 0.0, logprobs=[0.0, 0.0])
        for prompt in prompts
    ]
    (episode,) = play(lambda: PromptWrapper(make("nim")), RandomPolicy(), [0])
    episode = replace(episode, turns=episode.turns[:1] * turns)
    expected_replies.add([*rows, TrainingRow([4], [4, 2], None, 0.0)], [episode])


def prompts_of(expected_replies):
    """The prompts of the replies that are expected."""
    return sorted(prompt[0] for prompt, _ in expected_replies._common_replies())


def test_replies_of_two_batches_are_expected_if_they_cover_the_latest(policy):
    replies = ExpectedReplies(policy.backend)
    assert prompts_of(replies) == []
    add(replies, [5, 6, 7])
    assert prompts_of(replies) == [5, 6, 7]
    add(replies, [5] * 9 + [8])
    assert prompts_of(replies) == [5]
    add(replies, [5] * 8 + [8, 9])
    assert prompts_of(replies) == [5, 8]
    add(replies, [5, 11])
    assert prompts_of(replies) == []  # half of it is new
    for _ in range(expected.NUM_BATCHES):
        add(replies, [3])
    assert prompts_of(replies) == [3]
    replies.clear()
    assert prompts_of(replies) == []


def test_a_batch_of_many_tokens_ends_what_was_expected(policy, monkeypatch):
    replies = ExpectedReplies(policy.backend)
    add(replies, [5])
    monkeypatch.setattr(expected, "MAX_TOKENS", 8)
    add(replies, [5] * 9)  # three distinct tokens
    assert prompts_of(replies) == [5]
    add(replies, [5, 6, 7])
    assert prompts_of(replies) == []


def test_a_checkpoint_holds_the_latest_batches_in_their_order(policy, tmp_path):
    replies, again = (ExpectedReplies(policy.backend, process=1) for _ in range(2))
    add(replies, [7, 5, 6], turns=4)
    add(replies, [6, 6, 7, 5])
    replies.save(tmp_path)
    again.load(tmp_path)
    assert again._common_replies() == replies._common_replies() != []
    assert list(again._batches) == list(replies._batches)
    assert again._num_rounds == 3
    ExpectedReplies(policy.backend, process=2).load(tmp_path)  # has no file


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{",
        "[" * 100_000,
        '{"num_rounds": 1}',
        '{"num_rounds": 1, "batches": [[[[5], [10000000], 1]]]}',
        '{"num_rounds": 1, "batches": [[[["a"], [2], 1]]]}',
        '{"num_rounds": 1, "batches": [[5]]}',
    ],
)
def test_other_content_is_refused(policy, tmp_path, content):
    (tmp_path / "expected_replies_0.json").write_text(content)
    with pytest.raises(ValueError, match=r"want the replies of batches in .*; delete"):
        ExpectedReplies(policy.backend).load(tmp_path)


def weights_of(trainer):
    return torch.cat(
        [weight.detach().flatten() for weight in trainer.model.parameters()]
    )


@pytest.fixture
def trained(make_trainer, tmp_path, monkeypatch):
    """Trains. Returns the weights; for each call of the backend whether it expects replies; and their tokens."""

    def train(name, expects=True, resume=None, **options):
        options = {"save_strategy": "steps", "learning_rate": 1e-3} | options
        trainer = make_trainer(output_dir=str(tmp_path / name), **options)
        if not expects:
            trainer.expected_replies.backend = None
        are_expected, token_ids, backend = [], [], trainer.policy.backend.inner
        generate = backend.generate

        def generate_and_keep(*args):
            are_expected.append(bool(backend._expected))
            generated = generate(*args)
            token_ids.append(generated.token_ids)
            return generated

        monkeypatch.setattr(backend, "generate", generate_and_keep)
        trainer.train(resume_from_checkpoint=resume and str(tmp_path / resume))
        return weights_of(trainer), are_expected, token_ids

    return train


@pytest.mark.parametrize("is_adapted", [False, True])
def test_training_is_the_same_with_what_is_expected(trained, is_adapted):
    options = {"max_steps": 4}
    if is_adapted:
        adapter = LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")
        options |= {"peft_config": adapter, "gradient_checkpointing": True}
    plain, _, plain_ids = trained("plain", expects=False, **options)
    weights, are_expected, token_ids = trained("expecting", **options)
    assert True in are_expected
    assert token_ids == plain_ids
    torch.testing.assert_close(weights, plain, rtol=0, atol=1e-6)


def test_a_run_that_resumes_has_the_same_bits_as_one_without_checkpoints(
    trained, monkeypatch
):
    monkeypatch.setattr(expected, "COVERED", 0.0)
    options = {"max_steps": 4, "episodes_per_step": 32, "num_generations": 8}
    whole, of_whole, _ = trained("whole", save_strategy="no", **options)
    trained("first", save_steps=2, **options)
    resumed, of_rest, _ = trained("rest", resume="first/checkpoint-2", **options)
    assert torch.equal(whole, resumed)
    assert of_rest == of_whole[-len(of_rest) :]
    assert of_rest[0]  # by what the checkpoint holds


@pytest.mark.parametrize(
    "options",
    [
        {"layout": "trajectory", "history": "transcript"},
        {"asynchronous": {}},
    ],
    ids=str,
)
def test_nothing_is_expected_of_runs_of_other_kinds(make_trainer, options):
    assert make_trainer().expected_replies.backend is not None
    assert make_trainer(**options).expected_replies.backend is None
