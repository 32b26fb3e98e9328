"""TRL: each token gets the advantage of its turn, in `GRPOTrainer` and `AsyncGRPOTrainer`.

    from arena_credit.hooks.trl import use_async, with_credit

    Trainer = with_credit(GRPOTrainer, "mars_loo")
    Trainer(model, reward_funcs, args, dataset, rollout_func=...).train()

    use_async("mars_loo")
    AsyncGRPOTrainer(...).train()

A row is a conversation. Its turns are the runs of tokens that the model wrote (`env_mask` of a
`rollout_func`, or the mask of tools). The return of a row is the weighted sum of the reward
functions. The field `turn_rewards` of the rollout has the reward of each turn; without it the last
turn is paid the return. An estimator that reads surprise (`control_variates`) costs one forward pass
more, which gives log-probabilities and entropies; the asynchronous loop has no entropies.

The asynchronous loop scores one group at a time and allows one advantage per row. So a row whose turns
have different advantages becomes one row per turn: it ends with the turn, and only the turn is
trained. The loss is unchanged, as it is a mean over tokens. The last turn of a conversation is paid
its reward.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Protocol

import numpy as np

from arena_credit.by_name import Estimator
from arena_credit.hooks.rows import (
    StatefulEstimator,
    Trajectory,
    by_turn,
    paid_by_turn,
    turn_of_tokens,
)


def with_credit(trainer: type, estimator: str | Estimator, **options: Any) -> type:
    """A trainer of TRL with the estimator's advantages, float[B, L], in place of its own.

    Args:
        trainer: `GRPOTrainer`, or a class derived from it.
        estimator: as for `StatefulEstimator`.
        **options: of the estimator.
    """
    credit = StatefulEstimator(estimator, **options)

    class CreditTrainer(trainer):  # type: ignore[misc]  # a class of the user's
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            if credit.reads_surprise:
                check_all_tokens(self.args)
            if getattr(self.args, "use_liger_kernel", False):
                raise ValueError(
                    "want a loss that takes advantages of tokens, got Liger's; set "
                    "use_liger_kernel=False"
                )

        def _calculate_rewards(self, inputs: Any, *args: Any) -> Any:
            from accelerate.utils import gather_object

            rewards = super()._calculate_rewards(inputs, *args)  # of all processes
            weighted = rewards * self.reward_weights.to(rewards.device)
            totals = weighted.nansum(dim=1)
            totals[rewards.isnan().all(dim=1)] = np.nan  # no function scored the row
            self._totals = totals.tolist()
            self._turn_rewards = gather_object([x.get("turn_rewards") for x in inputs])
            return rewards

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            from accelerate.utils import gather_object

            scored = super()._generate_and_score_completions(inputs)
            mask = scored["completion_mask"] * scored.get("tool_mask", 1)
            number = turn_of_tokens(np.asarray(mask.cpu(), np.bool_)).clip(0)
            counts = gather_object((number.max(axis=1, initial=0) + 1).tolist())
            size = self.num_generations
            if not self.model.training:
                size = self.num_generations_eval
            advantages = row_advantages(
                credit,
                self._totals,
                self._turn_rewards,
                counts,
                size,
                *self._surprise(scored, np.asarray(mask.cpu(), np.bool_), number),
            )
            means = [float(np.mean(of_turns)) for of_turns in advantages]
            logged = self._logs["advantages"]  # of all processes, like `means`
            for _ in means:
                logged.pop()
            logged.extend(means)
            first = self.accelerator.process_index * len(number)
            of_tokens = [
                np.array(advantages[first + row])[turns]
                for row, turns in enumerate(number)
            ]
            scored["advantages"] = mask * scored["advantages"].new_tensor(
                np.stack(of_tokens)
            )
            return scored

        def _surprise(self, scored: Any, mask: Any, number: Any) -> Sequence[Any]:
            """Log-probabilities and entropies of all turns of all processes, by a forward pass."""
            import torch
            from accelerate.utils import gather_object

            if not credit.reads_surprise:
                return ()
            prompts, replies = (
                [scored[f"{part}_{kind}"] for part in ("prompt", "completion")]
                for kind in ("ids", "mask")
            )
            with torch.no_grad():
                columns = self._get_per_token_logps_and_entropies(
                    self.model,
                    torch.cat(prompts, dim=1),
                    torch.cat(replies, dim=1),
                    scored["completion_ids"].size(1),
                    batch_size=self.args.per_device_train_batch_size,
                    compute_entropy=True,
                    **{name: scored[name] for name in PICTURES if name in scored},
                )[:2]
            return [
                gather_object(
                    [
                        by_turn(row, row_mask, turns)
                        for row, row_mask, turns in zip(
                            column.double().cpu().numpy(), mask, number, strict=True
                        )
                    ]
                )
                for column in columns
            ]

    return CreditTrainer


# what a forward pass of TRL needs of rows with pictures
PICTURES = (
    "pixel_values",
    "image_grid_thw",
    "num_images",
    "pixel_attention_mask",
    "spatial_shapes",
    "num_tiles",
    "image_sizes",
    "token_type_ids",
    "mm_token_type_ids",
    "image_position_ids",
)


class SamplingArgs(Protocol):
    """The settings of TRL's `GRPOConfig` that cut or reweigh what is sampled."""

    top_k: int | None
    top_p: float
    min_p: float | None
    repetition_penalty: float


def check_all_tokens(args: SamplingArgs) -> None:
    """Raises ValueError if settings keep TRL from sampling from all tokens."""
    for name, value, plain in (
        ("top_k", args.top_k or 0, 0),
        ("top_p", args.top_p, 1.0),
        ("min_p", args.min_p or 0.0, 0.0),
        ("repetition_penalty", args.repetition_penalty, 1.0),
    ):
        if value != plain:
            raise ValueError(
                f"want {name}={plain!r}, since surprise is of all tokens, got {value!r}; set it, "
                "or pass surprise=False to with_credit"
            )


def row_advantages(
    credit: StatefulEstimator,
    totals: list[float],
    turn_rewards: list[Any],
    num_turns: list[int],
    num_generations: int,
    logprobs: Sequence[Any] | None = None,
    entropies: Sequence[Any] | None = None,
) -> list[list[float]]:
    """The advantage of each turn of each row; 0 for rows without a reward (NaN).

    Args:
        credit: the estimator.
        totals: the weighted reward of each row; NaN if no function scored it.
        turn_rewards: the rewards of the turns of each row, or None.
        num_turns: of each row.
        num_generations: size of a group; the rows of a group are consecutive.
        logprobs: of the tokens of each turn of each row, if they are known.
        entropies: of the distributions of these tokens, if they are known.

    >>> row_advantages(StatefulEstimator("rloo"), [1.0, 4.0], [None, None], [2, 1], 2)
    [[-3.0, -3.0], [3.0]]
    """
    scored = [row for row, total in enumerate(totals) if not np.isnan(total)]
    trajectories = [
        Trajectory(
            paid_by_turn(totals[row], num_turns[row], turn_rewards[row]),
            group=row // num_generations,
            logprobs=None if logprobs is None else logprobs[row],
            entropies=None if entropies is None else entropies[row],
        )
        for row in scored
    ]
    advantages = [[0.0] * count for count in num_turns]
    for row, of_turns in zip(scored, credit(trajectories), strict=True):
        advantages[row] = of_turns
    return advantages


def use_async(estimator: str | Estimator, **options: Any) -> None:
    """Gives the estimator to every `AsyncRolloutWorker` that starts from now on.

    Arguments are those of `StatefulEstimator`.
    """
    from trl.experimental.async_grpo.async_rollout_worker import AsyncRolloutWorker

    credit = StatefulEstimator(estimator, **options)
    # a partial, which reaches the spawned process with its estimator
    loop: Any = partial(credit_loop, credit=credit)
    AsyncRolloutWorker._loop_cls = loop


def credit_loop(*, credit: StatefulEstimator, **kwargs: Any) -> Any:
    """TRL's rollout loop with the advantages of an estimator, built in the process that plays.

    Args:
        credit: the estimator.
        **kwargs: of TRL's loop.
    """
    from trl.experimental.async_grpo.async_rollout_worker import _AsyncRolloutLoop

    class CreditLoop(_AsyncRolloutLoop):
        async def _score_group(self, group: Any) -> list[Any]:
            samples = iter(await super()._score_group(group))
            counts = [len(sequences) for sequences in group.completions_sequences]
            return credited_rows(
                credit, [list(islice(samples, count)) for count in counts]
            )

    return CreditLoop(**kwargs)


def credited_rows(
    credit: StatefulEstimator, conversations: Sequence[Sequence[Any]]
) -> list[Any]:
    """The training rows of a group, split where a row's turns have different advantages.

    Args:
        credit: the estimator.
        conversations: the rows (`RolloutSample`) of each conversation, in order. Their metrics
            hold its `reward`, NaN if no function scored it.
    """
    masks = [
        [np.asarray(row.completion_mask) > 0 for row in rows] for rows in conversations
    ]
    numbers = [
        [turn_of_tokens(mask[None])[0] for mask in row_masks] for row_masks in masks
    ]
    counts = [
        sum(int(number.max(initial=-1)) + 1 for number in row_numbers)
        for row_numbers in numbers
    ]
    scored = [
        i
        for i, rows in enumerate(conversations)
        if counts[i] and not np.isnan(rows[0].metrics["reward"])
    ]
    advantages = credit(
        [
            Trajectory(
                paid_by_turn(conversations[i][0].metrics["reward"], counts[i]), "group"
            )
            for i in scored
        ]
    )
    of_turn = dict(zip(scored, advantages, strict=True))
    credited_samples = []
    for i, rows in enumerate(conversations):
        first = 0
        for row, mask, number in zip(rows, masks[i], numbers[i], strict=True):
            num_turns = int(number.max(initial=-1)) + 1
            of_row = of_turn.get(i, [0.0] * counts[i])[first : first + num_turns]
            first += num_turns
            credited_samples += _split(row, mask, number, of_row)
    return credited_samples


def _split(row: Any, mask: Any, number: Any, advantages: Sequence[float]) -> list[Any]:
    """The row itself if its turns have equal advantages, else one row per turn."""
    if len({*advantages}) < 2:
        return [replace(row, advantage=advantages[0] if advantages else 0.0)]
    rows = []
    for turn, advantage in enumerate(advantages):
        trained = mask & (number == turn)
        end = int(np.flatnonzero(trained)[-1]) + 1
        rows.append(
            replace(
                row,
                input_ids=row.input_ids[:end],
                completion_mask=trained[:end].astype(row.completion_mask.dtype),
                old_log_probs=row.old_log_probs[:end],
                advantage=advantage,
                metrics=dict(row.metrics),
            )
        )
    return rows
