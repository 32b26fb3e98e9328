"""Examples as rows that TRL's `SFTTrainer` trains on as they are."""

from collections.abc import Iterable, Mapping

from arena_trainers.data.examples import Example
from arena_trainers.lm.policy import LMPolicy

IGNORED = -100  # the label of a token without loss


def supervised_rows(
    policy: LMPolicy, examples: Iterable[Example]
) -> list[Mapping[str, list[int]]]:
    """Token ids and labels; the loss covers the reply and the token that ends it.

    The ids are those that the policy samples and scores: prompts by its chat template, and
    replies encoded alone.

    Args:
        policy: whose model is to learn.
        examples: what it is to learn.

    Returns:
        Rows of `input_ids`, int[L], and `labels`, int[L]: -100 in the prompt.
    """
    rows = []
    for messages, reply in examples:
        prompt = policy.encode(messages)
        answer = [*policy.chat.ids(reply), policy.eos_ids[0]]
        labels = [IGNORED] * len(prompt) + answer
        rows.append({"input_ids": [*prompt, *answer], "labels": labels})
    return rows
