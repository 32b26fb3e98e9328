"""The command `arena solve`."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.table import Table

import arena_envs
from arena_envs import solvers
from arena_envs.game import AnyGame
from arena_envs.solvers import refuse_hopeless
from arena_trainers.cli.arguments import read_params
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.options import GameArgument, ParamOption
from arena_trainers.cli.output import JsonOption, print_tables
from arena_trainers.cli.progress import running
from arena_trainers.terminal import Console

MAX_SHOWN = 40  # information states; a larger policy is not printed


def solve(
    game: GameArgument,
    solver: Annotated[
        str, typer.Option(help="auto, minimax, lp, cfr, cfr+ or joint.")
    ] = "auto",
    iterations: Annotated[int, typer.Option(help="Iterations of CFR.", min=1)] = 1000,
    max_states: Annotated[
        int, typer.Option(help="Refuse games with more states than this.", min=1)
    ] = solvers.MAX_STATES,
    params: ParamOption = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the policy to this JSON file."),
    ] = None,
    as_json: JsonOption = False,
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
        name = _solver_name(rules, solver)
        if out is not None and name == "minimax":
            raise ValueError(
                "minimax finds values but no policy for --out; give --solver cfr+ or lp"
            )
        refuse_hopeless(rules, max_states)
        start = time.perf_counter()
        if name not in SOLVERS:
            raise ValueError(f"want a solver among {', '.join(SOLVERS)}, got {name!r}")
        with running("nothing was written", "solving") as bar:
            table, values = SOLVERS[name](rules, iterations, max_states, bar)
        if table is not None:
            values = [*solvers.expected_returns(rules, table)]
        facts = {
            "game": repr(rules),
            "solver": name,
            "values": values,
            "nash_conv": None if table is None else solvers.nash_conv(rules, table),
            "num_information_states": None if table is None else len(table),
            "seconds": time.perf_counter() - start,
        }
    policy = [] if table is None else readable_policy(rules, table)
    if out is not None:
        with running(f"nothing was written to {out}"):
            out.write_text(json.dumps({**facts, "policy": policy}, indent=1))
    if as_json:
        typer.echo(json.dumps(facts, indent=1))
    else:
        _show(facts, policy)


def readable_policy(game: AnyGame, table: solvers.InfosetTable) -> list[dict[str, Any]]:
    """Per information state: its text, and the probabilities of the actions."""
    rows = []
    for key, state in solvers.information_states(game).items():
        if key in table:
            seat, _ = key
            texts = [game.action_text(state, a) for a in game.legal_actions(state)]
            probabilities = [float(p) for p in table[key]]
            actions = dict(zip(texts, probabilities, strict=True))
            text = game.observe(state, seat)
            rows.append({"seat": seat, "text": text, "actions": actions})
    return rows


def _solver_name(game: AnyGame, solver: str) -> str:
    """The name of the solver; "auto" is replaced by its choice."""
    if solver != "auto":
        return solver
    if game.information == "perfect" and not game.simultaneous:
        return "minimax"
    return "joint" if game.kind == "cooperative" else "cfr+"


# takes the numbers of iterations done and in all
Progress = Callable[[int, int], object]


class SolverResult(NamedTuple):
    """What a solver finds: a policy, or without one the values of the seats."""

    table: solvers.InfosetTable | None
    values: Sequence[float] = ()


def _by_minimax(
    game: AnyGame, iterations: int, max_states: int, progress: Progress
) -> SolverResult:
    returns = solvers.minimax(game, max_states=max_states).returns
    return SolverResult(None, [float(value) for value in returns])


def _by_linear_program(
    game: AnyGame, iterations: int, max_states: int, progress: Progress
) -> SolverResult:
    return SolverResult(solvers.solve_zero_sum(game, max_states=max_states).table)


def _by_cfr(
    game: AnyGame, iterations: int, max_states: int, progress: Progress
) -> SolverResult:
    return _after(solvers.CFR(game, max_states=max_states), iterations, progress)


def _by_cfr_plus(
    game: AnyGame, iterations: int, max_states: int, progress: Progress
) -> SolverResult:
    return _after(solvers.CFRPlus(game, max_states=max_states), iterations, progress)


def _after(cfr: solvers.CFR, iterations: int, progress: Progress) -> SolverResult:
    """The average policy after some iterations."""
    for number in range(iterations):
        progress(number, iterations)
        cfr.run(1)
    return SolverResult(cfr.average_policy())


def _by_joint_plans(
    game: AnyGame, iterations: int, max_states: int, progress: Progress
) -> SolverResult:
    return SolverResult(solvers.optimal_joint_policy(game, max_states=max_states).table)


SOLVERS: Mapping[str, Callable[[AnyGame, int, int, Progress], SolverResult]] = {
    "minimax": _by_minimax,
    "lp": _by_linear_program,
    "cfr": _by_cfr,
    "cfr+": _by_cfr_plus,
    "joint": _by_joint_plans,
}


def _show(facts: Mapping[str, Any], policy: list[dict[str, Any]]) -> None:
    console = Console()
    values = ", ".join(f"{value:.6f}" for value in facts["values"])
    console.print(
        f"{facts['game']} by {facts['solver']} in {facts['seconds']:.2f} s",
        markup=False,
    )
    console.print(f"expected returns: {values}", highlight=False)
    if facts["nash_conv"] is not None:
        console.print(f"NashConv: {facts['nash_conv']:.6g}", highlight=False)
        console.print(f"information states: {facts['num_information_states']}")
    if 0 < len(policy) <= MAX_SHOWN:
        table = Table("seat", "reads", "plays")
        for row in policy:
            actions_text = "\n".join(
                f"{p:6.1%} {text}" for text, p in row["actions"].items()
            )
            table.add_row(str(row["seat"]), row["text"], actions_text)
        print_tables([table])
