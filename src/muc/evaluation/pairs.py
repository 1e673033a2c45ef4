"""All white-box metrics of an image-text model: how alike it finds images and their captions, and what it can find."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from muc.audit.look import Look, summarise
from muc.data import ImageSet
from muc.data.captions import tokenise_captions
from muc.data.files import Pixels, select
from muc.evaluation import membership
from muc.evaluation.features import embed
from muc.evaluation.retrieval import prompts, retrieval, zero_shot
from muc.evaluation.white_box import to_millionths
from muc.models import CLIP
from muc.runtime import Runtime
from muc.split import Split

TEXTS = 2048  # how many captions the model reads at once


@dataclass(frozen=True)
class Embedded:
    """Pairs as the loss compares them: unit vectors, captions in the order of their images."""

    images: Tensor  # (n, p)
    texts: Tensor  # (m, p)
    owner: Tensor  # (m,) the image that each text belongs to

    def similarity(self) -> Tensor:
        """(n,) cosine of each image and its caption; of several captions, their mean."""
        return pair_similarity(self.images, self.texts, self.owner)


def pair_similarity(images: Tensor, texts: Tensor, owner: Tensor) -> Tensor:
    """(n, p), (m, p), (m,) -> (n,) in float64."""
    cosine = (images[owner] * texts).sum(dim=1).double()
    counts = torch.bincount(owner, minlength=len(images))
    return torch.zeros(len(images), dtype=cosine.dtype, device=cosine.device).index_add_(0, owner, cosine) / counts


def pair_matrix(images: Tensor, texts: Tensor, owner: Tensor) -> Tensor:
    """(n, p), (m, p), (m,) -> (n, n) in float64: AM, the cosine of image i and pair j's caption (their mean).

    Its diagonal is `pair_similarity`.
    """
    cosine = (images @ texts.T).double()
    summed = torch.zeros(len(images), len(images), dtype=cosine.dtype, device=cosine.device)
    return summed.index_add_(1, owner, cosine) / torch.bincount(owner, minlength=len(images))


def look_at_pairs(
    before: CLIP, after: CLIP, pixels: Pixels, captions: Sequence[Sequence[str]], runtime: Runtime
) -> Look:
    """AM of a few pairs before and after unlearning, and their gap; each pair has the name of its first caption."""
    matrices = []
    for model in (before, after):
        found = embed_pairs(runtime.place(model).eval(), pixels, captions, runtime)
        matrices.append(pair_matrix(found.images, found.texts, found.owner).cpu().numpy())
    return replace(summarise(*matrices, names=[own[0] for own in captions], view_pairs=1), of_pairs=True)


def evaluate(model: CLIP, before: CLIP, images: ImageSet, split: Split, runtime: Runtime) -> dict[str, Any]:
    """Similarities x 100 of retained, unlearned, test and held-out pairs, retrieval and membership on test pairs.

    `before` is the model before unlearning; "held_out" pairs are validation ones, which no model ever saw.
    """
    model, before = runtime.place(model).eval(), runtime.place(before).eval()

    def trained(network: CLIP, rows: np.ndarray) -> Embedded:
        return embed_pairs(network, select(images.train, rows), [images.train_captions[i] for i in rows], runtime)

    test = embed_pairs(model, images.test, images.test_captions, runtime)
    cosine = {
        "retain": trained(model, split.retain).similarity().cpu().numpy(),
        "unlearn": trained(model, split.unlearn).similarity().cpu().numpy(),
        "test": test.similarity().cpu().numpy(),
    }
    cosine["held_out"] = (
        trained(model, split.validation).similarity().cpu().numpy() if len(split.validation) else cosine["test"]
    )
    forgetting = trained(before, split.unlearn).similarity().cpu().numpy() - cosine["unlearn"]
    return {
        "FS": float(forgetting.mean()),
        **{f"{name}_similarity": float(100 * values.mean()) for name, values in cosine.items()},
        **pair_membership(cosine["retain"], cosine["unlearn"], cosine["test"]),
        **retrieval(test.images, test.texts, test.owner),
        **_zero_shot(model, test.images, images, runtime),
        "per_sample": {"FS": to_millionths(forgetting), "alignment": to_millionths(cosine["unlearn"])},
    }


def pair_membership(retain: np.ndarray, unlearn: np.ndarray, test: np.ndarray) -> dict[str, float]:
    """How well trained-on pairs can be told from test pairs by their similarity alone, and those to forget."""
    n = min(len(retain), len(test))
    # R is in random order already, a test set may be sorted: its first n could be all of one kind.
    members, others = retain[:n], test[np.random.default_rng(0).permutation(len(test))[:n]]
    return {
        "pair_AUC": membership.auc(members, others),
        "pair_TPR_at_1_FPR": 100 * membership.tpr_at_fpr(members, others),
        "unlearn_AUC": membership.auc(unlearn, others),
        "unlearn_TPR_at_1_FPR": 100 * membership.tpr_at_fpr(unlearn, others),
    }


def _zero_shot(model: CLIP, test: Tensor, images: ImageSet, runtime: Runtime) -> dict[str, float]:
    if images.classes < 2:
        return {}
    classes = embed_texts(model, model.tokenise(prompts(images.prompt, images.class_names)), runtime)
    return {"zero_shot": zero_shot(test, classes, torch.from_numpy(images.test_labels).to(test.device))}


def embed_pairs(model: CLIP, pixels: Pixels | Tensor, captions: Sequence[Sequence[str]], runtime: Runtime) -> Embedded:
    """Images as they are, without augmentation, and all of their captions."""
    found = tokenise_captions(captions, model.tokenise)
    owner = torch.from_numpy(np.repeat(np.arange(len(found.counts)), found.counts)).to(runtime.device)
    return Embedded(embed_images(model, pixels, runtime), embed_texts(model, found.tokens, runtime), owner)


def embed_images(model: CLIP, pixels: Pixels | Tensor, runtime: Runtime) -> Tensor:
    """(n, c, h, w) uint8, wherever they are -> (n, p) unit vectors."""
    return normalize(embed(model, pixels, runtime, projected=True), dim=-1)


@torch.inference_mode()
def embed_texts(model: CLIP, tokens: Tensor, runtime: Runtime) -> Tensor:
    """(m, context) -> (m, p) unit vectors."""
    made = []
    for part in tokens.split(TEXTS):
        with runtime.autocast():
            made.append(normalize(model.projected_texts(part.to(runtime.device).long()).float(), dim=-1))
    return torch.cat(made)
