"""Compare setups, each a graph with its models and settings, on the same decided posts, and recommend one."""
