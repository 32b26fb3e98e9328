"""Snapshots of a policy whose model is one small matrix."""

import threading
from types import SimpleNamespace

import pytest
import torch

from arena_trainers import processes
from arena_trainers.lm import LMPolicy
from arena_trainers.lm.backends import Sampling
from arena_trainers.matchmaking import BaseMatchmaker, Match, snapshots
from arena_trainers.matchmaking.snapshots import SnapshotStore
from arena_trainers.train import MATCHMAKING_FILE, Clock, matching
from arena_trainers.train.matching import Matching


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


class Wanted(BaseMatchmaker):
    """Wants a snapshot of step 0."""

    max_live = 1

    def snapshots(self, step):
        return (0,)


@pytest.fixture
def process(learner, tmp_path):
    """Makes the matching of one of two processes with one folder."""

    def make(number):
        games = SimpleNamespace(matchmaker=Wanted(), plans=[], opponents={})
        args = SimpleNamespace(output_dir=tmp_path, seed=0, opponents="wanted")
        accelerator = SimpleNamespace(
            is_main_process=number == 0, num_processes=2, process_index=number
        )
        return Matching(games, args, accelerator, learner, Clock())

    return make


def test_a_snapshot_that_cannot_be_written_ends_all_processes(process, monkeypatch):
    sent = []

    def gather(failure, group=""):
        if main:
            sent.append(failure)
        return [*sent, None if main else failure]

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(processes, "gather_patiently", gather)
    monkeypatch.setattr(snapshots, "save_file", fail)
    for main in (True, False):
        own = process(int(not main))
        with pytest.raises(OSError, match="disk full"):
            own._advance(own.games.matchmaker, 0)


def test_only_the_main_process_reads_checkpoints(process, monkeypatch, tmp_path):
    """It deletes old ones, so another process may meet half of one."""
    (tmp_path / "checkpoint-1").mkdir()
    (tmp_path / "checkpoint-1" / MATCHMAKING_FILE).write_text("{")
    main, other = process(0), process(1)
    other._advance(other.games.matchmaker, 0)
    with pytest.raises(ValueError, match="Expecting"):
        main._advance(main.games.matchmaker, 0)


def test_the_orders_of_a_pair_play_the_same_deals(process, monkeypatch):
    """Else luck in the deals would stand in PSRO's payoffs."""
    pairs = [("self@0", "self@1"), ("self@1", "self@0"), ("self@0", "self@2")]
    played = []

    def note(plans, **_):
        played.append([plan.seed for plan in plans])
        return ()

    main = process(0)
    main.accelerator.num_processes = 1
    main.games.plans = [
        SimpleNamespace(name="g", seats=None, is_matched=True, env_fn=None)
    ]
    made = main.games.matchmaker
    made.matches = lambda step: [Match("g", pair, 3) for pair in [*pairs, pairs[0]]]
    monkeypatch.setattr(matching, "play_plans", note)
    monkeypatch.setattr(matching, "gather_object", list)
    main._play_matches(made, 0)
    first, second, other, again = map(tuple, played)
    assert first == second
    assert len({*first, *other, *again}) == 9
