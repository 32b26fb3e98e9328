"""The command `arena compare`."""

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from arena_envs import make
from arena_envs.doors import split
from arena_envs.game import AnyGame
from arena_trainers.cli.episodes import report as write_page
from arena_trainers.cli.evaluate import end, kept
from arena_trainers.cli.options import (
    PolicyOptions,
    as_command,
    one_form,
    read_env,
    running,
    show,
    show_warnings,
    usage_errors,
)
from arena_trainers.runs.folder import CONFIG
from arena_trainers.runs.settings import load_recipe
from arena_wrappers import Policy


@as_command
def compare(
    base: str,
    trained: str,
    suite: str | None = None,
    games: list[str] | None = None,
    against: list[str] | None = None,
    num_episodes: int = 100,
    seed: int = 0,
    equal_tokens: bool = False,
    trained_on: list[str] | None = None,
    *,
    how: PolicyOptions,
    timeout: float | None = None,
    out: Path | None = None,
    report: Path | None = None,
    as_json: bool = False,
    as_csv: bool = False,
    as_latex: bool = False,
) -> None:
    """Compare two policies on the same seeds and seats.

    The difference of their returns is paired by seeds, and recomputed from replayed records. In
    cooperative games a policy plays all seats. Baselines: random play, the best constant reply.
    A game is `trained`, `sibling` (same rules, other parameters) or `held out` by the run of
    TRAINED, or by --trained-on. Lost episodes are as in `arena eval`.

    For example:

    arena compare lm:runs/a/start lm:runs/a/model --suite mars --out a.jsonl

    arena compare random cfr -g kuhn_poker,leduc_poker -n 500 --json
    """
    from arena_trainers.evaluate.comparison import ComparisonPlan, comparison_table

    with usage_errors():
        form = one_form(json=as_json, csv=as_csv, latex=as_latex)
        if report and out is None:
            raise ValueError("want --out FILE with --report, got none; add it")
        opponents, prompt = _compared_games(suite, games, against)
        known, told = training_games(trained, trained_on)
        options: dict[str, Any] = {"prompt": how.wrapper, "defaults": prompt}
        options |= {"seed": seed, "num_episodes": num_episodes, "out": out}
        options |= {"timeout": timeout, "trained_on": known}
        options["equal_tokens"] = equal_tokens
        plan = ComparisonPlan(*_two(how, base, trained), opponents, **options)
    with running(kept(out), policies=[base, trained]) as bar:
        rows = plan.run(bar)
    show_warnings([*plan.warnings])
    records = [{**row, "trained_on": told} for row in rows]
    show(form, records, records, lambda _: [comparison_table(records)])
    if report and out is not None:
        with redirect_stdout(sys.stderr):
            write_page(paths=[out], out=report)
    end(plan.unanswered, out)


def _two(
    how: PolicyOptions, base: str, trained: str
) -> "tuple[Policy | str, Policy | str]":
    """Both policies; the same one twice if the strings are equal."""
    found = how.policies([base] if base == trained else [base, trained])
    if len(found) != len({base, trained}):
        raise ValueError(f"want two policies, got {len(found)}: name past:RUN@STEP")
    return found[0], found[-1]


def _compared_games(
    suite: str | None, games: Sequence[str] | None, against: Sequence[str] | None
) -> tuple[dict[str, Sequence[str]], dict[str, Any]]:
    """The opponents by game, and prompt options; --games are in place of a suite's."""
    from arena_trainers.tournament import load_suite

    if games and suite:
        raise ValueError("want --suite or --games, got both; leave one out")
    if games:
        return dict.fromkeys(games, against or ()), {}
    given = load_suite(suite or "transfer").given
    opponents = {one["game"]: against or one["opponents"] for one in given["games"]}
    return opponents, given["prompts"]["plain"]


def training_games(
    policy: str, given: Sequence[str] | None
) -> tuple[list[AnyGame] | None, list[str]]:
    """The games that a model was trained on, as given or as the runs of its folder say."""
    from arena_trainers.train.games import checked_entry, expanded

    if given:
        return [read_env(game, None, None).game for game in given], list(given)
    entries: list[Mapping[str, Any]] = []
    seen: set[Path] = set()
    while match := re.fullmatch(r"(lm:|past:)([^@]*)(@.*)?", policy):
        folder = Path(match[2]).absolute()
        near = (
            one for one in (folder, *folder.parents[:2]) if (one / CONFIG).is_file()
        )
        if (run := next(near, None)) is None or run in seen:
            break
        seen.add(run)
        settings = load_recipe(str(run / CONFIG))
        games = settings.get("games") or ()
        listing = split(games) if isinstance(games, str) else games
        entries += map(checked_entry, expanded(listing))
        policy = f"lm:{settings.get('model')}"  # the run that it started from
    found = [make(one["id"], **one.get("params", {})).game for one in entries]
    return found or None, [str(one["id"]) for one in entries]
