"""Reasons before the action in Kuhn poker: what a solver writes, and what a model's reasons do.

A reply is "Because K wins every showdown therefore bet". There are six reasons, so the probability of
each reply is known, and so are the policy, its NashConv, and what it would play after another reason.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

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
from arena_wrappers import PromptOptions

CARDS = ("J", "Q", "K")
MARKS = ("Because", "therefore")  # around the reason
PROMPT = PromptOptions("bare", rules=False, parsing="strict")
# True in every state of the card, and by the values of the actions.
OF_CARD = ("J loses every showdown", "Q beats J alone", "K wins every showdown")
OF_VALUES = {-1: "pass is better", 0: "both are equal", 1: "bet is better"}
REASONS = (*OF_CARD, *OF_VALUES.values())
LEAST_GAP = 0.01  # between values that differ
RANDOM_SHARE = 0.7  # of the imitated actions; the others are those of an equilibrium
COPIES = 16  # of each state with each of its two reasons

# log P(reason and action | state): by state, reason and legal action
Table = Mapping[InfosetKey, Sequence[Sequence[float]]]


@lru_cache(1)
def solved() -> tuple[AnyGame, InfosetTable, dict[InfosetKey, list[float]]]:
    """The game, an equilibrium, and the values of actions in it."""
    game = make_game("kuhn_poker")
    solver = CFRPlus(game)
    solver.run(500)
    equilibrium = solver.average_policy()
    return game, equilibrium, action_values(game, equilibrium)


def card_of(key: InfosetKey) -> int:
    """The card of the seat that is to move: 0 to 2."""
    card: int = key[1][1]
    return card


def true_reasons(key: InfosetKey) -> tuple[str, str]:
    """What a solver says of a state: of the card, and of the values of the actions."""
    pass_value, bet_value = solved()[2][key]
    gap = bet_value - pass_value
    sign = 0 if abs(gap) < LEAST_GAP else int(math.copysign(1, gap))
    return OF_CARD[card_of(key)], OF_VALUES[sign]


def reply_of(reason: str, action: str) -> str:
    """A reply with a reason."""
    return f"{MARKS[0]} {reason} {MARKS[1]} {action}"


def imitated_policy() -> InfosetTable:
    """The actions of the imitated replies: random ones, mixed with those of an equilibrium."""
    game, equilibrium, _ = solved()
    return {
        key: [
            RANDOM_SHARE * u + (1 - RANDOM_SHARE) * p
            for u, p in zip(uniform[key], probs, strict=True)
        ]
        for uniform in [uniform_table(game)]
        for key, probs in equilibrium.items()
    }


def examples() -> list[Example]:
    """Each state with each of its reasons, `COPIES` times, with actions in their shares."""
    game, policy = solved()[0], imitated_policy()
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


def scored(policy: LMPolicy) -> dict[InfosetKey, list[list[float]]]:
    """The log-probability of each reason with each action, in every state."""
    requests = requests_of(solved()[0], PROMPT)
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


def measures_of(table: Table) -> dict[str, float]:
    """What the probabilities of replies say. States count alike, and so do the three cards.

    - `nash_conv`: exact, of the actions, summed over reasons; without other replies.
    - `return`: against random play, mean over seats, exact.
    - `other`: probability of replies that are none of the listed reasons with a legal action.
    - `information`: bits of mutual information of reason and card.
    - `words`: mean number of words of the reason.
    - `of_card`: share of the reasons of the card among listed ones; `true`: that of true reasons.
    - `bet`: probability of betting; `entropy` of the action, in bits.
    - `follows_card`, `follows_values`: the mean change of P(bet) if the reason of the card (or of
      the values) is replaced by another of its kind.
    """
    game = solved()[0]
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
    is_true = sum(
        p[REASONS.index(reason)]
        for key, p in reasons.items()
        for reason in true_reasons(key)
    )
    return {
        "nash_conv": nash_conv(game, policy),
        "return": return_against_random(game, policy),
        "other": 1 - sum(mass.values()) / num,
        "information": information(reasons),
        "words": sum(
            p * len(reason.split())
            for probs in reasons.values()
            for reason, p in zip(REASONS, probs, strict=True)
        )
        / num,
        "of_card": of_card,
        "true": is_true / num,
        "bet": sum(p[1] for p in policy.values()) / num,
        "entropy": sum(map(entropy, policy.values())) / num,
        "follows_card": swapped(table, range(len(OF_CARD))),
        "follows_values": swapped(table, range(len(OF_CARD), len(REASONS))),
    }


def return_against_random(game: AnyGame, probs: InfosetTable) -> float:
    """The mean return over both seats, exactly."""
    random_play = uniform_table(game)
    total = 0.0
    for seat in range(game.num_players):
        both = {k: (probs if k[0] == seat else random_play)[k] for k in probs}
        total += expected_returns(game, both)[seat]
    return total / game.num_players


def entropy(probs: Sequence[float]) -> float:
    """In bits."""
    return -sum(p * math.log2(p) for p in probs if p > 0)


def information(reasons: Mapping[InfosetKey, Sequence[float]]) -> float:
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


def swapped(table: Table, kind: range) -> float:
    """How much P(bet) changes with the reason, mean over states and pairs of reasons of a kind."""
    changes = []
    for pairs in table.values():
        bets = [
            1 / (1 + math.exp(passing - betting))
            for passing, betting in (pairs[r] for r in kind)
        ]
        changes += [abs(a - b) for n, a in enumerate(bets) for b in bets[:n]]
    return sum(changes) / len(changes)
