"""CPU time of an episode through `SeatEnv`, beside PettingZoo's loop over the same game.

Both play seat 0 with random legal actions, chosen from the action mask, against the bot
`random` in the other seats. The loop calls `last` before every turn and steps dead agents, as
PettingZoo's documentation does. Both observe features. `SeatEnv` also fills `info` with the
mask and the texts of the legal actions. Neither is given a seed, so that no generator is
made in an episode. Repeats are interleaved; the table shows medians.

The second table: CPU time of a turn through `SeatSession`, beside a loop over `PromptWrapper`
that reads each prompt. Both play all seats with random legal replies, each episode with a seed.
The cost of `reset` with the first prompt is measured apart and subtracted from the cost of turns.

    python benchmarks/seat_speed.py --repeats 7 --seconds 1
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

import arena_envs
from arena_envs.bots import make_bot
from arena_wrappers import PromptWrapper, SeatSession
from arena_wrappers.play import make_seat_env

GAMES = ("tic_tac_toe", "kuhn_poker", "connect_four")

Episode = Callable[[random.Random], int]  # plays one and counts the turns of seat 0
Loop = Callable[[str], Episode]


def seat_loop(id: str) -> Episode:
    env = make_seat_env(id)

    def play(rng: random.Random) -> int:
        observation, _ = env.reset()
        num_steps, over = 0, False
        while not over:
            observation, _, terminated, truncated, _ = env.step(
                chosen(observation, rng)
            )
            over = terminated or truncated
            num_steps += 1
        return num_steps

    return play


def bare_loop(id: str) -> Episode:
    env = arena_envs.make(id, observation="features")
    bot = make_bot("random")

    def play(rng: random.Random) -> int:
        env.reset()
        num_steps = 0
        for agent in env.agent_iter():
            observation, _, terminated, truncated, _ = env.last()
            if terminated or truncated:
                env.step(None)
            elif agent == "player_0":
                env.step(chosen(observation, rng))
                num_steps += 1
            else:
                env.step(bot(env.game, env.game_state, rng))
        return num_steps

    return play


def prompt_loop(id: str, num_turns: int | None = None) -> Episode:
    env = PromptWrapper(arena_envs.make(id, observation="text"), "bare")

    def play(rng: random.Random) -> int:
        env.reset(seed=rng.getrandbits(63))
        num_steps, base = 0, env.env
        env.observe(base.agent_selection)
        while num_steps != num_turns and (legal := env.legal_texts()):
            env.step(legal[int(rng.random() * len(legal))])
            env.observe(base.agent_selection)
            num_steps += 1
        return num_steps

    return play


def session_loop(id: str, num_turns: int | None = None) -> Episode:
    session = SeatSession(id, "all", (), prompt={"reply_format": "bare"})

    def play(rng: random.Random) -> int:
        session.reset(rng.getrandbits(63))
        num_steps, legal = 0, session.info()["legal"]
        while legal and num_steps != num_turns:
            info = session.step(legal[int(rng.random() * len(legal))])[3]
            legal, num_steps = info["legal"], num_steps + 1
        return num_steps

    return play


def chosen(observation: Any, rng: random.Random) -> Any:
    legal = observation["action_mask"].nonzero()[0]
    return legal[int(rng.random() * len(legal))]


def measure(play: Episode, seconds: float) -> tuple[float, float]:
    """Microseconds of CPU time per episode, and turns of seat 0 per episode."""
    rng, num_episodes, num_steps = random.Random(0), 0, 0
    start = time.process_time()
    while (spent := time.process_time() - start) < seconds:
        num_steps += sum(play(rng) for _ in range(20))
        num_episodes += 20
    return spent / num_episodes * 1e6, num_steps / num_episodes


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="measurements per row")
    parser.add_argument("--seconds", type=float, default=1.0, help="CPU time of each")
    args = parser.parse_args()
    table = Table("game", "AEC loop, μs", "SeatEnv, μs", "ratio", "more per turn, μs")
    for id in GAMES:
        (bare, num_turns), (seat, _) = medians(args, bare_loop(id), seat_loop(id))
        more = (seat - bare) / num_turns
        cells = f"{bare:.1f}", f"{seat:.1f}", f"{seat / bare:.2f}", f"{more:.1f}"
        table.add_row(id, *cells)
    Console().print(table)
    columns = "PromptWrapper, μs", "SeatSession, μs", "more per reset", "more per turn"
    table = Table("game", *columns)
    for id in GAMES:
        loops = (
            prompt_loop(id),
            session_loop(id),
            prompt_loop(id, 0),
            session_loop(id, 0),
        )
        found = medians(args, *loops)
        bare, session, *resets = (cost for cost, _ in found)
        reset = resets[1] - resets[0]
        more = (session - bare - reset) / found[0][1]
        cells = f"{bare:.1f}", f"{session:.1f}", f"{reset:.1f}", f"{more:.1f}"
        table.add_row(id, *cells)
    Console().print(table)


def medians(args: argparse.Namespace, *loops: Episode) -> list[tuple[float, float]]:
    """Median cost and turns of an episode in each loop; their measurements alternate."""
    for play in loops:
        measure(play, args.seconds / 4)  # fills the cache of states
    found = [
        [measure(play, args.seconds) for play in loops] for _ in range(args.repeats)
    ]
    return [
        (statistics.median(c for c, _ in own), statistics.median(n for _, n in own))
        for own in zip(*found, strict=True)
    ]


if __name__ == "__main__":
    main()
