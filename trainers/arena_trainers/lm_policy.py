"""`LMPolicy`: a causal language model of transformers plays a seat."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LogitsProcessorList,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from arena_trainers.models import model_folder
from arena_trainers.sampling import SeededSampler, shared_prefix
from arena_wrappers.policies import Reply, TurnRequest
from arena_wrappers.prompts import Message

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
        name: how the policy is called in records.
        with_entropy: whether replies carry the entropies of their tokens.
        context: replaces the model while generating, where a trainer has to unwrap it.

    Raises:
        ValueError: the tokenizer has no chat template, or a number is out of range.
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
        name: str = "lm",
        with_entropy: bool = False,
        context: GenerateContext | None = None,
    ) -> None:
        if tokenizer.chat_template is None:
            raise ValueError("the tokenizer has no chat template, so it cannot prompt")
        if max_new_tokens < 1 or not temperature >= 0:
            raise ValueError(
                "want max_new_tokens of at least 1 and temperature of at least 0, "
                f"got {max_new_tokens} and {temperature}"
            )
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self.max_new_tokens, self.batch_size = max_new_tokens, batch_size
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p
        self.with_entropy = with_entropy
        self.chat_template_kwargs = chat_template_kwargs or {}
        self._context = context or (lambda: nullcontext(self.model))
        self.eos_ids = _eos_ids(model, tokenizer)
        pad = tokenizer.pad_token_id
        self.pad_id: int = self.eos_ids[0] if pad is None else int(pad)
        self._specials = [
            str(token) for token in tokenizer.added_tokens_decoder.values()
        ]
        self._memo: dict[tuple[str, ...], list[int]] = {}
        self._texts: dict[tuple[int, ...], str] = {}

    @classmethod
    def from_pretrained(cls, path: str | Path, **options: Any) -> "LMPolicy":
        """The policy of a model and tokenizer in a folder, or on the Hugging Face hub.

        Args:
            path: a folder that `save_pretrained` or a trainer wrote, or an id of the hub.
            **options: as for the constructor.

        Raises:
            ValueError: there is no such model.
        """
        folder = model_folder(str(path))
        model = AutoModelForCausalLM.from_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        options.setdefault("name", f"lm:{path}")
        return cls(model.eval(), tokenizer, **options)

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
        input_ids, attention_mask = self._left_padded(prompts)
        cuts = self.temperature, self.top_k, self.top_p
        sampler = SeededSampler(list(seeds), *cuts, self.with_entropy)
        config = GenerationConfig(
            max_new_tokens=self.max_new_tokens,
            do_sample=False,
            eos_token_id=self.eos_ids,
            pad_token_id=self.pad_id,
        )
        with self._context() as model:
            training = model.training
            model.eval()
            try:
                sequences = model.generate(  # type: ignore[operator]
                    input_ids=input_ids,
                    attention_mask=attention_mask,
                    generation_config=config,
                    logits_processor=LogitsProcessorList([sampler]),
                    **shared_prefix(model, input_ids, attention_mask),
                )
            finally:
                model.train(training)
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
        """Scores the canonical reply of every legal action, its end token included.

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
            (self.prompt_ids(request), self._answer_ids(request.wrap(text)))
            for request in requests
            for text in request.legal
        ]
        scores: list[float] = []
        size = self.batch_size or 512
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
            return [*request.context_ids, *self._continuation(request)]
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
        return self._ids(self._render(messages))

    def _render(self, messages: Sequence[Message]) -> str:
        safe = [
            m
            if m["role"] == "assistant"
            else {**m, "content": self._safe(m["content"])}
            for m in messages
        ]
        text = self.tokenizer.apply_chat_template(
            safe,  # type: ignore[arg-type] # typed dicts
            tokenize=False,
            add_generation_prompt=True,
            **self.chat_template_kwargs,
        )
        return str(text)

    def _continuation(self, request: TurnRequest) -> list[int]:
        """Ids of what follows this seat's last reply: its end and the new messages."""
        last = max(
            i for i, m in enumerate(request.messages) if m["role"] == "assistant"
        )
        stand_in = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": _STAND_IN},
            *request.messages[last + 1 :],
        ]
        _, found, rest = self._render(stand_in).rpartition(_STAND_IN)  # type: ignore[arg-type]
        if not found:
            raise ValueError("the chat template drops replies: use history='state'")
        ids = self._ids(rest)
        ended = request.context_ids[-1] in self.eos_ids
        return ids[1:] if ended and ids[0] in self.eos_ids else ids

    def _safe(self, text: str) -> str:
        for special in self._specials:
            if special.strip() and special in text:
                text = text.replace(special, f"{special[0]} {special[1:]}")
        return text

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _answer_ids(self, text: str) -> list[int]:
        return [*self._ids(text), self.eos_ids[0]]

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

    def _left_padded(
        self, prompts: Sequence[Sequence[int]]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        lengths = np.array([len(ids) for ids in prompts])
        width = int(lengths.max())
        rows = [[self.pad_id] * (width - len(ids)) + [*ids] for ids in prompts]
        # by way of numpy, which reads lists of lists six times as fast as torch does
        ids = torch.from_numpy(np.array(rows, np.int64))
        mask = torch.from_numpy(np.arange(width) >= width - lengths[:, None])
        device = self.model.device
        return ids.to(device), mask.long().to(device)

    def _score(self, rows: Sequence[tuple[list[int], list[int]]]) -> list[float]:
        """Log-probability of each answer after its prompt."""
        full = [prompt + answer for prompt, answer in rows]
        input_ids, attention_mask = self._left_padded(full)
        with self._context() as model:
            training = model.training
            model.eval()
            try:
                logits = model(
                    input_ids=input_ids, attention_mask=attention_mask
                ).logits
            finally:
                model.train(training)
        logprobs = (logits.float() / self.temperature).log_softmax(dim=-1)
        longest = max(len(answer) for _, answer in rows)
        targets = input_ids[:, -longest:]  # answers stand at the right edge
        picked = logprobs[:, -longest - 1 : -1].gather(2, targets[..., None])[..., 0]
        lengths = torch.tensor([len(a) for _, a in rows], device=picked.device)
        position = torch.arange(longest, device=picked.device)[None]
        inside = position >= longest - lengths[:, None]
        total: list[float] = picked.where(inside, 0.0).sum(dim=1).tolist()
        return total


_STAND_IN = "\u2063reply\u2063"  # invisible separators: in nobody's template


def _eos_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """End tokens of a reply, the tokenizer's own first."""
    config = model.generation_config
    known = getattr(config, "eos_token_id", None)
    ids = [tokenizer.eos_token_id, *(known if isinstance(known, list) else [known])]
    return list(dict.fromkeys(int(i) for i in ids if i is not None))


def load(path: str) -> LMPolicy:
    """The policy that the string `"lm:PATH"` names."""
    return LMPolicy.from_pretrained(path)
