"""A learner's turns as all processes know them: a `TurnRecord` of each, from its episode.

`turn_batches` makes the columns that credit reads of the records of all processes, and `rows` the
training sequences of this one.

This module imports neither TRL nor torch.
"""

from collections import Counter
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Mapping,
    Sequence,
)
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import AnyGame, AnyState
from arena_trainers.matchmaking import SELF
from arena_trainers.rewards import Call, calls_of
from arena_trainers.train.columns import (
    ColumnFunction,
    part_of,
    pays_calls,
    supplied_by,
    supplied_by_calls,
)
from arena_wrappers.play import Branching, final_state, turn_states
from arena_wrappers.records import Episode, Turn


class TurnRecord(NamedTuple):
    """A learner's turn as all processes know it, to compute its credit.

    The process that played it finds the turn itself, with its prompt and its tokens, at
    `episodes[record.episode].turns[record.place]`. A turn of several generations has a record for
    each: to credit, they are turns of their own. The last of them is paid what the turn is.
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
    legal: Sequence[Any] = ()  # for a critic, the legal actions
    reply_probs: Sequence[float] = ()  # of the canonical reply of each of them
    reply_index: int = -1  # of that which was sampled; -1 for another reply
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


# for the tokens of a reply, by the ids of prompt and reply, and its text: 0 for reasoning, else 1
SpanFunction = Callable[[Sequence[int], Sequence[int], str], Sequence[int]]

PARTS = ("game", "format")  # of the reward, as `PromptWrapper` pays them
TOKEN_COLUMNS = ("entropy", "logprob", "span")
# columns that need the state before a turn
OF_STATES = frozenset(
    {"state_key", "action", "value", "features", "features.all", "reply_probs"}
)


def turn_records(
    episodes: Sequence[Episode],
    games: Sequence[int],
    seats: Sequence[Sequence[str]],
    rules: Sequence[AnyGame] = (),
    columns: Collection[str] = (),
    functions: Mapping[str, ColumnFunction] | None = None,
    branching: Branching | None = None,
    spans: SpanFunction | None = None,
) -> list[TurnRecord]:
    """The turns of seats that learn, episode by episode, in playing order.

    The turns that an episode shares with its parent are recorded once, as the parent's. A turn whose
    prompt outgrew the model's context has no tokens, and no record: what it is paid goes to the
    seat's turn before, if there is one.

    Args:
        episodes: what was played.
        games: index of each episode's game.
        seats: who played each seat of each episode; `"self"` learns.
        rules: the games; read if `columns` or `functions` need states.
        columns: the optional columns that are wanted; `features` are the critic's inputs.
        functions: functions that supply columns, by column. Each is called with an episode,
            one of its turns, and the state before that turn, or once with all calls.
        branching: where episodes branched, if they did.
        spans: gives the token column `span`; without it all tokens have 1.

    Raises:
        ValueError: a turn has no tokens, or a function returns no finite number, or no
            integer for a column of integers.
    """
    functions = functions or {}
    of_calls = {name: f for name, f in functions.items() if pays_calls(f)}
    of_turns = {name: f for name, f in functions.items() if name not in of_calls}
    calls: list[Call] = []  # of `records`, where `of_calls` ask for them
    reads_states = bool(functions) or not OF_STATES.isdisjoint(columns)
    reads_features = not {"features", "features.all"}.isdisjoint(columns)
    token_columns = [name for name in TOKEN_COLUMNS if f"tokens.{name}" in columns]
    opponents_by_seats: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    records: list[TurnRecord] = []
    for number, (episode, game, policies) in enumerate(
        zip(episodes, games, seats, strict=True)
    ):
        states = turn_states(episode, rules[game]) if reads_states else []
        first = len(records)
        last_places = {turn.seat: place for place, turn in enumerate(episode.turns)}
        opponents = opponents_by_seats.get(tuple(policies))
        if opponents is None:
            opponents = [other_seats(policies, seat) for seat in range(len(policies))]
            opponents_by_seats[tuple(policies)] = opponents
        # generations of each seat beyond one per turn
        extra_calls = [0] * len(policies)
        for place, turn in enumerate(episode.turns):
            seat = turn.seat
            turn_number = turn.index + extra_calls[seat]
            spoken = _spoken_calls(turn)
            extra_calls[seat] += len(spoken) - 1
            is_of_parent = place < (episode.branch or 0)
            if is_of_parent or policies[seat] != SELF:
                continue
            if not spoken:
                _pay_before(records, number, place, episode, branching)
                continue
            is_last = place == last_places[seat]
            fields = {
                "place": place,
                "terminated": is_last and episode.terminated,
                "truncated": is_last and episode.truncated,
                "unselected": branching is None
                or branching.is_unselected(episode, place),
                "game": game,
                "episode": number,
                "turn": turn_number,
                "opponent": opponents[seat],
            }
            if turn.generations:
                new = _call_records(episode, turn, token_columns, fields, spans)
            else:
                new = [_turn_record(episode, turn, token_columns, fields, spans)]
            if reads_states:
                state, game_rules = states[place], rules[game]
                new = [
                    _with_columns(record, turn, state, game_rules, columns)
                    for record in new
                ]
            if of_calls:
                all_calls = calls_of(episode, turn, state, game_rules)
                calls += [all_calls[max(record.call, 0)] for record in new]
            if of_turns:
                values = supplied_by(of_turns, episode, turn, state, game_rules)
                # the last call of a turn gets its reward
                new[:-1] = [with_supplied(r, without_rewards(values)) for r in new[:-1]]
                new[-1] = with_supplied(new[-1], values)
            records += new
        if reads_features:
            records[first:] = _with_end_features(
                records[first:], episode, rules[game], "features.all" in columns
            )
    if of_calls:
        supplied = supplied_by_calls(of_calls, calls)
        records = [
            with_supplied(record, values)
            for record, values in zip(records, supplied, strict=True)
        ]
    return records


def _with_columns(
    record: TurnRecord,
    turn: Turn,
    state: AnyState,
    game: AnyGame,
    columns: Collection[str],
) -> TurnRecord:
    """The record with the columns that need the state before its turn.

    Args:
        record: of the turn.
        turn: what was played.
        state: before the turn.
        game: the rules.
        columns: the optional columns that are wanted.
    """
    record = _with_state(record, turn, game, state)
    if "features" in columns:
        record = record._replace(features=game.features(state, turn.seat))
    if "features.all" in columns:
        record = record._replace(features=features_of_all(game, state))
    if "reply_probs" in columns:
        record = record._replace(legal=tuple(game.legal_actions(state)))
    return record


def _spoken_calls(turn: Turn) -> list[int]:
    """Indices of the generations of a turn in which a model wrote something; [0] for a plain turn.

    A model whose prompt fills its context writes nothing.
    """
    if not turn.generations:
        return [0] if turn.token_ids or turn.invalid != "context_length" else []
    calls = enumerate(turn.generations)
    return [
        call for call, generation in calls if generation.token_ids or generation.text
    ]


def _pay_before(
    records: list[TurnRecord],
    number: int,
    place: int,
    episode: Episode,
    branching: Branching | None,
) -> None:
    """Gives the seat's latest record of an episode, if any, the pay of a turn without words.

    Args:
        records: so far; one is replaced.
        number: of the episode.
        place: of the turn in it.
        episode: the episode.
        branching: where episodes branched, if they did.

    Raises:
        ValueError: the turn is of a turn tree.
    """
    if branching is not None:
        raise ValueError(
            "branch wants prompts that fit the model's context, got a longer one, at which "
            "candidates cannot differ; give shorter prompts (--prompt rules=false, --prompt history=state), "
            "a model with a longer context, or leave branch out"
        )
    turn = episode.turns[place]
    for i in range(len(records) - 1, -1, -1):
        if records[i].episode != number:
            return
        if records[i].seat == turn.seat:
            rewards = Counter(records[i].rewards)
            rewards.update(turn.rewards)
            is_last = all(t.seat != turn.seat for t in episode.turns[place + 1 :])
            records[i] = records[i]._replace(
                rewards=dict(rewards),
                terminated=is_last and episode.terminated,
                truncated=is_last and episode.truncated,
            )
            return


def _turn_record(
    episode: Episode,
    turn: Turn,
    token_columns: Sequence[str],
    fields: Mapping[str, Any],
    spans: SpanFunction | None,
) -> TurnRecord:
    """The record of a turn, without what the game's state tells.

    Args:
        episode: the turn's episode.
        turn: the turn.
        token_columns: the token columns that are wanted.
        fields: the fields that do not follow from the turn alone.
        spans: as for `turn_records`.
    """
    if not turn.token_ids or turn.prompt_ids is None:
        raise ValueError(f"a learner's turn has no tokens: {turn.reply[:60]!r}")
    return TurnRecord(
        seed=episode.seed,
        seat=turn.seat,
        rewards=turn.rewards,
        num_tokens=len(turn.token_ids),
        row_length=len(turn.prompt_ids) + len(turn.token_ids),
        tokens=_token_columns(turn, token_columns, spans),
        parent=-1 if episode.parent is None else episode.parent,
        branch=-1 if episode.branch is None else episode.branch,
        is_invalid=turn.invalid is not None,
        **fields,
    )


def _call_records(
    episode: Episode,
    turn: Turn,
    token_columns: Sequence[str],
    fields: Mapping[str, Any],
    spans: SpanFunction | None,
) -> list[TurnRecord]:
    """The records of a turn's generations; arguments as for `_turn_record`."""
    calls = _spoken_calls(turn)
    records: list[TurnRecord] = []
    for number, call in enumerate(calls):
        generation, is_last = turn.generations[call], call == calls[-1]
        call_turn = replace(
            turn,
            rewards=turn.rewards if is_last else {},
            reply=generation.text,
            prompt_ids=generation.prompt_ids,
            token_ids=generation.token_ids,
            logprobs=generation.logprobs,
            entropies=generation.entropies,
            invalid=turn.invalid if is_last else None,
        )
        end_fields = {
            name: is_last and fields[name] for name in ("terminated", "truncated")
        }
        call_fields = {
            **end_fields,
            "turn": fields["turn"] + number,
            "call": call,
            "role": generation.role,
        }
        records.append(
            _turn_record(
                episode, call_turn, token_columns, {**fields, **call_fields}, spans
            )
        )
    return records


def _with_state(
    record: TurnRecord, turn: Turn, game: AnyGame, state: AnyState
) -> TurnRecord:
    """Adds the seat's information state, its action, and what it had been paid.

    A generation also knows what was said before in its turn; the last one acts.
    """
    information_state, action = game.information_state(state, turn.seat), turn.action
    if record.call >= 0:
        texts = [generation.text for generation in turn.generations[: record.call + 1]]
        information_state = (information_state, *texts[:-1])
        action = texts[-1] if record.call < len(turn.generations) - 1 else action
    return record._replace(
        state=information_state,
        action=None if record.is_invalid else action,
        paid=game.returns(state)[turn.seat],
    )


def num_turns(records: Sequence[TurnRecord]) -> int:
    """The number of turns of these records; a turn has one record for each call, in order."""
    num = len(records)
    for record, following in pairwise(records):
        places = [(r.seed, r.episode, r.place) for r in (record, following)]
        num -= places[0] == places[1] and record.call < following.call
    return num


def without_rewards(values: Mapping[str, float]) -> dict[str, float]:
    """The columns of a turn without parts of the reward, which its last call gets."""
    return {name: value for name, value in values.items() if part_of(name) is None}


def with_supplied(record: TurnRecord, values: Mapping[str, float]) -> TurnRecord:
    """The record with further columns; parts of the reward go to `rewards`."""
    parts = {part: x for name, x in values.items() if (part := part_of(name))}
    supplied = {**(record.supplied or {}), **values}
    return record._replace(rewards={**record.rewards, **parts}, supplied=supplied)


def features_of_all(game: AnyGame, state: AnyState) -> NDArray[np.float32]:
    """float32: the features of each seat, one after the other."""
    return np.concatenate(
        [game.features(state, seat) for seat in range(game.num_players)]
    )


def _with_end_features(
    records: Sequence[TurnRecord], episode: Episode, game: AnyGame, sees_all: bool
) -> list[TurnRecord]:
    """The records of an episode with the features at its end, where it is truncated."""
    if not any(record.truncated for record in records):
        return list(records)
    end, with_end = final_state(episode, game), []
    for record in records:
        if record.truncated:
            features = (
                features_of_all(game, end)
                if sees_all
                else game.features(end, record.seat)
            )
            record = record._replace(next_features=features)
        with_end.append(record)
    return with_end


def other_seats(seats: Sequence[str], seat: int) -> tuple[str, ...]:
    """The policies of the other seats.

    >>> other_seats(["self", "self@20", "self@20"], 0)
    ('self@20', 'self@20')
    """
    return (*seats[:seat], *seats[seat + 1 :])


def _token_columns(
    turn: Turn, names: Sequence[str], spans: SpanFunction | None
) -> dict[str, Sequence[float]]:
    columns: dict[str, Sequence[float]] = {}
    for name in names:
        if name == "span":
            columns[name] = _spans(turn, spans)
            continue
        values = turn.entropies if name == "entropy" else turn.logprobs
        if values is None:
            raise ValueError(f"a learner's turn has no {name}: {turn.reply[:60]!r}")
        columns[name] = values
    return columns


def _spans(turn: Turn, spans: SpanFunction | None) -> Sequence[int]:
    token_ids = turn.token_ids or ()
    if spans is None:
        return [1] * len(token_ids)
    return spans(turn.prompt_ids or (), token_ids, turn.reply)
