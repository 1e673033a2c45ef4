"""Black-box audit: sees only `embed(images) -> vectors`; never imports models or training code."""

from muc.audit.look import Embed, Look, look

__all__ = ["Embed", "Look", "look"]
