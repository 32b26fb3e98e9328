"""Taboo: give clues to a word without saying it or its forbidden words, while another guesses.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("taboo-v1", adversarial=False)`; see `Taboo`          |
| Agents      | `player_0` describes or attacks, `player_1` guesses or defends         |
| Kind        | cooperative or, if adversarial, competitive; imperfect information     |
| Actions     | texts: "say: " and a message; "guess WORD"                             |
| Rewards     | both (R + 1 - t) / R for guess t of R; adversarial: 1, -1 or 0, at the end |
| Length      | at most 2R turns, R being `num_rounds`                                 |
| Known value | best 1; silent play 0.015; random play 0.014900; adversarial: 0 in the finite core |
| Source      | Hasbro's *Taboo*; P. Cheng et al., *Self-playing Adversarial Language  |
|             | Game Enhances LLM Reasoning* (SPAG, 2024)                              |

Chance draws one of N = `num_cards` cards, each equally likely. A card has a word and forbidden
words, which only `player_0` reads. In each of R rounds `player_0` gives a clue, and `player_1`
guesses a word and may add a message. The referee refuses a clue that breaks the rules: then the
round is over without a guess, and `player_1` reads no word of the clue. Guess t is right, where
a refused clue counts as a guess: both score (R + 1 - t) / R.

With `adversarial=True` the players are opponents, as in SPAG's Adversarial Taboo. The attacker
knows the word and wants the defender to say it. Each round the attacker says something, then the
defender says something or guesses the word. The attacker loses if it says the word. The defender
loses if a message of it says the word; it wins with the right guess and loses with a wrong one.
After R rounds without these, both score 0. There are no forbidden words, unless `num_forbidden` is
given, and no referee but these rules. SPAG discounts rewards by turns, and reads a guess from "I know the word! It is ..."; here a
guess is a move of its own, and rewards are not discounted.

**The referee.** `player_1` reads a clue in lower case and without punctuation. A clue consists of
English words of a shipped vocabulary. It is refused if a word of it is the word or a forbidden
word, a form or a part of one, is made of one, or is spelled like one; and if its letters spell
the word, by initials or otherwise. `arena_envs/games/kits/clues.py` has the rules in full.

**What says a word.** Texts are read in lower case, without accents and invisible characters.
Full-width and styled letters, and letters of Cyrillic and Greek that look like Latin ones, are
read as Latin letters; `0 1 3 4 5 7 @ $` as `o i e a s t a s`, and `1` also as `l`. Words are runs of
letters. Neighbouring runs that `- _ . ' *` join make a word too, and so do single letters in a row,
as in "d o g". A word counts in these forms: plurals (-s, -es, -ies, -ves, common irregular ones),
-ed and -ing, and without a final s. A guess is right if it is the word in one of these forms.

The cards are half of the list `taboo`, which `split` names, the first N of it, each with its first
`num_forbidden` words; `cards` takes a list of your own, in which none is held out. Smallest:
`num_cards=2, num_rounds=1`; largest shipped: `num_cards=253, num_rounds=20`.

The legal actions are a finite core. `player_0` says the clue of any card, which points to its
word. The guesser guesses a word of a card; the defender also says one, or "go on". Prompts do not
list them, so that no prompt has the N words, unless `show_words` is True. A pair that knows the
cards scores 1. If the guesser learns nothing from the clues, the best it can do is to try different
words, for (R + 1) / (2N) if R is at most N. In the adversarial core of shipped cards the value is 0:
the attacker can always say one clue that says no word of any card, and the defender can always
say "go on".

Cheapest trick known: a code book, in which a clue of another card stands for each word, pays a
pair that has agreed on it 1, as honest clues do; no referee sees it, and a stranger does not know
it. Likewise rhymes pay 0.91, words that begin alike 0.96, and with a stranger 0.01. Tricks with letters (left out, doubled, swapped, backwards, base64, "d2o2g", spelled with "and",
initials) pay at most 0.02, though both players know the trick and all cards (400 episodes each).

Not as in Hasbro's game: one pair plays, without teams, timer and skipped cards; clues are written;
a refused clue costs a round instead of a point, and the referee is a program: it knows no
translations, synonyms and rhymes, "sounds like" and "starts with" are allowed, and of parts of words
it knows those that leave a word ("shelf" of "bookshelf") and common endings ("sunny").

Measures of an episode: `success`, 1 if the word was guessed; `refused`, the share of clues that were
refused, or 1 if an attacker said a word that it must not say; `uttered`, 1 if a defender said the word; `words`, the mean number of words
of a message of `player_0`, separated by blanks.

History: v1 has the referee, 253 cards of each split instead of 12 shown ones, and a clue with a
forbidden word no longer ends the game.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from arena_envs import talk
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    Kind,
    Vector,
    check_int,
    counted,
    filled,
    fold,
    np,
    param,
)
from arena_envs.games.kits.clues import fault_of, heard
from arena_envs.games.kits.words import (
    Rows,
    check_used,
    check_words,
    of_list,
    rows_of,
    said_among,
    shipped_rows,
    words_of,
)
from arena_envs.scenes.shapes import Card, Cards, Shapes, talk_of
from arena_envs.talk import Utterance

SHIPPED = "taboo"  # arena_envs/words/taboo.csv
MAX_CARDS = 1000
_WORD = re.compile("[a-z]{2,20}")


class TabooCard(NamedTuple):
    """A word, a clue of one word that points to it, and the words that no clue may say."""

    word: str
    clue: str
    forbidden: tuple[str, ...]


def read_rows(param: str, source: str | Path | Rows) -> tuple[tuple[str, ...], ...]:
    """The rows of a list of cards.

    Args:
        param: name of the game's parameter, for error messages.
        source: "taboo", the list that ships with the package; or the path of a UTF-8 file with
            one card per line, its words separated by commas; or the rows themselves. A row has
            the word, the clue and the forbidden words.

    Raises:
        ValueError: there is no such file; there are fewer than two cards; a word is empty, stands
            twice in a row or is not made of 2 to 20 letters a to z; two cards have one word or
            one clue; or a clue breaks the rule of its own card. Names the file and the line.
    """
    if source == SHIPPED:
        return shipped_rows(SHIPPED)
    rows, where = rows_of(param, source, SHIPPED, "card")
    for number, row in enumerate(rows, 1):
        _check_row(row, f"{where} {number}")
    for column in (0, 1):
        check_words([row[column] for row in rows], where, f", column {column + 1}")
    if not 2 <= len(rows) <= MAX_CARDS:
        raise ValueError(f"want 2 to {MAX_CARDS:,} cards in {param}, got {len(rows)}")
    return tuple(map(tuple, rows))


def _check_row(row: Sequence[str], place: str) -> None:
    check_words(row, f"{place}, column")
    if len(row) < 2:
        raise ValueError(
            f"{place}: want a word, a clue and forbidden words, got {len(row)}; add "
            "some, after a comma each"
        )
    if others := [word for word in row if not _WORD.fullmatch(word)]:
        raise ValueError(
            f"{place}: want words of 2 to 20 letters a to z, got {others[0]!r:.80}; "
            "correct it"
        )
    banned = (row[0], *row[2:])
    if fault := fault_of(row[1], banned, secret=row[0], allowed=row[1:2]):
        raise ValueError(
            f"{place}: want a clue that the referee admits, got {row[1]!r}: {fault}; "
            "choose another"
        )


GIVER, GUESSER = 0, 1
ENDS = {
    "broken": "player_0 said a word that it must not say",
    "said": "player_1 said the word",
    "guessed": "player_1 guessed the word",
    "missed": "player_1 made a wrong guess",
}
SKIP = "skip"  # the move that stands for the guess after a refused clue, with the fault


class State(NamedTuple):
    """The word, all utterances in order, and one of `ENDS` after such an end."""

    word: str = ""
    said: tuple[Utterance, ...] = ()
    end: str = ""


ROLES = {False: ("describer", "guesser"), True: ("attacker", "defender")}
TASKS = {
    False: ("give a clue", "guess the word"),
    True: ("say something", "say something or guess the word"),
}


Action = Utterance | str  # chance draws a word

SAY = talk.Move("say", message="must")
GUESS = talk.Move("guess", (talk.Word(),))
LAST_GUESS = talk.Move("guess", (talk.Word(),), message="no")
GO_ON = "go on"


@dataclass(frozen=True)
class Taboo(talk.PairedTurns[State, Action]):
    """Taboo, cooperative or adversarial.

    Args:
        num_cards: cards that may be drawn, the first of the split; at least 2.
        num_forbidden: forbidden words of a card, from 0 on; None: 3, or 0 if adversarial.
        num_rounds: 1 to 20.
        adversarial: whether the players are opponents.
        max_message: longest message in characters, 5 to 300.
        cards: "taboo"; or the path of a file with one card per line: the word, a clue of one word
            and forbidden words, separated by commas; or such rows.
        split: "train" or "test", the half of the shipped cards that may be drawn.
        show_words: whether prompts list the words of all cards and their clues.

    Raises:
        ValueError: a parameter is out of range, or a card is malformed or stands twice.
    """

    num_cards: int = param(200, knob=(2, 4, 8, 32, 128))
    num_forbidden: int | None = None
    num_rounds: int = param(5, 1, 20)
    adversarial: bool = False
    max_message: int = param(200, 5, 300)
    cards: str | Path | Rows = SHIPPED
    split: str = "train"
    show_words: bool = False

    first_state = State()
    max_chance_nodes = 1
    max_return = 1.0
    default_value = "best 1; silent play 0.015; random play 0.014900"

    def __post_init__(self) -> None:
        super().__post_init__()
        rows = read_rows("cards", self.cards)
        if self.cards != SHIPPED:  # so that records hold the words themselves
            object.__setattr__(self, "cards", rows)
        rows = self._rows
        check_used("num_cards", self.num_cards, 2, "cards", len(rows))
        if self.num_forbidden is not None:
            most = min(map(len, rows[: self.num_cards])) - 2
            name = f"num_forbidden (a card in use has {most})"
            check_int(name, self.num_forbidden, 0, most)

    @property
    def kind(self) -> Kind:  # type: ignore[override]  # settable in BaseGame
        return "competitive" if self.adversarial else "cooperative"

    @property
    def heuristic(self) -> str:
        return "taboo:optimal" if self.adversarial else "taboo:honest"

    @property
    def zero_sum(self) -> bool:  # type: ignore[override]
        return self.adversarial

    @property
    def min_return(self) -> float:
        return -1.0 if self.adversarial else 0.0

    @cached_property
    def _rows(self) -> tuple[tuple[str, ...], ...]:
        rows = read_rows("cards", self.cards)
        return of_list("cards", rows, self.split, is_shipped=self.cards == SHIPPED)

    @property
    def instances(self) -> Sequence[str]:
        return tuple(self.deck) if self.cards == SHIPPED else ()

    @property
    def knobs(self) -> Mapping[str, tuple[Any, ...]]:
        return {} if self.adversarial else super().knobs

    @cached_property
    def deck(self) -> dict[str, TabooCard]:
        """The cards of this game by their words, in alphabetical order."""
        usual = 0 if self.adversarial else 3
        num = usual if self.num_forbidden is None else self.num_forbidden
        rows = sorted(self._rows[: self.num_cards])
        return {row[0]: TabooCard(row[0], row[1], row[2 : 2 + num]) for row in rows}

    @cached_property
    def clues(self) -> tuple[str, ...]:
        """The clues of all cards, in alphabetical order."""
        return tuple(sorted(card.clue for card in self.deck.values()))

    @cached_property
    def core(self) -> tuple[tuple[Utterance, ...], tuple[Utterance, ...]]:
        """The legal actions of each seat."""
        says = tuple(Utterance("say", (), clue) for clue in self.clues)
        guesses = tuple(Utterance("guess", (word,)) for word in self.deck)
        answers = [Utterance("say", (), text) for text in (GO_ON, *self.deck)]
        return says, (*guesses, *(answers if self.adversarial else ()))

    def current_player(self, state: State) -> int:
        if not state.word:
            return CHANCE
        if state.end or len(state.said) == 2 * self.num_rounds:
            return TERMINAL
        return len(state.said) % 2

    def chance_outcomes(self, state: State) -> list[tuple[Action, float]]:
        return [(word, 1 / self.num_cards) for word in self.deck]

    def legal_actions(self, state: State) -> Sequence[Utterance]:
        player = self.current_player(state)
        return self.core[player] if player >= 0 else ()

    def shown_actions(self, state: State) -> Sequence[Utterance]:
        return self.legal_actions(state) if self.show_words else ()

    def apply(self, state: State, action: Action) -> State:
        if isinstance(action, str):
            return State(action)
        is_clue = not self.adversarial and len(state.said) % 2 == GIVER
        if is_clue and (fault := self._fault(state, action.message)):
            refused = action._replace(audience=(GIVER,))
            skipped = Utterance(SKIP, (fault,))
            return state._replace(said=(*state.said, refused, skipped))
        utterances = (*state.said, action)
        return State(state.word, utterances, self._end(state.word, utterances))

    def _fault(self, state: State, clue: str) -> str:
        card = self.deck[state.word]
        earlier = [
            utterance.message for utterance in state.said[::2] if not utterance.audience
        ]
        banned, allowed_clues = (card.word, *card.forbidden), self._known_clues
        return fault_of(
            clue, banned, secret=card.word, earlier=earlier, allowed=allowed_clues
        )

    @cached_property
    def _known_clues(self) -> frozenset[str]:
        return frozenset(self.clues)

    @cached_property
    def _places(self) -> tuple[dict[Utterance, int], ...]:
        """The place of each utterance of the core, by seat."""
        return tuple(
            {utterance: n for n, utterance in enumerate(core)} for core in self.core
        )

    def _end(self, word: str, utterances: Sequence[Utterance]) -> str:
        """The end that the last utterance brings, one of `ENDS`; empty if it brings none."""
        last, words = utterances[-1], [word]
        if len(utterances) % 2:
            words += self.deck[word].forbidden
            is_broken = self.adversarial and said_among(last.message, words)
            return "broken" if is_broken else ""
        if last.move == SKIP:
            return ""
        if last.move == "say":
            return "said" if said_among(last.message, words) else ""
        if said_among(last.values[0], words):
            return "guessed"
        return "missed" if self.adversarial else ""

    def returns(self, state: State) -> tuple[float, float]:
        if self.adversarial:
            won = {"": 0.0, "said": 1.0, "missed": 1.0}.get(state.end, -1.0)
            return (won, 0.0 - won)
        number = self.num_rounds + 1 - (len(state.said) + 1) // 2
        score = number / self.num_rounds if state.end == "guessed" else 0.0
        return (score, score)

    def measures(self, state: State) -> dict[str, float]:
        """Success, refused, uttered and words, as the page defines them."""
        counts = [len(utterance.message.split()) for utterance in state.said[::2]]
        refused = sum(utterance.move == SKIP for utterance in state.said)
        return {
            "success": float(state.end == "guessed"),
            "refused": max(refused / max(1, len(counts)), state.end == "broken"),
            "uttered": float(state.end == "said"),
            "words": sum(counts) / max(1, len(counts)),
        }

    @property
    def measure_bounds(self) -> dict[str, tuple[float, float]]:
        shares = dict.fromkeys(("success", "refused", "uttered"), (0.0, 1.0))
        return {**shares, "words": (0.0, float((self.max_message + 1) // 2))}

    @property
    def known_value(self) -> str | None:
        if self.adversarial:
            return "0 in the finite core" if self.cards == SHIPPED else None
        return super().known_value

    def observe(self, state: State, seat: int) -> str:
        player, now = self.current_player(state), "The word is being drawn."
        if player == TERMINAL:
            now = "The game is over."
        elif player >= 0:
            now = f"Round {len(state.said) // 2 + 1} of {self.num_rounds}. "
            now += talk.to_move(player, seat, TASKS[self.adversarial][player])
        lines = [f"You are player_{seat}, the {ROLES[self.adversarial][seat]}. {now}"]
        if state.word and seat == GIVER:
            forbidden = self.deck[state.word].forbidden
            others = f", nor: {', '.join(forbidden)}" if forbidden else ""
            lines.append(f"The word is: {state.word}. You must not say it{others}.")
        lines += self._history(state.said, seat)
        if player == TERMINAL:
            passed = f"{counted(self.num_rounds, 'round')} passed without a right guess"
            end = ENDS.get(state.end, passed)
            lines.append(f"{end}. The word was: {state.word}.")
        return "\n".join(lines)

    def _history(self, utterances: Sequence[Utterance], seat: int) -> Iterator[str]:
        """The latest rounds in full, of earlier ones the guesses."""

        def full_line(turn: int) -> str:
            utterance, start = utterances[turn], f"Round {turn // 2 + 1}:"
            if utterance.move == SKIP:
                why = f", because {utterance.values[0]}" if seat == GIVER else ""
                return f"{start} the clue was refused{why}"
            does = (
                "said" if utterance.move == "say" else f"guessed {utterance.values[0]}"
            )
            if utterance.audience and seat != GIVER:
                does = "gave a clue"
            return f"{start} {talk.named(turn % 2, seat)} {does}"

        def brief(number: int) -> str:
            utterance = utterances[2 * number + 1]
            does = f"guessed {utterance.values[0]}" if utterance.values else ""
            does = "refused" if utterance.move == SKIP else does
            return f"{number + 1}. {does}" if does else ""

        latest = 2 - len(utterances) % 2
        return talk.rounds_told(utterances, seat, full_line, brief, latest)

    def information_state(self, state: State, seat: int) -> Any:
        utterances = state.said
        if seat == GUESSER:
            utterances = talk.as_heard(utterances, seat)
            utterances = tuple(
                Utterance(SKIP) if utterance.move == SKIP else utterance
                for utterance in utterances
            )
        return (seat, self._known_word(state, seat), utterances, state.end)

    def _known_word(self, state: State, seat: int) -> str:
        is_open = seat == GIVER or self.current_player(state) == TERMINAL
        return state.word if is_open else ""

    def features(self, state: State, seat: int) -> Vector:
        """The knowledge of a seat as numbers.

        One-hot seat (2); whether the seat is to move; share of turns taken; one-hot end (4);
        one-hot word, if the seat knows it (N); then for each turn, one-hot utterance of the
        finite core.
        """
        widest = max(map(len, self.core))
        head = np.zeros(8 + self.num_cards, np.float32)
        turns = np.zeros((2 * self.num_rounds, widest), np.float32)
        head[seat] = 1
        head[2] = self.current_player(state) == seat
        head[3] = len(state.said) / (2 * self.num_rounds)
        if state.end:
            head[4 + [*ENDS].index(state.end)] = 1
        if word := self._known_word(state, seat):
            head[8 + [*self.deck].index(word)] = 1
        for turn, utterance in enumerate(state.said):
            place = self._places[turn % 2].get(utterance)
            if place is not None:
                turns[turn, place] = 1
        return np.concatenate([head, turns.ravel()])

    def _moves(self, player: int) -> tuple[talk.Move, ...]:
        if player == GIVER:
            return (SAY,)
        return (SAY, LAST_GUESS) if self.adversarial else (GUESS,)

    def action_text(self, state: State, action: Action) -> str:
        return action if isinstance(action, str) else talk.written(action, (SAY, GUESS))

    def moves_at(self, state: State) -> tuple[talk.Move, ...]:
        return self._moves(self.current_player(state))

    def parse(self, state: State, text: str) -> Utterance:
        utterance: Utterance = super().parse(state, text)
        player = self.current_player(state)
        if player == GIVER and not self.adversarial:
            return utterance._replace(message=heard(utterance.message))
        folded = utterance._replace(message=fold(utterance.message))
        return folded if folded in self._places[player] else utterance

    def rules(self, seat: int) -> str:
        num = len(next(iter(self.deck.values())).forbidden)
        words = "the word" if self.adversarial else "the word itself"
        words += filled("taboo_forbidden", self, num=num) if num else ""
        name, role = "taboo_adversarial", ROLES[self.adversarial][seat]
        rules = filled(name if self.adversarial else "taboo", self, words=words)
        syntax = talk.how_to_write(self._moves(seat), self.max_message)
        return f"{rules} You are the {role}. {syntax}"

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """For a guesser, another word that no utterance so far rules out.

        A clue that was refused is another one: the word itself.
        """
        if self._known_word(state, seat) or not state.word:
            return state
        words = rng.sample([*self.deck], self.num_cards)
        word = next(word for word in words if self._may_be(state, word))
        utterances = list(state.said)
        for turn, utterance in enumerate(utterances):
            if utterance.audience:
                utterances[turn] = utterance._replace(message=word)
                utterances[turn + 1] = Utterance(SKIP, (f"it says {word!r}",))
        return State(word, tuple(utterances), state.end)

    def _may_be(self, state: State, word: str) -> bool:
        """Whether all that the guesser knows could have happened with a word."""
        candidate = State(word)
        for turn, utterance in enumerate(state.said):
            is_clue = (
                turn % 2 == GIVER and not utterance.audience and not self.adversarial
            )
            if is_clue and self._fault(candidate, utterance.message):
                return False
            candidate = candidate._replace(said=(*candidate.said, utterance))
            if not utterance.audience and self._end(word, candidate.said):
                return False
        return True


PASS = Utterance("say", (), GO_ON)


class TabooPlayer(talk.Scripted):
    """Plays taboo in one of four styles, in each seat. All know the cards.

    | Style     | Describer, attacker: says    | Guesser                  | Defender                 |
    |-----------|------------------------------|--------------------------|--------------------------|
    | `honest`  | the clue of the card         | the word of a clue heard | guesses the word of a clue |
    | `greedy`  | the word, letter by letter   | the word of a clue heard | says the word of a clue  |
    | `silent`  | "go on"                      | a word not yet guessed   | "go on"                  |
    | `optimal` | the clue; attacker: "go on"  | the word of a clue heard | "go on"                  |

    A guesser that hears no clue of a card guesses a word that it has not yet guessed, and a defender
    says "go on". `optimal` is best in the finite core.
    """

    game, styles = Taboo, ("greedy", "honest", "optimal", "silent")

    def reply(self, game: Taboo, state: State, rng: random.Random) -> Utterance:
        is_safe = self.style == "optimal" and game.adversarial
        is_mute, cards = is_safe or self.style == "silent", game.deck
        if game.current_player(state) == GIVER:
            spelled = " ".join(state.word)[: game.max_message]
            clue = spelled if self.style == "greedy" else cards[state.word].clue
            return PASS if is_mute else Utterance("say", (), clue)
        heard = words_of(state.said[-1].message)
        words = [word for word, card in cards.items() if card.clue in heard]
        if words and not is_mute:
            is_careless = self.style == "greedy" and game.adversarial
            utterance = Utterance("say", (), words[0])
            return utterance if is_careless else Utterance("guess", (words[0],))
        if game.adversarial:
            return PASS
        earlier_guesses = {
            utterance.values[0] for utterance in state.said[1::2] if utterance.values
        }
        left = [word for word in cards if word not in earlier_guesses] or [*cards]
        return Utterance("guess", (rng.choice(left),))


def scene(game: Taboo, state: State, viewer: int | None) -> Shapes:
    """The word with the forbidden words, as far as the viewer knows them, and the talk."""
    is_open = viewer in (None, 0) or game.current_player(state) == TERMINAL
    word_cards = [Card(state.word if is_open else None)] if state.word else []
    shapes = [Cards("word", word_cards)]
    if state.word and viewer in (None, 0):
        forbidden = [Card(word) for word in game.deck[state.word].forbidden]
        shapes += [Cards("forbidden words", forbidden)] if forbidden else []

    def full_line(turn: int, utterance: Utterance) -> str:
        does = f"guesses {utterance.values[0]}" if utterance.values else "speaks"
        return f"{does} (round {turn // 2 + 1})"

    return [*shapes, *talk_of(state.said, viewer, full_line)]
