"""Examples for more trainers: live where the package is installed, else on a fake of its interface.

SkyRL-Gym, lm-evaluation-harness and Tinker's cookbook run live. The fakes of verl 0.9.1, ART 0.5.18
and ms-swift 4.6.0 have the names, arguments and results that these releases document.
"""

import asyncio
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("skyrl_gym", reason="skyrl-gym is not installed: make adapters")
pytestmark = pytest.mark.filterwarnings("default")


def load(name: str) -> dict[str, Any]:
    return runpy.run_path(str(Path(__file__).with_name(f"{name}.py")))


def fake(monkeypatch: Any, name: str, **names: Any) -> None:
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        path = ".".join(parts[:end])
        monkeypatch.setitem(sys.modules, path, ModuleType(path))
    vars(sys.modules[name]).update(names)


def test_skyrl_plays_a_seat_to_its_return() -> None:
    import skyrl_gym

    load("skyrl")
    for seed in range(8):
        extras = {"game": "tic_tac_toe", "opponents": "random", "seed": seed}
        env = skyrl_gym.make("arena", env_config={}, extras=extras)
        shown, _ = env.init([])
        assert [message["role"] for message in shown] == ["system", "user"]
        paid, done, legal = 0.0, False, env.session.info()["legal"]
        while not done:
            told = env.step(f"<answer>{legal[0]}</answer>")
            paid, done = paid + told["reward"], told["done"]
            legal = told["metadata"]["legal"]
        assert told["observations"] == []
        assert paid == told["metadata"]["outcome"]["returns"][0]


class Letters:
    """A renderer and a policy of Tinker's cookbook: a token is a character."""

    def build_generation_prompt(self, shown: Any) -> Any:
        import tinker

        text = "".join(message["content"] for message in shown)
        return tinker.ModelInput.from_ints([ord(letter) for letter in text])

    def get_stop_sequences(self) -> list[str]:
        return ["."]

    def parse_response(self, tokens: Any) -> tuple[dict[str, str], bool]:
        return {"role": "assistant", "content": "".join(map(chr, tokens))}, True

    async def __call__(self, prompt: Any, stop: Any, *, max_tokens: Any = None) -> Any:
        from tinker_cookbook.completers import TokensWithLogprobs

        reply = [ord(letter) for letter in "<answer>bet</answer>"]
        return TokensWithLogprobs(reply, [-1.0] * len(reply))


def test_tinker_rolls_out_a_group_with_one_deal() -> None:
    rollouts = pytest.importorskip("tinker_cookbook.rl.rollouts")
    group = load("tinker_seats")["SeatGroup"]("kuhn_poker", 0, 3, Letters(), "random")
    played = asyncio.run(rollouts.do_group_rollout(group, Letters()))
    starts = {tuple(t.transitions[0].ob.to_ints()) for t in played.trajectories_G}
    assert len(starts) == 1
    returns = played.get_total_rewards()
    assert len(returns) == 8
    assert set(returns) <= {-2.0, 1.0, 2.0}
    assert len(set(returns)) > 1


def test_lm_eval_scores_positions_by_the_equilibrium(record_property) -> None:
    lm_eval = pytest.importorskip("lm_eval")
    from lm_eval.api.model import LM

    class Picks(LM):  # type: ignore[misc]
        """Prefers one action everywhere."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

        def loglikelihood(self, requests: Any) -> list[tuple[float, bool]]:
            likes = [self.action == one.args[1].strip() for one in requests]
            return [(float(like), like) for like in likes]

        def loglikelihood_rolling(self, requests: Any) -> Any:
            raise NotImplementedError

        def generate_until(self, requests: Any) -> Any:
            raise NotImplementedError

    task, found = load("lm_eval_task")["TASK"], {}
    for action in ("pass", "bet"):
        told = lm_eval.simple_evaluate(Picks(action), tasks=[task], bootstrap_iters=0)
        found[action] = told["results"]["arena_kuhn"]["equilibrium,none"]
    record_property(
        "learned", f"equilibrium probability of passing {found['pass']:.2f}"
    )
    assert sum(found.values()) == pytest.approx(1)
    assert found["pass"] > found["bet"]


def test_verl_masks_what_the_model_did_not_write(monkeypatch) -> None:
    class Base:
        server_manager: Any = None
        tokenizer = SimpleNamespace(
            decode=lambda ids, skip_special_tokens: "".join(map(chr, ids))
        )

        async def ct_build_initial_tokens(self, shown: Any) -> list[int]:
            return [ord(c) for message in shown for c in message["content"]]

        async def ct_merge_assistant_token(self, ids, new, mask, logprobs, own) -> Any:
            merged = SimpleNamespace(token_ids=ids + new)
            return merged, mask + [1] * len(new), logprobs + own

        async def ct_merge_context_msg(self, old, new, ids, mask, logprobs) -> Any:
            (message,) = new[len(old) :]
            told = [ord(letter) for letter in message["content"]]
            merged = SimpleNamespace(token_ids=ids + told)
            zeros = [0] * len(told)
            return merged, mask + zeros, logprobs + [0.0] * len(told)

    async def generate(request_id, prompt_ids, sampling_params) -> Any:
        reply = [ord(letter) for letter in "<answer>pass</answer>"]
        return SimpleNamespace(token_ids=reply, log_probs=[-1.0] * len(reply))

    name = "verl.experimental.agent_loop.agent_loop"
    register = lambda name: lambda cls: cls  # noqa: E731
    fake(
        monkeypatch,
        name,
        AgentLoopBase=Base,
        AgentLoopOutput=SimpleNamespace,
        register=register,
    )
    loop = load("verl_loop")["ArenaSeat"]()
    loop.server_manager = SimpleNamespace(generate=generate)
    row = {"extra_info": {"opponents": "random"}, "raw_prompt": []}
    lengths = set()
    for seed in range(8):
        row["extra_info"]["seed"] = seed
        found = asyncio.run(loop.run({}, **row))
        own = zip(found.response_ids, found.response_mask, strict=True)
        said = "".join(chr(token) for token, is_own in own if is_own)
        num_replies = found.num_turns // 2
        assert said == "<answer>pass</answer>" * num_replies
        assert len(found.response_logprobs) == len(found.response_ids)
        assert sum(found.extra_fields["turn_scores"]) == found.reward_score
        lengths.add(num_replies)
    assert lengths == {1, 2}


def test_art_keeps_choices_and_the_return(monkeypatch) -> None:
    class Trajectory:
        def __init__(self) -> None:
            self.messages_and_choices: list[Any] = []
            self.reward = 0.0

        def messages(self) -> list[dict[str, str]]:
            return [
                one
                if isinstance(one, dict)
                else {"role": "assistant", "content": one.message.content}
                for one in self.messages_and_choices
            ]

        def finish(self) -> "Trajectory":
            return self

    async def create(model: str, messages: Any) -> Any:
        assert [m["role"] for m in messages[1:]][::2] == ["user"] * (len(messages) // 2)
        reply = SimpleNamespace(content="<answer>pass</answer>")
        return SimpleNamespace(choices=[SimpleNamespace(message=reply)])

    fake(monkeypatch, "art", Trajectory=Trajectory)
    completions = SimpleNamespace(create=create)
    client = SimpleNamespace(chat=SimpleNamespace(completions=completions))
    rollout = load("art_rollout")["rollout"]
    for seed in range(6):
        played = asyncio.run(rollout(client, "m", seed))
        assert played.reward in (-1.0, 1.0)
        assert not isinstance(played.messages_and_choices[-1], dict)


def test_swift_steps_a_seat(monkeypatch) -> None:
    class Env:
        def __init__(self, env_config: Any) -> None:
            self.env_config = env_config

    envs: dict[str, Any] = {}
    fake(monkeypatch, "swift.rollout.gym_env", Env=Env, envs=envs)
    load("swift_env")

    async def play() -> tuple[float, Any]:
        env = envs["arena"]({"name": "arena", "seed": 3, "opponents": "random"})
        _, info, system = await env.reset(None)
        assert "Kuhn" in system
        assert info["legal"] == ["pass", "bet"]
        paid, done = 0.0, False
        while not done:
            said = {"role": "assistant", "content": "<answer>bet</answer>"}
            _, reward, done, info = await env.step([said])
            paid += reward
        await env.close()
        return paid, info["outcome"]["returns"][0]

    paid, expected = asyncio.run(play())
    assert paid == expected


def test_nemo_steps_the_sessions_of_its_clients(monkeypatch) -> None:
    class GymnasiumServer:
        def __init__(self) -> None:
            self.session_state: dict[str, Any] = {}

    def extract_text(response: Any) -> str:
        return str(response.output_text)

    name = "resources_servers.gymnasium"
    fake(monkeypatch, name, GymnasiumServer=GymnasiumServer, extract_text=extract_text)
    server = load("nemo_server")["ArenaServer"]()
    reply = SimpleNamespace(output_text="<answer>pass</answer>")

    async def play(seed: int) -> tuple[float, Any]:
        row = {"verifier_metadata": {"seed": seed, "opponents": "random"}}
        shown, info = await server.reset(row, f"client {seed}")
        assert "Kuhn" in shown
        paid, done = 0.0, False
        while not done:
            await asyncio.sleep(0)  # the other sessions play on
            shown, reward, done, cut, info = await server.step(
                reply, row, f"client {seed}"
            )
            assert (shown is None) is done
            paid += reward
        assert not cut
        return paid, info["outcome"]["returns"][0]

    async def play_all() -> Any:
        return await asyncio.gather(*(play(seed) for seed in range(6)))

    played = asyncio.run(play_all())
    assert all(paid == expected for paid, expected in played)
    assert {paid for paid, _ in played} == {-1.0, 1.0}
