"""Pages: replays of episodes, reports of runs, of an evaluation and of a tournament.

First the files of one or several runs that a report reads; what is missing or broken is named.

A page is one HTML file without links to anything else. It runs no code but our script: its content
security policy names the hash of the script and of the style sheet. What players wrote comes as
compressed JSON, and the script shows it as text. `sheet` draws an episode as one SVG file.
"""

import base64
import gzip
import hashlib
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import yaml

from arena_envs.scenes import Scene
from arena_envs.scenes.svg import Drawing, css, drawing_of, surfaces_css
from arena_envs.trust import named_only
from arena_trainers.data import TurnCredit
from arena_trainers.evaluate.move_values import MoveSolver, MoveValues
from arena_trainers.evaluate.result_rows import results_path
from arena_trainers.extras import import_extra
from arena_trainers.report.charts import (
    PLAYER,
    Chart,
    Curve,
    Key,
    chart_svg,
    charts_of,
    legend_of,
    missing_from,
)
from arena_trainers.report.episodes import (
    BadLine,
    Recorded,
    estimates_of,
    frames_of,
    is_hidden,
    not_blank,
    outcome_of,
    parsed_part,
    policies_of,
    read_line,
    read_lines,
    seats_of,
    shown_text,
)
from arena_trainers.report.tables import (
    NONE,
    UNKNOWN,
    TableCell,
    TextTable,
    evaluation_table,
    fact_table,
    lineup_name,
    match_name,
    result_tables,
    source_link,
    tournament_tables,
)
from arena_trainers.tournament.round_robin import EPISODE, LINE
from arena_wrappers import Episode, Turn, without_lost
from arena_wrappers.records import write_whole

METRICS = "metrics.jsonl"
STEP = re.compile(r"step-(\d+)\.jsonl")
AFTER_TRAINING = "after training"
EVALUATED = 8  # episodes of the evaluation for each group of a step
MAX_TURNS = 4_000  # of a page; a turn takes up to 4 ms of CPU time
MAX_RUNS = 6  # of a comparison; as many as colors of curves

StepFile = tuple[
    int | None, Path
]  # step of a file of episodes; None for the evaluation


class RunFiles(NamedTuple):
    """The content of a run folder.

    Attributes:
        name: of the folder.
        metrics: records of `metrics.jsonl`; each has an integer `step`.
        results: what `results.json` holds; empty without.
        config: the text of `config.yaml`; empty without.
        episodes: episodes of the run, each with the name of its source.
        sources: by optimizer step, the source of its episodes.
        left: number of lines of the files of episodes that are left out.
        bad: lines that cannot be read, by name of the file.
        missing: sentences on what the folder lacks.
    """

    name: str
    metrics: Sequence[dict[str, Any]]
    results: dict[str, Any]
    config: str
    episodes: Sequence[Recorded]
    sources: dict[int, str]
    left: int
    bad: Sequence[tuple[str, BadLine]]
    missing: Sequence[str]


class Stored(NamedTuple):
    """The parts of a file of episodes that are shown.

    Attributes:
        name: of the file, in the run folder.
        step: the optimizer step; None for the evaluation.
        episodes: whole groups, each episode with the name of its source.
        bad: lines that cannot be read.
    """

    name: str
    step: int | None
    episodes: Sequence[Recorded]
    bad: Sequence[BadLine]

    @property
    def num_turns(self) -> int:
        """Turns of the episodes that are read."""
        return sum(len(line.rollout.episode.turns) for line in self.episodes)


def read_run_files(folder: Path, num_groups: int) -> RunFiles:
    """The files of one run; see `read_runs`."""
    (run,) = read_runs([folder], num_groups)
    return run


def read_runs(folders: Sequence[Path], num_groups: int) -> list[RunFiles]:
    """Reads run folders, finished or not, for one page.

    Of several runs, the steps are read that all of them have stored, and the last one of
    each. So the page has the same starts of all runs where they stored the same.

    Args:
        folders: the run folders, at most `MAX_RUNS`.
        num_groups: groups to read of each file of episodes. Where the groups have more
            than `MAX_TURNS` turns in all, each file gives as many groups as fit into its
            share, one at least; where these are still too many, evenly spaced steps are
            read, with the last one.

    Raises:
        ValueError: a folder is no run folder or is given twice, or there are too many.
    """
    if len(folders) > MAX_RUNS:
        raise ValueError(
            f"want at most {MAX_RUNS} runs in a report, got {len(folders)}; give fewer"
        )
    for folder in folders:
        if not (folder / METRICS).is_file():
            raise ValueError(
                f"want a run folder with {METRICS}, found none at {str(folder)!r}; "
                "give the --output-dir of arena train, such as runs/first"
            )
    for folder, count in Counter(path.resolve() for path in folders).items():
        if count > 1:
            raise ValueError(f"want different runs, got {folder} twice; give it once")
    names = [folder.absolute().name for folder in folders]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    files = _common([list(_files_of_episodes(folder)) for folder in folders])
    room = MAX_TURNS // max(1, sum(map(len, files)))
    stored = [
        _stored(folder, read, num_groups, room)
        for folder, read in zip(folders, files, strict=True)
    ]
    return [
        _run(folder, name, found, shown)
        for folder, name, found, shown in zip(
            folders, names, stored, _thinned(stored), strict=True
        )
    ]


def _run(
    folder: Path, name: str, stored: Sequence[Stored], shown: Sequence[Stored]
) -> RunFiles:
    metrics, broken = metric_records(folder / METRICS)
    results, config = _results(folder / "results.json"), folder / "config.yaml"
    bad = [(METRICS, line) for line in broken]
    bad += [(file.name, line) for file in stored for line in file.bad]
    episodes = [line for file in shown for line in file.episodes]
    sources = {
        file.step: file.episodes[0].source for file in shown if file.step is not None
    }
    missing = []
    if not results:
        missing.append(
            "results.json: the run is not finished, so there are no results before and "
            "after, baselines, versions and command"
        )
    if not config.is_file():
        missing.append("config.yaml: there is no configuration")
    if not sources:
        missing.append("rollouts/: there are no training episodes (see --saved_groups)")
    text = config.read_text(encoding="utf-8") if config.is_file() else ""
    lines = [_num_lines(path) for _, path in _files_of_episodes(folder)]
    left = sum(lines) - sum(len(file.bad) for file in stored) - len(episodes)
    return RunFiles(name, metrics, results, text, episodes, sources, left, bad, missing)


def metric_records(path: Path) -> tuple[list[dict[str, Any]], list[BadLine]]:
    """The records of a metrics file, and its lines that are none."""
    records, bad = [], []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict) and type(record.get("step")) is int:
            records.append(record)
        else:
            reason = "want a JSON object with its step"
            bad.append(BadLine(number, reason, shown_text(line)))
    return records, bad


def _results(path: Path) -> dict[str, Any]:
    """The content of `results.json`; empty without the file.

    Raises:
        ValueError: the file holds something else.
    """
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(
            f"want a JSON object in {str(path)!r}; remove the file, and the report shows "
            "the rest of the run"
        )
    return found


def _files_of_episodes(folder: Path) -> Iterable[StepFile]:
    """Files of training episodes by step, then that of the evaluation, as step None."""
    found = {
        int(match[1]): path
        for path in (folder / "rollouts").glob("step-*.jsonl")
        if (match := STEP.fullmatch(path.name))
    }
    yield from sorted(found.items())
    if (folder / "episodes.jsonl").is_file():
        yield None, folder / "episodes.jsonl"


def _common(files: Sequence[list[StepFile]]) -> list[list[StepFile]]:
    """The files of the steps that all runs have, of the last step, and of the evaluation."""
    steps = [{step for step, _ in found if step is not None} for found in files]
    common = set.intersection(*steps)
    return [
        [
            (step, path)
            for step, path in found
            if step is None or step in common or step == max(own)
        ]
        for found, own in zip(files, steps, strict=True)
    ]


def _stored(
    folder: Path, files: Sequence[StepFile], num_groups: int, max_turns: int
) -> list[Stored]:
    """The first groups of each file of episodes."""
    found = []
    for step, path in files:
        groups = num_groups if step is not None else EVALUATED * num_groups
        lines = _groups(path, groups, max_turns)
        source = AFTER_TRAINING if step is None else f"step {step}"
        episodes = [
            line._replace(source=source) for line in lines if isinstance(line, Recorded)
        ]
        bad = [line for line in lines if isinstance(line, BadLine)]
        name = str(path.relative_to(folder))
        found.append(Stored(name, step, episodes, bad))
    return found


def _num_lines(path: Path) -> int:
    """Number of lines that are not blank."""
    with open(path, "rb") as file:
        return sum(1 for line in file if line.strip())


def _groups(path: Path, num_groups: int, max_turns: int) -> list[Recorded | BadLine]:
    """The first groups of a file, each of them whole, with the bad lines among them."""
    found: list[Recorded | BadLine] = []
    starts, num_turns, begin = set(), 0, 0
    for line in not_blank(read_lines(path)):
        if isinstance(line, Recorded):
            episode = line.rollout.episode
            start = (episode.game, str(episode.params), episode.seed)
            if start not in starts:
                begin = len(found)
                starts.add(start)
            num_turns += len(episode.turns)
            if len(starts) > num_groups:
                break
            if len(starts) > 1 and num_turns > max_turns:
                return found[:begin]
        found.append(line)
    return found


def _thinned(stored: Sequence[Sequence[Stored]]) -> list[list[Stored]]:
    """The files to show of each run: every n-th step, its last step, and the evaluation.

    Steps are counted back from the last one that all runs have. The smallest n is taken with
    which there are at most `MAX_TURNS` turns.
    """
    rest = [[file for file in run if file.step is None] for run in stored]
    trained = [[f for f in run if f.step is not None and f.episodes] for run in stored]
    room = MAX_TURNS - sum(file.num_turns for run in rest for file in run)
    common = set.intersection(*({file.step for file in run} for run in trained))
    steps = sorted(step for step in common if step is not None)
    for apart in [*range(1, max(2, len(steps))), 0]:
        kept = set(steps[::-1][::apart] if apart else ())
        shown = [
            [file for file in run if file.step in kept or file is run[-1]]
            for run in trained
        ]
        if sum(file.num_turns for run in shown for file in run) <= room:
            break
    return [[*run, *others] for run, others in zip(shown, rest, strict=True)]


def named(runs: Sequence[RunFiles]) -> list[RunFiles]:
    """The runs of a comparison; sources of episodes begin with the name of their run.

    Raises:
        ValueError: a run has no game in common with the first one, as far as their games are
            known.
    """
    keys = [{key for record in run.metrics for key in record} for run in runs]
    games = [
        {match["game"] for key in own if (match := PLAYER.fullmatch(key))}
        for own in keys
    ]
    for run, own in zip(runs[1:], games[1:], strict=True):
        if own and games[0] and not own & games[0]:
            raise ValueError(
                f"want runs with a game in common, got {', '.join(sorted(games[0]))} "
                f"({runs[0].name}) and {', '.join(sorted(own))} ({run.name}); write a "
                "report of each"
            )
    return [
        run._replace(
            episodes=[
                line._replace(source=f"{run.name}, {line.source}", moment=line.source)
                for line in run.episodes
            ],
            sources={s: f"{run.name}, {source}" for s, source in run.sources.items()},
        )
        for run in runs
    ]


def compared_charts(runs: Sequence[RunFiles]) -> list[Chart]:
    """The charts of all runs, laid over each other by title.

    Parts of a whole are not stacked, because the runs would cover each other.
    """
    found: dict[str, list[tuple[int, Chart]]] = {}
    for number, run in enumerate(runs):
        for chart in charts_of(run.metrics, run.results):
            found.setdefault(chart.title, []).append((number, chart))
    return [_merged(charts, runs) for charts in found.values()]


def _merged(charts: Sequence[tuple[int, Chart]], runs: Sequence[RunFiles]) -> Chart:
    series = {line.label for _, chart in charts for line in chart.lines}
    lines, levels = [], dict[str, float]()
    for number, chart in charts:
        name = runs[number].name
        for line in chart.lines:
            label = f"{name}: {line.label}" if len(series) > 1 else name
            lines.append(replace(line, label=label, run=number, series=line.label))
        for level, value in chart.levels.items():
            is_new = level in levels and levels[level] != value
            levels[f"{level}, {name}" if is_new else level] = value
    first = charts[0][1]
    return replace(first, lines=lines, levels=levels, is_stacked=False)


def compared_tables(runs: Sequence[RunFiles]) -> list[TextTable]:
    """The tables of results, in which the rows of all runs stand together."""
    found: dict[str, list[tuple[str, TextTable]]] = {}
    for run in runs:
        for table in result_tables(run.results):
            found.setdefault(table.title, []).append((run.name, table))
    return [_joined(title, tables) for title, tables in found.items()]


def _joined(title: str, tables: Sequence[tuple[str, TextTable]]) -> TextTable:
    """Rows in order of their keys, such as opponent and seat, then of the run."""
    heads = max((table.heads for _, table in tables), key=len)
    keys = tables[0][1].num_keys
    found: dict[Any, list[list[str | TableCell]]] = {}
    for name, table in tables:
        for row in table.rows:
            filled = [*row, *[NONE] * (len(heads) - len(row))]
            joined = [*filled[:keys], name, *filled[keys:]]
            found.setdefault(tuple(row[:keys]), []).append(joined)
    rows = [row for same in found.values() for row in same]
    return TextTable(title, [*heads[:keys], "run", *heads[keys:]], rows)


def setting_table(runs: Sequence[RunFiles]) -> TextTable:
    """The settings in which the runs differ, a column for each run."""
    settings = [_settings(run.config) for run in runs]
    names = dict.fromkeys(name for found in settings for name in found)
    rows = []
    for name in names:
        given = [found.get(name, "not set") for found in settings]
        if name == "games":  # a list of one game means the same as the game
            given = [g[0] if isinstance(g, list) and len(g) == 1 else g for g in given]
        values = [str(value) for value in given]
        if len(set(values)) > 1:
            rows.append([str(name), *values])
    return TextTable(
        "Settings that differ", ["setting", *(run.name for run in runs)], rows
    )


def _settings(config: str) -> Mapping[str, Any]:
    try:
        found = yaml.safe_load(config)
    except yaml.YAMLError:
        return {}  # the page shows the text
    return found if isinstance(found, Mapping) else {}


def start_table(runs: Sequence[RunFiles]) -> TextTable:
    """The starts of which several runs have episodes, with the mean returns of each run."""
    found: dict[tuple[str, ...], dict[int, list[Recorded]]] = {}
    for number, run in enumerate(runs):
        for line in run.episodes:
            episode = line.rollout.episode
            params = str(dict(episode.params))
            start = line.moment, episode.game, str(episode.seed), params
            found.setdefault(start, {}).setdefault(number, []).append(line)
    rows = [
        [*start[:3], *(_start_cell(groups.get(n, [])) for n in range(len(runs)))]
        for start, groups in found.items()
        if len(groups) > 1
    ]
    heads = ["from", "game", "seed", *(run.name for run in runs)]
    return TextTable("The same starts: mean return by seat", heads, rows)


def _start_cell(group: Sequence[Recorded]) -> TableCell | str:
    """Mean returns of a group; a click opens its first episode, with those of all runs."""
    if not group:
        return NONE
    returns = [e.returns for e in without_lost(line.rollout.episode for line in group)]
    means = [sum(values) / len(values) for values in zip(*returns, strict=True)]
    text = ", ".join(f"{mean:+.3g}" for mean in means) or "lost"
    if len(returns) > 1:
        text += f" ({len(returns)} episodes)"
    first = group[0]
    return TableCell(text, f"#{urlencode({'from': first.source, 'line': first.line})}")


def link_of(runs: Sequence[RunFiles], line: Curve, step: int) -> str | None:
    """The button that opens the episodes of a curve's step; None without any."""
    source = runs[line.run or 0].sources.get(step)
    return None if source is None else source_link(source)


Interned = dict[Any, int]  # values that are stored once, each with its number


def _number(values: Interned, value: Any) -> int:
    return values.setdefault(value, len(values))


def page_data(recorded: Iterable[Recorded]) -> dict[str, Any]:
    """The episodes of a page.

    Returns:
        `texts`: strings that prompts are made of; `elements`: SVG elements; `pictures`: width,
        height and the numbers of elements; `episodes`: everything else. Equal texts, elements
        and pictures are stored once.
    """
    solver = MoveSolver()
    texts, elements, pictures = Interned(), Interned(), Interned()
    element = partial(_number, elements)
    found, episodes = list(recorded), []
    for one, estimates in zip(found, estimates_of(found), strict=True):
        line, (episode, credit), source, moment = one
        frames = frames_of(episode)
        drawn = []
        for scenes in frames.scenes:
            views = []
            for scene in scenes:
                width, height, parts = drawing_of(scene)
                picture = width, height, tuple(map(element, parts))
                views.append(_number(pictures, picture))
            drawn.append(views)
        solved = solver.solve(frames.game, episode.turns, frames.states)
        turns = [
            _turn(episode, turn, earned, texts) | {"moves": _moves(values, texts)}
            for turn, earned, values in zip(
                episode.turns, credit, solved.turns, strict=True
            )
        ]
        facts = _facts(episode)
        facts["solver"] = {"reference": solved.reference, "fault": solved.fault}
        facts |= {"source": source, "line": line, "estimates": estimates}
        facts["moment"] = moment or source
        facts |= {"viewers": frames.viewers, "fault": frames.fault}
        episodes.append({**facts, "frames": drawn, "turns": turns})
    return {
        **{"texts": [*texts], "elements": [*elements], "pictures": [*pictures]},
        "episodes": episodes,
    }


def packed(data: dict[str, Any]) -> str:
    """The data as base64 of gzipped JSON, which no HTML can break.

    Raises:
        ValueError: a number is not finite; browsers read no such JSON.
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def _facts(episode: Episode) -> dict[str, Any]:
    policies = policies_of(episode)
    return {
        "game": episode.game,
        "params": dict(episode.params),
        "seed": str(episode.seed),  # JavaScript has no integers of 64 bits
        "sample": str(episode.sample),
        "parent": episode.parent,
        "branch": episode.branch,
        "policies": [policies.get(s, "") for s in seats_of(episode)],
        "returns": list(episode.returns),
        "measures": dict(episode.measures),
        "outcome": outcome_of(episode),
    }


def _turn(
    episode: Episode, turn: Turn, earned: TurnCredit | None, texts: Interned
) -> dict[str, Any]:
    return {
        "index": turn.index,
        "seat": turn.seat,
        "policy": turn.policy,
        "messages": [[m["role"], _number(texts, m["content"])] for m in turn.messages],
        "legal": _number(texts, ", ".join(turn.legal)),
        "reply": turn.reply,
        "generations": [[g.role, g.text, g.parent] for g in turn.generations],
        "parsed": parsed_part(episode, turn),
        "invalid": turn.invalid,
        "detail": turn.detail,
        "cut": turn.truncated,
        "rewards": dict(turn.rewards),
        "credit": None if earned is None else _credit(earned),
    }


def _moves(found: MoveValues | None, texts: Interned) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "actions": [_number(texts, action) for action in found.actions],
        "values": [_short(value) for value in found.values],
        "played": found.played,
        "regret": None if found.regret is None else _short(found.regret),
        "large": found.is_large,
    }


def _short(value: float) -> float:
    """The value with six digits, for small pages."""
    return float(f"{value:.6g}")


def _credit(earned: TurnCredit) -> dict[str, Any]:
    values = asdict(earned)
    advantage = earned.advantage
    if isinstance(advantage, Sequence):
        values["tokens"] = list(advantage)
        values["advantage"] = sum(advantage) / len(advantage) if advantage else 0.0
    return values


FOLDER = files("arena_trainers.report")


def write_replay(
    path: Path,
    lines: Iterable[Recorded | BadLine],
    *,
    title: str,
    left: int = 0,
    allow_code: bool = False,
) -> None:
    """Writes a page of replays; the file appears whole or not at all.

    Args:
        path: the HTML file.
        lines: what the page shows.
        title: title of the page, such as the name of the file of episodes.
        left: number of lines after those of the page.
        allow_code: whether the lines may name code and files, as for
            `arena_wrappers.play.game_of`. Without it, such episodes have prompts in place of
            pictures.

    Raises:
        ModuleNotFoundError: Jinja is not installed.
    """
    with named_only(allow_code=allow_code):
        write_whole(path, replay_page(lines, title=title, left=left))


def replay_page(
    lines: Iterable[Recorded | BadLine], *, title: str, left: int = 0
) -> str:
    """The page that `write_replay` writes."""
    found = list(lines)
    recorded = [line for line in found if isinstance(line, Recorded)]
    return rendered(
        "replay.html",
        title=title,
        left=left,
        num_episodes=len(recorded),
        bad=[line for line in found if isinstance(line, BadLine)],
        data=packed(page_data(recorded)),
    )


def rendered(
    template: str, *, scripts: Sequence[str] = ("replay.js",), **values: Any
) -> str:
    """A page of one of our templates, with the script and the style of replays.

    Args:
        template: its file name; it extends `page.html`.
        scripts: file names of what the page runs, in order.
        values: what the template shows.

    Raises:
        ModuleNotFoundError: Jinja is not installed.
    """
    # the colors of pictures; surfaces follow the reader's choice of light or dark
    dark = f"@media (prefers-color-scheme: dark){{{surfaces_css(dark=True)}}}"
    style = f"{_asset('replay.css')}@media all{{{css()}}}{dark}"
    script = "".join(map(_asset, scripts))
    jinja = import_extra("jinja2", "report")
    templates = jinja.Environment(
        loader=jinja.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    hashes = {"style_hash": _hash(style), "script_hash": _hash(script)}
    values |= {"style": style, "script": script, **hashes}
    page: str = templates.get_template(template).render(**values)
    return page


def _asset(name: str) -> str:
    return FOLDER.joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The hash of an inline script or style sheet in a content security policy."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


NUM_COLUMNS, GAP = 3, 16
MAX_CAPTION = 40  # characters


def sheet(episode: Episode, viewer: str = "all") -> str:
    """The scenes of an episode as the text of an SVG file.

    Args:
        episode: the record.
        viewer: who looks: `"all"`, or an agent such as `"player_0"`, who reads no replies of
            other seats.

    Raises:
        ValueError: the episode has no such agent, or cannot be replayed.
    """
    frames = frames_of(episode)
    if frames.fault:
        raise ValueError(f"the episode cannot be replayed: {frames.fault}")
    if viewer not in frames.viewers:
        raise ValueError(
            f"want a viewer of {', '.join(frames.viewers)}, got {viewer!r}"
        )
    place = frames.viewers.index(viewer)
    captions = [
        _caption(episode, i, turn, viewer) for i, turn in enumerate(episode.turns)
    ]
    captions.append(f"end: {outcome_of(episode)}")
    drawings = [
        drawing_of(Scene(caption, scenes[place].shapes))
        for caption, scenes in zip(captions, frames.scenes, strict=True)
    ]
    return _tiled(drawings)


def _caption(episode: Episode, number: int, turn: Turn, viewer: str) -> str:
    """The policy and the reply of a turn, unless the viewer may not know them."""
    name = f"player_{turn.seat}"
    if is_hidden(turn, viewer):
        return f"{number}: {name}"
    start, end = parsed_part(episode, turn) or (0, len(turn.reply))
    said = " ".join(turn.reply[start:end].split())
    if len(said) > MAX_CAPTION:
        said = f"{said[: MAX_CAPTION - 3]}..."
    return f"{number}: {name} {said}"


def _tiled(drawings: list[Drawing]) -> str:
    """Drawings in rows of equal columns."""
    column = max(drawing.width for drawing in drawings) + GAP
    elements, y = [], 0.0
    for first in range(0, len(drawings), NUM_COLUMNS):
        row = drawings[first : first + NUM_COLUMNS]
        for number, drawing in enumerate(row):
            elements += [
                f'<g transform="translate({number * column:g},{y:g})">',
                *drawing.elements,
                "</g>",
            ]
        y += max(drawing.height for drawing in row) + GAP
    width = column * min(len(drawings), NUM_COLUMNS)
    size = f'width="{width:g}" height="{y:g}" viewBox="0 0 {width:g} {y:g}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
            f"<style>{css()}</style>",
            f'<rect width="{width:g}" height="{y:g}" class="f-paper"/>',
            *elements,
            "</svg>\n",
        ]
    )


SCRIPTS = ("replay.js", "report.js")


def report_page(*runs: RunFiles, live_seconds: int = 0) -> str:
    """The report of runs.

    Args:
        runs: the files of the runs, see `read_runs`; several are compared.
        live_seconds: seconds after which the page reloads itself; 0 for a page that does not.

    Raises:
        ModuleNotFoundError: Jinja or matplotlib is not installed.
        ValueError: the runs have no game in common.
    """
    is_one = len(runs) == 1
    shown = list(runs) if is_one else named(runs)
    starts = None if is_one else start_table(shown)
    tables = result_tables(runs[0].results) if is_one else compared_tables(shown)
    if not is_one and (settings := setting_table(shown)).rows:
        tables.append(settings)
    episodes = [line for run in shown for line in run.episodes]
    return rendered(
        "report.html",
        scripts=SCRIPTS,
        title=", ".join(run.name for run in shown),
        live_seconds=live_seconds,
        num_runs=len(shown),
        num_episodes=len(episodes),
        left=sum(run.left for run in shown),
        missing=[_of(run, shown) + text for run in shown for text in run.missing],
        absent=[
            f"{_of(run, shown)}No curve, as metrics.jsonl has no values: {', '.join(names)}."
            for run in shown
            if (names := missing_from(run.metrics))
        ],
        bad=[(_of(run, shown) + file, at) for run in shown for file, at in run.bad],
        tables=tables,
        commands=[
            (run.name, run.results["command"])
            for run in shown
            if run.results.get("command")
        ],
        facts=fact_table({run.name: run.results for run in shown}),
        configs=[(run.name, run.config) for run in shown if run.config],
        charts=_charts(shown),
        sources=[_sources(run, shown) for run in shown if run.episodes],
        starts=starts if starts and starts.rows else None,
        data=packed(page_data(episodes)),
    )


def _of(run: RunFiles, runs: Sequence[RunFiles]) -> str:
    """The start of a sentence on a run, where there are several."""
    return "" if len(runs) == 1 else f"{run.name}: "


def _charts(runs: Sequence[RunFiles]) -> list[tuple[str, str, list[Key]]]:
    """Title, SVG and legend of each chart."""
    steps = [record["step"] for run in runs for record in run.metrics]
    last, link = max(steps, default=1), partial(link_of, runs)
    charts: list[Chart]
    if len(runs) == 1:
        charts = charts_of(runs[0].metrics, runs[0].results)
    else:
        charts = compared_charts(runs)
    return [
        (chart.title, chart_svg(chart, number, last, link), legend_of(chart))
        for number, chart in enumerate(charts)
    ]


def _sources(
    run: RunFiles, runs: Sequence[RunFiles]
) -> tuple[str, list[tuple[str, str]]]:
    """Heading, and text and link of each source of episodes of a run."""
    found = dict.fromkeys(
        (line.moment or line.source, line.source) for line in run.episodes
    )
    heading = "Episodes" if len(runs) == 1 else f"Episodes of {run.name}"
    return heading, [(text, source_link(source)) for text, source in found]


SECONDS = 30  # between two pages
RESULTS = "results.json"  # a run writes it at its end
WATCHED = ("*.jsonl", "*.yaml", "results.json", "rollouts/step-*.jsonl")

Stamp = tuple[str, int, int]  # path, time and size of a file


def follow(
    path: Path,
    folders: Sequence[Path],
    num_groups: int,
    *,
    seconds: int = SECONDS,
    wait: Callable[[float], object] = time.sleep,
) -> tuple[list[RunFiles], bool]:
    """Writes a report anew while files of its runs change; returns when all runs have ended.

    The page is live: it reloads itself. The last page, also that after Ctrl-C, is not.

    Args:
        path: the HTML file.
        folders: the run folders.
        num_groups: groups of episodes to show of each step.
        seconds: time between two looks at the files, and between reloads of the page.
        wait: waits for a number of seconds.

    Returns:
        The files of the runs in the last page, and whether all runs have ended.

    Raises:
        ValueError: as `read_runs` and `report_page` do.
    """
    seen: list[Stamp] = []
    try:
        while not _have_ended(folders):
            paths = {p for f in folders for pattern in WATCHED for p in f.glob(pattern)}
            stats = ((str(path), path.stat()) for path in sorted(paths))
            found = [(name, x.st_mtime_ns, x.st_size) for name, x in stats]
            if found != seen:
                runs = read_runs(folders, num_groups)
                write_whole(path, report_page(*runs, live_seconds=seconds))
                seen = found
            wait(seconds)
    except KeyboardInterrupt:
        pass  # the page must stop to reload itself
    runs = read_runs(folders, num_groups)
    write_whole(path, report_page(*runs))
    return runs, _have_ended(folders)


def _have_ended(folders: Sequence[Path]) -> bool:
    return all((folder / RESULTS).is_file() for folder in folders)


MATCHES, SUMMARY = "results.jsonl", "summary.json"
OTHER_FIELDS = (KeyError, TypeError, AttributeError, IndexError)  # than we read


class PlayedFiles(NamedTuple):
    """The files of an evaluation or a tournament.

    Attributes:
        name: of the file or folder.
        tables: the results.
        warnings: the warnings of the evaluation.
        episodes: episodes, each with the name of its lineup or match as source.
        left: number of episodes that are left out.
        bad: lines that cannot be read, by name of the file.
        missing: sentences on what is missing.
    """

    name: str
    tables: Sequence[TextTable]
    warnings: Sequence[str]
    episodes: Sequence[Recorded]
    left: int
    bad: Sequence[tuple[str, BadLine]]
    missing: Sequence[str]


Kept = defaultdict[str, list[Recorded]]  # the first episodes of each source


def _fitting(kept: Kept, num_episodes: int) -> list[Recorded]:
    """As many of each source as `MAX_TURNS` turns allow, one at least."""
    for count in range(num_episodes, 0, -1):
        found = [line for same in kept.values() for line in same[:count]]
        if sum(len(line.rollout.episode.turns) for line in found) <= MAX_TURNS:
            break
    return found


def read_evaluation(path: Path, num_episodes: int) -> PlayedFiles:
    """Reads a file of episodes, and the results of `arena eval` beside it.

    Args:
        path: what `arena eval --out` wrote, or another file of episodes.
        num_episodes: number of episodes to show of each lineup.

    Raises:
        ValueError: there is no such file, or it holds no episode.
    """
    kept, bad, count = Kept(list), [], 0
    for line in not_blank(read_lines(path)):
        if isinstance(line, BadLine):
            bad.append((path.name, line))
            continue
        count += 1
        if len(same := kept[source := _lineup(line)]) < num_episodes:
            same.append(line._replace(source=source))
    if not kept:
        raise ValueError(
            f"want a file of episodes, {str(path)!r} holds none; give the --out file of "
            "arena eval, the --out folder of arena tournament, or a run folder"
        )
    episodes, beside = _fitting(kept, num_episodes), results_path(path)
    sources = {line.source for line in episodes}
    tables, warnings, broken = _evaluations(beside, sources)
    bad += [(beside.name, line) for line in broken]
    missing = f"{beside.name}: there are no results; arena eval writes them at its end"
    left, absent = count - len(episodes), [] if tables else [missing]
    return PlayedFiles(path.name, tables, warnings, episodes, left, bad, absent)


def read_tournament(folder: Path, num_episodes: int) -> PlayedFiles:
    """Reads the folder of a tournament, finished or not.

    Args:
        folder: what `arena tournament --out` wrote.
        num_episodes: number of episodes to show of each pairing.

    Raises:
        ValueError: the summary is none of `arena tournament`, or has other fields than those of
            this version.
    """
    kept, bad, count = Kept(list), [], 0
    with open(folder / MATCHES, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.startswith(LINE):
                continue  # the settings of the tournament
            source = None  # the line may not tell it
            with suppress(ValueError, KeyError, TypeError):
                match = json.loads(line.partition(EPISODE)[0] + b"}")["match"]
                source = match_name(match["game"], match["seats"])
            count += 1
            if source is not None and len(kept[source]) >= num_episodes:
                continue
            read = read_line(number, line)
            if isinstance(read, BadLine):
                bad.append((MATCHES, read))
                count -= 1
                continue
            source = source or _lineup(read)
            kept[source].append(read._replace(source=source))
    episodes, path = _fitting(kept, num_episodes), folder / SUMMARY
    sources = {line.source for line in episodes}
    tables: list[TextTable] = []
    try:
        if path.is_file():
            tables = tournament_tables(json.loads(path.read_bytes()), sources)
    except (*OTHER_FIELDS, ValueError) as error:
        raise ValueError(
            f"{str(path)!r} does not hold the results of this version ({error!r}); remove "
            "the file, and the report shows the episodes"
        ) from error
    missing = f"{SUMMARY}: the tournament is not finished; the same command resumes it"
    left, absent = count - len(episodes), [] if tables else [missing]
    return PlayedFiles(folder.absolute().name, tables, [], episodes, left, bad, absent)


def _lineup(line: Recorded) -> str:
    episode = line.rollout.episode
    names = policies_of(episode)
    seats = [names.get(seat, UNKNOWN) for seat in seats_of(episode)]
    return lineup_name(episode.game, seats)


def _evaluations(
    path: Path, sources: Collection[str]
) -> tuple[list[TextTable], list[str], list[BadLine]]:
    """Tables and warnings of evaluations, and lines that are none; nothing without the file."""
    tables, warnings, bad = [], list[str](), []
    lines = path.read_bytes().splitlines() if path.is_file() else []
    for number, line in enumerate(lines, 1):
        try:
            found = json.loads(line)
            tables.append(evaluation_table(found, sources))
            warnings += map(str, found["warnings"])
        except (*OTHER_FIELDS, ValueError) as error:
            reason = f"want the results of an evaluation of this version ({error!r})"
            bad.append(BadLine(number, reason, shown_text(line)))
    return tables, warnings, bad


def played_page(found: PlayedFiles) -> str:
    """The page of an evaluation or a tournament.

    Raises:
        ModuleNotFoundError: Jinja is not installed.
    """
    data = packed(page_data(found.episodes))
    return rendered("played.html", title=found.name, found=found, data=data)
