"""Selectors by the returns of episodes: `wins`, `best_of_group`, `outcome_pairs`."""

import math
from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from arena_envs.game import AnyGame, bounds_of, check_bool, check_number
from arena_trainers.data.arguments import Policies, check_share, seeded_integer
from arena_trainers.data.recorded_play import (
    RecordedTrajectory,
    completions,
    conversations,
    games_of,
    have_same_prompt,
    is_legal,
    pieces_of,
    recorded_trajectories,
    row_facts,
    rules_key,
)
from arena_trainers.data.rows import Completion, Dropped, Pair
from arena_wrappers import Episode


class _Scored(NamedTuple):
    """A trajectory with its R of `best_of_group`, and a draw that decides between equal R."""

    score: float
    lot: int
    trajectory: RecordedTrajectory


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
    seats = recorded_trajectories(episodes, policies)
    games = games_of(episodes)
    limit = 0.0 if above is None else above
    check_number("above", limit)
    if top is None:
        selected = [trajectory for trajectory in seats if trajectory.value > limit]
        reason = f"return above {limit:g}"
        reason_to_drop = f"return not above {limit:g}"
    else:
        selected = _top_of_each_seat(seats, top, seed)
        reason = f"top {top:.0%} of the seat"
        reason_to_drop = f"below the top {top:.0%}"
    if len(selected) < len(seats):
        yield Dropped(reason_to_drop, len(seats) - len(selected))
    for trajectory in selected:
        share = _share(trajectory, games[rules_key(trajectory.episode)])
        yield from completions(trajectory, reason, share if weighted else 1.0)


def _top_of_each_seat(
    seats: Sequence[RecordedTrajectory], top: float, seed: int
) -> list[RecordedTrajectory]:
    """The share of the highest returns of each game and seat."""
    pools: dict[Hashable, list[RecordedTrajectory]] = {}
    for trajectory in seats:
        pools.setdefault(_pool_key(trajectory), []).append(trajectory)
    selected: list[RecordedTrajectory] = []
    for pool in pools.values():
        pool.sort(key=lambda trajectory: (-trajectory.value, _lot(trajectory, seed)))
        selected += pool[: math.ceil(top * len(pool))]
    return selected


def _pool_key(trajectory: RecordedTrajectory) -> Hashable:
    """The game with its parameters, and the seat."""
    return (*rules_key(trajectory.episode), trajectory.seat)


def _lot(trajectory: RecordedTrajectory, seed: int) -> int:
    """Decides between equal returns."""
    replies = [turn.reply for turn in trajectory.turns]
    return seeded_integer(seed, trajectory.start, trajectory.episode.sample, replies)


def _share(trajectory: RecordedTrajectory, game: AnyGame) -> float:
    """The return on the scale from the game's lowest (0) to its highest return (1)."""
    low, high = bounds_of(game)
    return (trajectory.value - low) / (high - low)


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
    pools: dict[Hashable, list[_Scored]] = {}
    seats = recorded_trajectories(episodes, policies)
    for _, members in groupby(seats, attrgetter("start")):
        group = list(members)
        if len(group) == 1:
            yield Dropped("the only episode of its start")
            continue
        game = games[rules_key(group[0].episode)]
        scored = _scored(group, game, lambda_tokens, seed)
        best = max(scored, key=attrgetter("score", "lot"))
        pools.setdefault(_pool_key(best.trajectory), []).append(best)
        yield Dropped("not the best of its group", len(group) - 1)
    for pool in pools.values():
        ranked = sorted(pool, key=attrgetter("score", "lot"), reverse=True)
        selected = ranked[: math.ceil(top * len(pool))]
        for score, _, trajectory in selected:
            if score > above:
                yield from completions(trajectory, "best of its group")
            else:
                yield Dropped(f"best of its group, with R not above {above:g}")
        if len(selected) < len(pool):
            yield Dropped(f"group below the top {top:.0%}", len(pool) - len(selected))


def _scored(
    group: Sequence[RecordedTrajectory], game: AnyGame, lambda_tokens: float, seed: int
) -> list[_Scored]:
    """Each trajectory of a group with its R, and a draw that decides between equal ones."""
    costs = [_num_tokens(trajectory) if lambda_tokens else 0 for trajectory in group]
    highest_cost = max(costs) or 1
    scored = []
    for trajectory, cost in zip(group, costs, strict=True):
        score = _share(trajectory, game) - lambda_tokens * cost / highest_cost
        scored.append(_Scored(score, _lot(trajectory, seed), trajectory))
    return scored


def _num_tokens(trajectory: RecordedTrajectory) -> int:
    for turn in trajectory.turns:
        if turn.token_ids is None:
            raise ValueError(
                f"a turn of {turn.policy!r} in {trajectory.episode.game!r}, seed "
                f"{trajectory.episode.seed}, has no tokens; play with a policy that reports them, "
                "name others in policies, or set lambda_tokens to 0"
            )
    return sum(len(turn.token_ids or ()) for turn in trajectory.turns)


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
    groups: dict[Hashable, list[RecordedTrajectory]] = {}
    for trajectory in recorded_trajectories(episodes, policies):
        prompt = tuple(message["content"] for message in trajectory.turns[0].messages)
        groups.setdefault((trajectory.start, prompt), []).append(trajectory)
    for group in groups.values():
        if len(group) == 1:
            yield Dropped("no other episode with its first prompt")
            continue
        best = max(
            group, key=lambda trajectory: (trajectory.value, _lot(trajectory, seed))
        )
        for worse in group:
            if worse is best:
                continue
            if best.value - worse.value > margin:
                yield _pair(best, worse)
            else:
                yield Dropped(f"return not more than {margin:g} below the best")


def _pair(best: RecordedTrajectory, worse: RecordedTrajectory) -> Pair | Dropped:
    """Two conversations, or the first turn in which two trajectories differ."""
    better_turns = next(conversations(best.turns))
    worse_turns = next(conversations(worse.turns))
    reason = "better and worse conversation of one start"
    if len(better_turns) < len(best.turns) or len(worse_turns) < len(worse.turns):
        # prompts that show one state: turns are compared, not conversations
        for better_turn, worse_turn in zip(best.turns, worse.turns, strict=False):
            same_prompt = have_same_prompt(better_turn, worse_turn)
            if better_turn.reply != worse_turn.reply or not same_prompt:
                break
        else:
            return Dropped("both say the same")
        if not same_prompt:
            return Dropped("their prompts differ before their replies do")
        better_turns, worse_turns = [better_turn], [worse_turn]
        reason = "first different turns of one start"
    if not any(map(is_legal, better_turns)):
        return Dropped("the better reply was refused")
    if [turn.reply for turn in better_turns] == [turn.reply for turn in worse_turns]:
        return Dropped("both say the same")
    if not have_same_prompt(better_turns[0], worse_turns[0]):
        return Dropped("their prompts have different tokens")
    return Pair(
        **row_facts(best.episode, better_turns[0], reason),
        chosen=pieces_of(better_turns),
        rejected=pieces_of(worse_turns, lambda turn: True),
        margin=best.value - worse.value,
    )
