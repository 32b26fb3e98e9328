"""`Teacher`: a policy whose choices among the legal actions a term of the loss reads."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from arena_envs.game import AnyGame, random_states
from arena_eval.baselines import prepared
from arena_trainers.losses import TINY, Choice, Term
from arena_trainers.processes import splits_weights
from arena_trainers.train.opponent_policies import makers_of
from arena_trainers.train.parts import TermLoop
from arena_trainers.train.rows import TrainingRow
from arena_trainers.train.score.reference import turns_at
from arena_wrappers import BotPolicy, TurnRequest, make_policy, turn_seed
from arena_wrappers.policies import own_prompt
from arena_wrappers.prompts import find_reply_format

NUM_CHECKED = 20  # episodes of random play in which a teacher is checked


class Teacher:
    """A policy whose choices among the legal actions a term reads.

    It reads one prompt per state, its own or the learner's. One without `action_probs` gives a reply,
    whose probability is 1: the cross-entropy is then right on average.
    """

    def __init__(self, trainer: TermLoop, term: Term) -> None:
        args, self.trainer, self.term = trainer.args, trainer, term
        if splits_weights(args):
            raise ValueError(
                f"loss term {term.name!r} has a teacher, which has not been tested "
                "with weights that are split among processes; leave the term out"
            )
        opponents = trainer.games.opponents
        teacher = str(term.teacher)
        policy = opponents.get(teacher) or make_policy(teacher, makers_of(args))
        self.policy: Any = policy
        self.options = own_prompt(policy) or args.prompt
        if hasattr(policy, "model"):
            policy.model.to(args.device)
        for game in trainer.games.rules:
            prepared(policy, game)
            if not term.sees_hidden and isinstance(policy, BotPolicy):
                self._check_hidden(game)

    def _check_hidden(self, game: AnyGame) -> None:
        """Raises if the bot acts otherwise in states that its seat cannot tell apart."""
        rng = random.Random(0)
        pairs = [
            (state, game.resample(state, seat, rng))
            for _ in range(NUM_CHECKED)
            for state, seat in random_states(game, rng)
            if seat >= 0 and game.information != "perfect"
        ]
        requests = [
            TurnRequest.at(game, s, self.options) for pair in pairs for s in pair
        ]
        probs = self._probs(requests) if requests else []
        for request, own_probs, other_probs in zip(
            requests[::2], probs[::2], probs[1::2], strict=True
        ):
            gaps = [abs(a - b) for a, b in zip(own_probs, other_probs, strict=True)]
            if max(gaps) > TINY:
                raise ValueError(
                    f"teacher {self.policy.name!r} reads what seat {request.seat} of "
                    f"{game!r} cannot know: it acts otherwise in states that look "
                    "alike; give another teacher, or sees_hidden: true in "
                    f"losses[{self.term.name!r}]"
                )

    def _probs(self, requests: Sequence[TurnRequest]) -> list[list[float]]:
        if hasattr(self.policy, "action_probs"):
            return [list(probs) for probs, _ in self.policy.action_probs(requests)]
        replies = self.policy.act(requests)
        return [
            [float(reply.text == request.wrap(text)) for text in request.legal]
            for request, reply in zip(requests, replies, strict=True)
        ]

    def columns(
        self, rows: Sequence[TrainingRow], device: torch.device | str
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """float32[B, A], the teacher's probabilities, and int64[B, A, L], the learner's tokens.

        They are 0 and -1 where there is nothing, as in placeholder rows, whose `place` is -1.
        """
        places = [row.place for row in rows]
        key_of_row, requests = self._requests(places)
        probs = dict(zip(requests, self._probs([*requests.values()]), strict=True))
        policy = self.trainer.policy
        wrap = find_reply_format(self.trainer.args.reply_format).wrap
        replies: dict[tuple[int, int], list[int]] = {}  # by row and action
        for i, key in enumerate(key_of_row):
            if key is not None:
                for action, text in enumerate(requests[key].legal):
                    ids = policy.chat.reply_ids(rows[i].prompt_ids, wrap(text))
                    replies[i, action] = [*ids, policy.eos_ids[0]]
        num_actions = max(
            (len(request.legal) for request in requests.values()), default=1
        )
        longest = max(map(len, replies.values()), default=1)
        teacher_probs = torch.zeros(len(rows), num_actions)
        tokens = torch.full((len(rows), num_actions, longest), -1)
        for (i, action), reply_ids in replies.items():
            teacher_probs[i, action] = probs[key_of_row[i]][action]
            tokens[i, action, : len(reply_ids)] = torch.tensor(reply_ids)
        return teacher_probs.to(device), tokens.to(device)

    def _requests(
        self, places: Sequence[int]
    ) -> tuple[list[Any], dict[Any, TurnRequest]]:
        """What to ask: for each row the key of its request, None without; requests by key."""
        key_of_row, requests = list[Any](), dict[Any, TurnRequest]()
        for record, game, state in turns_at(self.trainer, places):
            key: Any = None
            if record is not None:
                seat, turn_key = record.seat, (record.episode, record.place)
                key = record.game, seat, game.information_state(state, seat)
                if self.term.sees_hidden or not hasattr(self.policy, "action_probs"):
                    key = turn_key
                seed = turn_seed(record.seed, *turn_key, seat)
                request = TurnRequest.at(game, state, self.options, seed)
                requests.setdefault(key, request)
            key_of_row.append(key)
        return key_of_row, requests

    def choice(self, inputs: Mapping[str, Any]) -> Choice:
        """Both distributions for the rows of a micro-batch; the learner's has a gradient."""
        name, trainer = f"arena_teacher_{self.term.name}", self.trainer
        probs, ids = inputs[f"{name}_probs"], inputs[f"{name}_ids"]
        rows, actions = (ids[:, :, 0] >= 0).nonzero(as_tuple=True)
        logps = torch.zeros_like(probs)
        if len(rows):
            reply_ids = ids[rows, actions]
            reply_mask = (reply_ids >= 0).long()
            scores = trainer.forward.score(
                trainer.accelerator.unwrap_model(trainer.model),
                torch.cat([inputs["prompt_ids"][rows], reply_ids.clamp(min=0)], dim=1),
                torch.cat([inputs["prompt_mask"][rows], reply_mask], dim=1),
                width=reply_ids.shape[1],
                compute_entropy=False,
                learners=inputs["learner"][rows],
            )
            of_replies = (scores.logprobs * reply_mask).sum(dim=1)
            logps = logps.index_put((rows, actions), of_replies)
        return Choice(probs, logps)
