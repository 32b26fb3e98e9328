"""Imitated replies with reasons: those of rounds and guessing are right, most actions are random."""

import re
from typing import Any

import pytest

import game_reasons
from arena_envs import make
from night_settings import TRAINED


def parts(example):
    """The prompt, the reason and the action."""
    match = re.fullmatch(r"Because (.*) therefore (.*)", example.reply)
    return example.messages[-1]["content"], *match.groups()


def test_reasons_of_rounds_name_the_symbol_and_its_right_answer():
    game: Any = make("rounds", **TRAINED["rounds"]).game
    examples = [parts(e) for e in game_reasons.examples_of("rounds")]
    follows = []
    for prompt, reason, action in examples:
        symbol = re.search(r"The symbol is ([A-D]);", prompt)[1]
        answer = game.right_answer(ord(symbol) - 65)
        assert reason == f"the symbol is {symbol} so {answer} is best"
        follows.append(action == f"answer {answer}")
    # 30 % by intent, and a quarter of the rest by chance; four standard errors
    assert sum(follows) / len(follows) == pytest.approx(0.475, abs=0.1)


def test_reasons_of_guessing_name_the_numbers_left_and_a_middle_one():
    for prompt, reason, _ in map(parts, game_reasons.examples_of("guess_number")):
        low, high = 1, 8
        for number, answer in re.findall(r"(\d) is too (low|high)\.", prompt):
            if answer == "low":
                low = max(low, int(number) + 1)
            else:
                high = min(high, int(number) - 1)
        best = {(low + high) // 2, (low + high + 1) // 2}
        if "guess 4 of 4" in prompt:  # all that are left are alike
            best = {*range(low, high + 1)}
        assert reason in {f"it is from {low} to {high} so {n} is best" for n in best}
