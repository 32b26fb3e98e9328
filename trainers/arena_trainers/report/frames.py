"""The scenes of an episode: one before each turn, and one of the end."""

from collections.abc import Sequence
from typing import NamedTuple

from arena_envs.scenes import Scene, Talk, Utterance, scene_of
from arena_wrappers import Episode, ReplayError
from arena_wrappers.replay import final_state, game_of, turn_states


class Frames(NamedTuple):
    """The scenes of an episode.

    Attributes:
        viewers: who looks: `"all"`, then each seat. `"prompt"` alone if the episode cannot
            be replayed.
        scenes: by frame and viewer. Frame i is before turn i, the last one is the end.
        fault: why the episode cannot be replayed; None if it can.
    """

    viewers: Sequence[str]
    scenes: Sequence[Sequence[Scene]]
    fault: str | None


def frames_of(episode: Episode) -> Frames:
    """The scenes of an episode, drawn from its replayed states.

    An episode of an unknown game, or of other rules than today's, has its prompts instead.
    """
    try:
        game = game_of(episode)
        states = [*turn_states(episode, game), final_state(episode, game)]
        viewers: list[int | None] = [None, *range(game.num_players)]
        if len(viewers) == 2 and game.information == "perfect":
            viewers = [None]
        scenes = [[scene_of(game, state, seat) for seat in viewers] for state in states]
    except (ReplayError, ImportError, ValueError) as error:
        return _prompts(episode, " ".join(str(error).split()))
    except Exception as error:  # rules of a plug-in that fit the record no longer
        return _prompts(episode, f"{type(error).__name__}: {error}")
    names = ["all" if seat is None else f"player_{seat}" for seat in viewers]
    return Frames(names, scenes, None)


def _prompts(episode: Episode, fault: str) -> Frames:
    """The last message of each prompt as a scene."""
    scenes = []
    for turn in episode.turns:
        text = turn.messages[-1]["content"] if turn.messages else ""
        said = Utterance(None, text, audience=f"player_{turn.seat}")
        scenes.append(
            [Scene("The prompt, since there is no replay.", [Talk("", [said])])]
        )
    end = Scene("The end of the record.", [])
    return Frames(["prompt"], [*scenes, [end]], fault)
