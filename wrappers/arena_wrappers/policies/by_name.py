"""Policies by name: the registry, the policy of a string, and advice where a string names none."""

import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from arena_envs.bots import bots, make_bot
from arena_envs.checks import did_you_mean
from arena_envs.registration import games
from arena_envs.registry import Expression, Registry, expression, split
from arena_envs.trust import NotTrusted, require_operator
from arena_wrappers.policies.basic import (
    BotPolicy,
    FunctionPolicy,
    RandomPolicy,
    ScoringBotPolicy,
)
from arena_wrappers.policies.noise import (
    AsyncNoisyPolicy,
    NoisyPolicy,
    ScoringNoisyPolicy,
)
from arena_wrappers.policies.person import KIND, names_person, person
from arena_wrappers.policies.protocol import Policy, Reply, TurnRequest, is_async


def as_policy(thing: Any) -> Policy:
    """The policy that a string, an object with `act`, or a function stands for.

    An object without a `name` gets the name of its class.

    Args:
        thing: a string for `make_policy`, a policy, or a function for `FunctionPolicy`.

    Raises:
        ValueError: a string that names no policy.
        TypeError: nothing that can play.
    """
    if isinstance(thing, str):
        return make_policy(thing)
    if isinstance(thing, type):
        raise TypeError(
            f"want a policy, got the class {thing.__name__}; make an object of it: "
            f"{thing.__name__}(...)"
        )
    if hasattr(thing, "act"):
        if not hasattr(thing, "name"):
            thing.name = type(thing).__name__
        policy: Policy = thing
        return policy
    if callable(thing):
        return FunctionPolicy(thing)
    raise TypeError(
        f"want a policy, got {type(thing).__name__}; give a string such as 'random', an object "
        "with a method act, or a function of the request"
    )


PolicyMaker = Callable[..., Policy]


def of_bot(*_: str, spec: str, **__: Any) -> Policy:
    """The policy of a bot, whose own registry reads the string."""
    bot = make_bot(spec)
    scores = hasattr(bot, "action_probs")
    return (ScoringBotPolicy if scores else BotPolicy)(bot, name=spec)


def noisy(
    probability: float, policy: str, *, make: Callable[[str], Policy], spec: str
) -> Policy:
    """The policy of `noisy:P(STRING)`."""
    if names_person(policy):
        raise ValueError(
            f"want no person in noise, got {spec!r}; write the person alone, as human"
        )
    inner = make(policy)
    kind = NoisyPolicy
    if is_async(inner):
        kind = AsyncNoisyPolicy
    elif hasattr(inner, "action_probs"):
        kind = ScoringNoisyPolicy
    return kind(inner, probability, spec)


policies: Registry[Policy] = Registry(
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
        "text": "arena_wrappers.policies.prompted:of_text",
    },
    reserved=("make", "spec"),
    trusted={
        "agent": "call models by name",
        "api": "open a connection",
        "array": "open a file",
        "best_of": "call models by name",
        "lm": "load a model",
        "text": "open a file",
        "vllm": "open a connection",
    },
    max_number=10_000,
)
_ELSEWHERE = {
    "past": "past:RUN works in arena eval, arena bench tournament and arena play; elsewhere give "
    "lm:PATH, or the policies of arena_trainers.matchmaking.snapshots.past_policies",
    "reward": "a reward model scores replies and gives none; write "
    "best_of:4(POLICY, reward:PATH)",
}


def make_policy(spec: str, makers: Mapping[str, PolicyMaker] | None = None) -> Policy:
    """The policy that an expression of `arena_envs.registry` names, such as `"mcts:100"`.

    | String | Policy |
    |---|---|
    | `"random"`, or a bot of `arena_envs.bots` | built in; a bot gets its game when it first plays |
    | `"human"`, `"human:NAME"` | a person at the terminal of this process |
    | `"lm:PATH"` | a language model in a folder |
    | `"api:MODEL"`, `"api:MODEL@URL"` | a language model behind an OpenAI-compatible endpoint |
    | `"vllm:URL"` | the model of a vLLM server, with the prompts of its folder |
    | `"array:FORMAT:PATH"` | a numeric agent, see `arena_wrappers.policies.arrays.load` |
    | `"noisy:P(STRING)"` | any of these but a person, with a random legal action at probability P |
    | `"text:FILE(STRING)"` | any of these with the text of a file as the persona in its own prompts, such as the `text.txt` of `arena improve` |
    | `"best_of:N(STRING, reward:PATH)"` | the best of N replies of any of these but a person or an endpoint, by a reward model or another scorer of agents |
    | `"agent:NAME(STRING)"` | an agent of `arena_wrappers.policies.agents`, whose turn takes several calls of these |
    | a name of the entry-point group `arena.policies`, or `module:name` | its function or class, called with the argument and options; a function whose only parameter is `request` plays itself |

    Options may follow the name or the URL of an endpoint:
    `"api:MODEL@http://localhost:8000/v1#reply_format=boxed#temperature=0.7"`. They
    are those of `PromptOptions`, and `max_tokens`, `temperature`, `max_concurrent`, `timeout`,
    `max_retries` and `send_seed` of `ChatAPIPolicy`; any other name is that of a field of
    requests, as in `#top_p=0.9`. `arena_wrappers.policies.endpoints.key_for` finds the key.

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
        require_operator("policy", spec, "read from this terminal")
        return person(spec)
    parts = expression(spec)
    if (hint := _ELSEWHERE.get(parts.name)) and parts.name not in (makers or {}):
        raise ValueError(f"no policy {spec!r:.200}; {hint}")
    registry = replace(policies, built_in={**policies.built_in, **(makers or {})})
    if spec.endswith(".py"):
        raise ValueError(f"no policy {spec!r:.200}; {_advice_on(spec, parts.name)}")
    try:
        registry.read(spec)
    except NotTrusted:
        raise
    except ValueError:
        if advice := _advice_on(spec, parts.name):
            raise ValueError(f"no policy {spec!r:.200}; {advice}") from None
        raise
    _warn_of_folder(spec, parts)
    if parts.name not in registry.names() and (
        function := _function_of(registry, spec)
    ):
        return FunctionPolicy(function, name=spec)
    thing: Any = registry.make(
        spec, make=partial(make_policy, makers=makers), spec=spec
    )
    if not hasattr(thing, "act"):
        raise ValueError(
            f"policy {spec!r:.200} lacks a method act, got {type(thing).__name__}; define it, or "
            "name a function with one parameter, request, which returns the reply"
        )
    if not hasattr(thing, "name"):
        thing.name = spec
    policy: Policy = thing
    return policy


_MODEL_FILES = ("config.json", "adapter_config.json")  # of a folder with a model


def _has_model(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _MODEL_FILES)


def _advice_on(spec: str, name: str) -> str:
    """What to write in place of a string that names no policy; "" if unknown."""
    folder = Path(spec)
    if games.knows(spec) and ":" not in spec:
        return "it is a game, and here a policy is wanted, such as random or cfr"
    if folder.is_dir():
        if _has_model(folder / "model"):
            return f"write lm:{folder / 'model'} for the model of this run"
        if _has_model(folder):
            return f"write lm:{spec} for the model in this folder"
        return f"a model in a folder is lm:PATH, and {spec!r:.200} has no config.json"
    if spec.endswith(".py"):
        module = spec.removesuffix(".py").replace("/", ".").lstrip(".")
        return f"write {module}:NAME with the name of a function or class in the file"
    if re.match("https?://", spec):
        return f"write api:MODEL@{spec} for a model behind an endpoint"
    if split(spec)[1:]:
        return (
            "want one policy; write several with spaces between, or repeat the option"
        )
    if "/" in spec:
        return f"write lm:{spec} for a model in a folder or on the Hugging Face hub"
    is_module = re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", spec)
    if not is_module and not did_you_mean(name, policies.names()).endswith("?"):
        all_names = ", ".join(policies.names())
        return (
            f"known are {all_names}; a model in a folder is lm:PATH, one behind an endpoint "
            "api:MODEL@URL, and one of your own module:name"
        )
    return ""


def check_names_game(name: str) -> None:
    """Raises ValueError if a string that should name a game names a policy."""
    if policies.knows(name) and not games.knows(name):
        raise ValueError(
            f"want a game, got {name!r:.80}, which is a policy; give the id of a game, such as "
            "kuhn_poker"
        )


def _warn_of_folder(spec: str, parts: Expression) -> None:
    """Warns where a built-in name is also that of a folder with a model."""
    if spec == parts.name and _has_model(Path(spec)):
        warnings.warn(
            f"{spec!r} is the built-in policy of this name; write lm:./{spec} for the model in "
            "the folder",
            stacklevel=3,
        )


def _function_of(
    registry: Registry[Policy], spec: str
) -> Callable[[TurnRequest], str | Reply] | None:
    """The function of `module:name` if it plays itself: its only parameter is `request`."""
    function: Any = registry.find(registry.read(spec).name)
    if not inspect.isfunction(function):
        return None
    return (
        function if [*inspect.signature(function).parameters] == ["request"] else None
    )
