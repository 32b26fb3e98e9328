"""`play`: lockstep that cannot be told from playing one by one, and faults that stay local."""

import random
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import arena_envs
from arena_envs import GameEnv
from arena_envs.game import CHANCE, penalized
from arena_wrappers import (
    BotPolicy,
    Branching,
    Episode,
    EpisodePlan,
    PromptWrapper,
    RandomPolicy,
    Reply,
    ScriptedPolicy,
    make_policy,
    play,
    play_plans,
    replay,
    stream_plans,
    without_lost,
)
from arena_wrappers.play import EnvCaches

SEEDS = range(20)


class Sloppy:
    """Plays at random and often breaks the rules, all from the seed of the request."""

    name = "sloppy"

    def act(self, requests):
        return [self.reply(request) for request in requests]

    def reply(self, request):
        rng = random.Random(request.seed)
        text = request.wrap(rng.choice(request.legal))
        kind = rng.random()
        if kind < 0.1:
            return Reply("nonsense")
        if kind < 0.15:
            return Reply(text, truncated=True)
        if kind < 0.2:
            return Reply("", error="no connection")
        ids = [rng.randrange(100) for _ in range(3)]
        return Reply(text, [len(request.messages)], ids, [-0.5, -1.0, -0.25])


class Faulty(RandomPolicy):
    """Plays at random, but for the episodes whose index is in `bad`."""

    def __init__(self, fault, bad=(3, 5)):
        self.fault, self.bad = fault, bad

    def act(self, requests):
        if any(request.episode in self.bad for request in requests):
            return self.fault(self, requests)
        return super().act(requests)


class Unsteady(RandomPolicy):
    """Gives no reply to some requests, by their seed."""

    def act(self, requests):
        played = super().act(requests)
        pairs = zip(requests, played, strict=True)
        return [Reply("", error="no") if r.seed % 5 == 0 else p for r, p in pairs]


def crash(policy, requests):
    raise KeyError("out of \n order")


def time_out(policy, requests):
    raise TimeoutError("the server is slow")


def stall(policy, requests):
    time.sleep(0.3)
    return RandomPolicy.act(policy, requests)


def too_few(policy, requests):
    return RandomPolicy.act(policy, requests)[:-1]


def too_many(policy, requests):
    return [*RandomPolicy.act(policy, requests), Reply("bet")]


def no_list(policy, requests):
    return None


def no_replies(policy, requests):
    return ["bet"] * len(requests)


def no_text(policy, requests):
    return [Reply(None)] * len(requests)


def bad_numbers(policy, requests):
    return [Reply("bet", [1], [2, 3], [-1.0, float("nan")])] * len(requests)


def bad_lengths(policy, requests):
    return [Reply("bet", [1], [2, 3], [-1.0])] * len(requests)


def bad_entropies(policy, requests):
    return [Reply("bet", [1], [2, 3], entropies=[0.5])] * len(requests)


FAULTS = {
    crash: "KeyError: 'out of ",
    time_out: "TimeoutError: the server is slow",
    stall: "TimeoutError: no reply within",
    too_few: "gave 0 replies to 1 requests",
    too_many: "gave 2 replies to 1 requests",
    no_list: "TypeError",
    no_replies: "want a Reply; write Reply(request.wrap(request.legal[0]))",
    no_text: "want a Reply",
    bad_numbers: "want finite numbers, one logprob per token",
    bad_entropies: "one entropy per token",
    bad_lengths: "one logprob per token",
}


def kuhn():
    return PromptWrapper(arena_envs.make("kuhn_poker"), "bare")


@pytest.mark.parametrize(
    ("history", "on_invalid"),
    [("state", "forfeit"), ("transcript", "retry"), ("state", "random")],
)
def test_batch_size_and_order_of_seeds_change_nothing(make_env, history, on_invalid):
    def env():
        return PromptWrapper(make_env(), history=history, on_invalid=on_invalid)

    seeds = SEEDS[:8]
    want = play(env, Sloppy(), seeds, num_samples=2)
    assert play(env, Sloppy(), seeds, num_samples=2, batch_size=1) == want
    shuffled = random.Random(0).sample(seeds, len(seeds))
    episodes = play(env, Sloppy(), shuffled, num_samples=2, batch_size=7)
    assert sorted(episodes, key=lambda e: (e.seed, e.sample)) == want
    assert play(env, Sloppy(), seeds[:1], num_samples=2) == want[:2]


def test_processes_change_nothing():
    want = play(kuhn, RandomPolicy(), range(12))
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        parts = pool.map(play_kuhn, [range(6), range(6, 12)])
        assert [e for part in parts for e in part] == want


def play_kuhn(seeds):
    return play(kuhn, RandomPolicy(), seeds)


def test_one_call_answers_all_waiting_turns():
    sizes = []

    def reply(requests):
        sizes.append(len(requests))
        return RandomPolicy().act(requests)

    policy: Any = ScriptedPolicy("")
    policy.act = reply
    episodes = play(kuhn, policy, range(50), batch_size=8)
    num_turns = sum(len(episode.turns) for episode in episodes)
    assert sum(sizes) == num_turns
    assert max(sizes) == 8
    assert len(sizes) < num_turns / 6


def test_samples_share_chance_and_not_choices():
    episodes = play(kuhn, RandomPolicy(), range(4), num_samples=8)
    for start in range(0, 32, 8):
        group = episodes[start : start + 8]
        assert len({tuple(e.actions[:2]) for e in group}) == 1
        assert [e.sample for e in group] == list(range(8))
        assert len({tuple(e.actions) for e in group}) > 1


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("batch_size", [1, 4, None])
def test_a_fault_loses_its_own_episode_and_nothing_else(fault, batch_size):
    """Seat 1 fails in episodes 3 and 5; the others equal those of a run without it."""
    sound = play(kuhn, RandomPolicy(), range(8))
    faulty = play(
        kuhn,
        [RandomPolicy(), Faulty(fault)],
        range(8),
        batch_size=batch_size,
        timeout=0.1 if fault is stall else None,
        on_error="lose",
    )
    for number, (episode, want) in enumerate(zip(faulty, sound, strict=True)):
        if number not in (3, 5):
            assert episode == want
            continue
        assert (episode.forfeited_by, list(episode.returns)) == (None, [])
        assert FAULTS[fault] in episode.lost
        first, last = episode.turns
        assert first == replace(want.turns[0], rewards={"game": 0.0})
        assert (last.seat, last.reply, last.action) == (1, "", None)
        assert last.invalid == ("timeout" if fault in (stall, time_out) else "error")
        assert FAULTS[fault] in last.detail
        assert last.rewards == {}
        assert Episode.from_json(episode.to_json()) == episode


def test_errors_are_not_asked_again_nor_played_at_random():
    for on_invalid in ("retry", "random"):
        env = partial(
            PromptWrapper, arena_envs.make("kuhn_poker"), on_invalid=on_invalid
        )
        (episode,) = play(env, Faulty(crash, bad=[0]), [0], on_error="lose")
        assert episode.lost
        assert len(episode.turns) == 1


def test_lost_candidates_are_not_followed_and_parents_stay_right():
    every = Branching(num_candidates=2, turns=(0,), follow="all")
    found = play(kuhn, Unsteady(), range(12), branch=every)
    lost = [number for number, episode in enumerate(found) if episode.lost]
    assert 0 < len(lost) < len(found)
    assert not any(episode.parent in lost for episode in found)
    kept = without_lost(found)
    assert len(kept) == len(found) - len(lost)
    for episode in kept:
        if episode.parent is not None:
            parent = kept[episode.parent]
            assert episode.turns[0].messages == parent.turns[0].messages
            assert (parent.seed, parent.lost) == (episode.seed, None)


@pytest.mark.parametrize("kind", ["empty", "refusal", "tool_call", "content_filter"])
def test_a_reply_without_text_forfeits_under_its_name(kind):
    silent: Any = ScriptedPolicy("")
    silent.act = lambda requests: [Reply("", instead=kind)] * len(requests)
    (episode,) = play(kuhn, silent, [0])
    assert (episode.lost, episode.forfeited_by) == (None, 0)
    assert (episode.turns[0].invalid, list(episode.returns)) == (kind, [-2.0, 2.0])
    assert replay(episode) == episode


@pytest.mark.parametrize("fault", [crash, too_few, no_list, no_replies, bad_numbers])
def test_an_exception_of_a_policy_in_process_is_raised_by_default(fault):
    with pytest.raises((KeyError, ValueError, TypeError)) as caught:
        play(kuhn, Faulty(fault), range(8))
    assert "the policy 'random' in this process" in caught.value.__notes__[0]
    assert "on_error='lose'" in caught.value.__notes__[0]
    if fault is crash:
        assert caught.traceback[-1].name == "crash"


def test_a_function_of_the_request_is_a_policy():
    def last_action(request):
        return request.wrap(request.legal[-1])

    def reply(request):
        return Reply(request.legal[-1])

    episodes = play(kuhn, [last_action, reply], range(8))
    assert {turn.policy for e in episodes for turn in e.turns} == {
        "last_action",
        "reply",
    }
    assert {turn.action for e in episodes for turn in e.turns} == {1}
    with pytest.raises(
        TypeError, match=r"'<lambda>' returned 1; want a text or a Reply"
    ):
        play(kuhn, lambda request: 1, [0])


def test_a_policy_without_a_name_has_that_of_its_class():
    class Careful:
        def act(self, requests):
            return [Reply(request.wrap("pass")) for request in requests]

    assert play(kuhn, Careful(), [0])[0].turns[0].policy == "Careful"
    with pytest.raises(TypeError, match=r"got the class Careful; .* Careful\(\.\.\.\)"):
        play(kuhn, Careful, [0])


@pytest.mark.parametrize("fault", [crash, time_out, too_few, no_replies, bad_numbers])
def test_on_error_raise_passes_the_exception_on(fault):
    with pytest.raises((KeyError, TimeoutError, ValueError, TypeError)):
        play(kuhn, Faulty(fault), range(8), on_error="raise")


@pytest.mark.parametrize("start", [play, stream_plans, play_plans])
def test_an_unknown_on_error_is_refused(start):
    plans = [EpisodePlan(kuhn, [RandomPolicy()] * 2, 0)]
    given = (kuhn, "random", [0]) if start is play else (plans,)
    with pytest.raises(ValueError, match="'lose' or 'raise', or None, got 'ignore'"):
        list(start(*given, on_error="ignore"))


def test_a_long_error_is_cut():
    def shout(policy, requests):
        raise RuntimeError("!" * 10**6)

    (episode,) = play(kuhn, Faulty(shout, bad=[0]), [0], on_error="lose")
    assert len(episode.turns[0].detail) == 500


def test_a_cut_reply_is_overlong_even_if_it_parses():
    cut: Any = ScriptedPolicy("")
    cut.act = lambda requests: [Reply("bet", truncated=True)] * len(requests)
    (episode,) = play(kuhn, cut, [0])
    assert episode.turns[0].invalid == "overlong"
    assert episode.turns[0].truncated


def test_a_turn_is_paid_until_the_seats_next_turn(tolls):
    """Worked by hand: gift 1 to seat 2; payments 1, 2, 0, 2, 1, 1, 2; then 5 to seat 1."""

    def amount(request):
        return f"pay {[[1, 2, 2], [2, 1], [0, 1]][request.seat][request.turn]}"

    env = PromptWrapper(GameEnv(tolls), "bare")
    plan = EpisodePlan(
        lambda: env, [ScriptedPolicy(amount)] * 3, 0, options={"chance": [1]}
    )
    (episode,) = play_plans([plan])
    paid = {(turn.seat, turn.index): turn.rewards for turn in episode.turns}
    assert paid == {
        (0, 0): {"game": -1.0 + 0.0},
        (1, 0): {"game": -2.0 + 2.0},  # paid by seat 0's second turn
        (2, 0): {"game": -0.0 + 1.0},  # by seat 1's second turn
        (0, 1): {"game": -2.0 + 1.0},
        (1, 1): {"game": -1.0 + 2.0 + 5.0},  # the end comes after seat 0's third turn
        (2, 1): {"game": -1.0},
        (0, 2): {"game": -2.0},
    }
    assert list(episode.returns) == [
        -4.0,
        6.0 + 1.0,
        0.0 + 3.0,
    ]  # with what came before


@pytest.mark.parametrize("max_turns", [None, 4])
def test_turns_hold_all_but_what_was_paid_before_them(make_env, max_turns):
    for episode in play(lambda: make_env(max_turns=max_turns), Sloppy(), SEEDS):
        game = make_env().game
        for seat, total in enumerate(episode.returns):
            turns = [n for n, turn in enumerate(episode.turns) if turn.seat == seat]
            if turns:
                before = returns_after(game, episode.actions, turns[0])
                early = [t.seat for t in episode.turns[: turns[0]] if t.invalid]
                num_bad = [early.count(other) for other in range(game.num_players)]
                before = penalized(game, before, num_bad)[seat]
                paid = sum(episode.turns[n].rewards["game"] for n in turns)
                assert before + paid == pytest.approx(total)


def returns_after(game, actions, num_turns):
    """What was paid when so many turns had been played, chance after them included."""
    state = game.initial_state()
    for entry in actions:
        if game.current_player(state) != CHANCE:
            if num_turns == 0:
                break
            num_turns -= 1
            action = entry if game.num_actions else game.parse(state, entry)
        else:
            outcomes = [outcome for outcome, _ in game.chance_outcomes(state)]
            action = entry if game.num_actions else outcomes[entry]
        state = game.apply(state, action)
    return game.returns(state)


def test_three_players_need_three_policies(tolls):
    with pytest.raises(ValueError, match="want 3 policies, one per seat, got 2"):
        play(lambda: GameEnv(tolls), [RandomPolicy()] * 2, [0])
    episodes = play(lambda: GameEnv(tolls), [RandomPolicy() for _ in range(3)], SEEDS)
    for episode in episodes:
        seats = [turn.seat for turn in episode.turns]
        assert seats == [0, 1, 2, 0, 1, 2, 0]
        assert all(b.index >= a.index for a, b in pairwise(episode.turns))


def test_max_turns_truncates(tolls):
    (episode,) = play(lambda: GameEnv(tolls, max_turns=4), RandomPolicy(), [0])
    assert (episode.truncated, episode.terminated) == (True, False)
    assert (len(episode.turns), episode.max_turns) == (4, 4)


def test_several_games_are_played_at_once(tolls, telephone):
    policy = RandomPolicy()
    env_fns = [lambda: GameEnv(tolls), lambda: GameEnv(telephone), kuhn]
    plans = [
        EpisodePlan(env_fn, [policy] * num_players, seed)
        for seed in range(4)
        for env_fn, num_players in zip(env_fns, [3, 2, 2], strict=True)
    ]
    episodes = play_plans(plans, batch_size=5)
    assert [e.game for e in episodes] == ["Tolls", "Telephone", "kuhn_poker-v0"] * 4
    assert episodes[2::3] == play(kuhn, policy, range(4))


def test_environments_that_are_kept_from_call_to_call_play_the_same_episodes(tolls):
    env_fn = PromptWrapper(GameEnv(tolls), on_invalid="random").clone
    plans = [EpisodePlan(env_fn, [Sloppy()] * 3, seed) for seed in SEEDS]
    caches = EnvCaches()
    first, again = (play_plans(plans, caches=caches) for _ in range(2))
    assert first == again == play_plans(plans)


def test_one_environment_serves_all_episodes(tolls):
    """An `env_fn` may give the same object again and again."""
    env = PromptWrapper(GameEnv(tolls), on_invalid="random")
    shared = play(lambda: env, Sloppy(), SEEDS, batch_size=4)
    fresh = play(
        lambda: PromptWrapper(GameEnv(tolls), on_invalid="random"), Sloppy(), SEEDS
    )
    assert shared == fresh


def test_token_ids_of_a_transcript_are_handed_on_unless_some_are_missing(tolls):
    contexts = {}

    def act(requests):
        for request in requests:
            contexts[request.seat, request.turn] = list(request.context_ids)
        return [
            Reply("pay 1", [*r.context_ids, 7], [8, 9])
            if (r.seat, r.turn) != (1, 0)
            else Reply("pay 1")
            for r in requests
        ]

    policy: Any = ScriptedPolicy("")
    policy.act = act
    env = PromptWrapper(GameEnv(tolls), "bare", history="transcript")
    play(lambda: env, policy, [0])
    assert contexts[0, 1] == [7, 8, 9]
    assert contexts[0, 2] == [7, 8, 9, 7, 8, 9]
    assert contexts[1, 1] == []
    play(lambda: PromptWrapper(GameEnv(tolls), "bare"), policy, [0])
    assert contexts[0, 2] == []


def test_arrays_of_token_ids_become_lists():
    policy: Any = ScriptedPolicy("")
    ids, logprobs = np.arange(2), np.array([-0.5, -1.0])
    reply = Reply("bet", (1, 2), ids, logprobs, entropies=-logprobs)
    policy.act = lambda requests: [reply] * len(requests)
    (episode,) = play(kuhn, policy, [0])
    turn = episode.turns[0]
    recorded = (turn.prompt_ids, turn.token_ids, turn.logprobs, turn.entropies)
    assert recorded == ([1, 2], [0, 1], [-0.5, -1.0], [0.5, 1.0])
    assert all(type(i) is int for i in turn.token_ids)
    episode.to_json()


def test_global_randomness_is_left_alone(make_env):
    before = random.getstate(), np.random.get_state()[1].tolist()
    play(make_env, Sloppy(), SEEDS)
    play(make_env, BotPolicy(lambda g, s, rng: rng.choice(g.legal_actions(s))), SEEDS)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size of at least 1, got 0"),
        ({"timeout": 0}, "want a timeout above 0 seconds, got 0"),
        ({"timeout": -1.0}, "want a timeout above 0 seconds, got -1.0"),
        ({"timeout": float("nan")}, "want a timeout above 0 seconds, got nan"),
        ({"num_samples": 0}, "num_samples of at least 1, got 0"),
        ({"seeds": [-1]}, "non-negative"),
        ({"seeds": [0.5]}, "non-negative integer"),
    ],
)
def test_arguments_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        play(kuhn, RandomPolicy(), **{"seeds": [0], **options})


def test_no_seeds_no_episodes():
    assert play(kuhn, RandomPolicy(), []) == []


def test_episodes_stream_out_as_soon_as_they_are_over():
    env_fn = partial(arena_envs.make, "kuhn_poker")
    policy, seeds = RandomPolicy(), range(30)
    plans = [EpisodePlan(env_fn, [policy] * 2, seed) for seed in seeds]
    order = []
    for index, episode in stream_plans(plans):
        assert episode == play(env_fn, policy, [seeds[index]])[0]
        order.append(index)
    assert sorted(order) == list(seeds)
    lengths = [len(play(env_fn, policy, [seeds[i]])[0].turns) for i in order]
    assert lengths == sorted(lengths)
    assert set(lengths) == {2, 3}


def test_policies_and_games_may_be_strings():
    named = play("kuhn_poker", ["random", "cfr"], SEEDS)
    made = [RandomPolicy(), make_policy("cfr")]
    assert named == play(lambda: arena_envs.make("kuhn_poker"), made, SEEDS)
    assert play("kuhn_poker", "random", [0]) == play("kuhn_poker", RandomPolicy(), [0])


def test_what_is_no_game_or_no_policy_is_refused():
    with pytest.raises(ValueError, match="did you mean 'kuhn_poker-v0'"):
        play("kuhn_pker", "random", [0])
    with pytest.raises(ValueError, match="did you mean 'random'"):
        play("kuhn_poker", ["random", "randm"], [0])
    with pytest.raises(
        TypeError, match="function that makes an environment, got GameE"
    ):
        play(arena_envs.make("kuhn_poker"), "random", [0])
    with pytest.raises(TypeError, match=r"want seeds .*, got 5; write range\(5\)"):
        play("kuhn_poker", "random", 5)
    with pytest.raises(TypeError, match=r"want a policy, got int; give a string"):
        play("kuhn_poker", [RandomPolicy(), 5], [0])
