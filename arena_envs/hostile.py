r"""Words of one seat, made safe for the text of another seat.

A game that shows one seat's words to another passes them through `quoted`, or through
`break_markup` if it shows them in a form of its own. Then all readers of the game's texts are
safe: prompts, adapters, chat servers and data sets.

Tokenizers match special tokens as exact strings, such as `<|im_start|>`, `[|user|]`,
`<turn|>`, `[INST]` or `]~b]`; soft switches such as `/no_think` are words. No list of them
is complete, so blanks separate their parts. A blank follows every `<`, every `[` before a run of
characters with a letter in it, such as `[@BOS@]` or `[1THINK]`, and every `/` that starts a
word. A blank also separates a bracket from a `|` or `~` beside it.
"""

import re
import shutil
import textwrap
from typing import TextIO

# Unicode's Default_Ignorable_Code_Point, without variation selectors and the two joiners
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_CONTROL = "\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f"
_LINE_BREAK = "\n\v\f\r\x1c-\x1e\x85\u2028\u2029"
_JOINERS, _SELECTORS = "\u200c\u200d", "\ufe00-\ufe0f"
_PLAIN = rf"[^\x00-\x9f\ud800-\udfff\u2028\u2029{_IGNORABLE}{_JOINERS}"  # not ASCII
# Joiners belong to words of several scripts and, with selectors, to emoji; else they are invisible
_HIDDEN = (
    rf"[\ud800-\udfff{_CONTROL}{_IGNORABLE}]"
    rf"|(?<!{_PLAIN}])[{_JOINERS}]|[{_JOINERS}](?!{_PLAIN}{_SELECTORS}])"
    rf"|(?<!{_PLAIN}{_SELECTORS}])[{_SELECTORS}]"
)

# With their full-width and small forms, which some tokenizers turn into ASCII
_LESS, _GREATER = "<\uff1c\ufe64\u226e\u25c1", ">\uff1e\ufe65\u226f\u25b7"
_OPEN, _CLOSE = r"\[\uff3b\ufe47", r"\]\uff3d\ufe48"
_BARS, _SLASHES = "|\uff5c~\uff5e", "/\uff0f"
_BRACKETS = _LESS + _GREATER + _OPEN + _CLOSE
# what a tokenizer may drop: accents and characters that are not printed
_DROPPED = rf"[\u0300-\u036f\x00-\x08\v\f\x0e-\x1f\x7f-\x9f{_JOINERS}{_SELECTORS}]*"
_MARKUP = re.compile(
    rf"[{_LESS}](?![ \t\n\r]|\Z)"
    rf"|[{_OPEN}](?={_DROPPED}[{_SLASHES}]|[^ \t\n\r{_OPEN}{_CLOSE}]*[^\W\d])"
    rf"|[{_BRACKETS}](?={_DROPPED}[{_BARS}])"
    rf"|[{_BARS}](?={_DROPPED}[{_BRACKETS}])"
    rf"|(?<![^\W_])[{_SLASHES}](?={_DROPPED}[^\W\d])"
    rf"|[{_SLASHES}](?={_DROPPED}(?:(?:no)?think|[^\W_]*_))"
    r"|\\(?=boxed)",
    re.IGNORECASE,
)
_REPLACED = re.compile(_HIDDEN)
_UNPRINTABLE = re.compile(rf"[\r\v\f\x1c-\x1e\x85\u2028\u2029]|{_HIDDEN}")
_ESCAPED = re.compile(rf'["\\\t{_LINE_BREAK}]|{_HIDDEN}')
_SHORT = {"\n": "n", "\r": "r", "\t": "t", '"': '"', "\\": "\\"}


def break_markup(text: str) -> str:
    r"""`text` with its markup broken by blanks: special tokens, tags, soft switches.

    Letters of all scripts stay. Control characters, lone surrogates, bidirectional marks and
    other invisible characters become U+FFFD, except those that belong to words and emoji.
    Breaking a text twice changes nothing more. The length at most doubles. Cut a text before
    you break it, not after.

    >>> break_markup("Ok<|im_end|> [INST] </think> and /no_think, 50/50?")
    'Ok< |im_end| > [ INST] < / think> and / no_think, 50/50?'
    """
    return _MARKUP.sub(r"\g<0> ", _REPLACED.sub("\ufffd", text))


def printable(text: str) -> str:
    r"""`text` for a terminal: what is no letter, blank, tab or line feed there becomes U+FFFD.

    So escape sequences, carriage returns, bidirectional marks and lone surrogates have no effect.

    >>> printable("Ok\x1b[2J\r\n")
    'Ok\ufffd[2J\ufffd\n'
    """
    return _UNPRINTABLE.sub("\ufffd", text)


def quoted(text: str) -> str:
    r"""`text` in quotation marks, in one line, with its markup broken.

    Quotation marks, backslashes, line breaks and invisible characters are escaped as in JSON,
    so the text cannot look like the text around it. Letters of all scripts stay. Each character
    becomes at most 12 characters.

    >>> quoted('\u4f60\u597d "all"?\nsystem: <s>')
    '"\u4f60\u597d \\"all\\"?\\nsystem: < s>"'
    """
    return break_markup(f'"{_ESCAPED.sub(_escape, text)}"')


def _escape(match: re.Match[str]) -> str:
    # no \b or \f: a letter after it would make a word, as in \boxed
    if short := _SHORT.get(match[0]):
        return f"\\{short}"
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def wrapped(text: str, stream: TextIO) -> str:
    """The text, printable, with long lines wrapped at words if the stream is a terminal."""
    text = printable(text)
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    wrap = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    lines = text.split("\n")
    return "\n".join(wrap.fill(line) if len(line) > width else line for line in lines)
