"""The error for a request that the server refuses."""


class Refused(Exception):
    """A request that is answered with a status and one line."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status
