"""`LMPolicy`: a causal language model of transformers plays a seat."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LogitsProcessorList,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from arena_trainers.lm.chat import Chat
from arena_trainers.lm.devices import default_device
from arena_trainers.lm.models import model_folder
from arena_trainers.lm.prompt_file import (
    PROMPT_FILE,
    check_sampling,
    prompt_json,
    read_prompt_file,
)
from arena_trainers.lm.sampling import (
    SeededSampler,
    known_ends,
    shared_prefix,
    with_settings,
)
from arena_trainers.lm.scoring import (
    evaluating,
    left_padded,
    refuse_prompt_tuning,
    reply_logprobs,
)
from arena_wrappers.policies import Reply, TurnRequest
from arena_wrappers.prompts import Message, PromptOptions

MAX_MEMO = 50_000  # prompts whose token ids are remembered

GenerateContext = Callable[[], AbstractContextManager[PreTrainedModel]]


class LMPolicy:
    """Batched generation; keeps the token ids and log-probabilities of what it says.

    Each reply is sampled with noise from its request's seed, so that the other requests
    in the batch do not change it. Where a seat's history is a transcript, the tokens of
    earlier turns are kept as they were sampled, never encoded again from text.

    Args:
        model: the language model.
        tokenizer: its tokenizer, with a chat template.
        max_new_tokens: longest reply; a longer one is cut and reported as truncated.
        temperature: of sampling; 0 for the likeliest token.
        top_k: keeps the k likeliest tokens; 0 for all.
        top_p: keeps the likeliest tokens that make up this mass; 1 for all.
        batch_size: most rows in one forward pass; None for all.
        chat_template_kwargs: passed to the chat template.
        prompt: what the model reads and how its replies are read, in whatever environment
            it plays; None: as the environment says.
        name: how the policy is called in records.
        with_entropy: whether replies carry the entropies of their tokens.
        context: replaces the model while generating, where a trainer has to unwrap it.

    Attributes:
        chat: from messages to tokens.
        eos_ids: tokens that end a reply, the one that the chat template writes first.

    Raises:
        ValueError: the chat template cannot prompt, a number is out of range, or the model
            is prompt-tuned: a plain forward pass ignores the learned prompt.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        max_new_tokens: int = 256,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        batch_size: int | None = None,
        chat_template_kwargs: dict[str, Any] | None = None,
        prompt: PromptOptions | None = None,
        name: str = "lm",
        with_entropy: bool = False,
        context: GenerateContext | None = None,
    ) -> None:
        self.chat_template_kwargs = chat_template_kwargs or {}
        check_sampling(
            {
                "max_new_tokens": max_new_tokens,
                "temperature": temperature,
                "top_k": top_k,
                "top_p": top_p,
                "chat_template_kwargs": self.chat_template_kwargs,
            }
        )
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self.max_new_tokens, self.batch_size = max_new_tokens, batch_size
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p
        self.with_entropy = with_entropy
        refuse_prompt_tuning(model)
        self.prompt = prompt
        self._context = context or (lambda: nullcontext(self.model))
        self.chat = Chat(tokenizer, known_ends(model), chat_template_kwargs)
        self.eos_ids = self.chat.end_ids
        if not self.eos_ids:
            raise ValueError(
                "no token ends a reply: want a tokenizer with an EOS token, got "
                f"{tokenizer.name_or_path or type(tokenizer).__name__!r} without one; "
                "set tokenizer.eos_token"
            )
        pad = tokenizer.pad_token_id
        self.pad_id: int = self.eos_ids[0] if pad is None else int(pad)
        self._memo: dict[tuple[str, ...], list[int]] = {}
        self._texts: dict[tuple[int, ...], str] = {}

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path,
        *,
        device: str | torch.device | None = None,
        **options: Any,
    ) -> "LMPolicy":
        """The policy of a model and tokenizer in a folder, or on the Hugging Face hub.

        Args:
            path: a folder that `save_pretrained` or a trainer wrote, or an id of the hub.
            device: where it runs; by default the accelerator if there is one, else the CPU.
            **options: as for the constructor; by default what the folder's
                `arena_prompt.json` says, see `arena_trainers.lm.prompt_file`.

        Raises:
            ValueError: there is no such model, or it has a broken
                `arena_prompt.json`.
        """
        folder = model_folder(str(path))
        options = {**read_prompt_file(folder), **options}
        model: Any = AutoModelForCausalLM.from_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        options.setdefault("name", f"lm:{path}")
        model.to(default_device() if device is None else device)
        return cls(model.eval(), tokenizer, **options)

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
        return prompt_json(self.prompt, vars(self))

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        size = self.batch_size or max(len(requests), 1)
        replies: list[Reply] = []
        for start in range(0, len(requests), size):
            chunk = requests[start : start + size]
            prompts = [self.prompt_ids(request) for request in chunk]
            replies += self.generate(prompts, [request.seed for request in chunk])
        return replies

    @torch.no_grad()
    def generate(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int]
    ) -> list[Reply]:
        """One reply for each prompt of token ids, sampled from its seed."""
        input_ids, attention_mask = left_padded(prompts, self.pad_id, self.model.device)
        cuts = self.temperature, self.top_k, self.top_p
        sampler = SeededSampler(list(seeds), *cuts, self.with_entropy)
        config = GenerationConfig(
            max_new_tokens=self.max_new_tokens,
            do_sample=False,
            eos_token_id=self.eos_ids,
            pad_token_id=self.pad_id,
            disable_compile=True,
        )
        with self._context() as model, evaluating(model):
            sequences = with_settings(model, config).generate(  # type: ignore[operator]
                input_ids=input_ids,
                attention_mask=attention_mask,
                generation_config=config,
                logits_processor=LogitsProcessorList([sampler]),
                **shared_prefix(model, input_ids, attention_mask),
            )
        new = sequences[:, input_ids.shape[1] :].tolist()
        logprobs = torch.stack(sampler.logprobs, dim=1).tolist()
        entropies: list[list[float] | None] = [None] * len(new)
        if self.with_entropy:
            entropies = torch.stack(sampler.entropies, dim=1).tolist()
        return [
            self._reply(list(prompt), *parts)
            for prompt, *parts in zip(prompts, new, logprobs, entropies, strict=True)
        ]

    @torch.no_grad()
    def action_probs(
        self, requests: Sequence[TurnRequest]
    ) -> list[tuple[list[float], float]]:
        """Scores the canonical reply of every legal action, with any of its end tokens.

        Other spellings that would also parse are not scored: the illegal mass is an upper
        bound. Probabilities are those at the sampling temperature, without top-k or top-p.

        Returns:
            For each request: probabilities over `legal`, which sum to 1, and the mass that
            the model puts on everything else.

        Raises:
            ValueError: the temperature is 0, where there is no distribution.
        """
        if self.temperature == 0:
            raise ValueError("a policy at temperature 0 has no action probabilities")
        rows = [
            (self.prompt_ids(request), self.chat.ids(request.wrap(text)))
            for request in requests
            for text in request.legal
        ]
        scores: list[float] = []
        size = self.batch_size or max(len(rows), 1)
        for start in range(0, len(rows), size):
            scores += self._score(rows[start : start + size])
        results, used = [], 0
        for request in requests:
            mass = torch.tensor(scores[used : used + len(request.legal)]).double().exp()
            used += len(request.legal)
            total = float(mass.sum())
            results.append(((mass / total).tolist(), max(0.0, 1.0 - total)))
        return results

    def prompt_ids(self, request: TurnRequest) -> list[int]:
        """Token ids of the prompt, the generation prompt included."""
        if len(request.context_ids) > 0:
            context = request.context_ids
            return [*context, *self.chat.continuation(context, request.messages)]
        key = tuple(
            text for m in request.messages for text in (m["role"], m["content"])
        )
        if key not in self._memo:
            if len(self._memo) >= MAX_MEMO:
                self._memo.clear()
            self._memo[key] = self.encode(request.messages)
        return self._memo[key]

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a prompt that is given as messages."""
        return self.chat.encode(messages)

    def _reply(
        self,
        prompt: list[int],
        ids: list[int],
        logprobs: list[float],
        entropies: list[float] | None = None,
    ) -> Reply:
        ends = [i for i, token in enumerate(ids) if token in self.eos_ids]
        length = ends[0] + 1 if ends else len(ids)
        spoken = tuple(ids[: length - 1] if ends else ids)
        if spoken not in self._texts:
            if len(self._texts) >= MAX_MEMO:
                self._texts.clear()
            # special tokens stay visible: a reply that contains one is no action
            text = self.tokenizer.decode(list(spoken), skip_special_tokens=False)
            self._texts[spoken] = str(text)
        return Reply(
            text=self._texts[spoken],
            prompt_ids=prompt,
            token_ids=ids[:length],
            logprobs=logprobs[:length],
            truncated=not ends,
            entropies=entropies and entropies[:length],
        )

    def _score(self, rows: Sequence[tuple[list[int], list[int]]]) -> list[float]:
        """Log-probability of each answer after its prompt, whichever token ends it."""
        ends = self.pad_id, self.eos_ids
        with self._context() as model:
            return reply_logprobs(model, rows, self.temperature, *ends)


def load(path: str) -> LMPolicy:
    """The policy that the string `"lm:PATH"` names."""
    return LMPolicy.from_pretrained(path)
