r"""A model plays Kuhn poker against CFR; then its mean return, and what its turns were paid.

pip install ./environments/arena
vf-eval arena -n 100 -o out --no-push --env.taskset.game kuhn_poker \
    --env.players '["model", "cfr"]' --model MODEL --client.base-url URL \
    --client.api-key-var OPENAI_API_KEY
python example.py out/*/traces.jsonl
"""

import json
import statistics
import sys
from pathlib import Path


def main(path: str) -> tuple[float, list[list[float]]]:
    """The mean return, -1/18 at best in the long run, and the rewards of each episode's turns."""
    episodes = [json.loads(line) for line in Path(path).read_text().splitlines()]
    played = [e["traces"][0] for e in episodes if not e["errors"]]
    rewards = [trace["info"]["turn_rewards"] for trace in played]
    return statistics.fmean(map(sum, rewards)), rewards


if __name__ == "__main__":
    print("mean return {:.2f}; rewards {}".format(*main(sys.argv[1])))
