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

StepDistributions = tuple[NDArray[np.float64], NDArray[np.float32]]
DistributionTree = dict[object, "TokenDistribution"]


class TokenDistribution(NamedTuple):
    """The distribution that follows a prompt and the first tokens of a reply.

    Attributes:
        cumulative: float64[V], cumulative weights of the tokens.
        logprobs: float32[V], log-probability of each token as `Generated` defines it.
        children: what follows each next token, as far as it is known.
    """

    cumulative: NDArray[np.float64]
    logprobs: NDArray[np.float32]
    children: DistributionTree

    def draw(self, number: float) -> int:
        """The token in whose share a number of [0, 1) falls; never one of weight 0."""
        total = float(self.cumulative[-1])
        target = min(number * total, math.nextafter(total, 0.0))
        return int(self.cumulative.searchsorted(target, side="right"))


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
        self._trees: dict[Sampling, DistributionTree] = {}
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
        replies = [
            _draw_known_tokens(tree, tuple(ids), seed, sampling) for ids, seed in rows
        ]
        open_rows = [
            i for i, reply in enumerate(replies) if not _is_whole(reply[0], sampling)
        ]
        if open_rows:
            # one limit of tokens holds for the rest of all these replies
            num_known = min(len(replies[i][0]) for i in open_rows)
            prompts = [[*prompt_ids[i], *replies[i][0][:num_known]] for i in open_rows]
            new_seeds = [seed_after(seeds[i], num_known) for i in open_rows]
            remainder = replace(
                sampling, max_new_tokens=sampling.max_new_tokens - num_known
            )
            steps: list[StepDistributions] = []

            def record_step(weights: torch.Tensor, logprobs: torch.Tensor) -> None:
                cumulative = weights.double().cumsum(dim=1)
                steps.append((cumulative.cpu().numpy(), logprobs.cpu().numpy()))

            generated = self.inner.generate(prompts, new_seeds, remainder, record_step)
            for row, i in enumerate(open_rows):
                ids = [*replies[i][0][:num_known], *generated.token_ids[row]]
                replies[i] = ids, [*replies[i][1][:num_known], *generated.logprobs[row]]
                self._store_distributions(
                    tree, tuple(prompt_ids[i]), ids, num_known, steps, row
                )
        return Generated(
            [ids for ids, _ in replies], [numbers for _, numbers in replies]
        )

    def forget_episodes(self) -> None:
        """As that of the inner backend; known distributions stay."""
        self.inner.forget_episodes()

    def state_dict(self) -> list[dict[str, Any]]:
        """All that is known, as numbers, tuples and tensors: one entry for each distribution."""
        return [
            {
                "sampling": asdict(sampling),
                "path": path,  # a prompt, and the first tokens of a reply
                "ends": torch.from_numpy(distribution.cumulative),
                "logprobs": torch.from_numpy(distribution.logprobs),
            }
            for sampling, tree in self._trees.items()
            for path, distribution in _entries(tree, ())
        ]

    def load_state_dict(self, state: Sequence[Mapping[str, Any]]) -> None:
        """Knows what `state_dict` returned, and nothing else."""
        self._trees, self._num_bytes = {}, 0
        for entry in state:
            tree = self._trees.setdefault(Sampling(**entry["sampling"]), {})
            *parents, last_key = entry["path"]
            for key in parents:
                tree = tree[key].children
            distribution = TokenDistribution(
                entry["ends"].numpy(), entry["logprobs"].numpy(), {}
            )
            tree[last_key] = distribution
            self._num_bytes += (
                distribution.cumulative.nbytes + distribution.logprobs.nbytes
            )

    def _store_distributions(
        self,
        tree: DistributionTree,
        prompt: tuple[int, ...],
        reply: Sequence[int],
        num_known: int,
        steps: Sequence[StepDistributions],
        row: int,
    ) -> None:
        """Keeps the distributions from which a row's tokens were drawn.

        Those before token `num_known` are known; `steps` holds the others.
        """
        key: object = prompt
        for number, token in enumerate(reply):
            if key not in tree:
                cumulative, logprobs = (
                    array[row].copy() for array in steps[number - num_known]
                )
                size = cumulative.nbytes + logprobs.nbytes
                if self._num_bytes + size > MAX_BYTES:
                    return
                self._num_bytes += size
                tree[key] = TokenDistribution(cumulative, logprobs, {})
            tree, key = tree[key].children, token


def _entries(
    tree: DistributionTree, parents: tuple[object, ...]
) -> Iterator[tuple[tuple[object, ...], TokenDistribution]]:
    """The distributions of a tree with the keys that lead to them, parents first."""
    for key, distribution in tree.items():
        path = (*parents, key)
        yield path, distribution
        yield from _entries(distribution.children, path)


def _draw_known_tokens(
    tree: DistributionTree, prompt: tuple[int, ...], seed: int, sampling: Sampling
) -> tuple[list[int], list[float]]:
    """The tokens of a reply and their log-probabilities, as far as they are known."""
    key: object = prompt
    tokens: list[int] = []
    logprobs: list[float] = []
    while key in tree and not _is_whole(tokens, sampling):
        distribution = tree[key]
        token = distribution.draw(uniform_number(seed, len(tokens)))
        tokens.append(token)
        logprobs.append(float(distribution.logprobs[token]))
        tree, key = distribution.children, token
    return tokens, logprobs


def _is_whole(tokens: Sequence[int], sampling: Sampling) -> bool:
    """True if a reply ends with its last token, or has reached its limit."""
    if len(tokens) == sampling.max_new_tokens:
        return True
    return len(tokens) > 0 and tokens[-1] in sampling.end_ids
