"""Steps per CPU second of the environments, beside those of other libraries.

A step is one decision of one agent. Random legal play; the observation of the agent to
move (ours: features, mask and text) is fetched before every decision, as agents need it.
Resets, chance and dead steps are inside the time and not in the count. Every measurement is
a process of its own; repeats are interleaved, so that a busy machine is unfair to all alike,
and the table shows medians. Libraries that are not installed are left out.

TextArena is played with its default wrappers, and the history that they leak from one
episode into the next is cleared by hand. Its Kuhn poker is a match of three hands, its
liar's dice a match with five dice each, its Colonel Blotto a match of nine rounds and its
blackjack five hands from an endless deck; in its iterated prisoner's dilemma players say
something before each choice, which is a step, too. In its Battleship the ships stand where
chance puts them. PettingZoo's hold'em games are RLCard's, with rules of their own.

    python benchmarks/env_speed.py --repeats 5 --seconds 2
"""

import argparse
import contextlib
import importlib.util
import json
import random
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

Episode = Callable[[random.Random], int]  # plays one and counts its decisions


def agent_loop(env: Any) -> Episode:
    """Episodes of a PettingZoo environment, through its standard loop."""

    def play(rng: random.Random) -> int:
        num_steps = 0
        env.reset()
        for _ in env.agent_iter():
            observation, _, terminated, truncated, _ = env.last()
            if terminated or truncated:
                env.step(None)
                continue
            legal = observation["action_mask"].nonzero()[0]
            env.step(legal[int(rng.random() * len(legal))])
            num_steps += 1
        return num_steps

    return play


def textarena_loop(
    id: str, legal: Callable[[Any], list[str]], num_players: int = 2
) -> Episode:
    """Episodes of a TextArena environment; `legal` reads actions off its state."""
    import textarena

    env = textarena.make(id)

    def play(rng: random.Random) -> int:
        num_steps, done = 0, False
        env.env.full_observations.clear()
        env.reset(num_players=num_players)
        while not done:
            env.get_observation()
            actions = legal(env.state.game_state)
            done, _ = env.step(actions[int(rng.random() * len(actions))])
            num_steps += 1
        return num_steps

    return play


def arena(id: str, **params: Any) -> Episode:
    import arena_envs

    return agent_loop(arena_envs.make(id, **params))


def classic(name: str, **params: Any) -> Episode:
    warnings.simplefilter("ignore")  # that its modules will move
    module = importlib.import_module(f"pettingzoo.classic.{name}")
    return agent_loop(module.env(**params))


def textarena_tic_tac_toe() -> Episode:
    def legal(state: Any) -> list[str]:
        cells = [cell for row in state["board"] for cell in row]
        return [f"[{i}]" for i, cell in enumerate(cells) if not cell]

    return textarena_loop("TicTacToe-v0", legal)


def textarena_kuhn_poker() -> Episode:
    def legal(state: Any) -> list[str]:
        return [f"[{name}]" for name in state["current_legal_action_tree"]]

    return textarena_loop("KuhnPoker-v0", legal)


def textarena_liars_dice() -> Episode:
    def legal(state: Any) -> list[str]:
        quantity, face = state["current_bid"].values()
        most = sum(state["remaining_dice"].values())
        bids = [
            f"[Bid: {q}, {f}]"
            for q in range(max(quantity, 1), most + 1)
            for f in range(max(face, 1), 7)
            if (q, f) != (quantity, face)
        ]
        return bids + ["[Call]"] * bool(quantity)

    return textarena_loop("LiarsDice-v0", legal)


def textarena_nim() -> Episode:
    def legal(state: Any) -> list[str]:
        piles = state["piles"]
        return [f"[{i} {n + 1}]" for i, left in enumerate(piles) for n in range(left)]

    return textarena_loop("Nim-v0", legal)


NIM = {"pile_sizes": (3, 4, 5), "is_misere": False}  # TextArena's


def textarena_connect_four() -> Episode:
    def legal(state: Any) -> list[str]:
        return [f"[col {i}]" for i, top in enumerate(state["board"][0]) if top == "."]

    return textarena_loop("ConnectFour-v0", legal)


def textarena_prisoners_dilemma() -> Episode:
    def legal(state: Any) -> list[str]:
        talks = state["phase"] == "conversation"
        return ["Hello."] if talks else ["[Cooperate]", "[Defect]"]

    return textarena_loop("IteratedPrisonersDilemma-v0", legal)


def classic_rock_paper_scissors() -> Episode:
    """Its observation is the last choice of the other, without a mask."""
    warnings.simplefilter("ignore")  # that its modules will move
    env: Any = importlib.import_module("pettingzoo.classic.rps_v2").env()

    def play(rng: random.Random) -> int:
        num_steps = 0
        env.reset()
        for _ in env.agent_iter():
            _, _, terminated, truncated, _ = env.last()
            over = terminated or truncated
            env.step(None if over else int(rng.random() * 3))
            num_steps += not over
        return num_steps

    return play


def textarena_breakthrough() -> Episode:
    first = [["W"] * 8] * 2 + [[""] * 8] * 4 + [["B"] * 8] * 2
    turn = 0

    def legal(state: Any) -> list[str]:
        nonlocal turn
        board = state["board"]
        turn = 0 if board == first else turn + 1
        own, step = ("W", 1) if turn % 2 == 0 else ("B", -1)
        actions = []
        for row, cells in enumerate(board):
            for column, cell in enumerate(cells):
                if cell != own:
                    continue
                for to in range(max(column - 1, 0), min(column + 2, 8)):
                    ahead = board[row + step][to]  # never off the board before the end
                    if not ahead if to == column else ahead and ahead != own:
                        squares = "abcdefgh"[column], row + 1, "abcdefgh"[to]
                        actions.append("[{}{}{}{}]".format(*squares, row + step + 1))
        return actions or ["none"]  # no diagonal moves here: invalid, ends the game

    return textarena_loop("Breakthrough-v0", legal)


def textarena_goofspiel() -> Episode:
    names = {1: "A", 11: "J", 12: "Q", 13: "K"}

    def legal(state: Any) -> list[str]:
        first = state["starting_player"]
        hand = state["player_hands"][1 - first if state["pending_bids"] else first]
        return [f"[{names.get(card, card)}]" for card in hand]

    return textarena_loop("GameOfPureStrategy-v0", legal)


def textarena_colonel_blotto() -> Episode:
    divisions = [f"[A{a} B{b} C{20 - a - b}]" for a in range(21) for b in range(21 - a)]
    return textarena_loop("ColonelBlotto-v0", lambda _: divisions)


def textarena_blackjack() -> Episode:
    return textarena_loop("Blackjack-v0", lambda _: ["[Hit]", "[Stand]"], num_players=1)


def textarena_battleship() -> Episode:
    def legal(state: Any) -> list[str]:
        boards = state["tracking_board"]
        num_shots = [sum(row.count("~") for row in boards[seat]) for seat in (0, 1)]
        board = boards[num_shots[0] < num_shots[1]]  # of whom more squares are left
        return [
            f"[{'ABCDEFGHIJ'[row]}{column}]"
            for row, cells in enumerate(board)
            for column, cell in enumerate(cells)
            if cell == "~"
        ]

    return textarena_loop("Battleship-v0-standard", legal)


BATTLESHIP = {
    "board_width": 10,
    "board_height": 10,
    "ship_sizes": (5, 4, 3, 3, 2),
    "num_shots": 100,
}


def textarena_othello() -> Episode:
    def legal(state: Any) -> list[str]:
        moves = state["valid_moves"]
        return [f"[{row}, {column}]" for row, column in moves] or ["[pass]"]

    return textarena_loop("Othello-v0", legal)


MINI_HANABI = {
    "colors": 2,
    "ranks": 2,
    "players": 2,
    "hand_size": 3,
    "max_information_tokens": 3,
    "max_life_tokens": 3,
}

ROWS: dict[tuple[str, str], Callable[[], Episode]] = {
    ("tic-tac-toe", "arena-envs"): lambda: arena("tic_tac_toe"),
    ("tic-tac-toe", "PettingZoo classic"): lambda: classic("tictactoe_v3"),
    ("tic-tac-toe", "TextArena"): textarena_tic_tac_toe,
    ("Kuhn poker", "arena-envs"): lambda: arena("kuhn_poker"),
    ("Kuhn poker", "TextArena"): textarena_kuhn_poker,
    ("Hanabi", "arena-envs"): lambda: arena("hanabi"),
    ("Hanabi", "PettingZoo classic"): lambda: classic("hanabi_v5"),
    ("Leduc poker", "arena-envs"): lambda: arena("leduc_poker"),
    ("Leduc poker", "PettingZoo classic"): lambda: classic("leduc_holdem_v4"),
    ("limit hold'em", "arena-envs"): lambda: arena("limit_holdem"),
    ("limit hold'em", "PettingZoo classic"): lambda: classic("texas_holdem_v4"),
    ("liar's dice", "arena-envs"): lambda: arena("liars_dice"),
    ("liar's dice", "TextArena"): textarena_liars_dice,
    ("dots and boxes", "arena-envs"): lambda: arena("dots_and_boxes"),
    ("Hex 11x11", "arena-envs"): lambda: arena("hex"),
    ("chess", "arena-envs"): lambda: arena("chess"),
    ("chess", "PettingZoo classic"): lambda: classic("chess_v6"),
    ("Nim", "arena-envs"): lambda: arena("nim", **NIM),
    ("Nim", "TextArena"): textarena_nim,
    ("iterated prisoner's dilemma", "arena-envs"): lambda: arena(
        "iterated_prisoners_dilemma"
    ),
    ("iterated prisoner's dilemma", "TextArena"): textarena_prisoners_dilemma,
    ("rock-paper-scissors, 15 rounds", "arena-envs"): lambda: arena(
        "iterated_rock_paper_scissors", num_rounds=15
    ),
    (
        "rock-paper-scissors, 15 rounds",
        "PettingZoo classic",
    ): classic_rock_paper_scissors,
    ("Mini Hanabi", "arena-envs"): lambda: arena("mini_hanabi"),
    ("Mini Hanabi", "PettingZoo classic"): lambda: classic("hanabi_v5", **MINI_HANABI),
    ("Connect Four", "arena-envs"): lambda: arena("connect_four"),
    ("Connect Four", "PettingZoo classic"): lambda: classic("connect_four_v3"),
    ("Connect Four", "TextArena"): textarena_connect_four,
    ("Breakthrough", "arena-envs"): lambda: arena("breakthrough"),
    ("Breakthrough", "TextArena"): textarena_breakthrough,
    ("Goofspiel, 13 cards", "arena-envs"): lambda: arena("goofspiel", num_cards=13),
    ("Goofspiel, 13 cards", "TextArena"): textarena_goofspiel,
    ("Colonel Blotto", "arena-envs"): lambda: arena("colonel_blotto", num_coins=20),
    ("Colonel Blotto", "TextArena"): textarena_colonel_blotto,
    ("blackjack", "arena-envs"): lambda: arena("blackjack"),
    ("blackjack", "TextArena"): textarena_blackjack,
    ("Battleship 10x10", "arena-envs"): lambda: arena("battleship", **BATTLESHIP),
    ("Battleship 10x10", "TextArena"): textarena_battleship,
    ("Othello", "arena-envs"): lambda: arena("othello"),
    ("Othello", "TextArena"): textarena_othello,
}
MODULES = {
    "arena-envs": "arena_envs",
    "PettingZoo classic": "pygame",
    "TextArena": "textarena",
}


def measure_steps(episode: Episode, seconds: float) -> float:
    """Steps per CPU second, after a warm-up."""
    rng = random.Random(0)
    _play_for(episode, rng, seconds / 4)
    num_steps, spent = _play_for(episode, rng, seconds)
    return num_steps / spent


def _play_for(
    episode: Episode, rng: random.Random, seconds: float
) -> tuple[int, float]:
    num_steps, start = 0, time.process_time()
    while (spent := time.process_time() - start) < seconds:
        num_steps += sum(episode(rng) for _ in range(20))
    return num_steps, spent


def measure_clones(id: str, seconds: float) -> float:
    """Clones per CPU second, of an environment in mid-episode."""
    import arena_envs

    env = arena_envs.make(id)
    env.reset(seed=0)
    env.step(env.legal_actions()[0])
    num_clones, start = 0, time.process_time()
    while (spent := time.process_time() - start) < seconds:
        for _ in range(1000):
            env.clone()
        num_clones += 1000
    return num_clones / spent


def measure_import() -> tuple[float, float]:
    """Seconds on the clock and megabytes, of `import arena_envs` alone."""
    code = (
        "import time; start = time.perf_counter(); import arena_envs; "
        "seconds = time.perf_counter() - start; import resource; "
        "print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    command = [sys.executable, "-c", code]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seconds, megabytes = map(float, output.split())
    return seconds, megabytes


def run_row(row: str, seconds: float) -> float:
    """One measurement in a process of its own."""
    command = [sys.executable, __file__, "--row", row, "--seconds", str(seconds)]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(json.loads(output.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="measurements per row")
    parser.add_argument("--seconds", type=float, default=2.0, help="CPU time of each")
    parser.add_argument("--json", help="also write the numbers to this file")
    parser.add_argument("--row", help=argparse.SUPPRESS)  # of a child process
    args = parser.parse_args()
    if args.row:
        game, library = args.row.split("/")
        with contextlib.redirect_stdout(sys.stderr):  # libraries greet
            number = (
                measure_clones(game, args.seconds)
                if library == "clone"
                else measure_steps(ROWS[game, library](), args.seconds)
            )
        sys.stdout.write(json.dumps(number) + "\n")
        return
    report(args.repeats, args.seconds, args.json)


def report(repeats: int, seconds: float, path: str | None) -> None:
    rows = [row for row in ROWS if importlib.util.find_spec(MODULES[row[1]])]
    steps: dict[tuple[str, str], list[float]] = {row: [] for row in rows}
    clones, imports = [], []
    for _ in range(repeats):
        for row in rows:
            steps[row].append(run_row("/".join(row), seconds))
        clones.append(run_row("tic_tac_toe/clone", seconds / 4))
        imports.append(measure_import())
    medians = {row: statistics.median(values) for row, values in steps.items()}
    table = Table("game", "library", "steps per CPU second", "ours / theirs")
    for (game, library), median in medians.items():
        ours = medians[game, "arena-envs"]
        ratio = "" if library == "arena-envs" else f"{ours / median:.1f}"
        table.add_row(game, library, f"{median:,.0f}", ratio)
    numbers = {
        "steps": {"/".join(row): median for row, median in medians.items()},
        "clones": statistics.median(clones),
        "import_seconds": statistics.median(seconds for seconds, _ in imports),
        "import_megabytes": statistics.median(size for _, size in imports),
    }
    console = Console()
    console.print(table)
    console.print(
        f"clone() of tic-tac-toe: {numbers['clones']:,.0f} per CPU second\n"
        f"import arena_envs: {numbers['import_seconds']:.2f} s, "
        f"{numbers['import_megabytes']:.0f} MB"
    )
    if path:
        with open(path, "w") as file:
            json.dump(numbers, file, indent=1)


if __name__ == "__main__":
    main()
