"""Suites of games for models, submissions that anyone can verify, and the table of them.

A suite is a YAML file. Each of its games is played plain, with another prompt (`other`), once more
(`again`, the noise floor of the prompt) and disguised, in every seat, against each opponent. The seeds
follow from the suite's hash; a seed is the same in all of these cells.

A submission is a file of JSON lines:

| Line | Holds |
|---|---|
| first | the suite, its hash and the name of the policy |
| `cell`, `episode` | an episode: game, condition, opponent, seat and number of its seed, and its record without prompts |
| `table`, `probs` | action probabilities of the policy, a row for each information state of a small game |
| last | the results, what an endpoint says of its use, and the SHA-256 of the lines before |

`verify` plays each episode again with the recorded replies of the policy; opponents and chance play
themselves. It recomputes probabilities of bots, and every result.
"""

import gzip
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import yaml

import arena_envs
from arena_envs.bots import bots
from arena_envs.checks import did_you_mean
from arena_envs.game import AnyGame, bounds_of
from arena_envs.solvers import information_states, nash_conv
from arena_trainers.evaluate.baselines import is_small
from arena_trainers.evaluate.exploit import MAX_INFORMATION_STATES, is_tabular, tabular
from arena_trainers.evaluate.intervals import mean_interval
from arena_trainers.evaluate.result_rows import rows_of, scales_of, win_draw_loss
from arena_trainers.tournament.summary import PairOutcome, fit_elo
from arena_wrappers import (
    Episode,
    EpisodePlan,
    NoReplyError,
    Policy,
    PromptOptions,
    PromptWrapper,
    make_policy,
    stream_plans,
)
from arena_wrappers.play import replay_seat, turn_states
from arena_wrappers.records import append_bytes

SUITES = Path(__file__).with_name("suites")
CONDITIONS = ("plain", "other", "again", "disguised")
FIELDS = ("suite", "version", "games", "prompts", "num_seeds", "max_tokens")
CHUNK = 64  # episodes in progress
NUM_RESAMPLES = 200
UNLIKELY = 1e-6  # a played action with a smaller probability refutes a table


class Cell(NamedTuple):
    """The place of an episode: game of the suite, condition, opponent, seat, number of the seed."""

    game: str
    condition: str
    opponent: str
    seat: int
    number: int


class Suite:
    """A suite of games.

    Args:
        given: `suite` (its name), `version`, `games`, `prompts`, `num_seeds`, `max_tokens` of a reply,
            and perhaps `notes`. A game has `game`, `disguise` (a seed, or null where it cannot be
            disguised) and `opponents`; `prompts` has options of `plain` and `other`.

    Raises:
        ValueError: another content.
    """

    def __init__(self, given: Any) -> None:
        if not isinstance(given, dict) or not {*FIELDS} <= {*given} <= {
            *FIELDS,
            "notes",
        }:
            raise ValueError(
                f"want a suite with {', '.join(FIELDS)}, got {given!r:.200}"
            )
        self.given: dict[str, Any] = given
        known = {name: given[name] for name in FIELDS}
        text = json.dumps(known, sort_keys=True)
        self.hash = hashlib.sha256(text.encode()).hexdigest()
        self.opponents = {
            each: make_policy(each)
            for one in given["games"]
            for each in one["opponents"]
        }
        self.wrappers = {
            (one["game"], condition): self._wrapper(one, condition)
            for one in given["games"]
            for condition in CONDITIONS
            if condition != "disguised" or one["disguise"] is not None
        }
        self._env_fns = {key: one.clone for key, one in self.wrappers.items()}
        self.cells = [
            Cell(one["game"], condition, opponent, seat, number)
            for one in given["games"]
            for condition in CONDITIONS
            if (one["game"], condition) in self.wrappers
            for opponent in one["opponents"]
            for number in range(given["num_seeds"])
            for seat in range(self.rules(one["game"]).num_players)
        ]

    def rules(self, game: str, condition: str = "plain") -> AnyGame:
        """The rules of a game in a condition."""
        return self.wrappers[game, condition].env.game

    def plan(self, cell: Cell, policy: Policy) -> EpisodePlan:
        """The episode of a cell."""
        text = f"{self.hash} {cell.game} {cell.number}"
        seed = int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)
        seats = range(self.rules(cell.game).num_players)
        other = self.opponents[cell.opponent]
        return EpisodePlan(
            self._env_fns[cell.game, cell.condition],
            [policy if seat == cell.seat else other for seat in seats],
            seed,
            sample=int(cell.condition == "again"),
            prompts=[None for _ in seats],
        )

    def exact(self) -> list[tuple[str, str]]:
        """Games and conditions that are small enough for exact NashConv."""
        return [
            (game, condition)
            for game, condition in self.wrappers
            if condition != "again" and self.rules(game).kind == "competitive"
            if is_small(self.rules(game)) and self.rules(game).num_players > 1
        ]

    def _wrapper(self, one: Mapping[str, Any], condition: str) -> PromptWrapper:
        game = one["game"]
        if condition == "disguised":
            game = f"disguise:{one['disguise']}({game})"
        prompt = self.given["prompts"]["other" if condition == "other" else "plain"]
        return PromptWrapper(arena_envs.make(game), on_invalid="forfeit", **prompt)


def load_suite(name: str) -> Suite:
    """A suite that ships with this package, or a YAML file.

    Raises:
        ValueError: there is none, or it has another content.
    """
    known = sorted(path.stem for path in SUITES.glob("*.yaml"))
    path = SUITES / f"{name}.yaml" if name in known else Path(name)
    if not path.is_file():
        raise ValueError(f"no suite {name!r}; {did_you_mean(name, known)}")
    return Suite(yaml.safe_load(path.read_text(encoding="utf-8")))


Tables = dict[tuple[str, str], list[list[float]]]


@dataclass
class Submission:
    """The content of a submission's file.

    Attributes:
        header: of its first line.
        episodes: in the order of the file.
        tables: action probabilities by game and condition.
        end: of its last line; None if it is not finished.
        digest: SHA-256 of the lines before the last.
    """

    header: dict[str, Any]
    episodes: list[tuple[Cell, Episode]] = field(default_factory=list)
    tables: Tables = field(default_factory=dict)
    end: dict[str, Any] | None = None
    digest: str = ""


def read_submission(path: str | Path) -> Submission:
    """The content of a file; `.gz` is unpacked.

    Raises:
        ValueError: a line is no line of a submission; names it.
    """
    path = Path(path)
    data = (
        gzip.decompress(path.read_bytes())
        if path.suffix == ".gz"
        else path.read_bytes()
    )
    lines, digest = data.splitlines(keepends=True), hashlib.sha256()
    found: Submission | None = None
    for number, line in enumerate(lines, 1):
        try:
            given = json.loads(line)
            if found is None:
                found = Submission(given["board"])
            elif found.end is not None:
                raise ValueError("a line follows the results")
            elif "episode" in given:
                episode = Episode.from_json(json.dumps(given["episode"]))
                found.episodes.append((Cell(*given["cell"]), episode))
            elif "table" in given:
                game, condition = given["table"]
                found.tables[game, condition] = given["probs"]
            else:
                found.end = {key: given[key] for key in ("results", "usage", "sha256")}
                found.digest = digest.hexdigest()
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path}, line {number} is no line of a submission: {error!r}"
            ) from error
        digest.update(line)
    if found is None:
        raise ValueError(f"want a submission, got the empty file {path}")
    return found


def play_suite(
    suite: Suite,
    policy: Policy,
    path: Path,
    *,
    timeout: float | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> dict[str, Any]:
    """Plays what a submission lacks, finishes it, and returns its results.

    Raises:
        ValueError: the file is of another suite or policy.
        NoReplyError: a policy gave no reply in some episodes, which the next call plays again.
    """
    header = {"suite": suite.given, "hash": suite.hash, "policy": policy.name}
    if path.exists() and path.stat().st_size:
        content = path.read_bytes()
        os.truncate(
            path, content.rfind(b"\n") + 1
        )  # the line of a process that was killed
    if not path.exists() or not path.stat().st_size:
        _append(path, {"board": header})
    found = read_submission(path)
    if found.header != header:
        raise ValueError(f"{path} is of another suite or policy; give a new file")
    done = dict(found.episodes)
    left = [cell for cell in suite.cells if cell not in done]
    plans, lost = [suite.plan(cell, policy) for cell in left], []
    for index, episode in stream_plans(plans, batch_size=CHUNK, timeout=timeout):
        if episode.lost is not None:
            lost.append(episode.lost)
            continue
        done[left[index]] = short = _short(episode)
        _append(path, {"cell": left[index], "episode": json.loads(short.to_json())})
        progress(len(done), len(suite.cells))
    if lost:
        raise NoReplyError(f"{len(lost)} episodes were lost: {lost[0]}")
    for key in suite.exact():
        if key not in found.tables and (rows := _table(suite, key, policy)):
            found.tables[key] = rows
            _append(path, {"table": key, "probs": rows})
    if found.end is None:
        results = results_of(suite, done, found.tables)
        usage = getattr(policy, "usage", None)
        told = asdict(usage) if is_dataclass(usage) else None  # type: ignore[arg-type] # an instance
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        found.end = {"results": results, "usage": told, "sha256": digest}
        _append(path, found.end)
    return dict(found.end["results"])


def _append(path: Path, line: Any) -> None:
    append_bytes(path, f"{json.dumps(line, allow_nan=False)}\n".encode())


def _short(episode: Episode) -> Episode:
    """The record without what follows from the suite: prompts and legal actions."""
    empty: dict[str, Any] = {"messages": [], "legal": [], "prompt_ids": None}
    empty |= {"logprobs": None, "entropies": None}
    return replace(episode, turns=[replace(turn, **empty) for turn in episode.turns])


def _table(suite: Suite, key: tuple[str, str], policy: Policy) -> list[list[float]]:
    """Action probabilities of a policy; empty if it has none, or the game is large for a model."""
    rules = suite.rules(*key)
    num = len(information_states(rules))
    if not hasattr(policy, "action_probs"):
        return []
    if num > MAX_INFORMATION_STATES and not is_tabular(policy):
        return []
    prompt = suite.given["prompts"]["other" if key[1] == "other" else "plain"]
    scoring: Any = policy
    table, _ = tabular(scoring, rules, PromptOptions(**prompt))
    return [[float(p) for p in table[state]] for state in information_states(rules)]


Episodes = Mapping[Cell, Episode]


def results_of(suite: Suite, episodes: Episodes, tables: Tables) -> dict[str, Any]:
    """All numbers of a submission, by game, as JSON holds them."""
    turns = [
        turn
        for cell, e in episodes.items()
        for turn in e.turns
        if turn.seat == cell.seat
    ]
    return {
        "games": {
            one["game"]: _game_results(suite, one, episodes, tables)
            for one in suite.given["games"]
        },
        "num_episodes": len(episodes),
        "legal": fmean(turn.invalid is None for turn in turns),
        "tokens": sum(len(turn.token_ids or ()) for turn in turns),
    }


def _game_results(
    suite: Suite, one: Mapping[str, Any], episodes: Episodes, tables: Tables
) -> dict[str, Any]:
    game, num = one["game"], range(suite.given["num_seeds"])
    rules, seats = suite.rules(game), range(suite.rules(game).num_players)
    means: dict[str, list[float]] = {}
    cells: dict[str, Any] = {}
    for condition in CONDITIONS:
        if (game, condition) not in suite.wrappers:
            continue
        paid = np.zeros(len(num))
        for opponent in one["opponents"]:
            own = {
                seat: [episodes[Cell(game, condition, opponent, seat, n)] for n in num]
                for seat in seats
            }
            row = rows_of(rules, "", "policy", opponent, own)[-1]
            cells.setdefault(opponent, {})[condition] = [
                row.mean_return,
                row.low,
                row.high,
            ]
            paid += np.mean([[e.returns[s] for e in own[s]] for s in seats], axis=0)
        means[condition] = (paid / len(one["opponents"])).tolist()
    scales = {
        each: scales_of(suite.wrappers[game, "plain"].env, suite.opponents[each], seats)
        for each in one["opponents"]
    }
    low, high = bounds_of(rules)
    gaps = {
        name: _with_interval(
            [a - b for a, b in zip(means["plain"], means[other], strict=True)],
            high - low,
        )
        for name, other in (
            ("prompt", "other"),
            ("noise", "again"),
            ("recall", "disguised"),
        )
        if other in means
    }
    exact = {
        condition: nash_conv(
            suite.rules(game, condition),
            dict(
                zip(information_states(suite.rules(game, condition)), rows, strict=True)
            ),
        )
        for (name, condition), rows in tables.items()
        if name == game
    }
    return {
        "returns": cells,
        "optimum": {
            each: None if isinstance(s, str) else s["all"][1]
            for each, s in scales.items()
        },
        "gaps": gaps,
        "nash_conv": exact,
    }


def _with_interval(values: Sequence[float], spread: float) -> list[float]:
    return [fmean(values), *mean_interval(values, -spread, spread)]


def verify(path: str | Path) -> tuple[Suite, Submission]:
    """The suite and the content of a submission in which everything holds.

    Raises:
        ValueError: names what does not.
    """
    found = read_submission(path)

    def want(holds: bool, told: str) -> None:
        if not holds:
            raise ValueError(f"{path} is refused: {told}")

    suite = Suite(found.header.get("suite"))
    want(found.header.get("hash") == suite.hash, "the hash is not that of its suite")
    name, version = suite.given["suite"], suite.given["version"]
    if (SUITES / f"{name}.yaml").is_file():
        shipped = load_suite(name)
        same = shipped.given["version"] != version or shipped.hash == suite.hash
        want(same, f"version {version} of suite {name!r} has another hash here")
    counts = Counter(cell for cell, _ in found.episodes)
    for cell, count in counts.items():
        want(count == 1, f"{tuple(cell)} is there {count} times")
        want(cell in suite.cells, f"{tuple(cell)} is no cell of the suite")
    missing = [cell for cell in suite.cells if cell not in counts]
    want(not missing, f"{len(missing)} episodes are missing, first {missing[:1]}")
    policy = str(found.header.get("policy"))
    for cell, episode in found.episodes:
        plan = suite.plan(cell, _Named(policy))
        try:
            replay_seat(episode, plan, cell.seat, _short)
        except ValueError as error:
            want(False, f"{tuple(cell)}: {error}")
        longest = max((len(t.token_ids or ()) for t in episode.turns), default=0)
        want(
            longest <= suite.given["max_tokens"],
            f"{tuple(cell)}: {longest} tokens in a reply",
        )
    end = found.end
    if end is None:
        raise ValueError(
            f"{path} is refused: it is not finished; run the same command again"
        )
    _check_tables(suite, found, policy, want)
    results = json.loads(
        json.dumps(results_of(suite, dict(found.episodes), found.tables))
    )
    want(
        end["results"] == results,
        "its results are not those of its episodes and tables",
    )
    want(end["sha256"] == found.digest, "a line was changed: the SHA-256 differs")
    return suite, found


@dataclass
class _Named:
    """The place of the policy in a plan whose replies are recorded."""

    name: str

    def act(self, requests: Any) -> Any:
        raise NotImplementedError


def _check_tables(
    suite: Suite, found: Submission, policy: str, want: Callable[[bool, str], None]
) -> None:
    """Tables are distributions over all information states, fit the play, and are those of a bot."""
    keys = suite.exact()
    for key, rows in found.tables.items():
        want(key in keys, f"{key} is no exact cell of the suite")
        rules = suite.rules(*key)
        states = information_states(rules)
        legal = [len(rules.legal_actions(state)) for state in states.values()]
        right = [len(row) for row in rows] == legal
        sums = all(abs(sum(row) - 1) < 1e-6 and min(row) >= 0 for row in rows)
        want(right and sums, f"the probabilities of {key} are no distributions")
        if bots.knows(policy):
            true = _table(suite, key, make_policy(policy))
            near = np.allclose(np.concatenate(rows), np.concatenate(true), atol=1e-9)
            want(near, f"the probabilities of {key} are not those of {policy}")
    table = {
        key: dict(zip(information_states(suite.rules(*key)), rows, strict=True))
        for key, rows in found.tables.items()
    }
    for cell, episode in found.episodes:
        key = (cell.game, "plain" if cell.condition == "again" else cell.condition)
        if key not in table:
            continue
        rules = suite.rules(*key)
        for turn, state in zip(episode.turns, turn_states(episode, rules), strict=True):
            if turn.seat == cell.seat and turn.invalid is None:
                row = table[key][cell.seat, rules.information_state(state, cell.seat)]
                p = row[list(rules.legal_actions(state)).index(turn.action)]
                want(
                    p >= UNLIKELY,
                    f"{tuple(cell)}: an action of probability {p} was played",
                )


SCORES = {"win": 1.0, "draw": 0.5, "loss": 0.0}
Ratings = dict[str, tuple[float, float, float]]  # Elo and the ends of its interval


def rate_submissions(suite: Suite, found: Mapping[str, Submission]) -> Ratings:
    """Elo of policies and opponents by one Bradley-Terry fit; all games have the same weight.

    The intervals are a bootstrap over the seeds of each game.
    """
    names = [*dict.fromkeys([*found, *suite.opponents])]
    played: dict[str, dict[int, list[PairOutcome]]] = {}
    for name, one in found.items():
        for cell, episode in one.episodes:
            rules = suite.rules(cell.game)
            if cell.opponent != name and rules.kind == "competitive":
                score = SCORES[win_draw_loss(rules, cell.seat, episode)]
                met = PairOutcome(names.index(name), names.index(cell.opponent), score)
                played.setdefault(cell.game, {}).setdefault(cell.number, []).append(met)

    def fit(draw: Callable[[list[int]], Sequence[int]]) -> Any:
        games = [
            [met for number in draw([*numbers]) for met in numbers[number]]
            for numbers in played.values()
        ]
        mean = sum(map(len, games)) / len(games)
        weights = [mean / len(game) for game in games for _ in game]
        return fit_elo(len(names), [met for game in games for met in game], weights)[0]

    rng = np.random.default_rng(0)
    again = [
        fit(lambda n: rng.choice(n, len(n)).tolist()) for _ in range(NUM_RESAMPLES)
    ]
    low, high = np.quantile(again, [0.025, 0.975], axis=0)
    ends = zip(fit(list).tolist(), low.tolist(), high.tolist(), strict=True)
    return dict(zip(names, ends, strict=True))


PAGE = """# Board

Suite `{name}`, version {version}, hash `{hash}`: {num_episodes} episodes of each policy. [How to read, repeat and add to it](howto.md#board).

## All games

{ratings}

Elo: one Bradley-Terry fit of wins, draws and losses, all games with equal weight; in brackets 95 % intervals, a bootstrap over
seeds. Policies in italics are opponents. Legal: share of legal replies. Tokens: of all replies.

{games}

## What this page cannot show

- **Who played.** `arena board verify` plays all episodes again and recomputes every number. It cannot tell whether the named model wrote the replies.
- Words of a reply that change neither its action nor its legality: only the SHA-256 covers them, and whoever edits can compute it again.
- Probabilities of a model: they are checked against its play, those of a bot are computed again.
- Costs: told by the endpoint.
"""


def page(paths: Sequence[str | Path]) -> str:
    """The table of submissions of one suite as Markdown; each is verified first.

    Raises:
        ValueError: one is refused, two are of the same policy, or of different suites.
    """
    checked = [verify(path) for path in paths]
    suite = checked[0][0]
    found = {one.header["policy"]: one for _, one in checked}
    if len(found) < len(checked) or any(
        other.hash != suite.hash for other, _ in checked
    ):
        raise ValueError("want submissions of different policies for the same suite")
    elos = rate_submissions(suite, found)
    rows = [
        [
            name if name in found else f"*{name}*",
            "{:.0f} [{:.0f}, {:.0f}]".format(*elos[name]),
            *(_totals(found[name]) if name in found else ["", "", ""]),
        ]
        for name in sorted(elos, key=lambda name: -elos[name][0])
    ]
    games = "\n\n".join(_of_game(suite, one, found) for one in suite.given["games"])
    return PAGE.format(
        name=suite.given["suite"],
        version=suite.given["version"],
        hash=suite.hash[:16],
        num_episodes=len(suite.cells),
        ratings=_markdown(["Policy", "Elo", "Legal", "Tokens", "Cost"], rows),
        games=games,
    )


def _totals(one: Submission) -> list[str]:
    results, usage = one.end["results"], one.end["usage"]  # type: ignore[index] # verified
    cost = f"{usage['cost']:g}" if usage else "-"
    return [f"{results['legal']:.1%}", str(results["tokens"] or "-"), cost]


def _of_game(
    suite: Suite, one: Mapping[str, Any], found: Mapping[str, Submission]
) -> str:
    """The section of a game: returns of the plain condition, gaps and NashConv."""
    heads = ["Policy", *(f"against {each}" for each in one["opponents"])]
    heads += ["recall gap", "prompt gap", "noise", "NashConv", "disguised"]
    rows = []
    for name, each in found.items():
        results = each.end["results"]["games"][one["game"]]  # type: ignore[index] # verified
        gaps, exact = results["gaps"], results["nash_conv"]
        cells = [_interval(results["returns"][o]["plain"]) for o in one["opponents"]]
        cells += [_interval(gaps.get(gap)) for gap in ("recall", "prompt", "noise")]
        cells += [_number(exact.get(c)) for c in ("plain", "disguised")]
        rows.append([name, *cells])
    best = [_number(value) for value in results["optimum"].values()]
    rows.append(["*a best response*", *best, *[""] * 5])
    return f"### {one['game']}\n\n{_markdown(heads, rows)}"


def _interval(values: Sequence[float] | None) -> str:
    return "-" if values is None else "{:.2f} [{:.2f}, {:.2f}]".format(*values)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
