"""Solvers and search per CPU second, beside OpenSpiel's and a loop that copies TextArena.

NashConv and CFR: calls and iterations, the tree of the game being there (OpenSpiel's, too,
makes its own before; the last lines say what it takes to make ours, once per game). MCTS: simulations from
the initial state, 200 per search, OpenSpiel's with random rollouts. "TextArena, copied" is
what search takes where an environment can only be cloned by `copy.deepcopy`: one copy and
one random play to the end for each simulation, without any tree.

Repeats are interleaved, so that a busy machine is unfair to all alike; the table shows
medians. Libraries that are not installed are left out.

    python benchmarks/solver_speed.py --repeats 5 --seconds 1
"""

import argparse
import copy
import importlib.util
import json
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

import arena_envs
from arena_envs.bots.mcts import MCTS
from arena_envs.solvers import CFR, nash_conv, uniform_table
from arena_envs.solvers.tabular import Tree

NUM_SIMULATIONS = 200

Work = Callable[[], int]  # does some and counts it


def our_nash_conv(id: str) -> Work:
    game = arena_envs.make_game(id)
    table = uniform_table(game)

    def work() -> int:
        nash_conv(game, table)
        return 1

    return work


def their_nash_conv(id: str) -> Work:
    import pyspiel
    from open_spiel.python import policy
    from open_spiel.python.algorithms import exploitability

    game = pyspiel.load_game(id)
    uniform = policy.UniformRandomPolicy(game)

    def work() -> int:
        exploitability.nash_conv(game, uniform)
        return 1

    return work


def their_fast_nash_conv(id: str) -> Work:
    import pyspiel

    game = pyspiel.load_game(id)
    uniform = pyspiel.UniformRandomPolicy(game)

    def work() -> int:
        pyspiel.nash_conv(game, uniform)
        return 1

    return work


def our_cfr(id: str) -> Work:
    solver = CFR(arena_envs.make_game(id))

    def work() -> int:
        solver.run(10)
        return 10

    return work


def their_cfr(id: str) -> Work:
    import pyspiel
    from open_spiel.python.algorithms import cfr

    solver = cfr.CFRSolver(pyspiel.load_game(id))

    def work() -> int:
        solver.evaluate_and_update_policy()
        return 1

    return work


def their_fast_cfr(id: str) -> Work:
    import pyspiel

    solver = pyspiel.CFRSolver(pyspiel.load_game(id))

    def work() -> int:
        for _ in range(10):
            solver.evaluate_and_update_policy()
        return 10

    return work


def our_mcts(id: str) -> Work:
    game, bot, rng = arena_envs.make_game(id), MCTS(NUM_SIMULATIONS), random.Random(0)

    def work() -> int:
        bot(game, game.initial_state(), rng)
        return NUM_SIMULATIONS

    return work


def their_mcts(id: str) -> Work:
    import numpy as np
    import pyspiel
    from open_spiel.python.algorithms import mcts

    game, rng = pyspiel.load_game(id), np.random.RandomState(0)
    evaluator = mcts.RandomRolloutEvaluator(1, rng)
    bot = mcts.MCTSBot(game, 2, NUM_SIMULATIONS, evaluator, random_state=rng)

    def work() -> int:
        bot.step(game.new_initial_state())
        return NUM_SIMULATIONS

    return work


def their_fast_mcts(id: str) -> Work:
    import pyspiel

    game = pyspiel.load_game(id)
    evaluator = pyspiel.RandomRolloutEvaluator(1, 0)
    bot = pyspiel.MCTSBot(game, evaluator, 2, NUM_SIMULATIONS, 100, True, 0, False)

    def work() -> int:
        bot.step(game.new_initial_state())
        return NUM_SIMULATIONS

    return work


def textarena_search(id: str) -> Work:
    import textarena

    name = {"tic_tac_toe": "TicTacToe-v0", "connect_four": "ConnectFour-v0"}[id]
    env: Any = textarena.make(name)
    env.reset(num_players=2, seed=0)
    while hasattr(env, "env"):
        env = env.env
    branch, rng = env, random.Random(0)

    def legal() -> list[str]:
        board = branch.state.game_state["board"]
        if id == "connect_four":
            return [f"[col {i}]" for i, top in enumerate(board[0]) if top == "."]
        cells = [cell for row in board for cell in row]
        return [f"[{i}]" for i, cell in enumerate(cells) if not cell]

    def work() -> int:
        nonlocal branch
        branch, done = copy.deepcopy(env), False
        while not done:
            done, _ = branch.step(rng.choice(legal()))
        return 1

    return work


GAMES = {
    "nash_conv": ("kuhn_poker", "leduc_poker"),
    "cfr": ("kuhn_poker", "leduc_poker"),
    "mcts": ("tic_tac_toe", "connect_four"),
}
LIBRARIES: dict[str, dict[str, Callable[[str], Work]]] = {
    "nash_conv": {
        "arena-envs": our_nash_conv,
        "OpenSpiel, Python": their_nash_conv,
        "OpenSpiel, C++": their_fast_nash_conv,
    },
    "cfr": {
        "arena-envs": our_cfr,
        "OpenSpiel, Python": their_cfr,
        "OpenSpiel, C++": their_fast_cfr,
    },
    "mcts": {
        "arena-envs": our_mcts,
        "OpenSpiel, Python": their_mcts,
        "OpenSpiel, C++": their_fast_mcts,
        "TextArena, copied": textarena_search,
    },
}
TITLES = {"nash_conv": "NashConv", "cfr": "CFR", "mcts": "MCTS"}
MODULES = {"arena-envs": "arena_envs", "OpenSpiel": "pyspiel", "TextArena": "textarena"}


def measure(work: Work, seconds: float) -> float:
    """Work per CPU second."""
    done, start = 0, time.process_time()
    while (spent := time.process_time() - start) < seconds:
        done += work()
    return done / spent


def measure_tree(id: str) -> float:
    """CPU seconds in which a tree is made."""
    game, start = arena_envs.make_game(id), time.process_time()
    Tree(game)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="measurements per row")
    parser.add_argument("--seconds", type=float, default=1.0, help="CPU time of each")
    parser.add_argument("--json", help="also write the numbers to this file")
    args = parser.parse_args()
    works = {
        (task, id, library): make(id)
        for task, makers in LIBRARIES.items()
        for id in GAMES[task]
        for library, make in makers.items()
        if importlib.util.find_spec(MODULES[library.split(",")[0]])
    }
    speeds: dict[tuple[str, str, str], list[float]] = {row: [] for row in works}
    for _ in range(args.repeats):
        for row, work in works.items():
            speeds[row].append(measure(work, args.seconds))
    medians = {row: statistics.median(values) for row, values in speeds.items()}
    trees = {id: measure_tree(id) for id in GAMES["cfr"]}
    report(medians, trees)
    if args.json:
        numbers = {"/".join(row): median for row, median in medians.items()}
        with open(args.json, "w") as file:
            json.dump({**numbers, "tree_seconds": trees}, file, indent=1)


def report(medians: dict[tuple[str, str, str], float], trees: dict[str, float]) -> None:
    table = Table("what", "game", "library", "per CPU second", "ours / theirs")
    for (task, game, library), median in medians.items():
        ours = medians[task, game, "arena-envs"]
        ratio = "" if library == "arena-envs" else f"{ours / median:.2f}"
        speed = f"{median:,.0f}" if median > 99 else f"{median:.2f}"
        table.add_row(TITLES[task], game, library, speed, ratio)
    console = Console()
    console.print(table)
    for game, seconds in trees.items():
        console.print(f"tree of {game}: {1000 * seconds:.1f} ms")


if __name__ == "__main__":
    main()
