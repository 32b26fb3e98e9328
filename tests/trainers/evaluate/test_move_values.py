"""Values and regrets of moves in replays."""

import pytest

import arena_envs
from arena_eval import move_values
from arena_eval.rollouts import Rollout
from arena_studio.report import Recorded, page_data
from arena_studio.report.episode_text import value_lines
from arena_studio.report.frames import frames_of
from arena_studio.report.stepper import Stepper
from arena_wrappers import PromptWrapper, ScriptedPolicy, play


def scripted(game, *replies, seeds=(0,), **options):
    policies = [ScriptedPolicy(list(each)) for each in replies]
    env = arena_envs.make(game)
    return play(lambda: PromptWrapper(env, "bare", **options), policies, seeds)


def solved(episode, solver=None):
    frames = frames_of(episode)
    return (solver or move_values.MoveSolver()).solve(
        frames.game, episode.turns, frames.states
    )


def by_action(moves):
    return dict(zip(moves.actions, moves.values, strict=True))


@pytest.fixture(scope="module")
def blunder():
    """X has a1 and b1, O has a3 and b3, and X plays a2 instead of c1."""
    return scripted("tic_tac_toe", ["a1", "b1", "a2"], ["a3", "b3", "c3"])[0]


def test_values_of_tic_tac_toe_are_those_found_by_hand(blunder):
    found = solved(blunder)
    assert "minimax" in found.reference
    assert found.fault is None
    # c1 wins; c3 blocks, forces O to c1, and wins at b2; after the others O wins at c3
    wanted = {"c1": 1, "c3": 1, "a2": -1, "b2": -1, "c2": -1}
    assert by_action(found.turns[4]) == wanted
    assert found.turns[4].actions[found.turns[4].played] == "a2"
    assert found.turns[4].regret == 2
    assert found.turns[4].is_large
    assert found.turns[0].regret == 0  # every first move draws
    assert set(found.turns[0].values) == {0}


def test_values_of_kuhn_poker_are_those_of_its_equilibria():
    solver, answers, calls = move_values.MoveSolver(), {}, {}
    for seed in (0, 1, 9):  # both seats get all three cards
        (episode,) = scripted("kuhn_poker", ["bet"], ["pass"], seeds=[seed])
        found = solved(episode, solver)
        card = frames_of(episode).states[1].cards[1]
        answers[card] = found.turns[1]
        (episode,) = scripted("kuhn_poker", ["pass", "pass"], ["bet"], seeds=[seed])
        calls[frames_of(episode).states[0].cards[0]] = solved(episode, solver).turns[2]
    assert "NashConv 0.0002" in found.reference
    assert by_action(answers[2]) == {"pass": -1, "bet": 2}  # a king wins what is bet
    assert answers[2].regret == 3
    assert by_action(answers[0]) == {"pass": -1, "bet": -2}  # a jack loses it
    assert answers[0].regret == 0
    # pass and bet of a jack are equal: their difference is below the NashConv
    (episode,) = scripted("kuhn_poker", ["bet"], ["pass"], seeds=[9])
    for moves in (*answers.values(), *solved(episode, solver).turns):
        shown = [*moves.values, moves.regret]
        assert all(value == 0 or abs(value) > 1e-4 for value in shown)
    # a third of the jacks bluff: a queen's call wins 2 with probability 1/4
    assert by_action(calls[1]) == pytest.approx({"pass": -1, "bet": -1}, abs=0.05)
    assert not calls[1].is_large


def test_a_cooperative_game_has_the_values_of_its_best_joint_policy():
    (episode,) = scripted("tiny_hanabi", ["play 1"], ["play 0"])
    found = solved(episode)
    assert "a best joint policy (return 10)" in found.reference
    assert max(found.turns[0].values) == 10
    assert found.turns[0].regret == 10 - found.turns[0].values[1]


@pytest.mark.parametrize(
    ("game", "fault"),
    [
        ("battleship", move_values.TOO_LARGE),
        ("bargaining", move_values.LANGUAGE),
        ("speaker_listener", "too many joint plans"),
    ],
)
def test_games_without_a_solver_say_why(game, fault):
    (episode,) = play(game, ["random"] * 2, [0])
    found = solved(episode)
    assert found.reference is None
    assert fault in found.fault
    assert found.turns == [None] * len(episode.turns)
    assert value_lines(found, 0) == [f"  values    none: {found.fault}"]


def test_a_search_ends_at_its_limit(blunder, monkeypatch):
    monkeypatch.setattr(move_values, "MAX_SOLVED_STATES", 1000)
    assert solved(blunder).fault == move_values.TOO_LARGE


def test_a_page_solves_a_limited_number_of_games(blunder, monkeypatch):
    monkeypatch.setattr(move_values, "MAX_GAMES", 1)
    solver = move_values.MoveSolver()
    assert solved(blunder, solver).fault is None
    (episode,) = play("matching_pennies", ["random"] * 2, [0])
    assert solved(episode, solver).fault == move_values.TOO_MANY
    assert solved(blunder, solver).fault is None


def test_an_action_that_was_drawn_has_no_regret():
    (episode,) = scripted("tic_tac_toe", ["?"] * 5, ["!"] * 4, on_invalid="random")
    for turn, moves in zip(episode.turns, solved(episode).turns, strict=True):
        assert moves.played == moves.actions.index(turn.legal[moves.played])
        assert moves.regret is None
        assert not moves.is_large


def test_pages_and_terminals_show_values(blunder):
    line = Recorded(1, Rollout(blunder, [None] * len(blunder.turns)))
    data = page_data([line])
    (shown,) = data["episodes"]
    moves = shown["turns"][4]["moves"]
    assert data["texts"][moves["actions"][0]] == "c1"
    assert moves["values"][0] == 1
    assert (moves["regret"], moves["large"]) == (2, True)
    stepper = Stepper([line])
    stepper.press("r")
    large = [n for n, t in enumerate(shown["turns"]) if t["moves"]["large"]]
    assert stepper.turn == large[0]
    for _ in large:
        stepper.press("r")
    assert stepper.turn == large[-1]
    stepper.turn = 4
    assert "values    c1 +1, c3 +1, *a2 -1, b2 -1, c2 -1" in stepper.screen()
    assert "regret    2" in stepper.screen()
    stepper.press("R")
    assert stepper.turn == max((n for n in large if n < 4), default=4)
    stepper.press("$")
    stepper.press("r")
    assert "no later turn has a large regret" in stepper.screen()
    stepper.press("p")
    assert "large regret\n" not in stepper.screen()


def test_the_view_of_a_seat_goes_to_its_own_regrets():
    (episode,) = scripted("kuhn_poker", ["bet"], ["pass"], seeds=[1])
    stepper = Stepper([Recorded(1, Rollout(episode, [None] * 2))])
    for viewer, place in (("all", 1), ("player_0", 0), ("player_1", 1)):
        stepper.press("0")
        stepper.press("r")
        assert f"seen by {viewer}" in stepper.screen()
        assert stepper.turn == place
        stepper.press("v")
