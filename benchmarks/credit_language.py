"""Turn-level credit with language models, in games that pay on the way: learning curves.

    python benchmarks/credit_language.py
    python benchmarks/credit_language.py --model smollm2

does the missing runs of a model one after another, and writes its file after each; then the page
and the picture. Step sizes are tuned first, on a seed of their own.
"""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from transformers import AutoModelForCausalLM, AutoTokenizer

import comparing
from arena_envs import make_game
from arena_envs.extras import import_extra
from arena_envs.games.iterated_matrix_game import IteratedMatrixGame
from arena_envs.games.rounds import Rounds
from arena_envs.games.rounds import State as Round
from arena_envs.solvers import complete_table, expected_returns
from arena_eval.exploit import tabular
from arena_trainers.lm import LMPolicy
from arena_trainers.lm.models import model_folder
from comparing import (
    OnlySettings,
    Task,
    draw_band,
    final,
    gain,
    interval,
    kept_runs,
    paired_difference,
    run_script,
    table,
)
from credit_payments import SIZE, Payment, payments_table
from credit_runs import Crediting
from credit_settings import Variant
from credit_trees import FILE as TREES_FILE
from credit_trees import NUM_FITTED
from credit_trees import VARIANTS as COLUMNS
from gains import Curves, Start, be_quiet, learn_by_grpo, make_saved_start
from tabular import Graph, TabularPolicy

DOCS = Path("docs", "credit")
FILES = {"tiny": "language_tiny.json", "smollm2": "language_smollm2.json"}
PAGE, PICTURE = "language.md", "language.png"
NUM_COLUMNS = 5  # of the picture
TUNED_ON = 1000  # the seed of the runs that choose the step size


@dataclass(frozen=True)
class Symbols(Rounds):
    """`rounds` in few words: the round and the symbol."""

    def observe(self, state: Round, seat: int) -> str:
        if self.current_player(state) < 0:
            return super().observe(state, seat)
        return f"Round {state.number + 1}. Symbol {chr(65 + state.symbol)}."

    def action_text(self, state: Round, action: int) -> str:
        return str(action)


_TABLE: Any = make_game("rock_paper_scissors")


@dataclass(frozen=True)
class Repeated(IteratedMatrixGame):
    """Rock paper scissors of eight rounds in few words: the round and the own last choice.

    `tit_for_tat` repeats it, so that the best choice beats it.
    """

    payoffs: Sequence[Any] = _TABLE.payoffs
    actions: Sequence[Any] = ("Rock", "Paper", "Scissors")
    num_rounds: int = 8

    def observe(self, state: Any, seat: int) -> str:
        if self.current_player(state) < 0:
            return super().observe(state, seat)
        start = f"Round {len(state.rounds) + 1}."
        if not state.rounds:
            return start
        return f"{start} You {self.names[seat][state.rounds[-1][seat]]}."


@dataclass(frozen=True)
class Setting:
    """A game and a model that learns it.

    Args:
        title: in tables.
        model: `"tiny"` or `"smollm2"`.
        game: an entry of `games`.
        unit: what a reward is multiplied with.
        num_seeds: runs of each variant.
        num_steps: optimizer steps of a run.
        every: steps between the points of a curve.
        steps: step sizes among which each variant chooses.
        options: of `arena train`, beside those of `OPTIONS` of the model.
        variants: that are compared.
        right_at_start: probability of the right answer to which SmolLM2 is first taught; 0 leaves
            it as it comes.
    """

    title: str
    model: str
    game: Mapping[str, Any]
    unit: float
    num_seeds: int
    num_steps: int
    every: int
    steps: Sequence[float]
    options: Mapping[str, Any] = field(default_factory=dict)
    variants: Sequence[str] = ("episode", "mars", "random_effects", "default")
    right_at_start: float = 0.0


_SHORT: dict[str, Any] = {
    "rules": False,
    "show_legal_actions": False,
    "reply_format": "bare",
    "beta": 0.1,
    "num_generations": 8,
    "lr_scheduler_type": "linear",
    "max_grad_norm": 1.0,
    "bf16": False,
    "gradient_checkpointing": False,
    "use_cpu": True,
    "save_strategy": "no",
    "logging_strategy": "no",
}
OPTIONS: dict[str, dict[str, Any]] = {
    "tiny": {
        **_SHORT,
        "model": "tiny",
        "max_completion_length": 2,
        "warm_start_steps": 60,
        "warm_start_batch_size": 64,
        "warm_start_episodes": 200,
        "episodes_per_step": 32,
    },
    "smollm2": {
        "prompt": "Symbol {}. Answer:",
        "num_layers": 2,
        "entropy": 0.1,
        "groups": 4,
        "num_generations": 8,
    },
}
_SYMBOLS, _REPEATED = "credit_language:Symbols", "credit_language:Repeated"
_RANDOM = {"opponents": ["self", "random"]}
_FALLING = {"stakes": "falling"}
_GRID = (1e-3, 2e-3, 4e-3)


def _board(title: str, game: Mapping[str, Any]) -> Setting:
    """A game of the catalogue, small enough for exact returns."""
    return Setting(
        title,
        "tiny",
        game,
        unit=1.0,
        options={"max_completion_length": 6},
        variants=("episode", "mars", "default"),
        num_seeds=5,
        num_steps=24,
        every=6,
        steps=(2e-3, 4e-3, 8e-3),
    )


def _smollm2_setting(
    title: str,
    params: Mapping[str, Any],
    unit: float = 1.0,
    right_at_start: float = 0.0,
) -> Setting:
    """`rounds` of 16 symbols and eight answers."""
    return Setting(
        title,
        "smollm2",
        {"id": "rounds", "params": {**SIZE, **params}},
        unit=unit,
        num_seeds=3,
        num_steps=60,
        every=5,
        steps=(2e-4, 4e-4, 8e-4),
        right_at_start=right_at_start,
    )


SETTINGS: dict[str, Setting] = {
    "falling": Setting(
        "falling stakes",
        "tiny",
        {"id": _SYMBOLS, "params": _FALLING},
        unit=1 / 64,
        num_seeds=5,
        num_steps=48,
        every=6,
        steps=_GRID,
    ),
    "wage": Setting(
        "equal rounds and a wage of 2",
        "tiny",
        {"id": _SYMBOLS, "params": {"wage": 2}},
        unit=1.0,
        options={"beta": 0.2},
        num_seeds=5,
        num_steps=48,
        every=6,
        steps=_GRID,
    ),
    "iterated": Setting(
        "rock paper scissors, 8 rounds against `tit_for_tat`",
        "tiny",
        {"id": _REPEATED, "opponents": ["self", "tit_for_tat"]},
        unit=1.0,
        options={"beta": 0.2},
        num_seeds=5,
        num_steps=48,
        every=6,
        steps=_GRID,
    ),
    "end": Setting(
        "sixteen rounds, paid at the end",
        "tiny",
        {"id": _SYMBOLS, "params": {"num_rounds": 16, "delay": 16}},
        unit=1.0,
        options={"beta": 0.2},
        variants=("episode", "default"),
        num_seeds=3,
        num_steps=48,
        every=6,
        steps=_GRID,
    ),
    "goofspiel": _board(
        "Goofspiel with 4 cards, against random play",
        {
            "id": "goofspiel",
            "params": {"num_cards": 4, "points_order": "descending"},
            **_RANDOM,
        },
    ),
    "guess_number": _board(
        "`guess_number`, 6 numbers and 4 guesses",
        {
            "id": "guess_number",
            "params": {"num_numbers": 6, "max_guesses": 4, "num_ranges": 1},
        },
    ),
    "wordle": _board(
        "`wordle`, 5 words and 3 guesses",
        {"id": "wordle", "params": {"num_words": 5, "max_guesses": 3}},
    ),
    "frozen_lake": _board(
        "`frozen_lake`, 3 by 3 cells and 8 moves",
        {
            "id": "frozen_lake",
            "params": {"layout": ["SFF", "FHF", "FFG"], "max_moves": 8},
        },
    ),
    "negotiation": _board(
        "`negotiation` of 3 rounds, a seller against random play",
        {
            "id": "negotiation",
            "params": {
                "num_rounds": 3,
                "num_offers": 5,
                "factors": [[0.5], [1.0]],
                "complete_information": True,
                "messages": False,
            },
            **_RANDOM,
        },
    ),
    "smollm2": _smollm2_setting("falling stakes, SmolLM2-135M", _FALLING, unit=8 / 255),
    "smollm2_each": _smollm2_setting(
        "32 rounds, each paid, SmolLM2-135M", {"num_rounds": 32}
    ),
    "smollm2_end": _smollm2_setting(
        "32 rounds, paid at the end, SmolLM2-135M", {"num_rounds": 32, "delay": 32}
    ),
    "smollm2_taught": _smollm2_setting(
        "32 rounds, paid at the end, SmolLM2-135M that is right in 0.34",
        {"num_rounds": 32, "delay": 32},
        right_at_start=0.34,
    ),
}
VARIANTS: dict[str, dict[str, Any]] = {
    "episode": {"credit": "dr_grpo", "credit_args": {"pool": ["game", "seat"]}},
    "mars": {"credit": "mars", "credit_args": {"pool": ["game", "seat"]}},
    "random_effects": {"credit": "random_effects", "credit_args": {"paid": False}},
    "default": {"credit": "control_variates", "credit_args": {}},
}


def train_options(setting: str, name: str, seed: int) -> dict[str, Any]:
    """The options of `arena train` of a run.

    Args:
        setting: a key of `SETTINGS`.
        name: of a variant and its step size, as `run_name` makes it.
        seed: of the run.
    """
    bench_setting, (variant, step) = SETTINGS[setting], name.split()
    return {
        **start_options(setting, seed),
        **VARIANTS[variant],
        "learning_rate": float(step),
        "max_steps": bench_setting.num_steps,
    }


def start_options(setting: str, seed: int) -> dict[str, Any]:
    """The options of a run before it has a variant."""
    bench_setting = SETTINGS[setting]
    return {
        **OPTIONS[bench_setting.model],
        "games": [dict(bench_setting.game)],
        "part_weights": {"game": bench_setting.unit},
        "seed": seed,
        **bench_setting.options,
    }


def run_name(variant: str, step: float) -> str:
    """The name of a variant with its step size."""
    return f"{variant} {step:g}"


def train(setting: str, name: str, seed: int) -> Curves:
    """A run: the share of the best return at the start and along the way."""
    bench_setting = SETTINGS[setting]
    if bench_setting.model == "smollm2":
        return learn_by_layers(setting, name, seed)
    start = _start(setting, seed)
    points = learn_by_grpo(
        train_options(setting, name, seed),
        start.folder,
        start.tokenizer,
        bench_setting.every,
        lambda policy: measured(policy, setting),
    )
    curves = [start.point, *points]
    return {key: [round(point[key], 4) for point in curves] for key in start.point}


@lru_cache(maxsize=2)
def _start(setting: str, seed: int) -> Start:
    """What the variants of a seed start from."""
    options = start_options(setting, seed)
    return make_saved_start(options, lambda policy: measured(policy, setting))


@lru_cache(maxsize=1)
def _smollm2(setting: str) -> tuple[Any, Any, Any]:
    """The last layers of SmolLM2, what they read of each symbol, and the answers' rows."""
    options, game = OPTIONS["smollm2"], _game(setting)
    folder = model_folder("smollm2")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    symbols = [chr(65 + number) for number in range(game.num_symbols)]
    ids = [tokenizer(options["prompt"].format(x)).input_ids for x in symbols]
    firsts = [tokenizer(str(a)).input_ids[0] for a in range(game.num_answers)]
    rows = model.get_output_embeddings().weight[firsts].detach()
    return *last_layers(model.model, torch.tensor(ids), options["num_layers"]), rows


def last_layers(model: Any, ids: Any, num: int) -> tuple[Any, Any]:
    """The last layers of a model, and what they read after prompts of equal length.

    Args:
        model: a language model; all but its last layers are removed from it.
        ids: int64[P, W].
        num: of layers.
    """
    with torch.no_grad():
        output = model(ids, output_hidden_states=True, use_cache=False)
    model.layers = model.layers[-num:]
    model.requires_grad_(False)
    model.layers.requires_grad_(True)
    return model, output.hidden_states[-1 - num]


def learn_by_layers(setting: str, name: str, seed: int) -> Curves:
    """A run of SmolLM2: its last layers learn, and it chooses among the legal answers.

    The game is played with the chances of its answers to each symbol, which are computed
    once for each step. AdamW ascends mean (A log π) plus the entropy.

    Args:
        setting: a key of `SETTINGS`.
        name: of a variant and its step size.
        seed: of the play.
    """
    bench_setting, options, (variant, step) = (
        SETTINGS[setting],
        OPTIONS["smollm2"],
        name.split(),
    )
    first, embedded, answers = _smollm2(setting)
    model, game = copy.deepcopy(first), _game(setting)
    right = [game.right_answer(symbol) for symbol in range(game.num_symbols)]
    teach(model, embedded, answers, right, bench_setting.right_at_start)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, float(step), weight_decay=0.0)
    credit_options = VARIANTS[variant]
    credit = Crediting(Variant(credit_options["credit"], credit_options["credit_args"]))
    table, rng = symbols_policy(game), np.random.default_rng(seed)
    rows, points = np.arange(game.num_symbols), []
    for number in range(bench_setting.num_steps + 1):
        logs = answer_logs(model, embedded, answers)
        table.logits[rows] = logs.detach().numpy()
        table.remember(rows)
        if number % bench_setting.every == 0:
            points.append(round(float(logs.exp()[rows, right].mean()), 4))
        played = table.play(options["groups"], options["num_generations"], rng)
        advantage = torch.tensor(bench_setting.unit * credit(table, played))
        gained = (advantage * logs[played.row, played.action]).mean()
        entropy = -(logs.exp() * logs).sum(1)[played.row].mean()
        optimizer.param_groups[0]["lr"] = float(step) * (
            1 - number / bench_setting.num_steps
        )
        optimizer.zero_grad()
        (-gained - options["entropy"] * entropy).backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
    return {"return": points}


def answer_logs(model: Any, embedded: Any, answers: Any) -> Any:
    """float64[P, A]: log-probabilities of the answers after each prompt.

    Args:
        model: the last layers.
        embedded: float[P, W, H], what they read.
        answers: float[A, H], rows of the output embedding.
    """
    hidden = model(inputs_embeds=embedded, use_cache=False).last_hidden_state
    return (hidden[:, -1] @ answers.T).double().log_softmax(1)


def teach(
    model: Any, embedded: Any, answers: Any, right: Sequence[int], probability: float
) -> None:
    """Supervised steps on the right answers until their mean probability is reached.

    Args:
        model: the last layers, which learn.
        embedded: as in `answer_logs`.
        answers: likewise.
        right: the right answer to each prompt.
        probability: of the right answer, to reach.
    """
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, 5e-5, weight_decay=0.0)
    while True:
        logs = answer_logs(model, embedded, answers)[range(len(right)), right]
        if float(logs.detach().exp().mean()) >= probability:
            return
        optimizer.zero_grad()
        (-logs.mean()).backward()
        optimizer.step()


def symbols_policy(game: Rounds) -> TabularPolicy:
    """A policy over the symbols of a game, a row for each in their order."""
    graph = Graph(game, lambda state, _: state.symbol)
    for symbol in range(game.num_symbols):
        graph.row_of(game.initial_state()._replace(symbol=symbol), 0)
    table = TabularPolicy(graph)
    table.probabilities(np.arange(game.num_symbols))  # makes room for them
    return table


def _game(setting: str) -> Any:
    entry = SETTINGS[setting].game
    return make_game(entry["id"], **entry.get("params", {}))


def measured(policy: LMPolicy, setting: str) -> dict[str, float]:
    """Exact expected return of the legal replies of a policy; in rounds as a share of the best."""
    game = _game(setting)
    if setting == "iterated":
        return {"return": _repeated(policy, game)}
    if isinstance(game, Rounds):
        return {"return": _rounds(policy, game)}
    return {"return": _first_seat(policy, game)}


def _first_seat(policy: LMPolicy, game: Any) -> float:
    """The expected return of the first seat; the other one, if any, plays at random."""
    table, _ = tabular(policy, game, seats=[0])
    return expected_returns(game, complete_table(game, table))[0]


def _rounds(policy: LMPolicy, game: Any) -> float:
    """The share of the stakes that a policy wins."""
    states = [
        Round(number, symbol, 0, 0, (0,))
        for number in range(game.num_rounds)
        for symbol in range(game.num_symbols)
    ]
    chances = choices(policy, game, states)
    stakes = np.array([float(game.stake(state.number)) for state in states])
    right = [game.right_answer(state.symbol) for state in states]
    won = chances[np.arange(len(states)), right]
    return float(stakes @ won / stakes.sum())


def _repeated(policy: LMPolicy, game: Any) -> float:
    """The expected return against tit for tat, as a share of the best."""
    state_of = {
        (number, last_choice): game.initial_state()._replace(
            rounds=((last_choice, last_choice),) * number
        )
        for number in range(game.num_rounds)
        for last_choice in range(game.num_actions)
    }
    probabilities = choices(policy, game, list(state_of.values()))
    chances = dict(zip(state_of, probabilities, strict=True))

    def values(number: int, best: bool) -> Any:  # by the own last choice
        if number == game.num_rounds:
            return np.zeros(game.num_actions)
        after, actions = values(number + 1, best), range(game.num_actions)
        worth = (
            np.array(  # tit for tat repeats the last choice, and first takes action 0
                [
                    [game.cells[a, b if number else 0][0] + after[a] for a in actions]
                    for b in actions
                ]
            )
        )
        if best:
            return worth.max(axis=1)
        return np.array([chances[number, b] @ worth[b] for b in actions])

    return float(values(0, False)[0] / values(0, True)[0])


@torch.no_grad()
def choices(policy: LMPolicy, game: Any, states: Sequence[Any]) -> Any:
    """float64[S, actions]: chances of actions in some states, by the first token of a reply.

    Args:
        policy: of the trained model; legal actions differ in their first tokens.
        game: the rules.
        states: where the first seat is to move.
    """
    firsts = [
        policy.chat.ids(game.action_text(states[0], action))[0]
        for action in range(game.num_actions)
    ]
    texts = [game.observe(state, 0) for state in states]
    prompts = {t: policy.encode([{"role": "user", "content": t}]) for t in texts}
    probabilities: dict[str, Any] = {}
    for size in {len(ids) for ids in prompts.values()}:
        equal = [text for text, ids in prompts.items() if len(ids) == size]
        ids = torch.tensor([prompts[text] for text in equal])
        logits = policy.model(ids).logits[:, -1, firsts]
        probabilities |= zip(equal, logits.double().softmax(1).numpy(), strict=True)
    return np.array([probabilities[text] for text in texts])


def made_with(model: str) -> dict[str, Any]:
    """What decides the numbers of a model's runs."""
    model_settings = {n: asdict(s) for n, s in SETTINGS.items() if s.model == model}
    free = ("title", "num_seeds", "steps", "variants")  # do not change a run
    settings = {
        n: {k: v for k, v in s.items() if k not in free}
        for n, s in model_settings.items()
    }
    names = {
        run_name(v, h): v for v in VARIANTS for s in SETTINGS.values() for h in s.steps
    }
    return {
        "options": OPTIONS[model],
        "settings": settings,
        "variants": {name: VARIANTS[variant] for name, variant in names.items()},
    }


def tuning(setting: str) -> list[Task]:
    """The runs that choose the step sizes of a setting."""
    grid = SETTINGS[setting].steps
    names = SETTINGS[setting].variants
    return [(setting, run_name(v, h), TUNED_ON) for h in grid for v in names]


def tuned(setting: str, runs: comparing.Runs) -> dict[str, str]:
    """The run name of each variant with its best step size, by the last quarter of a run."""

    def late(name: str) -> float:
        return final(runs[setting][name][TUNED_ON]["return"])

    grid = SETTINGS[setting].steps
    names = SETTINGS[setting].variants
    return {v: max((run_name(v, h) for h in grid), key=late) for v in names}


def do_runs(setting: str, path: Path) -> None:
    """Does the missing runs of a setting: first those that choose the step sizes."""
    bench_setting = SETTINGS[setting]
    file_and_facts = path, made_with(bench_setting.model)

    def do(todo: Sequence[Task]) -> comparing.Runs:
        runs = comparing.read(*file_and_facts).get(setting, {})
        left = [task for task in todo if task[2] not in runs.get(task[1], {})]
        return comparing.run_missing(*file_and_facts, left, train, 1, typer.echo)

    names = tuned(setting, do(tuning(setting))).values()
    do(
        [
            (setting, name, seed)
            for seed in range(bench_setting.num_seeds)
            for name in names
        ]
    )


HEAD = """\
# Turn-level credit with language models

Written by `benchmarks/credit_language.py` from [language_tiny.json](language_tiny.json),
[language_smollm2.json](language_smollm2.json) and [trees.json](trees.json). [README.md](README.md) says when
turn-level credit pays, in tables of policies; this page asks a language model.

![Share of the best return, or return, by step](language.png)

"""
FOUND = """\
## What was found

- **The trainer's default**, `control_variates`, learns like `random_effects`: differences are within their intervals or below 0.01. They begin with
  random play, of which surprise says nothing; from starts above chance, tables of policies gain much ([surprise.md](surprise.md#outcome)).
- **32 rounds, SmolLM2**: where each round is paid, `mars` falls behind the default by 0.3, and the default reaches 1.00 in two of three seeds,
  the episode in none. Paid at the end, all are equal from chance. A model that was taught to be right in 0.34 ends at 0.98 to 1.00
  with each; the mean over the whole run is 0.91 with the default, whose best step size is twice as large, and 0.86 or 0.87 with the others.
- **A reason first**: SmolLM2 in Kuhn poker gives a reason before each action. In 60 steps of the trainer NashConv falls from 0.851 to
  0.334 ± 0.065 with the default, and to 0.541 ± 0.185 with the episode, a difference of 0.207 ± 0.123
  ([tables](../self-play.md#reasons-before-the-action)).
- **Games of the catalogue**: no difference. In 24 steps the tiny model learns `negotiation`, and nearly nothing in the others;
  in Goofspiel seeds end between -0.4 and 0.6, so that a gap below 0.6 is not found.
- **Large stakes before small ones**: in SmolLM2 all kinds of turn-level credit learn more than the episode, and so does the default in the
  tiny model; there the others are ahead by 0.2, which five seeds hardly show. `mars` over (game, seat) is
  not behind `random_effects`: at the uniform policy its noise is 2.2 in the tiny model's game and 1.7 in SmolLM2's,
  against 1.4, and that of the episode 8.2. At a policy that is right half the time it is 3.8 ([README.md](README.md)).
- **A wage**: `mars` hardly learns. Its noise at the uniform policy is 135, that of the episode 8.2, of
  `random_effects` 4.7. Between the last two there is no difference: the law allows a factor of 2T / (T + 1), here 1.8.
- **Rock paper scissors** shows nothing: the law allows 1.8 for both kinds, and most of the spread is between seeds that
  stay on a plateau, with a return of 0.1 or 0.2, and seeds that leave it. With five seeds, a gap below 0.6 is not found.
- **Sixteen rounds, paid at the end**: three seeds show no difference between the default and the episode; they find none below 0.5.
- **Trees and critics**, for equal play: where pay comes at the end, a critic or a tree needs half the turns, because
  they know what earlier answers were worth. With large stakes first, a tree needs three to four times the turns of
  `random_effects`: it plays late turns most. `at_grpo` compares within a group, so that no luck of the group reaches it, and has
  the least noise of this table where luck is drawn. `agentprm` compares across groups, and the critic cannot know luck that is
  still to come. After 20 batches, it does not know the level of a wage either.

"""
GAINS = "Gains at the end, details below:\n\n"
NOT_RUN = "Not run yet: {titles}. `python benchmarks/credit_language.py` runs them.\n"
METHOD = """\
## What was run

- **The tiny model** of `arena train` learns by the trainer in games of eight rounds with short prompts. In
  [`rounds`](../games/rounds.md), with four symbols and four answers, it reads the round and the symbol
  ("Round 3. Symbol D."). In rock paper scissors it reads the round and its own last choice, which `tit_for_tat`
  repeats. It begins with a supervised start on random legal play, which the variants of a seed share, and has a
  KL term to it.
- **SmolLM2-135M** as it comes reads "Symbol D. Answer:" and answers with a digit, of 16 symbols and eight answers.
  Its last {num_layers} of 30 layers learn, in a loop of the script: what they read is computed once, play samples from the
  chances of the eight digits, and the loss has a bonus of {entropy} for entropy. Where it is right in 0.34 at the start, supervised
  steps on the right answers came first, the same for all. In the trainer, with all
  layers, a step took five CPU seconds, about fifty times as many.
- **Variants** compare the same episodes: all {episodes} of a step, four starts with eight samples each. `episode` is
  `dr_grpo` over (game, seat), one advantage for a whole episode; `mars` is turn-level over (game, seat);
  `random_effects` compares turns of the same number, here and in the table of trees with `paid=false`;
  `default` is the trainer's `control_variates`.
- **Step size**: each variant chooses by its mean over the last quarter of a run, with seed {tuned_on}, which is
  not among the results: {grid} runs for each variant and game. {at_edge} of {num_chosen} chose the largest,
  so that a larger one might be better. It falls linearly to 0. A run has {tiny_steps} steps with the tiny model,
  {board_steps} in games of the catalogue, {smollm2_steps} with SmolLM2.
- **Measure**: the exact expected return of the policy, as a share of the best (in games of the catalogue: the return itself). *At the end* is the
  mean of the last quarter of a run, *whole run* that of all points. ± is the 95 % interval of the mean
  difference, paired by seed; bold: p < 0.05, not corrected.

```
python benchmarks/credit_language.py
python benchmarks/credit_language.py --model smollm2
python benchmarks/credit_trees.py
```
"""
TREES = """\
## Trees and critics

Noise per played turn, 1 at best, with 95 % intervals, before the payments of [README.md](README.md): the noise
times played per credited turns, so that a number twice as high needs twice the play. `gae` has a critic of
the game's features that was fitted to {fitted} batches before. `agentprm` and `at_grpo` compare by the mean return of a
reply in its state, Q(state, reply); in trees each turn has four more candidates that are played to the end, and
one of them branches on. All candidates' turns are played and credited. `at_grpo` has γ = 1 and no std.

"""


def findings(runs: comparing.Runs) -> str:
    """What the trainer's default gains over the other variants in each setting."""
    lines = []
    for name, setting in complete(runs).items():
        late = {
            v: [*map(final, curves)] for v, curves in by_variant(name, runs).items()
        }
        if "default" not in late:
            continue
        default_finals = late.pop("default")
        gains = [
            f"{gain(paired_difference(default_finals, x))} over `{v}`"
            for v, x in late.items()
        ]
        lines.append(f"- {setting.title}: `default` {', '.join(gains)}.")
    return "\n".join([*lines, ""])


def text(runs: comparing.Runs, trees: Sequence[Payment]) -> str:
    """The page, in Markdown."""
    parts = [HEAD + FOUND + GAINS + findings(runs)]
    if names := missing(runs):
        titles = "; ".join(SETTINGS[name].title for name in names)
        parts.append(NOT_RUN.format(titles=titles))
    for name, setting in complete(runs).items():
        parts.append(f"## {setting.title[0].upper()}{setting.title[1:]}\n")
        parts.append(results(name, runs))
    tiny, smollm2 = SETTINGS["falling"], SETTINGS["smollm2"]
    options = OPTIONS["smollm2"]
    is_largest = [
        run == run_name(variant, setting.steps[-1])
        for name, setting in complete(runs).items()
        for variant, run in tuned(name, runs).items()
    ]
    method = METHOD.format(
        num_layers=options["num_layers"],
        entropy=options["entropy"],
        episodes=OPTIONS["tiny"]["episodes_per_step"],
        tuned_on=TUNED_ON,
        grid=len(tiny.steps),
        at_edge=sum(is_largest),
        num_chosen=len(is_largest),
        tiny_steps=tiny.num_steps,
        smollm2_steps=smollm2.num_steps,
        board_steps=SETTINGS["goofspiel"].num_steps,
    )
    noise = payments_table(
        trees, {name: column.title for name, column in COLUMNS.items()}
    )
    return "\n".join([*parts, TREES.format(fitted=NUM_FITTED) + noise, method])


def known_runs(directory: Path) -> comparing.Runs:
    """The runs of all models."""
    runs: comparing.Runs = {}
    for model, file in FILES.items():
        runs |= comparing.read(directory / file, made_with(model))
    return runs


def known_trees(directory: Path) -> list[Payment]:
    """The rows of trees.json."""
    return [Payment(**row) for row in json.loads((directory / TREES_FILE).read_text())]


def missing(runs: comparing.Runs) -> list[str]:
    """The settings that lack runs."""
    return [
        name
        for name, setting in SETTINGS.items()
        if name not in runs
        or any(seed not in runs[name].get(run, {}) for _, run, seed in tuning(name))
        or any(
            len(curves) < setting.num_seeds
            for curves in by_variant(name, runs).values()
        )
    ]


def complete(runs: comparing.Runs) -> dict[str, Setting]:
    """The settings with all runs, which the page shows."""
    left = missing(runs)
    return {name: setting for name, setting in SETTINGS.items() if name not in left}


def by_variant(setting: str, runs: comparing.Runs) -> dict[str, list[list[float]]]:
    """The curves of each variant with its tuned step size, by seed."""
    seeds = range(SETTINGS[setting].num_seeds)
    return {
        variant: [
            runs[setting][name][seed]["return"]
            for seed in seeds
            if seed in runs[setting].get(name, {})
        ]
        for variant, name in tuned(setting, runs).items()
    }


def results(setting: str, runs: comparing.Runs) -> str:
    """The table of a setting."""
    rows, curves = [], by_variant(setting, runs)
    base = [*map(final, curves["episode"])]
    for name, run in tuned(setting, runs).items():
        late = [*map(final, curves[name])]
        mean, area = (
            interval(late),
            interval([float(np.mean(curve)) for curve in curves[name]]),
        )
        gap = "" if name == "episode" else gain(paired_difference(late, base))
        rows.append(
            [
                f"`{name}`",
                run.split()[1],
                f"{mean.mean:.3f}",
                f"{mean.low:.3f} to {mean.high:.3f}",
                gap,
                ", ".join(f"{value:.2f}" for value in late),
                f"{area.mean:.3f}",
            ]
        )
    head = ["Variant", "Step size", "At the end", "95 %", "Over `episode`", "By seed"]
    return table([*head, "Whole run"], rows)


def draw(runs: comparing.Runs, path: Path) -> None:
    """Writes the picture: the curves of each setting."""
    settings = complete(runs)
    num_rows = -(-len(settings) // NUM_COLUMNS)
    figure = import_extra("matplotlib.figure", "eval").Figure(
        figsize=(3.4 * NUM_COLUMNS, 3.4 * num_rows), layout="constrained"
    )
    panels = figure.subplots(num_rows, NUM_COLUMNS, squeeze=False).ravel()
    for panel in panels[len(settings) :]:
        panel.axis("off")
    for panel, (name, setting) in zip(panels, settings.items(), strict=False):
        for number, (variant, curves) in enumerate(by_variant(name, runs).items()):
            x = [setting.every * i for i in range(len(curves[0]))]
            draw_band(panel, x, curves, variant, f"C{number}")
        panel.set_title(setting.title.replace("`", ""), fontsize=9)
        panel.set_xlabel("step")
    panels[0].set_ylabel("share of the best return, or return")
    panels[0].legend(fontsize="small")
    figure.savefig(path, dpi=110, metadata={"Software": None})


def main(
    model: Annotated[str, typer.Option(help="tiny or smollm2.")] = "tiny",
    game: OnlySettings = None,
    directory: Annotated[Path, typer.Option(help="Folder of the files.")] = DOCS,
) -> None:
    """Do the missing runs of a model.

    Step sizes are tuned first. Runs that are in the file of the model are not repeated, so run
    the command again after an interruption.
    """
    be_quiet()
    path = directory / FILES[model]
    with kept_runs(path):
        for name, setting in SETTINGS.items():
            if setting.model == model and name in (game or SETTINGS):
                do_runs(name, path)
    runs = known_runs(directory)
    if left := missing(runs):
        typer.echo(f"the page lacks {', '.join(left)}, whose runs are missing")
    draw(runs, directory / PICTURE)
    (directory / PAGE).write_text(text(runs, known_trees(directory)))


if __name__ == "__main__":
    run_script(main)
