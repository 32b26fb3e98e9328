"""Reasons before the action: self-play of a pretrained model in Kuhn poker on a CPU.

    python benchmarks/night_reasons.py --hours 2   # what is missing; stops at a checkpoint, goes on
    python benchmarks/night_reasons.py --hours 0   # the section of docs/self-play.md alone

A reply is "Because K wins every showdown, so bet". SmolLM2 first imitates true reasons that a solver writes, with
actions that are mostly random (`start`). Then it plays itself, with the default credit or with
`episode`. Rows are in `docs/self-play-reasons.json`. Starts, checkpoints and adapters are in `--runs`.
"""

import json
import math
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import typer

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
from arena_trainers.cli.errors import usage_errors
from arena_trainers.data import Example
from arena_trainers.lm import LMPolicy
from arena_trainers.lm.backends.scoring import reply_logprobs
from comparing import Task, kept_runs, read, run_script, tell_outdated
from night import CURVE, DATA, DOCS, NUM_SEEDS, alone, work
from night import made_with as night_made_with
from night_page import REASONS_DATA, write_page
from night_runs import (
    CPU_SECONDS,
    HISTORY,
    NASH_CONV,
    START,
    Place,
    evaluating,
    imitate,
    learn,
    on_machine,
    policy_of,
    prepare_process,
    run_name,
)
from night_settings import (
    CARDS,
    COPIES,
    DTYPE,
    EVERY,
    LEAST_GAP,
    LORA_R,
    MARKS,
    OF_CARD,
    OF_VALUES,
    RANDOM_SHARE,
    REASON_TOKENS,
    REASONS,
    REASONS_CREDITS,
    REASONS_IMITATION,
    REASONS_OPTIONS,
    REASONS_PROMPT,
    REASONS_STAGE,
    TARGETS,
)

START_NAME = f"{REASONS_STAGE}-{START}"
MEASURES = "measures"
LOGGED = {
    "legal": "arena/legal_rate",
    "tokens": "arena/reply_tokens",
    "kl": "kl",
    "seconds": CPU_SECONDS,
}

# log P(reason and action | state): by state, reason and legal action
Table = Mapping[InfosetKey, Sequence[Sequence[float]]]


@lru_cache(1)
def solved() -> tuple[AnyGame, InfosetTable, dict[InfosetKey, list[float]]]:
    """The game, an equilibrium, and the values of actions in it."""
    game = make_game("kuhn_poker")
    solver = CFRPlus(game)
    solver.run(2000)
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
    return f"{MARKS[0]} {reason}{MARKS[1]} {action}"


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
    for key, request in requests_of(game, REASONS_PROMPT).items():
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
    requests = requests_of(solved()[0], REASONS_PROMPT)
    prompts = policy.prompts_ids([*requests.values()])
    rows = [
        (prompt, policy.chat.reply_ids(prompt, reply_of(reason, action)))
        for prompt in prompts
        for reason in REASONS
        for action in ("pass", "bet")
    ]
    with evaluating(policy.model):
        scores = iter(
            reply_logprobs(
                policy.model, rows, 1.0, pad_id=policy.pad_id, eos_ids=policy.eos_ids
            )
        )
    return {key: [[next(scores), next(scores)] for _ in REASONS] for key in requests}


def measures_of(table: Table) -> dict[str, float]:
    """What the probabilities of replies say. States count alike, and so do the three cards.

    - `nash_conv`: exact, of the actions, summed over reasons; without other replies.
    - `return`: against random play, mean over seats, exact.
    - `other`: probability of replies that are none of the listed reasons with a legal action.
    - `information`: bits of mutual information of reason and card.
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
    probs = {
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
        "nash_conv": nash_conv(game, probs),
        "return": return_against_random(game, probs),
        "other": 1 - sum(mass.values()) / num,
        "information": information(reasons),
        "of_card": of_card,
        "true": is_true / num,
        "bet": sum(p[1] for p in probs.values()) / num,
        "entropy": sum(map(entropy, probs.values())) / num,
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


def logged(policy: LMPolicy) -> dict[str, float]:
    """The measures as the trainer logs them."""
    return {
        f"night/{name}": value for name, value in measures_of(scored(policy)).items()
    }


def start(place: Place) -> Path:
    """The adapter after imitation of reasons; trained if there is none."""
    if folder := place.adapter(START_NAME):
        return folder
    options: dict[str, Any] = {
        "prompt": REASONS_PROMPT,
        "max_new_tokens": REASON_TOKENS,
    }
    options |= {"reasoning_marks": [*MARKS]}
    return imitate(place, START_NAME, examples(), REASONS_IMITATION, options)


def run(place: Place, credit: str, seed: int) -> Path:
    """The adapter after self-play; see `night_runs.run`."""
    name = run_name(REASONS_STAGE, credit, seed)
    if folder := place.adapter(name):
        return folder
    options = on_machine(place, {**REASONS_OPTIONS, "credit": credit, "seed": seed})
    return learn(place, name, options, start(place), EVERY, logged)


def made_with() -> dict[str, Any]:
    """The settings that decide the numbers: a cell counts only while they are as today."""
    prompt = {
        k: v for k, v in vars(REASONS_PROMPT).items() if k not in ("date", "shuffle")
    }
    model = {"imitation": REASONS_IMITATION, "prompt": prompt, "reasons": [*REASONS]}
    model |= {"copies": COPIES, "random_share": RANDOM_SHARE, "lora_r": LORA_R}
    model |= {"targets": [TARGETS[0], TARGETS[-1]], "dtype": DTYPE, "marks": [*MARKS]}
    settings = {START: model, REASONS_STAGE: {**model, "options": REASONS_OPTIONS}}
    names = [
        MEASURES,
        *(f"{c} {what}" for c in REASONS_CREDITS for what in (CURVE, MEASURES)),
    ]
    return {"settings": settings, "variants": {name: {} for name in names}}


def tasks() -> list[Task]:
    """All cells in the order of work."""
    runs = [(credit, seed) for seed in range(NUM_SEEDS) for credit in REASONS_CREDITS]
    cells = [
        (REASONS_STAGE, f"{credit} {what}", seed)
        for credit, seed in runs
        for what in (CURVE, MEASURES)
    ]
    return [(START, MEASURES, 0), *cells]


def do(place: Place, task: Task) -> dict[str, Any]:
    """The values of a cell; makes the start and the run that it needs.

    Raises:
        TimeIsUp: the hours of the call have passed.
    """
    stage, variant, seed = task
    place.check_time()
    credit = variant.partition(" ")[0]
    folder = start(place) if stage == START else run(place, credit, seed)
    if variant.endswith(CURVE):
        return curve(json.loads((folder / HISTORY).read_text()))
    table = scored(policy_of(place, folder))
    rows = [[[round(x, 4) for x in pair] for pair in pairs] for pairs in table.values()]
    return {**measures_of(table), "log_probs": rows}


def curve(history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the trainer logged at each step, and the measures of some steps."""
    steps = [line for line in history if "step_time" in line]
    values: dict[str, Any] = {
        name: [round(line[key], 5) for line in steps if key in line]
        for name, key in LOGGED.items()
    }
    points = {line["step"]: line for line in history if NASH_CONV in line}
    values["points"] = {
        step: {
            key.removeprefix("night/"): round(value, 5)
            for key, value in line.items()
            if key.startswith("night/")
        }
        for step, line in points.items()
    }
    return values


def main(
    hours: Annotated[
        float, typer.Option(min=0, help="How long to work; 0 writes the page alone.")
    ] = 2.0,
    runs_at: Annotated[
        Path, typer.Option("--runs", help="Folder of starts, checkpoints, adapters.")
    ] = Path("runs/night"),
    directory: Annotated[
        Path, typer.Option("--directory", help="Folder of page and data.")
    ] = DOCS,
) -> None:
    """Does the missing cells in their order, and writes the page."""
    prepare_process()
    path, settings = directory / REASONS_DATA, made_with()
    tell_outdated(path, settings)
    with usage_errors():
        runs = read(path, settings)
    place = Place(runs_at, until=time.monotonic() + 3600 * hours)
    todo = [t for t in tasks() if t[2] not in runs.get(t[0], {}).get(t[1], {})]
    with kept_runs(path), usage_errors(), alone(runs_at):
        work(place, do, todo, runs, path, settings)
    write_page(directory, read(directory / DATA, night_made_with()))


if __name__ == "__main__":
    run_script(main)
