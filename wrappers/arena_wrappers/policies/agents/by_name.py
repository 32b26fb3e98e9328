"""Agents by name: the registry, and the policy of a string."""

from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from typing import Any

from arena_envs.registry import Expression, Registry
from arena_wrappers.policies.agents.built_in import (
    by_seat,
    candidates,
    debate,
    planner_worker,
    reflect,
    tree_search,
    verify,
)
from arena_wrappers.policies.agents.policy import AgentPolicy
from arena_wrappers.policies.agents.protocol import Asks
from arena_wrappers.policies.agents.scoring import scorers
from arena_wrappers.policies.agents.tool_use import tools
from arena_wrappers.policies.person import names_person
from arena_wrappers.policies.protocol import Policy

agents: Registry[Asks] = Registry(
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


def agent_of(spec: str) -> Callable[[Policy | Mapping[str, Policy]], AgentPolicy]:
    """Makes the policy of an agent, such as `candidates(num=2)`, from its models.

    Raises:
        ValueError: an unknown agent.
    """
    parts = agents.read(spec)
    agents.find(parts.name)
    # a partial, since pickle can send it to another process
    return partial(_agent_policy, parts, spec)


def _agent_policy(
    parts: Expression, spec: str, models: Policy | Mapping[str, Policy]
) -> AgentPolicy:
    if isinstance(models, Mapping):
        role_specs = {role: role for role in models}
        return load(
            parts.name,
            make=models.__getitem__,
            spec=spec,
            **parts.options,
            **role_specs,
        )
    policy = models
    return load(parts.name, "self", make=lambda _: policy, spec=spec, **parts.options)


def load(
    agent: str,
    policy: str | None = None,
    *,
    make: Callable[[str], Policy],
    spec: str = "agent",
    **arguments: Any,
) -> AgentPolicy:
    """The policy of the string `agent:NAME(POLICY, option=value, role=POLICY)`.

    Args:
        agent: name of the agent, or `module:name`.
        policy: string of the policy that plays every role, unless each role has its own.
        make: makes the policies.
        spec: the whole string.
        **arguments: options of the agent, and policies by role.

    Raises:
        ValueError: an unknown agent, option or role, or a person in a role.
    """
    agent_function = agents.find(agent)
    option_names = [*signature(agent_function).parameters][1:]
    options = {name: value for name, value in arguments.items() if name in option_names}
    role_specs = {
        name: value for name, value in arguments.items() if name not in option_names
    }
    if policy is None and not role_specs:
        raise ValueError(f"want agent:NAME(POLICY), got {spec!r:.200}")
    if policy is not None and role_specs:
        role_names = getattr(agent_function, "roles", ())
        raise ValueError(
            f"{spec!r:.200} has no option {next(iter(role_specs))!r}, or gives a role besides the "
            f"policy of all roles; options are {', '.join(option_names) or 'none'}, roles are "
            f"{', '.join(role_names) or 'any'}"
        )
    for name in (policy, *role_specs.values()):
        if isinstance(name, str) and names_person(name):
            raise ValueError(f"want no person in a role, got {spec!r:.200}")
    if isinstance(options.get("scorer"), str):
        options["scorer"] = scorers.make(options["scorer"])
    policy_of_role = {
        role: make(str(policy_spec)) for role, policy_spec in role_specs.items()
    }
    models: Policy | Mapping[str, Policy] = make(policy) if policy else policy_of_role
    return AgentPolicy(agent_function, models, spec, **options)
