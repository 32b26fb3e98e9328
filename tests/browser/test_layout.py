"""The layout of six games on a wide screen and on a phone, compared with pictures that were looked at.

A picture in `layout/` that is missing is written, and its test fails: look at it before you commit it.
The comparison is coarse, so that fonts of another system pass.
"""

import io
import runpy
from pathlib import Path

import pytest
from PIL import Image, ImageChops, ImageStat

WEB = runpy.run_path(str(Path(__file__).with_name("test_web.py")))
visit, served = WEB["visit"], WEB["served"]
pytestmark = pytest.mark.slow

LAYOUT = Path(__file__).with_name("layout")
GAMES = {  # each with the moves before the picture
    "connect_four-v0": ["d", "d", "c"],
    "tic_tac_toe-v0": ["b2"],
    "hex-v0": ["f6", "e5"],
    "leduc_poker-v0": ["call"],
    "mini_hanabi-v0": ["reveal red to player_1"],
    "werewolf-v1": [],
}
OPEN = """async ([game, moves]) => {
  const seats = Array(factsOf(game).players).fill("random");
  seats[0] = "person";
  let view = await ask("/api/tables", { game, seats, seed: 7 });
  const settled = async () => {
    while (!view.yours && !view.done) view = await ask(`/api/tables/${view.table}`);
  };
  await settled();
  for (const text of moves) {
    view = await ask(`/api/tables/${view.table}/reply`, { text, turn: view.turn });
    await settled();
  }
  location.hash = `table=${view.table}`;
}"""


def coarse(picture: Image.Image) -> Image.Image:
    return picture.convert("L").resize((64, 64), Image.Resampling.BOX)


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("game", GAMES)
def test_a_game_looks_as_it_did_and_fits_the_screen(visit, game, width) -> None:
    page = visit(viewport={"width": width, "height": 800}, reduced_motion="reduce")
    page.evaluate(OPEN, [game, GAMES[game]])
    page.wait_for_selector("#table:not([hidden])")
    page.evaluate("document.activeElement.blur()")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    shown = Image.open(io.BytesIO(page.screenshot()))
    path = LAYOUT / f"{game.partition('-')[0]}-{width}.png"
    if not path.exists():
        LAYOUT.mkdir(exist_ok=True)
        small = shown.convert("RGB").resize((width // 2, 400), Image.Resampling.LANCZOS)
        small.quantize(128).save(path, optimize=True)
        pytest.fail(f"{path} is new; look at it, and commit it")
    difference = ImageChops.difference(coarse(shown), coarse(Image.open(path)))
    assert ImageStat.Stat(difference).mean[0] < 6
