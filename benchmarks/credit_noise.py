"""How noisy `control_variates` is beside `random_effects`, `mars` and whole episodes.

In games of rounds, a policy that is right with probability 1/2 (or sure of a wrong answer in a
share of the states) answers one of 16 symbols with one of 8 answers. In games of cards and in
tic-tac-toe, a mixture of the uniform policy and one of CFR plays against itself. All estimators
see the same batches. The noise is E[A²] E[A*²] / E[A A*]², with A* the exact advantage: the mean
square of the advantage after it is scaled to slope 1 on A*, relative to the least possible. Its
interval is a 95 % jackknife over batches, of its logarithm.

    python benchmarks/credit_noise.py --write

writes docs/credit/noise.json, row by row: it may be stopped and goes on where it was. Then it
writes the tables of docs/credit/surprise.md, with those of `credit_starts.py`. About ten CPU minutes.
"""

import argparse
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import comparing
import credit_starts as starts
from arena_credit import FlatPoolWarning, TurnBatch, estimate
from arena_envs import make_game
from arena_envs.solvers import CFRPlus

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "credit"
FILE, PAGE = FOLDER / "noise.json", FOLDER / "surprise.md"
ESTIMATORS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "episode": ("dr_grpo", {"pool": ("game", "seat")}),
    "mars": ("mars", {}),
    "mars by turn": ("mars", {"pool": ("game", "seat", "turn")}),
    "mars_loo": ("mars_loo", {}),
    "random_effects": ("random_effects", {}),
    "control_variates": ("control_variates", {}),
}
NEW = "control_variates"
SEED = 7919
NUM_SYMBOLS, NUM_ANSWERS = 16, 8
SKILL = 0.5  # probability of the answer that a state's policy prefers
LUCK = 20.0
MOST_ROUNDS, MOST_STOPPED = 64, 60


class Cell(NamedTuple):
    """A setting: which game, its options, its groups and their size.

    after: the last turn whose advantages do not count, such as that of a jackpot.
    """

    section: str
    game: str
    options: Mapping[str, Any]
    groups: int = 16
    size: int = 8
    after: int = -1


class Sample(NamedTuple):
    """A batch, and the exact advantage of its rows."""

    turns: TurnBatch
    advantage: Any


def rounds_cell(section: str, groups: int = 16, size: int = 8, **options: Any) -> Cell:
    """A game of rounds."""
    after = options.pop("after", -1)
    return Cell(section, "rounds", options, groups, size, after)


def cells() -> Iterator[Cell]:
    """All settings, in the order of the tables."""
    for num in (1, 2, 4, 8, 16, 32, 64):
        for pay in ("end", "each", "luck first", "luck last", "wage", "advance"):
            if num > 1 or pay in ("end", "luck last"):
                yield rounds_cell("rounds", num=num, pay=pay)
    yield rounds_cell("rounds", num=12, pay="luck last")
    for num in (8, 32, 48):
        for wrong in (0.3, 0.5, 1.0):
            for pay in ("end", "each"):
                yield rounds_cell("wrong", num=num, pay=pay, wrong=wrong)
    for num in (8, 32):
        for pay in ("end", "each"):
            yield rounds_cell("partly", num=num, pay=pay, policy="lift")
    for size in (2, 4, 8, 16):
        for episodes in (8, 32, 128):
            for pay in ("end", "each"):
                if size <= episodes:
                    groups = episodes // size
                    yield rounds_cell("sizes", groups, size, num=4, pay=pay, wrong=0.3)
    for num in (1, 2, 4):
        for pay in ("end", "each", "luck last"):
            if num > 1 or pay != "each":
                yield rounds_cell("pairs", 2, 2, num=num, pay=pay)
    for groups, size in ((4, 4), (16, 8)):
        for wrong in (0.0, 0.5):
            for mean in (0.0, 10.0):
                options = {"mean": mean, "wrong": wrong}
                yield Cell("lengths", "stopped", options, groups, size)
    for groups, size in ((4, 4), (16, 8)):
        for chance in (0.02, 0.05):
            more = {"num": 4, "pay": "each", "wrong": 0.3, "jackpot": chance}
            yield rounds_cell("jackpots", groups, size, after=1, **more)
    for groups, size in ((8, 4), (16, 8), (32, 8)):
        for num in (2, 8, 32):
            for pay in ("end", "each"):
                yield rounds_cell(
                    "unrelated", groups, size, num=num, pay=pay, policy="unrelated"
                )
    for game in ("kuhn_poker", "leduc_poker", "tic_tac_toe"):
        for skill in (0.0, 0.3, 0.8, 0.95):
            for groups in (4, 16):
                yield Cell("games", game, {"skill": skill}, groups, 8)


class Answers(NamedTuple):
    """The policy of rounds: float64[S, A], the value of each answer, and its surprise.

    entropy: float64[S].
    """

    policy: Any
    value: Any
    surprise: Any
    entropy: Any


def answers(kind: str, wrong: float) -> Answers:
    """How each symbol is answered. A value is 1 for the right answer, less its mean.

    `skill`: right with probability `SKILL`; sure of a wrong answer in a share of the symbols.
    `lift`: random logits, and 2 more for the right answer. `unrelated`: the value of an answer
    is not correlated with its surprise.
    """
    rng = np.random.default_rng(5)
    value = np.zeros((NUM_SYMBOLS, NUM_ANSWERS))
    value[:, 0] = 1.0
    if kind == "skill":
        policy = np.full_like(value, (1 - SKILL) / (NUM_ANSWERS - 1))
        preferred = np.zeros(NUM_SYMBOLS, np.int64)
        preferred[: round(wrong * NUM_SYMBOLS)] = 1
        policy[np.arange(NUM_SYMBOLS), preferred] = SKILL
    elif kind == "lift":
        policy = np.exp(rng.normal(size=value.shape) + 2 * value)
        policy /= policy.sum(axis=1, keepdims=True)
    else:
        policy = rng.dirichlet(np.full(NUM_ANSWERS, 0.5), NUM_SYMBOLS) + 0.01
        policy /= policy.sum(axis=1, keepdims=True)
        value = rng.normal(size=value.shape)
    logs = np.log(policy)
    surprise = logs - (policy * logs).sum(axis=1, keepdims=True)
    value = value - (policy * value).sum(axis=1, keepdims=True)
    if kind == "unrelated":
        product = (policy * value * surprise).sum(axis=1, keepdims=True)
        square = (policy * surprise**2).sum(axis=1, keepdims=True)
        value = value - product / square * surprise
    entropy = -(policy * logs).sum(axis=1)
    return Answers(policy, value, surprise, entropy)


def explained(kind: str, wrong: float = 0.0) -> float:
    """R² of the value of an answer by its surprise, with one slope for all symbols."""
    policy, value, surprise, _ = answers(kind, wrong)
    covariance = (policy * value * surprise).sum()
    variances = (policy * value**2).sum() * (policy * surprise**2).sum()
    return float(covariance**2 / variances)


def rounds(cell: Cell, rng: np.random.Generator) -> Sample:
    """A batch of games of `num` rounds, whose symbols a group shares."""
    num, pay = cell.options["num"], cell.options["pay"]
    wrong, kind = cell.options.get("wrong", 0.0), cell.options.get("policy", "skill")
    policy, value, surprise, entropy = answers(kind, wrong)
    symbol = np.repeat(
        rng.integers(NUM_SYMBOLS, size=(cell.groups, num)), cell.size, axis=0
    )
    answer = _draw(policy, symbol, rng)
    gain = value[symbol, answer]
    if kind != "unrelated":
        gain = (answer == 0).astype(np.float64)
    reward = gain.copy()
    if pay == "end":
        reward = np.zeros_like(gain)
        reward[:, -1] = gain.sum(axis=1)
    luck = np.repeat(rng.choice([-LUCK, LUCK], size=cell.groups), cell.size)
    if pay == "luck first":
        reward[:, 0] += luck
    if pay == "luck last":
        reward[:, -1] += luck
    if pay == "wage":
        reward += 2
    if pay == "advance":
        advance = rng.choice([0, LUCK], size=len(gain))
        reward[:, 0] += advance
        reward[:, -1] -= advance
    if "jackpot" in cell.options:
        reward[:, 1] += 100.0 * (rng.random(len(gain)) < cell.options["jackpot"])
    played = np.ones(reward.shape, bool)
    chosen = surprise[symbol, answer], entropy[symbol]
    return _sample(cell, reward, *chosen, value[symbol, answer], played)


def stopped(cell: Cell, rng: np.random.Generator) -> Sample:
    """A batch of games that end after each round with probability 0.2, paid at the end."""
    policy, value, surprise, entropy = answers("skill", cell.options["wrong"])
    episodes = cell.groups * cell.size
    symbol = np.repeat(
        rng.integers(NUM_SYMBOLS, size=(cell.groups, MOST_STOPPED)), cell.size, axis=0
    )
    answer = _draw(policy, symbol, rng)
    length = np.minimum(rng.geometric(0.2, size=episodes), MOST_STOPPED)
    played = np.arange(MOST_STOPPED) < length[:, None]
    gain = np.where(played, 2.0 * (answer == 0) - 1, 0.0)
    reward = np.zeros(played.shape)
    reward[np.arange(episodes), length - 1] = gain.sum(axis=1) + cell.options["mean"]
    exact = 2 * value[symbol, answer]
    chosen = surprise[symbol, answer], entropy[symbol]
    return _sample(cell, reward, *chosen, exact, played)


def _draw(policy: Any, symbol: Any, rng: np.random.Generator) -> Any:
    bounds = policy.cumsum(axis=1)[symbol]
    drawn = (rng.random(symbol.shape)[..., None] > bounds).sum(axis=-1)
    return drawn.clip(0, NUM_ANSWERS - 1)


def _sample(
    cell: Cell, reward: Any, surprise: Any, entropy: Any, exact: Any, played: Any
) -> Sample:
    episode, turn = np.nonzero(played)
    zeros = np.zeros(len(episode), np.int64)
    tokens = {
        "logprob": (surprise - entropy)[played],
        "entropy": entropy[played],
    }
    turns = TurnBatch(
        reward=reward[played],
        game=zeros,
        episode=episode,
        seat=zeros,
        turn=turn,
        group=episode // cell.size,
        num_tokens=zeros + 1,
        tokens=tokens,
    )
    return Sample(turns, exact[played])


class Position(NamedTuple):
    """What play needs of a state: who moves (-1 chance), the choices, and where they lead.

    logprob: of each choice. value: float64[seats], expected returns.
    """

    seat: int
    policy: Any
    logprob: Any
    children: list[Any]
    value: Any


CHANCE, END = -1, -4


@cache
def solved(game: str) -> Mapping[Any, Any]:
    """The average policy of CFR+, by seat and information state."""
    solver = CFRPlus(make_game(game))
    solver.run(20 if game == "tic_tac_toe" else 100)
    return solver.average_policy()


@cache
def positions(game: str, skill: float) -> tuple[Any, Mapping[Any, Position]]:
    """The first state, and all states under the mixed policy."""
    rules, table = make_game(game), solved(game)
    known: dict[Any, Position] = {}

    def look(state: Any) -> Position:
        if state in known:
            return known[state]
        seat = rules.current_player(state)
        policy, logprob, choices = np.ones(0), np.ones(0), []
        if seat == CHANCE:
            outcomes = rules.chance_outcomes(state)
            choices = [choice for choice, _ in outcomes]
            policy = np.array([chance for _, chance in outcomes])
        elif seat != END:
            choices = list(rules.legal_actions(state))
            uniform = np.full(len(choices), 1 / len(choices))
            best = table.get((seat, rules.information_state(state, seat)), uniform)
            policy = skill * np.asarray(best) + (1 - skill) * uniform
            logprob = np.log(np.where(policy > 0, policy, 1.0))
        children = [rules.apply(state, choice) for choice in choices]
        if children:
            value = policy @ np.array([look(child).value for child in children])
        else:
            value = np.array(rules.returns(state), np.float64)
        known[state] = Position(seat, policy, logprob, children, value)
        return known[state]

    first = rules.initial_state()
    look(first)
    return first, known


def self_play(cell: Cell, rng: np.random.Generator) -> Sample:
    """A batch of self-play, whose groups share the draws of chance."""
    first, known = positions(cell.game, cell.options["skill"])
    columns: list[tuple[float, ...]] = []
    for group in range(cell.groups):
        shared = rng.random(16)
        for place in range(cell.size):
            state, draws, episode = first, 0, group * cell.size + place
            turn: dict[int, int] = {}
            rows: list[tuple[float, ...]] = []
            while (position := known[state]).seat != END:
                chance = position.seat == CHANCE
                drawn = shared[draws] if chance else rng.random()
                choice = int((drawn > position.policy.cumsum()).sum())
                choice = min(choice, len(position.policy) - 1)
                state, draws = position.children[choice], draws + chance
                if chance:
                    continue
                seat = position.seat
                exact = known[state].value[seat] - position.value[seat]
                number = turn.get(seat, 0)
                turn[seat] = number + 1
                logprob = position.logprob[choice]
                entropy = -(position.policy @ position.logprob)
                rows.append((episode, seat, number, group, logprob, entropy, exact))
            returns = position.value
            columns += [
                (*row, returns[int(row[1])] * (row[2] == turn[int(row[1])] - 1))
                for row in rows
            ]
    episodes, seats, turns, groups, logprob, entropy, exact, reward = np.array(
        columns
    ).T
    zeros = np.zeros(len(columns), np.int64)
    batch = TurnBatch(
        reward=reward,
        game=zeros,
        episode=episodes.astype(int),
        seat=seats.astype(int),
        turn=turns.astype(int),
        group=groups.astype(int),
        num_tokens=zeros + 1,
        tokens={"logprob": logprob, "entropy": entropy},
    )
    return Sample(batch, exact)


GAMES: Mapping[str, Callable[[Cell, np.random.Generator], Sample]] = {
    "rounds": rounds,
    "stopped": stopped,
}


def num_batches(cell: Cell) -> int:
    """Fewer where a batch has more turns."""
    turns = cell.groups * cell.size * cell.options.get("num", 5)
    return int(np.clip(24_000 // turns, 12, 600))


def noises(cell: Cell, batches: int | None = None) -> dict[str, list[float]]:
    """The noise of each estimator with the bounds of its interval."""
    play = GAMES.get(cell.game, self_play)
    squares: dict[str, list[Any]] = {name: [] for name in ESTIMATORS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatPoolWarning)
        for number in range(batches or num_batches(cell)):
            turns, exact = play(cell, np.random.default_rng([SEED, number]))
            counted = turns.turn > cell.after
            exact = exact[counted]
            for name, (estimator, options) in ESTIMATORS.items():
                advantage = estimate(estimator, turns, **options).advantage[counted]
                means = [advantage @ advantage, exact @ exact, advantage @ exact]
                squares[name].append(np.array(means) / len(exact))
    return {name: interval(np.array(rows)) for name, rows in squares.items()}


def interval(squares: Any) -> list[float]:
    """The noise and its bounds from the means of A², A*² and A A* of each batch."""

    def of(mean: Any) -> float:
        return float(mean[0] * mean[1] / mean[2] ** 2) if mean[2] > 0 else math.inf

    num, total = len(squares), squares.sum(axis=0)
    value = of(total)
    without = [of(total - row) for row in squares]
    if not math.isfinite(max(without, default=math.inf)) or num < 2:
        return [round(value, 4), 1.0, math.inf]
    wide = 1.96 * math.sqrt((num - 1) * float(np.var(np.log(without))))
    bounds = (value, value * math.exp(-wide), value * math.exp(wide))
    return [round(bound, 4) for bound in bounds]


def measured() -> dict[str, dict[str, list[float]]]:
    """The rows of the file, by their cell as JSON."""
    rows = json.loads(FILE.read_text()) if FILE.exists() else []
    return {json.dumps(row["cell"]): row["noise"] for row in rows}


def key_of(cell: Cell) -> str:
    return json.dumps(cell._asdict())


def measure() -> None:
    """Measures the cells that the file lacks, and writes it after each."""
    known = measured()
    for cell in cells():
        if key_of(cell) not in known:
            known[key_of(cell)] = noises(cell)
            keys = [key_of(one) for one in cells()]
            rows = [
                json.dumps({"cell": json.loads(key), "noise": known[key]})
                for key in keys
                if key in known
            ]
            FILE.write_text("[\n" + ",\n".join(rows) + "\n]\n")


TITLES = {
    "rounds": "Rounds, right with probability 1/2: the surprise separates right from wrong",
    "wrong": "Rounds, sure of a wrong answer in a share of the states",
    "partly": "Rounds, log-probabilities that follow the value in part",
    "sizes": "Four rounds, sure of a wrong answer in 30 % of the states",
    "pairs": "Two groups of two",
    "lengths": "Rounds that end with probability 0.2 each, paid at the end",
    "jackpots": "Jackpots of 100 after the second of four rounds; turns 3 and 4",
    "unrelated": "Rounds, value not correlated with surprise",
    "games": "Self-play; skill 0 is the uniform policy, 1 that of CFR+",
}
BASELINES = ("episode", "mars", "mars_loo")
DEFEAT = 1.05
PAGE_TEXT = """# Surprise: credit whose noise need not grow with the horizon

Written by `benchmarks/credit_noise.py`; a test keeps it up to date.

`control_variates` computes

    Aₖ = Rₖ - Bₖ - Σ_{j > k} γ^{j - k} βⱼ mⱼ - (other seats' surprise, times its slopes)

Rₖ is the return-to-go of turn k, Bₖ its baseline from other episodes, γ the discount, and βⱼ a regression slope.

**Surprise.** mⱼ = Σ (log π(token) + H) over the tokens of turn j, with the entropy H of the distribution of each token. Every term has
mean 0 given the tokens before it. So mⱼ has mean 0 given the past of turn j, whatever action an earlier turn k took. Subtracting βⱼ mⱼ
from Rₖ adds no bias if βⱼ is fitted on other episodes. If likelier choices are better, it subtracts the luck of later choices. It needs no
critic.

**What to expect.** R² is the share of the variance of a choice's value that a linear function of its surprise explains.

| Noise in T equal rounds | paid at the end | each round paid |
|---|---|---|
| without surprise | T | about (T + 1) / 2 |
| with surprise | 1 + (1 - R²)(T - 1) | about 1 + (1 - R²)(T - 1) / 2 |

R² is 0 for a uniform policy, whose surprise is 0, and wherever surprise is not correlated with value. R² is large where the policy is already
better than chance.

**Engines.** The transformers engine computes entropies from its logits. vLLM and servers return only the 20 likeliest tokens. There every
other token is treated as if it were as likely as the 20th, which keeps the mean of the surprise at 0. For tokens with probabilities in
proportion to rank^-s, this estimate explains the following share of the variance of the exact surprise. SGLang was not tried.

| s | entropy, nats | 20 tokens | 5 tokens |
|---|---|---|---|
| 3 | 0.7 | 1.00 | 0.96 |
| 2 | 1.6 | 0.94 | 0.80 |
| 1.5 | 3.2 | 0.80 | 0.60 |

**Use it.** It is the default of `arena train`, with every engine. In your own trainer: `estimate("control_variates", turns)` with the token
columns `logprob` and `entropy` of the sampling distribution, after temperature, top-k, top-p and min-p. Without these two columns, or with
`credit_args: {surprise: false}`, m is 0 and only the baseline is subtracted. With the column `span` (0 reasoning, 1 answer) reasoning and answer have
separate slopes, so that the surprise of long reasoning does not hide that of the answer.

**Check.** If `logprob` and `entropy` are of different distributions, such as log-probabilities after a temperature of 0.7 and entropies before
it, the mean of the surprise is not 0 and the credit is biased. Every batch tests this. With the surprise m of a token and a lower bound E m² of its
mean square (below), summed over all tokens:

    z = Σ m / √(max(Σ m², Σ E m²) + 6 |Σ m|)

The last term, in nats, allows for rare tokens that the batch does not hold. With right columns |z| > 5 is about as rare as for a normal variable, for
uniform and for peaked policies, in batches of any size. With 25 tokens or fewer it is impossible. If |z| > 5, `SurpriseWarning` says what to pass, and
the credit stays as it is. `report.surprise_z` and the metric `arena/surprise_z` have z. `tests/credit/test_tokens.py` tells temperatures of 0.7 and 1
apart with 1,024 turns of eight tokens. Policies with less entropy need more tokens. Under a uniform policy a wrong temperature changes nothing.

**Action values.** `credit_args: {action_values: true}` adds a critic's Q(s, a) - Σ π Q beside the surprise. It subtracts the luck of other
turns also where surprise is uninformative. The policy's mean of this difference is 0 for any Q, so a wrong critic adds no bias.

| critic | Q | cost |
|---|---|---|
| `exact` | by enumeration of the game | small games only |
| `features` | a network on `Game.features`, fitted to earlier batches | the probability of each legal action's reply |
| `tokens` | values of the model's hidden states, before the end token | the same, and a forward pass of these replies |

`features` and `tokens` score the canonical reply of each legal action. In a step of Kuhn poker
with the tiny model, on one core, credit takes 0.13 s without a critic, 0.3 s with `tokens`, and 0.7 s with `features`, which also fits its networks.
Other replies than the canonical ones count as 0. It needs a game whose actions can be listed, and replies sampled from all tokens.

**Cost.** On one core: 100,000 turns take 0.5 to 1.5 s (`benchmarks/credit_speed.py`). A batch of 128 episodes of Kuhn poker takes 7 ms (`random_effects`: 0.6 ms), mostly
numpy's overhead on small arrays. A training step takes 108 ms with the tiny model, so credit is 7 % of it and the entropies of its tokens 0.8 %;
with SmolLM2 (135 million parameters, 13 s) credit is 0.05 %. The entropies of 32 tokens with a vocabulary of 49,152 take 4.5 ms; that model generates these tokens in 250 ms.

## Equations

All of this is computed per game and seat. Slopes and means are fitted on other episodes. A tree of episodes (`parent`) and a rollout each count
as one episode.

| Step | Equation |
|---|---|
| Folds | up to 16; an episode's slopes come from the other folds, its means from all other episodes |
| Backward over turns | Dₖ = Rₖ - Σ_{j > k} γ^{j - k} βⱼ mⱼ |
| Regression of turn k | D on mₖ; what was paid before; own earlier surprise; other seats' surprise before and after, in this order |
| Rows | (x - mean of the group) + √λ (mean of the group - mean), λ = mean square within / between, at most 1, and 0 below 0.2 |
| Ridge | two rows of the column's mean square; 0.1 rows for columns of the past; and what the squares of a column of surprise lack of E m² |
| E m² | per token at least p (log p + H)² + (1 - p)(H - h)², with h = (H + p log p) / (1 - p) the mean of -log π of the other tokens; exact for two tokens |
| Slope along a direction | z max(0, 1 - c (1 + h) / F), c = 4 f / (f - 2) (1 + number of slopes inside), f degrees of freedom left, h the row's leverage in columns of the past |
| βₖ | mean over turns (DerSimonian and Laird), itself shrunk by 1 - 4 / F, plus max(τ² / (τ² + v), 1 - 4 v / (b - mean)²) of the difference |
| Second pass | earlier and other surprise weighed with the slopes of the first |
| Slope of a group | βₖ plus δ, δ = τ² Σ x e / (τ² Σ x² + s), s = Σ x² e² / Σ x²; x the surprise and e what is left of D, both less the group's mean |
| τ² | Σ of the products x e x' e' of pairs of a group / Σ of x² x'², over the turns from k on; times max(0, 1 - 2 standard errors) |
| Value of another episode | y = D - prediction - βₖ mₖ |
| Level of a turn | seat, turn and group nested: `turn = seat + kₜ (mean of other groups - seat)`, `level = turn + k (mean of the group - turn)` |
| Weights | kₜ = A / (A + σ² / n + τ² / G), k = V / (V + σ² / m), V = A (1 - kₜ) + τ² |
| Advantage | Aₖ = Dₖ - prediction - level |

The prediction for turn k uses no data of turn k itself, so not mₖ. Surprise of other seats may come later than turn k, so it enters
linearly. In a group the states of a turn may be alike, so that a slope of the group tells whether the likelier choice is right there. A regression has at most one column per three degrees of freedom. So in small batches all slopes are 0, and the level approaches the
mean of other episodes (`mars_loo`).

**Test.** `tests/credit/test_control_variates.py` enumerates every batch of two groups of two, and every group of six, of small games: with lengths
that depend on play, shared chance, payments on the way and two seats. The expected gradient is exact to 1e-12. This also holds without
shrinkage of the slopes (c = 0), where a slope that used its own episode would show most.

## Noise

Noise is E[A²] E[A*²] / E[A A*]², with A* the exact advantage; 1 is the least possible. Policies are fixed. All columns see the same batches.
Bold: the least of the row. A row names the number of rounds (`num`), when they are paid, and the policy: `wrong 0.3` is sure of a wrong answer in 30 %
of the states.

"""


OUTCOME = """## Outcome

Less noise does not have to mean faster learning. The table counts batches of 32 episodes until a table of logits is right with probability 0.9,
from three starts (`benchmarks/credit_starts.py`, [starts.json](starts.json)). Each credit has the best of three step sizes; five seeds, 95 %
intervals. Bold: significantly fewer than both others (Welch's t-test with Holm's correction over a row).

- From a start above chance (right in 0.34), `control_variates` needs 0.14 to 0.6 times as many batches as `random_effects`; the difference is
  significant with 32 and 64 rounds.
- From the other two starts it needs 0.8 to 1.4 times as many: significantly fewer in five of twelve rows, four of them with each round paid, and
  more in one (sure of a wrong answer in half, 32 rounds, paid at the end: 43 against 30).
- With the tiny language model, which starts uniform, no difference is found ([language.md](language.md)).

"""


def text_of(cell: Cell) -> str:
    """The setting in words."""
    words = [f"{value}" if key in ("pay", "policy") else f"{key} {value:g}"
             for key, value in cell.options.items()]  # fmt: skip
    if cell.game not in GAMES:
        words = [cell.game, *words]
    return f"{', '.join(words)}; {cell.groups} x {cell.size}"


def number(value: float) -> str:
    """Three digits; two from 100 on, where intervals are wide."""
    if not math.isfinite(value):
        return "-"
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 100 else f"{value:.3g}"


def page() -> str:
    """The page, from the rows of the file."""
    known = measured()
    parts = [PAGE_TEXT.rstrip()]
    for section, title in TITLES.items():
        names = list(ESTIMATORS)
        lines = [
            f"### {title}",
            "",
            "| Setting; groups x size | " + " | ".join(names) + " |",
        ]
        lines.append("|---" + "|--:" * len(names) + "|")
        for cell in cells():
            if cell.section == section and key_of(cell) in known:
                noise = known[key_of(cell)]
                least = min(value[0] for value in noise.values())
                texts = [
                    f"**{number(value[0])}**" if value[0] <= least else number(value[0])
                    for value in noise.values()
                ]
                lines.append(f"| {text_of(cell)} | " + " | ".join(texts) + " |")
        parts.append("\n".join(lines))
    parts.append("## Where simpler credit is less noisy\n\n" + defeats())
    parts.append(OUTCOME.rstrip() + "\n\n" + outcomes())
    return "\n\n".join(parts) + "\n"


def outcomes() -> str:
    """The batches until the goal of each setting of `credit_starts` with all runs."""
    head = ["Start", "Rounds", "Paid", *starts.CREDITS]
    known, rows = starts.measured(), []
    for setting in starts.settings():
        runs = known.get(setting, {})
        if setting not in known or starts.missing(runs):
            continue
        values = {
            credit: [
                float(number)
                for run, number in runs.items()
                if run.credit == credit and run.seed in starts.SEEDS
            ]
            for credit in starts.CREDITS
        }
        others = {
            name: comparing.difference(values[name], values[NEW])
            for name in values
            if name != NEW
        }
        is_best = all(
            d.is_significant and d.value > 0 for d in comparing.holm(others).values()
        )
        cells = [batches(values[name], bold=name == NEW and is_best) for name in values]
        rows.append([setting.start, str(setting.num), setting.pay, *cells])
    steps = [
        starts.best_step(runs, name)
        for runs in known.values()
        for name in starts.CREDITS
    ]
    largest = steps.count(starts.STEPS[-1])
    edge = f"{largest} of {len(steps)} best steps are the largest of the three, so a larger step might be better."
    return f"{comparing.table(head, rows)}\n{edge}"


def batches(values: Sequence[float], *, bold: bool) -> str:
    """A mean with half its interval."""
    mean = comparing.interval(values)
    text = f"{mean.mean:.0f} ± {mean.mean - mean.low:.0f}"
    if mean.mean >= starts.MAX_BATCHES:
        text = f"over {starts.MAX_BATCHES}"
    return f"**{text}**" if bold else text


def defeats() -> str:
    """All settings whose noise is above 1.05 times the least of `BASELINES`."""
    lines = [
        f"Settings with more than {DEFEAT} times the noise of the best of "
        f"{', '.join(f'`{name}`' for name in BASELINES)}:",
        "",
        "| Setting | noise | best | times |",
        "|---|--:|--:|--:|",
    ]
    known = measured()
    for cell in cells():
        noise = known.get(key_of(cell))
        if noise is not None:
            best = min(noise[name][0] for name in BASELINES)
            mine = noise[NEW][0]
            if mine > DEFEAT * best:
                setting = f"{cell.section}: {text_of(cell)}"
                lines.append(
                    f"| {setting} | {number(mine)} | {number(best)} | {mine / best:.2f} |"
                )
    lines += [
        "",
        "In batches of four, `random_effects` has less noise than `control_variates` where groups share much luck. It compares an episode "
        "with the other one of its group: noise 1.8 to 4.7. `control_variates` needs more evidence for shared luck than one pair of "
        "equal returns: 8 to 38. `mars`: 430 or more.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="into docs/credit")
    if not parser.parse_args().write:
        sys.exit("python benchmarks/credit_noise.py --write")
    measure()
    PAGE.write_text(page())
