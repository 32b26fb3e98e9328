"""Selectors by what decides: returns, what the rules said, a solver; and a mixture.

| decides | selectors |
|---|---|
| the returns of episodes | `wins`, `best_of_group`, `outcome_pairs` |
| what the rules said of a reply | `feedback_pairs`, `rule_labels` |
| a solver in the states of the episodes | `solver_replies`, `solver_labels` |
| a model that grades replies | `judged_pairs` |
| another selector, and a share of general conversations | `mixed` |

Selectors that read turn trees are in `trees`.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from arena_envs.game import AnyGame, bounds_of, check_bool, check_int, check_number
from arena_trainers.data.rows import (
    GENERAL,
    AnyRow,
    Completion,
    Dropped,
    Label,
    Pair,
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
from arena_wrappers.policies.agents import quoted, told
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
            )
            found.append(Asked(episode, turn, request, options[turn.seat]))
    return found


GRADING = (
    "Do not act now. Grade this reply to the above: {}\nAdd 1 point for each that holds: it names one "
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
    the criteria are for actions. The judge sees what the seat saw, and no outcome.

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
            prompt = told(GRADING.format(quoted(one.turn.reply)), one.turn.messages)
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
