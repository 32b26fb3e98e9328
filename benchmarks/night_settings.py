"""The settings of `benchmarks/night.py`: games, options of training, what is measured, what is expected.

A pretrained model imitates replies (`start`: random legal play; `reasoned_start`: true reasons before
the action, see `game_reasons`), and then learns by self-play with one credit estimator. Stages:
`kuhn` is the setting of prime-rl, Kuhn poker alone in 20 steps; `mixed` is five games in 150 steps,
`reasoned` the same games with reasons, and `longer` goes on from its runs with the default and `episode`.
The adapter of a run is that of its start, trained on.
"""

from dataclasses import dataclass, replace
from typing import Any

from arena_wrappers import PromptOptions

LAYERS = range(20, 30)  # of SmolLM2's 30 layers; the last ones have the adapter
LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj")
LINEAR_MLP = ("gate_proj", "up_proj", "down_proj")
TARGETS = [f"{n}.self_attn.{name}" for n in LAYERS for name in LINEAR]
TARGETS += [f"{n}.mlp.{name}" for n in LAYERS for name in LINEAR_MLP]
PROMPT = PromptOptions("bare", rules=False, parsing="strict")
MAX_TOKENS = 12  # of a reply
MARKS = ("Because", "therefore")  # around a reason
MAX_REASONED_TOKENS = (
    20  # of a reply with a reason; those that are imitated have 6 to 16
)
DTYPE = "bfloat16"  # of the base, in imitation, play and training; adapters are float32
FIRST_DEAL = 2**30  # deals from here on measure, those below are of training

# Small versions: prompts of 55 to 240 tokens.
ROUNDS = {"num_rounds": 4}
NUMBERS = {"num_numbers": 8, "max_guesses": 4, "num_ranges": 1}
TRAINED: dict[str, dict[str, Any]] = {
    "tic_tac_toe": {},
    "kuhn_poker": {},
    "mini_hanabi": {},
    "rounds": ROUNDS,
    "guess_number": NUMBERS,
}


@dataclass(frozen=True)
class Measured:
    """A game in which a model is measured.

    Args:
        title: in tables.
        game: its id, or a transform of one.
        params: of the game.
        opponent: in all other seats; `"self"` plays all seats.
        deals: seeds that are played, with each seat of the model.
        nash_conv: whether the exact NashConv is measured, too.
    """

    title: str
    game: str
    params: dict[str, Any]
    opponent: str = "self"
    deals: int = 48
    nash_conv: bool = False

    @property
    def facts(self) -> dict[str, Any]:
        """All but the title."""
        return {k: v for k, v in vars(self).items() if k != "title"}


def questions(protocol: str) -> Measured:
    """Sums, asked by a protocol of several seats or of one."""
    params = {"protocol": protocol, "source": "arithmetic"}
    return Measured(f"Questions, `{protocol}`", "questions", params, deals=24)


RANDOM = "random"
MEASURED: dict[str, Measured] = {
    "kuhn_poker": Measured("Kuhn poker", "kuhn_poker", {}, RANDOM, 48, True),
    "tic_tac_toe": Measured("Tic-tac-toe", "tic_tac_toe", {}, RANDOM),
    "rounds": Measured("Rounds, 4 of them", "rounds", ROUNDS),
    "guess_number": Measured("Guess one of 8 numbers", "guess_number", NUMBERS),
    "mini_hanabi": Measured("Mini Hanabi", "mini_hanabi", {}),
    "kuhn_disguised": Measured(
        "Kuhn poker, disguised", "disguise:1(kuhn_poker)", {}, RANDOM, 48, True
    ),
    "tic_tac_toe_disguised": Measured(
        "Tic-tac-toe, disguised", "disguise:1(tic_tac_toe)", {}, RANDOM, 24
    ),
    "leduc_poker": Measured("Leduc poker", "leduc_poker", {}, RANDOM, 24, True),
    "connect_four": Measured("Connect Four", "connect_four", {}, RANDOM, 12),
    "simple_hanabi": Measured("Simple Hanabi", "simple_hanabi", {}, deals=24),
    **{name: questions(name) for name in ("solo", "vote", "debate")},
}

# Imitation of random legal play of the trained games: episodes of each give about 100 replies. With equal
# numbers of episodes, one reply in twelve was of Kuhn poker, and the start bet in nine of ten cases.
IMITATION: dict[str, Any] = {
    "episodes": {
        "tic_tac_toe": 13,
        "kuhn_poker": 45,
        "mini_hanabi": 15,
        "rounds": 25,
        "guess_number": 32,
    },
    "steps": 24,
    "batch_size": 16,
    "learning_rate": 2e-3,
}
# Imitation of replies with reasons. Rows that run at once are padded to the longest.
REASONED_IMITATION: dict[str, Any] = {
    "steps": 100,
    "batch_size": 16,
    "learning_rate": 2e-3,
    "max_tokens": 1024,
}
NUM_SEEDS = 3
LORA_R = 16

SHARED: dict[str, Any] = {
    "reply_format": PROMPT.reply_format,
    "rules": PROMPT.rules,
    "parsing": PROMPT.parsing,
    "max_completion_length": MAX_TOKENS,
    "episodes_per_step": 32,
    # A large epsilon keeps the first updates small, as in the recipe `smollm2`.
    "learning_rate": 1e-4,
    "adam_epsilon": 1e-4,
    "adam_beta1": 0.5,
    "lr_scheduler_type": "linear",
    "warmup_steps": 3,
    "max_grad_norm": 1.0,
    "max_tokens_per_forward": 2048,
    "bf16": False,  # the base is bfloat16 as it is, see `DTYPE`
    "gradient_checkpointing": False,
    "logging_steps": 1,
    "save_total_limit": 1,
}


START, REASONED_START = "start", "reasoned_start"


@dataclass(frozen=True)
class Stage:
    """A setting of training.

    Args:
        title: in tables.
        options: of `arena train`, beside `SHARED` and the credit.
        credits: estimators that are compared.
        every: steps between measures of Kuhn poker's NashConv.
        measured: keys of `MEASURED`, of each run.
        start: the name of its start.
        after: the stage whose run of the same credit and seed it goes on from, if there is one.
    """

    title: str
    options: dict[str, Any]
    credits: tuple[str, ...]
    every: int
    measured: tuple[str, ...]
    start: str = START
    after: str | None = None


DEFAULT, GRPO = "control_variates", "episode"
STAGES = {
    "kuhn": Stage(
        "Kuhn poker alone",
        {
            "games": ["kuhn_poker"],
            "beta": 0.5,
            "num_generations": 8,
            "max_steps": 20,
            "save_steps": 5,
        },
        ("rae", GRPO, DEFAULT),
        5,
        ("kuhn_poker",),
    ),
    "mixed": Stage(
        "five games without reasons",
        {
            "games": [
                # weights by length: an episode of Mini Hanabi has 1,400 tokens, one of Kuhn poker 150
                {"id": "tic_tac_toe", "weight": 0.5},
                {"id": "tic_tac_toe", "opponents": "random", "weight": 1},
                {"id": "kuhn_poker", "weight": 2},
                {"id": "mini_hanabi", "weight": 0.5},
                {"id": "rounds", "params": ROUNDS, "weight": 2},
                {"id": "guess_number", "params": NUMBERS, "weight": 2},
            ],
            "beta": 0.1,
            "num_generations": 4,
            "max_steps": 150,
            "save_steps": 5,
        },
        (DEFAULT,),
        10,
        tuple(MEASURED),
    ),
    "reasoned": Stage(
        "five games with reasons",
        {
            "games": [
                # by cost, too: a step with Mini Hanabi takes twice as long as one without
                {"id": "rounds", "params": ROUNDS, "weight": 5},
                {"id": "kuhn_poker", "weight": 4},
                {"id": "guess_number", "params": NUMBERS, "weight": 2.5},
                {"id": "tic_tac_toe", "weight": 0.25},
                {
                    "id": "tic_tac_toe",
                    "ladder": ["random", "mcts:10"],
                    "weight": 0.125,
                },
                {"id": "mini_hanabi", "weight": 0.25},
            ],
            "max_completion_length": MAX_REASONED_TOKENS,
            "reasoning_marks": [*MARKS],
            "learning_rate": 6e-4,
            "beta": 0.2,
            "num_generations": 8,
            "episodes_per_step": 96,
            "max_steps": 28,
            "save_steps": 7,
        },
        (DEFAULT, GRPO, "mars"),
        7,
        tuple(MEASURED),
        REASONED_START,
    ),
}
# Learning rate, optimizer and KL term begin anew.
STAGES["longer"] = replace(
    STAGES["reasoned"],
    title="five games with reasons, 22 more steps",
    options={**STAGES["reasoned"].options, "max_steps": 22, "save_steps": 11},
    credits=(DEFAULT, GRPO),
    every=11,
    measured=tuple(TRAINED),
    after="reasoned",
)

# Written before the runs of a stage. The number is the least change of the mean over seeds that counts.
EXPECTED_WITHOUT_REASONS: dict[str, tuple[str, float, str]] = {
    "kuhn_poker": ("lower NashConv", 0.2, "the recipe `smollm2` fell from 0.7 to 0.35"),
    "tic_tac_toe": ("higher return", 0.3, "two of three groups face random play"),
    "rounds": ("higher return", 1.0, "each answer is paid at once"),
    "guess_number": ("higher return", 0.1, "the answers name the side"),
    "mini_hanabi": (
        "higher return",
        0.5,
        "the first legal action alone is 0.8 above random play",
    ),
    "kuhn_disguised": ("no change", 0.1, "cards and actions have other names"),
    "tic_tac_toe_disguised": ("no change", 0.1, "the squares have other names"),
    "leduc_poker": ("no change", 0.3, "never trained"),
    "connect_four": ("no change", 0.2, "never trained"),
    "simple_hanabi": ("higher return", 0.3, "its prompts are those of Mini Hanabi"),
    "solo": ("no change", 0.05, "never trained"),
    "vote": ("no change", 0.05, "never trained"),
    "debate": ("no change", 0.05, "never trained"),
}
EXPECTED: dict[str, tuple[str, float, str]] = {
    "kuhn_poker": (
        "higher return",
        0.05,
        "NashConv fell by 0.05 in a pilot of rounds alone",
    ),
    "tic_tac_toe": ("higher return", 0.1, "more replies are legal"),
    "rounds": ("higher return", 1.0, "a pilot of rounds alone: 1.5, then 3.2"),
    "guess_number": ("higher return", 0.1, "the reason names a good guess"),
    "mini_hanabi": ("no change", 0.3, "one episode in fifty"),
    "kuhn_disguised": ("no change", 0.1, "cards and actions have other names"),
    "tic_tac_toe_disguised": ("no change", 0.1, "the squares have other names"),
    "leduc_poker": ("no change", 0.3, "never trained"),
    "connect_four": ("no change", 0.2, "never trained"),
    "simple_hanabi": ("no change", 0.3, "never trained"),
    "solo": ("no change", 0.05, "never trained"),
    "vote": ("no change", 0.05, "never trained"),
    "debate": ("no change", 0.05, "never trained"),
}

# Changes in the 22 steps of `longer`, by game and measure.
EXPECTED_LONGER: dict[tuple[str, str], tuple[str, float, str]] = {
    ("kuhn_poker", "nash_conv"): (
        "lower",
        0.05,
        "it fell to the end of the first 28 steps",
    ),
    ("rounds", "return"): ("higher", 0.2, "it rose to the end of the first 28 steps"),
    ("guess_number", "return"): (
        "no change",
        0.1,
        "guessing alone did not rise in 13 steps of 64",
    ),
    ("tic_tac_toe", "return"): ("no change", 0.15, "one episode in thirty"),
    ("mini_hanabi", "return"): (
        "higher",
        0.2,
        "it rose by 0.5, and by 0.6 with `episode`",
    ),
}

# Between credits; each was written before the runs of its stage.
EXPECTED_CREDITS = {
    "kuhn": "In 20 steps NashConv falls by 0.1 to 0.3 with each credit; the three differ by less than "
    "their intervals.",
    "reasoned": "The default is above `episode` in rounds by 0.3, as each answer is paid by itself, "
    "and elsewhere within the intervals.",
}
