"""`FeatureCritic`: values of turns, learned from `Game.features`.

There is one small network for each game. All processes have the same networks: they fit them
to the same global batch in the same order, in float64 on the CPU.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from arena_envs.game import AnyGame, check_int
from arena_trainers import credit
from arena_trainers.credit import TurnBatch, returns_to_go, trajectories
from arena_trainers.train.turn_records import TurnRecord

Floats = NDArray[np.float64]


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
                _network(_num_features(game) + game.num_players, hidden_size)
                for game in games
            )
        self.optimizer = torch.optim.Adam(self.networks.parameters(), learning_rate)

    @torch.no_grad()
    def with_values(self, batch: TurnBatch, records: Sequence[TurnRecord]) -> TurnBatch:
        """The batch with the columns `value` and `next_value`.

        Args:
            batch: the global batch.
            records: its turns, with features, in the order of its rows.
        """
        cut = [row for row, r in enumerate(records) if r.next_features is not None]
        next_value = np.full(len(records), np.nan)  # read only at truncation
        next_value[cut] = self._values([records[row] for row in cut], is_next=True)
        return replace(
            batch, value=self._values(records, is_next=False), next_value=next_value
        )

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


def feature_critic(args: Any, games: Sequence[AnyGame]) -> FeatureCritic:
    """The critic that the settings describe."""
    discount = discount_of(args.credit, args.credit_args)
    return FeatureCritic(games, discount=discount, seed=args.seed, **args.critic_args)


def discount_of(estimator: str, options: Mapping[str, Any]) -> float:
    """The discount of an estimator with these options; its critic uses the same."""
    found = {**credit.default_options(estimator), **options}.get("discount", 1.0)
    return float(found)


def _num_features(game: AnyGame) -> int:
    return len(game.features(game.initial_state(), 0))


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
