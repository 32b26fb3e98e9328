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
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

import arena_envs
from arena_envs import yaml_text
from arena_envs.bots import BOTS
from arena_envs.checks import did_you_mean
from arena_envs.game import AnyGame, bounds_of
from arena_envs.solvers import InfosetTable, information_states, nash_conv
from arena_envs.trust import NotTrusted, named_only
from arena_eval.baselines import is_small
from arena_eval.exact import ExactEvaluation
from arena_eval.exploit import SHORT, is_tabular, tabular
from arena_eval.intervals import mean_interval, paired_interval
from arena_eval.luck import Adjusted, adjusted_mean, worth_text
from arena_eval.recorded_luck import EXACT_VALUES, LuckCorrections
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

GameCondition = tuple[str, str]  # game and condition


class BoardCell(NamedTuple):
    """The place of an episode: game of the suite, condition, opponent, seat, number of the seed."""

    game: str
    condition: str
    opponent: str
    seat: int
    number: int


class Suite:
    """A suite of games.

    Args:
        fields: `suite` (its name), `version`, `games`, `prompts`, `num_seeds`, `max_tokens` of a
            reply, and `notes`. A game has `game` and `opponents` (`self`: the policy in all seats),
            and perhaps `disguise`, a seed, and `scale`, the returns of the scores 0 and 100.
            `prompts` has options of `plain`, and perhaps of `other`.

    Raises:
        ValueError: a field is missing or unknown.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        _want({*fields} == {*FIELDS}, f"want the fields {FIELDS}, got {[*fields]}")
        for entry in fields["games"]:
            fits = {*OF_GAME[:2]} <= {*entry} <= {*OF_GAME}
            _want(fits, f"want fields of a game among {OF_GAME}, got {entry}")
        self.given, self.games = (
            fields,
            {entry["game"]: entry for entry in fields["games"]},
        )
        text = json.dumps({name: fields[name] for name in FIELDS[:-1]}, sort_keys=True)
        self.hash = hashlib.sha256(text.encode()).hexdigest()
        others = {name for entry in fields["games"] for name in entry["opponents"]}
        self.opponents = {name: make_policy(name) for name in sorted(others - {"self"})}
        self.wrappers: dict[GameCondition, PromptWrapper] = {}
        for game, entry in self.games.items():
            plain, other_prompt = map(fields["prompts"].get, ("plain", "other"))
            played = {"plain": (game, plain)}
            if other_prompt is not None:
                played |= {"other": (game, other_prompt), "again": (game, plain)}
            if "disguise" in entry:
                played["disguised"] = f"disguise:{entry['disguise']}({game})", plain
            for condition, (name, prompt) in played.items():
                env = arena_envs.make(name)
                wrapper = PromptWrapper(env, on_invalid="forfeit", **prompt)
                self.wrappers[game, condition] = wrapper
        self._env_fns = {key: entry.clone for key, entry in self.wrappers.items()}
        self.cells = [
            BoardCell(*key, opponent, seat, number)
            for key in self.wrappers
            for opponent in self.games[key[0]]["opponents"]
            for number in range(fields["num_seeds"])
            for seat in range(1 if opponent == "self" else self.rules(key).num_players)
        ]

    def rules(self, key: GameCondition) -> AnyGame:
        """The rules of a game in a condition."""
        return self.wrappers[key].env.game

    def own_seats(self, cell: BoardCell) -> Sequence[int]:
        """The seats of the policy."""
        every = range(self.rules(cell[:2]).num_players)
        return every if cell.opponent == "self" else (cell.seat,)

    def plan(self, cell: BoardCell, policy: Policy) -> EpisodePlan:
        """The episode of a cell."""
        text = f"{self.hash} {cell.game} {cell.number}"
        seats, own_seats = range(self.rules(cell[:2]).num_players), self.own_seats(cell)
        return EpisodePlan(
            self._env_fns[cell[:2]],
            [
                policy if s in own_seats else self.opponents[cell.opponent]
                for s in seats
            ],
            int(hashlib.sha256(text.encode()).hexdigest()[:8], 16),
            sample=int(cell.condition == "again"),
            prompts=[self.prompt(cell.condition, policy) for _ in seats],
        )

    def prompt(self, condition: str, policy: Policy) -> PromptOptions | None:
        """The options that a policy carries, but for the condition `other`."""
        return None if condition == "other" else own_prompt(policy)

    @cached_property
    def exact(self) -> dict[GameCondition, AnyGame]:
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
    suite_names = sorted(path.stem for path in SUITES.glob("*.yaml"))
    path = SUITES / f"{name}.yaml" if name in suite_names else Path(name)
    _want(path.is_file(), f"no suite {name!r}; {did_you_mean(name, suite_names)}")
    try:
        entries = yaml_text.read(path.read_text(encoding="utf-8"))
        if name in suite_names:
            return Suite(entries)
        with named_only(allow_code=allow_code):
            return Suite(entries)
    except NotTrusted:
        raise
    except BROKEN as error:
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
    records: list[tuple[BoardCell, dict[str, Any]]] = field(default_factory=list)
    tables: dict[GameCondition, list[list[float]]] = field(default_factory=dict)
    usage: Counter[str] = field(default_factory=Counter)
    is_finished: bool = False
    episodes: dict[BoardCell, Episode] = field(default_factory=dict)

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
    too_large = f"{path} unpacks to {MAX_RATIO} times its size; give it unpacked"
    _want(not data or len(data) < most, too_large)
    submission: Submission | None = None
    for number, line in enumerate(data.splitlines(), 1):
        try:
            entry = json.loads(line)
            if submission is None:
                submission = Submission(dict(entry["board"]))
                hash(PromptOptions(**(submission.header["prompt"] or {})))
                _want_name(submission.name)
            elif "cell" in entry:
                game, condition, opponent, seat, turn = entry["cell"]
                cell = BoardCell(
                    str(game), str(condition), str(opponent), int(seat), int(turn)
                )
                entry["tokens"] = list(map(int, entry["tokens"]))
                entry["replies"] = list(map(str, entry["replies"]))
                submission.records.append((cell, entry))
            elif "table" in entry:
                game, condition = map(str, entry["table"])
                rows = [[float(p) for p in row] for row in entry["probs"]]
                submission.tables[game, condition] = rows
            else:
                usage = {k: float(v) for k, v in entry["usage"].items()}
                fits = all(0 <= number < math.inf for number in usage.values())
                _want(fits, f"want a use of at least 0, got {usage}")
                submission.usage.update(usage)
                submission.is_finished = bool(entry["is_finished"])
        except (*BROKEN, RecursionError) as error:
            raise ValueError(
                f"{path}, line {number} is no line of a submission: {error!r:.200}"
            ) from error
    if submission is None:
        raise ValueError(f"want a submission, got the empty file {path}")
    return submission


def _recorded(submission: Submission, replies: Sequence[str]) -> Policy:
    """A policy that gives recorded replies in order."""
    left, prompt = iter(replies), submission.header["prompt"]
    policy = ScriptedPolicy(lambda request: next(left), submission.name)
    policy.prompt = PromptOptions(**prompt) if prompt else None  # type: ignore[attr-defined] # of some
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
    entry = _begun(suite, policy, path, name)
    done = dict(entry.records)
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
            entry.usage.update(usage)
            _append(path, {"usage": usage, "is_finished": False})
    if lost:
        raise NoReplyError(f"{len(lost)} episodes were lost: {lost[0]}")
    if entry.is_finished:
        return
    # all lines in the order of the suite
    lines: list[Any] = [{"board": entry.header}, *(done[cell] for cell in suite.cells)]
    tables = {} if entry.is_bot else _tables(suite, policy)
    lines += [{"table": key, "probs": rows} for key, rows in tables.items()]
    lines.append({"usage": entry.usage, "is_finished": True})
    with whole_file(path) as file:
        file.writelines(f"{json.dumps(line)}\n" for line in lines)


def _usage(policy: Policy) -> Counter[str]:
    """What an endpoint has told of its use so far."""
    usage: Any = getattr(policy, "usage", None)
    return Counter({} if usage is None else asdict(usage))


def _begun(suite: Suite, policy: Policy, path: Path, name: str) -> Submission:
    """What a file holds of a submission; a new one gets its first line."""
    _want_name(name)
    is_bot = isinstance(policy, BotPolicy | RandomPolicy) and name == policy.name
    is_taken = name.partition(":")[0] in BOTS or name in suite.opponents
    _want(is_bot or not is_taken, f"{name} is the name of a bot; give another --name")
    _want(path.suffix != ".gz", f"want a name without .gz for a new file, got {path}")
    prompt = own_prompt(policy)
    header = {part: suite.given[part] for part in ("suite", "version")}
    header |= {"hash": suite.hash, "policy": name}
    header |= {"prompt": None if prompt is None else asdict(prompt)}
    if not path.exists() or not whole_lines(path, b'{"', b'{"board": '):
        _append(path, {"board": header})
    submission = read_submission(path)
    if submission.header != json.loads(json.dumps(header)):
        raise ValueError(f"{path} is of another suite or policy; give a new file")
    return submission


def _append(path: Path, line: Any) -> None:
    append_bytes(path, f"{json.dumps(line)}\n".encode())


def _own_turns(suite: Suite, cell: BoardCell, episode: Episode) -> list[Turn]:
    return [turn for turn in episode.turns if turn.seat in suite.own_seats(cell)]


def _record(suite: Suite, cell: BoardCell, episode: Episode) -> dict[str, Any]:
    own_turns = _own_turns(suite, cell, episode)
    no_text = {"overlong", *INSTEAD}  # illegal whatever the text, as an empty one is
    tokens = [sum(map(len, token_ids(turn))) for turn in own_turns]
    return {
        "cell": cell,
        "replies": [
            "" if turn.invalid in no_text else turn.reply for turn in own_turns
        ],
        "tokens": tokens if all(tokens) else [],
        "actions": episode.actions,
        "returns": episode.returns,
    }


def _tables(suite: Suite, policy: Policy) -> dict[GameCondition, list[list[float]]]:
    """Action probabilities of a policy in exact cells; a model has none in large games."""
    scoring: Any = policy
    tables = {}
    for key, rules in suite.exact.items():
        states = information_states(rules)
        prompt_fields = suite.given["prompts"][
            "other" if key[1] == "other" else "plain"
        ]
        options = suite.prompt(key[1], policy) or PromptOptions(**prompt_fields)
        if is_tabular(policy):
            options = SHORT
        elif len(states) > MAX_SCORED or not options.is_of_state or not _scores(policy):
            continue
        table, _ = tabular(scoring, rules, options)
        tables[key] = [list(map(float, table[state])) for state in states]
    return tables


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
    submission = read_submission(path)
    try:
        with named_only(allow_code=allow_code):
            _verify(submission, suite)
    except ValueError as error:
        raise ValueError(f"{path} is refused: {error}") from error
    return submission


def _verify(submission: Submission, suite: Suite) -> None:
    of = [submission.header.get(name) for name in ("suite", "version", "hash")]
    want = [suite.given["suite"], suite.given["version"], suite.hash]
    _want(of == want, f"want suite {want}, got {of}")
    is_taken = not submission.is_bot and submission.name in suite.opponents
    _want(not is_taken, f"{submission.name} is the name of an opponent")
    _want(submission.is_finished, "it is not finished; run the same command again")
    cells = [cell for cell, _ in submission.records]
    for number, (cell, expected) in enumerate(zip_longest(cells, suite.cells)):
        _want(cell == expected, f"want {expected} as episode {number}, got {cell}")
    bot = make_policy(submission.name) if submission.is_bot else None
    plans = [
        suite.plan(cell, bot or _recorded(submission, record["replies"]))
        for cell, record in submission.records
    ]
    played: dict[BoardCell, Episode] = {}
    for index, episode in stream_plans(plans, batch_size=CHUNK, on_error="lose"):
        cell, record = submission.records[index]
        _want(episode.lost is None, f"{tuple(cell)}: {episode.lost}")
        again = json.loads(json.dumps(_record(suite, cell, episode)))
        for part in ("replies", "actions", "returns"):
            was, now = record.get(part), again[part]
            _want(was == now, f"{tuple(cell)}: {part} was {was!r} and is {now!r}")
        _want_tokens(suite, record)
        played[cell] = episode
    submission.episodes = {cell: played[cell] for cell in suite.cells}
    _want(
        not (bot and submission.tables), "tables of a bot are computed; leave them out"
    )
    _want_tables(suite, submission)
    if bot:
        submission.tables = _tables(suite, bot)


def _want(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)


def _want_name(name: str) -> None:
    _want(re.fullmatch(NAME, name) is not None, f"want a name of {NAME}, got {name!r}")


def _want_tokens(suite: Suite, record: Mapping[str, Any]) -> None:
    tokens, most = record["tokens"], suite.given["max_tokens"]
    num = len(record["replies"])
    fits = len(tokens) in (0, num) and all(0 < number <= most for number in tokens)
    _want(fits, f"want 1 to {most} tokens in each of {num} replies, got {tokens}")


def _want_tables(suite: Suite, submission: Submission) -> None:
    """Refuses tables that are no distributions over legal actions, or do not fit the play."""
    for key, rows in submission.tables.items():
        _want(key in suite.exact, f"{key} is no exact cell of the suite")
        states = information_states(suite.rules(key)).values()
        legal = [len(suite.rules(key).legal_actions(state)) for state in states]
        fits = legal == list(map(len, rows))
        fits = fits and all(min(p) >= 0 and abs(sum(p) - 1) < 1e-6 for p in rows)
        _want(fits, f"{key} has no distribution for each information state")
        far = _deviation(suite, key, submission)
        distance_text = f"{far:.1f} standard deviations from its probabilities"
        _want(far <= MAX_DEVIATION, f"the play of {key} is {distance_text}")


def _table(suite: Suite, key: GameCondition, submission: Submission) -> InfosetTable:
    states = information_states(suite.rules(key))
    return dict(zip(states, submission.tables[key], strict=True))


def _deviation(suite: Suite, key: GameCondition, submission: Submission) -> float:
    """Standard deviations of the log-likelihood of legal play from its mean under a table."""
    rules, table = suite.rules(key), _table(suite, key, submission)
    gap, variance = 0.0, 1.0
    for cell, episode in submission.episodes.items():
        if (cell.game, cell.condition.replace("again", "plain")) != key:
            continue
        for turn in _own_turns(suite, cell, episode):
            if turn.invalid is not None:
                continue
            probs = table[turn.seat, rules.information_state(turn.state, turn.seat)]
            played = probs[list(rules.legal_actions(turn.state)).index(turn.action)]
            logprobs = [(p, math.log(p)) for p in probs if p]
            mean = sum(p * log for p, log in logprobs)
            gap += (math.log(played) if played else -math.inf) - mean
            variance += sum(p * (log - mean) ** 2 for p, log in logprobs)
    return abs(gap) / math.sqrt(variance)


SCORES = {"win": 1.0, "draw": 0.5, "loss": 0.0}


def rate_submissions(
    suite: Suite, submissions: Mapping[str, Submission]
) -> dict[str, tuple[float, ...]]:
    """Elo, and the ends of its interval, of policies and opponents in plain play.

    One Bradley-Terry fit, in which all games have the same weight. The intervals are a bootstrap over the seeds of each game.
    """
    names, games = [*dict.fromkeys([*submissions, *suite.opponents])], [*suite.games]
    outcomes, places = [], []
    for name, submission in submissions.items():
        for cell, episode in submission.episodes.items():
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
    by_name = {submission.name: submission for submission in checked}
    elos = sorted(
        rate_submissions(suite, by_name).items(), key=lambda item: -item[1][0]
    )
    rows = [
        {"Policy": name, "Elo": "{:.0f} [{:.0f}, {:.0f}]".format(*elo)}
        | (
            _totals(suite, by_name[name])
            if name in by_name
            else {"Policy": f"*{name}*"}
        )
        for name, elo in elos
    ]
    fields = {
        **suite.given,
        "notes": "\n".join(f"- {note}" for note in suite.given["notes"]),
        "hash": suite.hash[:16],
        "num_cells": len(suite.cells),
        "ratings": _markdown(rows),
        "by_game": "\n\n".join(_of_game(suite, game, checked) for game in suite.games),
        "deviation": MAX_DEVIATION,
    }
    return (SUITES / "page.md").read_text(encoding="utf-8").format(**fields)


BoardRow = dict[str, str]


def _totals(suite: Suite, submission: Submission) -> BoardRow:
    turns = [
        t for each in submission.episodes.items() for t in _own_turns(suite, *each)
    ]
    tokens = sum(sum(record["tokens"]) for _, record in submission.records)
    return {
        "Legal": f"{_legal_share(suite, submission):.1%}",
        "Characters of a reply": f"{fmean(len(turn.reply) for turn in turns):.0f}",
        "Tokens": f"{tokens or submission.usage['completion_tokens']:,.0f}",
        "Cost": f"{submission.usage['cost']:g}",
    }


def _legal_share(
    suite: Suite, submission: Submission, key: GameCondition | None = None
) -> float:
    """The share of legal replies, in a game and condition or in all."""
    return fmean(
        turn.invalid is None
        for cell, episode in submission.episodes.items()
        for turn in _own_turns(suite, cell, episode)
        if key in (None, cell[:2])
    )


GAPS = {"recall gap": "disguised", "prompt gap": "other", "noise floor": "again"}


def _of_game(suite: Suite, game: str, submissions: Sequence[Submission]) -> str:
    """The section of a game."""
    best = {"Policy": "*a best response*"}
    env = suite.wrappers[game, "plain"].env
    for name in suite.games[game]["opponents"]:
        opponent: Any = suite.opponents.get(name, "self")
        scales = scales_of(env, opponent, range(env.game.num_players))
        if not isinstance(scales, str):
            best[f"against {name}"] = f"{scales['all'][1]:z.2f}"
    rows = [_row(suite, game, submission) for submission in submissions] + [best] * (
        len(best) > 1
    )
    return f"### {game}\n\n{_markdown(rows)}"


def _row(suite: Suite, game: str, submission: Submission) -> BoardRow:
    """Returns in plain play, gaps, exact NashConv, and the suite's score."""
    low, high = bounds_of(suite.rules((game, "plain")))
    returns_by_condition = {
        c: _returns(suite, (g, c), submission) for g, c in suite.wrappers if g == game
    }
    row = {"Policy": f"{submission.name} ✓" if submission.is_bot else submission.name}
    for name, values in zip(
        suite.games[game]["opponents"], returns_by_condition["plain"], strict=True
    ):
        ends = mean_interval(values.tolist(), low, high)
        row[f"against {name}"] = _interval(values, ends)
        if (mean := _exact_mean(suite, game, name, submission)) is not None:
            row[f"luck out, {name}"] = f"{mean:z.2f}, exact"
        elif adjusted := _adjusted(suite, game, name, submission, values):
            row[f"luck out, {name}"] = (
                f"{adjusted.mean:z.2f} [{adjusted.low:z.2f}, {adjusted.high:z.2f}], "
                f"{worth_text(adjusted.worth)}"
            )
    for head, condition in GAPS.items():
        if condition in returns_by_condition:
            gaps = (
                returns_by_condition["plain"] - returns_by_condition[condition]
            ).mean(axis=0)
            row[head] = _interval(gaps, paired_interval(gaps.tolist(), high - low))
    for key in submission.tables:
        if key[0] == game and _legal_share(suite, submission, key) >= 0.5:
            value = nash_conv(suite.rules(key), _table(suite, key, submission))
            row[f"NashConv, {key[1]}"] = f"{value:z.3f}"
    if scale := suite.games[game].get("scale"):
        score = (
            100
            * (returns_by_condition["plain"].mean() - scale[0])
            / (scale[1] - scale[0])
        )
        row["score"] = f"{score:z.1f}"
    return row


def _exact_mean(
    suite: Suite, game: str, opponent: str, submission: Submission
) -> float | None:
    """The expected return of a bot in plain play; None of other policies and in large games."""
    if not submission.is_bot:
        return None
    wrapper = suite.wrappers[game, "plain"]
    opponent_policy: Policy | Literal["self"] = suite.opponents.get(opponent, "self")
    exact = ExactEvaluation(wrapper, range(wrapper.env.game.num_players), {})
    outcomes = exact.outcomes(make_policy(submission.name), opponent_policy)
    return None if outcomes is None else outcomes["all"].mean_return


def _adjusted(
    suite: Suite,
    game: str,
    opponent: str,
    submission: Submission,
    returns: NDArray[np.float64],
) -> Adjusted | None:
    """The mean in plain play with the luck taken out by exact values, where that helps."""
    wrapper = suite.wrappers[game, "plain"]
    rules = wrapper.env.game
    if not is_small(rules):
        return None
    by_seat: dict[int, list[Episode]] = {}
    for cell, episode in submission.episodes.items():
        if cell[:3] == (game, "plain", opponent):
            for seat in suite.own_seats(cell):
                by_seat.setdefault(seat, []).append(episode)
    is_bot = submission.is_bot
    policy = make_policy(submission.name) if is_bot else _recorded(submission, ())
    other: Policy | Literal["self"] = suite.opponents.get(opponent, "self")
    luck = LuckCorrections(wrapper, policy, other, EXACT_VALUES)
    corrections = []
    for seat, episodes in by_seat.items():
        by_seed = luck.by_seed(seat, episodes)
        corrections.append([by_seed[episode.seed] for episode in episodes])
    means = np.mean(corrections, axis=0)
    return adjusted_mean(returns, means, bounds_of(rules), EXACT_VALUES, 0.0)


def _returns(
    suite: Suite, key: GameCondition, submission: Submission
) -> NDArray[np.float64]:
    """Mean returns over the seats, by opponent and seed."""
    returns = [
        episode.returns[seat]
        for cell, episode in submission.episodes.items()
        if cell[:2] == key
        for seat in suite.own_seats(cell)
    ]
    shape = len(suite.games[key[0]]["opponents"]), suite.given["num_seeds"], -1
    return np.asarray(np.reshape(returns, shape).mean(axis=2))


def _interval(values: NDArray[np.float64], ends: tuple[float, float]) -> str:
    return "{:z.2f} [{:z.2f}, {:z.2f}]".format(values.mean(), *ends)


def _markdown(rows: Sequence[BoardRow]) -> str:
    heads = [*dict.fromkeys(head for row in rows for head in row)]
    cells = [[row.get(head, "") for head in heads] for row in rows]
    lines = [heads, ["---"] * len(heads), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
