"""The seam between `LMPolicy` and what generates its tokens.

`LMPolicy` knows prompts, seeds and replies; a `Backend` knows a model and its hardware.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from arena_trainers.lm.backends.top_logprobs import NUM_TOP
from arena_trainers.lm.prompt_file import check_sampling

Prompts = Sequence[Sequence[int]]  # token ids of each


@dataclass(frozen=True)
class Sampling:
    """Settings by which tokens are drawn.

    `top_k`, `top_p`, `min_p` and `repetition_penalty` change what is drawn. Log-probabilities
    are those of what is drawn, see `Generated`; a trainer's are those before the change.

    Args:
        max_new_tokens: longest reply, in tokens.
        temperature: divides the logits; 0 for the likeliest token.
        top_k: keeps the k likeliest tokens; 0 for all.
        top_p: keeps the likeliest tokens that make up this mass; 1 for all.
        min_p: keeps tokens of at least this share of the likeliest one's probability; 0
            for all.
        repetition_penalty: divides positive logits of tokens that the prompt or the reply
            holds, and multiplies negative ones; 1 for none.
        end_ids: tokens that end a reply.
        with_entropy: whether entropies are asked for.

    Raises:
        ValueError: a number is out of range.
    """

    max_new_tokens: int = 256
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    end_ids: tuple[int, ...] = ()
    with_entropy: bool = False

    def __post_init__(self) -> None:
        check_sampling(self.options)

    @property
    def options(self) -> Mapping[str, Any]:
        """The settings that `arena_prompt.json` keeps, and users choose."""
        hidden = ("end_ids", "with_entropy")
        return {name: value for name, value in vars(self).items() if name not in hidden}

    @property
    def vllm_options(self) -> dict[str, Any]:
        """The settings by vLLM's names; 0 `logprobs` are that of the drawn token alone."""
        settings = {
            **self.options,
            "stop_token_ids": list(self.end_ids),
            "logprobs": NUM_TOP if self.with_entropy else 0,
        }
        settings["max_tokens"] = settings.pop("max_new_tokens")
        return settings

    @property
    def draws_from_all(self) -> bool:
        """True if tokens are drawn from softmax(logits / temperature), nothing changed."""
        keeps_all = self.top_k == 0 and self.top_p == 1 and self.min_p == 0
        return self.temperature > 0 and keeps_all and self.repetition_penalty == 1


class Generated(NamedTuple):
    """The replies to a list of prompts, token by token.

    Attributes:
        token_ids: of each reply; the last one is its end token, unless it was cut.
        logprobs: of each token under the distribution that it was drawn from: softmax(logits
            / temperature), after top-k, top-p, min-p and the repetition penalty. At
            temperature 0: under softmax(logits).
        entropies: of the distribution that `logprobs` are of, at each token, in nats; None
            unless asked for. Of vLLM and servers, `entropy_estimate`.
    """

    token_ids: list[list[int]]
    logprobs: list[list[float]]
    entropies: list[list[float]] | None = None


class Backend(Protocol):
    """The generator of the tokens of an `LMPolicy`.

    Attributes:
        runs_model: whether it runs the policy's own model, whose weights it then needs.
    """

    runs_model: bool

    def generate(
        self, prompt_ids: Prompts, seeds: Sequence[int], sampling: Sampling
    ) -> Generated:
        """One reply for each prompt; each is drawn from its own seed, and from it alone.

        Args:
            prompt_ids: token ids of the prompts.
            seeds: one integer for each prompt.
            sampling: how tokens are drawn.
        """
        ...


GenerateOne = Callable[[Sequence[int], int, Sampling], Awaitable[Generated]]


class ContinuousBackend(Backend, Protocol):
    """A backend that writes each reply for itself: none waits for another one's end."""

    async def generate_one(
        self, prompt_ids: Sequence[int], seed: int, sampling: Sampling
    ) -> Generated:
        """The reply to one prompt; many calls may be in progress. Otherwise as `generate`."""
        ...


def generates_one(backend: Backend) -> GenerateOne | None:
    """The method of a `ContinuousBackend`; None of others, which want all prompts in one call."""
    generate_one: GenerateOne | None = getattr(backend, "generate_one", None)
    return generate_one
