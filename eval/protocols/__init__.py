"""The protocols of the papers: every table's settings by name, and what a run that follows one departs from."""
