"""What the operator sees of a replica: log lines, metrics, traces."""
