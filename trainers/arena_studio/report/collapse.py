"""Signs of collapse: a figure of the logs crossed its limit.

The limits are rules of thumb; training goes on.

| figure | warning |
|---|---|
| `entropy` of tokens | below 10 % of the first log's |
| `arena/legal_rate` | more than 0.2 below the highest so far |
| `arena/reply_tokens` | below half, or above twice, the first log's |
| `arena/<game>/against_start` | below 0 by more than two standard errors |
"""

from collections.abc import Iterator, Mapping
from typing import Any

ENTROPY, LEGAL, TOKENS = "entropy", "arena/legal_rate", "arena/reply_tokens"
START_METRIC = "against_start"


class CollapseLimits:
    """What the logs of a run, one after the other, warn of."""

    def __init__(self) -> None:
        self._first: dict[str, float] = {}
        self._highest_rate = 0.0
        self._crossed: set[str] = set()

    def new_warnings(self, logs: Mapping[str, Any]) -> list[str]:
        """A line for each figure of a log that crosses its limit."""
        if "loss" not in logs:
            return []  # before training, and the summary at the end
        for name in (ENTROPY, TOKENS):
            if logs.get(name) is not None:
                self._first.setdefault(name, logs[name])
        self._highest_rate = max(self._highest_rate, logs.get(LEGAL) or 0.0)
        problems = dict(self._problems(logs))
        new = [text for name, text in problems.items() if name not in self._crossed]
        unseen = {name for name in self._crossed if logs.get(name) is None}
        self._crossed = {*problems, *unseen}
        return new

    def _problems(self, logs: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """The figures beyond their limits, each with its warning."""
        advice = "compare with an earlier checkpoint, lower learning_rate or raise beta"
        entropy, tokens, legal = (logs.get(n) for n in (ENTROPY, TOKENS, LEGAL))
        if entropy is not None and entropy < 0.1 * self._first[ENTROPY]:
            first = self._first[ENTROPY]
            yield (
                ENTROPY,
                f"the entropy of tokens fell from {first:.3g} to {entropy:.3g}, so "
                f"groups hardly differ; {advice}",
            )
        if legal is not None and legal < self._highest_rate - 0.2:
            yield (
                LEGAL,
                f"the rate of legal replies fell from {self._highest_rate:.2f} to "
                f"{legal:.2f}; {advice}",
            )
        first = self._first.get(TOKENS, 0.0)
        if tokens is not None and not first / 2 <= tokens <= 2 * first:
            yield (
                TOKENS,
                f"replies went from {first:.3g} tokens to {tokens:.3g}; read some of them "
                "with arena replay in rollouts/",
            )
        for name in (n for n in logs if n.endswith(f"/{START_METRIC}")):
            mean, error = logs[name], logs.get(f"{name}_error")
            if error is not None and mean + 2 * error < 0:
                game = name.removeprefix("arena/").removesuffix(f"/{START_METRIC}")
                yield (
                    name,
                    f"in {game} the model is worse than at the start, by {-mean:.3g} "
                    f"± {2 * error:.2g} per episode; {advice}",
                )
