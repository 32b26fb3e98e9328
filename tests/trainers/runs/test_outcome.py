"""What a run says at its start and its end: warning, tables, curves, lines."""

import io
import json
import shlex
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from arena_envs.solvers import uniform_table
from arena_eval.result_rows import measured
from arena_eval.tables import score_text
from arena_studio.report.curves import charts_of
from arena_studio.report.figures import figure_of
from arena_studio.report.tables import result_tables
from arena_trainers import TurnGRPOConfig
from arena_trainers.runs import JobConfig, closing_lines
from arena_trainers.runs.callbacks.progress import clock
from arena_trainers.runs.opening_lines import legal_warning
from arena_trainers.runs.results.commands import player_of, rollouts_lines
from arena_trainers.runs.results.equilibrium import compare_with_equilibrium
from arena_trainers.runs.results.files import PICTURED, results_of
from arena_trainers.runs.results.measure import GameMeter, GameOutcome
from arena_trainers.runs.results.tables import outcome_tables
from arena_trainers.train import GamePlan
from arena_wrappers import (
    RandomPolicy,
    ScriptedPolicy,
    play,
    read_episodes,
)


@pytest.fixture
def args(settings):
    return TurnGRPOConfig(**{**settings, "reply_format": "bare"})


def outcome(game, args, num_episodes=20):
    meter = GameMeter(GamePlan(game, args), args, num_episodes)
    for name in ("before self-play", "after self-play"):
        meter.measure(name, RandomPolicy())
    policy = RandomPolicy()
    evaluation, comparison = meter.evaluate(policy), meter.compare()
    return GameOutcome(meter.plan.name, meter.stages, evaluation, comparison)


def page(found, width=80):
    text = io.StringIO()
    console = Console(file=text, width=width)
    for table in outcome_tables(found):
        console.print(table)
    return text.getvalue()


def test_each_episode_of_an_evaluation_is_a_sign_of_life(args):
    """So that the watchdog calls no long evaluation late."""
    meter, beats = GameMeter(GamePlan("kuhn_poker", args), args, 3), []
    meter.on_progress = lambda: beats.append(1)
    episodes = meter.measure("after self-play", RandomPolicy())
    assert [episode.seed for episode in episodes] == [0, 1, 2]
    assert len(beats) == 3 + 1  # and NashConv
    meter.evaluate(RandomPolicy())
    assert len(beats) == 4 + 3 * 2 * 2  # against two opponents, in both seats


class Counting:
    """A model with probabilities, which counts how often it is asked for them."""

    name = "model"

    def __init__(self):
        self.inner, self.num_requests = RandomPolicy(), 0

    def act(self, requests):
        return self.inner.act(requests)

    def action_probs(self, requests):
        self.num_requests += len(requests)
        return self.inner.action_probs(requests)


def test_the_probabilities_that_nash_conv_has_read_are_not_asked_for_again(args):
    meter, policy = GameMeter(GamePlan("kuhn_poker", args), args, 2), Counting()
    meter.measure("after self-play", policy)
    assert policy.num_requests == 12  # information states
    evaluation = meter.evaluate(policy)
    assert policy.num_requests == 12
    assert all(row.is_exact for row in evaluation.rows)
    other = Counting()
    assert all(row.is_exact for row in meter.evaluate(other).rows)
    assert other.num_requests == 12


def test_an_evaluation_of_a_run_raises_where_a_reply_is_missing(args):
    """Its results would not say that they are of fewer episodes."""

    def reply(request):
        if request.seed % 2:
            raise RuntimeError("out of memory")
        return request.legal[0]

    meter = GameMeter(GamePlan("kuhn_poker", args), args, 10)
    with pytest.raises(RuntimeError, match="out of memory"):
        meter.evaluate(ScriptedPolicy(reply))


def test_a_model_that_plays_nothing_legal_is_warned_of_with_a_reply(args):
    plan = GamePlan("kuhn_poker", args)
    episodes = play(plan.env_fn, ScriptedPolicy(lambda _: "I \x1b fold"), range(4))
    text = legal_warning(plan.name, episodes, JobConfig(model="some/model"), args)
    assert "0.0% of 4 replies in kuhn_poker are legal" in text
    assert r"'I \x1b fold'" in text
    for option in ("--warm_start steps=100", "--prompt rules=true"):
        assert option in text
    assert "--show_legal_actions" not in text  # it is on
    assert "--parsing" not in text  # it is tolerant
    assert "follows instructions" in text


def test_cut_replies_are_advised_to_be_longer(args):
    plan = GamePlan("kuhn_poker", args)
    turn = SimpleNamespace(invalid="overlong", truncated=True, reply="x", detail="cut")
    text = legal_warning(plan.name, [SimpleNamespace(turns=[turn])], JobConfig(), args)
    assert "a larger --max_completion_length (1 of 1 replies were cut at 2" in text


def test_a_model_that_plays_is_not_warned_of(args):
    plan = GamePlan("kuhn_poker", args)
    episodes = play(plan.env_fn, RandomPolicy(), range(4))
    assert legal_warning(plan.name, episodes, JobConfig(), args) is None


def test_kuhn_poker_stands_beside_an_equilibrium(args):
    plan = GamePlan("kuhn_poker", args)
    found = compare_with_equilibrium(plan.name, plan.game, uniform_table(plan.game))
    assert len(found.decisions) == 12
    assert found.nash_conv < 0.01
    assert found.values == pytest.approx([-1 / 18, 1 / 18], abs=1e-3)
    cards = [d.text.split("hold ")[1][0] for d in found.decisions if d.seat == 0]
    assert cards == ["J", "J", "Q", "Q", "K", "K"]
    bets = {d.text: (d.policy[1], d.equilibrium[1]) for d in found.decisions}
    for card, at_equilibrium in (("J", 0.0), ("K", 1.0)):
        own, other = bets[
            f"You are player_1 and hold {card}. Actions: player_0 bet. Your turn."
        ]
        assert own == 0.5
        assert other == pytest.approx(at_equilibrium, abs=1e-3)


def test_a_game_of_many_states_has_no_table_of_them(args):
    plan = GamePlan("tic_tac_toe", args)
    assert compare_with_equilibrium("", plan.game, {}) is None


@pytest.mark.parametrize("game", ["kuhn_poker", "tiny_hanabi"])
def test_the_tables_fit_a_terminal_of_80_columns(game, args):
    found = outcome(game, args)
    if found.evaluation is not None:
        apart = {"uniform": 0.0, "solver": 0.1, "constant": 0.0, "policy": -1.5}
        rows = [
            replace(
                row,
                num_episodes=1000,
                **dict.fromkeys(("mean_return", "low", "high"), apart[row.role]),
                score=-1500.0,
                score_interval=(-1500.0, -1500.0),
            )
            for row in found.evaluation.rows
        ]
        found = replace(found, evaluation=replace(found.evaluation, rows=rows))
    text = page(found)
    assert "…" not in text
    assert "and an equilibrium" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("opponents", "seats"), [(["random", "self"], [1]), ("random", [0, 1])]
)
def test_results_lead_with_the_return_of_the_seats_that_learn(args, opponents, seats):
    args.opponents = opponents
    others = {"random": RandomPolicy()}
    meter = GameMeter(GamePlan("kuhn_poker", args), args, 20, others)
    learner = RandomPolicy()
    for name in ("before self-play", "after self-play"):
        meter.measure(name, learner)
    found = meter.outcome(learner)
    both = {0: [learner, others["random"]], 1: [others["random"], learner]}
    played = [play(meter.plan.env_fn, both[seat], range(20)) for seat in seats]
    own = [e.returns[s] for s, part in zip(seats, played, strict=True) for e in part]
    results = results_of([found], None)
    assert next(iter(results)) == "learner_return"
    final = results["learner_return"]["final"]
    assert final["against"] == "random"
    assert final["mean"] == pytest.approx(sum(own) / len(own))
    low, high = final["95 %"]
    assert low < final["mean"] < high
    mean = f"{final['mean']:.3f}"
    title, *_, before, after = page(found).splitlines()[:6]
    assert title.strip() == "kuhn_poker: mean returns of n episodes"
    assert before.split()[:2] == ["opponents,", "before"]
    assert mean in after
    (table, *_) = result_tables(json.loads(json.dumps(results)))
    assert [row[3] for row in table.rows if row[0] == "opponents"] == [mean]


def test_a_game_that_is_not_enumerated_shows_returns_and_measures(args):
    game = {"id": "bargaining", "params": {}}
    found = outcome(game, args, 8)
    assert [stage.nash_conv for stage in found.stages] == [None] * 3
    text = page(found)
    assert "not enumerable" not in text
    assert "NashConv" not in text
    lines = [line.strip() for line in text.splitlines()]
    for name in ("itself, before", "itself", "random"):
        assert any(line.startswith(f"{name}  ") for line in lines), name


def test_measures_are_means_with_intervals_over_the_episodes_of_games_that_have_them():
    values = enumerate((0.0, 1.0, 1.0, 1.0))
    episodes = [SimpleNamespace(measures={"fair": x}, seed=n) for n, x in values]
    game = SimpleNamespace(measure_bounds={"fair": (0.0, 1.0)})
    without = SimpleNamespace(measures={}, seed=4)
    mean, low, high, num = measured(game, [*episodes, without])["fair"]
    assert (mean, num) == (0.75, 4)
    assert 0 <= low < 0.75 < high <= 1


def test_twenty_equal_measures_have_an_interval_only_by_declared_bounds():
    episodes = [SimpleNamespace(measures={"fair": 1.0}, seed=n) for n in range(20)]
    known = SimpleNamespace(measure_bounds={"fair": (0.0, 1.0)})
    interval = measured(known, episodes)["fair"]
    assert interval == pytest.approx((1, 0.832, 1, 20), abs=1e-3)
    unknown = SimpleNamespace(measure_bounds={})
    assert measured(unknown, episodes)["fair"] == (1.0, None, None, 20)


def test_scores_against_cfr_are_exact_in_both_seats(args):
    """Values by hand: -1/18 at equilibrium; no policy gains more against it."""
    found = outcome("kuhn_poker", args, 60)
    rows = [row for row in found.evaluation.rows if row.opponent == "cfr"]
    assert {row.role for row in rows} == {"policy"}
    for row, value in zip(rows, (-1 / 18, 1 / 18, 0.0), strict=True):
        assert row.is_exact
        assert row.scale[1] == pytest.approx(value, abs=0.01)
        assert row.score == pytest.approx(0, abs=1e-9)  # the learner is random play
        assert score_text(row) == "0.0"


def test_cooperative_games_are_measured_in_self_play_alone(args):
    assert outcome("tiny_hanabi", args, 4).evaluation is None


def test_every_game_has_its_lines_and_solvers_only_where_they_are_exact(args, tmp_path):
    games = ["kuhn_poker", "connect_four", "tiny_hanabi", "blackjack"]
    games += [{"id": "nim", "params": {"pile_sizes": [1, 2]}}]
    plans = [GamePlan(game, args) for game in games]
    lines = closing_lines(tmp_path / "my run", plans, args)
    evals = [line for line in lines if line.startswith("  arena eval")]
    assert [line.split("--against ")[1] for line in evals] == [
        "cfr",
        "random",
        "self",
        "self",
        "minimax",
    ]
    assert f"'lm:{tmp_path}/my run/model' nim -p 'pile_sizes=[1, 2]'" in evals[-1]
    assert "look at episodes after training:" in lines  # none of training are kept
    plays = [line for line in lines if line.startswith("  arena play")]
    assert plays[3] == f"  arena play blackjack --hint 'lm:{tmp_path}/my run/model'"


def test_the_play_command_of_a_game_of_one_seat_asks_the_roles_for_hints(settings):
    args = TurnGRPOConfig(
        **settings, agent="planner_worker", roles={"planner": {}, "worker": {}}
    )
    lines = closing_lines(Path("run"), [GamePlan("wordle", args)], args)
    agent = (
        "agent:planner_worker(planner=lm:run/model/planner, worker=lm:run/model/worker)"
    )
    assert f"  arena play wordle --hint '{agent}'" in lines


@pytest.mark.parametrize(
    ("options", "player"),
    [
        ({}, "lm:M"),
        ({"agent": "planner_worker"}, "agent:planner_worker(lm:M)"),
        (
            {"agent": "candidates(num=2)", "roles": {"proposer": {}, "chooser": {}}},
            "agent:candidates(proposer=lm:M/proposer, chooser=lm:M/chooser, num=2)",
        ),
        ({"roles": {0: {}, 1: {}}}, "agent:by_seat(seat_0=lm:M/seat_0, seat_1=lm:M/seat_1)"),
    ],
)  # fmt: skip
def test_what_was_trained_has_a_policy_string(settings, options, player):
    assert player_of("lm:M", TurnGRPOConfig(**settings, **options)) == player


def test_the_end_says_why_there_are_no_training_episodes(args, tmp_path):
    (line,) = rollouts_lines(tmp_path, 2, args)
    assert f"written every logging_steps ({args.logging_steps:g}) steps" in line
    assert rollouts_lines(tmp_path, 0, args) == []
    (tmp_path / "rollouts").mkdir()
    (tmp_path / "rollouts" / "step-1.jsonl").touch()
    assert rollouts_lines(tmp_path, 2, args) == []


@pytest.mark.parametrize(
    ("on_invalid", "words"),
    [
        ("forfeit", ""),
        ("random", " --prompt on_invalid=random"),
        ("retry", " --prompt on_invalid=retry --prompt max_retries=5"),
    ],
)
def test_the_closing_lines_repeat_the_limit_of_turns_and_the_referee(
    settings, tmp_path, arena_here, on_invalid, words
):
    """The command line reads them: it refuses the model alone, which is not there."""
    options = {"on_invalid": on_invalid, "max_retries": 5}
    args = TurnGRPOConfig(**settings, **options)
    game = {"id": "nim", "params": {"pile_sizes": [1, 2]}, "max_turns": 3}
    lines = closing_lines(tmp_path / "run", [GamePlan(game, args)], args)
    evaluate, play = lines[1], lines[3]
    named = "nim -p 'pile_sizes=[1, 2]' --max-turns 3"
    assert f"{named}{words} --against minimax" in evaluate
    assert f"{named} --against" in play
    for line in (evaluate, play):
        done = arena_here(*shlex.split(line)[1:])
        assert done.returncode == 2
        assert f"got '{tmp_path}/run/model'" in done.stderr


def test_eval_truncates_after_max_turns(arena_here, tmp_path):
    words = "eval random kuhn_poker --against random --max-turns 1 -n 3 --no-baselines"
    file = tmp_path / "episodes.jsonl"
    assert arena_here(*words.split(), "--out", file).returncode == 0
    assert {episode.max_turns for episode in read_episodes(file)} == {1}


METRICS = [
    {"step": 0, "arena/nash_conv": 1.0, "arena/legal_rate": 0.9, "loss": 0.5},
    {"step": 5, "arena/nash_conv": 0.5, "arena/legal_rate": 0.91, "kl": 0.02},
]
METRICS[0]["arena/kuhn_poker/player_0/return"] = -0.1
METRICS[1]["arena/kuhn_poker/player_0/return"] = -0.11


def test_curves_do_not_make_noise_look_like_a_trend(args):
    results = results_of([outcome("kuhn_poker", args)], None)
    charts = charts_of(METRICS, results, {"kuhn_poker": (-2.0, 2.0)})
    figure = figure_of(charts, "kuhn_poker, seed 3", moves=range(3, 9, 3))
    assert figure.get_suptitle() == "kuhn_poker, seed 3"
    returns, conv, legal, kl, _ = figure.axes
    assert returns.get_ylim()[0] <= -2 < 2 <= returns.get_ylim()[1]
    assert all(-0.1 < panel.get_ylim()[0] <= 0 for panel in (legal, conv, kl))
    assert 1 <= legal.get_ylim()[1] < 1.1
    assert kl.get_ylim()[1] >= 0.1
    assert len({panel.get_xlim() for panel in figure.axes}) == 1
    assert "uniform random play" in conv.get_legend_handles_labels()[1]
    marks = [list(line.get_xdata()) for line in kl.get_lines()]
    assert marks == [[5], [3, 3], [6, 6]]
    colors = {line.get_label(): line.get_color() for line in returns.get_lines()}
    assert colors["player_0 at equilibrium"] == colors["player_0"]
    assert all(PICTURED.fullmatch(chart.title) for chart in charts)


def test_curves_lead_with_the_return_of_the_seats_that_learn():
    one = {"arena/kuhn/player_0/return": 0.1, "arena/kuhn/against/cfr/return": -0.1}
    charts = charts_of([{"step": 1, **one}], {})
    titles = ["kuhn: return by opponent", "kuhn: return per seat"]
    assert [chart.title for chart in charts] == titles
    assert len(figure_of(charts[:1], "x").axes) == 1  # no empty panel


def test_durations_are_read_as_on_a_clock():
    assert (clock(9), clock(3599.6)) == ("0:09", "1:00:00")


def test_curves_of_a_game_with_many_parameters_have_room():
    """Matplotlib warns, which is an error here, where a wide text leaves no room for axes."""
    game = f"hex-v0({', '.join(f'parameter_{n}={n}' for n in range(20))})"
    metrics = [{"step": 1, f"arena/{game}/player_0/return": 0.5}]
    figure_of(charts_of(metrics, {}), game).draw_without_rendering()


def test_a_large_game_is_not_measured_exactly_unless_that_is_asked_for(args):
    """Tic-tac-toe: 4,520 information states, which cost a tiny model minutes."""
    meter = GameMeter(GamePlan("tic_tac_toe", args), args, 2)
    assert meter.game is None
    assert meter.exact_note(RandomPolicy(), 10) == (
        "exact NashConv of tic_tac_toe, 4,520 information states: not measured; "
        "--callbacks exact_states=4520 measures it"
    )
    meter.measure("before self-play", RandomPolicy())
    assert meter.stages[-1].nash_conv is None
    asked = GameMeter(GamePlan("tic_tac_toe", args), args, 2, exact_states=4520)
    assert asked.game is not None


def test_exact_states_of_0_turns_exact_measures_off_without_a_word(args):
    meter = GameMeter(GamePlan("kuhn_poker", args), args, 2, exact_states=0)
    assert meter.game is None
    assert meter.exact_note(RandomPolicy(), 10) is None


class Slow(RandomPolicy):
    """A policy that takes 2 s for each information state, by a clock of its own."""

    now = 0.0

    def action_probs(self, requests):
        Slow.now += 2 * len(requests)
        return super().action_probs(requests)


def test_an_exact_measure_that_takes_long_is_announced(args, monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: Slow.now)
    meter = GameMeter(GamePlan("leduc_poker", args), args, 2)
    assert meter.exact_note(Slow(), 5) == (
        "exact NashConv of leduc_poker, 936 information states: about 1,872 s each time, before, "
        "every 5 steps of and after training; --callbacks exact_states=0 measures none"
    )
    assert meter.exact_note(RandomPolicy(), 5) is None
