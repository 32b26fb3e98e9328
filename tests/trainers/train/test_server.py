"""`vllm_mode: server` with a stand-in for vLLM's server; the real one is in tests/scale."""

import contextlib
import json
import sys
import threading
import time
from dataclasses import replace
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from peft import LoraConfig
from transformers import TrainerCallback
from transformers.trainer_utils import IntervalStrategy

from arena_trainers import TurnGRPOConfig
from arena_trainers.engines import transfer, weights
from arena_trainers.lm import adapter_base
from arena_trainers.lm.backends import Sampling
from arena_trainers.lm.backends.served import read_served_model
from arena_trainers.lm.backends.server import JSONServer, ServerError
from arena_trainers.lm.backends.server_backend import ServerBackend
from arena_trainers.lm.backends.sglang import SERVERS
from arena_trainers.lm.backends.transformers import TransformersBackend
from arena_trainers.lm.backends.vllm import bit_sum
from arena_trainers.lm.loading import load_model, with_adapter
from arena_trainers.lm.policy import LMPolicy
from arena_wrappers import play_plans
from arena_wrappers.play import plans_of
from arena_wrappers.play.schedule import Scheduler, _numbered

DIFFERENCE = "sampling/sampling_logp_difference/max"
MEAN = "sampling/sampling_logp_difference/mean"
SAMPLING = Sampling(max_new_tokens=2, end_ids=(1,))


class StandIn(ThreadingHTTPServer):
    """Answers as vLLM does; generates with what it was told to load.

    `faults` gives answers by path in place of its own: a status, bytes, or a function of the
    answer that it would have given.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, folder, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.folder = folder
        self.models = {"policy": model_of(folder)}
        self.version, self.mode, self.lora = "default", "processed_logprobs", 8
        self.transfer: dict[str, str] | None = None
        self.faults, self.calls, self.lock = {}, [], threading.Lock()
        self.lines = set()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def paths(self):
        return [path for path, _ in self.calls]

    @property
    def num_loads(self):
        """How often whole weights were loaded from files."""
        bodies = (body for path, body in self.calls if path == "/collective_rpc")
        return sum(body["method"] == "reload_weights" for body in bodies)

    def stop(self):
        """Ends as a killed process does, with all its connections."""
        self.shutdown()
        for line in list(self.lines):
            with contextlib.suppress(OSError):
                line.shutdown(2)
        self.server_close()

    def process_request(self, request, client_address):
        self.lines.add(request)
        super().process_request(request, client_address)

    def answer(self, path, body):
        name = path.partition("?")[0].strip("/").replace("/", "_")
        return getattr(self, name, lambda body: {})(body)

    def v1_models(self, body):
        cards = [{"id": "policy", "root": str(self.folder), "parent": None}]
        adapters = [name for name in self.models if name != "policy"]
        return {"data": cards + [{"id": n, "parent": "policy"} for n in adapters]}

    def server_info(self, body):
        model = {"dtype": "torch.float32", "logprobs_mode": self.mode}
        lora = self.lora and {"max_lora_rank": self.lora}
        extension = "arena_trainers.lm.backends.vllm.WeightSums"
        parallel = {"worker_extension_cls": extension, "world_size": 1}
        config = {"model_config": model, "parallel_config": parallel}
        others = {"lora_config": lora, "weight_transfer_config": self.transfer}
        return {"vllm_config": config | others}

    def weight_info(self, body):
        return {"weight_version": self.version}

    def update_weight_version(self, body):
        self.version = body["new_version"]
        return {"success": True}

    def reset_prefix_cache(self, body):
        return {"success": True}

    def collective_rpc(self, body):
        if body["method"] == "arena_sum":
            return {"results": [self.sum_of(**body["kwargs"])]}
        self.models["policy"] = model_of(body["kwargs"]["weights_path"])
        return {"results": [None]}

    def sum_of(self, is_adapter):
        """As a worker of vLLM: it merges layers, and multiplies B by the scale."""
        model = list(self.models.values())[-1]
        if not is_adapter:
            return str(
                bit_sum(
                    [torch.cat([p.flatten() for p in model.parameters()])], "float32"
                )
            )
        (config,), named = model.peft_config.values(), model.named_parameters()
        scale = config.lora_alpha / config.r
        parts = [p * scale if "lora_B" in n else p for n, p in named if "lora_" in n]
        return str(bit_sum(parts, "float32"))

    def update_weights(self, body):
        told = body["update_info"]
        named = zip(told["names"], map(torch.tensor, told["values"]), strict=True)
        self.models["policy"].load_state_dict(dict(named), strict=False)
        return {"message": "Weights updated"}

    def v1_load_lora_adapter(self, body):
        assert not body.get("load_inplace")
        assert body["lora_name"] not in self.models  # refused by vLLM
        self.models[body["lora_name"]] = model_of(body["lora_path"])
        return b"Success: LoRA adapter added"

    def v1_unload_lora_adapter(self, body):
        del self.models[body["lora_name"]]
        return b"Success: LoRA adapter removed"

    def v1_completions(self, body):
        sampling = Sampling(body["max_tokens"], end_ids=tuple(body["stop_token_ids"]))
        with self.lock:
            backend = TransformersBackend(self.models[body["model"]], 0)
            # equal prompts take a shorter path
            steps = []
            made = backend.generate(
                [body["prompt"]] * 2,
                [body["seed"]] * 2,
                sampling,
                lambda _, logprobs: steps.append(logprobs[0].tolist()),
            )
        logprobs = {"token_logprobs": made.logprobs[0]}
        if num := body["logprobs"]:
            assert body["return_tokens_as_token_ids"]
            pairs = zip(made.token_ids[0], steps, strict=False)
            logprobs["top_logprobs"] = [
                likeliest(of, token, num) for token, of in pairs
            ]
        choice = {
            "token_ids": made.token_ids[0],
            "logprobs": logprobs,
            "finish_reason": "stop",
        }
        return {"model": body["model"], "choices": [choice]}


class SGLangStandIn(StandIn):
    """Answers by the routes of SGLang's documentation; another path is an error."""

    deterministic, dtype = True, "float32"

    def answer(self, path, body):
        name = path.partition("?")[0].strip("/")
        return getattr(self, f"sglang_{name}")(body)

    def sglang_server_info(self, body):
        info = {"model_path": str(self.folder), "dtype": self.dtype}
        info |= {"enable_lora": True, "max_lora_rank": 8}
        return info | {"enable_deterministic_inference": self.deterministic}

    def sglang_get_model_info(self, body):
        return {"model_path": str(self.folder), "weight_version": self.version}

    def sglang_pause_generation(self, body):
        return {"status": "ok"}

    sglang_continue_generation = sglang_pause_generation

    def sglang_update_weights_from_disk(self, body):
        self.models["policy"] = model_of(body["model_path"])
        self.version = body["weight_version"]
        return {"success": True, "message": "", "num_paused_requests": 0}

    def sglang_load_lora_adapter(self, body):
        return {"success": self.v1_load_lora_adapter(body) is not None}

    def sglang_unload_lora_adapter(self, body):
        if body["lora_name"] not in self.models:
            return 400
        return {"success": self.v1_unload_lora_adapter(body) is not None}

    def sglang_generate(self, body):
        params = body["sampling_params"]
        assert (params["top_k"], params["top_p"]) == (-1, 1.0)
        asked = {"max_tokens": params["max_new_tokens"], **params}
        asked |= {"model": body.get("lora_path", "policy"), "prompt": body["input_ids"]}
        asked["seed"] = params["sampling_seed"]
        num = body.get("top_logprobs_num", 0)
        asked |= {"logprobs": num, "return_tokens_as_token_ids": True}
        (choice,) = self.v1_completions(asked)["choices"]
        ids, logprobs = choice["token_ids"], choice["logprobs"]["token_logprobs"]
        told = [[x, token, None] for x, token in zip(logprobs, ids, strict=True)]
        reason = {"type": "stop", "matched": 1}
        meta = {"output_token_logprobs": told, "finish_reason": reason}
        if num := asked["logprobs"]:
            tops = choice["logprobs"]["top_logprobs"]
            meta["output_top_logprobs"] = [
                [
                    [x, int(key.removeprefix("token_id:")), None]
                    for key, x in top.items()
                ][:num]
                for top in tops
            ]
        return {"meta_info": meta}


def likeliest(logprobs, token, num):
    """As vLLM returns them: the drawn token, and the likeliest ones."""
    order = sorted(range(len(logprobs)), key=lambda i: -logprobs[i])[:num]
    return {f"token_id:{i}": logprobs[i] for i in dict.fromkeys([*order, token])}


def model_of(folder):
    base = adapter_base(str(folder))
    model = load_model(Path(base or folder), device="cpu")
    return with_adapter(model, Path(folder)) if base else model


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StandIn

    def do_POST(self):
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        server, path = self.server, self.path.partition("?")[0]
        server.calls.append((path, body))
        fault, status = server.faults.get(path), 200
        answer = server.answer(path, body) if not isinstance(fault, int) else {}
        fault = answer if isinstance(answer, int) else fault
        if isinstance(fault, int):
            status, answer = fault, {"error": {"message": "it is out of sorts"}}
        elif fault is not None:
            answer = fault(answer) if callable(fault) else fault
        sent = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    do_GET = do_POST

    def log_message(self, format, *args):
        """Says nothing."""


@contextlib.contextmanager
def servers_of(folder):
    """Starts servers, and stops them at the end."""
    servers = []

    def begin(kind=StandIn):
        server = kind(folder)
        server.daemon_threads = False  # `stop` waits: none runs at Python's end
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return server

    yield begin
    for server in servers:
        server.stop()


@pytest.fixture
def start(model_folder):
    """Starts servers."""
    with servers_of(model_folder) as begin:
        yield begin


@pytest.fixture
def vllm(start):
    return start()


@pytest.fixture
def backend(vllm):
    server = JSONServer(vllm.url, timeout=5)
    made = ServerBackend(server, read_served_model(server))
    made.version = "default"
    return made


def beside(server):
    """Options of a run whose learner a server plays."""
    options = {"use_vllm": True, "vllm_mode": "server", "max_steps": 2}
    options |= {"vllm_server_base_url": server.url, "learning_rate": 1e-2}
    return options | {"episodes_per_step": 4, "logging_steps": 1}


@pytest.fixture
def make(make_trainer, vllm):
    """Makes trainers whose learner the server plays."""

    def trainer(server=vllm, **overrides):
        return make_trainer(**{**beside(server), **overrides})

    return trainer


@pytest.fixture(scope="module")
def trained(tiny_trainer, short_run, model_folder, tmp_path_factory):
    """Trains two steps of the whole model or an adapter, once; returns trainer and server.

    The sum of the weights is asked for at every second transfer.
    """
    lora = {"r": 4, "lora_alpha": 7, "target_modules": "all-linear"}
    config = LoraConfig(**lora, task_type="CAUSAL_LM")
    with servers_of(model_folder) as begin:

        @cache
        def train(*, adapter):
            server, folder = begin(), tmp_path_factory.mktemp("run")
            options = short_run | beside(server) | {"output_dir": str(folder)}
            trainer = tiny_trainer(peft_config=config if adapter else None, **options)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(weights, "CHECK_EVERY", 2)
                trainer.train()
            return trainer, server

        yield train


def steps(trainer):
    return [record for record in trainer.state.log_history if "loss" in record]


def test_replies_are_those_of_transformers_in_their_order(backend, vllm, model_folder):
    prompts, seeds = [[4 + i % 5, 5] for i in range(40)], list(range(40))
    made = backend.generate(prompts, seeds, SAMPLING)
    plain = TransformersBackend(model_of(model_folder), 0)
    expected = plain.generate(prompts, seeds, SAMPLING)
    assert made.token_ids == expected.token_ids
    for ours, theirs in zip(made.logprobs, expected.logprobs, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)
    asked = next(body for path, body in vllm.calls if path == "/v1/completions")
    assert asked["return_token_ids"]
    assert asked["top_k"] == 0  # the model's folder may have another default


def test_episodes_do_not_wait_for_each_others_replies(
    backend, vllm, model_folder, kuhn_env
):
    """The same records in whatever order the server answers, and of one version."""
    policy = LMPolicy.from_pretrained(model_folder, device="cpu", backend=backend)
    plans = plans_of(kuhn_env, [policy, policy], range(6), [0])
    expected = _numbered(dict(Scheduler(None, None).in_lockstep(plans, None)))
    waits = iter([0.05, 0.0, 0.03, 0.01] * 20)

    def wait(answer):
        time.sleep(next(waits))
        return answer

    vllm.faults["/v1/completions"] = wait
    for episode, other in zip(play_plans(plans), expected, strict=True):
        assert [t.token_ids for t in episode.turns] == [
            t.token_ids for t in other.turns
        ]
    vllm.version = "of another run"
    with pytest.raises(ServerError, match="got 'of another run'"):
        play_plans(plans, on_error="raise")


def test_many_requests_are_in_flight_and_no_more_than_allowed(backend, vllm):
    together = threading.Barrier(8)

    def wait(answer):
        together.wait(5)  # breaks unless 8 are here at the same time
        return answer

    vllm.faults["/v1/completions"] = wait
    backend.server = JSONServer(vllm.url, timeout=5, in_flight=8)
    before = {*vllm.lines}
    backend.generate([[4, 5]] * 16, range(16), SAMPLING)
    assert vllm.paths.count("/v1/completions") == 16
    assert len(vllm.lines - before) == 8  # the connections are kept


def without(name):
    def cut(answer):
        del answer["choices"][0][name]
        return answer

    return cut


def with_ids(ids):
    def changed(answer):
        answer["choices"][0]["token_ids"] = ids
        return answer

    return changed


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (without("token_ids"), "want token_ids and as many token_logprobs in a reply"),
        (lambda a: {**a, "model": "x"}, "replies of the model 'policy' .* one of 'x'"),
        (404, r"refuses /v1/completions with status 404: it is out of sorts"),
        (with_ids(5), "want token_ids and as many token_logprobs in a reply"),
        (with_ids(["a", "b"]), "want token_ids and as many token_logprobs in a reply"),
        (307, r"refuses /v1/completions with status 307: it is out of sorts"),
        (b"<html>", r"in a reply of http://127.0.0.1:\d+, got '<html>'"),
        (lambda a: time.sleep(0.6), "has answered nothing for 0.2 seconds; look into"),
    ],
)
def test_a_bad_reply_is_refused_in_one_sentence(backend, vllm, fault, message):
    vllm.faults["/v1/completions"] = fault
    backend.server.timeout = 0.2 if "answered nothing" in message else 20.0
    with pytest.raises(ServerError, match=message) as caught:
        backend.generate([[4, 5]] * 4, range(4), SAMPLING)
    assert vllm.url in str(caught.value)


def with_top(top):
    def changed(answer):
        answer["choices"][0]["logprobs"]["top_logprobs"] = top
        return answer

    return changed


@pytest.mark.parametrize(
    "top",
    [None, [], 5, [None] * 9, [{"token_id:4": "x"}] * 9, [{"bet": -1.0}] * 9],
)
def test_bad_likeliest_tokens_are_refused_in_one_sentence(backend, vllm, top):
    """They come of another process: wrong kinds, too few, and texts in place of ids."""
    vllm.faults["/v1/completions"] = with_top(top)
    sampling = replace(SAMPLING, with_entropy=True)
    with pytest.raises(ServerError, match="want top log-probabilities for each token"):
        backend.generate([[4, 5]], [0], sampling)


def test_entropies_of_a_server_are_those_of_the_model(backend, vllm):
    """The tiny vocabulary has more tokens than are listed, whose mass is small."""
    sampling = replace(SAMPLING, with_entropy=True)
    made = backend.generate([[4, 5]] * 8, range(8), sampling)
    model = TransformersBackend(vllm.models["policy"], 0)
    exact = model.generate([[4, 5]] * 8, range(8), sampling)
    assert made.token_ids == exact.token_ids
    got, want = (np.concatenate(one.entropies) for one in (made, exact))
    assert np.abs(got - want).mean() < 0.5
    assert np.isfinite(got).all()
    assert (got >= 0).all()


def test_weights_of_another_version_are_noticed(backend, vllm):
    vllm.version = "/elsewhere/step-3"
    with pytest.raises(ServerError, match=r"want weights 'default' on .*'/elsewhere"):
        backend.generate([[4, 5]], [0], SAMPLING)


def test_an_unreachable_server_is_refused_before_anything_is_written(
    arena_here, tmp_path, start
):
    server = start()
    server.stop()
    options = ["--use_vllm", "true", "--vllm_mode", "server"]
    options += ["--vllm_server_base_url", server.url, "--output_dir", tmp_path / "run"]
    done = arena_here("train", *options)
    assert done.returncode == 2
    assert f"no server answers at {server.url} (Connection refused)" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_server_that_cannot_take_the_weights_is_refused(make, vllm, model_folder):
    vllm.mode = "raw_logprobs"
    with pytest.raises(ServerError, match="--logprobs-mode processed_logprobs"):
        make()
    vllm.mode, vllm.faults["/weight_info"] = "processed_logprobs", 404
    with pytest.raises(ServerError, match="with VLLM_SERVER_DEV_MODE=1 at"):
        make()
    vllm.faults.clear()
    lora = LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM")
    with pytest.raises(ServerError, match=r"rank 16, and .* has --max-lora-rank 8"):
        make(peft_config=lora)
    other = Path(model_folder).with_name("other")
    other.mkdir()
    config = json.loads((Path(model_folder) / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "hidden_size": 32}))
    vllm.folder = other
    with pytest.raises(ServerError, match="hidden_size 32, and the run trains one wit"):
        make()


def test_the_server_has_the_weights_of_each_step(trained):
    trainer, vllm = trained(adapter=False)
    assert max(record[DIFFERENCE] for record in steps(trainer)) < 1e-5
    assert steps(trainer)[0]["grad_norm"] > 0.01
    sent = [body["new_version"] for path, body in vllm.calls if "update_w" in path]
    assert [Path(folder).name for folder in sent] == [f"step-{n}" for n in range(3)]
    assert [path.name for path in Path(sent[0]).parent.iterdir()] == ["step-2"]
    order = ["/pause", "/collective_rpc", "/reset_prefix_cache"]
    order += ["/update_weight_version", "/resume"]
    at = vllm.paths.index("/pause")
    assert vllm.paths[at : at + 5] == order


class Client:
    """As vLLM's `HTTPVLLMWeightSyncClient`."""

    def __init__(self, url, timeout):
        self.server = JSONServer(url, timeout)

    def init_weight_transfer_engine(self, init_info):
        self.server.post("/init_weight_transfer_engine", {"init_info": init_info})

    def start_weight_update(self):
        self.server.post("/start_weight_update")

    def update_weights(self, update_info):
        self.server.post("/update_weights", {"update_info": update_info})

    def finish_weight_update(self):
        self.server.post("/finish_weight_update")


class Factory:
    """As vLLM's `WeightTransferTrainerFactory`, with the numbers in JSON."""

    @classmethod
    def trainer_init(cls, init_info, *, client, source):
        client.init_weight_transfer_engine(init_info)
        return cls(client, source)

    def __init__(self, client, source):
        self.client, self.source = client, source

    def send_weights(self):
        told = self.source.metadata()
        info = {"names": [meta.name for meta in told]}
        info["dtype_names"] = [str(meta.dtype) for meta in told]
        info["shapes"] = [list(meta.shape) for meta in told]
        info["values"] = [weight.tolist() for _, weight in self.source]
        self.client.start_weight_update()
        self.client.update_weights(info)
        self.client.finish_weight_update()


@pytest.fixture
def transferring(vllm, monkeypatch):
    """A server that takes weights by the interface of vLLM; its package is a stand-in, too."""
    vllm.transfer = {"backend": "json"}
    fake = {"WeightTransferTrainerFactory": Factory, "HTTPVLLMWeightSyncClient": Client}
    package = ModuleType("vllm.distributed.weight_transfer")
    vars(package).update(fake)
    for name in ("vllm", "vllm.distributed", package.__name__):
        monkeypatch.setitem(sys.modules, name, package)
    monkeypatch.setitem(transfer.TRANSFERS, "json", lambda trainer, server: {})
    monkeypatch.setattr(weights, "CHECK_EVERY", 1)
    return vllm


@pytest.mark.parametrize("ahead", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_server_takes_weights_without_files(make, transferring, ahead):
    asynchronous = {"max_staleness": 1} if ahead else None
    trainer = make(asynchronous=asynchronous)
    trainer.train()
    assert (
        max(record[DIFFERENCE] for record in steps(trainer)[: 1 if ahead else 2]) < 1e-5
    )
    assert transferring.version.endswith("step-2")
    assert not (Path(trainer.args.output_dir) / "server").exists()
    paths = [path for path in transferring.paths if "v1" not in path]
    assert paths.count("/init_weight_transfer_engine") == 1
    at = paths.index("/pause")
    order = ["init_weight_transfer_engine", "start_weight_update", "update_weights"]
    order += ["finish_weight_update", "reset_prefix_cache", "update_weight_version"]
    expected = ["/pause", *(f"/{name}" for name in order), "/resume", "/collective_rpc"]
    assert paths[at : at + 9] == expected


def test_a_transfer_that_fails_is_told_in_one_sentence(make, transferring):
    transferring.faults["/update_weights"] = 500
    with pytest.raises(ServerError, match="refuses /update_weights with status 500"):
        make().train()
    assert transferring.paths[-1] == "/resume"
    transferring.transfer = {"backend": "jsn"}
    with pytest.raises(
        ValueError, match="takes weights by 'jsn', which no run sends; did"
    ):
        make()


@pytest.mark.parametrize("adapter", [pytest.param(False, marks=pytest.mark.slow), True])
def test_sums_tell_weights_apart_by_a_bit(trained, adapter):
    trainer, vllm = trained(adapter=adapter)
    asked = [
        b for p, b in vllm.calls if p == "/collective_rpc" and "arena" in b["method"]
    ]
    assert len(asked) == 2  # of three transfers
    parameter = next(p for p in trainer.model.parameters() if p.requires_grad)
    bits = parameter.data.view(torch.int32)
    bits[0, 0] += 1
    trainer.sender.num_sent = 0
    with pytest.raises(
        ServerError, match=r"got others: their bits add up to -?\d+, the tr"
    ):
        trainer.sender._check_sum(trainer.model.state_dict, is_adapter=adapter)


def test_an_adapter_is_loaded_beside_the_model(trained):
    trainer, vllm = trained(adapter=True)
    assert max(record[DIFFERENCE] for record in steps(trainer)) < 1e-5
    assert [Path(name).name for name in vllm.models] == ["policy", "step-2"]
    assert vllm.num_loads == 1  # the base model, once


def test_each_learner_is_served_by_its_own_adapter(make, vllm, monkeypatch):
    monkeypatch.setattr(weights, "CHECK_EVERY", 1)  # the sums of both
    trainer = make(roles={0: {"lora_r": 4}, 1: {"lora_r": 2}})
    trainer.train()
    assert max(record[DIFFERENCE] for record in steps(trainer)) < 1e-5
    asked = [b["model"] for path, b in vllm.calls if path == "/v1/completions"]
    names = [f"step-{step}/seat_{seat}" for step in range(2) for seat in range(2)]
    assert {"/".join(Path(name).parts[-2:]) for name in asked} == {*names}
    left = ["/".join(Path(name).parts[-2:]) for name in vllm.models]
    assert left[1:] == ["step-2/seat_0", "step-2/seat_1"]
    assert vllm.num_loads == 1  # the base model, once
    trainer.learners.weights[1][0].data.view(torch.int32)[0, 0] += 1
    with pytest.raises(ServerError, match="got others: their bits add up"):
        trainer.sender._check_sum(trainer.model.state_dict, "seat_1", is_adapter=True)


def test_a_server_does_not_play_a_whole_model_for_each_role(make):
    with pytest.raises(ValueError, match="each role does not support use_vllm: an eng"):
        make(roles={0: {}, 1: {}})


def test_an_adapter_that_the_server_knows_is_read_again_once(trained):
    """A resumed run sends a step that the server may have, and prefixes go by its name."""
    trainer, vllm = trained(adapter=True)
    sender, num_before = trainer.policy.backend.inner, len(vllm.calls)
    sender.load(Path(sender.model), is_adapter=True)
    assert [path for path in vllm.paths[num_before:] if path != "/v1/models"] == [
        "/v1/unload_lora_adapter",
        "/v1/load_lora_adapter",
        "/reset_prefix_cache",
    ]


@pytest.mark.parametrize("lora", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_sglang_has_the_weights_of_each_step(make, start, lora):
    from peft import LoraConfig

    server = start(SGLangStandIn)
    options = {"r": 4, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
    peft = LoraConfig(**options) if lora else None
    trainer = make(server, peft_config=peft, episodes_per_step=8)
    trainer.train()
    assert max(record[DIFFERENCE] for record in steps(trainer)) < 1e-5
    assert steps(trainer)[0]["grad_norm"] > 0.01
    at = server.paths.index("/pause_generation")
    order = ["/pause_generation", "/update_weights_from_disk", "/continue_generation"]
    assert server.paths[at : at + 3] == order
    names = [Path(name).name for name in server.models]
    assert names == (["policy", "step-2"] if lora else ["policy"])
    assert server.paths.count("/update_weights_from_disk") == (1 if lora else 3)


def test_what_sglang_cannot_give_is_refused(start):
    sglang = start(SGLangStandIn)
    server = JSONServer(sglang.url, timeout=5)
    made = SERVERS["sglang"](server, read_served_model(server))
    with pytest.raises(ServerError, match="has no weights of this run yet"):
        made.generate([[4, 5]], [0], SAMPLING)
    with pytest.raises(
        ValueError, match="want top_k 0, top_p 1, min_p 0 and repetition"
    ):
        made.generate([[4, 5]], [0], Sampling(top_p=0.9))
    sglang.dtype = "auto"
    with pytest.raises(ServerError, match="a --dtype other than auto of the server at"):
        read_served_model(server)
    sglang.dtype, sglang.deterministic = "float32", False
    with pytest.raises(
        ServerError, match="want --enable-deterministic-inference and a"
    ):
        read_served_model(server)


def test_a_server_that_only_says_it_has_the_weights_is_noticed(make, vllm):
    answer = vllm.collective_rpc

    def told(body):
        skips = body["method"] == "reload_weights"
        return {"results": [None]} if skips else answer(body)

    vllm.collective_rpc = told
    trainer = make()
    message = r"want the trainer's weights on .* differ by [\d.]+ nats on average"
    with pytest.raises(ServerError, match=message):
        trainer.train()
    assert trainer.state.global_step == 1  # before the step that would use them


def test_the_server_goes_on_after_a_failed_load(backend, vllm, tmp_path):
    vllm.faults["/collective_rpc"] = 500
    with pytest.raises(ServerError, match=f"cannot load '{tmp_path}': it does not see"):
        backend.load(tmp_path, is_adapter=False)
    assert vllm.paths[-2:] == ["/collective_rpc", "/resume"]
    assert vllm.version == "default"


@pytest.mark.slow
def test_a_run_goes_on_with_another_server_after_its_own_was_killed(make, start):
    first, second = start(), start()

    def die(answer):
        if first.version.endswith("step-1"):
            threading.Thread(target=first.stop).start()
            time.sleep(0.1)
        return answer

    first.faults["/v1/completions"] = die
    saving = {"save_strategy": "steps", "save_steps": 1}
    with pytest.raises(ServerError, match=f"{first.url} broke off|at {first.url} "):
        make(first, **saving).train()
    resumed = make(second, **saving)
    resumed.train(resume_from_checkpoint=True)
    assert resumed.state.global_step == 2
    assert steps(resumed)[-1][DIFFERENCE] < 1e-5
    assert second.num_loads == 2  # after steps 1 and 2


def test_a_difference_that_is_no_number_is_noticed(make):
    trainer = make()
    trainer._metrics["train"][MEAN] = [0.0, float("nan")]
    (sender,) = (c for c in trainer.callback_handler.callbacks if hasattr(c, "send"))
    with pytest.raises(ServerError, match="differ by nan nats on average"):
        sender.on_pre_optimizer_step(trainer.args, trainer.state, trainer.control)


@pytest.mark.slow
def test_an_evaluation_between_generation_batches_has_the_latest_weights(make, vllm):
    trainer = make(num_iterations=2, credit="mars")
    trainer.args.eval_strategy, trainer.args.eval_steps = IntervalStrategy.STEPS, 1
    trainer.eval_dataset = trainer.train_dataset
    trainer.train()
    sent = [body["new_version"] for path, body in vllm.calls if "update_w" in path]
    assert [Path(folder).name for folder in sent] == [f"step-{n}" for n in range(3)]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"vllm_mode": "servr"}, "unknown vllm_mode 'servr'; did you mean 'server'"),
        (
            {"vllm_enable_sleep_mode": True},
            "sleep_mode: with vllm_mode 'server', vLLM'",
        ),
        (
            {"vllm_importance_sampling_correction": False},
            "correction false: ratios sho",
        ),
        (
            {"loss_type": "vespo"},
            "of sequences with loss_type 'vespo': that loss needs",
        ),
        ({"vllm_server_base_url": "localhost"}, "vllm_server_base_url: want the URL"),
        ({"vllm_server_base_url": "http://me:pw@host"}, r"got 'http://\*\*\*@host'"),
        ({"vllm_server_timeout": 0}, "want vllm_server_timeout above 0, got 0"),
    ],
)
def test_settings_that_a_server_does_not_take_are_refused(settings, overrides, message):
    given = {"use_vllm": True, "vllm_mode": "server", **overrides}
    with pytest.raises(ValueError, match=message):
        TurnGRPOConfig(**settings, **given)


AHEAD = {"asynchronous": {"max_staleness": 1, "in_flight": 2}, "max_steps": 3}


@pytest.mark.slow  # as where it resumes
def test_a_server_plays_the_next_step_with_the_weights_of_this_one(make, vllm):
    trainer = make(**AHEAD)
    trainer.train()
    sent = [body["new_version"] for path, body in vllm.calls if "update_w" in path]
    names = [Path(folder).name for folder in sent]
    assert names == ["step-0", "step-1", "step-3"]  # and the last weights
    found = [record["arena/asynchronous/staleness"] for record in steps(trainer)]
    assert found == [0, 1, 1]


class AsksFirst(TrainerCallback):
    """Has the learner generate before training, as an evaluation on start does."""

    def __init__(self, trainer):
        self.trainer = trainer

    def on_train_begin(self, args, state, control, **_):
        self.trainer.policy.generate([[1, 2]], [0])


@pytest.mark.parametrize(
    "is_measured", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_a_run_beside_a_server_resumes_with_the_weights_that_played(
    make, vllm, start, tmp_path, is_measured
):
    options = AHEAD | {"save_strategy": "steps", "save_steps": 2}
    unbroken = make(**options)
    unbroken.train()
    resumed = make(start(), **options, output_dir=str(tmp_path / "resumed"))
    if is_measured:
        resumed.add_callback(AsksFirst(resumed))
    resumed.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-2"))
    weights = resumed.model.state_dict()
    for name, tensor in unbroken.model.state_dict().items():
        torch.testing.assert_close(weights[name], tensor, msg=name)


def test_a_server_that_dies_during_play_ahead_ends_training(make, start):
    server = start()
    trainer = make(server, **AHEAD, save_strategy="steps", save_steps=1)
    fill = trainer.async_player._fill

    def stop(step):
        if step == 1:
            server.stop()
        fill(step)

    trainer.async_player._fill = stop
    with pytest.raises(ServerError, match=r"no server answers|broke off"):
        trainer.train()
    assert (Path(trainer.args.output_dir) / "checkpoint-2").is_dir()


class Asks(TrainerCallback):
    """Has the learner generate after each step, as measurements in training do."""

    def __init__(self, trainer, server):
        self.trainer, self.server, self.found = trainer, server, []

    def on_step_end(self, args, state, control, **_):
        self.trainer.policy.generate([[1, 2]], [0])
        body = [b for path, b in self.server.calls if "completions" in path][-1]
        whole = body["model"] == "policy"
        version = self.server.version if whole else body["model"]
        self.found.append((Path(version).name, state.global_step))


@pytest.mark.slow
@pytest.mark.parametrize("adapter", [None, {"r": 2, "target_modules": "all-linear"}])
def test_what_is_measured_in_training_is_played_with_the_weights_of_its_step(
    make, vllm, adapter
):
    """Also while the next step is played with older weights."""
    config = adapter and LoraConfig(**adapter, task_type="CAUSAL_LM")
    trainer = make(**AHEAD, peft_config=config)
    asks = Asks(trainer, vllm)
    trainer.add_callback(asks)
    trainer.train()
    assert asks.found == [(f"step-{n}", n) for n in (1, 2, 3)]
    assert [r["arena/asynchronous/staleness"] for r in steps(trainer)] == [0, 1, 1]
