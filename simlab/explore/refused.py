"""A request that the server does not meet."""


class Refused(Exception):
    """A request that is answered with a status and one line."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status
