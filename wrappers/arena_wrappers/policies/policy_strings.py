"""Policies named by strings, such as `"mcts:1000"` or `"lm:PATH"`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from arena_envs.bots import bots, make_bot
from arena_envs.doors import Door, expression
from arena_wrappers.policies.basic import (
    AsyncNoisyPolicy,
    BotPolicy,
    NoisyPolicy,
    Policy,
    RandomPolicy,
    ScoringBotPolicy,
    ScoringNoisyPolicy,
    refused_noise,
)
from arena_wrappers.policies.human import KIND, names_person, person

Maker = Callable[..., Policy]


def of_bot(*_: str, spec: str, **__: Any) -> Policy:
    """The policy of a bot, whose own door reads the string."""
    bot = make_bot(spec)
    scores = hasattr(bot, "action_probs")
    return (ScoringBotPolicy if scores else BotPolicy)(bot, name=spec)


def noisy(
    probability: float, policy: str, *, make: Callable[[str], Policy], spec: str
) -> Policy:
    """The policy of `noisy:P(STRING)`."""
    if names_person(policy):
        raise ValueError(refused_noise(spec))
    inner = make(policy)
    kind = NoisyPolicy
    if hasattr(inner, "act_async"):
        kind = AsyncNoisyPolicy
    elif hasattr(inner, "action_probs"):
        kind = ScoringNoisyPolicy
    return kind(inner, probability, spec)


policies: Door[Policy] = Door(
    "policy",
    "arena.policies",
    {
        **dict.fromkeys(bots.built_in, of_bot),
        "random": RandomPolicy,
        KIND: person,
        "noisy": noisy,
        "api": "arena_wrappers.policies.api:load",
        "array": "arena_wrappers.policies.arrays:load",
        "agent": "arena_wrappers.policies.agents:load",
    },
    given=("make", "spec"),
)
_ELSEWHERE = {
    "past": "past:RUN works in arena eval, arena tournament and arena play; elsewhere give "
    "lm:PATH, or the policies of arena_trainers.matchmaking.snapshots.past_policies",
    "reward": "a reward model scores replies and gives none; write "
    "best_of:4(POLICY, reward:PATH)",
}


def make_policy(spec: str, makers: Mapping[str, Maker] | None = None) -> Policy:
    """The policy that an expression of `arena_envs.doors` names, such as `"mcts:100"`.

    | String | Policy |
    |---|---|
    | `"random"`, or a bot of `arena_envs.bots` | built in; a bot gets its game when it first plays |
    | `"human"`, `"human:NAME"` | a person at the terminal of this process |
    | `"lm:PATH"` | a language model in a folder |
    | `"api:MODEL"`, `"api:MODEL@URL"` | a language model behind an OpenAI-compatible endpoint |
    | `"vllm:URL"` | the model of a vLLM server, with the prompts of its folder |
    | `"array:FORMAT:PATH"` | a numeric agent, see `arena_wrappers.policies.arrays.load` |
    | `"noisy:P(STRING)"` | any of these but a person, with a random legal action at probability P |
    | `"best_of:N(STRING, reward:PATH)"` | the best of N replies of any of these but a person or an endpoint, by a reward model |
    | `"agent:NAME(STRING)"` | an agent of `arena_wrappers.policies.agents`, whose turn takes several calls of these |
    | a name of the entry-point group `arena.policies`, or `module:name` | its function or class, called with the argument and options |

    Options may follow the name or the URL of an endpoint:
    `"api:MODEL@http://localhost:8000/v1#reply_format=boxed#temperature=0.7"`. They
    are those of `PromptOptions`, and `max_tokens`, `temperature`, `max_concurrent`, `timeout`,
    `max_retries` and `send_seed` of `ChatAPIPolicy`; any other name is that of a field of
    requests, as in `#top_p=0.9`. `arena_wrappers.policies.api.key_for` finds the key.

    Args:
        spec: the string.
        makers: functions that replace others by name, also inside `noisy` and `best_of`. One
            with a parameter `make` or `spec` gets `make_policy` with these, or the string.

    Raises:
        ValueError: unknown kind, the kind does not take the argument, or a person has no
            terminal here.
        ImportError: the policy's module cannot be imported.

    >>> make_policy("mcts:1000").name
    'mcts:1000'
    """
    if names_person(spec):
        return person(spec)
    one = expression(spec)
    if (hint := _ELSEWHERE.get(one.name)) and one.name not in (makers or {}):
        raise ValueError(f"no policy {spec!r:.200}; {hint}")
    door = replace(policies, built_in={**policies.built_in, **(makers or {})})
    made = door.make(spec, make=partial(make_policy, makers=makers), spec=spec)
    if lacks := [name for name in ("name", "act") if not hasattr(made, name)]:
        raise ValueError(
            f"policy {spec!r:.200} lacks {' and '.join(lacks)}; define them"
        )
    return made
