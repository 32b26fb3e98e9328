"""Measures of a seat's replies: which it chooses, how they depend on what it reads, and what they cost."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, pairwise
from statistics import fmean
from typing import Any, Literal

import numpy as np

from arena_envs.game import (
    AnyGame,
    AnyState,
)
from arena_eval.intervals import Estimate
from arena_eval.measures.estimates import estimated, named_estimates, turn_observations
from arena_eval.measures.protocol import Episodes, Estimates
from arena_eval.result_rows import token_ids
from arena_wrappers import Turn
from arena_wrappers.prompts import listed_actions, seat_options

NUM_SHUFFLES = 100
NUM_POSITIONS = 8  # of `choice_bias`


def choice_bias(episodes: Episodes, game: AnyGame, seat: int) -> Estimates:
    """Share of turns at each position of the list of legal actions, less that of uniform play.

        bias_p = mean over turns with K > p legal actions of 1[position = p] - 1/K

    Of positions 0 to 7, and of the last one. In the game's order a bias may be a merit of the
    action: compare with the solver. With the prompt option `shuffle` the order carries no hint, so
    a bias is caused by the position; in the game `labels:SEED(game)` the letter carries none
    either, and a bias is caused by letter or position. Turns with one legal action do not count.
    """

    def place(
        turn: Turn, state: AnyState, shuffle: int, seed: int
    ) -> tuple[int, int] | None:
        if turn.invalid is not None or len(turn.legal) < 2:
            return None
        text = turn.action
        if not isinstance(text, str):
            text = game.action_text(state, text)
        observation = game.observe(state, seat) if shuffle else ""
        actions, _ = listed_actions(game, state, observation, shuffle, seed)
        texts = [game.action_text(state, action) for action in actions]
        if text not in texts:  # an utterance of its own
            return None
        return texts.index(text), len(texts)

    positions: list[list[tuple[int, int]]] = []
    for episode in sorted(episodes, key=lambda episode: (episode.seed, episode.sample)):
        shuffle = seat_options(episode.prompt, seat).shuffle
        of_episode = partial(place, shuffle=shuffle, seed=episode.seed)
        positions += turn_observations([episode], game, seat, of_episode)
    most = max((size for pairs in positions for _, size in pairs), default=0)

    def bias(pairs: Sequence[tuple[int, int]]) -> float:
        return fmean((place == 0) - 1 / size for place, size in pairs)

    estimates = {}
    for p in range(min(most, NUM_POSITIONS)):
        moved = [[(at - p, size) for at, size in e if size > p] for e in positions]
        estimates[f"choice_bias.{p}"] = estimated(moved, bias, -0.5, 1 - 1 / most)
    last = [[(size - 1 - at, size) for at, size in pairs] for pairs in positions]
    estimates["choice_bias.last"] = estimated(last, bias, -0.5, 1 - 1 / max(most, 1))
    return named_estimates(**estimates)


Choice = tuple[Any, Any]  # information set, and the reply or action in it


def _choices(
    episodes: Episodes, game: AnyGame, seat: int, of: str
) -> list[list[Choice]]:
    def choice_of(turn: Turn, state: AnyState) -> Choice:
        action = turn.action if turn.invalid is None else None
        choice = turn.reply.strip() if of == "reply" else action
        return game.information_state(state, seat), choice

    return turn_observations(episodes, game, seat, choice_of)


def _sum(counts: Counter[Any]) -> float:
    """Σ c log c."""
    return math.fsum(c * math.log(c) for c in counts.values())


def _conditional_entropy(pairs: Sequence[Choice]) -> float:
    states, joint = Counter(state for state, _ in pairs), Counter(pairs)
    plug_in = (_sum(states) - _sum(joint)) / len(pairs)
    return plug_in + (len(joint) - len(states)) / (2 * len(pairs))


def _information(pairs: Sequence[Choice]) -> float:
    states, joint = Counter(state for state, _ in pairs), Counter(pairs)
    choices, num = Counter(choice for _, choice in pairs), len(pairs)
    plug_in = math.log(num) - (_sum(states) + _sum(choices) - _sum(joint)) / num
    return plug_in + (len(states) + len(choices) - len(joint) - 1) / (2 * num)


def action_entropy(episodes: Episodes, game: AnyGame, seat: int) -> Estimates:
    """Entropy of the action given the information set, in nats, by visits.

        H(A | I) = -Σ n(i, a)/N log(n(i, a)/n(i)) + (K_ia - K_i) / 2N

    N turns, where all invalid replies are one action, K_ia pairs and K_i information sets that occur: the plug-in
    estimate with the correction of Miller and Madow (1955). 0 for a deterministic policy.
    Biased downwards where information sets occur once; in games of talk they all do.
    """
    pairs = _choices(episodes, game, seat, "action")
    return named_estimates(action_entropy=estimated(pairs, _conditional_entropy, 0.0))


def mutual_information(
    episodes: Episodes,
    game: AnyGame,
    seat: int,
    *,
    of: Literal["reply", "action"] = "reply",
) -> Estimates:
    """Mutual information of reply and information set, in nats; 0 means collapse: the policy ignores its prompt.

        I(R; I) = H(R) + H(I) - H(R, I) + (K_i + K_r - K_ir - 1) / 2N

    The plug-in estimate over the turns of the records, with the correction of Miller and Madow.
    `mutual_information.null` is its mean where replies are shuffled among all turns, with the
    central 95 % of 100 shuffles: the value of a policy that ignores its prompt. If all replies are
    different, both are equal and tell nothing: take `of=action`.

    Args:
        episodes: complete ones.
        game: the rules.
        seat: whose replies.
        of: "reply", the text without outer white space, or "action", where all invalid replies
            are one; the names then begin with `mutual_information.action`.
    """
    if of not in ("reply", "action"):
        raise ValueError(f"want of=reply or of=action, got {of!r}")
    pairs = _choices(episodes, game, seat, of)
    estimate = estimated(pairs, _information)
    if estimate is None:
        return {}
    states, replies = zip(*chain.from_iterable(pairs), strict=True)
    rng = np.random.default_rng(0)
    null = [
        _information([(s, replies[i]) for s, i in zip(states, places, strict=True)])
        for places in (rng.permutation(len(replies)) for _ in range(NUM_SHUFFLES))
    ]
    low, high = (float(end) for end in np.quantile(null, [0.025, 0.975]))
    shuffled = Estimate(fmean(null), low, high, estimate.num)
    name = "mutual_information" + (".action" if of == "action" else "")
    return {name: estimate, f"{name}.null": shuffled}


def _repeats(pairs: Sequence[tuple[Any, Any]]) -> float:
    num = len(pairs)
    if num < 2:
        return 0.0
    before, after = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    same: int = sum(a == b for a, b in pairs)
    by_chance = sum(count * after[action] for action, count in before.items())
    return (same - by_chance / num) / (num - 1)


def serial_dependence(episodes: Episodes, game: AnyGame, seat: int) -> Estimates:
    """How much more often an action repeats the seat's last one than if both were independent.

        (n / (n - 1)) (mean of 1[a_t = a_t+1] - Σ_a p(a) q(a))

    over the n pairs of neighbouring turns with the same list of legal actions; p and q are the
    shares of `a` among first and second actions. Unbiased where pairs are independent. Below 0: it
    alternates too often (Walker and Wooders 2001). Play that depends on the state differs from 0, too.
    """
    pairs = [
        [
            (before.action, after.action)
            for before, after in pairwise(turns)
            if len(before.legal) > 1
            and list(before.legal) == list(after.legal)
            and before.invalid is after.invalid is None
        ]
        for turns in turn_observations(episodes, game, seat, lambda turn, _: turn)
    ]
    return named_estimates(serial_dependence=estimated(pairs, _repeats, -1.0, 1.0))


def cost(episodes: Episodes, game: AnyGame, seat: int) -> Estimates:
    """Means over episodes of what the seat wrote and read.

    `cost.reply_characters` and `cost.prompt_characters`; also `cost.reply_tokens` and
    `cost.prompt_tokens` where the policy reports the tokens of every turn. The calls of all roles of
    a turn count in tokens. Answers to probes do not count.
    """
    every = turn_observations(episodes, game, seat, lambda turn, _: turn)
    counted: dict[str, Callable[[Any], int]] = {
        "reply_characters": lambda turn: len(turn.reply),
        "prompt_characters": lambda turn: sum(len(m["content"]) for m in turn.messages),
    }
    if all(token_ids(turn) for turns in every for turn in turns):
        counted["reply_tokens"] = lambda turn: sum(map(len, token_ids(turn)))
        counted["prompt_tokens"] = lambda turn: sum(
            len(generation.prompt_ids or ())
            for generation in turn.generations or [turn]
        )
    estimates = {}
    for name, size in counted.items():
        sums = [[float(sum(map(size, turns)))] for turns in every]
        estimates[f"cost.{name}"] = estimated(sums, fmean, 0.0)
    return named_estimates(**estimates)
