"""Turns of several generations in training: each is credited and trained by itself."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from arena_credit import estimate
from arena_envs import make_game
from arena_eval.rollouts import read_rollouts, write_rollouts
from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer
from arena_trainers.data.rollouts import turn_credits
from arena_trainers.rewards import parts_of
from arena_trainers.train import FeatureCritic, turn_batch, turn_records
from arena_trainers.train.records import num_turns
from arena_trainers.train.rows import training_rows
from arena_wrappers import AgentPolicy, Ask, Generation, Reply, play
from arena_wrappers.policies import agents

PLANNER = agents.find("planner_worker")
SMALL = {"num_steps": 5, "hidden_size": 8, "learning_rate": 0.01}


def alone(seen):
    said = yield Ask("me", seen.messages)
    return Reply(said.text)


@pytest.fixture
def trained(model_folder, settings):
    """A trainer after two steps."""

    def train(agent, agent_name=None, **options):
        options["agent"] = agent_name
        args = TurnGRPOConfig(**{**settings, "max_steps": 2, **options})
        tokenizer = AutoTokenizer.from_pretrained(model_folder)
        trainer = TurnGRPOTrainer(
            str(model_folder), args, processing_class=tokenizer, agent=agent
        )
        trainer.train()
        return trainer

    return train


def episode_by_hand():
    """Two turns of seat 0: two generations, then one; rewards 1 and 2."""
    (played,) = play("kuhn_poker", "random", [3])
    first = replace(
        played.turns[0],
        seat=0,
        index=0,
        rewards={"game": 1.0},
        generations=(
            Generation("planner", "a", [1, 2], [3, 4, 5], [-0.1, -0.2, -0.3]),
            Generation("worker", "bet", [1, 2, 3], [6], [-0.4], parent=0),
        ),
    )
    second = replace(
        first,
        index=1,
        rewards={"game": 2.0},
        generations=(),
        prompt_ids=[9],
        token_ids=[7, 8],
        logprobs=[-0.5, -0.6],
    )
    return replace(played, turns=[first, second])


def test_columns_by_hand():
    records = turn_records([episode_by_hand()], [0], [("self", "random")])
    batch = turn_batch([records], {}, ["kuhn"])
    assert batch.turn.tolist() == [0, 1, 2]
    assert batch.reward.tolist() == [0.0, 1.0, 2.0]
    assert batch.num_tokens.tolist() == [3, 1, 2]
    assert batch.row_length.tolist() == [5, 4, 3]
    assert batch.terminated.tolist() == [False, False, True]


def test_rows_hold_the_tokens_of_their_generation():
    episode = episode_by_hand()
    records = turn_records([episode], [0], [("self", "random")])
    batch = turn_batch([records], {}, ["kuhn"])
    rows = training_rows([episode], records, batch, np.array([1.0, 2, 3]), range(3))
    assert [list(row.prompt_ids) for row in rows] == [[1, 2], [1, 2, 3], [9]]
    assert [list(row.completion_ids) for row in rows] == [[3, 4, 5], [6], [7, 8]]
    assert [list(row.logprobs) for row in rows] == [
        [-0.1, -0.2, -0.3],
        [-0.4],
        [-0.5, -0.6],
    ]
    assert [row.advantage.tolist() for row in rows] == [[1.0] * 3, [2.0], [3.0] * 2]
    assert {row.episode_return for row in rows} == {3.0}


def test_the_planner_is_credited_with_the_pay_of_its_turn():
    """Return-to-go less the mean of the pool of its (game, seat, turn)."""
    good, bad = episode_by_hand(), episode_by_hand()
    bad.turns[0].rewards.update(game=-1.0)
    bad.turns[1].rewards.update(game=1.0)
    records = turn_records([good, bad], [0, 0], [("self", "random")] * 2)
    batch = turn_batch([records], {}, ["kuhn"])
    pool = ("game", "seat", "turn")
    found = estimate("mars", batch, pool=pool, scale="none").advantage
    assert found.tolist() == [1.5, 1.5, 0.5, -1.5, -1.5, -0.5]


def test_rollouts_keep_the_credit_of_each_call(tmp_path):
    good, bad = episode_by_hand(), episode_by_hand()
    bad.turns[0].rewards.update(game=-1.0)
    bad.turns[1].rewards.update(game=1.0)
    records = turn_records([good, bad], [0, 0], [("self", "random")] * 2)
    batch = turn_batch([records], {}, ["kuhn"], ["role"])
    result = estimate("mars", batch, pool=("game", "role"), scale="none")
    told = {"estimator": "mars", "weighting": "token"}
    found = turn_credits([good, bad], records, range(6), batch, result, **told)
    write_rollouts(tmp_path / "step-1.jsonl", found)
    credit = [one.credit for one in read_rollouts(tmp_path / "step-1.jsonl")]
    whole = [a for turns in credit for c in turns for a in (c.calls or [c.advantage])]
    assert whole == result.advantage.tolist()
    assert [len(c.calls) for turns in credit for c in turns] == [2, 0, 2, 0]


def test_a_pool_may_name_the_role():
    """Planners are compared with planners; without roles to tell apart, nothing changes."""
    good, bad = episode_by_hand(), episode_by_hand()
    bad.turns[0].rewards.update(game=-1.0)
    bad.turns[1].rewards.update(game=1.0)
    records = turn_records([good, bad], [0, 0], [("self", "random")] * 2)
    batch = turn_batch([records], {}, ["kuhn"], ["role"])
    assert batch.role.tolist() == [0, 1, 2, 0, 1, 2]
    found = estimate("mars", batch, pool=("game", "role"), scale="none")
    assert found.advantage.tolist() == [1.5, 1.5, 0.5, -1.5, -1.5, -0.5]
    one = turn_batch([[r._replace(role="") for r in records]], {}, ["kuhn"], ["role"])
    apart, plain = (
        estimate("mars", one, pool=p).advantage for p in (("game", "role"), ("game",))
    )
    np.testing.assert_allclose(apart, plain, atol=1e-6)


@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_at_grpo_compares_calls_that_read_the_same():
    """A worker's state is the seat's, and what was said before in its turn."""
    episodes = [episode_by_hand() for _ in range(3)]
    for i, (episode, plan) in enumerate(zip(episodes, "aab", strict=True)):
        episode.turns[1].rewards.update(game=float(i))
        first, worker = episode.turns[0].generations
        said = (replace(first, text=plan), worker)
        episode.turns[0] = replace(episode.turns[0], generations=said)
    rules, columns = [make_game("kuhn_poker")], ["state_key", "action", "role"]
    who = [("self", "random")] * 3
    records = turn_records(episodes, [0] * 3, who, rules, columns)
    batch = turn_batch([records], {}, ["kuhn"], columns)
    keys = batch.state_key.reshape(3, 3)
    assert keys[0, 0] == keys[1, 0] == keys[2, 0]  # planners
    assert keys[0, 1] == keys[1, 1] != keys[2, 1]  # workers
    plans = batch.action.reshape(3, 3)[:, 0]
    assert plans[0] == plans[1] != plans[2]
    pool = ("group", "seat", "role", "turn", "state_key")
    found = estimate("at_grpo", batch, pool=pool, discount=1.0, scale="none")
    planner, worker = found.advantage.reshape(3, 3).T[:2].tolist()
    assert planner == [-0.5, -0.5, 1.0]  # Q of plan a is 1.5, of plan b 3
    assert worker == [0.0, 0.0, 0.0]  # both bet after plan a; one alone after b


def test_the_last_call_of_a_turn_gets_its_rewards():
    """A reward is paid once for a turn; a stratum holds for every call."""
    functions = {
        "rewards.x": lambda episode, turn, state: 5.0 + turn.index,
        "stratum": lambda episode, turn, state: 3,
    }
    rules = [make_game("kuhn_poker")]
    seats = [("self", "random")]
    records = turn_records([episode_by_hand()], [0], seats, rules, functions=functions)
    batch = turn_batch([records], {"x": 2.0}, ["kuhn"], ["rewards.x", "stratum"])
    assert batch.rewards["x"].tolist() == [0.0, 10.0, 12.0]
    assert batch.reward.tolist() == [0.0, 11.0, 14.0]
    assert batch.stratum.tolist() == [3, 3, 3]


@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_each_call_is_paid_its_part():
    """The plan of 3 tokens costs 0.3, the worker's move of 1 is graded 0.5; by hand.

    Returns-to-go are 0 - 0.3 + 1 + 0.5 + 2 and so on, less the mean of the role in two episodes.
    """

    def grades(calls):
        assert [call.generation.role for call in calls] == ["planner", "worker", ""] * 2
        assert [call.turn.index for call in calls] == [0, 0, 1] * 2
        return [0.5 * (call.generation.text == "bet") for call in calls]

    good, bad = episode_by_hand(), episode_by_hand()
    plan, worker = bad.turns[0].generations
    worker = replace(worker, text="pass")
    bad.turns[0] = replace(bad.turns[0], generations=(plan, worker), reply="pass")
    cost = parts_of({"length": {"weight": -0.1, "role": "planner"}})
    functions = {**cost, "rewards.grade": grades}
    records = turn_records(
        [good, bad],
        [0, 0],
        [("self", "random")] * 2,
        [make_game("kuhn_poker")],
        functions=functions,
    )
    batch = turn_batch([records], {"length": -0.1, "grade": 1.0}, ["kuhn"], ["role"])
    assert batch.reward.tolist() == pytest.approx([-0.3, 1.5, 2, -0.3, 1.0, 2])
    credit = estimate("mars", batch, pool=("game", "role"), scale="none")
    by_hand = [0.25, 0.25, 0, -0.25, -0.25, 0]
    assert credit.advantage.tolist() == pytest.approx(by_hand)
    assert num_turns(records) == 4


def test_the_value_of_a_call_reads_how_many_came_before():
    """V of planner and of worker in the same state, fitted to what each is paid by hand."""
    game = make_game("kuhn_poker")
    episodes = [episode_by_hand() for _ in range(2)]
    for sees, column in (("seat", "features"), ("all", "features.all")):
        records = turn_records(
            episodes, [0, 0], [("self", "random")] * 2, [game], [column]
        )
        batch = turn_batch([records], {}, ["kuhn"])
        critic = FeatureCritic(
            [game], plays_agent=True, sees=sees, learning_rate=0.05, num_steps=200
        )
        critic.fit(critic.with_values(batch, records), records)
        values = critic.with_values(batch, records).value
        # the planner, and the second turn, which begins in the same state here
        assert values.tolist() == pytest.approx([2.5, 3, 2.5] * 2, abs=0.05)
        records = [
            r._replace(rewards={"game": r.rewards.get("game", -1.0)}) for r in records
        ]
        batch = turn_batch([records], {}, ["kuhn"])
        critic.fit(critic.with_values(batch, records), records)
        values = critic.with_values(batch, records).value
        assert values.tolist() == pytest.approx([2, 3, 2] * 2, abs=0.05)


@pytest.mark.parametrize(
    "options",
    [
        {"rewards": {"length": {"weight": -0.01}}},
        {"credit": "gae", "critic": "features", "critic_args": {"sees": "all"}},
        {"credit": "poad", "critic": "tokens"},
        {"credit": "gae", "critic": "utterances", "critic_args": SMALL},
        {"opponents": {"past_selves": {"every": 1}}, "save_strategy": "steps"},
    ],
)
def test_agents_train_with_rewards_critics_and_past_selves(trained, options):
    trainer = trained(None, agent_name="planner_worker", save_steps=1, **options)
    assert trainer.state.global_step == 2
    records = trainer.last_selected.records
    if "rewards" in options:
        paid = [record.rewards.get("length") for record in records]
        assert paid == [float(r.num_tokens) for r in records]
        logged = trainer.credit.metrics["arena/reward/length"]
        assert logged == pytest.approx(2 * np.mean(paid))  # of a turn of two calls
    elif "critic" in options:
        values = trainer.last_turns.value.reshape(-1, 2)
        assert np.isfinite(values).all()
        assert (values[:, 0] != values[:, 1]).all()  # planner and worker
    else:
        assert {record.opponent for record in records} >= {("self@0",)}


def test_an_agent_of_several_calls_is_refused_where_credit_reads_values(trained):
    """The trainer knows of an agent that is an object when it has played."""
    with pytest.raises(ValueError, match="an agent does not support critic 'exact'"):
        trained(lambda model: AgentPolicy(PLANNER, model), critic="exact", credit="gae")


def test_an_agent_of_one_call_trains_as_the_model_does(trained):
    def weights(trainer):
        return dict(trainer.accelerator.unwrap_model(trainer.model).state_dict())

    plain = weights(trained(None))
    by_agent = weights(trained(lambda model: AgentPolicy(alone, model)))
    assert all(torch.equal(plain[name], by_agent[name]) for name in plain)


def test_matpo_gives_workers_what_their_planner_gets(trained):
    options = {
        "credit": "matpo",
        "credit_args": {"pool": ["group", "seat"], "eps": 1.0},
    }
    trainer = trained(lambda model: AgentPolicy(PLANNER, model), **options)
    shares = {}
    for row in (row for row in trainer._rows if row.advantage is not None):
        shares.setdefault(row.trajectory, set()).update(row.advantage.tolist())
    assert {len(values) for values in shares.values()} == {1}
    assert len(set.union(*shares.values())) > 1


def test_planner_and_worker_are_trained(trained):
    trainer = trained(lambda model: AgentPolicy(PLANNER, model))
    turns = [t for e in trainer.last_episodes for t in e.turns]
    assert {len(turn.generations) for turn in turns} == {2}
    ids = sorted(tuple(g.token_ids) for turn in turns for g in turn.generations)
    rows = [row for row in trainer._rows if row.advantage is not None]
    assert sorted(tuple(row.completion_ids) for row in rows) == ids
