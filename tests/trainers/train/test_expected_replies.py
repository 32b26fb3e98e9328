"""Replies that come in every batch are computed at once, and change nothing that is trained."""

from types import SimpleNamespace

import pytest
import torch

from arena_trainers.train.rollout import expected
from arena_trainers.train.rollout.expected import ExpectedReplies
from arena_trainers.train.rows import TrainingRow


class Backend:
    """Keeps what it is told."""

    def expect_replies(self, replies, num_rounds):
        self.replies, self.num_rounds = replies, num_rounds


def add(expected_replies, prompts, turns=3):
    """A batch with a reply to each of the prompts, which have one token."""
    rows = [TrainingRow([prompt], [prompt, 2], None, 0.0) for prompt in prompts]
    expected_replies.add(rows, [SimpleNamespace(turns=[None] * turns)])


def announced(expected_replies):
    """The prompts of the replies that the backend expects."""
    expected_replies.announce()
    return sorted(prompt[0] for prompt, _ in expected_replies.backend.replies)


def test_what_came_twice_is_expected_if_it_is_most_of_the_latest_batch():
    replies = ExpectedReplies(Backend())
    assert announced(replies) == []
    add(replies, [5, 6, 7], turns=4)
    assert announced(replies) == [5, 6, 7]
    assert replies.backend.num_rounds == 4
    add(replies, [5] * 9 + [8])
    assert announced(replies) == [5]
    add(replies, [5] * 8 + [8, 9])
    assert announced(replies) == [5, 8]
    add(replies, [5, 11])
    assert announced(replies) == []  # half of it is new
    for _ in range(expected.NUM_BATCHES):
        add(replies, [3])
    assert announced(replies) == [3]
    replies.forget()
    assert announced(replies) == []


def test_long_prompts_are_not_kept(monkeypatch):
    monkeypatch.setattr(expected, "MAX_TOKENS", 2)
    replies = ExpectedReplies(Backend())
    add(replies, [5, 6, 7])
    assert announced(replies) == []
    nobody = ExpectedReplies(None)
    add(nobody, [5])
    nobody.announce()


def weights_of(trainer):
    return torch.cat(
        [weight.detach().flatten() for weight in trainer.model.parameters()]
    )


@pytest.fixture
def trained(make_trainer, tmp_path, monkeypatch):
    """Trains. Returns the weights; for each call of the backend whether it expects replies; and their tokens."""

    def train(name, expects=True, resume=None, **options):
        trainer = make_trainer(
            output_dir=str(tmp_path / name),
            save_strategy="steps",
            save_steps=2,
            learning_rate=1e-3,
            **options,
        )
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


def test_training_is_the_same_with_what_is_expected(trained):
    plain, _, plain_ids = trained("plain", expects=False, max_steps=4)
    weights, are_expected, token_ids = trained("expecting", max_steps=4)
    assert True in are_expected
    assert token_ids == plain_ids
    torch.testing.assert_close(weights, plain, rtol=0, atol=1e-6)


def test_a_run_that_resumes_has_the_same_bits(trained):
    whole, of_whole, _ = trained("whole", max_steps=4)
    resumed, of_rest, _ = trained("resumed", resume="whole/checkpoint-2", max_steps=4)
    assert torch.equal(whole, resumed)
    assert of_rest == of_whole[-len(of_rest) :]
    assert {True, False} == {*of_rest}  # the first step expects nothing


@pytest.mark.parametrize("layout", ["turn", "trajectory"])
def test_rows_of_trajectories_tell_nothing(make_trainer, layout):
    history = "transcript" if layout == "trajectory" else "state"
    trainer = make_trainer(layout=layout, history=history)
    assert (trainer.expected_replies.backend is None) == (layout == "trajectory")
