"""Replies that come in every batch are computed at once, and change nothing that is trained."""

from types import SimpleNamespace

import pytest
import torch

from arena_trainers.train.rollout import expected
from arena_trainers.train.rollout.expected import ExpectedReplies
from arena_trainers.train.rows import TrainingRow


class Told:
    def expect_replies(self, replies, num_rounds):
        self.replies, self.num_rounds = replies, num_rounds


def note(expected_replies, prompts, turns=3):
    rows = [TrainingRow([prompt], [prompt, 2], None, 0.0) for prompt in prompts]
    expected_replies.note(rows, [SimpleNamespace(turns=[None] * turns)])


def told(expected_replies):
    expected_replies.tell()
    return sorted(prompt[0] for prompt, _ in expected_replies.backend.replies)


def test_what_came_twice_is_expected_if_it_is_most_of_the_latest_batch():
    replies = ExpectedReplies(Told())
    assert told(replies) == []
    note(replies, [5, 6, 7], turns=4)
    assert told(replies) == [5, 6, 7]
    assert replies.backend.num_rounds == 4
    note(replies, [5] * 9 + [8])
    assert told(replies) == [5]
    note(replies, [5] * 8 + [8, 9])
    assert told(replies) == [5, 8]
    note(replies, [5, 11])
    assert told(replies) == []  # half of it is new
    for _ in range(expected.NUM_BATCHES):
        note(replies, [3])
    assert told(replies) == [3]
    replies.forget()
    assert told(replies) == []


def test_long_prompts_are_not_kept(monkeypatch):
    monkeypatch.setattr(expected, "MAX_TOKENS", 2)
    replies = ExpectedReplies(Told())
    note(replies, [5, 6, 7])
    assert told(replies) == []
    nobody = ExpectedReplies(None)
    note(nobody, [5])
    nobody.tell()


def weights_of(trainer):
    return torch.cat(
        [weight.detach().flatten() for weight in trainer.model.parameters()]
    )


@pytest.fixture
def trained(make_trainer, tmp_path, monkeypatch):
    """Trains; also returns the texts that ran in each forward pass of play."""

    def train(name, tells=True, resume=None, **options):
        trainer = make_trainer(
            output_dir=str(tmp_path / name),
            save_strategy="steps",
            save_steps=2,
            learning_rate=1e-3,
            **options,
        )
        if not tells:
            trainer.expected_replies.backend = None
        asked, drawn, backend = [], [], trainer.policy.backend
        generate = backend.inner.generate

        def noted(*args):
            asked.append(bool(backend.inner._expected))
            drawn.append(generate(*args).token_ids)
            return generate(*args)

        monkeypatch.setattr(backend.inner, "generate", noted)
        trainer.train(resume_from_checkpoint=resume and str(tmp_path / resume))
        return weights_of(trainer), asked, drawn

    return train


def test_training_is_the_same_with_what_is_expected(trained):
    plain, *_, drawn = trained("plain", tells=False, max_steps=4)
    whole, asked, same = trained("whole", max_steps=4)
    assert True in asked
    assert same == drawn
    torch.testing.assert_close(whole, plain, rtol=0, atol=1e-6)


def test_a_run_that_resumes_has_the_same_bits(trained):
    whole, asked, _ = trained("whole", max_steps=4)
    resumed, later, _ = trained("resumed", resume="whole/checkpoint-2", max_steps=4)
    assert torch.equal(whole, resumed)
    assert later == asked[-len(later) :]
    assert {True, False} == {*later}  # the first step expects nothing


@pytest.mark.parametrize("layout", ["turn", "trajectory"])
def test_rows_of_trajectories_tell_nothing(make_trainer, layout):
    history = "transcript" if layout == "trajectory" else "state"
    trainer = make_trainer(layout=layout, history=history)
    assert (trainer.expected_replies.backend is None) == (layout == "trajectory")
