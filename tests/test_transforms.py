"""Games around games."""

import itertools
import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import arena_envs
from arena_envs import IllegalAction, game_infos, make, make_game
from arena_envs.game import CHANCE, TERMINAL, random_states
from arena_envs.solvers import information_states, nash_conv, uniform_table
from arena_envs.testing import check_game, same_game
from arena_eval.exploit import tabular
from arena_eval.fitted_values import bot_values
from arena_wrappers import RandomPolicy, make_policy, play
from arena_wrappers.play import replay
from arena_wrappers.play.seat_env import make_seat_env
from arena_wrappers.records import Episode, write_episodes

GOAL = '''
def third_turn(game, state):
    """the first bet has been made; the one who bet gets 1, the other loses 1."""
    if 1 in state.bets:
        return (1.0, -1.0) if state.bets.index(1) % 2 == 0 else (-1.0, 1.0)
'''


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a function of a goal and episodes of Kuhn poker and of Nim."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_goal.py").write_text(GOAL)
    for game in ("kuhn_poker", "nim"):
        write_episodes(tmp_path / f"{game}.jsonl", play(game, "random", range(6)))
    return tmp_path


@pytest.mark.parametrize(
    "game",
    [
        *("disguise:7(kuhn_poker)", "disguise:1(tic_tac_toe)", "misere(nim)"),
        *("match:3(leduc_poker)", "match:2(matching_pennies)"),
        *("labels:1(kuhn_poker)", "labels:0(tic_tac_toe)"),
        *("vanish(tic_tac_toe)", "start:kuhn_poker.jsonl@0.5(kuhn_poker)"),
        *("start:nim.jsonl@0.9(nim)", "goal(kuhn_poker, at=my_goal:third_turn)"),
        "goal(start:kuhn_poker.jsonl@0(disguise:2(kuhn_poker)), at=my_goal:third_turn)",
    ],
)
def test_a_transform_keeps_the_contract_of_games(game: str, here: Path) -> None:
    check_game(game, num_episodes=1)


def test_each_action_has_each_letter_in_equally_many_draws() -> None:
    """So `choice_bias` of a policy that reads the names is 0, by enumeration of the draws."""
    game = make_game("labels:3(kuhn_poker)")
    for cards in itertools.permutations(range(3), 2):
        letters = []
        for draw, _ in game.chance_outcomes(game.initial_state()):
            state = game.apply(game.initial_state(), draw)
            for card in cards:
                state = game.apply(state, card)
            letters.append(game.action_text(state, 1))
            assert game.parse(state, letters[-1]) == game.parse(state, "bet") == 1
            assert f"{letters[-1]} is bet" in game.observe(state, 0)
            shown = [game.action_text(state, a) for a in game.shown_actions(state)]
            assert shown == ["A", "B"]
            assert "Letters" not in game.observe(state, 1)
        assert letters.count("A") == letters.count("B")


def plain(id: str) -> bool:
    game = make_game(id)
    return game.num_actions is not None and not hasattr(game, "is_spelled")


DISGUISED = [info.id for info in game_infos() if plain(info.id)]


@pytest.mark.parametrize(
    "game", ["kuhn_poker", "kuhn_poker(num_players=3)", "matching_pennies"]
)
def test_a_disguise_keeps_the_tree(game: str) -> None:
    inner, other = make_game(game), make_game(f"disguise:5({game})")
    assert same_game(inner, other) is None
    convs = [nash_conv(one, uniform_table(one)) for one in (inner, other)]
    assert abs(convs[0] - convs[1]) < 1e-12
    assert information_states(inner).keys() == information_states(other).keys()


def words_of(texts: Any) -> set[str]:
    """All words and symbols, without what stays in every disguise."""
    stays = r"player_\d+|'s\b|\b[Aa] (?=[a-z]{2})(?!to\b|and\b|or\b|on\b)|[^A-Za-z]"
    return {word for text in texts for word in re.sub(stays, " ", text).lower().split()}


@pytest.mark.parametrize("id", DISGUISED)
def test_no_name_of_the_game_shows_in_a_disguise(id: str) -> None:
    game, other = make_game(id), make_game(f"disguise:3({id})")
    actions, shown = set(), {other.rules(seat) for seat in range(game.num_players)}
    states = itertools.islice(random_states(game, random.Random(5)), 15)
    for state, player in states:
        shown |= {other.observe(state, seat) for seat in range(game.num_players)}
        if player >= 0:
            actions |= {game.action_text(state, a) for a in game.legal_actions(state)}
            shown |= {other.action_text(state, a) for a in game.legal_actions(state)}
    grammar = Path(arena_envs.__file__).with_name("words") / "plain.txt"
    kept = set(grammar.read_text().partition("\n")[0].split())
    names = words_of(actions) - kept
    names |= set(re.split("[_-]", id)[:-1]) - set(grammar.read_text().split())
    assert not names & words_of(shown)


def test_the_words_that_stay_are_no_names_of_cards_or_symbols() -> None:
    text = make_game("disguise:7(kuhn_poker)").rules(0)
    assert not {"Kuhn", "poker", "J", "Q", "K", "bet", "pass", "card", "pot"} & set(
        re.findall("[A-Za-z]+", text)
    )
    assert "from player_0 on, each player says" in text


def test_the_parser_of_a_disguise_reads_new_names_only() -> None:
    env = make("disguise:7(kuhn_poker)")
    env.reset(seed=0)
    state, texts = env.game_state, env.legal_texts()
    assert [env.game.parse(state, text.upper()) for text in texts] == [0, 1]
    for old in ("pass", "bet"):
        with pytest.raises(IllegalAction):
            env.game.parse(state, old)


def test_two_seeds_give_two_disguises_and_one_seed_one() -> None:
    texts = [make_game(f"disguise:{seed}(kuhn_poker)").rules(0) for seed in (1, 2, 1)]
    assert texts[0] == texts[2] != texts[1]


def test_misere_turns_normal_nim_into_misere_nim() -> None:
    other = make_game("misere(nim(pile_sizes=[1, 2, 3], is_misere=false))")
    assert same_game(make_game("nim", pile_sizes=(1, 2, 3)), other) is None


def test_misere_says_who_has_won() -> None:
    env = make("misere(nim)", pile_sizes=(1,))  # normal play
    env.reset(seed=0)
    env.step(0)
    assert env.returns == (1.0, -1.0)
    assert "your score is 1." in env.observe("player_0")["text"]
    assert "who would win by them loses" in env.game.rules(0)


def test_a_start_is_a_position_of_the_file(here: Path) -> None:
    game: Any = make_game("start:nim.jsonl@0.5(nim)")
    first = {game.apply("start", o) for o, _ in game.chance_outcomes("start")}
    expected = set()
    for line in Path("nim.jsonl").read_text().splitlines():
        actions, state = json.loads(line)["actions"], game.game.initial_state()
        for action in actions[: len(actions) // 2]:
            state = game.game.apply(state, action)
        expected.add(state)
    assert first == expected
    assert sum(p for _, p in game.chance_outcomes("start")) == pytest.approx(1)


def test_a_start_refuses_episodes_of_another_game(here: Path) -> None:
    with pytest.raises(ValueError, match=r"want episodes of KuhnPoker.* in nim\.jsonl"):
        make_game("start:nim.jsonl@0.5(kuhn_poker)")


def test_the_fourth_mark_removes_the_first() -> None:
    env = make("vanish(tic_tac_toe)")
    env.reset()
    for action in (0, 1, 2, 3, 4, 5, 7):  # X puts a1, c1, b2 and b3
        env.step(action)
    text = env.observe("player_1")["text"]
    assert "Marks, the oldest first: b1, c1, a3"[:33] in text
    assert 0 in env.legal_actions()
    assert text.count("X") == 3


def test_vanishing_marks_end_in_a_draw_after_the_last_turn() -> None:
    game = make_game("vanish(tic_tac_toe)")
    state = game.initial_state()
    while game.current_player(state) != TERMINAL:  # never three in a row
        after = [game.apply(state, action) for action in game.legal_actions(state)]
        state = next(s for s in after if not any(game.returns(s)))
    assert state.num_turns == 40
    assert list(game.returns(state)) == [0.0, 0.0]


def test_a_goal_ends_the_game_with_its_returns(here: Path) -> None:
    env = make("goal(kuhn_poker, at=my_goal:third_turn)")
    env.reset(seed=0)
    env.step(1)
    assert all(env.terminations.values())
    assert env.returns == (1.0, -1.0)
    assert "the first bet has been made" in env.game.rules(0)


def test_a_goal_keeps_to_the_bounds_of_the_game(here: Path) -> None:
    (here / "my_bad.py").write_text(
        "def far(game, state):\n    return (9.0, -9.0) if state.bets else None\n"
    )
    env = make("goal(kuhn_poker, at=my_bad:far)")
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"want None or a return of each seat from -2"):
        env.step(1)


def test_an_episode_of_a_transform_names_it_and_is_replayed() -> None:
    (episode,) = play("disguise:7(misere(nim(pile_sizes=[2, 3])))", RandomPolicy(), [4])
    assert episode.game == "disguise:7(misere(nim-v0))"
    assert episode.params["pile_sizes"] == [2, 3]
    again = Episode.from_json(episode.to_json())
    assert replay(again).returns == episode.returns


def test_a_transform_may_be_a_function_of_a_module(here: Path) -> None:
    (here / "shortened.py").write_text(
        "from dataclasses import dataclass\n"
        "from arena_envs.transforms import Transform\n\n"
        "@dataclass(frozen=True)\nclass Short(Transform):\n    most: int\n\n"
        "    @property\n    def max_turns(self):\n        return self.most\n"
    )
    env = make("shortened:Short(kuhn_poker, most=9)")
    assert env.game.max_turns == 9
    assert env.id == "shortened:Short(kuhn_poker-v0, most=9)"
    assert make_game(env.id) == env.game


@pytest.mark.parametrize(
    ("game", "told"),
    [
        ("disguse:1(nim)", "no transform 'disguse'; did you mean 'disguise'"),
        ("disguise(nim)", "want a transform as disguise:SEED"),
        ("disguise:1(wordle)", "want a game without talk"),
        ("misere(kuhn_poker)", "want a zero-sum game of two seats"),
        ("vanish(nim)", "want tic-tac-toe for vanish"),
        ("nim(kuhn_poker)", "without a game inside"),
        ("misere(nimm)", "did you mean 'nim-v0'"),
        ("misere(nim(x=1))", "no parameter 'x'"),
        ("start:none.jsonl@0.5(nim)", "want a file of episodes"),
        ("goal(nim, at=os:path)", "want a function of game and state"),
    ],
)
def test_a_wrong_transform_is_refused(game: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        make_game(game)


def test_the_first_node_of_a_start_is_chance(here: Path) -> None:
    game = make_game("start:kuhn_poker.jsonl@0.5(kuhn_poker)")
    assert game.current_player(game.initial_state()) == CHANCE


@pytest.mark.parametrize("spec", ["random", "first", "constant:1"])
def test_a_match_of_policies_without_memory_is_exploited_as_its_games_are(
    spec: str,
) -> None:
    game, match = make_game("kuhn_poker"), make_game("match:2(kuhn_poker)")
    policy = make_policy(spec)
    single, double = (
        nash_conv(rules, tabular(policy, rules)[0]) for rules in (game, match)
    )
    # in a match a seat is exploited in both places, by lot in one of them
    assert double == pytest.approx(2 * single, abs=1e-12)


def test_seats_change_places_between_the_games_of_a_match() -> None:
    env = make("match:2(kuhn_poker)")
    env.reset(seed=3)
    movers = []
    while not any(env.terminations.values()):
        movers.append(env.agent_selection)
        env.step(0)  # all pass: two turns a game
    assert movers == ["player_0", "player_1", "player_1", "player_0"]


def test_a_match_says_how_earlier_games_ended_and_sums_the_scores() -> None:
    match, inner = make_game("match:2(kuhn_poker)"), make_game("kuhn_poker")
    state = match.initial_state()
    for action in (0, 2, 0, 1, 0):  # J and K, pass, bet, fold: the second player wins 1
        state = match.apply(state, action)
    assert match.returns(state) == [-1.0, 1.0]
    text = match.observe(state, 0)
    assert "Scores: player_0 -1, player_1 1" in text
    assert inner.observe(state.ended[0], 0) in text
    assert "K" not in text  # the folder never saw it
    for action in (0, 2, 0, 1, 0):  # seat 0 is the second player now
        state = match.apply(state, action)
    assert match.returns(state) == [0.0, 0.0]
    assert match.current_player(state) == TERMINAL


def test_a_forfeit_loses_the_games_that_are_left_too() -> None:
    match = make_game("match:4(kuhn_poker)")
    state = match.initial_state()
    for action in (0, 2, 0, 1, 0, 0):
        state = match.apply(state, action)
    assert match.forfeit(state, 1) == [5.0, -5.0]  # -1 so far, and three times 2


def test_the_gain_of_later_games_compares_the_same_places() -> None:
    match = make_game("match:4(kuhn_poker)")
    state = match.initial_state()
    # seat 0 folds the first two games and wins the last two
    for deal in ((0, 2, 0, 1, 0), (2, 0, 1, 0), (2, 0, 1, 0), (0, 2, 0, 1, 0)):
        for action in deal:
            state = match.apply(state, action)
    assert match.returns(state) == [0.0, 0.0]
    assert match.measures(state)["later_gain_player_0"] == 2.0
    assert match.measures(state)["later_gain_player_1"] == -2.0


def test_bots_play_each_game_of_a_match_as_if_it_were_alone() -> None:
    (episode,) = play("match:30(kuhn_poker)", "cfr:10", [0])
    assert not any(turn.invalid for turn in episode.turns)


def test_bots_play_a_match_in_environments_of_one_seat_and_in_free_games(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the whole match is too large to be solved
    env = make_seat_env("match:4(kuhn_poker)", opponents="cfr:10")
    env.reset(seed=0)
    ended = False
    while not ended:
        _, _, terminated, truncated, _ = env.step(0)
        ended = terminated or truncated
    monkeypatch.setenv("ARENA_CACHE", str(tmp_path))
    match, opponent = make_game("match:4(kuhn_poker)"), make_policy("cfr:10")
    values = bot_values(match, 0, opponent, max_games=20)
    assert np.isfinite(values([match.initial_state()])).all()


def test_a_match_wants_a_game_without_talk_and_teams_that_stay_together() -> None:
    for game, text in (
        ("match:2(negotiation)", "without talk"),
        ("match:1(nim)", "num_games"),
    ):
        with pytest.raises(ValueError, match=text):
            make_game(game)
