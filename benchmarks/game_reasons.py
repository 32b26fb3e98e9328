"""Reasons of five games, made of what solvers and bots would play, for a model to imitate.

A reply is "Because the symbol is A so 3 is best therefore answer 2": what the seat sees, the action that
a solver or bot would take, and an action. This is that best one with probability `1 - RANDOM_SHARE`,
and else a random legal one. Kuhn poker has the reasons and actions of `reasons`.
"""

import random
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import reasons
from arena_envs import make
from arena_envs.bots import make_bot
from arena_envs.bots.simple import winning_actions
from arena_trainers.data import Example, FixedRandomBot
from arena_wrappers import BotPolicy, EpisodePlan, PromptWrapper, play_plans
from arena_wrappers.policies import Reply, TurnRequest
from night_settings import PROMPT, TRAINED

Fact = Callable[[Any, Any, str], str]  # of game, state and the text of a best action
# Of each game as many as of Kuhn poker; fewer of Hanabi, whose prompts are four times as long.
NUM_EXAMPLES = {
    "tic_tac_toe": 384,
    "rounds": 384,
    "guess_number": 384,
    "mini_hanabi": 128,
}


def lines_fact(game: Any, state: Any, best: str) -> str:
    """Tic-tac-toe: where a line can be completed; a best action may be another one that wins."""
    if winning := winning_actions(game, state):
        return f"{game.action_text(state, winning[0])} wins"
    legal = game.legal_actions(state)
    after = (game.apply(state, action) for action in legal)
    threats = {
        a
        for s in after
        if game.current_player(s) >= 0
        for a in winning_actions(game, s)
    }
    if not threats:
        return "nobody wins now"
    return f"the other wins at {game.action_text(state, min(threats))}"


def symbol_fact(game: Any, state: Any, best: str) -> str:
    """Rounds: the symbol."""
    return f"the symbol is {chr(65 + state.symbol)}"


def range_fact(game: Any, state: Any, best: str) -> str:
    """Guess the number: the numbers that fit all answers."""
    fitting = game.candidates(state)
    return f"it is from {fitting[0] + 1} to {fitting[-1] + 1}"


def cards_fact(game: Any, state: Any, best: str) -> str:
    """Hanabi: a reason by the kind of the convention's action.

    It can be false: a discard says that no card fits, and an unknown one may.
    """
    verb = best.partition(" ")[0]
    fits = {"play": "my card fits", "reveal": "your card fits"}
    return fits.get(verb, "no card fits")


# Who names the best action, and what the seat sees.
TEACHERS: dict[str, tuple[str, Fact]] = {
    "tic_tac_toe": ("minimax", lines_fact),
    "rounds": ("minimax", symbol_fact),
    "guess_number": ("information_gain", range_fact),
    "mini_hanabi": ("hanabi_convention", cards_fact),
}


class ReasonRecorder:
    """Plays at random, and notes replies with reasons.

    Args:
        game: key of `TEACHERS`.
    """

    name = "random"

    def __init__(self, game: str) -> None:
        teacher, self.fact = TEACHERS[game]
        self.teacher = make_bot(teacher)
        self.player = BotPolicy(FixedRandomBot(0))
        self.examples: list[Example] = []

    def act(self, requests: Sequence[TurnRequest]) -> Sequence[Reply]:
        for request in requests:
            self.note(request)
        return self.player.act(requests)

    def note(self, request: TurnRequest) -> None:
        """Notes a reply in a state."""
        game: Any = request.game
        state, rng = request.state, random.Random(request.seed)
        best = self.teacher(game, state, rng)
        text = game.action_text(state, best)
        reason = f"{self.fact(game, state, text)} so {short_action(text)} is best"
        is_random = rng.random() < reasons.RANDOM_SHARE
        action = rng.choice(game.legal_actions(state)) if is_random else best
        reply = reasons.reply_of(reason, game.action_text(state, action))
        self.examples.append(Example(request.messages, reply))


def short_action(action: str) -> str:
    """An action without words that all of its kind share.

    >>> short_action("reveal rank 1 to player_0")
    'rank 1'
    """
    for word in ("answer ", "guess ", "reveal "):
        action = action.removeprefix(word)
    return re.sub(r" to player_\d", "", action)


def examples_of(game: str) -> list[Example]:
    """Replies for the first states that random play meets."""
    env = partial(PromptWrapper, make(game, **TRAINED[game]), **vars(PROMPT))
    recorder = ReasonRecorder(game)
    num_players = len(env().possible_agents)
    seed, num_examples = 0, NUM_EXAMPLES[game]
    while len(recorder.examples) < num_examples:
        play_plans([EpisodePlan(env, [recorder] * num_players, seed)], on_error="raise")
        seed += 1
    return recorder.examples[:num_examples]


def examples() -> list[Example]:
    """Those of all five games."""
    others = [example for game in TEACHERS for example in examples_of(game)]
    return reasons.examples() + others
