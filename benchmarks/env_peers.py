"""The environments that `env_speed.py` measures: ours, and the same games elsewhere."""

import importlib
import random
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

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

    env = arena_envs.make(id, **params)
    return talk_loop(env) if env.game.num_actions is None else agent_loop(env)


def talk_loop(env: Any) -> Episode:
    """Episodes of a language game, in which the finite core is played."""

    def play(rng: random.Random) -> int:
        env.reset()
        while legal := env.legal_actions():
            env.last()
            env.step(legal[int(rng.random() * len(legal))])
        return int(env.num_turns)

    return play


def classic(name: str, wrapped: bool = True, **params: Any) -> Episode:
    """Episodes of PettingZoo's, with the wrappers that check each step, or without."""
    warnings.simplefilter("ignore")  # that its modules will move
    module = importlib.import_module(f"pettingzoo.classic.{name}")
    return agent_loop(module.env(**params) if wrapped else module.raw_env(**params))


def openspiel(name: str, **params: Any) -> Episode:
    """Episodes of OpenSpiel's C++; the tensor and the mask of the seat to move, without a text."""
    import pyspiel

    game = pyspiel.load_game(name, params)

    def play(rng: random.Random) -> int:
        num_steps = 0
        state = game.new_initial_state()
        while not state.is_terminal():
            if state.is_chance_node():
                outcomes, chances = zip(*state.chance_outcomes(), strict=True)
                state.apply_action(rng.choices(outcomes, chances)[0])
                continue
            state.observation_tensor()
            state.legal_actions_mask()
            legal = state.legal_actions()
            state.apply_action(legal[int(rng.random() * len(legal))])
            num_steps += 1
        return num_steps

    return play


def rlcard(name: str) -> Episode:
    """Episodes of RLCard, without PettingZoo around it."""
    make: Any = importlib.import_module("rlcard").make
    env = make(name)

    def play(rng: random.Random) -> int:
        num_steps = 0
        state, _ = env.reset()
        while not env.is_over():
            legal = [*state["legal_actions"]]
            state, _ = env.step(legal[int(rng.random() * len(legal))])
            num_steps += 1
        return num_steps

    return play


def empty_loop() -> Episode:
    """Episodes of an environment without rules: what PettingZoo's loop takes alone.

    Two agents take nine turns, as in a long game of tic-tac-toe; each observes the same arrays.
    """
    import numpy as np
    from pettingzoo import AECEnv

    class Empty(AECEnv[str, Any, int]):
        possible_agents = ["player_0", "player_1"]  # noqa: RUF012 # as PettingZoo declares it
        content = {"action_mask": np.ones(9, np.int8)}  # noqa: RUF012

        def reset(self, seed: int | None = None, options: Any = None) -> None:
            self.agents = self.possible_agents[:]
            self.rewards = dict.fromkeys(self.agents, 0.0)
            self._cumulative_rewards = self.rewards.copy()
            self.terminations = dict.fromkeys(self.agents, False)
            self.truncations = self.terminations.copy()
            self.infos = {agent: {} for agent in self.agents}
            self.num_turns = 0
            self.agent_selection = self.agents[0]

        def observe(self, agent: str) -> dict[str, Any]:
            return self.content

        def step(self, action: int | None) -> None:
            if self.terminations[self.agent_selection]:
                self._was_dead_step(action)
                return
            self.num_turns += 1
            if self.num_turns == 9:
                self.terminations = dict.fromkeys(self.agents, True)
            self.agent_selection = self.agents[self.num_turns % 2]

    return agent_loop(Empty())


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
        color, step = ("W", 1) if turn % 2 == 0 else ("B", -1)
        actions = []
        for row, cells in enumerate(board):
            for column, cell in enumerate(cells):
                if cell != color:
                    continue
                for to in range(max(column - 1, 0), min(column + 2, 8)):
                    ahead = board[row + step][to]  # never off the board before the end
                    if not ahead if to == column else ahead and ahead != color:
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

UNWRAPPED = "PettingZoo classic, without wrappers"
ROWS: dict[tuple[str, str], Callable[[], Episode]] = {
    ("tic-tac-toe", "arena-envs"): partial(arena, "tic_tac_toe"),
    ("tic-tac-toe", "OpenSpiel, C++"): partial(openspiel, "tic_tac_toe"),
    ("tic-tac-toe", "PettingZoo classic"): lambda: classic("tictactoe_v3"),
    ("tic-tac-toe", UNWRAPPED): lambda: classic("tictactoe_v3", wrapped=False),
    ("tic-tac-toe", "PettingZoo's loop alone"): empty_loop,
    ("tic-tac-toe", "TextArena"): textarena_tic_tac_toe,
    ("Kuhn poker", "arena-envs"): partial(arena, "kuhn_poker"),
    ("Kuhn poker", "OpenSpiel, C++"): partial(openspiel, "kuhn_poker"),
    ("Kuhn poker", "TextArena"): textarena_kuhn_poker,
    ("Hanabi", "arena-envs"): partial(arena, "hanabi"),
    ("Hanabi", "OpenSpiel, C++"): partial(openspiel, "hanabi"),
    ("Hanabi", "PettingZoo classic"): lambda: classic("hanabi_v5"),
    ("Leduc poker", "arena-envs"): partial(arena, "leduc_poker"),
    ("Leduc poker", "OpenSpiel, C++"): partial(openspiel, "leduc_poker"),
    ("Leduc poker", "RLCard"): partial(rlcard, "leduc-holdem"),
    ("Leduc poker", "PettingZoo classic"): lambda: classic("leduc_holdem_v4"),
    ("Leduc poker", UNWRAPPED): lambda: classic("leduc_holdem_v4", wrapped=False),
    ("limit hold'em", "arena-envs"): partial(arena, "limit_holdem"),
    ("limit hold'em", "PettingZoo classic"): lambda: classic("texas_holdem_v4"),
    ("liar's dice", "arena-envs"): partial(arena, "liars_dice"),
    ("liar's dice", "TextArena"): textarena_liars_dice,
    ("dots and boxes", "arena-envs"): partial(arena, "dots_and_boxes"),
    ("Hex 11x11", "arena-envs"): partial(arena, "hex"),
    ("Hex 11x11", "OpenSpiel, C++"): partial(openspiel, "hex", board_size=11),
    ("chess", "arena-envs"): partial(arena, "chess"),
    ("chess", "OpenSpiel, C++"): partial(openspiel, "chess"),
    ("chess", "PettingZoo classic"): lambda: classic("chess_v6"),
    ("Nim", "arena-envs"): partial(arena, "nim", **NIM),
    ("Nim", "OpenSpiel, C++"): partial(
        openspiel, "nim", pile_sizes="3;4;5", is_misere=False
    ),
    ("Nim", "TextArena"): textarena_nim,
    ("iterated prisoner's dilemma", "arena-envs"): partial(
        arena, "iterated_prisoners_dilemma"
    ),
    ("iterated prisoner's dilemma", "TextArena"): textarena_prisoners_dilemma,
    ("rock-paper-scissors, 15 rounds", "arena-envs"): partial(
        arena, "iterated_rock_paper_scissors", num_rounds=15
    ),
    (
        "rock-paper-scissors, 15 rounds",
        "PettingZoo classic",
    ): classic_rock_paper_scissors,
    ("Mini Hanabi", "arena-envs"): partial(arena, "mini_hanabi"),
    ("Mini Hanabi", "OpenSpiel, C++"): partial(openspiel, "hanabi", **MINI_HANABI),
    ("Mini Hanabi", "PettingZoo classic"): lambda: classic("hanabi_v5", **MINI_HANABI),
    ("Connect Four", "arena-envs"): partial(arena, "connect_four"),
    ("Connect Four", "OpenSpiel, C++"): partial(openspiel, "connect_four"),
    ("Connect Four", "PettingZoo classic"): lambda: classic("connect_four_v3"),
    ("Connect Four", UNWRAPPED): lambda: classic("connect_four_v3", wrapped=False),
    ("Connect Four", "TextArena"): textarena_connect_four,
    ("Breakthrough", "arena-envs"): partial(arena, "breakthrough"),
    ("Breakthrough", "OpenSpiel, C++"): partial(openspiel, "breakthrough"),
    ("Breakthrough", "TextArena"): textarena_breakthrough,
    ("Goofspiel, 13 cards", "arena-envs"): partial(arena, "goofspiel", num_cards=13),
    ("Goofspiel, 13 cards", "TextArena"): textarena_goofspiel,
    ("Colonel Blotto", "arena-envs"): partial(arena, "colonel_blotto", num_coins=20),
    ("Colonel Blotto", "TextArena"): textarena_colonel_blotto,
    ("blackjack", "arena-envs"): partial(arena, "blackjack"),
    ("blackjack", "TextArena"): textarena_blackjack,
    ("Battleship 10x10", "arena-envs"): partial(arena, "battleship", **BATTLESHIP),
    ("Battleship 10x10", "TextArena"): textarena_battleship,
    ("Othello", "arena-envs"): partial(arena, "othello"),
    ("Othello", "OpenSpiel, C++"): partial(openspiel, "othello"),
    ("Othello", "TextArena"): textarena_othello,
}
MODULES = {
    "arena-envs": "arena_envs",
    "PettingZoo classic": "pygame",
    UNWRAPPED: "pygame",
    "PettingZoo's loop alone": "pettingzoo",
    "TextArena": "textarena",
    "OpenSpiel, C++": "pyspiel",
    "RLCard": "rlcard",
}


def rows_of_all_games() -> dict[tuple[str, str], Callable[[], Episode]]:
    """`ROWS`, and then those of our games that no other library is compared with."""
    import arena_envs

    games_with_rows = {
        row.args[0]
        for (_, library), row in ROWS.items()
        if library == "arena-envs" and isinstance(row, partial)
    }
    names = [info.id.rpartition("-v")[0] for info in arena_envs.game_infos()]
    others = [name for name in names if name not in games_with_rows]
    return ROWS | {(name, "arena-envs"): partial(arena, name) for name in others}
