"""Turns as training sees them: records that all processes share, turn batch, training rows.

| step | from | to |
|---|---|---|
| `turn_records` | episodes of a process | `TurnRecord` of each turn of a seat that learns |
| `turn_batch` | records of all processes | the `TurnBatch` that credit reads |
| `training_rows` | records and advantages of a process | `TrainingRow`, one training sequence each |

Users' functions and reward models supply further columns of the batch (`Supplier`).

This module imports neither TRL nor torch.
"""

import difflib
import math
from collections import Counter
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from arena_credit import TurnBatch
from arena_credit.batch import INT_COLUMNS
from arena_envs.doors import imported
from arena_envs.game import AnyGame
from arena_trainers.lm.models import check_reward_model
from arena_trainers.matchmaking import SELF, Seats
from arena_trainers.rewards import Part
from arena_wrappers.play import Branching, final_state, turn_states
from arena_wrappers.records import Episode, Turn

ColumnFunction = Callable[..., float]  # of episode, turn and state

SUPPLIED = ("value", "action_value", "stratum")  # and parts of the reward


@dataclass(frozen=True)
class RewardColumn:
    """A column that a reward model supplies, see `arena_trainers.train.batch`.

    Args:
        path: the reward model, a folder or an id of the Hugging Face hub.
    """

    path: str


Supplier = ColumnFunction | RewardColumn


def part_of(column: str) -> str | None:
    """The part of the reward that a column holds; None for other columns.

    >>> part_of("rewards.judge"), part_of("stratum")
    ('judge', None)
    """
    kind, _, part = column.partition(".")
    return part if kind == "rewards" and part else None


def load_functions(specs: Mapping[str, Any]) -> dict[str, Supplier]:
    """Imports functions by name, and finds reward models without loading them.

    Args:
        specs: by column, `"module:function"`, also of a module of the working directory, or
            `{"reward": PATH}`.

    Raises:
        ValueError: another form, no such function, or no such reward model.
    """
    found: dict[str, Supplier] = {}
    for name, spec in specs.items():
        if isinstance(spec, Mapping) and [*spec] == ["reward"]:
            found[name] = RewardColumn(str(spec["reward"]))
            check_reward_model(str(spec["reward"]))
            continue
        wanted = f"columns[{name!r}] as 'module:function' or {{reward: PATH}}"
        if not isinstance(spec, str) or ":" not in spec:
            raise ValueError(f"want {wanted}, got {spec!r}")
        found[name] = imported(spec, wanted)
    return found


def functions_of(columns: Mapping[str, Supplier]) -> dict[str, ColumnFunction]:
    """The columns that functions supply."""
    return {n: c for n, c in columns.items() if not isinstance(c, RewardColumn)}


def reward_columns_of(columns: Mapping[str, Supplier]) -> dict[str, RewardColumn]:
    """The columns that reward models supply."""
    return {n: c for n, c in columns.items() if isinstance(c, RewardColumn)}


def check_functions(functions: Mapping[str, Any], taken: Collection[str]) -> None:
    """Raises for columns that functions or reward models cannot give.

    Raises:
        ValueError: an unknown column; a column that is taken; no function; a
            column that a reward model cannot give, see `arena_trainers.train.batch`.
    """
    for name, function in functions.items():
        if name in taken:
            raise ValueError(
                f"columns gives {name!r}, which the trainer gives; leave it out"
            )
        if name not in SUPPLIED and part_of(name) is None:
            part = str(name).rpartition(".")[2] or "judge"
            near = difflib.get_close_matches(str(name), SUPPLIED, n=1)
            (hint,) = near or [f"rewards.{part}"]
            raise ValueError(
                f"columns gives {name!r}, but a function can give "
                f"{', '.join(SUPPLIED)} and parts of the reward; did you mean {hint!r}?"
            )
        if not callable(function) and not isinstance(function, RewardColumn):
            raise ValueError(
                f"want a function of episode, turn and state as columns[{name!r}], got "
                f"{function!r}"
            )
    _check_scores(functions)


def _check_scores(columns: Mapping[str, Any]) -> None:
    """Raises if a column of a reward model would depend on the zero of its scores."""
    if isinstance(columns.get("stratum"), RewardColumn):
        raise ValueError(
            "columns gives 'stratum' by a reward model; scores have an arbitrary zero "
            "and scale, so that only differences at the same prompt have a meaning; "
            "give rewards.judge, or value and action_value by the same reward model"
        )
    pair = columns.get("value"), columns.get("action_value")
    if any(isinstance(column, RewardColumn) for column in pair) and pair[0] != pair[1]:
        raise ValueError(
            "want value and action_value by the same reward model, got "
            f"{pair[0]!r:.200} and {pair[1]!r:.200}; scores have an arbitrary zero and "
            "scale, so that only differences at the same prompt have a meaning; give "
            "rewards.judge, or value and action_value by the same reward model"
        )


def supplied_by(
    functions: Mapping[str, ColumnFunction],
    episode: Episode,
    turn: Turn,
    state: Any,
    game: Any = None,
) -> dict[str, float]:
    """Values of the functions for one turn, by column.

    Raises:
        ValueError: a value that is not a finite number; in an integer column, one that is
            not an integer of 64 bits.
    """
    found: dict[str, float] = {}
    for name, function in functions.items():
        given = (game,) if isinstance(function, Part) else ()
        value, is_int = function(episode, turn, state, *given), name in INT_COLUMNS
        if not _fits(value, is_int):
            wanted = "an integer of 64 bits" if is_int else "a finite number"
            raise ValueError(
                f"want {wanted} from columns[{name!r}], got {value!r} for turn "
                f"{turn.index} of seat {turn.seat} in an episode of seed {episode.seed}"
            )
        found[name] = int(value) if is_int else float(value)
    return found


def _fits(value: Any, is_int: bool) -> bool:
    if not isinstance(value, Real | np.bool_):
        return False
    try:
        number = int(value) if is_int else float(value)  # type: ignore[arg-type] # Real
    except (OverflowError, ValueError):  # too large, infinite or NaN
        return False
    return abs(number) < 2**63 and number == value if is_int else math.isfinite(number)


class TurnRecord(NamedTuple):
    """A learner's turn as all processes know it, to compute its credit.

    The process that played it finds the turn itself, with its prompt and its tokens, at
    `episodes[record.episode].turns[record.place]`. A turn of several generations has a record for
    each: to credit, they are turns of their own, and the last of them is paid.
    """

    game: int
    seed: int
    episode: int  # index within its process
    place: int  # index within the episode's turns
    seat: int
    turn: int  # index within the seat's turns, or within all its generations
    rewards: Mapping[str, float]
    num_tokens: int
    row_length: int
    terminated: bool
    truncated: bool
    state: Hashable = None  # the seat's information state before the turn
    action: Hashable = None  # None if the reply was invalid
    tokens: Mapping[str, Sequence[float]] | None = None  # token columns
    parent: int = -1  # index within its process, as `episode`
    branch: int = -1
    unselected: bool = True
    features: NDArray[np.float32] | None = None  # for a critic, before the turn
    next_features: NDArray[np.float32] | None = None  # at the end, if it is truncated
    paid: float = 0.0  # to the seat before its turn
    supplied: Mapping[str, float] | None = None  # by functions or reward models
    opponent: tuple[str, ...] = ()  # who plays the other seats, in their order
    is_invalid: bool = False  # whether the reply was invalid
    prompt: bytes = b""  # digest of the prompt, for columns of reward models
    text: bytes = b""  # digest of the prompt with its reply
    scores: Mapping[str, float] | None = None  # by reward models, by path
    call: int = -1  # index among the turn's generations; -1 for the turn itself
    role: str = ""  # of the generation


Shares = list[list[TurnRecord]]  # the records of each process


@dataclass
class Played:
    """A generation batch that this process played.

    Attributes:
        starts: rows of the data set, with the tasks of the curriculum.
        episodes: one for each start, or a tree.
        games: index of the game of each episode.
        seats: who played each seat of each episode.
        first_episodes: the episodes before any were played again, for the metrics.
        number: of the generation batch; 0 in evaluations.
        trains: whether the batch is trained.
    """

    starts: Sequence[Mapping[str, Any]]
    episodes: list[Episode]
    games: list[int]
    seats: list[Seats]
    first_episodes: list[Episode]
    number: int
    trains: bool


class Kept(NamedTuple):
    """The turns that are trained, of seats that learn.

    Attributes:
        shares: the records of each process.
        rank: index of this process.
        metrics: of the selection: shares of flat and of dropped groups, of trained trajectories,
            of invalid replies that were left out, and of turns that reward models compare.
    """

    shares: Shares
    rank: int
    metrics: Mapping[str, float]

    @property
    def records(self) -> list[TurnRecord]:
        """The records of this process."""
        return self.shares[self.rank]

    @property
    def rows(self) -> range:
        """The place of this process's records in the global batch."""
        return rows_of_process(self.shares, self.rank)


T = TypeVar("T")

PARTS = ("game", "format")  # of the reward, as `PromptWrapper` pays them
# columns that need the state before a turn
OF_STATES = frozenset({"state_key", "action", "value", "features"})


def turn_records(
    episodes: Sequence[Episode],
    games: Sequence[int],
    seats: Sequence[Sequence[str]],
    rules: Sequence[AnyGame] = (),
    columns: Collection[str] = (),
    functions: Mapping[str, ColumnFunction] | None = None,
    branching: Branching | None = None,
) -> list[TurnRecord]:
    """The turns of seats that learn, episode by episode, in playing order.

    The turns that an episode shares with its parent are recorded once, as the parent's.

    Args:
        episodes: what was played.
        games: index of each episode's game.
        seats: who played each seat of each episode; `"self"` learns.
        rules: the games; read if `columns` or `functions` need states.
        columns: the optional columns that are wanted; `features` are the critic's inputs.
        functions: functions that supply columns, by column. Each is called with an episode,
            one of its turns, and the state before that turn.
        branching: where episodes branched, if they did.

    Raises:
        ValueError: a turn has no tokens, or a function returns no finite number, or no
            integer for a column of integers.
    """
    functions = functions or {}
    reads_states = bool(functions) or not OF_STATES.isdisjoint(columns)
    records = []
    played = zip(episodes, games, seats, strict=True)
    for number, (episode, game, who) in enumerate(played):
        states = turn_states(episode, rules[game]) if reads_states else []
        more = Counter[int]()  # generations of each seat beyond one per turn
        for place, turn in enumerate(episode.turns):
            before = turn.index + more[turn.seat]
            more[turn.seat] += max(len(turn.generations) - 1, 0)
            if place < (episode.branch or 0) or who[turn.seat] != SELF:
                continue
            known = _of_place(episode, place, branching)
            known |= {"game": game, "episode": number, "turn": before}
            known["opponent"] = others(who, turn.seat)
            if turn.generations:
                _check_calls(branching, columns)
            made = _of_calls if turn.generations else _record
            for record in made(episode, turn, columns, known):
                if reads_states:
                    record = _with_state(record, turn, rules[game], states[place])
                if "features" in columns:
                    record = _with_features(record, episode, rules[game], states[place])
                if functions:
                    values = supplied_by(
                        functions, episode, turn, states[place], rules[game]
                    )
                    record = with_supplied(record, values)
                records.append(record)
    return records


def _of_place(
    episode: Episode, place: int, branching: Branching | None
) -> dict[str, Any]:
    """The fields of a record that follow from the place of its turn in the episode."""
    seat = episode.turns[place].seat
    is_last = all(later.seat != seat for later in episode.turns[place + 1 :])
    return {
        "place": place,
        "terminated": is_last and episode.terminated,
        "truncated": is_last and episode.truncated,
        "unselected": branching is None or branching.is_unselected(episode, place),
    }


def _record(
    episode: Episode, turn: Turn, columns: Collection[str], known: Mapping[str, Any]
) -> Iterator[TurnRecord]:
    """The record of a turn, without what the game's state tells.

    Args:
        episode: the turn's episode.
        turn: the turn.
        columns: the optional columns that are wanted.
        known: the fields that do not follow from the turn alone.
    """
    if not turn.token_ids or turn.prompt_ids is None:
        raise ValueError(f"a learner's turn has no tokens: {turn.reply[:60]!r}")
    yield TurnRecord(
        seed=episode.seed,
        seat=turn.seat,
        rewards=turn.rewards,
        num_tokens=len(turn.token_ids),
        row_length=len(turn.prompt_ids) + len(turn.token_ids),
        tokens=_token_columns(turn, columns),
        parent=-1 if episode.parent is None else episode.parent,
        branch=-1 if episode.branch is None else episode.branch,
        is_invalid=turn.invalid is not None,
        **known,
    )


def _of_calls(
    episode: Episode, turn: Turn, columns: Collection[str], known: Mapping[str, Any]
) -> Iterator[TurnRecord]:
    """The records of a turn's generations; arguments as for `_record`."""
    for call, one in enumerate(turn.generations):
        ends = call == len(turn.generations) - 1
        alone = replace(
            turn,
            rewards=turn.rewards if ends else {},
            prompt_ids=one.prompt_ids,
            token_ids=one.token_ids,
            logprobs=one.logprobs,
            invalid=turn.invalid if ends else None,
        )
        over = {name: ends and known[name] for name in ("terminated", "truncated")}
        own = {**over, "turn": known["turn"] + call, "call": call, "role": one.role}
        yield from _record(episode, alone, columns, {**known, **own})


def _check_calls(branching: Branching | None, columns: Collection[str]) -> None:
    """Raises ValueError for what turns of several generations do not support."""
    of_turns = any(
        column in (*SUPPLIED, "features", "tokens.value")
        or (part_of(column) or "game") not in PARTS
        for column in columns
    )
    for problem, advice in (
        (of_turns, "credit that reads no values and no columns of functions"),
        (branching is not None, "no branch"),
        (
            "tokens.entropy" in columns,
            "credit that reads no entropies, or surprise=False",
        ),
    ):
        if problem:
            raise ValueError(f"turns of several generations: want {advice}")


def _with_state(
    record: TurnRecord, turn: Turn, game: AnyGame, state: Any
) -> TurnRecord:
    """Adds the seat's information state, its action, and what it had been paid.

    A generation also knows what was said before in its turn; the last one acts.
    """
    known, action = game.information_state(state, turn.seat), turn.action
    if record.call >= 0:
        said = [one.text for one in turn.generations[: record.call + 1]]
        known = (known, *said[:-1])
        action = said[-1] if record.call < len(turn.generations) - 1 else action
    return record._replace(
        state=known,
        action=None if record.is_invalid else action,
        paid=game.returns(state)[turn.seat],
    )


def with_supplied(record: TurnRecord, values: Mapping[str, float]) -> TurnRecord:
    """The record with further columns; parts of the reward go to `rewards`."""
    parts = {part: x for name, x in values.items() if (part := part_of(name))}
    supplied = {**(record.supplied or {}), **values}
    return record._replace(rewards={**record.rewards, **parts}, supplied=supplied)


def _with_features(
    record: TurnRecord, episode: Episode, game: AnyGame, state: Any
) -> TurnRecord:
    """Adds the seat's features before its turn and, if it is truncated, at the end."""
    record = record._replace(features=game.features(state, record.seat))
    if not record.truncated:
        return record
    end = game.features(final_state(episode, game), record.seat)
    return record._replace(next_features=end)


def per_episode(episodes: Sequence[Episode], values: Sequence[T]) -> list[T]:
    """The value of each episode's plan; an episode that branched has its parent's."""
    plans = np.cumsum([episode.parent is None for episode in episodes]) - 1
    return [values[plan] for plan in plans]


def others(seats: Sequence[str], seat: int) -> tuple[str, ...]:
    """The policies of the other seats.

    >>> others(["self", "self@20", "self@20"], 0)
    ('self@20', 'self@20')
    """
    return (*seats[:seat], *seats[seat + 1 :])


def _token_columns(turn: Turn, columns: Collection[str]) -> dict[str, Sequence[float]]:
    found = {}
    for name, values in (("entropy", turn.entropies), ("logprob", turn.logprobs)):
        if f"tokens.{name}" in columns:
            if values is None:
                raise ValueError(f"a learner's turn has no {name}: {turn.reply[:60]!r}")
            found[name] = values
    return found


def turn_batch(
    shares: Sequence[Sequence[TurnRecord]],
    weights: Mapping[str, float],
    game_names: Sequence[str],
    columns: Collection[str] = (),
    teams: Sequence[Sequence[int]] | None = None,
) -> TurnBatch:
    """The global batch: the turns of all processes, in the order of the processes.

    Its `rewards` hold each part of the reward times its weight, so that they add up to
    `reward`. A part of weight 0 is not paid: `rewards` holds it unweighted, for estimators
    that read it.

    Args:
        shares: the records of each process.
        weights: of the reward parts; 1 where none is given.
        game_names: names of the games, by index.
        columns: the optional columns that are wanted. States, actions and opponents are
            numbered in the order in which they first occur; equal numbers mean equal ones.
        teams: team of each seat, by index of the game; without it there is no column
            `team`.
    """
    turns = [record for share in shares for record in share]
    asked = {c.removeprefix("rewards.") for c in columns if c.startswith("rewards.")}
    names = sorted(asked.union(PARTS, *(turn.rewards for turn in turns)))
    parts, reward = {}, np.zeros(len(turns))
    for name in names:
        part = np.array([turn.rewards.get(name, 0.0) for turn in turns])
        weight = weights.get(name, 1.0)
        parts[name] = weight * part if weight else part
        reward += weight * part
    starts = np.array([(turn.game, turn.seed) for turn in turns], np.int64)
    ranks = np.repeat(np.arange(len(shares)), [len(share) for share in shares])
    episodes = np.stack([ranks, _integers(turn.episode for turn in turns)], axis=1)
    return TurnBatch(
        reward=reward,
        game=_integers(turn.game for turn in turns),
        episode=_numbered(episodes),
        seat=_integers(turn.seat for turn in turns),
        turn=_integers(turn.turn for turn in turns),
        group=_numbered(starts),
        rewards=parts,
        terminated=np.array([turn.terminated for turn in turns], bool),
        truncated=np.array([turn.truncated for turn in turns], bool),
        num_tokens=_integers(turn.num_tokens for turn in turns),
        row_length=_integers(turn.row_length for turn in turns),
        game_names=tuple(game_names),
        team=None if teams is None else _integers(teams[t.game][t.seat] for t in turns),
        **_optional_columns(turns, columns),
        **(_tree_columns(turns, episodes) if "parent" in columns else {}),
    )


def rows_of_process(shares: Sequence[Sequence[TurnRecord]], rank: int) -> range:
    """The place of a process's turns in the global batch of `turn_batch`."""
    first = sum(len(share) for share in shares[:rank])
    return range(first, first + len(shares[rank]))


def _tree_columns(
    turns: Sequence[TurnRecord], episodes: NDArray[np.int64]
) -> dict[str, Any]:
    """Columns `parent`, numbered as `episode`, `branch` (-1 for none), and `unselected`."""
    number_of = dict(
        zip(map(tuple, episodes.tolist()), _numbered(episodes).tolist(), strict=True)
    )
    ranks = episodes[:, 0].tolist()
    pairs = [(rank, turn.parent) for rank, turn in zip(ranks, turns, strict=True)]
    return {
        "parent": _integers(number_of.get(pair, -1) for pair in pairs),
        "branch": _integers(turn.branch for turn in turns),
        "unselected": np.array([turn.unselected for turn in turns], bool),
    }


def _optional_columns(
    turns: Sequence[TurnRecord], columns: Collection[str]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "state_key" in columns:
        found["state_key"] = ranks((t.game, t.seat, t.state) for t in turns)
    if "action" in columns:
        found["action"] = ranks((t.game, t.action) for t in turns)
    if "opponent" in columns:
        found["opponent"] = ranks(t.opponent for t in turns)
    if "role" in columns:
        found["role"] = ranks(t.role for t in turns)
    for name in SUPPLIED:
        given = [(turn.supplied or {}).get(name) for turn in turns]
        if name in columns and None not in given:  # else a critic's
            found[name] = np.array(given, np.int64 if name in INT_COLUMNS else float)
    tokens = [c.removeprefix("tokens.") for c in columns if c.startswith("tokens.")]
    if tokens := [name for name in tokens if name != "value"]:  # a critic's
        found["tokens"] = {
            name: np.array([x for t in turns for x in (t.tokens or {})[name]], float)
            for name in tokens
        }
    return found


def ranks(keys: Iterable[Hashable]) -> NDArray[np.int64]:
    """int64[N]: equal numbers for equal keys, in the order of their first occurrence."""
    numbers: dict[Hashable, int] = {}
    return _integers(numbers.setdefault(key, len(numbers)) for key in keys)


def _integers(values: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(values, np.int64)


def _numbered(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[N]: the rank of each row of `keys` among the distinct ones."""
    _, index = np.unique(keys.reshape(-1, 2), axis=0, return_inverse=True)
    return index.ravel().astype(np.int64)


PER_TOKEN_LOSSES = (
    "dapo",
    "cispo",
    "vespo",
)  # of TRL: every token weighs 1 / all tokens
# of TRL: the mean over rows of means over their tokens
PER_ROW_LOSSES = ("grpo", "sapo")


@dataclass
class TrainingRow:
    """One training sequence: prompt and replies, token by token as sampled.

    Attributes:
        prompt_ids: tokens of the prompt.
        completion_ids: tokens of the reply, its end token included; in a row of a
            trajectory, of all replies and of what the seat read between them.
        advantage: float64[num_tokens]; None for a placeholder row, which has no loss.
        episode_return: weighted reward of the whole trajectory, for logging.
        mask: 1 for tokens of `completion_ids` that the model sampled, 0 for others; None if
            it sampled all of them.
        trajectory: index of the episode in its process, and the seat.
        logprobs: of the tokens of `completion_ids` as they were sampled; 0 for others. Empty
            in a placeholder row.
    """

    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    advantage: NDArray[np.float64] | None
    episode_return: float
    mask: Sequence[int] | None = None
    trajectory: tuple[int, int] | None = None
    logprobs: Sequence[float] = ()
    place: int = (
        -1
    )  # of the turn among the records of its process; -1 for several or none
    role: str = ""  # of the generation, if its turn had several
    learner: int = 0  # index of the adapter that is trained, where there are several

    @property
    def loss_mask(self) -> Sequence[int]:
        """1 for each token of the completion that is trained, else 0."""
        if self.advantage is None:
            return [0] * len(self.completion_ids)
        return self.mask or [1] * len(self.completion_ids)


def training_rows(
    episodes: Sequence[Episode],
    records: Sequence[TurnRecord],
    batch: TurnBatch,
    advantage: NDArray[np.float64],
    in_batch: range,
) -> list[TrainingRow]:
    """One row for each record of this process, in their order.

    Turns that were selected by their return have no row, because they have no advantage.

    Args:
        episodes: what this process played.
        records: its turns.
        batch: the global batch.
        advantage: float64[N] per turn or float64[num_tokens.sum()] per token, global.
        in_batch: where the records are in the global batch, see `rows_of_process`.
    """
    counts = np.zeros(0, np.int64) if batch.num_tokens is None else batch.num_tokens
    if len(advantage) == len(batch.reward):
        advantage = np.repeat(advantage, counts)
    ends = np.cumsum(counts)
    returns: dict[tuple[int, int], float] = {}
    for e, s, reward in zip(batch.episode, batch.seat, batch.reward, strict=True):
        returns[e, s] = returns.get((e, s), 0.0) + float(reward)
    unselected = batch.is_unselected
    rows: list[TrainingRow] = []
    for place, (record, n) in enumerate(zip(records, in_batch, strict=True)):
        if not unselected[n]:
            continue
        turn = episodes[record.episode].turns[record.place]
        said = turn if record.call < 0 else turn.generations[record.call]
        row = TrainingRow(
            prompt_ids=said.prompt_ids or (),
            completion_ids=said.token_ids or (),
            advantage=advantage[ends[n] - counts[n] : ends[n]],
            episode_return=returns[batch.episode[n], batch.seat[n]],
            trajectory=(record.episode, record.seat),
            logprobs=said.logprobs or (),
            place=place,
            role=record.role,
        )
        rows.append(row)
    return rows


def with_placeholder_rows(
    rows: Sequence[TrainingRow], num_rows: int, end_id: int
) -> list[TrainingRow]:
    """`rows` filled up to `num_rows` with rows that have no loss.

    Every process must train the same number of rows, a multiple of its micro-batches.

    Args:
        rows: the rows that are trained.
        num_rows: how many rows are returned.
        end_id: the only token of placeholder rows where there are no other rows.
    """
    template = rows[0] if rows else TrainingRow([end_id], [end_id], None, 0.0)
    mean = float(np.mean([row.episode_return for row in rows])) if rows else 0.0
    filler = TrainingRow(template.prompt_ids, template.completion_ids, None, mean)
    return [*rows, *[filler] * (num_rows - len(rows))]


def turn_weights(batch: TurnBatch) -> NDArray[np.float64]:
    """Weights that turn TRL's mean over tokens into the mean of MARS's equation 3.

        wₖ = N / (P · Gₚ · Kᵢ · nₖ)

    for turn k of nₖ tokens, in a trajectory i of Kᵢ turns, of a seat p with Gₚ trajectories,
    with P seats and N tokens in all. Then 1/N Σ w L over tokens is the mean over seats, then
    trajectories, then turns, then tokens. Weights are positive, so a weighted advantage
    keeps its sign in a clipped loss. The mean weight of a token is 1.

    See "MARS: Reinforcing Multi-Agent Reasoning of LLMs through Self-Play in Strategic
    Games" (https://arxiv.org/abs/2510.15414).

    Args:
        batch: the global batch, with `num_tokens`.

    Returns:
        float64[N], one for each turn; 0 for a turn that was selected by its return, which
            is not trained.
    """
    if batch.num_tokens is None:
        raise ValueError("want the column 'num_tokens' in the turn batch, got None")
    own = batch.is_unselected
    num_tokens = batch.num_tokens[own]
    keys = np.stack([batch.seat, batch.episode], axis=1)[own]
    pairs, trajectory = np.unique(keys, axis=0, return_inverse=True)
    trajectory = trajectory.ravel()
    num_turns = np.bincount(trajectory)[trajectory]
    seats, seat = np.unique(pairs[:, 0], return_inverse=True)
    num_trajectories = np.bincount(seat)[seat][trajectory]
    parts = len(seats) * num_trajectories * num_turns * num_tokens
    weights = np.zeros(len(own))
    weights[own] = num_tokens.sum() / parts
    return weights


def whole_row_lengths(batch: TurnBatch) -> NDArray[np.int64]:
    """int64[N]: length of the row that holds each turn's whole trajectory.

    A turn that was selected by its return has no row. Its entry is its own length.
    """
    if batch.row_length is None:
        raise ValueError("want the column 'row_length' in the turn batch, got None")
    own, row = batch.is_unselected, _rows_of(batch)
    longest = np.zeros(len(row), np.int64)
    np.maximum.at(longest, row[own], batch.row_length[own])
    lengths: NDArray[np.int64] = np.where(own, longest[row], batch.row_length)
    return lengths


def _rows_of(batch: TurnBatch) -> NDArray[np.int64]:
    """int64[N]: index of each turn's row, if rows hold whole trajectories."""
    keys = np.stack([batch.episode, batch.seat], axis=1)
    _, row = np.unique(keys, axis=0, return_inverse=True)
    return row.ravel().astype(np.int64)


def weighted(advantage: NDArray[np.float64], batch: TurnBatch) -> NDArray[np.float64]:
    """Advantages, one per turn or one per token, times the weights of their turns."""
    return _times(advantage, turn_weights(batch), batch)


def loss_weighted(
    advantage: NDArray[np.float64], batch: TurnBatch, loss_type: str, layout: str
) -> NDArray[np.float64]:
    """Advantages times the weights of their tokens in TRL's loss, up to a common factor.

    Args:
        advantage: as it is trained, one per turn or one per token.
        batch: the global batch, with `num_tokens`.
        loss_type: of TRL; those of `PER_ROW_LOSSES` divide by the tokens of the row.
        layout: what a row holds, `"turn"` or `"trajectory"`.
    """
    if loss_type not in PER_ROW_LOSSES or batch.num_tokens is None:
        return advantage
    tokens = batch.num_tokens
    if layout == "trajectory":
        own, row = batch.is_unselected, _rows_of(batch)
        trained = np.bincount(row, np.where(own, tokens, 0))[row]
        tokens = np.where(own, trained, tokens)
    return _times(advantage, 1 / tokens, batch)


def _times(
    advantage: NDArray[np.float64], weights: NDArray[np.float64], batch: TurnBatch
) -> NDArray[np.float64]:
    if len(advantage) != len(weights):
        weights = np.repeat(weights, batch.num_tokens)  # type: ignore[arg-type] # checked
    product: NDArray[np.float64] = advantage * weights
    return product


def trajectory_rows(rows: Sequence[TrainingRow]) -> list[TrainingRow]:
    """One row for each trajectory: a seat's turns, and between them what it read.

    Tokens that the seat read are masked. Tokens are exactly those that were sampled, so
    each turn's prompt has to begin with the turn before, as in a transcript.

    Args:
        rows: of single turns, in playing order.

    Raises:
        ValueError: a prompt does not begin with the turn before, or a row names no
            trajectory.
    """
    joined: dict[tuple[int, int], TrainingRow] = {}
    for row in rows:
        key = row.trajectory
        if key is None:
            raise ValueError("want rows of turns with their trajectory, got None")
        joined[key] = _joined(joined[key], row, key) if key in joined else row
    return list(joined.values())


def _joined(before: TrainingRow, row: TrainingRow, key: tuple[int, int]) -> TrainingRow:
    """The row with the next turn of the same seat appended."""
    if before.advantage is None or row.advantage is None:
        raise ValueError("want rows that have a loss, got a placeholder row")
    known = [*before.prompt_ids, *before.completion_ids]
    if list(row.prompt_ids[: len(known)]) != known:
        raise ValueError(
            "layout='trajectory' needs prompts that begin with the turn before, token "
            f"for token; a turn of seat {key[1]} in episode {key[0]} does not"
        )
    read = list(row.prompt_ids[len(known) :])
    return TrainingRow(
        prompt_ids=before.prompt_ids,
        completion_ids=[*before.completion_ids, *read, *row.completion_ids],
        advantage=np.concatenate(
            [before.advantage, np.zeros(len(read)), row.advantage]
        ),
        episode_return=before.episode_return,
        mask=[*before.loss_mask, *[0] * len(read), *row.loss_mask],
        trajectory=key,
        logprobs=[*before.logprobs, *[0.0] * len(read), *row.logprobs],
    )
