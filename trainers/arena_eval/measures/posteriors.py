"""What the rules and known policies tell of a hidden fact: exact posteriors, or frequencies of draws."""

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    AnyState,
)
from arena_envs.solvers import InfosetKey, InfosetTable, TooLarge, information_states
from arena_envs.solvers.enumeration import Memory
from arena_eval.baselines import MAX_SOLVED_STATES
from arena_eval.exploit import SHORT, is_tabular, tabular, want_enumerable
from arena_wrappers import make_policy

Posteriors = dict[InfosetKey, dict[str, float]]


NUM_DRAWS = 400  # of `resample`, for a posterior


class Beliefs(NamedTuple):
    """The posterior of a hidden fact, a function of state and seat; and all answers."""

    posterior: Callable[[AnyState, int], Mapping[str, float]]
    answers: Sequence[str]


def beliefs_of(game: AnyGame, others: str) -> Beliefs:
    """The posteriors of `Belief`: by enumeration, else by draws of `Game.resample`.

    Raises:
        ValueError: as `posteriors_of`; or `others` is not "random" where states are drawn.
    """
    answers = getattr(game, "hidden_answers", None)
    if answers is None or _is_enumerable(game):
        posteriors, enumerated = posteriors_of(game, others)

        def look_up(state: AnyState, seat: int) -> Mapping[str, float]:
            return posteriors.get((seat, game.information_state(state, seat)), {})

        return Beliefs(look_up, enumerated if answers is None else answers)
    if others != "random":
        raise ValueError(
            f"want belief with others=random in {game!r:.100}, whose states are drawn and not "
            f"enumerated, got {others!r}; leave it out, or give smaller parameters"
        )

    def draw(state: AnyState, seat: int) -> Mapping[str, float]:
        # equal information states have equal posteriors
        rng = random.Random(repr((seat, game.information_state(state, seat))))
        twins = (game.resample(state, seat, rng) for _ in range(NUM_DRAWS))
        facts = [game.hidden(twin, seat) for twin in twins]  # type: ignore[attr-defined] # optional
        counts = Counter(fact[1] for fact in facts if fact is not None)
        return {name: counts[name] / NUM_DRAWS for name in answers}

    return Beliefs(draw, answers)


def _is_enumerable(game: AnyGame) -> bool:
    if game.num_actions is None:
        return False
    try:
        information_states(game, MAX_SOLVED_STATES)
    except TooLarge:
        return False
    return True


def posteriors_of(game: AnyGame, others: str) -> tuple[Posteriors, list[str]]:
    """Probabilities of the hidden card in each information set, and all cards; see `Belief`.

    Raises:
        ValueError: the game hides no card, is too large or of talk, or the action
            probabilities of `others` are unknown.
    """
    if not hasattr(game, "hidden"):
        raise ValueError(
            f"want a game that says what it hides (a method hidden) for belief, got {game!r}; "
            "take kuhn_poker or leduc_poker"
        )
    table, posteriors = table_of(game, others), Posteriors()

    def walk(state: AnyState, reached: Sequence[float]) -> None:
        """Adds what follows; `reached` has, by seat, the probability without its own choices."""
        player = game.current_player(state)
        if player == TERMINAL or not any(reached):
            return
        if player == CHANCE:
            for outcome, chance in game.chance_outcomes(state):
                walk(game.apply(state, outcome), [chance * x for x in reached])
            return
        key = player, game.information_state(state, player)
        if (hidden_fact := game.hidden(state, player)) is not None:
            posterior = posteriors.setdefault(key, {})
            posterior[hidden_fact[1]] = (
                posterior.get(hidden_fact[1], 0.0) + reached[player]
            )
        for action, chance in zip(game.legal_actions(state), table[key], strict=True):
            after = [x if s == player else x * chance for s, x in enumerate(reached)]
            walk(game.apply(state, action), after)

    walk(game.initial_state(), [1.0] * game.num_players)
    for posterior in posteriors.values():
        total = math.fsum(posterior.values())
        posterior |= {n: x / total if total else 0.0 for n, x in posterior.items()}
    return posteriors, sorted({name for p in posteriors.values() for name in p})


def table_of(game: AnyGame, others: str) -> InfosetTable:
    """The action probabilities of a policy; raises ValueError as `posteriors_of`."""
    want_enumerable(game)
    policy: Any = make_policy(others)
    if not is_tabular(policy):
        raise ValueError(
            f"want others with known action probabilities, got {others!r}; take random or cfr"
        )
    try:
        information_states(game, MAX_SOLVED_STATES)
    except TooLarge:
        raise ValueError(
            "belief, belief_gain and partner_gain enumerate the game: want one of at most "
            f"{MAX_SOLVED_STATES:,} states, got {game!r}; give smaller parameters, or take "
            + ("leduc_poker" if game.zero_sum else "tiny_hanabi")
        ) from None
    return tabular(policy, game, SHORT)[0]


_ENUMERATED: Memory[Any] = Memory(8)


def recalled(make: Callable[..., Any], game: AnyGame, others: str) -> Any:
    """`make(game, others)`, remembered."""
    return _ENUMERATED.recall(game, lambda: make(game, others), make, others)
