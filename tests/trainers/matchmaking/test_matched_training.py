"""Training in which a matchmaker assigns the seats of each start."""

import gc
import json
import re
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from peft import LoraConfig
from safetensors.torch import load_file
from typer.testing import CliRunner

from arena_envs import make_game
from arena_trainers.cli.main import app
from arena_trainers.matchmaking.snapshots import past_policies
from arena_trainers.train import MATCHMAKING_FILE
from arena_trainers.train.assigners import matchmaker_of

EVERY = {"every": 1, "max_live": 2}
RESUMED = {
    "past_selves": {"window": 2},
    "prioritised": {},
    "psro": {"num_matches": 2},
    "mixture": {"weights": {"self": 1, "prioritised": 1, "psro": 1, "random": 1}},
}


ALONE = ("past_selves", "prioritised")


def matchmaker(name, **options):
    own = (
        EVERY
        if name != "mixture"
        else {"options": {"prioritised": EVERY, "psro": {**EVERY, "num_matches": 2}}}
    )
    return {name: {**own, **options}}


def weights(trainer):
    return {k: v.clone() for k, v in trainer.model.state_dict().items()}


def equal(one, other):
    return all(torch.equal(tensor, other[name]) for name, tensor in one.items())


@pytest.fixture
def matched(make_trainer):
    """Makes trainers against past selves; options override the settings."""

    def make(**options):
        given = {"opponents": matchmaker("past_selves"), "learning_rate": 1e-2}
        return make_trainer(**{**given, **options})

    return make


def test_a_start_has_one_assignment_and_the_seat_that_learns_changes(
    matched, generated
):
    trainer = matched(
        episodes_per_step=32,
        num_generations=4,
        credit="random_effects",
        credit_args={"pool": ["game", "seat", "opponent"]},
    )
    generated(trainer)
    groups = {}
    for episode, seats in zip(
        trainer.last_episodes, trainer.last_played.seats, strict=True
    ):
        groups.setdefault(episode.seed, set()).add(seats)
        for turn in episode.turns:
            assert turn.policy == seats[turn.seat]
    assert all(len(assigned) == 1 for assigned in groups.values())
    assert set.union(*groups.values()) == {("self", "self@0"), ("self@0", "self")}
    learned = {(r.episode, r.seat) for r in trainer.last_selected.records}
    own = {(n, s.index("self")) for n, s in enumerate(trainer.last_played.seats)}
    assert learned == own
    assert trainer.last_turns.opponent.tolist() == [0] * len(
        trainer.last_selected.records
    )
    logged = trainer._metrics["train"]
    (mean,) = logged["arena/kuhn_poker/against/self@0/return"]
    pairs = zip(trainer.last_episodes, trainer.last_played.seats, strict=True)
    assert mean == np.mean([e.returns[s.index("self")] for e, s in pairs])
    first = [
        e.returns[0]
        for e, s in zip(trainer.last_episodes, trainer.last_played.seats, strict=True)
        if s[0] == "self"
    ]
    assert logged["arena/kuhn_poker/player_0/return"] == [np.mean(first)]


def test_opponents_are_numbered_by_who_plays_the_other_seats(matched, generated):
    weights = {"self": 1, "random": 1}
    trainer = matched(
        opponents={"mixture": {"weights": weights}},
        episodes_per_step=32,
        credit="random_effects",
        credit_args={"pool": ["game", "opponent"]},
    )
    generated(trainer)
    names = [record.opponent for record in trainer.last_selected.records]
    assert set(names) == {("self",), ("random",)}
    numbers = trainer.last_turns.opponent.tolist()
    assert len(set(zip(names, numbers, strict=True))) == 2


def test_one_policy_plays_all_seats_but_the_one_that_learns(matched, generated):
    trainer = matched(opponents="random", episodes_per_step=32)
    generated(trainer)
    assert set(trainer.last_played.seats) == {("self", "random"), ("random", "self")}


def logprobs(policy):
    """Of all tokens of eight replies."""
    replies = policy.generate([[5, 6, 7]] * 8, range(8))
    return [number for reply in replies for number in reply.logprobs]


LORA = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")


@pytest.mark.parametrize("lora", [None, LORA], ids=["weights", "adapter"])
def test_a_snapshot_plays_as_the_model_was_and_leaves_the_learner_alone(
    matched, lora, tmp_path
):
    trainer = matched(max_steps=2, peft_config=lora)
    learner, store = trainer.policy, trainer.matching.store
    at_first = logprobs(learner)
    trainer.train()
    now = weights(trainer)
    (past,) = trainer.matching.policies(("self@0",))
    found = logprobs(past)
    np.testing.assert_allclose(found, at_first, atol=1e-5)
    assert logprobs(past) == found  # known by now
    store._live.clear()
    trainer.matching._snapshots.clear()
    (past,) = trainer.matching.policies(("self@0",))
    assert logprobs(past) == found  # read from disk
    assert equal(now, weights(trainer))
    own = logprobs(learner)[: len(at_first)]
    assert not np.allclose(own, at_first[: len(own)], atol=1e-5)
    saved = load_file(store.path(0))
    assert all(("lora_" in name) == (lora is not None) for name in saved)
    with pytest.raises(IndexError), past.context():
        raise IndexError
    assert equal(now, weights(trainer))
    trainer.save_model(str(store.folder.parent / "model"))
    run = f"past:{store.folder.parent}"
    loaded = past_policies(run)
    assert [policy.name for policy in loaded] == [f"{run}@0", f"{run}@1"]
    np.testing.assert_allclose(logprobs(loaded[0]), at_first, atol=1e-5)
    with pytest.raises(ValueError, match=r"it has those of steps \[0, 1\]; name one"):
        past_policies(f"{run}@7")
    line = ["eval", "random", "kuhn_poker", "--against", run, "-n", "2", "--json"]
    done = CliRunner().invoke(app, [*line, "--no-baselines"])
    exact = json.loads(done.stdout)["nash_conv"]
    assert list(exact) == [f"{run}@0", f"{run}@1", "random"]
    assert exact["random"] == pytest.approx(11 / 12)
    assert exact[f"{run}@0"] != exact[f"{run}@1"]


def test_memory_is_that_of_max_live_snapshots_and_old_files_go(matched):
    options = {"every": 1, "max_live": 4, "window": 6}
    trainer = matched(opponents={"past_selves": {**options}})
    store, made, seen = trainer.matching.store, trainer.games.matchmaker, {}

    def look():
        for tensors in store._live.values():
            seen.update({id(t): weakref.ref(t) for t in tensors.values()})

    for step in range(25):
        trainer.matching._advance(made, step)
        look()
    for step in sorted(store.steps):
        trainer.matching.policies((f"self@{step}",))[0].generate([[5, 6]], [0])
        look()
    gc.collect()
    parameters = list(trainer.model.parameters())
    alive = [ref for ref in seen.values() if ref() is not None]
    assert len(alive) == 4 * len(parameters)
    assert store.num_bytes == 4 * sum(p.nbytes for p in parameters)
    files = sorted(int(re.sub(r"\D", "", p.stem)) for p in store.folder.iterdir())
    assert files == [19, 20, 21, 22, 23, 24]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixture", *ALONE, "psro"])
def test_a_resumed_run_ends_with_the_same_weights(matched, tmp_path, name):
    """The unbroken run writes no checkpoint, so that writing one changes nothing."""
    options = {"opponents": matchmaker(name, **RESUMED[name]), "max_steps": 3}
    whole = matched(output_dir=str(tmp_path / "whole"), **options)
    whole.train()
    options |= {"save_strategy": "steps", "save_steps": 2}
    matched(output_dir=str(tmp_path / "saved"), **options).train()
    checkpoint = tmp_path / "saved" / "checkpoint-2"
    resumed = matched(output_dir=str(tmp_path / "resumed"), **options)
    resumed.train(resume_from_checkpoint=str(checkpoint))
    assert equal(weights(whole), weights(resumed))
    said = [
        [turn.logprobs for episode in run.last_episodes for turn in episode.turns]
        for run in (whole, resumed)
    ]
    assert said[0] == said[1]
    state = whole.games.matchmaker.state_dict()
    assert resumed.games.matchmaker.state_dict() == state
    assert bool(state) == (name != "past_selves")


@pytest.mark.slow
def test_checkpoints_of_others_are_refused_before_the_first_step(matched, tmp_path):
    options = {"save_strategy": "steps", "save_steps": 1, "max_steps": 1}
    matched(output_dir=str(tmp_path / "one"), **options).train()
    checkpoint = tmp_path / "one" / "checkpoint-1"
    new = {"output_dir": str(tmp_path / "new"), **options}
    other = matched(**{**new, "opponents": "psro"})
    with pytest.raises(ValueError, match="want a checkpoint of opponents 'psro', got"):
        other.train(resume_from_checkpoint=str(checkpoint))
    matching = matched(**new).matching
    path = checkpoint / MATCHMAKING_FILE
    text = path.read_text()
    path.write_text(json.dumps({**json.loads(text), "run": "abc"}))
    with pytest.raises(ValueError, match="of another run than the results in"):
        matching.load(checkpoint)
    path.write_text(text)
    snapshot = tmp_path / "one" / "snapshots" / "step-0.safetensors"
    snapshot.write_bytes(snapshot.read_bytes().replace(b'"base":"', b'"bass":"'))
    with pytest.raises(ValueError, match="of another base model than the one that"):
        matching.load(checkpoint)
    snapshot.unlink()
    with pytest.raises(ValueError, match="got no such file"):
        matching.load(checkpoint)
    path.unlink()
    with pytest.raises(ValueError, match="got one of None"):
        matching.load(checkpoint)


def test_a_new_run_does_not_mix_with_the_snapshots_of_another(matched, generated):
    generated(matched())
    with pytest.raises(ValueError, match="without snapshots of another run"):
        generated(matched())


MIXED = {"id": "kuhn_poker", "opponents": "past_selves"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"opponents": "past_selves", "critic": "exact", "credit": "gae"},
            "same opponents",
        ),
        ({"opponents": ["self", "psro"]}, "which assigns all seats; give it alone"),
        ({"games": ["blackjack"], "opponents": "random"}, "a game of several seats"),
        ({"games": [MIXED]}, "give a matchmaker to the whole run"),
        (
            {"opponents": "psro", "games": [{**MIXED, "opponents": "self"}]},
            "want a game without opponents of its own",
        ),
        (
            {
                "opponents": matchmaker("past_selves"),
                "steps_per_generation": 2,
                "max_steps": 4,
            },
            "set its every to a multiple of 2",
        ),
        (
            {"opponents": {"mixture": {"weights": {"minimix": 1}}}},
            "no policy 'minimix'",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(make_trainer, options, message):
    with pytest.raises(ValueError, match=message):
        make_trainer(**options)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"use_vllm": True}, "vllm_mode 'server' does not support opponents 'past_"),
        ({"fsdp": "full_shard"}, "sharded training does not support opponents"),
    ],
)
def test_snapshots_are_refused_where_they_cannot_play(setting, message):
    plain = {
        "use_vllm": False,
        "vllm_mode": "server",
        "fsdp": "",
        "deepspeed": None,
        "opponents": "past_selves",
    }
    args = SimpleNamespace(**{**plain, **setting})
    plan = SimpleNamespace(
        name="kuhn_poker", game=make_game("kuhn_poker"), seats=None, is_matched=True
    )
    with pytest.raises(ValueError, match=message):
        matchmaker_of(args, [plan])


def test_a_folder_without_snapshots_is_named(tmp_path, arena_here):
    done = arena_here("eval", "random", "kuhn_poker", "--against", f"past:{tmp_path}")
    assert done.returncode == 2
    assert "it has none; train with a matchmaker" in " ".join(done.stderr.split())
    done = arena_here("eval", "random", "kuhn_poker", "--against", "past:nowhere")
    assert "want past:RUN with the folder of a run" in " ".join(done.stderr.split())


def test_games_with_opponents_of_their_own_keep_them(matched, generated):
    games = ["kuhn_poker", {"id": "kuhn_poker", "opponents": ["random", "self"]}]
    trainer = matched(games=games, episodes_per_step=16)
    generated(trainer)
    assigned = set(
        zip(trainer.last_played.games, trainer.last_played.seats, strict=True)
    )
    assert {seats for game, seats in assigned if game == 1} == {("random", "self")}
    assert {seats for game, seats in assigned if game == 0} <= {
        ("self", "self@0"),
        ("self@0", "self"),
    }
