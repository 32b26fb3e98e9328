"""TRL's loss on log-probabilities that are computed once per distinct row, in bounded memory.

TRL's loss reads a tensor of log-probabilities, one for each token of each reply. Here that
tensor is put together from fewer and smaller forward passes:

- Equal rows (the same prompt and reply tokens) run through the model once. The loss still reads
  every row, and autograd sums their gradients. So the gradient is exact for every loss, KL term,
  entropy bonus and importance ratio, and no normaliser changes.
- A prompt runs once for several replies to it, and to prompts that it begins with.
- Rows whose loss has no gradient do not run: placeholder rows, and rows of advantage 0 if
  no KL term and no entropy bonus is added.
- The rows that run are sorted by length and cut into chunks of at most
  `max_tokens_per_forward` tokens. Their activations are kept while half of the memory that is free
  holds them beside those of the largest chunk. Other chunks, but the last ones with as many tokens
  as the bound together, are computed again in the backward pass. The gradient has the same bits.
- The vocabulary is scored at the replies' positions alone. TRL scores prompts, too, where
  there is no Triton.

Differences from TRL: with dropout, equal rows share one dropout mask, and the metric
`entropy` is the mean over the rows that ran. The auxiliary router loss of a mixture of experts
is refused, because it depends on the whole batch.

**Prompts that run once.** A packed row holds a prompt without its last token, followed by one branch per reply: the last token
of the reply's prompt, and the reply without its last token. The reply's prompt is this prompt or its beginning, as
where later turns of a conversation extend the earlier ones. A branch attends to its own prompt and to itself.
Its positions continue those of its prompt. So each reply has the same log-probabilities as in a
separate row.

     prompt      branch 1     branch 2, to the prompt p q
    [ p q r ]    [ s a b ]    [ q c ]        positions  0 1 2  3 4 5  1 2
      labels       a b <e>      c <e>

**What is sampled is what is trained**: a check before step 1, and the gap of every step.

Before step 1 a few rows of the first batch are scored as training will: padded on the left,
two of them behind one prompt, by TRL's fused output layer, in chunks. Each is also scored by a
plain forward pass of its own: no padding, no mask, the model's own logits. `gap_of` their
log-probabilities must be within `tolerance`. Else prompt sharing or the fused layer is switched
off if that repairs it, with a warning. Otherwise training is refused. The check is made again
when the longest row has doubled, because an attention window shows in longer rows alone.

In every step the gap abs(log-probability as sampled - as trained) of each trained token is
measured, before the weights move. It is of rounding alone if the policy that plays is the one
that is trained. No backend corrects cut sampling (top-k, top-p, min-p, repetition penalty): the
gap shows it, and a warning says so. A token that is cut is never played, so no return lowers its
probability.

Before step 1 a few legal replies are also encoded, once behind their whole prompts and once as terms
of the loss, critics and exact evaluation score them. Other tokens are refused.

**Weights that are split among processes**, by FSDP2 or DeepSpeed's ZeRO-3. Each process plays
different games with different numbers of turns. So play must not wait for other processes: while
it lasts, every process holds all weights. The same is done for a loss that is computed in several
chunks, because the number of chunks differs between processes.
"""

import hashlib
import math
import random
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from accelerate.utils import gather_object
from torch.nn import Module
from torch.nn.utils.rnn import pad_sequence
from torch.utils.checkpoint import checkpoint
from trl.models.utils import (
    add_hooks,
    disable_gradient_checkpointing,
    remove_hooks,
)
from trl.trainer.utils import use_adapter

from arena_envs.game import random_states
from arena_eval.baselines import prepared
from arena_trainers.engines import changes_draws, training_dtype
from arena_trainers.lm.backends.forward_pass import (
    accepts_argument,
    evaluating,
    last_logits,
    reads_padding,
)
from arena_trainers.lm.backends.memory import (
    OF_FREE,
    bytes_per_token,
    chunks_by_length,
    default_max_tokens,
    free_memory,
    release_free_memory,
)
from arena_trainers.lm.backends.padding import entry_mask, padded_array
from arena_trainers.lm.backends.tolerance import logprob_gap, tolerance
from arena_trainers.lm.loading import unsharded_loading
from arena_trainers.losses import TINY, Choice, LossInputs, Term
from arena_trainers.processes import splits_weights
from arena_trainers.train.games import makers_of
from arena_trainers.train.metrics import Clock
from arena_trainers.train.records import PER_TOKEN_LOSSES, TrainingRow
from arena_wrappers import BotPolicy, TurnRequest, make_policy, messages, turn_seed
from arena_wrappers.play import turn_states
from arena_wrappers.policies import own_prompt
from arena_wrappers.prompts import find_reply_format


def is_zero3(accelerator: Any) -> bool:
    """Whether DeepSpeed splits the weights."""
    plugin = accelerator.state.deepspeed_plugin
    return plugin is not None and plugin.zero_stage == 3


def check_sharding(accelerator: Any, has_reference: bool) -> None:
    """Raises ValueError for sharding that gives wrong weights, or has not been tested.

    Args:
        accelerator: of the trainer.
        has_reference: whether there is a reference model of its own.
    """
    fsdp = getattr(accelerator.state, "fsdp_plugin", None)
    if fsdp is not None and fsdp.fsdp_version != 2:
        raise ValueError(
            f"want FSDP2, got fsdp_version {fsdp.fsdp_version}; set fsdp_version: 2 in "
            "the configuration of accelerate"
        )
    if fsdp is not None and fsdp.cpu_ram_efficient_loading and has_reference:
        raise ValueError(
            "want the weights of the reference model in every process, got "
            "fsdp_cpu_ram_efficient_loading, which loads them in one; set "
            "fsdp_cpu_ram_efficient_loading: false in the configuration of accelerate, "
            "or beta to 0"
        )
    if fsdp is not None and "FULL" not in str(fsdp.state_dict_type):
        raise ValueError(
            f"want whole weights in a saved model, got {fsdp.state_dict_type}; set "
            "fsdp_state_dict_type: FULL_STATE_DICT in the configuration of accelerate"
        )
    if is_zero3(accelerator):
        config = accelerator.state.deepspeed_plugin.deepspeed_config
        key = "stage3_gather_16bit_weights_on_model_save"
        if not config["zero_optimization"].get(key):
            raise ValueError(
                f"want whole weights in a saved model, got {key} false; set "
                "zero3_save_16bit_model: true in the configuration of accelerate"
            )


@contextmanager
def whole_weights(model: Module, accelerator: Any) -> Iterator[None]:
    """Within this context every process has all weights of a model, and may use it alone.

    Every process must enter and leave it. It must not be nested. Where weights are not
    sharded, nothing happens.
    """
    if accelerator.is_fsdp2:
        with _unsharded(model, accelerator.state.fsdp_plugin.reshard_after_forward):
            yield
    elif is_zero3(accelerator):
        with _gathered(model):
            yield
    else:
        yield


@contextmanager
def _unsharded(model: Any, reshard_after_forward: bool) -> Iterator[None]:
    """`whole_weights` under FSDP2."""
    from torch.distributed.fsdp import FSDPModule

    parts = [part for part in model.modules() if isinstance(part, FSDPModule)]
    for part in parts:
        part.set_reshard_after_forward(False, recurse=False)
        part.set_reshard_after_backward(False, recurse=False)
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            outer = part is model  # its weights are used first and last
            part.set_reshard_after_forward(
                reshard_after_forward and not outer, recurse=False
            )
            part.set_reshard_after_backward(True, recurse=False)
            part.reshard()


@contextmanager
def _gathered(model: Any) -> Iterator[None]:
    """`whole_weights` under ZeRO-3."""
    import deepspeed

    # whole models: else TRL would gather the output layer again in the backward pass
    parameters = deepspeed.zero.GatheredParameters(list(model.parameters()))
    with parameters, unsharded_loading(), _without_hooks(model):
        yield


@contextmanager
def _without_hooks(model: Any) -> Iterator[None]:
    """Keeps DeepSpeed from gathering layer by layer, and from comparing the processes.

    TRL leaves the hook of the whole model, which waits for the other processes.
    """
    if not hasattr(model, "optimizer"):  # before training
        yield
        return
    offload = getattr(model.optimizer, "parameter_offload", model.optimizer)
    key, hooks = offload.fwd_pre_hook.id, offload.module._forward_pre_hooks
    compare = hooks.pop(key)
    remove_hooks(model)
    try:
        yield
    finally:
        hooks[key] = compare
        add_hooks(model)


def load_whole(model: Module, weights: Mapping[str, Any], accelerator: Any) -> None:
    """Gives a model the weights of `accelerator.get_state_dict`; every process calls it.

    Args:
        model: as `accelerator.prepare` made it.
        weights: by name; each process has all of them.
        accelerator: of the trainer.
    """
    inner = accelerator.unwrap_model(model)
    if accelerator.is_fsdp2:
        from torch.distributed.checkpoint.state_dict import (
            StateDictOptions,
            set_model_state_dict,
        )

        options = StateDictOptions(full_state_dict=True)
        set_model_state_dict(model, dict(weights), options=options)
    elif is_zero3(accelerator):
        import deepspeed

        with deepspeed.zero.GatheredParameters(
            list(model.parameters()), modifier_rank=0
        ):
            inner.load_state_dict(weights)
    else:
        inner.load_state_dict(weights)


class Shards:
    """The part of `TurnGRPOTrainer` that knows where the weights are.

    Args:
        trainer: TRL's trainer, after its construction.

    Attributes:
        held: weights that are held from a forward pass until its backward pass is over.

    Raises:
        ValueError: as `check_sharding`.
    """

    def __init__(self, trainer: Any) -> None:
        self.trainer, self.accelerator = trainer, trainer.accelerator
        self.held = ExitStack()
        check_sharding(self.accelerator, has_reference=trainer.ref_model is not None)

    def whole_weights(self, model: Any = None) -> AbstractContextManager[None]:
        """Within this context each process can use the model without the others.

        Every process must enter it, outside of play and training. Evaluations by one process
        need it; see `arena_trainers.train.forward.whole_weights`.
        """
        own = self.trainer.model_wrapped
        is_own = model is None or model is self.trainer.model
        return whole_weights(own if is_own else model, self.accelerator)

    def weights_for_play(self, scores: bool = False) -> AbstractContextManager[None]:
        """`whole_weights`, unless all replies of the model come from a server."""
        policy = self.trainer.policy
        players = (policy, *self.trainer.games.models)
        generates = any(
            player.backend.runs_model
            for player in players
            if player.model is policy.model
        )
        needs_weights = generates or scores or self.trainer.args.critic == "exact"
        return self.whole_weights() if needs_weights else nullcontext()

    def weights_for(self, model: Any, num_passes: int) -> AbstractContextManager[None]:
        """Weights for forward passes, and for their backward pass if there is one.

        A pass through sharded weights waits for a pass of every other process. So where one
        process makes several, all of them hold all weights.

        Args:
            model: runs the rows.
            num_passes: forward passes of this process.
        """
        sharded = bool(self.accelerator.is_fsdp2) or is_zero3(self.accelerator)
        if not sharded or max(gather_object([num_passes])) == 1:
            return nullcontext()
        is_own = model is self.trainer.model_wrapped
        whole = self.whole_weights(None if is_own else model)
        if not torch.is_grad_enabled():
            return whole
        self.held.enter_context(whole)  # until the backward pass is over
        self.held.enter_context(self._checkpointing_once())
        if self.accelerator.is_fsdp2:
            self.held.enter_context(self._reduced_once())
        return nullcontext()

    @contextmanager
    def _checkpointing_once(self) -> Iterator[None]:
        """Has a backward pass give each gradient once, as DeepSpeed wants it.

        For adapters under ZeRO-3 TRL asks for reentrant checkpointing of layers, which gives
        a gradient for each pass, and which whole weights do not need.
        """
        options: Any = self.trainer.args.gradient_checkpointing_kwargs or {}
        reentrant = self.trainer.args.gradient_checkpointing and options.get(
            "use_reentrant"
        )
        model = self.accelerator.unwrap_model(self.trainer.model)
        if reentrant:
            model.gradient_checkpointing_enable({**options, "use_reentrant": False})
        try:
            yield
        finally:
            if reentrant:
                model.gradient_checkpointing_enable(options)

    @contextmanager
    def _reduced_once(self) -> Iterator[None]:
        """Has FSDP2 sum gradients over the processes once, at the end of this context.

        In the backward pass it would do so after each chunk that finds a gradient. With gradient
        accumulation those of earlier batches are there from the first chunk on.
        """
        self.trainer.model_wrapped.set_requires_gradient_sync(False)
        yield
        if self.accelerator.sync_gradients:
            self.trainer.model_wrapped.set_requires_gradient_sync(True)
            # What a backward pass ends with; there is no public call.
            self.trainer.model_wrapped._get_fsdp_state()._root_post_backward_final_callback()


IGNORED = -100  # label of a position that is not scored, in transformers
WINDOWS = ("sliding_window", "attention_chunk_size", "window_size")


class PackedRow(NamedTuple):
    """A prompt and replies to it.

    Attributes:
        rows: the row of the batch of each reply.
        prompt: int64[P - 1], the longest prompt without its last token.
        branches: int64[1 + R] for each reply: the last token of its prompt, then the reply.
        depths: positions of `prompt` that each branch follows.
        learner: index of the adapter that scores it, where there are several.
    """

    rows: list[int]
    prompt: torch.Tensor
    branches: list[torch.Tensor]
    depths: list[int]
    learner: int = 0

    @property
    def tail(self) -> int:
        """Positions behind the prompt."""
        return sum(len(branch) - 1 for branch in self.branches)


def may_share_prompts(model: Any) -> bool:
    """Whether a causal language model may take packed rows; `Agreement` proves that it does.

    It needs an attention that takes such a mask, and positions. Attention to all earlier
    tokens is asked for, because a window does not show in rows that are shorter.
    """
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None) or ["full_attention"]
    return (
        model.config._attn_implementation == "sdpa"
        and accepts_argument(model, "position_ids")
        and set(kinds) == {"full_attention"}
        and all(getattr(config, name, None) is None for name in WINDOWS)
    )


def packed_rows(
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    width: int,
    max_tokens: int,
    share: bool,
) -> list[PackedRow]:
    """Packs rows whose prompts are the beginning of one of them.

    The replies of a packed row together have at most as many tokens as its prompt. This
    bounds the attention between branches, which is computed and masked.

    Args:
        input_ids: int64[B, W]; the last `width` columns are replies.
        attention_mask: int64[B, W]; prompts have their padding on the left, replies on the
            right.
        width: columns of replies.
        max_tokens: most tokens of a packed row of several replies.
        share: whether replies may share a prompt; else each packed row has one reply.

    Returns:
        Packed rows, in the order of their first rows; each row of the batch is in one of them.
    """
    start = input_ids.shape[1] - width
    prompts = attention_mask[:, :start].sum(dim=1).clamp(min=1).tolist()
    replies = attention_mask[:, start:].sum(dim=1).clamp(min=1).tolist()
    packed: list[PackedRow] = []
    open_row: dict[bytes, PackedRow] = {}
    lengths = sorted({size - 1 for size in prompts})
    ids = input_ids.cpu()
    for i in sorted(range(len(ids)), key=lambda i: -prompts[i] * share):
        prompt = ids[i, start - prompts[i] : start - 1]
        keys = _beginnings(prompt, lengths) if share else [b"%d" % i]
        row = open_row.get(keys[-1])
        room = min(len(row.prompt), max_tokens - len(row.prompt)) if row else 0
        if row is None or row.tail + replies[i] > room:
            row = PackedRow([], prompt, [], [])
            packed.append(row)
            open_row.update(dict.fromkeys(keys, row))
        row.rows.append(i)
        row.branches.append(ids[i, start - 1 : start + replies[i]])
        row.depths.append(len(prompt))
    return sorted(packed, key=lambda row: min(row.rows))


def _beginnings(prompt: torch.Tensor, lengths: Sequence[int]) -> list[bytes]:
    """A key of each beginning of a prompt that has one of the lengths, its own the last."""
    digest, found, at = hashlib.blake2b(digest_size=16), [], 0
    for length in lengths[: bisect_right(lengths, len(prompt))]:
        digest.update(prompt[at:length].numpy().tobytes())
        found.append(digest.digest())
        at = length
    return found


def model_inputs(packed: list[PackedRow]) -> dict[str, torch.Tensor]:
    """The arguments of a forward pass over packed rows, on the CPU.

    Returns:
        `input_ids` int64[N, L], with prompts on the left of a common column and branches on
        its right; `shift_labels` int64[N, T], the next tokens of the last T positions;
        `attention_mask`; and `position_ids`, which begin behind the padding.
    """
    head = max(len(row.prompt) for row in packed)
    tail = max(row.tail for row in packed)
    ids = torch.zeros(len(packed), head + tail, dtype=torch.long)
    labels = torch.full((len(packed), tail), IGNORED)
    part = torch.full_like(ids, -1)  # -1 padding, 0 the prompt, k the branch k
    places = torch.zeros_like(ids)
    depth = torch.full_like(ids, head)  # positions of the prompt that are seen
    for n, row in enumerate(packed):
        length = len(row.prompt)
        ids[n, head - length : head] = row.prompt
        part[n, head - length : head] = 0
        places[n, head - length : head] = torch.arange(length)
        at = head
        for k, (branch, own) in enumerate(
            zip(row.branches, row.depths, strict=True), 1
        ):
            end = at + len(branch) - 1
            ids[n, at:end] = branch[:-1]
            labels[n, at - head : end - head] = branch[1:]
            part[n, at:end] = k
            places[n, at:end] = own + torch.arange(end - at)
            depth[n, at:end] = own
            at = end
    is_packed = any(len(row.branches) > 1 for row in packed)
    return {
        "input_ids": ids,
        "shift_labels": labels,
        "attention_mask": _sees(part, places, depth)
        if is_packed
        else (part >= 0).long(),
        "position_ids": places,
    }


def _sees(
    part: torch.Tensor, places: torch.Tensor, depth: torch.Tensor
) -> torch.Tensor:
    """bool[N, 1, L, L]: whether a position (row) attends to another (column)."""
    length = part.shape[1]
    earlier = torch.ones(length, length, dtype=torch.bool).tril()
    to, of = part[:, None, :], part[:, :, None]
    prompt = (to == 0) & (places[:, None, :] < depth[:, :, None])
    sees = earlier & (prompt | (to == of)) & (to >= 0)
    # Padding attends to itself, because a softmax over no position is NaN.
    return (sees | torch.eye(length, dtype=torch.bool))[:, None]


def unpacked(
    scores: Sequence[torch.Tensor], packed: list[PackedRow]
) -> dict[int, list[torch.Tensor]]:
    """The scores of each reply, cut out of the scores of packed rows.

    Args:
        scores: [N, T] each, such as log-probabilities and entropies.
        packed: the N rows.

    Returns:
        For each row of the batch, its part of each of the scores, [R].
    """
    found = {}
    for n, row in enumerate(packed):
        at = 0
        for i, branch in zip(row.rows, row.branches, strict=True):
            place = slice(at, at + len(branch) - 1)
            found[i] = [of_token[n, place] for of_token in scores]
            at = place.stop
    return found


def distinct_rows(
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    live: torch.Tensor,
    learners: torch.Tensor | None = None,
) -> tuple[list[int], torch.Tensor]:
    """The live rows without their repetitions.

    Args:
        input_ids: int64[B, W].
        attention_mask: int64[B, W]; 0 where the row has padding, whatever its id.
        live: bool[B], the rows that are needed.
        learners: int64[B], of the rows; rows of two learners differ.

    Returns:
        The first row of each kind, and int64[B], the kind of each row: an index of the
        first list, or -1 if no live row is equal.
    """
    kinds: dict[bytes, int] = {}
    firsts: list[int] = []
    keys = input_ids.masked_fill(attention_mask == 0, -1)
    if learners is not None:
        keys = torch.cat([keys, learners[:, None]], dim=1)
    texts = [row.tobytes() for row in keys.cpu().numpy()]
    for i in live.nonzero().flatten().tolist():
        if texts[i] not in kinds:
            kinds[texts[i]] = len(firsts)
            firsts.append(i)
    kind = [kinds.get(text, -1) for text in texts]
    return firsts, torch.tensor(kind, device=input_ids.device)


class TokenScores(NamedTuple):
    """What losses read of a model: log-probabilities, entropies and a critic's values, float32[B, T]."""

    logprobs: torch.Tensor
    entropies: torch.Tensor | None
    aux_loss: torch.Tensor | None = None  # third, as TRL reads it
    values: torch.Tensor | None = None


class Forward:
    """The part of `TurnGRPOTrainer` that runs rows through the model.

    Args:
        trainer: TRL's trainer, after its construction.
        shards: knows where the weights are.
        clock: counts the time.

    Attributes:
        max_tokens: most tokens that run at once, padding included.
        way: how rows run; `agreement` chooses it.
        agreement: compares what is sampled with what is trained.
        latest: the scores of the latest micro-batch that was trained.
        head: gives values, float32[N, T], of the last hidden states of the model that learns.

    Raises:
        ValueError: the model has an auxiliary loss of its router.
    """

    def __init__(self, trainer: Any, shards: Shards, clock: Clock) -> None:
        refuse_router_loss(trainer)
        self.trainer, self.accelerator = trainer, trainer.accelerator
        self.shards, self.clock = shards, clock
        self.way, self.agreement = Way(), Agreement(trainer, shards, self)
        self.max_tokens: int = trainer.args.max_tokens_per_forward or (
            default_max_tokens(
                self.accelerator.unwrap_model(trainer.model),
                trainer.args.device,
                checkpointing=trainer.args.gradient_checkpointing,
            )
        )
        self._inputs: dict[str, Any] | None = None
        self._inner = WeakKeyDictionary[Module, Any]()
        self._every_row = False
        self.latest: TokenScores | None = None
        self.head: Callable[[torch.Tensor], torch.Tensor] | None = None

    def inner(self, model: Module) -> Any:
        """The model without what accelerate wraps around it, which costs time to find."""
        if model not in self._inner:
            self._inner[model] = self.accelerator.unwrap_model(model)
        return self._inner[model]

    @contextmanager
    def loss_of(
        self, inputs: dict[str, Any], every_row: bool = False
    ) -> Iterator[None]:
        """Within this context, `score` knows the inputs of TRL's loss.

        Args:
            inputs: of the loss.
            every_row: whether rows of advantage 0 have a loss, too.
        """
        own = loss_mask(inputs)
        lengths = inputs["prompt_mask"].sum(dim=1)
        lengths = lengths + inputs["completion_mask"].sum(dim=1)
        real = own.any(dim=1)  # all but placeholder rows
        self.clock.counts["trained"] += int((lengths * real).sum())
        self._inputs, self._every_row = inputs, every_row
        try:
            yield
        finally:
            self._inputs = None

    def score(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        width: int,
        compute_entropy: bool,
        learners: torch.Tensor | None = None,
    ) -> TokenScores:
        """The scores of rows whose last `width` columns are replies; equal rows run once."""
        inputs = self._inputs
        live = torch.ones(len(input_ids), dtype=torch.bool)
        if inputs is not None:
            live = self._have_gradient(inputs)
        if learners is None:
            learners = self.learners_of(inputs, len(input_ids))
        firsts, kind = distinct_rows(input_ids, attention_mask, live, learners)
        distinct = input_ids[firsts], attention_mask[firsts]
        with self.clock.part("training"):  # the reference's pass is outside of a step
            chunks = self._chunks(model, distinct, width, learners[firsts].tolist())
            with self.shards.weights_for(model, len(chunks)):
                scores = self._score_chunks(model, chunks, width, compute_entropy)
        if inputs is not None:
            self._log_shares(len(firsts), kind, inputs)
            if self.trainer.model.training:
                counted = loss_mask(inputs) & (kind >= 0)[:, None]
                logprobs = scores.logprobs[kind.clamp(min=0)]
                self.agreement.measure(logprobs, counted, inputs)
                if self.trainer.learners is not None:
                    self.trainer.learners.measure(logprobs, counted, inputs)
        scores = _spread(scores, kind, inputs)
        if inputs is not None:
            self.latest = scores
        return scores

    def scored_before(
        self, batch: dict[str, Any], rows: Sequence[TrainingRow]
    ) -> dict[str, torch.Tensor]:
        """What TRL's loss reads of the policy before the updates, and of the reference.

        Args:
            batch: the columns of the rows.
            rows: of this process.
        """
        trainer, args, found = self.trainer, self.trainer.args, {}
        step, updates = (
            trainer.state.global_step,
            args.steps_per_generation * trainer.num_iterations,
        )
        corrects = trainer.use_vllm and trainer.vllm_importance_sampling_correction
        beta = (trainer.learners or args).beta
        sampled = batch["sampling_per_token_logps"]
        with torch.no_grad(), ExitStack() as stack:
            if args.gradient_checkpointing:
                kinds = args.gradient_checkpointing_kwargs
                off = disable_gradient_checkpointing(trainer.model, kinds)
                stack.enter_context(off)
            if trainer.ahead is not None:
                found["old_per_token_logps"] = old = sampled
            elif args.gradient_accumulation_steps % updates or corrects:
                old = self.score(trainer.model, *joined(batch), False).logprobs
                found["old_per_token_logps"] = old
            if corrects:
                ratio = importance_ratio(trainer, old, sampled, loss_mask(batch))
                found["importance_sampling_ratio"] = ratio
            if beta or trainer.terms.needs("reference", step):
                own = reference_logprobs(trainer, rows, batch)
                found["ref_per_token_logps"] = own
        return found

    def learners_of(self, inputs: dict[str, Any] | None, num: int) -> torch.Tensor:
        """int64[B]: the learner of each of `num` rows, by default of the generation batch."""
        owners = [0] * num
        if self.trainer.learners is not None:
            if inputs is not None:
                found: torch.Tensor = inputs["learner"]
                return found
            owners = [row.learner for row in self.trainer._rows]
        return torch.tensor(owners, device=self.accelerator.device)

    def _have_gradient(self, inputs: dict[str, Any]) -> torch.Tensor:
        """bool[B]: the rows whose loss depends on the model; at least one."""
        trained = loss_mask(inputs)
        trainer = self.trainer
        added = trainer.beta != 0 or trainer.has_entropy_bonus or self._every_row
        if not added and trainer.top_entropy_quantile == 1.0:
            trained = trained & (inputs["advantages"] != 0)
        live = trained.any(dim=1)
        live[0] |= ~live.any()  # every process needs a backward pass
        return live

    def _log_shares(
        self, num_run: int, kind: torch.Tensor, inputs: dict[str, Any]
    ) -> None:
        """Logs the shares of the rows, but for placeholder rows, that ran or were dropped."""
        real = loss_mask(inputs).any(dim=1)
        num_rows = max(int(real.sum()), 1)
        dropped = int((real & (kind < 0)).sum()) / num_rows
        found = {"arena/rows_run": num_run / num_rows, "arena/rows_dropped": dropped}
        self.trainer.note(found)

    def score_rows(
        self,
        model: Any,
        rows: tuple[torch.Tensor, torch.Tensor],
        width: int,
        compute_entropy: bool,
    ) -> TokenScores:
        """As training scores them, in a context in which each process has all weights."""
        chunks = self._chunks(model, rows, width)
        return self._score_chunks(model, chunks, width, compute_entropy)

    def _chunks(
        self,
        model: Any,
        rows: tuple[torch.Tensor, torch.Tensor],
        width: int,
        learners: Sequence[int] | None = None,
    ) -> list[list[PackedRow]]:
        """The rows that run at once; all of one learner."""
        most, inner = self.max_tokens, self.inner(model)
        owners, found = learners or [0] * len(rows[0]), []
        for owner in sorted(set(owners)):
            own = [i for i, one in enumerate(owners) if one == owner]
            part = rows[0][own], rows[1][own], width, most
            packed = packed_rows(*part, self.way.shared)
            prompts, tails = [len(r.prompt) for r in packed], [r.tail for r in packed]
            for chunk in chunks_by_length(prompts, tails, most, reads_padding(inner)):
                mine = [packed[i] for i in chunk]
                named = [r._replace(rows=[own[i] for i in r.rows]) for r in mine]
                found.append([r._replace(learner=owner) for r in named])
        return found

    def _score_chunks(
        self,
        model: Any,
        chunks: Sequence[list[PackedRow]],
        width: int,
        compute_entropy: bool,
    ) -> TokenScores:
        inner = self.inner(model)
        found: dict[int, list[torch.Tensor]] = {}
        sizes = [
            len(chunk)
            * (max(len(r.prompt) for r in chunk) + max(r.tail for r in chunk))
            for chunk in chunks
        ]
        layers = bool(
            self.trainer.args.gradient_checkpointing
        )  # run again by themselves
        for i, chunk in enumerate(chunks):
            if chunk is chunks[-1]:
                # Through the wrapper of a distributed run, once for each backward pass. Its
                # backward comes first, so that its activations go before others come back.
                scores = self._score_chunk(model, chunk, compute_entropy)
            elif not layers and (
                sum(sizes[i:]) <= self.max_tokens  # of several learners
                or self._fit(sizes[i] + max(sizes))
            ):
                scores = self._score_chunk(inner, chunk, compute_entropy)
            else:
                args = inner, chunk, compute_entropy
                scores = checkpoint(self._score_again, *args, use_reentrant=False)
            found.update(unpacked(scores, chunk))
        columns = zip(*(found[i] for i in range(len(found))), strict=True)
        logprobs, entropies, *values = (_padded(column, width) for column in columns)
        return TokenScores(
            logprobs, entropies if compute_entropy else None, None, *values
        )

    def _fit(self, num_tokens: int) -> bool:
        """Whether half of the memory that is free now holds activations of so many tokens."""
        if not torch.is_grad_enabled():
            return True
        own = self.inner(self.trainer.model)
        size = bytes_per_token(own.config.get_text_config())
        return num_tokens * size <= OF_FREE * free_memory(self.accelerator.device)

    def _score_again(self, *arguments: Any) -> tuple[torch.Tensor, ...]:
        """`_score_chunk` of one chunk of several, in the forward and the backward pass."""
        release_free_memory()
        return self._score_chunk(*arguments)

    def _score_chunk(
        self, model: Any, packed: list[PackedRow], compute_entropy: bool
    ) -> tuple[torch.Tensor, ...]:
        """Log-probabilities, entropies (or zeros) and values, if there is a head, float32[N, T]."""
        inputs = model_inputs(packed)
        inputs = {k: v.to(self.accelerator.device) for k, v in inputs.items()}
        tail = inputs["shift_labels"].shape[1]
        if self.trainer.learners is not None:
            model = self.trainer.learners.use(packed[0].learner, model)
        inner = self.inner(model)
        if not accepts_argument(inner, "position_ids"):
            del inputs["position_ids"]
        is_own = inner is self.inner(self.trainer.model)
        head, fused = self.head if is_own else None, self.way.fused
        watch = scoring_the_last(inner, tail, fused) if fused or head else None
        with watch or nullcontext([]) as states, self.accelerator.autocast():
            scores = self._scores(model, inputs, tail, compute_entropy)
        return scores if head is None else (*scores, head(states[0].float()))

    def _scores(
        self, model: Any, inputs: dict[str, Any], tail: int, compute_entropy: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities and entropies of the last positions, by TRL's fused layer or plainly."""
        if not self.way.fused:
            inputs |= last_logits(self.inner(model), tail)
            return plain_scores(model, inputs, tail, self.trainer.temperature)
        output = model(**inputs, fused_lm_head=True)
        logprobs: torch.Tensor = output.log_probs
        if not compute_entropy:
            return logprobs, torch.zeros_like(logprobs)
        return logprobs, output.entropy


@contextmanager
def scoring_the_last(
    model: Any, width: int, cuts: bool = True
) -> Iterator[list[torch.Tensor]]:
    """Has TRL's fused head score the vocabulary at the last `width` positions alone.

    Yields the hidden states of these positions; does nothing else unless `cuts`.
    """
    causal = model.get_base_model() if hasattr(model, "peft_config") else model
    states: list[torch.Tensor] = []

    def cut_states(module: Module, args: Any, output: Any) -> Any:
        states.append(output.last_hidden_state[:, -width:])
        if cuts:
            output.last_hidden_state = states[-1]
        return output

    hook = causal.base_model.register_forward_hook(cut_states)
    try:
        yield states
    finally:
        hook.remove()


def plain_scores(
    model: Any, inputs: dict[str, torch.Tensor], width: int, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities and entropies of the last positions, by the model's own logits."""
    labels = inputs.pop("shift_labels")
    logits: torch.Tensor = model(**inputs, use_cache=False).logits[:, -width:]
    logprobs = (logits.float() / temperature).log_softmax(dim=-1)
    own = logprobs.gather(2, labels.clamp(min=0)[..., None])[..., 0]
    finite = logprobs.clamp(min=-1e4)  # as 0 times minus infinity is NaN
    entropies = -(logprobs.exp() * finite).sum(dim=-1)
    return own.masked_fill(labels == IGNORED, 0.0), entropies


def loss_mask(inputs: dict[str, Any]) -> torch.Tensor:
    """bool[B, T]: the tokens that are trained."""
    mask: torch.Tensor = inputs["completion_mask"].bool()
    return mask & inputs["tool_mask"].bool() if "tool_mask" in inputs else mask


def _padded(rows: Sequence[torch.Tensor], width: int) -> torch.Tensor:
    """float32[B, width] of rows that may be shorter; 0 on the right."""
    joined = pad_sequence(list(rows), batch_first=True)
    return torch.nn.functional.pad(joined, (0, width - joined.shape[1]))


def _spread(
    scores: TokenScores, kind: torch.Tensor, inputs: dict[str, Any] | None
) -> TokenScores:
    """TokenScores of the distinct rows, given to all rows of their kind.

    A row that did not run gets the log-probabilities that it was sampled with, so that its
    importance ratio is 1, and the mean entropy of the others, which leaves the mean as it is.
    """
    source, ran = kind.clamp(min=0), (kind >= 0)[:, None]
    logprobs = scores.logprobs[source]
    entropies = None if scores.entropies is None else scores.entropies[source]
    values = None if scores.values is None else scores.values[source]
    if inputs is None or bool(ran.all()):
        return TokenScores(logprobs, entropies, None, values)
    old = inputs.get("old_per_token_logps")
    sampled = torch.zeros_like(logprobs) if old is None else old
    logprobs = torch.where(ran, logprobs, sampled)
    if entropies is not None:
        counted = loss_mask(inputs) & ran
        mean = (entropies.detach() * counted).sum() / counted.sum().clamp(min=1)
        entropies = torch.where(ran, entropies, mean)
    return TokenScores(logprobs, entropies, None, values)


MAX_REPLY = 64  # tokens of each row that the check compares: the last ones


class Way(NamedTuple):
    """A way in which rows run through the model.

    Attributes:
        shared: whether a prompt runs once for several replies to it.
        fused: whether TRL's fused output layer scores them, or the model's own.
    """

    shared: bool = False
    fused: bool = True


class Agreement:
    """Compares sampled, trained and plain log-probabilities.

    Args:
        trainer: TRL's trainer.
        shards: knows where the weights are.
        forward: scores rows, in the way that its `way` says.
    """

    def __init__(self, trainer: Any, shards: Shards, forward: "Forward") -> None:
        self.trainer, self.shards, self.forward = trainer, shards, forward
        self._longest = 0  # row that was checked
        self._warned = 0.0
        self._seen: list[torch.Tensor] = []  # of micro-batches: sum, largest, count

    def check(self, rows: Sequence[TrainingRow]) -> None:
        """Finds a way of scoring that is exact for rows of this length.

        Every process has to call it, outside of play and training.

        Raises:
            ValueError: there is none, or a row is longer than the model's positions allow.
        """
        own = max(len(row.prompt_ids) + len(row.completion_ids) for row in rows)
        longest = max(gather_object([own]))
        refuse_moving_positions(self.trainer.model.config, longest)
        if longest >= 2 * self._longest:
            self._longest = longest
            self._choose(checked_rows(rows, self.forward.max_tokens))

    def _choose(self, rows: Sequence[TrainingRow]) -> None:
        trainer = self.trainer
        model = trainer.accelerator.unwrap_model(trainer.model)
        bound = tolerance(self._dtype)
        shares = may_share_prompts(model)
        ways = [Way(s, f) for f in (True, False) for s in (True, False) if s <= shares]
        if trainer.args.cast_lm_head_to_fp32:  # TRL's layer alone does so
            ways = [way for way in ways if way.fused]
        gaps: dict[Way, float] = {}
        if trainer.learners is not None:
            trainer.learners.use(0)  # as `score_rows` does
        with torch.no_grad(), self.shards.whole_weights(), evaluating(model):
            with trainer.accelerator.autocast():
                wanted = [plain_logprobs(model, r, trainer.temperature) for r in rows]
            for way in ways:
                self.forward.way = way
                gaps[way] = max(gather_object([self._gap(rows, wanted, way, ways)]))
                if gaps[way] <= bound:
                    break
        if not gaps[way] <= bound:
            raise ValueError(_refusal(model.config.model_type, gaps[way], bound))
        if way != ways[0]:
            warnings.warn(_switched(ways[0], way, gaps[ways[0]]), stacklevel=2)

    def _gap(
        self,
        rows: Sequence[TrainingRow],
        wanted: Sequence[torch.Tensor],
        way: Way,
        ways: Sequence[Way],
    ) -> float:
        """The gap to the plain log-probabilities; infinite if rows cannot run in this way."""
        ids, mask, width = joined(row_tensors(rows, self.trainer))
        model = self.trainer.accelerator.unwrap_model(self.trainer.model)
        try:
            scores = self.forward.score_rows(model, (ids, mask), width, False)
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError):
            if way == ways[-1]:
                raise
            return math.inf
        found = [scores.logprobs[i, : len(own)] for i, own in enumerate(wanted)]
        # by row, as the mean of all would hide one that is off
        pairs = zip(found, wanted, strict=True)
        return max(logprob_gap((one - own).abs(), self._dtype) for one, own in pairs)

    @property
    def _dtype(self) -> torch.dtype:
        """The precision of training's forward passes."""
        dtype: torch.dtype = getattr(torch, training_dtype(self.trainer))
        return dtype

    def measure(
        self, logprobs: torch.Tensor, counted: torch.Tensor, inputs: dict[str, Any]
    ) -> None:
        """Notes the gap of a micro-batch.

        Args:
            logprobs: float32[B, T], of the rows as they are trained.
            counted: bool[B, T], tokens that are trained and that ran.
            inputs: of TRL's loss.
        """
        sampled = inputs["sampling_per_token_logps"]
        if self.trainer.ahead is not None:
            self.trainer.ahead.measure(logprobs, counted, inputs)
            return  # the weights have moved, which is no gap
        # several steps share a batch: what it was before the first of them
        trained = inputs.get("old_per_token_logps", logprobs.detach())
        gap = (trained - sampled).abs()
        gap = gap.where(counted & ~sampled.isnan(), 0.0)  # vLLM may give none
        self._seen.append(torch.stack([gap.sum(), gap.max(), counted.sum()]))

    def read(self) -> dict[str, float]:
        """The metrics since the last call; warns where sampled and trained policy differ.

        Every process has to call it.
        """
        parts = gather_object([x.tolist() for x in self._seen])
        self._seen = []
        count = sum(part[2] for part in parts)
        if count == 0:
            return {}
        mean = sum(part[0] for part in parts) / count
        largest = max(part[1] for part in parts)
        self._warn(mean, largest)
        return {"arena/sampling_gap/mean": mean, "arena/sampling_gap/max": largest}

    def _warn(self, mean: float, largest: float) -> None:
        """Warns of a gap beyond rounding; again only if it has doubled."""
        args, cut = self.trainer.args, changes_draws(self.trainer.args)
        dtype = (
            torch.bfloat16 if args.use_vllm else self._dtype
        )  # an engine rounds alike
        found = largest if dtype == torch.float32 else mean
        is_wide = found > tolerance(dtype) or cut is not None
        if not is_wide or found <= 2 * self._warned:
            return
        self._warned = found
        why = (
            ": the policy that plays is not quite the one that is trained; train in float32, "
            "or with another backend, and see arena/sampling_gap in the metrics"
        )
        if cut is not None:
            why = (
                f", because {cut} changes what is drawn, and the loss is that of the whole "
                "distribution: what is cut is never played, so training does not lower it. "
                f"Play the trained model with the same {cut}, or leave it out"
            )
        warnings.warn(
            f"sampled and trained log-probabilities differ by {mean:.2g} nats on average and "
            f"{largest:.2g} at most{why}",
            stacklevel=2,
        )


def checked_rows(rows: Sequence[TrainingRow], most: int) -> list[TrainingRow]:
    """A few rows in which padding, sharing and length can show.

    The longest row; two replies, to its prompt and to the first half of it, or of the end of it that
    leaves them room; the end of the shortest row, which is padded. A row is cut anew into prompt and
    reply: at most a third of it, so that two replies fit behind their prompt.

    Args:
        rows: of a batch.
        most: tokens of a packed row.
    """
    full = [[*row.prompt_ids, *row.completion_ids] for row in rows]
    longest, shortest = max(full, key=len), min(full, key=len)
    packed = longest[-max(3 * most // 4, 2) :]
    first, end = _cut_anew(packed), shortest[-max(2 * len(packed) // 3, 2) :]
    half = first.prompt_ids[: (len(first.prompt_ids) + 1) // 2]
    second = TrainingRow(half, packed[: len(first.completion_ids)], None, 0.0)
    return [_cut_anew(longest), first, second, _cut_anew(end)][
        len(packed) == len(longest) :
    ]


def _cut_anew(ids: Sequence[int]) -> TrainingRow:
    size = min(max((len(ids) - 1) // 3, 1), MAX_REPLY)
    return TrainingRow(ids[:-size], ids[-size:], None, 0.0)


def row_tensors(rows: Sequence[TrainingRow], trainer: Any) -> dict[str, Any]:
    """The columns of rows that TRL's loss reads, padded as TRL pads them.

    `prompt_ids` and `prompt_mask` int64[B, P], padded on the left; `completion_ids`,
    `completion_mask` and `tool_mask` int64[B, T], `advantages` and `sampling_per_token_logps`
    float32[B, T], padded on the right; `num_items_in_batch` and `num_rows_in_batch`, the tokens and the
    rows that all processes train.
    """
    prompts, replies = [r.prompt_ids for r in rows], [r.completion_ids for r in rows]
    unit, pad = trainer.pad_to_multiple_of or 1, trainer.policy.tokenizer.pad_token_id
    seen, said = entry_mask(prompts, unit)[:, ::-1], entry_mask(replies, unit)
    own, shown = (
        padded_array([r.loss_mask for r in rows], said, 0),
        said.astype(np.int64),
    )
    if trainer.mask_truncated_completions:
        ends = [*trainer.eos_token_ids, pad]
        whole = np.array(
            [[r.advantage is None or r.completion_ids[-1] in ends] for r in rows]
        )
        own, shown = own * whole, shown * whole
    none = [(0.0,) * len(ids) for ids in replies]
    sampled = [r.logprobs or zero for r, zero in zip(rows, none, strict=True)]
    credit: list[Any] = [
        zero if r.advantage is None else r.advantage
        for r, zero in zip(rows, none, strict=True)
    ]
    trained = own * shown
    sizes = int(trained.sum()), int(trained.any(axis=1).sum())
    num_tokens, num_rows = np.array(gather_object([sizes])).sum(axis=0)
    found = {
        "prompt_ids": padded_array(prompts, seen, pad),
        "prompt_mask": seen.astype(np.int64),
        "completion_ids": padded_array(replies, said, pad),
        "completion_mask": shown,
        "tool_mask": own,
        "advantages": padded_array(credit, said, 0.0),
        "sampling_per_token_logps": np.where(
            own, padded_array(sampled, said, 0.0), 0.0
        ),
        "num_items_in_batch": np.array(num_tokens),
        "num_rows_in_batch": np.array(num_rows),
    }
    return {
        name: torch.from_numpy(x.astype(np.float32) if x.dtype == np.float64 else x).to(
            trainer.accelerator.device
        )
        for name, x in found.items()
    }


def joined(batch: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Ids and mask of prompts with replies, int64[B, P + T], and T."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    return ids, mask, batch["completion_ids"].shape[1]


def plain_logprobs(model: Any, row: TrainingRow, temperature: float) -> torch.Tensor:
    """float32[R]: log-probabilities of a reply, by a plain forward pass of its row alone."""
    ids = torch.tensor([[*row.prompt_ids, *row.completion_ids]], device=model.device)
    size = len(row.completion_ids)
    keep: dict[str, Any] = dict(last_logits(model, size + 1))
    logits: torch.Tensor = model(input_ids=ids, use_cache=False, **keep).logits
    logits = logits[0, -size - 1 : -1]
    logprobs = (logits.float() / temperature).log_softmax(dim=-1)
    return logprobs.gather(1, ids[0, -size:, None])[:, 0]


def refuse_moving_positions(config: Any, longest: int) -> None:
    """Raises ValueError for rows in which rotary positions depend on the longest of a batch.

    Beyond a length, RoPE of the types `dynamic` and `longrope` turns all positions of a batch
    otherwise. A reply that grows past it was sampled with both kinds of positions.
    """
    text = config.get_text_config()
    given = getattr(text, "rope_parameters", None) or {}
    layers = [x for x in given.values() if isinstance(x, dict)] or [given]
    for rope in layers:
        kind = str(rope.get("rope_type"))
        if "dynamic" in kind or kind == "longrope":
            most = rope.get("original_max_position_embeddings")
            most = most or text.max_position_embeddings
            if longest > most:
                raise ValueError(
                    f"want prompts and replies of at most {most} tokens together, got "
                    f"{longest}: beyond, the model's positions (rope_type {kind!r}) "
                    "change with the longest row of a batch, and what is trained is "
                    "not what was sampled; give a smaller max_completion_length, "
                    "shorter prompts, or a model with other positions"
                )


def refuse_router_loss(trainer: Any) -> None:
    """Raises ValueError for a mixture of experts with an auxiliary loss."""
    if trainer.aux_loss_enabled:
        raise ValueError(
            "TurnGRPOTrainer does not support the auxiliary loss of a mixture of "
            f"experts (router_aux_loss_coef {trainer.router_aux_loss_coef}): it "
            "depends on the whole batch, which then cannot run in parts that fit into "
            "memory; give --router_aux_loss_coef 0"
        )


def _refusal(model_type: str, gap: float, bound: float) -> str:
    return (
        f"want log-probabilities in training as in a plain forward pass of {model_type}, got "
        f"some that differ by {gap:.3g} nats (at most {bound}), with and without prompt "
        "sharing and TRL's fused output layer; train in float32 (--bf16 false), or choose "
        "another model"
    )


def _switched(first: Way, way: Way, gap: float) -> str:
    off = {
        "prompt sharing": first.shared and not way.shared,
        "TRL's fused output layer": first.fused and not way.fused,
    }
    names = " and ".join(name for name, is_off in off.items() if is_off)
    gave = f"its log-probabilities were off by {gap:.3g} nats"
    return (
        f"{names} switched off: with this model "
        f"{'it does not run' if gap == float('inf') else gave}; training is exact without, "
        "and takes more time or memory"
    )


NUM_CHECKED = 20  # episodes of random play in which a teacher is checked


def rows_factor(trainer: Any, inputs: Mapping[str, Any]) -> Any:
    """What TRL's loss of a micro-batch is multiplied by, so that placeholder rows do not count.

    TRL takes the mean over the rows of each micro-batch, or over their tokens (`bnpo`), and then the
    mean over micro-batches and processes. The numbers of placeholder rows differ between them. With
    R trained rows in all, and M micro-batches of all processes, the factor of a micro-batch is

        bnpo     M r / R for r trained rows in it
        others   M n / R for n rows in it, placeholder rows included

    Then all rows of a batch weigh alike, whatever the number of processes; with `bnpo` up to the
    tokens of the micro-batch that they share. It is 1 without placeholder rows, and for losses that
    divide by all tokens of the batch.
    """
    if trainer.loss_type in PER_TOKEN_LOSSES:
        return 1.0
    args, mask = trainer.args, loss_mask(dict(inputs))
    parts = args.steps_per_generation if trainer.model.training else 1
    num_parts = parts * trainer.accelerator.num_processes
    is_local = trainer.loss_type == "bnpo"
    num_rows = mask.any(dim=1).sum() if is_local else len(mask)
    return num_parts * num_rows / inputs["num_rows_in_batch"].clamp(min=1)


def averaged(per_token: Any, mask: Any, trainer: Any, inputs: Mapping[str, Any]) -> Any:
    """The mean of a loss per token over trained rows, as TRL takes it for the `loss_type`."""
    mean = _averaged(per_token, mask, trainer, inputs)
    return rows_factor(trainer, inputs) * mean


def _averaged(
    per_token: Any, mask: Any, trainer: Any, inputs: Mapping[str, Any]
) -> Any:
    kind, args, total = trainer.loss_type, trainer.args, (per_token * mask).sum()
    trains = trainer.model.training
    parts = trainer.current_gradient_accumulation_steps if trains else 1.0
    if kind in PER_TOKEN_LOSSES:
        share = parts / args.steps_per_generation if trains else 1.0
        count = inputs["num_items_in_batch"].clamp(min=1.0)
        return total / (count / trainer.accelerator.num_processes * share)
    if kind == "bnpo":
        return total / mask.sum().clamp(min=1.0) / parts
    if kind == "dr_grpo":
        return total / (len(mask) * trainer.max_completion_length) / parts
    rows = (per_token * mask).sum(-1)
    if kind != "luspo":
        rows = rows / mask.sum(-1).clamp(min=1.0)
    return rows.mean() / parts


def turns_at(trainer: Any, places: Sequence[int]) -> Iterator[tuple[Any, Any, Any]]:
    """Record, game and state of the turn of each row; None of each for placeholder rows.

    Args:
        trainer: with the generation batch that it played last.
        places: of the rows among the records of this process; -1 for placeholder rows.
    """
    states = dict[int, list[Any]]()
    for place in places:
        if place < 0:
            yield None, None, None
            continue
        record = trainer.last_kept.records[place]
        if record.call >= 0:
            raise ValueError(
                "want turns of one generation for teachers and other prompts of the "
                "reference; leave agent out"
            )
        game, number = trainer.games.rules[record.game], record.episode
        if number not in states:
            states[number] = turn_states(trainer.last_episodes[number], game)
        yield record, game, states[number][record.place]


def reference_logprobs(
    trainer: Any, rows: Sequence[TrainingRow], batch: Mapping[str, Any]
) -> torch.Tensor:
    """float32[B, T]: what the reference gives the replies, after prompts of its own if it has some.

    Args:
        trainer: with the generation batch that it played last.
        rows: of this process.
        batch: their columns.
    """
    options, policy = trainer.args.reference_prompt, trainer.policy
    if options is not None:
        asked = [*rows]
        for i, (record, game, state) in enumerate(
            turns_at(trainer, [row.place for row in rows])
        ):
            if record is not None:
                prompt = messages(game, state, record.seat, options)
                prompt_ids = policy.encode(prompt, options.date)
                asked[i] = TrainingRow(prompt_ids, rows[i].completion_ids, None, 0.0)
        batch = row_tensors(asked, trainer)
    model, own = trainer.ref_model, trainer.accelerator.unwrap_model(trainer.model)
    with ExitStack() as stack:
        if model is None:  # the adapter was trained, and its base is the reference
            name = "ref" if "ref" in own.peft_config else None
            stack.enter_context(use_adapter(own, adapter_name=name))
            model = trainer.model
        scores: torch.Tensor = trainer.forward.score(model, *joined(batch), False)[0]
        return scores


def importance_ratio(
    trainer: Any, old: torch.Tensor, sampled: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """TRL's correction of tokens that another policy sampled, float32[B, T] or [B, 1]; logs it.

    Args:
        trainer: its `vllm_importance_sampling_mode` and limits say how.
        old: float32[B, T], log-probabilities before the update.
        sampled: float32[B, T], as they were sampled; NaN where an engine gave none.
        mask: bool[B, T], tokens that are trained.
    """
    mode, gap = trainer.vllm_importance_sampling_mode, (old - sampled).nan_to_num(0.0)
    low = trainer.vllm_importance_sampling_clip_min or 0.0
    whole = mode.startswith("sequence")
    ratio = (
        (gap * mask).sum(dim=-1, keepdim=True).exp() if whole else (gap * mask).exp()
    )
    cut = ratio.clamp(low, trainer.vllm_importance_sampling_clip_max)
    truncates = mode.endswith("truncate")
    ratio = cut if truncates else ratio.masked_fill(cut != ratio, 0.0)
    known = gap.abs()[mask & ~sampled.isnan()]
    parts = {
        "sampling/sampling_logp_difference": known,
        "sampling/importance_sampling_ratio": ratio.flatten() if whole else ratio[mask],
    }
    for name, values in parts.items():
        own = [
            f(values).item() if len(values) else 0.0
            for f in (torch.min, torch.mean, torch.max)
        ]
        lows, means, highs = zip(*gather_object([own]), strict=True)
        trainer.note(
            {
                f"{name}/min": min(lows),
                f"{name}/mean": sum(means) / len(means),
                f"{name}/max": max(highs),
            }
        )
    return ratio


class Teacher:
    """A policy whose choices among the legal actions a term reads.

    It reads one prompt per state, its own or the learner's. One without `action_probs` gives a reply,
    whose probability is 1: the cross-entropy is then right on average.
    """

    def __init__(self, trainer: Any, term: Term) -> None:
        args, self.trainer, self.term = trainer.args, trainer, term
        if splits_weights(args):
            raise ValueError(
                f"loss term {term.name!r} has a teacher, which has not been tested "
                "with weights that are split among processes; leave the term out"
            )
        known = trainer.games.opponents
        made = known.get(term.teacher) or make_policy(
            str(term.teacher), makers_of(args)
        )
        self.policy: Any = made
        self.options = own_prompt(made) or args.prompt
        if hasattr(made, "model"):
            made.model.to(args.device)
        for game in trainer.games.rules:
            prepared(made, game)
            if not term.sees_hidden and isinstance(made, BotPolicy):
                self._refuse_hidden(game)

    def _refuse_hidden(self, game: Any) -> None:
        """Raises if the bot acts otherwise in states that its seat cannot tell apart."""
        rng = random.Random(0)
        pairs = [
            (state, game.resample(state, seat, rng))
            for _ in range(NUM_CHECKED)
            for state, seat in random_states(game, rng)
            if seat >= 0 and game.information != "perfect"
        ]
        asked = [TurnRequest.at(game, s, self.options) for pair in pairs for s in pair]
        found = self._probs(asked) if asked else []
        for own, other, request in zip(
            found[::2], found[1::2], asked[::2], strict=True
        ):
            if max(abs(a - b) for a, b in zip(own, other, strict=True)) > TINY:
                raise ValueError(
                    f"teacher {self.policy.name!r} reads what seat {request.seat} of "
                    f"{game!r} cannot know: it acts otherwise in states that look "
                    "alike; give another teacher, or sees_hidden: true in "
                    f"losses[{self.term.name!r}]"
                )

    def _probs(self, requests: Sequence[TurnRequest]) -> list[list[float]]:
        if hasattr(self.policy, "action_probs"):
            return [list(probs) for probs, _ in self.policy.action_probs(requests)]
        replies = self.policy.act(requests)
        return [
            [float(reply.text == request.wrap(text)) for text in request.legal]
            for request, reply in zip(requests, replies, strict=True)
        ]

    def columns(
        self, rows: Sequence[TrainingRow], device: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """float32[B, A], the teacher's probabilities, and int64[B, A, L], the learner's tokens.

        They are 0 and -1 where there is nothing, as in placeholder rows, whose `place` is -1.
        """
        places = [row.place for row in rows]
        of_row, asked = self._asked(places)
        probs = dict(zip(asked, self._probs([*asked.values()]), strict=True))
        policy = self.trainer.policy
        wrap = find_reply_format(self.trainer.args.reply_format).wrap
        replies = {
            (i, a): [
                *policy.chat.reply_ids(rows[i].prompt_ids, wrap(text)),
                policy.eos_ids[0],
            ]
            for i, key in enumerate(of_row)
            for a, text in enumerate(asked[key].legal if key is not None else ())
        }
        most = max((len(request.legal) for request in asked.values()), default=1)
        longest = max(map(len, replies.values()), default=1)
        of_teacher = torch.zeros(len(rows), most)
        tokens = torch.full((len(rows), most, longest), -1)
        for (i, a), ids in replies.items():
            of_teacher[i, a] = probs[of_row[i]][a]
            tokens[i, a, : len(ids)] = torch.tensor(ids)
        return of_teacher.to(device), tokens.to(device)

    def _asked(self, places: Sequence[int]) -> tuple[list[Any], dict[Any, TurnRequest]]:
        """What to ask: for each row the key of its request, None without; requests by key."""
        of_row, asked = list[Any](), dict[Any, TurnRequest]()
        for record, game, state in turns_at(self.trainer, places):
            key: Any = None
            if record is not None:
                seat, where = record.seat, (record.episode, record.place)
                key = record.game, seat, game.information_state(state, seat)
                if self.term.sees_hidden or not hasattr(self.policy, "action_probs"):
                    key = where
                seed = turn_seed(record.seed, *where, seat)
                request = TurnRequest.at(game, state, self.options, seed)
                asked.setdefault(key, request)
            of_row.append(key)
        return of_row, asked

    def choice(self, inputs: Mapping[str, Any]) -> Choice:
        """Both distributions for the rows of a micro-batch; the learner's has a gradient."""
        name, trainer = f"arena_teacher_{self.term.name}", self.trainer
        probs, ids = inputs[f"{name}_probs"], inputs[f"{name}_ids"]
        rows, actions = (ids[:, :, 0] >= 0).nonzero(as_tuple=True)
        logps = torch.zeros_like(probs)
        if len(rows):
            said = ids[rows, actions]
            counted = (said >= 0).long()
            both = torch.cat([inputs["prompt_ids"][rows], said.clamp(min=0)], dim=1)
            mask = torch.cat([inputs["prompt_mask"][rows], counted], dim=1)
            model = trainer.accelerator.unwrap_model(trainer.model)
            given = model, both, mask, said.shape[1], False, inputs["learner"][rows]
            scores = trainer.forward.score(*given).logprobs
            logps = logps.index_put((rows, actions), (scores * counted).sum(dim=1))
        return Choice(probs, logps)


class LossTerms:
    """The part of `TurnGRPOTrainer` that adds terms to the loss."""

    def __init__(self, trainer: Any, terms: Sequence[Term]) -> None:
        self.trainer, self.terms = trainer, terms
        self.teachers = {t: Teacher(trainer, t) for t in terms if "teacher" in t.needs}

    def needs(self, name: str, step: int) -> bool:
        """Whether a term reads this at the step or later."""
        return any(name in t.needs and not t.weight.is_over(step) for t in self.terms)

    def active(self) -> list[Term]:
        """The terms whose weight is not 0 at this step."""
        step = self.trainer.state.global_step
        return [term for term in self.terms if term.weight.at(step)]

    def columns(self, rows: Sequence[Any], completion_ids: Any) -> dict[str, Any]:
        """Further columns of the batch of these rows, for the terms that read them."""
        trainer, found = self.trainer, {}
        step, device = trainer.state.global_step, completion_ids.device
        kept, places = trainer.last_kept, [row.place for row in rows]
        if self.needs("invalid", step):
            invalid = [p >= 0 and kept.records[p].is_invalid for p in places]
            found["arena_invalid"] = torch.tensor(invalid, device=device)
        if self.needs("values", step):
            value = trainer.last_turns.value
            if value is None:
                raise ValueError("a loss term needs values, got none; set critic")
            own = [value[kept.rows[p]] if p >= 0 else 0.0 for p in places]
            per_row = torch.tensor(own, dtype=torch.float32, device=device)
            found["arena_values"] = per_row[:, None].repeat(1, completion_ids.shape[1])
        for term, teacher in self.teachers.items():
            if not term.weight.is_over(step):
                made = teacher.columns(rows, device)
                for name, column in zip(("probs", "ids"), made, strict=True):
                    found[f"arena_teacher_{term.name}_{name}"] = column
        return found

    def loss(self, active: Sequence[Term], inputs: dict[str, Any], scores: Any) -> Any:
        """The weighted sum of the terms' means, of `columns` and the policy's `TokenScores`."""
        trainer, logps = self.trainer, scores.logprobs
        old = inputs.get("old_per_token_logps")
        mask = loss_mask(inputs)
        given = mask, inputs["advantages"], (trainer.epsilon_low, trainer.epsilon_high)
        known = {
            "old": logps.detach() if old is None else old,
            "reference": inputs.get("ref_per_token_logps"),
            "entropy": scores.entropies,
            "values": inputs.get("arena_values"),
            "invalid": inputs.get("arena_invalid"),
        }
        total = 0.0
        if not mask.any():  # placeholder rows alone
            return total
        for term in active:
            read = {name: known[name] for name in term.needs - {"teacher"}}
            if term in self.teachers:
                read["teacher"] = self.teachers[term].choice(inputs)
            own = term.function(logps, LossInputs(*given, **read))
            if term.surrogate and "importance_sampling_ratio" in inputs:  # as TRL's
                own = own * inputs["importance_sampling_ratio"]
            mean = averaged(own, mask, trainer, inputs)
            weight = term.weight.at(trainer.state.global_step)
            total = total + weight * mean
            name = f"arena/loss/{term.name}"
            trainer.note({name: float(mean.detach()), f"{name}/weight": weight})
        return total
