"""Evaluations print means with the luck taken out beside the raw ones, where that helps."""

import json
import sys

import numpy as np
import pytest

from arena_envs import make_game
from arena_envs.solvers import expected_returns
from arena_eval import EvaluationPlan, evaluate, tabular
from arena_eval.exploit import SHORT
from arena_eval.fitted_values import bot_values
from arena_eval.luck import adjusted_mean, adjusted_to
from arena_eval.result_rows import scored_on
from arena_eval.tables import adjusted_text, as_table, caption, records_of
from arena_eval.values import check_values, read_values, values
from arena_trainers.cli.output import plain
from arena_wrappers import make_policy


class Unknown:
    """A policy that reports no probabilities, as a model behind an API."""

    def __init__(self, spec, name="model"):
        self.policy, self.name = make_policy(spec), name

    def act(self, requests):
        return self.policy.act(requests)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ARENA_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def kuhn():
    model, base = Unknown("noisy:0.5(cfr:50)"), Unknown("first", "base")
    return evaluate(model, "kuhn_poker", ["cfr:50"], 200, base=base, baselines=False)


def exact_return(spec, seat):
    """Of a policy against cfr:50 in Kuhn poker."""
    game = make_game("kuhn_poker")
    tables = [tabular(make_policy(s), game, SHORT)[0] for s in (spec, "cfr:50")]
    mixed = {key: tables[key[0] != seat][key] for key in tables[0]}
    return float(expected_returns(game, mixed)[seat])


@pytest.mark.slow  # test_luck_saved.py measures this in fewer games
def test_luck_out_saves_four_fifths_of_the_games_of_kuhn_poker(kuhn):
    rows = {row.seat: row for row in kuhn.rows if row.role == "policy"}
    for seat in (0, 1):
        adjusted = rows[seat].adjusted
        assert adjusted.worth > 4
        assert adjusted.high - adjusted.low < (rows[seat].high - rows[seat].low) / 1.8
        value = exact_return("noisy:0.5(cfr:50)", seat)
        assert adjusted.low < value < adjusted.high


def test_differences_have_their_luck_out_too(kuhn):
    (difference,) = kuhn.differences
    adjusted = difference.adjusted
    value = np.mean(
        [
            exact_return("noisy:0.5(cfr:50)", seat) - exact_return("first", seat)
            for seat in (0, 1)
        ]
    )
    assert adjusted.low < value < adjusted.high
    assert adjusted.worth > 1.2


def test_tables_captions_csv_and_json_have_the_adjusted_means(kuhn):
    text = plain(as_table(kuhn))
    assert "luck out (95 %)\tas good as" in text
    assert "luck out, model in seat 0 against cfr:50: " in caption(kuhn)
    assert "values: solver" in caption(kuhn)
    record = records_of(kuhn, {})[0]
    assert record["adjusted_worth"] > 4
    assert "adjusted" not in record
    document = json.loads(json.dumps(kuhn.to_dict(), allow_nan=False))
    assert document["rows"][0]["adjusted"]["values"] == "solver"


def test_corrections_that_do_not_help_are_not_used():
    rng = np.random.default_rng(0)
    returns, noise = rng.normal(size=100), rng.normal(size=(100, 3))
    assert adjusted_mean(returns, noise, (-9, 9), "poor", 0.0) is None
    few = returns[:20]
    assert adjusted_mean(few, noise[:20], (-9, 9), "poor", 0.0) is None
    good = np.column_stack([returns, 0 * returns, 0 * returns])
    assert adjusted_mean(returns, good, (-9, 9), "good", 0.0).worth > 100


def test_no_luck_is_taken_out_without_values_or_of_an_unknown_name():
    options = {"num_episodes": 60, "baselines": False}
    found = evaluate(Unknown("first"), "kuhn_poker", values=None, **options)
    assert not any(row.adjusted for row in found.rows)
    with pytest.raises(ValueError, match="kind of values"):
        EvaluationPlan("first", "kuhn_poker", values="wishes", **options)


def test_a_game_without_known_draws_has_no_adjusted_mean():
    opponents = [Unknown("first", "other")]
    found = evaluate(
        Unknown("random"), "tic_tac_toe", opponents, 20, baselines=False, values="bots"
    )
    assert not any(row.adjusted for row in found.rows)


def test_values_are_fitted_once_and_say_their_seconds(cache):
    game, opponent = make_game("blackjack"), None
    first = bot_values(game, 0, opponent, max_games=300)
    (file,) = (cache / "values").iterdir()
    again = bot_values(game, 0, opponent, max_games=300)
    assert again.seconds == first.seconds > 0
    states = [game.initial_state()]
    assert again(states) == first(states)
    file.write_bytes(b"broken")
    assert bot_values(game, 0, opponent, max_games=300)(states) == first(states)


def test_fitted_values_save_games_of_a_model():
    found = evaluate(
        Unknown("noisy:0.3(first)"),
        "blackjack",
        ["random"],
        100,
        baselines=False,
        values="bots(max_games=1000)",
    )
    (row,) = found.rows
    assert row.adjusted.worth > 1.3
    assert row.adjusted.seconds > 0


@pytest.mark.parametrize(
    ("name", "game"),
    [
        ("solver", "kuhn_poker"),
        ("bots(max_games=20)", "kuhn_poker"),
        ("check_down", "limit_holdem"),
    ],
)
def test_built_in_values_keep_their_promises(name, game):
    check_values(lambda **given: values.make(name, **given), make_game(game))


@pytest.mark.parametrize(
    ("name", "game"), [("solver", "limit_holdem"), ("check_down", "kuhn_poker")]
)
def test_values_refuse_games_that_they_do_not_fit(name, game):
    with pytest.raises(ValueError, match="take 'bots'"):
        values.make(name, game=make_game(game), seat=0, opponent=None)


def test_equal_adjusted_returns_are_worth_no_number_and_say_so():
    returns = np.array([1.0, -1.0] * 10)
    equal = adjusted_to(returns, np.full(20, 0.1), (-1, 1), "exact", 0.0)
    assert equal.worth is None
    assert "no spread left" in adjusted_text(equal)
    rounded = 0.1 + 1e-15 * returns
    low = adjusted_to(returns, rounded, (-1, 1), "exact", 0.0).low
    assert low == pytest.approx(equal.low)


def test_a_score_is_of_the_mean_with_the_luck_taken_out(kuhn):
    row = next(row for row in kuhn.rows if row.role == "policy")
    scaled = scored_on(row, (-1.0, 1.0))
    assert scaled.score == pytest.approx(50 * (row.adjusted.mean + 1))
    assert scaled.score_interval[0] == pytest.approx(50 * (row.adjusted.low + 1))


class NoNumbers:
    seconds, num_alternatives = 0.0, None

    def __init__(self, game, seat, opponent):
        pass

    def __call__(self, states):
        return np.full(len(states), np.nan)


def test_values_of_yours_are_tried_before_play(monkeypatch):
    monkeypatch.setitem(sys.modules, "no_numbers", sys.modules[__name__])
    with pytest.raises(ValueError, match=r"tried before play: .* want finite numbers"):
        read_values("no_numbers:NoNumbers", make_game("kuhn_poker"))
