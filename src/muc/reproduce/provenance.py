"""Where the settings of a table or figure come from, in words."""

from collections.abc import Sequence

from muc.report.cells import number
from muc.report.group import Record, compare
from muc.report.words import entry_name, setting_name
from muc.reproduce.choices import fits
from muc.reproduce.recipe import Options
from muc.reproduce.trial import AC, Trial

ABOUT_READING = {
    "equations": "AC follows the paper's equations. Encoders have a ReLU after the first convolution, as ResNets do; "
    "those of the released code have none there (--reading compat).",
    "compat": "Encoders have no ReLU after the first convolution, and AC swaps second views, averages over D and puts "
    "beta on the raw cosine, as in the paper's released code. Not repeated: its initialisation of convolutions "
    "(PyTorch's default; here Kaiming's), and that SimCLR passes its two views through the network one after the "
    "other, so that each has a batch norm of its own.",
}


def where_settings_come_from(options: Options, trials: Sequence[Trial]) -> str:
    """Of the methods' settings in these trials."""
    if options.chosen:
        text = "The settings of every method were given (--recipe); the file says how they were chosen."
        if (found := search_of(options, trials)) is None:
            return text
        seed, gap = found
        return f"{text} They were chosen by {said(gap)} on seed {seed}, whose gaps are therefore somewhat too small."
    if options.search == 1 and options.smoke:
        return "Nothing was searched for. The settings are those that suit the embedded images, for one epoch."
    if options.search == 1 and AC not in options.methods:
        return "Nothing was searched for: the values lie inside the paper's ranges and are ours, where it tuned each."
    unit = "times |R|/|D|, because its code averages over D and its equations over R"
    if options.search == 1:
        return (
            "Nothing was searched for. AC has the learning rate that the paper prints for CIFAR"
            f"{f' ({unit})' if options.reading == 'equations' else ''}; its beta is that of the paper's t-tests for "
            "10 %, and from among those of its scripts for 50 %; the other methods' values lie inside the paper's "
            "ranges and are ours, where the paper tuned each."
        )
    ranges = "ranges that suit the embedded images"
    if not options.smoke:
        notes = ["AC's beta for 50 % up to 4, as in its scripts"] if any(t.fraction == 0.5 for t in trials) else []
        notes += [f"learning rates of methods on mixed batches {unit}"] if options.reading == "equations" else []
        ranges = "; ".join(["the paper's ranges", *notes])
    text = (
        f"{options.search} settings of every method, its defaults and others drawn at random, were tried on seed "
        f"{options.seeds[0]} ({ranges}); the one with the smallest {said(trials[0].criterion)} on validation images "
    )
    same = "RA and UA are of the same images there and in the table, so that {} gaps are somewhat too small"
    if len(options.seeds) == 1:
        return f"{text}was taken. {same.format('its')}."
    those = "this seed's"
    return f"{text}served all seeds. {same.format(those)}; the other seeds had no part in the choice."


def said(gap: str) -> str:
    return gap.replace("_", " ")


def search_of(options: Options, trials: Sequence[Trial]) -> tuple[int, str] | None:
    """The seed among those of the trials on which settings were chosen, now or where they come from, and by which
    gap."""
    if not options.chosen:
        return (trials[0].settings.seed, trials[0].criterion) if options.search > 1 else None
    for trial in trials:
        seed, epochs = trial.settings.seed, trial.settings.optimisation.epochs
        for choice in options.chosen:
            if fits(choice, trial.settings, trial.fraction) and choice.seed == seed and choice.epochs in (None, epochs):
                return seed, choice.criterion
    return None


def without_searched_seed(records: list[Record], options: Options, trials: Sequence[Trial]) -> list[str]:
    """The gap that was searched by, of the seeds that had no part in the choice."""
    if (found := search_of(options, trials)) is None:
        return []
    seed, gap = found
    others = [record for record in records if record["seed"] != seed]
    return [
        f"Without seed {seed}, {said(gap)} ({setting_name(c.setting)}): "
        + ", ".join(f"{entry_name(e)} {number(e.gap(gap), 2)}" for e in c.ranked(gap))
        + "."
        for c in compare(others)
    ]


def settings_of_ac(trial: Trial, label: str = AC) -> str:
    """In words, of the run that counts."""
    ac = trial.chosen(label).config()["method"]
    beta = f"{ac['paper_beta']:.3g} in the paper's units" if ac["beta"] is None else f"{ac['beta']:.3g}"
    return f"alpha {ac['alpha']:g}, beta {beta}, gamma {ac['gamma']:g}, learning rate {ac['learning_rate']:.3g}"
