"""What environments render: pixels, and the error without the packages that draw them."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import RecordVideo

import arena_envs
from arena_envs import checks
from arena_envs.scenes.rendering import SIDE


@pytest.fixture
def render_extra() -> None:
    if name := checks.missing_package():
        pytest.skip(f"the extra render is not installed: {name} is missing")


def test_a_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks, "missing_package", lambda: "resvg_py")
    wanted = r"needs the package 'resvg_py'.*pip install '\.\[render\]'"
    with pytest.raises(ModuleNotFoundError, match=wanted):
        arena_envs.make("kuhn_poker", render_mode="rgb_array")
    assert checks.render_modes() == ["ansi", "human"]


@pytest.mark.usefixtures("render_extra")
def test_pixels_show_what_the_agent_to_move_sees() -> None:
    env = arena_envs.make("kuhn_poker", render_mode="rgb_array")
    frames = []
    for deal in ([0, 2], [0, 1], [1, 2]):
        env.reset(options={"chance": deal})
        frames.append(env.render())
    for frame in frames:
        assert frame.shape == (SIDE, SIDE, 3)
        assert frame.dtype == np.uint8
        assert len(np.unique(frame.reshape(-1, 3), axis=0)) > 5
    assert (frames[0] == frames[1]).all()  # the other's card is hidden
    assert (frames[0] != frames[2]).any()


@pytest.mark.slow
@pytest.mark.usefixtures("render_extra")
def test_gymnasium_records_a_video(tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    env: Any = gymnasium.make("arena/TicTacToe-v0", render_mode="rgb_array")
    env = RecordVideo(env, str(tmp_path / "videos"), disable_logger=True)
    _, info = env.reset(seed=0)
    over = False
    while not over:
        action = int(np.flatnonzero(info["action_mask"])[0])
        _, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    env.close()
    (video,) = tmp_path.glob("videos/*.mp4")
    assert video.stat().st_size > 1000
