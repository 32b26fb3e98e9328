"""`AgentPolicy`: plays an agent, whose turn takes several calls of models."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

from arena_envs.game import check_int
from arena_envs.registry import check_options
from arena_wrappers.policies.agents.protocol import (
    JUDGE,
    MAX_CALLS,
    Agent,
    Ask,
    TurnView,
)
from arena_wrappers.policies.protocol import (
    Policy,
    Reply,
    TurnRequest,
    forget_episodes,
    is_async,
    own_prompt,
    turn_seed,
)
from arena_wrappers.prompts import PromptOptions
from arena_wrappers.records import Generation, as_list, storable


class AgentPolicy:
    """Plays an agent: each turn asks its roles until it returns a reply.

    The first call of a turn has the request's own seed, the others seeds derived from it. A turn
    with one call, whose text is the reply, is recorded as that of a plain policy if the agent
    has one role. The reply of a
    longer turn has no tokens of its own: they are in its generations. An agent that raises,
    asks more than 64 times, or ends without a `Reply` gives no reply, and the episode is lost.

    Args:
        agent: the generator function; its parameters after the first are its options.
        models: who answers: one policy, or one for each role.
        name: name in records.
        **options: options of the agent.

    Raises:
        ValueError: an unknown role or option, a role without a policy, or roles whose policies
            carry different prompt options.
    """

    def __init__(
        self,
        agent: Agent,
        models: Policy | Mapping[str, Policy],
        name: str = "agent",
        **options: Any,
    ) -> None:
        first, *option_parameters = signature(agent).parameters.values()
        check_options(f"agent {name!r}", agent, options, {first.name})
        for option in option_parameters:
            value = options.get(option.name, option.default)
            if option.annotation is int:
                check_int(option.name, value, 1, MAX_CALLS)
        role_names: Sequence[str] = getattr(agent, "roles", ())
        has_scorer = options.get("scorer") is not None  # then not all roles are asked
        if role_names and has_scorer:
            role_names = [*dict.fromkeys((*role_names, JUDGE))]
        if not isinstance(models, Mapping):
            policy = models
            models = defaultdict(
                lambda: policy, dict.fromkeys(role_names or [""], policy)
            )
        elif role_names:
            required = {*role_names}
            if has_scorer:
                required &= {*models}
            if {*models} != required:
                raise ValueError(
                    f"{name!r}: want a policy for each of the roles {', '.join(role_names)}, "
                    f"got {', '.join(models) or 'none'}"
                )
        prompts = [own_prompt(model) for model in models.values()]
        if any(prompt != prompts[0] for prompt in prompts):
            raise ValueError(f"{name!r}: want policies with the same prompt options")
        self.prompt: PromptOptions | None = prompts[0]
        self.agent, self.models, self.name = agent, models, name
        self.options = options

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        turns = [_AgentTurn(self, request) for request in requests]
        while calls := [call for turn in turns for call in turn.calls()]:
            for role in dict.fromkeys(turn.pending[i].role for turn, i in calls):
                role_calls = [
                    (turn, i) for turn, i in calls if turn.pending[i].role == role
                ]
                replies = self.models[role].act(
                    [turn.request_of(i) for turn, i in role_calls]
                )
                for (turn, i), reply in zip(role_calls, replies, strict=True):
                    turn.answers[i] = reply
            for turn in turns:
                turn.advance()
        return [turn.reply() for turn in turns]

    @property
    def act_async(
        self,
    ) -> Callable[[TurnRequest, float | None], Awaitable[Reply]] | None:
        """As `AsyncPolicy.act_async`, if a role has a model with it; else None."""
        return self._act_async if any(map(is_async, self.models.values())) else None

    async def _act_async(
        self, request: TurnRequest, timeout: float | None = None
    ) -> Reply:
        """The reply to one request; `timeout` holds for each call of a model."""
        turn = _AgentTurn(self, request)
        while calls := turn.calls():
            tasks = [
                asyncio.ensure_future(self._answer(turn, i, timeout)) for _, i in calls
            ]
            try:
                replies = await asyncio.gather(*tasks)
            finally:
                for task in tasks:  # of a call that another one's failure has ended
                    task.cancel()
            turn.answers = dict(enumerate(replies))
            turn.advance()
        return turn.reply()

    async def _answer(self, turn: "_AgentTurn", i: int, timeout: float | None) -> Reply:
        """The reply of a role's model to one of the calls of a turn."""
        model, request = self.models[turn.pending[i].role], turn.request_of(i)
        if is_async(model):
            return await model.act_async(request, timeout)
        return model.act([request])[0]

    def forget_episodes(self) -> None:
        for model in self.models.values():
            forget_episodes(model)


class _AgentTurn:
    """One turn of an agent: what it asked, what was said, and its reply."""

    def __init__(self, policy: AgentPolicy, request: TurnRequest) -> None:
        self.policy, self.request = policy, request
        self.generations: list[Generation] = []
        self.replies: list[Reply] = []
        self.pending: list[Ask] = []  # without an answer, in the order yielded
        self.answers: dict[int, Reply] = {}
        self.is_single = False  # whether the agent yielded a single `Ask`
        self.final_reply: Reply | None = None
        own_turns = [turn for turn in request.turns if turn.seat == request.seat]
        self.view = TurnView(
            request.game,
            request.seat,
            request.messages,
            request.legal,
            own_turns,
            request.seed,
            request,
        )
        self._resume(None)

    def calls(self) -> "list[tuple[_AgentTurn, int]]":
        return [(self, i) for i in range(len(self.pending))]

    def request_of(self, i: int) -> TurnRequest:
        ask, number = self.pending[i], len(self.generations) + i
        request = self.request
        return replace(
            request,
            messages=ask.messages,
            context_ids=request.context_ids if ask.messages is request.messages else (),
            seed=turn_seed(request.seed, number, 0, 0) if number else request.seed,
        )

    def advance(self) -> None:
        """Hands the answers to the agent, which asks again or ends."""
        if not self.pending:
            return
        asks, self.pending = self.pending, []
        new_generations = []
        for i, ask in enumerate(asks):
            reply = self.answers[i]
            if reply.error is not None:
                self.final_reply = replace(reply, text="")
                return
            parents = (
                i
                for i, generation in enumerate(self.generations)
                if generation is ask.parent
            )
            names = ("prompt_ids", "token_ids", "logprobs")
            fields: Any = {name: as_list(getattr(reply, name)) or [] for name in names}
            fields |= {"parent": next(parents, -1), "messages": as_list(ask.messages)}
            fields["entropies"] = as_list(reply.entropies)
            new_generations.append(Generation(ask.role, storable(reply.text), **fields))
            self.replies.append(reply)
        self.answers = {}
        self.generations += new_generations
        self._resume(new_generations[0] if self.is_single else new_generations)

    def _resume(self, answers: Generation | list[Generation] | None) -> None:
        try:
            if answers is None:
                self.steps = self.policy.agent(self.view, **self.policy.options)
                if not isinstance(self.steps, Generator):
                    raise TypeError(f"want a generator, got {self.steps!r:.80}")
            self._set_asks(self.steps.send(answers))
        except StopIteration as end:
            self.final_reply = end.value
            if (
                not isinstance(self.final_reply, Reply)
                or type(self.final_reply.text) is not str
            ):
                problem = f"ended with {self.final_reply!r:.80}, want a Reply"
                self._fail(problem, TypeError(f"agent {self.policy.name!r} {problem}"))
        except Exception as error:  # an agent may be anybody's code
            self._fail(f"raised {type(error).__name__}: {error}", error)

    def _set_asks(self, asks: Ask | Sequence[Ask]) -> None:
        self.is_single = isinstance(asks, Ask)
        ask_list = list(asks) if isinstance(asks, Sequence) else [asks]
        for ask in ask_list:
            if not isinstance(ask, Ask):
                raise TypeError(f"want an Ask or a list of them, got {ask!r:.80}")
            if ask.role not in self.policy.models and "" not in self.policy.models:
                raise ValueError(f"there is no role {ask.role!r:.80}")
            if ask.parent and not any(
                ask.parent is generation for generation in self.generations
            ):
                raise ValueError("want a generation of this turn as parent")
        if not ask_list or len(self.generations) + len(ask_list) > MAX_CALLS:
            raise ValueError(f"want 1 to {MAX_CALLS} calls of models in a turn")
        self.pending = ask_list

    def _fail(self, problem: str, cause: Exception) -> None:
        text = f"agent {self.policy.name!r} {problem}"[:500]
        self.final_reply = Reply("", error=text, cause=cause)

    def reply(self) -> Reply:
        final = self.final_reply
        assert final is not None
        if final.error is not None:
            return final
        has_several_roles = (
            len(getattr(self.policy.agent, "roles", ())) > 1
        )  # who spoke matters
        if not has_several_roles and [reply.text for reply in self.replies] == [
            final.text
        ]:
            return self.replies[0]
        # what was cut or refused stays so, when the agent hands it on
        source = final
        for reply in self.replies:
            if reply.text == final.text:
                source = reply
        return replace(
            final,
            truncated=source.truncated,
            instead=source.instead,
            generations=self.generations,
        )
