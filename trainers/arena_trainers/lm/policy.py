"""`LMPolicy`: a causal language model plays a seat.

`learner_of` makes one of the model that a trainer of TRL's trains.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import torch
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from arena_trainers.lm.backends import Backend, GenerateOne, Sampling, generates_one
from arena_trainers.lm.backends.forward_pass import check_no_prompt_tuning
from arena_trainers.lm.backends.generation_settings import model_end_ids
from arena_trainers.lm.backends.scoring import reply_logprobs
from arena_trainers.lm.backends.transformers import GenerateContext, TransformersBackend
from arena_trainers.lm.chat import Chat
from arena_trainers.lm.context import context_length
from arena_trainers.lm.loading import load_model, with_adapter
from arena_trainers.lm.models import (
    adapter_base,
    check_language_model,
    model_folder,
    prompt_folder,
)
from arena_trainers.lm.prompt_file import (
    PROMPT_FILE,
    check_sampling,
    prompt_json,
    read_prompt_file,
)
from arena_wrappers.policies import Reply, TurnRequest, forget_episodes
from arena_wrappers.prompts import DATE, Message, PromptOptions
from arena_wrappers.records import Turn

if TYPE_CHECKING:
    from trl import GRPOConfig, GRPOTrainer

MAX_MEMO = 50_000  # prompts whose token ids are remembered
NUM_CHECKED = 4  # prompts, and replies to each, whose tokens are compared with those of whole texts


class ReplyChoice(NamedTuple):
    """Which reply of a turn was sampled, and how likely the canonical ones were.

    Attributes:
        probs: of the canonical reply of each legal action, with any of its end tokens.
        sampled: index of the legal action whose canonical reply was sampled, token by token; -1 if
            another reply was.
    """

    probs: Sequence[float]
    sampled: int


class LMPolicy:
    """Batched generation; keeps the token ids and log-probabilities of what it says.

    Each reply is sampled by numbers from its request's seed, so that the other requests
    in the batch do not change it. Where a seat's history is a transcript, the tokens of
    earlier turns are kept as they were sampled, never encoded again from text.

    Args:
        model: the language model, which scores actions, and generates unless there is a
            `backend`.
        tokenizer: its tokenizer, with a chat template.
        batch_size: most rows in one forward pass; None for all.
        chat_template_kwargs: passed to the chat template.
        reasoning_marks: what begins and what ends the model's reasoning, such as
            `["<think>", "</think>"]`; empty if it does not reason; None to learn them from the
            chat template.
        prompt: what the model reads and how its replies are read, in whatever environment
            it plays; None: as the environment says.
        name: how the policy is called in records.
        context: replaces the model while it is used, where a trainer has to unwrap it.
        backend: generates in place of the model.
        max_context: most tokens of a prompt with its reply; by default what the model's
            configuration says. A reply is cut there, and a longer prompt gets none.
        **sampling: `max_new_tokens`, `temperature`, `top_k`, `top_p`, `min_p`,
            `repetition_penalty` and `with_entropy` of `Sampling`.

    Attributes:
        chat: from messages to tokens.
        sampling: how tokens are drawn.
        backend: what generates.
        context: gives the model that scores.
        eos_ids: tokens that end a reply, the one that the chat template writes first.
        max_context: most tokens of a prompt with its reply; None for no limit.

    Raises:
        ValueError: the chat template cannot prompt, a number is out of range, or the model
            is prompt-tuned: a plain forward pass ignores the learned prompt.
    """

    backend: Backend

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        batch_size: int | None = None,
        chat_template_kwargs: dict[str, Any] | None = None,
        reasoning_marks: Sequence[str] | None = None,
        prompt: PromptOptions | None = None,
        name: str = "lm",
        context: GenerateContext | None = None,
        backend: Backend | None = None,
        max_context: int | None = None,
        **sampling: Any,
    ) -> None:
        self.chat_template_kwargs = chat_template_kwargs or {}
        self.reasoning_marks = reasoning_marks
        check_sampling(self._template_settings)
        check_no_prompt_tuning(model)
        self.tokenizer = tokenizer
        self.name, self.prompt, self.batch_size = name, prompt, batch_size
        date = DATE if prompt is None else prompt.date
        self.chat = Chat(
            tokenizer,
            model_end_ids(model),
            template_options=chat_template_kwargs,
            reasoning_marks=reasoning_marks,
            date=date,
        )
        self.eos_ids = self.chat.end_ids
        if not self.eos_ids:
            name = tokenizer.name_or_path or type(tokenizer).__name__
            raise ValueError(
                "no token ends a reply: want a tokenizer with an EOS token, got "
                f"{name!r} without one; set tokenizer.eos_token"
            )
        self.sampling = Sampling(end_ids=tuple(self.eos_ids), **sampling)
        limits = [context_length(model.config), max_context]
        self.max_context = min(
            (limit for limit in limits if limit is not None), default=None
        )
        pad = tokenizer.pad_token_id
        self.pad_id: int = self.eos_ids[0] if pad is None else int(pad)
        self.run_on(model, context)
        if backend is not None:
            self.backend = backend
        self._is_checked = False
        self.begin_memos()

    def begin_memos(self) -> None:
        """Remembers no texts; a copy of a policy then shares none with it."""
        self._prompt_memo: dict[tuple[str, ...], list[int]] = {}
        self._reply_texts: dict[tuple[int, ...], str] = {}

    def run_on(
        self, model: PreTrainedModel, context: GenerateContext | None = None
    ) -> TransformersBackend:
        """Generates and scores with this model from here on.

        Args:
            model: the language model.
            context: replaces it while it is used.

        Returns:
            The new backend.
        """
        backend = TransformersBackend(model, self.pad_id, context)
        self.model, self.context = model, backend.context
        self.backend = backend
        return backend

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path,
        *,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
        **options: Any,
    ) -> "LMPolicy":
        """The policy of a model and tokenizer in a folder, or on the Hugging Face hub.

        Args:
            path: a folder that `save_pretrained` or a trainer wrote, of a model or an
                adapter, or an id of the hub.
            device: where it runs; by default the accelerator if there is one, else the CPU.
            dtype: of its weights; by default as saved, but float32 for half precision on a
                CPU.
            **options: as for the constructor; by default what the folder's
                `arena_prompt.json` says, see `arena_trainers.lm.prompt_file`.

        Raises:
            ValueError: there is no such model, it is a reward model, it has a broken
                `arena_prompt.json`, or the adapter is of another base model.
        """
        base = adapter_base(str(path))
        check_language_model(base or str(path))
        folder = model_folder(base or str(path))
        model = load_model(folder, device, dtype)
        if base is not None:
            model = with_adapter(model, Path(path))
        options = {**read_prompt_file(prompt_folder(str(path))), **options}
        options.setdefault("name", f"lm:{path}")
        has_tokenizer = (
            base is not None and (Path(path) / "tokenizer_config.json").is_file()
        )
        tokenizer = AutoTokenizer.from_pretrained(path if has_tokenizer else folder)
        return cls(model, tokenizer, **options)

    def save_pretrained(self, folder: str | Path) -> None:
        """Writes model, tokenizer and `arena_prompt.json`, for `from_pretrained`.

        Raises:
            ValueError: `chat_template_kwargs` is nothing that JSON can hold.
        """
        options = self.prompt_json()
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        (Path(folder) / PROMPT_FILE).write_text(options)

    def prompt_json(self) -> str:
        """The content of `arena_prompt.json`."""
        return prompt_json(
            self.prompt, {**self.sampling.options, **self._template_settings}
        )

    @property
    def draws_as_scored(self) -> bool:
        """Whether replies are drawn with the probabilities that `action_probs` reports."""
        s = self.sampling
        is_cut = s.top_k > 0 or s.top_p < 1 or s.min_p > 0
        return s.temperature > 0 and not is_cut and s.repetition_penalty == 1

    @property
    def _template_settings(self) -> dict[str, Any]:
        options: dict[str, Any] = {"chat_template_kwargs": self.chat_template_kwargs}
        if self.reasoning_marks is not None:
            options["reasoning_marks"] = list(self.reasoning_marks)
        return options

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        size = self.batch_size or max(len(requests), 1)
        replies: list[Reply] = []
        for start in range(0, len(requests), size):
            chunk = requests[start : start + size]
            prompts = self.prompts_ids(chunk)
            replies += self.generate(prompts, [request.seed for request in chunk])
        return replies

    @property
    def act_async(
        self,
    ) -> Callable[[TurnRequest, float | None], Awaitable[Reply]] | None:
        """As `AsyncPolicy.act_async` where the backend writes each reply for itself; else None."""
        generate_one = generates_one(self.backend)
        return generate_one and partial(self._act_async, generate_one)

    async def _act_async(
        self,
        generate_one: GenerateOne,
        request: TurnRequest,
        timeout: float | None = None,
    ) -> Reply:
        (prompt,) = self.prompts_ids([request])
        limit = self._max_reply_tokens(len(prompt))
        if limit < 1:
            return Reply("", instead="context_length")
        async with asyncio.timeout(timeout):
            sampling = replace(self.sampling, max_new_tokens=limit)
            generated = await generate_one(prompt, request.seed, sampling)
        entropies = generated.entropies
        return self._reply(
            prompt=list(prompt),
            ids=generated.token_ids[0],
            logprobs=generated.logprobs[0],
            entropies=None if entropies is None else entropies[0],
        )

    def forget_episodes(self) -> None:
        """Frees what the backend keeps between the turns of episodes."""
        forget_episodes(self.backend)

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int]
    ) -> list[Reply]:
        """One reply for each prompt of token ids, sampled from its seed.

        A reply is cut where it would outgrow the model's context; a prompt that fills the
        context gets none, for the reason `"context_length"`.
        """
        lengths = {*map(len, prompts)}
        limits = {length: self._max_reply_tokens(length) for length in lengths}
        replies: list[Reply | None] = [None] * len(prompts)
        for limit in sorted({limit for limit in limits.values() if limit > 0}):
            places = [i for i, ids in enumerate(prompts) if limits[len(ids)] == limit]
            generated = self.backend.generate(
                [prompts[i] for i in places],
                [seeds[i] for i in places],
                replace(self.sampling, max_new_tokens=limit),
            )
            entropies: Sequence[list[float] | None] = generated.entropies or [
                None
            ] * len(places)
            rows = zip(
                places,
                generated.token_ids,
                generated.logprobs,
                entropies,
                strict=True,
            )
            for i, ids, logprobs, row_entropies in rows:
                replies[i] = self._reply(list(prompts[i]), ids, logprobs, row_entropies)
        return [
            Reply("", instead="context_length") if reply is None else reply
            for reply in replies
        ]

    def _max_reply_tokens(self, length: int) -> int:
        """Most tokens of a reply to a prompt of this length; below 1 if that fills the context."""
        max_new_tokens = self.sampling.max_new_tokens
        if self.max_context is None:
            return max_new_tokens
        return min(max_new_tokens, self.max_context - length)

    @torch.no_grad()
    def action_probs(
        self, requests: Sequence[TurnRequest]
    ) -> list[tuple[list[float], float]]:
        """Scores the canonical reply of every legal action, with any of its end tokens.

        Other spellings that would also parse are not scored: the illegal mass is an upper
        bound. Probabilities are those at the sampling temperature, of all tokens: without
        top-k, top-p, min-p and repetition penalty.

        Returns:
            For each request: probabilities over `legal`, which sum to 1, and the mass that
            the model puts on everything else. A reply that outgrows the model's context has
            mass 0; where all do, `legal` is uniform and the mass on everything else is 1.

        Raises:
            ValueError: the temperature is 0, where there is no distribution.
        """
        if self.sampling.temperature == 0:
            raise ValueError("a policy at temperature 0 has no action probabilities")
        if requests:
            self.check_scored(requests, requests[0].wrap)
        prompts = self.prompts_ids(requests)
        rows = [
            (prompt, self.chat.reply_ids(prompt, request.wrap(text)))
            for prompt, request in zip(prompts, requests, strict=True)
            for text in request.legal
        ]
        scores = self._scores(rows)
        distributions = []
        start = 0
        for request in requests:
            num_legal = len(request.legal)
            mass = torch.tensor(scores[start : start + num_legal]).double().exp()
            start += num_legal
            total = float(mass.sum())
            if total > 0:
                probs = mass / total
            else:
                probs = torch.full((num_legal,), 1 / num_legal)
            distributions.append((probs.tolist(), max(0.0, 1.0 - total)))
        return distributions

    @torch.no_grad()
    def reply_choices(
        self, turns: Sequence[Turn], wraps: Sequence[Callable[[str], str]]
    ) -> list[ReplyChoice]:
        """The probabilities of the canonical replies of turns that this policy sampled.

        The probability of a reply that is too long to be sampled with its end token is 0.

        Args:
            turns: each with the token ids of its prompt and of its reply.
            wraps: of each turn, the reply that names an action.

        Raises:
            ValueError: replies are sampled from another distribution than that of all tokens.
        """
        if not self.draws_as_scored:
            raise ValueError(
                "want replies that are sampled from all tokens, got "
                f"{self.sampling.options}; leave out top_k, top_p, min_p and "
                "repetition_penalty, and set a temperature above 0"
            )
        replies = [
            [
                tuple(self.chat.reply_ids(turn.prompt_ids or (), wrap(text)))
                for text in turn.legal
            ]
            for turn, wrap in zip(turns, wraps, strict=True)
        ]
        places: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        keys = [
            [(tuple(turn.prompt_ids or ()), reply) for reply in of_turn]
            for turn, of_turn in zip(turns, replies, strict=True)
        ]
        for key in (key for of_turn in keys for key in of_turn):
            places.setdefault(key, len(places))
        scores = self._scores([(list(prompt), list(reply)) for prompt, reply in places])
        probs = [
            math.exp(score) if len(reply) < self._max_reply_tokens(len(prompt)) else 0.0
            for (prompt, reply), score in zip(places, scores, strict=True)
        ]
        choices = []
        for turn, of_turn, of_replies in zip(turns, keys, replies, strict=True):
            *ids, last = turn.token_ids or (-1,)
            is_canonical = last in self.eos_ids and tuple(ids) in of_replies
            place = of_replies.index(tuple(ids)) if is_canonical else -1
            choices.append(ReplyChoice([probs[places[key]] for key in of_turn], place))
        return choices

    def _scores(self, rows: Sequence[tuple[list[int], list[int]]]) -> list[float]:
        """Log-probability of each reply after its prompt; -inf beyond the model's context."""
        scores = [-math.inf] * len(rows)
        limit = math.inf if self.max_context is None else self.max_context
        fitting = [
            i
            for i, (prompt, reply) in enumerate(rows)
            if len(prompt) + len(reply) < limit
        ]
        size = self.batch_size or max(len(rows), 1)
        for start in range(0, len(fitting), size):
            places = fitting[start : start + size]
            with self.context() as model:
                logprobs = reply_logprobs(
                    model,
                    [rows[i] for i in places],
                    temperature=self.sampling.temperature,
                    pad_id=self.pad_id,
                    eos_ids=self.eos_ids,
                )
            for i, score in zip(places, logprobs, strict=True):
                scores[i] = score
        return scores

    def check_scored(
        self, turns: Sequence[TurnRequest | Turn], wrap: Callable[[str], str]
    ) -> None:
        """Compares what is scored with the tokens of whole texts: a few replies, once.

        Args:
            turns: with prompts and the texts of legal actions.
            wrap: the reply that names an action.

        Raises:
            ValueError: they differ, see `Chat.check_reply`.
        """
        if self._is_checked or not turns:
            return
        for turn in turns[:NUM_CHECKED]:
            for text in turn.legal[:NUM_CHECKED]:
                self.chat.check_reply(turn.messages, wrap(text))
        self._is_checked = True

    def prompt_ids(self, request: TurnRequest) -> list[int]:
        """Token ids of the prompt, the generation prompt included."""
        return self.prompts_ids([request])[0]

    def prompts_ids(self, requests: Sequence[TurnRequest]) -> list[list[int]]:
        """The `prompt_ids` of each request; new texts are encoded in one call."""
        keys: list[tuple[str, ...]] = []
        texts: dict[tuple[str, ...], str] = {}  # that are to be encoded, by key
        for request in requests:
            if len(request.context_ids) > 0:
                text = self.chat.continuation_text(request.messages)
                key: tuple[str, ...] = (text,)
                texts[key] = text
            else:
                parts = [request.date]
                for message in request.messages:
                    parts += [message["role"], message["content"]]
                key = tuple(parts)
                if key not in self._prompt_memo and key not in texts:
                    texts[key] = self.chat.prompt_text(request.messages, request.date)
            keys.append(key)
        new = dict(zip(texts, self.chat.ids_of([*texts.values()]), strict=True))
        prompts: list[list[int]] = []
        for request, key in zip(requests, keys, strict=True):
            ids = new[key] if key in new else self._prompt_memo[key]
            if context := request.context_ids:
                ids = [*context, *self.chat.continuation_ids(context, ids)]
            prompts.append(ids)
        if len(self._prompt_memo) + len(new) > MAX_MEMO:
            self._prompt_memo.clear()
        self._prompt_memo.update((key, ids) for key, ids in new.items() if len(key) > 1)
        return prompts

    def encode(self, messages: Sequence[Message], date: str | None = None) -> list[int]:
        """Token ids of a prompt that is given as messages; see `Chat.encode`."""
        return self.chat.encode(messages, date)

    def _reply(
        self,
        prompt: list[int],
        ids: list[int],
        logprobs: list[float],
        entropies: list[float] | None = None,
    ) -> Reply:
        is_whole = ids[-1] in self.eos_ids
        text_ids = tuple(ids[:-1] if is_whole else ids)
        if text_ids not in self._reply_texts:
            if len(self._reply_texts) >= MAX_MEMO:
                self._reply_texts.clear()
            # special tokens stay visible: a reply that contains one is no action
            self._reply_texts[text_ids] = self.chat.decoded(text_ids)
        text = self.chat.readable_reply(prompt, self._reply_texts[text_ids])
        return Reply(
            text=text,
            prompt_ids=prompt,
            token_ids=ids,
            logprobs=logprobs,
            truncated=not is_whole,
            entropies=entropies,
        )


class SamplingSettings(Protocol):
    """The settings of TRL by which tokens are drawn."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float | None
    repetition_penalty: float
    chat_template_kwargs: Any  # TRL also takes JSON


def sampling_of(args: SamplingSettings) -> dict[str, Any]:
    """The arguments of `LMPolicy` that are settings of TRL."""
    return {
        "temperature": args.temperature,
        "top_k": args.top_k,
        "top_p": args.top_p,
        "min_p": args.min_p or 0.0,
        "repetition_penalty": args.repetition_penalty,
        "chat_template_kwargs": args.chat_template_kwargs,
        # not of TRL's own settings
        "reasoning_marks": getattr(args, "reasoning_marks", None),
    }


def learner_of(trainer: "GRPOTrainer", **options: Any) -> LMPolicy:
    """The policy of a trainer's model, with the trainer's sampling settings.

    Args:
        trainer: a `trl.GRPOTrainer`.
        **options: arguments of `LMPolicy`. `max_new_tokens`, of one reply, is by default the
            trainer's `max_completion_length`.

    Raises:
        ValueError: the trainer generates by vLLM; or as for `LMPolicy`.
    """
    args = cast("GRPOConfig", trainer.args)
    if args.use_vllm:
        raise ValueError(
            "learner_of generates with transformers, got a trainer with use_vllm=True; "
            "set use_vllm=False, or train with TurnGRPOTrainer, which plays by vLLM"
        )
    from trl.models import unwrap_model_for_generation

    defaults = {
        "name": "self",
        "max_new_tokens": args.max_completion_length,
        **sampling_of(args),
        "context": lambda: unwrap_model_for_generation(
            trainer.model_wrapped,
            trainer.accelerator,
            gather_deepspeed3_params=args.ds3_gather_for_generation,
        ),
    }
    processing: Any = trainer.processing_class
    return LMPolicy(
        trainer.accelerator.unwrap_model(trainer.model),
        getattr(processing, "tokenizer", processing),
        **{**defaults, **options},
    )


def load(path: str) -> LMPolicy:
    """The policy that the string `"lm:PATH"` names."""
    return LMPolicy.from_pretrained(path)
