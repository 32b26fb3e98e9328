"""`labels:SEED(game)`: actions have letters, which are drawn anew for each text."""

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import (
    CHANCE,
    AnyState,
    BaseGame,
    IllegalAction,
    check_int,
)
from arena_envs.transforms import DrawsFirst, stage_of

NUM_DRAWS = 24  # a multiple of 2, 3, 4, 6, 8 and 12 actions, which then have each letter equally often
NOT_DRAWN = -1


class LabelState(NamedTuple):
    """The number that chance drew, and the state of the inner game."""

    draw: int
    inner: Any


@dataclass(frozen=True)
class Labels(DrawsFirst):
    """`labels:SEED(game)`: a seat replies with a letter; its text says which action each letter means.

    Chance first draws a number. Letters follow from it, from the seed and from the text that the seat
    reads, and actions are listed in the order of their letters. So neither a letter nor a position
    carries a hint. A preference for one costs the return of the inner game minus that of this game.
    A reply may also be the name of an action.

    Args:
        game: the inner game, without talk, in which one seat moves at a time.
        seed: of the letters.
    """

    seed: int

    def __post_init__(self) -> None:
        check_int("seed", self.seed, 0, 2**63)
        holds = self.game.num_actions is not None and not self.game.simultaneous
        self._want(holds, "a game without talk in which one seat moves at a time")

    def stage(self, state: LabelState) -> tuple[Any, Any]:
        return stage_of(self.game, state.inner)

    def initial_state(self) -> LabelState:
        return LabelState(NOT_DRAWN, self.game.initial_state())

    def current_player(self, state: LabelState) -> int:
        if state.draw == NOT_DRAWN:
            return CHANCE
        return int(self.game.current_player(state.inner))

    def chance_outcomes(self, state: LabelState) -> Sequence[tuple[Any, float]]:
        if state.draw == NOT_DRAWN:
            return [(draw, 1 / NUM_DRAWS) for draw in range(NUM_DRAWS)]
        outcomes: Sequence[tuple[Any, float]] = self.game.chance_outcomes(state.inner)
        return outcomes

    def legal_actions(self, state: LabelState) -> Sequence[Any]:
        return sorted(self._actions_by_letter(state).values())

    def shown_actions(self, state: LabelState) -> Sequence[Any]:
        """In the order of their letters."""
        return list(self._actions_by_letter(state).values())

    def apply(self, state: LabelState, action: Any) -> LabelState:
        if state.draw == NOT_DRAWN:
            return LabelState(action, state.inner)
        return LabelState(state.draw, self.game.apply(state.inner, action))

    def _actions_by_letter(self, state: LabelState) -> dict[str, Any]:
        seat = self.current_player(state)
        if seat < 0:
            return {}
        text = self.game.observe(state.inner, seat)
        actions = list(self.game.legal_actions(state.inner))
        turn, shift = divmod(state.draw, len(actions))
        random.Random(f"{self.seed} {turn} {text}").shuffle(actions)
        actions = actions[shift:] + actions[:shift]
        return {_letter(place): action for place, action in enumerate(actions)}

    def action_text(self, state: LabelState, action: Any) -> str:
        for letter, labelled in self._actions_by_letter(state).items():
            if labelled == action:
                return letter
        return str(self.game.action_text(state.inner, action))

    def parse(self, state: LabelState, text: str) -> Any:
        try:
            return BaseGame.parse(self, state, text)
        except IllegalAction:
            return self.game.parse(state.inner, text)

    def rules(self, seat: int) -> str:
        return (
            f"{self.game.rules(seat)} You are told a letter for each action: reply with the letter. "
            "Letters are drawn anew each time."
        )

    def observe(self, state: LabelState, seat: int) -> str:
        text: str = self.game.observe(state.inner, seat)
        if self.current_player(state) != seat:
            return text
        letters = (
            f"{letter} is {self.game.action_text(state.inner, action)}"
            for letter, action in self._actions_by_letter(state).items()
        )
        return f"{text}\nLetters: {', '.join(letters)}."

    def information_state(self, state: LabelState, seat: int) -> Hashable:
        return state.draw, self.game.information_state(state.inner, seat)

    def features(self, state: LabelState, seat: int) -> NDArray[np.float32]:
        """Which number was drawn, and the features of the inner game."""
        one_hot = np.arange(NUM_DRAWS) == state.draw
        inner = self.game.features(state.inner, seat)
        return np.concatenate([one_hot.astype(np.float32), inner])

    def resample(self, state: LabelState, seat: int, rng: random.Random) -> LabelState:
        return LabelState(state.draw, self.game.resample(state.inner, seat, rng))

    def _inner(self, state: AnyState) -> Any:
        return state.inner if isinstance(state, LabelState) else state


def _letter(place: int) -> str:
    """A to Z, then AA to ZZ.

    >>> _letter(0), _letter(25), _letter(26)
    ('A', 'Z', 'AA')
    """
    first, last = divmod(place, 26)
    return (ascii_uppercase[first - 1] if first else "") + ascii_uppercase[last]
