"""CPU time of a step through each adapter that runs in this process, beside our own loops.

Random legal actions in all rows. Adapters of one seat are compared with `SeatEnv`, which
reads and writes the same texts or features; adapters of all seats with PettingZoo's loop over
the same game. Rows of frameworks that are not installed are left out. Repeats are
interleaved; the table shows medians.

    python benchmarks/adapters_speed.py --repeats 5 --seconds 0.5
"""

import argparse
import random
import statistics
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from rich.console import Console
from rich.table import Table

import arena_envs
from arena_wrappers.adapters import OpenMasks
from arena_wrappers.play import make_seat_env
from seat_speed import Episode, chosen, measure

GAMES = ("tic_tac_toe", "kuhn_poker", "connect_four")


def seat_texts(id: str) -> Episode:
    """`SeatEnv` with texts as observations and actions."""
    env = make_seat_env(id, observation="text", reply="text")

    def play(rng: random.Random) -> int:
        _, info = env.reset()
        num_steps, over = 0, False
        while not over:
            _, _, terminated, truncated, info = env.step(one_of(info["legal"], rng))
            over, num_steps = terminated or truncated, num_steps + 1
        return num_steps

    return play


def aec_loop(env: Any) -> Episode:
    def play(rng: random.Random) -> int:
        env.reset()
        num_steps = 0
        for _ in env.agent_iter():
            observation, _, terminated, truncated, _ = env.last()
            if terminated or truncated:
                env.step(None)
            else:
                env.step(chosen(observation, rng))
                num_steps += 1
        return num_steps

    return play


def features_loop(id: str) -> Episode:
    return aec_loop(arena_envs.make(id, observation="features"))


def open_masks(id: str) -> Episode:
    return aec_loop(OpenMasks(arena_envs.make(id, observation="features")))


def gem(id: str) -> Episode:
    from arena_wrappers.adapters.gem import GemEnv

    env = GemEnv(id)

    def play(rng: random.Random) -> int:
        _, info = env.reset()
        num_steps, over = 0, False
        while not over:
            reply = rf"\boxed{{{one_of(info['legal'], rng)}}}"
            _, _, terminated, truncated, info = env.step(reply)
            over, num_steps = terminated or truncated, num_steps + 1
        return num_steps

    return play


def textarena(id: str) -> Episode:
    from arena_wrappers.adapters.textarena import to_textarena

    env = to_textarena(id)

    def play(rng: random.Random) -> int:
        env.reset()
        num_steps, over = 0, False
        while not over:
            env.get_observation()
            over, _ = env.step(f"[{one_of(env.env.legal_texts(), rng)}]")
            num_steps += 1
        return num_steps

    return play


def rllib(id: str) -> Episode:
    from arena_wrappers.adapters.rllib import RLlibEnv

    env = RLlibEnv({"game": id})

    def play(rng: random.Random) -> int:
        observations, _ = env.reset()
        num_steps, over = 0, False
        while not over:
            ((agent, view),) = observations.items()
            observations, _, ended, cut, _ = env.step({agent: chosen(view, rng)})
            over, num_steps = ended["__all__"] or cut["__all__"], num_steps + 1
        return num_steps

    return play


def openspiel(id: str) -> Episode:
    from arena_wrappers.adapters.openspiel import to_openspiel

    game = to_openspiel(id)
    observer = game.make_py_observer()

    def play(rng: random.Random) -> int:
        state, num_steps = game.new_initial_state(), 0
        while not state.is_terminal():
            if state.is_chance_node():
                legal = [outcome for outcome, _ in state.chance_outcomes()]
            else:
                observer.set_from(state, state.current_player())
                legal = state.legal_actions()
                num_steps += 1
            state.apply_action(one_of(legal, rng))
        return num_steps

    return play


ADAPTERS: dict[str, tuple[str, Callable[[str], Episode], Callable[[str], Episode]]] = {
    "GEM": ("gem", gem, seat_texts),
    "TextArena": ("textarena", textarena, seat_texts),
    "RLlib": ("ray", rllib, features_loop),
    "OpenSpiel": ("pyspiel", openspiel, features_loop),
    "OpenMasks (TorchRL)": ("arena_envs", open_masks, features_loop),
}


def one_of(legal: Any, rng: random.Random) -> Any:
    return legal[int(rng.random() * len(legal))]


def per_step(loop: Episode, seconds: float) -> float:
    episode, num_steps = measure(loop, seconds)
    return episode / num_steps


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="measurements per row")
    parser.add_argument("--seconds", type=float, default=0.5, help="CPU time of each")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # of the frameworks
    table = Table("adapter", "game", "ours, μs", "adapter, μs", "more, μs")
    for name, (module, adapter, ours) in ADAPTERS.items():
        if find_spec(module) is None:
            continue
        for id in GAMES:
            loops = ours(id), adapter(id)
            for loop in loops:
                measure(loop, args.seconds / 2)  # fills the cache of states
            costs = [
                [per_step(loop, args.seconds) for loop in loops]
                for _ in range(args.repeats)
            ]
            bare, through = (statistics.median(row[i] for row in costs) for i in (0, 1))
            cells = (f"{cost:.1f}" for cost in (bare, through, through - bare))
            table.add_row(name, id, *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
