"""Options of `arena train`: the job's own, and every field of `TurnGRPOConfig`."""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from arena_envs.registration import did_you_mean

if TYPE_CHECKING:
    from arena_trainers.config import TurnGRPOConfig

DEFAULT_RECIPE = "kuhn-tiny"
MODEL_RECIPE = "pretrained"  # where a model is given and no recipe


@dataclass(frozen=True)
class JobConfig:
    """What a training run does besides the trainer's own settings."""

    model: str = field(
        default="tiny",
        metadata={
            "help": "Folder of a saved model and tokenizer, or 'tiny': made on the spot."
        },
    )
    hidden_size: int = field(default=64, metadata={"help": "Width of the tiny model."})
    num_layers: int = field(default=2, metadata={"help": "Layers of the tiny model."})
    warm_start_steps: int = field(
        default=0,
        metadata={
            "help": "Optimizer steps of imitation of random legal play before self-play."
        },
    )
    warm_start_episodes: int = field(
        default=1000, metadata={"help": "Episodes of legal play that are imitated."}
    )
    warm_start_learning_rate: float = field(
        default=3e-3, metadata={"help": "Learning rate of the imitation."}
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
            "help": "Functions of yours that give columns to the estimator or parts of the "
            "reward: {rewards.bonus: 'my_module:my_function'}."
        },
    )
    saved_groups: int = field(
        default=2,
        metadata={
            "help": "Training groups kept, with credit, at each logging step; 0 for none."
        },
    )

    def __post_init__(self) -> None:
        lowest = {"hidden_size": 4, "num_layers": 1, "warm_start_episodes": 1}
        lowest["eval_episodes"] = 1
        for option in dataclasses.fields(self):
            value, least = getattr(self, option.name), lowest.get(option.name, 0)
            if isinstance(value, int | float) and not least <= value < math.inf:
                raise ValueError(f"want {option.name} of at least {least}, got {value}")
        if self.hidden_size % 4:
            raise ValueError(f"want hidden_size divisible by 4, got {self.hidden_size}")


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
            f"want a recipe file, found none at {path!r}; embedded are "
            f"{', '.join(recipes())}"
        )
    try:
        settings = _yaml(source.decode(), f"recipe {path!r}")
    except UnicodeDecodeError:
        raise ValueError(f"want text in recipe {path!r}, got bytes") from None
    if not isinstance(settings, dict) or not all(isinstance(k, str) for k in settings):
        raise ValueError(f"want a mapping of options in recipe {path!r}")
    return settings


_PATHS = ("model", "output_dir", "resume")


def _yaml(text: str, where: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{where} is not YAML: {reason}") from None


def read_overrides(arguments: list[str]) -> dict[str, Any]:
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
            raise ValueError(f"want an option such as --seed 1, got {argument!r}")
        key, found, value = argument[2:].partition("=")
        if not found:
            following = next(rest, None)
            if following is None:
                raise ValueError(f"option --{key} lacks a value")
            value = following
        name = key.replace("-", "_")
        settings[name] = value if name in _PATHS else _yaml(value, f"--{key}")
    return settings


def build_configs(
    settings: Mapping[str, Any], output_dir: str
) -> tuple[JobConfig, "TurnGRPOConfig"]:
    """The two configurations that a mapping of options describes.

    Args:
        settings: option values by name.
        output_dir: the run folder.

    Raises:
        ValueError: an unknown option, a value of another type, or one out of range.
    """
    import torch

    from arena_trainers.config import TurnGRPOConfig

    job_fields = {option.name: option for option in dataclasses.fields(JobConfig)}
    fields = {
        option.name: option
        for option in dataclasses.fields(TurnGRPOConfig)
        if option.init
    }
    for key in settings:
        if key not in job_fields and key not in fields:
            hint = did_you_mean(key, [*job_fields, *fields])
            raise ValueError(f"unknown option {key!r}; {hint}")
    job_hints = typing.get_type_hints(JobConfig)
    hints = typing.get_type_hints(TurnGRPOConfig)
    job, training = {}, {}
    for key, value in settings.items():
        if key in job_fields:
            job[key] = _converted(key, value, job_hints[key])
        else:
            training[key] = _converted(key, value, hints[key])
    defaults = {
        "report_to": "none",
        "disable_tqdm": True,
        "ddp_find_unused_parameters": False,
        "output_dir": output_dir,
    }
    if not torch.cuda.is_available():
        defaults |= {"use_cpu": True, "bf16": False}
    return JobConfig(**job), TurnGRPOConfig(**{**defaults, **training})


def _converted(key: str, value: Any, hint: Any) -> Any:
    """`value` as the type that the option wants, where that is a plain one."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    kinds = (
        [typing.get_origin(k) or k for k in typing.get_args(hint)]
        if is_union
        else [hint]
    )
    kinds = [typing.get_origin(kind) or kind for kind in kinds]
    if value is None and type(None) in kinds:
        return None
    if any(kind not in _KINDS for kind in kinds if kind is not type(None)):
        return value  # an enumeration or the like: its own checks apply
    if type(value) in kinds:
        return value
    if float in kinds and isinstance(value, int | str) and not isinstance(value, bool):
        try:
            return float(value)  # YAML reads 1e-3, without a point, as a string
        except ValueError:
            pass
    if str in kinds and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    names = " or ".join(kind.__name__ for kind in kinds if kind is not type(None))
    raise ValueError(f"want {names} as {key}, got {value!r}")


_KINDS = (bool, int, float, str, list, dict)
