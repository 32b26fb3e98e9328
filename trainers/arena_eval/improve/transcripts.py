"""The choice of episodes that a proposer reads, and their transcripts."""

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from arena_wrappers import Episode, Turn
from arena_wrappers.prompts import neutralise

NUM_CHOSEN = 4
MAX_MESSAGE = 600  # characters of a prompt or a reply
MAX_TRANSCRIPT = 3_000  # characters of an episode


class PlayedEpisode(NamedTuple):
    """An episode of the current text, with the seats in which it played."""

    episode: Episode
    seats: Sequence[int]

    @property
    def mean_return(self) -> float:
        """The mean return over these seats."""
        return fmean(self.episode.returns[seat] for seat in self.seats)

    @property
    def turns(self) -> list[Turn]:
        """The turns of these seats."""
        return [turn for turn in self.episode.turns if turn.seat in self.seats]


def played_by(name: str, episodes: Sequence[Episode]) -> list[PlayedEpisode]:
    """The finished episodes of the policy with this name, in the order of their seeds."""
    played = []
    for episode in episodes:
        seats = sorted({turn.seat for turn in episode.turns if turn.policy == name})
        if seats and episode.lost is None:
            played.append(PlayedEpisode(episode, seats))
    return sorted(played, key=lambda each: (each.episode.seed, each.seats))


def choose_episodes(played: Sequence[PlayedEpisode]) -> list[PlayedEpisode]:
    """At most `NUM_CHOSEN`: up to half with invalid replies, the others with the lowest returns."""
    by_return = sorted(played, key=lambda each: each.mean_return)
    invalid = [
        each
        for each in by_return
        if any(turn.invalid is not None for turn in each.turns)
    ]
    chosen = invalid[: NUM_CHOSEN // 2]
    others = [each for each in by_return if not any(each is other for other in chosen)]
    return [*chosen, *others[: NUM_CHOSEN - len(chosen)]]


def transcript_of(played: PlayedEpisode) -> str:
    """The prompts, replies and returns of the policy in an episode; of bounded length."""
    lines = []
    for turn in played.turns:
        lines.append(f"Read by player_{turn.seat}:")
        lines.append(_shortened(turn.messages[-1]["content"], MAX_MESSAGE))
        lines.append(f"Replied: {_shortened(turn.reply, MAX_MESSAGE)}")
        if turn.invalid is not None:
            lines.append(f"This reply was invalid ({turn.invalid}).")
    text = _shortened("\n".join(lines), MAX_TRANSCRIPT)
    returns = ", ".join(
        f"player_{seat} {played.episode.returns[seat]:g}" for seat in played.seats
    )
    return f"{neutralise(text)}\nReturn: {returns}"


def _shortened(text: str, most: int) -> str:
    """The text, or the beginning and the end of a long one."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\n[...]\n{text[-(most // 2) :]}"
