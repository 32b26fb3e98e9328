"""Which rows of a batch run through the model, in which chunks; free of TRL."""

from collections.abc import Sequence

import torch


def distinct_rows(
    input_ids: torch.Tensor, attention_mask: torch.Tensor, live: torch.Tensor
) -> tuple[list[int], torch.Tensor]:
    """The live rows without their repetitions.

    Args:
        input_ids: int64[B, W].
        attention_mask: int64[B, W]; 0 where the row has padding, whatever its id.
        live: bool[B], the rows that are needed.

    Returns:
        The first row of each kind, and int64[B], the kind of each row: an index of the
        first list, or -1 if no live row is equal.
    """
    kinds: dict[bytes, int] = {}
    firsts: list[int] = []
    keys = input_ids.masked_fill(attention_mask == 0, -1).cpu().numpy()
    texts = [row.tobytes() for row in keys]
    for i in live.nonzero().flatten().tolist():
        if texts[i] not in kinds:
            kinds[texts[i]] = len(firsts)
            firsts.append(i)
    kind = [kinds.get(text, -1) for text in texts]
    return firsts, torch.tensor(kind, device=input_ids.device)


def chunks_by_length(
    prompts: Sequence[int], replies: Sequence[int], max_tokens: int
) -> list[list[int]]:
    """Rows in order of their length, in chunks that hold `max_tokens` with their padding.

    A row that is longer than the bound is a chunk by itself.

    Args:
        prompts: tokens of each row's prompt, padded on the left to the longest.
        replies: tokens of each row's reply, padded on the right.
        max_tokens: most tokens of a chunk.

    >>> chunks_by_length([3, 1, 1], [1, 1, 1], max_tokens=4)
    [[1, 2], [0]]
    """
    chunks: list[list[int]] = [[]]
    prompt = reply = 0
    for i in sorted(range(len(prompts)), key=lambda i: prompts[i] + replies[i]):
        prompt, reply = max(prompt, prompts[i]), max(reply, replies[i])
        if chunks[-1] and (len(chunks[-1]) + 1) * (prompt + reply) > max_tokens:
            chunks.append([])
            prompt, reply = prompts[i], replies[i]
        chunks[-1].append(i)
    return chunks
