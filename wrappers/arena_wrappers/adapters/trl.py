"""TRL: rollouts and tools for users who keep TRL's own `GRPOTrainer`.

`rollout_func` plays whole episodes with the trainer's model in one seat. `seat_tools` makes the
environments of `environment_factory`, in which a model with tool calls plays a seat.
"""

import itertools
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from arena_envs.checks import checked_seed
from arena_envs.game import AnyGame
from arena_wrappers.adapters import check_version
from arena_wrappers.play import (
    EnvFn,
    NoReplyError,
    Opponents,
    SeatChoice,
    SeatSession,
    conversation_prompts,
    stream_plans,
)
from arena_wrappers.policies import Policy
from arena_wrappers.prompts import InvalidReply, Message
from arena_wrappers.records import Episode, Turn

check_version("trl", "train", "1.16", "1.17")


BATCHES, PLACES = 2**12, 2**20  # most batches of a step, and most episodes of a batch


def starts(seeds: Iterable[int]) -> Any:
    """The `datasets.Dataset` for `rollout_func`: one start of an episode for each seed.

    Raises:
        ValueError: a seed is out of range.
    """
    from datasets import Dataset

    contents = [str(checked_seed(seed)) for seed in seeds]
    rows = [{"prompt": [{"role": "user", "content": text}]} for text in contents]
    return Dataset.from_list(rows)


def episode_return(returns: Sequence[float], **_: Any) -> Sequence[float]:
    """The reward function of `rollout_func`: the learning seat's rewards, summed."""
    return returns


class RolloutTrainer(Protocol):
    """What a rollout reads of TRL's trainer."""

    accelerator: Any
    state: Any
    model: Any
    eos_token_ids: Sequence[int]


class rollout_func:  # named as TRL's argument
    """TRL's `rollout_func`: plays an episode for each row of the batch.

    Rows with equal prompts are a group: their episodes have the same seed and differ in
    `sample`, so that chance is the same and the policies' choices differ. Later batches have
    other samples, by the trainer's `state.global_step`, so a resumed run plays the same
    episodes. A row holds the tokens that the model read and wrote; `env_mask` is 1 for those
    that it wrote. Three more fields go to the reward functions: `returns`; `turn_rewards`, what each
    turn was paid, which `arena_credit.hooks.trl` reads; and `legal`, the share of the model's
    replies that are legal actions.

    Args:
        game: as `env_fn` of `play`. An id gets prompts with `history="transcript"`, which a
            function of yours must set, too: a row is one conversation.
        policy: makes the policy of a trainer's model, which must report its tokens:
            `arena_trainers.lm.learner_of`.
        seat: the seat that learns.
        opponents: one policy for all other seats, or one per other seat in seat order.
        timeout: as for `play`.

    Raises:
        ValueError: as for `SeatSession`.
    """

    def __init__(
        self,
        game: EnvFn | str,
        policy: Callable[[RolloutTrainer], Policy],
        *,
        seat: int = 0,
        opponents: Opponents = "random",
        timeout: float | None = None,
    ) -> None:
        self.session = SeatSession(
            game, [seat], opponents, prompt=conversation_prompts(game), timeout=timeout
        )
        self.make_policy, self.seat, self.timeout = policy, seat, timeout
        self._trainer: RolloutTrainer | None = None
        self._last_batch: tuple[Any, int] = (None, 0)
        self._warned = False

    def __call__(
        self, prompts: Sequence[Any], trainer: RolloutTrainer
    ) -> dict[str, list[Any]]:
        if self._trainer is not trainer:
            self._trainer, self._policy = trainer, self.make_policy(trainer)
            self._last_batch = (None, 0)
        first = self._first_sample(trainer)
        first += trainer.accelerator.process_index * len(prompts)
        numbers: Counter[int] = Counter()
        plans = []
        for prompt in prompts:
            seed = _seed_of(prompt)
            sample = first + numbers[seed]
            plans.append(self.session.plan(seed, sample, self._policy))
            numbers[seed] += 1
        played = dict(stream_plans(plans, timeout=self.timeout, on_error="raise"))
        end_token = int(trainer.eos_token_ids[0])
        rows = [self._row(played[index], end_token) for index in range(len(plans))]
        self._warn_if_never_legal(rows)
        return {name: [row[name] for row in rows] for name in rows[0]}

    def _first_sample(self, trainer: RolloutTrainer) -> int:
        """The first sample of a batch; a step of the optimizer may use several batches."""
        step = (trainer.state.global_step, trainer.model.training)
        self._last_batch = (
            step,
            self._last_batch[1] + 1 if self._last_batch[0] == step else 0,
        )
        return int(step[0]) * BATCHES * PLACES + self._last_batch[1] * PLACES

    def _row(self, episode: Episode, end_token: int) -> dict[str, Any]:
        turns = [turn for turn in episode.turns if turn.seat == self.seat]
        if not turns:  # TRL wants a token in each row
            return {
                "prompt_ids": [end_token],
                "completion_ids": [end_token],
                "env_mask": [0],
                "logprobs": [0.0],
                "returns": episode.returns[self.seat],
                "turn_rewards": None,
                "legal": None,
            }
        legal = sum(turn.invalid is None for turn in turns) / len(turns)
        turn_rewards = [turn.reward for turn in turns]
        return {
            **token_row(turns),
            "returns": sum(turn_rewards),
            "turn_rewards": turn_rewards,
            "legal": legal,
        }

    def _warn_if_never_legal(self, rows: Sequence[dict[str, Any]]) -> None:
        shares = [row["legal"] for row in rows if row["legal"] is not None]
        if self._warned or not shares or any(shares):
            return
        self._warned = True
        warnings.warn(
            f"no reply of the model was a legal action in {len(shares)} episodes, so equal "
            "returns teach it nothing; train it on legal play first, as `arena train` "
            "does, or check reply_format and max_new_tokens",
            stacklevel=3,
        )


def token_row(turns: Sequence[Turn]) -> dict[str, list[Any]]:
    """The tokens of a seat's conversation as TRL reads them.

    Args:
        turns: the seat's turns of one episode, with token ids and log-probabilities.

    Returns:
        `prompt_ids`, the first prompt; `completion_ids`, what follows it; and, for each of
        these, `env_mask`, 1 for tokens of the model's replies, and `logprobs`, 0 elsewhere.

    Raises:
        ValueError: a turn has no tokens, or its prompt does not continue the turn before.
    """
    prompt: list[int] = list(turns[0].prompt_ids or ())
    ids, mask, logprobs = list[int](), list[int](), list[Any]()
    for turn in turns:
        if turn.prompt_ids is None or turn.token_ids is None or turn.logprobs is None:
            got = turn.detail or "its policy reports none"
            raise ValueError(
                f"turn {turn.index} has no tokens with log-probabilities ({got}); want "
                "a policy such as that of arena_trainers.lm.learner_of"
            )
        num_known = len(prompt) + len(ids)
        if list(turn.prompt_ids[:num_known]) != prompt + ids:
            raise ValueError(
                f"the prompt of turn {turn.index} does not continue the conversation; "
                "want PromptWrapper(..., history='transcript')"
            )
        prompt_part, reply_ids = list(turn.prompt_ids[num_known:]), list(turn.token_ids)
        ids += prompt_part + reply_ids
        mask += [0] * len(prompt_part) + [1] * len(reply_ids)
        logprobs += [0.0] * len(prompt_part) + list(turn.logprobs)
    row = {"prompt_ids": prompt, "completion_ids": ids, "env_mask": mask}
    return {**row, "logprobs": logprobs}


def _seed_of(prompt: Sequence[Message]) -> int:
    """The seed that `starts` wrote."""
    try:
        return int(prompt[-1]["content"])
    except (LookupError, TypeError, ValueError):
        raise ValueError(
            f"want prompts that hold a seed, got {prompt!r:.80}; pass "
            "train_dataset=starts(range(1000))"
        ) from None


ENVIRONMENTS = 2**32  # most environments of a factory


class SeatTools:
    """One seat of a game as an environment of TRL's, with the tool `act`.

    `seat_tools` makes them. An illegal action raises in the tool; TRL shows the model the
    reason, the game stays as it is, and the model may act again. A conversation that ends
    before the game does forfeits.

    Args:
        session: of the seat, with bare replies and prompts without rules.
        sample: number of this environment, see `seat_tools`.
    """

    def __init__(self, session: SeatSession, sample: int) -> None:
        self._session, self._sample = session, sample
        self._resets: Counter[int] = Counter()
        self._lost: NoReplyError | None = None

    def reset(self, seed: int | None = None, **_: Any) -> str:
        """The rules and what the seat sees first; TRL appends them to the prompt.

        Raises:
            ValueError: the row of the dataset has no seed.
        """
        if seed is None:
            raise ValueError(
                "want a column 'seed' in the dataset, so that the members of a group "
                "meet the same start; add it to each row"
            )
        options = {"sample": self._sample + self._resets[seed] * ENVIRONMENTS}
        self._resets[seed] += 1
        first_view = self._play(lambda: self._session.reset(seed, options=options))
        return f"\n\n{self._session.game.rules(self._session.seat)}\n\n{first_view}"

    def act(self, action: str) -> str:
        """Play an action in the game.

        Args:
            action: the text of a legal action

        Returns:
            What you see next, or how the game ended.
        """
        if self._is_over:
            raise ValueError(self._ending())
        parsed = self._session.read(action)
        if isinstance(parsed, InvalidReply):
            raise ValueError(parsed.detail)
        return self._play(lambda: self._session.step(action)[0])

    def get_reward(self) -> float:
        """The seat's return.

        Raises:
            NoReplyError: an opponent gave no reply, so that the episode is lost. TRL shows
                errors of a tool to the model, so `act` does not raise it.
        """
        while not self._is_over:  # larger games go on after an invalid reply
            self._play(lambda: self._session.step("")[0])
        if self._lost is not None:
            raise self._lost
        return self._session.returns[self._session.seat]

    @property
    def _is_over(self) -> bool:
        return self._lost is not None or self._session.done

    def _play(self, play: Callable[[], list[Message]]) -> str:
        """The text after a reset or a step; keeps the error of a missing reply."""
        self._lost = None
        try:
            messages = play()
        except NoReplyError as error:
            self._lost = error
        return self._ending() if self._is_over else messages[-1]["content"]

    def _ending(self) -> str:
        if self._lost is not None:
            return "The game is over, because an opponent gave no reply."
        seat_return = self._session.returns[self._session.seat]
        return f"The game is over. Your return is {seat_return:g}."


def seat_tools(
    game: str | AnyGame,
    seat: SeatChoice = 0,
    opponents: Opponents = "random",
    **params: Any,
) -> Callable[[], SeatTools]:
    """TRL's `environment_factory`: each call makes a `SeatTools`.

    Each row of the dataset needs a `seed`. Environments are numbered, and play the episode of
    the row's seed with the sample of their number: the members of a group share chance, and
    their opponents make different choices. When an environment gets a seed again, its opponents
    make new choices. Each environment counts its seeds in memory, so a resumed run counts from 0.

    Arguments and errors are those of `SeatSession`.
    """
    numbers = itertools.count()

    def session() -> SeatSession:
        prompt = {"reply_format": "bare", "rules": False}
        return SeatSession(game, seat, opponents, prompt=prompt, **params)

    session()  # refuses wrong arguments now
    return lambda: SeatTools(session(), next(numbers))
