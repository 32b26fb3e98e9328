"""ART: one episode as an `art.Trajectory`, by an OpenAI-compatible client of its model."""

from typing import Any

import art

from arena_wrappers import SeatSession


async def rollout(client: Any, model: str, seed: int, seat: int = 0) -> art.Trajectory:
    session = SeatSession("kuhn_poker", seat, "cfr", prompt={"history": "transcript"})
    shown, played = session.reset(seed), art.Trajectory()
    played.messages_and_choices.extend(shown)
    while not session.done:
        said = await client.chat.completions.create(
            model=model, messages=played.messages()
        )
        (choice,) = said.choices
        shown, reward, done, _ = session.step(choice.message.content or "")
        played.reward += reward
        played.messages_and_choices += [choice, *([] if done else shown[-1:])]
    return played.finish()
