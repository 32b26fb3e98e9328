"""The checks of the contract find games that break it."""

import random
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arena_envs import IllegalAction
from arena_envs.games.kuhn_poker import KuhnPoker

contract = runpy.run_path(str(Path(__file__).with_name("test_contract.py")))


class HalfFacts(KuhnPoker):
    teams = (0,)


class Descending(KuhnPoker):
    def legal_actions(self, state: Any) -> Any:
        return super().legal_actions(state)[::-1]


class NumpyActions(KuhnPoker):
    def legal_actions(self, state: Any) -> Any:
        return np.array(super().legal_actions(state))


class LoadedDeck(KuhnPoker):
    def chance_outcomes(self, state: Any) -> Any:
        return super().chance_outcomes(state)[:-1]


class Rake(KuhnPoker):
    def returns(self, state: Any) -> Any:
        return tuple(r - 0.5 if r else r for r in super().returns(state))


class Stakes(KuhnPoker):
    def returns(self, state: Any) -> Any:
        return tuple(2 * r for r in super().returns(state))


class Shifted(KuhnPoker):
    zero_sum = False

    def returns(self, state: Any) -> Any:
        return tuple(r / 2 + 0.5 for r in super().returns(state))


class LongGame(KuhnPoker):
    max_turns = 2


class SharedArray(KuhnPoker):
    values = np.zeros(11, np.float32)

    def features(self, state: Any, seat: int) -> Any:
        return self.values


class Unicode(KuhnPoker):
    def observe(self, state: Any, seat: int) -> str:
        return super().observe(state, seat).replace("bet", "b\u00eat")


class Endless(KuhnPoker):
    def observe(self, state: Any, seat: int) -> str:
        return super().observe(state, seat) * 1000


class Strict(KuhnPoker):
    def parse(self, state: Any, text: str) -> int:
        if text not in ("pass", "bet"):
            raise IllegalAction(text)
        return super().parse(state, text)


class Lax(KuhnPoker):
    def parse(self, state: Any, text: str) -> int:
        return 1 if "bet" in text.casefold() else 0


class Crashing(KuhnPoker):
    def parse(self, state: Any, text: str) -> int:
        return {"pass": 0, "bet": 1}[text.strip().casefold()]  # KeyError


class Shouting(KuhnPoker):
    def parse(self, state: Any, text: str) -> int:
        if text != text.upper():
            raise IllegalAction(text)
        return super().parse(state, text)


class LeakyText(KuhnPoker):
    def observe(self, state: Any, seat: int) -> str:
        return f"{super().observe(state, seat)} {state.cards}"


class LeakyFeatures(KuhnPoker):
    def features(self, state: Any, seat: int) -> Any:
        return super().features(state, 1 - seat)


class LeakyKey(KuhnPoker):
    def information_state(self, state: Any, seat: int) -> Any:
        return (seat, state)


class Forgetful(KuhnPoker):
    def information_state(self, state: Any, seat: int) -> Any:
        return (seat, state.bets)


class Careless(KuhnPoker):
    def resample(self, state: Any, seat: int, rng: random.Random) -> Any:
        return super().resample(state, 1 - seat, rng)


class GlobalChance(KuhnPoker):
    def resample(self, state: Any, seat: int, rng: random.Random) -> Any:
        return super().resample(state, seat, random.Random(next(self.seeds)))

    seeds = iter(range(10**9))


class Generous(KuhnPoker):
    def forfeit(self, state: Any, seat: int) -> Any:
        return [self.max_return] * self.num_players


FOUND_BY = {
    "check_facts": [HalfFacts],
    "check_actions": [Descending, NumpyActions, LoadedDeck],
    "check_returns": [Rake, Stakes, Shifted, LongGame],
    "check_purity": [SharedArray],
    "check_texts": [Unicode, Endless],
    "check_parse": [Strict, Lax],
    "check_knowledge": [LeakyText, LeakyFeatures, LeakyKey, Forgetful, Careless],
    "check_resampling": [GlobalChance],
    "check_forfeit": [Generous],
}
CASES = [(game, check) for check, games in FOUND_BY.items() for game in games]


@pytest.mark.parametrize(("game", "check"), CASES)
def test_a_broken_game_is_found(game: type[KuhnPoker], check: str) -> None:
    with pytest.raises((AssertionError, IllegalAction, pytest.fail.Exception)):
        contract[check](game())


def test_every_check_finds_a_broken_game() -> None:
    assert [check.__name__ for check in contract["CHECKS"]] == list(FOUND_BY)


def test_a_text_that_crashes_the_parser_is_found() -> None:
    with pytest.raises(KeyError):
        contract["check_refusal"](Crashing(), "something else")


def test_a_text_that_is_not_read_back_is_found() -> None:
    with pytest.raises((AssertionError, IllegalAction)):
        contract["check_refusal"](Shouting(), "BET")


def test_a_missing_page_is_found() -> None:
    with pytest.raises(AssertionError):
        contract["check_page"]("arena_envs.game:BaseGame")
