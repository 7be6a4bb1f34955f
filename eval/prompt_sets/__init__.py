"""Two prompt sets over the same posts: what they differ in, what they cost, and which prompt changed which verdict."""
