"""Measures of play: values by hand, refusals, the command, and the kit."""

import json
import re
from dataclasses import replace
from math import log

import pytest

import arena_envs
from arena_envs.games.kuhn_poker import NAMES, State
from arena_envs.registry import BrokenPromise
from arena_eval import evaluate
from arena_eval.exploit import exact_options
from arena_eval.intervals import Estimate
from arena_eval.measures.belief import Belief, _scores
from arena_eval.measures.by_name import measure_of, measures
from arena_eval.measures.estimates import estimated
from arena_eval.measures.numbers_in_replies import read_distribution
from arena_eval.measures.posteriors import posteriors_of
from arena_eval.measures.testing import check_measure
from arena_trainers.data import select
from arena_wrappers import (
    Episode,
    FunctionPolicy,
    RandomPolicy,
    ScriptedPolicy,
    Turn,
    play,
    play_plans,
    read_episodes,
    replay,
    stream_plans,
)
from arena_wrappers.play import plans_of
from arena_wrappers.policies.prompted import with_prompt

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
    return {
        k: one.value for k, one in measure_of(name, game)(episodes, game, seat).items()
    }


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


def test_an_invalid_reply_is_a_class_of_its_own():
    more = [kuhn(9, (Q, J), "?"), *(kuhn(s, (J, Q), "pass", "pass") for s in range(3))]
    found = values("mutual_information(of=action)", more)
    # H(R) = H(I) = H(R, I), and 2 + 2 - 2 - 1 = 1 in the correction
    entropy = log(4) - 3 * log(3) / 4
    assert found["mutual_information.action"] == pytest.approx(entropy + 1 / 8)


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


def believer(others="random"):
    """Knows the exact posterior when it is asked, and else passes."""
    known, _ = posteriors_of(KUHN, others)

    def reply(request):
        if "question beside" not in request.messages[-1]["content"]:
            return request.wrap("pass")
        belief = known[
            request.seat, KUHN.information_state(request.state, request.seat)
        ]
        return "I pass? " + ", ".join(f"{name}: {p:.9f}" for name, p in belief.items())

    return ScriptedPolicy(reply, "believer")


def test_the_posterior_of_the_hidden_card_by_hand():
    (uniform, _), (solved, _) = (posteriors_of(KUHN, o) for o in ("random", "cfr"))
    facing = State((J, Q), (1,))  # Q faces a bet
    key = 1, KUHN.information_state(facing, 1)
    assert uniform[key] == pytest.approx({"J": 1 / 2, "K": 1 / 2})
    # at an equilibrium K bets three times as often as J
    assert solved[key] == pytest.approx({"J": 1 / 4, "K": 3 / 4}, abs=0.01)


def test_leduc_poker_counts_the_suits_of_the_hidden_card():
    game = arena_envs.make_game("leduc_poker")
    state = game.apply(game.apply(game.initial_state(), 0), 2)  # J and Q
    belief = posteriors_of(game, "random")[0][0, game.information_state(state, 0)]
    assert belief == pytest.approx({"J": 1 / 5, "Q": 2 / 5, "K": 2 / 5})


def test_a_policy_that_knows_the_posterior_has_its_scores():
    found = evaluate(
        believer(), KUHN, num_episodes=30, baselines=False, measures=["belief"]
    )
    for row in found.rows[:2]:
        told = {
            name.removeprefix("belief."): one.value
            for name, one in row.measures.items()
        }
        assert told["unread"] == 0
        assert told["distance"] == pytest.approx(0, abs=1e-12)
        assert told["brier"] == pytest.approx(told["exact_brier"])
        assert told["log_score"] == pytest.approx(told["exact_log_score"])
        assert told["exact_brier"] == pytest.approx(
            0.5
        )  # two cards are left, equally likely


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("J 0.2, Q: 0.3, K=0.5", {"J": 0.2, "Q": 0.3, "K": 0.5}),
        (
            "<think>J 1</think><answer>J 20%, K 60%</answer>",
            {"J": 0.25, "Q": 0, "K": 0.75},
        ),
        ("K", {"J": 0, "Q": 0, "K": 1}),
        ("J 0.9 at first, then J 0.5, Q 0.5", {"J": 0.5, "Q": 0.5, "K": 0}),
        ("<answer>bet</answer>", None),
        ("J or K", None),
        ("J 0, Q 0", None),
        ("<think>J 1", None),
        ("J " + "9" * 5000, {"J": 1, "Q": 0, "K": 0}),
        ("J 1/4, Q 1/2, K 1/4", {"J": 1 / 4, "Q": 1 / 2, "K": 1 / 4}),
        ("**J**: 0.8, **K**: 0.2", {"J": 0.8, "Q": 0, "K": 0.2}),
        ("**J**: 0.8", {"J": 0.8, "Q": 0.1, "K": 0.1}),
        ("P(J)=0.8; P(K) = .2", {"J": 0.8, "Q": 0, "K": 0.2}),
        ("J is 0.8", {"J": 0.8, "Q": 0.1, "K": 0.1}),
        ("J has a 25% chance, and K is 75 percent", {"J": 0.25, "Q": 0, "K": 0.75}),
        ("80% J 20% K", {"J": 0.8, "Q": 0, "K": 0.2}),
        ("I hold Q. 0.5 for J, 0.5 for K", {"J": 0.5, "Q": 0, "K": 0.5}),
        ('{"J": 0.25, "Q": 5e-1, "K": 0.25}', {"J": 0.25, "Q": 0.5, "K": 0.25}),
        ("| J | \u00bd |\n| K | 1/2 |", {"J": 0.5, "Q": 0, "K": 0.5}),
        (r"J: $\frac{1}{4}$, K: \frac34", {"J": 0.25, "Q": 0, "K": 0.75}),
        ("(J, 0.25), (K, 0.75)", {"J": 0.25, "Q": 0, "K": 0.75}),
        ("There are 3 cards: J 0.5, Q 0.5", {"J": 0.5, "Q": 0.5, "K": 0}),
        ("It is not J", None),
        ("J 1/0", None),
    ],
)
def test_answers_are_read_or_counted_as_unread(reply, expected):
    found = read_distribution(reply, ["J", "K", "Q"])
    assert found == (expected and pytest.approx(expected))


def test_a_wrong_certainty_by_hand():
    found = _scores({"J": 1.0, "Q": 0.0, "K": 0.0}, {"J": 0.5, "K": 0.5}, "K")
    assert found == pytest.approx(
        {
            "log_score": log(0.01),
            "brier": 2,
            "exact_log_score": log(0.5),
            "exact_brier": 0.5,
            "distance": 0.5,
            "unread": 0,
        }
    )


@pytest.mark.parametrize("game", ["tic_tac_toe", "bargaining"])
def test_a_game_that_hides_no_card_is_refused_before_play(game):
    with pytest.raises(ValueError, match=r"hidden|language"):
        evaluate("random", game, measures=["belief"])


def test_episodes_with_a_probe_are_otherwise_byte_equal(tmp_path):
    files = []
    for probes in ([], ["belief"]):
        files.append(tmp_path / f"{len(probes)}.jsonl")
        options = {"prompt": {"history": "transcript"}, "out": files[-1]}
        evaluate(
            "random",
            "leduc_poker",
            ["self"],
            8,
            baselines=False,
            measures=probes,
            **options,
        )
    plain, asked = ([*read_episodes(file)] for file in files)
    turns = [turn for one in asked for turn in one.turns]
    assert all(turn.probes["belief"]["reply"] for turn in turns)
    assert [replay(one) for one in asked] == plain
    for turn in turns:
        turn.probes = None
    assert [one.to_json() for one in asked] == [one.to_json() for one in plain]


def test_rows_to_train_on_are_the_same_with_a_probe():
    plans = plans_of("kuhn_poker", "random", range(20), [0])
    asked = play_plans(
        [replace(p, probes={0: [Belief()], 1: [Belief()]}) for p in plans]
    )
    assert all(turn.probes for one in asked for turn in one.turns)
    assert select("wins", asked) == select("wins", play_plans(plans))


def test_an_endpoint_is_asked_the_same_as_in_lockstep():
    class Endpoint(RandomPolicy):
        async def act_async(self, request, timeout=None):
            return self.act([request])[0]

    plans = [
        replace(plan, probes={1: [Belief()]})
        for plan in plans_of("kuhn_poker", Endpoint(), range(6), [0])
    ]
    assert [one for _, one in sorted(stream_plans(plans))] == play_plans(plans)


def test_an_agent_does_not_read_its_reply_in_a_question():
    seen = []

    def reply(request):
        seen.append((len(request.turns), request.legal))
        return request.wrap("pass")

    plans = plans_of("kuhn_poker", ScriptedPolicy(reply), [0], [0])
    play_plans([replace(plans[0], probes={0: [Belief()]})])
    assert seen[:2] == [(0, ["pass", "bet"]), (0, ["J", "K", "Q"])]


def test_the_kit_refuses_a_probe_that_tells_what_is_hidden():
    class Leak(Belief):
        def question(self, game, state, seat):
            return str(state.cards[1 - seat]), ["J"]

    with pytest.raises(BrokenPromise, match="own view"):
        check_measure(Leak())


# the probe of priorities asks nothing in poker; test_beliefs.py checks it
@pytest.mark.parametrize("name", sorted({*measures.names()} - {"profile"}))
def test_the_built_in_measures_keep_their_promises(name):
    check_measure(measure_of(name, KUHN))


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


def test_the_bias_of_a_choice_is_that_of_its_position_where_orders_are_drawn():
    def always(request):
        return request.wrap("bet")

    def top(request):
        listed = re.search(r"actions: ([^,.]*)", request.messages[-1]["content"])
        return request.wrap(listed[1])

    for play_turn, expected in ((always, 0.0), (top, 0.5)):
        player = with_prompt(FunctionPolicy(play_turn), {"shuffle": 1}, {})
        episodes = play("kuhn_poker", player, range(200))
        (bias,) = (
            found
            for name, found in measure_of("choice_bias", KUHN)(
                episodes, KUHN, 0
            ).items()
            if name == "choice_bias.0"
        )
        assert bias.low <= expected <= bias.high
        assert bias.high - bias.low < 0.2
        with pytest.raises(ValueError, match="shuffle=0"):
            exact_options(player, None)
