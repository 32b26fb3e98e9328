"""The commands `arena credit audit` and `arena credit audit-game`."""

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from arena_envs.registry import imported
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.output import print_tables

if TYPE_CHECKING:
    from arena_credit.proofs.findings import Verdict
    from arena_envs.testing.twin import AnyTree


def audit_credit(
    function: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION")],
    signature: Annotated[
        str, typer.Option(help="How it is called: turns, trl, verl or episodes.")
    ] = "turns",
) -> None:
    """Compare an advantage function with the exact policy gradient.

    The function is called on the diagnostic games as its trainer would call it; see
    `arena_credit.proofs.findings`. Verdicts on the expected gradient, from good to bad:
    exact, scaled, direction (within 90 degrees), zero, reversed. Status 1: zero or reversed somewhere, or
    the function failed.

    Example: arena credit audit my_trainer.advantages:grpo --signature verl
    """
    from arena_credit import audit
    from arena_credit.proofs.diagnostics import DIAGNOSTICS

    with usage_errors():
        audit_report = audit(imported(function, "a function as module:name"), signature)  # type: ignore[arg-type]
    batches = list(dict.fromkeys(b for row in audit_report.rows for b in row.verdicts))
    table = Table("game", *batches, "noise")
    for row in audit_report.rows:
        if row.error:
            table.add_row(row.game, row.error)
        else:
            verdicts = [row.verdicts.get(batch) for batch in batches]
            noise = row.noise.get("2 + 2", row.noise.get("2"))
            cells = [*map(_verdict_cell, verdicts), _noise_cell(noise)]
            table.add_row(row.game, *cells)
    print_tables([table])
    if example := audit_report.counterexample:
        about = DIAGNOSTICS[example.game].about
        typer.echo(f"reversed in {example.game}, batch {example.batch}: {about}")
        lines = Table("seat", "knows", "action", "true gradient", "expected gradient")
        for seat, state, action, true_gradient, expected_gradient in example.lines:
            lines.add_row(
                str(seat),
                str(state),
                str(action),
                f"{true_gradient:+.4f}",
                f"{expected_gradient:+.4f}",
            )
        print_tables([lines])
    typer.echo(
        "columns: episodes of a batch (2 + 2: two groups); in brackets: cosine to the true "
        "gradient; noise: variance relative to rloo, scaled to the true gradient's size"
    )
    if all(row.error for row in audit_report.rows):
        typer.echo(f"it failed in every game: is it called as --signature {signature}?")
    typer.echo(f"worst: {audit_report.worst}")
    if audit_report.worst in ("zero", "reversed", "error"):
        raise typer.Exit(1)


def _verdict_cell(verdict: "Verdict | None") -> str:
    return "-" if verdict is None else f"{verdict.kind} ({verdict.cosine:.2f})"


def _noise_cell(noise: float | None) -> str:
    return "-" if noise is None or math.isinf(noise) else f"{noise:.3g}"


def audit_game(
    name: Annotated[str, typer.Argument(metavar="GAME")],
    twin: Annotated[
        str, typer.Option(help="The other game: an id, openspiel:NAME or module:Class.")
    ],
    num_episodes: Annotated[
        int,
        typer.Option("--episodes", "-n", help="Random episodes of large games.", min=1),
    ] = 200,
    actions: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Action of the twin for (state, action); by default the same.",
        ),
    ] = None,
) -> None:
    """Play two games side by side, and print the first difference with a script that shows it.

    Compared are who moves, legal actions, chance and returns: in all states of a small game, else
    in random play. Zero-sum games of two that differ in their payments alone are solved, too:
    what each is worth, and what policies lose in each. Status 1: the games differ.

    Example: arena credit audit-game "kuhn_poker(num_players=3)" --twin "openspiel:kuhn_poker(players=3)"
    """
    from arena_envs.testing import same_game
    from arena_envs.testing import twin as find_game

    action_map: dict[str, Any] = {}
    with usage_errors():
        first, second = find_game(name), find_game(twin)
        if actions is not None:
            action_map["action"] = imported(
                actions, "a function of a state and an action"
            )
    difference = same_game(first, second, num_episodes=num_episodes, **action_map)
    if difference is None:
        typer.echo(f"no difference between {name} and {twin} in the states compared")
        return
    typer.echo(f"{difference}\n\n{difference.reproduction(name, twin)}", err=True)
    if difference.what == "returns":
        _print_values(first, second, action_map)
    raise typer.Exit(1)


def _print_values(
    first: "AnyTree", second: "AnyTree", action_map: dict[str, Any]
) -> None:
    from arena_envs.testing import twin_values

    try:
        values = twin_values(first, second, **action_map)
    except (ImportError, ValueError) as error:
        typer.echo(f"values not computed: {error}")
        return
    table = Table("", "first game", "second game")
    for row, (first_value, second_value) in values.items():
        label = row if row == "value" else f"NashConv: {row}"
        table.add_row(label, f"{first_value:+.4f}", f"{second_value:+.4f}")
    print_tables([table])
