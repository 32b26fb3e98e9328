"""Self-play of tables in lockstep: episodes, rewards, credit and steps are right."""

import dataclasses

import numpy as np
import pytest

from arena_credit import estimate, estimator_names
from arena_credit.proofs import ExactGame
from arena_envs import make_game
from credit_runs import learn
from credit_settings import (
    SETTINGS,
    PaidByRound,
    graph_of,
    hints_and_fireworks,
    without_history,
)
from tabular import COLUMNS, ExactPolicy, Graph, TabularPolicy

GAMES = {
    "kuhn": make_game("kuhn_poker"),
    "kuhn3": make_game("kuhn_poker", num_players=3),
    "goofspiel": PaidByRound(num_cards=3, returns_type="point_difference"),
}


def play(game="kuhn_poker", starts=20, samples=4, **params):
    table = TabularPolicy(Graph(make_game(game, **params)))
    return table, table.play(starts, samples, np.random.default_rng(0))


def trained(game, rng):
    """A policy with random logits, and the game with all lines of play at that policy."""
    table = TabularPolicy(Graph(game))
    exact = ExactGame(game)
    ExactPolicy(table)  # adds all rows
    table.logits[:] = rng.normal(size=table.logits.shape)
    table.remember(np.arange(len(table.graph.rows)))
    return table, exact.at(exact.policy(table.table()))


def lines_of(play, table, played):
    """The line of play of each episode, found by what its seats knew and did."""
    exact = play.game
    first = np.unique(exact.infoset, return_index=True)[1]
    column = {
        (key, action): first[number] + place
        for number, key in enumerate(exact.keys)
        for place, action in enumerate(np.flatnonzero(legal_of(table, key)))
    }
    keys = list(table.graph.rows)
    flat = exact.flat
    known = {
        tuple(flat.column[flat.start[i] : flat.start[i] + flat.size[i]]): i
        for i in range(exact.num_lines)
    }
    taken = [
        column[keys[row], action]
        for row, action in zip(played.row, played.action.tolist(), strict=True)
    ]
    ends = np.flatnonzero(np.diff(played.turns.episode)) + 1
    return [known[tuple(part)] for part in np.split(np.array(taken), ends)]


def legal_of(table, key):
    return table.graph.legal[table.graph.rows[key]]


@pytest.mark.parametrize("name", GAMES)
def test_lines_of_play_have_the_probabilities_of_the_enumeration(name):
    """χ² of 20,000 episodes against the probability of every line, below its 99.9 %."""
    from scipy.stats import chi2

    table, play = trained(GAMES[name], np.random.default_rng(0))
    played = table.play(20_000, 1, np.random.default_rng(1))
    found = np.bincount(lines_of(play, table, played), minlength=play.game.num_lines)
    expected = 20_000 * play.probability
    often = expected >= 5
    error = ((found - expected)[often] ** 2 / expected[often]).sum()
    assert often.sum() > 10
    assert error < chi2.ppf(0.999, often.sum())


@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
@pytest.mark.parametrize("name", GAMES)
def test_credit_is_that_of_the_same_episodes_played_one_by_one(name):
    """The turns of the enumerated lines give the same credit, by every estimator but the
    ones that read the critic or exact values."""
    table, play = trained(GAMES[name], np.random.default_rng(0))
    played = table.play(16, 8, np.random.default_rng(2))
    drawn = lines_of(play, table, played)
    turns = play.batch(drawn, np.repeat(np.arange(16), 8))
    np.testing.assert_allclose(played.turns.reward, turns.reward)
    np.testing.assert_array_equal(played.turns.turn, turns.turn)
    np.testing.assert_array_equal(played.turns.terminated, turns.terminated)
    others = {"adca", "archer", "bi_level_gae", "counterfactual", "gae", "poad"}
    for estimator in set(estimator_names()) - others - {"turn_ppo"}:
        mine = estimate(estimator, played.turns).advantage
        theirs = estimate(estimator, turns).advantage
        np.testing.assert_allclose(mine, theirs, atol=1e-9, err_msg=estimator)


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


def test_goofspiel_pays_each_round_and_as_much_in_all():
    """The sum of a seat's rewards is the point difference that the game pays at its end."""
    table = TabularPolicy(graph_of("goofspiel"))
    played = table.play(20, 2, np.random.default_rng(0))
    turns = played.turns
    assert turns.reward[~turns.terminated].any()
    totals = np.bincount(2 * turns.episode + turns.seat, turns.reward)
    np.testing.assert_allclose(totals, played.returns.ravel())
    assert set(np.abs(played.returns).ravel().tolist()) <= {
        0,
        0.5,
        *range(6),
        1.5,
        2.5,
        3.5,
        4.5,
    }


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
    assert len(table.graph.rows) > 20


def test_samples_of_a_start_are_dealt_alike():
    table, played = play()
    keys = list(table.graph.rows)
    assert {key[1][1] for key in keys} == {0, 1, 2}
    first = (played.turns.turn == 0) & (played.turns.seat == 0)
    dealt = [keys[row][1][1] for row in played.row[first]]
    assert all(len(set(dealt[i : i + 4])) == 1 for i in range(0, len(dealt), 4))


@pytest.mark.slow
def test_a_run_does_not_depend_on_what_the_graph_knows():
    """Runs of a process share a graph; a fresh graph, and one that forgets, give the same."""
    known = learn("kuhn3", ["mars"], 1)
    assert learn("kuhn3", ["gigpo"], 0) != known
    graph_of.cache_clear()
    assert learn("kuhn3", ["mars"], 1) == known


@pytest.mark.parametrize("setting", ["kuhn", "mini_hanabi"])
def test_runs_in_lockstep_are_those_that_variants_have_alone(setting, monkeypatch):
    short = dataclasses.replace(SETTINGS[setting], num_batches=20)
    monkeypatch.setitem(SETTINGS, setting, short)
    names = ["mars", "random_effects", "gae"]
    together = learn(setting, names, 3)
    assert together == [learn(setting, [name], 3)[0] for name in names]
    assert len({str(run) for run in together}) == 3


def test_a_full_graph_forgets_its_nodes_and_keeps_its_rows(monkeypatch):
    monkeypatch.setattr("tabular.MAX_NODES", 20)
    small, known = play(), play()
    monkeypatch.undo()
    large = play()
    assert len(small[0].graph.player) == 64
    assert small[0].graph.rows == large[0].graph.rows == known[0].graph.rows
    second = [t.play(20, 4, np.random.default_rng(1)).row for t, _ in (small, large)]
    np.testing.assert_array_equal(*second)


def test_states_of_hanabi_that_differ_only_in_the_past_are_one():
    game = make_game("mini_hanabi")
    key = hints_and_fireworks(game)
    graphs = Graph(game, key), Graph(game, key, without_history)
    all_played = []
    for graph in graphs:
        table = TabularPolicy(graph)
        all_played.append(
            [table.play(16, 8, rng) for rng in map(np.random.default_rng, range(5))]
        )
    for one, other in zip(*all_played, strict=True):
        np.testing.assert_array_equal(one.action, other.action)
        np.testing.assert_array_equal(one.row, other.row)
        np.testing.assert_array_equal(one.turns.reward, other.turns.reward)
    assert (graphs[1].row > 0).sum() < (graphs[0].row > 0).sum()


def test_a_game_without_numbered_actions_is_refused():
    with pytest.raises(ValueError, match="want a game with numbered actions"):
        Graph(make_game("bargaining"))


def test_a_step_is_the_gradient_written_out():
    """θ += step (Σ A/rms (1[a] - π) - bonus · visits · π (log π + H)) / episodes."""
    table, played = play()
    rng, used = np.random.default_rng(0), slice(len(table.graph.rows))
    table.logits[used] = rng.normal(size=(len(table.graph.rows), 2))
    table.remember(np.arange(used.stop))
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
    for row in np.unique(played.row):
        here = played.row == row
        seat, episodes = played.turns.seat[here], played.turns.episode[here]
        paid = played.returns[episodes, seat]  # Kuhn poker pays at the end
        expected = (1 - 0.9 ** here.sum()) * paid.mean()
        assert table.value[row] == pytest.approx(expected)


def test_batches_have_the_columns_that_are_promised():
    _, played = play()
    for column in COLUMNS:
        owner, _, part = column.partition(".")
        found = getattr(played.turns, owner)
        assert (found[part] if part else found) is not None


def test_settings_play_the_games_they_name():
    for name, setting in SETTINGS.items():
        game = setting.game()
        assert type(game) in type(make_game(setting.id)).__mro__ or setting.by_round
        assert graph_of(name).game == game
