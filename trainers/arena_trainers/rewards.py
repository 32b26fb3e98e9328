"""Parts of the reward, by name, with weights by step or multipliers that keep a limit.

A reward is `def reward(episode, turn, state, game, **options) -> float`, called for each turn that
learns, with the state before it. In the option `rewards` its name becomes a part of the reward:

| entry | meaning |
|---|---|
| `weight`, `over`, `until` | see `arena_trainers.weight.Weight` |
| `at_most` or `at_least`, `rate` | in place of a weight: a limit of the mean over turns, m, and a step size |
| others | options of the reward |

With a limit b the weight is -λ for `at_most`, λ for `at_least`. After each batch that is trained

    λ ← max(0, λ + rate (m - b)),   or with b - m for `at_least`,   from λ = 0

| reward | pays | optimum of the game |
|---|---|---|
| `milestones` | Φ' - Φ, Φ the game's `progress`, 0 at the end | kept: the sum of a seat depends on its first state alone |
| `milestones` with `potential: false` | the same, with Φ of the last state | may change |
| `belief_gain` | Φ' - Φ, Φ the log-probability of the hidden card by the exact posterior | kept |
| `partner_gain` | V' - V, V what the others can expect, and get at the end | may change: the sum has their return |
| `expert_match` | 1 for what the solver would play | may change |
| `length` | the tokens of the reply; in an agent's turn those of all calls | may change |

The last call of an agent's turn gets the rewards of the turn.

*Kept*: whatever the others play, a seat's best policies are those of the game, and so are the equilibria
(https://eprints.whiterose.ac.uk/id/eprint/75111), but for truncated episodes. In games of secrets
`milestones: {of: information}` pays what a guess tells.
"""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from arena_envs import make_game
from arena_envs.checks import is_number
from arena_envs.doors import Door, broken, check_options
from arena_trainers.weight import OF_WEIGHT, Weight
from arena_wrappers import Episode, PromptOptions, Turn, TurnRequest, make_policy, play
from arena_wrappers.play import final_state, next_state, turn_states
from arena_wrappers.policies import own_prompt

_HERE = "arena_trainers.rewards"
NUM_TRIED = 4  # turns of a game, before training
rewards: Door[float] = Door(
    "reward",
    "arena.rewards",
    {name: f"{_HERE}:{name}" for name in ("milestones", "expert_match", "length")}
    | {
        name: f"arena_eval.measures:{name}"  # they enumerate the game
        for name in ("belief_gain", "partner_gain")
    },
    given=("episode", "turn", "state", "game"),
    kit=f"{_HERE}:check_reward",
)


def milestones(
    episode: Episode,
    turn: Turn,
    state: Any,
    game: Any,
    *,
    of: str = "progress",
    potential: bool = True,
    discount: float = 1.0,
) -> float:
    """Progress until the seat's next turn: discount Φ' - Φ.

    Φ is the game's `progress`, or the measure that `of` names. With `potential` Φ' is 0 at the end of a
    terminated episode (https://people.eecs.berkeley.edu/~russell/papers/icml99-shaping.pdf); `discount`
    has to be that of the estimator.
    """
    later = next_state(episode, turn, game)
    if later is not None:
        after = _progress(game, later, of)
    elif potential and episode.terminated:
        after = 0.0
    else:
        after = _progress(game, final_state(episode, game), of)
    return discount * after - _progress(game, state, of)


def _progress(game: Any, state: Any, of: str) -> float:
    if of == "progress" and hasattr(game, "progress"):
        return float(game.progress(state))
    found = game.measures(state)
    if of not in found:
        known = ", ".join(found) or "none"
        raise ValueError(
            f"{game!r} has no {of!r} for the reward milestones; give of: one of its measures "
            f"({known}), or write the method progress(state)"
        )
    return float(found[of])


def expert_match(
    episode: Episode,
    turn: Turn,
    state: Any,
    game: Any,
    *,
    solver: str,
    share: float = 0.5,
) -> float:
    """1 if a solver gives the action at least this `share` of its best action's probability."""
    policy = _expert(solver)
    if turn.invalid is not None:
        return 0.0
    if not hasattr(policy, "action_probs"):
        raise ValueError(f"want a solver with action_probs, got {solver!r}; choose cfr")
    request = TurnRequest.at(game, state, own_prompt(policy) or PromptOptions())
    ((probs, _),) = policy.action_probs([request])
    chances = dict(zip(request.legal, probs, strict=True))
    played = chances.get(game.action_text(state, turn.action), 0.0)
    return float(played >= share * max(probs))


@functools.cache
def _expert(solver: str) -> Any:
    return make_policy(solver)


def length(episode: Episode, turn: Turn, state: Any, game: Any) -> float:
    """The number of tokens of the reply; of an agent's turn, those of all its calls."""
    if turn.generations:
        return float(sum(len(call.token_ids) for call in turn.generations))
    return float(len(turn.token_ids or ()))


@dataclass(frozen=True)
class Part:
    """A part of the reward with its weight, or the sign and the limit of its multiplier."""

    name: str
    function: Callable[..., float]
    weight: Weight
    sign: int = 0
    limit: float = 0.0
    rate: float = 0.0

    def __call__(self, episode: Episode, turn: Turn, state: Any, game: Any) -> float:
        return self.function(episode, turn, state, game)

    def weight_at(self, step: int, multiplier: float) -> float:
        """What the part is multiplied by."""
        return self.sign * multiplier if self.sign else self.weight.at(step)

    def moved(self, multiplier: float, mean: float) -> float:
        """The multiplier after a batch in which the part had this mean over turns."""
        return max(0.0, multiplier - self.sign * self.rate * (mean - self.limit))


def parts_of(given: Mapping[str, Any]) -> dict[str, Part]:
    """The parts of the option `rewards`, by the name of their column."""
    return {f"rewards.{name}": _part(name, entry) for name, entry in given.items()}


def _part(name: str, entry: Any) -> Part:
    what = f"rewards[{name!r}]"
    if not isinstance(entry, Mapping | None):
        raise ValueError(
            f"want a mapping such as {{weight: 0.1}} as {what}, got {entry!r}"
        )
    one = rewards.read(name)
    function, options = rewards.find(one.name), {**one.options, **(entry or {})}
    bounds = {
        key: options.pop(key) for key in ("at_most", "at_least") if key in options
    }
    rate, timed = options.pop("rate", None), options.keys() & {*OF_WEIGHT}
    weight = Weight.of(what, options)
    others = (*OF_WEIGHT, "at_most", "at_least", "rate")
    told = f"reward {name!r}"
    check_options(told, function, options, rewards.given, others=others)
    part = Part(name, functools.partial(function, **options), weight)
    if not bounds and rate is None:
        return part
    numbers = [*bounds.values(), rate]
    if len(bounds) != 1 or timed or not all(map(is_number, numbers)) or rate <= 0:
        raise ValueError(
            f"want a weight, or one of at_most and at_least with a rate above 0, in {what}, got "
            f"{entry!r:.200}"
        )
    ((key, limit),) = bounds.items()
    sign = -1 if key == "at_most" else 1
    return Part(name, part.function, weight, sign, float(limit), float(rate))


def check_reward(reward: Callable[..., Any], game: Any, **options: Any) -> None:
    """Checks a reward in random play: a finite number, and the same for the same turn.

    Raises:
        BrokenPromise: names the first promise that it breaks.
    """
    rules = make_game(game)
    for episode in play(game, "random", range(3)):
        pairs = zip(episode.turns, turn_states(episode, rules), strict=True)
        for turn, state in pairs:
            found = [reward(episode, turn, state, rules, **options) for _ in range(2)]
            if not all(isinstance(x, int | float) and math.isfinite(x) for x in found):
                broken("finite", f"got {found[0]!r} for turn {turn.index}")
            if found[0] != found[1]:
                broken("same", f"got {found[0]!r}, then {found[1]!r} for a turn")
