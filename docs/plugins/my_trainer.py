"""A trainer on rows.

- **Protocol**: a function that returns a `RowTrainer`: the kind of rows, the dataclass of
  options, and a function that makes a `WholeSteps`, a `transformers.Trainer` whose gradient is
  the mean over the rows of a step. The job adds folder, resume, progress, evaluation and model
  card. The collator gets rows with token ids and masks. With LoRA, `parts.peft_config` is of a
  new adapter, `parts.model` the model with one.
- **Name**: `arena train --trainer my_trainer:plain --data FILE.parquet`; the group is
  `arena.trainers`.
- **Check**: a run on a few rows.
"""

from transformers import AutoModelForCausalLM, TrainingArguments

from arena_trainers.offline.batches import WholeSteps, labelled_batch
from arena_trainers.offline.protocol import RowTrainer


def collate(rows, pad_id):
    batch = labelled_batch(rows, pad_id)
    del batch["weights"]  # the model's own loss has none
    return batch


def make(parts):
    return WholeSteps(
        AutoModelForCausalLM.from_pretrained(parts.model),
        parts.args,
        lambda rows: collate(rows, parts.pad_id),
        parts.rows,
        processing_class=parts.tokenizer,
        cut=parts.cut,
    )


def plain():
    return RowTrainer("completions", TrainingArguments, make)


def test_masked_tokens_have_no_label():
    row = {"prompt_ids": [5], "completion_ids": [6, 7], "completion_mask": [0, 1]}
    assert collate([{**row, "weight": 1.0}], 0)["labels"].tolist() == [[-100, -100, 7]]
