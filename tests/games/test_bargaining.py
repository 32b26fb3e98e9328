"""Bargaining: known values by backward induction, and what is hidden."""

import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from arena_envs import CHANCE, TERMINAL, GameEnv
from arena_envs.game import AnyGame
from arena_envs.games.bargaining import Bargaining
from arena_envs.games.kits.haggling import State
from arena_envs.solvers import (
    best_response_value,
    expected_returns,
    information_states,
    nash_conv,
    uniform_table,
)

game = Bargaining()
NINE = ((0.8, 0.9, 1.0), (0.8, 0.9, 1.0))  # pairs of factors
hidden = Bargaining(complete_information=False)


def fixed(first: float, second: float, **params: Any) -> Bargaining:
    """A game in which both factors are known beforehand."""
    return Bargaining(discounts=((first,), (second,)), **params)


def play(texts: Sequence[str], rules: Bargaining = game, *drawn: float) -> State:
    """The state after the factors are drawn (1 and 1 by default) and these are said."""
    state = State(drawn or (1.0, 1.0))
    for text in texts:
        state = rules.apply(state, rules.parse(state, text))
    return state


def solve(
    rules: Bargaining, choose: Callable[[list[Any], int], Any], merge: bool = False
) -> tuple[float, ...]:
    """Values of both seats by going through the canonical texts.

    Args:
        rules: the game.
        choose: the values of a node from those after each action, for a seat.
        merge: whether to trust that rejected offers matter no more; a test shows it.
    """
    memo: dict[Any, tuple[float, ...]] = {}

    def value(state: State) -> tuple[float, ...]:
        player = rules.current_player(state)
        if player == TERMINAL:
            return rules.returns(state)
        key: Any = state
        if merge:
            standing = state.said[-1] if len(state.said) % 2 else None
            key = (state.factors, len(state.said), standing)
        if key not in memo:
            if player == CHANCE:
                outcomes = rules.chance_outcomes(state)
                parts = [(p, value(rules.apply(state, x))) for x, p in outcomes]
                memo[key] = tuple(sum(p * v[s] for p, v in parts) for s in range(2))
            else:
                said = [rules.action_text(state, a) for a in rules.legal_actions(state)]
                after = [rules.apply(state, rules.parse(state, text)) for text in said]
                memo[key] = choose([value(state) for state in after], player)
        return memo[key]

    return value(rules.initial_state())


def best(after: list[Any], seat: int) -> Any:
    """The first of the best, so that who is indifferent accepts."""
    most = max(values[seat] for values in after)
    return next(values for values in after if values[seat] > most - 1e-9)


def mean(after: list[Any], seat: int) -> Any:
    return tuple(sum(column) / len(after) for column in zip(*after, strict=True))


def rubinstein(factors: tuple[Fraction, Fraction], num_rounds: int) -> list[Fraction]:
    """Subgame-perfect shares for offers of any amount, from the last round backwards."""
    shares = [Fraction(0), Fraction(0)]
    for past in reversed(range(num_rounds)):
        proposer, other = past % 2, 1 - past % 2
        given = factors[other] * shares[other]
        shares[proposer], shares[other] = 1 - given, given
    return shares


def closed_form(factors: tuple[Fraction, Fraction], num_rounds: int) -> Fraction:
    """What player_0 gets in subgame-perfect play, as the sum of a geometric series."""
    first, second = factors
    pairs, single = divmod(num_rounds, 2)
    ratio, left = first * second, Fraction(single)
    if ratio == 1:
        return left + pairs * (1 - second)
    return (1 - second) * (1 - ratio**pairs) / (1 - ratio) + ratio**pairs * left


SETTINGS = [
    hidden,
    Bargaining(messages=False, num_rounds=1),
    Bargaining(complete_information=False, num_rounds=2, num_offers=3, pie=1),
    Bargaining(
        complete_information=False, discounts=((0.5,), (0.25, 1.0)), num_offers=8, pie=7
    ),
    fixed(0.9, 0.8, num_rounds=50, num_offers=2, max_message=400, pie=1_000_000),
]


@pytest.mark.parametrize("rules", SETTINGS)
def test_other_settings_keep_the_contract(
    rules: Bargaining, check_contract: Any
) -> None:
    check_contract(rules)


class TestKnownValues:
    @pytest.mark.parametrize(
        ("first", "second", "num_rounds", "num_offers"),
        [
            (0.9, 0.8, 1, 11),
            (0.9, 0.8, 2, 11),
            (0.9, 0.5, 3, 21),
            (1.0, 0.7, 2, 101),
            (0.5, 1.0, 3, 11),
            (0.5, 0.5, 4, 9),
            (1.0, 0.5, 4, 5),
            (1.0, 1.0, 5, 3),
        ],
    )
    def test_backward_induction_gives_the_closed_form_where_the_grid_has_it(
        self, first: float, second: float, num_rounds: int, num_offers: int
    ) -> None:
        rules = fixed(first, second, num_rounds=num_rounds, num_offers=num_offers)
        factors = (Fraction(str(first)), Fraction(str(second)))
        shares = rubinstein(factors, num_rounds)
        assert shares[0] == closed_form(factors, num_rounds)
        assert all((share * (num_offers - 1)).denominator == 1 for share in shares)
        values = solve(rules, best)
        assert values == pytest.approx([float(share) for share in shares])
        assert solve(rules, best, merge=True) == pytest.approx(values)

    @pytest.mark.slow
    @pytest.mark.parametrize("num_rounds", [1, 2, 5, 12])
    @pytest.mark.parametrize(("first", "second"), [(0.9, 0.8), (0.95, 1.0), (0.3, 0.6)])
    def test_on_a_grid_it_is_within_a_step_for_every_round(
        self, first: float, second: float, num_rounds: int
    ) -> None:
        rules = fixed(first, second, num_rounds=num_rounds, num_offers=101)
        factors = (Fraction(str(first)), Fraction(str(second)))
        values = solve(rules, best, merge=True)
        error = abs(values[0] - float(closed_form(factors, num_rounds)))
        assert error < 0.01 * num_rounds

    def test_many_rounds_approach_rubinsteins_division(self) -> None:
        factors = (Fraction(9, 10), Fraction(8, 10))
        limit = (1 - factors[1]) / (1 - factors[0] * factors[1])
        assert float(closed_form(factors, 49)) == pytest.approx(float(limit), abs=1e-3)

    def test_the_last_offer_is_an_ultimatum(self) -> None:
        assert solve(fixed(0.9, 0.8, num_rounds=1), best) == (1.0, 0.0)

    def test_the_page_has_the_mean_over_the_draws(self) -> None:
        pairs = [(Fraction(str(a)), Fraction(str(b))) for a, b in game.drawn]
        shares = [rubinstein(pair, 6) for pair in pairs]
        values = [float(sum(column) / 113) for column in zip(*shares, strict=True)]
        assert values == pytest.approx([0.295416, 0.704584], abs=1e-6)

    def test_random_play_has_its_known_values(self) -> None:
        """A round ends the game with 1/2, and gives half the pie on average."""
        values = solve(game, mean, merge=True)
        assert values == pytest.approx([0.436275, 0.439616], abs=1e-6)
        chances = [0.5**r for r in range(1, 7)]
        turns = sum(2 * r * p for r, p in enumerate(chances, 1)) + 12 * chances[-1]
        assert turns == 3.9375
        rng, total = random.Random(0), 0
        for _ in range(10_000):
            state = game.initial_state()
            while (player := game.current_player(state)) != TERMINAL:
                outcomes = (
                    [x for x, _ in game.chance_outcomes(state)]
                    if player == CHANCE
                    else list(game.legal_actions(state))
                )
                state = game.apply(state, rng.choice(outcomes))
            total += len(state.said)
        assert total / 10_000 == pytest.approx(turns, abs=0.1)

    @pytest.mark.parametrize("complete", [True, False])
    def test_solvers_play_the_finite_core(self, complete: bool) -> None:
        """Sizes by hand; random play as above, and what a best response makes of it."""
        rules = Bargaining(
            num_rounds=2,
            num_offers=3,
            complete_information=complete,
            discounts=NINE,
        )
        table = uniform_table(rules)
        # a seat offers or answers 1 + 3 times in round 1, 3 and 9 times in round 2
        assert len(table) == (9 if complete else 3) * (1 + 3 + 3 + 9)
        wanted = 0.25 + 0.125 * (0.8 + 0.9 + 1) / 3
        assert expected_returns(rules, table) == pytest.approx([wanted, wanted])
        # player_0 asks for all and accepts all; player_1 too, unless round 2 promises more
        responses = [best_response_value(rules, table, seat) for seat in range(2)]
        factor = (0.8 + 0.9 + 1) / 3
        assert responses == pytest.approx(
            [0.5 + 0.5 * 0.5 * factor, (0.5 * factor + 0.5 + 1) / 3]
        )
        assert nash_conv(rules, table) == pytest.approx(sum(responses) - 2 * wanted)

    def test_subgame_perfect_play_cannot_be_exploited(self) -> None:
        rules = fixed(0.9, 0.5, num_rounds=2, num_offers=11)
        table: dict[Any, list[float]] = {}
        for key, state in information_states(rules).items():
            seat, legal = key[0], list(rules.legal_actions(state))
            after = [subgame(rules, rules.apply(state, a))[seat] for a in legal]
            choice = next(i for i, v in enumerate(after) if v > max(after) - 1e-9)
            table[key] = [float(i == choice) for i in range(len(legal))]
        assert nash_conv(rules, table) == pytest.approx(0, abs=1e-9)
        assert expected_returns(rules, table) == pytest.approx([0.5, 0.5])


def subgame(rules: Bargaining, state: State) -> tuple[float, ...]:
    """Values of subgame-perfect play from a state on."""
    player = rules.current_player(state)
    if player == TERMINAL:
        return rules.returns(state)
    after = [
        subgame(rules, rules.apply(state, action))
        for action in rules.legal_actions(state)
    ]
    return tuple(best(after, player))


class TestRules:
    def test_who_rejects_makes_the_next_offer(self) -> None:
        texts = ["offer 10", "reject", "offer 20", "reject", "offer 30", "reject"]
        players = [game.current_player(play(texts[:n])) for n in range(7)]
        assert players == [0, 1, 1, 0, 0, 1, 1]

    @pytest.mark.parametrize(
        ("texts", "returns"),
        [
            (["offer 40", "accept"], (0.6, 0.4)),
            (["offer 40", "reject", "offer 30", "accept"], (0.3 * 0.9, 0.7 * 0.8)),
            (
                ["offer 0", "reject", "offer 0", "reject", "offer 12.5", "accept"],
                (0.875 * 0.81, 0.125 * 0.64),
            ),
            (["offer 40"] * 1, (0.0, 0.0)),
            (["offer 40", "reject"] * 6, (0.0, 0.0)),
        ],
    )
    def test_an_agreement_pays_shares_discounted_by_the_rounds_before(
        self, texts: list[str], returns: tuple[float, float]
    ) -> None:
        state = play(texts, game, 0.9, 0.8)
        assert game.returns(state) == pytest.approx(returns)
        assert game.efficiency(state) == pytest.approx(sum(returns))

    def test_the_game_ends_without_an_agreement_after_the_last_round(self) -> None:
        texts = ["offer 40", "reject"] * 6
        assert game.current_player(play(texts[:-1])) >= 0
        assert game.current_player(play(texts)) == TERMINAL
        assert len(texts) == game.max_turns

    @pytest.mark.parametrize(
        ("offer", "fairness"), [("50", 1.0), ("0", 0.0), ("100", 0.0), ("25", 0.75)]
    )
    def test_fairness_is_glees(self, offer: str, fairness: float) -> None:
        for texts in (
            [f"offer {offer}", "accept"],
            ["offer 1", "reject", f"offer {offer}", "accept"],
        ):
            state = play(texts, game, 0.9, 0.8)
            assert game.fairness(state) == pytest.approx(fairness)
        assert game.fairness(play(["offer 40"])) is None
        assert game.fairness(play(["offer 40", "reject"] * 6)) is None

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"pie": 0}, "integer pie from 1 to 1000000, got 0"),
            ({"pie": 1.5}, "integer pie from 1 to 1000000, got 1.5"),
            ({"num_rounds": 0}, "num_rounds from 1 to 50, got 0"),
            ({"num_rounds": 51}, "num_rounds from 1 to 50, got 51"),
            ({"num_offers": 1}, "num_offers from 2 to 1001, got 1"),
            ({"num_offers": 4}, "got pie=100 and num_offers=4"),
            ({"max_message": 0}, "max_message from 1 to 400, got 0"),
            ({"messages": 1}, "messages True or False, got 1"),
            (
                {"complete_information": "no"},
                "complete_information True or False, got 'no'",
            ),
            *(
                ({"discounts": value}, "want discounts as distinct numbers")
                for value in (
                    *(0.9, (0.9, 0.9), "ab", (), ((0.9,),), ((0.9,), ())),
                    *(((0.9,), (0.0,)), ((0.9,), (1.1,)), ((0.9,), ("x",))),
                    *(((0.9, 0.9), (1.0,)), ((float("nan"),), (1.0,))),
                )
            ),
        ],
    )
    def test_impossible_parameters_are_refused(
        self, params: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            Bargaining(**params)

    def test_lists_of_a_recipe_are_as_good_as_tuples(self) -> None:
        rules = Bargaining(discounts=[[1], [0.5, 1]])
        assert rules == Bargaining(discounts=((1.0,), (0.5, 1.0)))
        assert hash(rules) == hash(Bargaining(discounts=((1.0,), (0.5, 1.0))))


class TestWhatIsHidden:
    def conversations(self) -> Iterator[list[str]]:
        rng = random.Random(0)
        for _ in range(50):
            texts = []
            for round_ in range(6):
                texts.append(f"I value round {round_}.\noffer {10 * rng.randrange(11)}")
                texts.append(rng.choice(["reject", "no\nreject", "accept"]))
                if texts[-1] == "accept":
                    break
            yield texts

    @pytest.mark.parametrize("seat", [0, 1])
    def test_nothing_that_a_seat_gets_hangs_on_the_others_factor(
        self, seat: int
    ) -> None:
        for texts in self.conversations():
            for num_said in range(len(texts) + 1):
                views = set()
                for other in (0.8, 0.9, 1.0):
                    drawn = (0.9, other) if seat == 0 else (other, 0.9)
                    state = play(texts[:num_said], hidden, *drawn)
                    views.add(
                        (
                            hidden.observe(state, seat),
                            hidden.features(state, seat).tobytes(),
                            hidden.information_state(state, seat),
                        )
                    )
                assert len(views) == 1

    def test_an_environment_shows_no_canary(self) -> None:
        rules = Bargaining(complete_information=False, discounts=((0.37,), (0.73,)))
        env = GameEnv(rules)
        for texts in self.conversations():
            env.reset(seed=0)
            for text in texts:
                for agent, other in (("player_0", "0.73"), ("player_1", "0.37")):
                    seen = env.observe(agent)
                    assert other not in seen["text"]
                    assert np.float32(other) not in seen["observation"]
                    assert env.infos[agent] == {}
                env.step(text)

    def test_complete_information_shows_both(self) -> None:
        state = State((0.9, 0.8))
        assert "0.8" in game.observe(state, 0)
        assert "0.9" in game.observe(state, 1)
        assert np.float32(0.8) in game.features(state, 0)

    @pytest.mark.parametrize("seat", [0, 1])
    def test_a_new_draw_keeps_what_is_known_and_draws_the_rest_evenly(
        self, seat: int
    ) -> None:
        rules = Bargaining(complete_information=False, discounts=NINE)
        state = play(["hi\noffer 40", "reject"], rules, 0.9, 0.9)
        rng = random.Random(0)
        drawn = [rules.resample(state, seat, rng) for _ in range(3000)]
        assert {s.said for s in drawn} == {state.said}
        assert {s.factors[seat] for s in drawn} == {0.9}
        others = [s.factors[1 - seat] for s in drawn]
        for value in (0.8, 0.9, 1.0):
            assert others.count(value) == pytest.approx(1000, abs=100)
        assert game.resample(state, seat, rng) == state

    def test_messages_are_part_of_what_a_seat_knows(self) -> None:
        for rules in (game, hidden):
            keys = {
                rules.information_state(play([text], rules), seat)
                for text in ("offer 40", "hi\noffer 40", "Hi\noffer 40")
                for seat in (1,)
            }
            assert len(keys) == 3


class TestFeatures:
    def test_they_hold_all_that_is_public(self) -> None:
        state = play(["offer 25", "reject", "offer 75"], hidden, 0.9, 0.8)
        values = hidden.features(state, 0)
        assert values[:10].tolist() == pytest.approx([1, 0, 0, 1, 0, 0, 0.9, 1, 0, 0])
        assert values[10:16].tolist() == [0, 1, 0, 0, 0, 0]
        assert values[16:22].tolist() == [1, 0.25, 0, 1, 0.75, 0]
        assert not values[22:].any()
        state = play(["offer 25", "accept"], game, 0.9, 0.8)
        values = game.features(state, 1)
        assert values[:10].tolist() == pytest.approx([0, 1, 0, 0, 0, 0, 0.8, 1, 0.9, 1])
        assert values[16:19].tolist() == [1, 0.25, 1]

    @pytest.mark.parametrize("rules", [game, hidden])
    def test_different_knowledge_of_the_core_looks_different(
        self, rules: AnyGame
    ) -> None:
        small = Bargaining(
            num_rounds=3,
            num_offers=5,
            complete_information=rules.information == "perfect",
        )
        states = information_states(small)
        seen = {(k[0], small.features(s, k[0]).tobytes()) for k, s in states.items()}
        assert len(seen) == len(states) > 500
