"""The protocol of proposers, which write candidate texts, and a proposer that asks a policy."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from arena_envs.game import AnyGame
from arena_eval.exploit import reads_no_prompt
from arena_eval.improve.texts import CLOSING, MAX_TEXT, OPENING, text_in
from arena_eval.improve.transcripts import (
    PlayedEpisode,
    choose_episodes,
    transcript_of,
)
from arena_eval.spending import CHARACTERS, Budget, Spending, added, endpoints_of
from arena_wrappers import Message, NoReplyError, Policy, TurnRequest, turn_seed
from arena_wrappers.play.asking import ask
from arena_wrappers.prompts import neutralise

MAX_RULES = 8_000  # characters
NUM_TRIED = 12  # texts of earlier rounds that a proposer reads

SYSTEM = (
    "You are the coach of a player. Before each game the player reads a text of yours, and then "
    "the rules. You improve this text. A text is kept only if the player's mean return is higher "
    "with it than with the current one, on games that are not known yet."
)


class Tried(NamedTuple):
    """A text of an earlier round, and the difference of its mean return from the then current one."""

    text: str
    difference: float
    low: float
    high: float
    is_accepted: bool


class Evidence(NamedTuple):
    """What a proposer reads.

    Attributes:
        game: the rules.
        text: the current text; empty for none.
        played: episodes with the current text.
        tried: texts of earlier rounds, in order.
    """

    game: AnyGame
    text: str
    played: Sequence[PlayedEpisode]
    tried: Sequence[Tried]


class Proposer(Protocol):
    """Writes candidate texts."""

    @property
    def name(self) -> str:
        """Name in records."""

    def propose(self, evidence: Evidence, num_texts: int, seed: int) -> list[str]:
        """At most `num_texts` texts; the caller handles empty, equal and long ones."""


class ModelProposer:
    """Asks a policy for texts, one text per call.

    Args:
        policy: any policy that reads prompts.
        timeout: longest call, in seconds; None for no limit.

    Raises:
        ValueError: the policy is a person, or reads no prompts.
    """

    def __init__(self, policy: Policy, timeout: float | None = None) -> None:
        check_reads_prompts(policy, "proposer")
        self.policy, self.name = policy, policy.name
        self._timeout = timeout

    def propose(self, evidence: Evidence, num_texts: int, seed: int) -> list[str]:
        """One text per call; "" for a reply without a text.

        Raises:
            NoReplyError: no call was answered.
        """
        requests = [
            TurnRequest(
                episode=number,
                turn=0,
                seat=0,
                game=evidence.game,
                state=evidence.game.initial_state(),
                messages=proposal_prompt(evidence, number, num_texts),
                context_ids=(),
                legal=(),
                seed=turn_seed(seed, number, 0, 0),
            )
            for number in range(num_texts)
        ]
        replies = ask(self.policy, requests, self._timeout, "lose")
        errors = [reply.error for reply in replies if reply.error is not None]
        if len(errors) == len(replies):
            raise NoReplyError(f"the proposer {self.name} gave no reply: {errors[0]}")
        return [
            text_in("" if reply.instead is not None else reply.text)
            for reply in replies
            if reply.error is None
        ]

    def expected(self, evidence: Evidence, num_texts: int, budget: Budget) -> Spending:
        """An estimate of what the calls of `propose` will use."""
        prompt = proposal_prompt(evidence, 0, num_texts)
        num_tokens = sum(len(message["content"]) for message in prompt) / CHARACTERS
        return added(
            budget.priced(
                endpoint,
                num_texts,
                num_texts * num_tokens,
                num_texts * (endpoint.max_tokens or MAX_TEXT / CHARACTERS),
            )
            for endpoint in endpoints_of([self.policy])
        )


def check_reads_prompts(policy: Policy, role: str) -> None:
    """Raises ValueError if a text in its prompt cannot change what a policy does."""
    if getattr(policy, "is_person", False) or reads_no_prompt(policy):
        raise ValueError(
            f"want a {role} that reads prompts, got {policy.name!r}; give a model such as "
            "api:MODEL@URL or lm:PATH, or a function of yours as module:name"
        )


def proposal_prompt(evidence: Evidence, number: int, num_texts: int) -> list[Message]:
    """The prompt of a proposer; control tokens in texts of players and proposers are broken."""
    seats = sorted({seat for each in evidence.played for seat in each.seats})
    rules = dict.fromkeys(
        evidence.game.rules(seat)[:MAX_RULES] for seat in seats or [0]
    )
    parts = ["# Rules of the game", *rules, "# Current text", evidence.text or "(none)"]
    chosen = choose_episodes(evidence.played)
    if chosen:
        returns = [each.mean_return for each in evidence.played]
        parts.append(
            f"# Games with the current text\nMean return of {len(returns)} games: "
            f"{sum(returns) / len(returns):.3f}. Some of the worst, or with invalid replies:"
        )
        parts += [f"## Game\n{transcript_of(each)}" for each in chosen]
    if evidence.tried:
        parts.append("# Texts that were tried, and their differences of mean return")
        parts += [_tried_text(tried) for tried in evidence.tried[-NUM_TRIED:]]
    parts.append(
        f"# Your task\nWrite a better text of at most {MAX_TEXT} characters: a strategy, rules of "
        "thumb, or what to take care of. Address the player as you. It must help in all seats of "
        f"the game, whatever is dealt. This is proposal {number + 1} of {num_texts}: make it "
        f"unlike the others. Write it between {OPENING} and {CLOSING}."
    )
    return [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": "\n\n".join(parts)},
    ]


def _tried_text(tried: Tried) -> str:
    verdict = "kept" if tried.is_accepted else "not kept"
    return (
        f"{tried.difference:+.3f} (between {tried.low:+.3f} and {tried.high:+.3f}), {verdict}:\n"
        f"{neutralise(tried.text)}"
    )
