"""`play_tournament`: all policies against each other, in every seat of every game."""

import json
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from arena_envs import GameEnv
from arena_envs.game import AnyGame
from arena_trainers.evaluate.baselines import prepared
from arena_trainers.evaluate.exploit import given_prompts, nash_convs
from arena_trainers.evaluate.matches import Progress, env_of, seeds_of
from arena_trainers.evaluate.result_rows import ReplyCount
from arena_trainers.extras import import_extra
from arena_trainers.tournament.log import Match, Result, TournamentLog, result_of
from arena_trainers.tournament.summary import (
    Tournament,
    lineups_of,
    meets_itself,
    summarise,
)
from arena_wrappers import (
    EpisodePlan,
    NoReplyError,
    Policy,
    PromptOptions,
    PromptWrapper,
    make_policy,
    stream_plans,
)
from arena_wrappers.play import checked_timeout, tell_people
from arena_wrappers.policies import without_noise
from arena_wrappers.records import Episode, params_of

CHUNK = 256  # episodes in flight


def play_tournament(
    policies: Sequence[Policy | str],
    games: Sequence[AnyGame | GameEnv | str],
    num_episodes: int = 50,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> Tournament:
    """Plays a round robin and sums it up; warns of policies with mostly invalid replies.

    Args:
        policies: at least two, with different names.
        games: ids, rules or environments, each of at least two players.
        num_episodes: episodes per lineup.
        progress: called after each episode with the numbers of episodes done and in all.
        **options: further arguments of `TournamentPlan`: seed, self_pairs, prompt, ...

    Raises:
        ValueError: as for `TournamentPlan`; before any episode is played.
        OSError: an episode could not be written; earlier ones stay readable.
        NoReplyError: a policy gave no reply in some episodes: an exception, a timeout, or a
            server that fails. They are not kept, so that the next call with the same `out` plays them again.

    >>> found = play_tournament(["first", "random"], ["tic_tac_toe"], 10)
    >>> found.games[0].payoffs[0][1].mean == -found.games[0].payoffs[1][0].mean
    True
    """
    plan = TournamentPlan(policies, games, num_episodes, **options)
    found = plan.run(progress)
    for text in found.warnings:
        warnings.warn(text, stacklevel=2)
    return found


class TournamentPlan:
    """A tournament with checked arguments, ready to run.

    With two seats, each pair of policies meets in both orders. With more, each policy plays
    each seat in turn, and another policy plays all other seats. All lineups of a game play
    the same seeds. An invalid reply forfeits the episode, and the tournament goes on. While
    an episode is lost because a policy gave no reply, nothing is rated (`NoReplyError`).
    A policy reads prompts by the options that it carries (`Policy`).

    Args:
        policies: at least two, with different names.
        games: ids, rules or environments, each of at least two players.
        num_episodes: episodes per lineup.
        seed: seeds are `seed .. seed + num_episodes - 1`.
        self_pairs: whether self-play is included; always on in cooperative games.
        prompt: arguments of the `PromptWrapper`; they override the options of policies.
        timeout: longest call of a policy, in seconds, see `play`.
        out: file to which each finished episode is appended. Episodes of this tournament
            that it already holds are not played again.

    Attributes:
        num_episodes: episodes of the whole tournament.

    Raises:
        ValueError: unknown policy or game, a number out of range, or a file of another
            tournament.
        ModuleNotFoundError: scipy or openskill is missing.
    """

    def __init__(
        self,
        policies: Sequence[Policy | str],
        games: Sequence[AnyGame | GameEnv | str],
        num_episodes: int = 50,
        *,
        seed: int = 0,
        self_pairs: bool = False,
        prompt: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        out: str | Path | None = None,
    ) -> None:
        for module in ("scipy.optimize", "openskill.models"):
            import_extra(module, "eval")  # fails before hours of play
        self._seeds = seeds_of(seed, num_episodes)
        made = [make_policy(p) if isinstance(p, str) else p for p in policies]
        self.policies = {policy.name: policy for policy in made}
        _want_different("policies", [policy.name for policy in made], at_least=2)
        self._self_pairs, self._timeout = self_pairs, checked_timeout(timeout)
        self._given = dict(prompt or {})
        options = {"on_invalid": "forfeit", **self._given}
        wrappers = [PromptWrapper(env_of(game), **options) for game in games]
        labels = [wrapper.env.id or repr(wrapper.env.game) for wrapper in wrappers]
        _want_different("games", labels, at_least=1)
        self._wrappers = dict(zip(labels, wrappers, strict=True))
        for wrapper in wrappers:
            self._check(wrapper.env.game)
        self._done: dict[Match, Result] = {}
        self._replies = ReplyCount()
        self._lost: list[Episode] = []
        self._log: TournamentLog | None = None
        if out is not None:
            self._log = TournamentLog(out, self._settings(), self._replies.add)
            self._done = self._log.done
        self._matches = {label: self._matches_of(label) for label in labels}
        self.num_episodes = sum(map(len, self._matches.values()))
        planned = {match for matches in self._matches.values() for match in matches}
        for other in sorted(self._done.keys() - planned)[:1]:
            told = f"{out} holds {other}, which is no match of this tournament"
            raise ValueError(f"{told}; give a new file")

    def run(self, progress: Progress | None = None) -> Tournament:
        """Plays the missing episodes; raises as `play_tournament` does."""
        self._lost = []
        for label, matches in self._matches.items():
            self._play(label, [m for m in matches if m not in self._done], progress)
        if self._lost:
            count = Counter(
                (e.turns[-1].policy, e.turns[-1].invalid) for e in self._lost
            )
            told = ", ".join(
                f"{who} {kind} {n}" for (who, kind), n in sorted(count.items())
            )
            raise NoReplyError(
                f"{len(self._lost)} of {self.num_episodes} episodes were lost ({told}): "
                f"{self._lost[0].lost}"
            )
        games = {label: w.env.game for label, w in self._wrappers.items()}
        names, players = list(self.policies), list(self.policies.values())
        found = summarise(names, self._seeds, games, self._done, self._self_pairs)
        measured = tuple(
            replace(one, nash_conv=nash_convs(players, wrapper.env, self._given))
            for wrapper, one in zip(self._wrappers.values(), found.games, strict=True)
        )
        return replace(found, games=measured, warnings=self._replies.warnings())

    def _play(
        self, label: str, matches: Sequence[Match], progress: Progress | None
    ) -> None:
        make = self._wrappers[label].clone
        lineups = [[self.policies[name] for name in m.lineup] for m in matches]
        plans = [
            EpisodePlan(make, lineup, m.seed, prompts=self._prompts(lineup))
            for m, lineup in zip(matches, lineups, strict=True)
        ]
        for index, episode in stream_plans(
            plans, batch_size=CHUNK, timeout=self._timeout
        ):
            tell_people(episode, self._wrappers[label].env.game, lineups[index])
            if episode.lost is not None:
                self._lost.append(episode)
            elif self._log is not None:
                self._log.append(matches[index], episode)
            else:
                self._done[matches[index]] = result_of(episode)
                self._replies.add(episode)
            if progress is not None:
                progress(len(self._done), self.num_episodes)

    def _prompts(self, lineup: Sequence[Policy]) -> list[PromptOptions | None]:
        return given_prompts(lineup, self._given)

    def _matches_of(self, label: str) -> list[Match]:
        game, names = self._wrappers[label].env.game, list(self.policies)
        lineups = lineups_of(
            len(names), game.num_players, meets_itself(game, self._self_pairs)
        )
        return [
            Match(label, tuple(names[index] for index in lineup), seed)
            for seed in self._seeds
            for lineup in lineups
        ]

    def _check(self, game: AnyGame) -> None:
        if game.num_players < 2:
            raise ValueError(f"want games of at least 2 players, got {game!r}")
        for policy in self.policies.values():
            prepared(policy, game)

    def _settings(self) -> dict[str, Any]:
        """All that episodes depend on; the file of another tournament has other settings."""
        return {
            "policies": list(self.policies),
            "games": [
                {
                    "game": label,
                    "params": params_of(wrapper.env.game),
                    "max_turns": wrapper.env.max_turns,
                }
                for label, wrapper in self._wrappers.items()
            ],
            "num_episodes": len(self._seeds),
            "seed": self._seeds.start,
            "self_pairs": self._self_pairs,
            "prompt": next(iter(self._wrappers.values())).prompt_options,
            "own_prompts": {
                name: asdict(own)
                for name, policy in self.policies.items()
                for own in self._prompts([policy])
                if own is not None
            },
            "models": {
                name: json.loads(inner.prompt_json())
                for name, policy in self.policies.items()
                for inner in [without_noise(policy)]
                if hasattr(inner, "prompt_json")
            },
        }


def _want_different(what: str, names: Sequence[str], at_least: int) -> None:
    if len(names) < at_least:
        raise ValueError(f"want at least {at_least} {what}, got {len(names)}")
    for name, count in Counter(names).items():
        if count > 1:
            raise ValueError(f"want different {what}, got {name!r} {count} times")
