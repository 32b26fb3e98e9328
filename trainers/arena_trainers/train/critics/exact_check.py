"""Whether settings and games have exact values, for `critic="exact"`.

This module imports neither TRL nor torch.
"""

from collections.abc import Sequence

from arena_envs.solvers import information_states
from arena_eval.exploit import want_enumerable
from arena_trainers.train.estimator import discount_of
from arena_trainers.train.games import GamePlan
from arena_trainers.train.records import PARTS
from arena_trainers.train.settings import SelfPlay

# of a game: a batch asks for the probabilities of all its prompts
MAX_CRITIC_STATES = 100_000


def _all_tokens(args: SelfPlay) -> list[tuple[str, float, float, str]]:
    """Name, value, required value and reason of each setting that cuts the distribution of tokens."""
    why = "action probabilities are of all tokens"
    return [
        ("top_k", args.top_k, 0, why),
        ("top_p", args.top_p, 1.0, why),
        ("min_p", args.min_p or 0.0, 0.0, why),
        ("repetition_penalty", args.repetition_penalty, 1.0, why),
    ]


def check_reply_probs(args: SelfPlay, plans: Sequence[GamePlan]) -> None:
    """Raises if a critic cannot have the probabilities of all canonical replies.

    Raises:
        ValueError: a language game, or settings that cut the distribution.
    """
    for name, value, required, reason in _all_tokens(args):
        if value != required:
            raise ValueError(
                f"critic={args.critic!r} with action values takes {name} {required!r}, got "
                f"{value!r}: {reason}"
            )
    for plan in plans:
        if plan.game.num_actions is None:
            raise ValueError(
                f"critic={args.critic!r} gives action values of games whose actions can be "
                f"listed, got {plan.name!r}; leave action_values out of credit_args"
            )


def check_exact(args: SelfPlay, plans: Sequence[GamePlan]) -> None:
    """Raises if the settings or a game have no exact values, where `critic="exact"` asks for them.

    Raises:
        TooLarge: a game has more than `MAX_CRITIC_STATES` states.
        ValueError: a language game, or a setting that exact values do not allow, such as a
            weight for a reward part other than `game` and `format`.
    """
    if args.critic != "exact":
        return
    discount = discount_of(args.credit, args.credit_args)
    for name, value, required, reason in (
        ("history", args.history, "state", "a transcript holds more than the state"),
        ("shuffle", args.shuffle, 0, "an order holds more than the state"),
        ("on_invalid", args.on_invalid, "forfeit", "values are of legal replies"),
        *_all_tokens(args),
        ("discount in credit_args", discount, 1.0, "values are not discounted"),
    ):
        if value != required:
            raise ValueError(
                f"critic='exact' takes {name} {required!r}, got {value!r}: {reason}"
            )
    weights = dict.fromkeys(args.rewards, 1.0) | args.part_weights
    for part, weight in weights.items():
        if part not in PARTS and weight:
            raise ValueError(
                f"critic='exact' takes part_weights of 0 for {part!r}, got {weight!r}: the "
                "values are of what the rules pay; leave the part or the critic out"
            )
    for plan in plans:
        if plan.seats is None:
            raise ValueError(
                "critic='exact' takes the same opponents in all starts, got opponents "
                f"{plan.opponent or args.opponents!r}; name who plays each seat, such as [self, random], or "
                "set critic='features'"
            )
        try:
            want_enumerable(plan.game)
            information_states(plan.game, MAX_CRITIC_STATES)
        except ValueError as error:
            message = f"critic='exact' takes games that can be enumerated: {error}"
            raise type(error)(message) from error
