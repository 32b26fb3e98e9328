"""Twenty questions: answers, texts, tables, and the optimum by exact search."""

import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import arena_envs
from arena_envs import TERMINAL, IllegalAction
from arena_envs.bots import make_bot
from arena_envs.games.kits.questions import QuestionTree, Search
from arena_envs.games.kits.secrets import State
from arena_envs.games.twenty_questions import TwentyQuestions, read_rows, table_of
from arena_envs.solvers import expected_returns, uniform_table

game = TwentyQuestions(16, 12, show_words=True)
ROWS = (
    ("thing", "is it red", "is it a toy"),
    ("rose", "yes", "no"),
    ("ball", "yes", "yes"),
    ("moon", "no", "no"),
)


def brute_force(rules: TwentyQuestions) -> float:
    """Expected return of optimal play, over all sets of things; knows nothing of the bots."""
    facts, most = rules.facts, rules.max_turns

    @cache
    def best(left: frozenset[int], turn: int) -> int:
        """The sum of the returns of these things, times M."""
        if not left or turn > most:
            return 0
        values = [most + 1 - turn + best(left - {thing}, turn + 1) for thing in left]
        for question in range(rules.num_questions):
            yes = frozenset(thing for thing in left if facts.answers[thing][question])
            if yes and yes != left:
                values.append(best(yes, turn + 1) + best(left - yes, turn + 1))
        return max(values)

    everything = frozenset(range(rules.num_things))
    return best(everything, 1) / most / rules.num_things


@pytest.mark.parametrize(
    ("num_things", "num_questions", "max_turns"),
    [(2, 1, 1), (4, 3, 7), (5, 4, 2), (8, 8, 4), (9, 8, 12)],
)
def test_the_search_is_exact(
    num_things: int, num_questions: int, max_turns: int
) -> None:
    rules = TwentyQuestions(num_things, num_questions, max_turns)
    assert Search(rules).value() == pytest.approx(brute_force(rules))


@pytest.mark.parametrize(
    ("params", "value", "turns"),
    [
        ({"num_questions": 12}, 0.796875, 5.0625),
        ({"num_questions": 45}, 0.825, 4.5),
    ],
)
def test_optimal_play_has_its_known_value(
    params: dict[str, int], value: float, turns: float
) -> None:
    rules = TwentyQuestions(num_things=16, **params)
    found = Search(rules).value()
    assert found == pytest.approx(value, abs=1e-6)
    assert 21 - 20 * found == pytest.approx(turns, abs=1e-6)


def test_uniform_play_has_its_known_value() -> None:
    tiny = TwentyQuestions(3, 2, 3, table=ROWS)
    value = expected_returns(tiny, uniform_table(tiny))[0]
    assert value == pytest.approx(float(tiny.uniform_value()))
    assert TwentyQuestions().known_value == "uniform random play 0.0564407"


def test_things_that_may_not_be_drawn_can_be_guessed_again_and_again() -> None:
    state = State(0)
    for text in ("guess unicorn", "Guess a magic wand!", "Is it a piano?", "piano"):
        assert game.parse(state, text) == game.another
        state = game.apply(state, game.another)
    assert game.another in game.legal_actions(state)
    assert game.observe(state, 0).count("guess something else: wrong") == 4
    for text in ("guess dog or cat", "guess xqzz", "guess not a dog"):
        with pytest.raises(IllegalAction):
            game.parse(state, text)


def test_no_prompt_lists_the_things_unless_asked_to() -> None:
    hidden = TwentyQuestions()
    assert set(hidden.shown_actions(State(0))) == set(range(hidden.num_questions))
    assert game.facts.things[3] in game.rules(0)
    assert (
        len(set(TwentyQuestions(split="test").instances) & set(hidden.instances)) == 0
    )
    told = hidden.rules(0).replace(",", "").split("You may ask")[0].split()
    assert not {"lizard", "clock", "beaver"} & {*told}


@pytest.mark.parametrize("spec", ["information_gain", "question_tree"])
def test_bots_play_the_optimum_of_the_default_game(spec: str) -> None:
    """It splits into halves, so information gain is optimal, too."""
    rules = TwentyQuestions(num_things=16)
    bot, total = make_bot(spec), 0.0
    for secret in range(16):
        state, rng = State(secret), random.Random(0)  # one tree for all things
        while rules.current_player(state) != TERMINAL:
            state = rules.apply(state, bot(rules, state, rng))
        total += rules.returns(state)[0]
    assert total / 16 == pytest.approx(0.825)


def test_a_game_that_is_too_large_to_search_is_refused() -> None:
    with pytest.raises(ValueError, match=r"more than 3 sets .* 'information_gain'"):
        QuestionTree(max_sets=3)(game, State(0), random.Random(0))


def test_answers_are_shown_in_order_and_the_thing_at_the_end() -> None:
    rules = TwentyQuestions(3, 2, 3, table=ROWS)
    state = State(1, (0, 2))
    assert rules.observe(state, 0) == (
        "You are player_0.\n1. is it red: yes\n2. guess rose: wrong\n"
        "Turn 3 of 3: you are to ask a question or to guess the thing."
    )
    assert rules.candidates(state) == [1]
    found = rules.apply(state, rules.parse(state, "Is it a ball?"))
    assert rules.returns(found) == (1 / 3,)
    assert rules.observe(found, 0).endswith(
        "3. guess ball: right\nThe thing was: ball. The game is over: your score is 0.3333."
    )
    missed = rules.apply(State(1, (0, 1)), 2)
    assert rules.returns(missed) == (0.0,)
    assert rules.measures(missed) == {"success": 0.0, "information": 1.0}


def test_other_spellings_are_read() -> None:
    state = State(0)
    for text in ("guess clock", "clock", "Is it a clock?", "it is the clock."):
        assert game.parse(state, text) == 12
    assert game.parse(state, "Is it an animal?") == 0
    for text in ("is it blue", "an animal", "guess is it an animal", "is it"):
        with pytest.raises(IllegalAction, match="names no action"):
            game.parse(state, text)
    with pytest.raises(IllegalAction, match="not legal now"):
        game.parse(State(0, (0,)), "is it an animal")


def test_rules_show_the_table_on_demand() -> None:
    rules = TwentyQuestions(3, 2, 3, table=ROWS, show_words=True)
    shown = TwentyQuestions(3, 2, 3, show_table=True, table=ROWS)
    assert shown.rules(0) == rules.rules(0) + (
        "\nThe answer is yes to these questions and no to the others:\nrose: is it red."
        "\nball: is it red, is it a toy.\nmoon: none of them."
    )


def test_a_table_may_be_a_file(tmp_path: Path, check_contract: Any) -> None:
    path = tmp_path / "own.csv"
    path.write_text("\n".join(map(",".join, ROWS)), encoding="utf-8")
    rules = TwentyQuestions(3, 2, 4, table=path)
    assert rules == TwentyQuestions(3, 2, 4, table=[list(row) for row in ROWS])
    check_contract(rules)


def test_the_largest_shipped_game_has_different_things() -> None:
    table = table_of(read_rows("table", "things"))
    assert (len(table.things), len(table.questions)) == (281, 45)
    assert len(set(table.answers)) == 281
    large = TwentyQuestions(141, show_table=True)
    assert len(large.rules(0)) < 50_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "thing,is it red\na,yes\na,no\n",
            r"own.csv\), line 3: 'a' stands at 2 already",
        ),
        ("thing,is it red\na,yes\n,no\n", r"line 3: want a word of .* got ''"),
        (
            "thing,is it red\na,yes\nb,maybe\n",
            r"line 3: want 1 cells .* 1 of them others",
        ),
        ("thing,is it red\na,yes\nb\n", r"line 3: want 1 cells .*, got 0 cells"),
        (
            "thing,is it red,is it red\na,yes,no\nb,no,no\n",
            r"column 3: 'is it red' stands",
        ),
        ("thing,is it red\na,yes\n", "want a header with questions and two things"),
    ],
)
def test_a_table_with_errors_is_refused_with_its_line(
    text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "own.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        TwentyQuestions(2, 1, 2, table=str(path))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"num_things": 142}, "want an integer num_things from 2 to 141, got 142"),
        ({"num_questions": 46}, "num_questions from 1 to 45, got 46"),
        ({"max_questions": 187}, "max_questions from 1 to 186, got 187"),
        ({"show_table": 1}, "want show_table True or False, got 1"),
        ({"table": "thinks"}, "want table as 'things' or the path .*got 'thinks'"),
        ({"table": 7}, "want table as 'things', the path .*got 7"),
        ({"table": ["ab", "cd"]}, "or a sequence of rows"),
    ],
)
def test_parameters_out_of_range_are_refused(params: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        arena_envs.make_game("twenty_questions", **params)
