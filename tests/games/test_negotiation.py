"""Negotiation: known values by backward induction, what is hidden, and scripted players."""

import random
from collections.abc import Sequence
from itertools import product
from statistics import fmean
from typing import Any

import pytest

from arena_envs import CHANCE, TERMINAL, IllegalAction
from arena_envs.bots import make_bot
from arena_envs.games.kits.haggling import State
from arena_envs.games.negotiation import Negotiation
from arena_envs.talk import Utterance

OLD: Any = {"factors": ((0.8, 1.0, 1.2, 1.5),) * 2, "min_gain": -2}
game = Negotiation(**OLD)
FACTORS = (0.8, 1.0, 1.2, 1.5)


def play(texts: Sequence[str], rules: Negotiation = game, *drawn: float) -> State:
    """The state after the factors are drawn (0.8 and 1.2 by default) and these are said."""
    state = State(drawn or (0.8, 1.2))
    for text in texts:
        state = rules.apply(state, rules.parse(state, text))
    return state


def solve(rules: Negotiation, state: State) -> tuple[float, float]:
    """Values of subgame-perfect play on the legal actions; who is indifferent trades."""
    if rules.current_player(state) == TERMINAL:
        return rules.returns(state)
    seat = rules.current_player(state)
    after = [solve(rules, rules.apply(state, a)) for a in rules.legal_actions(state)]
    most = max(values[seat] for values in after) - 1e-9
    ties = [values for values in after if values[seat] >= most]
    return max(ties, key=sum)


def mean_returns(
    rules: Negotiation, seller: str, buyer: str, num_episodes: int = 1
) -> tuple[float, float]:
    """Mean returns of two bots over all draws."""
    totals = [0.0, 0.0]
    draws = list(rules.drawn) * num_episodes
    for number, factors in enumerate(draws):
        state, rng = State(factors), random.Random(number)
        bots = (make_bot(seller), make_bot(buyer))
        while (seat := rules.current_player(state)) != TERMINAL:
            said = bots[seat](rules, state, rng)
            assert rules.parse(state, rules.action_text(state, said)) == said
            state = rules.apply(state, said)
        totals = [t + r for t, r in zip(totals, rules.returns(state), strict=True)]
    return totals[0] / len(draws), totals[1] / len(draws)


@pytest.mark.parametrize(
    "rules",
    [
        Negotiation(
            complete_information=True, outside=(0.1, 0.2), num_rounds=3, scale=1
        ),
        Negotiation(
            factors=((0.5,), (2,)), num_rounds=50, scale=1_000_000, max_message=400
        ),
    ],
)
def test_other_settings_keep_the_contract(
    rules: Negotiation, check_contract: Any
) -> None:
    check_contract(rules)


class TestKnownValues:
    @pytest.mark.parametrize("num_rounds", [1, 2, 3])
    @pytest.mark.parametrize("outside", [(0.0, 0.0), (0.1, 0.2)])
    def test_with_complete_information_the_last_to_offer_gets_all_gains(
        self, num_rounds: int, outside: tuple[float, float]
    ) -> None:
        rules = Negotiation(
            complete_information=True,
            num_rounds=num_rounds,
            num_offers=11 if num_rounds == 3 else 21,
            outside=outside,
            factors=((0.8,), (0.6, 1.2)) if num_rounds == 3 else (FACTORS, FACTORS),
        )
        last = (num_rounds - 1) % 2
        for factors in product(*rules.factors):
            gains = max(0.0, factors[1] - factors[0] - sum(outside))
            want = list(outside)
            want[last] += gains
            assert solve(rules, State(factors)) == pytest.approx(want)

    def test_the_page_has_the_mean_over_the_draws(self) -> None:
        gains = [
            max(0.0, buyer - seller) for seller, buyer in product(FACTORS, FACTORS)
        ]
        assert sum(gains) / 16 == pytest.approx(0.14375)
        rules = Negotiation(complete_information=True, **OLD)
        paid = mean_returns(rules, "negotiator:optimal", "negotiator:optimal")
        assert paid == pytest.approx((0, 0.14375))

    def test_random_play_has_its_known_value(self) -> None:
        """A round ends the game with a sale, or without one, with probability 1/3 each."""
        prices = [said.values[0] for said in game.legal_actions(play([]))]
        assert sum(prices) / len(prices) == 100_00
        sold = sum(3.0**-r for r in range(1, 11))
        seller = sold * (1 - sum(FACTORS) / 4)
        assert seller == pytest.approx(-0.062499, abs=1e-6)
        rng, totals = random.Random(0), [0.0, 0.0]
        for _ in range(2000):
            state = State((rng.choice(FACTORS), rng.choice(FACTORS)))
            while game.current_player(state) != TERMINAL:
                state = game.apply(state, rng.choice(game.legal_actions(state)))
            totals = [t + r for t, r in zip(totals, game.returns(state), strict=True)]
        means = [total / 2000 for total in totals]
        assert means == pytest.approx([seller, -seller], abs=0.03)

    def test_one_round_of_hidden_values_is_a_posted_price(self) -> None:
        """The best price of the seller, by the closed form and by the returns of the game."""
        rules = Negotiation(num_rounds=1, num_offers=201, **OLD)
        for seller in FACTORS:
            closed = max(
                (p / 100 - seller) * sum(100 * b >= p for b in FACTORS) / 4
                for p in range(201)
            )
            found = []
            for offer in rules.legal_actions(State((seller, 1.0))):
                paid = 0.0
                for buyer in FACTORS:
                    state = rules.apply(State((seller, buyer)), offer)
                    ends = [
                        rules.returns(rules.apply(state, a))
                        for a in rules.legal_actions(state)
                    ]
                    paid += max(ends, key=lambda end: (end[1], end[0]))[0] / 4
                found.append(paid)
            assert max(found) == pytest.approx(closed)


class TestRules:
    @pytest.mark.parametrize(
        ("texts", "returns", "measures"),
        [
            (["offer 90", "accept"], (0.1, 0.3), (1, 1, 0.96)),
            (["offer 150", "reject", "offer 60", "accept"], (-0.2, 0.6), (1, 0, 0.36)),
            (["offer 90", "leave"], (0, 0), (0, 0, 1)),
        ],
    )
    def test_a_sale_pays_the_gains_of_both(
        self,
        texts: list[str],
        returns: tuple[float, float],
        measures: tuple[float, ...],
    ) -> None:
        state = play(texts)
        assert game.current_player(state) == TERMINAL
        assert game.returns(state) == pytest.approx(returns)
        names = ("agreement", "efficiency", "fairness")
        assert game.measures(state) == pytest.approx(
            dict(zip(names, measures, strict=True))
        )

    def test_no_sale_is_efficient_without_gains_and_pays_the_outside_options(
        self,
    ) -> None:
        rules = Negotiation(outside=(0.3, 0.05), num_rounds=2, **OLD)
        state = play(["offer 90", "reject", "offer 90", "reject"], rules, 1.2, 1.0)
        assert rules.returns(state) == (0.3, 0.05)
        assert rules.measures(state)["efficiency"] == 1.0

    def test_who_rejects_makes_the_next_offer(self) -> None:
        texts = ["offer 1", "reject"] * 10
        players = [game.current_player(play(texts[:n])) for n in range(21)]
        assert players == [0, 1, 1, 0] * 5 + [TERMINAL]
        assert game.current_player(State((0.8,))) == CHANCE

    @pytest.mark.parametrize(
        "text", ["offer 200.01", "accept", "hi", "x" * 301 + "\noffer 1"]
    )
    def test_what_is_no_offer_is_refused(self, text: str) -> None:
        with pytest.raises(IllegalAction, match=r"^want"):
            game.parse(play([]), text)

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"scale": 0}, "integer scale from 1 to 1000000, got 0"),
            ({"num_rounds": 51}, "num_rounds from 1 to 50, got 51"),
            ({"num_offers": 8}, "got scale=100 and num_offers=8"),
            *(
                ({"factors": value}, "want factors as distinct numbers above 0")
                for value in (1, ((1,),), ((1,), ()), ((1, 1), (1,)), ((0.001,), (1,)))
            ),
            *(
                ({"outside": value}, "want outside as a number from 0 to 1 for each")
                for value in (0, (0,), (0, 2), ("a", 0))
            ),
        ],
    )
    def test_impossible_parameters_are_refused(
        self, params: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            Negotiation(**params)


class TestWhatIsHidden:
    def test_a_seat_is_told_its_own_value_only(self) -> None:
        state = play(["Half?\noffer 100"], game, 0.8, 1.5)
        assert game.observe(state, 1) == (
            "You are player_1, the buyer. Round 1 of 10. You are to move: answer the offer.\n"
            "The product is worth 150 to you; what it is worth to player_0 is hidden.\n"
            'Round 1: player_0 offered a price of 100, and said: "Half?"'
        )
        assert "150" not in game.observe(state, 0)

    def test_with_complete_information_both_are_told(self) -> None:
        rules = Negotiation(complete_information=True, **OLD)
        assert "worth 80 to you and 120 to player_1" in rules.observe(play([]), 0)


class TestScriptedPlayers:
    def test_an_honest_pair_earns_more_than_leaving_or_a_forfeit(self) -> None:
        rules = Negotiation()
        paid = mean_returns(rules, "negotiator:honest", "negotiator:honest")
        assert min(paid) > 0.1
        assert rules.forfeit(play([]), 0) == pytest.approx([-0.3, 0])
        assert all(b - s > 0.049 for s, b in rules.instances)

    def test_honest_players_sell_at_the_mean_price_where_both_gain(self) -> None:
        rules = Negotiation()
        mean = fmean(sum(pair) / 2 for pair in rules.drawn)
        fair = [
            (mean - s, b - mean) if s < mean < b else (0, 0) for s, b in rules.drawn
        ]
        paid = mean_returns(rules, *["negotiator:honest"] * 2)
        expected = [fmean(each) for each in zip(*fair, strict=True)]
        assert paid == pytest.approx(expected, abs=1e-4)

    def test_what_an_honest_player_is_told_changes_nothing(self) -> None:
        rules, honest = Negotiation(), make_bot("negotiator:honest")
        for message in ("The product is worth 150 to me.", ""):
            state = State((0.5, 1.5), (Utterance("offer", (12000,), message),))
            assert honest(rules, state, random.Random(0)).move == "reject"

    def test_an_honest_player_leaves_where_the_mean_price_is_no_gain(self) -> None:
        state = State(
            (1.2, 1.5),
            (
                Utterance("offer", (15000,)),
                Utterance("reject"),
                Utterance("offer", (13000,)),
            ),
        )
        assert (
            make_bot("negotiator:honest")(Negotiation(), state, random.Random(0)).move
            == "leave"
        )

    @pytest.mark.parametrize("style", ["honest", "greedy", "silent"])
    def test_nobody_makes_a_loss(self, style: str) -> None:
        for other in ("negotiator:honest", "negotiator:greedy", "negotiator:silent"):
            assert mean_returns(game, f"negotiator:{style}", other)[0] >= 0
            assert mean_returns(game, other, f"negotiator:{style}")[1] >= 0

    def test_the_optimal_player_needs_complete_information(self) -> None:
        with pytest.raises(ValueError, match="want complete_information=True"):
            make_bot("negotiator:optimal")(game, play([]), random.Random(0))
        with pytest.raises(ValueError, match="want a style among greedy, honest"):
            make_bot("negotiator:kind")
