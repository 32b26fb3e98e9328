"""Plays many episodes in lockstep."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arena_envs.env import GameEnv, checked_seed
from arena_envs.game import CHANCE, AnyGame
from arena_wrappers.asking import OnError, ask, checked_timeout
from arena_wrappers.episodes import Episode, Turn, params_of, storable
from arena_wrappers.formats import InvalidReply
from arena_wrappers.policies import Policy, Reply, TurnRequest, turn_seed
from arena_wrappers.wrapper import PromptWrapper

EnvFn = Callable[[], GameEnv | PromptWrapper]


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
        timeout: seconds that one `act` may take; then its requests are asked again one by
            one, and those that take as long by themselves are forfeited. A call that
            timed out goes on in its thread, so `act` has to bear several at once.
        on_error: what an exception in a policy does: `"forfeit"` ends that seat's episode
            and no other, `"raise"` passes it on.

    Returns:
        The episodes, samples of one seed side by side, seeds in order.

    Raises:
        ValueError: number of policies, a seed, or a count is out of range.

    >>> import arena_envs
    >>> from arena_wrappers import RandomPolicy, play
    >>> episodes = play(lambda: arena_envs.make("kuhn_poker"), RandomPolicy(), range(3))
    >>> [sum(episode.returns) for episode in episodes]
    [0.0, 0.0, 0.0]
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
    """The episodes of `stream_plans`, in the order of the plans."""
    done = dict(
        stream_plans(plans, batch_size=batch_size, timeout=timeout, on_error=on_error)
    )
    return [done[index] for index in range(len(plans))]


def stream_plans(
    plans: Sequence[EpisodePlan],
    *,
    batch_size: int | None = None,
    timeout: float | None = None,
    on_error: OnError = "forfeit",
) -> Iterator[tuple[int, Episode]]:
    """Plays the planned episodes in lockstep, several games at once if need be.

    The arguments are those of `play`.

    Yields:
        The index of a plan and its episode, as soon as it is over.

    Raises:
        ValueError: `batch_size` below 1, or `timeout` not above 0.
    """
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"want batch_size of at least 1, got {batch_size}")
    checked_timeout(timeout)
    limit = batch_size or len(plans)
    rooms: dict[int, _Room] = {}
    waiting = deque(enumerate(plans))
    live: list[_Table] = []
    while live or waiting:
        while waiting and len(live) < limit:
            index, plan = waiting.popleft()
            if id(plan.env_fn) not in rooms:
                rooms[id(plan.env_fn)] = _Room(plan.env_fn)
            live.append(_Table(index, plan, rooms[id(plan.env_fn)]))
        groups: dict[int, list[_Table]] = {}
        for table in live:
            if table.is_over:  # some games can end before anybody moves
                yield table.index, table.leave()
            else:
                groups.setdefault(id(table.policy), []).append(table)
        live = []
        for group in groups.values():
            requests = [table.request() for table in group]
            replies = ask(group[0].policy, requests, timeout, on_error)
            for table, reply in zip(group, replies, strict=True):
                table.take(reply)
                if table.is_over:
                    yield table.index, table.leave()
                else:
                    live.append(table)


class _Room:
    """The environments of one `env_fn`, and what all its episodes record alike."""

    def __init__(self, env_fn: EnvFn) -> None:
        env = env_fn()
        self.first = env if isinstance(env, PromptWrapper) else PromptWrapper(env)
        self.free: list[PromptWrapper] = []
        base = self.first.env
        self.header: dict[str, Any] = {
            "game": base.id or type(base.game).__name__,
            "params": params_of(base.game),
            "max_turns": base.max_turns,
            "prompt": self.first.prompt_options,
        }

    def enter(self) -> PromptWrapper:
        return self.free.pop() if self.free else self.first.clone()


class _Table:
    """An episode in progress."""

    pending: TurnRequest

    def __init__(self, index: int, plan: EpisodePlan, room: _Room) -> None:
        self.index, self.plan, self.room = index, plan, room
        self.env = room.enter()
        self.env.reset(seed=plan.seed, options=dict(plan.options or {}))
        self.base = self.env.env
        self.turns: list[Turn] = []
        self.last_turn: dict[str, Turn] = {}
        self.context_ids: dict[int, list[int]] = {}

    @property
    def is_over(self) -> bool:
        agent = self.base.agent_selection
        return self.base.terminations[agent] or self.base.truncations[agent]

    @property
    def seat(self) -> int:
        return self.base.possible_agents.index(self.base.agent_selection)

    @property
    def policy(self) -> Policy:
        return self.plan.policies[self.seat]

    def request(self) -> TurnRequest:
        env, base, plan = self.env, self.base, self.plan
        agent = base.agent_selection
        seat = self.seat
        turn = self.last_turn[agent].index + 1 if agent in self.last_turn else 0
        self.pending = TurnRequest(
            episode=self.index,
            turn=turn,
            seat=seat,
            game=base.game,
            state=base.game_state,
            messages=env.observe(agent),
            context_ids=self.context_ids.get(seat, ()),
            legal=env.legal_texts(),
            seed=turn_seed(plan.seed, plan.sample, turn, seat),
            reply_format=env.options.reply_format,
        )
        return self.pending

    def take(self, reply: Reply) -> None:
        env, request, text = self.env, self.pending, storable(reply.text)
        invalid = None
        if reply.error is not None:
            invalid = InvalidReply("error", storable(reply.error))
        elif reply.truncated:
            invalid = InvalidReply("overlong", "The reply was cut at its length limit.")
        env.submit(text, invalid)
        bad = env.outcome if isinstance(env.outcome, InvalidReply) else None
        turn = Turn(
            index=request.turn,
            seat=request.seat,
            policy=self.plan.policies[request.seat].name,
            messages=request.messages,
            legal=request.legal,
            reply=text,
            action=env.played,
            invalid=bad.reason if bad else None,
            detail=bad.detail if bad else None,
            prompt_ids=_plain(reply.prompt_ids),
            token_ids=_plain(reply.token_ids),
            logprobs=_plain(reply.logprobs),
            entropies=_plain(reply.entropies),
            truncated=reply.truncated,
        )
        self.turns.append(turn)
        self.last_turn[self.base.possible_agents[request.seat]] = turn
        if env.history == "transcript":
            self._remember(turn)
        for payee, parts in env.reward_parts.items():
            if payee in self.last_turn:
                rewards = self.last_turn[payee].rewards
                for name, reward in parts.items():
                    rewards[name] = rewards.get(name, 0.0) + reward

    def _remember(self, turn: Turn) -> None:
        """Keeps the tokens of a seat's conversation, unless some of them are unknown."""
        known = turn.index == 0 or turn.seat in self.context_ids
        if turn.token_ids is not None and turn.prompt_ids is not None and known:
            self.context_ids[turn.seat] = [*turn.prompt_ids, *turn.token_ids]
        else:
            self.context_ids.pop(turn.seat, None)

    def leave(self) -> Episode:
        """Frees the environment; the record of what happened in it."""
        base, plan = self.base, self.plan
        agent = base.possible_agents[0]
        self.room.free.append(self.env)
        return Episode(
            **self.room.header,
            seed=plan.seed,
            sample=plan.sample,
            actions=_action_record(base.game, base.actions),
            turns=self.turns,
            returns=list(base.returns),
            terminated=base.terminations[agent],
            truncated=base.truncations[agent],
            forfeited_by=base.forfeited_by,
        )


def _plain(values: Any) -> Any:
    """A list, as JSON can hold it, of a sequence or an array."""
    if values is None or type(values) is list:
        return values
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _action_record(game: AnyGame, actions: Sequence[Any]) -> list[Any]:
    """The actions as JSON can hold them, see `Episode.actions`."""
    if game.num_actions is not None:
        return list(actions)
    record: list[Any] = []
    state = game.initial_state()
    for action in actions:
        if game.current_player(state) == CHANCE:
            outcomes = [outcome for outcome, _ in game.chance_outcomes(state)]
            record.append(outcomes.index(action))
        else:
            record.append(game.action_text(state, action))
        state = game.apply(state, action)
    return record
