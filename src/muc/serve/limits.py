"""How much a client may take up. The first three are part of the protocol; the others only show when overstepped."""

from dataclasses import dataclass

FORM_OVERHEAD = 8192  # bytes of boundary and headers that come with each file of a form


@dataclass(frozen=True)
class Limits:
    images_per_request: int = 64
    bytes_per_image: int = 5_000_000
    pixels_per_image: int = 4_000_000
    uploads: int = 32  # requests read, decoded or embedded at one time; each may hold 5 MB of file and 64 small images
    uploads_per_key: int = 8  # so that one owner, or one stolen key, cannot keep the others out
    waiting: int = 16  # requests in line for the model, and as many for the statistics
    upload_seconds: float = 20.0  # for a body of no size ...
    bytes_per_second: float = 50_000.0  # ... and at this rate for what has arrived; a slower client is cut off
    decode_seconds: float = 30.0  # for all images of a request together

    @property
    def body_bytes(self) -> int:
        return self.images_per_request * (self.bytes_per_image + FORM_OVERHEAD) + FORM_OVERHEAD
