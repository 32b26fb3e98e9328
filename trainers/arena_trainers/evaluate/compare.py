"""Two policies on the same seeds and seats: `arena compare`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from rich import box
from rich.markup import escape
from rich.table import Table

from arena_envs import GameEnv
from arena_envs.game import AnyGame
from arena_envs.transforms import Transform
from arena_trainers.evaluate.matches import (
    Difference,
    Evaluation,
    EvaluationPlan,
    Progress,
    env_of,
)
from arena_trainers.evaluate.result_rows import ResultRow
from arena_wrappers import Policy, make_policy

Level = Literal["trained", "sibling", "held out", "unknown"]
CAPTION = """\
Difference: trained less base on the same seeds and seats, from replayed records; n: seeds.
Brackets: 95 % intervals; on average 5 % of the {num} differences lie outside theirs.
Tokens: of the policy's replies in an episode, in all its seats. Per point: tokens / (return - return of random play); -: not above it.
Level: trained: this game and these parameters; sibling: the same rules with other parameters; held out: other rules.
{trained}"""


def level_of(game: AnyGame, trained: Sequence[AnyGame] | None) -> Level:
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


@dataclass(frozen=True)
class Compared:
    """Two policies in one game against one opponent.

    Attributes:
        game: the game's string.
        params: all parameters of the game.
        level: of the game, for the trained policy.
        num_players: seats of the game.
        difference: the paired difference.
        rows: rows over all seats: `"trained"`, `"base"`, `"random"`, `"constant"`, and `"solo"`
            and `"base solo"`, the plurality of as many replies of one seat as the team's
            tokens buy.
        num_samples: number of these replies, by name of the row.
    """

    game: str
    params: Mapping[str, Any]
    level: Level
    num_players: int
    difference: Difference
    rows: Mapping[str, ResultRow]
    num_samples: Mapping[str, int]

    def num_seeds(self, name: str) -> int:
        """Number of seeds of a row, which are the observations of its interval."""
        row = self.rows[name]
        is_shared = row.opponent == "self" or row.seat != "all"
        return row.num_episodes // (1 if is_shared else self.num_players)

    def tokens(self, name: str) -> float | None:
        """Tokens of an episode in all seats of the row's policy; None if it reports none."""
        row = self.rows[name]
        if row.num_tokens is None:
            return None
        own = self.num_players if row.opponent == "self" else 1
        return row.num_tokens * own * self.num_samples.get(name, 1)

    def cost(self, name: str) -> float | None:
        """Tokens per point of return above random play; None if there is no such point."""
        tokens, random = self.tokens(name), self.rows.get("random")
        gain = self.rows[name].mean_return - random.mean_return if random else 0.0
        return tokens / gain if tokens is not None and gain > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """The row as values that JSON can hold."""
        costs = {
            name: {
                "num_seeds": self.num_seeds(name),
                "tokens": self.tokens(name),
                "tokens_per_point": self.cost(name),
            }
            for name in self.rows
        }
        return asdict(self) | {"costs": costs}

    def record(self) -> dict[str, Any]:
        """The row as one flat record, for CSV."""
        flat = {"game": self.game, "level": self.level, **asdict(self.difference)}
        for name, row in self.rows.items():
            own: dict[str, Any] = {
                "n": self.num_seeds(name),
                "return": row.mean_return,
                "low": row.low,
            }
            own |= {"high": row.high, "invalid": sum(row.invalid.values())}
            own |= {"tokens": self.tokens(name), "tokens_per_point": self.cost(name)}
            own |= {"lost": row.num_lost, "samples": self.num_samples.get(name, 1)}
            flat |= {f"{name} {key}": value for key, value in own.items()}
        return flat


PAIR = ("base", "trained")
NAMES = {"policy": "trained", "uniform": "random"}  # of roles, where they differ


class ComparisonPlan:
    """A comparison with checked arguments, ready to run.

    Args:
        base: policy, or its string, that the other is compared with.
        trained: the other.
        games: the opponents in each game, by the game's string. In cooperative games without
            any, a policy plays all seats, elsewhere the opponent is random play.
        trained_on: games of the training; None if they are unknown.
        equal_tokens: in games with a `protocol`, also play `solo`: the plurality of as many
            replies of one seat as the team's tokens buy.
        **options: of `EvaluationPlan`: num_episodes, seed, prompt, ...

    Attributes:
        warnings: of the last run.

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
        same = base == trained
        base = make_policy(base) if isinstance(base, str) else base
        trained = make_policy(trained) if isinstance(trained, str) else trained
        self._pair = (base, base if same else trained)
        self._envs = {name: env_of(name) for name in games}
        self._trained_on, self._options = trained_on, options
        self._equal_tokens = equal_tokens
        self._plans = [
            EvaluationPlan(
                self._pair[1],
                env,
                games[name] or ["self" if env.game.kind == "cooperative" else "random"],
                base=base,
                **options,
            )
            for name, env in self._envs.items()
        ]
        self.warnings: list[str] = []

    def run(self, progress: Progress | None = None) -> list[Compared]:
        """Plays all episodes; a row for each game and opponent.

        Raises:
            NoReplyError: all episodes of a row are lost.
        """
        self._progress, self._num_done, self.warnings = progress, 0, []
        self._total = sum(plan.num_episodes for plan in self._plans)
        self._lost: list[str] = []
        rows = []
        for (name, env), plan in zip(self._envs.items(), self._plans, strict=True):
            level, found = level_of(env.game, self._trained_on), self._play(plan)
            for one in found.differences:
                last = {
                    NAMES.get(row.role, row.role): row
                    for row in found.rows
                    if row.opponent in (one.opponent, "")
                }
                seats = env.game.num_players
                row = Compared(name, found.params, level, seats, one, last, {})
                if self._equal_tokens and one.opponent == "self":
                    row = self._with_solo(row, env)
                rows.append(row)
        return rows

    def unanswered(self) -> tuple[str, ...]:
        """A clause for each policy and game that lost episodes in the last `run`."""
        return tuple(self._lost)

    def _play(self, plan: EvaluationPlan) -> Evaluation:
        before, tell = self._num_done, self._progress or (lambda *_: None)
        found = plan.run(lambda done, _: tell(before + done, self._total))
        self._num_done += plan.num_episodes
        self._lost += plan.unanswered()
        self.warnings += found.warnings
        return found

    def _with_solo(self, row: Compared, env: GameEnv) -> Compared:
        """The row with the plurality of replies of one seat, for both policies."""
        rules: Any = env.game
        if getattr(rules, "protocol", "solo") == "solo":
            return row
        alone = GameEnv(replace(rules, protocol="solo"), id=env.id)
        rows, counts = dict(row.rows), {}
        for name, key, policy in zip(
            PAIR, ("base solo", "solo"), self._pair, strict=True
        ):
            own, team = self._solo(policy, alone, 1), row.tokens(name)
            if not own.num_tokens or team is None:
                told = f"{policy.name} reports no tokens: want a language model"
                self.warnings.append(f"--equal-tokens leaves out solo of {told}")
                continue
            counts[key] = max(1, int(team / own.num_tokens))
            rows[key] = self._solo(policy, alone, counts[key])
        return replace(row, rows=rows, num_samples=counts)

    def _solo(self, policy: Policy, env: GameEnv, num: int) -> ResultRow:
        options = {**self._options, "baselines": False, "num_samples": num}
        plan = EvaluationPlan(policy, env, **options)
        self._total += plan.num_episodes
        return self._play(plan).rows[-1]


def comparison_tables(rows: Sequence[Compared], trained_on: str) -> list[Table]:
    """Differences, then baselines and costs."""
    base = rows[0].rows["base"].policy
    trained = rows[0].rows["trained"].policy
    values = _table(
        f"{trained} less {base}",
        ["game", "level", "against", "n", "base", "trained", "difference"],
        [
            [
                *(row.game, row.level, row.difference.opponent),
                str(row.difference.num_seeds),
                *(_interval(row.rows[k].mean_return, row.rows[k]) for k in PAIR),
                _interval(row.difference.difference, row.difference),
            ]
            for row in rows
        ],
    )
    names = dict.fromkeys([*PAIR, *(name for row in rows for name in row.rows)])
    costs = _table(
        "Baselines and costs",
        ["game", "against", "policy", "n", "return", "tokens", "per point", "invalid"],
        [
            [row.game, row.difference.opponent, _name(row, name), *_costs(row, name)]
            for row in rows
            for name in names
            if name in row.rows
        ],
    )
    lost = [
        f"lost: {one.num_lost} episodes of {one.policy} in {row.game}, left out; the "
        "difference has only seeds that are complete for both"
        for row in rows
        for one in row.rows.values()
        if one.num_lost
    ]
    text = CAPTION.format(num=len(rows), trained=trained_on)
    costs.caption = escape("\n".join([text, *lost]))
    return [values, costs]


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(
        title=escape(title),
        box=box.SIMPLE_HEAD,
        caption_justify="left",
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for head in heads:
        is_text = head in ("game", "level", "against", "policy")
        table.add_column(head, justify="left" if is_text else "right", overflow="fold")
    for cells in rows:
        table.add_row(*map(escape, cells))
    return table


def _interval(mean: float, of: ResultRow | Difference) -> str:
    return f"{mean:z.3f} ({of.low:z.3f} to {of.high:z.3f})"


def _name(row: Compared, name: str) -> str:
    return f"{name} of {row.num_samples[name]}" if name in row.num_samples else name


def _costs(row: Compared, name: str) -> list[str]:
    one = row.rows[name]
    numbers = [row.tokens(name), row.cost(name)]
    return [
        str(row.num_seeds(name)),
        _interval(one.mean_return, one),
        *("-" if number is None else f"{number:.1f}" for number in numbers),
        f"{sum(one.invalid.values()):.1%}",
    ]
