"""Requests that are refused."""


class Refused(Exception):
    """A request that is not allowed now.

    Args:
        status: of HTTP.
        message: what was wanted and what came, for the person.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
