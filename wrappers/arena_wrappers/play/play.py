"""Plays episodes: in lockstep, or each at its own pace where a seat is an endpoint.

A plan says what is played, and an episode in progress advances turn by turn.

In lockstep, one call of a policy answers the waiting turns of all episodes. Otherwise a policy
with `act_async` is awaited, turn by turn. The others answer in the thread of the event loop, in
one call for all turns that wait for them at that moment. If such a policy is slow, the other
episodes' next turns come later. Replies of endpoints do not, because they arrive in another
thread, see `arena_wrappers.policies.api`.
"""

import asyncio
import json
import math
import random
import threading
from collections import deque
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple, TypeGuard, TypeVar, cast, get_args

from arena_envs import GameEnv
from arena_envs.checks import check_known, checked_seed
from arena_envs.game import CHANCE, AnyGame, IllegalAction, check_int
from arena_envs.registration import make
from arena_wrappers.play.wrapper import PromptWrapper
from arena_wrappers.policies import (
    AsyncPolicy,
    Policy,
    Reply,
    TurnRequest,
    as_policy,
    check_names_game,
    make_policy,
    own_prompt,
    turn_seed,
)
from arena_wrappers.prompts import InvalidReply, Message, PromptOptions
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
        check_known(self.follow, get_args(Follow), f"unknown follow {self.follow!r}")

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
            paid = []  # to the seat that branched from that turn on, all parts together
            for episode in candidates:
                turns = episode.turns[episode.branch or 0 :]
                own = (turn.reward for turn in turns if turn.seat == turns[0].seat)
                paid.append(sum(own))
            among = [number for number in among if paid[number] == max(paid)]
        branch = candidates[0].branch or 0
        drawn = turn_seed(parent.seed, parent.sample, branch, _CANDIDATE - 1)
        return [random.Random(drawn).choice(among)]


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
        branch: how further episodes branch off from this one; None if none do.
        prompts: prompt options by seat, instead of the policies' own; None in a seat stands
            for the environment's.
        probes: by seat, what its policy is asked after each turn, with the same messages: objects
            with a `name` and `question(game, state, seat)`, see `arena_eval.measures`.
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
    probes: Mapping[int, Sequence[Any]] = field(default_factory=dict)

    @property
    def own_prompts(self) -> tuple[PromptOptions | None, ...]:
        """The policies' own prompt options, or those of `prompts`, by seat."""
        if self.prompts is not None:
            return tuple(self.prompts)
        return tuple(map(own_prompt, self.policies))


class EnvCache:
    """Environments of one `env_fn` with the same prompts, and the header of their records."""

    def __init__(self, env_fn: EnvFn, own: Sequence[PromptOptions | None]) -> None:
        env, self.env_fn = env_fn(), env_fn  # whose id is the key
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
        for policy in plan.policies:
            if check := getattr(policy, "check_game", None):
                check(self._caches[key].first.env.game)
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
        found = []
        for i in range(self.plan.branch.num_candidates):
            # a hash of the parent's sample, the branch and the number of the candidate
            sample = turn_seed(plan.seed, plan.sample, at, _CANDIDATE + i)
            own = replace(plan, sample=sample)
            found.append(LiveEpisode((*self.key, i), own, self.cache, self.fork))
        return found

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
            date=env.options_of(seat).date,
        )
        return self.pending

    def _fork_at(self, seat: int, turn: int) -> None:
        """Keeps the fork at the first turn after the episode's own branch that is chosen.

        Candidates have the episode's own chance outcomes, except where the best is followed: its
        outcomes are part of the reason why it was the best.
        """
        plan, branch = self.plan, self.plan.branch
        if branch is None or self.fork is not None or len(self.turns) == self.branch:
            return
        if branch.is_at(seat, turn):
            turns, ids = _copied(self.turns), self.context_ids.copy()
            fresh = turn_seed(plan.seed, plan.sample, len(turns), _CANDIDATE - 2)
            keeps = self.branch is None or branch.follow != "best"
            self.fork = Fork(self.env.clone(None if keeps else fresh), turns, ids)

    def take(self, reply: Reply) -> None:
        if reply.error is not None:
            self._lose(reply, reply.error)
            return
        env, request, policy = self.env, self.pending, self.policy.name
        drawn = self.plan.drawn.get(len(self.turns))
        text = storable(reply.text)
        env.submit(text, reply.invalid, seed=request.seed, drawn=drawn)
        turn = turn_of(request, policy, reply, env.played, env.outcome)
        self.turns.append(turn)
        self.last_turn[self.base.possible_agents[request.seat]] = turn
        if env.options_of(request.seat).history == "transcript":
            self._remember(turn)
        for payee, parts in env.reward_parts.items():
            if payee in self.last_turn:
                rewards = self.last_turn[payee].rewards
                for name, reward in parts.items():
                    rewards[name] = rewards.get(name, 0.0) + reward

    def questions(self) -> list[tuple[str, str, TurnRequest]]:
        """What is asked beside the last turn: name of the probe, question, request."""
        request, found = self.pending, []
        asked = () if self.lost else self.plan.probes.get(request.seat, ())
        for number, probe in enumerate(asked):
            told = probe.question(request.game, request.state, request.seat)
            if told is None:
                continue
            *before, last = request.messages
            text, answers = told
            content = f"{last['content']}\n\n{text}"
            question = replace(
                request,
                messages=[*before, Message(role=last["role"], content=content)],
                legal=answers,
                seed=turn_seed(request.seed, 0, number, _CANDIDATE - 3),
                turns=self.turns[:-1],
            )
            found.append((probe.name, text, question))
        return found

    def note(self, name: str, question: str, reply: Reply) -> None:
        """Records the reply to a question beside the last turn."""
        said = {"question": question, "reply": storable(reply.text)}
        error = {} if reply.error is None else {"error": storable(reply.error)}
        turn = self.turns[-1]
        turn.probes = {**(turn.probes or {}), name: said | error}

    def _lose(self, reply: Reply, error: str) -> None:
        """Ends the episode, which has no result; its last turn is the one without a reply."""
        detail, policy = storable(error), self.policy.name
        turn = turn_of(self.pending, policy, Reply(""), None)
        turn.invalid, turn.detail = "timeout" if reply.timed_out else "error", detail
        self.turns.append(turn)
        self.lost = f"policy {policy!r} gave no reply: {detail}"

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


def turn_of(
    request: TurnRequest, policy: str, reply: Reply, action: Any, outcome: Any = None
) -> Turn:
    """The turn of a reply; `outcome` may be the reason why the reply is invalid."""
    bad = outcome if isinstance(outcome, InvalidReply) else None
    return Turn(
        *(request.turn, request.seat, policy, request.messages, request.legal),
        reply=storable(reply.text),
        action=action,
        invalid=bad.reason if bad else None,
        detail=bad.detail if bad else None,
        prompt_ids=listed(reply.prompt_ids),
        token_ids=listed(reply.token_ids),
        logprobs=listed(reply.logprobs),
        entropies=listed(reply.entropies),
        truncated=reply.truncated,
        generations=tuple(reply.generations),
        state=request.state,
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


def unreadable_action(game: AnyGame, actions: Sequence[Any]) -> str | None:
    """What is wrong with a record of these actions: its game reads one of them otherwise.

    None where the record can be read, as always in games whose actions are listed.
    """
    state = game.initial_state()
    for number, action in enumerate(actions if game.num_actions is None else ()):
        if game.current_player(state) != CHANCE:
            text = game.action_text(state, action)
            try:
                again = game.parse(state, json.loads(json.dumps(text)))
            except IllegalAction:
                again = None
            if again != action:
                return (
                    f"the record cannot be read: action {number}, {text[:MAX_ERROR]!r}, is read "
                    f"as {again!r:.80}; arena check finds out why"
                )
        state = game.apply(state, action)
    return None


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
        TypeError: `env_fn` is neither a function nor an id, a policy is none, or
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
        raise ValueError(
            f"want {num_players} policies, one per seat, got {len(seats)}; give one without a "
            "list for all seats"
        )
    return [
        EpisodePlan(make_env, seats, checked_seed(seed), sample, branch=branch)
        for seed in seeds
        for sample in samples
    ]


def _env_fn(given: Any) -> EnvFn:
    if isinstance(given, str):
        check_names_game(given)
        return partial(make, given)
    if not callable(given):
        raise TypeError(
            "want the id of a game or a function that makes an environment, got "
            f"{type(given).__name__}; write lambda: arena_envs.make('kuhn_poker')"
        )
    return cast(EnvFn, given)


def _made(policies: Sequence[Any]) -> list[Policy]:
    """The policies; equal strings give one policy, which is asked in one call."""
    names = dict.fromkeys(who for who in policies if isinstance(who, str))
    named = {name: make_policy(name) for name in names}
    return [named[who] if isinstance(who, str) else as_policy(who) for who in policies]


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
                    f"want no timeout for {policy.name!r}, a person, got {timeout}; "
                    "leave it out"
                )
            return 1
    return limit


def checked_samples(num_samples: int) -> range:
    """The numbers of a seed's episodes; raises ValueError unless there is at least one."""
    if num_samples < 1:
        raise ValueError(f"want num_samples of at least 1, got {num_samples}")
    return range(num_samples)


OnError = Literal["lose", "raise"] | None


class NoReplyError(RuntimeError):
    """A policy gave no reply, such as a model behind an endpoint that cannot be reached."""


def checked_on_error(on_error: OnError) -> OnError:
    """The argument; raises ValueError unless it is `"lose"`, `"raise"` or None."""
    if on_error not in ("lose", "raise", None):
        raise ValueError(
            f"want on_error 'lose' or 'raise', or None, got {on_error!r:.80}; correct it"
        )
    return on_error


def checked_timeout(timeout: float | None) -> float | None:
    """The timeout; raises ValueError unless it is above 0 or None."""
    if timeout is not None and not 0 < timeout <= threading.TIMEOUT_MAX:
        raise ValueError(f"want a timeout above 0 seconds, got {timeout}")
    return timeout


def ask(
    policy: Policy,
    requests: Sequence[TurnRequest],
    timeout: float | None,
    on_error: OnError,
) -> Sequence[Reply]:
    """The replies of a policy, one for each request.

    When a call times out, or fails with `on_error="lose"`, its requests are asked again one by
    one, so that one bad request does not lose the other episodes. A policy that always stalls
    therefore costs `timeout` seconds per request. A call that timed out goes on in its thread:
    with a timeout, `act` may run in several threads at once.

    Args:
        policy: who replies.
        requests: what is asked.
        timeout: seconds that one call may take; None for no limit.
        on_error: what a failure does: `"lose"` gives a `Reply` with `error` to each
            request that also fails alone; `"raise"` raises the exception again, and
            `NoReplyError` for a `Reply` with `error`; None raises exceptions other than
            `TimeoutError`.
    """
    try:
        replies = _checked(policy, requests, _act(policy, requests, timeout))
        return _wanted(policy, replies, on_error)
    except Exception as error:  # a policy may be anybody's code
        if on_error == "raise":
            raise
        if on_error is None and not isinstance(error, TimeoutError):
            error.add_note(
                f"raised by the policy {policy.name!r} in this process; play(..., "
                "on_error='lose') would lose its episodes and play the others"
            )
            raise
        if len(requests) > 1:
            return [ask(policy, [r], timeout, on_error)[0] for r in requests]
        return [_failed(error)]


async def ask_async(
    policy: AsyncPolicy, request: TurnRequest, timeout: float | None, on_error: OnError
) -> Reply:
    """The reply of an asynchronous policy; the arguments are those of `ask`."""
    try:
        reply = await policy.act_async(request, timeout)
        _checked(policy, [request], [reply])
    except Exception as error:  # a network away
        if on_error == "raise":
            raise
        return _failed(error)
    return _wanted(policy, [reply], on_error)[0]


MAX_ERROR = 500  # characters


def _failed(error: Exception) -> Reply:
    told = f"{type(error).__name__}: {error}"[:MAX_ERROR]
    return Reply("", error=told, timed_out=isinstance(error, TimeoutError))


def _wanted(
    policy: Policy, replies: Sequence[Reply], on_error: OnError
) -> Sequence[Reply]:
    """The replies; raises what made a reply fail, or NoReplyError, if `on_error` wants it."""
    for reply in replies:
        if on_error != "lose" and reply.cause is not None:
            raise reply.cause
        if on_error == "raise" and reply.error is not None:
            raise NoReplyError(f"policy {policy.name!r} gave no reply: {reply.error}")
    return replies


def _checked(
    policy: Policy, requests: Sequence[TurnRequest], replies: Sequence[Reply]
) -> Sequence[Reply]:
    if isinstance(replies, str | Reply) or not isinstance(replies, Sequence):
        raise TypeError(
            f"policy {policy.name!r} returned {replies!r:.80}; want a list with one Reply for "
            "each request: return [Reply(...) for request in requests]"
        )
    if len(replies) != len(requests):
        raise ValueError(
            f"policy {policy.name!r} gave {len(replies)} replies to {len(requests)} requests; "
            "want one for each"
        )
    for reply in replies:
        if not isinstance(reply, Reply) or not isinstance(reply.text, str):
            raise TypeError(
                f"policy {policy.name!r} gave {reply!r:.80}, want a Reply; write "
                "Reply(request.wrap(request.legal[0])) for the first legal action"
            )
        if not isinstance(reply.error, str | None):
            raise TypeError(f"policy {policy.name!r}: want a text as error")
        for ids in (reply.prompt_ids, reply.token_ids):
            kinds = {*map(type, () if ids is None else ids)}
            if not all(hasattr(kind, "__index__") for kind in kinds):
                raise TypeError(f"policy {policy.name!r}: want integers as token ids")
        for what, values in (
            ("logprob", reply.logprobs),
            ("entropy", reply.entropies),
        ):
            if values is None:
                continue
            if reply.token_ids is None or len(values) != len(reply.token_ids):
                raise ValueError(f"policy {policy.name!r}: want one {what} per token")
            if not math.isfinite(sum(values)):
                raise ValueError(
                    f"policy {policy.name!r}: want finite numbers, one {what} per token"
                )
    return replies


def _act(
    policy: Policy, requests: Sequence[TurnRequest], timeout: float | None
) -> Sequence[Reply]:
    if timeout is None:
        return policy.act(requests)
    done: Future[Sequence[Reply]] = Future()

    def work() -> None:
        try:
            done.set_result(policy.act(requests))
        except Exception as error:  # raised again below
            done.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    if not wait([done], timeout).done:
        raise TimeoutError(f"no reply within {timeout} s")
    return done.result()


def forfeit_reason(episode: Episode) -> str | None:
    """The reason of a forfeit: that of the seat's last turn; None without a forfeit."""
    if episode.forfeited_by is None:
        return None
    turn = next(t for t in episode.turns[::-1] if t.seat == episode.forfeited_by)
    return f"{turn.invalid}: {turn.detail}"


MAX_IN_FLIGHT = 64

Key = tuple[int, ...]
T = TypeVar("T")


async def play_async(
    env_fn: EnvFn | str,
    seats: Policy | str | Sequence[Policy | str],
    seed: int,
    sample: int = 0,
    *,
    timeout: float | None = None,
    on_error: OnError = None,
) -> Episode:
    """Plays one episode; the record is that of `play` if replies depend on requests alone.

    `Episode.turns` has, for each turn of a seat, its messages, its reply, the token ids where
    the policy tells them, and the rewards until the seat's next turn. `Episode.returns` has
    the return of each seat. Cancelling the call cancels the request that it waits for.

    Args:
        env_fn: as for `play`.
        seats: as `policies` of `play`. A string makes a new policy in each call, so pass a
            policy if you play many episodes.
        seed: seed of the environment and of all random choices.
        sample: number of the episode among those with the same seed.
        timeout: seconds that one reply may take; after a timeout the episode is lost.
        on_error: as for `play`.

    Raises:
        ValueError, TypeError: as for `play`.

    >>> asyncio.run(play_async("kuhn_poker", "random", seed=3)).returns
    [1.0, -1.0]
    """
    (plan,) = plans_of(env_fn, seats, [seed], [sample])
    return await _Run(timeout, on_error).play(0, plan)


async def play_many(
    env_fn: EnvFn | str,
    seats: Policy | str | Sequence[Policy | str],
    seeds: Sequence[int],
    *,
    num_samples: int = 1,
    max_in_flight: int = MAX_IN_FLIGHT,
    timeout: float | None = None,
    on_error: OnError = None,
) -> AsyncGenerator[Episode]:
    """Plays one episode for each seed, up to `max_in_flight` at a time.

    A new episode starts when one is taken from this iterator. So a slow consumer holds up
    play: at most `max_in_flight` episodes are in progress or wait to be taken. When the
    iterator is closed (`contextlib.aclosing`) or its task is cancelled, all episodes in
    progress are cancelled.

    Args:
        env_fn: as for `play`.
        seats: as `policies` of `play`.
        seeds: seeds of the episodes.
        num_samples: episodes per seed.
        max_in_flight: largest number of episodes in progress. A policy may allow fewer
            requests at a time, such as `ChatAPIPolicy(max_concurrent=...)`.
        timeout: seconds that one reply may take, once its policy has a free place for it;
            after a timeout the episode is lost.
        on_error: as for `play`.

    Yields:
        Each episode when it ends, in any order. `Episode.seed` and `Episode.sample` say
        which one it is.

    Raises:
        ValueError, TypeError: as for `play`.
    """
    plans = plans_of(env_fn, seats, seeds, checked_samples(num_samples))
    if type(max_in_flight) is not int or max_in_flight < 1:
        raise ValueError(f"want max_in_flight of at least 1, got {max_in_flight}")
    most = in_progress(plans, max_in_flight, timeout) or max_in_flight
    episodes = stream_async(plans, most, _Run(timeout, on_error))
    async with aclosing(episodes):
        async for _, episode in episodes:
            yield episode


class _Run:
    """Plays episodes: in lockstep, or in the running event loop.

    Raises:
        ValueError: as for `play`.
    """

    def __init__(
        self,
        timeout: float | None,
        on_error: OnError,
        caches: EnvCaches | None = None,
    ) -> None:
        self.timeout = checked_timeout(timeout)
        self.on_error = checked_on_error(on_error)
        self.caches = caches or EnvCaches()
        self.waiting: dict[int, list[tuple[TurnRequest, asyncio.Future[Reply]]]] = {}
        self.unreachable: dict[int, Reply] = {}

    def in_lockstep(
        self, plans: Sequence[EpisodePlan], batch_size: int | None
    ) -> Iterator[tuple[Key, Episode]]:
        """Each episode with the key of its `LiveEpisode`, as soon as it is over."""
        batch_size = in_progress(plans, _checked_size(batch_size), self.timeout)
        done: dict[Key, tuple[LiveEpisode, Episode]] = {}
        plans_left = deque(enumerate(plans))
        candidates: list[LiveEpisode] = []
        live: list[LiveEpisode] = []
        while live or candidates or plans_left:
            while batch_size is None or len(live) < batch_size:
                if candidates:  # first, so that few trees are open at a time
                    live.append(candidates.pop())
                elif plans_left:
                    index, plan = plans_left.popleft()
                    live.append(LiveEpisode((index,), plan, self.caches.of(plan)))
                else:
                    break
            # some games can end before anybody moves
            self.take_turns([one for one in live if not one.is_over])
            waiting, live = live, []
            for one in waiting:
                if not one.is_over:
                    live.append(one)
                    continue
                episode = self.record(one)
                yield one.key, episode
                if one.plan.branch is not None:
                    done[one.key] = one, episode
                    candidates += _followers(one, done)

    def take_turns(self, live: Sequence[LiveEpisode]) -> None:
        """One reply in each episode; those of one policy come from one call."""
        groups: dict[int, list[LiveEpisode]] = {}
        for one in live:
            groups.setdefault(id(one.policy), []).append(one)
        for group in groups.values():
            policy = group[0].policy
            replies = self.ask(policy, [one.request() for one in group])
            for one, reply in zip(group, replies, strict=True):
                one.take(reply)
            beside = [(one, *question) for one in group for question in one.questions()]
            if beside:
                said = self.ask(policy, [asked for *_, asked in beside])
                for (one, name, text, _), reply in zip(beside, said, strict=True):
                    one.note(name, text, reply)

    def ask(self, policy: Policy, requests: Sequence[TurnRequest]) -> Sequence[Reply]:
        return ask(policy, requests, self.timeout, self.on_error)

    async def play(self, index: int, plan: EpisodePlan) -> Episode:
        one = LiveEpisode((index,), plan, self.caches.of(plan))
        while not one.is_over:
            policy = one.policy
            one.take(await self.reply(policy, one.request()))
            for name, text, question in one.questions():
                one.note(name, text, await self.reply(policy, question))
        return self.record(one)

    def record(self, one: LiveEpisode) -> Episode:
        """The record of an episode that is over; lost if the game cannot read it again."""
        fault = None
        if self.on_error != "raise":
            fault = unreadable_action(one.base.game, one.base.actions)
        episode = one.leave()
        if fault is None or episode.lost is not None:
            return episode
        return replace(episode, lost=fault, returns=[], measures={})

    async def reply(self, policy: Policy, request: TurnRequest) -> Reply:
        if is_async(policy):
            return await self.ask_endpoint(policy, request)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Reply] = loop.create_future()
        if id(policy) not in self.waiting:
            self.waiting[id(policy)] = []
            loop.call_soon(self.answer, policy)
        self.waiting[id(policy)].append((request, future))
        return await future

    async def ask_endpoint(self, policy: AsyncPolicy, request: TurnRequest) -> Reply:
        """An endpoint that cannot be reached is asked no more: its retries take seconds."""
        if id(policy) in self.unreachable:
            return self.unreachable[id(policy)]
        reply = await ask_async(policy, request, self.timeout, self.on_error)
        if reply.error is not None and getattr(policy, "is_unreachable", False):
            self.unreachable[id(policy)] = reply
        return reply

    def answer(self, policy: Policy) -> None:
        """One call for all turns that wait for this policy."""
        asked = [pair for pair in self.waiting.pop(id(policy)) if not pair[1].done()]
        requests = [request for request, _ in asked]
        if not requests:  # their episodes were cancelled
            return
        try:
            replies = self.ask(policy, requests)
        except Exception as error:  # raised again in each of the episodes
            if isinstance(error, StopIteration):  # which no future takes
                error = RuntimeError(f"policy {policy.name!r} raised StopIteration")
            for _, future in asked:
                future.set_exception(error)
            return
        for (_, future), reply in zip(asked, replies, strict=True):
            future.set_result(reply)


def is_async(policy: Policy) -> TypeGuard[AsyncPolicy]:
    """Whether the policy answers each request on its own."""
    return hasattr(policy, "act_async")


async def stream_async(
    plans: Sequence[EpisodePlan], max_in_flight: int, run: _Run
) -> AsyncGenerator[tuple[int, Episode]]:
    """The index and the episode of each plan, as soon as it is over; see `play_many`."""
    plans_left = iter(enumerate(plans))
    tasks: set[asyncio.Task[Episode]] = set()
    over: asyncio.Queue[tuple[int, asyncio.Task[Episode]]] = asyncio.Queue()

    def start() -> None:
        index, plan = next(plans_left, (0, None))
        if plan is not None:
            task = asyncio.create_task(run.play(index, plan))
            tasks.add(task)
            task.add_done_callback(lambda task: over.put_nowait((index, task)))

    try:
        for _ in range(min(max_in_flight, len(plans))):
            start()
        for _ in plans:
            index, task = await over.get()
            tasks.remove(task)
            episode = task.result()
            start()
            yield index, episode
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def stream_in_own_loop(
    plans: Sequence[EpisodePlan], max_in_flight: int, run: _Run
) -> Iterator[tuple[int, Episode]]:
    """As `stream_async`, without `await`, and whether or not a loop runs in this thread."""
    with _runner() as result:
        episodes = stream_async(plans, max_in_flight, run)

        async def following() -> tuple[int, Episode] | None:
            return await anext(episodes, None)

        try:
            while (found := result(following())) is not None:
                yield found
        finally:
            result(episodes.aclose())


@contextmanager
def _runner() -> Iterator[Callable[[Coroutine[Any, Any, T]], T]]:
    """A function that runs coroutines in a loop of its own; Ctrl-C cancels them.

    It uses this thread, unless a loop already runs there, as in a notebook.
    """
    runner = asyncio.Runner()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with runner:
            yield partial(_result, runner)
        return

    def result(coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            return pool.submit(_result, runner, coroutine).result()
        except KeyboardInterrupt:
            loop = runner.get_loop()
            for task in asyncio.all_tasks(loop):
                loop.call_soon_threadsafe(task.cancel)
            raise

    with ThreadPoolExecutor(1) as pool:
        try:
            yield result
        finally:
            pool.submit(runner.close).result()


def _result(runner: asyncio.Runner, coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine.

    `Runner.run` would delay the first Ctrl-C until a policy in this process has replied.
    """
    loop = runner.get_loop()
    task = loop.create_task(coroutine)
    try:
        return loop.run_until_complete(task)
    except KeyboardInterrupt:
        task.cancel()
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        raise


def play(
    env_fn: EnvFn | str,
    policies: Policy | str | Sequence[Policy | str],
    seeds: Sequence[int],
    *,
    num_samples: int = 1,
    batch_size: int | None = None,
    timeout: float | None = None,
    on_error: OnError = None,
    branch: Branching | None = None,
) -> list[Episode]:
    """Plays one episode for each seed; all waiting turns of a policy go to one `act`.

    The same seeds and policies give the same episodes whatever the batch size. With a policy
    behind an endpoint (`AsyncPolicy`) and without `branch`, episodes do not wait for each
    other, see `arena_wrappers.play_async`; the records are the same.

    Args:
        env_fn: a function that makes the environment, or the id of a game. A `GameEnv`
            gets the default prompts. A policy's own prompt options (`Policy`) hold in its
            seat, unless the `PromptWrapper` names options for that seat.
        policies: one policy for all seats, or one for each: strings for `make_policy`, or
            objects for `as_policy`, such as a function of the request that returns the reply.
        seeds: seeds of the episodes.
        num_samples: episodes per seed: same chance outcomes, other choices of the policies.
        batch_size: most episodes in progress at a time; None for all. Where a person
            plays, one is.
        timeout: seconds that one `act` may take. After a timeout its requests are asked
            again one by one; a request that times out alone loses the episode. A call
            that timed out goes on in its thread, so several calls of `act` may run at once.
            An endpoint's request is asked once, and cancelled after a timeout.
        on_error: what happens without a reply. `"lose"`: the episode ends, is lost
            (`Episode.lost`) and has no returns. `"raise"`: exceptions of policies are raised
            again, and `NoReplyError` for a reply with an `error`. None: an exception in a
            policy of this process is raised again; a timeout, a server that fails, or an
            exception in `act_async` loses the episode.
        branch: where more episodes branch from each episode, see `Branching`.

    Returns:
        The episodes in the order of the seeds, all samples of a seed together. An episode
        that branched follows its parent, see `Episode.parent`.

    Raises:
        ValueError: the number of policies, a seed or a count is out of range; the game, a
            policy or `on_error` is unknown.
        TypeError: `env_fn` is neither a function nor an id, or a policy is none.

    >>> from arena_wrappers import play
    >>> episodes = play("kuhn_poker", ["random", "cfr"], range(3))
    >>> [sum(episode.returns) for episode in episodes]
    [0.0, 0.0, 0.0]
    >>> def first_action(request):
    ...     return request.wrap(request.legal[0])
    >>> play("kuhn_poker", [first_action, "cfr"], [0])[0].turns[0].policy
    'first_action'
    """
    samples = checked_samples(num_samples)
    plans = plans_of(env_fn, policies, seeds, samples, branch)
    limits: Any = {"batch_size": batch_size, "timeout": timeout, "on_error": on_error}
    if branch is not None:
        return play_plans(plans, **limits)
    episodes = dict(stream_plans(plans, **limits))
    return [episodes[index] for index in range(len(plans))]


def play_plans(
    plans: Sequence[EpisodePlan],
    *,
    batch_size: int | None = None,
    timeout: float | None = None,
    on_error: OnError = None,
    caches: EnvCaches | None = None,
) -> list[Episode]:
    """The episodes of the plans in their order, always played in lockstep.

    The arguments are those of `play`; `caches` keep environments from call to call. An episode
    that branched follows its parent, and `Episode.parent` is the parent's index.
    """
    run = _Run(timeout, on_error, caches)
    return _numbered(dict(run.in_lockstep(plans, batch_size)))


def stream_plans(
    plans: Sequence[EpisodePlan],
    *,
    batch_size: int | None = None,
    timeout: float | None = None,
    on_error: OnError = None,
) -> Iterator[tuple[int, Episode]]:
    """Plays the planned episodes, several games at once if need be.

    The arguments are those of `play`. Plans with an `AsyncPolicy` are played by
    `arena_wrappers.play_async`, the others in lockstep.

    Yields:
        The index of a plan and its episode, as soon as it is over.

    Raises:
        ValueError: `batch_size` is below 1, or a plan branches. `Episode.parent` is an index
            into all episodes, which is known only when all are over.
    """
    if any(plan.branch is not None for plan in plans):
        raise ValueError("stream_plans does not take plans that branch: use play_plans")
    run = _Run(timeout, on_error)
    if any(is_async(policy) for plan in plans for policy in plan.policies):
        in_flight = in_progress(plans, _checked_size(batch_size), timeout)
        most = in_flight or len(plans)
        yield from stream_in_own_loop(plans, most, run)
        return
    for key, episode in run.in_lockstep(plans, batch_size):
        yield key[0], episode


def _checked_size(batch_size: int | None) -> int | None:
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"want batch_size of at least 1, got {batch_size}")
    return batch_size


def _followers(
    over: LiveEpisode, done: dict[Key, tuple[LiveEpisode, Episode]]
) -> list[LiveEpisode]:
    """The episodes that branch next, now that this episode is over.

    Candidates are compared when all of them are over.
    """
    branch, parent = over.plan.branch, over.key[:-1]
    if branch is None:
        return []
    if not parent:
        return over.candidates()
    family = [(*parent, number) for number in range(branch.num_candidates)]
    if any(key not in done for key in family):
        return []
    episodes = [done[key][1] for key in family]
    if any(episode.lost is not None for episode in episodes):
        return []
    chosen = branch.followed(episodes, done[parent][1])
    return [new for number in chosen for new in done[family[number]][0].candidates()]


def _numbered(episodes: dict[Key, Episode]) -> list[Episode]:
    """The episodes in the order of their keys, each with the index of its parent."""
    keys = sorted(episodes)
    place = {key: number for number, key in enumerate(keys)}
    return [
        replace(episodes[key], parent=place[key[:-1]])
        if len(key) > 1
        else episodes[key]
        for key in keys
    ]
