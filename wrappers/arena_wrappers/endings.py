"""What a person is shown when an episode ends."""

from collections.abc import Sequence
from typing import Any

from arena_envs.game import AnyGame
from arena_envs.scenes import Scene, Talk, scene_of, text_of
from arena_wrappers.episodes import Episode
from arena_wrappers.human import HumanPolicy
from arena_wrappers.noisy import without_noise
from arena_wrappers.policies import Policy
from arena_wrappers.replay import final_state


def ending(
    episode: Episode,
    game: AnyGame,
    seat: int,
    policies: Sequence[Policy],
    *,
    reveals: bool = False,
) -> str:
    """The last state as a seat sees it, a forfeit, and the returns.

    Args:
        episode: the episode.
        game: its game.
        seat: who reads it.
        policies: who played each seat.
        reveals: whether to add what was hidden from the seat. Not for a seat that may meet the
            same start again.
    """
    state = final_state(episode, game)
    lines = [f"\n{game.observe(state, seat)}"]
    if episode.lost is not None:
        lines.append(f"The game ends without a result: {episode.lost}")
    if reveals and (hidden := _hidden(game, state, seat)):
        lines.append(f"What was hidden from you:\n{hidden}")
    if episode.forfeited_by is not None:
        last = episode.turns[-1]
        lines.append(
            f"player_{episode.forfeited_by} forfeits: {last.invalid}: {last.detail}"
        )
    for number, value in enumerate(episode.returns):
        who = "you" if number == seat else policies[number].name
        lines.append(f"player_{number} ({who}): {value:g}")
    return "\n".join(lines)


def _hidden(game: AnyGame, state: Any, seat: int) -> str:
    """The parts of the picture of a state that a seat does not see as they are, but for the talk."""
    whole, own = (scene_of(game, state, viewer).shapes for viewer in (None, seat))
    shapes = [
        shape for shape in whole if shape not in own and not isinstance(shape, Talk)
    ]
    return text_of(Scene("", shapes)).strip() if shapes else ""


def tell_people(episode: Episode, game: AnyGame, policies: Sequence[Policy]) -> None:
    """Shows the ending to every person among the policies of an episode."""
    for seat, policy in enumerate(policies):
        inner = without_noise(policy)
        if isinstance(inner, HumanPolicy):
            inner.write(ending(episode, game, seat, policies))
