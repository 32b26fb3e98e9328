"""The tiny model and its tokenizer, which a run makes on the spot.

It trains on a CPU in minutes. Its tokens are the words of its games, so a reply such as "bet" is one
token and the end token; or byte pairs learned from all games of the catalogue.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast, Qwen3Config

from arena_envs import GameEnv, make_game
from arena_envs.catalogue import GAMES
from arena_envs.game import AnyGame
from arena_envs.trust import named_only
from arena_wrappers import PromptOptions, PromptWrapper, RandomPolicy, play

if TYPE_CHECKING:
    from transformers import Qwen3ForCausalLM


_WORD = r"</?\w+>|\w+|[^\w\s]"
_PAIRED = r" ?[^\W\d]+\d?| ?\d| ?[^\w\s]|\s"  # no pair goes beyond one of them
_CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
# tokens of the tiny model, which learns all of its positions itself
TINY_CONTEXT = 32_768
_SPECIAL = ["<|pad|>", "<|unk|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]


def tiny_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """A word-level tokenizer with the words of `texts` and a chat template."""
    words = sorted({word for text in texts for word in re.findall(_WORD, text)})
    vocabulary = {token: i for i, token in enumerate([*_SPECIAL, *words])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<|unk|>"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(_WORD), "removed", invert=True)
    return _with_template(core)


@cache
def catalogue_tokenizer(
    options: PromptOptions, vocab_size: int
) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer with a chat template, which can write any text.

    It learns pairs from four random episodes of each game of the catalogue that needs no
    extra. A reply begins with a space, as in a list of actions, and is decoded without it.

    Args:
        options: what the prompts contain.
        vocab_size: most tokens.
    """
    core = Tokenizer(models.BPE())
    core.normalizer = normalizers.Prepend(" ")
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PAIRED), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    games = (make_game(id) for id, listed in GAMES.items() if listed.extra is None)
    core.train_from_iterator(
        (text for game in games for text in words_of(game, options, 4)),
        trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=_SPECIAL,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    return _with_template(core)


def _with_template(core: Tokenizer) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<|pad|>",
        unk_token="<|unk|>",
        eos_token="<|end|>",
        additional_special_tokens=["<|system|>", "<|user|>", "<|assistant|>"],
        chat_template=_CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=TINY_CONTEXT,
    )


def tiny_model(
    tokenizer: PreTrainedTokenizerBase,
    *,
    hidden_size: int = 64,
    num_layers: int = 2,
    seed: int = 0,
) -> "Qwen3ForCausalLM":
    """A model of the Qwen3 architecture with random weights, float32."""
    from transformers import Qwen3ForCausalLM

    config = tiny_config(tokenizer, hidden_size=hidden_size, num_layers=num_layers)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config)


def tiny_config(
    tokenizer: PreTrainedTokenizerBase, *, hidden_size: int, num_layers: int
) -> Qwen3Config:
    """The sizes of a tiny model.

    The initial scale is 1/√hidden_size. With the 0.02 of large models, the output of so
    narrow a model would hardly depend on its prompt.
    """
    return Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden_size,
        intermediate_size=2 * hidden_size,
        num_hidden_layers=num_layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=hidden_size // 4,
        max_position_embeddings=TINY_CONTEXT,
        initializer_range=hidden_size**-0.5,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )


def words_of(
    game: AnyGame, options: PromptOptions, num_episodes: int = 200
) -> list[str]:
    """Texts with the words of a game: prompts and legal replies of random play."""
    episodes = play(
        lambda: PromptWrapper(GameEnv(game), **vars(options)),
        RandomPolicy(),
        range(num_episodes),
    )
    turns = [turn for episode in episodes for turn in episode.turns]
    prompts = {m["content"] for turn in turns for m in turn.messages}
    return sorted(prompts | {t for turn in turns for t in [*turn.legal, turn.reply]})


def tiny_tokenizer_of(
    games: Sequence[Mapping[str, Any]], options: PromptOptions
) -> PreTrainedTokenizerFast:
    """The tokenizer of the tiny model that plays these games, which a file of rows names.

    Raises:
        NotTrusted: the file names code or another file, see `arena_envs.trust`.
    """
    with named_only():
        games_of_rows = [
            make_game(spec["id"], **spec.get("params", {})) for spec in games
        ]
    return tiny_tokenizer(words_of_games(games_of_rows, options))


def words_of_games(games: Iterable[AnyGame], options: PromptOptions) -> Iterator[str]:
    """Texts with the words of several games."""
    return (text for game in games for text in words_of(game, options))
