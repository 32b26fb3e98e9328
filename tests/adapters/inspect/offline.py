"""Inspect's command, counting bytes as tokens.

Its mock model counts tokens by a vocabulary that tiktoken downloads. Tests need no network.
"""

import tiktoken

tiktoken.registry.ENCODINGS["o200k_base"] = tiktoken.Encoding(
    "bytes",
    pat_str=".",
    mergeable_ranks={bytes([i]): i for i in range(256)},
    special_tokens={},
)

if __name__ == "__main__":
    from inspect_ai._cli.main import main

    main()
