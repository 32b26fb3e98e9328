"""The page of `arena replay --page` in Chromium."""

import json
from pathlib import Path
from typing import Any

import pytest

import arena_envs
from arena_eval.rollouts import Rollout, TurnCredit, write_rollouts
from arena_studio.report import read_lines, write_replay
from arena_wrappers import Episode, PromptWrapper, ScriptedPolicy, play

pytestmark = pytest.mark.slow

ATTACKS = (
    "<script>document.title = 'hacked'</script>",
    "<img src=x onerror=\"document.title = 'hacked'\">",
    "</script><svg onload=alert(1)>",
    "{{ 7 * 7 }} {% raw %} ${7*7} <%= 7 * 7 %>",
    "<!-- --><style>body { display: none }</style>",
    "\x1b[2J\u202e\ud800\x00 ]]> &lt; '\"",
)


def page_of(folder: Path, episodes: list[Episode], *credit: Any) -> Path:
    """The page of these episodes; every turn has the credit, if one is given."""
    rollouts = [Rollout(e, (list(credit) or [None]) * len(e.turns)) for e in episodes]
    file, page = folder / "step-1.jsonl", folder / "replay.html"
    write_rollouts(file, rollouts)
    write_replay(page, read_lines(file), title=file.name)
    return page


def scripted(game: str, *replies: list[str], seed: int = 0) -> list[Episode]:
    policies = [ScriptedPolicy(list(each)) for each in replies]
    env = arena_envs.make(game)
    return play(lambda: PromptWrapper(env, "bare"), policies, [seed])


def at(page: Any, turn: int) -> None:
    page.wait_for_selector(f"#replay[data-turn='{turn}']")


def test_keys_slider_and_buttons_step_through_an_episode(tmp_path, open_page):
    credit = TurnCredit("mars", 0.25, 1.0, {"seat": 0}, 8, 0.5, 1.5)
    episodes = play("kuhn_poker", ["random"] * 2, range(3))
    page = open_page(page_of(tmp_path, episodes, credit))
    for episode in episodes:
        for number, turn in enumerate(episode.turns):
            at(page, number)
            shown = page.inner_text("#turn")
            assert f"player_{turn.seat} (random)" in shown
            assert turn.messages[-1]["content"] in shown
            assert page.inner_text("#turn mark") == turn.reply[8:-9]  # <answer>...
            assert "Advantage +0.25 by mars" in shown
            reward = float(shown.partition("Reward ")[2].split()[0])
            assert reward == turn.reward
            assert page.locator("#scenes figure").count() == 2
            page.keyboard.press("ArrowRight")
        at(page, len(episode.turns))
        assert page.inner_text("#turn h3") == "The end"
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Home")
    at(page, 0)
    page.keyboard.press("End")
    last = len(episodes[-1].turns)
    at(page, last)
    page.click("button[data-by='-1'][data-go=turn]")
    at(page, last - 1)
    page.evaluate("slider.value = 0; slider.dispatchEvent(new Event('input'))")
    at(page, 0)
    page.click("#strip .cell[data-turn='1']")
    at(page, 1)


def test_a_seat_sees_its_own_card_only(tmp_path, open_page):
    page = open_page(page_of(tmp_path, scripted("kuhn_poker", ["bet"], ["pass"])))
    hidden, all_cards = page.locator("#scenes figure").all_inner_texts()
    assert "what player_0 could see" in hidden
    assert "?" in hidden
    assert "?" not in all_cards
    page.select_option("#viewer", "player_1")
    assert "player_1" in page.inner_text("#scenes figcaption")
    assert page.locator("#scenes figure").count() == 1
    shown = page.inner_text("#turn")
    assert "Prompt and reply: hidden from player_1" in shown
    assert "bet" not in shown
    page.keyboard.press("ArrowRight")
    at(page, 1)
    assert "You are player_1 and hold" in page.inner_text("#turn")


def test_the_view_of_a_seat_hides_what_others_replied_in_its_group(
    tmp_path, open_page, wait_until
):
    page = open_page(page_of(tmp_path, scripted("kuhn_poker", ["bet"], ["pass"]) * 2))
    for viewer, words in (
        ("player_1", ["0: hidden", "1: pass"]),
        ("all", ["0: bet", "1: pass"]),
        ("player_0", ["0: bet", "1: hidden"]),
    ):
        page.select_option("#viewer", viewer)
        assert page.locator("#group .turn").all_inner_texts() == words * 2
    page.keyboard.press("ArrowDown")  # the next episode keeps the view
    wait_until(page, "document.querySelector('#name').innerText.startsWith('Line 2')")
    assert page.locator("#group .turn").all_inner_texts() == words * 2


def test_filters_choose_episodes(tmp_path, open_page):
    episodes = play("kuhn_poker", ["random"] * 2, range(4))
    episodes += play("tic_tac_toe", ["random", "minimax"], range(2))
    episodes += scripted("kuhn_poker", ["nothing"], ["pass"])
    page = open_page(page_of(tmp_path, episodes))
    rows = page.locator("#episodes tbody tr")
    assert rows.count() == 7
    for name, value, count in (
        ("game", "=tic_tac_toe-v0", 2),
        ("policy", "=minimax", 2),
        ("invalid", "some", 1),
        ("invalid", "=illegal", 1),
        ("invalid", "none", 6),
        ("outcome", "=player_0 forfeits", 1),
    ):
        page.select_option(f"[name={name}]", value)
        assert rows.count() == count, (name, value)
        page.select_option(f"[name={name}]", "")
    page.select_option("[name=order]", "worst")
    returns = [
        float(t.split(",")[0])
        for t in page.locator("tr td:nth-child(7)").all_inner_texts()
    ]
    assert returns == sorted(returns) == sorted(e.returns[0] for e in episodes)
    rows.last.click()
    assert page.locator("#episodes tr.open").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_players_wrote_does_no_harm(scheme, tmp_path, open_page):
    words = [f"{attack}\noffer 40" for attack in ATTACKS]
    episodes = scripted("bargaining", [*words[:2], "reject"], ["reject", *words[2:4]])
    long = "x" * 100_000 + "".join(ATTACKS)
    episodes += scripted("kuhn_poker", [long], ["pass"])
    page = page_of(tmp_path, episodes)
    broken = json.loads((tmp_path / "step-1.jsonl").read_text().splitlines()[0])
    broken |= {"game": ATTACKS[1], "params": {"x": ATTACKS[0]}}
    with open(tmp_path / "step-1.jsonl", "a") as file:
        file.write(f"{json.dumps(broken)}\n{ATTACKS[0]}{{\n")
    lines = list(read_lines(tmp_path / "step-1.jsonl"))
    write_replay(page, lines, title=ATTACKS[1])
    shown = open_page(page, color_scheme=scheme)
    assert shown.title() == ATTACKS[1]
    for number in range(3):
        shown.locator("#episodes tbody tr").nth(number).click()
        for turn in range(len(lines[number].rollout.episode.turns) + 1):
            at(shown, turn)
            shown.keyboard.press("ArrowRight")
    assert shown.locator("body img, body figure script, #turn script").count() == 0
    assert "unknown game" in shown.inner_text("#fault")
    assert ATTACKS[0] in shown.locator("#bad pre").text_content()
    assert "want an episode as JSON" in shown.locator("#bad p").text_content()


def test_a_thousand_turns_are_drawn_at_sixty_a_second(tmp_path, open_page):
    params = {
        "board_width": 10,
        "board_height": 10,
        "ship_sizes": [2],
        "num_shots": 500,
    }
    env = arena_envs.make("battleship", allow_repeated_shots=True, **params)
    policies = [ScriptedPolicy(["a1-b1", *["c3"] * 500]) for _ in range(2)]
    (episode,) = play(lambda: PromptWrapper(env, "bare"), policies, [0])
    assert len(episode.turns) == 1002
    page = open_page(page_of(tmp_path, [episode], TurnCredit("mars", -0.25)))
    devtools = page.context.new_cdp_session(page)
    # CPU time of the page's main thread: script, layout and paint, whatever else runs here
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = busy_seconds(devtools)
    page.evaluate(
        """async () => {
          for (let i = 0; i < 1000; i++) {
            document.body.dispatchEvent(
              new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}));
            await new Promise((done) => requestAnimationFrame(done));
          }
        }"""
    )
    at(page, 1000)
    seconds = busy_seconds(devtools) - before
    print(f"{seconds:.1f} ms a turn")
    assert 0 < seconds < 1000 / 60


def busy_seconds(devtools: Any) -> float:
    metrics = devtools.send("Performance.getMetrics")["metrics"]
    return next(m["value"] for m in metrics if m["name"] == "TaskDuration")


def test_a_phone_shows_the_whole_width(tmp_path, open_page):
    episodes = play("hanabi", ["random"] * 2, range(1))
    page = open_page(
        page_of(tmp_path, episodes), viewport={"width": 360, "height": 740}
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_link_opens_a_turn(tmp_path, open_page):
    seeds = [3, 2**64 - 1, 4]
    episodes = play("tic_tac_toe", ["random"] * 2, seeds)
    page = open_page(page_of(tmp_path, episodes), "#line=2&turn=3")
    at(page, 3)
    assert (
        page.inner_text("#name") == f"Line 2: tic_tac_toe-v0, seed {seeds[1]}, sample 0"
    )


def test_values_of_moves_are_shown_and_large_regrets_are_jumped_to(tmp_path, open_page):
    blunder = scripted("tic_tac_toe", ["a1", "b1", "a2"], ["a3", "b3", "c3"])
    tokens = TurnCredit("segment", [0.5, -0.25, 1.0])
    page = open_page(page_of(tmp_path, blunder, tokens), "#line=1&turn=4")
    at(page, 4)
    assert "regret of the one played 2" in page.inner_text("#turn h3.regret")
    names = page.locator(".moves > span:nth-child(3n + 1)").all_inner_texts()
    values = page.locator(".moves .value").all_inner_texts()
    assert sorted(names[:2]) == ["c1", "c3"]
    assert values == ["+1", "+1", "-1", "-1", "-1"]
    assert page.inner_text(".moves .played") == "a2"
    large = page.locator("#strip .regret").evaluate_all(
        "all => all.map((c) => c.dataset.turn)"
    )
    large = sorted(map(int, large))
    assert 4 in large
    page.keyboard.press("Home")
    at(page, 0)
    page.keyboard.press("r")
    at(page, large[0])
    page.keyboard.press("End")
    page.keyboard.press("Shift+R")
    at(page, large[-1])
    stripes = page.locator("#strip .cell.own").first.evaluate("c => c.style.background")
    assert stripes.count("rgba(") == 3  # one for each token
    page.select_option("#viewer", "all")
    assert page.locator(".moves").count() == 1


def test_the_view_of_a_seat_hides_the_values_of_others(tmp_path, open_page):
    fold = scripted("kuhn_poker", ["bet"], ["pass"], seed=1)  # player_1 has the king
    page = open_page(page_of(tmp_path, fold), "#line=1&turn=1")
    at(page, 1)
    large = page.locator("#strip .regret[data-turn='1']")
    assert "NashConv" in page.inner_text("#turn")
    assert large.count() == 1
    page.select_option("#viewer", "player_0")
    assert page.locator(".moves").count() == 0
    assert large.count() == 0
    assert "regret" not in page.get_attribute("#strip [data-turn='1']", "title")
    page.select_option("#viewer", "player_1")
    assert large.count() == 1
