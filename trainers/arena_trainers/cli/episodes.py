"""Commands over recorded episodes and saved models: `arena replay`, `report`, `data`, `export`."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from arena_envs.trust import named_only
from arena_studio.report.episodes import (
    BadLine,
    Recorded,
    Stepper,
    count_lines,
    episode_lines,
    not_blank,
    read_lines,
)
from arena_studio.report.page import (
    EVALUATED,
    MATCHES,
    METRICS,
    SECONDS,
    RunFiles,
    follow,
    played_page,
    read_evaluation,
    read_runs,
    read_tournament,
    report_page,
    sheet,
    write_replay,
)
from arena_trainers.cli.options import (
    AllowCodeOption,
    check_out,
    print_tables,
    read_params,
    running,
    usage_errors,
)
from arena_trainers.data import (
    Origin,
    Selection,
    columns,
    held_out,
    joined,
    load_chat,
    only_prompt,
    origin_of,
    rows_to_dataset,
    select,
    write_rows,
)
from arena_trainers.data.columns import TEST, TRAIN, has_tokens
from arena_trainers.data.rows import GENERAL
from arena_trainers.data.selection import described
from arena_trainers.lm.models import adapter_base, saved_model
from arena_trainers.terminal import Console
from arena_wrappers.play import game_of
from arena_wrappers.records import write_whole

if TYPE_CHECKING:
    from arena_trainers.lm.chat import Chat


PRINTED, IN_PAGE = 4, 200  # episodes, unless --episodes is given
MAX_WARNINGS = 5
REPLAY_PAGE = (b"<!doctype html>", b"Made by arena replay.")  # what our files hold
PICTURE = (b"<svg ", b'class="f-paper"')


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    html: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write a page of replays.")
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Draw all turns of one episode.")
    ] = None,
    num_episodes: Annotated[
        int | None,
        typer.Option(
            "--episodes",
            "-n",
            help=f"Number of lines to show [default: {IN_PAGE} in a page, {PRINTED} printed, all in a terminal].",
            min=1,
        ),
    ] = None,
    first: Annotated[
        int, typer.Option(help="First line to show, counted from 1.", min=1)
    ] = 1,
    seen_by: Annotated[
        str,
        typer.Option(metavar="AGENT", help="Whose view --svg draws: all, or player_0."),
    ] = "all",
    full: Annotated[
        bool,
        typer.Option("--full", help="Show whole prompts, not only the last message."),
    ] = False,
    allow_code: AllowCodeOption = False,
) -> None:
    """Replay recorded episodes: in the terminal, as a page, or as a picture.

    Without --html and --svg, keys step through the turns; in a pipe the turns are printed.
    FILE has JSON lines: episodes.jsonl or rollouts/step-N.jsonl of a run folder, the --out
    file of eval or play, or results.jsonl of a tournament. Only rollouts have credit.

    For example:

    arena replay runs/seed1/episodes.jsonl

    arena replay runs/seed1/rollouts/step-400.jsonl --html replay.html
    """
    with usage_errors(), named_only(allow_code=allow_code):
        _check_options(file, html, svg, seen_by)
        if html is not None:
            _write_page(file, html, first, num_episodes or IN_PAGE)
        elif svg is not None:
            (line,) = _known(read_lines(file, first - 1, 1), file)
            if isinstance(line, Recorded):
                write_whole(svg, sheet(line.rollout.episode, seen_by))
                typer.echo(f"{svg}: the episode of line {line.line}")
        elif sys.stdin.isatty() and sys.stdout.isatty():
            step_through(_known(read_lines(file, first - 1, num_episodes), file), full)
        else:
            _print(file, first, num_episodes or PRINTED, full)


def _check_options(
    file: Path, html: Path | None, svg: Path | None, seen_by: str
) -> None:
    if html is not None and svg is not None:
        raise ValueError("want --html or --svg, got both; give one of them")
    if seen_by != "all" and svg is None:
        raise ValueError(
            f"want --seen-by with --svg only, got --seen-by {seen_by}; add --svg OUT, "
            "or choose the view in the page or with the key v in a terminal"
        )
    if out := html or svg:
        if file.exists() and out.exists() and out.samefile(file):
            raise ValueError(f"{out} is the file of episodes itself; give another OUT")
        check_out(out, REPLAY_PAGE if html else PICTURE, "arena replay")


def step_through(
    lines: Sequence[Recorded | BadLine],
    full: bool,
    read_key: Callable[[], str] = typer.getchar,
) -> None:
    """Shows one turn at a time, until the reader quits."""
    stepper, terminal = Stepper(lines, full), Console()
    while not stepper.is_over:
        terminal.clear()
        typer.echo(stepper.screen())
        try:
            stepper.press(read_key())
        except (EOFError, KeyboardInterrupt):
            return


def _known(lines: Iterator[Recorded | BadLine], file: Path) -> list[Recorded | BadLine]:
    """The lines, of which at least one must be an episode.

    Raises:
        ValueError: none is; the message has the first fault.
    """
    found = list(not_blank(lines))
    if not found and next(not_blank(read_lines(file)), None) is None:
        raise ValueError(f"the file {file} holds no episodes; give another FILE")
    if not found:
        raise ValueError(
            f"want --first of at most the number of lines in {file}, "
            f"{count_lines(file)}"
        )
    bad = [line for line in found if isinstance(line, BadLine)]
    if len(bad) == len(found):
        raise ValueError(f"{file}, line {bad[0].line}: {bad[0].reason}")
    return found


def _write_page(file: Path, out: Path, first: int, count: int) -> None:
    lines = _known(read_lines(file, first - 1, count), file)
    left = count_lines(file) - lines[-1].line
    write_replay(out, lines, title=file.name, left=left)
    bad = [line for line in lines if isinstance(line, BadLine)]
    for line in bad[:MAX_WARNINGS]:
        typer.echo(f"line {line.line} is no episode: {line.reason}", err=True)
    if len(bad) > MAX_WARNINGS:
        typer.echo(f"{len(bad) - MAX_WARNINGS} more lines are no episodes", err=True)
    typer.echo(f"{out}: {len(lines) - len(bad)} episodes")
    _tell_of_the_rest(left, lines)


def _print(file: Path, first: int, count: int, full: bool) -> None:
    lines = _known(read_lines(file, first - 1, count), file)
    faults = {}
    for line in lines:
        if isinstance(line, Recorded):
            try:
                game_of(line.rollout.episode)
            except (ImportError, ValueError) as error:
                faults[" ".join(str(error).split())] = True
    for fault in faults:
        typer.echo(f"note: no replay, the prompts only: {fault}", err=True)
    for line in lines:
        if isinstance(line, BadLine):
            typer.echo(f"--- line {line.line} is no episode: {line.reason}\n")
            continue
        for text in episode_lines(line, full):
            typer.echo(text)
    _tell_of_the_rest(count_lines(file) - lines[-1].line, lines)


def _tell_of_the_rest(left: int, lines: Sequence[Recorded | BadLine]) -> None:
    """Tells the number of lines that follow those shown."""
    if left:
        following = lines[-1].line + 1
        typer.echo(f"{left} more: --first {following} shows the next ones")


IN_FOLDER = "report.html"
REPORT_PAGE = (b"<!doctype html>", b"Made by arena report.")  # what our files hold


def report(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="Folders of runs, a folder of a tournament, or a file of episodes.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT",
            help="The page [default: report.html in the folder, or FILE.html].",
        ),
    ] = None,
    groups: Annotated[
        int,
        typer.Option(
            help=f"Groups of episodes to show of each step; of evaluations and tournaments, {EVALUATED} episodes for each.",
            min=1,
        ),
    ] = 2,
    go_on: Annotated[
        bool,
        typer.Option(
            "--follow",
            help=f"Write the page anew, at most every {SECONDS} s, until the runs end.",
        ),
    ] = False,
    allow_code: AllowCodeOption = False,
) -> None:
    """Write a page about runs, an evaluation or a tournament: results, curves, replays.

    The page is one HTML file that loads nothing. Up to six runs are laid over each other. A
    run may still be going: with --follow, the page is live until the run ends or you press
    Ctrl-C. What is missing is named in the page. No file but an earlier report is
    overwritten.

    For example:

    arena report runs/seed1

    arena report runs/seed1 runs/seed2 --out seeds.html

    arena report runs/seed1 --follow

    arena report mars.jsonl
    """
    with usage_errors(), named_only(allow_code=allow_code):
        _check_inputs(paths)
        path = _page(paths, out)
        check_out(path, REPORT_PAGE, "arena report")
        are_runs = len(paths) > 1 or (paths[0] / METRICS).is_file()
        if go_on and are_runs:
            typer.echo(
                f"{path}: written at most every {SECONDS} s until the run ends; Ctrl-C stops "
                "it"
            )
            found, have_ended = follow(path, paths, groups)
            _tell(path, found)
            if not have_ended:
                raise typer.Exit(130)
        elif are_runs:
            found = read_runs(paths, groups)
            write_whole(path, report_page(*found))
            _tell(path, found)
        elif go_on:
            raise ValueError(
                "want --follow with folders of runs, found no metrics.jsonl in "
                f"{str(paths[0])!r}; a run writes it at its first log, so try again "
                "then"
            )
        else:
            _write_played(paths[0], path, EVALUATED * groups)


def _check_inputs(paths: Sequence[Path]) -> None:
    """Refuses what is missing or cannot be combined, before errors about OUT."""
    for path in paths:
        if not path.exists():
            raise ValueError(
                "want a run folder, a tournament folder or a file of episodes, found "
                f"none at {str(path)!r}; give one such as runs/first"
            )
    if len(paths) > 1 and not all((path / METRICS).is_file() for path in paths):
        others = ", ".join(str(p) for p in paths if not (p / METRICS).is_file())
        raise ValueError(
            "want run folders (with metrics.jsonl) in a report of several, found none "
            f"at {others}; a tournament or a file of episodes has a report of its own"
        )


def _page(paths: Sequence[Path], out: Path | None) -> Path:
    """The path of the page."""
    if out is not None:
        return out
    if len(paths) > 1:
        raise ValueError(
            f"want --out with several runs, got {len(paths)} without; add --out OUT"
        )
    (path,) = paths
    return path / IN_FOLDER if path.is_dir() else path.with_suffix(".html")


def _write_played(source: Path, path: Path, num_episodes: int) -> None:
    """Writes the page of a tournament or of an evaluation."""
    if source.is_dir() and not (source / MATCHES).is_file():
        if (source / "start-scores.json").is_file():
            raise ValueError(
                f"want the folder of a run without rounds, got {str(source)!r} with "
                f"rounds; give a round: {source / 'round-00' / 'train'}. "
                f"{source}/curves.png compares the rounds"
            )
        raise ValueError(
            "want a folder with metrics.jsonl or results.jsonl, found neither in "
            f"{str(source)!r}; give the --output-dir of arena train, such as "
            "runs/first, or the --out of arena tournament"
        )
    read = read_tournament if source.is_dir() else read_evaluation
    found = read(source, num_episodes)
    write_whole(path, played_page(found))
    _tell_bad(found.bad, "")
    tables = _counted(len(found.tables), "result table")
    typer.echo(f"{path}: {tables}, {_counted(len(found.episodes), 'episode')}")


def _tell(path: Path, runs: Sequence[RunFiles]) -> None:
    for run in runs:
        _tell_bad(run.bad, f"{run.name}, " if len(runs) > 1 else "")
    num_steps = sum(len({record["step"] for record in run.metrics}) for run in runs)
    num_episodes = sum(len(run.episodes) for run in runs)
    steps = _counted(num_steps, "logged step")
    typer.echo(f"{path}: {steps}, {_counted(num_episodes, 'episode')}")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _tell_bad(bad: Iterable[tuple[str, BadLine]], name: str) -> None:
    for file, line in bad:
        typer.echo(
            f"{name}{file}, line {line.line} is left out: {line.reason}", err=True
        )


PARQUET = (b"PAR1", b"prompt", b"reason")  # what our files hold
CARD = (b"---\n# arena data", b"---")  # what our dataset cards hold
OTHER = ", held out"  # what the title of a table says


def data(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="EPISODES...", show_default=False)
    ] = None,
    selector: Annotated[
        str | None, typer.Option("--select", metavar="NAME", help="The selector.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", "-o", metavar="NAME=VALUE", help="Its option; repeatable."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.parquet",
            help="Write the rows here; with --held-out a folder, for its splits.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the choice.", min=0)] = 0,
    share: Annotated[
        float,
        typer.Option(
            "--held-out",
            metavar="SHARE",
            help="Share of the seeds whose rows are the split test of the folder --out.",
        ),
    ] = 0.0,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Model whose tokenizer encodes text without tokens, or 'tiny' for the model that arena train makes; without it, rows without tokens are messages alone.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count rows and tokens; write nothing.")
    ] = False,
    allow_code: AllowCodeOption = False,
    show_list: Annotated[
        bool, typer.Option("--list", help="List the selectors and their options.")
    ] = False,
) -> None:
    """Choose rows to train on from recorded episodes.

    EPISODES are files of JSON lines: episodes.jsonl or rollouts/step-N.jsonl of a run folder, or
    the --out file of eval or play. A selector chooses completions, pairs or labels, and says
    why. Status 0: written; 1: no row was chosen; 2: refused.

    For example:

    arena data runs/a/episodes.jsonl --select wins -o top=0.2 --out wins.parquet

    arena data trees.jsonl --select branch_pairs -o margin=0.5 --held-out 0.1 --out pairs

    arena data --list
    """
    if show_list:
        _print_selectors()
        return
    with usage_errors():
        if not files or selector is None or (out is None and not dry_run):
            raise ValueError(
                "want EPISODES, --select NAME and --out FILE.parquet (or --dry-run); "
                "arena data --list names the selectors"
            )
        sides = _sides(files, share, out)
        given = read_params(option)
        found = {
            side: select(selector, episodes, seed=seed, allow_code=allow_code, **given)
            for side, episodes in sides.items()
        }
        if len(found) > 1:  # general rows have no seed that could be held out
            own = [row for row in found[OTHER].rows if row.game != GENERAL]
            found[OTHER] = replace(found[OTHER], rows=own)
        rows = [row for selection in found.values() for row in selection.rows]
        origin = origin_of(rows, [one for side in sides.values() for one in side])
        with named_only(allow_code=allow_code):
            chat = None if model is None else _chat_of(model, origin)
        for side, selection in found.items():
            print_tables(_tables(f"{selector}{side}", selection, chat))
    if not rows:
        typer.echo("error: no row was chosen; the table says why", err=True)
        raise typer.Exit(1)
    if not dry_run and out is not None:
        _write(found, chat, out, origin)


def _print_selectors() -> None:
    table = Table("selector", "options", "chooses")
    for name, options, summary in described():
        table.add_row(name, options, summary)
    print_tables([table])


def _sides(files: Sequence[Path], share: float, out: Path | None) -> dict[str, Any]:
    """The episodes to train on and those held out, by what is added to their names."""
    from arena_eval.rollouts import read_rollouts

    if out is not None and (out.suffix == ".parquet") == bool(share):
        raise ValueError(
            f"want --out FOLDER with --held-out, for its splits, got {out}; leave the "
            "suffix out"
            if share
            else f"want --out FILE.parquet, got {out}; give it this suffix"
        )
    if out is not None and (not share or not out.is_dir()):
        check_out(out, PARQUET, "arena data")
    elif out is not None:
        check_out(out / "README.md", CARD, "arena data")
        for name in (TRAIN, TEST):
            check_out(out / name, PARQUET, "arena data")
    for file in files:
        _check_episodes(file)
    parts = [[rollout.episode for rollout in read_rollouts(file)] for file in files]
    episodes = joined(parts)
    if not share:
        return {"": episodes}
    train, others = held_out(episodes, share)
    if not train or not others:
        seeds = len({episode.seed for episode in episodes})
        raise ValueError(
            f"want seeds to train on and seeds to hold out, got all {seeds} on one "
            f"side with --held-out {share:g}; play more seeds, or give another share"
        )
    return {"": train, OTHER: others}


def _check_episodes(file: Path) -> None:
    if not file.is_file():
        raise ValueError(
            f"want a file of episodes, found none at {file}; arena eval --out {file} "
            "writes one"
        )
    with file.open("rb") as opened:
        if opened.read(4) == b"PAR1":
            raise ValueError(
                f"want episodes as JSON lines, got {file}, a Parquet file; give the "
                "episodes.jsonl that its rows were chosen from"
            )


def _chat_of(model: str, origin: Origin) -> "Chat | None":
    """The chat template of a model, or of the tiny one that plays rows of this origin."""
    if model != "tiny":
        return load_chat(model)
    if not origin.games:
        return None  # there are no rows
    from arena_trainers.lm.chat import Chat
    from arena_trainers.runs.start import tiny_tokenizer_of

    return Chat(tiny_tokenizer_of(origin.games, only_prompt(origin)))


def _tables(title: str, found: Selection, chat: "Chat | None") -> list[Table]:
    """A table of the episodes that were kept, and of those that were not, with reasons."""
    unknown = chat is None and not all(map(has_tokens, found.rows))
    counts: dict[tuple[str, int, str], Counter[str]] = {}
    for row in found.rows:
        key = (row.game, row.seat, row.reason)
        counts.setdefault(key, Counter()).update(
            {"rows": 1} if unknown else {"rows": 1, **_tokens(columns(row, chat))}
        )
    kept = Table(
        "game", "seat", "why", "rows", "tokens", "trained", title=f"{title}: kept"
    )
    for (game, seat, reason), count in sorted(counts.items()):
        tokens = ["?", "?"] if unknown else [f"{count[n]:,}" for n in ("all", "mask")]
        kept.add_row(game, str(seat), reason, f"{count['rows']:,}", *tokens)
    caption = [f"{len(found.rows):,} rows; {found.num_merged:,} equal ones merged"]
    if unknown:
        caption.append("messages without tokens; --model PATH adds them")
    kept.caption = "\n".join(caption)
    if not found.dropped:
        return [kept]
    left = Table("why", "number", title=f"{title}: left out")
    for reason, number in sorted(found.dropped.items()):
        left.add_row(reason, f"{number:,}")
    return [kept, left]


def _tokens(row: dict[str, Any]) -> dict[str, int]:
    """Tokens of a row: all, and those of a mask."""
    masks = [value for name, value in row.items() if name.endswith("_mask")]
    return {
        "all": sum(map(len, masks)) + len(row["prompt_ids"]),
        "mask": sum(map(sum, masks)),
    }


def _write(
    found: dict[str, Selection], chat: "Chat | None", out: Path, origin: Origin
) -> None:
    has_splits = len(found) > 1
    if has_splits:
        out.mkdir(exist_ok=True)
    written = []
    for side, selection in found.items():
        path = out / (TEST if side else TRAIN) if has_splits else out
        if not selection.rows:
            path.unlink(missing_ok=True)  # of an earlier call
            typer.echo(f"{path}: not written, no row was chosen")
            continue
        with running(f"{path} was not written", "writing"):
            write_rows(rows_to_dataset(selection.rows, chat), path, origin)
        written.append("test" if side else "train")
        typer.echo(f"wrote {len(selection.rows):,} rows to {path}")
    if has_splits:
        write_whole(out / "README.md", _card(written, found[""], origin))


def _card(splits: Sequence[str], train: Selection, origin: Origin) -> str:
    """A dataset card that names the splits."""
    files = "".join(f"  - split: {name}\n    path: {name}-*\n" for name in splits)
    games = ", ".join(f"`{game['id']}`" for game in origin.games) or "no game"
    kind = type(train.rows[0]).__name__.lower() if train.rows else "row"
    return (
        f"---\n# arena data wrote this card\nconfigs:\n- config_name: default\n"
        f"  data_files:\n{files}---\n\n# Rows of {games}\n\nEach row is a {kind} that "
        "`arena data` chose from recorded episodes; `reason` says why. Seeds of episodes "
        "are in one split only.\n"
    )


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN")],
    merged: Annotated[
        bool,
        typer.Option(
            "--merged", help="Write one whole model, adapters merged into it."
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to make. [RUN/merged]", show_default=False),
    ] = None,
) -> None:
    """Write a trained model so that other programs load it: transformers, vLLM, llama.cpp.

    RUN is the folder of a training run, or one with a saved model or adapter.

    For example:

    arena export runs/first --merged
    """
    with usage_errors():
        source = run / "model" if (run / "model").is_dir() else run
        if not source.is_dir():
            raise ValueError(
                f"want the folder of a run, found none at {str(run)!r}; give one such "
                "as runs/first"
            )
        if not merged:
            has = "holds the adapter alone"
            if adapter_base(str(source)) is None:
                has = "is the whole model already"
                saved_model(source)
            raise ValueError(
                f"want --merged, the form that can be written; {source} {has}"
            )
        from arena_trainers.lm.adapters import write_merged

        target = run / "merged" if out is None else out
        size = write_merged(source, target)
    typer.echo(f"wrote {size:,} parameters, tokenizer and prompt options to {target}")
    typer.echo(f"  play it:  arena play kuhn_poker --against lm:{target}")
