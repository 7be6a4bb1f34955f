"""Prompt sets from published repositories, out of the user's own clone. Nothing of theirs lies in ours."""
