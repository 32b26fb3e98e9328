"""Sources of questions, and how answers are scored."""

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from arena_envs.doors import Door, broken, missing_extra
from arena_envs.game import SPLITS, check_int, fold, of_split

SCORING = ("exact", "numeric", "choice", "math_verify")
MAX_TASKS = 10_000  # of `arithmetic`
LETTERS = "ABCDEFGHIJ"
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d{1,40}(?:\.\d{1,40})?(?:/\d{1,40})?(?![\w/])")


class Task(NamedTuple):
    """A question and its answer.

    Attributes:
        question: without choices.
        answer: the right one; a letter where there are choices.
        scoring: one of `SCORING`.
        choices: texts of the choices A, B and so on.
        evidence: parts of what is given; empty: the sentences of the question but the last.
        asked: the question without its evidence.
        entry: what a generator knows of the question.
    """

    question: str
    answer: str
    scoring: str = "exact"
    choices: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    asked: str = ""
    entry: Any = None

    def text(self, number: int = 0, num_parts: int = 0) -> str:
        """The question with its choices, and with one of some shares of its evidence."""
        lines = [self.question]
        if num_parts:
            *given, asked = re.split(r"(?<=[.!?])\s+", self.question)
            own = (self.evidence or given)[number::num_parts]
            lines = [" ".join([*own, self.asked or asked])]
        pairs = zip(LETTERS, self.choices, strict=False)
        return "\n".join([*lines, *(f"{letter}. {each}" for letter, each in pairs)])


class TaskSource(Protocol):
    """A set of questions."""

    def tasks(self, split: str) -> Sequence[Task]:
        """The questions of `"train"` or `"test"`, the same at every call."""

    def score(self, task: Task, answer: str) -> float:
        """How right an answer is, from 0 to 1; no text raises."""


def number_of(text: str) -> Fraction | None:
    r"""The only number of a text, exactly; None if there is none, or several.

    >>> number_of("$1,250.50"), number_of(r"\boxed{\frac{1}{2}} cups"), number_of("3 or 4")
    (Fraction(2501, 2), Fraction(1, 2), None)
    """
    text = re.sub(r"\\d?frac\{(-?\d+)\}\{(\d+)\}", r"\1/\2", boxed(text) or text)
    found = _NUMBER.findall(re.sub(r"(?<=\d),(?=\d{3})|[$%\\{}]|\.$", "", text.strip()))
    try:
        return Fraction(found[0]) if len(found) == 1 else None
    except ZeroDivisionError:
        return None


def boxed(text: str) -> str:
    r"""What the last `\boxed{...}` of a text holds; empty without one."""
    _, mark, rest = text.rpartition("\\boxed{")
    depth = 1
    for at, char in enumerate(rest if mark else ""):
        depth += (char == "{") - (char == "}")
        if not depth:
            return rest[:at]
    return ""


def plain(task: Task, answer: str) -> str:
    """An answer as it is compared with others: a number, a letter or folded text."""
    if task.scoring == "numeric" and (number := number_of(answer)) is not None:
        return str(number)
    text = fold(boxed(answer) or answer).strip(" .$*_`\"'")
    if task.scoring != "choice":
        return text
    if letter := re.fullmatch(r"\(?([a-j])\)?(?:[.):].*)?", text, re.DOTALL):
        return letter[1].upper()
    same = [n for n, choice in enumerate(task.choices) if fold(choice) == text]
    return LETTERS[same[0]] if same else text


def score(task: Task, answer: str) -> float:
    """1 for the right answer, else 0, by the scoring of the task."""
    if task.scoring != "math_verify":
        return float(plain(task, answer) == plain(task, task.answer))
    verify = _package("math_verify")
    gold, given = (verify.parse(f"${text}$") for text in (task.answer, answer))
    return float(verify.verify(gold, given))


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise missing_extra(error, "questions") from error


@dataclass(frozen=True)
class TaskList:
    """Questions that are listed; each split has half of them, or a list of its own."""

    listed: tuple[Task, ...]
    held_out: tuple[Task, ...] = ()
    grade: Callable[[Task, str], float] = score

    def tasks(self, split: str) -> Sequence[Task]:
        listed = {task.text(): task for task in self.listed}
        if not self.held_out:
            return of_split(listed.values(), split)
        held_out = {task.text(): task for task in self.held_out}
        left = {text: task for text, task in listed.items() if text not in held_out}
        return tuple((left if split == "train" else held_out).values())

    def score(self, task: Task, answer: str) -> float:
        return self.grade(task, answer)


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
        question = f"What is {' + '.join(map(str, numbers))}?"
        given = [f"{a} is {n}." for a, n in zip("abcd", numbers, strict=False)]
        asked = f"What is {' + '.join('abcd'[:terms])}?"
        answer = str(sum(numbers))
        return Task(question, answer, "numeric", (), tuple(given), asked)

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
    held_out = tuple(_read(test, scoring)) if test else ()
    return TaskList(tuple(_read(path, scoring)), held_out)


def _read(path: str, scoring: str | None) -> Iterator[Task]:
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
            what = f"{type(error).__name__}: " * isinstance(error, KeyError)
            raise ValueError(f"{path}, line {number}: {what}{error}") from error


def _task_of(given: dict[str, Any], scoring: str | None) -> Task:
    """The task of a line, by the field names of the sets on the hub, in any case."""
    if not isinstance(given, dict):
        raise ValueError(f"want a JSON object in each line, got {given!r:.80}")
    row = {str(key).lower(): value for key, value in given.items()}
    question = str(row.get("question") or row.get("problem") or "").strip()
    answer = row.get("answer", row.get("correct", ""))
    choices = [str(each) for each in row.get("choices") or row.get("options") or ()]
    if "correct answer" in row:  # GPQA
        answer = row["correct answer"]
        choices = [answer, *(row[f"incorrect answer {n}"] for n in (1, 2, 3))]
        random.Random(question).shuffle(choices)
    if choices:
        answer = _letter(answer, choices)
    else:  # GSM8K, else MATH
        answer = str(answer).rpartition("####")[2] or boxed(str(row.get("solution")))
    if not question or not (answer := answer.strip()):
        raise ValueError(
            "want a question or problem, and an answer or a solution with \\boxed{...}, got the "
            f"fields {', '.join(given)}; name them so"
        )
    usual = "exact" if number_of(answer) is None else "numeric"
    scoring = scoring or ("choice" if choices else usual)
    evidence = tuple(map(str, row.get("evidence") or ()))
    whole = " ".join([*evidence, question])
    return Task(whole, answer, scoring, tuple(choices), evidence, question)


def _letter(answer: Any, choices: list[str]) -> str:
    """The letter of the right choice, which is given as its place, letter or text."""
    task = Task("", "", "choice", tuple(choices))
    letter = LETTERS[answer] if answer in range(10) else plain(task, str(answer))
    if letter not in tuple(LETTERS[: len(choices)]):
        raise ValueError(
            "want an answer that is the place from 0, the letter or the text of one of "
            f"{len(choices)} choices, 10 at most, got {answer!r:.80}; correct it"
        )
    return letter


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
    gym = _package("reasoning_gym")
    try:
        data = gym.create_dataset(name, size=num, seed=seed, **options)
    except (ValueError, TypeError, AssertionError) as error:
        raise ValueError(
            f"want a generator of reasoning-gym, got {name!r}: {error}"
        ) from error
    tasks = [Task(one["question"], str(one["answer"]), entry=one) for one in data]
    return TaskList(tuple(tasks), (), partial(_graded, data))


def _graded(data: Any, task: Task, answer: str) -> float:
    try:
        return float(min(max(data.score_answer(answer, task.entry), 0), 1))
    except Exception:  # a stranger's verifier reads a hostile text
        return 0.0


def check_source(source: TaskSource) -> None:
    """Checks a source of questions.

    Raises:
        BrokenPromise: names the first promise that the source breaks.
    """
    seen: set[str] = set()
    for split in SPLITS:
        tasks = source.tasks(split)
        texts = {task.text() for task in tasks}
        if not texts or texts & seen or len(texts) < len(tasks):
            broken("splits", f"want different questions, got {len(tasks)} in {split}")
        if list(tasks) != list(source.tasks(split)):
            broken("tasks", f"want the same questions at every call of {split}")
        seen |= texts
        for task in tasks[:50]:
            given = (task.answer, "", "\0\ud800", "9" * 5000, "\\frac{1}{0}", "((((")
            scores = [source.score(task, text) for text in given]
            if scores[0] != 1 or not all(0 <= one <= 1 for one in scores):
                broken(
                    "score", f"want 1 for {task.answer!r:.80}, else 0 to 1: {scores}"
                )


sources: Door[TaskSource] = Door(
    "task source",
    "arena.tasks",
    {"arithmetic": arithmetic, "jsonl": jsonl, "reasoning": reasoning},
    kit=f"{__name__}:check_source",
    extra="questions",
)
