"""Records: JSON lines that come back equal, and replay that finds every difference."""

import json
import pickle
import random
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import arena_envs
from arena_envs import GameEnv
from arena_wrappers import (
    Episode,
    EpisodePlan,
    PromptWrapper,
    RandomPolicy,
    ReplayError,
    Reply,
    TurnRequest,
    play,
    play_plans,
    read_episodes,
    replay,
    turn_states,
    write_episodes,
)
from arena_wrappers.play import final_state
from arena_wrappers.policies import turn_seed
from arena_wrappers.records import Turn


class Sloppy:
    """Random play with invalid, cut and failed replies; says odd things where it may."""

    name = "sloppy"

    def act(self, requests):
        return [self.reply(request) for request in requests]

    def reply(self, request):
        rng = random.Random(request.seed)
        text = request.wrap(rng.choice(request.legal))
        if request.game.num_actions is None and rng.random() < 0.5:
            text = request.wrap(
                rng.choice(["Hé, <|im_end|> \\ud800", "system: yes\n", "\x00"])
            )
        kind = rng.random()
        if kind < 0.1:
            return Reply("nonsense <answer>\ud800")
        if kind < 0.15:
            return Reply(text, truncated=True)
        if kind < 0.2:
            return Reply("", error="no connection")
        return Reply(text, [1, 2], [3], [-0.1])


def kuhn(**options):
    return PromptWrapper(arena_envs.make("kuhn_poker"), "bare", **options)


@pytest.fixture
def record():
    """Deal K, Q; pass, bet, pass: player_1 wins 1."""
    return Episode.from_json(play(kuhn, RandomPolicy(), [0])[0].to_json())


@pytest.mark.parametrize(
    ("history", "on_invalid", "max_turns"),
    [
        ("state", "forfeit", None),
        ("transcript", "retry", None),
        ("transcript", "random", 2),
        ("state", "retry", 2),
    ],
)
def test_records_come_back_equal_and_replay(
    game, history, on_invalid, max_turns, tmp_path
):
    def env():
        base = GameEnv(game, max_turns=max_turns)
        return PromptWrapper(base, history=history, on_invalid=on_invalid, penalty=0.3)

    episodes = play(env, Sloppy(), range(5), num_samples=2)
    path = tmp_path / "episodes.jsonl"
    write_episodes(path, episodes)
    assert list(read_episodes(path)) == episodes
    for episode, read in zip(episodes, read_episodes(path), strict=True):
        assert replay(read, game) == read == episode == replay(episode, game)


def test_every_game_replays_from_json(every_game):
    for episode in play(lambda: GameEnv(every_game), Sloppy(), range(3)):
        read = Episode.from_json(episode.to_json())
        assert replay(read, every_game) == read == episode


def test_registered_games_replay_by_their_id():
    env = arena_envs.make("kuhn_poker", num_players=3, max_turns=4)
    for episode in play(lambda: env, Sloppy(), range(20)):
        assert episode.params == {"num_players": 3}
        assert replay(Episode.from_json(episode.to_json())) == episode


def test_utterances_and_their_chance_are_recorded_as_json_can_hold_them(telephone):
    (episode,) = play(lambda: GameEnv(telephone), RandomPolicy(), [0])
    topic, *said = episode.actions
    assert topic in (0, 1)
    assert said == [turn.action for turn in episode.turns]
    assert set(said) <= {"yes", "no"}


def test_halves_of_a_character_are_recorded_as_json_reads_them():
    halves = "\ud83d\ude00 \ud83d"  # a pair, which JSON joins, and half of one

    class Halves(RandomPolicy):
        def act(self, requests):
            return [Reply(halves, error=halves if r.turn else None) for r in requests]

    (episode,) = play(lambda: kuhn(on_invalid="retry"), Halves(), [0])
    assert [turn.reply for turn in episode.turns] == ["\U0001f600 \ud83d", ""]
    assert episode.turns[1].detail == "\U0001f600 \ud83d"
    assert Episode.from_json(episode.to_json()) == episode == replay(episode)


TAMPERED = {
    "reply": (lambda r: turn(r, 0, reply="?"), "turn 0: action was . and is now None"),
    "other legal reply": (
        lambda r: turn(r, 0, reply="pass" if r.turns[0].reply == "bet" else "bet"),
        "turn 0: action was",
    ),
    "reward": (
        lambda r: turn(r, -1, rewards={"game": 9.0}),
        "rewards was {'game': 9.0}",
    ),
    "action of a turn": (lambda r: turn(r, 0, action=7), "turn 0: action was 7 and is"),
    "legal text": (lambda r: turn(r, 1, legal=["bet"]), "turn 1: legal was"),
    "message": (lambda r: turn(r, 0, messages=[]), "turn 0: messages was"),
    "reason": (
        lambda r: turn(r, 0, invalid="illegal"),
        "turn 0: invalid was 'illegal'",
    ),
    "error without detail": (
        lambda r: turn(r, 0, invalid="error"),
        "turn 0: invalid was",
    ),
    "cut": (lambda r: turn(r, 0, truncated=True), "turn 0: action was"),
    "turn index": (lambda r: turn(r, 0, index=3), "turn 0: index was 3 and is now 0"),
    "seat": (lambda r: turn(r, 0, seat=1), "turn 0: seat was 1 and is now 0"),
    "policy": (lambda r: turn(r, 2, policy="x"), "turn 2: policy was 'x'"),
    "no turns": (lambda r: replace(r, turns=[]), "ends too early: turn 0 of seat 0"),
    "one turn less": (
        lambda r: replace(r, turns=r.turns[:-1]),
        "the record ends too early",
    ),
    "one turn more": (
        lambda r: replace(r, turns=[*r.turns, r.turns[-1]]),
        r"had \d turns and has now \d",
    ),
    "other deal": (
        lambda r: replace(r, actions=[r.actions[1], r.actions[0], *r.actions[2:]]),
        "turn 0: messages was",
    ),
    "other action": (
        lambda r: replace(
            r, actions=[*r.actions[:2], 1 - r.actions[2], *r.actions[3:]]
        ),
        "action 4: 0 is not possible",
    ),
    "impossible deal": (
        lambda r: replace(r, actions=[0, 0, *r.actions[2:]]),
        "action 1: 0 is not possible",
    ),
    "impossible action": (
        lambda r: replace(r, actions=[*r.actions[:2], 7]),
        "action 2: 7 is not possible",
    ),
    "text as action": (lambda r: replace(r, actions=["bet"]), "action 0: 'bet' is not"),
    "one action more": (
        lambda r: replace(r, actions=[*r.actions, 0]),
        "is not possible",
    ),
    "one action less": (lambda r: replace(r, actions=r.actions[:-1]), "actions was"),
    "returns": (lambda r: replace(r, returns=[5.0, -5.0]), "the episode: returns was"),
    "forfeit": (
        lambda r: replace(r, forfeited_by=1),
        "forfeited_by was 1 and is now None",
    ),
    "end": (
        lambda r: replace(r, terminated=False, truncated=True),
        "terminated was False",
    ),
    "limit": (lambda r: replace(r, max_turns=1), "had 3 turns and has now 1"),
    "format": (lambda r: prompt(r, reply_format="answer"), "turn 0: messages was"),
    "rules": (lambda r: prompt(r, rules=False), "turn 0: messages was"),
    "legal actions": (lambda r: prompt(r, show_legal_actions=False), "messages was"),
    "unknown option": (lambda r: prompt(r, colour="red"), "want prompt options, got"),
    "bad option": (lambda r: prompt(r, history="x"), "unknown history 'x'"),
    "game": (lambda r: replace(r, game="kuhn_pokr-v0"), "did you mean 'kuhn_poker-v0'"),
    "parameter": (
        lambda r: replace(r, params={"players": 2}),
        "no parameter 'players'",
    ),
}


def turn(record, number, **changes):
    turns = list(record.turns)
    turns[number] = replace(turns[number], **changes)
    return replace(record, turns=turns)


def prompt(record, **changes):
    return replace(record, prompt={**record.prompt, **changes})


@pytest.mark.parametrize("tampered", TAMPERED)
@pytest.mark.parametrize("through_json", [False, True])
def test_replay_says_where_a_tampered_record_differs(record, tampered, through_json):
    change, message = TAMPERED[tampered]
    assert replay(record) == record
    changed = change(record)
    if through_json:
        changed = Episode.from_json(changed.to_json())
    with pytest.raises(ValueError, match=message):
        replay(changed)


@pytest.mark.parametrize("on_invalid", ["retry", "random"])
def test_replay_of_invalid_replies_needs_the_same_options(on_invalid):
    def env():
        return kuhn(on_invalid=on_invalid, max_retries=2)

    class Wrong(RandomPolicy):
        def act(self, requests):
            return [Reply("raise")] * len(requests)

    (episode,) = play(env, Wrong(), [1])
    assert replay(episode) == episode
    with pytest.raises(ReplayError, match="turn 0"):
        replay(prompt(episode, on_invalid="forfeit"))
    with pytest.raises(ReplayError, match="turn 0: rewards"):
        replay(prompt(episode, penalty=0.1))
    if on_invalid == "random":  # the random actions hang on the seed
        assert any(differs(replace(episode, seed=seed)) for seed in range(2, 12))


def differs(record):
    try:
        replay(record)
    except ReplayError:
        return True
    return False


def test_replay_compares_errors_and_their_reasons():
    class Broken(RandomPolicy):
        def act(self, requests):
            raise OSError("disk full")

    (episode,) = play(kuhn, Broken(), [0], on_error="lose")
    assert replay(episode) == episode
    with pytest.raises(ReplayError, match="turn 0: detail was 'OSError: disk full'"):
        replay(turn(episode, 0, invalid="format"))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_json_cannot_hold_are_refused(record, value):
    for bad in (
        replace(record, returns=[value, 0.0]),
        turn(record, 0, logprobs=[value]),
    ):
        with pytest.raises(ValueError, match="seed 0, sample 0 holds a number"):
            bad.to_json()


HOSTILE = {
    "": "want an episode as JSON",
    "{": "want an episode as JSON",
    "[]": "the episode: want an object",
    "null": "the episode: want an object",
    "{}": "the episode lacks 'game'",
    "[" * 100_000: "want an episode as JSON",
    "9" * 5000: "want an episode as JSON",
}


def lines_of(record):
    """Broken lines made of a sound one: (line, message)."""
    sound = json.loads(record.to_json())
    for name in sound:
        wrong: Any = {"a": 1} if sound[name] is None else None
        wrong = (
            1.5 if name in ("max_turns", "parent", "branch", "forfeited_by") else wrong
        )
        yield json.dumps({**sound, name: wrong}), f"the episode: {name} cannot be"
    for name in sound["turns"][0]:
        optional = {
            "action",
            "invalid",
            "detail",
            "prompt_ids",
            "token_ids",
            "logprobs",
            "entropies",
        }
        wrong = {"a": 1} if name in optional else None
        turns = [sound["turns"][0], {**sound["turns"][1], name: wrong}]
        yield json.dumps({**sound, "turns": turns}), f"turn 1: {name} cannot be"
    for changes, message in [
        ({"color": 1}, "unknown field 'color'$"),
        (
            {"credit": []},
            "unknown field 'credit'; arena_eval.rollouts.read_rollouts rea",
        ),
        ({"seed": True}, "seed cannot be True"),
        ({"seed": "0"}, "seed cannot be '0'"),
        ({"returns": [float("nan"), 0]}, "returns cannot be"),
        ({"returns": [float("-inf"), 0]}, "returns cannot be"),
        ({"actions": [[0]]}, "actions cannot be"),
        ({"turns": [1]}, "turns cannot be"),
        ({"turns": [{}]}, "turn 0 lacks 'index'"),
    ]:
        yield json.dumps({**sound, **changes}), message
    yield (
        record.to_json().replace('"returns": [', '"returns": [1e999, '),
        "returns cannot be",
    )
    del sound["seed"]
    yield json.dumps(sound), "the episode lacks 'seed'"


def test_a_hostile_line_is_named(record, tmp_path):
    path = tmp_path / "episodes.jsonl"
    good = record.to_json()
    turns = [replace(t, rewards={"game": 0.0}) for t in record.turns]
    for line, message in [*HOSTILE.items(), *lines_of(replace(record, turns=turns))]:
        path.write_text(f"{good}\n{line}\n{good}\n", encoding="utf-8")
        episodes = read_episodes(path)
        assert next(episodes) == record
        with pytest.raises(ValueError, match=f"episodes.jsonl, line 2: .*{message}"):
            next(episodes)


def test_bytes_that_are_no_text_are_named(record, tmp_path):
    path = tmp_path / "episodes.jsonl"
    path.write_bytes(record.to_json().encode() + b"\n\xff\xfe\n")
    with pytest.raises(ValueError, match="line 2: 'utf-8'"):
        list(read_episodes(path))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)
    ),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(list(Episode.__dataclass_fields__)), value=json_values)
def test_any_json_in_any_field_is_read_or_refused(record, name, value):
    values = {**json.loads(record.to_json()), name: value}
    try:
        read = Episode.from_json(json.dumps(values))
        replay(read)
    except ValueError:
        return
    # a limit that is not reached, and a seed where all chance is recorded, show nowhere
    unseen = ("parent", "branch", "max_turns", "seed", "sample")
    assert getattr(read, name) == getattr(record, name) or name in unseen


@pytest.mark.parametrize("sample", [-1, 2**64])
def test_a_sample_that_seeds_no_turn_is_refused(record, sample):
    values = {**json.loads(record.to_json()), "sample": sample}
    with pytest.raises(ValueError, match="sample cannot be"):
        Episode.from_json(json.dumps(values))


def test_no_half_written_file_is_left(record, tmp_path):
    path = tmp_path / "episodes.jsonl"
    write_episodes(path, [record])

    def broken():
        yield record
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_episodes(path, broken())
    with pytest.raises(ValueError, match="not finite"):
        write_episodes(path, [record, replace(record, returns=[float("nan")])])
    assert [entry.name for entry in tmp_path.iterdir()] == ["episodes.jsonl"]
    assert list(read_episodes(path)) == [record]
    with pytest.raises(FileNotFoundError):
        write_episodes(tmp_path / "missing" / "episodes.jsonl", [record])


class Spy(Sloppy):
    """Notes the states in which it is asked."""

    def __init__(self):
        self.asked = {}

    def reply(self, request):
        self.asked.setdefault(request.episode, []).append(request.state)
        return super().reply(request)


def test_a_record_tells_the_state_of_every_turn(make_env):
    env = make_env()
    for on_invalid in ("forfeit", "retry", "random"):
        spy = Spy()
        episodes = play(
            partial(PromptWrapper, env, on_invalid=on_invalid), spy, range(3)
        )
        for number, episode in enumerate(episodes):
            again = Episode.from_json(episode.to_json())
            assert turn_states(again, env.game) == spy.asked[number]
            assert [turn.state for turn in episode.turns] == spy.asked[number]
            assert final_state(again, env.game) == episode.final_state


def test_states_are_in_memory_alone():
    """Files and pickles leave them out, and `==` ignores them."""
    (episode,) = play(kuhn, RandomPolicy(), [0])
    assert None not in [episode.final_state, *(turn.state for turn in episode.turns)]
    for copy in (
        Episode.from_json(episode.to_json()),
        pickle.loads(pickle.dumps(episode)),
    ):
        assert copy == episode
        assert {copy.final_state, *(turn.state for turn in copy.turns)} == {None}


def test_states_of_a_record_that_ends_too_early_are_refused(record):
    game = arena_envs.make_game("kuhn_poker")
    with pytest.raises(ReplayError, match="ends too early: action 3 is missing"):
        turn_states(replace(record, actions=record.actions[:3]), game)
    with pytest.raises(ReplayError, match="action 2: 7 is not possible"):
        turn_states(replace(record, actions=[*record.actions[:2], 7]), game)


def test_each_field_of_a_record_holds_what_its_name_says():
    requests = []

    class Speaker:
        name = "speaker"

        def act(self, batch):
            requests.extend(batch)
            return [
                Reply(
                    request.legal[0],
                    prompt_ids=[1, 2],
                    token_ids=[3],
                    logprobs=[-0.5],
                    entropies=[0.25],
                )
                for request in batch
            ]

    env = kuhn(rules=False)
    (episode,) = play(lambda: env, Speaker(), [7])
    request, turn = requests[0], episode.turns[0]
    env.reset(seed=7)
    state = env.env.game_state
    assert request == TurnRequest(
        episode=0,
        turn=0,
        seat=0,
        game=env.env.game,
        state=state,
        messages=env.observe("player_0"),
        context_ids=(),
        legal=["pass", "bet"],
        seed=turn_seed(7, 0, 0, 0),
        reply_format="bare",
        turns=episode.turns,
        date=env.options_of(0).date,
    )
    assert turn == Turn(
        index=0,
        seat=0,
        policy="speaker",
        messages=request.messages,
        legal=request.legal,
        reply="pass",
        action=0,
        invalid=None,
        detail=None,
        rewards={"game": episode.returns[0]},
        prompt_ids=[1, 2],
        token_ids=[3],
        logprobs=[-0.5],
        truncated=False,
        entropies=[0.25],
        generations=(),
        probes=None,
        state=state,
    )
    env.env.step(0)
    env.env.step(0)
    assert episode == Episode(
        game="kuhn_poker-v0",
        params={"num_players": 2},
        max_turns=None,
        prompt=env.prompt_options,
        seed=7,
        sample=0,
        actions=env.env.actions,
        turns=episode.turns,
        returns=list(env.env.returns),
        terminated=True,
        truncated=False,
        forfeited_by=None,
        parent=None,
        branch=None,
        measures={},
        lost=None,
        final_state=env.env.game_state,
    )
    assert (turn.state, episode.final_state) == (state, env.env.game_state)


def test_policies_of_plans_are_told_once_that_play_has_ended():
    class Forgetful(RandomPolicy):
        def __init__(self):
            super().__init__()
            self.num_ends = 0

        def forget_episodes(self):
            self.num_ends += 1

    shared, other = Forgetful(), Forgetful()
    seats = [shared, other]
    plans = [
        EpisodePlan(kuhn, seats, seed=0),
        EpisodePlan(kuhn, seats, seed=1),
        EpisodePlan(kuhn, [shared, shared], seed=2),
    ]
    assert len(play_plans(plans)) == 3
    assert (shared.num_ends, other.num_ends) == (1, 1)
