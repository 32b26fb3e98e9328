"""The state of Say-Select, and the measures of an episode."""

from collections.abc import Sequence
from typing import NamedTuple

from arena_envs.games._talk import Utterance


class State(NamedTuple):
    """The balls that pay in the beginning, empty before they are drawn; all utterances."""

    paying: tuple[int, ...] = ()
    said: tuple[Utterance, ...] = ()

    @property
    def selected(self) -> list[int]:
        """The selected balls, in order."""
        return [each.values[0] for each in self.said if each.move == "select"]

    @property
    def gains(self) -> list[int]:
        """What the selected balls have paid, in order."""
        balls = self.selected
        return [
            1 if ball in self.paying and ball not in balls[:number] else -1
            for number, ball in enumerate(balls)
        ]

    @property
    def left(self) -> list[int]:
        """The balls that pay 1 now, ascending."""
        balls = self.selected
        return [ball for ball in self.paying if ball not in balls]


def measures(state: State) -> dict[str, float]:
    """Efficiency, score share, truthfulness and agreement, as the page of the game defines them."""
    gains, most = state.gains, max(1, len(state.paying))
    is_true, agrees = [], []
    for turn, each in enumerate(state.said):
        if turn % 2 == 0:
            left = State(state.paying, state.said[:turn]).left
            is_true.append(each.values[0] in left)
        elif each.move == "select":
            agrees.append(each.values == state.said[turn - 1].values)
    return {
        "efficiency": gains.count(1) / most,
        "score_share": sum(gains) / most,
        "truthfulness": _share(is_true),
        "agreement": _share(agrees),
    }


def _share(kept: Sequence[bool]) -> float:
    return sum(kept) / len(kept) if kept else 1.0
