"""`best_of:N(POLICY, reward:PATH)`: samples N replies and plays the one that a reward model likes most."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from arena_trainers.lm.models import check_reward_model
from arena_wrappers import make_policy
from arena_wrappers.policies import (
    Policy,
    Reply,
    TurnRequest,
    forget_episodes,
    is_async,
    names_person,
    own_prompt,
    turn_seed,
    without_noise,
)
from arena_wrappers.policies.agents import load as load_agent
from arena_wrappers.prompts import PromptOptions

if TYPE_CHECKING:
    import torch

    from arena_trainers.lm.reward_model import RewardModel


_REWARD = "reward:"


class BestOfPolicy:
    """Plays the reply with the highest score among N replies of an inner policy.

    The first reply is sampled with the request's own seed, the others with seeds derived from
    it: with N = 1 the policy is the inner one. Of equal scores the first wins. The score
    alone decides: an illegal reply with the highest score is played. The reply has the tokens
    and log-probabilities of the inner policy; they are not those of the choice.

    Args:
        inner: samples the replies, one call of `act` for each of the N.
        reward: scores them, on the tokens that the inner policy reports. Replies without
            tokens are encoded as rows to train on are.
        num_samples: N.
        name: name in records.

    Raises:
        ValueError: N is below 1, the inner policy is a person or an endpoint, or its tokenizer
            is not that of the reward model.
    """

    def __init__(
        self,
        inner: Policy,
        reward: "RewardModel",
        num_samples: int,
        name: str = "best_of",
    ) -> None:
        if num_samples < 1:
            raise ValueError(
                f"want at least 1 reply in {name!r}, got {num_samples}; write "
                "best_of:4(lm:PATH, reward:PATH)"
            )
        if getattr(inner, "is_person", False):
            raise ValueError(
                f"want no person in {name!r}; write the person alone, as human"
            )
        if is_async(inner):
            raise ValueError(
                f"want a policy whose replies have seeds in {name!r}, got the endpoint "
                f"{inner.name!r}; give a model in a folder, as lm:PATH"
            )
        tokenizer = getattr(_sampler(inner), "tokenizer", None)
        if tokenizer is not None:
            reward.check_tokenizer(tokenizer, inner.name)
        self.inner, self.reward = inner, reward
        self.num_samples, self.name = num_samples, name

    @property
    def prompt(self) -> PromptOptions | None:
        """The prompt options that the inner policy carries."""
        return own_prompt(self.inner)

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        sampled, scores = [], []
        for sample in range(self.num_samples):
            reseeded = list(requests)
            if sample > 0:  # the first reply keeps its seed
                reseeded = [
                    replace(request, seed=turn_seed(request.seed, sample, 0, 0))
                    for request in requests
                ]
            replies = list(self.inner.act(reseeded))
            texts = [
                self.reward.encode(
                    request.messages, reply.text, reply.prompt_ids, reply.token_ids
                )
                for request, reply in zip(requests, replies, strict=True)
            ]
            sampled.append(replies)
            scores.append(self.reward.score(texts))
        best = []
        for candidates, values in zip(
            zip(*sampled, strict=True), zip(*scores, strict=True), strict=True
        ):
            best.append(candidates[values.index(max(values))])
        return best

    def forget_episodes(self) -> None:
        forget_episodes(self.inner)


def load(
    num_samples: int,
    policy: str,
    reward: str,
    *,
    make: Callable[[str], Policy] = make_policy,
    spec: str = "best_of",
    device: "str | torch.device | None" = None,
    loads: bool = True,
) -> Policy:
    """The policy of the string `best_of:N(POLICY, reward:PATH)`.

    Args:
        num_samples: N.
        policy: the string of the inner policy.
        reward: `reward:PATH`, or another scorer: the policy is then the agent `candidates`.
        make: makes the inner policy.
        spec: the whole string.
        device: of the reward model; by default the accelerator if there is one, else the CPU.
        loads: whether the reward model is loaded; else the inner policy stands in.

    Raises:
        ValueError: N is no number from 1 to 9999, or a string names no policy or no reward
            model.
    """
    if not 1 <= num_samples <= 9999:
        raise ValueError(
            f"want at least 1 reply and at most 9999 in {spec!r:.200}; write "
            "best_of:4(lm:PATH, reward:PATH)"
        )
    if not reward.startswith(_REWARD):
        options = {"num": num_samples, "scorer": reward}
        return load_agent("candidates", policy, make=make, spec=spec, **options)
    if names_person(policy):
        raise ValueError(
            f"want no person in {spec!r}; write the person alone, as human"
        )
    path = reward.removeprefix(_REWARD)
    check_reward_model(path)
    inner = make(policy)
    if not loads:
        return inner
    from arena_trainers.lm.reward_model import RewardModel

    model = RewardModel.from_pretrained(path, device=device)
    return BestOfPolicy(inner, model, num_samples, spec)


def _sampler(policy: Policy) -> Policy:
    """The policy that samples the tokens within noise and other choices."""
    inner = without_noise(policy)
    return _sampler(inner.inner) if isinstance(inner, BestOfPolicy) else inner
