"""Selectors by the returns of episodes: `wins`, `best_of_group`, `outcome_pairs`."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from arena_envs.game import AnyGame, bounds_of, check_bool, check_number
from arena_trainers.data.arguments import Policies, check_share, draw
from arena_trainers.data.recorded_play import (
    Trajectory,
    completions,
    conversations,
    facts_of,
    games_of,
    have_same_prompt,
    is_legal,
    pieces_of,
    rules_key,
    trajectories,
)
from arena_trainers.data.rows import Completion, Dropped, Pair
from arena_wrappers import (
    Episode,
)

_Scored = tuple[float, int, Trajectory]


def wins(
    episodes: Sequence[Episode],
    *,
    seed: int,
    above: float | None = None,
    top: float | None = None,
    weighted: bool = False,
    policies: Policies = None,
) -> Iterator[Completion | Dropped]:
    """The legal replies of seats with a high return.

    Rejection sampling as in SiriuS (https://arxiv.org/abs/2502.04780): each role learns its own
    turns of good episodes. `weighted=True` is the loss of AgentEvol
    (https://arxiv.org/abs/2406.04151), the reward times the log-likelihood; `above=-inf` then
    takes all episodes. Differences: SiriuS also repairs failed episodes with the help of the
    answer, which a game does not have. AgentEvol begins with cloning of expert episodes: pass
    those first.

    Args:
        episodes: the records.
        seed: of the draw among equal returns at the limit of `top`.
        above: the return must be above this; 0 by default. In a shell, `-o above=-.inf` takes
            all.
        top: in place of `above`: share of the seats of one game and seat to take, 0 to 1.
        weighted: whether the weight is the return on the game's scale from 0 to 1.
        policies: names of those who learn; None for all.
    """
    if above is not None and top is not None:
        raise ValueError("want above or top, got both; leave one out")
    check_bool("weighted", weighted)
    if top is not None:
        check_share("top", top)
    found = trajectories(episodes, policies)
    games = games_of(episodes)
    limit = 0.0 if above is None else above
    check_number("above", limit)
    kept = [one for one in found if one.value > limit]
    reason, missed = f"return above {limit:g}", f"return not above {limit:g}"
    if top is not None:
        pools: dict[Any, list[Trajectory]] = {}
        for one in found:
            pools.setdefault((*rules_key(one.episode), one.seat), []).append(one)
        kept = []
        for pool in pools.values():
            pool.sort(key=lambda one: (-one.value, _lot(one, seed)))
            kept += pool[: math.ceil(top * len(pool))]
        reason, missed = f"top {top:.0%} of the seat", f"below the top {top:.0%}"
    if len(kept) < len(found):
        yield Dropped(missed, len(found) - len(kept))
    for one in kept:
        share = _share(one, games[rules_key(one.episode)])
        yield from completions(one, reason, share if weighted else 1.0)


def _lot(one: Trajectory, seed: int) -> int:
    """Decides between equal returns."""
    replies = [turn.reply for turn in one.turns]
    return draw(seed, one.start, one.episode.sample, replies)


def _share(one: Trajectory, game: AnyGame) -> float:
    """The return on the scale from the game's lowest (0) to its highest return (1)."""
    low, high = bounds_of(game)
    return (one.value - low) / (high - low)


def best_of_group(
    episodes: Sequence[Episode],
    *,
    seed: int,
    above: float = 0.0,
    top: float = 0.7,
    lambda_tokens: float = 0.6,
    policies: Policies = None,
) -> Iterator[Completion | Dropped]:
    """The best trajectory of each group: a high return with few tokens.

    Optima's iSFT (https://arxiv.org/abs/2410.08115), with the numbers of its code: the best of
    a group by R = return - 0.6 tokens / (most tokens of the group), then the best 70 % of these,
    if R is high enough. Differences: the return is on the game's scale from 0 to 1, as Optima's
    is. Tokens and returns are those of one seat, so that it also serves competitive games. R lacks
    the third term, 1 / (loss of the base model on the worst message), which keeps messages
    readable: a record does not have this loss.

    Args:
        episodes: the records, with several samples of each seed.
        seed: of the draw among equal R.
        above: R must be above this.
        top: share of the groups of a game and seat to take, 0 to 1.
        lambda_tokens: cost of the tokens; 0 for records without tokens.
        policies: names of those who learn; None for all.

    Raises:
        ValueError: a reply has no tokens though they cost something.
    """
    check_share("top", top)
    check_number("above", above)
    check_number("lambda_tokens", lambda_tokens, 0)
    games = games_of(episodes)
    pools: dict[Any, list[_Scored]] = {}
    found = trajectories(episodes, policies)
    for group in ([*same] for _, same in groupby(found, attrgetter("start"))):
        if len(group) == 1:
            yield Dropped("the only episode of its start")
            continue
        game = games[rules_key(group[0].episode)]
        best = max(_scored(group, game, lambda_tokens, seed), key=itemgetter(0, 1))
        pools.setdefault((*rules_key(best[2].episode), best[2].seat), []).append(best)
        yield Dropped("not the best of its group", len(group) - 1)
    for pool in pools.values():
        ranked = sorted(pool, key=itemgetter(0, 1), reverse=True)
        kept = ranked[: math.ceil(top * len(pool))]
        for score, _, one in kept:
            if score > above:
                yield from completions(one, "best of its group")
            else:
                yield Dropped(f"best of its group, with R not above {above:g}")
        if len(kept) < len(pool):
            yield Dropped(f"group below the top {top:.0%}", len(pool) - len(kept))


def _scored(
    group: Sequence[Trajectory], game: AnyGame, lambda_tokens: float, seed: int
) -> list[_Scored]:
    """Each trajectory of a group with its R, and a draw that decides between equal ones."""
    costs = [_num_tokens(one) if lambda_tokens else 0 for one in group]
    most = max(costs) or 1
    return [
        (_share(one, game) - lambda_tokens * cost / most, _lot(one, seed), one)
        for one, cost in zip(group, costs, strict=True)
    ]


def _num_tokens(one: Trajectory) -> int:
    for turn in one.turns:
        if turn.token_ids is None:
            raise ValueError(
                f"a turn of {turn.policy!r} in {one.episode.game!r}, seed "
                f"{one.episode.seed}, has no tokens; play with a policy that reports them, "
                "name others in policies, or set lambda_tokens to 0"
            )
    return sum(len(turn.token_ids or ()) for turn in one.turns)


def outcome_pairs(
    episodes: Sequence[Episode],
    *,
    seed: int,
    margin: float = 0.0,
    policies: Policies = None,
) -> Iterator[Pair | Dropped]:
    """The best episode of a start and seat over each worse one.

    ETO (https://arxiv.org/abs/2403.02502): trajectories of one task with different rewards are
    a pair, and the loss counts the tokens of all turns. ETO pairs an agent's failure with an
    expert's success, its code also the other way round: pass episodes of both at the same seeds.
    Differences: refused replies of the better episode do not count. Where prompts show one state
    and are no conversation, the pair is the first turn in which the replies differ. Other
    seats and chance play on from there, which adds noise to the margin.

    Args:
        episodes: the records, with several episodes of each seed.
        seed: of the draw among equal returns.
        margin: the returns must differ by more than this.
        policies: names of those who learn; None for all.
    """
    check_number("margin", margin, 0)
    groups: dict[Any, list[Trajectory]] = {}
    for one in trajectories(episodes, policies):
        first = tuple(message["content"] for message in one.turns[0].messages)
        groups.setdefault((one.start, first), []).append(one)
    for group in groups.values():
        if len(group) == 1:
            yield Dropped("no other episode with its first prompt")
            continue
        best = max(group, key=lambda one: (one.value, _lot(one, seed)))
        for worse in group:
            if worse is best:
                continue
            if best.value - worse.value > margin:
                yield _pair(best, worse)
            else:
                yield Dropped(f"return not more than {margin:g} below the best")


def _pair(best: Trajectory, worse: Trajectory) -> Pair | Dropped:
    """Two conversations, or the first turn in which two trajectories differ."""
    better, other = (next(conversations(one.turns)) for one in (best, worse))
    reason = "better and worse conversation of one start"
    if len(better) < len(best.turns) or len(other) < len(worse.turns):
        pairs = zip(best.turns, worse.turns, strict=False)
        differ = (
            p for p in pairs if p[0].reply != p[1].reply or not have_same_prompt(*p)
        )
        found = next(differ, None)
        if found is None:
            return Dropped("both say the same")
        if not have_same_prompt(*found):
            return Dropped("their prompts differ before their replies do")
        better, other = [found[0]], [found[1]]
        reason = "first different turns of one start"
    if not any(map(is_legal, better)):
        return Dropped("the better reply was refused")
    if [turn.reply for turn in better] == [turn.reply for turn in other]:
        return Dropped("both say the same")
    if not have_same_prompt(better[0], other[0]):
        return Dropped("their prompts have different tokens")
    return Pair(
        **facts_of(best.episode, better[0], reason),
        chosen=pieces_of(better),
        rejected=pieces_of(other, lambda turn: True),
        margin=best.value - worse.value,
    )
