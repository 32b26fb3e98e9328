"""What one seat wrote is data for the others: its markup is broken, its letters stay."""

import json
import time
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arena_envs.hostile import break_markup, quoted

TOKENS = (
    *("<|im_start|>", "<|eot_id|>", "<turn|>", "<|turn>", '<|"|>', "<channel|>", "<s>"),
    *("[|user|]", "[|endofturn|]", "[INST]", "[/INST]", "[THINK]", "[gMASK]", "[CLS]"),
    *("[@BOS@]", "[1THINK]", "[#MASK#]"),
    *("<BOS_TOKEN>", "<<SYS>>", "<arg_key>", "</think>", "<seed:bos>", "<0x0A>"),
    *(
        "]~b]",
        "]~!b[",
        "[e~[",
        "]!p~[",
        "]<]image[>[",
        ">>TITLE<<",
        "\u25c1think\u25b7",
    ),
    *(
        "<\uff5cUser\uff5c>",
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
        "<start_of_turn>",
    ),
    *("/think", "/no_think", "/nothink", "/system_override", "</answer>", "\\boxed{"),
)
HIDDEN = ("\u200b", "\u200d", "\ufeff", "\u2060", "\u00ad", "\u202e", "\x00", "\ufe0f")
pieces = st.sampled_from(
    [*TOKENS, *HIDDEN, *"<>[]|/~\\ \n", "\u0338", "\ud800", "\uff1c"]
)
hostile = st.lists(pieces | st.text(max_size=3), max_size=10).map("".join)


def seen_by_a_tokenizer(text: str) -> list[str]:
    """The text as it is, in compatibility form, without what is not printed."""
    bare = "".join(c for c in text if unicodedata.category(c) not in ("Cc", "Cf", "Mn"))
    return [text, unicodedata.normalize("NFKC", text), bare]


@example("<\u200b|im_start|\u2060>")
@example("</\u200bthink>")
@example("\uff1c\uff5cim_start\uff5c\uff1e")
@example("\uff0f\uff4e\uff4f\uff3f\uff54\uff48\uff49\uff4e\uff4b")
@example("x/no_think")
@example("\x08oxed{yes}")
@example("<|\u0338>")
@given(hostile)
def test_no_special_token_is_left_whole(text: str) -> None:
    for shown in (break_markup(text), quoted(text)):
        for seen in seen_by_a_tokenizer(shown):
            whole = [token for token in TOKENS if token.casefold() in seen.casefold()]
            assert not whole


@example("\U0001f600" + "\ufe0f" * 3)
@example("\u0627\u200c\u200d\u0628")
@given(hostile)
def test_breaking_twice_is_breaking_once_and_growth_is_bounded(text: str) -> None:
    broken, told = break_markup(text), quoted(text)
    assert break_markup(broken) == broken
    assert break_markup(told) == told
    assert len(broken) <= 2 * len(text)
    assert len(told) <= 12 * len(text) + 2
    broken.encode()
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Half is fair: 50/50, or [50, 50] [1]. I'd take > 40 and/or less; a | b [ ] ~",
        "\u4f60\u597d \u043c\u0438\u0440 \u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd \u00e9 na\u00efve",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian, with a non-joiner
        "\u0915\u094d\u200d\u0937",  # Hindi, with a joiner
        "\U0001f469\u200d\u2764\ufe0f\u200d\U0001f468 \U0001f44d\U0001f3fd",
        "\u3053\u3093\u306b\u3061\u306f\u3000\u4e16\u754c",
    ],
)
def test_letters_of_every_script_stay_readable(text: str) -> None:
    assert break_markup(text) == text
    assert quoted(text) == f'"{text}"'


@given(st.text(max_size=60))
def test_a_quotation_is_json_with_blanks(text: str) -> None:
    assert json.loads(quoted(text)).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize("hidden", ["\u202e", "\u2066", "\u200b", "\U000e0041", "\x1b"])
def test_invisible_characters_become_visible(hidden: str) -> None:
    assert break_markup(f"a{hidden}b") == "a\ufffdb"
    assert quoted(f"a{hidden}b") == json.dumps(f"a{hidden}b")


@pytest.mark.parametrize(
    "piece", ["<", "[", "|", "\u200d", "[\u0300", "/", "\ufe0f", "\\"]
)
def test_breaking_takes_linear_time(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    start = time.process_time()
    quoted(text)
    assert time.process_time() - start < 2.0
