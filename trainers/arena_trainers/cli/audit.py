"""The commands `arena audit credit` and `arena audit game`."""

from typing import Annotated, Any

import typer
from rich.table import Table

from arena_envs.doors import imported
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.options import group
from arena_trainers.cli.output import print_tables

audit_app = group("audit", "Check anyone's credit or game against exact ones.")


@audit_app.command("credit")
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

    Example: arena audit credit my_trainer.advantages:grpo --signature verl
    """
    from arena_credit import audit
    from arena_credit.proofs.diagnostics import DIAGNOSTICS

    with usage_errors():
        found = audit(imported(function, "a function as module:name"), signature)  # type: ignore[arg-type]
    batches = list(dict.fromkeys(b for row in found.rows for b in row.verdicts))
    table = Table("game", *batches)
    for row in found.rows:
        found_in = [row.verdicts.get(batch) for batch in batches]
        cells = ["-" if v is None else f"{v.kind} ({v.cosine:.2f})" for v in found_in]
        table.add_row(row.game, *([row.error] if row.error else cells))
    print_tables([table])
    if shown := found.counterexample:
        about = DIAGNOSTICS[shown.game].about
        typer.echo(f"reversed in {shown.game}, batch {shown.batch}: {about}")
        lines = Table("seat", "knows", "action", "true gradient", "expected gradient")
        for seat, state, action, true, got in shown.lines:
            lines.add_row(
                str(seat), str(state), str(action), f"{true:+.4f}", f"{got:+.4f}"
            )
        print_tables([lines])
    typer.echo("columns: episodes of a batch; in brackets: cosine to the true gradient")
    if all(row.error for row in found.rows):
        typer.echo(f"it failed in every game: is it called as --signature {signature}?")
    typer.echo(f"worst: {found.worst}")
    if found.worst in ("zero", "reversed", "error"):
        raise typer.Exit(1)


@audit_app.command("game")
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

    Example: arena audit game "kuhn_poker(num_players=3)" --twin "openspiel:kuhn_poker(players=3)"
    """
    from arena_envs.testing import same_game
    from arena_envs.testing import twin as game

    given: dict[str, Any] = {}
    with usage_errors():
        first, second = game(name), game(twin)
        if actions is not None:
            given["action"] = imported(actions, "a function of a state and an action")
    found = same_game(first, second, num_episodes=num_episodes, **given)
    if found is None:
        typer.echo(f"no difference between {name} and {twin} in the states compared")
        return
    typer.echo(f"{found}\n\n{found.reproduction(name, twin)}", err=True)
    if found.what == "returns":
        _print_values(first, second, given)
    raise typer.Exit(1)


def _print_values(first: Any, second: Any, maps: dict[str, Any]) -> None:
    from arena_envs.testing import twin_values

    try:
        values = twin_values(first, second, **maps)
    except (ImportError, ValueError) as error:
        typer.echo(f"values not computed: {error}")
        return
    table = Table("", "first game", "second game")
    for row, (one, other) in values.items():
        label = row if row == "value" else f"NashConv: {row}"
        table.add_row(label, f"{one:+.4f}", f"{other:+.4f}")
    print_tables([table])
