"""Two games of the tests' own: one pays in mid-episode, one is played in free text.

And the endpoint of `tests/endpoint.py`.
"""

import random
import runpy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import arena_envs
from arena_envs import GameEnv
from arena_envs.game import CHANCE, TERMINAL, BaseGame, IllegalAction


class TollState(NamedTuple):
    gift: int = -1
    paid: tuple[int, ...] = ()


@dataclass(frozen=True)
class Tolls(BaseGame[TollState, int]):
    """Three seats pay each other in turn; seat 2 may get a gift before anybody moves."""

    num_turns: int = 7

    num_players = 3
    num_actions = 3
    kind: ClassVar = "mixed"
    information = "perfect"
    min_return = -20.0
    max_return = 20.0

    @property
    def max_turns(self):
        return self.num_turns

    def initial_state(self):
        return TollState()

    def current_player(self, state):
        if state.gift < 0:
            return CHANCE
        return len(state.paid) % 3 if len(state.paid) < self.num_turns else TERMINAL

    def chance_outcomes(self, state):
        return [(0, 0.5), (1, 0.5)]

    def legal_actions(self, state):
        return (0, 1, 2) if self.current_player(state) >= 0 else ()

    def apply(self, state, action):
        if state.gift < 0:
            return TollState(action)
        return TollState(state.gift, (*state.paid, action))

    def returns(self, state):
        """Each turn pays its amount to the next seat; the end pays 5 to seat 1."""
        totals = [0.0, 0.0, float(max(state.gift, 0))]
        for turn, amount in enumerate(state.paid):
            totals[turn % 3] -= amount
            totals[(turn + 1) % 3] += amount
        if len(state.paid) == self.num_turns:
            totals[1] += 5.0
        return tuple(totals)

    def observe(self, state, seat):
        return f"You are player_{seat}. Paid: {list(state.paid)}."

    def information_state(self, state, seat):
        return state

    def features(self, state, seat):
        return np.array([seat, len(state.paid)], np.float32)

    def action_text(self, state, action):
        return f"pay {action}"

    def rules(self, seat):
        return "Pay 0, 1 or 2 chips to the next seat."


class Sentence(NamedTuple):
    text: str


class Talk(NamedTuple):
    topic: Sentence | None = None
    said: tuple[Sentence, ...] = ()


@dataclass(frozen=True)
class Telephone(BaseGame[Talk, Sentence]):
    """Two seats say two sentences each; a seat earns 1 whenever the other says "yes".

    What was said is pasted as it is, which no real game should do.
    """

    num_players = 2
    num_actions = None
    kind: ClassVar = "mixed"
    information = "imperfect"
    min_return = 0.0
    max_return = 2.0
    max_turns = 4

    def initial_state(self):
        return Talk()

    def current_player(self, state):
        if state.topic is None:
            return CHANCE
        return len(state.said) % 2 if len(state.said) < 4 else TERMINAL

    def chance_outcomes(self, state):
        return [(Sentence("cats"), 0.25), (Sentence("dogs"), 0.75)]

    def legal_actions(self, state):
        core = (Sentence("no"), Sentence("yes"))
        return core if self.current_player(state) >= 0 else ()

    def apply(self, state, action):
        if state.topic is None:
            return Talk(action)
        return Talk(state.topic, (*state.said, action))

    def returns(self, state):
        yes = [turn for turn, said in enumerate(state.said) if said.text == "yes"]
        return tuple(float(sum(turn % 2 != seat for turn in yes)) for seat in range(2))

    def observe(self, state, seat):
        topic = f"The topic is {state.topic.text}.\n" if seat == 0 else ""
        said = "\n".join(sentence.text for sentence in state.said)
        return f"{topic}Heard so far:\n{said}"

    def information_state(self, state, seat):
        return (state.topic if seat == 0 else None, state.said)

    def features(self, state, seat):
        return np.array([len(state.said)], np.float32)

    def action_text(self, state, action):
        return action.text

    def parse(self, state, text):
        text = text.strip()
        if not text or len(text) > 300:
            raise IllegalAction(f"want 1 to 300 characters, got {len(text)}")
        return Sentence(text)

    def rules(self, seat):
        return "Say something short."


ENDPOINT = runpy.run_path(str(Path(__file__).parents[1] / "endpoint.py"))
REPRESENTATIVE = runpy.run_path(str(Path(__file__).parents[1] / "representative.py"))[
    "REPRESENTATIVE"
]
OF_TESTS = {
    "tolls": Tolls(),
    "telephone": Telephone(),
    "hidden bargaining": arena_envs.make_game("bargaining", complete_information=False),
}


def _game(name: str) -> Any:
    if name in OF_TESTS:
        return OF_TESTS[name]
    id, params = REPRESENTATIVE.get(name, (name, {}))
    return arena_envs.make_game(id, **params)


@pytest.fixture(params=[*REPRESENTATIVE, *OF_TESTS])
def game(request: pytest.FixtureRequest) -> Any:
    """The representative games, one with hidden factors, and the two of the tests."""
    return _game(request.param)


@pytest.fixture(params=[*(info.id for info in arena_envs.game_infos()), *OF_TESTS])
def every_game(request: pytest.FixtureRequest) -> Any:
    """Every registered game too: for claims about its own texts, states and actions."""
    return _game(request.param)


@pytest.fixture
def make_env(game: Any) -> Any:
    """Makes environments of `game`."""
    return lambda **options: GameEnv(game, **options)


@pytest.fixture
def tolls() -> Tolls:
    return Tolls()


@pytest.fixture
def telephone() -> Telephone:
    return Telephone()


@pytest.fixture
def walk() -> Any:
    """The decision states of a random playthrough: walk(game, seed)."""

    def states(game: Any, seed: int) -> Iterator[Any]:
        rng, state = random.Random(seed), game.initial_state()
        while (player := game.current_player(state)) != TERMINAL:
            if player == CHANCE:
                outcomes = [outcome for outcome, _ in game.chance_outcomes(state)]
                state = game.apply(state, rng.choice(outcomes))
                continue
            yield state
            state = game.apply(state, rng.choice(game.legal_actions(state)))

    return states


@pytest.fixture
def serve() -> Any:
    """`with serve() as server`: an endpoint."""
    return ENDPOINT["serving"]


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An endpoint that is asked again at once when it fails."""
    monkeypatch.setattr("arena_wrappers.policies.client.FIRST_PAUSE", 0.001)
    with ENDPOINT["serving"]() as server:
        yield server
