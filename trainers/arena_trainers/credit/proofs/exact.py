"""The exact gradient of a small game, and batches of it with an exact critic.

A policy is a softmax over the logits θ of each information state. For the logits of a seat,
the true gradient is the gradient of that seat's own expected return:

    gᵢ = Σ_τ p(τ) Σₖ Rᵢₖ(τ) ∇log π(aₖ),   over all lines of play τ and turns k of seat i

If a limit of turns ends episodes, k runs over the turns before the limit, and R is still
the return of the whole game. `expectation` computes the gradient that an estimator gives.

>>> from arena_trainers.credit.proofs.diagnostics import DIAGNOSTICS
>>> bandit = DIAGNOSTICS["bandit"]
>>> game = ExactGame(bandit)
>>> game.at(game.policy(bandit.weights)).gradient  # uniform over arms worth 1 and 2
array([-0.25,  0.25])
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from arena_envs.game import AnyExtensiveForm
from arena_trainers.credit.batch import Bools, Floats, Ints, TurnBatch
from arena_trainers.credit.proofs.lines import Key, Walk, flatten, starts_of

COLUMNS = frozenset(
    {
        *("team", "state_key", "action", "action_value", "value", "next_value"),
        *("terminated", "truncated", "parent", "branch", "num_tokens", "row_length"),
        *("rewards.game", "rewards.side_reward", "rewards.judge"),
        *("tokens.entropy", "tokens.logprob", "tokens.value"),
    }
)  # of `ExactPlay.batch`, beside the columns that every batch has
ROUNDING = 1e-9  # numbers that differ by less are equal
MAX_POPULATION = 20_000  # episodes with exact shares of all lines


class ExactGame:
    """A game with all its lines of play.

    A column is a pair of an information state and an action; there are C of them.

    Args:
        game: the rules. Seats must have perfect recall, otherwise `value` and
            `action_value` are wrong.
        max_turns: limit of turns, all seats together; None for no limit.

    Attributes:
        keys: (seat, information state) of each information state.
        infoset: int64[C], the information state of each column, as an index of `keys`.
        seat: int64[C], the seat of each column.

    Raises:
        ValueError: the game has more than 10,000 lines of play.
    """

    def __init__(self, game: AnyExtensiveForm, max_turns: int | None = None) -> None:
        self.game = game
        self._walk = Walk(game, max_turns)
        self.keys = self._walk.keys
        self.infoset: Ints = np.repeat(np.arange(len(self.keys)), self._walk.widths)
        self.seat: Ints = np.array([seat for seat, _ in self.keys])[self.infoset]
        self.flat = flatten(self._walk.lines)
        self.whole = flatten(self._walk.whole)
        self.begin: Ints = np.array(self._walk.begin)

    @cached_property
    def starts(self) -> tuple[Floats, Bools]:
        """float64[S], probability of each start, and bool[S, L], its possible lines.

        Episodes of one start share the draws of chance. So do the episodes of a group in
        training, which have one seed.

        Raises:
            ValueError: there are more than 10,000 starts.
        """
        return starts_of(self._walk.lines)

    @property
    def num_lines(self) -> int:
        """L, number of lines of play up to the limit of turns."""
        return len(self._walk.lines)

    def policy(self, weights: Mapping[Key, Sequence[float]] | None = None) -> Floats:
        """float64[C]: probabilities in proportion to weights, uniform without weights."""
        rows = [
            np.asarray((weights or {}).get(key, (1.0,) * width), np.float64)
            for key, width in zip(self.keys, self._walk.widths, strict=True)
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
        paid = np.bincount(column, weight * to_go, size)
        reach = np.bincount(column, weight, size)
        self.action_value = paid / np.where(reach > 0, reach, 1.0)
        infoset = game.infoset
        paid_here = np.bincount(infoset, paid)
        reached = np.bincount(infoset, reach)
        self.value = (paid_here / np.where(reached > 0, reached, 1.0))[infoset]
        same = infoset[:, None] == infoset
        self.scores = np.eye(size) - same * policy
        self.gradient = paid @ self.scores
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
        drawn: Sequence[int] | Ints,
        groups: Sequence[int] | Ints | None = None,
    ) -> TurnBatch:
        """A batch with one episode per line.

        Values are exact. `next_value` is NaN wherever it must not be read. Every turn has
        one token. The parts of the reward are `game` (the outcome), `side_reward` (all
        other payments) and `judge`.

        Args:
            drawn: int[B], the line of each episode.
            groups: int[B], the group of each episode; None for one group.
        """
        flat = self.game.flat
        rows = flat.rows(drawn)
        column, seat, turn = flat.column[rows], flat.seat[rows], flat.turn[rows]
        last, cut, judge = flat.last[rows], flat.cut[rows], self.judge[column]
        paid, side = flat.reward[rows], flat.side_reward[rows]
        zeros = np.zeros(len(rows), np.int64)
        episode = np.repeat(np.arange(len(drawn)), flat.size[drawn])
        return TurnBatch(
            reward=paid,
            game=zeros,
            episode=episode,
            seat=seat,
            turn=turn,
            group=zeros if groups is None else np.asarray(groups)[episode],
            rewards={"game": paid - side, "side_reward": side, "judge": judge},
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

    def summed(self, drawn: Sequence[int] | Ints, advantage: Floats) -> Floats:
        """float64[C]: the gradient estimate 1/B Σ A ∇log π of a batch.

        Args:
            drawn: int[B], the line of each episode.
            advantage: float64[T], of the turns of `batch(drawn)`.
        """
        rows = self.game.flat.rows(drawn)
        column = self.game.flat.column[rows]
        weight = np.bincount(column, advantage, len(self.policy))
        return np.asarray(weight @ self.scores / len(drawn), np.float64)

    def population(self, min_episodes: int) -> Ints:
        """int64[B]: lines, shuffled. The share of each is exactly its probability.

        Such a batch stands for an infinite one.

        Args:
            min_episodes: B is at least this.

        Raises:
            ValueError: no batch of at most `MAX_POPULATION` episodes has these shares.
        """
        count = self._counts(self.probability, min_episodes)
        drawn = np.repeat(np.arange(len(count)), count)
        return np.random.default_rng(0).permutation(drawn)

    def grouped_population(self, min_episodes: int) -> tuple[Ints, Ints]:
        """A population in groups that share the draws of chance, as groups in training do.

        The share of groups of each start is exactly its probability. All groups have the
        same size. In a group, the share of each line is exactly its probability given the
        start.

        Args:
            min_episodes: the size of a group is at least this.
            max_episodes: limit of the smallest group with these shares, and of the number
                of groups.

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
        drawn = np.concatenate([np.repeat(lines, each[start]) for start in groups])
        group = np.repeat(np.arange(len(groups)), each[groups].sum(axis=1))
        order = np.random.default_rng(0).permutation(len(drawn))
        return drawn[order], group[order]

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
