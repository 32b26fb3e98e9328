"""Distinct games, measures, known values of the actual parameters."""

import pytest
from rich.console import Console

import arena_envs
from arena_envs.solvers import TooLarge, refuse_hopeless
from arena_eval import evaluate
from arena_eval.tables import as_table
from arena_wrappers import PromptWrapper, ScriptedPolicy, play
from arena_wrappers.play import replay
from arena_wrappers.records import Episode


def shown(found):
    console = Console(width=120)
    with console.capture() as capture:
        console.print(as_table(found))
    return " ".join(capture.get().split())


def test_deterministic_play_is_warned_of_where_random_play_shows_more_games():
    with pytest.warns(UserWarning, match="2 distinct games in 60 episodes") as caught:
        found = evaluate("constant:4", "connect_four", ["first"], 30, baselines=False)
    (text,) = found.to_dict()["warnings"]
    assert str(caught[0].message) == text
    assert "--against 'noisy:0.2(first)'" in text
    assert found.rows[-1].num_distinct == 2


def test_kuhn_poker_has_few_games_and_is_not_warned_of():
    found = evaluate("cfr:20", "kuhn_poker", ["cfr:20"], 400, baselines=False)
    assert found.rows[-1].num_distinct < 0.1 * found.rows[-1].num_episodes
    assert found.warnings == ()


def test_no_warning_advises_noise_around_self():
    with pytest.warns(UserWarning, match=r"evaluate noisy:0.2\(first\)"):
        found = evaluate("first", "connect_four", ["self"], 30, baselines=False)
    assert "(self)" not in found.warnings[0]


def known_value(id, **params):
    return arena_envs.make_game(id, **params).known_value


def test_known_values_are_those_of_the_actual_parameters():
    assert known_value("rock_paper_scissors") is None
    assert known_value("hanabi") == "at most 25"
    assert known_value("mini_hanabi") == "at most 4"
    assert known_value("kuhn_poker").startswith("-1/18 for player_0")
    assert known_value("kuhn_poker", num_players=3) is None
    assert known_value("connect_four", rows=4, columns=4) == "a draw"
    assert "a draw" not in known_value("connect_four")
    assert known_value("hex") == "player_0 wins"
    assert known_value("hex", swap=True) == "player_1 wins"
    assert known_value("hex", num_rows=3) is None


def bargains(answer):
    """player_0 offers 40 of 100; the answers are given round by round."""
    env = arena_envs.make("bargaining", num_rounds=1, discounts=((1.0,), (1.0,)))
    (episode,) = play(
        lambda: PromptWrapper(env, reply_format="bare"),
        [ScriptedPolicy(["offer 40"]), ScriptedPolicy([answer])],
        [0],
    )
    return episode


def test_measures_of_bargaining_are_in_the_record_and_in_replays():
    """By hand: shares .6 and .4, so fairness is 1 - 4 * .1² = .96."""
    episode = bargains("accept")
    assert episode.measures == pytest.approx(
        {"agreement": 1, "efficiency": 1, "fairness": 0.96}
    )
    again = Episode.from_json(episode.to_json())
    assert again.measures == episode.measures
    assert replay(again).measures == episode.measures
    assert set(bargains("reject").measures.values()) == {0.0}


def test_measures_stand_in_rows_with_intervals_and_in_the_table():
    found = evaluate("random", "bargaining", ["random"], 30, baselines=False)
    mean, low, high, num = found.rows[-1].measures["efficiency"]
    assert num == 60
    assert 0 < low < mean < high <= 1
    assert "efficiency in seat all against random: 0." in shown(found)


def test_intervals_of_measures_take_the_seats_of_a_seed_as_one():
    """In `vote` random play against itself gives each seat the same episodes."""
    found = evaluate("random", "questions", ["random"], 10, baselines=False)
    one, *_, every = [row.measures["right"] for row in found.rows]
    assert (every.num, every[:3]) == (30, one[:3])


@pytest.mark.parametrize("id", ["chess", "connect_four", "hanabi", "breakthrough"])
def test_hopeless_games_are_refused_at_once_with_what_would_do(id):
    if id == "chess":
        pytest.importorskip("chess")
    with pytest.raises(
        TooLarge, match=r'from its first 5,000 states,.* the bot "(is)?mcts"'
    ):
        refuse_hopeless(arena_envs.make_game(id), 1_000_000)


def test_estimates_of_hopeless_games_are_rounded():
    with pytest.raises(
        TooLarge, match=r"has about [0-9],?[0-9](00,|0,)(000,?)+ states"
    ):
        refuse_hopeless(arena_envs.make_game("connect_four"), 1_000)


@pytest.mark.parametrize(
    ("id", "params"),
    [("connect_four", {"rows": 4, "columns": 4}), ("leduc_poker", {}), ("nim", {})],
)
def test_games_that_can_be_solved_are_not_taken_for_hopeless(id, params):
    refuse_hopeless(arena_envs.make_game(id, **params), 1_000_000)
