"""Selectors by name, what they choose, and episodes that are held out."""

import inspect
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from arena_envs.game import check_int
from arena_envs.registry import Registry
from arena_envs.trust import named_only
from arena_trainers.data.arguments import seeded_integer
from arena_trainers.data.recorded_play import games_of, rules_key
from arena_trainers.data.rows import AnyRow, Completion, Dropped, Pair, Row, content_of
from arena_trainers.data.turns import want_episodes
from arena_wrappers import Episode, without_lost
from arena_wrappers.play import readable_episode
from arena_wrappers.records import is_unreadable

SelectorOutput = Iterable[AnyRow | Dropped]
_RESERVED = ("episodes", "seed")  # arguments of a selector that are no options
_MODULES = {  # of `built_in`, with their selectors
    "returns": ("wins", "best_of_group", "outcome_pairs"),
    "solver": ("solver_replies", "solver_labels"),
    "mixture": ("mixed",),
    "branches": ("branch_pairs",),
    "verdicts": ("feedback_pairs", "rule_labels"),
    "judge": ("judged_pairs",),
    "revisions": ("revisions",),
}
selectors: Registry[SelectorOutput] = Registry(
    "selector",
    "arena.selectors",
    {
        name: f"arena_trainers.data.built_in.{module}:{name}"
        for module, names in _MODULES.items()
        for name in names
    },
    reserved=_RESERVED,
    kit="arena_trainers.data.testing:check_selector",
)


@dataclass(frozen=True)
class Selection:
    """Rows that a selector chose.

    Attributes:
        rows: of one kind, in an order that does not depend on that of the episodes.
        num_merged: rows that were the same as another one, and are now part of it.
        dropped: how many episodes of a seat, or turns, were not chosen, by reason.
    """

    rows: Sequence[AnyRow]
    num_merged: int
    dropped: Mapping[str, int]


def run_selector(
    name: str, episodes: Sequence[Episode], seed: int, options: Mapping[str, Any]
) -> SelectorOutput:
    """Yields what a selector yields, as it comes.

    Raises:
        ValueError: an unknown selector or option, or a missing one.
        ImportError: the selector's plug-in cannot be imported.
    """
    expression = selectors.read(name)
    spec = {expression.name: {**expression.options, **options}}
    return selectors.make(spec, episodes=episodes, seed=seed)


def select(
    name: str,
    episodes: Sequence[Episode],
    /,
    *,
    seed: int = 0,
    allow_code: bool = False,
    **options: Any,
) -> Selection:
    """Chooses rows to train on from recorded episodes.

    Equal rows of one start (game and seed), seat and turn are merged: weights add up, the margin
    of a pair is the mean. Equal rows of different seeds stay, because it matters how often
    chance leads to a state.

    Args:
        name: of the selector, or an expression such as `"wins(top=0.2)"`.
        episodes: the records, in any order. `Episode.parent` counts them from 0. Lost ones
            give no rows.
        seed: of the selector's draws.
        allow_code: whether the records may name code and files, as for
            `arena_wrappers.play.game_of`.
        **options: of the selector.

    Raises:
        NotTrusted: a record names code or a file.
        ValueError: an unknown selector, option or game; rows of more than one kind.
        ImportError: the selector's plug-in cannot be imported.
        TypeError: `episodes` is no list, or the selector yields something else than rows.

    >>> from arena_wrappers import play
    >>> found = select("wins", play("kuhn_poker", "random", [0]))
    >>> {row.reason for row in found.rows}, dict(found.dropped)
    ({'return above 0'}, {'return not above 0': 1})
    """
    check_int("seed", seed, 0, 2**63)
    want_episodes(episodes)
    if allow_code:
        with named_only(allow_code=True):
            return select(name, episodes, seed=seed, **options)
    games = games_of(episodes)  # raises at an unknown one
    episodes = [
        readable_episode(episode, games[rules_key(episode)]) for episode in episodes
    ]
    played = without_lost(episodes)
    rows: dict[tuple[Any, ...], list[AnyRow]] = {}
    dropped: Counter[str] = Counter()
    for episode in filter(is_unreadable, episodes):
        dropped[f"the episode of seed {episode.seed} is lost: {episode.lost:.300}"] += 1
    num_lost = _num_lost([e for e in episodes if not is_unreadable(e)])
    if num_lost:
        dropped["the episode is lost"] = num_lost
    for entry in run_selector(name, played, seed, options):
        if isinstance(entry, Row):
            rows.setdefault(content_of(entry), []).append(entry)
        elif isinstance(entry, Dropped):
            dropped[entry.reason] += entry.num
        else:
            raise TypeError(f"selector {name!r}: want rows, got {entry!r:.60}")
    kinds = sorted({key[0] for key in rows})
    if len(kinds) > 1:
        raise ValueError(
            f"selector {name!r}: want rows of one kind, got {' and '.join(kinds)}"
        )
    merged = [_merged(rows[key]) for key in sorted(rows)]
    num_merged = sum(map(len, rows.values())) - len(merged)
    return Selection(merged, num_merged, dropped)


def _num_lost(episodes: Sequence[Episode]) -> int:
    """The lost episodes without a later one of the same start and the same players."""
    num_lost = 0
    later: dict[str, list[dict[int, str]]] = {}
    for episode in reversed(episodes):
        start = [
            episode.game,
            episode.params,
            episode.max_turns,
            episode.prompt,
            episode.seed,
            episode.sample,
            episode.parent,
        ]
        players = {turn.seat: turn.policy for turn in episode.turns}
        later_players = later.setdefault(json.dumps(start, default=str), [])
        if episode.lost is None:
            later_players.append(players)
        elif not any(_may_be_equal(players, others) for others in later_players):
            num_lost += 1
    return num_lost


def _may_be_equal(players: Mapping[int, str], others: Mapping[int, str]) -> bool:
    """True if no seat has two policies; a lost episode names only those who had a turn."""
    return all(others.get(seat, name) == name for seat, name in players.items())


def _merged(equal_rows: Sequence[AnyRow]) -> AnyRow:
    """One row for several with the same content."""
    first = min(equal_rows, key=lambda row: (row.sample, row.reason))
    if isinstance(first, Pair):
        margins = sorted(row.margin for row in equal_rows if isinstance(row, Pair))
        return replace(first, margin=sum(margins) / len(margins))
    weights = sorted(row.weight for row in equal_rows if isinstance(row, Completion))
    return replace(first, weight=sum(weights))


def held_out(
    episodes: Sequence[Episode], share: float
) -> tuple[list[Episode], list[Episode]]:
    """The episodes to train on, and those that are held out, by their seeds.

    A seed is on the same side in every call with the same share, whatever the game; a higher
    share holds out further ones.

    Args:
        episodes: `Episode.parent` counts them from 0.
        share: of the seeds to hold out, 0 to 1.
    """
    if not 0 <= share < 1:
        raise ValueError(f"want a share of at least 0 and below 1, got {share}")
    train: list[Episode] = []
    test: list[Episode] = []
    places: list[int] = []  # of each episode on its side
    for episode in episodes:
        is_held_out = seeded_integer(0, "held out", episode.seed) < share * 2**63
        side = test if is_held_out else train
        places.append(len(side))
        side.append(episode)
    for side in (train, test):
        for number, episode in enumerate(side):
            if episode.parent is not None and episode.parent < len(places):
                side[number] = replace(episode, parent=places[episode.parent])
    return train, test


def described() -> list[tuple[str, str, str]]:
    """Name, options with defaults, and first line of the docstring of each selector."""
    rows = []
    for name in selectors.names():
        if name not in selectors.built_in:
            rows.append((name, "", "a plug-in"))
            continue
        selector = selectors.find(name)
        parameters = inspect.signature(selector).parameters.values()
        options = [
            option.name
            if option.default is option.empty
            else f"{option.name}={option.default}"
            for option in parameters
            if option.name not in _RESERVED
        ]
        summary = (inspect.getdoc(selector) or "").partition("\n")[0]
        rows.append((name, ", ".join(options), summary))
    return rows
