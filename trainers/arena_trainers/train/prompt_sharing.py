"""Several replies behind one prompt, so that the prompt runs through the model once.

A packed row holds a prompt without its last token, followed by one branch per reply: the last token
of the prompt, and the reply without its last token. A branch attends to the prompt and to itself.
Its positions continue those of the prompt. So each reply has the same log-probabilities as in a
separate row.

     prompt      branch 1     branch 2
    [ p q r ]    [ s a b ]    [ s c ]        positions  0 1 2  3 4 5  3 4
      labels       a b <e>      c <e>
"""

from typing import Any, NamedTuple

import torch

from arena_trainers.lm.scoring import takes

IGNORED = -100  # label of a position that is not scored, in transformers
WINDOWS = ("sliding_window", "attention_chunk_size", "window_size")


class PackedRow(NamedTuple):
    """A prompt and replies to it.

    Attributes:
        rows: the row of the batch of each reply.
        prompt: int64[P - 1], the prompt without its last token.
        branches: int64[1 + R] for each reply: the last token of the prompt, then the reply.
    """

    rows: list[int]
    prompt: torch.Tensor
    branches: list[torch.Tensor]

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
        and takes(model, "position_ids")
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
    """Packs rows with the same prompt.

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
        Packed rows; each row of the batch is in one of them.
    """
    start = input_ids.shape[1] - width
    prompts = attention_mask[:, :start].sum(dim=1).clamp(min=1).tolist()
    replies = attention_mask[:, start:].sum(dim=1).clamp(min=1).tolist()
    packed: list[PackedRow] = []
    open_row: dict[tuple[int, ...], PackedRow] = {}
    for i, ids in enumerate(input_ids.cpu()):
        prompt = ids[start - prompts[i] : start - 1]
        branch = ids[start - 1 : start + replies[i]]
        key = tuple(ids[start - prompts[i] : start].tolist()) if share else (i,)
        row = open_row.get(key)
        room = min(len(prompt), max_tokens - len(prompt))
        if row is None or row.tail + replies[i] > room:
            row = open_row[key] = PackedRow([], prompt, [])
            packed.append(row)
        row.rows.append(i)
        row.branches.append(branch)
    return packed


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
    for n, row in enumerate(packed):
        length = len(row.prompt)
        ids[n, head - length : head] = row.prompt
        part[n, head - length : head] = 0
        places[n, head - length : head] = torch.arange(length)
        at = head
        for k, branch in enumerate(row.branches, start=1):
            end = at + len(branch) - 1
            ids[n, at:end] = branch[:-1]
            labels[n, at - head : end - head] = branch[1:]
            part[n, at:end] = k
            places[n, at:end] = length + torch.arange(end - at)
            at = end
    is_packed = any(len(row.branches) > 1 for row in packed)
    return {
        "input_ids": ids,
        "shift_labels": labels,
        "attention_mask": _sees(part) if is_packed else (part >= 0).long(),
        "position_ids": places,
    }


def _sees(part: torch.Tensor) -> torch.Tensor:
    """bool[N, 1, L, L]: whether a position (row) attends to another (column)."""
    length = part.shape[1]
    earlier = torch.ones(length, length, dtype=torch.bool).tril()
    to, of = part[:, None, :], part[:, :, None]
    sees = earlier & ((to == 0) | (to == of)) & (to >= 0)
    # Padding attends to itself, because a softmax over no position is NaN.
    return (sees | torch.eye(length, dtype=torch.bool))[:, None]


def unpacked(
    logprobs: torch.Tensor, entropies: torch.Tensor, packed: list[PackedRow]
) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
    """The scores of each reply, cut out of the scores of packed rows.

    Args:
        logprobs: float32[N, T].
        entropies: float32[N, T].
        packed: the N rows.

    Returns:
        For each row of the batch, its log-probabilities and entropies, float32[R].
    """
    found = {}
    for n, row in enumerate(packed):
        at = 0
        for i, branch in zip(row.rows, row.branches, strict=True):
            place = slice(at, at + len(branch) - 1)
            found[i] = logprobs[n, place], entropies[n, place]
            at = place.stop
    return found
