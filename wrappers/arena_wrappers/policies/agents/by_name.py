"""Agents by name: the registry, and the policy of a string."""

from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from typing import Any

from arena_envs.doors import Door
from arena_wrappers.policies.agents.built_in import (
    by_seat,
    candidates,
    debate,
    planner_worker,
    reflect,
    tree_search,
    verify,
)
from arena_wrappers.policies.agents.policy import AgentPolicy, AsyncAgentPolicy
from arena_wrappers.policies.agents.protocol import Asks
from arena_wrappers.policies.agents.scoring import scorers
from arena_wrappers.policies.agents.tool_use import tools
from arena_wrappers.policies.person import names_person
from arena_wrappers.policies.protocol import Policy

agents: Door[Asks] = Door(
    "agent",
    "arena.agents",
    {
        agent.__name__: agent
        for agent in (
            by_seat,
            candidates,
            debate,
            planner_worker,
            reflect,
            tools,
            tree_search,
            verify,
        )
    },
)


def agent_of(spec: str) -> Callable[[Any], AgentPolicy]:
    """Makes the policy of an agent, such as `candidates(num=2)`, from its models.

    Raises:
        ValueError: an unknown agent.
    """
    one = agents.read(spec)
    agents.find(one.name)
    return partial(_made, one, spec)  # which pickle can send to another process


def _made(one: Any, spec: str, models: Any) -> AgentPolicy:
    roles, make = {"policy": "self"}, lambda _: models
    if isinstance(models, Mapping):
        roles, make = {role: role for role in models}, models.__getitem__
    return load(one.name, make=make, spec=spec, **one.options, **roles)


def load(
    agent: str,
    policy: str | None = None,
    *,
    make: Callable[[str], Policy],
    spec: str = "agent",
    **given: Any,
) -> AgentPolicy:
    """The policy of the string `agent:NAME(POLICY, option=value, role=POLICY)`.

    Args:
        agent: name of the agent, or `module:name`.
        policy: string of the policy that plays every role, unless each role has its own.
        make: makes the policies.
        spec: the whole string.
        **given: options of the agent, and policies by role.

    Raises:
        ValueError: an unknown agent, option or role, or a person in a role.
    """
    found = agents.find(agent)
    names = [*signature(found).parameters][1:]
    options = {name: value for name, value in given.items() if name in names}
    others = {name: value for name, value in given.items() if name not in names}
    if policy is None and not others:
        raise ValueError(f"want agent:NAME(POLICY), got {spec!r:.200}")
    if policy is not None and others:
        known = getattr(found, "roles", ())
        raise ValueError(
            f"{spec!r:.200} has no option {next(iter(others))!r}, or gives a role besides the "
            f"policy of all roles; options are {', '.join(names) or 'none'}, roles are "
            f"{', '.join(known) or 'any'}"
        )
    for name in (policy, *others.values()):
        if isinstance(name, str) and names_person(name):
            raise ValueError(f"want no person in a role, got {spec!r:.200}")
    if isinstance(options.get("scorer"), str):
        options["scorer"] = scorers.make(options["scorer"])
    made = {role: make(str(one)) for role, one in others.items()}
    models: Policy | Mapping[str, Policy] = make(policy) if policy else made
    every = made.values() if made else [models]
    is_async = any(hasattr(model, "act_async") for model in every)
    kind = AsyncAgentPolicy if is_async else AgentPolicy
    return kind(found, models, spec, **options)
