"""`SeatChat`: prompts and raw replies of one seat, for adapters."""

from arena_wrappers.play import SeatChat, make_seat_env


def test_replies_are_read_in_their_format() -> None:
    chat = SeatChat(make_seat_env("tic_tac_toe", 0, "minimax"), "boxed")
    chat.env.reset(seed=0)
    system, user = chat.prompt()
    assert r"\boxed{...}" in system["content"]
    assert user["content"].startswith("You are X. You are to move.")
    reward, terminated, truncated, info = chat.step(r"Why not \boxed{B2}")
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert chat.env.env.actions[0] == 4
    assert "invalid_reply" not in info


def test_an_invalid_reply_forfeits_with_the_reason_and_leaves_the_state() -> None:
    chat = SeatChat(make_seat_env("kuhn_poker"), "bare")
    chat.env.reset(seed=0)
    before = chat.env.env.game_state
    reward, terminated, _, info = chat.step("raise")
    assert (reward, terminated) == (-2.0, True)
    assert info["invalid_reply"] == "The answer is not a legal action."
    assert chat.env.env.game_state == before


def test_a_language_game_reads_messages() -> None:
    chat = SeatChat(make_seat_env("bargaining"), "answer")
    chat.env.reset(seed=0)
    *_, info = chat.step("<answer>Half is fair. offer 50</answer>")
    assert "invalid_reply" not in info
    assert chat.env.env.actions[-2].message == "Half is fair."
