"""Writes `docs/board.md` from the submissions in `docs/board/`; without `--write` it checks the page.

python docs/build_board.py --write
"""

import sys
from pathlib import Path

from arena_trainers.tournament import load_suite, submissions_page

FOLDER = Path(__file__).with_name("board")
PAGE = Path(__file__).with_name("board.md")
HEAD = """# Board

What policies do in a fixed suite of games, in a form that anyone can verify. Written by `python docs/build_board.py --write`
from the submissions in [docs/board](https://github.com/arena-envs/arena-envs/tree/main/docs/board).

## Add a policy

```sh
arena board run cfr:10 --out cfr-10.jsonl        # or lm:PATH, api:MODEL@URL, vllm:URL, MODULE:NAME
arena board verify cfr-10.jsonl                  # plays every episode again
arena board page cfr-10.jsonl > board.md         # the tables below, of your files
```

A stop, an endpoint that is down and `kill -9` cost nothing: the same command goes on, and lost episodes are played again.
A submission holds the replies of the policy, all actions and returns, and in games of at most 200 information states the
action probabilities of models that have them. It holds no result: `verify` and `page` compute all numbers from these. Seeds
follow from the hash of the suite; opponents and chance play themselves. `.jsonl.gz` is read, too.

`--suite` takes `standard`, `mars` (the protocol of MARSHAL), `gtbench` (that of GTBench; both list their differences), or a YAML
file of your own:

```sh
cat > nim.yaml <<'END'
suite: nim
version: 1
notes: [Misere nim and its disguise.]
games:
  - {game: "nim(pile_sizes=[1, 2, 3])", disguise: 3, opponents: [random, minimax]}
prompts:
  plain: {reply_format: answer}
  other: {reply_format: boxed}
num_seeds: 4
max_tokens: 64
END
arena board run first --suite nim.yaml --out first.jsonl
arena board page first.jsonl --suite nim.yaml
```

A bot that refuses a game of a suite cannot take part: `mcts` sees hidden cards, `minimax` needs perfect information.
SmolLM2-135M-Instruct takes more than an hour on one core, and is not in the tables:
`arena board run lm:$HOME/.cache/arena/SmolLM2-135M-Instruct --name SmolLM2-135M --out smollm2.jsonl`, after `arena train smollm2`
has converted it.

"""


def page() -> str:
    """The text of the page."""
    return HEAD + submissions_page(
        sorted(FOLDER.glob("*.jsonl.gz")), load_suite("standard")
    )


def main(write: bool) -> None:
    """Writes or checks the page."""
    text = page()
    if write:
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        sys.exit(f"{PAGE} is not up to date: python docs/build_board.py --write")


if __name__ == "__main__":
    main("--write" in sys.argv[1:])
