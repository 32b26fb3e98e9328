"""Games in which one player finds out a secret by questions and guesses.

Chance draws one of `num_secrets` secrets, each equally likely. At each turn the player takes an
action that it has not taken before and reads the answer, which depends on the secret alone. The
action `guess_of(secret)` is the guess of a secret: it ends the episode if it is right. Else the
episode ends after M = `max_turns` actions.

In uniform play the right guess is action t with probability 1 / `num_actions` for each t,
which gives a mean return of (M + 1) / (2 * `num_actions`).
"""

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    BaseGame,
    IllegalAction,
    Vector,
    fold,
    np,
    over_text,
)
from arena_envs.scenes.shapes import Card, Cards, Cell, Shapes, Table, cells


class State(NamedTuple):
    """The secret (-1 before it is drawn), and all actions in order."""

    secret: int = -1
    asked: tuple[int, ...] = ()


class SecretGame(BaseGame[State, int]):
    """A game of one player who finds out a secret.

    A subclass declares `num_secrets`, `num_actions` and `max_turns`, and has `answer`,
    `guess_of`, `action_text`, `observe` and `rules`.
    """

    first_state = State()
    num_players = 1
    kind = "competitive"
    max_chance_nodes = 1
    min_return = 0.0
    max_return = 1.0
    shares_measured = ("success", "information")
    heuristic = "information_gain"

    @property
    def num_secrets(self) -> int:
        """Number of secrets, at least 2."""
        raise NotImplementedError

    @property
    def num_actions(self) -> int:
        raise NotImplementedError

    @property
    def max_turns(self) -> int:
        raise NotImplementedError

    def answer(self, secret: int, action: int) -> int:
        """The number of the answer to an action; no other secret gives that of a right guess."""
        raise NotImplementedError

    def guess_of(self, secret: int) -> int:
        """The action that guesses a secret."""
        raise NotImplementedError

    def action_text(self, state: State, action: int) -> str:
        raise NotImplementedError

    def current_player(self, state: State) -> int:
        secret, past_actions = state
        if secret < 0:
            return CHANCE
        is_over = len(past_actions) == self.max_turns or self.is_found(state)
        return TERMINAL if is_over else 0

    def chance_outcomes(self, state: State) -> Sequence[tuple[int, float]]:
        if state.secret >= 0:
            return ()
        return [(secret, 1 / self.num_secrets) for secret in range(self.num_secrets)]

    def legal_actions(self, state: State) -> Sequence[int]:
        if self.current_player(state) != 0:
            return ()
        if not state.asked:
            return range(self.num_actions)
        past_actions = frozenset(state.asked)
        return [
            action for action in range(self.num_actions) if action not in past_actions
        ]

    def apply(self, state: State, action: int) -> State:
        if state.secret < 0:
            return State(action)
        return State(state.secret, (*state.asked, action))

    def returns(self, state: State) -> Sequence[float]:
        if not self.is_found(state):
            return (0.0,)
        return ((self.max_turns + 1 - len(state.asked)) / self.max_turns,)

    def measures(self, state: State) -> dict[str, float]:
        """`success`, and `information`: log(N / number of possible secrets) / log N."""
        is_found = self.is_found(state)
        num_left = 1 if is_found else len(self.candidates(state))
        num_secrets = len(self.candidates(state._replace(asked=())))
        information = 1 - math.log(num_left) / math.log(num_secrets)
        return {"success": float(is_found), "information": information}

    def information_state(self, state: State, seat: int) -> Any:
        """Whether the secret is drawn, actions, answers, the secret once the game is over."""
        secret_at_end = state.secret if self.current_player(state) == TERMINAL else -1
        return (state.secret >= 0, state.asked, self.answers(state), secret_at_end)

    def features(self, state: State, seat: int) -> Vector:
        """For each action, share of the turns at which it was taken, and its answer; else 0."""
        values = np.zeros((self.num_actions, 2), np.float32)
        pairs = zip(state.asked, self.answers(state), strict=True)
        for turn, (action, answer) in enumerate(pairs, 1):
            values[action] = turn / self.max_turns, answer
        return values.ravel()

    def parse(self, state: State, text: str) -> int:
        """Reads canonical texts, and the other spellings of the game."""
        action = self.action_named(fold(text).rstrip(" .?!"))
        legal = self.legal_actions(state)
        if action is None or action not in legal:
            why = "it names no action" if action is None else "it is not legal now"
            such = f" such as {self.action_text(state, legal[0])!r}" if legal else ""
            raise IllegalAction(f"want a legal action{such}, got {text[:80]!r}: {why}")
        return action

    def action_named(self, text: str) -> int | None:
        """The action that a folded text names; None if it names none."""
        return self.actions_by_text.get(text)

    @cached_property
    def actions_by_text(self) -> dict[str, int]:
        """The actions by their canonical texts."""
        start = State()
        return {self.action_text(start, a): a for a in range(self.num_actions)}

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws the secret anew, uniformly, from those that give the same answers."""
        if self.current_player(state) != 0:
            return state
        return state._replace(secret=rng.choice(self.candidates(state)))

    def is_found(self, state: State) -> bool:
        """Whether the last action is the right guess."""
        secret, past_actions = state
        return bool(past_actions) and past_actions[-1] == self.guess_of(secret)

    def answers(self, state: State) -> tuple[int, ...]:
        """The answers so far."""
        return tuple([self.answer(state.secret, action) for action in state.asked])

    def candidates(self, state: State) -> list[int]:
        """The secrets that give the same answers, ascending."""
        left = list(range(self.num_secrets))
        for action in state.asked:
            true_answer = self.answer(state.secret, action)
            left = [
                secret for secret in left if self.answer(secret, action) == true_answer
            ]
        return left

    def uniform_value(self) -> Fraction:
        """Mean return of uniform play."""
        return Fraction(self.max_turns + 1, 2 * self.num_actions)

    def scores_text(self, when: str) -> str:
        """The sentence of the rules that says how the right guess at turn t is paid."""
        most = self.max_turns
        score_text = f"your score is ({most + 1} - t) / {most}"
        return f"If {when}, {score_text}; if you never guess it, 0."

    def end_text(self, state: State) -> str:
        """The score of an episode that is over."""
        return over_text(self.returns(state)[0])


MAX_ROWS = 12  # latest turns that are shown


def secret_cards(
    game: AnyGame, state: State, viewer: int | None, title: str, text: str
) -> Cards:
    """The secret as a card, closed while a seat looks on and the game goes on."""
    is_open = viewer is None or game.current_player(state) == TERMINAL
    cards = [Card(text if is_open else None)] if state.secret >= 0 else []
    return Cards(title, cards)


def secret_shapes(
    game: AnyGame,
    state: State,
    viewer: int | None,
    secret: tuple[str, str],
    header: tuple[str, str],
    rows: Sequence[tuple[str, Cell]],
) -> Shapes:
    """The secret as a card, and a table of actions and answers."""
    lines = [cells(str(turn), *row) for turn, row in enumerate(rows, 1)]
    used = f"{len(lines)} of {game.max_turns} turns used"
    if len(lines) > MAX_ROWS:
        used += f"; the latest {MAX_ROWS} turns"
    table = Table(used, ("turn", *header), lines[-MAX_ROWS:])
    return [secret_cards(game, state, viewer, *secret), table]
