"""Rows weigh alike in the loss, wherever the placeholder rows of their batch are."""

from types import SimpleNamespace

import pytest
import torch

from arena_trainers.train.losses.averages import averaged

# trained rows of the micro-batches of 4 rows, by process; the other rows are placeholders
PROCESSES = [[4, 2], [3, 1]]


def trainer_of(loss_type):
    return SimpleNamespace(
        loss_type=loss_type,
        model=SimpleNamespace(training=True),
        args=SimpleNamespace(steps_per_generation=2),
        accelerator=SimpleNamespace(num_processes=2),
        current_gradient_accumulation_steps=2,
        max_completion_length=3,
    )


@pytest.mark.parametrize("loss_type", ["bnpo", "grpo", "dapo", "dr_grpo", "luspo"])
def test_every_trained_row_has_the_same_share_of_the_gradient(loss_type):
    num_tokens, num_rows = 3 * 10, 10
    shares = []
    for processes in PROCESSES:
        for num_trained in processes:
            mask = torch.zeros(4, 3, dtype=torch.long)
            mask[:num_trained] = 1
            per_token = torch.ones(4, 3, requires_grad=True)
            inputs = {
                "completion_mask": mask,
                "num_items_in_batch": torch.tensor(num_tokens),
                "num_rows_in_batch": torch.tensor(num_rows),
            }
            averaged(per_token, mask, trainer_of(loss_type), inputs).backward()
            of_rows = per_token.grad.sum(dim=1) / len(PROCESSES)  # as DDP
            assert (of_rows[num_trained:] == 0).all()
            shares += of_rows[:num_trained].tolist()
    total = 3.0 if loss_type == "luspo" else 1.0  # luspo adds up the tokens of a row
    assert shares == pytest.approx([total / num_rows] * num_rows)
