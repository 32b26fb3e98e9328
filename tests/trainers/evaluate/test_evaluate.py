"""`evaluate`: rows computed by hand, baselines, faults and refusals."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import arena_envs
from arena_envs import GameEnv
from arena_envs.bots.solved import CFRBot
from arena_envs.game import CHANCE, TERMINAL
from arena_envs.games.frozen_lake import FrozenLake
from arena_envs.games.kuhn_poker import KuhnPoker
from arena_envs.solvers import TooLarge
from arena_eval import evaluate, matches
from arena_eval.baselines import constants_of, solver_of
from arena_eval.intervals import mean_interval
from arena_eval.result_rows import win_draw_loss
from arena_eval.tables import caption, reference_kind
from arena_wrappers import (
    BotPolicy,
    NoReplyError,
    RandomPolicy,
    Reply,
    ScriptedPolicy,
    play,
)
from arena_wrappers.policies import SolverValues
from arena_wrappers.records import EpisodeLog

KUHN = arena_envs.make_game("kuhn_poker")


def bettor() -> ScriptedPolicy:
    return ScriptedPolicy(lambda request: request.wrap("bet"), name="bettor")


def passer() -> ScriptedPolicy:
    return ScriptedPolicy(lambda request: request.wrap("pass"), name="passer")


def rows_by_seat(found, role="policy"):
    return {row.seat: row for row in found.rows if row.role == role}


def test_a_bettor_takes_the_ante_of_a_passer_in_either_seat():
    found = evaluate(bettor(), "kuhn_poker", [passer()], 40, baselines=False)
    rows = rows_by_seat(found)
    assert list(rows) == [0, 1, "all"]
    quantile = 1 - 0.025 ** (1 / 40)  # of a value that 40 draws have not shown
    for seat, row in rows.items():
        assert (row.policy, row.opponent, row.role) == ("bettor", "passer", "policy")
        assert row.num_episodes == (80 if seat == "all" else 40)
        assert (row.mean_return, row.high) == (1, pytest.approx(1 + quantile))
        assert row.low == pytest.approx(1 - 3 * quantile)
        assert (row.wins, row.draws, row.losses) == (1, 0, 0)
        assert (row.invalid, row.num_turns, row.num_tokens) == ({}, 1, None)
        assert (row.score, row.no_score) == (
            None,
            "the action probabilities of passer are unknown",
        )
    assert (found.game, found.params) == ("kuhn_poker-v0", {"num_players": 2})
    assert found.known_value.startswith("-1/18 for player_0")


def test_returns_at_showdown_are_those_of_the_deals(tmp_path: Path):
    out = tmp_path / "log.jsonl"
    found = evaluate(passer(), KUHN, [passer()], 60, baselines=False, out=out)
    deals = [episode.actions[:2] for episode in EpisodeLog(out)]
    assert deals[:60] == deals[60:]  # the same seeds in both seats
    assert {tuple(deal) for deal in deals} == {
        (a, b) for a in range(3) for b in range(3) if a != b
    }
    first = [1 if deal[0] > deal[1] else -1 for deal in deals[:60]]
    rows = rows_by_seat(found)
    assert rows[0].mean_return == sum(first) / 60 == -rows[1].mean_return
    assert rows[0].wins == first.count(1) / 60 == rows[1].losses
    assert rows["all"].mean_return == 0
    # in each deal exactly one of the two seats wins, so the mean has no variance
    quantile = 1 - 0.025 ** (1 / 60)
    assert rows["all"].high == pytest.approx(2 * quantile)


def test_self_play_counts_each_episode_once():
    found = evaluate("first", "mini_hanabi", ["self"], 30, baselines=False)
    rows = rows_by_seat(found)
    assert [row.num_episodes for row in rows.values()] == [30, 30, 30]
    assert rows[0].mean_return == rows[1].mean_return == rows["all"].mean_return
    assert (rows[0].low, rows[0].high) == (rows["all"].low, rows["all"].high)
    assert rows["all"].wins is rows["all"].draws is rows["all"].losses is None


def test_seats_can_be_chosen():
    found = evaluate("random", KUHN, num_episodes=5, seats=[1], baselines=False)
    assert [row.seat for row in found.rows] == [1]
    assert found.rows[0].num_episodes == 5


def test_baselines_stand_beside_the_policy():
    found = evaluate("constant:1", "kuhn_poker", ["cfr"], 50)
    roles = [(row.role, row.policy) for row in found.rows if row.seat == "all"]
    assert roles[:3] == [
        ("policy", "constant:1"),
        ("uniform", "random"),
        ("solver", "cfr"),
    ]
    assert roles[3][0] == "constant"
    alone = evaluate("constant:1", "kuhn_poker", ["cfr"], 50, baselines=False)
    assert list(rows_by_seat(found).values()) == list(alone.rows)


def test_the_best_constant_is_chosen_by_other_seeds(tmp_path: Path):
    out = tmp_path / "log.jsonl"
    done = []
    found = evaluate(
        passer(),
        "kuhn_poker",
        [passer()],
        20,
        seed=7,
        out=out,
        progress=lambda *numbers: done.append(numbers),
    )
    constants = rows_by_seat(found, "constant")
    assert constants["all"].policy == "constant:1"  # betting takes every ante
    assert constants["all"].mean_return == 1
    assert {episode.seed for episode in EpisodeLog(out)} == set(range(7, 27))
    # both seats: 20 of policy, uniform, solver and best constant, trials of two constants
    total = 2 * (4 * 20 + 2 * 20)
    assert done == [(number, total) for number in range(1, total + 1)]


def value_of(game, state, chances, seat):
    """Expected return of a seat, by recursion; `chances(player, state)` of each action."""
    player = game.current_player(state)
    if player == TERMINAL:
        return game.returns(state)[seat]
    outcomes = (
        game.chance_outcomes(state) if player == CHANCE else chances(player, state)
    )
    return sum(
        p * value_of(game, game.apply(state, action), chances, seat)
        for action, p in outcomes
        if p
    )


def best_by_plans(game, chances, seat):
    """The largest expected return of a seat over all pure plans, card by card."""
    plans = {}  # information states of the seat, by its card

    def visit(state):
        player = game.current_player(state)
        if player == TERMINAL:
            return
        actions = (
            [a for a, _ in game.chance_outcomes(state)]
            if player == CHANCE
            else game.legal_actions(state)
        )
        if player == seat:
            known = game.information_state(state, seat)
            plans.setdefault(known[1], set()).add(known)
        for action in actions:
            visit(game.apply(state, action))

    visit(game.initial_state())
    chosen = {}
    for known in plans.values():
        order = sorted(known)
        found = {}
        for plan in product((0, 1), repeat=len(order)):
            tried = {**chosen, **dict(zip(order, plan, strict=True))}

            def mixed(player, state, tried=tried):
                if player != seat:
                    return chances(player, state)
                own = tried.get(game.information_state(state, seat), 0)
                return [(action, float(action == own)) for action in (0, 1)]

            found[plan] = value_of(game, game.initial_state(), mixed, seat)
        best = max(found, key=found.__getitem__)
        chosen |= dict(zip(order, best, strict=True))
    return max(found.values())


def uniform(player, state):
    return [(0, 0.5), (1, 0.5)]


@pytest.mark.parametrize(("num_players", "seat"), [(2, 0), (2, 1), (3, 2)])
def test_a_score_is_100_at_a_best_response_by_brute_force(num_players, seat):
    game = KuhnPoker(num_players=num_players)
    low = value_of(game, game.initial_state(), uniform, seat)
    high = best_by_plans(game, uniform, seat)
    (row,) = evaluate("constant:0", game, seats=[seat], baselines=False).rows
    assert row.scale == pytest.approx((low, high), abs=1e-12)
    ends = [100 * (x - low) / (high - low) for x in (row.low, row.high)]
    assert row.score == pytest.approx(100 * (row.mean_return - low) / (high - low))
    assert row.score_interval == pytest.approx(ends)


def test_a_policy_that_loses_scores_below_0_and_one_that_wins_above():
    env = arena_envs.make("kuhn_poker", num_players=3)
    for name in ("constant:0", "constant:1"):
        for row in evaluate(name, env, num_episodes=300, baselines=False).rows:
            assert (row.score > 0) == (name == "constant:1"), row
            assert row.score <= 100 or row.score_interval[0] < 100


def test_uniform_play_scores_0_and_the_solver_of_a_game_of_one_seat_100():
    """The page of Frozen Lake: 0.74419 and 0.0139398."""
    found = evaluate("random", FrozenLake("4x4"), num_episodes=40)
    rows = {row.role: row for row in found.rows}
    assert rows["solver"].scale == pytest.approx((0.0139398, 0.74419), abs=1e-5)
    assert rows["uniform"].score == pytest.approx(0, abs=1e-9)
    assert rows["uniform"].score == rows["policy"].score  # both are random play
    assert rows["solver"].score == pytest.approx(100, abs=1e-9)


def test_defection_is_the_best_response_in_a_mixed_game():
    found = evaluate("always_defect", "prisoners_dilemma", num_episodes=50)
    assert found.rows[0].scale == (4, 5.5)  # (10 + 1) / 2 against (10 + 5 + 1 + 0) / 4


@pytest.mark.parametrize(
    ("game", "opponent", "reason"),
    [
        ("kuhn_poker", "self", "in self-play the opponent is the policy itself"),
        ("matching_pennies", "random", "uniform random play is a best response"),
        ("tic_tac_toe", "mcts:1", "the action probabilities of mcts:1 are unknown"),
        ("connect_four", "random", "the game has more than 30,000 states"),
        ("persuasion", "random", "a language game cannot be enumerated"),
        (
            arena_envs.make("kuhn_poker", max_turns=2),
            "random",
            "max_turns=2 truncates the game",
        ),
    ],
)
def test_a_row_without_a_score_says_why(game, opponent: str, reason: str):
    found = evaluate("random", game, [opponent], 2, baselines=False)
    assert {(row.score, row.no_score) for row in found.rows} == {(None, reason)}


def test_solvers_fit_their_games():
    assert {
        id: solver_of(arena_envs.make_game(id))
        for id in (
            "kuhn_poker",
            "tic_tac_toe",
            "connect_four",
            "mini_hanabi",
            "rock_paper_scissors",
            "bargaining",
            "hex",
            "goofspiel",
            "frozen_lake",
            "wordle",
            "sokoban",
        )
    } == {
        "kuhn_poker": "cfr",
        "tic_tac_toe": "minimax",
        "connect_four": "mcts:100",
        "mini_hanabi": "hanabi_convention",
        "rock_paper_scissors": "cfr",
        "bargaining": None,
        "hex": "mcts:10",
        "goofspiel": "ismcts:100",
        "frozen_lake": "mcts:100",
        "wordle": "information_gain",
        "sokoban": "sokoban_search",
    }
    assert reference_kind("sokoban_search") == "solver"
    own_level = arena_envs.make_game("sokoban", level=("#####", "#@$.#", "#####"))
    assert solver_of(own_level) == "minimax"
    endless = arena_envs.make_game("iterated_prisoners_dilemma", num_rounds=100)
    assert solver_of(endless) is None
    assert constants_of(KUHN) == ["constant:0", "constant:1"]
    assert len(constants_of(arena_envs.make_game("hanabi"))) == 20
    assert constants_of(arena_envs.make_game("breakthrough")) == []


def test_a_language_game_has_the_baselines_of_its_core():
    given = {"num_rounds": 1, "num_offers": 3, "discounts": ((1.0,), (1.0,))}
    game = arena_envs.make_game("bargaining", **given)
    advice = arena_envs.make_game("persuasion", num_rounds=2)
    assert solver_of(game) == solver_of(advice) == "core_cfr"
    texts = ("offer 0", "offer 50", "offer 100", "accept", "reject")
    assert set(constants_of(game)) == {f"constant:{text}" for text in texts}
    assert len(constants_of(arena_envs.make_game("bargaining"))) == 11 + 2
    assert constants_of(arena_envs.make_game("negotiation")) == []  # 24 texts
    found = evaluate("random", game, ["random"], 20)
    rows = {row.role: row for row in found.rows if row.seat == "all"}
    assert rows["solver"].policy == "core_cfr"
    assert rows["solver"].mean_return > rows["uniform"].mean_return
    assert rows["constant"].policy in {f"constant:{text}" for text in texts}
    assert reference_kind(rows["solver"].policy) == "solver of the core"


class Mumbling:
    """Passes; every third reply is invalid."""

    name = "mumbling"

    def act(self, requests):
        return [
            Reply("", instead="refusal")
            if r.seed % 3 == 0
            else Reply("well...")
            if r.seed % 3 == 1
            else Reply(r.wrap("pass"))
            for r in requests
        ]


@pytest.mark.filterwarnings("ignore:.* are invalid:UserWarning")
def test_an_own_forfeit_is_a_loss_and_its_reason_is_counted(tmp_path: Path):
    out = tmp_path / "log.jsonl"
    found = evaluate(
        Mumbling(), KUHN, [passer()], 60, seats=[0], baselines=False, out=out
    )
    (row,) = found.rows
    turns = [t for e in EpisodeLog(out) for t in e.turns if t.seat == 0]
    counts = {
        reason: sum(turn.invalid == reason for turn in turns)
        for reason in ("refusal", "illegal")
    }
    assert min(counts.values()) > 5
    assert row.invalid == {r: n / len(turns) for r, n in counts.items()}
    forfeits = [e for e in EpisodeLog(out) if e.forfeited_by == 0]
    assert len(forfeits) == sum(counts.values())
    showdowns = [e for e in EpisodeLog(out) if e.forfeited_by is None]
    lost = len(forfeits) + sum(e.actions[0] < e.actions[1] for e in showdowns)
    assert row.losses == lost / 60
    assert row.wins == (60 - lost) / 60


class Crashing(RandomPolicy):
    name = "crashing"

    def act(self, requests):
        raise RuntimeError("out of memory")


class Stalling(RandomPolicy):
    """Never answers if the seed of its turn is even."""

    name = "stalling"

    def act(self, requests):
        if any(request.seed % 2 == 0 for request in requests):
            threading.Event().wait(1.5)
        return super().act(requests)


def test_an_opponent_that_never_replies_leaves_nothing_to_measure():
    with pytest.raises(
        NoReplyError, match=r"all 4 episodes .* RuntimeError: out of mem"
    ):
        evaluate(bettor(), KUHN, [Crashing()], 4, baselines=False, on_error="lose")
    with pytest.raises(RuntimeError, match="out of mem"):
        evaluate(bettor(), KUHN, [Crashing()], 4, baselines=False)


def test_timeouts_are_lost_and_counted_and_warned_of(tmp_path: Path):
    out = tmp_path / "log.jsonl"
    options = {"seats": [1], "baselines": False, "timeout": 0.2, "out": out}
    with pytest.warns(
        UserWarning, match=r"'stalling' .* lost \(timeouts \d\), which is"
    ):
        found = evaluate(bettor(), KUHN, [Stalling()], 6, **options)
    lost = [e for e in EpisodeLog(out) if e.lost]
    assert 0 < len(lost) < 6
    assert {e.turns[-1].detail for e in lost} == {"TimeoutError: no reply within 0.2 s"}
    assert found.rows[0].num_episodes == 6 - len(lost)
    assert found.rows[0].num_lost == len(lost)


class Unsteady:
    """Always passes; while it is ill, gives no reply to some requests, by their seed."""

    name, is_ill, asked = "unsteady", True, 0

    def act(self, requests):
        self.asked += len(requests)
        return [
            Reply("", error="no connection")
            if self.is_ill and request.seed % 10 == 0
            else Reply(request.wrap("pass"))
            for request in requests
        ]


@pytest.mark.filterwarnings("ignore:.* are lost:UserWarning")
def test_lost_episodes_count_nowhere_and_the_same_call_plays_them_again(tmp_path: Path):
    policy, out = Unsteady(), tmp_path / "log.jsonl"
    found = evaluate(policy, KUHN, ["random"], 60, baselines=False, out=out)
    kept = [e for e in EpisodeLog(out) if e.lost is None]
    rows = {row.seat: row for row in found.rows}
    assert 5 < rows["all"].num_lost == 120 - len(kept)
    own = [e for e in kept if e.turns[0].policy == "unsteady"]  # in seat 0
    assert rows[0].mean_return == sum(e.returns[0] for e in own) / len(own)
    assert rows[0].invalid == {}
    whole = rows["all"].num_episodes
    assert whole < len(kept)
    assert f"has only the {whole} episodes of seeds that are complete" in caption(found)
    policy.is_ill, policy.asked = False, 0
    again = evaluate(policy, KUHN, ["random"], 60, baselines=False, out=out)
    assert policy.asked < 2 * rows["all"].num_lost
    assert again == evaluate(policy, KUHN, ["random"], 60, baselines=False)
    num_lines = len(list(EpisodeLog(out)))
    assert num_lines == 120 + rows["all"].num_lost
    evaluate(policy, KUHN, ["random"], 60, baselines=False, out=out)  # a new one
    assert len(list(EpisodeLog(out))) == num_lines + 120


@pytest.mark.filterwarnings("ignore:.* are lost:UserWarning")
def test_only_lost_episodes_are_played_again_against_several_opponents(tmp_path: Path):
    """An episode that was lost in its first turn names the opponent nowhere."""
    policy, out = Unsteady(), tmp_path / "log.jsonl"
    opponents = ["random", "constant:1"]
    evaluate(policy, KUHN, opponents, 40, baselines=False, out=out)
    num_lost = sum(episode.lost is not None for episode in EpisodeLog(out))
    assert num_lost > 5
    policy.is_ill = False
    evaluate(policy, KUHN, opponents, 40, baselines=False, out=out)
    assert len(list(EpisodeLog(out))) == 160 + num_lost


@pytest.mark.parametrize("chunk", [1, 7])
@pytest.mark.filterwarnings("ignore:.* are invalid:UserWarning")
def test_numbers_do_not_depend_on_the_batch(monkeypatch, chunk: int):
    def run():
        return evaluate("random", "kuhn_poker", ["cfr:10", Mumbling()], 20, seed=3)

    whole = run()
    monkeypatch.setattr(matches, "CHUNK", chunk)
    assert run() == whole


def test_three_players_and_an_environment_with_a_limit():
    env = GameEnv(KuhnPoker(num_players=3), max_turns=1)
    found = evaluate("first", env, ["first"], 10, baselines=False)
    assert (found.game, found.params) == ("KuhnPoker", {"num_players": 3})
    assert [row.seat for row in found.rows] == [0, 1, 2, "all"]
    assert rows_by_seat(found)["all"].num_episodes == 30
    assert {row.mean_return for row in found.rows} == {0}
    assert {row.draws for row in found.rows} == {1}


@dataclass(frozen=True)
class TwoTeams(KuhnPoker):
    """Kuhn poker for three; seats 0 and 2 are a team."""

    teams: ClassVar = (0, 1, 0)


@pytest.mark.parametrize(
    ("game", "returns", "forfeited_by", "results"),
    [
        (KuhnPoker(3), (2, -1, -1), None, ("win", "loss", "loss")),
        (KuhnPoker(3), (1, 1, -2), None, ("draw", "draw", "loss")),
        (KuhnPoker(3), (0, 0, 0), 1, ("draw", "loss", "draw")),
        (KuhnPoker(3), (0, 0, -2), 2, ("draw", "draw", "loss")),
        (TwoTeams(3), (2, -1, -1), None, ("win", "loss", "draw")),
        (TwoTeams(3), (1, 1, -2), None, ("draw", "draw", "loss")),
    ],
)
def test_a_win_is_over_every_other_team(game, returns, forfeited_by, results):
    (episode,) = play(lambda: GameEnv(game), RandomPolicy(), [0])
    episode = replace(episode, returns=returns, forfeited_by=forfeited_by)
    assert tuple(win_draw_loss(game, seat, episode) for seat in range(3)) == results


class Refusing(RandomPolicy):
    """Fails the test if it is asked for a reply."""

    def act(self, requests):
        raise AssertionError("something was played")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rndom", "kuhn_poker"), "no policy 'rndom'; did you mean 'random'"),
        ((Refusing(), "kuhn_pokr"), "unknown game 'kuhn_pokr'; did you mean"),
        ((Refusing(), "kuhn_poker", ["cfr:x"]), "want an integer after 'cfr:'"),
        ((Refusing(), "kuhn_poker", ["constant:2"]), "has actions 0 to 1, got 2"),
        ((Refusing(), "kuhn_poker", ["minimax"]), "perfect information"),
        ((Refusing(), "kuhn_poker", ["mcts"]), 'use the bot "ismcts"'),
        ((Refusing(), "kuhn_poker", []), "want at least one opponent"),
        (
            (Refusing(), "kuhn_poker", ["random"], 0),
            "num_episodes of at least 1, got 0",
        ),
        (
            (Refusing(), "kuhn_poker", ["random"], 1, [2]),
            "want seats from 0 to 1, got 2",
        ),
        ((Refusing(), "kuhn_poker", ["random"], 1, []), "got none"),
    ],
)
def test_mistakes_are_refused_before_anything_is_played(arguments, message: str):
    with pytest.raises(ValueError, match=message):
        evaluate(*arguments)


def test_a_game_too_large_for_a_solver_is_refused_with_its_limit():
    opponent = BotPolicy(CFRBot(num_iterations=10, max_states=500), name="cfr")
    with pytest.raises(ValueError, match="more than 500 states") as info:
        evaluate(Refusing(), "leduc_poker", [opponent], num_episodes=1)
    assert "max_states=500" in str(info.value)
    assert 'the bot "ismcts"' in str(info.value)


def test_scipy_is_missed_before_anything_is_played(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[eval\]'"):
        evaluate(Refusing(), "kuhn_poker")


@pytest.mark.filterwarnings("ignore:.* are invalid:UserWarning")
def test_an_evaluation_is_json():
    found = evaluate(Mumbling(), "kuhn_poker", ["self", "random"], 5)
    read = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert read == {
        **found.to_dict(),
        "rows": list(read["rows"]),
        "warnings": list(found.warnings),
        "partners": [],
        "differences": [],
        "stops": [],
    }
    assert read["rows"][0]["opponent"] == "self"


SLOW = """
import sys, time
from arena_eval import evaluate
from arena_wrappers import RandomPolicy

class Slow(RandomPolicy):
    def act(self, requests):
        time.sleep(0.05)
        return super().act(requests)

evaluate(Slow(), "kuhn_poker", num_episodes=10_000, baselines=False, out=sys.argv[1])
"""


@pytest.mark.slow
def test_a_killed_run_leaves_readable_episodes(tmp_path: Path):
    out = tmp_path / "log.jsonl"
    process = subprocess.Popen([sys.executable, "-c", SLOW, str(out)])
    while not out.exists() or out.stat().st_size < 100_000:
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    episodes = list(EpisodeLog(out))
    assert len(episodes) > 20
    for episode in episodes[:20]:
        (again,) = play(
            lambda: arena_envs.make("kuhn_poker"), RandomPolicy(), [episode.seed]
        )
        assert again.returns == episode.returns


def test_intervals_cover_the_mean_as_often_as_they_say():
    rng = np.random.default_rng(0)
    values, chances = np.array([-2.0, -1.0, 1.0, 2.0]), [0.2, 0.3, 0.3, 0.2]
    num_runs, num_hits = 300, 0
    for _ in range(num_runs):
        low, high = mean_interval(rng.choice(values, 50, p=chances), -2, 2)
        num_hits += low <= 0 <= high
    assert 0.91 <= num_hits / num_runs <= 0.98


RETURNS = {  # values and their probabilities; the first and the last are the bounds
    "kuhn_poker": ([-2, -1, 1, 2], [0.1, 0.4, 0.35, 0.15]),
    "a game that is mostly won": ([-1, 1], [0.05, 0.95]),
    "tic_tac_toe": ([-1, 0, 1], [0.3, 0.1, 0.6]),
    "mostly draws": ([-1, 0, 1], [0.05, 0.9, 0.05]),
    "mini_hanabi": ([0, 2, 3, 4], [0.1, 0.3, 0.4, 0.2]),
    "leduc_poker": (
        [-13, -5, -3, -1, 1, 3, 5, 13],
        [0.02, 0.13, 0.1, 0.3, 0.25, 0.1, 0.08, 0.02],
    ),
}


def coverage(name: str, size: int, num_runs: int) -> float:
    """Share of intervals of `size` values that hold the mean."""
    rng = np.random.default_rng(0)
    values, chances = map(np.array, RETURNS[name])
    mean, num_hits = values @ chances, 0
    for _ in range(num_runs):
        sample = rng.choice(values.astype(float), size, p=chances)
        low, high = mean_interval(sample, values[0], values[-1])
        num_hits += low - 1e-12 <= mean <= high + 1e-12
    return num_hits / num_runs


@pytest.mark.parametrize("name", RETURNS)
def test_intervals_of_20_episodes_cover_95_percent(name: str):
    """The standard error of 250 runs is 1.4 %; the bootstrap had 83 to 95 %."""
    assert coverage(name, 20, 250) >= 0.95 - 0.014


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 5, 10, 30, 49])
@pytest.mark.parametrize("name", RETURNS)
def test_intervals_of_few_episodes_cover_95_percent(name: str, size: int):
    assert coverage(name, size, 2500) >= 0.95 - 2 * 0.0044


def test_intervals_of_wins_and_losses_are_clopper_and_pearsons():
    """Two losses in 20 games: 0.0123 to 0.3170."""
    low, high = mean_interval([1.0] * 2 + [0.0] * 18, 0, 1)
    assert (low, high) == pytest.approx((0.0123, 0.3170), abs=0.01)


def test_intervals_of_few_values_without_bounds_are_students():
    """Mean 2, standard error 1/sqrt(3), quantile 4.303 of two degrees of freedom."""
    low, high = mean_interval([1.0, 2.0, 3.0])
    assert (low, high) == pytest.approx((2 - 2.484, 2 + 2.484), abs=1e-3)


def test_intervals_of_few_values_are_finite_and_hold_the_mean():
    rng = np.random.default_rng(1)
    for size in (1, 2, 3, 5, 30):
        for _ in range(10):
            sample = rng.choice([-1.0, 0.0, 1.0], size, p=[0.05, 0.9, 0.05])
            low, high = mean_interval(sample, -1, 1)
            assert -1 <= low <= sample.mean() <= high <= 1


def test_cooperative_talk_compares_the_policy_with_itself_and_with_a_stranger():
    opponents = matches.opponents_of(arena_envs.make_game("collaborative_maze"))
    assert opponents == ["self", "maze_walker:honest"]
    found = evaluate(
        "maze_walker:silent", "collaborative_maze", opponents, 8, baselines=False
    )
    (one,) = found.partners
    own, mixed = (
        row.mean_return
        for row in found.rows
        if row.role == "policy" and row.seat == "all"
    )
    assert (one.value, one.base_value, one.num_seeds) == (own, mixed, 8)
    assert one.difference == pytest.approx(own - mixed)
    assert one.low <= one.difference <= one.high
    assert "with the stranger maze_walker:honest" in caption(found)
    assert found.to_dict()["partners"][0]["opponent"] == "maze_walker:honest"


def test_an_evaluation_says_which_split_it_used():
    found = evaluate("random", "wordle", num_episodes=2, baselines=False)
    assert "Split: train; -p split=test draws other instances" in caption(found)
    assert found.to_dict()["params"]["split"] == "train"


def test_a_scorer_that_cannot_solve_the_game_is_refused_before_play(monkeypatch):
    monkeypatch.setitem(SolverValues.__call__.__globals__, "MAX_SOLVED", 50)
    policy = "noisy:0.1(agent:verify(random, scorer=solver))"
    with pytest.raises(TooLarge, match="LeducPoker"):
        evaluate(policy, "leduc_poker", num_episodes=2)
    with pytest.raises(ValueError, match=r"list of actions .* got Bargaining"):
        evaluate(policy, "bargaining", num_episodes=2)
