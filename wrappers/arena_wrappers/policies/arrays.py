"""`ArrayPolicy`: numeric agents as policies, and `array:FORMAT:PATH` for saved ones."""

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from pickle import UnpicklingError
from typing import Any

from arena_envs.checks import did_you_mean
from arena_envs.game import AnyGame, ArrayLike, Floats, Mask, Vector, np
from arena_envs.nodes import action_mask
from arena_envs.registry import missing_extra
from arena_wrappers.policies.protocol import Reply, TurnRequest

Probabilities = Callable[[Vector, Mask], ArrayLike]
Widths = tuple[int, int]
Loaded = tuple[Probabilities, Widths | None]


class ArrayPolicy:
    """A function of features and action masks as a policy with `action_probs`.

    The features and masks are those of `SeatEnv`. A draw of an illegal action is an invalid
    reply; the probability of these draws is the illegal mass.

    Args:
        probs: gives the action probabilities, float[B, n], of features, float32[B, k], and
            masks, int8[B, n].
        name: name in records.
        widths: k and n of the games that it plays; None: any.

    >>> import numpy as np
    >>> from arena_wrappers import play
    >>> always_bets = ArrayPolicy(lambda features, masks: np.eye(2)[[1] * len(masks)])
    >>> play("kuhn_poker", always_bets, [0])[0].returns
    [2.0, -2.0]
    """

    def __init__(
        self, probs: Probabilities, name: str = "array", widths: Widths | None = None
    ) -> None:
        self._probs, self.name, self._widths = probs, name, widths

    def check_game(self, game: AnyGame) -> None:
        """Raises ValueError for a game with other features or actions; play asks before it starts."""
        if self._widths is None:
            return
        widths = game.features(game.initial_state(), 0).size, game.num_actions
        if self._widths != widths:
            raise ValueError(
                f"policy {self.name!r} wants a game with (features, actions) "
                f"{self._widths}, got {widths} of {game!r:.200}; give weights that were "
                "trained on it"
            )

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        replies = []
        for request, probs in zip(requests, self.action_probs(requests), strict=True):
            shares, illegal = probs
            weights = [*((1 - illegal) * share for share in shares), illegal]
            (text,) = random.Random(request.seed).choices([*request.legal, ""], weights)
            replies.append(Reply(request.wrap(text), instead=None if text else "empty"))
        return replies

    def action_probs(
        self, requests: Sequence[TurnRequest]
    ) -> list[tuple[list[float], float]]:
        probabilities = []
        for request, row in zip(requests, self._rows(requests), strict=True):
            legal = row[list(request.game.legal_actions(request.state))]
            mass = float(legal.sum())
            shares = legal / mass if mass > 0 else np.full(len(legal), 1 / len(legal))
            probabilities.append((shares.tolist(), max(0.0, 1 - mass)))
        return probabilities

    def _rows(self, requests: Sequence[TurnRequest]) -> Floats:
        """The action probabilities of each request: float[B, n]."""
        game = requests[0].game
        num = game.num_actions
        if num is None or any(r.game.num_actions != num for r in requests):
            raise ValueError(
                f"policy {self.name!r} plays one game with numbered actions, got "
                f"{game!r}"
            )
        self.check_game(game)
        features = [np.asarray(r.game.features(r.state, r.seat)) for r in requests]
        legal = [r.game.legal_actions(r.state) for r in requests]
        masks = np.stack([action_mask(num, tuple(actions)) for actions in legal])
        rows = np.asarray(
            self._probs(np.stack(features).astype(np.float32), masks), float
        )
        is_sound = rows.shape == masks.shape and rows.min() > -1e-3  # rounding
        if not is_sound or not np.allclose(rows.sum(1), 1, atol=1e-3):
            raise ValueError(
                f"policy {self.name!r}: want probabilities of shape {masks.shape} that "
                f"sum to 1, none below 0, got shape {rows.shape}: {rows[:1]}"
            )
        return np.asarray(rows.clip(0) / rows.clip(0).sum(1, keepdims=True))


def load(argument: str) -> ArrayPolicy:
    """The policy of `array:FORMAT:PATH`; reading `sb3` or `torchrl` runs the code that its file names.

    | Format | Path |
    |---|---|
    | `sb3` | a zip file of Stable-Baselines3 or sb3-contrib, trained on `SeatEnv`; Q-networks play greedily |
    | `rllib` | the folder of a module that RLlib saved, trained on `RLlibEnv` |
    | `cleanrl` | the weights that `ppo.py` or `dqn.py` of CleanRL saved; networks as there |
    | `torchrl` | an actor or a Q-value actor of one seat, saved whole by `torch.save` |

    Raises:
        ValueError: the format is unknown, or the file is damaged or of another network.
        FileNotFoundError: there is no such file.
        ModuleNotFoundError: the framework is not installed.
    """
    form, _, path = argument.partition(":")
    if form not in _FORMATS or not path:
        hint = did_you_mean(form, _FORMATS)
        raise ValueError(f"want array:FORMAT:PATH, got 'array:{argument}'; {hint}")
    try:
        probs, widths = _FORMATS[form](path)
        return ArrayPolicy(probs, f"array:{argument}", widths)
    except ModuleNotFoundError as error:
        raise missing_extra(error, form) from error
    except _DAMAGED as error:
        problem = f"want a file that {form} saved, got {path}: {type(error).__name__}: {error}"
        raise ValueError(problem.splitlines()[0]) from error


def _sb3(path: str) -> Loaded:
    import torch
    from stable_baselines3.common.save_util import load_from_zip_file

    data, weights, _ = load_from_zip_file(path, device="cpu")
    spaces = data["observation_space"], data["action_space"]
    net = data["policy_class"](*spaces, lambda _: 0.0, **data["policy_kwargs"])
    net.load_state_dict(weights["policy"])
    net.set_training_mode(False)

    def probs(features: Vector, masks: Mask) -> Any:
        observation = {"observation": features, "action_mask": masks}
        if not hasattr(net, "get_distribution"):
            return np.eye(masks.shape[1])[
                net.predict(observation, deterministic=True)[0]
            ]
        mask_arguments = (masks,) if hasattr(net.action_dist, "apply_masking") else ()
        with torch.no_grad():
            distribution = net.get_distribution(
                net.obs_to_tensor(observation)[0], *mask_arguments
            )
        return distribution.distribution.probs

    return probs, None


def _rllib(path: str) -> Loaded:
    import torch
    from ray.rllib.core.rl_module import RLModule

    module: Any = RLModule.from_checkpoint(path)

    def probs(features: Vector, masks: Mask) -> Any:
        observation = {"observations": torch.as_tensor(features)}
        observation["action_mask"] = torch.as_tensor(masks, dtype=torch.float32)
        with torch.no_grad():
            logits = module.forward_inference({"obs": observation})[
                "action_dist_inputs"
            ]
        return logits.softmax(-1)

    return probs, None


def _cleanrl(path: str) -> Loaded:
    """`actor` of `ppo.py` has tanh layers and is drawn from; `network` of `dqn.py` has ReLU."""
    import torch

    saved = torch.load(path, map_location="cpu", weights_only=True)
    part = "actor." if "actor.0.weight" in saved else "network."
    layers = [saved[key].numpy() for key in saved if str(key).startswith(part)]
    shapes = [layer.shape for layer in layers]
    sizes = [*(shape[-1:] for shape in shapes[:1]), *shapes[1::2]]
    if not shapes or shapes != [s for k, n in pairwise(sizes) for s in ((*n, *k), n)]:
        raise ValueError(
            "want the weights of ppo.py or dqn.py of CleanRL, linear layers with "
            "biases named actor.0.weight or network.0.weight and so on, each as wide "
            f"as the one before, got {list(saved)} of shapes {shapes} in {path}"
        )

    def probs(features: Vector, masks: Mask) -> Any:
        out = features @ layers[0].T + layers[1]
        for weight, bias in zip(layers[2::2], layers[3::2], strict=True):
            hidden = np.tanh(out) if part == "actor." else out.clip(0)
            out = hidden @ weight.T + bias
        return _greedy(out) if part == "network." else torch.tensor(out).softmax(1)

    return probs, (*sizes[0], *sizes[-1])


def _torchrl(path: str) -> Loaded:
    import torch
    from tensordict import TensorDict

    actor = torch.load(path, map_location="cpu", weights_only=False).eval()

    def probs(features: Vector, masks: Mask) -> Any:
        observation = {"observation": features, "action_mask": masks.astype(bool)}
        tensors = TensorDict(observation, [len(masks)])
        with torch.no_grad():
            if hasattr(actor, "get_dist"):
                return actor.get_dist(tensors).probs
            return _greedy(actor(tensors)["action_value"])

    return probs, None


def _greedy(values: Any) -> Any:
    return np.eye(values.shape[1])[values.argmax(1)]


_DAMAGED = (UnpicklingError, EOFError, LookupError, AttributeError, RuntimeError)
_FORMATS: dict[str, Callable[[str], Loaded]] = {
    "sb3": _sb3,
    "rllib": _rllib,
    "cleanrl": _cleanrl,
    "torchrl": _torchrl,
}
