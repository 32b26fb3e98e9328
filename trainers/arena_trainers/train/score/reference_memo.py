"""`ReferenceMemo`: log-probabilities of the reference for rows that come again."""

from collections.abc import Callable
from pathlib import Path

import torch

from arena_trainers.train.score.packing import distinct_rows

FILE = "reference_scores.pt"
MAX_TOKENS = 2**18  # of the rows that are known, each with an id of 8 bytes

RowScores = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class ReferenceMemo:
    """Scores each distinct row once, as long as the reference stays as it is.

    In small games the same rows come in every step. Scores of a row differ in the last bits by the rows that
    run beside it. So a checkpoint holds what is known, and a resumed run goes on bit for bit.

    Args:
        version: of the reference's weights; after a change all rows are forgotten.
    """

    def __init__(self, version: Callable[[], int]) -> None:
        self._version, self._known_version = version, 0
        self._known: dict[bytes, torch.Tensor] = {}
        self._num_tokens = 0

    def logprobs(
        self, ids: torch.Tensor, mask: torch.Tensor, width: int, score: RowScores
    ) -> torch.Tensor:
        """float32[B, width] of rows whose last `width` columns are replies; 0 behind their ends.

        Args:
            ids: int64[B, W].
            mask: int64[B, W], 0 at padding.
            width: columns of replies.
            score: gives those of rows that are not known, by their ids and mask.
        """
        if self._known_version != self._version():
            self.forget()
        firsts, kind = distinct_rows(ids, mask, torch.ones(len(ids), dtype=torch.bool))
        ids, mask = ids[firsts], mask[firsts]
        sizes = mask[:, -width:].sum(dim=1).tolist()
        keys = _keys(ids, mask, sizes)
        new = [i for i, key in enumerate(keys) if key not in self._known]
        logprobs = torch.zeros((len(keys), width), device=ids.device)
        if new:
            logprobs[new] = score(ids[new], mask[new]).float()
        for i, (key, size) in enumerate(zip(keys, sizes, strict=True)):
            if key in self._known:
                logprobs[i, :size] = self._known[key]
        for i in new:
            self._add(keys[i], logprobs[i, : sizes[i]].clone(), int(mask[i].sum()))
        return logprobs[kind]

    def _add(self, key: bytes, logprobs: torch.Tensor, num_tokens: int) -> None:
        if num_tokens > MAX_TOKENS:
            return
        if self._num_tokens + num_tokens > MAX_TOKENS:
            self.forget()
        self._known[key] = logprobs
        self._num_tokens += num_tokens

    def forget(self) -> None:
        """Forgets all rows."""
        self._known.clear()
        self._num_tokens, self._known_version = 0, self._version()

    def save(self, folder: Path) -> None:
        """Writes what is known into a checkpoint."""
        state = (self._known_version, self._num_tokens, self._known)
        torch.save(state, folder / FILE)

    def load(self, folder: Path, device: torch.device) -> None:
        """Goes on from a checkpoint; one without the file knows nothing."""
        if (folder / FILE).is_file():
            state = torch.load(folder / FILE, map_location=device, weights_only=True)
            self._known_version, self._num_tokens, self._known = state


def _keys(ids: torch.Tensor, mask: torch.Tensor, sizes: list[int]) -> list[bytes]:
    """Equal for equal rows, whatever their padding: tokens, and the length of the reply."""
    rows = zip(ids.cpu().numpy(), mask.cpu().numpy() != 0, sizes, strict=True)
    return [row[real].tobytes() + size.to_bytes(8) for row, real, size in rows]
