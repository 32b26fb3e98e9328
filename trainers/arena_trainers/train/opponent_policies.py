"""The policies of the seats that do not learn.

This module imports neither TRL nor torch.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from arena_eval.baselines import prepared
from arena_trainers.lm import best_of
from arena_trainers.lm.models import prompt_folder
from arena_trainers.lm.prompt_file import read_prompt_file
from arena_trainers.matchmaking import Matchmaker
from arena_trainers.train.games import GamePlan
from arena_trainers.train.settings import SelfPlay
from arena_wrappers import Policy, make_policy
from arena_wrappers.policies import PolicyMaker

if TYPE_CHECKING:
    from arena_trainers.lm.policy import LMPolicy
    from arena_trainers.train.config import TurnGRPOConfig


def opponents(
    plans: Sequence[GamePlan],
    args: "TurnGRPOConfig",
    policies: Mapping[str, Policy],
    matchmaker: Matchmaker | None = None,
) -> dict[str, Policy]:
    """The policies of the seats that do not learn, by policy string; without snapshots.

    Args:
        plans: the games.
        args: settings. A language model has the prompt and sampling options of its
            `arena_prompt.json`; without that file, those of the learner.
        policies: policies by string; `make_policy` makes the others.
        matchmaker: assigns the seats of the games without `seats`.

    Raises:
        ValueError: a string names no policy, a bot cannot play a game, or a model's chat
            template cannot show its earlier replies.
    """
    makers = makers_of(args)
    policy_by_spec = dict(policies)
    assigned = () if matchmaker is None else matchmaker.policies
    for plan in plans:
        specs = plan.seats if plan.opponent is None else [plan.opponent]
        for spec in assigned if specs is None else specs:
            if spec == "self":
                continue
            if spec not in policy_by_spec:
                policy_by_spec[spec] = make_policy(spec, makers)
            prepared(policy_by_spec[spec], plan.game)
    return policy_by_spec


def makers_of(args: "TurnGRPOConfig") -> dict[str, PolicyMaker]:
    """The functions for `make_policy` that load models as the settings say."""
    from arena_trainers.lm.policy import LMPolicy

    def load(path: str) -> Policy:
        # a prompt file says how its model samples; without one it samples as the learner
        if read_prompt_file(prompt_folder(path)):
            sampling: dict[str, Any] = {"batch_size": args.rollout_batch_size}
        else:
            # the marks of reasoning are those of the model that learns
            sampling = {**args.sampling_options, "reasoning_marks": None}
        policy = LMPolicy.from_pretrained(path, device=args.device, **sampling)
        check_replies(args, policy)
        return policy

    return {"lm": load, "best_of": partial(best_of.load, device=args.device)}


def check_replies(args: SelfPlay, policy: "LMPolicy") -> None:
    """Refuses a chat template that cannot show earlier replies, if prompts contain them.

    Raises:
        ValueError: names the options without earlier replies.
    """
    history = args.history if policy.prompt is None else policy.prompt.history
    if history == "transcript" or args.on_invalid == "retry":
        policy.chat.check_replies()
