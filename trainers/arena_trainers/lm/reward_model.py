"""`RewardModel`: scores a reply to a prompt, as `arena train --trainer reward` trains it."""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from arena_trainers.finite import Diverged
from arena_trainers.lm.backends.forward_pass import evaluating
from arena_trainers.lm.backends.memory import chunks_by_length, default_forward_tokens
from arena_trainers.lm.chat import Chat
from arena_trainers.lm.context import context_length
from arena_trainers.lm.loading import load_model
from arena_trainers.lm.models import (
    check_reward_folder,
    check_reward_model,
    model_folder,
)
from arena_trainers.lm.prompt_file import read_prompt_file
from arena_wrappers.policies import Scorer, TurnView
from arena_wrappers.prompts import DATE, Message, PromptOptions

# token ids of a prompt and of its reply
PromptAndReply = tuple[Sequence[int], Sequence[int]]

# options of what a policy reads; the others change how its replies are read
_PROMPT_FIELDS = (
    "reply_format",
    "rules",
    "show_legal_actions",
    "history",
    "date",
    "shuffle",
)


class RewardModel:
    """A model with one output, read at the last token of a prompt with its reply.

    Scores are in the unit of TRL's pairwise loss: the difference of two scores is the
    log-odds that the first reply is better. Their zero is arbitrary.

    Args:
        model: a model for sequence classification with one label and a `pad_token_id`.
        tokenizer: its tokenizer, with a chat template.
        chat_template_kwargs: passed to the chat template.
        name: for messages.
        reasoning_marks: as for `LMPolicy`.
        date: the day that the chat template reads as today.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        chat_template_kwargs: dict[str, Any] | None = None,
        name: str = "reward",
        *,
        reasoning_marks: Sequence[str] | None = None,
        date: str = DATE,
    ) -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self.chat = Chat(
            tokenizer,
            template_options=chat_template_kwargs,
            reasoning_marks=reasoning_marks,
            date=date,
        )
        config = model.config.get_text_config()
        if config.pad_token_id is None:  # by which the model finds the last token
            pad = tokenizer.pad_token_id
            config.pad_token_id = self.chat.end_ids[0] if pad is None else pad

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path,
        *,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
    ) -> "RewardModel":
        """The reward model in a folder, or on the Hugging Face hub.

        Args:
            path: folder such as `RUN/model`, or an id of the hub.
            device: where it runs; by default the accelerator if there is one, else the CPU.
            dtype: of its weights; by default as saved, but float32 for half precision on a
                CPU.

        Raises:
            ValueError: there is no such model, or it is no reward model.
        """
        check_reward_model(str(path))
        folder = model_folder(str(path))
        check_reward_folder(folder)
        model = load_model(folder, device, dtype, AutoModelForSequenceClassification)
        saved = read_prompt_file(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        return cls(
            model,
            tokenizer,
            saved.get("chat_template_kwargs"),
            f"reward:{path}",
            reasoning_marks=saved.get("reasoning_marks"),
            date=saved.get("prompt", PromptOptions()).date,
        )

    def check_tokenizer(self, tokenizer: PreTrainedTokenizerBase, owner: str) -> None:
        """Raises ValueError if token ids of a policy mean other words to this model."""
        _check_tokens(self.tokenizer, self.name, tokenizer, repr(owner))

    def encode(
        self,
        messages: Sequence[Message],
        reply: str,
        prompt_ids: Sequence[int] | None = None,
        token_ids: Sequence[int] | None = None,
    ) -> PromptAndReply:
        """The tokens of a prompt and of a reply, as rows to train on have them.

        Args:
            messages: the prompt.
            reply: its text.
            prompt_ids: tokens that the policy read; None if it reported none.
            token_ids: tokens that it wrote, its end included; None if it reported none.
        """
        if prompt_ids is None:
            prompt_ids = self.chat.encode(
                [{**m, "content": _without_surrogates(m["content"])} for m in messages]
            )
        if token_ids is None:
            # a reply that spells a control token must not become one
            text = _without_surrogates(reply)
            text_ids = self.chat.reply_ids(prompt_ids, text, plain=True)
            token_ids = [*text_ids, self.chat.end_ids[0]]
        return prompt_ids, token_ids

    @torch.no_grad()
    def score(
        self, texts: Sequence[PromptAndReply], max_tokens: int | None = None
    ) -> list[float]:
        """The score of each prompt with its reply; equal texts have equal scores.

        Args:
            texts: token ids.
            max_tokens: most tokens that run at once, padding included; never more than fit
                into half of the free memory.

        Raises:
            ValueError: a token is not of the model, or a score is not finite.
        """
        rows = [(*prompt, *reply) for prompt, reply in texts]
        distinct = list(dict.fromkeys(rows))
        self._check_ids(distinct)
        limit = default_forward_tokens(self.model, self.model.device)
        limit = min(limit, max_tokens or limit)
        sizes = [len(ids) for ids in distinct]
        scores: dict[tuple[int, ...], float] = {}
        for chunk in chunks_by_length(sizes, [0] * len(sizes), limit) if sizes else ():
            chunk_rows = [distinct[i] for i in chunk]
            scores.update(zip(chunk_rows, self._score_rows(chunk_rows), strict=True))
        return [scores[ids] for ids in rows]

    def _score_rows(self, rows: Sequence[Sequence[int]]) -> list[float]:
        """Scores of rows, padded on the right as in training."""
        pad_id = self.model.config.get_text_config().pad_token_id
        width = max(map(len, rows))
        ids = torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows])
        sizes = torch.tensor([len(row) for row in rows])
        mask = (torch.arange(width) < sizes[:, None]).long()
        device = self.model.device
        with evaluating(self.model):
            logits: Any = self.model(
                input_ids=ids.to(device), attention_mask=mask.to(device)
            ).logits
        scores = logits[:, 0].float()
        if not bool(scores.isfinite().all()):
            raise Diverged(
                f"{self.name!r} gave a score that is not finite: its weights have diverged; "
                "train it with a lower learning_rate"
            )
        values: list[float] = scores.tolist()
        return values

    def _check_ids(self, rows: Sequence[Sequence[int]]) -> None:
        largest = max((token for ids in rows for token in ids), default=0)
        size = self.model.config.get_text_config().vocab_size
        if largest >= size:
            raise ValueError(
                f"{self.name!r} knows {size} tokens, and a reply or its prompt has the "
                f"token {largest}; give a reward model of the policy's own base model"
            )
        limit = context_length(self.model.config)
        longest = max(map(len, rows), default=0)
        if limit is not None and longest > limit:
            raise ValueError(
                f"want prompts with replies of at most {limit} tokens, the context of "
                f"{self.name}, got {longest}; give a reward model with a longer context, or "
                "shorter prompts"
            )


def scorer(path: str) -> Scorer:
    """The scorer `reward:PATH` of agents, whose model is loaded when it first scores."""
    check_reward_model(path)
    load = cache(partial(RewardModel.from_pretrained, path))

    def score(seen: TurnView, replies: Sequence[str]) -> list[float]:
        model = load()
        return model.score([model.encode(seen.messages, text) for text in replies])

    return score


def check_same_texts(
    path: str,
    tokenizer: PreTrainedTokenizerBase,
    prompt: PromptOptions | None,
    chat_template_kwargs: Mapping[str, Any] | None,
) -> None:
    """Checks that a policy reads and writes texts as a reward model was trained on.

    Loads no weights. What the reward model's `arena_prompt.json` leaves out is not compared.

    Args:
        path: the reward model, a folder or an id of the hub.
        tokenizer: of the policy.
        prompt: options of the policy's prompts; None where they are not known.
        chat_template_kwargs: of the policy.

    Raises:
        ValueError: tokens, the chat template, its arguments or a prompt option differ.
    """
    name, folder = f"reward:{path}", model_folder(path)
    reward_tokenizer = AutoTokenizer.from_pretrained(folder)
    _check_tokens(reward_tokenizer, name, tokenizer, "the model that learns")
    saved = read_prompt_file(folder)
    differences = []
    if reward_tokenizer.chat_template != tokenizer.chat_template:
        differences.append("another chat template")
    kwargs = dict(chat_template_kwargs or {})
    if saved.get("chat_template_kwargs", kwargs) != kwargs:
        differences.append(f"chat_template_kwargs {saved['chat_template_kwargs']}")
    if prompt is not None and "prompt" in saved:
        for option in _PROMPT_FIELDS:
            expected, actual = getattr(prompt, option), getattr(saved["prompt"], option)
            if expected != actual:
                differences.append(f"{option} {actual!r} and not {expected!r}")
    if differences:
        raise ValueError(
            "want a reward model of the prompts of the model that learns, got "
            f"{name!r} with {', '.join(differences)}; set the options of the run likewise, "
            "or train the reward model on pairs of such prompts"
        )


def _check_tokens(
    reward_tokenizer: PreTrainedTokenizerBase,
    name: str,
    tokenizer: PreTrainedTokenizerBase,
    owner: str,
) -> None:
    if tokenizer.get_vocab() != reward_tokenizer.get_vocab():
        raise ValueError(
            f"{name!r} has another tokenizer than {owner}: {len(reward_tokenizer)} tokens, and "
            f"{len(tokenizer)}; train the reward model on pairs of this policy, from "
            "the same base model"
        )


def _without_surrogates(text: str) -> str:
    """The text as rows hold it: without lone surrogates, which no tokenizer can read."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
