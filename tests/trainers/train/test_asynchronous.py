"""Play beside training: the same records from the same seeds, corrected for their age."""

import os
import signal
import time
from multiprocessing import active_children

import pytest
import torch
from peft import LoraConfig

from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer

AHEAD = {"max_staleness": 1, "in_flight": 2}
STEPS = {"max_steps": 4, "logging_steps": 1, "learning_rate": 1e-2}
SAVING = {"save_strategy": "steps", "save_steps": 2}
LORA = LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")


def same(one, other):
    first, second = one.model.state_dict(), other.model.state_dict()
    return all(torch.equal(tensor, second[name]) for name, tensor in first.items())


def logged(trainer, name):
    logs = trainer.state.log_history
    return [x[f"arena/asynchronous/{name}"] for x in logs if "loss" in x]


@pytest.mark.slow
def test_without_staleness_a_run_is_the_plain_one(make_trainer, tmp_path):
    plain = make_trainer(**STEPS, output_dir=str(tmp_path / "plain"))
    plain.train()
    other = make_trainer(**STEPS, asynchronous={"max_staleness": 0})
    other.train()
    assert other.async_player is None
    assert same(plain, other)


@pytest.mark.slow
@pytest.mark.parametrize("adapter", [None, LORA])
def test_the_process_plays_what_the_trainer_would_have_played(
    make_trainer, tmp_path, adapter
):
    options = STEPS | {"max_steps": 1, "peft_config": adapter}
    plain = make_trainer(**options, output_dir=str(tmp_path / "plain"))
    plain.train()
    other = make_trainer(**options, asynchronous=AHEAD)
    other.train()
    pairs = zip(plain.last_episodes, other.last_episodes, strict=True)
    for one, two in ((a.turns, b.turns) for a, b in pairs):
        assert [t.token_ids for t in one] == [t.token_ids for t in two]
        for a, b in zip(one, two, strict=True):
            assert a.logprobs == pytest.approx(b.logprobs, abs=1e-5)
    assert all(
        torch.allclose(tensor, other.model.state_dict()[name], atol=1e-5)
        for name, tensor in plain.model.state_dict().items()
    )


@pytest.mark.slow
def test_each_step_trains_what_was_played_one_step_before_and_says_so(make_trainer):
    trainer = make_trainer(**STEPS, asynchronous=AHEAD)
    trainer.train()
    assert logged(trainer, "staleness") == [0, 1, 1, 1]
    assert logged(trainer, "dropped_episodes") == [0] * 4
    ratios, sizes = logged(trainer, "ratio"), logged(trainer, "effective_sample_size")
    assert ratios[0] == pytest.approx(1, abs=1e-5)
    assert all(abs(ratio - 1) > 1e-5 for ratio in ratios[1:])
    assert all(0 < size < 1 for size in sizes[1:])
    assert not trainer.async_player.folder.exists()


@pytest.mark.slow
@pytest.mark.parametrize(("accumulation", "in_flight"), [(1, 2), (2, 2), (2, 4)])
def test_a_resumed_run_plays_again_what_was_in_flight_and_is_the_unbroken_one(
    make_trainer, tmp_path, accumulation, in_flight
):
    ahead = {"max_staleness": 1, "in_flight": in_flight}
    options = STEPS | SAVING | {"asynchronous": ahead, "episodes_per_step": 16}
    options |= {"gradient_accumulation_steps": accumulation, "steps_per_generation": 1}
    unbroken = make_trainer(**options)
    unbroken.train()
    resumed = make_trainer(**options, output_dir=str(tmp_path / "resumed"))
    fill = resumed.async_player._fill

    def late(version):
        time.sleep(0.1)
        fill(version)

    resumed.async_player._fill = late
    resumed.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-2"))
    assert min(logged(resumed, "staleness")[-2:]) > 0
    assert max(logged(resumed, "dropped_episodes")) > 0
    assert same(unbroken, resumed)


@pytest.mark.slow
def test_an_agent_plays_in_the_process_and_each_epoch_begins_with_its_own_weights(
    make_trainer,
):
    options = STEPS | {"asynchronous": AHEAD, "num_starts": 8, "max_steps": 5}
    trainer = make_trainer(**options, agent="planner_worker")
    trainer.train()
    assert logged(trainer, "staleness") == [0, 1, 0, 1, 0]
    assert trainer.last_episodes[0].turns[0].generations


@pytest.mark.slow
def test_signals_to_all_processes_are_the_trainers_to_handle(make_trainer):
    trainer = make_trainer(**STEPS, asynchronous=AHEAD)
    submit = trainer.async_player._submit

    def send(version):  # the first time the process is still importing
        for process in active_children():
            os.kill(process.pid, signal.SIGINT)
            process.terminate()
        submit(version)

    trainer.async_player._submit = send
    trainer.train()
    assert logged(trainer, "staleness") == [0, 1, 1, 1]


def test_an_agent_that_pickle_cannot_send_is_refused(model_folder, settings):
    args = TurnGRPOConfig(**settings, asynchronous=AHEAD)
    with pytest.raises(ValueError, match=r"pickle can send .* top of a module"):
        TurnGRPOTrainer(str(model_folder), args, agent=lambda model: model)


@pytest.mark.slow
def test_a_player_that_is_killed_ends_training_with_what_to_do(make_trainer, tmp_path):
    trainer = make_trainer(**STEPS | SAVING | {"save_steps": 1}, asynchronous=AHEAD)
    fill = trainer.async_player._fill

    def kill(step):
        fill(step)
        if step == 1:
            (process,) = active_children()
            process.kill()

    trainer.async_player._fill = kill
    with pytest.raises(RuntimeError, match=r"process that plays has ended; .* Resume"):
        trainer.train()
    assert (tmp_path / "out" / "checkpoint-2").is_dir()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"asynchronous": {"max_staleness": 2}}, "max_staleness in asynchronous"),
        ({"asynchronous": {"in_flight": 1}}, "in_flight in asynchronous"),
        ({"asynchronous": {"stale": 1}}, "stale"),
        ({"roles": {0: {}, 1: {}}}, "roles"),
        ({"opponents": "past_selves"}, "opponents 'past_selves'"),
        ({"curriculum": "band"}, "curriculum 'band'"),
        ({"critic": "exact"}, "critic 'exact'"),
        ({"flat_groups": "drop", "max_replays": 1}, "max_replays"),
        ({"top_k": 5}, "top_k"),
        ({"num_iterations": 2}, "a generation batch of several updates"),
    ],
)
def test_settings_that_cannot_run_beside_training_are_refused(
    settings, options, message
):
    given = {"asynchronous": AHEAD, **options}
    with pytest.raises(ValueError, match=message):
        TurnGRPOConfig(**settings | given)


def test_ratios_and_effective_sample_size_are_of_the_counted_tokens(make_trainer):
    trainer = make_trainer(asynchronous=AHEAD)
    sampled = torch.tensor([[-0.5, -1.0, -9.0]])
    counted = torch.tensor([[True, True, False]])
    given = {"sampling_per_token_logps": sampled}
    trainer.async_player.measure(torch.zeros(1, 3), counted, given)
    trainer.async_player.measure(torch.zeros(1, 3), ~counted & counted, given)  # none
    ratios = (-sampled[0, :2]).exp()
    size = float(ratios.sum() ** 2 / (2 * (ratios**2).sum()))
    found = [
        trainer.noted(f"arena/asynchronous/{name}")
        for name in ("ratio", "effective_sample_size")
    ]
    assert found == [[pytest.approx(float(ratios.mean()))], [pytest.approx(size)]]
