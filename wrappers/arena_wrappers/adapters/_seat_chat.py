"""`SeatChat`: one seat of a game, from prompts to raw replies."""

from typing import Any

from arena_wrappers.formats import InvalidReply
from arena_wrappers.opponents import said
from arena_wrappers.prompts import Message, PromptOptions
from arena_wrappers.seat_env import SeatEnv
from arena_wrappers.seating import Seating


class SeatChat:
    """Reads the replies of a model for a `SeatEnv`, and writes its prompts.

    Args:
        env: the seat, which takes actions.
        reply_format: name of a reply format, see `arena_wrappers.formats`.

    Raises:
        ValueError: there is no such format.
    """

    def __init__(self, env: SeatEnv, reply_format: str) -> None:
        self.env = env
        self.options = PromptOptions(reply_format)
        self._seating = Seating(self.options, {}, env.env.game.num_players)

    def prompt(self) -> list[Message]:
        """Rules and instruction as system message, then the text of the current state."""
        env = self.env.env
        return self._seating.view(env.game, env.game_state, self.env.seat).prompt

    def step(self, reply: str) -> tuple[float, bool, bool, dict[str, Any]]:
        """Plays a reply, or forfeits if it is invalid.

        Returns:
            Reward, terminated, truncated and the info of `SeatEnv`. After an invalid reply,
            `info["invalid_reply"]` says why; the state of the game stays as it was.
        """
        env = self.env.env
        outcome = self.options.parse(
            env.game, env.game_state, reply, env.legal_texts() or None
        )
        invalid = isinstance(outcome, InvalidReply)
        action = outcome if invalid else said(env, outcome)
        _, reward, terminated, truncated, info = self.env.step(action)
        if "illegal_action" in info and invalid:
            info["invalid_reply"] = outcome.detail
        return reward, terminated, truncated, info
