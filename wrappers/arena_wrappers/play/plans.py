"""Plans: which episodes are played, by whom, from which seeds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from arena_envs import GameEnv
from arena_envs.checks import checked_seed
from arena_envs.registration import make
from arena_wrappers.play.branching import Branching
from arena_wrappers.play.wrapper import PromptWrapper
from arena_wrappers.policies import (
    Policy,
    as_policy,
    check_names_game,
    make_policy,
    own_prompt,
)
from arena_wrappers.prompts import PromptOptions

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
    seats = _policies_of(policies)
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


def _env_fn(env: EnvFn | str) -> EnvFn:
    if isinstance(env, str):
        check_names_game(env)
        return partial(make, env)
    if not callable(env):
        raise TypeError(
            "want the id of a game or a function that makes an environment, got "
            f"{type(env).__name__}; write lambda: arena_envs.make('kuhn_poker')"
        )
    return env


def _policies_of(policies: Sequence[Any]) -> list[Policy]:
    """The policies; equal strings give one policy, which is asked in one call."""
    names = dict.fromkeys(policy for policy in policies if isinstance(policy, str))
    policy_of_name = {name: make_policy(name) for name in names}
    return [
        policy_of_name[policy] if isinstance(policy, str) else as_policy(policy)
        for policy in policies
    ]


def in_progress(
    plans: Sequence[EpisodePlan], limit: int | None, timeout: float | None
) -> int | None:
    """The largest number of episodes in progress: `limit`, but 1 where a person plays.

    Raises:
        ValueError: a person would have a time limit.
    """
    for policy in distinct_policies(plans):
        if not getattr(policy, "is_person", False):
            continue
        if timeout is not None:
            raise ValueError(
                f"want no timeout for {policy.name!r}, a person, got {timeout}; "
                "leave it out"
            )
        return 1
    return limit


def distinct_policies(plans: Sequence[EpisodePlan]) -> list[Policy]:
    """The policies of plans, each once, in the order of their first seats."""
    seatings = {id(plan.policies): plan.policies for plan in plans}
    policies = {id(policy): policy for seats in seatings.values() for policy in seats}
    return [*policies.values()]


def checked_samples(num_samples: int) -> range:
    """The numbers of a seed's episodes; raises ValueError unless there is at least one."""
    if num_samples < 1:
        raise ValueError(f"want num_samples of at least 1, got {num_samples}")
    return range(num_samples)
