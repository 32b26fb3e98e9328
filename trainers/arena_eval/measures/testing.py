"""`check_measure`: names the first promise that a measure breaks."""

import copy
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from arena_envs.game import (
    AnyGame,
)
from arena_envs.registry import broken
from arena_eval.intervals import Estimate
from arena_eval.measures.protocol import Measure
from arena_wrappers import Episode, play_plans, turn_states
from arena_wrappers.play import game_of, plans_of


def check_measure(measure: Measure, episodes: Sequence[Episode] | None = None) -> None:
    """Measures recorded episodes, and looks at the estimates.

    | promise | what is checked |
    |---|---|
    | nothing of nothing | no episodes give no estimates |
    | estimates | names, and `Estimate`s: a finite value within its interval, `num` of at least 1 |
    | order | further calls, with the episodes in another order, give the same |
    | arguments | the episodes are left as they are |
    | own view | a probe asks alike in states that the seat cannot tell apart |

    Args:
        measure: a function of episodes, game and seat.
        episodes: of one game; by default Kuhn poker by random play, asked what a probe asks.

    Raises:
        BrokenPromise: names the first promise that is broken.
    """
    probes = dict.fromkeys(range(2), [measure] if hasattr(measure, "question") else [])
    plans = plans_of("kuhn_poker", "random", range(24), [0])
    recorded = list(episodes or play_plans([replace(p, probes=probes) for p in plans]))
    game, before = game_of(recorded[0]), copy.deepcopy(recorded)
    mixed = random.Random(0).sample(recorded, len(recorded))
    if hasattr(measure, "question"):
        _check_view(measure, recorded, game)
    for seat in range(game.num_players):
        if estimates := dict(measure([], game, seat)):
            broken("nothing of nothing", f"no episodes give {sorted(estimates)}")
        estimates = dict(measure(recorded, game, seat))
        if recorded != before:
            broken("arguments", "the episodes have changed")
        for name, estimate in estimates.items():
            _check_estimate(name, estimate)
        if dict(measure(mixed, game, seat)) != estimates:
            broken("order", "the episodes in another order give different estimates")


def _check_view(probe: Any, episodes: Sequence[Episode], game: AnyGame) -> None:
    rng = random.Random(0)
    for episode in episodes:
        for turn, state in zip(episode.turns, turn_states(episode, game), strict=True):
            twin = game.resample(state, turn.seat, rng)
            question, twin_question = (
                probe.question(game, s, turn.seat) for s in (state, twin)
            )
            if question != twin_question:
                broken(
                    "own view", f"asks {question} or {twin_question} by what is hidden"
                )


def _check_estimate(name: str, estimate: Estimate) -> None:
    if not isinstance(name, str) or not isinstance(estimate, Estimate):
        broken("estimates", f"want an Estimate by name, got {name!r}: {estimate!r:.80}")
    low = -math.inf if estimate.low is None else estimate.low
    high = math.inf if estimate.high is None else estimate.high
    if not (
        math.isfinite(estimate.value)
        and low <= estimate.value <= high
        and estimate.num >= 1
    ):
        broken("estimates", f"want a value within its interval, got {name}: {estimate}")
