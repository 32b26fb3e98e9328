"""Beliefs about what a seat does not see: posteriors against enumeration, and ranks of priorities."""

import json
import random
import re
from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from arena_envs import make_game
from arena_envs.game import CHANCE, TERMINAL, AnyGame, possible_outcomes, random_states
from arena_eval.measures.by_name import measure_of, measures
from arena_eval.measures.posteriors import NUM_DRAWS, beliefs_of, posteriors_of
from arena_eval.measures.testing import check_measure
from arena_wrappers import ScriptedPolicy, play_plans
from arena_wrappers.play import plans_of

HIDING = (
    "auction",
    "werewolf",
    "deal_or_no_deal",
    "mini_hanabi",
    "codenames",
    "liars_dice",
)


def enumerated(game: AnyGame) -> dict[Hashable, dict[str, float]]:
    """Posteriors by a sum over the whole tree, in which all others play uniformly at random."""
    weights: dict[Hashable, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def walk(state: Any, chance: float) -> None:
        player = game.current_player(state)
        if player == TERMINAL:
            return
        if player == CHANCE:
            for outcome, p in possible_outcomes(game, state):
                walk(game.apply(state, outcome), chance * p)
            return
        if (fact := game.hidden(state, player)) is not None:  # type: ignore[attr-defined]
            weights[player, game.information_state(state, player)][fact[1]] += chance
        actions = game.legal_actions(state)
        for action in actions:
            walk(game.apply(state, action), chance / len(actions))

    walk(game.initial_state(), 1.0)
    return {
        key: {name: w / sum(by_name.values()) for name, w in by_name.items()}
        for key, by_name in weights.items()
    }


def random_turns(game: AnyGame, num: int) -> list[tuple[Any, int]]:
    rng, turns = random.Random(0), list[tuple[Any, int]]()
    while len(turns) < num:
        turns += [(s, p) for s, p in random_states(game, rng) if p >= 0]
    return turns[:num]


def test_an_enumerated_posterior_is_that_of_a_sum_over_the_tree() -> None:
    game = make_game("liars_dice", num_sides=3)
    posterior, answers = beliefs_of(game, "random")
    assert answers == ("none", "one")
    exact = enumerated(game)
    for state, seat in random_turns(game, 50):
        expected = exact[seat, game.information_state(state, seat)]
        found = posterior(state, seat)
        assert {n: p for n, p in found.items() if p} == pytest.approx(
            {n: p for n, p in expected.items() if p}
        )


@pytest.mark.parametrize(
    ("id", "params"),
    [
        ("liars_dice", {"num_sides": 3}),
        (
            "auction",
            {
                "num_players": 2,
                "items": [[1, 0, 1]],
                "budget": 2,
                "messages": False,
                "split": "train",
            },
        ),
    ],
)
def test_a_drawn_posterior_is_near_the_sum_over_the_tree(
    id: str, params: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "arena_eval.measures.posteriors._is_enumerable", lambda game: False
    )
    game = make_game(id, **params)
    posterior, exact = beliefs_of(game, "random").posterior, enumerated(game)
    for state, seat in random_turns(game, 20):
        expected = exact[seat, game.information_state(state, seat)]
        for name, p in posterior(state, seat).items():
            error = (
                expected.get(name, 0.0) * (1 - expected.get(name, 0.0)) / NUM_DRAWS
            ) ** 0.5
            assert abs(p - expected.get(name, 0.0)) <= 5 * error + 1e-12


@pytest.mark.parametrize("id", HIDING)
def test_a_question_is_the_same_in_states_that_a_seat_cannot_tell_apart(
    id: str,
) -> None:
    game: Any = make_game(id)
    rng, facts = random.Random(0), 0
    for state, seat in random_turns(game, 40):
        fact, twin = (
            game.hidden(s, seat) for s in (state, game.resample(state, seat, rng))
        )
        assert (fact is None) == (twin is None)
        if fact is not None:
            facts += 1
            assert fact[0] == twin[0]
            assert fact[1] in game.hidden_answers
            # a number alone would be read as a probability
            assert not any(re.fullmatch(r"\d+", name) for name in game.hidden_answers)
    assert facts


def test_a_match_asks_about_its_current_game() -> None:
    game: Any = make_game("match:2(kuhn_poker)")
    state = game.initial_state()
    for action in (0, 2, 0, 1, 0, 1, 2):  # J and K, pass, bet, fold; Q and K
        state = game.apply(state, action)
    assert game.hidden(state, 1) == ("Which card does player_1 hold?", "K")
    assert not hasattr(make_game("match:2(nim)"), "hidden")


def test_other_players_than_random_want_enumeration() -> None:
    with pytest.raises(ValueError, match="others=random"):
        beliefs_of(make_game("werewolf"), "cfr")


def test_the_posterior_of_kuhn_poker_is_the_one_of_before() -> None:
    game = make_game("kuhn_poker")
    known, names = posteriors_of(game, "cfr")
    posterior, answers = beliefs_of(game, "cfr")
    assert answers == names
    for state, seat in random_turns(game, 20):
        assert (
            posterior(state, seat) == known[seat, game.information_state(state, seat)]
        )


def test_ranks_of_priorities_are_correlated_with_the_true_ones() -> None:
    game: Any = make_game("auction")
    probes = {key: [measures.make("profile")] for key in range(3)}

    def told(sign: int) -> ScriptedPolicy:
        def reply(request: Any) -> str:
            if "question beside" not in request.messages[-1]["content"]:
                return str(
                    request.wrap(random.Random(request.seed).choice(request.legal))
                )
            profile = game.hidden_profile(request.state, request.seat)[1]
            return ", ".join(f"{name} {5 + sign * x:g}" for name, x in profile.items())

        return ScriptedPolicy(reply, "knows")

    for sign, expected in ((1, 1.0), (-1, -1.0), (0, 0.0)):
        plans = plans_of("auction", told(sign), range(3), [0])
        episodes = [*play_plans([replace(plan, probes=probes) for plan in plans])]
        found = measure_of("profile", game)(episodes, game, 0)
        assert found["profile.correlation"].value == pytest.approx(expected)
        assert found["profile.unread"].value == 0
    check_measure(measures.make("profile"), episodes)
    with pytest.raises(ValueError, match="take auction"):
        measure_of("profile", make_game("kuhn_poker"))


def test_the_documented_probes_are_asked(arena_here: Any) -> None:
    for command in (
        "eval random werewolf --no-baselines --probe belief -n 1",
        "eval random auction --no-baselines --probe belief --probe profile -n 1",
    ):
        done = arena_here(*command.split(), "--json")
        assert done.returncode == 0, done.stderr
        (row, *_) = json.loads(done.stdout)["rows"]
        assert row["measures"]["belief.unread"][0] == 0  # random play names an answer
