"""The games of a trainer: how to make them, who plays, and how often they start."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from arena_envs.registration import make, make_game
from arena_trainers.evaluate.baselines import prepared
from arena_trainers.lm.models import prompt_folder
from arena_trainers.lm.prompt_file import read_prompt_file
from arena_trainers.train.own_options import check_opponents
from arena_wrappers import Policy, PromptWrapper, make_policy
from arena_wrappers.play import EnvFn

if TYPE_CHECKING:
    from datasets import Dataset

    from arena_trainers.lm.policy import LMPolicy
    from arena_trainers.train.config import TurnGRPOConfig


class GamePlan:
    """One of the trainer's games: how to make it, who plays, and who learns.

    Args:
        spec: an id, or a dict of id, params, max_turns, weight and opponents.
        args: the trainer's settings.

    Attributes:
        name: the id, with the parameters and the limit of turns that were given.
        max_turns: after how many turns episodes are truncated, if that was given.
        seats: who plays each seat.
        learners: which seats learn.
        env_fn: makes an environment of the game.

    Raises:
        ValueError: an unknown key, game, parameter or policy, or no seat that learns.
    """

    def __init__(self, spec: str | Mapping[str, Any], args: "TurnGRPOConfig") -> None:
        known = {"id", "params", "max_turns", "weight", "opponents"}
        given: Any = {"id": spec} if isinstance(spec, str) else spec
        if (
            not isinstance(given, dict)
            or not given.keys() <= known
            or "id" not in given
        ):
            raise ValueError(
                f"want a game as id or dict of {sorted(known)}, got {spec!r}"
            )
        self.id: str = given["id"]
        self.params: dict[str, Any] = given.get("params", {})
        if not isinstance(self.params, dict):
            raise ValueError(
                f"want params of {self.id} as a mapping, got {self.params!r}"
            )
        limit: int | None = given.get("max_turns")
        self.max_turns = limit
        named = self.params if limit is None else {**self.params, "max_turns": limit}
        values = ", ".join(f"{k}={v}" for k, v in sorted(named.items()))
        self.name = f"{self.id}({values})" if values else self.id
        self.weight: float = given.get("weight", 1.0)
        if not isinstance(self.weight, int | float) or not 0 < self.weight < math.inf:
            raise ValueError(f"want weight of {self.id} above 0, got {self.weight!r}")
        self.game = make_game(self.id, **self.params)
        num_players = self.game.num_players
        seats = given.get("opponents", args.opponents)
        check_opponents(seats)
        self.seats = [seats] * num_players if isinstance(seats, str) else list(seats)
        if len(self.seats) != num_players:
            raise ValueError(
                f"{self.id} has {num_players} seats, opponents names {len(self.seats)}"
            )
        self.learners = [seat == "self" for seat in self.seats]
        if not any(self.learners):
            raise ValueError(
                f"want a seat of {self.id} that learns, got opponents {self.seats!r}; "
                "write 'self' for it, such as --opponents self,random"
            )
        env = make(self.id, max_turns=limit, **self.params)
        # one function for all episodes, so that they share what they remember
        self.env_fn: EnvFn = PromptWrapper(env, **args.prompt_options).clone

    def policies(
        self, learner: Policy, opponents: Mapping[str, Policy]
    ) -> list[Policy]:
        """Who plays each seat."""
        return [learner if s == "self" else opponents[s] for s in self.seats]


def opponents(
    plans: Sequence[GamePlan], args: "TurnGRPOConfig", given: Mapping[str, Policy]
) -> dict[str, Policy]:
    """The policies that play seats that do not learn, by their strings.

    Args:
        plans: the games.
        args: settings. A language model is prompted and samples as its `arena_prompt.json`
            says; without one, as the learner.
        given: policies that stand for a string, in place of `make_policy`.

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

    found = dict(given)
    for spec in (spec for plan in plans for spec in plan.seats):
        if spec != "self" and spec not in found:
            found[spec] = make_policy(spec, {"lm": load})
    for plan in plans:
        for spec in {*plan.seats} - {"self"}:
            prepared(found[spec], plan.game)
    return found


def check_replies(args: "TurnGRPOConfig", policy: "LMPolicy") -> None:
    """Refuses a chat template that cannot show earlier replies, where prompts hold them.

    Raises:
        ValueError: says what would do.
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
