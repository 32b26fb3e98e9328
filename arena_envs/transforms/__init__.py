"""Transforms: games around games, by strings such as `misere(nim)` wherever a game is named.

| String | Changes | Accepts |
|---|---|---|
| `disguise:SEED(game)` | names of actions, cards, symbols and the story; the tree stays | games without talk whose letters carry no rules |
| `labels:SEED(game)` | actions have letters, drawn anew for each text | games without talk in which one seat moves at a time |
| `match:N(game)` | N games of the same players as one episode, places exchanged after each | games without talk |
| `misere(game)` | who would win loses | two seats, zero-sum, perfect information, no chance |
| `start:FILE@SHARE(game)` | starts after this share of the turns of an episode of FILE, drawn equally | games without talk; FILE holds episodes of the same game |
| `vanish(game)` | a seat's oldest mark vanishes when it puts its fourth | tic-tac-toe |
| `goal(game, at=MODULE:FUNCTION)` | ends where the function of game and state gives returns instead of None | all |

Parameters of the game stand in its own parentheses, `misere(nim(pile_sizes=[2, 3]))`, or go through:
`make("misere(nim)", pile_sizes=(2, 3))`. A transform of a transform is a game, too. Other
distributions add transforms by the entry-point group `arena.transforms`: a function or class that
takes its arguments and `game`, and returns a game. `Transform` passes on what it does not change.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from arena_envs.game import AnyGame


@dataclass(frozen=True)
class Transform:
    """A game around a game, which does what it does not define itself.

    What is made for the class of the inner game is left out: knobs, instances, bots and pictures.
    """

    game: Any = field(kw_only=True)

    knobs: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    instances: ClassVar[Sequence[Hashable]] = ()
    heuristic: ClassVar[str | None] = None
    known_value: ClassVar[Any] = None
    scene: ClassVar[str | None] = None

    def __getattr__(self, name: str) -> Any:
        if name == "game" or name.startswith("__"):  # while it is copied
            raise AttributeError(name)
        return getattr(self.game, name)

    def stage(self, state: Any) -> tuple[Any, Any]:
        """The game and the state that a bot plays: this one, and of a match its current game."""
        return self, state

    def _want(self, holds: bool, requirement: str) -> None:
        if not holds:
            name = type(self).__name__.lower()
            raise ValueError(
                f"want {requirement} for {name}(...), got {self.game!r:.200}"
            )


@dataclass(frozen=True)
class DrawsFirst(Transform):
    """A transform whose chance draws once before the inner game begins.

    What it does not define is asked of the inner game, in the inner state.
    """

    def __getattr__(self, name: str) -> Any:
        attribute = super().__getattr__(name)
        if name == "max_chance_nodes":
            return None if attribute is None else attribute + 1
        if not callable(attribute):
            return attribute
        return lambda state, *args: attribute(self._inner(state), *args)

    def _inner(self, state: Any) -> Any:
        """The inner game's state; another argument, such as a seat, stays as it is."""
        raise NotImplementedError


def stage_of(game: Any, state: Any) -> tuple[Any, Any]:
    """The game and the state that a bot plays, see `Transform.stage`."""
    return game.stage(state) if isinstance(game, Transform) else (game, state)


def innermost(game: AnyGame | type) -> Any:
    """The game within all transforms."""
    while isinstance(game, Transform):
        game = game.game
    return game
