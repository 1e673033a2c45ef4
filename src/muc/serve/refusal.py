"""The one way to say no to a client: a status and a sentence."""

from collections.abc import Mapping


class Refusal(Exception):
    """Becomes {"error": sentence}. The sentence never repeats what the client sent: not a file name, not a value."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, dict(headers or {})


def busy(sentence: str, seconds: int = 1) -> Refusal:
    return Refusal(429, sentence, {"Retry-After": str(seconds)})
