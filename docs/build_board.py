"""Writes `docs/board.md` from the submissions in `docs/board/`; without `--write` it checks the page.

python docs/build_board.py --write
"""

import sys
from pathlib import Path

from arena_trainers.tournament import load_suite, submissions_page

FOLDER = Path(__file__).with_name("board")
PAGE = Path(__file__).with_name("board.md")
HEAD = """# Board

Results of policies in a fixed suite of games. Anyone can verify them. Written by `python docs/build_board.py --write` from the
submissions in [docs/board](https://github.com/arena-envs/arena-envs/tree/main/docs/board).

## Add a policy

```sh
arena board run cfr:10 --out cfr-10.jsonl        # or lm:PATH, api:MODEL@URL, vllm:URL, MODULE:NAME
arena board verify cfr-10.jsonl                  # plays every episode again
arena board page cfr-10.jsonl > board.md         # the tables below, of your files
```

If the run stops or an endpoint is down, give the same command again: it goes on, and plays lost episodes again.
A submission holds the policy's replies, all actions and all returns. In games of at most 200 information states it also holds
the action probabilities of a model that has them. It holds no results: `verify` and `page` compute every number. Seeds
follow from the suite's hash; `verify` plays opponents and chance itself. Compress a finished file if you like: `.jsonl.gz` is read, too.

`--suite` takes `standard`, `mars` (protocol of MARSHAL), `gtbench` (protocol of GTBench) or a YAML file of your own. Each of the
two protocols lists its differences from the original.

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

A bot must be able to play every game of the suite: `minimax` needs perfect information, and `mcts` would see hidden cards.
SmolLM2-135M-Instruct is not in the tables, since it takes more than an hour on one core. `arena train smollm2` converts the
model; then run
`arena board run lm:$HOME/.cache/arena/SmolLM2-135M-Instruct --name SmolLM2-135M --out smollm2.jsonl`.

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
