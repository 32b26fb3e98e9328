"""`best_of:N(POLICY, reward:PATH)`: samples N replies and plays the one that a reward model likes most."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from arena_trainers.lm.reward_folder import check_reward_model
from arena_wrappers import make_policy
from arena_wrappers.human import names_person
from arena_wrappers.nested import is_balanced
from arena_wrappers.noisy import without_noise
from arena_wrappers.policies import Policy, Reply, TurnRequest, own_prompt, turn_seed
from arena_wrappers.prompts import PromptOptions

if TYPE_CHECKING:
    import torch

    from arena_trainers.lm.reward_model import RewardModel

Maker = Callable[[str], Policy]

_FORM = re.compile(r"([0-9]{1,4})\((.+), *reward:(.+)\)")
_EXAMPLE = "best_of:4(lm:PATH, reward:PATH)"


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
                f"want at least 1 reply in {name!r}, got {num_samples}; write {_EXAMPLE}"
            )
        if getattr(inner, "is_person", False):
            raise ValueError(_refused_person(name))
        if hasattr(inner, "act_async"):
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
        sampled = [
            list(self.inner.act([_seeded(request, i) for request in requests]))
            for i in range(self.num_samples)
        ]
        scores = [self._scores(requests, replies) for replies in sampled]
        best = [own.index(max(own)) for own in zip(*scores, strict=True)]
        return [sampled[i][place] for place, i in enumerate(best)]

    def _scores(
        self, requests: Sequence[TurnRequest], replies: Sequence[Reply]
    ) -> list[float]:
        return self.reward.score(
            [
                self.reward.encode(r.messages, own.text, own.prompt_ids, own.token_ids)
                for r, own in zip(requests, replies, strict=True)
            ]
        )


def load(
    argument: str,
    makers: Mapping[str, Maker] | None = None,
    device: "str | torch.device | None" = None,
) -> BestOfPolicy:
    """The policy of the string `best_of:N(POLICY, reward:PATH)`.

    Args:
        argument: what follows `best_of:`.
        makers: of the inner policy, as for `make_policy`.
        device: of the reward model; by default the accelerator if there is one, else the CPU.

    Raises:
        ValueError: the string has another form, or names no policy or no reward model.
    """
    from arena_trainers.lm.reward_model import RewardModel

    num_samples, inner, path = _parts(argument)
    check_reward_model(path)
    policy = make_policy(inner, makers)
    reward = RewardModel.from_pretrained(path, device=device)
    return BestOfPolicy(policy, reward, num_samples, f"best_of:{argument}")


def check(argument: str, makers: Mapping[str, Maker]) -> Policy:
    """Checks the string `best_of:N(POLICY, reward:PATH)`; loads no reward model.

    Args:
        argument: what follows `best_of:`.
        makers: make the inner policy, or a stand-in for it.

    Returns:
        The inner policy.

    Raises:
        ValueError: as for `load`.
    """
    _, inner, path = _parts(argument)
    check_reward_model(path)
    return make_policy(inner, makers)


def _parts(argument: str) -> tuple[int, str, str]:
    """N, the inner string and the path of the reward model.

    >>> _parts("2(best_of:4(lm:a, reward:b), reward:c)")
    (2, 'best_of:4(lm:a, reward:b)', 'c')
    """
    found = _FORM.fullmatch(argument)
    if found is None or not all(map(is_balanced, found.groups())):
        raise ValueError(
            f"want best_of:N(POLICY, reward:PATH), such as {_EXAMPLE}, got "
            f"{f'best_of:{argument}'!r:.200}"
        )
    name = f"best_of:{argument}"
    if int(found[1]) < 1:
        raise ValueError(f"want at least 1 reply in {name!r}; write {_EXAMPLE}")
    if names_person(found[2]):
        raise ValueError(_refused_person(name))
    return int(found[1]), found[2], found[3]


def _refused_person(name: str) -> str:
    return f"want no person in {name!r}; write the person alone, as human"


def _sampler(policy: Policy) -> Policy:
    """What samples the tokens within noise and other choices."""
    inner = without_noise(policy)
    return _sampler(inner.inner) if isinstance(inner, BestOfPolicy) else inner


def _seeded(request: TurnRequest, sample: int) -> TurnRequest:
    """The request for one of the N replies; the first keeps its seed."""
    if sample == 0:
        return request
    return replace(request, seed=turn_seed(request.seed, sample, 0, 0))
