"""Written answers: where replies have them, and which numbers, choices and texts they are."""

import random
import time
from pathlib import Path

import pytest

from arena_envs import IllegalAction
from arena_envs.game import AnyGame
from arena_envs.games.kits.answers import answer_of, letter_of
from arena_envs.games.questions import (
    Questions,
    Task,
    score,
    sources,
)
from tests.games.test_questions import asked, jsonl

NUMBERS = [  # right, answer, score
    *[
        ("42", text, 1)
        for text in ("42", "42.00", "42 apples", "$42$", r"\boxed{42}", "= 42")
    ],
    *[
        ("42", text, 1)
        for text in ("**42**", "forty-two", "x = 42", "f(x)=42", "84/2", "4\u200b2")
    ],
    *[
        ("42", text, 1)
        for text in ("42, since 6*7 = 42", "42 (forty-two)", "Ann has 42 pens.")
    ],
    *[
        ("42", text, 0)
        for text in ("-42", "\u221242", "minus 42", "-x = 42", "42 or 43", "not 42")
    ],
    *[
        ("42", text, 0)
        for text in ("42 is wrong", "42 (43)", "4 2", "42!", "42x", "maybe 42", "42?")
    ],
    *[
        ("5", text, 0)
        for text in ("\u22605", "5!", "\u221a5", r"\sqrt{5}", "5 or more", "about 5")
    ],
    *[
        ("5", text, 0)
        for text in ("less than 5", "> 5", "5 squared", "5^2", "5 to 6", "(5, 6)", "~5")
    ],
    *[
        ("5", text, 0)
        for text in ("5 million", "5e", "5 pi", r"\neq 5", "isn't 5", "5 + 0", "5+")
    ],
    *[
        ("-3", text, 1)
        for text in ("\u22123", "- 3", "\u20133", "negative three", "-6/2", "(-3)")
    ],
    *[
        ("0.5", text, 1)
        for text in (".5", "1/2", r"\frac12", r"\tfrac{1}{2}", "\u00bd", "50%")
    ],
    *[
        ("1000", text, 1)
        for text in ("1,000", "1e3", "10^3", "10\u00b3", r"10^{3}", "1 000", "1000.")
    ],
    *[
        ("12", text, 1)
        for text in ("12cm", "12 cm^2", "12 m\u00b2", r"12\,\text{cm}", r"\text{12}")
    ],
    *[
        ("7", text, 1)
        for text in ("\uff17", "\u0667", "7\u00b0", r"7^\circ", "\u201c7\u201d", "[7]")
    ],
    *[("3.5", text, 1) for text in ("3 1/2", "3\u00bd", "3,5", r"3\frac{1}{2}")],
    *[("12 cm", text, 1) for text in ("120 mm", "12 cm", "12", "0.12 meters")],
    *[("12 cm", text, 0) for text in ("12 m", "12 kg", "12 cm^2")],
    *[
        ("1 million", text, 1)
        for text in ("1000000", "1,000,000", "10^6", "one million")
    ],
]
WORMS = ("C. elegans", "D. melanogaster", "E. coli", "c")
CHOICES = [  # right, answer, score
    *[
        ("A", text, 1)
        for text in ("A", "(a)", "A.", "**A**", "C. elegans", "A) C. elegans", "[A]")
    ],
    *[
        ("A", text, 1)
        for text in ("The answer is C. elegans", r"\text{C. Elegans}", "\uff21")
    ],
    *[
        ("A", text, 1)
        for text in ("option A", "A, since it is a worm", "A - C. elegans", "I pick A")
    ],
    *[
        ("A", text, 0)
        for text in ("A or B", "A) B) C) D)", "A. D. melanogaster", "not A", "\u0391")
    ],
    *[("A", text, 0) for text in ("A. No, B", "ABC", "A/B", "A?", "A is wrong", "C")],
    *[
        ("C", "C. elegans", 0),
        ("C", "E. coli", 1),
        ("C", "C", 1),
        ("C", "c", 0),
        ("D", "c", 1),
    ],
]
TEXTS = [  # right, answer, score
    *[("x^2+1", "x^2 + 1", 1), ("(1, 2)", "(1,2)", 1), ("3\u03c0", "3 \u03c0", 1)],
    *[("Paris", "**paris.**", 1), ("Paris", r"\text{Paris}", 1), ("is", "is", 1)],
    *[("Yes. He was right.", "Yes. He was right.", 1), ("caf\u00e9", "cafe\u0301", 1)],
    *[
        ("Paris", "not Paris", 0),
        ("15", "1 5", 0),
        ("New York", "NewYork", 0),
        ("*", "", 0),
    ],
    *[("...", "", 0), ("Paris", "Paris or London", 0)],
]


@pytest.mark.parametrize(
    ("scoring", "table"), [("numeric", NUMBERS), ("choice", CHOICES), ("exact", TEXTS)]
)
def test_written_answers_score_as_a_reader_would_score_them(scoring, table):
    scores = [
        (right, text, score(Task("", right, scoring, WORMS), text))
        for right, text, _ in table
    ]
    assert scores == table


REPLIES = [  # reply, answer, message
    ("42 is the answer.", "42", ""),
    ("So 42 is the final answer, because 6*7 = 42.", "So 42", ""),
    ("Answer: 42\nI am sure of this answer.", "42", ""),
    (r"\boxed{42} is my final answer.", "42", ""),
    (r"The answer is $\boxed{42}$.", "42", ""),
    ("First 10.\nSo the final answer: **42**", "42", "First 10."),
    ("42\n\nHope this helps!", "42", ""),
    ("It is 6*7.\n#### 42", "42", "It is 6*7."),
    ("<answer>answer 42</answer>", "42", ""),
    ("answer 41, answer 42", "42", "answer 41,"),
    ("Let me answer step by step.\n6*7\n42", "42", "Let me answer step by step.\n6*7"),
    ("answer is: x = 42", "x = 42", ""),
    ("answer: is", "is", ""),
    ("answer 3\n4", "3 4", ""),
    ("answer\n42", "42", ""),
    ("The answer is E. coli.", "E. coli", ""),
    ("answer: =", None, None),
    ("The answer", None, None),
    (" \n", None, None),
]


@pytest.mark.parametrize(("reply", "answer", "message"), REPLIES)
def test_the_answer_of_a_reply_is_where_a_reader_finds_it(reply, answer, message):
    assert answer_of(reply) == (None if answer is None else (message, answer))


@pytest.mark.parametrize(
    "text",
    [
        *("answer " * 2800, " " * 19_999 + "x", "So the " * 2800, "*" * 20_000),
        *("#### " * 4000, "\\boxed{" * 2800, "is the answer " * 1400, "1," * 9999),
        *("is " * 6600, "(" * 20_000),
    ],
)
def test_a_hostile_reply_is_read_in_linear_time(text):
    start = time.process_time()
    answer_of(text)
    for scoring in ("numeric", "choice", "exact"):
        score(Task("", "7", scoring, WORMS), text)
    assert time.process_time() - start < 1.0


KEYS = [  # choices, key, letter
    (["E. coli", "C. elegans", "S. aureus"], "C. elegans", "B"),
    (["S. aureus", "M. leprae", "E. coli"], "E. coli", "C"),
    (["v", "k", "h", "c"], "c", "D"),
    (["D", "C", "B", "A"], "A", "D"),
    (["I. only", "II. only", "both"], "I. only", "A"),
    (["True", "False"], True, "A"),
    (["0", "4", "2", "6"], 1, "B"),
    ([3, 5, 7], 0, "A"),
    (["tin", "gold"], "b", "B"),
    (["A)21", "B)22"], "B", "B"),
    (["A)B", "B)A"], "B", "B"),
    (["tin", "gold"], "B. gold", "B"),
]


@pytest.mark.parametrize(("choices", "key", "letter"), KEYS)
def test_the_key_of_a_file_is_a_text_of_a_choice_before_a_letter(
    choices, key, letter, tmp_path
):
    row = {"question": "Which?", "choices": choices, "answer": key}
    (task,) = sources.make(jsonl(tmp_path / "a.jsonl", row)).tasks("train")
    assert task.answer == letter


@pytest.mark.parametrize(
    ("choices", "key"),
    [
        (["tin", "gold"], "C. elegans"),
        (["Gold", "gold"], "GOLD"),
        ([1, 2, 3], 1),  # the second, or 1
        (["tin", "gold"], "A. gold"),
        (["tin", "gold"], "A. It is tin"),
        (["tin", "None"], None),
    ],
)
def test_a_key_that_may_mean_two_choices_is_refused(choices, key, tmp_path):
    row = {"question": "Which?", "choices": choices, "answer": key}
    with pytest.raises(ValueError, match="of exactly one of"):
        sources.make(jsonl(tmp_path / "a.jsonl", row))


def test_a_letter_in_words_is_no_choice():
    assert letter_of(("tin", "gold"), "a cup") is None


@pytest.fixture
def odd_questions(tmp_path: Path) -> AnyGame:
    """A game whose right answers are words that replies are made of."""
    words = "is|answer|the answer|1.|A|B.|not|5!|42 is the answer|say nothing|Dr. King|= 4|x = 3"
    rng = random.Random(0)
    texts = [
        *words.split("|"),
        *(" ".join(rng.sample(words.split("|"), 2)) for _ in range(30)),
    ]
    rows = [{"question": f"{n}?", "answer": text} for n, text in enumerate(texts)]
    path = jsonl(tmp_path / "odd.jsonl", *rows)
    return Questions(
        "solo", source=f"{path}(test={path.partition(':')[2]})", split="test"
    )


def test_a_right_answer_in_any_words_can_be_given(odd_questions):
    wrong = []
    for number, task in enumerate(odd_questions.tasks):
        state = asked(odd_questions, number)
        try:
            action = odd_questions.parse(state, f"answer {task.answer}")
        except IllegalAction:
            wrong.append(task.answer)
        else:
            state = odd_questions.apply(state, action)
            wrong += [] if odd_questions.returns(state) == [1] else [task.answer]
    assert not [text for text in wrong if "answer" not in text]
