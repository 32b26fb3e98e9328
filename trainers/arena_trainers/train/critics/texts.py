"""The texts whose values critics of language models give: prompts and replies of turns."""

from collections.abc import Sequence

from arena_trainers.lm.reward_model import PromptAndReply
from arena_trainers.train.parts import CriticLoop
from arena_trainers.train.records import TurnRecord
from arena_wrappers import messages
from arena_wrappers.play import final_state


def read_texts(
    trainer: CriticLoop, records: Sequence[TurnRecord]
) -> tuple[list[PromptAndReply], list[int]]:
    """Prompt and reply of each turn; then of each truncated turn the prompt that its seat would read next.

    Returns:
        The texts, with an end token as the reply to the further prompts; the rows of truncated turns.
    """
    texts: list[PromptAndReply] = []
    for record in records:
        turn = trainer.last_episodes[record.episode].turns[record.place]
        call = turn if record.call < 0 else turn.generations[record.call]
        texts.append((call.prompt_ids or (), call.token_ids or ()))
    truncated_rows = [row for row, record in enumerate(records) if record.truncated]
    options, policy = trainer.args.prompt, trainer.policy
    if truncated_rows and trainer.agent is not None:
        raise ValueError(
            f"critic={trainer.args.critic!r} takes no truncated episodes of an agent, whose next "
            "prompt is not known; leave out max_turns, or give --critic features"
        )
    if truncated_rows and not options.is_of_state:
        raise ValueError(
            f"critic={trainer.args.critic!r} takes truncated episodes with history='state' and "
            f"shuffle=0, got {options.history!r} and {options.shuffle}; set both, or leave out "
            "max_turns"
        )
    for record in (records[row] for row in truncated_rows):
        game = trainer.games.rules[record.game]
        state = final_state(trainer.last_episodes[record.episode], game)
        prompt = messages(game, state, record.seat, options)
        texts.append((policy.encode(prompt), [policy.eos_ids[0]]))
    return texts, truncated_rows
