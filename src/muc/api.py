"""The library: pretrain, unlearn, evaluate and look on objects, for encoders of your own. Nothing touches the disk."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from muc import augment, config
from muc.audit import Embed
from muc.audit.look import check_pixels
from muc.data import ImageSet, forget_indices, plan_batches
from muc.errors import UserError
from muc.evaluation import pairs, white_box
from muc.evaluation.features import embed
from muc.methods import METHODS, Method, NegGrad, Retrain
from muc.methods.recipes import default_method
from muc.models import CLIP, ContrastiveModel
from muc.progress import meter
from muc.recipes import recipe
from muc.runtime import Runtime
from muc.split import Split
from muc.train import Training


def pretrain(
    model: ContrastiveModel,
    images: ImageSet,
    optimisation: config.Optimisation | None = None,
    views: config.Views | None = None,
    *,
    leave_out: Sequence[int] = (),
    seed: int = 0,
    runtime: config.Runtime | None = None,
) -> ContrastiveModel:
    """Train the model in place on all training images but `leave_out`, and return it."""
    _check(images, model)
    checked = _indices(leave_out, "leave_out")
    split = forget_indices(_everything(images), checked) if len(checked) else _everything(images)
    settings = recipe(algorithm=algorithm_of(model))
    settings = replace(settings, optimisation=optimisation or settings.optimisation, views=views or settings.views)
    return _train(model, Retrain(), images, split, settings, seed, runtime)


def algorithm_of(model: ContrastiveModel) -> str:
    """Whose values are taken where none are given; SimCLR's and MoCo's are the same."""
    return "clip" if model.reads_text else "simclr"


def unlearn(
    model: ContrastiveModel,
    images: ImageSet,
    forget: Sequence[int],
    method: Method | None = None,
    views: config.Views | None = None,
    *,
    batch_size: int = 512,
    momentum: float = 0.9,
    weight_decay: float = 5e-4,
    seed: int = 0,
    runtime: config.Runtime | None = None,
) -> ContrastiveModel:
    """A copy of the model that has forgotten the training images `forget` (indices); the original stays as it is."""
    _check(images, model)
    method = method or default_method("alignment_calibration", images.name, algorithm_of(model))
    if not isinstance(method, Method):
        example = METHODS.get(str(method), NegGrad).__name__
        raise UserError(f"method is {method!r}; give a method object such as muc.{example}()")
    if method.epochs is None or method.learning_rate is None:
        raise UserError(
            f"{type(method).__name__} trains from scratch; call muc.pretrain(fresh_model, leave_out=forget)"
        )
    optimisation = config.Optimisation(
        epochs=method.epochs,
        batch_size=batch_size,
        learning_rate=method.learning_rate,
        schedule="constant",
        momentum=momentum,
        weight_decay=weight_decay,
        optimiser="adamw" if model.reads_text else "sgd",  # what the paper trains each with
    )
    settings = recipe(algorithm=algorithm_of(model))
    settings = replace(settings, optimisation=optimisation, views=views or settings.views)
    return _train(deepcopy(model), method, images, _split(images, forget), settings, seed, runtime)


def evaluate(
    model: ContrastiveModel,
    before: ContrastiveModel,
    images: ImageSet,
    forget: Sequence[int],
    views: config.Views | None = None,
    probe: config.Probe | None = None,
    *,
    seed: int = 0,
    runtime: config.Runtime | None = None,
) -> dict[str, Any]:
    """All white-box metrics of a model that was to forget `forget`; `muc.gaps(a, b)` compares two such results."""
    _check(images, model, before)
    if isinstance(model, CLIP) and isinstance(before, CLIP):
        return pairs.evaluate(model, before, images, _split(images, forget), Runtime(runtime))
    settings = replace(config.Pretraining(), views=views or config.Views(), probe=probe or config.Probe())
    return white_box.evaluate(model, before, images, _split(images, forget), settings, Runtime(runtime), seed)


def embedder(model: ContrastiveModel, runtime: config.Runtime | None = None) -> Embed:
    """The model behind the black-box interface: uint8 images in, backbone features out, nothing else."""
    resolved = Runtime(runtime)
    model = resolved.place(model).eval()

    def answer(images: np.ndarray) -> np.ndarray:
        check_pixels(images)
        return embed(model, images, resolved).cpu().numpy()

    return answer


def _check(images: ImageSet, *models: ContrastiveModel) -> None:
    """Plain datasets and plain encoders are what is passed by mistake."""
    if not isinstance(images, ImageSet):
        raise UserError(f"images is of type {type(images).__name__}; make an image set: muc.from_dataset(train, test)")
    for model in models:
        if not isinstance(model, ContrastiveModel):
            raise UserError(f"the model is of type {type(model).__name__}; wrap it: muc.SimCLR(encoder, feature_dim)")


def _check_width(model: ContrastiveModel, images: ImageSet, runtime: Runtime) -> None:
    """A backbone must give as many features as its projector takes."""
    first = getattr(model, "projector", None)
    first = next(iter(first), None) if isinstance(first, nn.Sequential) else first
    if not isinstance(first, nn.Linear):
        return
    pixels = torch.tensor(np.asarray(images.train[:2]), device=runtime.device)
    with torch.no_grad(), runtime.autocast():
        found = runtime.place(model).eval().features(runtime.as_input(augment.plain(pixels))).shape[1:]
    if tuple(found) != (first.in_features,):
        width = " x ".join(map(str, found))
        raise UserError(
            f"feature_dim is {first.in_features}, but the backbone gives {width} features an image; make the model "
            "with the width of its backbone"
        )


def _everything(images: ImageSet) -> Split:
    everyone = np.arange(len(images.train))
    return Split(seed=0, validation=everyone[:0], retain=everyone, unlearn=everyone[:0])


def _split(images: ImageSet, forget: Sequence[int]) -> Split:
    return forget_indices(_everything(images), _indices(forget, "forget"))


def _indices(given: Sequence[int], name: str) -> np.ndarray:
    try:
        found = np.asarray(given)
    except (ValueError, TypeError, RuntimeError):  # lists of several lengths, tensors with gradients or on a GPU
        found = np.array(None)
    if found.ndim != 1:
        raise UserError(f"{name} is {given!r:.60}; give a list of the indices of training images")
    return found


def _train(
    model: ContrastiveModel,
    method: Method,
    images: ImageSet,
    split: Split,
    settings: config.Pretraining,
    seed: int,
    runtime: config.Runtime | None,
) -> ContrastiveModel:
    optimisation, resolved = settings.optimisation, Runtime(runtime)
    _check_width(model, images, resolved)
    plan = plan_batches(split.retain, split.unlearn, method.rows, optimisation.batch_size, seed)
    training = Training(
        model, method, images.train, plan, settings.views, optimisation, resolved, seed, images.train_captions
    )
    with meter(type(method).__name__, optimisation.epochs) as progress:
        training.run(lambda line: progress.advance(note=f"loss {line['loss']:.4f}"))
    return model.eval()
