"""The rows of rollouts, and the tools of a seat, without a trainer of TRL's."""

import random
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

if find_spec("trl") is None:  # importing it takes seconds
    pytest.skip("trl is not installed: make adapters", allow_module_level=True)

import arena_envs
from arena_wrappers import NoReplyError, PromptWrapper, Reply, Turn
from arena_wrappers.adapters.trl import (
    SeatTools,
    episode_return,
    rollout_func,
    seat_tools,
    token_row,
)


def turn(index: int, prompt: list[int], said: list[int], **other) -> Turn:
    logprobs = [-0.5] * len(said)
    given = {"prompt_ids": prompt, "token_ids": said, "logprobs": logprobs, **other}
    return Turn(index, 0, "self", [], [], "", 0, None, None, **given)


def test_a_row_marks_what_the_model_wrote() -> None:
    row = token_row([turn(0, [1, 2], [3, 4]), turn(1, [1, 2, 3, 4, 5, 6], [7])])
    assert row == {
        "prompt_ids": [1, 2],
        "completion_ids": [3, 4, 5, 6, 7],
        "env_mask": [1, 1, 0, 0, 1],
        "logprobs": [-0.5, -0.5, 0.0, 0.0, -0.5],
    }


def test_a_row_refuses_turns_that_are_no_conversation() -> None:
    with pytest.raises(ValueError, match="want PromptWrapper"):
        token_row([turn(0, [1, 2], [3]), turn(1, [1, 2, 5], [3])])
    with pytest.raises(ValueError, match="its policy reports none"):
        token_row([turn(0, [1, 2], [3], logprobs=None)])


class Says:
    """Replies with a random word, as one token."""

    name = "says"

    def __init__(self, *words: str) -> None:
        self.words, self.asked = words, []

    def act(self, requests):
        self.asked += requests
        return [self.reply(request) for request in requests]

    def reply(self, request) -> Reply:
        number = random.Random(request.seed).randrange(len(self.words))
        prompt = [*(request.context_ids or [9]), request.seed % 97]
        return Reply(self.words[number], prompt, [number], [0.0])


def trainer_of(process: int = 0, step: int = 0) -> SimpleNamespace:
    return SimpleNamespace(
        accelerator=SimpleNamespace(process_index=process),
        eos_token_ids=[3],
        state=SimpleNamespace(global_step=step),
        model=SimpleNamespace(training=True),
    )


def kuhn() -> PromptWrapper:
    env = arena_envs.make("kuhn_poker")
    return PromptWrapper(env, "bare", history="transcript", rules=False)


def prompts_of(*seeds: int):
    """What `starts` holds, without importing `datasets`."""
    return [[{"role": "user", "content": str(seed)}] for seed in seeds]


def test_members_of_a_group_share_the_deal_and_nothing_else() -> None:
    prompts, policy = prompts_of(5, 8), Says("pass", "bet")
    play = rollout_func(kuhn, lambda trainer: policy)
    rows = play([prompts[0]] * 8 + [prompts[1]] * 8, trainer_of())
    first = [request for request in policy.asked if request.turn == 0]
    for seed, group in ((5, first[:8]), (8, first[8:])):
        env = arena_envs.make("kuhn_poker")
        env.reset(seed=seed)
        assert {request.state for request in group} == {env.game_state}
    assert len({request.seed for request in first}) == 16
    assert len(set(map(tuple, rows["completion_ids"][:8]))) > 1
    again = rollout_func(kuhn, lambda trainer: Says("pass", "bet"))
    assert again([prompts[0]] * 8 + [prompts[1]] * 8, trainer_of()) == rows
    other = again([prompts[0]] * 8 + [prompts[1]] * 8, trainer_of(process=1))
    assert other["completion_ids"] != rows["completion_ids"]


def test_a_start_that_comes_again_is_played_with_other_choices() -> None:
    policy, prompts = Says("pass", "bet"), prompts_of(5, 5)
    play = rollout_func(kuhn, lambda trainer: policy)
    trainer = trainer_of()
    for step in (0, 0, 1, 7):  # two batches of one step, later steps
        trainer.state.global_step = step
        play(prompts, trainer)
    first = [request for request in policy.asked if request.turn == 0]
    assert len({request.seed for request in first}) == 8
    resumed = Says("pass", "bet")
    rollout_func(kuhn, lambda trainer: resumed)(prompts, trainer_of(step=7))
    again = [request for request in resumed.asked if request.turn == 0]
    assert [r.seed for r in again] == [r.seed for r in first[-2:]]


def test_a_model_that_is_never_legal_gets_one_warning() -> None:
    play = rollout_func(kuhn, lambda trainer: Says("perhaps"))
    prompts = prompts_of(1, 2)
    with pytest.warns(UserWarning, match="train it on legal play first"):
        rows = play(prompts, trainer_of())
    play(prompts, trainer_of())  # a second warning would be an error
    assert rows["legal"] == [0.0, 0.0]
    assert episode_return(**rows) == [-2.5, -2.5]  # of a forfeit, with the penalty


def test_a_seat_that_never_moves_gets_a_row_without_trained_tokens() -> None:
    play = rollout_func(kuhn, lambda trainer: Says("bet"), seat=1, opponents=Says("no"))
    rows = play(prompts_of(1), trainer_of())
    assert (rows["completion_ids"], rows["env_mask"]) == ([[3]], [[0]])
    assert rows["returns"] == [2.0]  # what the forfeit of the other seat loses


def test_wrong_arguments_are_refused() -> None:
    policy = Says("bet")
    with pytest.raises(ValueError, match="want seat from 0 to 1, got 2"):
        rollout_func("kuhn_poker", lambda trainer: policy, seat=2)
    with pytest.raises(ValueError, match="want 1 opponents"):
        rollout_func("kuhn_poker", lambda trainer: policy, opponents=[])
    play = rollout_func("kuhn_poker", lambda trainer: policy)
    with pytest.raises(ValueError, match="train_dataset=starts"):
        play(["Play!"], trainer_of())


def test_tools_play_a_seat() -> None:
    tools = seat_tools("kuhn_poker", opponents="random")()
    shown = tools.reset(seed=3, prompt=[])
    assert "Legal actions: pass, bet." in shown
    state = tools._session.state
    with pytest.raises(ValueError, match="Write `pass` or `bet`"):
        tools.act("fold")
    assert tools._session.state == state
    tools.act("bet")
    assert tools.get_reward() == tools._session.returns[0]
    with pytest.raises(ValueError, match="The game is over"):
        tools.act("bet")
    tools.reset(seed=3)
    assert tools.get_reward() == -2.0  # never moved: a forfeit
    with pytest.raises(ValueError, match="want a column 'seed'"):
        tools.reset()


def test_tools_of_one_seed_meet_other_choices() -> None:
    make = seat_tools("tic_tac_toe", opponents="random")
    shown = []
    for tools in [make() for _ in range(6)]:
        tools.reset(seed=0)
        shown.append(tools.act("a1"))
    assert len(set(shown)) > 1
    again = []
    for _ in range(6):
        tools.reset(seed=0)
        again.append(tools.act("a1"))
    assert len(set(again)) > 1


class Lost:
    """An endpoint that gives no reply."""

    name = "lost"

    def act(self, requests):
        return [Reply("", error="connection cut") for _ in requests]


def test_a_lost_opponent_stops_training() -> None:
    tools: SeatTools = seat_tools("kuhn_poker", seat=1, opponents=Lost())()
    assert "The game is over" in tools.reset(seed=0)
    with pytest.raises(NoReplyError, match="connection cut"):
        tools.get_reward()
