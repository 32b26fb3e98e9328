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
    check_bool,
    check_int,
    fold,
)
from arena_envs.games import _taboo_texts as texts
from arena_envs.games import _talk as talk
from arena_envs.games._taboo_cards import SHIPPED, Card, Rows, cards_of, read_rows
from arena_envs.games._taboo_state import (
    ENDS,
    GIVER,
    State,
    attacker_return,
    end_of,
    measured,
    shared_return,
)
from arena_envs.games._talk import Utterance
from arena_envs.games._word_lists import check_used

Action = Utterance | str  # chance draws a word

SAY = talk.Move("say", message="must")
GUESS = talk.Move("guess", (talk.Word(),))
LAST_GUESS = talk.Move("guess", (talk.Word(),), message="no")
GO_ON = "go on"


@dataclass(frozen=True)
class Taboo(BaseGame[State, Action]):
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
    num_actions = None
    information: ClassVar[Information] = "imperfect"
    max_chance_nodes = 1
    max_return = 1.0

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
    def deck(self) -> dict[str, Card]:
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
        return measured(state)

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
        lines = [texts.stage_text(player, seat, rounds, self.adversarial)]
        if state.word and seat == GIVER:
            lines.append(texts.word_text(state.word, self.deck[state.word].forbidden))
        lines += texts.history(state.said, seat)
        if player == TERMINAL:
            lines.append(texts.end_text(state.end, self.num_rounds, state.word))
        return "\n".join(lines)

    def information_state(self, state: State, seat: int) -> Any:
        return (seat, self._known_word(state, seat), state.said, state.end)

    def _known_word(self, state: State, seat: int) -> str:
        is_open = seat == GIVER or self.current_player(state) == TERMINAL
        return state.word if is_open else ""

    def features(self, state: State, seat: int) -> NDArray[np.float32]:
        """What a seat knows as numbers.

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

    def parse(self, state: State, text: str) -> Utterance:
        player = self.current_player(state)
        if player < 0:
            raise IllegalAction("nobody is to move")
        said = talk.read(text, self._moves(player), self.max_message)
        folded = said._replace(message=fold(said.message))
        return folded if folded in self.core[player] else said

    def rules(self, seat: int) -> str:
        tell = texts.adversarial_text if self.adversarial else texts.rules_text
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
