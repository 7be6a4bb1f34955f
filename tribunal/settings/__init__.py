"""The settings of a case: what there is to set, one class for each graph, and what is in force in a run."""
