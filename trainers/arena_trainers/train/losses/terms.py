"""`LossTerms`: the terms of `losses`, added to TRL's loss."""

from collections.abc import Sequence
from typing import Any

import torch

from arena_trainers.losses import LossInputs, Term
from arena_trainers.train.losses.averages import averaged
from arena_trainers.train.losses.teacher import Teacher
from arena_trainers.train.parts import TermLoop
from arena_trainers.train.rows import TrainingRow
from arena_trainers.train.score.scores import TokenScores
from arena_trainers.train.score.tensors import loss_mask


class LossTerms:
    """The part of `TurnGRPOTrainer` that adds terms to the loss."""

    def __init__(self, trainer: TermLoop, terms: Sequence[Term]) -> None:
        self.trainer, self.terms = trainer, terms
        self.teachers = {t: Teacher(trainer, t) for t in terms if "teacher" in t.needs}

    def needs(self, name: str, step: int) -> bool:
        """Whether a term reads this at the step or later."""
        return any(name in t.needs and not t.weight.is_over(step) for t in self.terms)

    def active(self) -> list[Term]:
        """The terms whose weight is not 0 at this step."""
        step = self.trainer.state.global_step
        return [term for term in self.terms if term.weight.at(step)]

    def columns(
        self, rows: Sequence[TrainingRow], completion_ids: torch.Tensor
    ) -> dict[str, Any]:
        """Further columns of the batch of these rows, for the terms that read them."""
        trainer = self.trainer
        columns: dict[str, Any] = {}
        step, device = trainer.state.global_step, completion_ids.device
        selected, places = trainer.last_selected, [row.place for row in rows]
        if self.needs("invalid", step):
            invalid = [p >= 0 and selected.records[p].is_invalid for p in places]
            columns["arena_invalid"] = torch.tensor(invalid, device=device)
        if self.needs("values", step):
            value = trainer.last_turns.value
            if value is None:
                raise ValueError("a loss term needs values, got none; set critic")
            row_values = [value[selected.rows[p]] if p >= 0 else 0.0 for p in places]
            per_row = torch.tensor(row_values, dtype=torch.float32, device=device)
            columns["arena_values"] = per_row[:, None].repeat(
                1, completion_ids.shape[1]
            )
        for term, teacher in self.teachers.items():
            if not term.weight.is_over(step):
                probs, ids = teacher.columns(rows, device)
                columns[f"arena_teacher_{term.name}_probs"] = probs
                columns[f"arena_teacher_{term.name}_ids"] = ids
        return columns

    def loss(
        self, active: Sequence[Term], inputs: dict[str, Any], scores: TokenScores
    ) -> Any:
        """The weighted sum of the terms' means, of `columns` and the policy's `TokenScores`."""
        trainer, logps = self.trainer, scores.logprobs
        old = inputs.get("old_per_token_logps")
        mask = loss_mask(inputs)
        optional = {
            "old": logps.detach() if old is None else old,
            "reference": inputs.get("ref_per_token_logps"),
            "entropy": scores.entropies,
            "values": inputs.get("arena_values"),
            "invalid": inputs.get("arena_invalid"),
        }
        total = 0.0
        if not mask.any():  # placeholder rows alone
            return total
        for term in active:
            inputs_of_term: dict[str, Any] = {
                name: optional[name] for name in term.needs - {"teacher"}
            }
            if term in self.teachers:
                inputs_of_term["teacher"] = self.teachers[term].choice(inputs)
            loss_inputs = LossInputs(
                mask=mask,
                advantages=inputs["advantages"],
                clip=(trainer.epsilon_low, trainer.epsilon_high),
                **inputs_of_term,
            )
            per_token = term.function(logps, loss_inputs)
            if term.surrogate and "importance_sampling_ratio" in inputs:  # as TRL's
                per_token = per_token * inputs["importance_sampling_ratio"]
            mean = averaged(per_token, mask, trainer, inputs)
            weight = term.weight.at(trainer.state.global_step)
            total = total + weight * mean
            name = f"arena/loss/{term.name}"
            trainer.note({name: float(mean.detach()), f"{name}/weight": weight})
        return total
