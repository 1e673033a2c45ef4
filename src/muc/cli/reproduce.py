"""muc reproduce."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from muc import config
from muc.cli.flags import RuntimeFlags, parse, say
from muc.errors import UserError, check_name
from muc.methods import METHODS
from muc.methods.alignment_calibration import Reading
from muc.reproduce import RECIPES, find_recipe

if TYPE_CHECKING:
    from muc.reproduce.choices import Choice
    from muc.reproduce.recipe import Options, Recipe

REPRODUCED = Path("reproduced")
ALL = "all"


@dataclass(frozen=True)
class Reproduce:
    names: Annotated[Positional[tuple[str, ...]], arg(metavar="NAME", help_behavior_hint="(at least one)")] = ()
    """Which tables and figures, made one after the other: --list shows them, `all` is all of them."""
    list: bool = False
    """Show what can be reproduced."""
    out: Path | None = None
    """Folder for all reproductions: OUT/NAME gets the table, OUT/runs the runs, which tables share (default:
    reproduced; with --smoke reproduced/smoke)."""
    seeds: tuple[int, ...] = ()
    """Seeds of encoders; hyper-parameters are chosen on the first (default: the paper's, 0 to 4 for tables of methods
    and 0 to 2 for clip-coco; 0 for figures and where the paper does not say)."""
    epochs: int | None = None
    """Epochs of pretraining and Retrain (default: the paper's 800; of clip 35)."""
    methods: tuple[str, ...] = ()
    """Only these methods, and Retrain."""
    algorithms: tuple[str, ...] = ()
    """Only these of simclr and moco (default: those that the paper has); one alone is in the folder's name."""
    search: int | None = None
    """Settings tried for each method, drawn from the paper's ranges and judged on validation images (default: 1, which
    is no search; for clip-coco 6). OUT/NAME/recipe.json records all that were tried."""
    criterion: str | None = None
    """Choose among the trials of --search by this gap instead of AG: AG_auc or AG_classifier. The folder's name says
    so (OUT/NAME-by-CRITERION)."""
    reading: Reading | None = None
    """compat: encoders and Alignment Calibration as in the paper's released code, not as in its equations. The folder's
    name says so (OUT/NAME-compat)."""
    recipe: tuple[Path, ...] = ()
    """Take every method's settings from such files instead of searching."""
    dry_run: bool = False
    """Show the plan and what it costs, and stop."""
    smoke: bool = False
    """The same path with tiny settings on embedded images: minutes on a CPU, meaningless numbers."""
    runtime: RuntimeFlags = field(default_factory=config.Runtime)


def reproduce(argv: Sequence[str]) -> None:
    about = "Make the paper's tables and figures again, beside the paper's numbers. What is finished is kept."
    example = "muc reproduce cifar10-10 heatmaps --algorithms moco --dry-run"
    flags = parse(Reproduce, argv, "reproduce", about, example)
    if flags.list or not flags.names:
        print("\n".join(f"{name:24} {what}" for name, (_, what) in RECIPES.items()))
        if not flags.list:
            raise UserError("no table or figure was named; give one or more of those above, or all")
        return
    for name in flags.names:
        check_name("table or figure", name, (*RECIPES, ALL))
    from muc.report.render import print_terminal
    from muc.reproduce.choices import of_other_epochs, read_choices
    from muc.reproduce.recipe import carry_out, check_data, check_read, describe
    from muc.runtime import Runtime

    recipes = {name: find_recipe(name) for name in (RECIPES if ALL in flags.names else flags.names)}
    notes = check_read(recipes, flags)
    check_values(flags)
    chosen = read_choices(flags.recipe)
    check_reading(recipes, chosen)
    wanted = {name: wanted_of(flags, recipe, chosen) for name, recipe in recipes.items()}
    folders = {name: folder_of(name, options) for name, options in wanted.items()}
    if not flags.dry_run:
        Runtime(flags.runtime)  # a device that is not there is refused before anything is done
    notes += [] if flags.smoke else of_other_epochs(chosen, flags.epochs)
    plans = {name: recipe.plan(wanted[name], folders[name]) for name, recipe in recipes.items()}
    say("\n".join([*notes, describe([step for plan in plans.values() for step in plan], flags.smoke)]))
    if flags.dry_run:
        return
    check_data(plans.values())
    for name, recipe in recipes.items():
        if len(recipes) > 1:
            say(f"{name}: {recipe.title}")
        carry_out(recipe.plan(wanted[name], folders[name]), say)
        page, tables = recipe.write(wanted[name], folders[name])
        for table in tables:
            print_terminal(table)
        say(f"the report: {page}")


def check_values(flags: Reproduce) -> None:
    """What is wrong whatever is to be made."""
    from muc.reproduce.recipe import UNIMODAL
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
    if flags.recipe and flags.reading is not None:
        raise UserError("--recipe says for which reading its settings were chosen; leave --reading out")
    if flags.criterion is not None:
        check_name("criterion", flags.criterion, CRITERIA)
        if (flags.search or 1) == 1:
            raise UserError(f"--criterion {flags.criterion} chooses among trials, and there are none; add --search 4")


def check_reading(recipes: "dict[str, Recipe]", chosen: "tuple[Choice, ...]") -> None:
    """Settings that were chosen for encoders of the released code are for such encoders."""
    for name, recipe in recipes.items():
        if any(c.reading == "compat" for c in chosen) and "recipe" in recipe.reads and "reading" not in recipe.reads:
            raise UserError(
                f"--recipe holds settings for --reading compat, in which {name} is not made; give settings of the other"
            )


def wanted_of(flags: Reproduce, recipe: "Recipe", chosen: "tuple[Choice, ...]") -> "Options":
    """What was asked for, as far as this recipe reads it."""
    from muc.reproduce.recipe import Options

    def read(option: str, otherwise: Any) -> Any:
        return (getattr(flags, option) if option in recipe.reads else None) or otherwise

    usual = min(recipe.search, 2) if flags.smoke else recipe.search
    methods, given = read("methods", recipe.default_methods), read("recipe", ()) and chosen
    return Options(
        out=flags.out or (REPRODUCED / "smoke" if flags.smoke else REPRODUCED),
        seeds=read("seeds", recipe.seeds[: 1 if flags.smoke else None]),
        epochs=read("epochs", None),
        methods=tuple(m for m in METHODS if m in methods or m == "retrain"),
        algorithms=read("algorithms", ()),
        search=1 if flags.recipe else read("search", usual),
        criterion=read("criterion", Options.criterion),
        reading=given[0].reading if given else read("reading", Options.reading),
        smoke=flags.smoke,
        runtime=flags.runtime,
        chosen=given,
    )


def folder_of(name: str, options: "Options") -> Path:
    from muc.reproduce.recipe import Options

    marks = (
        name,
        options.algorithms[0] if len(options.algorithms) == 1 else "",
        f"by-{options.criterion}" if options.criterion != Options.criterion else "",
        "compat" if options.reading == "compat" else "",
    )
    folder = options.out / "-".join(filter(None, marks))
    for path in (options.out, folder):
        if path.exists() and not path.is_dir():
            raise UserError(f"{path} is a file, where the folder of this table would be; give another --out")
    return folder
