"""The command `arena solve`, which solves small games exactly."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import arena_envs
from arena_envs import solvers
from arena_envs.game import AnyGame
from arena_envs.solvers import refuse_hopeless
from arena_trainers.cli.options import (
    AsJson,
    GameName,
    Iterations,
    MaxStates,
    Params,
    PolicyFile,
    Solver,
    read_params,
)
from arena_trainers.cli.usage import print_tables, running, usage_errors

MAX_SHOWN = 40  # information states; a larger policy is not printed


@dataclass(frozen=True)
class Solution:
    """The result of `arena solve`.

    Attributes:
        game: representation of the rules.
        solver: name of the solver.
        values: expected return of each seat when all play by the policy.
        nash_conv: NashConv of the policy; None if the solver finds values only.
        num_information_states: information states of all seats; None likewise.
        seconds: wall time.
    """

    game: str
    solver: str
    values: list[float]
    nash_conv: float | None
    num_information_states: int | None
    seconds: float


def add_commands(app: typer.Typer) -> None:
    """Adds the command to the `arena` command."""
    app.command("solve")(solve)


def solve(
    game: GameName,
    solver: Solver = "auto",
    iterations: Iterations = 1000,
    max_states: MaxStates = solvers.MAX_STATES,
    params: Params = None,
    out: PolicyFile = None,
    as_json: AsJson = False,
) -> None:
    """Solve a game exactly, if it is small enough to enumerate.

    auto: minimax for perfect information; otherwise joint (all joint plans) for cooperative
    games and cfr+ for others.

    Examples:
      arena solve kuhn_poker
      arena solve leduc_poker --solver cfr+ --iterations 2000 --out leduc.json
      arena solve connect_four -p rows=4 -p columns=4
    """
    with usage_errors():
        rules = arena_envs.make_game(game, **read_params(params))
        if out is not None and not out.parent.is_dir():
            raise ValueError(f"want --out in a folder that exists, got {out}")
        if out is not None and _named(rules, solver) == "minimax":
            raise ValueError(
                "minimax finds values but no policy for --out; give --solver cfr+ or lp"
            )
        refuse_hopeless(rules, max_states)
        start = time.perf_counter()
        name, table, values = solve_game(rules, solver, iterations, max_states)
        conv = None if table is None else solvers.nash_conv(rules, table)
    found = Solution(
        game=repr(rules),
        solver=name,
        values=values,
        nash_conv=conv,
        num_information_states=None if table is None else len(table),
        seconds=time.perf_counter() - start,
    )
    policy = [] if table is None else readable(rules, table)
    if out is not None:
        with running(f"nothing was written to {out}"):
            out.write_text(json.dumps({**asdict(found), "policy": policy}, indent=1))
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=1))
    else:
        _show(found, policy)


def solve_game(
    game: AnyGame, solver: str, iterations: int, max_states: int
) -> tuple[str, solvers.Table | None, list[float]]:
    """Name of the solver that was used, its policy (None if not tabular), and the values.

    Raises:
        ValueError: unknown solver, or the solver does not apply to the game.
    """
    solver = _named(game, solver)
    if solver not in SOLVERS:
        raise ValueError(f"want a solver among {', '.join(SOLVERS)}, got {solver!r}")
    table, values = SOLVERS[solver](game, iterations, max_states)
    if table is not None:
        values = list(solvers.expected_returns(game, table))
    return solver, table, values


def readable(game: AnyGame, table: solvers.Table) -> list[dict[str, Any]]:
    """Per information state: its text, and the probabilities of the actions."""
    rows = []
    for key, state in solvers.information_states(game).items():
        if key in table:
            legal = [game.action_text(state, a) for a in game.legal_actions(state)]
            chances = [float(p) for p in table[key]]
            actions = dict(zip(legal, chances, strict=True))
            text = game.observe(state, key[0])
            rows.append({"seat": key[0], "text": text, "actions": actions})
    return rows


def _named(game: AnyGame, solver: str) -> str:
    """The name of the solver; "auto" is replaced by its choice."""
    if solver != "auto":
        return solver
    if game.information == "perfect" and not game.simultaneous:
        return "minimax"
    return "joint" if game.kind == "cooperative" else "cfr+"


def _minimax(game: AnyGame, iterations: int, max_states: int) -> Any:
    found = solvers.minimax(game, max_states=max_states)
    return None, [float(value) for value in found.returns]


def _lp(game: AnyGame, iterations: int, max_states: int) -> Any:
    return solvers.solve_zero_sum(game, max_states=max_states).table, []


def _joint(game: AnyGame, iterations: int, max_states: int) -> Any:
    return solvers.optimal_joint_policy(game, max_states=max_states).table, []


def _cfr(game: AnyGame, iterations: int, max_states: int) -> Any:
    run = solvers.CFR(game, max_states=max_states)
    run.run(iterations)
    return run.average_policy(), []


def _cfr_plus(game: AnyGame, iterations: int, max_states: int) -> Any:
    run = solvers.CFRPlus(game, max_states=max_states)
    run.run(iterations)
    return run.average_policy(), []


SOLVERS: dict[str, Callable[[AnyGame, int, int], Any]] = {
    "minimax": _minimax,
    "lp": _lp,
    "cfr": _cfr,
    "cfr+": _cfr_plus,
    "joint": _joint,
}


def _show(found: Solution, policy: list[dict[str, Any]]) -> None:
    console = Console()
    values = ", ".join(f"{value:.6f}" for value in found.values)
    console.print(
        f"{found.game} by {found.solver} in {found.seconds:.2f} s", markup=False
    )
    console.print(f"expected returns: {values}", highlight=False)
    if found.nash_conv is not None:
        console.print(f"NashConv: {found.nash_conv:.6g}", highlight=False)
        console.print(f"information states: {found.num_information_states}")
    if 0 < len(policy) <= MAX_SHOWN:
        table = Table("seat", "reads", "plays")
        for row in policy:
            played = "\n".join(f"{p:6.1%} {text}" for text, p in row["actions"].items())
            table.add_row(str(row["seat"]), escape(row["text"]), escape(played))
        print_tables([table])
