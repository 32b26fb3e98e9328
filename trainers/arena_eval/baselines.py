"""Baselines of an evaluation: uniform play, constant play, and the game's solver."""

import random
from typing import Any

from arena_envs.game import AnyGame, random_states
from arena_envs.solvers import information_states
from arena_wrappers import BotPolicy, Policy, TurnRequest, as_policy
from arena_wrappers.policies import TurnView, without_noise
from arena_wrappers.prompts import PromptOptions, legal_texts

MAX_CONSTANTS = 20  # actions, as in Hanabi; games with more have no constant baseline
MAX_SOLVED_STATES = 30_000  # larger games are searched, not solved
NUM_EPISODES = 20  # random ones, which show the finite core of a language game
SEARCH = 100  # simulations of a search bot
LONG, TOO_LONG = 100, 180  # turns; a simulation then takes 10 ms and 100 ms


def constants_of(game: AnyGame) -> list[str]:
    """The strings of the policies that always play one action.

    In a language game, the actions are the texts of all legal actions of some random episodes.
    """
    if game.num_actions is None:
        texts = _core_texts(game)
        return [f"constant:{text}" for text in texts if len(texts) <= MAX_CONSTANTS]
    if game.num_actions > MAX_CONSTANTS:
        return []
    return [f"constant:{action}" for action in range(game.num_actions)]


def _core_texts(game: AnyGame) -> list[str]:
    """Texts of legal actions, in the order in which random episodes show them."""
    texts: dict[str, None] = {}
    for seed in range(NUM_EPISODES):
        for state, player in random_states(game, random.Random(seed)):
            if player >= 0:
                texts |= dict.fromkeys(legal_texts(game, state))
        if len(texts) > MAX_CONSTANTS:
            break
    return list(texts)


def solver_of(game: AnyGame) -> str | None:
    """The string of the policy that serves as the solver baseline; None without one.

    | Game | Solver |
    |---|---|
    | with a bot of its own (`Game.heuristic`) | this bot, such as `hanabi_convention` |
    | another cooperative game | None |
    | a language game with a finite core of at most `MAX_SOLVED_STATES` states | `core_cfr` |
    | another language game | None |
    | at most `MAX_SOLVED_STATES` states | `minimax` or `cfr`, exact |
    | at most `LONG` turns | search with `SEARCH` simulations |
    | at most `TOO_LONG` turns | search with a tenth of these |
    | longer, such as chess | None |
    """
    if heuristic := getattr(game, "heuristic", None):  # the fact is optional
        return str(heuristic)
    if game.kind == "cooperative":
        return None
    if game.num_actions is None:
        return (
            "core_cfr" if hasattr(game, "core_state") and _is_enumerable(game) else None
        )
    if is_small(game):
        alternating = game.information == "perfect" and not game.simultaneous
        is_duel = game.num_players == 2 and game.zero_sum
        if alternating and (is_duel or game.num_players == 1):
            return "minimax"
        return "cfr"
    if game.max_turns > TOO_LONG:
        return None
    is_open = game.information == "perfect" and not game.simultaneous
    size = SEARCH // 10 if game.max_turns > LONG else SEARCH
    return f"{'mcts' if is_open else 'ismcts'}:{size}"


def prepared(policy: Policy | str, game: AnyGame) -> Policy:
    """The policy, ready to play: a bot, or a scorer, has been tried on the first turn.

    Raises:
        ValueError: unknown string, or the bot refuses the game, such as one too large.
    """
    player = as_policy(policy)
    inner = without_noise(player)
    scorer: Any = getattr(inner, "options", {}).get("scorer")
    if callable(scorer) or isinstance(inner, BotPolicy):
        states = random_states(game, random.Random(0))
        state, seat = next((pair for pair in states if pair[1] >= 0), (None, -1))
        if seat < 0:
            raise ValueError(f"{game!r} ended before the first turn")
        r = TurnRequest.at(game, state, PromptOptions())
        if isinstance(inner, BotPolicy):
            inner.act([r])
        else:
            view = TurnView(game, r.seat, r.messages, r.legal, [], r.seed, r)
            scorer(view, [r.wrap(r.legal[0])])
    return player


def is_small(game: AnyGame) -> bool:
    """Whether the game has at most `MAX_SOLVED_STATES` states; language games have more."""
    return game.num_actions is not None and _is_enumerable(game)


def _is_enumerable(game: AnyGame) -> bool:
    try:
        information_states(game, max_states=MAX_SOLVED_STATES)
    except ValueError:
        return False
    return True
