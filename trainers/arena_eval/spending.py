"""The cost of endpoints: tokens and money spent, budgets, and estimates before an evaluation."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from arena_envs.checks import did_you_mean, is_number
from arena_wrappers import Episode, EpisodePlan, Policy, RandomPolicy, play_plans
from arena_wrappers.policies.api import Usage

CHARACTERS = 4  # per token of a prompt, in estimates
ASSUMED_REPLY = 200  # tokens, where the policy has no `max_tokens`
NUM_TRIAL_SEEDS = 8  # of random play, for estimates

Prices = Mapping[
    str, tuple[float, float]
]  # of a million prompt and reply tokens, by model


@runtime_checkable
class MeteredPolicy(Protocol):
    """A policy that counts its calls and tokens, such as `ChatAPIPolicy`."""

    model: str
    usage: Usage
    prices: tuple[float, float]
    max_tokens: int | None


class Spending(NamedTuple):
    """Calls, tokens and cost; the cost is None where a price is unknown."""

    num_calls: float
    prompt_tokens: float
    reply_tokens: float
    cost: float | None

    @property
    def tokens(self) -> float:
        """Of prompts and replies."""
        return self.prompt_tokens + self.reply_tokens

    def __str__(self) -> str:
        text = (
            f"{self.num_calls:,.0f} calls, {self.prompt_tokens:,.0f} prompt and "
            f"{self.reply_tokens:,.0f} reply tokens"
        )
        return text if self.cost is None else f"{text}, cost {self.cost:.4g}"

    def times(self, factor: float) -> "Spending":
        """All numbers times a factor."""
        cost = None if self.cost is None else self.cost * factor
        numbers = (self.num_calls, self.prompt_tokens, self.reply_tokens)
        calls, prompts, replies = (number * factor for number in numbers)
        return Spending(calls, prompts, replies, cost)

    def minus(self, other: "Spending") -> "Spending":
        """The difference from another spending."""
        return added([self, other.times(-1)])


def added(parts: Iterable[Spending]) -> Spending:
    """The sum; its cost is None if the cost of a part is None."""
    parts = list(parts)
    costs = [part.cost for part in parts if part.cost is not None]
    return Spending(
        sum(part.num_calls for part in parts),
        sum(part.prompt_tokens for part in parts),
        sum(part.reply_tokens for part in parts),
        sum(costs) if len(costs) == len(parts) else None,
    )


def endpoints_of(policies: Iterable[Policy]) -> list[MeteredPolicy]:
    """The distinct endpoints of policies, including those inside noise, agents and best of N."""
    endpoints: dict[int, MeteredPolicy] = {}
    for policy in policies:
        models = getattr(policy, "models", None)
        parts = [*models.values()] if isinstance(models, Mapping) else []
        if hasattr(policy, "inner"):
            parts.append(policy.inner)
        inner = endpoints_of(parts)
        outer = [policy] if isinstance(policy, MeteredPolicy) else []
        endpoints |= {id(endpoint): endpoint for endpoint in [*outer, *inner]}
    return [*endpoints.values()]


def read_prices(path: Path) -> dict[str, tuple[float, float]]:
    """Prices of a million tokens by model, from a TOML file.

        [my-model]
        prompt = 2.5
        reply = 10

    Raises:
        ValueError: the file has another form.
    """
    form = "want [MODEL] with prompt = and reply =, prices of a million tokens"
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{form}, got {path}: {error}") from error
    prices = {}
    for model, table in tables.items():
        is_table = isinstance(table, dict) and table.keys() == {"prompt", "reply"}
        if not is_table or not all(is_number(x) and x >= 0 for x in table.values()):
            raise ValueError(f"{path}: {form}, got {model} = {table!r:.80}")
        prices[model] = float(table["prompt"]), float(table["reply"])
    return prices


class Budget:
    """A limit of what endpoints use in all evaluations of a command.

    Args:
        max_tokens: of prompts and replies together; None for no limit.
        max_cost: in the currency of the prices; None for no limit.
        prices: by model; a model that is not listed has the prices of its policy.
    """

    def __init__(
        self,
        max_tokens: float | None = None,
        max_cost: float | None = None,
        prices: Prices | None = None,
    ) -> None:
        for name, limit in (("max_tokens", max_tokens), ("max_cost", max_cost)):
            if limit is not None and not limit > 0:
                raise ValueError(f"want {name} above 0, got {limit}")
        self.max_tokens, self.max_cost = max_tokens, max_cost
        self._prices = dict(prices or {})
        # with their first use
        self._endpoints: dict[int, tuple[MeteredPolicy, Usage]] = {}
        self._earlier = Spending(0, 0, 0, 0.0)

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self.max_tokens is not None or self.max_cost is not None

    @property
    def is_used(self) -> bool:
        """Whether it counts the use of any endpoint."""
        return bool(self._endpoints)

    def watch(self, policies: Iterable[Policy]) -> None:
        """Counts what the endpoints of these policies use from now on.

        Raises:
            ValueError: there is a limit, and no endpoint, or an endpoint without a price.
        """
        endpoints = endpoints_of(policies)
        for endpoint in endpoints:
            self._endpoints.setdefault(id(endpoint), (endpoint, endpoint.usage))
        if self.is_limited and not endpoints:
            raise ValueError(
                "want a policy api:MODEL or vllm:URL with --max-tokens and --max-cost, as "
                "others report no tokens; leave the limit out"
            )
        for endpoint in endpoints:
            if self.max_cost is not None and self._price(endpoint) is None:
                names = [*self._prices] or ["MODEL"]
                raise ValueError(
                    f"want a price of {endpoint.model!r} with --max-cost; write it into the "
                    f"file of --prices; {did_you_mean(endpoint.model, names)}"
                )

    def _price(self, endpoint: MeteredPolicy) -> tuple[float, float] | None:
        price = self._prices.get(endpoint.model)
        return price or (endpoint.prices if any(endpoint.prices) else None)

    def add_earlier(self, spending: Spending) -> None:
        """Counts what an earlier process used in the same run."""
        self._earlier = added([self._earlier, spending])

    def spent(self) -> Spending:
        """What all watched endpoints have used, with what earlier processes used."""
        return added(
            [
                self._earlier,
                *(
                    self.priced(
                        endpoint,
                        endpoint.usage.num_calls - first.num_calls,
                        endpoint.usage.prompt_tokens - first.prompt_tokens,
                        endpoint.usage.completion_tokens - first.completion_tokens,
                    )
                    for endpoint, first in self._endpoints.values()
                ),
            ]
        )

    def priced(
        self, endpoint: MeteredPolicy, calls: float, prompts: float, replies: float
    ) -> Spending:
        """Calls and tokens of an endpoint as spending, with their cost."""
        price = self._price(endpoint)
        cost = None
        if price is not None:
            cost = (prompts * price[0] + replies * price[1]) / 1e6
        return Spending(calls, prompts, replies, cost)

    def affordable(self, each: Spending) -> float:
        """The rest of the budget divided by the cost of `each`; inf without a limit."""
        spent = self.spent()
        counts = [float("inf")]
        if self.max_tokens is not None and each.tokens > 0:
            counts.append((self.max_tokens - spent.tokens) / each.tokens)
        if self.max_cost is not None and each.cost:
            counts.append((self.max_cost - (spent.cost or 0.0)) / each.cost)
        return max(0.0, min(counts))


@dataclass(frozen=True)
class Trial:
    """An estimate from random play with the prompts of a line-up.

    Attributes:
        spending: of one episode.
        returns: of each seat, by seed.
    """

    spending: Spending
    returns: Sequence[Sequence[float]]


def trial_of(plan: EpisodePlan, budget: Budget) -> Trial:
    """Estimates the cost of an episode by random play with the same prompts.

    Assumes four characters per prompt token, and the policy's `max_tokens` per reply, or 200
    tokens if it has none.
    """
    num_seats = len(plan.policies)
    random_plans = [
        EpisodePlan(
            plan.env_fn, [RandomPolicy()] * num_seats, seed, prompts=plan.prompts
        )
        for seed in range(NUM_TRIAL_SEEDS)
    ]
    episodes = play_plans(random_plans)
    parts = [
        part
        for seat, policy in enumerate(plan.policies)
        for endpoint in endpoints_of([policy])
        for part in _parts(episodes, seat, endpoint, budget)
    ]
    returns = [episode.returns for episode in episodes]
    return Trial(added(parts).times(1 / len(episodes)), returns)


def _parts(
    episodes: Sequence[Episode], seat: int, endpoint: MeteredPolicy, budget: Budget
) -> Iterator[Spending]:
    for episode in episodes:
        turns = [turn for turn in episode.turns if turn.seat == seat]
        num_characters = sum(
            len(message["content"]) for turn in turns for message in turn.messages
        )
        num_reply_tokens = len(turns) * (endpoint.max_tokens or ASSUMED_REPLY)
        prompt_tokens = num_characters / CHARACTERS
        yield budget.priced(endpoint, len(turns), prompt_tokens, num_reply_tokens)
