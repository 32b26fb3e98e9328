"""What it takes to run vLLM's server on a CPU, see `tests/engine/on_cpu.py`.

The server's worker imports this module as its extension (`--worker-extension-cls`), before it
makes the model: vLLM's oneDNN kernels, which pack weights, are turned off.
"""

from importlib.util import find_spec

if find_spec("vllm") is not None:
    import vllm._custom_ops as ops

    ops._supports_onednn = False

SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}
OPTIONS = (
    *("--dtype", "float32", "--enforce-eager", "--max-model-len", "512"),
    *("--max-num-batched-tokens", "65536"),  # seeds do not bear prompts in chunks
    *("--worker-extension-cls", "server_shim.Unpacked"),
)


class Unpacked:
    """Adds nothing to the worker; importing it is enough."""
