"""`ChatAPIPolicy` against a real HTTP server, well-behaved and not."""

import asyncio
import json
import time
from email.utils import formatdate
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
from arena_wrappers.play import NoReplyError, stream_plans
from arena_wrappers.play.schedule import Scheduler
from arena_wrappers.policies.api import ChatAPIPolicy

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
        assert "redirects, which is not followed; give the URL" in str(episode.lost)
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


def completion(finish: str = "stop", **message: Any) -> str:
    """A chat completion with this message."""
    message = {"role": "assistant", "content": None, **message}
    return json.dumps({"choices": [{"finish_reason": finish, "message": message}]})


CALL = {"id": "1", "function": {"name": "act", "arguments": "{}"}}
SILENT = {
    "empty": completion(content="\n"),
    "reasoning": completion(reasoning_content="<answer>bet</answer>"),
    "refusal": completion(refusal="I cannot gamble"),
    "tool_call": completion("tool_calls", tool_calls=[CALL]),
    "content_filter": completion("content_filter", content=""),
    "overlong": completion("length", content=""),
}


@pytest.mark.parametrize("kind", SILENT)
def test_silence_is_a_reply_that_forfeits_under_its_name(
    endpoint: Any, kind: str
) -> None:
    endpoint.behaviour = lambda number: SILENT[kind]
    (episode,) = kuhn(ChatAPIPolicy("m", endpoint.url), 1)
    assert (episode.lost, episode.forfeited_by) == (None, 0)
    assert episode.turns[0].invalid == kind
    said = {"refusal": "I cannot gamble", "empty": "\n"}
    assert episode.turns[0].reply == said.get(kind, "")


def test_parts_of_content_are_read(endpoint: Any) -> None:
    parts = [{"type": "text", "text": t} for t in ("<answer>b", "et</answer>")]
    parts.insert(1, {"type": "image_url", "image_url": "x"})
    endpoint.behaviour = lambda number: completion(content=parts)
    (episode,) = kuhn(ChatAPIPolicy("m", endpoint.url), 1)
    assert episode.turns[0].reply == "<answer>bet</answer>"
    assert episode.forfeited_by is None


def test_a_reply_of_megabytes_is_cut_with_a_note(endpoint: Any) -> None:
    text = "x" * 3_000_000 + "<answer>bet</answer>"
    endpoint.behaviour = lambda number: completion(content=text)
    (episode,) = kuhn(ChatAPIPolicy("m", endpoint.url), 1)
    assert episode.turns[0].invalid == "overlong"
    assert episode.turns[0].reply[999_990:] == (
        "x" * 10 + "\n[cut: the reply has 3000020 characters]"
    )


@pytest.mark.parametrize(
    "said", ['"no credit"', '{"message": "no credit", "code": 500}']
)
def test_an_error_with_status_200_is_told_in_the_servers_words(
    endpoint: Any, said: str
) -> None:
    endpoint.behaviour = lambda number: f'{{"error": {said}}}'
    (episode,) = kuhn(ChatAPIPolicy("m", endpoint.url, max_retries=1), 1)
    assert "no credit" in episode.lost
    assert len(endpoint.requests) == 2


def test_an_answer_without_end_times_out(
    endpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arena_wrappers.policies.client.WHOLE", 3)
    endpoint.behaviour = lambda number: "drip"
    (episode,) = kuhn(ChatAPIPolicy("m", endpoint.url, timeout=0.1), 1)
    assert "began an answer and did not end it within 0.3 s" in episode.lost
    assert episode.turns[-1].invalid == "timeout"
    assert len(endpoint.requests) == 1


class Limited:
    """Answers three requests in each fifth of a second, and no more."""

    def __init__(self) -> None:
        self.answered: list[float] = []
        self.num_refused = 0

    def __call__(self, number: int) -> str:
        now = time.monotonic()
        self.answered = [moment for moment in self.answered if now - moment < 0.2]
        if len(self.answered) >= 3:
            self.num_refused += 1
            return "429"
        self.answered.append(now)
        return "fine"


def test_a_rate_limit_slows_all_seats_and_loses_nothing(endpoint: Any) -> None:
    endpoint.behaviour, endpoint.retry_after = Limited(), ""
    policy = ChatAPIPolicy("m", endpoint.url, max_retries=1, max_concurrent=8)
    episodes = kuhn(policy, 12)
    assert not any(episode.lost for episode in episodes)
    assert policy.usage.num_errors == 0
    # 8 at most find out together that the limit holds, then one at a time
    assert endpoint.behaviour.num_refused < 8 * policy.usage.num_calls


@pytest.mark.parametrize("wait", ["0.4", pytest.param("date", marks=pytest.mark.slow)])
def test_retry_after_holds_for_every_policy_of_the_model(
    endpoint: Any, wait: str
) -> None:
    if wait == "date":  # of whole seconds
        wait = formatdate(time.time() + 1.6, usegmt=True)
    endpoint.behaviour = lambda number: "429" if number == 0 else "fine"
    endpoint.retry_after = wait
    moments: list[float] = []

    def say(body: Any) -> str:
        moments.append(time.monotonic())
        time.sleep(0.2)  # the refusal is known before the next request is made
        return "<answer>bet</answer>"

    endpoint.say = say
    began = time.monotonic()
    seats = [ChatAPIPolicy("m", endpoint.url), ChatAPIPolicy("m", endpoint.url)]
    play(lambda: make("kuhn_poker"), seats, range(2))
    assert sorted(moments)[1] - began > 0.35  # one was in flight beside the first


def test_a_limit_of_an_hour_loses_the_episodes_at_once(endpoint: Any) -> None:
    endpoint.behaviour, endpoint.retry_after = lambda number: "429 daily quota", "3600"
    episodes = kuhn(ChatAPIPolicy("m", endpoint.url), 3)
    assert all(
        "limits requests (StatusError: status 429: daily" in e.lost for e in episodes
    )
    assert len(endpoint.requests) <= 3


def test_fields_that_are_refused_by_name_are_dropped_or_renamed_once(
    endpoint: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def behaviour(number: int) -> str:
        asked = endpoint.requests[number]
        if "seed" in asked:
            return "422 Extra inputs are not permitted: seed"
        return (
            "400 Unsupported parameter: 'max_tokens'"
            if "max_tokens" in asked
            else "fine"
        )

    endpoint.behaviour = behaviour
    policy = ChatAPIPolicy("m", endpoint.url, max_tokens=7, max_concurrent=1)
    assert not any(e.lost for e in kuhn(policy))
    endpoint.requests.clear()
    kuhn(policy)
    for asked in endpoint.requests:
        assert asked["max_completion_tokens"] == 7
        assert not {"seed", "max_tokens"} & asked.keys()
    told = [record.getMessage() for record in caplog.records]
    assert [text.split(": ")[0].split()[-1] for text in told] == [
        "'seed'",
        "'max_tokens'",
    ]


TOO_LONG = (
    "This model's maximum context length is 512 tokens, you asked for max_tokens=7",
    "the request exceeds the available context size, try increasing it",
    "prompt is too long: 9 tokens > 7 maximum",
    "`inputs` must have less than 7 tokens. Given: 9",
)


@pytest.mark.parametrize("said", TOO_LONG)
def test_a_prompt_beyond_the_context_forfeits_under_its_name(
    endpoint: Any, said: str
) -> None:
    """It is asked again once, as a reply that fills the context keeps every limit."""
    endpoint.behaviour = lambda number: f"400 {said}"
    (episode,) = kuhn(ChatAPIPolicy("m", endpoint.url, max_tokens=7), 1)
    assert (episode.lost, episode.forfeited_by) == (None, 0)
    assert episode.turns[0].invalid == "context_length"
    assert ["max_tokens" in asked for asked in endpoint.requests] == [True, False]


def test_a_limit_that_leaves_no_room_is_left_out_of_that_request(endpoint: Any) -> None:
    endpoint.behaviour = lambda number: (
        f"400 {TOO_LONG[0]}" if "max_tokens" in endpoint.requests[number] else "fine"
    )
    (episode,) = kuhn(ChatAPIPolicy("m", endpoint.url, max_tokens=7), 1)
    assert (episode.lost, episode.forfeited_by) == (None, None)
    assert "max_completion_tokens" not in endpoint.requests[-1]


def test_a_string_gives_any_field_of_requests(endpoint: Any) -> None:
    options = "send_seed=false#max_completion_tokens=512#top_p=0.9#reasoning_effort=low"
    kuhn(make_policy(f"api:m@{endpoint.url}#{options}"), 1)
    (asked, *_) = endpoint.requests
    assert "seed" not in asked
    assert asked["max_completion_tokens"] == 512
    assert (asked["top_p"], asked["reasoning_effort"]) == (0.9, "low")


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
    with pytest.raises(ValueError, match="'lose' or 'raise', or None, got 'stop'"):
        ways[way](on_error="stop")


def test_lockstep_asks_it_too(endpoint: Any) -> None:
    env_fn, seats = partial(make, "kuhn_poker"), [ChatAPIPolicy("m", endpoint.url)] * 2
    plans = [EpisodePlan(env_fn, seats, seed) for seed in range(3)]
    run = Scheduler(None, None)
    lockstep = [episode.to_json() for _, episode in run.in_lockstep(plans, None)]
    assert sorted(lockstep) == sorted(
        e.to_json() for e in play(env_fn, seats, range(3))
    )


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
