"""Two policies on the same seeds and seats, with baselines and costs; Shapley values of seats."""

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from rich import box
from rich.table import Table

from arena_envs import GameEnv
from arena_envs.game import AnyGame, bounds_of
from arena_envs.transforms import innermost
from arena_eval.baselines import prepared
from arena_eval.exploit import given_prompts
from arena_eval.intervals import paired_interval
from arena_eval.luck import Adjusted, worth_text
from arena_eval.matches import (
    Evaluation,
    EvaluationPlan,
    Progress,
    checked_seats,
    env_of,
)
from arena_eval.result_rows import ResultRow, append_results
from arena_eval.spending import Budget, Spending, added
from arena_eval.stopping import StopRule
from arena_eval.tables import ANY_TIME, EXACT, LUCK
from arena_wrappers import (
    EpisodePlan,
    NoReplyError,
    Policy,
    PromptWrapper,
    as_policy,
    stream_plans,
)

SAMPLED = """\
difference: trained less base on the same seeds and seats, from replayed records; brackets: 95 % intervals over n seeds
No interval covers a rare, large loss that these episodes never showed.
On average, 5 % of {num} differences lie outside their intervals by chance."""
TOKENS = (
    "tokens: of the policy's replies in an episode, in all its seats; per point: tokens / (return - "
    "return of random play)"
)
LEVELS = """\
trained: this game and these parameters; sibling: these rules with other parameters; held out: other rules
The training's games: {games}"""
UNKNOWN_LEVELS = "The training's games: unknown; give --trained-on GAME"
ROLES = {"policy": "trained", "uniform": "random"}  # where the names differ
SOLO = {"policy": "solo", "base": "base solo"}

MAX_EXACT = 8  # seats
SEATS = """\
value: the seat's share of the team's return with the policy less that with the base; below 0: the policy lowers it
brackets: 95 % intervals over n seeds"""

Record = dict[str, Any]
# seat, coalition that it joins, weight
CoalitionStep = tuple[int, frozenset[int], float]


def level_of(game: AnyGame, trained: Sequence[AnyGame] | None) -> str:
    """How far a game is from those that a model was trained on; None: nobody knows these.

    >>> from arena_envs import make_game
    >>> hanabi, mini = make_game("hanabi"), make_game("mini_hanabi")
    >>> level_of(mini, [mini]), level_of(hanabi, [mini]), level_of(hanabi, [])
    ('trained', 'sibling', 'held out')
    """
    if trained is None:
        return "unknown"
    if game in trained:
        return "trained"
    rules = {type(innermost(trained_game)) for trained_game in trained}
    return "sibling" if type(innermost(game)) in rules else "held out"


class ComparisonPlan:
    """Two policies in the same episodes, with checked arguments, ready to run.

    Args:
        base: policy, or its string, that the other is compared with.
        trained: the other.
        games: the opponents in each game, by the game's string. In cooperative games without
            any, a policy plays all seats, elsewhere the opponent is random play.
        trained_on: games of the training; None if they are unknown.
        equal_tokens: in games with a `protocol`, also play `solo`: the most frequent of as many
            replies of one seat as the team's tokens buy.
        **options: of `EvaluationPlan`: num_episodes, seed, prompt, stop, ...

    Attributes:
        warnings: of the last run.
        stops: of the last run, why play ended, see `Evaluation`.
        unanswered: a clause for each policy and game with lost episodes in the last run.
        evaluations: of the last run, see `Evaluation.to_dict`.

    Raises:
        ValueError: as for `EvaluationPlan`.
    """

    def __init__(
        self,
        base: Policy | str,
        trained: Policy | str,
        games: Mapping[str, Sequence[Policy | str]],
        *,
        trained_on: Sequence[AnyGame] | None = None,
        equal_tokens: bool = False,
        **options: Any,
    ) -> None:
        first, second = as_policy(base), as_policy(trained)
        stop: StopRule | None = options.get("stop")
        if equal_tokens and stop is not None and stop.budget.is_limited:
            raise ValueError(
                "want equal_tokens or a budget, got both, and solo play would exceed it; "
                "leave one out"
            )
        self._pair = {"policy": first if base == trained else second, "base": first}
        self._trained_on, self._options = trained_on, options
        self._equal_tokens = equal_tokens
        self._plans = {}
        for name, others in games.items():
            env = env_of(name)
            others = others or ["self" if env.game.kind == "cooperative" else "random"]
            plan = EvaluationPlan(
                self._pair["policy"], env, others, base=first, **options
            )
            self._plans[name] = env, plan
        self.warnings: dict[str, None] = {}
        self.unanswered: list[str] = []
        self.stops: list[str] = []
        self.evaluations: list[Record] = []

    @property
    def players(self) -> list[Policy]:
        """All but baselines."""
        return [player for _, plan in self._plans.values() for player in plan.players]

    def expected(self, budget: Budget) -> tuple[int, Spending]:
        """As `EvaluationPlan.expected`, of all games together."""
        numbers, spending = zip(
            *(plan.expected(budget) for _, plan in self._plans.values()), strict=True
        )
        return sum(numbers), added(spending)

    def run(self, progress: Progress | None = None) -> list[Record]:
        """Plays all episodes; a record for each game, opponent and role.

        Roles: `difference`, `trained`, `base`, `random`, `constant`, `solo`, `base solo`. `value` is
        the mean return or the paired difference, `low` and `high` its 95 % interval over
        `num_seeds`; `tokens_per_point` is None where the policy is not above random play.

        Raises:
            NoReplyError: all episodes of a row are lost.
        """
        self.warnings, self.unanswered, self.stops = {}, [], []
        self.evaluations = []
        self._progress, self._num_done = progress or (lambda *_: None), 0
        self._total = sum(plan.num_episodes for _, plan in self._plans.values())
        records = [
            {"game": name, "level": level_of(env.game, self._trained_on), **record}
            for name, (env, plan) in self._plans.items()
            for record in self._records(env, self._play(plan))
        ]
        if out := self._options.get("out"):
            append_results(out, self.evaluations)
        return records

    def _play(self, plan: EvaluationPlan) -> Evaluation:
        before = self._num_done
        evaluation = plan.run(
            lambda done, _: self._progress(before + done, self._total), write=False
        )
        self.evaluations.append(evaluation.to_dict())
        self._num_done += plan.num_episodes
        self.unanswered += plan.unanswered()
        self.warnings |= dict.fromkeys(evaluation.warnings)
        self.stops += [f"{evaluation.game}: {text}" for text in evaluation.stops]
        return evaluation

    def _records(self, env: GameEnv, evaluation: Evaluation) -> Iterator[Record]:
        for difference in evaluation.differences:
            last = {
                r.role: r
                for r in evaluation.rows
                if r.opponent in (difference.opponent, "")
            }
            random = last.get("uniform")
            num_seats = env.game.num_players if difference.opponent == "self" else 1
            times = env.game.num_players // num_seats
            yield {
                **{"against": difference.opponent, "role": "difference"},
                "policy": f"{last['policy'].policy} less {difference.base}",
                **{"num_seeds": difference.num_seeds, "value": difference.difference},
                **{
                    "low": difference.low,
                    "high": difference.high,
                    "is_exact": difference.is_exact,
                },
                **_luck_out(difference.adjusted),
            }
            for role, row in last.items():
                name = {"against": difference.opponent, "role": ROLES.get(role, role)}
                yield name | _record(row, random, num_seats, times)
                if self._equal_tokens and num_seats > 1 and role in SOLO:
                    name["role"] = SOLO[role]
                    for num, alone in self._solo(role, env, row):
                        more = {"num_samples": num}
                        yield name | _record(alone, random, num, 1) | more

    def _solo(
        self, role: str, env: GameEnv, team: ResultRow
    ) -> Iterator[tuple[int, ResultRow]]:
        """The policy alone with as many replies as the team's tokens buy, and their number."""
        rules: Any = env.game
        if getattr(rules, "protocol", "solo") == "solo":
            return
        alone = GameEnv(replace(rules, protocol="solo"), id=env.id)
        options = {**self._options, "baselines": False, "stop": None}
        options["num_episodes"] = team.num_episodes

        def played(num: int) -> ResultRow:
            plan = EvaluationPlan(self._pair[role], alone, num_samples=num, **options)
            self._total += plan.num_episodes
            return self._play(plan).rows[-1]

        single = played(1)
        if not team.num_tokens or not single.num_tokens:
            warning = (
                f"--equal-tokens leaves out {team.policy}, which reports no tokens"
            )
            self.warnings[warning] = None
            return
        num = max(1, int(team.num_tokens * rules.num_players / single.num_tokens))
        yield num, (played(num) if num > 1 else single)


def _record(
    row: ResultRow, random: ResultRow | None, times: int, num_lineups: int
) -> Record:
    """A row of an evaluation whose tokens count several times, and whose lineups share seeds."""
    tokens = None if row.num_tokens is None else row.num_tokens * times
    gain = row.mean_return - random.mean_return if random else 0.0
    return {
        "policy": row.policy,
        "num_seeds": row.num_episodes // num_lineups,
        **{"value": row.mean_return, "low": row.low, "high": row.high},
        "is_exact": row.is_exact,
        "tokens": tokens,
        "tokens_per_point": tokens / gain if tokens is not None and gain > 0 else None,
        "invalid": sum(row.invalid.values()),
        "num_lost": row.num_lost,
        **_luck_out(row.adjusted),
    }


def _luck_out(adjusted: Adjusted | None) -> Record:
    """A mean with the luck taken out, where that helps."""
    if adjusted is None:
        return dict.fromkeys(
            ("adjusted", "adjusted_low", "adjusted_high", "adjusted_worth")
        )
    return {
        "adjusted": adjusted.mean,
        "adjusted_low": adjusted.low,
        "adjusted_high": adjusted.high,
        "adjusted_worth": adjusted.worth,
    }


def comparison_table(
    records: Sequence[Mapping[str, Any]], stops: Sequence[str] = ()
) -> Table:
    """All records, whose `trained_on` names games; a difference comes first in its game.

    Args:
        records: of `ComparisonPlan.run`.
        stops: lines about the ends of play, see `Evaluation.stops`.
    """
    differences = [record for record in records if record["role"] == "difference"]
    table = Table(
        title=differences[0]["policy"],
        caption="\n".join(_notes(records, stops)),
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    for head in ("game", "level", "against", "policy"):
        table.add_column(head, overflow="fold")
    heads = ["n", "return (95 %)", "tokens", "per point", "invalid", "lost"]
    has_luck_out = any(record.get("adjusted") is not None for record in records)
    if has_luck_out:
        heads[2:2] = ["luck out (95 %)", "as good as"]
    for head in heads:
        table.add_column(head, justify="right")
    for record in records:
        num = record.get("num_samples", 1)
        costs = [record.get("tokens"), record.get("tokens_per_point")]
        ends = f"{record['low']:z.3f} to {record['high']:z.3f}"
        if record.get("is_exact"):
            ends = "exact"
        cells = [
            *(record["game"], record["level"], record["against"]),
            f"{record['role']} of {num}" if num > 1 else record["role"],
            str(record["num_seeds"]),
            f"{record['value']:z.3f} ({ends})",
            *(_luck_cells(record) if has_luck_out else []),
            *("-" if cost is None else f"{cost:.1f}" for cost in costs),
            f"{record['invalid']:.1%}" if "invalid" in record else "",
            str(record.get("num_lost", "")),
        ]
        table.add_row(*cells)
    return table


def _notes(records: Sequence[Mapping[str, Any]], stops: Sequence[str]) -> list[str]:
    """Lines that explain the table, of what is in it alone."""
    differences = [record for record in records if record["role"] == "difference"]
    num_sampled = sum(not record.get("is_exact") for record in differences)
    notes = [SAMPLED.format(num=num_sampled)] if num_sampled else []
    if any(record.get("is_exact") for record in records):
        notes.append(EXACT)
    if any(record.get("tokens") is not None for record in records):
        notes.append(TOKENS)
    games = ", ".join(differences[0]["trained_on"])
    notes.append(LEVELS.format(games=games) if games else UNKNOWN_LEVELS)
    if any(record.get("adjusted") is not None for record in records):
        notes.append(LUCK)
    notes += [f"played: {text}" for text in stops]
    if stops and num_sampled:
        notes.append(ANY_TIME)
    return notes


def _luck_cells(record: Mapping[str, Any]) -> list[str]:
    if record.get("adjusted") is None:
        return ["-", "-"]
    ends = f"{record['adjusted_low']:z.3f} to {record['adjusted_high']:z.3f}"
    return [f"{record['adjusted']:z.3f} ({ends})", worth_text(record["adjusted_worth"])]


def coalition_steps(
    seats: Sequence[int], num_permutations: int | None, seed: int
) -> list[CoalitionStep]:
    """Seats, the coalitions that they join, and weights: all, or sampled orders of a seed."""
    m = len(seats)
    if num_permutations is None:
        return [
            (seat, frozenset(joined), 1 / (m * math.comb(m - 1, size)))
            for seat in seats
            for size in range(m)
            for joined in itertools.combinations({*seats} - {seat}, size)
        ]
    rng = random.Random(f"orders {seed}")
    orders = [rng.sample(seats, m) for _ in range(num_permutations)]
    return [
        (seat, frozenset(order[:place]), 1 / num_permutations)
        for order in orders
        for place, seat in enumerate(order)
    ]


def attributed(
    policies: Sequence[Policy | str],
    game: str,
    seeds: Sequence[int],
    seats: Sequence[int] | None = None,
    num_permutations: int | None = None,
    prompt: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    progress: Progress = lambda done, total: None,
) -> tuple[list[Record], int]:
    """A record for each seat, and the number of lost episodes, whose seeds are left out.

    A coalition S is played by the policy, the other seats of the team by the base, on the same
    seeds. v(S) is the mean return of the team. The Shapley value of seat i is

        sum over S without i of |S|! (m - |S| - 1)! / m! (v(S + i) - v(S)),   m seats,

    so that values sum to v(all) - v(none). A seed is one observation of the 95 % interval.

    Args:
        policies: the policy, the base, and who plays the seats that are not of the team.
        game: the game's string.
        seeds: of the episodes.
        seats: the team; by default that of seat 0.
        num_permutations: number of sampled orders for each seed; None for exact values.
        prompt: arguments of the `PromptWrapper`.
        timeout: longest call of a policy, in seconds.
        progress: called after each episode with the numbers of episodes done and in all.

    Raises:
        ValueError: the seats are no team, or more than `MAX_EXACT` without `num_permutations`.
        NoReplyError: every seed has a lost episode.
    """
    env, prompt_options = env_of(game), dict(prompt or {})
    team = _team(env.game, seats, num_permutations)
    if len(policies) != 3:
        raise ValueError(
            f"want three policies, got {len(policies)}: name past:RUN@STEP"
        )
    players = [prepared(spec, env.game) for spec in policies]
    wrapper = PromptWrapper(env, **{"on_invalid": "forfeit", **prompt_options})
    steps = {seed: coalition_steps(team, num_permutations, seed) for seed in seeds}
    pairs = ((seed, j, j | {s}) for seed, joins in steps.items() for s, j, _ in joins)
    keys = [*dict.fromkeys((seed, c) for seed, *both in pairs for c in both)]
    team_returns = _paid(
        players, keys, wrapper, prompt_options, team, timeout, progress
    )
    lost = {seed for seed, _ in {*keys} - {*team_returns}}
    if len(lost) == len(seeds):
        raise NoReplyError("each seed has a lost episode")
    shares = {
        seat: [
            _share(seat, seed, steps[seed], team_returns)
            for seed in seeds
            if seed not in lost
        ]
        for seat in team
    }
    low, high = bounds_of(env.game)
    records = [
        {"seat": seat, "num_seeds": len(values), "value": fmean(values)}
        | dict(zip(("low", "high"), paired_interval(values, high - low), strict=True))
        for seat, values in shares.items()
    ]
    return records, len(keys) - len(team_returns)


def _paid(
    players: Sequence[Policy],
    keys: Sequence[tuple[int, frozenset[int]]],
    wrapper: PromptWrapper,
    prompt_options: dict[str, Any],
    team: Sequence[int],
    timeout: float | None,
    progress: Progress,
) -> dict[tuple[int, frozenset[int]], float]:
    """Mean returns of the team by seed and coalition, without lost episodes."""
    num = wrapper.game.num_players
    plans = []
    for seed, coalition in keys:
        index = [0 if s in coalition else 1 + (s not in team) for s in range(num)]
        lineup = [players[i] for i in index]
        prompts = given_prompts(lineup, prompt_options)
        plans.append(EpisodePlan(wrapper.clone, lineup, seed, prompts=prompts))
    team_returns = {}
    stream = stream_plans(plans, batch_size=256, timeout=timeout)
    for num_done, (place, episode) in enumerate(stream, 1):
        progress(num_done, len(plans))
        if episode.lost is None:
            team_returns[keys[place]] = fmean(episode.returns[seat] for seat in team)
    return team_returns


def _share(
    seat: int,
    seed: int,
    steps: Sequence[CoalitionStep],
    team_returns: Mapping[Any, float],
) -> float:
    """The value of a seat in a seed, by the returns of coalitions."""
    joins = [(joined, weight) for s, joined, weight in steps if s == seat]
    return sum(
        w * (team_returns[seed, j | {seat}] - team_returns[seed, j]) for j, w in joins
    )


def _team(
    game: AnyGame, seats: Sequence[int] | None, num_permutations: int | None
) -> Sequence[int]:
    """The seats, by default the team of seat 0; checked."""
    first_team = [s for s, team in enumerate(game.teams) if team == game.teams[0]]
    team_seats = checked_seats(game, seats or first_team)
    if len(team_seats) < 2:
        raise ValueError(
            f"want a team of two seats at least, got {[*team_seats]}; name seats with --seat"
        )
    if len(team_seats) > MAX_EXACT and num_permutations is None:
        raise ValueError(
            f"want at most {MAX_EXACT} seats for exact values, got {len(team_seats)}; add "
            "--permutations 50 to sample orders"
        )
    return team_seats


def seats_table(records: Sequence[Record], title: str) -> Table:
    """The records of `attributed`."""
    look: Any = {"caption_justify": "left", "box": box.SIMPLE_HEAD}
    table = Table("seat", "n", "value (95 %)", title=title, caption=SEATS, **look)
    for record in records:
        text = "{seat}|{num_seeds}|{value:z.3f} ({low:z.3f} to {high:z.3f})"
        table.add_row(*text.format(**record).split("|"))
    return table
