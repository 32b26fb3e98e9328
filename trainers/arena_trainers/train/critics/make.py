"""`make_critic`: the critic that the settings of a trainer name."""

from arena_trainers.train.critics.protocol import Critic
from arena_trainers.train.critics.registry import critics
from arena_trainers.train.estimator import discount_of
from arena_trainers.train.parts import CriticLoop


def make_critic(trainer: CriticLoop) -> Critic:
    """The critic that the settings of a trainer name."""
    args, games = trainer.args, trainer.games
    policies = {**games.opponents, "self": trainer.policy}
    return critics.make(  # type: ignore[no-any-return] # a plug-in may give anything
        {str(args.critic): args.critic_args},
        games=games.rules,
        discount=discount_of(args.credit, args.credit_args),
        seed=args.seed,
        seats=[[policies[seat] for seat in plan.seats or ()] for plan in games.plans],
        options=args.prompt,
        weight=args.part_weights.get("game", 1.0),
        trainer=trainer,
        scores_replies="reply_probs" in games.columns,
        plays_agent=trainer.agent is not None,
    )
