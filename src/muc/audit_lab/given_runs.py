"""Runs that are there already and take part in the red team, where training them anew would take long."""

from dataclasses import dataclass

import numpy as np

from muc import config, opening
from muc.audit import Embed
from muc.audit_lab.encoders import Encoder, open_encoder
from muc.errors import UserError
from muc.run_folder import RunFolder


@dataclass(frozen=True)
class Retrained:
    """A finished Retrain: its answers, and its request as rows of the images that the encoder was trained on."""

    name: str
    embed: Embed
    listed: np.ndarray
    retained: np.ndarray


def open_retrained(run: RunFolder, of: RunFolder, runtime: config.Runtime) -> Retrained:
    """A Retrain of the encoder `of`, whose request chance has drawn: no other can stand for owners' random splits."""
    if (method := run.made_by()) != "retrain":
        raise UserError(f"{run} is no Retrain but {method}; make one with: muc unlearn {of} --method retrain")
    if run.original_sha256() != of.result()["model_sha256"]:
        raise UserError(f"{run} is a Retrain of another encoder than {of}; give one that was made from it")
    if (run.config().get("request") or {}).get("forget_fraction") is None:
        raise UserError(
            f"{run} forgot images that somebody chose, and an audit needs a random choice; "
            "give a Retrain made with --forget-fraction"
        )
    rows, split = of.split().train, run.split()
    listed, retained = (np.flatnonzero(np.isin(rows, part)) for part in (split.unlearn, split.retain))
    return Retrained(str(run), opening.embedder(run, runtime), listed, retained)


def open_swap(run: RunFolder, of: RunFolder, runtime: config.Runtime) -> Encoder:
    """An encoder of the same data as `of` and another seed, between which nothing was unlearned.

    Its seed may have drawn other images to train on: chance leaves out listed images and controls alike.
    """
    if (kind := run.config()["kind"]) != "pretrain":
        raise UserError(f"{run} is no pretrained run but {kind}; give one of another seed than {of}")
    if run.config()["data_sha256"] != of.config()["data_sha256"]:
        raise UserError(f"{run} was trained on other data than {of}; give a run of the same data and another seed")
    if run.result()["model_sha256"] == of.result()["model_sha256"]:
        raise UserError(f"{run} is the encoder itself; give a run of the same data and another seed")
    return open_encoder(run, runtime)
