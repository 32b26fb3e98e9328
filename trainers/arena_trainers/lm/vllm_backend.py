"""`VLLMBackend`: tokens by a vLLM engine in this process."""

from collections.abc import Callable, Sequence
from typing import Any

from arena_trainers.extras import import_extra
from arena_trainers.lm.backends import Generated, Sampling
from arena_trainers.lm.vllm_adapters import EngineAdapters


class VLLMBackend:
    """Hands all prompts to the engine in one call, each with its own seed.

    Where this departs from `Backend`: log-probabilities are the engine's, only as exact as its
    precision. At temperature 0 they are vLLM's. On a GPU the batch may change the last bits of a logit, and so a draw.

    Args:
        llm: a `vllm.LLM` with `logprobs_mode="processed_logprobs"`.
        refresh: called before the engine is asked; loads the weights if they have changed.
            Gives the `LoRARequest` of the adapter that generates, or None if the engine's
            own weights do.
        adapters: the engine's adapters; None if it was built for none.
    """

    runs_model = False

    def __init__(
        self,
        llm: Any,
        refresh: Callable[[], Any],
        adapters: EngineAdapters | None = None,
    ) -> None:
        self.llm, self.refresh, self.adapters = llm, refresh, adapters

    def generate(
        self,
        prompt_ids: Sequence[Sequence[int]],
        seeds: Sequence[int],
        sampling: Sampling,
    ) -> Generated:
        """As `Backend.generate`.

        Raises:
            ValueError: entropies are asked for.
        """
        check_sampling(sampling)
        adapter = self.refresh()
        outputs = self.llm.generate(
            [{"prompt_token_ids": list(ids)} for ids in prompt_ids],
            [_params(seed, sampling) for seed in seeds],
            use_tqdm=False,
            lora_request=adapter,
        )
        replies = [output.outputs[0] for output in outputs]
        return Generated(
            [list(reply.token_ids) for reply in replies],
            [_logprobs(reply) for reply in replies],
        )


def check_sampling(sampling: Sampling) -> None:
    """Raises ValueError if vLLM, in this process or a server, cannot give what is asked."""
    if sampling.with_entropy:
        raise ValueError("vLLM gives no entropies; generate with transformers")


def _params(seed: int, sampling: Sampling) -> Any:
    return import_extra("vllm", "vllm").SamplingParams(
        seed=seed % 2**63,
        max_tokens=sampling.max_new_tokens,
        temperature=sampling.temperature,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        min_p=sampling.min_p,
        repetition_penalty=sampling.repetition_penalty,
        logprobs=0,  # of the drawn token alone
        stop_token_ids=list(sampling.end_ids),
        detokenize=False,
    )


def _logprobs(reply: Any) -> list[float]:
    """Log-probability of each token that was drawn."""
    steps = zip(reply.logprobs, reply.token_ids, strict=True)
    return [float(step[token].logprob) for step, token in steps]
