"""Episodes in progress, which `play` advances turn by turn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from arena_envs import GameEnv
from arena_envs.game import CHANCE, AnyGame
from arena_wrappers.branching import Branching, candidate_sample, chance_seed
from arena_wrappers.episodes import Episode, Turn, params_of, storable
from arena_wrappers.formats import InvalidReply
from arena_wrappers.policies import Policy, Reply, TurnRequest, own_prompt, turn_seed
from arena_wrappers.prompts import PromptOptions
from arena_wrappers.wrapper import PromptWrapper

EnvFn = Callable[[], GameEnv | PromptWrapper]


@dataclass(frozen=True)
class EpisodePlan:
    """An episode to be played.

    Attributes:
        env_fn: makes the environment; plans that share it share its set-up cost.
        policies: who plays each seat.
        seed: of the environment and of all random choices.
        sample: number of the episode among those with the same seed: same chance outcomes,
            other choices of the policies.
        options: for `reset`.
        branch: where more episodes branch from this one; None for nowhere.
        prompts: prompt options by seat, instead of the policies' own; None in a seat stands
            for the environment's.
        drawn: for a replay, the actions that were drawn for invalid replies, by index of the
            turn in the episode.
    """

    env_fn: EnvFn
    policies: Sequence[Policy]
    seed: int
    sample: int = 0
    options: Mapping[str, Any] | None = None
    branch: Branching | None = None
    prompts: Sequence[PromptOptions | None] | None = None
    drawn: Mapping[int, Any] = field(default_factory=dict)

    @property
    def own_prompts(self) -> tuple[PromptOptions | None, ...]:
        """The policies' own prompt options, or those of `prompts`, by seat."""
        if self.prompts is not None:
            return tuple(self.prompts)
        return tuple(map(own_prompt, self.policies))


class EnvCache:
    """Environments of one `env_fn` with the same prompts, and the header of their records."""

    def __init__(self, env_fn: EnvFn, own: Sequence[PromptOptions | None]) -> None:
        env = env_fn()
        env = env if isinstance(env, PromptWrapper) else PromptWrapper(env)
        self.first = env.seated(own)
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


class EnvCaches:
    """The caches of all plans of a run."""

    def __init__(self) -> None:
        self._caches: dict[Any, EnvCache] = {}

    def of(self, plan: EpisodePlan) -> EnvCache:
        key = id(plan.env_fn), plan.own_prompts
        if key not in self._caches:
            self._caches[key] = EnvCache(plan.env_fn, plan.own_prompts)
        return self._caches[key]


class Fork(NamedTuple):
    """The state of an episode at its branch, from which its candidates start."""

    env: PromptWrapper
    turns: list[Turn]
    context_ids: dict[int, list[int]]


class LiveEpisode:
    """An episode in progress.

    Args:
        key: index of the plan, then the number of the candidate at each branch: (3, 0, 2)
            is the third candidate of the first candidate of the fourth plan.
        plan: what is played.
        cache: gives the environment.
        fork: where the episode starts, if it branched from another one.
    """

    pending: TurnRequest

    def __init__(
        self,
        key: tuple[int, ...],
        plan: EpisodePlan,
        cache: EnvCache,
        fork: Fork | None = None,
    ) -> None:
        self.key, self.plan, self.cache = key, plan, cache
        self.branch = None if fork is None else len(fork.turns)
        self.fork: Fork | None = None  # where this episode branches
        self.turns: list[Turn] = []
        self.context_ids: dict[int, list[int]] = {}
        self.lost: str | None = None
        if fork is None:
            self.env = cache.enter()
            self.env.reset(seed=plan.seed, options=dict(plan.options or {}))
        else:
            self.env = fork.env.clone()
            self.turns = _copied(fork.turns)
            self.context_ids = fork.context_ids.copy()
        self.base = self.env.env
        agents = self.base.possible_agents
        self.last_turn = {agents[turn.seat]: turn for turn in self.turns}

    def candidates(self) -> "list[LiveEpisode]":
        """The episodes that branch from this one at its fork."""
        if self.fork is None or self.plan.branch is None or self.lost is not None:
            return []
        plan, at = self.plan, len(self.fork.turns)
        samples = [
            candidate_sample(plan.seed, plan.sample, at, number)
            for number in range(self.plan.branch.num_candidates)
        ]
        return [
            LiveEpisode(
                (*self.key, i), replace(plan, sample=sample), self.cache, self.fork
            )
            for i, sample in enumerate(samples)
        ]

    @property
    def is_over(self) -> bool:
        agent = self.base.agent_selection
        return (
            self.lost is not None
            or self.base.terminations[agent]
            or self.base.truncations[agent]
        )

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
        self._fork_at(seat, turn)
        self.pending = TurnRequest(
            episode=self.key[0],
            turn=turn,
            seat=seat,
            game=base.game,
            state=base.game_state,
            messages=env.observe(agent),
            context_ids=self.context_ids.get(seat, ()),
            legal=env.legal_texts(),
            seed=turn_seed(plan.seed, plan.sample, turn, seat),
            reply_format=env.options_of(seat).reply_format,
        )
        return self.pending

    def _fork_at(self, seat: int, turn: int) -> None:
        """Keeps the fork at the first turn after the episode's own branch that is chosen."""
        branch = self.plan.branch
        if branch is None or self.fork is not None or len(self.turns) == self.branch:
            return
        if branch.is_at(seat, turn):
            turns, ids = _copied(self.turns), self.context_ids.copy()
            self.fork = Fork(self.env.clone(self._fresh_seed()), turns, ids)

    def _fresh_seed(self) -> int | None:
        """Seed of the candidates' chance outcomes.

        None keeps the episode's own, except where the best is followed: its outcomes are
        part of the reason why it was the best.
        """
        plan, branch = self.plan, self.plan.branch
        if self.branch is None or branch is None or branch.follow != "best":
            return None
        return chance_seed(plan.seed, plan.sample, len(self.turns))

    def take(self, reply: Reply) -> None:
        if reply.error is not None:
            self._lose(reply, reply.error)
            return
        env, request, text = self.env, self.pending, storable(reply.text)
        drawn = self.plan.drawn.get(len(self.turns))
        env.submit(text, reply.invalid, seed=request.seed, drawn=drawn)
        bad = env.outcome if isinstance(env.outcome, InvalidReply) else None
        turn = Turn(
            **self._asked(),
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
        if env.options_of(request.seat).history == "transcript":
            self._remember(turn)
        for payee, parts in env.reward_parts.items():
            if payee in self.last_turn:
                rewards = self.last_turn[payee].rewards
                for name, reward in parts.items():
                    rewards[name] = rewards.get(name, 0.0) + reward

    def _asked(self) -> dict[str, Any]:
        """What a turn tells of its request."""
        request = self.pending
        return {
            "index": request.turn,
            "seat": request.seat,
            "policy": self.plan.policies[request.seat].name,
            "messages": request.messages,
            "legal": request.legal,
            "state": request.state,
        }

    def _lose(self, reply: Reply, error: str) -> None:
        """Ends the episode, which has no result; its last turn is the one without a reply."""
        asked, detail = self._asked(), storable(error)
        kind = "timeout" if reply.timed_out else "error"
        self.turns.append(
            Turn(**asked, reply="", action=None, invalid=kind, detail=detail)
        )
        self.lost = f"policy {asked['policy']!r} gave no reply: {detail}"

    def _remember(self, turn: Turn) -> None:
        """Keeps the tokens of a seat's conversation, unless some of them are unknown."""
        known = turn.index == 0 or turn.seat in self.context_ids
        if turn.token_ids is not None and turn.prompt_ids is not None and known:
            self.context_ids[turn.seat] = [*turn.prompt_ids, *turn.token_ids]
        else:
            self.context_ids.pop(turn.seat, None)

    def leave(self) -> Episode:
        """The episode's record; the environment becomes free for another episode."""
        base, plan = self.base, self.plan
        agent = base.possible_agents[0]
        if self.branch is None:
            self.cache.free.append(self.env)
        return Episode(
            **self.cache.header,
            seed=plan.seed,
            sample=plan.sample,
            actions=_action_record(base.game, base.actions),
            turns=self.turns,
            returns=[] if self.lost else list(base.returns),
            terminated=base.terminations[agent],
            truncated=base.truncations[agent],
            forfeited_by=base.forfeited_by,
            branch=self.branch,
            measures={} if self.lost else _measures(base.game, base.game_state),
            lost=self.lost,
            final_state=base.game_state,
        )


def _copied(turns: Sequence[Turn]) -> list[Turn]:
    """Copies of turns, so that later rewards are not added to the given ones."""
    return [replace(turn, rewards=turn.rewards.copy()) for turn in turns]


def _plain(values: Any) -> Any:
    """A list, as JSON can hold it, of a sequence or an array."""
    if values is None or type(values) is list:
        return values
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _measures(game: AnyGame, state: Any) -> dict[str, float]:
    """The game's measures of a state; none if the game defines none."""
    measure = getattr(game, "measures", None)
    return {} if measure is None else {k: float(v) for k, v in measure(state).items()}


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
