"""Deal or no deal: draws, divisions and measures by enumeration, and what talk is worth."""

import random
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from arena_envs import TERMINAL, make_game
from arena_envs.bots import make_bot
from arena_envs.game import IllegalAction
from arena_envs.games import deal_or_no_deal as deals
from arena_envs.games.deal_or_no_deal import DealOrNoDeal, State
from arena_envs.solvers import expected_returns, uniform_table
from arena_envs.talk import Utterance
from arena_envs.testing import random_episode

game = DealOrNoDeal()
tiny = DealOrNoDeal(("book", "hat"), min_items=2, max_items=2, points=2, max_talk=2)
large = DealOrNoDeal(
    ("book", "hat", "ball", "pen"), min_items=8, max_items=12, points=20, max_talk=30
)
ALICE, BOB = (1, 5, 2), (1, 1, 6)  # of the dialogue in the README of the authors' code
START = State((3, 1, 1), (ALICE, BOB))


def after(texts: Sequence[str], state: State = START, rules: Any = game) -> State:
    """The state after these texts."""
    for text in texts:
        state = rules.apply(state, rules.parse(state, text))
    return state


def draws(rules: DealOrNoDeal = game) -> Iterator[tuple[float, State]]:
    """All states after the draws, with their probabilities."""

    def follow(chance: float, state: State) -> Iterator[tuple[float, State]]:
        if len(state.values) == 2:
            yield chance, state
            return
        for outcome, probability in rules.chance_outcomes(state):
            yield from follow(chance * probability, rules.apply(state, outcome))

    return follow(1.0, rules.initial_state())


def played(bots: Sequence[str], state: State, rules: DealOrNoDeal = game) -> State:
    """The last state of a game between these bots."""
    players = [make_bot(bot) for bot in bots]
    while (player := rules.current_player(state)) != TERMINAL:
        action = players[player](rules, state, random.Random(0))
        assert action in rules.legal_actions(state)
        state = rules.apply(state, action)
    return state


@pytest.mark.parametrize(
    "rules", [tiny, DealOrNoDeal(max_talk=0, messages=False)], ids=["tiny", "no talk"]
)
def test_other_settings_keep_the_contract(rules: Any, check_contract: Any) -> None:
    check_contract(rules, num_episodes=4)


def test_the_large_instance_ends_and_has_short_texts() -> None:
    rng = random.Random(0)
    for _ in range(5):
        state, _ = random_episode(large, large.initial_state(), rng)[-1]
        assert len(large.observe(state, 0)) < 1500


class TestDraws:
    def test_both_splits_have_all_pairs_that_the_paper_allows(self) -> None:
        train, test = (
            {(s.pool, s.values): p for p, s in draws(DealOrNoDeal(split=split))}
            for split in ("train", "test")
        )
        assert train.keys().isdisjoint(test)
        pools = [c for c in product(range(1, 6), repeat=3) if 5 <= sum(c) <= 7]
        for pool in pools:
            values = [
                v
                for v in product(range(11), repeat=3)
                if sum(n * x for n, x in zip(pool, v, strict=True)) == 10
            ]
            pairs = {
                (pool, (one, other))
                for one, other in product(values, values)
                if all(a or b for a, b in zip(one, other, strict=True))
                and any(a and b for a, b in zip(one, other, strict=True))
            }
            halves = [pairs & found.keys() for found in (train, test)]
            assert halves[0] | halves[1] == pairs
            assert len(halves[0]) - len(halves[1]) in (0, 1)
            for half, found in zip(halves, (train, test), strict=True):
                for each in half:
                    chance = 1 / len(pools) / len(half)
                    assert found[each] == pytest.approx(chance)

    def test_the_draws_of_openspiel_are_among_them(self, oracle: Any) -> None:
        pyspiel = pytest.importorskip("pyspiel")
        splits: Any = (game.instances, DealOrNoDeal(split="test").instances)
        found = {(pool, (v, w)) for split in splits for pool, v, w in split}
        other = pyspiel.load_game("bargaining")
        for outcome in range(1000):
            state = other.new_initial_state()
            state.apply_action(outcome)
            drawn = state.instance()
            values = tuple(map(tuple, drawn.values))
            assert (tuple(drawn.pool), values) in found

    def test_the_other_values_are_drawn_again_evenly(self) -> None:
        rng = random.Random(0)
        drawn = [game.resample(START, 1, rng) for _ in range(2000)]
        assert {s.values[1] for s in drawn} == {BOB}
        others = [s.values[0] for s in drawn]
        pairs = deals.deals_of(START.pool, 10, "train")
        wanted = [values for values, bobs in pairs if bobs == BOB]
        for values in wanted:
            chance = others.count(values) / 2000
            assert chance == pytest.approx(1 / len(wanted), abs=0.02)


class TestRules:
    @pytest.mark.parametrize(
        ("texts", "returns"),
        [
            (["end", "claim 0 1 1", "claim 3 0 0"], (0.7, 0.3)),
            (["end", "claim 3 1 0", "claim 0 0 1"], (0.8, 0.6)),
            (["end", "claim 3 1 1", "claim 0 0 0"], (1.0, 0.0)),
            (["end", "claim 3 1 1", "claim 0 0 1"], (0.0, 0.0)),
            (["end", "claim 0 1 1", "claim 2 0 0"], (0.0, 0.0)),
            (["end", "claim 3 1 0"], (0.0, 0.0)),
        ],
    )
    def test_claims_are_paid_if_they_are_exactly_the_pool(
        self, texts: list[str], returns: tuple[float, float]
    ) -> None:
        assert game.returns(after(texts)) == pytest.approx(returns)

    def test_players_talk_in_turn_until_the_end_or_the_last_turn(self) -> None:
        texts = ["say: hi", "report 1 1 1", "Half?\ndemand 1 1 0", "Well. end"]
        players = [game.current_player(after(texts[:n])) for n in range(5)]
        assert players == [0, 1, 0, 1, 0]
        assert not game.is_talking(after(texts))
        talked = after(["say: hi"] * 6)
        assert game.current_player(talked) == 0
        with pytest.raises(IllegalAction, match='want a claim such as "claim 1 1 1"'):
            game.parse(talked, "end")

    def test_a_claim_is_hidden_until_both_have_claimed(self) -> None:
        texts = ["end", "claim 0 1 1"]
        other = after(["end", "claim 3 0 0"])
        for seen in (game.observe, game.information_state):
            assert seen(after(texts), 1) == seen(other, 1)
            assert seen(after(texts), 0) != seen(other, 0)
        end = game.observe(after([*texts, "claim 3 0 0"]), 1)
        assert end.endswith(
            "You claimed 3 books, player_0 claimed 1 hat, 1 ball. "
            "The claims fit: you get 3 of 10 points."
        )

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("demand 4 0 0", "want BOOKS of a demand of at most 3, got 4"),
            ("report 1 11 0", "want HATS of a report of at most 10, got 11"),
            ("demand 1 0", "got 'demand 1 0'"),
            ("say:", 'want a message after "say:", got none'),
            ("claim 1 0 0", "got 'claim 1 0 0'"),
        ],
    )
    def test_other_texts_are_no_action(self, text: str, message: str) -> None:
        with pytest.raises(IllegalAction, match=message):
            game.parse(START, text)

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"items": ("book",)}, "want items as 2 to 4 different words"),
            ({"items": ("book", "book")}, "want items as 2 to 4 different words"),
            ({"items": ("book", "")}, "want items as 2 to 4 different words"),
            ({"items": "ab"}, "want items as 2 to 4 different words"),
            ({"min_items": 8}, "integer min_items from 3 to 7, got 8"),
            ({"max_items": 13}, "integer max_items from 3 to 12, got 13"),
            ({"points": 0}, "integer points from 1 to 20, got 0"),
            ({"points": 1}, "want points that items .*, got points=1 for 5 to 7 items"),
            ({"max_talk": 31}, "integer max_talk from 0 to 30, got 31"),
            ({"max_message": 401}, "integer max_message from 1 to 400, got 401"),
            ({"messages": 1}, "want messages True or False, got 1"),
        ],
    )
    def test_impossible_parameters_are_refused(
        self, params: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            DealOrNoDeal(**params)

    def test_lists_of_a_recipe_are_as_good_as_tuples(self) -> None:
        rules: Any = make_game("deal_or_no_deal", items=["book", "hat", "ball"])
        assert rules == game
        assert hash(rules) == hash(game)


class TestMeasures:
    def test_those_of_the_dialogue_in_the_readme_of_the_authors(self) -> None:
        """7 and 3 points; with all books player_0 would get 8, with two books both 7."""
        found = game.measures(
            after(["report 1 5 2", "end", "claim 0 1 1", "claim 3 0 0"])
        )
        assert found == pytest.approx(
            {
                "agreement": 1,
                "efficiency": 10 / 14,
                "nash_product": 21 / 49,
                "pareto": 0,
                "envy_free": 0,
                "lies": 0,
            }
        )
        best = game.measures(after(["end", "claim 2 1 0", "claim 1 0 1"]))
        assert set(best.values()) - {best["lies"]} == {1.0}

    def test_lies_are_counted_and_the_rest_is_0_without_agreement(self) -> None:
        texts = ["report 1 5 2", "report 1 5 2", "say: no", "end"]
        found = game.measures(after([*texts, "claim 3 1 1", "claim 3 1 1"]))
        assert found == dict.fromkeys(game.measure_bounds, 0.0) | {"lies": 0.25}

    @pytest.mark.parametrize("rules", [tiny, game], ids=["tiny", "default"])
    def test_the_best_divisions_are_those_of_a_plain_search(self, rules: Any) -> None:
        states = [state for _, state in draws(rules)]
        for state in random.Random(0).sample(states, min(len(states), 40)):
            one, other = state.values
            pairs = [
                (
                    sum(s * v for s, v in zip(share, one, strict=True)),
                    rules.points
                    - sum(s * v for s, v in zip(share, other, strict=True)),
                )
                for share in product(*(range(n + 1) for n in state.pool))
            ]
            best = deals.best_of(state.pool, state.values)
            assert best.total == max(a + b for a, b in pairs)
            assert best.product == max(a * b for a, b in pairs) > 0
            front = {
                p
                for p in pairs
                if not any(q[0] >= p[0] and q[1] >= p[1] and q != p for q in pairs)
            }
            assert best.efficient == front


class TestKnownValues:
    def test_the_largest_nash_product_pays_the_known_total(self) -> None:
        totals = []
        for pool in deals.pools(3, 5, 7, 10):
            values = list(deals.weights(pool, 10))
            shares = np.array(deals.shares_of(pool))
            one = np.array(values) @ shares.T  # [values, shares]
            other = np.array(values) @ (np.array(pool) - shares).T
            pairs = [
                (values.index(v), values.index(w))
                for v, w in deals.deals_of(pool, 10, "train")
            ]
            first, second = (np.array(column) for column in zip(*pairs, strict=True))
            sums = one[first] + other[second]  # [pairs, shares]
            rank = 100 * one[first] * other[second] + sums  # ties: the largest sum
            totals.append(np.take_along_axis(sums, rank.argmax(1)[:, None], 1).mean())
        text = f"largest Nash product {np.mean(totals) / 10:.6f}, silent .984430;"
        assert text in str(game.known_value)
        assert text in _page()

    def test_a_convention_without_talk_gives_1_together_over_both_splits(self) -> None:
        totals = []
        for split in ("train", "test"):
            total = 0.0
            for chance, state in draws(DealOrNoDeal(split=split)):
                shares = [deals.convention(state.pool, seat) for seat in range(2)]
                total += chance * sum(map(deals.worth, state.values, shares)) / 10
            totals.append(total)
        assert totals[0] == pytest.approx(0.984430, abs=1e-6)
        assert sum(totals) / 2 == pytest.approx(1, abs=0.002)

    def test_random_play_has_its_known_value_and_length(self) -> None:
        sizes = [len(deals.shares_of(pool)) for pool in deals.pools(3, 5, 7, 10)]
        each = sum(0.5 / n for n in sizes) / len(sizes)
        assert str(game.known_value).endswith(
            f"random play {each:.6f} each".replace("0.", ".")
        )
        goes_on = [
            1 - 1 / (n + 2) for n in sizes
        ]  # no "end" among n demands and a report
        turns = 2 + sum(q**k for q in goes_on for k in range(6)) / len(sizes)
        assert f"{turns:.6f} on average" in _page()
        assert expected_returns(tiny, uniform_table(tiny)) == pytest.approx(
            (0.125, 0.125)
        )

    def test_honest_players_agree_and_tell_the_truth(self) -> None:
        rng, states = random.Random(0), [state for _, state in draws()]
        totals = np.zeros(2)
        for state in rng.sample(states, 100):
            end = played(["dealer:honest"] * 2, state)
            found = game.measures(end)
            assert found["lies"] == 0
            assert not game.agreed(end) or min(game.returns(end)) >= 0.5
            totals += game.returns(end)
        assert totals == pytest.approx([64, 79], abs=4)

    def test_no_report_gets_more_from_an_honest_player_than_the_truth(self) -> None:
        reports = [Utterance("report", v) for v in deals.all_values(START.pool, 10)]
        for seat in range(2):
            paid = {}
            for report in reports:
                state = START
                while game.current_player(state) != TERMINAL:
                    player = game.current_player(state)
                    action: Any = make_bot("dealer:honest")(game, state, rng=None)
                    if player == seat and action.move == "report":
                        action = report
                    if player == seat and action.move == "demand":
                        action = Utterance("end")
                    if player == seat and action.move == "claim":
                        left = game.legal_actions(state)
                        honest: Any = make_bot("dealer:honest")
                        share = honest._share(game, state, 1 - seat)
                        action = next(
                            each
                            for each in left
                            if each.values == deals.rest(state.pool, share)
                        )
                    state = game.apply(state, action)
                paid[report.values] = game.returns(state)[seat]
            assert max(paid.values()) == paid[START.values[seat]]

    def test_greed_pays_nothing_against_honesty_or_greed(self) -> None:
        end = after(["demand 3 1 1"])
        assert game.returns(played(["dealer:greedy", "dealer:honest"], end))[0] == 0
        assert game.returns(played(["dealer:greedy"] * 2, START)) == (0.0, 0.0)


def _page() -> str:
    import arena_envs.games.deal_or_no_deal as module

    return str(module.__doc__)
