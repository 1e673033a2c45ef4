"""What the endpoint answers, as its OpenAPI description shows it."""

from pydantic import BaseModel, Field

from muc.config import Views

PROTOCOL = 1


class Error(BaseModel):
    error: str = Field(description="One sentence: what is wrong and what to do.")


class Input(BaseModel):
    channels: int = Field(description="1: images are made grey; 3: red, green and blue.")
    size: int = Field(description="Side length. Shorter sides are brought to it, and the centre is kept.")


class Hashes(BaseModel):
    before: str = Field(description="SHA-256 of the model before unlearning.")
    after: str = Field(description="SHA-256 of the model after unlearning.")


class RequestLimits(BaseModel):
    images_per_request: int
    bytes_per_image: int
    pixels_per_image: int


class Budget(BaseModel):
    total: int = Field(description="Images this key may have embedded, both models together.")
    left: int


class About(BaseModel):
    protocol: int
    input: Input
    models: Hashes
    dimension: int = Field(description="Numbers in a vector.")
    limits: RequestLimits
    budget: Budget
    views: Views | None = Field(
        None,
        description="The random views that the model before was trained with; an audit that asks with such sees most. "
        "An endpoint that does not want to say leaves them out.",
    )


class Embedded(BaseModel):
    model: str
    model_sha256: str
    vectors: list[list[float]] = Field(
        description="One for each image, in their order: of length 1, in coordinates that belong to the key. "
        "Cosines between vectors of one key are the model's; those between keys mean nothing."
    )
    budget_left: int
