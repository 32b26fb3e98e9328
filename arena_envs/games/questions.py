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

A reply ends with "answer" and the answer; words before it are the message. "42 is the answer.", `#### 42` and
`\boxed{42}` are read, too, and else the last line is the answer. The legal actions are a finite core, the same for every question: the
most common answers to the questions of the train split, with every letter of their choices, and "answer unknown",
which a bad reply becomes.

Measure of an episode: `right`, the score of the answer that counted.
"""

import json
import random
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from importlib.util import find_spec, module_from_spec
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from arena_envs import talk
from arena_envs.checks import check_known
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    BaseGame,
    IllegalAction,
    Kind,
    Vector,
    check_int,
    filled,
    fold,
    np,
    of_split,
    over_text,
    param,
)
from arena_envs.games.kits import verifiers
from arena_envs.games.kits.answers import (
    LETTERS,
    answer_line,
    answer_of,
    boxed,
    first_sentence,
    is_equal_number,
    letter_of,
    number_of,
    plain_text,
    quantity_of,
)
from arena_envs.hostile import break_markup, quoted
from arena_envs.registry import Registry, broken, import_extra, missing_extra, value_of
from arena_envs.scenes.shapes import Shapes, Table, cells, talk_of
from arena_envs.talk import Utterance
from arena_envs.trust import require_operator

SCORING = ("exact", "numeric", "choice", "math_verify")
MAX_TASKS = 10_000  # of `arithmetic`
MAX_QUESTION = 4000  # characters, all questions that are drawn together
MAX_ANSWER = 400
MAX_TEXT = 20_000  # characters of a reply
MAX_HISTORY = 10_000  # of earlier turns that are shown
MAX_CORE = 32  # answers of the finite core
MAX_DRAWS = 50  # states that `resample` tries
MAX_READINGS = 5  # of a reply, until its text is read as itself
UNKNOWN = Utterance("answer", ("unknown",))
MOVE_TEXTS = {  # what a move does, and how it is written
    "answer": ("answer", '"answer" and your answer, such as "answer 42"'),
    "say": ("say something", '"say:" and your words, or "say nothing"'),
    "judge": ("accept or revise", '"accept", or "revise:" and what to change'),
    "choose": ("choose a question", '"choose" and a number, such as "choose 1"'),
}
PAST_TENSE = {
    "answer": "answered",
    "say": "said",
    "accept": "accepted",
    "revise": "asked to revise",
    "choose": "chose question",
}
PAYMENT_TEXTS = {
    "right": "how right the answer is that counts",
    "own": "how right your own last answer is",
    "split": "1 if half of the others' last answers are right, 0 if all or none are",
}
_JUDGED = re.compile(r"\A\W*(accept|revise)\b|^\W*(accept|revise)\W*\Z", re.I | re.M)
_CHOICE = re.compile(r"(?<![\w.-])[1-9](?!\w|\.\d)", re.ASCII)
_PLAIN_WORDS = re.compile(
    r"[!-+\--;=?-Z\\^-z|~]+(?: [!-+\--;=?-Z\\^-z|~]+)*"
)  # no <>[]{},


class Task(NamedTuple):
    """A question without its choices A, B and so on; its answer, a letter where there are choices."""

    question: str
    answer: str
    scoring: str = "exact"  # one of SCORING, or a generator, which scores its own
    choices: tuple[str, ...] = ()
    entry: Any = None  # what a generator knows of the question

    def text(self, number: int = 0, num_parts: int = 0) -> str:
        """The question with its choices, and with one share of its sentences but the last."""
        *facts, question = re.split(r"(?<=[.!?])\s+", self.question)
        share = " ".join([*facts[number::num_parts], question]) if num_parts else ""
        choice_lines = map("{}. {}".format, LETTERS, self.choices)
        return "\n".join([share or self.question, *choice_lines])


class TaskSource(Protocol):
    """A set of questions."""

    def tasks(self, split: str) -> Sequence[Task]:
        """The questions of `"train"` or `"test"`, the same at every call."""

    def score(self, task: Task, answer: str) -> float:
        """How right an answer is, from 0 to 1; no text raises."""


def plain(task: Task, answer: str) -> str:
    """An answer as it is compared with others: a number, a letter or folded text."""
    if task.scoring == "numeric" and (quantity := quantity_of(answer, True)):
        return str(quantity.value)
    if task.scoring == "choice" and (letter := letter_of(task.choices, answer)):
        return letter
    return plain_text(answer)


def score(task: Task, answer: str) -> float:
    """How right an answer is: 1 or 0, and from 0 to 1 where a generator grades."""
    if task.entry:
        return verifiers.reasoning_gym_score(task.scoring, task.entry, answer)
    if not answer.strip():
        return 0.0
    if task.scoring == "numeric" and (quantity := quantity_of(task.answer)):
        number = quantity_of(answer, True)
        return float(number is not None and is_equal_number(quantity, number))
    if task.scoring == "choice":
        letter = task.answer
        if letter not in tuple(LETTERS[: len(task.choices)]):
            letter = letter_of(task.choices, letter, texts_first=True) or ""
        return float(letter_of(task.choices, answer) == letter)
    right = {plain_text(task.answer), plain_text(answer_line(task.answer))}
    if plain_text(answer) in right or plain_text(first_sentence(answer)) in right:
        return 1.0
    if task.scoring == "math_verify":
        return verifiers.math_verify_score(task.answer, answer)
    return 0.0


@dataclass(frozen=True)
class TaskList:
    """Questions that are listed; each split has half of them, or a list of its own."""

    listed: tuple[Task, ...]
    held_out: tuple[Task, ...] = ()

    def tasks(self, split: str) -> Sequence[Task]:
        listed = {task.text(): task for task in self.listed}
        if not self.held_out:
            return of_split(listed.values(), split)
        held_out = {task.text(): task for task in self.held_out}
        left = {text: task for text, task in listed.items() if text not in held_out}
        return tuple((left if split == "train" else held_out).values())

    def score(self, task: Task, answer: str) -> float:
        return score(task, answer)


def arithmetic(largest: int = 9, terms: int = 2) -> TaskList:
    """All sums of numbers from 0 to `largest`.

    Args:
        largest: 1 to 99.
        terms: numbers in a sum, 2 to 4.

    Raises:
        ValueError: an argument is out of range, or there are more than 10,000 sums.
    """
    check_int("largest", largest, 1, 99)
    check_int("terms", terms, 2, 4)
    if (num := (largest + 1) ** terms) > MAX_TASKS:
        raise ValueError(f"want at most {MAX_TASKS} sums, got {num}; take fewer terms")

    def task(numbers: Sequence[int]) -> Task:
        first, *others = numbers
        added = " ".join(f"Add {number}." for number in others)
        question = f"Take {first}. {added} What is the sum?"
        return Task(question, str(sum(numbers)), "numeric")

    return TaskList(tuple(map(task, product(range(largest + 1), repeat=terms))))


def jsonl(path: str, test: str | None = None, scoring: str | None = None) -> TaskList:
    """Questions of a file with a JSON object in each line.

    Args:
        path: a UTF-8 file with the fields that `docs/questions.md` lists.
        test: another such file, for the test split; without it each split has half of `path`.
        scoring: one of `SCORING`; None: `choice` with choices, `numeric` for a number, else
            `exact`.

    Raises:
        ValueError: there is no such file, or a line is malformed; names the line.
    """
    if scoring not in (None, *SCORING):
        raise ValueError(f"want scoring of {', '.join(SCORING)}, got {scoring!r:.40}")
    held_out = tuple(_tasks_of_file(test, scoring)) if test else ()
    return TaskList(tuple(_tasks_of_file(path, scoring)), held_out)


def _tasks_of_file(path: str, scoring: str | None) -> Iterator[Task]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"want jsonl:PATH of a UTF-8 file, got {path!r}: {error}; name another"
        ) from error
    for number, line in enumerate(text.split("\n"), 1):
        try:
            if line.strip():
                yield _task_of(json.loads(line), scoring)
        except (ValueError, KeyError, TypeError) as error:
            problem = str(error)
            if isinstance(error, KeyError):  # its text is the key alone
                problem = f"KeyError: {error}"
            raise ValueError(f"{path}, line {number}: {problem}") from error


def _task_of(fields: dict[str, Any], scoring: str | None) -> Task:
    """The task of a line, by the field names of the sets on the hub, in any case."""
    if not isinstance(fields, dict):
        raise ValueError(f"want a JSON object in each line, got {fields!r:.80}")
    row = {str(key).lower(): value for key, value in fields.items()}
    question = str(row.get("question") or row.get("problem") or "").strip()
    answer = row.get("answer", row.get("correct"))
    values = list(row.get("choices") or row.get("options") or ())
    if "correct answer" in row:  # GPQA
        answer = str(row["correct answer"])
        values = [answer, *(str(row[f"incorrect answer {n}"]) for n in (1, 2, 3))]
        random.Random(question).shuffle(values)
    choices: Sequence[str] = [str(each) for each in values]
    if choices:
        choices, answer = _choices_and_letter(choices, answer, values)
    elif answer is None:  # MATH
        answer = boxed(str(row.get("solution")))
    answer = str(answer).rpartition("####")[2].strip()  # GSM8K
    if not question or not answer:
        raise ValueError(
            "want a question or problem, and an answer or a solution with \\boxed{...}, got the "
            f"fields {', '.join(fields)}; name them so"
        )
    is_number = number_of(answer) is not None and re.search(r"\d", answer)
    is_title = re.search(r"\b[A-Z][a-z]", answer)  # as in 12 Angry Men
    usual = "numeric" if is_number and not is_title else "exact"
    scoring = scoring or ("choice" if choices else usual)
    return Task(question, answer, scoring, tuple(choices))


def _choices_and_letter(
    choices: Sequence[str], answer: int | str | None, listed: Sequence[Any]
) -> tuple[Sequence[str], str]:
    """The texts of the choices without their letters, and the letter of the right one.

    Args:
        choices: as texts.
        answer: the right one: its place from 0, its letter or its text.
        listed: the choices as the file has them.
    """
    marks = [re.match(r"\(?([A-J])\)\s*(?=\S)", choice) for choice in choices]
    is_lettered = [m and m[1] for m in marks] == [*LETTERS[: len(choices)]]
    if is_lettered:  # AQUA
        choices = [c[m.end() :] for c, m in zip(choices, marks, strict=True) if m]
    letters: set[str | None] = set()
    if type(answer) is int and answer in range(min(len(choices), len(LETTERS))):
        letters.add(LETTERS[answer])
    if type(answer) is not int or answer in [n for n in listed if type(n) is int]:
        text = "" if answer is None else str(answer)
        letters.add(letter_of(choices, text, texts_first=not is_lettered, strict=True))
    (letter,) = letters if len(letters) == 1 else (None,)
    if letter is None or len(choices) > len(LETTERS):
        raise ValueError(
            "want an answer that is the place from 0, the letter or the text of exactly one of "
            f"{len(choices)} choices, {len(LETTERS)} at most, got {answer!r:.80}; correct it"
        )
    return choices, letter


def reasoning(name: str, num: int = 500, seed: int = 0, **options: Any) -> TaskList:
    """Questions of a generator of the package reasoning-gym, which scores answers.

    Args:
        name: of the generator, such as `"chain_sum"`.
        num: questions, both splits together.
        seed: of the generator.
        **options: of the generator.

    Raises:
        ValueError: there is no such generator, or it refuses an option.
        ModuleNotFoundError: the package is not installed; says what to install.
    """
    gym = import_extra("reasoning_gym", "questions")
    problem = f"no generator of reasoning-gym {name!r:.80}"
    check_known(name, gym.factory.DATASETS, problem)
    try:
        data = gym.create_dataset(name, size=num, seed=seed, **options)
    except (ValueError, TypeError, AssertionError) as error:
        raise ValueError(
            f"want options of the generator {name!r} of reasoning-gym: {error}"
        ) from error
    return TaskList(
        tuple(
            Task(entry["question"], str(entry["answer"]), name, (), entry)
            for entry in data
        )
    )


def mmlu_dev(subject: str | None = None) -> TaskList:
    """The development questions of MMLU, about five a subject, as the package lm-eval has them.

    Args:
        subject: such as `"anatomy"`; None: all 57.

    Raises:
        ValueError: there is no such subject, or the package has it in another form.
        ModuleNotFoundError: the package is not installed; says what to install.
    """
    if (spec := find_spec("lm_eval")) is None:
        raise missing_extra(ModuleNotFoundError(name="lm_eval"), "mmlu")
    folder = resources.files(module_from_spec(spec)) / "tasks/mmlu/flan_cot_fewshot"
    files = {
        file.name[len("mmlu_") : -len(".yaml")]: file
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if re.fullmatch(r"mmlu_\w+\.yaml", file.name)
    }
    if subject is not None:
        check_known(subject, files, f"no subject of MMLU {subject!r:.80}")
        files = {subject: files[subject]}
    tasks = []
    for file in files.values():
        try:
            samples = value_of(file.read_text("utf-8"))["fewshot_config"]["samples"]
        except (KeyError, TypeError):
            raise ValueError(
                f"want samples of fewshot_config in {file.name} of lm-eval, got none; install "
                "another version of lm-eval"
            ) from None
        for sample in samples:
            question, *choices = re.split(r"\s+\([A-J]\) ", sample["question"])
            match = re.search(r"answer is (\([A-J]\))\W*\Z", sample["target"])
            answer = match[1].strip("()") if match else ""
            if answer not in tuple(LETTERS[: len(choices)]):
                raise ValueError(
                    f"want a target of {file.name} of lm-eval that ends with the letter of one of "
                    f"{len(choices)} choices, got {sample['target']!r:.80}; install another version"
                )
            tasks.append(Task(question, answer, "choice", tuple(choices)))
    return TaskList(tuple(tasks))


sources: Registry[TaskSource] = Registry(
    "task source",
    "arena.tasks",
    {
        "arithmetic": arithmetic,
        "jsonl": jsonl,
        "mmlu_dev": mmlu_dev,
        "reasoning": reasoning,
    },
    extra="questions",
    trusted={"jsonl": "open a file"},
    max_number=10_000,  # questions
)


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
    seats: list[Any]
    turns: list[Any]
    counts: str
    last: list[Any] = []  # noqa: RUF012 # nobody changes it
    rounds: int = 1
    stop: str = "never"
    simultaneous: bool = False
    draws: int = 1

    @property
    def schedule(self) -> Sequence[tuple[int, str]]:
        """The turns of a game that nothing stops."""
        return [*self.turns * self.rounds, *self.last]


_FOLDER = resources.files(__package__) / "protocols"
_TYPES = {"num": int, "rounds": int, "draws": int, "simultaneous": bool}
_TYPES |= dict.fromkeys(("seats", "turns", "last", "sees"), list)
PROTOCOLS = sorted(file.name.removesuffix(".toml") for file in _FOLDER.iterdir())


def read_plan(protocol: str, num: int | None, rounds: int | None) -> Plan:
    """The plan of a protocol; `num` and `rounds` replace its own numbers.

    Raises:
        ValueError: there is no such protocol, or its file has a fault.
    """
    file: Any = Path(protocol)
    if protocol.endswith(".toml"):
        require_operator("protocol", protocol, "open a file")
    else:
        check_known(protocol, PROTOCOLS, f"no protocol {protocol!r:.80}")
        file = _FOLDER / f"{protocol}.toml"
    try:
        plan: Plan = _filled(Plan, tomllib.loads(file.read_text("utf-8")))
        seats: list[Seat] = []
        for seat in (_filled(Seat, table) for table in plan.seats):
            seats += [seat] * (num if num and seat.num > 1 else seat.num)
        if num and all(table.get("num", 1) == 1 for table in plan.seats):
            raise ValueError(
                f"want no num, as each seat is one, got {num}; leave it out"
            )
        turns, last = (_turns(table, seats) for table in (plan.turns, plan.last))
        rounds = rounds or plan.rounds
        plan = plan._replace(seats=seats, turns=turns, last=last, rounds=rounds)
        _check_plan(plan)
    except (OSError, ValueError) as error:  # also of TOML and UTF-8
        raise ValueError(
            f"protocol {protocol}: {error}; docs/questions.md has an example"
        ) from error
    return plan


def _filled(kind: Any, table: Any) -> Any:
    """A seat or a plan of a table of the file, whose keys and types are checked."""
    for key, value in table.items() if isinstance(table, dict) else [("seats", table)]:
        check_known(key, kind._fields, f"no key {key!r:.80}")
        value_type = _TYPES.get(key, str)
        if type(value) is not value_type:
            raise ValueError(f"want {key} as {value_type.__name__}, got {value!r:.80}")
    if missing := [k for k in kind._fields if k not in {*table, *kind._field_defaults}]:
        raise ValueError(f"want the keys {', '.join(missing)}, got none; add them")
    return kind(**table)


def _turns(entries: Sequence[str], seats: Sequence[Seat]) -> list[tuple[int, str]]:
    """Seat and move of each turn; "solver answer" is a turn of each solver."""
    names, turns = [seat_plan.name for seat_plan in seats], []
    for turn in entries:
        name, _, move = str(turn).partition(" ")
        check_known(name, names, f"no seat {name!r:.80}")
        check_known(move, MOVE_TEXTS, f"no move {move!r:.80}")
        turns += [(seat, move) for seat, each in enumerate(names) if each == name]
    return turns


def _check_plan(plan: Plan) -> None:
    names = [seat_plan.name for seat_plan in plan.seats]
    sights = {name for seat_plan in plan.seats for name in seat_plan.sees}
    answering = {names[seat] for seat, move in plan.schedule if move == "answer"}
    for key, words, legal_words in (
        ("stop", {plan.stop}, ("never", "agree", "accept")),
        ("paid", {seat_plan.paid for seat_plan in plan.seats}, PAYMENT_TEXTS),
        ("sees", sights, ("question", "evidence", *names)),
        ("counts", {plan.counts}, answering),
    ):
        for name in sorted(words):
            check_known(name, legal_words, f"unknown {name!r:.80} in {key}")
    check_int("num of all seats", len(names), 1, 9)
    check_int("rounds", plan.rounds, 1, 9)
    check_int("number of turns", len(plan.turns), 1, 99)
    check_int("draws", plan.draws, 1, 5)
    if plan.simultaneous and [*enumerate(names)] != [
        (seat, names[seat]) for seat, _ in [*plan.turns, *plan.last]
    ]:
        raise ValueError("want one turn of each seat where simultaneous = true")
    if [move for _, move in plan.schedule].count("choose") != (plan.draws > 1):
        raise ValueError("want one turn with the move choose where draws is above 1")


class State(NamedTuple):
    """The numbers of the questions drawn, and all utterances in order."""

    drawn: tuple[int, ...] = ()
    said: tuple[Utterance, ...] = ()


Action = Utterance | int  # chance draws the number of a question


@dataclass(frozen=True)
class Questions(BaseGame[State, Action]):
    """Questions that seats answer by a protocol.

    Args:
        protocol: a name of `PROTOCOLS`, or the path of a TOML file.
        source: a string of the registry `arena.tasks`, such as `"jsonl:PATH"`.
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

    num_players: ClassVar[int]
    kind: ClassVar[Kind]
    max_turns: ClassVar[int]
    first_state = State()
    num_actions = None
    min_return, max_return = 0.0, 1.0
    shares_measured = ("right",)
    default_value = "right answers 1"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tasks  # noqa: B018 # refuses bad sources and protocols
        is_shared = {seat.paid for seat in self.plan.seats} == {"right"}
        for fact, value in (
            ("num_players", len(self.plan.seats)),
            ("kind", "cooperative" if is_shared else "mixed"),
            ("simultaneous", self.plan.simultaneous),
            ("max_turns", len(self.plan.schedule)),
        ):
            object.__setattr__(self, fact, value)

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
        """The questions that chance draws from: those that are short enough."""
        most, tasks = MAX_QUESTION // self.plan.draws, self.bank.tasks(self.split)
        short = [task for task in tasks if len(task.text()) <= most]
        if fit := [task for task in short if len(task.answer) <= MAX_ANSWER]:
            return fit
        raise ValueError(
            f"want questions of at most {most} characters and answers of {MAX_ANSWER}, "
            f"got none in {self.source!r}; take another source"
        )

    @property
    def instances(self) -> Sequence[str]:
        return [task.text() for task in self.tasks]

    @cached_property
    def core(self) -> Sequence[Utterance]:
        """The most common answers of the train split, or all its letters, and "unknown"."""
        tasks = self.bank.tasks("train")
        answers = [a for t in tasks for a in LETTERS[: len(t.choices)] or [t.answer]]
        counts = Counter(answer for answer in answers if _PLAIN_WORDS.fullmatch(answer))
        common = {fold(answer): answer for answer, _ in counts.most_common(MAX_CORE)}
        common.pop("unknown", None)
        ordered = sorted(common.values(), key=lambda answer: (len(answer), answer))
        return [*(Utterance("answer", (answer,)) for answer in ordered), UNKNOWN]

    def check_parts(self) -> None:
        """The right answer of a question scores 1."""
        for task in self.tasks[:20]:
            if (got := self.bank.score(task, task.answer)) != 1:
                broken(
                    "the right answer scores 1",
                    f"{task.answer!r:.80} scores {got!r} for {task.question!r:.80}",
                )

    def current_player(self, state: State) -> int:
        if len(state.drawn) < self.plan.draws:
            return CHANCE
        return TERMINAL if self._is_over(state) else self._turn(state)[0]

    def _turn(self, state: State) -> tuple[int, str]:
        """The seat to move, and its move."""
        return self.plan.schedule[len(state.said)]

    def _is_over(self, state: State) -> bool:
        utterances, num = state.said, len(self.plan.turns)
        if len(utterances) == self.max_turns:
            return True
        if (
            not utterances
            or len(utterances) % num
            or len(utterances) > num * self.plan.rounds
        ):
            return False  # a game stops after a round
        if self.plan.stop != "agree":
            return utterances[-1].move == self.plan.stop
        answers = [
            utterance.values[0]
            for utterance in utterances[-num:]
            if utterance.move == "answer"
        ]
        return len({plain(self.task(state), answer) for answer in answers}) == 1

    def task(self, state: State) -> Task:
        """The question that is answered: the one that was chosen, or the first."""
        choices = [
            utterance.values[0]
            for utterance in state.said
            if utterance.move == "choose"
        ]
        return self.tasks[state.drawn[choices[0] - 1 if choices else 0]]

    def chance_outcomes(self, state: State) -> list[tuple[Action, float]]:
        return [(number, 1 / len(self.tasks)) for number in range(len(self.tasks))]

    def legal_actions(self, state: State) -> Sequence[Utterance]:
        player = self.current_player(state)
        return () if player < 0 else self._core(self._turn(state)[1])

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
        if values:
            return f"{message}\n{move} {values[0]}".strip()
        silent = "say nothing" if move == "say" else move
        return f"{move}: {message}" if message else silent

    def parse(self, state: State, text: str) -> Utterance:
        if self.current_player(state) < 0:
            raise IllegalAction("nobody is to move")
        if len(text) > MAX_TEXT:
            raise IllegalAction(f"want at most {MAX_TEXT} characters, got {len(text)}")
        utterance = self._parsed(state, text)
        for _ in range(MAX_READINGS):  # a record has to be read as what was played
            again = self._parsed(state, self.action_text(state, utterance))
            if again == utterance:
                return utterance
            utterance = again
        raise IllegalAction(f"want {MOVE_TEXTS[utterance.move][1]}, got {text[-80:]!r}")

    def _parsed(self, state: State, text: str) -> Utterance:
        """The utterance of a text, whose own text may still be read as another one."""
        legal, (seat, move) = self.legal_actions(state), self._turn(state)
        text = text.strip().encode("utf-8", "replace").decode("utf-8")
        core = {fold(self.action_text(state, action)): action for action in legal}
        folded = fold(text)
        utterance = (
            core.get(folded) or core.get(folded.rstrip(".")) or _uttered(move, text)
        )
        if utterance is None or (move == "choose" and utterance not in legal):
            raise IllegalAction(f"want {MOVE_TEXTS[move][1]}, got {text[-80:]!r}")
        bare = fold(self.action_text(state, utterance._replace(message="")))
        utterance = core.get(bare, utterance)._replace(message=utterance.message)
        audience = self._hearers(seat)
        if len(audience) == 1:  # nobody reads a message
            utterance = utterance._replace(message="")
        words = [
            (MAX_ANSWER, str(*utterance.values)),
            (self.max_message, utterance.message),
        ]
        for most, part in words:
            if (num := len(quoted(part)) - 2) > most:
                limit = f"at most {most} characters in quotation marks"
                raise IllegalAction(f"want {limit}, got {num}")
        is_public = not utterance.message or len(audience) == self.num_players
        return utterance._replace(audience=() if is_public else audience)

    def _hearers(self, seat: int) -> tuple[int, ...]:
        """The seats that read what a seat writes, itself among them."""
        name, seats = self.plan.seats[seat].name, enumerate(self.plan.seats)
        return tuple(
            n for n, plan_of_seat in seats if n == seat or name in plan_of_seat.sees
        )

    def _answers(self, state: State) -> dict[int, str]:
        """The last answer of each seat."""
        pairs = zip(self.plan.schedule, state.said, strict=False)
        return {
            seat: utterance.values[0]
            for (seat, _), utterance in pairs
            if utterance.move == "answer"
        }

    def final(self, state: State) -> str:
        """The answer that counts so far; empty before one."""
        seats, task, last = self.plan.seats, self.task(state), self._answers(state)
        counting = [
            seat for seat in sorted(last) if seats[seat].name == self.plan.counts
        ]
        votes = Counter(plain(task, last[seat]) for seat in counting)
        ranked = sorted(counting, key=lambda seat: -votes[plain(task, last[seat])])
        return last[ranked[0]] if ranked else ""

    def returns(self, state: State) -> Sequence[float]:
        if self.current_player(state) != TERMINAL:
            return (0.0,) * self.num_players
        task, score, returns = self.task(state), self.bank.score, []
        right, last = score(task, self.final(state)), self._answers(state)
        score_of_seat = {seat: score(task, answer) for seat, answer in last.items()}
        for number, seat_plan in enumerate(self.plan.seats):
            others = [value for seat, value in score_of_seat.items() if seat != number]
            mean = sum(others) / max(1, len(others))
            by = {"right": right, "split": 4 * mean * (1 - mean)}
            returns.append(by.get(seat_plan.paid, score_of_seat.get(number, 0.0)))
        return returns

    def measures(self, state: State) -> dict[str, float]:
        """`right`, as the page defines it."""
        return {"right": self.bank.score(self.task(state), self.final(state))}

    def _num_public(self, state: State) -> int:
        """Turns that all seats know of: without those of a running simultaneous round."""
        is_running = self.simultaneous and self.current_player(state) != TERMINAL
        return len(state.said) - is_running * (len(state.said) % len(self.plan.turns))

    def known(self, state: State, seat: int) -> dict[int, Utterance]:
        """The utterances that a seat reads, by turn."""
        sees, num = self.plan.seats[seat].sees, self._num_public(state)
        utterances: dict[int, Utterance] = {}
        for turn, utterance in enumerate(state.said):
            speaker = self.plan.schedule[turn][0]
            is_read = turn < num and self.plan.seats[speaker].name in sees
            if is_read or speaker == seat:
                utterances[turn] = utterance
        return utterances

    def _view(self, seat: int, number: int) -> str:
        """What a seat may read of a question; empty: nothing."""
        seats, task = self.plan.seats, self.tasks[number]
        sharing = [
            n for n, seat_plan in enumerate(seats) if "evidence" in seat_plan.sees
        ]
        if "question" in seats[seat].sees:
            return task.text()
        return task.text(sharing.index(seat), len(sharing)) if seat in sharing else ""

    @cached_property
    def _alike(self) -> Mapping[tuple[int, str], Sequence[int]]:
        """For each seat and what it reads, the questions of which it reads this."""
        numbers_by_view: dict[tuple[int, str], list[int]] = {}
        for seat, number in product(range(self.num_players), range(len(self.tasks))):
            numbers_by_view.setdefault((seat, self._view(seat, number)), []).append(
                number
            )
        return numbers_by_view

    def _visible_questions(self, state: State, seat: int) -> list[str]:
        """What a seat has read of each question that is drawn; empty: nothing."""
        choices = [
            utterance.values[0] - 1
            for utterance in state.said
            if utterance.move == "choose"
        ]
        is_open = self.plan.draws == 1 or (seat, "choose") in self.plan.schedule
        places = range(self.plan.draws) if is_open else choices
        draws = enumerate(state.drawn)
        return [self._view(seat, n) if at in places else "" for at, n in draws]

    def observe(self, state: State, seat: int) -> str:
        plan, player = self.plan, self.current_player(state)
        lines = [f"You are player_{seat}, the {plan.seats[seat].name}."]
        for number, text in enumerate(self._visible_questions(state, seat), 1):
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
            todo = MOVE_TEXTS[self._turn(state)[1]][0]
            number = self._num_public(state) // len(plan.turns) + 1
            is_round = number <= plan.rounds > 1
            now = f"Round {number} of {plan.rounds}. " if is_round else ""
            all_move = f"All seats {todo}."
            move = all_move if plan.simultaneous else talk.to_move(player, seat, todo)
            lines.append(now + move)
        return "\n".join(lines)

    def _history(self, state: State, seat: int) -> Iterator[str]:
        """The turns that the seat reads, the latest in full."""

        def headline(turn: int) -> str:
            speaker, utterance = self.plan.schedule[turn][0], state.said[turn]
            name = f"player_{speaker}, the {self.plan.seats[speaker].name},"
            if utterance.values:
                content = quoted(str(*utterance.values))
            elif utterance.move == "say" and not utterance.message:
                content = "nothing"
            else:
                content = ""
            subject = "You" if speaker == seat else name
            return f"{subject} {PAST_TENSE[utterance.move]} {content}".rstrip()

        latest = MAX_HISTORY // (self.max_message + MAX_ANSWER + 50)
        turns = [*self.known(state, seat)]
        return talk.transcript(state.said, seat, headline, turns=turns, latest=latest)

    def information_state(self, state: State, seat: int) -> Any:
        questions = tuple(self._visible_questions(state, seat))
        utterances = tuple(self.known(state, seat).items())
        key = (seat, questions, self._num_public(state), utterances)
        if self.current_player(state) != TERMINAL:
            return key
        right, seat_return = self.task(state).answer, self.returns(state)[seat]
        return (*key, self.final(state), right, seat_return)

    def features(self, state: State, seat: int) -> Vector:
        """Seat; turns; first question that looks like each; move and value of each turn read.

        All count from 1, and 0 is unknown. The value is the place of an answer in the core.
        """
        head, draws = self.num_players + 1, self.plan.draws
        values = np.zeros(head + draws + 2 * self.max_turns, np.float32)
        values[[seat, head - 1]] = 1, self._num_public(state)
        for place, text in enumerate(self._visible_questions(state, seat), head):
            values[place] = 1 + self._alike[seat, text][0] if text else 0
        for turn, (move, values_of_turn, _, _) in self.known(state, seat).items():
            core = Utterance(move, values_of_turn)
            place = self.core.index(core) + 1 if core in self.core else 0
            at = head + draws + 2 * turn
            values[at] = 1 + [*PAST_TENSE].index(move)
            values[at + 1] = values_of_turn[0] if move == "choose" else place
        return values

    def rules(self, seat: int) -> str:
        plan, own_plan = self.plan, self.plan.seats[seat]
        moves = dict.fromkeys(move for mover, move in plan.schedule if mover == seat)
        heard = [f"player_{n}" for n in self._hearers(seat) if n != seat]
        return filled(
            "questions",
            self,
            about=plan.about,
            seats=[
                f"player_{n} the {seat_plan.name}"
                for n, seat_plan in enumerate(plan.seats)
            ],
            seat=seat,
            task=own_plan.task,
            write=" Later you write ".join(f"{MOVE_TEXTS[move][1]}." for move in moves),
            is_heard=bool(heard),
            heard=" and ".join(heard),
            before=" before an answer" if "answer" in moves else "",
            paid=PAYMENT_TEXTS[own_plan.paid],
        )

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws again what the seat has not read, among what leads to its turn."""
        if self.current_player(state) < 0:
            return state
        everything, questions = (
            range(len(self.tasks)),
            self._visible_questions(state, seat),
        )
        groups = [self._alike[seat, text] if text else everything for text in questions]
        known_turns, key = self.known(state, seat), self.information_state(state, seat)
        for _ in range(MAX_DRAWS):
            numbers, utterances = tuple(map(rng.choice, groups)), list(state.said)
            for turn, utterance in enumerate(utterances):
                if turn not in known_turns and utterance.move != "choose":
                    utterances[turn] = rng.choice(
                        self._core(self.plan.schedule[turn][1])
                    )
            past = [
                State(numbers, tuple(utterances[:num]))
                for num in range(len(utterances) + 1)
            ]
            is_on = not any(map(self._is_over, past))
            if is_on and self.information_state(past[-1], seat) == key:
                return past[-1]
        return state


def _uttered(move: str, text: str) -> Utterance | None:
    """The utterance of a text that is no legal action; None: it is none at all."""
    if move == "say":
        message = re.sub(r"\Asay\s*:", "", text, flags=re.IGNORECASE).strip()
        return Utterance("say", (), message) if message else None
    if move == "choose":
        numbers = _CHOICE.findall(text)
        return Utterance("choose", (int(numbers[0]),)) if len(numbers) == 1 else None
    if move == "judge":
        if not (match := _JUDGED.search(text)):
            return None
        move = (match[1] or match[2]).lower()
        words = (text[: match.start()] + text[match.end() :]).strip(" \t\r\n:.*`")
        return Utterance(move, (), words if move == "revise" else "")
    message, _, last = text.rpartition("\n")
    value = last.partition("answer ")[2]
    if (
        last == f"answer {value}"
        and value == answer_line(value)
        and "answer" not in fold(value)
    ):
        return Utterance("answer", (value,), message)  # as `action_text` writes it
    if reply := answer_of(text):
        return Utterance("answer", (reply[1],), reply[0])
    return None


def scene(game: Questions, state: State, viewer: int | None) -> Shapes:
    """The questions and the talk, as far as the viewer reads them."""
    texts = [game.tasks[number].text() for number in state.drawn]
    turns = [*range(len(state.said))]
    if viewer is not None:
        texts, turns = (
            game._visible_questions(state, viewer),
            [*game.known(state, viewer)],
        )

    def headline(at: int, utterance: Utterance) -> str:
        values = " ".join(map(str, utterance.values))
        return f"{PAST_TENSE[utterance.move]} {values}".strip()

    utterances, speakers = [state.said[turn] for turn in turns], game.plan.schedule
    shapes = talk_of(utterances, viewer, headline, lambda at: speakers[turns[at]][0])
    return [
        Table("questions", ("",), [cells(text or "hidden") for text in texts]),
        *shapes,
    ]
