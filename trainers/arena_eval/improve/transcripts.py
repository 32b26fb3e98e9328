"""The choice of episodes that a proposer reads, and their transcripts."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from arena_envs.game import AnyGame
from arena_eval.move_values import MoveSolver
from arena_wrappers import Episode, Turn, turn_states
from arena_wrappers.prompts import neutralise

NUM_CHOSEN = 4
MAX_MESSAGE = 600  # characters of a prompt or a reply
MAX_TRANSCRIPT = 3_000  # characters of an episode


class Mistake(NamedTuple):
    """What an action loses against the best one, where the game has exact values."""

    regret: float
    best: str


class PlayedEpisode(NamedTuple):
    """An episode of the current text, with the seats in which it played.

    Attributes:
        episode: the episode.
        seats: of the policy.
        mistakes: by index of the turn in the episode; empty where the game has no exact values.
    """

    episode: Episode
    seats: Sequence[int]
    mistakes: Mapping[int, Mistake] = {}  # never changed

    @property
    def mean_return(self) -> float:
        """The mean return over these seats."""
        return fmean(self.episode.returns[seat] for seat in self.seats)

    @property
    def largest_regret(self) -> float:
        """The largest regret of a turn; 0 if none is known."""
        return max((each.regret for each in self.mistakes.values()), default=0.0)

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


def with_mistakes(
    played: Sequence[PlayedEpisode], game: AnyGame, solver: MoveSolver
) -> list[PlayedEpisode]:
    """The episodes with the mistakes of their seats; as they are where the game has no exact values."""
    episodes = []
    for each in played:
        turns = each.episode.turns
        solved = solver.solve(game, turns, list(turn_states(each.episode, game)))
        mistakes = {
            index: Mistake(
                values.regret, values.actions[values.values.index(max(values.values))]
            )
            for index, (turn, values) in enumerate(
                zip(turns, solved.turns, strict=True)
            )
            if turn.seat in each.seats and values is not None and values.regret
        }
        episodes.append(each._replace(mistakes=mistakes))
    return episodes


def choose_episodes(played: Sequence[PlayedEpisode]) -> list[PlayedEpisode]:
    """At most `NUM_CHOSEN`: up to half with invalid replies, the others with the largest regret.

    Among equal regrets, as where none is known, those with the lowest returns come first.
    """
    by_return = sorted(
        played, key=lambda each: (-each.largest_regret, each.mean_return)
    )
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
    for index, turn in enumerate(played.episode.turns):
        if turn.seat not in played.seats:
            continue
        lines.append(f"Read by player_{turn.seat}:")
        lines.append(_shortened(turn.messages[-1]["content"], MAX_MESSAGE))
        lines.append(f"Replied: {_shortened(turn.reply, MAX_MESSAGE)}")
        if turn.invalid is not None:
            lines.append(f"This reply was invalid ({turn.invalid}).")
        if (mistake := played.mistakes.get(index)) is not None:
            lines.append(
                f"By exact analysis {mistake.best} is worth {mistake.regret:.3g} more."
            )
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
