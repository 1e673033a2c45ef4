"""The one training loop: pretraining and every unlearning method go through it."""

import math
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import torch
from torch import Tensor

from muc import processes
from muc.batches import make_batches
from muc.config import Optimisation, Views
from muc.data.feed import make_feed
from muc.data.files import Pixels
from muc.data.loader import BatchPlan
from muc.errors import Diverged, Interrupted, UserError
from muc.methods import Method
from muc.models import ContrastiveModel
from muc.optimiser import make_optimiser, rate_at
from muc.runtime import Runtime

ONE_VALUE = "more than 1 value per channel"  # how torch says it


class Training:
    """One training in progress: what `state` returns at a step's end is all it takes to go on from there.

    Randomness comes from two places only: the plan's rows and captions (seed and epoch) and one generator for the
    views, whose state is saved. So a run that was cut off ends with the same bits as one that was not.
    """

    def __init__(
        self,
        model: ContrastiveModel,
        method: Method,
        images: Pixels | Tensor,  # (n, c, h, w) uint8
        plan: BatchPlan,
        views: Views,
        optimisation: Optimisation,
        runtime: Runtime,
        seed: int,
        captions: Sequence[Sequence[str]] = (),  # of the images, for models that read them
    ) -> None:
        self.model = runtime.place(model).train()
        processes.synchronise(self.model)
        self.method, self.plan = method, plan
        self.optimisation, self.runtime = optimisation, runtime
        self.feed = make_feed(images, plan, optimisation.epochs, runtime)
        self.generator = runtime.generator("views", seed)
        self.batches = make_batches(self.model, method, self.feed, captions, views, runtime, self.generator, seed)
        # A tensor, so that a recorded step sees the rate change.
        self.learning_rate = torch.tensor(optimisation.learning_rate, device=runtime.device)
        self.optimiser = make_optimiser(self.model, optimisation, self.learning_rate)
        self.sums: dict[str, Tensor] = {}
        if runtime.compiles:
            self.model.compile_backbones()
        self._repeat = runtime.repeater(self.generator)
        self.epoch, self.step_of_epoch, self.seconds = 0, 0, 0.0
        self._rate: float | None = None  # what the learning rate was last set to

    def run(
        self,
        report: Callable[[dict[str, Any]], None] = lambda _: None,
        save: Callable[[dict[str, Tensor], dict[str, Any]], None] | None = None,
        save_every_seconds: float = math.inf,
    ) -> None:
        """Train to the end. `report` gets one line an epoch, `save` the state now and then."""
        begun = saved = time.monotonic()
        earlier = self.seconds

        def now() -> float:
            return earlier + time.monotonic() - begun

        with interrupts() as interrupted, closing(self.feed):
            while self.epoch < self.optimisation.epochs:
                self._set_learning_rate()
                while self.step_of_epoch < self.plan.steps:
                    self._set_learning_rate()
                    self.batches.load(self.epoch, self.step_of_epoch)
                    self.advance()
                    self.step_of_epoch += 1
                    self.seconds = now()
                    stop = processes.anyone(interrupted())  # a signal reaches them one by one, in different steps
                    if save and (stop or time.monotonic() - saved >= save_every_seconds):
                        save(*self.state())
                        saved = time.monotonic()
                    if stop:
                        raise Interrupted
                report(self._close_epoch(now))
        finite = torch.stack([p.detach().isfinite().all() for p in self.model.parameters()])
        if not finite.all():  # of the last step no loss tells
            raise Diverged(f"training diverged in its last step; {self._slower()}")

    def _set_learning_rate(self) -> None:
        step = min(self.step_of_epoch, self.plan.steps - 1)  # a run that goes on at an epoch's end reports its rate
        rate = rate_at(self.optimisation, self.epoch, step, self.plan.steps)
        if rate != self._rate:
            self.learning_rate.fill_(rate)
            self._rate = rate

    def advance(self) -> None:
        try:
            self._repeat(self._step)
        except ValueError as error:
            if ONE_VALUE not in str(error):
                raise
            raise UserError(
                f"batches of {self.plan.n_retain + self.plan.n_forget} leave a batch norm one value a channel, which "
                "has no spread; pretrain or import with a larger --batch-size, or fewer --norm-groups"
            ) from None

    def _step(self) -> None:
        """One optimiser step on what was loaded; always the same tensors and shapes, so that it can be recorded."""
        batch = self.batches.make()
        with self.runtime.autocast():
            terms = self.method.loss(self.model, batch)
        self.optimiser.forget_gradients()
        processes.share_of(torch.stack(list(terms.values())).sum()).backward()
        processes.sum_gradients(self.optimiser.parameters)
        self.optimiser.step()
        self.model.after_step()
        processes.average_statistics(self.model)
        for name, value in terms.items():
            if name not in self.sums:
                self.sums[name] = torch.zeros((), dtype=torch.float64, device=value.device)
            self.sums[name] += value.detach()

    def _close_epoch(self, now: Callable[[], float]) -> dict[str, Any]:
        terms = {name: float(total) / self.plan.steps for name, total in self.sums.items()}
        self.seconds = now()  # only here has the device done all that it was told to
        loss = sum(terms.values())
        if not math.isfinite(loss):
            raise Diverged(f"training diverged in epoch {self.epoch + 1} (the loss is {loss}); {self._slower()}")
        self.epoch, self.step_of_epoch = self.epoch + 1, 0
        for total in self.sums.values():
            total.zero_()
        rate = float(self.learning_rate)
        return {"epoch": self.epoch, "loss": loss, **terms, "learning_rate": rate, "seconds": round(self.seconds, 3)}

    def _slower(self) -> str:
        return f"give a smaller --learning-rate than {self.optimisation.learning_rate:g}"

    def waiting(self) -> float | None:
        """The share of the time so far in which there was nothing to compute for want of data (if streamed)."""
        return None if self.feed.waited is None else self.feed.waited / max(self.seconds, 1e-9)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """-> (tensors, JSON) at the end of a step."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        tensors |= self.optimiser.state()
        tensors["generator"] = self.generator.get_state()
        # In order, which JSON objects lose: the loss is their sum, to the last digit.
        sums = [(name, float(value)) for name, value in self.sums.items()]
        position = {"epoch": self.epoch, "step_of_epoch": self.step_of_epoch, "seconds": self.seconds, "sums": sums}
        return tensors, {**position, "waited": self.feed.waited}

    def restore(self, tensors: dict[str, Tensor], position: dict[str, Any]) -> None:
        """Go back to where `state` was called."""
        weights = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
        self.model.load_state_dict(weights)
        self.optimiser.restore(tensors)
        self.generator.set_state(tensors["generator"])
        self.epoch, self.step_of_epoch = position["epoch"], position["step_of_epoch"]
        self.seconds = position["seconds"]
        if self.feed.waited is not None:
            self.feed.waited = position.get("waited") or 0.0
        for name, value in dict(position["sums"]).items():
            self.sums[name] = torch.tensor(value, dtype=torch.float64, device=self.runtime.device)


@contextmanager
def interrupts() -> Generator[Callable[[], bool]]:
    """-> a function that says whether Ctrl-C or SIGTERM came, or the terminal closed (but not where that is to be
    ignored, as under nohup). A second Ctrl-C stops at once, saving nothing."""
    arrived: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {kind: signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    kinds = [kind for kind in before if kind != signal.SIGHUP or before[kind] != signal.SIG_IGN]

    def handle(number: int, _frame: Any) -> None:
        arrived.append(number)
        for kind in kinds:
            signal.signal(kind, before[kind])

    try:
        for kind in kinds:
            signal.signal(kind, handle)
        yield lambda: bool(arrived)
    finally:
        for kind in kinds:
            signal.signal(kind, before[kind])
