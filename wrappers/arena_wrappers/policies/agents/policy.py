"""`AgentPolicy`: plays an agent, whose turn takes several calls of models."""

from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

from arena_envs.doors import check_options
from arena_envs.game import check_int
from arena_wrappers.policies.agents.protocol import JUDGE, MAX_CALLS, Agent, Ask, Seen
from arena_wrappers.policies.protocol import (
    Policy,
    Reply,
    TurnRequest,
    own_prompt,
    turn_seed,
)
from arena_wrappers.prompts import PromptOptions
from arena_wrappers.records import Generation, listed, storable


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
        first, *own = signature(agent).parameters.values()
        check_options(f"agent {name!r}", agent, options, {first.name})
        for option in own:
            value = options.get(option.name, option.default)
            if option.annotation is int:
                check_int(option.name, value, 1, MAX_CALLS)
        known: Sequence[str] = getattr(agent, "roles", ())
        rated = options.get("scorer") is not None  # then not all roles are asked
        known = [*dict.fromkeys((*known, JUDGE))] if known and rated else known
        if not isinstance(models, Mapping):
            every = models
            models = defaultdict(lambda: every, dict.fromkeys(known or [""], every))
        elif known and {*models} != ({*known} & {*models} if rated else {*known}):
            raise ValueError(
                f"{name!r}: want a policy for each of the roles {', '.join(known)}, got "
                f"{', '.join(models) or 'none'}"
            )
        prompts = [own_prompt(model) for model in models.values()]
        if any(prompt != prompts[0] for prompt in prompts):
            raise ValueError(f"{name!r}: want policies with the same prompt options")
        self.prompt: PromptOptions | None = prompts[0]
        self.agent, self.models, self.name = agent, models, name
        self.options = options

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        turns = [_Turn(self, request) for request in requests]
        while calls := [call for turn in turns for call in turn.calls()]:
            for role in dict.fromkeys(turn.pending[i].role for turn, i in calls):
                own = [(turn, i) for turn, i in calls if turn.pending[i].role == role]
                said = self.models[role].act([turn.request_of(i) for turn, i in own])
                for (turn, i), reply in zip(own, said, strict=True):
                    turn.answers[i] = reply
            for turn in turns:
                turn.advance()
        return [turn.reply() for turn in turns]


class AsyncAgentPolicy(AgentPolicy):
    """An `AgentPolicy` with a role that is an endpoint."""

    async def act_async(
        self, request: TurnRequest, timeout: float | None = None
    ) -> Reply:
        """As `AsyncPolicy.act_async`; `timeout` holds for each call of a model."""
        turn = _Turn(self, request)
        while calls := turn.calls():
            for _, i in calls:
                model: Any = self.models[turn.pending[i].role]
                wanted = turn.request_of(i)
                if hasattr(model, "act_async"):
                    turn.answers[i] = await model.act_async(wanted, timeout)
                else:
                    turn.answers[i] = model.act([wanted])[0]
            turn.advance()
        return turn.reply()


class _Turn:
    """One turn of an agent: what it asked, what was said, and its reply."""

    def __init__(self, policy: AgentPolicy, request: TurnRequest) -> None:
        self.policy, self.request = policy, request
        self.said: list[Generation] = []
        self.replies: list[Reply] = []
        self.pending: list[Ask] = []  # without an answer, in the order yielded
        self.answers: dict[int, Reply] = {}
        self.one = False  # whether the agent yielded a single `Ask`
        self.result: Reply | None = None
        own = [turn for turn in request.turns if turn.seat == request.seat]
        r = request
        self.seen = Seen(r.game, r.seat, r.messages, r.legal, own, r.seed, r)
        self._go(None)

    def calls(self) -> "list[tuple[_Turn, int]]":
        return [(self, i) for i in range(len(self.pending))]

    def request_of(self, i: int) -> TurnRequest:
        ask, number = self.pending[i], len(self.said) + i
        own = self.request
        return replace(
            own,
            messages=ask.messages,
            context_ids=own.context_ids if ask.messages is own.messages else (),
            seed=turn_seed(own.seed, number, 0, 0) if number else own.seed,
        )

    def advance(self) -> None:
        """Hands the answers to the agent, which asks again or ends."""
        if not self.pending:
            return
        asked, self.pending = self.pending, []
        made = []
        for i, ask in enumerate(asked):
            reply = self.answers[i]
            if reply.error is not None:
                self.result = replace(reply, text="")
                return
            parents = (i for i, one in enumerate(self.said) if one is ask.parent)
            names = ("prompt_ids", "token_ids", "logprobs")
            told: Any = {name: listed(getattr(reply, name)) or [] for name in names}
            told |= {"parent": next(parents, -1), "messages": listed(ask.messages)}
            made.append(Generation(ask.role, storable(reply.text), **told))
            self.replies.append(reply)
        self.answers = {}
        self.said += made
        self._go(made[0] if self.one else made)

    def _go(self, said: Any) -> None:
        try:
            if said is None:
                self.steps = self.policy.agent(self.seen, **self.policy.options)
                if not isinstance(self.steps, Generator):
                    raise TypeError(f"want a generator, got {self.steps!r:.80}")
            self._asked(self.steps.send(said))
        except StopIteration as end:
            self.result = end.value
            if not isinstance(self.result, Reply) or type(self.result.text) is not str:
                what = f"ended with {self.result!r:.80}, want a Reply"
                self._fail(what, TypeError(f"agent {self.policy.name!r} {what}"))
        except Exception as error:  # an agent may be anybody's code
            self._fail(f"raised {type(error).__name__}: {error}", error)

    def _asked(self, asked: Any) -> None:
        self.one = isinstance(asked, Ask)
        every = list(asked) if isinstance(asked, Sequence) else [asked]
        for ask in every:
            if not isinstance(ask, Ask):
                raise TypeError(f"want an Ask or a list of them, got {ask!r:.80}")
            if ask.role not in self.policy.models and "" not in self.policy.models:
                raise ValueError(f"there is no role {ask.role!r:.80}")
            if ask.parent and not any(ask.parent is one for one in self.said):
                raise ValueError("want a generation of this turn as parent")
        if not every or len(self.said) + len(every) > MAX_CALLS:
            raise ValueError(f"want 1 to {MAX_CALLS} calls of models in a turn")
        self.pending = every

    def _fail(self, what: str, cause: Exception) -> None:
        text = f"agent {self.policy.name!r} {what}"[:500]
        self.result = Reply("", error=text, cause=cause)

    def reply(self) -> Reply:
        result = self.result
        assert result is not None
        if result.error is not None:
            return result
        several = len(getattr(self.policy.agent, "roles", ())) > 1  # who spoke matters
        if (
            len(self.replies) == 1
            and self.replies[0].text == result.text
            and not several
        ):
            return self.replies[0]
        # what was cut or refused stays so, when the agent hands it on
        last = next((r for r in self.replies[::-1] if r.text == result.text), result)
        return replace(
            result,
            truncated=last.truncated,
            instead=last.instead,
            generations=self.said,
        )
