"""`evaluate`: a policy and baselines against opponents, seat by seat."""

import json
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Literal, Protocol

import arena_envs
from arena_envs import GameEnv
from arena_envs.game import CHANCE, AnyGame, bounds_of
from arena_eval.baselines import constants_of, prepared, solver_of
from arena_eval.confidence_sequences import PLANNED, any_time
from arena_eval.exact import ExactEvaluation, ExactOutcome, SeatOrAll, exact_row
from arena_eval.exploit import Scores, given_prompts, is_tabular
from arena_eval.intervals import import_stats
from arena_eval.luck import Adjusted
from arena_eval.measures.by_name import measure_of
from arena_eval.recorded_luck import LuckByLineup, Pairing
from arena_eval.result_rows import (
    EpisodesBySeat,
    ReplyCount,
    ResultRow,
    Role,
    against,
    append_results,
    results_path,
    rows_of,
    scales_of,
    scored,
)
from arena_eval.spending import Budget, Spending, Trial, added, endpoints_of, trial_of
from arena_eval.stopping import MAX_SILENT, Ends, SeedParts, StopRule
from arena_wrappers import (
    EpisodePlan,
    NoReplyError,
    Policy,
    PromptWrapper,
    RandomPolicy,
    make_policy,
    play,
    stream_plans,
    without_lost,
)
from arena_wrappers.play import (
    EnvCache,
    ReplayError,
    checked_timeout,
    replay,
    tell_people,
)
from arena_wrappers.records import Episode, EpisodeLog, params_of


def env_of(game: AnyGame | GameEnv | str) -> GameEnv:
    """The environment of a game that is given as an id, as rules or as environment."""
    if isinstance(game, str):
        return arena_envs.make(game)
    return game if isinstance(game, GameEnv) else GameEnv(game)


def seeds_of(seed: Any, num_episodes: Any) -> range:
    """The seeds `seed .. seed + num_episodes - 1`.

    Raises:
        ValueError: want an integer `num_episodes` of at least 1 and `seed` of at least 0.
    """
    if type(num_episodes) is not int or num_episodes < 1:
        raise ValueError(f"want num_episodes of at least 1, got {num_episodes!r}")
    if type(seed) is not int or seed < 0:
        raise ValueError(f"want a seed of at least 0, got {seed!r}")
    return range(seed, seed + num_episodes)


def checked_seats(game: AnyGame, seats: Any) -> Sequence[int]:
    """The seats that are evaluated, in ascending order; "all" means every seat.

    Raises:
        ValueError: the game lacks one of the seats, or `seats` is empty.
    """
    if isinstance(seats, str) and seats == "all":
        return range(game.num_players)
    last = game.num_players - 1
    for seat in seats:
        if type(seat) is not int or seat not in range(game.num_players):
            raise ValueError(f"want seats from 0 to {last}, got {seat!r}")
    if not seats:
        raise ValueError(f"want 'all' or seats from 0 to {last}, got none")
    return sorted(set(seats))


FEW = 0.1  # distinct games per episode; fewer may lead to a warning
STEP = 64  # random games played at a time


def repetition_warnings(
    game: AnyGame, rows: Sequence[ResultRow], make: Callable[[], PromptWrapper]
) -> tuple[str, ...]:
    """One line for each opponent against which the evaluated policy repeats games.

    A policy repeats games if two things hold: fewer than `FEW` of its episodes are distinct
    games, and uniform random play shows more than twice as many distinct games in as many
    episodes. Games that begin with chance, such as a deal, get no warning: their episodes
    are independent even between deterministic policies.
    """
    if game.current_player(game.initial_state()) == CHANCE:
        return ()
    last = {row.opponent: row for row in rows if row.role == "policy"}  # of all seats
    return tuple(
        _repetition(row)
        for row in last.values()
        if row.num_distinct < FEW * row.num_episodes
        and _has_more(make, 2 * row.num_distinct, row.num_episodes)
    )


def _has_more(make: Callable[[], PromptWrapper], few: int, num_episodes: int) -> bool:
    """Whether `num_episodes` episodes of random play have more than `few` distinct games."""
    distinct: set[str] = set()
    for start in range(0, num_episodes, STEP):
        seeds = range(start, min(start + STEP, num_episodes))
        distinct |= {
            json.dumps(list(e.actions)) for e in play(make, RandomPolicy(), seeds)
        }
        if len(distinct) > few:
            return True
    return False


def _repetition(row: ResultRow) -> str:
    if row.opponent in {"self", ""}:
        advice = f"evaluate noisy:0.2({row.policy})"
    else:
        advice = f"vary play with --against 'noisy:0.2({row.opponent})'"
    return (
        f"{row.policy}{against(row.opponent)}: {row.num_distinct} distinct games in "
        f"{row.num_episodes} episodes, so intervals are too narrow; {advice}"
    )


CHUNK = 256  # episodes in flight
TRIAL = 32  # most episodes per seat for the choice of the best constant policy

SILENT = "play ended, as the policies gave no replies in the last episodes"

Progress = Callable[[int, int], object]  # episodes done, and episodes in all


@dataclass(frozen=True)
class Difference:
    """Two means over the same seeds, those that neither side lost, and their difference.

    Attributes:
        opponent: as in the rows; of `partners`, the stranger.
        base: name of the policy that the evaluated one is compared with.
        base_value: its mean return over seats and seeds; of `partners`, with the stranger.
        value: mean return of the evaluated policy; of `partners`, with itself.
        difference: `value - base_value`.
        low: lower end of its 95 % interval; a seed is one observation.
        high: upper end.
        num_seeds: number of seeds.
        is_exact: whether the means are exact, and not of episodes; then both ends are the
            difference.
        adjusted: the difference with the luck taken out; None where that does not help.
    """

    opponent: str
    base: str
    base_value: float
    value: float
    difference: float
    low: float
    high: float
    num_seeds: int
    is_exact: bool = False
    adjusted: Adjusted | None = None


def opponents_of(
    game: AnyGame, opponents: Sequence[Policy | str] = ()
) -> list[Policy | str]:
    """The given opponents, or random play; in cooperative talk also the policy itself.

    There the default is a stranger: the bot that the game declares as `heuristic`.
    """
    if game.kind != "cooperative" or game.num_actions is not None:
        return [*opponents] or ["random"]
    strangers = [*opponents] or [game.heuristic or "random"]
    return ["self", *(opponent for opponent in strangers if opponent != "self")]


@dataclass(frozen=True)
class Evaluation:
    """All rows of an evaluation in one game.

    Attributes:
        game: id or class name.
        params: parameters of the game.
        known_value: `Game.known_value` with these parameters; empty if unknown.
        rows: per opponent, the policy's rows, then those of the baselines.
        warnings: one line per policy with mostly invalid replies, and per opponent against
            which the policy plays few distinct games.
        partners: in cooperative games, the policy with itself against the policy with each
            stranger, over the same seeds.
        differences: with a `base`, one per opponent, of replayed records.
        num_lines: in the file of results, lines of the file of episodes so far; see `_unfinished`.
        stops: with a rule that stops play, one line per opponent that says why it ended. Then
            intervals hold at all numbers of episodes together.
        has_spent_budget: whether a budget ended play; the same evaluation with the same file goes on.
    """

    game: str
    params: Mapping[str, Any]
    known_value: str
    rows: tuple[ResultRow, ...]
    warnings: tuple[str, ...] = ()
    partners: tuple[Difference, ...] = ()
    differences: tuple[Difference, ...] = ()
    num_lines: int = 0
    stops: tuple[str, ...] = ()
    has_spent_budget: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as values that JSON can hold."""
        return asdict(self)


def evaluate(
    policy: Policy | str,
    game: AnyGame | GameEnv | str,
    *args: Any,
    progress: Progress | None = None,
    **options: Any,
) -> Evaluation:
    """Plays a policy and baselines against opponents; mean returns with 95 % intervals.

    Warns (UserWarning) if most replies of the policy are invalid, if it loses more than 1 % of
    its episodes, or if it plays few distinct games.

    Args:
        policy: the evaluated policy, or its string for `make_policy`.
        game: id of a registered game, the rules, or an environment (for `max_turns`).
        *args: of `EvaluationPlan`, as `**options`.
        progress: called after each episode with the numbers of episodes done and in all.
        **options: of `EvaluationPlan`: opponents, num_episodes, seats, seed, prompt, ...

    Raises:
        ValueError: as for `EvaluationPlan`; before any episode is played.
        NoReplyError: all episodes of a row are lost.

    >>> evaluation = evaluate("random", "tic_tac_toe", ["random"], 20, baselines=False)
    >>> [(row.seat, row.num_episodes) for row in evaluation.rows]
    [(0, 20), (1, 20), ('all', 40)]
    """
    evaluation = EvaluationPlan(policy, game, *args, **options).run(progress)
    for text in evaluation.warnings:
        warnings.warn(text, stacklevel=2)
    return evaluation


class Stream(Protocol):
    """Plays planned episodes, see `arena_wrappers.stream_plans`."""

    def __call__(
        self,
        plans: Sequence[EpisodePlan],
        *,
        batch_size: int | None = None,
        timeout: float | None = None,
        on_error: Literal["lose", "raise"] | None = None,
    ) -> Iterator[tuple[int, Episode]]:
        """Yields the index of a plan with its episode, once it is over."""
        ...


class EvaluationPlan:
    """An evaluation with checked arguments, ready to run.

    All policies play the same seeds, and so the same deals. An invalid reply forfeits the
    episode, which counts. An episode is lost if a policy gives no reply (a timeout, a server that
    fails): it is left out of every mean and counted (`ResultRow.num_lost`). An exception in a
    policy of this process is raised again.
    A policy reads prompts by the options that it carries (`Policy`), such as those of a saved
    model.

    Args:
        policy: the evaluated policy, or its string for `make_policy`.
        game: id of a registered game, the rules, or an environment (for `max_turns`).
        opponents: one string, or several policies one after the other, each in all other seats;
            `"self"` is self-play.
        num_episodes: episodes per opponent and seat; self-play has as many in all.
        seats: the seats of the policy.
        seed: seeds are `seed .. seed + num_episodes - 1`.
        prompt: arguments of the `PromptWrapper`; they override the options of policies.
        baselines: whether the game's baselines are evaluated, too: uniform random play, the
            solver, and the best constant policy. The latter is chosen on other seeds, so
            its row is unbiased.
        base: policy that plays the same episodes, for `Evaluation.differences`; then no solver
            is played.
        defaults: arguments of the `PromptWrapper` that options of policies override.
        num_samples: episodes of each seed and seat, with the same chance outcomes. The first with
            the most frequent last action counts; an invalid reply is no vote.
        timeout: longest call of a policy, in seconds, see `play`.
        out: file to which each finished episode, also of the baselines, is appended as a
            line of JSON. The results are appended to a file beside it, see `results_file`.
            After a stop, with lost episodes, or where a budget ended play, the same evaluation
            goes on: it plays these and those that are missing. After it has ended, a new one begins.
        on_error: what happens without a reply, as for `play`.
        measures: strings of `arena_eval.measures`, for the policy in each seat.
        values: of `arena_eval.values`, which take the luck out of the means of the policy and of
            the base. "auto": exact ones in small games; in others fitted ones from 50 episodes
            on, unless the policy is a free bot. None: no luck is taken out.
        stop: when play against an opponent ends before `num_episodes`; None: never. A budget
            leaves out baselines against opponents that cost something.
        scores: of the policy with these prompts, if `tabular` has asked for them before.
        stream: plays the planned episodes, as `stream_plans` does.

    Attributes:
        num_episodes: episodes of the whole evaluation, with baselines; at most, with `stop`.
        has_spent_budget: whether the budget ended play in the last `run`.

    Raises:
        ValueError: unknown policy or game, a seat or number out of range, or a game that a
            solver refuses.
        ModuleNotFoundError: scipy is missing.
    """

    def __init__(
        self,
        policy: Policy | str,
        game: AnyGame | GameEnv | str,
        opponents: str | Sequence[Policy | str] = ("random",),
        num_episodes: int = 100,
        seats: Literal["all"] | Sequence[int] = "all",
        *,
        seed: int = 0,
        prompt: Mapping[str, Any] | None = None,
        baselines: bool = True,
        base: Policy | str | None = None,
        defaults: Mapping[str, Any] | None = None,
        num_samples: int = 1,
        timeout: float | None = None,
        out: str | Path | None = None,
        on_error: Literal["lose", "raise"] | None = None,
        measures: Sequence[str] = (),
        values: str | None = "auto",
        stop: StopRule | None = None,
        scores: Scores | None = None,
        stream: Stream = stream_plans,
    ) -> None:
        import_stats()  # fails before hours of play
        self._seeds, self._samples = seeds_of(seed, num_episodes), range(num_samples)
        env = env_of(game)
        self.rules = rules = env.game
        self.name = env.id or type(rules).__name__
        self._seats = checked_seats(rules, seats)
        self._given = dict(prompt or {})
        wrapper_options = {"on_invalid": "forfeit", **(defaults or {}), **self._given}
        self._wrapper = PromptWrapper(env, **wrapper_options)
        self._policy = prepared(policy, rules)
        self._base = None if base is None else prepared(base, rules)
        self._is_same = base == policy
        self._opponents = _prepared_opponents(opponents, rules)
        self._exact = ExactEvaluation(self._wrapper, self._seats, self._given)
        if scores is not None:
            self._exact.note(self._policy, scores)
        # the most frequent of several samples is no fair draw
        self._stop = stop
        self._methods = PLANNED if stop is None else any_time(stop.level)
        self._luck = LuckByLineup(
            self._wrapper, values if num_samples == 1 else None, self._methods
        )
        self._baselines, self._constants = dict[Role, Policy](), list[Policy]()
        if stop is not None:
            if stop.is_until_decided and self._base is None:
                raise ValueError(
                    "want a base with is_until_decided, as a difference has the sign, got "
                    "none; give base"
                )
            stop.budget.watch(self.players)
            others = [each for each in self._opponents if each != "self"]
            baselines &= not (stop.budget.is_limited and endpoints_of(others))
        if baselines:
            self._add_baselines(with_solver=base is None)
        self._timeout, self._on_error = checked_timeout(timeout), on_error
        self._stream = stream
        self._measures = [measure_of(spec, rules) for spec in measures]
        self._log = None if out is None else EpisodeLog(out)
        self._kept = {} if self._log is None else _unfinished(self._log)
        self.num_episodes = sum(map(self._count, self._opponents))
        self.has_spent_budget = False

    @property
    def players(self) -> list[Policy]:
        """All but baselines."""
        others = [opponent for opponent in self._opponents if opponent != "self"]
        return [self._policy, *([self._base] if self._base else []), *others]

    @property
    def _trial_seeds(self) -> range:
        stop = self._seeds.stop
        return range(stop, stop + min(TRIAL, len(self._seeds)))

    def _add_baselines(self, with_solver: bool) -> None:
        for opponent in self._opponents:
            if opponent != "self" and getattr(opponent, "is_person", False):
                raise ValueError(
                    f"want baselines=False (--no-baselines) with opponent {opponent.name!r}, "
                    "because each baseline plays all episodes against it"
                )
        self._baselines["uniform"] = make_policy("random")
        if with_solver and (solver := solver_of(self.rules)) is not None:
            self._baselines["solver"] = prepared(solver, self.rules)
        self._constants += map(make_policy, constants_of(self.rules))

    def run(
        self, progress: Progress | None = None, *, write: bool = True
    ) -> Evaluation:
        """Plays all episodes.

        Args:
            progress: called after each episode with the numbers of episodes done and in all.
            write: whether to write results; else call `append_results` after several plans.

        Raises:
            OSError: an episode could not be written; earlier ones stay readable.
            NoReplyError: all episodes of a row are lost.
        """
        self._progress, self._num_done = progress, 0
        self._replies = ReplyCount()
        self._by_seed: dict[tuple[Role, str], dict[int, float]] = {}
        self._luck.clear()
        self._stops: list[str] = []
        self.has_spent_budget = False
        # by id, with the episode itself, which keeps the id unique
        self._replays: dict[int, tuple[Episode, Episode, Episode]] = {}
        self._exact_outcomes: dict[
            tuple[Role, str], Mapping[SeatOrAll, ExactOutcome] | None
        ] = {}
        played = [
            row for opponent in self._opponents for row in self._compare(opponent)
        ]
        rows = [*map(self._made_exact, played)]
        sampled = [row for row in rows if not row.is_exact]
        evaluation = Evaluation(
            self.name,
            params_of(self.rules),
            self.rules.known_value or "",
            tuple(rows),
            self._replies.warnings()
            + repetition_warnings(self.rules, sampled, self._wrapper.clone),
            self._partners(),
            self._differences(played),
            stops=tuple(self._stops),
            has_spent_budget=self.has_spent_budget,
        )
        if self._log is not None and write:
            append_results(self._log.path, [evaluation.to_dict()])
        return evaluation

    def unanswered(self) -> tuple[str, ...]:
        """A clause for each policy that lost episodes in the last `run`."""
        return self._replies.lost()

    def _compare(self, opponent: Policy | Literal["self"]) -> list[ResultRow]:
        """Rows of the policy and of all baselines against one opponent."""
        entries: dict[Role, Policy] = {"policy": self._policy}
        if self._base is not None:
            entries["base"] = self._base
        entries |= self._baselines
        if self._constants:
            entries["constant"] = self._best_constant(opponent)
        played = self._played_until_clear(entries, opponent)
        seeds = self._seeds[: len(played["policy"][self._seats[0]])]
        rows_by_role = {}
        for role, entry in entries.items():
            if role not in played:
                played[role] = self._play(entry, opponent, seeds, self._log)
            rows_by_role[role] = self._rows(role, entry, opponent, played[role])
        rows_by_role["policy"] = [
            self._measured(row, played["policy"]) for row in rows_by_role["policy"]
        ]
        self._replays.clear()
        rows = [row for role_rows in rows_by_role.values() for row in role_rows]
        return scored(rows, scales_of(self._wrapper.env, opponent, self._seats))

    def _rows(
        self,
        role: Role,
        entry: Policy,
        opponent: Policy | Literal["self"],
        episodes: EpisodesBySeat,
    ) -> list[ResultRow]:
        """The rows of one entry, without scores; notes its exact outcomes and its means by seed."""
        name = opponent if isinstance(opponent, str) else opponent.name
        again = episodes
        if self._base is not None and role in ("policy", "base"):
            episodes, again = self._replayed(episodes)
        rows = rows_of(self.rules, entry.name, role, name, episodes, self._methods)
        key = role, name if self.rules.num_players > 1 else ""
        if key not in self._exact_outcomes:
            self._exact_outcomes[key] = self._exact_outcomes_of(entry, opponent)
        if self._exact_outcomes[key] is None and role in ("policy", "base"):
            rows = self._luck.rows(role, entry, opponent, episodes, rows)
        self._by_seed[role, name] = _means_by_seed(again)
        return rows

    def _played_until_clear(
        self, entries: Mapping[Role, Policy], opponent: Policy | Literal["self"]
    ) -> dict[Role, dict[int, list[Episode]]]:
        """Episodes of the policy and of the base, by seat; all, or those until the rule stops."""
        pair: dict[Role, Policy] = {
            role: entry for role, entry in entries.items() if role in ("policy", "base")
        }
        if self._stop is None:
            return {
                role: self._play(entry, opponent, self._seeds, self._log)
                for role, entry in pair.items()
            }
        name = opponent if isinstance(opponent, str) else opponent.name
        played: dict[Role, dict[int, list[Episode]]] = {
            role: {seat: [] for seat in self._seats} for role in pair
        }
        parts = SeedParts(self._stop, len(self._seeds), self._expected_of(opponent))
        num_done = num_silent = 0
        ends: Ends | None = None
        while size := parts.next_size():
            seeds = self._seeds[num_done : num_done + size]
            is_silent = True
            for role, entry in pair.items():
                part = self._play(entry, opponent, seeds, self._log)
                for seat, episodes in part.items():
                    played[role][seat] += episodes
                    is_silent &= all(episode.lost is not None for episode in episodes)
            parts.add(size)
            num_done += size
            ends = self._ends(pair, opponent, played)
            num_silent = num_silent + 1 if is_silent else 0
            if num_silent and (ends is None or num_silent == MAX_SILENT):
                self._stops.append(f"{num_done} seeds{against(name)}: {SILENT}")
                return played
            if ends is not None and self._stop.is_clear(ends):
                break
        are_all_played = num_done == len(self._seeds)
        is_clear = ends is not None and self._stop.is_clear(ends)
        self.has_spent_budget |= not (are_all_played or is_clear)
        why = self._stop.outcome(ends, are_all_played=are_all_played)
        self._stops.append(f"{num_done} seeds{against(name)}: {why}")
        return played

    def _ends(
        self,
        pair: Mapping[Role, Policy],
        opponent: Policy | Literal["self"],
        played: Mapping[Role, EpisodesBySeat],
    ) -> Ends | None:
        """The interval of the mean over seats, or of the difference; None if all is lost so far."""
        try:
            rows = [
                row
                for role, entry in pair.items()
                for row in self._rows(role, entry, opponent, played[role])
            ]
            measurement: ResultRow | Difference = self._made_exact(rows[-1])
            if self._base is not None:
                name = opponent if isinstance(opponent, str) else opponent.name
                measurement = self._difference(self._base, name, rows)
        except NoReplyError:
            return None
        ends = measurement if measurement.adjusted is None else measurement.adjusted
        return Ends(ends.low, ends.high, measurement.is_exact)

    def expected(self, budget: Budget) -> tuple[int, Spending]:
        """About how many episodes endpoints will play in, and what they will use.

        By random play with the prompts of this evaluation, see `trial_of`. With a rule that
        stops, as many seeds as an interval of its half width needs if returns vary as those of
        random play, and as the budget pays.

        Args:
            budget: with prices; that of the rule, if there is one.

        Raises:
            ValueError: the budget does not pay one seed.
        """
        num_episodes, parts = 0, []
        for opponent in self._opponents:
            trials = self._trials(opponent, budget)
            each = added(trial.spending for trial in trials)
            num_seeds = len(self._seeds)
            if self._stop is not None:
                spread = _spread_of(trials, self._seats)
                num_seeds = self._stop.num_expected(spread, num_seeds)
                most = budget.affordable(each)
                if most < 1:
                    raise ValueError(
                        f"want a budget for at least one seed, which takes about {each}; "
                        "give a larger one"
                    )
                num_seeds = int(min(num_seeds, most))
            num_paid = sum(trial.spending.num_calls > 0 for trial in trials)
            num_episodes += num_seeds * num_paid
            parts.append(each.times(num_seeds))
        return num_episodes, added(parts)

    def _expected_of(self, opponent: Policy | Literal["self"]) -> Spending:
        if self._stop is None or not self._stop.budget.is_limited:
            return Spending(0, 0, 0, 0.0)
        return added(
            trial.spending for trial in self._trials(opponent, self._stop.budget)
        )

    def _trials(
        self, opponent: Policy | Literal["self"], budget: Budget
    ) -> list[Trial]:
        """A trial of each line-up that plays a seed against an opponent, with baselines."""
        entries = [self._policy, *([self._base] if self._base else [])]
        if not isinstance(opponent, str) and endpoints_of([opponent]):
            # a constant more for each that is tried, on other seeds
            entries += [*self._baselines.values(), *self._constants[:1]]
            entries += self._constants
        trials = []
        for entry in entries:
            for lineup in self._lineups(entry, opponent):
                prompts = given_prompts(lineup, self._given)
                plan = EpisodePlan(self._wrapper.clone, lineup, 0, prompts=prompts)
                trials += [trial_of(plan, budget)] * len(self._samples)
        return trials

    def _exact_outcomes_of(
        self, policy: Policy, opponent: Policy | Literal["self"]
    ) -> Mapping[SeatOrAll, ExactOutcome] | None:
        """None also where the most frequent of several samples counts."""
        if len(self._samples) > 1:
            return None
        return self._exact.outcomes(policy, opponent)

    def _made_exact(self, row: ResultRow) -> ResultRow:
        """The row with exact figures, where its lineups have some."""
        outcomes = self._exact_outcomes.get((row.role, row.opponent))
        return row if outcomes is None else exact_row(row, outcomes[row.seat])

    def _measured(
        self, row: ResultRow, episodes: Mapping[int, Sequence[Episode]]
    ) -> ResultRow:
        """The row of a seat with the measures that were asked for."""
        if row.seat == "all" or not self._measures:
            return row
        answered = without_lost(episodes[row.seat])
        estimates = dict(row.measures)
        for measure in self._measures:
            estimates |= measure(answered, self.rules, row.seat)
        return replace(row, measures=estimates)

    def _replayed(
        self, episodes: EpisodesBySeat
    ) -> tuple[EpisodesBySeat, EpisodesBySeat]:
        """The episodes, and as their records are played again: with these replies, by the rules.

        An episode that is not what its record says is lost in both.
        """
        pairs = {
            id(e): self._replayed_once(e) for each in episodes.values() for e in each
        }
        whole, again = (
            {seat: [pairs[id(e)][i] for e in each] for seat, each in episodes.items()}
            for i in (0, 1)
        )
        return whole, again

    def _replayed_once(self, episode: Episode) -> tuple[Episode, Episode]:
        """An episode and its replay, which earlier looks at a part of the seeds may have made."""
        if id(episode) not in self._replays:
            try:
                is_lost = episode.lost is not None
                record = episode if is_lost else Episode.from_json(episode.to_json())
                again = record if is_lost else replay(record, self.rules)
                self._replays[id(episode)] = episode, episode, again
            except ReplayError as error:
                fault = f"the record cannot be replayed: {error}"
                lost = replace(episode, lost=fault, returns=[], measures={})
                self._replies.add_unreadable(lost)
                self._replays[id(episode)] = episode, lost, lost
        return self._replays[id(episode)][1:]

    def _partners(self) -> tuple[Difference, ...]:
        self_play = self._by_seed.get(("policy", "self"), {})
        return tuple(
            self._exact_difference(
                self._paired(
                    name,
                    self._policy.name,
                    self_play,
                    mixed,
                    (("policy", "self"), ("policy", name)),
                ),
                self._exact_outcomes.get(("policy", "self")),
                self._exact_outcomes.get(("policy", name)),
            )
            for (role, name), mixed in self._by_seed.items()
            if self.rules.kind == "cooperative"
            and (role, name != "self") == ("policy", True)
            if self_play.keys() & mixed.keys()
        )

    def _paired(
        self,
        name: str,
        base: str,
        returns: Mapping[int, float],
        base_returns: Mapping[int, float],
        lineups: tuple[Pairing, Pairing],
    ) -> Difference:
        low, high = bounds_of(self.rules)
        seeds = sorted(returns.keys() & base_returns.keys())
        gaps = [returns[seed] - base_returns[seed] for seed in seeds]
        ends = self._methods.paired(gaps, high - low)
        adjusted = self._luck.difference(lineups, returns, base_returns, high - low)
        value, mixed = (
            fmean(values[s] for s in seeds) for values in (returns, base_returns)
        )
        return Difference(
            opponent=name,
            base=base,
            base_value=mixed,
            value=value,
            difference=fmean(gaps),
            low=ends[0],
            high=ends[1],
            num_seeds=len(seeds),
            adjusted=adjusted,
        )

    def _differences(self, rows: Sequence[ResultRow]) -> tuple[Difference, ...]:
        """The differences from the base, against each opponent."""
        return tuple(
            self._difference(self._base, name, rows)
            for role, name in self._by_seed
            if role == "base" and self._base is not None
        )

    def _difference(
        self, base: Policy, name: str, rows: Sequence[ResultRow]
    ) -> Difference:
        """The difference against one opponent; where nothing is lost, the rows give the same.

        Raises:
            NoReplyError: no seed is complete for both policies.
        """
        returns, base_returns = (self._by_seed[r, name] for r in ("policy", "base"))
        if not returns.keys() & base_returns.keys():
            names = f"{self._policy.name} and {base.name}{against(name)}"
            raise NoReplyError(f"each seed has a lost episode of {names}")
        lineups = ("policy", name), ("base", name)
        difference = self._paired(name, base.name, returns, base_returns, lineups)
        if self._is_same and returns == base_returns:
            difference = replace(difference, low=0.0, high=0.0, adjusted=None)
        mean = {r.role: r.mean_return for r in rows if r.opponent in (name, "")}
        gap = mean["policy"] - mean["base"]
        is_whole = returns.keys() == base_returns.keys()
        if is_whole and abs(gap - difference.difference) > 1e-9:
            raise RuntimeError(
                f"self-check failed: the rows differ by {gap}, the records by "
                f"{difference.difference}{against(name)}; please report this"
            )
        opponent = name if self.rules.num_players > 1 else ""
        exact = [self._exact_outcomes.get((r, opponent)) for r in ("policy", "base")]
        return self._exact_difference(difference, *exact)

    @staticmethod
    def _exact_difference(
        played: Difference,
        outcomes: Mapping[SeatOrAll, ExactOutcome] | None,
        base_outcomes: Mapping[SeatOrAll, ExactOutcome] | None,
    ) -> Difference:
        """The difference of exact means over seats; as it was played without these."""
        if outcomes is None or base_outcomes is None:
            return played
        value, base = outcomes["all"].mean_return, base_outcomes["all"].mean_return
        gap = value - base
        exact: Any = {"base_value": base, "value": value, "difference": gap}
        return replace(played, **exact, low=gap, high=gap, is_exact=True, adjusted=None)

    def _are_constants_exact(self, opponent: Policy | Literal["self"]) -> bool:
        """Whether the best constant policy is known without play."""
        players = [*self._constants] + [opponent] * (opponent != "self")
        is_known = all(not isinstance(p, str) and is_tabular(p) for p in players)
        return is_known and len(self._samples) == 1 and self._exact.is_enumerable

    def _best_constant(self, opponent: Policy | Literal["self"]) -> Policy:
        if self._are_constants_exact(opponent):
            exact = [
                self._exact.outcomes(constant, opponent) for constant in self._constants
            ]
            means = [
                outcome["all"].mean_return for outcome in exact if outcome is not None
            ]
            return self._constants[means.index(max(means))]

        def mean(policy: Policy) -> float:
            episodes = self._play(policy, opponent, self._trial_seeds, None)
            returns = [
                e.returns[s] for s in episodes for e in episodes[s] if e.lost is None
            ]
            return sum(returns) / len(returns) if returns else -math.inf

        return max(self._constants, key=mean)

    def _play(
        self,
        policy: Policy,
        opponent: Policy | Literal["self"],
        seeds: range,
        log: EpisodeLog | None,
    ) -> dict[int, list[Episode]]:
        """Episodes by seat of the policy; in self-play all seats have the same episodes."""
        plans = [
            EpisodePlan(
                self._wrapper.clone, lineup, s, sample, prompts=prompts, probes=probes
            )
            for lineup in self._lineups(policy, opponent)
            for prompts in [given_prompts(lineup, self._given)]
            for probes in [self._probes_of(lineup)]
            for s in seeds
            for sample in self._samples
        ]
        size, num = len(seeds), len(self._samples)
        done = self._play_plans(plans, log)
        episodes = [
            _plurality([done[index] for index in range(start, start + num)])
            for start in range(0, len(plans), num)
        ]
        parts = [episodes[at : at + size] for at in range(0, len(episodes), size)]
        if opponent == "self":
            parts *= len(self._seats)
        return dict(zip(self._seats, parts, strict=True))

    def _lineups(
        self, policy: Policy, opponent: Policy | Literal["self"]
    ) -> list[list[Policy]]:
        num_players = self.rules.num_players
        if opponent == "self":
            return [[policy] * num_players]
        return [
            [policy if s == seat else opponent for s in range(num_players)]
            for seat in self._seats
        ]

    def _probes_of(self, lineup: Sequence[Policy]) -> dict[int, list[Any]]:
        """What the evaluated policy is asked in each of its seats."""
        probes = [measure for measure in self._measures if hasattr(measure, "question")]
        seats = [s for s, policy in enumerate(lineup) if policy is self._policy]
        if probes and getattr(self._policy, "is_person", False):
            raise ValueError("want no probe of a person; leave --probe out")
        return dict.fromkeys(seats, probes)

    def _play_plans(
        self, plans: Sequence[EpisodePlan], log: EpisodeLog | None
    ) -> dict[int, Episode]:
        """The episodes of the plans; those that an unfinished evaluation wrote are not played."""
        done: dict[int, Episode] = {}
        if log is not None and self._kept:
            done = {n: e for n, plan in enumerate(plans) if (e := self._found(plan))}
        for episode in done.values():
            self._add(episode)
        left = [index for index in range(len(plans)) if index not in done]
        for place, episode in self._stream(
            [plans[index] for index in left],
            batch_size=CHUNK,
            timeout=self._timeout,
            on_error=self._on_error,
        ):
            if log is not None:
                log.append([episode])
            index = left[place]
            done[index] = episode
            tell_people(episode, self.rules, plans[index].policies)
            self._add(episode)
        return done

    def _found(self, plan: EpisodePlan) -> Episode | None:
        """The episode of a plan among those of an unfinished evaluation, once."""
        names = [policy.name for policy in plan.policies]
        # as a record holds it
        cache = EnvCache(plan.env_fn, plan.own_prompts)
        header = json.loads(json.dumps(cache.header._asdict()))
        recorded = self._kept.get(plan.seed, [])
        for index, episode in enumerate(recorded):
            if (
                episode.sample == plan.sample
                and all(turn.policy == names[turn.seat] for turn in episode.turns)
                and all(getattr(episode, k) == v for k, v in header.items())
            ):
                return recorded.pop(index)
        return None

    def _add(self, episode: Episode) -> None:
        """Counts an episode and its replies."""
        self._replies.add(episode)
        self._num_done += 1
        if self._progress is not None:
            self._progress(self._num_done, self.num_episodes)

    def _count(self, opponent: Policy | Literal["self"]) -> int:
        lineups = 1 if opponent == "self" else len(self._seats)
        entries = 1 + len(self._baselines) + bool(self._constants)
        entries += self._base is not None
        trials = len(self._constants) * len(self._trial_seeds)
        if self._are_constants_exact(opponent):
            trials = 0
        return lineups * len(self._samples) * (entries * len(self._seeds) + trials)


def _spread_of(trials: Sequence[Trial], seats: Sequence[int]) -> float:
    """The standard deviation of a seat's return in random play."""
    returns = [one[seat] for trial in trials for one in trial.returns for seat in seats]
    return pstdev(returns)


def _plurality(episodes: Sequence[Episode]) -> Episode:
    """The first episode with the most frequent last action; a lost one, if there is any."""
    for episode in episodes:
        if episode.lost is not None:
            return episode
    valid = [
        episode
        for episode in episodes
        if episode.turns and episode.turns[-1].invalid is None
    ]
    votes = Counter(str(episode.turns[-1].action) for episode in valid)
    if not valid:
        return episodes[0]
    return max(valid, key=lambda one: votes[str(one.turns[-1].action)])


def _prepared_opponents(
    opponents: str | Sequence[Policy | str], game: AnyGame
) -> list[Policy | Literal["self"]]:
    opponents = [opponents] if isinstance(opponents, str) else opponents
    if not opponents:
        raise ValueError("want at least one opponent, got none")
    used = opponents if game.num_players > 1 else opponents[:1]
    return [
        "self" if opponent == "self" else prepared(opponent, game) for opponent in used
    ]


def _means_by_seed(episodes: Mapping[int, Sequence[Episode]]) -> dict[int, float]:
    """The mean return of a policy over its seats, for the seeds that lost no episode."""
    returns_by_seed: dict[int, list[float]] = {}
    for seat, played in episodes.items():
        for episode in played:
            if episode.lost is None:
                returns_by_seed.setdefault(episode.seed, []).append(
                    episode.returns[seat]
                )
    return {
        s: fmean(returns)
        for s, returns in returns_by_seed.items()
        if len(returns) == len(episodes)
    }


def _unfinished(log: EpisodeLog) -> dict[int, list[Episode]]:
    """The episodes by seed that no finished evaluation has measured, less the lost ones.

    Evaluations of one command end together: if one lost episodes or spent the budget, all go on.
    """
    evaluations: list[dict[str, Any]] = []
    num_open = Counter[int]()
    if (results := results_path(log.path)).is_file():
        evaluations = [
            *map(json.loads, results.read_text(encoding="utf-8").splitlines())
        ]
    for entry in evaluations:
        num_open[entry["num_lines"]] += sum(row["num_lost"] for row in entry["rows"])
        num_open[entry["num_lines"]] += entry.get("has_spent_budget", False)
    done = {
        json.dumps([entry["game"], entry["params"]]): entry["num_lines"]
        for entry in evaluations
        if not num_open[entry["num_lines"]]
    }
    episodes: dict[int, list[Episode]] = {}
    for index, episode in enumerate(log):
        key = json.dumps([episode.game, episode.params])
        if episode.lost is None and index >= done.get(key, 0):
            episodes.setdefault(episode.seed, []).append(episode)
    return episodes
