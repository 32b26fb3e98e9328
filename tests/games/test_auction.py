"""The auction: its rules, who knows what, its known values, and scripted bidders."""

import random
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from arena_envs import CHANCE, TERMINAL, IllegalAction
from arena_envs.bots import make_bot
from arena_envs.games.auction import Auction, State

game = Auction()
quiet = Auction(messages=False)
PERSONAS = (0, 1, 2)  # the first item is worth 7, 1 and 4, the second 2, 6 and 4


def play(
    texts: Sequence[str], rules: Auction = game, personas: Sequence[int] = PERSONAS
) -> State:
    """The state after these personas and texts."""
    state = rules.initial_state()
    for persona in personas:
        state = rules.apply(state, persona)
    for text in texts:
        state = rules.apply(state, rules.parse(state, text))
    return state


def truthful_returns(rules: Auction, state: State) -> list[float]:
    """Expected returns if all bid their values, by enumeration."""
    player, bot = rules.current_player(state), make_bot("bidder:silent")
    if player == TERMINAL:
        return list(rules.returns(state))
    if player != CHANCE:
        said = bot(rules, state, random.Random(0))
        return truthful_returns(rules, rules.apply(state, said))
    totals = [0.0] * rules.num_players
    for outcome, chance in rules.chance_outcomes(state):
        paid = truthful_returns(rules, rules.apply(state, outcome))
        totals = [t + chance * p for t, p in zip(totals, paid, strict=True)]
    return totals


def test_an_ascending_auction_keeps_the_contract(check_contract: Any) -> None:
    items = ((1, 1, 1),)
    check_contract(Auction(num_players=2, pricing="ascending", items=items, budget=4))


@pytest.mark.parametrize("pricing", ["second", "ascending"])
def test_the_text_is_bounded_in_the_longest_game(pricing: str) -> None:
    rules = Auction(
        num_players=5, items=((9, 9, 9),) * 6, pricing=pricing, max_message=300
    )
    state, num_turns = play([], rules, [0] * 5), 0
    while (player := rules.current_player(state)) != TERMINAL:
        if player == CHANCE:
            state = rules.apply(state, rules.chance_outcomes(state)[0][0])
            continue
        text = rules.action_text(state, rules.legal_actions(state)[0])
        if text == "pass":
            text = "\U000e0041" * 300 + "\npass"
        state, num_turns = rules.apply(state, rules.parse(state, text)), num_turns + 1
    assert max(len(rules.observe(state, seat)) for seat in range(5)) < 17_000
    assert 60 <= num_turns <= rules.max_turns


class TestKnownValues:
    def test_no_bid_does_better_than_the_value_at_second_price(self) -> None:
        rules = Auction(num_players=2, items=((3, 1, 0),), budget=8, messages=False)
        assert rules.known_value == "to bid the value is dominant"
        for persona, other, bid in product(range(3), range(9), range(9)):
            value = rules.value(play([], rules, (persona, 0)), 0, 0)
            gains = [
                self.gain(
                    play([f"bid {own}", f"bid {other}"], rules, (persona, 0)), rules
                )
                for own in (value, bid)
            ]
            assert gains[0] >= gains[1] - 1e-9

    def test_a_bid_of_the_value_is_not_dominant_at_first_price(self) -> None:
        rules = Auction(num_players=2, items=((3, 1, 0),), budget=8, pricing="first")
        assert rules.known_value is None
        less = play(["pass", "pass", "bid 2", "bid 1"], rules, (0, 0))
        value = play(["pass", "pass", "bid 7", "bid 1"], rules, (0, 0))
        assert self.gain(less, rules) > self.gain(value, rules) == 0

    def gain(self, state: State, rules: Auction) -> float:
        """The mean return of player_0, as chance chooses among equal bids."""
        if rules.current_player(state) != CHANCE:
            return rules.returns(state)[0]
        return sum(
            chance * rules.returns(rules.apply(state, outcome))[0]
            for outcome, chance in rules.chance_outcomes(state)
        )

    def test_what_all_earn_who_bid_their_values(self) -> None:
        returns = truthful_returns(game, game.initial_state())
        assert returns == pytest.approx([19 / 216, 61 / 648, 115 / 1296])
        assert game.known_value == "all bid their values: 19/216, 61/648, 115/1296"


class TestRules:
    def test_the_second_highest_bid_is_the_price(self) -> None:
        state = play(["bid 7", "bid 1", "bid 4"], quiet)
        assert state.sales == ((0, 4),)
        assert quiet.returns(state) == (3 / 12, 0, 0)
        assert "Budgets left: player_0 8, player_1 12" in quiet.observe(state, 2)

    def test_chance_chooses_among_equal_bids(self) -> None:
        state = play(["bid 4", "bid 1", "bid 4"], quiet)
        assert quiet.chance_outcomes(state) == [(0, 0.5), (2, 0.5)]
        assert quiet.apply(state, 2).sales == ((2, 4),)

    def test_an_item_without_a_bid_is_not_sold(self) -> None:
        state = play(["bid 0"] * 3, quiet)
        assert state.sales == ((-1, 0),)
        line = "Item 1: not sold. Bids: player_0 0, player_1 0, player_2 0."
        assert line in quiet.observe(state, 0)

    def test_an_ascending_sale_ends_when_all_others_have_dropped(self) -> None:
        rules = Auction(pricing="ascending", messages=False)
        state = play(["bid 2", "drop", "bid 3"], rules)
        assert rules.observe(state, 0).endswith(
            "Highest bid: 3 by player_2. Dropped: player_1.\n"
            "Bids: player_0 2, player_1 none, player_2 3."
        )
        with pytest.raises(IllegalAction, match="want a bid from 4 to 12, got 3"):
            rules.parse(state, "bid 3")
        state = rules.apply(state, rules.parse(state, "drop"))
        assert state.sales == ((2, 3),)
        assert play(["drop"] * 3, rules).sales == ((-1, 0),)

    def test_measures(self) -> None:
        first = ["bid 7", "bid 5", "bid 4"]  # player_1 values it at 1
        rest = ["bid 0"] * 6
        assert quiet.measures(play([*first, *rest], quiet)) == pytest.approx(
            {"efficiency": 7 / 19, "revenue": 5 / 36, "overbids": 1 / 3}
        )

    @pytest.mark.parametrize(
        ("texts", "text", "wanted"),
        [
            ([], "bid 3", 'the answer "pass" alone in the last line'),
            ([], f"{'x' * 201}\npass", "a message of at most 200 characters, got 201"),
            (["pass"] * 3, "bid 13", "want a bid of at most 12, got 13"),
            (["pass"] * 3, "Mine!\nbid 3", "want no message with the action"),
        ],
    )
    def test_moves_out_of_place_are_refused(
        self, texts: list[str], text: str, wanted: str
    ) -> None:
        with pytest.raises(IllegalAction, match=wanted):
            game.parse(play(texts), text)

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            (
                {"pricing": "third"},
                "want pricing among first, second, ascending, got 'third'",
            ),
            ({"items": ()}, "want items as a list of 1 to 6 lists .* got 0 lists"),
            ({"personas": ((1, 2),)}, r"personas as a list .* got \(1, 2\)"),
            ({"personas": ((1, 2, 10),)}, r"integers from 0 to 9, .* got \(1, 2, 10\)"),
            ({"items": "house"}, "got 'house'"),
            ({"budget": 0}, "integer budget from 1 to 100, got 0"),
        ],
    )
    def test_impossible_parameters_are_refused(
        self, params: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            Auction(**params)


class TestWhoKnowsWhat:
    def test_sealed_bids_are_shown_when_all_have_bid(self) -> None:
        state = play(["bid 7", "bid 1"], quiet)
        assert quiet.observe(state, 0).endswith("Your bid: 7.")
        assert "bid: 7" not in quiet.observe(state, 2)
        state = quiet.apply(state, quiet.parse(state, "bid 4"))
        line = (
            "Item 1: sold to player_0 for 4. Bids: player_0 7, player_1 1, player_2 4."
        )
        assert line in quiet.observe(state, 2)

    def test_all_read_what_is_said(self) -> None:
        state = play(["I want it.\npass", "pass"])
        line = 'Before item 1, player_0 said: "I want it."'
        assert game.observe(state, 2).endswith(line)
        assert game.core_state(state) == play(["pass", "pass"])

    def test_other_personas_and_running_bids_are_drawn(self) -> None:
        state, rng = play(["bid 7", "bid 1"], quiet), random.Random(0)
        drawn = [quiet.resample(state, 1, rng) for _ in range(300)]
        assert {each.personas[1] for each in drawn} == {1}
        assert {each.personas[0] for each in drawn} == set(range(6))
        assert {each.past[0].said.values[0] for each in drawn} == set(range(13))


class TestScriptedPlayers:
    def test_claims_change_nothing(self, mean_returns: Any) -> None:
        told = mean_returns(game, "bidder", ["honest"] * 3, 50)
        claimed = mean_returns(game, "bidder", ["greedy", "honest", "honest"], 50)
        assert claimed == told

    def test_who_values_the_item_most_buys_it(self) -> None:
        for pricing in ("second", "ascending"):
            rules = Auction(items=((3, 1, 0),), pricing=pricing, messages=False)
            state, bot = play([], rules), make_bot("bidder:silent")
            while rules.current_player(state) != TERMINAL:
                state = rules.apply(state, bot(rules, state, random.Random(0)))
            assert state.sales[0].seat == 0
            assert state.sales[0].price in (4, 5)

    def test_another_style_or_game_is_refused(self) -> None:
        with pytest.raises(ValueError, match="want a style among greedy, honest"):
            make_bot("bidder:kind")
