"""`TurnBatch`: all turns of a global batch as flat columns, checked when it is made."""

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import (
    ArrayLike,
    NDArray,
)

LARGEST = 1e100  # its square can still be summed in float64
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_REQUIRED = ("game", "episode", "seat", "turn", "group")
_OPTIONAL = (
    "team",
    "opponent",
    "stratum",
    "rollout",
    "state_key",
    "action",
    "role",
    "parent",
    "branch",
)
_COUNTS = ("num_tokens", "row_length")
INT_COLUMNS = (*_REQUIRED, *_OPTIONAL, *_COUNTS)
POOL_COLUMNS = (*_REQUIRED, *_OPTIONAL)  # not counts, which the turn itself decides
FLOAT_COLUMNS = ("reward", "value", "next_value", "action_value")
BOOL_COLUMNS = ("mask", "unselected", "terminated", "truncated")


@dataclass(frozen=True, eq=False)
class TurnBatch:
    """N turns, one per row. Rows may come in any order; (episode, seat, turn) orders them.

    Args:
        reward: float64[N], paid from this turn until the seat's next turn.
        game: int64[N], index of the game.
        episode: int64[N], number of the episode, unique across games.
        seat: int64[N], the seat that moved.
        turn: int64[N], index among this seat's turns of the episode: 0, 1, 2, ... The first
            index may be higher if `rollout` or `parent` is given.
        group: int64[N], number of the start: same game, seed and parameters.
        rewards: float64[N] each, the named parts of the reward, in its unit. A paid part is
            multiplied by its weight; paid parts add up to `reward`. Others are not.
        team: int64[N], team of the seat.
        opponent: int64[N], equal where the same policies play the other seats.
        stratum: int64[N], kind of trajectory: the cards dealt, the opponent, ...
        rollout: int64[N], equal in episodes that are segments of one trajectory. They are
            joined in ascending order of episodes.
        state_key: int64[N], equal where the seat had the same information.
        action: int64[N], equal where the seat took the same action at one `state_key`.
        role: int64[N], equal where the same role of an agent spoke; a turn of several calls of
            models has a row for each.
        parent: int64[N], episode that this one was branched from, or -1.
        branch: int64[N], number of the branch of the parent.
        mask: bool[N], false: the turn is ignored. Its floats and flags are not read (they
            may be NaN) and its advantage is 0. If a trajectory's last turns are masked, it
            ends before them, and is not truncated.
        unselected: bool[N], false where the turn may be in the batch because of its return:
            after the branch in a turn tree that follows only the best candidate. Such a turn
            counts in the returns-to-go of earlier turns, is not compared, and has advantage 0.
        terminated: bool[N], true on a trajectory's last turn if the rules ended it. Of the
            segments of a rollout only the flags of the last one are read.
        truncated: bool[N], true on a trajectory's last turn if a limit cut it; excludes
            `terminated`.
        value: float64[N], critic's value before the turn.
        next_value: float64[N], critic's value after the last turn of a truncated trajectory;
            other entries are not read.
        action_value: float64[N], expected return-to-go after the action.
        num_tokens: int64[N], trained tokens of the turn.
        row_length: int64[N], tokens of the training row that holds the turn, prompt included.
        tokens: float64[num_tokens.sum()] each, ragged token columns, row after row:
            `entropy`, `logprob`, `value`.
        game_names: names of the games by index.

    Raises:
        ValueError: a column of the wrong length or type; a number that is not finite or
            above 1e100; a negative turn; two rows for one turn; a missing turn; an end
            before the last turn; an episode of two games, or its own ancestor.
    """

    reward: Floats
    game: Ints
    episode: Ints
    seat: Ints
    turn: Ints
    group: Ints
    rewards: Mapping[str, Floats] | None = None
    team: Ints | None = None
    opponent: Ints | None = None
    stratum: Ints | None = None
    rollout: Ints | None = None
    state_key: Ints | None = None
    action: Ints | None = None
    role: Ints | None = None
    parent: Ints | None = None
    branch: Ints | None = None
    mask: Bools | None = None
    unselected: Bools | None = None
    terminated: Bools | None = None
    truncated: Bools | None = None
    value: Floats | None = None
    next_value: Floats | None = None
    action_value: Floats | None = None
    num_tokens: Ints | None = None
    row_length: Ints | None = None
    tokens: Mapping[str, Floats] | None = None
    game_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        num = array_of("reward", self.reward).size
        for names, convert in (
            (FLOAT_COLUMNS, floats),
            (INT_COLUMNS, ints),
            (BOOL_COLUMNS, bools),
        ):
            for name in names:
                column = getattr(self, name)
                if column is not None or name in _REQUIRED:
                    object.__setattr__(self, name, convert(name, column, num))
        if self.rewards is not None:
            parts = named_columns("rewards", self.rewards, num)
            object.__setattr__(self, "rewards", parts)
        self._check_values()
        self._check_tokens()
        self._check_order()
        if self.terminated is not None or self.truncated is not None:
            self._check_ends()
        if self.parent is not None:
            _ = self.tree  # raises for circles
        if self.game_names is not None:
            object.__setattr__(self, "game_names", tuple(self.game_names))
            num = len(self.game_names)
            for row in np.flatnonzero((self.game < 0) | (self.game >= num))[:1]:
                raise ValueError(
                    f"want games below {num} (game_names), got game[{row}] = "
                    f"{self.game[row]}"
                )

    @cached_property
    def order(self) -> Ints:
        """int64[N]: all rows, trajectory by trajectory, each in playing order."""
        columns = (self.turn, self.episode, self.seat)
        return np.lexsort((*columns, self.unit))

    @property
    def unit(self) -> Ints:
        """int64[N]: the rollout of each turn, or its episode if no rollouts are given."""
        return self.episode if self.rollout is None else self.rollout

    @property
    def is_unselected(self) -> Bools:
        """bool[N]: the column `unselected`; all true if it is not given."""
        return (
            np.ones(len(self.reward), np.bool_)
            if self.unselected is None
            else self.unselected
        )

    @cached_property
    def tree(self) -> Ints:
        """int64[N]: the turn tree, or `unit` where nothing branched; trees are independent.

        Branches of one parent are in one tree, also if the parent is not in the batch.
        """
        if self.parent is None or not (self.parent >= 0).any():
            return self.unit
        episodes, episode_index, first = _first_ancestors(self.episode, self.parent)
        unit_of = episodes.copy()
        unit_of[episode_index] = self.unit
        return np.asarray(unit_of[first][episode_index])

    def _check_values(self) -> None:
        parts = {f"rewards[{k!r}]": v for k, v in (self.rewards or {}).items()}
        for name, column in {
            "reward": self.reward,
            "value": self.value,
            "action_value": self.action_value,
            **parts,
        }.items():
            if column is not None:
                check_size(name, column, self.mask)
        for name in ("turn", *_COUNTS):
            column = getattr(self, name)
            if column is not None and (column < 0).any():
                row = np.flatnonzero(column < 0)[0]
                raise ValueError(
                    f"want {name} of at least 0, got {name}[{row}] = {column[row]}"
                )

    def _check_tokens(self) -> None:
        if self.tokens is None:
            return
        if self.num_tokens is None:
            raise ValueError("want num_tokens with tokens, got None; add the column")
        columns = named_columns("tokens", self.tokens, int(self.num_tokens.sum()))
        live = None if self.mask is None else np.repeat(self.mask, self.num_tokens)
        for name, column in columns.items():
            check_size(f"tokens[{name!r}]", column, live)
        object.__setattr__(self, "tokens", columns)

    def _check_order(self) -> None:
        """Raises unless turns count up from 0 and an episode has one game."""
        order = self.order
        if self.rollout is not None:
            order = np.lexsort((self.turn, self.seat, self.episode))
        episode, seat, turn = self.episode[order], self.seat[order], self.turn[order]
        same_episode = episode[1:] == episode[:-1]
        same = same_episode & (seat[1:] == seat[:-1])
        first = np.concatenate([[True], ~same])[: len(turn)]
        step = np.diff(turn, prepend=-1)
        bad = ~first & (step != 1)
        if self.rollout is None and self.parent is None:
            bad |= first & (turn != 0)
        if bad.any():
            at = np.flatnonzero(bad)[0]
            whose = f"seat {seat[at]} in episode {episode[at]}"
            if not first[at] and step[at] == 0:
                raise ValueError(
                    f"want one row per turn, got two of turn {turn[at]} of {whose}"
                )
            before = "nothing" if first[at] else f"turn {turn[at - 1]}"
            raise ValueError(
                f"want turns 0, 1, 2, ... of {whose}, got turn {turn[at]} after {before}"
            )
        for name in ("game", "parent"):
            self._check_constant(name, "episode", order, same_episode)
        for name in ("group", "team", "opponent", "stratum", "rollout"):
            self._check_constant(name, "episode", order, same)
        if self.rollout is not None:
            rollout, seat = self.rollout[self.order], self.seat[self.order]
            same = (rollout[1:] == rollout[:-1]) & (seat[1:] == seat[:-1])
            for name in ("game", "group", "team", "opponent", "stratum"):
                self._check_constant(name, "rollout", self.order, same)

    def _check_ends(self) -> None:
        """Raises for an end before the last turn, and for two kinds of end."""
        live = self.order if self.mask is None else self.order[self.mask[self.order]]
        episode, seat = self.episode[live], self.seat[live]
        goes_on = (episode[1:] == episode[:-1]) & (seat[1:] == seat[:-1])
        for name in ("terminated", "truncated"):
            column = getattr(self, name)
            if column is None:
                continue
            early = live[:-1][column[live][:-1] & goes_on]
            if len(early) > 0:
                row = early[0]
                raise ValueError(
                    f"want {name} on last turns only, got {name}[{row}] = True on turn "
                    f"{self.turn[row]} of seat {self.seat[row]} in episode "
                    f"{self.episode[row]}, which is not the last"
                )
        if self.terminated is None or self.truncated is None:
            return
        both = live[(self.terminated & self.truncated)[live]]
        if len(both) > 0:
            raise ValueError(
                "want a turn terminated or truncated and not both, got "
                f"terminated[{both[0]}] = truncated[{both[0]}] = True"
            )

    def _check_constant(self, name: str, whole: str, order: Ints, same: Bools) -> None:
        """Raises unless a column is constant on each episode or rollout (`whole`)."""
        if getattr(self, name) is None:
            return
        column = getattr(self, name)[order]
        bad = same & (column[1:] != column[:-1])
        if bad.any():
            at = np.flatnonzero(bad)[0]
            number = getattr(self, whole)[order[at]]
            raise ValueError(
                f"want one {name} in {whole} {number}, got {column[at]} and "
                f"{column[at + 1]}"
            )


def _first_ancestors(episode: Ints, parent: Ints) -> tuple[Ints, Ints, Ints]:
    """The first ancestor of every episode.

    Returns:
        int64[E], all episodes and parents; int64[N], the index of each row's episode among
        them; int64[E], the index of the first ancestor of each.

    Raises:
        ValueError: an episode is its own ancestor.
    """
    branched = np.flatnonzero(parent >= 0)
    both = np.concatenate([episode, parent[branched]])
    episodes, index = np.unique(both, return_inverse=True)
    index, size = index.ravel(), len(episode)
    up = np.arange(len(episodes))
    up[index[branched]] = index[size:]
    begins = np.ones(len(episodes), bool)
    begins[index[branched]] = False
    first = up
    for _ in range(len(episodes).bit_length()):
        first = first[first]
    circular = first[~begins[first]]
    if len(circular) > 0:
        raise ValueError(
            "want parents that lead to an episode without one, got a circle from episode "
            f"{episodes[circular[0]]}"
        )
    return episodes, index[:size], first


def array_of(name: str, column: ArrayLike) -> NDArray[Any]:
    """The column as an array; raises ValueError if it is ragged."""
    try:
        return np.asarray(column)
    except ValueError:
        raise ValueError(
            f"want one number per row in {name}, got {reprlib.repr(column)}"
        ) from None


def floats(name: str, column: ArrayLike, num: int) -> NDArray[np.float64]:
    """float64[num], a copy."""
    array = _shaped(name, column, num)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"want numbers in {name}, got {array.dtype}")
    return array.astype(np.float64)


def ints(name: str, column: ArrayLike, num: int) -> NDArray[np.int64]:
    """int64[num], a copy; raises ValueError for floats, whole ones too."""
    array = _shaped(name, column, num)
    if array.dtype.kind not in "iu" and num > 0:
        values = array.tolist()
        odd = [x for x in values if not isinstance(x, float) or not x.is_integer()]
        raise ValueError(f"want integers in {name}, got {(odd or values)[0]!r}")
    return array.astype(np.int64)


def bools(name: str, column: ArrayLike, num: int) -> NDArray[np.bool_]:
    """bool[num], a copy; 0 and 1 are accepted."""
    array = _shaped(name, column, num)
    if array.dtype != np.bool_ and (odd := array[(array != 0) & (array != 1)].tolist()):
        raise ValueError(f"want true or false in {name}, got {odd[0]!r}")
    return array.astype(np.bool_)


def named_columns(
    name: str, columns: Mapping[str, ArrayLike], num: int
) -> dict[str, NDArray[np.float64]]:
    """float64[num] each: a column of named columns."""
    if not isinstance(columns, Mapping):
        raise ValueError(
            f"want a mapping from names to columns in {name}, got "
            f"{reprlib.repr(columns)}"
        )
    return {
        part: floats(f"{name}[{part!r}]", column, num)
        for part, column in columns.items()
    }


def check_size(
    name: str, column: NDArray[np.float64], mask: NDArray[np.bool_] | None = None
) -> None:
    """Raises ValueError for a number that is not finite, or above `LARGEST`."""
    bad = ~(np.abs(column) <= LARGEST)
    if mask is not None:
        bad &= mask
    if bad.any():
        row = np.flatnonzero(bad)[0]
        expected = (
            f"numbers up to {LARGEST:g}"
            if np.isfinite(column[row])
            else "finite numbers"
        )
        raise ValueError(f"want {expected}, got {name}[{row}] = {column[row]}")


def _shaped(name: str, column: ArrayLike, num: int) -> NDArray[Any]:
    array = array_of(name, column)
    if array.shape != (num,):
        raise ValueError(f"want {name} of shape ({num},), got {array.shape}")
    return array
