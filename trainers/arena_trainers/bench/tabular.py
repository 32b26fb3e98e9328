"""Self-play of tabular softmax policies, trained by any estimator."""

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import CHANCE, TERMINAL
from arena_trainers.bench.graph import SURE, Floats, Graph, Ints
from arena_trainers.credit import TurnBatch

COLUMNS = frozenset(
    {
        *("team", "state_key", "action", "terminated", "truncated"),
        *("value", "next_value", "parent", "branch", "num_tokens", "row_length"),
        *("rewards.game", "tokens.entropy", "tokens.logprob", "tokens.value"),
    }
)  # of `TabularPolicy.play`, beside the columns that every batch has
KEPT = 0.9  # share of the critic's value that one visit of a row leaves


class Played(NamedTuple):
    """A batch of episodes, and the row and action of each turn in the table.

    to_go: float64[T], undiscounted return-to-go of each turn.
    paid: float64[T], what the turn's seat had been paid before it.
    returns: float64[episodes, seats].
    """

    turns: TurnBatch
    row: Ints
    action: Ints
    to_go: Floats
    paid: Floats
    returns: Floats

    @property
    def mean_return(self) -> float:
        """Return of an episode, mean over seats and episodes."""
        return float(self.returns.mean())


class _Taken(NamedTuple):
    """Turns: int64[T] each, and float64[T], what the seat had been paid before."""

    episode: Ints
    seat: Ints
    row: Ints
    action: Ints
    paid: Floats

    def take(self, order: Ints) -> "_Taken":
        """The turns in another order."""
        columns: Iterator[Any] = (column[order] for column in self)
        return _Taken(*columns)


class TabularPolicy:
    """A softmax policy with a row of logits for each row of a graph, and a critic.

    Args:
        graph: of the game; several policies can share one.

    Attributes:
        logits: float64[rows, num_actions]; those of illegal actions are not read.
        value: float64[rows], of the critic.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.logits = np.zeros((0, graph.num_actions))
        self.value = np.zeros(0)
        self._cumulative = np.zeros((0, graph.num_actions))
        self._numbers = np.zeros(0, np.int64)  # of rows, by their first visit
        self._num_rows = 0
        self._grow()

    def probabilities(self, row: Ints) -> Floats:
        """float64[len(row), num_actions]: the policy in some rows; 0 for illegal actions."""
        self._grow()
        logits = np.where(self.graph.legal[row], self.logits[row], -np.inf)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float64)

    def table(self) -> dict[tuple[int, Hashable], list[float]]:
        """The policy as a table of `arena_envs.solvers`: legal actions only."""
        chances = self.probabilities(np.arange(len(self.graph.rows)))
        return {
            key: chances[row][self.graph.legal[row]].tolist()
            for key, row in self.graph.rows.items()
        }

    def play(
        self, num_starts: int, num_samples: int, rng: np.random.Generator
    ) -> Played:
        """Plays episodes of self-play; samples of a start share the draws of chance."""
        luck = rng.random((num_starts, max(self.graph.num_draws, 1)))
        taken, last = self._walk(np.repeat(luck, num_samples, axis=0), rng)
        order = np.argsort(taken.episode, kind="stable")
        taken = taken.take(order)
        played = self._played(taken, num_samples, self.graph.paid[last])
        self.graph.forget_if_full()
        return played

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
        chances = self.probabilities(seen)
        change = summed(index, played.action, weight, chances)
        logs = np.log(np.where(chances > 0, chances, 1.0))
        entropy = -(chances * logs).sum(axis=1, keepdims=True)
        visits = np.bincount(index)
        change -= bonus * visits[:, None] * chances * (logs + entropy)
        self.logits[seen] += step / len(played.returns) * change
        self._remember(seen)
        mean = np.bincount(index, played.to_go) / visits
        self.value[seen] += (1 - KEPT**visits) * (mean - self.value[seen])

    def _walk(self, luck: Floats, rng: np.random.Generator) -> tuple[_Taken, Ints]:
        """Plays all episodes at once: their turns by time, and their last nodes."""
        graph, num = self.graph, len(luck)
        node, draws = np.zeros(num, np.int64), np.zeros(num, np.int64)
        live = np.arange(num)
        turns = []
        while len(live):
            here = node[live]
            player = graph.player[here]
            u = rng.random(len(live))
            at = np.zeros(len(live), np.int64)
            drawn = player == CHANCE
            if drawn.any():
                lucky = live[drawn]
                u[drawn] = luck[lucky, draws[lucky]]
                draws[lucky] += 1
                sums = graph.chances[graph.row[here[drawn]]]
                at[drawn] = (sums <= u[drawn, None]).sum(axis=1)
            if not drawn.all():
                moves = ~drawn
                row, seat = graph.row[here[moves]], player[moves]
                at[moves] = (self._cumulative[row] <= u[moves, None]).sum(axis=1)
                paid = graph.paid[here[moves], seat]
                turns.append((live[moves], seat, row, at[moves], paid))
            after = node[live] = graph.expand(here, at)
            self._grow()
            live = live[graph.player[after] != TERMINAL]
        columns = (np.concatenate(column) for column in zip(*turns, strict=True))
        return _Taken(*columns), node

    def _played(self, taken: _Taken, num_samples: int, returns: Floats) -> Played:
        episode, seat, row, action, paid = taken
        turn, reward, last = _rewards(taken, returns)
        chances = self.probabilities(row)
        logs = np.log(np.where(chances > 0, chances, 1.0))
        zeros = np.zeros(len(row), np.int64)
        value = self.value[row]
        batch = TurnBatch(
            reward=reward,
            game=zeros,
            episode=episode,
            seat=seat,
            turn=turn,
            group=episode // num_samples,
            rewards={"game": reward},
            team=np.array(self.graph.game.teams)[seat],
            state_key=self._numbered(row),
            action=action,
            terminated=last,
            truncated=np.zeros(len(row), bool),
            value=value,
            next_value=np.zeros(len(row)),
            parent=zeros - 1,
            branch=zeros,
            num_tokens=zeros + 1,
            row_length=zeros + 2,
            tokens={
                "entropy": -(chances * logs).sum(axis=1),
                "logprob": logs[np.arange(len(row)), action],
                "value": value,
            },
        )
        to_go = returns[episode, seat] - paid
        return Played(batch, row, action, to_go, paid, returns)

    def _numbered(self, row: Ints) -> Ints:
        """Numbers of rows by their first visit in this run, whatever the graph knew."""
        new, first = np.unique(row[self._numbers[row] < 0], return_index=True)
        start = int(self._numbers.max(initial=-1)) + 1
        self._numbers[new[np.argsort(first)]] = np.arange(start, start + len(new))
        return self._numbers[row]

    def _grow(self) -> None:
        """Adds rows that the graph has got, with equal logits."""
        old, num = self._num_rows, len(self.graph.rows)
        if num > len(self.logits):
            more = len(self.graph.legal) - len(self.logits)
            wide = ((0, more), (0, 0))
            self.logits = np.pad(self.logits, wide)
            self._cumulative = np.pad(self._cumulative, wide)
            self.value = np.pad(self.value, (0, more))
            self._numbers = np.pad(self._numbers, (0, more), constant_values=-1)
        if num > old:
            self._num_rows = num
            self._remember(np.arange(old, num))

    def _remember(self, rows: Ints) -> None:
        """Stores the cumulative probabilities of rows, to draw actions."""
        chances = self.probabilities(rows)
        cumulative = np.cumsum(chances, axis=1)
        beyond = np.cumsum(chances[:, ::-1], axis=1)[:, ::-1] - chances <= 0
        cumulative[beyond] = SURE  # rounding must not reach an illegal action
        self._cumulative[rows] = cumulative


def summed(index: Ints, action: Ints, weight: Floats, chances: Floats) -> Floats:
    """float64[R, num_actions]: Σ weight · ∇ log π(action) of the turns at each row.

    Args:
        index: int64[T], row of each turn.
        action: int64[T], taken there.
        weight: float64[T].
        chances: float64[R, num_actions], the policy π.
    """
    num, width = chances.shape
    taken = np.bincount(index * width + action, weight, num * width)
    total = np.bincount(index, weight, num)
    return taken.reshape(num, width) - total[:, None] * chances


def _rewards(taken: _Taken, returns: Floats) -> tuple[Ints, Floats, NDArray[np.bool_]]:
    """The index of each turn in its trajectory, its reward, and whether it is the last.

    A reward is paid from the turn until the seat's next turn.
    """
    key = taken.episode * returns.shape[1] + taken.seat
    order = np.argsort(key, kind="stable")
    new = np.diff(key[order], prepend=-1) != 0
    ends = np.append(new[1:], True)
    starts = np.flatnonzero(new)
    turn, last = np.empty(len(key), np.int64), np.empty(len(key), bool)
    turn[order] = np.arange(len(key)) - starts[np.cumsum(new) - 1]
    last[order] = ends
    before = taken.paid[order]
    whole = returns[taken.episode, taken.seat][order]
    reward = np.empty(len(key))
    reward[order] = np.where(ends, whole, np.append(before[1:], 0.0)) - before
    return turn, reward, last
