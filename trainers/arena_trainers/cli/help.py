"""The help pages of `arena train`: our options in groups; `--help-all` adds TRL's."""

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer
import yaml

from arena_trainers.cli.train_arguments import (
    implied_recipe,
    is_offline,
    split,
    without_dry_run,
)
from arena_trainers.job.settings import (
    DEFAULT_RECIPE,
    MODEL_RECIPE,
    JobConfig,
    load_recipe,
    recipes,
)
from arena_trainers.loops.settings import OF_THE_START, ROUNDS, is_loop
from arena_trainers.offline.protocol import check_name, row_trainer
from arena_trainers.offline.settings import row_options, trainer_options
from arena_trainers.train.options import Option, listed_options, options_of

WIDTH = 80
_COLUMN = 30  # column in which the help of an option begins

USAGE = """\
Usage: arena train [RECIPE] [--key value]...

Trains a language model by self-play. Without arguments it makes a tiny model,
which learns Kuhn poker on a CPU in minutes.

RECIPE is a YAML file of options, or one of
{recipes}.
The default is {default!r}; with --model it is {model!r}.
Options override the recipe. Values are YAML; lists may be written a,b.

  arena train --seed 1 --output-dir runs/seed1
  arena train --model Qwen/Qwen3-0.6B --games kuhn_poker,tic_tac_toe
  arena train my_recipe.yaml --credit episode --max_steps 200
  arena train --trainer sft --data rows.parquet    learns from rows of data
  arena train --resume runs/seed1                  after Ctrl-C or SIGTERM
  arena train --resume runs/seed1 --max_steps 800  trains longer

Brackets show the defaults of the recipe {recipe!r}.
"""

ROWS_USAGE = """\
Usage: arena train --trainer {trainer} --data FILE.parquet [--key value]...

Trains a language model on rows that arena data chose. --model is a folder, an
id of the Hugging Face hub, or 'tiny', which is made on the spot."""

LOOP_USAGE = """\
Usage: arena train {recipe} [--key value]...

Repeats the stages of `rounds` in the recipe: play, select, train, evaluate. The
page docs/training.md names their options. A loop goes on after a stop, or to N
rounds in all, by arena train --resume RUN [--rounds N].

  arena train {recipe} --rounds 2 --rounds.play.episodes 20   changes the stages

The recipe has these stages:

{rounds}
Other options are:
"""

RUN = (
    Option("output_dir", (), (), "runs/<time>", "Run folder: new or empty.", "arena"),
    Option(
        *("resume", (), (), None),
        "Run folder to resume from its last checkpoint; only --max_steps may be given "
        "besides, or --rounds where the recipe has rounds.",
        "arena",
    ),
    Option(
        *("dry-run", (), (), None),
        "Prints the plan of the run; takes no value.",
        "arena",
    ),
)
# TRL's help of these options is longer than a line, or describes another trainer.
HELP = {
    "seed": "Seed of the model, the episodes and the order of the data.",
    "max_steps": "Optimizer steps.",
    "num_generations": "Episodes per group: all have the same start.",
    "per_device_train_batch_size": "Episodes per process and backward pass; computed if "
    "episodes_per_step is given.",
    "gradient_accumulation_steps": "Backward passes per optimizer step.",
    "num_iterations": "Passes over each generation batch.",
    "learning_rate": "Learning rate of AdamW.",
    "lr_scheduler_type": "Schedule of the rate: linear, cosine, ...",
    "warmup_steps": "Steps in which the learning rate rises from 0.",
    "max_grad_norm": "Clips gradients to this norm; 0 for no clipping.",
    "loss_type": "Loss: grpo, bnpo, dr_grpo, dapo, cispo, ...",
    "beta": "Weight of the KL term; 0 for no reference model.",
    "epsilon": "Clipping range of the ratio.",
    "epsilon_high": "Upper clipping range; epsilon if not given.",
    "sync_ref_model": "Whether to update the reference model.",
    "ref_model_sync_steps": "Steps between updates of the reference model.",
    "temperature": "Sampling temperature.",
    "top_k": "Samples from the k likeliest tokens; 0: all.",
    "top_p": "Samples from the likeliest tokens of this total probability; 1 for all.",
    "max_completion_length": "Longest reply, in tokens.",
    "min_p": "Samples from tokens of this share of the likeliest one's probability.",
    "repetition_penalty": "Makes repeated tokens less likely; 1: no.",
    "use_vllm": "Whether vLLM generates.",
    "vllm_mode": "colocate (in this process) or server.",
    "vllm_server_base_url": "URL of the server; arena serve policy starts one.",
    "vllm_server_timeout": "Longest silence of the server in seconds, also while it loads "
    "weights; then the run ends.",
    "chat_template_kwargs": "Arguments of the chat template.",
    "bf16": "Whether to train in bfloat16.",
    "gradient_checkpointing": "Whether to recompute activations: less memory, more time.",
    "use_cpu": "Whether to train on the CPU despite a GPU.",
    "logging_steps": "Steps between logs.",
    "save_steps": "Steps between checkpoints.",
    "save_total_limit": "Number of checkpoints to keep.",
    "report_to": "Other logs: wandb, tensorboard, ...",
    "run_name": "Name of the run in the logs of report_to.",
}
GROUPS = {
    "Run": ("output_dir", "resume", "dry-run", "seed", "max_steps"),
    "Model": (
        *("model", "hidden_size", "num_layers", "warm_start_steps"),
        *("warm_start_episodes", "warm_start_teacher"),
        *("warm_start_batch_size", "warm_start_learning_rate"),
        *("lora_r", "lora_alpha", "lora_target_modules"),
    ),
    "Games and prompts": (
        *(
            "games",
            "curriculum",
            "opponents",
            "num_starts",
            "reply_format",
            "history",
            "rules",
        ),
        *("show_legal_actions", "parsing", "on_invalid", "penalty", "max_retries"),
        "part_weights",
    ),
    "Sampling": (
        *("temperature", "top_k", "top_p", "min_p", "repetition_penalty"),
        *("max_completion_length", "chat_template_kwargs", "rollout_batch_size"),
        *("use_vllm", "vllm_mode", "vllm_server_base_url"),
    ),
    "Episodes and batch": (
        *("episodes_per_step", "num_generations", "per_device_train_batch_size"),
        *("gradient_accumulation_steps", "max_tokens_per_forward", "num_iterations"),
        *("flat_groups", "max_replays", "oversample", "branch", "layout"),
    ),
    "Credit": (
        *("credit", "credit_args", "within_turn", "critic", "critic_args", "columns"),
    ),
    "Optimization": (
        *("learning_rate", "lr_scheduler_type", "warmup_steps", "max_grad_norm"),
        *("loss_type", "weighting", "epsilon", "epsilon_high", "beta"),
        *("sync_ref_model", "ref_model_sync_steps"),
        *("bf16", "gradient_checkpointing", "use_cpu"),
    ),
    "Evaluation": (
        *("evaluate_every", "eval_episodes", "start_episodes", "patience"),
        "warn_collapse",
    ),
    "Output": (
        *("logging_steps", "save_steps", "save_total_limit", "saved_episodes"),
        *("saved_groups", "save_best", "show_replies_every", "stall_after"),
        *("report_to", "run_name"),
    ),
}


def print_train_help(arguments: Sequence[str]) -> None:
    """Prints the help page for a command line with `--help` or `--help-all`.

    Raises:
        ValueError: the command line names an unknown recipe.
    """
    is_all = "--help-all" in arguments
    before = [word for word in arguments if word not in ("-h", "--help", "--help-all")]
    recipe, given = split(without_dry_run(before))
    settings = {} if recipe is None else load_recipe(recipe)
    if recipe is not None and is_loop(settings):
        typer.echo(loop_help(recipe))
        return
    if is_offline(settings | given):
        typer.echo(rows_help(str((settings | given)["trainer"]), all_options=is_all))
        return
    name = implied_recipe(given) if recipe is None else recipe
    typer.echo(train_help(name, all_options=is_all))


def loop_help(recipe: str) -> str:
    """The help page of a recipe with rounds, with its defaults."""
    known = {**options_of(JobConfig), **listed_options()}
    options = [*RUN[:2], *(known[name] for name in OF_THE_START)]
    settings = load_recipe(recipe)
    rounds = json.loads(
        json.dumps(settings[ROUNDS])
    )  # without shared objects: no aliases
    shown = textwrap.indent(yaml.safe_dump(rounds, sort_keys=False), "  ")
    usage = LOOP_USAGE.format(recipe=recipe, rounds=shown)
    return "\n".join([usage, *_group(options, settings)])


def train_help(recipe: str, *, all_options: bool = False) -> str:
    """The help page, with the defaults of a recipe.

    Args:
        recipe: a file, or the name of an embedded recipe.
        all_options: whether to include the options of TRL and transformers.
    """
    settings = load_recipe(recipe)
    known = {o.name: o for o in RUN} | {
        name: option
        for name, option in {**options_of(JobConfig), **listed_options()}.items()
        if name not in ("output_dir", "resume_from_checkpoint")
    }
    grouped = {name for names in GROUPS.values() for name in names}
    own = [n for n, o in known.items() if o.source == "arena" and n not in grouped]
    lines = [_usage(recipe)]
    for title, names in {**GROUPS, "More": tuple(own)}.items():
        if names:
            lines += ["", f"{title}:", *_group((known[n] for n in names), settings)]
    if all_options:
        others = [o for n, o in known.items() if n not in grouped and n not in own]
        title = "Inherited from trl.GRPOConfig and transformers.TrainingArguments:"
        lines += ["", title, *_group(others, settings)]
    else:
        lines += [
            "",
            "arena train --help-all adds the options of TRL and transformers.",
        ]
    return "\n".join(lines)


def rows_help(trainer: str, *, all_options: bool = False) -> str:
    """The help page of a trainer that learns from rows.

    Args:
        trainer: its name.
        all_options: whether to include the options of its own; this imports TRL.

    Raises:
        ValueError: there is no such trainer.
    """
    check_name(trainer)
    options = {o.name: o for o in RUN if o.name != "dry-run"} | row_options()
    defaults = {"trainer": trainer, "data": None}  # nobody's default
    lines = [ROWS_USAGE.format(trainer=trainer), "", "Shared options:"]
    lines += _group(options.values(), defaults)
    if not all_options:
        more = f"arena train --trainer {trainer} --help-all adds the trainer's own options."
        return "\n".join([*lines, "", more])
    kind = row_trainer(trainer)
    own = trainer_options(kind.config).values()
    return "\n".join([*lines, "", f"Of {kind.config.__name__}:", *_group(own, {})])


def _usage(recipe: str) -> str:
    return USAGE.format(
        recipes=textwrap.fill(", ".join(recipes()), WIDTH, break_on_hyphens=False),
        default=DEFAULT_RECIPE,
        model=MODEL_RECIPE,
        recipe=recipe,
    ).rstrip()


def _group(options: Iterable[Option], settings: Mapping[str, Any]) -> list[str]:
    return [line for option in options for line in _lines(option, settings)]


def _lines(option: Option, settings: Mapping[str, Any]) -> list[str]:
    default = settings.get(option.name, option.default)
    text = HELP.get(option.name, option.help)
    if default is not None and default != {}:
        text = f"{text} [{_written(default)}]"
    words = textwrap.wrap(text, WIDTH - _COLUMN, break_on_hyphens=False) or [""]
    head = f"  --{option.name}"
    if len(head) + 2 > _COLUMN:
        return [head, *(" " * _COLUMN + line for line in words)]
    first, *rest = words
    return [f"{head:<{_COLUMN}}{first}", *(" " * _COLUMN + line for line in rest)]


def _written(value: Any) -> str:
    """A value in the form of the command line."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    if isinstance(value, str):
        return value
    return json.dumps(value)
