"""The page of a comparison of two policies: who wins, by how much, at what cost, and five replays."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, NamedTuple

from arena_eval.move_values import MoveSolver
from arena_studio.report.episodes import (
    BadLine,
    Recorded,
    not_blank,
    policies_of,
    read_lines,
)
from arena_studio.report.frames import frames_of
from arena_studio.report.page import filled_page
from arena_studio.report.replay_data import packed, page_data
from arena_studio.report.text_tables import (
    HEATS,
    NONE,
    TableCell,
    TextTable,
    number_cell,
    percent,
)
from arena_wrappers import without_lost

MAX_SOLVED = 400  # episodes in which regrets are looked for; a turn takes some ms
INTERVAL = "brackets: 95 % intervals over n seeds; exact: a sum over the whole game"


def compare_page(
    base: str,
    trained: str,
    records: Sequence[Mapping[str, Any]],
    evaluations: Sequence[Mapping[str, Any]],
    episodes_file: Path,
    warnings: Sequence[str] = (),
) -> str:
    """The page of a comparison; it is one file that loads nothing.

    Args:
        base: name of the policy that the other is compared with.
        trained: name of the other.
        records: of `ComparisonPlan.run`.
        evaluations: of `ComparisonPlan`.
        episodes_file: the episodes that were played.
        warnings: of the plan.

    Raises:
        ModuleNotFoundError: Jinja is not installed.
    """
    lines = list(not_blank(read_lines(episodes_file)))
    bad = [(episodes_file.name, line) for line in lines if isinstance(line, BadLine)]
    recorded = [line for line in lines if isinstance(line, Recorded)]
    replays = replays_worth_seeing(recorded, (base, trained))
    return filled_page(
        "compare.html",
        title=f"{trained} compared with {base}",
        tables=[
            *(win_matrix(evaluation) for evaluation in evaluations),
            difference_table(base, trained, records),
            cost_table(records),
        ],
        num_episodes=len(recorded),
        warnings=warnings,
        bad=bad,
        data=packed(page_data(replays)),
    )


def win_matrix(evaluation: Mapping[str, Any]) -> TextTable:
    """Mean returns of each policy by opponent, with the share of episodes won, in all seats."""
    rows = [row for row in evaluation["rows"] if row["seat"] == "all"] or [
        row for row in evaluation["rows"] if row["opponent"] != ""
    ]
    rows = rows or evaluation["rows"]  # of a game of one seat
    opponents = [*dict.fromkeys(row["opponent"] for row in rows)]
    policies = [*dict.fromkeys(row["policy"] for row in rows)]
    cell_of = {(row["policy"], row["opponent"]): row for row in rows}
    largest = max((abs(row["mean_return"]) for row in rows), default=0.0) or 1.0
    cells: list[list[str | TableCell]] = [
        [policy]
        + [
            _win_cell(cell_of.get((policy, opponent)), largest)
            for opponent in opponents
        ]
        for policy in policies
    ]
    heads = ["policy", *(f"against {name}" if name else "return" for name in opponents)]
    num = max((row["num_episodes"] for row in rows), default=0)
    notes = [f"mean return, and the share of episodes won; n: up to {num} episodes"]
    return TextTable(f"{evaluation['game']}: who wins", heads, cells, notes)


def _win_cell(row: Mapping[str, Any] | None, largest: float) -> str | TableCell:
    if row is None:
        return NONE
    won = "" if row["wins"] is None else f"; won {percent(row['wins'])}"
    heat = round(HEATS * row["mean_return"] / largest)
    return TableCell(f"{number_cell(row['mean_return'])}{won}", heat=heat)


def difference_table(
    base: str, trained: str, records: Sequence[Mapping[str, Any]]
) -> TextTable:
    """The differences by game and opponent, and which of them are decided."""
    differences = [record for record in records if record["role"] == "difference"]
    has_luck = any(record.get("adjusted") is not None for record in differences)
    rows = [
        [
            record["game"],
            record["against"],
            str(record["num_seeds"]),
            _with_ends(record, "value", "low", "high"),
            *(
                [_with_ends(record, "adjusted", "adjusted_low", "adjusted_high")]
                if has_luck
                else []
            ),
            _verdict(base, trained, record),
        ]
        for record in differences
    ]
    luck = ["luck out (95 %)"] if has_luck else []
    heads = ["game", "against", "n", "difference (95 %)", *luck, "verdict"]
    notes = [f"return of {trained} less that of {base}, on the same seeds; {INTERVAL}"]
    return TextTable("The difference", heads, rows, notes, 2)


def _with_ends(record: Mapping[str, Any], mean: str, low: str, high: str) -> str:
    if record.get(mean) is None:
        return NONE
    if record.get("is_exact") and mean == "value":
        return f"{number_cell(record[mean])} (exact)"
    return f"{number_cell(record[mean])} ({number_cell(record[low])} to {number_cell(record[high])})"


def _verdict(base: str, trained: str, record: Mapping[str, Any]) -> str:
    """Who is better, by the narrower of the two intervals."""
    is_adjusted = record.get("adjusted") is not None
    low = record["adjusted_low" if is_adjusted else "low"]
    high = record["adjusted_high" if is_adjusted else "high"]
    if low > 0:
        return f"{trained} is better"
    if high < 0:
        return f"{base} is better"
    return "equal" if low == high == 0 else "undecided"


def cost_table(records: Sequence[Mapping[str, Any]]) -> TextTable:
    """Tokens and invalid replies of each policy."""
    rows = [
        [
            record["game"],
            record["against"],
            record["policy"],
            NONE if record["tokens"] is None else f"{record['tokens']:.1f}",
            NONE
            if record["tokens_per_point"] is None
            else f"{record['tokens_per_point']:.1f}",
            percent(record["invalid"]),
            str(record["num_lost"]),
        ]
        for record in records
        if record["role"] in ("trained", "base")
    ]
    heads = ["game", "against", "policy", "tokens", "per point", "invalid", "lost"]
    notes = [
        "tokens of replies in an episode; per point: tokens / (return - return of random play)"
    ]
    return TextTable("What it costs", heads, rows, notes, 3)


class Candidate(NamedTuple):
    """An episode, and what may make its replay worth seeing.

    Attributes:
        line: the episode.
        regret: the largest of a turn; 0 where it is unknown.
        regret_turn: the number of that turn.
        surprise: standard deviations of the first seat's return from the mean of its lineup.
        mean: that mean.
    """

    line: Recorded
    regret: float
    regret_turn: int
    surprise: float
    mean: float

    @property
    def num_turns(self) -> int:
        """Turns of all seats."""
        return len(self.line.rollout.episode.turns)


class Criterion(NamedTuple):
    """How much a replay is worth seeing, and the words that say why."""

    worth: Callable[[Candidate], float]
    reason: Callable[[Candidate], str]


REGRET = Criterion(
    lambda c: c.regret,
    lambda c: f"largest regret: {c.regret:.3g} at turn {c.regret_turn}",
)
LENGTH = Criterion(lambda c: c.num_turns, lambda c: f"longest: {c.num_turns} turns")
SURPRISE = Criterion(
    lambda c: c.surprise,
    lambda c: (
        f"surprising: player_0 got {c.line.rollout.episode.returns[0]:.3g}, on average "
        f"{c.mean:.3g}"
    ),
)


def replays_worth_seeing(
    recorded: Sequence[Recorded], policies: Sequence[str]
) -> list[Recorded]:
    """At most five episodes, whose source says why: regret, length, surprise.

    Args:
        recorded: all episodes.
        policies: names of those whose regrets count.
    """
    candidates = _candidates(recorded, policies)
    replays: dict[Hashable, Recorded] = {}
    # the order of the page
    for criterion in (REGRET, LENGTH, SURPRISE, REGRET, SURPRISE):
        unused = [c for c in candidates if _play_key(c.line) not in replays]
        best = max(unused, key=criterion.worth, default=None)
        if best is not None and criterion.worth(best) > 0:
            source = criterion.reason(best)
            replays[_play_key(best.line)] = best.line._replace(source=source)
    return [*replays.values()]


def _play_key(line: Recorded) -> Hashable:
    """Equal for episodes that look alike: the game, its seed and all replies."""
    episode = line.rollout.episode
    return episode.game, episode.seed, tuple(turn.reply for turn in episode.turns)


def _candidates(
    recorded: Sequence[Recorded], policies: Sequence[str]
) -> list[Candidate]:
    """The episodes that were not lost, with regrets where the game can be solved."""
    lines = [line for line in recorded if [*without_lost([line.rollout.episode])]]
    returns: dict[tuple[str, str], list[float]] = defaultdict(list)
    for line in lines:
        returns[_lineup_key(line)].append(line.rollout.episode.returns[0])
    solver, candidates = MoveSolver(), []
    for place, line in enumerate(lines):
        values = returns[_lineup_key(line)]
        mean, deviation = fmean(values), pstdev(values)
        distance = abs(line.rollout.episode.returns[0] - mean)
        regrets = _regrets(solver, line, policies) if place < MAX_SOLVED else [0.0]
        regret = max(regrets, default=0.0)
        candidates.append(
            Candidate(
                line=line,
                regret=regret,
                regret_turn=regrets.index(regret) if regrets else 0,
                surprise=distance / deviation if deviation else 0.0,
                mean=mean,
            )
        )
    return candidates


def _lineup_key(line: Recorded) -> tuple[str, str]:
    episode = line.rollout.episode
    return f"{episode.game} {dict(episode.params)}", str(policies_of(episode))


def _regrets(
    solver: MoveSolver, line: Recorded, policies: Sequence[str]
) -> list[float]:
    """The regret of each turn of these policies; 0 for other turns, and where it is unknown."""
    episode = line.rollout.episode
    frames = frames_of(episode)
    solved = solver.solve(frames.game, episode.turns, frames.states)
    return [
        moves.regret
        if moves is not None and moves.regret is not None and turn.policy in policies
        else 0.0
        for turn, moves in zip(episode.turns, solved.turns, strict=True)
    ]
