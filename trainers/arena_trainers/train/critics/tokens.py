"""`TokenCritic`: values of tokens, learned from the hidden states of the model that trains."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from transformers import (
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from arena_credit import TurnBatch
from arena_credit.batch import Floats
from arena_credit.by_name import find_estimator
from arena_credit.needs import needs_of
from arena_trainers.lm.backends.padding import entry_mask
from arena_trainers.losses import value_loss
from arena_trainers.train.critics.networks import value_networks
from arena_trainers.train.critics.registry import OptionLimits, check_limits
from arena_trainers.train.critics.replies import above_mean, wraps_of
from arena_trainers.train.critics.texts import read_texts
from arena_trainers.train.losses.averages import averaged
from arena_trainers.train.metrics import advantage_by_turn
from arena_trainers.train.parts import CriticLoop
from arena_trainers.train.records import TurnRecord
from arena_trainers.train.rows import TrainingRow
from arena_trainers.train.score.tensors import (
    loss_mask,
    prompts_with_replies,
    row_tensors,
)


class TokenCritic(TrainerCallback):
    """Values of the tokens of replies, by a network on the model's last hidden states.

    vₖₜ is the value before token t of turn k, where the model has read the prompt and the tokens
    before. The value of a turn is that before its first token; `next_value` is that of the prompt
    that the seat would read at the end. In each update

        loss = TRL's loss + `loss_weight` · mean ½ (v - R)²,   R = A + v as the batch was played

    with the estimator's advantage A of the token: the λ-return of a sum of TD errors. An estimator that
    credits turns gives all tokens of a turn the R of the turn; with `within_turn="values"` R is the turn's
    advantage. R is no return if A is centred or rescaled by its pool: v is then a baseline alone. The values
    of a batch come from the network before its updates, at first 0. The mean is that of `loss_type`.

    The network is a group of the trainer's optimizer, with a learning rate of its own that follows the
    run's schedule, without weight decay and `max_grad_norm`. Values take one forward pass of a batch.

    If credit reads `action_value`, the critic also reads the canonical reply of each legal action. Q of the
    action is the value before the end token. `action_value` is V plus what the reply is worth above the
    policy's mean (`arena_trainers.train.critics.replies`).

    Args:
        trainer: TRL's trainer, with its forward passes.
        seed: seed of the initial weights.
        scores_replies: whether it gives `action_value`; records then have `reply_probs`.
        hidden_size: width of the two hidden layers.
        learning_rate: at the start of the schedule.
        loss_weight: weight of the loss of values.
        shared: whether this loss trains the model, too.
        clip: c of `arena_trainers.losses.value_loss`; None for no clipping.

    Raises:
        ValueError: a number out of range.
    """

    supplies = ("tokens.value", "value", "next_value", "action_value")
    reads_for_actions = ("reply_probs",)
    limits: ClassVar[OptionLimits] = {
        "hidden_size": (1, 10_000),
        "learning_rate": (0.0, None),
        "loss_weight": (0.0, None),
        "clip": (0.0, None),
    }
    one_process = True  # it has not been tested with several

    def __init__(
        self,
        trainer: CriticLoop,
        seed: int = 0,
        scores_replies: bool = False,
        *,
        hidden_size: int = 256,
        learning_rate: float = 1e-4,
        loss_weight: float = 0.5,
        shared: bool = False,
        clip: float | None = None,
    ) -> None:
        check_limits(
            self.limits,
            hidden_size=hidden_size,
            learning_rate=learning_rate,
            loss_weight=loss_weight,
            clip=0.0 if clip is None else clip,
        )
        self.trainer, self.loss_weight, self.clip = trainer, float(loss_weight), clip
        self.learning_rate, self.shared = float(learning_rate), shared
        self.scores_replies = scores_replies
        model = trainer.accelerator.unwrap_model(trainer.model)
        size = model.config.get_text_config().hidden_size
        self.network = value_networks([size], hidden_size, seed)[0].float()
        self.network.to(trainer.args.device)
        trainer.forward.head = self._values_of
        trainer.add_callback(self)

    def _values_of(self, states: torch.Tensor) -> torch.Tensor:
        values: torch.Tensor = self.network(states if self.shared else states.detach())
        return values[..., 0]

    @torch.no_grad()
    def with_values(self, batch: TurnBatch, records: Sequence[TurnRecord]) -> TurnBatch:
        """The batch with the columns that it supplies; `action_value` if it is wanted."""
        texts, truncated_rows = read_texts(self.trainer, records)
        rows = [TrainingRow(*text, None, 0.0) for text in texts]
        if not rows:
            none = np.zeros(0)
            return replace(
                batch,
                tokens={"value": none},
                value=none,
                next_value=none,
                action_value=none,
            )
        token_values = self._token_values(rows)
        num = len(records)
        next_value = np.full(num, np.nan)  # read only at truncation
        next_value[truncated_rows] = token_values[num:, 0]
        reply_values = [token_values[i, : len(texts[i][1])] for i in range(num)]
        tokens = {**(batch.tokens or {}), "value": np.concatenate(reply_values)}
        value = token_values[:num, 0]
        with_values = replace(batch, tokens=tokens, value=value, next_value=next_value)
        if not self.scores_replies:
            return with_values
        return replace(with_values, action_value=value + self._above_mean(records))

    def _token_values(self, rows: Sequence[TrainingRow]) -> Floats:
        """float64[B, T]: the value before each token of the replies."""
        trainer = self.trainer
        trainer.forward.mismatch_check.check(rows)  # before the first pass
        columns = prompts_with_replies(row_tensors(rows, trainer))
        values: Any = trainer.forward.score(trainer.model, *columns, False).values
        return np.asarray(values.double().cpu().numpy())

    def _above_mean(self, records: Sequence[TurnRecord]) -> Floats:
        """float64[N]: what each reply is worth above the mean; equal texts are read once."""
        policy, episodes = self.trainer.policy, self.trainer.last_episodes
        texts: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        places = []
        for record, wrap in zip(records, wraps_of(records, episodes), strict=True):
            turn = episodes[record.episode].turns[record.place]
            prompt = tuple(turn.prompt_ids or ())
            replies = [policy.chat.reply_ids(prompt, wrap(text)) for text in turn.legal]
            keys = [(prompt, (*reply, policy.eos_ids[0])) for reply in replies]
            places.append([texts.setdefault(key, len(texts)) for key in keys])
        rows = [TrainingRow(prompt, reply, None, 0.0) for prompt, reply in texts]
        last = np.array([len(reply) - 1 for _, reply in texts])
        before_end = self._token_values(rows)[np.arange(len(rows)), last]
        return np.array(
            [
                above_mean(before_end[of_turn], record)
                for of_turn, record in zip(places, records, strict=True)
            ]
        )

    def after(
        self, batch: TurnBatch, records: Sequence[TurnRecord], trains: bool
    ) -> dict[str, float]:
        return {}  # it learns in the updates

    def columns(self, rows: Sequence[TrainingRow]) -> dict[str, torch.Tensor]:
        """Values and targets of the latest batch, float32[B, T]; 0 where a row has none."""
        trainer, turns = self.trainer, self.trainer.last_turns
        of_tokens: Any = turns  # with all columns of tokens
        value, token_ends = of_tokens.tokens["value"], np.cumsum(of_tokens.num_tokens)
        target = self.targets(turns, trainer.last_credit.advantage)
        if len(value):
            error = float(np.mean((value - target) ** 2))
            trainer.note({"arena/critic_error": error})
        completion_mask = entry_mask(
            [r.completion_ids for r in rows], trainer.pad_to_multiple_of or 1
        )
        tensors = {}
        for name, column in (("arena_token_values", value), ("arena_targets", target)):
            padded = np.zeros(completion_mask.shape)
            for row, row_values in zip(rows, padded, strict=True):
                if row.place >= 0:
                    n = trainer.last_selected.rows[row.place]
                    size = len(row.completion_ids)
                    row_values[:size] = column[token_ends[n] - size : token_ends[n]]
            tensors[name] = torch.from_numpy(padded).float().to(trainer.args.device)
        return tensors

    def targets(self, turns: TurnBatch, advantage: Floats) -> Floats:
        """float64[num_tokens.sum()], R; arguments of all processes."""
        token_turns: Any = turns  # with all columns of tokens
        args = self.trainer.args
        num_tokens = token_turns.num_tokens
        value = token_turns.tokens["value"]
        if needs_of(find_estimator(args.credit)).per_token:
            return np.asarray(advantage + value)
        if args.within_turn == "values":
            return np.repeat(advantage[np.cumsum(num_tokens) - num_tokens], num_tokens)
        values = advantage_by_turn(turns, advantage) + token_turns.value
        return np.repeat(values, num_tokens)

    def loss(self, inputs: dict[str, Any], scores: Any) -> Any:
        """The weighted loss of values of a micro-batch."""
        mask = loss_mask(inputs)
        if not mask.any():  # placeholder rows alone
            return 0.0
        old, targets = inputs["arena_token_values"], inputs["arena_targets"]
        per_token = value_loss(scores.values, old, targets, self.clip)
        return self.loss_weight * averaged(per_token, mask, self.trainer, inputs)

    def join(self, optimizer: Any) -> None:
        """Adds the network to an optimizer that lacks it."""
        weights = [*self.network.parameters()]
        last_group = optimizer.param_groups[-1]["params"]
        if not last_group or last_group[-1] is not weights[-1]:  # empty without biases
            group = {"params": weights, "lr": self.learning_rate, "weight_decay": 0.0}
            optimizer.add_param_group(group)

    def on_optimizer_step(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: Any,
    ) -> None:
        self.network.zero_grad()  # the trainer does so for the model alone

    def state_dict(self) -> dict[str, Any]:
        return self.network.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.network.load_state_dict(state)
