"""From settings to a model."""

from muc.config import OPEN_CLIP, Model
from muc.errors import UserError
from muc.models.backbones import build_backbone
from muc.models.clip import CLIP
from muc.models.contract import ContrastiveModel
from muc.models.heads import build_head
from muc.models.inputs import expecting
from muc.models.moco import MoCo
from muc.models.simclr import SimCLR
from muc.models.text import ByteTransformer


def build_model(settings: Model, channels: int, image_size: int) -> ContrastiveModel:
    """A freshly initialised model; seed torch before calling for a reproducible one."""
    if settings.architecture.startswith(OPEN_CLIP):
        from muc.models.open_clip_towers import open_clip_towers

        image, text, width = open_clip_towers(settings, channels, image_size)
        return CLIP(image, width, text, projection_dim=None, temperature=settings.temperature)
    groups = settings.norm_groups if settings.algorithm == "moco" else 1
    backbone, feature_dim = build_backbone(settings.architecture, channels, image_size, groups, settings.stem_relu)
    if settings.mean is not None and settings.std is not None:
        if len(settings.mean) != channels:
            raise UserError(
                f"--mean has {len(settings.mean)} numbers and the images {channels} channels; give --mean and --std a "
                "number a channel"
            )
        backbone = expecting(backbone, settings.mean, settings.std)
    projector, width = None, settings.projection_dim
    if settings.head is not None:
        projector, width = build_head(settings.head, feature_dim)
    if settings.algorithm == "simclr":
        return SimCLR(
            backbone, feature_dim, projection_dim=width, temperature=settings.temperature, projector=projector
        )
    if settings.algorithm == "clip":
        return CLIP(
            backbone,
            feature_dim,
            ByteTransformer(settings.text_width, settings.text_layers, context=settings.text_context),
            projection_dim=settings.projection_dim,
            temperature=settings.temperature,
        )
    return MoCo(
        backbone,
        feature_dim,
        projection_dim=width,
        temperature=settings.temperature,
        queue_size=settings.queue_size,
        key_momentum=settings.key_momentum,
        norm_groups=settings.norm_groups,
        projector=projector,
    )
