"""A tournament as a picture and as tables."""

from pathlib import Path

from rich import box
from rich.markup import escape
from rich.table import Table

from arena_trainers.extras import import_extra
from arena_trainers.tournament.payoffs import Payoff
from arena_trainers.tournament.ratings import Rating
from arena_trainers.tournament.summary import GameSummary, Tournament


def draw_matrix(found: Tournament, path: str | Path) -> None:
    """Writes the payoff matrices of all games as a PNG picture, side by side.

    Raises:
        ModuleNotFoundError: matplotlib is missing.
    """
    figure_module = import_extra("matplotlib.figure", "eval")
    import_extra("matplotlib.backends.backend_agg", "eval")
    size, num_games = len(found.policies), len(found.games)
    side = max(3.0, 0.9 * size + 1.5)  # inches
    figure = figure_module.Figure((side * num_games, side), layout="constrained")
    all_axes = figure.subplots(1, num_games, squeeze=False)[0]
    for axes, game in zip(all_axes, found.games, strict=True):
        means = [
            [float("nan") if cell is None else cell.mean for cell in row]
            for row in game.payoffs
        ]
        known = [abs(mean) for row in means for mean in row if mean == mean]
        limit = max(known) or 1.0
        axes.imshow(means, cmap="RdBu", vmin=-limit, vmax=limit)
        axes.set_title(game.game)
        axes.set_xticks(range(size), found.policies, rotation=45, ha="right")
        axes.set_yticks(range(size), found.policies)
        axes.set_xlabel("against")
        for y, row in enumerate(means):
            for x, mean in enumerate(row):
                if mean == mean:  # those who met
                    is_dark = abs(mean) > 0.6 * limit
                    color = "white" if is_dark else "black"
                    axes.text(
                        x, y, f"{mean:.2f}", ha="center", va="center", color=color
                    )
    figure.savefig(path, format="png", dpi=120)


def tournament_tables(found: Tournament) -> list[Table]:
    """The payoffs of each game, ratings, and forfeits if there were any."""
    tables = [_payoffs(found, game) for game in found.games]
    for game in found.games:
        if game.ratings is not None:
            tables.append(_ratings(game.ratings, game.game, game))
    if found.ratings is not None and len(found.games) > 1:
        tables.append(_ratings(found.ratings, "all competitive games", None))
    if found.forfeits:
        tables.append(_forfeits(found))
    return tables


def _payoffs(found: Tournament, game: GameSummary) -> Table:
    caption = "mean return of the row with the column in all other seats, 95 % interval"
    if game.cross_play is not None:
        cross = game.cross_play
        caption += (
            f"; self-play {cross.self_play:.3f} - cross-play {cross.cross_play:.3f} "
            f"= {cross.gap:.3f} ({cross.low:.3f} to {cross.high:.3f})"
        )
    table = Table(title=escape(game.game), caption=caption, box=box.SIMPLE_HEAD)
    table.add_column("", overflow="fold")
    for name in found.policies:
        table.add_column(escape(name), justify="right", overflow="fold")
    for name, row in zip(found.policies, game.payoffs, strict=True):
        table.add_row(escape(name), *map(_cell, row))
    return table


def _cell(payoff: Payoff | None) -> str:
    if payoff is None:
        return ""
    return f"{payoff.mean:.3f}\n{payoff.low:.3f} to {payoff.high:.3f}"


def _ratings(
    ratings: tuple[Rating, ...], title: str, game: GameSummary | None
) -> Table:
    caption = "Elo and OpenSkill count who did better, and not by how much"
    table = Table(
        title=escape(f"Ratings: {title}"), caption=caption, box=box.SIMPLE_HEAD
    )
    table.add_column("policy", overflow="fold")
    for name in ("Elo", "95 %", "OpenSkill", "sigma"):
        table.add_column(name, justify="right", no_wrap=True)
    nash = None if game is None else game.nash
    if nash is not None:
        table.add_column("Nash weight", justify="right", no_wrap=True)
        table.add_column("Nash average", justify="right", no_wrap=True)
    ranked = sorted(enumerate(ratings), key=lambda pair: -pair[1].elo)
    for index, one in ranked:
        cells = [
            escape(one.policy),
            f"{one.elo:.0f}",
            f"{one.elo_low:.0f} to {one.elo_high:.0f}",
            f"{one.mu:.2f}",
            f"{one.sigma:.2f}",
        ]
        if nash is not None:
            cells += [f"{nash.weights[index]:.3f}", f"{nash.ratings[index]:.3f}"]
        table.add_row(*cells)
    return table


def _forfeits(found: Tournament) -> Table:
    table = Table(title="Forfeits", box=box.SIMPLE_HEAD)
    for name in ("policy", "times", "reason"):
        table.add_column(name, overflow="fold")
    for policy, reasons in found.forfeits.items():
        for reason, count in reasons.items():
            table.add_row(escape(policy), str(count), escape(reason))
    return table
