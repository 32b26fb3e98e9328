"""Games of other packages beside their twins: `python docs/audit/games.py [--json] [NAME ...]`.

Prints a line per pair, with the first difference if there is one. Needs this project and the
packages of the pairs; pairs of packages that are missing are left out.
"""

import copy
import importlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))  # this checkout first

from arena_envs import make_game
from arena_envs.game import CHANCE, TERMINAL
from arena_envs.games.kuhn_poker import KuhnPoker
from arena_envs.testing import EnvTwin, same_game, twin, twin_values


def zoo(module: str) -> EnvTwin:
    """A turn-based environment of PettingZoo without chance, by its module."""
    env = importlib.import_module(module).env().unwrapped
    env.reset(seed=0)
    env.total = Counter()

    def step(env: Any, action: Any) -> None:
        env.step(action)
        env.total.update(env.rewards)

    def player(env: Any) -> int:
        over = all(env.terminations[a] or env.truncations[a] for a in env.agents)
        return TERMINAL if over else env.possible_agents.index(env.agent_selection)

    def actions(env: Any) -> list[int]:
        seat = env.agent_selection
        seen = env.observe(seat)
        told = seen if isinstance(seen, dict) else env.infos[seat]
        mask = told.get("action_mask", [1] * int(env.action_space(seat).n))
        return [number for number, legal in enumerate(mask) if legal]

    def clone(env: Any) -> Any:
        copied = object.__new__(
            type(env)
        )  # deepcopy would start most environments anew
        copied.__dict__.update(copy.deepcopy(env.__dict__))
        return copied

    agents = tuple(env.possible_agents)
    paid = EnvTwin(
        env, step, player, actions, lambda env: [env.total[a] for a in agents]
    )
    return paid._replace(clone=clone)


class AnteOnly(KuhnPoker):
    """Kuhn poker whose bets add nothing to the pot: what TextArena 0.7.4 pays."""

    def returns(self, state: Any) -> Any:
        return [max(-1.0, min(1.0, paid)) for paid in super().returns(state)]


class Pair(NamedTuple):
    """A game of a package beside its twin.

    Attributes:
        package: on PyPI.
        theirs: the name of its game.
        ours: the twin, as in `arena_envs.testing.twin`, or the game itself.
        make: the game of the package, with the actions of the twin.
        max_states, num_episodes, action: as in `same_game`.
        note: what the package's own rules say about a difference.
    """

    package: str
    theirs: str
    ours: Any
    make: Callable[[], Any]
    max_states: int = 5_000
    num_episodes: int = 20
    note: str = ""
    action: Callable[[Any, Any], Any] = lambda state, action: action
    params: dict[str, Any] = {}  # noqa: RUF012  # of our game


def text_env(
    folder: str, texts: dict[Any, str], paid: Any = None, **options: Any
) -> EnvTwin:
    """A game of TextArena without wrappers; an action is legal if its text is accepted."""
    module = importlib.import_module(f"textarena.envs.{folder}.env")
    env = getattr(module, f"{folder}Env")(**options)
    env.reset(num_players=2, seed=0)

    def player(env: Any) -> int:
        return TERMINAL if env.state.done else int(env.state.current_player_id)

    def accepts(env: Any, text: str) -> bool:
        tried, seat = copy.deepcopy(env), env.state.current_player_id
        tried.state.error_allowance = 0  # a refusal ends the game
        tried.step(text)
        return not tried.state.game_info[seat]["invalid_move"]

    def actions(env: Any) -> list[Any]:
        return [action for action, text in texts.items() if accepts(env, text)]

    def returns(env: Any) -> list[float]:
        return [float((env.state.rewards or {}).get(seat, 0)) for seat in range(2)]

    def step(env: Any, move: Any) -> None:
        env.step(texts[move])

    return EnvTwin(env, step, player, actions, paid or returns)


def text_kuhn() -> EnvTwin:
    """One round of TextArena's Kuhn poker, paid in chips; its first player is seat 0."""
    module = importlib.import_module("textarena.envs.KuhnPoker.env")
    env = module.KuhnPokerEnv(max_rounds=1)
    env.reset(num_players=2, seed=0)
    env.dealt = []
    first = env.state.current_player_id

    def chance(env: Any) -> list[tuple[int, float]]:
        left = [card for card in range(3) if card not in env.dealt]
        return [(card, 1 / len(left)) for card in left] if len(left) > 1 else []

    def player(env: Any) -> int:
        if chance(env):
            return CHANCE
        return TERMINAL if env.state.done else env.state.current_player_id ^ first

    def actions(env: Any) -> list[int]:
        tree = env.state.game_state["current_legal_action_tree"]
        return [{"check": 0, "fold": 0, "bet": 1, "call": 1}[name] for name in tree]

    def step(env: Any, move: int) -> None:
        if chance(env):
            env.dealt.append(move)
            seat = first ^ (len(env.dealt) - 1)
            env.state.game_state["player_cards"][seat] = move
        else:
            tree = env.state.game_state["current_legal_action_tree"]
            env.step(f"[{list(tree)[move]}]")

    def returns(env: Any) -> list[float]:
        if not env.state.done:
            return [0.0, 0.0]
        chips = env.state.game_state["player_chips"]
        paid_again = 1  # the ante of a round that is not played
        return [float(chips[first ^ seat] + paid_again) for seat in range(2)]

    return EnvTwin(env, step, player, actions, returns, chance)


def square_names(state: Any, action: int) -> str:
    """TextArena's text of our move of breakthrough, with the rows turned round."""
    square, way = divmod(action // 2, 6)
    row, column = divmod(square, 8)
    there = row + (1 if way < 3 else -1), column + way % 3 - 1
    names = [f"{chr(97 + c)}{r + 1}" for r, c in ((row, column), there)]
    return f"[{''.join(names)}]"


def text_breakthrough() -> EnvTwin:
    """TextArena's breakthrough, with its own texts as actions."""
    inside = [n for n in range(12 * 64) if 0 <= n // 12 % 8 + n // 2 % 3 - 1 < 8]
    texts = sorted({square_names(None, number) for number in inside})
    return text_env("Breakthrough", {text: text for text in texts})


def card_leduc() -> EnvTwin:
    """Leduc hold'em of RLCard; the small blind, who acts first, is our seat 0."""
    rlcard = importlib.import_module("rlcard")
    card = importlib.import_module("rlcard.games.base").Card
    env = rlcard.make("leduc-holdem", config={"seed": 0})
    env.reset()
    game = env.game
    small = min(range(2), key=lambda seat: game.players[seat].in_chips)
    suits, ranks = "SH", "JQK"
    deck = [card(suits[n % 2], ranks[n // 2]) for n in range(6)]
    game.drawn = []
    names = {"fold": 0, "call": 1, "check": 1, "raise": 2}

    def chance(game: Any) -> list[tuple[int, float]]:
        due = 2 if game.round_counter == 0 else 3
        left = [n for n in range(6) if n not in game.drawn]
        over = game.is_over() and game.round_counter == 0
        short = len(game.drawn) < due and not over
        return [(n, 1 / len(left)) for n in left] if short else []

    def player(game: Any) -> int:
        if chance(game):
            return CHANCE
        return TERMINAL if game.is_over() else game.game_pointer ^ small

    def step(game: Any, move: int) -> None:
        if chance(game):
            seat = len(game.drawn)
            game.drawn.append(move)
            if seat < 2:
                game.players[seat ^ small].hand = deck[move]
            else:
                game.public_card = deck[move]
        else:
            legal = {names[name]: name for name in game.get_legal_actions()}
            game.step(legal[move])

    def returns(game: Any) -> list[float]:
        if not game.is_over():
            return [0.0, 0.0]
        paid = [float(x) * game.big_blind for x in game.get_payoffs()]
        return [paid[seat ^ small] for seat in range(2)]

    def actions(game: Any) -> list[int]:
        return [names[name] for name in game.get_legal_actions()]

    return EnvTwin(game, step, player, actions, returns, chance)


def zoo_chess() -> EnvTwin:
    """PettingZoo's chess with moves in UCI notation."""
    utils = importlib.import_module("pettingzoo.classic.chess.chess_utils")
    made: EnvTwin = zoo("pettingzoo.classic.chess_v6")

    def moves(env: Any) -> dict[str, int]:
        seat = env.possible_agents.index(env.agent_selection)
        return {
            str(utils.action_to_move(env.board, number, seat)): number
            for number in made.actions(env)
        }

    return made._replace(
        actions=lambda env: list(moves(env)),
        step=lambda env, move: made.step(env, moves(env)[move]),
    )


def uci(state: Any, action: Any) -> str:
    """Our move of chess in UCI notation."""
    return make_game("chess").action_text(state, action)


def ice() -> EnvTwin:
    """Gymnasium's FrozenLake of 4 by 4, whose table of transitions is its chance."""
    env = importlib.import_module("gymnasium").make("FrozenLake-v1")
    table, limit = env.unwrapped.P, env.spec.max_episode_steps
    start = {"at": 0, "chosen": -1, "paid": 0.0, "over": False, "moves": 0}

    def chance(env: Any) -> list[tuple[int, float]]:
        if env["chosen"] < 0:
            return []
        entries = table[env["at"]][env["chosen"]]  # to the left, ahead, to the right
        return [((env["chosen"] + i - 1) % 4, e[0]) for i, e in enumerate(entries)]

    def player(env: Any) -> int:
        over = env["over"] or env["moves"] == limit
        return CHANCE if env["chosen"] >= 0 else TERMINAL if over else 0

    def step(env: Any, move: int) -> None:
        chosen = env["chosen"]
        if chosen < 0:
            env["chosen"] = move
            return
        entry = table[env["at"]][chosen][(move - chosen + 1) % 4]
        env.update(at=entry[1], over=entry[3], chosen=-1, moves=env["moves"] + 1)
        env["paid"] += entry[2]

    return EnvTwin(
        *(start, step, player, lambda env: range(4)),
        *(lambda env: [env["paid"]], chance),
    )


TEXT = "TextArena"
PAIRS = {
    "textarena-kuhn": Pair(
        TEXT, "KuhnPoker-v0, one round, chips", "kuhn_poker", text_kuhn
    ),
    "textarena-kuhn-ante-only": Pair(
        *(TEXT, "KuhnPoker-v0, one round, chips", AnteOnly(), text_kuhn),
        note="our Kuhn poker, but bets add nothing to the pot",
    ),
    "textarena-tic-tac-toe": Pair(
        *(TEXT, "TicTacToe-v0", "tic_tac_toe"),
        partial(text_env, "TicTacToe", {n: f"[{n}]" for n in range(9)}),
        *(100, 10),
    ),
    "textarena-connect-four": Pair(
        *(TEXT, "ConnectFour-v0", "connect_four"),
        partial(text_env, "ConnectFour", {n: f"[col {n}]" for n in range(7)}),
        *(50, 5),
    ),
    "textarena-nim": Pair(
        *(TEXT, "Nim-v0", "nim"),
        partial(
            text_env,
            "Nim",
            {(n - 1) * 3 + i: f"[{i} {n}]" for n in range(1, 6) for i in range(3)},
        ),
        *(300, 10),
        params={"pile_sizes": (3, 4, 5), "is_misere": False},
    ),
    "textarena-othello": Pair(
        *(TEXT, "Othello-v0", "othello"),
        partial(
            text_env,
            "Othello",
            {n: f"[{n // 8}, {n % 8}]" for n in range(64)} | {64: "[pass]"},
        ),
        *(5, 1),
    ),
    "textarena-breakthrough": Pair(
        *(TEXT, "Breakthrough-v0", "breakthrough"),
        text_breakthrough,
        *(5, 1),
        action=square_names,
        note="its prompt says that a piece may only move diagonally to capture",
    ),
    "textarena-rock-paper-scissors": Pair(
        *(TEXT, "IteratedRockPaperScissors-v0, two rounds"),
        "iterated_rock_paper_scissors(num_rounds=2)",
        partial(
            text_env,
            "IteratedRockPaperScissors",
            dict(enumerate(("[rock]", "[paper]", "[scissors]"))),
            num_rounds=2,
        ),
        note="pays at the end, 1 to the winner of more rounds; its prompt says: win as many rounds as possible",
    ),
    "pettingzoo-tic-tac-toe": Pair(
        *("pettingzoo", "tictactoe_v3", "tic_tac_toe"),
        partial(zoo, "pettingzoo.classic.tictactoe_v3"),
        *(500, 50),
    ),
    "pettingzoo-connect-four": Pair(
        *("pettingzoo", "connect_four_v3", "connect_four"),
        partial(zoo, "pettingzoo.classic.connect_four_v3"),
        *(300, 20),
    ),
    "pettingzoo-rock-paper-scissors": Pair(
        *("pettingzoo", "rps_v2", "iterated_rock_paper_scissors"),
        partial(zoo, "pettingzoo.classic.rps_v2"),
        *(200, 20),
        params={"num_rounds": 15},
    ),
    "pettingzoo-chess": Pair(
        *("pettingzoo", "chess_v6", "chess(max_plies=1000)", zoo_chess),
        *(30, 2),
        action=uci,
    ),
    "rlcard-leduc": Pair(
        *("rlcard", "leduc-holdem", "leduc_poker"),
        card_leduc,
        note="its documentation speaks of blinds of 1 and 2",
    ),
    "gymnasium-frozen-lake": Pair(
        *("gymnasium", "FrozenLake-v1", "frozen_lake", ice, 2_000, 50),
        params={"layout": "4x4"},
    ),
}
SPIEL = {
    "kuhn_poker": "kuhn_poker",
    "kuhn_poker(num_players=3)": "kuhn_poker(players=3)",
    "leduc_poker": "leduc_poker",
    "tic_tac_toe": "tic_tac_toe",
    "connect_four": "connect_four",
    "breakthrough": "breakthrough",
    "othello": "othello",
    "hex(board_size=3)": "hex(board_size=3)",
    "nim": "nim",
    "liars_dice": "liars_dice",
    "goofspiel(num_cards=4)": "goofspiel(num_cards=4,imp_info=False)",
    "blackjack": "blackjack",
    "tiny_hanabi": "tiny_hanabi",
    "dots_and_boxes": "dots_and_boxes",
    "colonel_blotto": "blotto",
    "prisoners_dilemma": "matrix_pd",
    "stag_hunt": "matrix_sh",
}
for mine, theirs in SPIEL.items():
    name = f"openspiel-{mine.partition('(')[0].replace('_', '-')}"
    name += "-3" if "players=3" in mine else ""
    PAIRS[name] = Pair(
        *("open_spiel", theirs, mine), partial(twin, f"openspiel:{theirs}")
    )


def audited(name: str) -> dict[str, Any]:
    """What was found about a pair."""
    pair, began = PAIRS[name], time.process_time()
    random.seed(0)
    game, ours = pair.make(), pair.ours
    if isinstance(ours, str):
        ours = make_game(ours, **pair.params)
    found = same_game(
        *(ours, game),
        action=pair.action,
        max_states=pair.max_states,
        num_episodes=pair.num_episodes,
    )
    row: dict[str, Any] = {
        "package": pair.package,
        "version": version(pair.package),
        "theirs": pair.theirs,
        "ours": repr(ours),
        "difference": None if found is None else str(found),
        "note": pair.note,
    }
    if found is not None and found.what == "returns":
        try:
            row["values"] = twin_values(ours, game)
        except ValueError as error:
            row["values"] = None
            print("no values:", str(error)[:100], file=sys.stderr)
    row["cpu_seconds"] = round(time.process_time() - began, 1)
    return row


def main() -> None:
    """Audits the pairs that are named, or all."""
    names = [name for name in sys.argv[1:] if name != "--json"] or list(PAIRS)
    rows = {}
    for name in names:
        try:
            rows[name] = audited(name)
        except (ModuleNotFoundError, PackageNotFoundError) as error:
            print(f"{name}: left out, {error}", file=sys.stderr)
            continue
        row = rows[name]
        same = "no difference" if row["difference"] is None else row["difference"]
        print(
            f"{name} ({row['version']}, {row['cpu_seconds']} s): {same}",
            file=sys.stderr,
        )
    if "--json" in sys.argv:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
