"""Taboo: give clues to a word without saying it or its forbidden words, while another guesses.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("taboo-v0", adversarial=False)`; see `Taboo`          |
| Agents      | `player_0` describes or attacks, `player_1` guesses or defends         |
| Kind        | cooperative or, if adversarial, competitive; imperfect information     |
| Actions     | texts: "say: " and a message; "guess WORD"                             |
| Rewards     | both (R + 1 - t) / R for guess t of R; adversarial: 1, -1 or 0, at the end |
| Length      | at most 2R turns, R being `num_rounds`                                 |
| Known value | best 1; silent play 0.25; random play 0.223901; adversarial: 0 in the finite core |
| Source      | Hasbro's *Taboo*; P. Cheng et al., *Self-playing Adversarial Language  |
|             | Game Enhances LLM Reasoning* (SPAG, 2024)                              |

Chance draws one of N = `num_cards` cards, each equally likely. A card has a word and forbidden
words, which only `player_0` reads. In each of R rounds `player_0` gives a clue, and `player_1`
guesses a word and may add a message. If a clue says the word or a forbidden word, the game ends
and both score 0. Guess t is right: both score (R + 1 - t) / R.

With `adversarial=True` the players are opponents, as in SPAG's Adversarial Taboo. The attacker
knows the word and wants the defender to say it. Each round the attacker says something, then the
defender says something or guesses the word. The attacker loses if it says the word. The defender
loses if a message of it says the word; it wins with the right guess and loses with a wrong one.
After R rounds without these, both score 0. There are no forbidden words, unless `num_forbidden` is
given. SPAG discounts rewards by turns, and reads a guess from "I know the word! It is ..."; here a
guess is a move of its own, and rewards are not discounted.

**What says a word.** Texts are read in lower case, without accents and invisible characters.
Full-width and styled letters, and letters of Cyrillic and Greek that look like Latin ones, are
read as Latin letters; `0 1 3 4 5 7 @ $` as `o i e a s t a s`, and `1` also as `l`. Words are runs of
letters. Neighbouring runs that `- _ . ' *` join make a word too, and so do single letters in a row,
as in "d o g". A word counts in these forms: plurals (-s, -es, -ies, -ves, common irregular ones),
-ed and -ing, and without a final s. Parts of longer words do not count, nor do translations and
synonyms. A guess is right if it is the word in one of these forms.

The first N cards of the list `taboo` are used, each with its first `num_forbidden` words; `cards`
takes a list of your own. Smallest: `num_cards=2, num_rounds=1`; largest shipped: `num_cards=24,
num_rounds=20`.

The legal actions are a finite core. `player_0` says the clue of any card, which points to its
word. The guesser guesses a word of a card; the defender also says one, or "go on". Prompts list legal
actions, and so all N words, unless `show_legal_actions` is False. A pair that knows the cards scores 1. If the guesser learns nothing from the clues, the best it can do is to
try different words, for (R + 1) / (2N) if R is at most N. In the adversarial core of shipped cards
the value is 0: the attacker can always say one clue that says no word of any card, and the defender
can always say "go on".

Measures of an episode: `success`, 1 if the word was guessed; `forbidden`, 1 if `player_0` said a word
that it must not say; `uttered`, 1 if a defender said the word; `words`, the mean number of words
of a message of `player_0`, separated by blanks.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs import talk
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    Information,
    Kind,
    check_bool,
    check_int,
    counted,
    fold,
)
from arena_envs.games.kits.words import check_used, check_words, said_among, words_of
from arena_envs.scenes.shapes import Card, Cards, Scene, talk_of, turn_title
from arena_envs.talk import Utterance

SHIPPED = "taboo"  # arena_envs/words/taboo.csv
MAX_CARDS = 1000
_WORD = re.compile("[a-z]{2,20}")

Rows = Sequence[Sequence[str]]


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
    if isinstance(source, str | Path):
        where = f"{param} ({source}), line {{}}"
        rows: Rows = [line.split(",") for line in _text(param, source).splitlines()]
    elif isinstance(source, Sequence) and all(
        isinstance(row, Sequence) and not isinstance(row, str) for row in source
    ):
        rows, where = source, f"{param}, card {{}}"
    else:
        raise ValueError(
            f"want {param} as {SHIPPED!r}, the path of a file or a sequence of cards, got "
            f"{source!r:.80}"
        )
    for number, row in enumerate(rows, 1):
        _check_row(row, where.format(number))
    for column in (0, 1):
        check_words([row[column] for row in rows], f"{where}, column {column + 1}")
    if not 2 <= len(rows) <= MAX_CARDS:
        raise ValueError(f"want 2 to {MAX_CARDS:,} cards in {param}, got {len(rows)}")
    return tuple(map(tuple, rows))


def _check_row(row: Sequence[str], place: str) -> None:
    check_words(row, f"{place}, column {{}}")
    if len(row) < 2:
        raise ValueError(
            f"{place}: want a word, a clue and forbidden words, got {len(row)}; add some, after a "
            "comma each"
        )
    if wrong := [word for word in row if not _WORD.fullmatch(word)]:
        raise ValueError(
            f"{place}: want words of 2 to 20 letters a to z, got {wrong[0]!r:.80}; correct it"
        )
    if said := said_among(row[1], (row[0], *row[2:])):
        raise ValueError(
            f"{place}: want a clue that does not say {said!r}, got {row[1]!r}; choose another"
        )


def _text(param: str, source: str | Path) -> str:
    if source == SHIPPED:
        file = resources.files("arena_envs") / "words" / f"{SHIPPED}.csv"
        return file.read_text(encoding="utf-8")
    try:
        return Path(source).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ValueError(
            f"want {param} as {SHIPPED!r} or the path of a UTF-8 file with one card per line, "
            f"its words separated by commas, got {str(source)[:80]!r}: {error}"
        ) from error


def cards_of(rows: Rows, num_cards: int, num_forbidden: int) -> tuple[TabooCard, ...]:
    """The first cards of rows that `read_rows` has checked, in alphabetical order."""
    return tuple(
        sorted(
            TabooCard(row[0], row[1], tuple(row[2 : 2 + num_forbidden]))
            for row in rows[:num_cards]
        )
    )


GIVER, GUESSER = 0, 1
ENDS = ("broken", "said", "guessed", "missed")


class State(NamedTuple):
    """The word, all utterances in order, and one of `ENDS` after such an end."""

    word: str = ""
    said: tuple[Utterance, ...] = ()
    end: str = ""


def end_of(card: TabooCard, said: Sequence[Utterance], adversarial: bool) -> str:
    """The end that the last utterance brings, one of `ENDS`; empty if it brings none."""
    speaker, last = (len(said) - 1) % 2, said[-1]
    if speaker == GIVER:
        is_broken = said_among(last.message, (card.word, *card.forbidden))
        return "broken" if is_broken else ""
    if last.move == "say":
        return "said" if said_among(last.message, (card.word,)) else ""
    if said_among(last.values[0], (card.word,)):
        return "guessed"
    return "missed" if adversarial else ""


def shared_return(state: State, num_rounds: int) -> float:
    """The return of both seats in the cooperative game."""
    number = (len(state.said) + 1) // 2
    share = (num_rounds + 1 - number) / num_rounds
    return share if state.end == "guessed" else 0.0


def attacker_return(state: State) -> float:
    """The attacker's return in the adversarial game; the defender gets its negative."""
    if not state.end:
        return 0.0
    return 1.0 if state.end in ("said", "missed") else -1.0


ROLES = {False: ("describer", "guesser"), True: ("attacker", "defender")}
TASKS = {
    False: ("give a clue", "guess the word"),
    True: ("say something", "say something or guess the word"),
}


def stage_text(
    player: int, seat: int, rounds: tuple[int, int], adversarial: bool
) -> str:
    """The reader of the text, and the seat to move.

    Args:
        player: what `current_player` returns.
        seat: who reads the text.
        rounds: those that are over, and all.
        adversarial: whether the players are opponents.
    """
    start = f"You are player_{seat}, the {ROLES[adversarial][seat]}."
    if player == TERMINAL:
        return f"{start} The game is over."
    if player == CHANCE:
        return f"{start} The word is being drawn."
    who = "You are" if player == seat else f"player_{player} is"
    task = TASKS[adversarial][player]
    return f"{start} Round {rounds[0] + 1} of {rounds[1]}. {who} to move: {task}."


def word_text(word: str, forbidden: Sequence[str]) -> str:
    """The word, and what must not be said."""
    others = f", nor: {', '.join(forbidden)}" if forbidden else ""
    return f"The word is: {word}. You must not say it{others}."


def end_text(end: str, num_rounds: int, word: str) -> str:
    """The end of the game, in words.

    Args:
        end: of the state; empty if all rounds are over.
        num_rounds: of the game.
        word: that was drawn.
    """
    told = {
        "broken": "player_0 said a word that it must not say",
        "said": "player_1 said the word",
        "guessed": "player_1 guessed the word",
        "missed": "player_1 made a wrong guess",
        "": f"{counted(num_rounds, 'round')} passed without a right guess",
    }
    return f"{told[end]}. The word was: {word}."


def history(said: Sequence[Utterance], seat: int) -> Iterator[str]:
    """The past as a seat reads it: the latest rounds in full, of earlier ones the guesses."""

    def told(turn: int) -> str:
        speaker, each = turn % 2, said[turn]
        who = "you" if speaker == seat else f"player_{speaker}"
        does = "said" if each.move == "say" else f"guessed {each.values[0]}"
        return f"Round {turn // 2 + 1}: {who} {does}"

    def brief(turn: int) -> str:
        each = said[turn]
        return f"{turn // 2 + 1}. guessed {each.values[0]}" if each.values else ""

    latest = 4 - len(said) % 2
    yield from talk.transcript(
        said, seat, told, latest=latest, brief=brief, num_listed=None
    )


MATCHING = (
    "A word counts in any form, such as its plural, in any case, and with its letters spelled "
    "out or disguised; as a part of a longer word it does not count."
)


def rules_text(seat: int, num_rounds: int, num_forbidden: int) -> str:
    """The rules of taboo, without words to choose from and the paragraph about messages."""
    words = "the word itself"
    if num_forbidden:
        words += f" or {_forbidden(num_forbidden)}"
    return (
        "This is taboo, a game of a describer (player_0) and a guesser (player_1), who win or "
        "lose together. An English word has been drawn, and only player_0 knows it. "
        f"There are {counted(num_rounds, 'round')}. In each round player_0 gives a clue in free "
        f"words, and player_1 guesses a word, such as "
        f'"guess house". No clue may say {words}: if a clue does, the game ends and both score 0. '
        f"{MATCHING} The game ends with the right guess. If guess number t is right, both of you "
        f"score ({num_rounds + 1} - t) / {num_rounds}; if none is, 0. "
        f"You are the {ROLES[False][seat]}."
    )


def adversarial_text(seat: int, num_rounds: int, num_forbidden: int) -> str:
    """The rules of adversarial taboo, without the paragraph about messages."""
    words = "the word"
    if num_forbidden:
        words += f" or {_forbidden(num_forbidden)}"
    return (
        "This is adversarial taboo, a game of an attacker (player_0) and a defender (player_1), "
        "who are opponents. An English word has been drawn, and only player_0 knows it. There "
        f"are {counted(num_rounds, 'round')}. In each round first player_0 says something, and "
        "then player_1 says something or guesses the word. player_0 wins if player_1 says the "
        "word in a message. "
        f"player_0 loses if it says {words} itself. {MATCHING} "
        'player_1 can guess once, such as "guess house": it wins if the guess is right, and loses '
        "if it is wrong. If all rounds pass, nobody wins. You score 1 if you win, -1 if you "
        f"lose, else 0. You are the {ROLES[True][seat]}."
    )


def _forbidden(num_forbidden: int) -> str:
    if num_forbidden == 1:
        return "a forbidden word, which only player_0 knows"
    return f"one of {num_forbidden} forbidden words, which only player_0 knows"


Action = Utterance | str  # chance draws a word

SAY = talk.Move("say", message="must")
GUESS = talk.Move("guess", (talk.Word(),))
LAST_GUESS = talk.Move("guess", (talk.Word(),), message="no")
GO_ON = "go on"


@dataclass(frozen=True)
class Taboo(talk.TalkGame[State, Action]):
    """Taboo, cooperative or adversarial.

    Args:
        num_cards: cards that may be drawn, the first of the list; at least 2.
        num_forbidden: forbidden words of a card, from 0 on; None: 3, or 0 if adversarial.
        num_rounds: 1 to 20.
        adversarial: whether the players are opponents.
        max_message: longest message in characters, 5 to 300.
        cards: "taboo"; or the path of a file with one card per line: the word, a clue of one word
            and forbidden words, separated by commas; or such rows.

    Raises:
        ValueError: a parameter is out of range, or a card is malformed or stands twice.
    """

    num_cards: int = 12
    num_forbidden: int | None = None
    num_rounds: int = 5
    adversarial: bool = False
    max_message: int = 200
    cards: str | Path | Rows = SHIPPED

    num_players = 2
    information: ClassVar[Information] = "imperfect"
    max_chance_nodes = 1
    max_return = 1.0
    scene = "arena_envs.games.taboo:scene"

    def __post_init__(self) -> None:
        rows = read_rows("cards", self.cards)
        if self.cards != SHIPPED:  # so that records hold the words themselves
            object.__setattr__(self, "cards", rows)
        check_used("num_cards", self.num_cards, 2, "cards", len(rows))
        if self.num_forbidden is not None:
            most = min(map(len, rows[: self.num_cards])) - 2
            name = f"num_forbidden (a card in use has {most})"
            check_int(name, self.num_forbidden, 0, most)
        check_int("num_rounds", self.num_rounds, 1, 20)
        check_bool("adversarial", self.adversarial)
        check_int("max_message", self.max_message, 5, 300)

    @property
    def kind(self) -> Kind:
        return "competitive" if self.adversarial else "cooperative"

    @property
    def zero_sum(self) -> bool:  # type: ignore[override]
        return self.adversarial

    @property
    def teams(self) -> Sequence[int]:
        return (0, 1) if self.adversarial else (0, 0)

    @property
    def min_return(self) -> float:
        return -1.0 if self.adversarial else 0.0

    @property
    def max_turns(self) -> int:
        return 2 * self.num_rounds

    @cached_property
    def deck(self) -> dict[str, TabooCard]:
        """The cards of this game by their words, in alphabetical order."""
        usual = 0 if self.adversarial else 3
        num = usual if self.num_forbidden is None else self.num_forbidden
        rows = read_rows("cards", self.cards)
        return {card.word: card for card in cards_of(rows, self.num_cards, num)}

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

    def initial_state(self) -> State:
        return State()

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

    def apply(self, state: State, action: Action) -> State:
        if isinstance(action, str):
            return State(action)
        said = (*state.said, action)
        return State(state.word, said, self._end(state.word, said))

    def _end(self, word: str, said: Sequence[Utterance]) -> str:
        return end_of(self.deck[word], said, self.adversarial)

    def returns(self, state: State) -> tuple[float, float]:
        if self.adversarial:
            won = attacker_return(state)
            return (won, 0.0 - won)
        paid = shared_return(state, self.num_rounds)
        return (paid, paid)

    def measures(self, state: State) -> dict[str, float]:
        """Success, forbidden, uttered and words, as the page defines them."""
        counts = [len(said.message.split()) for said in state.said[::2]]
        return {
            "success": float(state.end == "guessed"),
            "forbidden": float(state.end == "broken"),
            "uttered": float(state.end == "said"),
            "words": sum(counts) / max(1, len(counts)),
        }

    @property
    def measure_bounds(self) -> dict[str, tuple[float, float]]:
        shares = dict.fromkeys(("success", "forbidden", "uttered"), (0.0, 1.0))
        return {**shares, "words": (0.0, float((self.max_message + 1) // 2))}

    @property
    def known_value(self) -> str | None:
        if self.adversarial:
            return "0 in the finite core" if self.cards == SHIPPED else None
        if self != type(self)():
            return None
        return "best 1; silent play 0.25; random play 0.223901"

    def observe(self, state: State, seat: int) -> str:
        player, number = self.current_player(state), len(state.said) // 2
        rounds = (number, self.num_rounds)
        lines = [stage_text(player, seat, rounds, self.adversarial)]
        if state.word and seat == GIVER:
            lines.append(word_text(state.word, self.deck[state.word].forbidden))
        lines += history(state.said, seat)
        if player == TERMINAL:
            lines.append(end_text(state.end, self.num_rounds, state.word))
        return "\n".join(lines)

    def information_state(self, state: State, seat: int) -> Any:
        return (seat, self._known_word(state, seat), state.said, state.end)

    def _known_word(self, state: State, seat: int) -> str:
        is_open = seat == GIVER or self.current_player(state) == TERMINAL
        return state.word if is_open else ""

    def features(self, state: State, seat: int) -> NDArray[np.float32]:
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
            head[4 + ENDS.index(state.end)] = 1
        if word := self._known_word(state, seat):
            head[8 + [*self.deck].index(word)] = 1
        for turn, said in enumerate(state.said):
            core = self.core[turn % 2]
            if said in core:
                turns[turn, core.index(said)] = 1
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
        said: Utterance = super().parse(state, text)
        folded = said._replace(message=fold(said.message))
        return folded if folded in self.core[self.current_player(state)] else said

    def rules(self, seat: int) -> str:
        tell = adversarial_text if self.adversarial else rules_text
        num_forbidden = len(next(iter(self.deck.values())).forbidden)
        rules = tell(seat, self.num_rounds, num_forbidden)
        return f"{rules} {talk.how_to_write(self._moves(seat), self.max_message)}"

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """For a guesser, another word that no utterance so far rules out."""
        if self._known_word(state, seat) or not state.word:
            return state
        pasts = [state.said[: turn + 1] for turn in range(len(state.said))]
        fits = [w for w in self.deck if not any(self._end(w, past) for past in pasts)]
        return state._replace(word=rng.choice(fits))


PASS = Utterance("say", (), GO_ON)


def _clue(game: Taboo, state: State) -> Utterance:
    return Utterance("say", (), game.deck[state.word].clue)


def _spelled(game: Taboo, state: State) -> Utterance:
    return Utterance("say", (), ".".join(state.word)[: game.max_message])


def _nothing(game: Taboo, state: State) -> Utterance:
    return PASS


def _safe(game: Taboo, state: State) -> Utterance:
    return PASS if game.adversarial else _clue(game, state)


def _heard(game: Taboo, state: State) -> str | None:
    """The word whose clue `player_0` has just said."""
    said = words_of(state.said[-1].message)
    return next((word for word, card in game.deck.items() if card.clue in said), None)


def _untried(game: Taboo, state: State, rng: random.Random) -> Utterance:
    tried = {said.values[0] for said in state.said[1::2] if said.values}
    words = [word for word in game.deck if word not in tried] or [*game.deck]
    return Utterance("guess", (rng.choice(words),))


def _guesses(game: Taboo, state: State, rng: random.Random) -> Utterance:
    if word := _heard(game, state):
        return Utterance("guess", (word,))
    return PASS if game.adversarial else _untried(game, state, rng)


def _replies(game: Taboo, state: State, rng: random.Random) -> Utterance:
    word = _heard(game, state)
    if word is None or not game.adversarial:
        return _guesses(game, state, rng)
    return Utterance("say", (), word)


def _waits(game: Taboo, state: State, rng: random.Random) -> Utterance:
    return PASS if game.adversarial else _untried(game, state, rng)


def _best(game: Taboo, state: State, rng: random.Random) -> Utterance:
    return PASS if game.adversarial else _guesses(game, state, rng)


Giver = Callable[[Taboo, State], Utterance]
Guesser = Callable[[Taboo, State, random.Random], Utterance]

STYLES: dict[str, tuple[Giver, Guesser]] = {
    "greedy": (_spelled, _replies),
    "honest": (_clue, _guesses),
    "optimal": (_safe, _best),
    "silent": (_nothing, _waits),
}


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

    game, styles = Taboo, STYLES

    def reply(self, game: Taboo, state: State, rng: random.Random) -> Utterance:
        gives, guesses = STYLES[self.style]
        if game.current_player(state) == GIVER:
            return gives(game, state)
        return guesses(game, state, rng)


def scene(game: Taboo, state: State, viewer: int | None) -> Scene:
    """The word with the forbidden words, as far as the viewer knows them, and the talk."""
    is_open = viewer in (None, 0) or game.current_player(state) == TERMINAL
    drawn = [Card(state.word if is_open else None)] if state.word else []
    shapes: list[Any] = [Cards("word", drawn)]
    if state.word and viewer in (None, 0):
        forbidden = [Card(word) for word in game.deck[state.word].forbidden]
        shapes += [Cards("forbidden words", forbidden)] if forbidden else []

    def told(turn: int, said: Utterance) -> str:
        does = f"guesses {said.values[0]}" if said.values else "speaks"
        return f"{does} (round {turn // 2 + 1})"

    shapes += talk_of(state.said, viewer, lambda turn: turn % 2, told)
    return Scene(turn_title(game, state, viewer), shapes)
