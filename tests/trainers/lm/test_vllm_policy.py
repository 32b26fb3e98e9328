"""The string `vllm:URL`, against a server that speaks as vLLM does."""

import json
import runpy
from pathlib import Path

import pytest

from arena_envs import make
from arena_trainers.lm.vllm_policy import load
from arena_wrappers import make_policy, play, read_episodes

ENDPOINT = runpy.run_path(str(Path(__file__).parents[2] / "endpoint.py"))


@pytest.fixture
def server(tmp_path):
    with ENDPOINT["serving"]() as server:
        server.models = [{"id": "m", "root": str(tmp_path)}]
        server.say = lambda body: "bet"
        yield server


def asked(policy, server):
    """The first request in a game, and the first turn."""
    server.requests.clear()
    (episode,) = play(lambda: make("kuhn_poker"), [policy, "random"], [0])
    return server.requests[0], episode.turns[0]


def test_prompts_and_sampling_are_those_of_the_models_folder(server, tmp_path):
    options = {"reply_format": "bare", "rules": False, "max_new_tokens": 2, "top_k": 5}
    (tmp_path / "arena_prompt.json").write_text(json.dumps(options))
    base = server.url.removesuffix("/v1")
    policy = make_policy(f"vllm:{base}")
    assert policy.name == f"vllm:{base}"
    request, turn = asked(policy, server)
    assert (turn.reply, turn.action) == ("bet", 1)
    assert [m["role"] for m in request["messages"]] == ["user"]
    assert (turn.prompt_ids, turn.token_ids) == ([1, 2, 3], [7, 8])
    sent = {name: request[name] for name in ("model", "max_tokens", "top_k", "top_p")}
    assert sent == {"model": "m", "max_tokens": 2, "top_k": 5, "top_p": 1.0}
    other = load(f"{server.url}#rules=true#max_tokens=9#top_k=7", temperature=0.5)
    request, _ = asked(other, server)
    assert [m["role"] for m in request["messages"]] == ["system", "user"]
    assert (request["max_tokens"], request["temperature"]) == (9, 0.5)
    assert (request["top_k"], request["return_token_ids"]) == (7, True)


def test_reasoning_that_the_servers_template_opens_is_no_answer(
    server, tmp_path, stand_in
):
    template = stand_in.TEMPLATES["deepseek_r1_distill"]
    tokenizer = stand_in.tokenizer_of(template)
    tokenizer.save_pretrained(tmp_path)
    policy = load(server.url, prompt={"reply_format": "bare"})

    def replied(text):
        asked = [{"role": "user", "content": "Bet?"}]
        prompt = tokenizer.apply_chat_template(
            asked, add_generation_prompt=True, return_dict=False
        )
        choice = {"finish_reason": "stop", "message": {"content": text}}
        choice["token_ids"] = tokenizer.encode(text, add_special_tokens=False)
        answer = json.dumps({"choices": [choice], "prompt_token_ids": prompt})
        server.behaviour = lambda number: answer
        (episode,) = play(lambda: make("kuhn_poker"), [policy, "random"], [0])
        return episode.turns[0].reply, episode.turns[0].invalid

    assert replied("I bet.") == ("<think>\nI bet.", "reasoning")
    assert replied("Hm.</think>bet") == ("<think>\nHm.</think>bet", None)


def test_without_a_folder_the_environment_and_the_server_decide(server):
    request, _ = asked(load(server.url), server)
    assert "max_tokens" not in request
    assert "<answer>" in request["messages"][0]["content"]


def test_one_of_several_models_is_named(server):
    server.models.append({"id": "adapter", "root": "/nowhere"})
    with pytest.raises(ValueError, match=r"are m, adapter, got none; add #model=NAME"):
        load(server.url)
    request, _ = asked(load(f"{server.url}#model=adapter"), server)
    assert request["model"] == "adapter"
    with pytest.raises(ValueError, match="got n; add #model=NAME"):
        load(f"{server.url}#model=n")


def test_what_is_no_server_is_refused_in_a_sentence(server):
    with pytest.raises(ValueError, match="want a URL, as in 'vllm:http"):
        load("m")
    with pytest.raises(ConnectionError, match="start the server or correct the URL"):
        load("http://127.0.0.1:9")
    server.models = None
    with pytest.raises(ConnectionError, match=f"{server.url} gave no usable answer"):
        load(server.url)


def test_commands_take_endpoints_and_their_sampling(server, arena_here, tmp_path):
    names = [f"vllm:{server.url}", f"api:m@{server.url}#reply_format=bare"]
    options = [
        "-n",
        "4",
        "--sampling",
        "temperature=0.5",
        "--sampling",
        "max_new_tokens=3",
    ]
    options += [
        "--prompt",
        "reply_format=bare",
        "--no-baselines",
        "--out",
        tmp_path / "log",
    ]
    ran = arena_here("eval", names[0], "kuhn_poker", "--against", names[1], *options)
    assert ran.returncode == 0, ran.stderr
    episodes = list(read_episodes(tmp_path / "log"))
    assert sorted(episode.seed for episode in episodes) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert {turn.policy for e in episodes for turn in e.turns} == {
        names[0],
        names[1].removeprefix("api:"),
    }
    assert all(episode.forfeited_by is None for episode in episodes)
    sent = {(r["temperature"], r["max_tokens"]) for r in server.requests}
    assert sent == {(0.5, 3)}
    ran = arena_here("eval", "vllm:http://127.0.0.1:9", "kuhn_poker", *options)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "start the server or correct the URL" in " ".join(ran.stderr.split())
