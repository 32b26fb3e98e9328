"""The reward for the actions of a solver: `expert_match`."""

import functools

from arena_envs.game import (
    AnyGame,
    AnyState,
)
from arena_wrappers import (
    Episode,
    Policy,
    PromptOptions,
    Turn,
    TurnRequest,
    make_policy,
)
from arena_wrappers.policies import own_prompt


def expert_match(
    episode: Episode,
    turn: Turn,
    state: AnyState,
    game: AnyGame,
    *,
    solver: str,
    share: float = 0.5,
) -> float:
    """1 if a solver gives the action at least this `share` of its best action's probability."""
    policy = _expert(solver)
    if turn.invalid is not None:
        return 0.0
    if not hasattr(policy, "action_probs"):
        raise ValueError(f"want a solver with action_probs, got {solver!r}; choose cfr")
    request = TurnRequest.at(game, state, own_prompt(policy) or PromptOptions())
    ((probs, _),) = policy.action_probs([request])
    prob_of = dict(zip(request.legal, probs, strict=True))
    prob = prob_of.get(game.action_text(state, turn.action), 0.0)
    return float(prob >= share * max(probs))


@functools.cache
def _expert(solver: str) -> Policy:
    return make_policy(solver)
