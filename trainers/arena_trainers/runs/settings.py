"""Options of `arena train`: of a run, of rows, and of rounds; recipes and command lines.

`JobConfig` has those of every run, besides the fields of `TurnGRPOConfig` (self-play) or of
`RowConfig` and a trainer's own (rows). `Loop` has those of rounds.
"""

import dataclasses
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml

from arena_envs.checks import did_you_mean
from arena_envs.registration import games
from arena_trainers.data import selectors
from arena_trainers.options import (
    Option,
    check_declared,
    option,
    options_of,
    refuse_unknown,
    unknown_option,
    with_texts,
)
from arena_trainers.train.checks import check_warm_start
from arena_trainers.train.settings import branching_of
from arena_trainers.train.together import check_together
from arena_wrappers import Branching
from arena_wrappers.prompts import PROMPT_OPTIONS

if TYPE_CHECKING:
    from arena_trainers.train.config import TurnGRPOConfig


DEFAULT_RECIPE = "kuhn-tiny"
MODEL_RECIPE = "pretrained"  # where a model is given and no recipe
PROJECT = "arena-envs"  # of the runs in trackio and W&B
OF_THE_MODEL = (
    *("model", "hidden_size", "num_layers"),
    *("lora_r", "lora_alpha", "lora_target_modules"),
    *("evaluate_every", "exact_states", "eval_episodes", "saved_episodes"),
)  # options of `JobConfig` that rows need, too
NOT_OURS = (
    "output_dir",
    "resume_from_checkpoint",
    "remove_unused_columns",
    "dataset_kwargs",
)
ROUNDS = "rounds"
LEARNER = "learner"  # the model of the loop, among policies, and its name in records
OF_THE_ADAPTER = ("lora_r", "lora_alpha", "lora_target_modules")
OF_THE_START = (
    *("model", "hidden_size", "num_layers", "seed", "games", "use_cpu", "on_invalid"),
    *("vocab_size", "warm_start_games", "exact_states"),
    *("warm_start_steps", "warm_start_episodes", "warm_start_teacher"),
    *("warm_start_batch_size", "warm_start_learning_rate"),
    *PROMPT_OPTIONS,
    *("max_completion_length", "temperature", "top_k", "top_p", "min_p"),
    *("repetition_penalty", "chat_template_kwargs"),
    *OF_THE_ADAPTER,
)  # options beside `rounds`
_OF_THE_LOOP = ("model", "data", "seed")
_IN_TURN = ("play", "select", "train")  # stages that may be lists


@with_texts
@dataclass(frozen=True)
class JobConfig:
    """Settings of a training run besides the trainer's own."""

    model: str = option("tiny")
    hidden_size: int = option(64, least=4)
    num_layers: int = option(2, least=1)
    vocab_size: int = option(0, least=0)
    lora_r: int = option(0, least=0)
    lora_alpha: int | None = option(None, least=1)
    lora_target_modules: list[str] = option(["all-linear"])
    warm_start_steps: int = option(0, least=0)
    warm_start_episodes: int = option(1000, least=1)
    warm_start_games: list[Any] = option([])
    warm_start_teacher: str | None = option(None)
    warm_start_batch_size: int = option(256, least=1)
    warm_start_learning_rate: float | None = option(None, least=0)
    evaluate_every: int = option(10, least=0)
    exact_states: int = option(1000, least=0)
    eval_episodes: int = option(1000, least=1)
    saved_episodes: int = option(32, least=0)
    columns: dict[str, Any] = option({})
    saved_groups: int = option(2, least=0)
    show_replies_every: int | None = option(None, least=0)
    stall_after: float = option(600.0, least=0)
    save_best: bool = option(True)
    start_episodes: int = option(0, least=0)
    patience: int = option(0, least=0)
    warn_collapse: bool = option(False)

    def __post_init__(self) -> None:
        check_declared(self)
        if self.warm_start_teacher is not None and self.warm_start_steps == 0:
            raise ValueError(
                f"warm_start_teacher={self.warm_start_teacher!r} needs a supervised "
                "start; give warm_start_steps of at least 1"
            )
        if self.start_episodes == 1 or (
            self.start_episodes and not self.evaluate_every
        ):
            raise ValueError(
                "want start_episodes of 0, or of at least 2 with evaluate_every above "
                f"0, got {self.start_episodes} with evaluate_every "
                f"{self.evaluate_every}"
            )
        if 0 < self.vocab_size < 262:
            raise ValueError(
                "want vocab_size of 0, or of at least 262 for all bytes and the chat, "
                f"got {self.vocab_size}"
            )
        if self.hidden_size % 4:
            raise ValueError(f"want hidden_size divisible by 4, got {self.hidden_size}")
        if not self.lora_target_modules:
            raise ValueError("want a layer in lora_target_modules, got none")
        layers = self.lora_target_modules != ["all-linear"]
        if (layers or self.lora_alpha is not None) and not self.lora_r:
            raise ValueError(
                "lora_alpha and lora_target_modules are of an adapter, and lora_r is "
                "0; give a rank: --lora_r 16"
            )

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
        hint = did_you_mean(path, recipes())
        if games.knows(path):
            hint = f"a game is an option: arena train --games {path}"
        elif Path(path).is_dir():
            hint = f"a model is an option: arena train --model {path}"
        raise ValueError(
            f"want a recipe file, found none at {path!r}; give a file or a recipe; {hint}"
        )
    try:
        settings = _yaml(source.decode(), f"recipe {path!r}")
    except UnicodeDecodeError:
        raise ValueError(
            f"want YAML in recipe {path!r}, got bytes that are not UTF-8; save the "
            "file as UTF-8"
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
    if games.knows(argument):
        return f"{text}; separate games by commas: --games kuhn_poker,{argument}"
    return f'{text}; quote a value that has spaces: --games "[a, b]"'


def build_configs(
    settings: Mapping[str, Any], output_dir: str
) -> tuple[JobConfig, "TurnGRPOConfig"]:
    """The job's configuration and the trainer's, from a mapping of options.

    Raises:
        ValueError: an unknown option, a value of another type, or one out of range.
    """
    from arena_trainers.train.config import TurnGRPOConfig, training_options

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
    check_together(args, suppliers=config.columns, is_adapted=config.lora_r > 0)
    if config.warm_start_steps > 0:
        check_warm_start(args)
    return config, args


def output_defaults(output_dir: str, options: Container[str]) -> dict[str, Any]:
    """Defaults of a trainer's options that differ from TRL's."""
    import torch

    defaults: dict[str, Any] = {
        "report_to": "none",
        "disable_tqdm": True,
        "ddp_find_unused_parameters": False,
        "output_dir": output_dir,
        "run_name": Path(output_dir).absolute().name,
        "hub_strategy": "end",  # with the card, whose results come last
    }
    if "project" in options:  # newer versions of transformers
        defaults["project"] = PROJECT
    if not torch.cuda.is_available():
        defaults |= {"use_cpu": True, "bf16": False}
    return defaults


@with_texts
@dataclass(frozen=True)
class RowConfig:
    """Settings of a run that learns from rows, besides the model's and the trainer's."""

    trainer: str = option()
    data: str = option()
    batch_size: int = option(32, least=1)
    max_tokens_per_forward: int | None = option(None, least=1)

    def __post_init__(self) -> None:
        check_declared(self)


def row_options() -> dict[str, Option]:
    """The options that all trainers share, by name; imports no library."""
    ours = options_of(RowConfig)
    shared = options_of(JobConfig)
    return ours | {name: shared[name] for name in OF_THE_MODEL}


def trainer_options(config: type[Any]) -> dict[str, Option]:
    """The options of a trainer's own, by name."""
    found = options_of(
        config, frozenset(one.name for one in dataclasses.fields(config))
    )
    return {name: option for name, option in found.items() if name not in NOT_OURS}


def row_config(settings: Mapping[str, Any]) -> tuple[RowConfig, JobConfig]:
    """The settings that all trainers share.

    Raises:
        ValueError: one is missing, of another type or out of range.
    """
    if settings.get("data") is None:
        raise ValueError(
            f"trainer {settings['trainer']!r} learns from rows; give --data "
            "FILE.parquet, which arena data writes, or a data set of messages"
        )
    options = row_options()
    given = {n: options[n].converted(v) for n, v in settings.items() if n in options}
    shared = {name: given.pop(name) for name in OF_THE_MODEL if name in given}
    return RowConfig(**given), JobConfig(**shared)


def trainer_args(
    config: type[Any], settings: Mapping[str, Any], output_dir: Path, is_tiny: bool
) -> Any:
    """The trainer's own settings.

    Raises:
        ValueError: an unknown option, a value of another type, or one out of range.
    """
    options, ours = trainer_options(config), row_options()
    given = {}
    for name, value in settings.items():
        if name in ours:
            continue
        if name not in options:
            trainer, known = settings["trainer"], [*ours, *options]
            page = f"arena train --trainer {trainer} --help-all"
            raise unknown_option(name, known, f"trainer {trainer!r} has no", page)
        given[name] = options[name].converted(value)
    for name in (
        "per_device_train_batch_size",
        "gradient_accumulation_steps",
        "auto_find_batch_size",
    ):
        if name in given:
            raise ValueError(
                f"want batch_size alone, which is cut to fit the memory, got {name}; "
                "give --batch_size N, and --max_tokens_per_forward M for smaller "
                "micro-batches"
            )
    defaults = output_defaults(str(output_dir), options)
    defaults["remove_unused_columns"] = False  # the collator reads the masks
    if "max_length" in options:
        defaults["max_length"] = None  # rows are never cut
    if "router_aux_loss_coef" in options:
        defaults["router_aux_loss_coef"] = 0.0  # it depends on the micro-batches
    if is_tiny:
        defaults["gradient_checkpointing"] = False
    return config(**{**defaults, **given})


@with_texts
@dataclass(frozen=True)
class PlayStage:
    """The line-ups of a round, and the number of their episodes."""

    episodes: int = option(100, least=1)
    samples: int = option(1, least=1)
    same_seeds: bool = option(False)
    policies: list[str] = option([LEARNER])
    opponents: list[str] = option(["self"])
    branch: dict[str, Any] | None = option(None)

    def __post_init__(self) -> None:
        check_declared(self)
        _names(self, "policies", "opponents")
        _ = self.branching  # raises where the options do not fit

    @property
    def branching(self) -> Branching | None:
        """The branching of the episodes."""
        return branching_of("rounds.play.branch", self.branch)


@with_texts
@dataclass(frozen=True)
class EvaluateStage:
    """The opponents of each model's evaluation."""

    opponents: list[str] = option(["random"])
    episodes: int = option(100, least=1)

    def __post_init__(self) -> None:
        check_declared(self)
        _names(self, "opponents")


@dataclass(frozen=True)
class RoundStages:
    """The stages that differ between rounds.

    Attributes:
        play: who plays.
        select: the options of a selector, by its name.
        train: `trainer` and its options.
    """

    play: PlayStage
    select: dict[str, dict[str, Any]]
    train: dict[str, Any]


@with_texts
@dataclass(frozen=True)
class Loop:
    """The stages of the rounds, and the number of rounds."""

    num: int = option(least=1)
    stages: list[RoundStages] = option()
    evaluate: EvaluateStage = option()
    start_from: Literal["first", "last"] = option("last")
    aggregate: bool = option(False)
    patience: int = option(0, least=0)

    def __post_init__(self) -> None:
        try:
            check_declared(self)
        except ValueError as error:
            raise ValueError(f"rounds: {error}") from None


def is_loop(settings: Mapping[str, Any]) -> bool:
    """Whether a recipe has rounds."""
    return ROUNDS in settings


def read_loop(settings: Mapping[str, Any]) -> tuple[Loop, dict[str, Any]]:
    """The loop of a recipe, and the options of the model that it starts from.

    Raises:
        ValueError: an unknown key, a missing one, or a value that does not fit.
    """
    start = {name: value for name, value in settings.items() if name != ROUNDS}
    for name in start:
        if name not in OF_THE_START:
            raise ValueError(
                f"a recipe with rounds has no option {name!r}; "
                f"{did_you_mean(name, [ROUNDS, *OF_THE_START])}; options of the "
                "trainer belong in rounds.train"
            )
    given = _mapping(ROUNDS, settings[ROUNDS])
    known = {n: o for n, o in options_of(Loop).items() if n != "stages"}
    refuse_unknown(ROUNDS, given, [*known, *_IN_TURN])
    for name in ("num", "select", "train"):
        if name not in given:
            raise ValueError(f"rounds needs {name!r}; give it")
    evaluate = _stage(EvaluateStage, "rounds.evaluate", given.get("evaluate", {}))
    others = {
        name: known[name].converted(value)
        for name, value in given.items()
        if name not in (*_IN_TURN, "evaluate")
    }
    return Loop(stages=_stages(given), evaluate=evaluate, **others), start


def with_rounds(settings: Mapping[str, Any], num: Any) -> dict[str, Any]:
    """The settings of a loop that goes on to more rounds.

    Raises:
        ValueError: it is not above the old one.
    """
    rounds = _mapping(ROUNDS, settings[ROUNDS])
    if type(num) is not int or num <= rounds["num"]:
        raise ValueError(
            f"want --rounds as a number above {rounds['num']}, the rounds so far, got "
            f"{num!r:.60}"
        )
    return {**settings, ROUNDS: {**rounds, "num": num}}


def _stages(given: Mapping[str, Any]) -> list[RoundStages]:
    """The stages of the rounds, as many as the lists are long."""
    stages = {name: given.get(name, {}) for name in _IN_TURN}
    lists = {name: value for name, value in stages.items() if isinstance(value, list)}
    lengths = {len(value) for value in lists.values()} or {1}
    if len(lengths) > 1 or 0 in lengths:
        told = " and ".join(f"{len(v)} of {name}" for name, v in lists.items())
        raise ValueError(
            f"want lists of equal length in rounds, got {told}; a mapping in place of "
            "a list holds for all rounds"
        )
    found = []
    for k in range(lengths.pop()):
        where = {n: f"rounds.{n}[{k}]" if n in lists else f"rounds.{n}" for n in stages}
        one = {n: v[k] if n in lists else v for n, v in stages.items()}
        play = _stage(PlayStage, where["play"], one["play"])
        train = dict(_mapping(where["train"], one["train"]))
        select = selectors.read(one["select"])
        _check_train(train)
        found.append(RoundStages(play, {select.name: dict(select.options)}, train))
    return found


def _check_train(train: Mapping[str, Any]) -> None:
    if not isinstance(train.get("trainer"), str):
        raise ValueError(
            "want the name of a trainer as rounds.train.trainer, got "
            f"{train.get('trainer')!r:.60}"
        )
    own = "a loop trains its own model on its own rows; leave it out"
    same = "all rounds have the same adapter; give it beside rounds"
    for name in (*_OF_THE_LOOP, *OF_THE_ADAPTER):
        if name in train:
            why = own if name in _OF_THE_LOOP else same
            raise ValueError(f"rounds.train has no option {name!r}: {why}")


def _stage(kind: Any, where: str, given: Any) -> Any:
    """The settings of a stage, an object of the class `kind`."""
    values, known = _mapping(where, given), options_of(kind)
    refuse_unknown(where, values, known)
    try:
        return kind(
            **{key: known[key].converted(value) for key, value in values.items()}
        )
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _mapping(where: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(k, str) for k in given):
        raise ValueError(f"want {where} as a mapping of options, got {given!r:.60}")
    return given


def _names(stage: Any, *names: str) -> None:
    for name in names:
        given: Sequence[Any] = getattr(stage, name)
        if not given or not all(isinstance(policy, str) for policy in given):
            raise ValueError(f"want {name} as a list of policies, got {given!r:.60}")


def overridden(settings: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a recipe with the options of a command line.

    In a recipe with `rounds`, a name such as `rounds.play.episodes` is a path. Where a stage is
    a list, all its elements change, or the one whose number the path has. `rounds` with a number
    is `rounds.num`.

    Args:
        settings: those of the recipe.
        given: options by name.

    Raises:
        ValueError: a path leads into a value without options, or beyond a list.

    >>> recipe = {"rounds": {"num": 4, "train": [{"beta": 0.1}, {"beta": 0.5}]}}
    >>> overridden(recipe, {"seed": 1, "rounds": 2, "rounds.train.1.beta": 0.9})
    {'rounds': {'num': 2, 'train': [{'beta': 0.1}, {'beta': 0.9}]}, 'seed': 1}
    """
    found = dict(settings)
    for name, value in given.items():
        path = name.split(".")
        if name == ROUNDS and ROUNDS in found and type(value) is int:
            path = [ROUNDS, "num"]
        if ROUNDS in found and path[0] == ROUNDS:
            found[ROUNDS] = _changed(found[ROUNDS], path, 1, value)
        else:
            found[name] = value
    return found


def _changed(old: Any, path: Sequence[str], depth: int, value: Any) -> Any:
    """`old`, which stands at the first `depth` names of a path, with a new value at its end."""
    if depth == len(path):
        return value
    name, where = path[depth], ".".join(path[:depth])
    if isinstance(old, list):
        if not name.isdecimal():
            return [_changed(one, path, depth, value) for one in old]
        if int(name) >= len(old):
            raise ValueError(
                f"{where} is a list of {len(old)}, counted from 0; it has no {name}, "
                f"got --{'.'.join(path)}"
            )
        new = _changed(old[int(name)], path, depth + 1, value)
        return [new if k == int(name) else one for k, one in enumerate(old)]
    if old is not None and not isinstance(old, Mapping):
        raise ValueError(
            f"{where} is {old!r:.60} and has no options, got --{'.'.join(path)}; give "
            f"--{where} VALUE"
        )
    inner = dict(old or {})
    return inner | {name: _changed(inner.get(name), path, depth + 1, value)}
