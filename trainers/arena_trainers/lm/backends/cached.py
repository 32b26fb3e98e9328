"""`CachedBackend`: replies of fixed weights, from distributions that were computed before.

A small game asks the same prompts again and again. The next-token distribution of fixed
weights after a prompt and the first tokens of a reply never changes. So tokens are drawn
from distributions that are known, and the model generates only the rest of a reply.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from arena_trainers.lm.backends import Generated, Prompts, Sampling
from arena_trainers.lm.backends.forward_pass import reads_padding
from arena_trainers.lm.backends.random_numbers import seed_after, uniform_number
from arena_trainers.lm.backends.transformers import TransformersBackend

MAX_BYTES = 2**18  # of the distributions that are kept; those of Kuhn poker take 2**14
MAX_NUMBERS = 2**14  # vocabulary times longest reply; above it nothing is kept

Step = tuple[NDArray[np.float64], NDArray[np.float32]]
Tree = dict[object, "Known"]


class Known(NamedTuple):
    """The distribution that follows a prompt and the first tokens of a reply.

    Attributes:
        ends: float64[V], cumulative weights of the tokens.
        logprobs: float32[V], log-probability of each token as `Generated` defines it.
        after: what follows each next token, as far as it is known.
    """

    ends: NDArray[np.float64]
    logprobs: NDArray[np.float32]
    after: Tree

    def draw(self, number: float) -> int:
        """The token in whose share a number of [0, 1) falls; never one of weight 0."""
        last = float(self.ends[-1])
        target = min(number * last, math.nextafter(last, 0.0))
        return int(self.ends.searchsorted(target, side="right"))


class CachedBackend:
    """Draws tokens from known distributions; the inner backend generates the rest.

    Both draw with the same numbers. The rows of a batch change the last bits of a
    distribution. So a kept one may differ in these bits from the model's in the batch at
    hand, and in rare cases another token is drawn. A run that resumes with those of its
    checkpoint has the same bits. Keeps at most `MAX_BYTES`. Keeps nothing where vocabulary
    times longest reply is above `MAX_NUMBERS`, because long replies hardly ever repeat, nor
    where entropies are asked for or the model reads padding.

    Args:
        inner: generates with weights that never change.
    """

    runs_model = True

    def __init__(self, inner: TransformersBackend) -> None:
        self.inner = inner
        self._trees: dict[Sampling, Tree] = {}
        self._num_bytes = 0

    def generate(
        self, prompt_ids: Prompts, seeds: Sequence[int], sampling: Sampling
    ) -> Generated:
        vocabulary = self.inner.model.config.get_text_config().vocab_size
        is_long = vocabulary * sampling.max_new_tokens > MAX_NUMBERS
        if is_long or sampling.with_entropy or reads_padding(self.inner.model):
            return self.inner.generate(prompt_ids, seeds, sampling)
        tree = self._trees.setdefault(sampling, {})
        rows = zip(prompt_ids, seeds, strict=True)
        drawn = [_drawn(tree, tuple(ids), seed, sampling) for ids, seed in rows]
        cut = [i for i, reply in enumerate(drawn) if not _is_whole(reply[0], sampling)]
        if cut:
            # one limit of tokens holds for the rest of all these replies
            first = min(len(drawn[i][0]) for i in cut)
            prompts = [[*prompt_ids[i], *drawn[i][0][:first]] for i in cut]
            own = [seed_after(seeds[i], first) for i in cut]
            left = replace(sampling, max_new_tokens=sampling.max_new_tokens - first)
            steps: list[Step] = []

            def note(weights: torch.Tensor, logprobs: torch.Tensor) -> None:
                ends = weights.double().cumsum(dim=1)
                steps.append((ends.cpu().numpy(), logprobs.cpu().numpy()))

            rest = self.inner.generate(prompts, own, left, note)
            for row, i in enumerate(cut):
                ids = [*drawn[i][0][:first], *rest.token_ids[row]]
                drawn[i] = ids, [*drawn[i][1][:first], *rest.logprobs[row]]
                self._keep(tree, tuple(prompt_ids[i]), ids, first, steps, row)
        return Generated([ids for ids, _ in drawn], [numbers for _, numbers in drawn])

    def state_dict(self) -> list[dict[str, Any]]:
        """All that is known, as numbers, tuples and tensors: one entry for each distribution."""
        return [
            {
                "sampling": asdict(sampling),
                "path": path,  # a prompt, and the first tokens of a reply
                "ends": torch.from_numpy(known.ends),
                "logprobs": torch.from_numpy(known.logprobs),
            }
            for sampling, tree in self._trees.items()
            for path, known in _entries(tree, ())
        ]

    def load_state_dict(self, state: Sequence[Mapping[str, Any]]) -> None:
        """Knows what `state_dict` returned, and nothing else."""
        self._trees, self._num_bytes = {}, 0
        for entry in state:
            tree = self._trees.setdefault(Sampling(**entry["sampling"]), {})
            *before, last = entry["path"]
            for key in before:
                tree = tree[key].after
            known = Known(entry["ends"].numpy(), entry["logprobs"].numpy(), {})
            tree[last] = known
            self._num_bytes += known.ends.nbytes + known.logprobs.nbytes

    def _keep(
        self,
        tree: Tree,
        prompt: tuple[int, ...],
        reply: Sequence[int],
        first: int,
        steps: Sequence[Step],
        row: int,
    ) -> None:
        """Keeps the distributions from which a row's tokens were drawn.

        Those before token `first` are known; `steps` holds the others.
        """
        key: object = prompt
        for number, token in enumerate(reply):
            if key not in tree:
                ends, logprobs = (array[row].copy() for array in steps[number - first])
                size = ends.nbytes + logprobs.nbytes
                if self._num_bytes + size > MAX_BYTES:
                    return
                self._num_bytes += size
                tree[key] = Known(ends, logprobs, {})
            tree, key = tree[key].after, token


def _entries(
    tree: Tree, before: tuple[object, ...]
) -> Iterator[tuple[tuple[object, ...], Known]]:
    """The distributions of a tree with the keys that lead to them, parents first."""
    for key, known in tree.items():
        path = (*before, key)
        yield path, known
        yield from _entries(known.after, path)


def _drawn(
    tree: Tree, prompt: tuple[int, ...], seed: int, sampling: Sampling
) -> tuple[list[int], list[float]]:
    """The tokens of a reply and their log-probabilities, as far as they are known."""
    key: object = prompt
    tokens: list[int] = []
    logprobs: list[float] = []
    while key in tree and not _is_whole(tokens, sampling):
        known = tree[key]
        token = known.draw(uniform_number(seed, len(tokens)))
        tokens.append(token)
        logprobs.append(float(known.logprobs[token]))
        tree, key = known.after, token
    return tokens, logprobs


def _is_whole(tokens: Sequence[int], sampling: Sampling) -> bool:
    """True if a reply ends with its last token, or has reached its limit."""
    if len(tokens) == sampling.max_new_tokens:
        return True
    return len(tokens) > 0 and tokens[-1] in sampling.end_ids
