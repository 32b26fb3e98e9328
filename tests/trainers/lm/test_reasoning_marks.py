"""Marks of reasoning are those of the model's chat template; what they enclose stays private."""

import json

import pytest

import arena_envs
from arena_trainers.lm import Chat, LMPolicy
from arena_trainers.lm.backends import Generated
from arena_trainers.runs import tiny_model
from arena_wrappers import PromptWrapper, make_policy, play

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
OPENS = CHATML.replace("assistant\n{% endif", "assistant\n<think>\n{% endif")
PONDERS = CHATML.replace("assistant\n{% endif", "assistant\n<ponder>\n{% endif")
SHOWS_PONDERING = PONDERS.replace(
    "{{ m.content }}",
    "{% if m.reasoning_content %}<ponder>\n{{ m.reasoning_content }}\n</ponder>\n{% endif %}"
    "{{ m.content }}",
)
PARTS = CHATML.replace(
    "{{ m.content }}",
    "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
    "{{ '[THINK]' + part.thinking + '[/THINK]' if part.type == 'thinking' else part.text }}"
    "{% endfor %}{% endif %}",
)
COHERE = CHATML.replace(
    "{{ m.content }}",
    "{% if m.thinking %}<|START_THINKING|>{{ m.thinking }}<|END_THINKING|>{% endif %}"
    "{% if m.role == 'assistant' %}<|START_RESPONSE|>{% endif %}{{ m.content }}",
)
SEED = CHATML.replace(
    "{{ m.content }}",
    "{% if m.reasoning_content %}<seed:think>{{ m.reasoning_content }}</seed:think>\n{% endif %}"
    "{{ m.content }}",
)
DROPS = CHATML.replace("{{ m.content }}", "{{ m.content }}{# m.reasoning_content #}")
ASKED = [{"role": "user", "content": "Bet?"}]
SECRET = "My secret reservation value is 10, so I must hide it.\noffer 40"


class Saying:
    """A backend that always says the same."""

    runs_model = False

    def __init__(self, tokenizer, text):
        self.ids = tokenizer.encode(text, add_special_tokens=False)
        self.ids.append(tokenizer.convert_tokens_to_ids("<|im_end|>"))

    def generate(self, prompt_ids, seeds, sampling):
        num = len(prompt_ids)
        return Generated([[*self.ids]] * num, [[-1.0] * len(self.ids)] * num)


@pytest.fixture
def saying(stand_in):
    def make(template, text, **options):
        tokenizer = stand_in.tokenizer_of(template)
        model = tiny_model(tokenizer, hidden_size=8, num_layers=1)
        return LMPolicy(model, tokenizer, backend=Saying(tokenizer, text), **options)

    return make


@pytest.mark.parametrize(
    ("template", "opening", "closing"),
    [
        (CHATML, "<think>", "</think>"),
        (OPENS, "<think>", "</think>"),
        (PARTS, "[THINK]", "[/THINK]"),
        (COHERE, "<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
        (SEED, "<seed:think>", "</seed:think>"),
        (SHOWS_PONDERING, "<ponder>", "</ponder>"),
    ],
)
def test_marks_are_learned_from_the_template(stand_in, template, opening, closing):
    marks = Chat(stand_in.tokenizer_of(template)).marks
    assert (marks.opening, marks.closing) == (opening, closing)


@pytest.mark.parametrize(
    ("template", "reason"),
    [(PONDERS, r"the prompt ends with '<ponder>\\n'"), (DROPS, "shows none")],
)
def test_marks_that_are_not_understood_are_refused_with_how_to_state_them(
    stand_in, template, reason
):
    tokenizer = stand_in.tokenizer_of(template)
    with pytest.raises(ValueError, match=f"{reason}.*state them as reasoning_marks"):
        Chat(tokenizer)
    marks = Chat(tokenizer, reasoning_marks=["<ponder>", "</ponder>"]).marks
    assert (marks.opening, marks.closing) == ("<ponder>", "</ponder>")
    Chat(tokenizer, reasoning_marks=[])


@pytest.mark.parametrize("parsing", ["tolerant", "strict"])
@pytest.mark.parametrize(
    ("template", "close"),
    [(OPENS, "</think>"), (SHOWS_PONDERING, "</ponder>")],
)
def test_reasoning_that_the_prompt_opens_is_neither_played_nor_shown(
    saying, template, close, parsing
):
    def replied(text):
        policy = saying(template, text, max_new_tokens=300)
        env = PromptWrapper(arena_envs.make("bargaining"), "bare", parsing=parsing)
        (episode,) = play(lambda: env, [policy, make_policy("random")], [1])
        others = [t.messages[-1]["content"] for t in episode.turns if t.seat == 1]
        assert not any("secret" in text for text in others)
        return episode.turns[0]

    turn = replied(SECRET)
    assert (turn.action, turn.invalid) == (None, "reasoning")
    assert turn.reply == f"<think>\n{SECRET}"
    turn = replied(f"{SECRET}{close}offer 30")
    assert (turn.action, turn.invalid) == ("offer 30", None)


def test_a_legal_reply_closes_the_reasoning_that_the_prompt_opens(saying):
    policy = saying(SHOWS_PONDERING, "x", max_new_tokens=9)
    ids = policy.chat.reply_ids(policy.encode(ASKED), "bet")
    assert policy.tokenizer.decode(ids) == "\n</ponder>\nbet"
    shown = policy.generate([policy.encode(ASKED)], [0])
    assert shown[0].text == "<think>\nx"
    env = PromptWrapper(arena_envs.make("kuhn_poker"), "bare", rules=False)
    env.reset(seed=0)
    whole = policy.chat.readable_reply(policy.encode(ASKED), "\n</ponder>\nbet")
    assert env.options_of(0).parse(env.env.game, env.env.game_state, whole) == 1


def test_reasoning_that_a_prompt_opens_by_several_tokens_is_seen(stand_in):
    template = CHATML.replace(
        "assistant\n{% endif", "assistant<|channel|>analysis<|message|>{% endif"
    )
    chat = Chat(stand_in.tokenizer_of(template))
    text = chat.readable_reply(chat.encode(ASKED), "I bet.")
    assert text == "<|channel|>analysis<|message|>I bet."


def spans_of(chat, ids):
    """0 for each token of reasoning, else 1."""
    prompt = chat.encode(ASKED)
    return chat.spans(prompt, ids, chat.readable_reply(prompt, chat.decoded(ids)))


def spanned(chat, text):
    """The texts of a reply's tokens of reasoning, and of the others."""
    ids = chat.tokenizer.encode(text, add_special_tokens=False)
    pairs = list(zip(ids, spans_of(chat, ids), strict=True))
    return tuple(
        chat.decoded([i for i, span in pairs if span == kind]) for kind in (0, 1)
    )


@pytest.mark.parametrize(
    ("template", "text", "reasoning", "answer"),
    [
        (OPENS, "K is high.</think>bet", "K is high.</think>", "bet"),
        (OPENS, "K is high.", "K is high.", ""),
        (CHATML, "so <think>K</think>bet", "K</think>", "so <think>bet"),
        (CHATML, "bet", "", "bet"),
        (SHOWS_PONDERING, "K</ponder>bet", "K</ponder>", "bet"),
        (
            COHERE,
            "<|START_THINKING|>K<|END_THINKING|><|START_RESPONSE|>bet",
            "K<|END_THINKING|>",
            "<|START_THINKING|><|START_RESPONSE|>bet",
        ),
    ],
)
def test_tokens_of_reasoning_are_told_from_those_of_the_answer(
    stand_in, template, text, reasoning, answer
):
    chat = Chat(stand_in.tokenizer_of(template))
    assert spanned(chat, text) == (reasoning, answer)


def test_whether_a_token_is_reasoning_does_not_depend_on_it_or_what_follows(stand_in):
    """Else surprise of reasoning would not have mean 0."""
    chat = Chat(stand_in.tokenizer_of(COHERE))
    text = "a<think>b</think>c<|START_THINKING|>d<|END_THINKING|><|START_RESPONSE|>e"
    ids = chat.tokenizer.encode(text, add_special_tokens=False)
    whole = spans_of(chat, ids)
    for length in range(len(ids)):
        for other in (
            ids[0],
            ids[-1],
            *chat.tokenizer.encode("<>[", add_special_tokens=False),
        ):
            changed = spans_of(chat, [*ids[:length], other])
            assert changed == whole[: length + 1]


def test_a_reply_in_a_channel_has_the_header_of_the_template(stand_in):
    chat = Chat(stand_in.tokenizer_of(stand_in.TEMPLATES["gptoss"]))
    ids = chat.reply_ids(chat.encode(ASKED), "bet")
    assert chat.tokenizer.decode(ids) == "<|channel|>final<|message|>bet"


def test_stated_marks_are_saved_with_the_model(saying, tmp_path):
    policy = saying(PONDERS, "x", reasoning_marks=["<ponder>", "</ponder>"])
    policy.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "arena_prompt.json").read_text())
    assert saved["reasoning_marks"] == ["<ponder>", "</ponder>"]
    assert LMPolicy.from_pretrained(tmp_path).chat.marks.opening == "<ponder>"
    (tmp_path / "arena_prompt.json").write_text('{"reasoning_marks": ["<ponder>"]}')
    with pytest.raises(ValueError, match="reasoning_marks as two texts"):
        LMPolicy.from_pretrained(tmp_path)
