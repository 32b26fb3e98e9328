"""Referential game: one player describes an object in words, the other picks it.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("referential-v1", num_objects=4)`; see `Referential`  |
| Agents      | `player_0` describes, `player_1` picks                                 |
| Kind        | cooperative, imperfect information                                     |
| Actions     | texts: "say: " and a message, such as "say: red"; "pick 2"             |
| Rewards     | both get at most 1/R for each right pick, in R = `num_rounds` rounds   |
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

**Words cost.** A right pick after a message of w words pays 1 - c (w - 1), c being `word_cost`, or 0 if
that is less, times 1/R. So one word that fits the target alone pays most. The picker reads a message
in lower case and without punctuation. The referee of clues (`arena_envs/games/kits/clues.py`)
refuses a message with anything but English words, with a number, or with a word three times: then
the picker does not read it, and the round is over without a pick.

An object has a value of each of the last `num_attributes` attributes of a list, and each attribute
has its first `num_values` values. If there are 50 or more objects, `split` names the half that chance
draws from; with fewer, none is held out. `attributes` takes a list of your own. Smallest:
`num_attributes=1, num_values=2, num_objects=2, num_rounds=1`; largest shipped: `num_attributes=4,
num_values=5, num_objects=12`.

The legal actions of the describer are messages of one word, a value of an attribute; players may
say anything of at most `max_message` characters. A message that consists of such a word is read in
lower case. n is at most the number of these words, so one word per round is enough: a pair that
shares a code, in which each object has a word of its own, scores 1. If the picker learns nothing
from the messages, it is right with probability 1/n, whatever it does.

Bots: `referrer:honest` says the fewest values that fit the target alone; `referrer:optimal` uses a
code by position in the alphabet. The first pair scores 0.99, the second 1, a mixed pair less. Cross-play between populations is
measured by `arena bench tournament referrer:honest referrer:optimal -g referential --out runs/codes`.

Cheapest trick known: a code of one word per object, as that of `referrer:optimal`, pays a pair that has
agreed on it 1; no referee sees it, and a stranger does not know it. To copy the line of the target pays
0.7 in the default game.

Not as in the source: objects are lists of values instead of pictures, messages are English words
instead of symbols, words cost, and a referee reads them.

Measures of an episode, over the rounds: `success`, the share of right picks; `truthfulness`, the
share of the values said that the target has (1 if none is said; words count as in `taboo-v1`);
`words`, the mean number of words of a message; `refused`, the share of messages that were refused.

History: v1 has costs of words, the referee, objects held out and 4 attributes with 4 values each
instead of 3 with 3.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

from arena_envs import talk
from arena_envs.game import (
    CHANCE,
    SPLITS,
    TERMINAL,
    Vector,
    counted,
    filled,
    np,
    of_split,
    param,
)
from arena_envs.games.kits.clues import fault_of, heard
from arena_envs.games.kits.words import (
    Rows,
    check_used,
    check_words,
    rows_of,
    shipped_rows,
    words_of,
)
from arena_envs.scenes.shapes import Cell, Shapes, Table, cells, talk_of
from arena_envs.talk import Utterance

SHIPPED = "attributes"  # arena_envs/words/attributes.csv
HELD_OUT = 50  # objects from which on half of them are held out
# the move that stands for the pick after a refused message, with the fault
SKIP = "skip"
_WORD = re.compile("[a-z]{1,20}")


def read_attributes(
    param: str, source: str | Path | Rows
) -> tuple[tuple[str, ...], ...]:
    """The values of each attribute, in the order in which they name an object.

    Args:
        param: name of the game's parameter, for error messages.
        source: "attributes", the list that ships with the package; or the path of a UTF-8 file
            with one attribute per line, its values separated by commas; or the values of each
            attribute.

    Raises:
        ValueError: there is no such file; an attribute has fewer than two values; or a value is
            empty, stands twice or is not made of 1 to 20 letters a to z. Names the file and the
            line.
    """
    if source == SHIPPED:
        return shipped_rows(SHIPPED)
    rows, where = rows_of(param, source, SHIPPED, "attribute")
    if not rows:
        raise ValueError(f"want an attribute or more in {param}, got none")
    first: dict[str, int] = {}
    for number, row in enumerate(rows, 1):
        place = f"{where} {number}"
        check_words(row, f"{place}, value")
        if others := [value for value in row if not _WORD.fullmatch(value)]:
            raise ValueError(
                f"{place}: want values of 1 to 20 letters a to z, got "
                f"{others[0]!r:.80}; correct it"
            )
        if len(row) < 2:
            raise ValueError(
                f"{place}: want two values or more, got {len(row)}; add some"
            )
        for value in row:
            if value in first:
                raise ValueError(
                    f"{place}: {value!r} stands at {first[value]} already; delete one "
                    "of the two"
                )
            first[value] = number
    return tuple(map(tuple, rows))


def names_of(attributes: Rows) -> tuple[str, ...]:
    """The names of all objects with these attributes.

    >>> names_of([("small", "large"), ("circle", "star")])
    ('small circle', 'small star', 'large circle', 'large star')
    """
    return tuple(" ".join(values) for values in product(*attributes))


DESCRIBER, PICKER = 0, 1


class State(NamedTuple):
    """The objects, by their numbers in the list of all, in the picker's order; the rounds.

    Attributes:
        objects: those drawn so far.
        targets: the objects that are targets, one for each round so far.
        said: all utterances in order.
    """

    objects: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    said: tuple[Utterance, ...] = ()

    @property
    def picked(self) -> tuple[int, ...]:
        """The objects picked so far; -1 in rounds whose message was refused."""
        return tuple(
            -1 if utterance.move == SKIP else self.objects[utterance.values[0] - 1]
            for utterance in self.said[1::2]
        )

    @property
    def num_right(self) -> int:
        """Right picks so far."""
        pairs = zip(self.targets, self.picked, strict=False)
        return sum(target == picked for target, picked in pairs)


ROLES = ("describer", "picker")


Action = Utterance | int  # chance draws an object, then a target in each round

SAY = talk.Move("say", message="must")


@dataclass(frozen=True)
class Referential(talk.PairedTurns[State, Action]):
    """Describe an object in words; the other player picks it.

    Args:
        num_objects: objects to choose from, 2 to 12; at most as many as there are words.
        num_rounds: 1 to 20.
        num_attributes: attributes of an object, the last of the list.
        num_values: values of each attribute, the first of the list; at least 2.
        max_message: longest message in characters, 1 to 400.
        attributes: "attributes"; or the path of a file with one attribute per line, its values
            separated by commas; or the values of each attribute.
        word_cost: what each word after the first takes of the pay of a right pick, 0 to 1.
        split: "train" or "test", the half of the objects that chance draws from, if there are
            50 or more.

    Raises:
        ValueError: a parameter is out of range, or the list has an empty or malformed value or a
            value twice.
    """

    seat_roles = ("speaker", "listener")
    num_objects: int = param(
        4,
        2,
        lambda game: min(12, len(game.words), len(game.names)),
        knob=(2, 3, 4, 6, 8, 12),
    )
    num_rounds: int = param(3, 1, 20)
    num_attributes: int = 4
    num_values: int = 4
    max_message: int = param(200, 1, 400)
    attributes: str | Path | Rows = SHIPPED
    word_cost: float = param(0.1, 0, 1)
    split: str = "train"

    pays_rounds = True
    first_state = State()
    kind = "cooperative"
    min_return = 0.0
    max_return = 1.0
    heuristic = "referrer:honest"

    def __post_init__(self) -> None:
        rows = read_attributes("attributes", self.attributes)
        if self.attributes != SHIPPED:  # so that records hold the words themselves
            object.__setattr__(self, "attributes", rows)
        num = len(rows)
        check_used("num_attributes", self.num_attributes, 1, "attributes", num)
        used = rows[-self.num_attributes :]
        num = min(map(len, used))
        check_used("num_values", self.num_values, 2, "an attribute in use", num)
        super().__post_init__()

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
        names = names_of(self.values)
        if len(names) >= HELD_OUT or self.split not in SPLITS:
            return tuple(sorted(of_split(names, self.split)))
        if self.split != "train":
            raise ValueError(
                f"want split='train' with fewer than {HELD_OUT} objects, got "
                f"{self.split!r}: give more num_attributes or num_values"
            )
        return tuple(sorted(names))

    @property
    def instances(self) -> Sequence[str]:
        return self.names if len(names_of(self.values)) >= HELD_OUT else ()

    @cached_property
    def _core(self) -> tuple[tuple[Utterance, ...], tuple[Utterance, ...]]:
        says = tuple(Utterance("say", (), word) for word in self.words)
        return says, tuple(talk.every(self.pick))

    @cached_property
    def pick(self) -> talk.Move:
        """The move of the picker."""
        return talk.Move("pick", (talk.Integer(1, self.num_objects),), message="no")

    @property
    def max_chance_nodes(self) -> int:
        return self.num_objects + self.num_rounds

    def current_player(self, state: State) -> int:
        if len(state.said) == 2 * self.num_rounds:
            return TERMINAL
        is_drawn = len(state.objects) == self.num_objects
        is_drawn = is_drawn and len(state.said) < 2 * len(state.targets)
        return len(state.said) % 2 if is_drawn else CHANCE

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
            if action.move == "say" and (fault := self._fault(action.message)):
                refused = action._replace(audience=(DESCRIBER,))
                skipped = Utterance(SKIP, (fault,))
                return state._replace(said=(*state.said, refused, skipped))
            return state._replace(said=(*state.said, action))
        if len(state.objects) < self.num_objects:
            return state._replace(objects=(*state.objects, action))
        return state._replace(targets=(*state.targets, action))

    def _fault(self, message: str) -> str:
        return fault_of(message, allowed=self.words, numbers=0)

    def returns(self, state: State) -> tuple[float, float]:
        rounds = zip(state.targets, state.picked, state.said[::2], strict=False)
        total = sum(
            max(0.0, 1 - self.word_cost * (len(description.message.split()) - 1))
            for target, picked, description in rounds
            if target == picked
        )
        return (total / self.num_rounds, total / self.num_rounds)

    def measures(self, state: State) -> dict[str, float]:
        """Success, truthfulness and words, as the page defines them."""
        pairs = list(zip(state.targets, state.said[::2], strict=False))
        true = total = 0
        for target, description in pairs:
            values = words_of(description.message) & {*self.words}
            total += len(values)
            true += len(values & {*self.names[target].split()})
        num_words = sum(len(description.message.split()) for _, description in pairs)
        return {
            "success": state.num_right / self.num_rounds,
            "truthfulness": true / total if total else 1.0,
            "words": num_words / max(1, len(pairs)),
            "refused": state.picked.count(-1) / max(1, len(pairs)),
        }

    @property
    def measure_bounds(self) -> dict[str, tuple[float, float]]:
        shares = dict.fromkeys(("success", "truthfulness", "refused"), (0.0, 1.0))
        return {**shares, "words": (0.0, float((self.max_message + 1) // 2))}

    @property
    def known_value(self) -> str:
        n = self.num_objects
        return f"with a shared code 1; silent play 1/{n}; random play 1/{n}"

    def _known_targets(self, state: State, seat: int) -> tuple[int, ...]:
        return state.targets[: None if seat == DESCRIBER else len(state.said) // 2]

    def observe(self, state: State, seat: int) -> str:
        player, number = self.current_player(state), len(state.said) // 2
        now = "Chance draws."
        if player == TERMINAL:
            now = f"The game is over after {counted(self.num_rounds, 'round')}."
        elif player >= 0:
            task = ("describe the target", "pick an object")[player]
            now = f"Round {number + 1} of {self.num_rounds}. {talk.to_move(player, seat, task)}"
        lines = [f"You are player_{seat}, the {ROLES[seat]}. {now}"]
        objects = state.objects if seat == PICKER else sorted(state.objects)
        names = [self.names[n] for n in objects]
        if seat == PICKER:
            names = [f"{place}. {name}" for place, name in enumerate(names, 1)]
        object_line = f"The objects are: {', '.join(names)}."
        lines.append(object_line if names else "No object has been drawn yet.")
        if seat == DESCRIBER and len(state.targets) > number:
            lines.append(f"The target is: {self.names[state.targets[-1]]}.")
        lines += self._history(state, seat)
        if player == TERMINAL:
            lines.append(
                f"{state.num_right} of {self.num_rounds} picks were right: your score is "
                f"{round(self.returns(state)[0], 4):.10g}."
            )
        return "\n".join(lines)

    def _history(self, state: State, seat: int) -> Iterator[str]:
        """The latest rounds in full, of earlier ones the picks."""
        utterances, targets, picked = state.said, state.targets, state.picked

        def full_line(turn: int) -> str:
            number, start = turn // 2, f"Round {turn // 2 + 1}:"
            speaker = talk.named(turn % 2, seat)
            if utterances[turn].move == SKIP:
                why = (
                    f", because {utterances[turn].values[0]}"
                    if seat == DESCRIBER
                    else ""
                )
                return f"{start} the message was refused{why}"
            if turn % 2 == DESCRIBER:
                return f"{start} {speaker} {'said' if talk.is_heard(utterances[turn], seat) else 'spoke'}"
            result = "right"
            if picked[number] != targets[number]:
                result = f"wrong: the target was {self.names[targets[number]]}"
            return f"{start} {speaker} picked {self.names[picked[number]]}, which was {result}"

        def brief(number: int) -> str:
            if picked[number] < 0:
                return f"{number + 1}. refused"
            result = "right" if picked[number] == targets[number] else "wrong"
            return f"{number + 1}. {self.names[picked[number]]} ({result})"

        return talk.rounds_told(utterances, seat, full_line, brief)

    def information_state(self, state: State, seat: int) -> Any:
        """The picker knows the order; the describer knows the targets in time."""
        objects = state.objects if seat == PICKER else tuple(sorted(state.objects))
        heard_utterances = (
            state.said if seat == DESCRIBER else talk.as_heard(state.said, seat)
        )
        messages = tuple(description.message for description in heard_utterances[::2])
        targets = self._known_targets(state, seat)
        return (seat, objects, targets, messages, state.picked)

    def features(self, state: State, seat: int) -> Vector:
        """The knowledge of a seat as numbers.

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
            if picked >= 0:
                rounds[row, n + order.index(picked)] = 1
        for row, description in enumerate(state.said[::2]):
            if description.message in words:
                rounds[row, 2 * n + words.index(description.message)] = 1
        return np.concatenate([head, rounds.ravel()])

    def action_text(self, state: State, action: Action) -> str:
        if isinstance(action, int):
            return self.names[action]
        return talk.written(action, (SAY, self.pick))

    def moves_at(self, state: State) -> tuple[talk.Move, ...]:
        return (SAY if self.current_player(state) == DESCRIBER else self.pick,)

    def parse(self, state: State, text: str) -> Utterance:
        utterance: Utterance = super().parse(state, text)
        return (
            utterance._replace(message=heard(utterance.message))
            if utterance.message
            else utterance
        )

    def rules(self, seat: int) -> str:
        kinds = "; ".join(", ".join(row) for row in self.values)
        move = SAY if seat == DESCRIBER else self.pick
        syntax = talk.how_to_write((move,), self.max_message)
        return filled("referential", self, kinds=kinds, seat=seat, how=syntax)

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
        utterances = list(state.said)
        for turn, picked in zip(
            range(1, len(utterances), 2), state.picked, strict=True
        ):
            if picked >= 0:
                utterances[turn] = Utterance("pick", (order.index(picked) + 1,))
        return State(tuple(order), state.targets, tuple(utterances))


def _names_few(game: Referential, state: State, target: int) -> str:
    """The fewest values of a target that no other object has together."""
    values = game.names[target].split()
    others = [{*game.names[n].split()} for n in state.objects if n != target]
    sets = (few for num in range(len(values)) for few in combinations(values, num + 1))
    return " ".join(next(few for few in sets if not any({*few} <= o for o in others)))


class Referrer(talk.Scripted):
    """Plays the referential game in one of four styles, as the describer and as the picker.

    | Style     | Describer: says                           | Picker: picks                       |
    |-----------|-------------------------------------------|-------------------------------------|
    | `honest`  | the fewest values that fit it alone       | what has most of the values said    |
    | `greedy`  | its value that the fewest objects have    | what has most of the values said    |
    | `silent`  | always the first word                     | any object                          |
    | `optimal` | word k for object k in alphabetical order | object k in alphabetical order      |

    Pickers draw among equally good objects. The code of `optimal` is a convention: it works with
    itself. Where it hears no word of the code, it picks any object.
    """

    game, styles = Referential, ("greedy", "honest", "optimal", "silent")

    def reply(self, game: Referential, state: State, rng: random.Random) -> Utterance:
        if game.current_player(state) == DESCRIBER:
            words = self._says(game, state, state.targets[-1])
            return Utterance("say", (), words[: game.max_message].strip())
        heard, heard_words = state.said[-1].message, words_of(state.said[-1].message)
        scores = [0] * game.num_objects
        if self.style == "optimal":
            scores = [heard == self._says(game, state, n) for n in state.objects]
        elif self.style != "silent":
            names = [game.names[n].split() for n in state.objects]
            scores = [len(heard_words & {*values}) for values in names]
        best = [n for n, score in enumerate(scores, 1) if score == max(scores)]
        return Utterance("pick", (rng.choice(best),))

    def _says(self, game: Referential, state: State, target: int) -> str:
        if self.style == "honest":
            return _names_few(game, state, target)
        if self.style == "greedy":
            values = [v for n in state.objects for v in game.names[n].split()]
            return min(game.names[target].split(), key=values.count)
        code = sorted(state.objects).index(target) if self.style == "optimal" else 0
        return game.words[code]


def scene(game: Referential, state: State, viewer: int | None) -> Shapes:
    """The objects in the order of the viewer, with target and pick of the round, and the talk."""
    is_ordered = viewer in (None, PICKER)
    order = state.objects if is_ordered else sorted(state.objects)
    number = max(0, len(state.targets) - 1)  # of the latest round, from 0
    target = state.targets[-1] if state.targets else -1
    if viewer == PICKER and len(state.said) // 2 < len(state.targets):
        target = -1
    picked = state.picked[number] if len(state.picked) > number else -1
    rows = []
    for place, each in enumerate(order, 1):
        name = Cell(game.names[each], "green" if each == target else "")
        marks = ("target" * (each == target), "picked" * (each == picked))
        rows.append(cells(str(place) if is_ordered else "", name, *marks))
    title = f"objects; round {number + 1} of {game.num_rounds}"
    table = Table(title, ("number", "object", "", ""), rows)

    def full_line(turn: int, utterance: Utterance) -> str:
        action = "describes"
        if turn % 2:
            place = state.picked[turn // 2]
            action = f"picks {game.names[place]}" if place >= 0 else "reads nothing"
        return f"{action} (round {turn // 2 + 1})"

    return [*([table] if rows else []), *talk_of(state.said, viewer, full_line)]
