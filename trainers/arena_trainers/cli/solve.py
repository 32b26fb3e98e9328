"""The command `arena solve`."""

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

import arena_envs
from arena_envs import solvers
from arena_envs.game import AnyGame
from arena_envs.solvers import refuse_hopeless
from arena_trainers.cli.arguments import read_params
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.options import GameArgument, JsonOption, ParamOption
from arena_trainers.cli.output import print_tables
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
        Path | None, typer.Option(help="Write the policy to this JSON file.")
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
        if out is not None and _named(rules, solver) == "minimax":
            raise ValueError(
                "minimax finds values but no policy for --out; give --solver cfr+ or lp"
            )
        refuse_hopeless(rules, max_states)
        start = time.perf_counter()
        name = _named(rules, solver)
        if name not in SOLVERS:
            raise ValueError(f"want a solver among {', '.join(SOLVERS)}, got {name!r}")
        table, values = SOLVERS[name](rules, iterations, max_states)
        found = {
            "game": repr(rules),
            "solver": name,
            "values": values or [*solvers.expected_returns(rules, table)],
            "nash_conv": None if table is None else solvers.nash_conv(rules, table),
            "num_information_states": None if table is None else len(table),
            "seconds": time.perf_counter() - start,
        }
    policy = [] if table is None else readable(rules, table)
    if out is not None:
        with running(f"nothing was written to {out}"):
            out.write_text(json.dumps({**found, "policy": policy}, indent=1))
    if as_json:
        typer.echo(json.dumps(found, indent=1))
    else:
        _show(found, policy)


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


def _cfr(kind: Any, game: AnyGame, iterations: int, most: int) -> Any:
    run = kind(game, max_states=most)
    run.run(iterations)
    return run.average_policy(), []


# game, iterations, most states -> policy and, without one, values
SOLVERS: dict[str, Callable[[AnyGame, int, int], Any]] = {
    "minimax": lambda g, _, most: (
        None,
        [*map(float, solvers.minimax(g, max_states=most).returns)],
    ),
    "lp": lambda g, _, most: (solvers.solve_zero_sum(g, max_states=most).table, []),
    "cfr": partial(_cfr, solvers.CFR),
    "cfr+": partial(_cfr, solvers.CFRPlus),
    "joint": lambda g, _, most: (
        solvers.optimal_joint_policy(g, max_states=most).table,
        [],
    ),
}


def _show(found: Mapping[str, Any], policy: list[dict[str, Any]]) -> None:
    console = Console()
    values = ", ".join(f"{value:.6f}" for value in found["values"])
    console.print(
        f"{found['game']} by {found['solver']} in {found['seconds']:.2f} s",
        markup=False,
    )
    console.print(f"expected returns: {values}", highlight=False)
    if found["nash_conv"] is not None:
        console.print(f"NashConv: {found['nash_conv']:.6g}", highlight=False)
        console.print(f"information states: {found['num_information_states']}")
    if 0 < len(policy) <= MAX_SHOWN:
        table = Table("seat", "reads", "plays")
        for row in policy:
            played = "\n".join(f"{p:6.1%} {text}" for text, p in row["actions"].items())
            table.add_row(str(row["seat"]), row["text"], played)
        print_tables([table])
