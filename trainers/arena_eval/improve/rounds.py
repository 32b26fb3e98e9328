"""The rounds of improvement: play, propose, race, confirm.

The winner of a race looks better than it is, since it was selected for its result. So the winner
plays again, on seeds that no candidate has played. It is accepted if the interval of its paired
difference from the current text lies above 0. With R rounds and m opponents, each of these
intervals has level 1 - 0.05 / (R m). So with probability 0.95 every accepted text is better than the
text that it replaces. The difference and its ends are means over the opponents.

The opponent "past_selves" is a population that grows: the policy with each text that the run has kept so
far, the first and the current one among them.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

from arena_envs import GameEnv
from arena_envs.game import AnyGame, counted
from arena_eval.baselines import prepared
from arena_eval.improve.openings import OpeningsProposer
from arena_eval.improve.proposers import (
    Evidence,
    ModelProposer,
    Proposer,
    Tried,
    check_reads_prompts,
)
from arena_eval.improve.rows import STAGES, TEXT, ImproveRow, ImproveStage, RunRows
from arena_eval.improve.text_policy import check_shows_persona, with_text
from arena_eval.improve.texts import safe_text
from arena_eval.improve.transcripts import (
    PlayedEpisode,
    played_by,
    with_mistakes,
)
from arena_eval.intervals import LEVEL
from arena_eval.matches import (
    Evaluation,
    EvaluationPlan,
    Progress,
    checked_seats,
    env_of,
    seeds_of,
)
from arena_eval.move_values import MoveSolver
from arena_eval.spending import Budget, Prices, Spending, added, endpoints_of
from arena_eval.stopping import StopRule
from arena_wrappers import NoReplyError, Policy
from arena_wrappers.locks import lock_of
from arena_wrappers.policies.prompted import PromptPolicy
from arena_wrappers.records import EpisodeLog, params_of, write_whole

ERROR = 0.05  # probability of any wrong acceptance in a run

PAST_SELVES: Literal["past_selves"] = "past_selves"

Opponent = Policy | Literal["self", "past_selves"]


class CandidateDifference(NamedTuple):
    """Mean difference of a candidate from the current text, over seeds, seats and opponents."""

    difference: float
    low: float
    high: float
    num_seeds: int
    num_lost: int


class BudgetSpent(Exception):
    """The rest of the budget is too small for the step; its episodes so far are kept."""


class Improvement:
    """A run that improves a text.

    Args:
        policy: plays with the text in its prompts.
        game: id of a registered game, the rules, or an environment.
        opponents: each plays in all other seats, in games of its own. Without any: random play,
            and in cooperative games "self", with the text in the prompts of all seats.
            "past_selves" stands for the policy with each text that was kept so far.
        proposer: writes candidates.
        out: folder of the run. After an interruption the same arguments continue it.
        num_rounds: of play, proposals, race and confirmation.
        num_texts: candidates per round.
        num_episodes: most seeds for each of play, race and confirmation. Race and confirmation
            end early when their interval excludes 0.
        seats: in which the policy plays with the text; "all" for each in turn.
        seed: of the first episode.
        start: the text at the beginning; empty for none.
        prompt: arguments of the `PromptWrapper`, without `persona`.
        budget: of all endpoints, including the proposer's.
        timeout: longest call of a policy, in seconds.

    Attributes:
        text: the current text.
        has_spent_budget: whether the last run ended because its budget was spent.

    Raises:
        ValueError: a policy reads no prompts, an argument is out of range, or the folder holds a
            run with other settings.
        InUse: another process uses the folder.
    """

    def __init__(
        self,
        policy: Policy,
        game: AnyGame | GameEnv | str,
        opponents: Sequence[Policy | str],
        proposer: Proposer,
        *,
        out: Path,
        num_rounds: int = 5,
        num_texts: int = 4,
        num_episodes: int = 100,
        seats: Literal["all"] | Sequence[int] = "all",
        seed: int = 0,
        start: str = "",
        prompt: Mapping[str, Any] | None = None,
        budget: Budget | None = None,
        timeout: float | None = None,
    ) -> None:
        for name, number in (("num_rounds", num_rounds), ("num_texts", num_texts)):
            if number < 1:
                raise ValueError(f"want {name} of at least 1, got {number}")
        seeds_of(seed, num_episodes)
        self._env = env_of(game)
        self._policy = prepared(policy, self._env.game)
        check_reads_prompts(self._policy, "policy")
        self._player("", 0).check_game(self._env.game)
        self._prompt = dict(prompt or {})
        check_shows_persona(self._prompt.get("system"))
        self._seats = seats
        self._num_seats = len(checked_seats(self._env.game, seats))
        self._opponents = _checked_opponents(self._env.game, opponents)
        self._proposer, self._out = proposer, out
        self._num_rounds, self._num_texts = num_rounds, num_texts
        self._num_episodes, self._seed, self._timeout = num_episodes, seed, timeout
        self.budget = budget or Budget()
        self._watch_endpoints()
        self._start = self.text = safe_text(start)
        self.has_spent_budget = False
        self._solver = MoveSolver()
        self._lock = lock_of(out, is_folder=True)  # it ends with this object
        self._rows = RunRows(out, self.settings)
        for spending in self._rows.spent():
            self.budget.add_earlier(spending)
        self._spent = self.budget.spent()

    @property
    def settings(self) -> dict[str, Any]:
        """The settings in the first row of a run; a run can only continue with equal ones."""
        seats = {} if self._seats == "all" else {"seats": [*self._seats]}
        return {
            **seats,
            "policy": self._policy.name,
            "game": self._env.id or type(self._env.game).__name__,
            "params": params_of(self._env.game),
            "max_turns": self._env.max_turns,
            "opponents": [_name_of(opponent) for opponent in self._opponents],
            "proposer": self._proposer.name,
            "rounds": self._num_rounds,
            "candidates": self._num_texts,
            "episodes": self._num_episodes,
            "seed": self._seed,
            "start": self._start,
            "prompt": self._prompt,
        }

    @property
    def max_episodes(self) -> int:
        """The number of episodes of the run, if no stage ends early and every round keeps a text."""
        num_lineups = 0
        for number in range(1, self._num_rounds + 1):
            for opponent in self._opponents:
                num_selves = number if opponent == PAST_SELVES else 1
                num_lineups += num_selves * (
                    1 if opponent == "self" else self._num_seats
                )
        in_race = self._num_texts + 1  # the current text plays once
        return (1 + in_race + 2) * self._num_episodes * num_lineups

    def expected(self, prices: Prices | None) -> Spending:
        """An estimate by random play of what endpoints use for `max_episodes`, without proposals."""
        player = self._player(self.text, 0)
        self._past_texts = [(0, self.text)]
        opponents = self._opponents_now
        plans = [
            EvaluationPlan(
                player,
                self._env,
                [opponent],
                self._num_episodes,
                self._seats,
                prompt=self._prompt,
                baselines=False,
            )
            for opponent in opponents
        ]
        parts = [plan.expected(Budget(prices=prices))[1] for plan in plans]
        num_played = sum(
            (1 if opponent == "self" else self._num_seats) * self._num_episodes
            for opponent in opponents
        )
        return added(parts).times(self.max_episodes / num_played)

    def run(
        self,
        after_round: Callable[[], object] = lambda: None,
        progress: Progress = lambda done, total: None,
    ) -> list[ImproveRow]:
        """Plays all rounds that are not finished; the rows of the run.

        Args:
            after_round: called when a round ends, with all rows written.
            progress: called after each game with the numbers of games played by this call, and
                of all that the rounds may take.

        Raises:
            NoReplyError: a policy or the proposer gave no replies; the same arguments continue.
            OSError: a file cannot be written.
        """
        self._progress, self._num_played = progress, 0
        self._past_texts = []
        self._set_text(self._start, 0)
        self._tried: list[Tried] = []
        try:
            for number in range(1, self._num_rounds + 1):
                self._play_round(number)
                after_round()
        except BudgetSpent:
            self.has_spent_budget = True
        finally:
            # an unfinished step counts, too
            if self.budget.spent().num_calls > self._spent.num_calls:
                self._add_row("unfinished")
        return self._rows.rows

    def _play_round(self, number: int) -> None:
        current = self._player(self.text, self._text_number)
        proposals = self._rows.find("proposals", round=number)
        proposals = proposals or self._propose(number, current)
        first = (number - 1) * self._num_texts + 1
        races = [
            self._rows.find("race", round=number, number=index)
            or self._compare("race", number, current, text, index)
            for index, text in enumerate(proposals["texts"], first)
        ]
        best = max(races, key=lambda row: row["difference"], default=None)
        confirmation = None
        if best is not None and best["difference"] > 0:
            confirmation = self._rows.find("confirmation", round=number)
            confirmation = confirmation or self._compare(
                "confirmation", number, current, best["text"], best["number"]
            )
        for row in races:
            is_best = confirmation is not None and row is best
            self._tried.append(
                _tried(confirmation if is_best and confirmation else row)
            )
        if confirmation is not None and confirmation["is_accepted"]:
            self._set_text(confirmation["text"], confirmation["number"])

    def _propose(self, number: int, current: PromptPolicy) -> ImproveRow:
        """Plays with the current text, and records the texts of the proposer."""
        played = self._play(number, current)
        played = with_mistakes(played, self._env.game, self._solver)
        evidence = Evidence(self._env.game, self.text, played, self._tried)
        if isinstance(self._proposer, ModelProposer):
            each = self._proposer.expected(evidence, self._num_texts, self.budget)
            if self.budget.affordable(each) < 1:
                raise BudgetSpent
        proposals = self._proposer.propose(
            evidence, self._num_texts, self._first_seed(number, "play")
        )
        texts = dict.fromkeys(safe_text(text) for text in proposals)
        before = {"", self.text, *(tried.text for tried in self._tried)}
        new_texts = [text for text in texts if text not in before][: self._num_texts]
        reason = {} if new_texts else {"reason": self._why_none(evidence, proposals)}
        return self._add_row(
            "proposals",
            round=number,
            text=self.text,
            mean_return=fmean(each.mean_return for each in played),
            num_played=len(played),
            texts=new_texts,
            **reason,
        )

    def _why_none(self, evidence: Evidence, proposals: Sequence[str]) -> str:
        """What the proposer read and wrote in a round without a new text, and what to do."""
        if not proposals and isinstance(self._proposer, OpeningsProposer):
            return self._proposer.why_none(evidence)
        num_empty = sum(not safe_text(text) for text in proposals)
        return (
            f"read {counted(len(evidence.played), 'game')} and wrote "
            f"{counted(len(proposals), 'text')}, {num_empty} of them empty, the others tried "
            "before: give another --proposer, or end with fewer --rounds"
        )

    def _play(self, number: int, current: PromptPolicy) -> list[PlayedEpisode]:
        for opponent in self._opponents_now:
            self._evaluate("play", number, opponent, current)
        log = EpisodeLog(self._file(number, "play"))
        played = played_by(current.name, [*log])
        if not played:
            raise NoReplyError(f"all games of round {number} are lost")
        return played

    def _compare(
        self,
        stage: ImproveStage,
        number: int,
        current: PromptPolicy,
        text: str,
        index: int,
    ) -> ImproveRow:
        """The row of a candidate in a race or a confirmation."""
        candidate = self._player(text, index)
        error = ERROR / self._num_rounds if stage == "confirmation" else 1 - LEVEL
        opponents = self._opponents_now
        level = 1 - error / len(opponents)
        evaluations = [
            self._evaluate(stage, number, opponent, candidate, current, level)
            for opponent in opponents
        ]
        difference = _mean_difference(evaluations)
        values = {**difference._asdict(), "level": 1 - error}
        if stage == "confirmation":
            if difference.num_lost:
                raise NoReplyError(
                    f"{difference.num_lost} games are lost on which text {index} should be accepted"
                )
            values["is_accepted"] = difference.low > 0
        return self._add_row(stage, round=number, number=index, text=text, **values)

    def _evaluate(
        self,
        stage: ImproveStage,
        number: int,
        opponent: Policy | Literal["self"],
        player: PromptPolicy,
        base: PromptPolicy | None = None,
        level: float = LEVEL,
    ) -> Evaluation:
        """Plays a stage of a round against one opponent; the current text plays each seed once.

        No results are written, so that the file of episodes stays an unfinished evaluation: the next
        candidate, and the same command after an interruption, reuse its episodes.
        """
        others = [] if opponent == "self" else [opponent]
        is_limited = self.budget.is_limited and bool(endpoints_of([player, *others]))
        budget = self.budget if is_limited else Budget()
        plan = EvaluationPlan(
            player,
            self._env,
            [opponent],
            self._num_episodes,
            self._seats,
            base=base,
            seed=self._first_seed(number, stage),
            prompt=self._prompt,
            baselines=False,
            values=None if base is None else "auto",
            out=self._file(number, stage),
            timeout=self._timeout,
            stop=StopRule(None, base is not None, budget, level),
        )
        if is_limited:
            try:
                plan.expected(budget)
            except ValueError as error:  # the budget is too small for one seed
                raise BudgetSpent from error
        num_before, total = self._num_played, self.max_episodes
        evaluation = plan.run(
            lambda done, _: self._progress(num_before + done, total), write=False
        )
        self._num_played += plan.num_episodes
        if plan.has_spent_budget:
            raise BudgetSpent
        return evaluation

    def _first_seed(self, number: int, stage: ImproveStage) -> int:
        """The first seed of a stage; stages share no seeds."""
        stages_before = (number - 1) * len(STAGES) + STAGES.index(stage)
        return self._seed + stages_before * self._num_episodes

    def _file(self, number: int, stage: ImproveStage) -> Path:
        folder = self._out / f"round-{number:02}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{stage}.jsonl"

    def _player(self, text: str, index: int) -> PromptPolicy:
        return with_text(self._policy, text, f"{self._policy.name}, text {index}")

    @property
    def _opponents_now(self) -> list[Policy | Literal["self"]]:
        """The opponents of this round, each past self for itself."""
        opponents: list[Policy | Literal["self"]] = []
        for opponent in self._opponents:
            if opponent != PAST_SELVES:
                opponents.append(opponent)
                continue
            for index, text in self._past_texts:
                # episodes tell it from the player with the same text by its name
                name = f"{self._policy.name}, past text {index}"
                opponents.append(with_text(self._policy, text, name))
        return opponents

    def _set_text(self, text: str, index: int) -> None:
        self.text, self._text_number = text, index
        self._past_texts.append((index, text))
        write_whole(self._out / TEXT, text + "\n" if text else "")

    def _add_row(self, kind: str, **values: Any) -> ImproveRow:
        spent = self.budget.spent()
        row = self._rows.add(kind, spent.minus(self._spent), **values)
        self._spent = spent
        return row

    def _watch_endpoints(self) -> None:
        players = [each for each in self._opponents if not isinstance(each, str)]
        if isinstance(self._proposer, ModelProposer):
            players.append(self._proposer.policy)
        self.budget.watch([self._policy, *players])


def _checked_opponents(
    game: AnyGame, opponents: Sequence[Policy | str]
) -> list[Opponent]:
    is_cooperative = game.kind == "cooperative" and game.num_players > 1
    if "self" in opponents and not is_cooperative:
        raise ValueError(
            "want an opponent other than self, as both sides would read the text and nothing "
            "would tell whether it is better; give --against past_selves, or a policy"
        )
    default: Policy | str = "self" if is_cooperative else "random"
    used = opponents or [default]
    if PAST_SELVES in used and game.num_players == 1:
        raise ValueError(
            "want no past_selves in a game of one seat, which has no opponents; leave --against out"
        )
    checked: list[Opponent] = []
    for opponent in used if game.num_players > 1 else used[:1]:
        if opponent == "self":
            checked.append("self")
        elif opponent == PAST_SELVES:
            checked.append(PAST_SELVES)
        else:
            checked.append(prepared(opponent, game))
    return checked


def _name_of(opponent: Opponent) -> str:
    return opponent if isinstance(opponent, str) else opponent.name


def _mean_difference(evaluations: Sequence[Evaluation]) -> CandidateDifference:
    """The mean over opponents, with the luck taken out where that helps."""
    differences = [
        each for evaluation in evaluations for each in evaluation.differences
    ]
    means = [
        each.difference if each.adjusted is None else each.adjusted.mean
        for each in differences
    ]
    ends = [
        (each.low, each.high)
        if each.adjusted is None
        else (each.adjusted.low, each.adjusted.high)
        for each in differences
    ]
    return CandidateDifference(
        fmean(means),
        fmean(low for low, _ in ends),
        fmean(high for _, high in ends),
        sum(each.num_seeds for each in differences),
        sum(
            row.num_lost
            for evaluation in evaluations
            for row in evaluation.rows
            if row.seat != "all"
        ),
    )


def _tried(row: Mapping[str, Any]) -> Tried:
    is_accepted = bool(row.get("is_accepted"))
    return Tried(row["text"], row["difference"], row["low"], row["high"], is_accepted)
