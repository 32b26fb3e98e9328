"""Players of social dilemmas with talk."""

import random
from dataclasses import dataclass

from arena_envs.bots.styles import check_style
from arena_envs.game import AnyGame
from arena_envs.games._dilemma_state import CHOICES, COOPERATE, DEFECT, TALK, State
from arena_envs.games._talk import Utterance
from arena_envs.games.social_dilemma import SocialDilemma

PROMISES, PASS = TALK[:2], TALK[2]
STYLES = ("honest", "greedy", "silent")


@dataclass(frozen=True)
class Promiser:
    """Plays social dilemmas in one of three styles.

    - `honest` does what it promises; without talk it defects. It promises to cooperate if no other
      player has defected in an earlier round, and every other player that has spoken in this round
      has promised to cooperate; else it promises to defect.
    - `greedy` promises to cooperate, and defects.
    - `silent` passes and defects, which is the equilibrium of the prisoner's dilemma.

    Args:
        style: one of these words.

    Raises:
        ValueError: another style; when it plays, another game.
    """

    style: str

    def __post_init__(self) -> None:
        check_style(self.style, STYLES)

    def __call__(self, game: AnyGame, state: State, rng: random.Random) -> Utterance:
        if not isinstance(game, SocialDilemma):
            raise ValueError(f"want SocialDilemma, got {game!r}")
        seat, past = game.current_player(state), len(state.rounds)
        if game.is_talking(state):
            if self.style == "silent":
                return PASS
            trusts = self.style == "greedy" or _trusts(game, state, seat)
            return PROMISES[COOPERATE if trusts else DEFECT]
        promised = game.latest_promises(state, past)[seat]
        if self.style != "honest" or promised is None:
            promised = DEFECT
        return CHOICES[promised]


def _trusts(game: SocialDilemma, state: State, seat: int) -> bool:
    """Whether no other player has defected, and all who have spoken promise to cooperate."""
    past = len(state.rounds)
    betrayed = any(
        choice == DEFECT
        for choices in state.rounds
        for other, choice in enumerate(choices)
        if other != seat
    )
    promised = game.latest_promises(state, past)
    first = past * game.num_players * game.talk_turns
    spoke = {game.speaker_of(turn) for turn in range(first, len(state.said))}
    return not betrayed and all(promised[s] == COOPERATE for s in spoke - {seat})
