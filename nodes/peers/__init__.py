"""The peers of every debate: one call, several draws of it, and a debate of equals."""
