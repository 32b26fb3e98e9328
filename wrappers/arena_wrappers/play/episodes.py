"""An episode in progress: its environment, its turns, its fork, and its record."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from arena_envs.game import (
    CHANCE,
    AnyAction,
    AnyGame,
    AnyState,
    IllegalAction,
)
from arena_wrappers.play.asking import MAX_ERROR
from arena_wrappers.play.branching import CANDIDATE, Branching
from arena_wrappers.play.plans import EnvFn, EpisodePlan
from arena_wrappers.play.wrapper import PromptWrapper
from arena_wrappers.policies import Policy, Reply, TurnRequest, turn_seed
from arena_wrappers.prompts import InvalidReply, Message, PromptOptions
from arena_wrappers.records import Episode, Turn, as_list, params_of, storable


class Header(NamedTuple):
    """The first fields of an `Episode`, which say what is played."""

    game: str
    params: dict[str, Any]
    max_turns: int | None
    prompt: dict[str, Any]


class EnvCache:
    """Environments of one `env_fn` with the same prompts, and the header of their records.

    Attributes:
        first: the environment that the others are copies of.
        options: its prompt options, by seat.
        free: environments that no episode uses.
        header: of the records.
    """

    def __init__(self, env_fn: EnvFn, prompts: Sequence[PromptOptions | None]) -> None:
        env, self.env_fn = env_fn(), env_fn  # whose id is the key
        env = env if isinstance(env, PromptWrapper) else PromptWrapper(env)
        self.first = env.seated(prompts)
        seats = range(env.env.game.num_players)
        self.options = [self.first.options_of(seat) for seat in seats]
        self.free: list[PromptWrapper] = []
        base = self.first.env
        self.header = Header(
            base.id or type(base.game).__name__,
            params_of(base.game),
            base.max_turns,
            self.first.prompt_options,
        )

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


class ProbeQuestion(NamedTuple):
    """A question beside a turn: the name of its probe, its text, and the request."""

    probe: str
    text: str
    request: TurnRequest


class LiveEpisode:
    """An episode in progress.

    Args:
        key: index of the plan, then the number of the candidate at each branch: (3, 0, 2)
            is the third candidate of the first candidate of the fourth plan.
        plan: what is played.
        cache: gives the environment.
        fork: where the episode starts, if it branched from another one.

    Attributes:
        seat: the seat to move; at the end, the first one.
        policy: who plays it.
        is_over: whether the episode has ended.
    """

    pending: TurnRequest
    seat: int
    policy: Policy
    is_over: bool

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
        self.last_turn: dict[str, Turn] = {}  # by agent
        self.context_ids: dict[int, list[int]] = {}
        self.lost: str | None = None
        if fork is None:
            self.env = cache.enter()
            self.env.reset(plan.seed, dict(plan.options or {}))
        else:
            self.env = fork.env.clone()
            self.turns = _copied(fork.turns)
            self.context_ids = fork.context_ids.copy()
            agents = self.env.env.possible_agents
            self.last_turn = {agents[turn.seat]: turn for turn in self.turns}
        self.base = self.env.env
        self._update_mover()

    def _update_mover(self) -> None:
        """Sets `seat`, `policy` and `is_over`."""
        base = self.base
        agent = base.agent_selection
        self.seat = base.possible_agents.index(agent)
        self.policy = self.plan.policies[self.seat]
        self.is_over = base.terminations[agent] or base.truncations[agent]

    def candidates(self) -> "list[LiveEpisode]":
        """The episodes that branch from this one at its fork."""
        if self.fork is None or self.plan.branch is None or self.lost is not None:
            return []
        plan, branch = self.plan, len(self.fork.turns)
        candidates = []
        for i in range(self.plan.branch.num_candidates):
            # a hash of the parent's sample, the branch and the number of the candidate
            sample = turn_seed(plan.seed, plan.sample, branch, CANDIDATE + i)
            candidate_plan = replace(plan, sample=sample)
            candidates.append(
                LiveEpisode((*self.key, i), candidate_plan, self.cache, self.fork)
            )
        return candidates

    def request(self) -> TurnRequest:
        base, plan, seat = self.base, self.plan, self.seat
        last_turn = self.last_turn.get(base.agent_selection)
        turn = 0 if last_turn is None else last_turn.index + 1
        options = self.cache.options[seat]
        messages, legal = self.env.prompt_and_legal_texts()
        if plan.branch is not None:
            self._fork_at(seat, turn, plan.branch)
        self.pending = TurnRequest(  # positional: keyword arguments take twice as long
            self.key[0],
            turn,
            seat,
            base.game,
            base.game_state,
            messages,
            self.context_ids.get(seat, ()),
            legal,
            turn_seed(plan.seed, plan.sample, turn, seat),
            options.reply_format,
            self.turns,
            options.date,
        )
        return self.pending

    def _fork_at(self, seat: int, turn: int, branch: Branching) -> None:
        """Keeps the fork at the first turn after the episode's own branch that is chosen.

        Candidates have the episode's own chance outcomes, except where the best is followed: its
        outcomes are part of the reason why it was the best.
        """
        if self.fork is not None or len(self.turns) == self.branch:
            return
        if branch.is_at(seat, turn):
            plan, ids = self.plan, self.context_ids.copy()
            turns = _copied(self.turns)
            fresh = turn_seed(plan.seed, plan.sample, len(turns), CANDIDATE - 2)
            keeps = self.branch is None or branch.follow != "best"
            self.fork = Fork(self.env.clone(None if keeps else fresh), turns, ids)

    def take(self, reply: Reply) -> None:
        if reply.error is not None:
            self._lose(reply, reply.error)
            return
        env, request, plan, seat = self.env, self.pending, self.plan, self.seat
        agent = self.base.agent_selection
        env.submit(
            storable(reply.text),
            reply.invalid,
            seed=request.seed,
            replayed_action=plan.drawn.get(len(self.turns)) if plan.drawn else None,
        )
        turn = turn_of(request, self.policy.name, reply, env.played, env.outcome)
        self.turns.append(turn)
        self.last_turn[agent] = turn
        if self.cache.options[seat].history == "transcript":
            self._remember(turn)
        env.add_rewards(self.last_turn)
        self._update_mover()

    def questions(self) -> list[ProbeQuestion]:
        """What is asked beside the last turn."""
        request, questions = self.pending, []
        probes = () if self.lost else self.plan.probes.get(request.seat, ())
        for number, probe in enumerate(probes):
            question = probe.question(request.game, request.state, request.seat)
            if question is None:
                continue
            text, answers = question
            *history, last = request.messages
            content = f"{last['content']}\n\n{text}"
            probe_request = replace(
                request,
                messages=[*history, Message(role=last["role"], content=content)],
                legal=answers,
                seed=turn_seed(request.seed, 0, number, CANDIDATE - 3),
                turns=self.turns[:-1],
            )
            questions.append(ProbeQuestion(probe.name, text, probe_request))
        return questions

    def note(self, question: ProbeQuestion, reply: Reply) -> None:
        """Records the reply to a question beside the last turn."""
        entry = {"question": question.text, "reply": storable(reply.text)}
        if reply.error is not None:
            entry["error"] = storable(reply.error)
        turn = self.turns[-1]
        turn.probes = {**(turn.probes or {}), question.probe: entry}

    def _lose(self, reply: Reply, error: str) -> None:
        """Ends the episode, which has no result; its last turn is the one without a reply."""
        detail, policy = storable(error), self.policy.name
        turn = turn_of(self.pending, policy, Reply(""), None)
        turn.invalid, turn.detail = "timeout" if reply.timed_out else "error", detail
        self.turns.append(turn)
        self.lost = f"policy {policy!r} gave no reply: {detail}"
        self.is_over = True

    def _remember(self, turn: Turn) -> None:
        """Keeps the tokens of a seat's conversation, unless some of them are unknown."""
        is_known = turn.index == 0 or turn.seat in self.context_ids
        if turn.token_ids is not None and turn.prompt_ids is not None and is_known:
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
        game, state, agent = base.game, base.game_state, base.possible_agents[0]
        return Episode(  # positional: keyword arguments take twice as long
            *self.cache.header,
            plan.seed,
            plan.sample,
            _action_record(game, base.actions),
            self.turns,
            [] if self.lost else list(base.returns),
            base.terminations[agent],
            base.truncations[agent],
            base.forfeited_by,
            None,  # parent, which is known when all episodes are over
            self.branch,
            {} if self.lost else measures_of(game, state),
            self.lost,
            state,
        )


def turn_of(
    request: TurnRequest,
    policy: str,
    reply: Reply,
    action: AnyAction,
    outcome: AnyAction | InvalidReply = None,
) -> Turn:
    """The turn of a reply; `outcome` may be the reason why the reply is invalid."""
    invalid = outcome if isinstance(outcome, InvalidReply) else None
    return Turn(  # positional: keyword arguments take twice as long
        request.turn,
        request.seat,
        policy,
        request.messages,
        request.legal,
        storable(reply.text),
        action,
        invalid.reason if invalid else None,
        invalid.detail if invalid else None,
        {},  # rewards, which are paid later
        as_list(reply.prompt_ids),
        as_list(reply.token_ids),
        as_list(reply.logprobs),
        reply.truncated,
        as_list(reply.entropies),
        tuple(reply.generations),
        None,  # probes
        request.state,
    )


def _copied(turns: Sequence[Turn]) -> list[Turn]:
    """Copies of turns, so that later rewards are not added to the given ones."""
    return [replace(turn, rewards=turn.rewards.copy()) for turn in turns]


def measures_of(game: AnyGame, state: AnyState) -> dict[str, float]:
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


def forfeit_reason(episode: Episode) -> str | None:
    """The reason of a forfeit: that of the seat's last turn; None without a forfeit."""
    if episode.forfeited_by is None:
        return None
    turn = next(t for t in episode.turns[::-1] if t.seat == episode.forfeited_by)
    return f"{turn.invalid}: {turn.detail}"
