"""Models behind OpenAI-compatible chat endpoints.

`policy` asks one as a policy, by the `client`, which repeats and paces requests. `endpoints`
reads strings and finds keys; `network` has connections and threads.
"""

from arena_wrappers.api.policy import ChatAPIPolicy, Usage, load

__all__ = ["ChatAPIPolicy", "Usage", "load"]
