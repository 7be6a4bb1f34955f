"""A decided case in words: one view for terminal, page, desk and letter. It needs no database."""
