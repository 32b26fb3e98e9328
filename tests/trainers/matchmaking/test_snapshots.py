"""Snapshots of a policy whose model is one small matrix."""

import threading

import pytest
import torch

from arena_trainers.lm.backends import Sampling
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.matchmaking.snapshots import SnapshotStore


@pytest.fixture
def learner():
    """A policy without a tokenizer: it neither reads nor writes."""
    policy = LMPolicy.__new__(LMPolicy)
    policy.name, policy.pad_id, policy.sampling = "self", 0, Sampling()
    policy.run_on(torch.nn.Linear(2, 2, bias=False))
    return policy


def test_threads_take_turns_with_the_weights(learner, tmp_path):
    """A time limit gives each call a thread, and all calls share the learner's model."""
    store = SnapshotStore(learner, tmp_path, 2, writes=False)
    store.take(0)
    learner.model.weight.data = torch.ones(2, 2)
    store.take(1)
    learner.model.weight.data = own = torch.zeros(2, 2)
    first, second = (store.policy(step) for step in (0, 1))
    seen = {}

    def use(policy):
        with policy.context() as model:
            seen[policy.name] = model.weight.data.clone()

    with first.context():
        threads = [threading.Thread(target=use, args=(p,)) for p in (learner, second)]
        for thread in threads:
            thread.start()
            thread.join(0.05)
    for thread in threads:
        thread.join()
    assert torch.equal(seen["self"], own)
    assert torch.equal(seen["self@1"], torch.ones(2, 2))
    assert torch.equal(learner.model.weight.data, own)
