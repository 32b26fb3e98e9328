"""Training episodes with their credit: what is written is what was trained."""

import json

import numpy as np
import pytest

import arena_envs
from arena_eval.rollouts import read_rollouts, write_rollouts
from arena_trainers.runs import training_groups
from arena_wrappers import PromptWrapper, RandomPolicy, play, replay, write_episodes

GOOD_CREDIT = {"estimator": "mars", "advantage": 1.0}
SETTINGS = {
    "turns": {"credit": "mars"},
    "tokens": {"credit": "mars", "within_turn": "entropy"},
    "weights": {"credit": "mars", "weighting": "turn"},
    "trajectories": {
        "layout": "trajectory",
        "weighting": "turn",
        "history": "transcript",
    },
    "trees": {
        "credit": "at_grpo",
        "credit_args": {"discount": 1.0},
        "branch": {"num_candidates": 2, "follow": "best"},
    },
}


def written(trainer, path, num_groups=100):
    write_rollouts(path, training_groups(trainer, num_groups))
    return list(read_rollouts(path))


def trained(rollouts):
    """The advantages of the tokens, row by row, as the file has them."""
    rows = {}
    for number, (episode, credit) in enumerate(rollouts):
        for place, (turn, entry) in enumerate(zip(episode.turns, credit, strict=True)):
            if entry is not None:
                key = (number, place, turn.seat)
                own = np.broadcast_to(entry.advantage, len(turn.token_ids))
                rows[key] = entry.weight * own
    return rows


@pytest.mark.parametrize("name", SETTINGS)
def test_the_advantages_in_the_file_are_those_that_are_trained(
    name, make_trainer, generated, tmp_path
):
    trainer = make_trainer(temperature=2.0, **SETTINGS[name])
    batch = generated(trainer)
    rows = trained(written(trainer, tmp_path / "step-1.jsonl"))
    if name == "trajectories":  # a row holds all turns of a seat
        first = {}
        for number, place, seat in rows:
            first.setdefault((number, seat), (number, place))
        order = sorted(rows, key=lambda key: (first[key[0], key[2]], key[1]))
    else:
        order = list(rows)
    live = (batch["tool_mask"] * batch["completion_mask"]).bool()
    expected = batch["advantages"][live].numpy()
    assert np.any(expected)
    found = np.concatenate([rows[key] for key in order])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_a_file_holds_whole_groups_and_null_for_turns_of_opponents(
    make_trainer, generated, tmp_path
):
    trainer = make_trainer(
        opponents=["self", "random"], num_generations=4, episodes_per_step=16
    )
    generated(trainer)
    rollouts = written(trainer, tmp_path / "step-1.jsonl", 1)
    first = trainer.last_episodes[0].seed
    group = [e for e in trainer.last_episodes if e.seed == first]
    assert [rollout.episode.sample for rollout in rollouts] == [e.sample for e in group]
    for episode, credit in rollouts:
        assert replay(episode) == episode
        assert [entry is None for entry in credit] == [
            t.seat == 1 for t in episode.turns
        ]


def test_a_pool_tells_its_columns_and_moments(make_trainer, generated, tmp_path):
    trainer = make_trainer(credit="mars", credit_args={"pool": ["group", "seat"]})
    generated(trainer)
    rollouts = written(trainer, tmp_path / "step-1.jsonl")
    turns = trainer.last_turns
    entries = [entry for _, credit in rollouts for entry in credit if entry is not None]
    assert len(entries) == len(turns.reward)
    for row, entry in enumerate(entries):
        assert entry.pool == {
            "game": turns.game[row],
            "group": turns.group[row],
            "seat": turns.seat[row],
        }
        own = (turns.group == turns.group[row]) & (turns.seat == turns.seat[row])
        assert entry.pool_size == own.sum()


def test_branched_episodes_name_the_line_of_their_parent(
    make_trainer, generated, tmp_path
):
    trainer = make_trainer(temperature=2.0, **SETTINGS["trees"])
    generated(trainer)
    rollouts = written(trainer, tmp_path / "step-1.jsonl", 2)
    branched = [entry for entry in rollouts if entry.episode.parent is not None]
    assert branched
    for episode, credit in branched:
        parent = rollouts[episode.parent].episode
        shared = [
            [(turn.seat, turn.messages, turn.token_ids) for turn in e.turns]
            for e in (parent, episode)
        ]
        assert shared[0][: episode.branch] == shared[1][: episode.branch]
        assert credit[: episode.branch] == [None] * episode.branch
    assert {e.seed for e, _ in rollouts} == {
        e.seed for e in trainer.last_episodes[: len(rollouts)]
    }


def test_episodes_without_credit_are_read_too(tmp_path):
    path = tmp_path / "episodes.jsonl"
    episodes = play(
        lambda: PromptWrapper(arena_envs.make("kuhn_poker")), RandomPolicy(), range(3)
    )
    write_episodes(path, episodes)
    rollouts = list(read_rollouts(path))
    assert [rollout.episode for rollout in rollouts] == episodes
    assert all(set(rollout.credit) == {None} for rollout in rollouts)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v | {"credit": []}, "want credit as a list of [23], one entry"),
        (lambda v: v | {"credit": 3}, "want credit as a list"),
        (lambda v: v | {"credit": [7] * len(v["turns"])}, "got 7"),
        (
            lambda v: (
                v
                | {
                    "credit": [{"estimator": "x", "advantage": 1, "pot": 2}]
                    * len(v["turns"])
                }
            ),
            "unknown field 'pot'",
        ),
        *(
            (
                lambda v, entry=entry: (
                    v | {"credit": [GOOD_CREDIT | entry] * len(v["turns"])}
                ),
                message,
            )
            for entry, message in [
                ({"pool": [1]}, "pool of credit cannot be .1."),
                ({"advantage": "abc"}, "advantage of credit cannot be 'abc'"),
                ({"advantage": [0.5, None]}, "advantage of credit cannot be"),
                ({"weight": float("nan")}, "weight of credit cannot be nan"),
                ({"pool_size": 3}, "want pool_size, pool_mean, pool_std all or none"),
                ({"pool_size": 3.5}, "pool_size of credit cannot be 3.5"),
            ]
        ),
        (lambda v: v | {"seed": "one"}, "seed cannot be 'one'"),
        (lambda v: [v], "want an episode as JSON"),
    ],
)
def test_a_line_that_is_no_rollout_is_named(change, message, tmp_path):
    (episode,) = play(
        lambda: PromptWrapper(arena_envs.make("kuhn_poker")), RandomPolicy(), [0]
    )
    path = tmp_path / "step-1.jsonl"
    path.write_text(json.dumps(change(json.loads(episode.to_json()))) + "\n")
    with pytest.raises(ValueError, match=f"step-1.jsonl, line 1: .*{message}"):
        list(read_rollouts(path))
