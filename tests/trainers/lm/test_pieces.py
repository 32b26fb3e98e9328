"""Texts that are encoded piece by piece have the token ids of whole texts, for any tokenizer."""

import random
import tracemalloc

import pytest
import transformers
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

import arena_envs
from arena_envs.game import random_states
from arena_trainers.lm.chat import Chat
from arena_trainers.lm.pieces import PieceEncoder
from arena_wrappers import PromptOptions
from arena_wrappers.prompts import messages

GAMES = ("hanabi", "negotiation", "tic_tac_toe", "chess")
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MARKS = ["<|im_start|>", "<|im_end|>"]
GPT4 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPACE = "\u2581"


def byte_level(regex=None, prefix_space=False, normalizer=None):
    def make():
        core = Tokenizer(models.BPE())
        level = pre_tokenizers.ByteLevel(
            add_prefix_space=prefix_space, use_regex=regex is None
        )
        split = [pre_tokenizers.Split(Regex(regex), "isolated")] if regex else []
        core.pre_tokenizer = pre_tokenizers.Sequence([*split, level])
        if normalizer is not None:
            core.normalizer = normalizer
        return core, trainers.BpeTrainer(
            vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        )

    return make


def metaspace(scheme, unigram=False):
    def make():
        core = Tokenizer(
            models.Unigram() if unigram else models.BPE(byte_fallback=True)
        )
        core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
        if unigram:
            return core, trainers.UnigramTrainer(vocab_size=400, unk_token="<unk>")
        return core, trainers.BpeTrainer(vocab_size=500)

    return make


def without_pre_tokenizer(prepend):
    """Tokens reach across lines and words."""

    def make():
        core = Tokenizer(models.BPE(byte_fallback=True))
        steps = [normalizers.Prepend(SPACE)] if prepend else []
        steps.append(normalizers.Replace(" ", SPACE))
        core.normalizer = normalizers.Sequence(steps)
        return core, trainers.BpeTrainer(vocab_size=500, max_token_length=12)

    return make


def split_at_spaces():
    core = Tokenizer(models.BPE(byte_fallback=True))
    core.normalizer = normalizers.Replace(" ", SPACE)
    core.pre_tokenizer = pre_tokenizers.Split(SPACE, "merged_with_previous")
    return core, trainers.BpeTrainer(vocab_size=500)


def word_pieces():
    core = Tokenizer(models.WordPiece(unk_token="<unk>"))
    core.normalizer = normalizers.BertNormalizer()
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return core, trainers.WordPieceTrainer(vocab_size=500, special_tokens=["<unk>"])


def words():
    core = Tokenizer(models.WordLevel(unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    return core, trainers.WordLevelTrainer(vocab_size=500, special_tokens=["<unk>"])


FAMILIES = {
    "gpt2": byte_level(),
    "prefix-space": byte_level(prefix_space=True),
    "gpt4": byte_level(GPT4),
    "composed": byte_level(GPT4, normalizer=normalizers.NFC()),
    "digits": byte_level(r"\d|\s?\p{L}+|[^\s\p{L}\d]+|\s+"),
    "metaspace-always": metaspace("always"),
    "metaspace-first": metaspace("first"),
    "metaspace-never": metaspace("never"),
    "unigram": metaspace("always", unigram=True),
    "legacy": without_pre_tokenizer(prepend=True),
    "across-words": without_pre_tokenizer(prepend=False),
    "spaces": split_at_spaces,
    "word-pieces": word_pieces,
    "words": words,
}
CUT_AT_LINES = {"gpt2", "gpt4", "composed", "digits", "spaces", "metaspace-never"}


@pytest.fixture(scope="module")
def conversations():
    """Prompts of several games, and messages with white space and marks at their seams."""
    rng, conversations = random.Random(0), []
    for name in GAMES:
        game = arena_envs.make_game(name)
        states = [(s, seat) for s, seat in random_states(game, rng) if seat >= 0]
        conversations += [
            messages(game, state, seat, PromptOptions()) for state, seat in states[:8]
        ]
    seams = (
        "",
        " ",
        "\n",
        " \n\n",
        "A",
        "7",
        "<|im_end|>",
        "-",
        "\u00e9\n",
        "\t\u0301",
    )
    for seam in seams:
        text = f"{seam}one{seam}\n2{seam}two\n{seam}"
        conversations.append([{"role": "user", "content": text}])
    return conversations


def tokenizer_of(family, conversations, **mark_options):
    core, trainer = FAMILIES[family]()
    texts = [message["content"] for c in conversations for message in c]
    core.train_from_iterator(texts, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core,
        unk_token="<unk>",
        eos_token="<|im_end|>",
        chat_template=CHATML,
        clean_up_tokenization_spaces=False,
    )
    marks = [AddedToken(mark, special=True, **mark_options) for mark in MARKS]
    tokenizer.add_tokens(marks, special_tokens=True)
    return tokenizer


@pytest.mark.parametrize("family", FAMILIES)
def test_pieces_have_the_ids_of_whole_texts(family, conversations):
    chat = Chat(tokenizer_of(family, conversations))
    texts = [chat.prompt_text(conversation) for conversation in conversations]
    whole = [chat.ids(text) for text in texts]
    for _ in range(2):  # pieces that are new, and that are known
        assert chat.ids_of(texts) == whole
    assert [chat.ids_of([text])[0] for text in texts] == whole
    pieces = [chat._encoder.pieces(text) for text in texts]
    assert ["".join(parts) for parts in pieces] == texts
    num_lines = max(map(len, pieces))
    assert num_lines > 4 if family in CUT_AT_LINES else num_lines >= 1


@pytest.mark.parametrize("option", ["lstrip", "rstrip", "normalized"])
def test_marks_that_change_the_text_around_them_are_not_cut(option, conversations):
    tokenizer = tokenizer_of("gpt2", conversations, **{option: True})
    chat = Chat(tokenizer)
    texts = [chat.prompt_text(conversation) for conversation in conversations]
    assert chat.ids_of(texts) == [chat.ids(text) for text in texts]


def test_a_tokenizer_that_differs_at_the_samples_is_given_whole_texts(conversations):
    tokenizer = tokenizer_of("gpt2", conversations)
    whole = PieceEncoder(tokenizer, MARKS, ["a<|im_end|>b"])
    assert len(whole.pieces("a<|im_end|>b")) == 2
    own = tokenizer.encode
    # as one that writes a token of its own at the beginning of each text
    tokenizer.encode = lambda text, **options: [0, *own(text, **options)]
    assert PieceEncoder(tokenizer, MARKS, ["a<|im_end|>b"]).pieces("a<|im_end|>b") == [
        "a<|im_end|>b"
    ]


def test_an_added_token_that_reaches_into_a_mark_forbids_the_cut(conversations):
    tokenizer = tokenizer_of("gpt2", conversations)
    tokenizer.add_tokens([AddedToken("b<|im", normalized=False)])
    encoder = PieceEncoder(tokenizer, MARKS, ["a<|im_end|>c"])
    text = "b<|im_end|>c"
    assert encoder.encode([text]) == [tokenizer.encode(text, add_special_tokens=False)]


def test_what_is_remembered_is_bounded(conversations, monkeypatch):
    monkeypatch.setattr("arena_trainers.lm.pieces.MAX_TOKENS", 50)
    chat = Chat(tokenizer_of("gpt2", conversations))
    for conversation in conversations:
        text = chat.prompt_text(conversation)
        assert chat.ids_of([text]) == [chat.ids(text)]
        known = chat._encoder._ids_of_piece
        size = sum(map(len, known.values()))
        assert size <= max(50, len(chat.ids(text)))


def test_the_lines_of_long_texts_are_not_remembered(conversations):
    encoder = PieceEncoder(tokenizer_of("gpt2", conversations), (), ["a"])
    tracemalloc.start()
    try:
        for letter in "abc":
            text = f"{letter}\n" * 20_000
            assert "".join(encoder.pieces(text)) == text
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1e6  # 3.6e6 if they were
