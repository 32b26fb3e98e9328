"""The games of a run: entries of `games`, plans with their seats, opponents, and starts.

An entry that names `knobs` or a `ladder` becomes one game for each value of them, and each
opponent. A matchmaker assigns the seats of games without `opponents` of their own; a curriculum
chooses among the games.

This module imports neither TRL nor torch.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from arena_envs.registration import make
from arena_eval.baselines import prepared
from arena_trainers.curricula import Curriculum, curricula
from arena_trainers.curricula.testing import try_step as try_curriculum
from arena_trainers.engines import by_server
from arena_trainers.lm import best_of
from arena_trainers.lm.models import prompt_folder
from arena_trainers.lm.prompt_file import read_prompt_file
from arena_trainers.matchmaking import Matchmaker
from arena_trainers.matchmaking.by_name import (
    assigns_seats,
    matchmaker_for,
    names_matchmaker,
)
from arena_trainers.matchmaking.protocol import SELF, missing_snapshot
from arena_trainers.matchmaking.testing import try_step as try_matchmaker
from arena_trainers.processes import splits_weights
from arena_trainers.train.game_entries import check_opponents, checked_entry
from arena_trainers.train.settings import SelfPlay
from arena_trainers.trial import trial
from arena_wrappers import Policy, PromptWrapper, make_policy
from arena_wrappers.play import EnvFn
from arena_wrappers.policies import PolicyMaker

if TYPE_CHECKING:
    from datasets import Dataset

    from arena_trainers.lm.policy import LMPolicy
    from arena_trainers.train.config import TurnGRPOConfig


class GamePlan:
    """A game of the trainer: its environments, and who plays each seat.

    Args:
        spec: an id, or a dict of id, params, max_turns, weight and opponents.
        args: the trainer's settings.

    Attributes:
        id: the id.
        params: the parameters that were given.
        max_turns: after how many turns episodes are truncated, if that was given.
        weight: how often the game starts, relative to the others.
        name: the id, with the parameters and the limit of turns that were given.
        task: the name, with `opponent` if there is one.
        game: the rules.
        has_own: whether the game names opponents of its own.
        opponent: the policy of all seats but one, which is drawn for each start and learns; None
            if the game has no single opponent of its own.
        seats: who plays each seat; None if they are assigned for each start.
        learners: which seats learn, in some starts at least.
        lineups: who plays each seat, if the learner faces the same policies in all starts; one
            line-up, or one for each seat where the seat that learns is drawn. Else none.
        wrapper: the environment with its prompts.
        env_fn: makes an environment of the game; all of them share `game`.

    Raises:
        ValueError: a key, the game, a parameter or a policy is unknown, or no seat learns.
    """

    def __init__(self, spec: str | Mapping[str, Any], args: SelfPlay) -> None:
        entry = checked_entry(spec)
        self.id: str = entry["id"]
        self.params: dict[str, Any] = entry.get("params", {})
        self.max_turns: int | None = entry.get("max_turns")
        self.weight: float = entry.get("weight", 1.0)
        limit = {} if self.max_turns is None else {"max_turns": self.max_turns}
        parameters = sorted({**self.params, **limit}.items())
        description = ", ".join(f"{name}={value}" for name, value in parameters)
        self.name = f"{self.id}({description})" if description else self.id
        env = make(self.id, max_turns=self.max_turns, **self.params)
        self.game = env.game
        num_players = self.game.num_players
        self.seats: list[str] | None = None
        self.has_own = "opponents" in entry
        opponents = entry.get("opponents", args.opponents)
        self.opponent = _single_opponent(opponents) if self.has_own else None
        self.task = (
            f"{self.name} against {self.opponent}" if self.opponent else self.name
        )
        if self.opponent is not None:
            _check_duel(self.opponent, self.id, num_players)
        elif self.has_own or not assigns_seats(args.opponents):
            self.seats = _checked_seats(opponents, self.id, num_players)
        self.learners = [
            policy == SELF for policy in self.seats or [SELF] * num_players
        ]
        self.lineups = _lineups(self.seats, opponents, num_players)
        # one function for all episodes, so that they share their caches
        self.wrapper = PromptWrapper(env, **args.prompt_options)
        self.env_fn: EnvFn = self.wrapper.clone
        self._prompt_options = args.prompt_options
        self._cut: dict[int, EnvFn] = {}

    @property
    def is_matched(self) -> bool:
        """Whether the run's matchmaker assigns the seats."""
        return self.seats is None and self.opponent is None

    def env_of(self, max_turns: int | None) -> EnvFn:
        """Makes environments that truncate episodes after `max_turns` or earlier."""
        if max_turns is None or (self.max_turns or math.inf) <= max_turns:
            return self.env_fn
        if max_turns not in self._cut:
            env = make(self.id, max_turns=max_turns, **self.params)
            self._cut[max_turns] = PromptWrapper(env, **self._prompt_options).clone
        return self._cut[max_turns]


def _single_opponent(opponents: Any) -> str | None:
    """The policy if a game's `opponents` name a single one, for all seats but the learner's; else None."""
    is_policy = isinstance(opponents, str) and opponents != SELF
    return opponents if is_policy and not names_matchmaker(opponents) else None


def _check_duel(opponent: str, id: str, num_players: int) -> None:
    if num_players == 1:
        raise ValueError(
            f"want a game of several seats for the opponent {opponent!r}, got {id}; leave the opponent out"
        )


def _lineups(
    seats: list[str] | None, opponents: Any, num_players: int
) -> list[list[str]]:
    """The fixed line-ups that a learner faces, see `GamePlan`."""
    if seats is not None:
        return [] if {*seats} == {SELF} else [seats]
    if names_matchmaker(opponents):
        return []
    lineups = []
    for learner_seat in range(num_players):
        lineup = [opponents] * num_players
        lineup[learner_seat] = SELF
        lineups.append(lineup)
    return lineups


def numbered_names(plans: Sequence[GamePlan]) -> list[str]:
    """The task of each game; a repeated one gets a number: `kuhn_poker`, `kuhn_poker #2`."""
    names: list[str] = []
    for number, plan in enumerate(plans):
        before = [earlier.task for earlier in plans[:number]].count(plan.task)
        names.append(f"{plan.task} #{before + 1}" if before else plan.task)
    return names


def different_games(plans: Sequence[GamePlan]) -> list[GamePlan]:
    """One plan of each name: the first one listed, but the last one of a ladder."""
    plan_by_name: dict[str, GamePlan] = {}
    for plan in plans:
        first = plan_by_name.setdefault(plan.name, plan)
        if first.opponent is not None and plan.opponent is not None:
            plan_by_name[plan.name] = plan
    return list(plan_by_name.values())


def check_used(args: SelfPlay, plans: Sequence[GamePlan]) -> None:
    """Raises ValueError if `opponents` is given and all games have opponents of their own."""
    if args.opponents != "self" and all(plan.has_own for plan in plans):
        ids = ",".join(dict.fromkeys(plan.id for plan in plans))
        raise ValueError(
            "want a game without opponents of its own for opponents "
            f"{args.opponents!r}, got none; leave opponents out, or give the games "
            f"anew: --games {ids}"
        )


def _checked_seats(opponents: Any, id: str, num_players: int) -> list[str]:
    """The policy string of each seat.

    Raises:
        ValueError: a wrong number of seats, or no seat that learns.
    """
    check_opponents(opponents)
    if names_matchmaker(opponents):
        raise ValueError(
            f"want opponents of {id} as a policy string or a list, got {opponents!r}; give a "
            "matchmaker to the whole run, such as --opponents past_selves"
        )
    seats = [opponents] * num_players if isinstance(opponents, str) else list(opponents)
    if len(seats) != num_players:
        raise ValueError(
            f"{id} has {num_players} seats, opponents names {len(seats)}; name one for "
            "each seat, or one string for all"
        )
    if "self" not in seats:
        raise ValueError(
            f"want a seat of {id} that learns, got opponents {opponents!r}; write 'self' for "
            "it in a list, such as [self, random], or give one policy to the whole "
            "run, such as --opponents random"
        )
    return seats


def opponents(
    plans: Sequence[GamePlan],
    args: "TurnGRPOConfig",
    policies: Mapping[str, Policy],
    matchmaker: Matchmaker | None = None,
) -> dict[str, Policy]:
    """The policies of the seats that do not learn, by policy string; without snapshots.

    Args:
        plans: the games.
        args: settings. A language model has the prompt and sampling options of its
            `arena_prompt.json`; without that file, those of the learner.
        policies: policies by string; `make_policy` makes the others.
        matchmaker: assigns the seats of the games without `seats`.

    Raises:
        ValueError: a string names no policy, a bot cannot play a game, or a model's chat
            template cannot show its earlier replies.
    """
    makers = makers_of(args)
    policy_by_spec = dict(policies)
    assigned = () if matchmaker is None else matchmaker.policies
    for plan in plans:
        specs = plan.seats if plan.opponent is None else [plan.opponent]
        for spec in assigned if specs is None else specs:
            if spec == "self":
                continue
            if spec not in policy_by_spec:
                policy_by_spec[spec] = make_policy(spec, makers)
            prepared(policy_by_spec[spec], plan.game)
    return policy_by_spec


def makers_of(args: "TurnGRPOConfig") -> dict[str, PolicyMaker]:
    """The functions for `make_policy` that load models as the settings say."""
    from arena_trainers.lm.policy import LMPolicy

    def load(path: str) -> Policy:
        # a prompt file says how its model samples; without one it samples as the learner
        if read_prompt_file(prompt_folder(path)):
            sampling: dict[str, Any] = {"batch_size": args.rollout_batch_size}
        else:
            # the marks of reasoning are those of the model that learns
            sampling = {**args.sampling_options, "reasoning_marks": None}
        policy = LMPolicy.from_pretrained(path, device=args.device, **sampling)
        check_replies(args, policy)
        return policy

    return {"lm": load, "best_of": partial(best_of.load, device=args.device)}


def check_replies(args: SelfPlay, policy: "LMPolicy") -> None:
    """Refuses a chat template that cannot show earlier replies, if prompts contain them.

    Raises:
        ValueError: names the options without earlier replies.
    """
    history = args.history if policy.prompt is None else policy.prompt.history
    if history == "transcript" or args.on_invalid == "retry":
        policy.chat.check_replies()


def episode_starts(args: SelfPlay, weights: Sequence[float]) -> "Dataset":
    """The training set: starts of episodes, games drawn by weight, seeds by `args.seed`.

    Raises:
        ValueError: fewer starts than a generation batch has, with which no step would be trained.
    """
    from datasets import Dataset

    num_starts = args.num_starts
    # TRL fills both in
    per_batch = (args.generation_batch_size or 1) // (args.num_generations or 1)
    if num_starts is not None and num_starts < per_batch:
        raise ValueError(
            f"want num_starts of at least {per_batch}, the starts of one generation batch, got "
            f"{num_starts}; give more, or leave it out"
        )
    if num_starts is None:
        batches = math.ceil(args.max_steps * args.generations_per_step)
        num_starts = batches * per_batch if args.max_steps > 0 else 1000
    rng = np.random.default_rng(args.seed)
    chances = np.asarray(weights, float) / np.sum(weights)
    games = rng.choice(len(weights), size=num_starts, p=chances)
    seeds = rng.integers(2**62, size=num_starts)
    labels = [f"{game}:{seed}" for game, seed in zip(games, seeds, strict=True)]
    return Dataset.from_dict({"prompt": labels, "game": games, "seed": seeds})


def curriculum_of(args: SelfPlay, plans: Sequence[GamePlan]) -> Curriculum | None:
    """The curriculum that the settings name, ready for its games; None if they name none.

    Raises:
        ValueError: an option or a game does not fit the curriculum, its first step fails,
            or it reads a success that is the same in every episode.
    """
    if args.curriculum is None:
        return None
    name, remedy = f"curriculum {args.curriculum!r}", "one that check_curriculum passes"
    games = dict(zip(numbered_names(plans), (p.game for p in plans), strict=True))
    with trial(name, remedy):
        trial_curriculum = curricula.make(args.curriculum)
        trial_curriculum.prepare(games)
        try_curriculum(trial_curriculum, [*games], 0)
        curriculum = curricula.make(args.curriculum)
        curriculum.prepare(games)
    for plan in plans:
        if curriculum.reads_success and is_constant(
            plan.game.zero_sum, plan.seats or ()
        ):
            raise ValueError(
                f"the curriculum {args.curriculum!r} reads the success, which in "
                f"self-play of {plan.name} is the same in every episode; give it "
                "opponents, or a curriculum by steps"
            )
    return curriculum


def is_constant(zero_sum: bool, seats: Sequence[str]) -> bool:
    """Whether the mean return of the seats that learn is the same in every episode."""
    return zero_sum and bool(seats) and all(spec == "self" for spec in seats)


MAX_CHECKED_STEPS = 10_000  # of a run, to find out which snapshots are wanted when


def matchmaker_of(args: SelfPlay, plans: Sequence[GamePlan]) -> Matchmaker | None:
    """The matchmaker of the seats, ready for its games; None if they are fixed.

    Raises:
        ValueError: an option or a game does not fit the matchmaker, no game has a seat for
            an opponent, or a setting does not support snapshots.
    """
    if not assigns_seats(args.opponents):
        return None
    games = {plan.name: plan.game for plan in plans if plan.is_matched}
    if all(game.num_players == 1 for game in games.values()):
        raise ValueError(
            f"want a game of several seats for opponents {args.opponents!r}, got "
            f"{', '.join(games)}; leave opponents out"
        )
    name, remedy = f"opponents {args.opponents!r}", "what check_matchmaker passes"
    with trial(name, remedy):
        trial_matchmaker = matchmaker_for(args.opponents)
        trial_matchmaker.prepare(games)
        if names_matchmaker(args.opponents):
            try_matchmaker(trial_matchmaker, games, 0)
        matchmaker = matchmaker_for(args.opponents)
        matchmaker.prepare(games)
    if matchmaker.max_live > 0:
        _check_snapshots(args, matchmaker)
    return matchmaker


def _check_snapshots(args: SelfPlay, matchmaker: Matchmaker) -> None:
    """Refuses settings under which snapshots cannot be taken or played."""
    feature = f"opponents {args.opponents!r}, which plays snapshots of the model"
    if by_server(args):
        raise ValueError(
            f"vllm_mode 'server' does not support {feature}: the server gets the weights "
            "of the learner alone; leave vllm_mode and the settings of the server out, "
            "or give lm: opponents"
        )
    if splits_weights(args):
        raise ValueError(
            f"sharded training does not support {feature}: it has not been tested with it; "
            "train with plain data parallelism, or give lm: opponents"
        )
    last = args.max_steps if args.max_steps > 0 else MAX_CHECKED_STEPS
    steps = range(0, min(last, MAX_CHECKED_STEPS), args.window)
    missing = missing_snapshot(matchmaker, steps)
    if missing is not None:
        raise ValueError(
            f"matchmaker {args.opponents!r} wants at step {missing[0]} the snapshot of "
            f"step {missing[1]}, when none is taken; set its every to a multiple of "
            f"{args.window}, the optimizer steps that share a generation batch"
        )
