"""Random episodes of a game, which all checks look at."""

import random
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from arena_envs.checks import short
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    AnyState,
    legal_actions_of,
    sample_chance,
)
from arena_envs.registry import BrokenPromise

# The time of the checks grows with the states of the sample. With this limit the kit takes
# seconds also in games of hundreds of turns, such as chess, where 40 episodes have 8,000 states.
MAX_SAMPLED_STATES = 1_500
MAX_CHANCE = 10_000  # chance nodes in a row

VIEWED = ("text", "features", "legal actions")
Episode = list[tuple[Any, Any]]  # states, each with the action that followed or None


def demand(holds: bool, rule: str, *values: Any, fix: str = "") -> None:
    """Raises `BrokenPromise` unless a rule holds.

    Args:
        holds: whether the rule holds.
        rule: the rule, as a statement about a correct game.
        *values: what breaks the rule.
        fix: what to do, as a sentence; empty where the rule says that.
    """
    if holds:
        return
    message = rule
    if values:
        message += f"; got {', '.join(map(short, values))}"
    if fix:
        message += f". {fix}"
    raise BrokenPromise(message)


@dataclass(frozen=True)
class Sample:
    """Random episodes: one, and more until they have the wanted number of states."""

    game: AnyGame
    episodes: tuple[Episode, ...]

    def states(self, num_episodes: int | None = None) -> Iterator[Any]:
        """States of all episodes, or of the first `num_episodes`."""
        for episode in self.episodes[:num_episodes]:
            yield from (state for state, _ in episode)


def draw_sample(
    game: AnyGame, num_episodes: int, seed: int, max_states: int = MAX_SAMPLED_STATES
) -> Sample:
    """Plays random episodes; none begins after more than `max_states` states.

    Raises:
        BrokenPromise: an episode goes on after `max_turns` turns.
    """
    rng, episodes, num_states = random.Random(seed), [], 0
    for _ in range(num_episodes):
        episodes.append(random_episode(game, game.initial_state(), rng))
        num_states += len(episodes[-1])
        if num_states > max_states:
            break
    return Sample(game, tuple(episodes))


def random_episode(game: AnyGame, state: AnyState, rng: random.Random) -> Episode:
    """A random episode from this state to the end.

    Raises:
        BrokenPromise: it goes on after `max_turns` turns.
    """
    episode: Episode = []
    num_turns = num_chances = 0
    while (player := game.current_player(state)) != TERMINAL:
        if player == CHANCE:
            num_chances += 1
            rule = f"an episode has at most {MAX_CHANCE} chance nodes in a row"
            demand(
                num_chances <= MAX_CHANCE,
                rule,
                state,
                fix="Give the turn to a seat or end the episode.",
            )
            outcomes = game.chance_outcomes(state)
            demand(len(outcomes) > 0, "a chance node has outcomes", state)
            action = sample_chance(game, state, rng)
        else:
            num_turns, num_chances = num_turns + 1, 0
            rule = f"an episode ends within max_turns = {game.max_turns!r}"
            demand(
                num_turns <= game.max_turns,
                rule,
                fix="End the episode earlier, or raise max_turns.",
            )
            legal = game.legal_actions(state)
            demand(
                len(legal) > 0,
                "a seat that is to move has a legal action",
                state,
                fix="Return a legal action, or let current_player return TERMINAL.",
            )
            action = rng.choice(legal)
        episode.append((state, action))
        state = game.apply(state, action)
    episode.append((state, None))
    return episode


def view(game: AnyGame, state: AnyState, seat: int) -> tuple[Hashable, ...]:
    """All that an environment shows to a seat: text, features and what it may choose."""
    legal = tuple(legal_actions_of(game, state, seat))
    return (game.observe(state, seat), game.features(state, seat).tobytes(), legal)


def difference(first: Sequence[Any], second: Sequence[Any]) -> str:
    """Two results of `view`, or beginnings of them, from shortly before they differ."""
    for name, first_part, second_part in zip(VIEWED, first, second, strict=False):
        if first_part != second_part:
            if name == "features":
                first_part, second_part = (
                    memoryview(x).cast("f").tolist() for x in (first_part, second_part)
                )
            pairs = enumerate(zip(first_part, second_part, strict=False))
            at = next(
                (i for i, (a, b) in pairs if a != b),
                min(len(first_part), len(second_part)),
            )
            cut = slice(max(0, at - 20), at + 40)
            where = f"from number {cut.start} on " if cut.start else ""
            return (
                f"{name} {where}{first_part[cut]!r:.150} and {second_part[cut]!r:.150}"
            )
    return "no difference"
