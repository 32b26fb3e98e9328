"""Replays recorded episodes, compares them with their records, and shows people the end."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, cast

from arena_envs import GameEnv, make_game
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    AnyState,
    IllegalAction,
    as_tuples,
)
from arena_envs.scenes import Scene, Talk, scene_of, text_of
from arena_envs.trust import named_only
from arena_wrappers.play.episodes import forfeit_reason
from arena_wrappers.play.plans import EpisodePlan
from arena_wrappers.play.play import play_plans
from arena_wrappers.play.wrapper import PromptWrapper
from arena_wrappers.policies import (
    INSTEAD,
    HumanPolicy,
    Policy,
    Reply,
    TurnRequest,
    without_noise,
)
from arena_wrappers.records import LOST, Episode, Turn


class ReplayError(ValueError):
    """The replay of an episode differs from its record."""


def replay(
    episode: Episode, game: AnyGame | None = None, *, allow_code: bool = False
) -> Episode:
    """Plays a recorded episode again, with the recorded chance outcomes and replies.

    Args:
        episode: the record.
        game: the rules, where the record names no registered game.
        allow_code: as for `game_of`.

    Returns:
        The replayed episode, which equals the record.

    Raises:
        ReplayError: the replay differs from the record; says where.
        ValueError: the record's game is unknown, or its actions are impossible.
    """
    if game is None:
        game = game_of(episode, allow_code=allow_code)
    base = GameEnv(game, id=episode.game, max_turns=episode.max_turns)
    try:
        env = PromptWrapper(base, **episode.prompt)
    except TypeError as error:
        raise ValueError(f"want prompt options, got {episode.prompt}") from error
    policies = [
        _RecordedPolicy([turn for turn in episode.turns if turn.seat == seat])
        for seat in range(game.num_players)
    ]
    steps = list(recorded_steps(game, episode.actions))[:-1]
    drawn_actions = [a for state, a in steps if game.current_player(state) == CHANCE]
    plan = EpisodePlan(
        env_fn=lambda: env,
        policies=policies,
        seed=episode.seed,
        sample=episode.sample,
        options={"chance": drawn_actions},
        drawn=_drawn_actions(game, episode),
    )
    (again,) = play_plans([plan], on_error="lose")
    for policy in policies:
        if policy.error is not None:
            raise policy.error
    _compare_episodes(episode, again)
    return again


def readable_episode(episode: Episode, game: AnyGame) -> Episode:
    """The episode; lost if it was read from a file and its language game cannot read the actions.

    Where actions are listed, a record holds their numbers, which always can be read.
    """
    if episode.lost is not None or episode.final_state is not None:
        return episode
    if game.num_actions is not None:
        return episode
    try:
        deque(recorded_steps(game, episode.actions), maxlen=0)
    except ReplayError as error:
        fault = f"the record cannot be read: {error}"
        return replace(episode, lost=fault, returns=[], measures={})
    return episode


def game_of(episode: Episode, *, allow_code: bool = False) -> AnyGame:
    """The rules that a record names.

    Args:
        episode: the record.
        allow_code: whether it may name code and files, which its author then runs and opens. A
            game that this process has made before needs no permission.

    Raises:
        NotTrusted: it names code or a file.
        ValueError: the game is unknown, or a parameter does not fit it.
        ImportError: the game cannot be imported.
    """
    with named_only(allow_code=allow_code):
        return make_game(episode.game, **as_tuples(dict(episode.params)))


def final_state(episode: Episode, game: AnyGame) -> Any:
    """The state in which an episode ended: from memory, or by playing its record.

    Raises:
        ReplayError: an action of the record is not possible in this game.
    """
    if episode.final_state is not None:
        return episode.final_state
    *_, (state, _) = recorded_steps(game, episode.actions)
    return state


def recorded_steps(game: AnyGame, record: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """The states of a record, each with the action that followed or None."""
    state = game.initial_state()
    for number, entry in enumerate(record):
        action = _action_of(game, state, number, entry)
        yield state, action
        state = game.apply(state, action)
    yield state, None


def turn_states(episode: Episode, game: AnyGame) -> list[Any]:
    """The state in which each turn was taken: from memory, or by playing the record.

    Raises:
        ReplayError: an action of the record is not possible in this game, or is missing.
    """
    states = [turn.state for turn in episode.turns]
    if all(state is not None for state in states):
        return states
    steps = recorded_steps(game, episode.actions)
    at_turns = ((s, a) for s, a in steps if game.current_player(s) != CHANCE)
    states, step = [], next(at_turns, None)
    for turn in episode.turns:
        if step is None or (turn.action is not None and step[1] is None):
            missing = len(episode.actions)
            raise ReplayError(f"the record ends too early: action {missing} is missing")
        states.append(step[0])
        step = step if turn.action is None else next(at_turns, None)
    return states


def next_state(episode: Episode, turn: Turn, game: AnyGame) -> Any | None:
    """The state at the seat's next turn; None after its last one."""
    states = zip(episode.turns, turn_states(episode, game), strict=True)
    later = (s for t, s in states if t.seat == turn.seat and t.index > turn.index)
    return next(later, None)


class _RecordedPolicy:
    """Gives the recorded replies of a seat, in order; `error` says that one is missing."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = turns
        self.error: ReplayError | None = None
        self.name = turns[0].policy if turns else ""

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        return [self._reply(request) for request in requests]

    def _reply(self, request: TurnRequest) -> Reply:
        if request.turn >= len(self.turns):
            self.error = ReplayError(
                f"the record ends too early: turn {request.turn} of seat {request.seat} "
                "is missing"
            )
            raise self.error
        turn = self.turns[request.turn]
        return Reply(
            turn.reply,
            turn.prompt_ids,
            turn.token_ids,
            turn.logprobs,
            turn.truncated,
            error=turn.detail if turn.invalid in LOST else None,
            entropies=turn.entropies,
            timed_out=turn.invalid == "timeout",
            instead=cast(Any, turn.invalid if turn.invalid in INSTEAD else None),
            generations=turn.generations,
        )


def _drawn_actions(game: AnyGame, episode: Episode) -> dict[int, Any]:
    """The actions that the parent drew for invalid replies, by index of the turn.

    The parent has another `sample`, so that the replay would draw other actions.
    """
    shared = episode.turns[: episode.branch or 0]
    numbers = [i for i, t in enumerate(shared) if t.invalid and t.action is not None]
    states = turn_states(episode, game) if numbers else []
    return {i: _action_of(game, states[i], i, shared[i].action) for i in numbers}


def _action_of(
    game: AnyGame, state: AnyState, number: int, entry: int | str | None
) -> Any:
    """The action that an entry of a record's `actions` stands for."""
    player = game.current_player(state)
    possible: Sequence[Any] = game.legal_actions(state)
    if player == CHANCE:
        possible = [outcome for outcome, _ in game.chance_outcomes(state)]
    if game.num_actions is not None:
        if entry in possible:
            return entry
    elif player == CHANCE:
        if isinstance(entry, int) and entry in range(len(possible)):
            return possible[entry]
    elif player != TERMINAL and isinstance(entry, str):
        try:
            return game.parse(state, entry)
        except IllegalAction:
            pass
    raise ReplayError(f"action {number}: {entry!r} is not possible in this game")


def _compare_episodes(recorded: Episode, again: Episode) -> None:
    for number, pair in enumerate(zip(recorded.turns, again.turns, strict=False)):
        _compare_fields(f"turn {number}", *pair)
    if len(recorded.turns) != len(again.turns):
        raise ReplayError(
            f"had {len(recorded.turns)} turns and has now {len(again.turns)}"
        )
    _compare_fields("the episode", recorded, again)


def _compare_fields(
    where: str, recorded: Turn | Episode, again: Turn | Episode
) -> None:
    # compared before; of another episode; not asked again
    skipped = {"turns", "parent", "branch", "probes"}
    names = [f.name for f in fields(recorded) if f.compare and f.name not in skipped]
    for name in names:
        old, new = (as_tuples(getattr(episode, name)) for episode in (recorded, again))
        if old != new:
            raise ReplayError(f"{where}: {name} was {old!r} and is now {new!r}")


def ending(
    episode: Episode,
    game: AnyGame,
    seat: int,
    policies: Sequence[Policy],
    *,
    reveals: bool = False,
) -> str:
    """The last state as a seat sees it, a forfeit, and the returns.

    Args:
        episode: the episode.
        game: its game.
        seat: who reads it.
        policies: who played each seat.
        reveals: whether to add what was hidden from the seat. Not for a seat that may meet the
            same start again.
    """
    state = final_state(episode, game)
    lines = [f"\n{game.observe(state, seat)}"]
    if episode.lost is not None:
        lines.append(f"The game ends without a result: {episode.lost}")
    if reveals and (hidden := _hidden(game, state, seat)):
        lines.append(f"What was hidden from you:\n{hidden}")
    if (reason := forfeit_reason(episode)) is not None:
        lines.append(f"player_{episode.forfeited_by} forfeits: {reason}")
    for number, value in enumerate(episode.returns):
        name = "you" if number == seat else policies[number].name
        lines.append(f"player_{number} ({name}): {value:g}")
    return "\n".join(lines)


def _hidden(game: AnyGame, state: AnyState, seat: int) -> str:
    """The parts of the picture of a state that a seat does not see as they are, but for the talk."""
    whole, visible = (scene_of(game, state, viewer).shapes for viewer in (None, seat))
    shapes = [
        shape for shape in whole if shape not in visible and not isinstance(shape, Talk)
    ]
    return text_of(Scene("", shapes)).strip() if shapes else ""


def tell_people(episode: Episode, game: AnyGame, policies: Sequence[Policy]) -> None:
    """Shows the ending to every person among the policies of an episode."""
    for seat, policy in enumerate(policies):
        inner = without_noise(policy)
        if isinstance(inner, HumanPolicy):
            inner.write(ending(episode, game, seat, policies))
