"""Credit with language models: exact measures, tuned steps, the noise of trees, the page."""

import copy
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

import credit_language as language
import credit_trees as trees
from arena_envs.games.rounds import Rounds
from arena_envs.games.rounds import State as Round
from arena_eval.exploit import requests_of
from arena_trainers.lm import LMPolicy
from arena_trainers.runs.tiny import tiny_model, tiny_tokenizer
from arena_wrappers import PromptOptions, RandomPolicy
from credit_payments import SIZE

pytestmark = pytest.mark.slow
SHORT = PromptOptions(rules=False, reply_format="bare", show_legal_actions=False)


@pytest.fixture(scope="module")
def policy():
    """A new model that knows the words of the games."""
    words = ["Round 1 2 3 4 5 6 7 8. Symbol A B C D. You Rock Paper Scissors 0"]
    tokenizer = tiny_tokenizer(words)
    return LMPolicy(tiny_model(tokenizer, seed=1), tokenizer, prompt=SHORT)


def test_choices_are_the_chances_of_the_first_tokens(policy):
    game = language.Symbols(num_rounds=1)
    asked = list(requests_of(game, SHORT).values())
    found = language.choices(policy, game, [request.state for request in asked])
    for request, chances in zip(asked, found, strict=True):
        firsts = [policy.chat.ids(text)[0] for text in request.legal]
        with torch.no_grad():
            scored = policy.model(torch.tensor([policy.prompt_ids(request)])).logits
        alone = scored[0, -1].softmax(0)[firsts]
        assert chances == pytest.approx((alone / alone.sum()).numpy(), rel=1e-4)


def test_the_share_of_the_stakes_is_that_of_the_right_answers(policy):
    game = language.Symbols(num_rounds=2, stakes="falling")
    states = [Round(n, x, 0, 0, (0,)) for n in range(2) for x in range(4)]
    chances = language.choices(policy, game, states)
    right = [chances[i, game.right_answer(s.symbol)] for i, s in enumerate(states)]
    wanted = 2 / 3 * np.mean(right[:4]) + 1 / 3 * np.mean(right[4:])
    assert language._rounds(policy, game) == pytest.approx(wanted)


def test_the_return_against_tit_for_tat_is_the_sum_over_all_choices(policy):
    game = language.Repeated(num_rounds=2)
    whole = 0.0
    for chosen in itertools.product(range(3), repeat=2):
        chance, paid = 1.0, 0.0
        rounds: tuple[tuple[int, int], ...] = ()
        for own in chosen:
            state = game.initial_state()._replace(rounds=rounds)
            chance *= language.choices(policy, game, [state])[0][own]
            other = rounds[-1][0] if rounds else 0
            paid += game.cells[own, other][0]
            rounds = (*rounds, (own, other))
        whole += chance * paid
    assert language._repeated(policy, game) == pytest.approx(whole / 2)


def test_the_return_of_the_first_seat_is_exact():
    """Of uniform play, whose values the games' pages have: (M + 1) / (2 N)."""
    for name, value in (("guess_number", 5 / 12), ("wordle", 4 / 10), ("goofspiel", 0)):
        game = language._game(name)
        got = language._first_seat(RandomPolicy(), game)
        assert got == pytest.approx(value, abs=1e-9)


def test_the_last_layers_go_on_where_the_others_end(policy):
    ids = torch.tensor([[7, 8, 9], [9, 8, 7]])
    with torch.no_grad():
        whole = policy.model.model(ids).last_hidden_state
        top, read = language.last_layers(copy.deepcopy(policy.model.model), ids, 1)
        found = top(inputs_embeds=read, use_cache=False).last_hidden_state
    assert len(top.layers) == 1
    assert torch.allclose(found, whole, atol=1e-5)


def test_the_prompt_hides_what_was_paid():
    game = language.Symbols()
    states = [Round(2, 3, 0, 0, (0,), paid) for paid in (0, 2)]
    assert {game.observe(state, 0) for state in states} == {"Round 3. Symbol D."}


def test_the_step_size_is_the_best_of_the_last_quarter():
    def run(late):
        return {language.TUNED_ON: {"return": [0.9] * 6 + [late] * 2}}

    runs = {
        "falling": {
            language.run_name(variant, step): run(0.5 - abs(step - 2e-3))
            for variant in language.VARIANTS
            for step in language.SETTINGS["falling"].steps
        }
    }
    assert language.tuned("falling", runs)["mars"] == "mars 0.002"


def test_the_exact_advantage_has_the_least_noise_without_trees():
    game = Rounds(num_rounds=2, **SIZE)
    batches = [trees.batch_of(game, 1000 * n, False)[1] for n in range(3)]
    turns = [trees.Turns(game, records) for records in batches]
    sums = np.array([one.sums(one.exact, one.exact.size) for one in turns])
    assert trees.noise_of(sums, sums) == pytest.approx(1, rel=0.3)


def test_the_page_is_that_of_the_committed_results():
    """Write it with: python benchmarks/credit_language.py."""
    folder = Path(__file__).parents[2] / language.DOCS
    runs = language.known_runs(folder)
    assert {"falling", "wage", "iterated", "end", "smollm2"} <= {
        *language.complete(runs)
    }
    trees_of = language.known_trees(folder)
    assert (folder / language.PAGE).read_text() == language.text(runs, trees_of)
