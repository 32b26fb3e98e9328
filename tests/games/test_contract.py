"""What the rules of every registered game promise, by its id; no game is named here.

Each promise is a function `check_...`, which `test_contract_checks.py` tests on games that
break it. What the environment of a game promises is in `test_contract_env.py`.
"""

import copy
import importlib
import math
import random
import re
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import arena_envs
from arena_envs import CHANCE, TERMINAL, IllegalAction, registration
from arena_envs.env import MAX_TEXT
from arena_envs.game import AnyGame, legal_actions_of

OWN = {id: entry for id, entry in registration._entries.items() if not entry.plugin}
ROWS = [
    "Create",
    "Agents",
    "Kind",
    "Actions",
    "Rewards",
    "Length",
    "Known value",
    "Source",
]
NUM_EPISODES = 40


def episode(game: AnyGame, rng: random.Random) -> Iterator[tuple[Any, Any]]:
    """States of a random episode with the action that follows, which is None at the end."""
    state = game.initial_state()
    while (player := game.current_player(state)) != TERMINAL:
        if player == CHANCE:
            outcomes, chances = zip(*game.chance_outcomes(state), strict=True)
            action = rng.choices(outcomes, chances)[0]
        else:
            action = rng.choice(game.legal_actions(state))
        yield state, action
        state = game.apply(state, action)
    yield state, None


def states(game: AnyGame, num_episodes: int = NUM_EPISODES) -> Iterator[Any]:
    """States of random episodes."""
    rng = random.Random(0)
    for _ in range(num_episodes):
        yield from (state for state, _ in episode(game, rng))


def view(game: AnyGame, state: Any, seat: int) -> tuple[Hashable, ...]:
    """All that an environment shows to a seat: text, features and what it may choose."""
    legal = tuple(legal_actions_of(game, state, seat))
    return (game.observe(state, seat), game.features(state, seat).tobytes(), legal)


def check_facts(game: AnyGame) -> None:
    """The declared facts make sense by themselves."""
    assert type(game.num_players) is int
    assert game.num_players >= 1
    assert game.num_actions is None or type(game.num_actions) is int
    assert game.kind in ("competitive", "cooperative", "mixed")
    assert game.information in ("perfect", "imperfect")
    assert type(game.zero_sum) is type(game.simultaneous) is bool
    assert -math.inf < game.min_return <= game.max_return < math.inf
    assert type(game.max_turns) is int
    assert game.max_turns >= 1
    assert len(game.teams) == game.num_players
    assert hash(game) == hash(copy.deepcopy(game))


def check_actions(game: AnyGame) -> None:
    """Chance sums to 1; legal actions ascend within `num_actions`, and end with the game."""
    for state in states(game):
        player, legal = game.current_player(state), list(game.legal_actions(state))
        assert player in (CHANCE, TERMINAL, *range(game.num_players))
        assert bool(legal) == (player >= 0)
        assert len(set(legal)) == len(legal)
        if game.num_actions is not None:
            assert all(type(a) is int and 0 <= a < game.num_actions for a in legal)
            assert legal == sorted(legal)
        if player == CHANCE:
            outcomes = game.chance_outcomes(state)
            assert sum(p for _, p in outcomes) == pytest.approx(1)
            assert all(p > 0 for _, p in outcomes)
            assert len({outcome for outcome, _ in outcomes}) == len(outcomes)


def check_returns(game: AnyGame) -> None:
    """Returns keep to `kind`, `zero_sum` and bounds; episodes keep to `max_turns`."""
    rng = random.Random(0)
    for _ in range(NUM_EPISODES):
        num_turns = 0
        for state, _ in episode(game, rng):
            num_turns += game.current_player(state) >= 0
            returns = game.returns(state)
            assert len(returns) == game.num_players
            assert all(type(r) is float and math.isfinite(r) for r in returns)
        assert num_turns <= game.max_turns
        assert game.min_return <= min(returns) <= max(returns) <= game.max_return
        if game.zero_sum:
            assert sum(returns) == pytest.approx(0)
        if game.kind == "cooperative":
            assert len(set(returns)) == 1
    assert set(game.returns(game.initial_state())) == {0.0}


def check_purity(game: AnyGame) -> None:
    """No method changes a state, nor the result of another call."""
    for state in states(game, 10):
        before, code = copy.deepcopy(state), hash(state)
        for seat in range(game.num_players):
            first = view(game, state, seat)
            game.features(state, seat)[:] = -1
            game.information_state(state, seat)
            game.resample(state, seat, random.Random(0))
            game.forfeit(state, seat)
            assert view(game, state, seat) == first
        for action in game.legal_actions(state):
            game.apply(state, action)
        assert state == before
        assert hash(state) == code == hash(before)


def check_texts(game: AnyGame) -> None:
    """Texts are ASCII of bounded length; features are float32 of one shape."""
    shape = game.features(game.initial_state(), 0).shape
    for seat in range(game.num_players):
        assert game.rules(seat).strip()
        assert game.rules(seat).isascii()
    for state in states(game):
        for seat in range(game.num_players):
            text, features = game.observe(state, seat), game.features(state, seat)
            assert text.strip() == text != ""
            assert text.isascii()
            assert len(text) <= MAX_TEXT
            assert features.dtype == np.float32
            assert features.shape == shape
            assert features.ndim == 1
            assert np.isfinite(features).all()


def check_parse(game: AnyGame) -> None:
    """Texts of actions are read back, whatever their case and white space."""
    for state in states(game):
        legal = game.legal_actions(state)
        texts = [game.action_text(state, action) for action in legal]
        assert len({text.casefold() for text in texts}) == len(texts)
        for action, text in zip(legal, texts, strict=True):
            assert text == " ".join(text.split()) != ""
            assert text.isascii()
            for spelling in (text, text.upper(), f"\n {text.replace(' ', '   ')}\t"):
                assert game.parse(state, spelling) == action
        if game.num_actions is not None:
            for text in ("", " ", "no such action", "x" * 100_000, " ".join(texts[:2])):
                if text not in texts:
                    with pytest.raises(IllegalAction):
                        game.parse(state, text)


def check_refusal(game: AnyGame, text: str) -> None:
    """A text names an action, which has a text itself, or raises IllegalAction."""
    for state in states(game, 2):
        legal = list(game.legal_actions(state))
        try:
            action = game.parse(state, text)
        except IllegalAction:
            assert text not in [game.action_text(state, a) for a in legal]
        else:
            assert action in legal or (game.num_actions is None and legal)
            # a record holds the canonical text, and a replay reads it
            assert game.parse(state, game.action_text(state, action)) == action
            game.observe(game.apply(state, action), 0).encode()


def check_knowledge(game: AnyGame) -> None:
    """States that a seat cannot tell apart look alike to it, and it forgets nothing.

    The information state determines the view, and the information states and own actions
    before it; a new draw of what is hidden changes none of them.
    """
    seen: dict[Any, Any] = {}
    rng = random.Random(0)
    for _ in range(NUM_EPISODES):
        pasts: list[tuple[Any, ...]] = [()] * game.num_players
        for state, action in episode(game, rng):
            player = game.current_player(state)
            for seat in range(game.num_players):
                key = game.information_state(state, seat)
                shown = view(game, state, seat)
                if player != CHANCE:  # nobody looks while chance has the turn
                    assert seen.setdefault((seat, key), shown) == shown
                drawn = game.resample(state, seat, rng)
                assert game.information_state(drawn, seat) == key
                assert view(game, drawn, seat) == shown
                assert game.current_player(drawn) == player
                if game.information == "perfect":
                    assert drawn == state
                elif seat == player:
                    past = pasts[seat]
                    assert seen.setdefault((seat, key, "past"), past) == past
                    pasts[seat] = (key, action)  # the key stands for what came before


def check_resampling(game: AnyGame) -> None:
    """A draw depends on the given generator only, and can be played to the end."""
    for state in states(game, 10):
        for seat in range(game.num_players):
            drawn = game.resample(state, seat, random.Random(1))
            assert drawn == game.resample(state, seat, random.Random(1))
            rng = random.Random(2)
            for _ in range(game.max_turns + 10_000):
                player = game.current_player(drawn)
                if player == TERMINAL:
                    break
                if player == CHANCE:
                    actions = [outcome for outcome, _ in game.chance_outcomes(drawn)]
                else:
                    actions = list(game.legal_actions(drawn))
                drawn = game.apply(drawn, rng.choice(actions))
            assert game.current_player(drawn) == TERMINAL


def check_forfeit(game: AnyGame) -> None:
    """A forfeit pays every seat a finite return, and the offender no more than before."""
    for state in states(game, 10):
        for seat in range(game.num_players):
            returns, paid = game.forfeit(state, seat), game.returns(state)
            assert len(returns) == game.num_players
            assert all(game.min_return <= r <= game.max_return for r in returns)
            assert returns[seat] <= max(paid[seat], game.min_return)


def check_page(entry_point: str) -> None:
    """The module has a page with all rows, and the game is tested."""
    name = entry_point.partition(":")[0]
    page = importlib.import_module(name).__doc__
    assert re.findall(r"^\| (\w[\w ]*?) +\|", page, re.M) == ["Property", *ROWS]
    assert "\n\n" in page.partition("| Source")[2], "the rules follow the table"
    stem = name.rpartition(".")[2]
    assert Path(__file__).with_name(f"test_{stem}.py").exists()


CHECKS: list[Callable[[AnyGame], None]] = [
    *(check_facts, check_actions, check_returns, check_purity, check_texts),
    *(check_parse, check_knowledge, check_resampling, check_forfeit),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("id", OWN)
def test_a_game_keeps_the_contract(id: str, check: Callable[[AnyGame], None]) -> None:
    check(arena_envs.make_game(id))


@pytest.mark.parametrize("id", OWN)
def test_a_game_has_a_page_and_a_test(id: str) -> None:
    check_page(OWN[id].entry_point)


@pytest.mark.parametrize("id", OWN)
@example("")
@example("x" * 100_000)
@example("9" * 5_000)
@example("\0\ud800\N{ZERO WIDTH SPACE}")
@given(text=st.text())
def test_no_text_raises_anything_but_illegal_action(id: str, text: str) -> None:
    check_refusal(arena_envs.make_game(id), text)


@pytest.mark.parametrize("id", OWN)
def test_an_unknown_parameter_is_refused_by_name(id: str) -> None:
    with pytest.raises(ValueError, match="no parameter 'num_unicorns'"):
        arena_envs.make_game(id, num_unicorns=1)


@pytest.mark.parametrize("id", OWN)
def test_what_games_lists_is_what_the_game_declares(id: str) -> None:
    (info,) = (info for info in arena_envs.games() if info.id == id)
    game = arena_envs.make_game(id)
    assert (info.kind, info.num_players) == (game.kind, game.num_players)
    assert (info.information, info.split) == (game.information, OWN[id].split)
