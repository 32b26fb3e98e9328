"""`KnownTexts`: the logits after texts, those that are expected in one forward pass.

In a small game the same prompts and replies come in every batch. A forward pass of a small model takes as
long as hundreds of its tokens, whatever it computes (`tokens_of_pass`). So one pass over the texts that
come in every batch, before the first round, is quicker than a pass for each token of each round.

The logits are the model's own, and tokens are drawn from them with the numbers that they are always drawn
with. So what is expected changes the last bits of a logit, as the rows of a batch do, and nothing else.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from arena_trainers.lm.backends.forward_pass import (
    last_logits,
    positions,
    reads_padding,
)
from arena_trainers.lm.backends.padding import left_padded
from arena_trainers.lm.backends.prefixes import tokens_of_pass

MAX_TOKENS = 2**13  # of all expected texts
MAX_LOGITS = 2**24  # likewise

Text = tuple[int, ...]  # token ids
ReplyTo = tuple[Text, Text]  # a prompt, and a reply to it


class KnownTexts:
    """The logits of the token after texts, for one set of weights.

    Args:
        model: a causal language model, whose weights do not change meanwhile.
        pad_id: fills rows up on the left; no row reads it.
        expected: replies that are expected; empty for none.
    """

    def __init__(
        self, model: PreTrainedModel, pad_id: int, expected: Collection[ReplyTo]
    ) -> None:
        self.model, self.pad_id = model, pad_id
        self._places: dict[Text, int] = {}
        self._logits = torch.zeros(0)  # [N, V]
        followed = followed_texts(expected)
        if followed:
            self._run([*followed], [*followed.values()])

    def after(self, texts: Sequence[Text]) -> torch.Tensor:
        """[R, V], the logits of the token after each text; runs those that are not known."""
        unknown = [text for text in texts if text not in self._places]
        if unknown:
            self._run(unknown, [1] * len(unknown))
        places = [self._places[text] for text in texts]
        return self._logits[torch.tensor(places, device=self._logits.device)]

    def _run(self, texts: Sequence[Text], tails: Sequence[int]) -> None:
        """Runs texts in one forward pass.

        Args:
            texts: to run.
            tails: of each, after how many of its last tokens logits are wanted.
        """
        device, num = self.model.device, max(tails)
        ids, mask = left_padded(texts, self.pad_id, device)
        logits = self.model(
            input_ids=ids,
            attention_mask=mask,
            use_cache=False,
            **last_logits(self.model, num, ids.shape[1]),
            **positions(self.model, mask),
        ).logits[:, -num:]
        cells: list[int] = []
        for row, (text, tail) in enumerate(zip(texts, tails, strict=True)):
            for num_left_out in range(tail):
                beginning = text[: len(text) - num_left_out]
                if beginning not in self._places:
                    self._places[beginning] = len(self._places)
                    cells.append((row + 1) * num - 1 - num_left_out)
        new = logits.flatten(0, 1)[torch.tensor(cells, device=device)]
        self._logits = torch.cat([self._logits, new]) if len(self._logits) else new


class KnownRows:
    """`OpenRows` of texts that run whole, as far as they are not known.

    Args:
        known: what is known.
        prompts: distinct.

    Attributes:
        logits: [R, V], of the token after each row.
    """

    def __init__(self, known: KnownTexts, prompts: Sequence[Text]) -> None:
        self.known, self.texts = known, list(prompts)
        self.logits = known.after(self.texts)

    def extend(
        self, parents: NDArray[np.int64], ids: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        pairs = zip(parents.tolist(), ids.tolist(), strict=True)
        self.texts = [(*self.texts[parent], token) for parent, token in pairs]
        self.logits = self.known.after(self.texts)
        return np.arange(len(ids))

    def end(self, *_: NDArray[np.int64]) -> None:
        """Nothing: rows are not kept."""

    def close(self) -> None:
        """Nothing."""


def followed_texts(replies: Collection[ReplyTo]) -> dict[Text, int]:
    """The texts that the tokens of replies follow: the longest ones, with the length of their tail.

    The tail of a text begins with the last token of the prompt: a token of the reply follows each of its
    tokens.

    >>> followed_texts([((5, 6), (1, 2)), ((5, 6), (3, 2)), ((5, 6), (2,))])
    {(5, 6, 1): 2, (5, 6, 3): 2}
    """
    tails = {(*prompt, *reply[:-1]): len(reply) for prompt, reply in replies if reply}
    inner = {
        text[: len(text) - num_left_out]
        for text, tail in tails.items()
        for num_left_out in range(1, tail)
    }
    return {text: tail for text, tail in tails.items() if text not in inner}


def known_is_quick(
    model: PreTrainedModel, followed: Mapping[Text, int], num_rounds: int
) -> bool:
    """Whether one pass over texts takes less time and memory than one pass in each round.

    Args:
        model: a causal language model.
        followed: as of `followed_texts`.
        num_rounds: of play.
    """
    vocabulary = model.config.get_text_config().vocab_size
    num_logits = len(followed) * max(followed.values(), default=0) * vocabulary
    num_tokens = sum(map(len, followed))
    is_small = num_tokens <= MAX_TOKENS and num_logits <= MAX_LOGITS
    is_quick = num_tokens <= num_rounds * tokens_of_pass(model)
    return is_small and is_quick and not reads_padding(model)
