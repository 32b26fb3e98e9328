"""Self-play of tabular softmax policies, trained by any estimator."""

import random
from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import CHANCE, TERMINAL, AnyGame
from arena_envs.sampling import draw
from arena_trainers.credit import TurnBatch, returns_to_go, trajectories

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
KeyOf = Callable[[Any, int], Hashable]

COLUMNS = frozenset(
    {
        *("team", "state_key", "action", "terminated", "truncated"),
        *("value", "next_value", "parent", "branch", "num_tokens", "row_length"),
        *("rewards.game", "tokens.entropy", "tokens.logprob", "tokens.value"),
    }
)  # of `TabularPolicy.play`, beside the columns that every batch has
MAX_NODES = 100_000  # kept in memory
SURE = 2.0  # a cumulative probability above any draw
KEPT = 0.9  # share of the critic's value that one visit of a row leaves


@dataclass(slots=True)
class Node:
    """A state, what the rules say of it, and the nodes after it by index of the action."""

    state: Any
    player: int
    returns: Sequence[float]
    actions: Sequence[Any] = ()
    cumulative: list[float] = field(default_factory=list)
    row: int = -1
    children: dict[int, "Node"] = field(default_factory=dict)


@dataclass(slots=True)
class _Turn:
    episode: int
    group: int
    seat: int
    turn: int
    row: int
    action: int
    reward: float
    is_last: bool = False


class Played(NamedTuple):
    """A batch of episodes, and the row and action of each turn in the table.

    mean_return: return of an episode, mean over seats and episodes.
    """

    turns: TurnBatch
    row: Ints
    action: Ints
    mean_return: float


class TabularPolicy:
    """A softmax policy with a row of logits for each information state, and a critic.

    Args:
        game: the rules; actions must be numbered.
        key_of: key of a row, by state and seat; None for the information state.

    Raises:
        ValueError: a language game, whose actions are not numbered.
    """

    def __init__(self, game: AnyGame, key_of: KeyOf | None = None) -> None:
        if game.num_actions is None:
            raise ValueError(f"want a game with numbered actions, got {game!r}")
        self.game = game
        self.rows: dict[tuple[int, Hashable], int] = {}
        self.logits = np.full((64, game.num_actions), -np.inf)
        self.value = np.zeros(64)
        self._key_of = key_of or game.information_state
        self._nodes: dict[Any, Node] = {}
        self._cumulative: list[list[float]] = []

    def probabilities(self, row: Ints) -> Floats:
        """float64[len(row), num_actions]: the policy in some rows; 0 for illegal actions."""
        logits = self.logits[row]
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float64)

    def table(self) -> dict[tuple[int, Hashable], list[float]]:
        """The policy as a table of `arena_envs.solvers`: legal actions only."""
        chances = self.probabilities(np.arange(len(self.rows)))
        legal = np.isfinite(self.logits)
        return {
            key: chances[row][legal[row]].tolist() for key, row in self.rows.items()
        }

    def play(self, num_starts: int, num_samples: int, rng: random.Random) -> Played:
        """Plays episodes of self-play; samples of a start share the draws of chance."""
        turns: list[_Turn] = []
        total = 0.0
        for start in range(num_starts):
            luck: list[float] = []
            for sample in range(num_samples):
                whose = start * num_samples + sample, start
                returns = self._play_one(turns, luck, whose, rng)
                total += sum(returns) / len(returns)
        if len(self._nodes) >= MAX_NODES:
            self._nodes.clear()
        return self._played(turns, total / (num_starts * num_samples))

    def update(
        self, played: Played, advantage: Floats, step: float, bonus: float
    ) -> None:
        """A step of gradient ascent, and a step of the critic to the returns-to-go.

            θ ← θ + step · mean_episodes Σₖ (Aₖ / rms A + bonus · -(log π + H)) ∇log π

        The entropy part is its expectation over the actions of the visited rows. The
        division by the root mean square makes steps of all estimators equal in size.

        Args:
            played: the batch.
            advantage: float64[T], of its turns.
            step: size of the step.
            bonus: weight of the entropy.
        """
        size = float(np.sqrt(np.mean(advantage**2)))
        weight = advantage / size if size > 1e-9 else np.zeros_like(advantage)
        seen, index = np.unique(played.row, return_inverse=True)
        index = index.ravel()
        chances = self.probabilities(seen)
        change = np.zeros_like(chances)
        np.add.at(change, (index, played.action), weight)
        change -= np.bincount(index, weight)[:, None] * chances
        logs = np.log(np.where(chances > 0, chances, 1.0))
        entropy = -(chances * logs).sum(axis=1, keepdims=True)
        visits = np.bincount(index)[:, None]
        change -= bonus * visits * chances * (logs + entropy)
        episodes = int(played.turns.episode.max()) + 1
        legal = np.isfinite(self.logits[seen])
        self.logits[seen] += np.where(legal, step * change / episodes, 0.0)
        self._remember(seen)
        self._fit(played, seen, index)

    def _fit(self, played: Played, seen: Ints, index: Ints) -> None:
        """Moves the critic of the visited rows towards the mean return-to-go."""
        live = trajectories(played.turns)
        to_go = live.scatter(returns_to_go(live, live.column("reward")))
        visits = np.bincount(index)
        mean = np.bincount(index, to_go) / visits
        self.value[seen] += (1 - KEPT**visits) * (mean - self.value[seen])

    def _play_one(
        self,
        turns: list[_Turn],
        luck: list[float],
        whose: tuple[int, int],
        rng: random.Random,
    ) -> Sequence[float]:
        """Plays an episode: appends its turns, and returns the return of each seat."""
        node = self._node(self.game.initial_state())
        last: dict[int, _Turn] = {}
        draws = 0
        while node.player != TERMINAL:
            if node.player == CHANCE:
                if draws == len(luck):
                    luck.append(rng.random())
                at = draw(node.cumulative, luck[draws])
                draws += 1
            else:
                seat, row = node.player, node.row
                paid = node.returns[seat]
                at = bisect_right(self._cumulative[row], rng.random())
                before = last.get(seat)
                if before is not None:
                    before.reward += paid
                number = 0 if before is None else before.turn + 1
                turn = last[seat] = _Turn(*whose, seat, number, row, at, -paid)
                turns.append(turn)
            node = self._child(node, at)
        for seat, turn in last.items():
            turn.reward += node.returns[seat]
            turn.is_last = True
        return node.returns

    def _played(self, turns: list[_Turn], mean_return: float) -> Played:
        def column(name: str) -> Ints:
            return np.array([getattr(turn, name) for turn in turns], np.int64)

        reward = np.array([turn.reward for turn in turns])
        row, action, seat = column("row"), column("action"), column("seat")
        last = np.array([turn.is_last for turn in turns])
        chances = self.probabilities(row)
        logs = np.log(np.where(chances > 0, chances, 1.0))
        zeros = np.zeros(len(turns), np.int64)
        value = self.value[row]
        batch = TurnBatch(
            reward=reward,
            game=zeros,
            episode=column("episode"),
            seat=seat,
            turn=column("turn"),
            group=column("group"),
            rewards={"game": reward},
            team=np.array(self.game.teams)[seat],
            state_key=row,
            action=action,
            terminated=last,
            truncated=np.zeros(len(turns), bool),
            value=value,
            next_value=np.zeros(len(turns)),
            parent=zeros - 1,
            branch=zeros,
            num_tokens=zeros + 1,
            row_length=zeros + 2,
            tokens={
                "entropy": -(chances * logs).sum(axis=1),
                "logprob": logs[np.arange(len(turns)), action],
                "value": value,
            },
        )
        return Played(batch, row, action, mean_return)

    def _child(self, node: Node, at: int) -> Node:
        child = node.children.get(at)
        if child is None:
            state = self.game.apply(node.state, node.actions[at])
            child = node.children[at] = self._node(state)
        return child

    def _node(self, state: Any) -> Node:
        node = self._nodes.get(state)
        if node is not None:
            return node
        game = self.game
        player = game.current_player(state)
        node = Node(state, player, game.returns(state))
        if player == CHANCE:
            outcomes = game.chance_outcomes(state)
            node.actions = [outcome for outcome, _ in outcomes]
            node.cumulative = list(accumulate(p for _, p in outcomes))
        elif player >= 0:
            node.actions = range(self.logits.shape[1])
            node.row = self._row(state, player)
        if len(self._nodes) < MAX_NODES:
            self._nodes[state] = node
        return node

    def _row(self, state: Any, player: int) -> int:
        """The row of the seat to move; a new one has equal logits."""
        key = player, self._key_of(state, player)
        row = self.rows.setdefault(key, len(self.rows))
        if row == len(self._cumulative):
            if row == len(self.logits):
                self.logits = np.concatenate(
                    [self.logits, np.full_like(self.logits, -np.inf)]
                )
                self.value = np.concatenate([self.value, np.zeros_like(self.value)])
            self.logits[row, list(self.game.legal_actions(state))] = 0.0
            self._cumulative.append([])
            self._remember(np.array([row]))
        return row

    def _remember(self, rows: Ints) -> None:
        """Stores the cumulative probabilities of rows, to draw actions."""
        chances = self.probabilities(rows)
        cumulative = np.cumsum(chances, axis=1)
        beyond = np.cumsum(chances[:, ::-1], axis=1)[:, ::-1] - chances <= 0
        cumulative[beyond] = SURE  # rounding must not reach an illegal action
        for row, values in zip(rows.tolist(), cumulative.tolist(), strict=True):
            self._cumulative[row] = values
