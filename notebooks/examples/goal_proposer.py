"""A proposer of goals: the model sets itself goals, tries them, and is paid by an evaluator.

After PAE, Proposer-Agent-Evaluator (https://arxiv.org/abs/2412.13194). In its first turn of a game the model
proposes an action as its goal: "I want to bet". It then plays, and reads the goal in each turn. The
evaluator reads the transcript: it pays 1 for each turn that kept the goal. The game's own score counts
nothing. In PAE a large model proposes from a description of a website, and only the agent learns.

    python notebooks/examples/goal_proposer.py
"""

from tempfile import TemporaryDirectory

from arena_envs import make_game
from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer
from arena_trainers.runs import tiny_model, tiny_tokenizer, words_of
from arena_wrappers import AgentPolicy, Ask, PromptOptions, Reply
from arena_wrappers.policies import add_instruction, roles


@roles("proposer", "actor")
def proposing(view):
    """The goal of the episode is the first that was proposed in it."""
    proposal = None
    if view.past:
        goal = view.past[0].generations[0].text
    else:
        proposal = yield Ask("proposer", add_instruction("Goal?", view.messages))
        goal = proposal.text
    prompt = add_instruction(f"Goal: {goal}", view.messages)
    move = yield Ask("actor", prompt, parent=proposal)
    return Reply(move.text)


def evaluator(calls):
    """Pays the actor for a move that keeps the goal, and the proposer for one that is legal."""
    pay = []
    for call in calls:
        paid_texts = call.turn.legal if call.generation.role == "proposer" else []
        if call.generation.role == "actor":
            goal = call.generation.messages[-1]["content"].rpartition("Goal: ")[2]
            paid_texts = [goal] if goal in call.turn.legal else []
        pay.append(float(call.generation.text in paid_texts))
    return pay


def train(folder, num_steps=60):
    """What a seat is paid in an episode, in the first and in the last batch."""
    game, short = make_game("kuhn_poker"), PromptOptions("bare", rules=False)
    tokenizer = tiny_tokenizer([*words_of(game, short), "Goal: ?"])
    args = TurnGRPOConfig(
        output_dir=folder, games=["kuhn_poker"], rules=False, reply_format="bare",
        on_invalid="random", max_completion_length=2, max_steps=num_steps,
        episodes_per_step=64, learning_rate=1e-2, part_weights={"game": 0.0, "goal": 1.0},
        credit="mars(pool=[role])", use_cpu=True, bf16=False, report_to="none",
        gradient_checkpointing=False, save_strategy="no", disable_tqdm=True, logging_steps=1,
    )  # fmt: skip
    trainer = TurnGRPOTrainer(
        tiny_model(tokenizer, hidden_size=16, num_layers=1),
        args,
        processing_class=tokenizer,
        agent=lambda model: AgentPolicy(proposing, model),
        columns={"rewards.goal": evaluator},
    )
    trainer.train()
    logs = [log["reward"] for log in trainer.state.log_history if "reward" in log]
    return logs[0], logs[-1]


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        print("paid in an episode, at the first and the last step:", *train(place))
