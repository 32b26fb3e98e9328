r"""Questions: seats answer a question together, by a protocol that says who reads what.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("questions-v0", protocol="debate", source="arithmetic")`, see `Questions` |
| Agents      | those of the protocol; `vote` has three solvers                        |
| Kind        | cooperative, or mixed where the protocol pays seats differently; imperfect information |
| Actions     | texts: "answer TEXT", "say: TEXT", "accept", "revise: TEXT", "choose N" |
| Rewards     | at the end, from 0 to 1: how right the answer is that counts, or as the protocol says |
| Length      | at most the turns of the protocol; 3 in `vote`                         |
| Known value | right answers: 1 for each seat, if all are paid for the answer that counts |
| Source      | Y. Du et al., *Improving Factuality and Reasoning in Language Models through |
|             | Multiagent Debate* (2023), https://arxiv.org/abs/2305.14325; others in the files |

Chance draws a question of `source`, each equally likely, and the seats take turns as the protocol says. Only
the seats that it names read the question, and what another seat writes. At the end all learn the right answer and
the one that counted: the answer that most of the seats that count gave last; among equals, that of the lowest seat.

[docs/questions.md](../questions.md) lists the protocols, the sources, the fields of files, and how to write a protocol.

A reply ends with "answer" and the answer; words before it are the message. Without the word "answer", a
`\boxed{...}` or the last line is the answer. The legal actions are a finite core, the same for every question: the
most common answers to the questions of the train split, and "answer unknown", which a bad reply becomes.

Measure of an episode: `right`, the score of the answer that counted.
"""

import random
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from arena_envs import talk
from arena_envs.checks import did_you_mean
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    BaseGame,
    IllegalAction,
    Kind,
    Vector,
    check_number,
    fold,
    np,
    over_text,
    param,
)
from arena_envs.games.questions.tasks import Task, TaskSource, boxed, plain, sources
from arena_envs.hostile import break_markup, quoted
from arena_envs.talk import Utterance

MAX_QUESTION = 4000  # characters, all questions that are drawn together
MAX_ANSWER = 400
MAX_HISTORY = 10_000  # of earlier turns that are shown
MAX_CORE = 32  # answers of the finite core
MAX_DRAWS = 50  # states that `resample` tries
UNKNOWN = Utterance("answer", ("unknown",))
TOLD = {  # what a seat did, in the past
    "answer": "answered",
    "say": "said",
    "accept": "accepted",
    "revise": "asked to revise",
    "choose": "chose question",
}
HOW = {  # the task of a move, and how it is written
    "answer": ("answer", 'You answer with "answer" and your answer: "answer 42".'),
    "say": ("say something", 'You write "say:" and your words, or "say nothing".'),
    "judge": ("accept or revise", 'You write "accept", or "revise:" and what to change.'),
    "choose": ("choose a question", 'You write "choose" and a number: "choose 1".'),
}  # fmt: skip
PAID = {
    "right": "how right the answer is that counts",
    "wrong": "1 less how right the answer is that counts",
    "own": "how right your own last answer is",
    "split": "1 if half of the others' last answers are right, 0 if all or none are",
}
_ANSWER = re.compile(r"(?<!\w)answer(?!\w)(?:\s+is(?!\w))?[\s:=*]*", re.IGNORECASE)
_JUDGED = re.compile(r"\A\W*(accept|revise)\b|^\W*(accept|revise)\W*\Z", re.I | re.M)
_SHOWN = re.compile(r"[!-+\--Z\\^-z|~]+(?: [!-+\--Z\\^-z|~]+)*")  # see `action_text`


class Seat(NamedTuple):
    """A seat of a protocol; `docs/questions.md` has the keys."""

    name: str
    task: str
    sees: Collection[str]
    num: int = 1
    paid: str = "right"


class Plan(NamedTuple):
    """A protocol; `docs/questions.md` has the keys. A turn is a seat and its move."""

    about: str
    seats: Sequence[Any]
    turns: Sequence[Any]
    counts: str
    last: Sequence[Any] = ()
    rounds: int = 1
    stop: str = "never"
    simultaneous: bool = False
    draws: int = 1

    @property
    def schedule(self) -> Sequence[tuple[int, str]]:
        """The turns of a game that nothing stops."""
        return (*(tuple(self.turns) * self.rounds), *self.last)

    def hearers(self, seat: int) -> tuple[int, ...]:
        """The seats that read what a seat writes, itself among them."""
        name, seats = self.seats[seat].name, enumerate(self.seats)
        return tuple(n for n, one in seats if n == seat or name in one.sees)


_FOLDER = resources.files(__package__) / "protocols"


def protocols() -> list[str]:
    """The names of the protocols that are shipped."""
    return sorted(file.name.removesuffix(".toml") for file in _FOLDER.iterdir())


def read_plan(protocol: str, num: int | None, rounds: int | None) -> Plan:
    """The plan of a protocol; `num` and `rounds` replace its own numbers.

    Raises:
        ValueError: there is no such protocol, or its file has a fault.
    """
    is_shipped = protocol in protocols()
    if not is_shipped and not protocol.endswith(".toml"):
        hint = did_you_mean(protocol, protocols())
        raise ValueError(
            f"no protocol {protocol!r:.80}; {hint} Or name a file, as my.toml"
        )
    file: Any = _FOLDER / f"{protocol}.toml" if is_shipped else Path(protocol)
    try:
        given = tomllib.loads(file.read_text("utf-8"))
        plan = _filled(Plan, given)
        seats = [_filled(Seat, one) for one in plan.seats]
        copies = ([one] * (num if num and one.num > 1 else one.num) for one in seats)
        seats = [one for several in copies for one in several]
        turns, last = ([*_turns(each, seats)] for each in (plan.turns, plan.last))
        rounds = rounds or plan.rounds
        plan = plan._replace(seats=seats, turns=turns, last=last, rounds=rounds)
        _check_plan(plan)
    except (OSError, ValueError) as error:  # also of TOML and UTF-8
        raise ValueError(
            f"protocol {protocol}: {error}; docs/questions.md shows how it is written"
        ) from error
    return plan


def _filled(kind: Any, given: Mapping[str, Any]) -> Any:
    """A seat or a plan of a table of the file, whose keys and types are checked."""
    types = {"num": int, "rounds": int, "draws": int, "simultaneous": bool}
    lists = ("seats", "turns", "last", "sees")
    for key in given:
        _check_known("key", key, kind._fields)
        wanted = types.get(key, list if key in lists else str)
        if type(given[key]) is not wanted:
            raise ValueError(f"want {key} as {wanted.__name__}, got {given[key]!r:.80}")
    if missing := [k for k in kind._fields if k not in {*given, *kind._field_defaults}]:
        raise ValueError(f"want the keys {', '.join(missing)} too; add them")
    return kind(**given)


def _turns(given: Sequence[str], seats: Sequence[Seat]) -> Iterator[tuple[int, str]]:
    """Seat and move of each turn; "solver answer" is a turn of each solver."""
    for turn in given:
        name, _, move = str(turn).partition(" ")
        _check_known("seat", name, [one.name for one in seats])
        _check_known("move", move, HOW)
        yield from ((n, move) for n, one in enumerate(seats) if one.name == name)


def _check_known(what: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise ValueError(f"no {what} {name!r:.80}; {did_you_mean(str(name), known)}")


def _check_plan(plan: Plan) -> None:
    names, moves = [one.name for one in plan.seats], [move for _, move in plan.schedule]
    for one in plan.seats:
        _check_known("pay", one.paid, PAID)
        for seen in one.sees:
            _check_known("seat to see", seen, ("question", "evidence", *names))
    _check_known("stop", plan.stop, ("never", "agree", "accept"))
    _check_known("seat that counts", plan.counts, names)
    answers = [names[seat] for seat, move in plan.schedule if move == "answer"]
    all_choose = [seat for seat, _ in plan.turns] == list(range(len(names)))
    chooses = moves.count("choose")
    for is_kept, wanted in {
        "1 to 9 seats and 1 to 9 rounds": 0 < len(names) < 10 and 0 < plan.rounds < 10,
        f"a turn in which {plan.counts} answers": plan.counts in answers,
        "simultaneous = true with one turn of each seat and no last turns": not plan.simultaneous
        or (all_choose and not plan.last),
        'a move "choose" if and only if draws is 2 to 5': chooses
        == (1 < plan.draws < 6),
        "draws of at least 1": plan.draws > 0,
    }.items():
        if not wanted:
            raise ValueError(f"want {is_kept}, got {plan!r:.200}; correct it")


class State(NamedTuple):
    """The numbers of the questions drawn, and all utterances in order."""

    drawn: tuple[int, ...] = ()
    said: tuple[Utterance, ...] = ()


Action = Utterance | int  # chance draws the number of a question


@dataclass(frozen=True)
class Questions(BaseGame[State, Action]):
    """Questions that seats answer by a protocol.

    Args:
        protocol: a name of `protocols()`, or the path of a TOML file.
        source: a string of the door `arena.tasks`, such as `"jsonl:PATH"`.
        num: seats of the role that has several, 1 to 8; None: as the protocol says.
        rounds: 1 to 9; None: as the protocol says.
        max_message: longest message in characters, as it is quoted, 1 to 4,000.
        split: "train" or "test", the questions that are drawn from.

    Raises:
        ValueError: an unknown protocol or source, a fault of a file, a number out of range.
        ModuleNotFoundError: the source needs a package; says what to install.
    """

    protocol: str = "vote"
    source: str = "arithmetic"
    num: int | None = param(None, 1, 8)
    rounds: int | None = param(None, 1, 9)
    max_message: int = param(300, 1, 4000)
    split: str = "train"

    first_state = State()
    num_actions = None
    min_return, max_return = 0.0, 1.0
    shares_measured = ("right",)
    default_value = "right answers 1"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tasks  # noqa: B018 # refuses bad sources and protocols

    @cached_property
    def plan(self) -> Plan:
        """The protocol."""
        return read_plan(self.protocol, self.num, self.rounds)

    @cached_property
    def bank(self) -> TaskSource:
        """The source."""
        return sources.make(self.source)

    @cached_property
    def tasks(self) -> Sequence[Task]:
        """The questions that chance draws from."""
        return self._fitting(self.split)

    def _fitting(self, split: str) -> Sequence[Task]:
        """The questions of a split that are short enough to be shown."""
        most, tasks = MAX_QUESTION // self.plan.draws, self.bank.tasks(split)
        fit = [
            t for t in tasks if len(t.text()) <= most and len(t.answer) <= MAX_ANSWER
        ]
        if not fit:
            raise ValueError(
                f"want questions of at most {most} characters and answers of {MAX_ANSWER}, "
                f"got none in {self.source!r}; take another source"
            )
        return fit

    @property
    def instances(self) -> Sequence[str]:
        return [task.text() for task in self.tasks]

    @cached_property
    def core(self) -> Sequence[Utterance]:
        """The most common answers to questions of the train split, and "unknown"."""
        answers = [fold(task.answer).upper() for task in self._fitting("train")]
        shown = Counter(a for a in answers if _SHOWN.fullmatch(a) and a != "UNKNOWN")
        common = sorted(
            (a for a, _ in shown.most_common(MAX_CORE)), key=lambda a: (len(a), a)
        )
        return [*(Utterance("answer", (answer,)) for answer in common), UNKNOWN]

    @property
    def num_players(self) -> int:
        return len(self.plan.seats)

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        pays = {one.paid for one in self.plan.seats}
        return "cooperative" if pays == {"right"} else "mixed"

    @property
    def simultaneous(self) -> bool:  # type: ignore[override]
        return self.plan.simultaneous

    @property
    def max_turns(self) -> int:
        return len(self.plan.schedule)

    def current_player(self, state: State) -> int:
        if len(state.drawn) < self.plan.draws:
            return CHANCE
        return TERMINAL if self._is_over(state) else self._turn(state)[0]

    def _turn(self, state: State) -> tuple[int, str]:
        """The seat to move, and its move."""
        return self.plan.schedule[len(state.said)]

    def _is_over(self, state: State) -> bool:
        said, plan, num = state.said, self.plan, len(self.plan.turns)
        if len(said) == self.max_turns:
            return True
        if not said or len(said) % num or len(said) > num * plan.rounds:
            return False  # rounds end together
        if plan.stop == "accept":
            return said[-1].move == "accept"
        answers = {self._plain(state, x) for x in said[-num:] if x.move == "answer"}
        return plan.stop == "agree" and len(answers) == 1

    def _plain(self, state: State, said: Utterance) -> str:
        return plain(self.task(state), said.values[0])

    def task(self, state: State) -> Task:
        """The question that is answered: the one that was chosen, or the first."""
        chosen = [said.values[0] for said in state.said if said.move == "choose"]
        return self.tasks[state.drawn[chosen[0] - 1 if chosen else 0]]

    def chance_outcomes(self, state: State) -> list[tuple[Action, float]]:
        num = len(self.tasks)
        return [(number, 1 / num) for number in range(num)]

    def legal_actions(self, state: State) -> Sequence[Utterance]:
        return (
            () if self.current_player(state) < 0 else self._core(self._turn(state)[1])
        )

    def _core(self, move: str) -> Sequence[Utterance]:
        return {
            "answer": self.core,
            "say": [Utterance("say")],
            "judge": [Utterance("accept"), Utterance("revise")],
            "choose": [Utterance("choose", (n + 1,)) for n in range(self.plan.draws)],
        }[move]

    def shown_actions(self, state: State) -> Sequence[Utterance]:
        """Two answers, or all legal actions of another move."""
        legal = self.legal_actions(state)
        return legal[:2] if UNKNOWN in legal else legal

    def default_action(self, state: State) -> Utterance:
        return self.legal_actions(state)[-1]

    def apply(self, state: State, action: Action) -> State:
        if isinstance(action, int):
            return State((*state.drawn, action))
        return State(state.drawn, (*state.said, action))

    def action_text(self, state: State, action: Action) -> str:
        if isinstance(action, int):
            return f"question {action}"
        move, values, message, _ = action
        if move in ("answer", "choose"):
            text = f"{move} {values[0]}"
            return f"{message}\n{text}" if message else text
        plain = "say nothing" if move == "say" else move
        return f"{move}: {message}" if message else plain

    def parse(self, state: State, text: str) -> Utterance:
        if not (legal := self.legal_actions(state)):
            raise IllegalAction("nobody is to move")
        text = text.strip().encode("utf-8", "replace").decode("utf-8")
        known = {fold(self.action_text(state, action)): action for action in legal}
        if (wanted := fold(text).rstrip(".")) in known:
            return known[wanted]
        seat, move = self._turn(state)
        said = _READERS[move](text)
        if move == "choose" and said not in legal:
            raise IllegalAction(
                f"want a number from 1 to {len(legal)}, got {text[:80]!r}"
            )
        text = fold(self.action_text(state, said._replace(message="")))
        said = known[text]._replace(message=said.message) if text in known else said
        audience = self.plan.hearers(seat)
        if len(audience) == 1:
            said = said._replace(message="")
        for what, words, most in (
            ("a message", said.message, self.max_message),
            ("an answer", str(*said.values), MAX_ANSWER),
        ):
            if (num := len(quoted(words)) - 2) > most:
                raise IllegalAction(
                    f"want {what} of at most {most} characters, got {num}"
                )
        is_public = not said.message or len(audience) == self.num_players
        return said._replace(audience=() if is_public else audience)

    def _answers(self, state: State, counting: bool = True) -> dict[int, Utterance]:
        """The last answer of each seat; `counting`: of those whose answers count."""
        pairs = zip(self.plan.schedule, state.said, strict=False)
        last = {seat: said for (seat, _), said in pairs if said.move == "answer"}
        names = (
            (self.plan.counts,) if counting else [one.name for one in self.plan.seats]
        )
        return {n: last[n] for n in sorted(last) if self.plan.seats[n].name in names}

    def final(self, state: State) -> str:
        """The answer that counts so far; empty before one."""
        last = self._answers(state).values()
        votes = Counter(self._plain(state, said) for said in last)
        most = max(last, key=lambda said: votes[self._plain(state, said)], default=None)
        return most.values[0] if most else ""

    def returns(self, state: State) -> Sequence[float]:
        if self.current_player(state) != TERMINAL:
            return (0.0,) * self.num_players
        task, score = self.task(state), self.bank.score
        right = score(task, self.final(state))
        last = self._answers(state, counting=False)
        own = {seat: score(task, said.values[0]) for seat, said in last.items()}
        paid = []
        for number, one in enumerate(self.plan.seats):
            others = [value for seat, value in own.items() if seat != number]
            mean = sum(others) / max(1, len(others))
            by = {"right": right, "wrong": 1 - right, "split": 4 * mean * (1 - mean)}
            paid.append(by.get(one.paid, own.get(number, 0.0)))
        return paid

    def measures(self, state: State) -> dict[str, float]:
        """`right`, as the page defines it."""
        return {"right": self.bank.score(self.task(state), self.final(state))}

    def _num_public(self, state: State) -> int:
        """Turns that all seats know of: without those of a running simultaneous round."""
        is_running = self.simultaneous and self.current_player(state) != TERMINAL
        return len(state.said) - is_running * (len(state.said) % len(self.plan.turns))

    def known(self, state: State, seat: int) -> list[tuple[int, Utterance]]:
        """The turns that a seat reads, each with its utterance."""
        sees, num = self.plan.seats[seat].sees, self._num_public(state)
        speakers = [speaker for speaker, _ in self.plan.schedule[: len(state.said)]]
        return [
            (turn, state.said[turn])
            for turn, speaker in enumerate(speakers)
            if speaker == seat or (turn < num and self.plan.seats[speaker].name in sees)
        ]

    def _view(self, seat: int, number: int) -> str:
        """What a seat may read of a question; empty: nothing."""
        seats, task = self.plan.seats, self.tasks[number]
        sharing = [n for n, one in enumerate(seats) if "evidence" in one.sees]
        if "question" in seats[seat].sees:
            return task.text()
        return task.text(sharing.index(seat), len(sharing)) if seat in sharing else ""

    @cached_property
    def _alike(self) -> Mapping[tuple[int, str], Sequence[int]]:
        """For each seat and what it reads, the questions of which it reads this."""
        found: dict[tuple[int, str], list[int]] = {}
        for seat, number in product(range(self.num_players), range(len(self.tasks))):
            found.setdefault((seat, self._view(seat, number)), []).append(number)
        return found

    def _read(self, state: State, seat: int) -> list[str]:
        """What a seat has read of each question that is drawn; empty: nothing."""
        chosen = [said.values[0] - 1 for said in state.said if said.move == "choose"]
        is_open = self.plan.draws == 1 or (seat, "choose") in self.plan.turns
        drawn = enumerate(state.drawn)
        return [
            self._view(seat, n) if is_open or at in chosen else "" for at, n in drawn
        ]

    def observe(self, state: State, seat: int) -> str:
        plan, player = self.plan, self.current_player(state)
        lines = [f"You are player_{seat}, the {plan.seats[seat].name}."]
        for number, text in enumerate(self._read(state, seat), 1):
            label = f"Question {number}" if plan.draws > 1 else "Question"
            lines += [f"{label}: {break_markup(text)}"] if text else []
        if player == TERMINAL:
            final, right = quoted(self.final(state)), quoted(self.task(state).answer)
            lines.append(
                f"The answer that counted: {final}. The right answer: {right}."
            )
            return "\n".join([*lines, over_text(self.returns(state)[seat])])
        lines += self._history(state, seat)
        if player >= 0:
            todo = HOW[self._turn(state)[1]][0]
            is_all = plan.simultaneous
            number = self._num_public(state) // len(plan.turns) + 1
            now = (
                f"Round {number} of {plan.rounds}. "
                if number <= plan.rounds > 1
                else ""
            )
            now += f"All seats {todo}." if is_all else talk.to_move(player, seat, todo)
            lines.append(now)
        return "\n".join(lines)

    def _history(self, state: State, seat: int) -> Iterator[str]:
        """The turns that the seat reads, the latest in full."""

        def told(turn: int) -> str:
            speaker, (move, values, message, _) = (
                self.plan.schedule[turn][0],
                state.said[turn],
            )
            who = f"player_{speaker}, the {self.plan.seats[speaker].name},"
            does = "said nothing" if move == "say" and not message else TOLD[move]
            value = quoted(str(values[0])) if values else ""
            return f"{'You' if speaker == seat else who} {does} {value}".rstrip()

        turns = [turn for turn, _ in self.known(state, seat)]
        latest = MAX_HISTORY // (self.max_message + MAX_ANSWER + 50)
        return talk.transcript(state.said, seat, told, turns=turns, latest=latest)

    def information_state(self, state: State, seat: int) -> Any:
        known, read = tuple(self.known(state, seat)), tuple(self._read(state, seat))
        key = (seat, read, self._num_public(state), known)
        if self.current_player(state) != TERMINAL:
            return key
        end = (self.final(state), self.task(state).answer, self.returns(state)[seat])
        return (*key, *end)

    def features(self, state: State, seat: int) -> Vector:
        """The knowledge of a seat as numbers, without messages.

        One-hot seat; how many turns there were; of each question drawn, the number from 1 of the
        first that the seat cannot tell from it, or 0; for each turn that it reads, what was
        done, from 1, and the place from 1 of an answer in the core, or the choice.
        """
        head, draws = self.num_players + 1, self.plan.draws
        values = np.zeros(head + draws + 2 * self.max_turns, np.float32)
        values[[seat, head - 1]] = 1, self._num_public(state)
        for place, text in enumerate(self._read(state, seat), head):
            values[place] = 1 + self._alike[seat, text][0] if text else 0
        for turn, said in self.known(state, seat):
            core = said._replace(message="", audience=())
            place = self.core.index(core) + 1 if core in self.core else 0
            value = said.values[0] if said.move == "choose" else place
            at = head + draws + 2 * turn
            values[[at, at + 1]] = 1 + [*TOLD].index(said.move), value
        return values

    def rules(self, seat: int) -> str:
        plan, own = self.plan, self.plan.seats[seat]
        seats = ", ".join(
            f"player_{n} the {one.name}" for n, one in enumerate(plan.seats)
        )
        moves = dict.fromkeys(move for who, move in plan.schedule if who == seat)
        heard = [f"player_{n}" for n in plan.hearers(seat) if n != seat]
        reads = "Nobody else reads what you write."
        if heard:
            reads = (
                f"{' and '.join(heard)} will read what you write, in quotation marks. "
                f"Before an answer you may write reasons, in lines of their own. Your words have "
                f"at most {self.max_message} characters."
            )
        return (
            f"This is a game of questions. {plan.about} The seats: {seats}. You are "
            f"player_{seat}. {own.task} {' '.join(HOW[move][1] for move in moves)} {reads} "
            f"Your score, from 0 to 1, is {PAID[own.paid]}."
        )

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws again what the seat has not read, among what leads to its turn."""
        if self.current_player(state) < 0:
            return state
        everything, read = range(len(self.tasks)), self._read(state, seat)
        groups = [self._alike[seat, text] if text else everything for text in read]
        known, key = dict(self.known(state, seat)), self.information_state(state, seat)
        hidden = [
            turn
            for turn, said in enumerate(state.said)
            if turn not in known and said.move != "choose"
        ]
        for _ in range(MAX_DRAWS):
            drawn, said = tuple(map(rng.choice, groups)), list(state.said)
            for turn in hidden:
                said[turn] = rng.choice(self._core(self.plan.schedule[turn][1]))
            past = [State(drawn, tuple(said[:num])) for num in range(len(said) + 1)]
            is_on = not any(map(self._is_over, past))
            if is_on and self.information_state(past[-1], seat) == key:
                return past[-1]
        return state


def _read_answer(text: str) -> Utterance:
    if marks := list(_ANSWER.finditer(text)):
        message, answer = text[: marks[-1].start()], text[marks[-1].end() :]
    elif answer := boxed(text):
        message = text[: text.rfind("\\boxed{")]
    else:
        message, _, answer = text.rpartition("\n")
    answer = answer.strip(" \t\r\n*`").removesuffix(".").strip()
    if not answer:
        raise IllegalAction(f'want "answer" and your answer, got {text[-80:]!r}')
    return Utterance("answer", (answer,), message.strip())


def _read_speech(text: str) -> Utterance:
    message = re.sub(r"\Asay\s*:", "", text, flags=re.IGNORECASE).strip()
    if not message:
        raise IllegalAction('want "say:" and your words, or "say nothing", got none')
    return Utterance("say", (), message)


def _read_judgement(text: str) -> Utterance:
    if not (found := _JUDGED.search(text)):
        raise IllegalAction(
            f'want "accept", or "revise:" and what to change, got {text[:80]!r}'
        )
    words = text[: found.start()] + text[found.end() :]
    move = (found[1] or found[2]).lower()
    return Utterance(move, (), words.strip(" \t\r\n:.*`") * (move == "revise"))


def _read_choice(text: str) -> Utterance:
    numbers = re.findall(r"(?<![\w.-])[1-9](?!\w|\.\d)", text, re.ASCII)
    if len(numbers) != 1:
        raise IllegalAction(f'want "choose" and one number, got {text[:80]!r}')
    return Utterance("choose", (int(numbers[0]),))


_READERS = {
    "answer": _read_answer,
    "say": _read_speech,
    "judge": _read_judgement,
    "choose": _read_choice,
}


class Answerer:
    """Knows the answer with a probability, drawn at each turn, and else takes any of the core.

    Where the game stops when all agree, it takes the answer that most gave in the last round. It accepts right
    answers alone. Its other moves are random.
    """

    def __init__(self, skill: float = 0.7) -> None:
        check_number("skill", skill, 0, 1)
        self.skill = skill

    def __call__(self, game: Questions, state: State, rng: random.Random) -> Utterance:
        legal, task = game.legal_actions(state), game.task(state)
        known = game.known(state, game.current_player(state))
        read = [said.values[0] for _, said in known if said.move == "answer"]
        if UNKNOWN not in legal:
            is_judge = read and legal[0].move == "accept"
            is_wrong = is_judge and game.bank.score(task, read[-1]) < 1
            return legal[is_wrong] if is_judge else rng.choice(legal)
        if len(read) > 1 and game.plan.stop == "agree":
            votes = Counter(read[-game.num_players :])
            return Utterance("answer", (votes.most_common(1)[0][0],))
        is_known = rng.random() < self.skill
        return Utterance("answer", (task.answer,)) if is_known else rng.choice(legal)
