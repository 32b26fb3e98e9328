"""`TransformersBackend`: tokens by the forward passes of a transformers model."""

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import (
    DynamicCache,
    GenerationConfig,
    LogitsProcessorList,
    PreTrainedModel,
)

from arena_trainers.finite import Diverged
from arena_trainers.lm.backends import Generated, Prompts, Sampling
from arena_trainers.lm.backends.cached_steps import (
    cached_steps_are_exact,
    dynamic_cache,
    forward_with_cache,
    generate_cache_is_exact,
)
from arena_trainers.lm.backends.forward_pass import (
    evaluating,
    reads_padding,
    weights_version,
)
from arena_trainers.lm.backends.generation_settings import with_generation_config
from arena_trainers.lm.backends.key_values import ROOM, KeyValueShape
from arena_trainers.lm.backends.known_texts import (
    ReplyTo,
    Text,
    TextLogits,
    UncachedRows,
    one_pass_is_faster,
    texts_to_run,
)
from arena_trainers.lm.backends.memory import (
    GenerationLimits,
    chunks_by_length,
)
from arena_trainers.lm.backends.open_rows import CachedRows, EndedReply, draw_replies
from arena_trainers.lm.backends.padding import distinct_lists, left_padded
from arena_trainers.lm.backends.prefixes import (
    CachedText,
    PrefixStore,
    divisible_shape,
    pays,
    tokens_of_pass,
)
from arena_trainers.lm.backends.sampling import SeededSampler, StepObserver

MAX_LONGER = 4  # times the longest expected reply; longer ones need a cache

GenerateContext = Callable[[], AbstractContextManager[PreTrainedModel]]
T = TypeVar("T")


class WholePrompts(NamedTuple):
    """Prompts after a forward pass without earlier keys and values; see `StartedBatch`."""

    logits: torch.Tensor
    mask: torch.Tensor
    cache: DynamicCache | None


class TransformersBackend:
    """Generates on the device and in the dtype of the model.

    Keys and values of prompts and replies stay until `forget_episodes`, or until the weights
    change, see `PrefixStore`: the prompt of an episode's next turn is computed from where it
    leaves the earlier ones. That changes the last bits of a logit, as the rows of a batch do.
    Models with recurrent layers or sliding windows compute each prompt anew.

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
        self._limits: GenerationLimits | None = None
        self._store: PrefixStore | None = None
        self._store_version: object = None
        # one, once it is measured
        self._shapes: list[KeyValueShape | None] | None = None
        self._expected: dict[Text, int] = {}  # as of `texts_to_run`
        self._known: TextLogits | None = None
        self._known_version: object = None

    def forget_episodes(self) -> None:
        """Frees what is kept between the turns of episodes; no reply is expected any more."""
        self._limits = self._store = self._known = None
        self._expected = {}

    def expect_replies(self, replies: Collection[ReplyTo], num_rounds: int) -> None:
        """Announces replies that will probably be drawn until `forget_episodes`.

        If it is faster, one forward pass computes their logits before the first round
        (`arena_trainers.lm.backends.known_texts`).

        Args:
            replies: token ids of prompts, and of the replies to them.
            num_rounds: how often `generate` will be called.
        """
        num_positions = texts_to_run(replies)
        is_faster = one_pass_is_faster(self.model, num_positions, num_rounds)
        self._expected = num_positions if is_faster else {}
        self._known = None

    def generate(
        self,
        prompt_ids: Prompts,
        seeds: Sequence[int],
        sampling: Sampling,
        on_step: StepObserver | None = None,
    ) -> Generated:
        """As `Backend.generate`.

        Args:
            prompt_ids: token ids of the prompts.
            seeds: one integer for each prompt.
            sampling: how tokens are drawn.
            on_step: called at each step with the distributions of all rows, which then are
                one batch.
        """
        # The context may change weights, whose versions inference mode would not count.
        with self.context() as model, evaluating(model), torch.inference_mode():
            if on_step is not None:
                chunks = [list(range(len(prompt_ids)))]
            else:
                chunks = self._chunks(model, prompt_ids, sampling)
            generated = [
                self._generate_chunk(
                    model,
                    [prompt_ids[i] for i in chunk],
                    [seeds[i] for i in chunk],
                    sampling,
                    on_step,
                )
                for chunk in chunks
            ]
        token_ids, logprobs, entropies = (
            _in_order(chunks, lists) for lists in zip(*generated, strict=True)
        )
        return Generated(
            token_ids, logprobs, entropies if sampling.with_entropy else None
        )

    def _chunks(
        self, model: PreTrainedModel, prompt_ids: Prompts, sampling: Sampling
    ) -> list[list[int]]:
        """The prompts in batches that memory holds; without padding if the model reads it."""
        if self._limits is None:
            self._limits = GenerationLimits.of(model, model.device)
        num_new = sampling.max_new_tokens + self._limits.sampler_tokens
        return chunks_by_length(
            [len(ids) for ids in prompt_ids],
            [num_new] * len(prompt_ids),
            self._limits.max_tokens,
            alike=reads_padding(model),
        )

    def _generate_chunk(
        self,
        model: PreTrainedModel,
        prompt_ids: Prompts,
        seeds: Sequence[int],
        sampling: Sampling,
        on_step: StepObserver | None,
    ) -> Generated:
        """The replies to prompts in one batch; entropies are empty unless asked for."""
        sampler = SeededSampler(seeds, sampling, prompt_ids, on_step)
        prompts, row_of = distinct_lists(prompt_ids)
        if self._expected and on_step is None and self._are_short(sampling):
            rows = UncachedRows(self._known_logits(model), prompts)
            replies = draw_replies(rows, row_of, sampler, sampling)
        elif (store := self._store_of(model, sum(map(len, prompts)))) is not None:
            replies = _generate_from_parts(
                model, store, prompts, row_of, sampler, sampling
            )
        elif sampling.max_new_tokens == 1 or cached_steps_are_exact(model):
            replies = self._generate_whole(model, prompts, row_of, sampler, sampling)
        else:
            replies = self._generate_with_transformers(
                model, prompt_ids, sampler, sampling
            )
        logprobs = torch.stack(sampler.logprobs, dim=1)
        if bool(logprobs.isnan().any()):
            raise Diverged(
                "want finite logits, the model gave some that are not: its weights have "
                "diverged; train it with a lower learning_rate or max_grad_norm"
            )
        token_ids = replies.tolist()
        lengths = _reply_lengths(replies, sampling.end_ids)
        entropies: list[list[float]] = [[] for _ in lengths]
        if sampling.with_entropy:
            entropies = torch.stack(sampler.entropies, dim=1).tolist()
        return Generated(
            _truncate_rows(token_ids, lengths),
            _truncate_rows(logprobs.tolist(), lengths),
            _truncate_rows(entropies, lengths),
        )

    def _are_short(self, sampling: Sampling) -> bool:
        """Whether replies cannot become much longer than the expected ones.

        Tokens that are not expected run without a cache, which takes long in long replies.
        """
        return sampling.max_new_tokens <= MAX_LONGER * max(self._expected.values())

    def _known_logits(self, model: PreTrainedModel) -> TextLogits:
        """Next-token logits of expected replies, for the current weights."""
        version = weights_version(model)
        if self._known is None or version != self._known_version:
            self._known_version = version
            self._known = TextLogits(model, self.pad_id, self._expected)
        return self._known

    def _store_of(self, model: PreTrainedModel, num_tokens: int) -> PrefixStore | None:
        """What is kept for the model's weights; None if its cache cannot be cut, or is not worth it.

        Args:
            model: with these weights.
            num_tokens: of the prompts.
        """
        if not pays(model, num_tokens):
            return None
        if self._shapes is None:
            self._shapes = [divisible_shape(model)]
        (shape,) = self._shapes
        if shape is None:
            return None
        version, limits = weights_version(model), self._limits
        if self._store is None or version != self._store_version:
            limits = limits or GenerationLimits.of(model, model.device)
            self._store_version = version
            self._store = PrefixStore(
                shape,
                model.device,
                max_slots=limits.max_kept,
                max_tokens=limits.max_tokens,
                pass_tokens=tokens_of_pass(model),
                pad_id=self.pad_id,
            )
        return self._store

    def _generate_whole(
        self,
        model: PreTrainedModel,
        prompts: Prompts,
        row_of: NDArray[np.int64],
        sampler: SeededSampler,
        sampling: Sampling,
    ) -> NDArray[np.int64]:
        """As `_generate_from_parts`, of prompts that are computed anew."""
        ids, mask = left_padded(prompts, self.pad_id, model.device)
        output = forward_with_cache(model, ids, mask)
        batch = WholePrompts(output.logits, mask, dynamic_cache(model, output))
        return draw_replies(CachedRows(model, batch), row_of, sampler, sampling)

    def _generate_with_transformers(
        self,
        model: PreTrainedModel,
        prompt_ids: Prompts,
        sampler: SeededSampler,
        sampling: Sampling,
    ) -> NDArray[np.int64]:
        """int64[B, T], the tokens of replies, by the `generate` of transformers."""
        ids, mask = left_padded(prompt_ids, self.pad_id, model.device)
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
            input_ids=ids,
            attention_mask=mask,
            generation_config=config,
            logits_processor=LogitsProcessorList([sampler]),
            synced_gpus=False,  # each process plays other games
        )
        replies: NDArray[np.int64] = sequences[:, ids.shape[1] :].cpu().numpy()
        return replies


def _generate_from_parts(
    model: PreTrainedModel,
    store: PrefixStore,
    prompt_ids: Prompts,
    row_of: NDArray[np.int64],
    sampler: SeededSampler,
    sampling: Sampling,
) -> NDArray[np.int64]:
    """int64[B, T], the tokens of replies to prompts of which parts are known.

    Args:
        model: with the weights of the store.
        store: what is known.
        prompt_ids: distinct prompts.
        row_of: int64[B], the prompt of each reply.
        sampler: draws the tokens of all replies.
        sampling: how long they are, and what ends them.
    """
    prompts = [np.array(ids) for ids in prompt_ids]
    batch = store.prefill(model, prompts, room=min(sampling.max_new_tokens, ROOM))
    num_places = batch.mask.shape[1]  # before the replies

    def keep_ended(ended: Sequence[EndedReply]) -> None:
        store.add(
            batch.cache,
            (
                CachedText(
                    row=row,
                    tokens=np.concatenate([prompts[row_of[reply]], tokens[:-1]]),
                    end=num_places + len(tokens) - 1,
                )
                for reply, row, tokens in ended
            ),
        )

    rows = CachedRows(model, batch, keep_ended)
    return draw_replies(rows, row_of, sampler, sampling)


def _locked_context(context: GenerateContext) -> GenerateContext:
    lock = threading.RLock()

    @contextmanager
    def locked() -> Iterator[PreTrainedModel]:
        with lock, context() as model:
            yield model

    return locked


def _reply_lengths(replies: NDArray[np.int64], end_ids: Sequence[int]) -> list[int]:
    """Tokens of each reply up to the first that ends it, which counts."""
    ends = (replies[:, :, None] == np.array(end_ids, np.int64)).any(axis=2)
    lengths = np.where(ends.any(axis=1), ends.argmax(axis=1) + 1, replies.shape[1])
    return [int(length) for length in lengths]


def _truncate_rows(rows: list[list[T]], lengths: Sequence[int]) -> list[list[T]]:
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]


def _in_order(
    chunks: Sequence[Sequence[int]], lists: Sequence[Sequence[list[T]]]
) -> list[list[T]]:
    """The entries of chunks by their index."""
    by_index = {
        i: entry
        for chunk, entries in zip(chunks, lists, strict=True)
        for i, entry in zip(chunk, entries, strict=True)
    }
    return [by_index[i] for i in range(len(by_index))]
