"""The comparison of estimators: self-play of tables, statistics, page and command."""

import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from arena_envs import make_game
from arena_envs.solvers import complete_table, nash_conv
from arena_trainers.bench import experiment, page, statistics, tiny_model
from arena_trainers.bench.exact_values import with_exact_values
from arena_trainers.bench.tabular import COLUMNS, TabularPolicy
from arena_trainers.cli.main import app
from arena_trainers.credit import estimate, estimator_names

DOCS = Path(__file__).parents[3] / "docs" / "credit"


def play(game="kuhn_poker", starts=20, samples=4, **params):
    table = TabularPolicy(make_game(game, **params))
    return table, table.play(starts, samples, random.Random(0))


@pytest.mark.parametrize("players", [2, 3])
def test_turns_are_paid_what_the_rules_pay(players):
    """Kuhn poker is zero-sum; every seat has a turn, and every turn but the last pays 0."""
    _, played = play(num_players=players)
    turns = played.turns
    total = np.bincount(turns.episode, turns.reward)
    np.testing.assert_allclose(total, 0)
    assert played.mean_return == 0
    assert not turns.reward[~turns.terminated].any()
    assert turns.reward[turns.terminated].all()
    ends = np.bincount(players * turns.episode + turns.seat, turns.terminated)
    assert set(ends.tolist()) == {1}


def test_rewards_on_the_way_come_to_their_turns():
    """Mini Hanabi pays both seats for each card, from the first own turn on."""
    table, played = play("mini_hanabi", starts=5)
    for episode in range(20):
        own = played.turns.episode == episode
        by_seat = np.bincount(played.turns.seat[own], played.turns.reward[own])
        assert by_seat[0] >= by_seat[1]  # what seat 0 is paid before seat 1 has a turn
    assert played.turns.reward.any()
    assert played.mean_return == pytest.approx(
        played.turns.reward[played.turns.seat == 0].sum() / 20
    )
    assert len(table.rows) > 20


def test_samples_of_a_start_are_dealt_alike():
    table, played = play()
    hands = {key[1][1] for key in table.rows}
    assert hands == {0, 1, 2}
    keys = list(table.rows)
    first = (played.turns.turn == 0) & (played.turns.seat == 0)
    dealt = [keys[row][1][1] for row in played.row[first]]
    assert all(len(set(dealt[i : i + 4])) == 1 for i in range(0, len(dealt), 4))


def test_play_follows_the_policy():
    """The first player bets with 0.9 and the second calls never."""
    table, _ = play()
    first, second = (
        row
        for key, row in table.rows.items()
        if key in ((0, (0, 0, ())), (1, (1, 0, (1,))))
    )
    table.logits[first] = np.log([0.1, 0.9])
    table.logits[second] = [0.0, -np.inf]
    table._remember(np.array([first, second]))
    played = table.play(3000, 1, random.Random(1))
    share = played.action[played.row == first].mean()
    assert share == pytest.approx(0.9, abs=0.03)
    assert not played.action[played.row == second].any()


def test_a_step_is_the_gradient_written_out():
    """θ += step (Σ A/rms (1[a] - π) - bonus · visits · π (log π + H)) / episodes."""
    table, played = play()
    rng, used = np.random.default_rng(0), slice(len(table.rows))
    table.logits[used] = rng.normal(size=(len(table.rows), 2))
    before, chances = table.logits.copy(), table.probabilities(played.row)
    advantage = rng.normal(size=len(played.row))
    table.update(played, advantage, 0.5, 0.1)
    change = np.zeros_like(before)
    size = np.sqrt((advantage**2).mean())
    for row, action, p, a in zip(
        played.row, played.action, chances, advantage, strict=True
    ):
        entropy = -(p * np.log(p)).sum()
        change[row] += a / size * (np.eye(2)[action] - p)
        change[row] -= 0.1 * p * (np.log(p) + entropy)
    expected = before[used] + 0.5 * change[used] / 80
    np.testing.assert_allclose(table.logits[used], expected, atol=1e-12)


def test_the_critic_moves_towards_the_mean_return_to_go():
    table, played = play()
    table.update(played, np.zeros(len(played.row)), 0.0, 0.0)
    row = played.row[0]
    here = played.row == row
    expected = (1 - 0.9 ** here.sum()) * played.turns.reward[here].mean()
    last = played.turns.terminated[here].all()
    assert not last or table.value[row] == pytest.approx(expected)
    assert table.value[: len(table.rows)].any()


def test_self_play_learns():
    game = make_game("kuhn_poker")
    table, rng = TabularPolicy(game), random.Random(0)
    for _ in range(60):
        played = table.play(16, 8, rng)
        table.update(played, estimate("mars_loo", played.turns).advantage, 2.0, 0.1)
    assert nash_conv(game, complete_table(game, table.table())) < 0.4  # uniform .917


def test_batches_have_the_columns_that_are_promised():
    _, played = play()
    for column in COLUMNS:
        owner, _, part = column.partition(".")
        found = getattr(played.turns, owner)
        assert (found[part] if part else found) is not None
    exact = {"adca", "counterfactual"}
    assert set(estimator_names()) - set(experiment.runnable("mini_hanabi")) == exact
    assert set(estimator_names()) == set(experiment.runnable("leduc"))


def test_exact_values_are_those_of_the_policy_that_played():
    """Kuhn poker at uniform play: a king that is bet into gains 2 by calling, and loses 1."""
    table, played = play()
    turns = with_exact_values(table, played)
    row = table.rows[1, (1, 2, (1,))]
    here = played.row == row
    assert here.any()
    np.testing.assert_allclose(turns.value[here], 0.5)
    expected = np.where(played.action[here] == 1, 2.0, -1.0)
    np.testing.assert_allclose(turns.action_value[here], expected)
    assert turns.rewards["judge"][here].tolist() == np.sign(expected).tolist()


def test_runs_are_kept_and_not_repeated(tmp_path):
    path = tmp_path / "bench.json"
    runs = experiment.read_runs(path)
    assert runs == {}
    experiment.add(runs, "kuhn", "mars", 0, [0.5, 0.25])
    experiment.write_runs(path, runs)
    assert experiment.read_runs(path) == runs
    assert json.loads(path.read_text())["settings"]["kuhn"]["step"] == 2.0
    todo = experiment.missing(runs, ["mars", "rae"], ["kuhn"], 2)
    assert todo == [("kuhn", "rae", 0), ("kuhn", "mars", 1), ("kuhn", "rae", 1)]


def test_runs_of_other_settings_or_options_are_not_kept(tmp_path):
    path = tmp_path / "bench.json"
    runs = {"kuhn": {"mars": {"0": [0.5]}, "rae": {"0": [0.5]}}}
    runs["leduc"] = {"mars": {"0": [0.5]}}
    experiment.write_runs(path, runs)
    changed = json.loads(path.read_text())
    changed["settings"]["leduc"]["step"] = 1.0
    changed["options"]["rae"]["decay"] = 0.5
    path.write_text(json.dumps(changed))
    assert experiment.read_runs(path) == {"kuhn": {"mars": {"0": [0.5]}}}


@pytest.mark.slow
@pytest.mark.parametrize("name", estimator_names())
def test_the_committed_results_are_those_of_this_code(name):
    """Run the others again with arena credit bench, after taking out what has changed."""
    known = experiment.read_runs(DOCS / "bench.json")["kuhn"][name]["0"]
    assert experiment.learn("kuhn", name, 0) == known


def test_statistics_by_hand():
    """1, 2, 3: mean 2, standard error 1/√3, t(.975, 2) = 4.3027. Last quarter of 8: 2."""
    mean = statistics.interval([1.0, 2.0, 3.0])
    assert mean.mean == 2
    assert mean.high - 2 == pytest.approx(4.30265 / 3**0.5, rel=1e-5)
    assert statistics.interval([5.0]) == (5, 5, 5, 1)
    assert statistics.final([9, 9, 9, 9, 9, 9, 1, 2]) == 1.5


def test_p_values_are_corrected_for_their_number():
    """b: t = -2/√(2/3), 4 degrees of freedom: p = .0705. Holm: smallest times 2, then .5."""
    finals = {"a": [1.0, 2.0, 3.0], "b": [3.0, 4.0, 5.0], "c": [1.0, 2.0, 3.0]}
    found = statistics.p_values(finals, "a")
    assert found["b"] == pytest.approx(2 * 0.0705, abs=2e-4)
    assert found["c"] == 1
    assert statistics.p_values({"a": [1.0, 2.0], "b": [3.0]}, "a") == {}
    constant = {"a": [1.0, 1.0], "b": [2.0, 2.0], "c": [1.0, 1.0]}
    assert statistics.p_values(constant, "a") == {"b": 0, "c": 1}


def test_the_page_says_which_differences_are_significant():
    better = {str(seed): [0.1 + seed / 100] * 4 for seed in range(3)}
    worse = {str(seed): [0.5 + seed / 100] * 4 for seed in range(3)}
    runs = {
        "kuhn": {"mars": better, "rae": worse},
        "mini_hanabi": {"mars": better, "rae": worse},
    }
    text = page.text(runs)
    kuhn, hanabi = text.split("## Mini Hanabi")
    once = page.text({"kuhn": {"mars": better, "rae": {"0": [0.1] * 4}}})
    assert "| `rae` | 0.100 | - | 1 |  | too few seeds |" in once
    assert "Significantly worse than `mars`: `rae`." in kuhn
    assert "Significantly better than `mars`: `rae`." in hanabi
    assert "| `mars` | 0.110 | 0.085 to 0.135 | 3 |  |  |" in kuhn


def test_the_committed_page_is_that_of_the_committed_results():
    """Write it with: arena credit bench."""
    runs = experiment.read_runs(DOCS / "bench.json")
    assert (DOCS / "README.md").read_text() == page.text(runs)
    assert (DOCS / page.PICTURE).exists()


def test_the_command_does_what_is_missing_and_draws_it(tmp_path):
    command = ["credit", "bench", "--only", "mars", "--only", "rae", "--game", "kuhn"]
    command += ["--seeds", "1", "--jobs", "1", "--directory", str(tmp_path)]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0
    assert "2/2 kuhn rae seed 0" in done.output
    names = {"bench.json", "README.md", "learning.png"}
    assert {path.name for path in tmp_path.iterdir()} == names
    known = experiment.read_runs(DOCS / "bench.json")["kuhn"]["mars"]["0"]
    assert experiment.read_runs(tmp_path / "bench.json")["kuhn"]["mars"]["0"] == known
    again = CliRunner().invoke(app, command, catch_exceptions=False)
    assert "seed 0" not in again.output


def test_an_unknown_estimator_or_setting_is_named():
    for option, value in (("--only", "mras"), ("--game", "chess")):
        done = CliRunner().invoke(app, ["credit", "bench", option, value])
        assert done.exit_code != 0
        assert f"got '{value}'" in str(done.exception)


@pytest.mark.parametrize(
    ("module", "extra"),
    [("matplotlib.figure", "eval"), ("scipy.stats", "eval"), ("trl", "train")],
)
def test_a_missing_package_is_named_before_anything_is_run(
    tmp_path, monkeypatch, module, extra
):
    monkeypatch.setitem(sys.modules, module, None)
    folder = tmp_path / "new"
    command = ["credit", "bench", "--only", "mars", "--directory", str(folder)]
    done = CliRunner().invoke(app, command)
    assert f"arena-envs[{extra}]" in str(done.exception)
    assert not folder.exists()


def test_the_tiny_model_is_trained_by_three_estimators_only():
    settings = [*experiment.SETTINGS, experiment.TINY]
    todo = experiment.missing({}, estimator_names(), settings, 10)
    tiny = [one for one in todo if one[0] == experiment.TINY]
    assert tiny[:3] == todo[:3]
    assert {name for _, name, _ in tiny} == set(tiny_model.ESTIMATORS)
    assert {seed for _, _, seed in tiny} == {0, 1, 2}
    assert len(todo) == 9 + 10 * (4 * len(estimator_names()) - 2)


def test_curves_of_the_tiny_model_are_drawn(tmp_path):
    curves = {str(seed): [0.5, 0.25 + seed / 100] for seed in range(3)}
    runs = {experiment.TINY: dict.fromkeys(tiny_model.ESTIMATORS, curves)}
    assert "## Kuhn poker, tiny language model" in page.text(runs)
    page.draw(runs, tmp_path / "tiny.png")
    assert (tmp_path / "tiny.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_tiny_model_is_measured_every_ten_steps():
    curve = tiny_model.train("episode", 0)
    assert len(curve) == 40
    assert curve[-1] < 0.9
