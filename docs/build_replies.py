"""Writes `docs/replies.md` from the tested table of natural replies, and from replies of a model.

python docs/build_replies.py --measure
python docs/build_replies.py --write
python docs/build_replies.py

The first command needs 3 GB and a few minutes: it asks SmolLM2-135M-Instruct once in each of 50
states of a game and counts in `docs/replies.json` what both readers take. The last one checks the page.
"""

import json
import random
import re
import sys
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "tests" / "wrappers" / "prompts" / "replies.txt"
PAGE, SHARES = (Path(__file__).with_name(f"replies.{end}") for end in ("md", "json"))
GAMES = ("kuhn_poker", "bargaining", "say_select", "negotiation", "taboo")
NUM_STATES, MAX_TOKENS = 50, 48
HEAD = """# What replies are read as

Written by `python docs/build_replies.py --write` from a table that the tests check. Replies are read
by the rules of `arena_wrappers.prompts.parsing`; `parsing="strict"` reads canonical texts only. `\\n` is
a line break. On the right is the action, with the message before it, or why the reply is none.
"""
SHARE_TEXT = """
## How many replies of a small model are legal

SmolLM2-135M-Instruct, before any training, replies once in each of {num} states of random play; prompts have the rules and
ask for `<answer>` tags, and replies end after {tokens} tokens. Both readers read the same replies. Brackets are Wilson's 95 %
intervals. More legal replies are not more right ones. Measured by `python docs/build_replies.py --measure`.

| game | strict | tolerant |
|---|---|---|
"""


def page() -> str:
    """The text of the page."""
    text = HEAD + shares()
    for line in DATA.read_text("utf-8").splitlines():
        if head := re.fullmatch(r"\[(\S+): ([^]]+)\]", line):
            text += f"\n## {head[1]}, where `{head[2]}` is legal\n\n| reply | read as |\n|---|---|\n"
        elif " => " in line:
            cells = [f"`` {cell} ``" for cell in line.rsplit(" => ", 1)]
            text += f"| {cells[0]} | {cells[1]} |\n"
    return text


def shares() -> str:
    """The table of the model's legal replies."""
    text = SHARE_TEXT.format(num=NUM_STATES, tokens=MAX_TOKENS)
    for game, counts in json.loads(SHARES.read_text()).items():
        cells = [
            _share(counts[parsing], counts["replies"])
            for parsing in ("strict", "tolerant")
        ]
        text += f"| {game} | {' | '.join(cells)} |\n"
    return text


def _share(legal: int, num: int) -> str:
    """A share with Wilson's interval."""
    z, p = 1.96, legal / num
    middle, wide = (
        p + z * z / 2 / num,
        z * (p * (1 - p) / num + z * z / 4 / num**2) ** 0.5,
    )
    low, high = ((middle + sign * wide) / (1 + z * z / num) for sign in (-1, 1))
    return f"{legal} of {num} ({max(low, 0):.0%} to {high:.0%})"


def measure() -> None:
    """Counts the legal replies of the model in the games that the file lacks, as both readers do."""
    import torch

    from arena_trainers.lm import LMPolicy

    torch.set_num_threads(1)
    options: dict[str, Any] = {"max_new_tokens": MAX_TOKENS, "batch_size": 10}
    model = LMPolicy.from_pretrained("smollm2", device="cpu", **options)
    counts_by_game = json.loads(SHARES.read_text()) if SHARES.exists() else {}
    for game in GAMES:
        if game not in counts_by_game:
            counts_by_game[game] = measured(model, game)
            SHARES.write_text(json.dumps(counts_by_game, indent=1) + "\n")


def measured(model: Any, name: str) -> dict[str, int]:
    """Legal replies in one game."""
    from arena_envs import make_game
    from arena_envs.game import random_states
    from arena_wrappers import InvalidReply, PromptOptions, TurnRequest
    from arena_wrappers.prompts import legal_texts, messages, parse_reply

    game, requests = make_game(name), []
    for seed in range(NUM_STATES):
        rng = random.Random(seed)
        state, seat = rng.choice(
            [each for each in random_states(game, rng) if each[1] >= 0]
        )
        prompt = messages(game, state, seat, PromptOptions(reply_format="answer"))
        legal = legal_texts(game, state)
        requests.append(
            TurnRequest(seed, 0, seat, game, state, prompt, (), legal, seed, "answer")
        )
    replies = [reply.text for reply in model.act(requests)]
    counts = {"replies": NUM_STATES}
    for parsing in ("strict", "tolerant"):
        actions = [
            parse_reply(game, request.state, text, "answer", parsing=parsing)
            for request, text in zip(requests, replies, strict=True)
        ]
        counts[parsing] = sum(
            not isinstance(request, InvalidReply) for request in actions
        )
    return counts


if __name__ == "__main__":
    if "--measure" in sys.argv:
        measure()
    elif "--write" in sys.argv:
        PAGE.write_text(page(), "utf-8")
    elif not PAGE.exists() or PAGE.read_text("utf-8") != page():
        sys.exit("docs/replies.md is out of date; run with --write")
