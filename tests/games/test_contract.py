"""What every registered game promises, by its id; no game is named here.

The checks are the package's own, `arena_envs.testing`, which is tested on broken games in
`tests/testing`.
"""

from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import arena_envs
from arena_envs import registration, testing
from arena_envs.testing import Sample, check_page, draw_sample
from arena_envs.testing.rules import (
    check_facts,
    check_knobs,
    check_protocol,
    check_splits_apart,
)
from arena_envs.testing.texts import check_refusal

OWN = {id: entry for id, entry in registration._entries.items() if not entry.plugin}


@cache
def sample(id: str) -> Sample:
    """A small part of what `arena check` looks at."""
    return draw_sample(arena_envs.make_game(id), 2, seed=0, max_states=40)


@pytest.mark.parametrize("id", OWN)
def test_a_game_keeps_the_contract(id: str) -> None:
    for check in testing.CHECKS:  # a failure names the rule that it checks
        check(sample(id))


@pytest.mark.parametrize("id", OWN)
def test_a_game_declares_its_facts_and_has_a_page_and_a_test(id: str) -> None:
    game = arena_envs.make_game(id)
    check_protocol(game)
    check_facts(game)
    check_knobs(game)
    check_splits_apart(game)
    check_page(game)
    stem = OWN[id].entry_point.partition(":")[0].rpartition(".")[2]
    assert Path(__file__).with_name(f"test_{stem}.py").exists()


@pytest.mark.parametrize("id", OWN)
@settings(max_examples=15)
@example("9" * 5_000)
@example("\0\ud800\N{ZERO WIDTH SPACE}")
@given(text=st.text())
def test_no_text_raises_anything_but_illegal_action(id: str, text: str) -> None:
    game = arena_envs.make_game(id)
    for state in [state for state, _ in sample(id).episodes[0]][:20]:
        check_refusal(game, state, text)


@pytest.mark.parametrize("id", OWN)
def test_an_unknown_parameter_is_refused_by_name(id: str) -> None:
    with pytest.raises(ValueError, match="no parameter 'num_unicorns'"):
        arena_envs.make_game(id, num_unicorns=1)


@pytest.mark.parametrize("id", OWN)
def test_what_games_lists_is_what_the_game_declares(id: str) -> None:
    (info,) = (info for info in arena_envs.game_infos() if info.id == id)
    game = arena_envs.make_game(id)
    assert (info.kind, info.num_players) == (game.kind, game.num_players)
    assert (info.information, info.split) == (game.information, OWN[id].split)
