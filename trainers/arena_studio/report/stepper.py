"""Steps through episodes in a terminal."""

from collections.abc import Sequence

from arena_envs.scenes import text_of
from arena_eval.move_values import MoveSolver, Solved
from arena_studio.report.episode_text import (
    end_line,
    escape_controls,
    turn_lines,
    value_lines,
)
from arena_studio.report.episodes import (
    BadLine,
    Recorded,
    ending_text,
    episode_title,
    is_hidden,
)
from arena_studio.report.frames import Frames, frames_of

HELP = "right/left: turn  down/up: episode  0/$: ends  r/R: large regret  v: viewer  q: quit"

KEYS_OF_COMMANDS = {  # arrows, Home and End as terminals send them
    "next": ["\x1b[C", " ", "n"],
    "back": ["\x1b[D", "p"],
    "next episode": ["\x1b[B", "j"],
    "previous episode": ["\x1b[A", "k"],
    "first": ["\x1b[H", "\x1b[1~", "0"],
    "last": ["\x1b[F", "\x1b[4~", "$"],
    "next regret": ["r"],
    "previous regret": ["R"],
    "viewer": ["v"],
    "quit": ["q", "\x03", "\x04"],
}

KEYS = {key: command for command, keys in KEYS_OF_COMMANDS.items() for key in keys}


class Stepper:
    """A place in a list of episodes: which episode, which turn, who looks.

    Attributes:
        is_over: whether the reader has quit.
        number: of the line in the list.
        turn: number of the turn; the number of turns stands for the end.
    """

    def __init__(self, lines: Sequence[Recorded | BadLine], full: bool = False) -> None:
        self._lines, self._full = lines, full
        self.is_over = False
        self.number = self.turn = self._viewer = self._last = 0
        self._frames: Frames | None = None
        self._solver, self._solved = MoveSolver(), Solved(None, None, [])
        self._remark = ""
        self._open(0)

    def press(self, key: str) -> None:
        """Does what a key means; other keys do nothing."""
        self._remark = ""
        command = KEYS.get(key)
        match command:
            case "next":
                self.turn = min(self.turn + 1, self._last)
            case "back":
                self.turn = max(self.turn - 1, 0)
            case "first":
                self.turn = 0
            case "last":
                self.turn = self._last
            case "quit":
                self.is_over = True
            case "next regret":
                later = [i for i in self._large_regrets() if i > self.turn]
                self._seek(later[:1], "later")
            case "previous regret":
                earlier = [i for i in self._large_regrets() if i < self.turn]
                self._seek(earlier[-1:], "earlier")
            case "next episode":
                self._open(min(self.number + 1, len(self._lines) - 1))
            case "previous episode":
                self._open(max(self.number - 1, 0))
            case "viewer" if self._frames:
                self._viewer = (self._viewer + 1) % len(self._frames.viewers)

    def screen(self) -> str:
        """The screen of the terminal."""
        line = self._lines[self.number]
        position = f"[{self.number + 1} of {len(self._lines)}] line {line.line}"
        if isinstance(line, BadLine):
            return f"{position} is no episode: {escape_controls(line.reason)}\n\n{HELP}"
        episode, credit = line.rollout
        frames = self._frames or frames_of(episode)
        viewer = frames.viewers[self._viewer % len(frames.viewers)]
        lines = [
            f"{position}: {escape_controls(episode_title(episode))}",
            f"turn {self.turn} of {self._last}, seen by {viewer}",
            "",
        ]
        if frames.fault:
            lines.insert(1, f"no replay: {escape_controls(frames.fault)}")
        scenes = frames.scenes[self.turn]
        lines += [text_of(scenes[self._viewer % len(scenes)]), ""]
        if self.turn < self._last:
            turn, turn_credit = episode.turns[self.turn], credit[self.turn]
            lines += turn_lines(turn, turn_credit, self._full, viewer)
            if not is_hidden(turn, viewer):
                lines += value_lines(self._solved, self.turn)
        else:
            lines += [ending_text(episode), end_line(episode)]
        remark = [self._remark] if self._remark else []
        return "\n".join([*lines, "", *remark, HELP])

    def _seek(self, turns: Sequence[int], direction: str) -> None:
        """Goes to a turn with a large regret, or says that there is none."""
        if turns:
            self.turn = turns[0]
        else:
            self._remark = f"no {direction} turn has a large regret"

    def _open(self, number: int) -> None:
        self.number, self.turn = number, 0
        line = self._lines[number]
        self._frames, self._last = None, 0
        if isinstance(line, Recorded):
            self._frames = frames_of(line.rollout.episode)
            frames, turns = self._frames, line.rollout.episode.turns
            self._solved = self._solver.solve(frames.game, turns, frames.states)
            self._last = len(line.rollout.episode.turns)

    def _large_regrets(self) -> list[int]:
        """The turns with a large regret that the viewer may know of."""
        line = self._lines[self.number]
        if not isinstance(line, Recorded) or self._frames is None:
            return []
        viewers, turns = self._frames.viewers, line.rollout.episode.turns
        viewer = viewers[self._viewer % len(viewers)]
        move_values = zip(turns, self._solved.turns, strict=True)
        return [
            number
            for number, (turn, moves) in enumerate(move_values)
            if moves and moves.is_large and not is_hidden(turn, viewer)
        ]
