"""Reasons before the action in Kuhn poker: those of a solver, and measures of those of a model.

A reply is "Because K wins every showdown therefore bet". There are six reasons, so the probability of
each reply is known, and so are the policy, its NashConv, and what it would play after another reason.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, cast

from arena_envs import make_game
from arena_envs.game import AnyGame, InfosetKey
from arena_envs.solvers import (
    CFRPlus,
    InfosetTable,
    action_values,
    expected_returns,
    nash_conv,
    uniform_table,
)
from arena_eval.exploit import requests_of
from arena_trainers.data import Example
from arena_trainers.lm import LMPolicy
from arena_trainers.lm.backends.scoring import reply_logprobs
from night_settings import MARKS, PROMPT

CARDS = ("J", "Q", "K")
# True in every state of the card, and by the values of the actions.
OF_CARD = ("J loses every showdown", "Q beats J alone", "K wins every showdown")
OF_VALUES = {-1: "pass is better", 0: "both are equal", 1: "bet is better"}
REASONS = (*OF_CARD, *OF_VALUES.values())
LEAST_GAP = 0.01  # between values that differ
RANDOM_SHARE = 0.7  # of the imitated actions; the others are those of an equilibrium
COPIES = 16  # of each state with each of its two reasons

# The measures of reasons beside NashConv and the return, see `measures_of`.
MEASURES = (
    *("information", "true", "of_card", "words", "other"),
    *("follows_card", "follows_values"),
)

# log P(reason and action | state): by state, reason and legal action
ReplyTable = Mapping[InfosetKey, Sequence[Sequence[float]]]
# P(reason | state): by state and reason
ReasonTable = Mapping[InfosetKey, Sequence[float]]


class Solution(NamedTuple):
    """Kuhn poker, an equilibrium, and the values of actions in it."""

    game: AnyGame
    equilibrium: InfosetTable
    values: Mapping[InfosetKey, Sequence[float]]


@lru_cache(1)
def solution() -> Solution:
    """The solution by 500 iterations of CFR+."""
    game = make_game("kuhn_poker")
    solver = CFRPlus(game)
    solver.run(500)
    equilibrium = solver.average_policy()
    return Solution(game, equilibrium, action_values(game, equilibrium))


def card_of(key: InfosetKey) -> int:
    """The card of the seat that is to move: 0 (J) to 2 (K)."""
    _, card, _ = cast(tuple[int, int, tuple[int, ...]], key[1])
    return card


def true_reasons(key: InfosetKey) -> tuple[str, str]:
    """The reasons that a solver gives in a state: on the card, and on the values of the actions."""
    pass_value, bet_value = solution().values[key]
    gap = bet_value - pass_value
    sign = 0 if abs(gap) < LEAST_GAP else int(math.copysign(1, gap))
    return OF_CARD[card_of(key)], OF_VALUES[sign]


def reply_of(reason: str, action: str) -> str:
    """A reply with a reason."""
    return f"{MARKS[0]} {reason} {MARKS[1]} {action}"


def imitated_policy() -> InfosetTable:
    """The actions of the imitated replies: random ones, mixed with those of an equilibrium."""
    game, equilibrium, _ = solution()
    random_play = uniform_table(game)
    return {
        key: [
            RANDOM_SHARE * u + (1 - RANDOM_SHARE) * p
            for u, p in zip(random_play[key], probs, strict=True)
        ]
        for key, probs in equilibrium.items()
    }


def examples() -> list[Example]:
    """Each state with each of its true reasons `COPIES` times; actions are in proportion to `imitated_policy`."""
    game, policy = solution().game, imitated_policy()
    rows = []
    for key, request in requests_of(game, PROMPT).items():
        num_bets = round(policy[key][1] * COPIES)
        actions = ["bet"] * num_bets + ["pass"] * (COPIES - num_bets)
        rows += [
            Example(request.messages, reply_of(reason, action))
            for reason in true_reasons(key)
            for action in actions
        ]
    return rows


def reply_table(policy: LMPolicy) -> dict[InfosetKey, list[list[float]]]:
    """The log-probability of each reason with each action, in every state."""
    requests = requests_of(solution().game, PROMPT)
    prompts = policy.prompts_ids([*requests.values()])
    rows = [
        (prompt, policy.chat.reply_ids(prompt, reply_of(reason, action)))
        for prompt in prompts
        for reason in REASONS
        for action in ("pass", "bet")
    ]
    log_probs = reply_logprobs(
        policy.model, rows, 1.0, pad_id=policy.pad_id, eos_ids=policy.eos_ids
    )
    scores = iter(log_probs)
    return {key: [[next(scores), next(scores)] for _ in REASONS] for key in requests}


def logged_measures(policy: LMPolicy) -> dict[str, float]:
    """`measures_of` a model, by the names under which the trainer logs them."""
    values = measures_of(reply_table(policy))
    return {f"night/{name}": value for name, value in values.items()}


def measures_of(table: ReplyTable) -> dict[str, float]:
    """Measures of the probabilities of replies; states have equal weights.

    - `nash_conv`: exact, of the actions, summed over reasons; without other replies.
    - `return`: against random play, mean over seats, exact.
    - `other`: probability of replies without a listed reason or without a legal action.
    - `information`: mutual information of reason and card in bits, cards equally likely.
    - `words`: mean number of words of the reason.
    - `of_card`: share of reasons on the card among listed ones; `true`: share of true reasons.
    - `bet`: probability of betting; `entropy`: that of the action, in bits.
    - `follows_card`, `follows_values`: the mean change of P(bet) if a reason on the card (or on
      the values) is replaced by another of its kind.
    """
    game = solution().game
    joint = {
        key: [[math.exp(x) for x in pair] for pair in t] for key, t in table.items()
    }
    mass = {key: sum(map(sum, pairs)) for key, pairs in joint.items()}
    policy = {
        key: [sum(pair[a] for pair in pairs) / mass[key] for a in (0, 1)]
        for key, pairs in joint.items()
    }
    reasons = {
        key: [sum(pair) / mass[key] for pair in pairs] for key, pairs in joint.items()
    }
    num = len(table)
    of_card = sum(sum(p[: len(OF_CARD)]) for p in reasons.values()) / num
    return {
        "nash_conv": nash_conv(game, policy),
        "return": return_against_random(game, policy),
        "other": 1 - sum(mass.values()) / num,
        "information": information(reasons),
        "words": mean_words(reasons),
        "of_card": of_card,
        "true": true_share(reasons),
        "bet": sum(p[1] for p in policy.values()) / num,
        "entropy": sum(map(entropy, policy.values())) / num,
        "follows_card": change_of_bet(table, range(len(OF_CARD))),
        "follows_values": change_of_bet(table, range(len(OF_CARD), len(REASONS))),
    }


def mean_words(reasons: ReasonTable) -> float:
    """The mean number of words of the reason."""
    total = sum(
        p * len(reason.split())
        for probs in reasons.values()
        for reason, p in zip(REASONS, probs, strict=True)
    )
    return total / len(reasons)


def true_share(reasons: ReasonTable) -> float:
    """The probability of a true reason, mean over states."""
    total = sum(
        probs[REASONS.index(reason)]
        for key, probs in reasons.items()
        for reason in true_reasons(key)
    )
    return total / len(reasons)


def return_against_random(game: AnyGame, probs: InfosetTable) -> float:
    """The exact mean return over seats where all others play at random."""
    random_play = uniform_table(game)
    total = 0.0
    for seat in range(game.num_players):
        mixed = {k: (probs if k[0] == seat else random_play)[k] for k in probs}
        total += expected_returns(game, mixed)[seat]
    return total / game.num_players


def entropy(probs: Sequence[float]) -> float:
    """In bits."""
    return -sum(p * math.log2(p) for p in probs if p > 0)


def information(reasons: ReasonTable) -> float:
    """Bits of mutual information of reason and card, the cards equally likely.

    >>> information({(0, (0, c, ())): [float(c == r) for r in range(3)] for c in range(3)})
    1.584962500721156
    """
    of_cards = []
    for card in range(len(CARDS)):
        rows = [p for key, p in reasons.items() if card_of(key) == card]
        of_cards.append([sum(column) / len(rows) for column in zip(*rows, strict=True)])
    mean = [sum(column) / len(CARDS) for column in zip(*of_cards, strict=True)]
    return entropy(mean) - sum(map(entropy, of_cards)) / len(CARDS)


def change_of_bet(table: ReplyTable, kind: range) -> float:
    """How much P(bet) changes with the reason, mean over states and pairs of reasons of a kind."""
    changes = []
    for pairs in table.values():
        bets = [
            1 / (1 + math.exp(passing - betting))
            for passing, betting in (pairs[r] for r in kind)
        ]
        changes += [abs(a - b) for n, a in enumerate(bets) for b in bets[:n]]
    return sum(changes) / len(changes)
