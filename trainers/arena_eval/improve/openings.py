"""A proposer without a model: mean returns of first actions, written as rules of thumb."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from arena_envs.game import AnyGame, counted
from arena_eval.improve.proposers import Evidence
from arena_eval.improve.texts import MAX_TEXT
from arena_eval.improve.transcripts import PlayedEpisode
from arena_wrappers import turn_states

MIN_GAMES = 5  # least number of games with a first action
# characters of what the player reads; there are no rules for longer ones
MAX_SITUATION = 200


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


class OpeningsProposer:
    """Writes the best first actions of the played games: by situation, and by seat.

    Args:
        game: the rules.

    Raises:
        ValueError: the actions of the game are free text.
    """

    name = "openings"

    def __init__(self, game: AnyGame) -> None:
        if game.num_actions is None:
            raise ValueError(
                "want a game with a list of actions for the proposer openings, got a game of "
                "language; give a model as proposer, such as api:MODEL@URL"
            )
        self._game = game

    def propose(self, evidence: Evidence, num_texts: int, seed: int) -> list[str]:
        """Texts of different numbers of rules; fewer than asked if there are few rules."""
        by_situation, by_seat = _first_returns(self._game, evidence.played)
        rules = rules_of(by_situation)
        lists = [rules, rules_of(by_seat), rules[: max(1, len(rules) // 2)], rules[:1]]
        lists += [rules[:number] for number in range(len(rules) - 1, 1, -1)]
        texts = [_text_of(rule_list) for rule_list in lists if rule_list]
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
            f"characters, and by seat; a rule compares two actions with at least {MIN_GAMES} games "
            f"each, and the most here is {max(num_actions, default=0)}: give {todo}"
        )


ActionReturns = dict[str, dict[str, list[float]]]  # by situation and first action


def _first_returns(
    game: AnyGame, played: Iterable[PlayedEpisode]
) -> tuple[ActionReturns, ActionReturns]:
    """The returns after first actions, by situation and by seat."""
    by_situation: ActionReturns = defaultdict(lambda: defaultdict(list))
    by_seat: ActionReturns = defaultdict(lambda: defaultdict(list))
    for each in played:
        episode, seats = each.episode, each.seats
        states = turn_states(episode, game)
        for turn, state in zip(episode.turns, states, strict=True):
            if turn.index or turn.seat not in seats or turn.invalid is not None:
                continue
            action = game.action_text(state, turn.action)
            value = episode.returns[turn.seat]
            by_seat[f"You are player_{turn.seat}"][action].append(value)
            situation = " ".join(game.observe(state, turn.seat).split())
            if len(situation) <= MAX_SITUATION:
                by_situation[situation][action].append(value)
    return by_situation, by_seat


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


def _text_of(rules: Sequence[OpeningRule]) -> str:
    """As many rules as a text may hold."""
    lines = ["Rules of thumb for your first action, from games that were played:"]
    for rule in rules:
        if len("\n".join([*lines, str(rule)])) > MAX_TEXT:
            break
        lines.append(str(rule))
    return "\n".join(lines)
