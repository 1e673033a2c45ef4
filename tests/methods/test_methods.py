"""Each method against the equations of docs/methods.md, written out pair by pair in double precision."""

import ast
import inspect
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from muc import config, opening, runs
from muc.config import Optimisation, Views
from muc.data import plan_batches
from muc.errors import UserError
from muc.methods import (
    METHODS,
    AlignmentCalibration,
    BalancedCalibration,
    FineTune,
    GradientAscent,
    L1Sparsity,
    Method,
    NegGrad,
    Retrain,
)
from muc.models import Batch, Contrast, ContrastiveModel, MoCo, SimCLR
from muc.runtime import Runtime
from muc.train import Training

SIZE = 4
RETAIN, FORGET = 5, 3
EPSILON = 0.17  # not FORGET / RETAIN: the data's ratio counts, not the batch's
KINDS = ("simclr", "moco")
PAPERS = ("retrain", "finetune", "gradient_ascent", "neggrad", "l1_sparsity", "alignment_calibration")
TEMPERATURE = {"simclr": 0.5, "moco": 0.1}


def tiny_model(kind: str) -> ContrastiveModel:
    torch.manual_seed(3)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIZE * SIZE, 6), nn.Tanh())
    if kind == "simclr":
        return SimCLR(backbone, 6, projection_dim=4, temperature=TEMPERATURE[kind]).double()
    model = MoCo(backbone, 6, projection_dim=4, temperature=TEMPERATURE[kind], queue_size=7).double()
    with torch.no_grad():  # a key encoder that is not the query encoder
        for parameter in (*model.key_backbone.parameters(), *model.key_projector.parameters()):
            parameter.add_(0.2 * torch.randn_like(parameter))
    model.queue = model.queue.float()
    model.queue_log_weight = torch.randn(7)
    return model


def tiny_batch(n_retain: int = RETAIN, n_forget: int = FORGET, third: bool = False, epsilon: float = EPSILON) -> Batch:
    generator = torch.Generator().manual_seed(5)

    def images(n: int) -> Tensor:
        return torch.randn(n, 3, SIZE, SIZE, dtype=torch.float64, generator=generator)

    n = n_retain + n_forget
    first, second, log_weight = images(n), images(n), torch.randn(n, generator=generator)
    return Batch(first, second, n_retain, log_weight, epsilon, images(n_forget) if third else None)


class Naive:
    """The quantities of the equations as single numbers with gradients, one pair at a time.

    `positive_of[i]` says whose second view is row i's positive: itself, but for the released code's swap.
    """

    def __init__(self, model: ContrastiveModel, batch: Batch, positive_of: dict[int, int] | None = None) -> None:
        self.model, self.tau = model, model.temperature
        self.n, self.r = len(batch.first), batch.n_retain
        swap = positive_of or {}
        second = torch.stack([batch.second[swap.get(i, i)] for i in range(self.n)])
        later = [second] if batch.third is None else [second, batch.third]
        self.weight = [float(w) for w in batch.log_weight.double().exp()]
        self.queue: list[tuple[Tensor, float]] = []
        if isinstance(model, MoCo):
            self.x = self._unit(model.projector(model.backbone(batch.first)))
            with torch.no_grad():
                keys = self._unit(model.key_projector(model.key_backbone(torch.cat(later))))
            weights = [float(w) for w in model.queue_log_weight.double().exp()]
            self.queue = list(zip(model.queue.double(), weights, strict=True))
        else:
            z = self._unit(model.projector(model.backbone(torch.cat([batch.first, *later]))))
            self.x, keys = z[: self.n], z[self.n :]
        self.second, self.third = keys[: self.n], keys[self.n :]

    @staticmethod
    def _unit(vectors: Tensor) -> list[Tensor]:
        return [v / (v * v).sum().sqrt() for v in vectors]

    def s(self, a: Tensor, b: Tensor) -> Tensor:
        return (a * b).sum() / self.tau

    def positive(self, i: int) -> Tensor:
        return self.s(self.x[i], self.second[i])

    def log_sums(self, i: int) -> list[Tensor]:
        """log sum_y w exp s(x, y): one for each anchor of row i (SimCLR has two), positive left out."""
        if self.queue:
            return [sum(w * self.s(self.x[i], key).exp() for key, w in self.queue).log()]
        others = [j for j in range(self.n) if j != i]
        return [
            sum(self.weight[j] * (self.s(a, self.x[j]).exp() + self.s(a, self.second[j]).exp()) for j in others).log()
            for a in (self.x[i], self.second[i])
        ]

    def infonce(self, i: int) -> Tensor:
        """-s(x, x+) + log(exp s(x, x+) + sum_y w exp s(x, y))."""
        positive = self.positive(i)
        return mean([(positive.exp() + total.exp()).log() - positive for total in self.log_sums(i)])

    @property
    def retain(self) -> range:
        return range(self.r)

    @property
    def forget(self) -> range:
        return range(self.r, self.n)


def mean(values: list[Tensor]) -> Tensor:
    return sum(values) / len(values)


def naive_alignment_calibration(
    method: AlignmentCalibration, beta: float
) -> Callable[[Naive, float], dict[str, Tensor]]:
    """AC with beta in the equation's units."""

    def terms(naive: Naive, epsilon: float) -> dict[str, Tensor]:
        pairs = [(i, j) for i in naive.forget for j in naive.forget if i != j]
        return {
            "retain": mean([naive.infonce(i) for i in naive.retain]),
            "negative_calibration": -method.alpha
            * epsilon
            * mean([naive.s(naive.x[i], naive.second[j]) for i, j in pairs]),
            "positive_calibration": beta * epsilon * mean([naive.positive(i) for i in naive.forget]),
            "performance_preserving": method.gamma * epsilon * mean([mean(naive.log_sums(i)) for i in naive.forget]),
        }

    return terms


def gradients(loss: Tensor, model: nn.Module) -> dict[str, Tensor]:
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not loss.requires_grad:
        return {name: torch.zeros_like(p) for name, p in parameters.items()}
    found = torch.autograd.grad(loss, list(parameters.values()), retain_graph=True, materialize_grads=True)
    return dict(zip(parameters, found, strict=True))


def assert_terms_match(
    method: Method,
    kind: str,
    batch: Batch,
    naive_terms: Callable[[Naive, float], dict[str, Tensor]],
    positive_of: dict[int, int] | None = None,
) -> None:
    """Same names, same values, same gradients with respect to every trained parameter, term by term."""
    model = tiny_model(kind)
    terms = method.loss(model, batch)
    twin = tiny_model(kind)
    expected = naive_terms(Naive(twin, batch, positive_of), batch.epsilon)
    assert terms.keys() == expected.keys()
    for name, term in terms.items():
        value = torch.as_tensor(expected[name])
        torch.testing.assert_close(term.double(), value, rtol=1e-5, atol=1e-6, msg=lambda m, n=name: f"{n}: {m}")
        ours, theirs = gradients(term, model), gradients(value, twin)
        scale = max(float(g.abs().max()) for g in theirs.values())
        for parameter, gradient in ours.items():
            torch.testing.assert_close(
                gradient,
                theirs[parameter],
                rtol=1e-4,
                atol=1e-5 * scale + 1e-9,
                msg=lambda m, n=name, p=parameter: f"gradient of {n} for {p}: {m}",
            )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", [Retrain(), FineTune()])
def test_retrain_and_finetune_minimise_the_mean_infonce_of_retain_rows(method: Method, kind: str) -> None:
    batch = tiny_batch(n_retain=6, n_forget=0)
    assert_terms_match(
        method, kind, batch, lambda naive, _: {"infonce": mean([naive.infonce(i) for i in naive.retain])}
    )


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_ascent_maximises_the_mean_infonce_of_forget_rows(kind: str) -> None:
    batch = tiny_batch(n_retain=0, n_forget=4)
    assert_terms_match(
        GradientAscent(), kind, batch, lambda naive, _: {"forget": -mean([naive.infonce(i) for i in naive.forget])}
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weight", [0.0, 1.0, 2.5])
def test_neggrad_descends_on_retain_rows_and_ascends_on_forget_rows(weight: float, kind: str) -> None:
    assert_terms_match(
        NegGrad(ascent_weight=weight),
        kind,
        tiny_batch(),
        lambda naive, epsilon: {
            "retain": mean([naive.infonce(i) for i in naive.retain]),
            "forget": -weight * epsilon * mean([naive.infonce(i) for i in naive.forget]),
        },
    )


@pytest.mark.parametrize("kind", KINDS)
def test_l1_sparsity_adds_the_absolute_values_of_all_trained_weights(kind: str) -> None:
    def terms(naive: Naive, _: float) -> dict[str, Tensor]:
        trained = [p for name, p in naive.model.named_parameters() if not name.startswith("key_")]
        return {
            "infonce": mean([naive.infonce(i) for i in naive.retain]),
            "l1": 3e-3 * sum(value.abs() for p in trained for value in p.flatten()),
        }

    assert_terms_match(L1Sparsity(l1=3e-3), kind, tiny_batch(n_retain=6, n_forget=0), terms)


ALONE = {
    "all": {"alpha": 0.7, "beta": 1.3, "gamma": 1.9},
    "none": {"alpha": 0.0, "beta": 0.0, "gamma": 0.0},
    "alpha": {"alpha": 0.7, "beta": 0.0, "gamma": 0.0},
    "beta": {"alpha": 0.0, "beta": 1.3, "gamma": 0.0},
    "gamma": {"alpha": 0.0, "beta": 0.0, "gamma": 1.9},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", ALONE)
def test_alignment_calibration_follows_its_equation_with_each_lever_alone_and_all_together(
    which: str, kind: str
) -> None:
    method = AlignmentCalibration(**ALONE[which])
    assert_terms_match(method, kind, tiny_batch(), naive_alignment_calibration(method, beta=ALONE[which]["beta"]))


@pytest.mark.parametrize("kind", KINDS)
def test_the_log_sum_is_a_log_expectation_but_for_a_constant(kind: str) -> None:
    """The equation has log E_D; with weights, both differ by the log of the total weight, which has no gradient."""
    model, batch = tiny_model(kind), tiny_batch()
    naive = Naive(model, batch)
    term = AlignmentCalibration(beta=0.0).loss(model, batch)["performance_preserving"]
    constants = []
    for i in naive.forget:
        if naive.queue:
            total = sum(w for _, w in naive.queue)
        else:
            total = 2 * sum(w for j, w in enumerate(naive.weight) if j != i)
        constants.append(torch.tensor(total).log())
    expectation = mean([mean(naive.log_sums(i)) - constants[i - naive.r] for i in naive.forget])
    torch.testing.assert_close(term.double(), EPSILON * (expectation + mean(constants)), rtol=1e-5, atol=1e-6)
    ours, theirs = gradients(term, model), gradients(EPSILON * expectation, model)
    for name, gradient in ours.items():
        torch.testing.assert_close(gradient, theirs[name], rtol=1e-4, atol=1e-7, msg=name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lever", ["alpha", "beta", "gamma"])
def test_each_lever_moves_its_own_term_and_no_other(lever: str, kind: str) -> None:
    batch, own = tiny_batch(), {"alpha": "negative", "beta": "positive", "gamma": "performance"}[lever]
    reference = AlignmentCalibration(beta=1.0).loss(tiny_model(kind), batch)
    for value in (0.0, 2.0):
        terms = AlignmentCalibration(**{"beta": 1.0, lever: value}).loss(tiny_model(kind), batch)
        for name, term in terms.items():
            expected = value * reference[name] if name.startswith(own) else reference[name]
            torch.testing.assert_close(term, expected, msg=name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("printed", [0.0, 8.0])
def test_beta_is_temperature_times_the_printed_beta(printed: float, kind: str) -> None:
    batch, equation = tiny_batch(), TEMPERATURE[kind] * printed  # printed 8: 4 for SimCLR, 0.8 for MoCo
    by_paper = AlignmentCalibration(paper_beta=printed).loss(tiny_model(kind), batch)
    by_equation = AlignmentCalibration(beta=equation).loss(tiny_model(kind), batch)
    for name, term in by_paper.items():
        torch.testing.assert_close(term, by_equation[name], msg=name)
    naive = Naive(tiny_model(kind), batch)
    cosine = mean([(naive.x[i] * naive.second[i]).sum() for i in naive.forget])
    expected = printed * EPSILON * cosine
    torch.testing.assert_close(by_paper["positive_calibration"].double(), expected, rtol=1e-5, atol=1e-6)


def test_beta_zero_is_not_beta_missing() -> None:
    terms = AlignmentCalibration(beta=0.0, paper_beta=8.0).loss(tiny_model("simclr"), tiny_batch())
    assert terms["positive_calibration"] == 0


SWAP = {RETAIN: RETAIN + 2, RETAIN + 1: RETAIN, RETAIN + 2: RETAIN + 1}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("printed", [0.0, 8.0])
def test_compat_swaps_second_views_and_weighs_the_raw_cosine_by_the_share_of_forget_rows(
    printed: float, kind: str
) -> None:
    share = EPSILON / (1 + EPSILON)  # |U| / |D|

    def terms(naive: Naive, _: float) -> dict[str, Tensor]:
        cosines = [(naive.x[i] * naive.third[i - naive.r]).sum() for i in naive.forget]
        return {
            "retain": (1 - share) * mean([naive.infonce(i) for i in naive.retain]),
            "swapped": share * mean([naive.infonce(i) for i in naive.forget]),
            "positive_calibration": printed * share * mean(cosines),
        }

    method = AlignmentCalibration(paper_beta=printed, reading="compat")
    assert_terms_match(method, kind, tiny_batch(third=True), terms, positive_of=SWAP)


@pytest.mark.parametrize("kind", KINDS)
def test_compat_is_one_mean_over_the_mixed_batch_when_batch_and_data_have_the_same_shares(kind: str) -> None:
    batch = tiny_batch(third=True, epsilon=FORGET / RETAIN)
    terms = AlignmentCalibration(reading="compat", paper_beta=8.0).loss(tiny_model(kind), batch)
    naive = Naive(tiny_model(kind), batch, SWAP)
    everything = mean([naive.infonce(i) for i in range(naive.n)])
    torch.testing.assert_close((terms["retain"] + terms["swapped"]).double(), everything, rtol=1e-5, atol=1e-6)


def test_compat_passes_the_third_view_through_mocos_key_encoder_without_gradient() -> None:
    batch, model = tiny_batch(third=True), tiny_model("moco")
    assert batch.third is not None
    batch.third.requires_grad_()
    terms = AlignmentCalibration(reading="compat").loss(model, batch)
    terms["positive_calibration"].backward()
    assert batch.third.grad is None
    assert all(p.grad is None for p in model.key_backbone.parameters())
    assert all(p.grad is not None for p in model.projector.parameters())


def test_compat_passes_the_third_view_through_simclrs_encoder_with_gradient() -> None:
    batch = tiny_batch(third=True)
    assert batch.third is not None
    batch.third.requires_grad_()
    AlignmentCalibration(reading="compat").loss(tiny_model("simclr"), batch)["positive_calibration"].backward()
    assert batch.third.grad is not None
    assert batch.third.grad.abs().max() > 0


def test_only_compat_asks_for_a_third_view() -> None:
    assert AlignmentCalibration(reading="compat").third_view
    assert not any(kind().third_view for kind in METHODS.values())


@pytest.mark.parametrize("settings", [{"alpha": 0.5}, {"gamma": 2.0}, {"alpha": 0.0}])
def test_compat_refuses_what_the_released_code_cannot_do(settings: dict[str, float]) -> None:
    with pytest.raises(UserError, match="compat"):
        AlignmentCalibration(reading="compat", **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_balanced_calibration_follows_the_equation_with_alpha_for_balance(kind: str) -> None:
    written_out = naive_alignment_calibration(AlignmentCalibration(alpha=0.3 + 0.7, beta=0.3, gamma=0.7), 0.3)
    assert_terms_match(BalancedCalibration(beta=0.3, gamma=0.7), kind, tiny_batch(), written_out)


class Canned(ContrastiveModel):
    """Neither SimCLR nor MoCo: answers with given similarities."""

    def __init__(self, seed: int, n: int, n_retain: int, anchors: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.seed, self.n, self.r, self.anchors = seed, n, n_retain, anchors

    def projected(self, images: Tensor) -> Tensor:
        raise AssertionError("methods ask for similarities, not for embeddings")

    def contrast(self, batch: Batch) -> Contrast:
        generator = torch.Generator().manual_seed(self.seed)

        def values(*shape: int) -> Tensor:
            return self.scale * torch.randn(*shape, generator=generator)

        n_forget = self.n - self.r
        third = values(n_forget) if batch.third is not None else None
        return Contrast(
            self.r, values(self.n), values(self.anchors, self.n), values(n_forget, n_forget), third, temperature=0.25
        )


class Shifted(Canned):
    """The same similarities, all of them larger by as much."""

    shift: float = 0.0

    def contrast(self, batch: Batch) -> Contrast:
        found = super().contrast(batch)
        return replace(
            found,
            positive=found.positive + self.shift,
            negatives=found.negatives + self.shift,
            within_forget=found.within_forget + self.shift,
        )


@given(seed=st.integers(0, 99), shift=st.floats(-9, 9), beta=st.floats(0, 5), gamma=st.floats(0, 5))
def test_only_in_balance_nothing_is_gained_by_making_all_pairs_less_alike(
    seed: int, shift: float, beta: float, gamma: float
) -> None:
    batch, model = tiny_batch(6, 3), Shifted(seed, 9, 6, 2)

    def moved(method: Method) -> float:
        values = []
        for model.shift in (0.0, shift):
            values.append(sum(float(term.detach()) for term in method.loss(model, batch).values()))
        return values[1] - values[0]

    papers = AlignmentCalibration(alpha=gamma, beta=beta, gamma=gamma)
    assert moved(BalancedCalibration(beta=beta, gamma=gamma)) == pytest.approx(0, abs=1e-4)
    assert moved(NegGrad()) == pytest.approx(0, abs=1e-4)
    assert moved(papers) == pytest.approx(batch.epsilon * beta * shift, abs=1e-4)


@pytest.mark.parametrize("name", ["alpha", "beta", "paper_beta", "gamma"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_levers_that_are_negative_or_no_number_are_refused(name: str, value: float) -> None:
    with pytest.raises(UserError, match=name):
        AlignmentCalibration(**{name: value})


EVERY_METHOD = [*(kind() for kind in METHODS.values()), AlignmentCalibration(reading="compat")]


def batch_for(method: Method, n_retain: int, n_forget: int) -> Batch:
    return tiny_batch(
        n_retain=n_retain if method.rows != "forget" else 0,
        n_forget=n_forget if method.rows != "retain" else 0,
        third=method.third_view,
        epsilon=n_forget / n_retain,
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", EVERY_METHOD, ids=lambda m: f"{type(m).__name__}-{getattr(m, 'reading', '')}")
def test_two_forget_rows_are_enough_for_finite_terms_and_gradients(method: Method, kind: str) -> None:
    model = tiny_model(kind).float()
    batch = batch_for(method, 6, 2)
    batch = replace(
        batch,
        first=batch.first.float(),
        second=batch.second.float(),
        third=None if batch.third is None else batch.third.float(),
    )
    terms = method.loss(model, batch)
    assert all(term.isfinite() for term in terms.values())
    sum(terms.values()).backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("method", EVERY_METHOD, ids=lambda m: f"{type(m).__name__}-{getattr(m, 'reading', '')}")
@given(seed=st.integers(0, 99), anchors=st.integers(1, 3))
def test_methods_work_on_any_model_that_keeps_the_contract(method: Method, seed: int, anchors: int) -> None:
    batch = batch_for(method, 6, 2)
    terms = method.loss(Canned(seed, len(batch.first), batch.n_retain, anchors), batch)
    assert all(term.shape == () and term.isfinite() for term in terms.values())


def test_no_method_asks_which_model_it_has() -> None:
    for kind in METHODS.values():
        tree = ast.parse(inspect.getsource(inspect.getmodule(kind)))
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        names |= {a.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for a in node.names}
        assert not names & {"isinstance", "type", "SimCLR", "MoCo", "queue", "__class__"}, kind


def test_declarations_are_the_papers() -> None:
    papers = {name: METHODS[name] for name in PAPERS}  # a new method may stand beside them
    rows = {name: kind.rows for name, kind in papers.items()}
    assert rows == {
        "retrain": "retain",
        "finetune": "retain",
        "gradient_ascent": "forget",
        "neggrad": "mixed",
        "l1_sparsity": "retain",
        "alignment_calibration": "mixed",
    }
    assert [name for name, kind in papers.items() if kind.start == "scratch"] == ["retrain"]
    assert {name: kind().epochs for name, kind in papers.items()} == dict.fromkeys(rows, 10) | {
        "retrain": None,
        "gradient_ascent": 5,
    }
    assert AlignmentCalibration().learning_rate == L1Sparsity().learning_rate == 0.006
    assert (AlignmentCalibration().alpha, AlignmentCalibration().gamma) == (1, 1)


@dataclass(frozen=True)
class PushApart(Method):
    """A method this project does not have: train on all rows and push the views of forget rows apart."""

    rows: ClassVar = "mixed"

    epochs: int | None = 2
    strength: float = 0.5

    def loss(self, model: ContrastiveModel, batch: Batch) -> dict[str, Tensor]:
        contrast = model.contrast(batch)
        return {
            "infonce": contrast.infonce()[: batch.n_retain].mean(),
            "push": self.strength * batch.epsilon * contrast.positive[batch.n_retain :].mean(),
        }


def tiny_pixels(n: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, 3, 8, 8), dtype=np.uint8)


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_method_is_one_dataclass_for_the_training_loop(kind: str) -> None:
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 8), nn.BatchNorm1d(8), nn.ReLU())
    model = (SimCLR if kind == "simclr" else MoCo)(backbone, 8, projection_dim=4)
    before = deepcopy(model.state_dict())
    plan = plan_batches(np.arange(4, 24), np.arange(4), "mixed", batch_size=8, seed=0)
    runtime = Runtime(config.Runtime(device="cpu", threads=1))
    optimisation = Optimisation(epochs=2, schedule="constant", learning_rate=0.01)
    training = Training(
        model, PushApart(), torch.from_numpy(tiny_pixels(24)), plan, Views(), optimisation, runtime, seed=0
    )
    lines: list[dict[str, Any]] = []
    training.run(lines.append)
    assert [line["epoch"] for line in lines] == [1, 2]
    assert all(np.isfinite(line["push"]) and np.isfinite(line["infonce"]) for line in lines)
    assert all(line["loss"] == pytest.approx(line["push"] + line["infonce"]) for line in lines)
    assert any(not torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_method_is_one_line_in_methods_for_everything_else(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "push_apart", PushApart)
    np.savez(tmp_path / "tiny.npz", images=tiny_pixels(40), labels=np.arange(40) % 2)
    settings = config.Pretraining(
        data=config.Data(name=str(tmp_path / "tiny.npz")),
        model=config.Model(algorithm=kind, architecture="mlp", projection_dim=8, queue_size=16),
        optimisation=Optimisation(epochs=1, batch_size=8),
    )
    runtime = config.Runtime(device="cpu", threads=1)
    parent = runs.pretrain_run(settings, tmp_path / "parent", runtime)
    request = config.Request(forget_fraction=0.2)
    method = PushApart(strength=0.25, learning_rate=0.01)
    run = runs.unlearn_run(parent, method, request, tmp_path / "child", runtime)
    assert run.done
    assert opening.method_of(run) == method
    assert run.config()["method"]["name"] == "push_apart"
    assert all(line.keys() >= {"infonce", "push"} for line in run.metrics())
    assert len(run.metrics()) == 2
