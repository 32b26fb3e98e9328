"""A policy compared with an equilibrium, in games of few information states."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich import box
from rich.markup import escape
from rich.table import Table

from arena_envs.game import AnyGame
from arena_envs.solvers import (
    CFRPlus,
    Key,
    expected_returns,
    information_states,
    nash_conv,
)

MAX_SHOWN = 32  # information states
NUM_ITERATIONS = 1000  # of CFR+; 0.1 s in Kuhn poker
NEAR = 0.01  # largest NashConv of an equilibrium, over the range of returns


class Decision(NamedTuple):
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

    @property
    def beside(self) -> list[float | None]:
        """The equilibrium's probabilities; None for every action if none was found."""
        return (
            [None] * len(self.actions)
            if self.equilibrium is None
            else [*self.equilibrium]
        )


class Comparison(NamedTuple):
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


def beside_equilibrium(
    name: str, game: AnyGame, policy: Mapping[Key, Sequence[float]]
) -> Comparison | None:
    """The comparison; None in a game of more than `MAX_SHOWN` information states.

    The equilibrium is the average policy of CFR+ if its NashConv is at most `NEAR` times the
    range of returns. In games of more than two seats or of general sum, CFR+ may find none.

    Args:
        name: name of the game.
        game: the rules, small enough to enumerate.
        policy: the action probabilities of the policy, by information state.
    """
    states = information_states(game)
    if not 0 < len(states) <= MAX_SHOWN:
        return None
    solver = CFRPlus(game)
    solver.run(NUM_ITERATIONS)
    average = solver.average_policy()
    conv = nash_conv(game, average)
    is_near = conv <= NEAR * (game.max_return - game.min_return)
    decisions = [
        Decision(
            seat=key[0],
            text=" ".join(game.observe(state, key[0]).split()),
            actions=[game.action_text(state, a) for a in game.legal_actions(state)],
            policy=[float(p) for p in policy[key]],
            equilibrium=[float(p) for p in average[key]] if is_near else None,
        )
        for key, state in _in_order(states)
    ]
    values = [float(v) for v in expected_returns(game, average)]
    return Comparison(
        name, decisions, values if is_near else None, conv if is_near else None
    )


def _in_order(states: Mapping[Key, Any]) -> list[tuple[Key, Any]]:
    """Sorted by seat, then by information state if these can be compared."""
    try:
        return sorted(states.items(), key=lambda item: item[0])
    except TypeError:
        return sorted(states.items(), key=lambda item: item[0][0])


def comparison_table(found: Comparison) -> Table:
    """The probabilities side by side; of two actions only the second is shown."""
    pair = _only_pair(found.decisions)
    what = f"P({pair[1]})" if pair else "probabilities"
    table = Table(
        title=escape(f"{found.game}: {what} of the trained policy and an equilibrium"),
        caption=_caption(found),
        box=box.SIMPLE_HEAD,
    )
    table.add_column("seat", justify="right")
    table.add_column("reads", overflow="fold")
    if not pair:
        table.add_column("action", overflow="fold")
    table.add_column("policy", justify="right", no_wrap=True)
    table.add_column("equilibrium", justify="right", no_wrap=True)
    for decision in found.decisions:
        rows = list(
            zip(decision.actions, decision.policy, decision.beside, strict=True)
        )
        for number, (action, own, other) in enumerate(rows[1:] if pair else rows):
            first = (str(decision.seat), escape(decision.text))
            cells = ("", "") if number else first
            named = () if pair else (escape(action),)
            numbers = f"{own:.3f}", "-" if other is None else f"{other:.3f}"
            table.add_row(*cells, *named, *numbers)
    return table


def draw_comparisons(found: Sequence[Comparison], path: Path) -> None:
    """Writes a picture with a panel per game and a pair of bars per probability."""
    from matplotlib.figure import Figure

    panels = [_bars(comparison) for comparison in found]
    heights = [1.2 + 0.3 * len(labels) for labels, _, _ in panels]
    figure = Figure(figsize=(9, sum(heights)), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for panel, comparison, (labels, own, other) in zip(
        axes, found, panels, strict=True
    ):
        places = range(len(labels))
        panel.barh([y - 0.2 for y in places], own, 0.4, label="trained policy")
        known = [(y, p) for y, p in zip(places, other, strict=True) if p is not None]
        if known:
            where, sizes = zip(*known, strict=True)
            panel.barh([y + 0.2 for y in where], sizes, 0.4, label="an equilibrium")
        panel.set_yticks(places, labels, fontsize=8)
        panel.invert_yaxis()
        panel.set_xlim(0, 1)
        pair = _only_pair(comparison.decisions)
        panel.set_xlabel(f"P({pair[1]})" if pair else "probability")
        panel.set_title(f"{comparison.game}: the policy and an equilibrium")
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
    figure.savefig(path, dpi=120)


def _bars(found: Comparison) -> tuple[list[str], list[float], list[float | None]]:
    """Labels, the policy's probabilities and the equilibrium's, one for each bar."""
    pair = _only_pair(found.decisions)
    labels: list[str] = []
    own: list[float] = []
    other: list[float | None] = []
    for decision in found.decisions:
        for number, action in enumerate(decision.actions):
            if pair and number == 0:
                continue
            labels.append(decision.text if pair else f"{decision.text} [{action}]")
            own.append(decision.policy[number])
            other.append(decision.beside[number])
    return labels, own, other


def _only_pair(decisions: Sequence[Decision]) -> list[str] | None:
    """The two actions of the game, if the same two are legal in every decision."""
    first = decisions[0].actions
    same = all(decision.actions == first for decision in decisions)
    return first if same and len(first) == 2 else None


def _caption(found: Comparison) -> str:
    if found.values is None:
        return "CFR+ found no equilibrium of this game"
    values = ", ".join(f"{value:.4f}" for value in found.values)
    return (
        f"One equilibrium (CFR+, returns {values}). Others may exist; NashConv 0 means "
        "the policy is one."
    )
