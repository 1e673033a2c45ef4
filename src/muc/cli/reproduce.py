"""muc reproduce."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from muc import config
from muc.cli.flags import RuntimeFlags, parse, say
from muc.errors import Interrupted, UserError, check_name
from muc.methods import METHODS
from muc.reproduce import RECIPES, find_recipe

REPRODUCED = Path("reproduced")


@dataclass(frozen=True)
class Reproduce:
    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")] = ""
    """Which table or figure; --list shows them."""
    list: bool = False
    """Show what can be reproduced."""
    out: Path | None = None
    """Folder for all reproductions: OUT/NAME gets the table, OUT/runs the runs, which tables share (default:
    reproduced; with --smoke reproduced/smoke)."""
    seeds: tuple[int, ...] = ()
    """Seeds of encoders; hyper-parameters are chosen on the first (default: 0; for clip-coco 0 1 2)."""
    epochs: int | None = None
    """Epochs of pretraining and Retrain (default: the paper's 800; of clip 35)."""
    methods: tuple[str, ...] = ()
    """Only these methods, and Retrain."""
    algorithms: tuple[str, ...] = ()
    """Only these of simclr and moco (default: those that the paper has)."""
    search: int | None = None
    """Settings tried for each method, drawn from the paper's ranges and judged on validation images (default: 1, which
    is no search; for clip-coco 6). OUT/NAME/recipe.json records all that were tried."""
    criterion: str | None = None
    """Choose among the trials of --search by this gap instead of AG: AG_auc or AG_classifier. The table goes to
    OUT/NAME-by-CRITERION."""
    recipe: tuple[Path, ...] = ()
    """Take every method's settings from such files instead of searching."""
    dry_run: bool = False
    """Show the plan and what it costs, and stop."""
    smoke: bool = False
    """The same path with tiny settings on embedded images: minutes on a CPU, meaningless numbers."""
    runtime: RuntimeFlags = field(default_factory=config.Runtime)


def reproduce(argv: Sequence[str]) -> None:
    about = "Make one of the paper's tables or figures again, beside the paper's numbers. What is finished is kept."
    example = "muc reproduce cifar10-10 --algorithms moco --dry-run"
    flags = parse(Reproduce, argv, "reproduce", about, example)
    if flags.list or not flags.name:
        print("\n".join(f"{name:24} {what}" for name, (_, what) in RECIPES.items()))
        if not flags.list:
            raise UserError("no table or figure was named; give one of those above")
        return
    name = check_name("table or figure", flags.name, RECIPES)
    from muc.report.render import print_terminal
    from muc.reproduce.choices import of_other_epochs, read_choices
    from muc.reproduce.recipe import READ, UNIMODAL, Options, carry_out, describe, refuse_unread
    from muc.runtime import Runtime
    from muc.search import CRITERIA

    for given, kind, known in ((flags.methods, "method", METHODS), (flags.algorithms, "algorithm", UNIMODAL)):
        for value in given:
            check_name(kind, value, known)
    if len(set(flags.seeds)) < len(flags.seeds):
        raise UserError(f"--seeds {' '.join(map(str, flags.seeds))} names a seed twice; give each seed once")
    for flag, number, most in (("epochs", flags.epochs, 1e6), ("search", flags.search, 1000)):
        if number is not None:
            config.in_range(flag, number, 1, most)
    if flags.recipe and flags.search is not None:
        raise UserError("--recipe gives the settings that --search would look for; leave one of them out")
    everything = flags.out or (REPRODUCED / "smoke" if flags.smoke else REPRODUCED)
    criterion = flags.criterion or Options.criterion
    folder = name if criterion == Options.criterion else f"{name}-by-{criterion}"
    recipe, out = find_recipe(name), everything / folder
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file, where the folder of this table would be; give another --out")
    refuse_unread(name, recipe, {option: getattr(flags, option) for option in READ})
    if flags.criterion is not None:
        check_name("criterion", criterion, CRITERIA)
        if (flags.search or 1) == 1:
            raise UserError(f"--criterion {criterion} chooses among trials, and there are none; add --search 4")
    methods = tuple(m for m in METHODS if m in (flags.methods or recipe.default_methods) or m == "retrain")
    options = Options(
        out=everything,
        seeds=flags.seeds or recipe.seeds[: 1 if flags.smoke else None],
        epochs=flags.epochs,
        methods=methods,
        algorithms=flags.algorithms,
        search=1 if flags.recipe else flags.search or min(recipe.search, 2 if flags.smoke else recipe.search),
        criterion=criterion,
        smoke=flags.smoke,
        runtime=flags.runtime,
        chosen=read_choices(flags.recipe),
    )
    if not flags.dry_run:
        Runtime(flags.runtime)  # a device that is not there is refused before anything is done
    if note := "" if flags.smoke else of_other_epochs(options.chosen, flags.epochs):
        say(note)
    steps = recipe.plan(options, out)
    say(describe(steps, flags.smoke))
    if flags.dry_run:
        return
    try:
        carry_out(steps, say)
    except Interrupted:
        raise Interrupted(f"muc reproduce {' '.join(argv)}") from None
    page, tables = recipe.write(options, out)
    for table in tables:
        print_terminal(table)
    say(f"the report: {page}")
