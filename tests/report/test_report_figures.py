"""Figures: shared scales, readable values, names that cannot break the drawing."""

from io import BytesIO

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from report_records import look, record, thumbnails

from muc.errors import UserError
from muc.report import canvas, charts, heatmaps
from muc.report.canvas import plain
from muc.report.group import compare, stat
from muc.report.sweep_charts import BLUE, Bars, Panel, _limits


def size(png: bytes) -> tuple[int, int]:
    with Image.open(BytesIO(png)) as image:
        assert image.format == "PNG"
        return image.size


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures before they become PNG."""
    kept: list[Figure] = []
    monkeypatch.setattr(heatmaps, "png", lambda figure: kept.append(figure) or b"")
    return kept


def limits(figure: Figure) -> list[tuple[float, float]]:
    return [ax.images[0].get_clim() for ax in figure.axes if ax.images and not hasattr(ax, "_colorbar")]


@pytest.mark.parametrize("moved", [0.3, -0.3])
def test_before_and_after_share_a_scale_and_the_change_is_around_zero(drawn: list[Figure], moved: float) -> None:
    given = look(4, trace=moved, forgetting=moved)  # either matrix may hold the extremes
    heatmaps.look_figure(given)
    before, after, change = limits(drawn[0])
    assert before == after
    assert before == pytest.approx(
        (np.min([given["before"], given["after"]]), np.max([given["before"], given["after"]]))
    )
    assert change[0] == -change[1] == pytest.approx(-np.abs(given["gap"]).max())


def test_values_stand_in_the_cells_of_small_matrices_only(drawn: list[Figure]) -> None:
    for n in (10, 11):
        heatmaps.look_figure(look(n))
    assert [len(figure.axes[0].texts) for figure in drawn] == [100, 0]
    texts = [t.get_text() for t in drawn[0].axes[2].texts]
    assert all(t[0] in "+−" or t == "0.00" for t in texts)
    assert not any(t.get_text().startswith("+") for t in drawn[0].axes[0].texts)


def test_methods_share_one_scale(drawn: list[Figure]) -> None:
    strong = look(4, trace=-0.3)
    heatmaps.gap_grid({"finetune": look(4), "alignment_calibration": strong})
    first, second = limits(drawn[0])
    assert first == second
    assert second[1] == pytest.approx(np.abs(strong["gap"]).max())


def test_all_models_stand_beside_the_original_on_one_scale(drawn: list[Figure]) -> None:
    looks = {"retrain": look(4, trace=-0.3), "finetune": look(4)}
    heatmaps.similarity_grid(looks)
    shown = [ax.images[0].get_array() for ax in drawn[0].axes[:3]]
    for matrix, expected in zip(
        shown, (looks["retrain"]["before"], *(own["after"] for own in looks.values())), strict=True
    ):
        np.testing.assert_allclose(matrix, expected)
    assert [ax.get_title() for ax in drawn[0].axes[:3]] == ["Original", "Retrain", "Fine-tune"]
    assert len(set(limits(drawn[0])[:3])) == 1
    assert limits(drawn[0])[0] == pytest.approx((np.min(shown), np.max(shown)))


def test_hostile_names_are_drawn_as_text() -> None:
    given = look(2) | {"names": [r"$\frac{", "日本<b>\n"]}
    assert size(heatmaps.look_figure(given))[0] > 500
    assert plain("$x$ 日") == r"\$x\$ ?"
    assert len(plain("a" * 99, 12)) == 12


def test_thumbnails_are_checked() -> None:
    assert size(heatmaps.look_figure(look(3), thumbnails(3)))[0] > 500
    for channels in (1, 3):
        pixels = heatmaps.open_thumbnails(np.full((2, channels, 4, 5), 7, dtype=np.uint8), 2)
        assert pixels is not None
        assert [p.shape for p in pixels] == [(4, 5, 3)] * 2
    with pytest.raises(UserError, match="2 thumbnails were given for 3 images"):
        heatmaps.look_figure(look(3), thumbnails(2))
    with pytest.raises(UserError, match="thumbnail 2 cannot be read"):
        heatmaps.look_figure(look(2), [thumbnails(1)[0], b"no image"])


def test_looks_at_different_images_do_not_mix() -> None:
    with pytest.raises(UserError, match="different numbers of images"):
        heatmaps.gap_grid({"a": look(3), "b": look(4)})


def test_charts_are_deterministic_png_or_nothing() -> None:
    with_gaps, without = (
        compare([record("retrain"), record("finetune")])[0],
        compare([record("finetune", per_sample=None)])[0],
    )
    chart = charts.gap_chart(with_gaps)
    assert chart is not None
    assert chart == charts.gap_chart(with_gaps)
    assert size(chart)[0] > 500
    assert charts.gap_chart(without) is None
    assert charts.alignment_histograms(without) is None
    assert charts.alignment_histograms(with_gaps) is not None


def test_a_data_uri_is_the_picture() -> None:
    assert canvas.data_uri(b"abc") == "data:image/png;base64,YWJj"


def test_pairs_have_their_captions_as_rows_and_their_images_as_columns(drawn: list[Figure]) -> None:
    given = {**look(6), "of_pairs": True, "names": [f"caption {i} " + "long " * 9 for i in range(6)]}
    heatmaps.look_figure(given, thumbnails(6))
    heatmaps.gap_grid(dict.fromkeys(("retrain", "finetune", "neggrad", "l1_sparsity"), given), thumbnails(6))
    one, grid = drawn
    np.testing.assert_allclose(
        one.axes[0].images[0].get_array(), np.transpose(given["before"])
    )  # entry: image, caption
    np.testing.assert_allclose(one.axes[2].images[0].get_array(), np.transpose(given["gap"]))
    labels = [[t.get_text() for t in ax.get_yticklabels()] for ax in (*one.axes[:2], *grid.axes[:4])]
    assert [row[3].startswith("caption 3") for row in labels] == [True, False, True, False, True, False]
    assert all(len(text) <= heatmaps.CAPTION for text in labels[0])
    assert len(one.axes[0].images) == 1 + 6  # the pictures stand along the top alone


def test_accuracies_have_no_room_below_zero() -> None:
    def limits(*values: float) -> tuple[float, float]:
        bars = Bars("x", BLUE, {str(v): stat([v]) for v in values})
        return _limits(Panel("RA", [bars], {}, from_zero=False))

    assert limits(1.0, 90.0)[0] == 0
    assert 0 < limits(80.0, 90.0)[0] < 80
    assert limits(-1.0, 1.0)[0] < -1
