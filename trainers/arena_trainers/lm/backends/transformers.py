"""`TransformersBackend`: tokens by the forward passes of a transformers model."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from transformers import (
    GenerationConfig,
    LogitsProcessorList,
    PreTrainedModel,
)

from arena_trainers.finite import Diverged
from arena_trainers.lm.backends import Generated, Prompts, Sampling
from arena_trainers.lm.backends.cached_steps import generate_cache_is_exact
from arena_trainers.lm.backends.distinct import generate_distinct
from arena_trainers.lm.backends.forward_pass import (
    evaluating,
    reads_padding,
)
from arena_trainers.lm.backends.generation_settings import with_generation_config
from arena_trainers.lm.backends.padding import left_padded
from arena_trainers.lm.backends.sampling import SeededSampler, StepObserver

GenerateContext = Callable[[], AbstractContextManager[PreTrainedModel]]


class TransformersBackend:
    """Generates on the device and in the dtype of the model.

    Args:
        model: the language model.
        pad_id: fills rows up on the left; no row reads it.
        context: replaces the model while generating, where a trainer has to unwrap it.

    Attributes:
        context: gives the model to one thread at a time: `play` with a timeout has several,
            and a policy that shares the model may replace its weights in this context.
    """

    runs_model = True

    def __init__(
        self,
        model: PreTrainedModel,
        pad_id: int,
        context: GenerateContext | None = None,
    ) -> None:
        self.model, self.pad_id = model, pad_id
        self.context = _locked_context(context or (lambda: nullcontext(self.model)))

    @torch.no_grad()
    def generate(
        self,
        prompt_ids: Sequence[Sequence[int]],
        seeds: Sequence[int],
        sampling: Sampling,
        on_step: StepObserver | None = None,
    ) -> Generated:
        """As `Backend.generate`.

        Args:
            prompt_ids: token ids of the prompts.
            seeds: one integer for each prompt.
            sampling: how tokens are drawn.
            on_step: called at each step with the distributions of all rows.
        """
        if len(set(map(len, prompt_ids))) > 1 and reads_padding(self.model):
            return self._generate_by_length(prompt_ids, seeds, sampling)
        inputs = left_padded(prompt_ids, self.pad_id, self.model.device)
        sampler = SeededSampler(seeds, sampling, prompt_ids, on_step)
        with self.context() as model, evaluating(model):
            replies = generate_distinct(model, inputs, sampler, sampling)
            if replies is None:
                replies = self._generate_with_transformers(
                    model, inputs, sampler, sampling
                )
        logprobs = torch.stack(sampler.logprobs, dim=1)
        if bool(logprobs.isnan().any()):
            raise Diverged(
                "want finite logits, the model gave some that are not: its weights have "
                "diverged; train it with a lower learning_rate or max_grad_norm"
            )
        token_ids = replies.tolist()
        lengths = [_reply_length(ids, sampling.end_ids) for ids in token_ids]
        entropies = None
        if sampling.with_entropy:
            entropies = _truncate_rows(
                torch.stack(sampler.entropies, dim=1).tolist(), lengths
            )
        return Generated(
            _truncate_rows(token_ids, lengths),
            _truncate_rows(logprobs.tolist(), lengths),
            entropies,
        )

    def _generate_by_length(
        self, prompt_ids: Prompts, seeds: Sequence[int], sampling: Sampling
    ) -> Generated:
        """`generate`, one call for the prompts of each length, so that none is padded."""
        groups: dict[int, list[int]] = {}
        for i, ids in enumerate(prompt_ids):
            groups.setdefault(len(ids), []).append(i)
        num_rows = len(prompt_ids)
        token_ids: list[list[int]] = [[]] * num_rows
        logprobs: list[list[float]] = [[]] * num_rows
        entropies: list[list[float]] = [[]] * num_rows
        for group in groups.values():
            generated = self.generate(
                [prompt_ids[i] for i in group], [seeds[i] for i in group], sampling
            )
            for row, i in enumerate(group):
                token_ids[i] = generated.token_ids[row]
                logprobs[i] = generated.logprobs[row]
                if generated.entropies is not None:
                    entropies[i] = generated.entropies[row]
        return Generated(
            token_ids, logprobs, entropies if sampling.with_entropy else None
        )

    def _generate_with_transformers(
        self,
        model: PreTrainedModel,
        inputs: tuple[torch.Tensor, torch.Tensor],
        sampler: SeededSampler,
        sampling: Sampling,
    ) -> torch.Tensor:
        """int64[B, T]: the tokens of the replies, by the `generate` of transformers."""
        config = GenerationConfig(
            max_new_tokens=sampling.max_new_tokens,
            do_sample=False,
            eos_token_id=list(sampling.end_ids),
            pad_token_id=self.pad_id,
            disable_compile=True,
            # RWKV in transformers mixes up the states of a batch
            use_cache=not reads_padding(model) and generate_cache_is_exact(model),
        )
        sequences: torch.Tensor = with_generation_config(model, config).generate(  # type: ignore[operator]
            input_ids=inputs[0],
            attention_mask=inputs[1],
            generation_config=config,
            logits_processor=LogitsProcessorList([sampler]),
            synced_gpus=False,  # each process plays other games
        )
        return sequences[:, inputs[0].shape[1] :]


def _locked_context(context: GenerateContext) -> GenerateContext:
    lock = threading.RLock()

    @contextmanager
    def locked() -> Iterator[PreTrainedModel]:
        with lock, context() as model:
            yield model

    return locked


def _reply_length(token_ids: Sequence[int], end_ids: Sequence[int]) -> int:
    """Tokens up to the first that ends a reply, which counts."""
    for i, token in enumerate(token_ids):
        if token in end_ids:
            return i + 1
    return len(token_ids)


def _truncate_rows(rows: list[list[Any]], lengths: Sequence[int]) -> list[list[Any]]:
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]
