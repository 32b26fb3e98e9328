"""Options: one declaration is the keyword of Python, the key of YAML, `--name` and its help.

A field of a dataclass, made with `option`, has the type, default, least value, help and group of an
option; `Literal` gives its choices. `docs/options.md` and the help page are made of the fields.
`check_declared` checks the values.
"""

import copy
import dataclasses
import difflib
import enum
import math
import types
import typing
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from arena_envs import yaml_text
from arena_envs.checks import check_known, did_you_mean
from arena_envs.registry import split

_CONVERTIBLE = (bool, int, float, str, list, dict, type(None))


_TYPES = {  # as errors name them
    "bool": "true or false",
    "int": "an integer",
    "float": "a number",
    "str": "a text",
    "list": "a list",
    "dict": "a mapping",
}

GROUPS = (
    "Run",
    "Model",
    "Games and prompts",
    "Sampling",
    "Episodes and batch",
    "Credit",
    "Optimization",
    "Evaluation",
    "Output",
)  # of the help page, in its order

MAPPINGS = {
    "tiny": "Shape of the tiny model",
    "lora": "A LoRA adapter that is trained in place of all weights",
    "warm_start": "Imitation of legal play before self-play",
    "prompt": "Prompts, and how replies are read",
    "select": "Which played episodes are trained on",
    "callbacks": "What a run measures and writes",
}  # keys of recipes that hold several options, with what these are for
_TEXTS_OR_FILES = ("persona", "system", "turn", "again")  # @FILE is the text of a file


@dataclass(frozen=True)
class Option:
    """One option.

    Args:
        name: as in recipes.
        types: names of the allowed types; empty if every type is allowed.
        choices: the allowed strings of an enumeration; empty for other options.
        default: the default value.
        help: what it does; the help page shows the first sentence.
        source: `"arena"`, or `"trl"` if it is inherited.
        group: of the help page; "" for none.
        least: the lowest number that is allowed; None for any.
        mapping: the key of recipes that holds it, one of `MAPPINGS`; "" for none.
    """

    name: str
    types: tuple[str, ...]
    choices: tuple[str, ...]
    default: Any
    help: str
    source: str
    group: str = ""
    least: float | None = None
    mapping: str = ""

    @property
    def key(self) -> str:
        """Its name in recipes, or in its mapping: `r` for `lora_r` in `lora`."""
        return self.name.removeprefix(f"{self.mapping}_") if self.mapping else self.name

    @property
    def typed_name(self) -> str:
        """The words of a command line that its value follows: `--beta` or `--lora r=`."""
        return f"--{self.mapping} {self.key}=" if self.mapping else f"--{self.name}"

    def converted(self, value: Any) -> Any:
        """`value`, converted to a type of the option.

        Strings are converted to numbers (YAML reads 1e-3 as a string) and, at commas, to
        lists.

        Raises:
            ValueError: a value of another type, or that is not among the choices.
        """
        if value is None and "None" in self.types:
            return None
        if value is False and "no" in self.choices:  # YAML reads no so
            return "no"
        if self.choices and value not in self.choices:
            hint = did_you_mean(str(value), self.choices)
            raise ValueError(f"unknown {self.name} {value!r}; {hint}")
        if not self.types or type(value).__name__ in self.types:
            return value
        is_number = _is_int_or_float(value)
        if "float" in self.types and (is_number or isinstance(value, str)):
            with suppress(ValueError, OverflowError):
                return float(value)
        if "str" in self.types and is_number:
            return str(value)
        if "list" in self.types and isinstance(value, str):
            return split(value)
        types_wanted = [_TYPES[name] for name in self.types if name != "None"]
        raise ValueError(
            f"want {' or '.join(types_wanted)} as {self.name}, got {value!r}"
        )

    def check(self, value: Any) -> None:
        """Raises ValueError for a value of another type or out of range."""
        number = self.converted(value)
        if self.least is None or not _is_int_or_float(number):
            return
        if not self.least <= number < math.inf:
            raise ValueError(f"want {self.name} of at least {self.least}, got {value}")


def _is_int_or_float(value: Any) -> bool:
    """Whether a value is a number, also an infinite one; a bool is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def option(
    default: Any = dataclasses.MISSING,
    *,
    help: str,
    group: str = "",
    least: float | None = None,
    mapping: str = "",
) -> Any:
    """A field of a dataclass that is an option.

    Args:
        default: the default value; none for an option that must be given.
        help: what the option does; the help page shows the first sentence.
        group: of the help page, one of `GROUPS`; "" for none.
        least: the lowest number that is allowed.
        mapping: the key of recipes that holds it, one of `MAPPINGS`; "" for none.
    """
    metadata = {"help": help, "group": group, "least": least, "mapping": mapping}
    if isinstance(default, list | dict):
        copy_of_default = partial(copy.copy, default)
        return dataclasses.field(default_factory=copy_of_default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


T = typing.TypeVar("T", bound=type)


def with_texts(cls: T) -> T:
    """Adds the help of its options to the docstring of a dataclass."""
    lines = [
        f"    {field.name}: {field.metadata['help']}"
        for field in dataclasses.fields(cls)
    ]
    cls.__doc__ = "\n".join([f"{cls.__doc__}\n", "Options:", *lines])
    return cls


def check_declared(values: Any, cls: Any = None) -> None:
    """Checks the values of an object by the declarations of its class, or of a base class.

    Raises:
        ValueError: a value of another type, not among the choices, or out of range.
    """
    for name, option in options_of(cls or type(values)).items():
        option.check(getattr(values, name))


# our options by the names that other programs have for them; the first that a trainer has counts
_NAMES_ELSEWHERE = {
    "algo": ("credit",),
    "algorithm": ("credit",),
    "base_model": ("model",),
    "batch_size": ("episodes_per_step",),
    "bs": ("batch_size", "episodes_per_step"),
    "clip_eps": ("epsilon",),
    "clip_range": ("epsilon",),
    "device": ("use_cpu",),
    "env": ("games",),
    "environment": ("games",),
    "epochs": ("num_train_epochs", "max_steps"),
    "estimator": ("credit",),
    "eval_every": ("evaluate_every",),
    "eval_frequency": ("evaluate_every",),
    "evaluation_strategy": ("evaluate_every", "eval_strategy"),
    "group_size": ("num_generations",),
    "kl_coef": ("beta",),
    "lr": ("learning_rate",),
    "max_new_tokens": ("max_completion_length",),
    "max_tokens": ("max_completion_length",),
    "model_name": ("model",),
    "model_name_or_path": ("model",),
    "no_cuda": ("use_cpu",),
    "num_epochs": ("num_train_epochs", "max_steps"),
    "num_steps": ("max_steps",),
    "opponent": ("opponents",),
    "ppo_epochs": ("num_iterations",),
    "out": ("output_dir",),
    "rank": ("lora_r",),
    "reward_funcs": ("rewards",),
    "ref_model": ("reference",),
    "reward_model": ("columns",),
    "steps": ("max_steps",),
    "teacher": ("warm_start_teacher",),
    "total_timesteps": ("max_steps",),
    "train_batch_size": ("batch_size", "episodes_per_step"),
    "use_lora": ("lora_r",),
    "use_peft": ("lora_r",),
    "wandb": ("report_to",),
    "warmup_ratio": ("warmup_steps",),
}

_SEVERAL_PROCESSES = (
    "start several processes with accelerate launch -m arena_trainers train"
)

# what to do in place of options of other programs that we have no option for
_ADVICE_ELSEWHERE = {
    "attn_implementation": "give --model_init_kwargs '{attn_implementation: NAME}'",
    "config": "name the recipe without it, as in: arena train kuhn-tiny",
    "data": "self-play makes its own data; rows need --trainer NAME --data FILE",
    "dataset": "self-play makes its own data; rows need --trainer NAME --data FILE",
    "dataset_name": "self-play makes its own data; rows need --trainer NAME --data FILE",
    "discount": "it is an option of credit: --credit_args '{discount: 0.99}'",
    "dtype": "give --model_init_kwargs '{dtype: bfloat16}' with --lora r=16, or --bf16 true",
    "gpus": _SEVERAL_PROCESSES,
    "gae_lambda": "it is an option of credit; arena credit suggest names those that have one",
    "gamma": "it is an option of credit: --credit_args '{discount: 0.99}'",
    "lam": "it is an option of credit; arena credit suggest names those that have one",
    "load_in_4bit": "weights are not quantized; --lora r=16 trains few of them, in less memory",
    "load_in_8bit": "weights are not quantized; --lora r=16 trains few of them, in less memory",
    "logging_dir": "logs are in the --output-dir",
    "max_prompt_length": "prompts are never cut; max_completion_length bounds replies",
    "nproc_per_node": _SEVERAL_PROCESSES,
    "num_gpus": _SEVERAL_PROCESSES,
    "num_processes": _SEVERAL_PROCESSES,
    "overwrite_output_dir": "no run is overwritten; give another --output-dir",
    "recipe": "name the recipe without it, as in: arena train kuhn-tiny",
    "tokenizer": "the tokenizer is that in the folder of --model",
    "torch_dtype": "give --model_init_kwargs '{dtype: bfloat16}' with --lora r=16, or --bf16 true",
}


# keys of `--lora` and `--sampling` by the names that other programs have for them
_KEYS_ELSEWHERE = {
    "rank": "r",
    "lora_rank": "r",
    "lora_r": "r",
    "lora_alpha": "alpha",
    "modules": "target_modules",
    "max_tokens": "max_new_tokens",
    "temp": "temperature",
}


def unknown_option(
    name: str,
    options: Mapping[str, Option],
    complaint: str = "unknown",
    page: str = "arena train --help-all",
) -> ValueError:
    """The error for an unknown option; `options` are those that are known, by name."""
    guesses = [guess for guess in _NAMES_ELSEWHERE.get(name, ()) if guess in options]
    guesses += difflib.get_close_matches(name, options, n=1)
    if name in _ADVICE_ELSEWHERE:
        hint = _ADVICE_ELSEWHERE[name]
    elif guesses:
        nearest = options[guesses[0]]
        word = f"{nearest.typed_name}VALUE" if nearest.mapping else repr(nearest.name)
        hint = f"did you mean {word}?"
    else:
        hint = f"{page} lists all"
    return ValueError(f"{complaint} option {name!r}; {hint}")


def refuse_unknown(
    where: str, names: typing.Iterable[Any], known_names: typing.Iterable[str]
) -> None:
    """Raises ValueError for a name that is none of the known options."""
    known_names = list(known_names)
    for name in names:
        check_known(name, known_names, f"{where} has no option {name!r}")


def read_pairs(
    name: str, words: typing.Iterable[str], options: Mapping[str, Option]
) -> dict[str, Any]:
    """The values of `--name KEY=VALUE`, repeated, or of `--name '{key: value}'`, by key.

    Values are YAML; those of options that take text alone are read as they stand, or from a file,
    as in `--prompt persona=@FILE`.

    Args:
        name: of the option of the command line.
        words: what follows it, each time that it is given.
        options: by key.

    Raises:
        ValueError: a word has another form, or a key is unknown.
    """
    values: dict[str, Any] = {}
    for word in words:
        if word.startswith("{"):
            values |= read_mapping(name, read_yaml(word, f"--{name}"), options)
            continue
        key, equals, text = word.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key.isidentifier():
            first = next(iter(options))
            raise ValueError(
                f"want --{name} KEY=VALUE, got {word!r:.80}; the keys are "
                f"{', '.join(options)}, as in --{name} {first}=VALUE"
            )
        if key not in options and _KEYS_ELSEWHERE.get(key) in options:
            raise ValueError(
                f"--{name} has no key {key!r}; did you mean {_KEYS_ELSEWHERE[key]!r}?"
            )
        check_known(key, options, f"--{name} has no key {key!r:.80}")
        types_of_value = {*options[key].types} - {"None"}
        is_null = text == "null" and "None" in options[key].types
        if types_of_value == {"str"} and not is_null:
            value: Any = text
        else:
            value = read_yaml(text, f"--{name} {key}")
            if (
                isinstance(value, bool)
                and types_of_value
                and "bool" not in types_of_value
            ):
                value = text  # `yes`, as it was typed
        values |= read_mapping(name, {key: value}, options)
    return {
        key: _text_or_file(name, key, value) if key in _TEXTS_OR_FILES else value
        for key, value in values.items()
    }


def read_mapping(
    name: str, value: object, options: Mapping[str, Option]
) -> dict[str, Any]:
    """The values of a mapping such as `lora: {r: 16}`, by key.

    Raises:
        ValueError: it is no mapping, or a key is unknown.
    """
    if not isinstance(value, Mapping):
        first = next(iter(options))
        raise ValueError(
            f"want {name} as a mapping, got {value!r:.80}; write {name}: {{{first}: VALUE}}, or "
            f"--{name} {first}=VALUE on the command line"
        )
    for key in value:
        check_known(key, options, f"{name} has no key {key!r:.80}")
    return dict(value)


def _text_or_file(name: str, key: str, value: Any) -> Any:
    """The text of `--name key=TEXT`, or that of a file if it is @FILE.

    Raises:
        ValueError: the file cannot be read.
    """
    if not isinstance(value, str) or not value.startswith("@"):
        return value
    try:
        return Path(value[1:]).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise ValueError(
            f"want --{name} {key}=@FILE with a text, got {value!r:.200}: {error}; correct the path"
        ) from None


def read_yaml(text: str, source: str) -> Any:
    """The value of a text in YAML; raises ValueError that names the source, such as an option."""
    try:
        return yaml_text.read(text)
    except ValueError as error:
        raise ValueError(
            f"{source} cannot be read as YAML, got {text!r:.80}: {error}; correct it, or quote the value"
        ) from None


def options_of(cls: Any, inherited: frozenset[str] = frozenset()) -> dict[str, Option]:
    """The fields of a dataclass as options, by name."""
    options = {}
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        types_of_values, choices = _values_of(hints[field.name])
        default: Any = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if isinstance(default, enum.Enum):
            default = default.value
        options[field.name] = Option(
            name=field.name,
            types=types_of_values,
            choices=choices,
            default=default,
            help=" ".join(str(field.metadata.get("help", "")).split()),
            source="trl" if field.name in inherited else "arena",
            group=field.metadata.get("group", ""),
            least=field.metadata.get("least"),
            mapping=field.metadata.get("mapping", ""),
        )
    return options


def _values_of(hint: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the types that a hint allows, and the choices of an enumeration."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    members = typing.get_args(hint) if is_union else (hint,)
    classes = [typing.get_origin(member) or member for member in members]
    for member, cls in zip(members, classes, strict=True):
        if cls is typing.Literal:
            classes = [str if cls is typing.Literal else cls for cls in classes]
            return _names_of(classes), typing.get_args(member)
        if isinstance(cls, type) and issubclass(cls, enum.Enum):
            return (), tuple(str(choice.value) for choice in cls)
    if any(cls not in _CONVERTIBLE for cls in classes):
        return (), ()  # TRL checks it
    return _names_of(classes), ()


def _names_of(classes: typing.Iterable[Any]) -> tuple[str, ...]:
    return tuple("None" if cls is type(None) else cls.__name__ for cls in classes)
