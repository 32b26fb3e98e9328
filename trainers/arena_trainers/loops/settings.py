"""Settings of a loop: `rounds` of a recipe, and the options of the model that it starts from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from arena_envs.checks import did_you_mean
from arena_trainers.data.selection import selectors
from arena_trainers.train.options import options_of
from arena_wrappers import Branching
from arena_wrappers.prompts import PROMPT_OPTIONS

ROUNDS = "rounds"
LEARNER = "learner"  # the model of the loop, among policies, and its name in records
OF_THE_ADAPTER = ("lora_r", "lora_alpha", "lora_target_modules")
OF_THE_START = (
    *("model", "hidden_size", "num_layers", "seed", "games", "use_cpu", "on_invalid"),
    *("warm_start_steps", "warm_start_episodes", "warm_start_teacher"),
    *("warm_start_batch_size", "warm_start_learning_rate"),
    *PROMPT_OPTIONS,
    *("max_completion_length", "temperature", "top_k", "top_p", "min_p"),
    *("repetition_penalty", "chat_template_kwargs"),
    *OF_THE_ADAPTER,
)  # options beside `rounds`
_OF_THE_LOOP = ("model", "data", "seed")
_IN_TURN = ("play", "select", "train")  # stages that may be lists


@dataclass(frozen=True)
class PlayStage:
    """Who plays, and how much.

    Attributes:
        episodes: different seeds of each line-up of each game.
        samples: episodes of each seed.
        same_seeds: whether all line-ups of a game play the same seeds.
        policies: who plays each seat in turn; `"learner"` is the model of the round.
        opponents: who plays the other seats; `"self"` is the same policy in all seats.
        branch: arguments of `Branching`; None for no turn trees.
    """

    episodes: int = 100
    samples: int = 1
    same_seeds: bool = False
    policies: list[str] = field(default_factory=lambda: [LEARNER])
    opponents: list[str] = field(default_factory=lambda: ["self"])
    branch: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        _at_least_one(self, "episodes", "samples")
        _names(self, "policies", "opponents")
        _ = self.branching  # raises where the options do not fit

    @property
    def branching(self) -> Branching | None:
        """Where the episodes branch."""
        if self.branch is None:
            return None
        known = {option.name for option in fields(Branching)}
        _refuse_unknown("rounds.play.branch", self.branch, known)
        if "num_candidates" not in self.branch:
            raise ValueError("rounds.play.branch needs num_candidates; give 2 or more")
        return Branching(**self.branch)


@dataclass(frozen=True)
class EvaluateStage:
    """Against whom each model is measured.

    Attributes:
        opponents: policy strings, each in all other seats.
        episodes: per opponent and seat; the seeds are the same in all rounds.
    """

    opponents: list[str] = field(default_factory=lambda: ["random"])
    episodes: int = 100

    def __post_init__(self) -> None:
        _at_least_one(self, "episodes")
        _names(self, "opponents")


@dataclass(frozen=True)
class Stages:
    """The stages that differ between rounds.

    Attributes:
        play: who plays.
        select: the options of a selector, by its name.
        train: `trainer` and its options.
    """

    play: PlayStage
    select: dict[str, dict[str, Any]]
    train: dict[str, Any]


@dataclass(frozen=True)
class Loop:
    """What the rounds do, and how many there are.

    Attributes:
        num: most rounds.
        stages: those of round k are at k modulo their number.
        evaluate: against whom each model is measured.
        start_from: the model that training starts from: `"last"` is that of the round before,
            `"first"` the one that the loop starts from. The last one plays in any case. An
            adapter goes on training from that of the round before, or is a new one.
        aggregate: whether a round trains on the rows of earlier rounds, too.
        patience: rounds without a better score after which the loop ends; 0 for all rounds.
    """

    num: int
    stages: list[Stages]
    evaluate: EvaluateStage
    start_from: str = "last"
    aggregate: bool = False
    patience: int = 0

    def __post_init__(self) -> None:
        _at_least_one(self, "num")
        if self.patience < 0:
            raise ValueError(f"want rounds.patience of at least 0, got {self.patience}")
        if self.start_from not in ("first", "last"):
            raise ValueError(
                f"want rounds.start_from as first or last, got {self.start_from!r}"
            )


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
                f"{did_you_mean(name, [ROUNDS, *OF_THE_START])}; options of the trainer belong "
                "in rounds.train"
            )
    given = _mapping(ROUNDS, settings[ROUNDS])
    known = options_of(Loop)
    del known["stages"]  # the recipe has them by name
    _refuse_unknown(ROUNDS, given, [*known, *_IN_TURN])
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

    Args:
        settings: those of a recipe with rounds.
        num: the new number of rounds.

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


def _stages(given: Mapping[str, Any]) -> list[Stages]:
    """The stages of the rounds, as many as the lists are long."""
    stages = {name: given.get(name, {}) for name in _IN_TURN}
    lists = {name: value for name, value in stages.items() if isinstance(value, list)}
    lengths = {len(value) for value in lists.values()} or {1}
    if len(lengths) > 1 or 0 in lengths:
        told = " and ".join(f"{len(v)} of {name}" for name, v in lists.items())
        raise ValueError(
            f"want lists of equal length in rounds, got {told}; a mapping in place of a list "
            "holds for all rounds"
        )
    found = []
    for k in range(lengths.pop()):
        where = {n: f"rounds.{n}[{k}]" if n in lists else f"rounds.{n}" for n in stages}
        one = {n: v[k] if n in lists else v for n, v in stages.items()}
        play = _stage(PlayStage, where["play"], one["play"])
        train = dict(_mapping(where["train"], one["train"]))
        select = selectors.read(one["select"])
        _check_train(train)
        found.append(Stages(play, {select.name: dict(select.options)}, train))
    return found


def _check_train(train: Mapping[str, Any]) -> None:
    if not isinstance(train.get("trainer"), str):
        raise ValueError(
            "want the name of a trainer as rounds.train.trainer, got "
            f"{train.get('trainer')!r:.60}"
        )
    for name in _OF_THE_LOOP:
        if name in train:
            raise ValueError(
                f"rounds.train has no option {name!r}: a loop trains its own model on its "
                "own rows; leave it out"
            )
    for name in OF_THE_ADAPTER:
        if name in train:
            raise ValueError(
                f"rounds.train has no option {name!r}: all rounds have the same adapter; "
                "give it beside rounds"
            )


def _stage(kind: Any, where: str, given: Any) -> Any:
    """The settings of a stage, an object of the class `kind`."""
    values, known = _mapping(where, given), options_of(kind)
    _refuse_unknown(where, values, known)
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


def _refuse_unknown(where: str, given: Mapping[str, Any], known: Any) -> None:
    for name in given:
        if name not in known:
            hint = did_you_mean(str(name), sorted(known))
            raise ValueError(f"{where} has no option {name!r}; {hint}")


def _at_least_one(stage: Any, *names: str) -> None:
    for name in names:
        if getattr(stage, name) < 1:
            raise ValueError(f"want {name} of at least 1, got {getattr(stage, name)}")


def _names(stage: Any, *names: str) -> None:
    for name in names:
        given: Sequence[Any] = getattr(stage, name)
        if not given or not all(isinstance(policy, str) for policy in given):
            raise ValueError(f"want {name} as a list of policies, got {given!r:.60}")
