"""Codenames: two teams find their words on a board by clues of one word and a number.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("codenames-v0", num_words=25, num_agents=8)`; see `Codenames` |
| Agents      | team red: `player_0`, spymaster, and `player_1`, operative; team blue: |
|             | `player_2`, spymaster, and `player_3`, operative                       |
| Kind        | competitive, imperfect information, zero-sum between teams of two      |
| Actions     | texts: "clue WORD NUMBER"; "guess WORD" or "stop"                      |
| Rewards     | at the end 1 to both of the team that wins, -1 to the others           |
| Length      | at most 3W turns, W being `num_words`                                  |
| Known value | a red team that shares a code wins in its first turn: 1, 1, -1, -1     |
| Source      | V. Chvatil, *Codenames* (2015)                                         |

W words are on the board. Red has A + 1 of them, A being `num_agents`; blue has A; one is the
assassin; the others are neutral. Only the spymasters know which. Red begins, and the teams take turns.
The spymaster gives a clue, one word and a number from 1 to A + 1. The operative then guesses words on
the board: at least one, and at most one more than the number. A word that is guessed leaves
the board, and all learn its role. If it is not of the team's own color, the turn ends. After a
guess the operative may stop. A team wins when all its words are guessed, by whichever team, and loses at
once if it guesses the assassin. A team also loses if one of its players forfeits.

**Clues.** A clue is a word of 2 to 20 letters a to z, in any case. It is an invalid reply if it is
too close to a word that is still on the board: one is a form of the other (plurals, -ed, -ing, as
in `taboo-v0`), or one starts or ends with the other, in any form, and both have four letters or
more. So with "horseshoe" on the board, "horse" and "shoes" are refused; with "cat", "cats" is
refused and "catalog" is not. The rules do not ask whether a clue is an English word or about
meaning. Unlike in the board game, no clue has the number 0 or no limit.

Chance draws one of `num_boards` boards, each with W random words of the list `words`, and then the
key, each equally likely. All seats read the words in alphabetical order. The board game is
`num_words=25, num_agents=8`; smallest: `num_words=4, num_agents=1`. `words` takes a list of your own.

The legal actions are a finite core: the clues "one 1", "two 1" and so on, and all guesses. Scripted
spymasters use them as numbers of the words in alphabetical order. A code may say more: one clue
can name all words of a team by letters, such as "adf 3" for words 1, 4 and 6. So a red team that shares a
code wins in its first turn (bot `spy:optimal`). In `arena tournament` each policy plays one seat, with
the other policy as its partner and its opponents.

Measures of an episode, over both teams: `hits`, the share of guesses of the team's own words (1
without a guess); `found_per_clue`, own words found per clue; `assassin`, 1 if the assassin ended the game.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    BaseGame,
    IllegalAction,
    Information,
    Kind,
    check_int,
)
from arena_envs.games import _codenames_state as states
from arena_envs.games import _codenames_texts as texts
from arena_envs.games import _talk as talk
from arena_envs.games._codenames_state import ASSASSIN, NUMBERS, UNKNOWN, State
from arena_envs.games._talk import Utterance
from arena_envs.games._word_lists import NAMES, check_used, read_words
from arena_envs.games._word_match import forms

Action = Utterance | int  # chance draws a board, then places of words

GUESS = talk.Move("guess", (talk.Word(2),), message="no")
STOP = talk.Move("stop", message="no")
STOPPED = Utterance("stop")


@dataclass(frozen=True)
class Codenames(BaseGame[State, Action]):
    """Codenames for two teams of two.

    Args:
        num_words: words on the board, 4 to 25.
        num_agents: words of team blue, at least 1; team red has one more. Both and the assassin
            must be on the board.
        num_boards: boards that can be drawn, 1 to 1000.
        words: "nouns", or another shipped list; or the path of a file with one word per line; or
            the words. Words of 2 to 20 letters, and no numbers such as "one".

    Raises:
        ValueError: a parameter is out of range, or the list has an empty or malformed word or a
            word twice.
    """

    num_words: int = 9
    num_agents: int = 2
    num_boards: int = 100
    words: str | Path | Sequence[str] = "nouns"

    num_players = 4
    num_actions = None
    kind: ClassVar[Kind] = "competitive"
    information: ClassVar[Information] = "imperfect"
    zero_sum = True
    min_return = -1.0
    max_return = 1.0
    teams = (0, 0, 1, 1)

    def __post_init__(self) -> None:
        check_int("num_words", self.num_words, 4, 25)
        check_int("num_agents", self.num_agents, 1, (self.num_words - 2) // 2)
        check_int("num_boards", self.num_boards, 1, 1000)
        words = read_words("words", self.words, min_words=4)
        check_used("num_words", self.num_words, 4, "words", len(words))
        if self.words not in NAMES:  # so that records hold the words themselves
            object.__setattr__(self, "words", words)
        numbers = {form for number in NUMBERS for form in forms(number)}
        for place, word in enumerate(words, 1):
            if not (word.isalpha() and 2 <= len(word) <= 20) or word in numbers:
                raise ValueError(
                    f"want words of 2 to 20 letters that are no numbers in words, got {word!r} "
                    f"as word {place}: correct or delete it"
                )

    @property
    def max_turns(self) -> int:
        return 3 * self.num_words

    @property
    def max_chance_nodes(self) -> int:
        return 1 + len(self._drawn)

    @property
    def _drawn(self) -> str:
        """The roles that chance gives to places, in order."""
        return "0" * (self.num_agents + 1) + "1" * self.num_agents + ASSASSIN

    @property
    def clue(self) -> talk.Move:
        """The move of a spymaster."""
        fields = (talk.Word(2), talk.Integer(1, self.num_agents + 1))
        return talk.Move("clue", fields, message="no")

    @cached_property
    def boards(self) -> tuple[tuple[str, ...], ...]:
        """The words of each board, in alphabetical order."""
        words = read_words("words", self.words)
        return tuple(
            tuple(sorted(random.Random(number).sample(words, self.num_words)))
            for number in range(self.num_boards)
        )

    def free_words(self, state: State) -> list[str]:
        """The words that are still on the board."""
        words = self.boards[state.board]
        return [words[p] for p in range(len(words)) if p not in state.guessed]

    def initial_state(self) -> State:
        return State()

    def current_player(self, state: State) -> int:
        if state.board < 0 or UNKNOWN in state.key:
            return CHANCE
        if state.winner >= 0:
            return TERMINAL
        return 2 * state.team + (state.left > 0)

    def chance_outcomes(self, state: State) -> list[tuple[Action, float]]:
        if state.board < 0:
            return [(n, 1 / self.num_boards) for n in range(self.num_boards)]
        left = [place for place, role in enumerate(state.key) if role == UNKNOWN]
        return [(place, 1 / len(left)) for place in left]

    def legal_actions(self, state: State) -> Sequence[Utterance]:
        player = self.current_player(state)
        if player < 0:
            return ()
        words = self.free_words(state)
        if player % 2 == 0:
            return [
                Utterance("clue", (number, 1))
                for number in NUMBERS[: self.num_words]
                if not states.clash_of(number, words)
            ]
        guesses = [Utterance("guess", (word,)) for word in words]
        return guesses + [STOPPED] * self._may_stop(state)

    def _may_stop(self, state: State) -> bool:
        return state.said[-1].move == "guess"

    def apply(self, state: State, action: Action) -> State:
        if isinstance(action, int):
            return states.after_chance(state, action, self.num_words, self._drawn)
        state = states.spoken(state, action)
        if action.move == "clue":
            return state._replace(left=action.values[1] + 1)
        if action.move == "stop":
            return state._replace(team=1 - state.team, left=0)
        place = self.boards[state.board].index(action.values[0])
        return states.after_guess(state, place)

    def returns(self, state: State) -> tuple[float, float, float, float]:
        if state.winner < 0:
            return (0.0, 0.0, 0.0, 0.0)
        return self._won_by(state.winner)

    def _won_by(self, team: int) -> tuple[float, float, float, float]:
        return (1.0, 1.0, -1.0, -1.0) if team == 0 else (-1.0, -1.0, 1.0, 1.0)

    def forfeit(self, state: State, seat: int) -> Sequence[float]:
        """The team of the offender loses."""
        return self._won_by(1 - seat // 2)

    def measures(self, state: State) -> dict[str, float]:
        return states.measured(state)

    @property
    def measure_bounds(self) -> dict[str, tuple[float, float]]:
        most = float(self.num_agents + 1)
        shares = dict.fromkeys(("hits", "assassin"), (0.0, 1.0))
        return {**shares, "found_per_clue": (0.0, most)}

    @property
    def known_value(self) -> str:
        return "a red team that shares a code wins: 1, 1, -1, -1"

    def known_key(self, state: State, seat: int) -> str:
        """The roles of all words, unknown where the seat does not know one."""
        if seat % 2 == 0 or state.winner >= 0:
            return state.key
        known = {place: state.key[place] for place in state.guessed}
        return "".join(known.get(p, UNKNOWN) for p in range(len(state.key)))

    def observe(self, state: State, seat: int) -> str:
        player = self.current_player(state)
        lines = [texts.stage_text(state, player, seat)]
        if player != CHANCE:
            words, key = self.boards[state.board], self.known_key(state, seat)
            hidden = [state.hidden(team) for team in "01"]
            lines += texts.board_lines(words, key, state.guessed, hidden)
            lines += texts.history(state, seat)
        return "\n".join(lines)

    def information_state(self, state: State, seat: int) -> Any:
        key = self.known_key(state, seat)
        return (seat, state.board, key, state.said, state.seats, state.winner)

    def features(self, state: State, seat: int) -> NDArray[np.float32]:
        """What a seat knows as numbers.

        One-hot seat (4); whether the seat is to move; guesses left; one-hot winner (2); number
        of the board, from 1; one-hot role of each word (5 each: red, blue, assassin,
        neutral, unknown); then for each turn, one-hot place of the word guessed or
        of the clue in the finite core, whether it is a clue, and whether the turn is taken.
        """
        key = self.known_key(state, seat) or UNKNOWN * self.num_words
        is_mover = self.current_player(state) == seat
        return states.features(state, seat, key, is_mover, self.max_turns)

    def action_text(self, state: State, action: Action) -> str:
        if isinstance(action, int):
            words = self.boards[state.board] if state.board >= 0 else ()
            return words[action] if words else f"board {action}"
        return talk.written(action, (self.clue, GUESS, STOP))

    def parse(self, state: State, text: str) -> Utterance:
        player = self.current_player(state)
        if player < 0:
            raise IllegalAction("nobody is to move")
        words = self.free_words(state)
        if player % 2 == 0:
            said = talk.read(text, (self.clue,), 0)
            if word := states.clash_of(said.values[0], words):
                raise IllegalAction(
                    f"want a clue that is not too close to the word {word!r} on the board, got "
                    f"{said.values[0]!r}"
                )
            return said
        moves = (GUESS, STOP) if self._may_stop(state) else (GUESS,)
        said = talk.read(text, moves, 0)
        if said.move == "guess" and said.values[0] not in words:
            raise IllegalAction(
                f"want one of the words {', '.join(words)}, got {said.values[0]!r}"
            )
        return said

    def rules(self, seat: int) -> str:
        return texts.rules_text(seat, self.num_words, self.num_agents)

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """For an operative, other roles of the words that are still on the board."""
        if seat % 2 == 0 or state.winner >= 0 or UNKNOWN in state.key:
            return state
        free = [p for p in range(len(state.key)) if p not in state.guessed]
        roles = [state.key[place] for place in free]
        rng.shuffle(roles)
        key = list(state.key)
        for place, role in zip(free, roles, strict=True):
            key[place] = role
        return state._replace(key="".join(key))
