"""Notices of a decision (Digital Services Act, article 17): what letters and statements of reasons have in common."""
