"""Telemetry of a replica: log lines, metrics, traces."""
