"""Recorded episodes: lines of files, facts, lines of text, scenes; steps through them in a terminal."""

import tomllib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from arena_credit import FlatPoolWarning
from arena_credit.export import credited
from arena_envs.game import AnyGame
from arena_envs.scenes import Bubble, Scene, Talk, scene_of, text_of
from arena_eval.move_values import MoveSolver, Solved, is_built_in
from arena_eval.rollouts import Rollout, TurnCredit, rollout_of
from arena_eval.tournament.round_robin import EPISODE, HEADER, LINE
from arena_wrappers import Episode, InvalidReply, ReplayError, Turn
from arena_wrappers.play import final_state, game_of, turn_states
from arena_wrappers.prompts import (
    PromptOptions,
    after_reasoning,
    find_reply_format,
    seat_options,
)

MAX_SHOWN = 20_000  # characters of a line that is no episode


class BadLine(NamedTuple):
    """A line that is no episode.

    Attributes:
        line: number of the line, from 1.
        reason: what is wrong with it.
        text: its beginning.
    """

    line: int
    reason: str
    text: str


class Recorded(NamedTuple):
    """An episode of a file.

    Attributes:
        line: number of its line, from 1.
        rollout: the episode, and the credit of its turns.
        source: name of the file in a page of several files; empty in other pages.
        moment: the source without the name of the run, in a comparison of runs; empty in
            other pages. Episodes of one start and moment are shown as one group.
    """

    line: int
    rollout: Rollout
    source: str = ""
    moment: str = ""


def read_lines(
    path: Path, first: int = 0, count: int | None = None
) -> Iterator[Recorded | BadLine]:
    """The lines of a file of episodes.

    Args:
        path: a file of JSON lines: `episodes.jsonl`, `rollouts/step-N.jsonl`, what a
            command wrote with `--out`, or `results.jsonl` of a tournament, whose first line
            is left out.
        first: first line of the file to read, from 0.
        count: number of lines to read, without that first line of a tournament; None for all.

    Raises:
        ValueError: there is no such file.
    """
    if not path.is_file():
        raise ValueError(
            f"want a file of episodes, found none at {str(path)!r}; give a file such as "
            "runs/first/episodes.jsonl"
        )
    with open(path, "rb") as file:
        lines = (
            (number, line)
            for number, line in enumerate(file, 1)
            if number > first and not line.startswith(HEADER)
        )
        for number, line in islice(lines, count):
            yield read_line(number, line)


def not_blank(lines: Iterable[Recorded | BadLine]) -> Iterator[Recorded | BadLine]:
    """The lines that hold more than white space."""
    return (line for line in lines if isinstance(line, Recorded) or line.text)


def count_lines(path: Path) -> int:
    """Number of the last line of a file that is not blank; 0 if all are."""
    with open(path, "rb") as file:
        return max((n for n, line in enumerate(file, 1) if line.strip()), default=0)


def read_line(number: int, line: bytes) -> Recorded | BadLine:
    """The episode of a line, which may be one of a tournament."""
    record = line
    if line.startswith(LINE):
        record = line.partition(EPISODE)[2].rstrip().removesuffix(b"}")
    try:
        return Recorded(number, rollout_of(record.decode("utf-8")))
    except ValueError as error:
        return BadLine(number, " ".join(str(error).split()), shown_text(line))


def shown_text(line: bytes) -> str:
    """The beginning of a line that cannot be read."""
    text = line[: 4 * MAX_SHOWN].decode("utf-8", "replace")[:MAX_SHOWN]
    return text.strip()


def outcome_of(episode: Episode) -> str:
    """The end of an episode, in a few words that many episodes share."""
    if episode.lost is not None:
        return "lost"
    if episode.forfeited_by is not None:
        return f"player_{episode.forfeited_by} forfeits"
    if episode.truncated:
        return "truncated"
    if not episode.terminated:
        return "not over"
    best = max(episode.returns, default=0.0)
    leading = [f"player_{seat}" for seat, r in enumerate(episode.returns) if r == best]
    if len(episode.returns) == 1:
        signs = "return 0", "return above 0", "return below 0"
        return signs[(best > 0) - (best < 0)]
    if len(leading) == len(episode.returns):
        return "equal returns"
    return f"{', '.join(leading)} ahead"


def seats_of(episode: Episode) -> range:
    """The seats of an episode; of a lost one, those up to the last that took a turn."""
    last = max((turn.seat for turn in episode.turns), default=-1)
    return range(max(len(episode.returns), last + 1))


def policies_of(episode: Episode) -> dict[int, str]:
    """The name of the policy of each seat that has taken a turn."""
    return {turn.seat: turn.policy for turn in reversed(episode.turns)}


def title_of(episode: Episode) -> str:
    """Game, parameters and seed."""
    params = ", ".join(f"{name}={value}" for name, value in episode.params.items())
    game = f"{episode.game} ({params})" if params else episode.game
    return f"{game}, seed {episode.seed}, sample {episode.sample}"


def parsed_part(episode: Episode, turn: Turn) -> tuple[int, int] | None:
    """The begin and end of the part of a reply that was read as the answer; None without."""
    try:
        options = seat_options(episode.prompt, turn.seat)
    except (ValueError, TypeError):
        return None
    return answer_span(turn.reply, options)


def answer_span(reply: str, options: PromptOptions) -> tuple[int, int] | None:
    """The begin and end of the answer in a reply, by the seat's prompt options.

    >>> answer_span("Hm. <answer>bet</answer>", PromptOptions())
    (12, 15)
    """
    rest = after_reasoning(reply)
    if isinstance(rest, InvalidReply):
        return None
    skipped = len(reply) - len(rest)
    reply_format = find_reply_format(options.reply_format)
    found = reply_format.answers(rest)
    if options.parsing == "strict":
        answer = reply_format.extract(rest)
        found = [] if isinstance(answer, InvalidReply) else [answer]
    elif not found and (answer := rest.strip()):
        start = skipped + rest.index(answer)
        return start, start + len(answer)
    if not found:
        return None
    opening = reply_format.wrap("\0").partition("\0")[0]
    start = skipped + rest.rindex(opening + found[-1]) + len(opening)
    return start, start + len(found[-1])


def episode_lines(recorded: Recorded, full: bool) -> Iterator[str]:
    """A recorded episode as lines of text.

    Args:
        recorded: the episode and its credit.
        full: whether to show whole prompts, or only the last message.
    """
    episode, credit = recorded.rollout
    yield f"--- line {recorded.line}: {printable(title_of(episode))}"
    if episode.parent is not None:
        yield f"branches from line {episode.parent + 1} before turn {episode.branch}"
    for turn, earned in zip(episode.turns, credit, strict=True):
        yield from turn_lines(turn, earned, full)
    yield end_line(episode)
    yield ""


def turn_lines(
    turn: Turn, earned: TurnCredit | None, full: bool, viewer: str = "all"
) -> Iterator[str]:
    """A turn with its prompt, reply, reward and credit as lines of text.

    Args:
        turn: the turn.
        earned: its credit.
        full: whether to show the whole prompt, or only the last message.
        viewer: who looks. An agent such as `"player_1"` reads its own prompts and replies only.
    """
    yield printable(f"player_{turn.seat} ({turn.policy}), turn {turn.index}")
    if is_hidden(turn, viewer):
        yield _indented("prompt", f"hidden from {viewer}")
        yield _indented("reply", f"hidden from {viewer}")
    else:
        for message in turn.messages if full else turn.messages[-1:]:
            label = message["role"] if full else "prompt"
            yield _indented(label, message["content"])
        for call in turn.generations:
            yield _indented(printable(call.role), call.text)
        yield _indented("reply", turn.reply)
        if turn.invalid is not None:
            yield _indented("invalid", f"{turn.invalid}: {turn.detail}")
    yield _indented("reward", _reward(turn, earned))
    if earned is not None:
        yield _indented("credit", _credit(earned))


def is_hidden(turn: Turn, viewer: str) -> bool:
    """Whether the prompt and reply of a turn are another seat's than the viewer's."""
    return viewer.startswith("player_") and viewer != f"player_{turn.seat}"


def end_line(episode: Episode) -> str:
    """The end of an episode, and its returns."""
    if episode.lost is not None:
        return f"lost, without returns: {printable(episode.lost)}"
    returns = (f"player_{i} {value:g}" for i, value in enumerate(episode.returns))
    parts = [f"returns: {', '.join(returns)}"]
    if episode.forfeited_by is not None:
        parts.append(f"player_{episode.forfeited_by} forfeits")
    if episode.truncated:
        parts.append("truncated")
    return "; ".join(parts)


def _reward(turn: Turn, earned: TurnCredit | None) -> str:
    """The reward that credit reads, with its parts; without credit, that of the episode."""
    paid, unpaid = turn.rewards, {}
    if earned is not None and (earned.rewards or earned.unpaid):
        paid, unpaid = dict(earned.rewards), dict(earned.unpaid)
    text = f"{sum(paid.values()):g}"
    if len(paid) > 1:
        text += f" ({_parts(paid)})"
    return text + (f"; not paid: {_parts(unpaid)}" if unpaid else "")


def _parts(rewards: Mapping[str, float]) -> str:
    return ", ".join(f"{printable(name)} {value:g}" for name, value in rewards.items())


def _credit(earned: TurnCredit) -> str:
    text = _advantage(earned.advantage)
    if earned.calls:
        text = "; ".join(
            f"call {i} {_advantage(a)}" for i, a in enumerate(earned.calls, 1)
        )
    if earned.weight != 1:
        text += f", weight {earned.weight:.3f}"
    pool = ", ".join(f"{name} {value}" for name, value in earned.pool.items())
    text += f" by {earned.estimator}; pool: {pool or 'all'}"
    if earned.pool_size is not None:
        text += f" ({earned.pool_size} values, mean {earned.pool_mean:.3f}, "
        text += f"std {earned.pool_std:.3f})"
    return text


def _advantage(advantage: float | Sequence[float]) -> str:
    if isinstance(advantage, Sequence):
        return "advantages per token " + " ".join(f"{a:+.3f}" for a in advantage)
    return f"advantage {advantage:+.3f}"


def _indented(label: str, text: str) -> str:
    """A labelled text with aligned lines, without control characters."""
    lines = [printable(line) for line in text.split("\n")]
    return f"  {label:<9} " + ("\n" + " " * 12).join(lines)


def printable(text: str) -> str:
    """`text` with its control characters escaped."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )


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
        said = Bubble(None, text, audience=f"player_{turn.seat}")
        scenes.append(
            [Scene("The prompt, since there is no replay.", [Talk("", [said])])]
        )
    end = Scene("The end of the record.", [])
    return Frames(["prompt"], [*scenes, [end]], fault)


# they need no columns but those of records
ESTIMATORS = ("random_effects", "mars", "mars_loo", "grpo", "dr_grpo", "rloo", "rae")

Estimates = dict[str, list[float | None] | str]


def estimates_of(recorded: Sequence[Recorded]) -> list[Estimates]:
    """The advantages of each episode's turns by each of `ESTIMATORS`, with default options.

    The episodes of a source are one batch. Training compared whole batches, of which a run
    stores a few groups: estimators whose pools are larger than a group give other values
    here than in training.

    Returns:
        For each episode, by name of the estimator: one advantage per turn, None for turns
        of policies without credit; or why the estimator refuses the episodes. Empty for
        episodes of a source without credit.
    """
    found: list[Estimates] = [{} for _ in recorded]
    sources: dict[str, list[int]] = {}
    for number, line in enumerate(recorded):
        sources.setdefault(line.source, []).append(number)
    for numbers in sources.values():
        members = [recorded[number] for number in numbers]
        policies = {
            turn.policy
            for line in members
            for turn, earned in zip(
                line.rollout.episode.turns, line.rollout.credit, strict=True
            )
            if earned is not None
        }
        for name in ESTIMATORS if policies else ():
            values = _estimate(members, name, policies)
            for place, number in enumerate(numbers):
                found[number][name] = (
                    values if isinstance(values, str) else values[place]
                )
    return found


def _estimate(
    members: Sequence[Recorded], name: str, policies: set[str]
) -> list[list[float | None]] | str:
    """The advantages by episode and turn, or why there are none."""
    episodes: list[Any] = [line.rollout.episode for line in members]
    try:
        with warnings.catch_warnings():
            # few stored groups have flat pools; zeros show it
            warnings.simplefilter("ignore", FlatPoolWarning)
            trajectories = credited(
                episodes, name, policies=policies, columns=None, within_turn="uniform"
            )
    except ValueError as error:
        return str(error)
    advantages = {
        id(one.turn): one.advantage
        for trajectory in trajectories
        for one in trajectory.turns
    }
    return [[advantages.get(id(turn)) for turn in e.turns] for e in episodes]


def value_lines(solved: Solved, place: int) -> list[str]:
    """The values at a turn as lines of text, largest first; the action played has a star."""
    moves = solved.turns[place]
    if moves is None:
        return [f"  values    none: {printable(solved.fault or '')}"]
    order = sorted(range(len(moves.values)), key=lambda i: -moves.values[i])
    texts = [
        f"{'*' if i == moves.played else ''}{printable(moves.actions[i])} "
        f"{moves.values[i]:+.4g}"
        for i in order
    ]
    lines = [f"  values    {', '.join(texts)}"]
    if moves.regret is not None:
        lines.append(f"  regret    {moves.regret:.4g}")
    return [*lines, f"{' ' * 12}expected returns if {solved.reference}"]


_DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
KEYS = {key: does for does, keys in _DATA["keys"].items() for key in keys}
HELP: str = _DATA["help"]


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
        self._remark, does = "", KEYS.get(key, "")
        turns = {"next": self.turn + 1, "back": self.turn - 1, "first": 0}
        turns |= {"last": self._last}
        self.turn = max(0, min(turns.get(does, self.turn), self._last))
        match does:
            case "quit":
                self.is_over = True
            case "next regret":
                self._seek([i for i in self._large_regrets() if i > self.turn], "later")
            case "previous regret":
                places = self._large_regrets()[::-1]
                self._seek([i for i in places if i < self.turn], "earlier")
            case "next episode":
                self._open(min(self.number + 1, len(self._lines) - 1))
            case "previous episode":
                self._open(max(self.number - 1, 0))
            case "viewer" if self._frames:
                self._viewer = (self._viewer + 1) % len(self._frames.viewers)

    def screen(self) -> str:
        """The screen of the terminal."""
        line = self._lines[self.number]
        where = f"[{self.number + 1} of {len(self._lines)}] line {line.line}"
        if isinstance(line, BadLine):
            return f"{where} is no episode: {printable(line.reason)}\n\n{HELP}"
        episode, credit = line.rollout
        frames = self._frames or frames_of(episode)
        viewer = frames.viewers[self._viewer % len(frames.viewers)]
        lines = [
            f"{where}: {printable(title_of(episode))}",
            f"turn {self.turn} of {self._last}, seen by {viewer}",
            "",
        ]
        if frames.fault:
            lines.insert(1, f"no replay: {printable(frames.fault)}")
        scenes = frames.scenes[self.turn]
        lines += [text_of(scenes[self._viewer % len(scenes)]), ""]
        if self.turn < self._last:
            turn, earned = episode.turns[self.turn], credit[self.turn]
            lines += turn_lines(turn, earned, self._full, viewer)
            if not is_hidden(turn, viewer):
                lines += value_lines(self._solved, self.turn)
        else:
            lines += [outcome_of(episode), end_line(episode)]
        remark = [self._remark] if self._remark else []
        return "\n".join([*lines, "", *remark, HELP])

    def _seek(self, places: Sequence[int], where: str) -> None:
        """Goes to the first of some turns with a large regret, or says that there is none."""
        if places:
            self.turn = places[0]
        else:
            self._remark = f"no {where} turn has a large regret"

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
        found = zip(turns, self._solved.turns, strict=True)
        return [
            number
            for number, (turn, moves) in enumerate(found)
            if moves and moves.is_large and not is_hidden(turn, viewer)
        ]
