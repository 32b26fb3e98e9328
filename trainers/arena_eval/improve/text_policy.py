"""A policy with a text in the prompts of its own seats only."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from arena_envs.game import AnyGame
from arena_wrappers import Policy, PromptOptions, Reply, TurnRequest
from arena_wrappers.policies.protocol import forget_episodes, is_async, own_prompt


class TextPolicy:
    """A policy with a text as the `persona` at the beginning of its prompts.

    Args:
        inner: the policy; its other prompt options stay.
        text: the persona.
        name: name in records.

    Raises:
        ValueError: the policy's template of the system message has no {persona}.
    """

    def __init__(self, inner: Policy, text: str, name: str) -> None:
        self.inner, self.text, self.name = inner, text, name
        options = own_prompt(inner) or PromptOptions()
        check_shows_persona(options.system)
        self.prompt = replace(options, persona=text)

    def act(self, requests: Sequence[TurnRequest]) -> Sequence[Reply]:
        return self.inner.act(requests)

    def check_game(self, game: AnyGame) -> None:
        check = getattr(self.inner, "check_game", None)
        if check is not None:
            check(game)

    def forget_episodes(self) -> None:
        forget_episodes(self.inner)


class AsyncTextPolicy(TextPolicy):
    """A `TextPolicy` around a policy with `act_async`."""

    async def act_async(
        self, request: TurnRequest, timeout: float | None = None
    ) -> Reply:
        inner: Any = self.inner
        reply: Reply = await inner.act_async(request, timeout)
        return reply


class ScoringTextPolicy(TextPolicy):
    """A `TextPolicy` around a policy with `action_probs`."""

    def action_probs(
        self, requests: Sequence[TurnRequest]
    ) -> list[tuple[list[float], float]]:
        inner: Any = self.inner
        probabilities: list[tuple[list[float], float]] = inner.action_probs(requests)
        return probabilities


def with_text(policy: Policy, text: str, name: str | None = None) -> TextPolicy:
    """The policy with a text in its prompts.

    >>> from arena_wrappers import make_policy
    >>> with_text(make_policy("random"), "Stand from 17.").prompt.persona
    'Stand from 17.'
    """
    kind = TextPolicy
    if is_async(policy):
        kind = AsyncTextPolicy
    elif hasattr(policy, "action_probs"):
        kind = ScoringTextPolicy
    return kind(policy, text, name or policy.name)


def check_shows_persona(template: str | None) -> None:
    """Raises ValueError if a template of the system message leaves the persona out."""
    if template is not None and "{persona}" not in template:
        raise ValueError(
            f"want {{persona}} in the template of the system message, where the text goes, got "
            f"{template!r:.80}; add it"
        )
