"""Records of play: episodes and their turns, as JSON lines.

Files appear whole or not at all (`whole_file`), or stay readable if the process is killed
(`EpisodeLog`).
"""

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TextIO, get_args, get_origin, get_type_hints

from arena_envs.checks import JSON
from arena_envs.game import AnyGame
from arena_envs.transforms import innermost
from arena_wrappers.locks import lock_of
from arena_wrappers.prompts import Message


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """The path of a new file beside `path`, which it replaces when the block ends.

    After an error the old file is unchanged, and the new one is deleted.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def whole_file(path: str | Path) -> Iterator[TextIO]:
    """A text file to write, as by `replacing`."""
    with replacing(path) as part, open(part, "w", encoding="utf-8") as file:
        yield file


def write_whole(path: str | Path, text: str) -> None:
    """Writes a text; the file appears whole or not at all."""
    with whole_file(path) as file:
        file.write(text)


LOST = ("error", "timeout")  # `Turn.invalid` of a turn without a reply


@dataclass(frozen=True)
class Generation:
    """One call of one model within a turn.

    Attributes:
        role: what the model was asked as, such as `"planner"`.
        text: what it said.
        prompt_ids: token ids of its prompt, if the model reports them.
        token_ids: token ids of `text`.
        logprobs: log-probabilities of these tokens.
        entropies: entropies of their distributions, in nats; None if the model reports none.
        parent: index, within the turn, of the generation that it answers; -1 for none.
        messages: its prompt.
    """

    role: str
    text: str
    prompt_ids: Sequence[int] = ()
    token_ids: Sequence[int] = ()
    logprobs: Sequence[float] = ()
    parent: int = -1
    messages: Sequence[Message] = ()
    entropies: Sequence[float] | None = None


@dataclass  # not frozen, which takes three times as long to make
class Turn:
    """One reply of one seat, with its prompt, its action and its rewards.

    Attributes:
        index: which of this seat's turns of the episode, from 0.
        seat: who replied.
        policy: name of the policy that replied.
        messages: the prompt.
        legal: canonical texts of the legal actions.
        reply: the raw reply; it begins with the mark of reasoning that its prompt has opened.
        action: the action that was played; None if the reply was invalid and none was
            drawn for it.
        invalid: why the reply was no action: `"format"`, `"illegal"`, `"ambiguous"`,
            `"overlong"`, `"reasoning"`, or `"empty"`, `"refusal"`, `"tool_call"`, `"content_filter"`
            and `"context_length"` for replies of a model without text. In the last turn of a lost episode `"error"` or
            `"timeout"`. None if it was valid.
        detail: the reason in a sentence, where the reply was invalid.
        rewards: parts of the reward from this turn until the seat's next one, by name.
        prompt_ids: token ids of the prompt, if the policy reports them.
        token_ids: token ids of the reply.
        logprobs: log-probabilities of the reply's tokens.
        truncated: whether the reply was cut by a length limit.
        entropies: entropies of the distributions of the reply's tokens, in nats.
        generations: the calls of models that led to the reply, in order; empty if the reply
            is that of one call. Then the fields above hold its tokens.
        probes: by name of a probe, its `"question"` and the policy's `"reply"`, which nothing
            else reads: no player, no prompt and no training.
        state: the game's state before the turn. Only in memory: None in an episode that was
            read from a file or unpickled. `turn_states` gives it for every episode.
    """

    index: int
    seat: int
    policy: str
    messages: Sequence[Message]
    legal: Sequence[str]
    reply: str
    action: Any
    invalid: str | None
    detail: str | None
    rewards: dict[str, float] = field(default_factory=dict)
    prompt_ids: Sequence[int] | None = None
    token_ids: Sequence[int] | None = None
    logprobs: Sequence[float] | None = None
    truncated: bool = False
    entropies: Sequence[float] | None = None
    generations: Sequence[Generation] = ()
    probes: Mapping[str, Any] | None = None
    state: Any = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "state": None}

    @property
    def reward(self) -> float:
        """Sum of the parts."""
        return sum(self.rewards.values())


@dataclass(frozen=True)
class Episode:
    """One episode: its start, all actions and turns, and its end.

    Attributes:
        game: id of the game, or the name of its class if it has none.
        params: parameters of the game.
        max_turns: limit after which the environment truncates, if any.
        prompt: options of the `PromptWrapper`. If seats differ, `prompt["seats"]` holds the
            options of each seat that deviates from the others.
        seed: seed of the environment.
        sample: number of the episode among those with the same seed.
        actions: all actions in order, chance outcomes included. In language games: the
            canonical texts of utterances, and the index of each chance outcome in
            `Game.chance_outcomes`.
        turns: all replies in order.
        returns: return of each seat by the rules, without penalties; empty if the episode
            is lost.
        terminated: whether the episode ended by its rules (a forfeit included).
        truncated: whether it was cut by `max_turns`.
        forfeited_by: the seat that forfeited, if one did.
        parent: index, in the result of `play`, of the episode that this one branched from;
            None if it did not branch.
        branch: number of `turns` that it shares with its parent: `turns[branch]` is the
            first of its own.
        measures: the game's measures of the last state, by name; see `Game.measures`.
        lost: why the episode is lost: a policy gave no reply, as its server failed, it took too
            long, or its code raised; or the game cannot read the record. A lost episode is no
            result: leave it out (`without_lost`) and play it again. None if it was played to
            its end.
        final_state: the game's last state. Only in memory, as `Turn.state`.
    """

    game: str
    params: Mapping[str, Any]
    max_turns: int | None
    prompt: Mapping[str, Any]
    seed: int
    sample: int
    actions: Sequence[Any]
    turns: Sequence[Turn]
    returns: Sequence[float]
    terminated: bool
    truncated: bool
    forfeited_by: int | None = None
    parent: int | None = None
    branch: int | None = None
    measures: Mapping[str, float] = field(default_factory=dict)
    lost: str | None = None
    final_state: Any = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "final_state": None}

    def to_json(self) -> str:
        """The episode as one line of JSON.

        Raises:
            ValueError: a number is not finite.
        """
        values = {name: getattr(self, name) for name in _EPISODE_FIELDS}
        values["turns"] = [_turn_json(turn) for turn in self.turns]
        try:
            return json.dumps(values, allow_nan=False)
        except ValueError as error:
            raise ValueError(
                f"the episode of seed {self.seed}, sample {self.sample} holds a number "
                "that is not finite"
            ) from error

    @classmethod
    def from_json(cls, line: str) -> "Episode":
        """The episode that `to_json` wrote.

        Raises:
            ValueError: the line is no episode; says which field is wrong.
        """
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"want an episode as JSON, got {line[:60]!r}") from error
        values = _check_fields("the episode", values, cls, _EPISODE_FIELDS)
        turns = [_read_turn(f"turn {i}", t) for i, t in enumerate(values.pop("turns"))]
        return cls(**values, turns=turns)


def _turn_json(turn: Turn) -> dict[str, Any]:
    values = {name: getattr(turn, name) for name in _TURN_FIELDS}
    values["generations"] = [vars(generation) for generation in turn.generations]
    optional = ("generations", "probes")  # left out where there are none
    return {k: v for k, v in values.items() if v or k not in optional}


def _read_turn(where: str, values: Any) -> Turn:
    values = _check_fields(where, values, Turn, _TURN_FIELDS)
    generations = [
        Generation(
            **_check_fields(
                f"{where}, generation {i}", generation, Generation, _CALL_FIELDS
            )
        )
        for i, generation in enumerate(values.pop("generations", ()))
    ]
    return Turn(**values, generations=tuple(generations))


def storable(text: str) -> str:
    """`text` as it is after JSON: the two halves of a surrogate pair become one character."""
    if text.isascii():
        return text
    code, errors = "utf-16-le", "surrogatepass"
    return text.encode(code, errors).decode(code, errors)


def as_list(values: Iterable[Any] | None) -> Any:
    """A list, as JSON can hold it, of a sequence or an array."""
    if values is None or type(values) is list:
        return values
    return values.tolist() if hasattr(values, "tolist") else list(values)


def params_of(game: AnyGame) -> dict[str, Any]:
    """The parameters of a game, as JSON holds them; of a transform, those of its inner game."""
    game = innermost(game)
    if not is_dataclass(game):
        return {}
    params = {field.name: getattr(game, field.name) for field in fields(game)}
    json_params: dict[str, Any] = json.loads(json.dumps(params, default=repr))
    return json_params


Check = Callable[[Any], bool]


def _is_int(value: JSON) -> bool:
    return type(value) is int  # True is no integer


def _is_finite_dict(value: JSON) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return isinstance(value, dict)


def _is_number(value: JSON) -> bool:
    return _is_int(value) or (isinstance(value, float) and math.isfinite(value))


def _is_message(value: JSON) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"role", "content"}
        and all(isinstance(text, str) for text in value.values())
    )


def _is_action(value: JSON) -> bool:
    return type(value) in (int, str)


def _is_rewards(value: JSON) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


def _optional(check: Check) -> Check:
    return lambda value: value is None or check(value)


_SPECIAL = {
    "action": _optional(_is_action),
    "sample": lambda value: _is_int(value) and 0 <= value < 2**64,
}  # fields
_KINDS: dict[Any, Check] = {  # by annotation
    Any: _is_action,
    int: _is_int,
    float: _is_number,
    Message: _is_message,
    dict[str, float]: _is_rewards,
    Mapping[str, float]: _is_rewards,
    Mapping[str, Any]: _is_finite_dict,
}


def _check_of(hint: Any) -> Check:
    """The check of a value as JSON gives it, by the annotation of its field."""
    if hint in _KINDS:
        return _KINDS[hint]
    kind, (inner, *_) = get_origin(hint), (*get_args(hint), None)
    if kind is Sequence:
        check_entry = _check_of(inner)
        return lambda value: isinstance(value, list) and all(map(check_entry, value))
    if kind is not None:  # X | None
        return _optional(_check_of(inner))
    value_type = dict if is_dataclass(hint) else hint
    return lambda value: type(value) is value_type


def _fields_of(kind: type) -> dict[str, Check]:
    """The fields of a record that files hold, in their order."""
    hints, stored = get_type_hints(kind), [f.name for f in fields(kind) if f.compare]
    return {n: _SPECIAL.get(n) or _check_of(hints[n]) for n in stored}


_TURN_FIELDS, _EPISODE_FIELDS = _fields_of(Turn), _fields_of(Episode)
_CALL_FIELDS = _fields_of(Generation)
_READER = "; arena_eval.rollouts.read_rollouts reads episodes with credit"


def _other_file_advice(kind: type, values: Mapping[str, Any]) -> str:
    """What to read in place of a file whose lines are no episodes; "" for a damaged episode."""
    if kind is not Episode or {"game", "turns"} & values.keys():
        return ""
    content = "the metrics of a run" if "step" in values else "another kind of record"
    return (
        f"; the file holds {content}, and no episodes: give a file of episodes, such as "
        "RUN/episodes.jsonl; arena report RUN shows metrics"
    )


def _check_fields(
    where: str, values: Any, kind: type, checks: dict[str, Check]
) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise ValueError(f"{where}: want an object, got {values!r:.60}")
    for name, value in values.items():
        if name not in checks:
            advice = _READER if name == "credit" else _other_file_advice(kind, values)
            raise ValueError(f"{where} has an unknown field {name!r:.60}{advice}")
        if not checks[name](value):
            raise ValueError(f"{where}: {name} cannot be {value!r:.60}")
    for field_ in fields(kind):
        required = field_.default is MISSING and field_.default_factory is MISSING
        if required and field_.name not in values:
            raise ValueError(f"{where} lacks {field_.name!r}")
    return values


def without_lost(episodes: Iterable[Episode]) -> list[Episode]:
    """The episodes that are not lost; `Episode.parent` counts those that are kept."""
    all_episodes = list(episodes)
    numbers = [
        number for number, episode in enumerate(all_episodes) if episode.lost is None
    ]
    if len(numbers) == len(all_episodes):
        return all_episodes
    places: dict[int | None, int] = {old: new for new, old in enumerate(numbers)}
    return [
        replace(all_episodes[number], parent=places.get(all_episodes[number].parent))
        for number in numbers
    ]


def is_unreadable(episode: Episode) -> bool:
    """Whether an episode is lost because its game cannot read the record: no reply is missing."""
    missing = episode.turns and episode.turns[-1].invalid in LOST
    return episode.lost is not None and not missing


def write_episodes(path: str | Path, episodes: Iterable[Episode]) -> None:
    """Writes episodes as JSON lines; the file appears whole or not at all."""
    with whole_file(path) as file:
        file.writelines(episode.to_json() + "\n" for episode in episodes)


def read_episodes(path: str | Path) -> Iterator[Episode]:
    """The episodes of a file of JSON lines.

    Raises:
        ValueError: a line is no episode; names the line.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield Episode.from_json(line.decode("utf-8"))
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from error


START = b'{"game": '  # of a line


class EpisodeLog:
    """Appends episodes to a file of JSON lines.

    A process that is killed while it writes leaves at most one unfinished line. Opening the
    log again removes this line. One process at a time has the log open.

    Args:
        path: the file; created with the first episode.

    Raises:
        ValueError: the file has a line that is no episode, or another process has it open.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_file():
            raise ValueError(f"want a regular file for episodes, got {self.path}")
        self._lock = lock_of(self.path)
        if self.path.exists():
            self._cut_unfinished_line()

    def __iter__(self) -> Iterator[Episode]:
        if self.path.exists():
            yield from read_episodes(self.path)

    def append(self, episodes: Iterable[Episode]) -> None:
        """Adds episodes and syncs them to the disk.

        Raises:
            OSError: such as a full disk; no unfinished line stays behind.
        """
        append_bytes(
            self.path,
            "".join(episode.to_json() + "\n" for episode in episodes).encode(),
        )

    def _cut_unfinished_line(self) -> None:
        for number, line in enumerate(whole_lines(self.path, START), 1):
            try:
                Episode.from_json(line.decode())
            except ValueError as error:
                raise ValueError(f"{self.path}, line {number}: {error}") from error


def whole_lines(path: Path, start: bytes, first: bytes = b"") -> list[bytes]:
    """The lines of a log; the half of one that a killed process left is cut off.

    Args:
        path: the file.
        start: what each line begins with.
        first: what the first one begins with, if something else.

    Raises:
        ValueError: the file ends in something else.
    """
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    last_line, begins = content[end:], start if end else first or start
    if not begins.startswith(last_line[: len(begins)]):
        raise ValueError(
            f"want an episode at the end of {path}, got {last_line[:60]!r}; give a new file"
        )
    os.truncate(path, end)
    return content[:end].splitlines(keepends=True)


def append_bytes(path: Path, data: bytes) -> None:
    """Appends bytes to a file, all or none, and syncs them to the disk.

    Raises:
        OSError: such as a full disk; the file is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # unbuffered: closing a buffer would write its rest after the truncation
    with open(path, "ab", buffering=0) as file:
        end = file.tell()
        try:
            while data:
                data = data[file.write(data) :]
            os.fsync(file.fileno())
        except OSError:
            os.truncate(path, end)
            raise
