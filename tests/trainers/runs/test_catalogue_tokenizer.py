"""The tokenizer of all games of the catalogue: byte pairs, exact, and equal each time."""

import pytest

from arena_envs import GameEnv, game_infos, make_game
from arena_trainers.runs import build_configs, catalogue_tokenizer
from arena_wrappers import PromptOptions, PromptWrapper, RandomPolicy, play

SHORT = PromptOptions("bare", rules=False, parsing="strict")


@pytest.fixture(scope="module")
def tokenizer():
    return catalogue_tokenizer(SHORT, 4096)


def test_replies_in_all_games_of_the_catalogue_are_decoded_as_they_were(tokenizer):
    for info in game_infos():
        if info.extra is not None:
            continue
        env = PromptWrapper(GameEnv(make_game(info.id)), **vars(SHORT))
        (episode,) = play(env.clone, RandomPolicy(), [7])
        replies = [turn.reply for turn in episode.turns[:20]]
        ids = [tokenizer.encode(text, add_special_tokens=False) for text in replies]
        assert tokenizer.batch_decode(ids, skip_special_tokens=True) == replies


def test_any_text_is_read_and_written(tokenizer):
    text = "caf\u00e9 \u4e2d\u6587 \N{GRINNING FACE} 3.14\n\tx_y"
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids) == text
    assert tokenizer.unk_token_id not in ids


def test_an_action_has_the_tokens_that_it_has_in_the_prompt(tokenizer):
    asked = [{"role": "user", "content": "Legal actions: a1, pass."}]
    prompt = tokenizer.apply_chat_template(asked, return_dict=False)
    for action in ("a1", "pass"):
        (token,) = tokenizer.encode(action, add_special_tokens=False)
        assert token in prompt


@pytest.mark.slow
def test_the_tokenizer_is_the_same_each_time(tokenizer):
    again = catalogue_tokenizer.__wrapped__(SHORT, 4096)
    assert again.get_vocab() == tokenizer.get_vocab()


def test_a_vocabulary_without_room_for_all_bytes_is_refused(tmp_path):
    with pytest.raises(ValueError, match="of at least 262 for all bytes and the chat"):
        build_configs({"vocab_size": 261}, str(tmp_path))
