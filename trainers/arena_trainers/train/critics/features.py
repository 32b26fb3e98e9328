"""`FeatureCritic`: values of turns, learned from `Game.features`; the scorer `critic:RUN` of agents."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from arena_credit import TurnBatch, returns_to_go, trajectories
from arena_credit.batch import Floats
from arena_envs.bots.simple import Uniform
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    AnyState,
    sample_chance,
)
from arena_trainers.checkpoint import newest_checkpoint
from arena_trainers.train.critics.networks import (
    check_loss,
    value_network,
    value_networks,
)
from arena_trainers.train.critics.registry import OptionLimits, check_limits
from arena_trainers.train.critics.replies import above_mean
from arena_trainers.train.records import TurnRecord
from arena_wrappers.policies import Rollouts


class FeatureCritic:
    """Values of turns, fitted to the returns-to-go of earlier batches.

    There is one small network for each game. All processes have the same networks: they fit them to the
    same global batch in the same order, in float64 on the CPU. The values of a batch come from the
    networks before they are fitted to it. So they do not depend on the batch's replies, and a baseline
    made of them is unbiased. In the first batch they are 0.

    With `sees="all"` the networks read what all seats see: the centralised critic of MAPPO
    (https://arxiv.org/abs/2103.01955). It is used in training alone, and adds no bias: hidden
    information does not depend on the reply. In an agent's turn the networks also read how many calls came before.
    They do not read what was said in these: credit that bootstraps within a turn (GAE with λ below 1)
    is biased for all its calls but the last.

    The networks minimise

        mean (Vₖ - Rₖ)²,   Rₖ = Σ_{j ≥ k} γ^{j - k} rⱼ + γ^{n} V'

    where n is the number of turns from k on, and V' is the critic's value after the last
    turn if the trajectory was truncated, and 0 if it terminated.

    If credit reads `action_value`, a second network for each game has an output for each action, fitted to
    the same R. Then `action_value` is V plus what the reply is worth above the policy's mean
    (`arena_trainers.train.critics.replies`).

    Args:
        games: the rules, by index of the game.
        discount: γ, per turn of the same seat.
        seed: seed of the initial weights.
        scores_replies: whether it gives `action_value`; records then have `reply_probs`.
        plays_agent: whether turns may have several calls.
        sees: `"seat"` or `"all"`.
        hidden_size: width of the two hidden layers.
        learning_rate: learning rate of Adam.
        num_steps: steps of Adam per batch, each on the whole batch.

    Raises:
        ValueError: a number out of range, or another `sees`.
    """

    supplies = ("value", "next_value", "action_value")
    reads_for_actions = ("reply_probs",)
    reads = ("features",)
    reads_by_option: ClassVar[Mapping[tuple[str, str], tuple[str, ...]]] = {
        ("sees", "all"): ("features.all",)
    }
    limits: ClassVar[OptionLimits] = {
        "hidden_size": (1, 10_000),
        "learning_rate": (0.0, 1.0),
        "num_steps": (1, 1_000_000),
    }

    def __init__(
        self,
        games: Sequence[AnyGame],
        *,
        discount: float = 1.0,
        seed: int = 0,
        scores_replies: bool = False,
        plays_agent: bool = False,
        sees: str = "seat",
        hidden_size: int = 64,
        learning_rate: float = 3e-3,
        num_steps: int = 50,
    ) -> None:
        check_limits(
            self.limits,
            hidden_size=hidden_size,
            learning_rate=learning_rate,
            num_steps=num_steps,
        )
        if sees not in ("seat", "all"):
            raise ValueError(
                f"want sees of critic 'features' as 'seat' or 'all', got {sees!r}"
            )
        self.discount, self.num_steps = discount, num_steps
        self.plays_agent = plays_agent
        self.num_seats = [game.num_players for game in games]
        sizes = []
        for game in games:
            num_seats = game.num_players if sees == "all" else 1
            num_features = len(game.features(game.initial_state(), 0)) * num_seats
            sizes.append(num_features + game.num_players + plays_agent)
        self.networks = value_networks(sizes, hidden_size, seed)
        self.optimizer = torch.optim.Adam(self.networks.parameters(), learning_rate)
        self.action_networks: torch.nn.ModuleList | None = None
        if scores_replies:
            outputs = [game.num_actions or 1 for game in games]
            self.action_networks = value_networks(sizes, hidden_size, seed, outputs)
            self.action_optimizer = torch.optim.Adam(
                self.action_networks.parameters(), learning_rate
            )

    @torch.no_grad()
    def with_values(self, batch: TurnBatch, records: Sequence[TurnRecord]) -> TurnBatch:
        """The batch with the columns `value` and `next_value`, and `action_value` if it is wanted."""
        cut = [row for row, r in enumerate(records) if r.next_features is not None]
        next_value = np.full(len(records), np.nan)  # read only at truncation
        next_value[cut] = self._values([records[row] for row in cut], is_next=True)
        value = self._values(records, is_next=False)
        with_values = replace(batch, value=value, next_value=next_value)
        if self.action_networks is None:
            return with_values
        above = np.zeros(len(records))
        for game, rows, x in self._inputs(records, is_next=False):
            of_actions = self.action_networks[game](x).numpy()
            for row, action_values in zip(rows.tolist(), of_actions, strict=True):
                legal = list(records[row].legal)
                above[row] = above_mean(action_values[legal], records[row])
        return replace(with_values, action_value=value + above)

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

        def errors() -> list[torch.Tensor]:
            return [
                self.networks[game](x)[:, 0] - target[rows] for game, rows, x in inputs
            ]

        first = self._descend(self.optimizer, errors)
        if self.action_networks is not None:
            self._fit_actions(self.action_networks, records, target)
        return first

    def _fit_actions(
        self,
        networks: torch.nn.ModuleList,
        records: Sequence[TurnRecord],
        target: torch.Tensor,
    ) -> None:
        """Fits the outputs of the actions that were played."""
        valid = [i for i, record in enumerate(records) if record.action is not None]
        if not valid:
            return
        inputs = self._inputs([records[i] for i in valid], is_next=False)
        actions: list[int] = [records[i].action for i in valid]  # type: ignore[misc] # integers here
        played, target = torch.tensor(actions), target[valid]

        def errors() -> list[torch.Tensor]:
            return [
                networks[game](x).gather(1, played[rows, None])[:, 0] - target[rows]
                for game, rows, x in inputs
            ]

        self._descend(self.action_optimizer, errors)

    def _descend(
        self,
        optimizer: torch.optim.Optimizer,
        errors: Callable[[], list[torch.Tensor]],
    ) -> float:
        """Steps towards the least mean square of the errors; returns that before the first."""
        first = 0.0
        for step in range(self.num_steps):
            loss = (torch.cat(errors()) ** 2).mean()
            check_loss(loss)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step == 0:
                first = float(loss.detach())
        return first

    def state_dict(self) -> dict[str, Any]:
        """Weights and the optimizer's state, for a checkpoint."""
        state = {
            "networks": self.networks.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }
        if self.action_networks is not None:
            state["action_networks"] = self.action_networks.state_dict()
            state["action_optimizer"] = self.action_optimizer.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the result of `state_dict`."""
        self.networks.load_state_dict(state["networks"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.action_networks is not None:
            self.action_networks.load_state_dict(state["action_networks"])
            self.action_optimizer.load_state_dict(state["action_optimizer"])

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
        inputs = []
        for game, num_seats in enumerate(self.num_seats):
            rows = [i for i, record in enumerate(records) if record.game == game]
            if not rows:
                continue
            game_records = [records[row] for row in rows]
            features = np.array(
                [r.next_features if is_next else r.features for r in game_records],
                np.float64,
            )
            seats = np.eye(num_seats)[[record.seat for record in game_records]]
            columns = [features, seats]
            if self.plays_agent:
                calls = [max(record.call, 0) for record in game_records]
                columns.append(np.log1p(calls)[:, None])
            x = torch.from_numpy(np.concatenate(columns, axis=1))
            inputs.append((game, torch.tensor(rows), x))
        return inputs


@dataclass(frozen=True)
class CriticValues(Rollouts):
    """Mean, over random play to the seat's next turn, of what a critic says that it returns."""

    network: Any = None

    def end(
        self, game: AnyGame, state: AnyState, rng: random.Random, seat: int
    ) -> float:
        while (player := game.current_player(state)) not in (seat, TERMINAL):
            choose = sample_chance if player == CHANCE else Uniform()
            state = game.apply(state, choose(game, state, rng))
        seat_return = float(game.returns(state)[seat])
        if player == TERMINAL:
            return seat_return
        inputs = [*game.features(state, seat), *np.eye(game.num_players)[seat]]
        if len(inputs) != self.network[0].in_features:
            raise ValueError(
                f"want the critic of a run of {game!r} that sees the seat and no agent's calls, "
                "got another one"
            )
        with torch.no_grad():
            return seat_return + float(
                self.network(torch.tensor(inputs, dtype=torch.float64))
            )


def scorer(run: str, num: int = 16) -> CriticValues:
    """The scorer `critic:RUN` of agents: of the last checkpoint, or of this one.

    Raises:
        ValueError: it has no critic of features, or one of several games.
    """
    file = (newest_checkpoint(Path(run)).checkpoint or Path(run)) / "critic.pt"
    weights = torch.load(file, weights_only=True) if file.is_file() else {}
    layers = {k.removeprefix("0."): w for k, w in weights.get("networks", {}).items()}
    if "0.weight" not in layers or "1.0.weight" in layers:
        raise ValueError(
            f"want a run of one game with critic features, got {run!r:.200}; train one with "
            "arena train --critic features and an estimator that reads values"
        )
    network = value_network(*reversed(layers["0.weight"].shape))
    network.load_state_dict(layers)
    return CriticValues(num, network)
