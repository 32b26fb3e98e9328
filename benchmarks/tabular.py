"""Tabular softmax self-play: the learner of the comparison of credit, and its exact values.

`Graph` numbers the states that play visits, so that episodes run in lockstep. `TabularPolicies`
play and learn in lockstep from the advantages of any estimators; `TabularPolicy` is one of them.
`ExactPolicy` has the exact values, gradients and NashConv of a policy.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_credit import TurnBatch
from arena_envs.game import CHANCE, TERMINAL, AnyGame
from arena_envs.solvers.tabular import (
    best_response_of,
    edge_weights,
    game_tree,
    reach_of,
    values_of,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
KeyOf = Callable[[Any, int], Hashable]

MAX_NODES = 1_000_000  # kept in memory: about 1 GB in Mini Hanabi
SURE = 2.0  # a cumulative probability above any draw
UNKNOWN = -1  # a child that nothing has visited yet


class Graph:
    """The states that play has visited, numbered in the order of the visits; 0 is the first.

    Equal states are one node. What the graph knows does not depend on a policy, so all
    runs of a process share it.

    Args:
        game: the rules; actions must be numbered, and draws of chance limited.
        key_of: key of a row, by state and seat; None for the information state.
        merged: an equal state of the rules for all states that differ only in what neither
            the rules nor `key_of` read, such as the past; None if there are none.

    Attributes:
        player: int64[nodes], seat to move, `CHANCE` or `TERMINAL`.
        paid: float64[nodes, seats], returns so far.
        row: int64[nodes], of the seat to move; at chance nodes, index in `chances`.
        child: int64[nodes, width], node after each action or outcome, or `UNKNOWN`.
        chances: float64[distributions, width], cumulative probabilities of outcomes, then
            `SURE`.
        legal: bool[rows, num_actions].
        rows: row of each (seat, key).

    Raises:
        ValueError: a language game, or one without a limit of draws of chance.
    """

    def __init__(
        self,
        game: AnyGame,
        key_of: KeyOf | None = None,
        merged: Callable[[Any], Any] | None = None,
    ) -> None:
        if game.num_actions is None or game.max_chance_nodes is None:
            raise ValueError(
                f"want a game with numbered actions and at most a given number of draws "
                f"of chance, got {game!r}"
            )
        self.game = game
        self.num_actions: int = game.num_actions
        self.num_draws: int = game.max_chance_nodes
        self.rows: dict[tuple[int, Hashable], int] = {}
        self.legal = np.zeros((64, self.num_actions), bool)
        self._key_of = key_of or game.information_state
        self._merged = merged or (lambda state: state)
        self._distributions: dict[tuple[float, ...], int] = {}
        self.chances = np.full((4, self.num_actions), SURE)
        self._start()

    def expand(self, node: Ints, at: Ints) -> Ints:
        """int64[len(node)]: the children by index of the action; adds those not known."""
        children = self.child[node, at]
        for i in np.flatnonzero(children == UNKNOWN).tolist():
            parent, index = int(node[i]), int(at[i])
            children[i] = self.child[parent, index]
            if children[i] == UNKNOWN:
                children[i] = self._child(parent, index)
        return children

    def forget_if_full(self) -> None:
        """Forgets all nodes if there are more than `MAX_NODES`; rows stay."""
        if len(self._states) >= MAX_NODES:
            self._start()

    def row_of(self, state: Any, seat: int) -> int:
        """The row of a seat that is to move; a new one if its key is new."""
        key = seat, self._key_of(state, seat)
        row = self.rows.get(key)
        if row is not None:
            return row
        row = self.rows[key] = len(self.rows)
        if row == len(self.legal):
            self.legal = np.concatenate([self.legal, np.zeros_like(self.legal)])
        self.legal[row, list(self.game.legal_actions(state))] = True
        return row

    def _start(self) -> None:
        self._states: list[Any] = []
        self._index: dict[Any, int] = {}
        self.player = np.zeros(64, np.int64)
        self.row = np.zeros(64, np.int64)
        self.paid = np.zeros((64, self.game.num_players))
        self.child = np.full((64, self.chances.shape[1]), UNKNOWN)
        self._node(self.game.initial_state())

    def _child(self, parent: int, index: int) -> int:
        state = self._states[parent]
        action: Any = index
        if self.player[parent] == CHANCE:
            action = self.game.chance_outcomes(state)[index][0]
        child = self._node(self.game.apply(state, action))
        self.child[parent, index] = child
        return child

    def _node(self, state: Any) -> int:
        state = self._merged(state)
        node = self._index.setdefault(state, len(self._states))
        if node < len(self._states):
            return node
        if node == len(self.player):
            for name, fill in (("player", 0), ("row", 0), ("paid", 0), ("child", -1)):
                column = getattr(self, name)
                more = np.concatenate([column, np.full_like(column, fill)])
                setattr(self, name, more)
        self._states.append(state)
        player = self.player[node] = self.game.current_player(state)
        self.paid[node] = self.game.returns(state)
        if player == CHANCE:
            outcomes = self.game.chance_outcomes(state)
            self.row[node] = self._distribution([p for _, p in outcomes])
        elif player != TERMINAL:
            self.row[node] = self.row_of(state, int(player))
        return node

    def _distribution(self, chances: Sequence[float]) -> int:
        """The number of a distribution over outcomes."""
        number = self._distributions.setdefault(
            tuple(chances), len(self._distributions)
        )
        if len(chances) > self.chances.shape[1]:
            more = len(chances) - self.chances.shape[1]
            self.chances = np.pad(
                self.chances, ((0, 0), (0, more)), "constant", constant_values=SURE
            )
            self.child = np.pad(
                self.child, ((0, 0), (0, more)), "constant", constant_values=UNKNOWN
            )
        if number == len(self.chances):
            self.chances = np.concatenate(
                [self.chances, np.full_like(self.chances, SURE)]
            )
        sums = list(accumulate(chances))[:-1]
        self.chances[number, : len(sums)] = sums
        return number


@cache
def tree_columns(graph: Graph) -> tuple[Ints, Ints]:
    """The row and action of each column of the game's tree; adds the rows to the graph.

    Raises:
        TooLarge: the game has too many states to enumerate.
    """
    tree = game_tree(graph.game)
    rows = [
        graph.row_of(state, seat)
        for (seat, _), state in zip(tree.keys, tree.states, strict=True)
    ]
    place, action = np.nonzero(graph.legal[rows])
    return np.array(rows, np.int64)[place], action


COLUMNS = frozenset(
    {
        "team",
        "state_key",
        "action",
        "terminated",
        "truncated",
        "value",
        "next_value",
        "parent",
        "branch",
        "num_tokens",
        "row_length",
        "rewards.game",
        "tokens.entropy",
        "tokens.logprob",
        "tokens.value",
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


class TabularPolicies:
    """Softmax policies over one graph that play and learn in lockstep, each with a critic.

    Each plays and learns, to the last digit, as it does alone.

    Args:
        graph: of the game; others can share it.
        num: number of policies.

    Attributes:
        logits: float64[policies, rows, num_actions]; those of illegal actions are not read.
            Call `remember` after a change.
        chances: float64[policies, rows, num_actions], the policies; 0 for illegal actions.
        value: float64[policies, rows], of the critics.
    """

    def __init__(self, graph: Graph, num: int = 1) -> None:
        self.graph = graph
        self.num = num
        self.logits = np.zeros((num, 0, graph.num_actions))
        self.value = np.zeros((num, 0))
        self.chances = np.zeros_like(self.logits)
        self._cumulative = np.zeros_like(self.logits)
        self._logs = np.zeros_like(self.logits)
        self._entropy = np.zeros_like(self.value)
        self._numbers = np.zeros((num, 0), np.int64)  # of rows, by their first visit
        self._num_rows = 0
        self.grow()

    def __getitem__(self, number: int) -> "TabularPolicy":
        return TabularPolicy(self.graph, self, number)

    def play(
        self,
        num_starts: int,
        num_samples: int,
        rngs: Sequence[np.random.Generator],
        shared: bool = True,
    ) -> list[Played]:
        """Plays a batch with each policy.

        Args:
            num_starts: number of groups.
            num_samples: episodes of a group.
            rngs: draw all random numbers, one for each policy.
            shared: whether the episodes of a group share the draws of chance.
        """
        num_sharing = num_samples if shared else 1  # episodes by the same draws
        num = num_starts * num_samples // num_sharing
        size = num, max(self.graph.num_draws, 1)
        luck = [np.repeat(rng.random(size), num_sharing, axis=0) for rng in rngs]
        turns, last = self._walk(np.concatenate(luck), rngs)
        turns = turns.take(np.argsort(turns.episode, kind="stable"))
        played = self._played(turns, num_samples, self.graph.paid[last])
        self.graph.forget_if_full()
        return played

    def update(
        self,
        played: Sequence[Played],
        advantages: Sequence[Floats],
        step: float,
        bonus: float,
    ) -> None:
        """A step of gradient ascent, and a step of the critic to the returns-to-go.

            θ ← θ + step · mean_episodes Σₖ (Aₖ / rms A + bonus · -(log π + H)) ∇log π

        The entropy part is its expectation over the actions of the visited rows. The
        division by the root mean square makes steps of all estimators equal in size.

        Args:
            played: the batch of each policy.
            advantages: float64[T] each, of its turns.
            step: size of the step.
            bonus: weight of the entropy.
        """
        place, visited, index = self._seen(played)
        weight = np.concatenate([_rescaled(advantage) for advantage in advantages])
        action = np.concatenate([batch.action for batch in played])
        width = self.graph.num_actions
        chances = self.chances.reshape(-1, width)[visited]
        change = summed(index, action, weight, chances)
        logs = self._logs.reshape(-1, width)[visited]
        entropy = self._entropy.reshape(-1)[visited]
        visits = np.bincount(index)
        change -= bonus * visits[:, None] * chances * (logs + entropy[:, None])
        self.logits.reshape(-1, width)[visited] += (
            step / len(played[0].returns) * change
        )
        self._remember(visited, place)
        self._fit(played, visited, index)

    def fit_critics(self, played: Sequence[Played]) -> None:
        """A step of each critic to the returns-to-go of its batch."""
        _, visited, index = self._seen(played)
        self._fit(played, visited, index)

    def remember(self, rows: Ints) -> None:
        """Recomputes the probabilities that play draws from, in these rows, after a change of `logits`."""
        starts = np.arange(self.num)[:, None] * self.logits.shape[1]
        self._remember((starts + rows).ravel(), np.tile(rows, self.num))

    def grow(self) -> None:
        """Adds rows that the graph has got, with equal logits."""
        old, num = self._num_rows, len(self.graph.rows)
        if num > self.logits.shape[1]:
            more = len(self.graph.legal) - self.logits.shape[1]
            wide = ((0, 0), (0, more))
            for name in ("logits", "chances", "_cumulative", "_logs"):
                setattr(self, name, np.pad(getattr(self, name), (*wide, (0, 0))))
            for name in ("value", "_entropy"):
                setattr(self, name, np.pad(getattr(self, name), wide))
            self._numbers = np.pad(self._numbers, wide, constant_values=-1)
        if num > old:
            self._num_rows = num
            columns = _remembered(self.logits[0, old:num], self.graph.legal[old:num])
            for name, column in zip(_REMEMBERED, columns, strict=True):
                getattr(self, name)[:, old:num] = column

    def _seen(self, played: Sequence[Played]) -> tuple[Ints, Ints, Ints]:
        """The visited rows; their places among the rows of all policies; those of turns."""
        num_rows = self.logits.shape[1]
        flat = np.concatenate(
            [k * num_rows + batch.row for k, batch in enumerate(played)]
        )
        visited = np.zeros(self.num * num_rows, bool)
        visited[flat] = True
        rows = np.flatnonzero(visited)
        place = np.empty(len(visited), np.int64)
        place[rows] = np.arange(len(rows))
        return rows % num_rows, rows, place[flat]

    def _fit(self, played: Sequence[Played], visited: Ints, index: Ints) -> None:
        visits = np.bincount(index)
        to_go = np.concatenate([batch.to_go for batch in played])
        mean = np.bincount(index, to_go) / visits
        value = self.value.reshape(-1)
        value[visited] += (1 - KEPT**visits) * (mean - value[visited])

    def _remember(self, visited: Ints, row: Ints) -> None:
        logits = self.logits.reshape(-1, self.graph.num_actions)[visited]
        columns = _remembered(logits, self.graph.legal[row])
        for name, column in zip(_REMEMBERED, columns, strict=True):
            whole = getattr(self, name)
            whole.reshape(-1, *whole.shape[2:])[visited] = column

    def _walk(
        self, luck: Floats, rngs: Sequence[np.random.Generator]
    ) -> tuple[_Taken, Ints]:
        """Plays all episodes at once: their turns by time, and their last nodes."""
        graph, num = self.graph, len(luck)
        each, width = num // self.num, graph.num_actions
        node, draws = np.zeros(num, np.int64), np.zeros(num, np.int64)
        live, turns = np.arange(num), []
        bounds = each * np.arange(self.num + 1)
        while len(live):
            here = node[live]
            player = graph.player[here]
            counts = np.diff(np.searchsorted(live, bounds)).tolist()
            u = np.concatenate(
                [rng.random(count) for rng, count in zip(rngs, counts, strict=True)]
            )
            at = np.zeros(len(live), np.int64)
            is_chance = player == CHANCE
            any_chance = is_chance.any()
            if any_chance:
                lucky = live[is_chance]
                u[is_chance] = luck[lucky, draws[lucky]]
                draws[lucky] += 1
                sums = graph.chances[graph.row[here[is_chance]]]
                at[is_chance] = (sums <= u[is_chance, None]).sum(axis=1)
            if not (any_chance and is_chance.all()):
                moves = ~is_chance if any_chance else slice(None)
                episode, seat, place = live[moves], player[moves], here[moves]
                row = graph.row[place]
                flat = episode // each * self.logits.shape[1] + row
                sums = self._cumulative.reshape(-1, width)[flat]
                action = at[moves] = (sums <= u[moves, None]).sum(axis=1)
                turns.append((episode, seat, row, action, graph.paid[place, seat]))
            after = node[live] = graph.expand(here, at)
            self.grow()
            live = live[graph.player[after] != TERMINAL]
        columns = (np.concatenate(column) for column in zip(*turns, strict=True))
        return _Taken(*columns), node

    def _played(
        self, turns_taken: _Taken, num_samples: int, returns: Floats
    ) -> list[Played]:
        """The batch of each policy, from the turns of all in order."""
        whole, seat, row, action, paid = turns_taken
        each, num_rows = len(returns) // self.num, self.logits.shape[1]
        policy, episode = np.divmod(whole, each)
        turn, reward, last = _rewards(turns_taken, returns)
        flat = policy * num_rows + row
        logs = self._logs.reshape(len(self.value) * num_rows, -1)[flat, action]
        columns = {
            "reward": reward,
            "episode": episode,
            "seat": seat,
            "turn": turn,
            "group": episode // num_samples,
            "team": np.array(self.graph.game.teams)[seat],
            "state_key": self._numbered(flat),
            "action": action,
            "terminated": last,
            "value": self.value.reshape(-1)[flat],
        }
        entropy = self._entropy.reshape(-1)[flat]
        to_go = returns[whole, seat] - paid
        ends = np.searchsorted(whole, each * np.arange(self.num + 1)).tolist()
        batches = []
        for k, part in enumerate(map(slice, ends[:-1], ends[1:])):
            policy_columns = {name: column[part] for name, column in columns.items()}
            tokens = {"entropy": entropy[part], "logprob": logs[part]}
            of = returns[k * each : (k + 1) * each]
            about = row[part], action[part], to_go[part], paid[part], of
            batches.append(Played(_turns(policy_columns, tokens), *about))
        return batches

    def _numbered(self, flat: Ints) -> Ints:
        """Numbers of rows by their first visit in a run, whatever the graph knew."""
        numbers = self._numbers.reshape(-1)
        known_numbers = numbers[flat]
        unknown = known_numbers < 0
        if unknown.any():
            new, first = np.unique(flat[unknown], return_index=True)
            policy = new // self._numbers.shape[1]
            for k in np.unique(policy):
                is_own = policy == k
                start = int(self._numbers[k].max(initial=-1)) + 1
                ordered = new[is_own][np.argsort(first[is_own])]
                numbers[ordered] = np.arange(start, start + len(ordered))
            known_numbers = numbers[flat]
        return known_numbers


_REMEMBERED = "chances", "_cumulative", "_logs", "_entropy"


def _remembered(logits: Floats, legal: NDArray[np.bool_]) -> tuple[Floats, ...]:
    """What `_REMEMBERED` names, of some rows; cumulative probabilities draw actions."""
    logits = np.where(legal, logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances = weights / weights.sum(axis=1, keepdims=True)
    cumulative = np.cumsum(chances, axis=1)
    beyond = np.cumsum(chances[:, ::-1], axis=1)[:, ::-1] - chances <= 0
    cumulative[beyond] = SURE  # rounding must not reach an illegal action
    logs = np.log(np.where(chances > 0, chances, 1.0))
    return chances, cumulative, logs, -(chances * logs).sum(axis=1)


def _rescaled(advantage: Floats) -> Floats:
    """An advantage divided by its root mean square; 0 if that is 0."""
    size = float(np.sqrt(np.mean(advantage**2)))
    return advantage / size if size > 1e-9 else np.zeros_like(advantage)


def _turns(columns: dict[str, Any], tokens: dict[str, Floats]) -> TurnBatch:
    """The turn batch of a policy: one token for each turn, and nothing branched."""
    zeros = np.zeros(len(columns["reward"]), np.int64)
    return TurnBatch(
        **columns,
        game=zeros,
        rewards={"game": columns["reward"]},
        truncated=np.zeros(len(zeros), bool),
        next_value=np.zeros(len(zeros)),
        parent=zeros - 1,
        branch=zeros,
        num_tokens=zeros + 1,
        row_length=zeros + 2,
        tokens={**tokens, "value": columns["value"]},
    )


class TabularPolicy:
    """A softmax policy with a row of logits for each row of a graph, and a critic.

    Args:
        graph: of the game; several policies can share one.
        among: the policies of which this is one; None for a policy of its own.
        number: which of them.
    """

    def __init__(
        self, graph: Graph, among: TabularPolicies | None = None, number: int = 0
    ) -> None:
        self.graph = graph
        self._among = among or TabularPolicies(graph)
        self._number = number

    @property
    def logits(self) -> Floats:
        """float64[rows, num_actions]; call `remember` after a change."""
        return np.asarray(self._among.logits[self._number])

    @property
    def value(self) -> Floats:
        """float64[rows], of the critic."""
        return np.asarray(self._among.value[self._number])

    def probabilities(self, row: Ints) -> Floats:
        """float64[len(row), num_actions]: the policy in some rows; 0 for illegal actions."""
        self._among.grow()
        return np.asarray(self._among.chances[self._number, row])

    def table(self) -> dict[tuple[int, Hashable], list[float]]:
        """The policy as a table of `arena_envs.solvers`: legal actions only."""
        chances = self.probabilities(np.arange(len(self.graph.rows)))
        return {
            key: chances[row][self.graph.legal[row]].tolist()
            for key, row in self.graph.rows.items()
        }

    def play(
        self,
        num_starts: int,
        num_samples: int,
        rng: np.random.Generator,
        shared: bool = True,
    ) -> Played:
        """Plays a batch; see `TabularPolicies.play`. Only a policy of its own can."""
        return self._among.play(num_starts, num_samples, [rng], shared)[0]

    def update(
        self, played: Played, advantage: Floats, step: float, bonus: float
    ) -> None:
        """A step; see `TabularPolicies.update`."""
        self._among.update([played], [advantage], step, bonus)

    def fit_critic(self, played: Played) -> None:
        """A step of the critic to the returns-to-go of a batch."""
        self._among.fit_critics([played])

    def remember(self, rows: Ints) -> None:
        """See `TabularPolicies.remember`."""
        self._among.remember(rows)


def summed(index: Ints, action: Ints, weight: Floats, chances: Floats) -> Floats:
    """float64[R, num_actions]: Σ weight · ∇ log π(action) of the turns at each row.

    Args:
        index: int64[T], row of each turn.
        action: int64[T], taken there.
        weight: float64[T].
        chances: float64[R, num_actions], the policy π.
    """
    num, width = chances.shape
    totals = np.bincount(index * width + action, weight, num * width)
    total = np.bincount(index, weight, num)
    return totals.reshape(num, width) - total[:, None] * chances


def _rewards(turns: _Taken, returns: Floats) -> tuple[Ints, Floats, NDArray[np.bool_]]:
    """The index of each turn in its trajectory, its reward, and whether it is the last.

    A reward is paid from the turn until the seat's next turn.
    """
    key = turns.episode * returns.shape[1] + turns.seat
    order = np.argsort(key, kind="stable")
    new = np.diff(key[order], prepend=-1) != 0
    ends = np.append(new[1:], True)
    starts = np.flatnonzero(new)
    turn, last = np.empty(len(key), np.int64), np.empty(len(key), bool)
    turn[order] = np.arange(len(key)) - starts[np.cumsum(new) - 1]
    last[order] = ends
    before = turns.paid[order]
    whole = returns[turns.episode, turns.seat][order]
    reward = np.empty(len(key))
    reward[order] = np.where(ends, whole, np.append(before[1:], 0.0)) - before
    return turn, reward, last


EXACT = frozenset({"action_value", "rewards.judge"})
ROUNDING = 1e-9  # values that differ by less are equal


class ActionValues(NamedTuple):
    """Expected return of the seat that is to move, and the gradient of its return.

    value: float64[rows], of the policy's own action.
    action_value: float64[rows, num_actions]; the value itself where a row is not reached,
        and for illegal actions.
    gradient: float64[rows, num_actions], of the seat's own expected return by its logits.
    """

    value: Floats
    action_value: Floats
    gradient: Floats


class ExactPolicy:
    """A policy over the tree of its game. All rows of the graph are information states.

    Args:
        table: the policy; its graph gets a row for each information state.

    Raises:
        TooLarge: the game has too many states to enumerate.
    """

    def __init__(self, table: TabularPolicy) -> None:
        graph = table.graph
        self.tree = game_tree(graph.game)
        self.columns = tree_columns(graph)
        chances = table.probabilities(np.arange(len(graph.rows)))
        self.chances = chances
        self.policy = chances[self.columns]

    @cached_property
    def _weights(self) -> Floats:
        return edge_weights(self.tree, self.policy, range(self.tree.num_players))

    def returns(self) -> Floats:
        """float64[seats], expected."""
        tree = self.tree
        values = [values_of(tree, self._weights, s)[0] for s in range(tree.num_players)]
        return np.array(values)

    def nash_conv(self) -> float:
        """The sum of the seats' gains by best responses; 0 at an equilibrium."""
        seats = range(self.tree.num_players)
        best = [best_response_of(self.tree, self.policy, seat)[0] for seat in seats]
        return float(np.sum(best) - self.returns().sum())

    def action_values(self) -> ActionValues:
        """Values and gradient; see `arena_envs.solvers.action_values`."""
        tree, seats = self.tree, range(self.tree.num_players)
        worth, mass, reach_of_all = np.zeros((3, tree.num_columns))
        whole = reach_of(tree, self._weights)
        for seat in seats:
            others = edge_weights(tree, self.policy, [s for s in seats if s != seat])
            edges = tree.decisions[seat]
            source, column = tree.source[edges], tree.column[edges]
            reach = reach_of(tree, others)[source]
            after = values_of(tree, self._weights, seat)[tree.target[edges]]
            worth += np.bincount(column, reach * after, tree.num_columns)
            mass += np.bincount(column, reach, tree.num_columns)
            reach_of_all += np.bincount(column, whole[source], tree.num_columns)
        by_row = np.zeros((2, *self.chances.shape))
        by_row[0][self.columns] = np.divide(worth, mass, where=mass > 0, out=0 * worth)
        by_row[1][self.columns] = reach_of_all
        action_value, reached = by_row
        value = (self.chances * action_value).sum(axis=1)
        legal = np.zeros(self.chances.shape, bool)
        legal[self.columns] = True
        action_value = np.where(legal, action_value, value[:, None])
        gradient = reached * self.chances * (action_value - value[:, None])
        return ActionValues(value, action_value, gradient)


def with_exact_values(table: TabularPolicy, played: Played) -> TurnBatch:
    """The batch with the exact values of the policy.

    Sets the columns `value` and `action_value`, both from the turn on, and the part `judge`
    of the rewards: 1 if `action_value` >= `value`, else -1.
    """
    values = ExactPolicy(table).action_values()
    value = values.value[played.row]
    action_value = values.action_value[played.row, played.action]
    judge = np.where(action_value >= value - ROUNDING, 1.0, -1.0)
    rewards = {**(played.turns.rewards or {}), "judge": judge}
    return replace(
        played.turns,
        value=value - played.paid,
        action_value=action_value - played.paid,
        rewards=rewards,
    )
