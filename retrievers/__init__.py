"""The sources in which agents look things up."""
