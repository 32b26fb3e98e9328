"""What the tests of single games share."""

import random
import runpy
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from arena_envs import CHANCE, TERMINAL
from arena_envs.bots import make_bot
from arena_envs.game import AnyGame, sample_chance
from arena_envs.testing import check_game


@pytest.fixture(scope="session")
def check_contract() -> Callable[[Any], None]:
    """Holds a game with any parameters to the contract; registered ids get more."""
    return partial(check_game, num_episodes=1)


@pytest.fixture(scope="session")
def oracle() -> SimpleNamespace:
    """The module `oracle.py` beside this file; skips without OpenSpiel."""
    pytest.importorskip("pyspiel")
    return SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("oracle.py"))))


@pytest.fixture(scope="session")
def mean_returns() -> Callable[[Any, str, Sequence[str], int], list[float]]:
    """The mean return of each seat, played by a scripted player in one of its styles."""
    return _mean_returns


def _mean_returns(
    rules: Any, player: str, styles: Sequence[str], num_episodes: int
) -> list[float]:
    """Every reply is also read back from its text. The seeds are 0 and up."""
    totals = [0.0] * len(styles)
    bots = [make_bot(f"{player}:{style}") for style in styles]
    for seed in range(num_episodes):
        state, rng = rules.initial_state(), random.Random(seed)
        while (seat := rules.current_player(state)) != TERMINAL:
            if seat == CHANCE:
                said: Any = sample_chance(rules, state, rng)
            else:
                said = bots[seat](rules, state, rng)
                assert rules.parse(state, rules.action_text(state, said)) == said
            state = rules.apply(state, said)
        totals = [t + r for t, r in zip(totals, rules.returns(state), strict=True)]
    return [total / num_episodes for total in totals]


@pytest.fixture(scope="session")
def check_features() -> Callable[..., int]:
    """Checks by random play that features differ exactly where a key of the seat does.

    The key is by default the information state. The result is the number of keys that were seen.
    """

    def check(
        rules: AnyGame,
        num_episodes: int,
        key_of: Callable[[Any, int], Any] | None = None,
    ) -> int:
        rng = random.Random(0)
        seen: dict[Any, Any] = {}
        keys: dict[Any, Any] = {}
        for _ in range(num_episodes):
            state = rules.initial_state()
            while (player := rules.current_player(state)) != TERMINAL:
                if player == CHANCE:
                    outcomes = [outcome for outcome, _ in rules.chance_outcomes(state)]
                    state = rules.apply(state, rng.choice(outcomes))
                    continue
                for seat in range(rules.num_players):
                    key = seat, (key_of or rules.information_state)(state, seat)
                    numbers = rules.features(state, seat).tobytes()
                    assert seen.setdefault(key, numbers) == numbers
                    assert keys.setdefault(numbers, key) == key
                state = rules.apply(state, rng.choice(rules.legal_actions(state)))
        return len(seen)

    return check
