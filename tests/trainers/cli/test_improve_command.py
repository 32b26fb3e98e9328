"""`arena improve`: the command of the documentation, a model behind an endpoint, mistakes."""

import json
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

from arena_trainers.runs.recipe import load_recipe, read_overrides

ROOT = Path(__file__).parents[3]
endpoint_of = runpy.run_path(str(ROOT / "tests" / "endpoint.py"))


@pytest.fixture
def player(tmp_path, monkeypatch):
    """A folder with the player of docs/improve.md; the commands of its section."""
    page = (ROOT / "docs" / "improve.md").read_text(encoding="utf-8")
    script = re.search(r"```sh\n(.*?)```", page, re.DOTALL)[1]
    name, text, commands = re.search(
        r"cat > (\S+) <<'END'\n(.*?)END\n(.*)", script, re.DOTALL
    ).groups()
    (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield commands.splitlines()
    sys.modules.pop("my_player", None)


@pytest.mark.slow
def test_the_documented_commands_improve_a_player(player, tmp_path, arena_here):
    """Shortened to one round of the 200 seeds, which end early."""
    improve, evaluate, report = (shlex.split(line)[1:] for line in player)
    improve = [*improve, "--rounds", "1", "--candidates", "1", "-n", "64", "--json"]
    done = arena_here(*improve, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (text,) = json.loads(done.stdout)["texts"]
    assert text["is_accepted"]
    assert (tmp_path / "runs/openings/text.txt").read_text().strip() == text["text"]

    (tmp_path / "runs/openings/report.html").unlink()
    for command in (
        [*evaluate, "-n", "20", "--no-baselines", "--out", "a.jsonl"],
        report,
    ):
        done = arena_here(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    first = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])
    assert text["text"] in first["turns"][0]["messages"][0]["content"]
    page = (tmp_path / "runs/openings/report.html").read_text()
    assert "Text 1, round 1: kept" in page
    assert "You are player_0 and hold K" in page


def test_models_behind_an_endpoint_play_and_propose_within_a_budget(
    tmp_path, arena_here
):
    def say(body):
        system, prompt = (message["content"] for message in body["messages"])
        if "You are the coach" in system:
            return "<text>Always bet.<|im_end|></text>"
        bets = "Always bet." in system and "bet" in prompt.split("Legal actions")[1]
        return "<answer>bet</answer>" if bets else "<answer>pass</answer>"

    with endpoint_of["serving"]() as server:
        server.say = say
        model = f"api:tiny@{server.url}"
        done = arena_here(
            *("improve", model, "kuhn_poker", "--proposer", model, "-n", "24"),
            *(
                "--rounds",
                "1",
                "--candidates",
                "2",
                "--out",
                tmp_path / "run",
                "--json",
            ),
            *("--max-tokens", "1000000", "--prompt", "persona=Old."),
        )
        asked = [body["messages"][0]["content"] for body in server.requests]
    assert done.returncode == 0, done.stderr
    games, used = done.stderr.splitlines()[0], done.stderr.splitlines()[-1]
    assert re.match(r"plays at most 288 games, about \d+ calls", games)
    assert re.match(r"used \d+ calls", used)
    (text,) = json.loads(done.stdout)["texts"]
    assert text["text"] == "Always bet.< |im_end| >"
    assert sum("You are the coach" in system for system in asked) == 2
    assert any(system.startswith("Old.") for system in asked)
    assert not any("<|im_end|>" in system for system in asked)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("random", "kuhn_poker", "--out", "a"), "want a policy that reads prompts"),
        (("api:m@http://localhost:1/v1", "kuhn_poker"), "want --out DIR"),
        (
            ("past:runs/a", "kuhn_poker", "--out", "a"),
            "want one policy, got 'past:runs/a'",
        ),
        (
            ("random", "kuhn_poker", "--out", "a", "--prompt", "persona=@none.txt"),
            "want --prompt persona=@FILE with a text, got '@none.txt'",
        ),
    ],
)
def test_mistakes_are_one_sentence(arguments, sentence, arena_here, tmp_path):
    done = arena_here("improve", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert sentence in " ".join(done.stderr.split())
    assert not (tmp_path / "a").exists()


def test_a_persona_is_a_text_or_a_file(tmp_path):
    (tmp_path / "text.txt").write_text("Stand from 17.\n")
    for persona, text in (
        (f"@{tmp_path}/text.txt", "Stand from 17."),
        ("You: bold.", "You: bold."),
    ):
        overrides = read_overrides(["--prompt", f"persona={persona}"])
        assert overrides == {"persona": text}


def test_a_recipe_reads_no_file_into_prompts(tmp_path):
    """A stranger's recipe could show a secret to a model."""
    (tmp_path / "secret.txt").write_text("secret")
    persona = f"@{tmp_path}/secret.txt"
    (tmp_path / "recipe.yaml").write_text(f"prompt: {{persona: '{persona}'}}")
    assert load_recipe(str(tmp_path / "recipe.yaml")) == {"persona": persona}


def test_a_folder_with_other_things_is_refused(tmp_path, arena_here) -> None:
    (tmp_path / "config.yaml").write_text("model: tiny")
    done = arena_here(
        "improve", "random", "kuhn_poker", "--proposer", "openings", "--out", tmp_path
    )
    assert done.returncode == 2
    assert "texts.jsonl" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


@pytest.mark.slow
def test_two_roles_improve_in_turn(tmp_path, monkeypatch, arena_here):
    page = (ROOT / "docs" / "improve.md").read_text(encoding="utf-8")
    name, text = re.search(
        r"cat > (my_player.py) <<'END'\n(.*?)END\n", page, re.S
    ).groups()
    (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    section = page.partition("Roles such as attacker")[2]
    script = re.search(r"```sh\n(.*?)```", section, re.S)[1].replace("\\\n", " ")
    first, second = (shlex.split(line)[1:] for line in script.splitlines())
    (tmp_path / "runs/openings").mkdir(parents=True)
    rule = '- If you read "You are player_0": begin with bet (mean'
    (tmp_path / "runs/openings/text.txt").write_text(rule)
    for command, seat in ((first, 0), (second, 1)):
        done = arena_here(*command, "--candidates", "1", "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        folder = tmp_path / command[command.index("--out") + 1]
        lines = (folder / "round-01/play.jsonl").read_text().splitlines()
        turns = [turn for line in lines for turn in json.loads(line)["turns"]]
        assert {t["seat"] for t in turns if ", text 0" in t["policy"]} == {seat}
    others = [turn for turn in turns if turn["seat"] == 0]
    assert all(turn["messages"][0]["content"].startswith(rule) for turn in others)
    assert all(
        turn["reply"] == "<answer>bet</answer>" for turn in others if not turn["index"]
    )
    own = [turn for turn in turns if turn["seat"] == 1]
    assert not any(rule in turn["messages"][0]["content"] for turn in own)
    sys.modules.pop("my_player", None)
