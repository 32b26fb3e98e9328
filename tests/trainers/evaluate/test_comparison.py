"""Comparisons: records, tokens per point, samples of equal tokens; Shapley values of seats."""

import random
from statistics import fmean
from typing import Any

import pytest

from arena_envs import make_game
from arena_eval.comparison import ComparisonPlan, attributed, coalition_steps
from arena_wrappers import Reply, ScriptedPolicy, make_policy, play
from arena_wrappers.records import EpisodeLog


def test_cooperative_games_are_played_by_the_policy_in_all_seats():
    plan = ComparisonPlan("random", "first", {"mini_hanabi": ()}, num_episodes=4)
    rows = plan.run()
    roles = ["difference", "trained", "base", "random", "constant"]
    assert [row["role"] for row in rows] == roles
    assert {(row["against"], row["num_seeds"]) for row in rows} == {("self", 4)}


class Counted:
    """Says one word, in three tokens."""

    def __init__(self, word):
        self.name = word

    def act(self, requests):
        return [Reply(f"[{self.name}]", token_ids=[1] * 3) for _ in requests]


def test_tokens_per_point_are_those_above_random_play():
    plan = ComparisonPlan(
        Counted("pass"), Counted("bet"), {"kuhn_poker": ()}, num_episodes=50
    )
    rows = {row["role"]: row for row in plan.run()}
    trained, base, random = (rows[role] for role in ("trained", "base", "random"))
    assert trained["tokens"] >= 3
    gain = trained["value"] - random["value"]
    assert trained["tokens_per_point"] == pytest.approx(trained["tokens"] / gain)
    assert base["value"] < random["value"]
    assert base["tokens_per_point"] is None


class Guesses:
    """Answers a question with the right answer at a probability, in four tokens."""

    name = "guesses"

    def __init__(self, share):
        self.share = share

    def act(self, requests):
        replies = []
        for request in requests:
            rng = random.Random(request.seed)
            right = request.game.task(request.state).answer
            word = right if rng.random() < self.share else f"wrong {rng.random()}"
            replies.append(Reply(f"answer {word}", token_ids=[1] * 4))
        return replies


@pytest.mark.slow
def test_solo_has_as_many_replies_as_the_tokens_of_the_team_buy():
    """Three of four tokens buy three; of three, two alike are right more often than one."""
    game = "questions(protocol=vote)"
    plan = ComparisonPlan(
        Guesses(0.1), Guesses(0.7), {game: ()}, num_episodes=100, equal_tokens=True
    )
    rows = {row["role"]: row for row in plan.run()}
    assert rows["solo"]["num_samples"] == rows["base solo"]["num_samples"] == 3
    assert rows["solo"]["tokens"] == rows["trained"]["tokens"] == 12
    # any two right of three, or the first of three that differ: .784 + .7 * .09
    assert rows["solo"]["low"] < 0.784 + 0.063 < rows["solo"]["high"]


def test_a_policy_without_tokens_has_no_solo_and_that_is_said():
    plan = ComparisonPlan(
        "first",
        "random",
        {"questions(protocol=vote)": ()},
        num_episodes=2,
        equal_tokens=True,
    )
    assert not {"solo", "base solo"} & {row["role"] for row in plan.run()}
    assert any("random, which reports no tokens" in text for text in plan.warnings)


VOTE = "questions(protocol=vote)"


def solved(request: Any) -> str:
    return f"answer {request.game.task(request.state).answer}"


RIGHT = ScriptedPolicy(solved, "right")
WRONG = ScriptedPolicy(lambda request: "answer wrong", "wrong")


def test_seats_of_a_vote_share_the_value_equally():
    """By hand: two right of three win, so that each seat decides in 2 of 6 orders."""
    rows, num_lost = attributed([RIGHT, WRONG, WRONG], VOTE, range(4))
    assert num_lost == 0
    assert [row["value"] for row in rows] == pytest.approx([1 / 3] * 3)


def test_values_of_a_game_with_chance_sum_to_the_difference_of_the_teams():
    pair = [make_policy("random"), make_policy("first")]
    rows, _ = attributed([*pair, pair[0]], "hanabi", range(6))
    teams = [fmean(e.returns[0] for e in play("hanabi", p, range(6))) for p in pair]
    assert sum(row["value"] for row in rows) == pytest.approx(teams[0] - teams[1])


def test_sampled_orders_are_unbiased_and_differ_by_seed():
    rows, _ = attributed([RIGHT, WRONG, WRONG], VOTE, range(60), None, 1)
    assert sum(row["value"] for row in rows) == pytest.approx(1)
    assert all(row["low"] < 1 / 3 < row["high"] for row in rows)
    assert coalition_steps(range(3), 1, 0) != coalition_steps(range(3), 1, 3)


def test_more_than_8_seats_are_never_sampled_silently():
    team = [make_policy("random")] * 3
    with pytest.raises(ValueError, match=r"got 9; add --permutations 50"):
        attributed(team, "public_goods(num_players=9)", range(1), range(9))


class Stopping:
    """Plays first actions; is stopped in the second game, or gives no reply in one seed."""

    name = "stopping"

    def __init__(self, how: str) -> None:
        self.how = how

    def act(self, requests):
        if self.how == "stop" and requests[0].game == make_game("kuhn_poker"):
            raise KeyboardInterrupt
        return [
            Reply("", error="no")
            if (self.how, request.episode) == ("lose", 2)
            else Reply(request.wrap(request.legal[0]))
            for request in requests
        ]


def compared(out, how):
    """Records of a comparison in two games, if it is not stopped, and the number of episodes."""
    games = {"nim": (), "kuhn_poker": ()}
    plan = ComparisonPlan("random", Stopping(how), games, num_episodes=4, out=out)
    records = None if how == "stop" else plan.run()
    if how == "stop":
        with pytest.raises(KeyboardInterrupt):
            plan.run()
    return records, len(out.read_text().splitlines())


@pytest.mark.parametrize("how", ["stop", pytest.param("lose", marks=pytest.mark.slow)])
def test_the_same_comparison_plays_only_what_is_missing(tmp_path, how):
    whole, num = compared(tmp_path / "whole.jsonl", "play")
    _, before = compared(tmp_path / "a.jsonl", how)
    num_lost = sum(e.lost is not None for e in EpisodeLog(tmp_path / "a.jsonl"))
    assert num / 3 < before  # all of the first game
    assert (num_lost > 0) == (how == "lose")
    assert compared(tmp_path / "a.jsonl", "play") == (whole, num + num_lost)


def test_a_comparison_that_has_ended_begins_anew(tmp_path):
    _, num = compared(tmp_path / "a.jsonl", "play")
    assert compared(tmp_path / "a.jsonl", "stop")[1] > num
    assert compared(tmp_path / "a.jsonl", "play")[1] == 2 * num
