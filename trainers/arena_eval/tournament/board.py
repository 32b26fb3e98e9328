"""Suites of games for models, submissions that anyone can verify, and the table of them.

A suite is a YAML file. Its games are played plain, and where it says so with the prompt `other`,
plain `again` (the noise floor of the prompts) and `disguised`; in every seat, against each opponent.
Seeds follow from the suite's hash and are the same in all these cells.

A submission is a file of JSON lines, in this order:

| Line | Holds |
|---|---|
| `board` | name, version and hash of the suite; name and prompt options of the policy |
| `cell` | an episode: the policy's replies, all actions, the returns, and tokens that the policy tells |
| `table` | action probabilities of a model, a row for each information state of a small game |
| `usage` | what an endpoint tells of its use |

It holds no result: `verify` plays each episode again with these replies, while opponents and chance
play themselves. Bots are played again by their names.
"""

import gzip
import hashlib
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import yaml
from numpy.typing import NDArray

import arena_envs
from arena_envs.bots import BOTS
from arena_envs.checks import did_you_mean
from arena_envs.game import AnyGame, bounds_of
from arena_envs.solvers import Table, information_states, nash_conv
from arena_envs.trust import NotTrusted, named_only
from arena_eval.baselines import is_small
from arena_eval.exploit import SHORT, is_tabular, tabular
from arena_eval.intervals import mean_interval, paired_interval
from arena_eval.result_rows import scales_of, token_ids, win_draw_loss
from arena_eval.tournament.round_robin import PairOutcome, fit_elo
from arena_wrappers import (
    BotPolicy,
    Episode,
    EpisodePlan,
    NoReplyError,
    Policy,
    PromptOptions,
    PromptWrapper,
    RandomPolicy,
    ScriptedPolicy,
    make_policy,
    stream_plans,
)
from arena_wrappers.locks import locked
from arena_wrappers.policies import INSTEAD, own_prompt
from arena_wrappers.records import Turn, append_bytes, whole_file, whole_lines

SUITES = Path(__file__).with_name("suites")
FIELDS = ("suite", "version", "games", "prompts", "num_seeds", "max_tokens", "notes")
OF_GAME = ("game", "opponents", "disguise", "scale")
CHUNK = 64  # episodes in progress
MAX_SCORED = 200  # information states of the exact cells of a model
NUM_RESAMPLES = 200
MAX_DEVIATION = 6  # standard deviations of the log-likelihood of play under a table
MAX_RATIO = 200  # of a packed file's bytes; honest ones have less than 40
# no Markdown, no HTML, no look-alikes
NAME = r"(?a)(?!_|.*\W_)\w([\w .,:;@/#=()+-]{,79}[\w)])?"
BROKEN = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)

Key = tuple[str, str]  # game and condition


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
        given: `suite` (its name), `version`, `games`, `prompts`, `num_seeds`, `max_tokens` of a
            reply, and `notes`. A game has `game` and `opponents` (`self`: the policy in all seats),
            and perhaps `disguise`, a seed, and `scale`, the returns of the scores 0 and 100.
            `prompts` has options of `plain`, and perhaps of `other`.

    Raises:
        ValueError: a field is missing or unknown.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        _want({*given} == {*FIELDS}, f"want the fields {FIELDS}, got {[*given]}")
        for one in given["games"]:
            fits = {*OF_GAME[:2]} <= {*one} <= {*OF_GAME}
            _want(fits, f"want fields of a game among {OF_GAME}, got {one}")
        self.given, self.games = given, {one["game"]: one for one in given["games"]}
        text = json.dumps({name: given[name] for name in FIELDS[:-1]}, sort_keys=True)
        self.hash = hashlib.sha256(text.encode()).hexdigest()
        others = {name for one in given["games"] for name in one["opponents"]}
        self.opponents = {name: make_policy(name) for name in sorted(others - {"self"})}
        self.wrappers: dict[Key, PromptWrapper] = {}
        for game, one in self.games.items():
            plain, other = map(given["prompts"].get, ("plain", "other"))
            played = {"plain": (game, plain)}
            if other is not None:
                played |= {"other": (game, other), "again": (game, plain)}
            if "disguise" in one:
                played["disguised"] = f"disguise:{one['disguise']}({game})", plain
            for condition, (name, prompt) in played.items():
                env = arena_envs.make(name)
                made = PromptWrapper(env, on_invalid="forfeit", **prompt)
                self.wrappers[game, condition] = made
        self._env_fns = {key: one.clone for key, one in self.wrappers.items()}
        self.cells = [
            Cell(*key, opponent, seat, number)
            for key in self.wrappers
            for opponent in self.games[key[0]]["opponents"]
            for number in range(given["num_seeds"])
            for seat in range(1 if opponent == "self" else self.rules(key).num_players)
        ]

    def rules(self, key: Key) -> AnyGame:
        """The rules of a game in a condition."""
        return self.wrappers[key].env.game

    def own_seats(self, cell: Cell) -> Sequence[int]:
        """The seats of the policy."""
        every = range(self.rules(cell[:2]).num_players)
        return every if cell.opponent == "self" else (cell.seat,)

    def plan(self, cell: Cell, policy: Policy) -> EpisodePlan:
        """The episode of a cell."""
        text = f"{self.hash} {cell.game} {cell.number}"
        seats, own = range(self.rules(cell[:2]).num_players), self.own_seats(cell)
        return EpisodePlan(
            self._env_fns[cell[:2]],
            [policy if s in own else self.opponents[cell.opponent] for s in seats],
            int(hashlib.sha256(text.encode()).hexdigest()[:8], 16),
            sample=int(cell.condition == "again"),
            prompts=[self.prompt(cell.condition, policy) for _ in seats],
        )

    def prompt(self, condition: str, policy: Policy) -> PromptOptions | None:
        """The options that a policy carries, but for the condition `other`."""
        return None if condition == "other" else own_prompt(policy)

    @cached_property
    def exact(self) -> dict[Key, AnyGame]:
        """The rules that are small enough for exact NashConv."""
        return {
            key: self.rules(key)
            for key in self.wrappers
            if key[1] != "again" and self.rules(key).kind == "competitive"
            if self.rules(key).num_players > 1 and is_small(self.rules(key))
        }


def load_suite(name: str, *, allow_code: bool = False) -> Suite:
    """A suite that ships with this package, or a YAML file.

    Args:
        name: of the suite, or path of the file.
        allow_code: whether a file may name code, files and searches of any length.

    Raises:
        ValueError: there is none, it is broken, or a file names what it may not.
    """
    known = sorted(path.stem for path in SUITES.glob("*.yaml"))
    path = SUITES / f"{name}.yaml" if name in known else Path(name)
    _want(path.is_file(), f"no suite {name!r}; {did_you_mean(name, known)}")
    try:
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
        if name in known:
            return Suite(given)
        with named_only(allow_code=allow_code):
            return Suite(given)
    except NotTrusted:
        raise
    except (*BROKEN, yaml.YAMLError) as error:
        raise ValueError(f"{path} is no suite: {error!r:.300}") from error


@dataclass
class Submission:
    """The content of a submission's file.

    Attributes:
        header: of its first line.
        records: cells and their lines.
        tables: action probabilities by game and condition.
        usage: what an endpoint told of its use, in all sessions.
        is_finished: whether the file has its last line.
        episodes: by cell, once they were played again.
    """

    header: dict[str, Any]
    records: list[tuple[Cell, dict[str, Any]]] = field(default_factory=list)
    tables: dict[Key, list[list[float]]] = field(default_factory=dict)
    usage: Counter[str] = field(default_factory=Counter)
    is_finished: bool = False
    episodes: dict[Cell, Episode] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the policy."""
        return str(self.header["policy"])

    @property
    def is_bot(self) -> bool:
        """Whether the name is that of a bot, which can be played again."""
        return self.name.partition(":")[0] in BOTS


def read_submission(path: str | Path) -> Submission:
    """The content of a file; `.gz` is unpacked.

    Raises:
        ValueError: a line is no line of a submission; names it.
    """
    path = Path(path)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            data = file.read(most := MAX_RATIO * path.stat().st_size + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is no whole .gz file: {error}") from error
    told = f"{path} unpacks to {MAX_RATIO} times its size; give it unpacked"
    _want(not data or len(data) < most, told)
    found: Submission | None = None
    for number, line in enumerate(data.splitlines(), 1):
        try:
            given = json.loads(line)
            if found is None:
                found = Submission(dict(given["board"]))
                hash(PromptOptions(**(found.header["prompt"] or {})))
                _want_name(found.name)
            elif "cell" in given:
                game, condition, other, seat, turn = given["cell"]
                cell = Cell(str(game), str(condition), str(other), int(seat), int(turn))
                given["tokens"] = list(map(int, given["tokens"]))
                given["replies"] = list(map(str, given["replies"]))
                found.records.append((cell, given))
            elif "table" in given:
                game, condition = map(str, given["table"])
                rows = [[float(p) for p in row] for row in given["probs"]]
                found.tables[game, condition] = rows
            else:
                usage = {k: float(v) for k, v in given["usage"].items()}
                fits = all(0 <= number < math.inf for number in usage.values())
                _want(fits, f"want a use of at least 0, got {usage}")
                found.usage.update(usage)
                found.is_finished = bool(given["is_finished"])
        except (*BROKEN, RecursionError) as error:
            raise ValueError(
                f"{path}, line {number} is no line of a submission: {error!r:.200}"
            ) from error
    if found is None:
        raise ValueError(f"want a submission, got the empty file {path}")
    return found


def _recorded(one: Submission, replies: Sequence[str]) -> Policy:
    """A policy that gives recorded replies in order."""
    left, given = iter(replies), one.header["prompt"]
    policy = ScriptedPolicy(lambda request: next(left), one.name)
    policy.prompt = PromptOptions(**given) if given else None  # type: ignore[attr-defined] # of some
    return policy


def play_suite(
    suite: Suite,
    policy: Policy,
    path: Path,
    *,
    name: str = "",
    timeout: float | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> None:
    """Plays what a submission lacks, and finishes it.

    Raises:
        ValueError: the file is of another suite or policy, another process goes on with it, or a
            reply is longer than the suite allows.
        NoReplyError: a policy gave no reply in some episodes, which the next call plays again.
    """
    with locked(path):
        _play_suite(suite, policy, path, name or policy.name, timeout, progress)


def _play_suite(
    suite: Suite,
    policy: Policy,
    path: Path,
    name: str,
    timeout: float | None,
    progress: Callable[[int, int], object],
) -> None:
    before = _usage(policy)
    found = _begun(suite, policy, path, name)
    done = dict(found.records)
    left = [cell for cell in suite.cells if cell not in done]
    plans, lost = [suite.plan(cell, policy) for cell in left], []
    try:
        for index, episode in stream_plans(plans, batch_size=CHUNK, timeout=timeout):
            if episode.lost is not None:
                lost.append(episode.lost)
                continue
            done[left[index]] = record = _record(suite, left[index], episode)
            _want_tokens(suite, record)
            _append(path, record)
            progress(len(done), len(suite.cells))
    finally:  # also of a session that is stopped
        if usage := _usage(policy) - before:
            found.usage.update(usage)
            _append(path, {"usage": usage, "is_finished": False})
    if lost:
        raise NoReplyError(f"{len(lost)} episodes were lost: {lost[0]}")
    if found.is_finished:
        return
    # all lines in the order of the suite
    lines: list[Any] = [{"board": found.header}, *(done[cell] for cell in suite.cells)]
    tables = {} if found.is_bot else _tables(suite, policy)
    lines += [{"table": key, "probs": rows} for key, rows in tables.items()]
    lines.append({"usage": found.usage, "is_finished": True})
    with whole_file(path) as file:
        file.writelines(f"{json.dumps(line)}\n" for line in lines)


def _usage(policy: Policy) -> Counter[str]:
    """What an endpoint has told of its use so far."""
    told: Any = getattr(policy, "usage", None)
    return Counter({} if told is None else asdict(told))


def _begun(suite: Suite, policy: Policy, path: Path, name: str) -> Submission:
    """What a file holds of a submission; a new one gets its first line."""
    _want_name(name)
    is_bot = isinstance(policy, BotPolicy | RandomPolicy) and name == policy.name
    taken = name.partition(":")[0] in BOTS or name in suite.opponents
    _want(is_bot or not taken, f"{name} is the name of a bot; give another --name")
    _want(path.suffix != ".gz", f"want a name without .gz for a new file, got {path}")
    own = own_prompt(policy)
    header = {part: suite.given[part] for part in ("suite", "version")}
    header |= {"hash": suite.hash, "policy": name}
    header |= {"prompt": None if own is None else asdict(own)}
    if not path.exists() or not whole_lines(path, b'{"', b'{"board": '):
        _append(path, {"board": header})
    found = read_submission(path)
    if found.header != json.loads(json.dumps(header)):
        raise ValueError(f"{path} is of another suite or policy; give a new file")
    return found


def _append(path: Path, line: Any) -> None:
    append_bytes(path, f"{json.dumps(line)}\n".encode())


def _own_turns(suite: Suite, cell: Cell, episode: Episode) -> list[Turn]:
    return [turn for turn in episode.turns if turn.seat in suite.own_seats(cell)]


def _record(suite: Suite, cell: Cell, episode: Episode) -> dict[str, Any]:
    own = _own_turns(suite, cell, episode)
    no_text = {"overlong", *INSTEAD}  # illegal whatever the text, as an empty one is
    tokens = [sum(map(len, token_ids(turn))) for turn in own]
    return {
        "cell": cell,
        "replies": ["" if turn.invalid in no_text else turn.reply for turn in own],
        "tokens": tokens if all(tokens) else [],
        "actions": episode.actions,
        "returns": episode.returns,
    }


def _tables(suite: Suite, policy: Policy) -> dict[Key, list[list[float]]]:
    """Action probabilities of a policy in exact cells; a model has none in large games."""
    scoring: Any = policy
    found = {}
    for key, rules in suite.exact.items():
        states = information_states(rules)
        given = suite.given["prompts"]["other" if key[1] == "other" else "plain"]
        own = suite.prompt(key[1], policy) or PromptOptions(**given)
        if is_tabular(policy):
            own = SHORT
        elif len(states) > MAX_SCORED or own.history != "state" or not _scores(policy):
            continue
        table, _ = tabular(scoring, rules, own)
        found[key] = [list(map(float, table[state])) for state in states]
    return found


def _scores(policy: Policy) -> bool:
    """Whether a policy has action probabilities; a model at temperature 0 has none."""
    sampling = getattr(policy, "sampling", None)
    is_greedy = getattr(sampling, "temperature", None) == 0
    return hasattr(policy, "action_probs") and not is_greedy


def verify_submission(
    path: str | Path, suite: Suite, *, allow_code: bool = False
) -> Submission:
    """A submission with all its episodes played again.

    Args:
        path: of its file.
        suite: that it plays.
        allow_code: whether a bot may search for any time.

    Raises:
        ValueError: names what does not hold.
    """
    found = read_submission(path)
    try:
        with named_only(allow_code=allow_code):
            _verify(found, suite)
    except ValueError as error:
        raise ValueError(f"{path} is refused: {error}") from error
    return found


def _verify(found: Submission, suite: Suite) -> None:
    of = [found.header.get(name) for name in ("suite", "version", "hash")]
    want = [suite.given["suite"], suite.given["version"], suite.hash]
    _want(of == want, f"want suite {want}, got {of}")
    taken = not found.is_bot and found.name in suite.opponents
    _want(not taken, f"{found.name} is the name of an opponent")
    _want(found.is_finished, "it is not finished; run the same command again")
    cells = [cell for cell, _ in found.records]
    for number, (cell, wanted) in enumerate(zip_longest(cells, suite.cells)):
        _want(cell == wanted, f"want {wanted} as episode {number}, got {cell}")
    bot = make_policy(found.name) if found.is_bot else None
    plans = [
        suite.plan(cell, bot or _recorded(found, record["replies"]))
        for cell, record in found.records
    ]
    played: dict[Cell, Episode] = {}
    for index, episode in stream_plans(plans, batch_size=CHUNK, on_error="lose"):
        cell, record = found.records[index]
        _want(episode.lost is None, f"{tuple(cell)}: {episode.lost}")
        again = json.loads(json.dumps(_record(suite, cell, episode)))
        for part in ("replies", "actions", "returns"):
            was, now = record.get(part), again[part]
            _want(was == now, f"{tuple(cell)}: {part} was {was!r} and is {now!r}")
        _want_tokens(suite, record)
        played[cell] = episode
    found.episodes = {cell: played[cell] for cell in suite.cells}
    _want(not (bot and found.tables), "tables of a bot are computed; leave them out")
    _want_tables(suite, found)
    if bot:
        found.tables = _tables(suite, bot)


def _want(holds: bool, told: str) -> None:
    if not holds:
        raise ValueError(told)


def _want_name(name: str) -> None:
    _want(re.fullmatch(NAME, name) is not None, f"want a name of {NAME}, got {name!r}")


def _want_tokens(suite: Suite, record: Mapping[str, Any]) -> None:
    tokens, most = record["tokens"], suite.given["max_tokens"]
    num = len(record["replies"])
    fits = len(tokens) in (0, num) and all(0 < number <= most for number in tokens)
    _want(fits, f"want 1 to {most} tokens in each of {num} replies, got {tokens}")


def _want_tables(suite: Suite, found: Submission) -> None:
    """Refuses tables that are no distributions over legal actions, or do not fit the play."""
    for key, rows in found.tables.items():
        _want(key in suite.exact, f"{key} is no exact cell of the suite")
        states = information_states(suite.rules(key)).values()
        legal = [len(suite.rules(key).legal_actions(state)) for state in states]
        fits = legal == list(map(len, rows))
        fits = fits and all(min(p) >= 0 and abs(sum(p) - 1) < 1e-6 for p in rows)
        _want(fits, f"{key} has no distribution for each information state")
        far = _deviation(suite, key, found)
        told = f"{far:.1f} standard deviations from its probabilities"
        _want(far <= MAX_DEVIATION, f"the play of {key} is {told}")


def _table(suite: Suite, key: Key, found: Submission) -> Table:
    states = information_states(suite.rules(key))
    return dict(zip(states, found.tables[key], strict=True))


def _deviation(suite: Suite, key: Key, found: Submission) -> float:
    """Standard deviations of the log-likelihood of legal play from its mean under a table."""
    rules, table = suite.rules(key), _table(suite, key, found)
    gap, variance = 0.0, 1.0
    for cell, episode in found.episodes.items():
        if (cell.game, cell.condition.replace("again", "plain")) != key:
            continue
        for turn in _own_turns(suite, cell, episode):
            if turn.invalid is not None:
                continue
            row = table[turn.seat, rules.information_state(turn.state, turn.seat)]
            p = row[list(rules.legal_actions(turn.state)).index(turn.action)]
            logs = [(q, math.log(q)) for q in row if q]
            mean = sum(q * log for q, log in logs)
            gap += (math.log(p) if p else -math.inf) - mean
            variance += sum(q * (log - mean) ** 2 for q, log in logs)
    return abs(gap) / math.sqrt(variance)


SCORES = {"win": 1.0, "draw": 0.5, "loss": 0.0}


def rate_submissions(
    suite: Suite, found: Mapping[str, Submission]
) -> dict[str, tuple[float, ...]]:
    """Elo, and the ends of its interval, of policies and opponents in plain play.

    One Bradley-Terry fit, in which all games have the same weight. The intervals are a bootstrap over the seeds of each game.
    """
    names, games = [*dict.fromkeys([*found, *suite.opponents])], [*suite.games]
    outcomes, places = [], []
    for name, one in found.items():
        for cell, episode in one.episodes.items():
            rules = suite.rules(cell[:2])
            is_rated = cell.condition == "plain" and rules.kind == "competitive"
            if is_rated and cell.opponent not in ("self", name):
                score = SCORES[win_draw_loss(rules, cell.seat, episode)]
                pair = names.index(name), names.index(cell.opponent)
                outcomes.append(PairOutcome(*pair, score))
                places.append((games.index(cell.game), cell.number))
    game, seed = np.transpose(places)

    def fit(draws: NDArray[Any]) -> Any:  # how often each seed of each game counts
        weights = draws[game, seed] / np.bincount(game)[game]
        return fit_elo(len(names), outcomes, weights / weights.mean())[0].tolist()

    num, shape = suite.given["num_seeds"], (NUM_RESAMPLES, len(games))
    draws = np.random.default_rng(0).multinomial(num, np.full(num, 1 / num), shape)
    ends = np.quantile([*map(fit, draws)], [0.025, 0.975], axis=0).tolist()
    elos = fit(np.ones((len(games), num)))
    return dict(zip(names, zip(elos, *ends, strict=True), strict=True))


def submissions_page(
    paths: Sequence[str | Path], suite: Suite, *, allow_code: bool = False
) -> str:
    """The table of submissions as Markdown; each is verified first.

    Args:
        paths: of their files.
        suite: that they play.
        allow_code: as for `verify_submission`.

    Raises:
        ValueError: one is refused, or two are of the same policy.
    """
    names = [read_submission(path).name for path in paths]
    twice = sorted({name for name in names if names.count(name) > 1})
    _want(not twice, f"want one submission of each policy, got several of {twice}")
    checked = [verify_submission(p, suite, allow_code=allow_code) for p in paths]
    found = {one.name: one for one in checked}
    elos = sorted(rate_submissions(suite, found).items(), key=lambda item: -item[1][0])
    rows = [
        {"Policy": name, "Elo": "{:.0f} [{:.0f}, {:.0f}]".format(*elo)}
        | (_totals(suite, found[name]) if name in found else {"Policy": f"*{name}*"})
        for name, elo in elos
    ]
    shown = {
        **suite.given,
        "notes": "\n".join(f"- {note}" for note in suite.given["notes"]),
        "hash": suite.hash[:16],
        "num_cells": len(suite.cells),
        "ratings": _markdown(rows),
        "by_game": "\n\n".join(_of_game(suite, game, checked) for game in suite.games),
        "deviation": MAX_DEVIATION,
    }
    return (SUITES / "page.md").read_text(encoding="utf-8").format(**shown)


Row = dict[str, str]


def _totals(suite: Suite, one: Submission) -> Row:
    turns = [t for each in one.episodes.items() for t in _own_turns(suite, *each)]
    tokens = sum(sum(record["tokens"]) for _, record in one.records)
    return {
        "Legal": f"{_legal_share(suite, one):.1%}",
        "Characters of a reply": f"{fmean(len(turn.reply) for turn in turns):.0f}",
        "Tokens": f"{tokens or one.usage['completion_tokens']:,.0f}",
        "Cost": f"{one.usage['cost']:g}",
    }


def _legal_share(suite: Suite, one: Submission, key: Key | None = None) -> float:
    """The share of legal replies, in a game and condition or in all."""
    return fmean(
        turn.invalid is None
        for cell, episode in one.episodes.items()
        for turn in _own_turns(suite, cell, episode)
        if key in (None, cell[:2])
    )


GAPS = {"recall gap": "disguised", "prompt gap": "other", "noise floor": "again"}


def _of_game(suite: Suite, game: str, found: Sequence[Submission]) -> str:
    """The section of a game."""
    best = {"Policy": "*a best response*"}
    env = suite.wrappers[game, "plain"].env
    for name in suite.games[game]["opponents"]:
        other: Any = suite.opponents.get(name, "self")
        scales = scales_of(env, other, range(env.game.num_players))
        if not isinstance(scales, str):
            best[f"against {name}"] = f"{scales['all'][1]:z.2f}"
    rows = [_row(suite, game, one) for one in found] + [best] * (len(best) > 1)
    return f"### {game}\n\n{_markdown(rows)}"


def _row(suite: Suite, game: str, one: Submission) -> Row:
    """Returns in plain play, gaps, exact NashConv, and the suite's score."""
    low, high = bounds_of(suite.rules((game, "plain")))
    paid = {c: _returns(suite, (g, c), one) for g, c in suite.wrappers if g == game}
    row = {"Policy": f"{one.name} ✓" if one.is_bot else one.name}
    for name, values in zip(suite.games[game]["opponents"], paid["plain"], strict=True):
        ends = mean_interval(values.tolist(), low, high)
        row[f"against {name}"] = _interval(values, ends)
    for head, condition in GAPS.items():
        if condition in paid:
            gaps = (paid["plain"] - paid[condition]).mean(axis=0)
            row[head] = _interval(gaps, paired_interval(gaps.tolist(), high - low))
    for key in one.tables:
        if key[0] == game and _legal_share(suite, one, key) >= 0.5:
            value = nash_conv(suite.rules(key), _table(suite, key, one))
            row[f"NashConv, {key[1]}"] = f"{value:z.3f}"
    if scale := suite.games[game].get("scale"):
        score = 100 * (paid["plain"].mean() - scale[0]) / (scale[1] - scale[0])
        row["score"] = f"{score:z.1f}"
    return row


def _returns(suite: Suite, key: Key, one: Submission) -> NDArray[np.float64]:
    """Mean returns over the seats, by opponent and seed."""
    paid = [
        episode.returns[seat]
        for cell, episode in one.episodes.items()
        if cell[:2] == key
        for seat in suite.own_seats(cell)
    ]
    shape = len(suite.games[key[0]]["opponents"]), suite.given["num_seeds"], -1
    return np.asarray(np.reshape(paid, shape).mean(axis=2))


def _interval(values: NDArray[np.float64], ends: tuple[float, float]) -> str:
    return "{:z.2f} [{:z.2f}, {:z.2f}]".format(values.mean(), *ends)


def _markdown(rows: Sequence[Row]) -> str:
    heads = [*dict.fromkeys(head for row in rows for head in row)]
    cells = [[row.get(head, "") for head in heads] for row in rows]
    lines = [heads, ["---"] * len(heads), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
