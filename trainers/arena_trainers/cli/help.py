"""The help pages of `arena train`: its options in groups, and TRL's on a page of their own."""

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer

from arena_trainers.cli.train_arguments import implied_recipe, split
from arena_trainers.job.settings import (
    DEFAULT_RECIPE,
    MODEL_RECIPE,
    JobConfig,
    load_recipe,
    recipes,
)
from arena_trainers.train.options import Option, listed_options, options_of

WIDTH = 80
_COLUMN = 30  # where what an option does begins

USAGE = """\
Usage: arena train [RECIPE] [--key value]...

Trains a language model by self-play. Without arguments, a tiny model made on
the spot learns Kuhn poker on a CPU in minutes.

RECIPE is a YAML file of options, or one of
{recipes}.
Where none is named, {default!r}; with --model, {model!r}.
Options override the recipe. Values are YAML; lists may be written a,b.

  arena train --seed 1 --output-dir runs/seed1
  arena train --model Qwen/Qwen3-0.6B --games kuhn_poker,tic_tac_toe
  arena train my_recipe.yaml --credit episode --max_steps 200
  arena train --resume runs/seed1                  after Ctrl-C or SIGTERM
  arena train --resume runs/seed1 --max_steps 800  trains longer

Defaults in brackets are those of the recipe {recipe!r}.
"""

RUN = (
    Option("output_dir", (), (), "runs/<time>", "Run folder: new or empty.", "arena"),
    Option(
        *("resume", (), (), None),
        "Run folder to go on with, from its last checkpoint. Nothing else may be given "
        "but --max_steps: then the learning rate follows the schedule of a run of that "
        "length.",
        "arena",
    ),
)
# What TRL says of an option is longer than a line, or is of another trainer.
HELP = {
    "seed": "Seed of the model, the episodes and the order of the data.",
    "max_steps": "Optimizer steps.",
    "num_generations": "Episodes of each start, a group.",
    "per_device_train_batch_size": "Episodes per process and backward pass; follows from "
    "episodes_per_step if that is given.",
    "gradient_accumulation_steps": "Backward passes per optimizer step.",
    "num_iterations": "Passes over each generation batch.",
    "learning_rate": "Learning rate of AdamW.",
    "lr_scheduler_type": "Its schedule: linear, cosine, constant, ...",
    "warmup_steps": "Steps in which the learning rate rises from 0.",
    "max_grad_norm": "Gradient norm that is clipped; 0 for none.",
    "loss_type": "Loss: grpo, bnpo, dr_grpo, dapo, cispo, ...",
    "beta": "Weight of the KL term; 0 for no reference model.",
    "epsilon": "Clipping range of the ratio.",
    "epsilon_high": "Upper clipping range, if another.",
    "sync_ref_model": "Whether the reference model is updated.",
    "ref_model_sync_steps": "Steps between its updates.",
    "ref_model_mixup_alpha": "Share of the new weights in an update.",
    "temperature": "Sampling temperature.",
    "top_k": "Samples from the k likeliest tokens; 0 for all.",
    "top_p": "Samples from this mass of tokens; 1 for all.",
    "min_p": "Samples from tokens of this share of the likeliest one's probability.",
    "repetition_penalty": "Makes tokens that were there before less likely; 1 for none.",
    "use_vllm": "Whether vLLM generates, in this process.",
    "max_completion_length": "Most tokens of a reply.",
    "chat_template_kwargs": "Arguments of the chat template.",
    "bf16": "Whether to train in bfloat16.",
    "gradient_checkpointing": "Saves memory, costs time.",
    "use_cpu": "Whether to leave a GPU alone.",
    "logging_steps": "Steps between logs.",
    "save_steps": "Steps between checkpoints.",
    "save_total_limit": "Most checkpoints that are kept.",
    "report_to": "Also logs to: wandb, tensorboard, trackio, ...",
    "run_name": "Name of the run in these logs.",
}
GROUPS = {
    "Run": ("output_dir", "resume", "seed", "max_steps"),
    "Model": (
        *("model", "hidden_size", "num_layers", "warm_start_steps"),
        *("warm_start_episodes", "warm_start_learning_rate"),
        *("lora_r", "lora_alpha", "lora_target_modules"),
    ),
    "Games and prompts": (
        *("games", "opponents", "num_starts", "reply_format", "history", "rules"),
        *("show_legal_actions", "parsing", "on_invalid", "penalty", "max_retries"),
        "part_weights",
    ),
    "Sampling": (
        *("temperature", "top_k", "top_p", "min_p", "repetition_penalty"),
        *("max_completion_length", "chat_template_kwargs", "rollout_batch_size"),
        *("use_vllm", "vllm_importance_sampling_mode"),
    ),
    "Episodes and batch": (
        *("episodes_per_step", "num_generations", "per_device_train_batch_size"),
        *("gradient_accumulation_steps", "num_iterations", "branch", "layout"),
    ),
    "Credit": (
        *("credit", "credit_args", "within_turn", "critic", "critic_args", "columns"),
    ),
    "Optimization": (
        *("learning_rate", "lr_scheduler_type", "warmup_steps", "max_grad_norm"),
        *("loss_type", "weighting", "epsilon", "epsilon_high", "beta"),
        *("sync_ref_model", "ref_model_sync_steps", "ref_model_mixup_alpha"),
        *("bf16", "gradient_checkpointing", "use_cpu"),
    ),
    "Evaluation": ("evaluate_every", "eval_episodes"),
    "Output": (
        *("logging_steps", "save_steps", "save_total_limit", "saved_episodes"),
        "saved_groups",
        *("report_to", "run_name"),
    ),
}


def print_train_help(arguments: Sequence[str]) -> None:
    """Prints the page that a command line with `--help` or `--help-all` asks for.

    Raises:
        ValueError: it names a recipe that there is not.
    """
    is_all = "--help-all" in arguments
    before = [word for word in arguments if word not in ("-h", "--help", "--help-all")]
    recipe, given = split(before)
    name = implied_recipe(given) if recipe is None else recipe
    typer.echo(train_help(name, all_options=is_all))


def train_help(recipe: str, *, all_options: bool = False) -> str:
    """The help page, with the defaults of a recipe.

    Args:
        recipe: a file, or the name of an embedded recipe.
        all_options: whether the options of TRL and transformers are on it, too.
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
        lines += ["", "The options of TRL and transformers: arena train --help-all"]
    return "\n".join(lines)


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
    """A value as one writes it on the command line."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    if isinstance(value, str):
        return value
    return json.dumps(value)
