"""A probe of how well a policy ranks what another seat cares about."""

import math
import unicodedata
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from arena_envs.game import (
    AnyGame,
    AnyState,
)
from arena_eval.measures.estimates import estimated, named_estimates, turn_observations
from arena_eval.measures.numbers_in_replies import numbers_by_name
from arena_eval.measures.protocol import Episodes, Estimates
from arena_wrappers import Turn
from arena_wrappers.prompts import after_reasoning

PROFILE_BOUNDS = {"correlation": (-1.0, 1.0), "unread": (0.0, 1.0)}


class Profile:
    """A probe: how well the policy ranks what another seat cares about.

    `profile.correlation`: Spearman's rank correlation of the answer with the true priorities, ties
    with mean ranks, a mean over turns; an answer without order counts 0, and turns in which all true
    priorities are equal do not count. `profile.unread`: the share of answers without a number for each
    name. It is the accuracy of profiles of "HARBOR: Exploring Persona Dynamics in Multi-Agent
    Competition" (2025).
    """

    name = "profile"

    def question(
        self, game: AnyGame, state: AnyState, seat: int
    ) -> tuple[str, Sequence[str]] | None:
        profile = _profile_of(game, state, seat)
        if profile is None:
            return None
        question, priorities = profile
        text = (
            "A question beside the game, which changes nothing in it. In place of an action, answer "
            f"it: {question} Give a number for each, a higher one for a higher priority, written as "
            '"NAME NUMBER, NAME NUMBER".'
        )
        return text, [*priorities]

    def __call__(self, episodes: Episodes, game: AnyGame, seat: int) -> Estimates:
        _profile_of(game, game.initial_state(), seat)  # refuses other games

        def scores_of(turn: Turn, state: AnyState) -> dict[str, float] | None:
            probe = (turn.probes or {}).get(self.name)
            profile = _profile_of(game, state, seat)
            if probe is None or profile is None:
                return None
            _, priorities = profile
            if len({*priorities.values()}) == 1:
                return None
            answer = after_reasoning(probe["reply"])
            text = (
                unicodedata.normalize("NFKC", answer) if isinstance(answer, str) else ""
            )
            numbers = numbers_by_name(text, [*priorities])
            if numbers.keys() != priorities.keys():
                return {"unread": 1.0}
            pairs = [(numbers[name], value) for name, value in priorities.items()]
            return {"unread": 0.0, "correlation": rank_correlation(pairs)}

        scores = turn_observations(episodes, game, seat, scores_of)
        estimates = {}
        for name, (low, high) in PROFILE_BOUNDS.items():
            values = [[s[name] for s in turns if name in s] for turns in scores]
            estimates[f"profile.{name}"] = estimated(values, fmean, low, high)
        return named_estimates(**estimates)


def _profile_of(
    game: AnyGame, state: AnyState, seat: int
) -> tuple[str, Mapping[str, float]] | None:
    """The question of a game about another seat's priorities, and these."""
    profile_of = getattr(game, "hidden_profile", None)
    if profile_of is None:
        raise ValueError(
            f"want a game that says what seats care about (a method hidden_profile) for profile, got "
            f"{game!r:.100}; take auction"
        )
    profile: tuple[str, Mapping[str, float]] | None = profile_of(state, seat)
    return profile


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Spearman's rank correlation; 0 if one side has no order.

    >>> rank_correlation([(1, 0), (2, 5), (3, 7)]), rank_correlation([(1, 0), (1, 5)])
    (1.0, 0.0)
    """
    ranks = [
        [sum(y < x for y in side) + (side.count(x) - 1) / 2 for x in side]
        for side in zip(*pairs, strict=True)
    ]
    first, second = (np.array(each) - np.mean(each) for each in ranks)
    scale = math.sqrt(float(first @ first) * float(second @ second))
    return float(first @ second) / scale if scale else 0.0
