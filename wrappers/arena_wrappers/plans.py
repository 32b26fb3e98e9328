"""The episodes that a call of `play` asks for."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, cast

from arena_envs.checks import checked_seed
from arena_envs.registration import make
from arena_wrappers.branching import Branching
from arena_wrappers.live_episodes import EnvFn, EpisodePlan
from arena_wrappers.policies import Policy
from arena_wrappers.policy_strings import make_policy


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
    """How many episodes may be in progress: `limit`, but one where a person plays.

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
