"""The process and its machine: loops, workers, files, databases, the terminal."""
