"""Compare setups, prompt sets and moderation logs on the same posts: each is a row of one table."""
