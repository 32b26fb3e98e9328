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
in `taboo-v1`), or one starts or ends with the other, in any form, and both have four letters or
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs import talk
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    IllegalAction,
    Information,
    Kind,
    check_int,
)
from arena_envs.games.kits.words import NAMES, check_used, forms, read_words
from arena_envs.scenes.shapes import Cell, Scene, Table, talk_of, turn_title
from arena_envs.talk import Utterance

ASSASSIN, NEUTRAL, UNKNOWN = "x", "n", "?"
ROLES = ("0", "1", ASSASSIN, NEUTRAL, UNKNOWN)
NUMBERS = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
    *("eighteen", "nineteen", "twenty", "twentyone", "twentytwo", "twentythree"),
    *("twentyfour", "twentyfive"),
)
MIN_PART = 4  # letters of a part of a word that counts


class State(NamedTuple):
    """A game in progress.

    Attributes:
        board: number of the board; -1 before it is drawn.
        key: role of each word, one of `ROLES`; unknown until it is drawn.
        said: all utterances in order.
        seats: who made each.
        guessed: places of the words guessed so far, in order.
        team: whose turn it is.
        left: guesses that are left to the operative; 0: the spymaster is to move.
        winner: the team that has won, or -1.
    """

    board: int = -1
    key: str = ""
    said: tuple[Utterance, ...] = ()
    seats: tuple[int, ...] = ()
    guessed: tuple[int, ...] = ()
    team: int = 0
    left: int = 0
    winner: int = -1

    def hidden(self, role: str) -> int:
        """Number of words of a role that have not been guessed."""
        return self.key.count(role) - sum(self.key[p] == role for p in self.guessed)


def after_chance(state: State, drawn: int, num_words: int, roles: str) -> State:
    """The state after chance has drawn a board, or the place of the next one of `roles`."""
    if state.board < 0:
        return state._replace(board=drawn, key=UNKNOWN * num_words)
    number = num_words - state.key.count(UNKNOWN)
    key = state.key[:drawn] + roles[number] + state.key[drawn + 1 :]
    if number + 1 == len(roles):
        key = key.replace(UNKNOWN, NEUTRAL)
    return state._replace(key=key)


def spoken(state: State, said: Utterance) -> State:
    """The state with one more utterance, before it has an effect."""
    seat = 2 * state.team + (said.move != "clue")
    return state._replace(said=(*state.said, said), seats=(*state.seats, seat))


def after_guess(state: State, place: int) -> State:
    """The state after the operative has guessed the word of a place."""
    role, team = state.key[place], state.team
    state = state._replace(guessed=(*state.guessed, place))
    if role == ASSASSIN:
        return state._replace(winner=1 - team, left=0)
    if role in "01" and not state.hidden(role):
        return state._replace(winner=int(role), left=0)
    if role == str(team) and state.left > 1:
        return state._replace(left=state.left - 1)
    return state._replace(team=1 - team, left=0)


@lru_cache(65_536)
def clashes(clue: str, word: str) -> bool:
    """Whether a clue is too close to a word on the board.

    One is a form of the other, or one starts or ends with the other, in any form, if both have
    four letters or more.
    """
    if clue in forms(word) or word in forms(clue):
        return True
    short, long = sorted((clue, word), key=len)
    if len(short) < MIN_PART:
        return False
    parts = tuple(form for form in forms(short) if len(form) >= MIN_PART)
    return any(form.startswith(parts) or form.endswith(parts) for form in forms(long))


def clash_of(clue: str, words: Sequence[str]) -> str | None:
    """The first word that a clue is too close to; None if it is allowed."""
    return next((word for word in words if clashes(clue, word)), None)


def features(
    state: State, seat: int, key: str, is_mover: bool, max_turns: int
) -> NDArray[np.float32]:
    """The knowledge of a seat as numbers, which `Codenames.features` lists.

    Args:
        state: of the game.
        seat: who knows it.
        key: the roles that the seat knows.
        is_mover: whether the seat is to move.
        max_turns: of the game.
    """
    num = len(key)
    head = np.zeros(9, np.float32)
    roles = np.zeros((num, len(ROLES)), np.float32)
    turns = np.zeros((max_turns, num + 2), np.float32)
    head[seat] = 1
    head[4:6] = is_mover, state.left
    if state.winner >= 0:
        head[6 + state.winner] = 1
    head[8] = 1 + state.board
    roles[range(num), [ROLES.index(role) for role in key]] = 1
    guessed = iter(state.guessed)
    for turn, said in enumerate(state.said):
        turns[turn, num:] = said.move == "clue", 1
        if said.move == "guess":
            turns[turn, next(guessed)] = 1
        elif said.values and said.values[0] in NUMBERS[:num]:
            turns[turn, NUMBERS.index(said.values[0])] = 1
    return np.concatenate([head, roles.ravel(), turns.ravel()])


TEAMS = ("red", "blue")
SEATS = tuple(
    f"the {role} of team {team}"
    for team in TEAMS
    for role in ("spymaster", "operative")
)
ROLE_NAMES = {"0": "red", "1": "blue", ASSASSIN: "the assassin", NEUTRAL: "neutral"}


def stage_text(state: State, player: int, seat: int) -> str:
    """The reader of the text, and the seat to move.

    Args:
        state: of the game.
        player: what `current_player` returns.
        seat: who reads the text.
    """
    start = f"You are player_{seat}, {SEATS[seat]}."
    if player == CHANCE:
        return f"{start} The board is being drawn."
    if player == TERMINAL:
        return f"{start} The game is over: team {TEAMS[state.winner]} wins."
    who = "You are" if player == seat else f"player_{player}, {SEATS[player]}, is"
    if player % 2 == 0:
        return f"{start} {who} to move: give a clue."
    left = f"{state.left} guess{'' if state.left == 1 else 'es'}"
    may = " or stop" if state.said[-1].move == "guess" else ""
    return f"{start} {who} to move: guess a word{may}. {left} left."


def board_lines(
    words: Sequence[str], key: str, guessed: Sequence[int], hidden: Sequence[int]
) -> Iterator[str]:
    """The words by their roles, as far as these are known, and the words that are left.

    Args:
        words: on the board.
        key: role of each word, as far as the reader knows it.
        guessed: places of the words guessed so far.
        hidden: how many words each team has yet to find.
    """
    free = [place for place in range(len(words)) if place not in guessed]
    if "?" in key:
        yield f"Words on the board: {', '.join(words[place] for place in free)}."
    else:
        for role, name in ROLE_NAMES.items():
            found = ", ".join(words[p] for p in free if key[p] == role)
            label = name if role == ASSASSIN else f"{name} words"
            yield f"On the board, {label}: {found or 'none'}."
    if guessed:
        told = ", ".join(
            f"{words[place]} ({ROLE_NAMES[key[place]]})" for place in guessed
        )
        yield f"Guessed: {told}."
    yield f"Words to find: red {hidden[0]}, blue {hidden[1]}."


def history(state: State, seat: int) -> Iterator[str]:
    """All clues and guesses."""

    def brief(turn: int) -> str:
        said, speaker = state.said[turn], state.seats[turn]
        who = "you" if speaker == seat else f"player_{speaker}"
        if said.move == "clue":
            return f"{who} gave the clue {said.values[0]} {said.values[1]}"
        return f"{who} guessed {said.values[0]}" if said.values else f"{who} stopped"

    def told(turn: int) -> str:
        return f"Turn {turn + 1}: {brief(turn)}"

    yield from talk.transcript(
        state.said, seat, told, latest=6, brief=brief, num_listed=None
    )


Action = Utterance | int  # chance draws a board, then places of words

GUESS = talk.Move("guess", (talk.Word(2),), message="no")
STOP = talk.Move("stop", message="no")
STOPPED = Utterance("stop")


@dataclass(frozen=True)
class Codenames(talk.TalkGame[State, Action]):
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
    max_message = 0
    kind: ClassVar[Kind] = "competitive"
    information: ClassVar[Information] = "imperfect"
    zero_sum = True
    min_return = -1.0
    max_return = 1.0
    teams = (0, 0, 1, 1)
    scene = "arena_envs.games.codenames:scene"

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
                if not clash_of(number, words)
            ]
        guesses = [Utterance("guess", (word,)) for word in words]
        return guesses + [STOPPED] * self._may_stop(state)

    def _may_stop(self, state: State) -> bool:
        return state.said[-1].move == "guess"

    def apply(self, state: State, action: Action) -> State:
        if isinstance(action, int):
            return after_chance(state, action, self.num_words, self._drawn)
        state = spoken(state, action)
        if action.move == "clue":
            return state._replace(left=action.values[1] + 1)
        if action.move == "stop":
            return state._replace(team=1 - state.team, left=0)
        place = self.boards[state.board].index(action.values[0])
        return after_guess(state, place)

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
        """Hits, found per clue and assassin, as the page defines them."""
        teams = [
            str(seat // 2)
            for seat, said in zip(state.seats, state.said, strict=True)
            if said.move == "guess"
        ]
        roles = [state.key[place] for place in state.guessed]
        hits = sum(role == team for role, team in zip(roles, teams, strict=True))
        num_clues = sum(said.move == "clue" for said in state.said)
        return {
            "hits": hits / len(roles) if roles else 1.0,
            "found_per_clue": hits / max(1, num_clues),
            "assassin": float(ASSASSIN in roles),
        }

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
        lines = [stage_text(state, player, seat)]
        if player != CHANCE:
            words, key = self.boards[state.board], self.known_key(state, seat)
            hidden = [state.hidden(team) for team in "01"]
            lines += board_lines(words, key, state.guessed, hidden)
            lines += history(state, seat)
        return "\n".join(lines)

    def information_state(self, state: State, seat: int) -> Any:
        key = self.known_key(state, seat)
        return (seat, state.board, key, state.said, state.seats, state.winner)

    def features(self, state: State, seat: int) -> NDArray[np.float32]:
        """The knowledge of a seat as numbers.

        One-hot seat (4); whether the seat is to move; guesses left; one-hot winner (2); number
        of the board, from 1; one-hot role of each word (5 each: red, blue, assassin,
        neutral, unknown); then for each turn, one-hot place of the word guessed or
        of the clue in the finite core, whether it is a clue, and whether the turn is taken.
        """
        key = self.known_key(state, seat) or UNKNOWN * self.num_words
        is_mover = self.current_player(state) == seat
        return features(state, seat, key, is_mover, self.max_turns)

    def action_text(self, state: State, action: Action) -> str:
        if isinstance(action, int):
            words = self.boards[state.board] if state.board >= 0 else ()
            return words[action] if words else f"board {action}"
        return talk.written(action, (self.clue, GUESS, STOP))

    def moves_at(self, state: State) -> tuple[talk.Move, ...]:
        if self.current_player(state) % 2 == 0:
            return (self.clue,)
        return (GUESS, STOP) if self._may_stop(state) else (GUESS,)

    def parse(self, state: State, text: str) -> Utterance:
        said: Utterance = super().parse(state, text)
        words = self.free_words(state)
        if said.move == "clue":
            if word := clash_of(said.values[0], words):
                raise IllegalAction(
                    f"want a clue that is not too close to the word {word!r} on the board, got "
                    f"{said.values[0]!r}"
                )
            return said
        if said.move == "guess" and said.values[0] not in words:
            raise IllegalAction(
                f"want one of the words {', '.join(words)}, got {said.values[0]!r}"
            )
        return said

    def rules(self, seat: int) -> str:
        neutral = self.num_words - 2 * self.num_agents - 2
        how = (
            'You give a clue with "clue", a word and a number: "clue animal 2".',
            'You guess with "guess" and a word on the board: "guess dog". "stop" ends the turn.',
        )
        return (
            "This is codenames, a game of two teams. Team red is player_0, its spymaster, and "
            "player_1, its operative; team blue is player_2, its spymaster, and player_3, its "
            f"operative. {self.num_words} words are on the board: {self.num_agents + 1} are red, "
            f"{self.num_agents} {'is' if self.num_agents == 1 else 'are'} blue, {neutral} are neutral, and one is "
            "the assassin. Only the spymasters know which. Red begins, and the teams take turns. The "
            "spymaster says a clue: one word and a "
            f"number from 1 to {self.num_agents + 1}, which says how many words the clue is about. "
            "Then the operative guesses words on the board, at least one and at most one more than the "
            "number. Each word that is guessed leaves the board, and all learn what it was. If it is "
            "not of the team's own color, the turn ends. After a guess the operative may stop. A team "
            "wins when all its words are guessed, by either team, and it loses at once if it guesses "
            "the assassin. A clue must not be a word on the board in any form, such as its plural, and "
            "neither may start or end with the other if both have four letters or more. "
            f"If your team wins you score 1, else -1. You are player_{seat}, {SEATS[seat]}. "
            f"{how[seat % 2]} Your action has no message."
        )

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


LETTERS = "abcdefghijklmnopqrstuvwxy"


def _own(game: Codenames, state: State) -> list[int]:
    """Places of the words that the team has yet to find."""
    return [
        place
        for place, role in enumerate(state.key)
        if role == str(state.team) and place not in state.guessed
    ]


def _first_legal(game: Codenames, state: State) -> Utterance:
    return game.legal_actions(state)[0]


def _number(game: Codenames, state: State) -> Utterance:
    clues = game.legal_actions(state)
    wanted = [Utterance("clue", (NUMBERS[place], 1)) for place in _own(game, state)]
    return next((clue for clue in wanted if clue in clues), clues[0])


def _letters(game: Codenames, state: State) -> Utterance:
    """The letters of the words in some order; a second time where they are too few."""
    own = _own(game, state)
    name = "".join(LETTERS[place] for place in own)
    free = game.free_words(state)
    for clue in (name, name[::-1], name + name, name + name[::-1]):
        if 2 <= len(clue) <= 20 and not clash_of(clue, free):
            return Utterance("clue", (clue, len(own)))
    return _number(game, state)


def _read_nothing(clue: str) -> list[int]:
    return []


def _read_number(clue: str) -> list[int]:
    return [NUMBERS.index(clue)] if clue in NUMBERS else []


def _read_letters(clue: str) -> list[int]:
    return [LETTERS.index(letter) for letter in sorted({*clue} & {*LETTERS})]


Spymaster = Callable[[Codenames, State], Utterance]
Reading = Callable[[str], list[int]]

STYLES: dict[str, tuple[Spymaster, Reading]] = {
    "greedy": (_number, _read_number),
    "honest": (_number, _read_number),
    "optimal": (_letters, _read_letters),
    "silent": (_first_legal, _read_nothing),
}


class Spy(talk.Scripted):
    """Plays codenames in one of four styles, as spymaster and as operative.

    Words are numbered in alphabetical order, those that have left the board too.

    | Style     | Spymaster: clue                          | Operative: guesses                     |
    |-----------|------------------------------------------|----------------------------------------|
    | `honest`  | the number of its first word, as "two 1" | that word, and stops                   |
    | `greedy`  | the number of its first word, as "two 1" | that word, then any, until it must stop |
    | `silent`  | always the first legal clue              | any word, and stops                    |
    | `optimal` | letters for all its words, as "adf 3"    | these words, and stops                 |

    An operative that cannot read a clue guesses any word.
    """

    game, styles = Codenames, STYLES

    def reply(self, game: Codenames, state: State, rng: random.Random) -> Utterance:
        hints, reads = STYLES[self.style]
        if game.current_player(state) % 2 == 0:
            return hints(game, state)
        clue = [said for said in state.said if said.move == "clue"][-1].values[0]
        free = [p for p in range(game.num_words) if p not in state.guessed]
        meant = [place for place in reads(clue) if place in free]
        has_guessed = state.said[-1].move == "guess"
        if has_guessed and not meant and self.style != "greedy":
            return STOPPED
        place = meant[0] if meant else rng.choice(free)
        return Utterance("guess", (game.boards[state.board][place],))


COLUMNS = 4  # of a board of codenames

TONES = {"0": "red", "1": "blue", "x": "dark", "n": "yellow", "?": ""}


def scene(game: Codenames, state: State, viewer: int | None) -> Scene:
    """The board, with the roles that the viewer knows, and the talk."""
    shapes: list[Any] = []
    if game.current_player(state) != CHANCE:
        key = state.key if viewer is None else game.known_key(state, viewer)
        cells = [
            Cell(_labelled(word, role), TONES[role], mark=place in state.guessed)
            for place, (word, role) in enumerate(
                zip(game.boards[state.board], key, strict=True)
            )
        ]
        cells += [Cell()] * (-len(cells) % COLUMNS)
        rows = [cells[n : n + COLUMNS] for n in range(0, len(cells), COLUMNS)]
        left = ", ".join(f"{TEAMS[t]} {state.hidden(str(t))}" for t in range(2))
        title = f"words to find: {left}; words that are guessed have a frame"
        shapes.append(Table(title, ("",) * COLUMNS, rows))

    def told(turn: int, said: Utterance) -> str:
        if said.move == "clue":
            return f"gives the clue {said.values[0]} {said.values[1]}"
        if not said.values:
            return "stops"
        place = game.boards[state.board].index(said.values[0])
        return f"guesses {said.values[0]} ({ROLE_NAMES[state.key[place]]})"

    shapes += talk_of(state.said, viewer, lambda turn: state.seats[turn], told)
    return Scene(turn_title(game, state, viewer), shapes)


def _labelled(word: str, role: str) -> str:
    name = ROLE_NAMES.get(role, "").removeprefix("the ")
    return f"{word} ({name})" if name else word
