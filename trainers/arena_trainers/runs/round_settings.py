"""Options of a run of rounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from arena_envs.checks import did_you_mean
from arena_trainers.data import selectors
from arena_trainers.options import (
    check_declared,
    option,
    options_of,
    refuse_unknown,
    with_texts,
)
from arena_trainers.runs.recipe import ROUNDS
from arena_trainers.train.settings import branching_of
from arena_wrappers import Branching
from arena_wrappers.prompts import PROMPT_OPTIONS

LEARNER = "learner"  # the model of the loop, among policies, and its name in records
ADAPTER_OPTIONS = ("lora_r", "lora_alpha", "lora_target_modules")
START_OPTIONS = (
    "model",
    "hidden_size",
    "num_layers",
    "seed",
    "games",
    "use_cpu",
    "on_invalid",
    "vocab_size",
    "warm_start_games",
    "exact_states",
    "warm_start_steps",
    "warm_start_episodes",
    "warm_start_teacher",
    "warm_start_batch_size",
    "warm_start_learning_rate",
    *PROMPT_OPTIONS,
    "max_completion_length",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "chat_template_kwargs",
    *ADAPTER_OPTIONS,
)  # options beside `rounds`
_SET_BY_LOOP = ("model", "data", "seed")
_LISTED_STAGES = ("play", "select", "train")  # stages that may be lists


@with_texts
@dataclass(frozen=True)
class PlayStage:
    """The line-ups of a round, and the number of their episodes."""

    episodes: int = option(
        100,
        least=1,
        help="Different seeds of each line-up of each game.",
    )
    samples: int = option(
        1,
        least=1,
        help="Episodes of each seed.",
    )
    same_seeds: bool = option(
        False,
        help="Whether all line-ups of a game play the same seeds.",
    )
    policies: list[str] = option(
        [LEARNER],
        help="Policies that play each seat in turn; `learner` is the model of the "
        "round.",
    )
    opponents: list[str] = option(
        ["self"],
        help="Policies of the other seats; `self` is the same policy in all seats.",
    )
    branch: dict[str, Any] | None = option(
        None,
        help="Arguments of `Branching`; none for no turn trees.",
    )

    def __post_init__(self) -> None:
        check_declared(self)
        _check_policy_names(self, "policies", "opponents")
        _ = self.branching  # raises where the options do not fit

    @property
    def branching(self) -> Branching | None:
        """The branching of the episodes."""
        return branching_of("rounds.play.branch", self.branch)


@with_texts
@dataclass(frozen=True)
class EvaluateStage:
    """The opponents of each model's evaluation."""

    opponents: list[str] = option(
        ["random"],
        help="Policy strings, each in all other seats.",
    )
    episodes: int = option(
        100,
        least=1,
        help="Per opponent and seat; the seeds are the same in all rounds.",
    )

    def __post_init__(self) -> None:
        check_declared(self)
        _check_policy_names(self, "opponents")


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

    num: int = option(
        least=1,
        help="Most rounds.",
    )
    stages: list[RoundStages] = option(
        help="Those of round k are at k modulo their number; play, select and train "
        "in YAML.",
    )
    evaluate: EvaluateStage = option(
        help="The opponents of each model's evaluation.",
    )
    start_from: Literal["first", "last"] = option(
        "last",
        help="The model that training starts from: `last` is that of the round "
        "before, `first` the one that the loop starts from. The last one plays in any "
        "case. An adapter goes on training from that of the round before, or is a new "
        "one.",
    )
    aggregate: bool = option(
        False,
        help="Whether a round trains on the rows of earlier rounds, too.",
    )
    patience: int = option(
        0,
        least=0,
        help="Rounds without a better score after which the loop ends; 0 for all "
        "rounds.",
    )

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
        if name not in START_OPTIONS:
            raise ValueError(
                f"a recipe with rounds has no option {name!r}; "
                f"{did_you_mean(name, [ROUNDS, *START_OPTIONS])}; options of the "
                "trainer belong in rounds.train"
            )
    rounds = _mapping(ROUNDS, settings[ROUNDS])
    loop_options = {n: o for n, o in options_of(Loop).items() if n != "stages"}
    refuse_unknown(ROUNDS, rounds, [*loop_options, *_LISTED_STAGES])
    for name in ("num", "select", "train"):
        if name not in rounds:
            raise ValueError(f"rounds needs {name!r}; give it")
    evaluate = _stage(EvaluateStage, "rounds.evaluate", rounds.get("evaluate", {}))
    others = {
        name: loop_options[name].converted(value)
        for name, value in rounds.items()
        if name not in (*_LISTED_STAGES, "evaluate")
    }
    return Loop(stages=_stages(rounds), evaluate=evaluate, **others), start


def with_rounds(settings: Mapping[str, Any], num: object) -> dict[str, Any]:
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


def _stages(rounds: Mapping[str, Any]) -> list[RoundStages]:
    """The stages of the rounds, as many as the lists are long."""
    stages = {name: rounds.get(name, {}) for name in _LISTED_STAGES}
    lists = {name: value for name, value in stages.items() if isinstance(value, list)}
    lengths = {len(value) for value in lists.values()} or {1}
    if len(lengths) > 1 or 0 in lengths:
        lengths_by_name = " and ".join(
            f"{len(v)} of {name}" for name, v in lists.items()
        )
        raise ValueError(
            f"want lists of equal length in rounds, got {lengths_by_name}; a mapping in place of "
            "a list holds for all rounds"
        )
    stages_of_rounds = []
    for k in range(lengths.pop()):
        where = {n: f"rounds.{n}[{k}]" if n in lists else f"rounds.{n}" for n in stages}
        of_round = {n: v[k] if n in lists else v for n, v in stages.items()}
        play = _stage(PlayStage, where["play"], of_round["play"])
        train = dict(_mapping(where["train"], of_round["train"]))
        select = selectors.read(of_round["select"])
        _check_train(train)
        stages_of_rounds.append(
            RoundStages(play, {select.name: dict(select.options)}, train)
        )
    return stages_of_rounds


def _check_train(train: Mapping[str, Any]) -> None:
    if not isinstance(train.get("trainer"), str):
        raise ValueError(
            "want the name of a trainer as rounds.train.trainer, got "
            f"{train.get('trainer')!r:.60}"
        )
    because_of_loop = "a loop trains its own model on its own rows; leave it out"
    because_of_adapter = "all rounds have the same adapter; give it beside rounds"
    for name in (*_SET_BY_LOOP, *ADAPTER_OPTIONS):
        if name in train:
            reason = because_of_loop if name in _SET_BY_LOOP else because_of_adapter
            raise ValueError(f"rounds.train has no option {name!r}: {reason}")


S = TypeVar("S", PlayStage, EvaluateStage)


def _stage(stage_class: type[S], where: str, settings: object) -> S:
    """The settings of a stage, an object of the class `stage_class`."""
    values, options = _mapping(where, settings), options_of(stage_class)
    refuse_unknown(where, values, options)
    try:
        return stage_class(
            **{key: options[key].converted(value) for key, value in values.items()}
        )
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _mapping(where: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
        raise ValueError(f"want {where} as a mapping of options, got {value!r:.60}")
    return value


def _check_policy_names(stage: PlayStage | EvaluateStage, *names: str) -> None:
    for name in names:
        policies: Sequence[Any] = getattr(stage, name)
        if not policies or not all(
            isinstance(name_of_policy, str) for name_of_policy in policies
        ):
            raise ValueError(f"want {name} as a list of policies, got {policies!r:.60}")
