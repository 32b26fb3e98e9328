"""Turn trees and critics in the trainer."""

import numpy as np
import pytest
import torch
from accelerate.utils import gather_object

from arena_trainers.train import loss_weighted
from arena_wrappers import replay

TREES = {
    "credit": "at_grpo",
    "credit_args": {"discount": 1.0},
    "branch": {"num_candidates": 3},
}


def weights(trainer):
    model = trainer.accelerator.unwrap_model(trainer.model)
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("follow", ["all", "best"])
def test_each_turn_of_a_tree_is_one_row(make_trainer, generated, follow):
    """What candidates share with the episode that they branched from is trained once.

    Where the best is followed, a candidate's own later turns are not trained at all.
    """
    branch = {"num_candidates": 3, "turns": [0, 1], "follow": follow}
    trainer = make_trainer(**TREES | {"branch": branch}, temperature=2.0)
    batch = generated(trainer)
    episodes, turns = trainer.last_episodes, trainer.last_turns
    own = [e.turns[e.branch or 0 :] for e in episodes]
    assert len(episodes) > 8 * 4
    assert len(turns.reward) == sum(map(len, own))
    if follow == "best":
        own = [
            part if e.branch is None else part[:1]
            for part, e in zip(own, episodes, strict=True)
        ]
        assert sum(map(len, own)) < len(turns.reward)
    said = [list(turn.token_ids) for part in own for turn in part]
    assert turns.unselected.sum() == len(said)
    (rows,) = trainer._metrics["train"]["arena/rows"]
    assert rows == len(said)
    live = batch["tool_mask"].bool() & batch["completion_mask"].bool()
    ids = batch["completion_ids"]
    assert [ids[i][live[i]].tolist() for i in range(len(said))] == said
    assert not live[len(said) :].any()
    for episode in episodes:
        replay(episode)


def test_whole_trajectories_of_a_tree_end_with_their_last_fair_turn(
    make_trainer, generated
):
    settings = {**TREES, "layout": "trajectory", "history": "transcript"}
    trainer = make_trainer(**settings, weighting="turn", temperature=2.0)
    batch = generated(trainer)
    turns = trainer.last_turns
    live = batch["tool_mask"].bool() & batch["completion_mask"].bool()
    assert not turns.unselected.all()
    assert live.sum() == turns.num_tokens[turns.unselected].sum()
    lengths = batch["prompt_mask"].sum(dim=1) + batch["completion_mask"].sum(dim=1)
    trained = lengths[live.any(dim=1)].tolist()
    assert {*turns.row_length[turns.unselected].tolist()} == {*trained}
    per_token = loss_weighted(turns.unselected * 1.0, turns, "grpo", "trajectory")
    total = (per_token * turns.num_tokens).sum()  # 1 for each row
    assert total == pytest.approx(len(trained))


def test_the_batch_tells_parents_and_branches(make_trainer, generated):
    trainer = make_trainer(**TREES, temperature=2.0)
    generated(trainer)
    episodes, turns = trainer.last_episodes, trainer.last_turns
    number = {e: i for i, e in enumerate(np.unique(turns.episode).tolist())}
    assert len(number) == len(episodes)
    for n in range(len(turns.reward)):
        episode = episodes[number[turns.episode[n]]]
        parent = -1 if episode.parent is None else episode.parent
        assert turns.parent[n] == parent
        assert turns.branch[n] == (-1 if episode.branch is None else episode.branch)
    roots = turns.parent == -1
    assert turns.turn[roots].min() == 0
    assert turns.group.max() == 3  # of 8 roots of 4 starts


def test_candidates_are_compared_with_each_other(make_trainer, generated):
    """At the first turn of a tree, by hand: mean returns of equal replies as z-scores."""
    trainer = make_trainer(**TREES, temperature=2.0, num_generations=2)
    generated(trainer)
    turns, advantage = trainer.last_turns, trainer.last_credit.advantage
    first = (turns.seat == 0) & (turns.turn == 0)
    to_go = np.array(
        [
            turns.reward[(turns.episode == e) & (turns.seat == 0)].sum()
            for e in turns.episode[first]
        ]
    )
    compared = 0
    for group in range(4):
        own = turns.group[first] == group  # two roots and three candidates of each
        assert own.sum() == 2 + 2 * 3
        done = turns.action[first][own]
        value = np.array([to_go[own][done == action].mean() for action in done])
        want = (value - to_go[own].mean()) / (to_go[own].std(ddof=1) + 1e-6)
        if to_go[own].std() > 1e-6:
            np.testing.assert_allclose(advantage[first][own], want, atol=1e-6)
            compared += 1
    assert compared > 0


def test_returns_are_logged_of_fair_episodes_alone(make_trainer, generated):
    trainer = make_trainer(**TREES, temperature=2.0)
    generated(trainer)
    roots = [e for e in trainer.last_episodes if e.parent is None]
    assert len(roots) == 8
    (logged,) = trainer._metrics["train"]["arena/kuhn_poker/player_0/return"]
    assert logged == np.mean([episode.returns[0] for episode in roots])


@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_evaluation_plays_no_trees(make_trainer):
    trainer = make_trainer(**TREES, num_generations_eval=1)
    trainer.model.eval()
    trainer._generate_and_score_completions([trainer.train_dataset[0]])
    assert len(trainer.last_episodes) == 1


def test_seats_that_do_not_learn_do_not_branch(make_trainer, generated):
    trainer = make_trainer(**TREES, opponents=["random", "self"])
    generated(trainer)
    branched = [e for e in trainer.last_episodes if e.parent is not None]
    assert branched
    assert {e.turns[e.branch].seat for e in branched} == {1}


@pytest.mark.parametrize(
    "credit", ["at_grpo", pytest.param("agentprm", marks=pytest.mark.slow)]
)
def test_weights_move_on_trees(make_trainer, credit):
    trainer = make_trainer(
        credit=credit, branch={"num_candidates": 2, "turns": [0], "follow": "all"}
    )
    before = weights(trainer)
    trainer.train()
    assert any(not torch.equal(before[k], v) for k, v in weights(trainer).items())


@pytest.mark.parametrize(
    "credit", ["gae", pytest.param("turn_ppo", marks=pytest.mark.slow), "archer"]
)
def test_a_critic_gives_values_and_learns(make_trainer, credit, generated):
    trainer = make_trainer(credit=credit, critic="features", logging_steps=1)
    trainer.train()
    assert not trainer.last_turns.value.any()  # nothing was seen before
    assert trainer.state.log_history[0]["arena/critic_error"] > 0
    generated(trainer)
    assert trainer.last_turns.value.any()


@pytest.mark.parametrize(
    ("critic", "columns"),
    [("features", None), ("exact", None), (None, {"value": lambda *_: 0.0})],
)
def test_features_are_gathered_for_the_critic_that_reads_them(
    make_trainer, generated, monkeypatch, critic, columns
):
    shares = []

    def gather(rows):
        if not isinstance(rows[0], list):
            return gather_object(rows)
        shares.extend(rows)
        return rows

    monkeypatch.setattr("arena_trainers.train.advantages.gather_object", gather)
    trainer = make_trainer(columns, credit="gae", critic=critic)
    generated(trainer)
    (records,) = shares
    assert len(records) == len(trainer.last_turns.reward)
    assert {r.features is not None for r in records} == {critic == "features"}


def test_the_critic_has_the_discount_of_the_estimator(make_trainer):
    assert (
        make_trainer(credit="turn_ppo", critic="features").credit.critic.discount
        == 0.99
    )
    args = {"discount": 0.5}
    trainer = make_trainer(credit="gae", credit_args=args, critic="features")
    assert trainer.credit.critic.discount == 0.5


@pytest.mark.slow
def test_a_resumed_critic_goes_on_bit_by_bit(whole_and_resumed):
    options = {
        "credit": "gae",
        "critic": "features",
        "critic_args": {"num_steps": 3},
    }
    whole, resumed = whole_and_resumed(**options)
    for name, tensor in weights(whole).items():
        assert torch.equal(tensor, weights(resumed)[name]), name
    one, other = (t.credit.critic.networks.state_dict() for t in (whole, resumed))
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"critic": "feature"}, "did you mean 'features'"),
        ({"critic": "features"}, "credit 'control_variates' reads no values"),
        ({"credit": "gae"}, "set critic='features'"),
        (
            {"credit": "gae", "critic_args": {"num_steps": 3}},
            "only with a critic, got {.*; set critic",
        ),
        (
            {"credit": "gae", "critic": "features", "critic_args": {"steps": 3}},
            "critic 'features' has no option 'steps'",
        ),
        (
            {"branch": {"num_candidates": 2}},
            "does not support branch with credit 'control_variates'",
        ),
        (
            {"credit": "gigpo", "branch": {"num_candidates": 2}},
            "does not support branch with credit 'gigpo': .* 'agentprm' or 'at_grpo'$",
        ),
        ({**TREES, "branch": {"num_candidates": 1}}, "num_candidates from 2"),
        ({**TREES, "branch": {"candidates": 2}}, "branch has no option 'candidates'"),
        ({**TREES, "branch": {"turns": [0]}}, "want num_candidates in branch"),
        ({**TREES, "branch": 4}, "want a mapping as branch, got 4"),
        (
            {"credit": "random_effects", "credit_args": {"pool": ["seat", "branch"]}},
            "rollouts have no workers; choose",
        ),
        (
            {
                "credit": "random_effects",
                "credit_args": {"pool": ["group", "seat", "state_key"]},
                "branch": {"num_candidates": 2},
            },
            "'random_effects' does not support turns .* follow='random' or 'all', or credit to 'age",
        ),
    ],
)
def test_bad_settings_are_refused_by_name(make_trainer, overrides, message):
    with pytest.raises(ValueError, match=message):
        make_trainer(**overrides)
