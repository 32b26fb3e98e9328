"""The commands `arena audit credit` and `arena audit game`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

import arena_envs
from arena_envs.doors import imported
from arena_trainers.cli.options import (
    GameName,
    Params,
    print_tables,
    read_params,
    usage_errors,
)

if TYPE_CHECKING:
    from arena_trainers.credit.proofs.expectation import Verdict


def add_audit(app: typer.Typer) -> None:
    """Adds the commands to the `arena` command."""
    audit = typer.Typer(
        no_args_is_help=True, help="Check anyone's credit or game against exact ones."
    )
    audit.command("credit")(credit)
    audit.command("game")(game)
    app.add_typer(audit, name="audit")


def credit(
    function: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION")],
    signature: Annotated[
        str, typer.Option(help="How it is called: turns, trl, verl or episodes.")
    ] = "turns",
) -> None:
    """Compare an advantage function with the exact policy gradient.

    The function is called on the diagnostic games as its trainer would call it; see
    `arena_trainers.credit.proofs.audit`. Verdicts on the expected gradient, from good to bad:
    exact, scaled, direction (within 90 degrees), zero, reversed. Status 1: zero or reversed somewhere, or
    the function failed.

    Example: arena audit credit my_trainer.advantages:grpo --signature verl
    """
    from arena_trainers.credit import audit

    with usage_errors():
        found = audit(imported(function, "a function"), signature)  # type: ignore[arg-type]
    table = Table("game", "batches of two", "large group", "groups that share chance")
    for row in found.rows:
        cells = (row.two, row.large, row.shared)
        table.add_row(
            row.game, *([row.error, "", ""] if row.error else map(_word, cells))
        )
    print_tables([table])
    if shown := found.counterexample:
        typer.echo(f"reversed in {shown.game}: {shown.about}")
        lines = Table("seat", "knows", "action", "true gradient", "expected gradient")
        for seat, state, action, true, got in shown.lines:
            lines.add_row(
                str(seat), str(state), str(action), f"{true:+.4f}", f"{got:+.4f}"
            )
        print_tables([lines])
    typer.echo(f"worst: {found.worst}")
    if found.worst in ("zero", "reversed", "error"):
        raise typer.Exit(1)


def _word(verdict: "Verdict | None") -> str:
    return "-" if verdict is None else f"{verdict.kind} ({verdict.cosine:.2f})"


def game(
    name: GameName,
    twin: Annotated[
        str, typer.Option(help="The other game: an id, module:Class or openspiel:NAME.")
    ],
    params: Params = None,
    num_episodes: Annotated[
        int,
        typer.Option("--episodes", "-n", min=1, help="Random episodes of large games."),
    ] = 200,
    actions: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Action of the twin for (state, action); by default the same.",
        ),
    ] = None,
) -> None:
    """Play two games side by side, and print the first difference.

    Compared are who moves, legal actions, chance and returns: in all states of a small game, else
    in random play. Status 1: they differ.

    Example: arena audit game kuhn_poker --twin openspiel:kuhn_poker
    """
    from arena_envs.testing import same_game

    with usage_errors():
        first, second = arena_envs.make_game(name, **read_params(params)), _twin(twin)
        given: dict[str, Any] = {}
        if actions is not None:
            given["action"] = imported(actions, "a function of a state and an action")
    found = same_game(first, second, num_episodes=num_episodes, **given)
    if found is not None:
        typer.echo(str(found), err=True)
        raise typer.Exit(1)
    typer.echo(f"no difference between {first!r} and {twin}")


def _twin(name: str) -> Any:
    from arena_envs.testing import OpenSpielTwin

    kind, _, rest = name.partition(":")
    if kind == "openspiel":
        return OpenSpielTwin(rest)
    if ":" in name:
        return imported(name, "a class of a game")()
    return arena_envs.make_game(name)
