"""Critics: values of turns or tokens for estimators that read them.

| `critic` | values | options |
|---|---|---|
| `features` | of turns, learned from `Game.features` (`FeatureCritic`) | `hidden_size`, `learning_rate`, `num_steps` |
| `exact` | of turns, by enumeration under the policies that play (`ExactCritic`) | |
| `tokens` | of tokens, learned from the model's hidden states (`TokenCritic`) | `hidden_size`, `learning_rate`, `loss_weight`, `shared`, `clip` |
| `utterances` | Q and V of turns, learned from hidden states and a replay buffer (`UtteranceCritic`) | `hidden_size`, `learning_rate`, `num_steps`, `batch_size`, `replay`, `polyak` |

`arena_trainers.train.settings.critics` is their door: a critic of yours is a class, which gets the
arguments that it names of `make_critic`, and keeps the promises of `check_critic`.
"""

import copy
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from accelerate.utils import broadcast_object_list
from numpy.typing import NDArray
from torch import nn
from transformers import TrainerCallback

import arena_envs
from arena_credit import TurnBatch, returns_to_go, trajectories
from arena_credit.by_name import find_estimator
from arena_credit.needs import needs_of
from arena_envs.bots.simple import Uniform
from arena_envs.doors import broken
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    check_int,
    check_number,
    sample_chance,
)
from arena_envs.solvers import (
    Key,
    Table,
    action_values,
    information_states,
)
from arena_eval.exploit import tabular
from arena_trainers.checkpoint import newest_checkpoint
from arena_trainers.finite import Diverged
from arena_trainers.lm.backends.forward_pass import positions, reads_padding
from arena_trainers.lm.backends.memory import chunks_by_length
from arena_trainers.lm.backends.padding import entry_mask, left_padded
from arena_trainers.losses import value_loss
from arena_trainers.train.forward import (
    averaged,
    joined,
    loss_mask,
    row_tensors,
)
from arena_trainers.train.metrics import advantage_by_turn
from arena_trainers.train.records import TrainingRow, TurnRecord, turn_batch
from arena_trainers.train.settings import (
    MAX_CRITIC_STATES,
    critics,
    discount_of,
    trial_records,
)
from arena_wrappers import PromptOptions, messages
from arena_wrappers.play import final_state
from arena_wrappers.policies import Rollouts, own_prompt

Floats = NDArray[np.float64]


class Critic(Protocol):
    """Source of values; every process has the same.

    A class declares as `supplies` the columns that it gives (default `value` and `next_value`), and
    as `reads` those that its records shall hold, such as `features`.
    """

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

    There is one small network for each game. All processes have the same networks: they fit them to the
    same global batch in the same order, in float64 on the CPU. The values of a batch come from the
    networks before they are fitted to it. So they do not depend on the batch's replies, and a baseline
    made of them is unbiased. In the first batch they are 0. The networks minimise

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

    reads = ("features",)

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
        sizes = [
            len(game.features(game.initial_state(), 0)) + game.num_players
            for game in games
        ]
        self.networks = _networks(sizes, hidden_size, seed)
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
            _check_loss(loss)
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


def _check_loss(loss: torch.Tensor) -> None:
    if not bool(loss.isfinite()):
        raise Diverged(
            f"the critic has diverged: got the loss {float(loss.detach())}; train with a lower "
            "learning_rate in critic_args"
        )


def _networks(sizes: Sequence[int], hidden_size: int, seed: int) -> nn.ModuleList:
    """A network for each number of inputs; global random state stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.ModuleList(_network(size, hidden_size) for size in sizes)


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


@dataclass(frozen=True)
class CriticValues(Rollouts):
    """Mean, over random play to the seat's next turn, of what a critic says that it returns."""

    network: Any = None

    def end(self, game: AnyGame, state: Any, rng: random.Random, seat: int) -> float:
        while (player := game.current_player(state)) not in (seat, TERMINAL):
            drawn = sample_chance if player == CHANCE else Uniform()
            state = game.apply(state, drawn(game, state, rng))
        paid = float(game.returns(state)[seat])
        if player == TERMINAL:
            return paid
        x = [*game.features(state, seat), *np.eye(game.num_players)[seat]]
        if len(x) != self.network[0].in_features:
            raise ValueError(f"want the critic of a run of {game!r}, got another one")
        with torch.no_grad():
            return paid + float(self.network(torch.tensor(x, dtype=torch.float64)))


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
    network = _network(*reversed(layers["0.weight"].shape))
    network.load_state_dict(layers)
    return CriticValues(num, network)


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

    supplies = ("value", "next_value", "action_value")

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


class TokenCritic(TrainerCallback):
    """Values of the tokens of replies, by a network on the model's last hidden states.

    vₖₜ is the value before token t of turn k, where the model has read the prompt and the tokens
    before. The value of a turn is that before its first token; `next_value` is that of the prompt
    that the seat would read at the end. In each update

        loss = TRL's loss + `loss_weight` · mean ½ (v - R)²,   R = A + v as the batch was played

    with the estimator's advantage A of the token: the λ-return of a sum of TD errors. An estimator that
    credits turns gives all tokens of a turn the R of the turn; with `within_turn="values"` R is the turn's
    advantage. R is no return if A is centred or rescaled by its pool: v is then a baseline alone. The values
    of a batch come from the network before its updates, at first 0. The mean is that of `loss_type`.

    The network is a group of the trainer's optimizer, with a learning rate of its own that follows the
    run's schedule, without weight decay and `max_grad_norm`. Values take one forward pass of a batch.

    Args:
        trainer: TRL's trainer, with its forward passes.
        seed: seed of the initial weights.
        hidden_size: width of the two hidden layers.
        learning_rate: at the start of the schedule.
        loss_weight: weight of the loss of values.
        shared: whether this loss trains the model, too.
        clip: c of `arena_trainers.losses.value_loss`; None for no clipping.

    Raises:
        ValueError: a number out of range.
    """

    supplies = ("tokens.value", "value", "next_value")

    def __init__(
        self,
        trainer: Any,
        seed: int = 0,
        *,
        hidden_size: int = 256,
        learning_rate: float = 1e-4,
        loss_weight: float = 0.5,
        shared: bool = False,
        clip: float | None = None,
    ) -> None:
        check_int("hidden_size", hidden_size, 1, 10_000)
        for name, value in (
            *(("learning_rate", learning_rate), ("loss_weight", loss_weight)),
            ("clip", clip or 0),
        ):
            check_number(name, value, 0)
        self.trainer, self.loss_weight, self.clip = trainer, float(loss_weight), clip
        self.learning_rate, self.shared = float(learning_rate), shared
        model = trainer.accelerator.unwrap_model(trainer.model)
        size = model.config.get_text_config().hidden_size
        self.network = _networks([size], hidden_size, seed)[0].float()
        self.network.to(trainer.args.device)
        trainer.forward.head = self._values_of
        trainer.add_callback(self)

    def _values_of(self, states: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.network(states if self.shared else states.detach())
        return found[..., 0]

    @torch.no_grad()
    def with_values(self, batch: TurnBatch, records: Sequence[TurnRecord]) -> TurnBatch:
        """The batch with the columns `tokens.value`, `value` and `next_value`."""
        trainer, (texts, cut) = self.trainer, read_texts(self.trainer, records)
        rows = [TrainingRow(*text, None, 0.0) for text in texts]
        if not rows:
            none = np.zeros(0)
            return replace(batch, tokens={"value": none}, value=none, next_value=none)
        trainer.forward.agreement.check(rows)  # before the first pass
        columns = joined(row_tensors(rows, trainer))
        values = trainer.forward.score(trainer.model, *columns, False).values
        found = values.double().cpu().numpy()
        num = len(records)
        next_value = np.full(num, np.nan)  # read only at truncation
        next_value[cut] = found[num:, 0]
        own = [found[i, : len(texts[i][1])] for i in range(num)]
        tokens = {**(batch.tokens or {}), "value": np.concatenate(own)}
        return replace(
            batch, tokens=tokens, value=found[:num, 0], next_value=next_value
        )

    def after(
        self, batch: TurnBatch, records: Sequence[TurnRecord], trains: bool
    ) -> dict[str, float]:
        return {}  # it learns in the updates

    def columns(self, rows: Sequence[TrainingRow]) -> dict[str, torch.Tensor]:
        """Values and targets of the latest batch, float32[B, T]; 0 where a row has none."""
        trainer, turns = self.trainer, self.trainer.last_turns
        value, ends = turns.tokens["value"], np.cumsum(turns.num_tokens)
        target = self.targets(turns, trainer.last_credit.advantage)
        if len(value):
            error = float(np.mean((value - target) ** 2))
            trainer.note({"arena/critic_error": error})
        said = entry_mask(
            [r.completion_ids for r in rows], trainer.pad_to_multiple_of or 1
        )
        found = {}
        for name, column in (("arena_token_values", value), ("arena_targets", target)):
            whole = np.zeros(said.shape)
            for row, own in zip(rows, whole, strict=True):
                if row.place >= 0:
                    n, size = trainer.last_kept.rows[row.place], len(row.completion_ids)
                    own[:size] = column[ends[n] - size : ends[n]]
            found[name] = torch.from_numpy(whole).float().to(trainer.args.device)
        return found

    def targets(self, turns: TurnBatch, advantage: Floats) -> Floats:
        """float64[num_tokens.sum()], R; arguments of all processes."""
        known: Any = turns  # with all columns of tokens
        args, num, value = self.trainer.args, known.num_tokens, known.tokens["value"]
        if needs_of(find_estimator(args.credit)).per_token:
            return np.asarray(advantage + value)
        if args.within_turn == "values":
            return np.repeat(advantage[np.cumsum(num) - num], num)
        return np.repeat(advantage_by_turn(turns, advantage) + turns.value, num)

    def loss(self, inputs: dict[str, Any], scores: Any) -> Any:
        """The weighted loss of values of a micro-batch."""
        mask = loss_mask(inputs)
        if not mask.any():  # placeholder rows alone
            return 0.0
        old, targets = inputs["arena_token_values"], inputs["arena_targets"]
        per_token = value_loss(scores.values, old, targets, self.clip)
        return self.loss_weight * averaged(per_token, mask, self.trainer, inputs)

    def join(self, optimizer: Any) -> None:
        """Adds the network to an optimizer that lacks it."""
        own, known = [*self.network.parameters()], optimizer.param_groups[-1]["params"]
        if not known or known[-1] is not own[-1]:  # empty without biases
            group = {"params": own, "lr": self.learning_rate, "weight_decay": 0.0}
            optimizer.add_param_group(group)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.network.zero_grad()  # the trainer does so for the model alone

    def state_dict(self) -> dict[str, Any]:
        return self.network.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.network.load_state_dict(state)


Text = tuple[Sequence[int], Sequence[int]]  # token ids of a prompt and of a reply


def read_texts(
    trainer: Any, records: Sequence[TurnRecord]
) -> tuple[list[Text], list[int]]:
    """Prompt and reply of each turn; then of each truncated turn the prompt that its seat would read next.

    Returns:
        The texts, with an end token as the reply to the further prompts; the rows of truncated turns.
    """
    turns = [trainer.last_episodes[r.episode].turns[r.place] for r in records]
    texts: list[Text] = [(t.prompt_ids, t.token_ids) for t in turns]
    cut = [row for row, record in enumerate(records) if record.truncated]
    options, policy = trainer.args.prompt, trainer.policy
    if cut and options.history != "state":
        raise ValueError(
            f"critic={trainer.args.critic!r} takes truncated episodes with history='state', "
            f"got {options.history!r}; set it, or leave out max_turns"
        )
    for record in (records[row] for row in cut):
        game = trainer.games.rules[record.game]
        state = final_state(trainer.last_episodes[record.episode], game)
        told = messages(game, state, record.seat, options)
        texts.append((policy.encode(told), [policy.eos_ids[0]]))
    return texts, cut


class UtteranceCritic:
    """Q and V of whole replies, fitted to turns of earlier batches, too; the critic of ArCHer.

    s is the last hidden state of a prompt in the model before training, which rests, and u that after the
    reply. There are two networks of each kind. They minimise

        (Q(u) - r - γ V'(s'))² + (V(s) - Q'(u))²

    over turns that are drawn from the replay buffer. Q' and V' are target networks, θ' ← (1 - τ) θ' + τ θ
    after each step; s' is the prompt of the seat's next turn, and V' = 0 where the game ended. The
    values of a batch are the smaller of both networks, before they are fitted to it; 0 in the first batch.

    Args:
        trainer: TRL's trainer before training; its model is copied.
        discount: γ, per turn of the same seat.
        seed: of initial weights and of draws.
        hidden_size: width of the two hidden layers.
        learning_rate: learning rate of Adam.
        num_steps: steps of Adam per batch.
        batch_size: turns of a step.
        replay: turns of the replay buffer; the oldest go first. Checkpoints hold them.
        polyak: τ.

    Raises:
        ValueError: a number out of range.
    """

    supplies = ("value", "next_value", "action_value")

    def __init__(
        self,
        trainer: Any,
        discount: float = 1.0,
        seed: int = 0,
        *,
        hidden_size: int = 256,
        learning_rate: float = 1e-4,
        num_steps: int = 50,
        batch_size: int = 256,
        replay: int = 10_000,
        polyak: float = 0.1,
    ) -> None:
        sizes = {"hidden_size": hidden_size, "num_steps": num_steps, "replay": replay}
        for name, value in {**sizes, "batch_size": batch_size}.items():
            check_int(name, value, 1, 10_000_000)
        check_number("learning_rate", learning_rate, 0)
        check_number("polyak", polyak, 0, 1)
        self.trainer, self.discount, self.polyak = trainer, discount, polyak
        self.num_steps, self.batch_size, self.replay = num_steps, batch_size, replay
        model = trainer.accelerator.unwrap_model(trainer.model)
        causal = model.get_base_model() if hasattr(model, "peft_config") else model
        body = copy.deepcopy(causal.base_model)  # its forward is that of transformers
        self.encoder = body.eval().requires_grad_(False)
        self.size: int = model.config.get_text_config().hidden_size
        made = _networks([self.size] * 4, hidden_size, seed).float()
        self.networks = made.to(trainer.args.device)
        self.targets = copy.deepcopy(self.networks).requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.networks.parameters(), learning_rate)
        self.rng = torch.Generator().manual_seed(seed)
        self.seen: list[torch.Tensor] = []  # s, u, s', r, and γ where there is an s'
        self._latest = torch.zeros(0)

    @torch.no_grad()
    def with_values(self, batch: TurnBatch, records: Sequence[TurnRecord]) -> TurnBatch:
        """The batch with the columns `value`, `action_value` and `next_value`."""
        texts, cut = read_texts(self.trainer, records)
        self._latest = states = self._encoded(texts)
        num = len(records)
        q, v = self._values(self.networks, states[:, 1], states[:, 0])
        of_turn, of_state = (x.amin(0).double().cpu().numpy() for x in (q, v))
        next_value = np.full(num, np.nan)  # read only at truncation
        next_value[cut] = of_state[num:]
        known = replace(batch, value=of_state[:num], next_value=next_value)
        return replace(known, action_value=of_turn[:num])

    def _encoded(self, texts: Sequence[Text]) -> torch.Tensor:
        """float32[N, 2, H]: the last hidden state of each prompt, and of it with its reply."""
        device, most = self.trainer.args.device, self.trainer.forward.max_tokens
        states = torch.zeros(len(texts), 2, self.size, device=device)
        sizes = [len(prompt) + len(reply) for prompt, reply in texts]
        alike = reads_padding(self.trainer.policy.model)
        chunks = chunks_by_length(sizes, [0] * len(sizes), most, alike)
        for chunk in chunks if texts else ():
            rows = [[*texts[i][0], *texts[i][1]] for i in chunk]
            ids, mask = left_padded(rows, 0, device)
            places_of = positions(self.encoder, mask)
            output = self.encoder(input_ids=ids, attention_mask=mask, **places_of)
            for i, own in zip(chunk, output.last_hidden_state.float(), strict=True):
                states[i] = own[[-1 - len(texts[i][1]), -1]]
        return states

    @staticmethod
    def _values(
        networks: nn.ModuleList, pairs: torch.Tensor, states: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Q and V of both networks, float32[2, N]."""
        q, v = (
            torch.stack([network(x)[:, 0] for network in two])
            for two, x in ((networks[:2], pairs), (networks[2:], states))
        )
        return q, v

    def after(
        self, batch: TurnBatch, records: Sequence[TurnRecord], trains: bool
    ) -> dict[str, float]:
        if not trains or not len(records):
            return {}
        new = self._transitions(batch)
        old = self.seen or [x[:0] for x in new]
        self.seen = [
            torch.cat(both)[-self.replay :] for both in zip(old, new, strict=True)
        ]
        losses = [self._step() for _ in range(self.num_steps)]
        return {"arena/critic_error": losses[0]}

    def _transitions(self, batch: TurnBatch) -> list[torch.Tensor]:
        """The turns of a batch as the replay buffer holds them."""
        num, states, live = len(batch.reward), self._latest, trajectories(batch)
        following = np.full(num, -1)
        goes_on = np.flatnonzero(live.left > 0)
        following[live.row[goes_on]] = live.row[goes_on + 1]
        if batch.truncated is not None:
            cut = np.flatnonzero(batch.truncated)
            following[cut] = num + np.arange(len(cut))
        factor = torch.from_numpy(np.where(following < 0, 0.0, self.discount)).float()
        reward = torch.from_numpy(batch.reward).float()
        after = states[torch.from_numpy(following.clip(0)), 0]
        device = states.device
        return [
            states[:num, 0],
            states[:num, 1],
            after,
            reward.to(device),
            factor.to(device),
        ]

    def _step(self) -> float:
        """One step on turns that are drawn from the buffer; returns the mean loss of a network."""
        size = (self.batch_size,)
        drawn = torch.randint(len(self.seen[0]), size, generator=self.rng)
        states, pairs, after, reward, factor = (x[drawn] for x in self.seen)
        with torch.no_grad():
            of_pair, _ = self._values(self.targets, pairs, states)
            _, later = self._values(self.targets, pairs, after)
        q, v = self._values(self.networks, pairs, states)
        loss = ((q - reward - factor * later) ** 2 + (v - of_pair) ** 2).mean(1).sum()
        _check_loss(loss)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        weights = self.networks.parameters(), self.targets.parameters()
        for own, target in zip(*weights, strict=True):
            target.data.lerp_(own.data, self.polyak)
        return float(loss.detach()) / 4

    def state_dict(self) -> dict[str, Any]:
        parts = (self.networks, self.targets, self.optimizer)
        found = [part.state_dict() for part in parts]
        return {"parts": found, "seen": self.seen, "rng": self.rng.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        parts: Any = (self.networks, self.targets, self.optimizer)
        for part, own in zip(parts, state["parts"], strict=True):
            part.load_state_dict(own)
        self.seen = [x.to(self.trainer.args.device) for x in state["seen"]]
        self.rng.set_state(state["rng"].cpu())


def make_critic(trainer: Any) -> Critic:
    """The critic that the settings of a trainer name."""
    args, games = trainer.args, trainer.games
    policies = {**games.opponents, "self": trainer.policy}
    return critics.make(  # type: ignore[no-any-return] # a plug-in may give anything
        {args.critic: args.critic_args},
        games=games.rules,
        discount=discount_of(args.credit, args.credit_args),
        seed=args.seed,
        seats=[[policies[seat] for seat in plan.seats or ()] for plan in games.plans],
        options=args.prompt,
        weight=args.part_weights.get("game", 1.0),
        trainer=trainer,
    )


def check_critic(critic: Any, **options: Any) -> None:
    """Checks that a class of critics of turns gives what it declares, whatever the rewards of the batch.

    Raises:
        BrokenPromise: names the first promise that it breaks.
    """
    game = arena_envs.make_game("kuhn_poker")
    features = game.features(game.initial_state(), 0)
    records = [r._replace(features=features) for r in trial_records([game])]
    batch = turn_batch([records], {}, ["kuhn_poker"])
    door = replace(critics, built_in={"mine": critic})
    known = {"games": [game], "discount": 1.0, "seed": 0}
    made, again = (door.make({"mine": options}, **known) for _ in range(2))
    found = made.with_values(batch, records)
    for name in getattr(critic, "supplies", ("value",)):
        column = getattr(found, name)
        if column is None or (name != "next_value" and not np.isfinite(column).all()):
            broken("columns", f"want numbers in {name}, got {column!r:.60}")
    richer = made.with_values(replace(batch, reward=batch.reward + 1.0), records)
    if not np.array_equal(found.value, richer.value):
        broken("unbiased", "the values of a batch depend on its rewards")
    made.after(found, records, True)
    if (state := made.state_dict()) is not None:
        again.load_state_dict(state)
        one, other = (c.with_values(batch, records).value for c in (made, again))
        if not np.array_equal(one, other):
            broken("state", "a loaded critic gives other values")


def _worth(game: AnyGame, table: Table) -> dict[Key, Worth]:
    states = information_states(game, MAX_CRITIC_STATES)
    return {
        key: Worth(
            float(np.dot(table[key], values)),
            dict(zip(game.legal_actions(states[key]), values, strict=True)),
        )
        for key, values in action_values(game, table, MAX_CRITIC_STATES).items()
    }
