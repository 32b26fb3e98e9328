"""Plans, branches, and episodes in progress, which `play` advances turn by turn."""

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple, cast, get_args

from arena_envs import GameEnv
from arena_envs.checks import checked_seed, did_you_mean
from arena_envs.game import CHANCE, AnyGame, check_int
from arena_envs.registration import make
from arena_wrappers.play.wrapper import PromptWrapper
from arena_wrappers.policies import (
    Policy,
    Reply,
    TurnRequest,
    make_policy,
    own_prompt,
    turn_seed,
)
from arena_wrappers.prompts import InvalidReply, PromptOptions
from arena_wrappers.records import Episode, Turn, listed, params_of, storable

Follow = Literal["best", "random", "all"]

_CANDIDATE = 2**32  # stands where the seat does in a turn's seed, above every seat


@dataclass(frozen=True)
class Branching:
    """A turn tree: the turns at which episodes branch, and the candidates that go on.

    An episode is played to its end. At the first turn that is chosen here, `num_candidates`
    more episodes start from the same state, each with its own reply, and are played to
    their ends. The return of a candidate is what its seat is paid from that turn on.
    Candidates that are followed branch again at their next chosen turn. With T chosen turns
    and K candidates there are

        1 + TK episodes if one candidate is followed,
        1 + K + K² + ... + Kᵀ episodes if all are.

    With `"best"`, a candidate is followed because of its return. So only the replies at
    which candidates branch are unbiased samples. Their later turns are selected by their
    return (`is_unselected` is false), and credit that compares them can have the wrong sign.
    The states that branch are selected, too: in games of hidden information, followed
    episodes are those where the hidden state was favourable, and no choice of turns removes
    this bias. With `"random"` and `"all"` every turn is unselected.

    Candidates have the chance outcomes of their parent, as long as they draw in the same
    order. From the branch on, all policies choose anew. Where the best is followed, its
    candidates share new chance outcomes, because its own are part of why it was the best.

    Args:
        num_candidates: episodes that start where one branches, K.
        turns: which turns of a seat, counted from 0; None for every turn.
        seats: whose turns; None for every seat's.
        follow: which candidates branch again. `"best"`: the one whose seat was paid most
            from the branch on, ties drawn; `"random"`: one of them; `"all"`.

    Raises:
        ValueError: a number is out of range, or `follow` is unknown.
    """

    num_candidates: int
    turns: Collection[int] | None = None
    seats: Collection[int] | None = None
    follow: Follow = "best"

    def __post_init__(self) -> None:
        check_int("num_candidates", self.num_candidates, 2, 10_000)
        for name in ("turns", "seats"):
            numbers = getattr(self, name)
            if numbers is None:
                continue
            if not isinstance(numbers, Collection) or isinstance(numbers, str):
                raise ValueError(f"want {name} as a list of integers, got {numbers!r}")
            for number in numbers:
                check_int(f"number in {name}", number, 0, 10_000)
            object.__setattr__(self, name, frozenset(numbers))
        if self.follow not in get_args(Follow):
            hint = did_you_mean(str(self.follow), get_args(Follow))
            raise ValueError(f"unknown follow {self.follow!r}; {hint}")

    def is_at(self, seat: int, turn: int) -> bool:
        """Whether episodes branch at this turn of this seat."""
        return (self.turns is None or turn in self.turns) and (
            self.seats is None or seat in self.seats
        )

    def is_unselected(self, episode: Episode, place: int) -> bool:
        """Whether the turn `turns[place]` was kept whatever its return."""
        return (
            self.follow != "best" or episode.branch is None or place <= episode.branch
        )

    def followed(self, candidates: Sequence[Episode], parent: Episode) -> list[int]:
        """The numbers of the candidates from `parent` that branch again."""
        if self.follow == "all":
            return list(range(len(candidates)))
        among = list(range(len(candidates)))
        if self.follow == "best":
            paid = [paid_from_branch(episode) for episode in candidates]
            among = [number for number in among if paid[number] == max(paid)]
        branch = candidates[0].branch or 0
        drawn = turn_seed(parent.seed, parent.sample, branch, _CANDIDATE - 1)
        return [random.Random(drawn).choice(among)]


def paid_from_branch(episode: Episode) -> float:
    """The payments to the seat that branched from that turn on, all parts together."""
    turns = episode.turns[episode.branch or 0 :]
    return sum(turn.reward for turn in turns if turn.seat == turns[0].seat)


def chance_seed(seed: int, sample: int, branch: int) -> int:
    """Seed of the chance outcomes of all candidates of an episode that was followed."""
    return turn_seed(seed, sample, branch, _CANDIDATE - 2)


def candidate_sample(seed: int, sample: int, branch: int, candidate: int) -> int:
    """The `sample` of a candidate: a hash of its parent's, the branch and its number."""
    return turn_seed(seed, sample, branch, _CANDIDATE + candidate)


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
            turns=self.turns,
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
            prompt_ids=listed(reply.prompt_ids),
            token_ids=listed(reply.token_ids),
            logprobs=listed(reply.logprobs),
            entropies=listed(reply.entropies),
            truncated=reply.truncated,
            generations=tuple(reply.generations),
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
        """The fields of a turn that its request determines."""
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
        if self.branch is None:
            self.cache.free.append(self.env)
        return self.record()

    def record(self) -> Episode:
        """The episode so far."""
        base, plan = self.base, self.plan
        agent = base.possible_agents[0]
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
            measures={} if self.lost else measures_of(base.game, base.game_state),
            lost=self.lost,
            final_state=base.game_state,
        )


def _copied(turns: Sequence[Turn]) -> list[Turn]:
    """Copies of turns, so that later rewards are not added to the given ones."""
    return [replace(turn, rewards=turn.rewards.copy()) for turn in turns]


def measures_of(game: AnyGame, state: Any) -> dict[str, float]:
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


def plans_of(
    env_fn: EnvFn | str,
    policies: Policy | str | Sequence[Policy | str],
    seeds: Iterable[int],
    samples: Sequence[int],
    branch: Branching | None = None,
) -> list[EpisodePlan]:
    """A plan for each seed and sample, all samples of a seed together; see `play`.

    Raises:
        ValueError: the number of policies, a seed or a count is out of range; the game or a
            policy is unknown.
        TypeError: `env_fn` is neither a function nor an id, a policy has no `act`, or
            `seeds` is a number.
    """
    if not isinstance(seeds, Iterable):
        raise TypeError(
            f"want seeds as a sequence, got {seeds!r:.80}; write range({seeds!r:.20})"
        )
    make_env = _env_fn(env_fn)
    num_players = len(make_env().possible_agents)
    if isinstance(policies, str) or not isinstance(policies, Sequence):
        policies = [policies] * num_players
    seats = _made(policies)
    if len(seats) != num_players:
        raise ValueError(f"want {num_players} policies, one per seat, got {len(seats)}")
    return [
        EpisodePlan(make_env, seats, checked_seed(seed), sample, branch=branch)
        for seed in seeds
        for sample in samples
    ]


def _env_fn(given: Any) -> EnvFn:
    if isinstance(given, str):
        return partial(make, given)
    if not callable(given):
        raise TypeError(
            f"want the id of a game or a function that makes an environment, got "
            f"{type(given).__name__}; write lambda: arena_envs.make('kuhn_poker')"
        )
    return cast(EnvFn, given)


def _made(policies: Sequence[Any]) -> list[Policy]:
    """The policies; equal strings give one policy, which is asked in one call."""
    names = dict.fromkeys(who for who in policies if isinstance(who, str))
    named = {name: make_policy(name) for name in names}
    made = [named[who] if isinstance(who, str) else who for who in policies]
    for who in made:
        if not hasattr(who, "act"):
            raise TypeError(
                f"want a policy or a string such as 'random', got {type(who).__name__} "
                "without a method act"
            )
    return made


def in_progress(
    plans: Sequence[EpisodePlan], limit: int | None, timeout: float | None
) -> int | None:
    """The largest number of episodes in progress: `limit`, but 1 where a person plays.

    Raises:
        ValueError: a person would have a time limit.
    """
    for plan in plans:
        for policy in plan.policies:
            if not getattr(policy, "is_person", False):
                continue
            if timeout is not None:
                raise ValueError(
                    f"want no timeout for {policy.name!r}, a person, got {timeout}; leave "
                    "it out"
                )
            return 1
    return limit


def checked_samples(num_samples: int) -> range:
    """The numbers of a seed's episodes; raises ValueError unless there is at least one."""
    if num_samples < 1:
        raise ValueError(f"want num_samples of at least 1, got {num_samples}")
    return range(num_samples)
