"""One post through a graph to its record, kept, reviewed and explained."""
