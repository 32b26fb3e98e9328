"""The commands `arena credit check`, `arena credit suggest` and `arena audit`."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from arena_envs import make_game
from arena_envs.doors import imported
from arena_envs.trust import no_code
from arena_trainers.cli.options import (
    as_command,
    group,
    print_tables,
    usage_errors,
)

if TYPE_CHECKING:
    from arena_credit.proofs.findings import Verdict
    from arena_credit.testing import Evidence

credit_app = group(
    "credit", "Check credit estimators, and choose one.", rich_markup_mode=None
)
audit_app = group("audit", "Check anyone's credit or game against exact ones.")

NUM_SAMPLES = 8  # of a start in `arena train`, by default


@credit_app.command("check")
@as_command
def check(
    name: str,
    num_batches: int = 40,
    variance: bool = False,
) -> None:
    """Check the claims of an estimator."""
    from arena_credit.by_name import find_estimator
    from arena_credit.proofs.findings import undefined
    from arena_credit.testing import BrokenPromise, check_estimator

    with usage_errors():
        found = find_estimator(name) if ":" in name else name
        find_estimator(found)
    try:
        with usage_errors():
            evidence = check_estimator(
                found, num_batches=num_batches, variance=variance
            )
    except BrokenPromise as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    print_tables(_tables(evidence))
    if missing := undefined(found):
        columns = ", ".join(missing)
        typer.echo(f"bias not measured: the diagnostic games have no column {columns}")
    kept = f"the claims of {evidence.name} hold on {num_batches} random batches"
    typer.echo(kept if missing else f"{kept} and on the diagnostic games")


def _tables(evidence: "Evidence") -> Iterable[Table]:
    from arena_credit.proofs.findings import has_chance

    found = asdict(evidence.found)
    if not evidence.findings:
        found |= dict.fromkeys(
            ("bias_two", "bias_infinite", "bias_shared_chance", "bootstraps")
        )
    table = Table("property", "claimed", "found")
    for field, claimed in asdict(evidence.claimed).items():
        table.add_row(field, _word(claimed), _word(found[field]))
    yield table
    if evidence.findings:
        sizes = ("of two", "cosine", "factor", "large", "cosine", "factor")
        table = Table("game", *sizes)
        shared = Table("game with chance", "shared by a group", "cosine", "factor")
        for game, finding in evidence.findings.items():
            table.add_row(
                game, *_words(finding.bias_two), *_words(finding.bias_infinite)
            )
            if has_chance(game):
                shared.add_row(game, *_words(finding.bias_shared_chance))
        yield table
        yield shared
    if evidence.noises:
        table = Table("game", "variance, relative to rloo")
        for game, noise in evidence.noises.items():
            table.add_row(game, f"{noise:.3f}")
        yield table


def _word(value: object) -> str:
    if isinstance(value, bool) or value in (None, math.inf):
        return "yes" if value is True else "-"
    if isinstance(value, float):
        return f"{value:.3g}"
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _words(verdict: "Verdict") -> tuple[str, str, str]:
    return verdict.kind, f"{verdict.cosine:.3f}", f"{verdict.factor:.3f}"


@credit_app.command("suggest")
@as_command
def suggest(
    games: list[str] | None = None,
    recipe: str | None = None,
    directory: Path | None = None,
    allow_code: bool = False,
) -> None:
    """Suggest the credit for some games, with the figures of the comparison."""
    from arena_trainers.cli.suggest import FILE, SHIPPED, read_advice
    from arena_trainers.cli.suggest import suggest as suggestions

    with usage_errors():
        is_file = recipe is not None
        with no_code(active=is_file and not allow_code):
            specs, used, group = _games_to_advise(games, recipe)
            rules = [(name, make_game(name, **params)) for name, params in specs]
        advice = read_advice(SHIPPED if directory is None else directory / FILE)
    for line in suggestions(rules, advice, used, group):
        typer.echo(line)


def _games_to_advise(
    games: Sequence[str] | None, recipe: str | None
) -> tuple[list[tuple[str, dict[str, Any]]], str | None, int | None]:
    """The id and parameters of each game, and the variant and group size of the recipe."""
    from arena_credit.by_name import with_options
    from arena_trainers.cli.suggest import DEFAULT, variant_name
    from arena_trainers.runs.recipe import load_recipe

    names = games or []
    if bool(names) == (recipe is not None):
        got = "both" if names else "neither"
        raise ValueError(
            f"want either --games or --recipe, got {got}; give the ids of games, as in "
            "--games kuhn_poker, or the name of a recipe"
        )
    if recipe is None:
        return [(name, {}) for name in names], None, None
    settings = load_recipe(recipe)
    specs = [
        (one, {}) if isinstance(one, str) else (one["id"], one.get("params", {}))
        for one in settings.get("games", ["kuhn_poker"])
    ]
    name, options = with_options(
        settings.get("credit", DEFAULT), settings.get("credit_args", {})
    )
    if "pool" in options:
        options["pool"] = tuple(options["pool"])
    used = variant_name(name, options)
    return specs, used, settings.get("num_generations", NUM_SAMPLES)


@audit_app.command("credit")
@as_command
def audit_credit(
    function: str,
    signature: str = "turns",
) -> None:
    """Compare an advantage function with the exact policy gradient."""
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
@as_command
def audit_game(
    name: str,
    twin: str,
    num_episodes: int = 200,
    actions: str | None = None,
) -> None:
    """Play two games side by side, and print the first difference with a script that shows it."""
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
