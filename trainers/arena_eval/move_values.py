"""Values of each legal action at recorded turns, by exact solvers and tables."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from arena_envs.game import (
    AnyGame,
    AnyState,
)
from arena_envs.solvers import (
    CFRPlus,
    InfosetKey,
    PerfectInformation,
    TooLarge,
    action_values,
    information_states,
    nash_conv,
    optimal_joint_policy,
)
from arena_eval.baselines import MAX_SOLVED_STATES
from arena_wrappers.records import Turn

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


class Search:
    """Exact values of a game of perfect information; raises TooLarge as its solver does."""

    accuracy = ROUNDING

    def __init__(self, game: AnyGame) -> None:
        self._game = game
        self._search = PerfectInformation(game, MAX_SOLVED_STATES)
        self._search.solve(game.initial_state())
        self._known: dict[Any, list[float]] = {}
        opposed = game.num_players == 2 and game.zero_sum
        name = "minimax" if opposed else "backward induction"
        self.reference = f"all seats play best from here on ({name}, exact)"

    def values(self, state: AnyState) -> list[float]:
        """The value of each legal action for the seat to move."""
        if state not in self._known:
            game, seat = self._game, self._game.current_player(state)
            self._known[state] = [
                self._search.solve(game.apply(state, action)).returns[seat]
                for action in game.legal_actions(state)
            ]
        return self._known[state]

    def mix(self, state: AnyState) -> list[float]:
        """The same probability for each best action."""
        values = self.values(state)
        best = [max(values) - value < ROUNDING for value in values]
        return [is_best / sum(best) for is_best in best]


class MoveValueTable:
    """Values of actions under a reference policy, and its probabilities, by information state.

    `accuracy` is how far values may be off: the NashConv of an equilibrium.
    """

    def __init__(
        self,
        game: AnyGame,
        rows: Mapping[InfosetKey, Sequence[float]],
        policy: Mapping[InfosetKey, Sequence[float]],
        reference: str,
        accuracy: float = ROUNDING,
    ) -> None:
        self._game, self.rows, self.policy = game, rows, policy
        self.accuracy = accuracy
        self.reference = f"the others have played by {reference}, and all go on by it"

    def values(self, state: AnyState) -> list[float] | None:
        """The value of each legal action; None where the reference never leads."""
        seat = self._game.current_player(state)
        row = self.rows[seat, self._game.information_state(state, seat)]
        return None if any(map(math.isnan, row)) else [float(value) for value in row]

    def mix(self, state: AnyState) -> list[float]:
        """The probability of each legal action under the reference."""
        seat = self._game.current_player(state)
        row = self.policy[seat, self._game.information_state(state, seat)]
        return [float(chance) for chance in row]


Source = Search | MoveValueTable | str  # of the values of a game, or why there are none


def source_of(game: AnyGame) -> Source:
    """What has the values of a game; raises ValueError for one too large, or not enumerable."""
    if game.num_actions is None:
        return LANGUAGE
    if game.information == "perfect" and not game.simultaneous:
        return Search(game)
    return _table_of(game)


class MoveSolver:
    """Solves the games of a page: `MAX_GAMES` of them, each once.

    | Game of at most `MAX_SOLVED_STATES` states | Values |
    |---|---|
    | perfect information, one seat at a time | exact |
    | cooperative | under a best joint policy |
    | other | under an equilibrium that CFR+ finds |

    Larger games and language games have no values. `sources` has what `source_of` found before,
    by type and representation of a game.
    """

    def __init__(
        self, sources: Mapping[tuple[type, str], Source] | None = None
    ) -> None:
        self._games = {**(sources or {})}
        self._num_tried = 0

    def solve(
        self, game: AnyGame | None, turns: Sequence[Turn], states: Sequence[Any]
    ) -> Solved:
        """The values at turns of an episode, by the state before each; no rules, no values."""
        none = [None] * len(turns)
        if game is None:
            return Solved(None, "the episode cannot be replayed", none)
        key = (type(game), repr(game))
        try:
            if key not in self._games:
                self._games[key] = self._made(game)
            return _solved(game, self._games[key], turns, states)
        except TooLarge:
            self._games[key] = TOO_LARGE
        except Exception as error:
            if is_built_in(game):
                raise
            self._games[key] = f"{type(error).__name__}: {error}"
        return Solved(None, str(self._games[key]), none)

    def _made(self, game: AnyGame) -> Source:
        if game.num_actions is not None:
            if self._num_tried == MAX_GAMES:
                return TOO_MANY
            self._num_tried += 1
        return source_of(game)


def _solved(
    game: AnyGame, solver: Source, turns: Sequence[Turn], states: Sequence[Any]
) -> Solved:
    if isinstance(solver, str):
        return Solved(None, solver, [None] * len(turns))
    turn_values = []
    for turn, state in zip(turns, states, strict=False):  # the last state is the end
        values = solver.values(state)
        turn_values.append(
            None if values is None else _move_values(game, state, turn, values, solver)
        )
    fault = None if all(turn_values) else UNREACHED
    return Solved(solver.reference if any(turn_values) else None, fault, turn_values)


def _table_of(game: AnyGame) -> MoveValueTable | str:
    """The values of a small game, or why it has no reference; raises as `source_of`."""
    information_states(game, MAX_SOLVED_STATES)
    if game.kind == "cooperative":
        try:
            joint = optimal_joint_policy(game, max_states=MAX_SOLVED_STATES)
        except TooLarge:
            return "the game has too many joint plans to find the best one"
        rows = action_values(game, joint.table, MAX_SOLVED_STATES)
        return MoveValueTable(
            game, rows, joint.table, f"a best joint policy (return {joint.value:g})"
        )
    solver = CFRPlus(game, MAX_SOLVED_STATES)
    solver.run(NUM_ITERATIONS)
    average = solver.average_policy()
    conv = nash_conv(game, average, MAX_SOLVED_STATES)
    if conv > NEAR * (game.max_return - game.min_return):
        return f"CFR+ found no equilibrium (NashConv {conv:.2g})"
    rows = action_values(game, average, MAX_SOLVED_STATES)
    description = f"CFR+ of {NUM_ITERATIONS:,} iterations, NashConv {conv:.1g}"
    return MoveValueTable(
        game, rows, average, f"an equilibrium ({description})", max(conv, ROUNDING)
    )


def _move_values(
    game: AnyGame,
    state: AnyState,
    turn: Turn,
    values: Sequence[float],
    solver: Search | MoveValueTable,
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


def is_built_in(game: AnyGame) -> bool:
    """Whether the rules are ours; those of plug-ins may raise anything."""
    return type(game).__module__.startswith("arena_envs.")
