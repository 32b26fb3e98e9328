"""Checks of the option `roles`, the learners, and of `update`, which of them a step trains."""

from collections.abc import Mapping
from typing import Any

from arena_envs.game import check_int, check_number
from arena_trainers.options import refuse_unknown
from arena_wrappers import RandomPolicy
from arena_wrappers.policies.agents import agent_of

ROLE_OPTIONS = ("lora_r", "model", "learning_rate", "beta")


def check_roles(roles: Mapping[Any, Any], update: Any, agent: str | None) -> None:
    """Raises ValueError for learners or updates that do not fit."""
    kinds = {type(key) for key in roles}
    if kinds not in (set(), {str}, {int}) or (int in kinds and agent):
        raise ValueError(
            f"want roles of an agent, or seats without one, got {[*roles]}"
        )
    if agent is not None:
        agent_of(agent)(dict.fromkeys(roles, RandomPolicy()) or RandomPolicy())
    for key, options in roles.items():
        fits = isinstance(options, Mapping) and not {"model", "lora_r"} <= {*options}
        if not fits or not isinstance(options.get("model", ""), str):
            raise ValueError(
                f"want roles[{key!r}] as {{lora_r: 8}}, an adapter of the one base "
                f"model, or as {{model: PATH}}, a whole model, got {options!r:.80}"
            )
        refuse_unknown(f"roles[{key!r}]", options, ROLE_OPTIONS)
        for name, value in options.items():
            if name == "lora_r":
                check_int(f"roles[{key!r}] {name}", value, 1, 4096)
            elif name != "model":
                check_number(f"roles[{key!r}] {name}", value, 0)
    match update:
        case {"alternate": every}:
            fits = type(every) is int and every > 0 and bool(roles)
        case {"freeze": list(names)}:
            fits = set(names) < {*roles}
        case _:
            fits = update == "joint" or (bool(roles) and update == "sequential")
    if not fits:
        role_names = str([*roles]) if roles else "(none: set roles)"
        raise ValueError(
            "want update as joint, sequential, {alternate: 20} or {freeze: [...]} with "
            f"some, but not all, of the roles {role_names}, got {update!r}"
        )
