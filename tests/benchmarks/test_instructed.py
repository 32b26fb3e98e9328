"""The measures of instructRL on Say-Select."""

from collections import Counter

import pytest

pytest.importorskip("torch")

import instructed
from arena_envs.solvers import information_states


def table(shift, quits=False):
    """Speakers name the ball from which a selector that adds `shift` gets the one that pays."""
    found = {}
    for key, state in information_states(instructed.GAME).items():
        if state.said:
            ball = (state.said[-1].values[0] - 1 + shift) % 3
            found[key] = [float(i == (3 if quits else ball)) for i in range(4)]
        else:
            found[key] = [
                float(i == (state.paying[0] - 1 - shift) % 3) for i in range(3)
            ]
    return found


def test_both_conventions_have_the_best_score_and_another_matrix():
    assert instructed.score(table(0)) == instructed.score(table(1)) == 1
    assert instructed.conventions(table(0)) == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert instructed.conventions(table(1)) == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]


def test_the_speakers_matrix_is_the_inverse_of_the_selectors():
    spoken = instructed.conventions(table(1), speaker=True)
    assert spoken == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    assert instructed.conventions(table(0), speaker=True)[0] == [1, 0, 0]


def test_who_always_quits_scores_nothing():
    assert instructed.score(table(0, quits=True)) == 0


def test_the_stand_in_follows_its_instruction_in_seven_of_ten_replies():
    found = Counter(
        (one.messages[-1]["content"], one.reply)
        for one in instructed.examples(40)
        if one.messages[0]["content"] == instructed.INSTRUCTIONS["next"]
    )
    named = next(prompt for prompt, _ in found if "named ball 3" in prompt)
    assert found[named, "select 1"] == 31  # 40 x (0.7 + 0.3 / 4)
    assert found[named, "quit"] == 3
