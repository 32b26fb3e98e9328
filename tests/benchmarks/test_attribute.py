"""Shapley values of seats."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from arena_wrappers import ScriptedPolicy, make_policy
from attribute import attribute, attributed, steps_of
from comparing import script

VOTE = "questions(protocol=vote)"


def solved(request: Any) -> str:
    return f"answer {request.game.task(request.state).answer}"


RIGHT = ScriptedPolicy(solved, "right")
WRONG = ScriptedPolicy(lambda request: "answer wrong", "wrong")


def test_seats_of_a_vote_share_the_value_equally():
    """By hand: two right of three win, so that each seat decides in 2 of 6 orders."""
    rows, lost = attributed([RIGHT, WRONG], VOTE, range(3), range(4))
    assert lost == 0
    assert [row["value"] for row in rows] == pytest.approx([1 / 3] * 3)


def test_sampled_orders_are_unbiased_and_differ_by_seed():
    rows, _ = attributed([RIGHT, WRONG], VOTE, range(3), range(60), 1)
    assert sum(row["value"] for row in rows) == pytest.approx(1)
    assert all(row["low"] < 1 / 3 < row["high"] for row in rows)
    assert steps_of(range(3), 1, 0) != steps_of(range(3), 1, 3)


def test_more_than_8_seats_are_never_sampled_silently():
    random = make_policy("random")
    with pytest.raises(ValueError, match=r"got 9; add --permutations 50"):
        attributed([random, random], "public_goods(num_players=9)", range(9), range(1))


def test_equal_policies_have_no_value():
    done = CliRunner().invoke(
        script(attribute), ["first", VOTE, "--base", "first", "-n", "3", "--json"]
    )
    found = json.loads(done.stdout)
    assert found["method"] == "exact"
    assert [row["value"] for row in found["seats"]] == [0, 0, 0]


def test_a_team_of_one_seat_is_refused():
    done = CliRunner().invoke(script(attribute), ["first", "kuhn_poker"])
    assert "want a team of two seats at least" in str(done.exception)
