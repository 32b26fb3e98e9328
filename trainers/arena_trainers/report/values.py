"""Further figures of recorded turns: other estimators' advantages, values of each legal action."""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from arena_envs.game import AnyGame
from arena_envs.solvers import (
    CFRPlus,
    Key,
    PerfectInformation,
    TooLarge,
    action_values,
    information_states,
    nash_conv,
    optimal_joint_policy,
)
from arena_trainers.credit import FlatPoolWarning
from arena_trainers.credit.export import credited
from arena_trainers.evaluate.baselines import MAX_SOLVED_STATES
from arena_trainers.report.episodes import Frames, Recorded, is_built_in, printable
from arena_wrappers import Episode, Turn

# they need no columns but those of records
ESTIMATORS = ("random_effects", "mars", "mars_loo", "grpo", "dr_grpo", "rloo", "rae")

Estimates = dict[str, list[float | None] | str]


def estimates_of(recorded: Sequence[Recorded]) -> list[Estimates]:
    """The advantages of each episode's turns by each of `ESTIMATORS`, with default options.

    The episodes of a source are one batch. Training compared whole batches, of which a run
    stores a few groups: estimators whose pools are larger than a group give other values
    here than in training.

    Returns:
        For each episode, by name of the estimator: one advantage per turn, None for turns
        of policies without credit; or why the estimator refuses the episodes. Empty for
        episodes of a source without credit.
    """
    found: list[Estimates] = [{} for _ in recorded]
    sources: dict[str, list[int]] = {}
    for number, line in enumerate(recorded):
        sources.setdefault(line.source, []).append(number)
    for numbers in sources.values():
        members = [recorded[number] for number in numbers]
        policies = {
            turn.policy
            for line in members
            for turn, earned in zip(
                line.rollout.episode.turns, line.rollout.credit, strict=True
            )
            if earned is not None
        }
        for name in ESTIMATORS if policies else ():
            values = _estimate(members, name, policies)
            for place, number in enumerate(numbers):
                found[number][name] = (
                    values if isinstance(values, str) else values[place]
                )
    return found


def _estimate(
    members: Sequence[Recorded], name: str, policies: set[str]
) -> list[list[float | None]] | str:
    """The advantages by episode and turn, or why there are none."""
    episodes: list[Any] = [line.rollout.episode for line in members]
    try:
        with (
            warnings.catch_warnings()
        ):  # few stored groups have flat pools; zeros show it
            warnings.simplefilter("ignore", FlatPoolWarning)
            trajectories = credited(
                episodes, name, policies=policies, columns=None, within_turn="uniform"
            )
    except ValueError as error:
        return str(error)
    advantages = {
        id(one.turn): one.advantage
        for trajectory in trajectories
        for one in trajectory.turns
    }
    return [[advantages.get(id(turn)) for turn in e.turns] for e in episodes]


MAX_GAMES = 8  # that a page solves; each takes up to 2 s of CPU time
NUM_ITERATIONS = 1000  # of CFR+
NEAR = 0.01  # largest NashConv of an equilibrium, over the range of returns
ROUNDING = 1e-9  # accuracy of exact values
LARGE = 0.05  # smallest regret to point out, over the range of returns

LANGUAGE = "a language game has no list of actions"
TOO_LARGE = f"the game has more than {MAX_SOLVED_STATES:,} states"
TOO_MANY = f"this page has solved {MAX_GAMES} other games, its limit"
UNREACHED = "the reference never leads here"


class MoveValues(NamedTuple):
    """The values of the legal actions at a turn, for the seat to move.

    Attributes:
        actions: canonical texts of the legal actions.
        values: expected return of the seat after each action; 0 if it is smaller than
            the accuracy of the solver, and so is the regret.
        played: which action was played; None if none was.
        regret: the largest value less that of the action played; None if the reply was
            invalid, so that the seat chose no action.
        is_large: whether the regret is at least `LARGE` times the range of returns.
        mix: the reference's probability of each action; where it is a search, the same for
            each best action.
    """

    actions: Sequence[str]
    values: Sequence[float]
    played: int | None
    regret: float | None
    is_large: bool
    mix: Sequence[float]


class Solved(NamedTuple):
    """The values at all turns of an episode.

    Attributes:
        reference: how everybody plays in these values; None if no turn has values.
        fault: why some turns, or all, have no values; None if all have.
        turns: one entry per turn; None for a turn without values.
    """

    reference: str | None
    fault: str | None
    turns: Sequence[MoveValues | None]


class MoveSolver:
    """Solves the games of a page: `MAX_GAMES` of them, each once.

    | Game of at most `MAX_SOLVED_STATES` states | Values |
    |---|---|
    | perfect information, one seat at a time | exact |
    | cooperative | under a best joint policy |
    | other | under an equilibrium that CFR+ finds |

    Larger games and language games have no values.
    """

    def __init__(self) -> None:
        self._games: dict[tuple[type, str], _Search | _Table | str] = {}
        self._num_tried = 0

    def solve(self, episode: Episode, frames: Frames) -> Solved:
        """The values at the turns of an episode."""
        none = [None] * len(episode.turns)
        game = frames.game
        if game is None:
            return Solved(None, "the episode cannot be replayed", none)
        key = (type(game), repr(game))
        try:
            if key not in self._games:
                self._games[key] = self._made(game)
            return _solved(game, self._games[key], episode.turns, frames.states)
        except TooLarge:
            self._games[key] = TOO_LARGE
        except Exception as error:
            if is_built_in(game):
                raise
            self._games[key] = f"{type(error).__name__}: {error}"
        return Solved(None, str(self._games[key]), none)

    def _made(self, game: AnyGame) -> "_Search | _Table | str":
        """The source of the values of a game, or why there is none."""
        if game.num_actions is None:
            return LANGUAGE
        if self._num_tried == MAX_GAMES:
            return TOO_MANY
        self._num_tried += 1
        if game.information == "perfect" and not game.simultaneous:
            return _Search(game)
        return _table_of(game)


def _solved(
    game: AnyGame,
    solver: "_Search | _Table | str",
    turns: Sequence[Turn],
    states: Sequence[Any],
) -> Solved:
    if isinstance(solver, str):
        return Solved(None, solver, [None] * len(turns))
    found = []
    for turn, state in zip(turns, states, strict=False):  # the last state is the end
        values = solver.values(state)
        found.append(
            None if values is None else _move_values(game, state, turn, values, solver)
        )
    fault = None if all(found) else UNREACHED
    return Solved(solver.reference if any(found) else None, fault, found)


class _Search:
    """Exact values of a game of perfect information.

    Raises:
        TooLarge: the solver meets more than `MAX_SOLVED_STATES` states.
    """

    accuracy = ROUNDING

    def __init__(self, game: AnyGame) -> None:
        self._game = game
        self._search = PerfectInformation(game, MAX_SOLVED_STATES)
        self._search.solve(game.initial_state())
        self._known: dict[Any, list[float]] = {}
        opposed = game.num_players == 2 and game.zero_sum
        name = "minimax" if opposed else "backward induction"
        self.reference = f"all seats play best from here on ({name}, exact)"

    def values(self, state: Any) -> list[float]:
        """The value of each legal action for the seat to move."""
        if state not in self._known:
            game, seat = self._game, self._game.current_player(state)
            self._known[state] = [
                self._search.solve(game.apply(state, action)).returns[seat]
                for action in game.legal_actions(state)
            ]
        return self._known[state]

    def mix(self, state: Any) -> list[float]:
        """The same probability for each best action."""
        values = self.values(state)
        best = [max(values) - value < ROUNDING for value in values]
        return [is_best / sum(best) for is_best in best]


class _Table:
    """Values under a reference policy, by information state.

    Args:
        game: the rules.
        rows: the values.
        policy: the probabilities of the reference.
        reference: name of the policy.
        accuracy: how far values may be off; the NashConv of an equilibrium.
    """

    def __init__(
        self,
        game: AnyGame,
        rows: Mapping[Key, Sequence[float]],
        policy: Mapping[Key, Sequence[float]],
        reference: str,
        accuracy: float = ROUNDING,
    ) -> None:
        self._game, self._rows, self._policy = game, rows, policy
        self.accuracy = accuracy
        self.reference = f"the others have played by {reference}, and all go on by it"

    def values(self, state: Any) -> list[float] | None:
        """The value of each legal action; None where the reference never leads."""
        seat = self._game.current_player(state)
        row = self._rows[seat, self._game.information_state(state, seat)]
        return None if any(map(math.isnan, row)) else [float(value) for value in row]

    def mix(self, state: Any) -> list[float]:
        """The probability of each legal action under the reference."""
        seat = self._game.current_player(state)
        row = self._policy[seat, self._game.information_state(state, seat)]
        return [float(chance) for chance in row]


def _table_of(game: AnyGame) -> _Table | str:
    """The values of a small game, or why it has no reference.

    Raises:
        ValueError: the game is too large, or not enumerable.
    """
    information_states(game, MAX_SOLVED_STATES)
    if game.kind == "cooperative":
        try:
            joint = optimal_joint_policy(game, max_states=MAX_SOLVED_STATES)
        except TooLarge:
            return "the game has too many joint plans to find the best one"
        rows = action_values(game, joint.table, MAX_SOLVED_STATES)
        return _Table(
            game, rows, joint.table, f"a best joint policy (return {joint.value:g})"
        )
    solver = CFRPlus(game, MAX_SOLVED_STATES)
    solver.run(NUM_ITERATIONS)
    average = solver.average_policy()
    conv = nash_conv(game, average, MAX_SOLVED_STATES)
    if conv > NEAR * (game.max_return - game.min_return):
        return f"CFR+ found no equilibrium (NashConv {conv:.2g})"
    rows = action_values(game, average, MAX_SOLVED_STATES)
    found = f"CFR+ of {NUM_ITERATIONS:,} iterations, NashConv {conv:.1g}"
    return _Table(game, rows, average, f"an equilibrium ({found})", max(conv, ROUNDING))


def _move_values(
    game: AnyGame,
    state: Any,
    turn: Turn,
    values: Sequence[float],
    solver: "_Search | _Table",
) -> MoveValues:
    legal, accuracy = list(game.legal_actions(state)), solver.accuracy
    played = legal.index(turn.action) if turn.action in legal else None
    regret = None
    if played is not None and turn.invalid is None:
        regret = _rounded(max(values) - values[played], accuracy)
    large = LARGE * (game.max_return - game.min_return)
    return MoveValues(
        [game.action_text(state, action) for action in legal],
        [_rounded(value, accuracy) for value in values],
        played,
        regret,
        regret is not None and regret >= large,
        solver.mix(state),
    )


def _rounded(value: float, accuracy: float) -> float:
    return 0.0 if abs(value) < accuracy else value


def value_lines(solved: Solved, place: int) -> list[str]:
    """The values at a turn as lines of text, largest first; the action played has a star."""
    moves = solved.turns[place]
    if moves is None:
        return [f"  values    none: {printable(solved.fault or '')}"]
    order = sorted(range(len(moves.values)), key=lambda i: -moves.values[i])
    texts = [
        f"{'*' if i == moves.played else ''}{printable(moves.actions[i])} "
        f"{moves.values[i]:+.4g}"
        for i in order
    ]
    lines = [f"  values    {', '.join(texts)}"]
    if moves.regret is not None:
        lines.append(f"  regret    {moves.regret:.4g}")
    return [*lines, f"{' ' * 12}expected returns if {solved.reference}"]
