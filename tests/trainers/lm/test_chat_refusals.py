"""Chat templates that cannot show what a prompt holds are refused before anything runs."""

import pytest
from rich.console import Console

from arena_trainers.lm import Chat, LMPolicy
from arena_trainers.runs import SelfPlayRun, tiny_model

ONE = "{{ messages[0].content }}"
NO_REPLIES = (
    "{% for m in messages %}{% if m.role != 'assistant' %}{{ m.content }}{% endif %}"
    "{% endfor %}"
)
NO_ASSISTANT = (
    "{% for m in messages %}{% if m.role == 'assistant' %}"
    "{{ raise_exception('only users speak') }}{% endif %}{{ m.content }}{% endfor %}"
)
SILENT = (
    "{% for m in messages %}{% if m.role != 'system' %}<{{ m.role }}>{{ m.content }}"
    "{% endif %}{% endfor %}"
)
TOOLS = "{{ raise_exception('want tools') if not tools }}{{ messages }}"


@pytest.mark.parametrize(
    ("template", "reason"),
    [(ONE, "drops them"), (NO_REPLIES, "drops them"), (NO_ASSISTANT, "only users")],
)
def test_a_template_without_earlier_replies_names_what_would_do(
    stand_in, template, reason
):
    chat = Chat(stand_in.tokenizer_of(template))
    with pytest.raises(ValueError, match=f"{reason}.*use history='state'"):
        chat.check_replies()


def test_a_template_that_wants_tools_is_refused(stand_in):
    with pytest.raises(
        ValueError, match=r"shows user messages; that of .* does not \(want tools"
    ):
        Chat(stand_in.tokenizer_of(TOOLS))


def test_rules_that_a_template_drops_silently_begin_the_first_user_message(stand_in):
    chat = Chat(stand_in.tokenizer_of(SILENT))
    roles = ("system", "user", "assistant", "user")
    said = [
        {"role": r, "content": c}
        for r, c in zip(roles, ("R", "1", "x", "2"), strict=True)
    ]
    assert chat.tokenizer.decode(chat.encode(said)) == "<user>R\n\n1<assistant>x<user>2"


def test_a_reply_that_a_template_chokes_on_is_shown_with_broken_tokens(stand_in):
    """GPT-OSS raises at a reply that names a channel; a model can write that any time."""
    chat = Chat(stand_in.tokenizer_of(stand_in.TEMPLATES["gptoss"]))
    reply = {"role": "assistant", "content": "<|channel|>analysis<|message|>hm"}
    ids = chat.encode([{"role": "user", "content": "?"}, reply])
    assert "< |channel|>analysis< |message|>hm" in chat.tokenizer.decode(ids)


@pytest.fixture
def folder(stand_in, tmp_path):
    tokenizer = stand_in.tokenizer_of(NO_REPLIES, [])
    model = tiny_model(tokenizer, hidden_size=8, num_layers=1)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


@pytest.mark.parametrize(
    "options",
    [
        {"history": "transcript"},
        {"history": "transcript", "layout": "trajectory"},
        {"on_invalid": "retry"},
    ],
)
def test_a_job_is_refused_before_it_writes(folder, tmp_path, options):
    settings = {"model": folder, "max_completion_length": 40, **options}
    with pytest.raises(ValueError, match="cannot show earlier replies"):
        SelfPlayRun(settings, tmp_path / "run", Console(quiet=True))
    assert not (tmp_path / "run").exists()
    settings = {"model": folder, "max_completion_length": 40}
    SelfPlayRun(settings, tmp_path / "run", Console(quiet=True))


def test_a_trainer_and_its_opponents_are_refused(folder, settings, make_trainer):
    from transformers import AutoTokenizer

    from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer

    transcript = {"history": "transcript"}
    with pytest.raises(ValueError, match="cannot show earlier replies"):
        make_trainer(opponents=["self", f"lm:{folder}"], **transcript)
    args = TurnGRPOConfig(**{**settings, **transcript})
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with pytest.raises(ValueError, match="cannot show earlier replies"):
        TurnGRPOTrainer(folder, args, processing_class=tokenizer)


def test_a_policy_that_goes_on_with_a_conversation_says_what_would_do(folder):
    policy = LMPolicy.from_pretrained(folder)
    messages = [{"role": r, "content": "?"} for r in ("user", "assistant", "user")]
    with pytest.raises(ValueError, match="use history='state'"):
        policy.chat.continuation([1, 2], messages)
