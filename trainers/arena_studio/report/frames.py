"""The scenes of an episode."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from arena_envs.game import AnyGame
from arena_envs.scenes import Bubble, Scene, Talk, scene_of
from arena_eval.move_values import is_built_in
from arena_wrappers import Episode, ReplayError
from arena_wrappers.play import final_state, game_of, turn_states


class Frames(NamedTuple):
    """The scenes of an episode.

    Attributes:
        viewers: who looks: `"all"`, then each seat. `"prompt"` alone if the episode cannot
            be replayed.
        scenes: by frame and viewer. Frame i is before turn i, the last one is the end.
        fault: why the episode cannot be replayed; None if it can.
        game: the rules; None if the episode cannot be replayed.
        states: the states of the frames; empty if the episode cannot be replayed.
    """

    viewers: Sequence[str]
    scenes: Sequence[Sequence[Scene]]
    fault: str | None
    game: AnyGame | None = None
    states: Sequence[Any] = ()


def frames_of(episode: Episode) -> Frames:
    """The scenes of an episode, drawn from its replayed states.

    An episode of an unknown game, or of other rules than today's, has its prompts instead.
    Any error of a plug-in's rules or scene counts as other rules.
    """
    game: AnyGame | None = None
    try:
        game = game_of(episode)
        states = [*turn_states(episode, game), final_state(episode, game)]
        if not is_built_in(game):
            return _drawn(game, states)
    except (ReplayError, ImportError, ValueError) as error:
        return _prompts(episode, " ".join(str(error).split()))
    except Exception as error:
        if game is not None and is_built_in(game):
            raise
        return _prompts(episode, f"{type(error).__name__}: {error}")
    return _drawn(game, states)


def _drawn(game: AnyGame, states: Sequence[Any]) -> Frames:
    viewers: list[int | None] = [None, *range(game.num_players)]
    if len(viewers) == 2 and game.information == "perfect":
        viewers = [None]
    scenes = [[scene_of(game, state, seat) for seat in viewers] for state in states]
    names = ["all" if seat is None else f"player_{seat}" for seat in viewers]
    return Frames(names, scenes, None, game, states)


def _prompts(episode: Episode, fault: str) -> Frames:
    """The last message of each prompt as a scene."""
    scenes = []
    for turn in episode.turns:
        text = turn.messages[-1]["content"] if turn.messages else ""
        bubble = Bubble(None, text, audience=f"player_{turn.seat}")
        scenes.append(
            [Scene("The prompt, since there is no replay.", [Talk("", [bubble])])]
        )
    end = Scene("The end of the record.", [])
    return Frames(["prompt"], [*scenes, [end]], fault)
