"""What the parts of `TurnGRPOTrainer` read of it: small protocols, one for each kind of part."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from accelerate import Accelerator
from transformers import TrainerCallback
from transformers.trainer_callback import TrainerState

from arena_credit import Credit, TurnBatch
from arena_trainers.engines.protocols import WeightSender
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.train.clock import Clock
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.played import SelectedTurns
from arena_trainers.train.prepared import PreparedGames
from arena_trainers.train.rollout.player import RolloutPlayer
from arena_trainers.train.rows import TrainingRow
from arena_trainers.train.score.reference_memo import ReferenceMemo
from arena_trainers.train.score.scores import TokenScores
from arena_wrappers import Episode, Policy


class TrainingLoop(Protocol):
    """Settings, model and state of a run, and its metrics."""

    args: TurnGRPOConfig
    model: Any  # a PreTrainedModel, or a PeftModel
    accelerator: Accelerator
    state: TrainerState

    def note(self, values: Mapping[str, float], kind: str = "") -> None:
        """Adds metrics to the next log."""
        ...

    def add_callback(self, callback: TrainerCallback) -> None:
        """Calls the callback at the events of training."""
        ...


class RowFormat(Protocol):
    """How rows become tensors."""

    accelerator: Accelerator
    policy: LMPolicy
    pad_to_multiple_of: Any  # an int, or None
    mask_truncated_completions: bool
    eos_token_ids: list[int]


class LatestPlay(Protocol):
    """The generation batch that was played last."""

    games: PreparedGames
    last_selected: SelectedTurns

    @property
    def last_episodes(self) -> list[Episode]:
        """Of this process."""
        ...


class RowScorer(Protocol):
    """Scores rows, in chunks that fit into memory: `Forward`."""

    max_tokens: int

    def score(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        width: int,
        compute_entropy: bool,
        learners: torch.Tensor | None = None,
    ) -> TokenScores:
        """The scores of rows whose last `width` columns are replies."""
        ...


class ScoringLoop(TrainingLoop, Protocol):
    """A run whose rows can be scored."""

    policy: LMPolicy

    @property
    def forward(self) -> RowScorer:
        """Runs rows through the model."""
        ...


class ShardedLoop(TrainingLoop, Protocol):
    """A run whose weights may be split among processes."""

    policy: LMPolicy
    games: PreparedGames
    model_wrapped: Any
    ref_model: Any


class NormalisedLoop(TrainingLoop, Protocol):
    """What a mean over trained rows depends on."""

    loss_type: str
    max_completion_length: int | None
    current_gradient_accumulation_steps: int


class ReferenceLoop(ScoringLoop, LatestPlay, RowFormat, Protocol):
    """A run with a reference model, or an adapter whose base is the reference."""

    ref_model: Any
    reference_memo: ReferenceMemo | None


class CorrectedLoop(Protocol):
    """TRL's correction of tokens that another policy sampled."""

    vllm_importance_sampling_mode: str
    vllm_importance_sampling_clip_min: float | None
    vllm_importance_sampling_clip_max: float | None

    def note(self, values: Mapping[str, float], kind: str = "") -> None:
        """Adds metrics to the next log."""
        ...


class TokenMeter(Protocol):
    """Measures the trained tokens of a micro-batch."""

    def measure(
        self,
        logprobs: torch.Tensor,
        counted: torch.Tensor,
        inputs: Mapping[str, Any],
    ) -> None:
        """Logs numbers of the tokens, see `MismatchCheck.measure`."""
        ...


class RowLearners(TokenMeter, Protocol):
    """The learners of rows: `Learners`."""

    beta: float

    def use(self, learner: int, model: Any = None) -> Any:
        """The model with the adapter, or the whole model, of a learner."""
        ...


class ReferenceReaders(Protocol):
    """Terms of the loss: `LossTerms`."""

    def needs(self, name: str, step: int) -> bool:
        """Whether a term reads this at the step or later."""
        ...


class CheckedLoop(TrainingLoop, RowFormat, Protocol):
    """A run whose sampled and trained log-probabilities are compared."""

    temperature: float

    @property
    def learners(self) -> RowLearners | None:
        """Those of `roles`."""
        ...

    @property
    def async_player(self) -> TokenMeter | None:
        """Plays beside training."""
        ...


class ForwardLoop(CheckedLoop, ReferenceLoop, CorrectedLoop, Protocol):
    """A run whose loss reads scores."""

    beta: Any  # a number, or a `KLTerm`
    use_vllm: bool
    vllm_importance_sampling_correction: bool
    num_iterations: int
    top_entropy_quantile: float
    aux_loss_enabled: bool
    router_aux_loss_coef: float
    _rows: list[TrainingRow]

    @property
    def has_entropy_bonus(self) -> bool:
        """Whether the loss reads the entropies of all rows."""
        ...

    @property
    def terms(self) -> ReferenceReaders:
        """Those of `losses`."""
        ...


class TermLoop(NormalisedLoop, ScoringLoop, LatestPlay, Protocol):
    """A run to whose loss terms are added."""

    epsilon_low: float
    epsilon_high: float
    last_turns: TurnBatch


class RowChecker(Protocol):
    """`MismatchCheck`, before the first pass."""

    def check(self, rows: Sequence[TrainingRow]) -> None:
        """Chooses a mode of scoring that is exact for these rows."""
        ...


class HeadScorer(RowScorer, Protocol):
    """Scores rows, and gives values of the last hidden states."""

    head: Callable[[torch.Tensor], torch.Tensor] | None

    @property
    def mismatch_check(self) -> RowChecker:
        """Compares what is sampled with what is trained."""
        ...


class CriticLoop(NormalisedLoop, LatestPlay, RowFormat, Protocol):
    """A run whose critic reads the texts or the hidden states of the model that learns."""

    last_turns: TurnBatch
    last_credit: Credit
    agent: Callable[[Policy], Policy] | None

    @property
    def forward(self) -> HeadScorer:
        """Runs rows through the model."""
        ...


class LearnerLoop(ScoringLoop, Protocol):
    """A run with several learners."""

    ref_model: Any
    processing_class: Any
    temperature: float
    num_iterations: int
    is_deepspeed_enabled: bool
    is_fsdp_enabled: bool

    @property
    def micro_step(self) -> int:
        """How many micro-batches were trained."""
        ...

    @property
    def chat_tokenizer(self) -> Any:
        """The tokenizer, with a chat template."""
        ...


class PlayingLoop(TrainingLoop, Protocol):
    """A run whose batches may be played beside training."""

    policy: LMPolicy
    games: PreparedGames
    agent: Callable[[Policy], Policy] | None
    player: RolloutPlayer
    clock: Clock
    sender: WeightSender  # where a server plays
    model_wrapped: Any
