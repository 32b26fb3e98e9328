"""Taboo: what says a word, ends of both kinds of games, what is hidden, cards of one's own."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from arena_envs import TERMINAL, IllegalAction
from arena_envs.bots import make_bot
from arena_envs.game import sample_chance
from arena_envs.games.kits.words import forms, said_among, shipped_rows
from arena_envs.games.taboo import State, Taboo, read_rows
from arena_wrappers import PromptOptions, messages

CARDS = (
    *(
        ("dog", "leash", "bark", "puppy", "pet"),
        ("apple", "cider", "fruit", "red", "tree"),
    ),
    *(
        ("piano", "keys", "music", "play", "black"),
        ("moon", "lunar", "night", "sky", "sun"),
    ),
    *(
        ("bread", "bakery", "toast", "flour", "loaf"),
        ("winter", "snow", "cold", "season", "ice"),
    ),
    *(
        ("doctor", "surgeon", "sick", "nurse", "job"),
        ("king", "throne", "queen", "crown", "royal"),
    ),
)
WITH = Taboo(num_cards=8, cards=CARDS)
AGAINST = Taboo(num_cards=8, adversarial=True, cards=CARDS)


def play(texts: Sequence[str], rules: Taboo = WITH, word: str = "dog") -> State:
    """The state after these are said."""
    state = rules.apply(rules.initial_state(), word)
    for text in texts:
        state = rules.apply(state, rules.parse(state, text))
    return state


def mean_return(first: str, second: str, rules: Taboo, mute: bool = False) -> float:
    """Of player_0 in 200 games, with its messages replaced by "well" if `mute`."""
    bots, total = [make_bot(f"taboo:{style}") for style in (first, second)], 0.0
    for seed in range(200):
        rng = random.Random(seed)
        state = rules.apply(rules.initial_state(), sample_chance(rules, State(), rng))
        while (player := rules.current_player(state)) != TERMINAL:
            said = bots[player](rules, state, rng)
            if mute and player == 0:
                said = said._replace(message="well")
            state = rules.apply(state, said)
        total += rules.returns(state)[0]
    return total / 200


class TestWhatSaysAWord:
    @pytest.mark.parametrize(
        "text",
        [
            *("A DOG!", "dogs", "two dog's tails", "dogged", "a hot-dog", "(dog)"),
            *(
                "d o g",
                "d.o.g.",
                "D-O-G",
                "do-g",
                "d0g",
                "D0GS",
                "do*g",
                "a d o g",
                "d - o - g",
            ),
            *("d\u00f6g", "do\u0301g", "do\u200bg", "do\u00adg", "\uff44\uff4f\uff47"),
            *(
                "\u0501\u043eg",
                "d\u03bfg",
                "\U0001d41d\U0001d428\U0001d420",
                "do\u0261",
            ),
        ],
    )
    def test_forms_and_disguises_say_it(self, text: str) -> None:
        assert said_among(text, ["cat", "dog"]) == "dog"

    @pytest.mark.parametrize(
        "text",
        [
            "dogma",
            "doghouse",
            "I do go",
            "god",
            "do gladly",
            "d",
            "",
            "\u72d7",
            "x" * 400,
        ],
    )
    def test_parts_of_longer_words_and_other_words_do_not(self, text: str) -> None:
        assert said_among(text, ["dog"]) is None

    @pytest.mark.parametrize(
        ("word", "others"),
        [
            ("wolf", "wolves"),
            ("knife", "knives"),
            ("berry", "berries"),
            ("box", "boxes boxing"),
            ("mouse", "mice"),
            ("bake", "bakes baked baking"),
            ("run", "runs running"),
            ("scissors", "scissor"),
        ],
    )
    def test_a_word_has_forms(self, word: str, others: str) -> None:
        assert {word, *others.split()} <= forms(word)

    def test_short_or_similar_words_are_no_forms(self) -> None:
        assert not {"card", "care"} & forms("car")
        assert "beer" not in forms("bee")
        assert "glas" not in forms("glass")

    def test_no_text_takes_long(self) -> None:
        for text in ("a " * 200, "a-" * 200, "\U000e0041" * 400, "\ufdfa" * 400):
            said_among(text, ["dog"])


@pytest.mark.parametrize(
    "rules",
    [
        AGAINST,
        Taboo(num_cards=2, num_rounds=1, num_forbidden=0, split="test"),
        Taboo(num_cards=12, num_rounds=2, num_forbidden=5, show_words=True),
    ],
)
def test_other_settings_keep_the_contract(rules: Taboo, check_contract: Any) -> None:
    check_contract(rules)


@pytest.mark.parametrize("adversarial", [False, True])
def test_the_text_is_bounded_in_the_longest_game(adversarial: bool) -> None:
    params: Any = {"num_cards": 8, "cards": CARDS, "adversarial": adversarial}
    rules = Taboo(num_rounds=20, max_message=300, **params)
    long = "\U000e0041" * 300
    second = f"say: {long}" if adversarial else f"{long}\nguess " + "a" * 20
    state = play([f"say: {long}", second][: 1 + adversarial] * 20, rules)
    assert rules.current_player(state) == TERMINAL
    assert max(len(rules.observe(state, seat)) for seat in range(2)) < 18_000


class TestCooperative:
    def test_a_right_guess_pays_both_by_its_number(self) -> None:
        state = play(
            ["say: an animal", "Hm.\nguess cat", "say: on a leash", "guess Dogs"]
        )
        assert state.end == "guessed"
        assert WITH.returns(state) == (0.8, 0.8)
        measures = {"success": 1.0, "refused": 0.0, "uttered": 0.0, "words": 2.5}
        assert WITH.measures(state) == measures

    @pytest.mark.parametrize("clue", ["it B4RKS", "not a cat, a d o g", "two puppies"])
    def test_a_refused_clue_ends_the_round_unread(self, clue: str) -> None:
        state = play([f"say: {clue}"])
        assert (WITH.current_player(state), state.end) == (0, "")
        assert WITH.measures(state)["refused"] == 1
        assert "Round 1: the clue was refused, because it says" in WITH.observe(
            state, 0
        )
        assert WITH.observe(state, 1).splitlines()[1:] == [
            "Round 1: player_0 gave a clue.",
            "Round 1: the clue was refused.",
        ]
        found = play([f"say: {clue}", "say: on a leash", "guess dog"])
        assert WITH.returns(found) == (0.8, 0.8)

    def test_a_clue_is_read_in_lower_case_without_punctuation(self) -> None:
        state = play(["say: On a LEASH... (often)!"])
        assert state.said[0].message == "on a leash often"

    def test_only_so_many_words_are_forbidden(self) -> None:
        rules = Taboo(num_cards=8, num_forbidden=2, cards=CARDS)
        assert not play(["say: pet"], rules).said[0].audience
        assert play(["say: pet"]).said[0].audience

    @pytest.mark.parametrize(
        ("texts", "text", "wanted"),
        [
            ([], "guess dog", 'want "say:" and a message'),
            (["say: pet?"], "say: dog", "want a guess such as"),
            (["say: pet?"], "guess hot dog", "want a guess such as"),
        ],
    )
    def test_other_texts_are_refused(
        self, texts: list[str], text: str, wanted: str
    ) -> None:
        with pytest.raises(IllegalAction, match=wanted):
            WITH.parse(play(texts, word="moon"), text)


class TestAdversarial:
    @pytest.mark.parametrize(
        ("texts", "end", "returns"),
        [
            (["say: What barks? My d0g!"], "broken", (-1, 1)),
            (["say: What do you like?", "say: My two DOGS."], "said", (1, -1)),
            (["say: What do you like?", "guess dog"], "guessed", (-1, 1)),
            (["say: What do you like?", "guess cat"], "missed", (1, -1)),
            (["say: Hello, puppy.", "say: go on"] * 5, "", (0, 0)),
        ],
    )
    def test_ends_pay_as_in_spag(
        self, texts: list[str], end: str, returns: tuple[float, float]
    ) -> None:
        state = play(texts, AGAINST)
        assert AGAINST.current_player(state) == TERMINAL
        assert (state.end, AGAINST.returns(state)) == (end, returns)
        assert AGAINST.measures(state)["uttered"] == (end == "said")

    def test_a_guess_has_no_message(self) -> None:
        state = play(["say: Woof."], AGAINST)
        with pytest.raises(IllegalAction, match="no message with the action"):
            AGAINST.parse(state, "I know it!\nguess dog")


class TestWhatIsHidden:
    def test_only_player_0_reads_the_word(self) -> None:
        state = play(["say: on a leash", "guess cat"])
        assert WITH.observe(state, 0).splitlines() == [
            "You are player_0, the describer. Round 2 of 5. You are to move: give a clue.",
            "The word is: dog. You must not say it, nor: bark, puppy, pet.",
            'Round 1: you said: "on a leash"',
            "Round 1: player_1 guessed cat.",
        ]
        assert WITH.observe(state, 1).splitlines() == [
            "You are player_1, the guesser. Round 2 of 5. player_0 is to move: give a clue.",
            'Round 1: player_0 said: "on a leash"',
            "Round 1: you guessed cat.",
        ]

    def test_new_draws_leave_out_what_was_said_and_guessed(self) -> None:
        """Words whose cards forbid the clue, and words guessed before, are ruled out."""
        texts = ["say: red and cold", "guess piano", "say: bark", "say: so"]
        state = play(texts, word="dog")
        drawn = [WITH.resample(state, 1, random.Random(n)) for n in range(200)]
        assert {each.word for each in drawn} == {*WITH.deck} - {
            "apple",
            "winter",
            "piano",
        }
        keys = {WITH.information_state(each, 1) for each in (state, *drawn)}
        assert len(keys) == 1

    def test_no_prompt_lists_the_words_unless_asked_to(self) -> None:
        state = play(["say: on a leash"])
        shown = Taboo(num_cards=8, cards=CARDS, show_words=True)
        assert (WITH.shown_actions(state), len(shown.shown_actions(state))) == ((), 8)
        assert "piano" not in str(messages(WITH, state, 1, PromptOptions()))


class TestScriptedPlayers:
    @pytest.mark.parametrize("style", ["honest", "optimal"])
    def test_clues_of_the_cards_score_1_and_nothing_without_words(
        self, style: str
    ) -> None:
        assert mean_return(style, style, WITH) == 1
        found = mean_return(style, style, WITH, mute=True)
        assert found == pytest.approx(3 / 8, abs=0.06)

    def test_a_silent_pair_guesses(self) -> None:
        assert mean_return("silent", "silent", WITH) == pytest.approx(3 / 8, abs=0.06)

    def test_a_word_that_is_spelled_out_is_refused(self) -> None:
        assert mean_return("greedy", "honest", WITH) == 0
        assert mean_return("greedy", "honest", AGAINST) == -1

    @pytest.mark.parametrize(
        ("attacker", "defender", "paid"),
        [
            ("honest", "honest", -1),
            ("honest", "greedy", 1),
            ("honest", "optimal", 0),
            ("optimal", "greedy", 0),
            ("silent", "silent", 0),
        ],
    )
    def test_an_attacker_wins_if_the_defender_answers_without_care(
        self, attacker: str, defender: str, paid: float
    ) -> None:
        assert mean_return(attacker, defender, AGAINST) == paid

    def test_another_style_is_refused(self) -> None:
        with pytest.raises(ValueError, match="want a style among greedy, honest"):
            make_bot("taboo:kind")


class TestParameters:
    def test_the_shipped_cards_are_as_strict_as_a_list_of_ones_own(self) -> None:
        assert len(read_rows("cards", list(shipped_rows("taboo")))) > 500

    def test_cards_come_from_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "cards.csv"
        path.write_text("ship,harbor,boat\nbarn,hay,farm\n", "utf-8")
        rules = Taboo(num_cards=2, num_forbidden=1, cards=path)
        assert [*rules.deck] == ["barn", "ship"]
        with pytest.raises(
            ValueError, match="want split='train' with cards of your own"
        ):
            Taboo(num_cards=2, cards=path, split="test")
        assert rules == Taboo(num_cards=2, num_forbidden=1, cards=rules.cards)

    @pytest.mark.parametrize(
        ("text", "wanted"),
        [
            ("ship,harbor,boat\n\n", "line 2: want a word, a clue"),
            ("ship,harbor,,sea\n", "line 1, column 3: want a word"),
            ("ship,harbor,sea,sea\n", "line 1, column 4: 'sea' stands at 3 already"),
            ("ship,harbor\nship,sea\n", "line 2, column 1: 'ship' stands at 1 already"),
            ("ship,harbor\nsea,harbor\n", "line 2, column 2: 'harbor' stands at 1"),
            (
                "ship,harbor\nsea,seas\n",
                "line 2: want a clue that the referee admits, .*says 'sea'",
            ),
            ("ship\nsea\n", "line 1: want a word, a clue and forbidden words"),
            ("steam ship,sea\n", "line 1: want words of 2 to 20 letters a to z"),
            ("ship,harbor\n", "want 2 to 1,000 cards in cards, got 1"),
        ],
    )
    def test_a_bad_list_is_refused_with_its_line(
        self, tmp_path: Path, text: str, wanted: str
    ) -> None:
        path = tmp_path / "cards.csv"
        path.write_text(text, "utf-8")
        with pytest.raises(ValueError, match=wanted):
            Taboo(cards=path)

    @pytest.mark.parametrize(
        ("params", "wanted"),
        [
            ({"num_cards": 254}, "num_cards from 2 to 253, got 254; cards has 253"),
            ({"num_forbidden": 6}, "num_forbidden .* from 0 to 5"),
            ({"num_rounds": 21}, "num_rounds from 1 to 20, got 21"),
            ({"adversarial": 1}, "adversarial True or False, got 1"),
            ({"max_message": 4}, "max_message from 5 to 300, got 4"),
            ({"cards": "nothing"}, "want cards as 'taboo' or the path"),
            ({"cards": 3}, "or a sequence of cards, got 3"),
        ],
    )
    def test_impossible_parameters_are_refused(
        self, params: dict[str, Any], wanted: str
    ) -> None:
        with pytest.raises(ValueError, match=wanted):
            Taboo(**params)
