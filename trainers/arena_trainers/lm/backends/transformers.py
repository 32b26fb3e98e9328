"""`TransformersBackend`: tokens by the forward passes of a transformers model.

Lockstep play asks the same prompt many times: samples of one seed start alike, and a small
game has few prompts. Rows share a forward pass as long as they are equal, prompt and reply
(`generate_distinct`). Each draws its own next token.
"""

import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    DynamicCache,
    GenerationConfig,
    LogitsProcessorList,
    PreTrainedModel,
)
from transformers.integrations import deepspeed

from arena_envs.extras import import_extra
from arena_trainers.finite import Diverged
from arena_trainers.lm.backends import Generated, Prompts, Sampling
from arena_trainers.lm.backends.sampling import Note, SeededSampler, with_settings
from arena_trainers.lm.backends.scoring import (
    cache_argument,
    evaluating,
    gap_of,
    last_logits,
    left_padded,
    positions,
    reads_padding,
    tolerance,
    without_adapters,
)

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
        self.context = _one_at_a_time(context or (lambda: nullcontext(self.model)))

    @torch.no_grad()
    def generate(
        self,
        prompt_ids: Sequence[Sequence[int]],
        seeds: Sequence[int],
        sampling: Sampling,
        note: Note | None = None,
    ) -> Generated:
        """As `Backend.generate`.

        Args:
            prompt_ids: token ids of the prompts.
            seeds: one integer for each prompt.
            sampling: how tokens are drawn.
            note: called at each step with the distributions of all rows, as `Note` says.
        """
        if len(set(map(len, prompt_ids))) > 1 and reads_padding(self.model):
            return self._by_length(prompt_ids, seeds, sampling)
        inputs = left_padded(prompt_ids, self.pad_id, self.model.device)
        sampler = SeededSampler(seeds, sampling, prompt_ids, note)
        with self.context() as model, evaluating(model):
            replies = generate_distinct(model, inputs, sampler, sampling)
            if replies is None:
                replies = self._generate(model, inputs, sampler, sampling)
        logprobs = torch.stack(sampler.logprobs, dim=1)
        if bool(logprobs.isnan().any()):
            raise Diverged(
                "want finite logits, the model gave some that are not: its weights have "
                "diverged; train it with a lower learning_rate or max_grad_norm"
            )
        token_ids = replies.tolist()
        # tokens up to the first that ends a reply, which counts
        ends = [
            (i + 1 for i, token in enumerate(ids) if token in sampling.end_ids)
            for ids in token_ids
        ]
        lengths = [next(e, len(ids)) for e, ids in zip(ends, token_ids, strict=True)]
        entropies = None
        if sampling.with_entropy:
            entropies = _cut(torch.stack(sampler.entropies, dim=1).tolist(), lengths)
        return Generated(
            _cut(token_ids, lengths),
            _cut(logprobs.tolist(), lengths),
            entropies,
        )

    def _by_length(
        self, prompt_ids: Prompts, seeds: Sequence[int], sampling: Sampling
    ) -> Generated:
        """`generate`, one call for the prompts of each length, so that none is padded."""
        groups: dict[int, list[int]] = {}
        for i, ids in enumerate(prompt_ids):
            groups.setdefault(len(ids), []).append(i)
        found: dict[int, tuple[Any, ...]] = {}
        for group in groups.values():
            own = [prompt_ids[i] for i in group], [seeds[i] for i in group]
            made = self.generate(*own, sampling)
            columns = [x for x in made if x is not None]
            found.update(zip(group, zip(*columns, strict=True), strict=True))
        rows = [found[i] for i in range(len(prompt_ids))]
        return Generated(*map(list, zip(*rows, strict=True)))

    def _generate(
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
            use_cache=not reads_padding(model) and cache_holds(model),
        )
        sequences: torch.Tensor = with_settings(model, config).generate(  # type: ignore[operator]
            input_ids=inputs[0],
            attention_mask=inputs[1],
            generation_config=config,
            logits_processor=LogitsProcessorList([sampler]),
            synced_gpus=False,  # each process plays other games
        )
        return sequences[:, inputs[0].shape[1] :]


def _one_at_a_time(context: GenerateContext) -> GenerateContext:
    lock = threading.RLock()

    @contextmanager
    def locked() -> Iterator[PreTrainedModel]:
        with lock, context() as model:
            yield model

    return locked


def _cut(rows: list[list[Any]], lengths: Sequence[int]) -> list[list[Any]]:
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]


def generate_distinct(
    model: PreTrainedModel,
    inputs: tuple[torch.Tensor, torch.Tensor],
    sampler: SeededSampler,
    sampling: Sampling,
) -> torch.Tensor | None:
    """Replies to prompts most of which are equal, or replies of one token.

    Args:
        model: a causal language model.
        inputs: int64[B, L] and int64[B, L], ids and attention mask, padded on the left.
        sampler: draws the tokens of all rows.
        sampling: how long replies are, and what ends them.

    Returns:
        int64[B, T], the tokens of the replies; anything after a row's end. None where most
        prompts differ and replies are longer than one token, or where the model's cached steps
        do not hold.
    """
    rows = torch.stack(inputs)  # [2, B, L]
    distinct, row_of = rows.unique(dim=1, return_inverse=True)
    if sampling.max_new_tokens > 1:
        most_differ = 2 * distinct.shape[1] > rows.shape[1]
        if most_differ or not steps_hold(model):
            return None
    ids, mask = distinct
    output = _forward(model, ids, mask)
    ends = torch.tensor(sampling.end_ids, device=ids.device)
    live = torch.ones_like(row_of, dtype=torch.bool)
    tokens: list[torch.Tensor] = []
    while True:
        scores: Any = output.logits[:, -1][row_of]  # [B, V]
        token = sampler(inputs[0], scores).argmax(dim=-1)  # type: ignore[arg-type] # ids
        tokens.append(token)
        live &= ~torch.isin(token, ends)
        if len(tokens) == sampling.max_new_tokens or not live.any():
            return torch.stack(tokens, dim=1)
        pairs = torch.stack([row_of[live], token[live]])
        (parents, ids), row_of_live = pairs.unique(dim=1, return_inverse=True)
        row_of = torch.zeros_like(row_of).masked_scatter(live, row_of_live)
        cache = dynamic_cache(model, output)
        cache.reorder_cache(parents)  # type: ignore[union-attr] # as in the first pass
        mask = torch.nn.functional.pad(mask[parents], (0, 1), value=1)
        output = _forward(model, ids[:, None], mask, cache)


def _forward(
    model: PreTrainedModel,
    ids: torch.Tensor,
    mask: torch.Tensor,
    cache: DynamicCache | None = None,
) -> Any:
    """The model's output for the last tokens of rows; logits of the very last one alone."""
    width = ids.shape[1]
    inputs: dict[str, Any] = dict(last_logits(model, 1))
    if cache is not None:
        inputs[str(cache_argument(model))] = cache
    return model(
        input_ids=ids,
        attention_mask=mask,
        use_cache=True,
        **inputs,
        **{name: x[:, -width:] for name, x in positions(model, mask).items()},
    )


def dynamic_cache(model: PreTrainedModel, output: Any) -> DynamicCache | None:
    """The cache of an output, which `_forward` takes; None if the model makes another kind."""
    name = cache_argument(model)
    cache = None if name is None else getattr(output, name, None)
    return cache if isinstance(cache, DynamicCache) else None


_gap_of_steps: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
_gap_of_generate: WeakKeyDictionary[Any, float] = WeakKeyDictionary()


def steps_hold(model: PreTrainedModel) -> bool:
    """True if cached steps of `_forward` give what passes without a cache give.

    Measured once of each model. State-space models may want another mask of a step.
    """
    return _measured(model, _gap_of_steps, _logits_of_steps) <= tolerance(model.dtype)


def cache_holds(model: PreTrainedModel) -> bool:
    """True if transformers' `generate` with its cache gives what passes without one give.

    Measured once of each model; warns if the cache changes log-probabilities.
    """
    is_new = without_adapters(model) not in _gap_of_generate
    gap = _measured(model, _gap_of_generate, _logits_of_generate)
    holds = gap <= tolerance(model.dtype)
    if is_new and not holds:
        warnings.warn(
            f"the cache of {model.config.model_type} is left out: with it, log-probabilities "
            f"are off by {gap:.3g} nats. Replies are exact without it, and take longer; "
            "another version of transformers may mend it",
            stacklevel=2,
        )
    return holds


@torch.no_grad()
def _measured(
    model: PreTrainedModel,
    gaps: WeakKeyDictionary[Any, float],
    logits_of: Callable[[Any, torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
) -> float:
    """`gap_of` the log-probabilities after cached steps, and those of passes without a cache."""
    inner = without_adapters(model)
    if inner not in gaps:
        prompts = torch.tensor([[2, 3, 4, 5], [3, 4, 5, 2]], device=inner.device)
        with evaluating(inner):
            sequences, cached = logits_of(inner, prompts)
            plain = inner(input_ids=sequences, use_cache=False).logits[:, -1]
        if not bool(plain.isfinite().all()):
            return 0.0  # weights that have diverged tell nothing of the cache
        cached, plain = (x.float().log_softmax(dim=-1) for x in (cached, plain))
        gaps[inner] = gap_of((cached - plain).abs(), inner.dtype)
    return gaps[inner]


def _logits_of_steps(
    model: PreTrainedModel, prompts: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences, int64[2, L + 2], and the logits after two cached steps, [2, V]; infinite without steps."""
    sequences = prompts[:1]
    output = _forward(model, sequences, torch.ones_like(sequences))
    for tokens in (prompts[:, 0], prompts[:, 1]):
        cache = dynamic_cache(model, output)
        parents = torch.arange(2, device=tokens.device).clamp(max=len(sequences) - 1)
        sequences = torch.cat([sequences[parents], tokens[:, None]], dim=1)
        if cache is None:
            return sequences, torch.full((2, 1), torch.nan, device=tokens.device)
        cache.reorder_cache(parents)  # type: ignore[arg-type] # indices
        mask = torch.ones_like(sequences)
        output = _forward(model, tokens[:, None], mask, cache)
    return sequences, output.logits[:, -1]


def _logits_of_generate(
    model: PreTrainedModel, prompts: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `_logits_of_steps`, by `generate` of transformers."""
    config = GenerationConfig(
        max_new_tokens=3,
        do_sample=False,
        disable_compile=True,
        return_dict_in_generate=True,
        output_logits=True,
    )
    made: Any = with_settings(model, config).generate(  # type: ignore[operator]
        input_ids=prompts,
        attention_mask=torch.ones_like(prompts),
        generation_config=config,
        synced_gpus=False,
    )
    return made.sequences[:, :-1], made.logits[-1]


def load_model(
    folder: Path,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    kind: Any = AutoModelForCausalLM,
) -> PreTrainedModel:
    """The model of a folder, for generation or scoring.

    Args:
        folder: of a saved model.
        device: where it runs; by default the accelerator if there is one, else the CPU.
        dtype: of its weights, such as `"bfloat16"`; by default as saved, but float32 for
            half precision on a device that is slow at it.
        kind: the class of transformers that loads it.

    Raises:
        ValueError: torch has no such floating-point type.
    """
    place = torch.device(default_device() if device is None else device)
    if dtype is None:
        saved = AutoConfig.from_pretrained(folder).dtype
        wanted = default_dtype(saved or torch.float32, place)
    else:
        wanted = _floating(dtype)
    with whole_models():
        model: Any = kind.from_pretrained(folder, dtype=wanted)
    loaded: PreTrainedModel = model.to(place).eval()
    return loaded


def with_adapter(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """A model with the adapter of a folder, for generation.

    Raises:
        ValueError: the adapter does not fit the model.
    """
    peft = import_extra("peft", "train")
    try:
        with warnings.catch_warnings(), whole_models():
            # layers of the model that lack weights are found below
            warnings.filterwarnings("ignore", "Found missing adapter keys")
            adapted: Any = peft.PeftModel.from_pretrained(model, str(folder))
        saved = peft.load_peft_weights(str(folder), device="cpu")
        fits = saved.keys() == peft.get_peft_model_state_dict(adapted).keys()
    except (RuntimeError, ValueError) as error:
        if "size mismatch" not in str(error) and "arget modules" not in str(error):
            raise
        fits = False
    if not fits:
        raise ValueError(
            f"the adapter in {str(folder)!r} is of another base model than the one in "
            f"{model.name_or_path!r}: their layers differ; give base_model_name_or_path in "
            "adapter_config.json the model that it was trained on"
        )
    loaded: PreTrainedModel = adapted.eval()
    return loaded


def _floating(dtype: str | torch.dtype) -> torch.dtype:
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise ValueError(
            f"want dtype 'float32', 'bfloat16' or 'float16', got {dtype!r}"
        )
    return found


def default_device() -> torch.device:
    """The accelerator (CUDA, MPS, XPU and others) if there is one, else the CPU."""
    if torch.accelerator.is_available():
        found = torch.accelerator.current_accelerator()
        if found is not None:
            return found
    return torch.device("cpu")


def default_dtype(saved: torch.dtype, device: torch.device) -> torch.dtype:
    """The precision in which a saved model runs.

    Half precision is kept where it is faster: not on a CPU, and bfloat16 not on CUDA
    devices that emulate it.

    Args:
        saved: of the weights in the file.
        device: where the model will run.

    >>> default_dtype(torch.bfloat16, torch.device("cpu"))
    torch.float32
    """
    is_half = saved in (torch.bfloat16, torch.float16)
    if is_half and device.type == "cpu":
        return torch.float32
    if saved == torch.bfloat16 and device.type == "cuda":
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
        return saved if fast else torch.float32
    return saved


@contextmanager
def whole_models() -> Iterator[None]:
    """Within this context transformers and TRL take models to be whole.

    Where accelerate shards training, transformers loads models in parts: under ZeRO-3 each
    process has its part, and under FSDP the first process alone has the weights. An
    opponent's model is not trained, and each process uses it by itself.
    """
    config, fsdp = deepspeed._hf_deepspeed_config_weak_ref, "ACCELERATE_USE_FSDP"
    sharded = os.environ.pop(fsdp, None)
    deepspeed.unset_hf_deepspeed_config()
    try:
        yield
    finally:
        deepspeed._hf_deepspeed_config_weak_ref = config
        if sharded is not None:
            os.environ[fsdp] = sharded
