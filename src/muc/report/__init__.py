"""Result files -> tables, figures and one self-contained page. Imports no torch."""

from muc.report.build import write_report
from muc.report.cells import Cell, Table
from muc.report.tables import all_tables

__all__ = ["Cell", "Table", "all_tables", "write_report"]
