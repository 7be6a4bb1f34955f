"""The settings of a case: one class for each graph, and the values in force in a run."""
