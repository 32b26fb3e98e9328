"""Referential game: what is hidden, words and codes, cross-play, lists of attributes."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from arena_envs import CHANCE, TERMINAL, IllegalAction
from arena_envs.bots import make_bot
from arena_envs.game import sample_chance
from arena_envs.games.referential import Referential, State

PAIR = Referential(num_attributes=2, num_values=3, num_objects=3, num_rounds=2)
DRAWN = ("red square", "blue circle", "red circle")  # in the picker's order


def play(texts: Sequence[str], targets: Sequence[str], rules: Any = PAIR) -> State:
    """The state after these are said; each target is drawn when it is due."""
    objects = tuple(rules.names.index(name) for name in DRAWN)
    state, drawn = State(objects), iter(targets)
    for text in (*texts, None):
        if rules.current_player(state) == CHANCE and (name := next(drawn, None)):
            state = rules.apply(state, rules.names.index(name))
        if text is not None:
            state = rules.apply(state, rules.parse(state, text))
    return state


def mean_return(describer: str, picker: str, mute: bool = False) -> float:
    """Of 200 games, with every message replaced by "thing" if `mute`."""
    rules, total = Referential(), 0.0
    bots = (make_bot(f"referrer:{describer}"), make_bot(f"referrer:{picker}"))
    for seed in range(200):
        state, rng = rules.initial_state(), random.Random(seed)
        while (player := rules.current_player(state)) != TERMINAL:
            said: Any
            if player == CHANCE:
                said = sample_chance(rules, state, rng)
            else:
                said = bots[player](rules, state, rng)
                if mute and player == 0:
                    said = said._replace(message="thing")
            state = rules.apply(state, said)
        total += rules.returns(state)[0]
    return total / 200


@pytest.mark.parametrize(
    "rules",
    [
        Referential(num_attributes=1, num_values=2, num_objects=2, num_rounds=1),
        Referential(num_values=5, num_objects=12, num_rounds=1, split="test"),
    ],
)
def test_the_smallest_and_a_large_game_keep_the_contract(
    rules: Referential, check_contract: Any
) -> None:
    check_contract(rules)


def test_the_text_is_bounded_in_the_longest_game() -> None:
    rules = Referential(num_objects=3, num_rounds=20, max_message=400)
    state, rng = rules.initial_state(), random.Random(0)
    while (player := rules.current_player(state)) != TERMINAL:
        if player == CHANCE:
            state = rules.apply(state, sample_chance(rules, state, rng))
        else:
            text = "pick 1" if player else "say: " + "\U000e0041" * 400
            state = rules.apply(state, rules.parse(state, text))
            assert max(len(rules.observe(state, seat)) for seat in (0, 1)) < 16_000


class TestRules:
    def test_each_right_pick_pays_both_less_the_cost_of_words(self) -> None:
        texts = ["say: the RED one, no circle", "pick 1", "say: red", "pick 1"]
        state = play(texts, ["red square", "red circle"])
        assert PAIR.returns(state) == pytest.approx((0.3, 0.3))  # five words cost 0.4
        # red is true, circle is not; then red is true
        measures = {"success": 0.5, "truthfulness": 2 / 3, "words": 3.0, "refused": 0}
        assert PAIR.measures(state) == pytest.approx(measures)

    def test_a_pick_never_costs_more_than_it_pays(self) -> None:
        texts = ["say: a red thing that we may know from a box of old toys", "pick 1"]
        assert PAIR.returns(play(texts, ["red square"])) == (0, 0)

    @pytest.mark.parametrize("said", ["xqz", "number three", "r3d", "red red red"])
    def test_a_refused_message_ends_the_round_unread(self, said: str) -> None:
        state = play([f"say: {said}"], ["red square"] * 2)
        assert PAIR.current_player(state) == 0
        assert "Round 1: the message was refused, because" in PAIR.observe(state, 0)
        assert PAIR.observe(state, 1).splitlines()[-2:] == [
            "Round 1: player_0 spoke.",
            "Round 1: the message was refused.",
        ]
        assert PAIR.measures(state)["refused"] == 1
        assert PAIR.resample(state, 0, random.Random(0)).picked == (-1,)

    def test_a_message_is_read_in_lower_case(self) -> None:
        state = play([], ["red square"])
        assert PAIR.parse(state, "SAY:  Red") in PAIR.legal_actions(state)
        assert PAIR.parse(state, "say: Red!").message == "red"

    def test_many_objects_are_held_out_and_few_are_not(self) -> None:
        train, test = Referential(), Referential(split="test")
        assert len(train.names) == len(test.names) == 128
        assert not {*train.names} & {*test.names}
        assert PAIR.instances == ()
        with pytest.raises(
            ValueError, match="split='train' with fewer than 50 objects"
        ):
            Referential(num_attributes=2, split="test")

    @pytest.mark.parametrize(
        ("texts", "text", "wanted"),
        [
            ([], "red", 'want "say:" and a message'),
            ([], "say:", "want a message after"),
            (["say: red"], "pick 4", "want a pick from 1 to 3, got 4"),
            (["say: red"], "Which?\npick 1", "no message with the action"),
        ],
    )
    def test_other_texts_are_refused(
        self, texts: list[str], text: str, wanted: str
    ) -> None:
        with pytest.raises(IllegalAction, match=wanted):
            PAIR.parse(play(texts, ["red square"]), text)


class TestWhatIsHidden:
    def test_only_the_describer_reads_the_target_and_only_the_picker_the_numbers(
        self,
    ) -> None:
        state = play(
            ["say: one with corners", "pick 2", "say: box"], ["red square"] * 2
        )
        assert PAIR.observe(state, 0).splitlines() == [
            "You are player_0, the describer. Round 2 of 2. player_1 is to move: pick an object.",
            "The objects are: blue circle, red circle, red square.",
            "The target is: red square.",
            'Round 1: you said: "one with corners"',
            "Round 1: player_1 picked blue circle, which was wrong: the target was red square.",
            'Round 2: you said: "box"',
        ]
        assert PAIR.observe(state, 1).splitlines() == [
            "You are player_1, the picker. Round 2 of 2. You are to move: pick an object.",
            "The objects are: 1. red square, 2. blue circle, 3. red circle.",
            'Round 1: player_0 said: "one with corners"',
            "Round 1: you picked blue circle, which was wrong: the target was red square.",
            'Round 2: player_0 said: "box"',
        ]

    def test_new_draws_cover_all_that_a_seat_cannot_know(self) -> None:
        state = play(["say: red", "pick 2", "say: red"], ["red square"] * 2)
        rng = random.Random(0)
        targets = {PAIR.resample(state, 1, rng).targets[1] for _ in range(50)}
        assert targets == {*state.objects}
        drawn = [PAIR.resample(state, 0, rng) for _ in range(100)]
        assert len({each.objects for each in drawn}) == 6
        assert {each.picked for each in drawn} == {state.picked}


class TestScriptedPlayers:
    def test_pairs_with_one_code_score_most_and_mixed_pairs_less(self) -> None:
        assert mean_return("optimal", "optimal") == 1
        assert mean_return("honest", "honest") > 0.97
        assert mean_return("honest", "optimal") < 0.5
        assert mean_return("optimal", "honest") < 0.5

    def test_one_word_says_less_than_the_fewest_that_fit(self) -> None:
        assert mean_return("greedy", "honest") < mean_return("honest", "honest")

    @pytest.mark.parametrize(
        ("describer", "picker", "mute"),
        [
            ("silent", "honest", False),
            ("silent", "optimal", False),
            ("silent", "silent", False),
            ("honest", "honest", True),
        ],
    )
    def test_without_words_a_pick_is_a_guess(
        self, describer: str, picker: str, mute: bool
    ) -> None:
        found = mean_return(describer, picker, mute)
        assert found == pytest.approx(1 / 4, abs=0.05)

    def test_another_style_is_refused(self) -> None:
        with pytest.raises(ValueError, match="want a style among greedy, honest"):
            make_bot("referrer:kind")


class TestParameters:
    def test_a_list_of_attributes_comes_from_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "list.csv"
        path.write_text("old,new\nblunt,sharp,broken\n", "utf-8")
        params: dict[str, Any] = {
            "num_attributes": 2,
            "num_values": 2,
            "num_objects": 3,
        }
        rules = Referential(attributes=path, **params)
        assert rules.names == ("new blunt", "new sharp", "old blunt", "old sharp")
        assert rules == Referential(attributes=rules.attributes, **params)

    @pytest.mark.parametrize(
        ("text", "wanted"),
        [
            ("old,new\nblunt,,sharp\n", "line 2, value 2: want a word"),
            ("old,new\nblunt,new\n", "line 2: 'new' stands at 1 already"),
            ("old,new,old\n", "line 1, value 3: 'old' stands at 1 already"),
            ("old,very new\n", "line 1: want values of 1 to 20 letters a to z"),
            ("old\n", "line 1: want two values or more, got 1"),
            ("", "want an attribute or more"),
        ],
    )
    def test_a_bad_list_is_refused_with_its_line(
        self, tmp_path: Path, text: str, wanted: str
    ) -> None:
        path = tmp_path / "list.csv"
        path.write_text(text, "utf-8")
        with pytest.raises(ValueError, match=wanted):
            Referential(attributes=path)

    @pytest.mark.parametrize(
        ("params", "wanted"),
        [
            ({"num_objects": 13}, "num_objects from 2 to 12, got 13"),
            ({"word_cost": 2}, "word_cost from 0 to 1, got 2"),
            (
                {"num_attributes": 5},
                "num_attributes from 1 to 4, got 5; attributes has 4",
            ),
            (
                {"num_values": 6},
                "num_values from 2 to 5, got 6; an attribute in use has 5",
            ),
            ({"num_rounds": 0}, "num_rounds from 1 to 20, got 0"),
            ({"max_message": 500}, "max_message from 1 to 400, got 500"),
            ({"attributes": "nothing"}, "want attributes as 'attributes' or the path"),
            ({"attributes": 3}, "or a sequence of attributes, got 3"),
        ],
    )
    def test_impossible_parameters_are_refused(
        self, params: dict[str, Any], wanted: str
    ) -> None:
        with pytest.raises(ValueError, match=wanted):
            Referential(**params)
