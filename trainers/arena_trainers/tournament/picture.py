"""A tournament as a picture and as tables."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from arena_trainers.evaluate.tables import nash_conv_table
from arena_trainers.extras import import_extra
from arena_trainers.tournament.round_robin import GameSummary, Payoff, Tournament

NAME = 20  # longest name without a line break
GAP = 2  # spaces between columns
STYLE: Any = {
    "box": box.SIMPLE_HEAD,
    "padding": (0, GAP - 1, 0, 0),
    "pad_edge": False,
    "show_edge": False,
    "caption_justify": "left",
}


def draw_matrix(found: Tournament, path: str | Path) -> None:
    """Draws the payoff matrices of all games, side by side, into a PNG file.

    Beside the matrix of a game is the exact NashConv of its policies, if it was measured.

    Raises:
        ModuleNotFoundError: matplotlib is missing.
    """
    figure_module = import_extra("matplotlib.figure", "eval")
    import_extra("matplotlib.backends.backend_agg", "eval")
    size = len(found.policies)
    panels = [
        (draw, game)
        for game in found.games
        for draw in (_draw_payoffs, *([_draw_nash_conv] if game.nash_conv else []))
    ]
    side = max(3.0, 0.9 * size + 1.5)  # inches
    figure = figure_module.Figure((side * len(panels), side), layout="constrained")
    all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (draw, game) in zip(all_axes, panels, strict=True):
        draw(axes, found.policies, game)
    figure.savefig(path, format="png", dpi=120)


def _draw_payoffs(axes: Any, policies: Sequence[str], game: GameSummary) -> None:
    means = [
        [float("nan") if cell is None else cell.mean for cell in row]
        for row in game.payoffs
    ]
    known = [abs(mean) for row in means for mean in row if mean == mean]
    limit = max(known) or 1.0
    axes.imshow(means, cmap="RdBu", vmin=-limit, vmax=limit)
    axes.set_title(game.game)
    axes.set_xticks(range(len(policies)), policies, rotation=45, ha="right")
    axes.set_yticks(range(len(policies)), policies)
    axes.set_xlabel("against")
    for y, row in enumerate(means):
        for x, mean in enumerate(row):
            if mean == mean:  # not NaN: the two policies met
                is_dark = abs(mean) > 0.6 * limit
                color = "white" if is_dark else "black"
                axes.text(x, y, f"{mean:.2f}", ha="center", va="center", color=color)


def _draw_nash_conv(axes: Any, policies: Sequence[str], game: GameSummary) -> None:
    """A point for each policy that has one, in the order of the matrix."""
    places = [i for i, name in enumerate(policies) if name in game.nash_conv]
    values = [game.nash_conv[policies[i]] for i in places]
    axes.plot(places, values, marker="o")
    axes.set_title(f"{game.game}: exact NashConv (0 = equilibrium)")
    axes.set_ylim(0, 1.08 * max(values) or 1.0)
    axes.set_xlim(-0.5, len(policies) - 0.5)
    axes.set_xticks(range(len(policies)), policies, rotation=45, ha="right")


def tournament_tables(found: Tournament, width: int | None = None) -> list[Table]:
    """Tables of payoffs, of exact NashConv, of ranks, and of forfeits if there were any.

    A matrix that is wider than `width` characters is split into several tables.
    """
    tables = [table for game in found.games for table in _payoffs(found, game, width)]
    tables += [nash_conv_table(g.game, g.nash_conv) for g in found.games if g.nash_conv]
    tables += [_ranking(found, game) for game in found.games]
    if len(found.games) > 1:
        tables.append(_ranking(found, None))
    if found.forfeits:
        tables.append(_forfeits(found))
    return tables


def _payoffs(found: Tournament, game: GameSummary, width: int | None) -> list[Table]:
    """A column for each opponent; each table has as many as fit into `width`."""
    names = found.policies
    cells = [[_cell(payoff) for payoff in row] for row in game.payoffs]
    lines = (line for row in cells for cell in row for line in cell.split("\n"))
    first = min(max(map(len, names)), NAME)
    wide = max(first, *map(len, lines))
    size = len(names)
    if width is not None:
        size = max(1, (width - first) // (wide + GAP))
    tables = []
    for start in range(0, len(names), size):
        title = game.game + (", continued" if start else "")
        table = Table(title=escape(title), **STYLE)
        table.add_column("", overflow="fold", width=first)
        for name in names[start : start + size]:
            table.add_column(
                escape(name), justify="right", overflow="fold", max_width=wide
            )
        for name, row in zip(names, cells, strict=True):
            table.add_row(escape(name), *row[start : start + size])
        tables.append(table)
    tables[-1].caption = _caption(game)
    return tables


def _caption(game: GameSummary) -> str:
    text = "mean return of the row, with the column in all other seats; 95 % interval"
    if game.cross_play is None:
        return text
    cross = game.cross_play
    return text + (
        f"\nself-play {cross.self_play:z.3f} - cross-play {cross.cross_play:z.3f} "
        f"= {cross.gap:z.3f} ({cross.low:z.3f} to {cross.high:z.3f})"
    )


def _cell(payoff: Payoff | None) -> str:
    if payoff is None:
        return ""
    return f"{payoff.mean:z.3f}\n{payoff.low:z.3f} to {payoff.high:z.3f}"


def _ranking(found: Tournament, game: GameSummary | None) -> Table:
    """The policies of a game, the best first; None: of all games, by their mean rank."""
    one = found if game is None else game
    columns: dict[str, Sequence[str]] = {}
    if game is None:
        columns["mean rank"] = [f"{rank:.2f}" for rank in found.mean_ranks]
        order, caption = found.mean_ranks, ["ordered by the mean rank over all games"]
    else:
        order = tuple(float(game.ranking.index(name)) for name in found.policies)
        caption = ["return: mean over the other policies, with its 95 % interval"]
        if game.nash is not None:
            caption[0] = f"ordered by Nash average, then return; {caption[0]}"
            columns["Nash average"] = [f"{x:z.3f}" for x in game.nash.ratings]
            columns["Nash weight"] = [f"{x:z.3f}" for x in game.nash.weights]
        columns["return"] = [_cell(mean) for mean in game.means]
    if one.ratings is not None:
        columns["Elo (95 %)"] = [
            f"{one.elo:z.0f}\n{one.elo_low:z.0f} to {one.elo_high:z.0f}"
            for one in one.ratings
        ]
        columns["OpenSkill"] = [f"{x.mu:z.2f}\n± {x.sigma:.2f}" for x in one.ratings]
        caption.append("Elo and OpenSkill count wins; they ignore the size of returns")
    where = "all games" if game is None else game.game
    title = escape(f"Ranking: {where}")
    table = Table(title=title, caption="\n".join(caption), **STYLE)
    width = min(max(map(len, found.policies)), NAME)
    table.add_column("policy", overflow="fold", min_width=width)
    for name, cells in columns.items():
        lines = [line for cell in cells for line in cell.split("\n")]
        widest = max(map(len, [*name.split(), *lines]))
        table.add_column(name, justify="right", min_width=widest, max_width=widest)
    for index in sorted(range(len(order)), key=order.__getitem__):
        cells = [column[index] for column in columns.values()]
        table.add_row(escape(found.policies[index]), *cells)
    return table


def _forfeits(found: Tournament) -> Table:
    table = Table(title="Forfeits", **STYLE)
    width = min(max(map(len, found.forfeits)), NAME)
    table.add_column("policy", overflow="fold", min_width=width)
    table.add_column("times", no_wrap=True)
    table.add_column("reason", overflow="fold")
    for policy, reasons in found.forfeits.items():
        for reason, count in reasons.items():
            table.add_row(escape(policy), str(count), escape(reason))
    return table


def records_of(found: Tournament) -> list[dict[str, Any]]:
    """The policies of each game, best first, as flat records for CSV."""
    return [
        _record(found, game, found.policies.index(name)) | {"rank": rank}
        for game in found.games
        for rank, name in enumerate(game.ranking, 1)
    ]


def _record(found: Tournament, game: GameSummary, index: int) -> dict[str, Any]:
    name, mean, nash = found.policies[index], game.means[index], game.nash
    return {
        **{"game": game.game, "rank": 0, "policy": name},
        **{"mean_return": mean.mean, "low": mean.low, "high": mean.high},
        "num_episodes": mean.num_episodes,
        "nash_average": nash and nash.ratings[index],
        "nash_weight": nash and nash.weights[index],
        "nash_conv": game.nash_conv.get(name),
        **(asdict(game.ratings[index]) if game.ratings else {}),
        **{
            f"against {other}": cell and cell.mean
            for other, cell in zip(found.policies, game.payoffs[index], strict=True)
        },
    }
