"""The exact gradient of a small game, and batches of it with an exact critic.

A policy is a softmax over the logits θ of each information state. The true gradient has, for
the logits of a seat, the gradient of that seat's own expected return:

    gᵢ = Σ_τ p(τ) Σₖ Rᵢₖ(τ) ∇log π(aₖ),   over all lines of play τ and turns k of seat i

Where a limit of turns cuts episodes off, R is what the whole game would have paid, and turns
after the limit are not looked at. What estimators make of it is in `expectation`.

>>> from arena_trainers.credit.proofs.diagnostics import DIAGNOSTICS
>>> bandit = DIAGNOSTICS["bandit"]
>>> game = ExactGame(bandit)
>>> game.at(game.policy(bandit.weights)).gradient  # arms worth 1 and 2, evenly chosen
array([-0.25,  0.25])
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from arena_trainers.credit.batch import Bools, Floats, Ints, TurnBatch
from arena_trainers.credit.proofs.lines import Key, Playable, Walk, flatten, starts_of

COLUMNS = frozenset(
    {
        *(
            "team",
            "state_key",
            "action",
            "action_value",
            "terminated",
            "truncated",
            "value",
            "next_value",
        ),
        *(
            "parent",
            "branch",
            "num_tokens",
            "row_length",
            "rewards.game",
            "rewards.side_reward",
            "rewards.judge",
        ),
        *("tokens.entropy", "tokens.logprob", "tokens.value"),
    }
)  # beside those that every batch has
ROUNDING = 1e-9


class ExactGame:
    """A game with all its lines of play.

    Args:
        game: the rules. Seats have perfect recall, or a critic of what they know is not
            one of what follows.
        max_turns: limit of turns, all seats together; None for no limit.

    Attributes:
        keys: (seat, information state) of each information state.
        infoset: int64[C], the information state of each column; a column is an
            (information state, action).
        seat: int64[C], the seat of each column.

    Raises:
        ValueError: the game has more than 10,000 lines of play.
    """

    def __init__(self, game: Playable, max_turns: int | None = None) -> None:
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
        """float64[S], how likely each start is, and bool[S, L], the lines that it allows.

        Episodes of one start share the draws of chance, as the episodes of a group do in
        training, where they have one seed.

        Raises:
            ValueError: there are more than 10,000 starts.
        """
        return starts_of(self._walk.lines)

    @property
    def num_lines(self) -> int:
        """Number of lines of play, as far as the limit of turns."""
        return len(self._walk.lines)

    def policy(self, weights: Mapping[Key, Sequence[float]] | None = None) -> Floats:
        """float64[C]: probabilities in proportion to weights, equal where none are given."""
        rows = [
            np.asarray((weights or {}).get(key, (1.0,) * width), np.float64)
            for key, width in zip(self.keys, self._walk.widths, strict=True)
        ]
        return np.concatenate([row / row.sum() for row in rows])

    def softmax(self, logits: Floats) -> Floats:
        """float64[C]: the policy that has these logits."""
        weights = np.exp(logits - logits.max())
        total = np.bincount(self.infoset, weights)
        return np.asarray(weights / total[self.infoset], np.float64)

    def at(self, policy: Floats) -> "ExactPlay":
        """The game, played by a policy."""
        return ExactPlay(self, policy)


class ExactPlay:
    """A game with a policy: everything is known exactly.

    Args:
        game: with its lines.
        policy: float64[C], probability of each column.

    Attributes:
        probability: float64[L], of each line, as far as the limit of turns.
        gradient: float64[C], of each seat's return by its own logits.
        scores: float64[C, C], ∇log π of each column by the logits.
        action_value: float64[C], expected return-to-go of an action.
        value: float64[C], of the information state of a column.
        next_value: float64[T], what is expected after each turn of `game.flat` and is not
            paid by the end of its line.
    """

    def __init__(self, game: ExactGame, policy: Floats) -> None:
        self.game, self.policy = game, policy
        flat, whole = game.flat, game.whole
        self.probability = flat.probabilities(policy)
        chance = whole.probabilities(policy)
        num = flat.size[game.begin]  # turns of each whole line that are looked at
        turns = np.repeat(whole.start, num) + _count(num)  # of the whole lines
        played = flat.rows(game.begin)  # the same turns, in `flat`
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
        self.entropy = np.bincount(infoset, surprise)[infoset]

    def batch(
        self,
        drawn: Sequence[int] | Ints,
        groups: Sequence[int] | Ints | None = None,
    ) -> TurnBatch:
        """Episodes that went along these lines, of these groups; of one if none are given.

        The critic is exact, and nowhere else than it should be read are there numbers.
        Every turn has one token. `rewards["judge"]` is 1 where an action is worth no less
        than the policy, and -1 elsewhere; `rewards["game"]` is the outcome, and
        `rewards["side_reward"]` all else that was paid.
        """
        flat = self.game.flat
        rows = flat.rows(drawn)
        column, seat, turn = flat.column[rows], flat.seat[rows], flat.turn[rows]
        last, cut, reward = flat.last[rows], flat.cut[rows], flat.reward[rows]
        side_reward = flat.side_reward[rows]
        zeros = np.zeros(len(rows), np.int64)
        of = np.repeat(np.arange(len(drawn)), flat.size[drawn])
        tokens = {
            "entropy": self.entropy[column],
            "logprob": np.log(self.policy[column]),
            "value": self.value[column],
        }
        return TurnBatch(
            reward=reward,
            game=zeros,
            episode=of,
            seat=seat,
            turn=turn,
            group=zeros if groups is None else np.asarray(groups)[of],
            rewards={
                "game": reward - side_reward,
                "side_reward": side_reward,
                "judge": self.judge[column],
            },
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
            tokens=tokens,
        )

    def summed(self, drawn: Sequence[int] | Ints, advantage: Floats) -> Floats:
        """float64[C]: the gradient estimate 1/B Σ A ∇log π of a batch."""
        rows = self.game.flat.rows(drawn)
        column = self.game.flat.column[rows]
        weight = np.bincount(column, advantage, len(self.policy))
        return np.asarray(weight @ self.scores / len(drawn), np.float64)

    def population(self, min_episodes: int, max_episodes: int = 20_000) -> Ints:
        """A batch that holds every line exactly as often as it is likely, shuffled.

        It stands for an infinite batch.

        Raises:
            ValueError: no batch of at most `max_episodes` does.
        """
        count = self._counts(self.probability, min_episodes, max_episodes)
        drawn = np.repeat(np.arange(len(count)), count)
        return np.random.default_rng(0).permutation(drawn)

    def grouped_population(
        self, min_episodes: int, max_episodes: int = 20_000
    ) -> tuple[Ints, Ints]:
        """The same in groups that share the draws of chance, as they do in training.

        Every start has groups as often as it is likely, all groups are of one size, and a
        group holds every line that its start allows as often as it is likely then.

        Args:
            min_episodes: of a group.
            max_episodes: of the least group that will do; and of groups.

        Returns:
            The line and the group of each episode, shuffled.

        Raises:
            ValueError: there are no such groups.
        """
        chance, allowed = self.game.starts
        likely = np.where(allowed, self.probability / self.game.flat.chance, 0.0)
        each = self._counts(likely, min_episodes, max_episodes)  # [S, L]
        groups = np.repeat(
            np.arange(len(chance)), self._counts(chance, 1, max_episodes)
        )
        lines = np.arange(each.shape[1])
        drawn = np.concatenate([np.repeat(lines, each[start]) for start in groups])
        group = np.repeat(np.arange(len(groups)), each[groups].sum(axis=1))
        order = np.random.default_rng(0).permutation(len(drawn))
        return drawn[order], group[order]

    def _counts(self, likely: Floats, least: int, most: int) -> Ints:
        """A multiple of probabilities that is whole, and sums to `least` at least."""
        smallest = likely[likely > 0].min()
        for size in range(1, most + 1):
            count = size * likely
            if size * smallest > 0.5 and np.abs(count - count.round()).max() < ROUNDING:
                return -(-least // size) * count.round().astype(np.int64)
        raise ValueError(
            f"want a policy whose lines are all likely in proportion to integers of sum "
            f"at most {most}, got {self.policy.tolist()}"
        )


def _count(size: Ints) -> Ints:
    """0, 1, ... for each size, one after another."""
    return np.asarray(
        np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size), np.int64
    )
