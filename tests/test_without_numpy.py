"""Rules, texts, scenes, bots and prompts without numpy and the environments' packages."""

import json
import subprocess
import sys

BLOCKED = ("numpy", "gymnasium", "pettingzoo", "yaml", "rich", "typer")
PLAY = """
import random
from hashlib import blake2b
import arena_envs
from arena_envs.game import random_states
from arena_envs.scenes import scene_of, text_of
from arena_wrappers.policies import TurnRequest, make_policy
from arena_wrappers.prompts import PromptOptions, legal_texts, messages

played = {}
for info in arena_envs.game_infos():
    game, said = arena_envs.make_game(info.id), []
    policy = make_policy("random" if info.id == "sokoban-v0" else game.heuristic or "random")
    for state, player in random_states(game, random.Random(1)):
        if player < 0:
            continue
        said.append(text_of(scene_of(game, state, player)))
        said += [m["content"] for m in messages(game, state, player, PromptOptions())]
        if len(said) < 20:
            legal = legal_texts(game, state)
            request = TurnRequest(0, 0, player, game, state, [], (), legal, seed=len(said))
            said.append(policy.act([request])[0].text)
    played[info.id] = [len(said), blake2b("\\n".join(said).encode()).hexdigest()]
"""


def test_every_game_plays_as_with_numpy():
    code = f"import sys\nfor name in {BLOCKED}:\n    sys.modules[name] = None\n{PLAY}"
    code += "import json; print(json.dumps(played))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = {}
    exec(PLAY, found)
    assert json.loads(done.stdout) == found["played"]
    assert len(found["played"]) > 50
