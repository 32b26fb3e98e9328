"""`LMPolicy`: a causal language model plays a seat.

`learner_of` makes one of the model that a trainer of TRL's trains.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from arena_trainers.lm.backends import Backend, Sampling
from arena_trainers.lm.backends.sampling import known_ends
from arena_trainers.lm.backends.scoring import (
    refuse_prompt_tuning,
    reply_logprobs,
)
from arena_trainers.lm.backends.transformers import (
    GenerateContext,
    TransformersBackend,
    load_model,
    with_adapter,
)
from arena_trainers.lm.chat import Chat
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
from arena_wrappers.policies import Reply, TurnRequest
from arena_wrappers.prompts import DATE, Message, PromptOptions
from arena_wrappers.records import Turn

MAX_MEMO = 50_000  # prompts whose token ids are remembered
CHECKED = 4  # prompts, and replies to each, whose tokens are compared with those of whole texts


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
        **sampling: `max_new_tokens`, `temperature`, `top_k`, `top_p`, `min_p`,
            `repetition_penalty` and `with_entropy` of `Sampling`.

    Attributes:
        chat: from messages to tokens.
        sampling: how tokens are drawn.
        backend: what generates.
        context: gives the model that scores.
        eos_ids: tokens that end a reply, the one that the chat template writes first.

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
        **sampling: Any,
    ) -> None:
        self.chat_template_kwargs = chat_template_kwargs or {}
        self.reasoning_marks = reasoning_marks
        check_sampling(self._of_the_template)
        refuse_prompt_tuning(model)
        self.tokenizer = tokenizer
        self.name, self.prompt, self.batch_size = name, prompt, batch_size
        date = DATE if prompt is None else prompt.date
        template = chat_template_kwargs, reasoning_marks, date
        self.chat = Chat(tokenizer, known_ends(model), *template)
        self.eos_ids = self.chat.end_ids
        if not self.eos_ids:
            name = tokenizer.name_or_path or type(tokenizer).__name__
            raise ValueError(
                "no token ends a reply: want a tokenizer with an EOS token, got "
                f"{name!r} without one; set tokenizer.eos_token"
            )
        self.sampling = Sampling(end_ids=tuple(self.eos_ids), **sampling)
        pad = tokenizer.pad_token_id
        self.pad_id: int = self.eos_ids[0] if pad is None else int(pad)
        self.run_on(model, context)
        if backend is not None:
            self.backend = backend
        self._memo: dict[tuple[str, ...], list[int]] = {}
        self._is_checked = False
        self._texts: dict[tuple[int, ...], str] = {}

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
        own = base is not None and (Path(path) / "tokenizer_config.json").is_file()
        tokenizer = AutoTokenizer.from_pretrained(path if own else folder)
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
            self.prompt, {**self.sampling.options, **self._of_the_template}
        )

    @property
    def draws_as_scored(self) -> bool:
        """Whether replies are drawn with the probabilities that `action_probs` reports."""
        s = self.sampling
        is_cut = s.top_k > 0 or s.top_p < 1 or s.min_p > 0
        return s.temperature > 0 and not is_cut and s.repetition_penalty == 1

    @property
    def _of_the_template(self) -> dict[str, Any]:
        options: dict[str, Any] = {"chat_template_kwargs": self.chat_template_kwargs}
        if self.reasoning_marks is not None:
            options["reasoning_marks"] = list(self.reasoning_marks)
        return options

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        size = self.batch_size or max(len(requests), 1)
        replies: list[Reply] = []
        for start in range(0, len(requests), size):
            chunk = requests[start : start + size]
            prompts = [self.prompt_ids(request) for request in chunk]
            replies += self.generate(prompts, [request.seed for request in chunk])
        return replies

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int]
    ) -> list[Reply]:
        """One reply for each prompt of token ids, sampled from its seed."""
        made = self.backend.generate(prompts, seeds, self.sampling)
        entropies: Sequence[Any] = made.entropies or [None] * len(prompts)
        rows = zip(prompts, made.token_ids, made.logprobs, entropies, strict=True)
        return [self._reply(list(row[0]), *row[1:]) for row in rows]

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
            the model puts on everything else.

        Raises:
            ValueError: the temperature is 0, where there is no distribution.
        """
        if self.sampling.temperature == 0:
            raise ValueError("a policy at temperature 0 has no action probabilities")
        if requests:
            self.check_scored(requests, requests[0].wrap)
        prompts = [self.prompt_ids(request) for request in requests]
        rows = [
            (prompt, self.chat.reply_ids(prompt, request.wrap(text)))
            for prompt, request in zip(prompts, requests, strict=True)
            for text in request.legal
        ]
        scores: list[float] = []
        size = self.batch_size or max(len(rows), 1)
        how = self.sampling.temperature, self.pad_id, self.eos_ids
        for start in range(0, len(rows), size):
            with self.context() as model:
                scores += reply_logprobs(model, rows[start : start + size], *how)
        results, used = [], 0
        for request in requests:
            mass = torch.tensor(scores[used : used + len(request.legal)]).double().exp()
            used += len(request.legal)
            total = float(mass.sum())
            results.append(((mass / total).tolist(), max(0.0, 1.0 - total)))
        return results

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
        for turn in turns[:CHECKED]:
            for text in turn.legal[:CHECKED]:
                self.chat.check_reply(turn.messages, wrap(text))
        self._is_checked = True

    def prompt_ids(self, request: TurnRequest) -> list[int]:
        """Token ids of the prompt, the generation prompt included."""
        if len(request.context_ids) > 0:
            context = request.context_ids
            return [*context, *self.chat.continuation(context, request.messages)]
        said = (text for m in request.messages for text in (m["role"], m["content"]))
        key = (request.date, *said)
        if key not in self._memo:
            if len(self._memo) >= MAX_MEMO:
                self._memo.clear()
            self._memo[key] = self.encode(request.messages, request.date)
        return self._memo[key]

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
        spoken = tuple(ids[:-1] if is_whole else ids)
        if spoken not in self._texts:
            if len(self._texts) >= MAX_MEMO:
                self._texts.clear()
            # special tokens stay visible: a reply that contains one is no action
            self._texts[spoken] = self.chat.decoded(spoken)
        return Reply(
            text=self.chat.readable_reply(prompt, self._texts[spoken]),
            prompt_ids=prompt,
            token_ids=ids,
            logprobs=logprobs,
            truncated=not is_whole,
            entropies=entropies,
        )


def sampling_of(args: Any) -> dict[str, Any]:
    """The arguments of `LMPolicy` that are settings of TRL."""
    names = ("temperature", "top_k", "top_p", "repetition_penalty")
    given = {name: getattr(args, name) for name in (*names, "chat_template_kwargs")}
    marks = getattr(args, "reasoning_marks", None)  # not of TRL's own settings
    return {**given, "min_p": args.min_p or 0.0, "reasoning_marks": marks}


def learner_of(trainer: Any, **options: Any) -> LMPolicy:
    """The policy of a trainer's model, with the trainer's sampling settings.

    Args:
        trainer: a `trl.GRPOTrainer`.
        **options: arguments of `LMPolicy`. `max_new_tokens`, of one reply, is by default the
            trainer's `max_completion_length`.

    Raises:
        ValueError: the trainer generates by vLLM; or as for `LMPolicy`.
    """
    args = trainer.args
    if args.use_vllm:
        raise ValueError(
            "learner_of generates with transformers, got a trainer with use_vllm=True; "
            "set use_vllm=False, or train with TurnGRPOTrainer, which plays by vLLM"
        )
    from trl.models import unwrap_model_for_generation

    given = {
        "name": "self",
        "max_new_tokens": args.max_completion_length,
        **sampling_of(args),
        "context": lambda: unwrap_model_for_generation(
            trainer.model_wrapped,
            trainer.accelerator,
            gather_deepspeed3_params=args.ds3_gather_for_generation,
        ),
    }
    processing = trainer.processing_class
    return LMPolicy(
        trainer.accelerator.unwrap_model(trainer.model),
        getattr(processing, "tokenizer", processing),
        **{**given, **options},
    )


def load(path: str) -> LMPolicy:
    """The policy that the string `"lm:PATH"` names."""
    return LMPolicy.from_pretrained(path)
