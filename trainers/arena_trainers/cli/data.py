"""The command `arena data select`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from arena_envs.trust import named_only
from arena_studio.report.episodes import check_is_file
from arena_trainers.cli.arguments import check_out, read_params
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.options import AllowCodeOption
from arena_trainers.cli.output import print_tables
from arena_trainers.cli.progress import running
from arena_trainers.data import (
    Origin,
    Selection,
    columns_of_row,
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
from arena_wrappers.records import write_whole

if TYPE_CHECKING:
    from arena_trainers.lm.chat import Chat


PARQUET = (b"PAR1", b"prompt", b"reason")  # what our files hold
CARD = (b"---\n# arena data select", b"---")  # what our dataset cards hold
HELD_OUT = ", held out"  # what the title of a table says


def data(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="EPISODES...", show_default=False)
    ] = None,
    selector: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="The selector.")
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

    arena data select runs/a/episodes.jsonl --by wins -o top=0.2 --out wins.parquet

    arena data select trees.jsonl --by branch_pairs -o margin=0.5 --held-out 0.1 --out pairs

    arena data select --list
    """
    if show_list:
        _print_selectors()
        return
    with usage_errors():
        if not files or selector is None or (out is None and not dry_run):
            raise ValueError(
                "want EPISODES, --by NAME and --out FILE.parquet (or --dry-run); "
                "arena data select --list names the selectors"
            )
        episodes_by_split = _split_episodes(files, share, out)
        selector_options = read_params(option)
        selections = {
            split: select(
                selector, episodes, seed=seed, allow_code=allow_code, **selector_options
            )
            for split, episodes in episodes_by_split.items()
        }
        if len(selections) > 1:  # general rows have no seed that could be held out
            seeded_rows = [
                row for row in selections[HELD_OUT].rows if row.game != GENERAL
            ]
            selections[HELD_OUT] = replace(selections[HELD_OUT], rows=seeded_rows)
        rows = [row for selection in selections.values() for row in selection.rows]
        origin = origin_of(
            rows,
            [
                episode
                for episodes in episodes_by_split.values()
                for episode in episodes
            ],
        )
        with named_only(allow_code=allow_code):
            chat = None if model is None else _chat_of(model, origin)
        for split, selection in selections.items():
            print_tables(_tables(f"{selector}{split}", selection, chat))
    if not rows:
        typer.echo("error: no row was chosen; the table says why", err=True)
        raise typer.Exit(1)
    if not dry_run and out is not None:
        _write(selections, chat, out, origin)


def _print_selectors() -> None:
    table = Table("selector", "options", "chooses")
    for name, options, summary in described():
        table.add_row(name, options, summary)
    print_tables([table])


def _split_episodes(
    files: Sequence[Path], share: float, out: Path | None
) -> dict[str, Any]:
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
        check_out(out, PARQUET, "arena data select")
    elif out is not None:
        check_out(out / "README.md", CARD, "arena data select")
        for name in (TRAIN, TEST):
            check_out(out / name, PARQUET, "arena data select")
    for file in files:
        _check_episodes(file)
    parts = [[rollout.episode for rollout in read_rollouts(file)] for file in files]
    episodes = joined(parts)
    if not share:
        return {"": episodes}
    train, test = held_out(episodes, share)
    if not train or not test:
        seeds = len({episode.seed for episode in episodes})
        raise ValueError(
            f"want seeds to train on and seeds to hold out, got all {seeds} on one "
            f"side with --held-out {share:g}; play more seeds, or give another share"
        )
    return {"": train, HELD_OUT: test}


def _check_episodes(file: Path) -> None:
    if not file.exists():
        raise ValueError(
            f"want a file of episodes, found none at {str(file)!r}; arena eval --out {file} "
            "writes one"
        )
    check_is_file(file)
    with file.open("rb") as stream:
        if stream.read(4) == b"PAR1":
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
    from arena_trainers.runs.tiny import tiny_tokenizer_of

    return Chat(tiny_tokenizer_of(origin.games, only_prompt(origin)))


def _tables(title: str, selection: Selection, chat: "Chat | None") -> list[Table]:
    """A table of the episodes that were kept, and of those that were not, with reasons."""
    lacks_tokens = chat is None and not all(map(has_tokens, selection.rows))
    counts: dict[tuple[str, int, str], Counter[str]] = {}
    for row in selection.rows:
        key = (row.game, row.seat, row.reason)
        counts.setdefault(key, Counter()).update(
            {"rows": 1}
            if lacks_tokens
            else {"rows": 1, **_tokens(columns_of_row(row, chat))}
        )
    kept_table = Table(
        "game", "seat", "why", "rows", "tokens", "trained", title=f"{title}: kept"
    )
    for (game, seat, reason), count in sorted(counts.items()):
        tokens = (
            ["?", "?"] if lacks_tokens else [f"{count[n]:,}" for n in ("all", "mask")]
        )
        kept_table.add_row(game, str(seat), reason, f"{count['rows']:,}", *tokens)
    caption = [
        f"{len(selection.rows):,} rows; {selection.num_merged:,} equal ones merged"
    ]
    if lacks_tokens:
        caption.append("messages without tokens; --model PATH adds them")
    kept_table.caption = "\n".join(caption)
    if not selection.dropped:
        return [kept_table]
    dropped_table = Table("why", "number", title=f"{title}: left out")
    for reason, number in sorted(selection.dropped.items()):
        dropped_table.add_row(reason, f"{number:,}")
    return [kept_table, dropped_table]


def _tokens(row: dict[str, Any]) -> dict[str, int]:
    """Tokens of a row: all, and those of a mask."""
    masks = [value for name, value in row.items() if name.endswith("_mask")]
    return {
        "all": sum(map(len, masks)) + len(row["prompt_ids"]),
        "mask": sum(map(sum, masks)),
    }


def _write(
    selections: dict[str, Selection], chat: "Chat | None", out: Path, origin: Origin
) -> None:
    has_splits = len(selections) > 1
    if has_splits:
        out.mkdir(exist_ok=True)
    split_names = []
    for split, selection in selections.items():
        path = out / (TEST if split else TRAIN) if has_splits else out
        if not selection.rows:
            path.unlink(missing_ok=True)  # of an earlier call
            typer.echo(f"{path}: not written, no row was chosen")
            continue
        with running(f"{path} was not written", "writing"):
            write_rows(rows_to_dataset(selection.rows, chat), path, origin)
        split_names.append("test" if split else "train")
        typer.echo(f"wrote {len(selection.rows):,} rows to {path}")
    if has_splits:
        write_whole(out / "README.md", _card(split_names, selections[""], origin))


def _card(splits: Sequence[str], train: Selection, origin: Origin) -> str:
    """A dataset card that names the splits."""
    files = "".join(f"  - split: {name}\n    path: {name}-*\n" for name in splits)
    games = ", ".join(f"`{game['id']}`" for game in origin.games) or "no game"
    kind = type(train.rows[0]).__name__.lower() if train.rows else "row"
    return (
        f"---\n# arena data select wrote this card\nconfigs:\n- config_name: default\n"
        f"  data_files:\n{files}---\n\n# Rows of {games}\n\nEach row is a {kind} that "
        "`arena data select` chose from recorded episodes; `reason` says why. Seeds of episodes "
        "are in one split only.\n"
    )
