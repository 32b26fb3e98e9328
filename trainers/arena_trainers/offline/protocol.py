"""The protocol of trainers that learn from rows, `RowTrainer`; trainers by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from arena_envs.checks import did_you_mean
from arena_envs.registry import Registry

if TYPE_CHECKING:
    from datasets import Dataset
    from peft import PeftConfig, PeftModel
    from transformers import (
        PreTrainedModel,
        PreTrainedTokenizerBase,
        Trainer,
        TrainingArguments,
    )

Config = TypeVar("Config", bound="TrainingArguments")
AnyTrainer = TypeVar("AnyTrainer", bound="Trainer")
SELF_PLAY = "turn_grpo"  # the trainer of a run that names none


class Cut(NamedTuple):
    """The rows of a step, and those that run at once.

    Attributes:
        batch_size: rows of an optimizer step, all processes together.
        at_once: most rows that a process runs at once.
    """

    batch_size: int
    at_once: int


@dataclass(frozen=True)
class TrainerParts(Generic[Config]):
    """The parts that a trainer is made of.

    Attributes:
        model: folder of the model that training starts from, or the model with an adapter that
            goes on training.
        args: the options, an object of `RowTrainer.config`.
        rows: `datasets.Dataset` with the token columns of `arena_trainers.data.rows_to_dataset`.
        tokenizer: of the model.
        pad_id: the token that pads.
        cut: how many rows a step has, and how many run at once.
        peft_config: of the new adapter that is trained; None to train all weights, or where
            the model has an adapter.
    """

    model: "str | PreTrainedModel | PeftModel"
    args: Config
    rows: "Dataset"
    tokenizer: "PreTrainedTokenizerBase"
    pad_id: int
    cut: Cut
    peft_config: "PeftConfig | None"

    def trainer(
        self,
        kind: Callable[..., AnyTrainer],
        collate: Callable[[Any], Any],
        **replacements: Any,
    ) -> AnyTrainer:
        """A trainer of a class with these parts, or `replacements` ones; `collate` makes its batches."""
        if getattr(self.args, "precompute_ref_log_probs", False):
            raise ValueError(
                "want precompute_ref_log_probs off with rows of tokens and masks; "
                "leave it out"
            )
        parts: dict[str, Any] = {
            "args": self.args,
            "train_dataset": self.rows,
            "processing_class": self.tokenizer,
            "cut": self.cut,
            "data_collator": collate,
            "peft_config": self.peft_config,
        }
        return kind(self.model, **{**parts, **replacements})


@dataclass(frozen=True)
class RowTrainer:
    """A trainer that learns from rows. The entry point names a function that returns one.

    Attributes:
        rows: the kind of rows: `"completions"`, `"pairs"` or `"labels"`.
        config: dataclass of the options, a subclass of `transformers.TrainingArguments`.
        make: makes a trainer that is `WholeSteps`, whose data collator reads the rows as
            they are. Raises ValueError at options that do not fit.
        least: fewest rows of a step.
        plays: whether the trained model chooses replies, so that it is evaluated in the
            games of the rows. A reward model does not.
    """

    rows: str
    config: "type[TrainingArguments]"
    make: Callable[[TrainerParts[Any]], "Trainer"]
    least: int = 1
    plays: bool = True


row_trainers: Registry[RowTrainer] = Registry(
    "trainer",
    "arena.trainers",
    {
        "dpo": "arena_trainers.offline.pairs:dpo",
        "kto": "arena_trainers.offline.kto:kto",
        "reward": "arena_trainers.offline.pairs:reward",
        "sft": "arena_trainers.offline.sft:sft",
    },
)


def names() -> list[str]:
    """Names of all trainers; `turn_grpo` learns by self-play, the others from rows."""
    return sorted([*row_trainers.names(), SELF_PLAY])


def check_name(name: str) -> None:
    """Raises ValueError for an unknown trainer."""
    if not row_trainers.knows(name) and ":" not in str(name):
        raise ValueError(f"no trainer {name!r}; {did_you_mean(str(name), names())}")


def row_trainer(name: str) -> RowTrainer:
    """The trainer of a name; imports its libraries.

    Raises:
        ValueError: there is no such trainer, or its plug-in gives something else.
        ImportError: its plug-in cannot be imported.
    """
    check_name(name)
    trainer = row_trainers.make(name)
    if not isinstance(trainer, RowTrainer):
        raise ValueError(
            f"trainer {name!r}: want a function that returns a RowTrainer, got "
            f"{trainer!r:.60}"
        )
    return trainer
