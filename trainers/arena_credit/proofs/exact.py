"""All lines of play of a small game, its exact gradient, and batches of it with an exact critic.

A line of play is one path from the initial state to the end.

A policy is a softmax over the logits θ of each information state. For the logits of a seat,
the true gradient is the gradient of that seat's own expected return:

    gᵢ = Σ_τ p(τ) Σₖ Rᵢₖ(τ) ∇log π(aₖ),   over all lines of play τ and turns k of seat i

If a limit of turns ends episodes, k runs over the turns before the limit, and R is still
the return of the whole game. `expectation` computes the gradient that an estimator gives.

>>> from arena_credit.proofs.diagnostics import DIAGNOSTICS
>>> bandit = DIAGNOSTICS["bandit"]
>>> game = ExactGame(bandit)
>>> game.at(game.policy(bandit.weights)).gradient  # uniform over arms worth 1 and 2
array([-0.25,  0.25])
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from operator import sub
from typing import Any, NamedTuple

import numpy as np

from arena_credit.batch import Bools, Floats, Ints, TurnBatch
from arena_envs.game import (
    CHANCE,
    AnyExtensiveForm,
    AnyState,
    InfosetKey,
)

MAX_LINES = 10_000  # lines of play, and starts: each is a row of arrays
DIGITS = 12  # of the ends of chance intervals: sums in another order are equal
Intervals = tuple[tuple[float, float], ...]
# seat, column, its returns before the turn
PaidStep = tuple[int, int, tuple[float, float]]
Path = tuple[float, Intervals, tuple[PaidStep, ...]]  # the first fields of a line
COLUMNS = frozenset(
    {
        "team",
        "state_key",
        "action",
        "action_value",
        "value",
        "next_value",
        "terminated",
        "truncated",
        "parent",
        "branch",
        "num_tokens",
        "row_length",
        "rewards.game",
        "rewards.side_reward",
        "rewards.judge",
        "tokens.entropy",
        "tokens.logprob",
        "tokens.value",
    }
)  # of `ExactPlay.batch`, beside the columns that every batch has
ROUNDING = 1e-9  # numbers that differ by less are equal
MAX_POPULATION = 20_000  # episodes with exact shares of all lines


class _Line(NamedTuple):
    """A line of play; returns are pairs: the whole return, the side reward in it."""

    chance: float  # probability of its chance outcomes
    # (low, high) per chance node: a uniform number in [low, high) draws its outcome
    intervals: Intervals
    steps: tuple[PaidStep, ...]
    ends: list[tuple[float, float]]  # returns by seat
    cut: bool  # by a limit of turns


class Flat(NamedTuple):
    """L lines as arrays; their T turns stand line after line.

    chance: float64[L], probability of the chance outcomes.
    start: int64[L], row of the line's first turn. size: int64[L], number of its turns.
    column: int64[T], column of the turn's information state and action.
    seat: int64[T], the seat to move.
    turn: int64[T], number of the turn among those of its seat, from 0.
    reward: float64[T], what the seat is paid until its next turn, or until the end of the line.
    side_reward: float64[T], the part of the reward that does not belong to the outcome.
    to_go: float64[T], return-to-go, up to the end of the line.
    last: bool[T], the seat's last turn on the line.
    cut: bool[T], whether a limit of turns ended the line.
    """

    chance: Floats
    start: Ints
    size: Ints
    column: Ints
    seat: Ints
    turn: Ints
    reward: Floats
    side_reward: Floats
    to_go: Floats
    last: Bools
    cut: Bools

    def rows(self, lines: Sequence[int] | Ints) -> Ints:
        """int64: the rows of all turns of some lines, one line after another."""
        size = self.size[lines]
        shift = self.start[lines] - (np.cumsum(size) - size)
        return np.asarray(np.repeat(shift, size) + np.arange(size.sum()), np.int64)

    def probabilities(self, policy: Floats) -> Floats:
        """float64[L]: probability of each line when all seats play by float64[C]."""
        probability = self.chance.copy()
        line_of = np.repeat(np.arange(len(probability)), self.size)
        np.multiply.at(probability, line_of, policy[self.column])
        return probability


def flatten(lines: Sequence[_Line]) -> Flat:
    """The lines as arrays."""
    rows: list[tuple[Any, ...]] = []
    for line in lines:
        line_rows, later = (
            [],
            dict[int, tuple[float, float]](),
        )  # returns at its next turn
        for k, (seat, column, before) in reversed([*enumerate(line.steps)]):
            turn = sum(earlier_seat == seat for earlier_seat, *_ in line.steps[:k])
            reward, side = map(sub, later.get(seat, line.ends[seat]), before)
            to_go, is_last = line.ends[seat][0] - before[0], seat not in later
            line_rows.append(
                (column, seat, turn, reward, side, to_go, is_last, line.cut)
            )
            later[seat] = before
        rows += line_rows[::-1]
    size = np.array([len(line.steps) for line in lines])
    kinds = (*[np.int64] * 3, *[np.float64] * 3, bool, bool)
    columns = map(np.array, zip(*rows, strict=True), kinds)
    chance = np.array([line.chance for line in lines])
    return Flat(chance, np.cumsum(size) - size, size, *columns)


class ExactGame:
    """A game with all its lines of play.

    A column is a pair of an information state and an action; there are C of them.

    Args:
        game: the rules. Seats must have perfect recall, otherwise `value` and
            `action_value` are wrong. Where returns include side rewards, its method
            `side_reward(state)` gives the part of each seat's return so far that does not belong
            to the outcome.
        max_turns: limit of turns, all seats together; None for no limit.

    Attributes:
        keys: (seat, information state) of each information state.
        infoset: int64[C], the information state of each column, as an index of `keys`.
            Columns are numbered by information state, then by action.
        seat: int64[C], the seat of each column.
        flat: the lines up to the limit of turns.
        whole: the lines up to the end of the game.
        begin: for each of `whole`, the index of the line in `flat` with which it begins.

    Raises:
        ValueError: the game has more than 10,000 lines of play.
    """

    def __init__(self, game: AnyExtensiveForm, max_turns: int | None = None) -> None:
        self.game, self._limit = game, max_turns
        self.keys: list[InfosetKey] = []
        self._widths: list[int] = []  # number of actions of each of `keys`
        self._first: dict[InfosetKey, int] = {}  # column
        self._lines, self._whole = list[_Line](), list[_Line]()
        self._begin: list[int] = []
        self._visit(game.initial_state(), (1.0, (), ()), -1)
        self.infoset: Ints = np.repeat(np.arange(len(self.keys)), self._widths)
        self.seat: Ints = np.array([seat for seat, _ in self.keys])[self.infoset]
        self.flat, self.whole = flatten(self._lines), flatten(self._whole)
        self.begin: Ints = np.array(self._begin)

    def _visit(self, state: AnyState, path: Path, begin: int) -> None:
        game, (chance, intervals, steps), low = self.game, path, 0.0
        player = game.current_player(state)
        if player == CHANCE:
            for outcome, p in game.chance_outcomes(state):
                path_after = (chance * p, (*intervals, (low, low + p)), steps)
                self._visit(game.apply(state, outcome), path_after, begin)
                low += p
            return
        side = getattr(game, "side_reward", lambda state: [0.0] * game.num_players)
        payments = [*zip(game.returns(state), side(state), strict=True)]
        is_cut = player >= 0 and len(steps) == self._limit
        line = _Line(*path, payments, is_cut)
        if is_cut or (player < 0 and begin < 0):
            begin = len(self._lines)
            self._lines.append(line)
        if player < 0:
            self._whole.append(line)
            self._begin.append(begin)
            if len(self._whole) > MAX_LINES:
                raise ValueError(
                    f"want at most {MAX_LINES} lines of play, got more in {game!r}; use "
                    "a smaller game"
                )
            return
        actions = game.legal_actions(state)
        key = player, game.information_state(state, player)
        if key not in self._first:
            self._first[key] = sum(self._widths)
            self.keys.append(key)
            self._widths.append(len(actions))
        for column, action in enumerate(actions, self._first[key]):
            path_after_action = (
                chance,
                intervals,
                (*steps, (player, column, payments[player])),
            )
            self._visit(game.apply(state, action), path_after_action, begin)

    @cached_property
    def starts(self) -> tuple[Floats, Bools]:
        """float64[S], probability of each start, and bool[S, L], its possible lines.

        A start is what the episodes of a group in training share: the draws of chance, from one
        seed. A seed stands for a row of uniform numbers in [0, 1). The k-th number draws the outcome
        of the k-th chance node of an episode. A start is a set of rows with the same outcomes
        on every line.

        Raises:
            ValueError: there are more than 10,000 starts.
        """
        depth = max(len(line.intervals) for line in self._lines)
        probability, allowed = np.ones(1), np.ones((1, len(self._lines)), bool)
        for k in range(depth):
            spans = [
                line.intervals[k] if k < len(line.intervals) else (0.0, 1.0)
                for line in self._lines
            ]
            low, high = np.array(spans).T.round(DIGITS)
            edges = np.unique(np.append(low, high))
            middle = (edges[1:] + edges[:-1])[:, None] / 2
            inside = (low < middle) & (middle < high)  # [parts of [0, 1), L]
            if len(probability) * len(middle) > MAX_LINES:
                raise ValueError(
                    f"want at most {MAX_LINES} starts, got more; use a smaller game"
                )
            probability = np.outer(probability, np.diff(edges)).ravel()
            allowed = (allowed[:, None] & inside).reshape(-1, len(self._lines))
        return probability, allowed

    @property
    def num_lines(self) -> int:
        """L, number of lines of play up to the limit of turns."""
        return len(self._lines)

    def policy(
        self, weights: Mapping[InfosetKey, Sequence[float]] | None = None
    ) -> Floats:
        """float64[C]: probabilities in proportion to weights, uniform without weights."""
        rows = [
            np.asarray((weights or {}).get(key, (1.0,) * width), np.float64)
            for key, width in zip(self.keys, self._widths, strict=True)
        ]
        return np.concatenate([row / row.sum() for row in rows])

    def softmax(self, logits: Floats) -> Floats:
        """float64[C]: the policy with these logits, float64[C]."""
        weights = np.exp(logits - logits.max())
        total = np.bincount(self.infoset, weights)
        return np.asarray(weights / total[self.infoset], np.float64)

    def at(self, policy: Floats) -> "ExactPlay":
        """The game with all seats playing by a policy, float64[C]."""
        return ExactPlay(self, policy)


class ExactPlay:
    """A game with a policy: exact values, exact gradient.

    Args:
        game: the game with its lines.
        policy: float64[C], probability of each column.

    Attributes:
        probability: float64[L], of each line up to the limit of turns.
        gradient: float64[C], derivative of each seat's expected return by its own logits.
        scores: float64[C, C], ∇log π of each column by the logits.
        action_value: float64[C], expected return-to-go of an action.
        value: float64[C], expected return-to-go in the information state of a column.
        next_value: float64[T], by turn of `game.flat`: expected payments after the end of
            its line. 0 unless the line was cut.
        judge: float64[C], 1 if `action_value` >= `value`, else -1.
        entropy: float64[C], of the policy in the information state of a column, in nats.
    """

    def __init__(self, game: ExactGame, policy: Floats) -> None:
        self.game, self.policy = game, policy
        flat, whole = game.flat, game.whole
        self.probability = flat.probabilities(policy)
        chance = whole.probabilities(policy)
        num = flat.size[game.begin]  # turns before the limit, of each whole line
        shift = whole.start - (np.cumsum(num) - num)
        turns = np.repeat(shift, num) + np.arange(num.sum())  # their rows in `whole`
        played = flat.rows(game.begin)  # their rows in `flat`
        weight = np.repeat(chance, num)
        size = len(policy)
        column, to_go = whole.column[turns], whole.to_go[turns]
        weighted_return = np.bincount(column, weight * to_go, size)
        reach = np.bincount(column, weight, size)
        self.action_value = weighted_return / np.where(reach > 0, reach, 1.0)
        infoset = game.infoset
        infoset_return = np.bincount(infoset, weighted_return)
        reached = np.bincount(infoset, reach)
        self.value = (infoset_return / np.where(reached > 0, reached, 1.0))[infoset]
        same = infoset[:, None] == infoset
        self.scores = np.eye(size) - same * policy
        self.gradient = weighted_return @ self.scores
        missing = weight * (to_go - flat.to_go[played])
        line = np.repeat(self.probability, flat.size)
        later = np.bincount(played, missing, len(flat.seat))
        self.next_value = later / np.where(line > 0, line, 1.0)
        self.judge = np.where(self.action_value >= self.value - ROUNDING, 1.0, -1.0)
        surprise = -policy * np.log(np.where(policy > 0, policy, 1.0))
        entropy = np.bincount(infoset, surprise)
        self.entropy = np.asarray(entropy[infoset], np.float64)

    def batch(
        self,
        lines: Sequence[int] | Ints,
        groups: Sequence[int] | Ints | None = None,
    ) -> TurnBatch:
        """A batch with one episode per line.

        Values are exact. `next_value` is NaN wherever it must not be read. Every turn has
        one token. The parts of the reward are `game` (the outcome), `side_reward` (all
        other payments) and `judge`.

        Args:
            lines: int[B], the line of each episode.
            groups: int[B], the group of each episode; None for one group.
        """
        flat = self.game.flat
        rows = flat.rows(lines)
        column, seat, turn = flat.column[rows], flat.seat[rows], flat.turn[rows]
        last, cut, judge = flat.last[rows], flat.cut[rows], self.judge[column]
        reward, side = flat.reward[rows], flat.side_reward[rows]
        zeros = np.zeros(len(rows), np.int64)
        episode = np.repeat(np.arange(len(lines)), flat.size[lines])
        return TurnBatch(
            reward=reward,
            game=zeros,
            episode=episode,
            seat=seat,
            turn=turn,
            group=zeros if groups is None else np.asarray(groups)[episode],
            rewards={"game": reward - side, "side_reward": side, "judge": judge},
            team=np.asarray(self.game.game.teams)[seat],
            state_key=self.game.infoset[column],
            action=column,
            terminated=last & ~cut,
            truncated=last & cut,
            value=self.value[column],
            next_value=np.where(last & cut, self.next_value[rows], np.nan),
            action_value=self.action_value[column],
            parent=zeros - 1,
            branch=zeros,
            num_tokens=zeros + 1,
            row_length=2 + turn,
            tokens={
                "entropy": self.entropy[column],
                "logprob": np.log(self.policy[column]),
                "value": self.value[column],
            },
        )

    def summed(self, lines: Sequence[int] | Ints, advantage: Floats) -> Floats:
        """float64[C]: the gradient estimate 1/B Σ A ∇log π of a batch.

        Args:
            lines: int[B], the line of each episode.
            advantage: float64[T], of the turns of `batch(drawn)`.
        """
        rows = self.game.flat.rows(lines)
        column = self.game.flat.column[rows]
        weight = np.bincount(column, advantage, len(self.policy))
        return np.asarray(weight @ self.scores / len(lines), np.float64)

    def population(self, min_episodes: int) -> Ints:
        """int64[B]: lines, shuffled. The share of each is exactly its probability.

        Such a batch stands for an infinite one.

        Args:
            min_episodes: B is at least this.

        Raises:
            ValueError: no batch of at most `MAX_POPULATION` episodes has these shares.
        """
        count = self._counts(self.probability, min_episodes)
        lines = np.repeat(np.arange(len(count)), count)
        return np.random.default_rng(0).permutation(lines)

    def grouped_population(self, min_episodes: int) -> tuple[Ints, Ints]:
        """A population in groups that share the draws of chance, as groups in training do.

        The share of groups of each start is exactly its probability. All groups have the
        same size. In a group, the share of each line is exactly its probability given the
        start.

        Args:
            min_episodes: the size of a group is at least this.

        Returns:
            The line and the group of each episode, shuffled.

        Raises:
            ValueError: no such groups exist.
        """
        chance, allowed = self.game.starts
        likely = np.where(allowed, self.probability / self.game.flat.chance, 0.0)
        each = self._counts(likely, min_episodes)  # [S, L]
        groups = np.repeat(np.arange(len(chance)), self._counts(chance, 1))
        lines = np.arange(each.shape[1])
        sampled = np.concatenate([np.repeat(lines, each[start]) for start in groups])
        group = np.repeat(np.arange(len(groups)), each[groups].sum(axis=1))
        order = np.random.default_rng(0).permutation(len(sampled))
        return sampled[order], group[order]

    def _counts(self, likely: Floats, least: int) -> Ints:
        """int64: a multiple of the probabilities in integers, of sum `least` or more."""
        smallest = likely[likely > 0].min()
        for size in range(1, MAX_POPULATION + 1):
            count = size * likely
            if size * smallest > 0.5 and np.abs(count - count.round()).max() < ROUNDING:
                return -(-least // size) * count.round().astype(np.int64)
        raise ValueError(
            f"want lines of play with probabilities k / n for integers k and n <= "
            f"{MAX_POPULATION}, got them from the policy {self.policy.tolist()}; choose a policy of simple "
            "fractions, such as 1/4 and 3/4"
        )
