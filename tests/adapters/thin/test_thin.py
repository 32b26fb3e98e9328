"""Examples for more trainers: live where the package is installed, else on a fake of its interface.

SkyRL-Gym, lm-evaluation-harness and Tinker's cookbook run live. The fake of NeMo-Gym 0.4.0 has the
names, arguments and results of that release.
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
