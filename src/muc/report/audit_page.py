"""The audit's report: one self-contained page, plain words first. No scripts, nothing fetched, everything escaped."""

from muc import __version__
from muc.audit.protocol.folder import Terms
from muc.audit.protocol.judge import Alignment, Judgement, null_distribution, permutation_seed
from muc.audit.protocol.publish import Case
from muc.audit.verdict import CHANGED, NO_CHANGE
from muc.report.audit_figures import effect_chart, group_heatmaps, null_histograms
from muc.report.canvas import data_uri
from muc.report.page import Picture, fill

MARKS = {CHANGED: "▲", NO_CHANGE: "■"}  # beside the words: the verdict must not hang on a colour
LIMITS = (
    (
        "That anything was forgotten.",
        "The test shows whether the request had an influence on how the model treats these images. Weights that were "
        "tuned to leave that trace, and nothing else, have that influence too.",
    ),
    ("That nothing was kept.", "A copy of the old model, or of the images, answers no queries."),
    (
        "Who or what caused the change.",
        "A service that treats listed images differently has changed its treatment of them without unlearning. Secret "
        "views, decoys and repeats make that harder, not impossible.",
    ),
    (
        "That nothing was done.",
        "Finding no change rules out changes as large as the reference, not smaller ones; only answers that are the "
        "same to the last digits show that a model is the old one.",
    ),
    (
        "That the controls stayed unknown.",
        "The p-value is right only if the model owner could not tell which images were held back. Somebody who knows "
        "all your images by another way knows the controls.",
    ),
)


def audit_page(case: Case) -> str:
    """The report as HTML text."""
    judgement, terms = case.judgement, case.commitment.terms
    return fill(
        "audit.html.jinja",
        finding=judgement.finding,
        mark=MARKS.get(judgement.finding, "?"),
        words=judgement.words,
        tiles=_tiles(judgement, terms),
        heatmaps=_heatmaps(case),
        null=_null(case),
        effects=_effects(case),
        withheld=_withheld(judgement, terms),
        limits=LIMITS,
        checks=judgement.checks,
        without_controls=judgement.without_controls,
        facts=_facts(case),
        hashes=_hashes(case),
        images=[
            (number, image.name, group, image.sha256)
            for number, (image, group) in enumerate(zip(case.secret.asked, _groups(case), strict=True), 1)
        ],
    )


def _groups(case: Case) -> list[str]:
    given = ["to forget" if asked else "held back" for asked in case.secret.mask]
    return given + ["withheld"] * case.commitment.terms.n_withheld


def _withheld(judgement: Judgement, terms: Terms) -> list[str]:
    """What the images that the model owner never had add, in a sentence each."""
    memory, after = judgement.memory, judgement.like_withheld
    if memory is None or after is None:
        return []
    remembered = (
        f"Before the deletion, views of one of your images were more alike than views of a withheld one by "
        f"{memory.value:.3f} in cosine (interval {memory.low:.3f} to {memory.high:.3f}, {memory.n_withheld} withheld "
        "images)"
    )
    margin = f"to within {terms.margin:g} in cosine (p = {after.p:.2g}, fixed beforehand)"
    return [
        f"{remembered}: this is what the model remembered of them, and what forgetting could undo."
        if memory.low > 0
        else f"{remembered}: that the model remembered anything of them is not shown.",
        f"After it, the deleted images are treated like withheld ones, {margin}."
        if after.p <= terms.alpha
        else f"Whether the deleted images are now treated like withheld ones, {margin}, is not shown. Views of one "
        f"image are more alike by {after.positive_alignment.value:+.3f}, different images by "
        f"{after.negative_alignment.value:+.3f}.",
    ]


def _tiles(judgement: Judgement, terms: Terms) -> list[tuple[str, str, str]]:
    verdict = judgement.verdict
    return [
        ("Chance of so much by luck", f"p = {verdict.evidence.p:.2g}", f"found if at most {verdict.alpha:g}"),
        ("Images", f"{terms.n_forget} + {terms.n_control}", "deletion requested + held back at random"),
        ("Would have been found", f"{verdict.power:.0%}", f"of changes as large as {verdict.reference}"),
    ]


def _heatmaps(case: Case) -> Picture:
    forget, controls = case.judgement.to_forget, case.judgement.controls
    shown = case.matrices.before, case.matrices.after, case.secret.mask
    return Picture(
        data_uri(group_heatmaps(*shown)),
        narrow=data_uri(group_heatmaps(*shown, narrow=True)),
        alt="Three heatmaps: similarity between the images before, after, and the change; the images to forget are "
        f"framed with a solid line, those held back with a dashed one. {_means('To forget', forget)} "
        f"{_means('Held back', controls)}",
        caption="Each square compares random views of two images; on the diagonal, views of the same image. Solid "
        f"frame: images to forget; dashed frame: images held back. {_means('To forget', forget)} "
        f"{_means('Held back', controls)} Short strokes mark squares whose images are clearly more alike now. "
        "The numbers are those of the list of images below.",
    )


def _means(group: str, a: Alignment) -> str:
    return (
        f"{group}: views of the same image {a.positive_before:.3f} before and {a.positive_after:.3f} after, "
        f"of different images {a.negative_before:.3f} and {a.negative_after:.3f}."
    )


def _null(case: Case) -> Picture:
    evidence = case.judgement.verdict.evidence
    values = null_distribution(case.matrices.gap, case.commitment.terms, case.secret)
    return Picture(
        data_uri(null_histograms(values, evidence)),
        narrow=data_uri(null_histograms(values, evidence, narrow=True)),
        alt=f"Two histograms of the contrasts that other splits would have given. FS: {evidence.FS.value:+.4f}, "
        f"p = {evidence.FS.p:.2g}. Negative alignment: {evidence.negative_alignment.value:+.4f}, "
        f"p = {evidence.negative_alignment.p:.2g}.",
        caption=f"Had chance picked other images to forget: the contrasts of {evidence.splits:,} splits. The line is "
        "the split that was committed to; the hatched part lies as far out or farther. The verdict takes the better of "
        f"the two places, and pays for having looked at both: p = {evidence.p:.2g}.",
    )


def _effects(case: Case) -> Picture:
    evidence = case.judgement.verdict.evidence
    found = "; ".join(
        f"{name} {c.value:+.4f}, from {c.low:+.4f} to {c.high:+.4f} (p = {c.p:.2g}, {c.p_holm:.2g} corrected for two)"
        for name, c in (("FS", evidence.FS), ("negative alignment", evidence.negative_alignment))
    )
    return Picture(
        data_uri(effect_chart(evidence, case.judgement.memory)),
        narrow=data_uri(effect_chart(evidence, case.judgement.memory, narrow=True)),
        alt=f"Both effects with their intervals: {found}.",
        caption=f"How much more the images to forget changed than those held back: {found}. FS above zero: views of "
        "one image are less alike than before. Negative alignment above zero: different images are more alike.",
    )


def _facts(case: Case) -> list[tuple[str, str]]:
    terms, judgement = case.commitment.terms, case.judgement
    evidence = judgement.verdict.evidence
    return [
        ("Statistic, fixed beforehand", terms.statistic),
        ("Level", f"{terms.alpha:g}"),
        ("p", f"{evidence.p:.6g}"),
        ("Splits compared", f"{evidence.splits:,}"),
        ("To forget, held back, withheld", f"{terms.n_forget}, {terms.n_control}, {terms.n_withheld}"),
        ("Power", ", ".join(f"{name}: {power:.1%}" for name, power in judgement.powers.items())),
        ("Reference", f"{case.reference}: {judgement.verdict.reference}"),
        ("Queries", f"{case.queries} over both models"),
        ("Views of each image", f"{terms.views} a model, {terms.shared_views} of them the same for both"),
        ("Decoys, repeats, near-duplicates", f"{terms.decoys}, {terms.repeats}, {terms.near_duplicates} a model"),
        ("Change of decoys", f"{judgement.background_change:.4f} in cosine, on average"),
        ("Committed", case.commitment.created),
        *((f"Model {phase} asked", f"{first} to {last}") for phase, (first, last) in case.collected.items()),
        ("Made with", f"muc {__version__}"),
    ]


def _hashes(case: Case) -> list[tuple[str, str]]:
    same = case.judgement.model_before is not None and case.judgement.model_before == case.judgement.model_after
    after = (case.judgement.model_after or "not given") + (" (the same as before)" if same else "")
    return [
        ("Commitment, SHA-256", case.folder.commitment_digest()),
        ("Secret, SHA-256", case.commitment.secret_sha256),
        ("Public key (Ed25519)", case.commitment.public_key),
        ("Seed of views and order", case.secret.seed),
        ("Seed of the permutations", str(permutation_seed(case.secret))),
        ("Model before, as the endpoint says", case.judgement.model_before or "not given"),
        ("Model after, as the endpoint says", after),
    ]
