"""A probe of what a policy believes of a hidden fact."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from arena_envs.game import (
    AnyGame,
    AnyState,
)
from arena_eval.measures.estimates import estimated, named_estimates, turn_observations
from arena_eval.measures.numbers_in_replies import read_distribution
from arena_eval.measures.posteriors import beliefs_of, recalled
from arena_eval.measures.protocol import Episodes, Estimates
from arena_wrappers import Turn

LEAST = 0.01  # probability that a log score counts for less
LOG = (math.log(LEAST), 0.0)
BELIEF_BOUNDS = {"log_score": LOG, "exact_log_score": LOG, "unread": (0.0, 1.0)}
BELIEF_BOUNDS |= dict.fromkeys(("brier", "exact_brier", "distance"), (0.0, 2.0))


class Belief:
    """A probe: the probabilities that the policy gives to a hidden fact at each of its turns.

    The posterior is exact, by enumeration, in games of at most 30,000 states with a list of actions.
    In larger games and in games of language it is a frequency in 400 draws of `Game.resample`, which
    follow the rules and take nothing from how others play. Then `others` has to be "random", and the
    standard error of a probability p is √(p (1 - p) / 400).

    The game says which fact (its method `hidden`), such as a card. The exact posterior is that of the
    seat's information set, by enumeration of the deal and the actions of the other seats, who play as
    `others`.

    Means over turns, of answer q and posterior p: `log_score`, log q(true answer), at least log 0.01;
    `brier`, Σ (q - 1[true])²; `exact_log_score` and `exact_brier`, the same of p; `distance`,
    Σ (q - p)²; `unread`, the share of answers that cannot be read, which the others leave out.

    An answer is read after the reasoning: the last number after each name ("J 1/4", "**J**:
    25%", "P(J) = 0.25", "J is 0.25") or before it ("25% for J"), divided by their sum. If one name
    alone has a probability, the others share what is left; a name alone is certain. Turns that
    `others` never lead to do not count.

    Args:
        others: string of a policy with known action probabilities.
    """

    def __init__(self, others: str = "random") -> None:
        self.others = others
        self.name = "belief" if others == "random" else f"belief({others})"

    def question(
        self, game: AnyGame, state: AnyState, seat: int
    ) -> tuple[str, Sequence[str]] | None:
        hidden_fact = game.hidden(state, seat)  # type: ignore[attr-defined] # an optional fact
        if hidden_fact is None:
            return None
        answers = recalled(beliefs_of, game, self.others).answers
        text = (
            "A question beside the game, which changes nothing in it. In place of an action, answer "
            f"it: {hidden_fact[0]} Give a probability for each of {', '.join(answers)}, written as "
            '"NAME NUMBER, NAME NUMBER".'
        )
        return text, answers

    def __call__(self, episodes: Episodes, game: AnyGame, seat: int) -> Estimates:
        posterior, answers = recalled(beliefs_of, game, self.others)

        def scores_of(turn: Turn, state: AnyState) -> dict[str, float] | None:
            probe = (turn.probes or {}).get(self.name)
            p = {} if probe is None else posterior(state, seat)
            if probe is None or not any(p.values()):
                return None
            q = read_distribution(probe["reply"], answers)
            true = game.hidden(state, seat)[1]  # type: ignore[attr-defined]
            return {"unread": 1.0} if q is None else _scores(q, p, true)

        scores = turn_observations(episodes, game, seat, scores_of)
        estimates = {}
        for name, (low, high) in BELIEF_BOUNDS.items():
            values = [
                [score[name] for score in turns if name in score] for turns in scores
            ]
            estimates[f"{self.name}.{name}"] = estimated(values, fmean, low, high)
        return named_estimates(**estimates)


def _scores(
    q: Mapping[str, float], p: Mapping[str, float], true: str
) -> dict[str, float]:
    def brier(forecast: Mapping[str, float]) -> float:
        return sum((forecast.get(name, 0.0) - (name == true)) ** 2 for name in q)

    return {
        "unread": 0.0,
        "log_score": math.log(max(q[true], LEAST)),
        "brier": brier(q),
        "exact_log_score": math.log(max(p.get(true, 0.0), LEAST)),
        "exact_brier": brier(p),
        "distance": sum((q[name] - p.get(name, 0.0)) ** 2 for name in q),
    }
