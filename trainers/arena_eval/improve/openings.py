"""A proposer without a model: mean returns of first actions, written as rules of thumb.

In games of language an action includes a message. There rules are about moves without their messages, and
about single words of the first message.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from arena_envs.game import AnyGame, AnyState, IllegalAction, counted
from arena_envs.talk import Utterance
from arena_eval.improve.proposers import Evidence
from arena_eval.improve.texts import MAX_TEXT
from arena_eval.improve.transcripts import PlayedEpisode
from arena_wrappers import turn_states

MIN_GAMES = 5  # least number of games with a first action
MAX_SITUATION = 200  # characters of an observation; longer ones get no rules
MAX_WORD_RULES = 5
_WORD = re.compile(r"[a-z]{3,20}")


class OpeningRule(NamedTuple):
    """The best first action in a situation.

    Attributes:
        situation: what the player reads, in one line, or its seat.
        action: the action with the largest mean return.
        mean: this mean return.
        num_games: games that began with it.
        gap: the mean minus the mean return of all other first actions.
    """

    situation: str
    action: str
    mean: float
    num_games: int
    gap: float

    def __str__(self) -> str:
        return (
            f'- If you read "{self.situation}": begin with {self.action} '
            f"(mean return {self.mean:.2f} in {self.num_games} games)."
        )


class WordRule(NamedTuple):
    """A word with which first messages have a higher mean return than without it.

    Attributes:
        seat: who speaks.
        word: in lower case.
        mean: mean return of the games whose first message has it.
        num_games: these games.
        gap: the mean minus the mean return of the seat's other games.
    """

    seat: int
    word: str
    mean: float
    num_games: int
    gap: float

    def __str__(self) -> str:
        return (
            f'- As player_{self.seat}, say "{self.word}" in your first message (mean return '
            f"{self.mean:.2f} in {self.num_games} games, {self.mean - self.gap:.2f} without it)."
        )


Rule = OpeningRule | WordRule


class OpeningsProposer:
    """Writes the best first actions of the played games: by situation, by seat, and by word.

    Args:
        game: the rules.
    """

    name = "openings"

    def __init__(self, game: AnyGame) -> None:
        self._game = game

    def propose(self, evidence: Evidence, num_texts: int, seed: int) -> list[str]:
        """Texts of different numbers of rules; fewer than asked if there are few rules."""
        by_situation, by_seat = _first_returns(self._game, evidence.played)
        rules, seat_rules = rules_of(by_situation), rules_of(by_seat)
        words = word_rules_of(_messages(self._game, evidence.played))
        rule_lists: list[Sequence[Rule]] = [
            [*rules, *words],
            [*seat_rules, *words],
            rules,
            seat_rules,
            words[:1],
            rules[: max(1, len(rules) // 2)],
            rules[:1],
        ]
        rule_lists += [rules[:number] for number in range(len(rules) - 1, 1, -1)]
        texts = [_text_of(rule_list) for rule_list in rule_lists if rule_list]
        return [*dict.fromkeys(texts)][:num_texts]

    def why_none(self, evidence: Evidence) -> str:
        """What was read where there are no rules, and what to do."""
        by_situation, by_seat = _first_returns(self._game, evidence.played)
        num_actions = [
            sum(len(values) >= MIN_GAMES for values in by_action.values())
            for by_action in (*by_situation.values(), *by_seat.values())
        ]
        games = counted(len(evidence.played), "game")
        situations = counted(len(by_situation), "situation")
        todo = (
            "more games (-n), a policy that varies its first actions (--sampling temperature=1), or a model as "
            "--proposer"
        )
        return (
            f"read the first actions of {games} in {situations} of at most {MAX_SITUATION} "
            f"characters, and by seat; a rule compares two actions or words with at least "
            f"{MIN_GAMES} games each, and the most actions here are {max(num_actions, default=0)}: "
            f"give {todo}"
        )


ActionReturns = dict[str, dict[str, list[float]]]  # by situation and first action


class FirstTurn(NamedTuple):
    """A seat's first action of a game.

    Attributes:
        seat: who acted.
        state: before it.
        action: as the rules have it.
        value: the seat's return.
    """

    seat: int
    state: AnyState
    action: Any
    value: float


def _first_turns(game: AnyGame, played: Iterable[PlayedEpisode]) -> Iterator[FirstTurn]:
    for each in played:
        episode, seats = each.episode, each.seats
        states = turn_states(episode, game)
        for turn, state in zip(episode.turns, states, strict=True):
            if turn.index or turn.seat not in seats or turn.invalid is not None:
                continue
            action = turn.action
            if game.num_actions is None:  # a record has its text
                action = game.parse(state, action)
            yield FirstTurn(turn.seat, state, action, episode.returns[turn.seat])


def _first_returns(
    game: AnyGame, played: Iterable[PlayedEpisode]
) -> tuple[ActionReturns, ActionReturns]:
    """The returns after first actions, by situation and by seat."""
    by_situation: ActionReturns = defaultdict(lambda: defaultdict(list))
    by_seat: ActionReturns = defaultdict(lambda: defaultdict(list))
    for seat, state, action, value in _first_turns(game, played):
        text = _move_text(game, state, action)
        if text is None:
            continue
        by_seat[f"You are player_{seat}"][text].append(value)
        situation = " ".join(game.observe(state, seat).split())
        if len(situation) <= MAX_SITUATION:
            by_situation[situation][text].append(value)
    return by_situation, by_seat


def _move_text(game: AnyGame, state: AnyState, action: Any) -> str | None:
    """The text of an action, without its message; None where the message is the move."""
    if game.num_actions is None:
        if not isinstance(action, Utterance):
            return None
        action = action._replace(message="")
    text: str = game.action_text(state, action)
    if game.num_actions is None:
        try:
            game.parse(state, text)
        except IllegalAction:
            return None
    return text


SeatMessages = dict[int, list[tuple[frozenset[str], float]]]


def _messages(game: AnyGame, played: Iterable[PlayedEpisode]) -> SeatMessages:
    """The words of each first message and its return, by seat, in games of language."""
    messages: SeatMessages = defaultdict(list)
    if game.num_actions is not None:
        return messages
    for seat, _, action, value in _first_turns(game, played):
        text = action.message if isinstance(action, Utterance) else str(action)
        words = frozenset(_WORD.findall(text[:MAX_TEXT].lower()))
        messages[seat].append((words, value))
    return messages


def word_rules_of(
    messages: Mapping[int, Sequence[tuple[frozenset[str], float]]],
) -> list[WordRule]:
    """The words with the largest gaps above 0; at most `MAX_WORD_RULES`.

    >>> word_rules_of({0: [(frozenset(["fair"]), 1.0)] * 5 + [(frozenset(), 0.0)] * 5})[0].word
    'fair'
    """
    rules = []
    for seat, of_seat in messages.items():
        for word in sorted(frozenset[str]().union(*(words for words, _ in of_seat))):
            with_it = [value for words, value in of_seat if word in words]
            without = [value for words, value in of_seat if word not in words]
            if min(len(with_it), len(without)) < MIN_GAMES:
                continue
            mean = fmean(with_it)
            gap = mean - fmean(without)
            if gap > 0:
                rules.append(WordRule(seat, word, mean, len(with_it), gap))
    rules.sort(key=lambda rule: (-rule.gap, rule.seat, rule.word))
    return rules[:MAX_WORD_RULES]


def rules_of(returns: Mapping[str, Mapping[str, Sequence[float]]]) -> list[OpeningRule]:
    """A rule for each situation with several first actions, the largest gap first.

    >>> rules_of({"hold K": {"bet": [1.0] * 5, "pass": [0.0] * 5, "fold": [9.0]}})[0].action
    'bet'
    """
    rules = []
    for situation, by_action in returns.items():
        known = {
            action: values
            for action, values in by_action.items()
            if len(values) >= MIN_GAMES
        }
        if len(known) < 2:
            continue
        best = max(known, key=lambda action: (fmean(known[action]), action))
        others = [x for action in known if action != best for x in known[action]]
        mean = fmean(known[best])
        gap = mean - fmean(others)
        rules.append(OpeningRule(situation, best, mean, len(known[best]), gap))
    return sorted(rules, key=lambda rule: (-rule.gap, rule.situation))


def _text_of(rules: Sequence[Rule]) -> str:
    """As many rules as a text may hold."""
    lines = ["Rules of thumb for your first action, from games that were played:"]
    for rule in rules:
        if len("\n".join([*lines, str(rule)])) > MAX_TEXT:
            break
        lines.append(str(rule))
    return "\n".join(lines)
