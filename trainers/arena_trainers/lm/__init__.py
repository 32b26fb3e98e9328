"""A language model as a policy: chat templates, sampling, saved prompt options."""
