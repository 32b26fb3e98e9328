"""The commands `arena games`, `show`, `check`, `new-game` and `solve`."""

import json
import keyword
import re
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import track
from rich.table import Table

import arena_envs
from arena_envs import registration, solvers
from arena_envs.checks import install_advice
from arena_envs.game import AnyGame
from arena_envs.solvers import refuse_hopeless
from arena_trainers.cli.options import (
    GameArgument,
    JsonOption,
    ParamOption,
    print_tables,
    read_params,
    running,
    usage_errors,
)
from arena_trainers.terminal import Console

SKELETONS = Path(__file__).with_name("skeletons")


def list_games(as_json: JsonOption = False) -> None:
    """List all games.

    Pays: whether rewards come at the end or on the way. Longest: most turns of an episode, all
    players together. Prompt: mean characters of a prompt in random play. All three are missing
    if the game's extra is not installed.
    """
    infos = arena_envs.game_infos()
    playing = track(infos, "playing", console=Console(stderr=True), transient=True)
    rows = [_row(info) for info in playing]
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    print_tables([_games_table(rows, Console().is_terminal)])
    if extras := ",".join(sorted({*arena_envs.missing_games().values()})):
        typer.echo(f"-: not installed; {install_advice(extras)}")


SIGNS = {"split": ("held_out", "*"), "pays": ("on_the_way", "+")}


def _games_table(rows: list[dict[str, Any]], terminal: bool) -> Table:
    """The games; a terminal's table has 80 columns, with signs for the split and `pays`."""
    names = [name for name in rows[0] if not (terminal and name in SIGNS)]
    caption = "* held out for evaluation, + pays on the way" if terminal else None
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        caption=caption,
        caption_justify="left",
    )
    for name in names:
        is_text = name in ("id", "kind", "information", "split", "pays")
        table.add_column(name, justify="left" if is_text else "right", no_wrap=True)
    for row in rows:
        cells = ["-" if row[name] is None else str(row[name]) for name in names]
        if terminal:
            found = (
                sign for name, (value, sign) in SIGNS.items() if row[name] == value
            )
            cells[0] += "".join(found)
        table.add_row(*cells)
    return table


def _row(info: arena_envs.GameInfo) -> dict[str, Any]:
    from arena_wrappers.prompts.pages import mean_prompt_length

    row = {
        "id": info.id,
        "kind": info.kind,
        "players": info.num_players,
        "information": info.information,
        "split": info.split,
        "pays": None,
        "longest": None,
        "prompt": None,
    }
    plugin = registration._entries[info.id].plugin
    try:
        game = arena_envs.make_game(info.id)
        length = round(mean_prompt_length(game))
        known = {"pays": getattr(game, "pays", None), "longest": game.max_turns}
        return {**row, **known, "prompt": length}
    except ImportError:
        if info.extra is None and plugin is None:
            raise
    except Exception as error:  # a plug-in may raise anything
        if plugin is None:
            raise
        what = f"{type(error).__name__}: {error}"
        typer.echo(f"game {info.id!r} of plug-in {plugin!r}: {what}", err=True)
    return row


def show_game(
    game: GameArgument,
    params: ParamOption = None,
) -> None:
    """Print the page of a game and a prompt of every player.

    Example: arena show kuhn_poker -p num_players=3
    """
    from arena_wrappers.prompts.pages import page_text

    with usage_errors():
        env = arena_envs.make(game, **read_params(params))
    typer.echo(page_text(env.game, [str(env.id)]))


def check(
    game: GameArgument,
    params: ParamOption = None,
    num_episodes: Annotated[
        int, typer.Option("--episodes", "-n", help="Most random episodes.", min=1)
    ] = 40,
) -> None:
    """Check that a game obeys the contract of games.

    GAME is an id, or module:Class for a game of your own. If the game breaks a rule, it
    prints the first broken rule and exits with status 1. It warns if the docstring of your
    module is not a page.

    Example: arena check my_package.my_game:MyGame -p size=3
    """
    from arena_envs.testing import OPT_OUT, BrokenPromise, check_game

    with usage_errors():
        rules = arena_envs.make_game(game, **read_params(params))
    with warnings.catch_warnings(record=True) as caught:
        try:
            check_game(rules, num_episodes=num_episodes)
        except BrokenPromise as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from None
    for warning in caught:
        text = str(warning.message).removesuffix(OPT_OUT)  # advice for Python only
        typer.echo(f"warning: {text}", err=True)
    typer.echo(f"{rules!r} keeps the contract")


def new_game(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    out: Annotated[Path, typer.Option(help="Folder of the two files.")] = Path(),
    hidden: Annotated[
        bool, typer.Option("--hidden", help="Players do not see each other's cards.")
    ] = False,
    talk: Annotated[
        bool, typer.Option("--talk", help="Players say something with their moves.")
    ] = False,
    players: Annotated[int, typer.Option(help="Number of players.", min=2, max=8)] = 2,
) -> None:
    """Write a small game with its page and its test, as a start for yours.

    Without options it is a race of two players; with them a game of cards.

    Examples:
      arena new-game capture_the_hill
      arena new-game liars_table --hidden --talk --players 3
    """
    with usage_errors():
        written = write_skeleton(name, out, hidden, talk, players)
    for path in written:
        typer.echo(f"wrote {path}")
    typer.echo(f"check it with: arena check {name}:{_class_name(name)}")
    typer.echo(f"play it with: arena play {name}:{_class_name(name)}")


def _check_name(name: str) -> None:
    is_snake = re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name)
    if not is_snake or keyword.iskeyword(name):
        raise ValueError(f"want a name in snake_case, such as my_game, got {name!r}")
    if registration.games.knows(name):
        raise ValueError(
            f"want a name for a new game, got {name!r}, which is a built-in game; give another "
            f"name, such as my_{name}"
        )


def write_skeleton(
    name: str,
    directory: Path,
    hidden: bool = False,
    talk: bool = False,
    players: int = 2,
) -> list[Path]:
    """Writes the module of a new game and its test; returns their paths.

    In a skeleton the line `[hidden]`, `[open]`, `[talk]` or `[mute]` begins lines for such a game
    only, `[all]` lines for all games.

    Raises:
        ValueError: the name is not in snake_case, or a file, a module of Python or a class
            in the skeleton has it; nothing is written.
    """
    _check_name(name)
    stem = "cards" if hidden or talk or players > 2 else "game"
    files = {f"{name}.py": f"{stem}.txt", f"test_{name}.py": f"test_{stem}.txt"}
    words = re.findall(r"\w+", (SKELETONS / f"{stem}.txt").read_text())
    if name in sys.stdlib_module_names or _class_name(name) in words:
        raise ValueError(
            f"{name!r} is a name of Python or of the skeleton; give another name"
        )
    paths = [directory / file for file in files]
    for path in paths:
        if path.exists():
            raise ValueError(f"{path} exists; give another name or --out")
    directory.mkdir(parents=True, exist_ok=True)
    for path, skeleton in zip(paths, files.values(), strict=True):
        text, kept = "", True
        for line in (SKELETONS / skeleton).read_text().splitlines(keepends=True):
            if mark := re.fullmatch(r"\[(\w+)\]\n", line):
                kinds = "hidden" if hidden else "open", "talk" if talk else "mute"
                kept = mark[1] in (*kinds, "all")
            elif kept:
                text += line
        for field, value in (
            *(("NAME", name), ("CLASS", _class_name(name))),
            *(("PLAYERS", str(players)), ("CARDS", str(players + 1))),
        ):
            text = text.replace(f"@{field}@", value)
        path.write_text(text)
    return paths


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


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
