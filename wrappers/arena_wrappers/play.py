"""Plays many episodes in lockstep, and replays recorded ones."""

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

from arena_envs.env import GameEnv, checked_seed
from arena_envs.game import CHANCE, AnyGame
from arena_envs.registration import make_game
from arena_wrappers.episodes import Episode, Turn
from arena_wrappers.formats import InvalidReply
from arena_wrappers.policies import Policy, Reply, TurnRequest, turn_seed
from arena_wrappers.wrapper import PromptWrapper

EnvFn = Callable[[], GameEnv | PromptWrapper]
OnError = Literal["forfeit", "raise"]


@dataclass(frozen=True)
class EpisodePlan:
    """An episode to be played.

    Attributes:
        env_fn: makes the environment; plans that share it share its set-up cost.
        policies: who plays each seat.
        seed: of the environment and of all random choices.
        sample: number of the episode among those with the same seed: same chance, other
            choices of the policies.
        options: for `reset`.
    """

    env_fn: EnvFn
    policies: Sequence[Policy]
    seed: int
    sample: int = 0
    options: Mapping[str, Any] | None = None


def play(
    env_fn: EnvFn,
    policies: Policy | Sequence[Policy],
    seeds: Sequence[int],
    *,
    num_samples: int = 1,
    batch_size: int | None = None,
    timeout: float | None = None,
    on_error: OnError = "forfeit",
) -> list[Episode]:
    """Plays one episode for each seed; all waiting turns of a policy go to one `act`.

    The same seeds and policies give the same episodes whatever the batch size.

    Args:
        env_fn: makes the environment (a `GameEnv` gets the default prompts).
        policies: one policy for all seats, or one for each.
        seeds: seeds of the episodes.
        num_samples: episodes per seed, alike in chance and not in the policies' choices.
        batch_size: most episodes in flight; None for all.
        timeout: seconds that one `act` may take; then its turns are forfeited.
        on_error: what an exception in a policy does: `"forfeit"` ends that seat's episode
            and no other, `"raise"` passes it on.

    Returns:
        The episodes, samples of one seed side by side, seeds in order.

    Raises:
        ValueError: number of policies, a seed, or a count is out of range.

    >>> import arena_envs
    >>> from arena_wrappers import RandomPolicy, play
    >>> episodes = play(lambda: arena_envs.make("kuhn_poker"), RandomPolicy(), range(3))
    >>> [len(episode.turns) for episode in episodes]
    [2, 2, 3]
    """
    num_players = len(env_fn().possible_agents)
    seats = policies if isinstance(policies, Sequence) else [policies] * num_players
    if len(seats) != num_players:
        raise ValueError(f"want {num_players} policies, one per seat, got {len(seats)}")
    if num_samples < 1:
        raise ValueError(f"want num_samples of at least 1, got {num_samples}")
    plans = [
        EpisodePlan(env_fn, seats, checked_seed(seed), sample)
        for seed in seeds
        for sample in range(num_samples)
    ]
    return play_plans(plans, batch_size=batch_size, timeout=timeout, on_error=on_error)


def play_plans(
    plans: Sequence[EpisodePlan],
    *,
    batch_size: int | None = None,
    timeout: float | None = None,
    on_error: OnError = "forfeit",
) -> list[Episode]:
    """Plays the planned episodes in lockstep, several games at once if need be.

    Args:
        plans: the episodes.
        batch_size: most episodes in flight; None for all.
        timeout: as for `play`.
        on_error: as for `play`.

    Returns:
        The episodes, in the order of the plans.

    Raises:
        ValueError: `batch_size` below 1.
    """
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"want batch_size of at least 1, got {batch_size}")
    limit = batch_size or len(plans)
    spare: dict[EnvFn, list[PromptWrapper]] = {}
    episodes: list[Episode | None] = [None] * len(plans)
    waiting = iter(enumerate(plans))
    live: list[_Table] = []
    while True:
        while len(live) < limit:
            index, plan = next(waiting, (None, None))
            if index is None or plan is None:
                break
            live.append(_Table(index, plan, _env_of(plan.env_fn, spare)))
        if not live:
            return [episode for episode in episodes if episode is not None]
        playing = [table for table in live if not table.is_over]
        for tables, replies in _ask_all(playing, timeout, on_error):
            for table, reply in zip(tables, replies, strict=True):
                table.take(reply)
        for table in live:
            if table.is_over:
                episodes[table.index] = table.episode()
                spare[table.plan.env_fn].append(table.env)
        live = [table for table in live if not table.is_over]


class _Table:
    """An episode in progress."""

    def __init__(self, index: int, plan: EpisodePlan, env: PromptWrapper) -> None:
        self.index, self.plan, self.env = index, plan, env
        env.reset(seed=plan.seed, options=dict(plan.options or {}))
        self.turns: list[Turn] = []
        self.last_turn: dict[str, Turn] = {}
        self.context_ids: dict[int, list[int]] = {}

    @property
    def is_over(self) -> bool:
        base = self.env.env
        agent = base.agent_selection
        return base.terminations[agent] or base.truncations[agent]

    @property
    def seat(self) -> int:
        base = self.env.env
        return base.possible_agents.index(base.agent_selection)

    @property
    def policy(self) -> Policy:
        return self.plan.policies[self.seat]

    def request(self) -> TurnRequest:
        env = self.env
        base, seat = env.env, self.seat
        state, game = base.game_state, base.game
        agent = base.agent_selection
        turn = self.last_turn[agent].index + 1 if agent in self.last_turn else 0
        self.pending = TurnRequest(
            episode=self.index,
            turn=turn,
            seat=seat,
            game=game,
            state=state,
            messages=env.observe(agent),
            context_ids=self.context_ids.get(seat, ()),
            legal=[game.action_text(state, action) for action in base.legal_actions()],
            seed=turn_seed(self.plan.seed, self.plan.sample, turn, seat),
            reply_format=env.options.reply_format,
        )
        return self.pending

    def take(self, reply: Reply) -> None:
        env, request = self.env, self.pending
        agent = env.env.agent_selection
        policy = self.policy.name
        invalid = None
        if reply.error is not None:
            invalid = InvalidReply("error", reply.error)
        elif reply.truncated:
            invalid = InvalidReply("overlong", "The reply was cut at its length limit.")
        env.submit(reply.text, invalid)
        outcome = env.outcome
        bad = isinstance(outcome, InvalidReply)
        turn = Turn(
            index=request.turn,
            seat=request.seat,
            policy=policy,
            messages=request.messages,
            legal=request.legal,
            reply=reply.text,
            action=env.played,
            invalid=outcome.reason if bad else None,
            detail=outcome.detail if bad else None,
            prompt_ids=reply.prompt_ids,
            token_ids=reply.token_ids,
            logprobs=reply.logprobs,
            truncated=reply.truncated,
        )
        self.turns.append(turn)
        self.last_turn[agent] = turn
        if env.history == "transcript" and reply.token_ids is not None:
            ids = [*(reply.prompt_ids or ()), *reply.token_ids]
            self.context_ids[request.seat] = ids
        for payee, parts in env.reward_parts.items():
            if payee in self.last_turn:
                rewards = self.last_turn[payee].rewards
                for name, reward in parts.items():
                    rewards[name] = rewards.get(name, 0.0) + reward

    def episode(self) -> Episode:
        base, plan = self.env.env, self.plan
        agent = base.possible_agents[0]
        return Episode(
            game=base.id or type(base.game).__name__,
            params=_params(base.game),
            max_turns=base.max_turns,
            prompt=self.env.prompt_options,
            seed=plan.seed,
            sample=plan.sample,
            actions=_action_record(base.game, base.actions),
            turns=self.turns,
            returns=base.returns,
            terminated=base.terminations[agent],
            truncated=base.truncations[agent],
            forfeited_by=base.forfeited_by,
        )


def _env_of(env_fn: EnvFn, spare: dict[EnvFn, list[PromptWrapper]]) -> PromptWrapper:
    """An environment that is not in use: a spare one, a copy of one, or a new one."""
    if env_fn not in spare:
        env = env_fn()
        first = env if isinstance(env, PromptWrapper) else PromptWrapper(env)
        spare[env_fn] = [first]
    if len(spare[env_fn]) > 1:
        return spare[env_fn].pop()
    return spare[env_fn][0].clone()


def _ask_all(
    tables: Sequence[_Table], timeout: float | None, on_error: OnError
) -> list[tuple[list[_Table], Sequence[Reply]]]:
    """Groups the tables by the policy that is to move, and asks each policy once."""
    groups: dict[int, list[_Table]] = {}
    for table in tables:
        groups.setdefault(id(table.policy), []).append(table)
    answers = []
    for group in groups.values():
        requests = [table.request() for table in group]
        answers.append((group, _ask(group[0].policy, requests, timeout, on_error)))
    return answers


def _ask(
    policy: Policy,
    requests: Sequence[TurnRequest],
    timeout: float | None,
    on_error: OnError,
) -> Sequence[Reply]:
    try:
        replies = _act(policy, requests, timeout)
        if len(replies) != len(requests):
            raise ValueError(
                f"policy {policy.name!r} gave {len(replies)} replies to {len(requests)} requests"
            )
        return replies
    except Exception as error:  # a policy may be anybody's code, or a network away
        if on_error == "raise":
            raise
        if isinstance(error, TimeoutError) or len(requests) == 1:
            return [Reply("", error=f"{type(error).__name__}: {error}")] * len(requests)
        # one bad request must not cost the others their turn
        return [_ask(policy, [r], timeout, on_error)[0] for r in requests]


def _act(
    policy: Policy, requests: Sequence[TurnRequest], timeout: float | None
) -> Sequence[Reply]:
    if timeout is None:
        return policy.act(requests)
    done: queue.SimpleQueue[tuple[Sequence[Reply], Exception | None]]
    done = queue.SimpleQueue()

    def work() -> None:
        try:
            done.put((policy.act(requests), None))
        except Exception as error:  # handed to the caller below
            done.put(((), error))

    threading.Thread(target=work, daemon=True).start()
    try:
        replies, error = done.get(timeout=timeout)
    except queue.Empty:
        raise TimeoutError(f"no reply within {timeout} s") from None
    if error is not None:
        raise error
    return replies


def _params(game: AnyGame) -> dict[str, Any]:
    if not is_dataclass(game):
        return {}
    return {field.name: getattr(game, field.name) for field in fields(game)}


def _action_record(game: AnyGame, actions: Sequence[Any]) -> list[Any]:
    """The actions as JSON can hold them: utterances as their canonical texts."""
    if game.num_actions is not None:
        return list(actions)
    record, state = [], game.initial_state()
    for action in actions:
        chance = game.current_player(state) == CHANCE
        record.append(action if chance else game.action_text(state, action))
        state = game.apply(state, action)
    return record


class ReplayError(ValueError):
    """A recorded episode does not happen again as it was recorded."""


def replay(episode: Episode, game: AnyGame | None = None) -> Episode:
    """Plays a recorded episode again, with the recorded chance outcomes and replies.

    Args:
        episode: the record.
        game: the rules, where the record names no registered game.

    Returns:
        The episode as it happened now: equal to the record.

    Raises:
        ReplayError: it went otherwise; says where.
        ValueError: the record's game is unknown, or its actions are impossible.
    """
    game = game or make_game(episode.game, **episode.params)
    env = PromptWrapper(
        GameEnv(game, id=episode.game, max_turns=episode.max_turns), **episode.prompt
    )
    policies = [
        _Recorded([turn for turn in episode.turns if turn.seat == seat])
        for seat in range(game.num_players)
    ]
    plan = EpisodePlan(
        env_fn=lambda: env,
        policies=policies,
        seed=episode.seed,
        sample=episode.sample,
        options={"chance": _chance_outcomes(game, episode.actions)},
    )
    try:
        (again,) = play_plans([plan], on_error="raise")
    except IndexError as error:
        raise ReplayError(f"the record ends too early: {error}") from error
    _compare(episode, again)
    return again


class _Recorded:
    """Says what was said."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = turns
        self.name = turns[0].policy if turns else ""

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        return [self._reply(self.turns[request.turn]) for request in requests]

    def _reply(self, turn: Turn) -> Reply:
        return Reply(
            turn.reply,
            turn.prompt_ids,
            turn.token_ids,
            turn.logprobs,
            turn.truncated,
            error=turn.detail if turn.invalid == "error" else None,
        )


def _chance_outcomes(game: AnyGame, actions: Sequence[Any]) -> list[Any]:
    outcomes, state = [], game.initial_state()
    for action in actions:
        if game.current_player(state) == CHANCE:
            outcomes.append(action)
        elif game.num_actions is None:
            action = game.parse(state, action)
        elif action not in game.legal_actions(state):
            raise ReplayError(f"the recorded action {action!r} is not legal")
        state = game.apply(state, action)
    return outcomes


def _compare(recorded: Episode, again: Episode) -> None:
    for number, (turn, new) in enumerate(
        zip(recorded.turns, again.turns, strict=False)
    ):
        _compare_fields(f"turn {number}", turn, new)
    _compare_fields("the episode", recorded, again)


def _compare_fields(where: str, recorded: Any, again: Any) -> None:
    skipped = {"turns", "parent", "branch"}
    for name in (f.name for f in fields(recorded) if f.name not in skipped):
        old, new = getattr(recorded, name), getattr(again, name)
        if isinstance(old, Sequence) and not isinstance(old, str):
            old, new = list(old), None if new is None else list(new)
        if old != new:
            raise ReplayError(f"{where}: {name} was {old!r} and is now {new!r}")
    if hasattr(recorded, "turns") and len(recorded.turns) != len(again.turns):
        raise ReplayError(
            f"{where}: had {len(recorded.turns)} turns and has now {len(again.turns)}"
        )
