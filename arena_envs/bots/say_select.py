"""Scripted players of Say-Select."""

import random
from dataclasses import dataclass

from arena_envs.bots.styles import check_style
from arena_envs.game import AnyGame
from arena_envs.games._say_select_state import State
from arena_envs.games._talk import Utterance
from arena_envs.games.say_select import QUIT, SPEAKER, SaySelect

STYLES = ("honest", "greedy", "silent", "optimal")


@dataclass(frozen=True)
class SaySelector:
    """Plays Say-Select in one of four styles, as the speaker and as the selector.

    | Style     | Speaker                                   | Selector                           |
    |-----------|-------------------------------------------|------------------------------------|
    | `honest`  | names a paying ball; when none is left, says so in words | the named ball, until words say quit |
    | `greedy`  | names a paying ball, then any other ball  | the named ball, and never quits    |
    | `silent`  | always names ball 1                       | the next ball while it pays on average by the prior, else quits |
    | `optimal` | names a paying ball; when none is left, one that was selected | the named ball; quits if it was selected before |

    `honest` speakers also name the ball that was selected last when none is left, so `optimal`
    selectors understand them. Only `honest` speakers use words.

    Args:
        style: one of these words.

    Raises:
        ValueError: another style; when it plays, another game.
    """

    style: str

    def __post_init__(self) -> None:
        check_style(self.style, STYLES)

    def __call__(self, game: AnyGame, state: State, rng: random.Random) -> Utterance:
        if not isinstance(game, SaySelect):
            raise ValueError(f"want SaySelect, got {game!r}")
        if game.current_player(state) == SPEAKER:
            return self._speak(game, state)
        return self._select(game, state)

    def _speak(self, game: SaySelect, state: State) -> Utterance:
        left = state.left
        if self.style == "silent":
            return Utterance("name", (1,))
        if left:
            return self._name(game, left[0], f"Ball {left[0]} pays.")
        if self.style == "greedy":
            fresh = [b for b in range(1, game.num_balls + 1) if b not in state.selected]
            return Utterance("name", (fresh[0] if fresh else 1,))
        return self._name(game, state.selected[-1], "No ball pays any more. Quit.")

    def _name(self, game: SaySelect, ball: int, words: str) -> Utterance:
        speaks = self.style == "honest" and game.messages
        fits = speaks and len(words) <= game.max_message
        return Utterance("name", (ball,), words if fits else "")

    def _select(self, game: SaySelect, state: State) -> Utterance:
        named = state.said[-1]
        selects = Utterance("select", named.values)
        if self.style == "honest":
            return QUIT if "quit" in named.message.lower() else selects
        if self.style == "optimal":
            return QUIT if named.values[0] in state.selected else selects
        return _by_the_prior(game, state) if self.style == "silent" else selects


def _by_the_prior(game: SaySelect, state: State) -> Utterance:
    """The lowest ball that was not selected, if it is more likely to pay 1 than -1."""
    draws, taken = game.possible(state), state.selected
    ball = next((b for b in range(1, game.num_balls + 1) if b not in taken), None)
    pays = sum(p for paying, p in draws if ball in paying)
    return Utterance("select", (ball,)) if 2 * pays > sum(p for _, p in draws) else QUIT
