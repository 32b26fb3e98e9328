"""Games to and from OpenSpiel: the same values, their tests pass, refusals give reasons."""

import json
import pickle
import random
import runpy
from pathlib import Path

import pytest

import arena_envs
from arena_envs.solvers import nash_conv, uniform_table
from arena_envs.testing import check_game

pyspiel = pytest.importorskip("pyspiel", reason="pyspiel is missing: make adapters")

from arena_wrappers.adapters import UnsupportedGame, openspiel
from arena_wrappers.adapters.openspiel import (
    OpenSpielGame,
    from_openspiel,
    to_openspiel,
)

HERE = Path(__file__)
REPRESENTATIVE = runpy.run_path(str(HERE.parents[2] / "representative.py"))
GAMES = [
    g for name, g in REPRESENTATIVE["REPRESENTATIVE"].items() if name != "language"
]


@pytest.mark.parametrize(("id", "params"), GAMES)
def test_openspiels_own_test_passes(id, params) -> None:
    game = to_openspiel(id, **params)
    pyspiel.random_sim_test(game, num_sims=2, serialize=True, verbose=False)


@pytest.mark.parametrize(("id", "params"), GAMES)
def test_openspiels_environment_plays_it(id, params) -> None:
    from open_spiel.python.rl_environment import Environment

    env = Environment(to_openspiel(id, **params), seed=0)
    rules = arena_envs.make_game(id, **params)
    step = env.reset()
    assert (
        len(step.observations["info_state"][0])
        == rules.features(rules.initial_state(), 0).size
    )
    while not step.last():
        legal = step.observations["legal_actions"][step.current_player()]
        step = env.step([legal[0]])
    assert len(step.rewards) == rules.num_players


@pytest.mark.parametrize("id", ["kuhn_poker", "tiny_hanabi"])
def test_nash_conv_is_equal_both_ways(id: str) -> None:
    from open_spiel.python import policy
    from open_spiel.python.algorithms import exploitability

    ours, out, back = arena_envs.make_game(id), to_openspiel(id), from_openspiel(id)
    theirs = pyspiel.load_game(id)
    wanted = nash_conv(ours, uniform_table(ours))
    for game in (out, theirs):
        found = exploitability.nash_conv(game, policy.UniformRandomPolicy(game))
        assert found == pytest.approx(wanted)
    assert nash_conv(back, uniform_table(back)) == pytest.approx(wanted)


def test_a_game_and_its_parameters_are_registered_once() -> None:
    one, two = to_openspiel("kuhn_poker"), to_openspiel("kuhn_poker", num_players=3)
    assert (one.num_players(), two.num_players()) == (2, 3)
    assert str(to_openspiel(arena_envs.make_game("kuhn_poker"))) == str(one)


def test_games_that_differ_in_a_sign_are_different_games() -> None:
    payoffs = ((1, 1), (0, 0)), ((0, 0), (1, 1))
    negative = ((-1, -1), (0, 0)), ((0, 0), (-1, -1))
    one = to_openspiel("matrix_game", payoffs=payoffs)
    two = to_openspiel("matrix_game", payoffs=negative)
    assert (one.max_utility(), two.max_utility()) == (1, 0)
    assert str(to_openspiel("matrix_game", payoffs=negative)) == str(two)


def test_a_language_game_has_no_numbers() -> None:
    with pytest.raises(ValueError, match="numbered actions, got the language game"):
        to_openspiel("bargaining")


@pytest.mark.parametrize(
    "name", ["kuhn_poker(players=3)", "goofspiel(num_cards=3)", "hex(board_size=3)"]
)
def test_their_games_keep_our_contract(name: str) -> None:
    check_game(from_openspiel(name), num_episodes=5, needs_page=False)


def test_games_written_in_python_are_found_by_name() -> None:
    game = OpenSpielGame("python_iterated_prisoners_dilemma")
    first = game.initial_state()
    assert [game.action_text(first, n) for n in range(2)] == ["COOPERATE", "DEFECT"]


def test_a_search_without_a_result_does_not_return_the_hidden_state(
    monkeypatch,
) -> None:
    monkeypatch.setattr(openspiel, "MAX_VISITED", 2)
    game = from_openspiel("kuhn_poker")
    with pytest.raises(UnsupportedGame, match="use a policy without search"):
        game.resample((0, 1), 0, random.Random(0))


def test_a_long_game_can_be_loaded_again() -> None:
    game = from_openspiel("hex(board_size=3)")
    state: tuple[int, ...] = ()
    while legal := game.legal_actions(state):
        state = game.apply(state, legal[0])
    returns = game.returns(state)
    openspiel.spiel_state.cache_clear()
    assert game.returns(pickle.loads(pickle.dumps(state))) == returns


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_such_game", "OpenSpiel cannot load 'no_such_game'"),
        ("mfg_crowd_modelling", "its dynamics are MEAN_FIELD, not SEQUENTIAL"),
    ],
)
def test_what_cannot_be_played_is_refused_with_the_reason(name, reason) -> None:
    with pytest.raises(UnsupportedGame, match=reason):
        from_openspiel(name)


def test_a_game_that_failed_the_kit_is_refused_unless_asked_for(
    tmp_path, monkeypatch
) -> None:
    listed = tmp_path / "refused.json"
    listed.write_text('{"kuhn_poker": "its texts are wrong"}')
    monkeypatch.setattr(openspiel, "REFUSED", listed)
    with pytest.raises(
        UnsupportedGame, match=r"texts are wrong; OpenSpielGame\('kuhn_poker"
    ):
        from_openspiel("kuhn_poker(players=3)")
    assert OpenSpielGame("kuhn_poker").num_players == 2


def test_the_table_says_the_same_as_the_list() -> None:
    """Made by survey.py; at least 40 games pass."""
    page = (HERE.parents[3] / "docs" / "openspiel.md").read_text()
    assert page.count("| passes |") >= 40
    for name, reason in json.loads(openspiel.REFUSED.read_text()).items():
        assert f"| `{name}` | {reason} |" in page


def test_actions_with_the_same_words_get_their_numbers() -> None:
    game = from_openspiel("leduc_poker")
    state = game.initial_state()
    while game.current_player(state) == arena_envs.CHANCE:
        state = game.apply(state, game.chance_outcomes(state)[0][0])
    texts = [game.action_text(state, action) for action in game.legal_actions(state)]
    assert len(set(texts)) == len(texts)
    assert game.observe(state, 0).startswith("You are player_0.\n")


def test_the_example_runs(record_property) -> None:
    found, uniform, prompt = runpy.run_path(str(HERE.with_name("example.py")))["main"]()
    record_property("learned", f"NashConv {uniform:.3f} -> {found:.3f} by their CFR")
    assert found < 0.02
    assert uniform == pytest.approx(11 / 12)
    assert prompt.endswith("Legal actions: Pass, Bet.")


def test_the_prompt_of_a_game_of_a_file_tells_its_tree() -> None:
    game = from_openspiel(f"efg_game(filename={HERE.with_name('kuhn.efg')})")
    check_game(game, num_episodes=5, needs_page=False)
    rules = game.rules(0)
    assert "  Red with probability 1/2: player_0, set 1 Alice holds Red\n" in rules
    assert rules.count("player_1, set 2 Bob\n") == 2  # who cannot tell these apart
    assert rules.count("returns") == 6 + 1


def test_a_seat_of_a_game_of_a_file_does_not_read_the_place_of_another() -> None:
    game = from_openspiel(f"efg_game(filename={HERE.with_name('kuhn.efg')})")
    deals = [outcome for outcome, _ in game.chance_outcomes(game.initial_state())]
    red, black = (game.apply(game.initial_state(), deal) for deal in deals)
    assert (
        game.observe(red, 0) == "You are player_0.\nNow: Alice holds Red.\nYour turn."
    )
    assert game.observe(red, 1) == game.observe(black, 1)
    raised = game.apply(red, game.legal_actions(red)[0])
    assert "At Alice holds Red you chose Raise." in game.observe(raised, 0)


def test_a_small_game_tells_its_payoffs_and_a_large_one_no_tree() -> None:
    name = f"nfg_game(filename={HERE.with_name('prisoners.nfg')})"
    for small in (name, "matrix_pd"):
        assert "The whole game" in from_openspiel(small).rules(0)
    assert "The whole game" not in from_openspiel("tic_tac_toe").rules(0)


@pytest.mark.parametrize("name", ["efg_game", "nfg_game", "nfg_game(filename=no.nfg)"])
def test_a_game_of_a_file_without_one_is_refused(name) -> None:
    with pytest.raises(UnsupportedGame, match="name a file that exists"):
        from_openspiel(name)
