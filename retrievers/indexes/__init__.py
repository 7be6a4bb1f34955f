"""Indexes of texts that perspectives and precedents share, and the tables that these are built from."""
