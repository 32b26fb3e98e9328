"""A policy beside an equilibrium of a small game."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from arena_envs.game import AnyGame
from arena_envs.solvers import (
    CFRPlus,
    InfosetKey,
    expected_returns,
    information_states,
    nash_conv,
)

MAX_COMPARED_STATES = 32  # information states
NUM_ITERATIONS = 1000  # of CFR+; 0.1 s in Kuhn poker
# largest NashConv of an equilibrium, over the range of returns
MAX_EQUILIBRIUM_NASH_CONV = 0.01


@dataclass(frozen=True)
class Decision:
    """A policy's action probabilities in one information state.

    Attributes:
        seat: the seat to move.
        text: what the seat reads.
        actions: canonical texts of the legal actions.
        policy: their probabilities under the policy.
        equilibrium: their probabilities at an equilibrium; None if none was found.
    """

    seat: int
    text: str
    actions: list[str]
    policy: list[float]
    equilibrium: list[float] | None


@dataclass(frozen=True)
class Comparison:
    """A policy and an equilibrium of a game.

    Attributes:
        game: name of the game.
        decisions: by seat, then by what it reads.
        values: return of each seat at this equilibrium; None if none was found.
        nash_conv: NashConv of this equilibrium, which is approximate; None if none was found.
    """

    game: str
    decisions: list[Decision]
    values: list[float] | None
    nash_conv: float | None


def compare_with_equilibrium(
    name: str, game: AnyGame, policy: Mapping[InfosetKey, Sequence[float]]
) -> Comparison | None:
    """The comparison; None in a game of more than `MAX_COMPARED_STATES` information states.

    The equilibrium is the average policy of CFR+ if its NashConv is at most `MAX_EQUILIBRIUM_NASH_CONV` times the
    range of returns. In games of more than two seats or of general sum, CFR+ may find none.

    Args:
        name: name of the game.
        game: the rules, small enough to enumerate.
        policy: the action probabilities of the policy, by information state.
    """
    states = information_states(game)
    if not 0 < len(states) <= MAX_COMPARED_STATES:
        return None
    solver = CFRPlus(game)
    solver.run(NUM_ITERATIONS)
    average = solver.average_policy()
    conv = nash_conv(game, average)
    is_near = conv <= MAX_EQUILIBRIUM_NASH_CONV * (game.max_return - game.min_return)
    try:
        order = sorted(states.items(), key=lambda item: item[0])
    except TypeError:  # information states that cannot be compared
        order = sorted(states.items(), key=lambda item: item[0][0])
    decisions = [
        Decision(
            seat=key[0],
            text=" ".join(game.observe(state, key[0]).split()),
            actions=[game.action_text(state, a) for a in game.legal_actions(state)],
            policy=[float(p) for p in policy[key]],
            equilibrium=[float(p) for p in average[key]] if is_near else None,
        )
        for key, state in order
    ]
    values = [float(v) for v in expected_returns(game, average)]
    return Comparison(
        name, decisions, values if is_near else None, conv if is_near else None
    )
