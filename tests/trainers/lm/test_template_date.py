"""Chat templates that tell the day get it from the prompt's options, not from the clock."""

import pytest

import arena_envs
from arena_trainers.lm import Chat, LMPolicy
from arena_trainers.runs import tiny_model
from arena_wrappers import PromptWrapper, play
from arena_wrappers.prompts import DATE, PromptOptions

DATED = "{{ strftime_now('%A %d %B %Y %H:%M') }}" + (
    "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
)
ASKED = [{"role": "user", "content": "Bet?"}]


@pytest.mark.parametrize("name", ["llama3_2", "gptoss"])
def test_a_prompt_is_of_the_fixed_day(stand_in, name):
    chat = Chat(stand_in.tokenizer_of(stand_in.TEMPLATES[name]))
    shown = chat.tokenizer.decode(chat.encode(ASKED))
    assert {"llama3_2": "01 Jan 2026", "gptoss": DATE}[name] in shown


def test_the_day_is_an_option_of_the_prompt_and_in_the_record(stand_in):
    tokenizer = stand_in.tokenizer_of(DATED)
    model = tiny_model(tokenizer, hidden_size=8, num_layers=1)

    def prompts(own, **options):
        policy = LMPolicy(model, tokenizer, max_new_tokens=1, prompt=own)
        env = PromptWrapper(arena_envs.make("kuhn_poker"), "bare", **options)
        (episode,) = play(lambda: env, policy, [0])
        shown = tokenizer.decode(episode.turns[0].prompt_ids)
        return shown.partition("<|im_start|>")[0], episode.prompt["date"]

    assert prompts(None) == ("Thursday 01 January 2026 00:00", DATE)
    assert prompts(None, date="2027-02-03")[0].startswith("Wednesday 03 February 2027")
    named = PromptOptions("bare", date="2027-02-03")
    assert prompts(named) == ("Wednesday 03 February 2027 00:00", "2027-02-03")
    with pytest.raises(
        ValueError, match="want a date such as '2026-01-01', got 'today'"
    ):
        PromptOptions(date="today")
