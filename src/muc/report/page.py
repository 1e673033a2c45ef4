"""One self-contained HTML page from evaluation records: no scripts, nothing fetched, everything escaped."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from muc.report import render
from muc.report.canvas import data_uri
from muc.report.cells import Table
from muc.report.charts import alignment_histograms, gap_chart
from muc.report.group import Comparison, Record, compare
from muc.report.heatmaps import gap_grid, look_figure
from muc.report.held_out import held_out_gaps
from muc.report.noise import noise_of
from muc.report.summary import Summary, summarise
from muc.report.tables import method_facts, tables_of
from muc.report.words import different, entry_name, glossary, method_name, setting_name

ENV_LABELS = {
    "muc": "muc",
    "commit": "Commit",
    "python": "Python",
    "torch": "PyTorch",
    "platform": "System",
    "device": "Device",
}


@dataclass(frozen=True)
class Picture:
    """A figure with what it shows, for those who see it (caption) and those who do not (alt)."""

    source: str
    alt: str
    caption: str
    narrow: str | None = None
    """The same for small screens, its panels one below the other."""


@dataclass(frozen=True)
class Section:
    """One setting: its tables, each with the figure that belongs to it."""

    heading: str
    summary: Summary
    blocks: list[tuple[str, Markup, Picture | None]]
    of_pairs: bool
    facts: list[tuple[str, str]]
    methods: list[tuple[str, str]]


def page(
    records: list[Record],
    title: str,
    looks: Mapping[str, Mapping[str, Any]] | None = None,
    thumbnails: Sequence[bytes] | None = None,
    notes: Sequence[str] = (),
) -> str:
    """The report as HTML text; `notes` are paragraphs on how it was made."""
    compared = compare(records)
    sections = [section(c) for c in compared]
    return fill(
        "page.html.jinja",
        title=title,
        sections=sections,
        pictures=look_pictures(looks or {}, thumbnails),
        of_pairs=bool(looks) and all(look.get("of_pairs") for look in looks.values()),
        judged=any(c.judged for c in compared),
        glossary=glossary({c.of_pairs for c in compared}, any(any(held_out_gaps(c)) for c in compared)),
        notes=notes,
        environment=environment_facts([r.get("env") or {} for r in records]),
        runs=[(str(r["run"]), method_name(r["method"]), str(r["seed"])) for r in records],
    )


def fill(template: str, **values: Any) -> str:
    """A page from its template; everything put into it is escaped, and nothing may be missing."""
    environment = Environment(
        loader=PackageLoader("muc.report", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template(template).render(**values)


def section(comparison: Comparison) -> Section:
    made = tables_of(comparison)
    pictures = [_gap_picture(comparison), _alignment_picture(comparison)]
    return Section(
        heading=setting_name(comparison.setting),
        summary=summarise(comparison),
        blocks=[(_short_title(t), Markup(render.html(t)), p) for t, p in zip_longest(made, pictures)],
        of_pairs=comparison.of_pairs,
        facts=setting_facts(comparison),
        methods=[(entry_name(e), method_facts(e)) for e in comparison.entries if method_facts(e)],
    )


def _short_title(table: Table) -> str:
    """Without the setting, which is the section's heading."""
    return table.title.split(": ", 1)[0]


def _gap_picture(comparison: Comparison) -> Picture | None:
    drawn = gap_chart(comparison)
    if drawn is None:
        return None
    shown = [(e, g) for e in comparison.entries if e.method != "retrain" and (g := e.gap("AG"))]
    values = "; ".join(f"{entry_name(e)} {g.mean:.2f}" for e, g in shown)
    return Picture(
        data_uri(drawn),
        alt=f"Bar chart of the average gap to Retrain in percentage points: {values}.",
        caption="Each bar is a method's average gap to Retrain; its pieces show which metric adds how much."
        + (" Whiskers: standard deviation over seeds." if any(g.sd is not None for _, g in shown) else "")
        + (
            " Left of the dashed line, a method is as close to Retrain as another Retrain."
            if noise_of(comparison)
            else ""
        ),
    )


def _alignment_picture(comparison: Comparison) -> Picture | None:
    drawn = alignment_histograms(comparison)
    if drawn is None:
        return None
    one, each = ("two views of an image to forget", "two views of each image to forget")
    if comparison.of_pairs:
        one, each = ("an image to forget and its caption", "each image to forget and its caption")
    return Picture(
        data_uri(drawn),
        alt=f"Histograms, one for each method, of how alike {one} look to the model, over Retrain's histogram and the "
        "original's.",
        caption=f"How alike {each} look to the model (all seeds). Unlearning has worked as exact unlearning would "
        "where the blue line follows the grey area. A tall peak of the original is cut off.",
    )


def look_pictures(looks: Mapping[str, Mapping[str, Any]], thumbnails: Sequence[bytes] | None) -> list[Picture]:
    """What each method did to the owner's images: all side by side, then one by one."""
    made = []
    if len(looks) > 1:
        names = ", ".join(map(method_name, looks))
        own, other = ("two views of the same image", "views of different images")
        if all(look.get("of_pairs") for look in looks.values()):
            own, other = ("an image and its own caption", "an image and another one's caption")
        made.append(
            Picture(
                data_uri(gap_grid(looks, thumbnails)),
                alt=f"Heatmaps of the change in similarity between the same images, one for each of: {names}.",
                caption=f"The change each method made to the same images, on one scale. Framed: {own} "
                f"(orange: the model finds them less alike than before). Elsewhere: {other}.",
            )
        )
    for method, look in looks.items():
        made.append(
            Picture(
                data_uri(look_figure(look, thumbnails)),
                alt=f"Heatmaps for {method_name(method)}: similarity between images before and after, and the change.",
                caption=_look_caption(method, look),
            )
        )
    return made


def _look_caption(method: str, look: Mapping[str, Any]) -> str:
    if look.get("of_pairs"):
        return (
            f"{method_name(method)}. An image and its own caption: cosine {look['positive_alignment_before']:.3f} "
            f"before, {look['positive_alignment_after']:.3f} after. An image and another one's caption: "
            f"{look['negative_alignment_before']:.3f} before, {look['negative_alignment_after']:.3f} after."
        )
    return (
        f"{method_name(method)}. Two views of the same image: similarity {look['positive_alignment_before']:.3f} "
        f"before, {look['positive_alignment_after']:.3f} after. Views of different images: "
        f"{look['negative_alignment_before']:.3f} before, {look['negative_alignment_after']:.3f} after "
        f"(mean over {look['view_pairs']} pairs of views)."
    )


def setting_facts(comparison: Comparison) -> list[tuple[str, str]]:
    s, records = comparison.setting, [r for e in comparison.entries for r in e.records]
    what = "Pairs" if comparison.of_pairs else "Images"
    return [
        ("Data", s.data),
        ("Algorithm", s.algorithm),
        ("Architecture", s.architecture),
        ("Epochs of training", str(s.epochs)),
        (f"{what} to forget", different(r.get("forget_images") for r in records)),
        (f"{what} kept", different(r.get("retain_images") for r in records)),
        ("Seeds", different(r["seed"] for r in records)),
    ]


def environment_facts(environments: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """With what the runs were made; several values where they differ."""
    known = [{**e, "commit": _short(str(e["commit"]))} if e.get("commit") else e for e in environments]
    facts = [(label, different((e.get(key) for e in known), " / ")) for key, label in ENV_LABELS.items()]
    dates = sorted(str(e["date"])[:10] for e in known if e.get("date"))
    if dates:
        facts.append(("Made", dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"))
    return [(label, value) for label, value in facts if value]


def _short(commit: str) -> str:
    """Twelve digits, and whether files had been changed."""
    return commit[:12] + "+" * commit.endswith("+")
