"""Codenames: two teams find their words on a board by clues of one word and a number.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("codenames-v1", num_words=25, num_agents=8)`; see `Codenames` |
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
once if it guesses the assassin.

**Clues.** A clue is a word of 2 to 20 letters a to z, in any case, which the referee of clues
(`arena_envs/games/kits/clues.py`) compares with the words that are on the board: it is an English word
of a shipped vocabulary, no form or part of a word on the board, not made of one, not spelled like
one, and no number. So with "horseshoe" on the board, "horse" and "shoes" are refused, and with "cat" "cats";
"catalog" is not, and neither is "ring" with "book". A refused clue ends the turn: nobody but the
spymaster reads it, and as in the board game a word of the other team leaves the board, which here chance draws.

Chance draws one of `num_boards` boards, each with W random words of the list `words`, of which
`split` names a half, and then the key, each equally likely. Each seat reads the words in an order of
its own. The board game is `num_words=25, num_agents=8`; smallest: `num_words=4, num_agents=1`. `words`
takes a list of your own, in which none is held out.

The legal actions are a finite core: clues of common kinds, such as "animal 1", and all guesses;
prompts show three of the clues. Players may give any clue. In `arena bench tournament` each policy plays
one seat, with the other policy as its partner and its opponents.

Bots: `spy:honest` gives a clue that people link with its words, by the list `taboo`, and its
operative guesses the words that the clue is linked with. With a random or a constant spymaster against it,
it wins 97 to 100 % of 400 games, as red and as blue, by words found. Against itself red wins 27 %.

Cheapest trick known: a code book, in which each clue stands for a set of words. A red team that
has agreed on one wins in its first turn (bot `spy:optimal`), and no referee sees it; with a partner
that has not agreed, such a clue is as good as none. First letters or numbers of words, which won 78 to 88 %
of the games of v0, are refused, and lose 98 % of 400 games to
`spy:honest`.

Not as in the board game: no clue has the number 0 or no limit, and none is of two words or a name
that is not in the vocabulary; the referee is a program; nobody runs out of time.

A reply that cannot be read becomes the action `default_action`, with a penalty
(`arena_envs.game.penalized`): a spymaster gives the first clue of the core, an operative stops or, where
it may not, guesses the first word in alphabetical order.

Measures of an episode, over both teams: `hits`, the share of guesses of the team's own words (1
without a guess); `found_per_clue`, own words found per clue; `refused`, the share of clues that were
refused; `assassin`, 1 if the assassin ended the game.

History: v1 has the referee, under which a refused clue ends the turn and no longer the game, words
held out, orders of words by seat, clues with a meaning instead of "one 1" as examples, and 12 words
instead of 9. A bad reply of one player no longer loses the game for its team.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from arena_envs import talk
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    IllegalAction,
    Vector,
    filled,
    np,
    param,
)
from arena_envs.games.kits.clues import fault_of, vocabulary
from arena_envs.games.kits.words import (
    NAMES,
    check_used,
    linked_words,
    of_list,
    read_words,
    word_lists,
)
from arena_envs.scenes.shapes import Cell, Shapes, Table, cut, talk_of
from arena_envs.talk import Utterance

ASSASSIN, NEUTRAL, UNKNOWN = "x", "n", "?"
ROLES = ("0", "1", ASSASSIN, NEUTRAL, UNKNOWN)
CLUES = tuple(word_lists()["codenames"].split())  # of the finite core
HIDDEN = Utterance("clue")  # a refused clue, as others than its spymaster know it


class State(NamedTuple):
    """A game in progress.

    Attributes:
        board: number of the board; -1 before it is drawn.
        key: role of each word, one of `ROLES`; unknown until it is drawn.
        said: all utterances in order.
        seats: who made each.
        guessed: places of the words that have left the board, in order.
        faults: by clue in order, what is wrong with it; empty for clues that were given.
        team: whose turn it is.
        left: guesses that are left to the operative; 0: the spymaster is to move; -1: a clue was
            refused, and chance draws a word of the other team.
        winner: the team that has won, or -1.
    """

    board: int = -1
    key: str = ""
    said: tuple[Utterance, ...] = ()
    seats: tuple[int, ...] = ()
    guessed: tuple[int, ...] = ()
    faults: tuple[str, ...] = ()
    team: int = 0
    left: int = 0
    winner: int = -1

    def hidden(self, role: str) -> int:
        """Number of words of a role that have not been guessed."""
        return self.key.count(role) - sum(self.key[p] == role for p in self.guessed)

    def places(self, role: str) -> list[int]:
        """Places of the words of a role that have not been guessed."""
        return [
            place
            for place, each in enumerate(self.key)
            if each == role and place not in self.guessed
        ]

    @property
    def faults_by_turn(self) -> dict[int, str]:
        """What is wrong with each clue, by its turn."""
        clues = [
            turn for turn, utterance in enumerate(self.said) if utterance.move == "clue"
        ]
        return dict(zip(clues, self.faults, strict=True))


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


TEAMS = ("red", "blue")
SEATS = tuple(
    f"the {role} of team {team}"
    for team in TEAMS
    for role in ("spymaster", "operative")
)
ROLE_NAMES = {"0": "red", "1": "blue", ASSASSIN: "the assassin", NEUTRAL: "neutral"}


Action = Utterance | int  # chance draws a board, then places of words

GUESS = talk.Move("guess", (talk.Word(2),), message="no")
STOP = talk.Move("stop", message="no")
STOPPED = Utterance("stop")


@lru_cache(8192)
def core_beside(words: tuple[str, ...]) -> list[Utterance]:
    """The clues of the finite core that may be given beside these words on the board."""
    allowed = (c for c in CLUES if not fault_of(c, words, allowed=CLUES, numbers=0))
    return [Utterance("clue", (clue, 1)) for clue in allowed]


@dataclass(frozen=True)
class Codenames(talk.TalkGame[State, Action]):
    """Codenames for two teams of two.

    Args:
        num_words: words on the board, 4 to 25.
        num_agents: words of team blue, at least 1; team red has one more. Both and the assassin
            must be on the board.
        num_boards: boards that can be drawn, 1 to 1000.
        words: "nouns", or another shipped list; or the path of a file with one word per line; or
            the words. Words of 2 to 20 letters.
        split: "train" or "test", the half of a shipped list that boards are drawn from.

    Raises:
        ValueError: a parameter is out of range, or the list has an empty or malformed word or a
            word twice.
    """

    seat_roles = ("red spymaster", "red operative", "blue spymaster", "blue operative")
    num_words: int = param(12, 4, 25)
    num_agents: int = param(3, 1, lambda game: (game.num_words - 2) // 2)
    num_boards: int = param(200, 1, 1000)
    words: str | Path | Sequence[str] = "nouns"
    split: str = "train"

    first_state = State()
    num_players = 4
    max_message = 0
    kind = "competitive"
    zero_sum = True
    min_return = -1.0
    max_return = 1.0
    teams = (0, 0, 1, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        words = read_words("words", self.words, min_words=4)
        if self.words not in NAMES:  # so that records hold the words themselves
            object.__setattr__(self, "words", words)
        check_used("num_words", self.num_words, 4, "words", len(self._words))
        for place, word in enumerate(words, 1):
            if not (word.isalpha() and 2 <= len(word) <= 20):
                raise ValueError(
                    f"want words of 2 to 20 letters in words, got {word!r} as word {place}: "
                    "correct or delete it"
                )

    @cached_property
    def _words(self) -> tuple[str, ...]:
        words = read_words("words", self.words)
        return of_list("words", words, self.split, is_shipped=self.words in NAMES)

    @property
    def instances(self) -> Sequence[tuple[str, ...]]:
        return self.boards if self.words in NAMES else ()

    @property
    def max_turns(self) -> int:
        return 3 * self.num_words

    @property
    def max_chance_nodes(self) -> int:
        return 1 + len(self._drawn) + 2 * self.num_agents + 1

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
        return tuple(
            tuple(sorted(random.Random(number).sample(self._words, self.num_words)))
            for number in range(self.num_boards)
        )

    def order(self, state: State, seat: int) -> list[int]:
        """The places of the words in the order in which a seat reads them."""
        places = list(range(self.num_words))
        random.Random(f"{state.board} {seat}").shuffle(places)
        return places

    def fault(self, state: State, clue: str) -> str:
        """What is wrong with a clue; empty if it may be given."""
        return fault_of(clue, self.free_words(state), allowed=CLUES, numbers=0)

    def free_words(self, state: State) -> list[str]:
        """The words that are still on the board."""
        words = enumerate(self.boards[state.board])
        return [word for place, word in words if place not in state.guessed]

    def current_player(self, state: State) -> int:
        if state.board < 0 or UNKNOWN in state.key or state.left < 0:
            return CHANCE
        if state.winner >= 0:
            return TERMINAL
        return 2 * state.team + (state.left > 0)

    def chance_outcomes(self, state: State) -> list[tuple[Action, float]]:
        if state.board < 0:
            return [(n, 1 / self.num_boards) for n in range(self.num_boards)]
        role = str(1 - state.team) if state.left < 0 else UNKNOWN
        left = state.places(role)
        return [(place, 1 / len(left)) for place in left]

    def legal_actions(self, state: State) -> Sequence[Utterance]:
        player = self.current_player(state)
        if player < 0:
            return ()
        words = self.free_words(state)
        if player % 2 == 0:
            return core_beside(tuple(words))
        guesses = [Utterance("guess", (word,)) for word in words]
        return guesses + [STOPPED] * self._may_stop(state)

    def shown_actions(self, state: State) -> Sequence[Utterance]:
        """Three clues; all guesses."""
        is_clue = self.current_player(state) % 2 == 0
        return self.legal_actions(state)[: 3 if is_clue else None]

    def default_action(self, state: State) -> Utterance:
        if self.current_player(state) % 2 and self._may_stop(state):
            return STOPPED
        return self.legal_actions(state)[0]

    def _may_stop(self, state: State) -> bool:
        return state.said[-1].move == "guess"

    def apply(self, state: State, action: Action) -> State:
        if isinstance(action, int):
            if state.left < 0:  # the other team gets a word for a clue that was refused
                other_team, guessed = 1 - state.team, (*state.guessed, action)
                state = state._replace(guessed=guessed, team=other_team, left=0)
                is_open = state.hidden(str(other_team))
                return state if is_open else state._replace(winner=other_team)
            if state.board < 0:
                return state._replace(board=action, key=UNKNOWN * self.num_words)
            number = self.num_words - state.key.count(UNKNOWN)
            key = state.key[:action] + self._drawn[number] + state.key[action + 1 :]
            is_full = number + 1 == len(self._drawn)
            return state._replace(key=key.replace(UNKNOWN, NEUTRAL) if is_full else key)
        seat = 2 * state.team + (action.move != "clue")
        state = state._replace(said=(*state.said, action), seats=(*state.seats, seat))
        if action.move == "clue":
            fault = self.fault(state, action.values[0])
            left = -1 if fault else action.values[1] + 1
            return state._replace(faults=(*state.faults, fault), left=left)
        if action.move == "stop":
            return state._replace(team=1 - state.team, left=0)
        return after_guess(state, self.boards[state.board].index(action.values[0]))

    def returns(self, state: State) -> tuple[float, ...]:
        if state.winner < 0:
            return (0.0,) * 4
        return tuple(1.0 if team == state.winner else -1.0 for team in self.teams)

    def measures(self, state: State) -> dict[str, float]:
        """Hits, found per clue, refused and assassin, as the page defines them."""
        teams = [
            str(seat // 2)
            for seat, utterance in zip(state.seats, state.said, strict=True)
            if utterance.move == "guess"
        ]
        words = self.boards[state.board] if state.board >= 0 else ()
        guesses = [
            utterance.values[0] for utterance in state.said if utterance.move == "guess"
        ]
        roles = [state.key[words.index(word)] for word in guesses]
        hits = sum(role == team for role, team in zip(roles, teams, strict=True))
        num_clues = max(1, len(state.faults))
        return {
            "hits": hits / len(roles) if roles else 1.0,
            "found_per_clue": hits / num_clues,
            "refused": sum(map(bool, state.faults)) / num_clues,
            "assassin": float(ASSASSIN in roles),
        }

    @property
    def measure_bounds(self) -> dict[str, tuple[float, float]]:
        most = float(self.num_agents + 1)
        shares = dict.fromkeys(("hits", "refused", "assassin"), (0.0, 1.0))
        return {**shares, "found_per_clue": (0.0, most)}

    @property
    def known_value(self) -> str | None:
        if comb(self.num_words, self.num_agents + 1) > MAX_BOOK:
            return None
        return "a red team that shares a code wins: 1, 1, -1, -1"

    def known_key(self, state: State, seat: int) -> str:
        """The roles of all words, unknown where the seat does not know one."""
        if seat % 2 == 0 or state.winner >= 0:
            return state.key
        role_at = {place: state.key[place] for place in state.guessed}
        return "".join(role_at.get(p, UNKNOWN) for p in range(len(state.key)))

    def observe(self, state: State, seat: int) -> str:
        player, now = self.current_player(state), "Chance draws."
        if player == TERMINAL:
            now = f"The game is over: team {TEAMS[state.winner]} wins."
        elif player >= 0:
            mover = (
                "You are" if player == seat else f"player_{player}, {SEATS[player]}, is"
            )
            may = " or stop" if player % 2 and self._may_stop(state) else ""
            left = f" {state.left} guess{'' if state.left == 1 else 'es'} left."
            task = f"guess a word{may}.{left}" if player % 2 else "give a clue."
            now = f"{mover} to move: {task}"
        lines = [f"You are player_{seat}, {SEATS[seat]}. {now}"]
        if UNKNOWN not in state.key and state.board >= 0:
            lines += [*self._board_lines(state, seat), *self._history(state, seat)]
        return "\n".join(lines)

    def _board_lines(self, state: State, seat: int) -> Iterator[str]:
        """The words by their roles, as far as these are known, and the words that are left."""
        words, key = self.boards[state.board], self.known_key(state, seat)
        free = [p for p in self.order(state, seat) if p not in state.guessed]
        if UNKNOWN in key:
            yield f"Words on the board: {', '.join(words[place] for place in free)}."
        else:
            for role, name in ROLE_NAMES.items():
                names = ", ".join(words[p] for p in free if key[p] == role)
                label = name if role == ASSASSIN else f"{name} words"
                yield f"On the board, {label}: {names or 'none'}."
        if state.guessed:
            off = (f"{words[p]} ({ROLE_NAMES[key[p]]})" for p in state.guessed)
            yield f"Off the board: {', '.join(off)}."
        yield f"Words to find: red {state.hidden('0')}, blue {state.hidden('1')}."

    def _history(self, state: State, seat: int) -> Iterator[str]:
        """All clues and guesses; of a refused clue, the spymaster reads what is wrong."""
        faults = state.faults_by_turn

        def brief(turn: int) -> str:
            utterance, speaker = state.said[turn], state.seats[turn]
            speaker_name = talk.named(speaker, seat)
            if fault := faults.get(turn):
                if speaker != seat:
                    return f"a clue of {speaker_name} was refused"
                return f"your clue {utterance.values[0]} was refused, because {fault}"
            if utterance.move == "clue":
                return f"{speaker_name} gave the clue {utterance.values[0]} {utterance.values[1]}"
            return (
                f"{speaker_name} guessed {utterance.values[0]}"
                if utterance.values
                else f"{speaker_name} stopped"
            )

        def full_line(turn: int) -> str:
            return f"Turn {turn + 1}: {brief(turn)}"

        return talk.transcript(
            state.said, seat, full_line, latest=6, brief=brief, num_listed=None
        )

    def information_state(self, state: State, seat: int) -> Any:
        key, faults = self.known_key(state, seat), iter(state.faults)
        utterances = []
        for speaker, utterance in zip(state.seats, state.said, strict=True):
            is_refused = utterance.move == "clue" and next(faults) != ""
            utterances.append(HIDDEN if is_refused and speaker != seat else utterance)
        return (seat, state.board, key, tuple(utterances), state.seats, state.winner)

    def features(self, state: State, seat: int) -> Vector:
        """The knowledge of a seat as numbers.

        One-hot seat (4); whether the seat is to move; guesses left; one-hot winner (2); number
        of the board, from 1; one-hot role of each word (5 each: red, blue, assassin,
        neutral, unknown) and whether it has left the board; then for each turn, one-hot place
        of the word guessed, one-hot clue in the finite core, whether it is a clue, and whether
        the turn is taken.
        """
        num, words = self.num_words, self.boards[max(0, state.board)]
        key = self.known_key(state, seat) or UNKNOWN * num
        head = np.zeros(9, np.float32)
        roles = np.zeros((num, len(ROLES) + 1), np.float32)
        turns = np.zeros((3 * num, num + len(CLUES) + 2), np.float32)
        head[seat] = 1
        head[4:6] = self.current_player(state) == seat, state.left
        if state.winner >= 0:
            head[6 + state.winner] = 1
        head[8] = 1 + state.board
        roles[range(num), [ROLES.index(role) for role in key]] = 1
        roles[list(state.guessed), len(ROLES)] = 1
        faults = iter(state.faults)
        for turn, utterance in enumerate(state.said):
            turns[turn, -2:] = utterance.move == "clue", 1
            if utterance.move == "guess":
                turns[turn, words.index(utterance.values[0])] = 1
            elif (
                utterance.move == "clue"
                and not next(faults)
                and utterance.values[0] in CLUES
            ):
                turns[turn, num + CLUES.index(utterance.values[0])] = 1
        return np.concatenate([head, roles.ravel(), turns.ravel()])

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
        utterance: Utterance = super().parse(state, text)
        words = self.free_words(state)
        if utterance.move == "guess" and utterance.values[0] not in words:
            raise IllegalAction(
                f"want one of the words {', '.join(words)}, got {utterance.values[0]!r}"
            )
        return utterance

    def rules(self, seat: int) -> str:
        neutral = self.num_words - 2 * self.num_agents - 2
        facts = {"seat": seat, "role": SEATS[seat], "guesses": seat % 2}
        return filled("codenames", self, neutral=neutral, **facts)

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """For an operative, other roles of the words that are still on the board."""
        if seat % 2 == 0 or state.winner >= 0 or UNKNOWN in state.key:
            return state
        key = list(state.key)
        free = [p for p in range(len(key)) if p not in state.guessed]
        roles = [key[place] for place in free]
        rng.shuffle(roles)
        for place, role in zip(free, roles, strict=True):
            key[place] = role
        return state._replace(key="".join(key))

    hidden_answers: ClassVar[Sequence[str]] = ("red", "blue", "assassin", "neutral")

    def hidden(self, state: State, seat: int) -> tuple[str, str] | None:
        """Whose the first covered word is, for an operative; None for a spymaster, who knows the key."""
        if (
            seat % 2 == 0
            or state.winner >= 0
            or UNKNOWN in state.key
            or state.board < 0
        ):
            return None
        places = [p for p in range(len(state.key)) if p not in state.guessed]
        word = self.boards[state.board][places[0]]
        roles = dict(
            zip(("0", "1", ASSASSIN, NEUTRAL), self.hidden_answers, strict=True)
        )
        question = f'Whose is the word "{word}": of team red, of team blue, the assassin, or neutral?'
        return question, roles[state.key[places[0]]]


MAX_BOOK = 1000  # sets of words in a code book


def _meant(game: Codenames, state: State, clue: str) -> list[int]:
    """Places of the words on the board that people link with a clue."""
    words, links = game.boards[state.board], linked_words()
    return [
        place
        for place, word in enumerate(words)
        if place not in state.guessed and clue in links.get(word, ())
    ]


def _linked(game: Codenames, state: State, cost: float) -> Utterance:
    """The clue with the most own words, less a cost for each other word that it means."""
    own_places, links = state.places(str(state.team)), linked_words()
    words = game.boards[state.board]
    best, most = game.legal_actions(state)[0], -1.0
    for clue in sorted(
        {link for place in own_places for link in links.get(words[place], ())}
    ):
        meant = _meant(game, state, clue)
        num = len({*meant} & {*own_places})
        value = num - cost * (len(meant) - num)
        if value > most and not game.fault(state, clue):
            best = Utterance("clue", (clue, min(num, game.num_agents + 1)))
            most = value
    return best


@lru_cache(256)
def _book(words: tuple[str, ...], num: int) -> dict[str, tuple[str, ...]]:
    """Clues that may be given beside these words, each with a set of so many of them."""
    clues = (clue for clue in vocabulary() if len(clue) > 1)
    allowed = (clue for clue in clues if not fault_of(clue, words, numbers=0))
    return dict(zip(allowed, combinations(words, num), strict=False))


def _read_book(game: Codenames, state: State, clue: str, num: int) -> list[int]:
    """The words that the clue had meant when it was given."""
    turn = max(
        turn for turn, utterance in enumerate(state.said) if utterance.move == "clue"
    )
    since = sum(utterance.move == "guess" for utterance in state.said[turn:])
    before = state._replace(guessed=state.guessed[: len(state.guessed) - since])
    free = game.free_words(before)
    if comb(len(free), num) > MAX_BOOK:
        return _meant(game, state, clue)
    words = game.boards[state.board]
    return [words.index(word) for word in _book(tuple(free), num).get(clue, ())]


class Spy(talk.Scripted):
    """Plays codenames in one of four styles, as spymaster and as operative.

    | Style     | Spymaster: clue                               | Operative: guesses            |
    |-----------|-----------------------------------------------|-------------------------------|
    | `honest`  | that people link with its words alone         | the words linked with the clue |
    | `greedy`  | with more of its words, others among them     | the same, then any, until it must stop |
    | `silent`  | always the first of the core                  | any word, and stops           |
    | `optimal` | stands for all its words in a code book       | these words, and stops        |

    Links are those of the list `taboo`. A code book has each set of words in turn for the words of the
    vocabulary; a board with too many sets is played as by `honest`. An operative that cannot read
    a clue guesses any word.
    """

    game, styles = Codenames, ("greedy", "honest", "optimal", "silent")

    def reply(self, game: Codenames, state: State, rng: random.Random) -> Utterance:
        if game.current_player(state) % 2 == 0:
            return self._hint(game, state)
        clue, num = [utterance for utterance in state.said if utterance.move == "clue"][
            -1
        ].values
        free = [p for p in range(game.num_words) if p not in state.guessed]
        places = _read_book(game, state, clue, num) if self.style == "optimal" else []
        if self.style in ("greedy", "honest"):
            places = _meant(game, state, clue)
        meant = [place for place in places if place in free]
        may_stop = state.said[-1].move == "guess" and self.style != "greedy"
        if may_stop and (not meant or state.left == 1):
            return STOPPED
        place = meant[0] if meant else rng.choice(free)
        return Utterance("guess", (game.boards[state.board][place],))

    def _hint(self, game: Codenames, state: State) -> Utterance:
        own_places, free = state.places(str(state.team)), game.free_words(state)
        if self.style == "silent":
            return game.legal_actions(state)[0]
        if self.style != "optimal" or comb(len(free), len(own_places)) > MAX_BOOK:
            return _linked(game, state, cost=0.5 if self.style == "greedy" else 9.0)
        meant = tuple(game.boards[state.board][place] for place in own_places)
        book = _book(tuple(free), len(own_places))
        clue = next(clue for clue, words in book.items() if words == meant)
        return Utterance("clue", (clue, len(own_places)))


COLUMNS = 4  # of a board of codenames

TONES = {"0": "red", "1": "blue", "x": "dark", "n": "yellow", "?": ""}


def scene(game: Codenames, state: State, viewer: int | None) -> Shapes:
    """The board, with the roles that the viewer knows, and the talk."""
    shapes: list[Table] = []
    if game.current_player(state) != CHANCE:
        key = state.key if viewer is None else game.known_key(state, viewer)
        words = [
            Cell(_labelled(word, role), TONES[role], mark=place in state.guessed)
            for place, (word, role) in enumerate(
                zip(game.boards[state.board], key, strict=True)
            )
        ]
        words += [Cell()] * (-len(words) % COLUMNS)
        left = ", ".join(f"{TEAMS[t]} {state.hidden(str(t))}" for t in range(2))
        title = f"words to find: {left}; words off the board have a frame"
        shapes.append(Table(title, ("",) * COLUMNS, cut(words, COLUMNS)))
    faults = state.faults_by_turn

    def full_line(turn: int, utterance: Utterance) -> str:
        if faults.get(turn) and viewer not in (None, state.seats[turn]):
            return "gives a clue that is refused"
        if faults.get(turn):
            return f"gives the clue {utterance.values[0]}, which is refused"
        if utterance.move == "clue":
            return f"gives the clue {utterance.values[0]} {utterance.values[1]}"
        if not utterance.values:
            return "stops"
        place = game.boards[state.board].index(utterance.values[0])
        return f"guesses {utterance.values[0]} ({ROLE_NAMES[state.key[place]]})"

    return [*shapes, *talk_of(state.said, viewer, full_line, state.seats.__getitem__)]


def _labelled(word: str, role: str) -> str:
    name = ROLE_NAMES.get(role, "").removeprefix("the ")
    return f"{word} ({name})" if name else word
