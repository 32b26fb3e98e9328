"""`TextLogits`: next-token logits of texts. One forward pass computes those of all expected replies.

The fixed cost of a forward pass of a small model is that of hundreds of tokens (`tokens_of_pass`). In a
small game the same prompts and replies come in batch after batch. So one pass over all of them, before
the first round, costs less than one pass for each token of each round.

Sampling is unchanged: the same weights, and the same uniform numbers. Expected replies change the last
bits of logits, as other rows in a batch do; in rare cases another token is drawn.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from arena_trainers.lm.backends.forward_pass import (
    accepts_argument,
    reads_padding,
    whole_text_logits,
)
from arena_trainers.lm.backends.prefixes import tokens_of_pass

MAX_TOKENS = 2**13  # of the pass over expected replies, padding included
MAX_LOGITS = 2**24  # of this pass
# part of the other passes that it saves, as some replies are not expected
SAVED = 2 / 3

Text = tuple[int, ...]  # token ids
ReplyTo = tuple[Text, Text]  # a prompt, and a reply to it


class TextLogits:
    """Next-token logits of texts, for one set of weights.

    Args:
        model: a causal language model.
        pad_id: fills rows up on the left; no row reads it.
        num_positions: as of `texts_to_run`, of expected replies, whose logits are computed now; at least
            one.
    """

    def __init__(
        self, model: PreTrainedModel, pad_id: int, num_positions: Mapping[Text, int]
    ) -> None:
        self.model, self.pad_id = model, pad_id
        self._row_of_text: dict[Text, int] = {}
        num_last = max(num_positions.values())
        logits = whole_text_logits(model, [*num_positions], num_last, pad_id)
        self._logits = logits.flatten(0, 1)
        for number, (text, num) in enumerate(num_positions.items(), 1):
            for num_left_out in range(num):
                prefix = text[: len(text) - num_left_out]
                row = number * num_last - 1 - num_left_out
                self._row_of_text.setdefault(prefix, row)

    def next_token_logits(self, texts: Sequence[Text]) -> torch.Tensor:
        """[R, V], of the token after each text; runs texts that were not expected."""
        rows = [self._row_of_text.get(text, -1) for text in texts]
        device = self._logits.device
        logits = self._logits[torch.tensor(rows, device=device)]
        others = [place for place, row in enumerate(rows) if row < 0]
        if others:
            index, unexpected = (
                torch.tensor(others, device=device),
                [texts[i] for i in others],
            )
            logits[index] = whole_text_logits(self.model, unexpected, 1, self.pad_id)[
                :, 0
            ]
        return logits


class UncachedRows:
    """`OpenRows` without a cache: a text whose logits are not known runs whole.

    Args:
        known: logits of expected replies.
        prompts: distinct.

    Attributes:
        logits: [R, V], of the token after each row.
    """

    def __init__(self, known: TextLogits, prompts: Sequence[Text]) -> None:
        self.known, self.texts = known, list(prompts)
        self.logits = known.next_token_logits(self.texts)

    def extend(
        self, parents: NDArray[np.int64], ids: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        pairs = zip(parents.tolist(), ids.tolist(), strict=True)
        self.texts = [(*self.texts[parent], token) for parent, token in pairs]
        self.logits = self.known.next_token_logits(self.texts)
        return np.arange(len(ids))

    def end(self, *_: NDArray[np.int64]) -> None:
        """Nothing: rows are not kept."""

    def close(self) -> None:
        """Nothing."""


def texts_to_run(replies: Collection[ReplyTo]) -> dict[Text, int]:
    """The texts to run for replies, with the number of last positions whose logits are needed.

    Each is a prompt and its reply without the last token. A text that begins another one is left out.

    >>> texts_to_run([((5, 6), (1, 2)), ((5, 6), (3, 2)), ((5, 6), (2,))])
    {(5, 6, 1): 2, (5, 6, 3): 2}
    """
    num_positions = {
        (*prompt, *reply[:-1]): len(reply) for prompt, reply in replies if reply
    }
    prefixes = {
        text[: len(text) - num_left_out]
        for text, num in num_positions.items()
        for num_left_out in range(1, num)
    }
    return {text: num for text, num in num_positions.items() if text not in prefixes}


def one_pass_is_faster(
    model: PreTrainedModel, num_positions: Mapping[Text, int], num_rounds: int
) -> bool:
    """Whether one pass over texts takes less time than one for each token of each round.

    Also whether it takes little memory.

    Args:
        model: a causal language model.
        num_positions: as of `texts_to_run`.
        num_rounds: of play.
    """
    if not num_positions or reads_padding(model):
        return False
    longest, num_last = max(map(len, num_positions)), max(num_positions.values())
    num_tokens = len(num_positions) * longest
    saved_tokens = SAVED * num_rounds * num_last * tokens_of_pass(model)
    has_few_logits = accepts_argument(model, "logits_to_keep")
    num_logits = len(num_positions) * (num_last if has_few_logits else longest)
    vocabulary = model.config.get_text_config().vocab_size
    return (
        num_tokens <= min(MAX_TOKENS, saved_tokens)
        and num_logits * vocabulary <= MAX_LOGITS
    )
