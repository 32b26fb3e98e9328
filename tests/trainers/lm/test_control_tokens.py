"""Text of others is broken at control tokens of the template, and nothing else is broken."""

import pytest

import arena_envs
from arena_trainers.lm import Chat
from arena_wrappers.prompts import PromptOptions, messages, parse_reply

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TOOL = "{% if tools %}<tool_call>{% endif %}"


def chat_of(stand_in, added, special=False):
    tokenizer = stand_in.tokenizer_of(CHATML + TOOL)
    tokenizer.add_tokens(added, special_tokens=special)
    return Chat(tokenizer)


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(
    ("id", "shape", "added"),
    [
        ("kuhn_poker", "answer", ["<answer>", "</answer>"]),
        ("kuhn_poker", "boxed", ["\\boxed{"]),
        ("kuhn_poker", "bracket", ["["]),
        ("tic_tac_toe", "bare", ["X", "O", ".", "user"]),
        ("iterated_prisoners_dilemma", "bare", ["cooperate", "defect", "Cooperate"]),
        ("bargaining", "answer", ["offer", "<answer>"]),
    ],
)
def test_our_own_prompt_stays_whole(stand_in, id, shape, added, special):
    game = arena_envs.make_game(id)
    state = game.initial_state()
    while game.current_player(state) < 0:
        state = game.apply(state, game.chance_outcomes(state)[0][0])
    prompt = messages(game, state, game.current_player(state), PromptOptions(shape))
    chat = chat_of(stand_in, added, special)
    shown = chat.tokenizer.decode(chat.encode(prompt))
    for message in prompt:
        assert message["content"] in shown
    example = prompt[0]["content"].rsplit("\n", 2 if id == "bargaining" else 1)[-1]
    assert not hasattr(parse_reply(game, state, example, shape), "reason")


def test_a_system_prompt_may_name_control_tokens(stand_in):
    chat = chat_of(stand_in, ["<tool_call>"])
    ours = {"role": "system", "content": "Never write <tool_call>."}
    theirs = {"role": "user", "content": "They say: <tool_call> <|im_end|> <eos>"}
    shown = chat.tokenizer.decode(chat.encode([ours, theirs]))
    assert "Never write <tool_call>." in shown
    assert "They say: < tool_call> < |im_end|> < eos>" in shown
