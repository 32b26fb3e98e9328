"""Replies are encoded behind their prompts, whatever blank a tokenizer writes at a beginning."""

import pytest
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import PreTrainedTokenizerFast

import arena_envs
from arena_trainers.data import Example, columns_of_row, select
from arena_trainers.lm import Chat, LMPolicy
from arena_trainers.offline.warm_start import warm_start
from arena_trainers.runs import tiny_model
from arena_wrappers import PromptWrapper, play
from arena_wrappers.policies import TurnRequest
from arena_wrappers.prompts import PromptOptions

ZEPHYR = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
ALPACA = (
    "{% for m in messages %}### {{ m.role | capitalize }}:\n{{ m.content }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}### Assistant:\n{% endif %}"
)
LLAMA2 = (
    "{% for m in messages %}{{ '[INST] ' + m.content + ' [/INST]' if m.role == 'user' "
    "else ' ' + m.content + ' ' + eos_token }}{% endfor %}"
)
TEXTS = (
    "You hold K. Actions: none. Legal actions: pass, bet.",
    "pass",
    "bet",
    "bet pass",
)
ASKED = [{"role": "user", "content": "You hold K."}]
BARE = PromptOptions("bare", rules=False)


def tokenizer_of(scheme, template):
    """A tokenizer of the kind of SentencePiece; `scheme` says which beginnings get a blank."""
    core = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    if scheme == "legacy":  # Llama 2
        parts = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        core.normalizer = normalizers.Sequence(parts)
    else:
        core.pre_tokenizer = pre_tokenizers.Metaspace(
            replacement="▁", prepend_scheme=scheme, split=False
        )
    shown = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    core.decoder = decoders.Sequence([*shown, decoders.Strip(" ", 1, 0)])
    letters = sorted({*"".join(TEXTS), *"▁<|>/[]INST#:.\n", *"asistnuermlyA"})
    known = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=known, initial_alphabet=letters
    )
    core.train_from_iterator(TEXTS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token="</s>",
        bos_token="<s>",
        unk_token="<unk>",
        chat_template=template,
    )


@pytest.mark.parametrize("reply", ["bet", "<answer>bet</answer>"])
@pytest.mark.parametrize("template", [ZEPHYR, ALPACA, LLAMA2])
@pytest.mark.parametrize("scheme", ["legacy", "first", "always", "never"])
def test_a_reply_has_the_tokens_that_the_template_gives_it(scheme, template, reply):
    tokenizer = tokenizer_of(scheme, template)
    chat = Chat(tokenizer)
    prompt = chat.encode(ASKED)
    messages = [*ASKED, {"role": "assistant", "content": reply}]
    whole = tokenizer.apply_chat_template(messages, tokenize=False)
    wanted = tokenizer.encode(whole, add_special_tokens=False)
    scored = [*prompt, *chat.reply_ids(prompt, reply)]
    assert scored == wanted[: len(scored)]
    chat.check_reply(ASKED, reply)


@pytest.mark.parametrize("scheme", ["legacy", "first", "always"])
def test_rows_of_episodes_without_tokens_have_those_of_the_template(scheme):
    tokenizer = tokenizer_of(scheme, ZEPHYR)
    env = PromptWrapper(arena_envs.make("kuhn_poker"), "bare", rules=False)
    row = select("wins", play(lambda: env, "random", [0])).rows[0]
    made = columns_of_row(row, Chat(tokenizer))
    messages = [*made["prompt"], *made["completion"]]
    whole = tokenizer.apply_chat_template(messages, tokenize=False)
    wanted = tokenizer.encode(whole, add_special_tokens=False)
    ids = [*made["prompt_ids"], *made["completion_ids"]]
    assert ids == wanted[: len(ids)]
    assert ids[-1] == tokenizer.eos_token_id


@pytest.fixture(scope="module")
def policy():
    tokenizer = tokenizer_of("first", ZEPHYR)
    model = tiny_model(tokenizer, hidden_size=32, num_layers=1)
    return LMPolicy(model.eval(), tokenizer, max_new_tokens=4, prompt=BARE)


@pytest.mark.slow
def test_a_model_taught_legal_replies_has_little_illegal_mass(policy):
    """It plays what it was taught, so what is scored must be the same tokens."""
    game = arena_envs.make_game("kuhn_poker")
    state = game.apply(game.apply(game.initial_state(), 2), 0)
    request = TurnRequest.at(game, state, BARE)
    examples = [Example(request.messages, text) for text in ("pass", "bet")]
    warm_start(policy, examples, num_steps=40, learning_rate=0.01, batch_size=2)
    ((_, illegal),) = policy.action_probs([request])
    replies = policy.generate([policy.prompt_ids(request)] * 20, range(20))
    assert {reply.text for reply in replies} == {"pass", "bet"}
    assert illegal < 0.1


def test_tokens_that_a_whole_prompt_changes_are_refused_before_they_are_scored(policy):
    chat = Chat(policy.tokenizer)
    chat._replies[chat._tail(chat.encode(ASKED)), "bet", False] = chat.ids("bet")
    with pytest.raises(ValueError, match="what would be scored is not what is sampled"):
        chat.check_reply(ASKED, "bet")


def test_a_reply_behind_a_blank_spells_no_second_one():
    template = LLAMA2.replace("[/INST]'", "[/INST] '").replace(
        "' ' + m.content", "m.content"
    )
    chat = Chat(tokenizer_of("first", template))
    prompt = chat.encode(ASKED)
    ids = chat.reply_ids(prompt, "bet")
    assert chat.tokenizer.decode([*prompt, *ids]).endswith("[/INST] bet")


def test_a_decode_method_that_was_put_on_a_tokenizer_is_called():
    tokenizer = tokenizer_of("first", ZEPHYR)
    ids = tokenizer.encode("bet", add_special_tokens=False)
    decode = tokenizer.decode
    assert Chat(tokenizer).decoded(ids) == decode(ids)
    tokenizer.decode = lambda *args, **options: decode(*args, **options).upper()
    assert Chat(tokenizer).decoded(ids) == decode(ids).upper()
