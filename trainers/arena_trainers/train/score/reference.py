"""Log-probabilities of the reference, with prompts of its own if it has some."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from trl.trainer.utils import use_adapter

from arena_trainers.train.parts import LatestPlay, ReferenceLoop
from arena_trainers.train.rows import TrainingRow
from arena_trainers.train.score.tensors import prompts_with_replies, row_tensors
from arena_wrappers import messages
from arena_wrappers.play import turn_states


def turns_at(
    trainer: LatestPlay, places: Sequence[int]
) -> Iterator[tuple[Any, Any, Any]]:
    """Record, game and state of the turn of each row; None of each for placeholder rows.

    Args:
        trainer: with the generation batch that it played last.
        places: of the rows among the records of this process; -1 for placeholder rows.
    """
    states = dict[int, list[Any]]()
    for place in places:
        if place < 0:
            yield None, None, None
            continue
        record = trainer.last_selected.records[place]
        if record.call >= 0:
            raise ValueError(
                "want turns of one generation for teachers and other prompts of the "
                "reference; leave agent out"
            )
        game, number = trainer.games.rules[record.game], record.episode
        if number not in states:
            states[number] = turn_states(trainer.last_episodes[number], game)
        yield record, game, states[number][record.place]


def reference_logprobs(
    trainer: ReferenceLoop, rows: Sequence[TrainingRow], batch: Mapping[str, Any]
) -> torch.Tensor:
    """float32[B, T]: what the reference gives the replies, after prompts of its own if it has some.

    Args:
        trainer: with the generation batch that it played last.
        rows: of this process.
        batch: their columns.
    """
    options, policy = trainer.args.reference_prompt, trainer.policy
    if options is not None:
        reference_rows = [*rows]
        for i, (record, game, state) in enumerate(
            turns_at(trainer, [row.place for row in rows])
        ):
            if record is not None:
                prompt = messages(game, state, record.seat, options)
                prompt_ids = policy.encode(prompt, options.date)
                reference_rows[i] = TrainingRow(
                    prompt_ids, rows[i].completion_ids, None, 0.0
                )
        batch = row_tensors(reference_rows, trainer)
    model = trainer.ref_model
    with ExitStack() as stack:
        if model is None:  # the adapter was trained, and its base is the reference
            learner_model = trainer.accelerator.unwrap_model(trainer.model)
            name = "ref" if "ref" in learner_model.peft_config else None
            stack.enter_context(use_adapter(learner_model, adapter_name=name))
            model = trainer.model
        ids, mask, width = prompts_with_replies(batch)

        def score(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return trainer.forward.score(model, ids, mask, width, False).logprobs

        if trainer.reference_memo is None:
            return score(ids, mask)
        return trainer.reference_memo.logprobs(ids, mask, width, score)
