"""Each selector on episodes written by hand; the promises of all of them."""

import json
from dataclasses import replace
from functools import partial

import pytest

from arena_credit import export
from arena_envs import make
from arena_trainers.data import (
    joined,
    messages_of,
    rows_to_dataset,
    select,
    selectors,
    to_dataset,
)
from arena_trainers.data.testing import check_selector
from arena_wrappers import (
    AgentPolicy,
    Branching,
    Episode,
    Generation,
    PromptWrapper,
    RandomPolicy,
    Reply,
    ScriptedPolicy,
    Turn,
    play,
    without_lost,
)
from arena_wrappers.policies import agents

RULES = {"max_turns": None, "prompt": {"reply_format": "bare"}, "actions": []}
END = {"terminated": True, "truncated": False}


def turn(index, reply, seat=0, prompt=("deal",), invalid=None, ids=None, **given):
    """A turn whose prompt has the user's and the assistant's texts in turn."""
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": t} for i, t in enumerate(prompt)]
    prompt_ids, token_ids = (None, None) if ids is None else ids
    action = None if invalid else reply
    fields = {"action": action, "invalid": invalid, "detail": invalid, **given}
    known = {"policy": "lm", "legal": ["pass", "bet"], "messages": messages}
    tokens = {"prompt_ids": prompt_ids, "token_ids": token_ids}
    return Turn(index=index, seat=seat, reply=reply, **known, **tokens, **fields)


def episode(turns, returns=(1.0, -1.0), seed=7, sample=0, **given):
    fields = {"game": "kuhn_poker-v0", "params": {}, "seed": seed, "sample": sample}
    return Episode(**fields, turns=turns, returns=returns, **{**RULES, **END, **given})


def said(pieces):
    return [message["content"] for message in messages_of(pieces)]


def counted(pieces):
    return [getattr(piece, "counts", None) for piece in pieces]


BOTH = [turn(0, "bet"), turn(0, "pass", seat=1)]
THREE = [
    episode(BOTH, (1.0, -1.0), seed=1),
    episode(BOTH, (-1.0, 1.0), seed=2),
    episode(BOTH, (2.0, -2.0), seed=3),
]


def starts(found):
    return [(row.seed, row.seat) for row in found.rows]


def test_wins_takes_high_returns_of_each_seat():
    found = select("wins", THREE)
    assert starts(found) == [(1, 0), (2, 1), (3, 0)]
    assert [said(row.completion) for row in found.rows] == [["bet"], ["pass"], ["bet"]]
    assert found.dropped == {"return not above 0": 3}
    assert starts(select("wins", THREE, above=1)) == [(3, 0)]
    # 2 of 3 of each seat: ceil(0.5 * 3)
    assert starts(select("wins", THREE, top=0.5)) == [(1, 0), (1, 1), (2, 1), (3, 0)]
    # Kuhn poker pays from -2 to 2: 1 is at 3/4 of the scale
    weights = [row.weight for row in select("wins", THREE, weighted=True).rows]
    assert weights == [0.75, 0.75, 1.0]


def test_wins_reads_refused_replies_and_does_not_train_them():
    retry = turn(1, "bet", prompt=("deal", "raise", "no such action"))
    found = select("wins", [episode([turn(0, "raise", invalid="illegal"), retry])])
    (row,) = found.rows
    assert said(row.completion) == ["raise", "no such action", "bet"]
    assert counted(row.completion) == [False, None, True]


def test_what_is_good_and_has_no_legal_reply_is_told():
    refused = episode([turn(0, "raise", invalid="illegal", ids=([1], [5]))])
    told = {"no reply was legal": 1}
    assert select("wins", [refused]).dropped == told
    pair = [refused, replace(refused, sample=1, returns=(-1.0, 1.0))]
    found = select("best_of_group", pair)
    assert found.dropped == {**told, "not the best of its group": 1}


def test_best_of_group_prefers_few_tokens():
    long, short = (turn(0, "bet", ids=([9], [5] * n)) for n in (4, 2))
    group = [episode([long], sample=0), episode([short], sample=1)]
    # R = 3/4 - 0.6 * 4/4 = 0.15 and 3/4 - 0.6 * 2/4 = 0.45
    (row,) = select("best_of_group", group).rows
    assert row.sample == 1
    assert select("best_of_group", group, above=0.44).rows
    assert not select("best_of_group", group, above=0.46).rows
    richer = [replace(group[0], returns=(2.0, -2.0)), group[1]]
    # 1 - 0.6 = 0.4 is less than 0.45, 1 - 0.1 is more than 0.75 - 0.05
    assert select("best_of_group", richer).rows[0].sample == 1
    assert select("best_of_group", richer, lambda_tokens=0.1).rows[0].sample == 0


def test_solver_replies_answers_in_the_states_that_were_visited():
    played = play("kuhn_poker", "random", range(5))
    last = ScriptedPolicy(lambda request: request.wrap(request.legal[-1]), "last")
    found = select("solver_replies", played, solver=last)
    turns = [t for one in played for t in one.turns]
    assert len(found.rows) == len(turns)
    assert {said(row.completion)[0] for row in found.rows} == {"<answer>bet</answer>"}
    prompts = [t.messages[-1]["content"] for t in turns]
    assert sorted(r.prompt[-1]["content"] for r in found.rows) == sorted(prompts)
    assert {row.reason for row in found.rows} == {"reply of last"}
    wrong = ScriptedPolicy(lambda request: "raise", "wrong")
    found = select("solver_replies", played, solver=wrong)
    assert not found.rows
    assert found.dropped == {"the solver's reply is no legal action": len(turns)}


def test_solver_labels_says_what_the_solver_would_play():
    played = play("kuhn_poker", "random", range(5))
    last = ScriptedPolicy(lambda request: request.wrap(request.legal[-1]), "last")
    found = select("solver_labels", played, solver=last).rows
    assert {(said(row.completion)[0], row.label) for row in found} == {
        ("<answer>bet</answer>", True),
        ("<answer>pass</answer>", False),
    }
    # of many actions that are equally good, none is likely
    found = select("solver_labels", played, solver="random", at_least=1).rows
    assert all(row.label for row in found)


class Likely:
    """Passes with probability 0.8."""

    name = "likely"

    def act(self, requests):
        return [Reply(request.wrap("pass")) for request in requests]

    def action_probs(self, requests):
        return [((0.8, 0.2), 0.0) for _ in requests]


@pytest.mark.parametrize(("limit", "label"), [(0.24, True), (0.26, False)])
def test_solver_labels_asks_for_a_share_of_the_most_likely_action(limit, label):
    played = play("kuhn_poker", "random", range(5))
    found = select("solver_labels", played, solver=Likely(), at_least=limit).rows
    assert {(said(row.completion)[0], row.label) for row in found} == {
        ("<answer>pass</answer>", True),
        ("<answer>bet</answer>", label),
    }


def test_mixed_adds_general_rows_up_to_the_share(tmp_path):
    chat = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]
    file = tmp_path / "chat.jsonl"
    file.write_text((json.dumps({"messages": chat}) + "\n") * 12)
    rows = select("mixed", THREE, general=str(file), share=0.25).rows
    games = [row.game for row in rows]
    assert games.count("general") == 9  # beside 3 of wins
    assert len(games) == 12
    assert said(rows[0].completion) == ["4"]
    with pytest.raises(ValueError, match=r"found none at 'nowhere'; give a file"):
        select("mixed", THREE, general="nowhere", share=0.5)
    with pytest.raises(ValueError, match=r"want 27 conversations .* got 12"):
        select("mixed", THREE, general=str(file), share=0.1)


def talk(replies, sample, value):
    """A seat's transcript of two turns; its tokens are 1, 2, 3, ... as they are read."""
    first, second = replies
    turns = [
        turn(0, first, ids=([1, 2], [3, 4])),
        turn(1, second, prompt=("deal", first, "you?"), ids=([1, 2, 3, 4, 5], [6, 7])),
    ]
    return episode(turns, (value, -value), sample=sample)


def test_outcome_pairs_joins_all_turns_of_a_conversation():
    group = [talk(("a", "b"), 0, 1.0), talk(("a", "c"), 1, -1.0)]
    (row,) = select("outcome_pairs", group).rows
    assert (said(row.chosen), said(row.rejected)) == (
        ["a", "you?", "b"],
        ["a", "you?", "c"],
    )
    assert [list(piece.ids) for piece in row.chosen] == [[3, 4], [5], [6, 7]]
    assert (row.prompt_ids, row.margin) == ([1, 2], 2.0)
    assert not select("outcome_pairs", group, margin=2).rows
    alone = {"no other episode with its first prompt": 1}
    assert select("outcome_pairs", group[:1]).dropped == alone


def test_outcome_pairs_of_single_states_take_the_first_difference():
    def single(reply, sample, value):
        turns = [turn(0, "a"), turn(1, reply, prompt=("later",))]
        return episode(turns, (value, -value), sample=sample)

    group = [single("b", 0, 1.0), single("c", 1, -1.0), single("b", 2, -1.0)]
    found = select("outcome_pairs", group)
    (row,) = found.rows
    assert (row.turn, row.prompt[0]["content"]) == (1, "later")
    assert (said(row.chosen), said(row.rejected)) == (["b"], ["c"])
    assert found.dropped == {"both say the same": 1}


def tree():
    """A turn with three candidates, of which the best branches again at its second turn.

    Values: a is paid 1, 0 and 2, on average 1; b is paid -1; c is paid 0.5.
    """

    def line(first, second, paid, **given):
        turns = [
            turn(0, first, rewards={"game": 0.0}),
            turn(1, second, prompt=("later",), rewards={"game": paid}),
        ]
        return episode(turns, **given)

    return [
        line("z", "z", 9.0),
        line("a", "x", 1.0, parent=0, branch=0, sample=1),
        line("b", "x", -1.0, parent=0, branch=0, sample=2),
        line("c", "x", 0.5, parent=0, branch=0, sample=3),
        line("a", "y", 0.0, parent=1, branch=1, sample=4),
        line("a", "w", 2.0, parent=1, branch=1, sample=5),
    ]


def pairs(found):
    return [(*said(r.chosen), *said(r.rejected), r.margin) for r in found.rows]


def test_branch_pairs_compares_mean_values_of_siblings():
    first, second = ("a", "b", 2.0), ("w", "y", 2.0)
    assert pairs(select("branch_pairs", tree())) == [first, second]
    found = select("branch_pairs", tree(), pairs="all", margin=0.5)
    assert sorted(pairs(found)) == [first, ("c", "b", 1.5), second]
    assert found.dropped == {"values of siblings differ by no more than 0.5": 1}
    with pytest.raises(ValueError, match="want episode 9, the parent of episode 0"):
        select("branch_pairs", [replace(one, parent=9) for one in tree()][3:])


def candidates(*told, state="deal", seed=7):
    """A tree of candidates that say something and are paid for it."""
    lines = [("?", 0.0), *told]
    return [
        episode(
            [turn(0, said, prompt=(state,), rewards={"game": paid})],
            parent=0 if number else None,
            branch=0 if number else None,
            sample=number,
            seed=seed,
        )
        for number, (said, paid) in enumerate(lines)
    ]


def test_equal_replies_of_a_state_are_merged_before_they_are_compared():
    """a: 4, -4 and, in another tree, 3: Q 1. b: 2 and -6: Q -2. Paired by luck, the extremes
    of the first tree would both be a."""
    first = candidates(("a", 4.0), ("b", 2.0), ("a", -4.0))
    second = candidates(("a", 3.0), ("b", -6.0), seed=8)
    other = candidates(("b", 9.0), ("a", 0.0), state="other deal", seed=9)
    found = select("branch_pairs", joined([first, second, other]), pairs="all")
    assert pairs(found) == [("a", "b", 3.0), ("a", "b", 3.0), ("b", "a", 9.0)]
    same = select("branch_pairs", candidates(("a", 4.0), ("a", -4.0)))
    assert same.dropped == {"a branch where all candidates say the same": 1}


def test_replies_that_the_rules_read_alike_are_equal():
    told = candidates(("I bet: a", 4.0), ("so: a", 0.0), ("b", 1.0))
    read = [
        replace(one, turns=[replace(one.turns[0], action=one.turns[0].reply[-1])])
        for one in told
    ]
    (row,) = select("branch_pairs", read).rows
    assert row.margin == 1.0
    assert said(row.chosen)[0] in {"I bet: a", "so: a"}
    assert said(row.rejected) == ["b"]


def test_branch_pairs_can_ask_for_intervals_that_do_not_overlap():
    """a: 3 and 5, b: 1 and -1, so S = √2 of two degrees of freedom: 4 ± 4.30 and 0 ± 4.30 at
    95 %, 4 ± 0.82 and 0 ± 0.82 at 50 %."""
    tree = candidates(("a", 3.0), ("a", 5.0), ("b", 1.0), ("b", -1.0))
    found = select("branch_pairs", tree, level=0.95)
    assert found.dropped == {"intervals of values at level 0.95 overlap": 1}
    assert pairs(select("branch_pairs", tree, level=0.5)) == [("a", "b", 4.0)]
    with pytest.raises(ValueError, match="want level above 0 and at most 1, got 2"):
        select("branch_pairs", tree, level=2)


@pytest.mark.parametrize("which", ["extremes", "all"])
def test_pairs_of_kuhn_poker_have_the_values_of_a_count_by_hand(which):
    """Q by a plain loop over the candidates; no family has a pair and its reverse."""
    trees = play("kuhn_poker", "random", range(150), branch=Branching(4))
    paid = {}
    for number, one in enumerate(trees):
        if one.parent is None:
            continue
        line = {number}
        for later, other in enumerate(trees):
            line |= {later} if other.parent in line else set()
        first = one.turns[one.branch]
        sums = [
            sum(t.reward for t in trees[i].turns[one.branch :] if t.seat == first.seat)
            for i in line
        ]
        key = (first.seat, first.messages[-1]["content"])
        own = paid.setdefault(key, {}).setdefault(first.reply, [])
        own.append(sum(sums) / len(sums))
    found = select("branch_pairs", trees, pairs=which)
    assert len(found.rows) > 200
    orders = {}
    for row in found.rows:
        key = (row.seat, row.prompt[-1]["content"])
        better, worse = said(row.chosen)[0], said(row.rejected)[0]
        q = {reply: sum(p) / len(p) for reply, p in paid[key].items()}
        assert row.margin == pytest.approx(q[better] - q[worse])
        orders.setdefault(key, set()).add((better, worse))
    assert all(len(pairs) == 1 for pairs in orders.values())


def test_revisions_correct_the_worst_sibling_within_a_reply():
    family = tree()
    worst = replace(family[2].turns[0], prompt_ids=[1], token_ids=[5, 2])
    family[2] = replace(family[2], turns=[worst, family[2].turns[1]])
    rows = select("revisions", family, note="No.").rows
    assert said(rows[0].completion) == ["b\nNo.</think>a"]
    assert counted(rows[0].completion) == [False, True, True]
    assert rows[0].completion[0].ids == [5]  # without the end token
    assert said(rows[1].completion) == ["y\nNo.</think>w"]


def test_revisions_learn_best_siblings_too_and_ask_for_a_value():
    found = select("revisions", tree(), note="No.", good=True, above=1.5)
    assert [said(row.completion) for row in found.rows] == [["w"], ["y\nNo.</think>w"]]
    assert found.rows[0].prompt == found.rows[1].prompt
    assert found.dropped == {
        "the best sibling's value is not above 1.5": 1,
        "nothing was refused and then corrected": 2,
    }
    with pytest.raises(ValueError, match="want good True or False, got 'yes'"):
        select("revisions", tree(), good="yes")


def test_revisions_correct_refused_replies():
    bad = turn(0, "raise", invalid="illegal", ids=([1], [5, 2]))
    retry = turn(1, "bet", prompt=("deal", "raise", "no"), ids=([1, 8, 9], [6, 2]))
    (row,) = select("revisions", [episode([bad, retry])]).rows
    # its tokens do not continue the first prompt's, so the mistake is in the prompt
    assert [m["content"] for m in row.prompt] == ["deal", "raise", "no"]
    assert (list(row.prompt_ids), said(row.completion)) == ([1, 8, 9], ["bet"])
    assert not select("revisions", THREE).rows


def test_feedback_pairs_prefers_the_accepted_reply():
    refused = turn(0, "raise", invalid="illegal", ids=([1], [5, 2]))
    retry = turn(1, "bet", prompt=("deal", "raise", "no"), ids=([1, 8], [6, 2]))
    (row,) = select("feedback_pairs", [episode([refused, retry])]).rows
    assert (said(row.chosen), said(row.rejected)) == (["bet"], ["raise"])
    assert row.prompt_ids == [1]
    assert (row.chosen[0].ids, row.rejected[0].ids) == ([6, 2], [5, 2])
    samples = [episode([refused]), episode([turn(0, "pass")], sample=1)]
    (row,) = select("feedback_pairs", samples).rows
    assert (said(row.chosen), said(row.rejected)) == (["pass"], ["raise"])
    same = [episode([turn(0, "bet", invalid="illegal")]), episode([turn(0, "bet")])]
    found = select("feedback_pairs", same)
    assert not found.rows
    assert found.dropped == {"the same reply was legal and refused at its prompt": 1}
    found = select("feedback_pairs", samples[:1])
    assert found.dropped == {"no legal reply at its prompt": 1}


def test_judged_pairs_compares_mean_grades_of_the_replies_to_a_prompt():
    told = {
        "bet": ["5, no: 4/5", "Better than 2. 5 of 5", "no grade, or 77"],
        "pass": ["1"],
    }
    graded = []

    def grade(request):
        *_, asked = request.messages
        reply = "bet" if "<reply>\n< answer>bet<" in asked["content"] else "pass"
        graded.append(reply)
        return told[reply][graded.count(reply) % len(told[reply])]

    episodes = play("kuhn_poker", "random", range(6), num_samples=6)
    found = select("judged_pairs", episodes, judge=ScriptedPolicy(grade, name="strict"))
    said = {(row.chosen[0].text, row.rejected[0].text) for row in found.rows}
    assert said == {("<answer>bet</answer>", "<answer>pass</answer>")}
    assert {row.margin for row in found.rows} == {4.5 - 1}
    assert len(graded) == 6 * len(found.rows)
    assert "all replies to its prompt are the same" in found.dropped


@pytest.mark.parametrize("text", ["the same: 3", "none", "<think>5", "9", "5.5"])
def test_judged_pairs_leaves_out_equal_and_unread_grades(text):
    episodes = play("kuhn_poker", "random", range(6), num_samples=6)
    judge = ScriptedPolicy(lambda request: text, name="judge")
    found = select("judged_pairs", episodes, judge=judge)
    assert not found.rows
    assert found.dropped["the judge sees no difference, or gave no grades"] > 0


def test_rule_labels_judges_by_the_rules():
    turns = [
        turn(0, "raise", invalid="illegal", rewards={"format": -0.5}),
        turn(1, "bet", prompt=("again",), rewards={"game": -1.0}),
    ]
    found = select("rule_labels", [episode(turns)]).rows
    assert [(row.label, row.reason) for row in found] == [
        (False, "refused"),
        (True, "legal"),
    ]
    found = select("rule_labels", [episode(turns)], min_reward=0).rows
    assert [row.label for row in found] == [False, False]


OPTIONS: dict[str, dict[str, object]] = {
    "solver_replies": {"solver": "cfr"},
    "solver_labels": {"solver": "cfr"},
    "judged_pairs": {"judge": "random"},
    "mixed": {"share": 0.9},
}


def call(role, text, prompt, parent=-1):
    """A generation whose tokens are the lengths of its prompt and its text."""
    messages = [{"role": "user", "content": prompt}]
    return Generation(
        role, text, [len(prompt)], [len(text)], [0.0], parent, messages=messages
    )


def planned(plan, move, index=0, **given):
    """A turn of a planner and a worker, who reads the plan."""
    said = [call("planner", plan, "plan?"), call("worker", move, f"{plan}, move", 0)]
    return turn(index, move, generations=said, **given)


GROUP = [
    episode([planned("bluff", "bet")], (1.0, -1.0), sample=0),
    episode([planned("bluff", "pass")], (-1.0, 1.0), sample=1),
    episode([planned("fold", "pass")], (-1.0, 1.0), sample=2),
]


def of_calls(found, text="completion"):
    return [
        (row.role, row.parent, row.prompt[-1]["content"], said(getattr(row, text)))
        for row in found.rows
    ]


def test_each_generation_is_a_row_with_its_own_prompt_and_tokens():
    found = select("wins", GROUP)
    assert of_calls(found) == [
        ("planner", -1, "plan?", ["bluff"]),
        ("worker", 0, "bluff, move", ["bet"]),
    ]
    data = rows_to_dataset(found.rows)
    assert (data["role"][:], data["parent"][:]) == (["planner", "worker"], [-1, 0])
    assert (data["prompt_ids"][:], data["completion_ids"][:]) == (
        [[5], [11]],
        [[5], [3]],
    )


def test_rows_of_single_generations_have_no_columns_of_roles():
    plain, mixed = select("wins", THREE[:1]), select("wins", [*THREE[:1], *GROUP])
    assert not {"role", "parent"} & {*rows_to_dataset(plain.rows).column_names}
    data = rows_to_dataset(mixed.rows)
    assert data["role"][:] == ["", "planner", "worker"]
    assert data["parent"][:] == [-1, -1, 0]


def test_the_tokens_of_all_generations_cost():
    # R = 3/4 - 0.6 * 4/4 = 0.15 and 3/4 - 0.6 * 3/4 = 0.3
    three = [call("a", "x", str(i)) for i in range(3)]
    many = turn(0, "x", generations=[*three, call("a", "x", "?")])
    few = turn(0, "x", generations=three)
    found = select("best_of_group", [episode([many]), episode([few], sample=1)])
    assert {row.sample for row in found.rows} == {1}


def test_a_generation_has_the_verdict_of_its_turn():
    refused = planned("raise", "all in", 1, invalid="illegal")
    found = select("rule_labels", [episode([planned("bluff", "bet"), refused])])
    assert [(row.role, row.label) for row in found.rows] == [
        ("planner", True),
        ("worker", True),
        ("planner", False),
        ("worker", False),
    ]


def test_pairs_are_of_the_first_generations_that_differ():
    found = select("outcome_pairs", GROUP)
    assert of_calls(found, "chosen") == [
        ("planner", -1, "plan?", ["bluff"]),
        ("worker", 0, "bluff, move", ["bet"]),
    ]
    assert [said(row.rejected) for row in found.rows] == [["fold"], ["pass"]]
    tree = [GROUP[0]]
    for move, paid in (("bet", 1.0), ("pass", -1.0)):
        said_so = planned("bluff", move, rewards={"game": paid})
        tree.append(episode([said_so], parent=0, branch=0))
    (row,) = select("branch_pairs", tree).rows
    assert (row.role, said(row.chosen), said(row.rejected)) == (
        "worker",
        ["bet"],
        ["pass"],
    )


def test_a_reply_is_preferred_to_a_refused_one_of_its_role():
    """Asked again, the planner reads the refusal, so that no prompts are the same."""
    refused = replace(planned("raise", "all in"), action=None, invalid="illegal")
    again = [call("planner", "bluff", "plan!"), call("worker", "bet", "move!", 0)]
    played = episode([refused, turn(1, "bet", generations=again)])
    found = select("feedback_pairs", [played]).rows
    assert [(row.role, said(row.chosen), said(row.rejected)) for row in found] == [
        ("planner", ["bluff"], ["raise"]),
        ("worker", ["bet"], ["all in"]),
    ]


def test_a_solver_replies_to_the_generation_that_moved():
    (played,) = play("kuhn_poker", "agent:planner_worker(random)", [3])
    first = ScriptedPolicy(lambda request: request.wrap(request.legal[0]), "first")
    found = select("solver_replies", [played], solver=first)
    assert {row.role for row in found.rows} == {"worker"}
    prompts = {t.generations[1].messages[-1]["content"] for t in played.turns}
    assert {row.prompt[-1]["content"] for row in found.rows} == prompts


def test_generations_without_prompts_are_refused():
    lacking = turn(0, "bet", generations=[Generation("planner", "bluff")])
    with pytest.raises(ValueError, match="got none for role 'planner' of 'lm'"):
        select("wins", [episode([lacking])])


@pytest.mark.parametrize("name", ["wins", "feedback_pairs", "revisions", "rule_labels"])
def test_promises_hold_for_turns_of_agents(name):
    agent = "agent:planner_worker(planner=random, worker=noisy:0.5(random))"
    trees = play("kuhn_poker", agent, range(4), branch=Branching(3, follow="all"))
    careless = ScriptedPolicy(
        lambda request: "bet" if len(request.messages) > 2 else "raise", "careless"
    )
    asking = PromptWrapper(make("kuhn_poker"), "bare", on_invalid="retry")
    again = AgentPolicy(agents.find("planner_worker"), careless)
    episodes = joined([trees, play(asking.clone, [again, "random"], range(9, 12))])
    check_selector(selectors.find(name), episodes=episodes)


@pytest.mark.parametrize("name", sorted(selectors.built_in))
def test_a_selector_keeps_its_promises(name, tmp_path):
    options = dict(OPTIONS.get(name, {}))
    if name == "mixed":
        chat = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]
        options["general"] = tmp_path / "chat.jsonl"
        (tmp_path / "chat.jsonl").write_text(
            (json.dumps({"messages": chat}) + "\n") * 99
        )
    check_selector(selectors.find(name), **options)


def test_lost_episodes_give_no_rows_and_are_counted():
    class Unsteady(RandomPolicy):
        def act(self, requests):
            played = super().act(requests)
            pairs = zip(requests, played, strict=True)
            return [Reply("", error="no") if r.seed % 4 == 0 else p for r, p in pairs]

    episodes = play("kuhn_poker", Unsteady(), range(12))
    kept = without_lost(episodes)
    assert 0 < len(kept) < len(episodes)
    found, sound = select("wins", episodes), select("wins", kept)
    assert found.rows == sound.rows
    num_lost = len(episodes) - len(kept)
    assert found.dropped == {**sound.dropped, "the episode is lost": num_lost}
    others = play(
        "kuhn_poker", ScriptedPolicy(lambda r: r.legal[0], name="others"), range(12)
    )
    assert select("wins", [*episodes, *others]).dropped["the episode is lost"]
    replayed = play("kuhn_poker", RandomPolicy(), range(12))
    assert "the episode is lost" not in select("wins", [*episodes, *replayed]).dropped
    for refuses in (to_dataset, partial(export, estimator="mars", to="messages")):
        with pytest.raises(ValueError, match=r"pass arena_wrappers\.without_lost"):
            refuses(episodes)
