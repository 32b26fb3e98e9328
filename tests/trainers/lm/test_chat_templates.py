"""Every chat template that ships with TRL prompts, ends replies, and goes on after them."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import trl

import arena_envs
from arena_trainers.lm import Chat, LMPolicy
from arena_trainers.runs import tiny_model
from arena_trainers.train import TrainingRow, trajectory_rows
from arena_wrappers import PromptWrapper, play

FOLDER = Path(trl.__file__).parent / "chat_templates"
NAMES = sorted(path.stem for path in FOLDER.glob("*.jinja"))

RULES = {"role": "system", "content": "The rules."}
ASKED = {"role": "user", "content": "First?"}
REPLY = {"role": "assistant", "content": "my reply"}
AGAIN = {"role": "user", "content": "Second?"}

# by the beginning of the template's name: the token after a reply that its maker documents
ENDS = {
    "cohere2": "<|END_RESPONSE|>",
    "cohere": "<|END_OF_TURN_TOKEN|>",
    "deepseek": "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "diffusion_gemma": "<turn|>",
    "gemma4": "<turn|>",
    "gemma": "<end_of_turn>",
    "glm4moe_training": "<|user|>",
    "glm4moe": "<eos>",  # it writes none
    "gptoss": "<|return|>",
    "idefics3": "<end_of_utterance>",
    "lfm2": "<|im_end|>",
    "llama3": "<|eot_id|>",
    "llava_next": "</s>",
    "muse_glimmer": "<|eot|>",
    "nemotron": "<|im_end|>",
    "phi3": "<|end|>",
    "qwen": "<|im_end|>",
    "smolvlm": "<end_of_utterance>",
}
# one template of each
FAMILIES = [next(name for name in NAMES if name.startswith(begin)) for begin in ENDS]
# what they show of an earlier reply does not follow their prompt for it: they drop or add
# reasoning, name the channel that a reply was in, or put a blank before it
REWRITE = (
    *("deepseek", "glm4moe", "gptoss", "muse", "nemotron", "qwen3_5", "qwen3_6"),
    *("qwen3_8", "qwen3_training", "idefics3", "llava_next", "smolvlm"),
)


@pytest.fixture(scope="module")
def model(stand_in):
    """One for all: the tokenizers have the same tokens."""
    tokenizer = stand_in.tokenizer_of("none")
    return tiny_model(tokenizer, hidden_size=8, num_layers=1).eval()


@pytest.fixture(scope="module", params=NAMES)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def chat(name, stand_in):
    return Chat(stand_in.tokenizer_of(stand_in.TEMPLATES[name]))


def test_there_are_templates():
    assert len(NAMES) >= 70


def test_a_prompt_shows_the_rules_and_the_state_once_and_in_order(chat):
    text = chat.tokenizer.decode(chat.encode([RULES, ASKED]))
    assert text.count("The rules.") == text.count("First?") == 1
    assert text.index("The rules.") < text.index("First?")


def test_the_end_of_a_turn_is_found_in_the_template(name, chat):
    end = next(end for prefix, end in ENDS.items() if name.startswith(prefix))
    ends = chat.tokenizer.convert_ids_to_tokens(chat.end_ids)
    assert ends == list(dict.fromkeys([end, "<eos>"]))


def test_a_transcript_goes_on_as_the_template_would(name, chat):
    """After a reply and its end token, or a reply that was cut: the template's own text."""
    first = chat.encode([RULES, ASKED])
    said = chat.ids("my reply")
    whole = chat.encode([RULES, ASKED, REPLY, AGAIN])
    replied = [*first, *said, chat.end_ids[0]]
    messages = [RULES, ASKED, REPLY, AGAIN]
    going_on = chat.continuation(replied, messages)
    text = chat.tokenizer.decode(going_on)
    assert text.count("Second?") == 1
    assert "First?" not in text
    assert "my reply" not in text
    shown = whole[-len(going_on) :]
    assert going_on == shown  # the same tokens after the end of the reply
    if not name.startswith(REWRITE):
        assert [*replied, *going_on] == whole
    cut = [*first, *said]
    closed = chat.continuation(cut, messages)
    assert closed[-len(going_on) :] == going_on
    if chat.tokenizer.convert_ids_to_tokens(chat.end_ids[0]) != "<eos>":
        assert len(closed) > len(going_on)  # what was cut is closed first


def test_a_reply_that_ended_with_the_tokenizers_eos_is_not_ended_twice(name, chat):
    said = [*chat.encode([RULES, ASKED]), *chat.ids("my reply")]
    messages = [RULES, ASKED, REPLY, AGAIN]
    after_end = chat.continuation([*said, chat.end_ids[0]], messages)
    after_eos = chat.continuation([*said, chat.tokenizer.eos_token_id], messages)
    if name == "glm4moe_training":  # what ends a turn there opens the next message
        after_end = [chat.end_ids[0], *after_end]
    assert after_eos == after_end


def test_a_retry_is_shown_to_the_seat(chat):
    ids = chat.encode([RULES, ASKED, REPLY, {"role": "user", "content": "Again."}])
    text = chat.tokenizer.decode(ids)
    places = [
        text.index(part) for part in ("The rules.", "First?", "my reply", "Again.")
    ]
    assert places == sorted(places)


@pytest.mark.parametrize("family", FAMILIES)
def test_trajectories_are_token_exact(family, model, stand_in):
    """A row of a seat is what the model read and said, token for token."""
    tokenizer = stand_in.tokenizer_of(stand_in.TEMPLATES[family])
    policy = LMPolicy(model, tokenizer, max_new_tokens=2)
    env = PromptWrapper(
        arena_envs.make("tic_tac_toe", max_turns=4),
        "bare",
        history="transcript",
        rules=False,
        show_legal_actions=False,
        on_invalid="random",
    )
    (episode,) = play(lambda: env, policy, [1], on_error="raise")
    rows = [
        TrainingRow(t.prompt_ids, t.token_ids, np.zeros(2), 0.0, trajectory=(0, t.seat))
        for t in episode.turns
    ]
    joined = trajectory_rows(rows)
    assert len(joined) == 2
    for seat, row in enumerate(joined):
        own = [turn for turn in episode.turns if turn.seat == seat]
        whole = own[-1].prompt_ids + own[-1].token_ids
        assert [*row.prompt_ids, *row.completion_ids] == whole
        said = list(itertools.compress(row.completion_ids, row.mask))
        assert said == [i for turn in own for i in turn.token_ids]
