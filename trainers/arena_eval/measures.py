"""Measures of how a policy plays, from recorded episodes; probes of what it believes.

A measure is a function of episodes, the game and a seat:

    Measure(episodes, game, seat) -> {name: Estimate(value, low, high, num)}

| Measure | What it tells of a seat's turns |
|---|---|
| `choice_bias` | by position in the list of legal actions, how much more often it is chosen than by uniform random play |
| `action_entropy` | entropy of the action given the information set, in nats |
| `serial_dependence` | how much more often a choice repeats the seat's last one than by independence |
| `mutual_information` | between reply and information set, in nats: 0 if the policy ignores what it reads (collapse) |
| `regret` | loss of expected return by a turn's action, against an exact reference |
| `profile_accuracy` | share of turns whose action is best against that reference |
| `cost` | tokens, or characters, of replies and prompts in an episode |
| `belief` | a probe: what the policy believes of a hidden fact, against the posterior |
| `profile` | a probe: the ranks that the policy gives to another seat's priorities, against the true ones |

`belief_gain` and `partner_gain`, parts of the reward, are here because they enumerate a game, too.

A `Probe` also asks the policy a question beside each turn. The answers stand in `Turn.probes`.

`episodes` are complete (`without_lost`). Without episodes a measure gives nothing, or a ValueError
if it does not suit the game. Other distributions name theirs in the entry-point group
`arena.measures`; `check_measure` names the first promise that one breaks.

An information set is known exactly here: `Game.information_state`. An interval is that of
`mean_interval` over the jackknife's pseudo-values, an episode being one observation (Tukey 1958).
"""

import copy
import math
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain, pairwise
from statistics import fmean
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    AnyState,
    possible_outcomes,
)
from arena_envs.registry import Registry, broken
from arena_envs.solvers import InfosetKey, InfosetTable, TooLarge, information_states
from arena_envs.solvers.enumeration import Memory
from arena_eval.baselines import MAX_SOLVED_STATES
from arena_eval.exploit import SHORT, is_tabular, tabular, want_enumerable
from arena_eval.intervals import Estimate, mean_interval
from arena_eval.move_values import (
    MoveSolver,
    MoveValues,
    Source,
    source_of,
)
from arena_eval.result_rows import token_ids
from arena_wrappers import Episode, Turn, make_policy, play_plans, turn_states
from arena_wrappers.play import final_state, game_of, next_state, plans_of
from arena_wrappers.prompts import after_reasoning, listed_actions, seat_options

T = TypeVar("T")
Episodes = Sequence[Episode]
Found = dict[str, Estimate]
Posteriors = dict[InfosetKey, dict[str, float]]
BLOCKS = 100  # observations of the jackknife; further episodes share one
NUM_SHUFFLES = 100
NUM_POSITIONS = 8  # of `choice_bias`


class Measure(Protocol):
    """Estimates of one seat's play."""

    def __call__(self, episodes: Episodes, game: AnyGame, seat: int) -> Found:
        """The estimates by name; names begin with that of the measure."""


class Probe(Measure, Protocol):
    """A measure that also asks a question beside each turn, which changes nothing in the episode.

    Attributes:
        name: of its answers in `Turn.probes`.
    """

    name: str

    def question(
        self, game: AnyGame, state: Any, seat: int
    ) -> tuple[str, Sequence[str]] | None:
        """The question and its possible answers; None to ask nothing in this state.

        It tells nothing that the seat to move does not know.
        """


_HERE = "arena_eval.measures"
measures: Registry[Any] = Registry(
    "measure",
    "arena.measures",
    {
        name: f"{_HERE}:{name}"
        for name in (
            *("action_entropy", "choice_bias", "cost", "mutual_information"),
            *("profile_accuracy", "regret", "serial_dependence"),
        )
    }
    | {"belief": f"{_HERE}:Belief", "profile": f"{_HERE}:Profile"},
    reserved=("episodes", "game", "seat"),
    kit=f"{_HERE}:check_measure",
)


def measure_of(spec: str, game: AnyGame) -> Measure:
    """The measure that a string of the grammar names, such as `mutual_information(of=action)`.

    Raises:
        ValueError: an unknown measure or option, or one that does not suit the game.
        ImportError: it cannot be imported.
    """
    maker = measures.find(measures.read(spec).name)
    measure: Measure = lambda episodes, game, seat: measures.make(  # noqa: E731 # or a class
        spec, episodes=episodes, game=game, seat=seat
    )
    if isinstance(maker, type):
        measure = measures.make(spec)
    measure([], game, 0)
    return measure


def estimated(
    groups: Iterable[Sequence[T]],
    statistic: Callable[[Sequence[T]], float],
    low: float = -math.inf,
    high: float = math.inf,
) -> Estimate | None:
    """A statistic of all observations, with an interval over groups; None without observations.

    Args:
        groups: the observations of each episode, in an order that does not depend on that of
            the episodes; empty ones do not count.
        statistic: of at least one observation.
        low: its least possible value.
        high: its largest possible value.
    """
    full = [group for group in groups if group]
    if not full:
        return None
    num = min(len(full), BLOCKS)
    blocks = [list(chain.from_iterable(full[i::num])) for i in range(num)]
    value = statistic(list(chain.from_iterable(blocks)))
    others = [[*blocks[:i], *blocks[i + 1 :]] for i in range(num if num > 1 else 0)]
    leave_one_out = [
        statistic([*chain.from_iterable(statistic_without)])
        for statistic_without in others
    ] or [value]
    middle = fmean(leave_one_out)
    pseudo = [
        round(value + (num - 1) * (middle - statistic_without), 12)
        for statistic_without in leave_one_out
    ]
    ends = mean_interval(pseudo, min(low, *pseudo, value), max(high, *pseudo, value))
    lower, upper = max(low, min(ends[0], value)), min(high, max(ends[1], value))
    return Estimate(
        value,
        lower if math.isfinite(lower) else None,
        upper if math.isfinite(upper) else None,
        len(full),
    )


def _named(**estimates: Estimate | None) -> Found:
    return {
        name: estimate for name, estimate in estimates.items() if estimate is not None
    }


def _each(
    episodes: Episodes,
    game: AnyGame,
    seat: int,
    observe: Callable[[Turn, Any], T | None],
) -> list[list[T]]:
    """What is told of each turn of the seat and its state, by episode, without None."""
    return [
        [
            observation
            for turn, state in zip(
                episode.turns, turn_states(episode, game), strict=True
            )
            if turn.seat == seat and (observation := observe(turn, state)) is not None
        ]
        for episode in sorted(episodes, key=lambda one: (one.seed, one.sample))
    ]


def choice_bias(episodes: Episodes, game: AnyGame, seat: int) -> Found:
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
        positions += _each([episode], game, seat, of_episode)
    most = max((size for pairs in positions for _, size in pairs), default=0)

    def bias(pairs: Sequence[tuple[int, int]]) -> float:
        return fmean((place == 0) - 1 / size for place, size in pairs)

    estimates = {}
    for p in range(min(most, NUM_POSITIONS)):
        moved = [[(at - p, size) for at, size in e if size > p] for e in positions]
        estimates[f"choice_bias.{p}"] = estimated(moved, bias, -0.5, 1 - 1 / most)
    last = [[(size - 1 - at, size) for at, size in pairs] for pairs in positions]
    estimates["choice_bias.last"] = estimated(last, bias, -0.5, 1 - 1 / max(most, 1))
    return _named(**estimates)


Seen = tuple[Any, Any]  # information set, and what was chosen in it


def _seen(episodes: Episodes, game: AnyGame, seat: int, of: str) -> list[list[Seen]]:
    def told(turn: Turn, state: AnyState) -> Seen:
        action = turn.action if turn.invalid is None else None
        choice = turn.reply.strip() if of == "reply" else action
        return game.information_state(state, seat), choice

    return _each(episodes, game, seat, told)


def _sum(counts: Counter[Any]) -> float:
    """Σ c log c."""
    return math.fsum(c * math.log(c) for c in counts.values())


def _conditional_entropy(pairs: Sequence[Seen]) -> float:
    states, joint = Counter(state for state, _ in pairs), Counter(pairs)
    plug_in = (_sum(states) - _sum(joint)) / len(pairs)
    return plug_in + (len(joint) - len(states)) / (2 * len(pairs))


def _information(pairs: Sequence[Seen]) -> float:
    states, joint = Counter(state for state, _ in pairs), Counter(pairs)
    choices, num = Counter(choice for _, choice in pairs), len(pairs)
    plug_in = math.log(num) - (_sum(states) + _sum(choices) - _sum(joint)) / num
    return plug_in + (len(states) + len(choices) - len(joint) - 1) / (2 * num)


def action_entropy(episodes: Episodes, game: AnyGame, seat: int) -> Found:
    """Entropy of the action given the information set, in nats, by visits.

        H(A | I) = -Σ n(i, a)/N log(n(i, a)/n(i)) + (K_ia - K_i) / 2N

    N turns, where all invalid replies are one action, K_ia pairs and K_i information sets that occur: the plug-in
    estimate with the correction of Miller and Madow (1955). 0 for a deterministic policy.
    Biased downwards where information sets occur once; in games of talk they all do.
    """
    pairs = _seen(episodes, game, seat, "action")
    return _named(action_entropy=estimated(pairs, _conditional_entropy, 0.0))


def mutual_information(
    episodes: Episodes,
    game: AnyGame,
    seat: int,
    *,
    of: Literal["reply", "action"] = "reply",
) -> Found:
    """Mutual information of reply and information set, in nats: the meter of collapse.

        I(R; I) = H(R) + H(I) - H(R, I) + (K_i + K_r - K_ir - 1) / 2N

    The plug-in estimate over the turns of the records, with the correction of Miller and Madow.
    `mutual_information.null` is its mean where replies are shuffled among all turns, with the
    central 95 % of 100 shuffles: what a policy gets that ignores its prompt. Long replies that never
    repeat measure nothing, and then both are equal: take `of=action`.

    Args:
        episodes: complete ones.
        game: the rules.
        seat: whose replies.
        of: "reply", the text without outer white space, or "action", where all invalid replies
            are one; the names then begin with `mutual_information.action`.
    """
    if of not in ("reply", "action"):
        raise ValueError(f"want of=reply or of=action, got {of!r}")
    pairs = _seen(episodes, game, seat, of)
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


def serial_dependence(episodes: Episodes, game: AnyGame, seat: int) -> Found:
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
        for turns in _each(episodes, game, seat, lambda turn, _: turn)
    ]
    return _named(serial_dependence=estimated(pairs, _repeats, -1.0, 1.0))


_sources: Memory[Source] = Memory(4)


def _valued(episodes: Episodes, game: AnyGame, seat: int) -> list[list[MoveValues]]:
    """Values of the seat's turns that have some, by episode; ValueError if the game has none."""
    source = _sources.recall(game, lambda: source_of(game))
    if isinstance(source, str):
        raise ValueError(
            f"want a game with exact values for regret and profile_accuracy: {source}; leave "
            "the measure out"
        )
    solver = MoveSolver({(type(game), repr(game)): source})

    def values(turn: Turn, state: AnyState) -> MoveValues | None:
        return solver.solve(game, [turn], [state]).turns[0]

    return _each(episodes, game, seat, values)


def regret(episodes: Episodes, game: AnyGame, seat: int) -> Found:
    """Mean over turns of the largest value of an action, less that of the action played.

    Values are those of `arena_eval.move_values`: everybody goes on by minimax, a best
    joint policy, or an equilibrium that CFR+ finds. Turns with an invalid reply, and those that this
    reference never reaches, do not count.
    """
    every = _valued(episodes, game, seat)
    lost = [
        [value.regret for value in turns if value.regret is not None] for turns in every
    ]
    most = game.max_return - game.min_return
    return _named(regret=estimated(lost, fmean, 0.0, most))


def profile_accuracy(episodes: Episodes, game: AnyGame, seat: int) -> Found:
    """Share of turns whose action is a best response to the reference profile of `regret`.

    At an equilibrium these are all actions that it mixes, and dominant ones. An invalid reply
    counts as none; turns that the reference never reaches do not count.
    """
    every = _valued(episodes, game, seat)
    best = [[float(value.regret == 0) for value in turns] for turns in every]
    return _named(profile_accuracy=estimated(best, fmean, 0.0, 1.0))


def cost(episodes: Episodes, game: AnyGame, seat: int) -> Found:
    """Means over episodes of what the seat wrote and read.

    `cost.reply_characters` and `cost.prompt_characters`; also `cost.reply_tokens` and
    `cost.prompt_tokens` where the policy reports the tokens of every turn. The calls of all roles of
    a turn count in tokens. Answers to probes do not count.
    """
    every = _each(episodes, game, seat, lambda turn, _: turn)
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
    return _named(**estimates)


class Belief:
    """A probe: the probabilities that the policy gives to a hidden fact at each of its turns.

    The posterior is exact, by enumeration, in games of at most 30,000 states with a list of actions.
    In larger games and in games of language it is a frequency in 400 draws of `Game.resample`, which
    follow the rules and take nothing from how others play. Then `others` has to be "random", and the
    standard error of a probability p is √(p (1 - p) / 400).

    The game says which fact (its method `hidden`), such as a card. The exact posterior is that of the
    seat's information set, by enumeration of the deal and the actions of the other seats, who play as
    `others`.

    Means over turns, of answer q and posterior p: `log_score`, log q(true answer), at least log 0.01;
    `brier`, Σ (q - 1[true])²; `exact_log_score` and `exact_brier`, the same of p; `distance`,
    Σ (q - p)²; `unread`, the share of answers that cannot be read, which the others leave out.

    An answer is read after the reasoning: the last number after each name ("J 1/4", "**J**:
    25%", "P(J) = 0.25", "J is 0.25") or before it ("25% for J"), divided by their sum. If one name
    alone has a probability, the others share what is left; a name alone is certain. Turns that
    `others` never lead to do not count.

    Args:
        others: string of a policy with known action probabilities.
    """

    def __init__(self, others: str = "random") -> None:
        self.others = others
        self.name = "belief" if others == "random" else f"belief({others})"

    def question(
        self, game: AnyGame, state: AnyState, seat: int
    ) -> tuple[str, Sequence[str]] | None:
        hidden_fact = game.hidden(state, seat)  # type: ignore[attr-defined] # an optional fact
        if hidden_fact is None:
            return None
        answers = _known(beliefs_of, game, self.others).answers
        text = (
            "A question beside the game, which changes nothing in it. In place of an action, answer "
            f"it: {hidden_fact[0]} Give a probability for each of {', '.join(answers)}, written as "
            '"NAME NUMBER, NAME NUMBER".'
        )
        return text, answers

    def __call__(self, episodes: Episodes, game: AnyGame, seat: int) -> Found:
        posterior, answers = _known(beliefs_of, game, self.others)

        def scores_of(turn: Turn, state: AnyState) -> dict[str, float] | None:
            probe = (turn.probes or {}).get(self.name)
            p = {} if probe is None else posterior(state, seat)
            if probe is None or not any(p.values()):
                return None
            q = _distribution(probe["reply"], answers)
            true = game.hidden(state, seat)[1]  # type: ignore[attr-defined]
            return {"unread": 1.0} if q is None else _scores(q, p, true)

        scores = _each(episodes, game, seat, scores_of)
        estimates = {}
        for name, (low, high) in BELIEF_BOUNDS.items():
            values = [
                [score[name] for score in turns if name in score] for turns in scores
            ]
            estimates[f"{self.name}.{name}"] = estimated(values, fmean, low, high)
        return _named(**estimates)


NUM_DRAWS = 400  # of `resample`, for a posterior


class Beliefs(NamedTuple):
    """The posterior of a hidden fact, a function of state and seat; and all answers."""

    posterior: Callable[[AnyState, int], Mapping[str, float]]
    answers: Sequence[str]


def beliefs_of(game: AnyGame, others: str) -> Beliefs:
    """The posteriors of `Belief`: by enumeration, else by draws of `Game.resample`.

    Raises:
        ValueError: as `posteriors_of`; or `others` is not "random" where states are drawn.
    """
    answers = getattr(game, "hidden_answers", None)
    if answers is None or _is_enumerable(game):
        posteriors, enumerated = posteriors_of(game, others)

        def look_up(state: AnyState, seat: int) -> Mapping[str, float]:
            return posteriors.get((seat, game.information_state(state, seat)), {})

        return Beliefs(look_up, enumerated if answers is None else answers)
    if others != "random":
        raise ValueError(
            f"want belief with others=random in {game!r:.100}, whose states are drawn and not "
            f"enumerated, got {others!r}; leave it out, or give smaller parameters"
        )

    def draw(state: AnyState, seat: int) -> Mapping[str, float]:
        # equal information states have equal posteriors
        rng = random.Random(repr((seat, game.information_state(state, seat))))
        twins = (game.resample(state, seat, rng) for _ in range(NUM_DRAWS))
        facts = [game.hidden(twin, seat) for twin in twins]  # type: ignore[attr-defined] # optional
        counts = Counter(fact[1] for fact in facts if fact is not None)
        return {name: counts[name] / NUM_DRAWS for name in answers}

    return Beliefs(draw, answers)


def _is_enumerable(game: AnyGame) -> bool:
    if game.num_actions is None:
        return False
    try:
        information_states(game, MAX_SOLVED_STATES)
    except TooLarge:
        return False
    return True


PROFILE_BOUNDS = {"correlation": (-1.0, 1.0), "unread": (0.0, 1.0)}


class Profile:
    """A probe: how well the policy ranks what another seat cares about.

    `profile.correlation`: Spearman's rank correlation of the answer with the true priorities, ties
    with mean ranks, a mean over turns; an answer without order counts 0, and turns in which all true
    priorities are equal do not count. `profile.unread`: the share of answers without a number for each
    name. It is the accuracy of profiles of "HARBOR: Exploring Persona Dynamics in Multi-Agent
    Competition" (2025).
    """

    name = "profile"

    def question(
        self, game: AnyGame, state: AnyState, seat: int
    ) -> tuple[str, Sequence[str]] | None:
        profile = _profile_of(game, state, seat)
        if profile is None:
            return None
        question, priorities = profile
        text = (
            "A question beside the game, which changes nothing in it. In place of an action, answer "
            f"it: {question} Give a number for each, a higher one for a higher priority, written as "
            '"NAME NUMBER, NAME NUMBER".'
        )
        return text, [*priorities]

    def __call__(self, episodes: Episodes, game: AnyGame, seat: int) -> Found:
        _profile_of(game, game.initial_state(), seat)  # refuses other games

        def scores_of(turn: Turn, state: AnyState) -> dict[str, float] | None:
            probe = (turn.probes or {}).get(self.name)
            profile = _profile_of(game, state, seat)
            if probe is None or profile is None:
                return None
            _, priorities = profile
            if len({*priorities.values()}) == 1:
                return None
            answer = after_reasoning(probe["reply"])
            text = (
                unicodedata.normalize("NFKC", answer) if isinstance(answer, str) else ""
            )
            numbers = _chances(text, [*priorities])
            if numbers.keys() != priorities.keys():
                return {"unread": 1.0}
            pairs = [(numbers[name], value) for name, value in priorities.items()]
            return {"unread": 0.0, "correlation": rank_correlation(pairs)}

        scores = _each(episodes, game, seat, scores_of)
        estimates = {}
        for name, (low, high) in PROFILE_BOUNDS.items():
            values = [[s[name] for s in turns if name in s] for turns in scores]
            estimates[f"profile.{name}"] = estimated(values, fmean, low, high)
        return _named(**estimates)


def _profile_of(
    game: AnyGame, state: AnyState, seat: int
) -> tuple[str, Mapping[str, float]] | None:
    """The question of a game about another seat's priorities, and these."""
    profile_of = getattr(game, "hidden_profile", None)
    if profile_of is None:
        raise ValueError(
            f"want a game that says what seats care about (a method hidden_profile) for profile, got "
            f"{game!r:.100}; take auction"
        )
    profile: tuple[str, Mapping[str, float]] | None = profile_of(state, seat)
    return profile


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Spearman's rank correlation; 0 if one side has no order.

    >>> rank_correlation([(1, 0), (2, 5), (3, 7)]), rank_correlation([(1, 0), (1, 5)])
    (1.0, 0.0)
    """
    ranks = [
        [sum(y < x for y in side) + (side.count(x) - 1) / 2 for x in side]
        for side in zip(*pairs, strict=True)
    ]
    first, second = (np.array(each) - np.mean(each) for each in ranks)
    scale = math.sqrt(float(first @ first) * float(second @ second))
    return float(first @ second) / scale if scale else 0.0


LEAST = 0.01  # probability that a log score counts for less
LOG = (math.log(LEAST), 0.0)
BELIEF_BOUNDS = {"log_score": LOG, "exact_log_score": LOG, "unread": (0.0, 1.0)}
BELIEF_BOUNDS |= dict.fromkeys(("brier", "exact_brier", "distance"), (0.0, 2.0))


def posteriors_of(game: AnyGame, others: str) -> tuple[Posteriors, list[str]]:
    """Probabilities of the hidden card in each information set, and all cards; see `Belief`.

    Raises:
        ValueError: the game hides no card, is too large or of talk, or the action
            probabilities of `others` are unknown.
    """
    if not hasattr(game, "hidden"):
        raise ValueError(
            f"want a game that says what it hides (a method hidden) for belief, got {game!r}; "
            "take kuhn_poker or leduc_poker"
        )
    table, posteriors = _table_of(game, others), Posteriors()

    def walk(state: AnyState, reached: Sequence[float]) -> None:
        """Adds what follows; `reached` has, by seat, the probability without its own choices."""
        player = game.current_player(state)
        if player == TERMINAL or not any(reached):
            return
        if player == CHANCE:
            for outcome, chance in game.chance_outcomes(state):
                walk(game.apply(state, outcome), [chance * x for x in reached])
            return
        key = player, game.information_state(state, player)
        if (hidden_fact := game.hidden(state, player)) is not None:
            posterior = posteriors.setdefault(key, {})
            posterior[hidden_fact[1]] = (
                posterior.get(hidden_fact[1], 0.0) + reached[player]
            )
        for action, chance in zip(game.legal_actions(state), table[key], strict=True):
            after = [x if s == player else x * chance for s, x in enumerate(reached)]
            walk(game.apply(state, action), after)

    walk(game.initial_state(), [1.0] * game.num_players)
    for told in posteriors.values():
        total = math.fsum(told.values())
        told |= {name: x / total if total else 0.0 for name, x in told.items()}
    return posteriors, sorted({name for told in posteriors.values() for name in told})


def _table_of(game: AnyGame, others: str) -> InfosetTable:
    """The action probabilities of a policy; raises ValueError as `posteriors_of`."""
    want_enumerable(game)
    policy: Any = make_policy(others)
    if not is_tabular(policy):
        raise ValueError(
            f"want others with known action probabilities, got {others!r}; take random or cfr"
        )
    try:
        information_states(game, MAX_SOLVED_STATES)
    except TooLarge:
        raise ValueError(
            "belief, belief_gain and partner_gain enumerate the game: want one of at most "
            f"{MAX_SOLVED_STATES:,} states, got {game!r}; give smaller parameters, or take "
            + ("leduc_poker" if game.zero_sum else "tiny_hanabi")
        ) from None
    return tabular(policy, game, SHORT)[0]


_ENUMERATED: Memory[Any] = Memory(8)


def _known(make: Callable[..., Any], game: AnyGame, others: str) -> Any:
    """`make(game, others)`, remembered."""
    return _ENUMERATED.recall(game, lambda: make(game, others), make, others)


def belief_gain(
    episode: Episode,
    turn: Turn,
    state: AnyState,
    game: AnyGame,
    *,
    others: str = "random",
    discount: float = 1.0,
) -> float:
    """What a seat learns until its next turn: discount Φ' - Φ.

    Φ is log p(true card), at least log 0.01, p the posterior of `Belief`. Of CURIO
    (https://arxiv.org/abs/2504.03206), whose beliefs are a model's. After the last turn Φ' is 0 in a
    terminated episode, else Φ. `discount` has to be that of the estimator.
    """
    posterior = _known(beliefs_of, game, others).posterior

    def potential(at: AnyState) -> float:
        hidden_fact = game.hidden(at, turn.seat)  # type: ignore[attr-defined] # an optional fact
        p = posterior(at, turn.seat) if hidden_fact else {}
        return math.log(max(p.get(hidden_fact[1], 0.0), LEAST)) if hidden_fact else 0.0

    later, now = next_state(episode, turn, game), potential(state)
    end = 0.0 if episode.terminated else now
    return discount * (end if later is None else potential(later)) - now


def partner_gain(
    episode: Episode,
    turn: Turn,
    state: AnyState,
    game: AnyGame,
    *,
    others: str = "random",
) -> float:
    """What the other seats can expect at the seat's next turn, less what they could: V' - V.

    V is their mean expected return if all seats go on as `others`, exactly; after the last turn V' is
    their return. So the turns sum to their return less V at the first one: the gain over a baseline
    of RLHG (https://arxiv.org/abs/2401.16444), where a network estimates V.
    """
    if game.num_players == 1 or game.zero_sum:
        raise ValueError(
            f"want a game whose seats can gain together, got {game!r}; leave partner_gain out"
        )
    expected, later = _known(expected_of, game, others), next_state(episode, turn, game)
    if later is None and episode.terminated:
        after = np.array(episode.returns, float)
    else:
        after = expected(final_state(episode, game) if later is None else later)
    gain = np.delete(after - expected(state), turn.seat)
    return float(gain.mean())


def expected_of(game: AnyGame, others: str) -> Callable[[Any], Any]:
    """The function of a state that gives all expected returns if all go on as `others`."""
    table = _table_of(game, others)

    @cache
    def expected(state: AnyState) -> Any:
        player = game.current_player(state)
        if player == TERMINAL:
            return np.array(game.returns(state), float)
        if player == CHANCE:
            follow = possible_outcomes(game, state)
        else:
            row = table[player, game.information_state(state, player)]
            follow = list(zip(game.legal_actions(state), row, strict=True))
        return sum(p * expected(game.apply(state, x)) for x, p in follow)

    return expected


_CHANCE = (  # a fraction, a number, or percent
    r"(?:\\[dt]?frac\{?(?P<top>\d{1,6})\}?\{?(?P<under>\d{1,6})\}?"
    r"|(?P<over>\d{1,6})\s?/\s?(?P<below>\d{1,6})"
    r"|(?P<number>\d{0,3}\.\d{1,12}|\d{1,9})(?:[eE](?P<power>-\d{1,2})(?!\w))?)"
    r"(?P<percent>\s?(?:\\?%|percent\b))?"
)
_LINK = r"(?:[\s\"'`*_|:=~()\[\]{}\u2013\u2014\u2248$]|->?(?=\s)|->|\\[(\[,]"
_AFTER_NAME = _LINK + (
    r"|\b(?:is|has|have|gets|with|at|of|to|be|an?|the|probability|prob|chance|likelihood|card"
    r"|about)\b){0,12}"
)
_BEFORE_NAME = _LINK + (
    r"|\b(?:for|of|on|to|that|it|is|it's|an?|the|probability|prob|chance|likelihood|card|p)\b)"
    r"{0,12}"
)
_DENIED = re.compile(
    r"\b(?:not|never|no|cannot|neither)\b|n['\u2019]t\b", re.IGNORECASE
)


def _distribution(reply: str, answers: Sequence[str]) -> dict[str, float] | None:
    """The probabilities that a reply gives to the answers; None if it cannot be read."""
    text = after_reasoning(reply)
    if not isinstance(text, str):
        return None
    text = unicodedata.normalize("NFKC", text).replace("\u2044", "/")
    chances = _chances(text, answers)
    if total := math.fsum(chances.values()):
        if len(chances) == 1 < len(answers):
            return _with_others(*chances.popitem(), answers)
        return {name: chances.get(name, 0.0) / total for name in answers}
    names = [name for name in answers if re.search(_place(name), text)]
    if len(names) != 1 or chances or _DENIED.search(text):
        return None
    return {name: float(name in names) for name in answers}


def _place(name: str) -> str:
    return rf"(?<![\w.]){re.escape(name)}(?!\w)"


def _chances(text: str, answers: Sequence[str]) -> dict[str, float]:
    """The last number beside each name: before the names if the text begins so, else after."""
    longest_first = sorted(answers, key=len, reverse=True)
    names = "|".join(map(_place, longest_first))
    tokens = [m["name"] for m in re.finditer(rf"(?P<name>{names})|{_CHANCE}", text)]
    is_before = len(tokens) > 1 and tokens[0] is None and tokens[-1] is not None
    name = rf"(?P<name>{names})"
    after = rf"{name}{_AFTER_NAME}(?<![\w.]){_CHANCE}"
    before = rf"(?<![\w./-]){_CHANCE}{_BEFORE_NAME}{name}"
    pairs = rf"{name},\s*{_CHANCE}"  # (J, 0.25), (K, 0.75)
    patterns = (before, after) if is_before else (after, before, pairs)
    readings = (
        {m["name"]: _chance(m) for m in re.finditer(each, text)} for each in patterns
    )
    return next(filter(None, readings), {})


def _chance(match: re.Match[str]) -> float:
    top, under = match["top"] or match["over"], match["under"] or match["below"]
    if top is not None:
        value = int(top) / int(under) if int(under) else 0.0
    else:
        value = float(match["number"]) * 10.0 ** int(match["power"] or 0)
    return value / 100 if match["percent"] else value


def _with_others(name: str, chance: float, answers: Sequence[str]) -> dict[str, float]:
    """A distribution by the probability of one answer; the others are equally likely."""
    chance = chance / 100 if 1 < chance <= 100 else min(chance, 1.0)
    other = (1 - chance) / (len(answers) - 1)
    return {each: chance if each == name else other for each in answers}


def _scores(
    q: Mapping[str, float], p: Mapping[str, float], true: str
) -> dict[str, float]:
    def brier(forecast: Mapping[str, float]) -> float:
        return sum((forecast.get(name, 0.0) - (name == true)) ** 2 for name in q)

    return {
        "unread": 0.0,
        "log_score": math.log(max(q[true], LEAST)),
        "brier": brier(q),
        "exact_log_score": math.log(max(p.get(true, 0.0), LEAST)),
        "exact_brier": brier(p),
        "distance": sum((q[name] - p.get(name, 0.0)) ** 2 for name in q),
    }


def check_measure(measure: Measure, episodes: Sequence[Episode] | None = None) -> None:
    """Measures recorded episodes, and looks at the estimates.

    | promise | what is checked |
    |---|---|
    | nothing of nothing | no episodes give no estimates |
    | estimates | names, and `Estimate`s: a finite value within its interval, `num` of at least 1 |
    | order | further calls, with the episodes in another order, give the same |
    | arguments | the episodes are left as they are |
    | own view | a probe asks alike in states that the seat cannot tell apart |

    Args:
        measure: a function of episodes, game and seat.
        episodes: of one game; by default Kuhn poker by random play, asked what a probe asks.

    Raises:
        BrokenPromise: names the first promise that is broken.
    """
    probes = dict.fromkeys(range(2), [measure] if hasattr(measure, "question") else [])
    plans = plans_of("kuhn_poker", "random", range(24), [0])
    recorded = list(episodes or play_plans([replace(p, probes=probes) for p in plans]))
    game, before = game_of(recorded[0]), copy.deepcopy(recorded)
    mixed = random.Random(0).sample(recorded, len(recorded))
    if hasattr(measure, "question"):
        _check_view(measure, recorded, game)
    for seat in range(game.num_players):
        if estimates := dict(measure([], game, seat)):
            broken("nothing of nothing", f"no episodes give {sorted(estimates)}")
        estimates = dict(measure(recorded, game, seat))
        if recorded != before:
            broken("arguments", "the episodes have changed")
        for name, estimate in estimates.items():
            _check_estimate(name, estimate)
        if dict(measure(mixed, game, seat)) != estimates:
            broken("order", "the episodes in another order give different estimates")


def _check_view(probe: Any, episodes: Sequence[Episode], game: AnyGame) -> None:
    rng = random.Random(0)
    for episode in episodes:
        for turn, state in zip(episode.turns, turn_states(episode, game), strict=True):
            twin = game.resample(state, turn.seat, rng)
            question, twin_question = (
                probe.question(game, s, turn.seat) for s in (state, twin)
            )
            if question != twin_question:
                broken(
                    "own view", f"asks {question} or {twin_question} by what is hidden"
                )


def _check_estimate(name: str, estimate: Estimate) -> None:
    if not isinstance(name, str) or not isinstance(estimate, Estimate):
        broken("estimates", f"want an Estimate by name, got {name!r}: {estimate!r:.80}")
    low = -math.inf if estimate.low is None else estimate.low
    high = math.inf if estimate.high is None else estimate.high
    if not (
        math.isfinite(estimate.value)
        and low <= estimate.value <= high
        and estimate.num >= 1
    ):
        broken("estimates", f"want a value within its interval, got {name}: {estimate}")
