"""`evaluate_suite`: published protocols, with their games, opponents and episodes.

The suite "mars" is the protocol of MARSHAL (https://arxiv.org/abs/2510.15414): 1000
episodes per seat against the opponents of the released evaluation. Differences:

- The score formulas are unpublished. Ours are inferred from published tables and reproduce
  their numbers. Scores are approximately comparable; returns are exact.
- MCTS: ours plays one random rollout per leaf and proves results; theirs plays ten rollouts
  without proofs.
- Leduc poker: ours is dealt by its rules; theirs from 24 equally likely deals.
- Prompts are this project's.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from arena_envs.checks import did_you_mean
from arena_envs.game import AnyGame
from arena_trainers.evaluate.matches import Evaluation, EvaluationPlan, Progress
from arena_wrappers import Policy, make_policy


class SuiteGame:
    """A game of a suite.

    Args:
        id: id of the game.
        opponents: strings of the opponents.
        score: function of the game and a mean return; None if the formula is unknown.
        formula: the same formula in words.
    """

    def __init__(
        self,
        id: str,
        opponents: tuple[str, ...],
        score: Callable[[AnyGame, float], float] | None = None,
        formula: str = "unknown",
    ) -> None:
        self.id, self.opponents = id, opponents
        self.score, self.formula = score, formula


def _board_score(game: AnyGame, mean: float) -> float:
    return 100 * (1 + mean)


def _hanabi_score(game: AnyGame, mean: float) -> float:
    return 100 * mean / game.max_return


BOARD: Any = (_board_score, "100 (1 + mean return): 100 if every episode is a draw")
HANABI: Any = (_hanabi_score, "100 mean return / largest return")


SUITES = {
    "mars": (
        SuiteGame("tic_tac_toe", ("mcts:100", "mcts:1000"), *BOARD),
        SuiteGame("connect_four", ("mcts:10", "mcts:100"), *BOARD),
        SuiteGame("kuhn_poker", ("cfr",)),
        SuiteGame("leduc_poker", ("cfr",)),
        SuiteGame("mini_hanabi", ("self",), *HANABI),
        SuiteGame("simple_hanabi", ("self",), *HANABI),
    )
}


@dataclass(frozen=True)
class SuiteScore:
    """Result of a policy in one seat of one game of a suite.

    Attributes:
        game: id of the game.
        opponents: the mean is over these opponents.
        seat: the seat; "all" in self-play.
        mean_return: mean return.
        score: score by the formula of the suite; None if the formula is unknown.
        formula: the inferred formula of the score, in words.
    """

    game: str
    opponents: tuple[str, ...]
    seat: int | Literal["all"]
    mean_return: float
    score: float | None
    formula: str


@dataclass(frozen=True)
class SuiteEvaluation:
    """A policy's evaluations in the games of a suite.

    Attributes:
        suite: name of the suite.
        policy: name of the policy.
        scores: one per game and seat.
        evaluations: one per game, with intervals and baselines.
    """

    suite: str
    policy: str
    scores: tuple[SuiteScore, ...]
    evaluations: tuple[Evaluation, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of all evaluations."""
        return tuple(text for found in self.evaluations for text in found.warnings)

    def to_dict(self) -> dict[str, Any]:
        """The evaluations as JSON can hold them."""
        return asdict(self)


def evaluate_suite(
    suite: str,
    policy: Policy | str,
    num_episodes: int = 1000,
    *,
    seed: int = 0,
    prompt: Mapping[str, Any] | None = None,
    baselines: bool = True,
    timeout: float | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> SuiteEvaluation:
    """Evaluates a policy by a published protocol.

    Args:
        suite: `"mars"`, see the docstring of this module.
        policy: the evaluated policy, or its string for `make_policy`.
        num_episodes: episodes per opponent and seat, on the same seeds in each seat.
        seed: as for `evaluate`, like the arguments below.
        prompt: arguments of the `PromptWrapper`; they override the options of policies.
        baselines: whether the games' baselines are evaluated, too.
        timeout: longest call of a policy, in seconds.
        out: file to which each finished episode is appended.
        progress: called after each episode.

    Raises:
        ValueError: as for `evaluate`, or an unknown suite; before any episode is played.
        ModuleNotFoundError: scipy is missing.
    """
    plan = SuitePlan(
        suite,
        policy,
        num_episodes,
        seed=seed,
        prompt=prompt,
        baselines=baselines,
        timeout=timeout,
        out=out,
    )
    found = plan.run(progress)
    for text in found.warnings:
        warnings.warn(text, stacklevel=2)
    return found


class SuitePlan:
    """The evaluations of a suite, checked and ready to run; see `evaluate_suite`."""

    def __init__(
        self, suite: str, policy: Policy | str, num_episodes: int = 1000, **options: Any
    ) -> None:
        if suite not in SUITES:
            raise ValueError(f"unknown suite {suite!r}; {did_you_mean(suite, SUITES)}")
        self.suite = suite
        self.policy = make_policy(policy) if isinstance(policy, str) else policy
        self._plans = [
            EvaluationPlan(
                self.policy, game.id, game.opponents, num_episodes, **options
            )
            for game in SUITES[suite]
        ]
        self.num_episodes = sum(plan.num_episodes for plan in self._plans)

    def run(self, progress: Progress | None = None) -> SuiteEvaluation:
        """Plays all episodes; raises as `EvaluationPlan.run` does."""
        scores, evaluations, before = [], [], 0
        for game, plan in zip(SUITES[self.suite], self._plans, strict=True):
            found = plan.run(progress and self._shifted(progress, before))
            before += plan.num_episodes
            evaluations.append(found)
            scores += _scores(game, plan.rules, found)
        return SuiteEvaluation(
            self.suite, self.policy.name, tuple(scores), tuple(evaluations)
        )

    def unanswered(self) -> tuple[str, ...]:
        """As `EvaluationPlan.unanswered`, for all games."""
        return tuple(text for plan in self._plans for text in plan.unanswered())

    def _shifted(self, progress: Progress, before: int) -> Progress:
        return lambda done, _: progress(before + done, self.num_episodes)


def _scores(game: SuiteGame, rules: AnyGame, found: Evaluation) -> list[SuiteScore]:
    in_self_play = game.opponents == ("self",)
    scores = []
    for seat in ["all"] if in_self_play else range(rules.num_players):
        means = [
            row.mean_return
            for row in found.rows
            if row.role == "policy" and row.seat == seat
        ]
        mean = sum(means) / len(means)
        score = None if game.score is None else game.score(rules, mean)
        scores.append(
            SuiteScore(found.game, game.opponents, seat, mean, score, game.formula)  # type: ignore[arg-type]
        )
    return scores
