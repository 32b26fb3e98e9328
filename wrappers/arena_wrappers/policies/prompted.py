"""A policy with other prompt options than its own, as a comparison of two prompts needs it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from arena_envs.game import AnyGame
from arena_wrappers.policies.protocol import (
    Policy,
    Reply,
    TurnRequest,
    forget_episodes,
    is_async,
    own_prompt,
)
from arena_wrappers.prompts import PROMPT_OPTIONS, PromptOptions

MAX_CHARACTERS = 20_000  # of a text


class PromptPolicy:
    """A policy with these prompt options.

    Args:
        inner: the policy.
        prompt: options of what it reads.
        name: name in records.
    """

    def __init__(self, inner: Policy, prompt: PromptOptions, name: str) -> None:
        self.inner, self.prompt, self.name = inner, prompt, name

    def act(self, requests: Sequence[TurnRequest]) -> Sequence[Reply]:
        return self.inner.act(requests)

    def check_game(self, game: AnyGame) -> None:
        check = getattr(self.inner, "check_game", None)
        if check is not None:
            check(game)

    def forget_episodes(self) -> None:
        forget_episodes(self.inner)


class AsyncPromptPolicy(PromptPolicy):
    """A `PromptPolicy` around a policy with `act_async`."""

    async def act_async(
        self, request: TurnRequest, timeout: float | None = None
    ) -> Reply:
        inner: Any = self.inner
        reply: Reply = await inner.act_async(request, timeout)
        return reply


class ScoringPromptPolicy(PromptPolicy):
    """A `PromptPolicy` around a policy with `action_probs`."""

    def action_probs(
        self, requests: Sequence[TurnRequest]
    ) -> list[tuple[list[float], float]]:
        inner: Any = self.inner
        probabilities: list[tuple[list[float], float]] = inner.action_probs(requests)
        return probabilities


def with_prompt(
    policy: Policy, options: Mapping[str, Any], defaults: Mapping[str, Any]
) -> PromptPolicy:
    """The policy with other prompt options; its name lists them.

    Args:
        policy: whose own options stay where `options` has none.
        options: fields of `PromptOptions`.
        defaults: prompt options of a policy that carries none; other names are ignored.

    >>> from arena_wrappers import make_policy
    >>> with_prompt(make_policy("first"), {"shuffle": 1}, {}).name
    'first, shuffle=1'
    """
    prompt = own_prompt(policy)
    if prompt is None:
        fields = {name: defaults[name] for name in PROMPT_OPTIONS if name in defaults}
        prompt = PromptOptions(**fields)
    kind = PromptPolicy
    if is_async(policy):
        kind = AsyncPromptPolicy
    elif hasattr(policy, "action_probs"):
        kind = ScoringPromptPolicy
    replaced = replace(prompt, **options)  # True as shuffle is 1
    texts = [f"{name}={getattr(replaced, name)!s:.20}" for name in options]
    return kind(policy, replaced, ", ".join([policy.name, *texts]))


def of_text(
    path: str, policy: str, *, make: Callable[[str], Policy], spec: str
) -> PromptPolicy:
    """The policy of `text:FILE(STRING)`: the text of a file is the persona in its prompts."""
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"want a file of text as in text:FILE(POLICY), got {path!r:.200}: {error}"
        ) from error
    # empty is the text of `arena improve` where no other was better
    if len(text) > MAX_CHARACTERS:
        raise ValueError(
            f"want at most {MAX_CHARACTERS:,} characters in {path!r:.200}, got {len(text):,}"
        )
    player = with_prompt(make(policy), {"persona": text}, {})
    player.name = spec
    return player
