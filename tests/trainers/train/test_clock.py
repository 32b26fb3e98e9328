"""Where the time of a run goes."""

import time
from contextlib import suppress

import pytest

from arena_trainers.train import Clock, Meter
from arena_trainers.train.clock import TIMES


@pytest.fixture
def wait(monkeypatch):
    """A function that lets wall and CPU seconds pass."""
    now = {"perf_counter": 100.0, "process_time": 10.0}
    for name in now:
        monkeypatch.setattr(time, name, lambda name=name: now[name])

    def wait(wall, cpu):
        now["perf_counter"] += wall
        now["process_time"] += cpu

    return wait


def test_a_moment_belongs_to_the_innermost_part(wait):
    clock = Clock()
    wait(1, 0.5)
    with clock.part("environment"):
        wait(2, 1)
        with clock.part("generation"):
            wait(4, 3)
        wait(8, 7)
    spent = clock.spent
    assert spent["rest"] == (1, 0.5)
    assert spent["environment"] == (10, 8)
    assert spent["generation"] == (4, 3)


def test_a_part_that_fails_ends(wait):
    clock = Clock()
    with suppress(RuntimeError), clock.part("credit"):
        wait(1, 1)
        raise RuntimeError
    wait(2, 2)
    assert clock.spent["credit"] == (1, 1)
    assert clock.spent["rest"] == (2, 2)


def test_speeds_and_shares_are_those_since_the_last_reading(wait):
    clock = Clock()
    clock.counts.update(episodes=100, generated=100, trained=100)
    wait(50, 50)
    meter = Meter(clock)
    with clock.part("generation"):
        wait(2, 1)
    with clock.part("training"):
        wait(5, 1)
    wait(3, 1)
    clock.counts.update(episodes=20, generated=60, trained=1000)
    found = meter.read()
    assert found["arena/episodes_per_second"] == 2
    assert found["arena/tokens_per_second/generation"] == 30
    assert found["arena/tokens_per_second/training"] == 200
    shares = {name: found[f"arena/time/{name}"] for name in TIMES}
    assert shares == {
        "generation": 0.2,
        "environment": 0,
        "credit": 0,
        "training": 0.5,
        "rest": 0.3,
    }
    assert set(meter.read().values()) == {0.0}  # no time has passed


def test_a_trainer_counts_what_it_played_and_trained(make_trainer):
    """Two optimizer steps on one generation batch: played once, trained twice."""
    trainer = make_trainer(max_steps=2, num_iterations=2, logging_steps=1)
    trainer.train()
    counts, turns = trainer.clock.counts, trainer.last_turns
    assert counts["episodes"] == len(trainer.last_episodes)
    assert counts["turns"] == len(turns.reward)
    assert counts["generated"] == turns.num_tokens.sum()
    lengths = sum(record.row_length for record in trainer.last_selected.records)
    assert counts["trained"] == 2 * lengths
    logs = [record for record in trainer.state.log_history if "loss" in record]
    for record in logs:
        shares = [record[f"arena/time/{part}"] for part in TIMES]
        assert sum(shares) == pytest.approx(1)
        assert record["arena/time/training"] > 0
    assert logs[0]["arena/tokens_per_second/generation"] > 0
    assert logs[1]["arena/tokens_per_second/generation"] == 0
