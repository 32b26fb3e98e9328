"""Social dilemma: closed forms, the same choices in a matrix game, and what talk is worth."""

import random
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

import arena_envs.games.social_dilemma as module
from arena_envs import TERMINAL
from arena_envs.bots import make_bot
from arena_envs.game import IllegalAction
from arena_envs.games.iterated_matrix_game import IteratedMatrixGame
from arena_envs.games.social_dilemma import NAMES, SocialDilemma, State, points_of
from arena_envs.solvers import (
    expected_returns,
    information_states,
    nash_conv,
    uniform_table,
)
from arena_envs.testing import random_episode

game = SocialDilemma()
STAG_HUNT = {"reward": 4, "temptation": 3, "punishment": 2, "sucker": 0}
CHICKEN = {"temptation": 4, "reward": 3, "sucker": 1, "punishment": 0}


def after(texts: Sequence[str], rules: Any = game) -> State:
    """The state after these texts."""
    state: State = rules.initial_state()
    for text in texts:
        state = rules.apply(state, rules.parse(state, text))
    return state


def returns_of(bots: Sequence[str], rules: Any = game) -> list[float]:
    """Returns of a game between these bots."""
    players, state = [make_bot(bot) for bot in bots], rules.initial_state()
    while (player := rules.current_player(state)) != TERMINAL:
        action = players[player](rules, state, random.Random(0))
        assert action in rules.legal_actions(state)
        state = rules.apply(state, action)
    return list(rules.returns(state))


def always(rules: Any, *chances: float) -> dict[Any, list[float]]:
    """A table: passes, and chooses with these probabilities."""
    talked = [0.0, 0.0, 1.0]
    return {
        key: list(chances) if len(rules.legal_actions(state)) == 2 else talked
        for key, state in information_states(rules).items()
    }


@pytest.mark.parametrize(
    "rules",
    [
        SocialDilemma(num_players=2, num_rounds=1, talk_turns=2),
        SocialDilemma(num_players=4, num_rounds=2, talk_turns=0, messages=False),
    ],
    ids=["tiny", "no talk"],
)
def test_other_settings_keep_the_contract(rules: Any, check_contract: Any) -> None:
    check_contract(rules, num_episodes=4)


def test_the_large_instance_ends_and_has_short_texts() -> None:
    large = SocialDilemma(num_players=6, num_rounds=50, talk_turns=3)
    episode = random_episode(large, large.initial_state(), random.Random(0))
    assert len(episode) - 1 == large.max_turns == 1200
    assert len(large.observe(episode[-1][0], 0)) < 5000


class TestKnownValues:
    def test_without_talk_it_is_the_repeated_matrix_game(self) -> None:
        """A table of three seats, in which both games are paid alike after random choices."""
        numbers = (3, 0, 5, 1)
        cells: Any = [
            [[points_of((i, j, k), numbers) for k in range(2)] for j in range(2)]
            for i in range(2)
        ]
        other = IteratedMatrixGame(cells, NAMES, num_rounds=3)
        assert other.max_return == game.max_return
        rng, rules = random.Random(0), SocialDilemma(talk_turns=0)
        for _ in range(20):
            state: Any = rules.initial_state()
            twin: Any = other.initial_state()
            for action in (rng.randrange(2) for _ in range(9)):
                assert rules.current_player(state) == other.current_player(twin)
                state = rules.apply(state, rules.legal_actions(state)[action])
                twin = other.apply(twin, action)
            assert state.rounds == twin.rounds
            assert tuple(rules.returns(state)) == other.returns(twin)

    def test_points_are_sums_over_pairs(self) -> None:
        numbers = (3, 0, 5, 1)
        for choices in product(range(2), repeat=4):
            pairs = [
                sum(numbers[2 * own + o] for j, o in enumerate(choices) if j != i)
                for i, own in enumerate(choices)
            ]
            assert points_of(choices, numbers) == pairs

    @pytest.mark.parametrize("talk_turns", [0, 1])
    def test_all_defect_in_the_equilibrium_of_the_dilemma(
        self, talk_turns: int
    ) -> None:
        rules = SocialDilemma(num_players=2, num_rounds=1, talk_turns=talk_turns)
        assert nash_conv(rules, always(rules, 0, 1)) == pytest.approx(0)
        assert expected_returns(rules, always(rules, 0, 1)) == pytest.approx((1, 1))
        assert nash_conv(rules, always(rules, 1, 0)) == pytest.approx(4)
        assert "equilibrium 1 each" in str(rules.known_value)

    def test_the_known_value_is_what_the_choices_pay(self) -> None:
        silent, honest = (
            returns_of([f"promiser:{b}"] * 3) for b in ("silent", "honest")
        )
        one = SocialDilemma(num_rounds=1, talk_turns=0)
        each = 3 * expected_returns(one, uniform_table(one))[0]
        assert game.known_value == (
            f"in equilibrium {silent[0]:g} each, as all always defect; all always cooperate: "
            f"{honest[0]:g} each; random play {each:g} each"
        )
        page = " ".join(str(module.__doc__).replace("|", " ").split())
        assert f"in equilibrium {silent[0]:g} each, as all always defect" in page
        assert f"random play {each:g} each" in page
        assert SocialDilemma(**STAG_HUNT).known_value is None

    def test_the_solver_of_the_core_defects_whatever_was_said(self) -> None:
        rules = SocialDilemma(num_players=2, num_rounds=1)
        state = after(["Trust me. promise cooperate", "say: no"], rules)
        said = [rules.action_text(state, each) for each in rules.core_state(state).said]
        assert said == ["promise cooperate", "pass"]
        probabilities = make_bot("core_cfr:50").action_probs(rules, state)  # type: ignore[attr-defined]
        assert probabilities == pytest.approx([0, 1], abs=0.01)

    @pytest.mark.parametrize("num_players", [2, 3])
    @pytest.mark.parametrize(
        "numbers", [STAG_HUNT, CHICKEN], ids=["stag hunt", "chicken"]
    )
    def test_the_mixed_equilibrium_has_its_closed_form(
        self, numbers: dict[str, int], num_players: int
    ) -> None:
        rules = SocialDilemma(num_players, 1, 0, **numbers)
        both, alone, defects, none = (
            numbers[name] for name in ("reward", "sucker", "temptation", "punishment")
        )
        chance = (none - alone) / (none - alone + both - defects)
        assert 0 < chance < 1
        assert nash_conv(rules, always(rules, chance, 1 - chance)) == pytest.approx(0)


class TestWords:
    def test_promises_bring_honest_players_to_cooperate(self) -> None:
        assert returns_of(["promiser:honest"] * 3) == [18, 18, 18]
        silent = SocialDilemma(talk_turns=0)
        assert returns_of(["promiser:honest"] * 3, silent) == [6, 6, 6]

    def test_a_broken_promise_pays_once(self) -> None:
        bots = ["promiser:greedy", "promiser:honest", "promiser:honest"]
        assert returns_of(bots) == [10 + 4, 3 + 4, 3 + 4]

    def test_who_passes_is_not_trusted_by_those_who_speak_later(self) -> None:
        bots = ["promiser:silent", "promiser:honest", "promiser:honest"]
        assert returns_of(bots) == [6, 6, 6]


class TestRules:
    def test_who_speaks_first_moves_on_with_each_round(self) -> None:
        rounds = [*["pass"] * 3, *["choose defect"] * 3]
        players = [game.current_player(after(rounds[:n])) for n in range(7)]
        assert players == [0, 1, 2, 0, 1, 2, 1]

    def test_a_choice_is_hidden_until_all_have_chosen(self) -> None:
        talked = ["pass"] * 3
        one, other = (after([*talked, f"choose {name}"]) for name in NAMES)
        for seen in (game.observe, game.information_state):
            assert seen(one, 1) == seen(other, 1)
            assert seen(one, 0) != seen(other, 0)
        assert "chosen to defect" in game.observe(other, 0)

    def test_measures_are_those_worked_out_by_hand(self) -> None:
        """One round: two promises to cooperate, one of them kept; totals 6, 12, 16, 18."""
        rules = SocialDilemma(num_rounds=1)
        texts = ["Trust me. promise cooperate", "promise cooperate", "say: hm"]
        chosen = ["choose cooperate", "choose defect", "choose cooperate"]
        assert rules.measures(after([*texts, *chosen], rules)) == pytest.approx(
            {
                "cooperation": 2 / 3,
                "efficiency": (16 - 6) / (18 - 6),
                "promises": 2 / 3,
                "kept": 1 / 3,
            }
        )
        equal = SocialDilemma(2, 1, 0, reward=1, sucker=1, temptation=1, punishment=1)
        state = after(["choose defect"] * 2, equal)
        assert equal.measures(state)["efficiency"] == 1
        assert set(rules.measures(after(texts, rules)).values()) == {0.0}

    def test_the_latest_promise_of_a_round_counts(self) -> None:
        rules = SocialDilemma(num_players=2, num_rounds=1, talk_turns=2)
        texts = ["promise defect", "pass", "promise cooperate", "pass"]
        state = after([*texts, *["choose cooperate"] * 2], rules)
        assert rules.latest_promises(state, 0) == [0, None]
        assert rules.measures(state)["kept"] == 0.5

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("I cooperate", 'want "say:" and a message or a promise such as'),
            ("Hello. pass", "want no message with the action, got 'Hello.'"),
            ("choose defect", "got 'choose defect'"),
            ("promise nothing", "got 'promise nothing'"),
        ],
    )
    def test_other_texts_are_no_action(self, text: str, message: str) -> None:
        with pytest.raises(IllegalAction, match=message):
            game.parse(game.initial_state(), text)

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"num_players": 7}, "integer num_players from 2 to 6, got 7"),
            ({"num_rounds": 0}, "integer num_rounds from 1 to 50, got 0"),
            ({"talk_turns": 4}, "integer talk_turns from 0 to 3, got 4"),
            ({"reward": 1.5}, "integer reward from -1000 to 1000, got 1.5"),
            ({"sucker": 2000}, "integer sucker from -1000 to 1000, got 2000"),
            ({"messages": None}, "want messages True or False, got None"),
            ({"max_message": 401}, "integer max_message from 1 to 400, got 401"),
        ],
    )
    def test_impossible_parameters_are_refused(
        self, params: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            SocialDilemma(**params)
