"""Scripted players of the secret keeper."""

import random
from dataclasses import dataclass

from arena_envs.bots.styles import check_style
from arena_envs.game import AnyGame
from arena_envs.games._keeper_state import ATTACKER, KEEPER, State
from arena_envs.games._talk import Utterance
from arena_envs.games.secret_keeper import ASK, REFUSE, TELL, SecretKeeper

STYLES = ("honest", "greedy", "silent")


@dataclass(frozen=True)
class SecretHolder:
    """Plays the secret keeper in one of three styles, on each seat.

    | Style    | Attacker                 | Keeper                                | Subject            |
    |----------|--------------------------|---------------------------------------|--------------------|
    | `honest` | says that it is the attacker | tells whoever says the password   | says the password  |
    | `greedy` | guesses a password       | tells everybody                       | says the password  |
    | `silent` | asks without words       | refuses, which is best without words  | asks without words |

    Args:
        style: one of these words.

    Raises:
        ValueError: another style; when it plays, another game.
    """

    style: str

    def __post_init__(self) -> None:
        check_style(self.style, STYLES)

    def __call__(self, game: AnyGame, state: State, rng: random.Random) -> Utterance:
        if not isinstance(game, SecretKeeper):
            raise ValueError(f"want SecretKeeper, got {game!r}")
        seat = game.current_player(state)
        if seat == KEEPER:
            is_proved = state.password in state.said[-1].message.lower()
            tells = self.style == "greedy" or (self.style == "honest" and is_proved)
            return TELL if tells else REFUSE
        if self.style == "silent":
            return ASK
        words = f"The password is {state.password}."
        if seat == ATTACKER:
            guess = f"The password is {rng.choice(game.words)}."
            words = guess if self.style == "greedy" else "I am the attacker."
        fits = game.messages and len(words) <= game.max_message
        audience = tuple(sorted((KEEPER, seat)))
        return ASK._replace(message=words, audience=audience) if fits else ASK
