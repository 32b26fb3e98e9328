"""Critics: values of turns for estimators that read them.

`FeatureCritic` learns them from `Game.features`. There is one small network for each game.
All processes have the same networks: they fit them to the same global batch in the same order,
in float64 on the CPU. `ExactCritic` computes them by enumeration under the policies that play.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from accelerate.utils import broadcast_object_list
from numpy.typing import NDArray
from torch import nn

from arena_envs.game import AnyGame, check_int
from arena_envs.solvers import (
    Key,
    Table,
    action_values,
    information_states,
)
from arena_trainers.credit import TurnBatch, returns_to_go, trajectories
from arena_trainers.evaluate.exploit import tabular
from arena_trainers.train.records import TurnRecord
from arena_trainers.train.settings import MAX_CRITIC_STATES, discount_of
from arena_wrappers import PromptOptions
from arena_wrappers.policies import own_prompt

Floats = NDArray[np.float64]


class Critic(Protocol):
    """Source of values of turns; every process has the same."""

    def with_values(self, batch: TurnBatch, records: Sequence[TurnRecord]) -> TurnBatch:
        """The batch with the columns that the critic supplies.

        Args:
            batch: the global batch.
            records: its turns, with what the critic reads, in the order of its rows.
        """
        ...

    def after(
        self, batch: TurnBatch, records: Sequence[TurnRecord], trains: bool
    ) -> dict[str, float]:
        """Ends a batch that has values, learns from it if it is trained; returns metrics."""
        ...

    def state_dict(self) -> dict[str, Any] | None:
        """Weights for a checkpoint; None if nothing is learned."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the result of `state_dict`."""
        ...


class FeatureCritic:
    """Values of turns, fitted to the returns-to-go of earlier batches.

    The values of a batch come from the networks before they are fitted to it. So they do not
    depend on the batch's replies, and a baseline made of them is unbiased. In the first
    batch they are 0. The networks minimise

        mean (Vₖ - Rₖ)²,   Rₖ = Σ_{j ≥ k} γ^{j - k} rⱼ + γ^{n} V'

    where n is the number of turns from k on, and V' is the critic's value after the last
    turn if the trajectory was truncated, and 0 if it terminated.

    Args:
        games: the rules, by index of the game.
        discount: γ, per turn of the same seat.
        seed: seed of the initial weights.
        hidden_size: width of the two hidden layers.
        learning_rate: learning rate of Adam.
        num_steps: steps of Adam per batch, each on the whole batch.

    Raises:
        ValueError: a number out of range.
    """

    def __init__(
        self,
        games: Sequence[AnyGame],
        *,
        discount: float = 1.0,
        seed: int = 0,
        hidden_size: int = 64,
        learning_rate: float = 3e-3,
        num_steps: int = 50,
    ) -> None:
        check_int("hidden_size", hidden_size, 1, 10_000)
        check_int("num_steps", num_steps, 1, 1_000_000)
        if not 0 < learning_rate < 1:
            raise ValueError(f"want a learning_rate from 0 to 1, got {learning_rate!r}")
        self.discount, self.num_steps = discount, num_steps
        self.num_seats = [game.num_players for game in games]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.networks = nn.ModuleList(
                _network(
                    len(game.features(game.initial_state(), 0)) + game.num_players,
                    hidden_size,
                )
                for game in games
            )
        self.optimizer = torch.optim.Adam(self.networks.parameters(), learning_rate)

    @torch.no_grad()
    def with_values(self, batch: TurnBatch, records: Sequence[TurnRecord]) -> TurnBatch:
        """The batch with the columns `value` and `next_value`."""
        cut = [row for row, r in enumerate(records) if r.next_features is not None]
        next_value = np.full(len(records), np.nan)  # read only at truncation
        next_value[cut] = self._values([records[row] for row in cut], is_next=True)
        return replace(
            batch, value=self._values(records, is_next=False), next_value=next_value
        )

    def after(
        self, batch: TurnBatch, records: Sequence[TurnRecord], trains: bool
    ) -> dict[str, float]:
        return {"arena/critic_error": self.fit(batch, records)} if trains else {}

    def fit(self, batch: TurnBatch, records: Sequence[TurnRecord]) -> float:
        """Fits the networks to a batch that has values.

        Args:
            batch: the global batch, from `with_values`.
            records: its turns, with features, in the order of its rows.

        Returns:
            The mean squared error before the fit.
        """
        target = torch.from_numpy(self._targets(batch))
        inputs = self._inputs(records, is_next=False)
        first = 0.0
        for step in range(self.num_steps):
            errors = [
                (self.networks[game](x)[:, 0] - target[rows]) ** 2
                for game, rows, x in inputs
            ]
            loss = torch.cat(errors).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if step == 0:
                first = float(loss.detach())
        return first

    def state_dict(self) -> dict[str, Any]:
        """Weights and the optimizer's state, for a checkpoint."""
        return {
            "networks": self.networks.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the result of `state_dict`."""
        self.networks.load_state_dict(state["networks"])
        self.optimizer.load_state_dict(state["optimizer"])

    def _targets(self, batch: TurnBatch) -> Floats:
        live = trajectories(batch)
        reward = live.column("reward").copy()
        if batch.truncated is not None and batch.next_value is not None:
            cut = live.column("truncated")
            reward[cut] += self.discount * live.column("next_value")[cut]
        return live.scatter(returns_to_go(live, reward, self.discount))

    def _values(self, records: Sequence[TurnRecord], is_next: bool) -> Floats:
        values = np.zeros(len(records))
        for game, rows, x in self._inputs(records, is_next):
            values[rows.numpy()] = self.networks[game](x)[:, 0].numpy()
        return values

    def _inputs(
        self, records: Sequence[TurnRecord], is_next: bool
    ) -> list[tuple[int, torch.Tensor, torch.Tensor]]:
        """For each game: its index, its rows, and float64[rows, features and seat]."""
        found = []
        for game, num_seats in enumerate(self.num_seats):
            rows = [i for i, record in enumerate(records) if record.game == game]
            if not rows:
                continue
            own = [records[row] for row in rows]
            features = np.array(
                [r.next_features if is_next else r.features for r in own], np.float64
            )
            seats = np.eye(num_seats)[[record.seat for record in own]]
            x = torch.from_numpy(np.concatenate([features, seats], axis=1))
            found.append((game, torch.tensor(rows), x))
        return found


def _network(num_inputs: int, hidden_size: int) -> nn.Module:
    last = nn.Linear(hidden_size, 1)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    layers = (
        nn.Linear(num_inputs, hidden_size),
        nn.Tanh(),
        nn.Linear(hidden_size, hidden_size),
        nn.Tanh(),
        last,
    )
    return nn.Sequential(*layers).double()


class Worth(NamedTuple):
    """Expected return of the seat to move: under its policy, and after each action."""

    value: float
    of_action: Mapping[Any, float]


class ExactCritic:
    """Exact values of turns, in games that can be enumerated.

    For each batch the critic asks the policies for their probabilities π in all information
    states. From these it computes Q, the expected return of the whole episode if the seat
    plays the legal action a in the information state I, and its mean V:

        Q(I, a),   V(I) = Σₐ π(a | I) Q(I, a)

    The critic computes them after a batch was played and before the model learns from it.
    So they are the values of the policies that played the batch. Nothing is fitted or saved.
    All processes use the probabilities of the first process.

    π is the policy given that its reply is the canonical text of a legal action.

    - V is a function of the information state, so a baseline made of it is unbiased.
    - Q is computed as if all replies of the episode, past and future, were canonical. If
      other replies have probability ε, the bias of Q is at most of the order of ε times the
      range of returns. `illegal_mass` is the mean ε. It is large for a model that reasons
      before it answers.

    The cost is a forward pass for each action in each information state, per batch: 24 rows
    in Kuhn poker, 2,184 in Leduc poker.

    Args:
        games: the rules, by index of the game.
        seats: for each game, the policy of each seat; each has `action_probs`.
        options: prompt options of policies without their own.
        weight: weight of the reward part `game`.

    Attributes:
        illegal_mass: probability that a reply is something else than the canonical text of
            a legal action; mean over information states, for the latest batch.
    """

    def __init__(
        self,
        games: Sequence[AnyGame],
        seats: Sequence[Sequence[Any]],
        options: PromptOptions,
        weight: float = 1.0,
    ) -> None:
        self.games, self.seats, self.options = games, seats, options
        self.weight = weight
        self.illegal_mass = 0.0

    def with_values(self, batch: TurnBatch, records: Sequence[TurnRecord]) -> TurnBatch:
        """The batch with the columns `value`, `action_value` and `next_value`.

        They are expected returns-to-go of the part `game`, times its weight: the expected
        return of the episode minus what the seat was paid before the turn. They leave out
        the penalties for invalid replies that `reward` contains, with one exception: an
        invalid reply ends the episode, so its `action_value` is its `reward`.

        At truncation, `next_value` is `action_value` - `reward`, so that r + V' = Q. It may
        differ from V in the final information state, but both have the same mean given the
        action.

        Args:
            batch: the global batch.
            records: its turns, with states and actions, in the order of its rows. An
                invalid reply is the last of its episode.
        """
        tables = {game: self._table(game) for game in sorted({r.game for r in records})}
        self.illegal_mass = float(
            np.mean([m for _, mass in tables.values() for m in mass])
        )
        worth = {
            game: _worth(self.games[game], table) for game, (table, _) in tables.items()
        }
        value, action_value = np.zeros(len(records)), batch.reward.copy()
        for row, record in enumerate(records):
            here = worth[record.game][record.seat, record.state]
            value[row] = self.weight * (here.value - record.paid)
            if record.action is not None:
                total = here.of_action[record.action]
                action_value[row] = self.weight * (total - record.paid)
        cut = np.array([record.truncated for record in records])
        left = np.where(cut, action_value - batch.reward, np.nan)
        return replace(batch, value=value, action_value=action_value, next_value=left)

    def after(
        self, batch: TurnBatch, records: Sequence[TurnRecord], trains: bool
    ) -> dict[str, float]:
        return {"arena/illegal_mass": self.illegal_mass}

    def state_dict(self) -> None:
        return None

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        raise ValueError("an exact critic learns nothing, got a state")

    def _table(self, game: int) -> tuple[Table, list[float]]:
        """Action probabilities of the policies in a game, and their illegal masses."""
        table: dict[Key, Sequence[float]] = {}
        masses: list[float] = []
        policies = self.seats[game]
        for policy in {id(policy): policy for policy in policies}.values():
            own = [seat for seat, other in enumerate(policies) if other is policy]
            options = own_prompt(policy) or self.options
            rows, mass = tabular(policy, self.games[game], options, own)
            table |= rows
            masses += mass
        # rounding must not make processes differ
        (found,) = broadcast_object_list([(table, masses)])
        return found  # type: ignore[no-any-return] # of accelerate


# settings, games, the learner, and the other policies by name -> the critic
CRITICS: dict[str, Callable[..., Critic]] = {
    "features": lambda args, plans, *_: FeatureCritic(
        [plan.game for plan in plans],
        discount=discount_of(args.credit, args.credit_args),
        seed=args.seed,
        **args.critic_args,
    ),
    "exact": lambda args, plans, learner, opponents: ExactCritic(
        [plan.game for plan in plans],
        [
            [learner if s == "self" else opponents[s] for s in plan.seats or ()]
            for plan in plans
        ],
        args.prompt,
        args.part_weights.get("game", 1.0),
    ),
}


def _worth(game: AnyGame, table: Table) -> dict[Key, Worth]:
    states = information_states(game, MAX_CRITIC_STATES)
    return {
        key: Worth(
            float(np.dot(table[key], values)),
            dict(zip(game.legal_actions(states[key]), values, strict=True)),
        )
        for key, values in action_values(game, table, MAX_CRITIC_STATES).items()
    }
