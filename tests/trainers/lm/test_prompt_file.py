"""A saved model is prompted and sampled as it was when it was saved."""

import io
import json
import sys
from dataclasses import replace
from typing import Any

import pytest

import arena_envs
from arena_eval import (
    evaluate,
    exploitability,
    sampled_exploitability,
    tabular,
)
from arena_eval.tournament import play_tournament
from arena_trainers import TurnGRPOConfig
from arena_trainers.cli import main as cli
from arena_trainers.lm import PROMPT_FILE, LMPolicy, prompt_json, read_prompt_file
from arena_trainers.train import ExactCritic, GamePlan, check_exact_opponents, opponents
from arena_wrappers import (
    PromptOptions,
    RandomPolicy,
    ScriptedPolicy,
    make_policy,
    play,
    read_episodes,
    replay,
)
from arena_wrappers.prompts import seat_options
from arena_wrappers.records import EpisodeLog

SHORT = PromptOptions("bare", rules=False)
OTHER = '{"reply_format": "bare", "show_legal_actions": false, "max_new_tokens": 3}'
KUHN = arena_envs.make_game("kuhn_poker")


def arena(capsys, monkeypatch, *arguments):
    """Status, standard output and standard error of a command in this process."""
    monkeypatch.setattr(sys, "argv", ["arena", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    shown = capsys.readouterr()
    lines = shown.err.splitlines()  # of transformers, too, which was imported before
    errors = [line for line in lines if line and "Loading weights" not in line]
    return stopped.value.code, shown.out, errors


def invalid(found):
    """Share of invalid replies in the last row of the policy."""
    return sum([r for r in found.rows if r.role == "policy"][-1].invalid.values())


def test_a_model_trained_with_short_prompts_plays_legally_by_default(model_folder):
    """Evaluated with the default prompts, every reply of this model would be invalid."""
    name = f"lm:{model_folder}"
    found = evaluate(name, "kuhn_poker", ["random"], 40, baselines=False)
    assert invalid(found) < 0.1
    assert found.warnings == ()


def test_a_model_without_the_file_is_warned_about(model_folder, copy_of):
    name = f"lm:{copy_of(model_folder, None)}"
    with pytest.warns(UserWarning, match="% of 10 replies in kuhn_poker-v0") as caught:
        found = evaluate(
            *(name, "kuhn_poker", ["random"], 5),
            baselines=False,
            prompt={"parsing": "strict"},
        )
    assert invalid(found) > 0.9
    (text,) = found.warnings
    assert [str(w.message) for w in caught] == [text]
    assert caught[0].filename == __file__
    for part in (name, "(", "The first is '", "reply_format='answer', rules=True"):
        assert part in text
    assert "--prompt reply_format=" in text


def test_warnings_quote_little_of_a_reply_and_escape_it():
    talker = ScriptedPolicy(lambda request: "\x1b[2J\n\ud800" + "好" * 10_000, "talker")
    with pytest.warns(UserWarning, match="talker: 100% of 4 replies"):
        found = evaluate(talker, "kuhn_poker", ["random"], 2, baselines=False)
    (text,) = found.warnings
    assert r"'\x1b[2J\n\ud800好好" in text
    assert "... of 10006 characters" in text
    assert len(text) < 1000
    assert text.isprintable()


def test_no_warning_where_half_of_the_replies_are_legal():
    texts = ["<answer>pass</answer>", "?"]
    half = ScriptedPolicy(lambda request: texts[request.seat], "half")
    found = evaluate(half, "kuhn_poker", ["first"], 4, baselines=False)
    assert found.warnings == ()


def test_a_saved_policy_comes_back_as_it_was(policy, tmp_path):
    options = {"temperature": 0.5, "top_k": 3, "top_p": 0.9, "max_new_tokens": 7}
    options |= {"min_p": 0.1, "repetition_penalty": 1.5}
    template = {"enable_thinking": False}
    saved = LMPolicy(
        policy.model,
        policy.tokenizer,
        prompt=SHORT,
        chat_template_kwargs=template,
        **options,
    )
    saved.save_pretrained(tmp_path)
    by_name: Any = make_policy(f"lm:{tmp_path}")
    for loaded in (by_name, LMPolicy.from_pretrained(tmp_path)):
        assert loaded.prompt == SHORT
        assert loaded.chat_template_kwargs == template
        assert loaded.sampling.options == options
    given = LMPolicy.from_pretrained(tmp_path, top_k=0)
    assert given.sampling.top_k == 0  # what is given holds


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "want JSON in "),
        ("[" * 100_000, "want JSON in "),
        ("[1]", "want a JSON object in "),
        ('{"rule": true}', "has no option 'rule'; did you mean 'rules'"),
        ('{"rules": "no"}', "want rules as True or False, got 'no'"),
        (
            '{"reply_format": "bear"}',
            "unknown reply format 'bear'; did you mean 'bare'",
        ),
        ('{"history": 3}', "unknown history 3"),
        ('{"max_new_tokens": 0}', "want max_new_tokens as an integer of at least 1"),
        ('{"max_new_tokens": true}', "want max_new_tokens as an integer of at least 1"),
        ('{"temperature": NaN}', "want temperature as a number of at least 0, got nan"),
        ('{"top_k": 1.5}', "want top_k as an integer of at least 0, got 1.5"),
        ('{"top_p": 2}', "want top_p as a number above 0, at most 1, got 2"),
        ('{"chat_template_kwargs": []}', "want chat_template_kwargs as an object"),
    ],
)
def test_a_broken_file_is_refused_by_name(tmp_path, content, message):
    path = tmp_path / PROMPT_FILE
    path.write_text(content)
    with pytest.raises(ValueError, match=r"arena_prompt\.json") as refused:
        read_prompt_file(tmp_path)
    assert message in str(refused.value)
    assert str(path) in str(refused.value)
    assert len(str(refused.value)) < len(str(path)) + 300


def test_what_a_file_cannot_hold_is_refused():
    with pytest.raises(ValueError, match=r"arena_prompt\.json cannot hold"):
        prompt_json(SHORT, {"chat_template_kwargs": {"tools": object()}})


def test_every_model_that_a_trainer_saves_has_the_file(make_trainer, tmp_path):
    trainer = make_trainer(save_strategy="steps", save_steps=1, temperature=0.9)
    trainer.train()
    trainer.save_model(str(tmp_path / "model"))
    for folder in (tmp_path / "model", tmp_path / "out" / "checkpoint-1"):
        loaded = LMPolicy.from_pretrained(folder)
        assert loaded.prompt == trainer.policy.prompt == SHORT
        assert (loaded.sampling.max_new_tokens, loaded.sampling.temperature) == (2, 0.9)


def test_two_models_with_different_options_meet_and_replay(model_folder, copy_of):
    models = [
        make_policy(f"lm:{folder}")
        for folder in (model_folder, copy_of(model_folder, OTHER))
    ]
    env = arena_envs.make("kuhn_poker")
    for episode in play(lambda: env, models, range(10), on_error="raise"):
        for turn in episode.turns:
            system = turn.messages[0]["role"] == "system"
            assert system == (turn.seat == 1)
            listed = "Legal actions" in turn.messages[-1]["content"]
            assert listed == (turn.seat == 0)
        assert replay(episode) == episode
        assert seat_options(episode.prompt, 0) == SHORT


def test_exact_evaluation_reads_a_model_by_its_own_options(model_folder):
    policy: Any = make_policy(f"lm:{model_folder}")
    assert exploitability(policy, KUHN) == exploitability(policy, KUHN, SHORT)
    assert exploitability(policy, KUHN).illegal_mass < 0.1
    assert tabular(policy, KUHN) == tabular(policy, KUHN, SHORT)
    assert sampled_exploitability(policy, KUHN, 5).illegal_mass < 0.2
    policy.prompt = replace(SHORT, history="transcript")
    for measure in (exploitability, sampled_exploitability):
        with pytest.raises(ValueError, match="want history='state' in the prompts"):
            measure(policy, KUHN)
    assert exploitability(policy, KUHN, SHORT).illegal_mass < 0.1


def test_opponents_in_training_read_their_own_prompts(model_folder, copy_of, settings):
    own, bare = f"lm:{model_folder}", f"lm:{copy_of(model_folder, None)}"
    games = [
        {"id": "kuhn_poker", "opponents": ["self", own]},
        {"id": "kuhn_poker", "opponents": [bare, "self"]},
    ]
    learner = {"reply_format": "boxed", "rules": True, "max_completion_length": 9}
    args = TurnGRPOConfig(**{**settings, **learner, "games": games})
    plans = [GamePlan(spec, args) for spec in args.games]
    found: Any = opponents(plans, args, {})
    assert (found[own].prompt, found[own].sampling.max_new_tokens) == (SHORT, 2)
    assert (found[bare].prompt, found[bare].sampling.max_new_tokens) == (None, 9)
    seats = [RandomPolicy(), found[own]]
    (episode,) = play(plans[0].env_fn, seats, [0])
    assert seat_options(episode.prompt, 0) == args.prompt == PromptOptions("boxed")
    assert seat_options(episode.prompt, 1) == SHORT


def test_an_exact_critic_asks_each_policy_by_its_own_prompts(policy, settings):
    opponent = LMPolicy(policy.model, policy.tokenizer, prompt=SHORT)
    policy.prompt = PromptOptions("bare", rules=False, show_legal_actions=False)
    critic = ExactCritic([KUHN], [[policy, opponent]], PromptOptions("boxed"))
    table, _ = critic._table(0)
    for seat, other in enumerate((policy, opponent)):
        own, _ = tabular(other, KUHN, other.prompt, [seat])
        assert {key: table[key] for key in own} == own
    game = {"id": "kuhn_poker", "opponents": ["self", "x"]}
    exact = {"critic": "exact", "credit": "counterfactual", "games": [game]}
    args = TurnGRPOConfig(**{**settings, **exact})
    plans = [GamePlan(game, args)]
    check_exact_opponents(args, plans, {"x": opponent})
    opponent.prompt = replace(SHORT, history="transcript")
    with pytest.raises(ValueError, match="takes history 'state', got 'x' in seat 1"):
        check_exact_opponents(args, plans, {"x": opponent})


def test_the_command_line_overrides_what_a_model_brings(
    model_folder, tmp_path, capsys, monkeypatch
):
    out = tmp_path / "log.jsonl"
    arguments = ("eval", f"lm:{model_folder}", "kuhn_poker", "-n", "4", "--json")
    code, shown, errors = arena(
        *(capsys, monkeypatch, *arguments, "--no-baselines", "--out", out),
        *(
            "--prompt",
            "reply_format=boxed",
            "--sampling",
            "max_new_tokens=5",
            "--prompt",
            "parsing=strict",
        ),
    )
    assert code == 0
    (text,) = json.loads(shown)["warnings"]  # stays a document
    assert errors == [f"warning: {text}"]
    assert "reply_format='boxed', rules=False" in text  # only what was given changes
    for episode in EpisodeLog(out):
        assert {seat_options(episode.prompt, s).reply_format for s in (0, 1)} == {
            "boxed"
        }
        assert all(len(turn.token_ids or []) <= 5 for turn in episode.turns)


def test_a_person_is_told_that_the_opponent_replies_invalidly(
    model_folder, tmp_path, capsys, monkeypatch
):
    out = tmp_path / "log.jsonl"
    arguments = ("play", "kuhn_poker", "-a", f"lm:{model_folder}", "--seat", 1)
    for option in (
        (),
        ("--prompt", "reply_format=answer", "--prompt", "parsing=strict"),
    ):
        monkeypatch.setattr(sys, "stdin", io.StringIO("bet\n" * 2))
        code, shown, errors = arena(
            *(capsys, monkeypatch, *arguments, *option),
            *("--seed", 3, "--sampling", "temperature=0.1", "--out", out),
        )
        assert code == 0
    assert "player_0 forfeits: format" in shown
    loading, warning = errors
    assert loading == f"loading lm:{model_folder} ..."
    assert warning.startswith(f"warning: lm:{model_folder}: 100% of 1 replies")
    first, second = read_episodes(out)
    assert [turn.invalid for turn in first.turns] == [None] * len(first.turns)
    assert [seat_options(second.prompt, seat).rules for seat in (0, 1)] == [False, True]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["--sampling", "temperature=0.5"],
            "--sampling needs a policy lm:PATH, api:MODEL or vllm:URL, got random",
        ),
        (["--prompt", "history=all"], "unknown history 'all'"),
        (["--prompt", "on_invalid=raise"], "unknown on_invalid 'raise'"),
    ],
)
def test_options_that_cannot_hold_are_refused(options, sentence, capsys, monkeypatch):
    found = arena(capsys, monkeypatch, "eval", "random", "kuhn_poker", *options)
    code, shown, (error,) = found
    assert (code, shown) == (2, "")
    assert error.startswith(f"error: {sentence}")


def test_a_tournament_warns_and_does_not_mix_prompts(tmp_path):
    """What was read from the file counts, and other options are another tournament."""

    def wrong(**options):
        policy: Any = ScriptedPolicy(lambda request: "?", "wrong")
        policy.prompt = PromptOptions(**options)
        return policy

    out = tmp_path / "results.jsonl"
    for _ in range(2):  # the second time nothing is left to play
        with pytest.warns(UserWarning, match="wrong: 100% of 4 replies") as caught:
            found = play_tournament([wrong(), "first"], ["kuhn_poker"], 2, out=out)
        assert [str(w.message) for w in caught] == list(found.warnings)
    with pytest.raises(ValueError, match="of another tournament: its own_prompts"):
        play_tournament([wrong(rules=False), "first"], ["kuhn_poker"], 2, out=out)
