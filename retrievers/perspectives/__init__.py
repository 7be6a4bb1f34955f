"""Perspectives: ways of labelling, and the labelled texts that agents look up by them."""
