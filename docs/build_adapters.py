"""Writes `docs/adapters.md` from the results of `make adapters`, or says that it is stale.

python docs/build_adapters.py --write
python docs/build_adapters.py
"""

import argparse
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "tests" / "adapters"
PAGE = Path(__file__).with_name("adapters.md")
RESULTS = FOLDER / "results.json"
HEAD = """\
# Other frameworks

Written by `make adapters`, which runs every example and test with the real frameworks, in separate
Python environments. Each test plays or checks one of our games in the framework. Tests of language
games are skipped where a framework needs numbered actions.

| framework | version | tests | seconds | learned |
|---|---|---|---|---|
"""
TAIL = """
## Your own

`SeatSession` is all that a framework with messages needs: OpenEnv, GEM and TRL's tools stand on it.
`reset` takes a seed, a seat and opponents. `step` takes any text. A lost episode raises
`NoReplyError`. `save` returns JSON, from which `restore` of an equal session goes on.

```python
from arena_wrappers import SeatSession

session = SeatSession(
    "kuhn_poker", seat="random", opponents="cfr", prompt={"reply_format": "boxed"}
)
messages, done = session.reset(seed=3), session.done
while not done:
    messages, reward, done, info = session.step(r"\\boxed{bet}")
print(info["outcome"]["returns"], info["turn_rewards"])
episode = session.episode  # as of `play`; `arena_credit.export` reads it
```

## Others

SuperSuit's observation wrappers refuse dict observations, also those of PettingZoo's own classic
games; `clip_reward_v0` and `pad_action_space_v0` work.
"""


def build(frameworks: dict[str, Any], results: dict[str, Any]) -> str:
    """The page."""
    rows, parts = [], []
    for name, framework in frameworks.items():
        result = results[name]
        versions = ", ".join(f"{n} {v}" for n, v in result["versions"].items())
        tests = f"{result['passed']} passed, {result['skipped']} skipped"
        cells = (
            framework["title"],
            versions,
            tests,
            str(result["seconds"]),
            result["learned"],
        )
        rows.append(f"| {' | '.join(cells)} |\n")
        files = [
            FOLDER / name / file for file in framework.get("examples", ["example.py"])
        ]
        codes = [file.read_text(encoding="utf-8") for file in files]
        examples = "\n".join(f"```python\n{code}```\n" for code in codes)
        parts.append(f"\n## {framework['title']}\n{framework['text']}\n{examples}")
    return HEAD + "".join(rows) + "".join(parts) + TAIL


def main() -> None:
    """Runs the script."""
    parser = argparse.ArgumentParser(description="The page of the adapters.")
    parser.add_argument("--write", action="store_true", help="into docs/adapters.md")
    write = parser.parse_args().write
    frameworks = tomllib.loads((FOLDER / "frameworks.toml").read_text(encoding="utf-8"))
    page = build(frameworks, json.loads(RESULTS.read_text(encoding="utf-8")))
    if write:
        PAGE.write_text(page, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page:
        sys.exit(
            "docs/adapters.md is out of date: python docs/build_adapters.py --write"
        )


if __name__ == "__main__":
    main()
