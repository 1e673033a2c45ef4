"""All settings, as frozen dataclasses.

Nothing here imports torch: the command line shows every default without paying for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal

from muc.errors import UserError, check_name

ALGORITHMS = ("simclr", "moco", "clip")
ARCHITECTURES = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "convnet", "mlp")
OPEN_CLIP = "open_clip/"  # how the architecture begins whose two towers are open_clip's
TIMM = "timm/"  # how the architecture begins whose backbone is timm's
DATASETS = ("glyphs", "glyph-pairs", "digits", "cifar10", "cifar100", "svhn")
EMBEDDED_SETS = ("glyphs", "glyph-pairs", "digits")
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
GRAY_MEAN, GRAY_STD = (0.5,), (0.5,)


@dataclass(frozen=True)
class Views:
    """Random views of an image: resized crop, flip, colour jitter in random order, grayscale."""

    min_scale: float = 0.1
    """Smallest share of the image's area a crop may keep."""
    flip: float = 0.5
    """Probability of a horizontal flip."""
    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1
    jitter: float = 0.8
    """Probability of the colour jitter."""
    grayscale: float = 0.2
    """Probability of dropping all colour."""

    def __post_init__(self) -> None:
        for name in ("flip", "jitter", "grayscale"):
            in_range(name, getattr(self, name), 0, 1)
        for name in ("brightness", "contrast", "saturation"):
            in_range(name, getattr(self, name), 0, 1)
        in_range("hue", self.hue, 0, 0.5)
        in_range("min-scale", self.min_scale, 1e-4, 1)


@dataclass(frozen=True)
class Optimisation:
    """How the weights are moved: SGD with momentum for SimCLR and MoCo, AdamW for CLIP, as the paper trains."""

    epochs: int = 800
    batch_size: int = 512
    learning_rate: float = 0.06
    schedule: Literal["cosine", "constant"] = "cosine"
    """Cosine decay to zero over the epochs, or no decay (the paper's choice when unlearning)."""
    momentum: float = 0.9
    """AdamW: of the mean gradient (its beta 1)."""
    weight_decay: float = 5e-4
    """AdamW: of matrices only, not of biases, norms and the temperature."""
    optimiser: Literal["sgd", "adamw"] = "sgd"
    square_momentum: float = 0.98
    """AdamW: momentum of the mean squared gradient (its beta 2)."""
    warmup_epochs: float = 0.0
    """Raise the learning rate step by step over so many epochs, then decay step by step; 0: by whole epochs."""

    def __post_init__(self) -> None:
        check_name("optimiser", self.optimiser, ("sgd", "adamw"))
        check_name("schedule", self.schedule, ("cosine", "constant"))
        in_range("square-momentum", self.square_momentum, 0, 0.9999999)
        in_range("warmup-epochs", self.warmup_epochs, 0, 1_000_000)
        if self.optimiser == "adamw":
            in_range("momentum (of adamw)", self.momentum, 0, 0.9999999)
        whole("epochs", self.epochs, 1, 1_000_000)
        whole("batch-size", self.batch_size, 2, 1_000_000)
        in_range("learning-rate", self.learning_rate, 0, 1000)
        in_range("momentum", self.momentum, 0, 1)
        in_range("weight-decay", self.weight_decay, 0, 10)


@dataclass(frozen=True)
class Model:
    """The contrastive model: a backbone and what its algorithm puts around it."""

    algorithm: Literal["simclr", "moco", "clip"] = "simclr"
    architecture: str = "resnet18"
    """resnet18, resnet34, resnet50, resnet101, resnet152 (3x3 stem for small images), convnet, mlp, or timm/NAME, any
    of timm's (timm/resnet50: ImageNet's, timm/vit_small_patch16_224, …); for clip also open_clip/NAME, both towers of
    an open_clip model. None is pretrained, unless imported."""
    temperature: float = 0.5
    """CLIP: where it begins; it is learnt."""
    projection_dim: int = 128
    queue_size: int = 4096
    """MoCo: how many past keys serve as negatives."""
    key_momentum: float = 0.99
    """MoCo: how slowly the key encoder follows."""
    norm_groups: int = 8
    """MoCo: groups of a batch that are batch-normalised separately (ResNets)."""
    stem_relu: bool = True
    """ReLU after the first convolution (ResNets); the paper's released code has none there."""
    text_width: int = 64
    """CLIP: width of the built-in text tower, a small transformer over bytes."""
    text_layers: int = 2
    text_context: int = 72
    """CLIP: how many bytes of a caption the built-in text tower reads."""
    mean: tuple[float, ...] | None = None
    """What the backbone's images are normalised by, after scaling to [0, 1]; None: ImageNet's, of gray images 0.5."""
    std: tuple[float, ...] | None = None
    head: tuple[str, ...] | None = None
    """SimCLR, MoCo: the layers of an imported model's projection head; None: the paper's."""
    towers: dict[str, Any] | None = None
    """CLIP: sizes and normalisation of an imported model's towers, as in open_clip_config.json; None: those by which
    open_clip knows the architecture's name."""

    def __post_init__(self) -> None:
        check_name("algorithm", self.algorithm, ALGORITHMS)
        if not self.architecture.startswith((OPEN_CLIP, TIMM)):
            check_name("architecture", self.architecture, ARCHITECTURES)
        elif self.architecture.startswith(OPEN_CLIP) and self.algorithm != "clip":
            raise UserError(
                f"architecture '{self.architecture}' is an image and a text tower, for --algorithm clip; "
                f"give {self.algorithm} one of {', '.join(ARCHITECTURES)}"
            )
        in_range("temperature", self.temperature, 1e-4, 100)
        whole("projection-dim", self.projection_dim, 1, 100_000)
        whole("queue-size", self.queue_size, 1, 10_000_000)
        in_range("key-momentum", self.key_momentum, 0, 1)
        whole("norm-groups", self.norm_groups, 1, 1024)
        whole("text-width", self.text_width, 4, 100_000)
        if self.text_width % 4:
            raise UserError(f"text-width is {self.text_width}; give a multiple of 4, the number of attention heads")
        whole("text-layers", self.text_layers, 1, 1000)
        whole("text-context", self.text_context, 1, 100_000)
        self._check_normalisation()

    def _check_normalisation(self) -> None:
        if self.mean is None and self.std is None:
            return
        if self.architecture.startswith(OPEN_CLIP):
            raise UserError(f"{self.architecture} brings its own normalisation; leave --mean and --std out")
        check_normalisation(self.mean or (), self.std or ())

    def normalisation(self, channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """(mean, std) of what the backbone is given."""
        if self.mean and self.std:
            return self.mean, self.std
        return (GRAY_MEAN, GRAY_STD) if channels == 1 else (IMAGENET_MEAN, IMAGENET_STD)


@dataclass(frozen=True)
class Data:
    """Which images, and how they are split: validation first, the rest is trained on."""

    name: str = "glyphs"
    """glyphs, glyph-pairs (with captions), digits, cifar10, cifar100, svhn, an .npz file, a folder of images (one
    sub-folder a class), or image-text pairs: a folder of tar shards (KEY.jpg with KEY.txt or KEY.json) or one .tar, or
    a folder with captions*.json in COCO's format, there or in annotations/, and its pictures."""
    root: Path | None = None
    """Where downloaded sets live (default: $MUC_DATA, else ./data)."""
    image_size: int = 32
    """Side length in pixels that images of a folder or of shards are brought to."""
    stream: Literal["auto", "on", "off"] = "auto"
    """Whether images of a folder or of shards are decoded as they are needed, instead of all at the start; auto: if
    decoded they would take more than half of the machine's memory."""
    validation_fraction: float = 0.1
    train_limit: int | None = None
    """Train on this many images only (drawn by the seed)."""

    def __post_init__(self) -> None:
        whole("image-size", self.image_size, 4, 4096)
        check_name("stream", self.stream, ("auto", "on", "off"))
        in_range("validation-fraction", self.validation_fraction, 0, 0.9)
        if self.train_limit is not None:
            whole("train-limit", self.train_limit, 4, 10**9)


@dataclass(frozen=True)
class Request:
    """A deletion request; give exactly one of the three."""

    forget_fraction: float | None = None
    """Forget this share of the training images (drawn by the split's seed)."""
    forget: Path | None = None
    """Forget the images a file lists: indices, file names or keys of pairs, one a line."""
    forget_class: str | None = None
    """Forget a whole class, by name or number."""


@dataclass(frozen=True)
class Probe:
    """The linear probe behind RA, TA, UA and CMIA."""

    epochs: int = 100
    learning_rate: float = 1.0
    momentum: float = 0.9
    batch_size: int = 512
    crop_padding: int = 4
    """Random crops of the image padded by this many pixels, drawn anew each epoch."""
    flip: float = 0.5

    def __post_init__(self) -> None:
        whole("probe's epochs", self.epochs, 1, 1_000_000)
        in_range("probe's learning-rate", self.learning_rate, 0, 1000)
        in_range("probe's momentum", self.momentum, 0, 1)
        whole("probe's batch-size", self.batch_size, 1, 1_000_000)
        whole("probe's crop-padding", self.crop_padding, 0, 1000)
        in_range("probe's flip", self.flip, 0, 1)


@dataclass(frozen=True)
class Runtime:
    """Where and how to compute; changes speed, not meaning."""

    device: str = "auto"
    """auto (a GPU if there is one), cpu, cuda or cuda:N."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """auto: bfloat16 on a GPU, float32 on CPU. Losses and normalisation are always float32."""
    compile: Literal["auto", "on", "off"] = "auto"
    """On a GPU: auto runs muc's own kernels in a recorded step, on lets torch.compile write them (which takes a minute
    or more), off is plain eager PyTorch, to compare with."""
    deterministic: bool = False
    """Bit-reproducible on the same device (CPU runs always are). On an H200 it was no slower (docs/speed.md)."""
    threads: int | None = None
    """CPU threads (default: all cores this process may use)."""
    checkpoint_seconds: float = 60.0
    """Save the state for resuming at least this often."""
    tensorboard: bool = False
    """Also write TensorBoard events (needs the extra 'tensorboard')."""

    def __post_init__(self) -> None:
        if self.threads is not None:
            whole("threads", self.threads, 1, 512)
        for name, known in (("precision", ("auto", "float32", "bfloat16")), ("compile", ("auto", "on", "off"))):
            check_name(name, getattr(self, name), known)
        in_range("checkpoint-seconds", self.checkpoint_seconds, 0, 1e9)


@dataclass(frozen=True)
class Pretraining:
    """Everything that determines a pretrained encoder."""

    data: Data = field(default_factory=Data)
    model: Model = field(default_factory=Model)
    views: Views = field(default_factory=Views)
    optimisation: Optimisation = field(default_factory=Optimisation)
    probe: Probe = field(default_factory=Probe)
    seed: int = 0

    def __post_init__(self) -> None:
        whole("seed", self.seed, 0, 2**63)


def check_normalisation(mean: Sequence[float], std: Sequence[float]) -> None:
    """Of images whose colours are numbers from 0 to 1."""

    def within(values: Any, low: float, high: float) -> bool:
        listed = isinstance(values, Sequence) and len(values) in (1, 3)
        return listed and all(isinstance(value, Real) and low < value < high for value in values)

    if not (within(mean, -10, 10) and within(std, 1e-6, 10) and len(mean) == len(std)):
        said = [" ".join(map(str, v if isinstance(v, Sequence) else [v])) or "not given" for v in (mean, std)]
        raise UserError(
            f"the mean is {said[0]} and the deviation {said[1]}; give --mean and --std, 3 numbers each (of gray images "
            "1), of colours from 0 to 1, and those of --std above 0"
        )


def in_range(name: str, value: float, low: float, high: float) -> None:
    """Raise unless it is a number with low <= value <= high (which also catches NaN)."""
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= value <= high:
        raise UserError(f"{name} is {value}; give a number from {_plain(low)} to {_plain(high)}")


def whole(name: str, value: int, low: int, high: int) -> None:
    """The same of what is counted."""
    in_range(name, value, low, high)
    if not isinstance(value, Integral):
        raise UserError(f"{name} is {value}; give a whole number from {low:,} to {high:,}")


def _plain(value: float) -> str:
    """A limit as people write it: 1,000,000 and not 1e+06."""
    return f"{int(value):,}" if float(value).is_integer() else str(value)
