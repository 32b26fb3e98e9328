"""Curves of three papers, and of reasons, with the tiny model; writes `docs/self-play-curves.json`, docs/self-play.md.

    python benchmarks/tiny_curves.py --hours 1   # the missing runs, one after another
    python benchmarks/tiny_curves.py --hours 0   # the page alone

- `advevo`, AdvEvo: attackers and defenders train against each other, and are measured against frozen ones.
- `players`, `boards`, from small to large: Kuhn poker of two players, and measured with three and four;
  lakes of 3 x 3 cells, and measured on larger ones.
- `epo`, EPO: a strategist advises an actor with frozen weights, and is paid at the end, or also for
  each move by a judge that is a solver.
- `reasons`: reasons before the action in Kuhn poker (module `reasons`), with two credits.

Each seed has its own start, a model that imitates examples. A cell is written as its run ends.
"""

import random
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import numpy as np
import typer
from transformers import (
    PrinterCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

import reasons
from arena_envs import make, make_game
from arena_envs.games.frozen_lake import Lake
from arena_envs.games.frozen_lake import State as Walk
from arena_envs.games.secret_keeper import KEEPER, SUBJECT, SecretKeeper
from arena_envs.solvers import nash_conv, uniform_table
from arena_eval.exploit import tabular
from arena_trainers.cli.errors import usage_errors
from arena_trainers.data import Example
from arena_trainers.lm import LMPolicy
from arena_trainers.offline.warm_start import warm_start
from arena_trainers.runs.settings import build_configs
from arena_trainers.runs.tiny import tiny_model, tiny_tokenizer
from arena_trainers.train.columns import load_functions
from arena_trainers.train.prepared import prepare_games
from arena_trainers.train.trainer import TurnGRPOTrainer
from arena_wrappers import (
    AgentPolicy,
    Episode,
    Policy,
    PromptOptions,
    PromptWrapper,
    Reply,
    Turn,
    TurnRequest,
    make_policy,
    play,
)
from arena_wrappers.policies.agents import planner_worker
from comparing import (
    OnlySettings,
    PageFolder,
    Task,
    add,
    chosen,
    kept_runs,
    read,
    run_script,
    tell_outdated,
    write,
)
from gains import be_quiet
from night import DATA, DOCS
from night import made_with as night_made_with
from night_page import write_page
from night_sections import BLIND, CURVES_DATA
from night_settings import FIRST_DEAL, MARKS, NUM_SEEDS

PROMPT = PromptOptions("bare", rules=False)
IMITATION = {"steps": 40, "batch_size": 32, "learning_rate": 3e-3, "episodes": 100}
IMITATION_EPISODES = int(IMITATION["episodes"])
SHARED: dict[str, Any] = {
    "reply_format": PROMPT.reply_format,
    "rules": PROMPT.rules,
    "parsing": PROMPT.parsing,
    "episodes_per_step": 32,
    "num_generations": 8,
    "beta": 0.05,
    "learning_rate": 3e-3,
    "lr_scheduler_type": "linear",
    "max_grad_norm": 1.0,
    "bf16": False,
    "gradient_checkpointing": False,
    "use_cpu": True,
    "save_strategy": "no",
    "logging_strategy": "no",
}

Point = dict[str, float]  # by measure


class Start(NamedTuple):
    """The model that all runs of a seed begin with.

    Attributes:
        folder: of the model; deleted when the process ends.
        policy: the model as a policy.
        parent: the temporary folder around `folder`, which lives as long as this object.
    """

    folder: Path
    policy: LMPolicy
    parent: tempfile.TemporaryDirectory[str]


@dataclass(frozen=True)
class Setting:
    """A curve.

    Args:
        options: of `arena train`, beside `SHARED`.
        variants: further options of each run, by name.
        make_examples: the examples that a seed's start imitates.
        measure: the measures of a trainer's model, given the start's policy.
        measure_blind: measures of policies that read no prompt, by name.
        num_steps: of a run.
        every: steps between measures.
    """

    options: Mapping[str, Any]
    variants: Mapping[str, Mapping[str, Any]]
    make_examples: Callable[[int], list[Example]] = field(compare=False)
    measure: Callable[[TurnGRPOTrainer, LMPolicy], Point] = field(compare=False)
    measure_blind: Callable[[], dict[str, Point]] = field(compare=False)
    num_steps: int = 20
    every: int = 5


class Scribe:
    """Replies by a function of the request, and keeps its replies as examples."""

    prompt = PROMPT
    name = "scribe"

    def __init__(
        self, write_reply: Callable[[TurnRequest, random.Random], str], seed: int
    ) -> None:
        self.write_reply, self.rng = write_reply, random.Random(seed)
        self.examples: list[Example] = []

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        texts = [self.write_reply(request, self.rng) for request in requests]
        for request, text in zip(requests, texts, strict=True):
            self.examples.append(Example(request.messages, text))
        return [Reply(text) for text in texts]


def random_reply(request: TurnRequest, rng: random.Random) -> str:
    """A random legal action."""
    return rng.choice(request.legal)


def play_episodes(
    game: Mapping[str, Any], players: Sequence[Policy], first: int, num: int
) -> list[Episode]:
    """Episodes of a game, an entry as in `games`."""
    env = make(game["id"], **game.get("params", {}))

    def prompted() -> PromptWrapper:
        return PromptWrapper(env.clone(), **vars(PROMPT))

    return play(prompted, players, range(first, first + num), on_error="raise")


# AdvEvo: a keeper of a secret, an attacker, and a subject with a password.
VAULT: dict[str, Any] = {
    "id": "secret_keeper",
    "params": {"num_rounds": 2, "num_digits": 1, "num_words": 4},
}
NUM_VAULTS = 100  # episodes of a measure


def vault_reply(request: TurnRequest, rng: random.Random) -> str:
    """The keeper tells or refuses at random; the others ask.

    The subject writes the password in a third of its requests. Half of all other requests have a
    random word, which may be the password.
    """
    game, state = cast(SecretKeeper, request.game), request.state
    seat = game.current_player(state)
    if seat == KEEPER:
        return random_reply(request, rng)
    if seat == SUBJECT and rng.random() < 1 / 3:
        return f"ask . {state.password}"
    return f"ask . {rng.choice(game.words)}" if rng.random() < 0.5 else "ask"


def vault_examples(seed: int) -> list[Example]:
    """Play by `vault_reply` in all three seats."""
    scribe = Scribe(vault_reply, seed)
    play_episodes(VAULT, [scribe] * 3, 0, IMITATION_EPISODES)
    return scribe.examples


def leaks(attacker: Policy, keeper: Policy, subject: Policy) -> tuple[float, float]:
    """Mean utility and leak, see `secret_keeper`."""
    players = [attacker, keeper, subject]
    episodes = play_episodes(VAULT, players, FIRST_DEAL, NUM_VAULTS)
    measures = [episode.measures for episode in episodes]
    return (
        float(np.mean([m["utility"] for m in measures])),
        float(np.mean([m["leak"] for m in measures])),
    )


def vault_measures(trainer: TurnGRPOTrainer, frozen: LMPolicy) -> Point:
    """Each side against the start's other side, and both sides together."""
    attacker, keeper, subject = (player_of(trainer, f"seat_{s}") for s in range(3))
    utility, leak = leaks(frozen, keeper, subject)
    both_utility, both_leak = leaks(attacker, keeper, subject)
    return {
        "defenders_utility": utility,
        "defenders_leak": leak,
        "attacker_leak": leaks(attacker, frozen, frozen)[1],
        "both_utility": both_utility,
        "both_leak": both_leak,
    }


def blind_in_vault() -> dict[str, Point]:
    """Keepers that read nothing, and one that tells whoever writes the password; writers of the start."""
    writers = Scribe(vault_reply, 0)
    points = {}
    for name, keeper in (
        ("first", "first"),
        ("random", "random"),
        ("refuses", "secret_holder:silent"),
        ("honest", "secret_holder:honest"),
    ):
        utility, leak = leaks(writers, make_policy(keeper), writers)
        points[name] = {"defenders_utility": utility, "defenders_leak": leak}
    return points


# From small to large: players of Kuhn poker, cells of a lake.
NUM_PLAYERS = (2, 3, 4)


def kuhn(num_players: int) -> dict[str, Any]:
    """An entry of `games`."""
    return {"id": "kuhn_poker", "params": {"num_players": num_players}}


def random_examples(games: Sequence[Mapping[str, Any]], seed: int) -> list[Example]:
    """Random legal play, with equally many replies in each game."""
    by_game = []
    for game in games:
        scribe = Scribe(random_reply, seed)
        num_players = make_game(game["id"], **game["params"]).num_players
        play_episodes(game, [scribe] * num_players, 0, IMITATION_EPISODES)
        by_game.append(scribe.examples)
    num = min(map(len, by_game))
    rng = random.Random(seed)
    return [example for examples in by_game for example in rng.sample(examples, num)]


def kuhn_examples(seed: int) -> list[Example]:
    """Random legal play with two, three and four players."""
    return random_examples([*map(kuhn, NUM_PLAYERS)], seed)


def against_random(policy: Any, num_players: int) -> tuple[float, float]:
    """The exact mean return over seats where all others play at random; and the illegal mass."""
    game = make_game("kuhn_poker", num_players=num_players)
    table, illegal = tabular(policy, game)
    mean = reasons.return_against_random(game, table)
    return mean, sum(illegal) / len(illegal)


def kuhn_measures(trainer: TurnGRPOTrainer, frozen: LMPolicy) -> Point:
    """Returns with two, three and four players."""
    point: Point = {}
    for num in NUM_PLAYERS:
        mean, illegal = against_random(learner_of(trainer), num)
        point |= {f"return_{num}": mean, f"legal_{num}": 1 - illegal}
    return point


def blind_in_kuhn() -> dict[str, Point]:
    """Always passing, and always betting."""
    return {
        name: {f"return_{num}": against_random(policy, num)[0] for num in NUM_PLAYERS}
        for name, policy in (("first", make_policy("first")), ("bets", Bets()))
    }


class Bets:
    """Bets wherever it may."""

    name, prompt = "bets", PROMPT

    def action_probs(
        self, requests: Sequence[TurnRequest]
    ) -> list[tuple[list[float], float]]:
        """All on the last legal action, a bet."""
        return [([0.0] * (len(r.legal) - 1) + [1.0], 0.0) for r in requests]


SIZES = (3, 4, 5)
NUM_WALKS = 48  # episodes of a measure


def lake(size: int, split: str = "train") -> dict[str, Any]:
    """An entry of `games`: a random lake without slips, with two moves more than twice the shortest way."""
    params = {"size": size, "is_slippery": False, "max_moves": 4 * size - 2}
    return {"id": "frozen_lake", "params": {**params, "split": split}}


def lake_examples(seed: int) -> list[Example]:
    """Random steps on lakes of all sizes."""
    return random_examples([*map(lake, SIZES)], seed)


def success(policy: Policy, size: int) -> float:
    """The share of unseen maps that are crossed."""
    game = lake(size, "test")
    episodes = play_episodes(game, [policy], FIRST_DEAL, NUM_WALKS)
    return float(np.mean([episode.returns[0] for episode in episodes]))


def lake_measures(trainer: TurnGRPOTrainer, frozen: LMPolicy) -> Point:
    """The share of unseen maps that are crossed, by size."""
    return {f"success_{size}": success(learner_of(trainer), size) for size in SIZES}


def alternates(request: TurnRequest, rng: random.Random) -> str:
    """Down and right by turns: the best habit on a map with its goal in the last corner."""
    return ("down", "right")[request.state.num_moves % 2]


def blind_on_lakes() -> dict[str, Point]:
    """Random steps, always down, and down and right by turns."""
    policies: dict[str, Policy] = {
        "random": make_policy("random"),
        "down": Scribe(lambda request, rng: "down", 0),
        "down, right": Scribe(alternates, 0),
    }
    return {
        name: {f"success_{size}": success(policy, size) for size in SIZES}
        for name, policy in policies.items()
    }


# EPO: a strategist advises a walker on one lake.
ROWS = ("SFF", "FHF", "FFG")
LAKE: dict[str, Any] = {
    "id": "frozen_lake",
    "params": {"layout": [*ROWS], "is_slippery": False, "max_moves": 6},
}
ADVICE = "Your plan: "


@lru_cache(1)
def distances() -> Mapping[int, int]:
    """Steps from each cell to the goal, by breadth-first search; without holes."""
    cells, neighbors = "".join(ROWS), Lake(ROWS).neighbors
    goal = cells.index("G")
    steps, waiting = {goal: 0}, deque([goal])
    while waiting:
        cell = waiting.popleft()
        for before in range(len(cells)):
            if (
                before not in steps
                and cells[before] != "H"
                and cell in neighbors[before]
            ):
                steps[before] = steps[cell] + 1
                waiting.append(before)
    return steps


def judged(episode: Episode, turn: Turn, state: Walk) -> float:
    """How much nearer to the goal the move leads, as a share of the whole way.

    A potential: a way there and back pays nothing, and a hole is as far as the start.
    """
    steps = distances()
    whole = steps[0]
    if turn.action is None:
        return 0.0
    cell = Lake(ROWS).neighbors[state.cell][turn.action]
    return (steps[state.cell] - steps.get(cell, whole)) / whole


def follow(request: TurnRequest, rng: random.Random) -> str:
    """The step that the plan names."""
    prompt: str = request.messages[-1]["content"]
    return prompt.rpartition(ADVICE)[2].partition("\n")[0]


def plan_examples(seed: int) -> list[Example]:
    """A planner that names a random step, and a worker that takes it."""
    scribes = {"planner": Scribe(random_reply, seed), "worker": Scribe(follow, seed)}
    play_episodes(LAKE, [AgentPolicy(planner_worker, scribes)], 0, IMITATION_EPISODES)
    return [example for scribe in scribes.values() for example in scribe.examples]


def crossed(player: Policy) -> Point:
    """The share of walks that reach the goal, and of turns with a legal move."""
    episodes = play_episodes(LAKE, [player], FIRST_DEAL, NUM_WALKS)
    turns = [turn for episode in episodes for turn in episode.turns]
    return {
        "success": float(np.mean([episode.returns[0] for episode in episodes])),
        "legal": float(np.mean([turn.invalid is None for turn in turns])),
    }


def plan_measures(trainer: TurnGRPOTrainer, frozen: LMPolicy) -> Point:
    """The walks of the strategist with its worker."""
    return crossed(all_of(trainer))


def blind_on_lake() -> dict[str, Point]:
    """Random steps, always down, and down and right by turns."""
    return {
        "random": crossed(make_policy("random")),
        "down": crossed(Scribe(lambda request, rng: "down", 0)),
        "down, right": crossed(Scribe(alternates, 0)),
    }


def all_of(trainer: TurnGRPOTrainer) -> AgentPolicy:
    """The policy of all roles of several learners."""
    learners = trainer.learners
    if learners is None:
        raise ValueError("want a trainer with several learners, got one; give it roles")
    player = learners.player(trainer.policy, trainer.clock, trainer.agent)
    if not isinstance(player, AgentPolicy):
        raise TypeError(f"want an agent's policy, got {player!r}")
    player.prompt = PROMPT
    return player


def player_of(trainer: TurnGRPOTrainer, role: str) -> Policy:
    """The policy of a role."""
    policy: Any = all_of(trainer).models[role]
    policy.prompt = PROMPT
    return policy  # type: ignore[no-any-return]


def learner_of(trainer: TurnGRPOTrainer) -> LMPolicy:
    """The model of a trainer with one learner."""
    return LMPolicy(
        trainer.model,
        trainer.policy.tokenizer,
        prompt=PROMPT,
        **trainer.args.sampling_options,
    )


# Reasons before the action in Kuhn poker, see `reasons`.
def reason_measures(trainer: TurnGRPOTrainer, frozen: LMPolicy) -> Point:
    """The measures of the probabilities of replies."""
    return reasons.measures_of(reasons.reply_table(learner_of(trainer)))


def blind_with_reasons() -> dict[str, Point]:
    """Always passing, always betting, and random play, all without reasons."""
    game = make_game("kuhn_poker")
    points = {}
    for name, bet in (("first", 0.0), ("bets", 1.0), ("random", 0.5)):
        table = {key: [1 - bet, bet] for key in uniform_table(game)}
        mean = reasons.return_against_random(game, table)
        points[name] = {"nash_conv": nash_conv(game, table), "return": mean}
    return points


RANK = {"lora_r": 16}
SETTINGS: dict[str, Setting] = {
    "reasons": Setting(
        {
            "games": ["kuhn_poker"],
            "max_completion_length": 9,
            "reasoning_marks": [*MARKS],
            "episodes_per_step": 64,
            "learning_rate": 5e-4,
            "beta": 0.2,
        },
        {"default": {}, "episode": {"credit": "episode"}},
        lambda seed: reasons.examples(),
        reason_measures,
        blind_with_reasons,
    ),
    "advevo": Setting(
        {
            "games": [VAULT],
            "max_completion_length": 5,
            "roles": {0: RANK, 1: RANK, 2: RANK},
            "credit": "advevo_public_baseline",
            "credit_args": {"pool": ["group", "team"]},
        },
        {"both": {"update": "joint"}},
        vault_examples,
        vault_measures,
        blind_in_vault,
    ),
    "players": Setting(
        {"max_completion_length": 2, "learning_rate": 1e-3},
        {"small": {"games": [kuhn(2)]}, "large": {"games": [kuhn(4)]}},
        kuhn_examples,
        kuhn_measures,
        blind_in_kuhn,
    ),
    "boards": Setting(
        {"max_completion_length": 2, "learning_rate": 1e-3, "episodes_per_step": 16},
        {"small": {"games": [lake(3)]}, "large": {"games": [lake(5)]}},
        lake_examples,
        lake_measures,
        blind_on_lakes,
    ),
    "epo": Setting(
        {
            "games": [LAKE],
            "max_completion_length": 2,
            "agent": "planner_worker",
            "roles": {"planner": RANK, "worker": {"lora_r": 1}},
            "update": {"freeze": ["worker"]},
            "episodes_per_step": 16,
            "credit": "mars",
            "credit_args": {
                "discount": 0.995,
                "pool": ["game", "seat", "role"],
                "scale": "none",
            },
        },
        {
            "end": {},
            "judge": {
                "columns": {"rewards.judge": "tiny_curves:judged"},
                "part_weights": {"judge": 1.0},
            },
        },
        plan_examples,
        plan_measures,
        blind_on_lake,
        every=10,
    ),
}


@lru_cache(1)
def start(setting: str, seed: int) -> Start:
    """The model that runs of a seed begin with."""
    examples = SETTINGS[setting].make_examples(seed)
    texts = [m["content"] for example in examples for m in example.messages]
    tokenizer = tiny_tokenizer([*texts, *(example.reply for example in examples)])
    limit = SETTINGS[setting].options["max_completion_length"]
    model = tiny_model(tokenizer, seed=seed)
    marks = SETTINGS[setting].options.get("reasoning_marks")
    policy = LMPolicy(
        model, tokenizer, prompt=PROMPT, max_new_tokens=limit, reasoning_marks=marks
    )
    warm_start(
        policy,
        examples,
        num_steps=int(IMITATION["steps"]),
        learning_rate=IMITATION["learning_rate"],
        batch_size=int(IMITATION["batch_size"]),
        seed=seed,
    )
    parent = tempfile.TemporaryDirectory()
    folder = Path(parent.name) / "start"
    policy.save_pretrained(folder)
    return Start(folder, LMPolicy.from_pretrained(folder), parent)


def options_of(setting: str, variant: str, seed: int) -> dict[str, Any]:
    """The options of `arena train` of a run, without its model."""
    curve = SETTINGS[setting]
    return {
        **SHARED,
        **curve.options,
        **curve.variants[variant],
        "max_steps": curve.num_steps,
        "seed": seed,
    }


def train(setting: str, variant: str, seed: int) -> dict[str, list[float]]:
    """A run: its measures at the start, and every so many steps."""
    curve, initial = SETTINGS[setting], start(setting, seed)
    options = {**options_of(setting, variant, seed), "model": str(initial.folder)}
    points: list[Point] = []
    with tempfile.TemporaryDirectory() as folder:
        job, args = build_configs(options, folder)
        trainer = TurnGRPOTrainer(
            str(initial.folder),
            args,
            processing_class=initial.policy.tokenizer,
            games=prepare_games(args, columns=load_functions(job.columns)),
            peft_config=job.peft_config,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(
            _Every(
                curve.every,
                lambda: points.append(curve.measure(trainer, initial.policy)),
            )
        )
        trainer.train()
    return {name: [round(p[name], 4) for p in points] for name in points[0]}


class _Every(TrainerCallback):
    """Calls a function at the start and every so many steps."""

    def __init__(self, num_steps: int, call: Callable[[], None]) -> None:
        self.num_steps, self.call = num_steps, call

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        self.call()

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        if state.global_step % self.num_steps == 0:
            self.call()


def made_with() -> dict[str, Any]:
    """The settings that decide the numbers."""
    settings = {
        name: {
            "options": {**SHARED, **curve.options},
            "variants": curve.variants,
            "every": curve.every,
            "steps": curve.num_steps,
            "imitation": IMITATION,
        }
        for name, curve in SETTINGS.items()
    }
    names = {name for curve in SETTINGS.values() for name in curve.variants}
    return {
        "settings": settings,
        "variants": {name: {} for name in [BLIND, *sorted(names)]},
    }


def tasks() -> list[Task]:
    """All cells in the order of work; those of a start follow each other."""
    return [
        (setting, variant, seed)
        for setting, curve in SETTINGS.items()
        for variant, seed in [
            (BLIND, 0),
            *((name, seed) for seed in range(NUM_SEEDS) for name in curve.variants),
        ]
    ]


def do(task: Task) -> dict[str, Any]:
    """A cell: points of policies that read no prompt, or curves of a run."""
    setting, variant, seed = task
    began = time.process_time()
    if variant == BLIND:
        values: dict[str, Any] = {"points": SETTINGS[setting].measure_blind()}
    else:
        values = {"curves": train(setting, variant, seed)}
    return {**values, "cpu_seconds": round(time.process_time() - began, 1)}


def main(
    game: OnlySettings = None,
    hours: Annotated[
        float, typer.Option(min=0, help="No run begins later; 0 writes the page alone.")
    ] = 1.0,
    directory: PageFolder = DOCS,
) -> None:
    """Does the missing runs in their order, and writes the page."""
    be_quiet()
    warnings.simplefilter("ignore")
    path, settings = directory / CURVES_DATA, made_with()
    tell_outdated(path, settings)
    until = time.monotonic() + 3600 * hours
    with kept_runs(path), usage_errors():
        wanted, runs = chosen(game, SETTINGS), read(path, settings)
        for task in tasks():
            setting, variant, seed = task
            if setting not in wanted or seed in runs.get(setting, {}).get(variant, {}):
                continue
            if time.monotonic() > until:
                typer.echo("the hours are over; the same command goes on")
                break
            add(runs, task, do(task))
            write(path, runs, settings)
            typer.echo(f"done: {setting}/{variant}/{seed}")
        write_page(directory, read(directory / DATA, night_made_with()))


if __name__ == "__main__":
    run_script(main)
