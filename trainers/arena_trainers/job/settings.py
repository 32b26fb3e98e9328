"""Options of `arena train`: the job's own, and every field of `TurnGRPOConfig`."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from arena_envs.checks import did_you_mean
from arena_trainers.train.checks import refuse_warm_start
from arena_trainers.train.options import options_of, training_options, unknown_option

if TYPE_CHECKING:
    from arena_trainers.train.config import TurnGRPOConfig

DEFAULT_RECIPE = "kuhn-tiny"
MODEL_RECIPE = "pretrained"  # where a model is given and no recipe


@dataclass(frozen=True)
class JobConfig:
    """Settings of a training run besides the trainer's own."""

    model: str = field(
        default="tiny",
        metadata={
            "help": "Folder of a saved model, an id of the Hugging Face hub, or 'tiny': "
            "made on the spot."
        },
    )
    hidden_size: int = field(default=64, metadata={"help": "Width of the tiny model."})
    num_layers: int = field(default=2, metadata={"help": "Layers of the tiny model."})
    lora_r: int = field(
        default=0,
        metadata={
            "help": "Rank of a LoRA adapter that is trained; 0 to train all weights."
        },
    )
    lora_alpha: int | None = field(
        default=None,
        metadata={"help": "Scale of the adapter; twice the rank by default."},
    )
    lora_target_modules: list[str] = field(
        default_factory=lambda: ["all-linear"],
        metadata={
            "help": "Layers that get an adapter, such as q_proj,v_proj; all linear layers "
            "but the output by default."
        },
    )
    warm_start_steps: int = field(
        default=0,
        metadata={
            "help": "Optimizer steps of imitation of random legal play before self-play."
        },
    )
    warm_start_episodes: int = field(
        default=1000, metadata={"help": "Episodes of legal play to imitate."}
    )
    warm_start_teacher: str | None = field(
        default=None,
        metadata={
            "help": "Policy string of a bot whose replies are imitated, such as 'cfr'; by "
            "default random legal play is."
        },
    )
    warm_start_batch_size: int = field(
        default=256, metadata={"help": "Replies imitated per optimizer step."}
    )
    warm_start_learning_rate: float | None = field(
        default=None,
        metadata={
            "help": "Learning rate of the imitation; by default from the model's size."
        },
    )
    evaluate_every: int = field(
        default=10, metadata={"help": "Steps between exact evaluations; 0 for none."}
    )
    eval_episodes: int = field(
        default=1000, metadata={"help": "Episodes that measure the legal-reply rate."}
    )
    saved_episodes: int = field(
        default=32, metadata={"help": "Episodes kept in episodes.jsonl."}
    )
    columns: dict[str, Any] = field(
        default_factory=dict,
        metadata={
            "help": "Columns or reward parts: {rewards.judge: 'my_module:my_function'}, or "
            "by a reward model {rewards.judge: {reward: PATH}}."
        },
    )
    saved_groups: int = field(
        default=2, metadata={"help": "Training groups kept at each log; 0 for none."}
    )
    show_replies_every: int | None = field(
        default=None,
        metadata={"help": "Steps between sample replies; default 10, tiny: 0."},
    )
    stall_after: float = field(
        default=600.0,
        metadata={
            "help": "Seconds of one step after which each process says what it waits for; "
            "0 for never."
        },
    )
    save_best: bool = field(
        default=True, metadata={"help": "Whether to keep the best model in best/."}
    )
    start_episodes: int = field(
        default=0, metadata={"help": "Episodes against the start at evaluations."}
    )
    patience: int = field(
        default=0, metadata={"help": "Evaluations without a better score to the end."}
    )
    warn_collapse: bool = field(
        default=False, metadata={"help": "Whether to warn of a collapse."}
    )

    def __post_init__(self) -> None:
        lowest = {"hidden_size": 4, "num_layers": 1, "warm_start_episodes": 1}
        lowest |= {"warm_start_batch_size": 1, "eval_episodes": 1, "lora_alpha": 1}
        for option in dataclasses.fields(self):
            value, least = getattr(self, option.name), lowest.get(option.name, 0)
            if isinstance(value, int | float) and not least <= value < math.inf:
                raise ValueError(f"want {option.name} of at least {least}, got {value}")
        if self.warm_start_teacher is not None and self.warm_start_steps == 0:
            raise ValueError(
                f"warm_start_teacher={self.warm_start_teacher!r} needs a supervised start; "
                "give warm_start_steps of at least 1"
            )
        if self.start_episodes == 1 or (
            self.start_episodes and not self.evaluate_every
        ):
            raise ValueError(
                "want start_episodes of 0, or of at least 2 with evaluate_every above 0, got "
                f"{self.start_episodes} with evaluate_every {self.evaluate_every}"
            )
        if self.hidden_size % 4:
            raise ValueError(f"want hidden_size divisible by 4, got {self.hidden_size}")
        self._check_lora()

    @property
    def steps_between_replies(self) -> int:
        """`show_replies_every`, or its default; 0 for none."""
        if self.show_replies_every is None:
            return 0 if self.model == "tiny" else 10
        return self.show_replies_every

    @property
    def peft_config(self) -> Any:
        """The `LoraConfig` of the adapter that is trained; None where there is none."""
        if self.lora_r == 0:
            return None
        from arena_trainers.lm.adapters import lora_config

        return lora_config(self.lora_r, self.lora_alpha, self.lora_target_modules)

    def _check_lora(self) -> None:
        if not self.lora_target_modules:
            raise ValueError("want a layer in lora_target_modules, got none")
        given = self.lora_alpha is not None or self.lora_target_modules != [
            "all-linear"
        ]
        if given and not self.lora_r:
            raise ValueError(
                "lora_alpha and lora_target_modules are of an adapter, and lora_r is 0; "
                "give a rank: --lora_r 16"
            )


def recipes() -> list[str]:
    """Names of the embedded recipes."""
    found = (files("arena_trainers") / "recipes").iterdir()
    return sorted(f.name.removesuffix(".yaml") for f in found if f.suffix == ".yaml")  # type: ignore[attr-defined] # a Path


def load_recipe(path: str) -> dict[str, Any]:
    """The settings of a recipe: a file, or the name of an embedded one.

    Raises:
        ValueError: the file is missing or no mapping.
    """
    if path in recipes():
        embedded = files("arena_trainers") / "recipes" / f"{path}.yaml"
        source = embedded.read_bytes()
    elif Path(path).is_file():
        source = Path(path).read_bytes()
    else:
        raise ValueError(
            f"want a recipe file, found none at {path!r}; give a file or a recipe; "
            f"{did_you_mean(path, recipes())}"
        )
    try:
        settings = _yaml(source.decode(), f"recipe {path!r}")
    except UnicodeDecodeError:
        raise ValueError(
            f"want YAML in recipe {path!r}, got bytes that are not UTF-8; save the file as "
            "UTF-8"
        ) from None
    if not isinstance(settings, dict) or not all(isinstance(k, str) for k in settings):
        raise ValueError(
            f"want a mapping of options in recipe {path!r}, got "
            f"{type(settings).__name__}; write lines such as seed: 1"
        )
    return {name.replace("-", "_"): value for name, value in settings.items()}


_PATHS = ("model", "output_dir", "resume")


def _yaml(text: str, where: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{where} is not YAML: {reason}") from None


def read_overrides(arguments: Sequence[str]) -> dict[str, Any]:
    """The options of a command line: `--key value` or `--key=value`, values as YAML.

    Raises:
        ValueError: an argument is no option, or an option lacks its value.

    >>> read_overrides(["--learning-rate", "1e-4", "--games=[kuhn_poker]"])
    {'learning_rate': '1e-4', 'games': ['kuhn_poker']}
    """
    settings: dict[str, Any] = {}
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("--"):
            raise ValueError(_no_option(argument))
        key, found, value = argument[2:].partition("=")
        if not found:
            following = next(rest, None)
            if following is None or following.startswith("--"):
                raise ValueError(
                    f"option --{key} lacks a value; give it as --{key} VALUE"
                )
            value = following
        name = key.replace("-", "_")
        settings[name] = value if name in _PATHS else _yaml(value, f"--{key}")
    return settings


def _no_option(argument: str) -> str:
    text = f"want an option such as --seed 1, got {argument!r}"
    if argument in recipes() or argument.endswith((".yaml", ".yml")):
        return f"{text}; a recipe comes first: arena train {argument} --seed 1"
    if argument.startswith("-"):
        return f"{text}; options have two hyphens"
    return f'{text}; quote a value that has spaces: --games "[a, b]"'


def build_configs(
    settings: Mapping[str, Any], output_dir: str
) -> tuple[JobConfig, "TurnGRPOConfig"]:
    """The job's configuration and the trainer's, from a mapping of options.

    Args:
        settings: option values by name.
        output_dir: the run folder.

    Raises:
        ValueError: an unknown option, a value of another type, or one out of range.
    """
    from arena_trainers.job.output_defaults import output_defaults
    from arena_trainers.train.config import TurnGRPOConfig

    job_options, options = options_of(JobConfig), training_options()
    job, training = {}, {}
    for key, value in settings.items():
        if key in job_options:
            job[key] = job_options[key].converted(value)
        elif key in options:
            training[key] = options[key].converted(value)
        else:
            raise unknown_option(key, [*job_options, *options])
    if isinstance(names := training.get("report_to"), str):
        training["report_to"] = names.replace(" ", "").split(",")
    defaults = output_defaults(output_dir, options)
    config, args = JobConfig(**job), TurnGRPOConfig(**{**defaults, **training})
    if config.warm_start_steps > 0:
        refuse_warm_start(args)
    return config, args
