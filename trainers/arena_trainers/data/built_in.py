"""Selectors by what decides: returns, what the rules said, a solver; and a mixture.

| decides | selectors |
|---|---|
| the returns of episodes | `wins`, `best_of_group`, `outcome_pairs` |
| what the rules said of a reply | `feedback_pairs`, `rule_labels` |
| a solver in the states of the episodes | `solver_replies`, `solver_labels` |
| a model that grades replies | `judged_pairs` |
| another selector, and a share of general conversations | `mixed` |
| the replies at the branches of turn trees | `branch_pairs`, `revisions` |
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from operator import attrgetter, itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

import numpy as np

from arena_credit.pools import reply_values
from arena_envs.game import AnyGame, bounds_of, check_bool, check_int, check_number
from arena_trainers.data.rows import (
    GENERAL,
    AnyRow,
    Call,
    Completion,
    Dropped,
    Label,
    Pair,
    Piece,
    Policies,
    Row,
    Said,
    Trajectory,
    calls,
    check_share,
    chosen_policies,
    completions,
    conversations,
    draw,
    facts_of,
    games_of,
    have_same_prompt,
    is_legal,
    pieces_of,
    rules_key,
    trajectories,
)
from arena_trainers.data.selection import run_selector
from arena_wrappers import (
    Episode,
    InvalidReply,
    Message,
    Policy,
    PromptOptions,
    Turn,
    TurnRequest,
    make_policy,
    turn_states,
)
from arena_wrappers.policies import Reply, addressed
from arena_wrappers.policies.agents import add_instruction, fenced
from arena_wrappers.prompts import after_reasoning, seat_options

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


def feedback_pairs(
    episodes: Sequence[Episode], *, seed: int, policies: Policies = None
) -> Iterator[Pair | Dropped]:
    """A legal reply over a refused one at the same prompt.

    Environment Preference Optimization, EPO (https://arxiv.org/abs/2408.16090): the
    environment's feedback orders two replies at one state. The legal reply is that of another
    sample, or the one that the seat gave when it was asked again. Differences: EPO trains a reward
    model on feedback, to order replies that were not played; here the rules' own verdict orders
    played ones.

    Args:
        episodes: the records.
        seed: of the draw among the legal replies at a prompt.
        policies: names of those who learn; None for all.
    """
    legal: dict[Any, list[Turn]] = {}
    refused: dict[Any, list[tuple[Trajectory, Turn]]] = {}
    for one in trajectories(episodes, policies):
        open_keys: list[Any] = []  # of refused replies that wait for a legal one
        for turn in one.turns:
            texts = tuple(message["content"] for message in turn.messages)
            role = getattr(turn, "role", "")
            key = (one.start, turn.policy, role, texts)
            if not is_legal(turn):
                refused.setdefault(key, []).append((one, turn))
                open_keys = [*open_keys, key] if turn.action is None else []
                continue
            for asked in (key, *(other for other in open_keys if other[2] == role)):
                legal.setdefault(asked, []).append(turn)
            open_keys = [other for other in open_keys if other[2] != role]
    untouched = sum(len(turns) for key, turns in legal.items() if key not in refused)
    if untouched:
        yield Dropped("nothing was refused at its prompt", untouched)
    for key, replies in refused.items():
        if key not in legal:
            yield Dropped("no legal reply at its prompt", len(replies))
            continue
        for one, turn in replies:
            lot = draw(seed, key, one.episode.sample, turn.reply)
            better = legal[key][lot % len(legal[key])]
            if better.reply == turn.reply:  # what is legal depends on what is hidden
                yield Dropped("the same reply was legal and refused at its prompt")
                continue
            yield Pair(
                **facts_of(one.episode, turn, "legal over refused"),
                chosen=pieces_of([better]),
                rejected=pieces_of([turn], lambda turn: True),
            )


def rule_labels(
    episodes: Sequence[Episode],
    *,
    seed: int,
    min_reward: float | None = None,
    policies: Policies = None,
) -> Iterator[Label | Dropped]:
    """Every turn with the rules' verdict: good if it is legal and costs nothing.

    STEVE (https://arxiv.org/abs/2503.12532) labels every step as right or wrong, for KTO. Differences:
    its judge is a large model that sees the screen before and after the step. Here, a rule
    judges, which knows nothing of good play; `solver_labels` does. With `min_reward`, a last
    turn that loses the game is bad, whether it was at fault or not.

    Args:
        episodes: the records.
        seed: not used.
        min_reward: a legal turn with a lower reward is bad; None: every legal turn is good.
        policies: names of those who learn; None for all.
    """
    if min_reward is not None:
        check_number("min_reward", min_reward)
    for one in trajectories(episodes, policies):
        for turn in one.turns:
            label, reason = is_legal(turn), "legal"
            if not label:
                reason = "refused"
            elif min_reward is not None:
                label = turn.reward >= min_reward
                side = "at least" if label else "below"
                reason = f"legal, reward {side} {min_reward:g}"
            facts = facts_of(one.episode, turn, reason)
            said = pieces_of([turn], lambda turn: True)
            yield Label(**facts, completion=said, label=label)


class Asked(NamedTuple):
    """A turn of the record, as a question to the solver."""

    episode: Episode
    turn: Turn
    request: TurnRequest
    options: PromptOptions


def solver_replies(
    episodes: Sequence[Episode],
    *,
    seed: int,
    solver: str | Policy,
    policies: Policies = None,
) -> Iterator[Completion | Dropped]:
    """The replies of a solver in the states that a policy visited.

    DAgger (https://arxiv.org/abs/1011.0686): an expert labels the states of the learner.
    Kickstarting (https://arxiv.org/abs/1803.03835) compares with a teacher in these states. The cold
    start of DGPO (https://arxiv.org/abs/2508.20324) learns the teacher's own play: pass episodes of
    the solver. Differences: DAgger plays a mixture of expert and learner; mix the episodes for
    that. Kickstarting and DGPO then keep the teacher in the loss of reinforcement learning, which
    no data set holds. Of a solver that draws its actions, a row has one draw.

    Args:
        episodes: the records.
        seed: of the solver's draws.
        solver: a policy or its string, such as `"cfr"` or `"minimax"`.
        policies: names of those who learn; None for all.

    Raises:
        ValueError: the solver gives no reply.
    """
    teacher = _teacher(solver)
    asked = _asked(episodes, seed, policies)
    told = [addressed(one.request, teacher) for one in asked]
    for one, reply in zip(asked, teacher.act(told) if told else (), strict=True):
        if reply.error is not None:
            raise ValueError(f"{teacher.name} gave no reply: {reply.error}")
        game, state = one.request.game, one.request.state
        read = one.options.parse(game, state, reply.text, one.request.legal)
        if isinstance(read, InvalidReply):
            yield Dropped("the solver's reply is no legal action")
            continue
        # of an agent, the generation that moved
        moved = (call for call in calls(one.turn)[::-1] if call.reply == one.turn.reply)
        turn, same = next(moved, one.turn), reply.text == one.turn.reply
        said = Said(reply.text, turn.token_ids if same else None)
        facts = facts_of(one.episode, turn, f"reply of {teacher.name}")
        yield Completion(**facts, completion=[said])


def solver_labels(
    episodes: Sequence[Episode],
    *,
    seed: int,
    solver: str | Policy,
    at_least: float = 0.1,
    policies: Policies = None,
) -> Iterator[Label | Dropped]:
    """Every turn with a solver's verdict: good if the solver would play it.

    StepAgent (https://arxiv.org/abs/2411.03817) compares the agent's action with an expert's in each step;
    STEVE (https://arxiv.org/abs/2503.12532) labels steps for KTO. Differences: StepAgent turns the
    comparison into a reward, implicit or by inverse reinforcement learning. Here it is a label.
    Refused replies are bad. In language games the message is part of the action.

    Args:
        episodes: the records.
        seed: of the draws of a solver without action probabilities.
        solver: a policy or its string, such as `"cfr"` or `"minimax"`.
        at_least: an action is good if the solver plays it with this share, or more, of the
            probability of its most likely action, 0 to 1. A solver that reports no
            probabilities must take the same action.
        policies: names of those who learn; None for all.
    """
    check_share("at_least", at_least)
    teacher: Any = _teacher(solver)
    asked = _asked(episodes, seed, policies)
    legal = [one for one in asked if is_legal(one.turn)]
    good = _good(teacher, legal, at_least) if legal else []
    verdicts = {id(one.turn): label for one, label in zip(legal, good, strict=True)}
    for one in asked:
        label = verdicts.get(id(one.turn), False)
        reason = f"{teacher.name} plays it" if label else f"{teacher.name} avoids it"
        if not is_legal(one.turn):
            reason = "refused"
        for turn in calls(one.turn):
            facts = facts_of(one.episode, turn, reason)
            said = pieces_of([turn], lambda turn: True)
            yield Label(**facts, completion=said, label=label)


def _teacher(solver: str | Policy) -> Policy:
    if isinstance(solver, str):
        return make_policy(solver)
    if not hasattr(solver, "act"):
        raise ValueError(f"want solver as a policy such as cfr, got {solver!r:.60}")
    return solver


def _good(teacher: Any, asked: Sequence[Asked], at_least: float) -> list[bool]:
    """True for each turn whose action the solver would play."""
    told = [addressed(one.request, teacher) for one in asked]
    played = [_canonical(one, one.turn.action) for one in asked]
    if hasattr(teacher, "action_probs"):
        found = teacher.action_probs(told)
        return [
            text in one.request.legal
            and probs[list(one.request.legal).index(text)] >= at_least * max(probs)
            for one, text, (probs, _) in zip(asked, played, found, strict=True)
        ]
    same = []
    for one, text, reply in zip(asked, played, teacher.act(told), strict=True):
        game, state, legal = one.request.game, one.request.state, one.request.legal
        read = one.options.parse(game, state, reply.text, legal)
        is_action = not isinstance(read, InvalidReply)
        same.append(is_action and text == _canonical(one, read))
    return same


def _canonical(one: Asked, action: Any) -> str:
    """The canonical text of an action, which a record may already hold as text."""
    if isinstance(action, str):
        return action
    return one.request.game.action_text(one.request.state, action)


def _asked(episodes: Sequence[Episode], seed: int, policies: Policies) -> list[Asked]:
    """The turns of the policies that learn, with the states in which they were taken."""
    wanted = chosen_policies(episodes, policies)
    games = games_of(episodes)
    found = []
    for number, episode in enumerate(episodes):
        game = games[rules_key(episode)]
        options = {
            turn.seat: seat_options(episode.prompt, turn.seat)
            for turn in episode.turns
            if turn.policy in wanted
        }
        if not options:
            continue
        for turn, state in zip(episode.turns, turn_states(episode, game), strict=True):
            if turn.policy not in wanted:
                continue
            facts = (seed, episode.seed, episode.sample, turn.seat, turn.index)
            request = TurnRequest(
                number,
                turn.index,
                turn.seat,
                game,
                state,
                turn.messages,
                (),
                turn.legal,
                draw(*facts),
                options[turn.seat].reply_format,
                date=options[turn.seat].date,
            )
            found.append(Asked(episode, turn, request, options[turn.seat]))
    return found


GRADING = (
    "Do not act now. Grade this reply to the above:\n{}\nAdd 1 point for each that holds: it names one "
    "action; the action is allowed; it is to the point; it is better than most others; none is "
    "better. Say why in a sentence, then end with the sum, from 0 to 5."
)
_GRADE = re.compile(r"(?<![\w./])(?<!of )[0-5](?:\.\d{1,9})?(?!\.?\w)")
AT_ONCE = 256  # grades that a judge is asked for


def judged_pairs(
    episodes: Sequence[Episode],
    *,
    seed: int,
    judge: str | Policy,
    num_grades: int = 3,
    policies: Policies = None,
) -> Iterator[Pair | Dropped]:
    """The reply to a prompt that a judge grades best over the one that it grades worst.

    Self-Rewarding Language Models (https://arxiv.org/abs/2401.10020), whose judge is the model that
    learns: in rounds `learner`, the default there. Differences: the prompts are those of play, and
    the criteria are for actions. The judge sees what the seat saw, and no outcome. A reply may ask
    the judge for points: it is fenced, but a judge may obey.

    Args:
        episodes: the records, with several replies to a prompt: samples, or turn trees.
        seed: of the judge's draws, and of that among equal grades.
        judge: a policy or its string.
        num_grades: how often each reply is graded; the mean counts.
        policies: names of those who learn; None for all.
    """
    check_int("num_grades", num_grades, 1, 100)
    judging, prompts = _teacher(judge), dict[Any, dict[str, Asked]]()
    found = _asked(episodes, seed, policies)
    for one in sorted(found, key=lambda one: one.request.seed):
        texts = tuple(message["content"] for message in one.turn.messages)
        key = (rules_key(one.episode), one.episode.seed, one.turn.policy, texts)
        prompts.setdefault(key, {}).setdefault(one.turn.reply, one)
    several = [list(one.values()) for one in prompts.values() if len(one) > 1]
    if same := len(prompts) - len(several):
        yield Dropped("all replies to its prompt are the same", same)
    asked = [one for replies in several for one in replies]
    grades = iter(_grades(judging, asked, seed, num_grades))
    for replies in several:
        pairs = [(next(grades), one) for one in replies]
        graded = [(g, draw(seed, o.turn.reply), o) for g, o in pairs if g is not None]
        low, _, worst = min(graded, default=(0.0, 0, None))
        high, _, best = max(graded, default=(0.0, 0, None))
        if best is None or worst is None or high == low:
            yield Dropped("the judge sees no difference, or gave no grades")
            continue
        yield Pair(
            **facts_of(best.episode, best.turn, f"graded by {judging.name}"),
            chosen=pieces_of([best.turn], lambda turn: True),
            rejected=pieces_of([worst.turn], lambda turn: True),
            margin=high - low,
        )


def _grades(
    judge: Policy, asked: Sequence[Asked], seed: int, num: int
) -> Iterator[float | None]:
    """The mean grade of the reply of each turn; None where none can be read."""
    size = max(AT_ONCE // num, 1)
    for start in range(0, len(asked), size):
        requests = []
        for one in asked[start : start + size]:
            prompt = add_instruction(
                GRADING.format(fenced(one.turn.reply)), one.turn.messages
            )
            asks = replace(one.request, messages=prompt, legal=[*"012345"])
            lots = [draw(seed, i, [m["content"] for m in prompt]) for i in range(num)]
            requests += [replace(asks, seed=lot) for lot in lots]
        read = list(map(_grade, judge.act(requests)))
        for first in range(0, len(read), num):
            known = [x for x in read[first : first + num] if x is not None]
            yield fmean(known) if known else None


def _grade(reply: Reply) -> float | None:
    """The last number from 0 to 5, as in "4 of 5"; None without one."""
    if reply.error is not None:
        raise ValueError(f"the judge gave no reply: {reply.error}")
    text = after_reasoning(reply.text)
    found = _GRADE.findall(text) if isinstance(text, str) else ()
    return float(found[-1]) if found and float(found[-1]) <= 5 else None


def mixed(
    episodes: Sequence[Episode],
    *,
    seed: int,
    general: str | Path,
    share: float,
    select: str = "wins",
    **options: Any,
) -> Iterator[AnyRow | Dropped]:
    """The completions of another selector, mixed with general conversations.

    AgentTuning (https://arxiv.org/abs/2310.12823): the loss is share x (episodes) + (1 - share) x
    (general data), which keeps general skills. Difference: the share is one of rows, by weight,
    and not of terms of the loss.

    Args:
        episodes: the records.
        seed: of the draw of the conversations.
        general: file of JSON lines `{"messages": [...]}`, each of which ends with a message of
            the assistant.
        share: of the rows that are of episodes, above 0 and below 1.
        select: name of the other selector.
        **options: of the other selector.

    Raises:
        ValueError: the file has too few conversations, or a line is no conversation.
    """
    check_share("share", share)
    if share == 1:
        raise ValueError("want share below 1, got 1; give the other selector instead")
    if not isinstance(general, str | Path):
        raise ValueError(f"want general as the path of a file, got {general!r:.60}")
    if not Path(general).is_file():
        raise ValueError(
            f"want general as a file of conversations, found none at {str(general)!r}; give "
            'a file of JSON lines such as {"messages": [...]}'
        )
    weight = 0.0
    for entry in run_selector(select, episodes, seed, options):
        if isinstance(entry, Row) and type(entry) is not Completion:
            raise ValueError(
                f"want a selector of completions to mix, got {select!r}; give wins"
            )
        weight += entry.weight if isinstance(entry, Completion) else 0.0
        yield entry
    count = round(weight * (1 - share) / share)
    rows = _general_rows(Path(general)) if count else []
    if len(rows) < count:
        raise ValueError(
            f"want {count} conversations for a share of {share:g}, got {len(rows)} in "
            f"{general}; add some, or raise share"
        )
    rows.sort(key=lambda row: draw(seed, row.seed))
    yield from rows[:count]


def _general_rows(path: Path) -> list[Completion]:
    """A row for each line of a file; its seed is the number of the line."""
    rows = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                messages: list[Message] = json.loads(line)["messages"]
                roles = [message["role"] for message in messages]
                texts = [message["content"] for message in messages]
            except (ValueError, TypeError, KeyError):
                roles, texts = [], []
            if (
                len(roles) < 2
                or roles[-1] != "assistant"
                or not all(isinstance(text, str) for text in texts)
            ):
                raise ValueError(
                    f"{path}, line {number}: want an object with messages that end with "
                    f"one of the assistant, got {line[:60]!r}"
                )
            facts = {"seat": 0, "turn": 0, "seed": number, "sample": 0}
            rows.append(
                Completion(
                    **facts,  # type: ignore[arg-type] # numbers
                    game=GENERAL,
                    policy=GENERAL,
                    reason="general conversation",
                    prompt=messages[:-1],
                    completion=[Said(texts[-1], None)],
                )
            )
    return rows


class Sibling(NamedTuple):
    """A reply at a branch of a turn tree, and its value Q(state, reply).

    Attributes:
        value: mean of what the seat is paid from here on, over the candidates with an equal
            reply in an equal state of all trees.
        low: lower end of the interval of `value`.
        high: upper end.
        size: how many candidates these are.
        lot: decides between equal values, and which candidate stands for its reply.
        episode: the candidate that stands for them.
        turn: its turn at the branch.
    """

    value: float
    low: float
    high: float
    size: int
    lot: int
    episode: Episode
    turn: Turn


class _Candidate(NamedTuple):
    paid: float  # on average over the episodes with this candidate's reply
    lot: int
    episode: Episode
    turn: Turn
    players: tuple[tuple[int, str], ...]

    @property
    def state(self) -> tuple[Any, ...]:
        """The texts that the seat read, and who plays: states with equal ones are equal."""
        texts = tuple((m["role"], m["content"]) for m in self.turn.messages)
        return (*rules_key(self.episode), self.turn.seat, self.players, texts)

    @property
    def reply(self) -> str:
        """The action that the rules read; refused replies are equal, as in the credit."""
        return repr(self.turn.action) if is_legal(self.turn) else ""


def families(
    episodes: Sequence[Episode], seed: int, policies: Policies, level: float = 0.95
) -> list[list[Sibling]]:
    """The different replies at each branch, best first, in an order of their own.

    The episode that branched is no candidate: it may have been chosen for its return.

    Args:
        episodes: `Episode.parent` counts them from 0.
        seed: of the draws.
        policies: names of those who learn; None for all.
        level: of the intervals of values.

    Raises:
        ValueError: a parent is missing.
    """
    wanted = chosen_policies(episodes, policies)
    children: dict[int, list[int]] = {}
    for number, episode in enumerate(episodes):
        if episode.parent is None:
            continue
        if not 0 <= episode.parent < len(episodes):
            raise ValueError(
                f"want episode {episode.parent}, the parent of episode {number}, among "
                f"{len(episodes)} episodes; pass all episodes of a call of play"
            )
        children.setdefault(episode.parent, []).append(number)
    found = []
    players = _players(episodes)
    for parent, numbers in children.items():
        told = episodes, children, players[parent]
        family = [_candidate(*told, number, seed) for number in numbers]
        if family[0].turn.policy in wanted:
            found.append(sorted(family, key=lambda one: one[:2], reverse=True))

    def place(family: Sequence[_Candidate]) -> tuple[object, ...]:
        best = family[0].episode
        samples = sorted(one.episode.sample for one in family)
        return (*rules_key(best), best.seed, best.branch, samples)

    return _valued(sorted(found, key=place), level)


def _players(episodes: Sequence[Episode]) -> list[tuple[tuple[int, str], ...]]:
    """The players of each episode's tree: a short episode lacks those who had no turn."""
    roots = []
    for number, episode in enumerate(episodes):
        while episode.parent is not None:
            number, episode = episode.parent, episodes[episode.parent]
        roots.append(number)
    seats: dict[int, set[tuple[int, str]]] = {}
    for root, episode in zip(roots, episodes, strict=True):
        seats.setdefault(root, set()).update((t.seat, t.policy) for t in episode.turns)
    return [tuple(sorted(seats[root])) for root in roots]


def _candidate(
    episodes: Sequence[Episode],
    children: dict[int, list[int]],
    players: tuple[tuple[int, str], ...],
    number: int,
    seed: int,
) -> _Candidate:
    episode = episodes[number]
    place = episode.branch or 0
    turn = episode.turns[place]
    line, paid = [number], []
    for one in line:  # grows while it is read
        line += children.get(one, [])
        turns = episodes[one].turns[place:]
        paid.append(sum(t.reward for t in turns if t.seat == turn.seat))
    lot = draw(seed, episode.game, episode.seed, episode.sample, turn.reply)
    return _Candidate(sum(sorted(paid)) / len(paid), lot, episode, turn, players)


def _valued(found: Sequence[Sequence[_Candidate]], level: float) -> list[list[Sibling]]:
    """The families with their equal replies merged, each with the value of its state."""
    every = [one for family in found for one in family]
    states: dict[Any, int] = {}
    replies: dict[str, int] = {}
    values = reply_values(
        np.array([one.paid for one in every], float),
        np.array([states.setdefault(one.state, len(states)) for one in every], int),
        np.array([replies.setdefault(one.reply, len(replies)) for one in every], int),
        level,
    )
    columns = (values.mean, values.low, values.high, values.size)
    facts = [*zip(*(column.tolist() for column in columns), strict=True)]
    numbers, merged = iter(values.of.tolist()), []
    for family in found:
        last: dict[int, _Candidate] = {}
        for one in family:
            number = next(numbers)
            last[number] = max(last.get(number, one), one, key=lambda c: c.lot)
        siblings = [Sibling._make((*facts[n], *one[1:4])) for n, one in last.items()]
        siblings.sort(key=lambda one: (one.value, one.lot), reverse=True)
        merged.append(siblings)
    return merged


def branch_pairs(
    episodes: Sequence[Episode],
    *,
    seed: int,
    margin: float = 0.0,
    pairs: Literal["extremes", "all"] = "extremes",
    level: float | None = None,
    policies: Policies = None,
) -> Iterator[Pair | Dropped]:
    """Replies at a branch of a turn tree whose values Q(state, reply) differ.

    Q is the mean return of all candidates with this reply in this state, in all trees: equal
    replies are merged first, so that no pair is reversed by another one of its state.
    Replies are equal if the rules read the same action; states, if the seat read the same and
    the same policies play. `pairs="extremes"` is Optima's iDPO
    (https://arxiv.org/abs/2410.08115): the best over the worst reply of a branch. `"all"` pairs
    every two. Agent Q (https://arxiv.org/abs/2408.07199) and SPORT
    (https://arxiv.org/abs/2504.21561) also train on better and worse steps at one state.
    Differences: values are returns of played episodes, without Agent Q's critic and SPORT's
    verifying model. Trees are those of `play(branch=...)`, not of a search. Optima also asks
    for a value above a limit (0.4 of its reward for HotpotQA), and keeps the better half of
    the pairs of a task.

    Args:
        episodes: the records of trees, parents included.
        seed: of the draw among equal values, and among candidates with equal replies.
        margin: the values must differ by more than this; Optima takes 0.2 of its reward for
            HotpotQA.
        pairs: `"extremes"` or `"all"`.
        level: the intervals of both values at this level, such as 0.95, must not overlap; None
            asks for no interval.
        policies: names of those who learn; None for all.
    """
    if pairs not in ("extremes", "all"):
        raise ValueError(f"want pairs extremes or all, got {pairs!r}")
    check_number("margin", margin, 0)
    if level is not None:
        check_share("level", level)
        if level == 1:
            raise ValueError("want level below 1, got 1; give 0.95")
    parents = {episode.parent for episode in episodes}
    alone = [n for n, e in enumerate(episodes) if e.parent is None and n not in parents]
    if alone:
        yield Dropped("an episode that did not branch", len(alone))
    for family in families(episodes, seed, policies, level or 0.95):
        if len(family) == 1:
            yield Dropped("a branch where all candidates say the same")
        better = family[:-1] if pairs == "all" else family[:1]
        for place, one in enumerate(better):
            for other in family[place + 1 :] if pairs == "all" else family[1:][-1:]:
                yield _of_siblings(one, other, margin, level)


def _of_siblings(
    one: Sibling, other: Sibling, margin: float, level: float | None
) -> Pair | Dropped:
    found = _why_not(one, other, margin)
    said = _different(one.turn, other.turn)
    if found is not None or said is None:
        return found or Dropped("their prompts differ before their replies do")
    if level is not None and not one.low > other.high:
        return Dropped(f"intervals of values at level {level:g} overlap")
    return Pair(
        **facts_of(one.episode, said[0], "better and worse reply of a state"),
        chosen=pieces_of([said[0]]),
        rejected=pieces_of([said[1]], lambda turn: True),
        margin=one.value - other.value,
    )


def _different(one: Turn, other: Turn) -> tuple[Turn, Turn] | None:
    """Two turns, or the first of their calls that differ; None where prompts differ first."""
    pairs = zip(calls(one), calls(other), strict=False)
    found = next((pair for pair in pairs if pair[0].reply != pair[1].reply), None)
    return found if found and have_same_prompt(*found) else None


def _why_not(one: Sibling, other: Sibling, margin: float) -> Dropped | None:
    """Why two replies teach nothing, if so."""
    if one.turn.reply == other.turn.reply:
        return Dropped("equal texts that the rules read differently")
    if not one.value - other.value > margin:
        return Dropped(f"values of siblings differ by no more than {margin:g}")
    if not is_legal(one.turn):
        return Dropped("the better sibling was refused")
    return None


def revisions(
    episodes: Sequence[Episode],
    *,
    seed: int,
    margin: float = 0.0,
    above: float | None = None,
    note: str = "No, that is a mistake. I choose again.",
    good: bool = False,
    policies: Policies = None,
) -> Iterator[Completion | Dropped]:
    r"""Mistakes and their corrections; the mistakes are read, not trained.

    From a turn tree, as in Agent-R (https://arxiv.org/abs/2501.11425): the worst sibling's reply,
    a note, then the best sibling's reply and the rest of its conversation. From `on_invalid=
    "retry"`, as in AgentRefine (https://arxiv.org/abs/2501.01702): a refused reply, the reason, the
    accepted reply. The loss of both masks wrong turns. Differences: Agent-R's agent
    finds its first error by asking itself, and waits for a turn before it goes on. Here, the
    first error is the branch, and the correction is in one reply, `BAD\nNOTE</think>GOOD`, of
    which every reply format reads what follows `</think>`. Agent-R draws from ten notes. AgentRefine
    has a strong model write its episodes.

    Args:
        episodes: the records of trees, or of play that asks again after an invalid reply.
        seed: of the draw among equal values.
        margin: the values of the replies must differ by more than this.
        above: the value of the best sibling must be above this; None for any value.
        note: what is said between the replies.
        good: whether the conversations of best siblings are rows, too, as in Agent-R.
        policies: names of those who learn; None for all.
    """
    check_number("margin", margin, 0)
    least = -math.inf if above is None else above
    check_number("above", least)
    check_bool("good", good)
    if not isinstance(note, str):
        raise ValueError(f"want note as a text, got {note!r:.60}")
    for family in families(episodes, seed, policies):
        best, worst = family[0], family[-1]
        if best is worst:
            yield Dropped("a branch where all candidates say the same")
            continue
        if not best.value > least:
            yield Dropped(f"the best sibling's value is not above {least:g}")
            continue
        why_not = _why_not(best, worst, margin)
        yield why_not or _revision(best, worst, note)
        for turn in calls(best.turn) if good and why_not is None else ():
            facts = facts_of(best.episode, turn, "best sibling")
            yield Completion(**facts, completion=_rest(best, turn))
    for one in trajectories(episodes, policies):
        for turns in conversations(one.turns):
            before = [turn for turn in one.turns if turn.index == turns[0].index - 1]
            pairs = pairwise([*before[-1:], *turns])
            corrected = [a for a, b in pairs if not is_legal(a) and is_legal(b)]
            if any(turn.action is None for turn in corrected):  # in the same state
                facts = facts_of(one.episode, turns[0], "a refused reply, corrected")
                yield Completion(**facts, completion=pieces_of(turns))
            elif one.episode.parent is None:
                yield Dropped("nothing was refused and then corrected")


def _revision(good: Sibling, bad: Sibling, note: str) -> Completion | Dropped:
    said = _different(good.turn, bad.turn)
    if said is None:
        return Dropped("their prompts differ before their replies do")
    ids = said[1].token_ids
    if ids is not None and not bad.turn.truncated:
        ids = ids[:-1]  # without the end token
    pieces: list[Piece] = [
        Said(said[1].reply, ids, counts=False, ends=False),
        Said(f"\n{note}</think>", None, ends=False),
        *_rest(good, said[0]),
    ]
    facts = facts_of(good.episode, said[1], "worst sibling, note, best sibling")
    return Completion(**facts, completion=pieces)


def _rest(one: Sibling, said: Turn) -> list[Piece]:
    """The conversation of a sibling from the branch on; a call of its turn is one of its own."""
    if isinstance(said, Call):
        return pieces_of([said])
    own = [turn for turn in one.episode.turns if turn.seat == one.turn.seat]
    return pieces_of(next(conversations(own[one.turn.index :])))
