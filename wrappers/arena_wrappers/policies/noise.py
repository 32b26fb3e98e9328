"""Noisy policies: a random legal action with a given probability."""

import random
from collections.abc import Sequence
from typing import Any

from arena_wrappers.policies.protocol import (
    Policy,
    Reply,
    TurnRequest,
    forget_episodes,
    own_prompt,
)
from arena_wrappers.prompts import PromptOptions

NOISE = 0x6E6F697365  # makes draws independent of the inner policy's, which has the same seed


class NoisyPolicy:
    """Plays a random legal action with a given probability, else an inner policy's action.

    Args:
        inner: the inner policy; it gets no request where the action is random.
        probability: probability of a random action, from 0 to 1.
        name: name in records.

    Raises:
        ValueError: `probability` is not from 0 to 1, or the inner policy is a person.
    """

    def __init__(self, inner: Policy, probability: float, name: str) -> None:
        if not 0 <= probability <= 1:
            raise ValueError(
                f"want a probability from 0 to 1 in {name!r}, such as "
                "noisy:0.2(minimax)"
            )
        if getattr(inner, "is_person", False):
            raise ValueError(
                f"want no person in noise, got {name!r}; write the person alone, as human"
            )
        self.inner = inner
        self.probability = probability
        self.name = name

    @property
    def prompt(self) -> PromptOptions | None:
        """The prompt options that the inner policy carries."""
        return own_prompt(self.inner)

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        random_replies = [self._random_reply(request) for request in requests]
        inner_requests = [
            r
            for r, reply in zip(requests, random_replies, strict=True)
            if reply is None
        ]
        replies = iter(self.inner.act(inner_requests) if inner_requests else ())
        return [next(replies) if reply is None else reply for reply in random_replies]

    def forget_episodes(self) -> None:
        forget_episodes(self.inner)

    def _random_reply(self, request: TurnRequest) -> Reply | None:
        rng = random.Random(request.seed ^ NOISE)
        if rng.random() >= self.probability:
            return None
        return Reply(request.wrap(rng.choice(request.legal)))


class AsyncNoisyPolicy(NoisyPolicy):
    """A `NoisyPolicy` around a policy with `act_async`."""

    async def act_async(
        self, request: TurnRequest, timeout: float | None = None
    ) -> Reply:
        inner: Any = self.inner
        random_reply = self._random_reply(request)
        return random_reply or await inner.act_async(request, timeout)


class ScoringNoisyPolicy(NoisyPolicy):
    """A `NoisyPolicy` around a policy with `action_probs`."""

    def action_probs(
        self, requests: Sequence[TurnRequest]
    ) -> list[tuple[list[float], float]]:
        inner: Any = self.inner
        probabilities = []
        for chances, illegal in inner.action_probs(requests):
            noise = self.probability / len(chances)
            legal_share = (1 - self.probability) * (1 - illegal)
            legal = self.probability + legal_share
            mixed = [
                (noise + legal_share * chance) / (legal or 1) for chance in chances
            ]
            illegal_mass = (1 - self.probability) * illegal
            probabilities.append((mixed, illegal_mass) if legal else (chances, illegal))
        return probabilities


def without_noise(policy: Policy) -> Policy:
    """The innermost policy of nested `NoisyPolicy` objects."""
    while isinstance(policy, NoisyPolicy):
        policy = policy.inner
    return policy
