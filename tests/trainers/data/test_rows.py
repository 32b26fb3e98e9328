"""Selections as data sets: merged, held out, with tokens as played; refusals; broken selectors."""

import random
from dataclasses import replace

import pytest

import arena_envs
from arena_trainers.data import (
    Completion,
    Dropped,
    NewMessages,
    Pair,
    ReplyPart,
    completions,
    held_out,
    joined,
    load_chat,
    recorded_trajectories,
    row_facts,
    rows_to_dataset,
    select,
    selectors,
    write_rows,
)
from arena_trainers.data.testing import BrokenPromise, check_selector
from arena_trainers.lm import Chat
from arena_wrappers import (
    Branching,
    PromptOptions,
    PromptWrapper,
    Reply,
    parse_reply,
    play,
)

PLAYED = play("kuhn_poker", "random", range(6), num_samples=3)


def test_equal_rows_of_a_start_are_one_and_their_weights_add_up():
    once, twice = select("wins", PLAYED), select("wins", joined([PLAYED, PLAYED]))
    assert [replace(row, weight=2 * row.weight) for row in once.rows] == list(
        twice.rows
    )
    assert twice.num_merged == len(once.rows) + 2 * once.num_merged
    weights = [row.weight for row in once.rows]
    assert sum(weights) == len(once.rows) + once.num_merged


def test_a_seed_is_held_out_in_every_call():
    tree = play("kuhn_poker", "random", range(40), branch=Branching(2))
    train, others = held_out(tree, 0.3)
    kept, left = ({one.seed for one in side} for side in (train, others))
    assert kept | left == set(range(40))
    assert not kept & left
    assert 4 < len(left) < 20
    for side in (train, others):
        for one in side:
            assert one.parent is None or side[one.parent].seed == one.seed
    again, _ = held_out(play("tic_tac_toe", "random", range(40)), 0.3)
    assert {one.seed for one in again} == kept


class Talker:
    """Replies at random, often with no action, and reports tokens as `LMPolicy` does."""

    name = "talker"
    prompt = PromptOptions("bare", rules=False, history="transcript")

    def __init__(self, tokenizer):
        self.chat = Chat(tokenizer)

    def act(self, requests):
        return [self.reply(request) for request in requests]

    def reply(self, request):
        text = random.Random(request.seed).choice(["pass", "bet", "bet", "player_0"])
        context, messages = list(request.context_ids), request.messages
        new = self.chat.continuation(context, messages) if context else None
        prompt = self.chat.encode(messages) if new is None else [*context, *new]
        ids = [*self.chat.ids(text), self.chat.end_ids[0]]
        return Reply(text, prompt, ids, [0.0] * len(ids))


@pytest.fixture(scope="module")
def talked(tokenizer):
    """Transcripts with tokens, some of which were refused."""
    env = PromptWrapper(arena_envs.make("kuhn_poker"), on_invalid="random")
    return play(env.clone, Talker(tokenizer), range(12), num_samples=4)


@pytest.fixture
def chat(policy, tmp_path):
    """The chat template of a saved model."""
    policy.save_pretrained(tmp_path / "model")
    return load_chat(str(tmp_path / "model"))


@pytest.mark.parametrize("name", ["wins", "outcome_pairs", "rule_labels"])
def test_a_row_has_the_tokens_as_played(name, talked, tmp_path):
    found = select(name, talked)
    data = rows_to_dataset(found.rows)
    turns = {
        (one.seed, one.sample, t.seat, t.index): t for one in talked for t in one.turns
    }
    long = 0
    for row in data:
        first = turns[row["seed"], row["sample"], row["seat"], row["turn"]]
        text = "chosen" if name == "outcome_pairs" else "completion"
        ids, mask = row[f"{text}_ids"], row[f"{text}_mask"]
        assert row["prompt_ids"] == list(first.prompt_ids)
        assert ids[: len(first.token_ids)] == list(first.token_ids)
        assert len(mask) == len(ids)
        second = turns.get((row["seed"], row["sample"], row["seat"], row["turn"] + 1))
        if len(row[text]) == 3:
            long += 1
            whole = [*second.prompt_ids, *second.token_ids]
            assert [*row["prompt_ids"], *ids] == whole
            first_part = [int(first.invalid is None)] * len(first.token_ids)
            heard = len(ids) - len(first.token_ids) - len(second.token_ids)
            assert mask[: len(first_part) + heard] == [*first_part, *[0] * heard]
    assert long or name == "rule_labels"
    for file in ("a.parquet", "b.parquet"):
        write_rows(rows_to_dataset(select(name, talked[::-1]).rows), tmp_path / file)
    written = (tmp_path / "a.parquet").read_bytes()
    assert written == (tmp_path / "b.parquet").read_bytes()
    assert data.column_names == rows_to_dataset(found.rows).column_names


def test_without_tokens_the_policy_s_own_encoding_is_taken(chat, policy, talked):
    bare = [
        replace(
            one,
            turns=[replace(t, prompt_ids=None, token_ids=None) for t in one.turns],
        )
        for one in talked
    ]
    played, encoded = (
        list(rows_to_dataset(select("wins", episodes).rows, chat))
        for episodes in (talked, bare)
    )
    assert played == encoded
    assert chat.end_ids == policy.eos_ids


def test_rows_without_tokens_are_conversations_of_trl():
    found = select("wins", play("kuhn_poker", "random", range(4))).rows
    (row, *_) = rows_to_dataset(found)
    assert {name for name in row if name.endswith(("_ids", "_mask"))} == set()
    assert [m["role"] for m in row["prompt"]] == ["system", "user"]
    assert [m["role"] for m in row["completion"]] == ["assistant"]
    assert row["weight"] == 1.0


def test_a_reply_never_becomes_a_control_token(chat):
    (first, *_) = PLAYED
    facts = row_facts(first, first.turns[0], "hostile")
    row = Completion(**facts, completion=[ReplyPart("<|end|> bet", None)])
    ids = rows_to_dataset([row], chat)[0]["completion_ids"]
    end = chat.end_ids[0]
    assert ids.count(end) == 1
    assert ids[-1] == end


def test_a_revision_is_read_as_the_better_reply(chat, talked):
    def with_reply(one, text, paid, **given):
        first, *rest = one.turns
        ids = [*chat.ids(text), chat.end_ids[0]]
        first = replace(first, reply=text, token_ids=ids, rewards={"game": paid})
        first = replace(first, invalid=None, action=["pass", "bet"].index(text))
        return replace(one, turns=[first, *rest], **given)

    parent = talked[0]
    good, bad = (
        with_reply(parent, text, paid, parent=0, branch=0, sample=paid)
        for text, paid in (("bet", 2), ("pass", 1))
    )
    (row,) = rows_to_dataset(select("revisions", [parent, good, bad]).rows, chat)
    (message, *_) = row["completion"]
    game = arena_envs.make_game("kuhn_poker")
    state = game.apply(game.apply(game.initial_state(), 0), 1)
    assert parse_reply(game, state, message["content"], "bare") == 1
    note = chat.ids("No, that is a mistake. I choose again.</think>")
    own = [*chat.ids("pass"), *note, *chat.ids("bet"), chat.end_ids[0]]
    assert row["completion_ids"][: len(own)] == own
    assert row["completion_mask"][: len(own)] == [0, *[1] * (len(own) - 1)]


def test_bad_input_is_refused_in_a_sentence(chat):
    (first, *_) = PLAYED
    with pytest.raises(ValueError, match="did you mean 'wins'"):
        select("winz", PLAYED)
    with pytest.raises(ValueError, match="no option 'abov'; did you mean 'above'"):
        select("wins", PLAYED, abov=1)
    with pytest.raises(ValueError, match="needs the option 'solver'"):
        select("solver_replies", PLAYED)
    with pytest.raises(ValueError, match="kuhn_pocker"):
        select("wins", [replace(first, game="kuhn_pocker-v0")])
    with pytest.raises(ValueError, match="by the policy 'randon'; did you mean"):
        select("wins", PLAYED, policies=["randon"])
    with pytest.raises(ValueError, match="want a number above, got"):
        select("wins", PLAYED, above="high")
    with pytest.raises(ValueError, match="has no tokens; play with"):
        select("best_of_group", PLAYED)
    facts = row_facts(first, first.turns[0], "same")
    same = [ReplyPart("bet", None)]
    with pytest.raises(ValueError, match="differs from the rejected one, got 'bet'"):
        Pair(**facts, chosen=same, rejected=list(same))
    other = Completion(**facts | {"prompt_ids": [10**6]}, completion=same)
    with pytest.raises(ValueError, match="give the model that played"):
        rows_to_dataset([other], chat)
    with pytest.raises(TypeError, match=r"write \[episode\]"):
        select("wins", first)
    with pytest.raises(ValueError, match="at least one row, got none"):
        rows_to_dataset([])


def test_a_selector_of_another_distribution_is_found(tmp_path, monkeypatch):
    (tmp_path / "picky.py").write_text(
        "from arena_trainers.data import completions, recorded_trajectories\n"
        "def first(episodes, *, seed, seat=0):\n"
        "    for one in recorded_trajectories(episodes):\n"
        "        if one.seat == seat:\n"
        "            yield from completions(one, 'first')\n"
    )
    info = tmp_path / "picky-1.0.dist-info"
    info.mkdir()
    about = "Metadata-Version: 2.1\nName: picky\nVersion: 1.0\n"
    (info / "METADATA").write_text(about)
    (info / "entry_points.txt").write_text("[arena.selectors]\npicky = picky:first\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "picky" in selectors.names()
    assert {row.seat for row in select("picky", PLAYED, seat=1).rows} == {1}


def rows_of(episodes, reason="mine", weight=1.0):
    return [
        r
        for one in recorded_trajectories(episodes)
        for r in completions(one, reason, weight)
    ]


def of_nothing(episodes, *, seed):
    return rows_of(episodes or PLAYED[:1])


def without_reason(episodes, *, seed):
    return rows_of(episodes, "")


def by_place(episodes, *, seed):
    return rows_of(episodes[: len(episodes) // 2])


def by_call(episodes, *, seed, calls=[]):  # noqa: B006 # broken on purpose
    calls.append(0)
    return rows_of(episodes, weight=float(len(calls)))


def of_other_seats(episodes, *, seed):
    for row in rows_of(episodes):
        yield replace(row, seat=1 - row.seat)


def told_by_others(episodes, *, seed):
    for one in episodes:
        first, second = one.turns[:2]
        facts = row_facts(one, first, "what the other replied")
        heard = [NewMessages(second.messages, 0, second.prompt_ids)]
        yield Completion(**facts, completion=[ReplyPart("x", None), *heard])


def of_no_episode(episodes, *, seed):
    return [replace(row, seed=10**6) for row in rows_of(episodes)]


def texts(episodes, *, seed):
    return [row.reason for row in rows_of(episodes)]


def nothing(episodes, *, seed):
    return [Dropped("all")]


def spoilt(episodes, *, seed):
    found = rows_of(episodes)
    if episodes:
        episodes[0].turns.clear()
    return found


@pytest.mark.parametrize(
    ("selector", "promise"),
    [
        (of_nothing, "nothing of nothing"),
        (without_reason, "facts"),
        (of_no_episode, "facts"),
        (by_place, "order"),
        (by_call, "same seed"),
        (of_other_seats, "own view"),
        (told_by_others, "own view"),
        (texts, "rows"),
        (nothing, "rows"),
        (spoilt, "arguments"),
    ],
)
def test_the_check_finds_broken_selectors(selector, promise):
    with pytest.raises(BrokenPromise, match=promise):
        check_selector(selector)
