"""Games to and from TextArena: its loop plays ours, ours plays its games."""

import json
import random
import runpy
import warnings
from pathlib import Path

import pytest

import arena_envs

ta = pytest.importorskip("textarena", reason="textarena is missing: make adapters")
pytestmark = pytest.mark.filterwarnings("default")

from arena_envs import GameEnv
from arena_envs.game import IllegalAction
from arena_wrappers import PromptWrapper, play
from arena_wrappers.adapters import UnsupportedGame, textarena
from arena_wrappers.adapters.textarena import (
    TextArenaGame,
    from_textarena,
    to_textarena,
)

HERE = Path(__file__)
all_games = pytest.mark.parametrize("id", [i.id for i in arena_envs.game_infos()])
theirs = pytest.mark.parametrize(
    "name", ["TicTacToe-v0", "KuhnPoker-v0", "IteratedPrisonersDilemma-v0"]
)


@all_games
def test_textarena_plays_every_game(id: str) -> None:
    env, rng = ta.make(f"arena/{id}", max_turns=30), random.Random(0)
    session = env.env.session
    game = session.game
    env.reset(num_players=game.num_players, seed=0)
    done = False
    for _ in range(40):  # rounds of simultaneous choices end whole
        player, text = env.get_observation()
        assert player == game.current_player(session.state)
        assert text.startswith(game.rules(player))
        legal = session.info()["legal"]
        done, _ = env.step(f"[{rng.choice(legal)}]")
        if done:
            break
    assert done
    rewards, infos = env.close()
    assert list(rewards.values()) == pytest.approx(session.returns)
    assert infos[0]["reason"]


def test_an_invalid_reply_may_be_corrected_once() -> None:
    env = to_textarena("tic_tac_toe")
    env.reset(seed=0)
    before = env.session.state
    assert env.step("z9") == (False, {})
    player, messages = env.get_observation()
    assert player == 0
    assert "Reply again." in messages[-1][1]
    assert env.session.state == before
    assert env.step("[b2]") == (False, {})
    assert env.get_observation()[0] == 1
    env.step("[b2]")
    done, _ = env.step("[b2]")
    rewards, infos = env.close()
    assert done
    assert rewards == {0: 1.0, 1: -1.0}
    assert [infos[seat]["invalid_move"] for seat in (0, 1)] == [False, True]
    with pytest.raises(ValueError, match=r"call reset\(\)"):
        env.step("[b2]")


def test_three_players_go_on_after_a_default_action() -> None:
    env = to_textarena("kuhn_poker", num_players=3)
    env.reset(seed=0)
    for player in (0, 0, 1):
        assert env.get_observation()[0] == player
        done, _ = env.step("z9")
        assert not done
    assert env.session.turns[-1].action is None  # asked again
    assert env.session.turns[1].action == 0  # pass, the default
    while not done:
        done, _ = env.step("[pass]")
    rewards, infos = env.close()
    assert list(rewards.values()) == env.session.returns
    assert infos[0]["invalid_move"]


def test_train_ids_add_the_brackets_and_raw_ids_have_no_wrappers() -> None:
    train, raw = (ta.make(f"arena/tic_tac_toe-v0{end}") for end in ("-train", "-raw"))
    train.reset(num_players=2, seed=0)
    assert train.step("b2") == (False, {})
    assert train.get_observation()[0] == 1
    raw.reset(num_players=2, seed=0)
    assert isinstance(raw.get_observation()[1], list)


def test_a_seed_gives_the_deal_and_leaves_global_generators() -> None:
    state = random.getstate()
    texts = []
    for seed in (1, 1, *range(2, 9)):
        env = ta.make("arena/kuhn_poker-v0")
        env.reset(num_players=2, seed=seed)
        texts.append(env.get_observation()[1])
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3
    assert random.getstate() == state


def test_the_number_of_players_is_the_games() -> None:
    with pytest.raises(ValueError, match="want num_players=2, got 3"):
        to_textarena("kuhn_poker").reset(num_players=3)


@theirs
def test_their_games_keep_the_rules_of_the_survey(name: str) -> None:
    assert runpy.run_path(str(HERE.with_name("survey.py")))["check"](name) == "passes"


@theirs
def test_their_games_follow_from_the_seed_alone(name: str) -> None:
    state = random.getstate()
    game = from_textarena(name)
    one, two, other = (
        play(lambda: GameEnv(game), "random", [seed])[0] for seed in (3, 3, 4)
    )
    assert one.actions == two.actions != other.actions
    assert one.turns[-1].messages == two.turns[-1].messages
    assert random.getstate() == state


def test_their_invalid_move_is_a_forfeit_here() -> None:
    game = from_textarena("TicTacToe-v0")
    with pytest.raises(IllegalAction, match="want an action that the game takes"):
        game.parse((0,), "[9]")
    wrapper = PromptWrapper(GameEnv(game))
    wrapper.reset(seed=0)
    before = wrapper.env.game_state
    wrapper.step("<answer>9</answer>")
    assert wrapper.env.forfeited_by == 0
    assert wrapper.env.game_state == before


def test_actions_are_read_with_and_without_brackets() -> None:
    game = from_textarena("TicTacToe-v0")
    for text in ("4", "[4]", "[ 4]", " 4\n"):
        assert game.parse((0,), text) == "[4]"
    assert game.action_text((0,), "[4]") == "4"


def test_a_game_ends_at_the_limit_of_turns() -> None:
    game = from_textarena("IteratedPrisonersDilemma-v0", max_turns=3)
    (episode,) = play(lambda: GameEnv(game), "random", [0])
    assert len(episode.turns) == 3
    assert episode.returns == [0.0, 0.0]


@pytest.mark.parametrize(
    ("name", "params", "reason"),
    [
        ("NoSuchGame-v0", {}, "TextArena has no game 'NoSuchGame-v0'"),
        ("Chess-v0", {}, "TextArena cannot start 'Chess-v0' here: SyntaxError"),
        ("TicTacToe-v0", {"num_players": 3}, "players has to be 2, received 3"),
    ],
)
def test_what_does_not_start_is_refused_with_the_reason(name, params, reason) -> None:
    with pytest.raises(UnsupportedGame, match=reason):
        from_textarena(name, **params)


def test_a_family_that_broke_a_rule_is_refused_unless_asked_for(
    tmp_path, monkeypatch
) -> None:
    listed = tmp_path / "refused.json"
    listed.write_text('{"KuhnPoker": "its texts are wrong"}')
    monkeypatch.setattr(textarena, "REFUSED", listed)
    with pytest.raises(
        UnsupportedGame, match=r"texts are wrong; TextArenaGame\('KuhnPoker-v0-long"
    ):
        from_textarena("KuhnPoker-v0-long")
    assert TextArenaGame("KuhnPoker-v0-long").num_players == 2


def test_a_game_that_was_not_checked_gets_one_warning() -> None:
    with pytest.warns(UserWarning, match=r"'Chopsticks-v0' was not checked") as told:
        from_textarena("Chopsticks-v0")
    assert len(told) == 1
    assert told[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        from_textarena("TicTacToe-v0")


def test_the_table_says_the_same_as_the_list() -> None:
    """Made by survey.py."""
    page = (HERE.parents[3] / "docs" / "textarena.md").read_text()
    assert page.count("| passes") >= 20
    for family, reason in json.loads(textarena.REFUSED.read_text()).items():
        assert any(
            line.startswith(f"| `{family}-v") and line.endswith(f"| {reason} |")
            for line in page.splitlines()
        )


def test_the_example_runs(record_property) -> None:
    rewards, returns = runpy.run_path(str(HERE.with_name("example.py")))["main"]()
    page = (HERE.parents[3] / "docs" / "textarena.md").read_text()
    num_passing = page.count("| passes")
    record_property("learned", f"{num_passing} of their games pass the kit here")
    assert sum(rewards.values()) == 0
    assert sorted(returns) in ([-1.0, 1.0], [0.0, 0.0])
