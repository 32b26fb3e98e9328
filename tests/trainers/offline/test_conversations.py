"""Rows of messages: TRL's conversational forms become the tokens that the model would play."""

import json
import random
from dataclasses import replace

import pyarrow.parquet
import pytest
from rich.console import Console

import arena_envs
from arena_trainers.data import (
    Completion,
    ReplyPart,
    load_chat,
    rows_to_dataset,
    select,
    to_dataset,
    write_rows,
)
from arena_trainers.offline.conversations import write_tokens
from arena_trainers.offline.row_file import check_rows, token_columns
from arena_trainers.runs.rows import RowRun
from arena_wrappers import PromptWrapper, ScriptedPolicy, play

KINDS = {"wins": "completions", "outcome_pairs": "pairs", "rule_labels": "labels"}


def user(text):
    return {"role": "user", "content": text}


def says(text):
    return {"role": "assistant", "content": text}


MESSAGES = {"messages": [user("Your card: K"), says("pass"), user("bet"), says("bet")]}
PROMPT = {"prompt": [user("Your card: K")]}
PAIR = {**PROMPT, "chosen": [says("bet")], "rejected": [says("pass")]}
WHOLE = {name: [*PROMPT["prompt"], *PAIR[name]] for name in ("chosen", "rejected")}
LABEL = {**PROMPT, "completion": [says("bet")], "label": True}
TURN = {**PROMPT, "completion": [says("bet")]}


@pytest.fixture
def chat(policy, tmp_path):
    policy.save_pretrained(tmp_path / "model")
    return load_chat(str(tmp_path / "model"))


@pytest.fixture
def encoded(chat, tmp_path):
    """The rows of tokens of rows of messages."""

    def encode(rows, kind="completions"):
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert not check_rows(path, kind)
        write_tokens(path, kind, chat, tmp_path / "tokens.parquet")
        return pyarrow.parquet.read_table(tmp_path / "tokens.parquet").to_pylist()

    return encode


@pytest.fixture
def talked():
    """Transcripts without tokens, in which some replies were refused."""
    env = PromptWrapper(
        arena_envs.make("kuhn_poker"),
        "bare",
        rules=False,
        history="transcript",
        on_invalid="random",
    )

    def reply(request):
        return random.Random(request.seed).choice(["pass", "bet", "bet", "player_0"])

    return play(env.clone, ScriptedPolicy(reply), range(12), num_samples=4)


@pytest.mark.parametrize("name", KINDS)
def test_rows_of_episodes_have_the_same_tokens_whoever_encodes_them(
    name, talked, chat, tmp_path
):
    """By `arena data select --model`, or without it by the trainer; refused replies stay untrained."""
    rows = select(name, talked).rows
    path, tokens = tmp_path / "rows.parquet", tmp_path / "tokens.parquet"
    write_rows(rows_to_dataset(rows), path)
    assert not check_rows(path, KINDS[name])
    write_tokens(path, KINDS[name], chat, tokens)
    wanted = list(rows_to_dataset(rows, chat))
    got = pyarrow.parquet.read_table(tokens).to_pylist()
    for column in token_columns(KINDS[name]):
        assert [row[column] for row in got] == [row[column] for row in wanted]
    if name != "rule_labels":  # of one reply each
        masks = [row[n] for row in got for n in row if n.endswith("_mask")]
        assert any(0 in mask for mask in masks)


def test_parts_of_a_reply_that_do_not_count_stay_untrained(chat, tmp_path):
    """A revision: the mistake is read, the correction trained."""
    (row, *_) = select("wins", play("kuhn_poker", "random", [1])).rows
    parts = [ReplyPart("bet", None, False, False), ReplyPart(" no: pass", None)]
    rows = [row, replace(row, completion=parts)]
    write_rows(rows_to_dataset(rows), tmp_path / "rows.parquet")
    write_tokens(
        tmp_path / "rows.parquet", "completions", chat, tmp_path / "tokens.parquet"
    )
    found = pyarrow.parquet.read_table(tmp_path / "tokens.parquet").to_pylist()
    wanted = list(rows_to_dataset(rows, chat))
    for name in token_columns("completions"):
        assert [one[name] for one in found] == [one[name] for one in wanted]
    assert found[1]["completion_mask"][0] == 0


def test_sampled_tokens_stay_and_other_rows_are_encoded(chat, tmp_path):
    (row, *_) = select("wins", play("kuhn_poker", "random", [1])).rows
    ids = [*chat.ids("bet"), *chat.ids("bet"), chat.end_ids[0]]  # no encoding of a text
    sampled = replace(row, prompt_ids=[4, 5], completion=[ReplyPart("bet", ids)])
    path, tokens = tmp_path / "rows.parquet", tmp_path / "tokens.parquet"
    write_rows(rows_to_dataset([row, sampled]), path)
    assert not check_rows(path, "completions")
    write_tokens(path, "completions", chat, tokens)
    first, second = pyarrow.parquet.read_table(tokens).to_pylist()
    assert first["prompt_ids"] == chat.encode(row.prompt)
    assert (second["prompt_ids"], second["completion_ids"]) == ([4, 5], ids)


def test_pairs_with_tokens_keep_them_as_labels(talked, chat, tmp_path):
    path, tokens = tmp_path / "rows.parquet", tmp_path / "tokens.parquet"
    pairs = rows_to_dataset(select("outcome_pairs", talked).rows, chat)
    write_rows(pairs, path)
    assert not check_rows(path, "labels")
    write_tokens(path, "labels", chat, tokens)
    got = pyarrow.parquet.read_table(tokens).to_pylist()
    wanted = [row[f"{n}_ids"] for row in pairs for n in ("chosen", "rejected")]
    assert [row["completion_ids"] for row in got] == wanted
    assert [row["label"] for row in got] == [True, False] * len(pairs)


def test_turns_of_a_data_set_keep_their_tokens(policy, chat, kuhn_env, tmp_path):
    path, tokens = tmp_path / "turns.parquet", tmp_path / "tokens.parquet"
    played = play(kuhn_env, policy, range(3))
    to_dataset(played).to_parquet(str(path))
    write_tokens(path, "completions", chat, tokens)
    turns = [turn for episode in played for turn in episode.turns]
    got = pyarrow.parquet.read_table(tokens).to_pylist()
    assert [row["completion_ids"] for row in got] == [list(t.token_ids) for t in turns]
    assert [row["prompt_ids"] for row in got] == [list(t.prompt_ids) for t in turns]


def test_every_reply_of_a_conversation_is_trained_and_nothing_else(encoded, chat):
    (row,) = encoded([{**MESSAGES, "id": 7}])
    pairs = zip(row["completion_ids"], row["completion_mask"], strict=True)
    end = chat.end_ids[0]
    wanted = [*chat.ids("pass"), end, *chat.ids("bet"), end]
    assert [token for token, counts in pairs if counts] == wanted
    assert row["prompt_ids"] == chat.encode(MESSAGES["messages"][:1])
    assert row["weight"] == 1.0


def test_a_prompt_and_a_common_beginning_are_the_same_pair(encoded):
    assert encoded([PAIR], "pairs") == encoded([WHOLE], "pairs")
    assert encoded([{**PAIR, "margin": 2}], "pairs")[0]["margin"] == 2.0


def test_pairs_are_a_good_and_a_bad_completion_for_labels(encoded):
    good, bad = encoded([PAIR], "labels")
    assert (good["label"], bad["label"]) == (True, False)
    assert [good] == encoded([LABEL], "labels")


@pytest.mark.parametrize(
    ("row", "kind", "message"),
    [
        (
            {"prompt": "hi", "completion": "bet"},
            "completions",
            "want prompt as messages, got the text 'hi'; write",
        ),
        ({"messages": [user("hi")]}, "completions", "role assistant in messages, got"),
        ({"messages": [says("hi")]}, "completions", "before the first reply, got none"),
        ({**TURN, "completion": [user("x")]}, "completions", "ends with a reply"),
        ({**TURN, "completion": [says("a"), says("b")]}, "completions", "between two"),
        ({**TURN, "completion": []}, "completions", "completion as a list of messages"),
        (
            {**TURN, "prompt": [{"role": "tool", "content": ""}]},
            "completions",
            "a role",
        ),
        (
            {**TURN, "prompt": [{"role": "user", "content": [1]}]},
            "completions",
            "a text",
        ),
        ({**TURN, "tools": [{}]}, "completions", "want no tools, which are not read"),
        ({**TURN, "weight": "1"}, "completions", "want weight as a number, got '1'"),
        ({**LABEL, "label": 1}, "labels", "want label as true or false, got 1"),
        (
            {**PAIR, "rejected": PAIR["chosen"]},
            "pairs",
            "differs from the rejected one",
        ),
    ],
)
def test_a_row_of_another_form_is_named(encoded, row, kind, message):
    good = {"completions": TURN, "labels": LABEL, "pairs": PAIR}[kind]
    with pytest.raises(ValueError, match=rf"rows\.jsonl, row 2: .*{message}"):
        encoded([good, row], kind)


def test_a_line_that_is_no_json_is_named(tmp_path, chat):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(TURN) + "\n\n[1]\n")
    with pytest.raises(ValueError, match=r"line 3: want an object of JSON, got '\[1\]"):
        write_tokens(path, "completions", chat, tmp_path / "tokens.parquet")


@pytest.mark.parametrize(
    ("trainer", "row", "num"),
    [
        ("sft", MESSAGES, 3),
        ("sft", TURN, 3),
        ("kto", LABEL, 3),
        ("kto", PAIR, 6),
        ("dpo", WHOLE, 3),
        ("reward", PAIR, 3),
    ],
)
def test_every_trainer_takes_a_data_set_of_the_user(
    trainer, row, num, model_folder, tmp_path
):
    path = tmp_path / "mine.jsonl"
    path.write_text(3 * (json.dumps(row) + "\n"))
    settings = {"trainer": trainer, "data": str(path), "model": str(model_folder)}
    found = RowRun({**settings, "use_cpu": True}, tmp_path / "run", Console(quiet=True))
    assert found.facts.num_rows == num
    assert found.meters == []  # it names no games
    folder = found.tokens.parent
    del found
    assert not folder.exists()


def test_a_model_without_prompt_options_learns_from_a_data_set_of_the_user(
    arena_here, model_folder, copy_of, tmp_path
):
    (tmp_path / "mine.jsonl").write_text(4 * (json.dumps(MESSAGES) + "\n"))
    words = ["--trainer", "sft", "--data", "mine.jsonl", "--max_steps", 1]
    words += ["--model", copy_of(model_folder, None), "--output-dir", "run"]
    done = arena_here("train", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    prompt = json.loads((tmp_path / "run" / "model" / "arena_prompt.json").read_text())
    assert prompt["max_new_tokens"] == 2
    done = arena_here("train", *words[:6], cwd=tmp_path)
    assert "for the words of the tiny model, got 'mine.jsonl' without" in done.stderr


def test_a_completion_of_a_text_alone_has_no_columns_of_parts():
    (row, *_) = select("wins", play("kuhn_poker", "random", [1])).rows
    assert isinstance(row, Completion)
    assert not any(n.endswith("_parts") for n in rows_to_dataset([row]).column_names)
