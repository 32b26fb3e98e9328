"""A tokenizer of bytes that takes any chat template as its own."""

import re
from pathlib import Path

import trl
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

FOLDER = Path(trl.__file__).parent / "chat_templates"
TEMPLATES = {p.stem: p.read_text(encoding="utf-8") for p in FOLDER.glob("*.jinja")}
# `<|im_end|>`, `<end_of_turn>`, `[INST]`, as they stand in the text of a template; also
# with the full-width bar and the low block of DeepSeek
_SPECIAL = re.compile(
    "<[|\uff5c/]?\\w+(?:[|\uff5c\u2581]\\w*)*[|\uff5c]?>|\\[/?[A-Za-z]*[A-Z]+\\]"
)
SPECIALS = sorted({s for text in TEMPLATES.values() for s in _SPECIAL.findall(text)})


def tokenizer_of(chat_template, specials=SPECIALS):
    """Every byte is a token, and so are the specials, `<bos>`, `<eos>` and `<pad>`.

    Its EOS is in nobody's template, unless a template asks the tokenizer for it.
    """
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(letters)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>",
        additional_special_tokens=list(specials),
        chat_template=chat_template,
        clean_up_tokenization_spaces=False,
        model_max_length=8192,
    )
