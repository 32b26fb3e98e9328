"""Measures of play: values by hand, refusals, the command, and the kit."""

import json
from math import log

import pytest

import arena_envs
from arena_envs.doors import BrokenPromise
from arena_envs.games.kuhn_poker import NAMES, State
from arena_trainers.evaluate import evaluate
from arena_trainers.evaluate.intervals import Estimate
from arena_trainers.evaluate.measures import (
    check_measure,
    estimated,
    measure_of,
    measures,
)
from arena_wrappers import Episode, ScriptedPolicy, Turn, play

KUHN = arena_envs.make_game("kuhn_poker")
J, Q, K = range(3)


def kuhn(seed, cards, *texts):
    """The episode of these cards and replies; "?" is an invalid reply, which ends it."""
    state, turns = State(cards), []
    for text in texts:
        seat, legal = KUHN.current_player(state), list(NAMES)
        is_bad = text not in NAMES
        turns.append(
            Turn(
                index=sum(turn.seat == seat for turn in turns),
                seat=seat,
                policy="p",
                messages=[{"role": "user", "content": "card"}],
                legal=legal,
                reply=f" {text}\n",
                action=None if is_bad else legal.index(text),
                invalid="format" if is_bad else None,
                detail=None,
                state=state,
            )
        )
        state = state if is_bad else KUHN.apply(state, legal.index(text))
    actions = [*cards, *(t.action for t in turns if t.action is not None)]
    return Episode(
        *("kuhn_poker-v0", {"num_players": 2}, None, {}, seed, 0, actions, turns),
        *([1.0, -1.0], True, False),
    )


def values(name, episodes, seat=0, game=KUHN):
    return {k: one.value for k, one in measure_of(name)(episodes, game, seat).items()}


OPENINGS = [  # of seat 0: it bets with K, and mixes with J
    kuhn(0, (J, Q), "bet", "pass"),
    kuhn(1, (J, K), "pass", "pass"),
    kuhn(2, (K, Q), "bet", "pass"),
    kuhn(3, (K, J), "bet", "pass"),
]
ANSWERS = [  # of seat 1 to a bet
    kuhn(0, (J, K), "bet", "pass"),  # loses 1 in place of winning 2
    kuhn(1, (K, J), "bet", "bet"),  # loses 2 in place of 1
    kuhn(2, (Q, K), "bet", "bet"),
    kuhn(3, (Q, J), "bet", "pass"),
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "choice_bias",
            {
                "choice_bias.0": -1 / 4,
                "choice_bias.1": 1 / 4,
                "choice_bias.last": 1 / 4,
            },
        ),
        ("action_entropy", {"action_entropy": log(2) / 2 + 1 / 8}),
        ("cost", {"cost.reply_characters": 5.25, "cost.prompt_characters": 4}),
    ],
)
def test_measures_of_four_openings_by_hand(name, expected):
    assert values(name, OPENINGS) == pytest.approx(expected)


@pytest.mark.parametrize("of", ["reply", "action"])
def test_the_mutual_information_of_four_openings_by_hand(of):
    found = values(f"mutual_information(of={of})", OPENINGS)
    name = "mutual_information" + (".action" if of == "action" else "")
    plug_in = log(4) - (4 * log(2) + 3 * log(3) - 2 * log(2)) / 4
    assert found[name] == pytest.approx(plug_in)  # 2 + 2 - 3 - 1 = 0 is the correction
    assert found[f"{name}.null"] == pytest.approx(plug_in)  # as every shuffle of them


def test_replies_that_ignore_the_card_have_no_mutual_information():
    collapsed = [kuhn(s, (s % 3, (s + 1) % 3), "bet", "pass") for s in range(30)]
    assert values("mutual_information", collapsed)["mutual_information"] == 0


def test_folding_the_best_card_and_calling_with_the_worst_by_hand():
    assert values("regret", ANSWERS, 1)["regret"] == pytest.approx((3 + 1 + 0 + 0) / 4)
    assert values("profile_accuracy", ANSWERS, 1) == {"profile_accuracy": 0.5}


def test_an_invalid_reply_has_no_regret_but_counts_as_inaccurate():
    more = [*ANSWERS, kuhn(4, (Q, J), "bet", "?")]
    assert values("regret", more, 1)["regret"] == pytest.approx(1)
    assert values("profile_accuracy", more, 1) == {
        "profile_accuracy": pytest.approx(0.4)
    }


def test_serial_dependence_by_hand():
    game = arena_envs.make_game("iterated_matrix_game", num_rounds=2)
    pairs = ["00", "00", "11", "10"]  # of seat 0
    first, second = (game.action_text(game.initial_state(), a) for a in (0, 1))
    script = {"0": first, "1": second}
    lines = [[f"<answer>{script[one]}</answer>" for one in pair] for pair in pairs]
    episodes = [
        play(
            lambda: arena_envs.make("iterated_matrix_game", num_rounds=2),
            [ScriptedPolicy(line), "first"],
            [seed],
        )[0]
        for seed, line in enumerate(lines)
    ]
    found = values("serial_dependence", episodes, game=game)
    assert found == pytest.approx({"serial_dependence": (3 / 4 - 1 / 2) * 4 / 3})


def test_an_estimate_of_a_mean_has_the_interval_of_the_mean():
    found = estimated(
        [[x] for x in (0.0, 1.0, 1.0, 0.0)], lambda v: sum(v) / len(v), 0, 1
    )
    assert found == Estimate(
        0.5, pytest.approx(0.068, abs=0.01), pytest.approx(0.932, abs=0.01), 4
    )


def test_an_episode_is_one_observation():
    def mean(values):
        return sum(values) / len(values)

    pairs = estimated([[0.0, 0.0], [1.0, 1.0]] * 10, mean, 0, 1)
    singles = estimated([[0.0], [1.0]] * 10, mean, 0, 1)
    assert pairs == singles


def test_a_game_of_talk_has_no_regret_and_is_refused_before_play():
    with pytest.raises(ValueError, match=r"exact values.*leave the measure out"):
        evaluate("random", "bargaining", measures=["regret"])


def test_an_unknown_measure_is_refused_before_play():
    with pytest.raises(ValueError, match="choice_bias"):
        evaluate("random", "kuhn_poker", measures=["choise_bias"])


def test_arena_eval_shows_measures_of_the_policy_in_each_seat(arena_here):
    done = arena_here(
        *("eval", "random", "kuhn_poker", "-n", "20", "--no-baselines", "--json"),
        *("--measure", "action_entropy", "--measure", "cost"),
    )
    rows = json.loads(done.stdout)["rows"]
    names = {"action_entropy", "cost.reply_characters", "cost.prompt_characters"}
    assert [{*row["measures"]} for row in rows] == [names, names, set()]
    value, low, high, num = rows[0]["measures"]["action_entropy"]
    assert (0 <= low <= value <= high, num) == (True, 20)


@pytest.mark.parametrize("name", measures.names())
def test_the_built_in_measures_keep_their_promises(name):
    check_measure(measure_of(name))


def test_the_kit_names_the_promise_that_a_measure_breaks():
    def broken(episodes, game, seat):
        return (
            {"first": Estimate(float(episodes[0].seed), 0, 99, 1)} if episodes else {}
        )

    cases = {
        "nothing of nothing": lambda e, g, s: {"x": Estimate(0, 0, 0, 1)},
        "estimates": lambda e, g, s: {"x": Estimate(0, 1, 2, 1)} if e else {},
        "order": broken,
        "arguments": lambda e, g, s: e.clear() or {},
    }
    for promise, measure in cases.items():
        with pytest.raises(BrokenPromise, match=f"broken promise '{promise}'"):
            check_measure(measure)
