"""`credit.export`: whose advantages stand where, against numbers by hand."""

import json
from dataclasses import replace

import pytest

import arena_credit as credit
from arena_wrappers import Branching, Episode, Turn, play


def turn(index, seat, reward, tokens=None, prompt=("u",), policy="me"):
    """A turn of `tokens` reply tokens after a prompt of one token per message."""
    messages = [
        {"role": "assistant" if k % 2 else "user", "content": text}
        for k, text in enumerate(prompt)
    ]
    ids = {}
    if tokens is not None:
        ids = {
            "prompt_ids": list(range(10, 10 + len(prompt))),
            "token_ids": [7] * tokens,
            "logprobs": [-0.5] * tokens,
        }
    return Turn(
        *(index, seat, policy, messages, ["a"], "a", 0, None, None),
        rewards={"game": reward},
        **ids,
    )


def episode(seed, turns, returns, sample=0, **fields):
    given = {"terminated": True, "truncated": False, **fields}
    return Episode("g", {}, None, {}, seed, sample, [], turns, returns, **given)


@pytest.fixture
def group():
    """Two episodes of one start: seat 0 has 1 and 2 turns, seat 1 one turn each."""
    return [
        episode(0, [turn(0, 0, 3.0, 2), turn(0, 1, -3.0, 1)], [3.0, -3.0]),
        episode(
            0,
            [turn(0, 0, 0.0, 1), turn(0, 1, 1.0, 3), turn(1, 0, -1.0, 2)],
            [-1.0, 1.0],
            sample=1,
        ),
    ]


def test_advantages_are_those_of_the_estimator(group):
    """`dr_grpo`: the return less the pool's mean, here over the seat's trajectories."""
    rows = credit.export(group, "dr_grpo", "messages")
    found = [(r["episode"], r["seat"], r["turn"], r["advantage"]) for r in rows]
    assert found == [
        *[(0, 0, 0, 2.0), (0, 1, 0, -2.0)],
        *[(1, 0, 0, -2.0), (1, 0, 1, -2.0), (1, 1, 0, 2.0)],
    ]
    assert [r["token_advantages"] for r in rows][:2] == [[2.0, 2.0], [-2.0]]
    assert rows[0]["messages"][-1] == {"role": "assistant", "content": "a"}
    assert (rows[0]["reward"], rows[0]["return"]) == (3.0, 3.0)
    assert json.loads(json.dumps(rows)) == rows


def test_episodes_may_come_one_at_a_time(group):
    rows = credit.export(group, "mars", "messages")
    assert credit.export(iter(group), "mars", "messages") == rows


def test_groups_are_starts_and_games_are_kept_apart(group):
    other = [replace(e, params={"n": 2}) for e in group]
    later = [replace(e, seed=1, returns=[0.0, 0.0]) for e in group]
    alone = credit.export(group, "dr_grpo", "messages")
    rows = credit.export([*group, *other, *later], "dr_grpo", "messages")
    assert [r["advantage"] for r in rows[:5]] == [r["advantage"] for r in alone]


def test_only_the_named_policies_are_credited(group):
    for one in group:
        for number, who in enumerate(one.turns):
            if who.seat == 1:
                one.turns[number] = replace(who, policy="random")
    rows = credit.export(group, "mars", "openenv", policies="me")
    assert {row["agent"] for row in rows} == {"player_0"}
    with pytest.raises(ValueError, match=r"of the policies \['you'\], got those of"):
        credit.export(group, "mars", "openenv", policies="you")


def test_pools_can_go_by_who_played_the_other_seats():
    """Two returns against each policy: their means are 2 and 20, of all 11."""
    group = [
        episode(
            0,
            [turn(0, 0, paid), turn(0, 1, 0.0, policy=name)],
            [paid, 0.0],
            sample=sample,
        )
        for sample, (paid, name) in enumerate(
            [(1.0, "weak"), (3.0, "weak"), (15.0, "cfr"), (25.0, "cfr")]
        )
    ]

    def advantages(**options):
        rows = credit.export(group, "dr_grpo", "messages", policies="me", **options)
        return [row["advantage"] for row in rows]

    assert advantages() == [-10.0, -8.0, 4.0, 14.0]
    by_opponent = ("group", "seat", "opponent")
    assert advantages(pool=by_opponent) == [-1.0, 1.0, -5.0, 5.0]
    group[0].turns.pop()  # nobody knows who sat there
    with pytest.raises(ValueError, match="opponent"):
        advantages(pool=by_opponent)
    given = {"opponent": [0, 0, 1, 1]}
    assert advantages(pool=by_opponent, columns=given) == [-1.0, 1.0, -5.0, 5.0]


def test_steps_hold_what_openenv_reads(group):
    first, _, second, _ = credit.export(group, "dr_grpo", "openenv")
    assert first["step_rewards"] == [2.0]
    assert second["step_rewards"] == [-2.0, -2.0]
    assert [step["done"] for step in second["steps"]] == [False, True]
    assert [step["reward"] for step in second["steps"]] == [0.0, -1.0]
    assert second["steps"][1]["metadata"]["token_advantages"] == [-2.0, -2.0]


def test_tokens_can_have_their_own_credit(group):
    for one in group:
        for number, who in enumerate(one.turns):
            spread = [0.1 * (k + 1) for k in range(len(who.token_ids))]
            one.turns[number] = replace(who, entropies=spread)
    rows = credit.export(group, "dr_grpo", "messages", within_turn="entropy")
    tokens = rows[0]["token_advantages"]
    assert tokens[0] != tokens[1]
    assert rows[0]["advantage"] == pytest.approx(sum(tokens) / 2)


def path_ids(nodes, leaf):
    ids = []
    while leaf is not None:
        ids = nodes[leaf].get("token_ids", []) + ids
        leaf = nodes[leaf]["parent"]
    return ids


def replies(nodes):
    return [i for i, node in enumerate(nodes) if node.get("sampled")]


@pytest.mark.parametrize("is_continued", [True, False])
def test_a_path_of_a_trace_has_the_tokens_that_the_model_read(is_continued):
    """A second prompt that begins with the first turn goes on in its branch."""
    first = turn(0, 0, 0.0, 2, prompt=("u",))
    second = turn(1, 0, 1.0, 1, prompt=("u", "a", "v"))
    ids = [10, 7, 7, 30] if is_continued else [10, 8, 7, 30]
    second = replace(second, prompt_ids=ids)
    played, columns = [episode(0, [first, second], [1.0])], {"value": [0.0, 0.5]}
    (found,) = credit.export(played, "gae", "verifiers", columns=columns, lambda_=1.0)
    nodes = found["nodes"]
    one, two = replies(nodes)
    assert path_ids(nodes, one) == [10, 7, 7]
    assert path_ids(nodes, two) == [*ids, 7]
    assert nodes[two]["mask"] == [False] * (1 if is_continued else 4) + [True]
    parents = {node["parent"] for node in nodes}
    leaves = [i for i in range(len(nodes)) if i not in parents]
    assert leaves == ([two] if is_continued else [one, two])
    assert found["info"]["turn_rewards"] == [0.0, 1.0]
    assert [nodes[i]["advantages"] for i in (one, two)] == [[1.0, 1.0], [0.5]]


def test_episodes_of_play_are_exported_without_tokens():
    episodes = play("kuhn_poker", "random", range(4), num_samples=2)
    found = credit.export(episodes, "mars", "verifiers")
    assert len(found) == 16
    sums = [t["rewards"]["return"]["score"] for t in found]
    assert [sum(t["info"]["turn_rewards"]) for t in found] == sums
    for one in found:
        for index in replies(one["nodes"]):
            assert "token_ids" not in one["nodes"][index]


def test_what_cannot_be_credited_is_refused(group):
    with pytest.raises(ValueError, match="want to among messages, verifiers, openenv"):
        credit.export(group, "mars", "json")
    with pytest.raises(ValueError, match="want at least one episode, got none"):
        credit.export([], "mars", "messages")
    with pytest.raises(ValueError, match="value"):
        credit.export(group, "gae", "messages")
    branched = play("kuhn_poker", "random", [0], branch=Branching(2))
    with pytest.raises(ValueError, match="did not branch, got episode 1"):
        credit.export(branched, "mars", "messages")


def test_columns_of_the_caller_reach_the_estimator(group):
    columns = {"value": [1.0, 0.0, 0.0, 0.0, 0.0]}
    rows = credit.export(group, "gae", "messages", columns=columns, lambda_=1.0)
    assert [row["advantage"] for row in rows][:2] == [2.0, -3.0]
