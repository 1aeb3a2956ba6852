"""The report: one HTML page that opens offline, from the document of an evaluation."""

from calibration.report.page import answer, render
from calibration.report.pictures import envelope_picture, traffic_picture

__all__ = ["answer", "envelope_picture", "render", "traffic_picture"]
