"""What the operator sees of a replica: log lines, metrics, traces."""

COUNTED_IN = "PROMETHEUS_MULTIPROC_DIR"  # prometheus-client's own name for the folder that several processes count in
