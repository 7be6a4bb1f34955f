"""Fitting a screening classifier on posts that people decided, with a promise that holds for posts like them."""
