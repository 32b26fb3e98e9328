"""A framework's model in a seat: its replies, and what becomes of its failures."""

import asyncio

import pytest

from arena_wrappers import Reply, play, play_async
from arena_wrappers.play import AwaitedPolicy, forfeit_reason


def played(answer, timeout=None):
    seats = [AwaitedPolicy("player_0", answer), "random"]
    return asyncio.run(play_async("kuhn_poker", seats, seed=1, timeout=timeout))


def test_a_reply_is_awaited() -> None:
    async def bets(request) -> Reply:
        await asyncio.sleep(0)
        return Reply(request.wrap("bet"))

    episode = played(bets)
    assert episode.turns[0].policy == "player_0"
    assert episode.turns[0].reply == "<answer>bet</answer>"
    assert forfeit_reason(episode) is None


async def stalls(request) -> Reply:
    await asyncio.sleep(60)
    return Reply("")


async def raises(request) -> Reply:
    raise ConnectionError("cut")


async def lies(request):
    return "bet"


async def folds(request) -> Reply:
    return Reply(request.wrap("fold"))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (stalls, "TimeoutError: no reply within 0.01 s"),
        (raises, "ConnectionError: cut"),
        (lies, "TypeError: policy 'player_0' gave 'bet', want a Reply"),
    ],
)
def test_a_failure_loses_the_episode_with_its_reason(answer, reason) -> None:
    episode = played(answer, timeout=0.01)
    assert episode.lost == f"policy 'player_0' gave no reply: {reason}"


def test_an_illegal_reply_forfeits_with_its_reason() -> None:
    episode = played(folds)
    assert episode.forfeited_by == 0
    assert forfeit_reason(episode).startswith("illegal: ")


def test_an_awaited_policy_does_not_play_in_lockstep() -> None:
    policy = AwaitedPolicy("player_0", folds)
    with pytest.raises(TypeError, match="use play_async"):
        policy.act([])
    (episode,) = play("kuhn_poker", policy, [0])
    assert episode.forfeited_by == 0
