"""Policies named by strings, such as `"mcts:1000"` or `"lm:PATH"`."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from inspect import signature

from arena_envs.bots import BOTS, make_bot
from arena_envs.checks import did_you_mean
from arena_wrappers.human import KIND, names_person, person
from arena_wrappers.noisy import (
    AsyncNoisyPolicy,
    NoisyPolicy,
    ScoringNoisyPolicy,
    refused_noise,
    split_noisy,
)
from arena_wrappers.policies import BotPolicy, Policy, RandomPolicy, ScoringBotPolicy

Maker = Callable[[str], Policy]  # of the argument: PATH in "lm:PATH"


def make_policy(spec: str, makers: Mapping[str, Maker] | None = None) -> Policy:
    """The policy that a string names: `"kind"` or `"kind:argument"`.

    | String | Policy |
    |---|---|
    | `"random"`, or a bot of `arena_envs.bots` | built in; a bot gets its game when it first plays |
    | `"human"`, `"human:NAME"` | a person at the terminal of this process |
    | `"lm:PATH"` | a language model in a folder |
    | `"api:MODEL"`, `"api:MODEL@URL"` | a language model behind an OpenAI-compatible endpoint |
    | `"vllm:URL"` | the model of a vLLM server, with the prompts of its folder |
    | `"noisy:P(STRING)"` | any of these but a person, with a random legal action at probability P |
    | `"best_of:N(STRING, reward:PATH)"` | the best of N replies of any of these but a person or an endpoint, by a reward model |
    | a kind of the entry-point group `arena.policies` | its function, called with the argument |
    | `"module:name"`, `"module:name:ARGUMENT"` | a policy, or what a class or function makes |

    Options may follow the name or the URL of an endpoint:
    `"api:MODEL@http://localhost:8000/v1#reply_format=boxed#temperature=0.7"`. They
    are those of `PromptOptions`, and `max_tokens`, `temperature`, `max_concurrent`, `timeout`
    and `max_retries` of `ChatAPIPolicy`. `arena_wrappers.endpoints.key_for` finds the key.

    Args:
        spec: the string.
        makers: functions by kind that replace the entry points, also inside `noisy`. One of
            `best_of` makes what is inside it, see `arena_trainers.lm.best_of.load`.

    Raises:
        ValueError: unknown kind, the kind does not take the argument, or a person has no
            terminal here.
        ImportError: the policy's module cannot be imported.

    >>> make_policy("mcts:1000").name
    'mcts:1000'
    """
    kind, _, argument = spec.partition(":")
    if spec == "random":
        return RandomPolicy()
    if names_person(spec):
        return person(spec)
    if kind == "noisy":
        return _noisy(spec, makers)
    if makers is not None and kind in makers:
        return makers[kind](argument)
    if kind in BOTS:
        bot = make_bot(spec)
        scores = hasattr(bot, "action_probs")
        return (ScoringBotPolicy if scores else BotPolicy)(bot, name=spec)
    known = {point.name: point for point in entry_points(group="arena.policies")}
    if kind not in known:
        if not _is_module(kind):
            hint = _hint(kind, known)
            more = f"; or a module {kind!r} here" if ":" in spec else ""
            raise ValueError(f"unknown policy {spec!r}; {hint}{more}")
        return _of_module(spec)
    policy: Policy = known[kind].load()(argument)
    return policy


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # the parent is missing or no package
        return False


def _of_module(spec: str) -> Policy:
    """The policy that `module:name` or `module:name:ARGUMENT` gives.

    A class or function is called with ARGUMENT. Without one it is called without arguments,
    or with an empty string if it wants a string.
    """
    module, _, rest = spec.partition(":")
    name, has_argument, argument = rest.partition(":")
    try:
        found = getattr(import_module(module), name, None)
    except Exception as error:  # a stranger's module may raise anything at import
        raise ImportError(f"policy {spec!r} fails at import: {error!r}") from error
    if callable(found) and (isinstance(found, type) or not hasattr(found, "act")):
        try:
            call = signature(found).bind(*[argument] if has_argument else [])
        except TypeError:
            call = signature(found).bind(argument)
        found = found(*call.args)
    if not callable(getattr(found, "act", None)) or not hasattr(found, "name"):
        raise ValueError(
            f"want module:name of a policy, with a name and act(requests), got {spec!r}, "
            f"which gives {found!r:.80}"
        )
    policy: Policy = found
    return policy


def _hint(kind: str, plugins: Iterable[str]) -> str:
    if kind == "past":
        return (
            "past:RUN works in arena eval, arena tournament and arena play; elsewhere give "
            "lm:PATH, or the policies of arena_trainers.matchmaking.past.past_policies"
        )
    if kind == "reward":
        return (
            "a reward model scores replies and gives none; write "
            "best_of:4(POLICY, reward:PATH)"
        )
    everything = [*BOTS, "noisy", KIND, *plugins]
    hint = did_you_mean(kind, everything)
    return hint if "known are" in hint else f"{hint} known are {', '.join(everything)}"


def _noisy(spec: str, makers: Mapping[str, Maker] | None) -> Policy:
    probability, inner_spec = split_noisy(spec)
    if names_person(inner_spec):
        raise ValueError(refused_noise(spec))
    inner = make_policy(inner_spec, makers)
    kind = NoisyPolicy
    if hasattr(inner, "act_async"):
        kind = AsyncNoisyPolicy
    elif hasattr(inner, "action_probs"):
        kind = ScoringNoisyPolicy
    return kind(inner, probability, spec)
