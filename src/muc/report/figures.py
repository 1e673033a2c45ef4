"""All figures, as PNG bytes; `data_uri` puts one into a page."""

from muc.report.canvas import data_uri
from muc.report.charts import alignment_histograms, gap_chart, loss_curves
from muc.report.heatmaps import gap_grid, look_figure

__all__ = ["alignment_histograms", "data_uri", "gap_chart", "gap_grid", "look_figure", "loss_curves"]
