"""Two policies on the same seeds and seats: `arena compare`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from arena_envs import GameEnv
from arena_envs.game import AnyGame
from arena_envs.transforms import Transform
from arena_trainers.evaluate.matches import (
    Evaluation,
    EvaluationPlan,
    Progress,
    env_of,
)
from arena_trainers.evaluate.result_rows import ResultRow
from arena_wrappers import Policy, make_policy

CAPTION = """\
Difference: trained less base on the same seeds and seats, from replayed records. Brackets: 95 % intervals over n seeds.
On average, 5 % of {num} differences lie outside their intervals by chance.
Tokens: of the policy's replies in an episode, in all its seats. Per point: tokens / (return - return of random play).
Trained: this game and these parameters; sibling: these rules with other parameters; held out: other rules."""
SHOWN = {"policy": "trained", "uniform": "random"}  # names of roles
SOLO = {"policy": "solo", "base": "base solo"}  # one seat for the tokens of a team


@dataclass(frozen=True)
class Compared:
    """A policy in one game against one opponent, or the difference of two.

    Attributes:
        game: the game's string.
        level: `"trained"`, `"sibling"`, `"held out"` or `"unknown"`; see `level_of`.
        against: the opponent; "self" if the policy plays all seats.
        role: `"difference"`, `"trained"`, `"base"`, `"random"`, `"constant"`, and with equal
            tokens `"solo"` and `"base solo"`.
        policy: name of the policy.
        num_seeds: observations of the interval.
        value: mean return over seats and seeds; the paired difference.
        low: lower end of the 95 % interval.
        high: upper end.
        tokens: of the replies in an episode, in all seats of the policy; None if unknown.
        tokens_per_point: tokens / (value - value of random play); None where it is not above.
        invalid: invalid replies per reply.
        num_lost: lost episodes, which all other figures leave out.
        num_samples: replies of `solo`, the most frequent of which counts.
    """

    game: str
    level: str
    against: str
    role: str
    policy: str
    num_seeds: int
    value: float
    low: float
    high: float
    tokens: float | None = None
    tokens_per_point: float | None = None
    invalid: float | None = None
    num_lost: int = 0
    num_samples: int = 1


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
    rules = {type(_inner(one)) for one in trained}
    return "sibling" if type(_inner(game)) in rules else "held out"


def _inner(game: AnyGame) -> AnyGame:
    while isinstance(game, Transform):
        game = game.game
    return game


class ComparisonPlan:
    """A comparison with checked arguments, ready to run.

    Args:
        base: policy, or its string, that the other is compared with.
        trained: the other.
        games: the opponents in each game, by the game's string. In cooperative games without
            any, a policy plays all seats, elsewhere the opponent is random play.
        trained_on: games of the training; None if they are unknown.
        equal_tokens: in games with a `protocol`, also play `solo`: the most frequent of as many
            replies of one seat as the team's tokens buy.
        **options: of `EvaluationPlan`: num_episodes, seed, prompt, ...

    Attributes:
        warnings: of the last run.
        unanswered: a clause for each policy and game with lost episodes in the last run.

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
        first, second = (
            make_policy(one) if isinstance(one, str) else one for one in (base, trained)
        )
        self._pair = {"policy": first if base == trained else second, "base": first}
        self._trained_on, self._options = trained_on, options
        self._equal_tokens = equal_tokens
        self._plans = {}
        for name, others in games.items():
            env = env_of(name)
            default = "self" if env.game.kind == "cooperative" else "random"
            self._plans[name] = env, self._plan("policy", env, others or [default])
        self.warnings: list[str] = []
        self.unanswered: list[str] = []

    def run(self, progress: Progress | None = None) -> list[Compared]:
        """Plays all episodes; a row for each game, opponent and role.

        Raises:
            NoReplyError: all episodes of a row are lost.
        """
        self.warnings, self.unanswered = [], []
        self._progress, self._num_done = progress or (lambda *_: None), 0
        self._total = sum(plan.num_episodes for _, plan in self._plans.values())
        return [
            row
            for name, (env, plan) in self._plans.items()
            for row in self._rows(name, env, self._play(plan))
        ]

    def _plan(
        self, role: str, env: GameEnv, others: Any, **more: Any
    ) -> EvaluationPlan:
        base = self._pair["base"] if not more else None
        given = {"base": base, **self._options, **more}
        return EvaluationPlan(self._pair[role], env, others, **given)

    def _play(self, plan: EvaluationPlan) -> Evaluation:
        before = self._num_done
        found = plan.run(lambda done, _: self._progress(before + done, self._total))
        self._num_done += plan.num_episodes
        self.unanswered += plan.unanswered()
        self.warnings += found.warnings
        return found

    def _rows(self, name: str, env: GameEnv, found: Evaluation) -> Iterator[Compared]:
        level, seats = level_of(env.game, self._trained_on), env.game.num_players
        for one in found.differences:
            key = name, level, one.opponent
            names = "difference", f"{self._pair['policy'].name} less {one.base}"
            ends = one.difference, one.low, one.high
            yield Compared(*key, *names, one.num_seeds, *ends)
            last = {r.role: r for r in found.rows if r.opponent in (one.opponent, "")}
            random = last["uniform"].mean_return if "uniform" in last else None
            own = seats if one.opponent == "self" else 1  # seats that pay tokens
            for role, row in last.items():
                shown = SHOWN.get(role, role)
                yield _row((*key, shown), row, random, own, seats // own)
                if self._equal_tokens and own > 1 and role in SOLO:
                    yield from self._solo((*key, SOLO[role]), role, env, row, random)

    def _solo(
        self,
        key: tuple[str, str, str, str],
        role: str,
        env: GameEnv,
        team: ResultRow,
        random: float | None,
    ) -> Iterator[Compared]:
        """The policy alone, with as many replies as the team's tokens buy."""
        rules: Any = env.game
        if getattr(rules, "protocol", "solo") == "solo":
            return
        alone = GameEnv(replace(rules, protocol="solo"), id=env.id)

        def played(num: int) -> ResultRow:
            more = {"baselines": False, "num_samples": num}
            plan = self._plan(role, alone, ["random"], **more)
            self._total += plan.num_episodes
            return self._play(plan).rows[-1]

        first = played(1)
        if not team.num_tokens or not first.num_tokens:
            told = f"--equal-tokens leaves out {team.policy}, which reports no tokens"
            self.warnings.append(told)
            return
        num = max(1, int(team.num_tokens * rules.num_players / first.num_tokens))
        row = played(num) if num > 1 else first
        yield replace(_row(key, row, random, num, 1), num_samples=num)


def _row(
    key: tuple[str, str, str, str],
    row: ResultRow,
    random: float | None,
    times: int,
    num_lineups: int,
) -> Compared:
    """A row of an evaluation; its tokens count several times, as its lineups share seeds."""
    tokens = None if row.num_tokens is None else row.num_tokens * times
    gain = 0.0 if random is None else row.mean_return - random
    return Compared(
        *(*key, row.policy, row.num_episodes // num_lineups),
        *(row.mean_return, row.low, row.high, tokens),
        tokens / gain if tokens is not None and gain > 0 else None,
        sum(row.invalid.values()),
        row.num_lost,
    )


def comparison_tables(rows: Sequence[Compared], trained_on: str) -> list[Table]:
    """Differences with both values; then baselines and costs."""
    by_role: dict[tuple[str, str], dict[str, Compared]] = {}
    for row in rows:
        by_role.setdefault((row.game, row.against), {})[row.role] = row
    pairs = [
        [
            *(one["base"].game, one["base"].level, one["base"].against),
            str(one["difference"].num_seeds),
            *(_interval(one[role]) for role in ("base", "trained", "difference")),
        ]
        for one in by_role.values()
    ]
    heads = ["game", "level", "against", "n", "base", "trained", "difference"]
    values = _table(rows[0].policy, heads, pairs)
    costs = [
        [
            *(row.game, row.against),
            f"{row.role} of {row.num_samples}" if row.num_samples > 1 else row.role,
            *(str(row.num_seeds), _interval(row)),
            *(
                "-" if x is None else f"{x:.1f}"
                for x in (row.tokens, row.tokens_per_point)
            ),
            *(f"{row.invalid:.1%}", str(row.num_lost)),
        ]
        for row in rows
        if row.role != "difference"
    ]
    heads = ["game", "against", "policy", "n", "return", "tokens", "per point"]
    table = _table("Baselines and costs", [*heads, "invalid", "lost"], costs)
    table.caption = escape(f"{CAPTION.format(num=len(pairs))}\n{trained_on}")
    return [values, table]


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=escape(title), box=box.SIMPLE_HEAD, caption_justify="left")
    for head in heads:
        is_text = head in ("game", "level", "against", "policy")
        table.add_column(head, justify="left" if is_text else "right", overflow="fold")
    for cells in rows:
        table.add_row(*map(escape, cells))
    return table


def _interval(row: Compared) -> str:
    return f"{row.value:z.3f} ({row.low:z.3f} to {row.high:z.3f})"
