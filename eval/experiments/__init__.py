"""Run the tables of the papers as experiments, and write them with what was measured."""
