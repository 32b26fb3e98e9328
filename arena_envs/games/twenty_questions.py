"""Twenty questions: find out a thing by questions that are answered with yes or no.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("twenty_questions-v1")`; see `TwentyQuestions`        |
| Agents      | `player_0` alone; the thing is drawn by chance                         |
| Kind        | competitive, imperfect information, not zero-sum (one seat)            |
| Actions     | `Discrete(K + N + 1)`: K questions, "is it an animal" and so on, then  |
|             | guesses of N things, "guess dog" and so on, then of any other thing    |
| Rewards     | (M + 1 - t) / M if turn t of M guesses the thing, else 0               |
| Length      | at most M turns                                                        |
| Known value | uniform random play 0.056441; `information_gain` 0.66; 16 things, 12    |
|             | questions: optimal play 0.796875                                        |
| Source      | traditional; as a task for language models: M. Abdulhai et al., *LMRL  |
|             | Gym* (2023)                                                            |

Chance draws one of N = `num_things` things, each equally likely. At each turn the player asks one
of K = `num_questions` questions, which is answered truthfully, or guesses a thing. No question
and no guess of a thing can be repeated. The episode ends with the right guess or after
M = `max_questions` turns; guesses count as turns.

The player does not read which things may be drawn, unless `show_words` is True. A guess of a thing
that may not be drawn is wrong, as any other wrong guess. To name things in order finds 20 of 140.

Answers come from a table, by default the first columns of `arena_envs/words/things.csv`, which was written for this game, and the
first rows of the half that `split` names. The player does not see the table and relies on what it knows of the
world; with `show_table=True` the rules contain the table. Optimal play knows the table; the
bot `question_tree` finds it by exact search, and `information_gain` takes the action with
the most uncertain answer.

More things make the game harder. Smallest: `num_things=2, num_questions=1, max_questions=1`; largest
shipped: `num_things=141, num_questions=45`. `table` also takes a CSV file or rows, of which none is held out.

Cheapest trick known: to name the things in order, by one who has learned the list: 0.075.

Not as in the parlour game: questions come from a list, answers are yes or no alone and never doubtful.

Measures of an episode: `success`, 1 if the thing was found and 0 otherwise; `information`,
1 - log(L) / log(N), where L things fit all answers at the end.

History: v1 hides the things, has 281 of them in two splits, 45 questions instead of 20, and guesses
of things that may not be drawn. Things with the same answers are allowed.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from arena_envs.game import TERMINAL, filled, param
from arena_envs.games.kits.clues import vocabulary
from arena_envs.games.kits.secrets import SecretGame, State, secret_shapes
from arena_envs.games.kits.words import (
    Rows,
    check_used,
    check_words,
    of_list,
    rows_of,
    shipped_rows,
)
from arena_envs.scenes.shapes import Cell, Shapes

SHIPPED = "things"  # arena_envs/words/things.csv
CELLS = {"yes": True, "no": False}


class AttributeTable(NamedTuple):
    """Things, questions, and the answer to each question about each thing."""

    things: tuple[str, ...]
    questions: tuple[str, ...]
    answers: tuple[tuple[bool, ...], ...]  # by thing, then by question

    def part(self, num_things: int, num_questions: int) -> "AttributeTable":
        """The first things and questions."""
        answers = tuple(row[:num_questions] for row in self.answers[:num_things])
        return AttributeTable(
            self.things[:num_things], self.questions[:num_questions], answers
        )


def read_rows(param: str, source: str | Path | Rows) -> tuple[tuple[str, ...], ...]:
    """The rows of a table: a header of any word and the questions, then the things.

    Args:
        param: name of the game's parameter, for error messages.
        source: "things", the table that ships with the package; or the path of a UTF-8 file
            of comma-separated values; or the rows themselves. After its thing, a row has
            "yes" or "no" for each question.

    Raises:
        ValueError: there is no such file, or a row is malformed. Names the file and the line.
    """
    if source == SHIPPED:
        return shipped_rows(SHIPPED)
    rows, where = rows_of(param, source, SHIPPED, "row")
    if len(rows) < 3 or len(rows[0]) < 2:
        raise ValueError(
            f"want a header with questions and two things or more in {param}, got "
            f"{len(rows)} rows"
        )
    check_words(rows[0], f"{where} 1, column")
    check_words([row[0] if row else "" for row in rows], where)
    for number, row in enumerate(rows, 1):
        wrong = [cell for cell in row[1:] if number > 1 and cell not in CELLS]
        if wrong or len(row) != len(rows[0]):
            raise ValueError(
                f"{where} {number}: want {len(rows[0]) - 1} cells 'yes' or 'no' after "
                f"{row[0]!r}, got {len(row) - 1} cells, {len(wrong)} of them others: "
                "correct the row"
            )
    return tuple(map(tuple, rows))


def table_of(rows: Rows) -> AttributeTable:
    """The table of rows that `read_rows` has checked."""
    return AttributeTable(
        things=tuple(row[0] for row in rows[1:]),
        questions=tuple(rows[0][1:]),
        answers=tuple(tuple(CELLS[cell] for cell in row[1:]) for row in rows[1:]),
    )


NO_THING = frozenset(["or", "and", "not", "guess", "is", "it", "do", "does", "can"])
NAMING = ("guess ", "is it a ", "is it an ", "it is a ", "it is an ")
# in this order
ASKING = ("i guess ", "guess ", "is it ", "it is ", "a ", "an ", "the ")


@dataclass(frozen=True)
class TwentyQuestions(SecretGame):
    """Twenty questions.

    Args:
        num_things: things that may be drawn, the first of the split; at least 2.
        num_questions: questions that may be asked, the first of the table; at least 1.
        max_questions: turns, for questions and guesses, 1 to `num_things` + `num_questions`.
        show_table: whether the rules contain the table.
        table: "things"; or the path of a CSV file: a header with the questions, and for each thing
            its name and "yes" or "no" for each question; or such rows.
        split: "train" or "test", the half of the shipped things that may be drawn.
        show_words: whether the rules and the prompts list the things.

    Raises:
        ValueError: a parameter is out of range, or a row of the table is malformed.
    """

    num_things: int = param(140, knob=(8, 16, 32, 64, 128))
    num_questions: int = 45
    max_questions: int = param(20, 1, lambda game: game.num_actions)
    show_table: bool = False
    table: str | Path | Rows = SHIPPED
    split: str = "train"
    show_words: bool = False
    is_spelled = True

    def __post_init__(self) -> None:
        rows = read_rows("table", self.table)
        if self.table != SHIPPED:  # so that records hold the table itself
            object.__setattr__(self, "table", rows)
        check_used("num_things", self.num_things, 2, "table", len(self._things))
        num = len(rows[0]) - 1
        check_used("num_questions", self.num_questions, 1, "table", num)
        super().__post_init__()

    @cached_property
    def _things(self) -> Rows:
        rows = read_rows("table", self.table)[1:]
        return of_list("table", rows, self.split, is_shipped=self.table == SHIPPED)

    @property
    def instances(self) -> Sequence[str]:
        return self.facts.things if self.table == SHIPPED else ()

    @cached_property
    def facts(self) -> AttributeTable:
        """The things and questions of this game."""
        table = table_of([read_rows("table", self.table)[0], *self._things])
        return table.part(self.num_things, self.num_questions)

    @property
    def num_secrets(self) -> int:
        return self.num_things

    @property
    def num_actions(self) -> int:
        return self.num_questions + self.num_things + 1

    @property
    def another(self) -> int:
        """The guess of a thing that may not be drawn."""
        return self.num_actions - 1

    @property
    def max_turns(self) -> int:
        return self.max_questions

    def answer(self, secret: int, action: int) -> int:
        """1 for yes, 0 for no."""
        if action < self.num_questions:
            return int(self.facts.answers[secret][action])
        return int(action == self.guess_of(secret))

    def guess_of(self, secret: int) -> int:
        return self.num_questions + secret

    @property
    def known_value(self) -> str:
        return f"uniform random play {float(self.uniform_value()):.6g}"

    def legal_actions(self, state: State) -> Sequence[int]:
        legal = super().legal_actions(state)
        return (
            [*legal, self.another] if self.another in state.asked and legal else legal
        )

    def shown_actions(self, state: State) -> Sequence[int]:
        if self.show_words or self.show_table:
            return self.legal_actions(state)
        return [a for a in range(self.num_questions) if a not in state.asked]

    def uniform_value(self) -> Fraction:
        """Mean return of uniform play, in which only `another` can be repeated."""
        chances = {self.num_actions: Fraction(1)}  # by number of legal actions
        value = Fraction(0)
        for turn in range(self.max_turns):
            share = Fraction(self.max_turns - turn, self.max_turns)
            after = defaultdict[int, Fraction](Fraction)
            for num, chance in chances.items():
                value += chance / num * share if num > 1 else 0
                after[num] += chance / num
                after[num - 1] += chance * Fraction(max(0, num - 2), num)
            chances = after
        return value

    def observe(self, state: State, seat: int) -> str:
        pairs = zip(state.asked, self.answers(state), strict=True)
        lines = [
            f"{turn}. {self.action_text(state, action)}: {self.told(action, answer)}"
            for turn, (action, answer) in enumerate(pairs, 1)
        ]
        if self.current_player(state) == TERMINAL:
            thing = self.facts.things[state.secret]
            last = f"The thing was: {thing}. {self.end_text(state)}"
        else:
            turn = f"Turn {len(lines) + 1} of {self.max_turns}"
            last = f"{turn}: you are to ask a question or to guess the thing."
        turn_lines = lines or ["You have not asked anything yet."]
        return "\n".join(["You are player_0.", *turn_lines, last])

    def told(self, action: int, answer: int) -> str:
        """An answer in words."""
        if action < self.num_questions:
            return "yes" if answer else "no"
        return "right" if answer else "wrong"

    def action_text(self, state: State, action: int) -> str:
        if action < self.num_questions:
            return self.facts.questions[action]
        if action == self.another:
            return "guess something else"
        return f"guess {self.facts.things[action - self.num_questions]}"

    def action_named(self, text: str) -> int | None:
        """Reads a question, "guess dog", "dog", "is it a dog" and "it is a dog"."""
        if text in self.actions_by_text:
            return self.actions_by_text[text]
        thing = text
        for prefix in ASKING:
            thing = thing.removeprefix(prefix)
        words, vocabulary_words = thing.split(), vocabulary()
        is_thing = 0 < len(words) < 4 and all(
            word in vocabulary_words for word in words
        )
        names_thing = text.startswith(NAMING) or len(text.split()) == 1
        is_other = names_thing and is_thing and not {*text.split()[2:]} & NO_THING
        other_action = self.another if is_other and not {*words} & NO_THING else None
        return self.actions_by_text.get(f"guess {thing}", other_action)

    def rules(self, seat: int) -> str:
        things, questions, _ = self.facts
        parts = [
            filled(
                "twenty_questions",
                self,
                shows=self.show_words or self.show_table,
                things=things,
                questions=questions,
                example=questions[0],
                scores=self.scores_text("you guess it at turn t"),
            )
        ]
        if self.show_table:
            parts += ["The answer is yes to these questions and no to the others:"]
            for thing, answers in zip(things, self.facts.answers, strict=True):
                answered_questions = zip(questions, answers, strict=True)
                yes = [question for question, is_true in answered_questions if is_true]
                parts.append(f"{thing}: {', '.join(yes) or 'none of them'}.")
        return "\n".join(parts)


def scene(game: TwentyQuestions, state: State, viewer: int | None) -> Shapes:
    """The thing, and the questions with their answers."""
    rows = [
        (game.action_text(state, action), Cell(game.told(action, yes), "green" * yes))
        for action, yes in zip(state.asked, game.answers(state), strict=True)
    ]
    thing = ("thing", game.facts.things[state.secret])
    return secret_shapes(game, state, viewer, thing, ("question", "answer"), rows)
