"""`ChatAPIPolicy` against a real HTTP server, well-behaved and not."""

import asyncio
import json
from functools import partial
from typing import Any

import pytest

from arena_envs import make
from arena_wrappers import (
    EpisodePlan,
    RandomPolicy,
    make_policy,
    play,
    play_async,
    play_many,
    play_plans,
)
from arena_wrappers.api import ChatAPIPolicy
from arena_wrappers.asking import NoReplyError
from arena_wrappers.play import stream_plans

KEY = "sk-very-secret-4711"
OPENAI_KEY = "sk-openai-only-0815"


@pytest.fixture(autouse=True)
def key(endpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key for the endpoint, and another one for OpenAI's host."""
    port = endpoint.server_port
    monkeypatch.setenv("ARENA_KEY_LOCAL", f"127.0.0.1:{port} {KEY}")
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)


def kuhn(policy: Any, num_episodes: int = 4) -> list[Any]:
    seats = [policy, RandomPolicy()]
    return play(lambda: make("kuhn_poker"), seats, range(num_episodes))


def test_it_plays_and_counts_what_it_took(endpoint: Any) -> None:
    policy = ChatAPIPolicy("m", endpoint.url, prices=(2.0, 30.0), max_tokens=7)
    episodes = kuhn(policy)
    turns = [turn for e in episodes for turn in e.turns if turn.seat == 0]
    assert {turn.reply for turn in turns} == {"<answer>bet</answer>"}
    assert {turn.policy for turn in turns} == {"m"}
    assert policy.usage.num_calls == len(turns) == len(endpoint.requests)
    assert policy.usage.prompt_tokens == 100 * len(turns)
    assert policy.usage.cost == pytest.approx(len(turns) * (200 + 300) / 1e6)
    asked = endpoint.requests[0]
    assert asked["key"] == f"Bearer {KEY}"
    assert asked["max_tokens"] == 7
    assert [message["role"] for message in asked["messages"]] == ["system", "user"]
    assert len({request["seed"] for request in endpoint.requests}) == len(turns)


def test_the_key_is_nowhere_but_in_the_request(endpoint: Any) -> None:
    endpoint.behaviour = lambda number: "401"
    policy = ChatAPIPolicy("m", endpoint.url)
    records = "".join(episode.to_json() for episode in kuhn(policy))
    assert f"{endpoint.url} refuses its key; set ARENA_KEY_<any name>=" in records
    assert KEY not in records
    assert KEY not in repr(policy)


def test_a_key_goes_to_its_own_host_only(
    endpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ADMIN_KEY", "ORG_ID", "PROJECT_ID", "WEBHOOK_SECRET"):
        monkeypatch.setenv(f"OPENAI_{name}", OPENAI_KEY)
    headers = f"Authorization: Bearer {OPENAI_KEY}\nX-Key: {OPENAI_KEY}"
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", headers)
    with_its_own = ChatAPIPolicy("m", endpoint.url)
    monkeypatch.delenv("ARENA_KEY_LOCAL")
    without = ChatAPIPolicy("m", endpoint.url)
    for policy, key in ((with_its_own, KEY), (without, "none")):
        kuhn(policy, 1)
        assert endpoint.requests[-1]["key"] == f"Bearer {key}"
    assert OPENAI_KEY not in json.dumps(endpoint.headers)


def test_redirects_are_not_followed(endpoint: Any, serve: Any) -> None:
    with serve() as other:
        endpoint.behaviour = lambda number: "307"
        endpoint.elsewhere = f"{other.url}/chat/completions"
        (episode,) = kuhn(ChatAPIPolicy("m", endpoint.url), 1)
        assert episode.lost
        assert other.requests == []


def test_a_key_that_the_endpoint_repeats_is_hidden(endpoint: Any) -> None:
    message = {"role": "assistant", "content": f"{KEY} <answer>bet</answer>"}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    endpoint.behaviour = lambda number: json.dumps({"choices": [choice]})
    (episode,) = kuhn(ChatAPIPolicy("m", endpoint.url), 1)
    assert KEY not in episode.to_json()
    assert any("*** <answer>bet</answer>" in turn.reply for turn in episode.turns)


WHAT_TO_DO = {
    "404": " has no model 'm'; correct name or URL (",
    "cut": "start the server or correct the URL",
    "stall": " gave no reply in 1 attempts of 0.5 s; look whether it stalls",
}


@pytest.mark.parametrize(
    "behaviour", ["500", "404", "garbage", "cut", "stall", '{"choices": []}', "{}"]
)
def test_a_request_that_fails_loses_its_episode_and_no_other(
    endpoint: Any, behaviour: str
) -> None:
    endpoint.behaviour = lambda number: behaviour if number == 0 else "fine"
    policy = ChatAPIPolicy(
        "m", endpoint.url, max_retries=0, timeout=0.5, max_concurrent=1
    )
    episodes = kuhn(policy)
    (failed,) = [episode for episode in episodes if episode.lost]
    assert failed.turns[-1].invalid == ("timeout" if behaviour == "stall" else "error")
    assert endpoint.url in failed.turns[-1].detail
    assert (
        WHAT_TO_DO.get(behaviour, "; read the server's log (")
        in failed.turns[-1].detail
    )
    assert policy.usage.num_errors == 1


@pytest.mark.parametrize("behaviour", ["429", "503", "cut", "stall"])
def test_what_passes_is_tried_again(endpoint: Any, behaviour: str) -> None:
    endpoint.behaviour = lambda number: behaviour if number < 2 else "fine"
    policy = ChatAPIPolicy("m", endpoint.url, timeout=0.2, max_concurrent=1)
    episodes = kuhn(policy, 1)
    assert episodes[0].lost is None
    assert policy.usage.num_errors == 0
    assert len(endpoint.requests) == policy.usage.num_calls + 2


def test_a_reply_that_was_cut_is_overlong(endpoint: Any) -> None:
    endpoint.behaviour = lambda number: "long"
    (episode,) = kuhn(ChatAPIPolicy("m", endpoint.url), 1)
    assert episode.turns[0].invalid == "overlong"


def test_no_more_requests_than_allowed_are_in_flight(endpoint: Any) -> None:
    endpoint.behaviour = lambda number: "slow"
    kuhn(ChatAPIPolicy("m", endpoint.url, max_concurrent=3), 12)
    assert 2 <= endpoint.most_in_flight <= 3


def test_a_server_that_is_not_there_is_named(endpoint: Any) -> None:
    policy = ChatAPIPolicy("m", "http://127.0.0.1:9/v1", max_retries=0)
    (episode,) = kuhn(policy, 1)
    detail = episode.turns[-1].detail
    assert detail.startswith("the connection to http://127.0.0.1:9/v1 failed (")
    assert detail.endswith("; start the server or correct the URL")


def test_a_server_that_cannot_be_reached_is_asked_no_more_in_this_play(
    endpoint: Any,
) -> None:
    """Each attempt would cost pauses; a later call of play asks again."""
    policy = ChatAPIPolicy("m", "http://127.0.0.1:9/v1", max_concurrent=1)
    env_fn, seats = partial(make, "kuhn_poker"), [policy, RandomPolicy()]
    for num in (1, 2):
        episodes = [
            episode
            for _, episode in stream_plans(
                [EpisodePlan(env_fn, seats, seed) for seed in range(5)], batch_size=1
            )
        ]
        assert len({episode.turns[-1].detail for episode in episodes}) == 1
        assert all(e.lost for e in episodes)
        assert policy.usage.num_errors == num
    endpoint.behaviour = lambda number: "404" if number == 0 else "fine"
    reached = ChatAPIPolicy("m", endpoint.url, max_concurrent=1)
    assert sum(e.lost is not None for e in kuhn(reached)) == 1


@pytest.mark.parametrize("way", ["play", "play_plans", "play_async", "play_many"])
def test_a_request_that_fails_is_raised_if_so_asked(endpoint: Any, way: str) -> None:
    endpoint.behaviour = lambda number: "404"
    env_fn = partial(make, "kuhn_poker")
    seats = [ChatAPIPolicy("m", endpoint.url), RandomPolicy()]

    async def many(**options: Any) -> None:
        async for _ in play_many(env_fn, seats, range(2), **options):
            pass

    ways: dict[str, Any] = {
        "play": lambda **options: play(env_fn, seats, range(2), **options),
        "play_plans": lambda **options: play_plans(
            [EpisodePlan(env_fn, seats, 0)], **options
        ),
        "play_async": lambda **options: asyncio.run(
            play_async(env_fn, seats, 0, **options)
        ),
        "play_many": lambda **options: asyncio.run(many(**options)),
    }
    with pytest.raises(NoReplyError, match=r"'m' gave no reply: http\S+ has no model"):
        ways[way](on_error="raise")
    with pytest.raises(ValueError, match="'lose' or 'raise', got 'stop'"):
        ways[way](on_error="stop")


def test_lockstep_asks_it_too(endpoint: Any) -> None:
    env_fn, seats = partial(make, "kuhn_poker"), [ChatAPIPolicy("m", endpoint.url)] * 2
    plans = [EpisodePlan(env_fn, seats, seed) for seed in range(3)]
    lockstep = [episode.to_json() for episode in play_plans(plans)]
    assert lockstep == [e.to_json() for e in play(env_fn, seats, range(3))]


def test_a_string_names_it(endpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    for string in ("api:m", f"api:m@{endpoint.url}#temperature=0.5#reply_format=boxed"):
        policy = make_policy(string)
        assert policy.name == string.removeprefix("api:")
        kuhn(policy, 1)
    first, second = endpoint.requests[0], endpoint.requests[-1]
    assert (first["model"], second["model"]) == ("m", "m")
    assert ("temperature" in first, second["temperature"]) == (False, 0.5)
    assert "\\boxed" in second["messages"][0]["content"]
    for string in ("api:", f"api:{endpoint.url}", "api:m#model=n"):
        with pytest.raises(ValueError, match="want the name of a model"):
            make_policy(string)


def test_bad_numbers_and_keys_are_refused(
    endpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for options, match in [
        ({"max_concurrent": 0}, "max_concurrent of at least 1, got 0"),
        ({"timeout": 0}, "timeout above 0 seconds, got 0"),
        ({"max_retries": -1}, "max_retries of at least 0, got -1"),
        ({"key": "two words"}, "want a key of ASCII characters without spaces"),
    ]:
        with pytest.raises(ValueError, match=match):
            ChatAPIPolicy("m", endpoint.url, **options)
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ValueError, match="got none; set OPENAI_API_KEY"):
        ChatAPIPolicy("m")
