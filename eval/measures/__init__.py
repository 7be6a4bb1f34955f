"""The measures of a run: scores, intervals, calibration, agreement, cost; and thresholds fitted to it."""
