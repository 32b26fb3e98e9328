"""The games of a trainer: their environments, their seats, and how often they start."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from arena_envs.registration import make
from arena_trainers.evaluate.baselines import prepared
from arena_trainers.lm import best_of
from arena_trainers.lm.models import prompt_folder
from arena_trainers.lm.prompt_file import read_prompt_file
from arena_trainers.matchmaking import Matchmaker
from arena_trainers.matchmaking.protocol import assigns_seats, names_matchmaker
from arena_trainers.train.game_entries import checked_entry
from arena_trainers.train.own_options import check_opponents
from arena_wrappers import Policy, PromptWrapper, make_policy
from arena_wrappers.play import EnvFn
from arena_wrappers.policy_strings import Maker

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
        game: the rules.
        has_own: whether the game names opponents of its own.
        seats: who plays each seat; None if they are assigned for each start.
        learners: which seats learn, in some starts at least.
        env_fn: makes an environment of the game; all of them share `game`.

    Raises:
        ValueError: a key, the game, a parameter or a policy is unknown, or no seat learns.
    """

    def __init__(self, spec: str | Mapping[str, Any], args: "TurnGRPOConfig") -> None:
        given = checked_entry(spec)
        self.id: str = given["id"]
        self.params: dict[str, Any] = given.get("params", {})
        self.max_turns: int | None = given.get("max_turns")
        self.weight: float = given.get("weight", 1.0)
        self.name = _name(self.id, self.params, self.max_turns)
        env = make(self.id, max_turns=self.max_turns, **self.params)
        self.game = env.game
        num_players = self.game.num_players
        self.seats: list[str] | None = None
        self.has_own = "opponents" in given
        if self.has_own or not assigns_seats(args.opponents):
            who = given.get("opponents", args.opponents)
            self.seats = _checked_seats(who, self.id, num_players)
        self.learners = [s == "self" for s in self.seats or ["self"] * num_players]
        # one function for all episodes, so that they share their caches
        self.env_fn: EnvFn = PromptWrapper(env, **args.prompt_options).clone
        self._prompt_options = args.prompt_options
        self._cut: dict[int, EnvFn] = {}

    def env_of(self, max_turns: int | None) -> EnvFn:
        """Makes environments that truncate episodes after `max_turns` or earlier."""
        if max_turns is None or (self.max_turns or math.inf) <= max_turns:
            return self.env_fn
        if max_turns not in self._cut:
            env = make(self.id, max_turns=max_turns, **self.params)
            self._cut[max_turns] = PromptWrapper(env, **self._prompt_options).clone
        return self._cut[max_turns]


def different_games(plans: Sequence[GamePlan]) -> list[GamePlan]:
    """The first plan of each name: a game may be listed again with other opponents."""
    found: dict[str, GamePlan] = {}
    for plan in plans:
        found.setdefault(plan.name, plan)
    return list(found.values())


def check_used(args: Any, plans: Sequence[GamePlan]) -> None:
    """Raises ValueError if `opponents` is given and all games have opponents of their own."""
    if args.opponents != "self" and all(plan.has_own for plan in plans):
        ids = ",".join(dict.fromkeys(plan.id for plan in plans))
        raise ValueError(
            f"want a game without opponents of its own for opponents {args.opponents!r}, "
            f"got none; leave opponents out, or give the games anew: --games {ids}"
        )


def _name(id: str, params: Mapping[str, Any], max_turns: int | None) -> str:
    """The id, with the parameters and the limit of turns that were given."""
    named = params if max_turns is None else {**params, "max_turns": max_turns}
    values = ", ".join(f"{k}={v}" for k, v in sorted(named.items()))
    return f"{id}({values})" if values else id


def _checked_seats(who: Any, id: str, num_players: int) -> list[str]:
    """The policy string of each seat.

    Raises:
        ValueError: a wrong number of seats, or no seat that learns.
    """
    check_opponents(who)
    if names_matchmaker(who):
        raise ValueError(
            f"want opponents of {id} as a policy string or a list, got {who!r}; give a "
            "matchmaker to the whole run, such as --opponents past_selves"
        )
    seats = [who] * num_players if isinstance(who, str) else list(who)
    if len(seats) != num_players:
        raise ValueError(
            f"{id} has {num_players} seats, opponents names {len(seats)}; name one for "
            "each seat, or one string for all"
        )
    if "self" not in seats:
        raise ValueError(
            f"want a seat of {id} that learns, got opponents {who!r}; write 'self' for "
            "it in a list, such as [self, random], or give one policy to the whole run, "
            "such as --opponents random"
        )
    return seats


def opponents(
    plans: Sequence[GamePlan],
    args: "TurnGRPOConfig",
    given: Mapping[str, Policy],
    matchmaker: Matchmaker | None = None,
) -> dict[str, Policy]:
    """The policies of the seats that do not learn, by policy string; without snapshots.

    Args:
        plans: the games.
        args: settings. A language model has the prompt and sampling options of its
            `arena_prompt.json`; without that file, those of the learner.
        given: policies by string; `make_policy` makes the others.
        matchmaker: assigns the seats of the games without `seats`.

    Raises:
        ValueError: a string names no policy, a bot cannot play a game, or a model's chat
            template cannot show its earlier replies.
    """
    from arena_trainers.lm.policy import LMPolicy

    def load(path: str) -> Policy:
        own = read_prompt_file(prompt_folder(path))
        sampling = own and {"batch_size": args.rollout_batch_size}
        sampling = sampling or args.sampling_options
        policy = LMPolicy.from_pretrained(path, device=args.device, **sampling)
        check_replies(args, policy)
        return policy

    makers: dict[str, Maker] = {
        "lm": load,
        "best_of": partial(best_of.load, device=args.device),
    }
    found = dict(given)
    assigned = () if matchmaker is None else matchmaker.policies
    for plan in plans:
        for spec in assigned if plan.seats is None else plan.seats:
            if spec == "self":
                continue
            if spec not in found:
                found[spec] = make_policy(spec, makers)
            prepared(found[spec], plan.game)
    return found


def check_replies(args: "TurnGRPOConfig", policy: "LMPolicy") -> None:
    """Refuses a chat template that cannot show earlier replies, if prompts contain them.

    Raises:
        ValueError: names the options without earlier replies.
    """
    history = args.history if policy.prompt is None else policy.prompt.history
    if history == "transcript" or args.on_invalid == "retry":
        policy.chat.check_replies()


def episode_starts(args: "TurnGRPOConfig", weights: Sequence[float]) -> "Dataset":
    """The training set: starts of episodes, games drawn by weight, seeds by `args.seed`."""
    from datasets import Dataset

    num_starts = args.num_starts
    if num_starts is None:
        # TRL fills both in
        per_batch = (args.generation_batch_size or 1) // (args.num_generations or 1)
        batches = math.ceil(args.max_steps * args.generations_per_step)
        num_starts = batches * per_batch if args.max_steps > 0 else 1000
    rng = np.random.default_rng(args.seed)
    chances = np.asarray(weights, float) / np.sum(weights)
    games = rng.choice(len(weights), size=num_starts, p=chances)
    seeds = rng.integers(2**62, size=num_starts)
    labels = [f"{game}:{seed}" for game, seed in zip(games, seeds, strict=True)]
    return Dataset.from_dict({"prompt": labels, "game": games, "seed": seeds})
