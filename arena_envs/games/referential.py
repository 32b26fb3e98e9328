"""Referential game: one player describes an object in words, the other picks it.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("referential-v0", num_objects=4)`; see `Referential`  |
| Agents      | `player_0` describes, `player_1` picks                                 |
| Kind        | cooperative, imperfect information                                     |
| Actions     | texts: "say: " and a message, such as "say: red"; "pick 2"             |
| Rewards     | both get 1/R for each right pick, in R = `num_rounds` rounds           |
| Length      | 2R turns                                                               |
| Known value | with a shared code of enough words 1; silent play 1/4; random play 1/4 |
| Source      | A. Lazaridou et al., *Multi-Agent Cooperation and the Emergence of     |
|             | (Natural) Language* (2017), with the repeated rounds of R. Hawkins et  |
|             | al., *Characterizing the Dynamics of Learning in Repeated Reference    |
|             | Games* (2020)                                                          |

Chance draws n = `num_objects` different objects, such as a large red circle. Both players see all
of them: the describer in alphabetical order, the picker with numbers, in a random order that the
describer does not know. So a number or a place says nothing. In each round chance draws
one object as the target, each equally likely, and only the describer learns which. The describer
says a message; the picker picks an object by its number. Then both learn which object was picked,
and the picker learns the target. The objects stay the same, so a pair can agree on shorter names.

An object has a value of each of the last `num_attributes` attributes of a list, and each attribute
has its first `num_values` values. `attributes` takes a list of your own. Smallest:
`num_attributes=1, num_values=2, num_objects=2, num_rounds=1`; largest shipped: `num_attributes=4,
num_values=5, num_objects=12`.

The legal actions of the describer are messages of one word, a value of an attribute; players may
say anything of at most `max_message` characters. A message that consists of such a word is read in
lower case. n is at most the number of these words, so one word per round is enough: a pair that
shares a code, in which each object has a word of its own, scores 1. If the picker learns nothing
from the messages, it is right with probability 1/n, whatever it does.

Bots: `referrer:honest` names all values of the target; `referrer:optimal` uses a code by position
in the alphabet. Each pair scores 1, and a mixed pair scores less. Cross-play between populations is
measured by `arena tournament referrer:honest referrer:optimal -g referential --out runs/codes`.

Measures of an episode, over the rounds: `success`, the share of right picks; `truthfulness`, the
share of the values said that the target has (1 if none is said; words count as in `taboo-v0`);
`words`, the mean number of words of a message, separated by blanks.
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
    fold,
)
from arena_envs.games import _referential_texts as texts
from arena_envs.games import _talk as talk
from arena_envs.games._attributes import SHIPPED, Rows, names_of, read_attributes
from arena_envs.games._referential_state import DESCRIBER, PICKER, State, measured
from arena_envs.games._talk import Utterance
from arena_envs.games._word_lists import check_used

Action = Utterance | int  # chance draws an object, then a target in each round

SAY = talk.Move("say", message="must")


@dataclass(frozen=True)
class Referential(BaseGame[State, Action]):
    """Describe an object in words; the other player picks it.

    Args:
        num_objects: objects to choose from, 2 to 12; at most as many as there are words.
        num_rounds: 1 to 20.
        num_attributes: attributes of an object, the last of the list.
        num_values: values of each attribute, the first of the list; at least 2.
        max_message: longest message in characters, 1 to 400.
        attributes: "attributes"; or the path of a file with one attribute per line, its values
            separated by commas; or the values of each attribute.

    Raises:
        ValueError: a parameter is out of range, or the list has an empty or malformed value or a
            value twice.
    """

    num_objects: int = 4
    num_rounds: int = 3
    num_attributes: int = 3
    num_values: int = 3
    max_message: int = 200
    attributes: str | Path | Rows = SHIPPED

    num_players = 2
    num_actions = None
    kind: ClassVar[Kind] = "cooperative"
    information: ClassVar[Information] = "imperfect"
    min_return = 0.0
    max_return = 1.0
    teams = (0, 0)

    def __post_init__(self) -> None:
        rows = read_attributes("attributes", self.attributes)
        if self.attributes != SHIPPED:  # so that records hold the words themselves
            object.__setattr__(self, "attributes", rows)
        num = len(rows)
        check_used("num_attributes", self.num_attributes, 1, "attributes", num)
        used = rows[-self.num_attributes :]
        num = min(map(len, used))
        check_used("num_values", self.num_values, 2, "an attribute in use", num)
        most = min(12, len(self.words), len(self.names))
        check_int("num_objects", self.num_objects, 2, most)
        check_int("num_rounds", self.num_rounds, 1, 20)
        check_int("max_message", self.max_message, 1, 400)

    @cached_property
    def values(self) -> tuple[tuple[str, ...], ...]:
        """The values of each attribute of this game."""
        rows = read_attributes("attributes", self.attributes)
        return tuple(row[: self.num_values] for row in rows[-self.num_attributes :])

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words of the finite core: all values, attribute by attribute."""
        return tuple(value for row in self.values for value in row)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all objects that can be drawn, in alphabetical order."""
        return tuple(sorted(names_of(self.values)))

    @cached_property
    def _core(self) -> tuple[tuple[Utterance, ...], tuple[Utterance, ...]]:
        says = tuple(Utterance("say", (), word) for word in self.words)
        return says, tuple(talk.every(self.pick))

    @cached_property
    def pick(self) -> talk.Move:
        """The move of the picker."""
        return talk.Move("pick", (talk.Integer(1, self.num_objects),), message="no")

    @property
    def max_turns(self) -> int:
        return 2 * self.num_rounds

    @property
    def max_chance_nodes(self) -> int:
        return self.num_objects + self.num_rounds

    def initial_state(self) -> State:
        return State()

    def current_player(self, state: State) -> int:
        if len(state.said) == 2 * self.num_rounds:
            return TERMINAL
        if len(state.objects) < self.num_objects:
            return CHANCE
        if len(state.said) == 2 * len(state.targets):
            return CHANCE
        return len(state.said) % 2

    def chance_outcomes(self, state: State) -> list[tuple[Action, float]]:
        if len(state.objects) < self.num_objects:
            left = [n for n in range(len(self.names)) if n not in state.objects]
        else:
            left = sorted(state.objects)
        return [(number, 1 / len(left)) for number in left]

    def legal_actions(self, state: State) -> Sequence[Utterance]:
        player = self.current_player(state)
        return self._core[player] if player >= 0 else ()

    def apply(self, state: State, action: Action) -> State:
        if isinstance(action, Utterance):
            return state._replace(said=(*state.said, action))
        if len(state.objects) < self.num_objects:
            return state._replace(objects=(*state.objects, action))
        return state._replace(targets=(*state.targets, action))

    def returns(self, state: State) -> tuple[float, float]:
        paid = state.num_right / self.num_rounds
        return (paid, paid)

    def measures(self, state: State) -> dict[str, float]:
        return measured(state, self.names, self.words, self.num_rounds)

    @property
    def measure_bounds(self) -> dict[str, tuple[float, float]]:
        most = (self.max_message + 1) // 2
        return {
            "success": (0.0, 1.0),
            "truthfulness": (0.0, 1.0),
            "words": (0.0, float(most)),
        }

    @property
    def known_value(self) -> str:
        n = self.num_objects
        return f"with a shared code 1; silent play 1/{n}; random play 1/{n}"

    def _known_targets(self, state: State, seat: int) -> tuple[int, ...]:
        if seat == DESCRIBER:
            return state.targets
        return state.targets[: len(state.said) // 2]

    def observe(self, state: State, seat: int) -> str:
        player, number = self.current_player(state), len(state.said) // 2
        drawn = state.objects if seat == PICKER else sorted(state.objects)
        lines = [texts.stage_text(player, seat, number, self.num_rounds)]
        lines.append(texts.objects_text([self.names[n] for n in drawn], seat))
        if seat == DESCRIBER and len(state.targets) > number:
            lines.append(f"The target is: {self.names[state.targets[-1]]}.")
        targets = [self.names[n] for n in self._known_targets(state, seat)]
        picked = [self.names[n] for n in state.picked]
        lines += texts.history(state.said, targets, picked, seat)
        if player == TERMINAL:
            right = state.num_right
            lines.append(f"{right} of {self.num_rounds} picks were right.")
        return "\n".join(lines)

    def information_state(self, state: State, seat: int) -> Any:
        """The picker knows the order; the describer knows the targets in time."""
        objects = state.objects if seat == PICKER else tuple(sorted(state.objects))
        messages = tuple(said.message for said in state.said[::2])
        targets = self._known_targets(state, seat)
        return (seat, objects, targets, messages, state.picked)

    def features(self, state: State, seat: int) -> NDArray[np.float32]:
        """What a seat knows as numbers.

        One-hot seat (2); share of rounds over; whether the seat is to move; number of each
        place's object, from 1 (n, in the seat's order); then for each round: one-hot target, as
        far as it is known, and one-hot picked object (n each, in the seat's order), and one-hot
        word of the message, if it is one of the finite core.
        """
        n, words = self.num_objects, self.words
        order = list(state.objects) if seat == PICKER else sorted(state.objects)
        head = np.zeros(4 + n, np.float32)
        head[seat] = 1
        head[2] = len(state.said) // 2 / self.num_rounds
        head[3] = self.current_player(state) == seat
        for place, number in enumerate(order):
            head[4 + place] = 1 + number
        rounds = np.zeros((self.num_rounds, 2 * n + len(words)), np.float32)
        for row, target in enumerate(self._known_targets(state, seat)):
            rounds[row, order.index(target)] = 1
        for row, picked in enumerate(state.picked):
            rounds[row, n + order.index(picked)] = 1
        for row, said in enumerate(state.said[::2]):
            if said.message in words:
                rounds[row, 2 * n + words.index(said.message)] = 1
        return np.concatenate([head, rounds.ravel()])

    def action_text(self, state: State, action: Action) -> str:
        if isinstance(action, int):
            return self.names[action]
        return talk.written(action, (SAY, self.pick))

    def parse(self, state: State, text: str) -> Utterance:
        player = self.current_player(state)
        if player < 0:
            raise IllegalAction("nobody is to move")
        move = SAY if player == DESCRIBER else self.pick
        said = talk.read(text, (move,), self.max_message)
        word = fold(said.message)
        return said._replace(message=word) if word in self.words else said

    def rules(self, seat: int) -> str:
        rules = texts.rules_text(seat, self.num_objects, self.num_rounds, self.values)
        move = SAY if seat == DESCRIBER else self.pick
        return f"{rules} {talk.how_to_write((move,), self.max_message)}"

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """For the picker another target; for the describer another order of the objects."""
        if seat == PICKER:
            if len(state.targets) == len(state.said) // 2:
                return state
            target = rng.choice(sorted(state.objects))
            return state._replace(targets=(*state.targets[:-1], target))
        if len(state.objects) < self.num_objects:
            return state
        order = sorted(state.objects)
        rng.shuffle(order)
        said = list(state.said)
        for turn, picked in zip(range(1, len(said), 2), state.picked, strict=True):
            said[turn] = Utterance("pick", (order.index(picked) + 1,))
        return State(tuple(order), state.targets, tuple(said))
