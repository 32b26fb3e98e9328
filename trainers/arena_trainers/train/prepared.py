"""`prepare_games`: the games of a run, built and checked once, with their opponents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arena_envs.game import AnyGame
from arena_trainers.curricula import Curriculum
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.lm.shared_base import share_base
from arena_trainers.losses import check_term, terms_of
from arena_trainers.matchmaking import Matchmaker
from arena_trainers.rewards import parts_of
from arena_trainers.train.assigners import curriculum_of, matchmaker_of
from arena_trainers.train.columns import Supplier
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.credit_check import check_credit
from arena_trainers.train.critics.exact import check_exact_opponents
from arena_trainers.train.critics.exact_check import check_reply_probs
from arena_trainers.train.critics.registry import critic_facts
from arena_trainers.train.games import GamePlan, check_used, numbered_names
from arena_trainers.train.opponent_policies import opponents
from arena_trainers.trial import trial
from arena_wrappers import Branching, EpisodePlan, Policy
from arena_wrappers.policies import without_noise


@dataclass(frozen=True)
class PreparedGames:
    """The games, checked and built by `prepare_games`.

    Attributes:
        plans: the games.
        opponents: who plays the seats that do not learn, by policy string.
        functions: functions and reward models that supply columns of the turn batch, by
            column.
        columns: the columns of the turn batch that are gathered for the estimator and for
            the critic.
        matchmaker: assigns the seats of the games that have no `opponents` of their own.
        curriculum: chooses the game and the length of each start.
    """

    plans: Sequence[GamePlan]
    opponents: Mapping[str, Policy]
    functions: Mapping[str, Supplier]
    columns: tuple[str, ...]
    matchmaker: Matchmaker | None = None
    curriculum: Curriculum | None = None

    @property
    def rules(self) -> list[AnyGame]:
        """The rules of each game."""
        return [plan.game for plan in self.plans]

    @property
    def names(self) -> list[str]:
        """The name of each game, with its parameters; a repeated name gets a number."""
        return numbered_names(self.plans)

    @property
    def models(self) -> list[LMPolicy]:
        """The language models among the opponents."""
        inner = [without_noise(policy) for policy in self.opponents.values()]
        return [policy for policy in inner if isinstance(policy, LMPolicy)]

    def place_opponents(self, learner: LMPolicy, device: Any) -> None:
        """Moves language models among the opponents to a device, or onto the learner's base."""
        for policy in self.models:
            if not share_base(policy, learner):
                policy.model.to(device)

    def episode_plan(
        self,
        start: Mapping[str, Any],
        policies: Sequence[Policy],
        sample: int,
        branch: Branching | None,
    ) -> EpisodePlan:
        """The episode, or the turn tree, that a row of the data set starts.

        Args:
            start: the row, with `game` and `seed`, and `max_turns` by a curriculum.
            policies: who plays each seat.
            sample: number of the episode among those of the same start.
            branch: where episodes branch, if they do.
        """
        env_fn = self.plans[start["game"]].env_of(start.get("max_turns"))
        seed = int(start["seed"])
        return EpisodePlan(env_fn, policies, seed, sample, branch=branch)


def prepare_games(
    args: TurnGRPOConfig,
    policies: Mapping[str, Policy] | None = None,
    columns: Mapping[str, Supplier] | None = None,
    *,
    plans: Sequence[GamePlan] | None = None,
) -> PreparedGames:
    """Builds the games of a run and loads their opponents; checks both and the credit.

    Args:
        args: the trainer's settings.
        policies: policies by name, for opponents that are objects and not strings.
        columns: functions and reward models that supply columns, by column.
        plans: the games, if they are built already; by default those of `args.games`.

    Raises:
        ValueError: settings that do not fit together, see `GamePlan`, `check_used`,
            `check_credit`, `opponents`, `check_exact_opponents`, `matchmaker_of` and `curriculum_of`.
    """
    if plans is None:
        plans = [GamePlan(spec, args) for spec in args.games]
    check_used(args, plans)
    if not isinstance(columns := columns or {}, Mapping):
        raise ValueError(f"want columns as a mapping from names, got {columns!r:.200}")
    columns = {**columns, **parts_of(args.rewards)}
    read_columns = check_credit(args, [plan.game for plan in plans], columns)
    facts = critic_facts(args.critic)
    read_columns = (*read_columns, *facts.reads_of(read_columns, args.critic_args))
    if "reply_probs" in read_columns:
        check_reply_probs(args, plans)
    matchmaker = matchmaker_of(args, plans)
    opponent_policies = opponents(plans, args, policies or {}, matchmaker)
    check_exact_opponents(args, plans, opponent_policies)
    curriculum = curriculum_of(args, plans)
    try_terms(args)
    return PreparedGames(
        tuple(plans), opponent_policies, columns, read_columns, matchmaker, curriculum
    )


def try_terms(args: TurnGRPOConfig) -> None:
    """Computes each term of the loss on numbers of the same kind as in training.

    Raises:
        ValueError: it raises, or breaks a promise of `check_term`.
    """
    for term in terms_of(args.losses, args.layout):
        with trial(f"losses[{term.name!r}]", "a term that check_term passes"):
            check_term(term.function.func, **term.function.keywords)
